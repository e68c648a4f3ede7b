/**
 * Commands that wait for a session or for the rate limit.
 *
 * Owns        the commands not sent yet, oldest first, and the times of those sent in the last minute.
 * Limits      `COMMANDS_WAITING_MAX` commands; a further one is refused. `COMMANDS_PER_WINDOW` per `WINDOW_MS` leaves the
 *             rest of the gateway's 120 to heartbeats, IDENTIFY and RESUME. Op 3: `PRESENCES_PER_WINDOW`; a newer
 *             presence replaces one that waits.
 */
export const COMMANDS_WAITING_MAX = 256;
const WINDOW_MS = 60_000;
const COMMANDS_PER_WINDOW = 110;
const PRESENCE_OP = 3;
const PRESENCE_WINDOW_MS = 20_000;
const PRESENCES_PER_WINDOW = 5;
class Window {
    #times = [];
    #perWindow;
    #windowMs;
    constructor(perWindow, windowMs) {
        this.#perWindow = perWindow;
        this.#windowMs = windowMs;
    }
    /** When the next one may be sent. */
    nextAt(now) {
        while (this.#times.length > 0 && this.#times[0] <= now - this.#windowMs)
            this.#times.shift();
        return this.#times.length < this.#perWindow ? now : this.#times[0] + this.#windowMs;
    }
    count(now) {
        this.#times.push(now);
    }
    clear() {
        this.#times = [];
    }
}
export class SendQueue {
    #waiting = [];
    #all = new Window(COMMANDS_PER_WINDOW, WINDOW_MS);
    #presences = new Window(PRESENCES_PER_WINDOW, PRESENCE_WINDOW_MS);
    /** False if the queue is full. */
    push(command) {
        if (command.op === PRESENCE_OP)
            this.#waiting = this.#waiting.filter((of) => of.op !== PRESENCE_OP);
        if (this.#waiting.length >= COMMANDS_WAITING_MAX)
            return false;
        this.#waiting.push(command);
        return true;
    }
    /** The next command that may be sent now. */
    take(now) {
        if (this.#waiting.length === 0 || this.#all.nextAt(now) > now)
            return undefined;
        const presencesHeld = this.#presences.nextAt(now) > now;
        const at = this.#waiting.findIndex((of) => of.op !== PRESENCE_OP || !presencesHeld);
        if (at < 0)
            return undefined;
        const [command] = this.#waiting.splice(at, 1);
        this.#all.count(now);
        if (command?.op === PRESENCE_OP)
            this.#presences.count(now);
        return command;
    }
    /** When `take` returns a command; null if none waits. */
    nextAt(now) {
        if (this.#waiting.length === 0)
            return null;
        const all = this.#all.nextAt(now);
        if (this.#waiting.some((of) => of.op !== PRESENCE_OP))
            return all;
        return Math.max(all, this.#presences.nextAt(now));
    }
    /** A new connection has a new limit per minute. */
    connectionOpened() {
        this.#all.clear();
    }
    /** The commands belonged to a session that is gone. */
    clear() {
        this.#waiting = [];
    }
}
