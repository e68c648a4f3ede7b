// Lab: would another codec send less? Dark launches and recordings of the node that the page shows.

import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { ask, askBytes, may, Refused, viewed } from "../api.ts";
import { armNames, SUGGESTED_ARMS } from "../arms.ts";
import { colorOf } from "../chart.tsx";
import { Field, fieldsOf, whole } from "../forms.tsx";
import { bytes, counted, duration, exact, join, number, percent, shareOf } from "../format.ts";
import { answered, refused, usePoll } from "../poll.ts";
import { Table, type Column } from "../table.tsx";
import type { DarkLaunch, DarkSum, DarkType, Recording } from "../types.ts";
import { Ago, Bars, Fault, now, question, Skeleton, tellUser } from "../ui.tsx";

/** Undefined until the node has answered, null if there is none. */
const dark = signal<DarkLaunch | null | undefined>(undefined);
const recording = signal<Recording | null | undefined>(undefined);
const fault = signal<Refused | undefined>(undefined);

/** Bytes of frames that a node keeps for the page: it ends a recording of which 32 MiB wait. */
const WAITING_MIB_MAX = 31;
/** Bytes of a request for frames. Those of another node come over the cluster's bus. */
const PART_BYTES = viewed === undefined ? 8 << 20 : 512 << 10;

async function load(): Promise<void> {
  try {
    const none = (error: Refused) => { if (error.status === 404) return null; throw error; };
    const [launch, [last]] = await Promise.all([ask<DarkLaunch>("lab/dark").catch(none), ask<Recording[]>("lab/recordings")]);
    dark.value = launch;
    recording.value = last ?? null;
    fault.value = undefined;
    answered();
  } catch (error) {
    fault.value = error as Refused;
    refused(fault.value);
  }
}

export function Lab() {
  usePoll(async () => { if (may("lab")) await load(); }, []);
  if (!may("lab")) return <p class="answer">This key has no scope <code>lab</code>. A key with it can compare codecs and record: create one on the page <a href="#/operations">Operations</a>, or by <code>guildhall key create --name lab --scopes read,lab</code>.</p>;
  if (dark.value === undefined || recording.value === undefined) return fault.value ? <Fault fault={fault.value} retry={() => void load()} /> : <><Skeleton height={40} /><Skeleton height={320} /><Skeleton height={240} /></>;
  return <div class="lab"><Dark launch={dark.value} /><Recordings last={recording.value} /></div>;
}

interface Arm { name: string; arm: string; color: string; total: DarkSum; connection: number; share: number; each: number; ofFirst: number }

function armsOf(launch: DarkLaunch): Arm[] {
  const names = armNames(launch.arms.map(({ arm }) => arm));
  const first = launch.arms[0]?.total.wire_bytes ?? NaN;
  return launch.arms.map(({ arm, total, connection_bytes }, index) => ({
    name: names[index]!, arm, color: colorOf(index), total, connection: connection_bytes, share: shareOf(total.wire_bytes, total.plain_bytes), each: perDispatch(total), ofFirst: shareOf(total.wire_bytes, first),
  }));
}

/** Seconds of CPU time for one dispatch. */
const perDispatch = ({ cpu_ns, count }: DarkSum): number => (count > 0 ? cpu_ns / count / 1e9 : NaN);
const showTime = (seconds: number): string => join(duration(seconds));
const ratioTitle = ({ plain_bytes, wire_bytes }: DarkSum): string => `${exact(wire_bytes)} of ${exact(plain_bytes)} bytes: ratio ${number(plain_bytes / wire_bytes)}`;

function Dark({ launch }: { launch: DarkLaunch | null }) {
  const isRunning = launch?.state === "running";
  const stop = async (action: string) => {
    try {
      await ask("lab/dark", "DELETE");
      tellUser(action);
    } catch (error) { tellUser((error as Error).message); }
    await load();
  };
  const form = <DarkForm replaces={launch !== null} />;
  if (!launch) return (
    <>
      <p class="answer">No dark launch runs. A dark launch compresses what some sessions are sent in up to four arms as well, and drops the bytes: clients receive the same bytes with and without it.</p>
      <section class="card"><h2>Start a dark launch</h2>{form}</section>
    </>
  );
  return (
    <>
      <Verdict launch={launch} />
      <div class="actions">{isRunning
        ? <button class="danger" onClick={() => void stop("The dark launch has ended; its figures stay until the next one starts.")}>Stop dark launch</button>
        : <button onClick={() => void stop("The figures are discarded.")}>Discard figures</button>}</div>
      <Figures launch={launch} />
      {!isRunning && <details><summary>Start another dark launch</summary>{form}</details>}
    </>
  );
}

function Verdict({ launch }: { launch: DarkLaunch }) {
  const { state, sessions, sessions_now, sessions_busy, sessions_memory, cpu_permille } = launch;
  const ranked = armsOf(launch).sort((a, b) => a.share - b.share);
  const count = ranked[0]?.total.count ?? 0;
  const seconds = Math.max(1, now.value / 1_000 - launch.started_at);
  const used = launch.cpu_ns / 1e9;
  const budget = join(percent(cpu_permille / 1_000));
  return (
    <>
      <p class="answer">{count === 0
        ? state === "running" ? "The dark launch has counted no dispatch yet: it counts those that sessions of the sample are sent from now on." : "The dark launch counted no dispatch: no session of its sample was sent any."
        : <>{ranked.map(({ name, share }, index) => <span key={name}>{index > 0 && ", "}<b>{name}</b>{index === 0 && " sends"} {join(percent(share))}{index === 0 && " of the uncompressed bytes"}</span>)}: over {exact(count)} dispatches of {counted(sessions, "session")}, {join(bytes(ranked[0]!.total.plain_bytes))}.</>}</p>
      <p class="facts-line"><b>{state === "running" ? "Running" : state === "stopped" ? "Stopped" : "Failed"}</b>, started <Ago at={launch.started_at * 1_000} />. {state === "running"
        ? <>It measures {counted(sessions_now, "session")} now. It has used {join(percent(used / seconds))} of a core, of the {budget} it may use, and its contexts hold {join(bytes(launch.memory_bytes))} now.</>
        : <>It used {showTime(used)} of CPU time, at most {budget} of a core.</>} {sessions_busy + sessions_memory === 0 && state !== "failed" && "No session was left out."}</p>
      <LeftOut launch={launch} />
    </>
  );
}

function LeftOut({ launch: { state, sessions_now, sessions_busy, sessions_memory, cpu_permille } }: { launch: DarkLaunch }) {
  if (sessions_busy + sessions_memory === 0 && state !== "failed") return null;
  const remain = state !== "running" ? "" : sessions_now > 0 ? `${counted(sessions_now, "session")} ${sessions_now === 1 ? "is" : "are"} measured in full.` : "The next one begins when the copies that wait are compressed.";
  return (
    <div class="findings" role="status"><ul>
      {state === "failed" && <li class="bad"><b>✕ The dark launch ended by an error.</b> The <a href="#/operations">recent warnings</a> have its reason. The figures are those up to the error.</li>}
      {sessions_busy > 0 && <li class="warn"><b>▲ {counted(sessions_busy, "session")} left the sample early: not enough CPU time.</b> Dispatches came faster than {join(percent(cpu_permille / 1_000))} of a core compresses them. The newest sessions leave first, and one is added again when there is time. Raise the CPU budget, or compare fewer arms. {remain}</li>}
      {sessions_memory > 0 && <li class="warn"><b>▲ {counted(sessions_memory, "session")} left out: the memory budget is used up.</b> Raise the memory budget, or take fewer sessions or arms. {remain}</li>}
    </ul></div>
  );
}

const typeSort = signal({ key: "plain", isDescending: true });
const armSort = signal({ key: "share", isDescending: false });
/** Figure of the arms in the table of dispatch types. */
const compared = signal<"bytes" | "time">("bytes");

/** Pixels for a heading of this text, with the mark of the sorted column. */
const headingWidth = (text: string, least: number): number => Math.min(220, Math.max(least, Math.ceil(text.length * 7.2) + 34));

const armColumns = (first: string): Column<Arm>[] => [
  { key: "name", label: "Arm", width: 144, value: (row) => row.name, show: (row) => ({ text: row.name, look: "code" }), title: (row) => row.arm },
  { key: "wire", label: "Bytes", width: 84, isNumber: true, value: (row) => row.total.wire_bytes, show: (row) => join(bytes(row.total.wire_bytes)) },
  { key: "share", label: "Sent", width: 76, isNumber: true, value: (row) => row.share || 0, show: (row) => join(percent(row.share)), title: (row) => ratioTitle(row.total) },
  { key: "first", label: `Of ${first}`, width: headingWidth(`Of ${first}`, 84), isNumber: true, value: (row) => row.ofFirst || 0, show: (row) => (Number.isFinite(row.ofFirst) ? `${row.ofFirst.toFixed(2)} ×` : "–") },
  { key: "each", label: "CPU each", width: 92, isNumber: true, value: (row) => row.each || 0, show: (row) => showTime(row.each), title: () => "CPU time to compress one dispatch, mean" },
  { key: "memory", label: "Memory each", width: 112, isNumber: true, value: (row) => row.connection, show: (row) => join(bytes(row.connection)), title: (row) => `${exact(row.connection)} bytes for one connection, the largest so far` },
  { key: "arm", label: "With all parameters", width: 430, value: (row) => row.arm, show: (row) => ({ text: row.arm, look: "code" }), title: (row) => row.arm },
];

interface TypeRow { name: string; count: number; plain: number; share: number; sums: DarkSum[] }

function typeColumns(names: readonly string[], of: "bytes" | "time"): Column<TypeRow>[] {
  return [
    { key: "name", label: "Dispatch type", width: 232, value: (row) => row.name },
    { key: "count", label: "Dispatches", width: 96, isNumber: true, value: (row) => row.count, show: (row) => exact(row.count) },
    { key: "size", label: "Bytes each", width: 96, isNumber: true, value: (row) => row.plain / row.count, show: (row) => join(bytes(row.plain / row.count)), title: () => "Mean before compression" },
    { key: "plain", label: "Of bytes", width: 84, isNumber: true, value: (row) => row.plain, show: (row) => join(percent(row.share)), title: (row) => `${exact(row.plain)} bytes before compression` },
    ...names.map((name, index): Column<TypeRow> => {
      const sum = (row: TypeRow): DarkSum => row.sums[index] ?? { count: 0, plain_bytes: 0, wire_bytes: 0, cpu_ns: 0 };
      const share = (row: TypeRow): number => shareOf(sum(row).wire_bytes, sum(row).plain_bytes);
      return of === "bytes"
        ? { key: `arm${index}`, label: name, width: headingWidth(name, 80), isNumber: true, value: (row) => share(row) || 0, show: (row) => join(percent(share(row))), title: (row) => ratioTitle(sum(row)) }
        : { key: `arm${index}`, label: name, width: headingWidth(name, 80), isNumber: true, value: (row) => perDispatch(sum(row)) || 0, show: (row) => showTime(perDispatch(sum(row))) };
    }),
  ];
}

function Figures({ launch }: { launch: DarkLaunch }) {
  const arms = armsOf(launch);
  const names = arms.map(({ name }) => name).join("\n");
  const columns = useMemo(() => armColumns(arms[0]?.name ?? ""), [names]);
  const byType = useMemo(() => typeColumns(arms.map(({ name }) => name), compared.value), [names, compared.value]);
  const rows = useMemo(() => {
    const all = new Map<string, TypeRow>();
    const plain = launch.arms[0]?.total.plain_bytes ?? 0;
    launch.arms.forEach(({ types }, index) => types.forEach((type: DarkType) => {
      const row = all.get(type.name) ?? { name: type.name, count: type.count, plain: type.plain_bytes, share: shareOf(type.plain_bytes, plain), sums: [] };
      row.sums[index] = type;
      all.set(type.name, row);
    }));
    return [...all.values()];
  }, [launch]);
  if (rows.length === 0) return null;
  const bars = (value: (arm: Arm) => number, note?: (arm: Arm) => string) => arms.map((arm) => ({ label: arm.name, value: value(arm), color: arm.color, isCode: true, ...(note && { note: note(arm) }) }));
  return (
    <>
      <div class="charts thirds">
        <Bars title="Sent of uncompressed bytes" says="Shorter is better; in grey, the ratio." format={percent} empty="" rows={bars(({ share }) => share, ({ total }) => number(total.plain_bytes / total.wire_bytes))} />
        <Bars title="CPU time per dispatch" says="Mean, on the thread of the lab." format={duration} empty="" rows={bars(({ each }) => each)} />
        <Bars title="Memory per connection" says="The largest so far." format={bytes} empty="" rows={bars(({ connection }) => connection)} />
      </div>
      <Table label="Arms" rows={arms} columns={columns} id={(row) => row.name} sort={armSort.value} onSort={(next) => { armSort.value = next; }} empty="" height={44 + 32 * (arms.length + 1)} />
      <div class="title-row">
        <h2 class="title">By dispatch type</h2>
        <div class="segments" role="group" aria-label="Figure">
          <button aria-pressed={compared.value === "bytes"} onClick={() => { compared.value = "bytes"; }}>Sent of uncompressed</button>
          <button aria-pressed={compared.value === "time"} onClick={() => { compared.value = "time"; }}>CPU time each</button>
        </div>
      </div>
      <Table label="Dispatch types by arm" rows={rows} columns={byType} id={(row) => row.name} sort={typeSort.value} onSort={(next) => { typeSort.value = next; }} empty="" height={Math.min(480, 44 + 32 * (rows.length + 1))} />
    </>
  );
}

/** The sessions that a dark launch or a recording takes. */
function Share({ sessions }: { sessions: number }) {
  return (
    <fieldset>
      <legend>Sessions</legend>
      <Field label="One session in" name="one_in" value={1} min={1} max={1_000_000} />
      <Field label="Sessions at most" name="sessions_max" value={sessions} min={1} max={1_000} />
      <label class="field">Only members of the guild<input name="guild_id" inputMode="numeric" pattern="[0-9]{1,20}" placeholder="Any; or its id" title="The id of a guild: up to 20 digits" /></label>
      <label class="field">Only the platform<select name="platform"><option value="">Any</option>{["desktop", "mobile", "web", "embedded", "vr"].map((each) => <option key={each}>{each}</option>)}</select></label>
      <label class="field">Only the encoding<select name="encoding"><option value="">Any</option><option value="json">JSON</option><option value="etf">ETF</option></select></label>
    </fieldset>
  );
}

const darkFault = signal<string | undefined>(undefined);
const isBusy = signal(false);
const ARMS = ["zlib", "zstd", "zstd:level=3", "zstd-once"];

function DarkForm({ replaces }: { replaces: boolean }) {
  const start = async (event: Event) => {
    event.preventDefault();
    const field = fieldsOf(event.currentTarget as HTMLFormElement);
    isBusy.value = true;
    darkFault.value = undefined;
    try {
      dark.value = await ask<DarkLaunch>("lab/dark", "POST", {
        arms: ARMS.map((_, index) => field(`arm${index}`)).filter((arm) => arm !== undefined), one_in: whole(field("one_in")), sessions_max: whole(field("sessions_max")), guild_id: field("guild_id"), platform: field("platform"), encoding: field("encoding"),
        cpu_permille: Math.round(Number(field("cpu")) * 10), memory_bytes_max: Number(field("memory")) * 2 ** 20,
      });
      tellUser("The dark launch has started.");
    } catch (error) { darkFault.value = (error as Error).message; } finally { isBusy.value = false; }
  };
  return (
    <form class="lab-form" onSubmit={(event) => void start(event)}>
      <fieldset aria-describedby="arms-help">
        <legend>Arms</legend>
        {ARMS.map((arm, index) => <label key={arm} class="field">Arm {index + 1}<input class="arm" name={`arm${index}`} defaultValue={arm} list="arms" spellcheck={false} autocomplete="off" maxLength={200} placeholder="None" /></label>)}
        <datalist id="arms">{SUGGESTED_ARMS.map((arm) => <option key={arm} value={arm} />)}</datalist>
      </fieldset>
      <p id="arms-help" class="says">A codec, with its parameters behind a colon: <code>zstd:level=3,window=21</code>. An empty arm is left out.</p>
      <Share sessions={16} />
      <fieldset>
        <legend>Budgets</legend>
        <Field label="CPU time, % of a core" name="cpu" value={1} min={0.1} max={50} step={0.1} />
        <Field label="Memory of all contexts, MiB" name="memory" value={64} min={1} max={1_024} />
      </fieldset>
      {darkFault.value && <p class="fault" role="alert">{darkFault.value}</p>}
      {replaces && <p class="says">The figures above are discarded when it starts.</p>}
      <button class="primary" disabled={isBusy.value}>Start dark launch</button>
    </form>
  );
}

/** Frames that this page has read: the node frees those of which it asks for the next. */
const taken = signal<{ id: string; parts: Uint8Array<ArrayBuffer>[]; bytes: number } | undefined>(undefined);
const saving = signal<string | undefined>(undefined);
const saveFault = signal<string | undefined>(undefined);

/** Reads an ended recording into a file of the browser. After a fault it continues where it was. */
async function save({ id, bytes: all }: Recording): Promise<void> {
  saveFault.value = undefined;
  saving.value = "Reading…";
  try {
    let held = taken.peek()?.id === id ? taken.peek()! : { id, parts: [], bytes: 0 };
    while (held.bytes < all) {
      const part = await askBytes(`lab/recordings/${encodeURIComponent(id)}/frames?from=${held.bytes}&bytes_max=${PART_BYTES}`);
      if (part.length === 0) break;
      held = { id, parts: [...held.parts, part], bytes: held.bytes + part.length };
      taken.value = held;
      saving.value = `${join(bytes(held.bytes))} of ${join(bytes(all))}`;
    }
    const url = URL.createObjectURL(new Blob(held.parts, { type: "application/zstd" }));
    const file = document.createElement("a");
    file.href = url;
    file.download = `recording-${id}.ndjson.zst`;
    file.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    tellUser(`Saved as ${file.download}: look at it by guildhall lab show.`);
  } catch (error) {
    saveFault.value = (error as Error).message;
  } finally {
    saving.value = undefined;
  }
}

const ENDED: Record<NonNullable<Recording["ended"]>, string> = {
  time: "ended when its time was over", bytes: "ended at its bound of bytes", stopped: "was stopped", failed: "ended by an error, whose reason the log has",
  not_taken: "ended because 32 MiB of it waited: record with fewer sessions, or by guildhall lab record, which reads while it records",
};

function Recordings({ last }: { last: Recording | null }) {
  const isRunning = last !== null && last.ended === null;
  return (
    <>
      <h2 class="title">Recordings</h2>
      {last ? <LastRecording of={last} /> : <p class="answer">No recording is on this node. A recording has what some sessions are sent, with texts, names and ids scrubbed: a file for <code>guildhall lab show</code>, <code>tune</code> and <code>train</code>.</p>}
      {!isRunning && (last ? <details><summary>Start another recording</summary><RecordingForm last={last} /></details> : <section class="card"><h2>Start a recording</h2><RecordingForm last={last} /></section>)}
    </>
  );
}

function LastRecording({ of: last }: { of: Recording }) {
  const act = async (says: string) => {
    try {
      await ask(`lab/recordings/${encodeURIComponent(last.id)}`, "DELETE");
      tellUser(says);
    } catch (error) { tellUser((error as Error).message); }
    await load();
  };
  const discard = () => {
    question.value = {
      title: "Discard the recording?", text: `${join(bytes(last.bytes))} of ${counted(last.sessions, "session")} are gone then. A file that was saved stays.`, action: "Discard recording", isDangerous: true,
      act: async () => { await ask(`lab/recordings/${encodeURIComponent(last.id)}`, "DELETE"); await load(); return "The recording is discarded."; },
    };
  };
  const held = taken.value?.id === last.id ? taken.value.bytes : 0;
  const elsewhere = last.bytes - last.waiting_bytes > held;
  return (
    <>
      <p class="answer">{last.ended === null ? <>A recording runs, started <Ago at={last.started_at * 1_000} />.</> : <>The recording started <Ago at={last.started_at * 1_000} /> {ENDED[last.ended]}.</>} It has <b>{exact(last.dispatches)}</b> dispatches of {counted(last.sessions, "session")}, {join(bytes(last.bytes))} compressed{last.ended === null && `, of which ${join(bytes(last.waiting_bytes))} wait on the node`}.</p>
      <p class="facts-line">{last.scrubbed ? "Texts, names and ids are scrubbed." : <b class="warn">▲ Texts, names and ids are in it as they are.</b>} {last.private ? <b class="warn">▲ Private channels and direct messages are in it.</b> : "Private channels and direct messages are left out."} {last.left_out > 0 && `${exact(last.left_out)} dispatches were left out: a scrubbed recording has no events of backends.`} The file is confidential all the same.</p>
      {last.sessions_full > 0 && <div class="findings" role="status"><ul><li class="warn"><b>▲ {counted(last.sessions_full, "session")} ended early.</b> The thread of the lab had no time for them, and the newest end first: the other {exact(last.sessions - last.sessions_full)} are in full. To have all of them in full, record fewer sessions.</li></ul></div>}
      {elsewhere && <p class="says">Another program reads this recording, or an earlier page did: {join(bytes(last.bytes - last.waiting_bytes))} of it are there, and no longer on the node.</p>}
      {saveFault.value && <p class="fault" role="alert">{saveFault.value}</p>}
      <div class="actions">
        {last.ended === null
          ? <button class="danger" onClick={() => void act("The recording has ended; save its file, or discard it.")}>Stop recording</button>
          : <>
            {!elsewhere && <button class="primary" disabled={saving.value !== undefined || last.bytes === 0} onClick={() => void save(last)}>Save file ({join(bytes(last.bytes))})</button>}
            <button class="danger" onClick={discard}>Discard recording</button>
          </>}
        {saving.value && <span class="says" role="status">{saving.value}</span>}
      </div>
    </>
  );
}

const recordingFault = signal<string | undefined>(undefined);

function RecordingForm({ last }: { last: Recording | null }) {
  const begin = async (plan: Record<string, unknown>) => {
    recording.value = await ask<Recording>("lab/recordings", "POST", plan);
    taken.value = undefined;
    return "The recording has started.";
  };
  const start = async (event: Event) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const field = fieldsOf(form);
    const plan = {
      one_in: whole(field("one_in")), sessions_max: whole(field("sessions_max")), guild_id: field("guild_id"), platform: field("platform"), encoding: field("encoding"),
      seconds_max: Number(field("minutes")) * 60, bytes_max: Number(field("megabytes")) * 2 ** 20, private: field("private") !== undefined, scrub: field("contents") === undefined,
    };
    recordingFault.value = undefined;
    if (plan.private || !plan.scrub) {
      const texts = [!plan.scrub && "Texts, names and ids of users leave the node as they are: the file is as sensitive as the database.", plan.private && "Direct messages and channels that not every member may view are in it."];
      question.value = { title: "Record what users write?", text: texts.filter(Boolean).join(" "), action: "Start recording", isDangerous: true, act: () => begin(plan) };
      return;
    }
    isBusy.value = true;
    try { tellUser(await begin(plan)); } catch (error) { recordingFault.value = (error as Error).message; } finally { isBusy.value = false; }
  };
  return (
    <form class="lab-form" onSubmit={(event) => void start(event)}>
      <fieldset>
        <legend>Bounds</legend>
        <Field label="Minutes" name="minutes" value={5} min={1} max={1_440} />
        <Field label="Compressed MiB" name="megabytes" value={WAITING_MIB_MAX} min={1} max={WAITING_MIB_MAX} />
      </fieldset>
      <p class="says">The file stays in the node’s memory until it is saved, so it has at most {WAITING_MIB_MAX} MiB; <code>guildhall lab record</code> makes larger ones.</p>
      <Share sessions={32} />
      <fieldset>
        <legend>Contents</legend>
        <label class="check"><input type="checkbox" name="private" /> Private channels and direct messages</label>
        <label class="check"><input type="checkbox" name="contents" /> Texts, names and ids as they are</label>
      </fieldset>
      {recordingFault.value && <p class="fault" role="alert">{recordingFault.value}</p>}
      {last && <p class="says">The recording above is discarded when it starts.</p>}
      <button class="primary" disabled={isBusy.value}>Start recording</button>
    </form>
  );
}
