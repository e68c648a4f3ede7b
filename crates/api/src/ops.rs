//! Ops: what an orchestrator asks.
//!
//! Doors       `ops_router`: `/healthz` (the process answers) and `/readyz` (it should be sent clients).

use axum::{Router, http::StatusCode, routing::get};

/// `/healthz` answers 200 as long as the process does; `/readyz` answers 200 while `ready` says so, else 503.
pub fn ops_router(ready: impl Fn() -> bool + Clone + Send + Sync + 'static) -> Router {
    let readyz = move || {
        let ready = ready();
        async move { if ready { (StatusCode::OK, "ready\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready\n") } }
    };
    Router::new().route("/healthz", get(|| async { "ok\n" })).route("/readyz", get(readyz))
}
