/**
 * Subscriptions: what the application wants to see of each guild, sent as op 37 or op 14.
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
    /** Changes the keys that are present. */
    set(guildId, patch) {
        const wanted = this.#wanted.get(guildId) ?? {};
        for (const key of Object.keys(patch)) {
            if (JSON.stringify(wanted[key]) === JSON.stringify(patch[key]))
                continue;
            wanted[key] = patch[key];
            this.#mark(guildId, key);
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
        for (const [guildId, wanted] of this.#wanted) {
            for (const key of Object.keys(wanted))
                this.#mark(guildId, key);
        }
    }
    #mark(guildId, key) {
        this.#unsent.set(guildId, (this.#unsent.get(guildId) ?? new Set()).add(key));
    }
    /** Bodies of `op` for everything that is unsent: op 37 has many guilds in each, op 14 one. */
    take(op) {
        const bodies = [];
        let subscriptions = {};
        // The first guild begins a body.
        let chars = PAYLOAD_CHARS_MAX;
        for (const [guild_id, keys] of this.#unsent) {
            const wanted = this.get(guild_id);
            const part = Object.fromEntries([...keys].map((key) => [key, wanted[key]]));
            if (op === 14) {
                bodies.push({ guild_id, ...part });
                continue;
            }
            const size = JSON.stringify(part).length + guild_id.length + 4;
            if (chars + size > PAYLOAD_CHARS_MAX) {
                subscriptions = {};
                bodies.push({ subscriptions });
                chars = 0;
            }
            subscriptions[guild_id] = part;
            chars += size;
        }
        this.#unsent.clear();
        return bodies;
    }
}
