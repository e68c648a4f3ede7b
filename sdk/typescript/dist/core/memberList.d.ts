/**
 * Member list: rows of a channel's member list, kept up to date by op 37 and GUILD_MEMBER_LIST_UPDATE.
 *
 * Spec        docs/protocol/reference.md §8.6.
 * Limits      ranges: at most `RANGES_MAX` blocks of `BLOCK_ROWS` rows; further ones are left out.
 */
import type { Channel, MemberListGroup, MemberListItem, MemberListUpdate } from "../generated/protocol.js";
export declare const BLOCK_ROWS = 100;
export declare const RANGES_MAX = 5;
/** First and last row, both included. */
export type RowRange = readonly [first: number, last: number];
/** murmur3 x86 32 bit of ASCII text, seed 0. */
export declare function murmur3(text: string): number;
/** Id of the list that a channel shows: channels with the same visibility share a list. */
export declare function listIdOf(channel: Pick<Channel, "permission_overwrites">, everyonePermissions: string): string;
/** Rounds ranges to blocks of rows, joins them and drops those past the limit. */
export declare function blocksOf(ranges: readonly RowRange[]): RowRange[];
/** Rows of one list. A row that no subscribed range covers is undefined. */
export declare class MemberListRows {
    #private;
    groups: readonly MemberListGroup[];
    memberCount: number;
    onlineCount: number;
    get rows(): readonly (MemberListItem | undefined)[];
    /** Number of rows of the whole list, headers included. */
    get length(): number;
    apply(update: MemberListUpdate): void;
    clear(): void;
}
