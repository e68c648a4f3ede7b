//! Defaults: each a named constant with the reason beside it.

use super::value::{LogFilter, LogFormat, Synchronous};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// Loopback: whoever wants strangers to connect says so.
pub const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080));
/// The demo is for the machine it runs on.
pub const DEMO_LISTEN: SocketAddr = LISTEN;
/// One partition per core: nothing is shared between them, so more only add switches.
pub const PARTITIONS: u16 = 0;
/// Partitions do most of the work; one guild worker per two cores keeps up with them.
pub const GUILD_WORKERS: u16 = 0;
/// At 50,000 commands a second, what a worker gets through while a caller would still wait: a tenth of a second.
pub const WORKER_MAILBOX_MAX: u32 = 4096;
/// What clients are used to; libraries derive their own timeouts from it.
pub const HEARTBEAT_INTERVAL_MS: u32 = 41_250;
/// Supervisors commonly kill after 30 s; leave them no reason to.
pub const DRAIN_TIMEOUT_MS: u32 = 20_000;

/// Small bots never notice; a thundering herd after a restart is paced instead of served at once.
pub const IDENTIFIES_PER_5S: u32 = 1000;
/// Documented by the protocol: 120 per 60 s, heartbeats count.
pub const INBOUND_MESSAGES_MAX: u32 = 120;
/// The window of the above.
pub const INBOUND_WINDOW_MS: u32 = 60_000;
/// Documented by the protocol for bots.
pub const BOT_PAYLOAD_BYTES_MAX: u32 = 4096;
/// What user clients rely on; also the limit before IDENTIFY, when nobody knows yet who it is.
pub const USER_PAYLOAD_BYTES_MAX: u32 = 15_360;
/// A few minutes of a busy guild.
pub const REPLAY_EVENTS_MAX: u32 = 1024;
/// Bodies are shared between sessions, so this bounds reach rather than memory.
pub const REPLAY_BYTES_MAX: u32 = 1 << 20;
/// Long enough for a train tunnel, short enough that ghosts leave voice.
pub const SESSION_RESUME_MS: u32 = 180_000;
/// Above the largest READY and replay together; a reader that is further behind is better off resuming.
pub const OUTPUT_BACKLOG_BYTES_MAX: u32 = 8 << 20;
/// Some kilobytes each before they have said who they are: at most a few dozen megabytes for strangers.
pub const UNAUTHENTICATED_CONNECTIONS_MAX: u32 = 10_000;
/// Some libraries queue their identifies; a minute covers that.
pub const IDENTIFY_DEADLINE_MS: u32 = 60_000;

/// Beside the other generated data, which is git-ignored.
pub const STORE_PATH: &str = "data/guildhall.db";
/// An acknowledged write survives even a power cut.
pub const SYNCHRONOUS: Synchronous = Synchronous::Full;

/// For people; machines ask for JSON.
pub const LOG_FORMAT: LogFormat = LogFormat::Text;

/// What an operator wants to see, and nothing per message.
pub fn log_level() -> LogFilter {
    LogFilter::parse("info").expect("`info` is a filter")
}
