/** ETF and the stream compressions, for Node: `node:zlib` where it is the faster one. */

import { zlibNode, zstdNode } from "./codec/nodeZlib.js";
import { zlibStreamOf, zstdStreamOf, type ZstdOptions } from "./codec/streams.js";
import { zlibWasm, zstdWasm } from "./codec/wasm.js";
import type { Compression } from "./codec/codec.js";

export { etf } from "./codec/etf.js";
export type { ZstdOptions } from "./codec/streams.js";

/** One deflate stream per connection. */
export function zlibStream(): Compression {
  return zlibStreamOf([zlibNode, zlibWasm]);
}

/** One zstd stream per connection, optionally with a dictionary of the node. */
export function zstdStream(options: ZstdOptions = {}): Compression {
  return zstdStreamOf([zstdNode, zstdWasm], options);
}
