/** Everything public but `Client`, which differs between browsers and Node. */
export { none, type Compression, type PrepareContext } from "./codec/codec.js";
export type { Decompressor } from "./codec/compression.js";
export { json, type Encoding, type Envelope, type Payload } from "./codec/encoding.js";
export type { ClientEvents, DispatchContext, Traffic } from "./client/client.js";
export type { MemberListView } from "./client/memberListView.js";
export type { MemberQuery, MembersFound } from "./client/memberRequests.js";
export type { ReceivedMessage } from "./client/message.js";
export type { ClientOptions, Clock, PresenceUpdate } from "./client/options.js";
export { gatewayInfo, shardOf, Shards, type GatewayInfo, type ShardsOptions } from "./client/shards.js";
export { GuildState, StateCache, type CacheOptions, type CachedMember, type Change, type ChangeKind } from "./core/cache.js";
export { consequenceOf, type Consequence } from "./core/closeCodes.js";
export { BLOCK_ROWS, listIdOf, MemberListRows, type RowRange } from "./core/memberList.js";
export type { Problem, ProblemKind, Result } from "./core/problem.js";
export { Session, type Action, type ResumePoint, type SessionOptions, type SessionState } from "./core/session.js";
export type { Subscription } from "./core/subscriptions.js";
export type { OpenSocket, Socket, SocketHandlers } from "./transport/transport.js";
export * from "./generated/codes.js";
export type * from "./generated/protocol.js";
