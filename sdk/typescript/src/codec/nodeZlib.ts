/**
 * zlib and zstd of Node. `node:zlib` decompresses synchronously only by `_processChunk`, which is not documented but
 * has not changed since Node 0.12; the self-test of `chooseBackend` finds out whether it works. zstd: Node ≥ 22.15.
 */

import * as zlib from "node:zlib";
import type { Backend, Decompressor } from "./compression.js";
import { MESSAGE_BYTES_MAX, ZSTD_WINDOW_LOG_MAX } from "./compression.js";

interface SyncStream {
  _processChunk(chunk: Uint8Array, flush: number): Uint8Array | null;
  _handle: { close(): void } | null;
  removeAllListeners(event: string): void;
}

const nothing = (): void => {};

class NodeStream implements Decompressor {
  #stream: SyncStream;
  #flush: number;
  /** `_processChunk` is meant for one call: it closes the handle, so the handle is kept here. */
  #handle: { close(): void };
  #closeHandle: () => void;

  constructor(stream: SyncStream, flush: number) {
    this.#stream = stream;
    this.#flush = flush;
    const handle = stream._handle;
    if (!handle) throw new Error("this Node keeps no handle");
    this.#handle = handle;
    this.#closeHandle = handle.close.bind(handle);
    handle.close = nothing;
  }

  push(data: Uint8Array): Uint8Array {
    this.#stream._handle = this.#handle;
    const out = this.#stream._processChunk(data, this.#flush);
    // Each call adds one. After an error, which is thrown and emitted, the listener stays.
    this.#stream.removeAllListeners("error");
    return out ?? new Uint8Array();
  }

  free(): void {
    this.#closeHandle();
  }
}

const CHUNK_BYTES = 64 * 1024;

export const zlibNode: Backend = {
  name: "node:zlib",
  load: () =>
    Promise.resolve(() => {
      const stream = zlib.createInflate({ chunkSize: CHUNK_BYTES, flush: zlib.constants.Z_SYNC_FLUSH, maxOutputLength: MESSAGE_BYTES_MAX });
      return new NodeStream(stream as unknown as SyncStream, zlib.constants.Z_SYNC_FLUSH);
    }),
};

interface ZstdOptions {
  chunkSize: number;
  maxOutputLength: number;
  params: { [parameter: number]: number };
  dictionary?: Uint8Array;
}
type CreateZstd = (options: ZstdOptions) => unknown;

export const zstdNode: Backend = {
  name: "node:zlib",
  load() {
    const create = (zlib as unknown as { createZstdDecompress?: CreateZstd }).createZstdDecompress;
    if (!create) return Promise.reject(new Error("this Node has no zstd"));
    const { ZSTD_e_flush: flush, ZSTD_d_windowLogMax: windowLogMax } = zlib.constants as unknown as {
      ZSTD_e_flush: number;
      ZSTD_d_windowLogMax: number;
    };
    return Promise.resolve((dictionary) => {
      const params = { [windowLogMax]: ZSTD_WINDOW_LOG_MAX };
      const stream = create({ chunkSize: CHUNK_BYTES, maxOutputLength: MESSAGE_BYTES_MAX, params, ...(dictionary && { dictionary }) });
      return new NodeStream(stream as SyncStream, flush);
    });
  },
};
