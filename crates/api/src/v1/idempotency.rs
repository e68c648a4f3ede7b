//! Idempotency: what was published under a key is not published again.
//!
//! Owns        the outcomes of events by (key of the API, idempotency key).
//! Invariants  P1 of several requests with one key, also at the same time, one is carried out, and all get its outcome.
//!             P2 a key that comes with another event is refused. P3 what failed is not remembered. (tests `p*_*`)
//! Limits      `keys_max` over all keys of the API. Past it the oldest is forgotten: an event that is sent again after so many
//!             others is published again. Nothing survives a restart.     Spec  docs/backend-api.md "Publishing".

use super::error::V1Error;
use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::OnceCell;

/// How many sessions an event reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub reached: u64,
    /// Everybody has said how many.
    pub complete: bool,
}

type Name = (u64, Box<str>);

#[derive(Clone)]
struct Entry {
    /// Of the event.
    fingerprint: u64,
    outcome: Arc<OnceCell<Outcome>>,
}

#[derive(Default)]
struct Known {
    entries: HashMap<Name, Entry>,
    by_age: VecDeque<Name>,
}

pub(crate) struct Idempotency {
    known: Mutex<Known>,
    keys_max: usize,
    hasher: RandomState,
}

impl Idempotency {
    pub fn new(keys_max: usize) -> Self {
        Self { known: Mutex::default(), keys_max: keys_max.max(1), hasher: RandomState::new() }
    }

    /// The outcome of the event with this name, which is published now if it was not before; and whether it was before.
    pub async fn once(
        &self,
        api_key: u64,
        name: &str,
        event: &[u8],
        publish: impl Future<Output = Result<Outcome, V1Error>>,
    ) -> Result<(Outcome, bool), V1Error> {
        let fingerprint = self.hasher.hash_one(event);
        let entry = self.entry((api_key, name.into()), fingerprint);
        if entry.fingerprint != fingerprint {
            return Err(V1Error::conflict(
                "This idempotency key came with another event before: take another key, or send the same event.",
            ));
        }
        let mut is_repeated = true;
        let outcome = entry.outcome.get_or_try_init(async || {
            is_repeated = false;
            publish.await
        });
        let outcome = *outcome.await?;
        Ok((outcome, is_repeated))
    }

    fn entry(&self, name: Name, fingerprint: u64) -> Entry {
        // Both halves are changed together, between statements that do not fail.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = known.entries.get(&name) {
            // One that failed and that nobody works on may be used for something else (P3).
            let is_free = !entry.outcome.initialized() && Arc::strong_count(&entry.outcome) == 1;
            if !is_free {
                return entry.clone();
            }
        } else {
            known.by_age.push_back(name.clone());
        }
        let entry = Entry { fingerprint, outcome: Arc::default() };
        known.entries.insert(name, entry.clone());
        while known.entries.len() > self.keys_max {
            let Some(oldest) = known.by_age.pop_front() else { break };
            known.entries.remove(&oldest);
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    const OUTCOME: Outcome = Outcome { reached: 3, complete: true };

    async fn done(count: &AtomicU64) -> Result<Outcome, V1Error> {
        tokio::task::yield_now().await;
        count.fetch_add(1, Ordering::Relaxed);
        Ok(OUTCOME)
    }

    #[tokio::test]
    async fn p1_one_is_carried_out() {
        let (known, count) = (Idempotency::new(10), AtomicU64::new(0));
        let all = futures_util::future::join_all((0..5).map(|_| known.once(1, "a", b"e", done(&count)))).await;
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert_eq!(all.iter().filter(|one| matches!(one, Ok((OUTCOME, false)))).count(), 1);
        assert_eq!(all.iter().filter(|one| matches!(one, Ok((OUTCOME, true)))).count(), 4);
        known.once(2, "a", b"e", done(&count)).await.unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 2, "keys of others are others");
    }

    #[tokio::test]
    async fn p2_another_event_is_refused_and_p3_failures_are_forgotten() {
        let (known, count) = (Idempotency::new(10), AtomicU64::new(0));
        let failed = known.once(1, "a", b"e", async { Err(V1Error::unavailable()) }).await;
        assert_eq!(failed.unwrap_err().code, "unavailable");
        assert!(known.once(1, "a", b"other", done(&count)).await.is_ok(), "nothing was done under it");
        assert_eq!(known.once(1, "a", b"e", done(&count)).await.unwrap_err().code, "conflict");
    }

    #[tokio::test]
    async fn past_the_bound_the_oldest_is_forgotten() {
        let (known, count) = (Idempotency::new(2), AtomicU64::new(0));
        for (name, expected) in [("a", 1), ("b", 2), ("a", 2), ("c", 3), ("b", 3), ("a", 4)] {
            known.once(1, name, b"e", done(&count)).await.unwrap();
            assert_eq!(count.load(Ordering::Relaxed), expected, "{name}");
        }
        let known = known.known.lock().unwrap();
        assert_eq!((known.entries.len(), known.by_age.len()), (2, 2));
    }
}
