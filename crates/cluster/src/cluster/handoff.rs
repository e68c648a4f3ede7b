//! Hand-off: a guild changes its owner, and relays notice nothing.
//!
//! Owns        the routes of guilds that leave this node or arrive at it, and inputs that wait meanwhile.
//! Doors       of the old owner: `may_leave` before it begins; `left` when the record names the new one; `gave_up` with
//!             the inputs that the guild has not handled. Of the new owner: `expect` before the record is written,
//!             `arrived` after `Output::Claim`, `unexpect` if the old one stays. `Moved`, `Fence`, `Passed`,
//!             `Arrived` from other nodes.
//! Invariants  H1 the new owner serves the guild once every node has confirmed, by a `Fence` that the old owner reports
//!             as `Passed`, that its relays take messages of the new owner, and once the old owner has passed on all
//!             inputs before it: so C1 holds without a reset. H2 a relay whose node did not confirm in time, or gets no
//!             `Arrived` in time, is reset. H3 an input that was passed on is handled before the new owner serves the
//!             guild, or not at all. (tests `h1_*` to `h3_*`)
//! Limits      `FENCE_MS_MAX` for the fences, `ARRIVE_MS_MAX` for the record, `CONFIRM_MS_MAX` for the confirmation.
//!             `PARKED_MAX` inputs wait on each side.
//! Not here    the guild's state and the owner record (the driver).

use super::{Cluster, GuildId, Instant, Origin, Output, Owner, PARKED_MAX, Removal, Resets, Route, Search};
use crate::{
    node::{Incarnation, NodeNumber, NodeState, OwnerRecord},
    peer::{GuildInput, PeerMessage},
};
use guildhall_guild::Refusal;
use guildhall_guild_protocol::ToGuild;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
};

/// How long the new owner waits for the fences of other nodes, and the old one passes on what they send it.
pub const FENCE_MS_MAX: u64 = 1_000;
/// How long the new owner waits for the old one to write the record. Longer than the lease store takes.
pub const ARRIVE_MS_MAX: u64 = 10_000;
/// After which time without `Arrived` a node resets its relays.
pub const CONFIRM_MS_MAX: u64 = 5_000;

/// A guild that this node has handed over.
pub(super) struct Leaving {
    pub(super) to: NodeNumber,
    /// Inputs behind those that the guild has not handled; none once those are known.
    parked: Option<VecDeque<(Origin, GuildInput)>>,
    /// Nodes whose `Fence` has not come.
    awaited: BTreeSet<NodeNumber>,
    /// Nodes whose `Fence` has come before those inputs are known.
    fenced: BTreeSet<NodeNumber>,
    until: Instant,
}

/// A guild that this node takes over.
pub(super) struct Arriving {
    pub(super) from: NodeNumber,
    /// The record names this node.
    has_record: bool,
    /// The driver has claimed the epoch for the standby.
    has_guild: bool,
    /// Nodes to which the old owner sent `Moved`, without those that have passed; empty before `has_record`.
    awaited: BTreeSet<NodeNumber>,
    passed: BTreeSet<NodeNumber>,
    /// Inputs in the order in which the guild handles them.
    parked: VecDeque<(Origin, GuildInput)>,
    /// Inputs of nodes that have not passed: earlier ones are still at the old owner.
    held: BTreeMap<NodeNumber, VecDeque<(Origin, GuildInput)>>,
    /// Nodes that have left: the standby does not know yet.
    forgotten: BTreeSet<NodeNumber>,
    until: Instant,
}

/// Why a guild does not arrive.
#[derive(Clone, Copy, Debug)]
enum Arrival {
    /// The old owner goes on.
    Undone,
    /// Messages of the hand-off, or the standby, are lost.
    Lost,
}

impl Leaving {
    pub(super) fn waiting(&self) -> usize {
        self.parked.as_ref().map_or(0, VecDeque::len)
    }
}

impl Arriving {
    fn new(from: NodeNumber, until: Instant) -> Self {
        Self {
            from,
            has_record: false,
            has_guild: false,
            awaited: BTreeSet::new(),
            passed: BTreeSet::new(),
            parked: VecDeque::new(),
            held: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            until,
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.parked.len() + self.held.values().map(VecDeque::len).sum::<usize>()
    }

    /// Takes an input of node `sender`. The old owner sends its own inputs and those that it passes on, in order.
    pub(super) fn take(&mut self, sender: NodeNumber, origin: Origin, input: GuildInput) {
        if sender == self.from || self.passed.contains(&sender) {
            self.parked.push_back((origin, input));
        } else {
            self.held.entry(sender).or_default().push_back((origin, input));
        }
    }

    fn pass(&mut self, node: NodeNumber) {
        self.awaited.remove(&node);
        self.passed.insert(node);
        self.parked.extend(self.held.remove(&node).into_iter().flatten());
    }

    /// Drops the inputs of a node whose stream to this one was lost. The standby knows its relays by the old owner, so
    /// they are lost only with the node.
    pub(super) fn forget(&mut self, of: NodeNumber, is_gone: bool) {
        self.held.remove(&of);
        self.parked.retain(|(origin, input)| match node_of(input) {
            // Inputs that the old owner has passed on are not lost.
            Some(node) => node != of || !is_gone && *origin != Origin::Peer(of),
            None => *origin != Origin::Peer(of),
        });
        if is_gone {
            self.forgotten.insert(of);
        }
    }

    fn is_complete(&self) -> bool {
        self.has_guild && self.has_record && self.awaited.is_empty()
    }
}

/// Of the inputs of a node that did not confirm, the requests, and those of a relay from where it begins on. Its other
/// relays are reset (H2).
fn beginnings(held: VecDeque<(Origin, GuildInput)>) -> impl Iterator<Item = (Origin, GuildInput)> {
    let mut started = BTreeSet::new();
    held.into_iter().filter(move |(_, input)| match input {
        GuildInput::Command { .. } | GuildInput::Create { .. } => true,
        GuildInput::Reset { relay, .. } | GuildInput::Relay(ToGuild::Subscribe { relay, .. }) => {
            started.insert(*relay);
            true
        }
        GuildInput::Relay(message) => started.contains(&message.relay()),
    })
}

/// The node of the relay that an input is from.
fn node_of(input: &GuildInput) -> Option<NodeNumber> {
    match input {
        GuildInput::Relay(message) => Some(NodeNumber(message.relay().partition.node())),
        GuildInput::Reset { relay, .. } => Some(NodeNumber(relay.partition.node())),
        GuildInput::Command { .. } | GuildInput::Create { .. } => None,
    }
}

impl Cluster {
    // ── the old owner ────────────────────────────────────────────────────────────────────────────

    /// The record that would make `to` the owner of a guild of this node, and the term in which the guild is served
    /// here. None: this node does not serve it, that node takes no guilds, or a node of the cluster has a version
    /// without hand-offs.
    #[must_use]
    pub fn may_leave(&self, guild_id: GuildId, to: NodeNumber) -> Option<(OwnerRecord, u64)> {
        let peer = self.peers.get(&to).filter(|peer| peer.record.state == NodeState::Active)?;
        let all_understand = self.peers.values().all(|peer| peer.record.has_handoff);
        let record = OwnerRecord { node: to, incarnation: peer.record.incarnation };
        let term = self.routes.get(&guild_id)?.term;
        (self.is_serving && self.is_here(guild_id) && all_understand).then_some((record, term))
    }

    /// Whether the guild has been served here since `may_leave`: the state of an earlier term is not its state.
    #[must_use]
    pub fn is_in_term(&self, guild_id: GuildId, term: u64) -> bool {
        self.is_here(guild_id) && self.routes.get(&guild_id).is_some_and(|route| route.term == term)
    }

    /// The record names `to`, to which the guild's state of this term was sent. False: the guild was lost and came back
    /// meanwhile. This node ceases to serve it, and the other one must not use what it was sent: call `unexpect` there.
    pub fn left(&mut self, now: Instant, guild_id: GuildId, to: OwnerRecord, term: u64) -> bool {
        if !self.is_in_term(guild_id, term) {
            self.release(now, guild_id);
            return false;
        }
        self.used(guild_id);
        let until = now.after_ms(FENCE_MS_MAX);
        let awaited: BTreeSet<NodeNumber> = self.peers.keys().copied().collect();
        let nodes: Vec<NodeNumber> = awaited.iter().copied().chain([self.number]).collect();
        for peer in &awaited {
            let nodes = if *peer == to.node { nodes.clone() } else { Vec::new() };
            let message = PeerMessage::Moved { guild_id, to: to.incarnation, nodes };
            self.outputs.push_back(Output::Send { to: *peer, message });
        }
        if let Some(route) = self.routes.get_mut(&guild_id) {
            let leaving =
                Leaving { to: to.node, parked: Some(VecDeque::new()), awaited, fenced: BTreeSet::new(), until };
            route.owner = Owner::Leaving(Box::new(leaving));
            // Snapshots of this node's guilds go to its relays directly: none is on its way any more.
            route.relays.values_mut().for_each(|subscribed| subscribed.awaits_snapshot = false);
            self.handoffs.insert((until, guild_id));
            self.confirm_later(now, guild_id);
        }
        self.outputs.push_back(Output::GiveUp { guild_id });
        true
    }

    /// Whether the record names another node is not known, and a write may still be carried out: ceases to serve the
    /// guild. This node serves it again only by a record that the write cannot hit, as after a removal (C6).
    pub fn release_unsure(&mut self, now: Instant, guild_id: GuildId) {
        if !self.is_here(guild_id) {
            return;
        }
        self.used(guild_id);
        self.broadcast(&PeerMessage::Released { guild_id });
        self.outputs.push_back(Output::Release { guild_id });
        if let Some(route) = self.routes.get_mut(&guild_id) {
            let search = Search { removal: Removal::Requested, ..Search::new(now, Resets::Yes) };
            route.owner = Owner::Unknown(search);
            self.removals.insert(guild_id);
            self.read_owner(now, guild_id);
        }
    }

    /// The guild is gone; these inputs it had not handled.
    pub fn gave_up(&mut self, now: Instant, guild_id: GuildId, inputs: Vec<GuildInput>) {
        let Some(Route { owner: Owner::Leaving(leaving), relays, .. }) = self.routes.get_mut(&guild_id) else {
            // The hand-off has ended otherwise: requests search for the owner, and relays are reset.
            for request in inputs.into_iter().filter_map(|input| input.request()) {
                self.answer(request, Err(Refusal::Unavailable));
            }
            return;
        };
        let (to, parked) = (leaving.to, leaving.parked.take().unwrap_or_default());
        for input in &inputs {
            if let GuildInput::Reset { relay, .. } = input
                && let Some(subscribed) = relays.get_mut(relay)
            {
                subscribed.awaits_snapshot = true;
            }
        }
        let fenced = mem::take(&mut leaving.fenced);
        let inputs = inputs.into_iter().map(|input| (Origin::Own, input));
        for (origin, input) in inputs.chain(parked) {
            self.send_on(now, guild_id, to, origin, input);
        }
        let message = PeerMessage::Passed { guild_id, node: self.number };
        self.outputs.push_back(Output::Send { to, message });
        for node in fenced {
            let message = PeerMessage::Passed { guild_id, node };
            self.outputs.push_back(Output::Send { to, message });
        }
        self.end_leaving(guild_id);
    }

    /// Sends the new owner an input. A request of another node goes back to it: it retries.
    fn send_on(&mut self, now: Instant, guild_id: GuildId, to: NodeNumber, origin: Origin, input: GuildInput) {
        match origin {
            Origin::Own => self.send_input(now, guild_id, to, input),
            Origin::Peer(peer) if input.request().is_some() => self.turn_away(guild_id, peer, &input),
            Origin::Peer(_) => {
                self.outputs.push_back(Output::Send { to, message: PeerMessage::ToGuild { guild_id, input } });
            }
        }
    }

    /// An input of this node for a guild that leaves.
    pub(super) fn push_leaving(&mut self, now: Instant, guild_id: GuildId, input: GuildInput) {
        self.pass_or_park(now, guild_id, Origin::Own, input);
    }

    /// An input of another node for a guild that leaves.
    pub(super) fn pass_on(&mut self, now: Instant, guild_id: GuildId, from: NodeNumber, input: GuildInput) {
        let Some(Route { owner: Owner::Leaving(leaving), .. }) = self.routes.get_mut(&guild_id) else { return };
        let is_foreign = node_of(&input).is_some_and(|node| node != from);
        // Behind its fence a node does not send here, unless it has come back to this owner.
        if is_foreign || !leaving.awaited.contains(&from) || leaving.waiting() >= PARKED_MAX {
            return self.turn_away(guild_id, from, &input);
        }
        self.pass_or_park(now, guild_id, Origin::Peer(from), input);
    }

    fn pass_or_park(&mut self, now: Instant, guild_id: GuildId, origin: Origin, input: GuildInput) {
        let Some(Route { owner: Owner::Leaving(leaving), .. }) = self.routes.get_mut(&guild_id) else { return };
        match &mut leaving.parked {
            Some(parked) => parked.push_back((origin, input)),
            None => {
                let to = leaving.to;
                self.send_on(now, guild_id, to, origin, input);
            }
        }
    }

    pub(super) fn handle_fence(&mut self, from: NodeNumber, guild_id: GuildId) {
        let Some(Route { owner: Owner::Leaving(leaving), .. }) = self.routes.get_mut(&guild_id) else { return };
        // After a loss between the two nodes it proves nothing: the relays there are reset.
        if !leaving.awaited.remove(&from) {
            return;
        }
        // Inputs that the guild has not handled go first: `gave_up` sends the rest.
        if leaving.parked.is_some() {
            leaving.fenced.insert(from);
        } else {
            let to = leaving.to;
            let message = PeerMessage::Passed { guild_id, node: from };
            self.outputs.push_back(Output::Send { to, message });
            self.end_leaving(guild_id);
        }
    }

    /// The new owner is one like any other, once nothing has to be passed on.
    fn end_leaving(&mut self, guild_id: GuildId) {
        if let Some(route) = self.routes.get_mut(&guild_id)
            && let Owner::Leaving(leaving) = &route.owner
            && leaving.awaited.is_empty()
            && leaving.parked.is_none()
        {
            self.handoffs.remove(&(leaving.until, guild_id));
            route.owner = Owner::Peer(leaving.to);
        }
    }

    // ── the new owner ────────────────────────────────────────────────────────────────────────────

    /// This node has the state of a guild that `from` hands over: inputs wait here from now on. False: it cannot be.
    pub fn expect(&mut self, now: Instant, guild_id: GuildId, from: NodeNumber) -> bool {
        if !self.is_serving || !self.peers.contains_key(&from) {
            return false;
        }
        let until = now.after_ms(ARRIVE_MS_MAX);
        let mut arriving = Arriving::new(from, until);
        match self.routes.get_mut(&guild_id) {
            None => {
                let owner = Owner::Arriving(Box::new(arriving));
                self.routes.insert(guild_id, Route::new(owner));
            }
            Some(route) => match &mut route.owner {
                Owner::Peer(node) if *node == from => route.owner = Owner::Arriving(Box::new(arriving)),
                // Its relays would have to be reset at the end of the search.
                Owner::Unknown(search) if search.resets == Resets::No => {
                    for (origin, input) in mem::take(&mut search.parked) {
                        let sender = if let Origin::Peer(peer) = origin { peer } else { self.number };
                        arriving.take(sender, origin, input);
                    }
                    route.owner = Owner::Arriving(Box::new(arriving));
                }
                _ => return false,
            },
        }
        self.handoffs.insert((until, guild_id));
        true
    }

    /// The old owner stays: inputs go to it.
    pub fn unexpect(&mut self, now: Instant, guild_id: GuildId) {
        let is_undone = |route: &Route| matches!(&route.owner, Owner::Arriving(arriving) if !arriving.has_record);
        if self.routes.get(&guild_id).is_some_and(is_undone) {
            self.give_up_arriving(now, guild_id, Arrival::Undone);
        }
    }

    /// The driver has claimed the epoch, and keeps the standby until `Output::Serve` or `Output::Drop`.
    pub fn arrived(&mut self, now: Instant, guild_id: GuildId) {
        match self.routes.get_mut(&guild_id).map(|route| &mut route.owner) {
            Some(Owner::Arriving(arriving)) if arriving.has_record => {
                arriving.has_guild = true;
                self.finish_arriving(now, guild_id);
            }
            _ => self.outputs.push_back(Output::Drop { guild_id }),
        }
    }

    /// The standby cannot be used: the guild is loaded from the database, and all relays are reset.
    pub fn arrival_failed(&mut self, now: Instant, guild_id: GuildId) {
        if matches!(self.routes.get(&guild_id), Some(Route { owner: Owner::Arriving(_), .. })) {
            self.broadcast(&PeerMessage::Released { guild_id });
            self.give_up_arriving(now, guild_id, Arrival::Lost);
        }
    }

    pub(super) fn handle_moved(
        &mut self,
        now: Instant,
        from: NodeNumber,
        guild_id: GuildId,
        to: Incarnation,
        nodes: Vec<NodeNumber>,
    ) {
        self.outputs.push_back(Output::Send { to: from, message: PeerMessage::Fence { guild_id } });
        if to == self.incarnation {
            return self.handle_moved_here(now, guild_id, nodes);
        }
        let Some(to) = self.peer_of(to) else {
            // The new owner is unknown here, or has left: the owner record names the node that serves the guild.
            if self.owner_of(guild_id) == Some(from) {
                self.search_again(now, guild_id, Resets::Yes);
            }
            return;
        };
        let Some(route) = self.routes.get_mut(&guild_id) else { return };
        if matches!(route.owner, Owner::Peer(owner) if owner == from) {
            route.owner = Owner::Peer(to);
            self.confirm_later(now, guild_id);
        }
    }

    fn handle_moved_here(&mut self, now: Instant, guild_id: GuildId, nodes: Vec<NodeNumber>) {
        let Some(Route { owner: Owner::Arriving(arriving), .. }) = self.routes.get_mut(&guild_id) else { return };
        arriving.has_record = true;
        arriving.awaited = nodes.into_iter().filter(|node| !arriving.passed.contains(node)).collect();
        arriving.awaited.retain(|node| *node == self.number || self.peers.contains_key(node));
        self.handoffs.remove(&(arriving.until, guild_id));
        arriving.until = now.after_ms(FENCE_MS_MAX);
        self.handoffs.insert((arriving.until, guild_id));
        self.outputs.push_back(Output::Claim { guild_id });
    }

    pub(super) fn handle_passed(&mut self, now: Instant, from: NodeNumber, guild_id: GuildId, node: NodeNumber) {
        let Some(Route { owner: Owner::Arriving(arriving), .. }) = self.routes.get_mut(&guild_id) else { return };
        if arriving.from == from {
            arriving.pass(node);
            self.finish_arriving(now, guild_id);
        }
    }

    pub(super) fn handle_arrived(&mut self, from: NodeNumber, guild_id: GuildId) {
        if self.owner_of(guild_id) == Some(from) {
            self.is_unconfirmed(guild_id);
        }
    }

    /// Serves the guild if it is complete.
    fn finish_arriving(&mut self, now: Instant, guild_id: GuildId) {
        if self.arriving(guild_id).is_some_and(Arriving::is_complete) {
            self.serve_arrived(now, guild_id);
        }
    }

    /// Serves the guild without what other nodes still owe it.
    fn finish_late(&mut self, now: Instant, guild_id: GuildId) {
        if self.arriving(guild_id).is_some_and(|arriving| arriving.has_guild || arriving.is_complete()) {
            self.serve_arrived(now, guild_id);
        }
    }

    fn arriving(&self, guild_id: GuildId) -> Option<&Arriving> {
        match self.routes.get(&guild_id) {
            Some(Route { owner: Owner::Arriving(arriving), .. }) => Some(arriving),
            _ => None,
        }
    }

    fn serve_arrived(&mut self, now: Instant, guild_id: GuildId) {
        let Some(route) = self.routes.get_mut(&guild_id) else { return };
        let Owner::Arriving(arriving) = mem::replace(&mut route.owner, Owner::Local) else { return };
        self.terms_count += 1;
        route.term = self.terms_count;
        let Arriving { passed, parked, held, until, forgotten, .. } = *arriving;
        self.handoffs.remove(&(until, guild_id));
        self.outputs.push_back(Output::Serve { guild_id, forget: forgotten.into_iter().collect() });
        for node in passed.iter().filter(|node| **node != self.number) {
            self.outputs.push_back(Output::Send { to: *node, message: PeerMessage::Arrived { guild_id } });
        }
        for (origin, input) in parked.into_iter().chain(held.into_values().flat_map(beginnings)) {
            self.outputs.push_back(Output::ToGuild { guild_id, origin, input });
        }
        if self.is_unconfirmed(guild_id) || !passed.contains(&self.number) {
            self.reset_own(now, guild_id);
        }
        if let Some(route) = self.routes.get(&guild_id)
            && route.relays.is_empty()
        {
            self.idle_from(now.after_ms(self.owner_idle_ms), guild_id);
        }
    }

    /// H3: whether a relay's message comes from another node than the relay's, and too late.
    pub(super) fn is_passed_on_late(&self, guild_id: GuildId, from: NodeNumber, input: &GuildInput) -> bool {
        let arrives = matches!(self.routes.get(&guild_id), Some(Route { owner: Owner::Arriving(_), .. }));
        !arrives && node_of(input).is_some_and(|node| node != from)
    }

    // ── what may happen meanwhile ────────────────────────────────────────────────────────────────

    /// The relays here are reset unless the new owner confirms.
    fn confirm_later(&mut self, now: Instant, guild_id: GuildId) {
        if self.is_unconfirmed(guild_id) {
            // The owner before did not have them, so the next one does not either.
            return self.reset_own(now, guild_id);
        }
        let Some(route) = self.routes.get_mut(&guild_id).filter(|route| !route.relays.is_empty()) else { return };
        let at = now.after_ms(CONFIRM_MS_MAX);
        route.confirm_at = Some(at);
        self.handoffs.insert((at, guild_id));
    }

    /// Whether a confirmation was awaited; it is not any more.
    fn is_unconfirmed(&mut self, guild_id: GuildId) -> bool {
        let Some(at) = self.routes.get_mut(&guild_id).and_then(|route| route.confirm_at.take()) else { return false };
        self.handoffs.remove(&(at, guild_id));
        true
    }

    pub(super) fn reset_own(&mut self, now: Instant, guild_id: GuildId) {
        let relays: Vec<_> =
            self.routes.get(&guild_id).into_iter().flat_map(|route| route.relays.keys().copied()).collect();
        for relay in relays {
            self.refused_message(now, guild_id, relay);
        }
    }

    pub(super) fn handoff_is_due(&mut self, now: Instant, at: Instant, guild_id: GuildId) {
        let Some(route) = self.routes.get_mut(&guild_id) else { return };
        if route.confirm_at == Some(at) {
            route.confirm_at = None;
            // At the owner that is known by then.
            return self.reset_own(now, guild_id);
        }
        match &mut route.owner {
            Owner::Leaving(leaving) if leaving.until == at => {
                if leaving.parked.is_some() {
                    // The driver is about to report the rest.
                    leaving.until = now.after_ms(FENCE_MS_MAX);
                    self.handoffs.insert((leaving.until, guild_id));
                } else {
                    leaving.awaited.clear();
                    self.end_leaving(guild_id);
                }
            }
            Owner::Arriving(arriving) if arriving.until == at => {
                if arriving.has_guild {
                    self.finish_late(now, guild_id);
                } else if arriving.has_record {
                    // The database is slow.
                    arriving.until = now.after_ms(FENCE_MS_MAX);
                    self.handoffs.insert((arriving.until, guild_id));
                } else {
                    self.give_up_arriving(now, guild_id, Arrival::Lost);
                }
            }
            _ => {}
        }
    }

    /// The owner record decides; inputs that wait reach its owner first.
    fn give_up_arriving(&mut self, now: Instant, guild_id: GuildId, arrival: Arrival) {
        let Some(route) = self.routes.get_mut(&guild_id) else { return };
        let Owner::Arriving(arriving) = &mut route.owner else { return };
        let (from, until) = (arriving.from, arriving.until);
        if arriving.has_guild {
            self.outputs.push_back(Output::Drop { guild_id });
        }
        let held = mem::take(&mut arriving.held).into_values().flatten();
        let parked = mem::take(&mut arriving.parked).into_iter().chain(held).collect();
        let resets = match arrival {
            Arrival::Undone => Resets::UnlessAt(from),
            Arrival::Lost => Resets::Yes,
        };
        route.owner = Owner::Unknown(Search { parked, ..Search::new(now, resets) });
        self.handoffs.remove(&(until, guild_id));
        self.read_owner(now, guild_id);
    }

    /// Messages between this node and `number` are lost.
    pub(super) fn void_handoffs(&mut self, now: Instant, number: NodeNumber) {
        let guilds: Vec<GuildId> = self
            .routes
            .iter()
            .filter(|(_, route)| matches!(route.owner, Owner::Leaving(_) | Owner::Arriving(_)))
            .map(|(guild_id, _)| *guild_id)
            .collect();
        for guild_id in guilds {
            let Some(route) = self.routes.get_mut(&guild_id) else { continue };
            match &mut route.owner {
                Owner::Leaving(leaving) if leaving.to == number => {
                    let (until, parked) = (leaving.until, leaving.parked.take());
                    route.owner = Owner::Peer(number);
                    self.handoffs.remove(&(until, guild_id));
                    for (origin, input) in parked.into_iter().flatten() {
                        self.refused_input(now, guild_id, origin, &input);
                    }
                }
                Owner::Leaving(leaving) => {
                    leaving.awaited.remove(&number);
                    leaving.fenced.remove(&number);
                    self.end_leaving(guild_id);
                }
                Owner::Arriving(arriving) if arriving.from == number => {
                    if arriving.has_guild {
                        self.finish_late(now, guild_id);
                    } else if arriving.has_record {
                        // It serves when the epoch is claimed; nothing more is passed on.
                        arriving.awaited.clear();
                    } else {
                        self.give_up_arriving(now, guild_id, Arrival::Lost);
                    }
                }
                Owner::Arriving(arriving) => {
                    arriving.awaited.remove(&number);
                    self.finish_arriving(now, guild_id);
                }
                Owner::Local | Owner::Peer(_) | Owner::Unknown(_) => {}
            }
        }
    }

    /// The lease of this node has ended.
    pub(super) fn end_handoffs(&mut self, now: Instant) {
        let guilds: Vec<GuildId> = self.routes.keys().copied().collect();
        for guild_id in guilds {
            let Some(route) = self.routes.get_mut(&guild_id) else { continue };
            match &mut route.owner {
                Owner::Leaving(leaving) => {
                    let (until, parked) = (leaving.until, leaving.parked.take());
                    route.owner = Owner::Unknown(Search::new(now, Resets::Yes));
                    self.handoffs.remove(&(until, guild_id));
                    for (origin, input) in parked.into_iter().flatten() {
                        self.refused_input(now, guild_id, origin, &input);
                    }
                    self.read_owner(now, guild_id);
                }
                Owner::Arriving(_) => self.give_up_arriving(now, guild_id, Arrival::Lost),
                Owner::Local | Owner::Peer(_) | Owner::Unknown(_) => {}
            }
        }
    }
}
