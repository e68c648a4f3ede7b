import type { Compression } from "../codec/codec.js";
import type { Encoding } from "../codec/encoding.js";
import type { CacheOptions } from "../core/cache.js";
import type { ResumePoint } from "../core/session.js";
import type { OpenSocket } from "../transport/transport.js";
/** Time and timers. */
export interface Clock {
    /** Milliseconds; only differences matter. */
    now(): number;
    setTimeout(callback: () => void, ms: number): unknown;
    clearTimeout(timer: unknown): void;
}
export type Status = "online" | "idle" | "dnd" | "invisible" | "offline";
/** Presence that the client sets. */
export interface PresenceUpdate {
    readonly status: Status;
    readonly activities?: readonly {
        readonly name: string;
        readonly type: number;
        readonly [key: string]: unknown;
    }[];
    readonly since?: number | null;
    readonly afk?: boolean;
}
export interface ClientOptions {
    /** Gateway URL without path and query: `wss://chat.example.net`. */
    readonly url: string;
    /** Bot or user token, or a function that gets one. The client calls it again when the gateway refuses the token. */
    readonly token: string | (() => string | Promise<string>);
    /** Bots: event groups (`Intents`). Leave it out for user accounts. */
    readonly intents?: number;
    /** User accounts: `Capabilities`. Default: LAZY_USER_NOTES, DEDUPE_USER_OBJECTS, PASSIVE_GUILD_UPDATE_V2. */
    readonly capabilities?: number;
    /** Bots: this shard and the number of shards. */
    readonly shard?: readonly [id: number, count: number];
    readonly presence?: PresenceUpdate;
    /** Guilds with more members are sent without offline members; user accounts are passive in them. */
    readonly largeThreshold?: number;
    /** `browser` decides the platform that others see. */
    readonly properties?: {
        readonly os?: string;
        readonly browser?: string;
        readonly device?: string;
    };
    /** Default `json`. */
    readonly encoding?: Encoding;
    /** In the order of preference; the client falls back to the next one if one does not work. Default `[none]`. */
    readonly compression?: Compression | readonly Compression[];
    /**
     * How `subscribe` sends its changes: by op 37, many guilds in a message (the default); or by op 14, one message per
     * guild, for gateways that do not know op 37. Each message counts towards the limit of sends.
     */
    readonly subscriptionOpcode?: 14 | 37;
    /** State cache. Default on; `false` saves its memory and work. */
    readonly cache?: boolean | CacheOptions;
    /** Continues the session of another client, which ended with `close({ keepSession: true })`. */
    readonly resume?: ResumePoint;
    /** Base URL of the node's HTTP, for dictionaries. Default: the gateway URL with `http` instead of `ws`. */
    readonly httpUrl?: string;
    /** Longest first wait before a reconnect, and the longest of all. Defaults 1 s and 60 s. */
    readonly backoffMinMs?: number;
    readonly backoffMaxMs?: number;
    /** When IDENTIFY may be sent, asked for each; default: at once. `Shards` keeps the gateway's limit by it. */
    readonly identifyAt?: (now: number) => number;
    /** For tests. */
    readonly clock?: Clock;
    readonly random?: () => number;
    readonly openSocket?: OpenSocket;
}
export declare const systemClock: Clock;
