//! Dark launches: what sessions are sent, compressed in other arms as well, and the bytes dropped.
//!
//! Owns        the route `/v1/lab/dark`, its bodies and bounds.
//! Limits      one at a time, with up to four arms.
//! Not here    encoders and sums: `guildhall-lab`.     Spec  docs/lab.md "A dark launch".

use super::{
    V1,
    caller::{Caller, Lab as LabScope},
    error::V1Error,
    extract::{Body, Check, FieldErrors},
    lab::{LabFault, check_filter, check_share},
};
use axum::{Json, extract::State, http::StatusCode};
use guildhall_model::GuildId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

const ARMS_MAX: usize = 4;
const CPU_PERMILLE_MAX: i64 = 500;
const MEMORY_MIN: i64 = 1 << 20;
const MEMORY_MAX: i64 = 1 << 30;

/// A dark launch to start.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DarkPlan {
    /// Arms, such as `zstd:level=3,window=21`.
    #[schema(min_items = 1, max_items = 4)]
    pub arms: Vec<String>,
    /// One session in this many.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1_000_000, default = 1)]
    pub one_in: u32,
    /// Number of sessions.
    #[serde(default = "sessions")]
    #[schema(minimum = 1, maximum = 1_000, default = 16)]
    pub sessions_max: u32,
    /// Thousandths of a core; 0: no session is copied.
    #[serde(default = "permille")]
    #[schema(minimum = 0, maximum = 500, default = 10)]
    pub cpu_permille: u32,
    /// Bytes of all contexts.
    #[serde(default = "memory")]
    #[schema(minimum = 1_048_576, maximum = 1_073_741_824, default = 67_108_864)]
    pub memory_bytes_max: u64,
    /// Only members of this guild.
    #[serde(default)]
    #[schema(value_type = Option<crate::types::Snowflake>)]
    pub guild_id: Option<GuildId>,
    /// Only sessions on this platform: `desktop`, `mobile`, `web`, `embedded` or `vr`.
    #[serde(default)]
    pub platform: Option<String>,
    /// Only sessions with this encoding: `json` or `etf`.
    #[serde(default)]
    pub encoding: Option<String>,
}

fn one() -> u32 {
    1
}

fn sessions() -> u32 {
    16
}

fn permille() -> u32 {
    10
}

fn memory() -> u64 {
    64 << 20
}

impl Check for DarkPlan {
    fn check(&self, faults: &mut FieldErrors) {
        faults.count("arms", self.arms.len(), 1, ARMS_MAX);
        check_share(faults, self.one_in, self.sessions_max);
        faults.number("cpu_permille", self.cpu_permille.into(), 0, CPU_PERMILLE_MAX);
        let memory = self.memory_bytes_max.try_into().unwrap_or(i64::MAX);
        faults.number("memory_bytes_max", memory, MEMORY_MIN, MEMORY_MAX);
        check_filter(faults, self.platform.as_deref(), self.encoding.as_deref());
    }
}

/// A dark launch.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = DarkLaunch)]
pub struct DarkBody {
    /// `running`, `stopped` or `failed`.
    pub state: &'static str,
    /// Unix time of the start, seconds.
    pub started_at: u64,
    /// Sessions so far.
    pub sessions: u64,
    /// Sessions that are measured now. It begins with one, and has more while the CPU time suffices.
    pub sessions_now: u64,
    /// Sessions that left the sample early because the CPU time did not suffice: raise `cpu_permille`, or compare fewer
    /// arms. The newest leave first, and later a session is added again.
    pub sessions_busy: u64,
    /// Sessions that were left out because of `memory_bytes_max`.
    pub sessions_memory: u64,
    /// Memory of all contexts now.
    pub memory_bytes: u64,
    /// Thousandths of a core that it may use.
    pub cpu_permille: u32,
    /// CPU time that it has used.
    pub cpu_ns: u64,
    /// Figures of each arm, in the order of the plan.
    pub arms: Vec<DarkArm>,
}

/// An arm of a dark launch.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct DarkArm {
    /// The arm, with all its parameters.
    pub arm: String,
    /// Memory of one connection, the largest so far.
    pub connection_bytes: u64,
    /// All dispatches.
    pub total: DarkSum,
    /// By dispatch type.
    pub types: Vec<DarkType>,
}

/// A dispatch type in an arm.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct DarkType {
    /// Name of the event.
    pub name: String,
    #[serde(flatten)]
    pub sum: DarkSum,
}

/// Sums over the dispatches of one arm and type.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct DarkSum {
    /// Number of dispatches.
    pub count: u64,
    /// Bytes before compression, with WebSocket headers.
    pub plain_bytes: u64,
    /// Bytes after it, with WebSocket headers.
    pub wire_bytes: u64,
    /// CPU time of compression.
    pub cpu_ns: u64,
}

/// Starts a dark launch
///
/// Compresses the dispatches of a share of this node's sessions in other arms as well, and drops the bytes. Clients
/// receive the same bytes with and without it.
#[utoipa::path(post, path = "/v1/lab/dark", tag = "lab", request_body = DarkPlan,
    responses((status = 201, body = DarkBody),
    (status = 409, description = "Another one runs, or this node has no lab", body = V1Error)))]
pub(super) async fn start(
    caller: Caller<LabScope>,
    State(v1): State<Arc<V1>>,
    body: Body<DarkPlan>,
) -> Result<(StatusCode, Json<DarkBody>), V1Error> {
    let plan = body.read(&v1, caller.permit()).await?;
    match v1.in_time(v1.lab.start_dark(plan)).await? {
        Ok(dark) => Ok((StatusCode::CREATED, Json(dark))),
        Err(LabFault::Arms(message)) => Err(V1Error::field("arms", message)),
        Err(fault) => Err(fault.into()),
    }
}

/// Reads the figures of the dark launch
///
/// Of the one that runs, or of the last one.
#[utoipa::path(get, path = "/v1/lab/dark", tag = "lab",
    responses((status = 200, body = DarkBody), (status = 404, body = V1Error)))]
pub(super) async fn read(_: Caller<LabScope>, State(v1): State<Arc<V1>>) -> Result<Json<DarkBody>, V1Error> {
    let dark = v1.in_time(v1.lab.dark()).await?;
    dark.map(Json).ok_or_else(|| V1Error::not_found("dark launch"))
}

/// Ends the dark launch
///
/// Its figures stay until the next one starts. The second time they are discarded.
#[utoipa::path(delete, path = "/v1/lab/dark", tag = "lab",
    responses((status = 204, description = "It has ended, or is discarded"), (status = 404, body = V1Error)))]
pub(super) async fn stop(_: Caller<LabScope>, State(v1): State<Arc<V1>>) -> Result<StatusCode, V1Error> {
    match v1.in_time(v1.lab.stop_dark()).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(V1Error::not_found("dark launch")),
    }
}
