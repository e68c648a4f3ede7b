//! Writer: takes one metric after the other, as text for Prometheus or as readings for the history.
//!
//! Invariants  both forms have the same series, because the same calls write them: a reading's name is the metric's,
//!             without `guildhall_` and `_total`, with its labels.

use guildhall_accounting::{DurationsSnapshot, Reading};
use prometheus_client::{
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
};
use std::{collections::BTreeMap, fmt};

/// Label name and value.
pub(super) type Label = (&'static str, String);

/// Where metrics go.
pub(super) enum Writer<'a> {
    /// Into the text of `/metrics`.
    Text(DescriptorEncoder<'a>),
    /// By name and labels.
    Readings(&'a mut BTreeMap<String, Reading>),
}

/// `name{label="value"}`; no label of ours needs an escape.
fn series(name: &str, labels: &[Label]) -> String {
    if labels.is_empty() {
        return name.to_owned();
    }
    let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    format!("{name}{{{}}}", labels.join(","))
}

impl Writer<'_> {
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        match self {
            Self::Text(text) => {
                let mut metric = text.encode_descriptor(name, help, None, MetricType::Counter)?;
                metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
            }
            Self::Readings(all) => keep(all, series(name, &[]), Reading::Counter(value as f64)),
        }
    }

    pub fn counter_f64(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        match self {
            Self::Text(text) => {
                let mut metric = text.encode_descriptor(name, help, None, MetricType::Counter)?;
                metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
            }
            Self::Readings(all) => keep(all, series(name, &[]), Reading::Counter(value)),
        }
    }

    pub fn counters(&mut self, name: &str, help: &str, values: &[(Vec<Label>, u64)]) -> fmt::Result {
        match self {
            Self::Text(text) => {
                let mut family = text.encode_descriptor(name, help, None, MetricType::Counter)?;
                values.iter().try_for_each(|(labels, value)| {
                    family.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(value, None)
                })
            }
            Self::Readings(all) => values
                .iter()
                .try_for_each(|(labels, value)| keep(all, series(name, labels), Reading::Counter(*value as f64))),
        }
    }

    pub fn counters_f64(&mut self, name: &str, help: &str, values: &[(Vec<Label>, f64)]) -> fmt::Result {
        match self {
            Self::Text(text) => {
                let mut family = text.encode_descriptor(name, help, None, MetricType::Counter)?;
                values.iter().try_for_each(|(labels, value)| {
                    family.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(value, None)
                })
            }
            Self::Readings(all) => {
                values.iter().try_for_each(|(labels, value)| keep(all, series(name, labels), Reading::Counter(*value)))
            }
        }
    }

    pub fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        match self {
            Self::Text(text) => text.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value),
            Self::Readings(all) => keep(all, series(name, &[]), Reading::Gauge(value as f64)),
        }
    }

    pub fn gauge_f64(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        match self {
            Self::Text(text) => text.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value),
            Self::Readings(all) => keep(all, series(name, &[]), Reading::Gauge(value)),
        }
    }

    pub fn gauges(&mut self, name: &str, help: &str, values: &[(Vec<Label>, u64)]) -> fmt::Result {
        match self {
            Self::Text(text) => {
                let mut family = text.encode_descriptor(name, help, None, MetricType::Gauge)?;
                values.iter().try_for_each(|(labels, value)| family.encode_family(labels)?.encode_gauge(value))
            }
            Self::Readings(all) => values
                .iter()
                .try_for_each(|(labels, value)| keep(all, series(name, labels), Reading::Gauge(*value as f64))),
        }
    }

    pub fn gauges_f64(&mut self, name: &str, help: &str, values: &[(Vec<Label>, f64)]) -> fmt::Result {
        match self {
            Self::Text(text) => {
                let mut family = text.encode_descriptor(name, help, None, MetricType::Gauge)?;
                values.iter().try_for_each(|(labels, value)| family.encode_family(labels)?.encode_gauge(value))
            }
            Self::Readings(all) => {
                values.iter().try_for_each(|(labels, value)| keep(all, series(name, labels), Reading::Gauge(*value)))
            }
        }
    }

    pub fn histogram(&mut self, name: &str, help: &str, times: &DurationsSnapshot, bounds_ns: &[u64]) -> fmt::Result {
        let buckets = buckets(times, bounds_ns);
        match self {
            Self::Text(text) => {
                let mut metric = text.encode_descriptor(name, help, None, MetricType::Histogram)?;
                metric.encode_histogram::<NoLabelSet>(times.total_ns as f64 / 1e9, times.count(), &buckets, None)
            }
            Self::Readings(all) => keep(all, series(name, &[]), Reading::Histogram(buckets)),
        }
    }

    pub fn durations<'b>(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = (Vec<Label>, &'b DurationsSnapshot)>,
        bounds_ns: &[u64],
    ) -> fmt::Result {
        match self {
            Self::Text(text) => {
                let mut family = text.encode_descriptor(name, help, None, MetricType::Histogram)?;
                for (labels, times) in values {
                    let (sum, buckets) = (times.total_ns as f64 / 1e9, buckets(times, bounds_ns));
                    let mut metric = family.encode_family(&labels)?;
                    metric.encode_histogram::<NoLabelSet>(sum, times.count(), &buckets, None)?;
                }
            }
            Self::Readings(all) => {
                for (labels, times) in values {
                    keep(all, series(name, &labels), Reading::Histogram(buckets(times, bounds_ns)))?;
                }
            }
        }
        Ok(())
    }
}

fn keep(all: &mut BTreeMap<String, Reading>, series: String, reading: Reading) -> fmt::Result {
    all.insert(series, reading);
    Ok(())
}

/// Upper bounds in seconds, the last infinite, and the number in each bucket alone.
fn buckets(times: &DurationsSnapshot, bounds_ns: &[u64]) -> Vec<(f64, u64)> {
    let cumulative = times.cumulative(bounds_ns).into_iter().chain([times.count()]);
    let mut below = 0;
    let own = cumulative.map(|n| n - std::mem::replace(&mut below, n));
    let bounds = bounds_ns.iter().map(|ns| *ns as f64 / 1e9).chain([f64::INFINITY]);
    bounds.zip(own).collect()
}
