//! Ops: health and readiness for orchestrators.
//!
//! Doors       `ops_router`: `/healthz` (the process answers) and `/readyz` (it should be sent clients).

use axum::{Router, http::StatusCode, routing::get};

/// `/healthz` answers 200 as long as the process runs. `/readyz` answers 200 while `ready` returns `Ok`, otherwise 503
/// with the reason as text.
pub fn ops_router(ready: impl Fn() -> Result<(), &'static str> + Clone + Send + Sync + 'static) -> Router {
    let readyz = move || {
        let ready = ready();
        async move {
            match ready {
                Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
                Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
            }
        }
    };
    Router::new().route("/healthz", get(|| async { "ok\n" })).route("/readyz", get(readyz))
}
