//! Durations: count, total, maximum and a histogram of nanoseconds, without a lock.
//!
//! Owns        `Durations`, which has all buckets from the start, and `SparseDurations`, which has only buckets that
//!             occurred: a node has thousands of these. Both have the same snapshot.
//! Invariants  D1 the snapshot's count is the sum of its buckets. D2 a quantile is at least the true one and at most a
//!             quarter above it, while the true one is within the range. (tests)
//! Limits      256 ns to 69 s in steps of a quarter octave or less; shorter times count as 256 ns, longer ones
//!             are in the last bucket. `Durations` has 936 bytes, `SparseDurations` 40 and 8 per bucket that occurred,
//!             at most 904: mostly some ten. There a bucket counts to 2³² − 1 and stays.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The first bucket ends at `1 << MIN_LOG` nanoseconds.
const MIN_LOG: u32 = 8;
/// Buckets per octave.
const STEPS: u64 = 4;
const OCTAVES: u64 = 28;
const BUCKETS: usize = (OCTAVES * STEPS + 1) as usize;

/// A histogram that one thread writes and others read.
#[derive(Debug)]
pub struct Durations {
    buckets: Box<[AtomicU64; BUCKETS]>,
    total_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for Durations {
    fn default() -> Self {
        Self { buckets: Box::new([const { AtomicU64::new(0) }; BUCKETS]), total_ns: 0.into(), max_ns: 0.into() }
    }
}

/// A histogram with the buckets that occurred, of one thread.
#[derive(Clone, Debug, Default)]
pub struct SparseDurations {
    /// Bucket and its count, ascending.
    buckets: Vec<(u8, u32)>,
    total_ns: u64,
    max_ns: u64,
}

impl SparseDurations {
    /// Records one duration.
    pub fn record(&mut self, ns: u64) {
        let bucket = bucket_of(ns) as u8;
        let at = self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket).unwrap_or_else(|at| {
            // One at a time: most never get another.
            self.buckets.reserve_exact(1);
            self.buckets.insert(at, (bucket, 0));
            at
        });
        let count = &mut self.buckets[at].1;
        *count = count.saturating_add(1);
        self.total_ns = self.total_ns.wrapping_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Sum of all durations.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// Number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    #[must_use]
    pub fn snapshot(&self) -> DurationsSnapshot {
        let mut snapshot =
            DurationsSnapshot { total_ns: self.total_ns, max_ns: self.max_ns, ..DurationsSnapshot::default() };
        self.buckets.iter().for_each(|(bucket, count)| snapshot.buckets[usize::from(*bucket)] = (*count).into());
        snapshot
    }
}

const _: () = assert!(BUCKETS <= u8::MAX as usize, "`SparseDurations` numbers buckets by a byte");

/// Values of a `Durations` or `SparseDurations` at one moment. Subtracting an earlier one gives the time between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationsSnapshot {
    buckets: Box<[u64; BUCKETS]>,
    /// Sum of all durations.
    pub total_ns: u64,
    /// Longest duration since the node started.
    pub max_ns: u64,
}

impl Default for DurationsSnapshot {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), total_ns: 0, max_ns: 0 }
    }
}

/// The bucket of a duration.
fn bucket_of(ns: u64) -> usize {
    let ns = ns.max(1 << MIN_LOG) - 1;
    let octave = u64::from(ns.ilog2().max(MIN_LOG - 1)) + 1 - u64::from(MIN_LOG);
    if octave == 0 {
        return 0;
    }
    let base = 1u64 << (u64::from(MIN_LOG) + octave - 1);
    let step = (ns - base) / (base / STEPS);
    ((octave - 1) * STEPS + step + 1).min(BUCKETS as u64 - 1) as usize
}

/// The longest duration of a bucket.
fn upper_bound_ns(bucket: usize) -> u64 {
    let Some(index) = (bucket as u64).checked_sub(1) else { return 1 << MIN_LOG };
    let base = 1u64 << (u64::from(MIN_LOG) + index / STEPS);
    base + base * (index % STEPS + 1) / STEPS
}

impl Durations {
    /// Records one duration. Only one thread may call this: two that do at the same time lose counts.
    pub fn record(&self, ns: u64) {
        // One writer: a load and a store are cheaper than a locked addition.
        let bucket = &self.buckets[bucket_of(ns)];
        bucket.store(bucket.load(Relaxed).wrapping_add(1), Relaxed);
        self.total_ns.store(self.total_ns.load(Relaxed).wrapping_add(ns), Relaxed);
        if ns > self.max_ns.load(Relaxed) {
            self.max_ns.store(ns, Relaxed);
        }
    }

    /// Records one duration. Any number of threads may call this, if all of them do.
    pub fn record_shared(&self, ns: u64) {
        self.buckets[bucket_of(ns)].fetch_add(1, Relaxed);
        self.total_ns.fetch_add(ns, Relaxed);
        self.max_ns.fetch_max(ns, Relaxed);
    }

    /// A record that another thread makes during the call may be counted in part.
    #[must_use]
    pub fn snapshot(&self) -> DurationsSnapshot {
        DurationsSnapshot {
            buckets: Box::new(std::array::from_fn(|bucket| self.buckets[bucket].load(Relaxed))),
            total_ns: self.total_ns.load(Relaxed),
            max_ns: self.max_ns.load(Relaxed),
        }
    }
}

impl DurationsSnapshot {
    /// Number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// An upper bound of the duration that a share `q` (0 to 1) of all does not exceed; 0 if there are none.
    #[must_use]
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let count = self.count();
        let rank = ((count as f64 * q).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        for (bucket, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return upper_bound_ns(bucket).min(self.max_ns);
            }
        }
        0
    }

    /// Adds the durations of another loop.
    pub fn add(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(other.buckets.iter()).for_each(|(mine, theirs)| *mine += theirs);
        self.total_ns = self.total_ns.wrapping_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Durations since `earlier`, a snapshot of the same histogram. The maximum remains that of all time.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let buckets = std::array::from_fn(|b| self.buckets[b].saturating_sub(earlier.buckets[b]));
        let total_ns = self.total_ns.saturating_sub(earlier.total_ns);
        Self { buckets: Box::new(buckets), total_ns, max_ns: self.max_ns }
    }

    /// Upper bound in nanoseconds, and the number of durations up to it and above the previous bound; ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter().enumerate().map(|(bucket, count)| (upper_bound_ns(bucket), *count))
    }

    /// Number of durations of at most each bound; `bounds_ns` ascends. A bucket counts for the first bound that is not
    /// below its own upper bound.
    pub fn cumulative(&self, bounds_ns: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; bounds_ns.len()];
        for (bucket, n) in self.buckets.iter().enumerate() {
            let first = bounds_ns.partition_point(|bound| *bound < upper_bound_ns(bucket));
            counts[first..].iter_mut().for_each(|count| *count += n);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_and_buckets_agree() {
        for bucket in 0..BUCKETS - 1 {
            let bound = upper_bound_ns(bucket);
            assert_eq!(bucket_of(bound), bucket, "{bound}");
            assert_eq!(bucket_of(bound + 1), bucket + 1, "{bound} + 1");
        }
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_snapshot_minus_an_earlier_one_is_the_time_between() {
        let durations = Durations::default();
        durations.record(1_000);
        let earlier = durations.snapshot();
        durations.record_shared(5_000);
        let between = durations.snapshot().since(&earlier);
        assert_eq!((between.count(), between.total_ns), (1, 5_000));
        assert_eq!(between.cumulative(&[4_000, 6_000, 10_000]), [0, 1, 1]);
    }

    proptest! {
        #[test]
        fn d1_d2_quantiles_are_a_quarter_above_at_most(
            mut all in proptest::collection::vec(256u64..60_000_000_000, 1..200),
            q in 0.0f64..1.0,
        ) {
            let durations = Durations::default();
            all.iter().for_each(|ns| durations.record(*ns));
            let snapshot = durations.snapshot();
            let mut sparse = SparseDurations::default();
            all.iter().for_each(|ns| sparse.record(*ns));
            prop_assert_eq!(&sparse.snapshot(), &snapshot);
            prop_assert_eq!((sparse.count(), sparse.total_ns()), (snapshot.count(), snapshot.total_ns));
            prop_assert_eq!(snapshot.count(), all.len() as u64);
            prop_assert_eq!(snapshot.total_ns, all.iter().sum::<u64>());
            all.sort_unstable();
            let rank = ((all.len() as f64 * q).ceil() as usize).clamp(1, all.len());
            let (truth, estimate) = (all[rank - 1], snapshot.quantile_ns(q));
            prop_assert!(estimate >= truth && estimate <= truth + truth / 4 + 1, "{truth} {estimate}");
        }
    }
}
