// Compression: does it pay, and does it have the memory that it needs?

import { signal } from "@preact/signals";
import { Chart, colorOf, type Line } from "../chart.tsx";
import { useFeed } from "../feed.ts";
import { byteRate, bytes, count, duration, exact, join, number, percent, perSecond, shareOf } from "../format.ts";
import { rate, rateOf, useReport } from "../report.ts";
import type { CompressionReport, ContextKind } from "../types.ts";
import { rangeInWords, type Feed } from "../series.ts";
import { Table, type Column } from "../table.tsx";
import { Fault, Skeleton, Tile } from "../ui.tsx";

/** What `codec.streams` means. */
const STREAMS: Record<string, string> = {
  "auto": "a context while it pays, then one match search for all recipients",
  "shared-match": "one match search for all recipients",
  "per-connection": "a context for each connection",
};

const COLUMNS: Column<ContextKind>[] = [
  { key: "kind", label: "Kind", width: 136, value: (row) => row.kind, show: (row) => row.kind.replace("_", ", ") },
  { key: "used", label: "In use", width: 80, isNumber: true, value: (row) => row.used, show: (row) => exact(row.used) },
  { key: "slot", label: "Bytes each", width: 96, isNumber: true, value: (row) => row.slot_bytes, show: (row) => join(bytes(row.slot_bytes)) },
  { key: "resident", label: "Resident", width: 92, isNumber: true, value: (row) => row.resident_bytes, show: (row) => join(bytes(row.resident_bytes)), title: (row) => `${exact(row.resident_bytes)} B` },
  { key: "opened", label: "Handed out", width: 104, isNumber: true, value: (row) => row.opened_total, show: (row) => exact(row.opened_total) },
  { key: "refused", label: "Refused", width: 84, isNumber: true, value: (row) => row.refused_total, show: (row) => (row.refused_total > 0 ? { text: `${exact(row.refused_total)} ▲`, look: "warn" } : exact(row.refused_total)) },
];
const sort = signal({ key: "resident", isDescending: true });

const SERIES = ["compression_", "shared_match_", "sent_bytes", "sent_body_bytes", "sent_frame_wire_bytes", "sent_frame_raw_bytes", "sent_frame_compression"];
/** Values over which quotients are taken: single seconds jump. */
const SPAN = 15;

/** One line over another, both summed over the last values; a gap where nothing was sent. */
function quotient(above: readonly (number | null)[], below: readonly (number | null)[], share = shareOf): (number | null)[] {
  const sum = (values: readonly (number | null)[], end: number) => values.slice(Math.max(0, end - SPAN + 1), end + 1).reduce<number>((all, value) => all + (value ?? 0), 0);
  return below.map((each, index) => {
    const value = each === null ? NaN : share(sum(above, index), sum(below, index));
    return Number.isNaN(value) ? null : value;
  });
}

const capital = (text: string): string => text[0]!.toUpperCase() + text.slice(1);

/** A mean of counts, which may be below one. */
const mean = (sum: number, count: number): number => (count > 1e-3 ? Math.max(0, sum) / count : NaN);

/** A quotient of two families by codec, in the order of their bytes. */
function byCodec(feed: Feed, above: string, below: string, share = shareOf): (Line & { whole: number })[] {
  return ["zstd-stream", "zlib-stream", "permessage-deflate"].map((codec, index) => {
    const [a, b] = [above, below].map((family) => feed.line(family, "", (labels) => labels.codec === codec)) as [(number | null)[], (number | null)[]];
    return { label: codec, values: quotient(a, b, share), whole: share(feed.total(a), feed.total(b)), color: colorOf(index) };
  }).filter(({ values }) => values.some((value) => value !== null));
}

export function Compression() {
  const report = useReport<CompressionReport>("node/compression");
  const feed = useFeed(SERIES);
  const { value, before, fault } = report;
  if (!value) return fault ? <Fault fault={fault} retry={report.retry} /> : <><Skeleton height={40} /><div class="tiles">{[0, 1, 2, 3, 4, 5].map((key) => <Skeleton key={key} height={134} />)}</div><div class="charts"><Skeleton height={268} /><Skeleton height={268} /></div></>;
  const shared = { at: feed.series.at, changed: feed.changed.value, isLoaded: feed.isLoaded.value };
  const held = value.contexts.reduce((sum, kind) => sum + kind.resident_bytes, 0);
  const used = value.contexts.reduce((sum, kind) => sum + kind.used, 0);
  const [sent, bodies] = [feed.now("sent_bytes"), feed.now("sent_body_bytes")];
  const match = value.shared_match;
  const upgrades = value.upgrades;
  const written = rateOf(report, (each) => each.shared_match.written_total);
  const fallbacks = rateOf(report, (each) => each.shared_match.fallbacks_total);
  const late = rateOf(report, (each) => each.shared_match.late_total);
  const stored = rate(value.stored_total, before?.stored_total, value, before);
  const isBounded = value.bytes_max > 0 && value.bytes_max < 2 ** 60;
  // Streams of one kind may outlive a change of the setting.
  const hasContexts = value.streams !== "shared-match" || value.contexts.some(({ opened_total }) => opened_total > 0);
  const hasMatches = value.streams === "shared-match" || match.written_total > 0;
  const moves = value.context_moves;
  const moved = moves.crowd_total + moves.cpu_total + moves.memory_total;
  const ratios = byCodec(feed, "sent_frame_wire_bytes", "sent_frame_raw_bytes");
  const times = byCodec(feed, "sent_frame_compression_seconds", "sent_frame_compressions_timed", mean);
  const told = ratios.filter(({ whole }) => Number.isFinite(whole)).map(({ label, whole }) => `${label} ${join(percent(whole))}`).join(", ");
  const share = shareOf(feed.total(feed.line("sent_bytes")), feed.total(feed.line("sent_body_bytes")));
  return (
    <>
      <p class="answer">{match.mismatches_total > 0
        ? <span class="bad">✕ {exact(match.mismatches_total)} messages did not decode to what they were made from: set codec.streams to "per-connection".</span>
        : stored > 0 ? <span class="warn">▲ {join(perSecond(stored))} messages are sent uncompressed for lack of a context.</span>
        : Number.isFinite(share) ? <>{capital(rangeInWords())} the node sent {join(percent(share))} of the uncompressed bytes, and compression holds {join(bytes(held + match.heap_bytes))} of memory.</>
        : <>Nothing was sent {rangeInWords()}, so there is no ratio; compression holds {join(bytes(held + match.heap_bytes))} of memory.</>}</p>
      <div class="tiles">
        <Tile label="Sent of uncompressed" shown={percent(share)} value={share} trend={quotient(feed.line("sent_bytes"), feed.line("sent_body_bytes"))} note={sent >= 1 ? <>now {join(byteRate(sent))} of {join(byteRate(bodies))}, envelopes included</> : "nothing is sent now"} />
        <Tile label="Streams" shown={[value.streams, ""]} value={NaN} note={STREAMS[value.streams]} />
        {hasMatches && <>
          <Tile label="Match search holds" shown={bytes(match.heap_bytes)} value={match.heap_bytes} note="history and index, shared by all streams" />
          <Tile label="Texts written" shown={perSecond(written)} value={written} note={<>{number(rateOf(report, (each) => each.shared_match.parses_total))} parses/s</>} />
          <Tile label="Fallbacks" shown={percent(written > 0 ? fallbacks / written : NaN)} value={fallbacks} note="not with the parse that was tried first" />
          <Tile label="Late" shown={percent(written > 0 ? late / written : NaN)} value={late} note="with no shared parse" />
        </>}
        {hasContexts && <>
          <Tile label="Contexts hold" shown={bytes(held)} value={held} tone={isBounded && held > 0.9 * value.bytes_max ? "warn" : undefined} note={isBounded ? <>{join(percent(held / value.bytes_max))} of {join(bytes(value.bytes_max))}</> : "without a bound"} />
          <Tile label="Contexts in use" shown={count(used)} value={used} note={<>{join(bytes(used > 0 ? held / used : 0))} each</>} />
          <Tile label="Larger contexts" shown={upgrades ? count(upgrades.granted_total) : ["off", ""]} value={upgrades?.granted_total ?? NaN} note={upgrades ? <>granted; {exact(upgrades.denied_total)} denied, {exact(upgrades.reclaimed_total)} taken back</> : "codec.upgrades"} />
          {value.streams === "auto" && <Tile label="Left their context" shown={count(moved)} value={moved} tone={moves.memory_total > 0 ? "warn" : undefined} note={moved > 0 ? <>{exact(moves.crowd_total)} for crowds, {exact(moves.cpu_total)} for CPU time, {exact(moves.memory_total)} for memory</> : "for one match search with others"} />}
          <Tile label="Sent uncompressed" shown={perSecond(stored)} value={stored} tone={stored > 0 ? "warn" : undefined} note="messages, for lack of a context" />
        </>}
      </div>
      <div class="charts">
        {(ratios.length > 0 || times.length > 0) && <>
          <Chart {...shared} title="Sent of uncompressed bytes, by codec" format={percent} lines={ratios} says={told ? `${told} ${rangeInWords()}: less is better.` : undefined} empty="No dispatch was compressed in this time." />
          <Chart {...shared} title="Time to compress one dispatch" format={duration} lines={times} says={times.length > 0 ? "Mean of a sample; what many connections share is counted for the first." : undefined} empty="No dispatch was compressed in this time." />
        </>}
        {hasMatches && <Chart {...shared} title="Shared matches" format={perSecond} lines={[{ label: "Texts written", values: feed.line("shared_match_messages") }, { label: "Parses", values: feed.line("shared_match_parses") }, { label: "Fallbacks", values: feed.line("shared_match_retries") }, { label: "Late", values: feed.line("shared_match_evicted") }, { label: "Alone", values: feed.line("shared_match_standalone") }]} says={`${exact(match.checked_total)} messages were read back before they were sent; ${exact(match.mismatches_total)} were wrong.`} />}
        {hasContexts && <>
          <Chart {...shared} title="Contexts in use" format={count} lines={feed.by("compression_contexts", "kind").map(({ key, values }) => ({ label: key.replace("_", ", "), values }))} says={`${exact(used)} contexts now.`} />
          <Chart {...shared} title="Memory of contexts" format={bytes} stacked lines={feed.by("compression_slab_bytes", "kind").map(({ key, values }) => ({ label: key.replace("_", ", "), values }))} limit={isBounded && held > value.bytes_max / 20 ? { value: value.bytes_max, label: "limit" } : undefined} says={isBounded ? `${join(bytes(held))} of at most ${join(bytes(value.bytes_max))}.` : "Resident bytes of their slabs."} />
        </>}
        <section class={`card ${hasContexts ? "wide" : ""}`}>
          <h2>Contexts</h2>
          <p class="says">{hasContexts ? "" : `No connection has one: ${value.streams} streams need none. `}{exact(value.deflate_shared_bodies_total)} messages were compressed once for permessage-deflate.</p>
          {hasContexts && <Table label="Contexts" rows={value.contexts} columns={COLUMNS} id={(row) => row.kind} sort={sort.value} onSort={(next) => { sort.value = next; }} empty="No kind of context." height={200} />}
          <h2>Larger contexts</h2>
          {upgrades
            ? <p class="says"><b>{upgrades.standing}</b>: {upgrades.explanation} {number(upgrades.share_permille / 10)} % of new connections {hasContexts ? "may" : "would"} get one. Granted {exact(upgrades.granted_total)}, denied {exact(upgrades.denied_total)}, taken back {exact(upgrades.reclaimed_total)}.</p>
            : <p class="says">The loop is off: codec.upgrades is "off", so no connection gets a larger context.</p>}
        </section>
      </div>
    </>
  );
}
