//! Expiring: entries of a table that count for `LIFETIME_MS` from their recording on.
//!
//! Owns        `Expiring`.
//! Limits      the `max` of `record`; past it the oldest is dropped. `SWEPT_MAX` expired entries are removed at once.

use crate::sweep::{SWEPT_MAX, Sweep};
use guildhall_stdx::Instant;
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
pub(crate) struct Expiring<K, V, const LIFETIME_MS: u64> {
    entries: BTreeMap<K, (Instant, V)>,
    /// By time; may refer to a key that has been recorded again since.
    in_order: VecDeque<(Instant, K)>,
    sweep: Sweep,
}

impl<K, V, const LIFETIME_MS: u64> Default for Expiring<K, V, LIFETIME_MS> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), in_order: VecDeque::new(), sweep: Sweep::default() }
    }
}

impl<K: Clone + Ord, V, const LIFETIME_MS: u64> Expiring<K, V, LIFETIME_MS> {
    /// The entry with this key: its value while it counts, `Some(None)` from then until it is removed.
    pub fn find(&self, now: Instant, key: &K) -> Option<Option<&V>> {
        self.entries.get(key).map(|(at, value)| (now.ms_since(*at) < LIFETIME_MS).then_some(value))
    }

    pub fn record(&mut self, now: Instant, key: K, value: V, max: usize) {
        self.entries.insert(key.clone(), (now, value));
        self.in_order.push_back((now, key));
        while self.in_order.len() > max {
            self.forget_oldest();
        }
        self.sweep(now);
    }

    /// Entries that count, oldest first, with their ages in milliseconds.
    pub fn ages(&self, now: Instant) -> impl Iterator<Item = (u64, &K, &V)> {
        self.in_order.iter().filter_map(move |(at, key)| {
            let (recorded_at, value) = self.entries.get(key)?;
            let age = now.ms_since(*at);
            (recorded_at == at && age < LIFETIME_MS).then_some((age, key, value))
        })
    }

    /// Removes expired entries, or part of them if there are many. Expired entries never count.
    pub fn sweep(&mut self, now: Instant) {
        for _ in 0..SWEPT_MAX {
            if !self.has_expired(now) {
                break;
            }
            self.forget_oldest();
        }
        self.sweep.arm(now, self.in_order.is_empty(), self.has_expired(now));
    }

    /// Time at which `sweep` should be called even without other input.
    pub fn sweep_at(&self) -> Option<Instant> {
        self.sweep.at()
    }

    /// Number of entries, and of places in the order.
    #[cfg(test)]
    pub fn sizes(&self) -> (usize, usize) {
        (self.entries.len(), self.in_order.len())
    }

    fn has_expired(&self, now: Instant) -> bool {
        self.in_order.front().is_some_and(|(at, _)| now.ms_since(*at) >= LIFETIME_MS)
    }

    fn forget_oldest(&mut self) {
        if let Some((at, key)) = self.in_order.pop_front()
            && self.entries.get(&key).is_some_and(|(recorded_at, _)| *recorded_at == at)
        {
            self.entries.remove(&key);
        }
    }
}
