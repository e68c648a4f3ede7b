// Tables of up to ten thousand rows. A table has elements for the rows in view and some on each side, and keeps these elements: while it scrolls,
// a row that comes takes the elements of one that goes, and only texts and the row's place change. Preact draws the frame, not the rows.

import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { exact, number } from "./format.ts";

/** What a cell shows beside plain text: a link, or a look that is a class of style.css. */
export interface Cell { text: string; look?: string; href?: string }

export interface Column<Row> {
  key: string;
  label: string;
  /** What is sorted by; text columns sort by text. */
  value: (row: Row) => number | string;
  /** The value itself if absent. */
  show?: (row: Row) => string | Cell;
  /** What hover and focus tell: if absent the exact value of a number, and a text that is cut off. */
  title?: (row: Row) => string | undefined;
  /** Right-aligned. */
  isNumber?: boolean;
  /** Every cell of the column is a link. */
  isLink?: boolean;
  /** Least width in pixels; a wider table shares its room in proportion. */
  width: number;
}

export interface Sort { key: string; isDescending: boolean }

interface TableProps<Row> {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  id: (row: Row) => string;
  open?: ((row: Row) => void) | undefined;
  sort: Sort;
  onSort: (sort: Sort) => void;
  empty: string;
  height?: number;
}

/** Pixels; `.table tbody tr` in style.css has the same. */
const ROW = 32;
/** Pixels of the first column at most on a narrow screen, where it stays in view; style.css has the same. */
const FIRST_NARROW = 144;
/** Rows kept above and below the view, so that the browser has something to show while it scrolls ahead of the script. */
const BESIDE = 8;
/** After so long without a scroll event the rows get their order in the document back, which a screen reader follows. */
const REST_MS = 500;

interface Slot { element: HTMLTableRowElement; cells: HTMLTableCellElement[]; texts: Text[]; looks: string[]; hrefs: string[]; index: number; tabIndex: 0 | -1; hasTitles: boolean }

/** The rows of a table in `body`, which scrolls in `box`. */
class Rows<Row> {
  #rows: readonly Row[] = [];
  #columns: readonly Column<Row>[] = [];
  #id: (row: Row) => string = () => "";
  #open: ((row: Row) => void) | undefined;
  #slots: Slot[] = [];
  #height = 0;
  #first = 0;
  /** The row that keyboards move from; by its id, since live rows change places. */
  #focused = { index: 0, id: "" };
  /** Whether the box is in the order of the tab key. */
  #isBoxed: boolean | undefined;
  #rest = 0;

  constructor(readonly box: HTMLElement, readonly body: HTMLTableSectionElement) {
    box.addEventListener("scroll", () => this.#scroll(), { passive: true });
    box.addEventListener("keydown", (event) => this.#press(event));
    body.addEventListener("click", (event) => {
      const slot = this.#slotOf(event.target);
      if (slot && !(event.target as Element).closest("a")) this.#open?.(this.#rows[slot.index]!);
    });
    body.addEventListener("focusin", (event) => {
      const slot = this.#slotOf(event.target);
      if (!slot) return;
      this.#moveTo(slot.index);
      slot.cells.forEach((_, column) => this.#tell(slot, column));
    });
    body.addEventListener("pointerover", (event) => {
      const slot = this.#slotOf(event.target);
      const column = slot?.cells.findIndex((cell) => cell.contains(event.target as Node)) ?? -1;
      if (slot && column >= 0) this.#tell(slot, column);
    });
  }

  stop(): void { clearTimeout(this.#rest); }

  /** Takes rows, sorted; what is shown already changes where it differs. */
  take(rows: readonly Row[], columns: readonly Column<Row>[], id: (row: Row) => string, open: ((row: Row) => void) | undefined, height: number): void {
    const count = Math.min(rows.length, Math.ceil(height / ROW) + 2 * BESIDE);
    const { scrollTop } = this.box;
    const isKept = columns === this.#columns && count === this.#slots.length;
    const hadFocus = this.body.contains(document.activeElement);
    this.#rows = rows;
    this.#id = id;
    this.#open = open;
    this.#height = height;
    if (!isKept) {
      this.#columns = columns;
      this.#slots = Array.from({ length: count }, () => this.#make());
      this.body.replaceChildren(...this.#slots.map(({ element }) => element));
    }
    this.body.style.height = `${rows.length * ROW}px`;
    const { index, id: focused } = this.#focused;
    const at = focused === "" ? -1 : rows.findIndex((row) => id(row) === focused);
    this.#focused.index = at >= 0 ? at : Math.max(0, Math.min(index, rows.length - 1));
    this.#first = this.#firstAt(scrollTop);
    for (let each = this.#first; each < this.#first + count; each++) this.#fill(this.#slots[each % count]!, each);
    this.#showFocus(hadFocus);
  }

  #firstAt(scrollTop: number): number {
    return Math.max(0, Math.min(Math.floor(scrollTop / ROW) - BESIDE, this.#rows.length - this.#slots.length));
  }

  #slotOf(target: EventTarget | null): Slot | undefined {
    const element = (target as Element | null)?.closest("tr");
    return this.#slots.find((slot) => slot.element === element);
  }

  #make(): Slot {
    const element = document.createElement("tr");
    element.setAttribute("role", "row");
    element.tabIndex = -1;
    if (this.#open) element.className = "opens";
    const slot: Slot = { element, cells: [], texts: [], looks: [], hrefs: [], index: -1, tabIndex: -1, hasTitles: false };
    for (const column of this.#columns) {
      const cell = element.insertCell();
      cell.setAttribute("role", "cell");
      if (column.isNumber) cell.className = "n";
      cell.style.flex = flexOf(column.width);
      const text = document.createTextNode("");
      const holder = column.isLink ? cell.appendChild(document.createElement("a")) : cell;
      if (column.isLink) holder.tabIndex = -1;
      holder.append(text);
      slot.cells.push(cell);
      slot.texts.push(text);
      slot.looks.push("");
      slot.hrefs.push("");
    }
    return slot;
  }

  /** Shows a row. It writes only what differs, and reads nothing of the document. */
  #fill(slot: Slot, index: number): void {
    const row = this.#rows[index]!;
    const { element } = slot;
    if (slot.index !== index) {
      slot.index = index;
      // Not a transform: the browser keeps a node of its property trees for each, and compares them all in each frame.
      element.style.top = `${index * ROW}px`;
      element.dataset.index = String(index);
      element.setAttribute("aria-rowindex", String(index + 2));
    }
    const id = this.#id(row);
    if (element.dataset.id !== id) element.dataset.id = id;
    if (slot.hasTitles) {
      for (const cell of slot.cells) cell.removeAttribute("title");
      slot.hasTitles = false;
    }
    this.#columns.forEach((column, at) => {
      const shown = column.show?.(row) ?? textOf(column.value(row));
      const { text, look = "", href = "" }: Cell = typeof shown === "string" ? { text: shown } : shown;
      const node = slot.texts[at]!;
      if (node.data !== text) node.data = text;
      if (slot.looks[at] !== look) {
        slot.looks[at] = look;
        slot.cells[at]!.className = column.isNumber ? `n ${look}` : look;
      }
      if (slot.hrefs[at] !== href) {
        slot.hrefs[at] = href;
        (node.parentNode as HTMLAnchorElement).href = href;
      }
    });
  }

  #scroll(): void {
    clearTimeout(this.#rest);
    this.#rest = window.setTimeout(() => this.#order(), REST_MS);
    const first = this.#firstAt(this.box.scrollTop);
    if (first === this.#first) return;
    this.#first = first;
    const count = this.#slots.length;
    for (let index = first; index < first + count; index++) {
      const slot = this.#slots[index % count]!;
      if (slot.index !== index) this.#fill(slot, index);
    }
    this.#showFocus(this.body.contains(document.activeElement));
  }

  /** Puts the elements into the order of their rows. */
  #order(): void {
    const active = document.activeElement;
    const count = this.#slots.length;
    for (let offset = 0; offset < count; offset++) {
      const { element } = this.#slots[(this.#first + offset) % count]!;
      const there = this.body.children[offset]!;
      if (there !== element) this.body.insertBefore(element, there);
    }
    if (active instanceof HTMLElement && active !== document.activeElement && this.body.contains(active)) active.focus({ preventScroll: true });
  }

  #tell(slot: Slot, at: number): void {
    const column = this.#columns[at]!;
    const row = this.#rows[slot.index]!;
    const value = column.value(row);
    const cell = slot.cells[at]!;
    const title = column.title?.(row) ?? (typeof value === "number" ? exact(value) : cell.scrollWidth > cell.clientWidth ? value : undefined);
    if (!title) return;
    cell.title = title;
    slot.hasTitles = true;
  }

  #focusedSlot(): Slot | undefined {
    const slot = this.#slots[this.#focused.index % this.#slots.length];
    return slot?.index === this.#focused.index ? slot : undefined;
  }

  #moveTo(index: number): void {
    this.#focused = { index, id: this.#id(this.#rows[index]!) };
    this.#showFocus(false);
  }

  /** One element of the table is in the order of the tab key: the row that was focused last, or the box when that row has scrolled away. */
  #showFocus(hadFocus: boolean): void {
    const focused = this.#focusedSlot();
    for (const slot of this.#slots) {
      const tabIndex = slot === focused ? 0 : -1;
      if (slot.tabIndex !== tabIndex) slot.element.tabIndex = slot.tabIndex = tabIndex;
    }
    const isBoxed = !focused;
    if (this.#isBoxed !== isBoxed) this.box.tabIndex = isBoxed ? 0 : -1;
    this.#isBoxed = isBoxed;
    if (!hadFocus && document.activeElement !== this.box) return;
    // Its elements may be another row's by now.
    if (focused && focused.element !== document.activeElement && (hadFocus || this.#isInView(focused.index))) focused.element.focus({ preventScroll: true });
    else if (!focused && hadFocus) this.box.focus({ preventScroll: true });
  }

  #isInView(index: number): boolean {
    const { scrollTop } = this.box;
    return index * ROW >= scrollTop && (index + 1) * ROW <= scrollTop + this.#height - ROW;
  }

  #press(event: KeyboardEvent): void {
    const { box } = this;
    if (this.#rows.length === 0) return;
    const isRow = (event.target as Element).closest("tbody tr") !== null;
    if (!isRow && event.target !== box) return;
    const page = Math.floor(this.#height / ROW) - 2;
    const from = isRow ? this.#focused.index : Math.ceil(box.scrollTop / ROW);
    const targets: Record<string, number> = { ArrowDown: from + (isRow ? 1 : 0), ArrowUp: from - 1, PageDown: from + page, PageUp: from - page, Home: 0, End: this.#rows.length - 1 };
    if (event.key in targets) {
      event.preventDefault();
      const index = Math.max(0, Math.min(this.#rows.length - 1, targets[event.key]!));
      const y = index * ROW;
      // The head of the table covers a row.
      if (y < box.scrollTop) box.scrollTop = y;
      else if (y + 2 * ROW > box.scrollTop + box.clientHeight) box.scrollTop = y + 2 * ROW - box.clientHeight;
      this.#focused = { index, id: this.#id(this.#rows[index]!) };
      this.#scroll();
      this.#showFocus(true);
    } else if (event.key === "Enter" && isRow) this.#open?.(this.#rows[this.#focused.index]!);
  }
}

/** A column is as wide as it says at least; a wider table shares its room in proportion. */
const flexOf = (width: number): string => `${width} 0 ${width}px`;

const textOf = (value: number | string): string => (typeof value === "number" ? number(value) : value);

const texts = new Intl.Collator(undefined, { numeric: true });

/** Sorted by a column; rows that are equal by their ids. Each key is computed once. */
function sortedBy<Row>(rows: readonly Row[], column: Column<Row>, isDescending: boolean, id: (row: Row) => string): Row[] {
  const keyed = rows.map((row) => ({ row, key: column.value(row), id: id(row) }));
  const order = isDescending ? -1 : 1;
  keyed.sort((a, b) => {
    const between = typeof a.key === "number" && typeof b.key === "number" ? a.key - b.key : texts.compare(String(a.key), String(b.key));
    return between * order || (a.id < b.id ? -1 : 1);
  });
  return keyed.map(({ row }) => row);
}

/** A table of which the rows in view are drawn. Arrow keys move, Enter opens. */
export function Table<Row>({ label, rows, columns, id, open, sort, onSort, empty, height = 480 }: TableProps<Row>) {
  const box = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLTableSectionElement>(null);
  const view = useRef<Rows<Row> | undefined>(undefined);
  const column = columns.find((each) => each.key === sort.key) ?? columns[0]!;
  const sorted = useMemo(() => sortedBy(rows, column, sort.isDescending, id), [rows, column, sort.isDescending]);
  useLayoutEffect(() => {
    view.current ??= new Rows<Row>(box.current!, body.current!);
    view.current.take(sorted, columns, id, open, height);
  }, [sorted, columns, height]);
  useLayoutEffect(() => () => view.current?.stop(), []);
  const [least, leastNarrow] = useMemo(() => {
    const sum = columns.reduce((all, { width }) => all + width, 0);
    return [`${sum}px`, `${sum - Math.max(0, columns[0]!.width - FIRST_NARROW)}px`];
  }, [columns]);
  return (
    <div class="table" ref={box} style={{ maxHeight: `${height}px` }} role="region" aria-label={label}>
      <table role="table" class={columns[0]!.width > FIRST_NARROW ? "long-first" : ""} aria-rowcount={sorted.length + 1} style={{ "--least": least, "--least-narrow": leastNarrow }}>
        <thead role="rowgroup"><tr role="row" aria-rowindex={1}>{columns.map((each) => (
          <th key={each.key} style={{ flex: flexOf(each.width) }} role="columnheader" scope="col" class={each.isNumber ? "n" : ""} aria-sort={sort.key === each.key ? (sort.isDescending ? "descending" : "ascending") : undefined}>
            <button onClick={() => onSort({ key: each.key, isDescending: sort.key === each.key ? !sort.isDescending : each.isNumber ?? false })}>{each.label}{sort.key === each.key ? (sort.isDescending ? " ↓" : " ↑") : ""}</button>
          </th>
        ))}</tr></thead>
        <tbody role="rowgroup" ref={body} />
      </table>
      {sorted.length === 0 && <p class="nothing">{empty}</p>}
    </div>
  );
}
