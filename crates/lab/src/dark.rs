//! Dark launch: what sampled sessions are sent is compressed in other arms as well, and the bytes are dropped.
//!
//! Owns        the arms' sums by event, and the memory budget.
//! Invariants  N1 all arms count the same dispatches. N2 contexts of all arms take at most `memory_bytes_max` and one
//!             session's more; a session that would exceed it is left out, and counted. N3 it begins with one session,
//!             and has more while the thread keeps up. (tests `n*_*`)
//! Limits      `DARK_ARMS_MAX` arms; `SESSIONS_MAX` sessions at once. When there is no time for all sessions, the
//!             newest leave the sample (C2 of `copies` in `guildhall-partition`), and are counted.
//! Not here    the copies: `guildhall_partition::TapSwitch`. The thread and its CPU budget.

use crate::arms::{ArmRun, Message, SESSIONS_MAX, Sum};
use anyhow::{Result, ensure};
use guildhall_codec::{Arm, Dictionaries, Encoding};
use guildhall_partition::{CopiedSessions, TapMessage, TapReader};
use std::{
    collections::{BTreeSet, HashSet},
    time::Instant,
};

/// Arms at once.
pub const DARK_ARMS_MAX: usize = 4;

/// Arms that write what sampled sessions are sent.
#[derive(Debug)]
pub struct Dark {
    tap: Option<TapReader>,
    runs: Vec<ArmRun>,
    memory_bytes_max: usize,
    sessions: HashSet<u64>,
    left_out: BTreeSet<u64>,
    left_out_total: u64,
    copied: CopiedSessions,
    started: Instant,
    is_failed: bool,
}

/// Figures of a dark launch.
#[derive(Clone, Debug, PartialEq)]
pub struct DarkStatus {
    /// It has not ended.
    pub is_running: bool,
    /// It ended by an error, which is in the log.
    pub is_failed: bool,
    /// Sessions so far.
    pub sessions_total: u64,
    /// Sessions that are measured now.
    pub sessions_now: u64,
    /// Sessions that left the sample early because the thread had no time for them.
    pub sessions_busy_total: u64,
    /// Sessions that were left out because of the memory budget.
    pub sessions_memory_total: u64,
    /// Memory of all contexts now.
    pub memory_bytes: u64,
    /// Figures of each arm, in the order of `Dark::runs`.
    pub arms: Vec<ArmStatus>,
}

/// Figures of one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct ArmStatus {
    /// The arm as it is printed.
    pub arm: String,
    /// Memory of one connection, the largest so far.
    pub connection_bytes: u64,
    /// All dispatches.
    pub total: Sum,
    /// By dispatch type.
    pub by_event: Vec<(&'static str, Sum)>,
}

impl Dark {
    /// Checks arms, and makes what `new` needs of them: before a tap begins.
    ///
    /// # Errors
    /// There are no arms or too many, or an arm's encoder cannot be made.
    pub fn runs(arms: &[Arm], encodings: &[Encoding], dictionaries: &Dictionaries) -> Result<Vec<ArmRun>> {
        ensure!((1..=DARK_ARMS_MAX).contains(&arms.len()), "give 1 to {DARK_ARMS_MAX} arms");
        arms.iter().map(|arm| ArmRun::new(*arm, encodings, dictionaries)).collect()
    }

    /// A dark launch of these arms, on the copies of a tap.
    #[must_use]
    pub fn new(tap: TapReader, runs: Vec<ArmRun>, memory_bytes_max: usize) -> Self {
        Self {
            tap: Some(tap),
            runs,
            memory_bytes_max,
            sessions: HashSet::new(),
            left_out: BTreeSet::new(),
            left_out_total: 0,
            copied: CopiedSessions::default(),
            started: Instant::now(),
            is_failed: false,
        }
    }

    /// Handles the oldest copy. False: none waits, or the dark launch has ended.
    pub fn step(&mut self) -> bool {
        let Some(tap) = &self.tap else { return false };
        let Some(message) = tap.next() else {
            tap.grow(self.started.elapsed());
            return false;
        };
        if let Err(error) = self.handle(message) {
            tracing::warn!(target: "guildhall::lab", error = format!("{error:#}"), "a dark launch ends");
            self.is_failed = true;
            self.end();
        }
        true
    }

    fn handle(&mut self, message: TapMessage) -> Result<()> {
        match message {
            // For the bill.
            TapMessage::Frame { .. } => {}
            TapMessage::End { session, .. } => {
                self.left_out.remove(&session);
                if self.sessions.remove(&session) {
                    self.runs.iter_mut().for_each(|run| run.end(session));
                }
            }
            TapMessage::Dispatch { session, encoding, name, seq, rule, body, .. } => {
                if !self.admits(session) {
                    return Ok(());
                }
                let message = Message { session, encoding, name, seq, rule: rule.name(), body: &body };
                for run in &mut self.runs {
                    run.add(&message)?;
                }
            }
        }
        Ok(())
    }

    fn admits(&mut self, session: u64) -> bool {
        if self.sessions.contains(&session) || self.left_out.contains(&session) {
            return self.sessions.contains(&session);
        }
        let is_full = self.memory_bytes() >= self.memory_bytes_max || self.sessions.len() >= SESSIONS_MAX;
        match is_full {
            true => {
                self.left_out_total += 1;
                self.left_out.insert(session);
                self.tap.iter().for_each(|tap| tap.leave_out(session));
            }
            false => drop(self.sessions.insert(session)),
        }
        !is_full
    }

    fn memory_bytes(&self) -> usize {
        self.runs.iter().map(ArmRun::memory_bytes).sum()
    }

    /// Ends it. Its figures stay.
    pub fn end(&mut self) {
        self.copied = CopiedSessions { now: 0, ..self.copied() };
        self.tap = None;
        for session in self.sessions.drain() {
            self.runs.iter_mut().for_each(|run| run.end(session));
        }
    }

    fn copied(&self) -> CopiedSessions {
        self.tap.as_ref().map_or(self.copied, TapReader::sessions)
    }

    /// Whether it runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.tap.is_some()
    }

    /// Figures up to the last copy that was handled.
    #[must_use]
    pub fn status(&self) -> DarkStatus {
        let arm = |run: &ArmRun| ArmStatus {
            arm: run.arm().to_string(),
            connection_bytes: run.connection_bytes() as u64,
            total: run.total(),
            by_event: run.by_event().iter().map(|(name, sum)| (*name, *sum)).collect(),
        };
        let copied = self.copied();
        DarkStatus {
            is_running: self.is_running(),
            is_failed: self.is_failed,
            sessions_total: copied.total,
            sessions_now: copied.now,
            sessions_busy_total: copied.lost_total,
            sessions_memory_total: self.left_out_total,
            memory_bytes: self.memory_bytes() as u64,
            arms: self.runs.iter().map(arm).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_guild_protocol::Clearance;
    use guildhall_model::EventName;
    use guildhall_partition::{TapFilter, TapRule, TapSwitch};

    fn dark(arms: &[&str], memory_bytes_max: usize) -> (Dark, TapSwitch) {
        let switch = TapSwitch::default();
        let filter = TapFilter { sessions_first: 1, private: true, ..TapFilter::all(9) };
        let arms: Vec<Arm> = arms.iter().map(|arm| arm.parse().unwrap()).collect();
        let encodings = [Encoding::Json, Encoding::Etf];
        let runs = Dark::runs(&arms, &encodings, &Dictionaries::default()).unwrap();
        (Dark::new(switch.start(filter).unwrap(), runs, memory_bytes_max), switch)
    }

    fn message_create(session: u64, seq: u64) -> TapMessage {
        let body = format!("{{\"channel_id\":\"15\",\"content\":\"message {seq} for all\",\"guild_id\":\"7\"}}");
        TapMessage::Dispatch {
            session,
            at_ms: seq,
            encoding: Encoding::Json,
            name: if seq.is_multiple_of(3) { EventName::TypingStart } else { EventName::MessageCreate },
            seq,
            payload_bytes: body.len() + 40,
            rule: TapRule::Public(Clearance::Content),
            body: body.into_bytes().into(),
        }
    }

    #[test]
    fn n1_all_arms_count_the_same_dispatches() {
        let (mut dark, _switch) = dark(&["zlib", "zstd", "zstd-once", "shared-match"], 1 << 30);
        for seq in 1..=300 {
            (0..3).for_each(|session| dark.handle(message_create(session, seq)).unwrap());
        }
        let status = dark.status();
        let plain: BTreeSet<(u64, u64)> =
            status.arms.iter().map(|arm| (arm.total.count, arm.total.plain_bytes)).collect();
        assert_eq!(plain.len(), 1, "{status:?}");
        for arm in &status.arms {
            assert_eq!(arm.total.count, 900, "{}", arm.arm);
            let counts: Vec<_> = arm.by_event.iter().map(|(name, sum)| (*name, sum.count)).collect();
            assert_eq!(counts, [("MESSAGE_CREATE", 600), ("TYPING_START", 300)]);
        }
        let bytes = |at: usize| status.arms[at].total.wire_bytes;
        assert!(bytes(2) > bytes(0) && bytes(2) > bytes(1), "a frame per message is the worst: {status:?}");
        dark.end();
        assert!(!dark.status().is_running && dark.status().arms == status.arms, "figures stay");
    }

    #[test]
    fn n2_sessions_beyond_the_memory_budget_are_left_out_and_counted() {
        let (mut dark, _switch) = dark(&["zstd", "zlib"], 1_500_000);
        for session in 0..5 {
            (1..=10).for_each(|seq| dark.handle(message_create(session, seq)).unwrap());
        }
        let status = dark.status();
        assert_eq!((status.sessions_memory_total, status.arms[0].total.count), (3, 20), "{status:?}");
        assert!(status.memory_bytes < 2_500_000, "{status:?}");
        // There is room again.
        dark.handle(TapMessage::End { session: 0, is_full: false }).unwrap();
        dark.handle(TapMessage::End { session: 1, is_full: false }).unwrap();
        dark.handle(message_create(9, 1)).unwrap();
        assert_eq!(dark.status().arms[0].total.count, 21);
        // One that was left out stays out: its streams would begin in the middle.
        dark.handle(message_create(3, 11)).unwrap();
        assert_eq!(dark.status().arms[0].total.count, 21);
    }

    #[test]
    fn arms_are_checked_before_a_launch() {
        let runs = |arms: &[Arm]| Dark::runs(arms, &[Encoding::Json], &Dictionaries::default()).map(drop);
        let zlib: Arm = "zlib".parse().unwrap();
        assert!(runs(&[]).unwrap_err().to_string().contains("1 to 4 arms"));
        assert!(runs(&[zlib; 5]).unwrap_err().to_string().contains("1 to 4 arms"));
        let unknown: Arm = "zstd:dict=00112233445566778899aabbccddeeff".parse().unwrap();
        assert!(runs(&[unknown]).unwrap_err().to_string().contains("load it, or leave dict out"));
        assert!(runs(&[zlib; 4]).is_ok());
    }
}
