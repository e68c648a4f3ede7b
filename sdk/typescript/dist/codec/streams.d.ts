/** The stream compressions of the gateway. Spec: docs/protocol/reference.md §2.3, docs/adr/18. */
import type { Compression } from "./codec.js";
import { type Backend } from "./compression.js";
export interface ZstdOptions {
    /** Id of a dictionary that the node serves, or `true` for the newest one of the encoding. */
    readonly dictionary?: string | true;
}
export declare function zlibStreamOf(backends: readonly Backend[]): Compression;
export declare function zstdStreamOf(backends: readonly Backend[], { dictionary }: ZstdOptions): Compression;
