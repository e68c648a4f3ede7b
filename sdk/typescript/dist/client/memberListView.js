/** A channel's member list, as a user interface shows it. */
import { listIdOf, MemberListRows } from "../core/memberList.js";
import { Emitter } from "../emitter.js";
export class MemberListView extends Emitter {
    guildId;
    channelId;
    #cache;
    #doors;
    #rows = new MemberListRows();
    #listId = null;
    constructor(guildId, channelId, cache, doors) {
        super();
        this.guildId = guildId;
        this.channelId = channelId;
        this.#cache = cache;
        this.#doors = doors;
    }
    /** Rows in display order: headers (`group`) and members. A row outside of the ranges is undefined. */
    get rows() {
        return this.#rows.rows;
    }
    /** Number of rows of the whole list, headers included: the height of a virtualised list. */
    get length() {
        return this.#rows.length;
    }
    get groups() {
        return this.#rows.groups;
    }
    get memberCount() {
        return this.#rows.memberCount;
    }
    get onlineCount() {
        return this.#rows.onlineCount;
    }
    /** Rows to keep current: those on the screen. Rounded to blocks of 100; at most five blocks. */
    setRanges(ranges) {
        this.#doors.setRanges(ranges);
    }
    close() {
        this.#doors.setRanges([]);
        this.#doors.closed();
    }
    /** @internal */
    handleUpdate(update) {
        if (update.guild_id !== this.guildId)
            return;
        const expected = this.#expectedId();
        // Without a cache the first list of the guild is this one's.
        if (expected !== null ? update.id !== expected : this.#listId !== null && update.id !== this.#listId)
            return;
        if (this.#listId !== update.id)
            this.#rows.clear();
        this.#listId = update.id;
        this.#rows.apply(update);
        this.emit("change");
    }
    /** @internal A new session: all rows arrive again. */
    handleLost() {
        this.#rows.clear();
        this.#listId = null;
        this.emit("change");
    }
    #expectedId() {
        const guild = this.#cache?.guilds.get(this.guildId);
        const everyone = guild?.roles.get(this.guildId);
        const thread = guild?.threads.get(this.channelId);
        const channel = guild?.channels.get(thread?.parent_id ?? this.channelId);
        return channel && everyone ? listIdOf(channel, everyone.permissions) : null;
    }
}
