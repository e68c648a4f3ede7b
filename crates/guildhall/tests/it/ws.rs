//! A gateway client over a real socket, well-behaved or not: it sends as instructed, and records input.
//!
//! Limits  every wait ends after `PATIENCE`.

use crate::support::{PATIENCE, Wait, connect};
use guildhall_ws_proto::{Decoder, Event, Limits, Opcode, Role, append_masked_frame};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

/// GUILDS, GUILD_MESSAGES, MESSAGE_CONTENT.
pub const INTENTS: u64 = 1 | 1 << 9 | 1 << 15;
/// JSON without compression.
pub const PLAIN: &str = "/?v=10&encoding=json";
const MASK: [u8; 4] = [1, 2, 3, 4];

/// Received input.
#[derive(Clone, Debug, PartialEq)]
pub enum Got {
    /// A payload of the gateway protocol.
    Payload(Value),
    /// A message that is compressed, as it is.
    Compressed(Vec<u8>),
    /// A close frame.
    Close(Option<u16>),
    /// The connection ended.
    End,
}

/// A WebSocket connection.
pub struct Ws {
    pub stream: TcpStream,
    decoder: Decoder,
    got: VecDeque<Got>,
    ended: bool,
    /// Bytes after the upgrade, each way.
    pub sent: u64,
    pub received: u64,
    /// Of the last READY.
    pub session_id: String,
    /// Of the last dispatch.
    pub last_seq: u64,
    /// Of the close frame that came.
    pub close_reason: String,
}

/// Sends `head` and reads the answer's head: its status, and the answer.
pub fn raw_upgrade(addr: SocketAddr, head: &str) -> std::io::Result<(TcpStream, u16, String)> {
    upgrade_on(connect(addr)?, head)
}

/// The same on a socket that is connected.
fn upgrade_on(mut stream: TcpStream, head: &str) -> std::io::Result<(TcpStream, u16, String)> {
    stream.set_nodelay(true)?;
    stream.write_all(head.as_bytes())?;
    let wait = Wait::new("the head of an answer");
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        if wait.try_read(&stream, &mut byte)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        answer.push(byte[0]);
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok((stream, status, answer))
}

/// An upgrade request with more headers, each with its line end.
pub fn request(target: &str, more: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
    )
}

impl Ws {
    /// Connects; else the status it was refused with.
    pub fn connect(addr: SocketAddr, target: &str, more: &str) -> Result<Self, u16> {
        Self::on(connect(addr).map_err(|_| 0u16)?, target, more)
    }

    /// The same on a socket that is connected.
    pub fn on(stream: TcpStream, target: &str, more: &str) -> Result<Self, u16> {
        let (stream, status, answer) = upgrade_on(stream, &request(target, more)).map_err(|_| 0u16)?;
        if status != 101 {
            return Err(status);
        }
        stream.set_nonblocking(true).expect("a socket");
        let mut decoder = Decoder::new(Role::Client, Limits { message_bytes_max: 64 << 20 });
        decoder.set_rsv1_allowed(answer.to_ascii_lowercase().contains("permessage-deflate"));
        Ok(Self {
            stream,
            decoder,
            got: VecDeque::new(),
            ended: false,
            sent: 0,
            received: 0,
            session_id: String::new(),
            last_seq: 0,
            close_reason: String::new(),
        })
    }

    /// A session of that token: connected, and READY.
    pub fn session(addr: SocketAddr, token: &str) -> Self {
        let mut ws = Self::connect(addr, PLAIN, "").expect("it is let in");
        ws.expect_op(10);
        ws.identify(token);
        ws.expect_event("READY");
        ws
    }

    /// Sends an IDENTIFY.
    pub fn identify(&mut self, token: &str) {
        self.identify_with(token, INTENTS);
    }

    /// IDENTIFY with these intents.
    pub fn identify_with(&mut self, token: &str, intents: u64) {
        let properties = json!({"os": "linux", "browser": "test", "device": "test"});
        self.send(&json!({"op": 2, "d": {"token": token, "intents": intents, "properties": properties}}));
    }

    /// Sends a payload.
    pub fn send(&mut self, payload: &Value) {
        self.frame(Opcode::Text, payload.to_string().as_bytes());
    }

    /// A whole frame.
    pub fn frame(&mut self, opcode: Opcode, payload: &[u8]) {
        let mut frame = Vec::new();
        append_masked_frame(opcode, MASK, payload, &mut frame);
        self.bytes(&frame);
    }

    /// Sends raw bytes. Bytes that the server does not read any more are lost.
    pub fn bytes(&mut self, mut bytes: &[u8]) {
        let deadline = Instant::now() + PATIENCE;
        while !bytes.is_empty() {
            assert!(Instant::now() < deadline, "the server stopped reading: {} bytes are left", bytes.len());
            match self.stream.write(bytes) {
                Ok(count) => {
                    self.sent += count as u64;
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
                Err(_) => return,
            }
        }
    }

    /// The next message, if one was received already.
    pub fn poll(&mut self) -> Option<Got> {
        let mut buffer = [0; 16 << 10];
        while self.got.is_empty() && !self.ended {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.end(),
                Ok(count) => self.take(&mut buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.end(),
            }
        }
        self.got.pop_front()
    }

    fn end(&mut self) {
        self.ended = true;
        self.got.push_back(Got::End);
    }

    fn take(&mut self, bytes: &mut [u8]) {
        self.received += bytes.len() as u64;
        let mut events = self.decoder.handle(bytes);
        while let Some(event) = events.poll().expect("the server keeps to the protocol") {
            let got = match event {
                Event::Text(text) => {
                    let payload: Value = serde_json::from_str(text).expect("JSON");
                    self.last_seq = payload["s"].as_u64().unwrap_or(self.last_seq);
                    if payload["t"] == "READY" {
                        self.session_id = payload["d"]["session_id"].as_str().expect("a session id").to_owned();
                    }
                    Got::Payload(payload)
                }
                Event::Binary(bytes) => Got::Compressed(bytes.to_vec()),
                Event::Compressed { payload, .. } => Got::Compressed(payload.to_vec()),
                Event::Close { code, reason } => {
                    self.close_reason = reason.to_owned();
                    Got::Close(code)
                }
                Event::Ping(_) | Event::Pong(_) => continue,
            };
            self.got.push_back(got);
        }
    }

    /// The next message, or the end.
    #[track_caller]
    pub fn next(&mut self) -> Got {
        self.next_within(PATIENCE).expect("something comes in time")
    }

    /// The next message, or the end, if it comes in time.
    pub fn next_within(&mut self, limit: Duration) -> Option<Got> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(got) = self.poll() {
                return Some(got);
            }
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Skips messages that `take` returns as `Err`. The end of the connection is never skipped.
    #[track_caller]
    pub fn until<T>(&mut self, what: &str, mut take: impl FnMut(Got) -> Result<T, Got>) -> T {
        let mut wait = Wait::new(what);
        loop {
            match self.next_within(wait.left()).map(&mut take) {
                None => {}
                Some(Ok(taken)) => return taken,
                Some(Err(Got::Payload(payload))) => wait.saw(format!("op {} {}", payload["op"], payload["t"])),
                Some(Err(Got::Compressed(bytes))) => wait.saw(format!("{} compressed bytes", bytes.len())),
                Some(Err(end)) => panic!("{end:?} {} instead of {wait}", self.close_reason),
            }
        }
    }

    /// Skips to the payload that `is_it`.
    #[track_caller]
    pub fn expect(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        self.until(what, |got| match got {
            Got::Payload(payload) if is_it(&payload) => Ok(payload),
            other => Err(other),
        })
    }

    /// Skips to the next payload with that opcode.
    #[track_caller]
    pub fn expect_op(&mut self, op: u64) -> Value {
        self.expect(&format!("op {op}"), |payload| payload["op"] == op)
    }

    /// Skips to the next event of that name.
    #[track_caller]
    pub fn expect_event(&mut self, name: &str) -> Value {
        self.expect(name, |payload| payload["t"] == name)
    }

    /// Skips to the end: the code it was closed with, none if it was cut.
    #[track_caller]
    pub fn close_code(&mut self) -> Option<u16> {
        self.until("the end of the connection", |got| match got {
            Got::Close(code) => Ok(code),
            Got::End => Ok(None),
            other => Err(other),
        })
    }
}
