//! Idempotency: an event that was published under a key is not published again.
//!
//! Owns        the outcomes of events by (API key, idempotency key), and the tasks that publish the events.
//! Doors       `find` for an existing outcome; `begin` for an event that may be the first under its key.
//! Invariants  P1 of several requests with one key, concurrent ones included, one is executed, and all get its outcome.
//!             P2 a key that is reused for another event is refused. P3 a publication that the guild refused reached no
//!             session and is forgotten. P4 a publication that was handed over runs to its end, whether or not its
//!             caller still waits; it is recorded before the hand-over. (tests `p*_*`; `s5_*` in
//!             `guildhall/tests/it/exact.rs`)
//! Limits      `keys_max` over all API keys: past it the oldest key is evicted, and an event that is sent again under
//!             it is published again. `UNDER_WAY_MAX` publications in progress: past it others are refused with 503
//!             before the hand-over. Nothing survives a restart.     Spec  docs/backend-api.md "Publishing".
//! Not here    the same key at several nodes: `executions`.

use super::error::V1Error;
use std::{
    collections::{HashMap, VecDeque},
    hash::RandomState,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{Semaphore, watch};

/// The number that all streams of a node can have in progress: `requests_in_flight_max` × 64 events.
const UNDER_WAY_MAX: usize = 16_384;

/// How many sessions an event reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub reached: u64,
    /// Every partition has reported its count.
    pub complete: bool,
    /// The guild published it for an earlier request, and the outcome of that request is lost.
    pub was_published: bool,
}

/// State of one publication.
#[derive(Clone, Debug)]
enum State {
    UnderWay,
    Done(Outcome),
    /// It reached no session. Its key is free.
    Refused(V1Error),
}

type Name = (u64, Box<str>);

#[derive(Clone)]
struct Entry {
    fingerprint: u64,
    state: watch::Receiver<State>,
}

#[derive(Default)]
struct Known {
    entries: HashMap<Name, Entry>,
    by_age: VecDeque<Name>,
}

/// A publication that was handed over, by this request or an earlier one.
#[derive(Debug)]
pub(crate) struct Publication {
    state: watch::Receiver<State>,
    /// An earlier request handed it over.
    pub is_repeated: bool,
}

impl Publication {
    /// Waits for the outcome. Past `patience` the publication stays in progress, and its key stays taken.
    pub async fn outcome(mut self, patience: Duration) -> Result<Outcome, V1Error> {
        let ended = self.state.wait_for(|state| !matches!(state, State::UnderWay));
        match tokio::time::timeout(patience, ended).await {
            // The task ended without an outcome, because the node shuts down.
            Err(_) | Ok(Err(_)) => Err(V1Error::unavailable()),
            Ok(Ok(state)) => match &*state {
                State::Done(outcome) => Ok(*outcome),
                State::Refused(error) => Err(error.clone()),
                State::UnderWay => Err(V1Error::unavailable()),
            },
        }
    }
}

pub(crate) struct Idempotency {
    known: Mutex<Known>,
    keys_max: usize,
    under_way: Arc<Semaphore>,
    /// For fingerprints.
    pub hasher: RandomState,
}

impl Idempotency {
    pub fn new(keys_max: usize) -> Self {
        Self {
            known: Mutex::default(),
            keys_max: keys_max.max(1),
            under_way: Arc::new(Semaphore::new(UNDER_WAY_MAX)),
            hasher: RandomState::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Both halves are changed together, between statements that do not fail.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The publication with this name, if there is one.
    ///
    /// # Errors
    /// 409 if it is of another event.
    pub fn find(&self, api_key: u64, name: &str, fingerprint: u64) -> Result<Option<Publication>, V1Error> {
        find(&self.lock(), &(api_key, name.into()), fingerprint)
    }

    /// Hands an event over, unless a publication has this name. There is no await between the record and the hand-over,
    /// so that a disconnecting caller cannot come between them (P4).
    ///
    /// # Errors
    /// As `find`; 503 if too many are in progress.
    pub fn begin<F>(
        &self,
        api_key: u64,
        name: &str,
        fingerprint: u64,
        hand_over: impl FnOnce() -> F,
    ) -> Result<Publication, V1Error>
    where
        F: Future<Output = Result<Outcome, V1Error>> + Send + 'static,
    {
        let name: Name = (api_key, name.into());
        let mut known = self.lock();
        if let Some(publication) = find(&known, &name, fingerprint)? {
            return Ok(publication);
        }
        let permit = self.under_way.clone().try_acquire_owned().map_err(|_| V1Error::unavailable())?;
        let (sender, state) = watch::channel(State::UnderWay);
        let entry = Entry { fingerprint, state: state.clone() };
        if known.entries.insert(name.clone(), entry).is_none() {
            known.by_age.push_back(name);
        }
        while known.entries.len() > self.keys_max {
            let Some(oldest) = known.by_age.pop_front() else { break };
            known.entries.remove(&oldest);
        }
        drop(known);
        let publishing = hand_over();
        tokio::spawn(async move {
            let _permit = permit;
            sender.send_replace(match publishing.await {
                Ok(outcome) => State::Done(outcome),
                Err(error) => State::Refused(error),
            });
        });
        Ok(Publication { state, is_repeated: false })
    }
}

fn find(known: &Known, name: &Name, fingerprint: u64) -> Result<Option<Publication>, V1Error> {
    let Some(entry) = known.entries.get(name) else { return Ok(None) };
    if matches!(*entry.state.borrow(), State::Refused(_)) {
        return Ok(None);
    }
    if entry.fingerprint != fingerprint {
        return Err(V1Error::other_event());
    }
    Ok(Some(Publication { state: entry.state.clone(), is_repeated: true }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tokio::sync::oneshot;

    const OUTCOME: Outcome = Outcome { reached: 3, complete: true, was_published: false };
    const PATIENCE: Duration = Duration::from_secs(60);

    #[derive(Clone, Default)]
    struct Count(Arc<AtomicU64>);

    impl Count {
        fn publish(&self) -> impl Future<Output = Result<Outcome, V1Error>> + use<> {
            let count = self.clone();
            async move {
                tokio::task::yield_now().await;
                count.0.fetch_add(1, Ordering::Relaxed);
                Ok(OUTCOME)
            }
        }

        fn get(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn p1_one_is_carried_out() {
        let (known, count) = (Idempotency::new(10), Count::default());
        let all: Vec<Publication> = (0..5).map(|_| known.begin(1, "a", 7, || count.publish()).unwrap()).collect();
        assert_eq!(all.iter().filter(|publication| publication.is_repeated).count(), 4);
        for publication in all {
            assert_eq!(publication.outcome(PATIENCE).await.unwrap(), OUTCOME);
        }
        assert_eq!(count.get(), 1);
        assert!(known.find(1, "a", 7).unwrap().unwrap().is_repeated);
        known.begin(2, "a", 7, || count.publish()).unwrap().outcome(PATIENCE).await.unwrap();
        assert_eq!(count.get(), 2, "idempotency keys are an API key's own");
    }

    #[tokio::test]
    async fn p2_another_event_is_refused_and_p3_refusals_are_forgotten() {
        let (known, count) = (Idempotency::new(10), Count::default());
        let refused = known.begin(1, "a", 7, || async { Err(V1Error::not_found("guild")) }).unwrap();
        assert_eq!(refused.outcome(PATIENCE).await.unwrap_err().code, "not_found");
        let other = known.begin(1, "a", 8, || count.publish()).unwrap();
        assert!(!other.is_repeated, "no client was reached under it");
        assert_eq!(known.find(1, "a", 7).unwrap_err().code, "conflict", "another event is under way");
        other.outcome(PATIENCE).await.unwrap();
        assert_eq!(known.begin(1, "a", 7, || count.publish()).unwrap_err().code, "conflict");
        assert_eq!(count.get(), 1);
    }

    #[tokio::test]
    async fn p4_a_publication_outlives_its_callers_and_their_patience() {
        let known = Idempotency::new(10);
        let (answer, waits) = oneshot::channel::<Outcome>();
        let first = known.begin(1, "a", 7, || async move { waits.await.map_err(|_| V1Error::unavailable()) }).unwrap();
        drop(first);
        let never = || std::future::pending::<Result<Outcome, V1Error>>();
        let second = known.begin(1, "a", 7, never).unwrap();
        assert_eq!(second.outcome(Duration::ZERO).await.unwrap_err().code, "unavailable", "it waits in vain");
        let third = known.begin(1, "a", 7, never).unwrap();
        answer.send(OUTCOME).unwrap();
        assert_eq!((third.is_repeated, third.outcome(PATIENCE).await.unwrap()), (true, OUTCOME));
    }

    #[tokio::test]
    async fn past_the_bounds_the_oldest_is_evicted_and_further_ones_are_refused() {
        let (known, count) = (Idempotency::new(2), Count::default());
        for (name, expected) in [("a", 1), ("b", 2), ("a", 2), ("c", 3), ("b", 3), ("a", 4)] {
            known.begin(1, name, 7, || count.publish()).unwrap().outcome(PATIENCE).await.unwrap();
            assert_eq!(count.get(), expected, "{name}");
        }
        {
            let known = known.lock();
            assert_eq!((known.entries.len(), known.by_age.len()), (2, 2));
        }
        let _all = known.under_way.clone().try_acquire_many_owned(UNDER_WAY_MAX as u32).unwrap();
        assert_eq!(known.begin(1, "d", 7, || count.publish()).unwrap_err().code, "unavailable");
        assert!(known.find(1, "d", 7).unwrap().is_none(), "it was not handed over");
    }
}
