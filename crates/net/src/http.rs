//! HTTP listener: accepts sockets, serves REST, and upgrades to WebSocket.
//!
//! Owns        sockets until they are upgraded, with the negotiation of permessage-deflate; REST sockets for
//!             their whole life.
//!             An upgrade whose head arrives at once, without TLS, goes to its partition without hyper, and its answer
//!             goes out with HELLO. If its head is there before the first read, the runtime never polls its socket.
//! Invariants  F1 before the upgrade a client costs only a small buffer, ours or hyper's, which has a deadline. F2 REST
//!             and gateway sockets never take the places that are reserved for the other kind. F3 `/healthz`, `/readyz`
//!             and `/metrics` are answered while all other places are taken. F4 without free descriptors new sockets
//!             get 503 and do not wait in the kernel's queue. (tests `guildhall/tests/it/places.rs`)
//! Limits      `connections_max` for the node and `SPARE_PLACES` for F3; past both a socket without a request makes
//!             room for the new one, and without such a socket the new one gets 503. `admission` for addresses,
//!             handshakes and REST; `HEAD_TIMEOUT` for a request's head and between two requests, `HEAD_BYTES_MAX` for
//!             its size; `SOCKET_AGE_MAX` for a REST socket; `progress` for a client that does not read.

use crate::{
    access::{AccessLog, Authenticated, Request as Seen},
    admission::{Admission, Begun, Handshake, NoPlace, Peers, RestPermit, TooMany},
    body,
    clock::SystemClock,
    mailbox::{ConnPermit, Mailbox, PartitionCommand},
    progress::{Progress, Watched, tune_for_gateway},
    tls::Records,
    url::{Refusal, parse_query},
};
use axum::{Router, body::Body};
use guildhall_codec::{DictionarySwitch, DictionaryUse};
use guildhall_partition::{Compression, ConnParams};
use guildhall_stdx::LogGate;
use guildhall_ws_proto::{DeflateNegotiation, DeflateParams, DeflatePolicy, handshake::UpgradeRequest};
use hyper::{
    HeaderMap, Request, Response, StatusCode, Version,
    body::Incoming,
    header::{self, HeaderValue},
    rt::{Read, Write},
    server::conn::http1::Connection,
    service::{HttpService, service_fn},
    upgrade::Upgraded,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::io::Errno;
use std::{
    convert::Infallible,
    error::Error,
    fs::File,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream},
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::unix::AsyncFd,
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tower::ServiceExt;

pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// First read of a socket without TLS. An upgrade whose head is longer, or arrives in parts, takes a longer way.
const FIRST_READ_BYTES: usize = 2 << 10;
const HEADERS_MAX: usize = 64;
/// Places above `connections_max`, for one request each to the paths of F3.
const SPARE_PLACES: usize = 32;
/// A REST socket that is older gets `Connection: close` with its next answer, so that other clients get its place.
const SOCKET_AGE_MAX: Duration = Duration::from_secs(300);
/// After a failed accept the listener pauses instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// At most one log line per cause in this time.
pub const FULL_LOG_EVERY_MS: u64 = 60_000;

/// `Retry-After` of a node that is stopping.
const DRAINING_RETRY_S: u32 = 1;
/// `Retry-After` of a node without a free place.
const FULL_RETRY_S: u32 = 5;

/// Kinds of answers with a counter each, by status.
pub const ANSWER_KINDS: [&str; 5] = ["2xx", "3xx", "4xx", "429", "5xx"];

fn answer_kind(status: StatusCode) -> usize {
    match status.as_u16() {
        429 => 3,
        500.. => 4,
        400.. => 2,
        300.. => 1,
        _ => 0,
    }
}

/// Refused and closed sockets since the start, and answers of REST.
#[derive(Debug, Default)]
pub struct HttpCounters {
    /// Answers to requests, without health and metrics, in the order of `ANSWER_KINDS`.
    pub answers: [AtomicU64; ANSWER_KINDS.len()],
    /// Refused at `connections_max`, or at the share of REST or the gateway.
    pub full: AtomicU64,
    /// Closed before their first request, because others needed their place.
    pub handshakes: AtomicU64,
    /// Sockets refused because their address had too many.
    pub address: AtomicU64,
    /// Refused because the process had no free descriptor.
    pub descriptors: AtomicU64,
    /// Closed because the client did not read for `write_stall_ms`.
    pub stalled: AtomicU64,
}

/// State that all connections of the listener share.
pub struct HttpServer {
    pub router: Router,
    pub mailboxes: Arc<[Mailbox]>,
    pub conns_count: Arc<AtomicUsize>,
    pub connections_max: AtomicUsize,
    /// A REST socket is reset if its client reads nothing for this long.
    pub write_stall_ms: AtomicU64,
    pub counters: Arc<HttpCounters>,
    /// The node is about to stop: upgrades get 503.
    pub is_draining: AtomicBool,
    /// True: a request in progress is the last one of its socket.
    pub is_ending: watch::Sender<bool>,
    /// Dictionaries that `dict` may name.
    pub dictionaries: DictionarySwitch,
    /// Policy for clients that offer permessage-deflate. None: offers are declined.
    pub deflate: Option<DeflatePolicy>,
    /// Counter that distributes connections over the partitions in turn.
    pub next_partition: AtomicUsize,
    /// None: the listener serves plain HTTP.
    pub tls: Option<TlsAcceptor>,
    pub admission: Arc<Admission>,
    pub peers: Peers,
    pub full_log: LogGate,
    pub clock: SystemClock,
    /// None: no access log.
    pub access: Option<Arc<AccessLog>>,
}

impl HttpServer {
    /// The mailbox of the partition that gets the next connection.
    fn next_mailbox(&self) -> &Mailbox {
        let turn = self.next_partition.fetch_add(1, Ordering::Relaxed);
        &self.mailboxes[turn % self.mailboxes.len()]
    }

    /// Counts a socket that is refused for lack of a place, and logs it once per `FULL_LOG_EVERY_MS`.
    fn count_full(&self) {
        self.counters.full.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = self.full_log.note(self.clock.now().instant) {
            let connections_max = self.connections_max.load(Ordering::Relaxed);
            let (sockets, rest) = (self.conns_count.load(Ordering::Relaxed), self.admission.rest_count());
            tracing::warn!(
                connections_max,
                sockets,
                rest,
                count,
                "no place is left for more sockets of this kind: they get 503"
            );
        }
    }
}

/// A descriptor in reserve. When no other is free the server closes it, so that a waiting socket can be accepted,
/// answered and closed.
struct SpareDescriptor(Option<File>);

impl SpareDescriptor {
    fn open() -> Self {
        Self(File::open("/dev/null").ok())
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::MFILE | Errno::NFILE))
}

#[expect(deprecated, reason = "a listener owns its descriptor, so this is sound; what replaces it is `unsafe`")]
fn polled(listener: StdListener) -> io::Result<AsyncFd<StdListener>> {
    AsyncFd::new(listener)
}

/// The next socket, non-blocking and not registered with the runtime.
async fn next_socket(listener: &AsyncFd<StdListener>) -> io::Result<(StdStream, SocketAddr)> {
    loop {
        let mut ready = listener.readable().await?;
        if let Ok(accepted) = ready.try_io(|listener| listener.get_ref().accept()) {
            let (stream, peer) = accepted?;
            stream.set_nonblocking(true)?;
            return Ok((stream, peer));
        }
    }
}

/// Accepts sockets until the task is dropped.
pub async fn accept(http: Arc<HttpServer>, listener: TcpListener) {
    let listener = match listener.into_std().and_then(polled) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the listener cannot be polled: no socket is accepted"),
    };
    let mut spare = SpareDescriptor::open();
    let (out_of_descriptors, other) = (LogGate::new(FULL_LOG_EVERY_MS), LogGate::new(FULL_LOG_EVERY_MS));
    loop {
        match next_socket(&listener).await {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve(http.clone(), stream, peer));
            }
            Err(error) if is_out_of_descriptors(&error) => {
                if let Some(count) = out_of_descriptors.note(http.clock.now().instant) {
                    tracing::warn!(%error, count, "no descriptor is left for new sockets: they get 503; see Open files");
                }
                drop(spare.0.take());
                match tokio::time::timeout(ACCEPT_PAUSE, next_socket(&listener)).await {
                    Ok(Ok((stream, _))) => {
                        http.counters.descriptors.fetch_add(1, Ordering::Relaxed);
                        refuse(&http, stream);
                    }
                    Ok(Err(_)) => tokio::time::sleep(ACCEPT_PAUSE).await,
                    // No socket is waiting any more.
                    Err(_) => {}
                }
                spare = SpareDescriptor::open();
            }
            Err(error) => {
                if let Some(count) = other.note(http.clock.now().instant) {
                    tracing::warn!(%error, count, "a connection could not be accepted");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(http: Arc<HttpServer>, stream: StdStream, peer: SocketAddr) {
    let count = http.conns_count.fetch_add(1, Ordering::Relaxed);
    let permit = ConnPermit::new(http.conns_count.clone());
    let connections_max = http.connections_max.load(Ordering::Relaxed);
    if count >= connections_max.saturating_add(SPARE_PLACES) {
        if !http.admission.make_room() {
            http.count_full();
            return refuse(&http, stream);
        }
        http.counters.handshakes.fetch_add(1, Ordering::Relaxed);
    }
    let Begun { handshake, evicted, ended_count } = http.admission.begin(peer.ip(), &http.peers, Instant::now());
    http.counters.handshakes.fetch_add(ended_count, Ordering::Relaxed);
    let write_stall = Duration::from_millis(http.write_stall_ms.load(Ordering::Relaxed));
    let progress = Progress::new(write_stall, http.counters.clone());
    let has_tls = http.tls.is_some();
    let visit = Visit {
        http,
        peer,
        is_spare: count >= connections_max,
        began: Instant::now(),
        progress,
        is_known: AtomicBool::new(false),
        permits: Mutex::new(Permits { conn: Some(permit), handshake: Some(handshake), rest: None }),
        refusal: Mutex::default(),
    };
    let served = async {
        if has_tls {
            let Ok(stream) = TcpStream::from_std(stream) else { return };
            return Box::pin(serve_http(visit, stream, Vec::new())).await;
        }
        let mut buffer = [0; FIRST_READ_BYTES];
        let Ok((socket, count)) = first_read(stream, &mut buffer).await else { return };
        if let Some((request, head_bytes)) = upgrade_request(&buffer[..count]) {
            match visit.upgrade(&request) {
                Ok(agreed) => return visit.pass_on(socket, &request, agreed, &buffer[head_bytes..count]),
                // The client gets the refusal as any other answer.
                Err(refusal) => *visit.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal),
            }
        }
        let Ok(stream) = socket.registered() else { return };
        Box::pin(serve_http(visit, stream, buffer[..count].to_vec())).await;
    };
    let evicted = async {
        // With TLS its handshake has the same time again.
        let patience = if has_tls { 2 * HEAD_TIMEOUT } else { HEAD_TIMEOUT };
        // Otherwise another socket needs its place, or it has sent no request in time.
        if let Ok(Err(_)) = tokio::time::timeout(patience, evicted).await {
            // The first request has arrived.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = served => {}
        () = evicted => {}
    }
}

/// A socket after its first read.
enum Accepted {
    /// The runtime has not polled it: its first bytes were there.
    Unregistered(StdStream),
    Registered(TcpStream),
}

impl Accepted {
    fn unregistered(self) -> io::Result<StdStream> {
        match self {
            Self::Unregistered(stream) => Ok(stream),
            Self::Registered(stream) => stream.into_std(),
        }
    }

    fn registered(self) -> io::Result<TcpStream> {
        match self {
            Self::Unregistered(stream) => TcpStream::from_std(stream),
            Self::Registered(stream) => Ok(stream),
        }
    }
}

/// Reads the first bytes of a socket without TLS: at least one.
async fn first_read(mut stream: StdStream, buffer: &mut [u8]) -> io::Result<(Accepted, usize)> {
    let is_early = |error: &io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
    match stream.read(buffer) {
        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) if is_early(&error) => {}
        result => return Ok((Accepted::Unregistered(stream), result?)),
    }
    let stream = TcpStream::from_std(stream)?;
    loop {
        stream.readable().await?;
        match stream.try_read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if is_early(&error) => {}
            result => return Ok((Accepted::Registered(stream), result?)),
        }
    }
}

/// The request and the bytes of its head, if the head is whole, has no body, and wants an upgrade. Anything else is for
/// `serve_http`, which also refuses what is malformed.
fn upgrade_request(bytes: &[u8]) -> Option<(Request<()>, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let Ok(httparse::Status::Complete(head_bytes)) = head.parse(bytes) else { return None };
    if head.method != Some("GET") || head.version != Some(1) {
        return None;
    }
    let mut request = Request::builder().uri(head.path?);
    for httparse::Header { name, value } in head.headers.iter() {
        request = request.header(*name, *value);
    }
    let request = request.body(()).ok()?;
    let has_body =
        [header::CONTENT_LENGTH, header::TRANSFER_ENCODING].iter().any(|n| request.headers().contains_key(n));
    (!has_body && wants_upgrade(request.headers())).then_some((request, head_bytes))
}

/// Serves a socket until it is upgraded or closed. `early` are its first bytes.
async fn serve_http(visit: Visit, stream: TcpStream, early: Vec<u8>) {
    let (http_tls, is_ending) = (visit.http.tls.clone(), visit.http.is_ending.subscribe());
    let stream = Watched::new(stream, early, visit.progress.clone());
    let visit = Arc::new(visit);
    let service = service_fn(move |request| {
        let visit = visit.clone();
        async move { Ok::<_, Infallible>(visit.handle(request).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    // An error here is the client's: it has got its answer, or has left.
    let _ = match &http_tls {
        None => serve_requests(builder.serve_connection(TokioIo::new(stream), service), is_ending).await,
        Some(tls) => match tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => serve_requests(builder.serve_connection(TokioIo::new(stream), service), is_ending).await,
            Ok(Err(_)) | Err(_) => Ok(()),
        },
    };
}

/// Serves a socket until it is upgraded or closed. Once the node ends, the request in progress is the last.
async fn serve_requests<I, S, B>(
    connection: Connection<I, S>,
    mut is_ending: watch::Receiver<bool>,
) -> hyper::Result<()>
where
    I: Read + Write + Unpin + Send + 'static,
    S: HttpService<Incoming, ResBody = B, Error: Into<Box<dyn Error + Send + Sync>>>,
    B: hyper::body::Body<Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
{
    let mut connection = pin!(connection.with_upgrades());
    let ending = async {
        let _ = is_ending.wait_for(|is_ending| *is_ending).await;
    };
    tokio::select! {
        served = connection.as_mut() => return served,
        () = ending => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

/// Refuses a socket with 503. Clients that use TLS get no answer, because a handshake would need one of the places that
/// are all in use.
fn refuse(http: &HttpServer, mut stream: StdStream) {
    if http.tls.is_some() {
        return;
    }
    const ANSWER: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 5\r\nconnection: close\r\n\r\n";
    let _ = stream.write(ANSWER);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    // Reads a pending request. Otherwise the close becomes a reset, which can overtake the answer.
    let _ = stream.read(&mut [0; 1024]);
}

/// The places of a socket, released when dropped. `conn` moves to the partition with an upgraded socket.
#[derive(Debug)]
struct Permits {
    conn: Option<ConnPermit>,
    /// Until the first request.
    handshake: Option<Handshake>,
    /// From the first request that is no upgrade.
    rest: Option<RestPermit>,
}

/// A socket until its upgrade.
struct Visit {
    http: Arc<HttpServer>,
    peer: SocketAddr,
    /// It has one of `SPARE_PLACES`.
    is_spare: bool,
    began: Instant,
    progress: Arc<Progress>,
    /// An answer of this socket was to a valid token or key.
    is_known: AtomicBool,
    permits: Mutex<Permits>,
    /// Answer to the first request, which was an upgrade.
    refusal: Mutex<Option<Box<Response<Body>>>>,
}

/// An upgrade that the node agreed to.
struct Agreed {
    /// `Sec-WebSocket-Accept`.
    accept: [u8; 28],
    deflate: Option<DeflateParams>,
    params: Result<ConnParams, Refusal>,
    permit: ConnPermit,
}

/// `Upgrade` is a list, in one header or in several.
fn wants_upgrade(headers: &HeaderMap) -> bool {
    let protocols = headers.get_all(header::UPGRADE).iter();
    let mut protocols = protocols.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    protocols.any(|protocol| protocol.trim_ascii().eq_ignore_ascii_case(b"websocket"))
}

impl Visit {
    async fn handle(&self, request: Request<Incoming>) -> Response<Body> {
        let wants_upgrade = wants_upgrade(request.headers());
        let mut seen = self.http.access.as_ref().map(|log| {
            let address = (self.http.peers.client_address)(self.peer.ip(), request.headers());
            let begin = if wants_upgrade { Seen::begin_upgrade } else { Seen::begin };
            begin(log.clone(), address, &request)
        });
        let mut response = self.answer(request, &mut seen).await;
        if let Some(seen) = seen {
            seen.answered(&mut response);
        }
        response
    }

    /// Answers a request. Takes `seen` if the request becomes a WebSocket.
    async fn answer(&self, mut request: Request<Incoming>, seen: &mut Option<Seen>) -> Response<Body> {
        if let Some(refusal) = self.refusal.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return *refusal;
        }
        if wants_upgrade(request.headers()) {
            return match self.upgrade(&request) {
                Ok(agreed) => self.switch(request, agreed, seen),
                Err(refusal) => *refusal,
            };
        }
        if let Err(refusal) = self.end_handshake() {
            return *refusal;
        }
        let is_ops = matches!(request.uri().path(), "/healthz" | "/readyz" | "/metrics");
        if self.is_spare && !is_ops {
            self.http.count_full();
            return last(full());
        }
        let place = if self.is_spare { Ok(()) } else { self.take_rest_place() };
        if let Err(why) = place
            && !is_ops
        {
            return self.without_place(why);
        }
        self.progress.set_rest();
        // A client that pipelines gets its next answer once it has read enough of the previous one.
        self.progress.unblocked().await;
        request.extensions_mut().insert(axum::extract::ConnectInfo(self.peer));
        let (parts, body) = request.into_parts();
        let (body, rest) = body::shared(body);
        let mut response = match self.http.router.clone().oneshot(Request::from_parts(parts, Body::new(body))).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let is_authenticated = response.extensions_mut().remove::<Authenticated>().is_some();
        if is_authenticated && !self.is_known.swap(true, Ordering::Relaxed) {
            self.http.admission.remember(self.peer.ip());
        }
        if !is_ops {
            self.http.counters.answers[answer_kind(response.status())].fetch_add(1, Ordering::Relaxed);
        }
        // In a separate task, so that the answer does not wait for a client that announced a body and sends nothing.
        tokio::spawn(rest.drain());
        let is_last = self.is_spare || place.is_err() || self.began.elapsed() >= SOCKET_AGE_MAX;
        if is_last { last(response) } else { response }
    }

    fn with_permits<T>(&self, with: impl FnOnce(&mut Permits) -> T) -> T {
        with(&mut self.permits.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a place of REST, unless the socket has one.
    fn take_rest_place(&self) -> Result<(), NoPlace> {
        let http = &self.http;
        self.with_permits(|permits| {
            if permits.rest.is_none() {
                permits.rest = Some(http.admission.place_for_rest(self.peer.ip(), &http.peers)?);
            }
            Ok(())
        })
    }

    fn without_place(&self, why: NoPlace) -> Response<Body> {
        match why {
            NoPlace::Node => {
                self.http.count_full();
                last(full())
            }
            NoPlace::Address => {
                self.http.counters.address.fetch_add(1, Ordering::Relaxed);
                let message = "too many connections from this address\n";
                last(retry_later(StatusCode::TOO_MANY_REQUESTS, FULL_RETRY_S, message))
            }
        }
    }

    /// The client has sent a request, so the handshake is over, whatever the answer.
    fn end_handshake(&self) -> Result<(), Box<Response<Body>>> {
        let handshake = self.with_permits(|permits| permits.handshake.take());
        if handshake.is_some_and(|handshake| !handshake.complete()) { Err(last(full()).into()) } else { Ok(()) }
    }

    /// Agrees to an upgrade, or refuses it. Then the caller answers.
    fn upgrade(&self, request: &Request<impl Sized>) -> Result<Agreed, Box<Response<Body>>> {
        let http = &self.http;
        self.end_handshake()?;
        if self.is_spare {
            http.count_full();
            return Err(last(full()).into());
        }
        if http.is_draining.load(Ordering::Acquire) {
            return Err(retry_later(
                StatusCode::SERVICE_UNAVAILABLE,
                DRAINING_RETRY_S,
                "this node is stopping: connect to another one\n",
            )
            .into());
        }
        let version = if request.version() == Version::HTTP_11 { (1, 1) } else { (1, 0) };
        let mut handshake = UpgradeRequest::new(request.method().as_str(), version);
        for (name, value) in request.headers() {
            handshake.handle_header(name.as_str(), value.as_bytes());
        }
        let dictionaries = http.dictionaries.current();
        let mut params = parse_query(request.uri().query(), &dictionaries);
        let dictionary = match params.as_ref().map(|params| params.compression) {
            Ok(Compression::ZstdDict(id)) => dictionaries.find(id).map(|known| known.dictionary.clone()),
            _ => None,
        };
        // A stream that the URL compresses is not compressed again by permessage-deflate; a refused client needs
        // neither.
        let is_plain = params.as_ref().is_ok_and(|params| params.compression == Compression::None);
        let mut deflate = DeflateNegotiation::new(http.deflate.filter(|_| is_plain));
        let offers = request.headers().get_all(header::SEC_WEBSOCKET_EXTENSIONS);
        let offered = offers.iter().try_for_each(|offer| deflate.handle_header(offer.as_bytes()));
        let accept = match handshake.accept().and_then(|accept| offered.map(|()| accept)) {
            Ok(accept) => accept,
            Err(error) => return Err(bad_handshake(error.http_status(), &error.to_string()).into()),
        };
        let address = (http.peers.client_address)(self.peer.ip(), request.headers());
        let address = match http.admission.admit(address, Instant::now()) {
            Ok(address) => address,
            Err(TooMany { retry_after_s }) => {
                http.counters.address.fetch_add(1, Ordering::Relaxed);
                return Err(retry_later(
                    StatusCode::TOO_MANY_REQUESTS,
                    retry_after_s,
                    "too many connections from this address\n",
                )
                .into());
            }
        };
        if http.admission.is_gateway_full(http.conns_count.load(Ordering::Relaxed)) {
            http.count_full();
            return Err(last(full()).into());
        }
        let deflate = deflate.agreed();
        if let (Ok(params), Some(agreed)) = (&mut params, deflate) {
            params.compression = Compression::Deflate(agreed);
        }
        let permit = self.with_permits(|permits| {
            drop(permits.rest.take());
            permits.conn.take()
        });
        // A socket is upgraded once.
        let Some(mut permit) = permit else { return Err(last(full()).into()) };
        permit.address = address;
        permit.dictionary = dictionary.map(DictionaryUse::begin);
        Ok(Agreed { accept, deflate, params, permit })
    }

    /// Passes a socket to a partition, which answers the upgrade as it greets the client. `early`: bytes that arrived
    /// after the request.
    fn pass_on(&self, socket: Accepted, request: &Request<()>, agreed: Agreed, early: &[u8]) {
        let Agreed { accept, deflate, params, mut permit } = agreed;
        permit.access = self.http.access.as_ref().map(|log| {
            let address = (self.http.peers.client_address)(self.peer.ip(), request.headers());
            Seen::begin_upgrade(log.clone(), address, request).into_web_socket(params.as_ref().ok())
        });
        // An error means that the socket is gone.
        let Ok(stream) = socket.unregistered() else { return };
        tune_for_gateway(&stream);
        let answer = Some(switching_protocols(&accept, deflate));
        let early = early.to_vec();
        self.http.next_mailbox().send(PartitionCommand::Accepted { stream, tls: None, answer, early, params, permit });
    }

    /// Answers an upgrade, and passes the socket to a partition once the answer is sent.
    fn switch(&self, mut request: Request<Incoming>, agreed: Agreed, seen: &mut Option<Seen>) -> Response<Body> {
        let Agreed { accept, deflate, params, mut permit } = agreed;
        permit.access = seen.take().map(|seen| seen.into_web_socket(params.as_ref().ok()));
        let mailbox = self.http.next_mailbox().clone();
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            if let Ok(upgraded) = upgrade.await
                && let Some((stream, tls, early)) = into_socket(upgraded)
            {
                mailbox.send(PartitionCommand::Accepted { stream, tls, answer: None, early, params, permit });
            }
        });
        let mut response = Response::builder();
        if let Some(agreed) = deflate {
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

/// The answer to an upgrade, as bytes.
fn switching_protocols(accept: &[u8; 28], deflate: Option<DeflateParams>) -> Box<[u8]> {
    const HEAD: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n";
    let mut answer = Vec::with_capacity(HEAD.len() + 160);
    answer.extend_from_slice(HEAD);
    if let Some(agreed) = deflate {
        answer.extend_from_slice(b"sec-websocket-extensions: ");
        answer.extend_from_slice(agreed.to_header().as_bytes());
        answer.extend_from_slice(b"\r\n");
    }
    answer.extend_from_slice(b"sec-websocket-accept: ");
    answer.extend_from_slice(accept);
    answer.extend_from_slice(b"\r\n\r\n");
    answer.into()
}

type Socket = (std::net::TcpStream, Option<Box<Records>>, Vec<u8>);

fn into_socket(upgraded: Upgraded) -> Option<Socket> {
    let upgraded = match upgraded.downcast::<TokioIo<Watched>>() {
        Ok(parts) => {
            let stream = parts.io.into_inner().into_inner();
            return Some((stream.into_std().ok()?, None, parts.read_buf.to_vec()));
        }
        Err(upgraded) => upgraded,
    };
    let parts = upgraded.downcast::<TokioIo<TlsStream<Watched>>>().ok()?;
    let (stream, tls) = parts.io.into_inner().into_inner();
    Some((stream.into_inner().into_std().ok()?, Some(Records::new(tls)), parts.read_buf.to_vec()))
}

/// 503 for lack of a place.
fn full() -> Response<Body> {
    retry_later(StatusCode::SERVICE_UNAVAILABLE, FULL_RETRY_S, "this node has no free place for another connection\n")
}

/// Closes the connection after this answer.
fn last(mut response: Response<Body>) -> Response<Body> {
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A temporary refusal, with `Retry-After`.
fn retry_later(status: StatusCode, retry_after_s: u32, message: &'static str) -> Response<Body> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::AdmissionLimits;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn upgrade_headers_are_lists() {
        let check = |values: &[&'static str], expected: bool| {
            let headers = values.iter().map(|value| (header::UPGRADE, value.parse().unwrap())).collect();
            assert_eq!(wants_upgrade(&headers), expected, "{values:?}");
        };
        check(&["websocket"], true);
        check(&["h2c, WebSocket"], true);
        check(&["websocket,foo"], true);
        check(&["h2c", "websocket"], true);
        check(&["websockets"], false);
        check(&["h2c"], false);
        check(&[], false);
    }

    #[test]
    fn only_a_whole_upgrade_without_a_body_takes_the_short_way() {
        let head = "GET /?v=10 HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        let (request, head_bytes) = upgrade_request(format!("{head}more").as_bytes()).unwrap();
        assert_eq!((head_bytes, request.uri().query()), (head.len(), Some("v=10")));
        assert_eq!(request.headers().len(), 3);
        assert_eq!(request.headers()[header::HOST], "t");
        for end in 0..head.len() {
            assert!(upgrade_request(&head.as_bytes()[..end]).is_none(), "{end}");
        }
        for (from, to) in [
            ("GET", "POST"),
            ("HTTP/1.1", "HTTP/1.0"),
            ("websocket", "h2c"),
            ("Host: t", "Content-Length: 1"),
            ("Host: t", "Transfer-Encoding: chunked"),
            ("Host: t", "Host t"),
        ] {
            assert!(upgrade_request(head.replace(from, to).as_bytes()).is_none(), "{to}");
        }
    }

    async fn wait_for(what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..3_000 {
            if is_so() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{what} did not happen in time");
    }

    fn server(router: Router) -> Arc<HttpServer> {
        Arc::new(HttpServer {
            router,
            mailboxes: Arc::from([]),
            conns_count: Arc::default(),
            connections_max: AtomicUsize::new(100),
            write_stall_ms: AtomicU64::new(500),
            counters: Arc::default(),
            is_draining: AtomicBool::new(false),
            is_ending: watch::Sender::new(false),
            dictionaries: DictionarySwitch::default(),
            deflate: None,
            next_partition: AtomicUsize::new(0),
            tls: None,
            admission: Arc::new(Admission::new(AdmissionLimits::default())),
            peers: Peers::default(),
            full_log: LogGate::new(FULL_LOG_EVERY_MS),
            clock: SystemClock::default(),
            access: None,
        })
    }

    #[tokio::test]
    async fn a_request_is_answered_whether_it_came_before_or_after_the_first_read() {
        let http = server(Router::new().route("/", get(async || "here")));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let mut clients = Vec::new();
        for _ in 0..2 {
            clients.push(TcpStream::connect(addr).await.unwrap());
        }
        let request = b"GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
        clients[0].write_all(request).await.unwrap();
        let accepting = tokio::spawn(accept(http.clone(), listener));
        wait_for("the first answer", || http.counters.answers[0].load(Ordering::Relaxed) == 1).await;
        clients[1].write_all(request).await.unwrap();
        for mut client in clients {
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("here"), "{answer}");
        }
        accepting.abort();
    }

    #[tokio::test]
    async fn s10_a_pipelined_request_waits_for_the_answer_before_it() {
        let made = Arc::new(AtomicUsize::new(0));
        let counted = made.clone();
        let answer = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            // More than the kernel takes.
            async { vec![0u8; 4 << 20] }
        };
        let http = server(Router::new().route("/", get(answer)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let accepting = tokio::spawn(accept(http.clone(), listener));
        let mut client = TcpStream::connect(addr).await.unwrap();
        client.write_all("GET / HTTP/1.1\r\nHost: t\r\n\r\n".repeat(20).as_bytes()).await.unwrap();
        wait_for("the end of a client that does not read", || http.counters.stalled.load(Ordering::Relaxed) == 1).await;
        wait_for("its place is free", || http.conns_count.load(Ordering::Relaxed) == 0).await;
        assert_eq!(made.load(Ordering::Relaxed), 1, "the others were never looked at");
        accepting.abort();
    }

    #[tokio::test]
    async fn a_request_in_progress_is_answered_and_idle_sockets_are_closed() {
        let started = Arc::new(AtomicUsize::new(0));
        let (counted, (go, gone)) = (started.clone(), watch::channel(false));
        let answer = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut gone = gone.clone();
            async move { gone.wait_for(|is_gone| *is_gone).await.map(|_| "done").unwrap_or_default() }
        };
        let http = server(Router::new().route("/slow", get(answer)).route("/", get(async || "at once")));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let accepting = tokio::spawn(accept(http.clone(), listener));
        let (mut idle, mut busy) = (TcpStream::connect(addr).await.unwrap(), TcpStream::connect(addr).await.unwrap());
        idle.write_all(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n").await.unwrap();
        wait_for("an idle socket", || http.counters.answers[0].load(Ordering::Relaxed) == 1).await;
        busy.write_all(b"GET /slow HTTP/1.1\r\nHost: t\r\n\r\n").await.unwrap();
        wait_for("a request in progress", || started.load(Ordering::Relaxed) == 1).await;
        http.is_ending.send_replace(true);
        let mut answer = String::new();
        idle.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("at once"), "{answer}");
        wait_for("the end of the idle socket", || http.admission.rest_count() == 1).await;
        go.send_replace(true);
        answer.clear();
        busy.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
        wait_for("the end of all requests", || http.admission.rest_count() == 0).await;
        accepting.abort();
    }
}
