// Reports: a page fetches one every second, and keeps the one before, from which it computes rates.

import { signal, type Signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { ask, link, sampledAt, type Refused } from "./api.ts";

export interface Report<T> {
  /** The newest report; undefined until there is one. */
  value: T | undefined;
  /** The newest of those that are at least `SPAN_MS` older. */
  before: T | undefined;
  fault: Refused | undefined;
  retry: () => void;
  /** Counts up with each report. */
  changed: number;
}

/** Rates are means over a few seconds: single ones jump. */
const SPAN_MS = 4_000;

interface State<T> { value: T | undefined; older: T[]; fault: Refused | undefined; changed: number }

export function useReport<T extends { at_ms: number }>(path: string, everyMs: (value: T) => number = () => 1_000): Report<T> {
  const state = useMemo<Signal<State<T>>>(() => signal({ value: undefined, older: [], fault: undefined, changed: 0 }), [path]);
  const again = useMemo(() => signal(0), [path]);
  const { value: attempt } = again;
  useEffect(() => {
    const stopped = new AbortController();
    let timer = 0;
    const load = async () => {
      const before = state.peek();
      try {
        const value = await ask<T>(path, "GET", undefined, stopped.signal);
        const older = [...before.older, value];
        while (older.length > 2 && value.at_ms - older[1]!.at_ms >= SPAN_MS) older.shift();
        state.value = { value, older, fault: undefined, changed: before.changed + 1 };
        sampledAt.value = Math.max(sampledAt.peek(), value.at_ms);
        if (link.peek().state !== "live") link.value = { state: "live" };
      } catch (error) {
        if (stopped.signal.aborted) return;
        const fault = error as Refused;
        state.value = { ...before, fault };
        if (fault.status === 0) {
          const last = link.peek();
          link.value = { state: "broken", since: last.state === "broken" ? last.since : Date.now(), retryAt: Date.now() + 2_000 };
          timer = window.setTimeout(() => void load(), 2_000);
          return;
        }
        if (fault.status === 401 || fault.status === 403 || fault.status === 404 || fault.status === 409) return;
      }
      const { value } = state.peek();
      timer = window.setTimeout(() => void load(), value ? everyMs(value) : 1_000);
    };
    void load();
    return () => {
      stopped.abort();
      clearTimeout(timer);
    };
  }, [path, attempt]);
  const { value, older, fault, changed } = state.value;
  return { value, before: older.length > 1 ? older[0] : undefined, fault, retry: () => { again.value++; }, changed };
}

/** Per second, of a total in two reports; NaN without two. */
export function rate(now: number | undefined, before: number | undefined, span: { at_ms: number } | undefined, since: { at_ms: number } | undefined): number {
  if (now === undefined || before === undefined || !span || !since || span.at_ms <= since.at_ms) return NaN;
  return (Math.max(0, now - before) * 1_000) / (span.at_ms - since.at_ms);
}

/** A total per second, by a function that finds it in both reports. */
export function rateOf<T extends { at_ms: number }>({ value, before }: Pick<Report<T>, "value" | "before">, of: (report: T) => number | undefined): number {
  return value && before ? rate(of(value), of(before), value, before) : NaN;
}

/** Values that a page collects while it is open: at most ten minutes of seconds. */
export class Track {
  at: number[] = [];
  lines = new Map<string, (number | null)[]>();

  push(atMs: number, values: Map<string, number>): void {
    if (this.at.length > 0 && atMs / 1_000 <= this.at.at(-1)!) return;
    for (const key of values.keys()) if (!this.lines.has(key)) this.lines.set(key, this.at.map(() => null));
    this.at.push(atMs / 1_000);
    for (const [key, list] of this.lines) {
      const value = values.get(key);
      list.push(value === undefined || Number.isNaN(value) ? null : value);
      if (list.length > 600) list.shift();
    }
    if (this.at.length > 600) this.at.shift();
  }
}
