//! Checker: what every session must have been sent, and whether its client got exactly that.
//!
//! Owns        one `Session` per session the partitions made: the dispatches that the model expects, in order, and how
//!             many of them its client has received.
//! Doors       `guild` and `relays` follow the guild's events and streams; `sessions` follows the partitions; `clients`
//!             holds what a client decoded against all that, `at_rest` what it knows against what is;
//!             `restart` compares the store with the published state.
//! Invariants  the checker reads from the product only which sessions exist, and on which connection they are.
//! Not here    chance: `world.rs`.

mod accounts;
mod at_rest;
mod clients;
mod directs;
mod guild;
mod relays;
mod restart;
mod sessions;

use crate::{
    model::{Event, PresenceModel, State, Telling, Texts},
    session::{Capabilities, Session},
    world::SIDES,
};
use foldhash::fast::FixedState;
use guild::Pace;
use guildhall_guild::GuildRecord;
use guildhall_guild_protocol::{HiddenChannels, RelayId, ToRelay};
use guildhall_model::User;
use guildhall_stdx::SlotKey;
use relays::Relay;
use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
    sync::Arc,
};

/// A violated expectation. The text has the expected and the actual value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

pub fn fault<T>(text: impl Into<String>) -> Result<T, Fault> {
    Err(Fault(text.into()))
}

/// A guild's message on its way to a relay, with the guild as it was when the message was made.
#[derive(Clone, Debug)]
pub struct InTransit {
    pub message: ToRelay,
    pub state: Rc<State>,
    pub event: Option<Rc<Event>>,
    pub made_at_unix_ms: i64,
    /// The guild when the job began that this is the result of.
    pub job_state: Option<Rc<State>>,
}

/// Limits of the partitions that decide about sessions.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    pub resume_window_ms: u64,
    pub gather_deadline_ms: u64,
    pub replay_events_max: u64,
    pub backlog_events_max: u64,
    /// A user account is passive in a guild with more members; none: its `large_threshold`.
    pub passive_above_members: Option<u64>,
    pub presence_events_per_s_max: u32,
    pub presence_burst_max: u32,
    /// Limit of the shared log of a group of sessions.
    pub log_events_max: u64,
    pub log_age_ms_max: u64,
    pub hidden_channels: HiddenChannels,
}

/// A session of a partition: which, and where.
pub type SessionKey = (usize, SlotKey);

/// See the module.
pub struct Checker {
    pub limits: SessionLimits,
    pub sessions: Vec<Session>,
    /// The guild now.
    pub state: Rc<State>,
    /// Before the last change of the guild itself or of a member.
    viewed_before: Rc<State>,
    /// Those of each partition that are not gone, in order.
    living: [Vec<usize>; SIDES],
    by_key: HashMap<SessionKey, usize, FixedState>,
    by_id: HashMap<Arc<str>, usize>,
    relays: BTreeMap<RelayId, Relay>,
    shown: PresenceModel,
    /// Last published presence of each member.
    published_presences: BTreeMap<u64, (&'static str, usize)>,
    pace: Pace,
    /// Events and rounds of passive updates that any relay handled.
    given_total: u64,
    texts: Texts,
    /// Events that the current command should publish.
    pub telling: Telling,
    pub accounts: HashMap<u64, Arc<User>>,
    /// Dispatches that were compared.
    pub compared_count: u64,
    /// Of these, in order.
    pub digest: u64,
}

/// Properties of a session after a successful IDENTIFY.
pub struct Identified {
    pub key: SlotKey,
    pub id: Arc<str>,
    pub user: Arc<User>,
    pub token: u64,
    pub intents: u32,
    pub capabilities: Capabilities,
    pub large_threshold: Option<u64>,
    pub in_shard: bool,
    pub is_first_shard: bool,
    pub encoding: guildhall_codec::Encoding,
    pub guilds: Vec<u64>,
    pub conn: SlotKey,
    /// Which of the client's connections.
    pub conn_serial: u64,
}

impl Checker {
    pub fn new(record: &GuildRecord, limits: SessionLimits, accounts: &[Arc<User>]) -> Self {
        Self {
            limits,
            sessions: Vec::new(),
            state: Rc::new(State::of(record)),
            viewed_before: Rc::default(),
            living: Default::default(),
            by_key: HashMap::default(),
            by_id: HashMap::new(),
            relays: BTreeMap::new(),
            shown: PresenceModel::default(),
            published_presences: BTreeMap::new(),
            pace: Pace::default(),
            given_total: 0,
            texts: Texts::default(),
            telling: Telling::Usual,
            accounts: accounts.iter().map(|user| (user.id.get(), user.clone())).collect(),
            compared_count: 0,
            digest: 0,
        }
    }

    pub fn session_by_id(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }
}
