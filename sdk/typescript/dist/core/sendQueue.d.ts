/**
 * Commands that wait for a session or for the rate limit.
 *
 * Owns        the commands not sent yet, oldest first, and the times of those sent in the last minute.
 * Limits      `COMMANDS_WAITING_MAX` commands; a further one is refused. `COMMANDS_PER_WINDOW` per `WINDOW_MS` leaves the
 *             rest of the gateway's 120 to heartbeats, IDENTIFY and RESUME. Op 3: `PRESENCES_PER_WINDOW`; a newer
 *             presence replaces one that waits.
 */
export declare const COMMANDS_WAITING_MAX = 256;
export interface Command {
    readonly op: number;
    readonly d: unknown;
}
export declare class SendQueue {
    #private;
    /** False if the queue is full. */
    push(command: Command): boolean;
    /** The next command that may be sent now. */
    take(now: number): Command | undefined;
    /** When `take` returns a command; null if none waits. */
    nextAt(now: number): number | null;
    /** A new connection has a new limit per minute. */
    connectionOpened(): void;
    /** The commands belonged to a session that is gone. */
    clear(): void;
}
