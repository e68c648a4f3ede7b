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

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{body::Body, http::Request};

    #[tokio::test]
    async fn ops() {
        use std::sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        };
        use tower::ServiceExt;
        let ready = Arc::new(AtomicBool::new(false));
        let is_ready = ready.clone();
        let router = ops_router(move || if is_ready.load(Ordering::SeqCst) { Ok(()) } else { Err("it starts") });
        let status = async |path: &str| {
            router.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap().status().as_u16()
        };
        assert_eq!((status("/healthz").await, status("/readyz").await), (200, 503));
        ready.store(true, Ordering::SeqCst);
        assert_eq!(status("/readyz").await, 200);
    }
}
