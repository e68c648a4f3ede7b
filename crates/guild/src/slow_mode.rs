//! Slow mode: when each user may write into a channel, or begin a thread there, again.
//!
//! Owns        `SlowMode`.
//! Invariants  nothing here is stored: a reloaded guild starts without waits.
//! Limits      `slow_mode_entries_max` each for messages and threads; past it the wait that ends first is dropped.

use crate::sweep::{SWEPT_MAX, Sweep};
use guildhall_model::{ChannelId, UserId};
use guildhall_stdx::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// What slow mode limits: a user has one message and one thread per interval.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limited {
    Messages,
    Threads,
}

#[derive(Debug, Default)]
pub(crate) struct SlowMode {
    /// Time of the last message or thread, and the end of the wait by the limit at that time.
    waits: BTreeMap<(ChannelId, UserId), (Instant, Instant)>,
    /// By end of the wait.
    in_order: BTreeSet<(Instant, ChannelId, UserId)>,
    sweep: Sweep,
}

impl SlowMode {
    /// Milliseconds until `user` may do so in `channel` again; 0: now.
    pub fn wait_ms(&self, now: Instant, channel: ChannelId, user: UserId, rate_limit_s: u16) -> u64 {
        let Some((sent, until)) = self.waits.get(&(channel, user)) else { return 0 };
        // A lowered limit applies at once.
        sent.after_ms(u64::from(rate_limit_s) * 1000).min(*until).ms_since(now)
    }

    pub fn record_sent(&mut self, now: Instant, channel: ChannelId, user: UserId, rate_limit_s: u16, max: usize) {
        let until = now.after_ms(u64::from(rate_limit_s) * 1000);
        if let Some((_, before)) = self.waits.insert((channel, user), (now, until)) {
            self.in_order.remove(&(before, channel, user));
        }
        self.in_order.insert((until, channel, user));
        while self.waits.len() > max {
            self.forget_first();
        }
        self.sweep(now);
    }

    /// Waits that have not ended: milliseconds since the message or thread, and until the end.
    pub fn waits(&self, now: Instant) -> Vec<(ChannelId, UserId, u64, u64)> {
        let of = |(key, (sent, until)): (&(ChannelId, UserId), &(Instant, Instant))| {
            (key.0, key.1, now.ms_since(*sent), until.ms_since(now))
        };
        self.waits.iter().map(of).filter(|(.., left)| *left > 0).collect()
    }

    /// Begins with those of another node.
    pub fn take_over(&mut self, now: Instant, waits: Vec<(ChannelId, UserId, u64, u64)>) {
        for (channel, user, since, left) in waits {
            let until = now.after_ms(left);
            self.waits.insert((channel, user), (now.before_ms(since), until));
            self.in_order.insert((until, channel, user));
        }
        self.sweep(now);
    }

    /// Removes waits that have ended, or part of them if there are many: ten thousand may end in the same second.
    /// Ended waits never count.
    pub fn sweep(&mut self, now: Instant) {
        for _ in 0..SWEPT_MAX {
            if !self.has_ended(now) {
                break;
            }
            self.forget_first();
        }
        self.sweep.arm(now, self.waits.is_empty(), self.has_ended(now));
    }

    /// Time at which `sweep` should be called even without other input.
    pub fn sweep_at(&self) -> Option<Instant> {
        self.sweep.at()
    }

    fn has_ended(&self, now: Instant) -> bool {
        self.in_order.first().is_some_and(|(until, ..)| *until <= now)
    }

    fn forget_first(&mut self) {
        if let Some((_, channel, user)) = self.in_order.pop_first() {
            self.waits.remove(&(channel, user));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::REST_MS;

    const ANA: UserId = UserId::new(7);
    const BOB: UserId = UserId::new(8);
    const HERE: ChannelId = ChannelId::new(1);

    #[test]
    fn ended_waits_are_removed_in_parts() {
        let mut slow_mode = SlowMode::default();
        for n in 1..=1_000 {
            slow_mode.record_sent(Instant(0), HERE, UserId::new(n), 1, 2_000);
        }
        let mut rounds_count = 0;
        let mut now = Instant(1_000);
        while slow_mode.sweep_at().is_some() {
            slow_mode.sweep(now);
            assert_eq!(slow_mode.wait_ms(now, HERE, ANA, 1), 0);
            (now, rounds_count) = (now.after_ms(REST_MS), rounds_count + 1);
        }
        assert_eq!((rounds_count, slow_mode.waits.len()), (4, 0));
    }

    #[test]
    fn a_wait_follows_the_limit_of_the_channel() {
        let mut slow_mode = SlowMode::default();
        slow_mode.record_sent(Instant(1000), HERE, ANA, 10, 2);
        assert_eq!(slow_mode.wait_ms(Instant(1000), HERE, ANA, 10), 10_000);
        assert_eq!(slow_mode.wait_ms(Instant(1000), HERE, ANA, 5), 5_000, "lowered since");
        assert_eq!(slow_mode.wait_ms(Instant(1000), HERE, ANA, 60), 10_000, "raised since");
        assert_eq!(slow_mode.wait_ms(Instant(11_000), HERE, ANA, 10), 0);
        assert_eq!(slow_mode.wait_ms(Instant(1000), HERE, BOB, 10), 0);
        slow_mode.record_sent(Instant(2000), HERE, BOB, 20, 2);
        slow_mode.record_sent(Instant(2000), ChannelId::new(2), BOB, 20, 2);
        assert_eq!(slow_mode.wait_ms(Instant(2000), HERE, ANA, 10), 0, "the table is full: the shortest wait went");
        slow_mode.record_sent(Instant(2500), HERE, BOB, 20, 2);
        assert_eq!(slow_mode.waits.len(), slow_mode.in_order.len());
        assert_eq!(slow_mode.sweep_at(), Some(Instant(301_000)));
        slow_mode.sweep(Instant(22_500));
        assert!(slow_mode.waits.is_empty() && slow_mode.in_order.is_empty());
        assert_eq!(slow_mode.sweep_at(), None);
    }
}
