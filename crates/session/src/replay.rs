//! Replay buffer: what a session was sent and may ask for again, and what it is yet to be sent.
//!
//! Owns        dispatches not yet out of reach, oldest first, as pieces: a dispatch of its own, or a stretch of a log that
//!             it shares with the sessions it stands with. So what a session costs does not grow with what it is sent.
//! Doors       `push` and `push_shared` from `Session`; `reaches` and `entry` for the pump and for RESUME; `trim` from
//!             heartbeats.
//! Invariants  R1 seqs are contiguous. R2 the newest equals `last_seq`. R3 it behaves as if each dispatch were kept apart,
//!             but for those that the logs forgot. (tests)
//! Limits      `events_max`, `bytes_max` (shared bodies count in full): past either the oldest go, and a RESUME
//!             from before them fails.
//! Not here    clocks, compression, sockets.     Spec  docs/protocol.md §1.10.

use crate::{dispatch::Dispatch, log::Log};
use guildhall_relay::Redaction;
use std::{collections::VecDeque, rc::Rc};

/// One dispatch, under the sequence number it was asked for.
#[derive(Clone, Debug)]
pub struct ReplayEntry {
    /// What.
    pub dispatch: Rc<Dispatch>,
    /// In which form.
    pub redaction: Redaction,
}

#[derive(Clone, Debug)]
enum Source {
    /// One dispatch.
    Own(Rc<Dispatch>, Redaction),
    /// A stretch of a log, up to where the next piece begins.
    Shared(Rc<Log>),
}

/// Some dispatches in a row.
#[derive(Clone, Debug)]
struct Piece {
    source: Source,
    /// Of the first, in its log.
    place: u64,
    /// Of the first: the low bits. No buffer holds 2³² dispatches.
    seq: u32,
    /// Of all that are left of it.
    bytes: u32,
}

const _: () = assert!(size_of::<Piece>() <= 32, "there is one per session at least");

/// The dispatches of one session that can still be written or written again.
#[derive(Debug, Default)]
pub struct ReplayBuffer {
    pieces: VecDeque<Piece>,
    /// Seq of the newest entry, 0 before the first.
    last_seq: u64,
    len: u32,
    bytes: usize,
}

/// Pieces for which room is kept when the buffer runs empty; more is given back. What a session is told between two
/// heartbeats is mostly one stretch of its log.
const CAPACITY_KEPT: usize = 1;

impl ReplayBuffer {
    /// An empty one, whose next dispatch comes after `seq`.
    #[must_use]
    pub fn after(seq: u64) -> Self {
        Self { last_seq: seq, ..Self::default() }
    }

    /// Seq of the newest dispatch; 0 before the first.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Seq of the oldest dispatch that is still here; one past the newest when none is.
    #[must_use]
    pub fn first_seq(&self) -> u64 {
        self.last_seq + 1 - u64::from(self.len)
    }

    /// How many are here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether none is here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Size of all that is here, in bytes of bodies.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends a dispatch whose body has `bytes`; returns its seq.
    pub fn push(&mut self, dispatch: Rc<Dispatch>, redaction: Redaction, bytes: usize) -> u64 {
        self.append(Source::Own(dispatch, redaction), 0, bytes)
    }

    /// Appends the dispatch at `place` of a log, whose body has `bytes`; returns its seq.
    pub fn push_shared(&mut self, log: &Rc<Log>, place: u64, bytes: usize) -> u64 {
        let next = (self.last_seq + 1) as u32;
        if let Some(piece) = self.pieces.back_mut()
            && let Source::Shared(of) = &piece.source
            && Rc::ptr_eq(of, log)
            && piece.place + u64::from(next.wrapping_sub(piece.seq)) == place
        {
            piece.bytes = piece.bytes.saturating_add(bytes as u32);
            self.bytes += bytes;
            self.len += 1;
            self.last_seq += 1;
            return self.last_seq;
        }
        self.append(Source::Shared(log.clone()), place, bytes)
    }

    fn append(&mut self, source: Source, place: u64, bytes: usize) -> u64 {
        self.last_seq += 1;
        self.len += 1;
        self.bytes += bytes;
        if self.pieces.capacity() == 0 {
            // By itself the queue would make room for four.
            self.pieces.reserve_exact(CAPACITY_KEPT);
        }
        self.pieces.push_back(Piece { source, place, seq: self.last_seq as u32, bytes: bytes as u32 });
        self.last_seq
    }

    /// The piece that holds `seq`, and how far in.
    fn find(&self, seq: u64) -> Option<(usize, u32)> {
        let first = self.first_seq();
        if seq < first || seq > self.last_seq {
            return None;
        }
        // The newest is asked for most.
        let newest = self.pieces.back()?;
        let ahead = (seq as u32).wrapping_sub(newest.seq);
        if seq >= self.last_seq - u64::from((self.last_seq as u32).wrapping_sub(newest.seq)) {
            return Some((self.pieces.len() - 1, ahead));
        }
        let offset = (seq - first) as u32;
        let begins_at = |piece: &Piece| piece.seq.wrapping_sub(first as u32);
        let index = self.pieces.partition_point(|piece| begins_at(piece) <= offset) - 1;
        Some((index, offset - begins_at(&self.pieces[index])))
    }

    /// The dispatch under `seq`. None also if it was shared and its log has forgotten it.
    #[must_use]
    pub fn entry(&self, seq: u64) -> Option<ReplayEntry> {
        let (index, ahead) = self.find(seq)?;
        let piece = &self.pieces[index];
        match &piece.source {
            Source::Own(dispatch, redaction) => Some(ReplayEntry { dispatch: dispatch.clone(), redaction: *redaction }),
            Source::Shared(log) => {
                let logged = log.get(piece.place + u64::from(ahead))?;
                Some(ReplayEntry { dispatch: logged.dispatch, redaction: logged.redaction })
            }
        }
    }

    /// Puts another dispatch under a seq that is here: READY, once its guilds are known; a withheld one.
    pub fn replace(&mut self, seq: u64, dispatch: Rc<Dispatch>, bytes: usize) {
        let Some((index, ahead)) = self.find(seq) else { return };
        let len = self.piece_len(index);
        let piece = &self.pieces[index];
        let mut whole = piece.clone();
        let mut pieces: Vec<Piece> = Vec::with_capacity(3);
        if ahead > 0 {
            let front_bytes = whole.bytes_of(0, ahead);
            pieces.push(Piece { bytes: front_bytes, ..whole.clone() });
            whole.bytes -= front_bytes;
        }
        let replaced_bytes = if len == 1 { whole.bytes } else { whole.bytes_of(ahead, ahead + 1) };
        whole.bytes -= replaced_bytes;
        pieces.push(Piece {
            source: Source::Own(dispatch, Redaction::NONE),
            place: 0,
            seq: seq as u32,
            bytes: bytes as u32,
        });
        if ahead + 1 < len {
            whole.place += u64::from(ahead) + 1;
            whole.seq = whole.seq.wrapping_add(ahead + 1);
            pieces.push(whole);
        }
        self.bytes = self.bytes - replaced_bytes as usize + bytes;
        let behind: Vec<Piece> = self.pieces.drain(index..).skip(1).collect();
        self.pieces.extend(pieces);
        self.pieces.extend(behind);
    }

    /// Dispatches in a piece.
    fn piece_len(&self, index: usize) -> u32 {
        let end = self.pieces.get(index + 1).map_or(self.last_seq as u32 + 1, |next| next.seq);
        end.wrapping_sub(self.pieces[index].seq)
    }

    /// Whether everything after `seq` can be sent again.
    #[must_use]
    pub fn reaches(&self, seq: u64) -> bool {
        if seq > self.last_seq || seq + 1 < self.first_seq() {
            return false;
        }
        let Some((index, ahead)) = self.find(seq + 1) else { return true };
        let is_kept = |piece: &Piece, ahead: u32| match &piece.source {
            Source::Own(..) => true,
            Source::Shared(log) => log.first() <= piece.place + u64::from(ahead),
        };
        is_kept(&self.pieces[index], ahead) && self.pieces.range(index + 1..).all(|piece| is_kept(piece, 0))
    }

    /// Forgets everything up to `seq`: the client has it.
    pub fn trim(&mut self, seq: u64) {
        let mut count = (seq.min(self.last_seq) + 1).saturating_sub(self.first_seq());
        while count > 0 {
            let len = u64::from(self.piece_len(0));
            if len > count {
                self.shorten_front(count as u32);
                break;
            }
            self.drop_front(len as u32);
            count -= len;
        }
        if self.pieces.is_empty() && self.pieces.capacity() > CAPACITY_KEPT {
            self.pieces.shrink_to(CAPACITY_KEPT);
        }
    }

    /// Forgets the oldest until both limits hold, but nothing from `keep_from` on: that is yet to be written.
    pub fn enforce(&mut self, events_max: usize, bytes_max: usize, keep_from: u64) {
        while (self.len() > events_max || self.bytes > bytes_max) && self.first_seq() < keep_from {
            match self.piece_len(0) {
                1 => self.drop_front(1),
                _ => self.shorten_front(1),
            }
        }
    }

    fn drop_front(&mut self, len: u32) {
        let piece = self.pieces.pop_front().expect("it has a length");
        self.bytes -= piece.bytes as usize;
        self.len -= len;
    }

    fn shorten_front(&mut self, by: u32) {
        let piece = &mut self.pieces[0];
        let bytes = piece.bytes_of(0, by);
        piece.bytes -= bytes;
        piece.place += u64::from(by);
        piece.seq = piece.seq.wrapping_add(by);
        self.bytes -= bytes as usize;
        self.len -= by;
    }
}

impl Piece {
    /// Bytes of some of its dispatches. What the log forgot is not counted, and goes with the last.
    fn bytes_of(&self, from: u32, to: u32) -> u32 {
        match &self.source {
            Source::Own(..) => self.bytes,
            Source::Shared(log) => {
                let bytes = log.bytes_between(self.place + u64::from(from), self.place + u64::from(to));
                bytes.min(u64::from(self.bytes)) as u32
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogLimits;
    use guildhall_stdx::{Instant, Rng};

    const LIMITS: LogLimits = LogLimits { events_max: 12, bytes_max: 1 << 20, age_ms_max: u64::MAX };

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
        let reached: Vec<u64> = (0..13).chain([u64::MAX - 1]).filter(|seq| buffer.reaches(*seq)).collect();
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

    /// One dispatch of the model: which, how large, and where it is logged.
    type Naive = (Rc<Dispatch>, usize, Option<(usize, u64)>);

    #[test]
    fn r3_it_behaves_as_if_each_dispatch_were_kept_apart() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let logs = [Log::new(), Log::new()];
            let mut buffer = ReplayBuffer::default();
            let mut model: VecDeque<Naive> = VecDeque::new();
            let mut last_seq = 0;
            for _ in 0..120 {
                let first_seq = last_seq + 1 - model.len() as u64;
                match rng.below(12) {
                    0..=6 => {
                        let which = rng.below(2) as usize;
                        let (dispatch, bytes) = (Dispatch::withheld(), rng.below(50) as usize);
                        let place = logs[which].push(Instant(0), &dispatch, Redaction::NONE, bytes, &LIMITS);
                        // Not all of a log's dispatches are for this session.
                        if rng.chance(0.8) {
                            last_seq += 1;
                            assert_eq!(buffer.push_shared(&logs[which], place, bytes), last_seq);
                            model.push_back((dispatch, bytes, Some((which, place))));
                        }
                    }
                    7 => {
                        let (dispatch, bytes) = (Dispatch::withheld(), rng.below(50) as usize);
                        last_seq += 1;
                        assert_eq!(buffer.push(dispatch.clone(), Redaction::NONE, bytes), last_seq);
                        model.push_back((dispatch, bytes, None));
                    }
                    8 => {
                        let seq = rng.below(last_seq + 2);
                        let dispatch = Dispatch::withheld();
                        buffer.replace(seq, dispatch.clone(), 7);
                        if let Some(entry) = seq.checked_sub(first_seq).and_then(|n| model.get_mut(n as usize)) {
                            *entry = (dispatch, 7, None);
                        }
                    }
                    9 => {
                        let seq = rng.below(last_seq + 2);
                        buffer.trim(seq);
                        let count = (seq.min(last_seq) + 1).saturating_sub(first_seq);
                        model.drain(..count as usize);
                    }
                    _ => {
                        let (events_max, keep_from) = (rng.below(20) as usize, last_seq.saturating_sub(rng.below(5)));
                        buffer.enforce(events_max, usize::MAX, keep_from);
                        while model.len() > events_max && last_seq + 1 - (model.len() as u64) < keep_from {
                            model.pop_front();
                        }
                    }
                }
                check(&buffer, &model, last_seq, &logs);
            }
        }
    }

    fn check(buffer: &ReplayBuffer, model: &VecDeque<Naive>, last_seq: u64, logs: &[Rc<Log>; 2]) {
        let first_seq = last_seq + 1 - model.len() as u64;
        assert_eq!((buffer.first_seq(), buffer.last_seq(), buffer.len()), (first_seq, last_seq, model.len()));
        let is_kept = |(_, _, place): &Naive| place.is_none_or(|(which, place)| logs[which].first() <= place);
        for seq in first_seq.saturating_sub(1)..=last_seq + 1 {
            let expected =
                seq.checked_sub(first_seq).and_then(|n| model.get(n as usize)).filter(|naive| is_kept(naive));
            let found = buffer.entry(seq);
            assert_eq!(found.is_some(), expected.is_some(), "seq {seq}");
            if let (Some(found), Some((dispatch, ..))) = (found, expected) {
                assert!(Rc::ptr_eq(&found.dispatch, dispatch), "seq {seq}");
            }
            let from = (seq + 1).saturating_sub(first_seq) as usize;
            let reaches = seq + 1 >= first_seq && seq <= last_seq && model.range(from.min(model.len())..).all(is_kept);
            assert_eq!(buffer.reaches(seq), reaches, "from {seq}");
        }
        let bytes: usize = model.iter().map(|(_, bytes, _)| bytes).sum();
        if model.iter().all(is_kept) {
            assert!(buffer.bytes() >= bytes, "what logs forgot may still be counted, nothing else is missing");
        }
        if model.is_empty() {
            assert_eq!(buffer.bytes(), 0);
        }
    }
}
