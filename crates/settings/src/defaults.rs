//! Defaults of settings: each a named constant with its reason.

use super::value::{
    BalanceMode, ChatMode, ClientTakeover, CreateAccounts, DashboardMode, DatabaseCheck, DeflateMode, ExpireSessions,
    HiddenForm, HookFailure, IoUring, KeepEvents, LogFilter, LogFormat, MetricsAccess, PrivateEndpoints,
    PrivateWebhooks, StreamMode, SubjectIs, Synchronous, Text, Upgrades, UploadMode,
};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// Loopback: operators open a node to the network explicitly.
pub const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080));
/// One partition per core. Partitions share nothing, so more of them only add context switches.
pub const PARTITIONS: u16 = 0;
/// Partitions do most of the work; one guild worker per two cores keeps up with them.
pub const GUILD_WORKERS: u16 = 0;
/// A tenth of a second of work at 50,000 commands per second, which a caller can wait for.
pub const WORKER_MAILBOX_MAX: u32 = 4096;
/// About 40 KiB each with the kernel's share: less than a gigabyte on a machine with default settings.
pub const CONNECTIONS_MAX: u32 = 20_000;
/// The interval that clients expect; libraries derive their own timeouts from it.
pub const HEARTBEAT_INTERVAL_MS: u32 = 41_250;
/// Supervisors commonly kill after 30 s.
pub const DRAIN_TIMEOUT_MS: u32 = 20_000;
/// Most nodes have no load balancer. An operator who has one knows its polling interval.
pub const DRAIN_NOTICE_MS: u32 = 0;
/// Enough for a hundred thousand sessions of a busy guild. It is written and read once, in a second or two.
pub const HANDOVER_BYTES_MAX: u32 = 256 << 20;
/// Metrics show how busy a community is.
pub const METRICS: MetricsAccess = MetricsAccess::Local;
/// It costs less where it works; the node falls back where it does not.
pub const IO_URING: IoUring = IoUring::Auto;

/// A third of the bytes at almost no cost. Contexts for all browsers would cost 270 KB each.
pub const DEFLATE_MODE: DeflateMode = DeflateMode::Prepared;
/// Each event is compressed once, so effort is cheap; levels above 6 save less than a hundredth.
pub const DEFLATE_LEVEL: u16 = 6;
/// The largest window of the format.
pub const DEFLATE_WINDOW_BITS: u16 = 15;
/// zlib's own default.
pub const DEFLATE_MEM_LEVEL: u16 = 8;
/// Clients send little, mostly heartbeats: a window would save nothing.
pub const DEFLATE_CLIENT_TAKEOVER: ClientTakeover = ClientTakeover::Off;

/// Contexts send fewer bytes where events have few recipients; shared-match needs 3 KB per connection, and less CPU
/// where they have many.
pub const STREAMS: StreamMode = StreamMode::Auto;
/// Three quarters of a partition's time are left for everything else.
pub const CONTEXTS_CPU_PERCENT: u16 = 25;
/// A decoder's megabyte per thousand connections, and a thousandth of the deliveries read back.
pub const SHARED_CHECK_ONE_IN: u32 = 1000;
/// Enough for the shares of common dispatch types; its CPU time is bounded anyway.
pub const BILL_ONE_IN: u32 = 1000;
/// What four thousand connections of a partition may fill. With fewer the history is smaller.
pub const SHARED_HISTORY_BYTES_MAX: u32 = 160 << 20;

/// Some libraries queue their IDENTIFYs; a minute covers that.
pub const IDENTIFY_DEADLINE_MS: u32 = 60_000;
/// Upstream allows 1 to small bots; a self-hosted gateway restarts more often.
pub const IDENTIFY_CONCURRENCY: u32 = 16;
/// Documented by the protocol.
pub const IDENTIFY_INTERVAL_MS: u32 = 5_000;
/// Above the capacity of two cores, so that the queue of accepted IDENTIFYs drains within a second.
pub const IDENTIFIES_PER_SECOND_MAX: u32 = 2_000;
/// About 40 MB with hyper's buffers.
pub const HANDSHAKES_MAX: u32 = 2_048;
/// Enough for a campus behind one address.
pub const ADDRESS_CONNECTIONS_MAX: u32 = 1_000;
/// The same campus, with one socket per client; idle sockets are closed after ten seconds.
pub const ADDRESS_REST_CONNECTIONS_MAX: u32 = 1_000;
/// All clients of that campus after a restart.
pub const ADDRESS_HANDSHAKES_PER_MINUTE: u32 = 2_000;
/// Documented by the protocol.
pub const BOT_IDENTIFIES_PER_DAY: u32 = 1000;
/// Documented by the protocol.
pub const USER_SESSIONS_MAX: u32 = 50;
/// Documented by the protocol.
pub const GUILDS_PER_SHARD_MAX: u32 = 2500;
/// Documented by the protocol: 120 per 60 s, heartbeats count.
pub const INBOUND_PER_MINUTE_MAX: u32 = 120;
/// Documented by the protocol for bots.
pub const BOT_MESSAGE_BYTES_MAX: u32 = 4096;
/// User clients rely on it. Also the limit before IDENTIFY, when the kind of account is unknown.
pub const USER_MESSAGE_BYTES_MAX: u32 = 15_360;
/// Covers a short network outage; members without a connection still leave voice soon.
pub const SESSION_RESUME_MS: u32 = 180_000;
/// Covers a reload of the page.
pub const TEMPORARY_AWAY_MS: u32 = 60_000;
/// Enough for moderators of a busy guild: 400 KiB of memory.
pub const AUDIT_LOG_ENTRIES_MAX: u32 = 1_000;
/// The resume window of a guild with twenty messages a second.
pub const REPLAY_EVENTS_MAX: u32 = 4096;
/// The same in bytes. Sessions share bodies, so the limit bounds the reach of a resume more than memory.
pub const REPLAY_BYTES_MAX: u32 = 4 << 20;
/// Twice the replay buffer: a resume, and events that arrive during it.
pub const BACKLOG_EVENTS_MAX: u32 = 8192;
/// Larger than the largest READY with all its guilds. A client that is further behind should resume.
pub const BACKLOG_BYTES_MAX: u32 = 64 << 20;
/// Events of a busy guild in three minutes, the resume window.
pub const SHARED_LOG_EVENTS_MAX: u32 = 8192;
/// Bodies of those events; logs of one guild share them.
pub const SHARED_LOG_BYTES_MAX: u32 = 16 << 20;
/// A few thousand READYs of a few guilds.
pub const READY_BYTES_IN_FLIGHT_MAX: u32 = 64 << 20;
/// As published for relays.
pub const SESSIONS_PER_RELAY_MAX: u32 = 15_000;
/// Unread marks may be 30 s old.
pub const PASSIVE_UPDATE_INTERVAL_MS: u32 = 30_000;
/// Less than the heartbeat timeout, so that a dead peer frees memory earlier.
pub const WRITE_STALL_MS: u32 = 30_000;
/// The documented limits, which clients are written for.
pub const REST_RATE_PERCENT: u32 = 100;
/// More than a well-behaved backend needs; batches and streams carry more.
pub const BACKEND_REQUESTS_PER_S: u32 = 1_000;

/// The form that libraries are written for.
pub const HIDDEN_CHANNELS: HiddenForm = HiddenForm::Listed;
/// Covers a bot that welcomes new members of a large guild; people write to a few dozen accounts.
pub const DIRECTS_CREATED_PER_DAY_MAX: u32 = 1_000;
/// Each group appears in the lists of up to ten accounts.
pub const GROUPS_CREATED_PER_DAY_MAX: u32 = 50;

/// This and the next two are the parameters of upstream.
pub const ZLIB_LEVEL: u16 = 6;
pub const ZLIB_WINDOW_BITS: u16 = 15;
pub const ZLIB_MEM_LEVEL: u16 = 8;
/// This and the next three are as published by upstream.
pub const ZSTD_LEVEL: i32 = 6;
pub const ZSTD_WINDOW_LOG: u32 = 18;
pub const ZSTD_CHAIN_LOG: u32 = 16;
pub const ZSTD_HASH_LOG: u32 = 16;
/// Small blocks: half the memory; READY and long member lists are larger by 2 %.
pub const ZSTD_BLOCK_BYTES_MAX: u32 = 16 << 10;
/// Otherwise free memory would be unused.
pub const UPGRADES: Upgrades = Upgrades::Auto;
/// A fifth remains for unexpected demand.
pub const UPGRADE_MEMORY_PERCENT: u16 = 80;

/// Most communities have their own client, and a page that is not served needs no attention.
pub const CHAT: ChatMode = ChatMode::Off;
pub const DASHBOARD: DashboardMode = DashboardMode::On;

/// A bot is no key to the network of the node.
pub const PRIVATE_ENDPOINTS: PrivateEndpoints = PrivateEndpoints::Off;
/// A key of the backend API is no key to the network of the node.
pub const PRIVATE_WEBHOOKS: PrivateWebhooks = PrivateWebhooks::Off;
/// Ten times what a service in the same data centre needs.
pub const HOOK_TIMEOUT_MS: u32 = 250;
/// An operator who sets a hook wants no message to pass without its decision.
pub const HOOK_ON_FAILURE: HookFailure = HookFailure::Refuse;
/// At 1 ms per answer some 200,000 messages a second.
pub const HOOK_REQUESTS_MAX: u32 = 256;

/// A row per event costs a write for each, which a node without such a backend need not pay.
pub const EVENTS_KEEP: KeepEvents = KeepEvents::Off;
/// A week: a backend that is repaired after a weekend misses nothing.
pub const EVENTS_KEEP_HOURS: u32 = 168;
/// About a gigabyte.
pub const EVENTS_ROWS_MAX: u32 = 1_000_000;

/// Clients expect it.
pub const UPLOAD_MODE: UploadMode = UploadMode::On;
/// Only the operator decides on deletion.
pub const MESSAGES_KEEP_DAYS: u32 = 0;
/// A few thousand pictures of a phone; a smaller disk fills first, which also ends in 507.
pub const UPLOADS_BYTES_MAX: u64 = 10 << 30;
/// 1 GiB of the default: 40 of the largest files. Ten accounts need a day for what one could do in minutes.
pub const UPLOADS_ACCOUNT_DAY_PERCENT: u32 = 10;
/// So that no guild can take all, and a node with a few guilds of one community still has room for the largest.
pub const UPLOADS_GUILD_PERCENT: u32 = 50;
/// 512 MiB of the default: 5,000 avatars of 100 KB.
pub const UPLOADS_PICTURES_PERCENT: u32 = 5;
/// Documented by the protocol, for the whole request.
pub const UPLOAD_FILE_BYTES_MAX: u32 = 25 << 20;
/// A `data:` URL of this size leaves some KiB of a 1 MiB body for other fields.
pub const UPLOAD_PICTURE_BYTES_MAX: u32 = 4 << 20;

/// As upstream: clients and bots renew links.
pub const LINKS_EXPIRE_S: u32 = 86_400;

/// The folder for generated data, which is git-ignored.
pub const STORE_DIR: &str = "data/node";
/// The demo has a folder of its own, so that it never writes into the data of a node.
pub const DEMO_STORE_DIR: &str = "data/demo";
/// An acknowledged write survives even a power cut.
pub const SYNCHRONOUS: Synchronous = Synchronous::Full;

/// With short-lived tokens, operators expect access to end at the expiry.
pub const EXPIRE_SESSIONS: ExpireSessions = ExpireSessions::On;
/// A check takes one to two seconds per GB. Damage that is found late is also in all backups since.
pub const STORE_CHECK: DatabaseCheck = DatabaseCheck::Quick;
/// Room for the write-ahead log, which grows to this size before a checkpoint.
pub const STORE_FREE_BYTES_MIN: u64 = 64 << 20;

/// Most backends manage accounts and ids themselves.
pub const CREATE_ACCOUNTS: CreateAccounts = CreateAccounts::Off;
pub const SUBJECT_KIND: SubjectIs = SubjectIs::Id;
/// A company whose employees sign in within a quarter of an hour.
pub const ACCOUNTS_PER_MINUTE_MAX: u32 = 600;

/// Issuers publish a new key long before they sign with it.
pub const JWKS_REFRESH_S: u32 = 300;

/// Both sides of a voice key need a name for it.
pub fn voice_token_key_id() -> Text {
    Text::parse("guildhall").expect("a text without control characters")
}

/// Ten minutes: a client joins at once, and a member who was removed cannot come back for long.
pub const VOICE_TOKEN_S: u32 = 600;

/// Text for people; programs configure JSON.
pub const LOG_FORMAT: LogFormat = LogFormat::Text;

/// A quarter of a year. Backups contain older entries.
pub const AUDIT_KEEP_DAYS: u32 = 90;

/// Events that an operator needs, and none per message.
pub fn log_level() -> LogFilter {
    LogFilter::parse("info").expect("`info` is a filter")
}

pub const CLUSTER_WEIGHT: u32 = 1;
/// A killed node's guilds are served again within five seconds: this, and the time to load them.
pub const CLUSTER_LEASE_MS: u32 = 3_000;
/// Clients do not notice a move, and a cluster at rest makes none.
pub const CLUSTER_BALANCE: BalanceMode = BalanceMode::On;
/// Off: mirrors cost memory and messages between nodes for each session.
pub const CLUSTER_MIRROR_MS: u32 = 0;

/// A busy node has a trace each second or two.
pub const TRACE_ONE_IN: u32 = 1_000;
/// People notice.
pub const TRACE_SLOW_MS: u32 = 1_000;

/// Below it, clients notice a relay that does not deliver as early as the node.
pub const CANARY_MEMBERS_MIN: u32 = 1_000;
/// One event per relay; a relay that does not deliver is found within half a minute.
pub const CANARY_INTERVAL_S: u32 = 10;
