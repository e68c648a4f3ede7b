/**
 * Shards: several clients of one bot, each with a part of the guilds.
 *
 * Invariants  of the shards with the same `id % maxConcurrency`, one sends IDENTIFY per `IDENTIFY_INTERVAL_MS`, also after a
 *             reconnect.
 * Spec        docs/protocol/reference.md §3.
 */
import type { Result } from "../core/problem.js";
import type { Client } from "./client.js";
import { type ClientOptions } from "./options.js";
/** Answer of `GET /gateway/bot`. */
export interface GatewayInfo {
    readonly url: string;
    /** Number of shards that the gateway recommends. */
    readonly shards: number;
    readonly session_start_limit: {
        readonly total: number;
        readonly remaining: number;
        readonly reset_after: number;
        readonly max_concurrency: number;
    };
}
/** Fetches the gateway's URL and the recommended number of shards. `apiUrl` is the base of REST: `https://host/api`. */
export declare function gatewayInfo(apiUrl: string, botToken: string): Promise<Result<GatewayInfo>>;
/** The shard that has a guild. */
export declare function shardOf(guildId: string, count: number): number;
export interface ShardsOptions extends Omit<ClientOptions, "shard" | "resume"> {
    readonly intents: number;
    /** Number of all shards, also of those in other processes. */
    readonly count: number;
    /** Shards of this process. Default: all. */
    readonly ids?: readonly number[];
    /** `session_start_limit.max_concurrency` of `gatewayInfo`. Default 1. */
    readonly maxConcurrency?: number;
}
/** When a shard may send IDENTIFY: each call takes the next free time of the shard's key. */
export declare class IdentifyLimit {
    #private;
    constructor(maxConcurrency: number);
    take(now: number, shardId: number): number;
}
export declare class Shards<C extends Client> {
    #private;
    /** By shard id. */
    readonly clients: ReadonlyMap<number, C>;
    readonly count: number;
    /** `create` makes the client of one shard: `new Shards(options, (of) => new Client(of))`. Add listeners to `clients`. */
    constructor(options: ShardsOptions, create: (options: ClientOptions) => C);
    /** The client of a guild; undefined if another process has its shard. */
    of(guildId: string): C | undefined;
    /** Connects the shards in order, each when it may send IDENTIFY: the gateway closes connections that wait too long. */
    connect(): void;
    close(options?: {
        readonly keepSession?: boolean;
    }): void;
}
