// Reports of the node below `/v1/node`: `guildhall_accounting::report`, field by field.

export interface Named { name: string; value: number }
export interface Times { count_total: number; ns_total: number; max_ns: number; p50_ns: number; p99_ns: number; buckets: [number, number][] }
export interface MessageType { name: string; times: Times }
export interface Loop { name: string; index: number; busy_ns_total: number; mailbox: number; waiting: Times; types: MessageType[] }
export interface Owner { name: string; bytes: number; elements: number; is_exact: boolean }
export interface Connections {
  sockets: number; gateway: number; sessions_live: number; sessions_resumable: number;
  by_codec: Named[]; by_encoding: Named[]; by_platform: Named[]; active: number; passive: number;
}
export interface OverviewReport {
  at_ms: number; started_at_ms: number; version: string; not_ready: string | null; connections: Connections;
  delivery: Times; loops: Loop[]; memory: { resident_bytes: number; limit_bytes: number | null; owners: Owner[] };
}
export interface Way { codec: string; encoding: string; count_total: number; raw_bytes_total: number; wire_bytes_total: number; timed_total: number; timed_ns_total: number }
export interface DispatchType { name: string; ways: Way[] }
export interface BilledWays { count_total: number; raw_bytes_total: number; wire_bytes_total: number; plain_bytes_total: number; zlib_bytes_total: number; zstd_bytes_total: number }
export interface BilledType { name: string; sample: BilledWays; estimate: BilledWays }
export interface Bill {
  one_in: number; sessions: number; sessions_total: number; sessions_dropped_total: number; cpu_ns_total: number;
  sample: BilledWays; estimate: BilledWays; types: BilledType[]; writers: BilledType[];
}
export interface StreamWriter { name: string; sessions: number; memory_bytes: number; count_total: number; raw_bytes_total: number; wire_bytes_total: number; timed_total: number; timed_ns_total: number }
export interface BandwidthReport { at_ms: number; types: DispatchType[]; writers: StreamWriter[]; bill: Bill | null }
export interface Guild {
  id: string; name: string; worker: number; busy_ns_total: number; handled_total: number; events_total: number; deliveries_total: number;
  bytes_total: number; members: number; sessions_active: number; sessions_passive: number; relays: number; mailbox: number;
}
export interface GuildsReport { at_ms: number; loaded: number; guilds: Guild[] }
export interface Relay { partition: number; index: number; active: number; passive: number; deliveries_total: number; bytes_total: number }
export interface Channel { id: string; name: string; kind: string; events_total: number }
export interface GuildReport { at_ms: number; guild: Guild; types: MessageType[]; relays: Relay[]; channels: Channel[] }
export interface Session {
  id: string; user_id: string; username: string; is_bot: boolean; partition: number; shard: [number, number] | null; encoding: string; codec: string | null;
  platform: string; is_connected: boolean; resumable_ms: number | null; guilds: number; seq: number; buffered_events: number; buffered_bytes: number;
  backlog_events: number;
}
export interface SessionsReport { at_ms: number; all: number; is_partial: boolean; sessions: Session[] }
export interface Subscription { guild_id: string; name: string; is_active: boolean; membership: string }
export interface LoggedEvent { seq: number; name: string; bytes: number; is_written: boolean }
export interface SessionReport {
  at_ms: number; session: Session; intents: number; capabilities: number; writer: string | null; stream: StreamCost | null; billed: BilledWays | null; window_bytes: number | null; raw_bytes_total: number | null;
  wire_bytes_total: number | null; blocked_ms: number | null; silent_ms: number | null; subscriptions: Subscription[]; log: LoggedEvent[];
}
export interface StreamCost { moved: string | null; since_ms: number; memory_bytes: number; timed_total: number; timed_ns_total: number }
export interface ContextKind { kind: string; used: number; slot_bytes: number; resident_bytes: number; opened_total: number; refused_total: number }
export interface UpgradesReport { standing: string; explanation: string; share_permille: number; granted_total: number; denied_total: number; reclaimed_total: number }
export interface SharedMatch {
  heap_bytes: number; texts_total: number; parses_total: number; written_total: number; fallbacks_total: number; late_total: number; alone_total: number;
  checked_total: number; mismatches_total: number;
}
export interface ContextMoves { crowd_total: number; cpu_total: number; memory_total: number }
export interface CompressionReport {
  at_ms: number; streams: string; contexts: ContextKind[]; bytes_max: number; stored_total: number; upgrades: UpgradesReport | null; shared_match: SharedMatch;
  context_moves: ContextMoves; deflate_shared_bodies_total: number;
}
export interface Setting { name: string; value: string; origin: string; is_live: boolean }
export interface Refusal { what: string; reason: string; count_total: number }
export interface Warning { at_ms: number; level: string; target: string; text: string }
export interface OperationsReport { at_ms: number; settings: Setting[]; is_draining: boolean; refused: Refusal[]; slow_consumers_total: number; warnings: Warning[] }
export interface Caller { id: string; name: string; requests: number; requests_over: number; busy_ns: number }
export interface CallersReport { at_ms: number; window_s: number; requests: number; busy_ns: number; accounts: Caller[]; keys: Caller[]; addresses: Caller[] }
export interface GuildFiles { id: string; name: string; files: number; bytes: number }
export interface Uploader { id: string; name: string; day_bytes: number }
export interface FilesReport {
  at_ms: number; bytes: number; bytes_max: number; pictures_bytes: number; attachments_bytes_max: number; guild_bytes_max: number; account_day_bytes_max: number | null;
  guilds: GuildFiles[]; uploaders: Uploader[];
}

export type * from "./lab.ts";
