// Compressors: what zlib and zstd themselves make of this connection's messages (wasm/compressors.c).
//
// Owns     the module, which is fetched once, and one instance per connection.
// Limits   an instance has about 3.2 MB: the contexts of zstd (1.4 MB) and of zlib (268 kB, twice), and buffers.

import source from "./compressors.wasm?url";

const INPUT_BYTES = 64 * 1024;

interface Exports {
  readonly memory: WebAssembly.Memory;
  input(): number;
  output(): number;
  start(): number;
  zstd_push(size: number, isLast: number): number;
  zlib_push(size: number, isLast: number): number;
  alone_push(size: number, isLast: number): number;
}

/** Bytes that each way makes of one message. */
export interface Sizes { zlib: number; zstd: number; alone: number }

export class Compressors {
  #exports: Exports;
  #input: number;

  constructor(module: WebAssembly.Module) {
    this.#exports = new WebAssembly.Instance(module).exports as unknown as Exports;
    if (this.#exports.start() !== 0) throw new Error("the compressors do not start");
    this.#input = this.#exports.input();
  }

  /** The next message of the connection. `isAlone`: also what deflate makes of it without the others. */
  push(raw: Uint8Array, isAlone: boolean): Sizes {
    const { zlib_push, zstd_push, alone_push } = this.#exports;
    // Without the four bytes that permessage-deflate leaves out.
    return { zlib: this.#each(raw, zlib_push), zstd: this.#each(raw, zstd_push), alone: isAlone ? this.#each(raw, alone_push) - 4 : 0 };
  }

  #each(raw: Uint8Array, push: (size: number, isLast: number) => number): number {
    let sum = 0;
    for (let at = 0; at === 0 || at < raw.length; at += INPUT_BYTES) {
      const part = raw.subarray(at, at + INPUT_BYTES);
      new Uint8Array(this.#exports.memory.buffer, this.#input, part.length).set(part);
      const bytes = push(part.length, at + INPUT_BYTES >= raw.length ? 1 : 0);
      if (bytes < 0) throw new Error("the compressors failed");
      sum += bytes;
    }
    return sum;
  }
}

let module: Promise<WebAssembly.Module> | undefined;

/** Fetches the module the first time; rejects if it cannot be had. */
export async function newCompressors(): Promise<Compressors> {
  module ??= fetch(source).then((response) => {
    if (!response.ok) throw new Error(`the node answered ${response.status}`);
    return WebAssembly.compileStreaming(Promise.resolve(response));
  });
  try {
    return new Compressors(await module);
  } catch (error) {
    module = undefined;
    throw error;
  }
}
