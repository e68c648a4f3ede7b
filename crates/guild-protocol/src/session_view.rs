//! Sessions as backends see them, whatever thread and node they are on.
//!
//! Invariants  plain data. (`SessionView` crosses between nodes in a form of `guildhall::cluster::sessions`.)
//! Not here    the sessions themselves (`guildhall-session`), and their search (`guildhall-partition`).

use guildhall_codec::Encoding;
use guildhall_model::{UserId, to_gateway::ShardId};
use std::sync::Arc;

/// Change of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionChange {
    /// It began, by IDENTIFY.
    Connected,
    /// A connection resumed it.
    Resumed,
    /// Its connection ended; it can be resumed for a while.
    Disconnected,
    /// It ended, and cannot be resumed.
    Gone,
}

/// A change of a session, for backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionNews {
    pub change: SessionChange,
    /// The session's id, as clients know it.
    pub session_id: Arc<str>,
    /// The session's account.
    pub user_id: UserId,
}

/// A connection's compressed stream: since when its writer has it, why, and what it costs the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamView {
    /// Why shared-match took the stream over from a library context, a value of `why` in metric `context_moves_total`;
    /// none if it did not.
    pub moved: Option<&'static str>,
    /// For how long the writer has had the stream.
    pub since_ms: u64,
    /// Memory that the stream holds. That of the histories of shared-match is apart.
    pub memory_bytes: u64,
    /// The writer's compressions that were timed, one in 64.
    pub timed_total: u64,
    /// Nanoseconds of these.
    pub timed_ns_total: u64,
}

/// Snapshot of a session, for backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Session id, as clients send it in RESUME.
    pub id: Arc<str>,
    /// Its place, for the next page.
    pub slot: u32,
    /// The session's account.
    pub user_id: UserId,
    /// Name of the account.
    pub username: String,
    /// Whether the account is a bot.
    pub is_bot: bool,
    /// Its slice of the account's guilds.
    pub shard: Option<ShardId>,
    /// Encoding of its messages.
    pub encoding: Encoding,
    /// Name of the connection's compression; none without a connection.
    pub compression: Option<&'static str>,
    /// Component that compresses; none without a connection or compression.
    pub writer: Option<&'static str>,
    /// Cost of its compressed stream; none without one.
    pub stream: Option<StreamView>,
    /// Guilds that it is attached to or about to be.
    pub guilds_count: usize,
    /// The newest sequence number.
    pub seq: u64,
    /// Dispatches in the replay buffer.
    pub buffered_events: usize,
    /// Bytes of these, as they are counted against the limits.
    pub buffered_bytes: usize,
    /// Dispatches that its connection has yet to be written; 0 without a connection.
    pub backlog_events: u64,
    /// Platform of its client, by name.
    pub platform: &'static str,
    /// It has a connection. Otherwise it can be resumed.
    pub is_connected: bool,
    /// Remaining time in which it can be resumed; none with a connection.
    pub resumable_ms: Option<u64>,
}

/// Selects sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The session with this id.
    Session(Arc<str>),
    /// All of an account.
    User(UserId),
    /// Sessions of an account that were started or resumed with this token.
    Token(UserId, u64),
}
