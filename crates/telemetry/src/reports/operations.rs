//! Operations: settings in force, refusals by reason, and recent warnings.

use super::{Reports, lock};
use crate::logging;
use guildhall_accounting::report::{OperationsReport, Refusal, Setting};
use guildhall_settings::{Effective, Loaded, Origin};
use std::sync::atomic::Ordering;

impl Reports {
    pub(super) async fn operations_report(&self) -> OperationsReport {
        let states = self.collect(|metrics| metrics.partitions.inspect()).await.unwrap_or_default();
        OperationsReport {
            at_ms: self.at_ms(),
            settings: lock(&self.settings).clone(),
            is_draining: self.is_draining.load(Ordering::Relaxed),
            refused: self.refused(),
            slow_consumers_total: states.iter().map(|state| state.counters.slow_consumers_total).sum(),
            warnings: logging::recent_warnings(),
        }
    }

    fn refused(&self) -> Vec<Refusal> {
        let (node, partitions, http) = (&self.metrics.node, &self.metrics.partitions, self.metrics.http.state());
        let sockets = vec![
            ("full", http.refused_full_total),
            ("handshakes", http.refused_handshakes_total),
            ("address", http.refused_address_total),
            ("descriptors", http.refused_descriptors_total),
        ];
        let all = [
            ("token", node.refused_tokens()),
            ("key", node.refused_keys()),
            ("identify", partitions.refused_identifies()),
            ("resume", partitions.refused_resumes()),
            ("socket", sockets),
        ];
        let refusal = |what: &str, (reason, count_total): (&str, u64)| Refusal {
            what: what.to_owned(),
            reason: reason.to_owned(),
            count_total,
        };
        let each = all.into_iter().flat_map(|(what, counts)| counts.into_iter().map(move |count| refusal(what, count)));
        each.filter(|refusal| refusal.count_total > 0).collect()
    }
}

/// Every setting with its value, its source, and whether a reload applies it. No secrets (C3 of `guildhall_settings`).
pub(super) fn settings(loaded: &Loaded) -> Vec<Setting> {
    let setting = |entry: &Effective| Setting {
        name: format!("{}.{}", entry.section, entry.key),
        value: entry.text.clone().unwrap_or_default(),
        origin: match &entry.origin {
            Origin::Default => "default".to_owned(),
            origin => origin.to_string(),
        },
        is_live: entry.is_live,
    };
    loaded.effective.iter().map(setting).collect()
}
