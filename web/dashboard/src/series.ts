// Series: the data of a page's charts: the history of the last minutes, continued by the live stream.

import { signal, type Signal } from "@preact/signals";
import { ask, follow, Refused } from "./api.ts";

export interface Range { readonly name: string; readonly seconds: number }
export const RANGES: readonly Range[] = [{ name: "5 min", seconds: 300 }, { name: "10 min", seconds: 600 }, { name: "1 h", seconds: 3_600 }];
export const range = signal<Range>(RANGES[0]!);
/** Part of the range that charts show, in seconds; all of it if undefined. Shared by all charts. */
export const zoom = signal<readonly [number, number] | undefined>(undefined);

/** The time that charts and shares are about. */
export const rangeInWords = (): string => (zoom.value ? "in the part of the charts that is shown" : `in the last ${range.value.name}`);

type Value = number | null;
interface HistoryBody { step_s: number; at_ms: number[]; series: Record<string, Value[]> }

export interface Series {
  /** Unix seconds, ascending. */
  at: number[];
  values: Map<string, Value[]>;
}

/** Name of a series and its labels: `loop_busy_seconds{loop="x",index="0"}:p99`. */
export interface Name { family: string; labels: Record<string, string>; suffix: string }

export function parse(name: string): Name {
  const open = name.indexOf("{");
  if (open < 0) {
    const [family, suffix] = name.split(":");
    return { family: family!, labels: {}, suffix: suffix ?? "" };
  }
  const close = name.lastIndexOf("}");
  const labels: Record<string, string> = {};
  for (const [, key, value] of name.slice(open + 1, close).matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)) labels[key!] = value!;
  return { family: name.slice(0, open), labels, suffix: name.slice(close + 1).replace(":", "") };
}

/** What a page follows. `changed` counts up whenever there is something new to draw. */
export class Feed {
  readonly changed: Signal<number> = signal(0);
  readonly fault: Signal<Refused | undefined> = signal(undefined);
  readonly isLoaded: Signal<boolean> = signal(false);
  series: Series = { at: [], values: new Map() };
  newest: Record<string, number> = {};
  #stop: () => void = () => {};
  #step = 1;
  #sums = new Map<string, [number, number]>();
  #seconds = 0;
  #names = new Map<string, Name>();

  constructor(readonly prefixes: readonly string[]) {}

  start(): void {
    this.#stop();
    void this.#load();
    this.#stop = follow(this.prefixes.join(","), (sample) => this.#take(sample.at_ms, sample.values), () => void this.#load());
  }

  stop(): void { this.#stop(); }

  async #load(): Promise<void> {
    const { seconds } = range.peek();
    try {
      const body = await ask<HistoryBody>(`node/history?window_s=${seconds}&series=${encodeURIComponent(this.prefixes.join(","))}`);
      if (seconds !== range.peek().seconds) return;
      this.#step = body.step_s;
      this.#sums.clear();
      this.#seconds = 0;
      this.series = { at: body.at_ms.map((ms) => ms / 1000), values: new Map(Object.entries(body.series)) };
      if (Object.keys(this.newest).length === 0) for (const [name, values] of this.series.values) {
        const last = values.at(-1);
        if (typeof last === "number") this.newest[name] = last;
      }
      this.fault.value = undefined;
      this.isLoaded.value = true;
      this.changed.value++;
    } catch (error) {
      if (error instanceof Refused) this.fault.value = error;
    }
  }

  #take(atMs: number, values: Record<string, number>): void {
    this.newest = values;
    if (this.isLoaded.peek()) {
      if (this.#step === 1) this.#append(atMs, values);
      else {
        for (const [name, value] of Object.entries(values)) {
          const [sum, count] = this.#sums.get(name) ?? [0, 0];
          this.#sums.set(name, [sum + value, count + 1]);
        }
        if (++this.#seconds >= this.#step) {
          this.#append(atMs, Object.fromEntries([...this.#sums].map(([name, [sum, count]]) => [name, sum / count])));
          this.#sums.clear();
          this.#seconds = 0;
        }
      }
    }
    this.changed.value++;
  }

  #append(atMs: number, values: Record<string, number>): void {
    const { at, values: all } = this.series;
    if (at.length > 0 && atMs / 1000 <= at.at(-1)!) return;
    for (const name of Object.keys(values)) if (!all.has(name)) all.set(name, at.map(() => null));
    at.push(atMs / 1000);
    for (const [name, list] of all) list.push(values[name] ?? null);
    const extra = at.length - Math.floor(range.peek().seconds / this.#step);
    if (extra > 0) {
      at.splice(0, extra);
      for (const list of all.values()) list.splice(0, extra);
    }
  }

  name(text: string): Name {
    let name = this.#names.get(text);
    if (!name) this.#names.set(text, name = parse(text));
    return name;
  }

  /** Names of a family's series, with their labels. */
  of(family: string, suffix = ""): [text: string, name: Name][] {
    const names = new Set([...this.series.values.keys(), ...Object.keys(this.newest)]);
    return [...names].map((text): [string, Name] => [text, this.name(text)]).filter(([, name]) => name.family === family && name.suffix === suffix);
  }

  /** Newest value; the sum over a family where the labels match. */
  now(family: string, suffix = "", where: (labels: Record<string, string>) => boolean = () => true): number {
    let sum = NaN;
    for (const [text, value] of Object.entries(this.newest)) {
      const name = this.name(text);
      if (name.family === family && name.suffix === suffix && where(name.labels)) sum = (Number.isNaN(sum) ? 0 : sum) + value;
    }
    return sum;
  }

  /** Seconds between two values. */
  get step(): number {
    const { at } = this.series;
    return at.length > 1 ? Math.max(1, Math.round((at.at(-1)! - at[0]!) / (at.length - 1))) : 1;
  }

  /** Whether the charts show a time. */
  #isShown(at: number): boolean {
    const part = zoom.peek();
    return !part || (at >= part[0] && at <= part[1]);
  }

  /** How many seconds the charts show. */
  get shownSeconds(): number {
    return this.series.at.filter((at) => this.#isShown(at)).length * this.step;
  }

  /** What a rate comes to in the time that the charts show. */
  total(values: readonly Value[]): number {
    const { at } = this.series, { step } = this;
    return values.reduce<number>((sum, value, index) => sum + (this.#isShown(at[index]!) ? (value ?? 0) * step : 0), 0);
  }

  /** The sum of some series, value by value; a gap where all of them have one. */
  sum(names: readonly string[]): Value[] {
    const lists = names.map((name) => this.series.values.get(name)).filter((list) => list !== undefined);
    return this.series.at.map((_, index) => {
      let sum: Value = null;
      for (const list of lists) {
        const value = list[index];
        if (typeof value === "number") sum = (sum ?? 0) + value;
      }
      return sum;
    });
  }

  /** A family's values, summed over those series whose labels match. */
  line(family: string, suffix = "", where: (labels: Record<string, string>) => boolean = () => true): Value[] {
    return this.sum(this.of(family, suffix).filter(([, name]) => where(name.labels)).map(([text]) => text));
  }

  /** A family's values by one label, the largest newest values first. */
  by(family: string, label: string, suffix = ""): { key: string; values: Value[]; now: number }[] {
    const groups = new Map<string, string[]>();
    for (const [text, name] of this.of(family, suffix)) {
      const key = name.labels[label] ?? "";
      groups.set(key, [...(groups.get(key) ?? []), text]);
    }
    const lines = [...groups].map(([key, names]) => ({ key, values: this.sum(names), now: names.reduce((sum, name) => sum + (this.newest[name] ?? 0), 0) }));
    const total = (values: Value[]) => values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
    return lines.sort((a, b) => total(b.values) - total(a.values));
  }
}
