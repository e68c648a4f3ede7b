// Guilds: which one is loud, and why?

import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { Chart, colorFor, largest } from "../chart.tsx";
import { causeOf, STEPS } from "../cause.ts";
import { byteRate, bytes, count, duration, exact, join, number, percent, perSecond, words } from "../format.ts";
import { rate, rateOf, Track, useReport } from "../report.ts";
import type { Channel, Guild, GuildReport, GuildsReport, Relay } from "../types.ts";
import { Table, type Column } from "../table.tsx";
import { Bars, Fault, Id, Skeleton, Tile } from "../ui.tsx";
import { searchFor } from "./sessions.tsx";

/** Rows that the node is asked for. */
const ROWS_MAX = 10_000;
const sort = signal({ key: "busy", isDescending: true });
const filter = signal("");

interface Row { guild: Guild; busy: number; events: number; deliveries: number; bytes: number }

/** What the table shows as 0 until there are two reports. */
const known = (value: number): number => (Number.isNaN(value) ? 0 : value);

const COLUMNS: Column<Row>[] = [
  { key: "name", label: "Guild", width: 168, isLink: true, value: ({ guild }) => guild.name || guild.id, show: ({ guild }) => ({ text: guild.name || guild.id, href: `#/guilds/${guild.id}` }), title: ({ guild }) => guild.id },
  { key: "busy", label: "Busy", width: 88, isNumber: true, value: (row) => row.busy, show: (row) => join(percent(row.busy)), title: (row) => `${exact(row.busy)} cores; ${join(duration(row.guild.busy_ns_total / 1e9))} since it was loaded` },
  { key: "events", label: "Events/s", width: 88, isNumber: true, value: (row) => row.events, title: (row) => `${exact(row.guild.events_total)} in all` },
  { key: "deliveries", label: "Deliveries/s", width: 108, isNumber: true, value: (row) => row.deliveries, title: (row) => `${exact(row.guild.deliveries_total)} in all` },
  { key: "bytes", label: "Bytes/s", width: 96, isNumber: true, value: (row) => row.bytes, show: (row) => join(byteRate(row.bytes)), title: (row) => `${exact(row.guild.bytes_total)} B in all, before compression` },
  { key: "members", label: "Members", width: 92, isNumber: true, value: ({ guild }) => guild.members, show: ({ guild }) => exact(guild.members) },
  { key: "active", label: "Active", width: 80, isNumber: true, value: ({ guild }) => guild.sessions_active, show: ({ guild }) => exact(guild.sessions_active) },
  { key: "passive", label: "Passive", width: 84, isNumber: true, value: ({ guild }) => guild.sessions_passive, show: ({ guild }) => exact(guild.sessions_passive) },
  { key: "relays", label: "Relays", width: 76, isNumber: true, value: ({ guild }) => guild.relays },
  { key: "mailbox", label: "Mailbox", width: 84, isNumber: true, value: ({ guild }) => guild.mailbox },
  { key: "worker", label: "Worker", width: 80, isNumber: true, value: ({ guild }) => guild.worker },
];

export function Guilds() {
  const report = useReport<GuildsReport>(`node/guilds?sort=busy&limit=${ROWS_MAX}`, ({ guilds }) => (guilds.length > 500 ? 4_000 : 1_000));
  const { value, before, fault } = report;
  const rows = useMemo(() => {
    if (!value) return [];
    const earlier = new Map(before?.guilds.map((guild) => [guild.id, guild]));
    return value.guilds.map((guild): Row => {
      const old = earlier.get(guild.id);
      const per = (now: number, then: number | undefined) => known(rate(now, then, value, before));
      return { guild, busy: per(guild.busy_ns_total, old?.busy_ns_total) / 1e9, events: per(guild.events_total, old?.events_total), deliveries: per(guild.deliveries_total, old?.deliveries_total), bytes: per(guild.bytes_total, old?.bytes_total) };
    });
  }, [report.changed]);
  if (!value) return fault ? <Fault fault={fault} retry={report.retry} /> : <><Skeleton height={40} /><Skeleton height={480} /></>;
  const text = filter.value.trim().toLowerCase();
  const shown = text ? rows.filter(({ guild }) => guild.name.toLowerCase().includes(text) || guild.id.startsWith(text)) : rows;
  const loudest = rows.reduce<Row | undefined>((top, row) => (!top || row.busy > top.busy ? row : top), undefined);
  const allBusy = rows.reduce((sum, row) => sum + row.busy, 0);
  return (
    <>
      <p class="answer">{loudest && loudest.busy > 0
        ? <>The loudest guild is <a href={`#/guilds/${loudest.guild.id}`}>{loudest.guild.name || loudest.guild.id}</a>: {join(percent(loudest.busy))} of a core, {join(percent(loudest.busy / allBusy))} of what all guilds use.</>
        : <>No guild had work to do in the last seconds.</>}</p>
      <div class="search">
        <label for="guild-filter">Find</label>
        <input id="guild-filter" type="search" placeholder="Name or id" value={filter.value} onInput={(event) => { filter.value = event.currentTarget.value; }} />
        <span class="says" role="status">{exact(shown.length)} of {exact(value.loaded)} loaded guilds</span>
      </div>
      <Table label="Guilds" rows={shown} columns={COLUMNS} id={({ guild }) => guild.id} open={({ guild }) => { location.hash = `#/guilds/${guild.id}`; }} sort={sort.value} onSort={(next) => { sort.value = next; }} empty={text ? "No loaded guild has this name or id." : "No guild is loaded: one is loaded when somebody connects who is its member."} height={560} />
    </>
  );
}

const RELAYS: Column<{ relay: Relay; deliveries: number; bytes: number }>[] = [
  { key: "partition", label: "Partition", width: 88, isNumber: true, value: ({ relay }) => relay.partition },
  { key: "index", label: "Relay", width: 64, isNumber: true, value: ({ relay }) => relay.index },
  { key: "active", label: "Active", width: 68, isNumber: true, value: ({ relay }) => relay.active, show: ({ relay }) => exact(relay.active) },
  { key: "passive", label: "Passive", width: 76, isNumber: true, value: ({ relay }) => relay.passive, show: ({ relay }) => exact(relay.passive) },
  { key: "deliveries", label: "Deliveries/s", width: 108, isNumber: true, value: (row) => row.deliveries },
  { key: "bytes", label: "Bytes/s", width: 80, isNumber: true, value: (row) => row.bytes, show: (row) => join(byteRate(row.bytes)) },
];
/** What a channel is, unless it is a text channel. */
const aside = (kind: Channel["kind"]): string => (kind === "text" ? "" : words(kind) || "deleted");
const relaySort = signal({ key: "partition", isDescending: false });

export function GuildPage({ id }: { id: string }) {
  const report = useReport<GuildReport>(`node/guilds/${encodeURIComponent(id)}`);
  const track = useMemo(() => new Track(), [id]);
  const counts = useMemo(() => new Track(), [id]);
  const { value, before, fault } = report;
  useMemo(() => {
    if (!value || !before) return;
    const earlier = new Map(before.types.map((type) => [type.name, type.times]));
    track.push(value.at_ms, new Map(value.types.map((type) => [type.name, rate(type.times.ns_total, earlier.get(type.name)?.ns_total ?? 0, value, before) / 1e9])));
    counts.push(value.at_ms, new Map(value.types.map((type) => [type.name, rate(type.times.count_total, earlier.get(type.name)?.count_total ?? 0, value, before)])));
  }, [report.changed]);
  const back = <p><a href="#/guilds">← All guilds</a></p>;
  if (fault && (fault.status === 404 || !value)) return <>{back}<Fault fault={fault.status === 404 ? Object.assign(fault, { message: "No worker has loaded this guild: it has no connected member, or it is gone." }) : fault} retry={report.retry} /></>;
  if (!value) return <>{back}<Skeleton height={118} /><Skeleton height={268} /></>;
  const { guild } = value;
  const busy = rateOf(report, ({ guild }) => guild.busy_ns_total) / 1e9;
  const deliveries = rateOf(report, ({ guild }) => guild.deliveries_total);
  const events = rateOf(report, ({ guild }) => guild.events_total);
  const sent = rateOf(report, ({ guild }) => guild.bytes_total);
  const sessions = guild.sessions_active + guild.sessions_passive;
  const lines = [...track.lines].map(([key, values]) => ({ key, values }));
  const sum = (values: (number | null)[]) => values.slice(-60).reduce<number>((all, each) => all + (each ?? 0), 0);
  lines.sort((a, b) => sum(b.values) - sum(a.values));
  const all = lines.reduce((total, { values }) => total + sum(values), 0);
  const first = lines[0];
  const cause = causeOf(lines.map(({ key, values }) => ({ name: key, busy: sum(values), often: sum(counts.lines.get(key) ?? []) })));
  const minute = Math.max(1, Math.min(60, track.at.length));
  const shares = lines.filter(({ values }) => sum(values) > 0).slice(0, 9).map(({ key, values }) => {
    const times = value.types.find(({ name }) => name === key)?.times;
    const often = known(rate(times?.count_total, before?.types.find(({ name }) => name === key)?.times.count_total ?? 0, value, before));
    const each = times && times.count_total > 0 ? `${join(duration(times.ns_total / times.count_total / 1e9))}, p99 ${join(duration(times.p99_ns / 1e9))}` : "";
    return { label: words(key), value: sum(values) / all, note: `${join(perSecond(often))}, ${each}`, color: colorFor(key) };
  });
  const relays = value.relays.map((relay) => {
    const old = before?.relays.find((each) => each.partition === relay.partition && each.index === relay.index);
    return { relay, deliveries: known(rate(relay.deliveries_total, old?.deliveries_total, value, before)), bytes: known(rate(relay.bytes_total, old?.bytes_total, value, before)) };
  });
  const channels = value.channels.slice(0, 10).map(({ id, name, kind, events_total }) => {
    const often = known(rate(events_total, before?.channels.find((each) => each.id === id)?.events_total, value, before));
    return { id, label: name || id, isCode: !name, value: events_total, note: [join(perSecond(often)), aside(kind)].filter(Boolean).join(", "), color: "#2f5fe0" };
  });
  return (
    <>
      {back}
      <h2 class="title">{guild.name || "Guild"} <Id id={guild.id} /></h2>
      <p class="answer">{cause && all > 0
        ? <>“{words(cause.name)}” takes {join(percent(cause.share))} of this guild’s time in the last minute: {join(perSecond(cause.often / minute))}, {join(duration(cause.busy / Math.max(1e-9, cause.often)))} each{cause.hasCommits && ", with the commits that it causes"}.</>
        : first && all > 0 ? <>“{words(first.key)}” takes {join(percent(sum(first.values) / all))} of this guild’s time in the last minute{STEPS[first.key] && `: ${STEPS[first.key]}`}.</>
        : <>This guild had no work to do in the last minute.</>} <a href="#/sessions" onClick={() => searchFor("guild_id", guild.id)}>Its sessions</a></p>
      <div class="tiles">
        <Tile label="Busy" shown={percent(busy)} value={busy} tone={busy > 0.5 ? "warn" : undefined} note={<>of a core, on worker {guild.worker}</>} />
        <Tile label="Events" shown={perSecond(events)} value={events} note={<>{exact(guild.events_total)} since it was loaded</>} />
        <Tile label="Deliveries" shown={perSecond(deliveries)} value={deliveries} note={<>{number(events > 0 ? deliveries / events : 0)} for each event</>} />
        <Tile label="Bytes" shown={byteRate(sent)} value={sent} note={<>before compression; {join(bytes(guild.bytes_total))} in all</>} />
        <Tile label="Members" shown={count(guild.members)} value={guild.members} note={<>{exact(sessions)} places of sessions: {exact(guild.sessions_active)} active, {exact(guild.sessions_passive)} passive</>} />
        <Tile label="Mailbox" shown={count(guild.mailbox)} value={guild.mailbox} tone={guild.mailbox > 1_000 ? "bad" : guild.mailbox > 100 ? "warn" : undefined} note="inputs that wait for its worker" />
      </div>
      <div class="charts">
        <Chart title="Time by message type" says="Share of a core, collected while this page is open." at={track.at} lines={largest(lines, words)} stacked format={percent} changed={report.changed} isLoaded empty="Collecting: the first values come within seconds." height={240} />
        <Bars title="Busy time by message type" says="Share of this guild’s time while this page is open; in grey how often each comes, and the mean and p99 of one." format={percent} empty="No message was handled while this page is open." rows={shares} />
        <Bars title="Events by channel" says="Since the guild was loaded; in grey how often now." format={count} empty="No event of a channel was published yet." rows={channels} />
        <section class="card"><h2>Relays</h2><Table label="Relays" rows={relays} columns={RELAYS} id={({ relay }) => `${relay.partition}-${relay.index}`} sort={relaySort.value} onSort={(next) => { relaySort.value = next; }} empty="No relay: nobody who is connected is a member." height={300} /></section>
      </div>
    </>
  );
}
