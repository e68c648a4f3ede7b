/** Everything public but `Client`, which differs between browsers and Node. */
export { none } from "./codec/codec.js";
export { json } from "./codec/encoding.js";
export { gatewayInfo, shardOf, Shards } from "./client/shards.js";
export { GuildState, StateCache } from "./core/cache.js";
export { consequenceOf } from "./core/closeCodes.js";
export { BLOCK_ROWS, listIdOf, MemberListRows } from "./core/memberList.js";
export { Session } from "./core/session.js";
export * from "./generated/codes.js";
