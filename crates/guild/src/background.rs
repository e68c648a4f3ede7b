//! Background tasks: long work, done in steps by the timer, so that no input grows with the amount of work.
//!
//! Owns        the scheduling of background tasks, and the cleanup of removed relays.
//! Doors       `Guild::begin_background_task`; `run_background_task` from `Guild::handle_timer`.
//! Invariants  H1 each task gets its share: a long one does not delay the others. H2 one step handles at most
//!             `STEP_ITEMS` items, or `WATCHED_STEP_ITEMS` if it has no outputs.
//! Limits      one per relay id; one `VoicePass`; those of commands: `slow_commands_max`.

use crate::{
    machine::Guild,
    state::tasks::{BackgroundTask, RelayGone, STEP_EVERY_MS, STEP_ITEMS, VoicePass, WATCHED_STEP_ITEMS},
};
use guildhall_guild_protocol::RelayId;
use guildhall_stdx::Now;

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
