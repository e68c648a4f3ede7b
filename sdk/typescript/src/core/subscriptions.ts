/**
 * Subscriptions: what the application wants to see of each guild, sent as op 37 or op 14.
 *
 * Owns        the wanted subscription per guild, and which of its keys the gateway does not know yet.
 * Invariants  only changed keys are sent; after a new session, and after a RESUME, all keys are sent again, because a
 *             command may have been lost with the connection.
 * Limits      one payload has at most `PAYLOAD_CHARS_MAX` characters, below the gateway's limit for a message.
 * Spec        docs/protocol/reference.md §8.4.
 */

import { blocksOf, type RowRange } from "./memberList.js";

const PAYLOAD_CHARS_MAX = 12_000;

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
  channels?: { [channelId: string]: RowRange[] };
  /** Threads whose member lists arrive. */
  thread_member_lists?: string[];
}

export class Subscriptions {
  #wanted = new Map<string, Subscription>();
  #unsent = new Map<string, Set<keyof Subscription>>();

  get(guildId: string): Readonly<Subscription> {
    return this.#wanted.get(guildId) ?? {};
  }

  /** Changes the keys that are present. */
  set(guildId: string, patch: Subscription): void {
    const wanted = this.#wanted.get(guildId) ?? {};
    for (const key of Object.keys(patch) as (keyof Subscription)[]) {
      if (JSON.stringify(wanted[key]) === JSON.stringify(patch[key])) continue;
      (wanted as Record<string, unknown>)[key] = patch[key];
      this.#mark(guildId, key);
    }
    this.#wanted.set(guildId, wanted);
  }

  /** Sets the rows wanted of one channel's member list; none ends it. */
  setRanges(guildId: string, channelId: string, ranges: readonly RowRange[]): void {
    const channels = { ...this.get(guildId).channels };
    const blocks = blocksOf(ranges);
    if (blocks.length > 0) channels[channelId] = blocks;
    else delete channels[channelId];
    this.set(guildId, { channels });
  }

  /** The account left the guild. */
  forget(guildId: string): void {
    this.#wanted.delete(guildId);
    this.#unsent.delete(guildId);
  }

  /** The gateway may know nothing of all this. */
  resendAll(): void {
    for (const [guildId, wanted] of this.#wanted) {
      for (const key of Object.keys(wanted) as (keyof Subscription)[]) this.#mark(guildId, key);
    }
  }

  #mark(guildId: string, key: keyof Subscription): void {
    this.#unsent.set(guildId, (this.#unsent.get(guildId) ?? new Set()).add(key));
  }

  /** Bodies of `op` for everything that is unsent: op 37 has many guilds in each, op 14 one. */
  take(op: 14 | 37): object[] {
    const bodies: object[] = [];
    let subscriptions: { [guildId: string]: Subscription } = {};
    // The first guild begins a body.
    let chars = PAYLOAD_CHARS_MAX;
    for (const [guild_id, keys] of this.#unsent) {
      const wanted = this.get(guild_id);
      const part: Subscription = Object.fromEntries([...keys].map((key) => [key, wanted[key]]));
      if (op === 14) {
        bodies.push({ guild_id, ...part });
        continue;
      }
      const size = JSON.stringify(part).length + guild_id.length + 4;
      if (chars + size > PAYLOAD_CHARS_MAX) {
        subscriptions = {};
        bodies.push({ subscriptions });
        chars = 0;
      }
      subscriptions[guild_id] = part;
      chars += size;
    }
    this.#unsent.clear();
    return bodies;
  }
}
