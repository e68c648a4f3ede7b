//! Metrics of loops: what each spends its time on, by message type.

use super::{Snapshot, Writer};
use guildhall_accounting::DurationsSnapshot;
use std::{collections::BTreeMap, fmt};

/// Upper bounds of handling one message: 10 µs to 1 s.
const HANDLING_NS: [u64; 6] = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
/// Upper bounds of waiting in a mailbox: 100 µs to 10 s.
const WAITING_NS: [u64; 6] = [100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000];

impl Snapshot {
    /// Sums over loops of the same name, except where a label says which.
    pub(super) fn loops(&self, out: &mut Writer<'_>) -> fmt::Result {
        let mut handling: BTreeMap<(&str, &str), DurationsSnapshot> = BTreeMap::new();
        let mut waiting: BTreeMap<&str, DurationsSnapshot> = BTreeMap::new();
        for report in &self.loops {
            waiting.entry(report.name).or_default().add(&report.waits);
            for kind in &report.kinds {
                handling.entry((report.name, &kind.name)).or_default().add(&kind.times);
            }
        }
        let of_loop = |name: &str, index: usize| vec![("loop", name.to_owned()), ("index", index.to_string())];
        let busy: Vec<_> = self.loops.iter().map(|l| (of_loop(l.name, l.index), l.busy_ns as f64 / 1e9)).collect();
        out.counters_f64("loop_busy_seconds", "Time a loop worked: its rate is its share of a core", &busy)?;
        let depths: Vec<_> = self.loops.iter().map(|l| (of_loop(l.name, l.index), l.mailbox)).collect();
        out.gauges("loop_mailbox_messages", "Messages that the loop found in its mailbox last", &depths)?;
        let handling = handling
            .iter()
            .map(|((name, kind), times)| (vec![("loop", (*name).to_owned()), ("type", (*kind).to_owned())], times));
        out.durations("loop_handling_seconds", "Wall time of one message, by its type", handling, &HANDLING_NS)?;
        let waiting = waiting.iter().map(|(name, times)| (vec![("loop", (*name).to_owned())], times));
        let help = "Time that the oldest message of a batch waited in the mailbox";
        out.durations("loop_waiting_seconds", help, waiting, &WAITING_NS)
    }
}
