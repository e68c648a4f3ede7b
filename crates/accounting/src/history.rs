//! History: the last hour of a few series, in a ring.
//!
//! Owns        `History`, equal steps of time with one value per series and step; a step without a value is a gap.
//! Invariants  H1 memory is fixed: `steps` × series × 4 bytes. H2 a value is at its own step, whatever steps were left out
//!             before it. (test)
//! Limits      `SERIES_MAX` series; the value of a further one is dropped and counted.

use guildhall_stdx::Instant;
use std::collections::BTreeMap;

/// Most series of a history.
const SERIES_MAX: usize = 512;

/// Values of one name over time. NaN: none at that step.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name of the series.
    pub name: String,
    /// Oldest first; the last is the newest step.
    pub values: Vec<f32>,
}

/// The recent past of some series.
#[derive(Debug)]
pub struct History {
    step_ms: u64,
    steps: usize,
    /// The newest step, counted from the start of the clock.
    newest: Option<u64>,
    series: BTreeMap<String, Box<[f32]>>,
    dropped_total: u64,
}

impl History {
    /// A history of `steps` steps of `step_ms` milliseconds (at least one of each).
    #[must_use]
    pub fn new(step_ms: u64, steps: usize) -> Self {
        let (step_ms, steps) = (step_ms.max(1), steps.max(1));
        Self { step_ms, steps, newest: None, series: BTreeMap::new(), dropped_total: 0 }
    }

    /// Milliseconds per step.
    #[must_use]
    pub fn step_ms(&self) -> u64 {
        self.step_ms
    }

    /// Values that were dropped because there were too many series.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped_total
    }

    /// Records the values of one moment. A later call in the same step replaces values of the same name.
    pub fn push<'a>(&mut self, now: Instant, values: impl IntoIterator<Item = (&'a str, f32)>) {
        let step = now.0 / self.step_ms;
        self.clear_until(step);
        let (at, steps) = ((step % self.steps as u64) as usize, self.steps);
        for (name, value) in values {
            if let Some(ring) = self.series.get_mut(name) {
                ring[at] = value;
            } else if self.series.len() < SERIES_MAX {
                let mut ring = vec![f32::NAN; steps].into_boxed_slice();
                ring[at] = value;
                self.series.insert(name.to_owned(), ring);
            } else {
                self.dropped_total += 1;
            }
        }
    }

    /// All series that have a value within the last `steps` steps.
    #[must_use]
    pub fn series(&self, steps: usize) -> Vec<Series> {
        let Some(newest) = self.newest else { return Vec::new() };
        let steps = steps.min(self.steps) as u64;
        let at = |back: u64| (newest.wrapping_sub(back) % self.steps as u64) as usize;
        let all = self.series.iter().map(|(name, ring)| Series {
            name: name.clone(),
            values: (0..steps).rev().map(|back| if back > newest { f32::NAN } else { ring[at(back)] }).collect(),
        });
        all.filter(|series| series.values.iter().any(|value| !value.is_nan())).collect()
    }

    /// Makes `step` the newest, with gaps between the former newest and it.
    fn clear_until(&mut self, step: u64) {
        let newest = self.newest.replace(self.newest.unwrap_or(step).max(step)).unwrap_or(step);
        let skipped = step.saturating_sub(newest).min(self.steps as u64);
        for ring in self.series.values_mut() {
            (0..skipped).for_each(|back| ring[((step - back) % self.steps as u64) as usize] = f32::NAN);
        }
        if skipped == self.steps as u64 {
            self.series.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(history: &History, steps: usize) -> Vec<(String, Vec<Option<f32>>)> {
        let none = |value: f32| (!value.is_nan()).then_some(value);
        history.series(steps).into_iter().map(|s| (s.name, s.values.into_iter().map(none).collect())).collect()
    }

    #[test]
    fn h2_values_are_at_their_steps_and_gaps_are_gaps() {
        let mut history = History::new(1000, 4);
        history.push(Instant(1_000), [("a", 1.0)]);
        history.push(Instant(1_900), [("a", 2.0)]);
        history.push(Instant(4_000), [("a", 5.0), ("b", 7.0)]);
        let expected = [
            ("a".to_owned(), vec![Some(2.0), None, None, Some(5.0)]),
            ("b".to_owned(), vec![None, None, None, Some(7.0)]),
        ];
        assert_eq!(values(&history, 4), expected);
        history.push(Instant(6_000), [("b", 8.0)]);
        assert_eq!(values(&history, 2), [("b".to_owned(), vec![None, Some(8.0)])]);
        assert_eq!(values(&history, 9)[0].1, [None, Some(5.0), None, None]);
    }

    #[test]
    fn after_a_long_sleep_all_is_gap() {
        let mut history = History::new(1000, 4);
        history.push(Instant(1_000), [("a", 1.0)]);
        history.push(Instant(1_000_000), [("b", 1.0)]);
        assert_eq!(values(&history, 4), [("b".to_owned(), vec![None, None, None, Some(1.0)])]);
    }

    #[test]
    fn h1_names_are_bounded() {
        let mut history = History::new(1000, 1);
        for n in 0..SERIES_MAX + 3 {
            history.push(Instant(1_000), [(n.to_string().as_str(), 1.0)]);
        }
        assert_eq!((history.series(1).len(), history.dropped_total()), (SERIES_MAX, 3));
    }
}
