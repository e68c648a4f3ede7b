/**
 * Client: drives one `Session` with a socket, timers and codecs, and passes on what happens.
 *
 * Invariants  C1 a message's body is decoded only if the session, the cache, a view or a listener needs it, and once.
 *             C2 a late event of an older socket reaches nothing.
 * Limits      outbound messages: `BOT_MESSAGE_BYTES_MAX`, `USER_MESSAGE_BYTES_MAX`; larger ones are refused.
 */
import { type Compression } from "../codec/codec.js";
import { type Encoding } from "../codec/encoding.js";
import { StateCache, type Change } from "../core/cache.js";
import { type Problem, type Result } from "../core/problem.js";
import { type ResumePoint, type SessionState } from "../core/session.js";
import { type Subscription } from "../core/subscriptions.js";
import { Emitter } from "../emitter.js";
import type { EventBodies } from "../generated/protocol.js";
import type { OpenSocket } from "../transport/transport.js";
import { MemberListView } from "./memberListView.js";
import { type MemberQuery, type MembersFound } from "./memberRequests.js";
import { ReceivedMessage } from "./message.js";
import { type ClientOptions, type PresenceUpdate } from "./options.js";
/** About a dispatch, beside its body. */
export interface DispatchContext {
    readonly name: string;
    readonly seq: number;
    /** Part of a replay after RESUME. */
    readonly isReplay: boolean;
}
/** Events of the client itself. The events of the gateway are in `EventBodies`, in upper case. */
export interface ClientEvents {
    /** The state of the session changed. */
    state: [change: {
        readonly from: SessionState;
        readonly to: SessionState;
    }];
    /** READY: a new session began. */
    began: [];
    /** The session was resumed; `replayed` events arrived again in order. */
    resumed: [info: {
        readonly replayed: number;
        readonly downMs: number;
    }];
    /** Sequence numbers between `after` and `before` never arrived; `before` ≤ `after`: one arrived twice and was dropped. */
    gap: [info: {
        readonly after: number;
        readonly before: number;
    }];
    /** The session is gone: events since then are lost, a new READY follows. */
    lost: [problem: Problem];
    /** The connection ended; the next attempt follows after `delayMs`. */
    reconnect: [info: {
        readonly attempt: number;
        readonly delayMs: number;
        readonly willResume: boolean;
        readonly problem: Problem;
    }];
    /** The client gave up, or was closed. */
    stopped: [problem: Problem];
    /** Something to know that does not stop the client. */
    problem: [problem: Problem];
    /** A compression does not work here; the client uses the next one. */
    codecFallback: [info: {
        readonly from: string;
        readonly to: string;
        readonly reason: string;
    }];
    /** Round trip of a heartbeat. */
    latency: [ms: number];
    /** Every message of the gateway, before anything else uses it: bytes, name and sequence number. */
    message: [message: ReceivedMessage];
    /** A message was sent. */
    sent: [info: {
        readonly op: number;
        readonly wireBytes: number;
    }];
    /** Every dispatch, after the cache and before the listeners of its name. */
    dispatch: [body: unknown, context: DispatchContext];
    /** An entity of the cache changed. */
    change: [change: Change];
}
type AllEvents = ClientEvents & {
    [K in keyof EventBodies]: [body: EventBodies[K], context: DispatchContext];
};
/** Bytes and messages of the current connection, or of all. */
export interface Traffic {
    messages: number;
    /** Bytes received on the wire; messages whose size the runtime hides count with their raw size. */
    wireBytes: number;
    sentMessages: number;
    sentBytes: number;
}
export declare class Client extends Emitter<AllEvents> {
    #private;
    /** State of guilds, channels, members …; null if the option `cache` is false. */
    readonly cache: StateCache | null;
    readonly traffic: Traffic;
    constructor(options: ClientOptions);
    get state(): SessionState;
    /** The last sequence number. */
    get seq(): number;
    /** What another client needs to continue the session; null without a session. */
    get resumePoint(): ResumePoint | null;
    /** Names of the encoding and the compression of the current or next connection. */
    get codec(): {
        readonly encoding: "json" | "etf";
        readonly compression: string;
    };
    /** Opens the connection. Everything that follows is an event. */
    connect(): void;
    /** Resolves when the session is ready, or with the problem that stopped the client. */
    ready(): Promise<Result>;
    /** Ends the session; with `keepSession`, `resumePoint` continues it within the gateway's resume window. */
    close(options?: {
        readonly keepSession?: boolean;
    }): void;
    /** Breaks the connection and resumes: after a change of network, or with other codecs. */
    reconnect(options?: {
        readonly encoding?: Encoding;
        readonly compression?: Compression | readonly Compression[];
        readonly reason?: string;
    }): void;
    /** Ends the wait before the next attempt, if there is one: when the network is back. */
    retryNow(): void;
    /** Sends any command (`Opcode`) as soon as the session and the rate limit permit. */
    send(op: number, d: unknown): Result;
    /** Sets the presence, also of later sessions (op 3). */
    setPresence(presence: PresenceUpdate): Result;
    /** Joins, changes or leaves (`channelId` null) voice in a guild (op 4). */
    setVoice(guildId: string | null, channelId: string | null, options?: {
        readonly selfMute?: boolean;
        readonly selfDeaf?: boolean;
    }): Result;
    /** Members by name prefix, by id, or all (op 8). Collects the chunks. */
    requestMembers(guildId: string, query: MemberQuery): Promise<Result<MembersFound>>;
    /** Changes the subscription to a guild (op 37, or `subscriptionOpcode`). Changes within 50 ms are sent together. */
    subscribe(guildId: string, patch: Subscription): void;
    /**
     * The user looks at this guild: the session becomes active in it, and everything arrives as it happens. Call the
     * returned function when the user no longer does; then only passive updates arrive. Calls are counted.
     */
    openGuild(guildId: string): () => void;
    /** Whether `openGuild` is in effect. */
    isGuildOpen(guildId: string): boolean;
    /** The member list of a channel. Rows arrive after `setRanges`. Close the view when it is no longer shown. */
    memberList(guildId: string, channelId: string): MemberListView;
    /** Socket of the runtime; Node's build replaces it. */
    protected get openSocket(): OpenSocket;
}
export {};
