//! Judge: samples of connections become sums, and an alarm where an arm does harm.
//!
//! Owns        the guardrails of the running experiments of this node, and the work of their thread.
//! Invariants  J1 one node of a cluster tests, and it tests the sums of all: the rate of false alarms is that of the
//!             cluster. J2 the sums that a node has of another process stay when that ends.
//! Limits      `CPU_PERMILLE` of a core. Samples that wait are bounded by their queue.

use guildhall_backend::ExperimentArm;
use guildhall_codec::CodecError;
use guildhall_lab::{Alarm, ProcessSums, Watch, WatchParams, WatchSums};
use guildhall_partition::SampleQueue;
use guildhall_telemetry::spare::SpareWork;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use tokio::sync::Notify;

const CPU_PERMILLE: u64 = 10;
/// Samples of one step.
const SAMPLES_PER_STEP: usize = 256;

/// Guardrails by the number of their experiment. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Watches(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Number of this process, which no other has.
    process: u64,
    /// This node tests the sums.
    is_judge: AtomicBool,
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
    /// Of a node that tests the sums, until `set_judge`.
    pub fn new(process: u64) -> Self {
        let (watches, alarms, alarmed) = Default::default();
        Self(Arc::new(Shared { process, is_judge: AtomicBool::new(true), watches, alarms, alarmed }))
    }

    /// This node tests the sums, or another one does.
    pub fn set_judge(&self, is_judge: bool) {
        self.0.is_judge.store(is_judge, Relaxed);
    }

    /// These experiments run, and no others.
    pub fn set<'a>(&self, running: impl Iterator<Item = (u64, String, WatchParams, &'a Vec<ExperimentArm>)>) {
        let mut watches = lock(&self.0.watches);
        watches.values_mut().for_each(|watched| watched.is_running = false);
        for (id, _, params, arms) in running {
            let made = || Watched {
                arms: arms.iter().map(|arm| arm.name.clone()).collect(),
                watch: Watch::new(params, self.0.process),
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

    /// Numbers of the running experiments.
    pub fn running(&self) -> Vec<u64> {
        lock(&self.0.watches).iter().filter(|(_, watched)| watched.is_running).map(|(id, _)| *id).collect()
    }

    /// Sums of an experiment's samples, by process.
    pub fn by_process(&self, id: u64) -> Option<ProcessSums> {
        lock(&self.0.watches).get(&id).map(|watched| watched.watch.by_process().clone())
    }

    /// Sums of the samples of this node since its start.
    pub fn own_sums(&self, id: u64) -> Option<WatchSums> {
        lock(&self.0.watches).get(&id).and_then(|watched| watched.watch.own_sums().cloned())
    }

    /// Takes the sums that another node has.
    pub fn take(&self, id: u64, theirs: ProcessSums) {
        if let Some(watched) = lock(&self.0.watches).get_mut(&id) {
            watched.watch.take(theirs);
        }
    }

    /// Tests the sums of an experiment, if this node is the one that does. One alarm is the last: the rollback follows.
    pub fn test(&self, id: u64) {
        let mut watches = lock(&self.0.watches);
        if let Some(watched) = watches.get_mut(&id) {
            self.0.test(id, watched);
        }
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

impl Shared {
    fn test(&self, id: u64, watched: &mut Watched) {
        if !self.is_judge.load(Relaxed) || !watched.is_running {
            return;
        }
        let Some(alarm) = watched.watch.alarm() else { return };
        watched.is_running = false;
        lock(&self.alarms).push((id, reason_of(&alarm, &watched.arms)));
        self.alarmed.notify_one();
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
            if let Some(watched) = watches.get_mut(id) {
                self.watches.0.test(*id, watched);
            }
        }
        Ok(!touched.is_empty())
    }

    fn set_cpu_ns(&mut self, _: u64) {}

    fn cpu_permille(&self) -> u64 {
        CPU_PERMILLE
    }
}
