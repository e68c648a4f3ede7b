//! Histogram: durations in fixed buckets. One thread records, others sum.
//!
//! Invariants  H1 every sample is in exactly one bucket: `count` is the sum of `counts`. (test `h1_*`)
//! Limits      fixed size; sums saturate.

/// Upper bounds in microseconds; the last bucket has none.
pub const HISTOGRAM_BOUNDS_US: [u64; 15] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000, 30_000_000,
];

/// Durations in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; HISTOGRAM_BOUNDS_US.len() + 1],
    sum_us: u64,
}

impl Histogram {
    /// Records one sample.
    pub fn record(&mut self, us: u64) {
        let bucket = HISTOGRAM_BOUNDS_US.partition_point(|bound| *bound < us);
        self.counts[bucket] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// Samples per bucket, not cumulative.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Number of samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all samples.
    #[must_use]
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }
}

impl std::ops::AddAssign for Histogram {
    fn add_assign(&mut self, other: Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h1_every_sample_has_its_bucket() {
        let mut histogram = Histogram::default();
        for us in [0, 50, 51, 30_000_000, 30_000_001, u64::MAX] {
            histogram.record(us);
        }
        assert_eq!(histogram.counts()[..2], [2, 1]);
        assert_eq!(histogram.counts()[14..], [1, 2]);
        assert_eq!(histogram.count(), 6);
        assert_eq!(histogram.sum_us(), u64::MAX, "it saturates");
        let mut twice = histogram;
        twice += histogram;
        assert_eq!(twice.count(), 12);
    }
}
