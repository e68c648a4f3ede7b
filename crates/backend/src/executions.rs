//! Executions: in a cluster an event with an idempotency key is executed by one node, which the home of the key
//! decides.
//!
//! Doors       `begin` before an event is handed over; `outcome` while another node's is under way.
//! Invariants  a key that was granted is settled, also if the request is broken off: else it would be taken as long as
//!             its node lives. (Invariants of the home: `guildhall_cluster::Executions`)
//! Limits      `HOME_MS_MAX` for an answer; without one the node executes, as it would alone. `SETTLE_TRIES_MAX`.
//! Spec        docs/cluster.md "Limits"; ADR 37.

use super::{error::V1Error, idempotency::Outcome};
use guildhall_cluster::{Executed, Executions, Executor, KeyName, KeyState};
use guildhall_guild::PublicationId;
use guildhall_node::{Membership, PeerQuestion};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    future::ready,
    hash::{BuildHasher, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::runtime::Handle;

/// Longest wait for a home. An answer takes a millisecond.
const HOME_MS_MAX: u64 = 1_000;
/// Pause before the next request to a home.
const AGAIN_PAUSE: Duration = Duration::from_millis(50);
/// How often an outcome is sent to a home that does not answer.
const SETTLE_TRIES_MAX: usize = 20;

#[derive(Serialize, Deserialize)]
struct KeyQuestion {
    by: Executor,
    name: KeyName,
    fingerprint: u64,
    what: KeyRequest,
}

impl PeerQuestion for KeyQuestion {
    const KIND: &'static str = "executions";
    type Answer = KeyState;
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum KeyRequest {
    Begin,
    Read,
    Settle(Option<Executed>),
}

/// Executions of this node, and of the keys whose home it is.
pub(crate) struct ClusterExecutions {
    membership: Arc<Membership>,
    executions: Mutex<Executions>,
}

/// The right to execute an event.
pub(crate) struct ExecutionGuard {
    executions: Arc<ClusterExecutions>,
    name: KeyName,
    fingerprint: u64,
    /// The key is freed when this is dropped.
    is_first: bool,
}

/// KeyRequest `ClusterExecutions::begin` found.
pub(crate) enum Execution {
    /// The event is executed here.
    Own(ExecutionGuard),
    /// The event was executed.
    Executed(Outcome),
    /// Another node executes it: `outcome`.
    UnderWay,
}

impl ClusterExecutions {
    /// Answers other nodes from now on.
    pub fn new(membership: Arc<Membership>, keys_max: usize) -> Arc<Self> {
        let executions = Arc::new(Self { membership, executions: Mutex::new(Executions::new(keys_max)) });
        let of = Arc::downgrade(&executions);
        executions.membership.on_question(move |question: KeyQuestion| {
            ready(of.upgrade().map(|executions| executions.answer(&question)))
        });
        executions
    }

    fn lock(&self) -> MutexGuard<'_, Executions> {
        self.executions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a question as the home of its key.
    fn answer(&self, KeyQuestion { by, name, fingerprint, what }: &KeyQuestion) -> KeyState {
        let is_living = |executor| executor == *by || self.membership.is_member(executor);
        match what {
            KeyRequest::Begin => self.lock().begin(is_living, *by, name, *fingerprint),
            KeyRequest::Read => self.lock().look(is_living, *by, name, *fingerprint),
            KeyRequest::Settle(executed) => {
                self.lock().settle(*by, name, *fingerprint, *executed);
                KeyState::Free
            }
        }
    }

    /// None: the home does not answer.
    async fn request(&self, name: &KeyName, fingerprint: u64, what: KeyRequest) -> Option<KeyState> {
        let by = self.membership.executor();
        let question = KeyQuestion { by, name: name.clone(), fingerprint, what };
        let home = self.membership.home_of(name.hash())?;
        if home == self.membership.number() {
            return Some(self.answer(&question));
        }
        self.membership.ask_within(home, &question, Duration::from_millis(HOME_MS_MAX)).await
    }

    /// Takes a key for an event.
    ///
    /// # Errors
    /// 409 if the key is used for another event; 503 while the node shuts down.
    pub async fn begin(self: &Arc<Self>, name: KeyName, fingerprint: u64) -> Result<Execution, V1Error> {
        let executions = self.clone();
        // A task of its own: a caller that disconnects drops the guard, and the request to the home completes.
        let state = tokio::spawn(async move {
            let state = executions.request(&name, fingerprint, KeyRequest::Begin).await;
            if state.is_none() {
                tracing::warn!("the home of an idempotency key does not answer: the event is published without it");
            }
            Ok(match state {
                Some(KeyState::Executed(executed)) => Execution::Executed(executed.into()),
                Some(KeyState::OtherEvent) => return Err(V1Error::other_event()),
                Some(KeyState::UnderWay) => Execution::UnderWay,
                // Without an answer the home may have granted it: it is freed in the same way.
                Some(KeyState::Granted) | None => {
                    Execution::Own(ExecutionGuard { executions, name, fingerprint, is_first: true })
                }
                Some(KeyState::Own | KeyState::Free) => {
                    Execution::Own(ExecutionGuard { executions, name, fingerprint, is_first: false })
                }
            })
        });
        state.await.unwrap_or_else(|_| Err(V1Error::unavailable()))
    }

    /// Waits for the outcome of an event that another node executes.
    ///
    /// # Errors
    /// 503 if it was refused there or its home does not answer; 409 as `begin`.
    pub async fn outcome(&self, name: &KeyName, fingerprint: u64) -> Result<Outcome, V1Error> {
        loop {
            match self.request(name, fingerprint, KeyRequest::Read).await {
                Some(KeyState::Executed(executed)) => return Ok(executed.into()),
                Some(KeyState::OtherEvent) => return Err(V1Error::other_event()),
                Some(KeyState::UnderWay) => tokio::time::sleep(AGAIN_PAUSE).await,
                Some(KeyState::Granted | KeyState::Own | KeyState::Free) | None => return Err(V1Error::unavailable()),
            }
        }
    }

    async fn settle(&self, name: &KeyName, fingerprint: u64, executed: Option<Executed>) {
        for _ in 0..SETTLE_TRIES_MAX {
            if self.request(name, fingerprint, KeyRequest::Settle(executed)).await.is_some() {
                return;
            }
            tokio::time::sleep(AGAIN_PAUSE).await;
        }
        tracing::warn!("the home of an idempotency key does not answer: other nodes do not know its outcome");
    }
}

impl ExecutionGuard {
    /// The event was published, or refused (none). Other nodes wait until the home has this outcome; the
    /// caller does not.
    pub fn settle(mut self, outcome: Option<Outcome>) {
        self.is_first = false;
        let executed = outcome.map(|Outcome { reached, complete, .. }| Executed { reached, complete });
        tokio::spawn(async move { self.executions.settle(&self.name, self.fingerprint, executed).await });
    }

    /// Another guard of this node settles the key.
    pub fn keep(mut self) {
        self.is_first = false;
    }
}

impl Drop for ExecutionGuard {
    /// The event was not handed over.
    fn drop(&mut self) {
        if self.is_first {
            let (executions, name, fingerprint) = (self.executions.clone(), self.name.clone(), self.fingerprint);
            // Without a runtime the process ends, and the home frees the key.
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(async move { executions.settle(&name, fingerprint, None).await });
            }
        }
    }
}

impl From<Executed> for Outcome {
    fn from(Executed { reached, complete }: Executed) -> Self {
        Self { reached, complete, was_published: false }
    }
}

/// Id of an event for its guild, the same on every node.
pub(crate) fn publication_id(api_key: u64, key: &str, fingerprint: u64) -> PublicationId {
    let digest = Sha256::new()
        .chain_update(api_key.to_le_bytes())
        .chain_update(fingerprint.to_le_bytes())
        .chain_update(key.as_bytes())
        .finalize();
    PublicationId([number_of(&digest[..8]), number_of(&digest[8..16])])
}

/// Big-endian, of at most eight bytes.
fn number_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Hashes alike on every node: the first eight bytes of SHA-256.
#[derive(Clone, Copy, Default)]
pub(crate) struct SameEverywhere;

/// The hasher of `SameEverywhere`.
#[derive(Default)]
pub(crate) struct SameHasher(Sha256);

impl BuildHasher for SameEverywhere {
    type Hasher = SameHasher;

    fn build_hasher(&self) -> SameHasher {
        SameHasher::default()
    }
}

impl Hasher for SameHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        number_of(&self.0.clone().finalize()[..8])
    }
}
