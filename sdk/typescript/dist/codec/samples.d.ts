/** Streams for the self-test of decompressors. Written by wasm/samples. */
import type { Sample } from "./compression.js";
export declare const zlibSample: () => Sample;
export declare const zstdSample: () => Sample;
