//! Curve: how many of what happened when.

use serde::Serialize;
use std::{fmt::Write as _, time::Duration};

/// Counts per step of time.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Name of the series.
    pub name: &'static str,
    /// Milliseconds per count.
    pub step_ms: u64,
    /// From the beginning on.
    pub counts: Vec<u32>,
}

const WIDTH: u32 = 60;

impl Curve {
    pub fn new(name: &'static str, step_ms: u64) -> Self {
        Self { name, step_ms, counts: Vec::new() }
    }

    pub fn count(&mut self, at: Duration) {
        let index = (at.as_millis() as u64 / self.step_ms) as usize;
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
    }

    /// The values after `at`, with `at` as their origin.
    pub fn since(&self, at: Duration) -> Self {
        let skipped = (at.as_millis() as u64 / self.step_ms) as usize;
        Self { counts: self.counts.iter().skip(skipped).copied().collect(), ..self.clone() }
    }

    pub fn sum(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// The most in any second.
    pub fn per_s_max(&self) -> u32 {
        let steps = (1000 / self.step_ms).max(1) as usize;
        let sum = |window: &[u32]| window.iter().sum();
        match self.counts.len() {
            0 => 0,
            len if len <= steps => sum(&self.counts),
            _ => self.counts.windows(steps).map(sum).max().unwrap_or(0),
        }
    }

    /// A line per step, from the first that has something to the last.
    pub fn chart(&self) -> String {
        let most = self.counts.iter().copied().max().unwrap_or(0).max(1);
        let first = self.counts.iter().position(|count| *count > 0).unwrap_or(self.counts.len());
        let mut text = format!("{} ({} in all)\n", self.name, self.sum());
        for (index, count) in self.counts.iter().enumerate().skip(first) {
            let bar = "#".repeat((count * WIDTH).div_ceil(most) as usize);
            let _ = writeln!(text, "{:>7.2} s {count:>6} {bar}", index as f64 * self.step_ms as f64 / 1000.0);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_the_most_of_a_second() {
        let mut curve = Curve::new("test", 250);
        assert_eq!((curve.sum(), curve.per_s_max()), (0, 0));
        [0, 10, 260, 900, 1_100, 3_000].map(Duration::from_millis).into_iter().for_each(|at| curve.count(at));
        assert_eq!(curve.counts, [2, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((curve.sum(), curve.per_s_max()), (6, 4));
        assert_eq!(curve.chart().lines().count(), 14);
        assert_eq!(curve.since(Duration::from_millis(900)).counts[..2], [1, 1]);
    }
}
