//! Timing: deadlines of one connection, and its entry in the partition's timers.
//!
//! Invariants  T1 of all entries in the timers, only the one that was armed last counts.

use guildhall_stdx::Instant;

/// See the module.
#[derive(Debug)]
pub struct Timing {
    /// Time at which the connection began, or began to close.
    phase_since: Instant,
    /// Time of the entry that counts. None: no timer is armed.
    timer_at: Option<Instant>,
    /// The connection is closed at this time, because the node stops. None: without such an end.
    leave_by: Option<Instant>,
}

impl Timing {
    /// Of a connection that begins now.
    pub fn new(now: Instant) -> Self {
        Self { phase_since: now, timer_at: None, leave_by: None }
    }

    /// Arms the timer. Returns whether it needs a new entry: an earlier one that is armed suffices.
    pub fn arm(&mut self, at: Instant) -> bool {
        let is_earlier = self.timer_at.is_none_or(|armed| at < armed);
        if is_earlier {
            self.timer_at = Some(at);
        }
        is_earlier
    }

    /// An entry fired. Returns whether it counts; then no timer is armed any more.
    pub fn fire(&mut self, at: Instant) -> bool {
        self.timer_at.take_if(|armed| *armed == at).is_some()
    }

    /// Disarms the timer: the connection comes from another partition.
    pub fn disarm(&mut self) {
        self.timer_at = None;
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
        self.leave_by = Some(at);
    }

    /// Time by which the client must leave. None: it may stay.
    pub fn leave_by(&self) -> Option<Instant> {
        self.leave_by
    }
}
