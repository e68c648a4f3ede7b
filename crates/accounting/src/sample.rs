//! Sample: the heap of a large collection, estimated from some thousands of its elements.
//!
//! Owns        `slice`, `hash_map`, `sorted`: one per shape of collection.
//! Invariants  S1 the estimate of a million elements is within a tenth of the truth, nearly always. S2 its cost depends on
//!             `SAMPLES` alone, not on the number of elements. (tests)
//! Limits      `SAMPLES` elements are read. Elements whose size varies by more than a hundred times need more than that.
//!             Spec  stratified sampling: one element at a random place of each of n equal strata.

use guildhall_stdx::Rng;
use std::{collections::HashMap, hash::BuildHasher};

/// Elements that are read of one collection.
pub const SAMPLES: usize = 8192;

/// Sum of `bytes_of` over a slice.
pub fn slice<T>(items: &[T], rng: &mut Rng, mut bytes_of: impl FnMut(&T) -> usize) -> u64 {
    indexed(items.len(), rng, |at| bytes_of(&items[at]))
}

/// Sum of `bytes_of` over `0..len`, for collections that are read by index.
pub fn indexed(len: usize, rng: &mut Rng, mut bytes_of: impl FnMut(usize) -> usize) -> u64 {
    if len <= SAMPLES {
        return (0..len).map(|at| bytes_of(at) as u64).sum();
    }
    let mut sum = 0;
    for stratum in 0..SAMPLES {
        let (from, to) = (len * stratum / SAMPLES, len * (stratum + 1) / SAMPLES);
        sum += bytes_of(from + rng.below((to - from) as u64) as usize) as u64;
    }
    scaled(sum, len)
}

/// Sum of `bytes_of` over a map with a random or well-mixed hash: the first entries that iteration meets are a random
/// sample, because a hash decides their places. Entries of an empty table's stretch are skipped by groups.
pub fn hash_map<K, V, S: BuildHasher>(map: &HashMap<K, V, S>, mut bytes_of: impl FnMut(&K, &V) -> usize) -> u64 {
    let sum = map.iter().take(SAMPLES).map(|(key, value)| bytes_of(key, value) as u64).sum();
    if map.len() <= SAMPLES { sum } else { scaled(sum, map.len()) }
}

/// Bytes of a hash map's own table: a slot and a control byte for each of its places.
#[must_use]
pub fn hash_table_bytes<K, V, S>(map: &HashMap<K, V, S>) -> usize {
    // Seven eighths of a table's places may be taken; the number of places is a power of two.
    let places = match map.capacity() {
        0 => 0,
        capacity => (capacity * 8 / 7).next_power_of_two(),
    };
    places * (size_of::<(K, V)>() + 1)
}

fn scaled(sum: u64, len: usize) -> u64 {
    (u128::from(sum) * len as u128 / SAMPLES as u128) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Sizes as names and texts have them: most are small, a few are a hundred times as large.
    fn sizes(len: usize, rng: &mut Rng) -> Vec<usize> {
        (0..len).map(|_| if rng.chance(0.02) { 2_000 } else { rng.below(60) as usize }).collect()
    }

    fn is_within_a_tenth(estimate: u64, truth: u64) -> bool {
        estimate.abs_diff(truth) * 10 <= truth
    }

    #[test]
    fn s1_a_million_elements_within_a_tenth() {
        let mut rng = Rng::new(1);
        // Ascending: the newest elements are the largest, as in a growing guild.
        let ascending: Vec<usize> = (0..1_000_000).map(|n| n / 1000).collect();
        let truth = ascending.iter().sum::<usize>() as u64;
        assert!(is_within_a_tenth(slice(&ascending, &mut rng, |size| *size), truth));
        let small: Vec<usize> = sizes(500, &mut rng);
        assert_eq!(slice(&small, &mut rng, |size| *size), small.iter().sum::<usize>() as u64, "small ones are exact");
    }

    #[test]
    fn s1_skewed_sizes_are_within_a_tenth_nine_times_of_ten() {
        let mut rng = Rng::new(2);
        let all = sizes(1_000_000, &mut rng);
        let truth = all.iter().sum::<usize>() as u64;
        let mut good = 0;
        for _ in 0..100 {
            good += usize::from(is_within_a_tenth(slice(&all, &mut rng, |size| *size), truth));
        }
        assert!(good >= 90, "{good} of 100");
        let map: HashMap<usize, usize> = all.iter().copied().enumerate().collect();
        assert!(hash_map(&map, |_, size| *size).abs_diff(truth) * 4 <= truth, "one draw");
    }

    #[test]
    fn s2_a_bounded_number_of_elements_is_read() {
        let (reads, mut rng) = (Cell::new(0), Rng::new(3));
        let count = |_: usize| {
            reads.set(reads.get() + 1);
            1
        };
        assert_eq!(indexed(1_000_000, &mut rng, count), 1_000_000);
        assert_eq!(reads.get(), SAMPLES);
        let map: HashMap<u32, u32> = (0..100_000).map(|n| (n, n)).collect();
        reads.set(0);
        hash_map(&map, |_, _| count(0));
        assert_eq!(reads.get(), SAMPLES);
    }

    #[test]
    fn tables_are_counted_with_their_free_places() {
        let map: HashMap<u64, u64> = (0..1000).map(|n| (n, n)).collect();
        assert_eq!(hash_table_bytes(&map), 2048 * 17);
        assert_eq!(hash_table_bytes(&HashMap::<u64, u64>::new()), 0);
    }
}
