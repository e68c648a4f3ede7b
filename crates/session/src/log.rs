//! Logs: what sessions that stand together were sent, kept once for all of them.
//!
//! Owns        `Log`, the dispatches of one group of a relay in the order they went out.
//! Doors       `push` from the partition's fan-out; `get` and `bytes_between` for replay buffers, which refer to stretches.
//! Invariants  O1 a place never holds another dispatch than the one it was given to. O2 places ascend by one. (tests)
//! Limits      `LogLimits`: past any of them the oldest go, and whoever still refers to them can neither be sent them
//!             nor resume.
//! Not here    who refers to it: `replay`.

use crate::dispatch::Dispatch;
use guildhall_relay::Redaction;
use guildhall_stdx::Instant;
use std::{cell::RefCell, collections::VecDeque, rc::Rc};

/// How much a log keeps.
#[derive(Clone, Copy, Debug)]
pub struct LogLimits {
    /// Most dispatches.
    pub events_max: usize,
    /// Most bytes of bodies; the newest dispatch stays whatever its size.
    pub bytes_max: usize,
    /// Nobody asks for what is older.
    pub age_ms_max: u64,
}

/// A dispatch in the form in which a group gets it.
#[derive(Clone, Debug)]
pub struct Logged {
    /// What.
    pub dispatch: Rc<Dispatch>,
    /// In which form.
    pub redaction: Redaction,
    at: Instant,
    /// Bytes of all bodies in front of it, since the log began; wraps.
    bytes_before: u64,
}

#[derive(Debug, Default)]
struct Entries {
    /// Place of the oldest.
    first: u64,
    entries: VecDeque<Logged>,
    bytes_before_next: u64,
}

/// See the module. Belongs to one partition.
#[derive(Debug, Default)]
pub struct Log(RefCell<Entries>);

impl Log {
    /// An empty log.
    #[must_use]
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    /// Appends a dispatch whose body has `bytes`, unless it is the newest already; returns its place. Forgets what is
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
            let bytes_before = log.bytes_before_next;
            log.entries.push_back(Logged { dispatch: dispatch.clone(), redaction, at: now, bytes_before });
            log.bytes_before_next = bytes_before.wrapping_add(bytes as u64);
            log.forget_past(now, limits);
        }
        log.first + log.entries.len() as u64 - 1
    }

    /// Forgets what is too old.
    pub fn forget_old(&self, now: Instant, limits: &LogLimits) {
        let mut log = self.0.borrow_mut();
        log.forget_past(now, limits);
        if log.entries.front().is_some_and(|oldest| limits.is_old(now, oldest)) {
            // The newest was spared.
            log.entries.pop_front();
            log.first += 1;
        }
        let (len, capacity) = (log.entries.len(), log.entries.capacity());
        if capacity > 4 * len.max(16) {
            log.entries.shrink_to(2 * len);
        }
    }

    /// The dispatch at a place; none once it was forgotten.
    #[must_use]
    pub fn get(&self, place: u64) -> Option<Logged> {
        let log = self.0.borrow();
        log.entries.get(usize::try_from(place.checked_sub(log.first)?).ok()?).cloned()
    }

    /// The oldest place that is still here.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.0.borrow().first
    }

    /// Bytes of bodies from one place up to another; what was forgotten counts nothing.
    #[must_use]
    pub fn bytes_between(&self, from: u64, to: u64) -> u64 {
        let log = self.0.borrow();
        let before = |place: u64| match place.checked_sub(log.first) {
            None => log.entries.front().map_or(log.bytes_before_next, |oldest| oldest.bytes_before),
            Some(index) => log.entries.get(index as usize).map_or(log.bytes_before_next, |logged| logged.bytes_before),
        };
        before(to).wrapping_sub(before(from))
    }

    /// Forgets everything: nobody refers to it.
    pub fn clear(&self) {
        let mut log = self.0.borrow_mut();
        log.first += log.entries.len() as u64;
        log.entries = VecDeque::new();
    }
}

impl LogLimits {
    fn is_old(&self, now: Instant, logged: &Logged) -> bool {
        now.ms_since(logged.at) > self.age_ms_max
    }
}

impl Entries {
    fn forget_past(&mut self, now: Instant, limits: &LogLimits) {
        let is_past = |log: &Self| {
            log.entries.len() > limits.events_max
                || log.len_bytes() > limits.bytes_max as u64
                || log.entries.front().is_some_and(|oldest| limits.is_old(now, oldest))
        };
        while self.entries.len() > 1 && is_past(self) {
            self.entries.pop_front();
            self.first += 1;
        }
    }

    fn len_bytes(&self) -> u64 {
        self.entries.front().map_or(0, |oldest| self.bytes_before_next.wrapping_sub(oldest.bytes_before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o1_o2_places_and_limits() {
        let log = Log::new();
        let dispatches: Vec<_> = (0..10).map(|_| Dispatch::withheld()).collect();
        let limits = LogLimits { events_max: 4, bytes_max: 1_000, age_ms_max: 100 };
        for (n, dispatch) in dispatches.iter().enumerate() {
            for _ in 0..2 {
                assert_eq!(log.push(Instant(0), dispatch, Redaction::NONE, 10 * n, &limits), n as u64, "once each");
            }
        }
        assert_eq!(log.first(), 6);
        assert!(log.get(5).is_none() && log.get(10).is_none());
        assert!((6..10).all(|n| Rc::ptr_eq(&log.get(n as u64).unwrap().dispatch, &dispatches[n])));
        assert_eq!((log.bytes_between(6, 10), log.bytes_between(7, 9), log.bytes_between(0, 10)), (300, 150, 300));
        let tight = LogLimits { bytes_max: 150, ..limits };
        assert_eq!(log.push(Instant(0), &Dispatch::withheld(), Redaction::NONE, 100, &tight), 10);
        assert_eq!(log.first(), 10, "90 and 100 are more than 150");
        assert_eq!(log.push(Instant(50), &dispatches[1], Redaction::NONE, 1, &limits), 11);
        log.forget_old(Instant(101), &limits);
        assert_eq!(log.first(), 11);
        log.forget_old(Instant(151), &limits);
        assert_eq!((log.first(), log.get(11).is_none()), (12, true));
        log.clear();
        assert_eq!((log.first(), log.push(Instant(0), &dispatches[0], Redaction::NONE, 1, &limits)), (12, 12));
    }
}
