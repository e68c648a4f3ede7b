//! Session events: a stream of connects, resumes, disconnects and ends.
//!
//! Owns        `SessionEvents`, a ring of this node's newest with their numbers; the stream to one reader.
//! Doors       `push` from the partitions; `GET /v1/sessions/events` reads.
//! Invariants  L1 numbers of a node are contiguous and start at 1 with the process. L2 a gap is reported to the reader,
//!             and so is a node that does not answer or has left. (tests `l*_*`, and `nodes` of `guildhall`)
//! Limits      `events_max` in the ring; a reader that is further behind gets the number of lost events and continues
//!             with the oldest event. `PARTS_MAX` answers of nodes wait for the reader; then nothing is read ahead.
//! Not here    how the events of other nodes are read: `session_sources`.     Spec  docs/backend-api.md "Sessions".

use super::{
    V1,
    caller::{Caller, Sessions},
    error::V1Error,
    extract::{Check, FieldErrors, Query},
    ndjson::{Answer, Gone},
    session_sources::{Batch, Part, Position, Sources},
    types::{Snowflake, Time},
};
use axum::{extract::State, response::Response};
use guildhall_cluster::NodeNumber;
use guildhall_guild_protocol::{SessionChange, SessionNews};
use guildhall_model::UserId;
use guildhall_node::KeyLife;
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::watch, time::Instant};
use utoipa::{IntoParams, ToSchema};

/// Events handed to a reader at once.
pub(super) const EVENTS_AT_ONCE: usize = 256;
/// Answers of nodes that wait for a reader, each with at most `EVENTS_AT_ONCE` events.
const PARTS_MAX: usize = 4;
/// A reader that gets no event for this long gets an empty line, so that proxies keep the stream open and a dead
/// reader is noticed.
const QUIET: Duration = Duration::from_secs(15);
/// Interval at which a stream checks for new nodes.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// An event of a session, without its number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Happened {
    at: Timestamp,
    /// As `name` has it. A later version may know others.
    event: Cow<'static, str>,
    session_id: Arc<str>,
    user_id: UserId,
}

struct Ring {
    events: VecDeque<Happened>,
    last: u64,
}

/// Recent events of the sessions of this node.
pub struct SessionEvents {
    ring: Mutex<Ring>,
    events_max: usize,
    last: watch::Sender<u64>,
}

impl SessionEvents {
    /// A ring of at most `events_max` events, about 100 bytes each.
    #[must_use]
    pub fn new(events_max: usize) -> Self {
        let ring = Ring { events: VecDeque::new(), last: 0 };
        Self { ring: Mutex::new(ring), events_max: events_max.max(1), last: watch::Sender::new(0) }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub fn push(&self, at: Timestamp, news: SessionNews) {
        let SessionNews { change, session_id, user_id } = news;
        let mut ring = self.ring();
        ring.last += 1;
        let n = ring.last;
        if ring.events.len() >= self.events_max {
            ring.events.pop_front();
        }
        ring.events.push_back(Happened { at, event: name(change).into(), session_id, user_id });
        drop(ring);
        self.last.send_replace(n);
    }

    /// At most `limit` events after a number, and the number of lost events before them.
    fn after(&self, after: u64, limit: usize) -> (u64, Vec<Happened>) {
        let ring = self.ring();
        let oldest = ring.last + 1 - ring.events.len() as u64;
        let lost = oldest.saturating_sub(after + 1);
        let skip = (after + 1).saturating_sub(oldest) as usize;
        (lost, ring.events.iter().skip(skip).take(limit).cloned().collect())
    }

    fn last(&self) -> u64 {
        self.ring().last
    }

    /// Events after a number: at once if there are any, else as soon as there are; an empty batch after `wait`.
    /// None: an answer at once, with the number after which new events follow.
    pub(super) async fn batch(&self, after: Option<u64>, wait: Duration) -> Batch {
        let mut news = self.last.subscribe();
        let last = self.last();
        let (mut after, mut restarted, mut is_first) = (after.unwrap_or(last), false, after.is_none());
        if after > last {
            (after, restarted, is_first) = (0, true, true);
        }
        loop {
            let (lost, events) = self.after(after, EVENTS_AT_ONCE);
            let is_something = is_first || lost > 0 || !events.is_empty();
            let changed =
                async { tokio::time::timeout(wait, news.changed()).await.is_ok_and(|changed| changed.is_ok()) };
            if is_something || !changed.await {
                return Batch { after, restarted, lost, events };
            }
        }
    }
}

/// Parameters of the stream.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Begin {
    /// The `n` of the last event that the client has; later ones are sent first. In a cluster a list, `NODE:N,NODE:N`,
    /// with the last event of each node; other nodes are read from their oldest event. A number alone is a position at
    /// every node. Omitted: only new events.
    #[param(pattern = r"^(\d+|\d+:\d+(,\d+:\d+)*)$", max_length = 4096)]
    after: Option<String>,
}

/// Where a reader begins.
#[derive(Clone, Debug, PartialEq, Eq)]
enum After {
    New,
    Everywhere(u64),
    Nodes(BTreeMap<NodeNumber, u64>),
}

impl After {
    fn parse(text: &str) -> Option<Self> {
        if let Ok(n) = text.parse() {
            return Some(Self::Everywhere(n));
        }
        let position = |item: &str| {
            let (node, n) = item.split_once(':')?;
            Some((NodeNumber(node.parse().ok()?), n.parse().ok()?))
        };
        text.split(',').map(position).collect::<Option<_>>().map(Self::Nodes)
    }

    /// The position at a node. None: only new events.
    fn at(&self, node: NodeNumber) -> Option<u64> {
        match self {
            Self::New => None,
            Self::Everywhere(n) => Some(*n),
            Self::Nodes(nodes) => Some(nodes.get(&node).copied().unwrap_or(0)),
        }
    }
}

impl Check for Begin {
    fn check(&self, faults: &mut FieldErrors) {
        faults.optional_text("after", self.after.as_deref(), 4_096);
        if self.after.as_deref().is_some_and(|after| After::parse(after).is_none()) {
            faults.add("after", "Must be a number, or a list like `3:17,5:200`: the last event of each node.");
        }
    }
}

/// An event of a session.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SessionEvent)]
pub(super) struct SessionEventBody {
    /// Number of the event: contiguous from 1 at its node, restarting with the node.
    n: u64,
    /// The node of the session, in a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<u8>,
    /// Time of the event.
    at: Time,
    /// `connected` (by IDENTIFY), `resumed`, `disconnected` (it can be resumed), `gone`.
    event: String,
    /// Id of the session.
    session_id: String,
    /// Account of the session.
    user_id: Snowflake,
}

/// Events are missing: they were evicted, or the node restarted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SessionEventsLost)]
pub(super) struct Lost {
    /// Lower bound of their number.
    lost: u64,
    /// The position is from before a restart: numbers have started again.
    restarted: bool,
    /// The node of these events, in a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<u8>,
}

/// State of a node in a stream, in a cluster.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SessionEventsNode)]
pub(super) struct NodeLine {
    /// Number of the node.
    node: u8,
    /// `followed`: its events after `n` follow. `silent`: it does not answer; its events follow when it does again.
    /// `left`: it is no member any more, so its sessions have ended, without an event for each.
    state: &'static str,
    /// The last event of the node that was sent, or the position at which the stream begins.
    n: u64,
}

fn name(change: SessionChange) -> &'static str {
    match change {
        SessionChange::Connected => "connected",
        SessionChange::Resumed => "resumed",
        SessionChange::Disconnected => "disconnected",
        SessionChange::Gone => "gone",
    }
}

/// Streams the events of sessions
///
/// A stream without an end: a line for each event (`SessionEvent`), a `SessionEventsLost` where some are missing, and
/// an empty line every 15 seconds while nothing happens. In a cluster it has the events of all nodes, those of one node
/// in order, and a `SessionEventsNode` when a node is followed, silent or gone.
#[utoipa::path(get, path = "/v1/sessions/events", tag = "sessions", params(Begin),
    responses((status = 200, content_type = "application/x-ndjson", body = String)))]
pub(super) async fn follow(
    caller: Caller<Sessions>,
    State(v1): State<Arc<V1>>,
    Query(from): Query<Begin>,
) -> Result<Response, V1Error> {
    let (sources, life) = (Sources::new(&v1), caller.life.clone());
    let place = caller.into_stream(&v1)?;
    let after = from.after.as_deref().and_then(After::parse).unwrap_or(After::New);
    Ok(Answer::stream(&v1, move |answer| async move {
        let _place = place;
        // A caller that has disconnected needs no answer.
        let _ = Reader { answer, life, after, positions: BTreeMap::new() }.run(sources).await;
    }))
}

/// The stream to one reader.
struct Reader {
    answer: Answer,
    life: KeyLife,
    after: After,
    /// The last event of each node that the reader has.
    positions: BTreeMap<NodeNumber, Position>,
}

/// The key was revoked: the stream has its last line.
struct Over;

impl From<Gone> for Over {
    fn from(_: Gone) -> Self {
        Self
    }
}

impl Reader {
    async fn run(mut self, mut sources: Sources) -> Result<(), Gone> {
        let (sender, mut parts) = tokio::sync::mpsc::channel(PARTS_MAX);
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut wrote_at = Instant::now();
        loop {
            tokio::select! {
                // Others may join later. A node that is alone has one source.
                _ = look.tick(), if sources.may_grow() => {
                    let (after, positions) = (&self.after, &self.positions);
                    sources.begin_new(&sender, |node| {
                        let known = positions.get(&node).copied();
                        known.unwrap_or_else(|| Position { after: after.at(node), process: None })
                    });
                }
                Some(part) = parts.recv() => {
                    if let Some(node) = part.left() {
                        sources.ended(node);
                    }
                    if self.write(part, sources.is_clustered()).await.is_err() {
                        return Ok(());
                    }
                    wrote_at = Instant::now();
                }
                () = self.life.over() => return self.answer.line(&V1Error::revoked()).await,
                () = self.answer.closed() => return Err(Gone),
                () = tokio::time::sleep_until(wrote_at + QUIET) => {
                    self.answer.pulse().await?;
                    wrote_at = Instant::now();
                }
            }
        }
    }

    async fn write(&mut self, part: Part, is_clustered: bool) -> Result<(), Over> {
        let answer = &self.answer;
        match part {
            Part::Silent(node) | Part::Left(node) => {
                let n = self.positions.get(&node).and_then(|position| position.after).unwrap_or(0);
                let state = if matches!(part, Part::Left(_)) { "left" } else { "silent" };
                answer.line(&NodeLine { node: node.0, state, n }).await?;
            }
            Part::Batch { node, process, is_first, batch: Batch { after, restarted, lost, events } } => {
                let of = is_clustered.then_some(node.0);
                if restarted {
                    answer.line(&Lost { lost: 0, restarted, node: of }).await?;
                }
                if let (Some(node), true) = (of, is_first) {
                    answer.line(&NodeLine { node, state: "followed", n: after }).await?;
                }
                if lost > 0 {
                    answer.line(&Lost { lost, restarted: false, node: of }).await?;
                }
                let mut n = after + lost;
                for Happened { at, event, session_id, user_id } in events {
                    if self.life.is_over() {
                        answer.line(&V1Error::revoked()).await?;
                        return Err(Over);
                    }
                    n += 1;
                    let (at, event, session_id) = (Time(at), event.into_owned(), session_id.to_string());
                    let user_id = user_id.into();
                    answer.line(&SessionEventBody { n, node: of, at, event, session_id, user_id }).await?;
                }
                self.positions.insert(node, Position { after: Some(n), process });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(events: &SessionEvents, count: u64) {
        for _ in 0..count {
            let session_id = "s".into();
            let news = SessionNews { change: SessionChange::Connected, session_id, user_id: UserId::new(1) };
            events.push(Timestamp(0), news);
        }
    }

    fn numbers(events: &SessionEvents, after: u64, limit: usize) -> (u64, Vec<u64>) {
        let (lost, some) = events.after(after, limit);
        (lost, (1..=some.len() as u64).map(|index| after + lost + index).collect())
    }

    #[test]
    fn l1_l2_numbers_are_contiguous_and_gaps_are_reported() {
        let events = SessionEvents::new(3);
        assert_eq!(numbers(&events, 0, 10), (0, vec![]));
        push(&events, 2);
        assert_eq!(numbers(&events, 0, 10), (0, vec![1, 2]));
        assert_eq!(numbers(&events, 1, 10), (0, vec![2]));
        assert_eq!(numbers(&events, 2, 10), (0, vec![]));
        push(&events, 5);
        assert_eq!(numbers(&events, 0, 10), (4, vec![5, 6, 7]));
        assert_eq!(numbers(&events, 3, 2), (1, vec![5, 6]));
        assert_eq!(numbers(&events, 4, 1), (0, vec![5]));
        assert_eq!(numbers(&events, 7, 10), (0, vec![]));
    }

    #[tokio::test]
    async fn l2_a_batch_names_lost_events_and_waits_for_the_rest() {
        let events = SessionEvents::new(3);
        // Longer than the test may take: a batch that need not wait does not.
        let never = Duration::from_secs(3_600);
        let counted = async |after, wait| {
            let Batch { after, restarted, lost, events } = events.batch(after, wait).await;
            (after, restarted, lost, events.len())
        };
        assert_eq!(counted(None, never).await, (0, false, 0, 0));
        assert_eq!(counted(Some(7), never).await, (0, true, 0, 0), "of an earlier process");
        push(&events, 5);
        assert_eq!(counted(None, never).await, (5, false, 0, 0));
        assert_eq!(counted(Some(0), never).await, (0, false, 2, 3));
        assert_eq!(counted(Some(7), never).await, (0, true, 2, 3));
        assert_eq!(counted(Some(5), Duration::from_millis(1)).await, (5, false, 0, 0));
        let (waited, ()) = tokio::join!(counted(Some(5), never), async { push(&events, 1) });
        assert_eq!(waited, (5, false, 0, 1));
    }

    #[test]
    fn positions_are_read() {
        let nodes = |positions: &[(u8, u64)]| {
            Some(After::Nodes(positions.iter().map(|(node, n)| (NodeNumber(*node), *n)).collect()))
        };
        assert_eq!(After::parse("0"), Some(After::Everywhere(0)));
        assert_eq!(After::parse("3:17"), nodes(&[(3, 17)]));
        assert_eq!(After::parse("3:17,0:200"), nodes(&[(0, 200), (3, 17)]));
        for wrong in ["", "x", "-1", "3:", ":3", "3:17,", "300:1", "3:17;5:1"] {
            assert_eq!(After::parse(wrong), None, "{wrong}");
        }
        let after = After::parse("3:17").unwrap();
        assert_eq!((after.at(NodeNumber(3)), after.at(NodeNumber(4))), (Some(17), Some(0)));
    }
}
