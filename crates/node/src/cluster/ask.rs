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
use serde::{Deserialize, Serialize, de::DeserializeOwned};
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

/// A question to another node.
pub trait PeerQuestion: Serialize + DeserializeOwned + Send + 'static {
    /// Tells it from other questions on the bus.
    const KIND: &'static str;
    /// Type of the other node's answer.
    type Answer: Serialize + DeserializeOwned + Send;
}

/// A question on its way.
#[derive(Debug, Serialize, Deserialize)]
struct Envelope {
    kind: String,
    body: Vec<u8>,
}

impl Envelope {
    fn of<Q: PeerQuestion>(question: &Q) -> bytes::Bytes {
        wire::encode(&Self { kind: Q::KIND.to_owned(), body: wire::encode(question) }).into()
    }
}

/// Future of an encoded answer. None: there is none.
type Answering = Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send>>;
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
    /// Registers the handler of a kind of question. It has to answer within `ANSWER_MAX`, the caller's time-out; none
    /// if it cannot.
    pub fn on_question<Q: PeerQuestion, F>(&self, handler: impl Fn(Q) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Option<Q::Answer>> + Send + 'static,
    {
        let handler = move |body: Vec<u8>| -> Answering {
            match wire::decode::<Q>(wire::VERSION, &body) {
                Ok(question) => {
                    let answering = handler(question);
                    Box::pin(async move { answering.await.as_ref().map(wire::encode) })
                }
                Err(error) => {
                    tracing::error!(%error, kind = Q::KIND, "a question of another node cannot be read");
                    Box::pin(std::future::ready(None))
                }
            }
        };
        self.handlers.0.write().unwrap_or_else(PoisonError::into_inner).insert(Q::KIND, Arc::new(handler));
    }

    /// Most bytes of an answer, as the bus counts them.
    #[must_use]
    pub fn answer_bytes_max(&self) -> usize {
        self.bus.payload_bytes_max().saturating_sub(ENVELOPE_BYTES)
    }

    /// Asks one node. None: it has left, does not answer in time, or cannot answer.
    pub async fn ask<Q: PeerQuestion>(&self, number: NodeNumber, question: &Q) -> Option<Q::Answer> {
        self.ask_within(number, question, ANSWER_MAX).await
    }

    /// `ask` with another time-out.
    pub async fn ask_within<Q: PeerQuestion>(
        &self,
        number: NodeNumber,
        question: &Q,
        patience: Duration,
    ) -> Option<Q::Answer> {
        answer_of::<Q>(self.send(number, Envelope::of(question), patience).await?)
    }

    /// Asks all other nodes at once. The result lacks those that do not answer.
    pub async fn ask_all<Q: PeerQuestion>(self: &Arc<Self>, question: &Q) -> Vec<(NodeNumber, Q::Answer)> {
        let envelope = Envelope::of(question);
        let asked: Vec<_> = self
            .numbers()
            .into_iter()
            .map(|number| {
                let (membership, envelope) = (self.clone(), envelope.clone());
                (number, tokio::spawn(async move { membership.send(number, envelope, ANSWER_MAX).await }))
            })
            .collect();
        let mut answers = Vec::new();
        for (number, answer) in asked {
            let answer = answer.await.ok().flatten().and_then(answer_of::<Q>);
            answers.extend(answer.map(|answer| (number, answer)));
        }
        answers
    }

    /// Has every other node do something, and waits until all that live have (A1). Returns their answers.
    pub async fn tell_all<Q: PeerQuestion>(self: &Arc<Self>, question: &Q) -> Vec<(NodeNumber, Q::Answer)> {
        let envelope = Envelope::of(question);
        let told = self.numbers().into_iter().map(|number| {
            let (membership, envelope) = (self.clone(), envelope.clone());
            tokio::spawn(async move {
                loop {
                    if let Some(answer) = membership.send(number, envelope.clone(), ANSWER_MAX).await {
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
            let told = told.await.ok().flatten();
            answers.extend(told.and_then(|(number, answer)| Some((number, answer_of::<Q>(answer)?))));
        }
        answers
    }

    /// Sends a question; returns the encoded answer.
    async fn send(&self, number: NodeNumber, envelope: bytes::Bytes, patience: Duration) -> Option<Vec<u8>> {
        let answer = self.bus.request(&subject_of(number)?, envelope, patience).await.ok()?;
        wire::decode::<Option<Vec<u8>>>(wire::VERSION, &answer).ok()?
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

/// An answer of another version may be unreadable: it counts as none.
fn answer_of<Q: PeerQuestion>(answer: Vec<u8>) -> Option<Q::Answer> {
    match wire::decode(wire::VERSION, &answer) {
        Ok(answer) => Some(answer),
        Err(error) => {
            tracing::error!(%error, kind = Q::KIND, "an answer of another node cannot be read");
            None
        }
    }
}

async fn answer(membership: Arc<Membership>, question: bytes::Bytes, reply_to: Subject) {
    let Envelope { kind, body } = match wire::decode(wire::VERSION, &question) {
        Ok(envelope) => envelope,
        Err(error) => return tracing::error!(%error, "a question of another node cannot be read"),
    };
    let answer = match membership.handlers.of(&kind) {
        Some(handler) => handler(body).await,
        None => None,
    };
    if let Err(error) = membership.bus.publish(&reply_to, wire::encode(&answer).into()).await {
        tracing::warn!(%error, "an answer to another node was lost; it asks again or goes without");
    }
}
