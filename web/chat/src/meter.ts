// Meter: what each byte of this connection costs, and what the same messages would have cost otherwise.
//
// Invariants  M1 sizes are of WebSocket messages with their frame headers (2 to 10 bytes); TCP and TLS are left out everywhere alike.
//             M2 what is computed here is computed from the very messages that came, in their order, with one context per connection, as
//             the node would. M3 what cannot be measured is called an estimate.
// Limits      QUEUE_MAX messages wait for the compressor; past it they are left out of both sides of that comparison, and the page says so.

import { deflateSync, Zlib } from "fflate";
import type { Codec, Frame } from "./link.ts";
import { touch } from "./topics.ts";

const QUEUE_MAX = 2000;
const CONNECTIONS_MAX = 8;
const SECONDS = 90;

/** `zlib`: what zlib-stream makes of `zlibOf` of the raw bytes, as far as the page has got. */
export interface Tally { count: number; raw: number; wire: number; zlib: number; zlibOf: number }
export interface Connection extends Tally {
  codec: Codec; startedAt: number; types: Map<string, Tally>;
  /** The browser compresses underneath and does not say to how much: `wire` is an estimate. */
  isEstimate: boolean;
  /** Messages that the comparison leaves out. */
  skipped: number;
}

export interface Second { at: number; raw: number; wire: number }

export const connections: Connection[] = [];
export const timeline: Second[] = [];
/** Of the whole time since the log-in. */
export const passive = { updates: 0, bytes: 0, moved: 0 };
export const startedAt = performance.now();

let deflate: Zlib | null = null;
let queue: { connection: Connection; tally: Tally; raw: Uint8Array }[] = [];
let isWorking = false;
let out = 0;

export const current = (): Connection | undefined => connections.at(-1);

export function beginConnection(codec: Codec): void {
  connections.push({ codec, startedAt: Date.now(), count: 0, raw: 0, wire: 0, types: new Map(), zlib: 0, zlibOf: 0, isEstimate: false, skipped: 0 });
  if (connections.length > CONNECTIONS_MAX) connections.shift();
  queue = [];
  deflate = null;
  touch("meter");
}

/** Of a message from the node: no mask. */
const framed = (bytes: number): number => bytes + (bytes < 126 ? 2 : bytes < 65_536 ? 4 : 10);

/** Counts a message; returns its bytes on the wire. */
export function record(frame: Frame): number {
  const connection = current();
  if (!connection) return 0;
  const raw = framed(frame.raw.length);
  if (frame.wireBytes === null) connection.isEstimate = true;
  const wire = frame.wireBytes ?? framed(Math.min(frame.raw.length, deflateSync(frame.raw, { level: 6 }).length));
  let tally = connection.types.get(frame.name);
  if (!tally) connection.types.set(frame.name, (tally = { count: 0, raw: 0, wire: 0, zlib: 0, zlibOf: 0 }));
  for (const sum of [connection, tally]) { sum.count++; sum.raw += raw; sum.wire += wire; }
  const at = Math.floor(performance.now() / 1000);
  let second = timeline.at(-1);
  if (second?.at !== at) { timeline.push((second = { at, raw: 0, wire: 0 })); if (timeline.length > SECONDS) timeline.shift(); }
  second.raw += raw; second.wire += wire;
  if (queue.length < QUEUE_MAX) queue.push({ connection, tally, raw: frame.raw });
  else connection.skipped++;
  schedule();
  changed();
  return wire;
}

/** A passive update stands for at least one message in each channel that it names. */
export function recordPassive(bytes: number, channels: number): void {
  passive.updates++; passive.bytes += bytes; passive.moved += channels;
}

function schedule(): void {
  if (isWorking) return;
  isWorking = true;
  const later = window.requestIdleCallback ?? ((work: (deadline: IdleDeadline) => void) => setTimeout(() => work({ timeRemaining: () => 8, didTimeout: false }), 50));
  later(work, { timeout: 1000 });
}

function work(deadline: IdleDeadline): void {
  isWorking = false;
  do {
    const next = queue.shift();
    if (!next) break;
    if (next.connection !== current()) continue;
    if (!deflate) deflate = new Zlib({ level: 6 }, (chunk) => { out += chunk.length; });
    out = 0;
    deflate.push(next.raw);
    deflate.flush(true);
    for (const sum of [next.connection, next.tally]) { sum.zlib += framed(out); sum.zlibOf += framed(next.raw.length); }
  } while (deadline.timeRemaining() > 3);
  if (queue.length > 0) schedule();
  changed();
}

let isTold = false;
/** At most four times a second. */
function changed(): void {
  if (isTold) return;
  isTold = true;
  setTimeout(() => { isTold = false; touch("meter"); }, 250);
}

/** What zlib-stream (level 6, a sync flush for each message) makes of all of the bytes, from the share that it has seen. */
export const zlibBytes = (tally: Tally): number => (tally.zlibOf ? (tally.zlib / tally.zlibOf) * tally.raw : 0);

export function bytes(count: number): string {
  if (count < 1000) return `${Math.round(count)} B`;
  const [unit, divisor] = count < 1_000_000 ? ["kB", 1000] : ["MB", 1_000_000];
  const value = count / Number(divisor);
  return `${value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : Math.round(value)} ${unit}`;
}

export const exact = (count: number): string => `${Math.round(count).toLocaleString("en")} bytes`;
export const ratio = (raw: number, wire: number): string => (wire ? `${(raw / wire).toFixed(raw / wire < 10 ? 1 : 0)} ×` : "–");
