// Growth: which dispatch type has become larger: its mean size in the last minute against up to an hour ago.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask } from "./api.ts";
import { ago } from "./format.ts";
import { parse, type Feed } from "./series.ts";

/** Series that `useGrowth` needs. */
export const GROWTH_SERIES = ["sent_frames", "sent_frame_raw_bytes"];
/** A type that is as much larger than before is pointed at. */
export const GROWN = 1.5;
/** Now is the last minute. */
const NOW_S = 60;
/** Before is the oldest ten minutes of the node's history, which goes back an hour; of them what lies at least two minutes back. */
const HISTORY_S = 3_600;
const BEFORE_S = 600;
const APART_S = 120;
/** The hour moves slowly: it is loaded again after so long. */
const STALE_MS = 60_000;
/** Means of fewer dispatches say little. */
const COUNT_MIN = 20;

export interface Growth { name: string; before: number; now: number; /** Of all bytes of the last minute, before compression. */ share: number }

/** Dispatches and their bytes before compression. */
interface Sum { count: number; bytes: number }
/** By type, then by encoding: the same dispatch has other sizes in another encoding, and clients come and go. */
type Sums = Map<string, Map<string, Sum>>;

interface Before { sums: Sums; at: number; loadedAt: number }
/** All pages share it. */
const before = signal<Before | undefined>(undefined);
let loading: Promise<void> | undefined;

/** Sums of what `isIn` selects by its time, in Unix seconds. */
function sumsOf(at: readonly number[], series: Iterable<readonly [string, readonly (number | null)[]]>, isIn: (at: number) => boolean): Sums {
  const sums: Sums = new Map();
  const step = at.length > 1 ? Math.max(1, Math.round((at.at(-1)! - at[0]!) / (at.length - 1))) : 1;
  for (const [text, values] of series) {
    const { family, labels } = parse(text);
    const field = family === "sent_frames" ? "count" : family === "sent_frame_raw_bytes" ? "bytes" : undefined;
    if (!field) continue;
    const type = labels.event ?? "";
    if (!sums.has(type)) sums.set(type, new Map());
    const encodings = sums.get(type)!;
    const encoding = labels.encoding ?? "";
    if (!encodings.has(encoding)) encodings.set(encoding, { count: 0, bytes: 0 });
    const sum = encodings.get(encoding)!;
    values.forEach((value, index) => { if (isIn(at[index]!)) sum[field] += (value ?? 0) * step; });
  }
  return sums;
}

async function load(): Promise<void> {
  try {
    const { at_ms, series } = await ask<{ at_ms: number[]; series: Record<string, (number | null)[]> }>(`node/history?window_s=${HISTORY_S}&series=${GROWTH_SERIES.join(",")}`);
    const at = at_ms.map((ms) => ms / 1_000);
    const [first, last] = [at[0] ?? 0, at.at(-1) ?? 0];
    const until = Math.min(first + BEFORE_S, last - APART_S);
    before.value = { sums: sumsOf(at, Object.entries(series), (each) => each <= until), at: (first + Math.max(first, until)) / 2, loadedAt: Date.now() };
  } catch { /* The page's own feed says what is wrong; this one tries again. */ }
}

/** Types of which enough was sent both now and before, by name, and how long ago that was. */
export function useGrowth(feed: Feed): { types: Map<string, Growth>; ago: string } {
  useEffect(() => {
    const refresh = () => { if (Date.now() - (before.peek()?.loadedAt ?? 0) >= STALE_MS) loading ??= load().finally(() => { loading = undefined; }); };
    refresh();
    const timer = setInterval(refresh, STALE_MS / 4);
    return () => clearInterval(timer);
  }, []);
  const { value } = before;
  const types = new Map<string, Growth>();
  const end = feed.series.at.at(-1);
  if (!value || end === undefined) return { types, ago: "earlier" };
  const now = sumsOf(feed.series.at, feed.series.values, (at) => end - at < NOW_S);
  let all = 0;
  for (const [name, encodings] of now) {
    // The earlier mean, weighted by the encodings of the last minute: a new mix of clients is no growth.
    const sum = { count: 0, bytes: 0, before: 0, countBefore: 0 };
    for (const [encoding, { count, bytes }] of encodings) {
      all += bytes;
      const old = value.sums.get(name)?.get(encoding);
      if (!old || old.count === 0) continue;
      sum.count += count;
      sum.bytes += bytes;
      sum.before += (count * old.bytes) / old.count;
      sum.countBefore += old.count;
    }
    if (sum.count >= COUNT_MIN && sum.countBefore >= COUNT_MIN) types.set(name, { name, before: sum.before / sum.count, now: sum.bytes / sum.count, share: sum.bytes });
  }
  for (const type of types.values()) type.share /= all;
  return { types, ago: ago(value.at * 1_000, end * 1_000) };
}
