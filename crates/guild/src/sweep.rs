//! Time of the next removal of expired entries from a table.

use guildhall_stdx::Instant;

/// Maximum number of expired entries removed at once.
pub(crate) const SWEPT_MAX: usize = 256;
/// Delay until the next removal if more are expired.
pub(crate) const REST_MS: u64 = 10;
/// Interval of removals while nothing else happens.
const SWEEP_MS: u64 = 300_000;

#[derive(Debug, Default)]
pub(crate) struct Sweep(Option<Instant>);

impl Sweep {
    pub fn at(&self) -> Option<Instant> {
        self.0
    }

    /// Sets the next time after a removal.
    pub fn arm(&mut self, now: Instant, is_empty: bool, has_expired: bool) {
        self.0 = match self.0 {
            _ if is_empty => None,
            _ if has_expired => Some(now.after_ms(REST_MS)),
            Some(at) if at > now => Some(at),
            _ => Some(now.after_ms(SWEEP_MS)),
        };
    }
}
