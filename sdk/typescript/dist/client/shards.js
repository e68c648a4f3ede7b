/**
 * Shards: several clients of one bot, each with a part of the guilds.
 *
 * Invariants  of the shards with the same `id % maxConcurrency`, one sends IDENTIFY per `IDENTIFY_INTERVAL_MS`, also after a
 *             reconnect.
 * Spec        docs/protocol/reference.md §3.
 */
import { systemClock } from "./options.js";
const IDENTIFY_INTERVAL_MS = 5_000;
const FETCH_TIMEOUT_MS = 20_000;
/** Fetches the gateway's URL and the recommended number of shards. `apiUrl` is the base of REST: `https://host/api`. */
export async function gatewayInfo(apiUrl, botToken) {
    const fail = (message, advice, code) => ({
        ok: false,
        problem: { kind: code === 401 ? "authentication" : "connection", message, advice, isFatal: false, ...(code !== undefined && { code }) },
    });
    try {
        const headers = { Authorization: `Bot ${botToken.replace(/^Bot /, "")}` };
        const response = await fetch(`${apiUrl}/v10/gateway/bot`, { headers, signal: AbortSignal.timeout(FETCH_TIMEOUT_MS) });
        if (response.ok)
            return { ok: true, value: (await response.json()) };
        return fail(`GET /gateway/bot answered ${response.status}.`, response.status === 401 ? "Check the token." : "Try again.", response.status);
    }
    catch (error) {
        return fail(`GET /gateway/bot failed: ${String(error)}`, "Check the address and the network.");
    }
}
/** The shard that has a guild. */
export function shardOf(guildId, count) {
    return Number((BigInt(guildId) >> 22n) % BigInt(count));
}
/** When a shard may send IDENTIFY: each call takes the next free time of the shard's key. */
export class IdentifyLimit {
    #maxConcurrency;
    #freeAt = new Map();
    constructor(maxConcurrency) {
        this.#maxConcurrency = Math.max(1, maxConcurrency);
    }
    take(now, shardId) {
        const key = shardId % this.#maxConcurrency;
        const at = Math.max(now, this.#freeAt.get(key) ?? now);
        this.#freeAt.set(key, at + IDENTIFY_INTERVAL_MS);
        return at;
    }
}
export class Shards {
    /** By shard id. */
    clients;
    count;
    #clock;
    #maxConcurrency;
    #timers = new Set();
    /** `create` makes the client of one shard: `new Shards(options, (of) => new Client(of))`. Add listeners to `clients`. */
    constructor(options, create) {
        const { count, ids, maxConcurrency, ...rest } = options;
        this.count = count;
        this.#clock = options.clock ?? systemClock;
        this.#maxConcurrency = Math.max(1, maxConcurrency ?? 1);
        const limit = new IdentifyLimit(this.#maxConcurrency);
        const own = ids ?? Array.from({ length: count }, (_, id) => id);
        this.clients = new Map(own.map((id) => [id, create({ ...rest, shard: [id, count], identifyAt: (now) => limit.take(now, id) })]));
    }
    /** The client of a guild; undefined if another process has its shard. */
    of(guildId) {
        return this.clients.get(shardOf(guildId, this.count));
    }
    /** Connects the shards in order, each when it may send IDENTIFY: the gateway closes connections that wait too long. */
    connect() {
        let index = 0;
        for (const client of this.clients.values()) {
            const wait = Math.floor(index / this.#maxConcurrency) * IDENTIFY_INTERVAL_MS;
            index += 1;
            if (wait === 0) {
                client.connect();
                continue;
            }
            const timer = this.#clock.setTimeout(() => {
                this.#timers.delete(timer);
                client.connect();
            }, wait);
            this.#timers.add(timer);
        }
    }
    close(options = {}) {
        for (const timer of this.#timers)
            this.#clock.clearTimeout(timer);
        this.#timers.clear();
        for (const client of this.clients.values())
            client.close(options);
    }
}
