// Operations: settings in force, refused clients, and actions.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask, may, Refused } from "../api.ts";
import { Chart } from "../chart.tsx";
import { useFeed } from "../feed.ts";
import { Files } from "../files.tsx";
import { exact, perSecond } from "../format.ts";
import { useReport } from "../report.ts";
import type { OperationsReport, Setting } from "../types.ts";
import { Table, type Column } from "../table.tsx";
import { Ago, Bars, Fault, Id, question, Skeleton, tellUser } from "../ui.tsx";

const COLUMNS: Column<Setting>[] = [
  { key: "name", label: "Setting", width: 256, value: (row) => row.name, show: (row) => ({ text: row.name, look: "code" }) },
  { key: "value", label: "Value", width: 240, value: (row) => row.value, show: (row) => ({ text: row.value || "not set", look: "code" }), title: (row) => row.value },
  { key: "origin", label: "Source", width: 200, value: (row) => (row.origin === "default" ? "\uffff" : row.origin), show: (row) => (row.origin === "default" ? { text: "default", look: "quiet-text" } : { text: row.origin, look: "strong" }), title: (row) => row.origin },
  { key: "live", label: "A change needs", width: 136, value: (row) => (row.is_live ? "reload" : "restart") },
];
/** What differs from its default comes first. */
const sort = signal({ key: "origin", isDescending: false });
const filter = signal("");
const onlyChanged = signal(false);

interface Key { id: string; name: string; scopes: string[]; accounts?: string[]; created_at: string }
const keys = signal<Key[] | Refused | undefined>(undefined);
interface Entry { id: string; at: string; key_id: string | null; action: string; object: Record<string, string>; status: number }
const entries = signal<Entry[] | Refused | undefined>(undefined);

async function loadKeys(): Promise<void> {
  try { keys.value = await ask<Key[]>("keys"); } catch (error) { keys.value = error as Refused; }
}

/** The newest hundred: the log is read from its oldest entry, and only forwards. */
async function loadEntries(): Promise<void> {
  try {
    let newest: Entry[] = [];
    for (let after = "", pages = 0; pages < 50; pages++) {
      const { entries: page } = await ask<{ entries: Entry[] }>(`audit?limit=1000${after && `&after=${after}`}`);
      newest = [...newest, ...page].slice(-100);
      if (page.length < 1_000) break;
      after = page.at(-1)!.id;
    }
    entries.value = newest.reverse();
  } catch (error) { entries.value = error as Refused; }
}

const SERIES = ["slow_consumers", "sockets_refused", "tokens_refused", "identifies_refused", "resumes_refused", "keys_refused", "connections"];

export function Operations() {
  const report = useReport<OperationsReport>("node/operations", () => 2_000);
  const feed = useFeed(SERIES);
  const { value, fault } = report;
  useEffect(() => {
    if (!may("keys")) return;
    void loadKeys();
    void loadEntries();
  }, []);
  const connections = feed.now("connections");
  const reload = () => {
    question.value = {
      title: "Read the configuration again?",
      text: "Settings that need only a reload take effect at once; the answer names those that need a restart. A faulty configuration changes nothing.",
      action: "Reload configuration",
      act: async () => {
        const { applied, need_restart } = await ask<{ applied: string[]; need_restart: string[] }>("node/reload", "POST");
        void loadEntries();
        if (applied.length + need_restart.length === 0) return "The configuration was read again: nothing differs.";
        return `${applied.length > 0 ? `In force: ${applied.join(", ")}.` : ""} ${need_restart.length > 0 ? `Need a restart: ${need_restart.join(", ")}.` : ""}`;
      },
    };
  };
  const drain = () => {
    question.value = {
      title: "Stop this node?",
      text: `${exact(Number.isFinite(connections) ? connections : 0)} connections are asked to reconnect elsewhere, and the process ends. Nothing on this page starts it again.`,
      action: "Drain and stop node",
      isDangerous: true,
      act: async () => {
        await ask("node/drain", "POST");
        return "The node drains: this page loses its connection when it has stopped.";
      },
    };
  };
  if (!value) return fault ? <Fault fault={fault} retry={report.retry} /> : <><Skeleton height={40} /><Skeleton height={320} /><Skeleton height={480} /></>;
  const text = filter.value.trim().toLowerCase();
  const settings = value.settings.filter((setting) => (!onlyChanged.value || setting.origin !== "default") && (!text || setting.name.includes(text) || setting.value.toLowerCase().includes(text)));
  const refused = value.refused.filter(({ count_total }) => count_total > 0).sort((a, b) => b.count_total - a.count_total);
  const changed = value.settings.filter(({ origin }) => origin !== "default").length;
  const hasUploads = value.settings.some(({ name, value }) => name === "uploads.mode" && value !== '"off"');
  const shared = { at: feed.series.at, changed: feed.changed.value, isLoaded: feed.isLoaded.value };
  return (
    <>
      <p class="answer">{value.is_draining ? <span class="warn">▲ The node drains.</span> : <>The node takes clients.</>} {value.warnings.length > 0 ? <>Its last warning was <Ago at={value.warnings[0]!.at_ms} />.</> : <>It has logged no warning.</>} {value.slow_consumers_total === 0 && "No client was cut because it did not read. "}{changed === 1 ? "1 setting differs from its default" : `${exact(changed)} settings differ from their defaults`}.</p>
      {may("write")
        ? <div class="actions"><button onClick={reload}>Reload configuration</button><button class="danger" onClick={drain}>Drain and stop node</button><span class="says">Each asks first, and is written to the audit log.</span></div>
        : <p class="says">This key reads only: a key with the scope <code>write</code> can reload and drain.</p>}
      <div class="charts">
        <section class="card warnings">
          <h2>Recent warnings</h2>
          {value.warnings.length === 0 ? <p class="nothing">None. Warnings and errors of the log appear here, the newest first.</p> : (
            <div class="scroll" tabIndex={0} role="region" aria-label="Recent warnings"><ul>{value.warnings.map((line, index) => <li key={`${line.at_ms}-${index}`}><span class={line.level === "error" ? "bad" : "warn"}>{line.level === "error" ? "✕ error" : "▲ warning"}</span> <Ago at={line.at_ms} /><br />{line.text}<br /><small>{line.target}</small></li>)}</ul></div>
          )}
        </section>
        <Bars title="Refused clients by reason" says="Since the node started." format={(count) => [exact(count), ""]} empty="Nobody was refused." rows={refused.slice(0, 12).map(({ what, reason, count_total }) => ({ label: `${what}: ${reason.replaceAll("_", " ")}`, value: count_total, color: "#d9822b" }))} />
        {refused.length > 0 && <Chart {...shared} title="Refusals per second" format={perSecond} lines={[{ label: "Sockets", values: feed.line("sockets_refused") }, { label: "Tokens", values: feed.line("tokens_refused") }, { label: "Identifies", values: feed.line("identifies_refused") }, { label: "Resumes", values: feed.line("resumes_refused") }, { label: "Keys", values: feed.line("keys_refused") }]} />}
        {value.slow_consumers_total > 0 && <Chart {...shared} title="Slow consumers" says={`${exact(value.slow_consumers_total)} connections were cut because their clients did not read.`} format={perSecond} lines={[{ label: "Cut per second", values: feed.line("slow_consumers") }]} />}
      </div>
      {hasUploads && <div class="charts"><Files /></div>}
      <h2 class="title">Settings in force</h2>
      <div class="search">
        <label for="setting-filter">Find</label>
        <input id="setting-filter" type="search" placeholder="Name or value" value={filter.value} onInput={(event) => { filter.value = event.currentTarget.value; }} />
        <label class="check"><input type="checkbox" checked={onlyChanged.value} onChange={(event) => { onlyChanged.value = event.currentTarget.checked; }} /> Only those that differ from their default</label>
        <span class="says" role="status">{exact(settings.length)} of {exact(value.settings.length)}</span>
      </div>
      <Table label="Settings" rows={settings} columns={COLUMNS} id={(row) => row.name} sort={sort.value} onSort={(next) => { sort.value = next; }} empty="No setting matches." height={400} />
      <div class="charts">
        <KeysCard />
        <AuditCard />
      </div>
    </>
  );
}

function KeysCard() {
  const list = keys.value;
  const revoke = (key: Key) => {
    question.value = {
      title: `Revoke the key “${key.name}”?`,
      text: "1 key is not accepted any more, from now on and after a restart. Backends that use it are refused, and logins with it end.",
      action: "Revoke key",
      isDangerous: true,
      act: async () => {
        await ask(`keys/${key.id}`, "DELETE");
        await Promise.all([loadKeys(), loadEntries()]);
        return `The key “${key.name}” was revoked.`;
      },
    };
  };
  const create = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const name = new FormData(form).get("name") as string;
    const scopes = new FormData(form).getAll("scope") as string[];
    try {
      const made = await ask<{ key: string }>("keys", "POST", { name, scopes });
      form.reset();
      fresh.value = made.key;
      await Promise.all([loadKeys(), loadEntries()]);
    } catch (error) { tellUser((error as Error).message); }
  };
  return (
    <section class="card keys-card">
      <h2>Keys</h2>
      {!may("keys") ? <p class="says">A key with the scope <code>keys</code> can list, create and revoke keys.</p> : !list ? <Skeleton height={120} /> : list instanceof Refused ? <Fault fault={list} retry={() => void loadKeys()} /> : (
        <>
          {fresh.value && <p class="fresh" role="status">The new key, shown only now: <Id id={fresh.value} /></p>}
          {list.length === 0 ? <p class="nothing">No key is stored; you use the root key of the configuration.</p> : <ul>{list.map((key) => <li key={key.id}><span><b>{key.name}</b> <small>{key.scopes.join(", ")}; made <Ago at={Date.parse(key.created_at)} /></small></span><button class="danger" onClick={() => revoke(key)} aria-label={`Revoke ${key.name}`}>Revoke</button></li>)}</ul>}
          <form class="new-key" onSubmit={(event) => void create(event as unknown as SubmitEvent)}>
            <input name="name" aria-label="Name of the new key" placeholder="Name of a new key" required maxLength={64} />
            <fieldset><legend>Scopes</legend>{["read", "write", "publish", "tokens", "sessions", "keys", "lab"].filter(may).map((scope) => <label class="check" key={scope}><input type="checkbox" name="scope" value={scope} checked={scope === "read"} /> {scope}</label>)}</fieldset>
            <button>Create key</button>
          </form>
        </>
      )}
    </section>
  );
}
const fresh = signal<string | undefined>(undefined);

function AuditCard() {
  const list = entries.value;
  return (
    <section class="card audit">
      <h2>Audit log</h2>
      {!may("keys") ? <p class="says">A key with the scope <code>keys</code> can read it.</p> : !list ? <Skeleton height={120} /> : list instanceof Refused ? <Fault fault={list} retry={() => void loadEntries()} /> : list.length === 0 ? <p class="nothing">No key has changed anything.</p> : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Audit log"><ul>{list.map((entry) => <li key={entry.id}><Ago at={Date.parse(entry.at)} /> <code>{entry.action}</code> <span class={entry.status >= 400 ? "warn" : ""}>{entry.status}</span><br /><small>{entry.key_id ? `key ${entry.key_id}` : "root key"}{Object.entries(entry.object).map(([name, value]) => `, ${name} ${value}`)}</small></li>)}</ul></div>
      )}
    </section>
  );
}
