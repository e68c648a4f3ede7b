/**
 * Erlang external term format. Spec: docs/protocol/reference.md §2.2.
 *
 * Invariants  ids are strings, as in JSON: a number of more than 53 bits becomes one, and so does a smaller one under a
 *             key that ends in `id` or lists ids. Length fields are checked before anything is allocated.
 * Limits      nesting: `DEPTH_MAX`.
 */

import { Names, payloadOf, textOf, type Encoding, type Envelope } from "./encoding.js";

const DEPTH_MAX = 256;
const TAG = {
  version: 131, newFloat: 70, smallInteger: 97, integer: 98, float: 99, atom: 100, smallTuple: 104, largeTuple: 105, nil: 106,
  string: 107, list: 108, binary: 109, smallBig: 110, largeBig: 111, smallAtom: 115, map: 116, atomUtf8: 118, smallAtomUtf8: 119,
} as const;

const names = new Names();

/** Keys whose numbers are ids. */
function isIdKey(key: string): boolean {
  return key === "id" || key.endsWith("_id") || key.endsWith("_ids") || key === "roles" || key === "mention_roles" || key === "ids";
}

/** Cached answer of `isIdKey`. */
const idKeys = new Map<string, boolean>();

function isId(key: string): boolean {
  let known = idKeys.get(key);
  if (known === undefined) {
    known = isIdKey(key);
    if (idKeys.size < 4096) idKeys.set(key, known);
  }
  return known;
}

class Reader {
  #data: Uint8Array;
  #view: DataView;
  #at = 0;
  #depth = 0;

  constructor(data: Uint8Array) {
    this.#data = data;
    this.#view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  }

  document(): unknown {
    if (this.#data[0] !== TAG.version) throw new Error("not a term: it does not begin with 131");
    this.#at = 1;
    const term = this.#term(false);
    if (this.#at !== this.#data.length) throw new Error("bytes follow the term");
    return term;
  }

  /** `isIds`: numbers are ids. */
  #term(isIds: boolean): unknown {
    const data = this.#data;
    const tag = data[this.#at] as number;
    this.#at += 1;
    switch (tag) {
      case TAG.smallInteger: {
        const value = data[this.#need(1)] as number;
        return isIds ? String(value) : value;
      }
      case TAG.integer: {
        const value = this.#view.getInt32(this.#need(4));
        return isIds ? String(value) : value;
      }
      case TAG.binary:
        return this.#text(this.#view.getUint32(this.#need(4)));
      case TAG.smallBig:
        return this.#big(data[this.#need(1)] as number, isIds);
      case TAG.largeBig:
        return this.#big(this.#view.getUint32(this.#need(4)), isIds);
      case TAG.atom:
      case TAG.atomUtf8:
        return this.#atom(this.#view.getUint16(this.#need(2)));
      case TAG.smallAtom:
      case TAG.smallAtomUtf8:
        return this.#atom(data[this.#need(1)] as number);
      case TAG.map:
        return this.#map(this.#view.getUint32(this.#need(4)));
      case TAG.list: {
        const list = this.#items(this.#view.getUint32(this.#need(4)), isIds);
        if (data[this.#need(1)] !== TAG.nil) throw new Error("a list with a tail");
        return list;
      }
      case TAG.nil:
        return [];
      case TAG.newFloat:
        return this.#view.getFloat64(this.#need(8));
      case TAG.string: {
        const length = this.#view.getUint16(this.#need(2));
        return Array.from(data.subarray(this.#need(length), this.#at), (value) => (isIds ? String(value) : value));
      }
      case TAG.float:
        return Number.parseFloat(this.#ascii(31));
      case TAG.smallTuple:
        return this.#items(data[this.#need(1)] as number, isIds);
      case TAG.largeTuple:
        return this.#items(this.#view.getUint32(this.#need(4)), isIds);
      default:
        throw new Error(tag === undefined ? "the term is cut off" : `tag ${tag} is not known`);
    }
  }

  /** Position of the next `bytes` bytes; moves behind them. */
  #need(bytes: number): number {
    const at = this.#at;
    if (at + bytes > this.#data.length) throw new Error("the term is cut off");
    this.#at = at + bytes;
    return at;
  }

  #enter(): void {
    this.#depth += 1;
    if (this.#depth > DEPTH_MAX) throw new Error("the term is nested too deeply");
  }

  #map(size: number): { [key: string]: unknown } {
    // A pair has two bytes at least.
    if (size * 2 > this.#data.length - this.#at) throw new Error("the term is cut off");
    this.#enter();
    const map: { [key: string]: unknown } = {};
    for (let i = 0; i < size; i += 1) {
      const key = this.#key();
      const value = this.#term(isId(key));
      if (key === "__proto__") Object.defineProperty(map, key, { value, enumerable: true, configurable: true, writable: true });
      else map[key] = value;
    }
    this.#depth -= 1;
    return map;
  }

  #key(): string {
    const tag = this.#data[this.#at];
    if (tag === TAG.atom) {
      this.#at += 1;
      const length = this.#view.getUint16(this.#need(2));
      const start = this.#need(length);
      return names.read(this.#data, start, this.#at);
    }
    if (tag === TAG.binary) {
      this.#at += 1;
      return this.#text(this.#view.getUint32(this.#need(4)));
    }
    return String(this.#term(false));
  }

  #items(size: number, isIds: boolean): unknown[] {
    if (size > this.#data.length - this.#at) throw new Error("the term is cut off");
    this.#enter();
    const items: unknown[] = [];
    for (let i = 0; i < size; i += 1) items.push(this.#term(isIds));
    this.#depth -= 1;
    return items;
  }

  #atom(length: number): unknown {
    const data = this.#data;
    const start = this.#need(length);
    if (length === 3 && data[start] === 0x6e && data[start + 1] === 0x69 && data[start + 2] === 0x6c) return null;
    const name = names.read(data, start, this.#at);
    if (name === "true") return true;
    if (name === "false") return false;
    return name === "null" || name === "undefined" ? null : name;
  }

  #text(length: number): string {
    const start = this.#need(length);
    const data = this.#data;
    if (length <= 24) {
      // Short texts are mostly ASCII, and cheaper to build than to hand over.
      let text = "";
      for (let i = start; i < this.#at; i += 1) {
        const byte = data[i] as number;
        if (byte > 0x7f) return textOf(data.subarray(start, this.#at));
        text += String.fromCharCode(byte);
      }
      return text;
    }
    return textOf(data.subarray(start, this.#at));
  }

  #ascii(length: number): string {
    const start = this.#need(length);
    return String.fromCharCode(...this.#data.subarray(start, this.#at)).replace(/\0+$/, "");
  }

  #big(length: number, isIds: boolean): string | number {
    if (length > 8) throw new Error("an integer of more than 64 bits");
    const sign = this.#data[this.#need(1)] as number;
    const start = this.#need(length);
    let low = 0;
    let high = 0;
    for (let i = 0; i < length; i += 1) {
      const byte = this.#data[start + i] as number;
      if (i < 4) low += byte * 2 ** (8 * i);
      else high += byte * 2 ** (8 * (i - 4));
    }
    const minus = sign === 0 ? "" : "-";
    if (high < 0x20_0000) {
      const value = high * 0x1_0000_0000 + low;
      return isIds ? minus + value : sign === 0 ? value : -value;
    }
    return minus + decimal(high, low);
  }
}

const TEN_9 = 1_000_000_000;

/** `high` × 2³² + `low` in decimal, in two divisions by 10⁹ instead of a BigInt. */
function decimal(high: number, low: number): string {
  // high = a × 10⁹ + b, and b × 2³² + low < 2⁶² needs a second step in halves of 16 bits.
  const a = Math.floor(high / TEN_9);
  let rest = high - a * TEN_9;
  let value = rest * 65_536 + (low >>> 16);
  const q1 = Math.floor(value / TEN_9);
  rest = value - q1 * TEN_9;
  value = rest * 65_536 + (low & 0xffff);
  const q0 = Math.floor(value / TEN_9);
  rest = value - q0 * TEN_9;
  const quotient = a * 0x1_0000_0000 + q1 * 65_536 + q0;
  return `${quotient}${String(rest).padStart(9, "0")}`;
}

/** The envelope is at the end: `… op, OP, s, SEQ, t, NAME`, in the order of the keys. */
function scan(data: string | Uint8Array): Envelope | null {
  if (typeof data === "string") return null;
  const size = data.length;
  // t: 100 0 1 "t" 100 0 LENGTH NAME
  for (let length = 1; length <= 64; length += 1) {
    const at = size - length - 7;
    if (at < 8) return null;
    if (data[at + 6] !== length || data[at + 5] !== 0 || data[at + 4] !== TAG.atom || data[at + 3] !== 0x74) continue;
    if (data[at + 2] !== 1 || data[at + 1] !== 0 || data[at] !== TAG.atom) continue;
    const seqAndOp = seqBefore(data, at);
    if (!seqAndOp) return null;
    return { op: 0, seq: seqAndOp, name: names.read(data, size - length, size) };
  }
  return null;
}

/** The sequence number that ends at `end`, if `op` 0 is in front of it. */
function seqBefore(data: Uint8Array, end: number): number | null {
  let seq: number;
  let at: number;
  if (data[end - 2] === TAG.smallInteger && isKey(data, end - 2, 0x73)) {
    seq = data[end - 1] as number;
    at = end - 6;
  } else if (data[end - 5] === TAG.integer && isKey(data, end - 5, 0x73)) {
    seq = ((data[end - 4] as number) << 24) | ((data[end - 3] as number) << 16) | ((data[end - 2] as number) << 8) | (data[end - 1] as number);
    at = end - 9;
  } else {
    return null;
  }
  // op: 100 0 2 "op" 97 0
  const isDispatch =
    data[at - 1] === 0 && data[at - 2] === TAG.smallInteger && data[at - 3] === 0x70 && data[at - 4] === 0x6f && data[at - 5] === 2;
  return isDispatch ? seq : null;
}

/** The one-letter atom `letter` ends at `end`. */
function isKey(data: Uint8Array, end: number, letter: number): boolean {
  return data[end - 1] === letter && data[end - 2] === 1 && data[end - 3] === 0 && data[end - 4] === TAG.atom;
}

const encoder = new TextEncoder();

class Writer {
  #out = new Uint8Array(512);
  #at = 0;

  document(value: unknown): Uint8Array {
    this.#byte(TAG.version);
    this.#term(value);
    return this.#out.slice(0, this.#at);
  }

  #room(bytes: number): void {
    if (this.#at + bytes <= this.#out.length) return;
    const out = new Uint8Array(Math.max(this.#out.length * 2, this.#at + bytes));
    out.set(this.#out);
    this.#out = out;
  }

  #byte(value: number): void {
    this.#room(1);
    this.#out[this.#at++] = value;
  }

  #u32(value: number): void {
    for (const shift of [24, 16, 8, 0]) this.#byte((value >>> shift) & 0xff);
  }

  #bytes(bytes: Uint8Array): void {
    this.#room(bytes.length);
    this.#out.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  #atom(name: string): void {
    this.#byte(TAG.atom);
    this.#byte(0);
    this.#byte(name.length);
    this.#bytes(encoder.encode(name));
  }

  #text(text: string): void {
    const bytes = encoder.encode(text);
    this.#byte(TAG.binary);
    this.#u32(bytes.length);
    this.#bytes(bytes);
  }

  #number(value: number): void {
    if (!Number.isInteger(value) || Math.abs(value) > Number.MAX_SAFE_INTEGER) {
      this.#byte(TAG.newFloat);
      const bytes = new Uint8Array(8);
      new DataView(bytes.buffer).setFloat64(0, value);
      this.#bytes(bytes);
    } else if (value >= 0 && value < 256) {
      this.#byte(TAG.smallInteger);
      this.#byte(value);
    } else if (value >= -0x8000_0000 && value < 0x8000_0000) {
      this.#byte(TAG.integer);
      this.#u32(value >>> 0);
    } else {
      const digits: number[] = [];
      for (let rest = Math.abs(value); rest > 0; rest = Math.floor(rest / 256)) digits.push(rest % 256);
      this.#byte(TAG.smallBig);
      this.#byte(digits.length);
      this.#byte(value < 0 ? 1 : 0);
      this.#bytes(Uint8Array.from(digits));
    }
  }

  #term(value: unknown): void {
    if (value === null || value === undefined) this.#atom("nil");
    else if (typeof value === "boolean") this.#atom(String(value));
    else if (typeof value === "number") this.#number(value);
    else if (typeof value === "string") this.#text(value);
    else if (Array.isArray(value)) {
      if (value.length > 0) {
        this.#byte(TAG.list);
        this.#u32(value.length);
        for (const item of value) this.#term(item);
      }
      this.#byte(TAG.nil);
    } else {
      const pairs = Object.entries(value as object).filter(([, of]) => of !== undefined);
      this.#byte(TAG.map);
      this.#u32(pairs.length);
      // The gateway refuses maps with atoms as keys.
      for (const [key, of] of pairs) {
        this.#text(key);
        this.#term(of);
      }
    }
  }
}

export const etf: Encoding = {
  name: "etf",
  scan,
  decode: (data) => {
    if (typeof data === "string") throw new Error("text instead of bytes");
    return payloadOf(new Reader(data).document());
  },
  encode: (payload) => new Writer().document(payload),
};
