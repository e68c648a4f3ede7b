/**
 * Member list: rows of a channel's member list, kept up to date by op 37 and GUILD_MEMBER_LIST_UPDATE.
 *
 * Spec        docs/protocol/reference.md §8.6.
 * Limits      ranges: at most `RANGES_MAX` blocks of `BLOCK_ROWS` rows; further ones are left out.
 */
export const BLOCK_ROWS = 100;
export const RANGES_MAX = 5;
const VIEW_CHANNEL = 1n << 10n;
/** murmur3 x86 32 bit of ASCII text, seed 0. */
export function murmur3(text) {
    const size = text.length;
    let hash = 0;
    const mix = (k) => {
        const scaled = Math.imul(k, 0xcc9e2d51);
        return Math.imul((scaled << 15) | (scaled >>> 17), 0x1b873593);
    };
    let at = 0;
    for (; at + 4 <= size; at += 4) {
        const k = text.charCodeAt(at) | (text.charCodeAt(at + 1) << 8) | (text.charCodeAt(at + 2) << 16) | (text.charCodeAt(at + 3) << 24);
        hash ^= mix(k);
        hash = (Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe6546b64) | 0;
    }
    let tail = 0;
    for (let i = size - 1; i >= at; i -= 1)
        tail = (tail << 8) | text.charCodeAt(i);
    if (at < size)
        hash ^= mix(tail);
    hash ^= size;
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    return (hash ^ (hash >>> 16)) >>> 0;
}
/** Id of the list that a channel shows: channels with the same visibility share a list. */
export function listIdOf(channel, everyonePermissions) {
    const overwrites = channel.permission_overwrites ?? [];
    const has = (bits) => (BigInt(bits) & VIEW_CHANNEL) !== 0n;
    if (has(everyonePermissions) && !overwrites.some((of) => has(of.deny)))
        return "everyone";
    const tokens = [];
    for (const { id, allow, deny } of overwrites) {
        if (has(allow))
            tokens.push(`allow:${id}`);
        else if (has(deny))
            tokens.push(`deny:${id}`);
    }
    return String(murmur3(tokens.sort().join(",")));
}
/** Rounds ranges to blocks of rows, joins them and drops those past the limit. */
export function blocksOf(ranges) {
    const blocks = new Set();
    for (const [first, last] of ranges) {
        if (!(first >= 0 && last >= first))
            continue;
        for (let block = Math.floor(first / BLOCK_ROWS); block <= Math.floor(last / BLOCK_ROWS); block += 1) {
            blocks.add(block);
            if (blocks.size >= RANGES_MAX)
                break;
        }
    }
    return [...blocks].sort((a, b) => a - b).map((block) => [block * BLOCK_ROWS, block * BLOCK_ROWS + BLOCK_ROWS - 1]);
}
/** Rows of one list. A row that no subscribed range covers is undefined. */
export class MemberListRows {
    #rows = [];
    groups = [];
    memberCount = 0;
    onlineCount = 0;
    get rows() {
        return this.#rows;
    }
    /** Number of rows of the whole list, headers included. */
    get length() {
        return this.groups.reduce((sum, group) => sum + group.count + 1, 0);
    }
    apply(update) {
        const rows = this.#rows;
        for (const op of update.ops) {
            switch (op.op) {
                case "SYNC": {
                    const [first, last] = op.range;
                    while (rows.length < first)
                        rows.push(undefined);
                    for (let i = first; i <= last; i += 1) {
                        const item = op.items[i - first];
                        if (item)
                            rows[i] = item;
                        else if (i < rows.length)
                            rows[i] = undefined;
                    }
                    break;
                }
                case "INSERT":
                    while (rows.length < op.index)
                        rows.push(undefined);
                    rows.splice(op.index, 0, op.item);
                    break;
                case "UPDATE":
                    while (rows.length < op.index)
                        rows.push(undefined);
                    rows[op.index] = op.item;
                    break;
                case "DELETE":
                    if (op.index < rows.length)
                        rows.splice(op.index, 1);
                    break;
                case "INVALIDATE": {
                    const [first, last] = op.range;
                    for (let i = first; i <= last && i < rows.length; i += 1)
                        rows[i] = undefined;
                    break;
                }
            }
        }
        this.groups = update.groups;
        this.memberCount = update.member_count;
        this.onlineCount = update.online_count;
        if (rows.length > this.length)
            rows.length = this.length;
    }
    clear() {
        this.#rows = [];
        this.groups = [];
    }
}
