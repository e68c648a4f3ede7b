/** ETF and the stream compressions, for Node: `node:zlib` where it is the faster one. */
import { zlibNode, zstdNode } from "./codec/nodeZlib.js";
import { zlibStreamOf, zstdStreamOf } from "./codec/streams.js";
import { zlibWasm, zstdWasm } from "./codec/wasm.js";
export { etf } from "./codec/etf.js";
/** One deflate stream per connection. */
export function zlibStream() {
    return zlibStreamOf([zlibNode, zlibWasm]);
}
/** One zstd stream per connection, optionally with a dictionary of the node. */
export function zstdStream(options = {}) {
    return zstdStreamOf([zstdNode, zstdWasm], options);
}
