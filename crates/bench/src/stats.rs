//! Spread: summary of many measurements.

use serde::Serialize;

/// Median, 99th percentile and maximum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Half are at most this.
    pub p50: f64,
    /// 99 in a hundred are at most this.
    pub p99: f64,
    /// All are at most this.
    pub max: f64,
}

impl Spread {
    /// Of at least one value; all zero for none. A percentile is a value that occurred: the smallest that is at least
    /// as large as that share of all.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            let rank = (values.len() * percent).div_ceil(100);
            values.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        Self { p50: at(50), p99: at(99), max: at(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let check = |values: &[f64], p50, p99, max| {
            assert_eq!(Spread::of(values.to_vec()), Spread { p50, p99, max }, "{values:?}");
        };
        check(&[], 0.0, 0.0, 0.0);
        check(&[7.0], 7.0, 7.0, 7.0);
        check(&[3.0, 1.0, 2.0], 2.0, 3.0, 3.0);
        check(&[4.0, 3.0, 2.0, 1.0], 2.0, 4.0, 4.0);
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        check(&hundred, 50.0, 99.0, 100.0);
        let thousand: Vec<f64> = (1..=1000).map(f64::from).collect();
        check(&thousand, 500.0, 990.0, 1000.0);
    }
}
