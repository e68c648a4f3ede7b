// Parts of every page: tiles, values, times, bars, tables, dialogs, and the states of a page that has nothing to show.

import { signal, useSignal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Refused } from "./api.ts";
import { colorOf } from "./chart.tsx";
import { ago, exact, exactTime, join, number, type Shown } from "./format.ts";

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
  const top = Math.max(...some.map((value) => value ?? 0), 1e-9);
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

/** Shares or ranks: each with its bar, and the exact value on hover. */
export function Bars({ title, says, rows, format, empty, onOpen }: { title: string; says?: string | undefined; rows: { label: string; value: number; note?: string; color?: string; href?: string }[]; format: (value: number) => Shown; empty: string; onOpen?: (label: string) => void }) {
  const top = Math.max(...rows.map((row) => row.value), 1e-9);
  return (
    <section class="bars" aria-label={title}>
      <h2>{title}</h2>
      {says && <p class="says">{says}</p>}
      {rows.length === 0 ? <p class="nothing">{empty}</p> : (
        <ul>{rows.map((row, index) => (
          <li key={row.label} title={exact(row.value)} onClick={onOpen && (() => onOpen(row.label))}>
            <span class="bar-label">{row.href ? <a href={row.href}>{row.label}</a> : row.label}</span>
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

export interface Column<Row> {
  key: string;
  label: string;
  /** What is sorted by; text columns sort by text. */
  value: (row: Row) => number | string;
  show?: (row: Row) => ComponentChildren;
  /** Right-aligned. */
  isNumber?: boolean;
  width: string;
}

interface TableProps<Row> {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  id: (row: Row) => string;
  open?: (row: Row) => void;
  sort: { key: string; isDescending: boolean };
  onSort: (sort: { key: string; isDescending: boolean }) => void;
  empty: string;
  height?: number;
}

const ROW = 32;
/** The rows in view are drawn again when these many have passed, not at each event of the scroll bar. */
const STEP = 4;

/**
 * A table that draws the rows in view. Arrow keys move, Enter opens. Scrolling changes only the rows that come into view: the others are the
 * same virtual nodes as before, and a row that comes takes the elements of one that goes.
 */
export function Table<Row>({ label, rows, columns, id, open, sort, onSort, empty, height = 480 }: TableProps<Row>) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const focused = useSignal(-1);
  const column = columns.find((each) => each.key === sort.key) ?? columns[0]!;
  const sorted = useMemo(() => [...rows].sort((a, b) => {
    const [x, y] = [column.value(a), column.value(b)];
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
    return (sort.isDescending ? -order : order) || (id(a) < id(b) ? -1 : 1);
  }), [rows, sort.key, sort.isDescending]);
  const shown = Math.ceil(height / ROW) + 5 * STEP;
  const first = Math.max(0, Math.min(top.value - 2 * STEP, sorted.length - shown));
  const last = Math.min(sorted.length, first + shown);
  const drawn = useMemo(() => new Map<number, { row: VNode; tabIndex: number }>(), [sorted, columns]);
  for (const index of drawn.keys()) if (index < first || index >= last) drawn.delete(index);
  const draw = (index: number): VNode => {
    const tabIndex = index === Math.max(0, focused.value) || (focused.value < first && index === first) ? 0 : -1;
    const before = drawn.get(index);
    if (before?.tabIndex === tabIndex) return before.row;
    const value = sorted[index]!;
    const row = (
      <tr key={index % shown} data-index={index} data-id={id(value)} aria-rowindex={index + 2} class={open ? "opens" : ""} tabIndex={tabIndex} onFocus={() => { focused.value = index; }} onClick={open && (() => open(value))}>
        {columns.map((each) => <td key={each.key} class={each.isNumber ? "n" : ""}>{each.show ? each.show(value) : number(each.value(value) as number)}</td>)}
      </tr>
    );
    drawn.set(index, { row, tabIndex });
    return row;
  };
  const move = (to: number) => {
    const index = Math.max(0, Math.min(sorted.length - 1, to));
    focused.value = index;
    const view = box.current!;
    const y = index * ROW;
    if (y < view.scrollTop) view.scrollTop = y;
    else if (y + ROW > view.scrollTop + view.clientHeight - ROW) view.scrollTop = y + 2 * ROW - view.clientHeight;
  };
  useEffect(() => {
    const active = document.activeElement as HTMLElement | null;
    if (focused.value < 0 || !active || !box.current?.contains(active)) return;
    const row = box.current.querySelector<HTMLElement>(`tr[data-index="${focused.value}"]`);
    if (row) row.focus({ preventScroll: true });
    // Its row has scrolled away, and its elements are another row's by now.
    else if (active.tagName === "TR") active.blur();
  });
  const onKey = (event: KeyboardEvent) => {
    const page = Math.floor(height / ROW) - 2;
    const steps: Record<string, number> = { ArrowDown: focused.value + 1, ArrowUp: focused.value - 1, PageDown: focused.value + page, PageUp: focused.value - page, Home: 0, End: sorted.length - 1 };
    if (event.key in steps && sorted.length > 0) {
      event.preventDefault();
      move(steps[event.key]!);
    } else if (event.key === "Enter" && open && (event.target as HTMLElement).tagName === "TR") open(sorted[focused.value]!);
  };
  return (
    <div class="table" ref={box} style={{ maxHeight: `${height}px` }} onScroll={(event) => { top.value = Math.floor(event.currentTarget.scrollTop / ROW / STEP) * STEP; }} onKeyDown={onKey} tabIndex={sorted.length > 0 ? undefined : 0} role="region" aria-label={label}>
      <table aria-rowcount={sorted.length + 1} style={{ minWidth: `${columns.reduce((sum, each) => sum + Number.parseInt(each.width), 0)}px` }}>
        <colgroup>{columns.map((each) => <col key={each.key} style={{ width: each.width }} />)}</colgroup>
        <thead><tr>{columns.map((each) => (
          <th key={each.key} scope="col" class={each.isNumber ? "n" : ""} aria-sort={sort.key === each.key ? (sort.isDescending ? "descending" : "ascending") : undefined}>
            <button onClick={() => onSort({ key: each.key, isDescending: sort.key === each.key ? !sort.isDescending : each.isNumber ?? false })}>{each.label}{sort.key === each.key ? (sort.isDescending ? " ↓" : " ↑") : ""}</button>
          </th>
        ))}</tr></thead>
        <tbody>
          {first > 0 && <tr class="space" style={{ height: `${first * ROW}px` }} aria-hidden="true"><td colSpan={columns.length} /></tr>}
          {Array.from({ length: last - first }, (_, offset) => draw(first + offset))}
          {last < sorted.length && <tr class="space" style={{ height: `${(sorted.length - last) * ROW}px` }} aria-hidden="true"><td colSpan={columns.length} /></tr>}
        </tbody>
      </table>
      {sorted.length === 0 && <p class="nothing">{empty}</p>}
    </div>
  );
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
