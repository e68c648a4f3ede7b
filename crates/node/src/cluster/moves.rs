//! Moves: guilds that are leaving this node, and those that left, for reports.
//!
//! Owns        the progress of hand-offs, the last of them with their figures and reasons, and the sums of all.
//! Limits      `MOVES_KEPT` that have ended: the earliest go.
//! Not here    the hand-off (`handoff`), the reasons of moves for load (`guildhall_cluster::Balancer`).

use super::handoff::{HandoffFault, HandoffReport};
use guildhall_cluster::NodeNumber;
use guildhall_model::GuildId;
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Ended moves that a node remembers.
pub const MOVES_KEPT: usize = 32;

/// Why a guild moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MoveReason {
    /// A request of an operator or backend.
    Requested,
    /// Its node drains.
    Drain,
    /// With the figures.
    Load(String),
}

impl fmt::Display for MoveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requested => "it was requested",
            Self::Drain => "its node drains",
            Self::Load(figures) => figures,
        })
    }
}

/// Step of a hand-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MoveStep {
    /// The members are sent, while the guild works on.
    Members,
    Sessions,
    /// What changed since, in rounds.
    Changes,
    /// Inputs wait until nothing is under way, and the last changes are sent.
    Freeze,
    /// Inputs wait until the lease store names the next owner.
    Record,
    /// Inputs go to the next owner, which begins to serve the guild.
    Serve,
}

impl MoveStep {
    /// Name of the step in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Members => "members",
            Self::Sessions => "sessions",
            Self::Changes => "changes",
            Self::Freeze => "freeze",
            Self::Record => "record",
            Self::Serve => "serve",
        }
    }

    /// Whether inputs of the guild wait.
    #[must_use]
    pub fn is_frozen(self) -> bool {
        self >= Self::Freeze
    }
}

/// A guild that is leaving this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leave {
    pub guild_id: GuildId,
    pub to: NodeNumber,
    pub reason: MoveReason,
    pub step: MoveStep,
    /// Bytes of its state that were sent.
    pub bytes: u64,
    /// Rounds of changes that were sent.
    pub rounds: u32,
    pub age_ms: u64,
}

/// A move that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    pub guild_id: GuildId,
    pub to: NodeNumber,
    pub reason: MoveReason,
    /// Unix milliseconds.
    pub ended_at_ms: i64,
    /// Zeros, except for the time, if it failed.
    pub report: HandoffReport,
    /// Why the guild was not moved.
    pub fault: Option<String>,
}

/// Moves of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moves {
    pub leaving: Vec<Leave>,
    /// The latest first.
    pub ended: Vec<Moved>,
}

/// Hand-offs of a node since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandoffFigures {
    /// Guilds that were handed over.
    pub left: u64,
    /// Of these, for load.
    pub left_for_load: u64,
    /// Attempts that failed. `HandoffFault` has where the guild is then.
    pub failed: u64,
    /// Guilds that other nodes handed over.
    pub arrived: u64,
    /// Bytes that were sent for those that left.
    pub bytes: u64,
    /// Rounds of changes that were sent for those that left.
    pub rounds: u64,
    /// Time for which those were frozen, in all.
    pub frozen_ms: u64,
    /// The longest freeze.
    pub frozen_ms_max: u64,
}

/// Moves of this node.
#[derive(Default)]
pub(super) struct MoveLog {
    leaving: Mutex<Vec<(Leave, Instant)>>,
    ended: Mutex<VecDeque<Moved>>,
    figures: Mutex<HandoffFigures>,
}

/// A guild that leaves, until this is dropped.
pub(super) struct LeavePermit<'a> {
    log: &'a MoveLog,
    guild_id: GuildId,
}

impl LeavePermit<'_> {
    /// Notes the progress.
    pub(super) fn note(&self, change: impl FnOnce(&mut Leave)) {
        if let Some((leave, _)) = self.log.leaving().iter_mut().find(|(leave, _)| leave.guild_id == self.guild_id) {
            change(leave);
        }
    }

    pub(super) fn step(&self, step: MoveStep) {
        self.note(|leave| leave.step = step);
    }
}

impl Drop for LeavePermit<'_> {
    fn drop(&mut self) {
        self.log.leaving().retain(|(leave, _)| leave.guild_id != self.guild_id);
    }
}

impl MoveLog {
    fn leaving(&self) -> MutexGuard<'_, Vec<(Leave, Instant)>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> MutexGuard<'_, VecDeque<Moved>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn figures_mut(&self) -> MutexGuard<'_, HandoffFigures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn figures(&self) -> HandoffFigures {
        *self.figures_mut()
    }

    pub(super) fn count_arrival(&self) {
        self.figures_mut().arrived += 1;
    }

    /// Begins a move. None: `max` guilds are leaving already, or this one is.
    pub(super) fn begin(
        &self,
        guild_id: GuildId,
        to: NodeNumber,
        reason: MoveReason,
        max: usize,
    ) -> Option<LeavePermit<'_>> {
        let mut leaving = self.leaving();
        if leaving.len() >= max || leaving.iter().any(|(leave, _)| leave.guild_id == guild_id) {
            return None;
        }
        let leave = Leave { guild_id, to, reason, step: MoveStep::Members, bytes: 0, rounds: 0, age_ms: 0 };
        leaving.push((leave, Instant::now()));
        Some(LeavePermit { log: self, guild_id })
    }

    /// Remembers how a move ended.
    pub(super) fn end(&self, moved: Moved) {
        {
            let mut figures = self.figures_mut();
            if moved.fault.is_some() {
                figures.failed += 1;
            } else {
                let HandoffReport { frozen_ms, rounds, bytes, .. } = moved.report;
                figures.left += 1;
                figures.left_for_load += u64::from(matches!(moved.reason, MoveReason::Load(_)));
                figures.bytes += bytes;
                figures.rounds += u64::from(rounds);
                figures.frozen_ms += frozen_ms;
                figures.frozen_ms_max = figures.frozen_ms_max.max(frozen_ms);
            }
        }
        let mut ended = self.ended();
        ended.push_front(moved);
        ended.truncate(MOVES_KEPT);
    }

    pub(super) fn moves(&self) -> Moves {
        let leaves = self.leaving();
        let leaving = leaves.iter().map(|(leave, started)| {
            let age_ms = started.elapsed().as_millis() as u64;
            Leave { age_ms, ..leave.clone() }
        });
        Moves { leaving: leaving.collect(), ended: self.ended().iter().cloned().collect() }
    }
}

/// The end of a move, for the log of moves.
pub(super) fn ended(
    (guild_id, to, reason): (GuildId, NodeNumber, MoveReason),
    ended_at: Timestamp,
    started: Instant,
    result: &Result<HandoffReport, HandoffFault>,
) -> Moved {
    let total_ms = started.elapsed().as_millis() as u64;
    let failed = HandoffReport { total_ms, ..HandoffReport::default() };
    let (report, fault) = match result {
        Ok(report) => (*report, None),
        Err(fault) => (failed, Some(fault.to_string())),
    };
    Moved { guild_id, to, reason, ended_at_ms: ended_at.0, report, fault }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(log: &MoveLog, id: u64, result: &Result<HandoffReport, HandoffFault>, reason: MoveReason) {
        log.end(ended((GuildId::new(id), NodeNumber(1), reason), Timestamp(5), Instant::now(), result));
    }

    #[test]
    fn the_last_moves_are_kept_with_their_figures() {
        let log = MoveLog::default();
        let report = HandoffReport { frozen_ms: 4, rounds: 2, bytes: 100, ..HandoffReport::default() };
        for id in 0..40 {
            end(&log, id, &Ok(report), MoveReason::Drain);
        }
        end(&log, 41, &Ok(HandoffReport { frozen_ms: 9, ..report }), MoveReason::Load("71 %".to_owned()));
        end(&log, 42, &Err(HandoffFault::Unsettled), MoveReason::Requested);
        let ended = log.moves().ended;
        assert_eq!(ended.len(), MOVES_KEPT);
        assert!(ended[0].fault.as_ref().is_some_and(|fault| fault.contains("work under way")));
        assert_eq!((ended[1].reason.to_string(), ended[1].report.frozen_ms), ("71 %".to_owned(), 9));
        let expected = HandoffFigures {
            left: 41,
            left_for_load: 1,
            failed: 1,
            arrived: 0,
            bytes: 4_100,
            rounds: 82,
            frozen_ms: 169,
            frozen_ms_max: 9,
        };
        assert_eq!(log.figures(), expected);
    }

    #[test]
    fn a_guild_leaves_once_at_a_time_and_few_together() {
        let log = MoveLog::default();
        let begin = |id| log.begin(GuildId::new(id), NodeNumber(1), MoveReason::Requested, 2);
        let (first, second) = (begin(1).unwrap(), begin(2));
        assert!(begin(1).is_none() && begin(3).is_none() && second.is_some());
        first.step(MoveStep::Freeze);
        first.note(|leave| leave.bytes = 7);
        let leaving = log.moves().leaving;
        assert_eq!((leaving[0].step.is_frozen(), leaving[0].bytes, leaving[1].step.is_frozen()), (true, 7, false));
        drop(first);
        assert!(begin(3).is_some());
        assert_eq!(log.moves().leaving.len(), 1, "the third permit was dropped at once");
    }
}
