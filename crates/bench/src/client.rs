//! Client role: many gateway connections in one thread. Each is a real client: handshake, IDENTIFY, heartbeat,
//! decoding.
//!
//! Invariants  every connection counts its MESSAGE_CREATEs; the first decodes all it gets to the last byte.

use super::{
    CONNECTING_MAX, Mode,
    role::{say, serve},
};
use anyhow::{Context, Result, anyhow, bail, ensure};
use guildhall_codec::{InflateHistory, MessageInflater, StreamDecompressor};
use guildhall_ws_proto::{Decoder, Event, Limits, Role, append_masked_frame, handshake::ClientHandshake};
use mio::{Events, Interest, Poll, Token, net::TcpStream};
use serde_json::{Value, json};
use std::{
    io::{ErrorKind, Read, Write},
    path::Path,
    time::{Duration, Instant},
};

const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// The longest the whole swarm may take for one step.
const STEP_TIMEOUT: Duration = Duration::from_secs(150);
/// GUILDS and GUILD_MESSAGES.
const INTENTS: u32 = 1 | 1 << 9;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Handshake,
    /// Waits for READY, then for the answer to its heartbeat: then the server has forgotten what READY took.
    Starting,
    Counting,
}

struct Client {
    stream: TcpStream,
    state: State,
    handshake: Option<ClientHandshake>,
    answer: Vec<u8>,
    decoder: Decoder,
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
            Mode::Zlib | Mode::SharedZlib => Some(StreamDecompressor::zlib()?),
            Mode::Zstd | Mode::SharedZstd => Some(StreamDecompressor::zstd(guildhall_shared_match::ZSTD_WINDOW_LOG)?),
            Mode::Plain | Mode::Prepared | Mode::Deflate => None,
        })
    }

    fn connect(&mut self, port: u16, token: &str) -> Result<()> {
        let index = self.clients.len();
        let mut stream = TcpStream::connect(([127, 0, 0, 1], port).into())?;
        stream.set_nodelay(true).ok();
        self.poll.registry().register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&(index as u64).to_le_bytes());
        let mut handshake = ClientHandshake::new(&format!("127.0.0.1:{port}"), self.mode.query(), nonce);
        let mut decoder = Decoder::new(Role::Client, Limits { message_bytes_max: MESSAGE_BYTES_MAX as u32 });
        if let Some(params) = self.mode.deflate() {
            handshake = handshake.offering(params);
            decoder.set_rsv1_allowed(true);
        }
        self.clients.push(Client {
            stream,
            state: State::Handshake,
            handshake: Some(handshake),
            answer: Vec::new(),
            decoder,
            decompressor: self.decompressor()?,
            history: InflateHistory::default(),
            token: token.to_owned(),
        });
        Ok(())
    }

    /// Handles what the sockets say until `done`.
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
                if event.is_writable() {
                    self.begin_handshake(index)?;
                }
                self.read(index).with_context(|| format!("connection {index}"))?;
            }
        }
        Ok(())
    }

    fn begin_handshake(&mut self, index: usize) -> Result<()> {
        let client = &mut self.clients[index];
        let (State::Handshake, Some(handshake)) = (client.state, &client.handshake) else { return Ok(()) };
        match client.stream.write(handshake.request()) {
            Ok(count) => ensure!(count == handshake.request().len(), "a socket that is new is full"),
            // Not connected yet: the poll reports it again.
            Err(error) if error.kind() == ErrorKind::NotConnected || error.kind() == ErrorKind::WouldBlock => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        client.state = State::Starting;
        Ok(())
    }

    fn read(&mut self, index: usize) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = loop {
            match self.clients[index].stream.read(&mut buffer) {
                Ok(0) => break Err(anyhow!("the server closed it")),
                Ok(count) => {
                    self.bytes += count as u64;
                    if let Err(error) = self.take(index, &mut buffer[..count]) {
                        break Err(error);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock || error.kind() == ErrorKind::NotConnected => {
                    break Ok(());
                }
                Err(error) => break Err(error.into()),
            }
        };
        self.buffer = buffer;
        result
    }

    fn take(&mut self, index: usize, input: &mut [u8]) -> Result<()> {
        let client = &mut self.clients[index];
        let Some(handshake) = &client.handshake else { return self.take_frames(index, input) };
        client.answer.extend_from_slice(input);
        if let Some(head_bytes) = handshake.check_answer(&client.answer)? {
            let agreed = ClientHandshake::agreed(&client.answer[..head_bytes]);
            ensure!(agreed == self.mode.deflate(), "the server agreed to {agreed:?}");
            client.handshake = None;
            let mut rest = client.answer.split_off(head_bytes);
            client.answer = Vec::new();
            self.take_frames(index, &mut rest)?;
        }
        Ok(())
    }

    fn take_frames(&mut self, index: usize, input: &mut [u8]) -> Result<()> {
        let raw = if index == 0 { input.to_vec() } else { Vec::new() };
        let mut decoder = std::mem::replace(
            &mut self.clients[index].decoder,
            Decoder::new(Role::Client, Limits { message_bytes_max: 0 }),
        );
        let mut events = decoder.handle(input);
        while let Some(event) = events.poll()? {
            match event {
                Event::Text(text) => self.take_payload(index, text.as_bytes())?,
                Event::Binary(bytes) => self.take_payload(index, bytes)?,
                Event::Close { code, reason } => bail!("closed with {code:?} {reason}"),
                Event::Compressed { payload, .. } => self.take_deflated(index, payload)?,
                Event::Ping(_) | Event::Pong(_) => {}
            }
        }
        self.clients[index].decoder = decoder;
        if index == 0 && self.clients[0].state == State::Counting {
            self.sample = raw;
        }
        Ok(())
    }

    fn take_deflated(&mut self, index: usize, payload: &[u8]) -> Result<()> {
        let client = &mut self.clients[index];
        if client.state == State::Counting && index >= self.verifies {
            self.messages += 1;
            return Ok(());
        }
        let mut inflated = Vec::new();
        self.inflater.inflate(&client.history, payload, &mut inflated, MESSAGE_BYTES_MAX)?;
        if let Some(params) = self.mode.deflate().filter(|params| !params.server_no_context_takeover) {
            client.history.remember(&inflated, params.server_window_bits);
        }
        self.take_payload(index, &inflated)
    }

    fn take_payload(&mut self, index: usize, payload: &[u8]) -> Result<()> {
        let client = &mut self.clients[index];
        if client.state == State::Counting && index >= self.verifies {
            // Nothing but MESSAGE_CREATE comes now, as the verifying connections see.
            self.messages += 1;
            return Ok(());
        }
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
                let token = &client.token;
                let identify = json!({"op": 2, "d": {"token": token, "intents": INTENTS, "properties": {"os": "linux", "browser": "bench", "device": "bench"}}});
                send(client, &identify)
            }
            (Some(0), Some("READY")) => send(client, &json!({"op": 1, "d": message["s"]})),
            (Some(11), _) => {
                client.state = State::Counting;
                if index >= self.verifies {
                    client.decompressor = None;
                    client.history = InflateHistory::default();
                }
                self.started_count += 1;
                Ok(())
            }
            (Some(0), Some("MESSAGE_CREATE")) => {
                self.messages += 1;
                Ok(())
            }
            _ => bail!("unexpected {message}"),
        }
    }
}

fn send(client: &mut Client, payload: &Value) -> Result<()> {
    let mut frame = Vec::new();
    append_masked_frame(guildhall_ws_proto::Opcode::Text, [1, 2, 3, 4], payload.to_string().as_bytes(), &mut frame);
    let sent = client.stream.write(&frame)?;
    if sent < frame.len() {
        bail!("a socket that nobody writes to is full");
    }
    Ok(())
}

/// Connects one client per line of `tokens`, then counts.
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
        buffer: vec![0; 256 << 10],
        mode,
        inflater: MessageInflater::new()?,
    };
    for token in tokens.lines() {
        swarm.connect(port, token)?;
        let connected = swarm.clients.len();
        swarm.run_until(|swarm| connected - swarm.started_count < CONNECTING_MAX)?;
    }
    let all = swarm.clients.len();
    swarm.run_until(|swarm| swarm.started_count == all)?;
    say(&json!({"connected": all}));
    serve(|command, args| match (command, args) {
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
