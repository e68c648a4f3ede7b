//! Access log: one JSON line per REST request and per WebSocket connection.
//!
//! Owns        the queue of lines, the thread that writes them, and the file.
//! Invariants  X1 a line holds no path, query, header or body of a client except its user agent; routes appear as their
//!             pattern. So a line contains no token, link or content. X2 no request waits for the file: lines that do
//!             not fit into the queue are counted and dropped. X3 a request that the client aborted has a line too,
//!             without a status. (tests `x*_*`)
//! Limits      `LINES_MAX` lines wait; `AGENT_CHARS_MAX` characters of a user agent.
//! Not here    route and sender of a request: `AccessNote`, which the router attaches to its answer.

use crate::clock::SystemClock;
use guildhall_codec::Encoding;
use guildhall_partition::ConnParams;
use guildhall_stdx::LogGate;
use hyper::{HeaderMap, header};
use serde::{Deserialize, Serialize};
use std::{
    borrow::Cow,
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write},
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Capacity of the queue. With lines of about 250 bytes it takes 4 MiB.
const LINES_MAX: usize = 16_384;
const AGENT_CHARS_MAX: usize = 128;
/// Bytes written with one call.
const BATCH_BYTES: usize = 256 << 10;
/// Minimum interval between two warnings that the file cannot be written.
const WARN_EVERY_MS: u64 = 60_000;
/// Path that means standard output.
const STDOUT: &str = "-";

/// Route and sender of a request; an extension of its answer.
#[derive(Clone, Debug, Default)]
pub struct AccessNote {
    /// Pattern of the route.
    pub route: Option<Cow<'static, str>>,
    /// Account of the caller.
    pub user_id: Option<u64>,
    /// Backend key of the caller; 0 for the root key.
    pub key_id: Option<u64>,
}

/// The sender's token or key was valid; an extension of the answer.
#[derive(Clone, Copy, Debug)]
pub struct Authenticated;

enum Entry {
    Line(Vec<u8>),
    Reopen,
    End,
}

/// The log. A thread of its own writes the lines.
pub struct AccessLog {
    entries: SyncSender<Entry>,
    dropped_total: Arc<AtomicU64>,
    clock: SystemClock,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").field("dropped_total", &self.dropped_total()).finish_non_exhaustive()
    }
}

fn open(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    if path == Path::new(STDOUT) {
        return Ok(Box::new(io::stdout()));
    }
    let file: File = OpenOptions::new().append(true).create(true).open(path)?;
    Ok(Box::new(file))
}

impl AccessLog {
    /// Appends to the file at `path`, or to standard output for `-`.
    ///
    /// # Errors
    /// When the file cannot be opened, or the system gives no thread.
    pub fn open(path: PathBuf, clock: SystemClock) -> io::Result<Arc<Self>> {
        let out = open(&path)?;
        let (entries, receiver) = sync_channel(LINES_MAX);
        let dropped_total = Arc::new(AtomicU64::new(0));
        let writer = Writer {
            path,
            out,
            is_torn: false,
            failures: LogGate::new(WARN_EVERY_MS),
            dropped_total: dropped_total.clone(),
            clock,
        };
        let thread = std::thread::Builder::new().name("access-log".to_owned()).spawn(move || writer.run(&receiver))?;
        let thread = Mutex::new(Some(thread));
        Ok(Arc::new(Self { entries, dropped_total, clock, thread }))
    }

    /// Lines that did not fit into the queue or could not be written.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped_total.load(Ordering::Relaxed)
    }

    /// Reopens the file by its name, after a log rotation.
    pub fn reopen(&self) {
        // With a full queue the writer stays with the old file until the next signal.
        let _ = self.entries.try_send(Entry::Reopen);
    }

    /// Writes the lines in the queue, and ends the thread. Blocks.
    pub fn end(&self) {
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        // It fails if the writer has ended.
        let _ = self.entries.send(Entry::End);
        let _ = thread.join();
    }

    fn write(&self, line: &Line<'_>) {
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.entries.try_send(Entry::Line(text)) {
            self.dropped_total.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Writer {
    path: PathBuf,
    out: Box<dyn Write + Send>,
    /// A write failed, perhaps within a line.
    is_torn: bool,
    failures: LogGate,
    dropped_total: Arc<AtomicU64>,
    clock: SystemClock,
}

impl Writer {
    fn run(mut self, entries: &Receiver<Entry>) {
        let mut batch = Vec::new();
        let mut lines = 0;
        while let Ok(first) = entries.recv() {
            let mut next = Some(first);
            let mut is_over = false;
            while let Some(entry) = next {
                match entry {
                    Entry::Line(line) => {
                        batch.extend_from_slice(&line);
                        lines += 1;
                    }
                    Entry::Reopen => {
                        self.flush(&mut batch, &mut lines);
                        self.reopen();
                    }
                    Entry::End => is_over = true,
                }
                if batch.len() >= BATCH_BYTES {
                    self.flush(&mut batch, &mut lines);
                }
                next = if is_over { None } else { entries.try_recv().ok() };
            }
            self.flush(&mut batch, &mut lines);
            if is_over {
                return;
            }
        }
    }

    fn flush(&mut self, batch: &mut Vec<u8>, lines: &mut u64) {
        if batch.is_empty() {
            return;
        }
        let torn = if self.is_torn { &b"\n"[..] } else { b"" };
        let done = self.out.write_all(torn).and_then(|()| self.out.write_all(batch)).and_then(|()| self.out.flush());
        self.is_torn = done.is_err();
        if let Err(error) = done {
            self.dropped_total.fetch_add(*lines, Ordering::Relaxed);
            self.warn("the access log cannot be written: its lines are left out", &error);
        }
        batch.clear();
        *lines = 0;
    }

    fn reopen(&mut self) {
        match open(&self.path) {
            Ok(out) => (self.out, self.is_torn) = (out, false),
            Err(error) => self.warn("the access log cannot be reopened: the old file stays in use", &error),
        }
    }

    fn warn(&self, what: &'static str, error: &io::Error) {
        if let Some(count) = self.failures.note(self.clock.now().instant) {
            tracing::warn!(path = %self.path.display(), %error, count, "{what}");
        }
    }
}

/// Fields of a line, in the order in which people read them.
#[derive(Serialize)]
#[serde(untagged)]
enum Line<'a> {
    Rest {
        time: String,
        kind: &'static str,
        address: IpAddr,
        method: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        route: Option<&'a str>,
        status: Option<u16>,
        ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        user_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        key_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<&'a str>,
    },
    WebSocket {
        time: String,
        kind: &'static str,
        address: IpAddr,
        status: u16,
        ms: u64,
        encoding: &'static str,
        compression: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        user_id: Option<String>,
        /// Code of the first close frame.
        #[serde(skip_serializing_if = "Option::is_none")]
        close_code: Option<u16>,
        #[serde(skip_serializing_if = "Option::is_none")]
        closed_by: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<&'a str>,
    },
}

fn time_of(log: &AccessLog) -> String {
    log.clock.now().unix.to_string()
}

fn ms_since(started: Instant) -> u64 {
    started.elapsed().as_millis() as u64
}

fn agent_of(headers: &HeaderMap) -> Option<String> {
    let agent = headers.get(header::USER_AGENT)?.to_str().ok()?;
    Some(agent.chars().take(AGENT_CHARS_MAX).collect())
}

/// Routes of the node that attach no note. Other paths have no route in their line.
fn route_of(path: &str) -> Option<&'static str> {
    match path {
        "/healthz" => Some("/healthz"),
        "/readyz" => Some("/readyz"),
        "/metrics" => Some("/metrics"),
        "/dictionaries" => Some("/dictionaries"),
        _ if path.starts_with("/dictionaries/") => Some("/dictionaries/{id}"),
        _ if path.starts_with("/attachments/") => Some("/attachments/{channel_id}/{id}/{filename}"),
        _ => None,
    }
}

/// A request in progress. Writes its line when it is dropped.
pub(crate) struct Request {
    log: Arc<AccessLog>,
    started: Instant,
    address: IpAddr,
    method: String,
    agent: Option<String>,
    note: AccessNote,
    status: Option<u16>,
    bytes: Option<u64>,
    kind: &'static str,
}

impl Request {
    /// A request for an answer of HTTP.
    pub fn begin(log: Arc<AccessLog>, address: IpAddr, request: &hyper::Request<impl Sized>) -> Self {
        let route = route_of(request.uri().path()).map(Cow::Borrowed);
        Self::new(log, address, request, "rest", route)
    }

    /// A request for a WebSocket.
    pub fn begin_upgrade(log: Arc<AccessLog>, address: IpAddr, request: &hyper::Request<impl Sized>) -> Self {
        Self::new(log, address, request, "websocket", None)
    }

    fn new(
        log: Arc<AccessLog>,
        address: IpAddr,
        request: &hyper::Request<impl Sized>,
        kind: &'static str,
        route: Option<Cow<'static, str>>,
    ) -> Self {
        Self {
            log,
            started: Instant::now(),
            address,
            // A client may send any token of RFC 9110 as its method.
            method: request.method().as_str().chars().take(16).collect(),
            agent: agent_of(request.headers()),
            note: AccessNote { route, ..AccessNote::default() },
            status: None,
            bytes: None,
            kind,
        }
    }

    /// Adds the answer's status.
    pub fn answered<B: hyper::body::Body>(mut self, response: &mut hyper::Response<B>) {
        if let Some(note) = response.extensions_mut().remove::<AccessNote>() {
            self.note = AccessNote { route: note.route.or(self.note.route.take()), ..note };
        }
        self.status = Some(response.status().as_u16());
        self.bytes = response.body().size_hint().exact();
    }

    /// Turns the request into a WebSocket connection, which has a line of its own.
    pub fn into_web_socket(mut self, params: Option<&ConnParams>) -> Box<WebSocket> {
        self.kind = "";
        let encoding = params.map_or(Encoding::Json, |params| params.encoding).name();
        Box::new(WebSocket {
            is_passed_on: false,
            log: self.log.clone(),
            started: self.started,
            address: self.address,
            encoding,
            compression: params.map_or("none", |params| params.compression.name()),
            agent: self.agent.take(),
            user_id: None,
            close: None,
        })
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.kind.is_empty() {
            return;
        }
        self.log.write(&Line::Rest {
            time: time_of(&self.log),
            kind: self.kind,
            address: self.address,
            method: &self.method,
            route: self.note.route.as_deref(),
            status: self.status,
            ms: ms_since(self.started),
            bytes: self.bytes,
            user_id: self.note.user_id.map(|id| id.to_string()),
            key_id: self.note.key_id.map(|id| id.to_string()),
            agent: self.agent.as_deref(),
        });
    }
}

/// A WebSocket connection. Writes its line when it is dropped.
#[derive(Debug)]
pub struct WebSocket {
    /// It goes on in another process, which writes the line.
    is_passed_on: bool,
    log: Arc<AccessLog>,
    started: Instant,
    address: IpAddr,
    encoding: &'static str,
    compression: &'static str,
    agent: Option<String>,
    /// Account of the session, once it has one.
    pub user_id: Option<u64>,
    /// Code and sender of the first close frame.
    pub close: Option<(Option<u16>, &'static str)>,
}

/// Line of a connection that goes on in another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WebSocketSnapshot {
    age_ms: u64,
    address: IpAddr,
    agent: Option<String>,
}

impl WebSocket {
    /// The next process writes the line.
    pub fn pass_on(mut self) -> WebSocketSnapshot {
        self.is_passed_on = true;
        WebSocketSnapshot { age_ms: ms_since(self.started), address: self.address, agent: self.agent.take() }
    }

    /// A connection that another process has served. It has the encoding and the compression of these names.
    pub fn adopt(
        log: Arc<AccessLog>,
        kept: WebSocketSnapshot,
        (encoding, compression): (&'static str, &'static str),
    ) -> Box<Self> {
        let now = Instant::now();
        Box::new(Self {
            is_passed_on: false,
            log,
            started: now.checked_sub(Duration::from_millis(kept.age_ms)).unwrap_or(now),
            address: kept.address,
            encoding,
            compression,
            agent: kept.agent,
            user_id: None,
            close: None,
        })
    }
}

impl Drop for WebSocket {
    fn drop(&mut self) {
        if self.is_passed_on {
            return;
        }
        self.log.write(&Line::WebSocket {
            time: time_of(&self.log),
            kind: "websocket",
            address: self.address,
            status: 101,
            ms: ms_since(self.started),
            encoding: self.encoding,
            compression: self.compression,
            user_id: self.user_id.map(|id| id.to_string()),
            close_code: self.close.and_then(|(code, _)| code),
            closed_by: self.close.map(|(_, by)| by),
            agent: self.agent.as_deref(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn request(uri: &str) -> hyper::Request<()> {
        hyper::Request::builder().method("POST").uri(uri).header("user-agent", "a".repeat(300)).body(()).unwrap()
    }

    fn begin(log: &Arc<AccessLog>, uri: &str) -> Request {
        Request::begin(log.clone(), IpAddr::from([192, 0, 2, 1]), &request(uri))
    }

    #[test]
    fn x1_lines_name_routes_and_no_paths() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        let log = AccessLog::open(path.clone(), SystemClock::default()).unwrap();
        let mut response = hyper::Response::new(http_body_util::Full::new(bytes::Bytes::from_static(b"hello")));
        let note = AccessNote { route: Some("/api/webhooks/{a}/{b}".into()), user_id: Some(5), key_id: None };
        response.extensions_mut().insert(note);
        begin(&log, "/api/v10/webhooks/1/SECRET?token=SECRET").answered(&mut response);
        begin(&log, "/attachments/1/2/SECRET?hm=SECRET").answered(&mut response);
        // X3.
        drop(begin(&log, "/SECRET"));
        log.end();
        assert!(!std::fs::read_to_string(&path).unwrap().contains("SECRET"));
        let lines = lines(&path);
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0]["route"], "/api/webhooks/{a}/{b}");
        assert_eq!((&lines[0]["status"], &lines[0]["bytes"]), (&200.into(), &5.into()));
        assert_eq!((&lines[0]["user_id"], &lines[0]["address"]), (&"5".into(), &"192.0.2.1".into()));
        assert_eq!(lines[0]["agent"].as_str().unwrap().len(), AGENT_CHARS_MAX);
        assert_eq!(lines[1]["route"], "/attachments/{channel_id}/{id}/{filename}");
        assert_eq!((lines[2]["status"].is_null(), lines[2].get("route")), (true, None));
        // The log has ended, so this line is counted as lost.
        drop(begin(&log, "/"));
        assert_eq!(log.dropped_total(), 1);
    }

    #[test]
    fn x2_what_cannot_be_written_is_counted() {
        let log = AccessLog::open(PathBuf::from("/dev/full"), SystemClock::default()).unwrap();
        for _ in 0..10 {
            drop(begin(&log, "/"));
        }
        log.end();
        assert_eq!(log.dropped_total(), 10);
        assert!(AccessLog::open(PathBuf::from("/nowhere/access.log"), SystemClock::default()).is_err());
    }

    #[test]
    fn a_file_that_was_moved_away_is_opened_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("access.log"), dir.path().join("access.log.1"));
        let log = AccessLog::open(path.clone(), SystemClock::default()).unwrap();
        drop(begin(&log, "/healthz"));
        // Written before the file is renamed.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while std::fs::read(&path).unwrap().is_empty() {
            assert!(std::time::Instant::now() < deadline, "the line is not written");
            std::thread::yield_now();
        }
        std::fs::rename(&path, &moved).unwrap();
        log.reopen();
        drop(begin(&log, "/readyz"));
        log.end();
        let route = |path: &Path| lines(path).iter().map(|line| line["route"].clone()).collect::<Vec<_>>();
        assert_eq!((route(&moved), route(&path)), (vec!["/healthz".into()], vec!["/readyz".into()]));
    }
}
