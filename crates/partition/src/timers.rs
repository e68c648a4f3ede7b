//! Timers: when to check the deadlines of a connection, session or relay.
//!
//! Invariants  T1 an entry is only the time of a check; the check decides from current state whether a deadline is due.
//!             So activity that postpones a deadline costs nothing here.
//! Limits      at most a few entries per connection, session or relay: a new one is made only for an earlier time, or
//!             when the last fired.

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
        self.0.pop().map(|Reverse(entry)| entry)
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
