//! Background tasks: long work, done in steps by the timer, so that no input grows with the amount of work.
//!
//! Owns        `BackgroundTasks`, their scheduling, and the cleanup of removed relays.
//! Doors       `Guild::begin_background_task`; `run_background_task` from `Guild::handle_timer`.
//! Invariants  H1 each task gets its share: a long one does not delay the others. H2 one step handles at most
//!             `STEP_ITEMS` items, or `WATCHED_STEP_ITEMS` if it has no outputs.
//! Limits      one per relay id; one `VoicePass`; those of commands: `slow_commands_max`.

use crate::{
    bulk::{Bulk, ClosingChannel},
    job::JobId,
    machine::Guild,
    member_lists::Watched,
    voice::VoicePass,
};
use guildhall_guild_protocol::{RelayId, SessionKey};
use guildhall_stdx::{Instant, Now};
use std::collections::VecDeque;

/// Members, sessions, voice states per step.
pub(crate) const STEP_ITEMS: usize = 64;
/// Watched members of a removed relay, per step.
const WATCHED_STEP_ITEMS: usize = 1_024;
/// Interval between steps: 6,400 members a second, each an event for all sessions, which a partition can handle.
pub(crate) const STEP_EVERY_MS: u64 = 10;

/// Cleanup of a removed relay.
#[derive(Debug)]
pub(crate) struct RelayGone {
    relay: RelayId,
    epoch: u32,
    /// The last processed session; none at the start.
    after: Option<SessionKey>,
    has_sessions: bool,
    /// Watched rows of member lists.
    watched: Watched,
}

#[derive(Debug)]
pub(crate) enum BackgroundTask {
    /// Removes sessions and watches of a relay, up to this incarnation.
    RelayGone(RelayGone),
    /// Disconnects all users of a voice channel, then deletes it.
    CloseChannel(ClosingChannel),
    /// Changes or removes many members.
    Bulk(Box<Bulk>),
    /// Compares voice states with permissions that changed.
    VoicePass(VoicePass),
}

impl BackgroundTask {
    fn command(&self) -> Option<JobId> {
        match self {
            Self::RelayGone(_) | Self::VoicePass(_) => None,
            Self::CloseChannel(closing) => Some(closing.command),
            Self::Bulk(bulk) => Some(bulk.command),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct BackgroundTasks {
    queue: VecDeque<BackgroundTask>,
    due_at: Option<Instant>,
}

impl BackgroundTasks {
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// Number of tasks with a waiting caller.
    pub fn commands_count(&self) -> usize {
        self.queue.iter().filter(|task| task.command().is_some()).count()
    }

    pub fn iter(&self) -> impl Iterator<Item = &BackgroundTask> {
        self.queue.iter()
    }

    /// Drops all tasks. Returns the commands among them.
    pub fn clear(&mut self) -> Vec<JobId> {
        self.due_at = None;
        self.queue.drain(..).filter_map(|task| task.command()).collect()
    }
}

impl Guild {
    pub(crate) fn begin_background_task(&mut self, now: Now, task: BackgroundTask) {
        self.background.queue.push_back(task);
        self.background.due_at.get_or_insert(now.instant);
    }

    /// Begins a pass over the users in voice, in place of one that has not ended.
    pub(crate) fn replace_voice_pass(&mut self, now: Now, pass: VoicePass) {
        self.background.queue.retain(|task| !matches!(task, BackgroundTask::VoicePass(_)));
        self.begin_background_task(now, BackgroundTask::VoicePass(pass));
    }

    /// Removes a relay's sessions up to this incarnation; the first step at once.
    pub(crate) fn relay_gone(&mut self, now: Now, relay: RelayId, epoch: u32) {
        let mut watched = self.lists.remove_relay(now.instant, relay);
        // One pass covers two incarnations.
        self.background.queue.retain_mut(|task| match task {
            BackgroundTask::RelayGone(gone) if gone.relay == relay => {
                watched.append(&mut gone.watched);
                false
            }
            _ => true,
        });
        let gone = RelayGone { relay, epoch, after: None, has_sessions: true, watched };
        if let Some(rest) = self.forget_relay(now, gone) {
            self.begin_background_task(now, BackgroundTask::RelayGone(rest));
        }
    }

    /// Runs one step of the next task.
    pub(crate) fn run_background_task(&mut self, now: Now) {
        if self.background.due_at.is_none_or(|at| at > now.instant) {
            return;
        }
        let rest = match self.background.queue.pop_front() {
            None => None,
            Some(BackgroundTask::RelayGone(gone)) => self.forget_relay(now, gone).map(BackgroundTask::RelayGone),
            Some(BackgroundTask::CloseChannel(closing)) => {
                self.close_channel(now, closing).map(BackgroundTask::CloseChannel)
            }
            Some(BackgroundTask::Bulk(bulk)) => self.bulk_step(now, bulk).map(BackgroundTask::Bulk),
            Some(BackgroundTask::VoicePass(pass)) => self.voice_step(now, &pass).map(BackgroundTask::VoicePass),
        };
        self.background.queue.extend(rest);
        self.background.due_at = (!self.background.queue.is_empty()).then(|| now.instant.after_ms(STEP_EVERY_MS));
    }

    /// Removes one step of a relay's sessions and watches. None when nothing is left.
    fn forget_relay(&mut self, now: Now, mut gone: RelayGone) -> Option<RelayGone> {
        if gone.has_sessions {
            let (sessions, after) = self.relays.relay_sessions(gone.relay, gone.epoch, gone.after, STEP_ITEMS);
            sessions.into_iter().for_each(|key| self.detach(now, key));
            gone.has_sessions = after.is_some();
            gone.after = after;
        }
        let has_watched = self.relays.forget_watched(gone.relay, gone.epoch, WATCHED_STEP_ITEMS) == WATCHED_STEP_ITEMS;
        let has_lists = self.lists.forget_watched(&mut gone.watched, WATCHED_STEP_ITEMS);
        (gone.has_sessions || has_watched || has_lists).then_some(gone)
    }
}
