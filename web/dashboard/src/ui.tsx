// Parts of every page: tiles, values, times, bars, dialogs, and the states of a page that has nothing to show.

import { signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Refused } from "./api.ts";
import { colorOf } from "./chart.tsx";
import { ago, exact, exactTime, join, type Shown } from "./format.ts";

/** The browser's clock, every second. */
export const now = signal(Date.now());
setInterval(() => { now.value = Date.now(); }, 1_000);

export function Value({ shown: [text, unit], value }: { shown: Shown; value: number }) {
  return <span class="value" title={Number.isFinite(value) ? exact(value) : undefined}>{text}{unit && <small> {unit}</small>}</span>;
}

export function Ago({ at }: { at: number }) {
  return <time dateTime={new Date(at).toISOString()} title={exactTime(at)}>{ago(at, now.value)}</time>;
}

/** A headline number and what it is to be compared with. */
export function Tile({ label, shown, value, note, tone, trend }: { label: string; shown: Shown; value: number; note?: ComponentChildren; tone?: "warn" | "bad" | undefined; trend?: (number | null)[] }) {
  return (
    <div class={`tile ${tone ?? ""}`}>
      <div class="label">{label}</div>
      <div class={`headline ${Number.isNaN(value) && shown[0].length > 6 ? "text" : ""}`}><Value shown={shown} value={value} /></div>
      {trend && <Trend values={trend} />}
      <div class="note">{note ?? "\u00a0"}</div>
    </div>
  );
}

/** A line without axes. */
export function Trend({ values }: { values: (number | null)[] }) {
  const [width, height] = [120, 24];
  const some = values.slice(-120);
  const top = Math.max(...some.map((value) => value ?? 0), 1e-6);
  let path = "";
  let isGap = true;
  some.forEach((value, index) => {
    if (value === null) { isGap = true; return; }
    const [x, y] = [(index / Math.max(1, some.length - 1)) * width, height - 1 - (value / top) * (height - 2)];
    path += `${isGap ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
    isGap = false;
  });
  return <svg class="trend" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true"><path d={path} /></svg>;
}

/** Shares or ranks: each with its bar, and on hover the exact value and the id. Without an id, labels differ from each other. */
export function Bars({ title, says, rows, format, empty, onOpen }: { title: string; says?: string | undefined; rows: { label: string; value: number; note?: string; color?: string; href?: string; id?: string; isCode?: boolean }[]; format: (value: number) => Shown; empty: string; onOpen?: (label: string) => void }) {
  const top = Math.max(...rows.map((row) => row.value), 1e-9);
  return (
    <section class="bars" aria-label={title}>
      <h2>{title}</h2>
      {says && <p class="says">{says}</p>}
      {rows.length === 0 ? <p class="nothing">{empty}</p> : (
        <ul>{rows.map((row, index) => (
          <li key={row.id ?? row.label} title={row.id ? `${exact(row.value)}; id ${row.id}` : exact(row.value)} onClick={onOpen && (() => onOpen(row.label))}>
            <span class="bar-label">{row.href ? <a href={row.href}>{row.label}</a> : row.isCode ? <code>{row.label}</code> : row.label}</span>
            <span class="bar"><i style={{ width: `${(row.value / top) * 100}%`, background: row.color ?? colorOf(Math.min(index, 5)) }} /></span>
            <span class="bar-value">{join(format(row.value))}{row.note && <small> {row.note}</small>}</span>
          </li>
        ))}</ul>
      )}
    </section>
  );
}

export function Fault({ fault, retry }: { fault: Error; retry?: (() => void) | undefined }) {
  return (
    <div class="fault" role="alert">
      <b>{fault instanceof Refused && fault.status === 403 ? "This key may not see this" : "This cannot be shown now"}</b>
      <p>{fault.message}</p>
      {retry && <button onClick={retry}>Try again</button>}
    </div>
  );
}

export const Skeleton = ({ height }: { height: number }) => <div class="skeleton" style={{ height: `${height}px` }} aria-hidden="true" />;

export function Nothing({ children }: { children: ComponentChildren }) { return <p class="nothing">{children}</p>; }

/** An id: whole, and copied with one click. */
export function Id({ id }: { id: string }) {
  const isCopied = useSignal(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(id).catch(() => {});
    isCopied.value = true;
    setTimeout(() => { isCopied.value = false; }, 1_500);
  };
  return <span class="id"><code>{id}</code><button class="quiet" onClick={(event) => { event.stopPropagation(); void copy(); }} aria-label={`Copy ${id}`}>{isCopied.value ? "Copied" : "Copy"}</button></span>;
}

export interface Question { title: string; text: string; action: string; isDangerous?: boolean; act: () => Promise<string> }
export const question = signal<Question | undefined>(undefined);
/** What an action came to; read out, and gone after some seconds. */
export const notice = signal<string | undefined>(undefined);
let noticeTimer = 0;
export function tellUser(text: string): void {
  notice.value = text;
  clearTimeout(noticeTimer);
  noticeTimer = window.setTimeout(() => { notice.value = undefined; }, 8_000);
}

/** Asks before it acts. Escape answers no. */
export function Ask() {
  const dialog = useRef<HTMLDialogElement>(null);
  const isBusy = useSignal(false);
  const fault = useSignal<string | undefined>(undefined);
  const asked = question.value;
  useEffect(() => {
    fault.value = undefined;
    if (asked && !dialog.current!.open) dialog.current!.showModal();
    else if (!asked && dialog.current!.open) dialog.current!.close();
  }, [asked]);
  const act = async () => {
    isBusy.value = true;
    try {
      tellUser(await asked!.act());
      question.value = undefined;
    } catch (error) {
      fault.value = (error as Error).message;
    } finally {
      isBusy.value = false;
    }
  };
  return (
    <dialog ref={dialog} onClose={() => { question.value = undefined; }} aria-labelledby="question">
      {asked && <>
        <h2 id="question">{asked.title}</h2>
        <p>{asked.text}</p>
        {fault.value && <p class="fault" role="alert">{fault.value}</p>}
        <div class="buttons">
          <button onClick={() => { question.value = undefined; }}>Cancel</button>
          <button class={asked.isDangerous ? "danger" : "primary"} disabled={isBusy.value} onClick={() => void act()}>{asked.action}</button>
        </div>
      </>}
    </dialog>
  );
}
