/**
 * Subscriptions: what the application wants to see of each guild, sent as op 37.
 *
 * Owns        the wanted subscription per guild, and which of its keys the gateway does not know yet.
 * Invariants  only changed keys are sent; after a new session, and after a RESUME, all keys are sent again, because a
 *             command may have been lost with the connection.
 * Limits      one payload has at most `PAYLOAD_CHARS_MAX` characters, below the gateway's limit for a message.
 * Spec        docs/protocol/reference.md §8.4.
 */
import { blocksOf } from "./memberList.js";
const PAYLOAD_CHARS_MAX = 12_000;
export class Subscriptions {
    #wanted = new Map();
    #unsent = new Map();
    get(guildId) {
        return this.#wanted.get(guildId) ?? {};
    }
    get hasUnsent() {
        return this.#unsent.size > 0;
    }
    /** Changes the keys that are present. */
    set(guildId, patch) {
        const wanted = this.#wanted.get(guildId) ?? {};
        for (const key of Object.keys(patch)) {
            if (JSON.stringify(wanted[key]) === JSON.stringify(patch[key]))
                continue;
            wanted[key] = patch[key];
            const unsent = this.#unsent.get(guildId) ?? new Set();
            unsent.add(key);
            this.#unsent.set(guildId, unsent);
        }
        this.#wanted.set(guildId, wanted);
    }
    /** Sets the rows wanted of one channel's member list; none ends it. */
    setRanges(guildId, channelId, ranges) {
        const channels = { ...this.get(guildId).channels };
        const blocks = blocksOf(ranges);
        if (blocks.length > 0)
            channels[channelId] = blocks;
        else
            delete channels[channelId];
        this.set(guildId, { channels });
    }
    /** The account left the guild. */
    forget(guildId) {
        this.#wanted.delete(guildId);
        this.#unsent.delete(guildId);
    }
    /** The gateway may know nothing of all this. */
    resendAll() {
        this.#unsent.clear();
        for (const [guildId, wanted] of this.#wanted) {
            const keys = Object.keys(wanted);
            if (keys.length > 0)
                this.#unsent.set(guildId, new Set(keys));
        }
    }
    /** Bodies of op 37 for everything that is unsent. */
    take() {
        const bodies = [];
        let current = {};
        let chars = 0;
        for (const [guildId, keys] of this.#unsent) {
            const wanted = this.get(guildId);
            const part = Object.fromEntries([...keys].map((key) => [key, wanted[key]]));
            const size = JSON.stringify(part).length + guildId.length + 4;
            if (chars > 0 && chars + size > PAYLOAD_CHARS_MAX) {
                bodies.push({ subscriptions: current });
                current = {};
                chars = 0;
            }
            current[guildId] = part;
            chars += size;
        }
        if (chars > 0)
            bodies.push({ subscriptions: current });
        this.#unsent.clear();
        return bodies;
    }
}
