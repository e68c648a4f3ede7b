//! One session as the checker knows it.
//!
//! Owns        what its client must be sent, in order (`expected`), and what the product gave it of that.
//! Doors       `membership` follows the guild, `pending_ready` what READY waits for, `given` an input of the product,
//!             `replay` a RESUME, `received` the client; `end` decides why it may be gone.

mod delivery_check;
mod end;
mod expected;
mod membership;
mod pending_ready;
mod received;
mod replay;
mod restore;

pub use expected::{Content, DeliveryTime, Expected, Withheld};

use crate::{
    checker::Identified,
    model::{ClientModel, PassiveForm, PendingUpdates, Reader, State},
};
use guildhall_codec::Encoding;
use guildhall_guild_protocol::{HiddenChannels, PartitionId, RelayId};
use guildhall_model::to_gateway::{RequestGuildMembers, Subscription};
use guildhall_stdx::{Instant, SlotKey};
use pending_ready::PendingReady;
use std::{
    collections::{BTreeSet, VecDeque},
    rc::Rc,
    sync::Arc,
};

/// State of a session in the guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    None,
    Entering,
    Inside,
}

/// Capabilities of a user client (docs/protocol/reference.md §8.1).
#[derive(Clone, Copy, Debug)]
pub struct Capabilities(pub u64);

impl Capabilities {
    fn has(self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }

    fn is_prioritized(self) -> bool {
        self.has(4) && self.has(5)
    }

    fn passive(self) -> PassiveForm {
        match (self.has(14), self.has(11)) {
            (true, _) => PassiveForm::V2,
            (false, true) => PassiveForm::V1,
            (false, false) => PassiveForm::Unreads,
        }
    }
}

/// See the module.
pub struct Session {
    pub key: SlotKey,
    pub id: Arc<str>,
    pub side: usize,
    pub user: u64,
    /// Which it came with last.
    pub token: u64,
    /// A backend ended it.
    pub is_closed: bool,
    /// The client's connection that it began on.
    pub identified_on: u64,
    pub is_bot: bool,
    pub intents: u32,
    pub large_threshold: u64,
    pub in_shard: bool,
    pub encoding: Encoding,
    hidden: HiddenChannels,
    pub membership: Membership,
    /// Of the guild here: the one that it entered through, or is about to.
    pub relay: u16,
    /// The guild was small enough when it entered.
    starts_active: bool,
    /// The session's subscription.
    pub subscription: Subscription,
    watched: BTreeSet<u64>,
    capabilities: Capabilities,
    /// Passive session: number of its relay's changes in its updates, and the guild's state that it knows.
    pub known_state: (usize, Rc<State>),
    /// Passive session with an incomplete replay, until its next update: channels it viewed at either time.
    uncertain_channels: BTreeSet<u64>,
    /// It has been passive since its view of the guild began.
    pub was_never_active: bool,
    /// State of the guild by the dispatches that the client received.
    pub known: ClientModel,
    /// The client requested dispatches that it had already, without a RESUME from an older state.
    pub is_confused: bool,
    /// Update that the current input has to send to a passive session.
    due: Option<PendingUpdates>,
    /// The session ended during a passive update, which may have been written unchecked.
    may_end_with_update: bool,
    /// Seq 1 comes first.
    pub expected: Vec<Expected>,
    /// Dispatches that the current input has to add.
    pending: VecDeque<Content>,
    /// Answers to op 8, which are made when the connection has nothing else to do.
    pub chunks: VecDeque<Rc<str>>,
    /// The client's op 8 requests, by nonce.
    pub requests: Vec<(String, RequestGuildMembers)>,
    /// The client is known to have everything up to here.
    pub received_floor: u64,
    /// The highest number that its client ever claimed to have; the server may have forgotten all up to it.
    pub claimed: u64,
    /// It waits for the guild that it was in when the process ended.
    is_restoring: bool,
    /// Whether the session came from another process, and has not received the guild again since.
    pub was_restored: bool,
    /// Why it does not exist any more.
    pub gone: Option<&'static str>,
    /// The client closed its connection with this serial number with a close code that ends the session.
    pub goodbye_on: Option<u64>,
    pub conn_serial: u64,
    conn: Option<SlotKey>,
    detached_since: Option<Instant>,
    /// Of its account's shards the first, or its only one.
    pub is_first_shard: bool,
    /// Set until READY is sent: what READY still waits for.
    pending_ready: Option<PendingReady>,
}

impl Session {
    pub fn new(side: usize, new: Identified, hidden: HiddenChannels, gather_deadline: Instant) -> Self {
        let is_bot = new.user.bot;
        let (least, default) = if is_bot { (50, 50) } else { (25, 250) };
        let threshold = new.large_threshold.unwrap_or(default).clamp(least, 250);
        let mut session = Self {
            key: new.key,
            id: new.id,
            side,
            user: new.user.id.get(),
            token: new.token,
            is_closed: false,
            identified_on: new.conn_serial,
            is_bot,
            intents: new.intents,
            large_threshold: threshold,
            in_shard: new.in_shard,
            encoding: new.encoding,
            hidden,
            membership: Membership::None,
            relay: 0,
            starts_active: false,
            subscription: Subscription::default(),
            watched: BTreeSet::new(),
            capabilities: if is_bot { Capabilities(0) } else { new.capabilities },
            known_state: Default::default(),
            uncertain_channels: BTreeSet::new(),
            was_never_active: false,
            known: ClientModel::default(),
            is_confused: false,
            due: None,
            may_end_with_update: false,
            expected: Vec::new(),
            pending: VecDeque::new(),
            chunks: VecDeque::new(),
            requests: Vec::new(),
            received_floor: 0,
            claimed: 0,
            is_restoring: false,
            was_restored: false,
            gone: None,
            goodbye_on: None,
            conn_serial: new.conn_serial,
            conn: Some(new.conn),
            detached_since: None,
            is_first_shard: new.is_first_shard,
            pending_ready: None,
        };
        let guilds = if new.in_shard { new.guilds } else { Vec::new() };
        session.begin_ready(guilds.first().copied(), gather_deadline);
        session
    }

    pub fn reader(&self) -> Reader<'_> {
        Reader {
            user: self.user,
            is_bot: self.is_bot,
            intents: self.intents,
            is_active: self.is_active(),
            typing: self.subscription.typing,
            member_updates: self.subscription.member_updates,
            threads: self.subscription.threads,
            watched: &self.watched,
            passive: self.capabilities.passive(),
        }
    }

    /// It takes users once, apart from where they are named.
    fn takes_users_apart(&self) -> bool {
        self.capabilities.has(4)
    }

    fn is_active(&self) -> bool {
        self.is_bot || self.starts_active || self.subscription.typing
    }

    /// Whether it is a passive session of the guild.
    pub fn is_passive(&self) -> bool {
        self.gone.is_none() && self.membership == Membership::Inside && !self.is_active()
    }

    /// The relay that serves it, or is about to.
    pub fn relay_id(&self) -> RelayId {
        RelayId { partition: PartitionId(self.side as u16), index: self.relay }
    }

    /// Its view of the guild has begun, through this relay.
    pub fn is_served_by(&self, relay: RelayId) -> bool {
        self.membership == Membership::Inside && self.relay_id() == relay
    }

    pub fn expect(&mut self, content: Content) {
        self.pending.push_back(content);
    }
}
