//! Session sources: the ring of this node's session events, and the rings of the others.
//!
//! Owns        a task per node and reader, which requests the node's events after a position; the answers to such
//!             requests.
//! Invariants  S1 a reader gets each event of a node that is in the node's ring at the time of a question, once and in
//!             order: the position moves only with an answer, and the task repeats a question that has none. S2 the
//!             reader is notified of a node that does not answer for `SILENT_AFTER`, and of one that has left. S3 the
//!             events of a node's next process begin again, and the reader is notified.
//! Limits      a question waits `WAIT` for news, and `PAUSE` passes before the next: a reader costs a question per node
//!             and second when nothing happens, and at most `1 / PAUSE` of them otherwise. An answer has at most
//!             `EVENTS_AT_ONCE` events, some 30 KB.
//!
//! Nodes answer questions, and publish nothing by themselves. A subject on which each node publishes its events while
//! a reader follows would need a list of followers at every node, would lose messages with the bus, and would have no
//! events for a follower that comes back after a pause. Here the ring of each node is the only queue, and without a
//! follower there is no traffic.

use super::{
    V1,
    session_events::{Happened, SessionEvents},
};
use guildhall_cluster::NodeNumber;
use guildhall_node::{Membership, PeerQuestion};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};

/// How long a node waits for news before it answers that there are none. Shorter than a question's time-out.
const WAIT: Duration = Duration::from_secs(1);
/// Pause between two questions to one node: all events of this time come with one answer.
const PAUSE: Duration = Duration::from_millis(50);
/// A node that does not answer for this long is called silent. A node that starts takes some of it.
const SILENT_AFTER: Duration = Duration::from_secs(2);

/// Events after a position in a node's ring.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Batch {
    /// The position: that of the question, or the last event for a reader of new ones. 0 after a restart.
    pub after: u64,
    /// The position was from an earlier process.
    pub restarted: bool,
    /// Events between the position and the first of `events`: the ring does not have them any more.
    pub lost: u64,
    /// Their numbers are contiguous.
    pub events: Vec<Happened>,
}

impl Batch {
    /// Number of the last event that a reader of this has, or has lost.
    fn last(&self) -> u64 {
        self.after + self.lost + self.events.len() as u64
    }

    /// Whether it has a message for the reader.
    fn is_news(&self) -> bool {
        self.restarted || self.lost > 0 || !self.events.is_empty()
    }
}

/// The last event of a node that a reader has.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Position {
    /// Number of the last event. None: it wants new ones alone.
    pub after: Option<u64>,
    /// The node's process that numbered it; none if the reader did not name one.
    pub process: Option<u64>,
}

/// The events after it.
impl PeerQuestion for Position {
    const KIND: &'static str = "session_events";
    type Answer = EventBatch;
}

#[derive(Serialize, Deserialize)]
pub(super) struct EventBatch {
    process: u64,
    batch: Batch,
}

/// A message of a source to its reader.
pub(super) enum Part {
    /// Events, or the answer that begins to follow a node (`is_first`).
    Batch { node: NodeNumber, process: Option<u64>, is_first: bool, batch: Batch },
    /// The node does not answer (S2).
    Silent(NodeNumber),
    /// The node is no member any more. Its source has ended.
    Left(NodeNumber),
}

impl Part {
    /// The node that has left.
    pub fn left(&self) -> Option<NodeNumber> {
        match self {
            Self::Left(node) => Some(*node),
            Self::Batch { .. } | Self::Silent(_) => None,
        }
    }
}

/// Answers other nodes from now on.
pub(super) fn answer_others(membership: &Membership, events: &Arc<SessionEvents>) {
    let (events, process) = (events.clone(), membership.reporter().process);
    membership.on_question(move |position: Position| {
        let events = events.clone();
        async move { Some(EventBatch { process, batch: batch_of(&events, position, process).await }) }
    });
}

async fn batch_of(events: &SessionEvents, position: Position, process: u64) -> Batch {
    match position.process {
        // S3.
        Some(earlier) if earlier != process => {
            let batch = events.batch(Some(0), Duration::ZERO).await;
            Batch { restarted: true, ..batch }
        }
        _ => events.batch(position.after, WAIT).await,
    }
}

/// The sources of one reader. They end with it.
pub(super) struct Sources {
    own: Arc<SessionEvents>,
    /// None: the node is alone.
    membership: Option<Arc<Membership>>,
    tasks: JoinSet<()>,
    followed: BTreeSet<NodeNumber>,
}

impl Sources {
    pub fn new(v1: &V1) -> Self {
        let (own, membership) = (v1.session_events.clone(), v1.node.membership().cloned());
        Self { own, membership, tasks: JoinSet::new(), followed: BTreeSet::new() }
    }

    pub fn is_clustered(&self) -> bool {
        self.membership.is_some()
    }

    /// Whether `begin_new` may find another source.
    pub fn may_grow(&self) -> bool {
        self.is_clustered() || self.followed.is_empty()
    }

    /// Begins with nodes that are not followed, at the positions of `from`.
    pub fn begin_new(&mut self, parts: &mpsc::Sender<Part>, from: impl Fn(NodeNumber) -> Position) {
        // Sources that have ended.
        while self.tasks.try_join_next().is_some() {}
        let own = self.membership.as_ref().map_or(NodeNumber(0), |membership| membership.number());
        if self.followed.insert(own) {
            self.tasks.spawn(follow_own(self.own.clone(), own, from(own), parts.clone()));
        }
        let Some(membership) = &self.membership else { return };
        for node in membership.numbers() {
            if self.followed.insert(node) {
                self.tasks.spawn(follow(membership.clone(), node, from(node), parts.clone()));
            }
        }
    }

    /// The source of this node has ended.
    pub fn ended(&mut self, node: NodeNumber) {
        self.followed.remove(&node);
    }
}

/// Ends with the reader.
async fn follow_own(events: Arc<SessionEvents>, node: NodeNumber, from: Position, parts: mpsc::Sender<Part>) {
    let (mut after, mut is_first) = (from.after, true);
    loop {
        let batch = events.batch(after, if is_first { Duration::ZERO } else { WAIT }).await;
        after = Some(batch.last());
        if is_first || batch.is_news() {
            let part = Part::Batch { node, process: None, is_first, batch };
            if parts.send(part).await.is_err() {
                return;
            }
        }
        is_first = false;
    }
}

/// Ends with the reader, or when the node has left.
async fn follow(membership: Arc<Membership>, node: NodeNumber, mut from: Position, parts: mpsc::Sender<Part>) {
    let mut is_first = true;
    // Since when the node does not answer, and whether the reader was notified.
    let mut silent: Option<(Instant, bool)> = None;
    loop {
        let part = match membership.ask(node, &from).await {
            Some(EventBatch { process, batch }) => {
                let was_silent = silent.take().is_some_and(|(_, is_reported)| is_reported);
                let begins = is_first || was_silent || batch.restarted;
                from.after = Some(batch.last());
                from.process = Some(process);
                is_first = false;
                let is_due = begins || batch.is_news();
                is_due.then_some(Part::Batch { node, process: Some(process), is_first: begins, batch })
            }
            None if !membership.numbers().contains(&node) => {
                // The reader may have ended.
                let _ = parts.send(Part::Left(node)).await;
                return;
            }
            None => {
                let (since, is_reported) = silent.get_or_insert_with(|| (Instant::now(), false));
                let is_due = !*is_reported && since.elapsed() >= SILENT_AFTER;
                *is_reported |= is_due;
                is_due.then_some(Part::Silent(node))
            }
        };
        if let Some(part) = part
            && parts.send(part).await.is_err()
        {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
