//! HTTP: the sockets of clients until they are WebSockets.
//!
//! Doors       `serve` per listener; a `RequestHandler` decides what each request gets.
//! Limits      `HEAD_WAIT` for a request, `BODY_BYTES_MAX`, `SOCKETS_MAX` at a time.

use bytes::Bytes;
use guildhall_ws_proto::handshake::UpgradeRequest;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request, Response, StatusCode, Version,
    body::Incoming,
    header::{self, HeaderMap, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

const HEAD_WAIT: Duration = Duration::from_secs(60);
const BODY_BYTES_MAX: usize = 1 << 20;
const SOCKETS_MAX: usize = 16_384;

/// The parts of a request on which a decision depends.
#[derive(Clone, Debug)]
pub(crate) struct ClientRequest {
    pub method: String,
    pub path: String,
    /// Behind the question mark.
    pub query: String,
    pub user_agent: Option<String>,
    pub is_upgrade: bool,
    /// Number of the listener.
    pub listener: usize,
    pub body: Bytes,
}

/// Decision about a request.
#[derive(Debug)]
pub(crate) enum Decision {
    /// The upgrade; `RequestHandler::opened` gets the socket.
    Upgrade,
    Answer {
        status: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
}

/// Decides about requests.
pub(crate) trait RequestHandler: Send + Sync + 'static {
    fn decide(&self, request: &ClientRequest) -> Decision;
    /// A socket after its upgrade. `early` has arrived behind the request.
    fn opened(self: Arc<Self>, request: ClientRequest, stream: TcpStream, early: Vec<u8>);
}

/// Serves a listener until its task is aborted.
pub(crate) async fn serve(listener: TcpListener, number: usize, handler: Arc<impl RequestHandler>) {
    let places = Arc::new(Semaphore::new(SOCKETS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors: others close meanwhile.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let handler = handler.clone();
        tokio::spawn(async move {
            serve_socket(stream, number, handler).await;
            drop(place);
        });
    }
}

async fn serve_socket(stream: TcpStream, number: usize, handler: Arc<impl RequestHandler>) {
    // Pieces that are written one by one leave one by one.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|incoming| handle(incoming, number, handler.clone()));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_WAIT).max_buf_size(64 << 10);
    let _ = http.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
}

async fn handle(
    mut incoming: Request<Incoming>,
    listener: usize,
    handler: Arc<impl RequestHandler>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let text = |headers: &HeaderMap, name: HeaderName| Some(headers.get(name)?.to_str().ok()?.to_owned());
    let wants = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.to_ascii_lowercase().contains("websocket"));
    let is_upgrade = incoming.headers().get_all(header::UPGRADE).iter().any(wants);
    let mut request = ClientRequest {
        method: incoming.method().to_string(),
        path: incoming.uri().path().to_owned(),
        query: incoming.uri().query().unwrap_or_default().to_owned(),
        user_agent: text(incoming.headers(), header::USER_AGENT),
        is_upgrade,
        listener,
        body: Bytes::new(),
    };
    if !is_upgrade {
        match Limited::new(incoming.body_mut(), BODY_BYTES_MAX).collect().await {
            Ok(body) => request.body = body.to_bytes(),
            Err(_) => return Ok(plain(413, "the body is too large, or was cut\n")),
        }
    }
    match handler.decide(&request) {
        Decision::Answer { status, headers, body } => Ok(answer(status, headers, body)),
        Decision::Upgrade => Ok(upgrade(incoming, request, handler)),
    }
}

fn upgrade(
    mut incoming: Request<Incoming>,
    request: ClientRequest,
    handler: Arc<impl RequestHandler>,
) -> Response<Full<Bytes>> {
    let http_version = if incoming.version() == Version::HTTP_11 { (1, 1) } else { (1, 0) };
    let mut handshake = UpgradeRequest::new(incoming.method().as_str(), http_version);
    for (name, value) in incoming.headers() {
        handshake.handle_header(name.as_str(), value.as_bytes());
    }
    let accept = match handshake.accept() {
        Ok(accept) => accept,
        Err(error) => return plain(error.http_status(), &format!("{error}\n")),
    };
    let upgrade = hyper::upgrade::on(&mut incoming);
    tokio::spawn(async move {
        if let Ok(upgraded) = upgrade.await
            && let Ok(parts) = upgraded.downcast::<TokioIo<TcpStream>>()
        {
            handler.opened(request, parts.io.into_inner(), parts.read_buf.to_vec());
        }
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_ACCEPT, &accept[..])
        .body(Full::default())
        .unwrap_or_default()
}

fn answer(status: u16, headers: Vec<(String, String)>, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(status);
    if !body.is_empty() {
        response = response.header(header::CONTENT_TYPE, "application/json");
    }
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(Full::from(body)).unwrap_or_default()
}

fn plain(status: u16, text: &str) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, "text/plain; charset=utf-8");
    response.body(Full::from(text.to_owned())).unwrap_or_default()
}

/// Binds a listener.
pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
