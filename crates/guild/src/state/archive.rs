//! Archive: when to check each open thread.
//!
//! Owns        `Archive`: the next time to check each open thread.
//! Doors       `load`, `follow`, `pop` and `forget` from the table of threads.
//! Invariants  A1 a check is due no later than the time at which the thread is archived: a message costs nothing here,
//!             the check looks for one.
//! Limits      one entry per open thread.

use super::tasks::STEP_EVERY_MS;
use guildhall_model::{Channel, ChannelId, timestamp_of};
use guildhall_stdx::{Instant, Now};
use std::collections::{BTreeMap, BTreeSet};

const MINUTE_MS: i64 = 60_000;

#[derive(Debug, Default)]
pub(crate) struct Archive {
    /// Check times in Unix milliseconds. May be too early, never too late.
    looks: BTreeSet<(i64, ChannelId)>,
    of_thread: BTreeMap<ChannelId, i64>,
    due_at: Option<Instant>,
}

/// Time at which a thread is archived; none if it is archived already.
pub(crate) fn closes_at(channel: &Channel) -> Option<i64> {
    let thread = channel.thread.as_ref().filter(|thread| !thread.archived)?;
    let said_at = channel.last_message_id.map_or(i64::MIN, |id| timestamp_of(id).0);
    Some(thread.archive_timestamp.0.max(said_at) + i64::from(thread.auto_archive_duration) * MINUTE_MS)
}

impl Archive {
    pub fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// Adds a thread from the store. The first timer determines the time.
    pub fn load(&mut self, channel: &Channel) {
        if let Some(at) = closes_at(channel) {
            self.set(channel.id, at);
            self.due_at = Some(Instant(0));
        }
    }

    /// Adds or updates a thread.
    pub fn follow(&mut self, now: Now, channel: &Channel) {
        match closes_at(channel) {
            Some(at) => self.set(channel.id, at),
            None => self.forget(channel.id),
        }
        self.arm(now);
    }

    pub fn forget(&mut self, thread_id: ChannelId) {
        if let Some(at) = self.of_thread.remove(&thread_id) {
            self.looks.remove(&(at, thread_id));
        }
    }

    fn set(&mut self, thread_id: ChannelId, at: i64) {
        self.forget(thread_id);
        self.looks.insert((at, thread_id));
        self.of_thread.insert(thread_id, at);
    }

    /// Sets the time of the next check.
    pub fn arm(&mut self, now: Now) {
        self.due_at = self.looks.first().map(|(at, _)| {
            let wait_ms = at.saturating_sub(now.unix.0);
            now.instant.after_ms(u64::try_from(wait_ms).unwrap_or(0).max(STEP_EVERY_MS))
        });
    }

    /// The next thread to check, if it is due.
    pub fn pop(&mut self, now: Now) -> Option<ChannelId> {
        let (_, thread_id) = self.looks.first().copied().filter(|(at, _)| *at <= now.unix.0)?;
        self.forget(thread_id);
        Some(thread_id)
    }
}
