// Member list: rows by index, from the operations of GUILD_MEMBER_LIST_UPDATE (op 37).

import type { Member, Presence } from "./types.ts";

export type Listed = Member & { presence?: Presence };
export type Row = { group: { id: string; count: number } } | { member: Listed };

interface Update {
  member_count: number; online_count: number; groups: { id: string; count: number }[];
  ops: { op: string; range?: [number, number]; items?: Row[]; index?: number; item?: Row }[];
}

export class MemberList {
  /** Sparse: rows outside of the subscribed ranges are unknown. */
  rows = new Map<number, Row>();
  length = 0;
  onlineCount = 0;
  memberCount = 0;

  apply(update: Update, onMember: (member: Listed) => void): void {
    for (const { op, range, items = [], index = 0, item } of update.ops) {
      for (const row of item ? [...items, item] : items) if ("member" in row) onMember(row.member);
      switch (op) {
        case "SYNC": items.forEach((row, at) => this.rows.set((range?.[0] ?? 0) + at, row)); break;
        case "INVALIDATE": for (let at = range?.[0] ?? 0; at <= (range?.[1] ?? -1); at++) this.rows.delete(at); break;
        case "INSERT": if (item) { this.#shift(index, 1); this.rows.set(index, item); } break;
        case "UPDATE": if (item) this.rows.set(index, item); break;
        case "DELETE": this.rows.delete(index); this.#shift(index + 1, -1); break;
      }
    }
    this.length = update.groups.reduce((sum, group) => sum + group.count + 1, 0);
    for (const at of this.rows.keys()) if (at >= this.length) this.rows.delete(at);
    // Headers carry the counts of the moment they were sent; the groups are the truth.
    const counts = new Map(update.groups.map((group) => [group.id, group.count]));
    for (const [at, row] of this.rows) if ("group" in row) { const count = counts.get(row.group.id); if (count !== undefined && count !== row.group.count) this.rows.set(at, { group: { ...row.group, count } }); }
    this.memberCount = update.member_count;
    this.onlineCount = update.online_count;
  }

  #shift(from: number, by: 1 | -1): void {
    const moved = new Map<number, Row>();
    for (const [at, row] of this.rows) moved.set(at >= from ? at + by : at, row);
    this.rows = moved;
  }
}
