//! Chores: work that is done in slices, by the timer, so that no input takes longer the more there is to do.
//!
//! Owns        `Chores`; their turns; what is left of a relay that is gone.
//! Doors       `Guild::begin_chore`; `do_chore` from `Guild::handle_timer`.
//! Invariants  H1 each has its turn: a long one does not hold up the others. H2 one slice handles at most `SLICE` of
//!             whatever it is about, `WATCHED_SLICE` if that has no outputs.
//! Limits      one per relay id; those of commands: `slow_commands_max`.

use crate::{
    bulk::{Bulk, ClosingChannel},
    job::JobId,
    lists::Watched,
    machine::Guild,
};
use guildhall_relay::{RelayId, SessionKey};
use guildhall_stdx::{Instant, Now};
use std::collections::VecDeque;

/// Members, sessions, voice states per slice.
pub(crate) const SLICE: usize = 64;
/// Watched members of a relay that is gone, per slice.
const WATCHED_SLICE: usize = 1_024;
/// From one slice to the next: 6,400 members a second, each an event to everybody. A partition takes that.
pub(crate) const SLICE_EVERY_MS: u64 = 10;

/// A relay that is gone.
#[derive(Debug)]
pub(crate) struct RelayGone {
    relay: RelayId,
    epoch: u32,
    /// Its sessions up to this one were looked at. None: none were.
    after: Option<SessionKey>,
    has_sessions: bool,
    /// Rows of member lists.
    watched: Watched,
}

#[derive(Debug)]
pub(crate) enum Chore {
    /// The sessions of a relay are gone, up to this incarnation of it, and what was watched there.
    RelayGone(RelayGone),
    /// Everybody leaves a voice channel, which is deleted then.
    CloseChannel(ClosingChannel),
    /// Members change, or go.
    Bulk(Box<Bulk>),
}

impl Chore {
    fn command(&self) -> Option<JobId> {
        match self {
            Self::RelayGone(_) => None,
            Self::CloseChannel(closing) => Some(closing.command),
            Self::Bulk(bulk) => Some(bulk.command),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Chores {
    queue: VecDeque<Chore>,
    due_at: Option<Instant>,
}

impl Chores {
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// Those that somebody waits for.
    pub fn commands_count(&self) -> usize {
        self.queue.iter().filter(|chore| chore.command().is_some()).count()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Chore> {
        self.queue.iter()
    }

    /// Forgets all. Returns the commands among them.
    pub fn clear(&mut self) -> Vec<JobId> {
        self.due_at = None;
        self.queue.drain(..).filter_map(|chore| chore.command()).collect()
    }
}

impl Guild {
    pub(crate) fn begin_chore(&mut self, now: Now, chore: Chore) {
        self.chores.queue.push_back(chore);
        self.chores.due_at.get_or_insert(now.instant);
    }

    /// A relay's sessions do not count any more, up to this incarnation: the first slice of them leaves at once.
    pub(crate) fn relay_gone(&mut self, now: Now, relay: RelayId, epoch: u32) {
        let mut watched = self.lists.remove_relay(now.instant, relay);
        // One walk finds what two incarnations left.
        self.chores.queue.retain_mut(|chore| match chore {
            Chore::RelayGone(gone) if gone.relay == relay => {
                watched.append(&mut gone.watched);
                false
            }
            _ => true,
        });
        let gone = RelayGone { relay, epoch, after: None, has_sessions: true, watched };
        if let Some(rest) = self.forget_relay(now, gone) {
            self.begin_chore(now, Chore::RelayGone(rest));
        }
    }

    /// One slice of the chore whose turn it is.
    pub(crate) fn do_chore(&mut self, now: Now) {
        if self.chores.due_at.is_none_or(|at| at > now.instant) {
            return;
        }
        let rest = match self.chores.queue.pop_front() {
            None => None,
            Some(Chore::RelayGone(gone)) => self.forget_relay(now, gone).map(Chore::RelayGone),
            Some(Chore::CloseChannel(closing)) => self.close_channel(now, closing).map(Chore::CloseChannel),
            Some(Chore::Bulk(bulk)) => self.bulk_slice(now, bulk).map(Chore::Bulk),
        };
        self.chores.queue.extend(rest);
        self.chores.due_at = (!self.chores.queue.is_empty()).then(|| now.instant.after_ms(SLICE_EVERY_MS));
    }

    /// One slice of a relay's sessions and of what was watched there. None when none are left.
    fn forget_relay(&mut self, now: Now, mut gone: RelayGone) -> Option<RelayGone> {
        if gone.has_sessions {
            let (sessions, after) = self.sessions.of_relay(gone.relay, gone.epoch, gone.after, SLICE);
            sessions.into_iter().for_each(|key| self.detach(now, key));
            gone.has_sessions = after.is_some();
            gone.after = after;
        }
        let has_watched = self.watchers.forget(gone.relay, gone.epoch, WATCHED_SLICE) == WATCHED_SLICE;
        let has_lists = self.lists.forget_watched(&mut gone.watched, WATCHED_SLICE);
        (gone.has_sessions || has_watched || has_lists).then_some(gone)
    }
}
