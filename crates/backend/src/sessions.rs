//! Sessions: listed, read, closed.
//!
//! Owns        `Gateway`, the API's interface to the partitions.
//! Limits      pages of 1,000; a page costs each partition a scan of as many slots.     Spec  docs/backend-api.md
//!             "Sessions".

use super::{
    V1,
    caller::{Caller, Sessions},
    error::V1Error,
    extract::{Check, FieldErrors, Path, Query},
    types::Snowflake,
};
use async_trait::async_trait;
use axum::{Json, extract::State, http::StatusCode};
use guildhall_guild_protocol::{Published, SessionView, StreamView, Whose};
use guildhall_model::{CloseCode, UserId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Where a page begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionPlace {
    /// Number of the partition.
    pub partition: u16,
    /// Slot in the partition.
    pub slot: u32,
}

/// A session, and where it lives.
pub type SessionInfo = (u16, SessionView);

/// A page of sessions.
#[derive(Clone, Debug, Default)]
pub struct SessionsPage {
    /// Ordered by partition and slot.
    pub sessions: Vec<SessionInfo>,
    /// Start of the next page; `None` on the last.
    pub next: Option<SessionPlace>,
}

/// Interface of the API to the partitions.
#[async_trait]
pub trait Gateway: Send + Sync + 'static {
    /// Sessions from `from` on.
    async fn page(&self, from: SessionPlace, limit: usize) -> SessionsPage;
    /// All sessions of an account.
    async fn of_user(&self, user_id: UserId) -> Vec<SessionInfo>;
    /// Reads one session.
    async fn session(&self, id: &str) -> Option<SessionInfo>;
    /// Closes and discards sessions; returns their number. They are closed on return.
    async fn close(&self, whose: Whose, code: CloseCode) -> u64;
    /// Publishes an event to sessions of accounts; returns the number of partitions that will report their
    /// count. Must not block.
    fn publish_to_users(&self, published: &Arc<Published>, user_ids: &Arc<[UserId]>) -> usize;
}

/// No sessions at all, for a node without partitions.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoGateway;

#[async_trait]
impl Gateway for NoGateway {
    async fn page(&self, _: SessionPlace, _: usize) -> SessionsPage {
        SessionsPage::default()
    }
    async fn of_user(&self, _: UserId) -> Vec<SessionInfo> {
        Vec::new()
    }
    async fn session(&self, _: &str) -> Option<SessionInfo> {
        None
    }
    async fn close(&self, _: Whose, _: CloseCode) -> u64 {
        0
    }
    fn publish_to_users(&self, _: &Arc<Published>, _: &Arc<[UserId]>) -> usize {
        0
    }
}

/// A session, connected or resumable.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub(super) struct SessionBody {
    /// Session id, as in READY.
    id: String,
    /// Account of the session.
    user_id: Snowflake,
    /// Whether the account is a bot.
    bot: bool,
    /// `[id, count]` of IDENTIFY, if it had a shard.
    shard: Option<[u32; 2]>,
    /// `json` or `etf`.
    encoding: &'static str,
    /// Compression of its connection; null if it has no connection or none.
    compression: Option<&'static str>,
    /// What writes it: `shared-match`, `per-connection` (a library context), `per-connection, upgraded` (a larger one)
    /// or `prepared` (compressed once for all); null without a connection or compression.
    writer: Option<&'static str>,
    /// Since when, why, and what its compressed stream costs the node; null without a stream.
    stream: Option<StreamBody>,
    /// Number of its guilds.
    guild_count: usize,
    /// Sequence number of its newest dispatch.
    seq: u64,
    /// Dispatches in its replay buffer, or waiting for the client.
    buffered_events: usize,
    /// Bytes of the buffered dispatches.
    buffered_bytes: usize,
    /// `connected` or `resumable`.
    state: &'static str,
    /// Milliseconds in which it can still be resumed; null while it is connected.
    resumable_ms: Option<u64>,
    /// Number of its partition.
    partition: u16,
}

/// Cost of a session's compressed stream.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SessionStream)]
struct StreamBody {
    /// Why `shared-match` took it over from a library context: `crowd` (its events have many recipients), `cpu` or
    /// `memory` (contexts took more than they may); null if it did not.
    moved: Option<&'static str>,
    /// Milliseconds since its writer has had it.
    since_ms: u64,
    /// Bytes of memory that the stream holds.
    memory_bytes: u64,
    /// Dispatches whose compression was timed since then, one in 64.
    timed_total: u64,
    /// Nanoseconds of these.
    timed_ns_total: u64,
}

impl From<StreamView> for StreamBody {
    fn from(view: StreamView) -> Self {
        let StreamView { moved, since_ms, memory_bytes, timed_total, timed_ns_total } = view;
        Self { moved, since_ms, memory_bytes, timed_total, timed_ns_total }
    }
}

impl From<&SessionInfo> for SessionBody {
    fn from((partition, view): &SessionInfo) -> Self {
        Self {
            id: view.id.to_string(),
            user_id: view.user_id.into(),
            bot: view.is_bot,
            shard: view.shard.map(|shard| [shard.id, shard.count]),
            encoding: view.encoding.name(),
            compression: view.compression,
            writer: view.writer,
            stream: view.stream.map(StreamBody::from),
            guild_count: view.guilds_count,
            seq: view.seq,
            buffered_events: view.buffered_events,
            buffered_bytes: view.buffered_bytes,
            state: if view.is_connected { "connected" } else { "resumable" },
            resumable_ms: view.resumable_ms,
            partition: *partition,
        }
    }
}

/// A page of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionList {
    /// In no particular order.
    sessions: Vec<SessionBody>,
    /// `after` of the next page; null on the last. Other pages may be short or empty too.
    next: Option<String>,
}

/// Parameters of a list of sessions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionsQuery {
    /// Only sessions of this account: all of them, on one page.
    #[param(value_type = Option<Snowflake>)]
    user_id: Option<Snowflake>,
    /// `next` of the previous page.
    #[param(pattern = "^[0-9]{1,5}-[0-9]{1,9}$")]
    after: Option<String>,
    /// Maximum number of sessions.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

impl Check for SessionsQuery {
    fn check(&self, faults: &mut FieldErrors) {
        faults.number("limit", self.limit.unwrap_or(100).into(), 1, 1_000);
        if self.after.as_deref().is_some_and(|after| place(after).is_none()) {
            faults.add("after", "Must be the `next` of the page before.");
        }
    }
}

fn place(text: &str) -> Option<SessionPlace> {
    let (partition, slot) = text.split_once('-')?;
    Some(SessionPlace { partition: partition.parse().ok()?, slot: slot.parse().ok()? })
}

/// Lists live sessions
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", params(SessionsQuery),
    responses((status = 200, body = SessionList)))]
pub(super) async fn list(
    _: Caller<Sessions>,
    State(v1): State<Arc<V1>>,
    Query(query): Query<SessionsQuery>,
) -> Result<Json<SessionList>, V1Error> {
    let (sessions, next) = match query.user_id {
        Some(user_id) => (v1.in_time(v1.gateway.of_user(user_id.id())).await?, None),
        None => {
            let from = query.after.as_deref().and_then(place).unwrap_or_default();
            let page = v1.in_time(v1.gateway.page(from, query.limit.unwrap_or(100) as usize)).await?;
            (page.sessions, page.next)
        }
    };
    let next = next.map(|SessionPlace { partition, slot }| format!("{partition}-{slot}"));
    Ok(Json(SessionList { sessions: sessions.iter().map(SessionBody::from).collect(), next }))
}

/// Looks at a session
#[utoipa::path(get, path = "/v1/sessions/{session_id}", tag = "sessions", params(("session_id" = String, Path)),
    responses((status = 200, body = SessionBody), (status = 404, body = V1Error)))]
pub(super) async fn read(
    _: Caller<Sessions>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<SessionBody>, V1Error> {
    let session = v1.in_time(v1.gateway.session(path.text("session_id"))).await?;
    session.as_ref().map(|session| Json(session.into())).ok_or_else(|| V1Error::not_found("session"))
}

/// Closes a session
///
/// The connection is closed with 4009, and there is nothing to resume: the client starts a new session.
#[utoipa::path(delete, path = "/v1/sessions/{session_id}", tag = "sessions", params(("session_id" = String, Path)),
    responses((status = 204, description = "It is gone"), (status = 404, body = V1Error)))]
pub(super) async fn close(_: Caller<Sessions>, State(v1): State<Arc<V1>>, path: Path) -> Result<StatusCode, V1Error> {
    let whose = Whose::Session(path.text("session_id").into());
    match v1.in_time(v1.gateway.close(whose, CloseCode::SessionTimedOut)).await? {
        0 => Err(V1Error::not_found("session")),
        _ => Ok(StatusCode::NO_CONTENT),
    }
}
