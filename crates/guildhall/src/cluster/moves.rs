//! Moves of sessions between nodes: a client may RESUME at any node of the cluster.
//!
//! Owns        the questions by which a node fetches a session, and the sessions that this node has released and other
//!             nodes have not read whole.
//! Invariants  G1 a session is released once, to the first node that claims it. A claim that is repeated, because its
//!             answer was lost, gets the same parts. G2 what no node has read whole after `KEPT_MS_MAX` is dropped: its
//!             client identifies again. (tests `guildhall/tests/it/session_moves.rs`)
//! Limits      `FETCH_MS_MAX` for a fetch, `FETCHES_MAX` at a time; `SESSION_BYTES_MAX` of bodies of a session;
//!             `KEPT_BYTES_MAX` of released sessions. Past them the RESUME gets op 9; past the last two the session
//!             stays where it is.
//! Not here    what moves with a session: `guildhall_partition::HandOver`.
//! Spec        docs/cluster.md, ADR 43.

use guildhall_cluster::{NodeNumber, NodeRecord, NodeState};
use guildhall_net::{HandOver, Partitions, ResumeFault, SessionClaim, SystemClock};
use guildhall_node::{Membership, PeerQuestion};
use guildhall_session::session_partition;
use guildhall_stdx::{Fault as _, Instant};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Semaphore;

/// Longest wait of a RESUME for its session.
const FETCH_MS_MAX: u64 = 2_000;
/// Longest wait for one answer: a claim is repeated while its time lasts.
const ANSWER_MS_MAX: u64 = 600;
/// Pause before a question is repeated.
const AGAIN_MS: u64 = 50;
/// Fetches of this node at a time; the others wait, within their time.
const FETCHES_MAX: usize = 256;
/// Bodies of one session: the replay buffer of a connected client that is behind may have more.
const SESSION_BYTES_MAX: usize = 8 << 20;
/// Released sessions, as text.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// A released session is kept for as long as its fetch may last, and somewhat longer.
const KEPT_MS_MAX: u64 = 2 * FETCH_MS_MAX;

#[derive(Clone, Serialize, Deserialize)]
struct FetchQuestion {
    /// Random: names this claim.
    ticket: u64,
    claim: SessionClaim,
    /// Which part of the session's text.
    part: usize,
}

impl PeerQuestion for FetchQuestion {
    const KIND: &'static str = "fetch_session";
    type Answer = FetchAnswer;
}

#[derive(Serialize, Deserialize)]
enum FetchAnswer {
    /// The node does not have the session.
    Unknown,
    /// The session stays where it is: name of a `ResumeFault`.
    Refused(String),
    Part {
        text: String,
        parts_count: usize,
    },
}

/// A session that another node reads.
struct Released {
    parts: Vec<String>,
    until: Instant,
}

/// Fetches sessions from other nodes, and releases sessions to them.
pub struct SessionMoves {
    membership: Arc<Membership>,
    partitions: Partitions,
    clock: SystemClock,
    released: Mutex<BTreeMap<u64, Released>>,
    /// Serialises the answers to one claim: a repetition waits for the first.
    releasing: tokio::sync::Mutex<()>,
    fetches: Semaphore,
}

impl SessionMoves {
    /// Answers other nodes from now on.
    #[must_use]
    pub fn start(membership: Arc<Membership>, partitions: Partitions, clock: SystemClock) -> Arc<Self> {
        let moves = Arc::new(Self {
            membership,
            partitions,
            clock,
            released: Mutex::default(),
            releasing: tokio::sync::Mutex::default(),
            fetches: Semaphore::new(FETCHES_MAX),
        });
        let of = Arc::downgrade(&moves);
        moves.membership.on_question(move |question: FetchQuestion| {
            let moves = of.upgrade();
            async move { Some(moves?.answer(question).await) }
        });
        moves
    }

    fn now(&self) -> Instant {
        self.clock.now().instant
    }

    fn released(&self) -> MutexGuard<'_, BTreeMap<u64, Released>> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ── the node that has the session ────────────────────────────────────────────────────────────

    async fn answer(&self, question: FetchQuestion) -> FetchAnswer {
        let FetchQuestion { ticket, claim, part } = question;
        if part > 0 {
            return self.part(ticket, part).unwrap_or(FetchAnswer::Unknown);
        }
        let _one_at_a_time = self.releasing.lock().await;
        if let Some(answer) = self.part(ticket, 0) {
            return answer;
        }
        let kept_bytes: usize = self.released().values().flat_map(|kept| &kept.parts).map(String::len).sum();
        if kept_bytes > KEPT_BYTES_MAX {
            return FetchAnswer::Refused(ResumeFault::Move.name().to_owned());
        }
        let result = self.partitions.release_session(claim, SESSION_BYTES_MAX).await;
        let over = match result.unwrap_or(Err(ResumeFault::Unknown)) {
            Ok(over) => over,
            Err(ResumeFault::Unknown) => return FetchAnswer::Unknown,
            Err(fault) => return FetchAnswer::Refused(fault.name().to_owned()),
        };
        self.membership.count_moved_sessions(|moved| moved.away += 1);
        let text = match serde_json::to_string(&over) {
            Ok(text) => text,
            Err(error) => {
                tracing::error!(%error, "a session cannot be written: its client identifies again");
                return FetchAnswer::Refused(ResumeFault::Move.name().to_owned());
            }
        };
        let parts = parts_of(text, &self.membership);
        self.released().insert(ticket, Released { parts, until: self.now().after_ms(KEPT_MS_MAX) });
        self.part(ticket, 0).unwrap_or(FetchAnswer::Unknown)
    }

    /// A part of a session that was released for this claim. None: there is none any more.
    fn part(&self, ticket: u64, part: usize) -> Option<FetchAnswer> {
        let now = self.now();
        let mut released = self.released();
        released.retain(|_, kept| now < kept.until);
        let parts = &released.get(&ticket)?.parts;
        Some(FetchAnswer::Part { text: parts.get(part)?.clone(), parts_count: parts.len() })
    }

    // ── the node where its client resumes ────────────────────────────────────────────────────────

    /// Fetches a session from the node that has it.
    ///
    /// # Errors
    /// Why it did not come.
    pub async fn fetch(self: &Arc<Self>, claim: SessionClaim) -> Result<HandOver, ResumeFault> {
        let limit = Duration::from_millis(FETCH_MS_MAX);
        let fetched = tokio::time::timeout(limit, self.fetch_untimed(claim)).await.unwrap_or(Err(ResumeFault::Move));
        match &fetched {
            Ok(_) => self.membership.count_moved_sessions(|moved| moved.here += 1),
            Err(ResumeFault::Unknown) => {}
            Err(_) => self.membership.count_moved_sessions(|moved| moved.failed += 1),
        }
        fetched
    }

    async fn fetch_untimed(self: &Arc<Self>, claim: SessionClaim) -> Result<HandOver, ResumeFault> {
        let _permit = self.fetches.acquire().await.map_err(|_| ResumeFault::Move)?;
        let ticket = self.membership.random_number();
        let question = FetchQuestion { ticket, claim, part: 0 };
        let (node, first, parts_count) = self.find_in_transit(&question).await?;
        let mut text = first;
        for part in 1..parts_count {
            match self.ask(node, &FetchQuestion { part, ..question.clone() }).await? {
                FetchAnswer::Part { text: next, .. } => text.push_str(&next),
                FetchAnswer::Unknown | FetchAnswer::Refused(_) => return Err(ResumeFault::Move),
            }
        }
        serde_json::from_str(&text).map_err(|error| {
            tracing::error!(%error, node = node.0, "a session of another node cannot be read");
            ResumeFault::Move
        })
    }

    /// As `find`; while a node leaves, a session may be on its way, and be found at no node.
    async fn find_in_transit(
        self: &Arc<Self>,
        question: &FetchQuestion,
    ) -> Result<(NodeNumber, String, usize), ResumeFault> {
        loop {
            let is_leaving = |(_, record): &(NodeNumber, NodeRecord)| record.state == NodeState::Draining;
            let may_be_under_way = self.membership.members().iter().any(is_leaving);
            match self.find(question).await {
                Err(ResumeFault::Unknown) if may_be_under_way && !self.is_here(&question.claim).await => {}
                found => return found,
            }
            tokio::time::sleep(Duration::from_millis(AGAIN_MS)).await;
        }
    }

    /// Whether the session has arrived at this node in the meantime.
    async fn is_here(&self, claim: &SessionClaim) -> bool {
        let Some(home) = self.partitions.home_of(&claim.session_id) else { return false };
        let session_id = claim.session_id.clone();
        let look = self.partitions.look(home, move |now, partition| partition.session_view(now, &session_id).is_some());
        look.await.unwrap_or(false)
    }

    /// Has the node with the session release it. Returns the node, the first part and the number of parts.
    async fn find(self: &Arc<Self>, question: &FetchQuestion) -> Result<(NodeNumber, String, usize), ResumeFault> {
        let named = session_partition(&question.claim.session_id).map(|partition| NodeNumber(partition.node()));
        let mut others = self.membership.numbers();
        if let Some(named) = named.filter(|named| others.contains(named)) {
            if let Some(found) = self.claim_from(named, question).await? {
                return Ok(found);
            }
            others.retain(|number| *number != named);
        }
        // It moved before: any node may have it, and one at most.
        let mut asked = tokio::task::JoinSet::new();
        for number in others {
            let (moves, question) = (self.clone(), question.clone());
            asked.spawn(async move { moves.claim_from(number, &question).await });
        }
        let mut fault = ResumeFault::Unknown;
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(Some(found))) => return Ok(found),
                Ok(Ok(None)) => {}
                Ok(Err(refused)) => fault = refused,
                Err(_) => fault = ResumeFault::Move,
            }
        }
        Err(fault)
    }

    /// None: that node does not have the session.
    async fn claim_from(
        &self,
        number: NodeNumber,
        question: &FetchQuestion,
    ) -> Result<Option<(NodeNumber, String, usize)>, ResumeFault> {
        match self.ask(number, question).await? {
            FetchAnswer::Unknown => Ok(None),
            FetchAnswer::Refused(name) => {
                let fault = ResumeFault::ALL.iter().copied().find(|fault| fault.name() == name);
                Err(fault.unwrap_or(ResumeFault::Move))
            }
            FetchAnswer::Part { text, parts_count } => Ok(Some((number, text, parts_count))),
        }
    }

    /// Repeats a question until it is answered (G1). The caller bounds the time.
    async fn ask(&self, number: NodeNumber, question: &FetchQuestion) -> Result<FetchAnswer, ResumeFault> {
        let deadline = std::time::Instant::now() + Duration::from_millis(FETCH_MS_MAX);
        let patience = Duration::from_millis(ANSWER_MS_MAX);
        ask_until(&self.membership, (number, question), patience, deadline).await.ok_or(ResumeFault::Move)
    }
}

/// Cuts a text into parts that a question or an answer on the bus has room for, with some bytes around each.
pub(super) fn parts_of(text: String, membership: &Membership) -> Vec<String> {
    split(text, membership.answer_bytes_max() / 2)
}

/// Repeats a question until it is answered. None: the node has left, or the deadline has passed.
pub(super) async fn ask_until<Q: PeerQuestion>(
    membership: &Membership,
    (to, question): (NodeNumber, &Q),
    patience: Duration,
    deadline: std::time::Instant,
) -> Option<Q::Answer> {
    loop {
        let asked = std::time::Instant::now();
        let left = deadline.saturating_duration_since(asked).min(patience);
        if left.is_zero() || !membership.numbers().contains(&to) {
            return None;
        }
        if let Some(answer) = membership.ask_within(to, question, left).await {
            return Some(answer);
        }
        // A node that does not answer and a bus that is away fail at once.
        tokio::time::sleep(Duration::from_millis(AGAIN_MS).min(left)).await;
    }
}

/// Cuts a text into parts of at most `bytes_max` bytes each, at least one.
fn split(text: String, bytes_max: usize) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = &text[..];
    while rest.len() > bytes_max {
        let (part, after) = rest.split_at(rest.floor_char_boundary(bytes_max).max(1));
        parts.push(part.to_owned());
        rest = after;
    }
    if parts.is_empty() {
        return vec![text];
    }
    parts.push(rest.to_owned());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_text() {
        for text in ["", "a", "abcdefgh", "äöüßäöüß", "a😀b😀c"] {
            for bytes_max in [4, 5, 7, 100] {
                let parts = split(text.to_owned(), bytes_max);
                assert!(parts.iter().all(|part| part.len() <= bytes_max), "{parts:?}");
                assert_eq!(parts.concat(), text);
            }
        }
    }
}
