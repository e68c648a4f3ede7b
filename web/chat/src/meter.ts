// Meter: what each byte of this connection costs, and what the same messages would have cost otherwise.
//
// Invariants  M1 sizes are of WebSocket messages with their frame headers (2 to 10 bytes); TCP and TLS are left out everywhere alike.
//             M2 what is computed here is computed by zlib and zstd themselves, from the very messages that came, in their order, with one
//             context per connection, as the node would. M3 what cannot be measured is called an estimate.
// Limits      QUEUE_MAX messages of QUEUE_BYTES_MAX bytes wait for the compressors; past it they are left out of both sides of the
//             comparison, and the page shows that. CONNECTIONS_MAX connections are remembered.

import { type Compressors, newCompressors } from "./compressors.ts";
import { type Codec, type Frame, note } from "./link.ts";
import { touch } from "./topics.ts";

const QUEUE_MAX = 2000;
const QUEUE_BYTES_MAX = 16 << 20;
const CONNECTIONS_MAX = 8;
const SECONDS = 90;

/** `zlib`, `zstd`, `alone`: what they make of `seen` of the raw bytes, as far as the page has got. */
export interface Tally { count: number; raw: number; received: number; seen: number; zlib: number; zstd: number; alone: number }
export interface Connection extends Tally {
  codec: Codec; startedAt: number; types: Map<string, Tally>;
  /** The browser compresses underneath and does not say to how much: what was received is an estimate. */
  isEstimate: boolean;
  /** Messages that the comparison leaves out. */
  skipped: number;
  compressors: Compressors | null;
}

export interface Second { at: number; raw: number; wire: number }

export const connections: Connection[] = [];
export const timeline: Second[] = [];
/** Of the whole time since the log-in: summaries of passive guilds, and the channels that they named. */
export const passive = { updates: 0, channels: 0 };

let queue: { connection: Connection; tally: Tally; raw: Uint8Array }[] = [];
let queueBytes = 0;
let isWorking = false;
/** Without the compressors the page still shows what was received. */
let isBroken = false;

export const current = (): Connection | undefined => connections.at(-1);
export const canCompare = (): boolean => !isBroken;

const emptyTally = (): Tally => ({ count: 0, raw: 0, received: 0, seen: 0, zlib: 0, zstd: 0, alone: 0 });

export function beginConnection(codec: Codec): void {
  const before = current();
  if (before) before.compressors = null;
  connections.push({ ...emptyTally(), codec, startedAt: Date.now(), types: new Map(), isEstimate: false, skipped: 0, compressors: null });
  if (connections.length > CONNECTIONS_MAX) connections.shift();
  queue = []; queueBytes = 0;
  touch("meter");
}

/** Of a message from the node: no mask. */
const framed = (bytes: number): number => bytes + (bytes < 126 ? 2 : bytes < 65_536 ? 4 : 10);

export function record(frame: Frame): void {
  const connection = current();
  if (!connection) return;
  const raw = framed(frame.raw.length);
  if (frame.wireBytes === null) connection.isEstimate = true;
  let tally = connection.types.get(frame.name);
  if (!tally) connection.types.set(frame.name, (tally = emptyTally()));
  for (const sum of [connection, tally]) { sum.count++; sum.raw += raw; sum.received += frame.wireBytes ?? 0; }
  const at = Math.floor(performance.now() / 1000);
  let second = timeline.at(-1);
  if (second?.at !== at) { timeline.push((second = { at, raw: 0, wire: 0 })); if (timeline.length > SECONDS) timeline.shift(); }
  second.raw += raw;
  second.wire += frame.wireBytes ?? (connection.seen ? raw * (connection.alone / connection.seen) : raw);
  if (!isBroken && queue.length < QUEUE_MAX && queueBytes + raw <= QUEUE_BYTES_MAX) { queue.push({ connection, tally, raw: frame.raw }); queueBytes += raw; }
  else connection.skipped++;
  schedule();
  changed();
}

/** A passive update stands for at least one message in each channel that it names. */
export function recordPassive(channels: number): void {
  passive.updates++; passive.channels += channels;
}

function schedule(): void {
  if (isWorking || isBroken) return;
  isWorking = true;
  const later = window.requestIdleCallback ?? ((run: (deadline: IdleDeadline) => void) => setTimeout(() => run({ timeRemaining: () => 8, didTimeout: false }), 50));
  later((deadline) => void work(deadline), { timeout: 1000 });
}

async function work(deadline: IdleDeadline): Promise<void> {
  const connection = current();
  try {
    if (connection && !connection.compressors) {
      // The first time it is fetched: the idle time is over when it is there.
      connection.compressors = await newCompressors();
      isWorking = false;
      return schedule();
    }
    do {
      const next = queue.shift();
      if (!next) break;
      queueBytes -= framed(next.raw.length);
      if (next.connection !== connection || !connection.compressors) continue;
      const sizes = connection.compressors.push(next.raw, connection.isEstimate);
      for (const sum of [connection, next.tally]) {
        sum.seen += framed(next.raw.length); sum.zlib += framed(sizes.zlib); sum.zstd += framed(sizes.zstd);
        if (connection.isEstimate) sum.alone += framed(sizes.alone);
      }
    } while (deadline.timeRemaining() > 3);
  } catch (error) {
    isBroken = true;
    queue = []; queueBytes = 0;
    note(`The meter cannot compare: ${error instanceof Error ? error.message : String(error)}`, "warn");
  }
  isWorking = false;
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

const scaled = (part: number, tally: Tally): number => (tally.seen ? (part / tally.seen) * tally.raw : NaN);
/** What was received on the wire; an estimate where the browser hides it. */
export const wireBytes = (tally: Tally, connection: Connection): number => (connection.isEstimate ? scaled(tally.alone, tally) : tally.received);
/** What zlib-stream (level 6, a sync flush for each message) makes of all of the bytes, from the share that it has seen. */
export const zlibBytes = (tally: Tally): number => scaled(tally.zlib, tally);
/** The same for zstd-stream with a context for each connection (level 6, window of 256 KiB). */
export const zstdBytes = (tally: Tally): number => scaled(tally.zstd, tally);

/** Events of one type in all connections of this page. */
export function ofType(name: string): { count: number; raw: number; wire: number } {
  const sum = { count: 0, raw: 0, wire: 0 };
  for (const connection of connections) {
    const tally = connection.types.get(name);
    if (!tally) continue;
    sum.count += tally.count; sum.raw += tally.raw;
    sum.wire += wireBytes(tally, connection) || 0;
  }
  return sum;
}

export function bytes(count: number): string {
  if (Number.isNaN(count)) return "…";
  if (count < 1000) return `${Math.round(count)}\u00a0B`;
  const [unit, divisor] = count < 1_000_000 ? ["kB", 1000] : ["MB", 1_000_000];
  const value = count / Number(divisor);
  return `${value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : Math.round(value)}\u00a0${unit}`;
}

export const exact = (count: number): string => (Number.isNaN(count) ? "" : `${Math.round(count).toLocaleString("en")} bytes`);
export const ratio = (raw: number, wire: number): string => (wire ? `${(raw / wire).toFixed(raw / wire < 10 ? 1 : 0)}\u00a0×` : "–");
