// Compression: does it pay, and does it have the memory that it needs?

import { signal } from "@preact/signals";
import { Chart } from "../chart.tsx";
import { useFeed } from "../feed.ts";
import { bytes, count, exact, join, number, percent, perSecond } from "../format.ts";
import { rate, rateOf, useReport } from "../report.ts";
import type { CompressionReport, ContextKind } from "../types.ts";
import { Table, type Column } from "../table.tsx";
import { Fault, Skeleton, Tile } from "../ui.tsx";

const COLUMNS: Column<ContextKind>[] = [
  { key: "kind", label: "Kind", width: 92, value: (row) => row.kind, show: (row) => row.kind.replace("_", ", ") },
  { key: "used", label: "In use", width: 60, isNumber: true, value: (row) => row.used, show: (row) => exact(row.used) },
  { key: "slot", label: "Bytes each", width: 84, isNumber: true, value: (row) => row.slot_bytes, show: (row) => join(bytes(row.slot_bytes)) },
  { key: "resident", label: "Resident", width: 92, isNumber: true, value: (row) => row.resident_bytes, show: (row) => join(bytes(row.resident_bytes)), title: (row) => `${exact(row.resident_bytes)} B` },
  { key: "opened", label: "Handed out", width: 84, isNumber: true, value: (row) => row.opened_total, show: (row) => exact(row.opened_total) },
  { key: "refused", label: "Refused", width: 72, isNumber: true, value: (row) => row.refused_total, show: (row) => (row.refused_total > 0 ? { text: `${exact(row.refused_total)} ▲`, look: "warn" } : exact(row.refused_total)) },
];
const sort = signal({ key: "resident", isDescending: true });

const SERIES = ["compression_", "shared_match_", "sent_bytes", "sent_body_bytes"];

export function Compression() {
  const report = useReport<CompressionReport>("node/compression");
  const feed = useFeed(SERIES);
  const { value, before, fault } = report;
  if (!value) return fault ? <Fault fault={fault} retry={report.retry} /> : <><Skeleton height={40} /><Skeleton height={118} /><Skeleton height={268} /></>;
  const shared = { at: feed.series.at, changed: feed.changed.value, isLoaded: feed.isLoaded.value };
  const held = value.contexts.reduce((sum, kind) => sum + kind.resident_bytes, 0);
  const [sent, bodies] = [feed.now("sent_bytes"), feed.now("sent_body_bytes")];
  const match = value.shared_match;
  const upgrades = value.upgrades;
  const written = rateOf(report, (each) => each.shared_match.written_total);
  const fallbacks = rateOf(report, (each) => each.shared_match.fallbacks_total);
  const late = rateOf(report, (each) => each.shared_match.late_total);
  const stored = rate(value.stored_total, before?.stored_total, value, before);
  const isBounded = value.bytes_max > 0 && value.bytes_max < 2 ** 60;
  return (
    <>
      <p class="answer">{match.mismatches_total > 0
        ? <span class="bad">✕ {exact(match.mismatches_total)} messages did not decode to what they were made from: set codec.streams to "per-connection".</span>
        : stored > 0 ? <span class="warn">▲ {join(perSecond(stored))} messages are sent uncompressed for lack of a context.</span>
        : bodies > 0 ? <>The node sends {join(percent(sent / bodies))} of the uncompressed bytes, envelopes and control included.</>
        : <>Nothing is sent at the moment.</>}</p>
      <div class="tiles">
        <Tile label="Streams" shown={[value.streams, ""]} value={NaN} note="codec.streams" />
        <Tile label="Contexts hold" shown={bytes(held)} value={held} note={isBounded ? <>{join(percent(held / value.bytes_max))} of {join(bytes(value.bytes_max))}</> : "without a bound"} />
        <Tile label="Match search holds" shown={bytes(match.heap_bytes)} value={match.heap_bytes} note="history and index, shared by all streams" />
        <Tile label="Texts written" shown={perSecond(written)} value={written} note={<>{number(rateOf(report, (each) => each.shared_match.parses_total))} parses/s</>} />
        <Tile label="Fallbacks" shown={percent(written > 0 ? fallbacks / written : 0)} value={fallbacks} note="not with the parse that was tried first" />
        <Tile label="Late" shown={percent(written > 0 ? late / written : 0)} value={late} note="with no shared parse" />
      </div>
      <section class="card upgrades">
        <h2>Larger contexts</h2>
        {upgrades
          ? <>
            <p><b>{upgrades.standing}</b>: {upgrades.explanation}</p>
            <p class="says">{number(upgrades.share_permille / 10)} % of new connections may get one. Granted {exact(upgrades.granted_total)}, denied {exact(upgrades.denied_total)}, taken back {exact(upgrades.reclaimed_total)}.</p>
          </>
          : <p class="says">The loop is off: codec.upgrades is "off", so no connection gets a larger context.</p>}
      </section>
      <div class="charts">
        <Chart {...shared} title="Contexts in use" format={count} lines={feed.by("compression_contexts", "kind").map(({ key, values }) => ({ label: key.replace("_", ", "), values }))} says={`${exact(value.contexts.reduce((sum, kind) => sum + kind.used, 0))} contexts now.`} empty="No connection has a context: shared-match streams need none." />
        <Chart {...shared} title="Memory of contexts" format={bytes} stacked lines={feed.by("compression_slab_bytes", "kind").map(({ key, values }) => ({ label: key.replace("_", ", "), values }))} limit={isBounded ? { value: value.bytes_max, label: "limit" } : undefined} says="Resident bytes of their slabs." />
        <Chart {...shared} title="Shared matches" format={perSecond} lines={[{ label: "Texts written", values: feed.line("shared_match_messages") }, { label: "Parses", values: feed.line("shared_match_parses") }, { label: "Fallbacks", values: feed.line("shared_match_retries") }, { label: "Late", values: feed.line("shared_match_evicted") }, { label: "Alone", values: feed.line("shared_match_standalone") }]} says={`${exact(match.checked_total)} messages were read back before they were sent; ${exact(match.mismatches_total)} were wrong.`} />
        <section class="card"><h2>Contexts</h2><p class="says">{exact(value.deflate_shared_bodies_total)} messages were compressed once for permessage-deflate.</p><Table label="Contexts" rows={value.contexts} columns={COLUMNS} id={(row) => row.kind} sort={sort.value} onSort={(next) => { sort.value = next; }} empty="No kind of context." height={200} /></section>
      </div>
    </>
  );
}
