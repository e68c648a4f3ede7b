/**
 * zstd and zlib in WebAssembly, built from their C libraries (`wasm/codecs.c`).
 *
 * Limits  memory of an instance is freed with the instance, that is with its connection. It grows to the largest message.
 */

import type { Backend, StreamDecompressor } from "./compression.js";
import { WASM, WASM_BYTES } from "./wasmBinary.js";

interface Exports {
  readonly memory: WebAssembly.Memory;
  input(): number;
  output(): number;
  reset_output(): void;
  alloc(size: number): number;
  zstd_start(dictionary: number, size: number): number;
  zstd_push(size: number): number;
  zlib_start(): number;
  zlib_push(size: number): number;
}

const INPUT_BYTES = 64 * 1024;
const FAULTS: { readonly [code: number]: string } = {
  [-1]: "the stream is broken",
  [-2]: "the message is too large",
  [-3]: "out of memory",
};

let compiled: Promise<WebAssembly.Module> | null = null;

async function compile(): Promise<WebAssembly.Module> {
  const packed = Uint8Array.from(atob(WASM), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = await new Response(stream).arrayBuffer();
  if (bytes.byteLength !== WASM_BYTES) throw new Error("the WebAssembly module is damaged");
  return WebAssembly.compile(bytes);
}

class WasmStream implements StreamDecompressor {
  #exports: Exports | null;
  #push: (size: number) => number;
  #input: number;
  /** View of the whole memory; a grown memory has another buffer. */
  #memory: Uint8Array;

  constructor(module: WebAssembly.Module, kind: "zlib" | "zstd", dictionary: Uint8Array | undefined) {
    const exports = new WebAssembly.Instance(module).exports as unknown as Exports;
    let fault: number;
    if (kind === "zlib") {
      fault = exports.zlib_start();
      this.#push = exports.zlib_push;
    } else {
      const size = dictionary?.length ?? 0;
      const at = size > 0 ? exports.alloc(size) : 0;
      if (dictionary) new Uint8Array(exports.memory.buffer, at, size).set(dictionary);
      fault = exports.zstd_start(at, size);
      this.#push = exports.zstd_push;
    }
    if (fault < 0) throw new Error(FAULTS[fault] ?? "it does not start");
    this.#exports = exports;
    this.#input = exports.input();
    this.#memory = new Uint8Array(exports.memory.buffer);
  }

  push(data: Uint8Array): Uint8Array {
    const exports = this.#exports;
    if (!exports) throw new Error("the decompressor was freed");
    exports.reset_output();
    let length = 0;
    for (let at = 0; at < data.length; at += INPUT_BYTES) {
      const part = data.length <= INPUT_BYTES ? data : data.subarray(at, at + INPUT_BYTES);
      this.#current().set(part, this.#input);
      length = this.#push(part.length);
      if (length < 0) throw new Error(FAULTS[length] ?? "the stream is broken");
    }
    const start = exports.output();
    return this.#current().subarray(start, start + length);
  }

  free(): void {
    this.#exports = null;
  }

  #current(): Uint8Array {
    const { buffer } = (this.#exports as Exports).memory;
    if (this.#memory.buffer !== buffer) this.#memory = new Uint8Array(buffer);
    return this.#memory;
  }
}

function backend(kind: "zlib" | "zstd"): Backend {
  return {
    name: `${kind} in WebAssembly`,
    async load() {
      compiled ??= compile();
      try {
        const module = await compiled;
        return (dictionary) => new WasmStream(module, kind, dictionary);
      } catch (error) {
        compiled = null;
        throw error;
      }
    },
  };
}

export const zlibWasm = backend("zlib");
export const zstdWasm = backend("zstd");
