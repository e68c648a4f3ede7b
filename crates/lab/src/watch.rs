//! Watch: the guardrails of one experiment.
//!
//! Owns        the metrics of an experiment; its sums by process, arm and metric; how the rate of false alarms is
//!             divided among the guardrails.
//! Invariants  W1 the guardrails of all arms and metrics together have the rate `alpha`. W2 sums of several nodes merge
//!             to those of one. W3 the sums of a process count once, and stay after its end: the newest that any node
//!             has of them. (tests `w*_*`)
//! Limits      `ACCOUNTS_MAX` accounts are remembered for `identifies`; past it the oldest are forgotten.
//!             `PROCESSES_MAX` processes; those of further ones are left out.
//! Not here    the test of one metric: `guardrail`. Samples: `guildhall_partition::SampleQueue`.

use crate::guardrail::{Guardrail, Interval, Moments, Verdict};
use guildhall_partition::SampleOf;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet, VecDeque};

/// Accounts that are remembered.
const ACCOUNTS_MAX: usize = 100_000;
/// Processes whose sums are kept: nodes, and their restarts while the experiment runs.
const PROCESSES_MAX: usize = 64;
/// Differences that the guardrails detect: a share of the control's mean.
const EFFECT: f64 = 0.1;
/// Differences of shares that they detect where the control has none.
const RATE_EFFECT_MIN: f64 = 0.1;
/// Milliseconds of waiting for the socket that they detect where the control has none.
const WAIT_EFFECT_MIN: f64 = 1.0;

/// A metric, of which more is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Bytes of frames per dispatch.
    WireBytes,
    /// CPU time of compression per dispatch, nanoseconds.
    CpuNs,
    /// Time for which a dispatch waited for the socket, milliseconds.
    WaitMs,
    /// Time from an event's guild to the socket, microseconds.
    DeliveryUs,
    /// Share of connections that began with a RESUME.
    Resumes,
    /// Share of IDENTIFYs of accounts that identified before.
    Identifies,
    /// Share of connections whose client could not decode its stream.
    DecodeFaults,
}

impl Metric {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::WireBytes,
        Self::CpuNs,
        Self::WaitMs,
        Self::DeliveryUs,
        Self::Resumes,
        Self::Identifies,
        Self::DecodeFaults,
    ];

    /// Name in `/v1` and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WireBytes => "wire_bytes",
            Self::CpuNs => "cpu_ns",
            Self::WaitMs => "wait_ms",
            Self::DeliveryUs => "delivery_us",
            Self::Resumes => "resumes",
            Self::Identifies => "identifies",
            Self::DecodeFaults => "decode_faults",
        }
    }
}

/// Parameters of the guardrails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WatchParams {
    /// Number of arms with the control.
    pub arms_count: usize,
    /// False-alarm rate of all guardrails together.
    pub alpha: f64,
    /// Share of the control's mean by which an arm may be worse. Decode faults have none.
    pub tolerance: f64,
    /// Samples of both arms before there is a verdict.
    pub samples_min: u64,
}

impl WatchParams {
    fn guardrail(&self, metric: Metric) -> Guardrail {
        let guardrails_count = Metric::ALL.len() * self.arms_count.saturating_sub(1).max(1);
        let of = Guardrail::new(self.alpha / guardrails_count as f64, EFFECT)
            .with_samples_min(self.samples_min)
            .with_tolerance(self.tolerance);
        match metric {
            Metric::WireBytes | Metric::CpuNs | Metric::DeliveryUs => of,
            Metric::WaitMs => of.with_effect_min(WAIT_EFFECT_MIN),
            Metric::Resumes | Metric::Identifies => of.with_effect_min(RATE_EFFECT_MIN).of_rate(),
            Metric::DecodeFaults => of.with_effect_min(RATE_EFFECT_MIN).with_tolerance(0.0).of_rate(),
        }
    }
}

/// Sums of an experiment's samples by arm, on one node or on several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchSums(Vec<ArmSums>);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct ArmSums {
    connections: u64,
    metrics: [Moments; Metric::ALL.len()],
}

impl WatchSums {
    fn of_arms(arms_count: usize) -> Self {
        Self(vec![ArmSums::default(); arms_count])
    }

    /// Sums of one process only grow: the larger ones are the newer.
    fn age(&self) -> u64 {
        let of_arm = |arm: &ArmSums| arm.connections + arm.metrics.iter().map(|sums| sums.count).sum::<u64>();
        self.0.iter().map(of_arm).sum()
    }

    /// Adds the sums of another process.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.connections += theirs.connections;
            mine.metrics.iter_mut().zip(&theirs.metrics).for_each(|(mine, theirs)| mine.merge(theirs));
        }
    }

    /// Connections that began in an arm.
    #[must_use]
    pub fn connections(&self, arm: usize) -> u64 {
        self.0.get(arm).map_or(0, |of| of.connections)
    }

    /// The metrics of an arm.
    #[must_use]
    pub fn report(&self, params: &WatchParams, arm: usize) -> Vec<MetricReport> {
        let (Some(of), Some(control)) = (self.0.get(arm), self.0.first()) else { return Vec::new() };
        let report = |metric: Metric| {
            let (sums, control) = (of.metrics[metric as usize], control.metrics[metric as usize]);
            let verdict = params.guardrail(metric).with_sums(control, sums).verdict();
            let verdict = if arm == 0 { Verdict::TooFew } else { verdict };
            MetricReport { metric, samples: sums.count, mean: sums.mean, control_mean: control.mean, verdict }
        };
        Metric::ALL.into_iter().map(report).collect()
    }
}

/// Sums of an experiment by the process that took the samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessSums(BTreeMap<u64, WatchSums>);

impl ProcessSums {
    /// Takes what another node has: of each process the newest sums. Those of another number of arms are left out.
    pub fn take(&mut self, theirs: Self, arms_count: usize) {
        for (process, sums) in theirs.0.into_iter().filter(|(_, sums)| sums.0.len() == arms_count && sums.age() > 0) {
            let has_room = self.0.len() < PROCESSES_MAX || self.0.contains_key(&process);
            if has_room && self.0.get(&process).is_none_or(|known| known.age() < sums.age()) {
                self.0.insert(process, sums);
            }
        }
    }

    /// Sums of all processes.
    #[must_use]
    pub fn merged(&self, arms_count: usize) -> WatchSums {
        let mut merged = WatchSums::of_arms(arms_count);
        self.0.values().for_each(|sums| merged.merge(sums));
        merged
    }
}

/// A metric of an arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricReport {
    /// The metric.
    pub metric: Metric,
    /// Samples of the arm.
    pub samples: u64,
    /// Mean of the arm.
    pub mean: f64,
    /// Mean of the control.
    pub control_mean: f64,
    /// Result of the guardrail; `TooFew` for the control.
    pub verdict: Verdict,
}

/// A guardrail's alarm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alarm {
    /// Position of the arm that is worse than the control.
    pub arm: usize,
    /// The metric in which it is.
    pub metric: Metric,
    /// Mean of the arm.
    pub mean: f64,
    /// Mean of the control.
    pub control_mean: f64,
    /// Difference, and what is not excluded.
    pub interval: Interval,
    /// Samples of the arm.
    pub samples: u64,
}

/// The guardrails of one experiment, with the samples of this process and the sums of others.
#[derive(Debug)]
pub struct Watch {
    params: WatchParams,
    /// Number of this process, which no other has.
    process: u64,
    sums: ProcessSums,
    accounts: HashSet<u64>,
    accounts_order: VecDeque<u64>,
}

impl Watch {
    /// Without samples.
    #[must_use]
    pub fn new(params: WatchParams, process: u64) -> Self {
        let sums = ProcessSums(BTreeMap::from([(process, WatchSums::of_arms(params.arms_count))]));
        Self { params, process, sums, accounts: HashSet::new(), accounts_order: VecDeque::new() }
    }

    /// Parameters of the guardrails.
    #[must_use]
    pub fn params(&self) -> &WatchParams {
        &self.params
    }

    /// Sums of all processes whose reports it has received.
    #[must_use]
    pub fn sums(&self) -> WatchSums {
        self.sums.merged(self.params.arms_count)
    }

    /// Sums of this process.
    #[must_use]
    pub fn own_sums(&self) -> Option<&WatchSums> {
        self.sums.0.get(&self.process)
    }

    /// The sums, by process.
    #[must_use]
    pub fn by_process(&self) -> &ProcessSums {
        &self.sums
    }

    /// Takes the sums that another node has.
    pub fn take(&mut self, theirs: ProcessSums) {
        self.sums.take(theirs, self.params.arms_count);
    }

    /// Takes a sample of an arm.
    pub fn push(&mut self, arm: usize, sample: SampleOf) {
        let is_first = match sample {
            SampleOf::Began { account_id, is_resume: false } => Some(self.meet(account_id)),
            _ => None,
        };
        let own = self.sums.0.get_mut(&self.process).and_then(|sums| sums.0.get_mut(arm));
        let Some(ArmSums { connections, metrics }) = own else { return };
        let mut push = |metric: Metric, value: f64| metrics[metric as usize].push(value);
        let share = |is_so: bool| f64::from(u8::from(is_so));
        match sample {
            SampleOf::Began { is_resume, .. } => {
                *connections += 1;
                push(Metric::Resumes, share(is_resume));
                is_first.into_iter().for_each(|is_first| push(Metric::Identifies, share(!is_first)));
            }
            SampleOf::Sent { dispatches, wire_bytes, timed, timed_ns, waited_ms, delivered, delivered_ns } => {
                let dispatches = dispatches.max(1) as f64;
                // None if the node does not count them.
                if wire_bytes > 0 {
                    push(Metric::WireBytes, wire_bytes as f64 / dispatches);
                }
                if timed > 0 {
                    push(Metric::CpuNs, timed_ns as f64 / f64::from(timed));
                }
                push(Metric::WaitMs, waited_ms as f64 / dispatches);
                if delivered > 0 {
                    push(Metric::DeliveryUs, delivered_ns as f64 / 1e3 / f64::from(delivered));
                }
                push(Metric::DecodeFaults, 0.0);
            }
            SampleOf::Ended { has_failed } => push(Metric::DecodeFaults, share(has_failed)),
        }
    }

    /// Remembers an account. False: it was known.
    fn meet(&mut self, account_id: u64) -> bool {
        if !self.accounts.insert(account_id) {
            return false;
        }
        self.accounts_order.push_back(account_id);
        if self.accounts_order.len() > ACCOUNTS_MAX
            && let Some(oldest) = self.accounts_order.pop_front()
        {
            self.accounts.remove(&oldest);
        }
        true
    }

    /// The first alarm of its guardrails. Any number of looks is fine.
    #[must_use]
    pub fn alarm(&self) -> Option<Alarm> {
        let sums = self.sums();
        (1..self.params.arms_count).find_map(|arm| {
            sums.report(&self.params, arm).into_iter().find_map(|report| match report.verdict {
                Verdict::Worse(interval) => {
                    let MetricReport { metric, samples, mean, control_mean, .. } = report;
                    Some(Alarm { arm, metric, mean, control_mean, interval, samples })
                }
                Verdict::TooFew | Verdict::Open(_) => None,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::Rng;

    const PARAMS: WatchParams = WatchParams { arms_count: 2, alpha: 0.05, tolerance: 0.05, samples_min: 30 };

    fn sent(wire_bytes: u64) -> SampleOf {
        SampleOf::Sent {
            dispatches: 64,
            wire_bytes,
            timed: 1,
            timed_ns: 9_000,
            waited_ms: 0,
            delivered: 40,
            delivered_ns: 40 * 300_000,
        }
    }

    /// Pushes the samples of connections until the alarm; the number of connections of each arm.
    fn until_alarm(watch: &mut Watch, each: impl Fn(&mut Rng, bool) -> Vec<SampleOf>) -> Option<(u64, Alarm)> {
        let mut rng = Rng::new(7);
        (1..=2_000).find_map(|count| {
            for arm in 0..2 {
                each(&mut rng, arm == 1).into_iter().for_each(|sample| watch.push(arm, sample));
            }
            Some((count, watch.alarm()?))
        })
    }

    #[test]
    fn an_arm_that_doubles_bytes_is_found_and_one_within_the_tolerance_is_not() {
        let each = |factor: f64| {
            move |rng: &mut Rng, is_treatment: bool| {
                let bytes = 6_000.0 + 6_000.0 * rng.fraction();
                vec![sent((bytes * if is_treatment { factor } else { 1.0 }) as u64)]
            }
        };
        let (count, alarm) = until_alarm(&mut Watch::new(PARAMS, 1), each(2.0)).expect("an alarm");
        assert_eq!((alarm.arm, alarm.metric), (1, Metric::WireBytes));
        assert!(count <= 40 && alarm.mean > 1.8 * alarm.control_mean, "{count} {alarm:?}");
        assert_eq!(until_alarm(&mut Watch::new(PARAMS, 1), each(1.03)), None);
        assert_eq!(until_alarm(&mut Watch::new(PARAMS, 1), each(0.5)), None, "fewer bytes are no harm");
    }

    #[test]
    fn clients_that_cannot_decode_are_found_at_the_minimum_of_samples() {
        let (count, alarm) = until_alarm(&mut Watch::new(PARAMS, 1), |_, is_treatment| match is_treatment {
            true => vec![SampleOf::Ended { has_failed: true }],
            false => vec![sent(6_000)],
        })
        .expect("an alarm");
        assert_eq!((count, alarm.metric), (30, Metric::DecodeFaults));
    }

    #[test]
    fn repeated_identifies_and_resumes_count() {
        let mut watch = Watch::new(PARAMS, 1);
        for account_id in 0..100 {
            watch.push(0, SampleOf::Began { account_id, is_resume: false });
            for _ in 0..3 {
                watch.push(1, SampleOf::Began { account_id: account_id + 1_000, is_resume: false });
            }
        }
        assert_eq!(watch.alarm().map(|alarm| alarm.metric), Some(Metric::Identifies));
        let mut watch = Watch::new(PARAMS, 1);
        for account_id in 0..100 {
            watch.push(0, SampleOf::Began { account_id, is_resume: account_id % 10 == 0 });
            watch.push(1, SampleOf::Began { account_id: account_id + 1_000, is_resume: account_id % 2 == 0 });
        }
        assert_eq!(watch.alarm().map(|alarm| alarm.metric), Some(Metric::Resumes));
    }

    /// Experiments of which `alarms` sound, of 200 with 1,000 connections of each arm.
    #[test]
    fn w1_two_hundred_experiments_without_a_difference_alarm_as_often_as_stated() {
        let params = WatchParams { tolerance: 0.0, samples_min: 200, ..PARAMS };
        let alarms = (0..200).filter(|seed| {
            let (mut rng, mut watch) = (Rng::new(*seed), Watch::new(params, 1));
            (0..1_000).any(|n| {
                for arm in 0..2 {
                    let account_id = rng.next_u64() % 500;
                    watch.push(arm, SampleOf::Began { account_id, is_resume: rng.below(10) == 0 });
                    let bytes = 3_000.0 - 3_000.0 * (1.0 - rng.fraction()).ln();
                    watch.push(
                        arm,
                        SampleOf::Sent {
                            dispatches: 64,
                            wire_bytes: bytes as u64,
                            timed: rng.below(3) as u32,
                            timed_ns: 5_000 + rng.below(20_000),
                            waited_ms: rng.below(20).saturating_sub(15),
                            delivered: 40,
                            delivered_ns: 40 * (100_000 + rng.below(400_000)),
                        },
                    );
                    if rng.below(100) == 0 {
                        watch.push(arm, SampleOf::Ended { has_failed: true });
                    }
                }
                n % 25 == 0 && watch.alarm().is_some()
            })
        });
        let count = alarms.count();
        assert!(count <= 10, "{count} false alarms of 200; the rate is 5 %");
    }

    #[test]
    fn w2_sums_of_two_nodes_give_the_report_of_one() {
        let (mut all, mut first, mut second) = (Watch::new(PARAMS, 1), Watch::new(PARAMS, 1), Watch::new(PARAMS, 2));
        for n in 0..200_u64 {
            let of_node = if n % 3 == 0 { &mut first } else { &mut second };
            for watch in [&mut all, of_node] {
                watch.push(0, sent(1_000 + n % 17));
                watch.push(1, sent(2_000 + n % 13));
            }
        }
        first.take(second.by_process().clone());
        let (one, two) = (all.sums().report(&PARAMS, 1)[0], first.sums().report(&PARAMS, 1)[0]);
        assert_eq!(one.samples, two.samples);
        assert!((one.mean - two.mean).abs() < 1e-9 && matches!(two.verdict, Verdict::Worse(_)));
    }

    #[test]
    fn w3_sums_of_a_process_count_once_and_outlive_it() {
        let push = |watch: &mut Watch, count: u64| (0..count).for_each(|n| watch.push(1, sent(1_000 + n)));
        let samples = |watch: &Watch| watch.sums().report(&PARAMS, 1)[0].samples;
        let (mut first, mut second) = (Watch::new(PARAMS, 1), Watch::new(PARAMS, 2));
        push(&mut first, 10);
        push(&mut second, 5);
        let early = second.by_process().clone();
        push(&mut second, 5);
        for theirs in [second.by_process().clone(), early, second.by_process().clone()] {
            first.take(theirs);
            assert_eq!(samples(&first), 20, "older sums replace no newer ones");
        }
        // The second node starts again: another process, which the first has not heard of.
        let mut again = Watch::new(PARAMS, 3);
        push(&mut again, 7);
        first.take(again.by_process().clone());
        assert_eq!(samples(&first), 27);
        again.take(first.by_process().clone());
        assert_eq!(samples(&again), 27, "it gets back what its predecessor had");
        // A copy of its own sums that comes back from another node is not newer.
        let copy = again.by_process().clone();
        push(&mut again, 1);
        again.take(copy);
        assert_eq!(samples(&again), 28);
        // Sums of another number of arms are of another experiment.
        first.take(ProcessSums(BTreeMap::from([(9, WatchSums::of_arms(3))])));
        (100..300).for_each(|process| first.take(Watch::new(PARAMS, process).by_process().clone()));
        assert_eq!(first.by_process().0.len(), 3, "a process without samples is not taken");
        for process in 100..300 {
            let mut other = Watch::new(PARAMS, process);
            push(&mut other, 1);
            first.take(other.by_process().clone());
        }
        assert_eq!((first.by_process().0.len(), samples(&first)), (PROCESSES_MAX, 27 + 61));
    }

    /// One experiment on four nodes: the sums are exchanged now and then, and one node tests them.
    fn cluster_alarms(seed: u64, worse: f64, all_judge: bool) -> bool {
        let params = WatchParams { tolerance: 0.0, samples_min: 100, ..PARAMS };
        let mut rng = Rng::new(seed);
        let mut nodes: Vec<Watch> = (0..4).map(|process| Watch::new(params, process)).collect();
        (0..400).any(|n| {
            for node in &mut nodes {
                for arm in 0..2 {
                    let factor = if arm == 1 { 1.0 + worse } else { 1.0 };
                    let bytes = (3_000.0 - 3_000.0 * (1.0 - rng.fraction()).ln()) * factor;
                    node.push(arm, sent(bytes as u64));
                }
            }
            if !all_judge && n % 10 == 0 {
                let shared: Vec<ProcessSums> = nodes.iter().map(|node| node.by_process().clone()).collect();
                nodes.iter_mut().for_each(|node| shared.iter().for_each(|theirs| node.take(theirs.clone())));
            }
            let judges = if all_judge { &nodes[..] } else { &nodes[..1] };
            judges.iter().any(|node| node.alarm().is_some())
        })
    }

    #[test]
    fn w1_four_nodes_that_share_their_sums_have_the_rate_of_one_and_find_more() {
        let count =
            |worse: f64, all_judge: bool| (0..200).filter(|seed| cluster_alarms(*seed, worse, all_judge)).count();
        let (none, shared, separate) = (count(0.0, false), count(0.1, false), count(0.1, true));
        println!("alarms of 200: none planted {none}; 10 % more bytes: shared {shared}, each node alone {separate}");
        assert!(none <= 10, "{none} false alarms of 200; the rate is 5 %");
        assert!(shared > separate && shared >= 150, "{shared} with shared sums, {separate} without");
    }
}
