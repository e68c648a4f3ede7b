//! Copy-on-write sorted map: `clone` is a snapshot, and a change after it copies little, however large the map.
//!
//! Owns        `CowMap`, a B+ tree with its nodes behind `Arc`; the count of what its changes copied.
//! Doors       `insert`, `remove`, `with_mut` change it; a sorted iterator builds it without searching.
//! Invariants  C1 it is a sorted map. C2 all leaves are equally deep, no node exceeds its maximum, none but an
//!             empty root is empty, a root that is a branch has two children or more. C3 two neighbours under one
//!             parent hold more than half a node together, so a map that shrank is at least about a quarter full. C4 a
//!             snapshot never changes. C5 a change copies at most a node and a half per level. (tests `c1_*` to `c5_*`)
//! Limits      `LEAF` entries per leaf, `BRANCH` children per branch. With the defaults ten million entries are
//!             four levels or five; a change after a snapshot copies some 200 entries and pointers, and never
//!             more than 96 per level.
//! Not here    ranges with an end, ranks: no reader needs them.

#[cfg(test)]
mod tests;

use crate::count_steps;
use std::{
    fmt::{self, Debug},
    mem, slice,
    sync::Arc,
};

/// Sorted map from `K` to `V`. `clone` takes a moment whatever the size: the clone shares all nodes, and each
/// side copies what it changes from then on.
///
/// Leaves are small because every entry copied is a `V::clone`, for which a reference count somewhere in cold
/// memory may have to be raised; branches likewise.
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
    /// Above every key of the children before it, and not above its own.
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

    /// A node of this content as a child; none if it is empty.
    fn into_child(self) -> Option<Child<K, V>> {
        let from = match &self {
            Self::Leaf(entries) => entries.first()?.0,
            Self::Branch(children) => children.first()?.from,
        };
        Some(Child { from, node: Arc::new(self) })
    }
}

/// The child that holds `key`, or would.
fn child_index<K: Ord, V>(children: &[Child<K, V>], key: &K) -> usize {
    children.partition_point(|child| child.from <= *key).saturating_sub(1)
}

fn entry_index<K: Ord, V>(entries: &[(K, V)], key: &K) -> Result<usize, usize> {
    entries.binary_search_by(|(k, _)| k.cmp(key))
}

/// The node, copied first if a snapshot has it too.
fn own<'a, K: Copy, V: Clone>(node: &'a mut Arc<Node<K, V>>, steps: &mut u64) -> &'a mut Node<K, V> {
    if Arc::strong_count(node) > 1 {
        *steps += node.len() as u64;
        count_steps(node.len() as u64);
    }
    Arc::make_mut(node)
}

/// Inserts into a node of at most `max` items, without more room than that.
fn put<T>(items: &mut Vec<T>, at: usize, item: T, max: usize) {
    if items.len() == items.capacity() {
        items.reserve_exact(items.len().max(4).min(max - items.len()));
    }
    items.insert(at, item);
}

/// Inserts, and returns the upper part if the node had to be split for it. `is_last`: nothing comes after the node.
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
        // Keys mostly ascend with time: a map that grows at its end gets full nodes.
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

/// What an insertion came to.
enum Inserted<K, V> {
    Replaced(V),
    Added,
    /// Added, and this node is to follow the one it was added to.
    Split(Child<K, V>),
}

impl<K, V, const LEAF: usize, const BRANCH: usize> Default for CowMap<K, V, LEAF, BRANCH> {
    fn default() -> Self {
        const { assert!(LEAF >= 4 && BRANCH >= 4, "nodes are split in halves of two or more") };
        Self { root: Arc::new(Node::Leaf(Vec::new())), len: 0, steps: 0 }
    }
}

impl<K: Ord + Copy, V: Clone, const LEAF: usize, const BRANCH: usize> CowMap<K, V, LEAF, BRANCH> {
    /// How many entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many entries and pointers all changes so far copied, or moved from node to node: for tests that show
    /// that something does not take longer the larger the map is.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The value under `key`.
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

    /// Puts `value` under `key`. Returns the value that was there.
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

    /// `is_last`: nothing comes after the node.
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

    /// Takes out what is under `key`.
    pub fn remove(&mut self, key: K) -> Option<V> {
        // What is not there must not cost a copy.
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

    /// After the child at `at` got smaller: drops it if it is empty, or merges it with a neighbour if the two fill
    /// half a node or less.
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

    /// Lets `change` change the value under `key`, in place. None when there is none.
    pub fn with_mut<R>(&mut self, key: K, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        // What is not there must not cost a copy.
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

    /// Everything, keys ascending.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        Iter::new(&self.root, None)
    }

    /// Everything with a key above `after`, keys ascending.
    pub fn iter_after(&self, after: K) -> impl Iterator<Item = (K, &V)> {
        Iter::new(&self.root, Some(after))
    }
}

impl<K: Ord + Copy, V: Clone, const LEAF: usize, const BRANCH: usize> FromIterator<(K, V)>
    for CowMap<K, V, LEAF, BRANCH>
{
    /// As long as keys ascend, entries are lined up in full leaves. From the first that does not, they are inserted.
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
            let branches = std::iter::from_fn(|| Node::Branch(below.by_ref().take(BRANCH).collect()).into_child());
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

/// The entries of a `CowMap`, keys ascending.
struct Iter<'a, K, V> {
    /// What is left of the branches above the leaf, from the root down.
    branches: Vec<slice::Iter<'a, Child<K, V>>>,
    leaf: slice::Iter<'a, (K, V)>,
}

impl<'a, K: Ord, V> Iter<'a, K, V> {
    fn new(root: &'a Node<K, V>, after: Option<K>) -> Self {
        let mut iter = Self { branches: Vec::new(), leaf: [].iter() };
        iter.descend(root, after);
        iter
    }

    /// Goes to the first entry below `node`, or the first above `after`: that may be in the next leaf.
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
