/**
 * zstd and zlib in WebAssembly, built from their C libraries (`wasm/codecs.c`).
 *
 * Limits  memory of an instance is freed with the instance, that is with its connection. It grows to the largest message.
 */
import type { Backend } from "./compression.js";
export declare const zlibWasm: Backend;
export declare const zstdWasm: Backend;
