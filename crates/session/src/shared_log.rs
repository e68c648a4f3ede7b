//! Shared logs: the dispatches of a group of sessions, stored once for all of them.
//!
//! Owns        `SharedLog`, the dispatches of one group of a relay in the order of delivery.
//! Doors       `push` from the partition's fan-out; `get` and `size_between` for replay buffers, which refer to ranges
//!             of offsets; `owed_between` for RESUME.
//! Invariants  O1 an offset refers to the same dispatch for ever. O2 offsets ascend by one. O3 presences, voice states
//!             and typing have shares of their own and never evict other dispatches. O4 a state that was dropped for
//!             lack of room is owed: the log remembers its key, so that the partition can send its current value.
//!             (tests)
//! Limits      `LogLimits`: past any of them the log forgets its oldest entries, and sessions that still refer to them
//!             cannot resume. Past a share, it first drops superseded presences and typing older than `TYPING_MS`, then
//!             the oldest of the kind. `OWED_MAX` states are owed; past it the log forgets everything up to the oldest
//!             of them.
//! Not here    the buffers that refer to a log: `replay`.     Spec  docs/adr/0009.

use crate::dispatch::Dispatch;
use guildhall_guild_protocol::{Redaction, Retention};
use guildhall_model::{GuildId, UserId};
use guildhall_stdx::{
    Instant,
    heap::{self, Sample},
};
use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

/// Limits of one log.
#[derive(Clone, Copy, Debug)]
pub struct LogLimits {
    /// Dispatches, except those with a share of their own.
    pub events_max: usize,
    /// Bytes of their bodies. The newest dispatch stays whatever its size.
    pub bytes_max: usize,
    /// Age of a dispatch. Older ones are beyond every resume window.
    pub age_ms_max: u64,
    /// Presences, voice states or typing indicators: each kind may have this many.
    pub share_events_max: usize,
    /// Bytes of their bodies, for each kind.
    pub share_bytes_max: usize,
}

/// Clients hide a typing indicator after 10 s.
const TYPING_MS: u32 = 10_000;
/// States that a log remembers as owed.
const OWED_MAX: usize = 1_024;

/// Size that counts against limits; zero for kinds with a share of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Number of dispatches.
    pub events: u32,
    /// Bytes of bodies.
    pub bytes: u32,
}

impl Size {
    /// Size of a dispatch whose body has `bytes`.
    #[must_use]
    pub fn of(dispatch: &Dispatch, bytes: usize) -> Self {
        match dispatch.retention() {
            Retention::Lasting => Self { events: 1, bytes: bytes as u32 },
            _ => Self::default(),
        }
    }
}

/// Key of a state that a session missed and that no later dispatch replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owed {
    /// Presence of a member.
    Presence(GuildId, UserId),
    /// Presence of a friend.
    Friend(UserId),
    /// Voice state of a user.
    Voice(GuildId, UserId),
    /// Watched rows of member lists.
    Lists(GuildId),
}

impl Owed {
    /// Key of the state that a dispatch carries; none for other kinds.
    pub(crate) fn of(dispatch: &Dispatch) -> Option<Self> {
        let event = dispatch.event()?;
        if let Some(friend) = event.friend() {
            return Some(Self::Friend(friend));
        }
        let guild_id = event.guild_id?;
        match dispatch.retention() {
            Retention::Presence(user_id) => Some(Self::Presence(guild_id, user_id)),
            Retention::Voice(user_id) => Some(Self::Voice(guild_id, user_id)),
            Retention::List => Some(Self::Lists(guild_id)),
            Retention::Typing | Retention::Lasting => None,
        }
    }
}

/// One entry: a dispatch in the form that the group gets. Counters keep only their low 32 bits; an entry has 32 bytes.
#[derive(Clone, Debug)]
pub struct Logged {
    pub dispatch: Rc<Dispatch>,
    /// Size of all earlier entries, including forgotten ones.
    bytes_before: u32,
    events_before: u32,
    offset: u32,
    /// Bytes that count against its share; 0 for `Lasting`.
    share_bytes: u32,
    /// Time of `push` in milliseconds, low 32 bits.
    at: u32,
    pub redaction: Redaction,
}

const _: () = assert!(size_of::<Logged>() <= 32, "there is one per dispatch and group");

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    events: usize,
    bytes: usize,
}

/// Tombstones for dropped dispatches.
#[derive(Debug)]
struct Gone {
    tombstone: Rc<Dispatch>,
    owed: Rc<Dispatch>,
}

#[derive(Debug, Default)]
struct Entries {
    /// Oldest offset that `get` returns.
    first: u64,
    /// Place of the next dispatch.
    next: u64,
    /// Ascending by offset; dropped entries leave gaps.
    entries: VecDeque<Logged>,
    /// Size of all entries, including forgotten ones.
    bytes_before_next: u32,
    events_before_next: u32,
    shares: [Share; Retention::SHARES],
    /// First and last offset of the dropped dispatches, by state.
    owed: BTreeMap<Owed, (u64, u64)>,
    /// Only gaps before this offset may be owed.
    owed_before: u64,
    gone: Option<Box<Gone>>,
}

/// See the module. Used by one partition only.
#[derive(Debug, Default)]
pub struct SharedLog(RefCell<Entries>);

impl SharedLog {
    #[must_use]
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    /// Estimated heap memory: its entries, and its part of their dispatches, which are in other logs too.
    #[must_use]
    pub fn heap_bytes(&self, sample: Sample) -> usize {
        let log = self.0.borrow();
        let of_entry = |logged: &Logged| heap::part_of_rc(&logged.dispatch, Dispatch::heap_bytes);
        sample.of_ring(&log.entries, of_entry) + sample.of_tree(&log.owed, |_, _| 0)
    }

    /// Number of entries.
    #[must_use]
    pub fn entries_count(&self) -> usize {
        self.0.borrow().entries.len()
    }

    /// Appends a dispatch whose body has `bytes`, unless it is already the newest; returns its offset. Forgets entries
    /// past the limits.
    pub fn push(
        &self,
        now: Instant,
        dispatch: &Rc<Dispatch>,
        redaction: Redaction,
        bytes: usize,
        limits: &LogLimits,
    ) -> u64 {
        let mut log = self.0.borrow_mut();
        if log.entries.back().is_none_or(|newest| !Rc::ptr_eq(&newest.dispatch, dispatch)) {
            log.append(now, dispatch, redaction, bytes, limits);
            log.forget_past(now, limits);
        }
        log.next - 1
    }

    /// Forgets entries older than `age_ms_max`, the newest included, and releases unused memory.
    pub fn forget_old(&self, now: Instant, limits: &LogLimits) {
        let mut log = self.0.borrow_mut();
        log.forget_past(now, limits);
        if log.entries.front().is_some_and(|oldest| limits.is_old(now, oldest)) {
            // `forget_past` never removes the newest.
            log.pop_front();
        }
        let first = log.first;
        log.owed.retain(|_, (_, last)| *last >= first);
        let (len, capacity) = (log.entries.len(), log.entries.capacity());
        if capacity > 4 * len.max(16) {
            log.entries.shrink_to(2 * len);
        }
    }

    /// The dispatch at an offset, or a tombstone if it was dropped. None if the log has forgotten the offset.
    #[must_use]
    pub fn get(&self, offset: u64) -> Option<Logged> {
        let log = self.0.borrow();
        if offset < log.first || offset >= log.next {
            return None;
        }
        match log.entries.get(log.index_of(offset)).filter(|logged| logged.offset == offset as u32) {
            Some(logged) => Some(logged.clone()),
            None => log.tombstone(offset),
        }
    }

    /// The oldest offset that the log has not forgotten.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.0.borrow().first
    }

    /// The full offset with these low 32 bits. Replay buffers refer only to recent offsets: fewer than 2³¹.
    #[must_use]
    pub fn full_offset(&self, low: u32) -> u64 {
        let first = self.0.borrow().first;
        first.wrapping_add_signed(i64::from(low.wrapping_sub(first as u32) as i32))
    }

    /// Size from one offset up to another, without forgotten offsets.
    #[must_use]
    pub fn size_between(&self, from: u64, to: u64) -> Size {
        let log = self.0.borrow();
        let before = |offset: u64| {
            let logged = if offset <= log.first { log.entries.front() } else { log.entries.get(log.index_of(offset)) };
            logged.map_or((log.bytes_before_next, log.events_before_next), |l| (l.bytes_before, l.events_before))
        };
        let ((bytes_from, events_from), (bytes_to, events_to)) = (before(from), before(to));
        Size { bytes: bytes_to.wrapping_sub(bytes_from), events: events_to.wrapping_sub(events_from) }
    }

    /// Whether all dispatches from one offset up to another satisfy `is_so`. Ignores dropped and forgotten ones.
    pub(crate) fn all_between(&self, from: u64, to: u64, mut is_so: impl FnMut(&Dispatch) -> bool) -> bool {
        let log = self.0.borrow();
        let (from, to) = (from.max(log.first), to.min(log.next));
        if from >= to {
            return true;
        }
        let ahead = |logged: &Logged| u64::from(logged.offset.wrapping_sub(log.first as u32));
        let entries = log.entries.range(log.index_of(from)..);
        entries.take_while(|logged| log.first + ahead(logged) < to).all(|logged| is_so(&logged.dispatch))
    }

    /// Calls `each` for every state dropped from one offset up to another.
    pub(crate) fn owed_between(&self, from: u64, to: u64, mut each: impl FnMut(Owed)) {
        let log = self.0.borrow();
        if from < log.owed_before {
            let is_within = |(first, last): &(u64, u64)| *first < to && *last >= from;
            log.owed.iter().filter(|(_, offsets)| is_within(offsets)).for_each(|(owed, _)| each(*owed));
        }
    }

    /// Forgets everything. The caller makes sure that no buffer refers to it.
    pub fn clear(&self) {
        let mut log = self.0.borrow_mut();
        *log = Entries {
            first: log.next,
            next: log.next,
            bytes_before_next: log.bytes_before_next,
            events_before_next: log.events_before_next,
            ..Entries::default()
        };
    }
}

impl LogLimits {
    fn is_old(&self, now: Instant, logged: &Logged) -> bool {
        u64::from(logged.age_ms(now)) > self.age_ms_max
    }

    fn share(&self) -> Share {
        Share { events: self.share_events_max.max(2), bytes: self.share_bytes_max }
    }
}

impl Logged {
    fn age_ms(&self, now: Instant) -> u32 {
        (now.0 as u32).wrapping_sub(self.at)
    }
}

impl Entries {
    fn append(
        &mut self,
        now: Instant,
        dispatch: &Rc<Dispatch>,
        redaction: Redaction,
        bytes: usize,
        limits: &LogLimits,
    ) {
        let (size, share) = (Size::of(dispatch, bytes), dispatch.retention().share());
        self.entries.push_back(Logged {
            dispatch: dispatch.clone(),
            bytes_before: self.bytes_before_next,
            events_before: self.events_before_next,
            offset: self.next as u32,
            share_bytes: if share.is_some() { bytes as u32 } else { 0 },
            at: now.0 as u32,
            redaction,
        });
        self.next += 1;
        self.bytes_before_next = self.bytes_before_next.wrapping_add(size.bytes);
        self.events_before_next = self.events_before_next.wrapping_add(size.events);
        if let Some(share) = share {
            if let (Some(owed), false) = (Owed::of(dispatch), self.owed.is_empty())
                && matches!(owed, Owed::Presence(..) | Owed::Friend(_))
            {
                // The new presence replaces the one that was dropped.
                self.owed.remove(&owed);
            }
            self.shares[share].events += 1;
            self.shares[share].bytes += bytes;
            let max = limits.share();
            if self.shares[share].events > max.events || self.shares[share].bytes > max.bytes {
                self.make_room(now, share, max);
            }
        }
    }

    /// Drops superseded presences and expired typing, then the oldest of one kind until it fills half of its share.
    /// Keeps the newest dispatch. Amortized cost: one walk per half a share of pushes.
    fn make_room(&mut self, now: Instant, share: usize, max: Share) {
        let newest = (self.next - 1) as u32;
        let (shares, first) = (&mut self.shares, self.first);
        self.entries.retain(|logged| {
            let retention = logged.dispatch.retention();
            let Some(of) = retention.share().filter(|_| logged.offset != newest) else { return true };
            let is_over = retention == Retention::Typing && logged.age_ms(now) > TYPING_MS;
            let is_kept = !is_over && !logged.dispatch.is_suppressed();
            if !is_kept {
                shares[of].events -= 1;
                shares[of].bytes -= logged.share_bytes as usize;
            }
            is_kept
        });
        let (owed, owed_before) = (&mut self.owed, &mut self.owed_before);
        self.entries.retain(|logged| {
            let is_over = shares[share].events > max.events / 2 || shares[share].bytes > max.bytes / 2;
            if !is_over || logged.offset == newest || logged.dispatch.retention().share() != Some(share) {
                return true;
            }
            shares[share].events -= 1;
            shares[share].bytes -= logged.share_bytes as usize;
            if let Some(state) = Owed::of(&logged.dispatch) {
                let offset = first + u64::from(logged.offset.wrapping_sub(first as u32));
                owed.entry(state).or_insert((offset, offset)).1 = offset;
                *owed_before = (offset + 1).max(*owed_before);
            }
            false
        });
        let gone = || Box::new(Gone { tombstone: Dispatch::tombstone(), owed: Dispatch::owed() });
        self.gone.get_or_insert_with(gone);
        self.bound_owed();
    }

    fn bound_owed(&mut self) {
        let first = self.first;
        self.owed.retain(|_, (_, last)| *last >= first);
        while self.owed.len() > OWED_MAX {
            let Some(oldest) = self.owed.values().map(|(_, last)| *last).min() else { break };
            while self.entries.front().is_some_and(|logged| logged.offset.wrapping_sub(oldest as u32) as i32 <= 0) {
                self.pop_front();
            }
            self.first = self.first.max(oldest + 1);
            self.owed.retain(|_, (_, last)| *last > oldest);
        }
    }

    fn tombstone(&self, offset: u64) -> Option<Logged> {
        let gone = self.gone.as_ref()?;
        let dispatch = if offset < self.owed_before { &gone.owed } else { &gone.tombstone };
        Some(Logged {
            dispatch: dispatch.clone(),
            bytes_before: 0,
            events_before: 0,
            offset: offset as u32,
            share_bytes: 0,
            at: 0,
            redaction: Redaction::None,
        })
    }

    /// Index of the entry at `offset`, or of the next entry after it.
    fn index_of(&self, offset: u64) -> usize {
        let ahead = |logged: &Logged| logged.offset.wrapping_sub(self.first as u32);
        let wanted = offset.wrapping_sub(self.first) as u32;
        // Usually there is no gap between it and the newest.
        let from_newest = (self.next - 1).saturating_sub(offset) as usize;
        if let Some(index) = self.entries.len().checked_sub(from_newest + 1)
            && self.entries.get(index).is_some_and(|logged| ahead(logged) == wanted)
        {
            return index;
        }
        self.entries.partition_point(|logged| ahead(logged) < wanted)
    }

    fn pop_front(&mut self) {
        let Some(oldest) = self.entries.pop_front() else { return };
        self.first += u64::from(oldest.offset.wrapping_sub(self.first as u32)) + 1;
        if let Some(share) = oldest.dispatch.retention().share() {
            self.shares[share].events -= 1;
            self.shares[share].bytes -= oldest.share_bytes as usize;
        }
    }

    fn forget_past(&mut self, now: Instant, limits: &LogLimits) {
        while self.entries.len() > 1
            && self.entries.front().is_some_and(|oldest| {
                let events = self.events_before_next.wrapping_sub(oldest.events_before) as usize;
                let bytes = self.bytes_before_next.wrapping_sub(oldest.bytes_before) as usize;
                events > limits.events_max || bytes > limits.bytes_max || limits.is_old(now, oldest)
            })
        {
            self.pop_front();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use guildhall_guild_protocol::{AudienceRule, Event, Payload};
    use guildhall_model::{ChannelId, EventName, Member, User, VoiceState};
    use guildhall_stdx::{Rng, Timestamp};
    use std::sync::Arc;

    /// A dispatch that has a share of its own, about one of `users`.
    pub(crate) fn fleeting(rng: &mut Rng, users: u64) -> Rc<Dispatch> {
        let user_id = UserId::new(1 + rng.below(users));
        let (name, payload) = match rng.below(3) {
            0 => (EventName::PresenceUpdate, Payload::Presence { user_id, presence: Arc::default() }),
            1 => {
                let state = Arc::new(VoiceState::new(user_id));
                (EventName::VoiceStateUpdate, Payload::Voice { state, member: None })
            }
            _ => {
                let user = Arc::new(User::new(user_id, "ana"));
                let member = Arc::new(Member::new(user, Timestamp(0)));
                (EventName::TypingStart, Payload::Typing { channel_id: ChannelId::new(5), timestamp_s: 0, member })
            }
        };
        Dispatch::direct(&Arc::new(Event::new(GuildId::new(9), name, AudienceRule::Members, payload)))
    }

    /// Voice state of a user.
    pub(crate) fn in_voice(user: u64) -> Rc<Dispatch> {
        let state = Arc::new(VoiceState::new(UserId::new(user)));
        let payload = Payload::Voice { state, member: None };
        Dispatch::direct(&Arc::new(Event::new(
            GuildId::new(9),
            EventName::VoiceStateUpdate,
            AudienceRule::Members,
            payload,
        )))
    }

    #[test]
    fn o1_o2_places_and_limits() {
        let log = SharedLog::new();
        let dispatches: Vec<_> = (0..10).map(|_| Dispatch::tombstone()).collect();
        let limits =
            LogLimits { events_max: 4, bytes_max: 1_000, age_ms_max: 100, share_events_max: 4, share_bytes_max: 1_000 };
        for (n, dispatch) in dispatches.iter().enumerate() {
            for _ in 0..2 {
                assert_eq!(log.push(Instant(0), dispatch, Redaction::None, 10 * n, &limits), n as u64, "once each");
            }
        }
        assert_eq!(log.first(), 6);
        assert!(log.get(5).is_none() && log.get(10).is_none());
        assert!((6..10).all(|n| Rc::ptr_eq(&log.get(n as u64).unwrap().dispatch, &dispatches[n])));
        let bytes = |from, to| log.size_between(from, to).bytes;
        assert_eq!((bytes(6, 10), bytes(7, 9), bytes(0, 10)), (300, 150, 300));
        assert_eq!((log.size_between(7, 9).events, log.size_between(0, 10).events), (2, 4));
        let tight = LogLimits { bytes_max: 150, ..limits };
        assert_eq!(log.push(Instant(0), &Dispatch::tombstone(), Redaction::None, 100, &tight), 10);
        assert_eq!(log.first(), 10, "90 and 100 are more than 150");
        assert_eq!(log.push(Instant(50), &dispatches[1], Redaction::None, 1, &limits), 11);
        log.forget_old(Instant(101), &limits);
        assert_eq!(log.first(), 11);
        log.forget_old(Instant(151), &limits);
        assert_eq!((log.first(), log.get(11).is_none()), (12, true));
        log.clear();
        assert_eq!((log.first(), log.push(Instant(0), &dispatches[0], Redaction::None, 1, &limits)), (12, 12));
        assert_eq!((log.full_offset(12), log.full_offset(7), log.full_offset(99)), (12, 7, 99));
    }

    #[test]
    fn s6_o3_o4_floods_push_out_nothing_else_and_states_among_them_are_owed() {
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let log = SharedLog::new();
            let limits = LogLimits {
                events_max: 64,
                bytes_max: 64 << 10,
                age_ms_max: u64::MAX,
                share_events_max: 32,
                share_bytes_max: 8 << 10,
            };
            let mut pushed: Vec<Rc<Dispatch>> = Vec::new();
            let mut newest: BTreeMap<u64, Rc<Dispatch>> = BTreeMap::new();
            let (mut lasting, users) = (0, 1 + rng.below(100));
            for n in 0..3_000 {
                let dispatch = if lasting < 60 && rng.chance(0.03) {
                    lasting += 1;
                    Dispatch::tombstone()
                } else {
                    fleeting(&mut rng, users)
                };
                if let Retention::Presence(user_id) = dispatch.retention()
                    && let Some(before) = newest.insert(user_id.get(), dispatch.clone())
                {
                    before.supersede();
                }
                let bytes = rng.below(600) as usize;
                let offset = log.push(Instant(n), &dispatch, Redaction::None, bytes, &limits);
                assert_eq!(offset, pushed.len() as u64, "O2");
                pushed.push(dispatch);
                assert!(
                    Rc::ptr_eq(&log.get(offset).unwrap().dispatch, &pushed[offset as usize]),
                    "the newest is there"
                );
                let entries = log.0.borrow().entries.len();
                assert!(entries <= 64 + 3 * 33, "{entries} entries");
            }
            assert_eq!(log.first(), 0, "nothing is forgotten");
            for (offset, dispatch) in pushed.iter().enumerate() {
                let offset = offset as u64;
                let found = log.get(offset).expect("it can be replayed").dispatch;
                if Rc::ptr_eq(&found, dispatch) {
                    continue;
                }
                assert!(found.is_tombstone() && dispatch.retention() != Retention::Lasting, "O3");
                let mut owed = Vec::new();
                log.owed_between(offset, offset + 1, |state| owed.push(state));
                if let Some(state) = Owed::of(dispatch).filter(|_| !dispatch.is_suppressed()) {
                    assert!(owed.contains(&state) && found.is_owed(), "O4: seed {seed}, offset {offset}");
                }
            }
            assert_eq!(log.size_between(0, log.0.borrow().next).events, lasting);
        }
    }

    #[test]
    fn s6_past_what_can_be_owed_the_log_forgets() {
        let log = SharedLog::new();
        let limits = LogLimits {
            events_max: 8,
            bytes_max: 1 << 20,
            age_ms_max: u64::MAX,
            share_events_max: 4,
            share_bytes_max: 1 << 17,
        };
        for n in 1..=2_000 {
            log.push(Instant(0), &in_voice(n), Redaction::None, 10, &limits);
        }
        let mut owed = 0;
        log.owed_between(0, 2_000, |_| owed += 1);
        assert!(owed <= OWED_MAX && log.first() >= 2_000 - 1_100, "{owed} owed, from {}", log.first());
    }
}
