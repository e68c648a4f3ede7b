//! Guild host while its guild is handed over to another node, and at the arrival of one.
//!
//! Invariants  F1 from the moment the tail is taken the guild emits nothing: no timer, job, canary or retry runs until
//!             it stays or is given up. F2 what a guild has not handled goes with it, in order. (tests `f*_*`)
//! Limits      a freeze ends when its receiver is dropped: the driver has the time-out.
//! Not here    the way to the other node, and the owner record (`cluster::handoff`).

use super::{Context, GuildHost, HostState};
use crate::{jobs::GuildJobEnd, mailbox::Input, relay_sink::Unhandled};
use guildhall_guild::{Guild, HandoffBase, HandoffItem, HandoffPlace, HandoffTail};
use guildhall_guild_protocol::RelayStreams;
use guildhall_model::Id;
use guildhall_store::GuildEpoch;
use std::mem;
use tokio::sync::oneshot;

/// Changes, then a slice of sessions, and where the next slice begins.
pub(crate) type Slice = (Vec<HandoffItem>, HandoffPlace);

/// A step of a hand-off. A sender is dropped if the guild is not loaded here, or the hand-off has failed.
pub(crate) enum HandoffStep {
    Begin(oneshot::Sender<HandoffBase>),
    Sessions(HandoffPlace, usize, oneshot::Sender<Slice>),
    Changes(oneshot::Sender<Vec<HandoffItem>>),
    /// The guild stops as soon as nothing is under way.
    Freeze(oneshot::Sender<Frozen>),
    /// The guild stays here.
    Stay,
    /// The guild is another node's: `RelaySink::gave_up` gets the inputs that it has not handled.
    GiveUp,
    /// Another node's guild is this one's.
    TakeOver(Box<TakenOver>),
    /// Sessions of the process before will not attach any more.
    EndRestore,
}

/// A guild that has stopped.
pub(crate) struct Frozen {
    pub(crate) items: Vec<HandoffItem>,
    pub(crate) tail: HandoffTail,
    pub(crate) streams: RelayStreams,
}

/// A guild that arrives.
pub(crate) struct TakenOver {
    pub(crate) guild: Box<Guild>,
    pub(crate) streams: RelayStreams,
    pub(crate) epoch: GuildEpoch,
    /// Nodes whose relays are gone.
    pub(crate) forget: Vec<u8>,
}

/// Where the hand-off of a guild is.
#[derive(Default)]
pub(super) enum Handoff {
    #[default]
    None,
    Moving,
    /// No input is handled. The tail is taken when nothing is under way.
    Freezing(oneshot::Sender<Frozen>),
    /// With what has happened since.
    Frozen(DeferredInputs),
}

#[derive(Default)]
pub(super) struct DeferredInputs {
    jobs: Vec<(u64, GuildJobEnd)>,
    forgotten: Vec<u8>,
}

impl GuildHost {
    pub(crate) fn handle_handoff(&mut self, cx: &mut Context<'_>, step: HandoffStep) {
        match step {
            HandoffStep::Begin(sender) => self.begin_handoff(sender),
            HandoffStep::Sessions(place, max, sender) => {
                let slice = self.moving().and_then(|guild| {
                    let mut items = guild.take_handoff()?;
                    let (sessions, next) = guild.handoff_sessions(place, max);
                    items.extend(sessions);
                    Some((items, next))
                });
                self.answer_step(sender, slice);
            }
            HandoffStep::Changes(sender) => {
                let changes = self.moving().and_then(Guild::take_handoff);
                self.answer_step(sender, changes);
            }
            HandoffStep::Freeze(sender) => {
                if self.moving().is_some() && matches!(self.handoff, Handoff::Moving) {
                    self.handoff = Handoff::Freezing(sender);
                }
            }
            HandoffStep::Stay => self.stay(cx),
            HandoffStep::GiveUp => return self.give_up(cx),
            HandoffStep::TakeOver(taken) => return self.take_over(cx, *taken),
            HandoffStep::EndRestore => {
                let now = cx.now;
                self.run_and_push(cx, |guild| guild.end_restore(now));
            }
        }
        self.advance(cx);
    }

    /// The guild, if a hand-off is under way.
    fn moving(&mut self) -> Option<&mut Guild> {
        match (&self.handoff, &mut self.state) {
            (Handoff::Moving, HostState::Live(guild)) => Some(guild),
            _ => None,
        }
    }

    /// A result without one ends the hand-off.
    fn answer_step<T>(&mut self, sender: oneshot::Sender<T>, result: Option<T>) {
        let is_sent = result.is_some_and(|result| sender.send(result).is_ok());
        if !is_sent {
            self.end_handoff();
        }
    }

    fn begin_handoff(&mut self, sender: oneshot::Sender<HandoffBase>) {
        let HostState::Live(guild) = &mut self.state else { return };
        if self.is_deleting || !matches!(self.handoff, Handoff::None) {
            return;
        }
        self.handoff = Handoff::Moving;
        let base = guild.begin_handoff();
        self.answer_step(sender, Some(base));
    }

    fn end_handoff(&mut self) {
        self.handoff = Handoff::None;
        if let HostState::Live(guild) = &mut self.state {
            guild.stop_handoff();
        }
    }

    /// Whether the guild must emit nothing (F1).
    pub(super) fn is_frozen(&self) -> bool {
        matches!(self.handoff, Handoff::Frozen(_))
    }

    /// Whether inputs wait for the end of a freeze.
    pub(super) fn is_freezing(&self) -> bool {
        matches!(self.handoff, Handoff::Freezing(_) | Handoff::Frozen(_))
    }

    /// Whether a hand-off is under way.
    pub(super) fn is_handed_over(&self) -> bool {
        !matches!(self.handoff, Handoff::None)
    }

    /// Keeps a job's result of a frozen guild.
    pub(super) fn hold_job(&mut self, incarnation: u64, end: GuildJobEnd) -> Option<(u64, GuildJobEnd)> {
        let Handoff::Frozen(deferred) = &mut self.handoff else { return Some((incarnation, end)) };
        deferred.jobs.push((incarnation, end));
        None
    }

    /// Keeps the news that a node's relays are gone, for a frozen guild. False: it is not frozen.
    pub(super) fn hold_forgotten(&mut self, node: u8) -> bool {
        let Handoff::Frozen(deferred) = &mut self.handoff else { return false };
        deferred.forgotten.push(node);
        true
    }

    /// Takes the tail if nothing is under way any more.
    pub(super) fn try_freeze(&mut self, cx: &mut Context<'_>) {
        if !matches!(self.handoff, Handoff::Freezing(_)) || !self.is_settled() {
            return;
        }
        let now = cx.now;
        self.run_and_push(cx, |guild| guild.end_lists(now));
        if !self.is_settled() {
            return;
        }
        let HostState::Live(guild) = &mut self.state else { return self.end_handoff() };
        let frozen = guild.take_handoff().map(|items| Frozen {
            items,
            tail: guild.handoff_tail(now),
            streams: self.streams.clone(),
        });
        let Handoff::Freezing(sender) = mem::replace(&mut self.handoff, Handoff::Frozen(DeferredInputs::default()))
        else {
            return;
        };
        self.answer_step(sender, frozen);
    }

    fn is_settled(&self) -> bool {
        self.pipeline.is_empty() && self.late.is_empty() && self.guild().is_some_and(Guild::is_settled)
    }

    fn stay(&mut self, cx: &mut Context<'_>) {
        let deferred = match mem::take(&mut self.handoff) {
            Handoff::Frozen(deferred) => deferred,
            Handoff::None | Handoff::Moving | Handoff::Freezing(_) => DeferredInputs::default(),
        };
        self.end_handoff();
        for node in deferred.forgotten {
            self.forget_subscribed(cx, node);
        }
        for (incarnation, end) in deferred.jobs {
            self.job_ended(cx, incarnation, end);
        }
    }

    /// Drops the guild, and hands over what it has not handled.
    fn give_up(&mut self, cx: &mut Context<'_>) {
        // Commands that wait for messages came first.
        let parked = mem::take(&mut self.parked).into_values().filter_map(|parked| parked.request.map(Input::Command));
        let inputs: Vec<Unhandled> = parked.chain(mem::take(&mut self.waiting)).map(Unhandled).collect();
        cx.done_inputs.extend(inputs.iter().map(|_| self.guild_id));
        cx.relays.gave_up(self.guild_id, inputs);
        self.release(cx);
    }

    /// Installs another node's guild, after a load and commits that are under way here have ended.
    fn take_over(&mut self, cx: &mut Context<'_>, taken: TakenOver) {
        match self.state {
            HostState::Loading if self.is_loading => self.taken = Some(taken),
            HostState::AwaitingCommits if !self.pipeline.is_empty() => self.taken = Some(taken),
            _ => self.install(cx, taken),
        }
    }

    pub(super) fn install(&mut self, cx: &mut Context<'_>, taken: TakenOver) {
        self.abandon_guild(cx);
        self.forget_guild();
        let TakenOver { guild, streams, epoch, forget } = taken;
        let newest = [Some(guild.newest_id()), cx.jobs.ids.known_floor()];
        newest.into_iter().flatten().for_each(|newest| cx.ids.skip_past(Id::<()>::new(newest)));
        (self.streams, self.epoch, self.is_released) = (streams, Some(epoch), false);
        self.state = HostState::Live(guild);
        (self.live_since, self.used_at) = (cx.now.instant, cx.now.instant);
        self.failures_count = 0;
        for (relay, _) in self.streams.subscribed() {
            self.canaries.begin(cx.limits.canaries, relay, cx.now.instant);
        }
        for relay in self.streams.broken() {
            self.lags(cx, relay);
        }
        // Sends the outputs of `Guild::take_over`.
        self.run_and_push(cx, |_| ());
        for node in forget {
            self.forget_subscribed(cx, node);
        }
        self.advance(cx);
    }
}
