//! Guild host while its guild is not loaded: loads it with back-off, and answers relays and commands in the meantime.

use super::{Context, Delivery, GuildHost, HostState, live::collect};
use crate::{
    jobs::{LoadError, Loaded},
    mailbox::{Answer, CreateRequest, Input},
};
use guildhall_guild::{Refusal, Reply};
use guildhall_guild_protocol::{GuildReplica, GuildStructure, RelayId, RelayMessage, ToGuild};
use guildhall_model::UserId;
use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};
use tokio::sync::oneshot;
use tracing::error;

/// Between failures of one guild: the first is repaired at once, the second after `BACKOFF_MIN_MS`, and then twice as
/// long each time. The longest, with the time to load, is within the five seconds that docs/cluster.md promises after
/// a store's return.
const BACKOFF_MIN_MS: u64 = 100;
const BACKOFF_MAX_MS: u64 = 3_000;
/// Failures of a guild are forgotten after this time without another one.
const FAILURES_FORGOTTEN_MS: u64 = 60_000;

impl GuildHost {
    pub(super) fn load(&mut self, cx: &mut Context<'_>) {
        // The release in the mailbox ends this host; a load would claim the guild from its new owner.
        if cx.relays.is_releasing(self.guild_id) {
            return self.down(cx);
        }
        self.state = HostState::Loading;
        self.is_loading = true;
        cx.loads.push_back(self.guild_id);
    }

    /// The store has decided a commit that was reported as failed. Lists of guilds that were read before may be out of
    /// date.
    pub(super) fn settle_doubt(&mut self, cx: &Context<'_>) {
        if mem::take(&mut self.is_in_doubt) {
            cx.directory.forget_guilds_of_users();
        }
    }

    pub(super) fn loaded(&mut self, cx: &mut Context<'_>, result: Result<Loaded, LoadError>) {
        self.is_loading = false;
        if let Some(taken) = self.taken.take() {
            return self.install(cx, taken);
        }
        if let Ok(Loaded { epoch, .. }) = &result {
            self.epoch = Some(*epoch);
            self.settle_doubt(cx);
        }
        let was_released = mem::take(&mut self.is_released);
        match result {
            // It was released while it was loaded; with inputs, this node has it again.
            _ if was_released && self.waiting.is_empty() => self.state = HostState::Evictable,
            // Another node may have changed the guild since the load.
            Ok(_) if was_released => self.load(cx),
            Ok(Loaded { guild: Some(guild), .. }) => self.begin(cx, guild),
            Ok(Loaded { guild: None, .. }) => {
                self.state = HostState::Absent;
                self.resync_broken(cx);
            }
            Err(error) => {
                // Once per outage, not once per try.
                if self.failures_count < 2 {
                    error!(guild_id = %self.guild_id, error = super::chain(&error), "a guild could not be loaded");
                }
                self.failures_count = self.failures_count.max(1) + 1;
                self.down(cx);
            }
        }
    }

    /// State in memory is lost: reloads the guild, and notifies its relays.
    pub(super) fn restart(&mut self, cx: &mut Context<'_>) {
        self.streams.lost_everywhere();
        self.forget_guild();
        if cx.now.instant.ms_since(self.live_since) >= FAILURES_FORGOTTEN_MS {
            self.failures_count = 0;
        }
        self.failures_count += 1;
        if self.failures_count == 1 && !cx.closing { self.load(cx) } else { self.down(cx) }
    }

    fn down(&mut self, cx: &Context<'_>) {
        let doublings = self.failures_count.saturating_sub(2).min(16);
        self.state = HostState::Backoff(cx.now.instant.after_ms((BACKOFF_MIN_MS << doublings).min(BACKOFF_MAX_MS)));
    }

    /// Commands that waited for messages of the guild that was in memory run again with the next.
    pub(super) fn forget_guild(&mut self) {
        self.lagging.clear();
        self.retry_at = None;
        self.is_deleting = false;
        self.message_loads_count = 0;
        for request in mem::take(&mut self.parked).into_values().rev().filter_map(|parked| parked.request) {
            self.waiting.push_front(Input::Command(request));
        }
    }

    /// Answers for a guild that does not exist. Returns the input if a relay is full.
    pub(super) fn handle_absent(&mut self, cx: &mut Context<'_>, input: Input) -> Result<(), Input> {
        let is_absent = matches!(self.state, HostState::Absent);
        let refusal = if is_absent { Refusal::UnknownGuild } else { Refusal::Unavailable };
        match input {
            Input::Command(request) => self.refuse(cx, request.answer, refusal),
            Input::Create(_, answer) if is_absent && cx.jobs.writes.are_stopped() => {
                self.refuse(cx, answer, Refusal::Unavailable);
            }
            Input::Create(new, answer) if is_absent => self.create(cx, new, answer),
            Input::Create(_, answer) => self.refuse(cx, answer, refusal),
            Input::Relay(message) => {
                self.streams.handle(&message);
                if let ToGuild::Subscribe { relay, .. } | ToGuild::Unsubscribe { relay, .. } = message {
                    self.canaries.begin(cx.limits.canaries, relay, cx.now.instant);
                }
                if self.answer_relay(cx, &message, is_absent) == Delivery::Full && !cx.closing {
                    return Err(Input::Relay(message));
                }
                cx.done_inputs.push(self.guild_id);
            }
            Input::Reset { relay, epoch } => {
                let current = self.streams.subscribed().into_iter().find(|(subscribed, _)| *subscribed == relay);
                if let Some((_, current)) = current {
                    self.streams.handle(&ToGuild::Unsubscribe { relay, epoch: current });
                }
                self.streams.handle(&ToGuild::Subscribe { relay, epoch });
                self.streams.lost(relay);
                if is_absent && self.send_snapshot(cx, relay) == Delivery::Full && !cx.closing {
                    return Err(Input::Reset { relay, epoch });
                }
                cx.done_inputs.push(self.guild_id);
            }
            // The worker handles them.
            Input::Release | Input::Handoff(_) => {}
        }
        Ok(())
    }

    fn answer_relay(&mut self, cx: &mut Context<'_>, message: &ToGuild, is_absent: bool) -> Delivery {
        match *message {
            ToGuild::Attach { session, .. } if is_absent => {
                // A relay accepts `Attached` only after its first snapshot.
                if self.streams.is_new(session.relay) && self.send_snapshot(cx, session.relay) == Delivery::Full {
                    return Delivery::Full;
                }
                self.deliver_own(cx, session.relay, RelayMessage::Attached { session, view: None })
            }
            ToGuild::Attach { session, .. } => {
                let delivery = self.deliver_own(cx, session.relay, RelayMessage::Unavailable { session });
                if delivery == Delivery::Done {
                    // The relay does not attach again by itself. The snapshot that follows makes it do so.
                    self.streams.lost(session.relay);
                }
                delivery
            }
            ToGuild::Resync { relay, .. } => {
                self.streams.lost(relay);
                if is_absent { self.send_snapshot(cx, relay) } else { Delivery::Done }
            }
            ToGuild::Subscribe { .. }
            | ToGuild::Unsubscribe { .. }
            | ToGuild::Detach { .. }
            | ToGuild::Presence { .. }
            | ToGuild::Voice { .. }
            | ToGuild::RequestMembers { .. }
            | ToGuild::RecentMembers { .. }
            | ToGuild::ListThread { .. }
            | ToGuild::CountMembers { .. }
            | ToGuild::WantPresences { .. }
            | ToGuild::WatchMembers { .. }
            | ToGuild::WatchList { .. }
            | ToGuild::RequestPresences { .. }
            | ToGuild::CanaryReturned { .. } => Delivery::Done,
        }
    }

    /// Sends a snapshot of a guild that does not exist and has no members. If something was lost on the stream, it
    /// resets remaining sessions.
    pub(super) fn send_snapshot(&mut self, cx: &mut Context<'_>, relay: RelayId) -> Delivery {
        let guild = guildhall_model::Guild::new(self.guild_id, "", UserId::new(0));
        let structure = GuildStructure { guild: Arc::new(guild), roles: Arc::default(), channels: Arc::default() };
        self.deliver_own(
            cx,
            relay,
            RelayMessage::Snapshot { replica: GuildReplica::new(Arc::new(structure)), reset: false },
        )
    }

    pub(super) fn resync_broken(&mut self, cx: &mut Context<'_>) {
        for relay in self.streams.broken() {
            if self.send_snapshot(cx, relay) == Delivery::Full {
                self.lags(cx, relay);
            }
        }
    }

    fn deliver_own(&mut self, cx: &mut Context<'_>, relay: RelayId, message: RelayMessage) -> Delivery {
        match self.streams.own_message(self.guild_id, relay, message) {
            Some(output) => self.deliver(cx, output, None),
            None => Delivery::Done,
        }
    }

    /// Called by `Node::create_guild` and similar; continues with `Guild::create`, then `publish_ready`.
    fn create(&mut self, cx: &mut Context<'_>, new: CreateRequest, answer: oneshot::Sender<Answer>) {
        let (now, jobs) = (cx.now, cx.jobs);
        let owner_id = match &new {
            CreateRequest::Guild(new) => Some(new.owner.id),
            CreateRequest::Direct(_) => None,
        };
        let made = catch_unwind(AssertUnwindSafe(|| {
            let mut guild = jobs.new_guild(now, new);
            let unit = collect(&mut guild);
            (Box::new(guild), unit)
        }));
        let Ok((guild, mut unit)) = made else {
            error!(guild_id = %self.guild_id, "making a guild panicked");
            return self.refuse(cx, answer, Refusal::Unavailable);
        };
        unit.answers.push((answer, Ok(Reply::Done)));
        unit.joined.extend(owner_id);
        // Its writes precede those of later inputs.
        self.pipeline.push(unit);
        self.begin(cx, guild);
        cx.done_inputs.push(self.guild_id);
    }
}
