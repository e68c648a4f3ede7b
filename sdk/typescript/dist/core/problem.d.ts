/**
 * What can go wrong, as data. Nothing in this package throws for an event of the network, and nothing writes to the
 * console.
 */
export type ProblemKind = 
/** The connection could not be opened, broke, or was closed by the gateway. */
"connection"
/** A heartbeat was not acknowledged before the next one was due. */
 | "zombie"
/** The gateway did not send HELLO, READY or RESUMED in time. */
 | "timeout"
/** The gateway refused the session: op 9. */
 | "session"
/** The token was refused. */
 | "authentication"
/** The gateway refused an option of the client: shard, intents, version. */
 | "configuration"
/** The gateway rejected a payload of the client. */
 | "payload"
/** Too many messages, sessions or commands. */
 | "rateLimit"
/** A message could not be decompressed or decoded. */
 | "codec"
/** The gateway asked the client to reconnect: op 7. */
 | "reconnect"
/** The caller closed the client. */
 | "closed";
/** A problem: what happened, and what to do about it. */
export interface Problem {
    readonly kind: ProblemKind;
    /** Close code of the connection, if there was one. */
    readonly code?: number;
    /** One sentence: what happened. */
    readonly message: string;
    /** One sentence: what the application or its user can do. */
    readonly advice: string;
    /** The client gave up; it does not reconnect by itself. */
    readonly isFatal: boolean;
}
/** Success, or the problem that prevented it. */
export type Result<T = void> = {
    readonly ok: true;
    readonly value: T;
} | {
    readonly ok: false;
    readonly problem: Problem;
};
export declare const done: Result;
