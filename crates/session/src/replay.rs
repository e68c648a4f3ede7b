//! Replay buffer: what a session was sent and may ask for again, and what it is yet to be sent.
//!
//! Owns        dispatches not yet out of reach, oldest first; their sequence numbers are implied.
//! Doors       `push` from `Session::dispatch`; `since` and `entry` for the pump and for RESUME; `trim` from heartbeats.
//! Invariants  R1 seqs are contiguous. R2 the newest equals `last_seq`. (tests)
//! Limits      `events_max`, `bytes_max` (shared bodies count in full): past either the oldest go, and a RESUME
//!             from before them fails.
//! Not here    clocks, compression, sockets.     Spec  docs/protocol.md §1.10.

use crate::dispatch::Dispatch;
use guildhall_relay::Redaction;
use std::{collections::VecDeque, rc::Rc};

/// One dispatch under its sequence number.
#[derive(Clone, Debug)]
pub struct ReplayEntry {
    /// What.
    pub dispatch: Rc<Dispatch>,
    /// In which form.
    pub redaction: Redaction,
    bytes: u32,
}

/// The dispatches of one session that can still be written or written again.
#[derive(Debug, Default)]
pub struct ReplayBuffer {
    entries: VecDeque<ReplayEntry>,
    /// Seq of the newest entry, 0 before the first.
    last_seq: u64,
    bytes: usize,
}

/// Capacity that is kept when the buffer runs empty; more is given back.
const CAPACITY_KEPT: usize = 64;

impl ReplayBuffer {
    /// Seq of the newest dispatch; 0 before the first.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Seq of the oldest dispatch that is still here; one past the newest when none is.
    #[must_use]
    pub fn first_seq(&self) -> u64 {
        self.last_seq + 1 - self.entries.len() as u64
    }

    /// How many are here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Size of all that is here, in bytes of bodies.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends a dispatch whose body has `bytes`; returns its seq.
    pub fn push(&mut self, dispatch: Rc<Dispatch>, redaction: Redaction, bytes: usize) -> u64 {
        self.bytes += bytes;
        self.entries.push_back(ReplayEntry { dispatch, redaction, bytes: bytes as u32 });
        self.last_seq += 1;
        self.last_seq
    }

    /// The dispatch under `seq`.
    #[must_use]
    pub fn entry(&self, seq: u64) -> Option<&ReplayEntry> {
        let index = seq.checked_sub(self.first_seq())?;
        self.entries.get(usize::try_from(index).ok()?)
    }

    /// Puts another dispatch under a seq that is here: READY, once its guilds are known; a withheld one.
    pub fn replace(&mut self, seq: u64, dispatch: Rc<Dispatch>, bytes: usize) {
        let Some(index) = seq.checked_sub(self.first_seq()) else { return };
        let Some(entry) = self.entries.get_mut(index as usize) else { return };
        self.bytes = self.bytes - entry.bytes as usize + bytes;
        *entry = ReplayEntry { dispatch, redaction: Redaction::NONE, bytes: bytes as u32 };
    }

    /// Whether everything after `seq` can be sent again.
    #[must_use]
    pub fn reaches(&self, seq: u64) -> bool {
        seq <= self.last_seq && seq + 1 >= self.first_seq()
    }

    /// Forgets everything up to `seq`: the client has it.
    pub fn trim(&mut self, seq: u64) {
        while self.first_seq() <= seq.min(self.last_seq) && self.drop_oldest() {}
        if self.entries.is_empty() && self.entries.capacity() > CAPACITY_KEPT {
            self.entries.shrink_to(CAPACITY_KEPT);
        }
    }

    /// Forgets the oldest until both limits hold, but nothing from `keep_from` on: that is yet to be written.
    pub fn enforce(&mut self, events_max: usize, bytes_max: usize, keep_from: u64) {
        while (self.entries.len() > events_max || self.bytes > bytes_max)
            && self.first_seq() < keep_from
            && self.drop_oldest()
        {}
    }

    fn drop_oldest(&mut self) -> bool {
        let Some(entry) = self.entries.pop_front() else { return false };
        self.bytes -= entry.bytes as usize;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: u64) -> ReplayBuffer {
        let mut buffer = ReplayBuffer::default();
        for seq in 1..=count {
            assert_eq!(buffer.push(Dispatch::withheld(), Redaction::NONE, 10), seq);
        }
        buffer
    }

    #[test]
    fn r1_r2_seqs_are_contiguous_up_to_the_newest() {
        let mut buffer = filled(10);
        assert_eq!((buffer.first_seq(), buffer.last_seq(), buffer.bytes()), (1, 10, 100));
        buffer.trim(4);
        assert_eq!((buffer.first_seq(), buffer.last_seq(), buffer.bytes()), (5, 10, 60));
        buffer.trim(3);
        assert_eq!(buffer.first_seq(), 5);
        assert!(
            buffer.entry(4).is_none()
                && buffer.entry(5).is_some()
                && buffer.entry(10).is_some()
                && buffer.entry(11).is_none()
        );
        buffer.trim(99);
        assert_eq!((buffer.first_seq(), buffer.last_seq(), buffer.bytes()), (11, 10, 0));
        assert_eq!(buffer.push(Dispatch::withheld(), Redaction::NONE, 1), 11);
    }

    #[test]
    fn reach() {
        let mut buffer = filled(10);
        buffer.trim(4);
        let reached: Vec<u64> = (0..13).chain([u64::MAX]).filter(|seq| buffer.reaches(*seq)).collect();
        assert_eq!(reached, [4, 5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn limits_spare_what_is_unwritten() {
        let mut buffer = filled(10);
        buffer.enforce(4, 1000, 11);
        assert_eq!(buffer.first_seq(), 7);
        buffer.enforce(100, 20, 9);
        assert_eq!((buffer.first_seq(), buffer.bytes()), (9, 20));
        buffer.enforce(0, 0, 10);
        assert_eq!(buffer.first_seq(), 10);
    }
}
