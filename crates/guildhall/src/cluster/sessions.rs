//! Sessions of the whole cluster, for the backend API: those of other nodes too. Each node answers for its own.
//!
//! Invariants  a session is closed on the node that has it; those of an account or token on every node, before the
//!             answer.
//! Limits      names of unknown platforms and compressions are stored: `NAMES_MAX`.
//! Not here    events of sessions (`GET /v1/sessions/events`): `guildhall_backend::SessionEvents`.

use crate::wiring::PartitionGateway;
use async_trait::async_trait;
use guildhall_backend::{Gateway, SessionInfo, SessionPlace, SessionsPage};
use guildhall_cluster::{NodeNumber, PeerMessage};
use guildhall_codec::Encoding;
use guildhall_guild_protocol::{PartitionId, Published, SessionView, StreamView, Whose};
use guildhall_model::{CloseCode, UserId, to_gateway::ShardId};
use guildhall_node::{Membership, PeerQuestion};
use guildhall_session::session_partition;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

/// Names that other nodes sent.
const NAMES_MAX: usize = 256;

/// Sessions of this node and of the others.
pub struct ClusterGateway {
    /// Sessions of this node.
    pub local: PartitionGateway,
    pub membership: Arc<Membership>,
}

#[derive(Serialize, Deserialize)]
enum SessionsQuestion {
    Page { from: (u16, u32), limit: usize },
    OfUser(UserId),
    Session(String),
    Close { whose: ClosedOnes, code: u16 },
}

impl PeerQuestion for SessionsQuestion {
    const KIND: &'static str = "sessions";
    type Answer = SessionsAnswer;
}

#[derive(Clone, Serialize, Deserialize)]
enum ClosedOnes {
    Session(String),
    User(UserId),
    Token(UserId, u64),
}

#[derive(Serialize, Deserialize)]
enum SessionsAnswer {
    Page { sessions: Vec<Session>, next: Option<(u16, u32)> },
    Closed(u64),
}

#[derive(Serialize, Deserialize)]
struct Session {
    partition: u16,
    id: String,
    slot: u32,
    user_id: UserId,
    username: String,
    is_bot: bool,
    shard: Option<(u32, u32)>,
    is_etf: bool,
    compression: Option<String>,
    writer: Option<String>,
    /// None from a node of an earlier version.
    #[serde(default)]
    stream: Option<Stream>,
    guilds_count: usize,
    seq: u64,
    buffered_events: usize,
    buffered_bytes: usize,
    backlog_events: u64,
    platform: String,
    is_connected: bool,
    resumable_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct Stream {
    moved: Option<String>,
    since_ms: u64,
    memory_bytes: u64,
    timed_total: u64,
    timed_ns_total: u64,
}

impl From<StreamView> for Stream {
    fn from(view: StreamView) -> Self {
        let StreamView { moved, since_ms, memory_bytes, timed_total, timed_ns_total } = view;
        Self { moved: moved.map(str::to_owned), since_ms, memory_bytes, timed_total, timed_ns_total }
    }
}

impl From<Stream> for StreamView {
    fn from(stream: Stream) -> Self {
        let Stream { moved, since_ms, memory_bytes, timed_total, timed_ns_total } = stream;
        Self { moved: moved.as_deref().map(name), since_ms, memory_bytes, timed_total, timed_ns_total }
    }
}

impl From<SessionInfo> for Session {
    fn from((partition, view): SessionInfo) -> Self {
        Self {
            partition,
            id: (*view.id).to_owned(),
            slot: view.slot,
            user_id: view.user_id,
            username: view.username,
            is_bot: view.is_bot,
            shard: view.shard.map(|shard| (shard.id, shard.count)),
            is_etf: view.encoding == Encoding::Etf,
            compression: view.compression.map(str::to_owned),
            writer: view.writer.map(str::to_owned),
            stream: view.stream.map(Stream::from),
            guilds_count: view.guilds_count,
            seq: view.seq,
            buffered_events: view.buffered_events,
            buffered_bytes: view.buffered_bytes,
            backlog_events: view.backlog_events,
            platform: view.platform.to_owned(),
            is_connected: view.is_connected,
            resumable_ms: view.resumable_ms,
        }
    }
}

impl From<Session> for SessionInfo {
    fn from(session: Session) -> Self {
        let view = SessionView {
            id: session.id.into(),
            slot: session.slot,
            user_id: session.user_id,
            username: session.username,
            is_bot: session.is_bot,
            shard: session.shard.map(|(id, count)| ShardId { id, count }),
            encoding: if session.is_etf { Encoding::Etf } else { Encoding::Json },
            compression: session.compression.as_deref().map(name),
            writer: session.writer.as_deref().map(name),
            stream: session.stream.map(StreamView::from),
            guilds_count: session.guilds_count,
            seq: session.seq,
            buffered_events: session.buffered_events,
            buffered_bytes: session.buffered_bytes,
            backlog_events: session.backlog_events,
            platform: name(&session.platform),
            is_connected: session.is_connected,
            resumable_ms: session.resumable_ms,
        };
        (session.partition, view)
    }
}

/// A name that lives as long as the process: there are few.
fn name(text: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    match names.get(text) {
        Some(name) => name,
        None if names.len() >= NAMES_MAX => "other",
        None => {
            let name: &'static str = Box::leak(text.into());
            names.insert(name);
            name
        }
    }
}

impl ClusterGateway {
    /// The gateway of a node; it answers other nodes from now on.
    #[must_use]
    pub fn new(local: PartitionGateway, membership: Arc<Membership>) -> Self {
        let gateway = Arc::new(PartitionGateway(local.0.clone()));
        let own = membership.number();
        membership.on_question(move |question: SessionsQuestion| {
            let gateway = gateway.clone();
            async move { Some(answer(&gateway, own, question).await) }
        });
        Self { local, membership }
    }

    fn is_own(&self, partition: u16) -> bool {
        PartitionId(partition).node() == self.membership.number().0
    }

    /// The first partition of the next node.
    fn after(&self, node: u8) -> Option<SessionPlace> {
        let mut numbers = self.membership.numbers();
        numbers.push(self.membership.number());
        let next = numbers.into_iter().filter(|number| number.0 > node).min()?;
        Some(SessionPlace { partition: PartitionId::of_node(next.0, 0).0, slot: 0 })
    }
}

/// The code with this number; one that only another version knows has sessions resume.
fn close_code(code: u16) -> CloseCode {
    CloseCode::ALL.iter().copied().find(|known| known.code() == code).unwrap_or(CloseCode::UnknownError)
}

/// A page of the partition on this node.
async fn page_of(gateway: &PartitionGateway, own: NodeNumber, from: SessionPlace, limit: usize) -> SessionsPage {
    let local = SessionPlace { partition: PartitionId(from.partition).index() as u16, slot: from.slot };
    let global = |partition: u16| PartitionId::of_node(own.0, partition as u8).0;
    let page = gateway.page(local, limit).await;
    SessionsPage {
        sessions: page.sessions.into_iter().map(|(partition, view)| (global(partition), view)).collect(),
        next: page.next.map(|next| SessionPlace { partition: global(next.partition), slot: next.slot }),
    }
}

async fn answer(gateway: &PartitionGateway, own: NodeNumber, question: SessionsQuestion) -> SessionsAnswer {
    let global = |(partition, view): SessionInfo| {
        let partition = PartitionId::of_node(own.0, PartitionId(partition).index() as u8).0;
        Session::from((partition, view))
    };
    match question {
        SessionsQuestion::Page { from: (partition, slot), limit } => {
            let page = page_of(gateway, own, SessionPlace { partition, slot }, limit).await;
            SessionsAnswer::Page {
                sessions: page.sessions.into_iter().map(Session::from).collect(),
                next: page.next.map(|next| (next.partition, next.slot)),
            }
        }
        SessionsQuestion::OfUser(user_id) => {
            let sessions = gateway.of_user(user_id).await;
            SessionsAnswer::Page { sessions: sessions.into_iter().map(global).collect(), next: None }
        }
        SessionsQuestion::Session(id) => {
            let session = gateway.session(&id).await;
            SessionsAnswer::Page { sessions: session.into_iter().map(global).collect(), next: None }
        }
        SessionsQuestion::Close { whose, code } => {
            let whose = match whose {
                ClosedOnes::Session(id) => Whose::Session(id.into()),
                ClosedOnes::User(user_id) => Whose::User(user_id),
                ClosedOnes::Token(user_id, token) => Whose::Token(user_id, token),
            };
            SessionsAnswer::Closed(gateway.close(whose, close_code(code)).await)
        }
    }
}

#[async_trait]
impl Gateway for ClusterGateway {
    /// Of one partition, as for a single node; after the last of a node the next node's follow. A node that does not
    /// answer is left out.
    async fn page(&self, from: SessionPlace, limit: usize) -> SessionsPage {
        // The first request names partition 0, which may be another node's.
        let node = PartitionId(from.partition).node();
        let page = if self.is_own(from.partition) {
            page_of(&self.local, self.membership.number(), from, limit).await
        } else {
            let question = SessionsQuestion::Page { from: (from.partition, from.slot), limit };
            match self.membership.ask(NodeNumber(node), &question).await {
                Some(SessionsAnswer::Page { sessions, next }) => SessionsPage {
                    sessions: sessions.into_iter().map(SessionInfo::from).collect(),
                    next: next.map(|(partition, slot)| SessionPlace { partition, slot }),
                },
                _ => SessionsPage::default(),
            }
        };
        let next = page.next.or_else(|| self.after(node));
        SessionsPage { next, ..page }
    }

    async fn of_user(&self, user_id: UserId) -> Vec<SessionInfo> {
        let mut all = self.local.of_user(user_id).await;
        for (_, answer) in self.membership.ask_all(&SessionsQuestion::OfUser(user_id)).await {
            if let SessionsAnswer::Page { sessions, .. } = answer {
                all.extend(sessions.into_iter().map(SessionInfo::from));
            }
        }
        all
    }

    async fn session(&self, id: &str) -> Option<SessionInfo> {
        let named = NodeNumber(session_partition(id)?.node());
        if let Some(here) = self.local.session(id).await {
            return Some(here);
        }
        let question = SessionsQuestion::Session(id.to_owned());
        let first = |answer| match answer {
            SessionsAnswer::Page { sessions, .. } => sessions.into_iter().next().map(SessionInfo::from),
            SessionsAnswer::Closed(_) => None,
        };
        if named != self.membership.number()
            && let Some(there) = self.membership.ask(named, &question).await.and_then(first)
        {
            return Some(there);
        }
        // It may have moved.
        self.membership.ask_all(&question).await.into_iter().find_map(|(_, answer)| first(answer))
    }

    async fn close(&self, whose: Whose, code: CloseCode) -> u64 {
        let elsewhere = match &whose {
            Whose::Session(id) => {
                let Some(named) = session_partition(id).map(|partition| NodeNumber(partition.node())) else { return 0 };
                let there = ClosedOnes::Session((**id).to_owned());
                let question = SessionsQuestion::Close { whose: there.clone(), code: code.code() };
                let closed = |answer| if let SessionsAnswer::Closed(count) = answer { count } else { 0 };
                let count = match named == self.membership.number() {
                    true => self.local.close(whose.clone(), code).await,
                    false => self.membership.ask(named, &question).await.map_or(0, closed),
                };
                if count > 0 {
                    return count;
                }
                // It may have moved.
                there
            }
            Whose::User(user_id) => ClosedOnes::User(*user_id),
            Whose::Token(user_id, token) => ClosedOnes::Token(*user_id, *token),
        };
        let question = SessionsQuestion::Close { whose: elsewhere, code: code.code() };
        let mut count = self.local.close(whose, code).await;
        // Every node that lives has closed them when this returns.
        for (_, answer) in self.membership.tell_all(&question).await {
            if let SessionsAnswer::Closed(closed) = answer {
                count += closed;
            }
        }
        count
    }

    fn publish_to_users(&self, published: &Arc<Published>, user_ids: &Arc<[UserId]>) -> usize {
        // Every other node reports once, for all of its partitions.
        let nodes = self.membership.send_to_all(&PeerMessage::Users(published.clone()));
        nodes + self.local.publish_to_users(published, user_ids)
    }
}
