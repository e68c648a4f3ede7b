//! Timing: deadlines of one connection, and its entry in the partition's timers.
//!
//! Invariants  T1 of all entries in the timers, only the one that was armed last counts.

use guildhall_stdx::{Instant, OptionalInstant};

/// See the module.
#[derive(Debug)]
pub struct Timing {
    /// Time at which the connection began, or began to close.
    phase_since: Instant,
    /// Time of the entry that counts. None: no timer is armed.
    timer_at: OptionalInstant,
    /// The connection is closed at this time, because the node stops. None: without such an end.
    leave_by: OptionalInstant,
}

impl Timing {
    /// Of a connection that begins now.
    pub fn new(now: Instant) -> Self {
        Self { phase_since: now, timer_at: OptionalInstant::NONE, leave_by: OptionalInstant::NONE }
    }

    /// Arms the timer. Returns whether it needs a new entry: an earlier one that is armed suffices.
    pub fn arm(&mut self, at: Instant) -> bool {
        let is_earlier = self.timer_at.get().is_none_or(|armed| at < armed);
        if is_earlier {
            self.timer_at.set(at);
        }
        is_earlier
    }

    /// An entry fired. Returns whether it counts; then no timer is armed any more.
    pub fn fire(&mut self, at: Instant) -> bool {
        self.timer_at.clear_if(at)
    }

    /// Disarms the timer: the connection comes from another partition.
    pub fn disarm(&mut self) {
        self.timer_at = OptionalInstant::NONE;
    }

    /// The connection begins to close.
    pub fn begin_phase(&mut self, now: Instant) {
        self.phase_since = now;
    }

    /// Time at which the connection began, or began to close.
    pub fn phase_since(&self) -> Instant {
        self.phase_since
    }

    /// Sets the time by which the client must leave.
    pub fn set_leave_by(&mut self, at: Instant) {
        self.leave_by.set(at);
    }

    /// Time by which the client must leave. None: it may stay.
    pub fn leave_by(&self) -> Option<Instant> {
        self.leave_by.get()
    }
}
