//! Nodes of a `IndexedSet`: search, move, split and merge.

use super::Steps;
use guildhall_stdx::heap;
use std::{cmp::Ordering, mem};

/// One more fits temporarily before a split: 64 entries, a size that suits allocators.
const KEYS_MAX: usize = 63;
/// Less than half, so that a node after a split or merge is not about to do the opposite.
const KEYS_MIN: usize = 27;
/// Keys per node of a bulk-loaded tree, which leaves room for changes. If the tree is uneven, the last nodes get half
/// of this, which must be at least `KEYS_MIN`.
const KEYS_BUILT: usize = 55;
const _: () = assert!(KEYS_MIN < KEYS_BUILT.div_ceil(2) && 2 * KEYS_MIN <= KEYS_MAX);

/// A leaf has no children; a branch has one child more than keys.
pub(super) struct Node<K> {
    /// Keys in the subtree.
    len: usize,
    keys: Vec<K>,
    children: Vec<Node<K>>,
}

impl<K> Node<K> {
    pub(super) fn leaf() -> Self {
        Self { len: 0, keys: Vec::new(), children: Vec::new() }
    }

    /// Allocates for the maximum number of keys and children.
    fn new(keys: impl Iterator<Item = K>, children: impl Iterator<Item = Self>) -> Self {
        let mut node = Self { len: 0, keys: Vec::with_capacity(KEYS_MAX + 1), children: Vec::new() };
        node.keys.extend(keys);
        let mut children = children.peekable();
        if children.peek().is_some() {
            node.children.reserve_exact(KEYS_MAX + 2);
            node.children.extend(children);
        }
        node.len = node.keys.len() + node.children.iter().map(Self::len).sum::<usize>();
        node
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Heap memory of the subtree, without what keys hold. Reads every branch and, of the leaves, the first: all leaves
    /// have the same depth, and room for the maximum.
    pub(super) fn heap_bytes(&self) -> usize {
        let depth = std::iter::successors(self.children.first(), |node| node.children.first()).count();
        self.heap_bytes_of(depth)
    }

    fn heap_bytes_of(&self, depth: usize) -> usize {
        let own = heap::of_buffer(&self.keys) + heap::of_buffer(&self.children);
        match depth {
            0 => own,
            1 => own + self.children.len() * heap::allocated((KEYS_MAX + 1) * size_of::<K>()),
            _ => own + self.children.iter().map(|child| child.heap_bytes_of(depth - 1)).sum::<usize>(),
        }
    }

    pub(super) fn keys(&self) -> &[K] {
        &self.keys
    }

    pub(super) fn children(&self) -> &[Self] {
        &self.children
    }

    /// The child in or right behind which the key of `rank` is, and the rank within it; none for a leaf.
    pub(super) fn child_at(&self, rank: usize, steps: &Steps) -> Option<(usize, usize)> {
        let last = self.children.len().checked_sub(1)?;
        let mut left = rank;
        for (index, child) in self.children.iter().enumerate() {
            if left <= child.len || index == last {
                steps.add(index + 1);
                return Some((index, left));
            }
            left -= child.len + 1;
        }
        None
    }

    fn search(&self, compare: &impl Fn(&K) -> Ordering, steps: &Steps) -> Result<usize, usize> {
        self.keys.binary_search_by(|key| {
            steps.add(1);
            compare(key)
        })
    }

    /// Number of keys before the child at `index`; in a leaf, before the key.
    fn len_before(&self, index: usize, steps: &Steps) -> usize {
        steps.add(index.min(self.children.len()));
        index + self.children.iter().take(index).map(Self::len).sum::<usize>()
    }

    /// Rank of `keys[index]`.
    fn rank_of_key(&self, index: usize, steps: &Steps) -> usize {
        self.len_before(index, steps) + self.children.get(index).map_or(0, Self::len)
    }

    pub(super) fn find(&self, compare: &impl Fn(&K) -> Ordering, steps: &Steps) -> Result<usize, usize> {
        match self.search(compare, steps) {
            Ok(index) => Ok(self.rank_of_key(index, steps)),
            Err(index) => {
                let before = self.len_before(index, steps);
                match self.children.get(index) {
                    Some(child) => child.find(compare, steps).map(|rank| before + rank).map_err(|rank| before + rank),
                    None => Err(before),
                }
            }
        }
    }

    pub(super) fn remove(&mut self, compare: &impl Fn(&K) -> Ordering, steps: &Steps) -> Option<(usize, K)> {
        let removed = match self.search(compare, steps) {
            Ok(index) => {
                let rank = self.rank_of_key(index, steps);
                // In a branch the greatest key of the left subtree replaces the removed key.
                let stand_in = self.children.get_mut(index).and_then(|child| child.pop(steps));
                let key = match stand_in {
                    Some(stand_in) => mem::replace(&mut self.keys[index], stand_in),
                    None => {
                        steps.add(self.keys.len() - index);
                        self.keys.remove(index)
                    }
                };
                self.refill(index, steps);
                (rank, key)
            }
            Err(index) => {
                let before = self.len_before(index, steps);
                let (rank, key) = self.children.get_mut(index)?.remove(compare, steps)?;
                self.refill(index, steps);
                (before + rank, key)
            }
        };
        self.len -= 1;
        Some(removed)
    }

    /// Removes and returns the greatest key.
    fn pop(&mut self, steps: &Steps) -> Option<K> {
        let key = match self.children.last_mut() {
            Some(child) => {
                let key = child.pop(steps)?;
                self.refill(self.children.len() - 1, steps);
                key
            }
            None => self.keys.pop()?,
        };
        self.len -= 1;
        Some(key)
    }

    /// Restores `KEYS_MIN` of the child at `index`, which may have lost a key.
    fn refill(&mut self, index: usize, steps: &Steps) {
        if self.children.get(index).is_none_or(|child| child.keys.len() >= KEYS_MIN) {
            return;
        }
        if index > 0 && self.children[index - 1].keys.len() > KEYS_MIN {
            self.rotate_right(index - 1, steps);
        } else if self.children.get(index + 1).is_some_and(|right| right.keys.len() > KEYS_MIN) {
            self.rotate_left(index, steps);
        } else {
            self.merge(index.saturating_sub(1), steps);
        }
    }

    /// Moves one key from the child at `index` through the separating key to its right sibling.
    fn rotate_right(&mut self, index: usize, steps: &Steps) {
        let [left, right] = &mut self.children[index..index + 2] else { return };
        let Some(up) = left.keys.pop() else { return };
        steps.add(right.keys.len() + right.children.len());
        right.keys.insert(0, mem::replace(&mut self.keys[index], up));
        let mut moved = 1;
        if let Some(child) = left.children.pop() {
            moved += child.len;
            right.children.insert(0, child);
        }
        left.len -= moved;
        right.len += moved;
    }

    /// Moves one key to the child at `index` through the separating key from its right sibling.
    fn rotate_left(&mut self, index: usize, steps: &Steps) {
        let [left, right] = &mut self.children[index..index + 2] else { return };
        steps.add(right.keys.len() + right.children.len());
        let up = right.keys.remove(0);
        left.keys.push(mem::replace(&mut self.keys[index], up));
        let mut moved = 1;
        if !right.children.is_empty() {
            let child = right.children.remove(0);
            moved += child.len;
            left.children.push(child);
        }
        left.len += moved;
        right.len -= moved;
    }

    /// Merges the child at `index`, the key behind it, and the next child.
    fn merge(&mut self, index: usize, steps: &Steps) {
        let mut right = self.children.remove(index + 1);
        let between = self.keys.remove(index);
        steps.add(self.keys.len() - index + self.children.len() - index + right.keys.len() + right.children.len());
        let left = &mut self.children[index];
        left.len += right.len + 1;
        left.keys.push(between);
        left.keys.append(&mut right.keys);
        left.children.append(&mut right.children);
    }

    /// Replaces a root without keys by its only child.
    pub(super) fn lower_if_hollow(&mut self) {
        if self.keys.is_empty()
            && let Some(child) = self.children.pop()
        {
            *self = child;
        }
    }

    /// Splits this node; returns the middle key and the right half.
    fn split(&mut self, steps: &Steps) -> (K, Self) {
        let middle = self.keys.len() / 2;
        steps.add(self.keys.len() + self.children.len() - middle);
        let children = self.children.len().min(middle + 1);
        let right = Self::new(self.keys.drain(middle + 1..), self.children.drain(children..));
        let between = self.keys.remove(middle);
        self.len -= right.len + 1;
        (between, right)
    }

    /// Splits a root that has too many keys and puts a new root above.
    pub(super) fn raise_if_overfull(&mut self, steps: &Steps) {
        if self.keys.len() > KEYS_MAX {
            let (between, right) = self.split(steps);
            let left = mem::replace(self, Self::leaf());
            *self = Self::new([between].into_iter(), [left, right].into_iter());
        }
    }
}

impl<K: Ord> Node<K> {
    /// This node may end up with `KEYS_MAX + 1` keys; its parent then splits it.
    pub(super) fn insert(&mut self, key: K, steps: &Steps) -> (usize, Option<K>) {
        let index = match self.search(&|other: &K| other.cmp(&key), steps) {
            Ok(index) => {
                return (self.rank_of_key(index, steps), Some(mem::replace(&mut self.keys[index], key)));
            }
            Err(index) => index,
        };
        let before = self.len_before(index, steps);
        let Some(child) = self.children.get_mut(index) else {
            steps.add(self.keys.len() - index);
            self.keys.insert(index, key);
            self.len += 1;
            return (before, None);
        };
        let (rank, replaced) = child.insert(key, steps);
        if child.keys.len() > KEYS_MAX {
            let (between, right) = child.split(steps);
            steps.add(self.keys.len() - index + self.children.len() - index);
            self.keys.insert(index, between);
            self.children.insert(index + 1, right);
        }
        self.len += usize::from(replaced.is_none());
        (before + rank, replaced)
    }
}

impl<K> Node<K> {
    pub(super) fn from_sorted(keys: Vec<K>) -> Self {
        // Keys in a full tree of this height; leaves have height 0.
        let (mut height, mut capacity) = (0, KEYS_BUILT);
        while capacity < keys.len() {
            capacity = capacity * (KEYS_BUILT + 1) + KEYS_BUILT;
            height += 1;
        }
        let len = keys.len();
        Self::build(&mut keys.into_iter(), len, height, capacity)
    }

    /// A tree of `height` with the next `len` keys, at most `capacity`, evenly distributed.
    fn build(keys: &mut impl Iterator<Item = K>, len: usize, height: u32, capacity: usize) -> Self {
        if height == 0 {
            return Self::new(keys.take(len), [].into_iter());
        }
        let capacity_below = (capacity - KEYS_BUILT) / (KEYS_BUILT + 1);
        let children_count = (len + 1).div_ceil(capacity_below + 1);
        let mut left = len + 1;
        let (mut between, mut children) = (Vec::new(), Vec::new());
        for index in 0..children_count {
            // Each child takes its share of the keys.
            let share = left.div_ceil(children_count - index);
            left -= share;
            children.push(Self::build(keys, share - 1, height - 1, capacity_below));
            if index + 1 < children_count {
                between.extend(keys.next());
            }
        }
        Self::new(between.into_iter(), children.into_iter())
    }
}

#[cfg(test)]
impl<K: Ord> Node<K> {
    /// Checks R2 for the root and its children.
    pub(super) fn check_shape_shallow(&self) {
        assert!(self.keys.len() <= KEYS_MAX);
        assert!(self.children.is_empty() || self.children.len() == self.keys.len() + 1);
        assert_eq!(self.len, self.keys.len() + self.children.iter().map(Self::len).sum::<usize>());
        assert!(self.children.iter().all(|child| (KEYS_MIN..=KEYS_MAX).contains(&child.keys.len())));
    }

    /// Checks R2 for the whole tree and returns its height.
    pub(super) fn check_shape(&self) -> u32 {
        self.check_shape_shallow();
        let heights: Vec<u32> = self.children.iter().map(Self::check_shape).collect();
        assert!(heights.iter().all(|height| *height == heights[0]), "leaves lie equally deep");
        heights.first().map_or(0, |height| height + 1)
    }
}
