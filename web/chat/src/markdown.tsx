// Markdown of messages, as elements. No text ever becomes markup: unknown syntax stays as it was written.
//
// Limits   DEPTH_MAX levels of nesting; links lead to http and https only.

import type { ComponentChildren, VNode } from "preact";
import { useState } from "preact/hooks";
import type { Id } from "./types.ts";
import { exactTime } from "./ui.tsx";

const DEPTH_MAX = 8;

export interface Names {
  user(id: Id): string;
  role(id: Id): { name: string; color: number } | undefined;
  channel(id: Id): string | undefined;
  onUser(id: Id, anchor: HTMLElement): void;
  onChannel(id: Id): void;
}

type Rule = [pattern: RegExp, render: (match: RegExpExecArray, inner: (text: string) => ComponentChildren, names: Names) => ComponentChildren];

export function Spoiler({ children }: { children: ComponentChildren }): VNode {
  const [isOpen, setOpen] = useState(false);
  return isOpen ? <span class="spoiler open">{children}</span>
    : <button type="button" class="spoiler" aria-label="Show spoiler" onClick={() => setOpen(true)}><span aria-hidden="true">{children}</span></button>;
}

/** An emoji of a guild: its picture, or its name where there is none. */
export function CustomEmoji({ id, name }: { id: Id; name: string }): VNode {
  const [isBroken, setBroken] = useState(false);
  if (isBroken || !/^\d{1,20}$/.test(id)) return <span class="emoji-name">:{name}:</span>;
  return <img class="emoji" src={`/emojis/${id}.webp`} alt={`:${name}:`} title={`:${name}:`} loading="lazy" onError={() => setBroken(true)} />;
}

/** Times as Discord's markup has them: `<t:SECONDS:STYLE>`. */
const TIMES: { readonly [style: string]: Intl.DateTimeFormatOptions } = {
  t: { timeStyle: "short" }, T: { timeStyle: "medium" }, d: { dateStyle: "short" }, D: { dateStyle: "long" }, f: { dateStyle: "long", timeStyle: "short" }, F: { dateStyle: "full", timeStyle: "short" },
};
const SPANS: readonly [seconds: number, unit: Intl.RelativeTimeFormatUnit][] = [[31_536_000, "year"], [2_592_000, "month"], [86_400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];

function at(seconds: number, style: string): ComponentChildren {
  const when = new Date(seconds * 1000);
  if (Number.isNaN(when.getTime())) return null;
  const away = seconds - Date.now() / 1000;
  const [size, unit] = SPANS.find(([size]) => Math.abs(away) >= size) ?? SPANS.at(-1)!;
  const text = style === "R" ? new Intl.RelativeTimeFormat([], { numeric: "auto" }).format(Math.round(away / size), unit) : new Intl.DateTimeFormat([], TIMES[style] ?? TIMES["f"]).format(when);
  return <time class="stamp" dateTime={when.toISOString()} title={exactTime(when.toISOString())}>{text}</time>;
}

function link(text: ComponentChildren, href: string): ComponentChildren {
  let url: URL;
  try { url = new URL(href); } catch { return text; }
  if (url.protocol !== "http:" && url.protocol !== "https:") return text;
  return <a href={url.href} target="_blank" rel="noopener noreferrer nofollow" title={url.href}>{text}</a>;
}

const INLINE: Rule[] = [
  [/\\([\\*_~`|<>[\]()#-])/y, (m) => m[1]],
  [/``([^`](?:.*?[^`])?)``(?!`)/sy, (m) => <code>{m[1]}</code>],
  [/`([^`\n]+)`(?!`)/y, (m) => <code>{m[1]}</code>],
  [/\|\|(.+?)\|\|/sy, (m, inner) => <Spoiler>{inner(m[1]!)}</Spoiler>],
  [/\*\*\*(.+?)\*\*\*(?!\*)/sy, (m, inner) => <strong><em>{inner(m[1]!)}</em></strong>],
  [/\*\*(.+?)\*\*(?!\*)/sy, (m, inner) => <strong>{inner(m[1]!)}</strong>],
  [/__(.+?)__(?!_)/sy, (m, inner) => <u>{inner(m[1]!)}</u>],
  [/~~(.+?)~~(?!~)/sy, (m, inner) => <s>{inner(m[1]!)}</s>],
  [/\*(?=\S)((?:[^*]|\*\*)+?)(?<=\S)\*(?!\*)/sy, (m, inner) => <em>{inner(m[1]!)}</em>],
  [/\b_((?:[^_]|__)+?)_\b/sy, (m, inner) => <em>{inner(m[1]!)}</em>],
  [/\[([^[\]\n]{1,200})\]\((https?:\/\/[^\s()<>]{1,1000})\)/y, (m, inner) => link(inner(m[1]!), m[2]!)],
  [/<(https?:\/\/[^\s<>]{1,1000})>/y, (m) => link(m[1], m[1]!)],
  [/https?:\/\/[^\s<>]{1,1000}?(?=[.,:;!?)\]'"]*(?:\s|$|[<>]))/y, (m) => link(m[0], m[0])],
  [/<@!?(\d{1,20})>/y, (m, _, names) => <button type="button" class="mention" onClick={(event) => names.onUser(m[1]!, event.currentTarget)}>@{names.user(m[1]!)}</button>],
  [/<@&(\d{1,20})>/y, (m, _, names) => <span class="mention">@{names.role(m[1]!)?.name ?? "unknown role"}</span>],
  [/<#(\d{1,20})>/y, (m, _, names) => {
    const name = names.channel(m[1]!);
    return name ? <button type="button" class="mention" onClick={() => names.onChannel(m[1]!)}>#{name}</button> : <span class="mention">#unknown</span>;
  }],
  [/<a?:(\w{1,32}):(\d{1,20})>/y, (m) => <CustomEmoji id={m[2]!} name={m[1]!} />],
  [/<t:(-?\d{1,13})(?::([tTdDfFR]))?>/y, (m) => at(Number(m[1]), m[2] ?? "f") ?? m[0]],
  [/<(\/[\w -]{1,100}):\d{1,20}>/y, (m) => <span class="mention">{m[1]}</span>],
  [/@(everyone|here)\b/y, (m) => <span class="mention">{m[0]}</span>],
];

function inline(text: string, names: Names, depth: number): ComponentChildren[] {
  if (depth > DEPTH_MAX) return [text];
  const out: ComponentChildren[] = [];
  let plain = 0, at = 0;
  const next = /[\\`|*_~[<@h]/g;
  while (at < text.length) {
    next.lastIndex = at;
    const special = next.exec(text);
    if (!special) break;
    at = special.index;
    let hit = false;
    for (const [pattern, render] of INLINE) {
      pattern.lastIndex = at;
      const match = pattern.exec(text);
      if (!match) continue;
      if (at > plain) out.push(text.slice(plain, at));
      const end = at + match[0].length;
      out.push(render(match, (inner) => inline(inner, names, depth + 1), names));
      at = plain = end;
      hit = true;
      break;
    }
    if (!hit) at++;
  }
  if (plain < text.length) out.push(text.slice(plain));
  return out;
}

/** The content of a message. */
export function Markdown({ text, names }: { text: string; names: Names }): VNode {
  const blocks: ComponentChildren[] = [];
  // Blocks of code come first: nothing in them means anything.
  const parts = text.split(/```(?:([\w+#.-]{1,20})\n)?([\s\S]+?)```/g);
  for (let at = 0; at < parts.length; at += 3) {
    blocks.push(...lines(parts[at] ?? "", names, 0));
    const code = parts[at + 2];
    if (code !== undefined) blocks.push(<pre tabIndex={0} aria-label={parts[at + 1] ? `Code, ${parts[at + 1]}` : "Code"}><code>{code.replace(/^\n+|\n+$/g, "")}</code></pre>);
  }
  return <div class="markdown">{blocks}</div>;
}

function lines(text: string, names: Names, depth: number): ComponentChildren[] {
  const out: ComponentChildren[] = [];
  let run: string[] = [];
  const flush = (): void => {
    const joined = run.join("\n").replace(/^\n+|\n+$/g, "");
    if (joined) out.push(<p>{inline(joined, names, 0)}</p>);
    run = [];
  };
  const all = text.split("\n");
  for (let at = 0; at < all.length; at++) {
    const line = all[at]!;
    // All that follows is quoted.
    const rest = depth === 0 ? /^>>> ?(.*)$/s.exec(line) : null;
    if (rest) {
      flush();
      out.push(<blockquote>{lines([rest[1]!, ...all.slice(at + 1)].join("\n"), names, 1)}</blockquote>);
      return out;
    }
    const quote = /^> ?(.*)$/.exec(line);
    if (quote && depth === 0 && line !== ">") {
      flush();
      const quoted = [quote[1]!];
      while (at + 1 < all.length && /^> /.test(all[at + 1]!)) quoted.push(all[++at]!.slice(2));
      out.push(<blockquote>{lines(quoted.join("\n"), names, 1)}</blockquote>);
      continue;
    }
    const heading = /^(#{1,3}) (.+)$/.exec(line);
    if (heading) { flush(); out.push(<p class={`heading h${heading[1]!.length}`}>{inline(heading[2]!, names, 0)}</p>); continue; }
    const small = /^-# (.+)$/.exec(line);
    if (small) { flush(); out.push(<p class="subtext">{inline(small[1]!, names, 0)}</p>); continue; }
    const bullet = /^ {0,4}(?:[-*]|\d{1,3}\.) (.+)$/;
    if (bullet.test(line)) {
      flush();
      const isOrdered = /^ {0,4}\d/.test(line);
      const start = Number(/\d+/.exec(line)?.[0] ?? 1);
      const items = [bullet.exec(line)![1]!];
      while (at + 1 < all.length && bullet.test(all[at + 1]!) && /^ {0,4}\d/.test(all[at + 1]!) === isOrdered) items.push(bullet.exec(all[++at]!)![1]!);
      const rendered = items.map((item) => <li>{inline(item, names, 0)}</li>);
      out.push(isOrdered ? <ol start={start}>{rendered}</ol> : <ul>{rendered}</ul>);
      continue;
    }
    run.push(line);
  }
  flush();
  return out;
}

/** One or several emoji and nothing else: shown larger. */
export const isJustEmoji = (text: string): boolean => /^(?:\p{Extended_Pictographic}(?:\uFE0F|\u200D\p{Extended_Pictographic}|[\u{1F3FB}-\u{1F3FF}])*\s*){1,8}$/u.test(text);

const BLOCKS = new Set<unknown>(["p", "li", "pre"]);

/** Text of rendered markdown; a spoiler stays hidden. */
function flat(node: ComponentChildren): string {
  if (Array.isArray(node)) return node.map(flat).join("");
  if (typeof node === "string" || typeof node === "number") return String(node);
  if (!node || typeof node !== "object" || !("props" in node)) return "";
  if (node.type === Spoiler) return "▒▒▒▒";
  if (node.type === CustomEmoji) return `:${(node.props as unknown as { name: string }).name}:`;
  const text = flat((node.props as { children?: ComponentChildren }).children);
  return BLOCKS.has(node.type) ? `${text} ` : text;
}

/** Content on one line without markup, for replies and pins. */
export const plainText = (text: string, names: Names): string => flat(Markdown({ text, names })).replace(/\s+/g, " ").trim().slice(0, 200);
