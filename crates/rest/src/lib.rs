//! REST: the HTTP API below `/api/v10`, as client libraries expect it, and the chat page.
//!
//! Owns        routes, authentication, forms and their complaints, errors, rate limits.
//! Doors       `router` for clients, `chat_router` for the page. They are plain `axum::Router`s;
//!             the code that accepts connections answers WebSocket upgrades first, and sets `guildhall_http_kit::Peer`.
//! Invariants  a request reaches a guild only authenticated, within its limits, and with every length and count
//!             checked; nothing is read of a body before that is known to be worth it (`known`).
//! Limits      `ApiLimits`: rates, body sizes, deadlines, requests in flight.
//! Not here    permissions and state (`guildhall-guild`), tokens (`guildhall-node`), sockets (`guildhall-net`), files
//!             (`guildhall-media`), the API of backends (`guildhall-backend`).
//!             Spec  docs/protocol/reference.md §10.
#![forbid(unsafe_code)]

mod auth;
mod body;
mod chat;
mod dictionaries;
mod error;
mod form;
mod limits;
mod message_input;
mod middleware;
mod normalize_path;
mod permit;
mod routes;
mod state;
mod unserved;
mod upstream;
mod user_policy;

pub use chat::{ChatPage, VisitorGuild, VisitorLimits, Visitors, chat_router};
pub use limits::{ApiLimits, Bucket, RateRules};
pub use message_input::{FieldFault, message_patch, new_message};
pub use permit::BodyPermit;
pub use routes::Route;
pub use state::{ApiState, NoStreams, OwnStream, OwnStreams, SessionStartLimit, SessionStarts};
pub use unserved::{OTHER, Unserved};
pub use user_policy::UserPolicy;

use axum::{Router, extract::Request};
use state::Api;
use std::sync::Arc;

/// The routes below the version prefix.
#[must_use]
pub fn routes() -> &'static [Route] {
    routes::ROUTES
}

/// The API for clients: `/api/v10/…`, `/api/v9/…` and `/api/…`, and `/dictionaries`. Everything else is answered with
/// 404, in JSON.
pub fn router(state: ApiState) -> Router {
    let api = Arc::new(Api::new(state));
    let routes = routes::router(Arc::clone(&api));
    dictionaries::router(Arc::clone(&api))
        .fallback(move |request: Request| normalize_path::normalize(Arc::clone(&api), routes.clone(), request))
}
