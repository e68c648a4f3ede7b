//! Actions: reload and drain. Each is written to the audit log, as every change by a key is.

use super::super::{
    V1,
    caller::{Caller, Write},
    error::V1Error,
};
use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// Settings that a reload changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Reloaded {
    /// Names of the changed settings that are in force now.
    pub applied: Vec<String>,
    /// Names of the changed settings that need a restart.
    pub need_restart: Vec<String>,
}

/// Why an action was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActionFault {
    /// The command that runs this node cannot do it.
    #[error("only a node that `guildhall serve` or `demo` runs can do this")]
    NotHere,
    /// Another action is under way.
    #[error("another action is under way: try again when it is done")]
    Busy,
    /// The configuration cannot be read, or is wrong.
    #[error("the configuration is wrong, and nothing was changed: {0}")]
    Configuration(String),
}

impl From<ActionFault> for V1Error {
    fn from(fault: ActionFault) -> Self {
        let text = fault.to_string();
        let mut chars = text.chars();
        let first = chars.next().map(|first| first.to_ascii_uppercase());
        Self::conflict(first.into_iter().chain(chars).chain(['.']).collect::<String>())
    }
}

/// Reads the configuration again
///
/// As SIGHUP does: settings that may change while the node runs take effect. A wrong configuration changes nothing.
#[utoipa::path(post, path = "/v1/node/reload", tag = "node", responses((status = 200, body = Reloaded),
    (status = 409, description = "The configuration is wrong, or this node cannot reload", body = V1Error)))]
pub(in super::super) async fn reload(_: Caller<Write>, State(v1): State<Arc<V1>>) -> Result<Json<Reloaded>, V1Error> {
    Ok(Json(v1.in_time(v1.reports.reload()).await??))
}

/// Stops the node
///
/// As SIGTERM does: clients reconnect elsewhere, requests in progress are completed, and the process ends. The answer
/// comes before that.
#[utoipa::path(post, path = "/v1/node/drain", tag = "node",
    responses((status = 202, description = "The node drains"),
    (status = 409, description = "This node cannot be stopped from here", body = V1Error)))]
pub(in super::super) async fn drain(_: Caller<Write>, State(v1): State<Arc<V1>>) -> Result<StatusCode, V1Error> {
    v1.in_time(v1.reports.drain()).await??;
    Ok(StatusCode::ACCEPTED)
}
