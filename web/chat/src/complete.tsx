// Completion in a text box: `@` members, `#` channels, `:` emoji, and `/` commands at the start of a message. Arrows move, Enter and Tab take,
// Escape closes.

import type { ComponentChildren, RefObject, VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Chosen } from "./compose.ts";
import { findEmoji } from "./emoji.ts";
import { findCommands, type Invocable, nameOf } from "./interact.ts";
import { CustomEmoji } from "./markdown.tsx";
import { isThread } from "./types.ts";
import { Avatar, Icon } from "./ui.tsx";
import * as world from "./world.ts";

const HITS_MAX = 8, COMMANDS_MAX = 50;

interface Hit { key: string; picture: ComponentChildren; label: string; note: string; written: string; means?: string; command?: Invocable; needs?: string[] }
interface Hits { kind: string; from: number; hits: Hit[]; at: number }

export interface Completion {
  chosen: Chosen;
  isOpen: boolean;
  /** After the text changed. */
  suggest(text: string, caret: number): void;
  close(): void;
  /** Whether the key was one of the list. */
  handleKey(event: KeyboardEvent): boolean;
  /** Of the text box. */
  attributes: { "aria-controls"?: string | undefined; "aria-activedescendant"?: string | undefined; "aria-autocomplete": "list"; onBlur(): void };
  list: VNode | null;
}

const BEFORE = String.raw`(?:^|[\s(])`;
const MEMBER = new RegExp(`${BEFORE}@([\\p{L}\\p{N}_.-]{1,32})$`, "u"), CHANNEL = new RegExp(`${BEFORE}#([\\p{L}\\p{N}_-]{0,100})$`, "u"), EMOJI = new RegExp(`${BEFORE}:([\\w+-]{2,32})$`, "u");
const COMMAND = /^\/([\p{L}\p{N}_-]{0,32}(?: [\p{L}\p{N}_-]{0,32}){0,2})$/u;

function channelHits(guild: world.Guild, query: string): Hit[] {
  const wanted = query.toLowerCase();
  const named = world.openable(guild).filter((channel) => channel.name?.toLowerCase().includes(wanted));
  const begins = (name: string): number => Number(!name.toLowerCase().startsWith(wanted));
  return named.sort((a, b) => begins(a.name!) - begins(b.name!)).map((channel) => ({
    key: channel.id, picture: <Icon name={isThread(channel) ? "thread" : "hash"} />, label: channel.name!, note: isThread(channel) ? `thread in #${world.channelOf(channel.parent_id ?? null)?.name ?? ""}` : "", written: `#${channel.name}`, means: `<#${channel.id}>`,
  }));
}

function emojiHits(guild: world.Guild | undefined, query: string): Hit[] {
  return findEmoji(query, guild?.emojis ?? [], HITS_MAX).map((emoji) => ({
    key: emoji.id ?? emoji.name, picture: <span class="hit-emoji">{emoji.id ? <CustomEmoji id={emoji.id} name={emoji.name} /> : emoji.name}</span>, label: `:${emoji.short}:`, note: "", written: emoji.id ? `:${emoji.name}:` : emoji.name,
  }));
}

async function memberHits(guild: world.Guild, query: string): Promise<Hit[]> {
  return (await world.searchMembers(guild, query)).map(({ user }) => ({
    key: user.id, picture: <Avatar user={user} name={world.nameOf(user, guild)} size={24} />, label: world.nameOf(user, guild), note: user.username, written: `@${user.username}`, means: `<@${user.id}>`,
  }));
}

async function commandHits(channelId: string, query: string): Promise<Hit[]> {
  return (await findCommands(channelId, query)).map((command) => {
    const { key, name, description, options, application } = command;
    const needs = options.filter(({ required }) => required).map((option) => option.name);
    return { key, picture: application && <Avatar user={application.bot ?? application} name={nameOf(application)} size={24} />, label: `/${name}`, note: description, written: `/${name}`, needs, command };
  });
}

/** Writes a text into a box at once, with the caret where typing goes on: a key may come before the next frame. */
export function write(area: HTMLTextAreaElement, text: string, caret: number): string {
  area.value = text;
  area.focus();
  area.setSelectionRange(caret, caret);
  return text;
}

const intoView = (row: HTMLElement | null): void => row?.scrollIntoView({ block: "nearest" });

export function useCompletion(area: RefObject<HTMLTextAreaElement | null>, guild: world.Guild | undefined, id: string, setText: (text: string) => void, onCommand?: (command: Invocable) => void): Completion {
  const [open, setOpen] = useState<Hits | null>(null);
  const chosen = useMemo<Chosen>(() => new Map(), [id]);
  const show = (kind: string, from: number, hits: Hit[], max = HITS_MAX): void => setOpen(hits.length > 0 ? { kind, from, hits: hits.slice(0, max), at: 0 } : null);
  const isHere = (text: string): boolean => area.current?.value === text && document.activeElement === area.current;

  const suggest = (text: string, caret: number): void => {
    const before = text.slice(0, caret);
    const isCode = (before.split("`").length - 1) % 2 === 1;
    const [member, channel, emoji] = [MEMBER, CHANNEL, EMOJI].map((pattern) => (isCode ? null : pattern.exec(before)));
    const command = onCommand && text === before ? COMMAND.exec(text) : null;
    if (command) {
      commandHits(id, command[1]!).then((hits) => { if (isHere(text)) show("Commands", 0, hits, COMMANDS_MAX); }, () => {});
    } else if (member && guild) {
      void memberHits(guild, member[1]!).then((hits) => { if (isHere(text)) show("Members", caret - member[1]!.length - 1, hits); });
    } else if (channel && guild) show("Channels", caret - channel[1]!.length - 1, channelHits(guild, channel[1]!));
    else if (emoji) show("Emoji", caret - emoji[1]!.length - 1, emojiHits(guild, emoji[1]!));
    else setOpen(null);
  };

  const take = (hit: Hit): void => {
    const there = area.current;
    if (!there || !open) return;
    if (hit.command) {
      setText(write(there, "", 0));
      setOpen(null);
      onCommand?.(hit.command);
      return;
    }
    if (hit.means) chosen.set(hit.written, hit.means);
    const rest = there.value.slice(there.selectionStart), written = `${hit.written}${rest.startsWith(" ") ? "" : " "}`;
    const caret = open.from + hit.written.length + 1;
    setText(write(there, `${there.value.slice(0, open.from)}${written}${rest}`, caret));
    setOpen(null);
  };

  const handleKey = (event: KeyboardEvent): boolean => {
    if (!open || event.isComposing) return false;
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? open.hits.length - 1 : 0;
    if (step) setOpen({ ...open, at: (open.at + step) % open.hits.length });
    else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) take(open.hits[open.at]!);
    else if (event.key === "Escape") setOpen(null);
    else return false;
    event.preventDefault();
    return true;
  };

  return {
    chosen, isOpen: open !== null, suggest, handleKey, close: () => setOpen(null),
    attributes: { "aria-controls": open ? "suggestions" : undefined, "aria-activedescendant": open ? `hit-${open.at}` : undefined, "aria-autocomplete": "list", onBlur: () => setOpen(null) },
    list: open && (
      <ul class="suggestions" role="listbox" id="suggestions" aria-label={open.kind}>
        {open.hits.map((hit, at) => <li key={hit.key} role="option" id={`hit-${at}`} aria-selected={at === open.at} ref={at === open.at ? intoView : undefined} onPointerDown={(event) => { event.preventDefault(); take(hit); }}>
          {hit.picture}<span class="name">{hit.label}</span>{hit.needs?.map((name) => <span key={name} class="tag">{name}</span>)}<span class="quiet">{hit.note}</span></li>)}
      </ul>
    ),
  };
}
