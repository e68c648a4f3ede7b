import { utf8Bytes } from "../codec/encoding.js";
/**
 * One message of the gateway, for meters and for applications that decode by themselves. It is valid until the listener
 * returns: `raw` may be memory of the decompressor.
 */
export class ReceivedMessage {
    op;
    /** Event name; null if it is no dispatch. */
    name;
    /** Sequence number; null if it is no dispatch. */
    seq;
    /** Decompressed message: text or bytes. */
    raw;
    /** Bytes of the WebSocket message and its frame header; null if the runtime hides them (permessage-deflate in a browser). */
    wireBytes;
    /** Name of the encoding and of the compression in use. */
    encoding;
    compression;
    /** Part of a replay after RESUME. */
    isReplay;
    #decode;
    #rawBytes;
    constructor(head, raw, wireBytes, encoding, compression, decode) {
        this.op = head.op;
        this.name = head.name;
        this.seq = head.seq;
        this.isReplay = head.isReplay;
        this.raw = raw;
        this.wireBytes = wireBytes;
        this.encoding = encoding.name;
        this.compression = compression;
        this.#decode = decode;
    }
    /** Size of the message before compression. */
    get rawBytes() {
        this.#rawBytes ??= typeof this.raw === "string" ? utf8Bytes(this.raw) : this.raw.length;
        return this.#rawBytes;
    }
    /** Body of the payload (`d`), decoded once at the first access. */
    get body() {
        return this.#decode();
    }
}
