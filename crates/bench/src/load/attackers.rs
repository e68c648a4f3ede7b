//! Attackers: clients of every hostile kind, all in one thread. Closed clients reconnect again and again.
//!
//! Owns        the behaviour of each kind (`Kind`), its permitted close codes, and the actual ones.
//! Invariants  each has an address of its own in `X-Forwarded-For`, and so the limits of one peer.
//! Limits      one socket each. The thread is nice, so that on a small machine it is the server's work that is measured
//!             and not the attackers' own.

use super::fixture::{Account, CHANNEL, GUILD};
use crate::wire::{BUFFER_BYTES, End, Received, Wire};
use anyhow::{Context as _, Result};
use guildhall_codec::{DeflateCompressor, ZlibParams};
use guildhall_stdx::Rng;
use guildhall_ws_proto::{DeflateParams, Event, Opcode, append_masked_frame, handshake::AnswerError};
use mio::{Events, Poll};
use rustix::{net::sockopt::set_socket_recv_buffer_size, process::nice};
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const NICE: i32 = 10;
const TICK: Duration = Duration::from_millis(20);
/// A drip is a byte so often.
const DRIP: Duration = Duration::from_millis(500);
/// Requests per connection of a client that never reads, within the limit of messages; as many at once as may
/// wait for their answer.
const QUESTIONS: usize = 510;
const QUESTIONS_AT_ONCE: usize = 15;
/// Limit of messages that suffices to fill the kernel's buffers.
pub const MESSAGES_PER_MINUTE: u32 = 600;
/// GUILDS, GUILD_MEMBERS, GUILD_MESSAGES.
const INTENTS: u32 = 1 | 1 << 1 | 1 << 9;
const PLAIN: &str = "/?v=10&encoding=json";

/// Behaviour of a hostile client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Opens a socket and sends nothing.
    Mute,
    /// The head of its request comes a byte at a time.
    SlowHead,
    /// The body of its REST request comes a byte at a time.
    SlowBody,
    /// Receives HELLO and sends nothing.
    Silent,
    /// Its IDENTIFY comes a byte at a time.
    SlowFrame,
    /// Has a session and never sends a heartbeat.
    HalfOpen,
    /// Announces a message of a mebibyte.
    Oversize,
    /// Sends frames that are none.
    BadFrame,
    /// Sends messages that are none.
    BadPayload,
    /// Commands before IDENTIFY.
    TooEarly,
    /// More heartbeats at once than a minute has messages.
    Flood,
    /// A message that inflates to twelve megabytes.
    Bomb,
    /// All of this kind identify as the same bot, twenty times a second.
    IdentifyStorm,
    /// A token that was never minted.
    WrongToken,
    /// Has a session, sends many requests, and reads nothing.
    NeverReads,
}

pub const KINDS: [Kind; 15] = [
    Kind::Mute,
    Kind::SlowHead,
    Kind::SlowBody,
    Kind::Silent,
    Kind::SlowFrame,
    Kind::HalfOpen,
    Kind::Oversize,
    Kind::BadFrame,
    Kind::BadPayload,
    Kind::TooEarly,
    Kind::Flood,
    Kind::Bomb,
    Kind::IdentifyStorm,
    Kind::WrongToken,
    Kind::NeverReads,
];

impl Kind {
    /// How it may end. Anything else is a fault of the server, but being refused at the door (`http 429`, `http 503`).
    pub fn ends(self) -> &'static [&'static str] {
        match self {
            Self::Mute | Self::SlowHead => &["end", "http 408"],
            Self::SlowBody => &["end", "http 400", "http 408"],
            Self::Silent | Self::SlowFrame | Self::TooEarly => &["4003"],
            Self::HalfOpen => &["4000"],
            Self::Oversize | Self::Bomb | Self::BadPayload => &["4002"],
            Self::BadFrame => &["1002"],
            Self::Flood => &["4008"],
            // Some get a session and identify again; some have none at the IDENTIFY deadline.
            Self::IdentifyStorm => &["4008", "4005", "4003"],
            Self::WrongToken => &["4004"],
            // It reads nothing, also no close frame.
            Self::NeverReads => &["end"],
        }
    }
}

/// How the connections of one kind went.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ends {
    /// Connections begun.
    pub connections: u64,
    /// By code; `end` without one; `http …` for those that were refused before their upgrade.
    pub ends: BTreeMap<String, u64>,
}

/// See the module.
pub struct Attackers {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<BTreeMap<Kind, Ends>>>,
}

impl Attackers {
    /// One client per account, with kinds in turn. Closed ones reconnect after about `away`.
    pub fn start(addr: SocketAddr, accounts: Vec<Account>, away: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = stop.clone();
        let thread = thread::spawn(move || Gang::new(addr, accounts, away)?.run(&theirs));
        Self { stop, thread }
    }

    pub fn end(self) -> Result<BTreeMap<Kind, Ends>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok().context("the bad clients' thread panicked")?
    }
}

struct Client {
    kind: Kind,
    account: Account,
    address: String,
    /// None also while it is read.
    wire: Option<Wire>,
    back_at: Instant,
    has_session: bool,
    asked: usize,
    /// Bytes sent one at a time, in reverse order.
    drip: Vec<u8>,
    act_at: Instant,
}

struct Gang {
    addr: SocketAddr,
    away: Duration,
    poll: Poll,
    clients: Vec<Client>,
    ends: BTreeMap<Kind, Ends>,
    bomb: Vec<u8>,
    /// What all of the identify storm are.
    storm: String,
    rng: Rng,
    turn: usize,
    buffer: Vec<u8>,
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    append_masked_frame(Opcode::Text, [0; 4], payload, &mut frame);
    frame[0] = first;
    frame
}

fn text(payload: &Value) -> Vec<u8> {
    frame(0x81, payload.to_string().as_bytes())
}

fn identify(token: &str) -> Value {
    let properties = json!({"os": "linux", "browser": "bad", "device": "bad"});
    json!({"op": 2, "d": {"token": token, "intents": INTENTS, "properties": properties}})
}

impl Gang {
    fn new(addr: SocketAddr, accounts: Vec<Account>, away: Duration) -> Result<Self> {
        let mut deflater = DeflateCompressor::new(ZlibParams::default(), 15).context("making a bomb")?;
        let mut bomb = Vec::new();
        deflater.compress_alone(&[&vec![b' '; 12 << 20]], &mut bomb).context("making a bomb")?;
        let storm = accounts.iter().find(|account| account.is_bot).context("a bot")?.token.clone();
        let now = Instant::now();
        let mut rng = Rng::new(13);
        let mut clients = Vec::with_capacity(accounts.len());
        for (index, account) in accounts.into_iter().enumerate() {
            clients.push(Client {
                kind: KINDS[index % KINDS.len()],
                account,
                address: format!("198.18.{}.{}", index >> 8, index & 255),
                wire: None,
                // Not all in the same moment.
                back_at: now + away.mul_f64(rng.fraction()),
                has_session: false,
                asked: 0,
                drip: Vec::new(),
                act_at: now,
            });
        }
        let ends = KINDS.into_iter().map(|kind| (kind, Ends::default())).collect();
        Ok(Self {
            addr,
            away,
            poll: Poll::new()?,
            clients,
            ends,
            bomb,
            storm,
            rng,
            turn: 0,
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    fn run(mut self, stop: &AtomicBool) -> Result<BTreeMap<Kind, Ends>> {
        // Of this thread only.
        let _ = nice(NICE);
        let mut events = Events::with_capacity(4096);
        let mut looked_at = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            self.poll.poll(&mut events, Some(TICK))?;
            for event in &events {
                let index = event.token().0;
                if self.clients[index].kind == Kind::NeverReads && self.clients[index].has_session {
                    // A client that does not read still notices that it was cut.
                    match event.is_read_closed() || event.is_error() {
                        true => self.over(index, "end"),
                        false => self.clients[index].wire.iter_mut().for_each(Wire::write),
                    }
                } else {
                    self.read(index);
                }
            }
            if looked_at.elapsed() >= TICK {
                looked_at = Instant::now();
                for index in 0..self.clients.len() {
                    self.look(index, looked_at)?;
                }
            }
        }
        Ok(self.ends)
    }

    fn look(&mut self, index: usize, now: Instant) -> Result<()> {
        let client = &mut self.clients[index];
        let Some(wire) = &mut client.wire else {
            return if client.back_at <= now { self.connect(index) } else { Ok(()) };
        };
        if client.act_at > now {
            return Ok(());
        }
        if let Some(byte) = client.drip.pop() {
            wire.unsent.push(byte);
            client.act_at = now + DRIP;
        } else if client.kind == Kind::IdentifyStorm && wire.is_upgraded() {
            client.act_at = now + Duration::from_millis(50);
            wire.unsent.extend(text(&identify(&self.storm)));
        } else if client.kind == Kind::NeverReads && client.has_session {
            client.act_at = now + Duration::from_millis(400);
            let ask = |limit: u32, query: &str| {
                text(&json!({"op": 8, "d": {"guild_id": GUILD.to_string(), "query": query, "limit": limit}}))
            };
            if client.asked == 0 && client.account.is_bot {
                wire.unsent.extend(ask(0, ""));
            }
            if client.asked < QUESTIONS {
                client.asked += QUESTIONS_AT_ONCE;
                wire.unsent.extend(ask(100, "m").repeat(QUESTIONS_AT_ONCE));
            }
        } else {
            return Ok(());
        }
        wire.write();
        Ok(())
    }

    fn connect(&mut self, index: usize) -> Result<()> {
        let client = &mut self.clients[index];
        client.back_at = Instant::now() + self.away;
        let offer = (client.kind == Kind::Bomb).then(DeflateParams::default);
        let Ok(mut wire) = Wire::connect(self.poll.registry(), index, self.addr, (PLAIN, offer)) else {
            return Ok(());
        };
        if client.kind == Kind::NeverReads {
            let _ = set_socket_recv_buffer_size(&wire.stream, 4 << 10);
        }
        (client.has_session, client.asked, client.drip) = (false, 0, Vec::new());
        client.act_at = Instant::now() + DRIP;
        let forwarded = format!("X-Forwarded-For: {}\r\n", client.address);
        // Before the empty line.
        wire.unsent.splice(wire.unsent.len() - 2..wire.unsent.len() - 2, forwarded.bytes());
        match client.kind {
            Kind::Mute => wire.unsent.clear(),
            Kind::SlowHead => {
                client.drip = std::mem::take(&mut wire.unsent);
                client.drip.reverse();
            }
            Kind::SlowBody => {
                let scheme = if client.account.is_bot { "Bot " } else { "" };
                let head = format!(
                    "POST /api/v10/channels/{CHANNEL}/messages HTTP/1.1\r\nHost: bench\r\n{forwarded}\
                     Authorization: {scheme}{}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
                    client.account.token
                );
                (wire.unsent, client.drip) = (head.into_bytes(), vec![b' '; 999]);
            }
            _ => {}
        }
        client.wire = Some(wire);
        self.ends.entry(client.kind).or_default().connections += 1;
        Ok(())
    }

    /// Closed, refused or cut: it comes back.
    fn over(&mut self, index: usize, how: &str) {
        let client = &mut self.clients[index];
        client.wire = None;
        client.back_at = Instant::now() + self.away.mul_f64(0.5 + self.rng.fraction());
        *self.ends.entry(client.kind).or_default().ends.entry(how.to_owned()).or_default() += 1;
    }

    /// Also writes what is left to be written.
    fn read(&mut self, index: usize) {
        let Some(mut wire) = self.clients[index].wire.take() else { return };
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = wire.read(&mut buffer, |received, out| {
            match received {
                Received::Event(Event::Text(payload)) if payload.contains("\"op\":10") => self.attack(index, out),
                Received::Event(Event::Compressed { .. }) if !self.clients[index].has_session => {
                    self.attack(index, out)
                }
                Received::Event(Event::Text(payload)) if payload.contains("\"READY\"") => {
                    let client = &mut self.clients[index];
                    (client.has_session, client.act_at) = (true, Instant::now());
                }
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        });
        self.buffer = buffer;
        match result {
            Ok(_) => self.clients[index].wire = Some(wire),
            Err(End::Closed(Some(code))) => self.over(index, &code.to_string()),
            Err(End::Refused(AnswerError::Refused(status))) => self.over(index, &format!("http {status}")),
            Err(End::BadFrame(error)) => self.over(index, &format!("a bad frame: {error}")),
            Err(End::Cut | End::Refused(_) | End::Closed(None)) => self.over(index, "end"),
        }
    }

    /// It was greeted.
    fn attack(&mut self, index: usize, out: &mut Vec<u8>) {
        self.turn += 1;
        let turn = self.turn;
        let client = &mut self.clients[index];
        let token = &client.account.token;
        let bytes = match client.kind {
            Kind::Mute | Kind::SlowHead | Kind::SlowBody | Kind::Silent | Kind::IdentifyStorm => Vec::new(),
            Kind::SlowFrame => {
                client.drip = text(&identify(token));
                client.drip.reverse();
                Vec::new()
            }
            Kind::HalfOpen | Kind::NeverReads => text(&identify(token)),
            Kind::Oversize => [&[0x81, 0x80 | 127][..], &(1u64 << 20).to_be_bytes(), &[0; 4]].concat(),
            Kind::BadFrame => match turn % 4 {
                0 => frame(0xA1, b"{}"),
                1 => frame(0x83, b""),
                2 => frame(0x80, b""),
                _ => b"\x81\x02{}".to_vec(),
            },
            Kind::BadPayload => match turn % 3 {
                0 => frame(0x81, b"{\"op\":1"),
                1 => frame(0x81, "[".repeat(10_000).as_bytes()),
                _ => frame(0x81, b"[]"),
            },
            Kind::TooEarly => text(&json!({"op": 3, "d": null})),
            Kind::Flood => text(&json!({"op": 1, "d": null})).repeat(MESSAGES_PER_MINUTE as usize + 10),
            Kind::Bomb => frame(0xC2, &self.bomb),
            Kind::WrongToken => {
                // A bot token with wrong last characters, so that the node must look it up.
                let wrong = format!("{}{:06}", &token[..token.len().saturating_sub(6)], turn % 1_000_000);
                text(&identify(&wrong))
            }
        };
        out.extend(bytes);
        client.act_at = Instant::now() + DRIP;
    }
}
