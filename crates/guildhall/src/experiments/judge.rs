//! Judge: samples of connections become sums, and an alarm where an arm does harm.
//!
//! Owns        the guardrails of the running experiments of this node, and the work of their thread.
//! Limits      `CPU_PERMILLE` of a core. Samples that wait are bounded by their queue.

use guildhall_backend::ExperimentArm;
use guildhall_codec::CodecError;
use guildhall_lab::{Alarm, Watch, WatchParams, WatchSums};
use guildhall_partition::SampleQueue;
use guildhall_telemetry::spare::SpareWork;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

const CPU_PERMILLE: u64 = 10;
/// Samples of one step.
const SAMPLES_PER_STEP: usize = 256;

/// Guardrails by the number of their experiment. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watches(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    watches: Mutex<BTreeMap<u64, Watched>>,
    alarms: Mutex<Vec<(u64, String)>>,
    alarmed: Notify,
}

#[derive(Debug)]
struct Watched {
    arms: Vec<String>,
    watch: Watch,
    is_running: bool,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watches {
    /// These experiments run, and no others.
    pub fn set<'a>(&self, running: impl Iterator<Item = (u64, String, WatchParams, &'a Vec<ExperimentArm>)>) {
        let mut watches = lock(&self.0.watches);
        watches.values_mut().for_each(|watched| watched.is_running = false);
        for (id, _, params, arms) in running {
            let made = || Watched {
                arms: arms.iter().map(|arm| arm.name.clone()).collect(),
                watch: Watch::new(params),
                is_running: true,
            };
            watches.entry(id).or_insert_with(made).is_running = true;
        }
    }

    /// Forgets experiments that were removed.
    pub fn retain(&self, ids: impl Iterator<Item = u64>) {
        let ids: Vec<u64> = ids.collect();
        lock(&self.0.watches).retain(|id, _| ids.contains(id));
    }

    /// Sums of an experiment's samples.
    pub fn sums(&self, id: u64) -> Option<WatchSums> {
        lock(&self.0.watches).get(&id).map(|watched| watched.watch.sums().clone())
    }

    /// Waits for an alarm.
    pub async fn alarmed(&self) {
        self.0.alarmed.notified().await;
    }

    /// Alarms with their reasons, once each.
    pub fn take_alarms(&self) -> Vec<(u64, String)> {
        std::mem::take(&mut *lock(&self.0.alarms))
    }

    /// An alarm that was not obeyed.
    pub fn alarm_again(&self, id: u64, reason: String) {
        lock(&self.0.alarms).push((id, reason));
        self.0.alarmed.notify_one();
    }
}

fn reason_of(alarm: &Alarm, arms: &[String]) -> String {
    let Alarm { arm, metric, mean, control_mean, interval, samples } = alarm;
    let name = |at: usize| arms.get(at).map_or("", |name| name.as_str());
    format!(
        "{} of {} is {mean:.4}, of {} {control_mean:.4}: {:+.4}, between {:+.4} and {:+.4}, after {samples} samples",
        metric.name(),
        name(*arm),
        name(0),
        interval.difference,
        interval.low,
        interval.high
    )
}

/// Turns samples into sums.
#[derive(Debug)]
pub(crate) struct Judge {
    samples: SampleQueue,
    watches: Watches,
}

impl Judge {
    pub fn new(samples: SampleQueue, watches: Watches) -> Self {
        Self { samples, watches }
    }
}

impl SpareWork for Judge {
    const NAME: &'static str = "experiments";

    fn step(&mut self) -> Result<bool, CodecError> {
        let mut watches = lock(&self.watches.0.watches);
        let mut touched = Vec::new();
        for _ in 0..SAMPLES_PER_STEP {
            let Some(sample) = self.samples.next() else { break };
            let Some(watched) = watches.get_mut(&sample.experiment).filter(|watched| watched.is_running) else {
                continue;
            };
            watched.watch.push(sample.arm.into(), sample.of);
            if !touched.contains(&sample.experiment) {
                touched.push(sample.experiment);
            }
        }
        for id in &touched {
            let Some(watched) = watches.get_mut(id) else { continue };
            let Some(alarm) = watched.watch.alarm() else { continue };
            // One alarm, and no further samples: the rollback follows.
            watched.is_running = false;
            let reason = reason_of(&alarm, &watched.arms);
            lock(&self.watches.0.alarms).push((*id, reason));
            self.watches.0.alarmed.notify_one();
        }
        Ok(!touched.is_empty())
    }

    fn set_cpu_ns(&mut self, _: u64) {}

    fn cpu_permille(&self) -> u64 {
        CPU_PERMILLE
    }
}
