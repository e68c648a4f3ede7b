//! Replay buffer: the dispatches that a session has yet to be sent, or may request again by RESUME.
//!
//! Owns        dispatches, oldest first, as pieces. A piece is one dispatch, or a range of a log that the session
//!             shares with others (`SharedLog`), so the buffer does not grow with the number of shared dispatches.
//! Doors       `push` and `push_shared` from `Session`; `reaches` and `entry` for the pump and for RESUME; `trim` from
//!             heartbeats; `is_past` and `enforce` from the pump, for the limits; `make_room` when there are many
//!             pieces; `take_owed` for RESUME.
//! Invariants  R1 seqs are contiguous. R2 the newest equals `last_seq`. R3 it behaves as if it stored each dispatch
//!             itself, except those that the logs forgot or dropped. R4 kinds with a share of their own (`Retention`)
//!             count against neither limit; a dropped dispatch becomes a tombstone, and a dropped state is owed.
//!             (tests)
//! Limits      `events_max`, `bytes_max` (shared bodies count in full): past either, the oldest written dispatches are
//!             forgotten, and a RESUME from before them fails; a session without a connection ends. Presences, voice
//!             states, typing and member lists: `Share`. `OWED_MAX` states are owed; past it the buffer forgets
//!             everything up to the oldest of them.
//! Not here    clocks, compression, sockets.     Spec  docs/protocol/reference.md §1.10.

use crate::{
    dispatch::Dispatch,
    shared_log::{Owed, SharedLog, Size},
};
use guildhall_guild_protocol::{Redaction, Retention};
use guildhall_model::GuildId;
use guildhall_prefetch::prefetch;
use guildhall_stdx::heap::{self, Sample};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
};

/// One dispatch in the form in which the session gets it.
#[derive(Clone, Debug)]
pub struct ReplayEntry {
    pub dispatch: Rc<Dispatch>,
    pub redaction: Redaction,
}

#[derive(Clone, Debug)]
enum Source {
    /// One dispatch, or a run of tombstones.
    Own(Rc<Dispatch>, Redaction),
    /// A range of a log; ends where the next piece begins.
    Shared(Rc<SharedLog>),
}

/// Consecutive dispatches.
#[derive(Clone, Debug)]
struct Piece {
    source: Source,
    /// Low bits of the first dispatch's offset in its log.
    offset: u32,
    /// Low bits of the first dispatch's seq. No buffer holds 2³² dispatches.
    seq: u32,
    /// Bytes of its remaining bodies. For one dispatch with a share: bytes against that share.
    bytes: u32,
    /// Remaining dispatches that count against `events_max`.
    events: u32,
}

const _: () = assert!(size_of::<Piece>() <= 32, "there is one per session at least");

/// Dispatches of one session that can be written or written again.
#[derive(Debug, Default)]
pub struct ReplayBuffer {
    pieces: VecDeque<Piece>,
    /// Seq of the newest entry, 0 before the first.
    last_seq: u64,
    len: u32,
    /// Dispatches without a share.
    events: u32,
    bytes: usize,
    /// Bytes of own dispatches with a share.
    share_bytes: usize,
    /// Pieces and bytes at which `make_room` runs again, if above the share.
    room_at: (u32, u32),
    /// States owed up to this seq were sent again.
    paid_seq: u64,
    /// First and last seq of the dropped dispatches, by state.
    #[expect(clippy::box_collection, reason = "hardly any session has one, and each has a place for it")]
    owed: Option<Box<BTreeMap<Owed, (u64, u64)>>>,
}

/// Limits on presences, voice states, typing and member lists together.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Pieces that hold nothing else.
    pub pieces_max: usize,
    /// Bytes of bodies that are not in a shared log.
    pub bytes_max: usize,
}

/// States that a buffer remembers as owed.
const OWED_MAX: usize = 1_024;
/// Dispatches in a buffer, including those that count against no other limit.
const LEN_MAX: u32 = 1 << 24;

/// Pieces that stay allocated when the buffer becomes empty. A session mostly gets one range of its log between two
/// heartbeats.
const CAPACITY_KEPT: usize = 1;

impl ReplayBuffer {
    /// An empty buffer whose next dispatch gets `seq` + 1.
    #[must_use]
    pub fn after(seq: u64) -> Self {
        Self { last_seq: seq, ..Self::default() }
    }

    /// Seq of the newest dispatch; 0 before the first.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Seq of the oldest dispatch in the buffer; one past the newest if it is empty.
    #[must_use]
    pub fn first_seq(&self) -> u64 {
        self.last_seq + 1 - u64::from(self.len)
    }

    /// Number of dispatches, tombstones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Dispatches that count against limits.
    #[must_use]
    pub fn events(&self) -> usize {
        self.events as usize
    }

    /// Estimated heap memory, without shared logs.
    #[must_use]
    pub fn heap_bytes(&self, sample: Sample) -> usize {
        let of_piece = |piece: &Piece| match &piece.source {
            // A dispatch of its own is often one that others have, too: a placeholder, or one that a log has.
            Source::Own(dispatch, _) => heap::part_of_rc(dispatch, Dispatch::heap_bytes),
            Source::Shared(_) => 0,
        };
        let owed = self
            .owed
            .as_ref()
            .map_or(0, |owed| heap::boxed::<BTreeMap<Owed, (u64, u64)>>() + sample.of_tree(owed, |_, _| 0));
        sample.of_ring(&self.pieces, of_piece) + owed
    }

    /// Whether these limits are exceeded.
    #[must_use]
    pub fn is_past(&self, events_max: usize, bytes_max: usize) -> bool {
        self.events() > events_max || self.bytes > bytes_max || self.len > LEN_MAX
    }

    /// Bytes of the bodies that count against `bytes_max`.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends a dispatch whose body has `bytes`; returns its seq.
    pub fn push(&mut self, dispatch: Rc<Dispatch>, redaction: Redaction, bytes: usize) -> u64 {
        let Size { events, .. } = Size::of(&dispatch, bytes);
        self.append(Source::Own(dispatch, redaction), 0, Size { events, bytes: bytes as u32 })
    }

    /// Appends the dispatch at `offset` of a log; returns its seq.
    pub fn push_shared(&mut self, log: &Rc<SharedLog>, offset: u64, size: Size) -> u64 {
        let next = (self.last_seq + 1) as u32;
        if let Some(piece) = self.pieces.back_mut()
            && let Source::Shared(of) = &piece.source
            && Rc::ptr_eq(of, log)
            && piece.offset.wrapping_add(next.wrapping_sub(piece.seq)) == offset as u32
        {
            piece.bytes = piece.bytes.saturating_add(size.bytes);
            piece.events += size.events;
            self.bytes += size.bytes as usize;
            self.events += size.events;
            self.len += 1;
            self.last_seq += 1;
            return self.last_seq;
        }
        self.append(Source::Shared(log.clone()), offset as u32, size)
    }

    fn append(&mut self, source: Source, offset: u32, size: Size) -> u64 {
        self.last_seq += 1;
        self.len += 1;
        let piece = Piece { source, offset, seq: self.last_seq as u32, bytes: size.bytes, events: size.events };
        self.count(&piece);
        if self.pieces.capacity() == 0 {
            // The default capacity would be four.
            self.pieces.reserve_exact(CAPACITY_KEPT);
        }
        self.pieces.push_back(piece);
        self.last_seq
    }

    fn count(&mut self, piece: &Piece) {
        self.events += piece.events;
        *self.bytes_of(piece) += piece.bytes as usize;
    }

    fn uncount(&mut self, piece: &Piece) {
        self.events -= piece.events;
        *self.bytes_of(piece) -= piece.bytes as usize;
    }

    fn bytes_of(&mut self, piece: &Piece) -> &mut usize {
        if piece.is_in_share() { &mut self.share_bytes } else { &mut self.bytes }
    }

    /// Index of the piece that holds `seq`, and the offset of `seq` in it.
    fn find(&self, seq: u64) -> Option<(usize, u32)> {
        let first = self.first_seq();
        if seq < first || seq > self.last_seq {
            return None;
        }
        // Most lookups are for the newest piece.
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

    /// Prefetches the newest piece, which the next `push_shared` and mostly the next `entry` read.
    pub fn prefetch_newest(&self) {
        if let Some(newest) = self.pieces.back() {
            prefetch(newest);
        }
    }

    /// The dispatch with this seq. None if it is out of range, or if it was shared and its log has forgotten it.
    #[must_use]
    pub fn entry(&self, seq: u64) -> Option<ReplayEntry> {
        let (index, ahead) = self.find(seq)?;
        let piece = &self.pieces[index];
        match &piece.source {
            Source::Own(dispatch, redaction) => Some(ReplayEntry { dispatch: dispatch.clone(), redaction: *redaction }),
            Source::Shared(log) => {
                let logged = log.get(piece.offset_in(log, ahead))?;
                Some(ReplayEntry { dispatch: logged.dispatch, redaction: logged.redaction })
            }
        }
    }

    /// Replaces the dispatch with this seq, for example by READY once its guilds have answered, or by a tombstone.
    pub fn replace(&mut self, seq: u64, dispatch: Rc<Dispatch>, bytes: usize) {
        self.replace_by(seq, dispatch, Redaction::None, bytes);
    }

    /// Replaces the dispatch with this seq by one in another form.
    pub fn replace_by(&mut self, seq: u64, dispatch: Rc<Dispatch>, redaction: Redaction, bytes: usize) {
        let Some((index, ahead)) = self.find(seq) else { return };
        let len = self.piece_len(index);
        let mut whole = self.pieces[index].clone();
        self.uncount(&whole);
        let mut pieces: Vec<Piece> = Vec::with_capacity(3);
        if ahead > 0 {
            let front = whole.size_of(0, ahead);
            pieces.push(Piece { bytes: front.bytes, events: front.events, ..whole.clone() });
        }
        let Size { events, .. } = Size::of(&dispatch, bytes);
        let source = Source::Own(dispatch, redaction);
        pieces.push(Piece { source, offset: 0, seq: seq as u32, bytes: bytes as u32, events });
        if ahead + 1 < len {
            let rest = whole.size_of(ahead + 1, len);
            (whole.bytes, whole.events) = (rest.bytes, rest.events);
            whole.offset = whole.offset.wrapping_add(ahead + 1);
            whole.seq = whole.seq.wrapping_add(ahead + 1);
            pieces.push(whole);
        }
        pieces.iter().for_each(|piece| self.count(piece));
        let behind: Vec<Piece> = self.pieces.drain(index..).skip(1).collect();
        self.pieces.extend(pieces);
        self.pieces.extend(behind);
    }

    /// Number of dispatches in a piece.
    fn piece_len(&self, index: usize) -> u32 {
        let end = self.pieces.get(index + 1).map_or(self.last_seq as u32 + 1, |next| next.seq);
        end.wrapping_sub(self.pieces[index].seq)
    }

    /// Whether a RESUME from `seq` can be served: the buffer and its logs still hold everything after it.
    #[must_use]
    pub fn reaches(&self, seq: u64) -> bool {
        if seq > self.last_seq || seq + 1 < self.first_seq() {
            return false;
        }
        let Some((index, ahead)) = self.find(seq + 1) else { return true };
        let is_kept = |piece: &Piece, ahead: u32| match &piece.source {
            Source::Own(..) => true,
            Source::Shared(log) => log.first() <= piece.offset_in(log, ahead),
        };
        is_kept(&self.pieces[index], ahead) && self.pieces.range(index + 1..).all(|piece| is_kept(piece, 0))
    }

    /// Appends the dispatches of another buffer, under the next seqs.
    pub fn append_buffer(&mut self, other: Self) {
        let by = (self.last_seq + 1).wrapping_sub(other.first_seq());
        for mut piece in other.pieces {
            piece.seq = piece.seq.wrapping_add(by as u32);
            self.count(&piece);
            self.pieces.push_back(piece);
        }
        self.len += other.len;
        self.last_seq += u64::from(other.len);
        if let Some(owed) = other.owed {
            let all = self.owed.get_or_insert_default();
            for (state, (first, last)) in *owed {
                let (first, last) = (first.wrapping_add(by), last.wrapping_add(by));
                all.entry(state).or_insert((first, last)).1 = last;
            }
            self.bound_owed();
        }
    }

    /// Forgets everything up to `seq`, which the client has acknowledged.
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
        // The buffer may now be far below the size at which `make_room` last ran.
        self.room_at = (0, 0);
        let first_seq = self.first_seq();
        if let Some(owed) = &mut self.owed {
            owed.retain(|_, (_, last)| *last >= first_seq);
        }
        self.owed.take_if(|owed| owed.is_empty());
    }

    /// Drops the oldest dispatches until both limits hold. Keeps those from `keep_from` on, which are not written yet.
    pub fn enforce(&mut self, events_max: usize, bytes_max: usize, keep_from: u64) {
        while self.is_past(events_max, bytes_max) && self.first_seq() < keep_from {
            match (self.piece_len(0), self.pieces[0].events) {
                (1, _) => self.drop_front(1),
                // The piece has no dispatch that counts, so shortening it would not help.
                (len, 0) if self.first_seq() + u64::from(len) <= keep_from => self.drop_front(len),
                _ => self.shorten_front(1),
            }
        }
    }

    fn drop_front(&mut self, len: u32) {
        let piece = self.pieces.pop_front().expect("it has a length");
        self.uncount(&piece);
        self.len -= len;
    }

    fn shorten_front(&mut self, by: u32) {
        let len = self.piece_len(0);
        let piece = &mut self.pieces[0];
        // Measure the rest: the log may have forgotten the size of the front.
        let rest = piece.size_of(by, len);
        let lost = Size { events: piece.events - rest.events, bytes: piece.bytes - rest.bytes };
        piece.lose(lost);
        piece.offset = piece.offset.wrapping_add(by);
        piece.seq = piece.seq.wrapping_add(by);
        // Among own pieces only runs of tombstones are shortened, and these have no size.
        self.bytes -= lost.bytes as usize;
        self.events -= lost.events;
        self.len -= by;
    }

    // ── kinds with a share of their own ──────────────────────────────────────────────────────────────

    /// Whether `make_room` has something to do.
    #[must_use]
    pub fn needs_room(&self, share: &Share) -> bool {
        let (pieces, bytes) = self.room_at;
        self.pieces.len() > share.pieces_max.max(pieces as usize)
            || self.share_bytes > share.bytes_max.max(bytes as usize)
    }

    /// Whether the kinds with a share exceed these limits.
    #[must_use]
    pub fn share_is_past(&self, events_max: usize, bytes_max: usize) -> bool {
        self.pieces.len() > events_max.saturating_mul(2) || self.share_bytes > bytes_max
    }

    /// States dropped up to this seq have been sent again.
    #[must_use]
    pub fn paid_seq(&self) -> u64 {
        self.paid_seq
    }

    /// Drops pieces that hold only presences, voice states, typing or member lists: superseded ones first, then the
    /// oldest until the rest fills half of the share. Keeps seqs from `keep_from` on. `tombstone` and `owed` are the
    /// tombstones. Amortized cost: one walk per half a share of pushes.
    pub fn make_room(&mut self, share: &Share, keep_from: u64, (tombstone, owed): (&Rc<Dispatch>, &Rc<Dispatch>)) {
        let is_droppable = |piece: &Piece| piece.events == 0 && !piece.is_tombstone();
        let pieces_count = self.pieces.iter().filter(|piece| is_droppable(piece)).count();
        let mut pieces_over = pieces_count.saturating_sub(share.pieces_max / 2);
        let mut bytes_over = self.share_bytes.saturating_sub(share.bytes_max / 2);
        let is_over = pieces_count > share.pieces_max || self.share_bytes > share.bytes_max;
        if !is_over {
            (pieces_over, bytes_over) = (0, 0);
        }
        let last_piece = self.pieces.len().saturating_sub(1);
        let mut lists: BTreeSet<GuildId> = BTreeSet::new();
        let mut kept: VecDeque<Piece> = VecDeque::with_capacity(self.pieces.len());
        let mut dropped: Vec<(Owed, u64)> = Vec::new();
        let pieces = std::mem::take(&mut self.pieces);
        let ends: Vec<u32> = pieces.iter().skip(1).map(|piece| piece.seq).chain([self.last_seq as u32 + 1]).collect();
        for (index, (mut piece, end)) in pieces.into_iter().zip(ends).enumerate() {
            let len = end.wrapping_sub(piece.seq);
            let of_list = piece.list_of().filter(|guild_id| lists.contains(guild_id));
            let is_over = (pieces_over > 0 || bytes_over > 0) && index != last_piece;
            let seq = self.last_seq - u64::from((self.last_seq as u32).wrapping_sub(piece.seq));
            let is_dropped = is_over || of_list.is_some() || piece.is_superseded(len);
            if is_dropped && is_droppable(&piece) && seq + u64::from(len) <= keep_from {
                pieces_over = pieces_over.saturating_sub(1);
                if piece.is_in_share() {
                    bytes_over = bytes_over.saturating_sub(piece.bytes as usize);
                }
                let before = dropped.len();
                piece.each_owed(len, |state| dropped.push((state, seq)));
                if let Some(guild_id) = piece.list_of() {
                    // Later changes of the list are useless without this one.
                    lists.insert(guild_id);
                }
                self.uncount(&piece);
                let tombstone = if dropped.len() > before { owed } else { tombstone };
                let source = Source::Own(tombstone.clone(), Redaction::None);
                piece = Piece { source, offset: 0, seq: piece.seq, bytes: 0, events: 0 };
            }
            match kept.back_mut().filter(|before| before.is_empty_tombstone() && piece.is_empty_tombstone()) {
                // A run with an owed tombstone is owed as a whole.
                Some(before) if piece.is_owed() => before.source = piece.source,
                Some(_) => {}
                None => kept.push_back(piece),
            }
        }
        self.pieces = kept;
        let low = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.room_at = (low(self.pieces.len() + share.pieces_max / 2), low(self.share_bytes + share.bytes_max / 2));
        if !dropped.is_empty() {
            let owed = self.owed.get_or_insert_default();
            for (state, seq) in dropped {
                owed.entry(state).or_insert((seq, seq)).1 = seq;
            }
            self.bound_owed();
        }
    }

    fn bound_owed(&mut self) {
        let first_seq = self.first_seq();
        let Some(owed) = &mut self.owed else { return };
        owed.retain(|_, (_, last)| *last >= first_seq);
        let mut lasts: Vec<u64> = owed.values().map(|(_, last)| *last).collect();
        let Some(over) = lasts.len().checked_sub(OWED_MAX + 1) else { return };
        lasts.sort_unstable();
        let up_to = lasts[over];
        owed.retain(|_, (_, last)| *last > up_to);
        self.trim(up_to);
    }

    /// Returns the states that were dropped after `seq`, here or in logs; the caller appends their current values.
    /// Replaces the remaining changes of owed member lists by tombstones.
    pub fn take_owed(&mut self, seq: u64, tombstone: &Rc<Dispatch>) -> BTreeSet<Owed> {
        let owed = self.owed_after(seq);
        for index in 0..self.pieces.len() {
            let of_list = self.pieces[index].list_of();
            if of_list.is_some_and(|guild_id| owed.contains(&Owed::Lists(guild_id))) {
                let piece = self.pieces[index].clone();
                self.uncount(&piece);
                let source = Source::Own(tombstone.clone(), Redaction::None);
                self.pieces[index] = Piece { source, bytes: 0, ..piece };
            }
        }
        // States dropped up to `seq` stay owed: a client may still resume from an earlier seq.
        if let Some(owed) = &mut self.owed {
            owed.retain(|_, (_, last)| *last <= seq);
        }
        self.owed.take_if(|owed| owed.is_empty());
        self.paid_seq = self.last_seq;
        owed
    }

    fn owed_after(&self, seq: u64) -> BTreeSet<Owed> {
        let mut found = BTreeSet::new();
        for (owed, (_, last)) in self.owed.iter().flat_map(|owed| owed.iter()) {
            if *last > seq {
                found.insert(*owed);
            }
        }
        let Some((begin, begin_ahead)) = self.find((seq + 1).max(self.first_seq())) else { return found };
        for (index, piece) in self.pieces.iter().enumerate().skip(begin) {
            if let Source::Shared(log) = &piece.source {
                let ahead = if index == begin { begin_ahead } else { 0 };
                let (from, to) = (piece.offset_in(log, ahead), piece.offset_in(log, self.piece_len(index)));
                log.owed_between(from, to, |owed| {
                    found.insert(owed);
                });
            }
        }
        found
    }
}

impl Piece {
    fn offset_in(&self, log: &SharedLog, ahead: u32) -> u64 {
        log.full_offset(self.offset) + u64::from(ahead)
    }

    fn size(&self) -> Size {
        Size { events: self.events, bytes: self.bytes }
    }

    fn lose(&mut self, size: Size) {
        self.bytes -= size.bytes;
        self.events -= size.events;
    }

    /// Size of a range of its dispatches, without those that the log forgot.
    fn size_of(&self, from: u32, to: u32) -> Size {
        match &self.source {
            // The range is the whole piece: one dispatch, or a run of tombstones, which have no size.
            Source::Own(..) => self.size(),
            Source::Shared(log) => {
                let Size { events, bytes } = log.size_between(self.offset_in(log, from), self.offset_in(log, to));
                Size { events: events.min(self.events), bytes: bytes.min(self.bytes) }
            }
        }
    }

    /// Whether it is one dispatch that counts against the share.
    fn is_in_share(&self) -> bool {
        self.events == 0 && matches!(self.source, Source::Own(..))
    }

    fn is_tombstone(&self) -> bool {
        matches!(&self.source, Source::Own(dispatch, _) if dispatch.is_tombstone())
    }

    fn is_owed(&self) -> bool {
        matches!(&self.source, Source::Own(dispatch, _) if dispatch.is_owed())
    }

    /// Whether it is a tombstone that can be merged into a run.
    fn is_empty_tombstone(&self) -> bool {
        self.is_tombstone() && self.events == 0 && self.bytes == 0
    }

    /// Guild of a member list change; none for other dispatches.
    fn list_of(&self) -> Option<GuildId> {
        let Source::Own(dispatch, _) = &self.source else { return None };
        if dispatch.retention() == Retention::List { dispatch.event()?.guild_id } else { None }
    }

    /// Whether all its dispatches satisfy `is_so`. Ignores those that its log dropped.
    fn all(&self, len: u32, mut is_so: impl FnMut(&Dispatch) -> bool) -> bool {
        match &self.source {
            Source::Own(dispatch, _) => is_so(dispatch),
            Source::Shared(log) => log.all_between(self.offset_in(log, 0), self.offset_in(log, len), is_so),
        }
    }

    /// Whether it can be dropped without any state becoming owed.
    fn is_superseded(&self, len: u32) -> bool {
        let mut is_superseded = self.all(len, Dispatch::is_suppressed) && !self.is_owed();
        if let Source::Shared(log) = &self.source {
            log.owed_between(self.offset_in(log, 0), self.offset_in(log, len), |_| is_superseded = false);
        }
        is_superseded
    }

    fn each_owed(&self, len: u32, mut then: impl FnMut(Owed)) {
        self.all(len, |dispatch| {
            if !dispatch.is_suppressed() {
                Owed::of(dispatch).into_iter().for_each(&mut then);
            }
            true
        });
        if let Source::Shared(log) = &self.source {
            log.owed_between(self.offset_in(log, 0), self.offset_in(log, len), then);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_log::{
        LogLimits,
        tests::{fleeting, in_voice},
    };
    use guildhall_model::UserId;
    use guildhall_stdx::{Instant, Rng};

    const LIMITS: LogLimits = LogLimits {
        events_max: 12,
        bytes_max: 1 << 20,
        age_ms_max: u64::MAX,
        share_events_max: 200,
        share_bytes_max: 1 << 17,
    };

    fn filled(count: u64) -> ReplayBuffer {
        let mut buffer = ReplayBuffer::default();
        for seq in 1..=count {
            assert_eq!(buffer.push(Dispatch::tombstone(), Redaction::None, 10), seq);
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
        assert_eq!(buffer.push(Dispatch::tombstone(), Redaction::None, 1), 11);
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

    /// One dispatch of the model: its id, its size, and its offset in a log.
    type Naive = (Rc<Dispatch>, usize, Option<(usize, u64)>);

    #[test]
    fn r3_it_behaves_as_if_each_dispatch_were_kept_apart() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let logs = [SharedLog::new(), SharedLog::new()];
            let mut buffer = ReplayBuffer::default();
            let mut model: VecDeque<Naive> = VecDeque::new();
            let mut last_seq = 0;
            for _ in 0..120 {
                let first_seq = last_seq + 1 - model.len() as u64;
                match rng.below(13) {
                    0..=6 => {
                        let which = rng.below(2) as usize;
                        let (dispatch, bytes) = (Dispatch::tombstone(), rng.below(50) as usize);
                        let offset = logs[which].push(Instant(0), &dispatch, Redaction::None, bytes, &LIMITS);
                        // The log also holds dispatches of other sessions.
                        if rng.chance(0.8) {
                            last_seq += 1;
                            assert_eq!(buffer.push_shared(&logs[which], offset, Size::of(&dispatch, bytes)), last_seq);
                            model.push_back((dispatch, bytes, Some((which, offset))));
                        }
                    }
                    7 => {
                        let (dispatch, bytes) = (Dispatch::tombstone(), rng.below(50) as usize);
                        last_seq += 1;
                        assert_eq!(buffer.push(dispatch.clone(), Redaction::None, bytes), last_seq);
                        model.push_back((dispatch, bytes, None));
                    }
                    8 => {
                        let seq = rng.below(last_seq + 2);
                        let dispatch = Dispatch::tombstone();
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
                    10 => {
                        let mut other = ReplayBuffer::after(rng.below(1_000));
                        for _ in 0..rng.below(6) {
                            let (dispatch, bytes) = (Dispatch::tombstone(), rng.below(50) as usize);
                            let place = rng.chance(0.7).then(|| {
                                let which = rng.below(2) as usize;
                                let offset = logs[which].push(Instant(0), &dispatch, Redaction::None, bytes, &LIMITS);
                                other.push_shared(&logs[which], offset, Size::of(&dispatch, bytes));
                                (which, offset)
                            });
                            if place.is_none() {
                                other.push(dispatch.clone(), Redaction::None, bytes);
                            }
                            last_seq += 1;
                            model.push_back((dispatch, bytes, place));
                        }
                        buffer.append_buffer(other);
                    }
                    _ => {
                        let (events_max, keep_from) = (rng.below(20) as usize, last_seq.saturating_sub(rng.below(5)));
                        buffer.enforce(events_max, usize::MAX, keep_from);
                        for _ in first_seq..buffer.first_seq() {
                            assert!(model.len() > events_max, "it had to go");
                            model.pop_front();
                        }
                        // Dispatches that logs forgot stop counting once the buffer trims up to them.
                        let is_kept =
                            |(_, _, offset): &Naive| offset.is_none_or(|(n, offset)| logs[n].first() <= offset);
                        let kept_count = model.iter().filter(|naive| is_kept(naive)).count();
                        assert!(kept_count <= events_max || buffer.first_seq() >= keep_from, "nothing more has to go");
                    }
                }
                check(&buffer, &model, last_seq, &logs);
            }
        }
    }

    fn check(buffer: &ReplayBuffer, model: &VecDeque<Naive>, last_seq: u64, logs: &[Rc<SharedLog>; 2]) {
        let first_seq = last_seq + 1 - model.len() as u64;
        assert_eq!((buffer.first_seq(), buffer.last_seq(), buffer.len()), (first_seq, last_seq, model.len()));
        let is_kept = |(_, _, offset): &Naive| offset.is_none_or(|(which, offset)| logs[which].first() <= offset);
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

    #[test]
    fn s6_r4_floods_push_out_nothing_else_and_states_among_them_are_owed() {
        let (tombstone, owed) = (Dispatch::tombstone(), Dispatch::owed());
        let share = Share { pieces_max: 40, bytes_max: 4_000 };
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let limits = LogLimits { events_max: 400, ..LIMITS };
            let logs = [SharedLog::new(), SharedLog::new()];
            let mut buffer = ReplayBuffer::default();
            let mut sent: Vec<Rc<Dispatch>> = Vec::new();
            let mut lasting = 0;
            for n in 0..1_500 {
                let is_lasting = rng.chance(0.05);
                let dispatch = if is_lasting { Dispatch::tombstone() } else { fleeting(&mut rng, 300) };
                lasting += usize::from(is_lasting);
                let bytes = rng.below(200) as usize;
                if rng.chance(0.5) {
                    buffer.push(dispatch.clone(), Redaction::None, bytes);
                } else {
                    let log = &logs[rng.below(2) as usize];
                    let offset = log.push(Instant(n), &dispatch, Redaction::None, bytes, &limits);
                    buffer.push_shared(log, offset, Size::of(&dispatch, bytes));
                }
                sent.push(dispatch);
                if rng.chance(0.01) {
                    rng.pick(&sent).expect("there are some").supersede();
                }
                if buffer.needs_room(&share) {
                    buffer.make_room(&share, u64::MAX, (&tombstone, &owed));
                }
                assert!(buffer.share_bytes <= 4_000 + 2_200, "{} bytes", buffer.share_bytes);
            }
            assert_eq!((buffer.first_seq(), buffer.len(), buffer.events()), (1, sent.len(), lasting));
            // A run of tombstones between two lasting dispatches, and the dispatches within the share.
            assert!(buffer.pieces.len() <= 4 * lasting + 80, "{} pieces, {lasting} last", buffer.pieces.len());
            let missed: BTreeSet<Owed> = (sent.iter().zip(1..))
                .filter(|(dispatch, seq)| {
                    let found = buffer.entry(*seq).expect("it can be replayed").dispatch;
                    let is_there = Rc::ptr_eq(&found, dispatch);
                    assert!(is_there || found.is_tombstone() && dispatch.retention() != Retention::Lasting);
                    let is_missed = !is_there && !dispatch.is_suppressed() && Owed::of(dispatch).is_some();
                    assert!(!is_missed || found.is_owed(), "a reader that gets there receives the current state");
                    is_missed
                })
                .filter_map(|(dispatch, _)| Owed::of(dispatch))
                .collect();
            let returned = buffer.take_owed(0, &tombstone);
            let lost: Vec<_> = missed.difference(&returned).filter(|state| matches!(state, Owed::Voice(..))).collect();
            assert!(lost.is_empty(), "seed {seed}: {lost:?}");
            assert_eq!(buffer.paid_seq(), buffer.last_seq());
            buffer.trim(buffer.last_seq());
            assert_eq!((buffer.events(), buffer.bytes(), buffer.share_bytes), (0, 0, 0));
        }
    }

    #[test]
    fn s6_what_is_sent_again_from_one_seq_is_still_owed_before_it() {
        let (tombstone, owed) = (Dispatch::tombstone(), Dispatch::owed());
        let mut buffer = ReplayBuffer::default();
        for user in 1..=40 {
            buffer.push(in_voice(user), Redaction::None, 50);
        }
        buffer.make_room(&Share { pieces_max: 20, bytes_max: 1 << 20 }, u64::MAX, (&tombstone, &owed));
        let dropped = |from: u64, to: u64| (from..=to).map(|n| Owed::Voice(GuildId::new(9), UserId::new(n))).collect();
        assert_eq!(buffer.take_owed(20, &tombstone), dropped(21, 30), "a connection wrote up to 20, and got to 21");
        assert_eq!(buffer.take_owed(5, &tombstone), dropped(6, 20), "its client has 5 of these, and resumes");
        buffer.trim(10);
        assert_eq!(buffer.take_owed(10, &tombstone), BTreeSet::new(), "they are sent");
        assert!(buffer.owed.is_none());
    }

    #[test]
    fn s6_what_is_not_written_yet_is_not_dropped() {
        let (tombstone, owed) = (Dispatch::tombstone(), Dispatch::owed());
        let mut rng = Rng::new(1);
        let share = Share { pieces_max: 10, bytes_max: 1_000 };
        let mut buffer = ReplayBuffer::default();
        for _ in 0..100 {
            buffer.push(fleeting(&mut rng, 1_000), Redaction::None, 50);
            if buffer.needs_room(&share) {
                buffer.make_room(&share, 50, (&tombstone, &owed));
            }
        }
        assert!((50..=100).all(|seq| !buffer.entry(seq).expect("it is there").dispatch.is_tombstone()));
        assert!((1..40).all(|seq| buffer.entry(seq).expect("it is there").dispatch.is_tombstone()));
        assert!(buffer.share_is_past(20, 1 << 20) && buffer.share_is_past(1_000, 2_000));
    }
}
