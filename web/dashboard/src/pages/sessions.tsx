// Sessions: what does this client receive, and does it keep up?

import { signal } from "@preact/signals";
import { ask, may } from "../api.ts";
import { bytes, byteRate, count, counted, duration, exact, join, number, percent, perSecond, shareOf } from "../format.ts";
import { rateOf, useReport } from "../report.ts";
import type { LoggedEvent, Session, SessionReport, SessionsReport, Subscription } from "../types.ts";
import { Table, type Column } from "../table.tsx";
import { Fault, Id, question, Skeleton, Tile } from "../ui.tsx";

type By = "user_id" | "guild_id" | "id";
const search = signal<{ by: By; text: string; connected: string; codec: string }>({ by: "user_id", text: "", connected: "", codec: "" });
export function searchFor(by: By, text: string): void { search.value = { by, text, connected: "", codec: "" }; }

const sort = signal({ key: "backlog", isDescending: true });
const LIMIT = 10_000;

const COLUMNS: Column<Session>[] = [
  { key: "user", label: "Account", width: 152, isLink: true, value: (row) => row.username || row.user_id, show: (row) => ({ text: `${row.username || row.user_id}${row.is_bot ? " (bot)" : ""}`, href: `#/sessions/${encodeURIComponent(row.id)}` }), title: (row) => row.user_id },
  { key: "state", label: "State", width: 116, value: (row) => (row.is_connected ? "connected" : "resumable"), show: (row) => (row.is_connected ? { text: "● connected", look: "good" } : "○ resumable"), title: (row) => (row.resumable_ms === null ? undefined : `for another ${join(duration(row.resumable_ms / 1000))}`) },
  { key: "codec", label: "Codec", width: 172, value: (row) => row.codec ?? "", show: (row) => row.codec ?? "–" },
  { key: "encoding", label: "Encoding", width: 88, value: (row) => row.encoding },
  { key: "platform", label: "Platform", width: 84, value: (row) => row.platform, show: (row) => row.platform || "–" },
  { key: "guilds", label: "Guilds", width: 72, isNumber: true, value: (row) => row.guilds, show: (row) => exact(row.guilds) },
  { key: "seq", label: "Seq", width: 68, isNumber: true, value: (row) => row.seq, show: (row) => exact(row.seq) },
  { key: "backlog", label: "Backlog", width: 88, isNumber: true, value: (row) => row.backlog_events, show: (row) => (row.backlog_events > 100 ? { text: `${exact(row.backlog_events)} ▲`, look: "warn" } : exact(row.backlog_events)) },
  { key: "replay_bytes", label: "Replay buffer", width: 120, isNumber: true, value: (row) => row.buffered_bytes, show: (row) => join(bytes(row.buffered_bytes)), title: (row) => `${counted(row.buffered_events, "event")}, ${exact(row.buffered_bytes)} B` },
  { key: "partition", label: "Partition", width: 84, isNumber: true, value: (row) => row.partition },
];

export function Sessions() {
  const { by, text, connected, codec } = search.value;
  const parameters = new URLSearchParams({ limit: String(LIMIT) });
  if (text.trim() && (by === "id" || /^\d{1,19}$/.test(text.trim()))) parameters.set(by, text.trim());
  if (connected) parameters.set("connected", connected);
  if (codec) parameters.set("codec", codec);
  const report = useReport<SessionsReport>(`node/sessions?${parameters}`, ({ sessions }) => (sessions.length > 500 ? 4_000 : 1_000));
  const { value, fault } = report;
  const change = (part: Partial<typeof search.value>) => { search.value = { ...search.value, ...part }; };
  const isOdd = by !== "id" && text.trim() !== "" && !/^\d{1,19}$/.test(text.trim());
  const behind = value?.sessions.filter((session) => session.backlog_events > 100).length ?? 0;
  return (
    <>
      <p class="answer">{!value ? "\u00a0" : behind > 0
        ? <><span class="warn">▲ {exact(behind)} {behind === 1 ? "session is" : "sessions are"} behind</span> by more than 100 events.</>
        : <>Every session shown keeps up: no backlog is above 100 events.</>}</p>
      <form class="search" role="search" onSubmit={(event) => event.preventDefault()}>
        <label for="session-by">Find by</label>
        <select id="session-by" value={by} onChange={(event) => change({ by: event.currentTarget.value as By })}>
          <option value="user_id">account id</option><option value="guild_id">guild id</option><option value="id">session id</option>
        </select>
        <input type="search" aria-label="Id" placeholder={by === "id" ? "Beginning of the id" : "Id"} value={text} aria-invalid={isOdd} onInput={(event) => change({ text: event.currentTarget.value })} />
        <label for="session-state">State</label>
        <select id="session-state" value={connected} onChange={(event) => change({ connected: event.currentTarget.value })}><option value="">any</option><option value="true">connected</option><option value="false">resumable</option></select>
        <label for="session-codec">Codec</label>
        <select id="session-codec" value={codec} onChange={(event) => change({ codec: event.currentTarget.value })}>
          <option value="">any</option>{["none", "zlib-stream", "zstd-stream", "permessage-deflate"].map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
        <span class="says" role="status">{isOdd ? "An id of an account or guild has digits only." : value ? `${exact(value.sessions.length)} of ${exact(value.all)} sessions${value.is_partial ? "; there are more matches: narrow the search" : ""}` : ""}</span>
      </form>
      {fault && !value ? <Fault fault={fault} retry={report.retry} /> : !value ? <Skeleton height={480} /> : (
        <Table label="Sessions" rows={value.sessions} columns={COLUMNS} id={(row) => row.id} open={(row) => { location.hash = `#/sessions/${encodeURIComponent(row.id)}`; }} sort={sort.value} onSort={(next) => { sort.value = next; }} empty={text || connected || codec ? "No session matches." : "No session: a client that connects appears here."} height={560} />
      )}
    </>
  );
}

const LOG: Column<LoggedEvent>[] = [
  { key: "seq", label: "Seq", width: 72, isNumber: true, value: (row) => row.seq, show: (row) => exact(row.seq) },
  { key: "name", label: "Event", width: 236, value: (row) => row.name },
  { key: "bytes", label: "Bytes", width: 76, isNumber: true, value: (row) => row.bytes, show: (row) => exact(row.bytes) },
  { key: "written", label: "Written", width: 80, value: (row) => (row.is_written ? "yes" : "no"), show: (row) => (row.is_written ? "yes" : { text: "waits", look: "warn" }) },
];
/** Why shared-match took a stream over. */
const MOVED: { [why: string]: string } = { crowd: "its events have many recipients", cpu: "contexts took more time than they may", memory: "contexts held more memory than they may" };
const logSort = signal({ key: "seq", isDescending: true });
const SUBSCRIPTIONS: Column<Subscription>[] = [
  { key: "guild", label: "Guild", width: 200, isLink: true, value: (row) => row.name || row.guild_id, show: (row) => ({ text: row.name || row.guild_id, href: `#/guilds/${row.guild_id}`, ...(row.name ? {} : { look: "code" }) }), title: (row) => row.guild_id },
  { key: "mode", label: "Receives", width: 160, value: (row) => (row.is_active ? "every event" : "passive updates") },
  { key: "membership", label: "State", width: 112, value: (row) => row.membership, show: (row) => (row.membership === "inside" ? "attached" : { text: "waits for it", look: "warn" }) },
];
const subscriptionSort = signal({ key: "guild", isDescending: false });
/** Accounts of sessions that were looked at: a session that is gone does not say whose it was. */
const accounts = new Map<string, { id: string; name: string }>();

export function SessionPage({ id }: { id: string }) {
  const report = useReport<SessionReport>(`node/sessions/${encodeURIComponent(id)}`);
  const { value, fault } = report;
  const back = <p><a href="#/sessions">← All sessions</a></p>;
  if (value) accounts.set(id, { id: value.session.user_id, name: value.session.username });
  if (fault?.status === 404) return <>{back}<Gone id={id} /></>;
  if (!value) return <>{back}{fault ? <Fault fault={fault} retry={report.retry} /> : <><Skeleton height={118} /><Skeleton height={320} /></>}</>;
  const { session } = value;
  const wire = rateOf(report, (each) => each.wire_bytes_total ?? undefined);
  const { raw_bytes_total: raw, wire_bytes_total: sent } = value;
  const ratio = raw !== null && sent !== null && raw > 0 ? sent / raw : NaN;
  const close = () => {
    question.value = {
      title: "Close this session?",
      text: `1 session of ${session.username || session.user_id} is closed with code 4009. It cannot be resumed; its client starts a new one within seconds.`,
      action: "Close session",
      isDangerous: true,
      act: async () => {
        await ask(`sessions/${encodeURIComponent(id)}`, "DELETE");
        return "1 session was closed. The audit log has an entry.";
      },
    };
  };
  const problem = value.blocked_ms !== null && value.blocked_ms > 1_000
    ? <span class="warn">▲ Its socket has been full for {join(duration(value.blocked_ms / 1000))}: the client does not read.</span>
    : session.backlog_events > 100 ? <span class="warn">▲ It is {exact(session.backlog_events)} events behind.</span>
    : session.is_connected ? <>It keeps up: {exact(session.backlog_events)} events wait to be written.</>
    : <>It has no connection, and can be resumed for another {join(duration((session.resumable_ms ?? 0) / 1000))}.</>;
  return (
    <>
      {back}
      <div class="title-row">
        <h2 class="title">{session.username || session.user_id} <Id id={session.id} /></h2>
        {may("sessions") ? <button class="danger" onClick={close}>Close session</button> : <span class="says">A key with the scope <code>sessions</code> can close it.</span>}
      </div>
      <p class="answer">{problem}</p>
      <div class="tiles">
        <Tile label="Codec" shown={[session.codec ?? "–", ""]} value={NaN} note={<>{session.encoding}, written by {value.writer ?? "no compressor"}{value.stream && <> for {join(duration(value.stream.since_ms / 1000))}</>}</>} />
        <Tile label="Ratio" shown={percent(ratio)} value={ratio} note={raw === null || sent === null ? "not counted" : <>{join(bytes(sent))} for {join(bytes(raw))}</>} />
        <Tile label="Sent" shown={byteRate(wire)} value={wire} note={value.window_bytes === null ? "in frames, without TLS" : <>in frames, window of {join(bytes(value.window_bytes))}</>} />
        <Tile label="Backlog" shown={count(session.backlog_events)} value={session.backlog_events} tone={session.backlog_events > 100 ? "warn" : undefined} note="events not written yet" />
        <Tile label="Replay buffer" shown={count(session.buffered_events)} value={session.buffered_events} note={<>{join(bytes(session.buffered_bytes))}, for a RESUME</>} />
        <Tile label="Last sign of life" shown={value.silent_ms === null ? ["–", ""] : duration(value.silent_ms / 1000)} value={(value.silent_ms ?? NaN) / 1000} note={<>seq {exact(session.seq)}, {join(perSecond(rateOf(report, (each) => each.session.seq)))}</>} />
      </div>
      <dl class="facts">
        <dt>Account</dt><dd><Id id={session.user_id} />{session.is_bot ? " bot" : ""} <a href="#/sessions" onClick={() => searchFor("user_id", session.user_id)}>all its sessions</a></dd>
        <dt>Platform</dt><dd>{session.platform || "–"}</dd>
        <dt>Shard</dt><dd>{session.shard ? `${session.shard[0]} of ${session.shard[1]}` : "none"}</dd>
        <dt>Intents</dt><dd><code>{value.intents}</code></dd>
        <dt>Capabilities</dt><dd><code>{value.capabilities}</code></dd>
        {value.stream && <><dt>Stream</dt><dd>{join(bytes(value.stream.memory_bytes))} of memory{value.stream.timed_total > 0 && <>, {join(duration(value.stream.timed_ns_total / value.stream.timed_total / 1e9))} of CPU time a message (mean of {exact(value.stream.timed_total)})</>}{value.stream.moved && <>; left its context: {MOVED[value.stream.moved] ?? value.stream.moved}</>}</dd></>}
        {value.billed && value.billed.count_total > 0 && <><dt>As sent</dt><dd>{number(shareOf(value.billed.wire_bytes_total, value.billed.zlib_bytes_total))} × of zlib-stream, {number(shareOf(value.billed.wire_bytes_total, value.billed.zstd_bytes_total))} × of zstd-stream, over {exact(value.billed.count_total)} frames</dd></>}
        <dt>Partition</dt><dd>{session.partition}</dd>
      </dl>
      <div class="charts">
        <section class="card"><h2>Last {number(value.log.length)} events</h2><p class="says">What its replay buffer still has: names and sizes before compression, no content.</p><Table label="Events" rows={value.log} columns={LOG} id={(row) => String(row.seq)} sort={logSort.value} onSort={(next) => { logSort.value = next; }} empty="Its client has acknowledged every event." height={360} /></section>
        <section class="card"><h2>Subscriptions</h2><p class="says">{counted(value.subscriptions.length, "guild")}.</p><Table label="Subscriptions" rows={value.subscriptions} columns={SUBSCRIPTIONS} id={(row) => row.guild_id} sort={subscriptionSort.value} onSort={(next) => { subscriptionSort.value = next; }} empty="It is in no guild." height={360} /></section>
      </div>
    </>
  );
}

/** The session ended: what its client does now is among the account's sessions. */
function Gone({ id }: { id: string }) {
  const account = accounts.get(id);
  return (
    <>
      <h2 class="title">This session is gone <Id id={id} /></h2>
      <p class="answer">It was closed, or nobody resumed it in time.</p>
      {account && <Others account={account} />}
    </>
  );
}

function Others({ account }: { account: { id: string; name: string } }) {
  const report = useReport<SessionsReport>(`node/sessions?user_id=${account.id}&limit=100`);
  return (
    <section class="card">
      <h2>Sessions of {account.name || account.id}</h2>
      <p class="says">If its client comes back, its new session appears here.</p>
      {report.value ? <Table label="Sessions of the account" rows={report.value.sessions} columns={COLUMNS} id={(row) => row.id} open={(row) => { location.hash = `#/sessions/${encodeURIComponent(row.id)}`; }} sort={sort.value} onSort={(next) => { sort.value = next; }} empty="None: its client has left, or waits before it connects again." height={240} /> : <Skeleton height={100} />}
    </section>
  );
}
