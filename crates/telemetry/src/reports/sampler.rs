//! Sampler: reads all series once a second, for the history and its subscribers.
//!
//! Limits      a sample that takes longer than its second delays the next one; none is made up. It costs a turn of the
//!             partitions and some hundred numbers.

use super::{Reports, lock, snapshot::SNAPSHOT_EVERY};
use crate::owners::REFRESH_EVERY;
use guildhall_accounting::Reading;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{task::JoinHandle, time::MissedTickBehavior};

const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Samples until it is dropped.
#[derive(Debug)]
pub struct Sampler(JoinHandle<()>);

impl Sampler {
    /// Begins. Call within a tokio runtime.
    #[must_use]
    pub fn start(reports: &Arc<Reports>) -> Self {
        let reports = Arc::downgrade(reports);
        Self(tokio::spawn(async move {
            let mut timer = tokio::time::interval(SAMPLE_EVERY);
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut left_out = 0;
            let mut owners_at: Option<Instant> = None;
            let mut written_at = Instant::now();
            loop {
                timer.tick().await;
                let Some(reports) = reports.upgrade() else { return };
                if owners_at.is_none_or(|at| at.elapsed() >= REFRESH_EVERY) {
                    owners_at = Some(Instant::now());
                    let history = lock(&reports.history).memory();
                    reports.metrics.refresh_owners(history).await;
                }
                let Some(readings) = reports.collect(|metrics| metrics.readings()).await else { continue };
                reports.sample(readings, &mut left_out);
                if written_at.elapsed() >= SNAPSHOT_EVERY {
                    written_at = Instant::now();
                    let _ = tokio::task::spawn_blocking(move || reports.keep_history()).await;
                }
            }
        }))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Reports {
    /// `left_out` is the number of series that the log has mentioned.
    fn sample(&self, readings: BTreeMap<String, Reading>, left_out: &mut u64) {
        let mut history = lock(&self.history);
        let sample = history.push(self.at_ms(), readings);
        if history.left_out() > *left_out {
            *left_out = history.left_out();
            tracing::warn!(
                target: "guildhall::reports::sampler",
                series = *left_out,
                "the history has no room for some series: the dashboard lacks them"
            );
        }
        drop(history);
        if let Some(samples) = &*lock(&self.samples) {
            samples.send_replace(Arc::new(sample));
        }
    }
}
