/** A channel's member list, as a user interface shows it. */
import type { StateCache } from "../core/cache.js";
import { type RowRange } from "../core/memberList.js";
import { Emitter } from "../emitter.js";
import type { MemberListGroup, MemberListItem, MemberListUpdate } from "../generated/protocol.js";
interface Doors {
    readonly setRanges: (ranges: readonly RowRange[]) => void;
    readonly closed: () => void;
}
export declare class MemberListView extends Emitter<{
    change: [];
}> {
    #private;
    readonly guildId: string;
    readonly channelId: string;
    constructor(guildId: string, channelId: string, cache: StateCache | null, doors: Doors);
    /** Rows in display order: headers (`group`) and members. A row outside of the ranges is undefined. */
    get rows(): readonly (MemberListItem | undefined)[];
    /** Number of rows of the whole list, headers included: the height of a virtualised list. */
    get length(): number;
    get groups(): readonly MemberListGroup[];
    get memberCount(): number;
    get onlineCount(): number;
    /** Rows to keep current: those on the screen. Rounded to blocks of 100; at most five blocks. */
    setRanges(ranges: readonly RowRange[]): void;
    close(): void;
    /** @internal */
    handleUpdate(update: MemberListUpdate): void;
    /** @internal A new session: all rows arrive again. */
    handleLost(): void;
}
export {};
