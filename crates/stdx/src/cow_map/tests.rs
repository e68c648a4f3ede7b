//! Tests against `BTreeMap`, of the tree's shape, and of the cost of a change.

use super::*;
use std::collections::BTreeMap;

impl<K: Ord + Copy + Debug, V: Clone, const LEAF: usize, const BRANCH: usize> CowMap<K, V, LEAF, BRANCH> {
    /// Asserts C2 and C3. Returns the numbers of levels and leaves.
    fn check(&self) -> (usize, usize) {
        assert_eq!(self.iter().count(), self.len());
        if let Node::Branch(children) = &*self.root {
            assert!(children.len() > 1);
        }
        if self.is_empty() {
            assert_eq!(self.root.len(), 0);
            return (1, 1);
        }
        Self::check_node(&self.root)
    }

    fn check_node(node: &Node<K, V>) -> (usize, usize) {
        match node {
            Node::Leaf(entries) => {
                assert!((1..=LEAF).contains(&entries.len()));
                assert!(entries.capacity() <= LEAF);
                assert!(entries.is_sorted_by(|a, b| a.0 < b.0));
                (1, 1)
            }
            Node::Branch(children) => {
                assert!((1..=BRANCH).contains(&children.len()));
                assert!(children.capacity() <= BRANCH);
                let half = if let Node::Leaf(_) = *children[0].node { LEAF / 2 } else { BRANCH / 2 };
                for pair in children.windows(2) {
                    assert!(pair[0].node.len() + pair[1].node.len() > half, "C3");
                    let last = Iter::new(&pair[0].node, None).last().unwrap().0;
                    assert!(last < pair[1].from);
                }
                let mut depths = Vec::new();
                let mut leaves_count = 0;
                for child in children {
                    assert!(child.from <= Iter::new(&child.node, None).next().unwrap().0);
                    let (depth, count) = Self::check_node(&child.node);
                    depths.push(depth);
                    leaves_count += count;
                }
                assert!(depths.iter().all(|depth| *depth == depths[0]), "C2");
                (depths[0] + 1, leaves_count)
            }
        }
    }
}

type Snapshot<const LEAF: usize, const BRANCH: usize> = (CowMap<u64, u64, LEAF, BRANCH>, BTreeMap<u64, u64>);

fn agree<const LEAF: usize, const BRANCH: usize>((map, model): &Snapshot<LEAF, BRANCH>) {
    assert!(map.iter().map(|(key, value)| (key, *value)).eq(model.iter().map(|(key, value)| (*key, *value))));
    assert_eq!(map.len(), model.len());
}

/// Random changes, alternately growing and shrinking, compared with a `BTreeMap`. Returns the greatest
/// number of levels.
fn compare<const LEAF: usize, const BRANCH: usize>(seed: u64, keys: u64) -> usize {
    let mut rng = Rng::new(seed);
    let (mut map, mut model) = Snapshot::<LEAF, BRANCH>::default();
    let mut snapshots = Vec::new();
    let mut levels = 0;
    for step in 0..2_000 {
        let key = rng.below(keys);
        let removes = if step / 400 % 2 == 0 { 0.2 } else { 0.7 };
        if rng.chance(removes) {
            assert_eq!(map.remove(key), model.remove(&key));
        } else if rng.chance(0.3) {
            let changed = map.with_mut(key, |value| mem::replace(value, step));
            assert_eq!(changed, model.get_mut(&key).map(|value| mem::replace(value, step)));
        } else {
            assert_eq!(map.insert(key, step), model.insert(key, step));
        }
        let probe = rng.below(keys + 2);
        assert_eq!(map.get(probe), model.get(&probe));
        if step % 20 == 0 {
            levels = levels.max(map.check().0);
            let after = map.iter_after(probe).map(|(key, value)| (key, *value));
            assert!(after.eq(model.range(probe + 1..).map(|(key, value)| (*key, *value))));
            agree(&(map.clone(), model.clone()));
        }
        if rng.chance(0.02) {
            snapshots.push((map.clone(), model.clone()));
        }
    }
    snapshots.iter().for_each(agree);
    let left: Vec<u64> = model.keys().copied().collect();
    for key in left {
        assert_eq!(map.remove(key), model.remove(&key));
        map.check();
    }
    assert!(map.is_empty());
    snapshots.iter().for_each(agree);
    levels
}

#[test]
fn c1_c2_c3_c4_behaves_like_a_sorted_map_whose_snapshots_never_change() {
    for seed in 0..20 {
        assert!(compare::<4, 4>(seed, 300) >= 4);
        assert!(compare::<5, 7>(seed, 300) >= 3);
        assert!(compare::<64, 64>(seed, 1_000) >= 2);
    }
}

#[test]
fn c1_a_map_is_built_from_entries_in_any_order() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut entries: Vec<(u64, u64)> = (0..rng.below(200)).map(|n| (rng.below(150), n)).collect();
        if rng.chance(0.7) {
            let sorted_count = rng.below(entries.len() as u64 + 1) as usize;
            entries[..sorted_count].sort_unstable();
        }
        let map: CowMap<u64, u64, 4, 4> = entries.iter().copied().collect();
        map.check();
        agree(&(map, entries.into_iter().collect()));
    }
}

#[test]
fn c3_ascending_keys_fill_leaves() {
    let collected: CowMap<u64, ()> = (0..10_000).map(|key| (key, ())).collect();
    let mut inserted = CowMap::<u64, ()>::default();
    for key in 0..10_000 {
        inserted.insert(key, ());
    }
    assert_eq!(collected.check().1, 10_000usize.div_ceil(64));
    assert_eq!(inserted.check().1, 10_000usize.div_ceil(64));
}

#[test]
fn c3_a_map_that_shrank_stays_filled() {
    let mut rng = Rng::new(7);
    let mut map: CowMap<u64, ()> = (0..100_000).map(|key| (key, ())).collect();
    while map.len() > 1_000 {
        map.remove(rng.below(100_000));
    }
    let leaves_count = map.check().1;
    assert!(leaves_count <= map.len() / 16, "{leaves_count} leaves");
}

/// Maximum number of copies by one change after a snapshot, over all kinds of changes in a map of `len` entries.
fn steps_max(len: u64) -> u64 {
    let mut rng = Rng::new(len);
    let mut map: CowMap<u64, u64> = (1..=len).map(|key| (key * 2, key)).collect();
    assert_eq!(map.steps(), 0);
    let mut max = 0;
    for round in 0..3_000 {
        let snapshot = map.clone();
        let at = if rng.chance(0.5) { rng.below(2 * len) } else { rng.below(300) };
        match round % 8 {
            0..3 => drop(map.insert(at, 0)),
            3 => drop(map.insert(3 * len + round, 0)),
            4 => drop(map.with_mut(at, |value| *value += 1)),
            _ => drop(map.remove(at)),
        }
        max = max.max(map.steps() - snapshot.steps());
    }
    max
}

#[test]
fn c5_a_change_copies_no_more_in_a_large_map() {
    // Nodes are full at first. Each level copies one node, and half a node moves on a split or merge.
    for (len, levels) in [(1_000, 2), (100_000, 3), (1_000_000, 4), (10_000_000, 4)] {
        let max = steps_max(len);
        assert!((64..=levels * 96).contains(&max), "{len} entries: {max}");
    }
}

#[test]
fn c5_without_a_snapshot_nothing_is_copied() {
    let mut map: CowMap<u64, u64> = (0..100_000).map(|key| (key, 0)).collect();
    for key in 0..100_000 {
        map.with_mut(key, |value| *value += 1);
    }
    assert_eq!(map.steps(), 0);
    let _snapshot = map.clone();
    assert_eq!((map.remove(200_000), map.with_mut(200_000, |_| ())), (None, None));
    assert_eq!(map.steps(), 0);
}

/// `heap` E1, of a map whose leaves are full and of one that shrank.
#[test]
fn e1_the_memory_of_a_million_entries() {
    use crate::heap::tests::{MILLION, bytes_of, check};
    let mut map: CowMap<u64, usize> = (0..MILLION).map(|n| (n as u64, bytes_of(n))).collect();
    let truth = |map: &CowMap<u64, usize>| map.root.heap_bytes(&mut |_, bytes| *bytes);
    assert!(truth(&map) > MILLION * 16);
    check(truth(&map), || map.heap_bytes(Sample::LARGE, |_, bytes| *bytes));
    let mut rng = Rng::new(3);
    for _ in 0..MILLION {
        map.remove(rng.below(MILLION as u64 / 2));
    }
    assert!(map.len() < 600_000);
    check(truth(&map), || map.heap_bytes(Sample::LARGE, |_, bytes| *bytes));
    let small: CowMap<u64, usize> = (0..100).map(|n| (n as u64, n)).collect();
    assert_eq!(small.heap_bytes(Sample::LARGE, |_, bytes| *bytes), truth(&small));
}
