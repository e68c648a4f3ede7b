// Choosing: text boxes that find accounts, roles, channels or proposed values, and lists to choose from; for options of commands, menus of messages,
// and modals.
//
// Limits   ITEMS_MAX items at once: typing narrows them.

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { CustomEmoji } from "./markdown.tsx";
import { type Channel, isDirect, isThread, isVoice } from "./types.ts";
import { Avatar, Icon, IconButton, readable } from "./ui.tsx";
import * as world from "./world.ts";

const ITEMS_MAX = 25;
const SEARCH_MS = 150;

export interface Item { value: string; label: string; note?: string; picture?: ComponentChildren }
export type Find = (query: string) => Promise<Item[]>;

// --- What can be found

const within = (query: string) => (item: Item): boolean => `${item.label}\n${item.note ?? ""}`.toLowerCase().includes(query.toLowerCase());

async function people(guild: world.Guild | undefined, channel: Channel | undefined, query: string): Promise<Item[]> {
  const found = guild ? (await world.searchMembers(guild, query)).map(({ user }) => user) : [...(channel?.recipients ?? []), ...(world.me.value ? [world.me.value] : [])];
  const items = found.map((user) => ({ value: user.id, label: world.nameOf(user, guild), note: user.username, picture: <Avatar user={user} name={world.nameOf(user, guild)} size={24} /> }));
  return guild ? items : items.filter(within(query));
}

function roles(guild: world.Guild | undefined, query: string): Item[] {
  const all = [...(guild?.roles.values() ?? [])].sort((a, b) => b.position - a.position);
  return all.map((role) => ({ value: role.id, label: role.id === guild?.id ? "@everyone" : role.name, note: "role", picture: <span class="swatch" style={{ background: readable(role.color) ?? "var(--text-2)" }} /> })).filter(within(query));
}

function channels(guild: world.Guild | undefined, channel: Channel | undefined, types: readonly number[] | undefined, query: string): Item[] {
  const all = guild ? world.channelTree(guild).flatMap((group) => [...(group.category ? [group.category] : []), ...group.channels.flatMap((each) => [each, ...world.threadsOf(guild, each.id)])]) : channel ? [channel] : [];
  return all.filter(({ type }) => !types?.length || types.includes(type)).map((each) => ({
    value: each.id, label: world.channelName(each), note: isThread(each) ? "thread" : each.type === 4 ? "category" : isVoice(each) ? "voice" : "",
    picture: <Icon name={isDirect(each) ? "mail" : isVoice(each) ? "voice" : isThread(each) ? "thread" : "hash"} />,
  })).filter(within(query));
}

export type Kind = "user" | "role" | "mentionable" | "channel";

/** Accounts, roles or channels, as the account sees them from a channel. */
export function finder(channelId: string, kind: Kind, types?: readonly number[]): Find {
  return async (query) => {
    const channel = world.channelOf(channelId), guild = world.guildOf(channel);
    if (kind === "channel") return channels(guild, channel, types, query);
    if (kind === "role") return roles(guild, query);
    const found = await people(guild, channel, query);
    return kind === "user" ? found : [...roles(guild, query).slice(0, 5), ...found];
  };
}

// --- A text box with a list

interface BoxProps {
  id: string; label: string; find: Find; placeholder?: string; isRequired?: boolean; describedBy?: string | undefined; isFirst?: boolean;
  /** What was chosen before; its label is in the box. */
  chosen: Item | null;
  /** An item, or null while the text is another one. */
  onChoose: (item: Item | null) => void;
  /** Any text counts, and the list proposes. */
  onText?: (text: string) => void;
  /** The list is there before the first letter. */
  isOpen?: boolean;
}

/** A text box with a list of what it finds. Arrows move, Enter and Tab take, Escape closes the list. */
export function FindBox({ id, label, find, placeholder, isRequired, describedBy, isFirst, chosen, onChoose, onText, isOpen: staysOpen = false }: BoxProps): VNode {
  const [text, setText] = useState(chosen?.label ?? "");
  const [found, setFound] = useState<Item[] | null>(null);
  const [at, setAt] = useState(0);
  const latest = useRef(0), box = useRef<HTMLInputElement>(null);
  const search = (query: string, delay = SEARCH_MS): void => {
    const own = ++latest.current;
    setTimeout(() => {
      if (own !== latest.current) return;
      find(query).then((items) => { if (own === latest.current) { setFound(items.slice(0, ITEMS_MAX)); setAt(0); } }, () => {});
    }, delay);
  };
  /** Until the new list is there, the old one has only what fits: a key may come before. */
  const narrow = (query: string): void => { const left = found?.filter(within(query)) ?? []; setFound(left.length > 0 ? left : null); setAt(0); };
  const close = (): void => { latest.current++; if (!staysOpen) setFound(null); };
  useEffect(() => { if (staysOpen) search("", 0); return () => { latest.current++; }; }, []);
  useEffect(() => { if (chosen && chosen.label !== text) { setText(chosen.label); close(); } }, [chosen?.value]);
  const take = (item: Item): void => { setText(item.label); close(); onText?.(item.label); onChoose(item); };
  const onKey = (event: KeyboardEvent): void => {
    if (event.isComposing) return;
    if (!found) {
      if (event.key === "ArrowDown") { event.preventDefault(); search(chosen ? "" : text, 0); }
      return;
    }
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? found.length - 1 : 0;
    if (step && found.length > 0) setAt((at + step) % found.length);
    // Enter in a list without a hit sends the form.
    else if ((event.key === "Enter" || (event.key === "Tab" && !staysOpen)) && !event.shiftKey && found[at] && !(chosen && chosen.label === text)) {
      take(found[at]);
      // Tab goes on to the next field.
      if (event.key === "Tab") return;
    } else if (event.key === "Escape" && !staysOpen) { event.stopPropagation(); close(); }
    else return;
    event.preventDefault();
  };
  const active = found?.[at];
  return (
    <>
      <input ref={box} id={id} type="text" role="combobox" autocomplete="off" spellcheck={false} aria-label={label} aria-expanded={found !== null} aria-controls={`${id}-list`} aria-autocomplete="list" aria-required={isRequired} aria-describedby={describedBy}
        aria-activedescendant={active ? `${id}-${at}` : undefined} data-first={isFirst} placeholder={placeholder} value={text}
        onInput={(event) => { const value = event.currentTarget.value; setText(value); narrow(value); onChoose(null); onText?.(value); search(value); }}
        onFocus={() => { if (!chosen && !found) search(text, 0); }} onBlur={close} onKeyDown={onKey} />
      <ul class="suggestions found" role="listbox" id={`${id}-list`} aria-label={label} hidden={found === null || (found.length === 0 && onText !== undefined)}>
        {found?.length === 0 && <li class="quiet none" role="option" aria-selected="false" aria-disabled="true">Nothing is called “{text.trim()}”.</li>}
        {found?.map((item, index) => (
          <li key={item.value} role="option" id={`${id}-${index}`} aria-selected={index === at} ref={index === at ? intoView : undefined} onPointerDown={(event) => { event.preventDefault(); take(item); }}>
            {item.picture}<span class="name">{item.label}</span>{item.note && item.note !== item.label && <span class="quiet">{item.note}</span>}
          </li>
        ))}
      </ul>
    </>
  );
}

const intoView = (row: HTMLElement | null): void => row?.scrollIntoView({ block: "nearest" });

interface ManyProps extends Omit<BoxProps, "chosen" | "onChoose" | "onText"> { max: number; chosen: Item[]; onChange: (items: Item[]) => void }

/** Up to `max` items: those that were chosen, and a box for one more. */
export function FindMany({ max, chosen, onChange, ...box }: ManyProps): VNode {
  const [turn, setTurn] = useState(0);
  const add = (item: Item | null): void => { if (item && !chosen.some(({ value }) => value === item.value)) { onChange([...chosen, item]); setTurn(turn + 1); } };
  const others: Find = async (query) => (await box.find(query)).filter(({ value }) => !chosen.some((each) => each.value === value));
  return (
    <>
      {chosen.length > 0 && <ul class="chosen" aria-label={`Chosen: ${box.label}`}>{chosen.map((item) => <li key={item.value}>{item.picture}<span class="name">{item.label}</span><IconButton icon="close" label={`Remove ${item.label}`} onClick={() => onChange(chosen.filter((each) => each !== item))} /></li>)}</ul>}
      {chosen.length < max && <FindBox key={turn} {...box} isFirst={box.isFirst ?? turn > 0} find={others} chosen={null} onChoose={add} />}
    </>
  );
}

// --- Menus of messages

export interface Entry { value: string; label: string; description: string; emoji: { id?: string; name?: string } | null; isPreset: boolean }

interface ListProps { label: string; min: number; max: number; onDone: (chosen: Item[]) => void }

const EntryText = ({ entry }: { entry: Entry }): VNode => (
  <>{entry.emoji && <span class="hit-emoji" aria-hidden="true">{entry.emoji.id ? <CustomEmoji id={entry.emoji.id} name={entry.emoji.name ?? ""} /> : entry.emoji.name}</span>}
    <span class="entry"><span>{entry.label}</span>{entry.description && <span class="quiet small">{entry.description}</span>}</span></>
);

/** Entries to choose from: one at once, several with a button. */
export function ChooseEntries({ label, entries, chosen, min, max, onDone }: ListProps & { entries: Entry[]; chosen: string[] }): VNode {
  const [now, setNow] = useState(chosen);
  if (max === 1) {
    return (
      <div class="menu choices" role="menu" aria-label={label}>
        {entries.map((entry) => <button type="button" key={entry.value} role="menuitemradio" aria-checked={chosen.includes(entry.value)} data-first={chosen.includes(entry.value)} onClick={() => onDone([entry])}><EntryText entry={entry} /><span class="check" aria-hidden="true">{chosen.includes(entry.value) ? "✓" : ""}</span></button>)}
        {min === 0 && chosen.length > 0 && <button type="button" role="menuitem" class="quiet" onClick={() => onDone([])}>Choose nothing</button>}
      </div>
    );
  }
  const isFull = now.length >= max;
  return (
    <form class="choices" onSubmit={(event) => { event.preventDefault(); onDone(entries.filter(({ value }) => now.includes(value))); }}>
      <fieldset><legend>{label}</legend>
        {entries.map((entry) => (
          <label key={entry.value}><input type="checkbox" checked={now.includes(entry.value)} disabled={isFull && !now.includes(entry.value)}
            onChange={(event) => setNow(event.currentTarget.checked ? [...now, entry.value] : now.filter((each) => each !== entry.value))} /><EntryText entry={entry} /></label>
        ))}
      </fieldset>
      <Done count={now.length} min={min} max={max} />
    </form>
  );
}

/** Accounts, roles or channels to choose from. */
export function ChooseFound({ label, find, chosen, min, max, onDone }: ListProps & { find: Find; chosen: Item[] }): VNode {
  const [now, setNow] = useState(chosen);
  if (max === 1) return <div class="choices"><FindBox id="choice" label={label} placeholder={label} find={find} chosen={null} isFirst isOpen onChoose={(item) => { if (item) onDone([item]); }} />{min === 0 && chosen.length > 0 && <button type="button" class="link" onClick={() => onDone([])}>Choose nothing</button>}</div>;
  return (
    <form class="choices" onSubmit={(event) => { event.preventDefault(); if (now.length >= min) onDone(now); }}>
      <FindMany id="choice" label={label} placeholder={label} find={find} max={max} chosen={now} isFirst isOpen onChange={setNow} />
      <Done count={now.length} min={min} max={max} />
    </form>
  );
}

function Done({ count, min, max }: { count: number; min: number; max: number }): VNode {
  return <div class="row"><button type="submit" class="primary" disabled={count < min}>Choose</button><span class="quiet small">{count} chosen, {count < min ? `at least ${min}` : `at most ${max}`}</span></div>;
}
