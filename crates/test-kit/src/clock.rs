//! Fake clock: only the test advances it.

use guildhall_stdx::Now;

/// Both clocks of `Now`, advanced by hand.
#[derive(Clone, Copy, Debug)]
pub struct FakeClock(Now);

impl Default for FakeClock {
    /// A day in November 2023; the monotonic clock does not start at zero either.
    fn default() -> Self {
        Self(Now::new(1_000_000, 1_700_000_000_000))
    }
}

impl FakeClock {
    /// Current time, for a machine.
    #[must_use]
    pub fn now(&self) -> Now {
        self.0
    }

    /// Advances both clocks by `ms` milliseconds.
    pub fn advance_ms(&mut self, ms: u64) {
        self.0 = Now::new(self.0.instant.0 + ms, self.0.unix.0 + ms as i64);
    }
}
