/** ETF and the stream compressions, for browsers. */
import { zlibStreamOf, zstdStreamOf } from "./codec/streams.js";
import { zlibWasm, zstdWasm } from "./codec/wasm.js";
export { etf } from "./codec/etf.js";
/** One deflate stream per connection. */
export function zlibStream() {
    return zlibStreamOf([zlibWasm]);
}
/** One zstd stream per connection, optionally with a dictionary of the node. */
export function zstdStream(options = {}) {
    return zstdStreamOf([zstdWasm], options);
}
