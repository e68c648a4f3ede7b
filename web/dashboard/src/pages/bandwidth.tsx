// Bandwidth: where do the bytes go?

import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { Chart, colorFor, largest } from "../chart.tsx";
import { useFeed } from "../feed.ts";
import { GROWN, GROWTH_SERIES, useGrowth } from "../growth.ts";
import { byteRate, bytes, duration, exact, join, number, percent, perSecond, shareOf } from "../format.ts";
import { useReport } from "../report.ts";
import { rangeInWords, zoom, type Feed } from "../series.ts";
import type { BandwidthReport, Bill, BilledType, DispatchType } from "../types.ts";
import { Table, type Column } from "../table.tsx";
import { Bars, Fault, Skeleton } from "../ui.tsx";

interface Row { name: string; count: number; raw: number; wire: number; ratio: number; bytesShare: number; countShare: number; compressS: number; wireTotal: number; now: number; before: number; grown: number; billed: BilledType | undefined }

/** Bytes in a codec of the bytes without compression; 0 where there is no sample. */
const billed = (row: Row, of: "zlib_bytes_total" | "zstd_bytes_total"): number => (row.billed && row.billed.sample.count_total > 0 ? row.billed.estimate[of] / Math.max(1, row.billed.estimate.plain_bytes_total) : 0);
const showBilled = (row: Row, of: "zlib_bytes_total" | "zstd_bytes_total"): string => { const share = billed(row, of); return share > 0 ? join(percent(share)) : "–"; };
const billedTitle = (row: Row, of: "zlib_bytes_total" | "zstd_bytes_total"): string | undefined => (billed(row, of) > 0 ? `estimate: ${exact(row.billed!.estimate[of])} B since the start` : undefined);

const showBytes = (value: number): string => (Number.isFinite(value) ? join(bytes(value)) : "–");

const COLUMNS: Column<Row>[] = [
  { key: "name", label: "Dispatch type", width: 232, value: (row) => row.name },
  { key: "wire", label: "Sent/s", width: 84, isNumber: true, value: (row) => row.wire, show: (row) => join(byteRate(row.wire)), title: (row) => `${join(byteRate(row.raw))} before compression; ${exact(row.wireTotal)} B sent since the start` },
  { key: "bytesShare", label: "Of bytes", width: 84, isNumber: true, value: (row) => row.bytesShare, show: (row) => join(percent(row.bytesShare)) },
  { key: "count", label: "Dispatches/s", width: 112, isNumber: true, value: (row) => row.count, title: (row) => `${join(percent(row.countShare))} of all dispatches` },
  { key: "size", label: "Bytes each", width: 96, isNumber: true, value: (row) => row.now || 0, show: (row) => showBytes(row.now), title: () => "Mean before compression, in the last minute" },
  { key: "before", label: "Before", width: 80, isNumber: true, value: (row) => row.before || 0, show: (row) => showBytes(row.before), title: () => "Mean before compression, up to an hour ago" },
  { key: "grown", label: "Growth", width: 84, isNumber: true, value: (row) => row.grown || 0, show: (row) => (row.grown >= GROWN ? { text: `▲ ${number(row.grown)} ×`, look: "warn" } : Number.isFinite(row.grown) ? `${number(row.grown)} ×` : "–"), title: () => "Mean bytes before compression: the last minute against up to an hour ago" },
  { key: "ratio", label: "Ratio", width: 68, isNumber: true, value: (row) => row.ratio || 0, show: (row) => (Number.isFinite(row.ratio) ? join(percent(row.ratio)) : "–"), title: (row) => (Number.isFinite(row.compressS) ? `Sent of uncompressed bytes; to compress one takes ${join(duration(row.compressS))}, the mean of a sample` : "Sent of uncompressed bytes") },
  { key: "zlib", label: "As zlib", width: 76, isNumber: true, value: (row) => billed(row, "zlib_bytes_total"), show: (row) => showBilled(row, "zlib_bytes_total"), title: (row) => billedTitle(row, "zlib_bytes_total") },
  { key: "zstd", label: "As zstd", width: 76, isNumber: true, value: (row) => billed(row, "zstd_bytes_total"), show: (row) => showBilled(row, "zstd_bytes_total"), title: (row) => billedTitle(row, "zstd_bytes_total") },
];
const sort = signal({ key: "wire", isDescending: true });

const total = (type: DispatchType | undefined, of: "wire_bytes_total"): number => type?.ways.reduce((sum, way) => sum + way[of], 0) ?? 0;

/** What the bill is made of. */
function billSays(bill: Bill): string {
  const dropped = bill.sessions_dropped_total > 0 ? `; the CPU budget ended the sample of ${exact(bill.sessions_dropped_total)}` : "";
  return `What everything since the start costs in each codec, estimated from ${exact(bill.sample.count_total)} frames of ${exact(bill.sessions_total)} sampled connections${dropped}.`;
}

/** Bytes and dispatches in the time that the charts show, by a label of the series. */
function sums(feed: Feed, label: "event" | "codec" | "encoding"): Map<string, { raw: number; wire: number; count: number }> {
  const found = new Map<string, { raw: number; wire: number; count: number }>();
  for (const [family, field] of [["sent_frame_wire_bytes", "wire"], ["sent_frame_raw_bytes", "raw"], ["sent_frames", "count"]] as const) {
    for (const { key, values } of feed.by(family, label)) {
      const sum = found.get(key) ?? { raw: 0, wire: 0, count: 0 };
      found.set(key, { ...sum, [field]: Math.max(0, feed.total(values)) });
    }
  }
  // Less than a dispatch is the rest of a mean that fades out.
  for (const [key, { count }] of found) if (count < 0.5) found.delete(key);
  return found;
}

/** From here on a difference is told. */
const MORE = 1.02;

/** Where the bytes are that `zlib-stream` would have saved. */
function moreThanZlib(bill: Bill): string {
  const { wire_bytes_total: sent, zlib_bytes_total: zlib } = bill.estimate;
  if (!(shareOf(sent, zlib) > MORE)) return "";
  const types = bill.types.map(({ name, estimate }) => ({ name, more: estimate.wire_bytes_total - estimate.zlib_bytes_total })).filter(({ more }) => more > 0).sort((a, b) => b.more - a.more).slice(0, 3);
  return ` As sent is ${number(sent / zlib)} × of zlib-stream, most of it for ${types.map(({ name, more }) => `${name} (${join(bytes(more))} more)`).join(", ")}: with few recipients there is little to share.`;
}

const RATIO_COLOR = "#2f5fe0";

interface WriterRow { name: string; sessions: number; memory: number; us: number; timed: number; wire: number; ratio: number; zlib: number; zstd: number }

/** What each writer of compressed streams costs; writers that wrote nothing are left out. */
function writerRows({ writers, bill }: BandwidthReport): WriterRow[] {
  return writers.filter(({ count_total }) => count_total > 0).map((writer) => {
    const billed = bill?.writers.find(({ name }) => name === writer.name)?.sample;
    return {
      name: writer.name, sessions: writer.sessions, memory: writer.sessions > 0 ? writer.memory_bytes / writer.sessions : NaN, us: writer.timed_total > 0 ? writer.timed_ns_total / writer.timed_total / 1e9 : NaN, timed: writer.timed_total,
      wire: writer.wire_bytes_total, ratio: shareOf(writer.wire_bytes_total, writer.raw_bytes_total), zlib: billed ? shareOf(billed.wire_bytes_total, billed.zlib_bytes_total) : NaN, zstd: billed ? shareOf(billed.wire_bytes_total, billed.zstd_bytes_total) : NaN,
    };
  });
}

const times = (value: number): string => (Number.isFinite(value) ? `${number(value)} ×` : "–");
const WRITERS: Column<WriterRow>[] = [
  { key: "name", label: "Writer", width: 190, value: (row) => row.name },
  { key: "sessions", label: "Sessions", width: 84, isNumber: true, value: (row) => row.sessions, show: (row) => exact(row.sessions) },
  { key: "wire", label: "Sent", width: 90, isNumber: true, value: (row) => row.wire, show: (row) => join(bytes(row.wire)), title: () => "Since the start, in frames" },
  { key: "ratio", label: "Ratio", width: 72, isNumber: true, value: (row) => row.ratio || 0, show: (row) => (Number.isFinite(row.ratio) ? join(percent(row.ratio)) : "–"), title: () => "Sent of uncompressed bytes" },
  { key: "zlib", label: "Of zlib", width: 76, isNumber: true, value: (row) => row.zlib || 0, show: (row) => times(row.zlib), title: () => "Bytes as sent, of the same frames as zlib-stream: of the sample" },
  { key: "zstd", label: "Of zstd", width: 76, isNumber: true, value: (row) => row.zstd || 0, show: (row) => times(row.zstd), title: () => "Bytes as sent, of the same frames as zstd-stream: of the sample" },
  { key: "memory", label: "Memory each", width: 128, isNumber: true, value: (row) => row.memory || 0, show: (row) => showBytes(row.memory) },
  { key: "us", label: "CPU each", width: 90, isNumber: true, value: (row) => row.us || 0, show: (row) => (Number.isFinite(row.us) ? join(duration(row.us)) : "–"), title: (row) => `CPU time of a message, mean of ${exact(row.timed)} that were timed` },
];
const writerSort = signal({ key: "wire", isDescending: true });

export function Bandwidth() {
  const report = useReport<BandwidthReport>("node/bandwidth");
  const feed = useFeed(["sent_frame_wire_bytes", ...GROWTH_SERIES]);
  const { types: sizes, ago } = useGrowth(feed);
  const { value, fault } = report;
  const rows = useMemo(() => {
    if (!value || !feed.isLoaded.value) return [];
    const bills = new Map(value.bill?.types.map((type) => [type.name, type]));
    const known = new Map(value.types.map((type) => [type.name, type]));
    const seconds = Math.max(1, feed.shownSeconds);
    const all = [...sums(feed, "event")].map(([name, sum]): Row => {
      const type = known.get(name);
      const timed = type?.ways.reduce((all, way) => all + way.timed_total, 0) ?? 0;
      return {
        name, count: sum.count / seconds, raw: sum.raw / seconds, wire: sum.wire / seconds, ratio: shareOf(sum.wire, sum.raw), bytesShare: 0, countShare: 0,
        compressS: timed > 0 ? type!.ways.reduce((all, way) => all + way.timed_ns_total, 0) / timed / 1e9 : NaN, wireTotal: total(type, "wire_bytes_total"), now: NaN, before: NaN, grown: NaN, billed: bills.get(name),
      };
    });
    const [wire, count] = [all.reduce((sum, row) => sum + row.wire, 0), all.reduce((sum, row) => sum + row.count, 0)];
    for (const row of all) {
      row.bytesShare = wire > 0 ? row.wire / wire : 0;
      row.countShare = count > 0 ? row.count / count : 0;
    }
    return all.sort((a, b) => b.wire - a.wire);
  }, [report.changed, feed.changed.value, zoom.value]);
  if (!value || !feed.isLoaded.value) return fault ? <Fault fault={fault} retry={report.retry} /> : <><Skeleton height={40} /><div class="charts"><Skeleton height={300} /><Skeleton height={300} /></div><Skeleton height={320} /></>;
  for (const row of rows) {
    const size = sizes.get(row.name);
    row.now = size?.now ?? NaN;
    row.before = size?.before ?? NaN;
    row.grown = row.now / row.before;
  }
  const sent = rows.reduce((sum, row) => sum + row.wire, 0) * Math.max(1, feed.shownSeconds);
  const [first, second] = rows;
  const when = rangeInWords();
  const bill = value.bill;
  const writing = writerRows(value);
  const allSent = value.types.reduce((sum, type) => sum + total(type, "wire_bytes_total"), 0);
  const theBill = (
    <Bars title="The bandwidth bill" says={bill ? billSays(bill) + moreThanZlib(bill) : undefined} format={bytes} empty="No connection is sampled yet: codec.bill_one_in decides how many are." rows={bill ? [
      { label: "Uncompressed", value: bill.estimate.plain_bytes_total, color: "#7a869a" },
      { label: "zlib-stream", value: bill.estimate.zlib_bytes_total, color: "#d9822b" },
      { label: "zstd-stream, tuned", value: bill.estimate.zstd_bytes_total, color: "#1a9e75" },
      { label: "As sent", value: bill.estimate.wire_bytes_total, color: "#2f5fe0" },
    ].map((row) => ({ ...row, note: join(percent(shareOf(row.value, bill.estimate.plain_bytes_total))) })) : []} />
  );
  const trend = <Chart wide title="Trend by dispatch type" says="Bytes on the wire per second." at={feed.series.at} lines={largest(feed.by("sent_frame_wire_bytes", "event"))} stacked format={byteRate} changed={feed.changed.value} isLoaded={feed.isLoaded.value} height={260} empty={`Nothing was sent ${when}.`} />;
  if (!first) return (
    <>
      <p class="answer">Nothing was sent to clients {when}.</p>
      <p class="says">{allSent > 0 ? `${join(bytes(allSent))} since the node started: choose a longer range to see of what.` : "Nothing is sent: a client that connects receives at least READY."}</p>
      {bill && bill.sample.count_total > 0 && <div class="charts">{theBill}</div>}
    </>
  );
  const ratios = (label: "codec" | "encoding") => [...sums(feed, label)].sort((a, b) => b[1].wire - a[1].wire).map(([name, sum]) => ({ label: name, value: shareOf(sum.wire, sum.raw), note: join(bytes(sum.wire)), color: RATIO_COLOR })).filter((row) => Number.isFinite(row.value));
  const grown = rows.filter((row) => Number.isFinite(row.grown)).slice(0, 6);
  return (
    <>
      <p class="answer">{first.name} is {join(percent(first.bytesShare))} of {join(bytes(sent))} {when}{second && <>, {second.name} {join(percent(second.bytesShare))}</>}. {rows.length > 2 && `${number(rows.length)} types were sent.`}</p>
      {[...sizes.values()].filter(({ before, now }) => now >= before * GROWN).map(({ name, before, now }) => <p key={name} class="grown"><b class="warn">▲ {name}</b> has grown from {join(bytes(before))} {ago} to {join(bytes(now))} each in the last minute: {number(now / before)} ×, before compression.</p>)}
      <div class="charts">
        <div class="column">
          <Bars title="Share of bytes by dispatch type" says={`Bytes on the wire ${when}; in grey, the share of dispatches.`} format={percent} empty="" rows={rows.slice(0, 8).map((row) => ({ label: row.name, value: row.bytesShare, color: colorFor(row.name), note: join(percent(row.countShare)) }))} />
          {grown.length > 0 && <Bars title="Growth by dispatch type" says={`Bytes of one, before compression: the last minute against ${ago}.`} format={(value) => [number(value), "×"]} empty="" rows={grown.map((row) => ({ label: row.name, value: row.grown, color: colorFor(row.name), note: `${join(bytes(row.before))} → ${join(bytes(row.now))}` }))} />}
        </div>
        <div class="column">
          {theBill}
          <Bars title="Ratio by codec" says={`Wire bytes of uncompressed bytes ${when}: shorter is better.`} format={percent} empty="" rows={ratios("codec")} />
          <Bars title="Ratio by encoding" format={percent} empty="" rows={ratios("encoding")} />
        </div>
        {trend}
      </div>
      <Table label="Dispatch types" rows={rows} columns={COLUMNS} id={(row) => row.name} sort={sort.value} onSort={(next) => { sort.value = next; }} empty="No dispatch was sent yet." height={520} />
      <p class="says">Means {when}: in all {join(perSecond(rows.reduce((sum, row) => sum + row.count, 0)))} dispatches. Sizes, growth and bills as their titles say.</p>
      {writing.length > 0 && <section class="card"><h2>What streams cost, by writer</h2><p class="says">A stream begins with a context of a library and moves to shared-match when its events have many recipients, or when contexts take too much time or memory.</p><Table label="Writers of streams" rows={writing} columns={WRITERS} id={(row) => row.name} sort={writerSort.value} onSort={(next) => { writerSort.value = next; }} empty="" height={44 + 36 * (writing.length + 1)} /></section>}
    </>
  );
}
