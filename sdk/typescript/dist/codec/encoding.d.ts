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
    encode(payload: {
        readonly op: number;
        readonly d: unknown;
    }): string | Uint8Array;
}
/** Event names that were seen, by their bytes: a name is decoded once. */
export declare class Names {
    #private;
    /** The ASCII text from `start` to `end`. */
    read(data: Uint8Array, start: number, end: number): string;
}
/** UTF-8 to text. Node's `Buffer` is the faster of the two for all sizes. */
export declare function textOf(bytes: Uint8Array): string;
/** Checks the shape of a decoded payload. */
export declare function payloadOf(value: unknown): Payload;
export declare const json: Encoding;
/** Length of `text` in UTF-8. */
export declare function utf8Bytes(text: string): number;
