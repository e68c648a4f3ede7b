/** Decompressors of a connection's messages. */
/**
 * Decompresses the messages of one connection, in order. `push` returns the bytes of the message; they are valid until
 * the next call. It throws if the data is malformed or the message larger than `MESSAGE_BYTES_MAX`.
 */
export interface Decompressor {
    push(data: Uint8Array): Uint8Array;
    /** Releases what it holds. */
    free(): void;
}
/** Above anything that a gateway sends: READY for hundreds of guilds has some tens of megabytes. */
export declare const MESSAGE_BYTES_MAX: number;
/** Base-2 logarithm of the largest window of zstd, as RFC 8878 advises. */
export declare const ZSTD_WINDOW_LOG_MAX = 23;
/** One way to decompress, in one runtime. */
export interface Backend {
    readonly name: string;
    /** Loads what it needs; rejects if the runtime cannot do it. */
    load(): Promise<(dictionary?: Uint8Array) => Decompressor>;
}
/**
 * The fastest backend that decompresses `sample` correctly: messages of one stream, each complete at its flush. Backends
 * in their order; a later one has to be faster by a tenth. Rejects if none works.
 */
export declare function chooseBackend(backends: readonly Backend[], sample: Sample): Promise<(dictionary?: Uint8Array) => Decompressor>;
/** A short stream and its messages, for the self-test. */
export interface Sample {
    readonly compressed: readonly Uint8Array[];
    readonly messages: readonly string[];
}
