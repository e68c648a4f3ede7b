//! Top list: the heaviest keys of a stream, in memory that does not grow with the keys.
//!
//! Owns        `TopList`, the Space-Saving sketch of Metwally, Agrawal and El Abbadi, "Efficient Computation of
//!             Frequent and Top-k Elements in Data Streams" (2005), with weights instead of counts, halved at intervals
//!             by its owner.
//! Invariants  T1 a reported weight is at least the true one, and above it by at most `error`. T2 every key whose true
//!             weight exceeds total / capacity is listed. (test)
//! Limits      `capacity` keys; a new key takes the place of the lightest.

use std::{collections::HashMap, hash::Hash};

/// One key of a top list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopEntry<K> {
    pub key: K,
    /// Its weight, never below the true one.
    pub weight: u64,
    /// Most by which `weight` exceeds the true one.
    pub error: u64,
}

/// The heaviest keys of a stream.
#[derive(Debug)]
pub struct TopList<K> {
    /// A binary heap with the lightest key first.
    heap: Vec<TopEntry<K>>,
    index: HashMap<K, usize>,
    capacity: usize,
}

impl<K: Copy + Eq + Hash> TopList<K> {
    /// An empty list of at most `capacity` keys (at least one).
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { heap: Vec::new(), index: HashMap::new(), capacity: capacity.max(1) }
    }

    /// Adds `weight` to a key, and returns the key that lost its place to it. O(log capacity).
    pub fn add(&mut self, key: K, weight: u64) -> Option<K> {
        if let Some(at) = self.index.get(&key).copied() {
            self.heap[at].weight = self.heap[at].weight.saturating_add(weight);
            self.sift_down(at);
            return None;
        }
        if self.heap.len() < self.capacity {
            self.heap.push(TopEntry { key, weight, error: 0 });
            self.index.insert(key, self.heap.len() - 1);
            self.sift_up(self.heap.len() - 1);
            return None;
        }
        let lightest = self.heap[0];
        self.index.remove(&lightest.key);
        self.heap[0] = TopEntry { key, weight: lightest.weight.saturating_add(weight), error: lightest.weight };
        self.index.insert(key, 0);
        self.sift_down(0);
        Some(lightest.key)
    }

    /// Halves all weights, so that what happened long ago counts less.
    pub fn decay(&mut self) {
        for entry in &mut self.heap {
            (entry.weight, entry.error) = (entry.weight / 2, entry.error / 2);
        }
    }

    /// All listed keys, heaviest first.
    #[must_use]
    pub fn entries(&self) -> Vec<TopEntry<K>> {
        let mut entries = self.heap.clone();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.weight));
        entries
    }

    fn sift_up(&mut self, mut at: usize) {
        while at > 0 && self.heap[(at - 1) / 2].weight > self.heap[at].weight {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let children = 2 * at + 1..(2 * at + 3).min(self.heap.len());
            let Some(lightest) = children.min_by_key(|child| self.heap[*child].weight) else { return };
            if self.heap[lightest].weight >= self.heap[at].weight {
                return;
            }
            self.swap(at, lightest);
            at = lightest;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.index.insert(self.heap[a].key, a);
        self.index.insert(self.heap[b].key, b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn t1_t2_weights_are_bounded_and_heavy_keys_are_listed(
            adds in proptest::collection::vec((0u8..40, 0u64..1000), 0..400),
            capacity in 1usize..12,
        ) {
            let (mut top, mut truth) = (TopList::new(capacity), [0u64; 40]);
            for (key, weight) in adds {
                top.add(key, weight);
                truth[usize::from(key)] += weight;
            }
            let (entries, total) = (top.entries(), truth.iter().sum::<u64>());
            prop_assert!(entries.len() <= capacity);
            prop_assert!(entries.is_sorted_by(|a, b| a.weight >= b.weight));
            for entry in &entries {
                let true_weight = truth[usize::from(entry.key)];
                prop_assert!(true_weight <= entry.weight && entry.weight - entry.error <= true_weight, "T1");
            }
            for (key, weight) in truth.iter().enumerate() {
                let is_listed = entries.iter().any(|entry| usize::from(entry.key) == key);
                prop_assert!(is_listed || *weight <= total / capacity as u64, "T2");
            }
        }
    }

    #[test]
    fn an_old_burst_fades() {
        let mut top = TopList::new(2);
        top.add("burst", 1000);
        for _ in 0..10 {
            top.decay();
            top.add("steady", 50);
        }
        assert_eq!(top.entries()[0].key, "steady");
    }
}
