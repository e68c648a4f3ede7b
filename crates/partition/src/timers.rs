//! Timers: when to check the deadlines of a connection, session or relay.
//!
//! Invariants  T1 an entry is only the time of a check; the check decides from current state whether a deadline is due.
//!             So activity that postpones a deadline costs nothing here.
//! Limits      at most a few entries per connection, session or relay: a new one is made only for an earlier time, or
//!             when the last fired. Memory is at most `SHRINK_ABOVE` times that of the entries: many connects at once
//!             leave entries that fire once.

use guildhall_model::GuildId;
use guildhall_stdx::{Instant, SlotKey, heap};
use std::{cmp::Reverse, collections::BinaryHeap};

/// Subject of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerKey {
    /// A connection: see `Core::check_conn_deadlines`.
    Conn(SlotKey),
    /// A session: its resume window, its READY, or its token.
    Session(SlotKey),
    /// A relay, by guild, index and incarnation.
    Relay(GuildId, u16, u32),
}

const SHRINK_ABOVE: usize = 4;
/// With fewer entries it does not shrink.
const ENTRIES_MIN: usize = 1_024;

/// A heap of check times.
#[derive(Debug, Default)]
pub struct Timers(BinaryHeap<Reverse<(Instant, TimerKey)>>);

impl Timers {
    /// Adds a check.
    pub fn push(&mut self, at: Instant, subject: TimerKey) {
        self.0.push(Reverse((at, subject)));
    }

    /// Removes the next check that is due.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, TimerKey)> {
        self.0.peek().filter(|Reverse((at, _))| *at <= now)?;
        let Reverse(entry) = self.0.pop()?;
        if self.0.capacity() > SHRINK_ABOVE * self.0.len().max(ENTRIES_MIN) {
            self.0.shrink_to(2 * self.0.len());
        }
        Some(entry)
    }

    /// Heap memory in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        heap::allocated(self.0.capacity() * size_of::<Reverse<(Instant, TimerKey)>>())
    }

    /// Time of the next check.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_have_fired_hold_no_memory() {
        let conn = |slot| TimerKey::Conn(SlotKey { slot, generation: 0 });
        let mut timers = Timers::default();
        (0..100_000).for_each(|slot| timers.push(Instant(u64::from(slot)), conn(slot)));
        let fired =
            (0..90_000).filter(|slot| timers.pop_due(Instant(90_000 - 1)).is_some_and(|(_, of)| of == conn(*slot)));
        assert_eq!(fired.count(), 90_000);
        assert_eq!((timers.pop_due(Instant(90_000 - 1)), timers.next()), (None, Some(Instant(90_000))));
        let entry = size_of::<Reverse<(Instant, TimerKey)>>();
        assert!(timers.heap_bytes() <= heap::allocated(SHRINK_ABOVE * 10_000 * entry), "{}", timers.heap_bytes());
    }
}
