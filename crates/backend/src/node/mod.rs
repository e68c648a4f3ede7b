//! Node: the figures of this node, and actions of operators.
//!
//! Owns        the routes below `/v1/node`, and `NodeReports`, the API's interface to the figures.
//! Invariants  any key reads the node's state and figures, but a key that manages tokens alone or publishes alone
//!             learns nothing about others: reports need the scope `read`, those of sessions and callers
//!             `sessions`, actions `write`.
//! Limits      `GUILDS_MAX` guilds, `SESSIONS_MAX` sessions and `CALLERS_MAX` callers in one
//!             report; `history::PREFIXES_MAX` prefixes.
//! Not here    requests about other nodes: `elsewhere`. Shapes of reports: `guildhall_accounting::report`. What
//!             fills them: `guildhall_telemetry::reports`.
//! Spec        docs/backend-api.md "Node".

mod actions;
mod elsewhere;
mod history;

pub(super) use actions::*;
pub(super) use elsewhere::{Elsewhere, asked_elsewhere, forward};
pub(super) use history::*;

pub use actions::{ActionFault, Reloaded};

use super::{
    V1,
    caller::{AnyScope, Caller, Read, Sessions},
    error::V1Error,
    extract::{Check, FieldErrors, Path, Query},
    types::{Snowflake, Time},
};
use async_trait::async_trait;
use axum::{Json, extract::State};
use guildhall_accounting::{
    HistoryReport, Sample,
    report::{
        BandwidthReport, CallersReport, CompressionReport, FilesReport, GuildReport, GuildsReport, OperationsReport,
        OverviewReport, SessionReport, SessionsReport,
    },
};
use guildhall_model::{GuildId, UserId};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::watch;
use utoipa::{IntoParams, ToSchema};

/// Guilds of one report.
const GUILDS_MAX: u32 = 10_000;
/// Sessions of one report.
const SESSIONS_MAX: u32 = 10_000;
/// Callers of each kind in one report, and owners of files.
const CALLERS_MAX: u32 = 100;

/// State of the node, for `GET /v1/node`.
#[derive(Clone, Debug, Default)]
pub struct NodeState {
    /// Version of the program.
    pub version: &'static str,
    /// Start of the process.
    pub started_at: Timestamp,
    /// Why the node takes no clients; none while it does.
    pub not_ready: Option<&'static str>,
}

/// Selects sessions of a report; without a field, any value matches.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Only sessions of this account.
    pub user_id: Option<UserId>,
    /// A guild of the session.
    pub guild_id: Option<GuildId>,
    /// Beginning of the session id.
    pub id: Option<String>,
    /// Whether it has a connection.
    pub connected: Option<bool>,
    /// Compression of its connection, `none` included.
    pub codec: Option<String>,
}

/// The node's figures. Reports are collected on request; they may wait for a turn of the partitions.
#[async_trait]
pub trait NodeReports: Send + Sync + 'static {
    /// State of the node. Must not block.
    fn state(&self) -> NodeState;
    /// Health, connections, loops and memory.
    async fn overview(&self) -> OverviewReport;
    /// Bytes by dispatch type.
    async fn bandwidth(&self) -> BandwidthReport;
    /// The busiest guilds, at most `limit`.
    async fn guilds(&self, limit: usize) -> GuildsReport;
    /// One guild; none if it is not loaded.
    async fn guild(&self, guild_id: GuildId) -> Option<GuildReport>;
    /// Sessions that match, at most `limit`.
    async fn sessions(&self, filter: SessionFilter, limit: usize) -> SessionsReport;
    /// One session; none if there is no such session.
    async fn session(&self, id: &str) -> Option<SessionReport>;
    /// The loudest callers of the last minute, at most `limit` of each kind.
    async fn callers(&self, limit: usize) -> CallersReport;
    /// Owners of the uploaded files, at most `limit` of each kind; none if uploads are off.
    async fn files(&self, limit: usize) -> Option<FilesReport>;
    /// Contexts, upgrades and shared-match.
    async fn compression(&self) -> CompressionReport;
    /// Settings, refusals and warnings.
    async fn operations(&self) -> OperationsReport;
    /// The newest `window_s` seconds of the series that begin with one of the prefixes; of all without any.
    fn history(&self, window_s: u64, prefixes: &[String]) -> HistoryReport;
    /// The sample of each second. A slow reader misses samples.
    fn samples(&self) -> watch::Receiver<Arc<Sample>>;
    /// Reads the configuration again.
    async fn reload(&self) -> Result<Reloaded, ActionFault>;
    /// Begins to drain; returns before the node stops.
    async fn drain(&self) -> Result<(), ActionFault>;
}

/// No figures at all, for a router without a node around it.
#[derive(Debug)]
pub struct NoReports(watch::Sender<Arc<Sample>>);

impl Default for NoReports {
    fn default() -> Self {
        Self(watch::Sender::new(Arc::default()))
    }
}

#[async_trait]
impl NodeReports for NoReports {
    fn state(&self) -> NodeState {
        NodeState { version: env!("CARGO_PKG_VERSION"), ..NodeState::default() }
    }
    async fn overview(&self) -> OverviewReport {
        OverviewReport::default()
    }
    async fn bandwidth(&self) -> BandwidthReport {
        BandwidthReport::default()
    }
    async fn guilds(&self, _: usize) -> GuildsReport {
        GuildsReport::default()
    }
    async fn guild(&self, _: GuildId) -> Option<GuildReport> {
        None
    }
    async fn sessions(&self, _: SessionFilter, _: usize) -> SessionsReport {
        SessionsReport::default()
    }
    async fn session(&self, _: &str) -> Option<SessionReport> {
        None
    }
    async fn callers(&self, _: usize) -> CallersReport {
        CallersReport::default()
    }
    async fn files(&self, _: usize) -> Option<FilesReport> {
        None
    }
    async fn compression(&self) -> CompressionReport {
        CompressionReport::default()
    }
    async fn operations(&self) -> OperationsReport {
        OperationsReport::default()
    }
    fn history(&self, _: u64, _: &[String]) -> HistoryReport {
        HistoryReport::default()
    }
    fn samples(&self) -> watch::Receiver<Arc<Sample>> {
        self.0.subscribe()
    }
    async fn reload(&self) -> Result<Reloaded, ActionFault> {
        Err(ActionFault::NotHere)
    }
    async fn drain(&self) -> Result<(), ActionFault> {
        Err(ActionFault::NotHere)
    }
}

/// State of the node, and rights of the key.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NodeState)]
pub(super) struct StateBody {
    /// Version of the program.
    version: &'static str,
    /// Start of the process.
    started_at: Time,
    /// Clock of the node.
    now: Time,
    /// Whether `/readyz` answers 200.
    ready: bool,
    /// Why it does not; null while it does.
    unready: Option<&'static str>,
    /// Scopes of the key.
    scopes: Vec<&'static str>,
    /// Name of the key.
    key_name: String,
}

/// Reads the node's state
///
/// Any key may: the answer also names the key and its scopes.
#[utoipa::path(get, path = "/v1/node", tag = "node", responses((status = 200, body = StateBody)))]
pub(super) async fn state(caller: Caller<AnyScope>, State(v1): State<Arc<V1>>) -> Json<StateBody> {
    let NodeState { version, started_at, not_ready } = v1.reports.state();
    Json(StateBody {
        version,
        started_at: Time(started_at),
        now: Time(v1.now().unix),
        ready: not_ready.is_none(),
        unready: not_ready,
        scopes: caller.key.scopes.iter().map(|scope| scope.as_str()).collect(),
        key_name: caller.key.name,
    })
}

/// Reports health, connections, loops and memory
#[utoipa::path(get, path = "/v1/node/overview", tag = "node", responses((status = 200, body = OverviewReport)))]
pub(super) async fn overview(_: Caller<Read>, State(v1): State<Arc<V1>>) -> Result<Json<OverviewReport>, V1Error> {
    v1.in_time(v1.reports.overview()).await.map(Json)
}

/// Reports bytes by dispatch type
#[utoipa::path(get, path = "/v1/node/bandwidth", tag = "node", responses((status = 200, body = BandwidthReport)))]
pub(super) async fn bandwidth(_: Caller<Read>, State(v1): State<Arc<V1>>) -> Result<Json<BandwidthReport>, V1Error> {
    v1.in_time(v1.reports.bandwidth()).await.map(Json)
}

/// Order of guilds in a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum GuildOrder {
    /// Time of their worker, the most first.
    #[default]
    Busy,
}

/// Parameters of the report of guilds.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct GuildsQuery {
    /// Maximum number of guilds; 100 if omitted.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<u32>,
    /// Order of the guilds, of which `limit` keeps the first.
    #[param(inline)]
    sort: Option<GuildOrder>,
}

impl Check for GuildsQuery {
    fn check(&self, faults: &mut FieldErrors) {
        let GuildOrder::Busy = self.sort.unwrap_or_default();
        faults.number("limit", self.limit.unwrap_or(100).into(), 1, GUILDS_MAX.into());
    }
}

/// Reports the busiest guilds
#[utoipa::path(get, path = "/v1/node/guilds", tag = "node", params(GuildsQuery),
    responses((status = 200, body = GuildsReport)))]
pub(super) async fn guilds(
    _: Caller<Read>,
    State(v1): State<Arc<V1>>,
    Query(query): Query<GuildsQuery>,
) -> Result<Json<GuildsReport>, V1Error> {
    v1.in_time(v1.reports.guilds(query.limit.unwrap_or(100) as usize)).await.map(Json)
}

/// Reports one guild
///
/// Only a guild that is loaded has a report: a guild is loaded while it is used.
#[utoipa::path(get, path = "/v1/node/guilds/{guild_id}", tag = "node", params(("guild_id" = String, Path)),
    responses((status = 200, body = GuildReport), (status = 404, body = V1Error)))]
pub(super) async fn guild(
    _: Caller<Read>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<GuildReport>, V1Error> {
    let guild_id = path.id("guild_id")?;
    let report = v1.in_time(v1.reports.guild(guild_id)).await?;
    report.map(Json).ok_or_else(|| V1Error::not_found("loaded guild"))
}

/// Parameters of the report of sessions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionsQuery {
    /// Only sessions of this account.
    #[param(value_type = Option<Snowflake>)]
    user_id: Option<Snowflake>,
    /// Only sessions in this guild.
    #[param(value_type = Option<Snowflake>)]
    guild_id: Option<Snowflake>,
    /// Only sessions whose id begins with this text.
    #[param(max_length = 64)]
    id: Option<String>,
    /// Only sessions with a connection (`true`), or without one (`false`).
    connected: Option<bool>,
    /// Only sessions whose connection has this compression; `none` for no compression.
    #[param(max_length = 32)]
    codec: Option<String>,
    /// Maximum number of sessions; 100 if omitted.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<u32>,
}

impl Check for SessionsQuery {
    fn check(&self, faults: &mut FieldErrors) {
        faults.number("limit", self.limit.unwrap_or(100).into(), 1, SESSIONS_MAX.into());
        faults.optional_text("id", self.id.as_deref(), 64);
        faults.optional_text("codec", self.codec.as_deref(), 32);
    }
}

/// Reports sessions that match
#[utoipa::path(get, path = "/v1/node/sessions", tag = "node", params(SessionsQuery),
    responses((status = 200, body = SessionsReport)))]
pub(super) async fn sessions(
    _: Caller<Sessions>,
    State(v1): State<Arc<V1>>,
    Query(query): Query<SessionsQuery>,
) -> Result<Json<SessionsReport>, V1Error> {
    let SessionsQuery { user_id, guild_id, id, connected, codec, limit } = query;
    let (user_id, guild_id) = (user_id.map(Snowflake::id), guild_id.map(Snowflake::id));
    let filter = SessionFilter { user_id, guild_id, id, connected, codec };
    v1.in_time(v1.reports.sessions(filter, limit.unwrap_or(100) as usize)).await.map(Json)
}

/// Reports one session, with its last dispatches
#[utoipa::path(get, path = "/v1/node/sessions/{session_id}", tag = "node", params(("session_id" = String, Path)),
    responses((status = 200, body = SessionReport), (status = 404, body = V1Error)))]
pub(super) async fn session(
    _: Caller<Sessions>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<SessionReport>, V1Error> {
    let report = v1.in_time(v1.reports.session(path.text("session_id"))).await?;
    report.map(Json).ok_or_else(|| V1Error::not_found("session"))
}

/// Parameters of the reports of callers and files.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitQuery {
    /// Maximum number of each kind; 20 if omitted.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

impl Check for LimitQuery {
    fn check(&self, faults: &mut FieldErrors) {
        faults.number("limit", self.limit.unwrap_or(20).into(), 1, CALLERS_MAX.into());
    }
}

/// Reports the loudest callers of the last minute
///
/// Accounts, keys and addresses by their requests to REST and the backend API, with the wall time of these.
#[utoipa::path(get, path = "/v1/node/callers", tag = "node", params(LimitQuery),
    responses((status = 200, body = CallersReport)))]
pub(super) async fn callers(
    _: Caller<Sessions>,
    State(v1): State<Arc<V1>>,
    Query(query): Query<LimitQuery>,
) -> Result<Json<CallersReport>, V1Error> {
    v1.in_time(v1.reports.callers(query.limit.unwrap_or(20) as usize)).await.map(Json)
}

/// Reports whose the uploaded files are
///
/// By guild, and by account or webhook within the last day.
#[utoipa::path(get, path = "/v1/node/files", tag = "node", params(LimitQuery),
    responses((status = 200, body = FilesReport), (status = 404, description = "Uploads are off", body = V1Error)))]
pub(super) async fn files(
    _: Caller<Read>,
    State(v1): State<Arc<V1>>,
    Query(query): Query<LimitQuery>,
) -> Result<Json<FilesReport>, V1Error> {
    let report = v1.in_time(v1.reports.files(query.limit.unwrap_or(20) as usize)).await?;
    report.map(Json).ok_or_else(|| V1Error::not_found("store of files: uploads.mode is \"off\""))
}

/// Reports contexts, upgrades and shared-match
#[utoipa::path(get, path = "/v1/node/compression", tag = "node", responses((status = 200, body = CompressionReport)))]
pub(super) async fn compression(
    _: Caller<Read>,
    State(v1): State<Arc<V1>>,
) -> Result<Json<CompressionReport>, V1Error> {
    v1.in_time(v1.reports.compression()).await.map(Json)
}

/// Reports settings in force, refusals and warnings
///
/// Secrets are not shown.
#[utoipa::path(get, path = "/v1/node/operations", tag = "node", responses((status = 200, body = OperationsReport)))]
pub(super) async fn operations(_: Caller<Read>, State(v1): State<Arc<V1>>) -> Result<Json<OperationsReport>, V1Error> {
    v1.in_time(v1.reports.operations()).await.map(Json)
}
