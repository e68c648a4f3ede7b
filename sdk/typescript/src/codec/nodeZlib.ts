/**
 * zlib and zstd of Node. `node:zlib` decompresses synchronously only by `_processChunk`, which is not documented but
 * has not changed since Node 0.12; the self-test of `chooseBackend` finds out whether it works. zstd: Node ≥ 22.15.
 */

import * as zlib from "node:zlib";
import type { Backend, Decompressor } from "./compression.js";
import { MESSAGE_BYTES_MAX } from "./compression.js";

interface SyncStream {
  _processChunk(chunk: Uint8Array, flush: number): Uint8Array | null;
  _handle: { close(): void } | null;
  close(): void;
}

class NodeStream implements Decompressor {
  #stream: SyncStream;
  #flush: number;

  constructor(stream: SyncStream, flush: number) {
    this.#stream = stream;
    this.#flush = flush;
    // `_processChunk` closes the handle after an error, and throws the error as well.
    (stream as unknown as zlib.Inflate).on("error", () => {});
  }

  push(data: Uint8Array): Uint8Array {
    const out = this.#stream._processChunk(data, this.#flush);
    if (!out) return new Uint8Array();
    if (out.length > MESSAGE_BYTES_MAX) throw new Error("the message is too large");
    return out;
  }

  free(): void {
    this.#stream.close();
  }
}

const CHUNK_BYTES = 64 * 1024;

export const zlibNode: Backend = {
  name: "node:zlib",
  load: () =>
    Promise.resolve(() => {
      const stream = zlib.createInflate({ chunkSize: CHUNK_BYTES, flush: zlib.constants.Z_SYNC_FLUSH });
      return new NodeStream(stream as unknown as SyncStream, zlib.constants.Z_SYNC_FLUSH);
    }),
};

type CreateZstd = (options: { chunkSize: number; dictionary?: Uint8Array }) => unknown;

export const zstdNode: Backend = {
  name: "node:zlib",
  load() {
    const create = (zlib as unknown as { createZstdDecompress?: CreateZstd }).createZstdDecompress;
    if (!create) return Promise.reject(new Error("this Node has no zstd"));
    const flush = (zlib.constants as unknown as { ZSTD_e_flush: number }).ZSTD_e_flush;
    return Promise.resolve((dictionary) => {
      const stream = create({ chunkSize: CHUNK_BYTES, ...(dictionary && { dictionary }) });
      return new NodeStream(stream as SyncStream, flush);
    });
  },
};
