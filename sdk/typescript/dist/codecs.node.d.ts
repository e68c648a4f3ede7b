/** ETF and the stream compressions, for Node: `node:zlib` where it is the faster one. */
import { type ZstdOptions } from "./codec/streams.js";
import type { Compression } from "./codec/codec.js";
export { etf } from "./codec/etf.js";
export type { ZstdOptions } from "./codec/streams.js";
/** One deflate stream per connection. */
export declare function zlibStream(): Compression;
/** One zstd stream per connection, optionally with a dictionary of the node. */
export declare function zstdStream(options?: ZstdOptions): Compression;
