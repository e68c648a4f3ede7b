//! Timers: when to look at a connection or session again.
//!
//! Invariants  T1 an entry only says when to look; whether something is due is decided then. So activity that moves a
//!             deadline away costs nothing here.
//! Limits      at most a few entries per connection, session or relay: a new one is made only for an earlier time, or when the last fired.

use guildhall_model::GuildId;
use guildhall_stdx::{Instant, SlotKey};
use std::{cmp::Reverse, collections::BinaryHeap};

/// What to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerKey {
    /// A connection.
    Conn(SlotKey),
    /// A session.
    Session(SlotKey),
    /// A relay: of which guild, which, and in which incarnation.
    Relay(GuildId, u16, u32),
}

/// A heap of times to look.
#[derive(Debug, Default)]
pub struct Timers(BinaryHeap<Reverse<(Instant, TimerKey)>>);

impl Timers {
    /// Look at `subject` at `at`.
    pub fn push(&mut self, at: Instant, subject: TimerKey) {
        self.0.push(Reverse((at, subject)));
    }

    /// The next subject whose time has come.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, TimerKey)> {
        self.0.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.0.pop().map(|Reverse(entry)| entry)
    }

    /// When to look next.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }
}
