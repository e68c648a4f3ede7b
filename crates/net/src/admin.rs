//! Admin: a listener of its own for health and metrics, which no proxy in front of the node leads to.
//!
//! Limits  `SOCKETS_MAX` at once, further ones are closed; `HEAD_TIMEOUT` for a request's head and between two
//!         requests, `WRITE_STALL` for a client that does not read. It has no TLS and takes no upgrades.

use crate::{
    http::{HEAD_BYTES_MAX, HEAD_TIMEOUT, HttpCounters},
    progress::{Progress, Watched},
};
use axum::{Router, body::Body};
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tower::ServiceExt as _;

const SOCKETS_MAX: usize = 32;
const WRITE_STALL: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `http` on `listener` until the future is dropped.
pub async fn serve_admin(listener: TcpListener, http: Router) {
    let places = Arc::new(Semaphore::new(SOCKETS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let http = http.clone();
        tokio::spawn(async move {
            serve(stream, http).await;
            drop(place);
        });
    }
}

async fn serve(stream: TcpStream, router: Router) {
    let progress = Progress::new(WRITE_STALL, Arc::new(HttpCounters::default()));
    progress.set_rest();
    let service = service_fn(move |request: Request<Incoming>| {
        let router = router.clone();
        async move {
            Ok::<_, Infallible>(router.oneshot(request.map(Body::new)).await.unwrap_or_else(|never| match never {}))
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    // What ends a connection early is the client's doing.
    let _ = http.serve_connection(TokioIo::new(Watched::new(stream, Vec::new(), progress)), service).await;
}
