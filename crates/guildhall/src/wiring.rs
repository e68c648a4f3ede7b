//! Wiring: the seams between the partitions (`guildhall-net`), the node (`guildhall-node`) and REST (`guildhall-api`).
//!
//! Owns        one small adapter per seam; none of the three knows the others.
//! Limits      `CHECKS_IN_FLIGHT_MAX` tokens are checked at once; the others wait, one per connection.

use axum::{Router, extract::ConnectInfo, extract::Request, http::HeaderMap, middleware};
use guildhall_api::{Peer, SessionStartLimit, SessionStarts, peer_from};
use guildhall_model::{ChannelId, GuildId, MessageId, UserId};
use guildhall_net::{AuthAnswer, IdentifyGate, MessagesAnswer, Partitions, Peers, SystemClock, Upstream};
use guildhall_node::{AuthError, Clock, Node, RelaySink};
use guildhall_partition::{Account, AuthFailure};
use guildhall_relay::{PartitionId, ToGuild, ToRelay};
use guildhall_stdx::Now;
use std::{
    future::ready,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use tokio::{runtime::Handle, sync::Semaphore};

/// More tokens than these are not checked at once: the store is shared with everything else.
const CHECKS_IN_FLIGHT_MAX: usize = 128;

/// The real clock, as the node and REST want it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeClock(pub SystemClock);

impl Clock for NodeClock {
    fn now(&self) -> Now {
        self.0.now()
    }
}

/// Guilds → relays.
pub struct PartitionSink(pub Partitions);

impl RelaySink for PartitionSink {
    fn try_deliver(&self, partition: PartitionId, message: ToRelay) -> Result<(), ToRelay> {
        self.0.try_deliver(partition, message)
    }

    fn announce_joined(&self, user_id: UserId, guild_id: GuildId) {
        self.0.announce_joined(user_id, guild_id);
    }
}

/// Partitions → node.
pub struct NodeUpstream {
    node: Node,
    runtime: Handle,
    checks: Arc<Semaphore>,
}

impl NodeUpstream {
    /// Checks tokens on the runtime this is called from.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(node: Node) -> Self {
        Self { node, runtime: Handle::current(), checks: Arc::new(Semaphore::new(CHECKS_IN_FLIGHT_MAX)) }
    }
}

async fn check(node: &Node, token: &str, with_guilds: bool) -> Result<Account, AuthFailure> {
    let account = node.authenticate(token).await.map_err(|error| match error {
        AuthError::Invalid => AuthFailure::Invalid,
        AuthError::Unavailable(error) => {
            tracing::warn!(%error, "a token could not be checked");
            AuthFailure::Unavailable
        }
    })?;
    let guilds = if with_guilds {
        node.guilds_of_user(account.user.id).await.map_err(|error| {
            tracing::warn!(%error, "an account's guilds could not be read");
            AuthFailure::Unavailable
        })?
    } else {
        Vec::new()
    };
    Ok(Account { user: account.user, guilds })
}

impl Upstream for NodeUpstream {
    fn authenticate(&self, token: String, with_guilds: bool, answer: AuthAnswer) {
        let (node, checks) = (self.node.clone(), self.checks.clone());
        self.runtime.spawn(async move {
            let Ok(_permit) = checks.acquire().await else { return };
            answer.send(check(&node, &token, with_guilds).await);
        });
    }

    fn fetch_messages(&self, messages: Vec<(ChannelId, MessageId)>, answer: MessagesAnswer) {
        let (node, checks) = (self.node.clone(), self.checks.clone());
        self.runtime.spawn(async move {
            let Ok(_permit) = checks.acquire().await else { return };
            let mut found = Vec::with_capacity(messages.len());
            for (channel_id, message_id) in messages {
                match node.store().message(channel_id, message_id).await {
                    Ok(record) => found.extend(record.map(|record| record.message)),
                    Err(error) => {
                        tracing::warn!(%error, "newest messages could not be read");
                        return;
                    }
                }
            }
            answer.send(found);
        });
    }

    fn try_send_to_guild(&self, guild_id: GuildId, message: ToGuild) -> Result<(), ToGuild> {
        self.node.try_send_to_guild(guild_id, message)
    }
}

/// The gateway's identify limits, as `GET /gateway/bot` tells them.
pub struct GateStarts {
    /// What counts.
    pub gate: Arc<IdentifyGate>,
    /// For the day's end.
    pub clock: SystemClock,
}

impl SessionStarts for GateStarts {
    fn session_starts(&self, user_id: UserId) -> SessionStartLimit {
        let limit = self.gate.session_start_limit(self.clock.now(), user_id);
        SessionStartLimit {
            total: limit.total,
            remaining: limit.remaining,
            reset_after_ms: limit.reset_after_ms,
            max_concurrency: limit.max_concurrency,
        }
    }
}

/// Tells the gateway whom an upgrade comes from.
pub fn peers(trusted: Arc<[IpAddr]>) -> Peers {
    let proxies = trusted.clone();
    Peers { address_of: Arc::new(move |socket, headers| peer_of(socket, headers, &trusted)), proxies }
}

fn peer_of(socket: IpAddr, headers: &HeaderMap, trusted: &[IpAddr]) -> IpAddr {
    // A line that is no text ends the way there, like any other entry that is no address.
    let lines = headers.get_all("x-forwarded-for").iter().map(|line| line.to_str().unwrap_or("-"));
    let way = lines.collect::<Vec<_>>().join(",");
    peer_from(socket, Some(&way), trusted)
}

/// Tells REST whom a request comes from; `trusted` proxies are believed.
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

/// For commands that work on guilds without clients.
pub struct NoPartitions;

impl RelaySink for NoPartitions {
    fn try_deliver(&self, _: PartitionId, message: ToRelay) -> Result<(), ToRelay> {
        Err(message)
    }
}
