//! Watch: the guardrails of one experiment.
//!
//! Owns        the metrics of an experiment; its sums by arm and metric; how the rate of false alarms is divided
//!             among the guardrails.
//! Invariants  W1 the guardrails of all arms and metrics together have the rate `alpha`. W2 sums of several nodes merge
//!             to those of one. (tests `w*_*`)
//! Limits      `ACCOUNTS_MAX` accounts are remembered for `identifies`; past it the oldest are forgotten.
//! Not here    the test of one metric: `guardrail`. Samples: `guildhall_partition::SampleQueue`.

use crate::guardrail::{Guardrail, Interval, Moments, Verdict};
use guildhall_partition::SampleOf;
use serde::{Deserialize, Serialize};
use std::collections::{HashSet, VecDeque};

/// Accounts that are remembered.
const ACCOUNTS_MAX: usize = 100_000;
/// Differences that the guardrails look for: a share of the control's mean.
const EFFECT: f64 = 0.1;
/// Differences of shares that they look for where the control has none.
const RATE_EFFECT_MIN: f64 = 0.1;
/// Milliseconds of waiting for the socket that they look for where the control has none.
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
    /// Share of connections that began with a RESUME.
    Resumes,
    /// Share of IDENTIFYs of accounts that identified before.
    Identifies,
    /// Share of connections whose client could not decode its stream.
    DecodeFaults,
}

impl Metric {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::WireBytes, Self::CpuNs, Self::WaitMs, Self::Resumes, Self::Identifies, Self::DecodeFaults];

    /// Name in `/v1` and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WireBytes => "wire_bytes",
            Self::CpuNs => "cpu_ns",
            Self::WaitMs => "wait_ms",
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
            Metric::WireBytes | Metric::CpuNs => of,
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
    /// Adds the sums of another node.
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

/// The guardrails of one experiment on one node.
#[derive(Debug)]
pub struct Watch {
    params: WatchParams,
    sums: WatchSums,
    accounts: HashSet<u64>,
    accounts_order: VecDeque<u64>,
}

impl Watch {
    /// Without samples.
    #[must_use]
    pub fn new(params: WatchParams) -> Self {
        let sums = WatchSums(vec![ArmSums::default(); params.arms_count]);
        Self { params, sums, accounts: HashSet::new(), accounts_order: VecDeque::new() }
    }

    /// Parameters of the guardrails.
    #[must_use]
    pub fn params(&self) -> &WatchParams {
        &self.params
    }

    /// Sums so far.
    #[must_use]
    pub fn sums(&self) -> &WatchSums {
        &self.sums
    }

    /// Takes a sample of an arm.
    pub fn push(&mut self, arm: usize, sample: SampleOf) {
        let is_first = match sample {
            SampleOf::Began { account_id, is_resume: false } => Some(self.meet(account_id)),
            _ => None,
        };
        let Some(ArmSums { connections, metrics }) = self.sums.0.get_mut(arm) else { return };
        let mut push = |metric: Metric, value: f64| metrics[metric as usize].push(value);
        let share = |is_so: bool| f64::from(u8::from(is_so));
        match sample {
            SampleOf::Began { is_resume, .. } => {
                *connections += 1;
                push(Metric::Resumes, share(is_resume));
                is_first.into_iter().for_each(|is_first| push(Metric::Identifies, share(!is_first)));
            }
            SampleOf::Sent { dispatches, wire_bytes, timed, timed_ns, waited_ms } => {
                let dispatches = dispatches.max(1) as f64;
                // None if the node does not count them.
                if wire_bytes > 0 {
                    push(Metric::WireBytes, wire_bytes as f64 / dispatches);
                }
                if timed > 0 {
                    push(Metric::CpuNs, timed_ns as f64 / f64::from(timed));
                }
                push(Metric::WaitMs, waited_ms as f64 / dispatches);
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
        (1..self.params.arms_count).find_map(|arm| {
            self.sums.report(&self.params, arm).into_iter().find_map(|report| match report.verdict {
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
        SampleOf::Sent { dispatches: 64, wire_bytes, timed: 1, timed_ns: 9_000, waited_ms: 0 }
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
        let (count, alarm) = until_alarm(&mut Watch::new(PARAMS), each(2.0)).expect("an alarm");
        assert_eq!((alarm.arm, alarm.metric), (1, Metric::WireBytes));
        assert!(count <= 40 && alarm.mean > 1.8 * alarm.control_mean, "{count} {alarm:?}");
        assert_eq!(until_alarm(&mut Watch::new(PARAMS), each(1.03)), None);
        assert_eq!(until_alarm(&mut Watch::new(PARAMS), each(0.5)), None, "fewer bytes are no harm");
    }

    #[test]
    fn clients_that_cannot_decode_are_found_at_the_minimum_of_samples() {
        let (count, alarm) = until_alarm(&mut Watch::new(PARAMS), |_, is_treatment| match is_treatment {
            true => vec![SampleOf::Ended { has_failed: true }],
            false => vec![sent(6_000)],
        })
        .expect("an alarm");
        assert_eq!((count, alarm.metric), (30, Metric::DecodeFaults));
    }

    #[test]
    fn repeated_identifies_and_resumes_count() {
        let mut watch = Watch::new(PARAMS);
        for account_id in 0..100 {
            watch.push(0, SampleOf::Began { account_id, is_resume: false });
            for _ in 0..3 {
                watch.push(1, SampleOf::Began { account_id: account_id + 1_000, is_resume: false });
            }
        }
        assert_eq!(watch.alarm().map(|alarm| alarm.metric), Some(Metric::Identifies));
        let mut watch = Watch::new(PARAMS);
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
            let (mut rng, mut watch) = (Rng::new(*seed), Watch::new(params));
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
        let (mut all, mut first, mut second) = (Watch::new(PARAMS), Watch::new(PARAMS), Watch::new(PARAMS));
        for n in 0..200_u64 {
            let of_node = if n % 3 == 0 { &mut first } else { &mut second };
            for watch in [&mut all, of_node] {
                watch.push(0, sent(1_000 + n % 17));
                watch.push(1, sent(2_000 + n % 13));
            }
        }
        let mut merged = first.sums().clone();
        merged.merge(second.sums());
        let (one, two) = (all.sums().report(&PARAMS, 1)[0], merged.report(&PARAMS, 1)[0]);
        assert_eq!(one.samples, two.samples);
        assert!((one.mean - two.mean).abs() < 1e-9 && matches!(two.verdict, Verdict::Worse(_)));
    }
}
