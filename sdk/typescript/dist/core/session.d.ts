/**
 * Session: the protocol of one logical link that survives reconnects, without sockets and timers.
 *
 * Doors       `connect`, `stop`, `send`, `drop` from the application; `handleOpen`, `handlePayload`, `handleClose`,
 *             `handleTimeout` from the driver. After each, the driver drains `poll` and waits until `deadline`; after a
 *             dispatch only unless `isQuiet`.
 * Invariants  S1 each dispatch is passed on once and in the order of `seq`; one with an older `seq` is dropped.
 *             S2 a heartbeat without an acknowledgement before the next one ends the connection, not the session.
 *             S3 every wait has a deadline. S4 after `stop`, or a fatal problem, nothing is sent and nothing opened.
 *             (tests `s1` to `s4`)
 * Limits      commands waiting: `sendQueue.ts`. Back-off: `backoffMaxMs`.
 * Spec        docs/protocol/reference.md §1.
 */
import { type Problem, type Result } from "./problem.js";
export type SessionState = 
/** Not started. */
"idle"
/** The socket opens; HELLO has not arrived. */
 | "connecting"
/** IDENTIFY was sent, or waits to be sent. */
 | "identifying"
/** RESUME was sent; the gateway replays what was missed. */
 | "resuming"
/** Events arrive, commands are sent. */
 | "ready"
/** Disconnected; waits for the next attempt. */
 | "waiting"
/** Ended by the caller or by a fatal problem. */
 | "stopped";
/** What continues a session, also in another process. */
export interface ResumePoint {
    readonly sessionId: string;
    readonly resumeUrl: string;
    readonly seq: number;
}
export interface SessionOptions {
    /** Gateway URL without a query. */
    readonly url: string;
    /** Body of IDENTIFY, without the token. Read for each IDENTIFY. */
    readonly identify: () => {
        readonly [key: string]: unknown;
    };
    readonly token: () => string;
    /** Continues a session instead of beginning one. */
    readonly resume?: ResumePoint | undefined;
    /** Random number of at least 0 and less than 1. */
    readonly random: () => number;
    /** When IDENTIFY may be sent, at `now` or later. Default: at once. */
    readonly identifyAt?: ((now: number) => number) | undefined;
    /** Time until HELLO. Default 20 s. */
    readonly helloTimeoutMs?: number | undefined;
    /** Time from IDENTIFY or RESUME until READY or RESUMED; a long replay extends it. Default 60 s. */
    readonly readyTimeoutMs?: number | undefined;
    /** Longest wait before the second attempt; doubles with each. Default 1 s. */
    readonly backoffMinMs?: number | undefined;
    /** Longest wait between attempts. Default 60 s. */
    readonly backoffMaxMs?: number | undefined;
}
/** What the driver has to do, or to pass on. */
export type Action = {
    readonly type: "open";
    readonly url: string;
    readonly isResume: boolean;
} | {
    readonly type: "send";
    readonly op: number;
    readonly d: unknown;
} | {
    readonly type: "close";
    readonly code: number;
    readonly reason: string;
} | {
    readonly type: "state";
    readonly from: SessionState;
    readonly to: SessionState;
}
/** READY arrived: a new session. */
 | {
    readonly type: "began";
} | {
    readonly type: "resumed";
    readonly replayed: number;
    readonly downMs: number;
}
/** Sequence numbers that never arrived (`after` + 1 to `before` - 1), or one that arrived twice. */
 | {
    readonly type: "gap";
    readonly after: number;
    readonly before: number;
}
/** The session is gone: what was missed since then is not replayed. */
 | {
    readonly type: "lost";
    readonly problem: Problem;
} | {
    readonly type: "reconnect";
    readonly attempt: number;
    readonly delayMs: number;
    readonly willResume: boolean;
    readonly problem: Problem;
} | {
    readonly type: "latency";
    readonly ms: number;
} | {
    readonly type: "problem";
    readonly problem: Problem;
} | {
    readonly type: "stopped";
    readonly problem: Problem;
};
/** Closing with any code but 1000 and 1001 keeps the session. */
export declare const CLOSE_KEEPS_SESSION = 4000;
export declare class Session {
    #private;
    constructor(options: SessionOptions);
    get state(): SessionState;
    /** The last sequence number. */
    get seq(): number;
    /** What a RESUME needs; null without a session. */
    get resumePoint(): ResumePoint | null;
    /** Replayed dispatches are being received: gaps in `seq` are legal. */
    get isReplaying(): boolean;
    /** When `handleTimeout` has to be called; null: not at all. */
    deadline(now: number): number | null;
    poll(): Action | undefined;
    /** Nothing to poll, and the deadline is that of before: so after most dispatches. */
    get isQuiet(): boolean;
    connect(now: number): void;
    /** Ends the client's side. With `keepSession` the session waits to be resumed by `resumePoint`. */
    stop(now: number, keepSession: boolean): void;
    /** Breaks the connection and resumes: for tests, and after a change of network. */
    drop(now: number, reason: string): void;
    /** Ends the wait before the next attempt. */
    retryNow(now: number): void;
    /** Sends a command as soon as the session and the rate limit permit. */
    send(now: number, op: number, d: unknown): Result;
    /** The socket is open. */
    handleOpen(_now: number): void;
    /**
     * A payload arrived. `d` is needed for HELLO, op 9 and READY only. Returns true if it is a dispatch that the
     * application has to see.
     */
    handlePayload(now: number, op: number, seq: number | null, name: string | null, d: unknown): boolean;
    /** The socket closed, or could not be opened (code 1006). */
    handleClose(now: number, code: number, reason: string): void;
    /** A message could not be decoded: what follows cannot be either. */
    handleUndecodable(now: number, message: string): void;
    /** The deadline passed. */
    handleTimeout(now: number): void;
}
