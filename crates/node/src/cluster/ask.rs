//! Ask: questions to other nodes with an answer, outside of the streams between nodes.
//!
//! Invariants  A1 `tell_all` returns once every live node has handled the question. A node whose lease ends meanwhile
//!             has not; when it joins again it reads what was revoked (`crate::revocations`). A2 a question is carried
//!             out once, if its sender is a current member, and only by the membership that it was sent to; its answer
//!             is accepted for no other question. (tests `a2_*`)
//! Limits      `ANSWER_MAX` for each question to one node; `tell_all` repeats it to a node that does not answer until
//!             its lease ends. `NUMBERS_MAX` numbers of questions are kept per member: an older one is refused.

use super::{
    Membership,
    seal::{TAG_BYTES, Tag},
};
use guildhall_bus::Subject;
use guildhall_cluster::{Incarnation, NodeNumber, wire};
use guildhall_model::UserId;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::Ordering},
    time::Duration,
};

/// Longest wait for one answer.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Back-off before a request is repeated.
const AGAIN_PAUSE: Duration = Duration::from_millis(100);

/// Upper bound for the bytes around an answer on the bus.
const ENVELOPE_BYTES: usize = 256 + TAG_BYTES;
/// Questions of a member that may overtake each other.
const NUMBERS_MAX: usize = 4_096;

/// Credentials that no node may accept any more.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Revocation {
    /// The token with this hash, of this account.
    Token([u8; 32], UserId),
    /// All tokens of an account.
    TokensOf(UserId),
    /// A key of the backend API.
    Key(u64),
}

/// A question to another node.
pub trait PeerQuestion: Serialize + DeserializeOwned + Send + 'static {
    /// Identifies the type of the question on the bus.
    const KIND: &'static str;
    /// Type of the other node's answer.
    type Answer: Serialize + DeserializeOwned + Send;
}

/// A question on its way.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Envelope {
    /// Membership of the sender.
    from: Incarnation,
    /// Membership of the receiver.
    to: Incarnation,
    /// Number of the question among those of its node.
    number: u64,
    kind: String,
    body: Vec<u8>,
}

/// Numbers of questions that were taken, by member (A2).
#[derive(Default)]
pub(super) struct SeenQuestions(Mutex<BTreeMap<Incarnation, Numbers>>);

#[derive(Default)]
struct Numbers {
    /// Numbers up to this one are refused.
    floor: Option<u64>,
    recent: BTreeSet<u64>,
}

impl SeenQuestions {
    /// False: the question was taken before, or is too old.
    fn take(&self, from: Incarnation, number: u64) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Numbers { floor, recent } = all.entry(from).or_default();
        if floor.is_some_and(|floor| number <= floor) || !recent.insert(number) {
            return false;
        }
        if recent.len() > NUMBERS_MAX {
            *floor = recent.pop_first();
        }
        true
    }

    /// Forgets members that are gone.
    pub(super) fn retain(&self, is_member: impl Fn(Incarnation) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|from, _| is_member(*from));
    }
}

/// An encoded question without its envelope.
#[derive(Clone)]
struct EncodedQuestion {
    kind: &'static str,
    body: Vec<u8>,
}

impl EncodedQuestion {
    fn of<Q: PeerQuestion>(question: &Q) -> Self {
        Self { kind: Q::KIND, body: wire::encode(question) }
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

    /// Sends a question to one node. `None`: it has left, does not answer in time, or cannot answer.
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
        answer_of::<Q>(self.send(number, EncodedQuestion::of(question), patience).await?)
    }

    /// Sends a question to all other nodes at once. The result lacks nodes that do not answer.
    pub async fn ask_all<Q: PeerQuestion>(self: &Arc<Self>, question: &Q) -> Vec<(NodeNumber, Q::Answer)> {
        let encoded = EncodedQuestion::of(question);
        let sent: Vec<_> = self
            .numbers()
            .into_iter()
            .map(|number| {
                let (membership, encoded) = (self.clone(), encoded.clone());
                (number, tokio::spawn(async move { membership.send(number, encoded, ANSWER_MAX).await }))
            })
            .collect();
        let mut answers = Vec::new();
        for (number, answer) in sent {
            let answer = answer.await.ok().flatten().and_then(answer_of::<Q>);
            answers.extend(answer.map(|answer| (number, answer)));
        }
        answers
    }

    /// Sends a question to every other node until all live ones have answered (A1). A node that has just started waits
    /// until it knows the others. Returns their answers.
    pub async fn tell_all<Q: PeerQuestion>(self: &Arc<Self>, question: &Q) -> Vec<(NodeNumber, Q::Answer)> {
        // The sender lives as long as the membership.
        let _ = self.knows_nodes.subscribe().wait_for(|knows_nodes| *knows_nodes).await;
        let encoded = EncodedQuestion::of(question);
        let sent = self.numbers().into_iter().map(|number| {
            let (membership, encoded) = (self.clone(), encoded.clone());
            tokio::spawn(async move {
                loop {
                    if let Some(answer) = membership.send(number, encoded.clone(), ANSWER_MAX).await {
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
        for answer in sent.collect::<Vec<_>>() {
            let answer = answer.await.ok().flatten();
            answers.extend(answer.and_then(|(number, answer)| Some((number, answer_of::<Q>(answer)?))));
        }
        answers
    }

    /// Sends a question; returns the encoded answer.
    async fn send(&self, number: NodeNumber, encoded: EncodedQuestion, patience: Duration) -> Option<Vec<u8>> {
        let (from, to) = {
            let machine = self.lock();
            let to = machine.peers().find(|(peer, _)| *peer == number)?.1.incarnation;
            (machine.record().incarnation, to)
        };
        let EncodedQuestion { kind, body } = encoded;
        let question = self.questions_count.fetch_add(1, Ordering::Relaxed);
        let envelope = Envelope { from, to, number: question, kind: kind.to_owned(), body };
        let subject = subject_of(number)?;
        let (sealed, tag) = self.seal.seal(subject.as_str().as_bytes(), &wire::encode(&envelope));
        let answer = self.bus.request(&subject, sealed, patience).await.ok()?;
        let Some((answer, _)) = self.seal.open(&tag, &answer) else {
            self.note_stranger();
            return None;
        };
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
            let Some((question, tag)) = membership.seal.open(subject.as_str().as_bytes(), &delivery.payload) else {
                membership.note_stranger();
                continue;
            };
            if let Some(reply_to) = delivery.reply_to {
                tokio::spawn(answer(membership.clone(), question, (reply_to, tag)));
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

async fn answer(membership: Arc<Membership>, question: bytes::Bytes, (reply_to, tag): (Subject, Tag)) {
    let Envelope { from, to, number, kind, body } = match wire::decode(wire::VERSION, &question) {
        Ok(envelope) => envelope,
        Err(error) => return tracing::error!(%error, "a question of another node cannot be read"),
    };
    // A2. A node that has just joined again gets no answer either, and repeats the question.
    let is_current = {
        let machine = membership.lock();
        machine.record().incarnation == to && machine.peer_of(from).is_some()
    };
    let handler = membership.handlers.of(&kind).filter(|_| is_current && membership.taken.take(from, number));
    let answer = match handler {
        Some(handler) => handler(body).await,
        None => None,
    };
    let (sealed, _) = membership.seal.seal(&tag, &wire::encode(&answer));
    if let Err(error) = membership.bus.publish(&reply_to, sealed).await {
        tracing::warn!(%error, "an answer to another node was lost; that node repeats the question or continues without an answer");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a2_a_number_is_taken_once_and_an_old_one_never() {
        let (taken, one, two) = (SeenQuestions::default(), Incarnation(1), Incarnation(2));
        assert!(taken.take(one, 5) && taken.take(one, 3), "they may overtake each other");
        assert!(!taken.take(one, 5) && !taken.take(one, 3));
        assert!(taken.take(two, 5), "each member has its own");
        assert!((6..6 + NUMBERS_MAX as u64).all(|number| taken.take(one, number)));
        assert!(!taken.take(one, 4), "never seen, but below the floor");
        taken.retain(|member| member == two);
        assert!(taken.take(one, 4) && !taken.take(two, 5));
    }
}
