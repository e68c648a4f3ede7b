//! Report: shapes of the node's reports below `/v1/node`, field by field as in `web/dashboard/src/types.ts`.
//!
//! Owns        the shapes. Names that end in `_total` grow until the node ends; all others are values of now. Times are
//!             Unix milliseconds (`at_ms`), or durations with their unit in the name.
//! Invariants  a figure that is not measured is absent (`None`, or an empty list): nothing is made up.
//! Not here    what fills them (`bandwidth`, `guilds`, the loops, `guildhall_telemetry::reports`) and serves them
//!             (`guildhall_backend`).

use crate::{DurationsSnapshot, KindReport, LoopReport};
use serde::{Deserialize, Serialize};

/// A number with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeNamed))]
pub struct Named {
    /// What is counted.
    pub name: String,
    /// Its count, or its size in bytes.
    pub value: u64,
}

impl Named {
    /// A number with a name.
    pub fn new(name: impl Into<String>, value: u64) -> Self {
        Self { name: name.into(), value }
    }
}

/// Durations: how many, how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeTimes))]
pub struct Times {
    /// Number of durations.
    pub count_total: u64,
    /// Their sum, in nanoseconds.
    pub ns_total: u64,
    /// The longest since the start.
    pub max_ns: u64,
    /// The median, at most a quarter too large.
    pub p50_ns: u64,
    /// What 99 of 100 do not exceed, at most a quarter too large.
    pub p99_ns: u64,
    /// Upper bound in nanoseconds, and the number up to it and above the previous; buckets without any are left out.
    pub buckets: Vec<(u64, u64)>,
}

impl From<&DurationsSnapshot> for Times {
    fn from(times: &DurationsSnapshot) -> Self {
        Self {
            count_total: times.count(),
            ns_total: times.total_ns,
            max_ns: times.max_ns,
            p50_ns: times.quantile_ns(0.5),
            p99_ns: times.quantile_ns(0.99),
            buckets: times.buckets().filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// Wall time of one message type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeMessageType))]
pub struct MessageType {
    /// Name of the type.
    pub name: String,
    /// Time per message.
    pub times: Times,
}

impl From<&KindReport> for MessageType {
    fn from(kind: &KindReport) -> Self {
        Self { name: kind.name.clone(), times: (&kind.times).into() }
    }
}

/// A loop of the node and its times by message type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeLoop))]
pub struct Loop {
    /// What kind of loop.
    pub name: String,
    /// Which of them.
    pub index: usize,
    /// Nanoseconds of work.
    pub busy_ns_total: u64,
    /// Messages in its mailbox when it last looked.
    pub mailbox: u64,
    /// Time that messages waited there.
    pub waiting: Times,
    /// By message type; types that did not occur are left out.
    pub types: Vec<MessageType>,
}

impl From<&LoopReport> for Loop {
    fn from(report: &LoopReport) -> Self {
        Self {
            name: report.name.to_owned(),
            index: report.index,
            busy_ns_total: report.busy_ns,
            mailbox: report.mailbox,
            waiting: (&report.waits).into(),
            types: report.kinds.iter().map(MessageType::from).collect(),
        }
    }
}

/// Memory of one part of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeOwner))]
pub struct Owner {
    /// Name of the part of the node.
    pub name: String,
    /// Bytes that it holds.
    pub bytes: u64,
    /// Elements that hold them.
    pub elements: u64,
    /// Whether the bytes are counted; else they are estimated from a sample.
    pub is_exact: bool,
}

/// Connections and sessions now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeConnections))]
pub struct Connections {
    /// Sockets of the node, those of REST included.
    pub sockets: u64,
    /// Connections of the gateway.
    pub gateway: u64,
    /// Sessions with a connection.
    pub sessions_live: u64,
    /// Sessions that wait for a RESUME.
    pub sessions_resumable: u64,
    /// Connected sessions, by codec.
    pub by_codec: Vec<Named>,
    /// Connected sessions, by encoding.
    pub by_encoding: Vec<Named>,
    /// Sessions, by the platform that their client named.
    pub by_platform: Vec<Named>,
    /// Pairs of session and guild that receive every event.
    pub active: u64,
    /// Pairs that receive passive updates.
    pub passive: u64,
}

/// Memory of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeMemory))]
pub struct Memory {
    /// Resident bytes.
    pub resident_bytes: u64,
    /// Memory limit of the process, in bytes; none if it cannot be read.
    pub limit_bytes: Option<u64>,
    /// Largest first.
    pub owners: Vec<Owner>,
}

/// `GET /v1/node/overview`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeOverviewReport))]
pub struct OverviewReport {
    /// When it was collected.
    pub at_ms: u64,
    /// When the node started.
    pub started_at_ms: u64,
    /// Version of the program.
    pub version: String,
    /// Why `/readyz` answers 503; none while it answers 200.
    pub not_ready: Option<String>,
    /// Connections and sessions.
    pub connections: Connections,
    /// From a guild's durable event to its last frame of a partition.
    pub delivery: Times,
    /// Loops, in the order of their names.
    pub loops: Vec<Loop>,
    /// Memory of the process.
    pub memory: Memory,
}

/// An account, key or address that sends requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeCaller))]
pub struct Caller {
    /// Snowflake of the account or key (`"0"`: the root key), an IPv4 address, or an IPv6 /64.
    pub id: String,
    /// Name of the account or key; empty if it is not known, and for addresses.
    pub name: String,
    /// Requests within the window, refused ones too.
    pub requests: u64,
    /// Upper bound of other callers' requests among these: the node keeps the 128 loudest of every ten seconds.
    pub requests_over: u64,
    /// Nanoseconds of wall time until their answers, waiting included. `busy_ns` of the report is that of all.
    pub busy_ns: u64,
}

/// `GET /v1/node/callers`: REST and the backend API, without pages, links to files and gateway connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeCallersReport))]
pub struct CallersReport {
    /// When it was collected.
    pub at_ms: u64,
    /// Seconds that it is about: between 50 and 60.
    pub window_s: u64,
    /// Requests of all callers.
    pub requests: u64,
    /// Wall time of these.
    pub busy_ns: u64,
    /// Accounts with the most requests, most first.
    pub accounts: Vec<Caller>,
    /// Keys of the backend API.
    pub keys: Vec<Caller>,
    /// Addresses; each request counts for its account or key as well.
    pub addresses: Vec<Caller>,
}

/// Files of one guild, or of one direct message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeGuildFiles))]
pub struct GuildFiles {
    /// Snowflake of the guild, or of the direct message.
    pub id: String,
    /// Name of the guild; empty if it is not loaded.
    pub name: String,
    /// Number of files.
    pub files: u64,
    /// Sum of their sizes.
    pub bytes: u64,
}

/// Uploads of one account or webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeUploader))]
pub struct Uploader {
    /// Snowflake of the account or webhook.
    pub id: String,
    /// Name of the account; empty for a webhook.
    pub name: String,
    /// Bytes that count against its share of a day.
    pub day_bytes: u64,
}

/// `GET /v1/node/files`: bytes of uploaded files by owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeFilesReport))]
pub struct FilesReport {
    /// When it was collected.
    pub at_ms: u64,
    /// All files and pictures, uploads in progress too.
    pub bytes: u64,
    /// `uploads.bytes_max`.
    pub bytes_max: u64,
    /// Of avatars, icons, emoji and stickers.
    pub pictures_bytes: u64,
    /// Past this number of bytes of all files, messages with files are refused; the rest is for pictures.
    pub attachments_bytes_max: u64,
    /// Share of one guild.
    pub guild_bytes_max: u64,
    /// Share of one account in a day; none if there is no limit.
    pub account_day_bytes_max: Option<u64>,
    /// Guilds with the most bytes, most first. After a start they are complete within some minutes.
    pub guilds: Vec<GuildFiles>,
    /// Accounts and webhooks that uploaded most to this node within the last day, most first.
    pub uploaders: Vec<Uploader>,
}

/// Dispatches that were sent one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeWay))]
pub struct Way {
    /// `none`, `zlib-stream`, `zstd-stream`, `permessage-deflate`, or `zlib-payload` for dispatches that are compressed
    /// alone because IDENTIFY requested it.
    pub codec: String,
    /// `json` or `etf`.
    pub encoding: String,
    /// Dispatches written to sockets.
    pub count_total: u64,
    /// Bytes of their payloads before compression.
    pub raw_bytes_total: u64,
    /// Bytes of their frames, without TLS.
    pub wire_bytes_total: u64,
    /// Compressions that were timed, one in 64. Without context takeover, `permessage-deflate` compresses once for all
    /// recipients, which counts as one.
    pub timed_total: u64,
    /// Nanoseconds of these.
    pub timed_ns_total: u64,
}

/// Dispatches of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeDispatchType))]
pub struct DispatchType {
    /// As in field `t`; `BACKEND` for names that backends chose, `other` for everything that is no dispatch.
    pub name: String,
    /// Ways on which some were sent.
    pub ways: Vec<Way>,
}

/// Bytes of the same frames in several codecs, each with its WebSocket header and without TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeBilledWays))]
pub struct BilledWays {
    /// Number of frames.
    pub count_total: u64,
    /// Bytes of their payloads, before compression and without headers.
    pub raw_bytes_total: u64,
    /// Bytes as sent.
    pub wire_bytes_total: u64,
    /// Bytes without compression.
    pub plain_bytes_total: u64,
    /// Bytes with zlib-stream, by the settings of `codec.zlib_*`.
    pub zlib_bytes_total: u64,
    /// Bytes with zstd-stream, by the settings of `codec.zstd_*`.
    pub zstd_bytes_total: u64,
}

/// Frames of one dispatch type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeBilledType))]
pub struct BilledType {
    /// As in `DispatchType`.
    pub name: String,
    /// Frames of sampled connections.
    pub sample: BilledWays,
    /// All frames: number, payloads and bytes as sent are counted; the codecs' bytes are those of the sample in
    /// proportion to the payloads. A type without a sample has the proportions of all types together.
    pub estimate: BilledWays,
}

/// Cost of the same traffic in other codecs, from a sample of connections whose frames are compressed a second time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeBill))]
pub struct Bill {
    /// The node samples one connection in this many, all of the first four, and 32 at most.
    pub one_in: u64,
    /// Connections that are sampled now.
    pub sessions: u64,
    /// Connections that were sampled so far.
    pub sessions_total: u64,
    /// Of these, connections whose sample the CPU budget ended.
    pub sessions_dropped_total: u64,
    /// CPU time of the comparison.
    pub cpu_ns_total: u64,
    /// Sums of the sample.
    pub sample: BilledWays,
    /// Sums over all frames.
    pub estimate: BilledWays,
    /// By dispatch type; types with the most bytes as sent come first.
    pub types: Vec<BilledType>,
    /// Compressed streams by their writer, named as in `StreamWriter`; writers without a sample are left out.
    pub writers: Vec<BilledType>,
}

/// Cost of the compressed streams with the same writer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeStreamWriter))]
pub struct StreamWriter {
    /// `per-connection` (a library context), `per-connection, upgraded` (a larger one) or `shared-match`.
    pub name: String,
    /// Sessions that have such a stream now.
    pub sessions: u64,
    /// Memory of these streams. Histories and indexes of shared-match are apart: `heap_bytes` of `NodeSharedMatch`.
    pub memory_bytes: u64,
    /// Frames that it wrote.
    pub count_total: u64,
    /// Bytes of their payloads before compression.
    pub raw_bytes_total: u64,
    /// Bytes of these frames, without TLS.
    pub wire_bytes_total: u64,
    /// Dispatches whose compression was timed, one in 64.
    pub timed_total: u64,
    /// Nanoseconds of these.
    pub timed_ns_total: u64,
}

/// `GET /v1/node/bandwidth`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeBandwidthReport))]
pub struct BandwidthReport {
    /// When it was collected.
    pub at_ms: u64,
    /// Dispatch types; empty while bytes are not counted by type.
    pub types: Vec<DispatchType>,
    /// Writers of compressed streams, those that wrote nothing too.
    pub writers: Vec<StreamWriter>,
    /// None while no connection was sampled.
    pub bill: Option<Bill>,
}

/// A guild that is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeGuild))]
pub struct Guild {
    /// Snowflake of the guild, as text.
    pub id: String,
    /// Name of the guild; empty if it is not known.
    pub name: String,
    /// The worker that has it.
    pub worker: usize,
    /// Nanoseconds that the worker spent on it since it was loaded.
    pub busy_ns_total: u64,
    /// Messages that it handled.
    pub handled_total: u64,
    /// Events that it published to relays or accounts; one that goes to several relays counts once.
    pub events_total: u64,
    /// Deliveries of these to sessions, since each relay began.
    pub deliveries_total: u64,
    /// Bytes of the delivered bodies before compression.
    pub bytes_total: u64,
    /// Number of its members.
    pub members: u64,
    /// Sessions that receive every event.
    pub sessions_active: u64,
    /// Sessions that receive passive updates.
    pub sessions_passive: u64,
    /// Relays that have a replica of it.
    pub relays: u64,
    /// Its messages in the worker's mailbox.
    pub mailbox: u64,
}

/// `GET /v1/node/guilds`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeGuildsReport))]
pub struct GuildsReport {
    /// When it was collected.
    pub at_ms: u64,
    /// Guilds in memory.
    pub loaded: u64,
    /// The busiest guilds, at most `limit` of the request.
    pub guilds: Vec<Guild>,
}

/// A relay of one guild.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeRelay))]
pub struct Relay {
    /// Partition that runs it.
    pub partition: u16,
    /// Which of the partition's relays.
    pub index: usize,
    /// Sessions that receive every event.
    pub active: u64,
    /// Sessions that receive passive updates.
    pub passive: u64,
    /// Deliveries to its sessions.
    pub deliveries_total: u64,
    /// Bytes of these before compression.
    pub bytes_total: u64,
}

/// A channel or thread of one guild, with its events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeChannel))]
pub struct Channel {
    /// Snowflake, as text.
    pub id: String,
    /// Its name; empty for a private thread, a direct message, and a channel that is gone.
    pub name: String,
    /// `text`, `voice`, `public_thread` and so on; empty for a channel that is gone.
    pub kind: String,
    /// Events in it since the guild was loaded.
    pub events_total: u64,
}

/// `GET /v1/node/guilds/{guild_id}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeGuildReport))]
pub struct GuildReport {
    /// When it was collected.
    pub at_ms: u64,
    /// Its totals and its state now.
    pub guild: Guild,
    /// Its worker's time by message type.
    pub types: Vec<MessageType>,
    /// Relays with a replica of it, in the order of their partitions.
    pub relays: Vec<Relay>,
    /// Channels with events, the most first, at most 64.
    pub channels: Vec<Channel>,
}

/// A session of the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeSession))]
pub struct Session {
    /// Session id, as in READY.
    pub id: String,
    /// Snowflake of its account, as text.
    pub user_id: String,
    /// Name of its account; empty if it is not known.
    pub username: String,
    /// Whether the account is a bot's.
    pub is_bot: bool,
    /// Partition that has the session.
    pub partition: u16,
    /// Shard and number of shards; none without sharding.
    pub shard: Option<(u32, u32)>,
    /// `json` or `etf`.
    pub encoding: String,
    /// Of the connection; none without one.
    pub codec: Option<String>,
    /// Platform that the client named; empty where that is not known.
    pub platform: String,
    /// Whether it has a connection.
    pub is_connected: bool,
    /// Time that is left for a RESUME; none with a connection.
    pub resumable_ms: Option<u64>,
    /// Guilds that it is in.
    pub guilds: u64,
    /// Last sequence.
    pub seq: u64,
    /// Events kept for a RESUME.
    pub buffered_events: u64,
    /// Bytes of these events, as they count against the replay limit.
    pub buffered_bytes: u64,
    /// Events that are not written yet.
    pub backlog_events: u64,
}

/// `GET /v1/node/sessions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeSessionsReport))]
pub struct SessionsReport {
    /// When it was collected.
    pub at_ms: u64,
    /// Sessions of the node.
    pub all: u64,
    /// Whether there are more that match than are listed.
    pub is_partial: bool,
    /// Those that match.
    pub sessions: Vec<Session>,
}

/// A guild of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeSubscription))]
pub struct Subscription {
    /// Snowflake of the guild, as text.
    pub guild_id: String,
    /// Name of the guild; empty until a relay here has its state, and for a direct message.
    pub name: String,
    /// Whether every event is received; else passive updates.
    pub is_active: bool,
    /// `entering` until the relay has attached the session, then `inside`.
    pub membership: String,
}

/// A dispatch that a session was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeLoggedEvent))]
pub struct LoggedEvent {
    /// Its sequence.
    pub seq: u64,
    /// As in field `t`.
    pub name: String,
    /// Bytes of its body.
    pub bytes: u64,
    /// Whether it was written to the socket.
    pub is_written: bool,
}

/// `GET /v1/node/sessions/{session_id}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeSessionReport))]
pub struct SessionReport {
    /// When it was collected.
    pub at_ms: u64,
    /// Its state, as in the list.
    pub session: Session,
    /// Bits of its IDENTIFY.
    pub intents: u64,
    /// Bits of its IDENTIFY.
    pub capabilities: u64,
    /// What compresses its stream; none without compression.
    pub writer: Option<String>,
    /// Writer of its stream, with since when and why, and the stream's cost; none without a stream.
    pub stream: Option<StreamCost>,
    /// Its frames in other codecs; none if it is not among the connections that the bill samples.
    pub billed: Option<BilledWays>,
    /// Window of its stream; none where that is not known.
    pub window_bytes: Option<u64>,
    /// Bytes of the payloads that its connection was sent, before compression; none without a connection.
    pub raw_bytes_total: Option<u64>,
    /// Bytes of these frames, without TLS; none without a connection.
    pub wire_bytes_total: Option<u64>,
    /// Time since its socket last accepted bytes; none while it accepts them.
    pub blocked_ms: Option<u64>,
    /// Time since the client's last message.
    pub silent_ms: Option<u64>,
    /// Guilds of the session and its state in each.
    pub subscriptions: Vec<Subscription>,
    /// Its last dispatches, newest first, at most 100.
    pub log: Vec<LoggedEvent>,
}

/// A compressed stream: its writer, since when and why, and its cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeStreamCost))]
pub struct StreamCost {
    /// Why shared-match took it over from a library context: `crowd`, `cpu` or `memory`; none if it did not.
    pub moved: Option<String>,
    /// For how long its writer has had it.
    pub since_ms: u64,
    /// Memory that it holds.
    pub memory_bytes: u64,
    /// Its dispatches whose compression was timed since then, one in 64.
    pub timed_total: u64,
    /// Nanoseconds of these.
    pub timed_ns_total: u64,
}

/// Compression contexts of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeContextKind))]
pub struct ContextKind {
    /// `zlib`, `zstd` or `zstd_upgraded`.
    pub kind: String,
    /// Contexts in use.
    pub used: u64,
    /// Bytes of each.
    pub slot_bytes: u64,
    /// Resident bytes of their slabs.
    pub resident_bytes: u64,
    /// Contexts handed out.
    pub opened_total: u64,
    /// Contexts for which there was no room.
    pub refused_total: u64,
}

/// The loop that grants larger contexts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeUpgradesReport))]
pub struct UpgradesReport {
    /// Its decision, in a word.
    pub standing: String,
    /// Its decision, in a sentence.
    pub explanation: String,
    /// Share of new connections that may get one, in thousandths.
    pub share_permille: u64,
    /// Connections that got a larger context.
    pub granted_total: u64,
    /// Connections that would have got one, had there been room.
    pub denied_total: u64,
    /// Larger contexts that were taken back to free memory.
    pub reclaimed_total: u64,
}

/// Streams that share one match search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeSharedMatch))]
pub struct SharedMatch {
    /// History and index.
    pub heap_bytes: u64,
    /// Texts searched, once for all.
    pub texts_total: u64,
    /// Parses made of them.
    pub parses_total: u64,
    /// Texts written to connections.
    pub written_total: u64,
    /// Of these, not with the parse that was tried first.
    pub fallbacks_total: u64,
    /// Of these, with no shared parse.
    pub late_total: u64,
    /// Messages that one connection got and no other.
    pub alone_total: u64,
    /// Messages read back before they were sent.
    pub checked_total: u64,
    /// Of these, not as they were to be.
    pub mismatches_total: u64,
}

/// `GET /v1/node/compression`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeCompressionReport))]
pub struct CompressionReport {
    /// When it was collected.
    pub at_ms: u64,
    /// `codec.streams`.
    pub streams: String,
    /// Kinds of contexts.
    pub contexts: Vec<ContextKind>,
    /// What all contexts may hold.
    pub bytes_max: u64,
    /// Messages sent uncompressed for lack of a context.
    pub stored_total: u64,
    /// None while `codec.upgrades` is off.
    pub upgrades: Option<UpgradesReport>,
    /// Streams that share one match search.
    pub shared_match: SharedMatch,
    /// Streams that left their context for shared-match.
    #[serde(default)]
    pub context_moves: ContextMoves,
    /// Messages compressed once for permessage-deflate.
    pub deflate_shared_bodies_total: u64,
}

/// Streams that left their context for shared-match (`codec.streams = "auto"`), by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ContextMoves {
    /// Their events have many recipients.
    pub crowd_total: u64,
    /// Contexts took more CPU time than `codec.contexts_cpu_percent`.
    pub cpu_total: u64,
    /// Contexts held more memory than they may.
    pub memory_total: u64,
}

/// A setting in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeSetting))]
pub struct Setting {
    /// `section.key`.
    pub name: String,
    /// As TOML; secrets are hidden.
    pub value: String,
    /// File and line, variable, flag, or `default`.
    pub origin: String,
    /// Whether a reload applies it.
    pub is_live: bool,
}

/// Clients that were refused for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeRefusal))]
pub struct Refusal {
    /// What was refused: `token`, `key`, `identify`, `resume` or `socket`.
    pub what: String,
    /// Reason, by its name in `/metrics`.
    pub reason: String,
    /// Number of refusals since the start.
    pub count_total: u64,
}

/// A line of the log at level WARN or ERROR.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeWarning))]
pub struct Warning {
    /// When it was written.
    pub at_ms: u64,
    /// `warn` or `error`.
    pub level: String,
    /// Module that wrote it.
    pub target: String,
    /// Its message and fields.
    pub text: String,
}

/// `GET /v1/node/operations`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeOperationsReport))]
pub struct OperationsReport {
    /// When it was collected.
    pub at_ms: u64,
    /// Settings in force.
    pub settings: Vec<Setting>,
    /// Whether the node is being stopped.
    pub is_draining: bool,
    /// By what and why; reasons that did not occur are left out.
    pub refused: Vec<Refusal>,
    /// Connections cut because they did not read.
    pub slow_consumers_total: u64,
    /// The last warnings, newest first, at most 100.
    pub warnings: Vec<Warning>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LoopAccount;

    #[test]
    fn a_loop_is_reported_with_its_times() {
        let account = LoopAccount::new("guild worker", 1, ["create message", "timer"]);
        account.handled(0, 2_000);
        account.handled(0, 6_000);
        let counted = Loop::from(&account.report());
        assert_eq!((&*counted.name, counted.index, counted.busy_ns_total), ("guild worker", 1, 8_000));
        let [only] = &counted.types[..] else { panic!("{counted:?}") };
        assert_eq!((only.times.count_total, only.times.ns_total, only.times.max_ns), (2, 8_000, 6_000));
        assert!((2_000..=2_500).contains(&only.times.p50_ns), "{only:?}");
        assert_eq!(only.times.buckets.iter().map(|(_, count)| count).sum::<u64>(), 2);
        assert!(only.times.buckets.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
