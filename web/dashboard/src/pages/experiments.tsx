// Experiments: is an arm better for clients, and does it do harm? One state for all nodes of a cluster.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { ask, may, Refused } from "../api.ts";
import { SUGGESTED_ARMS } from "../arms.ts";
import { bytes, counted, duration, exact, join, number, percent, type Shown } from "../format.ts";
import { Field, fieldsOf, whole } from "../forms.tsx";
import { answered, refused, usePoll } from "../poll.ts";
import { Table, type Column } from "../table.tsx";
import type { Comparison, Experiment, ExperimentArm, ExperimentMetric, ExperimentReport, ExperimentState } from "../types.ts";
import { Ago, Fault, question, Skeleton, tellUser } from "../ui.tsx";

const all = signal<Experiment[] | undefined>(undefined);
const report = signal<ExperimentReport | undefined>(undefined);
const fault = signal<Refused | undefined>(undefined);

const at = (name: string): string => `experiments/${encodeURIComponent(name)}`;

async function load(name: string): Promise<void> {
  try {
    const [list, figures] = await Promise.all([ask<Experiment[]>("experiments"), name ? ask<ExperimentReport>(`${at(name)}/report`) : undefined]);
    all.value = list;
    report.value = figures;
    fault.value = undefined;
    answered();
  } catch (error) {
    fault.value = error as Refused;
    refused(fault.value);
  }
}

export function Experiments({ name }: { name: string }) {
  usePoll(async () => { if (may("lab")) await load(name); }, [name]);
  if (!may("lab")) return <p class="answer">This key has no scope <code>lab</code>. A key with it can run experiments: create one on the page <a href="#/operations">Operations</a>, or by <code>guildhall key create --name lab --scopes read,lab</code>.</p>;
  if (!all.value || (name && fault.value?.status === 404)) return fault.value ? <><Fault fault={fault.value} retry={() => void load(name)} />{name && <p class="says"><a href="#/experiments">All experiments</a></p>}</> : <><Skeleton height={40} /><Skeleton height={240} /></>;
  const found = all.value.find((each) => each.name === name);
  return <div class="lab">{found ? <One of={found} report={report.value?.name === name ? report.value : undefined} /> : <List list={all.value} />}</div>;
}

const STATES: Record<ExperimentState, string> = { draft: "draft", running: "running", stopped: "stopped", rolled_back: "rolled back" };
/** How an arm writes streams. */
const writes = ({ arm, policy }: ExperimentArm): string => arm ?? policy ?? "as the settings have it";
/** The reason of an end as a sentence. */
const because = ({ reason }: Experiment): string => (reason ? `${reason.replace(/\.?$/, ".")}` : "");
const share = ({ permille }: Experiment): string => join(percent(permille / 1_000));

const COLUMNS: Column<Experiment>[] = [
  { key: "name", label: "Experiment", width: 200, isLink: true, value: (row) => row.name, show: (row) => ({ text: row.name, href: `#/${at(row.name)}` }) },
  { key: "state", label: "State", width: 112, value: (row) => STATES[row.state], show: (row) => ({ text: STATES[row.state], look: row.state === "rolled_back" ? "bad" : row.state === "running" ? "strong" : "" }) },
  { key: "share", label: "Accounts", width: 92, isNumber: true, value: (row) => row.permille, show: share },
  { key: "layer", label: "Layer", width: 112, value: (row) => row.layer },
  { key: "arms", label: "Arms", width: 300, value: (row) => row.arms.map(({ name }) => name).join(", ") },
  { key: "created", label: "Created", width: 168, value: (row) => row.created_at, show: (row) => new Date(row.created_at * 1_000).toISOString().slice(0, 16).replace("T", " ") },
];
const sort = signal({ key: "created", isDescending: true });

function List({ list }: { list: Experiment[] }) {
  const running = list.filter(({ state }) => state === "running");
  const back = list.filter(({ state }) => state === "rolled_back");
  return (
    <>
      <p class="answer">{running.length === 0 ? "No experiment runs." : running.length === 1 ? <><b>{running[0]!.name}</b> runs, for {share(running[0]!)} of the accounts.</> : <>{running.length} experiments run.</>} An experiment gives a share of the accounts another arm and stops itself when a guardrail shows harm. A client only receives a codec that it asked for.</p>
      {back.length > 0 && <div class="findings"><ul>{back.map((each) => <li key={each.name} class="bad"><b>✕ <a href={`#/${at(each.name)}`}>{each.name}</a> was rolled back</b> {each.ended_at !== null && <Ago at={each.ended_at * 1_000} />}. {because(each)}</li>)}</ul></div>}
      {list.length > 0 && <Table label="Experiments" rows={list} columns={COLUMNS} id={(row) => row.name} open={(row) => { location.hash = `#/${at(row.name)}`; }} sort={sort.value} onSort={(next) => { sort.value = next; }} empty="" height={Math.min(400, 44 + 32 * (list.length + 1))} />}
      {list.length > 0 ? <details><summary>Start an experiment</summary><Form /></details> : <section class="card"><h2>Start an experiment</h2><Form /></section>}
    </>
  );
}

/** Sends a change, and loads again. */
async function change(name: string, path: string, method: string, body: unknown, done: string): Promise<string> {
  await ask(path, method, body);
  await load(name);
  return done;
}

function One({ of, report }: { of: Experiment; report: ExperimentReport | undefined }) {
  const isOver = of.state === "stopped" || of.state === "rolled_back";
  const connections = report?.arms.reduce((sum, arm) => sum + arm.connections, 0) ?? 0;
  const stop = (reconnect: boolean) => {
    question.value = {
      title: `Stop ${of.name}?`,
      text: `New connections do not take part from now on, on any node. ${reconnect ? "Clients with one of its arms are sent op 7, at a bounded rate, and resume as the settings have it." : "Clients that are connected keep their arm until they reconnect."}`,
      action: reconnect ? "Stop and reconnect clients" : "Stop experiment", isDangerous: true,
      act: () => change(of.name, `${at(of.name)}/stop`, "POST", { reconnect }, `${of.name} has stopped.`),
    };
  };
  const remove = () => {
    question.value = {
      title: `Remove ${of.name}?`, text: "1 experiment and its figures are gone then. Its accounts are free for others of the layer.", action: "Remove experiment", isDangerous: true,
      act: async () => { await ask(at(of.name), "DELETE"); location.hash = "#/experiments"; return `${of.name} is removed.`; },
    };
  };
  const start = async () => {
    try { tellUser(await change(of.name, at(of.name), "PATCH", { start: true }, `${of.name} has started.`)); } catch (error) { tellUser((error as Error).message); }
  };
  return (
    <>
      <p class="says"><a href="#/experiments">All experiments</a></p>
      <h2 class="title">{of.name} <small>{STATES[of.state]}</small></h2>
      {of.state === "rolled_back" && <div class="findings" role="status"><ul><li class="bad"><b>✕ A guardrail rolled it back</b> {of.ended_at !== null && <Ago at={of.ended_at * 1_000} />}. {because(of)} {of.reconnected ? "Its clients were sent op 7 and resume as the settings have it." : "Connected clients keep their arm until they reconnect."}</li></ul></div>}
      <p class="answer">{of.state === "draft" ? "It is a draft: no account takes part." : <>{isOver ? "It had" : "It has"} {share(of)} of the accounts of the layer <code>{of.layer}</code>{audience(of)}{report && <>: {counted(connections, "connection")}, on {counted(report.nodes, "node")}</>}.</>} {of.started_at !== null && <>Started <Ago at={of.started_at * 1_000} />.</>} {of.state === "stopped" && <>Stopped by <b>{of.changed_by}</b>{of.ended_at !== null && <> <Ago at={of.ended_at * 1_000} /></>}{of.reason ? <>: {because(of)}</> : "."}</>}</p>
      <div class="actions">
        {of.state === "draft" && <button class="primary" onClick={() => void start()}>Start experiment</button>}
        {of.state === "running" && <Ramp of={of} />}
        {of.state === "running" && <><button class="danger" onClick={() => stop(false)}>Stop experiment</button><button class="danger" onClick={() => stop(true)}>Stop and reconnect clients</button></>}
        {of.state !== "running" && <button class="danger" onClick={remove}>Remove experiment</button>}
      </div>
      {report && report.samples_dropped > 0 && <p class="says">▲ {counted(report.samples_dropped, "sample")} of all experiments were dropped, because too many waited: the figures have fewer samples, and are no less right.</p>}
      <Arms of={of} report={report} />
      {report && <Metrics of={of} report={report} />}
    </>
  );
}

function audience({ audience: { platforms, bots, guild_id } }: Experiment): string {
  const parts = [platforms.length > 0 && `on ${platforms.join(" and ")}`, bots === true && "that are bots", bots === false && "that are no bots", guild_id && `in the guild ${guild_id}`];
  const some = parts.filter(Boolean);
  return some.length > 0 ? `, only those ${some.join(", ")}` : "";
}

const rampFault = signal<string | undefined>(undefined);
function Ramp({ of }: { of: Experiment }) {
  const ramp = async (event: Event) => {
    event.preventDefault();
    const permille = Math.round(Number(fieldsOf(event.currentTarget as HTMLFormElement)("share")) * 10);
    rampFault.value = undefined;
    try { tellUser(await change(of.name, at(of.name), "PATCH", { permille }, `${of.name} has ${join(percent(permille / 1_000))} of the accounts now.`)); } catch (error) { rampFault.value = (error as Error).message; }
  };
  return (
    <form class="ramp" onSubmit={(event) => void ramp(event)}>
      <label for="ramp">Accounts, %</label>
      <input id="ramp" name="share" type="number" inputMode="decimal" min={0} max={100} step={0.1} defaultValue={String(of.permille / 10)} required />
      <button>Change share</button>
      {rampFault.value && <p class="fault" role="alert">{rampFault.value}</p>}
    </form>
  );
}

interface ArmRow { index: number; name: string; writes: string; share: number; connections: number; isControl: boolean }
const ARM_COLUMNS: Column<ArmRow>[] = [
  { key: "name", label: "Arm", width: 160, value: (row) => row.index, show: (row) => (row.isControl && row.name !== "control" ? `${row.name} (control)` : row.name), title: (row) => row.name },
  { key: "writes", label: "Writes streams", width: 440, value: (row) => row.writes, show: (row) => ({ text: row.writes, look: "code" }) },
  { key: "share", label: "Of accounts", width: 104, isNumber: true, value: (row) => row.share, show: (row) => join(percent(row.share)) },
  { key: "connections", label: "Connections", width: 112, isNumber: true, value: (row) => row.connections, show: (row) => exact(row.connections) },
];
const armSort = signal({ key: "name", isDescending: false });

function Arms({ of, report }: { of: Experiment; report: ExperimentReport | undefined }) {
  const weights = of.arms.reduce((sum, { weight }) => sum + weight, 0);
  const rows = of.arms.map((arm, index): ArmRow => ({ index, name: arm.name, writes: writes(arm), share: (arm.weight / weights) * (of.permille / 1_000), connections: report?.arms[index]?.connections ?? 0, isControl: index === 0 }));
  return <Table label="Arms" rows={rows} columns={ARM_COLUMNS} id={(row) => row.name} sort={armSort.value} onSort={(next) => { armSort.value = next; }} empty="" height={44 + 32 * (rows.length + 1)} />;
}

/** A difference between shares is in percentage points. */
const points = (share: number): Shown => [number(share * 100), "points"];

interface Metric { title: string; format: (value: number) => Shown; difference?: (value: number) => Shown; hasTolerance: boolean }
const METRICS: Record<string, Metric> = {
  wire_bytes: { title: "Bytes per dispatch", format: bytes, hasTolerance: true },
  cpu_ns: { title: "CPU time per dispatch", format: (ns) => duration(ns / 1e9), hasTolerance: true },
  wait_ms: { title: "Wait for the socket per dispatch", format: (ms) => duration(ms / 1e3), hasTolerance: true },
  delivery_us: { title: "Time from the guild to the socket", format: (us) => duration(us / 1e6), hasTolerance: true },
  resumes: { title: "Connections that resume", format: percent, difference: points, hasTolerance: true },
  identifies: { title: "Identifies that are repetitions", format: percent, difference: points, hasTolerance: true },
  decode_faults: { title: "Connections that end by a decode error", format: percent, difference: points, hasTolerance: false },
};
const metricOf = (name: string): Metric => METRICS[name] ?? { title: name, format: (value) => [number(value), ""], hasTolerance: true };

function Metrics({ of, report }: { of: Experiment; report: ExperimentReport }) {
  const [control, ...others] = report.arms;
  if (!control || control.metrics.length === 0) return null;
  return (
    <>
      <h2 class="title">Against {control.name}</h2>
      <p class="says">Bars are intervals of differences that the samples do not exclude: {join(percent(1 - of.alpha))} of experiments without harm end without an alarm, however often this page is open. A guardrail stops the experiment when an interval is wholly above its limit. More is worse in each.</p>
      <div class="charts">{control.metrics.map((metric) => <Intervals key={metric.name} of={of} control={metric} arms={others.map((arm) => ({ name: arm.name, metric: arm.metrics.find(({ name }) => name === metric.name) }))} />)}</div>
    </>
  );
}

function Intervals({ of, control, arms }: { of: Experiment; control: ExperimentMetric; arms: { name: string; metric: ExperimentMetric | undefined }[] }) {
  const { title, format, difference = format, hasTolerance } = metricOf(control.name);
  const limit = hasTolerance ? Math.abs(control.mean) * (of.tolerance_percent / 100) : 0;
  const found = arms.flatMap(({ metric }) => (metric?.comparison ? [metric.comparison] : []));
  // Every interval, zero and the limit are in the scale, which has the same length on both sides of nothing.
  const reach = Math.max(limit * 1.5, ...found.flatMap(({ low, high }) => [Math.abs(low), Math.abs(high)]), Number.EPSILON) * 1.1;
  const place = (value: number): string => `${(50 + (value / reach) * 50).toFixed(2)}%`;
  const signed = (value: number): string => { const [text, unit] = difference(Math.abs(value)); return `${text === "0" ? "±" : value > 0 ? "+" : "−"}${join([text, unit])}`; };
  const relative = (value: number): string => (control.mean > 0 ? ` (${value > 0 ? "+" : value < 0 ? "−" : "±"}${join(percent(Math.abs(value) / control.mean))})` : "");
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <p class="says">{control.samples > 0 ? <>Control: {join(format(control.mean))}, of {counted(control.samples, "sample")}.{hasTolerance && <> Limit, dashed: {signed(limit)}.</>}</> : "The control has no sample yet."}</p>
      <ul class="intervals">{arms.map(({ name, metric }) => {
        const comparison = metric?.comparison;
        return (
          <li key={name} class={comparison ? verdict(comparison)[0] : ""}>
            <div class="head"><span class="bar-label" title={name}>{name}</span>{comparison && <span><b class={verdict(comparison)[2]}>{verdict(comparison)[1]}</b>: {signed(comparison.difference)}{relative(comparison.difference)}</span>}</div>
            {comparison ? (
              <>
                <span class="track" role="img" aria-label={`${signed(comparison.difference)}, from ${signed(comparison.low)} to ${signed(comparison.high)}`} title={`${exact(comparison.low)} to ${exact(comparison.high)}`}>
                  <i class="zero" style={{ left: "50%" }} />{limit > 0 && <i class="limit" style={{ left: place(limit) }} />}
                  <i class="interval" style={{ left: place(comparison.low), right: `${(50 - (comparison.high / reach) * 50).toFixed(2)}%` }} />
                  <i class="mean" style={{ left: place(comparison.difference) }} />
                </span>
                <small>{signed(comparison.low)} to {signed(comparison.high)}; {exact(metric!.samples)} samples</small>
              </>
            ) : <span class="says">{(metric?.samples ?? 0) < of.samples_min ? `${exact(metric?.samples ?? 0)} of ${exact(of.samples_min)} samples` : `The control has ${exact(control.samples)} of ${exact(of.samples_min)} samples`}: no interval yet</span>}
          </li>
        );
      })}</ul>
      {found.length > 0 && <div class="intervals"><div class="scale" aria-hidden="true"><span>less</span><span>as the control</span><span>more</span></div></div>}
    </section>
  );
}

/** Class of the row, word, and class of the word. */
function verdict({ low, high, is_worse }: Comparison): [string, string, string] {
  if (is_worse) return ["worse", "▲ worse than the limit", "bad"];
  if (low > 0) return ["", "more, within the limit", ""];
  if (high < 0) return ["better", "● better", "good"];
  return ["", "no difference shown", ""];
}

const formFault = signal<string | undefined>(undefined);
const isBusy = signal(false);
const ARMS: [string, string][] = [["control", ""], ["test", "zstd:level=3"], ["", ""], ["", ""]];
const POLICIES = ["context", "larger", "shared-match"];

function Form() {
  const start = async (event: Event) => {
    event.preventDefault();
    const field = fieldsOf(event.currentTarget as HTMLFormElement);
    const arms = ARMS.flatMap((_, index) => {
      const name = field(`name${index}`);
      const how = field(`writes${index}`);
      return name === undefined && how === undefined ? [] : [{ name: name ?? "", weight: whole(field(`weight${index}`)), ...(how && (POLICIES.includes(how) ? { policy: how } : { arm: how })) }];
    });
    const platform = field("platform");
    const accounts = field("accounts");
    isBusy.value = true;
    formFault.value = undefined;
    try {
      const made = await ask<Experiment>("experiments", "POST", {
        name: field("name"), layer: field("layer"), permille: Math.round(Number(field("share")) * 10), arms,
        audience: { platforms: platform ? [platform] : [], bots: accounts === undefined ? null : accounts === "bots", guild_id: field("guild_id") ?? null },
        alpha: Number(field("alpha")) / 100, tolerance_percent: Number(field("tolerance")), samples_min: whole(field("samples")), reconnect_on_rollback: field("reconnect") !== undefined, draft: field("draft") !== undefined,
      });
      tellUser(made.state === "draft" ? `${made.name} is a draft.` : `${made.name} has started.`);
      location.hash = `#/${at(made.name)}`;
    } catch (error) { formFault.value = (error as Error).message; } finally { isBusy.value = false; }
  };
  const text = (label: ComponentChildren, name: string, value: string, more: Record<string, unknown> = {}) => <label class="field">{label}<input name={name} defaultValue={value} autocomplete="off" spellcheck={false} maxLength={200} {...more} /></label>;
  return (
    <form class="lab-form" onSubmit={(event) => void start(event)}>
      <fieldset>
        <legend>Experiment</legend>
        {text("Name", "name", "", { required: true, pattern: "[A-Za-z0-9_\\-][A-Za-z0-9_.\\-]{0,63}", title: "Letters, digits, -, _ and .", placeholder: "zstd-level-3" })}
        {text("Layer", "layer", "default", { required: true })}
        <Field label="Accounts, %" name="share" value={10} min={0} max={100} step={0.1} />
      </fieldset>
      {ARMS.map(([name, how], index) => (
        <fieldset key={index} aria-describedby="writes-help">
          <legend>{index === 0 ? "Control" : `Arm ${index}`}</legend>
          {text("Name of the arm", `name${index}`, name, { required: index < 2, placeholder: "None" })}
          {text("Writes streams by", `writes${index}`, how, { list: "writers", class: "arm", placeholder: "Settings" })}
          <Field label="Weight" name={`weight${index}`} value={1} min={1} max={10_000} />
        </fieldset>
      ))}
      <datalist id="writers">{[...SUGGESTED_ARMS.filter((arm) => /^(zlib|zstd)(:|$)/.test(arm)), ...POLICIES].map((arm) => <option key={arm} value={arm} />)}</datalist>
      <p id="writes-help" class="says"><code>zlib</code> or <code>zstd</code> with parameters, such as <code>zstd:level=3</code>; <code>context</code>: the node’s context to the end of the stream; <code>larger</code>: a larger one; <code>shared-match</code>; empty: as the settings have it. Only clients that asked for the codec receive it. An arm without a name is left out.</p>
      <fieldset>
        <legend>Accounts</legend>
        <label class="field">Kind of account<select name="accounts"><option value="">Bots and users</option><option value="bots">Bots</option><option value="users">Users</option></select></label>
        <label class="field">Only the platform<select name="platform"><option value="">Any</option>{["desktop", "mobile", "web", "embedded", "vr"].map((each) => <option key={each}>{each}</option>)}</select></label>
        {text("Only members of the guild", "guild_id", "", { inputMode: "numeric", pattern: "[0-9]{1,20}", placeholder: "Any; or its id", title: "The id of a guild: up to 20 digits" })}
      </fieldset>
      <fieldset>
        <legend>Guardrails</legend>
        <Field label="Limit, % above the control" name="tolerance" value={5} min={0} max={1_000} step={0.1} />
        <Field label="Samples of both arms at least" name="samples" value={200} min={30} max={1_000_000} />
        <Field label="False alarms at most, %" name="alpha" value={5} min={0.1} max={50} step={0.1} />
        <label class="check"><input type="checkbox" name="reconnect" defaultChecked /> A rollback reconnects its clients</label>
        <label class="check"><input type="checkbox" name="draft" /> As a draft: start it later</label>
      </fieldset>
      {formFault.value && <p class="fault" role="alert">{formFault.value}</p>}
      <button class="primary" disabled={isBusy.value}>Start experiment</button>
    </form>
  );
}
