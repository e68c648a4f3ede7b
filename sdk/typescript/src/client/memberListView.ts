/** A channel's member list, as a user interface shows it. */

import type { StateCache } from "../core/cache.js";
import { listIdOf, MemberListRows, type RowRange } from "../core/memberList.js";
import { Emitter } from "../emitter.js";
import type { Channel, MemberListGroup, MemberListItem, MemberListUpdate, Thread } from "../generated/protocol.js";

interface Doors {
  readonly setRanges: (ranges: readonly RowRange[]) => void;
  readonly closed: () => void;
}

export class MemberListView extends Emitter<{ change: [] }> {
  readonly guildId: string;
  readonly channelId: string;
  #cache: StateCache | null;
  #doors: Doors;
  #rows = new MemberListRows();
  #listId: string | null = null;

  constructor(guildId: string, channelId: string, cache: StateCache | null, doors: Doors) {
    super();
    this.guildId = guildId;
    this.channelId = channelId;
    this.#cache = cache;
    this.#doors = doors;
  }

  /** Rows in display order: headers (`group`) and members. A row outside of the ranges is undefined. */
  get rows(): readonly (MemberListItem | undefined)[] {
    return this.#rows.rows;
  }

  /** Number of rows of the whole list, headers included: the height of a virtualised list. */
  get length(): number {
    return this.#rows.length;
  }

  get groups(): readonly MemberListGroup[] {
    return this.#rows.groups;
  }

  get memberCount(): number {
    return this.#rows.memberCount;
  }

  get onlineCount(): number {
    return this.#rows.onlineCount;
  }

  /** Rows to keep current: those on the screen. Rounded to blocks of 100; at most five blocks. */
  setRanges(ranges: readonly RowRange[]): void {
    this.#doors.setRanges(ranges);
  }

  close(): void {
    this.#doors.setRanges([]);
    this.#doors.closed();
  }

  /** @internal */
  handleUpdate(update: MemberListUpdate): void {
    if (update.guild_id !== this.guildId) return;
    const expected = this.#expectedId();
    // Without a cache the first list of the guild is this one's.
    if (expected !== null ? update.id !== expected : this.#listId !== null && update.id !== this.#listId) return;
    if (this.#listId !== update.id) this.#rows.clear();
    this.#listId = update.id;
    this.#rows.apply(update);
    this.emit("change");
  }

  /** @internal A new session: all rows arrive again. */
  handleLost(): void {
    this.#rows.clear();
    this.#listId = null;
    this.emit("change");
  }

  #expectedId(): string | null {
    const guild = this.#cache?.guilds.get(this.guildId);
    const everyone = guild?.roles.get(this.guildId);
    const thread: Thread | undefined = guild?.threads.get(this.channelId);
    const channel: Channel | undefined = guild?.channels.get(thread?.parent_id ?? this.channelId);
    return channel && everyone ? listIdOf(channel, everyone.permissions) : null;
  }
}
