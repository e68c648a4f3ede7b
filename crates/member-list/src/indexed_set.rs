//! Order-statistic set: a sorted set that maps keys to ranks and ranks to keys.
//!
//! Owns        a B-tree with counts: each node stores the number of keys in its subtree.
//! Doors       `from_sorted`, `insert`, `remove` change it; `find` returns a rank, `select` and `iter_from` take one.
//! Invariants  R1 keys ascend. R2 each node's count is correct, all leaves have the same depth, and every node except
//!             the root has `KEYS_MIN..=KEYS_MAX` keys. R3 each operation costs at most some hundred steps per level,
//!             and there are log₃₂ n levels. (tests `r1_*`, `r2_*` here, `scale`)
//! Limits      no limit on the number of keys. Memory per key, nodes included: 1.25 times its size when built at
//!             once, 1.7 times after many changes, 2.5 times in the worst case. (24-byte keys, test `memory`)
//! Not here    the meaning of a key.
//!
//! Alternatives considered. Comparisons follow pointers, so their number matters most. A B-tree stores each key once,
//! including in branches; a B⁺-tree needs copies of keys as separators, or a descent to a leaf per
//! comparison. A chunked
//! list with a counted directory needs no rebalancing, but its directory grows with the square root of n. A balanced
//! binary tree or a skip list needs two pointers and a count per key.

mod iter;
mod node;

use iter::Iter;
use node::Node;
use std::{
    cmp::Ordering,
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Counts work: comparisons, children visited, keys and children moved.
#[derive(Default)]
struct Steps(AtomicU64);

impl Steps {
    /// Not an atomic addition: concurrent readers may lose some steps.
    fn add(&self, count: usize) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count as u64), Relaxed);
    }
}

/// A sorted set of keys with ranks from 0.
pub struct IndexedSet<K> {
    root: Node<K>,
    steps: Steps,
}

impl<K> Default for IndexedSet<K> {
    fn default() -> Self {
        Self { root: Node::leaf(), steps: Steps::default() }
    }
}

impl<K: fmt::Debug> fmt::Debug for IndexedSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter_from(0)).finish()
    }
}

impl<K> IndexedSet<K> {
    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.root.len()
    }

    /// Heap memory in bytes, without what keys hold. Takes a step per 1,700 keys or so.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.root.heap_bytes()
    }

    /// Whether the set has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rank of a key. `compare` orders a key relative to the wanted one.
    ///
    /// # Errors
    /// If there is no such key: the rank at which it would be inserted.
    pub fn find(&self, compare: impl Fn(&K) -> Ordering) -> Result<usize, usize> {
        self.root.find(&compare, &self.steps)
    }

    /// Key with this rank.
    #[must_use]
    pub fn select(&self, rank: usize) -> Option<&K> {
        self.iter_from(rank).next()
    }

    /// Keys from this rank on, ascending.
    pub fn iter_from(&self, rank: usize) -> impl Iterator<Item = &K> {
        Iter::new(&self.root, rank, &self.steps)
    }

    /// Removes the key that `compare` calls equal, and returns the rank it had.
    pub fn remove(&mut self, compare: impl Fn(&K) -> Ordering) -> Option<(usize, K)> {
        let removed = self.root.remove(&compare, &self.steps);
        self.root.lower_if_hollow();
        removed
    }

    /// Steps of work so far: comparisons, children visited, keys and children moved. For tests and metrics.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps.0.load(Relaxed)
    }
}

impl<K: Ord> IndexedSet<K> {
    /// Builds the set from all keys at once. Each key must be greater than the one before. Only debug
    /// builds check it: a
    /// million comparisons through pointers would cost more than the rest.
    #[must_use]
    pub fn from_sorted(keys: Vec<K>) -> Self {
        debug_assert!(keys.is_sorted_by(|a, b| a < b), "keys have to ascend: sort them first");
        Self { root: Node::from_sorted(keys), steps: Steps::default() }
    }

    /// Inserts a key; returns its rank and the equal key that it replaced.
    pub fn insert(&mut self, key: K) -> (usize, Option<K>) {
        let inserted = self.root.insert(key, &self.steps);
        self.root.raise_if_overfull(&self.steps);
        inserted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::Rng;

    /// Compares a `IndexedSet` with a sorted `Vec` over random operations.
    fn check(seed: u64, keys_start: usize, keys_range: u64, changes: usize) {
        let mut rng = Rng::new(seed);
        let mut model: Vec<u64> = (0..keys_start).map(|_| rng.below(keys_range)).collect();
        model.sort_unstable();
        model.dedup();
        let mut set = IndexedSet::from_sorted(model.clone());
        set.root.check_shape();
        // Some runs grow, some shrink to nothing.
        let grows = rng.fraction();
        for change in 0..changes {
            let key = rng.below(keys_range);
            let place = model.binary_search(&key);
            assert_eq!(set.find(|other| other.cmp(&key)), place, "seed {seed}, change {change}");
            if rng.chance(grows) {
                let expected = match place {
                    Ok(rank) => (rank, Some(key)),
                    Err(rank) => {
                        model.insert(rank, key);
                        (rank, None)
                    }
                };
                assert_eq!(set.insert(key), expected, "seed {seed}, change {change}");
            } else {
                // Usually an existing key.
                let key = if rng.chance(0.9) { rng.pick(&model).copied().unwrap_or(key) } else { key };
                let expected = model.binary_search(&key).ok().map(|rank| (rank, model.remove(rank)));
                assert_eq!(set.remove(|other| other.cmp(&key)), expected, "seed {seed}, change {change}");
            }
            assert_eq!(set.len(), model.len());
            let rank = rng.below(model.len() as u64 + 2) as usize;
            assert_eq!(set.select(rank), model.get(rank), "seed {seed}, change {change}");
            if change % 64 == 0 {
                set.root.check_shape();
                assert!(set.iter_from(rank).eq(model.iter().skip(rank)), "seed {seed}, change {change}");
            }
        }
        set.root.check_shape();
        assert!(set.iter_from(0).eq(&model), "seed {seed}");
    }

    #[test]
    fn r1_r2_as_a_sorted_vec() {
        for seed in 0..40 {
            check(seed, 0, 400, 1500);
            check(seed, 300, 3_000, 1500);
            check(seed, 30_000, 40_000, 300);
        }
    }

    #[test]
    fn r2_every_size_can_be_built_and_emptied() {
        for len in (0..=300).chain([3_135, 3_136, 3_137, 6_500, 175_700]) {
            let mut set = IndexedSet::from_sorted((0..len).collect());
            set.root.check_shape();
            assert_eq!(set.len(), len);
            for key in (0..len).take(300) {
                assert_eq!(set.remove(|other| other.cmp(&key)), Some((0, key)));
                set.root.check_shape_shallow();
            }
            assert_eq!(set.len(), len.saturating_sub(300));
        }
    }

    /// Three levels, so that branches also split, merge and move children.
    #[test]
    fn r2_filled_and_emptied_from_either_end_and_anywhere() {
        const KEYS: u64 = 15_000;
        let ascending: Vec<u64> = (0..KEYS).collect();
        let descending: Vec<u64> = ascending.iter().rev().copied().collect();
        let mut shuffled = ascending.clone();
        let mut rng = Rng::new(1);
        (1..shuffled.len()).rev().for_each(|at| shuffled.swap(at, rng.below(at as u64 + 1) as usize));
        let orders = [ascending, descending, shuffled];
        for filled in &orders {
            for emptied in &orders {
                let mut set = IndexedSet::default();
                let changes = filled.iter().map(|key| (true, key)).chain(emptied.iter().map(|key| (false, key)));
                for (change, (is_insert, key)) in changes.enumerate() {
                    let has_changed = match is_insert {
                        true => set.insert(*key).1.is_none(),
                        false => set.remove(|other| other.cmp(key)).is_some(),
                    };
                    assert!(has_changed);
                    if change % 200 == 0 {
                        set.root.check_shape();
                        assert_eq!(set.iter_from(0).count(), set.len());
                    }
                }
                assert!(set.is_empty());
            }
        }
    }

    #[test]
    #[should_panic(expected = "have to ascend")]
    fn r1_equal_keys_are_refused() {
        let _ = IndexedSet::from_sorted(vec![1, 1]);
    }
}
