//! Iteration over a `IndexedSet` in order, from any rank.

use super::{Steps, node::Node};

pub(super) struct Iter<'a, K> {
    /// From the root down: each node with the index of its next key; everything before that key was returned.
    path: Vec<(&'a Node<K>, usize)>,
}

impl<'a, K> Iter<'a, K> {
    pub(super) fn new(root: &'a Node<K>, rank: usize, steps: &Steps) -> Self {
        let mut path = Vec::new();
        let (mut node, mut left) = (root, rank);
        while let Some((index, within)) = node.child_at(left, steps) {
            path.push((node, index));
            let child = &node.children()[index];
            if within == child.len() {
                // The wanted key follows this child.
                return Self { path };
            }
            (node, left) = (child, within);
        }
        path.push((node, left));
        Self { path }
    }
}

impl<'a, K> Iterator for Iter<'a, K> {
    type Item = &'a K;

    fn next(&mut self) -> Option<&'a K> {
        loop {
            let (node, index) = self.path.last_mut()?;
            let node: &'a Node<K> = node;
            let Some(key) = node.keys().get(*index) else {
                self.path.pop();
                continue;
            };
            *index += 1;
            let mut below = node.children().get(*index);
            while let Some(child) = below {
                self.path.push((child, 0));
                below = child.children().first();
            }
            return Some(key);
        }
    }
}
