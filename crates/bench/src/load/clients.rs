//! Clients: well-behaved clients, all in one thread. Each connects, identifies, sends heartbeats, reads at once, and
//! behaves like a library after RECONNECT or a lost connection: it connects again and resumes.
//!
//! Owns        their sockets and sessions, received dispatches and their times.
//!             G3 what a backend published (`LOAD`, counted from 0) is heard in order, once, and all of it.
//!             A breach of any is counted in `Report::faults`, with one example.
//! Limits      `CONNECTING_MAX` on their way at once.

use super::{
    curve::Curve,
    fixture::{Account, GUILD, SentMessage},
};
use crate::wire::{self, BUFFER_BYTES, End, Received, Wire};
use anyhow::{Context as _, Result};
use guildhall_codec::{InflateHistory, MessageInflater, StreamDecompressor};
use guildhall_ws_proto::{DeflateParams, Event};
use mio::{Events, Poll};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    ops::{ControlFlow, Range},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const CONNECTING_MAX: usize = 100;
/// GUILDS, GUILD_MESSAGES, MESSAGE_CONTENT.
const INTENTS: u32 = 1 | 1 << 9 | 1 << 15;
const TICK: Duration = Duration::from_millis(20);
/// As libraries wait after op 9: one to five seconds.
const INVALID_MS: Range<u64> = 1_000..5_000;
/// After a connection that was refused or broke off.
const RETRY_MS: Range<u64> = 500..2_000;
/// After op 7, or a close that may be resumed.
const BACK_MS: Range<u64> = 0..100;
pub const STEP_MS: u64 = 250;
/// The name of what a backend publishes.
pub const PUBLISHED: &str = "LOAD";

/// What happened to all of them.
#[derive(Debug)]
pub struct Report {
    /// Milliseconds from post to receipt, by phase.
    pub latencies: Vec<Vec<f32>>,
    /// Longest time between two messages of each, since `time_silences`.
    pub silences: Vec<Duration>,
    /// Bytes that each received.
    pub received_bytes: Vec<u64>,
    /// Numbers that each heard, in order.
    pub heard: Vec<Vec<u32>>,
    /// IDENTIFYs of each.
    pub identified: Vec<u32>,
    /// Breaches of G1 and G2.
    pub faults: u64,
    pub example: Option<String>,
    /// Closes by code; `cut` without one.
    pub closes: BTreeMap<String, u64>,
    pub asked: Curve,
    pub resumed: Curve,
    pub refused: Curve,
    pub ready: Curve,
}

/// How a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    pub name: &'static str,
    /// Value of `compress` in the URL.
    compress: Option<&'static str>,
    /// Offer of permessage-deflate, with or without context takeover of the server.
    offer: Option<bool>,
}

impl Way {
    const fn of(name: &'static str, compress: Option<&'static str>, offer: Option<bool>) -> Self {
        Self { name, compress, offer }
    }

    pub const PLAIN: Self = Self::of("none", None, None);
    /// Each compression.
    pub const ALL: [Self; 5] = [
        Self::PLAIN,
        Self::of("zlib-stream", Some("zlib-stream"), None),
        Self::of("zstd-stream", Some("zstd-stream"), None),
        Self::of("permessage-deflate", None, Some(true)),
        Self::of("permessage-deflate, no takeover", None, Some(false)),
    ];

    fn target(self) -> String {
        let compress = self.compress.map(|name| format!("&compress={name}")).unwrap_or_default();
        format!("/?v=10&encoding=json{compress}")
    }

    fn offer(self) -> Option<DeflateParams> {
        let takes_over = self.offer?;
        Some(DeflateParams { server_no_context_takeover: !takes_over, ..DeflateParams::default() })
    }

    fn reader(self) -> Result<Reader> {
        Ok(match (self.compress, self.offer) {
            (Some("zlib-stream"), _) => Reader::Stream(Box::new(StreamDecompressor::zlib()?)),
            (Some(_), _) => Reader::Stream(Box::new(StreamDecompressor::zstd(23)?)),
            (None, Some(takes_over)) => Reader::Messages(takes_over.then(InflateHistory::default)),
            (None, None) => Reader::Plain,
        })
    }
}

/// Reads what a client receives, by the libraries.
enum Reader {
    Plain,
    Stream(Box<StreamDecompressor>),
    /// With the messages before, if the server refers to them.
    Messages(Option<InflateHistory>),
}

/// Deliveries of a message to the clients of one node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    pub count: usize,
    /// Time of the last of them since the beginning of the clients, in microseconds.
    pub last_us: u64,
}

/// Dispatches by which the clients of one node noticed that a guild was away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outages {
    /// GUILD_DELETE with `unavailable`.
    pub gone: u64,
    /// GUILD_CREATE after that.
    pub back: u64,
}

/// See the module.
pub struct Clients {
    shared: Arc<Shared>,
    count: usize,
    thread: JoinHandle<Result<Report>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Clients that have a session and are connected.
    ready_count: AtomicUsize,
    /// The newest number that all have received, for callers that wait for it.
    heard_by_all: Mutex<u32>,
    published_heard: AtomicU64,
    faults: AtomicU64,
    times_silences: AtomicBool,
    /// By number of the message and by node.
    heard: Mutex<BTreeMap<u32, Vec<Heard>>>,
    heard_more: Condvar,
    /// Those of each node's clients.
    outages: Mutex<Vec<Outages>>,
}

impl Clients {
    /// Connects all of them: the first to the first node, the second to the second, and so on in turn.
    pub fn start(nodes: &[SocketAddr], accounts: Vec<Account>, started: Instant) -> Self {
        Self::start_in(nodes, accounts, &[Way::PLAIN], started)
    }

    /// The same; the first connects in the first way, the second in the second, and so on in turn.
    pub fn start_in(nodes: &[SocketAddr], accounts: Vec<Account>, ways: &[Way], started: Instant) -> Self {
        let shared = Arc::new(Shared::default());
        let (theirs, nodes, count) = (shared.clone(), nodes.to_vec(), accounts.len());
        let ways = ways.to_vec();
        let thread = thread::spawn(move || Swarm::new(nodes, accounts, ways, started, theirs)?.run());
        Self { shared, count, thread }
    }

    /// Deliveries of this message, by node. It waits until all clients have heard it, at most for `patience`.
    pub fn wait_heard(&self, number: u32, patience: Duration) -> Vec<Heard> {
        let count = self.count;
        let heard = self.shared.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let is_missing = |heard: &mut BTreeMap<u32, Vec<Heard>>| {
            let nodes = heard.get(&number).map(Vec::as_slice).unwrap_or_default();
            nodes.iter().map(|node| node.count).sum::<usize>() < count
        };
        let waited = self.shared.heard_more.wait_timeout_while(heard, patience, is_missing);
        let (heard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        heard.get(&number).cloned().unwrap_or_default()
    }

    /// Breaches so far.
    pub fn faults(&self) -> u64 {
        self.shared.faults.load(Ordering::Relaxed)
    }

    /// Outages so far, by node.
    pub fn outages(&self) -> Vec<Outages> {
        self.shared.outages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn ready_count(&self) -> usize {
        self.shared.ready_count.load(Ordering::Relaxed)
    }

    pub fn heard_by_all(&self) -> u32 {
        *self.shared.heard_by_all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often any of them heard something that was published.
    pub fn published_heard(&self) -> u64 {
        self.shared.published_heard.load(Ordering::Relaxed)
    }

    pub fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }

    /// From now on the longest time without a message counts, for `Report::silences`.
    pub fn time_silences(&self) {
        self.shared.times_silences.store(true, Ordering::Relaxed);
    }

    /// Disconnects them.
    pub fn end(self) -> Result<Report> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok().context("the clients' thread panicked")?
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Connects at this time.
    Away(Instant),
    Connecting,
    Upgrading,
    /// Waits for HELLO, then for READY or RESUMED.
    Greeted,
    Live,
}

struct Client {
    account: Account,
    /// Index of its node.
    node: usize,
    /// Its guild is away.
    is_cut: bool,
    state: State,
    /// None also while it is read.
    wire: Option<Wire>,
    way: Way,
    reader: Reader,
    heard_at: Option<Instant>,
    silence: Duration,
    received_bytes: u64,
    session: Option<(String, u64)>,
    heard: Vec<u32>,
    published_heard: u64,
    identified: u32,
    interval: Duration,
    beat_at: Instant,
}

#[derive(Deserialize)]
struct Payload<'a> {
    op: u8,
    s: Option<u64>,
    #[serde(borrow)]
    t: Option<&'a str>,
    #[serde(borrow)]
    d: Option<&'a RawValue>,
}

struct Swarm {
    nodes: Vec<SocketAddr>,
    poll: Poll,
    clients: Vec<Client>,
    waiting: VecDeque<usize>,
    connecting: usize,
    report: Report,
    started: Instant,
    shared: Arc<Shared>,
    rng: guildhall_stdx::Rng,
    buffer: Vec<u8>,
    inflater: MessageInflater,
}

/// A client goes on with its connection, or comes back after this time in milliseconds.
type Flow = ControlFlow<Range<u64>>;
const ON: Flow = ControlFlow::Continue(());

impl Swarm {
    fn new(
        nodes: Vec<SocketAddr>,
        accounts: Vec<Account>,
        ways: Vec<Way>,
        started: Instant,
        shared: Arc<Shared>,
    ) -> Result<Self> {
        let count = accounts.len();
        let now = Instant::now();
        *shared.outages.lock().unwrap_or_else(PoisonError::into_inner) = vec![Outages::default(); nodes.len()];
        let client = |(index, account)| Client {
            account,
            node: index % nodes.len(),
            is_cut: false,
            state: State::Away(now),
            wire: None,
            way: ways[index % ways.len()],
            reader: Reader::Plain,
            heard_at: None,
            silence: Duration::ZERO,
            received_bytes: 0,
            session: None,
            heard: Vec::new(),
            published_heard: 0,
            identified: 0,
            interval: Duration::from_secs(3600),
            beat_at: now + Duration::from_secs(3600),
        };
        Ok(Self {
            poll: Poll::new()?,
            clients: accounts.into_iter().enumerate().map(client).collect(),
            nodes,
            waiting: VecDeque::new(),
            connecting: 0,
            report: Report {
                latencies: Vec::new(),
                silences: Vec::new(),
                received_bytes: Vec::new(),
                heard: Vec::new(),
                identified: vec![0; count],
                faults: 0,
                example: None,
                closes: BTreeMap::new(),
                asked: Curve::new("asked to reconnect (op 7)", STEP_MS),
                resumed: Curve::new("resumed", STEP_MS),
                refused: Curve::new("refused (op 9)", STEP_MS),
                ready: Curve::new("identified and ready", STEP_MS),
            },
            started,
            shared,
            rng: guildhall_stdx::Rng::new(7),
            buffer: vec![0; BUFFER_BYTES],
            inflater: MessageInflater::new()?,
        })
    }

    fn run(mut self) -> Result<Report> {
        let mut events = Events::with_capacity(4096);
        let mut looked_at = Instant::now();
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.poll.poll(&mut events, Some(TICK))?;
            for event in &events {
                self.read(event.token().0);
            }
            if looked_at.elapsed() >= TICK {
                looked_at = Instant::now();
                self.look(looked_at)?;
            }
        }
        self.report.heard = self.clients.iter_mut().map(|client| std::mem::take(&mut client.heard)).collect();
        self.report.silences = self.clients.iter().map(|client| client.silence).collect();
        self.report.received_bytes = self.clients.iter().map(|client| client.received_bytes).collect();
        self.report.identified = self.clients.iter().map(|client| client.identified).collect();
        Ok(self.report)
    }

    /// Sends heartbeats, and connects waiting clients.
    fn look(&mut self, now: Instant) -> Result<()> {
        let (mut ready, mut heard) = (0, u32::MAX);
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            heard = heard.min(client.heard.last().copied().unwrap_or(0));
            ready += usize::from(client.state == State::Live);
            match client.state {
                State::Away(at) if at <= now => {
                    client.state = State::Connecting;
                    self.waiting.push_back(index);
                }
                State::Live if client.beat_at <= now => {
                    client.beat_at = now + client.interval;
                    let seq = client.session.as_ref().map(|(_, seq)| *seq);
                    client.wire.iter_mut().for_each(|wire| wire.send(&json!({"op": 1, "d": seq})));
                }
                _ => {}
            }
        }
        while self.connecting < CONNECTING_MAX
            && let Some(index) = self.waiting.pop_front()
        {
            self.connect(index)?;
        }
        self.shared.ready_count.store(ready, Ordering::Relaxed);
        *self.shared.heard_by_all.lock().unwrap_or_else(PoisonError::into_inner) = heard;
        Ok(())
    }

    fn connect(&mut self, index: usize) -> Result<()> {
        let addr = self.nodes[self.clients[index].node];
        let way = self.clients[index].way;
        match Wire::connect(self.poll.registry(), index, addr, (&way.target(), way.offer())) {
            Ok(wire) => {
                let client = &mut self.clients[index];
                client.reader = way.reader()?;
                (client.state, client.wire) = (State::Upgrading, Some(wire));
                self.connecting += 1;
            }
            Err(_) => self.go_away(index, RETRY_MS),
        }
        Ok(())
    }

    /// The connection is over; it comes back some time later.
    fn go_away(&mut self, index: usize, in_ms: Range<u64>) {
        let ms = in_ms.start + self.rng.below(in_ms.end - in_ms.start);
        let client = &mut self.clients[index];
        if matches!(client.state, State::Upgrading | State::Greeted) {
            self.connecting = self.connecting.saturating_sub(1);
        }
        client.state = State::Away(Instant::now() + Duration::from_millis(ms));
    }

    /// Also writes what is left to be written.
    fn read(&mut self, index: usize) {
        let Some(mut wire) = self.clients[index].wire.take() else { return };
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = wire.read(&mut buffer, |received, out| match received {
            Received::Upgraded(_) => {
                self.clients[index].state = State::Greeted;
                ON
            }
            Received::Event(Event::Text(text)) => self.take_payload(index, text, out),
            Received::Event(Event::Binary(payload) | Event::Compressed { payload, .. }) => {
                self.take_compressed(index, payload, out)
            }
            Received::Bytes(bytes) => {
                self.clients[index].received_bytes += bytes.len() as u64;
                ON
            }
            Received::Event(_) => ON,
        });
        self.buffer = buffer;
        let mut count = |close: String| *self.report.closes.entry(close).or_default() += 1;
        let away = match result {
            Ok(None) => return self.clients[index].wire = Some(wire),
            Ok(Some(in_ms)) => in_ms,
            Err(End::Closed(code)) => {
                count(code.map_or("none".to_owned(), |code| code.to_string()));
                BACK_MS
            }
            Err(End::BadFrame(error)) => {
                self.fault(|| format!("client {index} got a bad frame: {error}"));
                RETRY_MS
            }
            Err(End::Cut) if self.clients[index].state == State::Live => {
                count("cut".to_owned());
                RETRY_MS
            }
            // 503 while it drains, and the like.
            Err(End::Cut | End::Refused(_)) => RETRY_MS,
        };
        self.go_away(index, away);
    }

    fn fault(&mut self, what: impl FnOnce() -> String) {
        self.report.faults += 1;
        self.shared.faults.store(self.report.faults, Ordering::Relaxed);
        self.report.example.get_or_insert_with(what);
    }

    fn take_compressed(&mut self, index: usize, payload: &[u8], out: &mut Vec<u8>) -> Flow {
        let mut text = Vec::new();
        let read = match &mut self.clients[index].reader {
            Reader::Plain => Ok(()),
            Reader::Stream(stream) => stream.decompress(payload, &mut text, wire::MESSAGE_BYTES_MAX),
            Reader::Messages(history) => {
                let before = history.as_ref().unwrap_or(const { &InflateHistory::NONE });
                let read = self.inflater.inflate(before, payload, &mut text, wire::MESSAGE_BYTES_MAX);
                history.iter_mut().for_each(|history| history.remember(&text, 15));
                read
            }
        };
        match (read, std::str::from_utf8(&text)) {
            (Ok(()), Ok(text)) if !text.is_empty() => self.take_payload(index, text, out),
            (read, _) => {
                self.fault(|| format!("client {index} cannot read {} bytes: {:?}", payload.len(), read.err()));
                ON
            }
        }
    }

    fn take_payload(&mut self, index: usize, text: &str, out: &mut Vec<u8>) -> Flow {
        let Ok(payload) = serde_json::from_str::<Payload<'_>>(text) else {
            self.fault(|| format!("client {index} got {text:.200}"));
            return ON;
        };
        let body = payload.d.map_or("", RawValue::get);
        match (payload.op, payload.t) {
            (0, Some("READY")) => {
                let ready: Value = serde_json::from_str(body).unwrap_or_default();
                let id = ready["session_id"].as_str().unwrap_or_default().to_owned();
                self.clients[index].session = Some((id, payload.s.unwrap_or(0)));
                self.report.ready.count(self.started.elapsed());
                self.be_live(index, out);
            }
            (0, name) => self.take_dispatch(index, (payload.s.unwrap_or(0), name.unwrap_or_default()), body, out),
            (7, _) => {
                self.report.asked.count(self.started.elapsed());
                return ControlFlow::Break(BACK_MS);
            }
            (9, _) => {
                self.report.refused.count(self.started.elapsed());
                self.clients[index].session = None;
                return ControlFlow::Break(INVALID_MS);
            }
            (10, _) => self.begin(index, body, out),
            _ => {}
        }
        ON
    }

    /// HELLO: IDENTIFY, or RESUME if there is something to resume.
    fn begin(&mut self, index: usize, hello: &str, out: &mut Vec<u8>) {
        let hello: Value = serde_json::from_str(hello).unwrap_or_default();
        let interval = Duration::from_millis(hello["heartbeat_interval"].as_u64().unwrap_or(41_250));
        let first = interval.mul_f64(self.rng.fraction());
        let client = &mut self.clients[index];
        (client.interval, client.beat_at) = (interval, Instant::now() + first);
        let token = &client.account.token;
        let payload = match &client.session {
            Some((id, seq)) => json!({"op": 6, "d": {"token": token, "session_id": id, "seq": seq}}),
            None => {
                client.identified += 1;
                let properties = json!({"os": "linux", "browser": "bench", "device": "bench"});
                json!({"op": 2, "d": {"token": token, "intents": INTENTS, "properties": properties}})
            }
        };
        wire::push(&payload, out);
    }

    fn be_live(&mut self, index: usize, out: &mut Vec<u8>) {
        if self.clients[index].state != State::Live {
            self.connecting = self.connecting.saturating_sub(1);
        }
        let client = &mut self.clients[index];
        client.state = State::Live;
        if !client.account.is_bot && client.session.as_ref().is_some_and(|(_, seq)| *seq == 1) {
            // It looks at the guild.
            let subscription = json!({GUILD.to_string(): {"typing": true}});
            wire::push(&json!({"op": 37, "d": {"subscriptions": subscription}}), out);
        }
    }

    fn take_dispatch(&mut self, index: usize, (seq, name): (u64, &str), body: &str, out: &mut Vec<u8>) {
        let client = &mut self.clients[index];
        if let Some((_, last)) = &mut client.session {
            let expected = *last + 1;
            *last = seq;
            if seq != expected {
                self.fault(|| format!("client {index} got seq {seq} instead of {expected} ({name})"));
            }
        }
        match name {
            "RESUMED" => {
                self.report.resumed.count(self.started.elapsed());
                self.be_live(index, out);
            }
            PUBLISHED => {
                self.shared.published_heard.fetch_add(1, Ordering::Relaxed);
                let number = serde_json::from_str::<Value>(body).unwrap_or_default()["n"].as_u64();
                let client = &mut self.clients[index];
                let expected = client.published_heard;
                client.published_heard += 1;
                if number != Some(expected) {
                    self.fault(|| format!("client {index} heard {PUBLISHED} {number:?} instead of {expected}"));
                }
            }
            "MESSAGE_CREATE" => {
                let Some(message) = SentMessage::find(body) else { return };
                let took_us = (self.started.elapsed().as_micros() as u64).saturating_sub(message.said_us);
                if self.report.latencies.len() <= message.phase {
                    self.report.latencies.resize_with(message.phase + 1, Vec::new);
                }
                self.report.latencies[message.phase].push(took_us as f32 / 1000.0);
                let client = &mut self.clients[index];
                let now = Instant::now();
                if let Some(before) = client.heard_at.replace(now)
                    && self.shared.times_silences.load(Ordering::Relaxed)
                {
                    client.silence = client.silence.max(now - before);
                }
                let last = client.heard.last().copied();
                client.heard.push(message.number);
                let node = client.node;
                if last.is_some_and(|last| last >= message.number) {
                    self.fault(|| format!("client {index} heard {} after {last:?}", message.number));
                }
                self.note_heard(node, message.number);
            }
            "GUILD_DELETE" if body.contains("\"unavailable\":true") => {
                let client = &mut self.clients[index];
                client.is_cut = true;
                let node = client.node;
                self.note_outage(node, |outages| outages.gone += 1);
            }
            "GUILD_CREATE" if std::mem::take(&mut self.clients[index].is_cut) => {
                let node = self.clients[index].node;
                self.note_outage(node, |outages| outages.back += 1);
            }
            _ => {}
        }
    }
}

impl Swarm {
    fn note_heard(&self, node: usize, number: u32) {
        let mut heard = self.shared.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = heard.entry(number).or_insert_with(|| vec![Heard::default(); self.nodes.len()]);
        nodes[node].count += 1;
        nodes[node].last_us = self.started.elapsed().as_micros() as u64;
        // Only the last client that receives a message can end a wait.
        if nodes.iter().map(|node| node.count).sum::<usize>() == self.clients.len() {
            self.shared.heard_more.notify_all();
        }
    }

    fn note_outage(&self, node: usize, note: impl FnOnce(&mut Outages)) {
        note(&mut self.shared.outages.lock().unwrap_or_else(PoisonError::into_inner)[node]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_events_are_counted_separately_and_in_order() {
        let account = Account { is_bot: true, token: "token".to_owned() };
        let shared = Arc::new(Shared::default());
        let addr = SocketAddr::from(([127, 0, 0, 1], 9));
        let mut swarm =
            Swarm::new(vec![addr], vec![account], vec![Way::PLAIN], Instant::now(), shared.clone()).unwrap();
        swarm.clients[0].session = Some(("id".to_owned(), 1));
        let mut seq = 1;
        let mut hear = |name: &str, d: &Value| {
            seq += 1;
            let _ = swarm.take_payload(0, &json!({"op": 0, "s": seq, "t": name, "d": d}).to_string(), &mut Vec::new());
            swarm.report.faults
        };
        let message = json!({"content": "p=0 n=1 t=0 and some words"});
        assert_eq!(hear("MESSAGE_CREATE", &message), 0);
        assert_eq!([0, 1].map(|n| hear(PUBLISHED, &json!({"n": n}))), [0, 0]);
        assert_eq!(shared.published_heard.load(Ordering::Relaxed), 2, "messages of members do not count");
        assert_eq!(hear(PUBLISHED, &json!({"n": 3})), 1, "one was left out");
        assert_eq!(hear("MESSAGE_CREATE", &message), 2, "sent once, received twice");
    }

    #[test]
    fn received_and_missed_messages_are_counted_by_node() {
        let account = || Account { is_bot: true, token: "token".to_owned() };
        let shared = Arc::new(Shared::default());
        let addr = SocketAddr::from(([127, 0, 0, 1], 9));
        let accounts = vec![account(), account(), account()];
        let mut swarm = Swarm::new(vec![addr; 2], accounts, vec![Way::PLAIN], Instant::now(), shared.clone()).unwrap();
        let mut hear = |index: usize, name: &str, d: Value| {
            let _ =
                swarm.take_payload(index, &json!({"op": 0, "s": 1, "t": name, "d": d}).to_string(), &mut Vec::new());
        };
        for index in 0..3 {
            hear(index, "MESSAGE_CREATE", json!({"content": "p=0 n=7 t=0 and some words"}));
        }
        let counts: Vec<usize> = shared.heard.lock().unwrap()[&7].iter().map(|heard| heard.count).collect();
        assert_eq!(counts, [2, 1], "the third client is at the first node");
        hear(1, "GUILD_CREATE", json!({"id": "1"}));
        hear(1, "GUILD_DELETE", json!({"id": "1", "unavailable": true}));
        hear(1, "GUILD_CREATE", json!({"id": "1"}));
        let outages: Vec<_> = shared.outages.lock().unwrap().iter().map(|of| (of.gone, of.back)).collect();
        assert_eq!(outages, [(0, 0), (1, 1)], "the first GUILD_CREATE is no return");
    }
}
