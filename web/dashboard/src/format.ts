// Numbers, bytes and times as people read them. The exact value is for the title of an element.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });
const steps = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** Formats as it prints; tables have thousands of such values. */
const isSmall = (value: number): boolean => Number.isInteger(value) && value >= 0 && value < 1_000;

/** Smaller values than this are none: they are the rest of a mean that fades out. */
const LEAST = 1e-6;

let isScale = false;
/** What `run` formats is the scale of an axis: steps such as 1.25 keep three digits. */
export function onScale<T>(run: () => T): T {
  isScale = true;
  try { return run(); } finally { isScale = false; }
}

/** The digits that mean something: two below ten, one behind the point below a hundred, none above, with thousands separators. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (isSmall(value)) return String(value);
  if (isScale) return value >= 100 ? whole.format(value) : steps.format(value);
  const size = Math.abs(value), sign = value < 0 ? "−" : "", rounded = Number(size.toPrecision(2));
  if (size < LEAST) return "0";
  if (size >= 99.95) return whole.format(value);
  if (rounded >= 10) return sign + tenths.format(size);
  return sign + (rounded >= 1 ? rounded.toFixed(1) : String(rounded));
}

export const exact = (value: number): string => (isSmall(value) ? String(value) : Number.isFinite(value) ? precise.format(value) : "no value");

/** A value and its unit, apart. */
export type Shown = readonly [text: string, unit: string];

function scaled(value: number, steps: readonly (readonly [number, string])[]): Shown {
  if (!Number.isFinite(value)) return ["–", ""];
  // 999.7 kB would be 1,000 kB.
  const [size, unit] = steps.find(([size]) => Math.abs(value) >= size * 0.9995) ?? steps.at(-1)!;
  return [number(value / size), unit];
}

/** kB is 1,000 bytes. */
export const bytes = (value: number): Shown => scaled(value, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
export const byteRate = (value: number): Shown => { const [text, unit] = bytes(value); return [text, unit && `${unit}/s`]; };
export const count = (value: number): Shown => (Math.abs(value) >= 1e7 ? scaled(value, [[1e9, "G"], [1e6, "M"]]) : [number(value), ""]);
export const perSecond = (value: number): Shown => { const [text, unit] = count(value); return [text, Number.isFinite(value) ? `${unit}/s` : ""]; };
/** A share is never negative: what is no share is a dash. */
export const percent = (share: number): Shown => (share >= 0 && Number.isFinite(share) ? [number(share * 100), "%"] : ["–", ""]);

/** Sums below this, in bytes, are the rest of a mean that fades out: nothing was sent. */
const SUM_LEAST = 1;
/** A part of a sum of bytes; NaN, shown as a dash, where there is nothing to divide. */
export const shareOf = (part: number, sum: number): number => (part >= 0 && sum >= SUM_LEAST ? part / sum : NaN);
/** To a hundredth of a core: less is noise. */
export const cores = (value: number): Shown => [number(Math.round(value * 100) / 100), value === 1 ? "core" : "cores"];

export function duration(seconds: number): Shown {
  if (!Number.isFinite(seconds)) return ["–", ""];
  if (seconds >= 172_800) return [number(seconds / 86_400), "d"];
  if (seconds >= 7_200) return [number(seconds / 3_600), "h"];
  if (seconds >= 120) return [number(seconds / 60), "min"];
  return scaled(seconds, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]);
}

export const join = ([text, unit]: Shown): string => (unit.startsWith("/") ? text + unit : unit ? `${text} ${unit}` : text);

export function ago(at: number, now: number): string {
  const seconds = Math.max(0, Math.round((now - at) / 1000));
  if (seconds < 2) return "now";
  if (seconds < 120) return `${seconds} s ago`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h ago`;
  return `${Math.round(seconds / 86_400)} d ago`;
}

const dateTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
export const exactTime = (at: number): string => dateTime.format(at);
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
export const clockTime = (at: number): string => clock.format(at);

/** A number of things: `1 guild`, `1,200 guilds`. */
export const counted = (value: number, thing: string): string => `${exact(value)} ${thing}${value === 1 ? "" : "s"}`;

/** `A_B_C` and `guild_worker` as words. */
export const words = (name: string): string => name.replaceAll("_", " ");
