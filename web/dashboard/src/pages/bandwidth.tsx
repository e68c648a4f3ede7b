// Bandwidth: where do the bytes go?

import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { Chart, colorFor, largest } from "../chart.tsx";
import { useFeed } from "../feed.ts";
import { GROWN, GROWTH_SERIES, useGrowth } from "../growth.ts";
import { byteRate, bytes, duration, exact, join, number, percent, perSecond } from "../format.ts";
import { rate, useReport } from "../report.ts";
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

const total = (type: DispatchType | undefined, of: "count_total" | "raw_bytes_total" | "wire_bytes_total"): number => type?.ways.reduce((sum, way) => sum + way[of], 0) ?? 0;

/** What the bill is made of. */
function billSays(bill: Bill): string {
  const dropped = bill.sessions_dropped_total > 0 ? `; the CPU budget ended the sample of ${exact(bill.sessions_dropped_total)}` : "";
  return `What everything since the start costs in each codec, estimated from ${exact(bill.sample.count_total)} frames of ${exact(bill.sessions_total)} sampled connections${dropped}.`;
}

export function Bandwidth() {
  const report = useReport<BandwidthReport>("node/bandwidth");
  const feed = useFeed(["sent_frame_wire_bytes", ...GROWTH_SERIES]);
  const { types: sizes, ago } = useGrowth(feed);
  const { value, before, fault } = report;
  const rows = useMemo(() => {
    if (!value) return [];
    const earlier = new Map(before?.types.map((type) => [type.name, type]));
    const bills = new Map(value.bill?.types.map((type) => [type.name, type]));
    const known = (number: number) => (Number.isNaN(number) ? 0 : number);
    const per = (type: DispatchType, of: "count_total" | "raw_bytes_total" | "wire_bytes_total") => known(rate(total(type, of), before ? total(earlier.get(type.name), of) : undefined, value, before));
    const all = value.types.map((type): Row => {
      const timed = type.ways.reduce((sum, way) => sum + way.timed_total, 0);
      const raw = per(type, "raw_bytes_total");
      const wire = per(type, "wire_bytes_total");
      return { name: type.name, count: per(type, "count_total"), raw, wire, ratio: raw > 0 ? wire / raw : NaN, bytesShare: 0, countShare: 0, compressS: timed > 0 ? type.ways.reduce((sum, way) => sum + way.timed_ns_total, 0) / timed / 1e9 : NaN, wireTotal: total(type, "wire_bytes_total"), now: NaN, before: NaN, grown: NaN, billed: bills.get(type.name) };
    });
    const [wire, count] = [all.reduce((sum, row) => sum + row.wire, 0), all.reduce((sum, row) => sum + row.count, 0)];
    for (const row of all) {
      row.bytesShare = wire > 0 ? row.wire / wire : 0;
      row.countShare = count > 0 ? row.count / count : 0;
    }
    return all.sort((a, b) => b.wire - a.wire);
  }, [report.changed]);
  if (!value) return fault ? <Fault fault={fault} retry={report.retry} /> : <><Skeleton height={40} /><div class="charts"><Skeleton height={300} /><Skeleton height={300} /></div><Skeleton height={320} /></>;
  for (const row of rows) {
    const size = sizes.get(row.name);
    row.now = size?.now ?? NaN;
    row.before = size?.before ?? NaN;
    row.grown = row.now / row.before;
  }
  const wire = rows.reduce((sum, row) => sum + row.wire, 0);
  const [first, second] = rows;
  const ways = new Map<string, { raw: number; wire: number; count: number }>();
  for (const type of value.types) for (const way of type.ways) {
    const old = before?.types.find(({ name }) => name === type.name)?.ways.find((each) => each.codec === way.codec && each.encoding === way.encoding);
    const name = `${way.codec}, ${way.encoding}`;
    const sum = ways.get(name) ?? { raw: 0, wire: 0, count: 0 };
    ways.set(name, { raw: sum.raw + way.raw_bytes_total - (old?.raw_bytes_total ?? 0), wire: sum.wire + way.wire_bytes_total - (old?.wire_bytes_total ?? 0), count: sum.count + way.count_total - (old?.count_total ?? 0) });
  }
  const bill = value.bill;
  return (
    <>
      <p class="answer">{first && wire > 0
        ? <>{first.name} is {join(percent(first.bytesShare))} of {join(byteRate(wire))}{second && second.wire > 0 ? <>, {second.name} {join(percent(second.bytesShare))}</> : null}. {rows.length > 2 && `${number(rows.filter((row) => row.wire > 0).length)} types were sent in the last seconds.`}</>
        : <>No dispatch was sent in the last seconds.</>}</p>
      {[...sizes.values()].filter(({ before, now }) => now >= before * GROWN).map(({ name, before, now }) => <p key={name} class="grown"><b class="warn">▲ {name}</b> has grown from {join(bytes(before))} {ago} to {join(bytes(now))} each in the last minute: {number(now / before)} ×, before compression.</p>)}
      <div class="charts">
        <div class="column">
          <Bars title="Share of bytes by dispatch type" says="Bytes on the wire in the last seconds; in grey, the share of dispatches." format={percent} empty="Nothing is sent: a client that connects receives at least READY." rows={rows.filter((row) => row.wire > 0).slice(0, 8).map((row) => ({ label: row.name, value: row.bytesShare, color: colorFor(row.name), note: join(percent(row.countShare)) }))} />
          <Bars title="Growth by dispatch type" says={`Bytes of one, before compression: the last minute against ${ago}.`} format={(value) => [number(value), "×"]} empty="Nothing to compare yet: that takes twenty dispatches of a type, and twenty of it two minutes earlier." rows={rows.filter((row) => row.wire > 0 && Number.isFinite(row.grown)).slice(0, 6).map((row) => ({ label: row.name, value: row.grown, color: colorFor(row.name), note: `${join(bytes(row.before))} → ${join(bytes(row.now))}` }))} />
        </div>
        <div class="column">
          <Bars title="The bandwidth bill" says={bill ? billSays(bill) : undefined} format={bytes} empty="No connection is sampled yet: codec.bill_one_in decides how many are." rows={bill ? [
            { label: "Uncompressed", value: bill.estimate.plain_bytes_total, color: "#7a869a" },
            { label: "zlib-stream", value: bill.estimate.zlib_bytes_total, color: "#d9822b" },
            { label: "zstd-stream, tuned", value: bill.estimate.zstd_bytes_total, color: "#1a9e75" },
            { label: "As sent", value: bill.estimate.wire_bytes_total, color: "#2f5fe0" },
          ].map((row) => ({ ...row, note: join(percent(row.value / Math.max(1, bill.estimate.plain_bytes_total))) })) : []} />
          <Bars title="Ratio by codec and encoding" says="Wire bytes of uncompressed bytes in the last seconds: shorter is better." format={percent} empty="Nothing was sent in the last seconds." rows={[...ways].filter(([, way]) => way.raw > 0).sort((a, b) => b[1].wire - a[1].wire).map(([label, way]) => ({ label, value: way.wire / way.raw, note: `${join(bytes(way.wire))}`, color: "#2f5fe0" }))} />
        </div>
        <Chart wide title="Trend by dispatch type" says="Bytes on the wire per second." at={feed.series.at} lines={largest(feed.by("sent_frame_wire_bytes", "event"))} stacked format={byteRate} changed={feed.changed.value} isLoaded={feed.isLoaded.value} height={260} />
      </div>
      <Table label="Dispatch types" rows={rows} columns={COLUMNS} id={(row) => row.name} sort={sort.value} onSort={(next) => { sort.value = next; }} empty="No dispatch was sent yet." height={520} />
      <p class="says">In all {join(perSecond(rows.reduce((sum, row) => sum + row.count, 0)))} dispatches.</p>
    </>
  );
}
