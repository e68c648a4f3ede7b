//! Replay: serves a capture as a gateway.
//!
//! Owns        the dispatches of a capture, and the sessions of the clients that receive them.
//! Doors       `Capture::read`, then `Replayer::open` and `Replayer::run`.
//! Invariants  R1 every client receives the same dispatches in the same order, whatever its encoding and compression.
//!             R2 a client that resumes receives what it missed, and then goes on. (tests/it/captures.rs)
//! Limits      `SESSIONS_MAX`; a compressed connection has a context of some 100 to 300 KB; `BATCH_BYTES` per write.
//! Spec        docs/rehearsal.md "Replay".

use super::file::{CaptureLine, CaptureReader, Frame};
use crate::{
    http::{ClientRequest, Decision, RequestHandler, bind, serve},
    link::{Link, Query, Received},
    ops, rest,
};
use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use guildhall_codec::{DecodeLimits, DispatchFrame, Encoding, Framing, Inbound, decode_etf_from_gateway, encode_etf};
use guildhall_stdx::Rng;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    future::Future,
    io::Read,
    net::SocketAddr,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep_until, timeout},
};

/// Sessions that can be resumed; the oldest are forgotten.
const SESSIONS_MAX: usize = 65_536;
const IDENTIFY_WAIT: Duration = Duration::from_secs(60);
/// Dispatches that are due go out together, up to this size.
const BATCH_BYTES: usize = 64 << 10;
/// Of one capture.
const DISPATCHES_MAX: usize = 10_000_000;
const HEARTBEAT_MS: u64 = 41_250;

/// A dispatch of a capture.
#[derive(Debug)]
struct Dispatch {
    /// When its first byte came.
    at_us: u64,
    name: String,
    body: Box<RawValue>,
    etf: OnceLock<Vec<u8>>,
    /// Parts of its bytes that came before, and when what follows came.
    cuts: Vec<(f64, u64)>,
}

/// The dispatches of a session of a capture.
#[derive(Debug)]
pub struct Capture {
    dispatches: Vec<Dispatch>,
    heartbeat_ms: u64,
    encoding: String,
    compression: String,
    /// Payloads that are no JSON and no term.
    unreadable: u64,
}

/// A payload of the gateway.
#[derive(Deserialize)]
struct Payload<'a> {
    op: u64,
    #[serde(borrow)]
    d: Option<&'a RawValue>,
    s: Option<u64>,
    t: Option<String>,
}

/// A connection while its lines are read.
#[derive(Default)]
struct Reading {
    is_etf: bool,
    /// Bytes of the stream so far, by chunks and by frames.
    chunk_end: u64,
    frame_end: u64,
    /// Ends of chunks, and when each came, that no frame has passed.
    chunks: VecDeque<(u64, u64)>,
    whole: Vec<u8>,
    /// Where and when the message that is open began, and the cuts so far.
    began: Option<(u64, u64)>,
    cuts: Vec<(u64, u64)>,
}

impl Capture {
    /// Reads the first session of a capture: the connection that begins with READY, and those that resume it.
    ///
    /// # Errors
    /// The file is damaged, or has no READY.
    pub fn read(source: impl Read) -> Result<Self> {
        let mut reader = CaptureReader::new(source)?;
        let mut capture = Self {
            dispatches: Vec::new(),
            heartbeat_ms: HEARTBEAT_MS,
            encoding: String::new(),
            compression: String::new(),
            unreadable: 0,
        };
        let mut connections: HashMap<u64, Reading> = HashMap::new();
        // Dispatches by their number: a resumed connection repeats some.
        let mut found: BTreeMap<u64, Dispatch> = BTreeMap::new();
        let mut first: Option<u64> = None;
        while let Some(line) = reader.next_line()? {
            let CaptureLine { at_us, connection, open, chunk, frame, .. } = line;
            if let Some(open) = open {
                if first.is_none() {
                    (capture.encoding, capture.compression) = (open.encoding.clone(), open.compression.clone());
                }
                connections.insert(connection, Reading { is_etf: open.encoding == "etf", ..Reading::default() });
            }
            let Some(reading) = connections.get_mut(&connection) else { continue };
            if let Some(bytes) = chunk {
                reading.chunk_end = reading.chunk_end.saturating_add(bytes);
                reading.chunks.push_back((reading.chunk_end, at_us));
            }
            let Some(frame) = frame else { continue };
            let Some((began_us, cuts, whole)) = reading.take(at_us, &frame)? else { continue };
            let Some((op, seq, dispatch)) = payload(&whole, reading.is_etf, began_us, cuts) else {
                capture.unreadable += 1;
                continue;
            };
            if let (ops::HELLO, Some(interval)) = (op, dispatch.heartbeat_interval()) {
                capture.heartbeat_ms = interval.clamp(100, 600_000);
            }
            let (ops::DISPATCH, Some(seq)) = (op, seq) else { continue };
            if dispatch.name == "READY" {
                if first.is_some() {
                    // Another session: its connections are left out.
                    connections.remove(&connection);
                    continue;
                }
                first = Some(connection);
            }
            if first.is_some() && dispatch.name != "RESUMED" {
                ensure!(found.len() < DISPATCHES_MAX, "the capture has more than {DISPATCHES_MAX} dispatches");
                found.entry(seq).or_insert(dispatch);
            }
        }
        capture.dispatches = found.into_values().collect();
        ensure!(
            capture.dispatches.first().is_some_and(|of| of.name == "READY"),
            "the capture has no READY: start it before the client connects"
        );
        Ok(capture)
    }

    /// Number of dispatches.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dispatches.len()
    }

    /// Never: there is a READY.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dispatches.is_empty()
    }

    /// Messages that are no payloads, or were left out of the capture.
    #[must_use]
    pub fn unreadable_count(&self) -> u64 {
        self.unreadable
    }

    /// From the first to the last dispatch.
    #[must_use]
    pub fn duration(&self) -> Duration {
        let at = |of: Option<&Dispatch>| of.map_or(0, |of| of.at_us);
        let (first, last) = (at(self.dispatches.first()), at(self.dispatches.last()));
        Duration::from_micros(last.saturating_sub(first))
    }
}

impl Reading {
    /// Takes a frame. At the end of a message, and of its payload: when it began, its cuts, and its bytes.
    #[expect(clippy::type_complexity, reason = "three values of one caller")]
    fn take(&mut self, at_us: u64, frame: &Frame) -> Result<Option<(u64, Vec<(f64, u64)>, Vec<u8>)>> {
        let start = self.frame_end;
        let end = start.saturating_add(frame.wire_bytes);
        self.frame_end = end;
        // Chunks that ended before this frame.
        while self.chunks.front().is_some_and(|(chunk_end, _)| *chunk_end <= start) {
            self.chunks.pop_front();
        }
        let first_us = self.chunks.front().map_or(at_us, |(_, came_us)| *came_us);
        let mut inner = Vec::new();
        let mut of_chunk = self.chunks.iter().peekable();
        while let Some((chunk_end, _)) = of_chunk.next() {
            if *chunk_end >= end {
                break;
            }
            if let Some((_, next_us)) = of_chunk.peek() {
                inner.push((*chunk_end, *next_us));
            }
        }
        if matches!(&*frame.kind, "close" | "ping" | "pong") {
            return Ok(None);
        }
        let (began_at, began_us) = *self.began.get_or_insert((start, first_us));
        self.cuts.extend(inner);
        match (&frame.text, &frame.bytes) {
            (Some(text), _) => self.whole.extend_from_slice(text.as_bytes()),
            (None, Some(bytes)) => {
                self.whole.extend(STANDARD.decode(bytes).context("a frame of the capture is no base64")?);
            }
            (None, None) => {}
        }
        ensure!(self.whole.len() <= super::file::LINE_BYTES_MAX, "a message of the capture is too long");
        let is_complete = match self.is_etf {
            false => serde_json::from_slice::<serde::de::IgnoredAny>(&self.whole).is_ok(),
            true => decode_etf_from_gateway(&self.whole, DecodeLimits::default()).is_ok(),
        };
        if !frame.fin || !(is_complete || frame.unreadable) {
            return Ok(None);
        }
        self.began = None;
        let bytes = (end - began_at).max(1) as f64;
        let mut before = began_at;
        let mut left = bytes;
        // Each part is one of what is left.
        let cuts = std::mem::take(&mut self.cuts).into_iter().map(|(at, next_us)| {
            let part = (at - before) as f64 / left;
            left -= (at - before) as f64;
            before = at;
            (part, next_us)
        });
        Ok(Some((began_us, cuts.collect(), std::mem::take(&mut self.whole))))
    }
}

fn payload(whole: &[u8], is_etf: bool, at_us: u64, cuts: Vec<(f64, u64)>) -> Option<(u64, Option<u64>, Dispatch)> {
    let text;
    let json = match is_etf {
        false => whole,
        true => {
            text = decode_etf_from_gateway(whole, DecodeLimits::default()).ok()?.to_string();
            text.as_bytes()
        }
    };
    let Payload { op, d, s, t } = serde_json::from_slice(json).ok()?;
    let body = d.map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned);
    Some((op, s, Dispatch { at_us, name: t.unwrap_or_default(), body, etf: OnceLock::new(), cuts }))
}

impl Dispatch {
    fn heartbeat_interval(&self) -> Option<u64> {
        serde_json::from_str::<Value>(self.body.get()).ok()?["heartbeat_interval"].as_u64()
    }

    /// READY for a client of this gateway.
    fn ready(&self, session_id: &str, url: &str, shard: Option<&Value>) -> Result<Value> {
        let mut body: Value = serde_json::from_str(self.body.get()).context("READY of the capture")?;
        let fields = body.as_object_mut().context("READY of the capture is no object")?;
        fields.insert("session_id".to_owned(), session_id.into());
        fields.insert("resume_gateway_url".to_owned(), url.into());
        fields.remove("shard");
        if let Some(shard) = shard {
            fields.insert("shard".to_owned(), shard.clone());
        }
        Ok(body)
    }

    fn frame(&self, encoding: Encoding) -> Result<DispatchFrame> {
        Ok(match encoding {
            Encoding::Json => DispatchFrame::from_body(Encoding::Json, &self.name, self.body.get().as_bytes())?,
            Encoding::Etf => {
                let body = match self.etf.get() {
                    Some(body) => body,
                    None => {
                        let mut body = Vec::new();
                        encode_etf(&*self.body, &mut body)?;
                        self.etf.get_or_init(|| body)
                    }
                };
                DispatchFrame::from_body(Encoding::Etf, &self.name, body)?
            }
        })
    }
}

/// How a capture is served.
#[derive(Clone, Copy, Debug)]
pub struct ReplayParams {
    pub listen: SocketAddr,
    /// All dispatches at once, instead of at the pace of the capture.
    pub is_full_speed: bool,
    /// Of session ids.
    pub seed: u64,
}

/// Counts of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayStats {
    pub connections: u64,
    pub identified: u64,
    pub resumed: u64,
    pub dispatches: u64,
    /// Clients that received the whole capture.
    pub completed: u64,
}

/// A gateway that serves a capture.
pub struct Replayer {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Replayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replayer").field("address", &self.address).finish_non_exhaustive()
    }
}

struct Shared {
    capture: Capture,
    params: ReplayParams,
    url: String,
    sessions: Mutex<Sessions>,
    counts: [AtomicU64; 5],
}

struct Sessions {
    rng: Rng,
    by_id: HashMap<String, Session>,
    order: VecDeque<String>,
}

/// Position of a client.
#[derive(Clone, Debug, Default)]
struct Session {
    /// Number of the last dispatch that it was sent.
    seq: u64,
    /// Numbers that RESUMED had.
    resumed_at: Vec<u64>,
    shard: Option<Value>,
    /// The connection that has it.
    holder: u64,
}

impl Session {
    /// Index of the dispatch behind number `seq`.
    fn index_behind(&self, seq: u64) -> usize {
        let resumed = self.resumed_at.iter().filter(|at| **at <= seq).count();
        seq as usize - resumed
    }
}

impl Replayer {
    /// Binds the address of `params`.
    ///
    /// # Errors
    /// The address is in use, or not of this machine.
    pub async fn open(capture: Capture, params: ReplayParams) -> Result<Self> {
        let bound = bind(params.listen).await;
        let (listener, address) =
            bound.with_context(|| format!("cannot listen on {}: choose another port, or 0", params.listen))?;
        let sessions = Sessions { rng: Rng::new(params.seed), by_id: HashMap::new(), order: VecDeque::new() };
        let shared = Shared {
            capture,
            params,
            url: format!("ws://{address}"),
            sessions: Mutex::new(sessions),
            counts: [const { AtomicU64::new(0) }; 5],
        };
        Ok(Self { listener, address, shared: Arc::new(shared) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`.
    pub async fn run(self, stop: impl Future<Output = ()>) -> ReplayStats {
        let serving = tokio::spawn(serve(self.listener, 0, self.shared.clone()));
        stop.await;
        serving.abort();
        let [connections, identified, resumed, dispatches, completed] =
            std::array::from_fn(|at| self.shared.counts[at].load(Ordering::Relaxed));
        ReplayStats { connections, identified, resumed, dispatches, completed }
    }
}

impl RequestHandler for Shared {
    fn decide(&self, request: &ClientRequest) -> Decision {
        if request.is_upgrade {
            return match Query::parse(&request.query) {
                Ok(_) => Decision::Upgrade,
                Err(words) => Decision::Answer { status: 400, headers: Vec::new(), body: json!(words).to_string() },
            };
        }
        let (status, body) = rest::answer(&request.method, &request.path, &request.body, &self.url);
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        Decision::Answer { status, headers: Vec::new(), body }
    }

    fn opened(self: Arc<Self>, request: ClientRequest, stream: TcpStream, early: Vec<u8>) {
        tokio::spawn(async move {
            let number = self.count(0) + 1;
            // A client that ends its connection is no failure of the gateway.
            let _ = Client { shared: &self, number }.serve(&request, stream, early).await;
        });
    }
}

impl Shared {
    fn count(&self, which: usize) -> u64 {
        self.counts[which].fetch_add(1, Ordering::Relaxed)
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Client<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Client<'_> {
    async fn serve(&self, request: &ClientRequest, stream: TcpStream, early: Vec<u8>) -> Result<()> {
        let query = Query::parse(&request.query).map_err(anyhow::Error::msg)?;
        let mut link = Link::new(stream, early, &query)?;
        let interval = self.shared.capture.heartbeat_ms;
        link.send_control(ops::HELLO as u8, &json!({ "heartbeat_interval": interval, "_trace": ["replay"] })).await?;
        let (id, started) = match timeout(IDENTIFY_WAIT, self.begin(&mut link)).await {
            Ok(begun) => begun?,
            Err(_) => return link.close(4003, "Not authenticated").await,
        };
        let is_same = query.encoding.name() == self.shared.capture.encoding
            && query.compression.name() == self.shared.capture.compression;
        let done = self.stream(&mut link, &id, started, is_same).await;
        if let Ok(Some(code)) = done {
            link.answer_close(code).await;
        }
        done.map(|_| ())
    }

    /// Waits for IDENTIFY or RESUME, and answers it. Returns the session and the time to which the capture's begin
    /// belongs.
    async fn begin(&self, link: &mut Link) -> Result<(String, Instant)> {
        loop {
            let Inbound { op, d } = match link.receive().await {
                Received::Payload(inbound) => inbound,
                Received::Undecodable(words) => {
                    link.close(4002, "Error while decoding payload").await?;
                    bail!("{words}");
                }
                Received::Closed(_) | Received::Ended(_) => bail!("the client ended the connection"),
            };
            match op {
                ops::HEARTBEAT | ops::QOS_HEARTBEAT => {
                    link.send_control(ops::HEARTBEAT_ACK as u8, &Value::Null).await?
                }
                ops::IDENTIFY => {
                    self.shared.count(1);
                    let shard = d.get("shard").filter(|shard| !shard.is_null()).cloned();
                    let id = self.new_session(shard);
                    return Ok((id, self.started(0)));
                }
                ops::RESUME => match self.resume(&d) {
                    Some((id, from, to)) => {
                        self.shared.count(2);
                        return self.catch_up(link, id, from, to).await;
                    }
                    None => link.send_control(ops::INVALID_SESSION as u8, &Value::Bool(false)).await?,
                },
                _ => {
                    link.close(4003, "Not authenticated").await?;
                    bail!("{} before IDENTIFY", ops::name(op));
                }
            }
        }
    }

    /// The time at which the capture began, if dispatch `index` is due now.
    fn started(&self, index: usize) -> Instant {
        let at = self.shared.capture.dispatches.get(index).map_or(0, |of| of.at_us);
        Instant::now().checked_sub(Duration::from_micros(at)).unwrap_or_else(Instant::now)
    }

    fn new_session(&self, shard: Option<Value>) -> String {
        let mut sessions = self.shared.sessions();
        let id = format!("{:016x}{:016x}", sessions.rng.next_u64(), sessions.rng.next_u64());
        let session = Session { shard, holder: self.number, ..Session::default() };
        sessions.by_id.insert(id.clone(), session);
        sessions.order.push_back(id.clone());
        if sessions.order.len() > SESSIONS_MAX
            && let Some(oldest) = sessions.order.pop_front()
        {
            sessions.by_id.remove(&oldest);
        }
        id
    }

    /// The session of a RESUME, and the numbers behind which and up to which it lacks dispatches.
    fn resume(&self, d: &Value) -> Option<(String, u64, u64)> {
        let (id, seq) = (d["session_id"].as_str()?, d["seq"].as_u64()?);
        let mut sessions = self.shared.sessions();
        let session = sessions.by_id.get_mut(id).filter(|session| seq <= session.seq)?;
        session.holder = self.number;
        Some((id.to_owned(), seq, session.seq))
    }

    async fn catch_up(&self, link: &mut Link, id: String, from: u64, to: u64) -> Result<(String, Instant)> {
        link.hold();
        let session = self.shared.sessions().by_id.get(&id).cloned().context("the session is gone")?;
        for seq in from + 1..=to {
            if session.resumed_at.contains(&seq) {
                continue;
            }
            self.send(link, &id, session.index_behind(seq - 1), seq).await?;
            if link.held_bytes() >= BATCH_BYTES {
                link.release().await?;
                link.hold();
            }
        }
        let resumed = DispatchFrame::new(link.encoding(), "RESUMED", &json!({ "_trace": ["replay"] }));
        link.send(resumed?.write_for(to + 1, Framing::None)).await?;
        link.release().await?;
        let index = {
            let mut sessions = self.shared.sessions();
            let session = sessions.by_id.get_mut(&id).context("the session is gone")?;
            session.seq = to + 1;
            session.resumed_at.push(to + 1);
            session.index_behind(session.seq)
        };
        Ok((id, self.started(index)))
    }

    async fn send(&self, link: &mut Link, id: &str, index: usize, seq: u64) -> Result<()> {
        let Some(dispatch) = self.shared.capture.dispatches.get(index) else { return Ok(()) };
        let mut frame = match index {
            0 => {
                let shard = self.shared.sessions().by_id.get(id).and_then(|session| session.shard.clone());
                let ready = dispatch.ready(id, &self.shared.url, shard.as_ref())?;
                DispatchFrame::new(link.encoding(), "READY", &ready)?
            }
            _ => dispatch.frame(link.encoding())?,
        };
        self.shared.count(3);
        link.send(frame.write_for(seq, Framing::None)).await
    }

    /// Sends what is due, and acknowledges heartbeats. Returns the client's close code once it closes.
    async fn stream(&self, link: &mut Link, id: &str, started: Instant, is_same: bool) -> Result<Option<Option<u16>>> {
        let is_full_speed = self.shared.params.is_full_speed;
        let dispatches = &self.shared.capture.dispatches;
        let mut is_complete = false;
        loop {
            let (seq, index) = {
                let sessions = self.shared.sessions();
                let session = sessions.by_id.get(id).context("the session is gone")?;
                ensure!(session.holder == self.number, "another connection resumed the session");
                (session.seq, session.index_behind(session.seq))
            };
            if index >= dispatches.len() && !is_complete {
                is_complete = true;
                self.shared.count(4);
            }
            let due = dispatches.get(index).map(|of| match is_full_speed {
                true => started,
                false => started + Duration::from_micros(of.at_us),
            });
            let wait = async {
                match due {
                    Some(due) if due <= Instant::now() => {}
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                received = link.receive() => match received {
                    Received::Payload(Inbound { op: ops::HEARTBEAT | ops::QOS_HEARTBEAT, .. }) => {
                        link.send_control(ops::HEARTBEAT_ACK as u8, &Value::Null).await?;
                    }
                    Received::Payload(Inbound { op: ops::IDENTIFY | ops::RESUME, .. }) => {
                        link.close(4005, "Already authenticated").await?;
                        return Ok(None);
                    }
                    Received::Payload(_) => {}
                    Received::Undecodable(_) => {
                        link.close(4002, "Error while decoding payload").await?;
                        return Ok(None);
                    }
                    Received::Closed(code) => {
                        if matches!(code, Some(1000 | 1001)) {
                            self.shared.sessions().by_id.remove(id);
                        }
                        return Ok(Some(code));
                    }
                    Received::Ended(_) => return Ok(None),
                },
                () = wait => {
                    let sent = self.send_due(link, id, index, seq, started, is_same).await;
                    let last = sent?;
                    let mut sessions = self.shared.sessions();
                    if let Some(session) = sessions.by_id.get_mut(id) {
                        session.seq = last;
                    }
                }
            }
        }
    }

    /// Sends dispatches that are due in one write, or one by one where the capture cuts them. Returns the number of the
    /// last.
    async fn send_due(
        &self,
        link: &mut Link,
        id: &str,
        mut index: usize,
        mut seq: u64,
        started: Instant,
        is_same: bool,
    ) -> Result<u64> {
        let is_full_speed = self.shared.params.is_full_speed;
        let time = |at_us| started + Duration::from_micros(at_us);
        let dispatches = &self.shared.capture.dispatches;
        let now = Instant::now();
        link.hold();
        while let Some(dispatch) = dispatches.get(index) {
            if !is_full_speed && time(dispatch.at_us) > now || link.held_bytes() >= BATCH_BYTES {
                break;
            }
            let is_cut = is_same && !is_full_speed && !dispatch.cuts.is_empty();
            if is_cut {
                link.release().await?;
                link.cuts = dispatch.cuts.iter().map(|(part, at_us)| (*part, time(*at_us))).collect();
            }
            index += 1;
            seq += 1;
            self.send(link, id, index - 1, seq).await?;
            if is_cut {
                link.hold();
            }
        }
        link.release().await?;
        Ok(seq)
    }
}
