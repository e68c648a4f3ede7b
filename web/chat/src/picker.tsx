// Emoji picker: the ones that were used last, all by group, those of the guild, and a search. Arrows move, Enter picks.

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { emojiName, findEmoji, GROUPS } from "./emoji.ts";
import { CustomEmoji } from "./markdown.tsx";
import type { Emoji } from "./types.ts";
import { isNarrow } from "./ui.tsx";
import type * as world from "./world.ts";

const COLUMNS = 8, FOUND_MAX = 64, RECENT_MAX = 24;
const KEY = "guildhall.chat.emoji";
const USUAL = ["👍", "❤️", "😂", "🎉", "😮", "😢", "🙏", "🔥", "👀", "💯", "✅", "❌", "🤔", "👏", "🚀", "☕", "🍕", "🌱", "⭐", "🙌", "😄", "😅", "👋", "💡"];

function stored(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((each): each is string => typeof each === "string") : [];
  } catch { return []; }
}
const used = signal<string[]>(stored());
export const recent = (): string[] => [...new Set([...used.value, ...USUAL])].slice(0, RECENT_MAX);

function remember(emoji: Emoji): void {
  if (emoji.id) return;
  used.value = [emoji.name, ...used.value.filter((each) => each !== emoji.name)].slice(0, RECENT_MAX);
  localStorage.setItem(KEY, JSON.stringify(used.value));
}

const plain = (name: string): Emoji => ({ id: null, name });

export function EmojiPicker({ verb, guild, onPick }: { verb: string; guild: world.Guild | undefined; onPick: (emoji: Emoji) => void }): VNode {
  const own = guild?.emojis ?? [];
  const titles = ["Used last", ...(own.length > 0 ? [guild!.name] : []), ...GROUPS.map((group) => group.title)];
  const [query, setQuery] = useState("");
  const [title, setTitle] = useState(titles[0]!);
  const [at, setAt] = useState(0);
  const grid = useRef<HTMLDivElement>(null);
  const shown: Emoji[] = query.trim() ? findEmoji(query, own, FOUND_MAX)
    : title === titles[0] ? recent().map(plain) : (GROUPS.find((group) => group.title === title)?.emoji.map(plain) ?? own);
  useEffect(() => { setAt(0); grid.current?.scrollTo(0, 0); }, [query, title]);
  useEffect(() => grid.current?.children[at]?.scrollIntoView({ block: "nearest" }), [at]);
  const pick = (emoji: Emoji | undefined): void => { if (emoji) { remember(emoji); onPick(emoji); } };
  const steps: { readonly [key: string]: number } = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: COLUMNS, ArrowUp: -COLUMNS };
  const onKey = (event: KeyboardEvent): void => {
    if (event.isComposing || event.target instanceof HTMLSelectElement) return;
    const step = steps[event.key];
    if (step) { event.preventDefault(); setAt(Math.max(0, Math.min(shown.length - 1, at + step))); }
    else if (event.key === "Enter") { event.preventDefault(); pick(shown[at]); }
  };
  const named = (emoji: Emoji): string => (emoji.id ? emoji.name : emojiName(emoji.name));
  return (
    <div class="picker" onKeyDown={onKey}>
      <input data-first={!isNarrow.value} type="search" placeholder="Find an emoji" aria-label="Find an emoji" value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
      {!query.trim() && (
        <select aria-label="Group" value={title} onChange={(event) => setTitle(event.currentTarget.value)}>{titles.map((each) => <option key={each}>{each}</option>)}</select>
      )}
      {shown.length === 0 && <p class="empty">No emoji is called “{query.trim()}”.</p>}
      <div class="emoji-grid" role="group" aria-label={query.trim() ? "Found" : title} ref={grid}>
        {shown.map((emoji, index) => (
          <button type="button" key={emoji.id ?? emoji.name} tabIndex={-1} class={index === at ? "at" : ""} aria-label={`${verb} ${emoji.id ? `:${emoji.name}:` : emoji.name}`} title={named(emoji)}
            onPointerEnter={() => setAt(index)} onClick={() => pick(emoji)}>{emoji.id ? <CustomEmoji id={emoji.id} name={emoji.name} /> : emoji.name}</button>
        ))}
      </div>
      <p class="quiet small picked" role="status">{shown[at] ? named(shown[at]) : " "}</p>
    </div>
  );
}
