//! Commits: time that the store takes to make writes durable.
//!
//! Limits  a number and a histogram, once per commit and never per event.

use guildhall_accounting::{Durations, DurationsSnapshot};
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Counters of commits since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitStats {
    /// From the call to the answer, failures included.
    pub latency: DurationsSnapshot,
    /// Of these, those that failed.
    pub failed_total: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Commits {
    latency: Durations,
    failed_total: AtomicU64,
}

impl Commits {
    pub(crate) fn count(&self, took: Duration, is_done: bool) {
        self.latency.record_shared(took.as_nanos() as u64);
        self.failed_total.fetch_add(u64::from(!is_done), Relaxed);
    }

    pub(crate) fn stats(&self) -> CommitStats {
        CommitStats { latency: self.latency.snapshot(), failed_total: self.failed_total.load(Relaxed) }
    }
}
