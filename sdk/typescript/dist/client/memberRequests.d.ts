/**
 * Requests for members (op 8) that wait for their chunks.
 *
 * Limits  a request without a chunk for `CHUNK_TIMEOUT_MS` fails.
 */
import type { Problem, Result } from "../core/problem.js";
import type { GuildMembersChunk, Member, Presence, RateLimited } from "../generated/protocol.js";
import type { Clock } from "./options.js";
/** Which members: by a prefix of their name (empty: all), or by id. */
export type MemberQuery = ({
    readonly query: string;
    readonly limit?: number;
} | {
    readonly userIds: readonly string[];
}) & {
    readonly presences?: boolean;
};
export interface MembersFound {
    readonly members: Member[];
    readonly presences: Presence[];
    /** Requested ids that are no members. */
    readonly notFound: string[];
}
export declare class MemberRequests {
    #private;
    constructor(clock: Clock);
    get isWaiting(): boolean;
    request(guildId: string, query: MemberQuery, send: (d: unknown) => Result): Promise<Result<MembersFound>>;
    handleChunk(chunk: GuildMembersChunk): void;
    handleRateLimited({ opcode, retry_after, meta }: RateLimited): void;
    failAll(problem: Problem): void;
}
