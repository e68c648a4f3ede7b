/** Consequence of each close code. Spec: docs/protocol/reference.md §1.4. */
import type { Problem } from "./problem.js";
/** What the client does after a close: resume the session, begin a new one, or give up. */
export type Consequence = "resume" | "identify" | "stop";
/** What to do after a connection was closed with `code`, and how to say it. */
export declare function consequenceOf(code: number, reason: string): {
    consequence: Consequence;
    problem: Problem;
};
