// Growth: which dispatch type has become larger, by its mean size now and earlier in the time that the page shows.

import type { Feed } from "./series.ts";

/** Series that `growth` needs. */
export const GROWTH_SERIES = ["sent_frames", "sent_frame_raw_bytes"];
/** Now is the last minute; before is what lies at least another minute back. */
const NOW_S = 60;
/** Means of fewer dispatches say little. */
const COUNT_MIN = 20;

export interface Growth { name: string; before: number; now: number; /** Of all bytes of the last minute, before compression. */ share: number }

/** Types of which enough was sent both now and before, by name. */
export function growth(feed: Feed): Map<string, Growth> {
  const { at } = feed.series;
  const found = new Map<string, Growth>();
  if (at.length < 2) return found;
  const end = at.at(-1)!;
  const step = Math.max(1, Math.round((end - at[0]!) / (at.length - 1)));
  const sums = (values: readonly (number | null)[]): [before: number, now: number] => {
    let [before, now] = [0, 0];
    values.forEach((value, index) => {
      const age = end - at[index]!;
      if (age < NOW_S) now += (value ?? 0) * step;
      else if (age >= 2 * NOW_S) before += (value ?? 0) * step;
    });
    return [before, now];
  };
  const counts = new Map(feed.by("sent_frames", "event").map(({ key, values }) => [key, sums(values)]));
  const bytes = feed.by("sent_frame_raw_bytes", "event").map(({ key, values }) => [key, sums(values)] as const);
  const all = bytes.reduce((sum, [, [, now]]) => sum + now, 0);
  for (const [name, [bytesBefore, bytesNow]] of bytes) {
    const [countBefore, countNow] = counts.get(name) ?? [0, 0];
    if (countBefore >= COUNT_MIN && countNow >= COUNT_MIN) found.set(name, { name, before: bytesBefore / countBefore, now: bytesNow / countNow, share: bytesNow / all });
  }
  return found;
}
