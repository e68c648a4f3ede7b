// The page: log-in, then the layout that holds the parts together.

import { signal } from "@preact/signals";
import { Component, type ComponentChildren, render, type VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ChannelHead, Composer, Messages } from "./chat.tsx";
import { type Codec, CODECS, Link, linkState, note } from "./link.ts";
import * as interact from "./interact.ts";
import { Login, type Settings } from "./login.tsx";
import { Members, searchFocus } from "./members.tsx";
import { beginConnection, record, recordPassive } from "./meter.ts";
import { beginSession } from "./stream.ts";
import { isMeterOpen, streams, Meter, type MeterActions, MeterStrip } from "./meterpane.tsx";
import { Modals } from "./modal.tsx";
import { openProfile } from "./profile.tsx";
import { authorize } from "./rest.ts";
import { isSearchOpen, Search, toggleSearch } from "./search.tsx";
import { Channels, Rail, view } from "./sidebar.tsx";
import { pictureOrigins, webUrl } from "./rich.tsx";
import { choice, CHOICES } from "./theme.ts";
import { invite, Invited, mayCreateGuilds, NoChannel, NoGuild } from "./begin.tsx";
import { takeSignOn } from "./signon.ts";
import { watch } from "./topics.ts";
import { Avatar, closeLayer, Icon, IconButton, isNarrow, Layers, openLayer } from "./ui.tsx";
import * as world from "./world.ts";
import "./style.css";

const TOKEN = "guildhall.chat.token";
const CODEC = "guildhall.chat.codec";

const signedOn = takeSignOn();
if (signedOn.token) localStorage.setItem(TOKEN, signedOn.token);
const token = signal<string | null>(localStorage.getItem(TOKEN));
const settings = signal<Settings | null>(null);
const fault = signal(signedOn.fault ?? "");
let link: Link | null = null;

function logOut(why = ""): void {
  link?.stop();
  link = null;
  world.forget();
  localStorage.removeItem(TOKEN);
  fault.value = why;
  token.value = null;
}

function logIn(value: string): void {
  fault.value = "";
  localStorage.setItem(TOKEN, value);
  token.value = value;
}

/** The page talks to the origin that it came from. */
const ownGateway = (): string => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}`;

function connect(value: string): void {
  authorize(value, () => logOut("The token is no longer valid. Log in again."));
  const kept = localStorage.getItem(CODEC) as Codec | null;
  const codec = kept && CODECS.includes(kept) ? kept : CODECS[0]!;
  link = new Link(ownGateway(), value, codec, {
    onOpen: beginConnection,
    onFrame: record,
    onDispatch(t, d) {
      if (t === "READY") beginSession(d.session_id);
      if (t.startsWith("PASSIVE_UPDATE")) recordPassive((d.updated_channels ?? d.channels ?? []).length);
    },
    onReady: () => world.catchUp(),
    onRefused: (why) => logOut(why),
  });
  world.follow(link.client);
  interact.follow(link.client);
  link.open();
}

function Banner(): VNode | null {
  const state = linkState.value;
  const [, tick] = useState(0);
  useEffect(() => {
    if (state.phase !== "waiting") return;
    const timer = setInterval(() => tick((n) => n + 1), 250);
    return () => clearInterval(timer);
  }, [state.phase]);
  if (state.phase === "ready" || state.phase === "off" || !world.isReady.value) return null;
  const left = Math.max(0, Math.ceil((state.retryAt - performance.now()) / 1000));
  const text = state.phase === "waiting" ? (left > 0 ? `Disconnected: ${state.why}. Trying again in ${left} s.` : `Disconnected: ${state.why}. Reconnecting…`)
    : state.phase === "resuming" ? "Connected. Catching up on what was missed…" : "Reconnecting…";
  return <div class="banner" role="status"><span>{text}</span>{state.phase === "waiting" && left > 1 && <button type="button" class="link" onClick={() => link?.retryNow()}>Reconnect now</button>}</div>;
}

function Self(): VNode | null {
  watch("members");
  const me = world.me.value;
  if (!me) return null;
  const guild = world.guilds().get(world.guildId.value ?? "");
  const name = world.nameOf(me, guild);
  const isOn = linkState.value.phase === "ready";
  return (
    <div class="self">
      <button type="button" class="who" onClick={(event) => openProfile(me, guild, event.currentTarget)}><Avatar user={me} name={name} size={32} presence={isOn ? "online" : "offline"} />
        <span class="member-text"><span class="name">{name}</span><span class="doing">{isOn ? "Online" : "Disconnected"}</span></span></button>
      <IconButton icon="theme" label="Theme" onClick={(event) => openLayer({ key: "theme", anchor: event.currentTarget as HTMLElement, label: "Theme", content: () => <Themes /> })} />
      <IconButton icon="out" label="Log out" onClick={() => logOut()} />
    </div>
  );
}

const THEMES = { system: "As the system", light: "Light", dark: "Dark" };

function Themes(): VNode {
  return <div class="menu" role="menu">{CHOICES.map((each) => <button type="button" key={each} role="menuitemradio" aria-checked={choice.value === each} data-first={choice.value === each} onClick={() => { choice.value = each; closeLayer(); }}>{THEMES[each]}<span class="check" aria-hidden="true">{choice.value === each ? "✓" : ""}</span></button>)}</div>;
}

function Toasts(): VNode {
  const toast = world.toast.value;
  return <div class="toast-area" role="status">{toast && <div class={`toast ${toast.kind}`}><span>{toast.text}</span><IconButton icon="close" label="Close" onClick={() => world.unsay()} /></div>}</div>;
}

/** Shows the search for members, and puts the focus there. */
function findMember(): void {
  const search = document.querySelector<HTMLInputElement>(".members input");
  if (isNarrow.value) { view.value = "members"; searchFocus.value++; } else if (search?.offsetParent) { search.focus(); search.select(); }
  else { isMeterOpen.value = false; isSearchOpen.value = false; searchFocus.value++; }
}

const actions: MeterActions = {
  codecs: [...CODECS],
  switchCodec(codec) { localStorage.setItem(CODEC, codec); link?.switchCodec(codec); },
  drop: () => link?.drop(),
};

function openMeter(): void {
  if (isNarrow.value) view.value = view.value === "meter" ? "chat" : "meter";
  else isMeterOpen.value = !isMeterOpen.value;
}

function openSearch(): void {
  isMeterOpen.value = false;
  toggleSearch();
}

function App(): VNode {
  watch("guilds");
  const id = world.channelId.value;
  const channel = world.channelOf(id);
  const isStale = linkState.value.phase !== "ready";
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const at = event.target as HTMLElement;
      const isSlash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName);
      if (isSlash || (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey)) { event.preventDefault(); findMember(); }
      if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
        event.preventDefault();
        const guild = world.guilds().get(world.guildId.value ?? "");
        const all = guild ? world.channelTree(guild).flatMap((group) => group.channels).filter((c) => c.type !== 2 && c.type !== 13) : [...world.directs().values()];
        const next = all[(all.findIndex((c) => c.id === world.channelId.value) + (event.key === "ArrowDown" ? 1 : all.length - 1)) % all.length];
        if (next) world.openChannel(next.id);
      }
    };
    const onShow = (): void => { if (!document.hidden && world.atBottom.value) world.markRead(world.channelId.value); };
    const onNetwork = (): void => link?.retryNow();
    addEventListener("keydown", onKey); addEventListener("online", onNetwork); document.addEventListener("visibilitychange", onShow);
    return () => { removeEventListener("keydown", onKey); removeEventListener("online", onNetwork); document.removeEventListener("visibilitychange", onShow); };
  }, []);
  useEffect(() => { document.title = channel ? `${channel.guild_id ? "#" : ""}${world.channelName(channel)} · Guildhall` : "Guildhall chat"; }, [channel?.id]);
  if (!world.isReady.value) return <Starting />;
  const guild = world.guilds().get(world.guildId.value ?? "");
  const hasMembers = world.guildId.value !== null;
  const isSearching = isSearchOpen.value && guild !== undefined && !isMeterOpen.value;
  const isToastHere = Boolean(channel) && !invite.value && (!isNarrow.value || view.value === "chat");
  return (
    <div class={`app view-${view.value} ${isMeterOpen.value ? "with-meter" : ""} ${isSearching ? "with-search" : ""} ${hasMembers ? "" : "without-members"} ${isStale ? "stale" : ""}`}>
      <header class="hidden-text"><h1>Guildhall chat</h1></header>
      <div class="side" role={isNarrow.value ? "main" : undefined}><Rail /><Channels /><div class="side-foot"><MeterStrip onOpen={openMeter} /><Self /></div></div>
      <main class="main">
        <Banner />
        {invite.value ? <Invited code={invite.value} />
          : channel && id ? <><ChannelHead channel={channel} onSearch={openSearch} /><Messages key={id} id={id} />{isToastHere && <Toasts />}<Composer key={`c${id}`} id={id} /></>
            : guild ? <NoChannel key={guild.id} guild={guild} />
              : world.guilds().size === 0 ? <NoGuild />
                : <div class="nothing"><p class="empty">Choose a conversation, or open somebody’s profile and choose “Message”.</p></div>}
      </main>
      {hasMembers && <Members />}
      {isSearching && <Search key={guild.id} guild={guild} />}
      {(isMeterOpen.value || view.value === "meter") && <Meter actions={actions} onClose={() => { isMeterOpen.value = false; view.value = "chat"; }} />}
      <nav class="tabs" aria-label="Views">
        {([["channels", "hash", "Channels"], ["chat", "thread", "Chat"], ["members", "people", "Members"], ["meter", "gauge", "Meter"]] as const).map(([name, icon, label]) =>
          <button type="button" key={name} aria-current={view.value === name ? "page" : undefined} onClick={() => (view.value = name)}><Icon name={icon} />{label}</button>)}
      </nav>
      <Layers />
      <Modals />
      {!isToastHere && <Toasts />}
    </div>
  );
}

function Starting(): VNode {
  const state = linkState.value;
  return <main class="login"><div class="card" role="status"><h1>Guildhall</h1><p class="lead">{state.phase === "waiting" ? `The node cannot be reached: ${state.why}. Trying again.` : "Connecting…"}</p>{state.phase === "waiting" && <button type="button" onClick={() => logOut()}>Log out</button>}</div></main>;
}

class Guard extends Component<{ children: ComponentChildren }, { error: Error | null }> {
  override state = { error: null as Error | null };
  static override getDerivedStateFromError(error: Error): { error: Error } { return { error }; }
  override componentDidCatch(error: Error): void { note(`A fault of this page: ${error.message}`, "warn"); }
  override render(): ComponentChildren {
    if (!this.state.error) return this.props.children;
    return <main class="login"><div class="card"><h1>Guildhall</h1><p class="fault">This page has a fault: {this.state.error.message}</p><button type="button" class="primary" onClick={() => location.reload()}>Load it again</button></div></main>;
  }
}

function Root(): VNode {
  useEffect(() => { if (token.value) connect(token.value); }, [token.value]);
  if (!token.value) return <Login settings={settings.value} error={fault.value} onToken={logIn} />;
  return <App />;
}

fetch("/chat/settings.json").then((response) => response.json()).then((value: Settings) => { settings.value = value; mayCreateGuilds.value = value.create_guilds; streams.value = value.streams; const gateway = webUrl(value.gateway_url.replace(/^ws/, "http")); if (gateway) pictureOrigins.add(gateway.origin); }).catch(() => (settings.value = { gateway_url: "", visitors: false, version: "", streams: "" }));
render(<Guard><Root /></Guard>, document.getElementById("app")!);
