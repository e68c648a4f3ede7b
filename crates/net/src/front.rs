//! Front: the listener, HTTP, and the upgrade to WebSocket.
//!
//! Owns        connections until they are upgraded, and REST connections for their whole life.
//! Invariants  nothing is kept for a client before it is a gateway connection but hyper's small buffers, and those have a deadline.
//! Limits      `connections_max` for the node, past it 503; `admission` for addresses and handshakes; `HEAD_TIMEOUT` for a request's head, `HEAD_BYTES_MAX` for its size.

use crate::{
    admission::{Admission, Handshake, Peers, TooMany},
    body,
    mailbox::{ConnPermit, Mailbox, Note},
    tls::Records,
    url::parse_query,
};
use axum::{Router, body::Body};
use guildhall_codec::Dictionaries;
use guildhall_partition::Compression;
use guildhall_ws_proto::{DeflateNegotiation, DeflatePolicy, handshake::UpgradeRequest};
use hyper::{Request, Response, StatusCode, Version, body::Incoming, header, service::service_fn, upgrade::Upgraded};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tower::ServiceExt;

const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 16 << 10;
/// After a failed accept (out of files, say) the listener rests this long instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a client is told to wait whose node is stopping.
const DRAINING_RETRY_S: u32 = 1;

/// What every connection of the front shares.
pub struct Front {
    pub http: Router,
    pub mailboxes: Arc<[Mailbox]>,
    pub conns_count: Arc<AtomicUsize>,
    pub connections_max: AtomicUsize,
    /// The node is about to stop: nobody is upgraded any more.
    pub is_draining: AtomicBool,
    /// What `dict` may name.
    pub dictionaries: Dictionaries,
    /// What is agreed on with clients that offer permessage-deflate. None: nothing.
    pub deflate: Option<DeflatePolicy>,
    /// Partitions take turns.
    pub next_partition: AtomicUsize,
    /// None: nobody speaks TLS here.
    pub tls: Option<TlsAcceptor>,
    pub admission: Arc<Admission>,
    pub peers: Peers,
}

/// Accepts until the task is dropped.
pub async fn accept(front: Arc<Front>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve(front.clone(), stream, peer));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(front: Arc<Front>, stream: TcpStream, peer: SocketAddr) {
    let count = front.conns_count.fetch_add(1, Ordering::Relaxed);
    let permit = ConnPermit::new(front.conns_count.clone());
    if count >= front.connections_max.load(Ordering::Relaxed) {
        return refuse(&front, stream).await;
    }
    let Some(handshake) = front.admission.begin(peer.ip(), &front.peers) else { return refuse(&front, stream).await };
    // The permit goes with the socket: to a partition, or with this task.
    let front_tls = front.tls.clone();
    let permit = Arc::new(std::sync::Mutex::new(Some(permit)));
    let handshake = Arc::new(std::sync::Mutex::new(Some(handshake)));
    let service = service_fn(move |request| {
        let (front, permit) = (front.clone(), permit.clone());
        end_handshake(&handshake);
        async move { Ok::<_, Infallible>(front.handle(request, peer, &permit).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    // What ends a connection early is the client's doing; it has its answer, or is gone.
    let _ = match &front_tls {
        None => http.serve_connection(TokioIo::new(stream), service).with_upgrades().await,
        Some(tls) => match tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => http.serve_connection(TokioIo::new(stream), service).with_upgrades().await,
            Ok(Err(_)) | Err(_) => Ok(()),
        },
    };
}

/// The first request is there: whatever comes of it, the socket has shown that somebody speaks HTTP.
fn end_handshake(handshake: &std::sync::Mutex<Option<Handshake>>) {
    drop(handshake.lock().ok().and_then(|mut handshake| handshake.take()));
}

/// Without a word for clients that speak TLS: a handshake is what there is no room for.
async fn refuse(front: &Front, stream: TcpStream) {
    if front.tls.is_some() {
        return;
    }
    const ANSWER: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 5\r\nconnection: close\r\n\r\n";
    // The runtime does not know yet that it can be written to; the kernel does.
    if let Ok(mut stream) = stream.into_std() {
        let _ = std::io::Write::write(&mut stream, ANSWER);
    }
}

type Permit = Arc<std::sync::Mutex<Option<ConnPermit>>>;

impl Front {
    async fn handle(&self, mut request: Request<Incoming>, peer: SocketAddr, permit: &Permit) -> Response<Body> {
        let wants_upgrade = request
            .headers()
            .get(header::UPGRADE)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
        if wants_upgrade && self.is_draining.load(Ordering::Acquire) {
            return later(
                StatusCode::SERVICE_UNAVAILABLE,
                DRAINING_RETRY_S,
                "this node is stopping: connect to another one\n",
            );
        }
        if wants_upgrade {
            return self.upgrade(request, peer, permit);
        }
        request.extensions_mut().insert(axum::extract::ConnectInfo(peer));
        let (parts, body) = request.into_parts();
        let (body, rest) = body::shared(body);
        let response = match self.http.clone().oneshot(Request::from_parts(parts, Body::new(body))).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        rest.drain().await;
        response
    }

    fn upgrade(&self, mut request: Request<Incoming>, peer: SocketAddr, permit: &Permit) -> Response<Body> {
        let version = if request.version() == Version::HTTP_11 { (1, 1) } else { (1, 0) };
        let mut handshake = UpgradeRequest::new(request.method().as_str(), version);
        for (name, value) in request.headers() {
            handshake.handle_header(name.as_str(), value.as_bytes());
        }
        let mut params = parse_query(request.uri().query(), &self.dictionaries);
        // What the URL asks to have compressed is not compressed once more, and who is refused needs nothing.
        let is_plain = params.as_ref().is_ok_and(|params| params.compression == Compression::None);
        let mut deflate = DeflateNegotiation::new(self.deflate.filter(|_| is_plain));
        let offers = request.headers().get_all(header::SEC_WEBSOCKET_EXTENSIONS);
        let offered = offers.iter().try_for_each(|offer| deflate.handle_header(offer.as_bytes()));
        let accept = match handshake.accept().and_then(|accept| offered.map(|()| accept)) {
            Ok(accept) => accept,
            Err(error) => return bad_handshake(error.http_status(), &error.to_string()),
        };
        let address = (self.peers.address_of)(peer.ip(), request.headers());
        let address = match self.admission.admit(address, Instant::now()) {
            Ok(address) => address,
            Err(TooMany { retry_after_s }) => {
                return later(StatusCode::TOO_MANY_REQUESTS, retry_after_s, "too many connections from this address\n");
            }
        };
        let agreed = deflate.agreed();
        if let (Ok(params), Some(agreed)) = (&mut params, agreed) {
            params.compression = Compression::Deflate(agreed);
        }
        let turn = self.next_partition.fetch_add(1, Ordering::Relaxed);
        let mailbox = self.mailboxes[turn % self.mailboxes.len()].clone();
        let permit = permit.lock().ok().and_then(|mut permit| permit.take());
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let Some(mut permit) = permit else { return };
            permit.address = address;
            if let Ok(upgraded) = upgrade.await
                && let Some((stream, tls, early)) = into_socket(upgraded)
            {
                mailbox.send(Note::Accepted { stream, tls, early, params, permit });
            }
        });
        let mut response = Response::builder();
        if let Some(agreed) = agreed {
            response = response.header(header::SEC_WEBSOCKET_EXTENSIONS, agreed.to_header());
        }
        response
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_ACCEPT, &accept[..])
            .body(Body::empty())
            .unwrap_or_else(|_| Response::new(Body::empty()))
    }
}

type Socket = (std::net::TcpStream, Option<Box<Records>>, Vec<u8>);

fn into_socket(upgraded: Upgraded) -> Option<Socket> {
    let upgraded = match upgraded.downcast::<TokioIo<TcpStream>>() {
        Ok(parts) => return Some((parts.io.into_inner().into_std().ok()?, None, parts.read_buf.to_vec())),
        Err(upgraded) => upgraded,
    };
    let parts = upgraded.downcast::<TokioIo<TlsStream<TcpStream>>>().ok()?;
    let (stream, tls) = parts.io.into_inner().into_inner();
    Some((stream.into_std().ok()?, Some(Records::new(tls)), parts.read_buf.to_vec()))
}

/// A refusal that does not hold for ever.
fn later(status: StatusCode, retry_after_s: u32, message: &'static str) -> Response<Body> {
    Response::builder()
        .status(status)
        .header(header::RETRY_AFTER, retry_after_s)
        .header(header::CONTENT_TYPE, "text/plain; charset=utf-8")
        .body(Body::from(message))
        .unwrap_or_else(|_| Response::new(Body::empty()))
}

fn bad_handshake(status: u16, message: &str) -> Response<Body> {
    Response::builder()
        .status(status)
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::CONTENT_TYPE, "text/plain; charset=utf-8")
        .body(Body::from(format!("{message}\n")))
        .unwrap_or_else(|_| Response::new(Body::empty()))
}
