//! Cluster: one node's view of the others, and the route of each guild's inputs to its owner.
//!
//! Owns        the records of the other nodes, the owner of each guild that this node serves or sends inputs to, inputs
//!             that wait until an owner is known, requests that other nodes carry out.
//! Doors       `handle_node` and `handle_owner` for the lease store, `handle_message` and `handle_gap` for the bus,
//!             `push` for inputs of guilds, `uses` and `unloaded` for what the driver does without it, `handle_timer`.
//!             After each: drain `poll_output`.
//! Invariants  C1 inputs of one sender for one guild reach an owner in order, or the sender's relay of that guild is
//!             reset: the relay's sessions attach again. C2 a request is sent to one owner at a time, and to another
//!             one only after `NotOwner`: it is carried out once at most. It is answered once. C3 a guild is served
//!             here only while its owner record names this incarnation and the lease is valid. C4 a message of a guild
//!             reaches a relay only from the node that this node believes to be the owner. C5 after a loss between two
//!             nodes, both sides discard all messages in flight between them: requests are answered `Unavailable`,
//!             relays are reset. C6 this node removes its owner record of a guild only after it has ceased to serve the
//!             guild. It serves the guild again only by a record that the removal cannot hit: one that it writes after
//!             the answer, or in place of the old one.
//! Limits      `PARKED_MAX` inputs wait per guild while its owner is found, requests for `LOCATE_MS_MAX`. `ROUTES_MAX`.
//!             `REMOVALS_MAX` removals of owner records at a time.
//! Not here    writing to the lease store, frames and queues (the driver, `guildhall-node`); commits of two owners at
//!             the same time: PostgreSQL refuses those of the earlier (`Store::commit_fenced`).

mod handoff;

use crate::{
    node::{Incarnation, NodeNumber, NodeRecord, OwnerRecord},
    peer::{Answer, DirectoryChange, GuildInput, NotServed, PeerMessage, RelayPlace, RequestId, TraceContext},
    placement::node_for,
};
use guildhall_guild::Refusal;
use guildhall_guild_protocol::{Published, RelayId, RelayMessage, ToGuild, ToRelay};
use guildhall_model::{GuildId, User, UserId};
use guildhall_stdx::Instant;
pub use handoff::CONFIRM_MS_MAX;
use handoff::{Arriving, Leaving};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Most inputs that wait for one guild's owner. At the limit requests are refused, and relays keep their messages.
pub const PARKED_MAX: usize = 512;
/// Most owners in the cache, in addition to those of guilds that are served here or have relays here.
const ROUTES_MAX: usize = 65_536;
/// Requests that wait for an owner longer than this are refused.
pub const LOCATE_MS_MAX: u64 = 8_000;
/// Back-off before the owner record is read again after a failure or a disagreement, and before a relay is reset whose
/// message met a full queue.
const RETRY_MS: u64 = 50;
/// A guild that is not in memory and gets no inputs for this time has no owner any more. Longer than pauses in
/// conversations: the next input costs a read and a write of the lease store.
const OWNER_IDLE_MS: u64 = 600_000;
/// Most removals of owner records that wait for the lease store.
const REMOVALS_MAX: usize = 64;
/// Back-off of further ones.
const REMOVAL_PAUSE_MS: u64 = 1_000;
/// Interval at which a node repeats `PeerMessage::Lost`.
const LOST_AGAIN_MS: u64 = 1_000;

/// Revision of a record in the lease store.
pub type Revision = u64;

/// Source of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Own,
    Peer(NodeNumber),
}

/// Access to a guild's owner record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerOp {
    Read,
    /// Reads the node record that this owner record, at this revision, names: is that membership still in force?
    Check(OwnerRecord, Revision),
    /// Makes this node the owner if there is no record.
    Create(OwnerRecord),
    /// Makes this node the owner if the record has this revision.
    Replace(OwnerRecord, Revision),
    /// Removes the record if it has this revision.
    Remove(Revision),
}

/// Result of an `OwnerOp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerResult {
    /// The current record, if there is one.
    Found(Option<(OwnerRecord, Revision)>),
    /// Answer to `Check`: the membership that the lease store has for the owner's number, if any.
    Checked(OwnerRecord, Revision, Option<Incarnation>),
    /// The lease store has stored this record.
    Written(OwnerRecord),
    /// The lease store has removed the record.
    Removed,
    /// Another node wrote first.
    Conflict,
    /// The lease store did not answer; the write may have happened.
    Away,
}

/// Effects for the driver, in order.
#[derive(Debug)]
pub enum Output {
    /// Queue a message for another node.
    Send { to: NodeNumber, message: PeerMessage },
    /// Later messages for this node go on this stream; queued ones are dropped. Until `Open` the driver sends only
    /// control messages: it repeats `Hello`.
    Begin { to: NodeNumber, membership: Incarnation, stream: u64 },
    /// The node accepts messages of this stream.
    Open { to: NodeNumber, stream: u64 },
    /// The node has left: drop its queue.
    End { to: NodeNumber },
    /// Access the owner record; then `handle_owner`.
    Owner { guild_id: GuildId, op: OwnerOp },
    /// Input for a guild of this node. If the guild's mailbox is full, call `refused_input`.
    ToGuild { guild_id: GuildId, origin: Origin, input: GuildInput },
    /// Message for a relay of this node. If the relay's queue is full, call `refused_message`.
    ToRelay(ToRelay, Option<TraceContext>),
    /// Guilds of this node forget the relays of that node with their sessions.
    ForgetRelays { of: NodeNumber },
    /// This node has stopped being the owner: drop the guild from memory.
    Release { guild_id: GuildId },
    /// The guild has been handed over: drop it from memory; then `gave_up` with the inputs that it has not handled.
    GiveUp { guild_id: GuildId },
    /// This node is the owner of a guild that it expected: claim its epoch for the standby, and call `arrived`.
    Claim { guild_id: GuildId },
    /// The standby is the guild from here on: it forgets the relays of these nodes, and takes inputs.
    Serve { guild_id: GuildId, forget: Vec<NodeNumber> },
    /// The standby of a guild is not needed any more.
    Drop { guild_id: GuildId },
    /// Answer of a request of this node.
    Answer { request: RequestId, answer: Answer },
    /// An event for sessions of this node.
    Users(Arc<Published>, Option<TraceContext>),
    /// An account joined a guild: for sessions of this node.
    Joined { user_id: UserId, guild_id: GuildId },
    /// An account changed: for sessions of this node.
    UserChanged(Arc<User>),
    /// For the directory of this node.
    Changed(Vec<DirectoryChange>),
}

/// Result of `push`.
#[derive(Debug)]
pub enum Pushed {
    /// The guild is served here: the caller passes the input to it.
    Local(GuildInput),
    /// The machine has queued or sent the input.
    Accepted,
    /// `PARKED_MAX` inputs wait already.
    Full(GuildInput),
}

struct Peer {
    record: NodeRecord,
    /// Stream of messages to the peer.
    out_stream: u64,
    /// Stream of messages from the peer; none until the peer begins one.
    in_stream: Option<u64>,
    /// Stream of the peer that this node refused, and the time of its last `Lost`.
    refused: Option<(u64, Instant)>,
}

struct Route {
    owner: Owner,
    /// Relays of this node that are subscribed.
    relays: BTreeMap<RelayId, Subscribed>,
    /// Of a guild that is served here and not in memory: when this node ceases to be the owner.
    idle_at: Option<Instant>,
    /// Times that this node began to serve the guild since it knows the route: a hand-off is of one of them.
    term: u64,
    /// After a hand-off to another node: when the relays here are reset, unless that node has sent `Arrived`.
    confirm_at: Option<Instant>,
}

struct Subscribed {
    epoch: u32,
    /// True from a reset until its snapshot. The owner restarts the sequence numbers, so an event that passed before
    /// the snapshot could look to the relay like the next one of the old sequence.
    awaits_snapshot: bool,
}

impl Route {
    fn new(owner: Owner) -> Self {
        Self { owner, relays: BTreeMap::new(), idle_at: None, term: 0, confirm_at: None }
    }

    /// Follows the subscriptions of this node's relays.
    fn follow(&mut self, message: &ToGuild) {
        match *message {
            ToGuild::Subscribe { relay, epoch } => {
                self.relays.insert(relay, Subscribed { epoch, awaits_snapshot: false });
            }
            ToGuild::Unsubscribe { relay, epoch } if self.relays.get(&relay).is_some_and(|is| is.epoch == epoch) => {
                self.relays.remove(&relay);
            }
            _ => {}
        }
    }

    /// Inputs that make the owner, `node`, send new snapshots to relays of this node.
    fn resets(&mut self, resets: Resets, node: NodeNumber) -> Vec<GuildInput> {
        match resets {
            Resets::No => Vec::new(),
            Resets::UnlessAt(before) if before == node => Vec::new(),
            Resets::Yes | Resets::UnlessAt(_) => {
                self.relays.iter_mut().map(|(relay, subscribed)| subscribed.reset(*relay)).collect()
            }
        }
    }

    /// Whether a message of the guild may pass to this relay.
    fn takes(&mut self, relay: RelayId, message: &RelayMessage) -> bool {
        let Some(subscribed) = self.relays.get_mut(&relay) else { return false };
        subscribed.awaits_snapshot &= !matches!(message, RelayMessage::Snapshot { reset: true, .. });
        !subscribed.awaits_snapshot
    }
}

impl Subscribed {
    fn reset(&mut self, relay: RelayId) -> GuildInput {
        self.awaits_snapshot = true;
        GuildInput::Reset { relay, epoch: self.epoch }
    }
}

enum Owner {
    Local,
    Peer(NodeNumber),
    Unknown(Search),
    Leaving(Box<Leaving>),
    Arriving(Box<Arriving>),
}

struct Search {
    /// When the search began, or when it last refused requests after `LOCATE_MS_MAX`.
    since: Instant,
    /// When to read the record again; none while a request to the lease store is in flight.
    again_at: Option<Instant>,
    parked: VecDeque<(Origin, GuildInput)>,
    resets: Resets,
    removal: Removal,
}

/// Whether this node's own record may be removed (C6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removal {
    No,
    /// The node has ceased to serve the guild, and reads its record to remove it.
    Wanted,
    /// The request is on its way: the lease store may carry it out late.
    Requested,
}

/// Whether relays of this node are reset once the owner is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resets {
    /// Their subscriptions are among the parked inputs.
    No,
    /// They lost messages.
    Yes,
    /// Only if the owner is another node than this.
    UnlessAt(NodeNumber),
}

impl Search {
    fn new(now: Instant, resets: Resets) -> Self {
        Self { since: now, again_at: None, parked: VecDeque::new(), resets, removal: Removal::No }
    }
}

/// A request that another node carries out.
struct PendingRequest {
    node: NodeNumber,
    /// Sent to another owner if this node answers `NotOwner`.
    input: GuildInput,
    since: Instant,
}

/// The machine of one node.
pub struct Cluster {
    number: NodeNumber,
    incarnation: Incarnation,
    record: NodeRecord,
    is_serving: bool,
    streams_count: u64,
    terms_count: u64,
    peers: BTreeMap<NodeNumber, Peer>,
    routes: BTreeMap<GuildId, Route>,
    /// Number of routes at which unused ones are evicted.
    routes_max: usize,
    pending: BTreeMap<RequestId, PendingRequest>,
    /// Timers: searches that read the record again, and relays to reset.
    retries: BTreeSet<(Instant, GuildId)>,
    resets: BTreeSet<(Instant, GuildId, RelayId)>,
    /// Guilds of this node that are not in memory, and since when they have been unused for `owner_idle_ms`.
    idle: BTreeSet<(Instant, GuildId)>,
    owner_idle_ms: u64,
    /// Guilds whose owner record is being removed.
    removals: BTreeSet<GuildId>,
    /// Timers of hand-offs: of routes that leave, arrive, or wait for a confirmation.
    handoffs: BTreeSet<(Instant, GuildId)>,
    outputs: VecDeque<Output>,
}

impl Cluster {
    /// A node that has joined under this number. It serves nothing before `set_serving`.
    #[must_use]
    pub fn new(number: NodeNumber, record: NodeRecord) -> Self {
        Self {
            number,
            incarnation: record.incarnation,
            record,
            is_serving: false,
            streams_count: 0,
            terms_count: 0,
            peers: BTreeMap::new(),
            routes: BTreeMap::new(),
            routes_max: ROUTES_MAX,
            pending: BTreeMap::new(),
            retries: BTreeSet::new(),
            resets: BTreeSet::new(),
            idle: BTreeSet::new(),
            owner_idle_ms: OWNER_IDLE_MS,
            removals: BTreeSet::new(),
            handoffs: BTreeSet::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Sets after which time an unused guild has no owner any more.
    pub fn set_owner_idle(&mut self, ms: u64) {
        self.owner_idle_ms = ms;
    }

    /// This node's number.
    #[must_use]
    pub fn number(&self) -> NodeNumber {
        self.number
    }

    /// This node's record.
    #[must_use]
    pub fn record(&self) -> &NodeRecord {
        &self.record
    }

    /// The other nodes, by number.
    pub fn peers(&self) -> impl Iterator<Item = (NodeNumber, &NodeRecord)> {
        self.peers.iter().map(|(number, peer)| (*number, &peer.record))
    }

    /// The other node of this incarnation.
    #[must_use]
    pub fn peer_of(&self, incarnation: Incarnation) -> Option<NodeNumber> {
        self.peers.iter().find(|(_, peer)| peer.record.incarnation == incarnation).map(|(number, _)| *number)
    }

    /// The owner of a guild, this node or another, as this node last learned it.
    #[must_use]
    pub fn owner_of(&self, guild_id: GuildId) -> Option<NodeNumber> {
        match self.routes.get(&guild_id)?.owner {
            Owner::Local | Owner::Arriving(_) => Some(self.number),
            Owner::Peer(number) => Some(number),
            Owner::Leaving(ref leaving) => Some(leaving.to),
            Owner::Unknown(_) => None,
        }
    }

    /// Whether relays of this node accept a guild's messages from `node` (C4): it is the owner, or it was and the
    /// search has not yet found another.
    #[must_use]
    pub fn takes_from(&self, guild_id: GuildId, node: NodeNumber) -> bool {
        match self.routes.get(&guild_id).map(|route| &route.owner) {
            Some(Owner::Peer(owner)) => *owner == node,
            Some(Owner::Unknown(search)) => search.resets == Resets::UnlessAt(node),
            Some(Owner::Leaving(leaving)) => leaving.to == node,
            Some(Owner::Arriving(arriving)) => arriving.from == node,
            Some(Owner::Local) | None => false,
        }
    }

    /// Whether the lease of this node is valid.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.is_serving
    }

    /// Guilds that this node owns.
    #[must_use]
    pub fn guilds_here(&self) -> usize {
        self.routes.values().filter(|route| matches!(route.owner, Owner::Local)).count()
    }

    /// Requests that other nodes carry out now.
    #[must_use]
    pub fn asked_count(&self) -> usize {
        self.pending.len()
    }

    /// The next effect.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call `handle_timer`.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let retry = self.retries.first().map(|(at, _)| *at);
        let reset = self.resets.first().map(|(at, ..)| *at);
        let idle = self.idle.first().map(|(at, _)| *at);
        let handoff = self.handoffs.first().map(|(at, _)| *at);
        retry.into_iter().chain(reset).chain(idle).chain(handoff).min()
    }

    // ── the lease and the other nodes ────────────────────────────────────────────────────────────

    /// Reports whether the lease of this node is valid. When it ends, the machine releases every guild of this node.
    pub fn set_serving(&mut self, now: Instant, is_serving: bool) {
        if std::mem::replace(&mut self.is_serving, is_serving) == is_serving {
            return;
        }
        if is_serving {
            // Searches paused during the outage.
            for (guild_id, route) in &mut self.routes {
                if let Owner::Unknown(search) = &mut route.owner {
                    search.again_at = Some(now);
                    self.retries.insert((now, *guild_id));
                }
            }
            return;
        }
        // Callers would wait for answers of nodes that may be unreachable for long.
        for request in std::mem::take(&mut self.pending).into_keys() {
            self.answer(request, Err(Refusal::Unavailable));
        }
        self.end_handoffs(now);
        let here: Vec<GuildId> =
            self.routes.iter().filter(|(_, route)| matches!(route.owner, Owner::Local)).map(|(id, _)| *id).collect();
        for guild_id in here {
            // The answer to a renewal may be under way: the membership goes on then, and other nodes would not notice.
            self.broadcast(&PeerMessage::Released { guild_id });
            self.drop_guild(now, guild_id);
        }
    }

    /// The node has a new membership, after its lease was lost: to others it is another node. Requests under way are
    /// answered `Unavailable`, relays are reset.
    pub fn rejoin(&mut self, now: Instant, record: NodeRecord) {
        self.incarnation = record.incarnation;
        self.record = record;
        let numbers: Vec<NodeNumber> = self.peers.keys().copied().collect();
        for number in numbers {
            if let Some(peer) = self.peers.get_mut(&number) {
                (peer.in_stream, peer.refused) = (None, None);
            }
            self.begin_stream(number);
            self.forget_inputs(number);
            self.void(now, number);
        }
    }

    /// The record of another node as the lease store has it; none: it has left or its lease has ended. The node's own
    /// record is ignored.
    pub fn handle_node(&mut self, now: Instant, number: NodeNumber, record: Option<NodeRecord>) {
        if number == self.number {
            if let Some(record) = record.filter(|record| record.incarnation == self.incarnation) {
                self.record = record;
            }
            return;
        }
        let is_same = match (&record, self.peers.get(&number)) {
            (Some(record), Some(peer)) => record.incarnation == peer.record.incarnation,
            (None, None) => return,
            _ => false,
        };
        if is_same {
            if let (Some(record), Some(peer)) = (record, self.peers.get_mut(&number)) {
                peer.record = record;
            }
            return;
        }
        let had_peer = self.peers.remove(&number).is_some();
        if had_peer {
            self.outputs.push_back(Output::End { to: number });
            self.forget_inputs(number);
        }
        if let Some(record) = record {
            self.peers.insert(number, Peer { record, out_stream: 0, in_stream: None, refused: None });
            self.begin_stream(number);
        }
        if had_peer {
            self.void(now, number);
        }
        // A search may have found a record that names this node before the node was known: read it again.
        for (guild_id, route) in &mut self.routes {
            if let Owner::Unknown(search) = &mut route.owner
                && let Some(at) = search.again_at.as_mut()
            {
                self.retries.remove(&(*at, *guild_id));
                *at = now;
                self.retries.insert((now, *guild_id));
            }
        }
    }

    fn begin_stream(&mut self, number: NodeNumber) {
        let Some(peer) = self.peers.get_mut(&number) else { return };
        // A number is never reused, not even for another incarnation of that node: receivers drop repetitions.
        self.streams_count += 1;
        let stream = self.streams_count;
        peer.out_stream = stream;
        let membership = peer.record.incarnation;
        self.outputs.push_back(Output::Begin { to: number, membership, stream });
    }

    /// Drops parked inputs of this node, and the subscriptions of its relays.
    fn forget_inputs(&mut self, of: NodeNumber) {
        let is_gone = !self.peers.contains_key(&of);
        for route in self.routes.values_mut() {
            match &mut route.owner {
                Owner::Unknown(search) => search.parked.retain(|(origin, _)| *origin != Origin::Peer(of)),
                Owner::Arriving(arriving) => arriving.forget(of, is_gone),
                Owner::Local | Owner::Peer(_) | Owner::Leaving(_) => {}
            }
        }
        self.outputs.push_back(Output::ForgetRelays { of });
    }

    /// Messages in flight to and from node `number` are lost (C5). Refuses the requests that it carries out, and resets
    /// local relays of the guilds that it owns; if it has left, starts a search for their owners.
    fn void(&mut self, now: Instant, number: NodeNumber) {
        let is_gone = !self.peers.contains_key(&number);
        let lost: Vec<RequestId> =
            self.pending.iter().filter(|(_, pending)| pending.node == number).map(|(request, _)| *request).collect();
        for request in lost {
            self.pending.remove(&request);
            self.answer(request, Err(Refusal::Unavailable));
        }
        self.void_handoffs(now, number);
        let of_node = |route: &Route| matches!(route.owner, Owner::Peer(owner) if owner == number);
        let guilds: Vec<GuildId> =
            self.routes.iter().filter(|(_, route)| of_node(route)).map(|(guild_id, _)| *guild_id).collect();
        for route in self.routes.values_mut() {
            if let Owner::Unknown(search) = &mut route.owner
                && search.resets == Resets::UnlessAt(number)
            {
                search.resets = Resets::Yes;
            }
        }
        for guild_id in guilds {
            if is_gone {
                self.search_again(now, guild_id, Resets::Yes);
                continue;
            }
            let Some(route) = self.routes.get_mut(&guild_id) else { continue };
            for input in route.resets(Resets::Yes, number) {
                self.outputs.push_back(Output::Send { to: number, message: PeerMessage::ToGuild { guild_id, input } });
            }
        }
    }

    // ── owners ───────────────────────────────────────────────────────────────────────────────────

    /// Starts a search for the owner, or removes the route if no relay needs it.
    fn search_again(&mut self, now: Instant, guild_id: GuildId, resets: Resets) {
        let Some(route) = self.routes.get_mut(&guild_id) else { return };
        match &mut route.owner {
            // The search goes on: parked inputs reach the next owner first.
            Owner::Unknown(search) => {
                if resets == Resets::Yes {
                    search.resets = resets;
                }
            }
            _ if route.relays.is_empty() => {
                self.used(guild_id);
                self.routes.remove(&guild_id);
            }
            owner => {
                *owner = Owner::Unknown(Search::new(now, resets));
                self.used(guild_id);
                self.read_owner(now, guild_id);
            }
        }
    }

    fn read_owner(&mut self, now: Instant, guild_id: GuildId) {
        if self.is_serving {
            self.outputs.push_back(Output::Owner { guild_id, op: OwnerOp::Read });
        } else {
            self.read_later(now, guild_id);
        }
    }

    fn read_later(&mut self, now: Instant, guild_id: GuildId) {
        if let Some(Route { owner: Owner::Unknown(search), .. }) = self.routes.get_mut(&guild_id) {
            let at = now.after_ms(RETRY_MS);
            search.again_at = Some(at);
            self.retries.insert((at, guild_id));
        }
    }

    /// Handles the lease store's answer to `Output::Owner`.
    pub fn handle_owner(&mut self, now: Instant, guild_id: GuildId, result: OwnerResult) {
        let own = OwnerRecord { node: self.number, incarnation: self.incarnation };
        let Some(Route { owner: Owner::Unknown(search), relays, .. }) = self.routes.get_mut(&guild_id) else { return };
        if search.again_at.is_some() {
            return;
        }
        if !self.is_serving {
            return self.read_later(now, guild_id);
        }
        if search.removal != Removal::No {
            let is_needless = search.parked.is_empty() && relays.is_empty();
            let op = match result {
                OwnerResult::Found(Some((record, revision))) if record == own => match search.removal {
                    _ if is_needless => {
                        search.removal = Removal::Requested;
                        Some(OwnerOp::Remove(revision))
                    }
                    // C6: the removal has this revision.
                    Removal::Requested => Some(OwnerOp::Replace(own, revision)),
                    Removal::No | Removal::Wanted => None,
                },
                OwnerResult::Away => return self.read_later(now, guild_id),
                // There is no record, another one, or a new one of this node: no removal can hit it.
                _ => None,
            };
            if let Some(op) = op {
                return self.outputs.push_back(Output::Owner { guild_id, op });
            }
            search.removal = Removal::No;
            self.removals.remove(&guild_id);
            if is_needless {
                return drop(self.routes.remove(&guild_id));
            }
        }
        match result {
            OwnerResult::Found(found) => {
                let is_own = |record: &OwnerRecord| *record == own;
                let is_live = |record: &OwnerRecord| {
                    self.peers.get(&record.node).is_some_and(|peer| peer.record.incarnation == record.incarnation)
                };
                match found {
                    Some((record, _)) if is_own(&record) => self.serve(now, guild_id),
                    Some((record, _)) if is_live(&record) => self.settle(now, guild_id, record.node),
                    Some((record, revision)) if record.node != self.number => {
                        // That membership has ended, or this node has not learned of it yet.
                        self.outputs.push_back(Output::Owner { guild_id, op: OwnerOp::Check(record, revision) });
                    }
                    _ => self.claim(now, guild_id, found.map(|(_, revision)| revision)),
                }
            }
            OwnerResult::Checked(record, _, Some(current)) if record.incarnation == current => {
                self.read_later(now, guild_id);
            }
            OwnerResult::Checked(_, revision, _) => self.claim(now, guild_id, Some(revision)),
            // A record of an earlier membership of this node does not count: the answer to a later write follows.
            OwnerResult::Written(record) if record.incarnation == self.incarnation => self.serve(now, guild_id),
            OwnerResult::Written(_) => {}
            OwnerResult::Conflict | OwnerResult::Removed => self.read_owner(now, guild_id),
            OwnerResult::Away => self.read_later(now, guild_id),
        }
    }

    fn claim(&mut self, now: Instant, guild_id: GuildId, revision: Option<Revision>) {
        let own = (self.number, &self.record);
        // With no active node, as at the first start, this node takes the guild.
        let target = node_for(guild_id, self.peers().chain([own])).unwrap_or(self.number);
        if target == self.number {
            let record = OwnerRecord { node: self.number, incarnation: self.incarnation };
            let op = revision.map_or(OwnerOp::Create(record), |revision| OwnerOp::Replace(record, revision));
            self.outputs.push_back(Output::Owner { guild_id, op });
        } else {
            self.settle(now, guild_id, target);
        }
    }

    /// Ends the search: this node is the owner.
    fn serve(&mut self, now: Instant, guild_id: GuildId) {
        let Some(route) = self.routes.get_mut(&guild_id) else { return };
        let Owner::Unknown(search) = std::mem::replace(&mut route.owner, Owner::Local) else { return };
        self.terms_count += 1;
        route.term = self.terms_count;
        let resets = route.resets(search.resets, self.number);
        if resets.is_empty() && search.parked.is_empty() {
            // The driver does not load it, and so will not report it.
            self.idle_from(now.after_ms(self.owner_idle_ms), guild_id);
        }
        for input in resets {
            self.outputs.push_back(Output::ToGuild { guild_id, origin: Origin::Own, input });
        }
        for (origin, input) in search.parked {
            self.outputs.push_back(Output::ToGuild { guild_id, origin, input });
        }
    }

    /// Ends the search: another node is the owner, or will claim the guild.
    fn settle(&mut self, now: Instant, guild_id: GuildId, node: NodeNumber) {
        let Some(route) = self.routes.get_mut(&guild_id) else { return };
        let Owner::Unknown(search) = std::mem::replace(&mut route.owner, Owner::Peer(node)) else { return };
        for input in route.resets(search.resets, node) {
            self.send_input(now, guild_id, node, input);
        }
        for (origin, input) in search.parked {
            match origin {
                Origin::Own => self.send_input(now, guild_id, node, input),
                Origin::Peer(peer) => self.turn_away(guild_id, peer, &input),
            }
        }
    }

    fn send_input(&mut self, now: Instant, guild_id: GuildId, node: NodeNumber, input: GuildInput) {
        if let Some(request) = input.request() {
            let since = self.pending.get(&request).map_or(now, |pending| pending.since);
            self.pending.insert(request, PendingRequest { node, input: input.clone(), since });
        }
        self.outputs.push_back(Output::Send { to: node, message: PeerMessage::ToGuild { guild_id, input } });
    }

    /// Refuses the input of a node that wrongly believes this node to be the owner.
    fn turn_away(&mut self, guild_id: GuildId, peer: NodeNumber, input: &GuildInput) {
        let message = match input {
            GuildInput::Command { request, .. } | GuildInput::Create { request, .. } => {
                PeerMessage::NotOwner { guild_id, request: *request }
            }
            GuildInput::Reset { relay, .. } => {
                PeerMessage::NotServed { guild_id, relay: *relay, reason: NotServed::Owner }
            }
            GuildInput::Relay(message) => {
                let relay = message.relay();
                PeerMessage::NotServed { guild_id, relay, reason: NotServed::Owner }
            }
        };
        self.outputs.push_back(Output::Send { to: peer, message });
    }

    /// PostgreSQL reports that another node claimed a guild that this node serves. Relays of all nodes search for the
    /// owner again. They may find this node, if the other one has lost the guild without noticing.
    pub fn release(&mut self, now: Instant, guild_id: GuildId) {
        if self.is_here(guild_id) {
            self.broadcast(&PeerMessage::Released { guild_id });
            self.drop_guild(now, guild_id);
        }
    }

    /// Stops serving a guild.
    fn drop_guild(&mut self, now: Instant, guild_id: GuildId) {
        self.outputs.push_back(Output::Release { guild_id });
        self.search_again(now, guild_id, Resets::Yes);
    }

    // ── inputs of guilds ─────────────────────────────────────────────────────────────────────────

    /// Passes an input of this node to a guild.
    pub fn push(&mut self, now: Instant, guild_id: GuildId, input: GuildInput) -> Pushed {
        if !self.routes.contains_key(&guild_id) {
            self.make_room();
            self.routes.insert(guild_id, Route::new(Owner::Unknown(Search::new(now, Resets::No))));
            self.read_owner(now, guild_id);
        }
        self.used(guild_id);
        let Some(route) = self.routes.get_mut(&guild_id) else { return Pushed::Full(input) };
        let waiting = match &route.owner {
            Owner::Unknown(search) => search.parked.len(),
            Owner::Leaving(leaving) => leaving.waiting(),
            Owner::Arriving(arriving) => arriving.waiting(),
            Owner::Local | Owner::Peer(_) => 0,
        };
        if waiting >= PARKED_MAX {
            return Pushed::Full(input);
        }
        if let GuildInput::Relay(message) = &input {
            route.follow(message);
        }
        match &mut route.owner {
            Owner::Local => return Pushed::Local(input),
            Owner::Unknown(search) => search.parked.push_back((Origin::Own, input)),
            Owner::Peer(node) => {
                let node = *node;
                self.send_input(now, guild_id, node, input);
            }
            Owner::Leaving(_) => self.push_leaving(now, guild_id, input),
            Owner::Arriving(arriving) => arriving.take(self.number, Origin::Own, input),
        }
        Pushed::Accepted
    }

    /// Evicts owners of guilds without relays here; the next input finds them again.
    fn make_room(&mut self) {
        if self.routes.len() < self.routes_max {
            return;
        }
        self.routes.retain(|_, route| !matches!(route.owner, Owner::Peer(_)) || !route.relays.is_empty());
        self.routes_max = (self.routes.len() * 2).max(ROUTES_MAX);
    }

    /// Whether a guild is served here.
    #[must_use]
    pub fn is_here(&self, guild_id: GuildId) -> bool {
        self.routes.get(&guild_id).is_some_and(|route| matches!(route.owner, Owner::Local))
    }

    /// Whether a guild is served here. If so, the caller passes an input to it or loads it: it is in use.
    pub fn uses(&mut self, guild_id: GuildId) -> bool {
        self.used(guild_id);
        self.is_here(guild_id)
    }

    fn used(&mut self, guild_id: GuildId) {
        if let Some(at) = self.routes.get_mut(&guild_id).and_then(|route| route.idle_at.take()) {
            self.idle.remove(&(at, guild_id));
        }
    }

    /// The driver has dropped a guild from memory, because nothing uses it. If nothing does for a while, this node
    /// ceases to be its owner.
    pub fn unloaded(&mut self, now: Instant, guild_id: GuildId) {
        self.used(guild_id);
        self.idle_from(now.after_ms(self.owner_idle_ms), guild_id);
    }

    fn idle_from(&mut self, at: Instant, guild_id: GuildId) {
        if let Some(route) = self.routes.get_mut(&guild_id)
            && matches!(route.owner, Owner::Local)
            && route.relays.is_empty()
        {
            route.idle_at = Some(at);
            self.idle.insert((at, guild_id));
        }
    }

    /// Ceases to own a guild that has not been used since it was dropped from memory. The driver releases it, and other
    /// nodes learn of it, as if it were there: inputs may have come while the driver was about to report it.
    fn give_up(&mut self, now: Instant, guild_id: GuildId) {
        self.broadcast(&PeerMessage::Released { guild_id });
        self.outputs.push_back(Output::Release { guild_id });
        let Some(route) = self.routes.get_mut(&guild_id) else { return };
        route.owner = Owner::Unknown(Search { removal: Removal::Wanted, ..Search::new(now, Resets::No) });
        self.removals.insert(guild_id);
        self.read_owner(now, guild_id);
    }

    /// The guild's mailbox was full for an input of `Output::ToGuild`.
    pub fn refused_input(&mut self, now: Instant, guild_id: GuildId, origin: Origin, input: &GuildInput) {
        if self.routes.get(&guild_id).is_some_and(|route| route.idle_at.is_none()) {
            // Perhaps the driver has not loaded it.
            self.idle_from(now.after_ms(self.owner_idle_ms), guild_id);
        }
        let relay = match input {
            GuildInput::Command { request, .. } | GuildInput::Create { request, .. } => {
                return self.answered(origin, *request, Err(Refusal::Unavailable));
            }
            GuildInput::Relay(message) => message.relay(),
            GuildInput::Reset { relay, .. } => *relay,
        };
        match origin {
            Origin::Own => self.reset_later(now, guild_id, relay),
            Origin::Peer(to) => {
                let message = PeerMessage::NotServed { guild_id, relay, reason: NotServed::Full };
                self.outputs.push_back(Output::Send { to, message });
            }
        }
    }

    /// The relay's queue was full for a message of `Output::ToRelay`: resets the relay.
    pub fn refused_message(&mut self, now: Instant, guild_id: GuildId, relay: RelayId) {
        let subscribed = self.routes.get_mut(&guild_id).and_then(|route| route.relays.get_mut(&relay));
        subscribed.into_iter().for_each(|subscribed| subscribed.awaits_snapshot = true);
        self.reset_later(now, guild_id, relay);
    }

    fn reset_later(&mut self, now: Instant, guild_id: GuildId, relay: RelayId) {
        self.resets.insert((now.after_ms(RETRY_MS), guild_id, relay));
    }

    /// Passes on a guild's answer to a request.
    pub fn answered(&mut self, origin: Origin, request: RequestId, answer: Answer) {
        match origin {
            Origin::Own => self.answer(request, answer),
            Origin::Peer(to) => {
                let message = PeerMessage::Answer { request, answer: Box::new(answer) };
                self.outputs.push_back(Output::Send { to, message });
            }
        }
    }

    fn answer(&mut self, request: RequestId, answer: Answer) {
        self.outputs.push_back(Output::Answer { request, answer });
    }

    /// Sends a message to every other node.
    pub fn broadcast(&mut self, message: &PeerMessage) {
        for to in self.peers.keys() {
            self.outputs.push_back(Output::Send { to: *to, message: message.clone() });
        }
    }

    // ── messages of other nodes ──────────────────────────────────────────────────────────────────

    /// Handles a message of another node, in the order of its stream. Messages of unknown nodes are ignored: such a
    /// node repeats `Hello`, which begins its stream once this node knows it.
    pub fn handle_message(&mut self, now: Instant, sender: Incarnation, stream: u64, message: PeerMessage) {
        let Some(from) = self.peer_of(sender) else { return };
        let Some(peer) = self.peers.get_mut(&from) else { return };
        match message {
            PeerMessage::Hello { to } if to == self.incarnation => return self.handle_hello(now, from, stream),
            PeerMessage::Hello { .. } => return,
            PeerMessage::Welcome { stream } => {
                if peer.out_stream == stream {
                    self.outputs.push_back(Output::Open { to: from, stream });
                }
                return;
            }
            PeerMessage::Lost { stream } => {
                if peer.out_stream == stream {
                    self.begin_stream(from);
                    // Guilds serve its relays again only after a reset: sequence numbers restart then, and a relay
                    // could take an event that comes before the snapshot for the next one of the old sequence.
                    self.forget_inputs(from);
                    self.void(now, from);
                }
                return;
            }
            _ if peer.in_stream != Some(stream) => return self.refuse(now, from, stream),
            _ => {}
        }
        match message {
            PeerMessage::Hello { .. } | PeerMessage::Welcome { .. } | PeerMessage::Lost { .. } | PeerMessage::Beat => {}
            PeerMessage::ToGuild { guild_id, input } => self.handle_input(now, from, guild_id, input),
            PeerMessage::NotOwner { guild_id, request } => self.handle_not_owner(now, from, guild_id, request),
            PeerMessage::NotServed { guild_id, relay, reason } => {
                if !self.takes_from(guild_id, from) {
                    return;
                }
                match reason {
                    NotServed::Full => self.reset_later(now, guild_id, relay),
                    NotServed::Owner => self.denied(now, guild_id),
                }
            }
            PeerMessage::Released { guild_id } => {
                if self.takes_from(guild_id, from) {
                    self.denied(now, guild_id);
                }
            }
            PeerMessage::Moved { guild_id, to, nodes } => self.handle_moved(now, from, guild_id, to, nodes),
            PeerMessage::Fence { guild_id } => self.handle_fence(from, guild_id),
            PeerMessage::Passed { guild_id, node } => self.handle_passed(now, from, guild_id, node),
            PeerMessage::Arrived { guild_id } => self.handle_arrived(from, guild_id),
            PeerMessage::Answer { request, answer } => {
                if self.pending.get(&request).is_some_and(|pending| pending.node == from) {
                    self.pending.remove(&request);
                    self.answer(request, *answer);
                }
            }
            PeerMessage::ToRelays { guild_id, relays, message, trace } => {
                // C4.
                if !self.takes_from(guild_id, from) {
                    return;
                }
                let Some(route) = self.routes.get_mut(&guild_id) else { return };
                for RelayPlace { relay, epoch, seq } in relays {
                    if !route.takes(relay, &message) {
                        continue;
                    }
                    let message = message.clone();
                    self.outputs.push_back(Output::ToRelay(ToRelay { guild_id, relay, epoch, seq, message }, trace));
                }
            }
            PeerMessage::Users(published) => self.outputs.push_back(Output::Users(published, None)),
            PeerMessage::TracedUsers { published, trace } => {
                self.outputs.push_back(Output::Users(published, Some(trace)));
            }
            PeerMessage::Joined { user_id, guild_id } => self.outputs.push_back(Output::Joined { user_id, guild_id }),
            PeerMessage::UserChanged(user) => self.outputs.push_back(Output::UserChanged(user)),
            PeerMessage::Changed(changes) => self.outputs.push_back(Output::Changed(changes)),
        }
    }

    fn handle_hello(&mut self, now: Instant, from: NodeNumber, stream: u64) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if peer.in_stream.is_some_and(|current| stream < current) {
            return;
        }
        let before = peer.in_stream.replace(stream);
        let was_refused = peer.refused.take().is_some();
        self.outputs.push_back(Output::Send { to: from, message: PeerMessage::Welcome { stream } });
        if before.is_some_and(|before| before != stream) {
            self.forget_inputs(from);
            self.void(now, from);
        } else if was_refused {
            // The other node may have learned late of the refusal: messages that it sent since then are lost.
            self.void(now, from);
        }
    }

    /// Messages of this stream were lost: refuses the rest of it.
    pub fn handle_gap(&mut self, now: Instant, sender: Incarnation, stream: u64) {
        let Some(from) = self.peer_of(sender) else { return };
        // A stream that has not begun has lost nothing but a `Hello`, which is repeated.
        if self.peers.get(&from).is_some_and(|peer| peer.in_stream == Some(stream)) {
            self.refuse(now, from, stream);
        }
    }

    /// Refuses a request of a later release, which this program does not know. The stream goes on.
    pub fn handle_unknown_request(&mut self, now: Instant, sender: Incarnation, stream: u64, request: RequestId) {
        let Some(from) = self.peer_of(sender) else { return };
        if self.peers.get(&from).is_some_and(|peer| peer.in_stream != Some(stream)) {
            return self.refuse(now, from, stream);
        }
        self.answered(Origin::Peer(from), request, Err(Refusal::Unavailable));
    }

    /// Ignores the rest of a stream, and sends `Lost`, so that its sender starts a new one.
    fn refuse(&mut self, now: Instant, from: NodeNumber, stream: u64) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let is_known = peer.refused.is_some_and(|(refused, _)| refused == stream);
        let is_late = peer.in_stream.is_some_and(|current| stream < current);
        if is_late || is_known && peer.refused.is_some_and(|(_, at)| now.ms_since(at) < LOST_AGAIN_MS) {
            return;
        }
        peer.in_stream = None;
        peer.refused = Some((stream, now));
        self.outputs.push_back(Output::Send { to: from, message: PeerMessage::Lost { stream } });
        if !is_known {
            self.forget_inputs(from);
            self.void(now, from);
        }
    }

    fn handle_input(&mut self, now: Instant, from: NodeNumber, guild_id: GuildId, input: GuildInput) {
        let origin = Origin::Peer(from);
        self.used(guild_id);
        if self.is_passed_on_late(guild_id, from, &input) {
            return;
        }
        match self.routes.get_mut(&guild_id).map(|route| &mut route.owner) {
            Some(Owner::Local) if self.is_serving => {
                self.outputs.push_back(Output::ToGuild { guild_id, origin, input });
            }
            Some(Owner::Local) => self.turn_away(guild_id, from, &input),
            Some(Owner::Leaving(_)) => self.pass_on(now, guild_id, from, input),
            Some(Owner::Arriving(arriving)) if arriving.waiting() >= PARKED_MAX => {
                self.refused_input(now, guild_id, origin, &input);
            }
            Some(Owner::Arriving(arriving)) => arriving.take(from, origin, input),
            Some(Owner::Unknown(search)) if search.parked.len() >= PARKED_MAX => {
                self.refused_input(now, guild_id, origin, &input);
            }
            Some(Owner::Unknown(search)) => search.parked.push_back((origin, input)),
            // This node may have become the owner since then: only the record shows that.
            Some(Owner::Peer(node)) => {
                let mut search = Search::new(now, Resets::UnlessAt(*node));
                search.parked.push_back((origin, input));
                self.put_search(now, guild_id, search);
            }
            None => {
                let mut search = Search::new(now, Resets::No);
                search.parked.push_back((origin, input));
                self.put_search(now, guild_id, search);
            }
        }
    }

    fn put_search(&mut self, now: Instant, guild_id: GuildId, search: Search) {
        let owner = Owner::Unknown(search);
        match self.routes.get_mut(&guild_id) {
            Some(route) => route.owner = owner,
            None => drop(self.routes.insert(guild_id, Route::new(owner))),
        }
        self.read_owner(now, guild_id);
    }

    fn handle_not_owner(&mut self, now: Instant, from: NodeNumber, guild_id: GuildId, request: RequestId) {
        if self.pending.get(&request).is_none_or(|pending| pending.node != from) {
            return;
        }
        let Some(pending) = self.pending.remove(&request) else { return };
        if now.ms_since(pending.since) >= LOCATE_MS_MAX {
            return self.answer(request, Err(Refusal::Unavailable));
        }
        if self.owner_of(guild_id) == Some(from) || !self.routes.contains_key(&guild_id) {
            self.search_later(now, guild_id, Resets::UnlessAt(from));
        }
        match self.push(now, guild_id, pending.input) {
            Pushed::Accepted => {}
            Pushed::Local(input) => self.outputs.push_back(Output::ToGuild { guild_id, origin: Origin::Own, input }),
            Pushed::Full(_) => self.answer(request, Err(Refusal::Unavailable)),
        }
    }

    /// The presumed owner has dropped messages of relays, or the relays' subscriptions.
    fn denied(&mut self, now: Instant, guild_id: GuildId) {
        let Some(route) = self.routes.get_mut(&guild_id) else { return };
        match &mut route.owner {
            Owner::Unknown(search) => search.resets = Resets::Yes,
            // The next input searches.
            Owner::Peer(_) if route.relays.is_empty() => drop(self.routes.remove(&guild_id)),
            Owner::Peer(_) => self.search_later(now, guild_id, Resets::Yes),
            Owner::Leaving(_) => self.reset_own(now, guild_id),
            Owner::Arriving(_) => self.unexpect(now, guild_id),
            Owner::Local => {}
        }
    }

    /// Reads the owner record again after a back-off: the other node may be about to claim or release the guild.
    fn search_later(&mut self, now: Instant, guild_id: GuildId, resets: Resets) {
        let route = self.routes.entry(guild_id).or_insert_with(|| Route::new(Owner::Unknown(Search::new(now, resets))));
        route.owner = Owner::Unknown(Search::new(now, resets));
        self.read_later(now, guild_id);
    }

    /// Handles passed deadlines; without one it does nothing.
    pub fn handle_timer(&mut self, now: Instant) {
        while let Some((at, guild_id)) = self.retries.first().copied().filter(|(at, _)| *at <= now) {
            self.retries.remove(&(at, guild_id));
            self.retry(now, at, guild_id);
        }
        while let Some(entry) = self.resets.first().copied().filter(|(at, ..)| *at <= now) {
            self.resets.remove(&entry);
            let (_, guild_id, relay) = entry;
            let Some(route) = self.routes.get_mut(&guild_id) else { continue };
            let Some(input) = route.relays.get_mut(&relay).map(|subscribed| subscribed.reset(relay)) else { continue };
            match route.owner {
                Owner::Local => self.outputs.push_back(Output::ToGuild { guild_id, origin: Origin::Own, input }),
                Owner::Peer(node) => self.send_input(now, guild_id, node, input),
                Owner::Unknown(_) => self.search_again(now, guild_id, Resets::Yes),
                Owner::Leaving(_) => self.push_leaving(now, guild_id, input),
                Owner::Arriving(ref mut arriving) => arriving.take(self.number, Origin::Own, input),
            }
        }
        while let Some((at, guild_id)) = self.handoffs.first().copied().filter(|(at, _)| *at <= now) {
            self.handoffs.remove(&(at, guild_id));
            self.handoff_is_due(now, at, guild_id);
        }
        while let Some((at, guild_id)) = self.idle.first().copied().filter(|(at, _)| *at <= now) {
            self.idle.remove(&(at, guild_id));
            self.routes.get_mut(&guild_id).into_iter().for_each(|route| route.idle_at = None);
            if self.removals.len() < REMOVALS_MAX {
                self.give_up(now, guild_id);
            } else {
                self.idle_from(now.after_ms(REMOVAL_PAUSE_MS), guild_id);
            }
        }
    }

    fn retry(&mut self, now: Instant, at: Instant, guild_id: GuildId) {
        let Some(Route { owner: Owner::Unknown(search), relays, .. }) = self.routes.get_mut(&guild_id) else { return };
        if search.again_at != Some(at) {
            return;
        }
        search.again_at = None;
        let mut refused = Vec::new();
        if now.ms_since(search.since) >= LOCATE_MS_MAX {
            search.since = now;
            let (requests, rest) =
                search.parked.drain(..).partition(|(_, input): &(Origin, GuildInput)| input.request().is_some());
            search.parked = rest;
            refused = Vec::from(requests);
        }
        // The node must not forget a removal that may still be carried out.
        let is_needless = search.parked.is_empty() && relays.is_empty() && search.removal != Removal::Requested;
        for (origin, input) in refused {
            self.refused_input(now, guild_id, origin, &input);
        }
        if is_needless {
            self.routes.remove(&guild_id);
            self.removals.remove(&guild_id);
        } else {
            self.read_owner(now, guild_id);
        }
    }
}
