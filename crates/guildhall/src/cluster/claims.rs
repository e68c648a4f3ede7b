//! Claims: other nodes' claims to sessions of this node, while they are carried out.
//!
//! Owns        the claims under way, and the sessions that this node is sending to others as it leaves.
//! Invariants  K1 a claim that is repeated while the first is under way gets the answer of the first, and is not
//!             carried out again. K2 claims do not wait for each other, up to `AT_ONCE_MAX`. (tests `k1_*`, `k2_*`)
//! Limits      `AT_ONCE_MAX` claims at a time; `CLAIMS_MAX` that are carried out or wait for it: a further one has no
//!             answer yet, as one that has not finished in `patience`.
//! Not here    how a session is released: `moves`.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{Semaphore, watch};

/// Each may hold a session's bodies twice.
const AT_ONCE_MAX: usize = 32;
const CLAIMS_MAX: usize = 4_096;

/// Object of a claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sought {
    Session,
    Mirror,
}

/// Ticket of a claim.
type Key = (u64, Sought);

/// Claims with answers of type `A`.
pub struct Claims<A> {
    under_way: Arc<Mutex<BTreeMap<Key, watch::Receiver<Option<A>>>>>,
    at_once: Arc<Semaphore>,
}

impl<A> Default for Claims<A> {
    fn default() -> Self {
        Self { under_way: Arc::default(), at_once: Arc::new(Semaphore::new(AT_ONCE_MAX)) }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<A: Clone + Send + Sync + 'static> Claims<A> {
    /// The answer to a claim, which `work` gives. None: there was none before the end of `patience`, and the claim is
    /// to be repeated.
    pub async fn answer(
        &self,
        key: Key,
        work: impl Future<Output = A> + Send + 'static,
        patience: impl Future<Output = ()> + Send,
    ) -> Option<A> {
        let mut answer = self.begin(key, work)?;
        // An error: `work` has panicked.
        let finished = async { answer.wait_for(Option::is_some).await.ok()?.clone() };
        tokio::select! {
            biased;
            answer = finished => answer,
            () = patience => None,
        }
    }

    /// Whether a claim has no answer yet.
    pub fn has(&self, key: Key) -> bool {
        lock(&self.under_way).contains_key(&key)
    }

    /// None: too many claims wait.
    fn begin(&self, key: Key, work: impl Future<Output = A> + Send + 'static) -> Option<watch::Receiver<Option<A>>> {
        let mut under_way = lock(&self.under_way);
        if let Some(answer) = under_way.get(&key) {
            return Some(answer.clone());
        }
        if under_way.len() >= CLAIMS_MAX {
            return None;
        }
        let (sender, answer) = watch::channel(None);
        under_way.insert(key, answer.clone());
        drop(under_way);
        let ending = Ending { key, under_way: self.under_way.clone() };
        let at_once = self.at_once.clone();
        tokio::spawn(async move {
            let _ending = ending;
            let _permit = at_once.acquire().await;
            sender.send_replace(Some(work.await));
        });
        Some(answer)
    }
}

/// Forgets a claim once it has its answer, or `work` has panicked.
struct Ending<A> {
    key: Key,
    under_way: Arc<Mutex<BTreeMap<Key, watch::Receiver<Option<A>>>>>,
}

impl<A> Drop for Ending<A> {
    fn drop(&mut self) {
        lock(&self.under_way).remove(&self.key);
    }
}

/// Ids of sessions that this node has released for others as it leaves, and that have not arrived. Cheap to clone.
#[derive(Clone, Default)]
pub struct OnTheWay(Arc<Mutex<BTreeSet<Arc<str>>>>);

impl OnTheWay {
    pub fn has(&self, session_id: &str) -> bool {
        lock(&self.0).contains(session_id)
    }

    /// These are on their way until the result is dropped.
    pub fn begin(&self, ids: &[Arc<str>]) -> Journey {
        lock(&self.0).extend(ids.iter().cloned());
        Journey { ids: ids.to_vec(), all: self.clone() }
    }
}

/// Sessions on their way.
pub struct Journey {
    ids: Vec<Arc<str>>,
    all: OnTheWay,
}

impl Drop for Journey {
    fn drop(&mut self) {
        let mut all = lock(&self.all.0);
        self.ids.iter().for_each(|id| {
            all.remove(id);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        future::{pending, ready},
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
    };
    use tokio::sync::Barrier;

    fn claims() -> Arc<Claims<usize>> {
        Arc::default()
    }

    #[tokio::test]
    async fn k1_a_repeated_claim_gets_the_answer_of_the_first_and_runs_nothing() {
        let (claims, runs, gate) = (claims(), Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
        let work = || {
            let (runs, gate) = (runs.clone(), gate.clone());
            async move {
                gate.wait().await;
                runs.fetch_add(1, Relaxed) + 7
            }
        };
        let all: Vec<_> = (0..5).map(|_| claims.begin((1, Sought::Session), work()).unwrap()).collect();
        gate.wait().await;
        for mut answer in all {
            assert_eq!(*answer.wait_for(Option::is_some).await.unwrap(), Some(7));
        }
        // The mirror of the session is another claim, and so is one after the answer.
        let other = claims.answer((1, Sought::Mirror), async { 3 }, pending()).await;
        assert_eq!((other, runs.load(Relaxed)), (Some(3), 1));
    }

    #[tokio::test]
    async fn k1_a_claim_without_an_answer_yet_is_repeated_until_it_has_one() {
        let (claims, gate) = (claims(), Arc::new(Barrier::new(2)));
        let of_work = gate.clone();
        let work = async move {
            of_work.wait().await;
            1
        };
        assert_eq!(claims.answer((1, Sought::Session), work, ready(())).await, None);
        assert!(claims.has((1, Sought::Session)) && !claims.has((1, Sought::Mirror)));
        let mut answer = claims.begin((1, Sought::Session), async { 2 }).unwrap();
        gate.wait().await;
        assert_eq!(*answer.wait_for(Option::is_some).await.unwrap(), Some(1));
    }

    #[tokio::test]
    async fn k2_claims_are_carried_out_at_the_same_time() {
        let (claims, gate) = (claims(), Arc::new(Barrier::new(AT_ONCE_MAX)));
        let all = (0..AT_ONCE_MAX as u64).map(|ticket| {
            let (claims, gate) = (claims.clone(), gate.clone());
            tokio::spawn(async move {
                let work = async move {
                    gate.wait().await;
                    1
                };
                claims.answer((ticket, Sought::Session), work, pending()).await
            })
        });
        for answer in all.collect::<Vec<_>>() {
            assert_eq!(answer.await.unwrap(), Some(1), "a claim waits for another one");
        }
    }

    #[tokio::test]
    async fn a_claim_beyond_the_limit_waits_and_one_whose_work_panics_is_forgotten() {
        let claims = claims();
        assert_eq!(claims.answer((0, Sought::Session), async { panic!("on purpose") }, pending()).await, None);
        assert!(!claims.has((0, Sought::Session)));
        for ticket in 0..CLAIMS_MAX as u64 {
            assert!(claims.begin((ticket, Sought::Session), pending()).is_some());
        }
        assert!(claims.begin((u64::MAX, Sought::Session), pending()).is_none());
    }

    #[test]
    fn sessions_are_on_their_way_until_they_have_arrived() {
        let on_the_way = OnTheWay::default();
        let ids: Vec<Arc<str>> = vec!["a".into(), "b".into()];
        let journey = on_the_way.begin(&ids);
        let _other = on_the_way.begin(&["c".into()]);
        assert!(on_the_way.has("a") && on_the_way.has("c") && !on_the_way.has("d"));
        drop(journey);
        assert!(!on_the_way.has("a") && on_the_way.has("c"));
    }
}
