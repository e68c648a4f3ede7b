//! Copies: the bounded queue of a tap, and for how many sessions its reader has time.
//!
//! Owns        the queue (`CopyQueue`), and its writer for one session (`SessionCopies`).
//! Invariants  C1 a copy that does not fit ends the copies of its session: a session has no gap. C2 the fuller the
//!             queue is, the fewer sessions may write to it, and the newest lose their place first: a reader that is
//!             too slow for all sessions has the oldest in full. C3 after that, further sessions are admitted one at a
//!             time, when the reader has caught up; the pauses between them double. (tests `c*_*`)
//! Limits      `bytes_max` of copies that wait, `sessions_max` sessions at once.
//! Not here    the choice of sessions: `tap`. A copy: `tap_message`.

use crate::tap_message::TapMessage;
use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Bytes that a copy counts for on top of its payload.
const COPY_BYTES: usize = mem::size_of::<TapMessage>();
/// A reader that has kept up for this time gets twice as many sessions, or one after it had lost some.
const GROW_EVERY: Duration = Duration::from_secs(5);
/// The same after a session was lost, at first and at most.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(600));

/// Bounds of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyLimits {
    pub bytes_max: usize,
    /// Sessions at once.
    pub sessions_max: usize,
    /// Sessions at the start. More follow while the reader keeps up (`CopyQueue::grow`).
    pub sessions_first: usize,
    /// `sessions_max` counts sessions that have ended too, but not those that were lost.
    pub counts_ended: bool,
    /// The reader calls `grow`: a lost session makes no room for another one at once.
    pub is_paced: bool,
    /// Private dispatches are copied.
    pub private: bool,
}

impl CopyLimits {
    /// Bytes up to which the session at this place may fill the queue (C2): all for the oldest, half for the last one
    /// for which there is a place. The steps are even, so that each loss has time to show.
    fn bytes_at(&self, place: usize) -> usize {
        let (half, places) = (self.bytes_max / 2, self.sessions_max.max(1));
        self.bytes_max - half * place.min(places) / places
    }
}

/// How many sessions a queue has, or had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopiedSessions {
    /// Sessions that were ever copied from.
    pub total: u64,
    /// Sessions that are copied from now.
    pub now: u64,
    /// Of `total`, those that ended because the reader was too slow.
    pub lost_total: u64,
}

/// Copies that wait for a reader.
#[derive(Debug)]
pub(crate) struct CopyQueue {
    limits: CopyLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<TapMessage>,
    bytes: usize,
    /// Ordinals of the sessions that are copied, ascending.
    active: Vec<u64>,
    /// How many may be copied now.
    room: usize,
    sessions: CopiedSessions,
    growth: Growth,
    /// The reader has gone.
    is_closed: bool,
}

/// When `room` grows.
#[derive(Debug)]
struct Growth {
    changed_at: Duration,
    wait: Duration,
    has_lost: bool,
    lost_seen: u64,
}

impl Default for Growth {
    fn default() -> Self {
        Self { changed_at: Duration::ZERO, wait: GROW_EVERY, has_lost: false, lost_seen: 0 }
    }
}

impl CopyQueue {
    pub fn new(limits: CopyLimits) -> Arc<Self> {
        let room = limits.sessions_first.min(limits.sessions_max);
        Arc::new(Self { limits, state: Mutex::new(State { room, ..State::default() }) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a session, if there is room.
    pub fn admit(self: &Arc<Self>) -> Option<SessionCopies> {
        let mut state = self.lock();
        let CopiedSessions { total, lost_total, .. } = state.sessions;
        let is_spent = self.limits.counts_ended && total - lost_total >= self.limits.sessions_max as u64;
        if state.is_closed || is_spent || state.active.len() >= state.room {
            return None;
        }
        state.active.push(total);
        state.sessions.total += 1;
        Some(SessionCopies { queue: self.clone(), session: total, is_ended: false })
    }

    /// The oldest copy. None: none waits.
    pub fn next(&self) -> Option<TapMessage> {
        let mut state = self.lock();
        let message = state.messages.pop_front()?;
        state.bytes -= message.payload_bytes().map_or(0, |bytes| bytes + COPY_BYTES);
        Some(message)
    }

    /// Makes room for more sessions, if it is time. The caller has caught up, `now` after the start. True: there is
    /// room, for which sessions may be chosen.
    pub fn grow(&self, now: Duration) -> bool {
        let mut state = self.lock();
        let State { room, sessions, growth, .. } = &mut *state;
        if growth.lost_seen != sessions.lost_total {
            (growth.lost_seen, growth.has_lost, growth.changed_at) = (sessions.lost_total, true, now);
            growth.wait = (growth.wait * 2).clamp(RETRY_AFTER.0, RETRY_AFTER.1);
        }
        // Without a session there is nothing to wait for but the reader.
        let wait = if *room == 0 { GROW_EVERY } else { growth.wait };
        if *room >= self.limits.sessions_max || now.saturating_sub(growth.changed_at) < wait {
            return false;
        }
        growth.changed_at = now;
        *room = if growth.has_lost { *room + 1 } else { *room * 2 }.clamp(1, self.limits.sessions_max);
        true
    }

    /// Leaves out a session for which the reader has no room. It is not counted as lost.
    pub fn leave_out(&self, session: u64) {
        let mut state = self.lock();
        state.remove(session);
        state.room = state.room.min(state.active.len());
        state.growth.has_lost = true;
        state.growth.wait = RETRY_AFTER.1;
    }

    /// The reader goes: no copy is taken any more.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.active.clear();
        state.messages.clear();
        state.bytes = 0;
    }

    pub fn sessions(&self) -> CopiedSessions {
        let state = self.lock();
        CopiedSessions { now: state.active.len() as u64, ..state.sessions }
    }

    /// Bytes of copies that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.lock().bytes
    }
}

impl State {
    fn remove(&mut self, session: u64) {
        if let Ok(at) = self.active.binary_search(&session) {
            self.active.remove(at);
        }
    }
}

/// Copies of one session for one tap.
#[derive(Debug)]
pub(crate) struct SessionCopies {
    queue: Arc<CopyQueue>,
    session: u64,
    is_ended: bool,
}

impl SessionCopies {
    /// Ordinal of the session in the tap, from 0.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// No copy follows.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Private dispatches are among them.
    pub fn has_private(&self) -> bool {
        self.queue.limits.private
    }

    /// Whether these are copies for this queue.
    pub fn is_of(&self, queue: &Arc<CopyQueue>) -> bool {
        Arc::ptr_eq(&self.queue, queue)
    }

    pub fn push(&mut self, message: TapMessage) {
        if self.is_ended {
            return;
        }
        let limits = self.queue.limits;
        let mut state = self.queue.lock();
        let Ok(place) = state.active.binary_search(&self.session) else {
            drop(state);
            return self.end();
        };
        let bytes = message.payload_bytes().unwrap_or(0) + COPY_BYTES;
        if state.bytes + bytes <= limits.bytes_at(place) {
            state.bytes += bytes;
            state.messages.push_back(message);
            return;
        }
        self.is_ended = true;
        state.active.remove(place);
        state.sessions.lost_total += 1;
        if limits.is_paced {
            state.room = state.active.len();
        }
        // Bounded: one per session.
        state.messages.push_back(TapMessage::End { session: self.session, is_full: true });
    }

    fn end(&mut self) {
        if !mem::replace(&mut self.is_ended, true) {
            let mut state = self.queue.lock();
            state.remove(self.session);
            if !state.is_closed {
                state.messages.push_back(TapMessage::End { session: self.session, is_full: false });
            }
        }
    }
}

impl Drop for SessionCopies {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(sessions_first: usize, sessions_max: usize, counts_ended: bool) -> Arc<CopyQueue> {
        CopyQueue::new(CopyLimits {
            bytes_max: 1 << 20,
            sessions_max,
            sessions_first,
            counts_ended,
            is_paced: true,
            private: false,
        })
    }

    fn copy(session: u64) -> TapMessage {
        let payload = vec![0; 10_000].into();
        TapMessage::Frame { session, name: None, writer: None, wire_bytes: 1, payload }
    }

    /// Sessions whose copies are taken, after one more of each.
    fn round(sessions: &mut Vec<SessionCopies>) -> Vec<u64> {
        sessions.iter_mut().for_each(|of| of.push(copy(of.session())));
        sessions.retain(|of| !of.is_ended());
        sessions.iter().map(SessionCopies::session).collect()
    }

    fn admit_all(queue: &Arc<CopyQueue>, sessions: &mut Vec<SessionCopies>) {
        sessions.extend(std::iter::from_fn(|| queue.admit()));
    }

    /// The reader takes one copy a round for each session that it has time for.
    #[test]
    fn c2_a_slow_reader_has_the_oldest_sessions_in_full() {
        for fits in [1, 2, 5, 15] {
            let (queue, mut sessions) = (queue(16, 16, false), Vec::new());
            admit_all(&queue, &mut sessions);
            let mut left = Vec::new();
            let mut waiting_max = 0;
            for _ in 0..2_000 {
                left = round(&mut sessions);
                waiting_max = waiting_max.max(queue.waiting_bytes());
                let mut taken = 0;
                while taken < fits
                    && queue.next().inspect(|of| taken += usize::from(of.payload_bytes().is_some())).is_some()
                {
                }
            }
            let oldest: Vec<u64> = (0..fits as u64).collect();
            assert_eq!(left, oldest, "the reader has time for {fits}");
            assert_eq!(queue.sessions(), CopiedSessions { total: 16, now: fits as u64, lost_total: 16 - fits as u64 });
            assert!(waiting_max <= 1 << 20);
        }
    }

    #[test]
    fn c1_a_session_has_no_gap_and_leaves_the_queue_to_the_others() {
        let (queue, mut sessions) = (queue(2, 2, false), Vec::new());
        admit_all(&queue, &mut sessions);
        let mut newest = sessions.pop().unwrap();
        while !newest.is_ended() {
            newest.push(copy(1));
        }
        let copies = queue.waiting_bytes() / (10_000 + COPY_BYTES);
        assert!((70..80).contains(&copies), "three quarters of the queue, not {copies}");
        newest.push(copy(1));
        assert_eq!(round(&mut sessions), [0], "the oldest has the rest");
        while queue.next().is_some() {}
        newest.push(copy(1));
        assert_eq!((queue.next(), queue.waiting_bytes()), (None, 0));
    }

    #[test]
    fn c3_sessions_are_admitted_while_the_reader_keeps_up() {
        let (queue, mut sessions) = (queue(1, 9, false), Vec::new());
        let at = |seconds: u64| Duration::from_secs(seconds);
        let mut counts = Vec::new();
        for seconds in 0..30 {
            queue.grow(at(seconds));
            admit_all(&queue, &mut sessions);
            counts.push(sessions.len());
        }
        assert_eq!([0, 4, 5, 10, 15, 20, 29].map(|at| counts[at]), [1, 1, 2, 4, 8, 9, 9]);
        // One is lost: the next one comes after a minute of keeping up, a further one after two.
        while sessions.len() == 9 {
            round(&mut sessions);
        }
        let left = sessions.len();
        while queue.next().is_some() {}
        let mut grown = Vec::new();
        for seconds in 30..400 {
            if queue.grow(at(seconds)) {
                grown.push(seconds);
                admit_all(&queue, &mut sessions);
                if grown.len() == 1 {
                    assert_eq!(sessions.len(), left + 1);
                    let newest = sessions.last_mut().unwrap();
                    (0..100).for_each(|_| newest.push(copy(newest.session())));
                    sessions.pop();
                    while queue.next().is_some() {}
                }
            }
        }
        assert_eq!(grown, [90, 211], "{grown:?}");
        // Without any session, the reader is all that is waited for.
        sessions.clear();
        let (queue, mut sessions) = (self::queue(1, 1, true), Vec::new());
        admit_all(&queue, &mut sessions);
        while round(&mut sessions) == [0] {}
        assert!(queue.admit().is_none());
        while queue.next().is_some() {}
        assert!(!queue.grow(at(1)) && queue.grow(at(6)));
        assert_eq!(queue.admit().unwrap().session(), 1, "a lost session does not count");
    }

    #[test]
    fn ended_sessions_count_with_counts_ended() {
        for (counts_ended, admitted) in [(true, 3), (false, 50)] {
            let queue = queue(3, 3, counts_ended);
            assert_eq!((0..50).filter(|_| queue.admit().is_some()).count(), admitted);
        }
    }

    #[test]
    fn a_session_that_is_left_out_ends_and_nothing_is_copied_after_the_end() {
        let queue = queue(2, 2, false);
        let (mut first, mut second) = (queue.admit().unwrap(), queue.admit().unwrap());
        queue.leave_out(0);
        for of in [&mut first, &mut second] {
            of.push(copy(of.session()));
        }
        assert_eq!(queue.next(), Some(TapMessage::End { session: 0, is_full: false }));
        assert_eq!(queue.next(), Some(copy(1)));
        drop(first);
        assert_eq!((queue.next(), queue.sessions().lost_total), (None, 0));
        assert!(queue.admit().is_none(), "there is no room for another");
        queue.close();
        second.push(copy(1));
        drop(second);
        assert_eq!((queue.next(), queue.waiting_bytes()), (None, 0));
        assert!(queue.admit().is_none());
    }
}
