//! Compression: contexts, the loop of upgrades, and shared-match.

use super::{Reports, lock};
use guildhall_accounting::report::{CompressionReport, ContextKind, ContextMoves, SharedMatch};
use guildhall_codec::ContextStats;
use guildhall_net::PartitionState;
use guildhall_partition::Counters;

impl Reports {
    pub(super) async fn compression_report(&self) -> CompressionReport {
        let states = self.collect(|metrics| metrics.partitions.inspect()).await.unwrap_or_default();
        let stats = self.metrics.contexts.stats();
        let upgrades = lock(&self.upgrades).as_ref().map(|read| read(&stats));
        let mut counters = Counters::default();
        states.iter().for_each(|state| counters += state.counters);
        CompressionReport {
            at_ms: self.at_ms(),
            streams: self.streams.to_owned(),
            contexts: kinds(&stats),
            bytes_max: stats.bytes_max,
            stored_total: stats.stored_total,
            upgrades,
            shared_match: shared_match(&states),
            context_moves: context_moves(&states),
            deflate_shared_bodies_total: counters.deflate_shared_bodies_total,
        }
    }
}

fn kinds(stats: &ContextStats) -> Vec<ContextKind> {
    let kinds = [("zlib", &stats.zlib), ("zstd", &stats.zstd), ("zstd_upgraded", &stats.zstd_upgraded)];
    let kind = |(kind, pool): (&str, &guildhall_slab::PoolStats)| ContextKind {
        kind: kind.to_owned(),
        used: pool.slots_used,
        slot_bytes: pool.slot_bytes,
        resident_bytes: pool.resident_bytes,
        opened_total: pool.opened_total,
        refused_total: pool.refused_total,
    };
    kinds.into_iter().map(kind).collect()
}

fn context_moves(states: &[PartitionState]) -> ContextMoves {
    let mut sum = guildhall_partition::ContextMoves::default();
    states.iter().for_each(|state| sum += state.context_moves);
    ContextMoves { crowd_total: sum.crowd, cpu_total: sum.cpu, memory_total: sum.memory }
}

fn shared_match(states: &[PartitionState]) -> SharedMatch {
    let mut sum = guildhall_shared_match::Counters::default();
    let mut report = SharedMatch::default();
    for state in states {
        let (counters, heap_bytes) = state.shared_match;
        sum += counters;
        report.heap_bytes += heap_bytes as u64;
        report.checked_total += state.shared_match_checked.messages_total;
        report.mismatches_total += state.shared_match_checked.mismatches_total;
    }
    SharedMatch {
        texts_total: sum.bodies_total,
        parses_total: sum.parses_total,
        written_total: sum.written_total,
        fallbacks_total: sum.fallbacks_total,
        late_total: sum.late_total,
        alone_total: sum.standalone_total,
        ..report
    }
}
