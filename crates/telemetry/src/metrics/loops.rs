//! Metrics of loops: what each spends its time on, by message type.

use super::{Snapshot, Writer};
use guildhall_accounting::DurationsSnapshot;
use std::{collections::BTreeMap, fmt};

/// Upper bounds of handling one message: 10 µs to 1 s.
const HANDLING_NS: [u64; 6] = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
/// Upper bounds of a canary's way: 1 ms to 10 s.
const CANARY_NS: [u64; 6] = [1_000_000, 5_000_000, 25_000_000, 100_000_000, 1_000_000_000, 10_000_000_000];
/// Upper bounds of a REST request: 1 ms to 10 s.
const REQUEST_NS: [u64; 6] = [1_000_000, 5_000_000, 25_000_000, 100_000_000, 1_000_000_000, 10_000_000_000];
/// Upper bounds of waiting in a mailbox: 100 µs to 10 s.
const WAITING_NS: [u64; 6] = [100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000];

impl Snapshot {
    /// Sums over loops of the same name, except where a label has the loop's number.
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

    /// By method and route.
    pub(super) fn rest(&self, out: &mut Writer<'_>) -> fmt::Result {
        let routes = self.rest.kinds.iter().map(|kind| (vec![("route", kind.name.clone())], &kind.times));
        let help = "Wall time of a REST request until the head of its answer, by method and route";
        out.durations("rest_request_seconds", help, routes, &REQUEST_NS)
    }

    pub(super) fn canaries(&self, out: &mut Writer<'_>) -> fmt::Result {
        let (counts, classes) = &self.canaries;
        let class = |from: &u64| vec![("members_from", from.to_string())];
        let classes = classes.iter().map(|(from, times)| (class(from), times));
        let help = "From the creation of a canary to its relay's flush, by the size of the guild";
        out.durations("canary_seconds", help, classes, &CANARY_NS)?;
        out.counter("canaries_sent", "Canaries sent to relays", counts.sent)?;
        out.counter("canaries_returned", "Canaries that relays have returned", counts.returned)?;
        out.gauge("relay_ghosts", "Relays that do not deliver: they return no canaries", counts.ghosts)
    }

    pub(super) fn traces(&self, out: &mut Writer<'_>) -> fmt::Result {
        let traces = self.traces;
        let why = |name: &str| vec![("why", name.to_owned())];
        out.counter("traces_exported", "Traces that the collector has taken", traces.exported)?;
        out.counters(
            "traces_dropped",
            "Traces that were lost: the exporter's queue was full, or the collector did not take them",
            &[(why("queue_full"), traces.dropped_full), (why("export_failed"), traces.dropped_failed)],
        )?;
        out.counter(
            "trace_exports_failed",
            "Requests to the collector that failed, retried ones included",
            traces.failed_exports,
        )
    }
}
