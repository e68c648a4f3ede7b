// Generated from the OpenAPI document. Do not edit: GUILDHALL_UPDATE_DOCS=1 cargo test -p guildhall-backend --test it the_types

/** A body of lines, a JSON value each. */
export type Lines = { readonly lines: unique symbol };

/** Mentions that count. */
export interface AllowedMentionsBody {
  /** Kinds of mentions: `users`, `roles`, `everyone`. */
  parse?: string[];
  /** The author of the message that it replies to. */
  replied_user?: boolean;
  /** Roles. Not with `roles` in `parse`. */
  roles?: Snowflake[];
  /** Accounts. Not with `users` in `parse`. */
  users?: Snowflake[];
}

/** A snowflake, or `ext:` and an external id; in paths percent-encoded. */
export type AnyId = string;

/** A token as a client sends it. */
export interface AnyToken {
  /** The token, with or without `Bot ` or `Bearer `, up to 4,096 bytes. */
  token: string;
}

/**
 * Recipients of an event: `guild` alone; `channel`, optionally with its `guild`; `roles` with their `guild`; `users`,
 * optionally with a `guild`.
 */
export interface Audience {
  channel?: (AnyId | null);
  guild?: (AnyId | null);
  /** Members of `guild` with any of these roles. */
  roles?: (Snowflake[] | null);
  /** These accounts: as members of `guild` if that is given, else all their sessions. */
  users?: (AnyId[] | null);
}

/** A page of entries. */
export interface AuditEntries {
  /** Oldest first. Fewer than `limit` on the last page. */
  entries: AuditEntry[];
}

/** An audit entry: one request of a backend. */
export interface AuditEntry {
  /** Method and pattern of the route. */
  action: string;
  /** Time of the answer. */
  at: Time;
  /** Id, ascending with time. */
  id: Snowflake;
  key_id?: (Snowflake | null);
  /** Ids in the path by name, and the id of a created key. */
  object: { [name: string]: string };
  /** HTTP status of the answer; for a stream, of its start. */
  status: number;
}

/** An account that cannot join the guild. */
export interface Ban {
  reason?: (string | null);
  /** The banned account. */
  user: User;
}

/** A ban to put. */
export interface BanPut {
  /** Messages of the account in the guild that are younger than this are deleted. */
  delete_message_seconds?: number;
  /** Reason of the ban, for moderators. */
  reason?: (string | null);
}

/** A channel of a guild. */
export type Channel = (ChannelFields & {
  /** Id of its guild. */
  guild_id: Snowflake;
  /** Id of the channel. */
  id: Snowflake;
  last_message_id?: (Snowflake | null);
});

/** All fields of a channel. */
export interface ChannelFields {
  /** Bits per second; voice only. */
  bitrate?: number;
  /**
   * Key of the channel in your own database: unique among channels, never sent to clients. Omitted:
   * unchanged. Null: none.
   */
  external_id?: (string | null);
  /** Name of the channel. */
  name: string;
  /** Whether the channel is age-restricted. */
  nsfw?: boolean;
  parent_id?: (Snowflake | null);
  /** Permission overwrites for roles and members of the guild. Roles must exist. */
  permission_overwrites?: OverwriteBody[];
  /** Clients sort by position, then by id. */
  position?: number;
  /** Slow mode: seconds between two messages of a member; 0 for none. */
  rate_limit_per_user?: number;
  /** Topic shown above the channel. */
  topic?: (string | null);
  /** 0 text, 2 voice, 4 category, 5 announcement, 13 stage, 15 forum, 16 media. Only 0 can become 5, and 5 become 0. */
  type: number;
  /** Limit of members in voice; 0 for no limit. */
  user_limit?: number;
}

/** Fields of a channel to change, as for PUT. The type stays. */
export interface ChannelPatch {
  bitrate?: (number | null);
  external_id?: (string | null);
  name?: (string | null);
  nsfw?: (boolean | null);
  parent_id?: (Snowflake | null);
  permission_overwrites?: (OverwriteBody[] | null);
  position?: (number | null);
  rate_limit_per_user?: (number | null);
  topic?: (string | null);
  user_limit?: (number | null);
}

/** All fields of a channel. */
export interface ChannelPut {
  /** Bits per second; voice only. */
  bitrate?: number;
  /**
   * Key of the channel in your own database: unique among channels, never sent to clients. Omitted:
   * unchanged. Null: none.
   */
  external_id?: (string | null);
  /** Name of the channel. */
  name: string;
  /** Whether the channel is age-restricted. */
  nsfw?: boolean;
  parent_id?: (Snowflake | null);
  /** Permission overwrites for roles and members of the guild. Roles must exist. */
  permission_overwrites?: OverwriteBody[];
  /** Clients sort by position, then by id. */
  position?: number;
  /** Slow mode: seconds between two messages of a member; 0 for none. */
  rate_limit_per_user?: number;
  /** Topic shown above the channel. */
  topic?: (string | null);
  /** 0 text, 2 voice, 4 category, 5 announcement, 13 stage, 15 forum, 16 media. Only 0 can become 5, and 5 become 0. */
  type: number;
  /** Limit of members in voice; 0 for no limit. */
  user_limit?: number;
}

/** The cluster as the answering node knows it. */
export interface Cluster {
  /** Whether the answering node belongs to a cluster. */
  clustered: boolean;
  /** Guilds that the answering node owns in its cluster. 0 if it is alone, and owns all. */
  guilds: number;
  /** Hand-offs of the answering node since its start. */
  handoffs: Handoffs;
  /** Guilds that are leaving the answering node now. */
  leaving: LeavingGuild[];
  /** The nodes, by number. Empty if the answering node is alone. */
  nodes: ClusterNode[];
  /** Requests of the answering node that other nodes carry out now. */
  requests_elsewhere: number;
  /** Whether the answering node has a valid lease, and serves its guilds. */
  serving: boolean;
  /** Sessions that went from it to others. */
  sessions_moved_away: number;
  /** Sessions that came to the answering node from others, since its start. */
  sessions_moved_here: number;
  /** RESUMEs at it that failed because another node has, or had, the session and did not send it. */
  sessions_not_moved: number;
}

/** Moves of all nodes. */
export interface ClusterMoves {
  /** The last moves that ended, the latest first; at most 32. */
  ended: EndedMove[];
  /** Guilds on their way, the oldest first. */
  leaving: LeavingGuild[];
  /** Numbers of nodes that did not answer: their moves are missing. */
  missing: number[];
}

/** A node of the cluster. */
export interface ClusterNode {
  /** Bytes of these. */
  bytes: number;
  /** Messages to it that were dropped. */
  dropped: number;
  /** Frames that the answering node sent to it. */
  frames: number;
  load?: (ClusterNodeLoad | null);
  /** Name of the node, `cluster.node_name`. */
  name: string;
  /** Number of the node: partitions, sessions and ids of the node contain it. */
  number: number;
  /** Whether it is the node that answers. */
  own: boolean;
  /**
   * `joining`: the node is starting. `active`: it accepts guilds. `draining`: it keeps its guilds and
   * accepts no others.
   */
  state: string;
  /** WebSocket URL of the node. */
  url: string;
  /** Version of the program. */
  version: string;
  /** Messages that wait to be sent to it; null for the own node. */
  waiting?: (number | null);
  /** Share of the guilds. */
  weight: number;
}

/** Load of a node. */
export interface ClusterNodeLoad {
  /** Whether its guilds move for load, and others come (`cluster.balance`). */
  balance: boolean;
  /** Memory in use under the tightest limit; 0: not known. */
  memory_bytes: number;
  /** That limit; 0: not known. */
  memory_bytes_max: number;
  /** Share of the last minute for which each guild worker was busy, in percent. */
  workers_busy_percent: number[];
}

/** Streams that left their context for shared-match (`codec.streams = "auto"`), by the reason. */
export interface ContextMoves {
  /** Contexts took more CPU time than `codec.contexts_cpu_percent`. */
  cpu_total: number;
  /** Their events have many recipients. */
  crowd_total: number;
  /** Contexts held more memory than they may. */
  memory_total: number;
}

/** An arm of a dark launch. */
export interface DarkArm {
  /** The arm, with all its parameters. */
  arm: string;
  /** Memory of one connection, the largest so far. */
  connection_bytes: number;
  /** All dispatches. */
  total: DarkSum;
  /** By dispatch type. */
  types: DarkType[];
}

/** A dark launch. */
export interface DarkLaunch {
  /** Figures of each arm, in the order of the plan. */
  arms: DarkArm[];
  /** CPU time that it has used. */
  cpu_ns: number;
  /** Thousandths of a core that it may use. */
  cpu_permille: number;
  /** Memory of all contexts now. */
  memory_bytes: number;
  /** Sessions so far. */
  sessions: number;
  /**
   * Sessions that left the sample early because the CPU time did not suffice: raise `cpu_permille`, or compare fewer
   * arms. The newest leave first, and later a session is added again.
   */
  sessions_busy: number;
  /** Sessions that were left out because of `memory_bytes_max`. */
  sessions_memory: number;
  /** Sessions that are measured now. It begins with one, and has more while the CPU time suffices. */
  sessions_now: number;
  /** Unix time of the start, seconds. */
  started_at: number;
  /** `running`, `stopped` or `failed`. */
  state: string;
}

/** A dark launch to start. */
export interface DarkPlan {
  /** Arms, such as `zstd:level=3,window=21`. */
  arms: string[];
  /** Thousandths of a core; 0: no session is copied. */
  cpu_permille?: number;
  /** Only sessions with this encoding: `json` or `etf`. */
  encoding?: (string | null);
  guild_id?: (Snowflake | null);
  /** Bytes of all contexts. */
  memory_bytes_max?: number;
  /** One session in this many. */
  one_in?: number;
  /** Only sessions on this platform: `desktop`, `mobile`, `web`, `embedded` or `vr`. */
  platform?: (string | null);
  /** Number of sessions. */
  sessions_max?: number;
}

/** Sums over the dispatches of one arm and type. */
export interface DarkSum {
  /** Number of dispatches. */
  count: number;
  /** CPU time of compression. */
  cpu_ns: number;
  /** Bytes before compression, with WebSocket headers. */
  plain_bytes: number;
  /** Bytes after it, with WebSocket headers. */
  wire_bytes: number;
}

/** A dispatch type in an arm. */
export type DarkType = (DarkSum & {
  /** Name of the event. */
  name: string;
});

/** A delivery that was given up. */
export interface DeadLetter {
  /** Time of the last attempt. */
  at: Time;
  /** Body of the request. */
  body: { [name: string]: unknown };
  /** Why its last attempt failed. */
  error: string;
  /** Number of its events. */
  events: number;
  /** Position of its first event. */
  first: Position;
  id: Snowflake;
  /** Position of its last event. */
  last: Position;
}

/** The share to serve a dictionary to. */
export interface DictionaryShare {
  /**
   * Thousandths of the accounts. A larger share has all accounts of a smaller one. Clients without a token see only
   * dictionaries that are served to all (1000).
   */
  permille?: number;
}

/** A direct message or a group. */
export interface DirectMade {
  channel_id: Snowflake;
  /** Whether it is a group. */
  group: boolean;
}

/** Accounts of a new direct message or group. */
export interface DirectPut {
  /** Whether to create a new group of two. Three or more accounts always form a group. */
  group?: boolean;
  /** 2 to 10 accounts. The first owns a group; the order of two accounts of a direct message does not matter. */
  user_ids: AnyId[];
}

/** A move that has ended. */
export interface EndedMove {
  /** Bytes of state that were sent. */
  bytes: number;
  /** When the move ended, Unix milliseconds. */
  ended_at_ms: number;
  /** Why the guild was not moved; null if it was. */
  fault?: (string | null);
  /** Number of its owner before. */
  from: number;
  /** Milliseconds for which requests for the guild waited. */
  frozen_ms: number;
  guild_id: Snowflake;
  /** Why it moved, as a clause. */
  reason: string;
  /** Rounds of changes behind the state. */
  rounds: number;
  /** Number of the node to which it moved, or was to move. */
  to: number;
  /** Milliseconds that it took. */
  total_ms: number;
}

/** An event of the feed. */
export interface Event {
  /** When it was stored. */
  at: Time;
  channel_id?: (Snowflake | null);
  /** Body of the event, as clients receive it. */
  data: { [name: string]: unknown };
  guild_id?: (Snowflake | null);
  /** Its position, unique and ascending. */
  position: Position;
  /** Name of the event, as clients receive it. */
  type: string;
}

/** A page of events. */
export interface EventPage {
  /** Oldest first. Empty if nothing matched in time. */
  events: Event[];
  /** `after` of the next request. */
  next: Position;
}

/** An experiment. */
export interface Experiment {
  /** Chance of a false alarm of all guardrails together. */
  alpha: number;
  /** The first is the control. */
  arms: ExperimentArm[];
  /** Accounts that may take part. */
  audience: ExperimentAudience;
  /** Name of the key that changed it last; `guardrail` after a rollback. */
  changed_by: string;
  /** Unix time of its creation, seconds. */
  created_at: number;
  /** Unix time of its end, seconds. */
  ended_at?: (number | null);
  /** First thousandth in the layer. */
  first_slot: number;
  /** Experiments of one layer have no account in common. */
  layer: string;
  /** Name of the experiment. */
  name: string;
  /** Thousandths of the accounts that take part. */
  permille: number;
  /** Why it was stopped or rolled back. */
  reason?: (string | null);
  /** A rollback sends op 7 to clients that have one of the arms. */
  reconnect_on_rollback: boolean;
  /** Running clients were, or are, sent op 7 when it ended. */
  reconnected: boolean;
  /** Decides the arm of each account, together with its id. */
  salt: string;
  /** Samples of both arms before a guardrail may stop it. */
  samples_min: number;
  /** Unix time of its start, seconds. */
  started_at?: (number | null);
  /** State of the experiment. */
  state: ExperimentState;
  /** How much worse an arm may be without an alarm, percent. */
  tolerance_percent: number;
}

/** An arm of an experiment. With neither `arm` nor `policy` it is written as the node's settings have it. */
export interface ExperimentArm {
  /**
   * `zlib` or `zstd` with parameters, such as `zstd:level=3`: a context with these, to the end of the stream. Or
   * `shared-match`. Or `zstd:dict=ID`: `GET /dictionaries` offers this dictionary to the accounts of the arm.
   */
  arm?: (string | null);
  /** Name of the arm, such as `control`. */
  name: string;
  /**
   * `context`: the node's context to the end of the stream; `larger`: one with each size a step up; `shared-match`:
   * shared-match from the beginning.
   */
  policy?: (string | null);
  /** Share of the accounts that take part, relative to the other arms. */
  weight?: number;
}

/** Figures of an arm. */
export interface ExperimentArmReport {
  /** Connections that began in it. */
  connections: number;
  /** Figures by metric. */
  metrics: ExperimentMetric[];
  /** Name of the arm. */
  name: string;
}

/** Accounts that may take part. */
export interface ExperimentAudience {
  /** True: only bots. False: only accounts that are no bots. */
  bots?: (boolean | null);
  guild_id?: (Snowflake | null);
  /** Only sessions on these platforms: `desktop`, `mobile`, `web`, `embedded` or `vr`. Empty: all. */
  platforms?: string[];
}

/** A change of an experiment. */
export interface ExperimentChange {
  /** Thousandths of the accounts that take part. Accounts that take part before and after it keep their arm. */
  permille?: (number | null);
  /** Starts a draft. */
  start?: boolean;
}

/** Difference between an arm and the control. */
export interface ExperimentComparison {
  /** Mean of the arm minus mean of the control. */
  difference: number;
  /** Upper end of that interval. */
  high: number;
  /** The guardrail's alarm: the interval is above the tolerance. */
  is_worse: boolean;
  /** Lower end of the interval of differences that are not excluded. It is valid however often one looks. */
  low: number;
}

/** A metric of an arm, of which more is worse. */
export interface ExperimentMetric {
  comparison?: (ExperimentComparison | null);
  /** Mean of this arm. */
  mean: number;
  /**
   * `wire_bytes` per dispatch, `cpu_ns` per dispatch, `wait_ms` for the socket per dispatch, `delivery_us` from the
   * guild to the socket; shares: `resumes` of
   * connections, `identifies` that are repetitions, `decode_faults` of connections.
   */
  name: string;
  /** Samples of this arm. */
  samples: number;
}

/** Figures of an experiment. */
export interface ExperimentReport {
  /** In the order of the experiment's arms. */
  arms: ExperimentArmReport[];
  /** Name of the experiment. */
  name: string;
  /** Nodes that answered; samples of those that have ended are in the figures too. */
  nodes: number;
  /** Why it was stopped or rolled back. */
  reason?: (string | null);
  /** Samples of all experiments that were dropped, because too many waited. */
  samples_dropped: number;
  /** State of the experiment. */
  state: ExperimentState;
}

/** State of an experiment. */
export type ExperimentState = "draft" | "running" | "stopped" | "rolled_back";

/** How an experiment is stopped. */
export interface ExperimentStop {
  /** Why, for the record. */
  reason?: (string | null);
  /** Also sends op 7 to clients that have one of its arms, at a bounded rate: they resume as the settings have it. */
  reconnect?: boolean;
}

/** Fault of one field. */
export interface FieldError {
  /** Path of the field: `audience.roles[2]`; empty for the body itself. */
  field: string;
  /** Valid values of the field. */
  message: string;
}

/** The message that another one forwards, as it was then. */
export interface ForwardedMessage {
  attachments: MessageFile[];
  channel_id: Snowflake;
  /** In the form of the protocol. */
  components: ({ [name: string]: unknown })[];
  content: string;
  edited_timestamp?: (Time | null);
  /** In the form of the protocol. */
  embeds: ({ [name: string]: unknown })[];
  guild_id?: (Snowflake | null);
  /** The original. */
  message_id: Snowflake;
  sticker_ids: Snowflake[];
  /** Time of the original. */
  timestamp: Time;
}

/** A page of a search. */
export interface FoundMessages {
  /** Some messages that were sent or changed just now are not searched yet. */
  is_behind: boolean;
  messages: Message[];
  /** Messages that were found; 10,000 if there are more. */
  total: number;
}

/** A guild with its id and number of members. */
export type Guild = (GuildFields & {
  /** Id of the guild. */
  id: Snowflake;
  /** Number of members. */
  member_count: number;
  /** Number of members who are not offline. */
  presence_count: number;
});

/** All fields of a guild itself. */
export interface GuildFields {
  afk_channel_id?: (Snowflake | null);
  /** Seconds of inactivity until then. */
  afk_timeout?: number;
  /** Default notifications: 0 for all messages, 1 for mentions. */
  default_message_notifications?: number;
  /** Description of the guild. */
  description?: (string | null);
  /** Explicit content filter, 0 to 2. */
  explicit_content_filter?: number;
  /**
   * Key of the guild in your own database: unique among guilds, never sent to clients. Omitted:
   * unchanged. Null: none.
   */
  external_id?: (string | null);
  /** Feature names, sent to clients unchanged. */
  features?: string[];
  /** Hash of the icon. */
  icon?: (string | null);
  /** Name of the guild. */
  name: string;
  /** Owner, with all permissions: an existing account, and a member if the guild exists. */
  owner_id: AnyId;
  /** Preferred language, like `en-US`. */
  preferred_locale?: string;
  system_channel_id?: (Snowflake | null);
  /** Verification level, 0 to 4. */
  verification_level?: number;
}

/** A page of guilds. */
export interface GuildIds {
  /** Ascending ids. Fewer than `limit` on the last page. */
  guild_ids: Snowflake[];
}

/** Where to move a guild. */
export interface GuildMove {
  /** Number or name (`cluster.node_name`) of the node. */
  node: string;
}

/** A move of a guild. */
export interface GuildMoved {
  /** Bytes of state that were sent. */
  bytes: number;
  /**
   * Whether the other node owns the guild. If not, the move continues, and is in `leaving` of the owner's
   * `GET /v1/cluster`.
   */
  done: boolean;
  /** Milliseconds for which requests for the guild waited. */
  frozen_ms: number;
  /** Members of the guild. */
  members: number;
  /** Rounds of changes behind the state. */
  rounds: number;
  /** Milliseconds that it took. */
  total_ms: number;
}

/** Owner of a guild. */
export interface GuildOwner {
  /** Number of the node that serves the guild; null if none does: the first who needs the guild has it served. */
  node?: (number | null);
}

/** Fields of a guild to change, as for PUT. */
export interface GuildPatch {
  afk_channel_id?: (Snowflake | null);
  afk_timeout?: (number | null);
  default_message_notifications?: (number | null);
  description?: (string | null);
  explicit_content_filter?: (number | null);
  external_id?: (string | null);
  features?: (string[] | null);
  icon?: (string | null);
  name?: (string | null);
  owner_id?: (AnyId | null);
  preferred_locale?: (string | null);
  system_channel_id?: (Snowflake | null);
  verification_level?: (number | null);
}

/** All fields of a guild itself. */
export interface GuildPut {
  afk_channel_id?: (Snowflake | null);
  /** Seconds of inactivity until then. */
  afk_timeout?: number;
  /** Default notifications: 0 for all messages, 1 for mentions. */
  default_message_notifications?: number;
  /** Description of the guild. */
  description?: (string | null);
  /** Explicit content filter, 0 to 2. */
  explicit_content_filter?: number;
  /**
   * Key of the guild in your own database: unique among guilds, never sent to clients. Omitted:
   * unchanged. Null: none.
   */
  external_id?: (string | null);
  /** Feature names, sent to clients unchanged. */
  features?: string[];
  /** Hash of the icon. */
  icon?: (string | null);
  /** Name of the guild. */
  name: string;
  /** Owner, with all permissions: an existing account, and a member if the guild exists. */
  owner_id: AnyId;
  /** Preferred language, like `en-US`. */
  preferred_locale?: string;
  system_channel_id?: (Snowflake | null);
  /** Verification level, 0 to 4. */
  verification_level?: number;
}

/** Guilds of an account. */
export interface GuildsOfUser {
  /** Ids in ascending order. */
  guild_ids: Snowflake[];
}

/** Hand-offs of a node since its start. */
export interface Handoffs {
  /** Guilds that others handed over to it. */
  arrived: number;
  /** Bytes of state that it sent. */
  bytes: number;
  /** Attempts that failed; the log has the reason of each. */
  failed: number;
  /** Milliseconds for which requests for those guilds waited, in all. */
  frozen_ms: number;
  /** The longest of these times. */
  frozen_ms_max: number;
  /** Guilds that it handed over to other nodes. */
  left: number;
  /** Those of them that left because of their node's load. */
  left_for_load: number;
  /** Rounds of changes that it sent. */
  rounds: number;
}

/** A message of a history. */
export interface HistoryLine {
  /** Files that are hosted elsewhere. */
  attachments?: LinkedFile[];
  /** Account that wrote it, member or not. */
  author_id: AnyId;
  /** Channel or thread of the guild. */
  channel_id: AnyId;
  /** In the form of the protocol. */
  components?: ({ [name: string]: unknown })[];
  /** Text of the message. */
  content?: string;
  edited_timestamp?: (Time | null);
  /** In the form of the protocol. */
  embeds?: ({ [name: string]: unknown })[];
  /** Message flags that a sender may set. */
  flags?: number;
  id?: (Snowflake | null);
  reply_to?: (Snowflake | null);
  timestamp?: (Time | null);
}

/** Progress of an import of messages. */
export interface HistoryProgress {
  /** Messages that are new. */
  added: number;
  /** Bytes of the body up to this line. */
  bytes: number;
  /** Bytes of the whole body, if the request announced them (`Content-Length`). */
  bytes_total?: (number | null);
  /** Whether the import is complete. If no line has true, the import broke off. */
  done: boolean;
  /** Refused lines. */
  failed: number;
  /** Everything up to this line is stored. */
  line: number;
  /** Messages that were there. */
  unchanged: number;
}

/** A refused line, or the reason for which the import ends. */
export interface ImportFailure {
  /** Error code, as in other errors. */
  code: string;
  /** Faults by field. */
  errors: FieldError[];
  /** Number of the line, from 1. */
  line: number;
  /** Correction of the line. */
  message: string;
}

/**
 * A line of an import: a member with their account. The fields of both are named again, because serde cannot refuse
 * unknown ones where it flattens.
 */
export interface ImportLine {
  communication_disabled_until?: (Time | null);
  /** As for a member. */
  deaf?: boolean;
  /** As for a member. */
  flags?: number;
  joined_at?: (Time | null);
  /** As for a member. */
  mute?: boolean;
  /** As for a member. */
  nick?: (string | null);
  /** As for a member. */
  roles?: Snowflake[];
  /** The account, which is put with these fields. */
  user: ImportUser;
}

/** Progress of an import. */
export interface ImportProgress {
  /** Number of members who joined. */
  added: number;
  /**
   * Of a dry run's last line: the first accounts that would join, at most 100. New accounts
   * without an id are left out.
   */
  added_first?: (Snowflake[] | null);
  /** Bytes of the body up to this line. */
  bytes: number;
  /** Bytes of the whole body, if the request announced them (`Content-Length`). */
  bytes_total?: (number | null);
  /** Number of changed members. */
  changed: number;
  /** Whether the import is complete. If no line has true, the import broke off. */
  done: boolean;
  /** Whether it was a dry run: the numbers are those of a real import. */
  dry_run: boolean;
  /** Number of refused lines. */
  failed: number;
  /** Everything up to this line is stored. */
  line: number;
  /** Number of removed members. */
  removed: number;
  /** Of a dry run's last line: the first members who would be removed, at most 100. */
  removed_first?: (Snowflake[] | null);
  /** Number of unchanged members. */
  unchanged: number;
}

/** The account of a line. */
export interface ImportUser {
  /** As for an account. */
  application_flags?: number;
  /** As for an account. */
  avatar?: (string | null);
  /** As for an account. */
  banner?: (string | null);
  /** As for an account. */
  bot?: boolean;
  /** As for an account. */
  discriminator?: string;
  /** As for an account. Omitted or null: unchanged. */
  external_id?: (string | null);
  /** As for an account. */
  global_name?: (string | null);
  id?: (Snowflake | null);
  /** As for an account. */
  public_flags?: number;
  /** As for an account. */
  username: string;
}

/** Verdict on a token. */
export interface InspectedToken {
  expires_at?: (Time | null);
  /** `bot`, `user`, or `sign_on` of an issuer of the key set; null if it is refused before that is known. */
  kind?: (string | null);
  /** Reason of a refusal and its correction, for people. */
  message?: (string | null);
  /** Reason of a refusal, for programs: as in `guildhall_tokens_refused_total`. */
  reason?: (string | null);
  user_id?: (Snowflake | null);
  /** Whether REST and the gateway accept it now. */
  valid: boolean;
}

/** Progress of a job that deletes an account. */
export interface Job {
  /** Start of the job. */
  created_at: Time;
  /** Reason of the failure; for a running job, of the retry of its last step. */
  error?: (string | null);
  finished_at?: (Time | null);
  /** Guilds that the account has left. */
  guilds: number;
  /** Id for `GET /v1/jobs/{job_id}`. */
  id: Snowflake;
  /** Messages deleted or reassigned so far. */
  messages: number;
  /** Reactions removed so far. */
  reactions: number;
  reassign?: (Snowflake | null);
  /** Messages read so far, of all authors. */
  scanned: number;
  /** State of the job. */
  state: JobState;
  /** Account to delete. */
  user_id: Snowflake;
}

/** All jobs that are remembered. */
export interface JobList {
  /** Running jobs and the last 1,000 that ended, newest first. */
  jobs: Job[];
}

/** State of a job. */
export type JobState = "running" | "done" | "failed";

/** A key without its secret. */
export interface Key {
  /** Accounts whose tokens the key manages; omitted for all accounts. */
  accounts?: (Snowflake[] | null);
  /** Time of creation. */
  created_at: Time;
  /** Id of the key. */
  id: Snowflake;
  /** Name for operators. */
  name: string;
  /** Scopes of the key. */
  scopes: Scope[];
}

/** A dictionary of the lab, or of the folder that a setting names. */
export interface LabDictionary {
  /** Connections to this node that use it now. */
  connections: number;
  /** Connections to this node that used it since it was loaded. */
  connections_total: number;
  /** `json` or `etf`. */
  encoding: string;
  /** First half of the SHA-256 of its bytes, in hexadecimal. */
  id: string;
  /** Thousandths of the accounts that `GET /dictionaries` lists it for while it is served. */
  permille: number;
  /** Length in bytes. */
  size: number;
  /** `store`: it was staged here; `folder`: it is in the folder of `codec.dictionaries_dir`. */
  source: string;
  /** Unix time, seconds; null for one of the folder whose state was never changed. */
  staged_at?: (number | null);
  /** `staged`: no client may name it; `served`; or `withdrawn`: no new connection gets it. */
  state: string;
}

/** A guild on its way to another node. */
export interface LeavingGuild {
  /** Milliseconds since the move began. */
  age_ms: number;
  /** Bytes of its state that were sent so far. */
  bytes: number;
  /** Number of its owner. */
  from: number;
  /** Whether requests for it wait. */
  frozen: boolean;
  guild_id: Snowflake;
  /** Why it moves, as a clause. */
  reason: string;
  /** Rounds of changes that were sent behind the state. */
  rounds: number;
  /**
   * The step under way: `members`, `sessions` and `changes` are sent while the guild works on. Then requests wait:
   * `freeze` until the last changes are there, `record` until the lease store names the next owner, `serve` until it
   * serves the guild.
   */
  step: string;
  /** Number of its next owner. */
  to: number;
}

/** A file at another URL. */
export interface LinkedFile {
  /** Media type, such as `image/png`. */
  content_type?: (string | null);
  /** Alternative text. */
  description?: (string | null);
  /** Name of the file. */
  filename: string;
  /** Height of an image in pixels. */
  height?: (number | null);
  /** Bytes of the file. */
  size?: number;
  /** Where clients download it: http or https. */
  url: string;
  /** Width of an image in pixels. */
  width?: (number | null);
}

/** A new key with its secret. */
export type MadeKey = (Key & {
  /** The key itself, shown only here: the node stores its hash. */
  key: string;
});

/** A member with their account. */
export type Member = (MemberFields & {
  /** Account of the member. */
  user: User;
});

/** All fields of a member. `/v1/users` has the account. */
export interface MemberFields {
  communication_disabled_until?: (Time | null);
  /** Deafened by the server. */
  deaf?: boolean;
  /** Flags of the member, as in the protocol. */
  flags?: number;
  joined_at?: (Time | null);
  /** Muted by the server. */
  mute?: boolean;
  /** Display name in this guild; null: the account's name. */
  nick?: (string | null);
  /** Ids of the member's roles, without `@everyone`. */
  roles?: Snowflake[];
}

/** Fields of a member to change, as for PUT. */
export interface MemberPatch {
  communication_disabled_until?: (Time | null);
  deaf?: (boolean | null);
  flags?: (number | null);
  joined_at?: (Time | null);
  mute?: (boolean | null);
  nick?: (string | null);
  roles?: (Snowflake[] | null);
}

/** All fields of a member. `/v1/users` has the account. */
export interface MemberPut {
  communication_disabled_until?: (Time | null);
  /** Deafened by the server. */
  deaf?: boolean;
  /** Flags of the member, as in the protocol. */
  flags?: number;
  joined_at?: (Time | null);
  /** Muted by the server. */
  mute?: boolean;
  /** Display name in this guild; null: the account's name. */
  nick?: (string | null);
  /** Ids of the member's roles, without `@everyone`. */
  roles?: Snowflake[];
}

/** Roles of one member. */
export interface MemberRoles {
  /** All roles of the member, without `@everyone`. */
  roles: Snowflake[];
  /** The member's account. */
  user_id: AnyId;
}

/** Roles of many members. */
export interface MembersRolesPut {
  /** The members, each once. */
  members: MemberRoles[];
}

/** A message as the node stores it. */
export interface Message {
  attachments: MessageFile[];
  author: MessageAuthor;
  channel_id: Snowflake;
  /** In the form of the protocol. */
  components: ({ [name: string]: unknown })[];
  content: string;
  edited_timestamp?: (Time | null);
  /** In the form of the protocol. */
  embeds: ({ [name: string]: unknown })[];
  flags: number;
  forwarded?: (ForwardedMessage | null);
  guild_id?: (Snowflake | null);
  id: Snowflake;
  mention_everyone: boolean;
  mention_roles: Snowflake[];
  /** Mentioned accounts. */
  mentions: Snowflake[];
  pinned: boolean;
  poll?: (Poll | null);
  reactions: MessageReaction[];
  reply_to?: (Snowflake | null);
  sticker_ids: Snowflake[];
  /** Time of the message, from its id. */
  timestamp: Time;
  tts: boolean;
  /** 0 default, 19 reply; others as in the protocol. */
  type: number;
  webhook_id?: (Snowflake | null);
}

/** Author of a message, as the account was when it was sent. */
export interface MessageAuthor {
  /** Hash of the avatar. */
  avatar?: (string | null);
  bot: boolean;
  global_name?: (string | null);
  /** Account, or webhook. */
  id: Snowflake;
  username: string;
}

/** Changes to a message. A missing field stays as it is. */
export interface MessageChangeBody {
  allowed_mentions?: (AllowedMentionsBody | null);
  /** Ids of the files that stay; null removes all. */
  attachment_ids?: (Snowflake[] | null);
  /** Replaces the components; null removes them. */
  components?: (({ [name: string]: unknown })[] | null);
  /** Replaces the text; null removes it. */
  content?: (string | null);
  /** Replaces the embeds; null removes them. */
  embeds?: (({ [name: string]: unknown })[] | null);
  /** Replaces the flags that an author may change: 4 and 32768. */
  flags?: (number | null);
}

/** A file of a message. */
export interface MessageFile {
  content_type?: (string | null);
  /** Alternative text. */
  description?: (string | null);
  filename: string;
  height?: (number | null);
  id: Snowflake;
  /** Bytes of the file; of a file that is hosted elsewhere, the number that its sender gave. */
  size: number;
  /** Where clients download it. The link to a file of this node expires. */
  url: string;
  width?: (number | null);
}

/** Ids of messages to delete. */
export interface MessageIds {
  /** 1 to 100 messages of the channel, of any age. Those that do not exist are left out. */
  message_ids: Snowflake[];
}

/** Number of reactions with one emoji. */
export interface MessageReaction {
  count: number;
  emoji_id?: (Snowflake | null);
  /** The Unicode emoji, or the name of a custom one. */
  emoji_name: string;
}

/** A new token, with its secret. */
export interface MintedToken {
  expires_at?: (Time | null);
  /** Id for DELETE; only of bot tokens. */
  id?: (string | null);
  /** `bot` or `user`. */
  kind: string;
  /** The token, shown only here. */
  token: string;
}

/** An experiment to create. */
export interface NewExperiment {
  /** Chance of a false alarm of all guardrails together, however often they are looked at. */
  alpha?: number;
  /** The first is the control, with which the others are compared. */
  arms: ExperimentArm[];
  /** Accounts that may take part. */
  audience?: ExperimentAudience;
  /** Not started yet. */
  draft?: boolean;
  /** First thousandth in the layer. The first that has room, if there is none. */
  first_slot?: (number | null);
  /** Experiments of one layer have no account in common. */
  layer?: string;
  /** Name, which no other experiment has: letters, digits, `-`, `_` and `.`. */
  name: string;
  /** Thousandths of the accounts that take part. */
  permille: number;
  /** A rollback sends op 7 to clients that have one of the arms, so that they leave it. */
  reconnect_on_rollback?: boolean;
  /** Decides the arm of each account, together with its id. The name, if there is none. */
  salt?: (string | null);
  /** Samples of both arms before a guardrail may stop the experiment. */
  samples_min?: number;
  /**
   * An arm may be this much worse than the control without an alarm, percent. Streams that cannot be decoded have no
   * tolerance.
   */
  tolerance_percent?: number;
}

/** A key to create. */
export interface NewKey {
  /** Limits the key to tokens of these accounts. Such a key has only the scope `tokens`. */
  accounts?: (Snowflake[] | null);
  /** Name for operators. */
  name: string;
  /** Scopes of the key; each allows a group of requests. */
  scopes: Scope[];
}

/** A new message. */
export interface NewMessageBody {
  allowed_mentions?: (AllowedMentionsBody | null);
  /** Files that are hosted elsewhere. */
  attachments?: LinkedFile[];
  /** Account that sends it, member of the guild or not. In a direct message it is a recipient. */
  author_id: AnyId;
  /** Buttons, selects and other components, in the form of the protocol. */
  components?: ({ [name: string]: unknown })[];
  /** Text of the message. */
  content?: string;
  /** At most 10 embeds, in the form of the protocol. */
  embeds?: ({ [name: string]: unknown })[];
  /** Message flags that a sender may set: 4, 4096, 8192, 32768. Others are ignored. */
  flags?: number;
  /**
   * Idempotency key. For five minutes, a request of the same author with the same key is answered with the first
   * message, and sends none.
   */
  key?: (string | null);
  /** Echoed in the MESSAGE_CREATE of the message. */
  nonce?: (string | null);
  reply_to?: (Snowflake | null);
  /** Stickers of the guild. */
  sticker_ids?: Snowflake[];
  /** Whether clients read it aloud. */
  tts?: boolean;
}

/** Parameters of a new token. */
export interface NewToken {
  /** Validity of a user token in seconds; 30 days if omitted. Bot tokens are valid until they are revoked. */
  ttl_s?: (number | null);
}

/** A webhook to create. */
export interface NewWebhook {
  /** Position after which it begins; 0: the oldest event. Omitted: events from now on. */
  after?: (number | null);
  /** Only events of these channels. Omitted or empty: of all, and of none. */
  channel_ids?: Snowflake[];
  /** Only events of these guilds. Omitted or empty: of all, and of direct messages. */
  guild_ids?: Snowflake[];
  /** Names of events. Omitted or empty: all. */
  types?: string[];
  /** Gets a POST with events. https://; http:// only with `events.private_webhooks`. */
  url: string;
}

/** `GET /v1/node/bandwidth`. */
export interface NodeBandwidthReport {
  /** When it was collected. */
  at_ms: number;
  bill?: (NodeBill | null);
  /** Dispatch types; empty while bytes are not counted by type. */
  types: NodeDispatchType[];
  /** Writers of compressed streams, those that wrote nothing too. */
  writers: NodeStreamWriter[];
}

/** Cost of the same traffic in other codecs, from a sample of connections whose frames are compressed a second time. */
export interface NodeBill {
  /** CPU time of the comparison. */
  cpu_ns_total: number;
  /** Sums over all frames. */
  estimate: NodeBilledWays;
  /** The node samples one connection in this many, all of the first four, and 32 at most. */
  one_in: number;
  /** Sums of the sample. */
  sample: NodeBilledWays;
  /** Connections that are sampled now. */
  sessions: number;
  /** Of these, connections whose sample the CPU budget ended. */
  sessions_dropped_total: number;
  /** Connections that were sampled so far. */
  sessions_total: number;
  /** By dispatch type; types with the most bytes as sent come first. */
  types: NodeBilledType[];
  /** Compressed streams by their writer, named as in `StreamWriter`; writers without a sample are left out. */
  writers: NodeBilledType[];
}

/** Frames of one dispatch type. */
export interface NodeBilledType {
  /**
   * All frames: number, payloads and bytes as sent are counted; the codecs' bytes are those of the sample in
   * proportion to the payloads. A type without a sample has the proportions of all types together.
   */
  estimate: NodeBilledWays;
  /** As in `DispatchType`. */
  name: string;
  /** Frames of sampled connections. */
  sample: NodeBilledWays;
}

/** Bytes of the same frames in several codecs, each with its WebSocket header and without TLS. */
export interface NodeBilledWays {
  /** Number of frames. */
  count_total: number;
  /** Bytes without compression. */
  plain_bytes_total: number;
  /** Bytes of their payloads, before compression and without headers. */
  raw_bytes_total: number;
  /** Bytes as sent. */
  wire_bytes_total: number;
  /** Bytes with zlib-stream, by the settings of `codec.zlib_*`. */
  zlib_bytes_total: number;
  /** Bytes with zstd-stream, by the settings of `codec.zstd_*`. */
  zstd_bytes_total: number;
}

/** An account, key or address that sends requests. */
export interface NodeCaller {
  /** Nanoseconds of wall time until their answers, waiting included. `busy_ns` of the report is that of all. */
  busy_ns: number;
  /** Snowflake of the account or key (`"0"`: the root key), an IPv4 address, or an IPv6 /64. */
  id: string;
  /** Name of the account or key; empty if it is not known, and for addresses. */
  name: string;
  /** Requests within the window, refused ones too. */
  requests: number;
  /** Upper bound of other callers' requests among these: the node keeps the 128 loudest of every ten seconds. */
  requests_over: number;
}

/** `GET /v1/node/callers`: REST and the backend API, without pages, links to files and gateway connections. */
export interface NodeCallersReport {
  /** Accounts with the most requests, most first. */
  accounts: NodeCaller[];
  /** Addresses; each request counts for its account or key as well. */
  addresses: NodeCaller[];
  /** When it was collected. */
  at_ms: number;
  /** Wall time of these. */
  busy_ns: number;
  /** Keys of the backend API. */
  keys: NodeCaller[];
  /** Requests of all callers. */
  requests: number;
  /** Seconds that it is about: between 50 and 60. */
  window_s: number;
}

/** A channel or thread of one guild, with its events. */
export interface NodeChannel {
  /** Events in it since the guild was loaded. */
  events_total: number;
  /** Snowflake, as text. */
  id: string;
  /** `text`, `voice`, `public_thread` and so on; empty for a channel that is gone. */
  kind: string;
  /** Its name; empty for a private thread, a direct message, and a channel that is gone. */
  name: string;
}

/** `GET /v1/node/compression`. */
export interface NodeCompressionReport {
  /** When it was collected. */
  at_ms: number;
  /** What all contexts may hold. */
  bytes_max: number;
  /** Streams that left their context for shared-match. */
  context_moves?: ContextMoves;
  /** Kinds of contexts. */
  contexts: NodeContextKind[];
  /** Messages compressed once for permessage-deflate. */
  deflate_shared_bodies_total: number;
  /** Streams that share one match search. */
  shared_match: NodeSharedMatch;
  /** Messages sent uncompressed for lack of a context. */
  stored_total: number;
  /** `codec.streams`. */
  streams: string;
  upgrades?: (NodeUpgradesReport | null);
}

/** Connections and sessions now. */
export interface NodeConnections {
  /** Pairs of session and guild that receive every event. */
  active: number;
  /** Connected sessions, by codec. */
  by_codec: NodeNamed[];
  /** Connected sessions, by encoding. */
  by_encoding: NodeNamed[];
  /** Sessions, by the platform that their client named. */
  by_platform: NodeNamed[];
  /** Connections of the gateway. */
  gateway: number;
  /** Pairs that receive passive updates. */
  passive: number;
  /** Sessions with a connection. */
  sessions_live: number;
  /** Sessions that wait for a RESUME. */
  sessions_resumable: number;
  /** Sockets of the node, those of REST included. */
  sockets: number;
}

/** Compression contexts of one kind. */
export interface NodeContextKind {
  /** `zlib`, `zstd` or `zstd_upgraded`. */
  kind: string;
  /** Contexts handed out. */
  opened_total: number;
  /** Contexts for which there was no room. */
  refused_total: number;
  /** Resident bytes of their slabs. */
  resident_bytes: number;
  /** Bytes of each. */
  slot_bytes: number;
  /** Contexts in use. */
  used: number;
}

/** Dispatches of one type. */
export interface NodeDispatchType {
  /** As in field `t`; `BACKEND` for names that backends chose, `other` for everything that is no dispatch. */
  name: string;
  /** Ways on which some were sent. */
  ways: NodeWay[];
}

/** `GET /v1/node/files`: bytes of uploaded files by owner. */
export interface NodeFilesReport {
  /** Share of one account in a day; none if there is no limit. */
  account_day_bytes_max?: (number | null);
  /** When it was collected. */
  at_ms: number;
  /** Past this number of bytes of all files, messages with files are refused; the rest is for pictures. */
  attachments_bytes_max: number;
  /** All files and pictures, uploads in progress too. */
  bytes: number;
  /** `uploads.bytes_max`. */
  bytes_max: number;
  /** Share of one guild. */
  guild_bytes_max: number;
  /** Guilds with the most bytes, most first. After a start they are complete within some minutes. */
  guilds: NodeGuildFiles[];
  /** Of avatars, icons, emoji and stickers. */
  pictures_bytes: number;
  /** Accounts and webhooks that uploaded most to this node within the last day, most first. */
  uploaders: NodeUploader[];
}

/** A guild that is loaded. */
export interface NodeGuild {
  /** Nanoseconds that the worker spent on it since it was loaded. */
  busy_ns_total: number;
  /** Bytes of the delivered bodies before compression. */
  bytes_total: number;
  /** Deliveries of these to sessions, since each relay began. */
  deliveries_total: number;
  /** Events that it published to relays or accounts; one that goes to several relays counts once. */
  events_total: number;
  /** Messages that it handled. */
  handled_total: number;
  /** Snowflake of the guild, as text. */
  id: string;
  /** Its messages in the worker's mailbox. */
  mailbox: number;
  /** Number of its members. */
  members: number;
  /** Name of the guild; empty if it is not known. */
  name: string;
  /** Relays that have a replica of it. */
  relays: number;
  /** Sessions that receive every event. */
  sessions_active: number;
  /** Sessions that receive passive updates. */
  sessions_passive: number;
  /** The worker that has it. */
  worker: number;
}

/** Files of one guild, or of one direct message. */
export interface NodeGuildFiles {
  /** Sum of their sizes. */
  bytes: number;
  /** Number of files. */
  files: number;
  /** Snowflake of the guild, or of the direct message. */
  id: string;
  /** Name of the guild; empty if it is not loaded. */
  name: string;
}

/** `GET /v1/node/guilds/{guild_id}`. */
export interface NodeGuildReport {
  /** When it was collected. */
  at_ms: number;
  /** Channels with events, the most first, at most 64. */
  channels: NodeChannel[];
  /** Its totals and its state now. */
  guild: NodeGuild;
  /** Relays with a replica of it, in the order of their partitions. */
  relays: NodeRelay[];
  /** Its worker's time by message type. */
  types: NodeMessageType[];
}

/** `GET /v1/node/guilds`. */
export interface NodeGuildsReport {
  /** When it was collected. */
  at_ms: number;
  /** The busiest guilds, at most `limit` of the request. */
  guilds: NodeGuild[];
  /** Guilds in memory. */
  loaded: number;
}

/** A part of the history, as `GET /v1/node/history` sends it. */
export interface NodeHistoryReport {
  /** Unix milliseconds of the values, ascending. */
  at_ms: number[];
  /** Values by series, each as long as `at_ms`; null where there is a gap. */
  series: { [name: string]: (number | null)[] };
  /** Seconds between two values. */
  step_s: number;
}

/** A dispatch that a session was given. */
export interface NodeLoggedEvent {
  /** Bytes of its body. */
  bytes: number;
  /** Whether it was written to the socket. */
  is_written: boolean;
  /** As in field `t`. */
  name: string;
  /** Its sequence. */
  seq: number;
}

/** A loop of the node and its times by message type. */
export interface NodeLoop {
  /** Nanoseconds of work. */
  busy_ns_total: number;
  /** Which of them. */
  index: number;
  /** Messages in its mailbox when it last looked. */
  mailbox: number;
  /** What kind of loop. */
  name: string;
  /** By message type; types that did not occur are left out. */
  types: NodeMessageType[];
  /** Time that messages waited there. */
  waiting: NodeTimes;
}

/** Memory of the process. */
export interface NodeMemory {
  /** Memory limit of the process, in bytes; none if it cannot be read. */
  limit_bytes?: (number | null);
  /** Largest first. */
  owners: NodeOwner[];
  /** Resident bytes. */
  resident_bytes: number;
}

/** Wall time of one message type. */
export interface NodeMessageType {
  /** Name of the type. */
  name: string;
  /** Time per message. */
  times: NodeTimes;
}

/** A number with a name. */
export interface NodeNamed {
  /** What is counted. */
  name: string;
  /** Its count, or its size in bytes. */
  value: number;
}

/** `GET /v1/node/operations`. */
export interface NodeOperationsReport {
  /** When it was collected. */
  at_ms: number;
  /** Whether the node is being stopped. */
  is_draining: boolean;
  /** By what and why; reasons that did not occur are left out. */
  refused: NodeRefusal[];
  /** Settings in force. */
  settings: NodeSetting[];
  /** Connections cut because they did not read. */
  slow_consumers_total: number;
  /** The last warnings, newest first, at most 100. */
  warnings: NodeWarning[];
}

/** `GET /v1/node/overview`. */
export interface NodeOverviewReport {
  /** When it was collected. */
  at_ms: number;
  /** Connections and sessions. */
  connections: NodeConnections;
  /** From a guild's durable event to its last frame of a partition. */
  delivery: NodeTimes;
  /** Loops, in the order of their names. */
  loops: NodeLoop[];
  /** Memory of the process. */
  memory: NodeMemory;
  /** Why `/readyz` answers 503; none while it answers 200. */
  not_ready?: (string | null);
  /** When the node started. */
  started_at_ms: number;
  /** Version of the program. */
  version: string;
}

/** Memory of one part of the node. */
export interface NodeOwner {
  /** Bytes that it holds. */
  bytes: number;
  /** Elements that hold them. */
  elements: number;
  /** Whether the bytes are counted; else they are estimated from a sample. */
  is_exact: boolean;
  /** Name of the part of the node. */
  name: string;
}

/** Clients that were refused for one reason. */
export interface NodeRefusal {
  /** Number of refusals since the start. */
  count_total: number;
  /** Reason, by its name in `/metrics`. */
  reason: string;
  /** What was refused: `token`, `key`, `identify`, `resume` or `socket`. */
  what: string;
}

/** A relay of one guild. */
export interface NodeRelay {
  /** Sessions that receive every event. */
  active: number;
  /** Bytes of these before compression. */
  bytes_total: number;
  /** Deliveries to its sessions. */
  deliveries_total: number;
  /** Which of the partition's relays. */
  index: number;
  /** Partition that runs it. */
  partition: number;
  /** Sessions that receive passive updates. */
  passive: number;
}

/** A session of the gateway. */
export interface NodeSession {
  /** Events that are not written yet. */
  backlog_events: number;
  /** Bytes of these events, as they count against the replay limit. */
  buffered_bytes: number;
  /** Events kept for a RESUME. */
  buffered_events: number;
  /** Of the connection; none without one. */
  codec?: (string | null);
  /** `json` or `etf`. */
  encoding: string;
  /** Guilds that it is in. */
  guilds: number;
  /** Session id, as in READY. */
  id: string;
  /** Whether the account is a bot's. */
  is_bot: boolean;
  /** Whether it has a connection. */
  is_connected: boolean;
  /** Partition that has the session. */
  partition: number;
  /** Platform that the client named; empty where that is not known. */
  platform: string;
  /** Time that is left for a RESUME; none with a connection. */
  resumable_ms?: (number | null);
  /** Last sequence. */
  seq: number;
  /** Shard and number of shards; none without sharding. */
  shard?: (unknown[] | null);
  /** Snowflake of its account, as text. */
  user_id: string;
  /** Name of its account; empty if it is not known. */
  username: string;
}

/** `GET /v1/node/sessions/{session_id}`. */
export interface NodeSessionReport {
  /** When it was collected. */
  at_ms: number;
  billed?: (NodeBilledWays | null);
  /** Time since its socket last accepted bytes; none while it accepts them. */
  blocked_ms?: (number | null);
  /** Bits of its IDENTIFY. */
  capabilities: number;
  /** Bits of its IDENTIFY. */
  intents: number;
  /** Its last dispatches, newest first, at most 100. */
  log: NodeLoggedEvent[];
  /** Bytes of the payloads that its connection was sent, before compression; none without a connection. */
  raw_bytes_total?: (number | null);
  /** Its state, as in the list. */
  session: NodeSession;
  /** Time since the client's last message. */
  silent_ms?: (number | null);
  stream?: (NodeStreamCost | null);
  /** Guilds of the session and its state in each. */
  subscriptions: NodeSubscription[];
  /** Window of its stream; none where that is not known. */
  window_bytes?: (number | null);
  /** Bytes of these frames, without TLS; none without a connection. */
  wire_bytes_total?: (number | null);
  /** What compresses its stream; none without compression. */
  writer?: (string | null);
}

/** `GET /v1/node/sessions`. */
export interface NodeSessionsReport {
  /** Sessions of the node. */
  all: number;
  /** When it was collected. */
  at_ms: number;
  /** Whether there are more that match than are listed. */
  is_partial: boolean;
  /** Those that match. */
  sessions: NodeSession[];
}

/** A setting in force. */
export interface NodeSetting {
  /** Whether a reload applies it. */
  is_live: boolean;
  /** `section.key`. */
  name: string;
  /** File and line, variable, flag, or `default`. */
  origin: string;
  /** As TOML; secrets are hidden. */
  value: string;
}

/** Streams that share one match search. */
export interface NodeSharedMatch {
  /** Messages that one connection got and no other. */
  alone_total: number;
  /** Messages read back before they were sent. */
  checked_total: number;
  /** Of these, not with the parse that was tried first. */
  fallbacks_total: number;
  /** History and index. */
  heap_bytes: number;
  /** Of these, with no shared parse. */
  late_total: number;
  /** Of these, not as they were to be. */
  mismatches_total: number;
  /** Parses made of them. */
  parses_total: number;
  /** Texts searched, once for all. */
  texts_total: number;
  /** Texts written to connections. */
  written_total: number;
}

/** State of the node, and rights of the key. */
export interface NodeState {
  /** Name of the key. */
  key_name: string;
  /** Clock of the node. */
  now: Time;
  /** Whether `/readyz` answers 200. */
  ready: boolean;
  /** Scopes of the key. */
  scopes: string[];
  /** Start of the process. */
  started_at: Time;
  /** Why it does not; null while it does. */
  unready?: (string | null);
  /** Version of the program. */
  version: string;
}

/** A compressed stream: its writer, since when and why, and its cost. */
export interface NodeStreamCost {
  /** Memory that it holds. */
  memory_bytes: number;
  /** Why shared-match took it over from a library context: `crowd`, `cpu` or `memory`; none if it did not. */
  moved?: (string | null);
  /** For how long its writer has had it. */
  since_ms: number;
  /** Nanoseconds of these. */
  timed_ns_total: number;
  /** Its dispatches whose compression was timed since then, one in 64. */
  timed_total: number;
}

/** Cost of the compressed streams with the same writer. */
export interface NodeStreamWriter {
  /** Frames that it wrote. */
  count_total: number;
  /** Memory of these streams. Histories and indexes of shared-match are apart: `heap_bytes` of `NodeSharedMatch`. */
  memory_bytes: number;
  /** `per-connection` (a library context), `per-connection, upgraded` (a larger one) or `shared-match`. */
  name: string;
  /** Bytes of their payloads before compression. */
  raw_bytes_total: number;
  /** Sessions that have such a stream now. */
  sessions: number;
  /** Nanoseconds of these. */
  timed_ns_total: number;
  /** Dispatches whose compression was timed, one in 64. */
  timed_total: number;
  /** Bytes of these frames, without TLS. */
  wire_bytes_total: number;
}

/** A guild of a session. */
export interface NodeSubscription {
  /** Snowflake of the guild, as text. */
  guild_id: string;
  /** Whether every event is received; else passive updates. */
  is_active: boolean;
  /** `entering` until the relay has attached the session, then `inside`. */
  membership: string;
  /** Name of the guild; empty until a relay here has its state, and for a direct message. */
  name: string;
}

/** Durations: how many, how long. */
export interface NodeTimes {
  /** Upper bound in nanoseconds, and the number up to it and above the previous; buckets without any are left out. */
  buckets: unknown[][];
  /** Number of durations. */
  count_total: number;
  /** The longest since the start. */
  max_ns: number;
  /** Their sum, in nanoseconds. */
  ns_total: number;
  /** The median, at most a quarter too large. */
  p50_ns: number;
  /** What 99 of 100 do not exceed, at most a quarter too large. */
  p99_ns: number;
}

/** The loop that grants larger contexts. */
export interface NodeUpgradesReport {
  /** Connections that would have got one, had there been room. */
  denied_total: number;
  /** Its decision, in a sentence. */
  explanation: string;
  /** Connections that got a larger context. */
  granted_total: number;
  /** Larger contexts that were taken back to free memory. */
  reclaimed_total: number;
  /** Share of new connections that may get one, in thousandths. */
  share_permille: number;
  /** Its decision, in a word. */
  standing: string;
}

/** Uploads of one account or webhook. */
export interface NodeUploader {
  /** Bytes that count against its share of a day. */
  day_bytes: number;
  /** Snowflake of the account or webhook. */
  id: string;
  /** Name of the account; empty for a webhook. */
  name: string;
}

/** A line of the log at level WARN or ERROR. */
export interface NodeWarning {
  /** When it was written. */
  at_ms: number;
  /** `warn` or `error`. */
  level: string;
  /** Module that wrote it. */
  target: string;
  /** Its message and fields. */
  text: string;
}

/** Dispatches that were sent one way. */
export interface NodeWay {
  /**
   * `none`, `zlib-stream`, `zstd-stream`, `permessage-deflate`, or `zlib-payload` for dispatches that are compressed
   * alone because IDENTIFY requested it.
   */
  codec: string;
  /** Dispatches written to sockets. */
  count_total: number;
  /** `json` or `etf`. */
  encoding: string;
  /** Bytes of their payloads before compression. */
  raw_bytes_total: number;
  /** Nanoseconds of these. */
  timed_ns_total: number;
  /**
   * Compressions that were timed, one in 64. Without context takeover, `permessage-deflate` compresses once for all
   * recipients, which counts as one.
   */
  timed_total: number;
  /** Bytes of their frames, without TLS. */
  wire_bytes_total: number;
}

/** Permissions that a channel allows and denies for a role or a member. */
export interface OverwriteBody {
  /** Permissions granted in this channel. */
  allow?: Permissions;
  /** Permissions denied in this channel. */
  deny?: Permissions;
  /** Id of a role of the guild, or of a member. */
  id: Snowflake;
  /** 0 for a role, 1 for a member. */
  type: number;
}

/** A set of permission bits, as a decimal number. Bits that mean nothing are dropped. */
export type Permissions = string;

/** A poll in a message. */
export interface Poll {
  /** An account may vote for several answers. */
  allow_multiselect: boolean;
  /** In the order in which clients show them. */
  answers: PollAnswer[];
  /** Time from which it takes no votes. */
  expires_at: Time;
  /** It has ended: the votes are its result. */
  is_final: boolean;
  question: string;
}

/** An answer of a poll, with its votes. */
export interface PollAnswer {
  emoji_id?: (Snowflake | null);
  /** Unicode emoji in front of the text, or the name of a custom one. */
  emoji_name?: (string | null);
  /** Number from 1 on. */
  id: number;
  text?: (string | null);
  votes: number;
}

/** A position in the feed: a decimal number, which grows. */
export type Position = string;

/** Reason why a request failed. */
export interface Problem {
  /**
   * For programs: `invalid`, `unauthorized`, `logged_out`, `foreign`, `missing_scope`, `not_found`,
   * `method_not_allowed`, `conflict`, `too_late`, `too_large`, `encoded`, `too_slow`,
   * `rate_limited`, `unavailable`, `internal`.
   */
  code: string;
  /** The faults of a body or query. */
  errors?: FieldError[];
  /** Reason and remedy, for people. */
  message: string;
  /** With `too_late`: the position before the oldest event that is kept. */
  oldest?: (string | null);
}

/** An event to publish. */
export interface Publication {
  /** Recipients of the event. */
  audience: Audience;
  /** Body of the event: any JSON, sent unchanged. */
  d: unknown;
  /**
   * Idempotency key. The node publishes an event once per key and answers repetitions with the first result, also
   * when the first request was broken off. Another event under the same key is refused with 409.
   */
  key?: (string | null);
  /** Name of the event, of the protocol or your own. For names of the protocol, clients need the usual intents. */
  t: string;
}

/** One event, or several. */
export type Publications = (Publication | Publication[]);

/** Result of one event of several. */
export type PublishOutcome = (PublishResult | Problem);

/** Result of a published event. */
export interface PublishResult {
  /** Whether all partitions reported in time. If false, `reached` is a lower bound. */
  complete: boolean;
  /** Sessions, connected or resumable, that received it. */
  reached: number;
  /** Whether it was published before under the same key. */
  repeated: boolean;
}

/** One result, or one for each event. */
export type PublishResults = (PublishResult | PublishOutcome[]);

/** A recording of a node: its bounds and figures. */
export interface Recording {
  /** Bytes of its frames so far. */
  bytes: number;
  /** Dispatches in it. */
  dispatches: number;
  /**
   * Why it has ended: `time`, `bytes`, `not_taken` (32 MiB of frames waited for their caller), `stopped` or
   * `failed`; null while it runs.
   */
  ended?: (string | null);
  /** Id of the recording. */
  id: string;
  /** Events of backends, which a scrubbed recording leaves out. */
  left_out: number;
  /** Number of the node in its cluster; null of a node that is alone. */
  node?: (number | null);
  /** Direct messages and channels that not every member may view are in it. */
  private: boolean;
  /** Texts, ids and times are replaced by surrogates. */
  scrubbed: boolean;
  /** Sessions in it. */
  sessions: number;
  /** Sessions that ended early, because the node had no time for them: the newest end first. */
  sessions_full: number;
  /** Sessions that are recorded now. */
  sessions_now: number;
  /** Unix time of the start, seconds. */
  started_at: number;
  /** Bytes of frames that were not acknowledged. */
  waiting_bytes: number;
}

/** A recording to start. */
export interface RecordingPlan {
  /** Bytes of the recording, compressed. */
  bytes_max?: number;
  /** Only sessions with this encoding: `json` or `etf`. */
  encoding?: (string | null);
  guild_id?: (Snowflake | null);
  /** One session in this many. */
  one_in?: number;
  /** Only sessions on this platform: `desktop`, `mobile`, `web`, `embedded` or `vr`. */
  platform?: (string | null);
  /** Also direct messages, and channels that not every member may view. */
  private?: boolean;
  /** False: texts, names and ids of users leave the node as they are. */
  scrub?: boolean;
  /** Duration in seconds. */
  seconds_max?: number;
  /** Number of sessions. */
  sessions_max?: number;
}

/** Settings that a reload changed. */
export interface Reloaded {
  /** Names of the changed settings that are in force now. */
  applied: string[];
  /** Names of the changed settings that need a restart. */
  need_restart: string[];
}

/** Retention of a guild or channel. */
export interface RetentionBody {
  /**
   * Days; 0: for ever; null: inherited. A thread inherits from its channel, a channel from its guild, and a guild
   * from the setting `messages.keep_days`.
   */
  keep_days?: (number | null);
}

/** Days for which messages are kept. */
export interface RetentionPut {
  /** Days; 0 for ever. */
  keep_days: number;
}

/** Result of a revocation. */
export interface RevokedBody {
  /** Number of sessions that were closed with 4004 or discarded. */
  closed: number;
  /** Number of revoked tokens; user tokens of an account are not counted individually. */
  revoked: number;
}

/** A role of a guild. */
export type Role = (RoleFields & {
  /** Id of the role. */
  id: Snowflake;
});

/** All fields of a role. */
export interface RoleFields {
  /** Colour as RGB; 0 for none. */
  color?: number;
  /** Whether member lists show its members in a group of their own. */
  hoist?: boolean;
  /** Whether an integration owns it; then members cannot assign or remove it. */
  managed?: boolean;
  /** Whether every member may mention it. */
  mentionable?: boolean;
  /** Name of the role. `@everyone` keeps its name. */
  name: string;
  /** Permissions that the role grants. */
  permissions?: Permissions;
  /** Position: higher roles are above; at least 1, except for `@everyone`. */
  position?: number;
}

/** Members to add to a role and to remove from it: at most 1,000 together. */
export interface RoleMembersPatch {
  /** Members to add. */
  add?: AnyId[];
  /** Members to remove. */
  remove?: AnyId[];
}

/** The complete member list of a role. */
export interface RoleMembersPut {
  /** These members, and no others. */
  user_ids: AnyId[];
}

/** Fields of a role to change, as for PUT. */
export interface RolePatch {
  color?: (number | null);
  hoist?: (boolean | null);
  managed?: (boolean | null);
  mentionable?: (boolean | null);
  name?: (string | null);
  permissions?: (Permissions | null);
  position?: (number | null);
}

/** All fields of a role. */
export interface RolePut {
  /** Colour as RGB; 0 for none. */
  color?: number;
  /** Whether member lists show its members in a group of their own. */
  hoist?: boolean;
  /** Whether an integration owns it; then members cannot assign or remove it. */
  managed?: boolean;
  /** Whether every member may mention it. */
  mentionable?: boolean;
  /** Name of the role. `@everyone` keeps its name. */
  name: string;
  /** Permissions that the role grants. */
  permissions?: Permissions;
  /** Position: higher roles are above; at least 1, except for `@everyone`. */
  position?: number;
}

/** A role of a list. The fields of a role are named again, because serde cannot refuse unknown ones where it flattens. */
export interface RoleWithId {
  /** As for a role. */
  color?: number;
  /** As for a role. */
  hoist?: boolean;
  /** Id of the role; the guild's id for `@everyone`. */
  id: Snowflake;
  /** As for a role. */
  managed?: boolean;
  /** As for a role. */
  mentionable?: boolean;
  /** As for a role. */
  name: string;
  /** As for a role. */
  permissions?: Permissions;
  /** As for a role. */
  position?: number;
}

/** Numbers of changed and unchanged members. */
export interface RolesChanged {
  /** Members with changed roles. */
  changed: number;
  /** Members with unchanged roles. */
  unchanged: number;
}

/** Roles of a guild. */
export interface RolesOfGuild {
  /** Each role once, with its id: the guild's for `@everyone`. */
  roles: RoleWithId[];
}

/** Roles of a guild, with numbers of changes. */
export interface RolesPutBody {
  /** Number of new roles. */
  added: number;
  /** Number of changed roles. */
  changed: number;
  /** Number of unchanged roles. */
  unchanged: number;
}

/** Scope of a key. */
export type Scope = "read" | "write" | "publish" | "tokens" | "sessions" | "keys" | "lab" | "messages" | "events";

/** A session, connected or resumable. */
export interface Session {
  /** Whether the account is a bot. */
  bot: boolean;
  /** Bytes of the buffered dispatches. */
  buffered_bytes: number;
  /** Dispatches in its replay buffer, or waiting for the client. */
  buffered_events: number;
  /** Compression of its connection; null if it has no connection or none. */
  compression?: (string | null);
  /** `json` or `etf`. */
  encoding: string;
  /** Number of its guilds. */
  guild_count: number;
  /** Session id, as in READY. */
  id: string;
  /** Number of its partition. */
  partition: number;
  /** Milliseconds in which it can still be resumed; null while it is connected. */
  resumable_ms?: (number | null);
  /** Sequence number of its newest dispatch. */
  seq: number;
  /** `[id, count]` of IDENTIFY, if it had a shard. */
  shard?: (number[] | null);
  /** `connected` or `resumable`. */
  state: string;
  stream?: (SessionStream | null);
  /** Account of the session. */
  user_id: Snowflake;
  /**
   * What writes it: `shared-match`, `per-connection` (a library context), `per-connection, upgraded` (a larger one)
   * or `prepared` (compressed once for all); null without a connection or compression.
   */
  writer?: (string | null);
}

/** An event of a session. */
export interface SessionEvent {
  /** Time of the event. */
  at: Time;
  /** `connected` (by IDENTIFY), `resumed`, `disconnected` (it can be resumed), `gone`. */
  event: string;
  /** Number of the event: contiguous from 1 at its node, restarting with the node. */
  n: number;
  /** The node of the session, in a cluster. */
  node?: (number | null);
  /** Id of the session. */
  session_id: string;
  /** Account of the session. */
  user_id: Snowflake;
}

/** Events are missing: they were evicted, or the node restarted. */
export interface SessionEventsLost {
  /** Lower bound of their number. */
  lost: number;
  /** The node of these events, in a cluster. */
  node?: (number | null);
  /** The position is from before a restart: numbers have started again. */
  restarted: boolean;
}

/** State of a node in a stream, in a cluster. */
export interface SessionEventsNode {
  /** The last event of the node that was sent, or the position at which the stream begins. */
  n: number;
  /** Number of the node. */
  node: number;
  /**
   * `followed`: its events after `n` follow. `silent`: it does not answer; its events follow when it does again.
   * `left`: it is no member any more, so its sessions have ended, without an event for each.
   */
  state: string;
}

/** A page of sessions. */
export interface SessionList {
  /** `after` of the next page; null on the last. Other pages may be short or empty too. */
  next?: (string | null);
  /** In no particular order. */
  sessions: Session[];
}

/** Cost of a session's compressed stream. */
export interface SessionStream {
  /** Bytes of memory that the stream holds. */
  memory_bytes: number;
  /**
   * Why `shared-match` took it over from a library context: `crowd` (its events have many recipients), `cpu` or
   * `memory` (contexts took more than they may); null if it did not.
   */
  moved?: (string | null);
  /** Milliseconds since its writer has had it. */
  since_ms: number;
  /** Nanoseconds of these. */
  timed_ns_total: number;
  /** Dispatches whose compression was timed since then, one in 64. */
  timed_total: number;
}

/** A snowflake: a decimal number above 0 and below 2^63. A number is understood as well. */
export type Snowflake = string;

/** A date and time with an offset (ISO 8601), between the years 1970 and 9999. */
export type Time = string;

/** A bot token without its secret. */
export interface TokenBody {
  /** Time of creation. */
  created_at: Time;
  /** Id for DELETE: the token's SHA-256. */
  id: string;
}

/** An account, user or bot. */
export type User = (UserFields & {
  /** Id of the account. */
  id: Snowflake;
});

/** All fields of an account. */
export interface UserFields {
  /** Privileged intents of a bot: 4096 presences, 16384 members, 262144 message content. */
  application_flags?: number;
  /** Hash of the avatar. */
  avatar?: (string | null);
  /** Hash of the profile's banner. */
  banner?: (string | null);
  /** Whether the account is a bot. It cannot change. */
  bot?: boolean;
  /** Discriminator: "0" for none; bots may have four digits. */
  discriminator?: string;
  /**
   * Key of the account in your own database: unique among accounts, never sent to clients. Omitted:
   * unchanged. Null: none.
   */
  external_id?: (string | null);
  /** Display name shown to other users; null: the username. */
  global_name?: (string | null);
  /** Public flags, as in the protocol. */
  public_flags?: number;
  /** Unique name of the account. */
  username: string;
}

/** Fields of an account to change, as for PUT. */
export interface UserPatch {
  application_flags?: (number | null);
  avatar?: (string | null);
  banner?: (string | null);
  discriminator?: (string | null);
  external_id?: (string | null);
  global_name?: (string | null);
  public_flags?: (number | null);
  username?: (string | null);
}

/** All fields of an account. */
export interface UserPut {
  /** Privileged intents of a bot: 4096 presences, 16384 members, 262144 message content. */
  application_flags?: number;
  /** Hash of the avatar. */
  avatar?: (string | null);
  /** Hash of the profile's banner. */
  banner?: (string | null);
  /** Whether the account is a bot. It cannot change. */
  bot?: boolean;
  /** Discriminator: "0" for none; bots may have four digits. */
  discriminator?: string;
  /**
   * Key of the account in your own database: unique among accounts, never sent to clients. Omitted:
   * unchanged. Null: none.
   */
  external_id?: (string | null);
  /** Display name shown to other users; null: the username. */
  global_name?: (string | null);
  /** Public flags, as in the protocol. */
  public_flags?: number;
  /** Unique name of the account. */
  username: string;
}

/** A page of accounts. */
export interface Users {
  /** By ascending id. Fewer than `limit` on the last page. */
  users: User[];
}

/** A member in voice. */
export interface VoiceState {
  channel_id: Snowflake;
  /** Deafened by the server. */
  deaf: boolean;
  /** Muted by the server. */
  mute: boolean;
  request_to_speak_timestamp?: (Time | null);
  /** Deafened by the member. */
  self_deaf: boolean;
  /** Muted by the member. */
  self_mute: boolean;
  /** Their camera is on. */
  self_video: boolean;
  /** Gateway session that is connected; another text if the member was put here without one. */
  session_id: string;
  /** They may not speak in this channel. */
  suppress: boolean;
  user_id: Snowflake;
}

/** Where a member shall be. */
export interface VoiceStatePut {
  /** A voice or stage channel of the guild. */
  channel_id: Snowflake;
}

/** A webhook without its secret. */
export interface Webhook {
  /** Channels whose events it gets; empty: all. */
  channel_ids: Snowflake[];
  created_at: Time;
  /** Number of dead letters. */
  dead_letters: number;
  /** Why the last attempt failed; null: it did not. */
  error?: (string | null);
  failing_since?: (Time | null);
  /** Guilds whose events it gets; empty: all. */
  guild_ids: Snowflake[];
  id: Snowflake;
  /** Whether deliveries are paused: by a request, or because it has 100 dead letters. */
  paused: boolean;
  /** Events up to it were delivered, or are dead letters. */
  position: Position;
  /** Names of events; empty: all. */
  types: string[];
  url: string;
}

/** Changes to a webhook. A missing field stays as it is. */
export interface WebhookChange {
  /** Replaces the channels; empty: all. */
  channel_ids?: (Snowflake[] | null);
  /** Replaces the guilds; empty: all. */
  guild_ids?: (Snowflake[] | null);
  /** Pauses deliveries, or continues with them where they were. */
  paused?: (boolean | null);
  /** Replaces the names of events; empty: all. */
  types?: (string[] | null);
  /** Replaces the URL. */
  url?: (string | null);
}

/** All webhooks. */
export interface WebhookList {
  /** Oldest first. */
  webhooks: Webhook[];
}

/** A webhook with the secret that signs its requests. */
export interface WebhookMade {
  /** Signs the requests. The node shows it once. */
  secret: string;
  webhook: Webhook;
}

/** Requests by method and path. */
export interface Operations {
  /** Lists changes by backend keys */
  "GET /v1/audit": {
    path: {};
    query: { after?: Snowflake; limit?: number };
    body: undefined;
    answer: AuditEntries;
  };
  /** Lists messages of a channel */
  "GET /v1/channels/{channel_id}/messages": {
    path: { channel_id: AnyId };
    query: { before?: Snowflake; after?: Snowflake; around?: Snowflake; limit?: number };
    body: undefined;
    answer: Message[];
  };
  /** Sends a message as an account */
  "POST /v1/channels/{channel_id}/messages": {
    path: { channel_id: AnyId };
    query: {};
    body: NewMessageBody;
    answer: Message;
  };
  /** Deletes several messages */
  "POST /v1/channels/{channel_id}/messages/bulk-delete": {
    path: { channel_id: AnyId };
    query: {};
    body: MessageIds;
    answer: undefined;
  };
  /** Searches messages of a channel */
  "GET /v1/channels/{channel_id}/messages/search": {
    path: { channel_id: AnyId };
    query: { content?: string; author_id?: AnyId; channel_id?: AnyId; mentions?: AnyId; mention_everyone?: boolean; pinned?: boolean; has?: "image" | "sound" | "video" | "file" | "sticker" | "embed" | "link"; before?: Snowflake; after?: Snowflake; order?: "newest" | "oldest"; offset?: number; limit?: number };
    body: undefined;
    answer: FoundMessages;
  };
  /** Reads a message */
  "GET /v1/channels/{channel_id}/messages/{message_id}": {
    path: { channel_id: AnyId; message_id: Snowflake };
    query: {};
    body: undefined;
    answer: Message;
  };
  /** Deletes a message */
  "DELETE /v1/channels/{channel_id}/messages/{message_id}": {
    path: { channel_id: AnyId; message_id: Snowflake };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Changes a message */
  "PATCH /v1/channels/{channel_id}/messages/{message_id}": {
    path: { channel_id: AnyId; message_id: Snowflake };
    query: {};
    body: MessageChangeBody;
    answer: Message;
  };
  /** Reads the state of the cluster */
  "GET /v1/cluster": {
    path: {};
    query: {};
    body: undefined;
    answer: Cluster;
  };
  /** Reads the owner of a guild */
  "GET /v1/cluster/guilds/{guild_id}": {
    path: { guild_id: string };
    query: {};
    body: undefined;
    answer: GuildOwner;
  };
  /** Moves a guild to another node */
  "POST /v1/cluster/guilds/{guild_id}/move": {
    path: { guild_id: string };
    query: {};
    body: GuildMove;
    answer: GuildMoved;
  };
  /** Reads the moves of guilds */
  "GET /v1/cluster/moves": {
    path: {};
    query: {};
    body: undefined;
    answer: ClusterMoves;
  };
  /** Stops a node of the cluster */
  "POST /v1/cluster/nodes/{node}/drain": {
    path: { node: string };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Opens the direct message of two accounts, or creates a group */
  "POST /v1/directs": {
    path: {};
    query: {};
    body: DirectPut;
    answer: DirectMade;
  };
  /** Reads events after a position */
  "GET /v1/events": {
    path: {};
    query: { after?: number; types?: string; guild_id?: Snowflake; channel_id?: Snowflake; limit?: number; wait_s?: number };
    body: undefined;
    answer: EventPage;
  };
  /** Streams events after a position */
  "GET /v1/events/stream": {
    path: {};
    query: { after?: number; types?: string; guild_id?: Snowflake; channel_id?: Snowflake; limit?: number; wait_s?: number };
    body: undefined;
    answer: Lines;
  };
  /** Lists experiments */
  "GET /v1/experiments": {
    path: {};
    query: {};
    body: undefined;
    answer: Experiment[];
  };
  /** Creates an experiment */
  "POST /v1/experiments": {
    path: {};
    query: {};
    body: NewExperiment;
    answer: Experiment;
  };
  /** Reads an experiment */
  "GET /v1/experiments/{experiment}": {
    path: { experiment: string };
    query: {};
    body: undefined;
    answer: Experiment;
  };
  /** Removes an experiment */
  "DELETE /v1/experiments/{experiment}": {
    path: { experiment: string };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Changes an experiment */
  "PATCH /v1/experiments/{experiment}": {
    path: { experiment: string };
    query: {};
    body: ExperimentChange;
    answer: Experiment;
  };
  /** Reports on an experiment */
  "GET /v1/experiments/{experiment}/report": {
    path: { experiment: string };
    query: {};
    body: undefined;
    answer: ExperimentReport;
  };
  /** Stops an experiment */
  "POST /v1/experiments/{experiment}/stop": {
    path: { experiment: string };
    query: {};
    body: ExperimentStop;
    answer: Experiment;
  };
  /** Lists the ids of all guilds, or the one with an external id */
  "GET /v1/guilds": {
    path: {};
    query: { after?: Snowflake; limit?: number; external_id?: string };
    body: undefined;
    answer: GuildIds;
  };
  /** Reads a guild */
  "GET /v1/guilds/{guild_id}": {
    path: { guild_id: AnyId };
    query: {};
    body: undefined;
    answer: Guild;
  };
  /** Creates or replaces the guild with this id */
  "PUT /v1/guilds/{guild_id}": {
    path: { guild_id: AnyId };
    query: {};
    body: GuildPut;
    answer: Guild;
  };
  /** Deletes a guild with its content */
  "DELETE /v1/guilds/{guild_id}": {
    path: { guild_id: AnyId };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Changes some fields of a guild */
  "PATCH /v1/guilds/{guild_id}": {
    path: { guild_id: AnyId };
    query: {};
    body: GuildPatch;
    answer: Guild;
  };
  /** Lists the bans of a guild, by account */
  "GET /v1/guilds/{guild_id}/bans": {
    path: { guild_id: AnyId };
    query: { after?: Snowflake; limit?: number };
    body: undefined;
    answer: Ban[];
  };
  /** Reads the ban of an account */
  "GET /v1/guilds/{guild_id}/bans/{user_id}": {
    path: { guild_id: AnyId; user_id: AnyId };
    query: {};
    body: undefined;
    answer: Ban;
  };
  /** Bans an account */
  "PUT /v1/guilds/{guild_id}/bans/{user_id}": {
    path: { guild_id: AnyId; user_id: AnyId };
    query: {};
    body: BanPut;
    answer: undefined;
  };
  /** Removes the ban of an account */
  "DELETE /v1/guilds/{guild_id}/bans/{user_id}": {
    path: { guild_id: AnyId; user_id: AnyId };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Lists the channels of a guild */
  "GET /v1/guilds/{guild_id}/channels": {
    path: { guild_id: AnyId };
    query: { external_id?: string };
    body: undefined;
    answer: Channel[];
  };
  /** Reads a channel */
  "GET /v1/guilds/{guild_id}/channels/{channel_id}": {
    path: { guild_id: AnyId; channel_id: AnyId };
    query: {};
    body: undefined;
    answer: Channel;
  };
  /** Creates or replaces the channel with this id */
  "PUT /v1/guilds/{guild_id}/channels/{channel_id}": {
    path: { guild_id: AnyId; channel_id: AnyId };
    query: {};
    body: ChannelPut;
    answer: Channel;
  };
  /** Deletes a channel with its messages */
  "DELETE /v1/guilds/{guild_id}/channels/{channel_id}": {
    path: { guild_id: AnyId; channel_id: AnyId };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Changes some fields of a channel */
  "PATCH /v1/guilds/{guild_id}/channels/{channel_id}": {
    path: { guild_id: AnyId; channel_id: AnyId };
    query: {};
    body: ChannelPatch;
    answer: Channel;
  };
  /** Reads the retention of a channel or thread */
  "GET /v1/guilds/{guild_id}/channels/{channel_id}/retention": {
    path: { guild_id: AnyId; channel_id: AnyId };
    query: {};
    body: undefined;
    answer: RetentionBody;
  };
  /** Sets the retention of a channel or thread */
  "PUT /v1/guilds/{guild_id}/channels/{channel_id}/retention": {
    path: { guild_id: AnyId; channel_id: AnyId };
    query: {};
    body: RetentionPut;
    answer: RetentionBody;
  };
  /** Removes the retention of a channel or thread: that of its guild applies */
  "DELETE /v1/guilds/{guild_id}/channels/{channel_id}/retention": {
    path: { guild_id: AnyId; channel_id: AnyId };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Imports messages */
  "POST /v1/guilds/{guild_id}/import/messages": {
    path: { guild_id: AnyId };
    query: { skip?: number };
    body: Lines;
    answer: Lines;
  };
  /** Lists the members of a guild, by id */
  "GET /v1/guilds/{guild_id}/members": {
    path: { guild_id: AnyId };
    query: { after?: Snowflake; limit?: number };
    body: undefined;
    answer: Member[];
  };
  /** Imports members */
  "POST /v1/guilds/{guild_id}/members/import": {
    path: { guild_id: AnyId };
    query: { skip?: number; events?: boolean; replace?: boolean; dry_run?: boolean };
    body: Lines;
    answer: Lines;
  };
  /** Sets the roles of many members */
  "PUT /v1/guilds/{guild_id}/members/roles": {
    path: { guild_id: AnyId };
    query: {};
    body: MembersRolesPut;
    answer: RolesChanged;
  };
  /** Reads a member */
  "GET /v1/guilds/{guild_id}/members/{user_id}": {
    path: { guild_id: AnyId; user_id: AnyId };
    query: {};
    body: undefined;
    answer: Member;
  };
  /** Adds an account to a guild, or replaces the member */
  "PUT /v1/guilds/{guild_id}/members/{user_id}": {
    path: { guild_id: AnyId; user_id: AnyId };
    query: {};
    body: MemberPut;
    answer: Member;
  };
  /** Removes a member */
  "DELETE /v1/guilds/{guild_id}/members/{user_id}": {
    path: { guild_id: AnyId; user_id: AnyId };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Changes some fields of a member */
  "PATCH /v1/guilds/{guild_id}/members/{user_id}": {
    path: { guild_id: AnyId; user_id: AnyId };
    query: {};
    body: MemberPatch;
    answer: Member;
  };
  /** Searches messages of a guild */
  "GET /v1/guilds/{guild_id}/messages/search": {
    path: { guild_id: AnyId };
    query: { content?: string; author_id?: AnyId; channel_id?: AnyId; mentions?: AnyId; mention_everyone?: boolean; pinned?: boolean; has?: "image" | "sound" | "video" | "file" | "sticker" | "embed" | "link"; before?: Snowflake; after?: Snowflake; order?: "newest" | "oldest"; offset?: number; limit?: number };
    body: undefined;
    answer: FoundMessages;
  };
  /** Reads the retention of a guild */
  "GET /v1/guilds/{guild_id}/retention": {
    path: { guild_id: AnyId };
    query: {};
    body: undefined;
    answer: RetentionBody;
  };
  /** Sets the retention of a guild */
  "PUT /v1/guilds/{guild_id}/retention": {
    path: { guild_id: AnyId };
    query: {};
    body: RetentionPut;
    answer: RetentionBody;
  };
  /** Removes the retention of a guild: the node's setting applies */
  "DELETE /v1/guilds/{guild_id}/retention": {
    path: { guild_id: AnyId };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Lists the roles of a guild */
  "GET /v1/guilds/{guild_id}/roles": {
    path: { guild_id: AnyId };
    query: {};
    body: undefined;
    answer: Role[];
  };
  /** Creates or replaces roles */
  "PUT /v1/guilds/{guild_id}/roles": {
    path: { guild_id: AnyId };
    query: {};
    body: RolesOfGuild;
    answer: RolesPutBody;
  };
  /** Reads one role of a guild */
  "GET /v1/guilds/{guild_id}/roles/{role_id}": {
    path: { guild_id: AnyId; role_id: Snowflake };
    query: {};
    body: undefined;
    answer: Role;
  };
  /** Creates or replaces the role with this id */
  "PUT /v1/guilds/{guild_id}/roles/{role_id}": {
    path: { guild_id: AnyId; role_id: Snowflake };
    query: {};
    body: RolePut;
    answer: Role;
  };
  /** Deletes a role, and removes it from its members */
  "DELETE /v1/guilds/{guild_id}/roles/{role_id}": {
    path: { guild_id: AnyId; role_id: Snowflake };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Changes some fields of a role */
  "PATCH /v1/guilds/{guild_id}/roles/{role_id}": {
    path: { guild_id: AnyId; role_id: Snowflake };
    query: {};
    body: RolePatch;
    answer: Role;
  };
  /** Sets the members of a role */
  "PUT /v1/guilds/{guild_id}/roles/{role_id}/members": {
    path: { guild_id: AnyId; role_id: Snowflake };
    query: {};
    body: RoleMembersPut;
    answer: RolesChanged;
  };
  /** Adds members to a role, and removes others */
  "PATCH /v1/guilds/{guild_id}/roles/{role_id}/members": {
    path: { guild_id: AnyId; role_id: Snowflake };
    query: {};
    body: RoleMembersPatch;
    answer: RolesChanged;
  };
  /** Reads the voice state of a member */
  "GET /v1/guilds/{guild_id}/voice-states/{user_id}": {
    path: { guild_id: AnyId; user_id: AnyId };
    query: {};
    body: undefined;
    answer: VoiceState;
  };
  /** Puts a member into a voice channel */
  "PUT /v1/guilds/{guild_id}/voice-states/{user_id}": {
    path: { guild_id: AnyId; user_id: AnyId };
    query: {};
    body: VoiceStatePut;
    answer: VoiceState;
  };
  /** Takes a member out of voice */
  "DELETE /v1/guilds/{guild_id}/voice-states/{user_id}": {
    path: { guild_id: AnyId; user_id: AnyId };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Lists running jobs and the last 1,000 that ended */
  "GET /v1/jobs": {
    path: {};
    query: {};
    body: undefined;
    answer: JobList;
  };
  /** Reads the progress of a job */
  "GET /v1/jobs/{job_id}": {
    path: { job_id: Snowflake };
    query: {};
    body: undefined;
    answer: Job;
  };
  /** Lists the keys */
  "GET /v1/keys": {
    path: {};
    query: {};
    body: undefined;
    answer: Key[];
  };
  /** Creates a key */
  "POST /v1/keys": {
    path: {};
    query: {};
    body: NewKey;
    answer: MadeKey;
  };
  /** Revokes a key */
  "DELETE /v1/keys/{key_id}": {
    path: { key_id: Snowflake };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Reads the figures of the dark launch */
  "GET /v1/lab/dark": {
    path: {};
    query: {};
    body: undefined;
    answer: DarkLaunch;
  };
  /** Starts a dark launch */
  "POST /v1/lab/dark": {
    path: {};
    query: {};
    body: DarkPlan;
    answer: DarkLaunch;
  };
  /** Ends the dark launch */
  "DELETE /v1/lab/dark": {
    path: {};
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Lists dictionaries */
  "GET /v1/lab/dictionaries": {
    path: {};
    query: {};
    body: undefined;
    answer: LabDictionary[];
  };
  /** Stages a dictionary */
  "POST /v1/lab/dictionaries": {
    path: {};
    query: { encoding: string };
    body: Blob;
    answer: LabDictionary;
  };
  /** Removes a dictionary */
  "DELETE /v1/lab/dictionaries/{dictionary_id}": {
    path: { dictionary_id: string };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Serves a dictionary */
  "POST /v1/lab/dictionaries/{dictionary_id}/serve": {
    path: { dictionary_id: string };
    query: {};
    body: DictionaryShare;
    answer: LabDictionary;
  };
  /** Withdraws a dictionary */
  "POST /v1/lab/dictionaries/{dictionary_id}/withdraw": {
    path: { dictionary_id: string };
    query: {};
    body: undefined;
    answer: LabDictionary;
  };
  /** Lists recordings */
  "GET /v1/lab/recordings": {
    path: {};
    query: {};
    body: undefined;
    answer: Recording[];
  };
  /** Starts a recording */
  "POST /v1/lab/recordings": {
    path: {};
    query: {};
    body: RecordingPlan;
    answer: Recording;
  };
  /** Reads the figures of a recording */
  "GET /v1/lab/recordings/{recording_id}": {
    path: { recording_id: string };
    query: {};
    body: undefined;
    answer: Recording;
  };
  /** Ends a recording */
  "DELETE /v1/lab/recordings/{recording_id}": {
    path: { recording_id: string };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Reads the frames of a recording */
  "GET /v1/lab/recordings/{recording_id}/frames": {
    path: { recording_id: string };
    query: { from?: number; bytes_max?: number };
    body: undefined;
    answer: Blob;
  };
  /** Reads the node's state */
  "GET /v1/node": {
    path: {};
    query: { node?: string };
    body: undefined;
    answer: NodeState;
  };
  /** Reports bytes by dispatch type */
  "GET /v1/node/bandwidth": {
    path: {};
    query: { node?: string };
    body: undefined;
    answer: NodeBandwidthReport;
  };
  /** Reports the loudest callers of the last minute */
  "GET /v1/node/callers": {
    path: {};
    query: { limit?: number; node?: string };
    body: undefined;
    answer: NodeCallersReport;
  };
  /** Reports contexts, upgrades and shared-match */
  "GET /v1/node/compression": {
    path: {};
    query: { node?: string };
    body: undefined;
    answer: NodeCompressionReport;
  };
  /** Stops the node */
  "POST /v1/node/drain": {
    path: {};
    query: { node?: string };
    body: undefined;
    answer: undefined;
  };
  /** Reports whose the uploaded files are */
  "GET /v1/node/files": {
    path: {};
    query: { limit?: number; node?: string };
    body: undefined;
    answer: NodeFilesReport;
  };
  /** Reports the busiest guilds */
  "GET /v1/node/guilds": {
    path: {};
    query: { limit?: number; sort?: "busy"; node?: string };
    body: undefined;
    answer: NodeGuildsReport;
  };
  /** Reports one guild */
  "GET /v1/node/guilds/{guild_id}": {
    path: { guild_id: string };
    query: { node?: string };
    body: undefined;
    answer: NodeGuildReport;
  };
  /** Reads the history of series */
  "GET /v1/node/history": {
    path: {};
    query: { window_s?: number; series?: string; node?: string };
    body: undefined;
    answer: NodeHistoryReport;
  };
  /** Follows series */
  "GET /v1/node/live": {
    path: {};
    query: { series?: string; node?: string };
    body: undefined;
    answer: Blob;
  };
  /** Reports settings in force, refusals and warnings */
  "GET /v1/node/operations": {
    path: {};
    query: { node?: string };
    body: undefined;
    answer: NodeOperationsReport;
  };
  /** Reports health, connections, loops and memory */
  "GET /v1/node/overview": {
    path: {};
    query: { node?: string };
    body: undefined;
    answer: NodeOverviewReport;
  };
  /** Reads the configuration again */
  "POST /v1/node/reload": {
    path: {};
    query: { node?: string };
    body: undefined;
    answer: Reloaded;
  };
  /** Reports sessions that match */
  "GET /v1/node/sessions": {
    path: {};
    query: { user_id?: Snowflake; guild_id?: Snowflake; id?: string; connected?: boolean; codec?: string; limit?: number; node?: string };
    body: undefined;
    answer: NodeSessionsReport;
  };
  /** Reports one session, with its last dispatches */
  "GET /v1/node/sessions/{session_id}": {
    path: { session_id: string };
    query: { node?: string };
    body: undefined;
    answer: NodeSessionReport;
  };
  /** Publishes events */
  "POST /v1/publish": {
    path: {};
    query: {};
    body: Publications;
    answer: PublishResults;
  };
  /** Lists live sessions */
  "GET /v1/sessions": {
    path: {};
    query: { user_id?: Snowflake; after?: string; limit?: number };
    body: undefined;
    answer: SessionList;
  };
  /** Streams the events of sessions */
  "GET /v1/sessions/events": {
    path: {};
    query: { after?: string };
    body: undefined;
    answer: Lines;
  };
  /** Looks at a session */
  "GET /v1/sessions/{session_id}": {
    path: { session_id: string };
    query: {};
    body: undefined;
    answer: Session;
  };
  /** Closes a session */
  "DELETE /v1/sessions/{session_id}": {
    path: { session_id: string };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Inspects a token: whether it is valid, and if not, why */
  "POST /v1/tokens/inspect": {
    path: {};
    query: {};
    body: AnyToken;
    answer: InspectedToken;
  };
  /** Revokes a token of either kind */
  "POST /v1/tokens/revoke": {
    path: {};
    query: {};
    body: AnyToken;
    answer: RevokedBody;
  };
  /** Lists all accounts, or the one with an external id */
  "GET /v1/users": {
    path: {};
    query: { after?: Snowflake; limit?: number; external_id?: string };
    body: undefined;
    answer: Users;
  };
  /** Reads an account */
  "GET /v1/users/{user_id}": {
    path: { user_id: AnyId };
    query: {};
    body: undefined;
    answer: User;
  };
  /** Creates or replaces the account with this id */
  "PUT /v1/users/{user_id}": {
    path: { user_id: AnyId };
    query: {};
    body: UserPut;
    answer: User;
  };
  /** Deletes an account: it leaves all guilds, its tokens are revoked, its sessions end */
  "DELETE /v1/users/{user_id}": {
    path: { user_id: AnyId };
    query: { erase?: boolean; reassign?: AnyId };
    body: undefined;
    answer: Job | undefined;
  };
  /** Changes some fields of an account */
  "PATCH /v1/users/{user_id}": {
    path: { user_id: AnyId };
    query: {};
    body: UserPatch;
    answer: User;
  };
  /** Lists the guilds of an account */
  "GET /v1/users/{user_id}/guilds": {
    path: { user_id: AnyId };
    query: {};
    body: undefined;
    answer: GuildsOfUser;
  };
  /** Lists the bot tokens of an account, the first 1,000 */
  "GET /v1/users/{user_id}/tokens": {
    path: { user_id: AnyId };
    query: {};
    body: undefined;
    answer: TokenBody[];
  };
  /** Mints a token: a bot token for a bot, a user token for a user */
  "POST /v1/users/{user_id}/tokens": {
    path: { user_id: AnyId };
    query: {};
    body: NewToken;
    answer: MintedToken;
  };
  /** Revokes all tokens of an account */
  "DELETE /v1/users/{user_id}/tokens": {
    path: { user_id: AnyId };
    query: {};
    body: undefined;
    answer: RevokedBody;
  };
  /** Revokes one bot token by its id */
  "DELETE /v1/users/{user_id}/tokens/{token_id}": {
    path: { user_id: AnyId; token_id: string };
    query: {};
    body: undefined;
    answer: RevokedBody;
  };
  /** Lists webhooks */
  "GET /v1/webhooks": {
    path: {};
    query: {};
    body: undefined;
    answer: WebhookList;
  };
  /** Creates a webhook */
  "POST /v1/webhooks": {
    path: {};
    query: {};
    body: NewWebhook;
    answer: WebhookMade;
  };
  /** Reads a webhook */
  "GET /v1/webhooks/{webhook_id}": {
    path: { webhook_id: Snowflake };
    query: {};
    body: undefined;
    answer: Webhook;
  };
  /** Deletes a webhook with its dead letters */
  "DELETE /v1/webhooks/{webhook_id}": {
    path: { webhook_id: Snowflake };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Changes a webhook */
  "PATCH /v1/webhooks/{webhook_id}": {
    path: { webhook_id: Snowflake };
    query: {};
    body: WebhookChange;
    answer: Webhook;
  };
  /** Lists the dead letters of a webhook */
  "GET /v1/webhooks/{webhook_id}/dead-letters": {
    path: { webhook_id: Snowflake };
    query: {};
    body: undefined;
    answer: DeadLetter[];
  };
  /** Discards a dead letter */
  "DELETE /v1/webhooks/{webhook_id}/dead-letters/{letter_id}": {
    path: { webhook_id: Snowflake; letter_id: Snowflake };
    query: {};
    body: undefined;
    answer: undefined;
  };
  /** Retries a dead letter */
  "POST /v1/webhooks/{webhook_id}/dead-letters/{letter_id}/retry": {
    path: { webhook_id: Snowflake; letter_id: Snowflake };
    query: {};
    body: undefined;
    answer: undefined;
  };
}
