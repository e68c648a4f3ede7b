/**
 * Requests for members (op 8) that wait for their chunks.
 *
 * Limits  a request without a chunk for `CHUNK_TIMEOUT_MS` fails.
 */
const CHUNK_TIMEOUT_MS = 30_000;
export class MemberRequests {
    #clock;
    #waiting = new Map();
    #next = 0;
    constructor(clock) {
        this.#clock = clock;
    }
    get isWaiting() {
        return this.#waiting.size > 0;
    }
    request(guildId, query, send) {
        this.#next += 1;
        const nonce = `m${this.#next}`;
        const what = "userIds" in query ? { user_ids: query.userIds } : { query: query.query, limit: query.limit ?? 0 };
        return new Promise((resolve) => {
            const waiting = {
                guildId,
                found: { members: [], presences: [], notFound: [] },
                timer: null,
                settle: (result) => {
                    if (this.#waiting.delete(nonce))
                        this.#clock.clearTimeout(waiting.timer);
                    resolve(result);
                },
            };
            this.#waiting.set(nonce, waiting);
            this.#extend(waiting);
            const sent = send({ guild_id: guildId, ...what, presences: query.presences ?? false, nonce });
            if (!sent.ok)
                waiting.settle(sent);
        });
    }
    handleChunk(chunk) {
        const waiting = this.#waiting.get(chunk.nonce ?? "");
        if (!waiting)
            return;
        waiting.found.members.push(...chunk.members);
        waiting.found.presences.push(...(chunk.presences ?? []));
        waiting.found.notFound.push(...chunk.not_found);
        if (chunk.chunk_index + 1 >= chunk.chunk_count)
            waiting.settle({ ok: true, value: waiting.found });
        else
            this.#extend(waiting);
    }
    handleRateLimited({ opcode, retry_after, meta }) {
        const waiting = this.#waiting.get(meta.nonce ?? "");
        if (opcode !== 8 || !waiting)
            return;
        const message = "The whole member list was requested twice within 30 s.";
        waiting.settle({ ok: false, problem: { kind: "rateLimit", message, advice: `Try again in ${retry_after} s.`, isFatal: false } });
    }
    failAll(problem) {
        for (const waiting of [...this.#waiting.values()])
            waiting.settle({ ok: false, problem });
    }
    #extend(waiting) {
        if (waiting.timer !== null)
            this.#clock.clearTimeout(waiting.timer);
        waiting.timer = this.#clock.setTimeout(() => {
            const message = `No members of guild ${waiting.guildId} arrived for ${CHUNK_TIMEOUT_MS / 1000} s.`;
            waiting.settle({ ok: false, problem: { kind: "timeout", message, advice: "Try again.", isFatal: false } });
        }, CHUNK_TIMEOUT_MS);
    }
}
