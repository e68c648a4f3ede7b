//! Fake clock: time that passes when a test says so.

use guildhall_stdx::Now;

/// Both clocks of `Now`, moved by hand.
#[derive(Clone, Copy, Debug)]
pub struct FakeClock(Now);

impl Default for FakeClock {
    /// Some day in November 2023; monotonic clocks do not begin at zero either.
    fn default() -> Self {
        Self(Now::new(1_000_000, 1_700_000_000_000))
    }
}

impl FakeClock {
    /// What to tell a machine.
    #[must_use]
    pub fn now(&self) -> Now {
        self.0
    }

    /// Lets `ms` milliseconds pass on both clocks.
    pub fn advance_ms(&mut self, ms: u64) {
        self.0 = Now::new(self.0.instant.0 + ms, self.0.unix.0 + ms as i64);
    }
}
