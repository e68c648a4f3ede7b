//! Rate allowances.
//!
//! Owns        `Allowance`, one token bucket in two numbers.
//! Not here    tables of them, and which rates hold: `guildhall-net` (`gatekeeper`), `guildhall-node` (`sign_on`).

use crate::Instant;

/// A token bucket: `max` per interval, refilled evenly, up to `max` at once. The owner passes the same `max` and
/// `interval_ms` to each call; a changed setting holds from the next one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowance {
    /// When `credit` was right. None: never used, and full.
    at: Option<Instant>,
    /// In `interval_ms`-ths of one.
    credit: u64,
}

impl Allowance {
    /// Takes one; false if nothing is left. A `max` of 0 is no limit.
    #[must_use]
    pub fn take(&mut self, now: Instant, max: u32, interval_ms: u64) -> bool {
        if max == 0 {
            return true;
        }
        self.refill(now, max, interval_ms);
        let is_allowed = self.credit >= interval_ms;
        self.credit -= if is_allowed { interval_ms } else { 0 };
        is_allowed
    }

    /// Undoes one `take`.
    pub fn refund(&mut self, now: Instant, max: u32, interval_ms: u64) {
        if max > 0 {
            self.refill(now, max, interval_ms);
            self.credit = (self.credit + interval_ms).min(u64::from(max) * interval_ms);
        }
    }

    /// Whether it is as one that was never used.
    #[must_use]
    pub fn is_full(&mut self, now: Instant, max: u32, interval_ms: u64) -> bool {
        self.refill(now, max, interval_ms);
        self.credit == u64::from(max) * interval_ms
    }

    fn refill(&mut self, now: Instant, max: u32, interval_ms: u64) {
        let full = u64::from(max) * interval_ms;
        let gained = self.at.map_or(full, |at| now.ms_since(at).saturating_mul(max.into()));
        (self.at, self.credit) = (Some(now), self.credit.saturating_add(gained).min(full));
    }
}
