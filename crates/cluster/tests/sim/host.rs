//! Host: a guild on its owner, by the rules of the node's guild host: it loads after claiming an epoch, and nothing
//! leaves before it is committed.
//!
//! The guild is a list of commands that were carried out, by their request ids. An event is the next entry; a snapshot
//! has the length of the list, and its last entry.

use guildhall_cluster::{Origin, RequestId};
use guildhall_guild_protocol::{
    AudienceRule, Event, GuildReplica, GuildStructure, MembersWanted, Payload, Published, RelayId, RelayMessage,
    RelayOutput, RelayStreams, ReplicaUpdate, SessionKey, SessionPresence, ToGuild, ToRelay,
};
use guildhall_model::{
    AccountKind, ChannelId, EventName, Guild as Object, GuildId, MessageId, Platform, Status, UserId,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
};

/// How soon a relay that was full is tried again.
const RELAY_RETRY_MS: u64 = 20;
const BACKOFF_MS: u64 = 100;

pub fn attach(session: SessionKey) -> ToGuild {
    let presence = SessionPresence { status: Status::Online, activities: Arc::default(), platform: Platform::Web };
    ToGuild::Attach {
        is_restored: false,
        previous: None,
        session,
        session_id: "".into(),
        user_id: UserId::new(1),
        kind: AccountKind::Bot,
        presence,
        members: MembersWanted::OwnAndVoice,
    }
}

fn snapshot(guild_id: GuildId, len: u64, last: RequestId) -> RelayMessage {
    let guild = Object::new(guild_id, &format!("{len} {}", last.0), UserId::new(1));
    let structure = GuildStructure { guild: Arc::new(guild), roles: Arc::default(), channels: Arc::default() };
    RelayMessage::Snapshot { replica: GuildReplica::new(Arc::new(structure)), reset: false }
}

pub fn read_snapshot(replica: &GuildReplica) -> (u64, RequestId) {
    let (len, last) = replica.structure.guild.name.split_once(' ').expect("`snapshot` wrote it");
    (len.parse().expect("a number"), RequestId(last.parse().expect("a number")))
}

pub enum Input {
    Command(Origin, RequestId),
    Relay(ToGuild),
    Reset { relay: RelayId, epoch: u32 },
    Release,
    ForgetRelays(u8),
    Freeze,
    Stay,
    GiveUp,
    TakeOver { moved: Moved, epoch: u64, forget: Vec<u8> },
}

/// An input that a guild has not handled.
pub enum Waiting {
    Command(Origin, RequestId),
    Relay(ToGuild),
    Reset { relay: RelayId, epoch: u32 },
}

/// State of a guild that is handed over.
#[derive(Clone, Debug)]
pub struct Moved {
    len: u64,
    last: RequestId,
    relays: BTreeMap<RelayId, Subscriber>,
    streams: RelayStreams,
}

pub enum Report {
    Committed(Committed),
    /// The epoch, and the log's length and last entry. None: it failed.
    Loaded(Option<(u64, u64, RequestId)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    Done,
    Fenced,
    /// The database did not answer: the commit may have happened.
    Failed,
}

/// Effects for the driver, which carries them out after each input in order.
pub enum HostOutput {
    Load,
    Commit(u64, Vec<RequestId>),
    Frozen(Moved),
    GaveUp(Vec<Waiting>),
    /// What became of a request. False: `Unavailable`.
    Answer(Origin, RequestId, bool),
    Fenced,
}

/// Where a host sends messages of relays.
pub trait Sink {
    fn try_deliver(&mut self, message: ToRelay) -> Result<(), ToRelay>;

    /// Whether a release of the guild is in the mailbox.
    fn is_releasing(&self, guild_id: GuildId) -> bool;
}

#[derive(Clone, Debug)]
struct Subscriber {
    epoch: u32,
    is_cut: bool,
}

struct Guild {
    len: u64,
    last: RequestId,
    relays: BTreeMap<RelayId, Subscriber>,
}

#[derive(Default)]
struct Unit {
    writes: Vec<RequestId>,
    relay: Vec<RelayOutput>,
    answers: Vec<(Origin, RequestId)>,
    is_uncommitted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Freeze {
    None,
    Wanted,
    Frozen,
}

enum State {
    Loading,
    Live(Guild),
    Draining,
    /// When to load it again.
    Backoff(u64),
    Evictable,
}

pub struct Host {
    guild_id: GuildId,
    state: State,
    streams: RelayStreams,
    units: VecDeque<Unit>,
    committing_count: usize,
    waiting: VecDeque<Input>,
    lagging: BTreeSet<RelayId>,
    pub retry_at: Option<u64>,
    epoch: Option<u64>,
    is_released: bool,
    failures_count: u32,
    used_at: u64,
    /// After which time without use it is dropped from memory.
    idle_ms: u64,
    pub outputs: Vec<HostOutput>,
    /// Sends before the commit, to see that the checker notices.
    pub is_hasty: bool,
    /// Sends a relay that begins again what was meant for it before, to see that the checker notices.
    pub keeps_units: bool,
    freeze: Freeze,
    /// Nodes whose relays were gone while it was frozen.
    forgotten: Vec<u8>,
    /// Hands over what is not committed, to see that the checker notices.
    pub freezes_early: bool,
    /// A guild that arrived while this one is loaded or drained.
    arrived: Option<(Moved, u64, Vec<u8>)>,
    is_loading: bool,
}

impl Guild {
    fn command(&mut self, guild_id: GuildId, request: RequestId, unit: &mut Unit) {
        self.len += 1;
        self.last = request;
        unit.writes.push(request);
        let payload = Payload::MessageDelete { id: MessageId::new(request.0), channel_id: ChannelId::new(self.len) };
        let event = Event::new(guild_id, EventName::MessageDelete, AudienceRule::Members, payload);
        let published = Arc::new(Published { event, replica_update: ReplicaUpdate::None });
        for (relay, subscriber) in self.relays.iter().filter(|(_, subscriber)| !subscriber.is_cut) {
            let message = RelayMessage::Published(published.clone());
            unit.relay.push(RelayOutput { guild_id, relay: *relay, epoch: subscriber.epoch, message });
        }
    }

    fn send(&self, guild_id: GuildId, relay: RelayId, message: RelayMessage, unit: &mut Unit) {
        if let Some(subscriber) = self.relays.get(&relay).filter(|subscriber| !subscriber.is_cut) {
            unit.relay.push(RelayOutput { guild_id, relay, epoch: subscriber.epoch, message });
        }
    }

    fn has_relay(&self, relay: RelayId, epoch: u32) -> bool {
        self.relays.get(&relay).is_some_and(|subscriber| subscriber.epoch == epoch)
    }

    fn restart(&mut self, guild_id: GuildId, relay: RelayId, unit: &mut Unit) {
        let Some(subscriber) = self.relays.get_mut(&relay) else { return };
        subscriber.is_cut = false;
        unit.relay.retain(|output| output.relay != relay);
        let mut message = snapshot(guild_id, self.len, self.last);
        if let RelayMessage::Snapshot { reset, .. } = &mut message {
            *reset = true;
        }
        self.send(guild_id, relay, message, unit);
    }

    fn relay(&mut self, guild_id: GuildId, message: &ToGuild, unit: &mut Unit) {
        match *message {
            ToGuild::Subscribe { relay, epoch } => match self.relays.get(&relay).map(|subscriber| subscriber.epoch) {
                Some(current) if current > epoch => {}
                Some(current) if current == epoch => self.restart(guild_id, relay, unit),
                _ => {
                    self.relays.insert(relay, Subscriber { epoch, is_cut: false });
                    self.send(guild_id, relay, snapshot(guild_id, self.len, self.last), unit);
                }
            },
            ToGuild::Unsubscribe { relay, epoch } if self.has_relay(relay, epoch) => {
                self.relays.remove(&relay);
            }
            ToGuild::Resync { relay, epoch } if self.has_relay(relay, epoch) => self.restart(guild_id, relay, unit),
            ToGuild::Attach { session, .. } => {
                self.send(guild_id, session.relay, RelayMessage::Attached { session, view: None }, unit);
            }
            _ => {}
        }
    }
}

impl Host {
    pub fn new(guild_id: GuildId, now: u64, idle_ms: u64) -> Self {
        Self { outputs: vec![HostOutput::Load], is_loading: true, ..Self::arriving(guild_id, now, idle_ms) }
    }

    /// A host whose guild arrives from another node.
    pub fn arriving(guild_id: GuildId, now: u64, idle_ms: u64) -> Self {
        Self {
            used_at: now,
            idle_ms,
            guild_id,
            state: State::Loading,
            streams: RelayStreams::default(),
            units: VecDeque::new(),
            committing_count: 0,
            waiting: VecDeque::new(),
            lagging: BTreeSet::new(),
            retry_at: None,
            epoch: None,
            is_released: false,
            failures_count: 0,
            outputs: Vec::new(),
            is_hasty: false,
            keeps_units: false,
            freeze: Freeze::None,
            forgotten: Vec::new(),
            freezes_early: false,
            arrived: None,
            is_loading: false,
        }
    }

    pub fn is_evictable(&self) -> bool {
        matches!(self.state, State::Evictable)
    }

    pub fn deadline(&self) -> Option<u64> {
        if self.freeze == Freeze::Frozen {
            return None;
        }
        let state = match &self.state {
            State::Backoff(at) => Some(*at),
            State::Live(guild) if guild.relays.is_empty() => Some(self.used_at + self.idle_ms),
            _ => None,
        };
        [state, self.retry_at].into_iter().flatten().min()
    }

    pub fn handle_input(&mut self, now: u64, sink: &mut impl Sink, input: Input) {
        match input {
            Input::Freeze => {
                if matches!(self.state, State::Live(_)) {
                    self.freeze = Freeze::Wanted;
                }
                return self.advance(now, sink);
            }
            Input::Stay => return self.stay(now, sink),
            Input::GiveUp => return self.give_up(now, sink),
            Input::TakeOver { moved, epoch, forget } => {
                self.arrived = Some((moved, epoch, forget));
                if !self.is_loading && !matches!(self.state, State::Draining) {
                    self.take_over(now, sink);
                }
                return self.advance(now, sink);
            }
            _ => {}
        }
        self.used_at = now;
        self.waiting.push_back(input);
        if matches!(self.state, State::Evictable) {
            self.is_released = false;
            self.load(now, sink);
        }
        self.advance(now, sink);
    }

    pub fn handle_report(&mut self, now: u64, sink: &mut impl Sink, report: Report) {
        match report {
            Report::Committed(Committed::Done) => {
                let count = mem::take(&mut self.committing_count);
                self.units.iter_mut().take(count).for_each(|unit| unit.is_uncommitted = false);
                self.publish_ready(now, sink);
            }
            Report::Committed(Committed::Fenced) => {
                self.fail();
                self.release(now, sink);
                self.outputs.push(HostOutput::Fenced);
            }
            Report::Committed(Committed::Failed) => {
                self.fail();
                self.abandon();
            }
            Report::Loaded(loaded) => self.loaded(now, sink, loaded),
        }
        self.advance(now, sink);
    }

    // ── hand-offs ────────────────────────────────────────────────────────────────────────────────

    fn try_freeze(&mut self) {
        if self.freeze != Freeze::Wanted {
            return;
        }
        let State::Live(guild) = &self.state else { return };
        if self.units.is_empty() || self.freezes_early {
            self.freeze = Freeze::Frozen;
            let Guild { len, last, relays } = guild;
            let (len, last) = (*len, *last);
            let moved = Moved { len, last, relays: relays.clone(), streams: self.streams.clone() };
            self.outputs.push(HostOutput::Frozen(moved));
        }
    }

    fn stay(&mut self, now: u64, sink: &mut impl Sink) {
        self.freeze = Freeze::None;
        for node in mem::take(&mut self.forgotten) {
            self.forget_subscribed(now, sink, node);
        }
        self.advance(now, sink);
    }

    fn give_up(&mut self, now: u64, sink: &mut impl Sink) {
        let waiting = mem::take(&mut self.waiting).into_iter().filter_map(|input| match input {
            Input::Command(origin, request) => Some(Waiting::Command(origin, request)),
            Input::Relay(message) => Some(Waiting::Relay(message)),
            Input::Reset { relay, epoch } => Some(Waiting::Reset { relay, epoch }),
            _ => None,
        });
        self.outputs.push(HostOutput::GaveUp(waiting.collect()));
        self.release(now, sink);
    }

    fn take_over(&mut self, now: u64, sink: &mut impl Sink) {
        let Some((moved, epoch, forget)) = self.arrived.take() else { return };
        self.forget_guild();
        let Moved { len, last, relays, streams } = moved;
        (self.streams, self.epoch, self.is_released, self.failures_count) = (streams, Some(epoch), false, 0);
        (self.freeze, self.used_at) = (Freeze::None, now);
        for relay in self.streams.broken() {
            self.lagging.insert(relay);
            self.retry_at.get_or_insert(now + RELAY_RETRY_MS);
        }
        self.state = State::Live(Guild { len, last, relays });
        for node in forget {
            self.forget_subscribed(now, sink, node);
        }
    }

    fn loaded(&mut self, now: u64, sink: &mut impl Sink, loaded: Option<(u64, u64, RequestId)>) {
        self.is_loading = false;
        if self.arrived.is_some() {
            return self.take_over(now, sink);
        }
        if let Some((epoch, ..)) = loaded {
            self.epoch = Some(epoch);
        }
        let was_released = mem::take(&mut self.is_released);
        match loaded {
            _ if was_released && self.waiting.is_empty() => self.state = State::Evictable,
            Some(_) if was_released => self.load(now, sink),
            Some((_, len, last)) => {
                self.failures_count = 0;
                let mut guild = Guild { len, last, relays: BTreeMap::new() };
                let mut unit = Unit::default();
                for (relay, epoch) in self.streams.subscribed() {
                    guild.relay(self.guild_id, &ToGuild::Subscribe { relay, epoch }, &mut unit);
                }
                self.state = State::Live(guild);
                self.push(now, sink, unit);
            }
            None => {
                self.failures_count = self.failures_count.max(1) + 1;
                self.down(now);
            }
        }
    }

    fn load(&mut self, now: u64, sink: &impl Sink) {
        if sink.is_releasing(self.guild_id) {
            return self.down(now);
        }
        self.state = State::Loading;
        self.is_loading = true;
        self.outputs.push(HostOutput::Load);
    }

    fn down(&mut self, now: u64) {
        self.state = State::Backoff(now + (BACKOFF_MS << self.failures_count.min(4)));
    }

    fn restart(&mut self, now: u64, sink: &impl Sink) {
        self.streams.lost_everywhere();
        self.forget_guild();
        self.failures_count += 1;
        if self.failures_count == 1 { self.load(now, sink) } else { self.down(now) }
    }

    fn forget_guild(&mut self) {
        self.lagging.clear();
        self.retry_at = None;
    }

    fn abandon(&mut self) {
        if let State::Live(_) = self.state {
            self.state = State::Draining;
            self.freeze = Freeze::None;
        }
    }

    fn fail(&mut self) {
        self.committing_count = 0;
        for (origin, request) in self.units.drain(..).flat_map(|unit| unit.answers) {
            self.outputs.push(HostOutput::Answer(origin, request, false));
        }
    }

    pub fn handle_timer(&mut self, now: u64, sink: &mut impl Sink) {
        if self.freeze == Freeze::Frozen {
            return;
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            for relay in mem::take(&mut self.lagging) {
                if let State::Live(guild) = &mut self.state
                    && guild.relays.get(&relay).is_some_and(|subscriber| subscriber.is_cut)
                {
                    let mut unit = Unit::default();
                    guild.restart(self.guild_id, relay, &mut unit);
                    self.push(now, sink, unit);
                }
            }
        }
        if matches!(&self.state, State::Live(guild) if guild.relays.is_empty()) && now >= self.used_at + self.idle_ms {
            self.used_at = now;
            if self.units.is_empty() && self.waiting.is_empty() && self.committing_count == 0 {
                self.state = State::Evictable;
            }
        }
        if matches!(self.state, State::Backoff(until) if until <= now) {
            if self.streams.is_empty() && self.waiting.is_empty() {
                self.state = State::Evictable;
            } else {
                self.load(now, sink);
            }
        }
        self.advance(now, sink);
    }

    pub fn begin_commit(&mut self) {
        let Some(epoch) = self.epoch else { return };
        if self.committing_count > 0 {
            return;
        }
        let writes: Vec<RequestId> = self.units.iter_mut().flat_map(|unit| unit.writes.drain(..)).collect();
        if !writes.is_empty() {
            self.committing_count = self.units.len();
            self.outputs.push(HostOutput::Commit(epoch, writes));
        }
    }

    pub fn forget_relays(&mut self, now: u64, sink: &mut impl Sink, node: u8) {
        self.waiting.retain(|input| match input {
            Input::Relay(message) => message.relay().partition.node() != node,
            Input::Reset { relay, .. } => relay.partition.node() != node,
            _ => true,
        });
        if self.freeze == Freeze::Frozen {
            self.forgotten.push(node);
        } else {
            self.forget_subscribed(now, sink, node);
        }
    }

    fn forget_subscribed(&mut self, now: u64, sink: &mut impl Sink, node: u8) {
        for (relay, epoch) in self.streams.subscribed() {
            if relay.partition.node() == node {
                self.forget_relay(now, sink, relay, epoch);
            }
        }
    }

    fn forget_relay(&mut self, now: u64, sink: &mut impl Sink, relay: RelayId, epoch: u32) {
        let message = ToGuild::Unsubscribe { relay, epoch };
        self.streams.handle(&message);
        self.lagging.remove(&relay);
        if !self.keeps_units {
            // The relay may begin again with the same epoch, and must not get what was meant for it before.
            self.units.iter_mut().for_each(|unit| unit.relay.retain(|output| output.relay != relay));
        }
        self.pass_to_guild(now, sink, &message);
    }

    fn pass_to_guild(&mut self, now: u64, sink: &mut impl Sink, message: &ToGuild) {
        if let State::Live(guild) = &mut self.state {
            let mut unit = Unit::default();
            guild.relay(self.guild_id, message, &mut unit);
            self.push(now, sink, unit);
        }
    }

    pub fn release(&mut self, now: u64, sink: &mut impl Sink) {
        self.abandon();
        self.forget_guild();
        self.streams = RelayStreams::default();
        for input in mem::take(&mut self.waiting) {
            if let Input::Command(origin, request) = input {
                self.outputs.push(HostOutput::Answer(origin, request, false));
            }
        }
        self.is_released = true;
        if !matches!(self.state, State::Loading) {
            self.state = State::Draining;
        }
        self.advance(now, sink);
    }

    fn advance(&mut self, now: u64, sink: &mut impl Sink) {
        self.try_freeze();
        loop {
            if matches!(self.state, State::Draining) && self.units.is_empty() && self.arrived.is_some() {
                self.take_over(now, sink);
            }
            if matches!(self.state, State::Draining) && self.units.is_empty() {
                if self.is_released && self.waiting.is_empty() {
                    self.state = State::Evictable;
                } else {
                    self.is_released = false;
                    self.restart(now, sink);
                }
            }
            let takes_inputs = match self.state {
                State::Live(_) => self.freeze == Freeze::None,
                State::Backoff(_) => self.retry_at.is_none(),
                State::Loading | State::Draining | State::Evictable => false,
            };
            if !takes_inputs {
                return;
            }
            let Some(input) = self.waiting.pop_front() else { return };
            if let Err(input) = self.handle(now, sink, input) {
                self.waiting.push_front(input);
                self.retry_at.get_or_insert(now + RELAY_RETRY_MS);
            }
        }
    }

    fn handle(&mut self, now: u64, sink: &mut impl Sink, input: Input) -> Result<(), Input> {
        let is_live = matches!(self.state, State::Live(_));
        match input {
            Input::Command(origin, request) => {
                let State::Live(guild) = &mut self.state else {
                    self.outputs.push(HostOutput::Answer(origin, request, false));
                    return Ok(());
                };
                let mut unit = Unit::default();
                guild.command(self.guild_id, request, &mut unit);
                unit.answers.push((origin, request));
                self.push(now, sink, unit);
            }
            Input::Relay(message) if is_live => {
                self.streams.handle(&message);
                self.pass_to_guild(now, sink, &message);
            }
            Input::Relay(message) => {
                self.streams.handle(&message);
                match message {
                    ToGuild::Attach { session, .. } => {
                        let unavailable = RelayMessage::Unavailable { session };
                        let output = self.streams.own_message(self.guild_id, session.relay, unavailable);
                        if let Some(output) = output {
                            if !self.deliver(sink, output) {
                                return Err(Input::Relay(message));
                            }
                            self.streams.lost(session.relay);
                        }
                    }
                    ToGuild::Resync { relay, .. } => self.streams.lost(relay),
                    _ => {}
                }
            }
            Input::Reset { relay, epoch } => {
                let current = self.streams.subscribed().into_iter().find(|(subscribed, _)| *subscribed == relay);
                if let Some((_, current)) = current {
                    self.forget_relay(now, sink, relay, current);
                }
                let message = ToGuild::Subscribe { relay, epoch };
                self.streams.handle(&message);
                self.streams.lost(relay);
                self.pass_to_guild(now, sink, &message);
            }
            Input::Release
            | Input::ForgetRelays(_)
            | Input::Freeze
            | Input::Stay
            | Input::GiveUp
            | Input::TakeOver { .. } => unreachable!("they do not wait"),
        }
        Ok(())
    }

    fn push(&mut self, now: u64, sink: &mut impl Sink, mut unit: Unit) {
        if unit.writes.is_empty() && unit.relay.is_empty() && unit.answers.is_empty() {
            return;
        }
        unit.is_uncommitted = !unit.writes.is_empty();
        if self.is_hasty {
            for output in mem::take(&mut unit.relay) {
                self.deliver(sink, output);
            }
        }
        self.units.push_back(unit);
        self.publish_ready(now, sink);
    }

    fn publish_ready(&mut self, now: u64, sink: &mut impl Sink) {
        while self.committing_count == 0 && self.units.front().is_some_and(|unit| !unit.is_uncommitted) {
            let Some(unit) = self.units.pop_front() else { return };
            let mut cut_off = BTreeSet::new();
            for output in unit.relay {
                let relay = output.relay;
                if !cut_off.contains(&relay) && !self.deliver(sink, output) {
                    cut_off.insert(relay);
                    self.relay_lost(now, relay);
                }
            }
            for (origin, request) in unit.answers {
                self.outputs.push(HostOutput::Answer(origin, request, true));
            }
        }
    }

    fn relay_lost(&mut self, now: u64, relay: RelayId) {
        self.streams.lost(relay);
        self.units.iter_mut().for_each(|unit| unit.relay.retain(|output| output.relay != relay));
        self.lagging.insert(relay);
        self.retry_at.get_or_insert(now + RELAY_RETRY_MS);
        if let State::Live(guild) = &mut self.state
            && let Some(subscriber) = guild.relays.get_mut(&relay)
        {
            subscriber.is_cut = true;
        }
    }

    /// False: the relay's queue is full.
    fn deliver(&mut self, sink: &mut impl Sink, output: RelayOutput) -> bool {
        let Some(message) = self.streams.number(output) else { return true };
        let (relay, is_snapshot) = (message.relay, matches!(message.message, RelayMessage::Snapshot { .. }));
        let is_delivered = sink.try_deliver(message).is_ok();
        if is_delivered {
            self.streams.delivered(relay, is_snapshot);
        }
        is_delivered
    }
}
