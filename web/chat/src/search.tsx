// Search: messages of the community on the screen, by words and filters, in a pane next to the chat.
//
// Limits   pages of PAGE messages; the node counts up to COUNT_MAX of them.

import { signal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { jumpTo, namesFor } from "./chat.tsx";
import { type Find, finder, type Item } from "./choose.tsx";
import { call } from "./rest.ts";
import { preview } from "./rich.tsx";
import { view } from "./sidebar.tsx";
import { EPOCH_MS, isThread, type Message } from "./types.ts";
import { Avatar, day, exactTime, Icon, IconButton, isNarrow, readable, time } from "./ui.tsx";
import * as world from "./world.ts";

const PAGE = 25, COUNT_MAX = 10_000;
const SEARCH_MS = 150;
const HAS: { readonly [name: string]: string } = { image: "a picture", video: "a film", sound: "a recording", file: "any file", link: "an address", embed: "an embed", sticker: "a sticker" };
const YES: Item[] = [{ value: "yes", label: "yes", note: "pinned messages" }, { value: "no", label: "no", note: "all others" }];
const FILTERS = ["from", "in", "has", "mentions", "pinned", "before", "after"] as const;
type Filter = (typeof FILTERS)[number];

export const isSearchOpen = signal(false);
export function toggleSearch(): void {
  isSearchOpen.value = !isSearchOpen.value;
  view.value = isSearchOpen.value ? "search" : "chat";
}

// --- Written filters

const WRITTEN = new RegExp(`(?:^|\\s)(${FILTERS.join("|")}):(?:"([^"]*)"|(\\S*))`, "g");
/** The filter that is being written at the end of a text. */
const BEGUN = new RegExp(`(?:^|\\s)((${FILTERS.join("|")}):(?:"([^"]*)|([^"\\s]*)))$`);
const quoted = (text: string): string => (/\s/.test(text) ? `"${text}"` : text);
const isSame = (a: string | null | undefined, b: string): boolean => a?.toLowerCase() === b.toLowerCase();
const startOf = (date: string, days = 0): string => {
  const [year, month, of] = date.split("-").map(Number);
  return String(BigInt(new Date(year!, month! - 1, of! + days).getTime() - EPOCH_MS) << 22n);
};

async function memberId(guild: world.Guild, name: string): Promise<string> {
  if (isSame(name, "me")) return world.me.value?.id ?? "0";
  const found = await world.searchMembers(guild, name);
  const exact = found.find(({ user }) => isSame(user.username, name)) ?? found.find(({ user, nick }) => isSame(nick, name) || isSame(user.global_name, name)) ?? (found.length === 1 ? found[0] : undefined);
  if (!exact) throw new Error(found.length > 0 ? `Several members are called “${name}”: choose one of the list.` : `No member is called “${name}”.`);
  return exact.user.id;
}

/** What a text asks of the node. Throws with the reason if it cannot be asked. */
async function queryOf(guild: world.Guild, text: string): Promise<URLSearchParams> {
  const query = new URLSearchParams();
  for (const [, name, inQuotes, plain] of text.matchAll(WRITTEN)) {
    const value = (inQuotes ?? plain ?? "").trim();
    if (!value) throw new Error(`“${name}:” needs a value.`);
    switch (name as Filter) {
      case "from": query.append("author_id", await memberId(guild, value)); break;
      case "mentions": query.append("mentions", await memberId(guild, value)); break;
      case "in": {
        const channels = world.openable(guild).filter((channel) => isSame(channel.name, value.replace(/^#/, "")));
        if (channels.length === 0) throw new Error(`No channel that you can read is called “${value}”.`);
        for (const { id } of channels) query.append("channel_id", id);
        break;
      }
      case "has":
        if (!(value.replace(/^-/, "") in HAS)) throw new Error(`“has:” takes ${Object.keys(HAS).join(", ")}.`);
        query.append("has", value);
        break;
      case "pinned":
        if (!/^(yes|no|true|false)$/i.test(value)) throw new Error("“pinned:” takes yes or no.");
        query.set("pinned", String(/^(yes|true)$/i.test(value)));
        break;
      default:
        if (!/^\d{4}-\d\d-\d\d$/.test(value) || Number.isNaN(Date.parse(value))) throw new Error(`“${name}:” takes a day such as ${new Date().toISOString().slice(0, 10)}.`);
        query.set(name === "before" ? "max_id" : "min_id", startOf(value, name === "before" ? 0 : 1));
    }
  }
  const words = wordsOf(text);
  if (words) query.set("content", words);
  if ([...query].length === 0) throw new Error("Write a word, or choose a filter.");
  return query;
}

const wordsOf = (text: string): string => text.replace(WRITTEN, " ").replace(/\s+/g, " ").trim();

/** Values of the filter that is being written. */
async function proposals(text: string): Promise<(Item & { written: string })[]> {
  const begun = BEGUN.exec(text);
  if (!begun) return [];
  const [, token, name, inQuotes, plain] = begun, value = inQuotes ?? plain ?? "";
  const channelId = world.channelId.value ?? "";
  const fixed = (items: Item[]): Find => async () => items.filter(({ label }) => label.startsWith(value.toLowerCase()));
  const find: Find | null = name === "from" || name === "mentions" ? finder(channelId, "user") : name === "in" ? finder(channelId, "channel", [0, 5, 10, 11, 12])
    : name === "has" ? fixed(Object.entries(HAS).map(([label, note]) => ({ value: label, label, note }))) : name === "pinned" ? fixed(YES) : null;
  const items = (await find?.(value)) ?? [];
  const isPerson = name === "from" || name === "mentions";
  return items.map((item) => ({ ...item, written: `${text.slice(0, text.length - token!.length)}${name}:${quoted(isPerson ? (item.note ?? item.label) : item.label)} ` }));
}

// --- The pane

interface Found { hits: Message[]; total: number; words: string[]; isBehind: boolean; query: URLSearchParams }
interface Answer { total_results?: number; messages?: Message[][]; doing_deep_historical_index?: boolean; documents_indexed?: number }

export function Search({ guild }: { guild: world.Guild }): VNode {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Found | null>(null);
  const [fault, setFault] = useState("");
  const [isBusy, setBusy] = useState(false);
  const latest = useRef(0);
  const close = (): void => { isSearchOpen.value = false; view.value = "chat"; document.getElementById("composer")?.focus(); };

  const load = async (of: URLSearchParams, before: Message[]): Promise<void> => {
    const query = new URLSearchParams(of);
    if (before.length > 0) query.set("offset", String(before.length));
    const answer = await call<Answer>("GET", `/guilds/${guild.id}/messages/search?${query}`);
    if (!answer.messages) throw new Error(`Earlier messages are still being indexed: ${(answer.documents_indexed ?? 0).toLocaleString("en")} are. Try again in some seconds.`);
    const hits = [...before, ...answer.messages.flat()];
    world.askMembersOf(guild, hits.map(({ author }) => author.id));
    setFound({ hits, total: answer.total_results ?? hits.length, words: wordsOf(text).split(" ").filter(Boolean), isBehind: answer.doing_deep_historical_index === true, query: of });
  };
  const run = (work: () => Promise<void>): void => {
    const own = ++latest.current;
    setBusy(true); setFault("");
    work().catch((error: Error) => { if (own === latest.current) { setFound(null); setFault(error.message); } }).finally(() => { if (own === latest.current) setBusy(false); });
  };
  const search = (): void => run(async () => load(await queryOf(guild, text), []));
  const count = found && (found.total >= COUNT_MAX ? `${COUNT_MAX.toLocaleString("en")} messages or more` : found.total === 1 ? "1 message" : `${found.total.toLocaleString("en")} messages`);
  return (
    <div class="search-pane" role={isNarrow.value ? "main" : "complementary"} aria-label="Search messages" onKeyDown={(event) => { if (event.key === "Escape") close(); }}>
      <div class="pane-head"><h2>Search messages</h2><IconButton icon="close" label="Close the search" onClick={close} /></div>
      <form class="search-form" role="search" onSubmit={(event) => { event.preventDefault(); search(); }}>
        <SearchBox text={text} setText={setText} />
        <button type="submit" disabled={isBusy}>{isBusy ? "Searching…" : "Search"}</button>
      </form>
      <div class="search-scroll">
        <p class="quiet small" role="status">{found ? (found.total > 0 ? `${count}, the newest first` : "No message fits.") : ""}{found?.isBehind && " The messages of this moment may be missing."}</p>
        <div role="alert">{fault && <p class="fault small">{fault}</p>}</div>
        {!found && !fault && <p class="quiet small">All words have to be in a message, in any order. Filters narrow the search: <code>from:me in:general has:file before:2026-01-31</code>.</p>}
        {found && <ol class="hits">{found.hits.map((message) => <li key={message.id}><Hit message={message} words={found.words} /></li>)}</ol>}
        {found && found.hits.length < found.total && found.hits.length + PAGE <= COUNT_MAX && <button type="button" class="plain-button" disabled={isBusy} onClick={() => run(() => load(found.query, found.hits))}>Show more</button>}
      </div>
    </div>
  );
}

function Hit({ message, words }: { message: Message; words: string[] }): VNode {
  const channel = world.channelOf(message.channel_id), guild = world.guildOf(channel), name = world.nameOf(message.author, guild);
  return (
    <button type="button" class="found-message" onClick={() => jumpTo(message.id, message.channel_id)}>
      <span class="where quiet small"><Icon name={channel && isThread(channel) ? "thread" : "hash"} /><span class="name">{channel ? world.channelName(channel) : "a channel that is gone"}</span><time dateTime={message.timestamp} title={exactTime(message.timestamp)}>{day(message.timestamp)}, {time(message.timestamp)}</time></span>
      <span class="who"><Avatar user={message.author} name={name} size={24} /><b class="name" style={{ color: readable(world.colorOf(message.author.id, guild)) }}>{name}</b>{message.pinned && <span class="quiet small">pinned</span>}</span>
      <span class="said">{marked(preview(message, namesFor(channel, message)), words)}</span>
      {message.attachments.length > 0 && message.content && <span class="quiet small files-note"><Icon name="attach" />{message.attachments.map(({ filename }) => filename).join(", ")}</span>}
    </button>
  );
}

/** A text with the words that were searched for marked, as the node finds them: from the start of a word on. */
function marked(text: string, words: string[]): ComponentChildren {
  const safe = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (safe.length === 0) return text;
  return text.split(new RegExp(`((?<![\\p{L}\\p{N}])(?:${safe.join("|")}))`, "giu")).map((part, at) => (at % 2 ? <mark key={at}>{part}</mark> : part));
}

/** The text box, with values of the filter that is being written. Arrows move, Enter and Tab take, Escape closes the list. */
function SearchBox({ text, setText }: { text: string; setText: (text: string) => void }): VNode {
  const [list, setList] = useState<{ items: (Item & { written: string })[]; at: number } | null>(null);
  const box = useRef<HTMLInputElement>(null), latest = useRef(0);
  useEffect(() => { box.current?.focus(); return () => { latest.current++; }; }, []);
  const change = (value: string): void => {
    setText(value);
    const own = ++latest.current;
    setList(null);
    if (BEGUN.test(value)) setTimeout(() => { if (own === latest.current) proposals(value).then((items) => { if (own === latest.current) setList(items.length > 0 ? { items: items.slice(0, 25), at: 0 } : null); }, () => {}); }, SEARCH_MS);
  };
  const put = (value: string): void => {
    const there = box.current;
    if (there) { there.value = value; there.focus(); there.setSelectionRange(value.length, value.length); }
    change(value);
  };
  const onKey = (event: KeyboardEvent): void => {
    if (!list || event.isComposing) return;
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? list.items.length - 1 : 0;
    if (step) setList({ ...list, at: (list.at + step) % list.items.length });
    else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) put(list.items[list.at]!.written);
    else if (event.key === "Escape") { event.stopPropagation(); latest.current++; setList(null); }
    else return;
    event.preventDefault();
  };
  return (
    <div class="search-box">
      <div class="search"><Icon name="search" />
        <input ref={box} type="text" role="combobox" autocomplete="off" spellcheck={false} aria-label="Search messages" aria-expanded={list !== null} aria-controls="search-list" aria-autocomplete="list" aria-activedescendant={list ? `search-${list.at}` : undefined}
          placeholder="Words and filters" maxLength={1000} value={text} onInput={(event) => change(event.currentTarget.value)} onBlur={() => { latest.current++; setList(null); }} onKeyDown={onKey} /></div>
      <div class="filters" role="group" aria-label="Filters">{FILTERS.map((name) => <button type="button" key={name} class="tag" onClick={() => put(`${text}${text && !text.endsWith(" ") ? " " : ""}${name}:`)}>{name}:</button>)}</div>
      <ul class="suggestions found" role="listbox" id="search-list" aria-label="Values" hidden={!list}>
        {list?.items.map((item, at) => <li key={item.value} role="option" id={`search-${at}`} aria-selected={at === list.at} ref={at === list.at ? intoView : undefined} onPointerDown={(event) => { event.preventDefault(); put(item.written); }}>{item.picture}<span class="name">{item.label}</span>{item.note && item.note !== item.label && <span class="quiet">{item.note}</span>}</li>)}
      </ul>
    </div>
  );
}

const intoView = (row: HTMLElement | null): void => row?.scrollIntoView({ block: "nearest" });
