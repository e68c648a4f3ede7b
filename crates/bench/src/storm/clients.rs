//! Client role: bots in one thread that connect on command, by a bare upgrade, IDENTIFY or RESUME.
//!
//! Invariants  a client is done when it has what it came for: the answer to its upgrade, the GUILD_CREATE after READY,
//!             or RESUMED. Anything else that ends its connection fails the bench.

use crate::{
    role::{say, serve},
    stats::Spread,
    wire::{self, BUFFER_BYTES, Received, Wire},
};
use anyhow::{Context as _, Result, anyhow, bail};
use guildhall::open_files;
use guildhall_ws_proto::Event;
use mio::{Events, Poll};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use std::{
    ops::ControlFlow,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The longest that all clients may take for one command.
const STEP_TIMEOUT: Duration = Duration::from_secs(150);
/// GUILDS and GUILD_MESSAGES.
const INTENTS: u32 = 1 | 1 << 9;
/// Marks the time in the content of a message, microseconds since 1970.
pub const SENT_AT: &str = "t=";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    Upgrade,
    Identify,
    Resume,
    /// Connected clients that send a heartbeat.
    Beat,
}

struct Client {
    /// None: not connected, or while it is read.
    wire: Option<Wire>,
    token: String,
    aim: Aim,
    is_done: bool,
    began: Instant,
    session: Option<(String, u64)>,
}

struct Swarm {
    poll: Poll,
    clients: Vec<Client>,
    server: u16,
    floor: u16,
    done_count: usize,
    /// Milliseconds of the clients that are done since the command.
    took_ms: Vec<f64>,
    /// Milliseconds of messages with a time.
    latencies_ms: Vec<f64>,
    buffer: Vec<u8>,
}

#[derive(Deserialize)]
struct Payload<'a> {
    op: u8,
    s: Option<u64>,
    t: Option<&'a str>,
    #[serde(borrow)]
    d: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Ready {
    session_id: String,
}

impl Swarm {
    fn connect(&mut self, index: usize, aim: Aim) -> Result<()> {
        let port = if aim == Aim::Upgrade { self.floor } else { self.server };
        let client = &mut self.clients[index];
        client.aim = aim;
        client.is_done = false;
        client.began = Instant::now();
        let opening = ("/?v=10&encoding=json", None);
        client.wire = Some(Wire::connect(self.poll.registry(), index, ([127, 0, 0, 1], port).into(), opening)?);
        Ok(())
    }

    /// Connects clients up to number `count` that are not connected, each with its aim.
    fn go(&mut self, count: usize, in_flight: usize, aim: impl Fn(usize) -> Aim) -> Result<serde_json::Value> {
        self.took_ms.clear();
        self.done_count = 0;
        let mut events = Events::with_capacity(1024);
        let deadline = Instant::now() + STEP_TIMEOUT;
        let waiting: Vec<usize> = (0..count).filter(|index| self.clients[*index].wire.is_none()).collect();
        let mut started = 0;
        while self.done_count < waiting.len() {
            while started < waiting.len() && started - self.done_count < in_flight {
                let index = waiting[started];
                self.connect(index, aim(index))?;
                started += 1;
            }
            if Instant::now() > deadline {
                bail!("{} of {} clients are done", self.done_count, waiting.len());
            }
            self.turn(&mut events, Duration::from_millis(100))?;
        }
        let Spread { p50, p99, .. } = Spread::of(std::mem::take(&mut self.took_ms));
        Ok(json!({"count": waiting.len(), "p50_ms": p50, "p99_ms": p99}))
    }

    /// Every connected client acknowledges what it has received.
    fn beat(&mut self) -> Result<serde_json::Value> {
        self.done_count = 0;
        let mut count = 0;
        for client in &mut self.clients {
            let Some(wire) = &mut client.wire else { continue };
            client.aim = Aim::Beat;
            client.is_done = false;
            wire.send(&json!({"op": 1, "d": client.session.as_ref().map(|(_, seq)| seq)}));
            count += 1;
        }
        let deadline = Instant::now() + STEP_TIMEOUT;
        let mut events = Events::with_capacity(1024);
        while self.done_count < count {
            if Instant::now() > deadline {
                bail!("{} of {count} heartbeats were answered", self.done_count);
            }
            self.turn(&mut events, Duration::from_millis(100))?;
        }
        Ok(json!({"count": count}))
    }

    fn turn(&mut self, events: &mut Events, timeout: Duration) -> Result<()> {
        self.poll.poll(events, Some(timeout))?;
        for event in &*events {
            let index = event.token().0;
            self.read(index).with_context(|| format!("client {index}"))?;
        }
        Ok(())
    }

    fn read(&mut self, index: usize) -> Result<()> {
        // An event of a socket that is closed by now.
        let Some(mut wire) = self.clients[index].wire.take() else { return Ok(()) };
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = wire.read(&mut buffer, |received, out| match self.take(index, &received, out) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        });
        self.buffer = buffer;
        match read.map_err(|end| anyhow!("the connection ended: {end:?}"))? {
            Some(error) => Err(error),
            None => {
                self.clients[index].wire = Some(wire);
                Ok(())
            }
        }
    }

    fn take(&mut self, index: usize, received: &Received<'_>, out: &mut Vec<u8>) -> Result<()> {
        match received {
            Received::Upgraded(_) if self.clients[index].aim == Aim::Upgrade => self.done(index),
            Received::Event(Event::Text(text)) => return self.take_payload(index, text, out),
            Received::Bytes(_) | Received::Upgraded(_) | Received::Event(_) => {}
        }
        Ok(())
    }

    fn done(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if !std::mem::replace(&mut client.is_done, true) {
            self.took_ms.push(client.began.elapsed().as_secs_f64() * 1e3);
            self.done_count += 1;
        }
    }

    fn take_payload(&mut self, index: usize, text: &str, out: &mut Vec<u8>) -> Result<()> {
        let payload: Payload<'_> = serde_json::from_str(text)?;
        let body = payload.d.map_or("", RawValue::get);
        let client = &mut self.clients[index];
        if let (Some(seq), Some((_, last))) = (payload.s, &mut client.session) {
            *last = seq;
        }
        match (payload.op, payload.t) {
            (10, _) => {
                let token = &client.token;
                let payload = match (client.aim, &client.session) {
                    (Aim::Resume, Some((id, seq))) => {
                        json!({"op": 6, "d": {"token": token, "session_id": id, "seq": seq}})
                    }
                    _ => {
                        let properties = json!({"os": "linux", "browser": "bench", "device": "bench"});
                        json!({"op": 2, "d": {"token": token, "intents": INTENTS, "properties": properties}})
                    }
                };
                wire::push(&payload, out);
            }
            (0, Some("READY")) => {
                let ready: Ready = serde_json::from_str(body)?;
                client.session = Some((ready.session_id, payload.s.unwrap_or(0)));
            }
            (0, Some("GUILD_CREATE")) if client.aim == Aim::Identify => self.done(index),
            (0, Some("RESUMED")) if client.aim == Aim::Resume => self.done(index),
            (0, Some("MESSAGE_CREATE")) => self.latencies_ms.extend(age_ms(body)),
            (11, _) if client.aim == Aim::Beat => self.done(index),
            (9, _) => bail!("it was refused: {text}"),
            _ => {}
        }
        Ok(())
    }
}

/// Milliseconds since a message was sent, if its content has the time.
fn age_ms(body: &str) -> Option<f64> {
    let from = body.find(SENT_AT)? + SENT_AT.len();
    let digits = body[from..].find(|c: char| !c.is_ascii_digit())?;
    let sent_us: u64 = body[from..from + digits].parse().ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some((now.as_micros() as u64).saturating_sub(sent_us) as f64 / 1e3)
}

/// Serves the bench. The clients are `count` from number `from` on.
pub fn run((server, floor): (u16, u16), (from, count): (usize, usize), in_flight: usize, tokens: &Path) -> Result<()> {
    open_files::raise_limit_for(count as u32);
    let tokens = std::fs::read_to_string(tokens).context("reading the tokens")?;
    let new = |token: &str| Client {
        wire: None,
        token: token.to_owned(),
        aim: Aim::Upgrade,
        is_done: false,
        began: Instant::now(),
        session: None,
    };
    let mut swarm = Swarm {
        poll: Poll::new()?,
        clients: tokens.lines().skip(from).take(count).map(new).collect(),
        server,
        floor,
        done_count: 0,
        took_ms: Vec::new(),
        latencies_ms: Vec::new(),
        buffer: vec![0; BUFFER_BYTES],
    };
    say(&json!({"clients": swarm.clients.len()}));
    serve(|command, args| match (command, args) {
        ("bare", [count]) => swarm.go(count.parse()?, in_flight, |_| Aim::Upgrade),
        ("identify", [count]) => swarm.go(count.parse()?, in_flight, |_| Aim::Identify),
        ("resume", [count]) => swarm.go(count.parse()?, in_flight, |_| Aim::Resume),
        ("mixed", [count]) => {
            let aim = |index: usize| if index.is_multiple_of(2) { Aim::Identify } else { Aim::Resume };
            swarm.go(count.parse()?, in_flight, aim)
        }
        ("beat", []) => swarm.beat(),
        ("cut", []) => {
            swarm.clients.iter_mut().for_each(|client| client.wire = None);
            Ok(json!({}))
        }
        ("read", [ms]) => {
            let until = Instant::now() + Duration::from_millis(ms.parse()?);
            let mut events = Events::with_capacity(1024);
            while let Some(left) = until.checked_duration_since(Instant::now()) {
                swarm.turn(&mut events, left)?;
            }
            Ok(json!({}))
        }
        ("latency", []) => {
            let values = std::mem::take(&mut swarm.latencies_ms);
            let count = values.len();
            let Spread { p50, p99, .. } = Spread::of(values);
            Ok(json!({"count": count, "p50_ms": p50, "p99_ms": p99}))
        }
        _ => bail!("unknown command {command} {args:?}"),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_a_message_is_in_its_content() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        let age = age_ms(&format!(r#"{{"content":"t={} lol","id":"1"}}"#, now - 5_000)).unwrap();
        assert!((5.0..60_000.0).contains(&age), "{age}");
        assert_eq!(age_ms(r#"{"content":"lol"}"#), None);
    }
}
