/**
 * Subscriptions: what the application wants to see of each guild, sent as op 37 or op 14.
 *
 * Owns        the wanted subscription per guild, and which of its keys the gateway does not know yet.
 * Invariants  only changed keys are sent; after a new session, and after a RESUME, all keys are sent again, because a
 *             command may have been lost with the connection.
 * Limits      one payload has at most `PAYLOAD_CHARS_MAX` characters, below the gateway's limit for a message.
 * Spec        docs/protocol/reference.md §8.4.
 */
import { type RowRange } from "./memberList.js";
/** Subscription to one guild. Absent keys are not changed. */
export interface Subscription {
    /** Active: messages, typing and voice states arrive as they happen. */
    typing?: boolean;
    activities?: boolean;
    threads?: boolean;
    member_updates?: boolean;
    /** Users whose presences and member updates arrive. At most 100. */
    members?: string[];
    /** Rows of member lists, by channel. At most 5 channels. */
    channels?: {
        [channelId: string]: RowRange[];
    };
    /** Threads whose member lists arrive. */
    thread_member_lists?: string[];
}
export declare class Subscriptions {
    #private;
    get(guildId: string): Readonly<Subscription>;
    /** Changes the keys that are present. */
    set(guildId: string, patch: Subscription): void;
    /** Sets the rows wanted of one channel's member list; none ends it. */
    setRanges(guildId: string, channelId: string, ranges: readonly RowRange[]): void;
    /** The account left the guild. */
    forget(guildId: string): void;
    /** The gateway may know nothing of all this. */
    resendAll(): void;
    /** Bodies of `op` for everything that is unsent: op 37 has many guilds in each, op 14 one. */
    take(op: 14 | 37): object[];
}
