//! Guild host while its guild is loaded: inputs in, units out.

use super::{Context, Delivery, GuildHost, HostState, Parked, handoff::Handoff};
use crate::{
    jobs::GuildJobEnd,
    mailbox::{CommandRequest, CreateRequest, Input},
    pipeline::CommitUnit,
    request_trace::GuildSpan,
};
use guildhall_guild::{Actor, CachedMessage, Command, Guild, Outcome, Refusal, Reply};
use guildhall_guild_protocol::{RelayId, ToGuild};
use guildhall_model::{ChannelId, Id, MessageId, UserId};
use guildhall_store::StoreError;
use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};
use tracing::{error, warn};

/// Messages that one guild may have loaded at once; further commands wait for their turn.
const MESSAGE_LOADS_MAX: usize = 32;
/// A command needs its message and the message that it answers. More loads happen only if a loaded message is
/// evicted at once.
const LOADS_PER_COMMAND_MAX: u8 = 4;

impl GuildHost {
    pub(super) fn execute(&mut self, cx: &mut Context<'_>, input: Input) {
        match input {
            Input::Command(request) if cx.jobs.writes.refuses(&request.command) => {
                self.refuse(cx, request.answer, Refusal::Unavailable);
            }
            Input::Command(request) => self.command(cx, request),
            Input::Create(new, answer) => {
                let CreateRequest::Guild(new) = new else {
                    // The caller only inspects the state.
                    cx.done_inputs.push(self.guild_id);
                    let _ = answer.send(Ok(Reply::Done));
                    return;
                };
                // A repeated request, perhaps because the first answer was lost: the same owner gets the same answer.
                let now = cx.now;
                let read = self.run(cx, |guild| guild.handle_command(now, Actor::System, &Command::ReadGuild));
                let Some((Outcome::Reply(Ok(Reply::Guild(found))), mut unit)) = read else {
                    return self.refuse(cx, answer, Refusal::Unavailable);
                };
                let is_same = found.structure.guild.owner_id == new.owner.id;
                unit.answers.push((answer, if is_same { Ok(Reply::Done) } else { Err(Refusal::MissingAccess) }));
                self.push(cx, unit);
                cx.done_inputs.push(self.guild_id);
            }
            Input::Relay(message) => {
                self.streams.handle(&message);
                if let ToGuild::Subscribe { relay, .. } | ToGuild::Unsubscribe { relay, .. } = message {
                    self.canaries.begin(cx.limits.canaries, relay, cx.now.instant);
                }
                let now = cx.now;
                self.run_and_push(cx, |guild| guild.handle_relay(now, message));
                cx.done_inputs.push(self.guild_id);
            }
            Input::Reset { relay, epoch } => {
                let current = self.streams.subscribed().into_iter().find(|(subscribed, _)| *subscribed == relay);
                if let Some((_, current)) = current {
                    self.forget_relay(cx, relay, current);
                }
                let message = ToGuild::Subscribe { relay, epoch };
                self.streams.handle(&message);
                // Its sessions lost events, so the snapshot resets them.
                self.streams.lost(relay);
                let now = cx.now;
                self.run_and_push(cx, |guild| guild.handle_relay(now, message));
                cx.done_inputs.push(self.guild_id);
            }
            // The worker handles them.
            Input::Release | Input::Handoff(_) => {}
        }
    }

    /// Called by `Node::command` through the mailbox; continues with `Guild::handle_command`, then `publish_ready`.
    fn command(&mut self, cx: &mut Context<'_>, request: CommandRequest) {
        if request.answer.is_closed() {
            // The caller gave up in the meantime.
            cx.done_inputs.push(self.guild_id);
            return;
        }
        let now = cx.now;
        let span = request.trace.as_ref().map(|trace| trace.begin(self.guild_id, &request.command));
        let outcome = GuildSpan::logged(span.as_ref(), || {
            self.run(cx, |guild| guild.handle_command(now, request.actor, &request.command))
        });
        let is_refused = matches!(outcome, None | Some((Outcome::Reply(Err(_)), _)));
        let trace = span.map(|span| span.end(is_refused));
        match outcome {
            Some((Outcome::Reply(answer), mut unit)) => {
                unit.trace = trace;
                if let Ok(reply) = &answer {
                    unit.joined = joined_by(&request.command, reply);
                }
                unit.answers.push((request.answer, answer));
                self.push(cx, unit);
                cx.done_inputs.push(self.guild_id);
            }
            Some((Outcome::Later(command), unit)) => {
                // The request keeps its mailbox permit until it is answered.
                self.late.insert(command, request.answer);
                self.push(cx, unit);
            }
            Some((Outcome::NeedsMessage(channel_id, message_id), unit)) => {
                self.push(cx, unit);
                self.park(cx, request, channel_id, message_id);
            }
            None => self.refuse(cx, request.answer, Refusal::Unavailable),
        }
    }

    fn park(&mut self, cx: &mut Context<'_>, request: CommandRequest, channel_id: ChannelId, message_id: MessageId) {
        if request.loads_count >= LOADS_PER_COMMAND_MAX {
            self.run_and_push(cx, |guild| guild.handle_message_load_failed(channel_id, message_id));
            return self.refuse(cx, request.answer, Refusal::Unavailable);
        }
        self.wait_for_message(cx, Some(request), (channel_id, message_id));
    }

    fn wait_for_message(
        &mut self,
        cx: &mut Context<'_>,
        request: Option<CommandRequest>,
        (channel_id, message_id): (ChannelId, MessageId),
    ) {
        *cx.counter += 1;
        self.parked.insert(*cx.counter, Parked { request, channel_id, message_id, is_loading: false });
        self.load_messages(cx);
    }

    fn load_messages(&mut self, cx: &mut Context<'_>) {
        let free = MESSAGE_LOADS_MAX.saturating_sub(self.message_loads_count);
        for (number, parked) in self.parked.iter_mut().filter(|(_, parked)| !parked.is_loading).take(free) {
            parked.is_loading = true;
            self.message_loads_count += 1;
            cx.jobs.load_message(self.guild_id, *number, parked.channel_id, parked.message_id);
        }
    }

    pub(super) fn message_loaded(
        &mut self,
        cx: &mut Context<'_>,
        number: u64,
        result: Result<Option<CachedMessage>, StoreError>,
    ) {
        // Those of an earlier incarnation are not known any more: their commands run again on their own.
        let Some(Parked { request, channel_id, message_id, .. }) = self.parked.remove(&number) else { return };
        self.message_loads_count -= 1;
        match result {
            Ok(message) => {
                self.run_and_push(cx, |guild| guild.handle_message_loaded(channel_id, message_id, message));
                // It has waited already, so it goes before the other waiting inputs of its guild.
                if let Some(mut request) = request {
                    request.loads_count += 1;
                    self.waiting.push_front(Input::Command(request));
                }
            }
            Err(error) => {
                warn!(guild_id = %self.guild_id, error = super::chain(&error), "a message could not be loaded");
                self.run_and_push(cx, |guild| guild.handle_message_load_failed(channel_id, message_id));
                if let Some(request) = request {
                    self.refuse(cx, request.answer, Refusal::Unavailable);
                }
            }
        }
        self.load_messages(cx);
    }

    /// Runs the guild with its worker's id generator, and collects its outputs. None if it panicked or is not loaded.
    /// Guilds handle all inputs here.
    pub(super) fn run<R>(
        &mut self,
        cx: &mut Context<'_>,
        input: impl FnOnce(&mut Guild) -> R,
    ) -> Option<(R, CommitUnit)> {
        let HostState::Live(guild) = &mut self.state else { return None };
        guild.swap_ids(cx.ids);
        // After a panic nothing of the guild is used, except for lent resources, which are always consistent.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let outcome = input(guild);
            (outcome, collect(guild))
        }));
        guild.swap_ids(cx.ids);
        match outcome {
            Ok((outcome, mut unit)) => {
                self.begin_jobs(cx, &mut unit);
                Some((outcome, unit))
            }
            Err(panic) => {
                error!(guild_id = %self.guild_id, error = panic_text(&*panic), "guild panicked; reloading it");
                self.abandon_guild(cx);
                None
            }
        }
    }

    /// Starts the jobs of a guild at once, whether or not the same input's writes are durable. Late answers
    /// leave with the unit.
    fn begin_jobs(&mut self, cx: &mut Context<'_>, unit: &mut CommitUnit) {
        for job in unit.jobs.drain(..) {
            self.jobs_count += 1;
            cx.jobs.run(self.guild_id, self.incarnation, job);
        }
        for (command, answer) in unit.late.drain(..) {
            if let Some(sender) = self.late.remove(&command) {
                unit.answers.push((sender, answer));
                cx.done_inputs.push(self.guild_id);
            }
        }
    }

    /// A job that the guild put out ended; it may be one of an earlier incarnation.
    pub(super) fn job_ended(&mut self, cx: &mut Context<'_>, incarnation: u64, end: GuildJobEnd) {
        let Some((incarnation, end)) = self.hold_job(incarnation, end) else { return };
        self.jobs_count -= 1;
        if incarnation != self.incarnation {
            return;
        }
        let now = cx.now;
        self.run_and_push(cx, |guild| match end {
            GuildJobEnd::Done(done) => guild.handle_job_done(now, done),
            GuildJobEnd::Lost(id) => guild.handle_job_lost(now, id),
        });
    }

    pub(super) fn run_and_push(&mut self, cx: &mut Context<'_>, input: impl FnOnce(&mut Guild)) {
        if let Some(((), unit)) = self.run(cx, input) {
            self.push(cx, unit);
        }
    }

    pub(super) fn push(&mut self, cx: &mut Context<'_>, unit: CommitUnit) {
        if unit.is_empty() {
            return;
        }
        self.is_deleting |= unit.deletes_guild();
        self.pipeline.push(unit);
        self.publish_ready(cx);
    }

    /// Ends the stream of a full relay. It restarts with a snapshot when the relay has room.
    pub(super) fn relay_lost(&mut self, cx: &mut Context<'_>, relay: RelayId) {
        self.streams.lost(relay);
        self.pipeline.cut_off(relay);
        self.lags(cx, relay);
        // Only pushed: `publish_ready` is running.
        if let Some(((), unit)) = self.run(cx, |guild| guild.handle_relay_lost(relay))
            && !unit.is_empty()
        {
            self.pipeline.push(unit);
        }
    }

    /// A relay that was full may have room.
    pub(super) fn relay_retry(&mut self, cx: &mut Context<'_>, relay: RelayId) {
        match self.state {
            HostState::Live(_) => self.run_and_push(cx, |guild| guild.handle_relay_room(relay)),
            HostState::Absent => {
                if self.send_snapshot(cx, relay) == Delivery::Full {
                    self.lags(cx, relay);
                }
            }
            // The guild sends snapshots once it is loaded.
            HostState::Loading | HostState::AwaitingCommits | HostState::Backoff(_) | HostState::Evictable => {}
        }
    }

    pub(super) fn committed(&mut self, cx: &mut Context<'_>) {
        let version = self.pipeline.commit_done();
        self.publish_ready(cx);
        self.run_and_push(cx, |guild| guild.handle_committed(version));
    }

    pub(super) fn live_timer(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        let HostState::Live(guild) = &self.state else { return };
        let is_due = self.takes_timers() && guild.next_deadline().is_some_and(|at| at <= now.instant);
        self.timers_held_until = None;
        if is_due && cx.jobs.writes.are_stopped() {
            self.timers_held_until = Some(now.instant.after_ms(super::WRITES_ASKED_MS));
        } else if is_due {
            self.run_and_push(cx, |guild| guild.handle_timer(now));
            let wanted = if let HostState::Live(guild) = &mut self.state { guild.poll_load() } else { None };
            if let Some(wanted) = wanted {
                self.wait_for_message(cx, None, wanted);
            }
        }
        if now.instant.ms_since(self.used_at) >= cx.limits.guild_idle_ms && !self.is_handed_over() {
            // Checked again as late as possible.
            self.used_at = now.instant;
            let is_idle = matches!(&self.state, HostState::Live(guild) if guild.is_idle());
            if is_idle && self.is_quiet() {
                debug_assert!(self.streams.is_empty(), "an idle guild has no relays");
                self.abandon_guild(cx);
                self.state = HostState::Evictable;
            }
        }
    }

    /// Drops the guild from memory; another state, or a reload, follows.
    pub(super) fn abandon_guild(&mut self, cx: &mut Context<'_>) {
        if let HostState::Live(_) = self.state
            && let HostState::Live(guild) = mem::replace(&mut self.state, HostState::AwaitingCommits)
        {
            cx.jobs.dispose(guild);
            self.handoff = Handoff::None;
            self.incarnation += 1;
            // Commands that were not answered yet will not be.
            for (_, answer) in mem::take(&mut self.late) {
                let _ = answer.send(Err(Refusal::Unavailable));
                cx.done_inputs.push(self.guild_id);
            }
        }
    }

    /// The guild's deletion is durable and published.
    pub(super) fn deleted(&mut self, cx: &mut Context<'_>) {
        self.abandon_guild(cx);
        self.forget_guild();
        self.state = HostState::Absent;
        self.resync_broken(cx);
    }

    /// A guild is loaded: its relays that are subscribed already get snapshots.
    pub(super) fn begin(&mut self, cx: &mut Context<'_>, guild: Box<Guild>) {
        let now = cx.now;
        for used in [Some(guild.newest_id()), cx.jobs.ids.known_floor()].into_iter().flatten() {
            cx.ids.skip_past(Id::<()>::new(used));
        }
        self.state = HostState::Live(guild);
        self.live_since = now.instant;
        self.used_at = now.instant;
        for (relay, epoch) in self.streams.subscribed() {
            self.run_and_push(cx, |guild| guild.handle_relay(now, ToGuild::Subscribe { relay, epoch }));
        }
    }
}

/// Accounts that a command added to the guild, or may have added.
fn joined_by(command: &Command, reply: &Reply) -> Vec<UserId> {
    match (command, reply) {
        (Command::Backend(_), Reply::Imported(imported)) => imported.added.clone(),
        (Command::Backend(_), Reply::Created(reply)) => match &**reply {
            Reply::Member(member) => vec![member.user.id],
            _ => Vec::new(),
        },
        _ => command.joins().into_iter().collect(),
    }
}

/// Collects the outputs of a guild.
pub(super) fn collect(guild: &mut Guild) -> CommitUnit {
    let mut unit = CommitUnit::default();
    while let Some(output) = guild.poll_output() {
        unit.add(output);
    }
    unit.version = guild.version();
    unit
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}
