//! State: the parts of the router, and state shared by handlers.
//!
//! Owns        `ApiState` (given by the binary) and `Api` (made from it: live limits and admission).
//! Limits      see `ApiLimits`.
//! Not here    the node itself: `guildhall-node`.

use crate::{
    ApiLimits,
    auth::Caller,
    error::ApiError,
    limits::{Bucket, RateLimits},
    routes::{
        announcements::CROSSPOSTS_IN_FLIGHT_MAX,
        interactions::{Answers, Endpoints},
    },
    unserved::Unserved,
};
use async_trait::async_trait;
use axum::{body::HttpBody, http::StatusCode, response::Response};
use guildhall_codec::DictionarySwitch;
use guildhall_guild::{Actor, Command, MessageRecord, Refusal, Reply, Request, request};
use guildhall_guild_protocol::HiddenChannels;
use guildhall_http_kit::{BodyQuotas, Quota};
use guildhall_media::{Files, Media};
use guildhall_model::{ChannelId, GuildId, MessageId, UserId};
use guildhall_node::{Clock, Node, reply_to};
use guildhall_stdx::Now;
use guildhall_store::{Page, PictureOwner, StoreError};
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::{Mutex, Semaphore};

/// Bytes of an answer that count as one more change of its account.
const USER_WRITE_UNIT_BYTES: u64 = 2048;

/// How many sessions a bot may still start, for `GET /gateway/bot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SessionStartLimit {
    /// IDENTIFYs per day.
    pub total: u32,
    /// How many of them are left. Clients do not start when it is below their shard count.
    pub remaining: u32,
    /// Milliseconds until `remaining` is `total` again.
    #[serde(rename = "reset_after")]
    pub reset_after_ms: u64,
    /// IDENTIFYs per five seconds.
    pub max_concurrency: u32,
}

impl Default for SessionStartLimit {
    fn default() -> Self {
        Self { total: 1000, remaining: 1000, reset_after_ms: 0, max_concurrency: 1 }
    }
}

/// Number of sessions that an account may still start, from the gateway's identify limiter.
#[async_trait]
pub trait SessionStarts: Send + Sync + 'static {
    /// The account's remaining session starts. Must not wait for long.
    async fn session_starts(&self, user_id: UserId) -> SessionStartLimit;
}

/// The same for every account.
#[async_trait]
impl SessionStarts for SessionStartLimit {
    async fn session_starts(&self, _: UserId) -> SessionStartLimit {
        *self
    }
}

/// A compressed stream, as its own account may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OwnStream {
    /// Component that compresses; none without compression.
    pub writer: Option<&'static str>,
    /// Why shared-match took over from a library context; none if it did not.
    pub moved: Option<&'static str>,
    /// For how long the writer has had the stream; none without one, as for the figures below.
    pub since_ms: Option<u64>,
    /// Memory that the stream holds.
    pub memory_bytes: Option<u64>,
    /// Dispatches whose compression was timed, one in 64.
    pub timed_total: Option<u64>,
    /// Nanoseconds of these.
    pub timed_ns_total: Option<u64>,
}

/// Cost of the connection of a session, from its partition.
#[async_trait]
pub trait OwnStreams: Send + Sync + 'static {
    /// The stream of a session of the account. None: the account has no such session, or it has no connection.
    async fn own_stream(&self, user_id: UserId, session_id: &str) -> Option<OwnStream>;
}

/// Without sessions.
#[derive(Clone, Copy, Debug)]
pub struct NoStreams;

#[async_trait]
impl OwnStreams for NoStreams {
    async fn own_stream(&self, _: UserId, _: &str) -> Option<OwnStream> {
        None
    }
}

/// Parts that the router needs from outside. Cheap to clone.
#[derive(Clone)]
pub struct ApiState {
    /// Guilds and accounts.
    pub node: Node,
    /// Where clients find the gateway: `scheme://host[:port]`, without path, query or slash at the end.
    pub gateway_url: Arc<str>,
    /// The URL is that of this machine alone, because no setting has the address that other machines use.
    pub is_gateway_url_local: bool,
    /// Sizes and rates of requests.
    pub limits: ApiLimits,
    /// Form of channels that the caller cannot view.
    pub hidden_channels: HiddenChannels,
    /// Clock of the rate limits.
    pub clock: Arc<dyn Clock>,
    /// For `GET /gateway/bot`.
    pub session_starts: Arc<dyn SessionStarts>,
    /// For `GET /users/@me/sessions/{session_id}/stream`.
    pub own_streams: Arc<dyn OwnStreams>,
    /// Where files are kept that come with messages; none: they are refused.
    pub files: Option<Files>,
    /// Counts requests for routes that are not served.
    pub unserved: Arc<Unserved>,
    /// For `GET /dictionaries`.
    pub dictionaries: DictionarySwitch,
}

/// Each account and address may use one place in four of `requests_in_flight_max`.
const PLACES_SHARE: usize = 4;

/// What handlers share.
pub(crate) struct Api {
    pub node: Node,
    pub gateway_url: Arc<str>,
    pub is_gateway_url_local: bool,
    pub limits: ApiLimits,
    pub hidden_channels: HiddenChannels,
    pub session_starts: Arc<dyn SessionStarts>,
    pub own_streams: Arc<dyn OwnStreams>,
    pub rates: RateLimits,
    /// One permit per request that is worked on.
    pub in_flight: Arc<Semaphore>,
    /// Requests in flight, with a share per account and address.
    pub places: Arc<Quota>,
    /// Memory of bodies.
    pub body_quotas: BodyQuotas,
    /// One permit per member search.
    pub searches: Arc<Semaphore>,
    /// Permits for messages that are delivered to followers.
    pub crossposts: Arc<Semaphore>,
    pub media: Media,
    pub dictionaries: DictionarySwitch,
    pub unserved: Arc<Unserved>,
    /// Held while commands of an application are read, changed and kept.
    pub commands: Mutex<()>,
    /// For interactions.
    pub answers: Answers,
    /// For interactions by HTTP.
    pub endpoints: Endpoints,
    clock: Arc<dyn Clock>,
}

impl Api {
    pub fn new(state: ApiState) -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        let places_max = state.limits.requests_in_flight_max;
        let ApiLimits { bodies_bytes_max, trees_bytes_max, json_bytes_max, .. } = state.limits;
        Self {
            gateway_url: state.gateway_url.trim_end_matches('/').into(),
            is_gateway_url_local: state.is_gateway_url_local,
            rates: RateLimits::new(state.limits.clone()),
            in_flight: semaphore(state.limits.requests_in_flight_max),
            places: Quota::new(places_max, places_max.div_ceil(PLACES_SHARE)),
            body_quotas: BodyQuotas::new(bodies_bytes_max, trees_bytes_max, json_bytes_max),
            searches: semaphore(state.limits.searches_in_flight_max),
            crossposts: semaphore(CROSSPOSTS_IN_FLIGHT_MAX),
            media: Media::new(state.node.clone(), state.files, state.limits.uploads_in_flight_max),
            unserved: state.unserved,
            dictionaries: state.dictionaries,
            commands: Mutex::default(),
            answers: Answers::default(),
            endpoints: Endpoints::new(state.limits.private_endpoints),
            node: state.node,
            limits: state.limits,
            hidden_channels: state.hidden_channels,
            session_starts: state.session_starts,
            own_streams: state.own_streams,
            clock: state.clock,
        }
    }

    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Sends a request of an account to a guild.
    pub async fn request<R: Request>(
        &self,
        caller: &Caller,
        guild_id: GuildId,
        request: R,
    ) -> Result<R::Reply, ApiError> {
        Ok(reply_to::<R>(self.ask(caller, guild_id, request.into_command()).await?)?)
    }

    /// `request` without its types, so that it is compiled once and not for each request.
    async fn ask(&self, caller: &Caller, guild_id: GuildId, command: Command) -> Result<Reply, Refusal> {
        self.node.command(guild_id, Actor::User(caller.id), caller.with_reason(command)).await
    }

    /// The guild of a channel.
    pub async fn channel_guild(&self, channel_id: ChannelId) -> Result<GuildId, ApiError> {
        self.node.guild_of_channel(channel_id).await?.ok_or(ApiError::UNKNOWN_CHANNEL)
    }

    /// Sends a request of an account to the guild of a channel.
    pub async fn request_in_channel<R: Request>(
        &self,
        caller: &Caller,
        channel_id: ChannelId,
        request: R,
    ) -> Result<R::Reply, ApiError> {
        Ok(reply_to::<R>(self.ask_in_channel(caller, channel_id, request.into_command()).await?)?)
    }

    /// `request_in_channel` without its types.
    async fn ask_in_channel(
        &self,
        caller: &Caller,
        channel_id: ChannelId,
        command: Command,
    ) -> Result<Reply, ApiError> {
        let guild_id = self.channel_guild(channel_id).await?;
        self.ask(caller, guild_id, command).await.map_err(|refusal| match refusal {
            // The channel exists and is known to the caller, but they lack access.
            Refusal::UnknownGuild => ApiError::MISSING_ACCESS,
            other => other.into(),
        })
    }

    /// `request` of a route that answers 204.
    pub async fn done<R: Request>(
        &self,
        caller: &Caller,
        guild_id: GuildId,
        request: R,
    ) -> Result<StatusCode, ApiError> {
        self.request(caller, guild_id, request).await.map(|_| StatusCode::NO_CONTENT)
    }

    /// `request_in_channel` of a route that answers 204.
    pub async fn done_in_channel<R: Request>(
        &self,
        caller: &Caller,
        channel_id: ChannelId,
        request: R,
    ) -> Result<StatusCode, ApiError> {
        self.request_in_channel(caller, channel_id, request).await.map(|_| StatusCode::NO_CONTENT)
    }

    /// `done` for an object of a guild that may have pictures: they are removed after it.
    pub async fn delete_with_pictures<R: Request>(
        &self,
        caller: &Caller,
        guild_id: GuildId,
        request: R,
    ) -> Result<StatusCode, ApiError> {
        let done = self.done(caller, guild_id, request).await?;
        self.media.collect_pictures(PictureOwner::Guild(guild_id)).await;
        Ok(done)
    }

    /// Whether an account may send files into a channel, or add some to a message of theirs.
    pub async fn may_attach(
        &self,
        caller: &Caller,
        channel_id: ChannelId,
        edited: Option<MessageId>,
    ) -> Result<(), ApiError> {
        self.request_in_channel(caller, channel_id, request::AuthorizeFiles(channel_id, edited)).await
    }

    /// A message from the store, with links in force. The caller has checked that its reader may read it.
    pub async fn message(
        &self,
        channel_id: ChannelId,
        message_id: MessageId,
    ) -> Result<Option<MessageRecord>, StoreError> {
        let record = self.node.store().message(channel_id, message_id).await?;
        Ok(record.map(|record| self.with_links(record)))
    }

    /// The same for a page of messages.
    pub async fn messages(
        &self,
        channel_id: ChannelId,
        page: Page,
        limit: u32,
    ) -> Result<Vec<MessageRecord>, StoreError> {
        let records = self.node.store().messages(channel_id, page, limit).await?;
        Ok(records.into_iter().map(|record| self.with_links(record)).collect())
    }

    fn with_links(&self, record: MessageRecord) -> MessageRecord {
        MessageRecord { message: self.node.with_links(record.message), reactions: record.reactions }
    }

    /// The rule of a bucket with its window, for one account.
    pub fn take(&self, now: Now, user_id: UserId, bucket: Bucket, about: u64) -> crate::limits::Checked {
        self.rates.take(now.instant, user_id, bucket, about)
    }

    /// Counts the event of a user account's change against `Bucket::UserWrite`, by the length of the answer.
    pub fn charge_event(&self, now: Now, user_id: UserId, answer: &Response) {
        let bytes = answer.body().size_hint().lower();
        let cost = u32::try_from(bytes / USER_WRITE_UNIT_BYTES).unwrap_or(u32::MAX);
        self.rates.charge(now.instant, user_id, Bucket::UserWrite, cost);
    }
}
