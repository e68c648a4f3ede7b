/**
 * Erlang external term format. Spec: docs/protocol/reference.md §2.2.
 *
 * Invariants  ids are strings, as in JSON: a number of more than 53 bits becomes one, and so does a smaller one under a
 *             key that ends in `id` or lists ids. Length fields are checked before anything is allocated.
 * Limits      nesting: `DEPTH_MAX`.
 */
import { Names, payloadOf, textOf } from "./encoding.js";
const DEPTH_MAX = 256;
const TAG = {
    version: 131, newFloat: 70, smallInteger: 97, integer: 98, float: 99, atom: 100, smallTuple: 104, largeTuple: 105, nil: 106,
    string: 107, list: 108, binary: 109, smallBig: 110, largeBig: 111, smallAtom: 115, map: 116, atomUtf8: 118, smallAtomUtf8: 119,
};
const names = new Names();
/** Keys whose numbers are ids. */
function isIdKey(key) {
    return key === "id" || key.endsWith("_id") || key.endsWith("_ids") || key === "roles" || key === "mention_roles" || key === "ids";
}
/**
 * A key that was seen, with the keys that came after it. Maps of one kind have the same keys in the same order, so a key
 * is mostly found by comparing it with the one that followed its predecessor the last time.
 */
class Key {
    name;
    isId;
    /** Key after this one in the same map. */
    next = null;
    /** First key of the map that is this key's value. */
    first = null;
    constructor(name) {
        this.name = name;
        this.isId = isIdKey(name);
    }
}
const KEYS_MAX = 4096;
const keys = new Map();
const root = new Key("");
const other = new Key("");
function keyOf(name) {
    let key = keys.get(name);
    if (!key) {
        key = new Key(name);
        // Maps with ids as keys must not fill the table.
        if (keys.size < KEYS_MAX)
            keys.set(name, key);
    }
    return key;
}
// The reader's state. Decoding is synchronous, and one term is read at a time; fields of an object would cost a third more.
let data = new Uint8Array();
let view = new DataView(data.buffer);
let buffer = null;
let at = 0;
let depth = 0;
const { Buffer: NodeBuffer } = globalThis;
function read(bytes) {
    data = bytes;
    view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (NodeBuffer !== undefined)
        buffer = bytes instanceof NodeBuffer ? bytes : NodeBuffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    at = 1;
    depth = 0;
    try {
        if (bytes[0] !== TAG.version)
            throw new Error("not a term: it does not begin with 131");
        const value = term(root);
        if (at !== bytes.length)
            throw new Error("bytes follow the term");
        return value;
    }
    finally {
        // The message may be large; nothing keeps it.
        data = EMPTY;
        buffer = null;
    }
}
const EMPTY = data;
/** Position of the next `bytes` bytes; moves behind them. */
function need(bytes) {
    const start = at;
    at += bytes;
    if (at > data.length)
        throw new Error("the term is cut off");
    return start;
}
/** A value under `key`. */
function term(key) {
    const tag = data[at];
    at += 1;
    switch (tag) {
        case TAG.binary:
            return text(view.getUint32(need(4)));
        case TAG.smallInteger: {
            const value = data[need(1)];
            return key.isId ? String(value) : value;
        }
        case TAG.atom:
        case TAG.atomUtf8:
            return atom(view.getUint16(need(2)));
        case TAG.smallBig:
            return big(data[need(1)], key.isId);
        case TAG.map:
            return map(view.getUint32(need(4)), key);
        case TAG.list: {
            const list = items(view.getUint32(need(4)), key);
            if (data[need(1)] !== TAG.nil)
                throw new Error("a list with a tail");
            return list;
        }
        case TAG.nil:
            return [];
        case TAG.integer: {
            const value = view.getInt32(need(4));
            return key.isId ? String(value) : value;
        }
        case TAG.smallAtom:
        case TAG.smallAtomUtf8:
            return atom(data[need(1)]);
        case TAG.newFloat:
            return view.getFloat64(need(8));
        case TAG.largeBig:
            return big(view.getUint32(need(4)), key.isId);
        case TAG.string: {
            const start = need(view.getUint16(need(2)));
            return Array.from(data.subarray(start, at), (value) => (key.isId ? String(value) : value));
        }
        case TAG.float:
            return Number.parseFloat(ascii(need(31)).replace(/\0+$/, ""));
        case TAG.smallTuple:
            return items(data[need(1)], key);
        case TAG.largeTuple:
            return items(view.getUint32(need(4)), key);
        default:
            throw new Error(tag === undefined ? "the term is cut off" : `tag ${tag} is not known`);
    }
}
function enter() {
    depth += 1;
    if (depth > DEPTH_MAX)
        throw new Error("the term is nested too deeply");
}
function map(size, parent) {
    // A pair has two bytes at least.
    if (size * 2 > data.length - at)
        throw new Error("the term is cut off");
    enter();
    const out = {};
    let last = null;
    for (let i = 0; i < size; i += 1) {
        const expected = last === null ? parent.first : last.next;
        const key = nextKey(expected);
        if (key !== expected) {
            if (last === null)
                parent.first = key;
            else
                last.next = key;
        }
        const value = term(key);
        if (key.name === "__proto__")
            Object.defineProperty(out, key.name, { value, enumerable: true, configurable: true, writable: true });
        else
            out[key.name] = value;
        last = key;
    }
    depth -= 1;
    return out;
}
function nextKey(expected) {
    const tag = data[at];
    if (tag === TAG.atom) {
        at += 1;
        const length = view.getUint16(need(2));
        const start = need(length);
        if (expected !== null && isText(expected.name, start, length))
            return expected;
        return keyOf(names.read(data, start, at));
    }
    if (tag === TAG.binary) {
        at += 1;
        return keyOf(text(view.getUint32(need(4))));
    }
    return keyOf(String(term(other)));
}
function isText(expected, start, length) {
    if (expected.length !== length)
        return false;
    for (let i = 0; i < length; i += 1)
        if (expected.charCodeAt(i) !== data[start + i])
            return false;
    return true;
}
function items(size, key) {
    if (size > data.length - at)
        throw new Error("the term is cut off");
    enter();
    const out = [];
    for (let i = 0; i < size; i += 1)
        out.push(term(key));
    depth -= 1;
    return out;
}
const NIL = 0x6e696c;
function atom(length) {
    const start = need(length);
    if (length === 3 && ((data[start] << 16) | (data[start + 1] << 8) | data[start + 2]) === NIL)
        return null;
    const name = names.read(data, start, at);
    if (name === "true")
        return true;
    if (name === "false")
        return false;
    return name === "null" || name === "undefined" ? null : name;
}
/** Up to this length a text is cheaper to build than to hand over to the runtime. */
const SHORT_TEXT = NodeBuffer === undefined ? 32 : 10;
function text(length) {
    const start = need(length);
    if (length > SHORT_TEXT)
        return buffer !== null ? buffer.toString("utf8", start, at) : textOf(data.subarray(start, at));
    let out = "";
    for (let i = start; i < at; i += 1) {
        const byte = data[i];
        if (byte > 0x7f)
            return textOf(data.subarray(start, at));
        out += String.fromCharCode(byte);
    }
    return out;
}
function ascii(start) {
    return String.fromCharCode(...data.subarray(start, at));
}
function big(length, isId) {
    if (length > 8)
        throw new Error("an integer of more than 64 bits");
    const isMinus = data[need(1)] !== 0;
    const start = need(length);
    let low = 0;
    let high = 0;
    if (length === 8) {
        low = view.getUint32(start, true);
        high = view.getUint32(start + 4, true);
    }
    else {
        for (let i = 0; i < length; i += 1) {
            const byte = data[start + i];
            if (i < 4)
                low += byte * 2 ** (8 * i);
            else
                high += byte * 2 ** (8 * (i - 4));
        }
    }
    const minus = isMinus ? "-" : "";
    if (high < 0x20_0000) {
        const value = high * 0x1_0000_0000 + low;
        return isId ? minus + value : isMinus ? -value : value;
    }
    return minus + decimal(high, low);
}
const TEN_9 = 1_000_000_000;
/** `high` × 2³² + `low` in decimal, in two divisions by 10⁹ instead of a BigInt. */
function decimal(high, low) {
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
    return rest >= 100_000_000 ? `${quotient}${rest}` : quotient + String(rest).padStart(9, "0");
}
/** The envelope is at the end: `… op, OP, s, SEQ, t, NAME`, in the order of the keys. */
function scan(data) {
    if (typeof data === "string")
        return null;
    const size = data.length;
    // t: 100 0 1 "t" 100 0 LENGTH NAME
    for (let length = 1; length <= 64; length += 1) {
        const at = size - length - 7;
        if (at < 8)
            return null;
        if (data[at + 6] !== length || data[at + 5] !== 0 || data[at + 4] !== TAG.atom || data[at + 3] !== 0x74)
            continue;
        if (data[at + 2] !== 1 || data[at + 1] !== 0 || data[at] !== TAG.atom)
            continue;
        const seqAndOp = seqBefore(data, at);
        if (!seqAndOp)
            return null;
        return { op: 0, seq: seqAndOp, name: names.read(data, size - length, size) };
    }
    return null;
}
/** The sequence number that ends at `end`, if `op` 0 is in front of it. */
function seqBefore(data, end) {
    let seq;
    let at;
    if (data[end - 2] === TAG.smallInteger && isKey(data, end - 2, 0x73)) {
        seq = data[end - 1];
        at = end - 6;
    }
    else if (data[end - 5] === TAG.integer && isKey(data, end - 5, 0x73)) {
        seq = (data[end - 4] << 24) | (data[end - 3] << 16) | (data[end - 2] << 8) | data[end - 1];
        at = end - 9;
    }
    else {
        return null;
    }
    // op: 100 0 2 "op" 97 0
    const isDispatch = data[at - 1] === 0 && data[at - 2] === TAG.smallInteger && data[at - 3] === 0x70 && data[at - 4] === 0x6f && data[at - 5] === 2;
    return isDispatch ? seq : null;
}
/** The one-letter atom `letter` ends at `end`. */
function isKey(data, end, letter) {
    return data[end - 1] === letter && data[end - 2] === 1 && data[end - 3] === 0 && data[end - 4] === TAG.atom;
}
const encoder = new TextEncoder();
class Writer {
    #out = new Uint8Array(512);
    #at = 0;
    document(value) {
        this.#byte(TAG.version);
        this.#term(value);
        return this.#out.slice(0, this.#at);
    }
    #room(bytes) {
        if (this.#at + bytes <= this.#out.length)
            return;
        const out = new Uint8Array(Math.max(this.#out.length * 2, this.#at + bytes));
        out.set(this.#out);
        this.#out = out;
    }
    #byte(value) {
        this.#room(1);
        this.#out[this.#at++] = value;
    }
    #u32(value) {
        for (const shift of [24, 16, 8, 0])
            this.#byte((value >>> shift) & 0xff);
    }
    #bytes(bytes) {
        this.#room(bytes.length);
        this.#out.set(bytes, this.#at);
        this.#at += bytes.length;
    }
    #atom(name) {
        this.#byte(TAG.atom);
        this.#byte(0);
        this.#byte(name.length);
        this.#bytes(encoder.encode(name));
    }
    #text(text) {
        const bytes = encoder.encode(text);
        this.#byte(TAG.binary);
        this.#u32(bytes.length);
        this.#bytes(bytes);
    }
    #number(value) {
        if (!Number.isInteger(value) || Math.abs(value) > Number.MAX_SAFE_INTEGER) {
            this.#byte(TAG.newFloat);
            const bytes = new Uint8Array(8);
            new DataView(bytes.buffer).setFloat64(0, value);
            this.#bytes(bytes);
        }
        else if (value >= 0 && value < 256) {
            this.#byte(TAG.smallInteger);
            this.#byte(value);
        }
        else if (value >= -0x8000_0000 && value < 0x8000_0000) {
            this.#byte(TAG.integer);
            this.#u32(value >>> 0);
        }
        else {
            const digits = [];
            for (let rest = Math.abs(value); rest > 0; rest = Math.floor(rest / 256))
                digits.push(rest % 256);
            this.#byte(TAG.smallBig);
            this.#byte(digits.length);
            this.#byte(value < 0 ? 1 : 0);
            this.#bytes(Uint8Array.from(digits));
        }
    }
    #term(value) {
        if (value === null || value === undefined)
            this.#atom("nil");
        else if (typeof value === "boolean")
            this.#atom(String(value));
        else if (typeof value === "number")
            this.#number(value);
        else if (typeof value === "string")
            this.#text(value);
        else if (Array.isArray(value)) {
            if (value.length > 0) {
                this.#byte(TAG.list);
                this.#u32(value.length);
                for (const item of value)
                    this.#term(item);
            }
            this.#byte(TAG.nil);
        }
        else {
            const pairs = Object.entries(value).filter(([, of]) => of !== undefined);
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
export const etf = {
    name: "etf",
    scan,
    decode: (bytes) => {
        if (typeof bytes === "string")
            throw new Error("text instead of bytes");
        return payloadOf(read(bytes));
    },
    encode: (payload) => new Writer().document(payload),
};
