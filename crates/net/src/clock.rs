//! The real clock: the one place that reads the system's time.

use guildhall_stdx::Now;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Monotonic since its creation, and wall-clock time.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl SystemClock {
    /// Both times now, in milliseconds.
    #[must_use]
    pub fn now(&self) -> Now {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64);
        Now::new(self.started.elapsed().as_millis() as u64, unix)
    }
}
