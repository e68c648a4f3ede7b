// Numbers, bytes and times as people read them. The exact value is for the title of an element.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });
const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** Formats as it prints; tables have thousands of such values. */
const isSmall = (value: number): boolean => Number.isInteger(value) && value >= 0 && value < 1_000;

/** Three significant digits, with thousands separators. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (isSmall(value)) return String(value);
  return Math.abs(value) >= 100 ? whole.format(value) : digits.format(value);
}

export const exact = (value: number): string => (isSmall(value) ? String(value) : Number.isFinite(value) ? precise.format(value) : "no value");

/** A value and its unit, apart. */
export type Shown = readonly [text: string, unit: string];

function scaled(value: number, steps: readonly (readonly [number, string])[]): Shown {
  if (!Number.isFinite(value)) return ["–", ""];
  const [size, unit] = steps.find(([size]) => Math.abs(value) >= size) ?? steps.at(-1)!;
  return [number(value / size), unit];
}

/** kB is 1,000 bytes. */
export const bytes = (value: number): Shown => scaled(value, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
export const byteRate = (value: number): Shown => { const [text, unit] = bytes(value); return [text, unit && `${unit}/s`]; };
export const count = (value: number): Shown => (Math.abs(value) >= 1e7 ? scaled(value, [[1e9, "G"], [1e6, "M"]]) : [number(value), ""]);
export const perSecond = (value: number): Shown => { const [text, unit] = count(value); return [text, Number.isFinite(value) ? `${unit}/s` : ""]; };
export const percent = (share: number): Shown => [number(share * 100), Number.isFinite(share) ? "%" : ""];
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
