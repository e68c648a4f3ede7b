/**
 * zlib and zstd of Node. What `node:zlib` offers to decompress synchronously allocates for each message, so its handles
 * are called as its own functions call them. Handles are not documented: only releases of Node that were tried are
 * trusted, and the self-test of `chooseBackend` finds out whether they work. zstd: Node ≥ 22.15.
 *
 * Limits  one output per connection; it grows to the message, to `MESSAGE_BYTES_MAX` at most, then `push` throws.
 */

import * as zlib from "node:zlib";
import type { Backend, StreamDecompressor } from "./compression.js";
import { MESSAGE_BYTES_MAX, ZSTD_WINDOW_LOG_MAX } from "./compression.js";

/** Handles abort the process if their arguments changed, so a newer Node uses WebAssembly until it was tried. */
const NODE_MAJOR_MAX = 24;

interface Stream {
  _handle: Handle | null;
  /** Room left in the output, and bytes left of the input, after `writeSync`. */
  _writeState: Uint32Array | undefined;
}

interface Handle {
  writeSync(flush: number, input: Uint8Array, inputAt: number, inputBytes: number, output: Uint8Array, outputAt: number, outputBytes: number): void;
  onerror: (message: string) => void;
  close(): void;
}

const OUTPUT_BYTES_FIRST = 64 * 1024;
/** A larger output is given up after its message. */
const OUTPUT_BYTES_KEPT = 1024 * 1024;

/** Writes into one output, which the next message overwrites. */
class NodeStream implements StreamDecompressor {
  #handle: Handle;
  #state: Uint32Array;
  #flush: number;
  #output = Buffer.allocUnsafeSlow(OUTPUT_BYTES_FIRST);
  #fault: string | null = null;

  constructor(stream: unknown, flush: number) {
    if (Number.parseInt(process.versions.node, 10) > NODE_MAJOR_MAX) throw new Error("its handles were not tried in this Node");
    const { _handle: handle, _writeState: state } = stream as Stream;
    if (!handle || !state) throw new Error("this Node keeps no handle");
    handle.onerror = (message) => (this.#fault = message);
    this.#handle = handle;
    this.#state = state;
    this.#flush = flush;
  }

  push(data: Uint8Array): Uint8Array {
    if (this.#output.length > OUTPUT_BYTES_KEPT) this.#output = Buffer.allocUnsafeSlow(OUTPUT_BYTES_FIRST);
    let read = 0;
    let written = 0;
    for (;;) {
      const { length } = this.#output;
      this.#handle.writeSync(this.#flush, data, read, data.length - read, this.#output, written, length - written);
      if (this.#fault !== null) throw new Error(this.#fault);
      const room = this.#state[0] as number;
      const left = this.#state[1] as number;
      written = length - room;
      read = data.length - left;
      if (room > 0) {
        if (left > 0) throw new Error("bytes follow the end of the stream");
        return this.#output.subarray(0, written);
      }
      if (length >= MESSAGE_BYTES_MAX) throw new Error("the message is too large");
      const grown = Buffer.allocUnsafeSlow(length * 2);
      this.#output.copy(grown);
      this.#output = grown;
    }
  }

  free(): void {
    this.#handle.close();
  }
}

export const zlibNode: Backend = {
  name: "node:zlib",
  load: () =>
    Promise.resolve(() => {
      const { Z_SYNC_FLUSH: flush } = zlib.constants;
      return new NodeStream(zlib.createInflate({ flush }), flush);
    }),
};

interface ZstdOptions {
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
      return new NodeStream(create({ params, ...(dictionary && { dictionary }) }), flush);
    });
  },
};
