// Charts: lines or one stack over time, with labels next to the lines, a crosshair that all charts share, and a table of figures.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { clockTime, join, type Shown, onScale } from "./format.ts";
import { zoom } from "./series.ts";
import { theme } from "./theme.ts";

export interface Line { label: string; values: (number | null)[]; dashed?: boolean; color?: string }

const COLORS = ["#2f5fe0", "#d9822b", "#1a9e75", "#b04fc4", "#c2303a", "#7a869a"];
export const colorOf = (index: number): string => COLORS[Math.min(index, COLORS.length - 1)]!;

/** More colours, for what has a colour by its name: apart from the series' own, and 3 : 1 against both backgrounds. */
const MORE = ["#0f86a8", "#d6498f", "#7d8a1c", "#9a6a3f", "#7a5bd6"];
/** Grey is for what is no type of its own. */
export const GREY = COLORS[5]!;
/** Colours of what commonly has the largest shares, from `NAMED`; names that are seldom large together may share one. */
const NAMED = [...COLORS.slice(0, 5), ...MORE];
const OF_NAME: Record<string, number> = {
  // Dispatch types.
  MESSAGE_CREATE: 0, PRESENCE_UPDATE: 1, GUILD_MEMBER_LIST_UPDATE: 2, TYPING_START: 3, GUILD_CREATE: 4, READY: 5, PASSIVE_UPDATE_V1: 6, PASSIVE_UPDATE_V2: 6, VOICE_STATE_UPDATE: 7, GUILD_MEMBERS_CHUNK: 7,
  MESSAGE_UPDATE: 8, GUILD_MEMBER_UPDATE: 8, CHANNEL_UPDATE: 8, MESSAGE_REACTION_ADD: 9, READY_SUPPLEMENTAL: 9,
  // Message types of a guild.
  create_message: 0, begin_commit: 1, committed: 2, start_typing: 3, relay_attach: 4, update_channel: 4, timer: 5, relay_subscribe: 5, relay_presence: 6, relay_voice: 7, edit_message: 8, read_members: 8, loaded: 8, add_reaction: 9, job_done: 9, read_channel: 6, read_guild: 7, create: 3,
  // Loops.
  partition: 0, guild_worker: 1, rest: 2, guild_job: 3,
};

/** A dispatch type, a message type and a loop has the same colour on every page and node, whichever others are shown with it. */
export function colorFor(name: string): string {
  if (name === "control" || name === "other") return GREY;
  const own = OF_NAME[name];
  if (own !== undefined) return NAMED[own]!;
  let hash = 0;
  for (const char of name) hash = (hash * 31 + char.charCodeAt(0)) >>> 0;
  return NAMED[hash % NAMED.length]!;
}

/** The six largest, each in its own colour; of more than six the five largest, and the others become one. */
export function largest(lines: readonly { key: string; values: (number | null)[] }[], label: (key: string) => string = (key) => key): Line[] {
  const own = lines.length > 6 ? 5 : 6;
  const shown = lines.slice(0, own).map(({ key, values }): Line => ({ label: label(key), values, color: colorFor(key) }));
  const rest = lines.slice(own);
  if (rest.length === 0) return shown;
  const values = rest[0]!.values.map((_, index) => rest.reduce<number | null>((sum, { values }) => (values[index] === null || values[index] === undefined ? sum : (sum ?? 0) + values[index]!), null));
  return [...shown, { label: `${rest.length} others`, values, color: GREY }];
}

interface Props {
  title: string;
  /** Says in a sentence what the chart shows. */
  says?: string | undefined;
  at: readonly number[];
  lines: readonly Line[];
  format: (value: number) => Shown;
  stacked?: boolean;
  /** As wide as the page. */
  wide?: boolean;
  height?: number;
  limit?: { value: number; label: string } | undefined;
  /** Counts up when there is something new. */
  changed: number;
  isLoaded: boolean;
  empty?: string;
}

const css = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const FONT = "12px system-ui, sans-serif";
/** Pixels for a value beside a name, with its mark. */
const VALUE_WIDTH = 100;
/** Narrower charts have their names below. */
const NARROW = 420;

/** Steps between times on an axis. */
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600];
const measured = document.createElement("canvas").getContext("2d")!;
/** Pixels for the names beside the lines: the longest one fits, unless less than half of the chart would be left. */
function labelWidth(lines: readonly Line[], width: number): number {
  measured.font = FONT;
  return Math.min(width / 2 - 40, VALUE_WIDTH + Math.max(...lines.map(({ label }) => measured.measureText(label).width)));
}
/** Pixels for the texts of an axis. */
function axisSize(_: uPlot, values: readonly string[] | null): number {
  measured.font = FONT;
  return 14 + Math.max(20, ...(values ?? []).map((text) => measured.measureText(text ?? "").width));
}

function data({ at, lines, stacked }: Props): uPlot.AlignedData {
  if (!stacked) return [at as number[], ...lines.map((line) => line.values)];
  // From the bottom: the last of the list is drawn first, as the sum of all.
  const sums: (number | null)[][] = [];
  let below: (number | null)[] | undefined;
  for (const { values } of lines) {
    const before: (number | null)[] | undefined = below;
    below = values.map((value, index) => (value === null && (before?.[index] ?? null) === null ? null : (value ?? 0) + (before?.[index] ?? 0)));
    sums.push(below);
  }
  return [at as number[], ...sums.reverse()];
}

export function Chart(props: Props) {
  const { title, says, at, lines, format, stacked, height = 190, changed, isLoaded } = props;
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const current = useRef(props);
  current.current = props;
  const isTable = useSignal(false);
  const tip = useRef<HTMLDivElement>(null);
  const shape = `${lines.map((line) => line.label).join("\n")}|${stacked}|${theme.value}`;
  const hasData = at.length > 1 && lines.some((line) => line.values.some((value) => value !== null));

  useEffect(() => {
    if (!frame.current || isTable.value || !hasData) return;
    const box = frame.current;
    const order = (index: number) => (current.current.stacked ? current.current.lines.length - 1 - index : index);
    const color = (index: number) => current.current.lines[order(index)]?.color ?? colorOf(order(index));
    const shownUnit = (value: number) => join(current.current.format(value));
    const hasLabels = box.clientWidth >= NARROW && lines.length > 1;
    const grid = { stroke: css("--line"), width: 1 };
    const options: uPlot.Options = {
      width: box.clientWidth,
      height,
      padding: [10, hasLabels ? labelWidth(lines, box.clientWidth) : 28, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "page" }, drag: { x: true, y: false, setScale: false }, points: { show: !stacked, size: 6 } },
      scales: {
        x: { time: true, range: (_, min, max) => { const z = zoom.peek(); return z ? [z[0], z[1]] : [min, max]; } },
        y: { range: (_, __, max) => { const limit = current.current.limit?.value ?? 0; const top = Math.max(max ?? 0, 0); return [0, (limit > 0 && limit < top * 3 ? Math.max(top, limit) : top) * 1.1 || 1]; } },
      },
      axes: [
        { stroke: css("--text-2"), font: FONT, grid, ticks: { show: false }, size: 28, space: 60, incrs: SECONDS, values: (_, splits) => splits.map((value) => (at.length && (at.at(-1)! - at[0]!) > 900 ? clockTime(value * 1000).slice(0, 5) : clockTime(value * 1000))) },
        { stroke: css("--text-2"), font: FONT, grid, ticks: { show: false }, size: axisSize, space: 36, values: (_, splits) => onScale(() => splits.map((value) => (value === 0 ? "0" : shownUnit(value)))) },
      ],
      series: [{}, ...lines.map((_, index): uPlot.Series => ({
        stroke: color(index),
        width: 1,
        points: { show: false },
        ...(current.current.lines[order(index)]?.dashed ? { dash: [4, 3] } : {}),
        ...(stacked ? { fill: blend(color(index), css("--bg")) } : {}),
      }))],
      hooks: {
        setSelect: [(self) => {
          if (self.select.width < 8) return;
          zoom.value = [self.posToVal(self.select.left, "x"), self.posToVal(self.select.left + self.select.width, "x")];
          self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        }],
        draw: [(self) => labels(self, current.current, order, color)],
        setCursor: [(self) => tell(self, tip.current, current.current)],
      },
    };
    const made = new uPlot(options, data(current.current), box);
    plot.current = made;
    made.over.addEventListener("dblclick", () => { zoom.value = undefined; });
    const sizes = new ResizeObserver(() => made.setSize({ width: box.clientWidth, height }));
    sizes.observe(box);
    return () => {
      sizes.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [shape, isTable.value, hasData, height]);

  useEffect(() => {
    const frameOf = requestAnimationFrame(() => plot.current?.setData(data(current.current)));
    return () => cancelAnimationFrame(frameOf);
  }, [changed, zoom.value]);

  const rows = isTable.value ? tableRows(at, lines) : [];
  return (
    <figure class={`chart ${props.wide ? "wide" : ""}`} aria-label={title}>
      <figcaption>
        <div>
          <h2>{title}</h2>
          {says && <p class="says">{says}</p>}
        </div>
        {hasData && <button class="quiet" aria-pressed={isTable.value} onClick={() => { isTable.value = !isTable.value; }}>{isTable.value ? "Chart" : "Table"}</button>}
      </figcaption>
      {isTable.value
        ? (
          <div class="figures" tabIndex={0} role="region" aria-label={`${title}: figures`}>
            <table>
              <thead><tr><th scope="col">Time</th>{lines.map((line) => <th scope="col" class="n" key={line.label}>{line.label}</th>)}</tr></thead>
              <tbody>{rows.map(([time, values]) => <tr key={time}><th scope="row">{clockTime(time * 1000)}</th>{values.map((value, index) => <td class="n" key={index}>{value === null ? "–" : join(format(value))}</td>)}</tr>)}</tbody>
            </table>
          </div>
        )
        : <div class={`plot ${isLoaded ? "" : "skeleton"}`} ref={frame} style={{ height: `${height}px` }} role="img" aria-label={says ?? title}>
            {isLoaded && !hasData && <p class="nothing">{props.empty ?? "No values yet: the first ones come within seconds."}</p>}
            <div class="tip" ref={tip} hidden />
          </div>}
      {hasData && !isTable.value && lines.length > 1 && (
        <ul class="keys">{lines.map((line, index) => {
          const last = line.values.findLast((value) => value !== null);
          return <li key={line.label}><i style={{ background: line.color ?? colorOf(index) }} />{line.label} <b>{last === undefined || last === null ? "–" : join(format(last))}</b></li>;
        })}</ul>
      )}
    </figure>
  );
}

/** Half of a colour on a ground, opaque: areas of a stack lie on each other. */
function blend(color: string, ground: string): string {
  // The minifier shortens #ffffff.
  const long = (hex: string) => (hex.length === 4 ? hex.replace(/[0-9a-f]/gi, "$&$&") : hex);
  const channels = (hex: string) => [1, 3, 5].map((at) => parseInt(long(hex).slice(at, at + 2), 16));
  const [a, b] = [channels(color), channels(ground)];
  return `rgb(${a.map((value, index) => Math.round((value + b[index]!) / 2)).join(" ")})`;
}

/** At most sixty rows, newest first. */
function tableRows(at: readonly number[], lines: readonly Line[]): [number, (number | null)[]][] {
  const step = Math.max(1, Math.ceil(at.length / 60));
  const rows: [number, (number | null)[]][] = [];
  for (let index = at.length - 1; index >= 0; index -= step) rows.push([at[index]!, lines.map((line) => line.values[index] ?? null)]);
  return rows;
}

/** Names at the right end of the lines, moved apart where they would overlap; and the limit. */
function labels(self: uPlot, { lines, limit, format, stacked }: Props, order: (index: number) => number, color: (index: number) => string): void {
  const { ctx, bbox } = self;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  if (limit && limit.value <= (self.scales.y!.max ?? 0)) {
    const y = self.valToPos(limit.value, "y", true);
    ctx.strokeStyle = css("--warn");
    ctx.setLineDash([4 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.fillStyle = css("--warn");
    ctx.fillText(`${limit.label} ${join(format(limit.value))}`, bbox.left + 6 * ratio, y - 4 * ratio);
  }
  if (self.width >= NARROW && lines.length > 1) {
    const places = lines.map((_, index) => {
      const values = self.data[index + 1]!;
      let last = values.length - 1;
      while (last > 0 && (values[last] === null || values[last] === undefined)) last--;
      const top = values[last] ?? 0;
      const under = stacked ? (self.data[index + 2]?.[last] ?? 0) : top;
      return { index, y: self.valToPos(((top as number) + (under as number)) / 2, "y", true) };
    });
    places.sort((a, b) => b.y - a.y);
    let free = bbox.top + bbox.height;
    ctx.textBaseline = "middle";
    for (const place of places) {
      const y = Math.min(place.y, free - 7 * ratio);
      free = y - 7 * ratio;
      if (y < bbox.top - 4) break;
      const name = lines[order(place.index)]?.label ?? "";
      ctx.fillStyle = color(place.index);
      ctx.fillRect(bbox.left + bbox.width + 6 * ratio, y - 1 * ratio, 8 * ratio, 2 * ratio);
      ctx.fillStyle = css("--text-2");
      const values = lines[order(place.index)]!.values;
      const last = values.findLast((value) => value !== null && value !== undefined);
      const value = last === undefined || last === null ? "–" : join(format(last));
      const left = bbox.left + bbox.width + 18 * ratio;
      const room = ctx.canvas.width - left - 4 * ratio - ctx.measureText(` ${value}`).width;
      const shown = fit(ctx, name, room);
      ctx.fillText(shown, left, y);
      ctx.fillStyle = css("--text");
      ctx.fillText(value, left + ctx.measureText(`${shown} `).width, y);
    }
  }
  ctx.restore();
}

function fit(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  if (ctx.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 3 && ctx.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return `${text.slice(0, length)}…`;
}

/** What all lines are at the crosshair. */
function tell(self: uPlot, tip: HTMLDivElement | null, { lines, format }: Props): void {
  if (!tip) return;
  const { idx, left } = self.cursor;
  if (idx === null || idx === undefined || left === undefined || left < 0) { tip.hidden = true; return; }
  const rows = lines.map((line, index) => {
    const row = document.createElement("div");
    const mark = document.createElement("i");
    mark.style.background = line.color ?? colorOf(index);
    const value = document.createElement("b");
    const at = line.values[idx];
    value.textContent = at === null || at === undefined ? "–" : join(format(at));
    row.append(mark, line.label, " ", value);
    return row;
  });
  const head = document.createElement("time");
  head.textContent = clockTime(self.data[0][idx]! * 1000);
  tip.replaceChildren(head, ...rows);
  tip.hidden = false;
  const x = left + self.bbox.left / devicePixelRatio;
  tip.style.left = `${x > self.width - 200 ? Math.max(0, x - 210) : x}px`;
}
