//! Intervals of rows that clients subscribe to.
//!
//! Invariants  V1 the first row is not behind the last. V2 the intervals of one client do not overlap: an inserted
//!             row is sent once, not once per interval that contains it. (test `v2_*`)
//! Limits      `PER_LIST_MAX` intervals of `ROWS_MAX` rows each; the excess is dropped.
//! Spec        docs/protocol/reference.md §8.4.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Rows from `first` to `last`, both included. On the wire `[first, last]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interval {
    first: u32,
    last: u32,
}

const _: () = assert!(size_of::<Interval>() <= 8, "each watcher of a list has up to ten");

impl Interval {
    /// Maximum number of intervals per client and list.
    pub const PER_LIST_MAX: usize = 5;
    /// Maximum number of rows per interval.
    pub const ROWS_MAX: u32 = 400;

    /// Normalizes the ranges that a client requests: sorted, disjoint, within the limits. Malformed ranges are dropped.
    #[must_use]
    pub fn from_ranges(ranges: impl IntoIterator<Item = [u64; 2]>) -> Vec<Self> {
        let mut ranges: Vec<_> = ranges.into_iter().filter_map(|[first, last]| Self::new(first, last)).collect();
        ranges.truncate(Self::PER_LIST_MAX);
        ranges.sort_unstable();
        let mut free_from = 0;
        ranges.retain_mut(|range| {
            let first = u64::from(range.first).max(free_from);
            free_from = free_from.max(u64::from(range.last) + 1);
            let is_left = first <= u64::from(range.last);
            if is_left {
                range.first = first as u32;
            }
            is_left
        });
        ranges
    }

    fn new(first: u64, last: u64) -> Option<Self> {
        // Larger than any list.
        let first = u32::try_from(first).ok()?;
        let last = u32::try_from(last).unwrap_or(u32::MAX);
        (first <= last).then(|| Self { first, last: last.min(first.saturating_add(Self::ROWS_MAX - 1)) })
    }

    #[must_use]
    pub fn first(self) -> usize {
        self.first as usize
    }

    #[must_use]
    pub fn last(self) -> usize {
        self.last as usize
    }

    /// Row numbers in the interval.
    #[must_use]
    pub fn rows(self) -> std::ops::Range<usize> {
        self.first()..self.last() + 1
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        [self.first, self.last].serialize(serializer)
    }
}

/// Refuses what `from_ranges` would have to change.
impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let [first, last] = <[u64; 2]>::deserialize(deserializer)?;
        let interval = Self::new(first, last).filter(|interval| u64::from(interval.last) == last);
        interval.ok_or_else(|| D::Error::custom("not an interval of rows"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ranges: &[[u64; 2]], expected: &[[u32; 2]]) {
        let intervals = Interval::from_ranges(ranges.iter().copied());
        let found: Vec<_> = intervals.iter().map(|interval| [interval.first, interval.last]).collect();
        assert_eq!(found, expected, "{ranges:?}");
    }

    #[test]
    fn what_clients_send() {
        check(&[], &[]);
        check(&[[0, 99]], &[[0, 99]]);
        check(&[[0, 99], [300, 399], [100, 199]], &[[0, 99], [100, 199], [300, 399]]);
    }

    #[test]
    fn limits() {
        check(&[[5, 4], [0, 0], [u64::MAX, u64::MAX]], &[[0, 0]]);
        check(&[[100, u64::MAX]], &[[100, 499]]);
        let last = u64::from(u32::MAX);
        check(&[[last, last + 5], [last - 1, last], [last + 1, last + 1]], &[[u32::MAX - 1, u32::MAX]]);
        check(
            &[[0, 9], [10, 19], [20, 29], [30, 39], [40, 49], [50, 59]],
            &[[0, 9], [10, 19], [20, 29], [30, 39], [40, 49]],
        );
    }

    #[test]
    fn v2_overlaps_are_cut_off() {
        check(&[[0, 99], [0, 99]], &[[0, 99]]);
        check(&[[50, 149], [0, 99]], &[[0, 99], [100, 149]]);
        check(&[[0, 300], [10, 20], [250, 310]], &[[0, 300], [301, 310]]);
    }

    #[test]
    fn on_the_wire() {
        assert_eq!(serde_json::to_string(&Interval { first: 0, last: 99 }).ok().as_deref(), Some("[0,99]"));
    }
}
