//! Compression: contexts, the loop of upgrades, and shared-match.

use super::{Reports, lock};
use crate::upgrades::UpgradeStatus;
use guildhall_accounting::report::{CompressionReport, ContextKind, SharedMatch, UpgradesReport};
use guildhall_codec::ContextStats;
use guildhall_memory_budget::BudgetState;
use guildhall_net::PartitionState;
use guildhall_partition::Counters;

impl Reports {
    pub(super) async fn compression_report(&self) -> CompressionReport {
        let states = self.collect(|metrics| metrics.partitions.inspect()).await.unwrap_or_default();
        let stats = self.metrics.contexts.stats();
        let upgrades = lock(&self.upgrades).as_ref().map(|read| read());
        let mut counters = Counters::default();
        states.iter().for_each(|state| counters += state.counters);
        CompressionReport {
            at_ms: self.at_ms(),
            streams: self.streams.to_owned(),
            contexts: kinds(&stats),
            bytes_max: stats.bytes_max,
            stored_total: stats.stored_total,
            upgrades: upgrades.map(|status| upgrades_report(&status, &stats)),
            shared_match: shared_match(&states),
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

fn upgrades_report(status: &UpgradeStatus, stats: &ContextStats) -> UpgradesReport {
    let (standing, explanation) = match status.decision.state {
        BudgetState::Blind => ("blind", "Memory cannot be read, so nobody gets a larger context."),
        BudgetState::Room => ("room", "There is room: a share of new connections gets a larger context."),
        BudgetState::Full => ("full", "Larger contexts hold all that they may hold."),
        BudgetState::Tight => ("tight", "There is no room, or was none lately: new connections get small contexts."),
        BudgetState::Reclaiming => {
            ("reclaiming", "Memory is short: the node asks clients with larger contexts to reconnect.")
        }
    };
    UpgradesReport {
        standing: standing.to_owned(),
        explanation: explanation.to_owned(),
        share_permille: status.decision.share_permille.into(),
        granted_total: stats.upgrades.granted_total,
        denied_total: stats.upgrades.denied_total,
        reclaimed_total: status.taken_back_total,
    }
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
