//! Metrics of the cluster as this node sees it. A node that is alone is a cluster of one.

use super::{Snapshot, Writer};
use guildhall_node::{ClusterReport, HandoffFigures, MirrorFigures, MovedSessions, Moves, NodeReport};
use std::fmt;

impl Snapshot {
    pub(super) fn cluster(&self, out: &mut Writer<'_>) -> fmt::Result {
        let alone = ClusterReport {
            nodes: Vec::new(),
            is_serving: true,
            guilds_here: 0,
            requests_elsewhere: 0,
            moved_sessions: MovedSessions::default(),
            mirrors: MirrorFigures::default(),
            strangers_total: 0,
            handoffs: HandoffFigures::default(),
            moves: Moves::default(),
        };
        let report = self.cluster.as_ref().unwrap_or(&alone);
        let sum = |of: fn(&NodeReport) -> u64| report.nodes.iter().map(of).sum();
        let nodes = report.nodes.len().max(1) as u64;
        out.gauge("cluster_nodes", "Nodes of the cluster that this node knows, itself included", nodes)?;
        let help = "1 while this node may serve guilds, 0 while its lease has ended";
        out.gauge("cluster_serving", help, report.is_serving.into())?;
        let help = "Guilds that this node owns in its cluster; 0 for a node that is alone";
        out.gauge("cluster_guilds", help, report.guilds_here as u64)?;
        let help = "Requests of this node that other nodes carry out now";
        out.gauge("cluster_requests_elsewhere", help, report.requests_elsewhere as u64)?;
        let MovedSessions { here, away, failed } = report.moved_sessions;
        let ways = [("here", here), ("away", away), ("failed", failed)];
        let ways = ways.map(|(way, count)| (vec![("way", way.to_owned())], count));
        out.counters("cluster_sessions_moved", "Sessions that moved between this node and others", &ways)?;
        mirrors(out, report.mirrors)?;
        let help = "Messages on NATS that no node of this cluster has sealed; they were dropped";
        out.counter("cluster_strangers", help, report.strangers_total)?;
        let help = "Messages that wait to be sent to other nodes";
        out.gauge("cluster_messages_waiting", help, sum(|node| node.waiting.unwrap_or(0) as u64))?;
        out.counter("cluster_frames_sent", "Frames sent to nodes that are there now", sum(|node| node.frames))?;
        out.counter("cluster_sent_bytes", "Bytes of these frames", sum(|node| node.bytes))?;
        let help = "Messages to nodes that are there now which were dropped: relays begin again";
        out.counter("cluster_messages_dropped", help, sum(|node| node.dropped))?;
        let HandoffFigures { left, left_for_load, failed, arrived, bytes, rounds, frozen_ms, frozen_ms_max } =
            report.handoffs;
        out.gauge(
            "cluster_guilds_leaving",
            "Guilds that are being handed over to other nodes",
            report.moves.leaving.len() as u64,
        )?;
        out.counter("cluster_handoffs_left", "Guilds that this node handed over to others", left)?;
        let help = "Of these, guilds that left because of their node's load";
        out.counter("cluster_handoffs_left_for_load", help, left_for_load)?;
        out.counter("cluster_handoffs_arrived", "Guilds that other nodes handed over to this one", arrived)?;
        out.counter("cluster_handoffs_failed", "Hand-offs that failed; the log has the reason of each", failed)?;
        out.counter("cluster_handoff_bytes", "Bytes of state sent to the next owners of guilds", bytes)?;
        let help = "Rounds of changes sent behind the state of guilds that were handed over";
        out.counter("cluster_handoff_rounds", help, rounds)?;
        let help = "Time for which inputs of guilds that were handed over waited, in all";
        out.counter_f64("cluster_handoff_frozen_seconds", help, frozen_ms as f64 / 1e3)?;
        let help = "Longest time for which inputs of such a guild waited";
        out.gauge_f64("cluster_handoff_frozen_seconds_max", help, frozen_ms_max as f64 / 1e3)
    }
}

fn mirrors(out: &mut Writer<'_>, figures: MirrorFigures) -> fmt::Result {
    let MirrorFigures {
        mirrored,
        lag_ms,
        rounds,
        held,
        held_bytes,
        sent_bytes,
        sent_whole,
        sent_progress,
        refused,
        lost,
        resumed,
    } = figures;
    out.gauge("cluster_sessions_mirrored", "Sessions of this node that have a mirror on another", mirrored)?;
    let help = "Longest time from a change of a session to its report, in the last round of reports";
    out.gauge_f64("cluster_mirror_lag_seconds", help, lag_ms as f64 / 1e3)?;
    out.counter("cluster_mirror_rounds", "Rounds in which all sessions of this node were visited", rounds)?;
    out.gauge("cluster_mirrors_held", "Mirrors of other nodes' sessions that this node holds", held)?;
    out.gauge("cluster_mirrors_held_bytes", "Memory of these mirrors", held_bytes)?;
    out.counter("cluster_mirror_sent_bytes", "Bytes of reports of sessions to other nodes", sent_bytes)?;
    let forms = [("whole", sent_whole), ("progress", sent_progress)];
    let forms = forms.map(|(form, count)| (vec![("form", form.to_owned())], count));
    out.counters("cluster_mirror_reports", "Sessions in these reports", &forms)?;
    out.counter("cluster_mirrors_refused", "Sessions without a mirror because the other node had no room", refused)?;
    out.counter("cluster_mirror_reports_lost", "Reports that another node did not answer", lost)?;
    out.counter("cluster_mirrors_resumed", "Sessions that clients resumed at this node by a mirror", resumed)
}
