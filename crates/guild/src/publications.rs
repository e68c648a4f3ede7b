//! Publications: which events with an idempotency key the guild has published.
//!
//! Owns        `Publications`, the ids of such events.
//! Doors       `contains` before an event is published, `record` when it is.
//! Invariants  an event whose id is there is not published again: a node that lost the answer of the guild's owner may
//!             repeat its request. (H5 of `backend`)
//! Limits      `PUBLICATION_MS` per id, `PUBLICATIONS_MAX` ids (48 bytes each); past them an event that is repeated is
//!             published again. Nothing survives the guild in memory.
//! Not here    outcomes and concurrent requests: `guildhall-backend` (`idempotency.rs`, `executions.rs`).

use crate::expiring::Expiring;
use guildhall_stdx::Instant;
use serde::{Deserialize, Serialize};

/// Lifetime of an id: five minutes, longer than backends retry.
pub(crate) const PUBLICATION_MS: u64 = 300_000;
const PUBLICATIONS_MAX: usize = 4_096;

/// Identifies an event by its API key, idempotency key and content: 128 bits of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PublicationId(pub [u64; 2]);

#[derive(Debug, Default)]
pub(crate) struct Publications(Expiring<PublicationId, (), PUBLICATION_MS>);

impl Publications {
    pub fn contains(&self, now: Instant, id: PublicationId) -> bool {
        matches!(self.0.find(now, &id), Some(Some(())))
    }

    /// Records an id, which counts from its first record on.
    pub fn record(&mut self, now: Instant, id: PublicationId) {
        if !self.contains(now, id) {
            self.0.record(now, id, (), PUBLICATIONS_MAX);
        }
    }

    /// Ids that count, oldest first, with their ages in milliseconds.
    pub fn ages(&self, now: Instant) -> Vec<(PublicationId, u64)> {
        self.0.ages(now).map(|(age, id, ())| (*id, age)).collect()
    }

    /// Begins with those of another node.
    pub fn take_over(&mut self, now: Instant, ages: Vec<(PublicationId, u64)>) {
        for (id, age) in ages {
            self.0.record(now.before_ms(age), id, (), PUBLICATIONS_MAX);
        }
        self.0.sweep(now);
    }

    /// Removes expired ids, or part of them if there are many.
    pub fn sweep(&mut self, now: Instant) {
        self.0.sweep(now);
    }

    /// Time at which `sweep` should be called even without other input.
    pub fn sweep_at(&self) -> Option<Instant> {
        self.0.sweep_at()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_lasts_five_minutes_and_at_most_the_newest_stay() {
        let id = |n| PublicationId([n, 0]);
        let mut publications = Publications::default();
        publications.record(Instant(1), id(1));
        publications.record(Instant(2), id(2));
        publications.record(Instant(3), id(1));
        assert!(publications.contains(Instant(PUBLICATION_MS), id(1)));
        assert!(!publications.contains(Instant(1 + PUBLICATION_MS), id(1)), "it counts from its first use");
        assert!(publications.contains(Instant(1 + PUBLICATION_MS), id(2)));
        assert!(publications.sweep_at().is_some());
        publications.sweep(Instant(2 + PUBLICATION_MS));
        assert_eq!((publications.0.sizes(), publications.sweep_at()), ((0, 0), None));
        for n in 0..=PUBLICATIONS_MAX as u64 {
            publications.record(Instant(9), id(n));
        }
        assert!(!publications.contains(Instant(9), id(0)), "the oldest was evicted");
        assert!(publications.contains(Instant(9), id(1)));
        assert_eq!(publications.0.sizes(), (PUBLICATIONS_MAX, PUBLICATIONS_MAX));
    }
}
