//! Overview: connections, delivery, loops and memory.

use super::Reports;
use crate::{memory::MemoryReader, metrics::Metrics};
use guildhall_accounting::{
    DurationsSnapshot,
    report::{Connections, Loop, Memory, Named, OverviewReport},
};
use guildhall_backend::NodeReports as _;
use guildhall_guild_protocol::PartitionId;
use guildhall_net::PartitionState;
use guildhall_partition::Census;
use std::collections::BTreeMap;

impl Reports {
    pub(super) async fn overview_report(&self) -> OverviewReport {
        let state = self.state();
        let census = self.census().await;
        let memory_bytes_max = self.memory_bytes_max;
        let collected = self.collect(move |metrics| {
            let states = metrics.partitions.inspect();
            let mut delivery = DurationsSnapshot::default();
            states.iter().for_each(|state| delivery.add(&state.latency));
            let sockets = metrics.http.state().sockets as u64;
            OverviewReport {
                connections: Connections { sockets, ..connections(&states, census) },
                delivery: (&delivery).into(),
                loops: metrics.loop_reports().iter().map(Loop::from).collect(),
                memory: memory(&metrics, memory_bytes_max),
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

    pub(super) async fn census(&self) -> Census {
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

fn memory(metrics: &Metrics, bytes_max: Option<u64>) -> Memory {
    let read = MemoryReader::new(bytes_max).read().ok();
    Memory {
        resident_bytes: read.map_or(0, |memory| memory.process_bytes),
        limit_bytes: read.map(|memory| memory.limit_bytes),
        owners: metrics.owners.last().to_vec(),
    }
}
