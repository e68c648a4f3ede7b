/** Encodings of payloads: JSON here, ETF in `etf.ts`. */

/** What every payload says about itself. */
export interface Envelope {
  readonly op: number;
  /** Sequence number of a dispatch. */
  readonly seq: number | null;
  /** Event name of a dispatch. */
  readonly name: string | null;
}

/** A decoded payload. */
export interface Payload extends Envelope {
  readonly d: unknown;
}

export interface Encoding {
  readonly name: "json" | "etf";
  /** The envelope of a dispatch, read without decoding the body; null if only `decode` can tell. */
  scan(data: string | Uint8Array): Envelope | null;
  /** Throws if the data is malformed. */
  decode(data: string | Uint8Array): Payload;
  encode(payload: { readonly op: number; readonly d: unknown }): string | Uint8Array;
}

const QUOTE = 0x22;
const ZERO = 0x30;
const NINE = 0x39;
const PREFIX = bytesOf('{"t":"');
const SEQ = bytesOf('","s":');
const DISPATCH = bytesOf(',"op":0,"d":');
const NAME_BYTES_MAX = 64;

function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

function isAt(data: Uint8Array, at: number, expected: Uint8Array): boolean {
  for (let i = 0; i < expected.length; i += 1) if (data[at + i] !== expected[i]) return false;
  return true;
}

/** Event names that were seen, by their bytes: a name is decoded once. */
export class Names {
  #known = new Map<number, string>();

  /** The ASCII text from `start` to `end`. */
  read(data: Uint8Array, start: number, end: number): string {
    let hash = end - start;
    for (let i = start; i < end; i += 1) hash = (Math.imul(hash, 31) + (data[i] as number)) | 0;
    const known = this.#known.get(hash);
    if (known !== undefined && this.#equals(known, data, start, end)) return known;
    let name = "";
    for (let i = start; i < end; i += 1) name += String.fromCharCode(data[i] as number);
    if (this.#known.size < 512) this.#known.set(hash, name);
    return name;
  }

  #equals(name: string, data: Uint8Array, start: number, end: number): boolean {
    if (name.length !== end - start) return false;
    for (let i = 0; i < name.length; i += 1) if (name.charCodeAt(i) !== data[start + i]) return false;
    return true;
  }
}

const names = new Names();

/** The gateway writes `{"t":"NAME","s":SEQ,"op":0,"d":…}`: reference.md §1.2. */
function scanBytes(data: Uint8Array): Envelope | null {
  if (!isAt(data, 0, PREFIX)) return null;
  const start = PREFIX.length;
  const last = Math.min(data.length, start + NAME_BYTES_MAX);
  let at = start;
  while (at < last && data[at] !== QUOTE) at += 1;
  if (!isAt(data, at, SEQ)) return null;
  const end = at;
  at += SEQ.length;
  let seq = 0;
  const digits = at;
  for (let byte = data[at] as number; byte >= ZERO && byte <= NINE; byte = data[at] as number) {
    seq = seq * 10 + byte - ZERO;
    at += 1;
  }
  if (at === digits || !isAt(data, at, DISPATCH)) return null;
  return { op: 0, seq, name: names.read(data, start, end) };
}

function scanText(data: string): Envelope | null {
  if (!data.startsWith('{"t":"')) return null;
  const end = data.indexOf('"', 6);
  if (end < 0 || !data.startsWith('","s":', end)) return null;
  const comma = data.indexOf(",", end + 6);
  if (comma < 0 || !data.startsWith(',"op":0,"d":', comma)) return null;
  const digits = data.slice(end + 6, comma);
  return /^[0-9]+$/.test(digits) ? { op: 0, seq: Number(digits), name: data.slice(6, end) } : null;
}

const decoder = new TextDecoder();
const { Buffer: NodeBuffer } = globalThis as { Buffer?: typeof Buffer };

/** UTF-8 to text. Node's `Buffer` is the faster of the two for all sizes. */
export function textOf(bytes: Uint8Array): string {
  if (NodeBuffer === undefined) return decoder.decode(bytes);
  return bytes instanceof NodeBuffer ? bytes.toString() : NodeBuffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
}

/** Checks the shape of a decoded payload. */
export function payloadOf(value: unknown): Payload {
  const { op, d, s, t } = (value ?? {}) as { op?: unknown; d?: unknown; s?: unknown; t?: unknown };
  if (typeof op !== "number") throw new TypeError("the payload has no opcode");
  return { op, d, seq: typeof s === "number" ? s : null, name: typeof t === "string" ? t : null };
}

export const json: Encoding = {
  name: "json",
  scan: (data) => (typeof data === "string" ? scanText(data) : scanBytes(data)),
  decode: (data) => payloadOf(JSON.parse(typeof data === "string" ? data : textOf(data))),
  encode: (payload) => JSON.stringify(payload),
};

/** Length of `text` in UTF-8. */
export function utf8Bytes(text: string): number {
  if (NodeBuffer !== undefined) return NodeBuffer.byteLength(text);
  let bytes = text.length;
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) continue;
    // A surrogate is half of four bytes, so each half adds one to its own.
    bytes += unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 1 : 2;
  }
  return bytes;
}
