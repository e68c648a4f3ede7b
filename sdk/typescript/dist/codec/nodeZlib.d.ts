/**
 * zlib and zstd of Node. `node:zlib` decompresses synchronously only by `_processChunk`, which is not documented but
 * has not changed since Node 0.12; the self-test of `chooseBackend` finds out whether it works. zstd: Node ≥ 22.15.
 */
import type { Backend } from "./compression.js";
export declare const zlibNode: Backend;
export declare const zstdNode: Backend;
