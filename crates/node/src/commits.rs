//! Commits: time that the store takes to make writes durable.
//!
//! Limits  two numbers and a histogram. Updated once per commit and never per event, so a lock is cheap.

use guildhall_stdx::Histogram;
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Counters of commits since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitStats {
    /// From the call to the answer, failures included.
    pub latency: Histogram,
    /// Of these, those that failed.
    pub failed_total: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Commits(Mutex<CommitStats>);

impl Commits {
    pub(crate) fn count(&self, took: Duration, is_done: bool) {
        let mut stats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stats.latency.record(took.as_micros() as u64);
        stats.failed_total += u64::from(!is_done);
    }

    pub(crate) fn stats(&self) -> CommitStats {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
