//! Defaults: each a named constant with the reason beside it.

use super::value::{
    ClientTakeover, CreateAccounts, DatabaseCheck, DeflateMode, ExpireSessions, HiddenForm, IoUring, LogFilter,
    LogFormat, MetricsAccess, StreamMode, Synchronous, Upgrades, UploadMode,
};
use guildhall_codec::{ZlibParams, ZstdParams};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// Loopback: whoever wants strangers to connect says so.
pub const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080));
/// One partition per core: nothing is shared between them, so more only add switches.
pub const PARTITIONS: u16 = 0;
/// Partitions do most of the work; one guild worker per two cores keeps up with them.
pub const GUILD_WORKERS: u16 = 0;
/// At 50,000 commands a second, what a worker gets through while a caller would still wait: a tenth of a second.
pub const WORKER_MAILBOX_MAX: u32 = 4096;
/// Some 40 KiB each with the kernel's share: below a gigabyte for a machine nobody has tuned.
pub const CONNECTIONS_MAX: u32 = 20_000;
/// What clients are used to; libraries derive their own timeouts from it.
pub const HEARTBEAT_INTERVAL_MS: u32 = 41_250;
/// Supervisors commonly kill after 30 s; leave them no reason to.
pub const DRAIN_TIMEOUT_MS: u32 = 20_000;
/// Most nodes stand alone; who has a load balancer knows how often it asks.
pub const DRAIN_NOTICE_MS: u32 = 0;
/// Some hundred thousand sessions of a busy guild share this; it is written and read once, in a second or two.
pub const HANDOVER_BYTES_MAX: u32 = 256 << 20;
/// They say how busy a community is, which strangers need not know.
pub const METRICS: MetricsAccess = MetricsAccess::Local;
/// It costs less wherever it works, and is not used where it does not.
pub const IO_URING: IoUring = IoUring::Auto;

/// A third of the bytes for next to nothing; contexts for everybody who happens to be a browser would cost 268 KiB each.
pub const DEFLATE_MODE: DeflateMode = DeflateMode::Prepared;
/// Once per event, so effort is cheap; what is above 6 gains less than a hundredth.
pub const DEFLATE_LEVEL: u16 = 6;
/// The largest there is.
pub const DEFLATE_WINDOW_BITS: u16 = 15;
/// zlib's own.
pub const DEFLATE_MEM_LEVEL: u16 = 8;
/// Clients send little, and most of it is a heartbeat: there is nothing to gain from keeping it.
pub const DEFLATE_CLIENT_TAKEOVER: ClientTakeover = ClientTakeover::Off;

/// Until the other has proven itself.
pub const STREAMS: StreamMode = StreamMode::SharedMatch;
/// A decoder's megabyte per thousand connections, and a thousandth of the deliveries read back.
pub const SHARED_CHECK_ONE_IN: u32 = 1000;
/// Some four thousand messages.
pub const SHARED_HISTORY_BYTES_MAX: u32 = 4 << 20;

/// Some libraries queue their identifies; a minute covers that.
pub const IDENTIFY_DEADLINE_MS: u32 = 60_000;
/// Upstream gives 1 to small bots; a gateway of one's own is restarted more often.
pub const IDENTIFY_CONCURRENCY: u32 = 16;
/// Documented by the protocol.
pub const IDENTIFY_INTERVAL_MS: u32 = 5_000;
/// Above what two cores manage, so that a node is never asked for more at once than it does in a second.
pub const IDENTIFIES_PER_SECOND_MAX: u32 = 2_000;
/// With hyper's buffers some 40 MB at worst.
pub const HANDSHAKES_MAX: u32 = 2_048;
/// A campus behind one address, and not what one machine can open.
pub const ADDRESS_CONNECTIONS_MAX: u32 = 1_000;
/// The same campus, a socket each; idle ones end after ten seconds.
pub const ADDRESS_REST_CONNECTIONS_MAX: u32 = 1_000;
/// That campus coming back after a restart.
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
/// What user clients rely on; also the limit before IDENTIFY, when nobody knows yet who it is.
pub const USER_MESSAGE_BYTES_MAX: u32 = 15_360;
/// Long enough for a train tunnel, short enough that ghosts leave voice.
pub const SESSION_RESUME_MS: u32 = 180_000;
/// A page that is loaded anew.
pub const TEMPORARY_AWAY_MS: u32 = 60_000;
/// What moderators look back at in a busy guild: 400 KiB of memory.
pub const AUDIT_LOG_ENTRIES_MAX: u32 = 1_000;
/// The resume window of a guild with twenty messages a second.
pub const REPLAY_EVENTS_MAX: u32 = 4096;
/// The same in bytes; bodies are shared between sessions, so this bounds reach more than memory.
pub const REPLAY_BYTES_MAX: u32 = 4 << 20;
/// Twice the replay: a resume and what happens meanwhile.
pub const BACKLOG_EVENTS_MAX: u32 = 8192;
/// Above the largest READY with all its guilds; a reader that is further behind is better off resuming.
pub const BACKLOG_BYTES_MAX: u32 = 64 << 20;
/// What a busy guild says in three minutes: the time a session has to resume.
pub const SHARED_LOG_EVENTS_MAX: u32 = 8192;
/// Bodies of those; logs of one guild share them.
pub const SHARED_LOG_BYTES_MAX: u32 = 16 << 20;
/// A few thousand READYs of a few guilds.
pub const READY_BYTES_IN_FLIGHT_MAX: u32 = 64 << 20;
/// As published for relays.
pub const SESSIONS_PER_RELAY_MAX: u32 = 15_000;
/// A guild's unread marks may be as old as that.
pub const PASSIVE_UPDATE_INTERVAL_MS: u32 = 30_000;
/// Less than the heartbeat timeout, so that a dead peer costs memory no longer than it has to.
pub const WRITE_STALL_MS: u32 = 30_000;
/// As documented, which clients are written for.
pub const REST_RATE_PERCENT: u32 = 100;
/// More than a backend sends that means well: who has more to say sends batches and streams.
pub const BACKEND_REQUESTS_PER_S: u32 = 1_000;

/// What libraries are written for.
pub const HIDDEN_CHANNELS: HiddenForm = HiddenForm::Listed;
/// A bot that welcomes whoever joins a large guild; people write to a few dozen.
pub const DIRECTS_CREATED_PER_DAY_MAX: u32 = 1_000;
/// Each of them is in the lists of up to ten people.
pub const GROUPS_CREATED_PER_DAY_MAX: u32 = 50;

/// What clients know from upstream.
pub const ZLIB: ZlibParams = ZlibParams { level: 6, window_bits: 15, mem_level: 8 };
/// As published by upstream, with small blocks: half the memory at the same ratio.
pub const ZSTD: ZstdParams =
    ZstdParams { level: 6, window_log: 18, chain_log: 16, hash_log: 16, block_bytes_max: 4 << 10 };
/// Memory that nobody uses is of no use.
pub const UPGRADES: Upgrades = Upgrades::Auto;
/// A fifth is left for what nobody foresees.
pub const UPGRADE_MEMORY_PERCENT: u16 = 80;

/// Clients expect it.
pub const UPLOAD_MODE: UploadMode = UploadMode::On;
/// Deletion is the operator's decision.
pub const MESSAGES_KEEP_DAYS: u32 = 0;
/// A few thousand pictures of a phone; a disk that has less room says so itself.
pub const UPLOADS_BYTES_MAX: u64 = 10 << 30;
/// Documented by the protocol, for the whole request.
pub const UPLOAD_FILE_BYTES_MAX: u32 = 25 << 20;
/// A `data:` URL of this size leaves some KiB of a 1 MiB body for other fields.
pub const UPLOAD_PICTURE_BYTES_MAX: u32 = 768_000;

/// As upstream: clients and bots are used to renewing them.
pub const LINKS_EXPIRE_S: u32 = 86_400;

/// The folder for generated data, which is git-ignored.
pub const STORE_DIR: &str = "data/node";
/// The demo has a folder of its own: it must never write into somebody's node.
pub const DEMO_STORE_DIR: &str = "data/demo";
/// An acknowledged write survives even a power cut.
pub const SYNCHRONOUS: Synchronous = Synchronous::Full;

/// Operators with tokens of minutes expect that access ends with them.
pub const EXPIRE_SESSIONS: ExpireSessions = ExpireSessions::On;
/// A gigabyte takes a second or two, and damage that is found late is in every backup since.
pub const STORE_CHECK: DatabaseCheck = DatabaseCheck::Quick;
/// As much as the write-ahead log grows to before it is merged.
pub const STORE_FREE_BYTES_MIN: u64 = 64 << 20;

/// Most backends have accounts of their own, with ids of their own.
pub const CREATE_ACCOUNTS: CreateAccounts = CreateAccounts::Off;
/// A company that signs in within a quarter of an hour.
pub const ACCOUNTS_PER_MINUTE_MAX: u32 = 600;

/// Issuers put a new key there long before they sign with it.
pub const JWKS_REFRESH_S: u32 = 300;

/// For people; machines ask for JSON.
pub const LOG_FORMAT: LogFormat = LogFormat::Text;

/// A quarter. Backups hold older entries.
pub const AUDIT_KEEP_DAYS: u32 = 90;

/// What an operator wants to see, and nothing per message.
pub fn log_level() -> LogFilter {
    LogFilter::parse("info").expect("`info` is a filter")
}
