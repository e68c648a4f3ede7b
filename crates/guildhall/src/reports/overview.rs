//! Overview: connections, delivery, loops and memory.

use super::Reports;
use crate::{memory::MemoryReader, metrics::Metrics};
use guildhall_accounting::{
    Reading,
    report::{Connections, Loop, Memory, Named, OverviewReport, Owner, Times},
};
use guildhall_api::NodeReports as _;
use guildhall_guild_protocol::PartitionId;
use guildhall_net::PartitionState;
use guildhall_partition::Census;
use guildhall_stdx::{HISTOGRAM_BOUNDS_US, Histogram};
use std::collections::BTreeMap;

impl Reports {
    pub(super) async fn overview_report(&self) -> OverviewReport {
        let state = self.state();
        let census = self.census().await;
        let memory_bytes_max = self.memory_bytes_max;
        let collected = self.collect(move |metrics| {
            let states = metrics.partitions.inspect();
            let mut delivery = Histogram::default();
            states.iter().for_each(|state| delivery += state.latency);
            let sockets = metrics.http.state().sockets as u64;
            OverviewReport {
                connections: Connections { sockets, ..connections(&states, census) },
                totals: totals(&metrics),
                delivery: times(&delivery),
                loops: metrics.loop_reports().iter().map(Loop::from).collect(),
                memory: memory(&metrics, &states, memory_bytes_max),
                ..OverviewReport::default()
            }
        });
        OverviewReport {
            at_ms: self.at_ms(),
            started_at_ms: u64::try_from(state.started_at.0).unwrap_or(0),
            version: state.version.to_owned(),
            not_ready: state.not_ready.map(ToOwned::to_owned),
            ..collected.await.unwrap_or_default()
        }
    }

    async fn census(&self) -> Census {
        let mut sum = Census::default();
        for partition in 0..self.metrics.partitions.count() as u16 {
            let look = self.metrics.partitions.look(PartitionId(partition), |_, partition| partition.census());
            // A partition that has ended has no sessions.
            sum += look.await.unwrap_or_default();
        }
        sum
    }
}

fn connections(states: &[PartitionState], census: Census) -> Connections {
    let sum = |of: fn(&PartitionState) -> usize| states.iter().map(of).sum::<usize>() as u64;
    let (sessions, live) = (sum(|state| state.sessions_count), sum(|state| state.attached_count));
    Connections {
        sockets: 0,
        gateway: sum(|state| state.conns_count),
        sessions_live: live,
        sessions_resumable: sessions.saturating_sub(live),
        by_codec: named(&census.by_codec),
        by_encoding: named(&census.by_encoding),
        by_platform: named(&census.by_platform),
        active: census.active,
        passive: census.passive,
    }
}

fn named(counts: &BTreeMap<&'static str, u64>) -> Vec<Named> {
    counts.iter().map(|(name, count)| Named::new(*name, *count)).collect()
}

/// Counters without labels.
fn totals(metrics: &Metrics) -> BTreeMap<String, u64> {
    let counters = metrics.readings().into_iter().filter_map(|(name, reading)| match reading {
        Reading::Counter(value) if !name.contains('{') => Some((name, value as u64)),
        Reading::Counter(_) | Reading::Gauge(_) | Reading::Histogram(_) => None,
    });
    counters.collect()
}

/// A histogram of microseconds. Its maximum is the bound of the last bucket that has any.
fn times(histogram: &Histogram) -> Times {
    let bounds = HISTOGRAM_BOUNDS_US.iter().map(|us| us * 1_000).chain([u64::MAX]);
    let buckets: Vec<(u64, u64)> = bounds.zip(histogram.counts().iter().copied()).filter(|(_, n)| *n > 0).collect();
    let count = histogram.count();
    let quantile = |share: f64| {
        let rank = ((count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let found = buckets.iter().find(|(_, n)| {
            seen += n;
            seen >= rank
        });
        found.map_or(0, |(bound, _)| *bound)
    };
    Times {
        count_total: count,
        ns_total: histogram.sum_us().saturating_mul(1_000),
        max_ns: buckets.last().map_or(0, |(bound, _)| *bound),
        p50_ns: quantile(0.5),
        p99_ns: quantile(0.99),
        buckets,
    }
}

/// What parts of the node hold; they know it exactly.
fn memory(metrics: &Metrics, states: &[PartitionState], bytes_max: Option<u64>) -> Memory {
    let read = MemoryReader::new(bytes_max).read().ok();
    let contexts = metrics.contexts.stats();
    let owner =
        |name: &str, bytes: u64, elements: u64| Owner { name: name.to_owned(), bytes, elements, is_exact: true };
    let shared = states.iter().map(|state| state.shared_match.1 as u64).sum();
    let pools = [
        ("compression_zlib", &contexts.zlib),
        ("compression_zstd", &contexts.zstd),
        ("compression_zstd_upgraded", &contexts.zstd_upgraded),
    ];
    let mut owners: Vec<Owner> =
        pools.iter().map(|(name, pool)| owner(name, pool.resident_bytes, pool.slots_used)).collect();
    owners.push(owner("shared_match", shared, states.len() as u64));
    owners.retain(|owner| owner.bytes > 0);
    owners.sort_by_key(|owner| std::cmp::Reverse(owner.bytes));
    Memory {
        resident_bytes: read.map_or(0, |memory| memory.process_bytes),
        limit_bytes: read.map(|memory| memory.limit_bytes),
        owners,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_told_by_its_bounds() {
        let mut histogram = Histogram::default();
        (0..98).for_each(|_| histogram.record(40));
        histogram.record(900);
        histogram.record(2_000_000);
        let told = times(&histogram);
        assert_eq!((told.count_total, told.p50_ns, told.p99_ns, told.max_ns), (100, 50_000, 1_000_000, 5_000_000_000));
        assert_eq!(told.buckets, [(50_000, 98), (1_000_000, 1), (5_000_000_000, 1)]);
        assert_eq!(times(&Histogram::default()), Times::default());
    }
}
