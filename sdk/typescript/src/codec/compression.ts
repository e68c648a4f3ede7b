/** Decompressors of a connection's messages. */

export type CompressionName = "none" | "zlib-stream" | "zstd-stream";

/**
 * Decompresses the messages of one connection, in order. `push` returns the bytes of the message; they are valid until the next call.
 * It throws if the data is malformed or the message larger than `MESSAGE_BYTES_MAX`.
 */
export interface Decompressor {
  push(data: Uint8Array): Uint8Array;
  /** Releases what it holds. */
  free(): void;
}

export const MESSAGE_BYTES_MAX = 256 * 1024 * 1024;
