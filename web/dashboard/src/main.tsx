import { effect, signal, useComputed, useSignal } from "@preact/signals";
import { render } from "preact";
import { useEffect, useRef } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import { link, logIn, logOut, login, may, node, viewed, whoAmI } from "./api.ts";
import { duration, exactTime, join } from "./format.ts";
import { Bandwidth } from "./pages/bandwidth.tsx";
import { Compression } from "./pages/compression.tsx";
import { Experiments } from "./pages/experiments.tsx";
import { GuildPage, Guilds } from "./pages/guilds.tsx";
import { Lab } from "./pages/lab.tsx";
import { Operations } from "./pages/operations.tsx";
import { Overview } from "./pages/overview.tsx";
import { SessionPage, Sessions } from "./pages/sessions.tsx";
import { RANGES, range, zoom } from "./series.ts";
import "./style.css";
import { choice, type Choice } from "./theme.ts";
import { Ask, notice, now } from "./ui.tsx";

interface Page { path: string; title: string; question: string; show: (rest: string) => preact.ComponentChildren; hasRange?: boolean }

const PAGES: Page[] = [
  { path: "overview", title: "Overview", question: "Is anything wrong?", show: () => <Overview />, hasRange: true },
  { path: "bandwidth", title: "Bandwidth", question: "Where do the bytes go?", show: () => <Bandwidth />, hasRange: true },
  { path: "guilds", title: "Guilds", question: "Which one is loud, and why?", show: (id) => (id ? <GuildPage key={id} id={id} /> : <Guilds />) },
  { path: "sessions", title: "Sessions", question: "What does a client receive, and does it keep up?", show: (id) => (id ? <SessionPage key={id} id={id} /> : <Sessions />) },
  { path: "compression", title: "Compression", question: "Does it pay, and does it have the memory it needs?", show: () => <Compression />, hasRange: true },
  { path: "lab", title: "Lab", question: "Would another codec send less?", show: () => <Lab /> },
  { path: "experiments", title: "Experiments", question: "Is an arm better for clients, and does it do harm?", show: (name) => <Experiments key={name} name={name} /> },
  { path: "operations", title: "Operations", question: "What is in force, and who was refused?", show: () => <Operations />, hasRange: true },
];

const path = signal(location.hash.slice(2) || "overview");
addEventListener("hashchange", () => { path.value = location.hash.slice(2) || "overview"; });

function LogIn() {
  const fault = useSignal<string | undefined>(undefined);
  const isBusy = useSignal(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const submit = async (event: Event) => {
    event.preventDefault();
    isBusy.value = true;
    fault.value = undefined;
    try {
      await logIn(field.current!.value);
    } catch (error) {
      fault.value = (error as Error).message;
      field.current?.select();
    } finally {
      isBusy.value = false;
    }
  };
  return (
    <main class="log-in">
      <form onSubmit={(event) => void submit(event)}>
        <h1>Guildhall dashboard</h1>
        <label for="key">Admin key</label>
        <input id="key" ref={field} type="password" autocomplete="current-password" required spellcheck={false} aria-describedby="key-help" />
        <p id="key-help">A key of the backend API with the scope <code>read</code>. <code>guildhall key create --name ops --scopes read,sessions</code> makes one; with <code>write</code> and <code>keys</code> it may also act.</p>
        {fault.value && <p class="fault" role="alert">{fault.value}</p>}
        <button class="primary" disabled={isBusy.value}>Log in</button>
      </form>
    </main>
  );
}

function Status() {
  const state = link.value;
  if (state.state === "live") return <span class="status good" role="status">● Live</span>;
  if (state.state === "connecting") return <span class="status" role="status">○ Connecting</span>;
  const wait = Math.max(0, Math.ceil((state.retryAt - now.value) / 1000));
  return <span class="status bad" role="status" title={exactTime(state.since)}>▲ Disconnected, {wait > 0 ? `retrying in ${wait} s` : "retrying"}. Figures are {join(duration(Math.max(1, Math.round((now.value - state.since) / 1000))))} old.</span>;
}

function Shell() {
  const [name, ...rest] = path.value.split("/");
  const page = PAGES.find((each) => each.path === name) ?? PAGES[0]!;
  const main = useRef<HTMLElement>(null);
  const isStale = useComputed(() => link.value.state === "broken" && now.value - (link.value as { since: number }).since > 3_000);
  useEffect(() => { document.title = `${page.title} · Guildhall`; zoom.value = undefined; }, [page]);
  return (
    <div class={`shell ${isStale.value ? "stale" : ""}`}>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to the figures</a>
      <nav aria-label="Pages">
        <div class="brand">Guildhall{viewed !== undefined && ` · node ${viewed}`}</div>
        <ul>{PAGES.map((each) => <li key={each.path}><a href={`#/${each.path}`} aria-current={each === page ? "page" : undefined}>{each.title}</a></li>)}</ul>
      </nav>
      <main ref={main} id="main" tabIndex={-1}>
        <header>
          <div><h1>{page.title}</h1><p>{page.question}</p></div>
          <div class="controls">
            {zoom.value && <button onClick={() => { zoom.value = undefined; }}>Show the whole range</button>}
            {page.hasRange && <div role="group" aria-label="Time range" class="segments">{RANGES.map((each) => <button key={each.name} aria-pressed={range.value === each} onClick={() => { range.value = each; zoom.value = undefined; }}>{each.name}</button>)}</div>}
            <Status />
          </div>
        </header>
        {page.show(decodeURIComponent(rest.join("/")))}
      </main>
      <aside class="who" aria-label="Session">
        <div title={login.value?.scopes.join(", ")}>Key <b>{login.value?.keyName}</b>: {may("write") ? "may act" : "reads only"}</div>
        <label for="theme">Theme</label>
        <select id="theme" value={choice.value} onChange={(event) => { choice.value = event.currentTarget.value as Choice; }}>
          <option value="system">System</option><option value="light">Light</option><option value="dark">Dark</option>
        </select>
        <button onClick={() => void logOut()}>Log out</button>
      </aside>
      <div class="notice" role="status" aria-live="polite">{notice.value}</div>
      <Ask />
    </div>
  );
}

const unreachable = signal<string | undefined>(undefined);

function App() {
  if (login.value === undefined) return unreachable.value
    ? <main class="log-in"><div class="fault" role="alert"><b>The node does not answer</b><p>{unreachable.value}</p>{viewed !== undefined && <p>This page is about node {viewed}. <a href="./">Show the node that answers</a></p>}</div></main>
    : <main class="log-in" aria-busy="true"><p>Loading…</p></main>;
  return login.value ? <Shell /> : <LogIn />;
}

async function begin() {
  for (;;) {
    try {
      await whoAmI();
      return;
    } catch (error) {
      unreachable.value = (error as Error).message;
      await new Promise((resume) => setTimeout(resume, 3_000));
    }
  }
}

// `/` goes to the search of the page, if it has one.
addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof HTMLElement && event.target.closest("input, select, textarea, dialog");
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey) return;
  const search = document.querySelector<HTMLInputElement>("input[type=search]");
  if (search) {
    event.preventDefault();
    search.focus();
  }
});

// Readiness changes rarely: every ten seconds is enough.
setInterval(() => { if (login.peek()) void whoAmI().catch(() => {}); }, 10_000);
effect(() => { document.documentElement.dataset.ready = String(node.value?.ready ?? ""); });

void begin();
render(<App />, document.getElementById("app")!);
