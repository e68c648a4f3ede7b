/**
 * Erlang external term format. Spec: docs/protocol/reference.md §2.2.
 *
 * Invariants  ids are strings, as in JSON: a number of more than 53 bits becomes one, and so does a smaller one under a
 *             key that ends in `id` or lists ids. Length fields are checked before anything is allocated.
 * Limits      nesting: `DEPTH_MAX`.
 */
import { type Encoding } from "./encoding.js";
export declare const etf: Encoding;
