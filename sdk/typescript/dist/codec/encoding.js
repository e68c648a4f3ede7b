/** Encodings of payloads: JSON here, ETF in `etf.ts`. */
const QUOTE = 0x22;
const ZERO = 0x30;
const NINE = 0x39;
const PREFIX = bytesOf('{"t":"');
const SEQ = bytesOf('","s":');
const DISPATCH = bytesOf(',"op":0,"d":');
const NAME_BYTES_MAX = 64;
function bytesOf(text) {
    return Uint8Array.from(text, (character) => character.charCodeAt(0));
}
function isAt(data, at, expected) {
    for (let i = 0; i < expected.length; i += 1)
        if (data[at + i] !== expected[i])
            return false;
    return true;
}
/** Event names that were seen, by their bytes: a name is decoded once. */
export class Names {
    #known = new Map();
    /** The ASCII text from `start` to `end`. */
    read(data, start, end) {
        let hash = end - start;
        for (let i = start; i < end; i += 1)
            hash = (Math.imul(hash, 31) + data[i]) | 0;
        const known = this.#known.get(hash);
        if (known !== undefined && this.#equals(known, data, start, end))
            return known;
        let name = "";
        for (let i = start; i < end; i += 1)
            name += String.fromCharCode(data[i]);
        if (this.#known.size < 512)
            this.#known.set(hash, name);
        return name;
    }
    #equals(name, data, start, end) {
        if (name.length !== end - start)
            return false;
        for (let i = 0; i < name.length; i += 1)
            if (name.charCodeAt(i) !== data[start + i])
                return false;
        return true;
    }
}
const names = new Names();
/** The gateway writes `{"t":"NAME","s":SEQ,"op":0,"d":…}`: reference.md §1.2. */
function scanBytes(data) {
    if (!isAt(data, 0, PREFIX))
        return null;
    const start = PREFIX.length;
    const last = Math.min(data.length, start + NAME_BYTES_MAX);
    let at = start;
    while (at < last && data[at] !== QUOTE)
        at += 1;
    if (!isAt(data, at, SEQ))
        return null;
    const end = at;
    at += SEQ.length;
    let seq = 0;
    const digits = at;
    for (let byte = data[at]; byte >= ZERO && byte <= NINE; byte = data[at]) {
        seq = seq * 10 + byte - ZERO;
        at += 1;
    }
    if (at === digits || !isAt(data, at, DISPATCH))
        return null;
    return { op: 0, seq, name: names.read(data, start, end) };
}
function scanText(data) {
    if (!data.startsWith('{"t":"'))
        return null;
    const end = data.indexOf('"', 6);
    if (end < 0 || !data.startsWith('","s":', end))
        return null;
    const comma = data.indexOf(",", end + 6);
    if (comma < 0 || !data.startsWith(',"op":0,"d":', comma))
        return null;
    const digits = data.slice(end + 6, comma);
    return /^[0-9]+$/.test(digits) ? { op: 0, seq: Number(digits), name: data.slice(6, end) } : null;
}
const decoder = new TextDecoder();
const { Buffer: NodeBuffer } = globalThis;
/** UTF-8 to text. Node's `Buffer` is the faster of the two for all sizes. */
export function textOf(bytes) {
    if (NodeBuffer === undefined)
        return decoder.decode(bytes);
    return bytes instanceof NodeBuffer ? bytes.toString() : NodeBuffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
}
/** Checks the shape of a decoded payload. */
export function payloadOf(value) {
    const { op, d, s, t } = (value ?? {});
    if (typeof op !== "number")
        throw new TypeError("the payload has no opcode");
    return { op, d, seq: typeof s === "number" ? s : null, name: typeof t === "string" ? t : null };
}
export const json = {
    name: "json",
    scan: (data) => (typeof data === "string" ? scanText(data) : scanBytes(data)),
    decode: (data) => payloadOf(JSON.parse(typeof data === "string" ? data : textOf(data))),
    encode: (payload) => JSON.stringify(payload),
};
/** Length of `text` in UTF-8. */
export function utf8Bytes(text) {
    if (NodeBuffer !== undefined)
        return NodeBuffer.byteLength(text);
    let bytes = text.length;
    for (let i = 0; i < text.length; i += 1) {
        const unit = text.charCodeAt(i);
        if (unit < 0x80)
            continue;
        // A surrogate is half of four bytes, so each half adds one to its own.
        bytes += unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 1 : 2;
    }
    return bytes;
}
