//! Cache: a bounded map in front of the store that never returns a value older than the last change.
//!
//! Owns        two generations of entries. When the young one is full it becomes the old one, and entries of the old
//!             one that were not looked up since are dropped.
//! Doors       `lookup`, and after a miss `fill` with the store's value; `put` and `forget` for changes.
//! Invariants  C1 at most `entries_max` entries. C2 a `fill` that began before a `put` or `forget` of its key changes
//!             nothing. (tests `c1_*`, `c2_*`)
//! Not here    the store. Negative results: a missing key is looked up in the store again.

use guildhall_stdx::heap::Sample;
use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Counters of changes, shared by keys with the same hash, so that one changed key invalidates few other fills.
const STRIPES_COUNT: usize = 64;

/// A miss, with the state by which `fill` notices a change in between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Miss {
    stripe: usize,
    changes: u64,
}

pub(crate) struct Cache<K, V> {
    inner: Mutex<Inner<K, V>>,
    /// Entries per generation.
    generation_max: usize,
}

struct Inner<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    changes: [u64; STRIPES_COUNT],
    hasher: RandomState,
}

impl<K: Copy + Eq + Hash, V: Clone> Cache<K, V> {
    /// Estimated memory, and the number of entries.
    pub(crate) fn memory(&self, heap: impl Fn(&V) -> usize) -> (usize, usize) {
        let inner = self.lock();
        let of = |map: &HashMap<K, V>| Sample::LARGE.of_map(map, |_, value| heap(value));
        (of(&inner.young) + of(&inner.old), inner.young.len() + inner.old.len())
    }

    pub(crate) fn new(entries_max: usize) -> Self {
        Self {
            inner: Mutex::new(Inner {
                young: HashMap::new(),
                old: HashMap::new(),
                changes: [0; STRIPES_COUNT],
                hasher: RandomState::new(),
            }),
            generation_max: (entries_max / 2).max(1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K, V>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lookup(&self, key: K) -> Result<V, Miss> {
        let mut inner = self.lock();
        if let Some(value) = inner.young.get(&key) {
            return Ok(value.clone());
        }
        if let Some(value) = inner.old.remove(&key) {
            inner.insert(key, value.clone(), self.generation_max);
            return Ok(value);
        }
        let stripe = inner.stripe(key);
        Err(Miss { stripe, changes: inner.changes[stripe] })
    }

    /// Remembers what was read after a miss, unless the key may have changed since.
    pub(crate) fn fill(&self, miss: Miss, key: K, value: V) {
        let mut inner = self.lock();
        if inner.changes[miss.stripe] == miss.changes {
            inner.insert(key, value, self.generation_max);
        }
    }

    /// The key has this value from now on.
    pub(crate) fn put(&self, key: K, value: V) {
        let mut inner = self.lock();
        inner.change(key);
        inner.insert(key, value, self.generation_max);
    }

    /// Forgets a key whose value changed or was deleted.
    pub(crate) fn forget(&self, key: K) {
        let mut inner = self.lock();
        inner.change(key);
        inner.young.remove(&key);
        inner.old.remove(&key);
    }

    /// Forgets every key with this value. Visits all entries.
    pub(crate) fn forget_value(&self, value: &V)
    where
        V: PartialEq,
    {
        let mut inner = self.lock();
        inner.changes.iter_mut().for_each(|changes| *changes += 1);
        inner.young.retain(|_, v| v != value);
        inner.old.retain(|_, v| v != value);
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        let mut inner = self.lock();
        inner.changes.iter_mut().for_each(|changes| *changes += 1);
        inner.young.clear();
        inner.old.clear();
    }
}

impl<K: Copy + Eq + Hash, V> Inner<K, V> {
    fn stripe(&self, key: K) -> usize {
        self.hasher.hash_one(key) as usize % STRIPES_COUNT
    }

    fn change(&mut self, key: K) {
        let stripe = self.stripe(key);
        self.changes[stripe] += 1;
    }

    fn insert(&mut self, key: K, value: V, generation_max: usize) {
        if self.young.len() >= generation_max && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn miss(cache: &Cache<u32, u32>, key: u32) -> Miss {
        cache.lookup(key).expect_err("it is not cached")
    }

    #[test]
    fn c1_never_more_than_the_bound_and_the_used_ones_stay() {
        let cache = Cache::new(100);
        for key in 0..10_000 {
            cache.put(key, key);
            assert_eq!(cache.lookup(0).ok(), Some(0), "a key that is looked up regularly stays");
            let inner = cache.lock();
            assert!(inner.young.len() + inner.old.len() <= 100);
            assert!(inner.young.keys().all(|k| !inner.old.contains_key(k)));
        }
        miss(&cache, 1);
    }

    #[test]
    fn c2_a_read_that_was_overtaken_is_not_kept() {
        let cache = Cache::new(10);
        let stale = miss(&cache, 1);
        cache.forget(1);
        cache.fill(stale, 1, 7);
        let stale = miss(&cache, 1);
        cache.put(1, 8);
        cache.fill(stale, 1, 7);
        assert_eq!(cache.lookup(1).ok(), Some(8));

        let stale = miss(&cache, 2);
        cache.forget_value(&8);
        cache.fill(stale, 2, 8);
        miss(&cache, 1);
        let fresh = miss(&cache, 2);
        cache.fill(fresh, 2, 9);
        assert_eq!(cache.lookup(2).ok(), Some(9));

        let stale = miss(&cache, 3);
        cache.clear();
        cache.fill(stale, 3, 1);
        miss(&cache, 2);
        miss(&cache, 3);
    }
}
