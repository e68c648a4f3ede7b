//! Heap: estimates of the memory behind a collection, from a sample where it is large.
//!
//! Owns        sizes of allocations (`allocated`), `Sample` with one method per kind of collection, and `MemoryUse`, an
//!             owner's part of the memory. `Slots` and `CowMap` have a method each.
//! Invariants  E1 an estimate reads every element of a collection that is not larger than the sample. Of a larger one
//!             it reads as many elements as the sample has, evenly spread or in random order. With `Sample::LARGE` that
//!             takes about half a millisecond of cache misses. Unless a few elements hold most of the bytes, the error
//!             is at most 10 %, and with a map's random order so in 995 of 1,000 estimates. (tests `e1_*`, also of
//!             `CowMap`)
//! Limits      a tree of the standard library has no access by rank: its sample is both ends.
//! Not here    memory that several owners share: each owner decides what it counts.

use crate::count_steps;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    hash::BuildHasher,
    rc::Rc,
    sync::Arc,
};

/// Memory of one owner, such as a field of all sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Name of the owner.
    pub name: &'static str,
    /// Estimated bytes.
    pub bytes: u64,
    /// Elements that hold them.
    pub elements: u64,
}

impl MemoryUse {
    /// An owner with this memory.
    #[must_use]
    pub fn new(name: &'static str, bytes: usize, elements: usize) -> Self {
        Self { name, bytes: bytes as u64, elements: elements as u64 }
    }

    /// Adds the memory of owners to those of the same name.
    pub fn add_all(sums: &mut Vec<Self>, held: impl IntoIterator<Item = Self>) {
        for held in held {
            match sums.iter_mut().find(|sum| sum.name == held.name) {
                Some(sum) => {
                    sum.bytes += held.bytes;
                    sum.elements += held.elements;
                }
                None => sums.push(held),
            }
        }
    }

    /// The memory of objects of very different sizes, such as guilds: each with its weight. The `read_max` heaviest are
    /// read, each by a sample in proportion to its weight, and of the others as many, for all of them.
    pub fn of_uneven<T, I: IntoIterator<Item = Self>>(
        mut things: Vec<(usize, T)>,
        read_max: usize,
        mut read: impl FnMut(&T, Sample) -> I,
    ) -> Vec<Self> {
        let weights: usize = things.iter().map(|(weight, _)| weight).sum();
        let sample = |weight: usize| Sample((Sample::LARGE.0 * weight / weights.max(1)).max(Sample::SMALL.0));
        let heavy = things.len().min(read_max);
        if heavy < things.len() {
            things.select_nth_unstable_by_key(heavy, |(weight, _)| Reverse(*weight));
        }
        let (heavy, others) = things.split_at(heavy);
        let (mut sums, mut of_others) = (Vec::new(), Vec::new());
        heavy.iter().for_each(|(weight, thing)| Self::add_all(&mut sums, read(thing, sample(*weight))));
        let seen = others.len().min(read_max);
        for (weight, thing) in (0..seen).map(|n| &others[place_of(n, seen, others.len())]) {
            Self::add_all(&mut of_others, read(thing, sample(*weight)));
        }
        for held in &mut of_others {
            held.bytes = scaled(held.bytes as usize, seen, others.len()) as u64;
            held.elements = scaled(held.elements as usize, seen, others.len()) as u64;
        }
        Self::add_all(&mut sums, of_others);
        sums
    }
}

/// Keys of a node of the standard library's trees.
const TREE_KEYS: usize = 11;
/// Average keys of such a node: between half, after inserts in order, and all.
const TREE_KEYS_USED: usize = 7;

/// Bytes that the allocator takes for a request: jemalloc's size classes, four per doubling.
#[must_use]
pub const fn allocated(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=8 => 8,
        9..=128 => bytes.next_multiple_of(16),
        _ => bytes.next_multiple_of(1 << ((bytes - 1).ilog2() - 2)),
    }
}

/// Bytes of a value behind a `Box`, without the heap of the value.
#[must_use]
pub const fn boxed<T>() -> usize {
    allocated(size_of::<T>())
}

/// Bytes of a value behind an `Arc` or `Rc`, without the heap of the value.
#[must_use]
pub const fn counted<T>() -> usize {
    allocated(2 * size_of::<usize>() + size_of::<T>())
}

/// This owner's part of a value that it shares: the bytes divided by the number of owners.
#[must_use]
pub fn part_of<T>(shared: &Arc<T>, heap: impl FnOnce(&T) -> usize) -> usize {
    (counted::<T>() + heap(shared)) / Arc::strong_count(shared)
}

/// As `part_of`, for owners on one thread.
#[must_use]
pub fn part_of_rc<T>(shared: &Rc<T>, heap: impl FnOnce(&T) -> usize) -> usize {
    (counted::<T>() + heap(shared)) / Rc::strong_count(shared)
}

/// Place of the `n`th of `count` samples among `len` places: one in each `count`th part, at no fixed distance.
pub(crate) fn place_of(n: usize, count: usize, len: usize) -> usize {
    let (from, to) = (n * len / count, (n + 1) * len / count);
    from + (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23) as usize % (to - from).max(1)
}

/// `sum` of `seen` elements, for `len`.
fn scaled(sum: usize, seen: usize, len: usize) -> usize {
    if seen == 0 || seen == len {
        return sum;
    }
    (sum as u128 * len as u128 / seen as u128) as usize
}

/// Bytes of `len` elements, from some of them in random order.
fn of_some<T>(len: usize, some: impl Iterator<Item = T>, mut heap: impl FnMut(T) -> usize) -> usize {
    let (mut sum, mut seen) = (0, 0);
    for element in some {
        count_steps(1);
        sum += heap(element);
        seen += 1;
    }
    scaled(sum, seen, len)
}

/// How many elements of a collection are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample(usize);

impl Sample {
    /// For the collections of one owner.
    pub const LARGE: Self = Self(2_048);
    /// For a collection within an element of another.
    pub const SMALL: Self = Self(16);

    /// For each of `count` collections that one owner reads.
    #[must_use]
    pub fn split(self, count: usize) -> Self {
        Self((self.0 / count.max(1)).max(Self::SMALL.0))
    }

    /// Elements that are read.
    #[must_use]
    pub const fn max(self) -> usize {
        self.0
    }

    /// Bytes that `len` elements hold, each read by its place.
    #[must_use]
    pub fn of_places(self, len: usize, heap: impl FnMut(usize) -> usize) -> usize {
        match len <= self.0 {
            true => of_some(len, 0..len, heap),
            false => of_some(len, (0..self.0).map(|n| place_of(n, self.0, len)), heap),
        }
    }

    /// Bytes that the elements of a slice hold, without the slice.
    #[must_use]
    pub fn of_slice<T>(self, elements: &[T], mut heap: impl FnMut(&T) -> usize) -> usize {
        self.of_places(elements.len(), |place| heap(&elements[place]))
    }

    /// The allocation of a vector, and bytes that its elements hold.
    #[must_use]
    pub fn of_vec<T>(self, vec: &Vec<T>, heap: impl FnMut(&T) -> usize) -> usize {
        of_buffer(vec) + self.of_slice(vec, heap)
    }

    /// The allocation of a ring, and bytes that its elements hold.
    #[must_use]
    pub fn of_ring<T>(self, ring: &VecDeque<T>, mut heap: impl FnMut(&T) -> usize) -> usize {
        allocated(ring.capacity() * size_of::<T>()) + self.of_places(ring.len(), |place| heap(&ring[place]))
    }

    /// The table of a hash map, and bytes that its entries hold. Its order is random, so the first entries
    /// are a sample.
    #[must_use]
    pub fn of_map<K, V, S: BuildHasher>(self, map: &HashMap<K, V, S>, mut heap: impl FnMut(&K, &V) -> usize) -> usize {
        // A table has room for seven eighths, and a byte per place.
        let places = (map.capacity() * 8 / 7).next_power_of_two();
        let table = if map.capacity() == 0 { 0 } else { allocated(places * (size_of::<(K, V)>() + 1) + 16) };
        table + of_some(map.len(), map.iter().take(self.0), |(key, value)| heap(key, value))
    }

    /// The nodes of a tree, and bytes that its entries hold: of a large one a sample from both ends.
    #[must_use]
    pub fn of_tree<K, V>(self, tree: &BTreeMap<K, V>, mut heap: impl FnMut(&K, &V) -> usize) -> usize {
        let heap = |(key, value): (&K, &V)| heap(key, value);
        let len = tree.len();
        let entries = match len <= self.0 {
            true => of_some(len, tree.iter(), heap),
            false => of_some(len, tree.iter().take(self.0 / 2).chain(tree.iter().rev().take(self.0 / 2)), heap),
        };
        of_nodes::<(K, V)>(len) + entries
    }
}

/// The allocation of a vector whose elements hold nothing.
#[must_use]
pub const fn of_buffer<T>(vec: &Vec<T>) -> usize {
    allocated(vec.capacity() * size_of::<T>())
}

/// The nodes of a set whose keys hold nothing.
#[must_use]
pub fn of_set<K>(set: &BTreeSet<K>) -> usize {
    of_nodes::<K>(set.len())
}

fn of_nodes<E>(len: usize) -> usize {
    let leaf = TREE_KEYS * size_of::<E>() + 2 * size_of::<usize>();
    let branch = leaf + (TREE_KEYS + 1) * size_of::<usize>();
    let leaves = len.div_ceil(TREE_KEYS_USED);
    let branches = if leaves > 1 { leaves.div_ceil(TREE_KEYS_USED) } else { 0 };
    leaves * allocated(leaf) + branches * allocated(branch)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Rng, Slots, steps_taken};
    use std::hash::{BuildHasherDefault, DefaultHasher};

    pub(crate) const MILLION: usize = 1_000_000;

    /// Bytes as a community has them: most elements have little, some have much, older ones have more.
    pub(crate) fn bytes_of(n: usize) -> usize {
        let mut rng = Rng::new(n as u64);
        let own = if rng.below(20) == 0 { rng.below(2_000) } else { rng.below(100) };
        own as usize + (MILLION - n) / 20_000
    }

    /// The estimate of a large collection is within 10 %, and reads some thousand elements.
    #[track_caller]
    pub(crate) fn check(truth: usize, estimate: impl FnOnce() -> usize) {
        let before = steps_taken();
        let estimate = estimate();
        let steps = steps_taken() - before;
        assert!(truth.abs_diff(estimate) <= truth / 10, "{estimate} instead of {truth}");
        assert!(steps <= 2 * Sample::LARGE.0 as u64, "{steps} steps");
    }

    #[test]
    fn e1_a_million_elements() {
        let all: Vec<usize> = (0..MILLION).map(bytes_of).collect();
        let held: usize = all.iter().sum();
        let own = MILLION * size_of::<usize>();
        check(held, || Sample::LARGE.of_slice(&all, |bytes| *bytes));
        check(held + allocated(own), || Sample::LARGE.of_vec(&all, |bytes| *bytes));
        let ring: VecDeque<usize> = all.iter().copied().collect();
        check(held + allocated(ring.capacity() * size_of::<usize>()), || Sample::LARGE.of_ring(&ring, |bytes| *bytes));
        // A table of two to the power of 21 places.
        // Not in an order of its own each time: one order in two hundred exceeds the bound.
        let map: HashMap<u64, usize, BuildHasherDefault<DefaultHasher>> =
            all.iter().enumerate().map(|(n, bytes)| (n as u64, *bytes)).collect();
        check(held + (1 << 21) * 17, || Sample::LARGE.of_map(&map, |_, bytes| *bytes));
        let tree: BTreeMap<u64, usize> = map.iter().map(|(key, bytes)| (*key, *bytes)).collect();
        check(held + of_nodes::<(u64, usize)>(MILLION), || Sample::LARGE.of_tree(&tree, |_, bytes| *bytes));
        let mut slots = Slots::default();
        let keys: Vec<_> = all.iter().map(|bytes| slots.insert(*bytes)).collect();
        let removed: usize = keys.iter().step_by(3).filter_map(|key| slots.remove(*key)).sum();
        check(held - removed + MILLION * 24 + MILLION / 3 * 4, || slots.heap_bytes(Sample::LARGE, |bytes| *bytes));
    }

    /// One guild has half of all members.
    #[test]
    fn e1_things_of_very_different_sizes() {
        let mut guilds: Vec<(usize, usize)> = (0..20_000).map(|n| (1 + n % 50, 1 + n % 50)).collect();
        guilds[777] = (500_000, 500_000);
        let truth: usize = guilds.iter().map(|(_, members)| 100 * members).sum();
        let mut read_count = 0;
        let held = MemoryUse::of_uneven(guilds, 64, |members, sample| {
            read_count += 1;
            assert!(sample.max() >= 16 && (*members < 500_000 || sample.max() > 900));
            [MemoryUse::new("members", 100 * members, *members)]
        });
        assert_eq!((held.len(), read_count), (1, 128));
        assert!(truth.abs_diff(held[0].bytes as usize) <= truth / 10, "{held:?} instead of {truth}");
        assert_eq!(held[0].bytes, 100 * held[0].elements);
    }

    #[test]
    fn a_small_collection_is_read_whole() {
        let all: Vec<usize> = (0..Sample::LARGE.0).map(bytes_of).collect();
        let held: usize = all.iter().sum();
        assert_eq!(Sample::LARGE.of_slice(&all, |bytes| *bytes), held);
        let map: HashMap<usize, usize> = all.iter().copied().enumerate().collect();
        assert_eq!(Sample::LARGE.of_map(&map, |_, bytes| *bytes), held + allocated(4_096 * 17 + 16));
        assert_eq!(
            (
                Sample::LARGE.of_vec(&Vec::<u64>::new(), |_| 1),
                Sample::LARGE.of_map(&HashMap::<u8, u8>::new(), |_, _| 1)
            ),
            (0, 0)
        );
        assert_eq!(Sample::LARGE.of_tree(&BTreeMap::<u8, u8>::new(), |_, _| 1), 0);
    }

    #[test]
    fn allocations_have_size_classes() {
        let sizes = [0, 1, 8, 9, 16, 17, 112, 128, 129, 160, 161, 256, 257, 1_025, 4_096, 4_097, 1 << 20];
        let classes = [0, 8, 8, 16, 16, 32, 112, 128, 160, 160, 192, 256, 320, 1_280, 4_096, 5_120, 1 << 20];
        assert_eq!(sizes.map(allocated), classes);
    }

    #[test]
    fn samples_are_one_of_each_part() {
        for (count, len) in [(1, 1), (10, 10), (2_048, 2_049), (2_048, 1_000_003)] {
            let places: Vec<usize> = (0..count).map(|n| place_of(n, count, len)).collect();
            assert!(places.windows(2).all(|pair| pair[0] < pair[1]) && places[count - 1] < len, "{count} of {len}");
        }
    }
}
