//! Metrics of experiments.
//!
//! Limits      figures of `EXPERIMENTS_SHOWN` experiments, the oldest that run; the state of each one that is stored.

use super::{Label, Snapshot, Writer};
use std::fmt;

/// Experiments whose figures are shown: 8 arms and 7 metrics each at most.
pub const EXPERIMENTS_SHOWN: usize = 8;

/// The experiments of a node.
#[derive(Clone, Debug, Default)]
pub struct ExperimentFigures {
    /// Name and state of each one that is stored.
    pub states: Vec<(String, &'static str)>,
    /// Arms of running ones.
    pub arms: Vec<ArmFigures>,
    /// Samples of connections that were dropped.
    pub samples_dropped_total: u64,
}

/// An arm of a running experiment, by the samples of this node since its start.
#[derive(Clone, Debug, Default)]
pub struct ArmFigures {
    /// Name of the experiment: letters, digits, `-`, `_` and `.`.
    pub experiment: String,
    /// Name of the arm, of the same characters.
    pub arm: String,
    /// Connections that began in it.
    pub connections_total: u64,
    /// Metrics, each with its samples and their mean.
    pub metrics: Vec<(&'static str, u64, f64)>,
}

impl Snapshot {
    /// Nothing without an experiment.
    pub(super) fn experiments(&self, out: &mut Writer<'_>) -> fmt::Result {
        let ExperimentFigures { states, arms, samples_dropped_total } = &self.experiments;
        if states.is_empty() {
            return Ok(());
        }
        let label = |name: &'static str, value: &str| -> Label { (name, value.to_owned()) };
        let by_state: Vec<_> = states
            .iter()
            .map(|(name, state)| (vec![label("experiment", name), label("state", state)], 1_u64))
            .collect();
        out.gauges("experiment_state", "1 for the state of each experiment", &by_state)?;
        let help = "Samples of connections in experiments that were dropped, because too many waited";
        out.counter("experiment_samples_dropped", help, *samples_dropped_total)?;
        if arms.is_empty() {
            return Ok(());
        }
        let of_arm = |of: &ArmFigures| vec![label("experiment", &of.experiment), label("arm", &of.arm)];
        let connections: Vec<_> = arms.iter().map(|of| (of_arm(of), of.connections_total)).collect();
        out.counters("experiment_connections", "Connections that began in an arm", &connections)?;
        let metrics = || {
            arms.iter().flat_map(move |of| {
                let labels = of_arm(of);
                of.metrics.iter().map(move |(metric, samples, mean)| {
                    ([labels.clone(), vec![label("metric", metric)]].concat(), *samples, *mean)
                })
            })
        };
        let samples: Vec<_> = metrics().map(|(labels, samples, _)| (labels, samples)).collect();
        out.counters("experiment_samples", "Samples of an arm by metric", &samples)?;
        let means: Vec<_> =
            metrics().filter(|(_, samples, _)| *samples > 0).map(|(labels, _, mean)| (labels, mean)).collect();
        out.gauges_f64("experiment_mean", "Mean of these samples, in the metric's unit", &means)
    }
}
