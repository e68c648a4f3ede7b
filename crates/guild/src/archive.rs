//! Archive: threads without messages for a configured time are archived.
//!
//! Owns        the archiving of threads whose time is over.
//! Doors       `Guild::archive_threads` from `Guild::handle_timer`.
//! Invariants  A1 an open thread is archived once its duration has passed since it was created, reopened or last
//!             written in, and not before. (test `threads::a1_*`)
//! Limits      `STEP_ITEMS` threads at once, the others `STEP_EVERY_MS` later.
//! Not here    the times of checks: `state::archive`.

use crate::{
    machine::Guild,
    state::{archive::closes_at, tasks::STEP_ITEMS},
};
use guildhall_model::Channel;
use guildhall_stdx::Now;

impl Guild {
    /// Archives the threads that are due.
    pub(crate) fn archive_threads(&mut self, now: Now) {
        if self.threads.archive_at().is_none_or(|at| at > now.instant) {
            return;
        }
        for _ in 0..STEP_ITEMS {
            let Some(entry) = self.threads.next_to_check(now) else { break };
            match closes_at(&entry.channel) {
                Some(at) if at <= now.unix.0 => {
                    let mut channel = Channel::clone(&entry.channel);
                    if let Some(thread) = &mut channel.thread {
                        (thread.archived, thread.archive_timestamp) = (true, now.unix);
                    }
                    self.put_thread(now, &entry, channel);
                }
                _ => self.threads.check_later(now, &entry),
            }
        }
        self.threads.arm_archive(now);
    }
}
