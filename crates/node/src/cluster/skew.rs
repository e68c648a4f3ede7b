//! Skew: clocks of other nodes that differ from this one's.
//!
//! Limits      a line per node in `LOG_EVERY_MS`.

use guildhall_cluster::{NodeNumber, NodeRecord};
use guildhall_stdx::{Instant, Now};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// More than a record takes on its way. A token from a clock that is a minute ahead is refused.
const SKEW_MS_MAX: u64 = 10_000;
const LOG_EVERY_MS: u64 = 3_600_000;

#[derive(Default)]
pub(super) struct Skew(Mutex<BTreeMap<NodeNumber, Instant>>);

impl Skew {
    /// Looks at a record that has just arrived. How far the other clock is ahead, if a line is due.
    pub fn look(&self, now: Now, number: NodeNumber, record: &NodeRecord) -> Option<i64> {
        let ahead_ms = record.clock_ms.saturating_sub(now.unix.0);
        // A node of an earlier version does not report its clock.
        if record.clock_ms == 0 || ahead_ms.unsigned_abs() <= SKEW_MS_MAX {
            return None;
        }
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.get(&number).is_some_and(|at| now.instant.ms_since(*at) < LOG_EVERY_MS) {
            return None;
        }
        logged.insert(number, now.instant);
        Some(ahead_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_cluster::Incarnation;

    #[test]
    fn a_clock_that_differs_is_reported_once_an_hour() {
        let record = |clock_ms| NodeRecord { clock_ms, ..NodeRecord::active(Incarnation(1)) };
        let skew = Skew::default();
        let look = |at_ms, clock_ms| skew.look(Now::new(at_ms, 1_000_000), NodeNumber(1), &record(clock_ms));
        assert_eq!(look(0, 1_009_000), None);
        assert_eq!(look(0, 0), None);
        assert_eq!(look(0, 4_600_000), Some(3_600_000));
        assert_eq!(look(1, 4_600_000), None);
        assert_eq!(look(LOG_EVERY_MS, 400_000), Some(-600_000));
    }
}
