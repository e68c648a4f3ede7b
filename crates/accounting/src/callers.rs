//! Callers: the senders of the most requests in the last minute, in bounded memory.
//!
//! Owns        `Loudest`, the requests and their time by caller, in `SLOTS` slots of `SLOT_S` seconds.
//! Invariants  C1 a caller with more than one in `COUNTERS` of the requests of a slot is in it, with at least its
//!             requests (Space-Saving; Metwally, Agrawal, El Abbadi 2005). C2 what is older than the window counts for
//!             nothing. (tests `c1_*`, `c2_*`)
//! Limits      `COUNTERS` callers in a slot.
//! Not here    the clock, and the definition of a caller: `guildhall_http_kit`.

use std::{
    cmp::Reverse,
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
};

/// Seconds of one slot.
const SLOT_S: u64 = 10;
const SLOTS: usize = 6;
/// Seconds that a report is about.
pub const CALLERS_WINDOW_S: u64 = SLOT_S * SLOTS as u64;
const COUNTERS: usize = 128;

/// Requests of one caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Of these, up to `over` may be of callers whose counter this one took.
    pub count: u64,
    pub over: u64,
    /// Wall time of the caller's own requests.
    pub ns: u64,
}

#[derive(Clone, Debug)]
struct Slot<K> {
    number: u64,
    counters: HashMap<K, Requests>,
}

/// The callers with the most requests.
#[derive(Clone, Debug)]
pub struct Loudest<K> {
    slots: Vec<Slot<K>>,
}

impl<K> Default for Loudest<K> {
    fn default() -> Self {
        Self { slots: (0..SLOTS).map(|_| Slot { number: 0, counters: HashMap::new() }).collect() }
    }
}

impl<K: Clone + Eq + Hash + Ord> Loudest<K> {
    /// A request of a caller took `ns`. `at_s` ascends.
    pub fn note(&mut self, at_s: u64, caller: K, ns: u64) {
        // From 1, so that a slot that was never used is older than every window.
        let number = at_s / SLOT_S + 1;
        let slot = &mut self.slots[number as usize % SLOTS];
        if slot.number != number {
            slot.number = number;
            slot.counters.clear();
        }
        let is_full = slot.counters.len() >= COUNTERS;
        let of = match slot.counters.entry(caller) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) if !is_full => new.insert(Requests::default()),
            Entry::Vacant(new) => {
                let caller = new.into_key();
                let least = slot.counters.iter().min_by_key(|(caller, of)| (of.count, *caller));
                let (least, count) = least.map(|(caller, of)| (caller.clone(), of.count)).expect("it is full");
                slot.counters.remove(&least);
                slot.counters.entry(caller).or_insert(Requests { count, over: count, ns: 0 })
            }
        };
        of.count += 1;
        of.ns += ns;
    }

    /// The callers of the last minute, most requests first.
    #[must_use]
    pub fn report(&self, at_s: u64, limit: usize) -> Vec<(K, Requests)> {
        let number = at_s / SLOT_S + 1;
        let mut sums = HashMap::<&K, Requests>::new();
        for slot in self.slots.iter().filter(|slot| slot.number + SLOTS as u64 > number) {
            for (caller, of) in &slot.counters {
                let sum = sums.entry(caller).or_default();
                sum.count += of.count;
                sum.over += of.over;
                sum.ns += of.ns;
            }
        }
        let mut callers: Vec<_> = sums.into_iter().map(|(caller, of)| (caller.clone(), of)).collect();
        callers.sort_unstable_by(|(a, of_a), (b, of_b)| (Reverse(of_a.count), a).cmp(&(Reverse(of_b.count), b)));
        callers.truncate(limit);
        callers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_a_loud_caller_is_never_lost_among_many() {
        let mut loudest = Loudest::default();
        for n in 0..10_000u64 {
            loudest.note(5, n, 1);
            if n % 10 == 0 {
                loudest.note(5, u64::MAX, 3);
            }
        }
        let report = loudest.report(5, 3);
        assert_eq!(report.len(), 3);
        let (caller, of) = report[0];
        assert_eq!((caller, of.count - of.over <= 1_000, of.count >= 1_000, of.ns), (u64::MAX, true, true, 3_000));
        assert!(loudest.slots.iter().all(|slot| slot.counters.len() <= COUNTERS));
    }

    #[test]
    fn c2_only_the_last_minute_counts() {
        let mut loudest = Loudest::default();
        assert_eq!(loudest.report(0, 9), []);
        for second in 0..120 {
            loudest.note(second, "a", 2);
        }
        let (_, of) = loudest.report(119, 9)[0];
        assert_eq!(of, Requests { count: 60, over: 0, ns: 120 });
        loudest.note(121, "b", 1);
        let report = loudest.report(121, 9);
        assert_eq!(
            report,
            [("a", Requests { count: 50, over: 0, ns: 100 }), ("b", Requests { count: 1, over: 0, ns: 1 })]
        );
        assert_eq!(loudest.report(300, 9), [], "nothing was sent since");
    }
}
