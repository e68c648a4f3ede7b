/**
 * Requests for members (op 8) that wait for their chunks.
 *
 * Limits  a request without a chunk for `CHUNK_TIMEOUT_MS` fails.
 */

import type { Problem, Result } from "../core/problem.js";
import type { GuildMembersChunk, Member, Presence, RateLimited } from "../generated/protocol.js";
import type { Clock } from "./options.js";

const CHUNK_TIMEOUT_MS = 30_000;

/** Which members: by a prefix of their name (empty: all), or by id. */
export type MemberQuery = (
  | { readonly query: string; readonly limit?: number }
  | { readonly userIds: readonly string[] }
) & { readonly presences?: boolean };

export interface MembersFound {
  readonly members: Member[];
  readonly presences: Presence[];
  /** Requested ids that are no members. */
  readonly notFound: string[];
}

interface Waiting {
  readonly guildId: string;
  readonly found: MembersFound;
  readonly settle: (result: Result<MembersFound>) => void;
  timer: unknown;
}

export class MemberRequests {
  #clock: Clock;
  #waiting = new Map<string, Waiting>();
  #next = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  request(guildId: string, query: MemberQuery, send: (d: unknown) => Result): Promise<Result<MembersFound>> {
    this.#next += 1;
    const nonce = `m${this.#next}`;
    const what = "userIds" in query ? { user_ids: query.userIds } : { query: query.query, limit: query.limit ?? 0 };
    return new Promise((resolve) => {
      const waiting: Waiting = {
        guildId,
        found: { members: [], presences: [], notFound: [] },
        timer: null,
        settle: (result) => {
          if (this.#waiting.delete(nonce)) this.#clock.clearTimeout(waiting.timer);
          resolve(result);
        },
      };
      this.#waiting.set(nonce, waiting);
      this.#extend(waiting);
      const sent = send({ guild_id: guildId, ...what, presences: query.presences ?? false, nonce });
      if (!sent.ok) waiting.settle(sent);
    });
  }

  handleChunk(chunk: GuildMembersChunk): void {
    const waiting = this.#waiting.get(chunk.nonce ?? "");
    if (!waiting) return;
    waiting.found.members.push(...chunk.members);
    waiting.found.presences.push(...(chunk.presences ?? []));
    waiting.found.notFound.push(...chunk.not_found);
    if (chunk.chunk_index + 1 >= chunk.chunk_count) waiting.settle({ ok: true, value: waiting.found });
    else this.#extend(waiting);
  }

  handleRateLimited({ opcode, retry_after, meta }: RateLimited): void {
    const waiting = this.#waiting.get(meta.nonce ?? "");
    if (opcode !== 8 || !waiting) return;
    const message = "The whole member list was requested twice within 30 s.";
    waiting.settle({ ok: false, problem: { kind: "rateLimit", message, advice: `Try again in ${retry_after} s.`, isFatal: false } });
  }

  failAll(problem: Problem): void {
    for (const waiting of [...this.#waiting.values()]) waiting.settle({ ok: false, problem });
  }

  #extend(waiting: Waiting): void {
    if (waiting.timer !== null) this.#clock.clearTimeout(waiting.timer);
    waiting.timer = this.#clock.setTimeout(() => {
      const message = `No members of guild ${waiting.guildId} arrived for ${CHUNK_TIMEOUT_MS / 1000} s.`;
      waiting.settle({ ok: false, problem: { kind: "timeout", message, advice: "Try again.", isFatal: false } });
    }, CHUNK_TIMEOUT_MS);
  }
}
