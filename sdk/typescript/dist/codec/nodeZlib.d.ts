/**
 * zlib and zstd of Node. What `node:zlib` offers to decompress synchronously allocates for each message, so its handles
 * are called as its own functions call them. Handles are not documented: only releases of Node that were tried are
 * trusted, and the self-test of `chooseBackend` finds out whether they work. zstd: Node ≥ 22.15.
 *
 * Limits  one output per connection; it grows to the message, to `MESSAGE_BYTES_MAX` at most, then `push` throws.
 */
import type { Backend } from "./compression.js";
export declare const zlibNode: Backend;
export declare const zstdNode: Backend;
