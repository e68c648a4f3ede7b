// The meter's pane: what this session costs, and what it would have cost otherwise.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { VNode } from "preact";
import { type Codec, codecName, latencyMs, linkLog, linkState, seconds } from "./link.ts";
import { bytes, canCompare, type Connection, connections, current, exact, ofType, passive, ratio, type Tally, timeline, wireBytes, zlibBytes, zstdBytes } from "./meter.ts";
import { cpuUs, followStream, moveReason, ownStream, writerName } from "./stream.ts";
import { watch } from "./topics.ts";
import { isNarrow } from "./ui.tsx";

export const isMeterOpen = signal(false);
/** How the node writes streams (codec.streams). */
export const streams = signal("");

export interface MeterActions { codecs: Codec[]; switchCodec(codec: Codec): void; drop(): void }

/** Always in view: one line that says what the pane explains. */
export function MeterStrip({ onOpen }: { onOpen: () => void }): VNode {
  watch("meter");
  const now = current();
  const wire = now ? wireBytes(now, now) : NaN;
  return (
    <button type="button" class="meter-strip" aria-expanded={isMeterOpen.value} onClick={onOpen}>
      <span class="strip-top"><b>{now ? bytes(wire) : "–"}</b><span class="quiet">of {now ? bytes(now.raw) : "–"}</span><span class="factor">{now && wire ? ratio(now.raw, wire) : ""}</span></span>
      <span class="strip-bar" aria-hidden="true"><i style={{ transform: `scaleX(${now?.raw ? Math.min(1, (wire || 0) / now.raw) : 0})` }} /></span>
      <span class="strip-name"><span>{now ? codecName(now.codec) : "not connected"}</span><span class="strip-open">What each byte costs</span></span>
    </button>
  );
}

function Bars(): VNode {
  const now = current();
  if (!now) return <p class="empty">Nothing was received yet.</p>;
  const rows: { name: string; note: string; value: number; kind: string }[] = [{ name: "Plain JSON", note: "no compression", value: now.raw, kind: "plain" }];
  if (canCompare()) {
    rows.push({ name: "zlib-stream", note: "zlib level 6, computed here", value: zlibBytes(now), kind: "other" });
    rows.push({ name: "zstd-stream", note: "zstd level 6, tuned, computed here", value: zstdBytes(now), kind: "other" });
  }
  rows.push({ name: now.codec === "none" ? "Plain, as sent" : codecName(now.codec), note: now.isEstimate ? "this connection, estimate" : "this connection, received", value: wireBytes(now, now), kind: now.isEstimate ? "own estimate" : "own" });
  return (
    <div class="bars" role="table" aria-label="What this connection's messages cost by codec">
      {rows.map((row) => (
        <div class={`bar-row ${row.kind}`} role="row" key={row.note}>
          <span class="bar-label" role="rowheader"><b>{row.name}</b><span class="quiet">{row.note}</span></span>
          <span class="bar-track" aria-hidden="true"><i style={{ transform: `scaleX(${now.raw ? Math.min(1, Math.max((row.value || 0) / now.raw, 0.004)) : 0})` }} /></span>
          <span class="bar-value" role="cell" title={exact(row.value)}>{bytes(row.value)}</span>
          <span class="bar-share" role="cell">{now.raw && !Number.isNaN(row.value) ? `${percent(row.value / now.raw)} %` : ""}</span>
        </div>
      ))}
    </div>
  );
}

/** From here on a difference is told. */
const MORE = 1.02;

/** Where the bytes are that a library would have saved; null if there are none. */
function Why(): VNode | null {
  watch("meter");
  const now = current();
  if (!now || now.isEstimate || !canCompare()) return null;
  const all = wireBytes(now, now);
  const [codec, of] = zlibBytes(now) <= zstdBytes(now) ? ["zlib-stream", zlibBytes] as const : ["zstd-stream", zstdBytes] as const;
  const more = all - of(now);
  if (!(all > of(now) * MORE)) return null;
  const types = [...now.types].map(([name, tally]) => ({ name, more: wireBytes(tally, now) - of(tally) })).filter((type) => type.more > 0).sort((a, b) => b.more - a.more).slice(0, 3);
  return (
    <p class="small why"><b>Why more than {codec}?</b> It is {bytes(more)} more, most of it in {types.map(({ name, more }, at) => <>{at > 0 && (at === types.length - 1 ? " and " : ", ")}<span class="mono">{name}</span> ({bytes(more)})</>)}.
      {streams.value === "shared-match" && " What only this connection receives (READY, member lists, answers) has a history that nobody shares. A message to many is compressed once for all of them; there the node is ahead, and in memory."}</p>
  );
}

/** Who writes this stream on the node, and what that costs the node. */
function NodeCost(): VNode {
  watch("meter");
  const isReady = linkState.value.phase === "ready";
  // Another connection has another stream.
  useEffect(() => (isReady ? followStream() : undefined), [isReady, current()?.startedAt]);
  const stream = ownStream.value;
  if (!stream) return <p class="quiet small">What this stream costs the node: no answer yet.</p>;
  const why = moveReason(stream), us = cpuUs(stream);
  return (
    <section class="node-cost" aria-label="What this stream costs the node">
      <p class="small">Written by <b>{writerName(stream)}</b>{stream.since_ms !== null && <> for {duration(stream.since_ms)}</>}{why && <>, because {why}</>}.</p>
      {stream.memory_bytes !== null && <p class="small">It takes <b title={exact(stream.memory_bytes)}>{bytes(stream.memory_bytes)}</b> of the node's memory{us === null ? "" : <> and <b>{us < 10 ? us.toFixed(1) : Math.round(us)} µs</b> of CPU time for each message (mean of {stream.timed_total === 1 ? "one" : stream.timed_total} that the node timed)</>}. The two computed bars stand for a context for each connection: zlib 268 kB, zstd 713 kB.</p>}
      {streams.value === "auto" && stream.moved === null && stream.writer?.startsWith("per-connection") && <p class="quiet small">When most of what you receive goes to many others too, or the node lacks memory or time, shared-match goes on with this stream in 3 kB.</p>}
    </section>
  );
}

const duration = (ms: number): string => (ms < 60_000 ? `${Math.round(ms / 1000)} s` : ms < 3_600_000 ? `${Math.round(ms / 60_000)} min` : `${(ms / 3_600_000).toFixed(1)} h`);

const percent = (share: number): string => (share < 0.1 ? (share * 100).toFixed(1) : String(Math.round(share * 100)));

function Timeline(): VNode {
  const end = Math.floor(performance.now() / 1000), span = 60;
  const recent = timeline.filter((second) => second.at > end - span && second.at < end);
  // The burst of a log-in would flatten everything else: the tallest few are cut, and the caption names them.
  const heights = recent.map((second) => second.raw).sort((a, b) => b - a);
  const tallest = heights[0] ?? 0, typical = (heights[Math.min(4, heights.length - 1)] ?? 0) * 1.5;
  const most = Math.max(1000, tallest > typical * 3 ? typical : tallest);
  const width = 600, height = 72;
  const slot = width / span;
  return (
    <figure class="timeline">
      <figcaption>Bytes per second, last minute: <span class="key raw">as JSON</span> <span class="key wire">received</span> <span class="quiet">· top is {bytes(most)}/s{tallest > most ? `, one had ${bytes(tallest)}` : ""}</span></figcaption>
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={`Bytes per second in the last minute, at most ${bytes(most)} as JSON`}>
        <line x1="0" x2={width} y1={height - 0.5} y2={height - 0.5} class="axis" />
        {recent.map((second) => {
          const x = (second.at - (end - span)) * slot;
          const raw = Math.min(1, second.raw / most) * (height - 4), wire = Math.min(1, second.wire / most) * (height - 4);
          return <g key={second.at}><rect class="raw" x={x + 1} width={slot - 2} y={height - raw} height={raw} /><rect class="wire" x={x + 1} width={slot - 2} y={height - wire} height={wire} /></g>;
        })}
      </svg>
    </figure>
  );
}

function Types(): VNode {
  const now = current();
  const rows = [...(now?.types ?? [])].sort((a, b) => b[1].raw - a[1].raw).slice(0, 12);
  const cells = (tally: Tally): VNode => {
    const wire = wireBytes(tally, now!);
    return <><td class="number">{tally.count.toLocaleString("en")}</td><td class="number" title={exact(tally.raw)}>{bytes(tally.raw)}</td><td class="number quiet" title={exact(zlibBytes(tally))}>{bytes(zlibBytes(tally))}</td><td class="number quiet" title={exact(zstdBytes(tally))}>{bytes(zstdBytes(tally))}</td><td class="number" title={exact(wire)}>{bytes(wire)}</td><td class="number">{ratio(tally.raw, wire)}</td></>;
  };
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="By event type">
      <table>
        <thead><tr><th>Event</th><th class="number">Count</th><th class="number">As JSON</th><th class="number">zlib</th><th class="number">zstd</th><th class="number">Received</th><th class="number">Ratio</th></tr></thead>
        <tbody>{rows.map(([name, tally]) => <tr key={name}><th scope="row" class="mono">{name}</th>{cells(tally)}</tr>)}</tbody>
        {now && <tfoot><tr><th scope="row">All</th>{cells(now)}</tr></tfoot>}
      </table>
    </div>
  );
}

function perMessage(connection: Connection): string {
  const tally = connection.types.get("MESSAGE_CREATE");
  if (!tally?.count) return "–";
  const each = (bytes: number): string => Math.round(bytes / tally.count).toLocaleString("en");
  const wire = wireBytes(tally, connection);
  return `${each(tally.raw)} → ${Number.isNaN(wire) ? "…" : each(wire)} B`;
}

/** What summaries of passive guilds stood for, compared in the same unit as what they cost. */
function Passive(): VNode {
  if (passive.updates === 0) return <p class="small">A guild that is not on the screen sends a summary about every 30 s instead of its messages. None has come yet.</p>;
  const summary = ofType("PASSIVE_UPDATE_V2"), message = ofType("MESSAGE_CREATE");
  const each = message.count ? { raw: message.raw / message.count, wire: message.wire / message.count } : null;
  const saved = each ? { raw: passive.channels * each.raw - summary.raw, wire: passive.channels * each.wire - summary.wire } : null;
  return (
    <p class="small">{passive.updates.toLocaleString("en")} {passive.updates === 1 ? "summary" : "summaries"} ({bytes(summary.wire)} received, {bytes(summary.raw)} as JSON) named {passive.channels.toLocaleString("en")} {passive.channels === 1 ? "channel" : "channels"} with new messages, of which none was sent. {saved && saved.wire > 0
      ? <>One message for each of them would have been more by <b title={exact(saved.wire)}>{bytes(saved.wire)}</b> received ({bytes(saved.raw)} as JSON): at least that was saved. How many messages there were, the summary does not say.</>
      : <>So far they cost as much as one message for each would have: the saving begins with the second one.</>}</p>
  );
}

function Compare(): VNode | null {
  if (connections.length < 2) return null;
  return (
    <>
      <h3>Connections of this page</h3>
      <div class="table-box" tabIndex={0} role="region" aria-label="Connections of this page">
        <table>
          <thead><tr><th>Codec</th><th class="number">As JSON</th><th class="number">Received</th><th class="number">Ratio</th><th class="number">Per message</th></tr></thead>
          <tbody>{connections.map((connection) => (
            <tr key={connection.startedAt} class={connection === current() ? "current" : ""}><th scope="row">{codecName(connection.codec)}{connection === current() && <span class="quiet"> now</span>}</th>
              <td class="number" title={exact(connection.raw)}>{bytes(connection.raw)}</td><td class="number" title={exact(wireBytes(connection, connection))}>{connection.isEstimate ? "≈ " : ""}{bytes(wireBytes(connection, connection))}</td><td class="number">{ratio(connection.raw, wireBytes(connection, connection))}</td><td class="number">{perMessage(connection)}</td></tr>
          ))}</tbody>
        </table>
      </div>
    </>
  );
}

export function Meter({ actions, onClose }: { actions: MeterActions; onClose: () => void }): VNode {
  watch("meter");
  const now = current();
  const state = linkState.value;
  const wire = now ? wireBytes(now, now) : NaN;
  return (
    <div class="meter" role={isNarrow.value ? "main" : "complementary"} aria-label="Meter">
      <div class="pane-head"><h2>What each byte costs</h2><button type="button" class="icon-button" aria-label="Close the meter" onClick={onClose}><svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path fill="currentColor" d="m4 3 4 4 4-4 1 1-4 4 4 4-1 1-4-4-4 4-1-1 4-4-4-4z" /></svg></button></div>
      <div class="meter-scroll" tabIndex={-1}>
        <p class="claim">{now && wire ? <>This connection received <b>{bytes(wire)}</b> that say what <b>{bytes(now.raw)}</b> of JSON would: <b class="accent">{ratio(now.raw, wire)}</b>{now.raw / wire >= 1.05 ? " smaller." : " the size."}</> : "Connecting…"}</p>
        <Bars />
        <Why />
        <NodeCost />
        {now?.isEstimate && <p class="quiet small">Here the browser compresses each message by itself (permessage-deflate) and does not say to how many bytes. The estimate deflates each message alone, as the node does.</p>}
        {now && now.skipped > 0 && <p class="quiet small">{now.skipped.toLocaleString("en")} messages came faster than this page could compress them for the comparison; the computed bars are scaled from the others.</p>}
        <Timeline />
        <h3 id="codec-title">Codec</h3>
        <div class="segments" role="group" aria-labelledby="codec-title">
          {actions.codecs.map((codec) => <button type="button" key={codec} aria-pressed={now?.codec === codec} disabled={state.phase !== "ready"} onClick={() => { if (now?.codec !== codec) actions.switchCodec(codec); }}>{codecName(codec)}</button>)}
        </div>
        <p class="quiet small">A switch reconnects and resumes the session. Each connection begins with an empty history: the first messages cost more.</p>
        <Compare />
        <h3>By event</h3>
        <Types />
        <h3>Passive guilds</h3>
        <Passive />
        <h3>Connection</h3>
        <p class="small">{state.phase === "ready" ? `Connected${latencyMs.value !== null ? `, ${seconds(latencyMs.value)} to the node and back` : ""}.` : "Not connected."} <button type="button" class="link" disabled={state.phase !== "ready"} onClick={actions.drop}>Break the connection</button> to see it resume.</p>
        <ol class="log">{linkLog.value.slice().reverse().map((line, at) => <li key={linkLog.value.length - at} class={line.kind}><time>{new Date(line.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" })}</time><span>{line.text}</span></li>)}</ol>
        <p class="quiet small">Sizes are those of WebSocket messages with their frame headers; TCP and TLS come on top everywhere alike. kB = 1,000 bytes.</p>
      </div>
    </div>
  );
}
