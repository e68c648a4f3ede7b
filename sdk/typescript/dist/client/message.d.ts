import { type Encoding } from "../codec/encoding.js";
/**
 * One message of the gateway, for meters and for applications that decode by themselves. It is valid until the listener
 * returns: `raw` may be memory of the decompressor.
 */
export declare class ReceivedMessage {
    #private;
    readonly op: number;
    /** Event name; null if it is no dispatch. */
    readonly name: string | null;
    /** Sequence number; null if it is no dispatch. */
    readonly seq: number | null;
    /** Decompressed message: text or bytes. */
    readonly raw: string | Uint8Array;
    /** Bytes of the WebSocket message and its frame header; null if the runtime hides them (permessage-deflate in a browser). */
    readonly wireBytes: number | null;
    /** Name of the encoding and of the compression in use. */
    readonly encoding: "json" | "etf";
    readonly compression: string;
    /** Part of a replay after RESUME. */
    readonly isReplay: boolean;
    constructor(head: {
        op: number;
        name: string | null;
        seq: number | null;
        isReplay: boolean;
    }, raw: string | Uint8Array, wireBytes: number | null, encoding: Encoding, compression: string, decode: () => unknown);
    /** Size of the message before compression. */
    get rawBytes(): number;
    /** Body of the payload (`d`), decoded once at the first access. */
    get body(): unknown;
}
