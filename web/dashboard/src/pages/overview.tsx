// Overview: is anything wrong?

import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { node } from "../api.ts";
import { Callers } from "../callers.tsx";
import { Chart, largest } from "../chart.tsx";
import { useFeed } from "../feed.ts";
import { GROWN, GROWTH_SERIES, useGrowth, type Growth } from "../growth.ts";
import { byteRate, bytes, cores, count, counted, duration, exact, join, number, percent, perSecond, shareOf, words } from "../format.ts";
import type { Feed } from "../series.ts";
import { MovesOfGuilds, Nodes } from "../nodes.tsx";
import { rate, useReport } from "../report.ts";
import type { Loop, MessageType, Named, OverviewReport, Owner } from "../types.ts";
import { Table, type Column } from "../table.tsx";
import { Ago, Bars, Fault, Skeleton, Tile } from "../ui.tsx";

const SERIES = [
  "connections", "sessions", "sockets", "dispatches", "sent_bytes", "sent_body_bytes", "received_bytes", "event_to_write_seconds:", "loop_busy_seconds",
  "loop_waiting_seconds", "identifies", "resumes", "connection_closes", "slow_consumers", "process_", "memory_", "store_", "tokens_refused", "guild_mailbox",
  "relay_ghosts", "canary_seconds", ...GROWTH_SERIES, "compression_slab_bytes", "compression_uncompressed_messages", "shared_match_heap_bytes", "rest_answers",
];

/** Operations of the store and REST requests overlap and wait: their time is no share of a core. */
const WAITING_LOOPS = ["store", "rest"];
const cpuLoops = (feed: Feed) => feed.by("loop_busy_seconds", "loop").filter(({ key }) => !WAITING_LOOPS.includes(key));

interface Finding { tone: "bad" | "warn"; text: string; href: string; link: string }

const OWNERS_SHOWN = 11;
/** Memory divided by fewer connections is that of the program, not of a connection. */
const CONNECTIONS_LEAST = 100;

/** The largest owners, the others together, and what no owner accounts for. */
function byOwner({ memory }: OverviewReport) {
  const sum = (owners: Owner[]) => owners.reduce((total, owner) => total + owner.bytes, 0);
  const others = memory.owners.slice(OWNERS_SHOWN);
  const rows: { label: string; value: number; note?: string; color: string }[] = memory.owners.slice(0, OWNERS_SHOWN).map(({ name, bytes, elements, is_exact }) => ({ label: `${is_exact ? "" : "≈ "}${words(name)}`, value: bytes, note: elements > 1 ? exact(elements) : "", color: "#2f5fe0" }));
  if (others.length > 0) rows.push({ label: `≈ ${exact(others.length)} others`, value: sum(others), color: "#7a869a" });
  rows.push({ label: "without an owner", value: Math.max(0, memory.resident_bytes - sum(memory.owners)), color: "#7a869a" });
  return rows.sort((a, b) => b.value - a.value);
}

const lastMinute = (values: (number | null)[], step: number): number => values.slice(-Math.ceil(60 / step)).reduce<number>((sum, value) => sum + (value ?? 0) * step, 0);

/** What an operator should look at, worst first. */
function findings(feed: Feed, growth: { types: Map<string, Growth>; ago: string }): Finding[] {
  const found: Finding[] = [];
  const { at } = feed.series;
  const step = at.length > 1 ? Math.max(1, Math.round((at.at(-1)! - at[0]!) / (at.length - 1))) : 1;
  const add = (tone: Finding["tone"], text: string, href: string, link: string) => found.push({ tone, text, href, link });
  if (node.value && !node.value.ready) add("bad", `Not ready: ${node.value.unready}.`, "#/operations", "Operations");
  if (feed.now("store_writes_stopped") > 0) add("bad", "Writes are refused; reads continue.", "#/operations", "Operations");
  const failed = lastMinute(feed.line("store_commits_failed"), step);
  if (failed >= 1) add("bad", `${number(failed)} commits to the store failed in the last minute.`, "#/operations", "Operations");
  const slow = lastMinute(feed.line("slow_consumers"), step);
  if (slow >= 0.5) add("warn", `${number(Math.round(slow))} ${Math.round(slow) === 1 ? "client was" : "clients were"} cut in the last minute because ${Math.round(slow) === 1 ? "it does" : "they do"} not read.`, "#/operations", "Slow consumers");
  const ghosts = feed.now("relay_ghosts");
  if (ghosts > 0) add("bad", `${counted(ghosts, "relay")} ${ghosts === 1 ? "does" : "do"} not deliver: sessions of a large guild receive nothing.`, "#/operations", "Warnings");
  for (const { name, before, now, share } of growth.types.values()) if (now >= before * GROWN && share >= 0.01) add("warn", `${name} has grown to ${number(now / before)} × its size: ${join(bytes(before))} ${growth.ago}, ${join(bytes(now))} in the last minute.`, "#/bandwidth", "Bandwidth");
  const p99 = feed.now("event_to_write_seconds", "p99");
  if (p99 > 0.25) add("warn", `One delivery in a hundred takes longer than ${join(duration(p99))}.`, "#/guilds", "Guilds");
  for (const { key, now } of cpuLoops(feed)) {
    const loops = feed.of("loop_busy_seconds").filter(([, name]) => name.labels.loop === key).length;
    if (now / Math.max(1, loops) > 0.85) add("warn", `The loop “${words(key)}” is busy ${join(percent(now / loops))} of the time.`, "#/guilds", "Guilds by busy time");
  }
  const refused = lastMinute(feed.line("sockets_refused"), step);
  if (refused >= 1) add("warn", `${number(Math.round(refused))} sockets were refused in the last minute.`, "#/operations", "Refusals");
  const stored = lastMinute(feed.line("compression_uncompressed_messages"), step);
  if (stored >= 1) add("warn", `${number(stored)} messages were sent uncompressed in the last minute for lack of a context.`, "#/compression", "Compression");
  return found.sort((a, b) => (a.tone === b.tone ? 0 : a.tone === "bad" ? -1 : 1));
}

interface TypeRow { loop: string; type: MessageType; perSecond: number; busy: number }

const TYPES: Column<TypeRow>[] = [
  { key: "name", label: "Type or route", width: 296, value: ({ type }) => type.name, show: ({ loop, type }) => (loop === "rest" ? type.name : words(type.name)), title: ({ type }) => type.name },
  { key: "loop", label: "Loop", width: 112, value: ({ loop }) => loop, show: ({ loop }) => (loop === "rest" ? "REST" : words(loop)) },
  { key: "perSecond", label: "Handled/s", width: 96, isNumber: true, value: (row) => row.perSecond, title: (row) => `${exact(row.type.times.count_total)} since the start` },
  { key: "busy", label: "Time/s", width: 88, isNumber: true, value: (row) => row.busy, show: (row) => join(duration(row.busy)), title: (row) => `${join(duration(row.type.times.ns_total / 1e9))} since the start` },
  { key: "p50", label: "p50", width: 80, isNumber: true, value: ({ type }) => type.times.p50_ns, show: ({ type }) => join(duration(type.times.p50_ns / 1e9)) },
  { key: "p99", label: "p99", width: 80, isNumber: true, value: ({ type }) => type.times.p99_ns, show: ({ type }) => join(duration(type.times.p99_ns / 1e9)) },
  { key: "max", label: "Longest", width: 88, isNumber: true, value: ({ type }) => type.times.max_ns, show: ({ type }) => join(duration(type.times.max_ns / 1e9)) },
];
const typeSort = signal({ key: "busy", isDescending: true });

/** Message types of all loops of a kind together: their counts are added, and of their quantiles the largest is shown. */
function typeRows(report: OverviewReport, before: OverviewReport | undefined): TypeRow[] {
  const sums = (loops: readonly Loop[]) => {
    const all = new Map<string, TypeRow>();
    for (const loop of loops) for (const type of loop.types) {
      const key = `${loop.name} ${type.name}`;
      const { times } = all.get(key)?.type ?? { times: { count_total: 0, ns_total: 0, max_ns: 0, p50_ns: 0, p99_ns: 0, buckets: [] } };
      const of = type.times;
      all.set(key, { loop: loop.name, perSecond: 0, busy: 0, type: { name: type.name, times: { count_total: times.count_total + of.count_total, ns_total: times.ns_total + of.ns_total, max_ns: Math.max(times.max_ns, of.max_ns), p50_ns: Math.max(times.p50_ns, of.p50_ns), p99_ns: Math.max(times.p99_ns, of.p99_ns), buckets: [] } } });
    }
    return all;
  };
  const earlier = before && sums(before.loops);
  const known = (value: number) => (Number.isNaN(value) ? 0 : value);
  return [...sums(report.loops)].map(([key, row]) => {
    const old = earlier?.get(key)?.type.times;
    const per = (now: number, then: number | undefined) => (before ? known(rate(now, then ?? 0, report, before)) : 0);
    return { ...row, perSecond: per(row.type.times.count_total, old?.count_total), busy: per(row.type.times.ns_total, old?.ns_total) / 1e9 };
  });
}

const named = (list: readonly Named[], color: string) => list.filter(({ value }) => value > 0).sort((a, b) => b.value - a.value).map(({ name, value }) => ({ label: name, value, color }));

export function Overview() {
  const feed = useFeed(SERIES);
  const { value: report, before, changed } = useReport<OverviewReport>("node/overview", () => 2_000);
  const types = useMemo(() => (report ? typeRows(report, before) : []), [changed]);
  const growth = useGrowth(feed);
  const canaries = feed.by("canary_seconds", "members_from", "p99");
  if (feed.fault.value && !feed.isLoaded.value) return <Fault fault={feed.fault.value} retry={() => feed.start()} />;
  const { at } = feed.series;
  const shared = { at, changed: feed.changed.value, isLoaded: feed.isLoaded.value };
  const connections = feed.now("connections");
  const resumable = feed.now("sessions", "", (labels) => labels.state === "resumable");
  const deliveries = feed.now("dispatches");
  const sent = feed.now("sent_bytes");
  const bodies = feed.now("sent_body_bytes");
  const [p50, p99] = [feed.now("event_to_write_seconds", "p50"), feed.now("event_to_write_seconds", "p99")];
  const cpu = feed.now("process_cpu_seconds");
  const memory = feed.now("process_resident_memory_bytes");
  const loops = cpuLoops(feed);
  const found = findings(feed, growth);
  const state = node.value;
  if (!feed.isLoaded.value) return <><Skeleton height={40} /><div class="tiles">{[0, 1, 2, 3, 4, 5].map((key) => <Skeleton key={key} height={134} />)}</div><div class="charts">{[0, 1, 2, 3].map((key) => <Skeleton key={key} height={268} />)}</div></>;
  return (
    <>
      <section class="findings" aria-label="Findings">
        {found.length === 0
          ? <p class="good"><b>✓ Nothing needs you.</b> {state && <>Version {state.version}, started <Ago at={Date.parse(state.started_at)} />.</>}</p>
          : <ul>{found.map((finding) => <li key={finding.text} class={finding.tone}><b>{finding.tone === "bad" ? "✕ Error" : "▲ Warning"}</b> {finding.text} <a href={finding.href}>{finding.link}</a></li>)}</ul>}
      </section>
      <Nodes />
      <div class="tiles">
        <Tile label="Gateway connections" shown={count(connections)} value={connections} trend={feed.line("connections")} note={<>{exact(resumable || 0)} more can resume</>} />
        <Tile label="Deliveries" shown={perSecond(deliveries)} value={deliveries} trend={feed.line("dispatches")} note={connections >= 1 ? <>{join(perSecond(deliveries / connections))} for each connection</> : "no client is connected"} />
        <Tile label="Sent" shown={byteRate(sent)} value={sent} trend={feed.line("sent_bytes")} note={bodies >= 1 ? <>{join(percent(shareOf(sent, bodies)))} of {join(byteRate(bodies))} uncompressed</> : "nothing to send"} />
        <Tile label="Delivery latency, p99" shown={duration(p99)} value={p99} trend={feed.line("event_to_write_seconds", "p99")} tone={p99 > 0.25 ? "warn" : undefined} note={Number.isFinite(p50) ? <>half within {join(duration(p50))}</> : "no delivery in this second"} />
        <Tile label="CPU" shown={cores(cpu)} value={cpu} trend={feed.line("process_cpu_seconds")} note={<>{join(cores(loops.reduce((sum, { now }) => sum + now, 0)))} in accounted loops</>} />
        <Tile label="Memory" shown={bytes(memory)} value={memory} trend={feed.line("process_resident_memory_bytes")} note={connections >= CONNECTIONS_LEAST ? <>{join(bytes(memory / connections))} for each connection</> : report?.memory.limit_bytes ? <>of at most {join(bytes(report.memory.limit_bytes))}</> : "of the whole process"} />
      </div>
      <div class="charts">
        <Chart {...shared} title="Deliveries per second" says={`${join(perSecond(deliveries))} now.`} format={perSecond} lines={[{ label: "Deliveries", values: feed.line("dispatches") }]} />
        <Chart {...shared} title="Delivery latency" says="From a durable event to the last frame of a partition." format={duration} lines={[{ label: "p99", values: feed.line("event_to_write_seconds", "p99") }, { label: "p50", values: feed.line("event_to_write_seconds", "p50") }]} empty="No event was delivered in this time." />
        <Chart {...shared} title="CPU by loop" says={loops[0] ? `The loop “${words(loops[0].key)}” uses ${join(cores(loops[0].now))}.` : undefined} stacked format={cores} lines={largest(loops, words)} empty="No loop is accounted yet." />
        <Chart {...shared} title="Sessions started, resumed and closed" says="Closes count close frames by code; cut connections have none." format={perSecond} lines={[{ label: "Identifies", values: feed.line("identifies") }, { label: "Resumes", values: feed.line("resumes") }, { label: "Closes", values: feed.line("connection_closes") }, { label: "Cut", values: feed.line("connections_aborted") }]} />
        <Chart {...shared} title="Bytes per second" says={`${join(byteRate(sent))} sent, ${join(byteRate(feed.now("received_bytes")))} received.`} format={byteRate} lines={[{ label: "Uncompressed", values: feed.line("sent_body_bytes"), dashed: true }, { label: "Sent", values: feed.line("sent_bytes") }, { label: "Received", values: feed.line("received_bytes") }]} />
        <Chart {...shared} title="Memory" says={`${join(bytes(memory))} resident.`} format={bytes} lines={[{ label: "Resident", values: feed.line("process_resident_memory_bytes") }, { label: "Contexts", values: feed.line("compression_slab_bytes") }, { label: "Match search", values: feed.line("shared_match_heap_bytes") }]} />
        {report && report.connections.gateway + report.connections.sessions_resumable === 0
          ? <section class="card wide"><h2>Connections</h2><p class="says">No client is connected. Their codecs, encodings and platforms, and their places in guilds, appear here with the first one.</p></section>
          : <>
            <div class="column">
              <Bars title="Connections by codec" says={report && `${counted(report.connections.gateway, "gateway connection")}.`} format={count} empty="No connection." rows={report ? named(report.connections.by_codec, "#2f5fe0") : []} />
              <Bars title="Connections by encoding" format={count} empty="No connection." rows={report ? named(report.connections.by_encoding, "#2f5fe0") : []} />
            </div>
            <div class="column">
              <Bars title="Sessions by platform" format={count} empty="No session." rows={report ? named(report.connections.by_platform, "#2f5fe0") : []} />
              <Bars title="Places of sessions in guilds" says={report && `${counted(report.connections.active + report.connections.passive, "place")}: an active one receives every event, a passive one summaries.`} format={count} empty="No session is in a guild." rows={report ? named([{ name: "active", value: report.connections.active }, { name: "passive", value: report.connections.passive }], "#1a9e75") : []} />
            </div>
          </>}
        <Bars title="Memory by owner" says={report && `${join(bytes(report.memory.resident_bytes))} resident${report.memory.limit_bytes ? ` of ${join(bytes(report.memory.limit_bytes))}` : ""}; “≈” marks an estimate from a sample.`} format={bytes} empty="No owner is accounted yet." rows={report ? byOwner(report) : []} />
        {canaries.length > 0 && <Chart {...shared} title="Canaries, p99 by size of the guild" says="From the creation of an event of the node itself to its relay’s flush." format={duration} lines={canaries.map(({ key, values }) => ({ label: key === "0" ? "smaller guilds" : `from ${exact(Number(key))} members`, values }))} />}
      </div>
      <MovesOfGuilds />
      <Callers />
      <h2>Time by message type and route</h2>
      <p class="says">Wall time since the node started; that of REST and of the store is mostly waiting. Of several loops of a kind, the largest quantile is shown.</p>
      <Table label="Message types" rows={types} columns={TYPES} id={({ loop, type }) => `${loop} ${type.name}`} sort={typeSort.value} onSort={(next) => { typeSort.value = next; }} empty="No message was handled yet." height={480} />
    </>
  );
}
