//! Ask: requests to other nodes with an answer, outside of the streams between nodes.
//!
//! Invariants  A1 `tell_all` returns once every node that lives has done it. A node whose lease ends meanwhile has not;
//!             when it joins again it forgets what it knew of tokens and keys.
//! Limits      `ANSWER_MAX` for each question to one node; `tell_all` asks a node that does not answer until
//!             its lease ends.

use super::Membership;
use guildhall_bus::Subject;
use guildhall_cluster::{NodeNumber, wire};
use guildhall_model::UserId;
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

/// Longest wait for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Back-off before a request is repeated.
const AGAIN_PAUSE: Duration = Duration::from_millis(100);

/// Upper bound for the bytes around an answer on the bus.
const ENVELOPE_BYTES: usize = 256;

/// Credentials that no node may accept any more.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Revocation {
    /// The token with this hash.
    Token([u8; 32]),
    /// All tokens of an account that were issued until then.
    TokensOf(UserId, Timestamp),
    /// A key of the backend API.
    Key(u64),
}

#[derive(Debug, Serialize, Deserialize)]
struct Question {
    kind: String,
    body: Vec<u8>,
}

/// Future of a handler's answer.
pub type Answering = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;
type Handler = Arc<dyn Fn(Vec<u8>) -> Answering + Send + Sync>;

/// Answers other nodes' questions, by kind.
#[derive(Default)]
pub(super) struct Handlers(RwLock<BTreeMap<&'static str, Handler>>);

impl Handlers {
    fn of(&self, kind: &str) -> Option<Handler> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(kind).cloned()
    }
}

/// Subject of questions to a node.
fn subject_of(number: NodeNumber) -> Option<Subject> {
    Subject::new(&format!("ask.{number}"))
}

impl Membership {
    /// Registers the handler of a kind of question. It has to answer within `ANSWER_MAX`, the caller's time-out.
    pub fn on_question(&self, kind: &'static str, handler: impl Fn(Vec<u8>) -> Answering + Send + Sync + 'static) {
        self.handlers.0.write().unwrap_or_else(PoisonError::into_inner).insert(kind, Arc::new(handler));
    }

    /// Most bytes of an answer, as the bus counts them.
    #[must_use]
    pub fn answer_bytes_max(&self) -> usize {
        self.bus.payload_bytes_max().saturating_sub(ENVELOPE_BYTES)
    }

    /// Asks one node. None: it has left, does not answer in time, or does not know such questions.
    pub async fn ask(&self, number: NodeNumber, kind: &str, body: Vec<u8>) -> Option<Vec<u8>> {
        self.ask_within(number, kind, body, ANSWER_MAX).await
    }

    /// `ask` with another time-out.
    pub async fn ask_within(
        &self,
        number: NodeNumber,
        kind: &str,
        body: Vec<u8>,
        patience: Duration,
    ) -> Option<Vec<u8>> {
        let subject = subject_of(number)?;
        let question = wire::encode(&Question { kind: kind.to_owned(), body });
        let answer = self.bus.request(&subject, question.into(), patience).await.ok()?;
        wire::decode::<Option<Vec<u8>>>(wire::VERSION, &answer).ok()?
    }

    /// Asks all other nodes at once. The result lacks those that do not answer.
    pub async fn ask_all(self: &Arc<Self>, kind: &'static str, body: &[u8]) -> Vec<(NodeNumber, Vec<u8>)> {
        let asked: Vec<_> = self
            .numbers()
            .into_iter()
            .map(|number| {
                let (membership, body) = (self.clone(), body.to_owned());
                (number, tokio::spawn(async move { membership.ask(number, kind, body).await }))
            })
            .collect();
        let mut answers = Vec::new();
        for (number, answer) in asked {
            answers.extend(answer.await.ok().flatten().map(|answer| (number, answer)));
        }
        answers
    }

    /// Has every other node do something, and waits until all that live have (A1). Returns their answers.
    pub async fn tell_all(self: &Arc<Self>, kind: &'static str, body: &[u8]) -> Vec<(NodeNumber, Vec<u8>)> {
        let told = self.numbers().into_iter().map(|number| {
            let (membership, body) = (self.clone(), body.to_owned());
            tokio::spawn(async move {
                loop {
                    if let Some(answer) = membership.ask(number, kind, body.clone()).await {
                        return Some((number, answer));
                    }
                    if !membership.numbers().contains(&number) {
                        return None;
                    }
                    tokio::time::sleep(AGAIN_PAUSE).await;
                }
            })
        });
        let mut answers = Vec::new();
        for told in told.collect::<Vec<_>>() {
            answers.extend(told.await.ok().flatten());
        }
        answers
    }

    /// Numbers of the other nodes.
    #[must_use]
    pub fn numbers(&self) -> Vec<NodeNumber> {
        self.lock().peers().map(|(number, _)| number).collect()
    }
}

/// Answers questions until the node leaves.
pub(super) async fn run(membership: Arc<Membership>) {
    let Some(subject) = subject_of(membership.number) else { return };
    while !membership.lease.has_left() {
        let Ok(mut subscription) = membership.bus.subscribe(&subject).await else {
            tokio::time::sleep(AGAIN_PAUSE).await;
            continue;
        };
        while let Ok(delivery) = subscription.next().await {
            if let Some(reply_to) = delivery.reply_to {
                tokio::spawn(answer(membership.clone(), delivery.payload, reply_to));
            }
        }
        tokio::time::sleep(AGAIN_PAUSE).await;
    }
}

async fn answer(membership: Arc<Membership>, question: bytes::Bytes, reply_to: Subject) {
    let question = match wire::decode::<Question>(wire::VERSION, &question) {
        Ok(question) => question,
        Err(error) => return tracing::error!(%error, "a question of another node cannot be read"),
    };
    let answer = match membership.handlers.of(&question.kind) {
        Some(handler) => Some(handler(question.body).await),
        None => None,
    };
    if let Err(error) = membership.bus.publish(&reply_to, wire::encode(&answer).into()).await {
        tracing::warn!(%error, "an answer to another node was lost; it asks again or goes without");
    }
}
