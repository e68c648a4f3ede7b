//! Client role: many gateway connections in one thread. Each is a real client: handshake, IDENTIFY, heartbeat,
//! decoding.
//!
//! Invariants  every connection counts its MESSAGE_CREATEs; the first decodes all it gets to the last byte.

use super::{
    CONNECTING_MAX, Mode,
    role::{say, serve},
    wire::{self, BUFFER_BYTES, MESSAGE_BYTES_MAX, Received, Wire},
};
use anyhow::{Context, Result, anyhow, bail, ensure};
use guildhall_codec::{InflateHistory, MessageInflater, StreamDecompressor};
use guildhall_ws_proto::{Event, handshake::ClientHandshake};
use mio::{Events, Poll};
use serde_json::{Value, json};
use std::{
    ops::ControlFlow,
    path::Path,
    time::{Duration, Instant},
};

/// The longest the whole swarm may take for one step.
const STEP_TIMEOUT: Duration = Duration::from_secs(150);
/// GUILDS and GUILD_MESSAGES.
const INTENTS: u32 = 1 | 1 << 9;

struct Client {
    /// None while it is read.
    wire: Option<Wire>,
    /// READY came, and the answer to the heartbeat after it: now the server has forgotten what READY took.
    is_counting: bool,
    /// Kept by the first connection for all it gets, by the others until they count.
    decompressor: Option<StreamDecompressor>,
    /// The same for permessage-deflate with context takeover.
    history: InflateHistory,
    token: String,
}

struct Swarm {
    poll: Poll,
    clients: Vec<Client>,
    verifies: usize,
    started_count: usize,
    messages: u64,
    bytes: u64,
    /// The last dispatch of the first connection as it came, header included.
    sample: Vec<u8>,
    buffer: Vec<u8>,
    mode: Mode,
    inflater: MessageInflater,
}

impl Swarm {
    fn decompressor(&self) -> Result<Option<StreamDecompressor>> {
        Ok(match self.mode {
            Mode::Zlib | Mode::SharedZlib | Mode::AutoZlib => Some(StreamDecompressor::zlib()?),
            Mode::Zstd | Mode::SharedZstd | Mode::AutoZstd => {
                Some(StreamDecompressor::zstd(guildhall_shared_match::ZSTD_WINDOW_LOG)?)
            }
            Mode::Plain | Mode::Prepared | Mode::Deflate => None,
        })
    }

    fn connect(&mut self, port: u16, token: &str) -> Result<()> {
        let (index, addr) = (self.clients.len(), ([127, 0, 0, 1], port).into());
        let opening = (self.mode.query(), self.mode.deflate());
        self.clients.push(Client {
            wire: Some(Wire::connect(self.poll.registry(), index, addr, opening)?),
            is_counting: false,
            decompressor: self.decompressor()?,
            history: InflateHistory::default(),
            token: token.to_owned(),
        });
        Ok(())
    }

    /// Handles events of the sockets until `done`.
    fn run_until(&mut self, done: impl Fn(&Self) -> bool) -> Result<()> {
        let deadline = Instant::now() + STEP_TIMEOUT;
        let mut events = Events::with_capacity(4096);
        while !done(self) {
            if Instant::now() > deadline {
                bail!(
                    "{} of {} connections started, {} messages",
                    self.started_count,
                    self.clients.len(),
                    self.messages
                );
            }
            self.poll.poll(&mut events, Some(Duration::from_millis(200)))?;
            for event in &events {
                let index = event.token().0;
                self.read(index).with_context(|| format!("connection {index}"))?;
            }
        }
        Ok(())
    }

    /// Also writes what is left to be written.
    fn read(&mut self, index: usize) -> Result<()> {
        let mut wire = self.clients[index].wire.take().context("the socket is gone")?;
        let mut buffer = std::mem::take(&mut self.buffer);
        let failed = wire.read(&mut buffer, |received, out| match self.take(index, received, out) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        });
        let failed = failed.map_err(|end| anyhow!("the connection ended: {end:?}"))?;
        self.buffer = buffer;
        self.clients[index].wire = Some(wire);
        failed.map_or(Ok(()), Err)
    }

    fn take(&mut self, index: usize, received: Received<'_>, out: &mut Vec<u8>) -> Result<()> {
        match received {
            Received::Bytes(bytes) => {
                self.bytes += bytes.len() as u64;
                if index == 0 && self.clients[0].is_counting {
                    self.sample = bytes.to_vec();
                }
                Ok(())
            }
            Received::Upgraded(head) => {
                let agreed = ClientHandshake::agreed(head);
                ensure!(agreed == self.mode.deflate(), "the server agreed to {agreed:?}");
                Ok(())
            }
            // Nothing but MESSAGE_CREATE comes now, as the verifying connections see.
            Received::Event(Event::Text(_) | Event::Binary(_) | Event::Compressed { .. })
                if self.clients[index].is_counting && index >= self.verifies =>
            {
                self.messages += 1;
                Ok(())
            }
            Received::Event(Event::Text(text)) => self.take_payload(index, text.as_bytes(), out),
            Received::Event(Event::Binary(bytes)) => self.take_payload(index, bytes, out),
            Received::Event(Event::Compressed { payload, .. }) => self.take_deflated(index, payload, out),
            Received::Event(_) => Ok(()),
        }
    }

    fn take_deflated(&mut self, index: usize, payload: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let client = &mut self.clients[index];
        let mut inflated = Vec::new();
        self.inflater.inflate(&client.history, payload, &mut inflated, MESSAGE_BYTES_MAX)?;
        if let Some(params) = self.mode.deflate().filter(|params| !params.server_no_context_takeover) {
            client.history.remember(&inflated, params.server_window_bits);
        }
        self.take_payload(index, &inflated, out)
    }

    fn take_payload(&mut self, index: usize, payload: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let client = &mut self.clients[index];
        let mut inflated = Vec::new();
        let text = match &mut client.decompressor {
            Some(decompressor) => {
                decompressor.decompress(payload, &mut inflated, MESSAGE_BYTES_MAX)?;
                &inflated[..]
            }
            None => payload,
        };
        let message: Value = serde_json::from_slice(text)?;
        match (message["op"].as_u64(), message["t"].as_str()) {
            (Some(10), _) => {
                let properties = json!({"os": "linux", "browser": "bench", "device": "bench"});
                let d = json!({"token": client.token, "intents": INTENTS, "properties": properties});
                wire::push(&json!({"op": 2, "d": d}), out);
            }
            (Some(0), Some("READY")) => wire::push(&json!({"op": 1, "d": message["s"]}), out),
            (Some(11), _) => {
                client.is_counting = true;
                if index >= self.verifies {
                    client.decompressor = None;
                    client.history = InflateHistory::default();
                }
                self.started_count += 1;
            }
            (Some(0), Some("MESSAGE_CREATE")) => self.messages += 1,
            _ => bail!("unexpected {message}"),
        }
        Ok(())
    }
}

/// Serves the bench: connects clients, one for a line of `tokens`, and counts what they receive.
pub fn run(port: u16, tokens: &Path, mode: Mode) -> Result<()> {
    let tokens = std::fs::read_to_string(tokens).context("reading the tokens")?;
    let mut swarm = Swarm {
        poll: Poll::new()?,
        clients: Vec::new(),
        verifies: 1,
        started_count: 0,
        messages: 0,
        bytes: 0,
        sample: Vec::new(),
        buffer: vec![0; BUFFER_BYTES],
        mode,
        inflater: MessageInflater::new()?,
    };
    let tokens: Vec<&str> = tokens.lines().collect();
    say(&json!({"clients": tokens.len()}));
    serve(|command, args| match (command, args) {
        // Up to `all` clients, with those that are connected.
        ("connect", [all]) => {
            let all = all.parse::<usize>()?.min(tokens.len());
            for token in &tokens[swarm.clients.len().min(all)..all] {
                swarm.connect(port, token)?;
                let connected = swarm.clients.len();
                swarm.run_until(|swarm| connected - swarm.started_count < CONNECTING_MAX)?;
            }
            swarm.run_until(|swarm| swarm.started_count == swarm.clients.len())?;
            Ok(json!({"connected": swarm.clients.len()}))
        }
        ("reset", []) => {
            (swarm.messages, swarm.bytes) = (0, 0);
            Ok(json!({}))
        }
        ("await", [count]) => {
            let count: u64 = count.parse()?;
            swarm.run_until(|swarm| swarm.messages >= count)?;
            Ok(json!({"messages": swarm.messages, "bytes": swarm.bytes}))
        }
        ("sample", []) => {
            let hex: String = swarm.sample.iter().map(|byte| format!("{byte:02x}")).collect();
            Ok(json!({"hex": hex}))
        }
        _ => bail!("unknown command {command} {args:?}"),
    });
    Ok(())
}
