//! Guild host: runs one guild on its worker, and answers for it while it is not loaded.
//!
//! Owns        the guild while it is loaded, its commit pipeline, its relays' streams, and inputs that wait.
//! Doors       `handle_input`, `handle_report`, `handle_timer`; then `begin_commit`; `deadline` is the time of
//!             the next timer.
//! Invariants  S1 inputs reach the guild in the order of arrival, except commands that wait for a message. S2 nothing
//!             leaves before it is durable (`Pipeline`). S3 after a failed commit or a panic the guild is reloaded
//!             before it handles anything, and its relays get a snapshot with `reset`. S4 a command is answered once,
//!             or its sender is dropped. S5 while an input or a subscribed relay waits for a guild that is not loaded,
//!             loading is retried with back-off. Relays that received `Unavailable` then get a snapshot with `reset`,
//!             after which their sessions attach again. (tests `it/`)
//! Limits      waiting inputs and commands with a late answer: the mailbox's permits. Units: the pipeline's limit.
//!             `MESSAGE_LOADS_MAX`.
//! Not here    threads and timers (`worker`), the store (`jobs`), the guild itself (`guildhall-guild`).

mod absent;
mod handoff;
mod live;
#[cfg(test)]
mod tests;

pub(crate) use handoff::{Frozen, HandoffStep, TakenOver};

use crate::{
    RelaySink,
    canaries::{Canaries, CanaryCounters},
    directory::Directory,
    guild_account::GuildTally,
    jobs::{JobEnd, Jobs},
    limits::NodeLimits,
    mailbox::{Answer, CommandRequest, Input},
    pipeline::Pipeline,
    request_trace::Publishing,
};
use guildhall_guild::{Guild, JobId, Refusal};
use guildhall_guild_protocol::{RelayId, RelayMessage, RelayOutput, RelayStreams, ToGuild};
use guildhall_model::{ChannelId, GuildId, MessageId, SnowflakeGenerator};
use guildhall_stdx::{Instant, Now};
use guildhall_store::{GuildEpoch, StoreError};
use handoff::Handoff;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    error::Error,
    mem,
    sync::Arc,
};
use tokio::sync::oneshot;
use tracing::{error, warn};

/// How soon a relay that was full is tried again: a partition empties its mailbox within milliseconds.
const RELAY_RETRY_MS: u64 = 20;

/// Interval at which a guild whose timers wait for the disk checks whether writes are accepted again.
const WRITES_ASKED_MS: u64 = 500;

/// Resources of the worker, lent to a guild host for one input.
pub(crate) struct Context<'a> {
    pub(crate) now: Now,
    pub(crate) jobs: &'a Jobs,
    pub(crate) relays: &'a dyn RelaySink,
    pub(crate) directory: &'a Directory,
    pub(crate) limits: &'a NodeLimits,
    /// One entry per input that is done with.
    pub(crate) done_inputs: &'a mut Vec<GuildId>,
    /// Guilds to be loaded.
    pub(crate) loads: &'a mut VecDeque<GuildId>,
    /// Source of numbers that are never used again.
    pub(crate) counter: &'a mut u64,
    /// Id generator of the worker's guilds.
    pub(crate) ids: &'a mut SnowflakeGenerator,
    /// The node is shutting down: nothing is tried again.
    pub(crate) closing: bool,
    pub(crate) canaries: &'a Arc<CanaryCounters>,
}

enum HostState {
    /// A load from the store is pending or about to start.
    Loading,
    Live(Box<Guild>),
    /// The guild failed or was released. It is reloaded, or its host removed, when its earlier commit
    /// units are durable.
    AwaitingCommits,
    /// There is no such guild.
    Absent,
    /// The load failed; the next try is at this time.
    Backoff(Instant),
    /// Without guild, relays or inputs: the worker removes the host.
    Evictable,
}

/// A command, or a timer of the guild, that waits for a message.
struct Parked {
    /// None: the timer.
    request: Option<CommandRequest>,
    channel_id: ChannelId,
    message_id: MessageId,
    is_loading: bool,
}

pub(crate) struct GuildHost {
    guild_id: GuildId,
    state: HostState,
    streams: RelayStreams,
    pipeline: Pipeline,
    /// Each holds a permit of the mailbox.
    waiting: VecDeque<Input>,
    /// By number of the load. Each command holds a permit of the mailbox; a guild has one timer that waits.
    parked: BTreeMap<u64, Parked>,
    message_loads_count: usize,
    /// Commands that the guild answers later. Each holds a permit of the mailbox.
    late: BTreeMap<JobId, oneshot::Sender<Answer>>,
    /// Jobs of the guild, and of incarnations before it, that have not ended.
    jobs_count: usize,
    /// Number of the loaded guild: results for an earlier one are ignored.
    incarnation: u64,
    /// Relays with a cut stream: their queue was full.
    lagging: BTreeSet<RelayId>,
    /// When to try them again, and (with no guild) the first of `waiting`.
    retry_at: Option<Instant>,
    /// The guild's deletion is being committed. No input is handled until then.
    is_deleting: bool,
    used_at: Instant,
    live_since: Instant,
    /// The guild's own timers wait until then: writes are stopped.
    timers_held_until: Option<Instant>,
    failures_count: u32,
    /// A commit failed that the store may have taken, or may still take.
    is_in_doubt: bool,
    /// With which the guild commits; none before the first load.
    epoch: Option<GuildEpoch>,
    /// Another node serves the guild from now on: it is not loaded again unless an input comes.
    is_released: bool,
    handoff: Handoff,
    /// A guild that arrived while a load, or commits of an earlier owner, were under way here.
    taken: Option<TakenOver>,
    /// A load of the guild runs.
    is_loading: bool,
    /// When the worker will call `handle_timer`.
    pub(crate) armed_at: Option<Instant>,
    /// The worker visits this host before it sleeps.
    pub(crate) is_touched: bool,
    /// Its cost, since the host was made.
    pub(crate) tally: GuildTally,
    canaries: Canaries,
}

/// Result of sending a message to a relay.
#[derive(PartialEq, Eq)]
enum Delivery {
    /// The relay accepted the message, or is not subscribed.
    Done,
    Full,
}

impl GuildHost {
    /// A host whose guild has to be loaded.
    pub(crate) fn new(cx: &mut Context<'_>, guild_id: GuildId) -> Self {
        cx.loads.push_back(guild_id);
        Self { is_loading: true, ..Self::arriving(cx, guild_id) }
    }

    /// A host whose guild arrives from another node.
    pub(crate) fn arriving(cx: &mut Context<'_>, guild_id: GuildId) -> Self {
        Self {
            guild_id,
            state: HostState::Loading,
            streams: RelayStreams::default(),
            pipeline: Pipeline::default(),
            waiting: VecDeque::new(),
            parked: BTreeMap::new(),
            message_loads_count: 0,
            late: BTreeMap::new(),
            jobs_count: 0,
            incarnation: 0,
            lagging: BTreeSet::new(),
            retry_at: None,
            is_deleting: false,
            used_at: cx.now.instant,
            live_since: cx.now.instant,
            timers_held_until: None,
            failures_count: 0,
            is_in_doubt: false,
            epoch: None,
            is_released: false,
            handoff: Handoff::None,
            taken: None,
            is_loading: false,
            armed_at: None,
            is_touched: false,
            tally: GuildTally::default(),
            canaries: Canaries::new(guild_id, cx.canaries.clone()),
        }
    }

    /// Handles the guild's next input.
    pub(crate) fn handle_input(&mut self, cx: &mut Context<'_>, input: Input) {
        if let Input::Relay(ToGuild::CanaryReturned { relay, number }) = input {
            // The guild may be busy or away: the relay delivers in any case.
            self.canaries.returned(relay, number);
            cx.done_inputs.push(self.guild_id);
            return;
        }
        self.used_at = cx.now.instant;
        self.waiting.push_back(input);
        if matches!(self.state, HostState::Evictable) {
            // This node is the owner again, in the turn at whose end the worker would have removed the host.
            self.is_released = false;
            self.load(cx);
        }
        self.advance(cx);
    }

    /// A job of this guild ended.
    pub(crate) fn handle_report(&mut self, cx: &mut Context<'_>, end: JobEnd) {
        match end {
            JobEnd::Committed(Ok(())) => self.committed(cx),
            JobEnd::Committed(Err(StoreError::Fenced)) => {
                warn!(guild_id = %self.guild_id, "another node has claimed the guild: it is released");
                self.pipeline.fail();
                self.release(cx);
                cx.relays.fenced(self.guild_id);
            }
            JobEnd::Committed(Err(error)) => {
                error!(guild_id = %self.guild_id, error = chain(&error), "commit failed; reloading the guild");
                // Until the guild is loaded, and after that, the store may have its members or not.
                self.is_in_doubt = true;
                cx.directory.forget_guilds_of_users();
                self.pipeline.fail();
                if error.is_full() {
                    // The guild can be read, so it is loaded without back-off.
                    self.failures_count = 0;
                }
                self.abandon_guild(cx);
            }
            JobEnd::Loaded(result) => self.loaded(cx, result),
            JobEnd::MessageLoaded(number, result) => self.message_loaded(cx, number, result),
            JobEnd::Guild(incarnation, end) => self.job_ended(cx, incarnation, end),
        }
        self.advance(cx);
    }

    /// The deadline passed; harmless at other times.
    pub(crate) fn handle_timer(&mut self, cx: &mut Context<'_>) {
        let now = cx.now.instant;
        if self.is_frozen() {
            return;
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            for relay in mem::take(&mut self.lagging) {
                self.relay_retry(cx, relay);
            }
            self.publish_ready(cx);
        }
        self.send_canaries(cx);
        match self.state {
            HostState::Live(_) => self.live_timer(cx),
            HostState::Backoff(until) if until <= now => {
                if self.streams.is_empty() && self.waiting.is_empty() {
                    self.settle_doubt(cx);
                    self.state = HostState::Evictable;
                } else {
                    self.load(cx);
                }
            }
            _ => {}
        }
        self.advance(cx);
    }

    /// When `handle_timer` has something to do.
    pub(crate) fn deadline(&self, limits: &NodeLimits) -> Option<Instant> {
        if self.is_frozen() {
            return None;
        }
        let state_deadline = match &self.state {
            HostState::Live(guild) => {
                let timer = guild.next_deadline().filter(|_| self.takes_timers());
                let timer = timer.map(|at| self.timers_held_until.map_or(at, |until| at.max(until)));
                let idle = self.used_at.after_ms(limits.guild_idle_ms);
                Some(timer.map_or(idle, |timer| timer.min(idle)))
            }
            HostState::Backoff(until) => Some(*until),
            HostState::Loading | HostState::AwaitingCommits | HostState::Absent | HostState::Evictable => None,
        };
        [state_deadline, self.retry_at, self.canaries.next_at()].into_iter().flatten().min()
    }

    /// Passes pending writes to the store, unless a commit of this guild is running.
    pub(crate) fn begin_commit(&mut self, cx: &mut Context<'_>) {
        let Some(epoch) = self.epoch else { return };
        if let Some(writes) = self.pipeline.begin_commit() {
            cx.jobs.commit(self.guild_id, epoch, writes);
        }
    }

    /// The guild, if it is loaded.
    pub(crate) fn guild(&self) -> Option<&Guild> {
        match &self.state {
            HostState::Live(guild) => Some(guild),
            _ => None,
        }
    }

    /// Whether the worker can remove the host.
    pub(crate) fn is_evictable(&self) -> bool {
        match self.state {
            HostState::Evictable => true,
            HostState::Absent => self.is_quiet() && self.streams.is_empty(),
            _ => false,
        }
    }

    /// Whether it is a direct message without waiting inputs: unloading it only costs the time to load it again.
    pub(crate) fn is_idle_direct(&self) -> bool {
        !self.is_handed_over()
            && matches!(&self.state, HostState::Live(guild) if guild.is_direct() && guild.is_idle())
            && self.is_quiet()
    }

    /// Unloads the guild before its idle time is over.
    pub(crate) fn unload(&mut self, cx: &mut Context<'_>) {
        self.abandon_guild(cx);
        self.state = HostState::Evictable;
    }

    /// Whether the guild is in memory and relays are subscribed.
    pub(crate) fn has_relays(&self) -> bool {
        self.guild().is_some() && !self.streams.is_empty()
    }

    /// Whether relays of a node are subscribed, or have inputs that wait.
    pub(crate) fn has_node_relays(&self, node: u8) -> bool {
        let is_subscribed = self.streams.subscribed().iter().any(|(relay, _)| relay.partition.node() == node);
        is_subscribed || self.waiting.iter().any(|input| is_of_node(input, node))
    }

    /// The relays of a node are gone, with their sessions.
    pub(crate) fn forget_relays(&mut self, cx: &mut Context<'_>, node: u8) {
        let before = self.waiting.len();
        self.waiting.retain(|input| !is_of_node(input, node));
        cx.done_inputs.extend(std::iter::repeat_n(self.guild_id, before - self.waiting.len()));
        if !self.hold_forgotten(node) {
            self.forget_subscribed(cx, node);
        }
    }

    /// Ends the subscriptions of a node's relays. Inputs that wait are of later ones.
    fn forget_subscribed(&mut self, cx: &mut Context<'_>, node: u8) {
        for (relay, epoch) in self.streams.subscribed() {
            if relay.partition.node() == node {
                self.forget_relay(cx, relay, epoch);
            }
        }
    }

    /// Ends a relay's subscription on its behalf.
    fn forget_relay(&mut self, cx: &mut Context<'_>, relay: RelayId, epoch: u32) {
        let message = ToGuild::Unsubscribe { relay, epoch };
        self.streams.handle(&message);
        self.lagging.remove(&relay);
        // It may subscribe again with the same epoch, and must not get what was meant for it before.
        self.pipeline.cut_off(relay);
        let now = cx.now;
        self.run_and_push(cx, |guild| guild.handle_relay(now, message));
    }

    /// Another node serves the guild: drops it from memory. Events of the commit under way are still published.
    /// Waiting inputs are refused. Relays of this node subscribe at the other node.
    pub(crate) fn release(&mut self, cx: &mut Context<'_>) {
        self.abandon_guild(cx);
        self.forget_guild();
        self.streams = RelayStreams::default();
        for input in mem::take(&mut self.waiting) {
            match input {
                Input::Command(CommandRequest { answer, .. }) | Input::Create(_, answer) => {
                    self.refuse(cx, answer, Refusal::Unavailable);
                }
                Input::Relay(_) | Input::Reset { .. } => cx.done_inputs.push(self.guild_id),
                Input::Release | Input::Handoff(_) => {}
            }
        }
        self.is_released = true;
        match self.state {
            HostState::Loading | HostState::AwaitingCommits => {}
            HostState::Live(_) | HostState::Absent | HostState::Backoff(_) | HostState::Evictable => {
                self.state = HostState::AwaitingCommits;
            }
        }
        self.advance(cx);
    }

    /// Whether no work is in progress and nothing waits.
    pub(crate) fn is_quiet(&self) -> bool {
        !matches!(self.state, HostState::Loading | HostState::AwaitingCommits)
            && self.pipeline.is_empty()
            && self.waiting.is_empty()
            && self.parked.is_empty()
            && self.late.is_empty()
            && self.jobs_count == 0
    }

    fn takes_inputs(&self) -> bool {
        match self.state {
            HostState::Live(_) => self.takes_timers() && !self.is_freezing(),
            HostState::Absent | HostState::Backoff(_) => self.retry_at.is_none(),
            HostState::Loading | HostState::AwaitingCommits | HostState::Evictable => false,
        }
    }

    /// Whether the guild's own timers run, also while it is about to stop.
    fn takes_timers(&self) -> bool {
        !self.is_deleting && !self.pipeline.is_full() && !self.is_frozen()
    }

    /// Handles waiting inputs until the guild cannot take the next one.
    fn advance(&mut self, cx: &mut Context<'_>) {
        self.try_freeze(cx);
        loop {
            if matches!(self.state, HostState::AwaitingCommits) && self.pipeline.is_empty() {
                if let Some(taken) = self.taken.take() {
                    return self.install(cx, taken);
                }
                if self.is_released && self.waiting.is_empty() {
                    self.state = HostState::Evictable;
                } else {
                    self.is_released = false;
                    self.restart(cx);
                }
            }
            if !self.takes_inputs() {
                return;
            }
            let Some(input) = self.waiting.pop_front() else { return };
            if matches!(self.state, HostState::Live(_)) {
                self.execute(cx, input);
            } else if let Err(input) = self.handle_absent(cx, input) {
                self.waiting.push_front(input);
                self.retry_soon(cx);
            }
        }
    }

    /// Publishes commit units that are durable, in order.
    fn publish_ready(&mut self, cx: &mut Context<'_>) {
        loop {
            if self.pipeline.publishes_to_users_next() && !cx.closing && !cx.relays.may_publish_to_users() {
                // The message must not be lost or overtaken: it waits, and the unit's answers with it.
                return self.retry_soon(cx);
            }
            let Some(unit) = self.pipeline.pop_ready() else { return };
            let deletes_guild = unit.deletes_guild();
            self.tally.published(&unit);
            unit.changes.iter().for_each(|change| cx.directory.apply(*change));
            cx.relays.changed(&unit.changes);
            let mut cut_off = BTreeSet::new();
            let publishes = !unit.relay.is_empty() || !unit.users.is_empty();
            let publishing = unit.trace.as_ref().filter(|_| publishes);
            let publishing = publishing.map(|trace| trace.publish(&unit.relay, unit.users.len()));
            for output in unit.relay {
                let relay = output.relay;
                // What follows a lost message must not arrive without it.
                if !cut_off.contains(&relay) && self.deliver(cx, output, publishing.as_ref()) == Delivery::Full {
                    cut_off.insert(relay);
                    self.relay_lost(cx, relay);
                }
            }
            for published in &unit.users {
                cx.relays.publish_to_users(published, publishing.as_ref().map(|publishing| publishing.handle()));
            }
            for user_id in unit.joined {
                cx.relays.announce_joined(user_id, self.guild_id);
            }
            publishing.into_iter().for_each(Publishing::end);
            for (sender, answer) in unit.answers {
                // The caller may have stopped waiting.
                let _ = sender.send(answer);
            }
            if deletes_guild {
                self.deleted(cx);
            }
        }
    }

    fn deliver(&mut self, cx: &mut Context<'_>, output: RelayOutput, publishing: Option<&Publishing>) -> Delivery {
        let Some(message) = self.streams.number(output) else { return Delivery::Done };
        let (relay, is_snapshot) = (message.relay, matches!(message.message, RelayMessage::Snapshot { .. }));
        let delivered = match publishing {
            None => cx.relays.try_deliver(relay.partition, message),
            Some(publishing) => cx.relays.try_deliver_traced(relay.partition, message, publishing.handle()),
        };
        match delivered {
            Ok(()) => {
                self.streams.delivered(relay, is_snapshot);
                Delivery::Done
            }
            Err(_) => Delivery::Full,
        }
    }

    /// Sends each relay its canary, if it is time. A relay that is full does not get it, which counts like one that it
    /// does not return.
    fn send_canaries(&mut self, cx: &mut Context<'_>) {
        if self.canaries.next_at().is_none_or(|at| at > cx.now.instant) {
            return;
        }
        let subscribed: Vec<RelayId> = self.streams.subscribed().into_iter().map(|(relay, _)| relay).collect();
        let members_count = self.guild().map_or(0, |guild| guild.members_count() as u64);
        let canary = self.canaries.take_round(cx.limits.canaries, cx.now.instant, members_count, &subscribed);
        let Some(canary) = canary else { return };
        let broken = self.streams.broken();
        for relay in subscribed.into_iter().filter(|relay| !broken.contains(relay)) {
            if let Some(output) = self.streams.own_message(self.guild_id, relay, RelayMessage::Canary(canary)) {
                let _ = self.deliver(cx, output, None);
            }
        }
    }

    /// This relay is tried again after a moment.
    fn lags(&mut self, cx: &mut Context<'_>, relay: RelayId) {
        self.lagging.insert(relay);
        self.retry_soon(cx);
    }

    fn retry_soon(&mut self, cx: &mut Context<'_>) {
        self.retry_at.get_or_insert(cx.now.instant.after_ms(RELAY_RETRY_MS));
    }

    /// The input of this answer is done with.
    fn refuse(&mut self, cx: &mut Context<'_>, answer: oneshot::Sender<Answer>, refusal: Refusal) {
        // The caller may have stopped waiting.
        let _ = answer.send(Err(refusal));
        cx.done_inputs.push(self.guild_id);
    }
}

/// Whether an input came from a relay of this node.
fn is_of_node(input: &Input, node: u8) -> bool {
    match input {
        Input::Relay(message) => message.relay().partition.node() == node,
        Input::Reset { relay, .. } => relay.partition.node() == node,
        Input::Command(_) | Input::Create(..) | Input::Release | Input::Handoff(_) => false,
    }
}

/// An error with everything that led to it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
