//! Copy-on-write sorted map: `clone` is a snapshot, and a later change copies O(log n) nodes.
//!
//! Owns        `CowMap`, a B+ tree with its nodes behind `Arc`; the count of copies made by changes.
//! Doors       `insert`, `remove`, `with_mut` change it; a sorted iterator builds it without searching.
//! Invariants  C1 it is a sorted map. C2 all leaves have the same depth, no node exceeds its maximum, only an empty
//!             root is empty, a branch root has two children or more. C3 adjacent siblings together fill more than half
//!             a node, so a map that shrank is at least about a quarter full. C4 a snapshot never changes. C5 a change
//!             copies at most one and a half nodes per level. (tests `c1_*` to `c5_*`)
//! Limits      `LEAF` entries per leaf, `BRANCH` children per branch. With the defaults ten million entries have four
//!             or five levels; a change after a snapshot copies about 200 entries and pointers, and at most 96 per
//!             level.
//! Not here    bounded ranges and ranks: no reader needs them.

#[cfg(test)]
mod tests;

use crate::{
    Rng, count_steps,
    heap::{self, Sample},
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap,
};
use std::{
    fmt::{self, Debug},
    iter,
    marker::PhantomData,
    mem, slice,
    sync::Arc,
};

/// Entries of a leaf that an estimate of memory reads.
const HEAP_ENTRIES: usize = 8;

/// Sorted map from `K` to `V`. `clone` is O(1): the clone shares all nodes, and each side copies the nodes that
/// it changes later.
///
/// Leaves are small because copying an entry is a `V::clone`, which may increment a reference count in cold memory. The
/// same holds for branches.
///
/// ```
/// let mut map: guildhall_stdx::CowMap<u64, &str> = [(1, "one"), (2, "two")].into_iter().collect();
/// let snapshot = map.clone();
/// map.insert(3, "three");
/// assert_eq!(snapshot.get(3), None);
/// assert_eq!(map.iter_after(1).collect::<Vec<_>>(), [(2, &"two"), (3, &"three")]);
/// ```
#[derive(Clone)]
pub struct CowMap<K, V, const LEAF: usize = 64, const BRANCH: usize = 64> {
    root: Arc<Node<K, V>>,
    len: usize,
    steps: u64,
}

#[derive(Clone)]
enum Node<K, V> {
    Leaf(Vec<(K, V)>),
    Branch(Vec<Child<K, V>>),
}

#[derive(Clone)]
struct Child<K, V> {
    /// Greater than every key of the preceding children, and not greater than the child's own keys.
    from: K,
    node: Arc<Node<K, V>>,
}

impl<K: Copy, V> Node<K, V> {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(entries) => entries.len(),
            Self::Branch(children) => children.len(),
        }
    }

    /// The node as a child; none if it is empty.
    fn into_child(self) -> Option<Child<K, V>> {
        let from = match &self {
            Self::Leaf(entries) => entries.first()?.0,
            Self::Branch(children) => children.first()?.from,
        };
        Some(Child { from, node: Arc::new(self) })
    }
}

impl<K, V> Node<K, V> {
    /// Bytes of the node without what its entries hold, and without other nodes.
    fn own_bytes(&self) -> usize {
        let items = match self {
            Self::Leaf(entries) => entries.capacity() * size_of::<(K, V)>(),
            Self::Branch(children) => children.capacity() * size_of::<Child<K, V>>(),
        };
        heap::counted::<Self>() + heap::allocated(items)
    }

    /// The same with all that is below.
    fn heap_bytes(&self, heap: &mut impl FnMut(&K, &V) -> usize) -> usize {
        let below: usize = match self {
            Self::Leaf(entries) => entries.iter().map(|(key, value)| heap(key, value)).sum(),
            Self::Branch(children) => children.iter().map(|child| child.node.heap_bytes(heap)).sum(),
        };
        self.own_bytes() + below
    }
}

/// The child that contains `key` or would contain it.
fn child_index<K: Ord, V>(children: &[Child<K, V>], key: &K) -> usize {
    children.partition_point(|child| child.from <= *key).saturating_sub(1)
}

fn entry_index<K: Ord, V>(entries: &[(K, V)], key: &K) -> Result<usize, usize> {
    entries.binary_search_by(|(k, _)| k.cmp(key))
}

/// Mutable access to the node; copies it first if a snapshot shares it.
fn own<'a, K: Copy, V: Clone>(node: &'a mut Arc<Node<K, V>>, steps: &mut u64) -> &'a mut Node<K, V> {
    if Arc::strong_count(node) > 1 {
        *steps += node.len() as u64;
        count_steps(node.len() as u64);
    }
    Arc::make_mut(node)
}

/// Inserts into a node of at most `max` items and allocates no more than that.
fn put<T>(items: &mut Vec<T>, at: usize, item: T, max: usize) {
    if items.len() == items.capacity() {
        items.reserve_exact(items.len().max(4).min(max - items.len()));
    }
    items.insert(at, item);
}

/// Inserts; returns the upper half if the node had to be split. `is_last`: no node follows.
fn put_or_split<T>(
    items: &mut Vec<T>,
    at: usize,
    item: T,
    max: usize,
    is_last: bool,
    steps: &mut u64,
) -> Option<Vec<T>> {
    if items.len() < max {
        put(items, at, item, max);
        return None;
    }
    if is_last && at == max {
        // Keys mostly ascend with time, so a split at the end leaves the lower node full.
        return Some(vec![item]);
    }
    let half = max / 2;
    let mut upper = items.split_off(half);
    *steps += upper.len() as u64;
    match at.checked_sub(half) {
        None | Some(0) => put(items, at, item, max),
        Some(at) => put(&mut upper, at, item, max),
    }
    Some(upper)
}

/// Result of an insertion.
enum Inserted<K, V> {
    Replaced(V),
    Added,
    /// Inserted; this new node follows the one it was split from.
    Split(Child<K, V>),
}

impl<K, V, const LEAF: usize, const BRANCH: usize> Default for CowMap<K, V, LEAF, BRANCH> {
    fn default() -> Self {
        const { assert!(LEAF >= 4 && BRANCH >= 4, "nodes are split in halves of two or more") };
        Self { root: Arc::new(Node::Leaf(Vec::new())), len: 0, steps: 0 }
    }
}

impl<K: Ord + Copy, V: Clone, const LEAF: usize, const BRANCH: usize> CowMap<K, V, LEAF, BRANCH> {
    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of entries and pointers that all changes so far copied or moved between nodes. Tests use it to show that
    /// cost does not grow with the map.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Value of `key`.
    #[must_use]
    pub fn get(&self, key: K) -> Option<&V> {
        let mut node = &self.root;
        loop {
            count_steps(1);
            match &**node {
                Node::Branch(children) => node = &children[child_index(children, &key)].node,
                Node::Leaf(entries) => return entry_index(entries, &key).ok().map(|at| &entries[at].1),
            }
        }
    }

    /// Inserts `value`; returns the replaced value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match Self::insert_in(&mut self.root, (key, value), true, &mut self.steps) {
            Inserted::Replaced(old) => return Some(old),
            Inserted::Added => {}
            Inserted::Split(upper) => {
                let lower = mem::replace(&mut self.root, Arc::new(Node::Branch(Vec::new())));
                let from = match &*lower {
                    Node::Leaf(entries) => entries[0].0,
                    Node::Branch(children) => children[0].from,
                };
                self.root = Arc::new(Node::Branch(vec![Child { from, node: lower }, upper]));
            }
        }
        self.len += 1;
        None
    }

    /// `is_last`: no node follows.
    fn insert_in(node: &mut Arc<Node<K, V>>, entry: (K, V), is_last: bool, steps: &mut u64) -> Inserted<K, V> {
        let key = entry.0;
        let upper = match own(node, steps) {
            Node::Leaf(entries) => match entry_index(entries, &key) {
                Ok(at) => return Inserted::Replaced(mem::replace(&mut entries[at].1, entry.1)),
                Err(at) => put_or_split(entries, at, entry, LEAF, is_last, steps).map(Node::Leaf),
            },
            Node::Branch(children) => {
                let at = child_index(children, &key);
                let is_last = is_last && at + 1 == children.len();
                let child = &mut children[at];
                child.from = child.from.min(key);
                match Self::insert_in(&mut child.node, entry, is_last, steps) {
                    Inserted::Split(upper) => {
                        put_or_split(children, at + 1, upper, BRANCH, is_last, steps).map(Node::Branch)
                    }
                    done => return done,
                }
            }
        };
        match upper.and_then(Node::into_child) {
            Some(upper) => Inserted::Split(upper),
            None => Inserted::Added,
        }
    }

    /// Removes `key`; returns its value.
    pub fn remove(&mut self, key: K) -> Option<V> {
        // An absent key must not cost a copy.
        self.get(key)?;
        let value = Self::remove_in(&mut self.root, key, &mut self.steps)?;
        while let Node::Branch(children) = &*self.root
            && let [child] = &children[..]
        {
            self.root = child.node.clone();
        }
        self.len -= 1;
        Some(value)
    }

    fn remove_in(node: &mut Arc<Node<K, V>>, key: K, steps: &mut u64) -> Option<V> {
        match own(node, steps) {
            Node::Leaf(entries) => entry_index(entries, &key).ok().map(|at| entries.remove(at).1),
            Node::Branch(children) => {
                let at = child_index(children, &key);
                let value = Self::remove_in(&mut children[at].node, key, steps);
                Self::mend(children, at, steps);
                value
            }
        }
    }

    /// Repairs the tree after the child at `at` shrank: drops it if empty, or merges it with a sibling if together they
    /// fill at most half a node.
    fn mend(children: &mut Vec<Child<K, V>>, at: usize, steps: &mut u64) {
        let len = |at: usize| children.get(at).map_or(usize::MAX, |child| child.node.len());
        let half = match &*children[at].node {
            Node::Leaf(_) => LEAF / 2,
            Node::Branch(_) => BRANCH / 2,
        };
        let fits = |lower: usize| len(lower).saturating_add(len(lower + 1)) <= half;
        let lower = if len(at) == 0 {
            children.remove(at);
            return;
        } else if at > 0 && fits(at - 1) {
            at - 1
        } else if fits(at) {
            at
        } else {
            return;
        };
        let upper = children.remove(lower + 1).node;
        *steps += upper.len() as u64;
        match (own(&mut children[lower].node, steps), Arc::unwrap_or_clone(upper)) {
            (Node::Leaf(lower), Node::Leaf(upper)) => lower.extend(upper),
            (Node::Branch(lower), Node::Branch(upper)) => lower.extend(upper),
            _ => unreachable!("C2: neighbours are of one kind"),
        }
    }

    /// Changes a value in place by `change`. None if the key is absent.
    pub fn with_mut<R>(&mut self, key: K, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        // An absent key must not cost a copy.
        self.get(key)?;
        let mut node = &mut self.root;
        loop {
            match own(node, &mut self.steps) {
                Node::Branch(children) => {
                    let at = child_index(children, &key);
                    node = &mut children[at].node;
                }
                Node::Leaf(entries) => return entry_index(entries, &key).ok().map(|at| change(&mut entries[at].1)),
            }
        }
    }

    /// Estimated heap memory: the nodes, as if no snapshot shared them, and what the entries hold. Of a large map it
    /// reads some paths from the root to a leaf, and `HEAP_ENTRIES` entries of each leaf.
    #[must_use]
    pub fn heap_bytes(&self, sample: Sample, mut heap: impl FnMut(&K, &V) -> usize) -> usize {
        let paths_count = (sample.max() / HEAP_ENTRIES).max(2);
        if self.len <= sample.max() {
            return self.root.heap_bytes(&mut heap);
        }
        let (mut bytes, mut entries_count) = (0.0, 0.0);
        for path in 0..paths_count {
            // The bytes of a node count for its whole level: times the number of children that each node above it has.
            let (mut node, mut weight) = (&*self.root, 1.0);
            let mut rng = Rng::new(path as u64);
            let entries = loop {
                count_steps(1);
                bytes += weight * node.own_bytes() as f64;
                match node {
                    Node::Leaf(entries) => break entries,
                    Node::Branch(children) => {
                        let len = children.len();
                        // The root's children in turn.
                        let at = if weight > 1.0 { rng.below(len as u64) as usize } else { path * len / paths_count };
                        weight *= len as f64;
                        node = &children[at].node;
                    }
                }
            };
            let count = entries.len().min(HEAP_ENTRIES);
            let some = (0..count).map(|n| &entries[heap::place_of(n, count, entries.len())]);
            let held: usize = some.map(|(key, value)| heap(key, value)).sum();
            count_steps(count as u64);
            bytes += weight * held as f64 * entries.len() as f64 / count.max(1) as f64;
            entries_count += weight * entries.len() as f64;
        }
        // The ratio varies less than the sums do.
        (bytes / entries_count * self.len as f64) as usize
    }

    /// All entries, keys ascending.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        Iter::new(&self.root, None)
    }

    /// All entries with keys greater than `after`, ascending.
    pub fn iter_after(&self, after: K) -> impl Iterator<Item = (K, &V)> {
        Iter::new(&self.root, Some(after))
    }
}

impl<K: Ord + Copy, V: Clone, const LEAF: usize, const BRANCH: usize> FromIterator<(K, V)>
    for CowMap<K, V, LEAF, BRANCH>
{
    /// Packs entries into full leaves while keys ascend, and inserts them from the first one that does not.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        let mut entries = entries.into_iter();
        let (mut nodes, mut leaf) = (Vec::new(), Vec::new());
        let out_of_order = loop {
            let Some(entry) = entries.next() else { break None };
            if leaf.last().is_some_and(|(last, _)| *last >= entry.0) {
                break Some(entry);
            }
            if leaf.len() == LEAF {
                nodes.extend(Node::Leaf(mem::take(&mut leaf)).into_child());
            }
            let at = leaf.len();
            put(&mut leaf, at, entry, LEAF);
            map.len += 1;
        };
        nodes.extend(Node::Leaf(leaf).into_child());
        while nodes.len() > 1 {
            let mut below = nodes.into_iter();
            let branches = iter::from_fn(|| Node::Branch(below.by_ref().take(BRANCH).collect()).into_child());
            nodes = branches.collect();
        }
        if let Some(root) = nodes.pop() {
            map.root = root.node;
        }
        for (key, value) in out_of_order.into_iter().chain(entries) {
            map.insert(key, value);
        }
        map
    }
}

impl<K: Ord + Copy + Debug, V: Clone + Debug, const LEAF: usize, const BRANCH: usize> Debug
    for CowMap<K, V, LEAF, BRANCH>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// As a map, keys ascending.
impl<K: Ord + Copy + Serialize, V: Clone + Serialize, const LEAF: usize, const BRANCH: usize> Serialize
    for CowMap<K, V, LEAF, BRANCH>
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // `collect_map` would not know the length.
        let mut map = serializer.serialize_map(Some(self.len))?;
        for (key, value) in self.iter() {
            map.serialize_entry(&key, value)?;
        }
        map.end()
    }
}

/// From a map with keys in any order; of equal keys the last one counts.
impl<'de, K, V, const LEAF: usize, const BRANCH: usize> Deserialize<'de> for CowMap<K, V, LEAF, BRANCH>
where
    K: Ord + Copy + Deserialize<'de>,
    V: Clone + Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<M>(PhantomData<M>);
        impl<'de, K, V, const LEAF: usize, const BRANCH: usize> Visitor<'de> for Entries<CowMap<K, V, LEAF, BRANCH>>
        where
            K: Ord + Copy + Deserialize<'de>,
            V: Clone + Deserialize<'de>,
        {
            type Value = CowMap<K, V, LEAF, BRANCH>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let mut result = Ok(());
                let until_error = iter::from_fn(|| {
                    entries.next_entry().unwrap_or_else(|error| {
                        result = Err(error);
                        None
                    })
                });
                let map = until_error.collect();
                result.map(|()| map)
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// Iterator over a `CowMap`, keys ascending.
struct Iter<'a, K, V> {
    /// Remaining children of the branches above the leaf, from the root down.
    branches: Vec<slice::Iter<'a, Child<K, V>>>,
    leaf: slice::Iter<'a, (K, V)>,
}

impl<'a, K: Ord, V> Iter<'a, K, V> {
    fn new(root: &'a Node<K, V>, after: Option<K>) -> Self {
        let mut iter = Self { branches: Vec::new(), leaf: [].iter() };
        iter.descend(root, after);
        iter
    }

    /// Descends to the first entry below `node`, or to the first greater than `after`, which may be in the next leaf.
    fn descend(&mut self, mut node: &'a Node<K, V>, after: Option<K>) {
        loop {
            count_steps(1);
            match node {
                Node::Branch(children) => {
                    let at = after.as_ref().map_or(0, |after| child_index(children, after));
                    self.branches.push(children[at + 1..].iter());
                    node = &children[at].node;
                }
                Node::Leaf(entries) => {
                    let at = after.map_or(0, |after| entries.partition_point(|(key, _)| *key <= after));
                    self.leaf = entries[at..].iter();
                    return;
                }
            }
        }
    }
}

impl<'a, K: Ord + Copy, V> Iterator for Iter<'a, K, V> {
    type Item = (K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.leaf.next() {
                count_steps(1);
                return Some((*key, value));
            }
            match self.branches.last_mut()?.next() {
                Some(child) => self.descend(&child.node, None),
                None => drop(self.branches.pop()),
            }
        }
    }
}
