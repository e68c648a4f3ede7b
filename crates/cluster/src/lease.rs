//! Lease: the node's right to its number, and how long the node may rely on it.
//!
//! Owns        the schedule of renewals. A driver writes to the lease store and reports the result.
//! Invariants  L1 `check` turns false before the lease store can assign the number to another node: the lease counts
//!             from the start of the write that renewed it, and ends `margin_ms` early, because clocks drift and the
//!             process may pause unnoticed. L2 a lost lease never becomes valid again: the node joins as a new
//!             incarnation.
//! Limits      one write in flight. A write without an answer counts as failed once the lease has ended.

use guildhall_stdx::Instant;

/// Times of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// Time after which the lease store drops a record that was not renewed.
    pub lease_ms: u64,
    /// Safety margin: the node stops relying on the lease this much earlier.
    pub margin_ms: u64,
    /// Interval of renewals.
    pub renew_ms: u64,
}

impl LeaseTimes {
    /// Renews after a third of `lease_ms`, with a fifth of it as margin.
    #[must_use]
    pub const fn of(lease_ms: u64) -> Self {
        Self { lease_ms, margin_ms: lease_ms / 5, renew_ms: lease_ms / 3 }
    }
}

/// Result of a write to the lease store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The record is renewed.
    Done,
    /// The record is gone, or another node's.
    Lost,
    /// The store did not answer. The node tries again while the lease is valid.
    Unknown,
}

/// This node's lease.
#[derive(Clone, Debug)]
pub struct Lease {
    times: LeaseTimes,
    /// Start of the last write that renewed the lease.
    renewed_at: Instant,
    renew_at: Instant,
    /// Start of the write in flight.
    writing_since: Option<Instant>,
    is_lost: bool,
}

impl Lease {
    /// A lease whose first write began at `written_at`.
    #[must_use]
    pub fn new(times: LeaseTimes, written_at: Instant) -> Self {
        let renew_at = written_at.after_ms(times.renew_ms);
        Self { times, renewed_at: written_at, renew_at, writing_since: None, is_lost: false }
    }

    /// Whether the node may act as the owner of its number and guilds. The driver calls `check`.
    #[must_use]
    pub fn is_valid(&self, now: Instant) -> bool {
        !self.is_lost && now < self.valid_until()
    }

    /// When `check` turns false without another renewal.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.renewed_at.after_ms(self.times.lease_ms.saturating_sub(self.times.margin_ms))
    }

    /// Whether the driver has to renew the record now. After true the driver writes, then calls `renewed`.
    pub fn begin_renewal(&mut self, now: Instant) -> bool {
        let is_due = !self.is_lost && self.writing_since.is_none() && now >= self.renew_at;
        if is_due {
            self.writing_since = Some(now);
        }
        is_due
    }

    /// The next renewal or the end of the lease, whichever is earlier.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        if self.writing_since.is_some() { self.valid_until() } else { self.renew_at.min(self.valid_until()) }
    }

    /// Reports the result of the write after `begin_renewal`. Returns false if the lease is lost.
    pub fn renewed(&mut self, now: Instant, renewal: Renewal) -> bool {
        let Some(since) = self.writing_since.take() else { return !self.is_lost };
        match renewal {
            Renewal::Done => {
                self.renewed_at = since;
                self.renew_at = since.after_ms(self.times.renew_ms);
            }
            Renewal::Lost => self.is_lost = true,
            // Retry sooner than usual, because the lease is running out.
            Renewal::Unknown => self.renew_at = now.after_ms(self.times.renew_ms / 4),
        }
        // L2: an answer after the end does not revive the lease.
        self.is_lost |= now >= self.valid_until();
        !self.is_lost
    }

    /// Returns false if the lease is lost, also by time that has passed.
    pub fn check(&mut self, now: Instant) -> bool {
        self.is_lost |= now >= self.valid_until();
        !self.is_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: LeaseTimes = LeaseTimes { lease_ms: 3_000, margin_ms: 600, renew_ms: 1_000 };

    #[test]
    fn l1_it_is_valid_from_before_the_write_and_ends_early() {
        let mut lease = Lease::new(TIMES, Instant(100));
        assert!(lease.is_valid(Instant(2_499)) && !lease.is_valid(Instant(2_500)));
        assert!(!lease.begin_renewal(Instant(1_099)));
        assert!(lease.begin_renewal(Instant(1_100)));
        assert!(!lease.begin_renewal(Instant(1_200)), "one write at a time");
        assert!(lease.renewed(Instant(2_000), Renewal::Done));
        assert!(lease.is_valid(Instant(3_499)) && !lease.is_valid(Instant(3_500)));
        assert!(lease.begin_renewal(Instant(2_100)));
        assert!(lease.renewed(Instant(2_200), Renewal::Unknown));
        assert!(lease.begin_renewal(Instant(2_450)), "a write that may have failed is repeated soon");
    }

    #[test]
    fn l2_a_lost_lease_stays_lost() {
        let mut lease = Lease::new(TIMES, Instant(0));
        assert!(lease.begin_renewal(Instant(1_000)));
        // The process was paused; the answer is of a write that began in time.
        assert!(lease.renewed(Instant(3_399), Renewal::Done));
        assert!(lease.begin_renewal(Instant(3_399)));
        assert!(!lease.renewed(Instant(9_000), Renewal::Done), "paused for longer than the lease");
        assert!(!lease.is_valid(Instant(9_000)));
        let mut lease = Lease::new(TIMES, Instant(0));
        assert!(lease.begin_renewal(Instant(1_000)));
        assert!(!lease.renewed(Instant(1_100), Renewal::Lost));
        assert!(!lease.is_valid(Instant(1_100)) && !lease.begin_renewal(Instant(2_000)));
    }
}
