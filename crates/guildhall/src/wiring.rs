//! Wiring: the seams between the partitions (`guildhall-net`), the node (`guildhall-node`) and REST (`guildhall-rest`).
//!
//! Owns        one small adapter per seam; none of the three knows the others.
//! Limits      `CHECKS_IN_FLIGHT_MAX` tokens are checked at once; the others wait, one per connection.

use crate::{
    cluster::{ClusterAccounts, SessionMoves},
    token_checks::{Checker, Waiting},
};
use async_trait::async_trait;
use axum::{Router, extract::ConnectInfo, extract::Request, http::HeaderMap, middleware, response::Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use guildhall_accounting::TraceHandle;
use guildhall_backend::{Gateway, SessionEvents, SessionInfo, SessionPlace, SessionsPage};
use guildhall_guild_protocol::{PartitionId, Published, SessionNews, ToGuild, ToRelay, Whose};
use guildhall_http_kit::{Peer, RequestNote, peer_from};
use guildhall_model::{ChannelId, CloseCode, GuildId, MessageId, Presence, User, UserId};
use guildhall_net::{
    AccessNote, AuthAnswer, Authenticated, DirectsAnswer, IdentifyGate, MessagesAnswer, Partitions, Peers,
    SessionAnswer, SessionClaim, SystemClock, TransferEnd, Upstream,
};
use guildhall_node::{Node, RelaySink, SettingsKind};
use guildhall_partition::{AuthPurpose, OwnData};
use guildhall_rest::{OwnStream, OwnStreams, SessionStartLimit, SessionStarts};
use guildhall_store::StoreError;
use std::{
    future::ready,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, oneshot},
};

/// More tokens than these are not checked at once: the store is shared with everything else.
const CHECKS_IN_FLIGHT_MAX: usize = 128;

/// Guilds → relays.
pub struct PartitionSink(pub Partitions);

impl RelaySink for PartitionSink {
    fn try_deliver(&self, partition: PartitionId, message: ToRelay) -> Result<(), ToRelay> {
        self.0.try_deliver(partition, message)
    }

    fn try_deliver_traced(&self, partition: PartitionId, message: ToRelay, trace: &TraceHandle) -> Result<(), ToRelay> {
        self.0.try_deliver_traced(partition, message, trace)
    }

    fn announce_joined(&self, user_id: UserId, guild_id: GuildId) {
        self.0.announce_joined(user_id, guild_id);
    }

    fn announce_user(&self, user: &Arc<User>) {
        self.0.announce_user(user);
    }

    fn publish_to_users(&self, published: &Arc<Published>, trace: Option<&TraceHandle>) -> usize {
        self.0.publish_direct(published, trace)
    }

    fn close_sessions(&self, whose: &Whose, code: CloseCode) -> Vec<oneshot::Receiver<usize>> {
        self.0.close_sessions(whose, code)
    }

    fn presences(&self, user_ids: &Arc<[UserId]>) -> Vec<oneshot::Receiver<Vec<(UserId, Presence)>>> {
        let of_partition = |index| {
            let user_ids = user_ids.clone();
            self.0.look(PartitionId(index), move |_, partition| partition.presences(&user_ids))
        };
        (0..self.0.count() as u16).map(of_partition).collect()
    }

    fn may_publish_to_users(&self) -> bool {
        self.0.has_room_for_directs()
    }
}

/// Partitions → node.
pub struct NodeUpstream {
    node: Node,
    session_events: Arc<SessionEvents>,
    /// None: the node is alone, and no other has sessions.
    moves: Option<Arc<SessionMoves>>,
    runtime: Handle,
    checks: Arc<Semaphore>,
    checker: Arc<Checker>,
}

impl NodeUpstream {
    /// Checks tokens on the runtime this is called from.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(
        node: Node,
        session_events: Arc<SessionEvents>,
        accounts: Option<Arc<ClusterAccounts>>,
        moves: Option<Arc<SessionMoves>>,
    ) -> Self {
        let checks = Arc::new(Semaphore::new(CHECKS_IN_FLIGHT_MAX));
        let checker = Arc::new(Checker::new(node.clone(), accounts, moves.clone(), checks.clone()));
        Self { node, session_events, moves, runtime: Handle::current(), checks, checker }
    }
}

async fn own_data(node: &Node, user_id: UserId) -> Result<OwnData, StoreError> {
    let settings = node.settings_proto(user_id, SettingsKind::Preloaded).await?;
    let directs = node.directs_of_user(user_id).await?;
    let reading = node.reading(user_id, &directs).await?;
    let relationships = node.relationships(user_id).await?;
    Ok(OwnData {
        directs,
        settings_proto: STANDARD.encode(settings).into(),
        read_states: reading.states,
        mentions: reading.mentions,
        unread_directs: reading.directs,
        read_version: reading.version,
        friend_presences: node.friend_presences(&relationships).await,
        relationships,
        notifications: node.notification_settings(user_id).await?,
    })
}

impl Upstream for NodeUpstream {
    fn authenticate(&self, token: String, purpose: AuthPurpose, answer: AuthAnswer) {
        let checker = &self.checker;
        let Err(waiting) = checker.check_at_once(Waiting { token, purpose, answer }) else { return };
        if checker.gather(waiting) {
            self.runtime.spawn(checker.clone().take_gathered());
        }
    }

    fn fetch_messages(&self, messages: Vec<(ChannelId, MessageId)>, answer: MessagesAnswer) {
        let (node, checks) = (self.node.clone(), self.checks.clone());
        self.runtime.spawn(async move {
            let Ok(_permit) = checks.acquire().await else { return };
            let mut found = Vec::with_capacity(messages.len());
            for (channel_id, message_id) in messages {
                match node.store().message(channel_id, message_id).await {
                    Ok(record) => found.extend(record.map(|record| node.with_links(record.message))),
                    Err(error) => {
                        tracing::warn!(%error, "newest messages could not be read");
                        return;
                    }
                }
            }
            answer.send(found);
        });
    }

    fn fetch_directs(&self, user_id: UserId, answer: DirectsAnswer) {
        let (node, checks) = (self.node.clone(), self.checks.clone());
        self.runtime.spawn(async move {
            let Ok(_permit) = checks.acquire().await else { return };
            match own_data(&node, user_id).await {
                Ok(own) => answer.send(own),
                Err(error) => tracing::warn!(%error, "an account's direct messages and settings could not be read"),
            }
        });
    }

    fn fetch_session(&self, claim: SessionClaim, answer: SessionAnswer) {
        let Some(moves) = self.moves.clone() else { return };
        self.runtime.spawn(async move { answer.send(moves.fetch(claim).await) });
    }

    fn fetch_rest(&self, end: TransferEnd, answer: SessionAnswer) {
        let Some(moves) = self.moves.clone() else { return };
        self.runtime.spawn(async move { answer.send(moves.fetch_rest(end).await) });
    }

    fn try_send_to_guild(&self, guild_id: GuildId, message: ToGuild) -> Result<(), ToGuild> {
        self.node.try_send_to_guild(guild_id, message)
    }

    fn session_news(&self, news: SessionNews) {
        self.session_events.push(SystemClock::default().now().unix, news);
    }

    fn presence_changed(&self, user_id: UserId) {
        self.node.presence_changed(user_id);
    }

    fn show_friends(&self, user_id: UserId, friends: Vec<UserId>) {
        let (node, checks) = (self.node.clone(), self.checks.clone());
        self.runtime.spawn(async move {
            let Ok(_permit) = checks.acquire().await else { return };
            if let Err(error) = node.show_friends(user_id, &friends).await {
                tracing::warn!(%user_id, %error, "presences of friends were not sent again");
            }
        });
    }
}

/// The gateway's IDENTIFY limits for `GET /gateway/bot`.
pub struct GateStarts {
    pub gate: Arc<IdentifyGate>,
    /// None: the node is alone.
    pub accounts: Option<Arc<ClusterAccounts>>,
    /// For the day's end.
    pub clock: SystemClock,
}

#[async_trait]
impl SessionStarts for GateStarts {
    async fn session_starts(&self, user_id: UserId) -> SessionStartLimit {
        let limit = self.gate.session_start_limit(self.clock.now(), user_id);
        let used = match &self.accounts {
            Some(accounts) => accounts.used(user_id).await,
            None => None,
        };
        let (remaining, reset_after_ms) = match used {
            Some(used) => (limit.remaining.min(limit.total.saturating_sub(used.identifies)), used.day_left_ms),
            None => (limit.remaining, limit.reset_after_ms),
        };
        SessionStartLimit { total: limit.total, remaining, reset_after_ms, max_concurrency: limit.max_concurrency }
    }
}

/// The streams of an account's own sessions, wherever they are.
pub struct GatewayStreams(pub Arc<dyn Gateway>);

#[async_trait]
impl OwnStreams for GatewayStreams {
    async fn own_stream(&self, user_id: UserId, session_id: &str) -> Option<OwnStream> {
        let (_, view) = self.0.session(session_id).await?;
        if view.user_id != user_id || !view.is_connected {
            return None;
        }
        let stream = view.stream;
        Some(OwnStream {
            writer: view.writer,
            moved: stream.and_then(|stream| stream.moved),
            since_ms: stream.map(|stream| stream.since_ms),
            memory_bytes: stream.map(|stream| stream.memory_bytes),
            timed_total: stream.map(|stream| stream.timed_total),
            timed_ns_total: stream.map(|stream| stream.timed_ns_total),
        })
    }
}

/// Access of the backend API to partitions.
pub struct PartitionGateway(pub Partitions);

#[async_trait]
impl Gateway for PartitionGateway {
    /// Of one partition: the next page begins in the next.
    async fn page(&self, from: SessionPlace, limit: usize) -> SessionsPage {
        let partition = from.partition;
        let look = self.0.look(PartitionId(partition), move |now, p| p.session_page(now, from.slot, limit));
        let Ok(page) = look.await else { return SessionsPage::default() };
        let next_partition = partition + 1;
        let next = match page.next_slot {
            Some(slot) => Some(SessionPlace { partition, slot }),
            None if usize::from(next_partition) < self.0.count() => {
                Some(SessionPlace { partition: next_partition, slot: 0 })
            }
            None => None,
        };
        SessionsPage { sessions: page.sessions.into_iter().map(|view| (partition, view)).collect(), next }
    }

    async fn of_user(&self, user_id: UserId) -> Vec<SessionInfo> {
        let mut all = Vec::new();
        for partition in 0..self.0.count() as u16 {
            let look = self.0.look(PartitionId(partition), move |now, p| p.user_session_views(now, user_id));
            all.extend(look.await.unwrap_or_default().into_iter().map(|view| (partition, view)));
        }
        all
    }

    async fn session(&self, id: &str) -> Option<SessionInfo> {
        let partition = self.0.home_of(id)?;
        let id = id.to_owned();
        let view = self.0.look(partition, move |now, p| p.session_view(now, &id)).await.ok().flatten()?;
        Some((partition.0, view))
    }

    async fn close(&self, whose: Whose, code: CloseCode) -> u64 {
        let mut count = 0;
        for closed in self.0.close_sessions(&whose, code) {
            // A partition that has ended has no sessions.
            count += closed.await.unwrap_or(0) as u64;
        }
        count
    }

    fn publish_to_users(&self, published: &Arc<Published>, user_ids: &Arc<[UserId]>) -> usize {
        self.0.publish_to_users(published, user_ids)
    }
}

/// The client address of an upgrade, for the gateway.
pub fn peers(trusted: Arc<[IpAddr]>) -> Peers {
    let proxies = trusted.clone();
    Peers { client_address: Arc::new(move |socket, headers| peer_of(socket, headers, &trusted)), proxies }
}

fn peer_of(socket: IpAddr, headers: &HeaderMap, trusted: &[IpAddr]) -> IpAddr {
    // A line that is not text ends the search, like any entry that is not an address.
    let lines = headers.get_all("x-forwarded-for").iter().map(|line| line.to_str().unwrap_or("-"));
    let way = lines.collect::<Vec<_>>().join(",");
    peer_from(socket, Some(&way), trusted)
}

/// The client address of a request, for REST; the headers of `trusted` proxies are believed.
pub fn with_peer(router: Router, trusted: Arc<[IpAddr]>) -> Router {
    router.layer(middleware::map_request(move |mut request: Request| {
        let socket = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
        if let Some(socket) = socket {
            let peer = peer_of(socket, request.headers(), &trusted);
            request.extensions_mut().insert(Peer(peer));
        }
        ready(request)
    }))
}

/// Notes of a response: for the listener, whether the request had a valid token or key; for the access log, its
/// account and route.
pub fn with_request_notes(router: Router, has_access_log: bool) -> Router {
    router.layer(middleware::map_response(move |mut response: Response| {
        if let Some(note) = RequestNote::take(&mut response) {
            if note.user_id.or(note.key_id).is_some() {
                response.extensions_mut().insert(Authenticated);
            }
            if has_access_log {
                let (route, RequestNote { user_id, key_id, .. }) = (Some(note.route().into()), note);
                response.extensions_mut().insert(AccessNote { route, user_id, key_id });
            }
        }
        ready(response)
    }))
}

/// For commands that work on guilds without clients.
pub struct NoPartitions;

impl RelaySink for NoPartitions {
    fn try_deliver(&self, _: PartitionId, message: ToRelay) -> Result<(), ToRelay> {
        Err(message)
    }
}
