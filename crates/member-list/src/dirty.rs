//! Dirty rows: row ranges of a list that may have changed since the last update of its watchers.
//!
//! Owns        a few spans of row numbers.
//! Doors       `MemberList` adds; `MemberList::take_dirty` moves them out; `meets` decides which intervals need an
//!             update.
//! Invariants  T1 rows outside all spans are unchanged. (tests `watch`)  T2 spans ascend and do not touch.
//! Limits      `SPANS_MAX` spans. Past it the two closest are merged, which only costs unnecessary comparisons.

use crate::interval::Interval;

/// A change adds at most three. Enough for a quiet period; under load most of the list is dirty anyway.
const SPANS_MAX: usize = 16;

/// Rows that may have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirtyRanges {
    /// First and last row of each span.
    spans: Vec<(usize, usize)>,
}

impl DirtyRanges {
    pub(crate) fn everything() -> Self {
        Self { spans: vec![(0, usize::MAX)] }
    }

    pub(crate) fn add(&mut self, first: usize, last: usize) {
        // Spans that overlap the new one or are adjacent to it.
        let from = self.spans.partition_point(|span| span.1.saturating_add(1) < first);
        let to = self.spans.partition_point(|span| span.0 <= last.saturating_add(1));
        let merged = match self.spans.get(from..to) {
            Some([head, .., tail]) => (head.0.min(first), tail.1.max(last)),
            Some([span]) => (span.0.min(first), span.1.max(last)),
            _ => (first, last),
        };
        self.spans.splice(from..to, [merged]);
        if self.spans.len() > SPANS_MAX {
            self.close_smallest_gap();
        }
    }

    fn close_smallest_gap(&mut self) {
        let gap = |at: &usize| self.spans[*at].0 - self.spans[*at - 1].1;
        if let Some(at) = (1..self.spans.len()).min_by_key(gap) {
            self.spans[at - 1].1 = self.spans[at].1;
            self.spans.remove(at);
        }
    }

    /// Nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// A row of the interval may have changed.
    #[must_use]
    pub fn meets(&self, interval: Interval) -> bool {
        let next = self.spans.partition_point(|span| span.1 < interval.first());
        self.spans.get(next).is_some_and(|span| span.0 <= interval.last())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::Rng;

    #[test]
    fn t2_covers_what_was_added_and_stays_small() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let mut dirty = DirtyRanges::default();
            let mut rows = [false; 300];
            for _ in 0..rng.below(60) {
                let first = rng.below(290) as usize;
                let last = first + rng.below(6) as usize;
                dirty.add(first, last);
                rows[first..=last].fill(true);
                assert!(dirty.spans.len() <= SPANS_MAX);
                assert!(dirty.spans.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "seed {seed}: {dirty:?}");
            }
            for (row, was_added) in rows.iter().enumerate() {
                let row = row as u64;
                let meets = Interval::from_ranges([[row, row]]).iter().all(|interval| dirty.meets(*interval));
                assert!(meets || !was_added, "seed {seed}, row {row}: {dirty:?}");
            }
        }
    }

    #[test]
    fn few_spans_are_exact() {
        let mut dirty = DirtyRanges::default();
        assert!(dirty.is_empty());
        dirty.add(5, 7);
        dirty.add(20, usize::MAX);
        dirty.add(10, 10);
        assert_eq!(dirty.spans, [(5, 7), (10, 10), (20, usize::MAX)]);
        dirty.add(8, 9);
        assert_eq!(dirty.spans, [(5, 10), (20, usize::MAX)]);
        dirty.add(0, usize::MAX);
        assert_eq!(dirty, DirtyRanges::everything());
        dirty.add(3, 3);
        assert_eq!(dirty, DirtyRanges::everything());
    }
}
