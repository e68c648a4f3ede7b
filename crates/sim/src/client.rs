//! Clients of the simulation: they behave like a library, with random timing.

use guildhall_model::{User, to_gateway::SubscriptionPatch};
use guildhall_test_kit::{ClientParams, TestClient};
use std::{collections::VecDeque, sync::Arc};

/// The input that a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Offline,
    /// HELLO has not come.
    Connected,
    /// It may identify or resume.
    Greeted,
    Identifying,
    Resuming,
    Live,
    /// The client or the server sent a close frame.
    Closing,
}

/// The last IDENTIFY or RESUME of a connection.
#[derive(Clone, Debug)]
pub enum Claim {
    None,
    Identify,
    Resume { session_id: String, seq: u64 },
}

/// One connection a client ever made.
#[derive(Clone, Debug)]
pub struct ConnInfo {
    pub client: usize,
    pub claim: Claim,
    /// Token of the IDENTIFY or RESUME.
    pub token: Option<String>,
    /// Subscriptions that are on their way to the server, oldest first.
    pub subscriptions: VecDeque<Sent>,
}

/// A message on its way to the server: where it is in what the server has not read, and what it subscribes to.
#[derive(Clone, Debug)]
pub struct Sent {
    pub first: usize,
    pub end: usize,
    /// Some of it was read.
    pub is_begun: bool,
    pub patch: SubscriptionPatch,
}

/// See the module.
pub struct Client {
    pub user: Arc<User>,
    pub token: String,
    pub params: ClientParams,
    pub intents: Option<u32>,
    pub capabilities: Option<u64>,
    pub shard: Option<(u32, u32)>,
    pub large_threshold: Option<u64>,
    pub wire: Option<TestClient>,
    /// Of the connection.
    pub serial: u64,
    pub phase: Phase,
    /// The session it knows, in the checker.
    pub session: Option<usize>,
    /// Last `s` it has.
    pub seq: u64,
    /// Heartbeats on this connection that were not answered yet: of which session, with which `s`.
    pub beats: VecDeque<(Option<usize>, u64)>,
    pub last_beat_ms: u64,
    /// Reads little and seldom.
    pub is_slow: bool,
    pub nonces: u64,
    /// It misbehaved on this connection and may be closed for it.
    pub is_bad: bool,
    /// Op 9s of this connection.
    pub invalid_sessions: u8,
    /// A close frame came.
    pub is_close_received: bool,
}

impl Client {
    /// The session's intents: those of its IDENTIFY, or all for user accounts without intents.
    pub fn effective_intents(&self) -> u32 {
        self.intents.unwrap_or((1 << 29) - 1)
    }

    pub fn is_in_shard(&self, guild_id: u64) -> bool {
        self.shard.is_none_or(|(id, count)| (guild_id >> 22) % u64::from(count) == u64::from(id))
    }

    pub fn forget_session(&mut self) {
        self.session = None;
        self.seq = 0;
    }
}
