//! REST: the HTTP API below `/api/v10`, as client libraries expect it, and the one for backends below `/v1` (`v1`).
//!
//! Owns        routes, authentication, forms and their complaints, error bodies, rate limits.
//! Doors       `router` for clients, `ops_router` for orchestrators. Both are plain `axum::Router`s; the code that
//!             accepts connections answers WebSocket upgrades first, and sets `Peer`.
//! Invariants  a request reaches a guild only authenticated, within its limits, and with every length and count
//!             checked; nothing is read of a body before that is known to be worth it (`known`).
//! Limits      `ApiLimits`: rates, body sizes, deadlines, requests in flight.
//! Not here    permissions and state (`guildhall-guild`), tokens (`guildhall-node`), sockets (`guildhall-net`).
//!             Spec  docs/protocol/reference.md §10.
#![forbid(unsafe_code)]

mod auth;
mod body;
mod chat;
mod dashboard;
mod dictionaries;
mod error;
mod form;
mod limits;
mod middleware;
mod normalize_path;
mod permit;
mod routes;
mod state;
mod unserved;
mod user_policy;
mod v1;

pub use chat::{ChatPage, VisitorGuild, VisitorLimits, Visitors, chat_router};
pub use dashboard::Cookies;
pub use dictionaries::dictionaries_router;
pub use guildhall_http_kit::{Peer, RequestNote, RequestTracer, RestAccount, Rule, observe, ops_router, peer_from};
pub use guildhall_media::{Files, FilesOptions, SETTLED_AFTER, Sweeper, files_router};
pub use limits::{ApiLimits, Bucket, RateRules};
pub use state::{ApiState, SessionStartLimit, SessionStarts};
pub use unserved::{OTHER, Unserved};
pub use user_policy::UserPolicy;
pub use v1::{
    ActionFault, AuditPruner, BackendRouters, DrainQuestion, Gateway, NoGateway, NoReports, NodeReports, NodeState,
    Reloaded, SessionEvents, SessionFilter, SessionInfo, SessionPlace, SessionsPage, V1Limits, V1State,
    backend_routers, v1_document,
};

use axum::{Router, extract::Request};
use state::Api;
use std::sync::Arc;

/// The API for clients: `/api/v10/…`, `/api/v9/…` and `/api/…`. Everything else is answered with 404, in JSON.
pub fn router(state: ApiState) -> Router {
    let api = Arc::new(Api::new(state));
    let routes = routes::routes(Arc::clone(&api));
    Router::new().fallback(move |request: Request| normalize_path::normalize(Arc::clone(&api), routes.clone(), request))
}
