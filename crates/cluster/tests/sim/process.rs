//! Process: a node's driver, by the rules of `guildhall_node::cluster`: the machine's outputs, links with streams and
//! frames, the keeper of the lease, a worker for the guilds and a partition for the relays.

mod balance;
mod credentials;
mod handoff;

pub use balance::{BalanceEvent, LIMITS as BALANCE_LIMITS};
pub use credentials::AGAIN_AFTER_MS;

use crate::{
    accounts::{ACCOUNTS, AccountEvent, Cache, Change, IDS, Reader, report},
    host::{Host, HostOutput, Input, Moved, Report, Sink},
    relay::Relay,
    stores::{Key, KvOp, KvResult, Value},
    tokens::TokenEvent,
    world::{Core, Event, InjectedFault, KvEvent},
};
use bytes::Bytes;
use credentials::Credentials;
use guildhall_bus::{self as bus, Incoming, IncomingLimits, Outgoing, SenderId, StreamId};
use guildhall_cluster::{
    Balancer, Cluster, GuildInput, Incarnation, Lease, NodeLoad, NodeNumber, NodeRecord, NodeState, Origin, Output,
    OwnerOp, OwnerRecord, OwnerResult, PeerMessage, Pushed, RelayPlace, Renewal, RequestId,
};
use guildhall_guild::{Actor, Command, Refusal, Reply};
use guildhall_guild_protocol::{PartitionId, RelayId, RelayMessage, ToGuild, ToRelay};
use guildhall_model::GuildId;
use guildhall_stdx::Instant;
pub use handoff::HandoffEvent;
use handoff::{Arrives, Leaves};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    mem,
    sync::Arc,
};

// Small, so that the simulation comes to them.
const GUILD_MESSAGES_MAX: usize = 24;
const MESSAGES_MAX: usize = 96;
const BATCH_MAX: usize = 8;
const CONTROL_MAX: usize = 64;
const MAILBOX_MAX: usize = 48;
const PARTITION_MAX: usize = 24;
const FRAME_BYTES_MAX: usize = bus::HEADER_BYTES + 16;

const BEAT_EVERY_MS: u64 = 500;
const HELLO_EVERY_MS: u64 = 100;
const AGAIN_PAUSE_MS: u64 = 200;
const KV_ANSWER_MS_MAX: u64 = 1_000;

enum Item {
    Message(PeerMessage),
    ToRelay(ToRelay),
}

struct Link {
    own: u64,
    membership: Incarnation,
    control: VecDeque<PeerMessage>,
    items: VecDeque<Item>,
    guild_messages_count: usize,
    stream: u64,
    is_open: bool,
    has_dropped: bool,
    outgoing: Option<(u64, Outgoing)>,
    /// When the last `Hello` or `Beat` was sent, and on which stream.
    signed: Option<(u64, u64)>,
    /// The task's next turn: earlier ones are void.
    turn: u64,
    due_at: Option<u64>,
    /// The bus takes nothing before.
    busy_until: u64,
}

impl Link {
    fn new(own: u64) -> Self {
        Self {
            own,
            membership: Incarnation(0),
            control: VecDeque::new(),
            items: VecDeque::new(),
            guild_messages_count: 0,
            stream: 0,
            is_open: false,
            has_dropped: false,
            outgoing: None,
            signed: None,
            turn: 0,
            due_at: None,
            busy_until: 0,
        }
    }

    fn push(&mut self, message: PeerMessage) {
        if message.is_control() {
            if self.control.len() < CONTROL_MAX {
                self.control.push_back(message);
            }
            return;
        }
        if self.items.len() >= MESSAGES_MAX {
            self.items.clear();
            self.guild_messages_count = 0;
            self.has_dropped = true;
        }
        self.items.push_back(Item::Message(message));
    }

    fn try_push_relay(&mut self, message: ToRelay) -> Result<(), ToRelay> {
        if self.guild_messages_count >= GUILD_MESSAGES_MAX {
            return Err(message);
        }
        self.guild_messages_count += 1;
        self.items.push_back(Item::ToRelay(message));
        Ok(())
    }

    fn begin(&mut self, stream: u64) {
        self.items.clear();
        self.guild_messages_count = 0;
        (self.stream, self.is_open, self.has_dropped) = (stream, false, false);
    }
}

/// Lease-store call that the lease keeper awaits.
#[derive(Clone, Debug)]
pub enum Keeping {
    Renewal(NodeRecord),
    /// Whether a write without an answer was this node's.
    Own(Incarnation),
    Found,
    Rejoined(NodeRecord, Instant),
}

/// Recipient of the lease store's answer.
#[derive(Clone, Debug)]
pub enum Waiter {
    Keeper(Keeping),
    Owner(GuildId, OwnerOp),
    /// A hand-off that names the new owner, and the record that it writes.
    Naming(GuildId, Option<OwnerRecord>),
}

/// Borrowed parts of the process, used while the worker sends.
struct Post<'a> {
    core: &'a mut Core,
    slot: (usize, u32),
    number: NodeNumber,
    links: &'a mut BTreeMap<NodeNumber, Link>,
    partition: &'a mut VecDeque<(NodeNumber, ToRelay)>,
    machine: &'a Cluster,
    releasing: &'a BTreeMap<GuildId, u32>,
}

impl Sink for Post<'_> {
    fn try_deliver(&mut self, message: ToRelay) -> Result<(), ToRelay> {
        let node = NodeNumber(message.relay.partition.node());
        if node == self.number {
            if self.releasing.contains_key(&message.guild_id) && self.core.sabotage != InjectedFault::LocalLeak {
                return Ok(());
            }
            // Promise: a relay gets messages of a guild of its own node only while the node is the owner.
            if !self.machine.is_here(message.guild_id) {
                let (guild_id, relay) = (message.guild_id, message.relay);
                self.core.fail(format!("relay {relay:?} gets a message of {guild_id}, which its node has released"));
            }
            return enqueue(self.core, self.slot, self.partition, (node, message));
        }
        let Some(link) = self.links.get_mut(&node) else { return Err(message) };
        link.try_push_relay(message)?;
        wake(self.core, self.slot, node, link);
        Ok(())
    }

    fn is_releasing(&self, guild_id: GuildId) -> bool {
        self.releasing.contains_key(&guild_id) && self.core.sabotage != InjectedFault::LateInputs
    }
}

fn enqueue(
    core: &mut Core,
    slot: (usize, u32),
    partition: &mut VecDeque<(NodeNumber, ToRelay)>,
    (from, message): (NodeNumber, ToRelay),
) -> Result<(), ToRelay> {
    if partition.len() >= PARTITION_MAX {
        return Err(message);
    }
    if partition.is_empty() {
        core.soon(slot, Event::Partition);
    }
    partition.push_back((from, message));
    Ok(())
}

fn wake(core: &mut Core, slot: (usize, u32), to: NodeNumber, link: &mut Link) {
    let at = (core.now + core.rng.below(2)).max(link.busy_until);
    if link.due_at.is_none_or(|due| due > at) {
        link.turn += 1;
        link.due_at = Some(at);
        core.at(at, slot, Event::Link(to, link.own, link.turn));
    }
}

/// A membership on record whose node does not take part yet.
struct Joining {
    record: NodeRecord,
    lease: Lease,
    revision: u64,
    had_number_at: u64,
}

pub struct Process {
    slot: (usize, u32),
    /// Its clock when the simulation began, and its rate.
    clock: (u64, f64),
    pub number: NodeNumber,
    pub machine: Cluster,
    lease: Lease,
    revision: u64,
    state: NodeState,
    keeper_turn: u64,
    is_keeper_busy: bool,
    incoming: Incoming,
    links: BTreeMap<NodeNumber, Link>,
    mailbox: VecDeque<(GuildId, Input)>,
    reports: VecDeque<(GuildId, Report)>,
    is_worker_due: bool,
    hosts: BTreeMap<GuildId, Host>,
    /// Guilds of which a release is in the mailbox, and how many.
    releasing: BTreeMap<GuildId, u32>,
    partition: VecDeque<(NodeNumber, ToRelay)>,
    /// Of relays, that found no room.
    to_guild: VecDeque<(GuildId, ToGuild)>,
    pub relays: BTreeMap<(GuildId, RelayId), Relay>,
    /// Its cache of accounts.
    pub cache: Cache,
    /// Its checks of tokens, and its sessions.
    pub credentials: Credentials,
    /// While it reads what was revoked.
    joining: Option<Joining>,
    /// Of the last attempt to join again.
    on_record: Option<Incarnation>,
    last_epoch: u32,
    pub watch: u64,
    reported: BTreeSet<u8>,
    timer_at: Option<u64>,
    is_slow: bool,
    /// A guild whose relays are not reset now, to see that the checker notices.
    unreset: Option<GuildId>,
    leaves: BTreeMap<GuildId, Leaves>,
    arrives: BTreeMap<GuildId, Arrives>,
    /// Standbys with their epochs.
    ready: BTreeMap<GuildId, (Moved, u64)>,
    balancer: Balancer,
    /// For the next renewal of the record.
    load: Option<NodeLoad>,
    /// Guilds that were handed over to this process, and when.
    arrived: BTreeMap<GuildId, u64>,
}

impl Process {
    pub fn start(core: &mut Core, slot: (usize, u32), number: u8, record: NodeRecord, revision: u64) -> Self {
        let clock = (core.rng.below(1_000_000), 0.99 + 0.02 * core.rng.fraction());
        let now = Instant(clock.0 + (core.now as f64 * clock.1) as u64);
        let number = NodeNumber(number);
        let is_slow = core.rng.chance(0.1);
        let lease = Lease::new(core.lease, now);
        let mut process = Self {
            slot,
            clock,
            number,
            machine: Cluster::new(number, record),
            credentials: Credentials::new(core.now, lease.valid_until()),
            joining: None,
            on_record: None,
            lease,
            revision,
            state: NodeState::Joining,
            keeper_turn: 0,
            is_keeper_busy: false,
            incoming: Incoming::new(IncomingLimits::default()),
            links: BTreeMap::new(),
            mailbox: VecDeque::new(),
            reports: VecDeque::new(),
            is_worker_due: false,
            hosts: BTreeMap::new(),
            releasing: BTreeMap::new(),
            partition: VecDeque::new(),
            to_guild: VecDeque::new(),
            relays: BTreeMap::new(),
            cache: Cache::default(),
            last_epoch: 0,
            watch: 0,
            reported: BTreeSet::new(),
            timer_at: None,
            is_slow,
            unreset: None,
            leaves: BTreeMap::new(),
            arrives: BTreeMap::new(),
            ready: BTreeMap::new(),
            balancer: Balancer::new(now, BALANCE_LIMITS),
            load: None,
            arrived: BTreeMap::new(),
        };
        process.machine.set_owner_idle(core.owner_idle_ms);
        process.with(core, |machine, now| machine.set_serving(now, true));
        core.soon(slot, Event::WatchBegins);
        core.soon(slot, Event::Keeper(0));
        let activated_at = core.now + 1 + core.rng.below(300);
        core.at(activated_at, slot, Event::Activate);
        core.soon(slot, Event::Client);
        core.soon(slot, Event::Account(AccountEvent::Client));
        core.soon(slot, Event::Token(Box::new(TokenEvent::Client)));
        if core.has_handoffs {
            core.soon(slot, Event::Handoff(HandoffEvent::Wanted));
        }
        if core.has_balance {
            core.soon(slot, Event::Handoff(HandoffEvent::Balance(BalanceEvent::Due)));
        }
        process.start_credentials(core);
        for _ in 0..3 {
            core.soon(slot, Event::Churn);
        }
        process
    }

    pub fn instant(&self, core: &Core) -> Instant {
        Instant(self.clock.0 + (core.now as f64 * self.clock.1) as u64)
    }

    fn global(&self, core: &Core, local: Instant) -> u64 {
        ((local.0.saturating_sub(self.clock.0)) as f64 / self.clock.1).ceil().max(core.now as f64) as u64
    }

    fn with<R>(&mut self, core: &mut Core, input: impl FnOnce(&mut Cluster, Instant) -> R) -> R {
        let now = self.instant(core);
        // As the driver's D2.
        if self.machine.is_serving() && !self.lease.is_valid(now) && core.sabotage != InjectedFault::NoFencing {
            self.machine.set_serving(now, false);
        }
        let result = input(&mut self.machine, now);
        while let Some(output) = self.machine.poll_output() {
            self.carry_out(core, now, output);
        }
        if let Some(deadline) = self.machine.next_deadline() {
            let at = self.global(core, deadline).max(core.now + 1);
            if self.timer_at.is_none_or(|armed| armed > at || armed <= core.now) {
                self.timer_at = Some(at);
                core.at(at, self.slot, Event::Timer);
            }
        }
        result
    }

    fn carry_out(&mut self, core: &mut Core, now: Instant, output: Output) {
        if core.is_traced() {
            self.trace_output(core, &output);
        }
        match output {
            Output::Send { message: PeerMessage::ToGuild { guild_id, input: GuildInput::Reset { .. } }, .. }
            | Output::ToGuild { guild_id, input: GuildInput::Reset { .. }, .. }
                if self.unreset == Some(guild_id) => {}
            Output::Send { to, message } => {
                if matches!(message, PeerMessage::Welcome { .. }) {
                    self.lost_messages(core);
                }
                if core.sabotage == InjectedFault::Twice
                    && let PeerMessage::NotOwner { guild_id, request } = &message
                {
                    self.post(core, *guild_id, Input::Command(Origin::Peer(to), *request));
                }
                if let Some(link) = self.links.get_mut(&to) {
                    link.push(message);
                    wake(core, self.slot, to, link);
                }
            }
            Output::Begin { to, membership, stream } => {
                let own = self.machine.record().incarnation.0;
                if self.links.get(&to).is_some_and(|link| link.own != own) {
                    self.links.remove(&to);
                }
                let link = self.links.entry(to).or_insert_with(|| Link::new(own));
                link.begin(stream);
                link.membership = membership;
                wake(core, self.slot, to, link);
            }
            Output::Open { to, stream } => {
                if let Some(link) = self.links.get_mut(&to) {
                    link.is_open |= link.stream == stream;
                    wake(core, self.slot, to, link);
                }
            }
            Output::End { to } => drop(self.links.remove(&to)),
            Output::Owner { guild_id, op } => {
                let call = match op {
                    OwnerOp::Read => KvOp::Get(Key::Guild(guild_id)),
                    OwnerOp::Check(record, _) => KvOp::Get(Key::Node(record.node.0)),
                    OwnerOp::Create(record) => KvOp::Create(Key::Guild(guild_id), Value::Owner(record)),
                    OwnerOp::Replace(record, revision) => {
                        KvOp::Update(Key::Guild(guild_id), Value::Owner(record), revision)
                    }
                    OwnerOp::Remove(revision) => KvOp::Remove(Key::Guild(guild_id), revision),
                };
                core.kv_call(self.slot, call, KV_ANSWER_MS_MAX, Waiter::Owner(guild_id, op));
            }
            Output::ToGuild { guild_id, origin, input } => self.pass_to_guild(core, now, guild_id, origin, input),
            Output::ToRelay(message, _) => {
                let (guild_id, relay) = (message.guild_id, message.relay);
                let from = core.sender.unwrap_or(NodeNumber(u8::MAX));
                if enqueue(core, self.slot, &mut self.partition, (from, message)).is_err() {
                    self.machine.refused_message(now, guild_id, relay);
                }
            }
            Output::ForgetRelays { of } => {
                self.lost_messages(core);
                self.post(core, GuildId::new(0), Input::ForgetRelays(of.0));
            }
            Output::Release { guild_id } => {
                *self.releasing.entry(guild_id).or_default() += 1;
                self.post(core, guild_id, Input::Release);
            }
            Output::Answer { request, answer } => core.answered(request, answer.is_ok()),
            Output::Changed(changes) => self.cache.apply(&changes),
            Output::GiveUp { guild_id } => self.post(core, guild_id, Input::GiveUp),
            Output::Claim { guild_id } => self.claim(core, guild_id),
            Output::Serve { guild_id, forget } => self.serve(core, guild_id, &forget),
            Output::Drop { guild_id } => drop(self.ready.remove(&guild_id)),
            Output::Users(..) | Output::Joined { .. } | Output::UserChanged(_) => {}
        }
    }

    /// What matters for owners and resets.
    fn trace_output(&self, core: &mut Core, output: &Output) {
        let is_shown = match output {
            Output::Send { message, .. } => match message {
                PeerMessage::ToRelays { .. } | PeerMessage::Changed(_) | PeerMessage::Answer { .. } => false,
                PeerMessage::ToGuild { input, .. } => matches!(input, GuildInput::Reset { .. } | GuildInput::Relay(_)),
                _ => true,
            },
            Output::ToGuild { input, .. } => matches!(input, GuildInput::Reset { .. } | GuildInput::Relay(_)),
            Output::ForgetRelays { .. }
            | Output::Release { .. }
            | Output::GiveUp { .. }
            | Output::Claim { .. }
            | Output::Serve { .. } => true,
            _ => false,
        };
        if is_shown {
            core.note(|| format!("node {} puts out {output:?}", self.number));
        }
    }

    // ── accounts ─────────────────────────────────────────────────────────────────────────────────

    /// Reports of other nodes may be among messages that were lost.
    fn lost_messages(&mut self, core: &Core) {
        if core.sabotage != InjectedFault::KeepsCache {
            self.cache.clear();
        }
    }

    fn account_changed(&mut self, core: &mut Core, account: u64) {
        self.cache.forget(account);
        self.with(core, |machine, _| machine.broadcast(&PeerMessage::Changed(report(account))));
    }

    fn handle_account(&mut self, core: &mut Core, event: AccountEvent) {
        match event {
            AccountEvent::Client => {
                if core.is_calm {
                    return;
                }
                self.want_account(core);
                let at = core.now + 20 + core.rng.below(400);
                core.at(at, self.slot, Event::Account(AccountEvent::Client));
            }
            AccountEvent::Read(account, Reader::Cache(evictions), Some(stored)) => {
                self.cache.fill(evictions, account, stored.version);
            }
            AccountEvent::Read(_, Reader::Change(change), Some(stored)) => {
                // Checked between the read and the write, for the state that was read.
                if !stored.is_deleted || core.sabotage == InjectedFault::ChangesDeleted {
                    core.write_account(self.slot, change, stored.with(change));
                }
            }
            // Refused, or its client gets 503.
            AccountEvent::Read(_, _, None) | AccountEvent::Given(_, None | Some(false)) => {}
            AccountEvent::Written(change, written) => {
                self.account_changed(core, change.account);
                match written {
                    Some(true) => core.changed(change),
                    Some(false) => {
                        core.summary.changed_before += 1;
                        if core.sabotage == InjectedFault::RefusedIsDone {
                            core.changed(change);
                        } else {
                            core.read_account(self.slot, change.account, Reader::Change(change));
                        }
                    }
                    None => {}
                }
            }
            AccountEvent::Given(id, Some(true)) => core.has_id(self.slot.0, id),
        }
    }

    fn want_account(&mut self, core: &mut Core) {
        let account = core.rng.below(ACCOUNTS);
        match core.rng.below(4) {
            0 => {
                let id = core.rng.below(IDS);
                core.ask_for_id(self.slot, id);
            }
            1 => {
                if !self.cache.versions.contains_key(&account) {
                    core.read_account(self.slot, account, Reader::Cache(self.cache.evictions));
                }
            }
            _ => {
                core.accounts.changes_count += 1;
                // The first account is never deleted.
                let deletes = account > 0 && core.rng.chance(0.01);
                let change = Change { id: core.accounts.changes_count, account, deletes };
                core.read_account(self.slot, account, Reader::Change(change));
            }
        }
    }

    // ── guilds ───────────────────────────────────────────────────────────────────────────────────

    fn post(&mut self, core: &mut Core, guild_id: GuildId, input: Input) {
        self.mailbox.push_back((guild_id, input));
        self.wake_worker(core);
    }

    fn try_post(&mut self, core: &mut Core, guild_id: GuildId, input: Input) -> Result<(), Input> {
        if self.mailbox.len() >= MAILBOX_MAX {
            return Err(input);
        }
        self.post(core, guild_id, input);
        Ok(())
    }

    fn wake_worker(&mut self, core: &mut Core) {
        if !mem::replace(&mut self.is_worker_due, true) {
            core.soon(self.slot, Event::Worker);
        }
    }

    fn pass_to_guild(&mut self, core: &mut Core, now: Instant, guild_id: GuildId, origin: Origin, input: GuildInput) {
        let posted = match &input {
            GuildInput::Command { request, .. } => {
                if self.try_post(core, guild_id, Input::Command(origin, *request)).is_err() {
                    // The sender that is dropped with it answers `Unavailable`, in a task of its own.
                    self.answer_soon(core, origin, *request, false);
                }
                return;
            }
            GuildInput::Create { .. } => return,
            GuildInput::Relay(message) => self.try_post(core, guild_id, Input::Relay(message.clone())),
            GuildInput::Reset { .. } if core.sabotage == InjectedFault::NoReset => Ok(()),
            GuildInput::Reset { relay, epoch } => {
                self.try_post(core, guild_id, Input::Reset { relay: *relay, epoch: *epoch })
            }
        };
        if posted.is_err() {
            self.machine.refused_input(now, guild_id, origin, &input);
        }
    }

    fn answer_soon(&mut self, core: &mut Core, origin: Origin, request: RequestId, is_done: bool) {
        match origin {
            Origin::Own => core.answered(request, is_done),
            Origin::Peer(_) => core.soon(self.slot, Event::Answered(origin, request, is_done)),
        }
    }

    fn work(&mut self, core: &mut Core) {
        self.is_worker_due = false;
        let mut touched = BTreeSet::new();
        for (guild_id, report) in mem::take(&mut self.reports) {
            self.with_host(core, guild_id, false, |host, now, post| host.handle_report(now, post, report));
            touched.insert(guild_id);
        }
        for (guild_id, input) in mem::take(&mut self.mailbox) {
            match input {
                Input::Release => {
                    self.with_host(core, guild_id, false, |host, now, post| host.release(now, post));
                    if let Some(count) = self.releasing.get_mut(&guild_id) {
                        *count -= 1;
                        if *count == 0 {
                            self.releasing.remove(&guild_id);
                        }
                    }
                }
                Input::ForgetRelays(node) => {
                    for guild_id in self.hosts.keys().copied().collect::<Vec<_>>() {
                        self.with_host(core, guild_id, false, |host, now, post| host.forget_relays(now, post, node));
                        touched.insert(guild_id);
                    }
                }
                Input::GiveUp if !self.hosts.contains_key(&guild_id) => self.gave_up(core, guild_id, Vec::new()),
                Input::TakeOver { .. } if self.releasing.contains_key(&guild_id) => {}
                Input::TakeOver { .. } => {
                    let (now, idle_ms) = (core.now, core.guild_idle_ms);
                    self.hosts.entry(guild_id).or_insert_with(|| Host::arriving(guild_id, now, idle_ms));
                    self.with_host(core, guild_id, false, |host, now, post| host.handle_input(now, post, input));
                }
                Input::Freeze | Input::Stay | Input::GiveUp => {
                    self.with_host(core, guild_id, false, |host, now, post| host.handle_input(now, post, input));
                }
                input if self.releasing.contains_key(&guild_id) && core.sabotage != InjectedFault::LateInputs => {
                    if let Input::Command(origin, request) = input {
                        self.answer_soon(core, origin, request, false);
                    }
                }
                input => self.with_host(core, guild_id, true, |host, now, post| host.handle_input(now, post, input)),
            }
            touched.insert(guild_id);
        }
        let now = core.now;
        let due = self.hosts.iter().filter(|(_, host)| host.deadline().is_some_and(|at| at <= now));
        for guild_id in due.map(|(guild_id, _)| *guild_id).collect::<Vec<_>>() {
            self.with_host(core, guild_id, false, |host, now, post| host.handle_timer(now, post));
            touched.insert(guild_id);
        }
        for guild_id in touched {
            self.with_host(core, guild_id, false, |host, _, _| host.begin_commit());
            if self.hosts.get(&guild_id).is_some_and(Host::is_evictable) {
                self.hosts.remove(&guild_id);
                self.with(core, |machine, now| machine.unloaded(now, guild_id));
            }
        }
        if let Some(at) = self.hosts.values().filter_map(Host::deadline).min() {
            core.at(at.max(core.now + 1), self.slot, Event::Worker);
        }
    }

    fn with_host(
        &mut self,
        core: &mut Core,
        guild_id: GuildId,
        make: bool,
        work: impl FnOnce(&mut Host, u64, &mut Post<'_>),
    ) {
        if make && !self.hosts.contains_key(&guild_id) {
            let mut host = Host::new(guild_id, core.now, core.guild_idle_ms);
            host.freezes_early = core.sabotage == InjectedFault::FreezesEarly;
            host.is_hasty = core.sabotage == InjectedFault::Hasty;
            host.keeps_units = core.sabotage == InjectedFault::StaleUnits;
            self.hosts.insert(guild_id, host);
            self.machine.uses(guild_id);
        }
        let Some(host) = self.hosts.get_mut(&guild_id) else { return };
        let now = core.now;
        let (links, partition) = (&mut self.links, &mut self.partition);
        let (machine, releasing) = (&self.machine, &self.releasing);
        let mut post = Post { core, slot: self.slot, number: self.number, links, partition, machine, releasing };
        work(host, now, &mut post);
        for effect in mem::take(&mut host.outputs) {
            match effect {
                HostOutput::Load => {
                    // Promise: a node claims a guild in the database only while it takes itself for the owner.
                    if !self.machine.is_here(guild_id) {
                        core.fail(format!("node {} claims {guild_id}, which it has released", self.number));
                    }
                    core.load(self.slot, guild_id);
                }
                HostOutput::Commit(epoch, writes) => core.commit(self.slot, guild_id, epoch, writes),
                HostOutput::Answer(origin, request, is_done) => self.answer_soon(core, origin, request, is_done),
                HostOutput::Frozen(moved) => self.frozen(core, guild_id, moved),
                HostOutput::GaveUp(waiting) => self.gave_up(core, guild_id, waiting),
                HostOutput::Fenced => self.with(core, |machine, now| machine.release(now, guild_id)),
            }
        }
    }

    // ── relays and callers ───────────────────────────────────────────────────────────────────────

    fn push_relay(&mut self, core: &mut Core, guild_id: GuildId, message: ToGuild) {
        let is_first = self.to_guild.is_empty();
        self.to_guild.push_back((guild_id, message));
        if is_first {
            self.flush(core);
        }
    }

    /// Passes on what relays have for their guilds.
    fn flush(&mut self, core: &mut Core) {
        while let Some((guild_id, message)) = self.to_guild.pop_front() {
            let input = GuildInput::Relay(message);
            let refused = match self.with(core, |machine, now| machine.push(now, guild_id, input)) {
                Pushed::Accepted => None,
                Pushed::Local(GuildInput::Relay(message)) => {
                    match self.try_post(core, guild_id, Input::Relay(message)) {
                        Err(Input::Relay(message)) => Some(message),
                        _ => None,
                    }
                }
                Pushed::Full(GuildInput::Relay(message)) => Some(message),
                _ => None,
            };
            if let Some(message) = refused {
                self.to_guild.push_front((guild_id, message));
                return core.at(core.now + 20, self.slot, Event::Flush);
            }
        }
    }

    /// A caller sends a command.
    pub fn command(&mut self, core: &mut Core, guild_id: GuildId) {
        let request = core.new_request(guild_id, self.slot);
        let input =
            GuildInput::Command { request, actor: Actor::System, command: Box::new(Command::ReadGuild), trace: None };
        let pushed = if self.machine.uses(guild_id) {
            Pushed::Local(input)
        } else {
            self.with(core, |machine, now| machine.push(now, guild_id, input))
        };
        let is_refused = match pushed {
            Pushed::Accepted => false,
            Pushed::Local(_) => self.try_post(core, guild_id, Input::Command(Origin::Own, request)).is_err(),
            Pushed::Full(_) => true,
        };
        if is_refused {
            core.answered(request, false);
        }
    }

    /// A relay begins or ends.
    fn churn(&mut self, core: &mut Core) {
        let Some(guild_id) = core.any_guild() else { return };
        let id = RelayId { partition: PartitionId::of_node(self.number.0, 0), index: core.rng.below(2) as u16 };
        if let Some(relay) = self.relays.remove(&(guild_id, id)) {
            return self.push_relay(core, guild_id, ToGuild::Unsubscribe { relay: id, epoch: relay.epoch });
        }
        self.last_epoch += 1;
        let relay = Relay::new(id, self.last_epoch, 1 + core.rng.below(2) as usize);
        let messages = relay.subscribe();
        self.relays.insert((guild_id, id), relay);
        messages.into_iter().for_each(|message| self.push_relay(core, guild_id, message));
    }

    fn deliver(&mut self, core: &mut Core) {
        let now = self.instant(core);
        let count = if self.is_slow { 2 } else { self.partition.len() };
        for _ in 0..count {
            let Some((from, message)) = self.partition.pop_front() else { break };
            let guild_id = message.guild_id;
            if core.is_traced() {
                let kind = guildhall_guild_protocol::RelayMessageKind::from(&message.message);
                core.note(|| {
                    format!(
                        "node {} gets {kind:?} {} of epoch {} for {:?} of {guild_id} from {from}",
                        self.number, message.seq, message.epoch, message.relay
                    )
                });
            }
            let Some(relay) = self.relays.get_mut(&(guild_id, message.relay)) else { continue };
            match relay.handle(now, message) {
                Ok((learned, to_guild)) => {
                    let relay = relay.id;
                    core.learned((self.number, from), (guild_id, relay), &learned);
                    to_guild.into_iter().for_each(|message| self.push_relay(core, guild_id, message));
                }
                Err(problem) => core.fail(format!("relay of node {} for {guild_id}: {problem}", self.number)),
            }
        }
        if !self.partition.is_empty() {
            core.soon(self.slot, Event::Partition);
        }
    }

    // ── messages of other nodes ──────────────────────────────────────────────────────────────────

    fn receive(&mut self, core: &mut Core, frame: &Bytes) {
        let (gap, event) = self.incoming.accept(frame).expect("frames are whole");
        for event in gap.into_iter().chain(event) {
            match event {
                bus::Event::Gap(sender, stream) => {
                    let sender = Incarnation(sender.0);
                    self.with(core, |machine, now| machine.handle_gap(now, sender, stream.0 >> 8));
                }
                bus::Event::Message(bus::Received { sender, stream, payload, .. }) => {
                    let (sender, stream) = (Incarnation(sender.0), stream.0 >> 8);
                    let index = payload.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                    let messages = core.payloads[index as usize].clone();
                    core.sender = self.machine.peer_of(sender);
                    self.with(core, |machine, now| {
                        let messages = messages.iter().cloned();
                        messages.for_each(|message| machine.handle_message(now, sender, stream, message));
                    });
                    core.sender = None;
                }
            }
        }
    }

    fn run_link(&mut self, core: &mut Core, to: NodeNumber, own: u64, turn: u64) {
        let slot = self.slot;
        let pause = if self.is_slow { 4 + core.rng.below(40) } else { 0 };
        let Some(link) = self.links.get_mut(&to).filter(|link| link.own == own && link.turn == turn) else { return };
        link.due_at = None;
        let count = if link.is_open { link.items.len().min(BATCH_MAX) } else { 0 };
        let mut items: Vec<Item> = link.control.drain(..).map(Item::Message).collect();
        items.extend(link.items.drain(..count));
        link.guild_messages_count -= items.iter().filter(|item| matches!(item, Item::ToRelay(_))).count();
        let is_idle = items.is_empty();
        let every = if link.is_open { BEAT_EVERY_MS } else { HELLO_EVERY_MS };
        let quiet = link.signed.filter(|(of, _)| *of == link.stream).map_or(every, |(_, at)| core.now - at);
        if is_idle && quiet < every {
            link.turn += 1;
            link.due_at = Some(core.now + every - quiet);
            return core.at(core.now + every - quiet, slot, Event::Link(to, own, link.turn));
        }
        let number = if core.sabotage == InjectedFault::StreamReused { 1 } else { link.stream };
        let id = StreamId(number << 8 | u64::from(to.0));
        let (_, outgoing) = match &mut link.outgoing {
            Some(current) if current.0 == link.stream => current,
            other => other.insert((link.stream, Outgoing::new(SenderId(own), id))),
        };
        let messages = match (is_idle, link.is_open) {
            (true, true) => vec![PeerMessage::Beat],
            (true, false) => vec![PeerMessage::Hello { to: link.membership }],
            (false, _) => gather(items),
        };
        if is_idle || link.is_open {
            link.signed = Some((link.stream, core.now));
        }
        if mem::take(&mut link.has_dropped) {
            drop(outgoing.frames(1, &[], FRAME_BYTES_MAX));
        }
        let mut payload = (core.payloads.len() as u64).to_le_bytes().to_vec();
        payload.resize(8 + core.rng.below(24) as usize, 0);
        core.payloads.push(messages.into());
        for frame in outgoing.frames(1, &payload, FRAME_BYTES_MAX).unwrap_or_default() {
            core.publish(slot.0, to, frame);
        }
        link.turn += 1;
        link.busy_until = core.now + 1 + pause;
        link.due_at = Some(core.now + 1 + pause);
        core.at(core.now + 1 + pause, slot, Event::Link(to, own, link.turn));
    }

    // ── the lease ────────────────────────────────────────────────────────────────────────────────

    fn keep(&mut self, core: &mut Core) {
        if self.is_keeper_busy {
            return;
        }
        let now = self.instant(core);
        let is_valid = self.lease.check(now);
        let has_news = self.state != self.machine.record().state;
        let is_due = is_valid && (self.lease.begin_renewal(now) || has_news);
        let is_serving = is_valid || core.sabotage == InjectedFault::NoFencing;
        self.with(core, |machine, now| machine.set_serving(now, is_serving));
        if !is_valid {
            self.is_keeper_busy = true;
            self.credentials.lease_ended();
            core.kv_call(
                self.slot,
                KvOp::Get(Key::Node(self.number.0)),
                KV_ANSWER_MS_MAX,
                Waiter::Keeper(Keeping::Found),
            );
        } else if is_due {
            self.is_keeper_busy = true;
            let record = NodeRecord { state: self.state, load: self.load.clone(), ..self.machine.record().clone() };
            let call = KvOp::Update(Key::Node(self.number.0), Value::Node(record.clone()), self.revision);
            // The end of the lease does not wait for a slow answer.
            let patience = core.lease.renew_ms.min(self.lease.valid_until().ms_since(now)).min(KV_ANSWER_MS_MAX);
            core.kv_call(self.slot, call, patience, Waiter::Keeper(Keeping::Renewal(record)));
        } else {
            self.keep_at(core, self.lease.next_deadline());
        }
    }

    /// The owner of a guild, while the machine checks whether it still is (`Resets::UnlessAt`).
    fn asks_unless_at(&self, guild_id: GuildId) -> Option<NodeNumber> {
        if self.machine.owner_of(guild_id).is_some() {
            return None;
        }
        (0..NodeNumber::NODES_MAX).map(NodeNumber).find(|number| self.machine.takes_from(guild_id, *number))
    }

    fn keep_at(&mut self, core: &mut Core, at: Instant) {
        self.keeper_turn += 1;
        let at = self.global(core, at).max(core.now + 1);
        core.at(at, self.slot, Event::Keeper(self.keeper_turn));
    }

    fn kept(&mut self, core: &mut Core, keeping: Keeping, result: KvResult) -> bool {
        let now = self.instant(core);
        let key = Key::Node(self.number.0);
        let is_own =
            |value: &Value, own: Incarnation| matches!(value, Value::Node(record) if record.incarnation == own);
        let renewal = match (keeping, result) {
            (Keeping::Renewal(record), KvResult::Written(revision)) => {
                self.revision = revision;
                let is_held = self.lease.renewed(now, Renewal::Done);
                if is_held {
                    let number = self.number;
                    self.with(core, |machine, now| machine.handle_node(now, number, Some(record)));
                }
                return self.kept_on(core, is_held);
            }
            (Keeping::Renewal(record), KvResult::Conflict) => {
                let patience = self.lease.valid_until().ms_since(now).clamp(1, KV_ANSWER_MS_MAX);
                let waiter = Waiter::Keeper(Keeping::Own(record.incarnation));
                core.kv_call(self.slot, KvOp::Get(key), patience, waiter);
                return true;
            }
            (Keeping::Own(own), KvResult::Found(Some((value, revision)))) if is_own(&value, own) => {
                self.revision = revision;
                Renewal::Unknown
            }
            (Keeping::Own(_), KvResult::Found(_)) => Renewal::Lost,
            (Keeping::Renewal(_) | Keeping::Own(_), _) => Renewal::Unknown,
            (Keeping::Found, KvResult::Found(found)) => {
                let incarnation = Incarnation(core.rng.next_u64());
                let record = NodeRecord { incarnation, state: self.state, ..self.machine.record().clone() };
                let value = Value::Node(record.clone());
                let call = match found {
                    None => KvOp::Create(key, value),
                    Some((found, revision))
                        if is_own(&found, self.on_record.unwrap_or(self.machine.record().incarnation)) =>
                    {
                        KvOp::Update(key, value, revision)
                    }
                    // Another node has the number: the process ends.
                    Some(_) => return false,
                };
                core.kv_call(self.slot, call, KV_ANSWER_MS_MAX, Waiter::Keeper(Keeping::Rejoined(record, now)));
                return true;
            }
            (Keeping::Rejoined(record, written_at), KvResult::Written(revision)) => {
                self.joining = Some(Joining {
                    record,
                    lease: Lease::new(core.lease, written_at),
                    revision,
                    had_number_at: core.now,
                });
                match core.sabotage {
                    InjectedFault::NoCatchUp => self.caught_up(core),
                    InjectedFault::ServesFirst => {
                        self.caught_up(core);
                        self.read_log(core);
                    }
                    _ => self.read_log(core),
                }
                return true;
            }
            (Keeping::Found | Keeping::Rejoined(..), _) => {
                self.join_later(core);
                return true;
            }
        };
        let is_held = self.lease.renewed(now, renewal);
        self.kept_on(core, is_held)
    }

    /// The node has its number again, and has read what was revoked.
    fn caught_up(&mut self, core: &mut Core) {
        let now = self.instant(core);
        let Some(Joining { record, lease, revision, had_number_at }) = self.joining.take() else { return };
        if !lease.is_valid(now) {
            self.on_record = Some(record.incarnation);
            return self.join_later(core);
        }
        (self.lease, self.revision, self.on_record) = (lease, revision, None);
        self.cache.clear();
        self.with(core, |machine, now| machine.rejoin(now, record));
        self.joined(core, had_number_at);
        self.kept_on(core, true);
    }

    /// The log of revocations cannot be read.
    fn kept_away(&mut self, core: &mut Core) {
        if let Some(Joining { record, .. }) = self.joining.take() {
            self.on_record = Some(record.incarnation);
            self.join_later(core);
        }
    }

    fn join_later(&mut self, core: &mut Core) {
        self.is_keeper_busy = false;
        self.keeper_turn += 1;
        core.at(core.now + AGAIN_PAUSE_MS, self.slot, Event::Keeper(self.keeper_turn));
    }

    fn kept_on(&mut self, core: &mut Core, is_held: bool) -> bool {
        self.credentials.use_until(if is_held { self.lease.valid_until() } else { Instant(0) });
        let is_serving = is_held || core.sabotage == InjectedFault::NoFencing;
        self.with(core, |machine, now| machine.set_serving(now, is_serving));
        self.is_keeper_busy = false;
        self.keep(core);
        true
    }

    fn handle_watch(&mut self, core: &mut Core, event: KvEvent) {
        match event {
            KvEvent::Begins => self.reported.clear(),
            KvEvent::Put(number, record) => {
                self.reported.insert(number);
                self.with(core, |machine, now| machine.handle_node(now, NodeNumber(number), Some(record)));
            }
            KvEvent::Gone(number) => {
                self.with(core, |machine, now| machine.handle_node(now, NodeNumber(number), None));
            }
            KvEvent::Current => {
                self.credentials.has_watched = true;
                let known = self.machine.peers().map(|(number, _)| number);
                for number in known.filter(|number| !self.reported.contains(&number.0)).collect::<Vec<_>>() {
                    self.with(core, |machine, now| machine.handle_node(now, number, None));
                }
            }
        }
    }

    /// False: the process has to end.
    pub fn handle(&mut self, core: &mut Core, event: Event) -> bool {
        match event {
            Event::Worker => self.work(core),
            Event::Partition => self.deliver(core),
            Event::Flush => self.flush(core),
            Event::Link(to, own, turn) => self.run_link(core, to, own, turn),
            Event::Timer => {
                self.timer_at = None;
                self.with(core, Cluster::handle_timer);
            }
            Event::Keeper(turn) => {
                if turn == self.keeper_turn {
                    self.keep(core);
                }
            }
            Event::Activate => {
                self.state = NodeState::Active;
                self.keep(core);
            }
            Event::Client => {
                if !core.is_calm {
                    if let Some(guild_id) = core.any_guild() {
                        self.command(core, guild_id);
                    }
                    let at = core.now + 10 + core.rng.below(500);
                    core.at(at, self.slot, Event::Client);
                }
            }
            Event::Churn => {
                if !core.is_calm {
                    self.churn(core);
                    let at = core.now + 200 + core.rng.below(8_000);
                    core.at(at, self.slot, Event::Churn);
                }
            }
            Event::Answered(origin, request, is_done) => {
                let answer = if is_done { Ok(Reply::Done) } else { Err(Refusal::Unavailable) };
                self.with(core, |machine, _| machine.answered(origin, request, answer));
            }
            Event::Handoff(event) => self.handle_handoff(core, event),
            Event::Kv(Waiter::Naming(guild_id, written), result) => self.named(core, guild_id, written, &result),
            Event::Account(event) => self.handle_account(core, event),
            Event::Token(event) => self.handle_token(core, *event),
            Event::Frame(frame) => self.receive(core, &frame),
            Event::Inbox => {}
            Event::WatchBegins => {
                self.watch += 1;
                core.watch(self.slot, self.watch);
            }
            Event::Watch(watch, event) => {
                if watch == self.watch {
                    self.handle_watch(core, event);
                }
            }
            Event::Kv(Waiter::Keeper(keeping), result) => return self.kept(core, keeping, result),
            Event::Kv(Waiter::Owner(guild_id, op), result) => {
                let result = match result {
                    KvResult::Found(found) if let OwnerOp::Check(record, revision) = op => {
                        let of =
                            |(value, _)| if let Value::Node(record) = value { Some(record.incarnation) } else { None };
                        OwnerResult::Checked(record, revision, found.and_then(of))
                    }
                    KvResult::Found(found) => OwnerResult::Found(found.and_then(|(value, revision)| match value {
                        Value::Owner(record) => Some((record, revision)),
                        Value::Node(_) => None,
                    })),
                    KvResult::Written(_) => match op {
                        OwnerOp::Create(record) | OwnerOp::Replace(record, _) => OwnerResult::Written(record),
                        OwnerOp::Read | OwnerOp::Check(..) | OwnerOp::Remove(_) => OwnerResult::Away,
                    },
                    KvResult::Removed => {
                        core.summary.removed += 1;
                        OwnerResult::Removed
                    }
                    KvResult::Conflict => OwnerResult::Conflict,
                    KvResult::Away
                        if matches!(op, OwnerOp::Remove(_)) && core.sabotage == InjectedFault::LateRemoval =>
                    {
                        OwnerResult::Removed
                    }
                    KvResult::Away => OwnerResult::Away,
                };
                let before = self.asks_unless_at(guild_id);
                let is_sabotaged = core.sabotage == InjectedFault::NoResetElsewhere;
                self.unreset = before.filter(|_| is_sabotaged).map(|_| guild_id);
                self.with(core, |machine, now| machine.handle_owner(now, guild_id, result));
                self.unreset = None;
                let after = self.machine.owner_of(guild_id);
                core.summary.moved += u64::from(before.is_some() && after.is_some() && before != after);
            }
            Event::Loaded(guild_id, loaded) => {
                self.reports.push_back((guild_id, Report::Loaded(loaded)));
                self.wake_worker(core);
            }
            Event::Committed(guild_id, committed) => {
                self.reports.push_back((guild_id, Report::Committed(committed)));
                self.wake_worker(core);
            }
        }
        true
    }
}

/// As the links of the node do.
fn gather(items: Vec<Item>) -> Vec<PeerMessage> {
    let mut messages: Vec<PeerMessage> = Vec::with_capacity(items.len());
    let mut last_of_guild: HashMap<GuildId, usize> = HashMap::new();
    for item in items {
        let ToRelay { guild_id, relay, epoch, seq, message } = match item {
            Item::ToRelay(message) => message,
            Item::Message(message) => {
                messages.push(message);
                continue;
            }
        };
        let place = RelayPlace { relay, epoch, seq };
        let last = last_of_guild.get(&guild_id).and_then(|index| messages.get_mut(*index));
        if let Some(PeerMessage::ToRelays { relays, message: last, .. }) = last
            && matches!((last, &message), (RelayMessage::Published(a), RelayMessage::Published(b)) if Arc::ptr_eq(a, b))
        {
            relays.push(place);
            continue;
        }
        last_of_guild.insert(guild_id, messages.len());
        messages.push(PeerMessage::ToRelays { guild_id, relays: vec![place], message, trace: None });
    }
    messages
}
