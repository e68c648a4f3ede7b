// Small parts of the page: icons, avatars, floating layers.

import { signal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { isDark } from "./theme.ts";
import type { Id, Presence, User } from "./types.ts";

const PATHS = {
  reply: "M6.5 3 2 7.5 6.5 12V9c4 0 6 1.3 7.5 4 0-4.500-2.500-7-7.500-7z",
  edit: "M11.300 2.300a1 1 0 0 1 1.400 0l1 1a1 1 0 0 1 0 1.400L6 12.400 3 13l.6-3z",
  bin: "M6 2h4l.5 1H13v1.500H3V3h2.500zM4 5.500h8L11.400 14H4.600z",
  smile: "M8 1.500a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13zm0 1.400a5.100 5.100 0 1 1 0 10.200A5.100 5.100 0 0 1 8 2.900zM6 6a.9.9 0 1 0 0 1.800A.9.9 0 0 0 6 6zm4 0a.9.9 0 1 0 0 1.800A.9.9 0 0 0 10 6zM5 9.300a3.300 3.300 0 0 0 6 0z",
  pin: "M5 2h6v1.300l-1 .7v3l2 1.800v1.200H8.700V14h-1.400v-4H4V8.800L6 7V4l-1-.7z",
  thread: "M3 2.500h10v7H8.500L5 13v-3.500H3zM5 5v1h6V5zm0 2v1h4V7z",
  search: "M7 2a5 5 0 1 0 3 9l3.300 3.300 1-1L11 10a5 5 0 0 0-4-8zm0 1.500a3.500 3.500 0 1 1 0 7 3.500 3.500 0 0 1 0-7z",
  close: "m4 3 4 4 4-4 1 1-4 4 4 4-1 1-4-4-4 4-1-1 4-4-4-4z",
  send: "M2 2.500 14.500 8 2 13.500 3.300 8.700 9 8 3.300 7.300z",
  attach: "M11.500 4.500v6a3.500 3.500 0 0 1-7 0V4a2.300 2.300 0 0 1 4.600 0v6a1.100 1.100 0 0 1-2.200 0V5H5.700v5a2.300 2.300 0 0 0 4.600 0V4A3.500 3.500 0 0 0 3.300 4v6.500a4.700 4.700 0 0 0 9.400 0v-6z",
  down: "M3 5.500 8 10.500l5-5 1 1L8 12.500 2 6.500z",
  people: "M6 8a2.800 2.800 0 1 0 0-5.600A2.800 2.800 0 0 0 6 8zm-5 5.500C1 10.800 3.200 9.200 6 9.200s5 1.600 5 4.300zM11 8a2.300 2.300 0 1 0-.8-4.400 4 4 0 0 1 0 4.200c.3.100.500.200.800.200zm1.200 5.500H15c0-2.300-1.500-3.700-3.700-4 .6.900.900 2.400.900 4z",
  hash: "M6.300 2 5.900 5H3v1.400h2.700l-.4 3.200H2.500V11h2.600l-.4 3h1.400l.4-3h3.200l-.4 3h1.400l.4-3h2.800V9.600h-2.600l.4-3.200h2.700V5h-2.500l.4-3h-1.400l-.4 3H7.300l.4-3zm.8 4.400h3.200l-.4 3.200H6.700z",
  voice: "M8 2 4.500 5H2v6h2.500L8 14zm2 3.200v5.600c1.200-.4 2-1.500 2-2.800s-.8-2.400-2-2.800zm0-3v1.500a4.500 4.500 0 0 1 0 8.600v1.500a6 6 0 0 0 0-11.600z",
  gauge: "M8 3a6.500 6.500 0 0 0-5.600 9.800h11.200A6.500 6.500 0 0 0 8 3zm0 1.500a5 5 0 0 1 4.700 6.800H3.300A5 5 0 0 1 8 4.500zm2.800 1.800L7.300 9a1.100 1.100 0 1 0 1.400 1.400z",
  more: "M3.500 6.700a1.300 1.300 0 1 0 0 2.600 1.300 1.300 0 0 0 0-2.600zm4.500 0a1.300 1.300 0 1 0 0 2.600 1.300 1.300 0 0 0 0-2.600zm4.500 0a1.300 1.300 0 1 0 0 2.600 1.300 1.300 0 0 0 0-2.600z",
  mail: "M2 3.500h12v9H2zM3.500 5v.6L8 8.700l4.500-3.100V5zm0 2.300V11h9V7.300L8 10.400z",
  back: "M9.500 3 4.500 8l5 5 1-1-4-4 4-4z",
  out: "M3 2.500h6V4H4.500v8H9v1.500H3zm8 2.700L13.800 8 11 10.800l-1-1 1-1.100H6.500V7.300H11l-1-1.100z",
  picture: "M2 3h12v10H2zm1.500 1.500v5.800l2.700-2.700 2.300 2.300 1.500-1.500 2.500 2.500V4.500zm7 1a1.200 1.200 0 1 1 0 2.400 1.200 1.200 0 0 1 0-2.400z",
  outside: "M3 3h4.500v1.500h-3v7h7v-3H13V13H3zm6 0h4v4h-1.500V5.600L8 9 7 8l3.400-3.500H9z",
  theme: "M8 1.500a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13zM8 3v10A5 5 0 0 1 8 3z",
  plus: "M7.200 3h1.600v4.200H13v1.600H8.800V13H7.200V8.800H3V7.200h4.200z",
  check: "M6.500 12.500 2 8l1.200-1.200 3.300 3.300 6.300-6.300L14 5z",
  bell: "M8 1.500a4.500 4.500 0 0 0-4.500 4.500v3L2 11.500v1h12v-1L12.500 9V6A4.500 4.500 0 0 0 8 1.500zM6.300 13.500a1.700 1.700 0 0 0 3.400 0z",
  muted: "M8 1.500c-1.300 0-2.400.5-3.200 1.400l7.700 7.700V6A4.500 4.500 0 0 0 8 1.500zM3.500 6v3L2 11.500v1h8.700L3.500 5.300zM6.300 13.500a1.700 1.700 0 0 0 3.400 0zM2.300 1.500 1.300 2.500l11.200 12 1-1z",
  command: "M9.800 2h1.700L6.200 14H4.500z",
  grip: "M3 3h10v1.500H3zm0 4.200h10v1.500H3zm0 4.300h10V13H3z",
} as const;

export type IconName = keyof typeof PATHS;

export const Icon = ({ name }: { name: IconName }): VNode => (
  <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false"><path fill="currentColor" fill-rule="evenodd" d={PATHS[name]} /></svg>
);

export function IconButton({ icon, label, onClick, pressed, className = "" }: {
  icon: IconName; label: string; onClick: (event: MouseEvent) => void; pressed?: boolean; className?: string;
}): VNode {
  return <button type="button" class={`icon-button ${className}`} aria-label={label} title={label} aria-pressed={pressed} onClick={onClick}><Icon name={icon} /></button>;
}

// Six colours that white text reads on.
const AVATARS = ["#2f5fe0", "#a15400", "#14785a", "#9a3fae", "#c2303a", "#566070"];
const hash = (id: Id): number => [...id].reduce((sum, digit) => (sum * 31 + digit.charCodeAt(0)) >>> 0, 7);

export function initials(name: string): string {
  const words = name.split(/[\s_.-]+/).filter((word) => /[\p{L}\p{N}]/u.test(word));
  const letters = (words.length > 1 ? [words[0]!, words.at(-1)!] : [words[0] ?? "?"]).map((word) => [...word.replace(/^[^\p{L}\p{N}]+/u, "")][0] ?? "?");
  return letters.join("").toUpperCase();
}

export function Avatar({ user, name, size = 40, presence }: { user: { id: Id; avatar?: string | null }; name: string; size?: number; presence?: Presence["status"] | undefined }): VNode {
  return (
    <span class="avatar" style={{ width: `${size}px`, height: `${size}px`, fontSize: `${Math.round(size * 0.38)}px`, background: AVATARS[hash(user.id) % AVATARS.length] }} aria-hidden="true">
      {initials(name)}
      {presence && <span class={`dot ${presence}`} />}
    </span>
  );
}

export const STATUS: Record<string, string> = { online: "Online", idle: "Idle", dnd: "Do not disturb", offline: "Offline", invisible: "Offline" };

const narrowQuery = matchMedia("(max-width: 719px)");
/** One pane at a time. */
export const isNarrow = signal(narrowQuery.matches);
narrowQuery.addEventListener("change", () => (isNarrow.value = narrowQuery.matches));

const channel = (value: number): number => { const share = value / 255; return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4; };
const luminance = ([r, g, b]: number[]): number => 0.2126 * channel(r!) + 0.7152 * channel(g!) + 0.0722 * channel(b!);
const cache = new Map<number, string>();

/** A role's colour, moved towards the text's colour until it can be read on the page. */
export function readable(color: number): string | undefined {
  if (!color) return undefined;
  const dark = isDark.value;
  const key = dark ? color + 0x1000000 : color;
  const known = cache.get(key);
  if (known) return known;
  // Against the backgrounds of hovered rows, the least contrast there is.
  const background = luminance(dark ? [0x1f, 0x26, 0x30] : [0xec, 0xef, 0xf3]);
  const towards = dark ? 255 : 0;
  let rgb = [color >> 16 & 255, color >> 8 & 255, color & 255];
  for (let step = 0; step < 20; step++) {
    const own = luminance(rgb);
    const contrast = (Math.max(own, background) + 0.05) / (Math.min(own, background) + 0.05);
    if (contrast >= 4.6) break;
    rgb = rgb.map((part) => part + (towards - part) * 0.1);
  }
  const text = `rgb(${rgb.map(Math.round).join(" ")})`;
  cache.set(key, text);
  return text;
}

// --- Floating layers

export interface Layer {
  key: string; anchor: HTMLElement; content: () => ComponentChildren; label: string;
  /** What has the focus afterwards, if not the anchor. */
  back?: HTMLElement;
  /** Below its anchor, or above it; otherwise beside it. */
  isBelow?: boolean;
}
export const layer = signal<Layer | null>(null);

export function closeLayer(): void {
  const open = layer.value;
  layer.value = null;
  const back = open?.back ?? open?.anchor;
  if (back && document.contains(back)) back.focus({ preventScroll: true });
}

export function openLayer(next: Layer): void {
  if (layer.value?.key === next.key) closeLayer();
  else layer.value = next;
}

/** Where a key leads within a menu; null: nowhere. */
function nextItem(key: string, at: number, count: number): number | null {
  if (count === 0) return null;
  switch (key) {
    case "ArrowDown": return (at + 1) % count;
    case "ArrowUp": return (at <= 0 ? count : at) - 1;
    case "Home": return 0;
    case "End": return count - 1;
    default: return null;
  }
}

/** Shows the open layer beside its anchor; Escape and a press elsewhere close it, and focus returns to the anchor. */
export function Layers(): VNode | null {
  const open = layer.value;
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (!open || !box.current) return;
    const place = open.anchor.getBoundingClientRect(), own = box.current.getBoundingClientRect();
    const left = Math.max(8, Math.min(place.right + 8 + own.width < innerWidth ? place.right + 8 : place.left - own.width - 8, innerWidth - own.width - 8));
    const top = Math.max(8, Math.min(place.top, innerHeight - own.height - 8));
    if (open.isBelow) {
      box.current.style.left = `${Math.max(8, Math.min(place.left, innerWidth - own.width - 8))}px`;
      box.current.style.top = `${place.bottom + 4 + own.height < innerHeight - 8 ? place.bottom + 4 : Math.max(8, place.top - own.height - 4)}px`;
    } else {
      box.current.style.left = `${left < 8 || place.left - own.width < 8 && place.right + 8 + own.width > innerWidth ? Math.max(8, Math.min(place.left, innerWidth - own.width - 8)) : left}px`;
      box.current.style.top = `${top}px`;
    }
    const first = box.current.querySelector<HTMLElement>("[data-first=true]") ?? box.current.querySelector<HTMLElement>("button, input, a[href]") ?? box.current;
    first.focus({ preventScroll: true });
    if (first instanceof HTMLInputElement) first.select();
  }, [open]);
  // Before the layer is painted: an Escape at once after it must not be missed.
  useLayoutEffect(() => {
    if (!open) return;
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === "Escape") { event.stopPropagation(); closeLayer(); return; }
      const items = [...(box.current?.querySelectorAll<HTMLElement>("[role=menu] > button") ?? [])];
      const next = nextItem(event.key, items.indexOf(document.activeElement as HTMLElement), items.length);
      if (next !== null) { event.preventDefault(); items[next]!.focus(); }
    };
    const onPress = (event: PointerEvent): void => { const at = event.target as Node; if (!box.current?.contains(at) && !open.anchor.contains(at)) layer.value = null; };
    addEventListener("keydown", onKey, true);
    addEventListener("pointerdown", onPress, true);
    return () => { removeEventListener("keydown", onKey, true); removeEventListener("pointerdown", onPress, true); };
  }, [open]);
  return open && <div class="layer" role="dialog" aria-label={open.label} tabIndex={-1} ref={box}>{open.content()}</div>;
}

const timeFormat = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit" });
const exactFormat = new Intl.DateTimeFormat([], { dateStyle: "full", timeStyle: "medium" });
export const time = (iso: string): string => timeFormat.format(new Date(iso));
export function day(iso: string): string {
  const date = new Date(iso), today = new Date();
  const days = Math.round((new Date(today.toDateString()).getTime() - new Date(date.toDateString()).getTime()) / 86_400_000);
  if (days === 0) return "Today";
  if (days === 1) return "Yesterday";
  return date.toLocaleDateString([], { weekday: "long", day: "numeric", month: "long", year: date.getFullYear() === today.getFullYear() ? undefined : "numeric" });
}
export const exactTime = (iso: string): string => exactFormat.format(new Date(iso));
export type { User };
