//! Link: one connection of a client, as payloads.
//!
//! Owns        the socket, the WebSocket decoder, the encoding and the compression, and how bytes are cut into frames
//!             and writes.
//! Invariants  L1 `receive` may be dropped at any await without losing bytes.
//! Limits      `INBOUND_BYTES_MAX` per message, `WRITE_WAIT` per write.

use crate::scenario::{LateFlush, Pace};
use anyhow::{Context as _, Result, bail};
use guildhall_codec::{Encoding, Inbound, StreamCompressor, ZlibParams, ZstdParams, control_payload, decode_payload};
use guildhall_ws_proto::{Decoder, Event, Head, Limits, Opcode, Role, append_frame, close_frame, pong};
use std::{collections::VecDeque, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep, sleep_until, timeout},
};

/// Longest message of a client.
const INBOUND_BYTES_MAX: u32 = 1 << 20;
/// A client that does not read for as long is gone.
pub(crate) const WRITE_WAIT: Duration = Duration::from_secs(60);
/// How long the rest of a broken connection may take to be read.
const READ_WAIT: Duration = Duration::from_secs(1);

/// How messages of a connection are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    None,
    /// `compress=zlib-stream`
    Zlib,
    /// `compress=zstd-stream`
    Zstd,
}

impl Compression {
    /// Name in URLs; `none` without.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Zlib => "zlib-stream",
            Self::Zstd => "zstd-stream",
        }
    }

    /// The compression with this [`name`](Self::name).
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::None, Self::Zlib, Self::Zstd].into_iter().find(|of| of.name() == name)
    }

    pub(crate) fn stream(self) -> Result<Option<StreamCompressor>> {
        Ok(match self {
            Self::None => None,
            Self::Zlib => Some(StreamCompressor::zlib(ZlibParams::default())?),
            Self::Zstd => Some(StreamCompressor::zstd(ZstdParams::default())?),
        })
    }
}

/// Query of the gateway's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    pub encoding: Encoding,
    pub compression: Compression,
    pub version: Option<String>,
}

impl Query {
    /// # Errors
    /// A value that the protocol does not have, in words.
    pub(crate) fn parse(query: &str) -> Result<Self, String> {
        let mut found = Self { encoding: Encoding::Json, compression: Compression::None, version: None };
        for pair in query.trim_start_matches('?').split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "v" => found.version = Some(value.to_owned()),
                "encoding" if value == "json" => found.encoding = Encoding::Json,
                "encoding" if value == "etf" => found.encoding = Encoding::Etf,
                "encoding" => return Err(format!("requests encoding={value}; there are json and etf")),
                "compress" => match Compression::of_name(value) {
                    Some(compression) if compression != Compression::None => found.compression = compression,
                    _ => return Err(format!("requests compress={value}; there are zlib-stream and zstd-stream")),
                },
                _ => {}
            }
        }
        match found.version.as_deref() {
            None | Some("9" | "10") => Ok(found),
            Some(other) => Err(format!("requests v={other}; there are 9 and 10")),
        }
    }
}

/// Input of the client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Received {
    Payload(Inbound),
    /// Bytes that are no payload.
    Undecodable(String),
    /// A close frame.
    Closed(Option<u16>),
    /// The end of the stream, or an error of it.
    Ended(&'static str),
}

pub(crate) struct Link {
    pub(crate) stream: TcpStream,
    decoder: Decoder,
    early: Vec<u8>,
    ready: VecDeque<Received>,
    encoding: Encoding,
    compressor: Option<StreamCompressor>,
    is_over: bool,
    pub(crate) pace: Pace,
    pub(crate) fragment_bytes: usize,
    pub(crate) late: Option<LateFlush>,
    held: Option<Vec<u8>>,
    /// A close frame went out.
    pub(crate) has_closed: bool,
    /// Parts of the next write, and when what follows them goes out.
    pub(crate) cuts: Vec<(f64, Instant)>,
}

impl Link {
    pub(crate) fn new(stream: TcpStream, early: Vec<u8>, query: &Query) -> Result<Self> {
        Ok(Self {
            stream,
            decoder: Decoder::new(Role::Server, Limits { message_bytes_max: INBOUND_BYTES_MAX }),
            early,
            ready: VecDeque::new(),
            encoding: query.encoding,
            compressor: query.compression.stream()?,
            is_over: false,
            pace: Pace::default(),
            fragment_bytes: 0,
            late: None,
            held: None,
            has_closed: false,
            cuts: Vec::new(),
        })
    }

    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    pub(crate) fn is_compressed(&self) -> bool {
        self.compressor.is_some()
    }

    /// The next message. Pings are answered.
    pub(crate) async fn receive(&mut self) -> Received {
        loop {
            if let Some(received) = self.ready.pop_front() {
                return received;
            }
            if self.is_over {
                return Received::Ended("the stream had ended");
            }
            let mut bytes = std::mem::take(&mut self.early);
            if bytes.is_empty() {
                bytes.resize(16 << 10, 0);
                match self.stream.read(&mut bytes).await {
                    Ok(0) => {
                        self.is_over = true;
                        return Received::Ended("the connection ended without a close frame");
                    }
                    Ok(count) => bytes.truncate(count),
                    Err(_) => {
                        self.is_over = true;
                        return Received::Ended("the connection was reset");
                    }
                }
            }
            for pong in self.take(&mut bytes) {
                // Without waiting, see L1. A client that does not read gets no pong.
                let _ = self.stream.try_write(&pong);
            }
        }
    }

    /// The code of the client's close frame, if it has arrived. Only for a connection that refuses writes.
    pub(crate) async fn closed_with(&mut self) -> Option<u16> {
        let mut bytes = vec![0; 16 << 10];
        while let Ok(Ok(count @ 1..)) = timeout(READ_WAIT, self.stream.read(&mut bytes)).await {
            self.take(&mut bytes[..count]);
        }
        self.ready.iter().find_map(|received| match received {
            Received::Closed(code) => *code,
            _ => None,
        })
    }

    /// Decodes bytes of the client, and returns the pongs to send.
    fn take(&mut self, bytes: &mut [u8]) -> Vec<Vec<u8>> {
        let mut pongs = Vec::new();
        let mut events = self.decoder.handle(bytes);
        loop {
            let payload = match events.poll() {
                Ok(None) => break,
                Ok(Some(Event::Text(text))) => text.as_bytes(),
                Ok(Some(Event::Binary(bytes) | Event::Compressed { payload: bytes, .. })) => bytes,
                Ok(Some(Event::Ping(payload))) => {
                    pongs.push(pong(payload).to_vec());
                    continue;
                }
                Ok(Some(Event::Pong(_))) => continue,
                Ok(Some(Event::Close { code, .. })) => {
                    self.ready.push_back(Received::Closed(code));
                    continue;
                }
                Err(error) => {
                    self.ready.push_back(Received::Undecodable(format!("it breaks RFC 6455: {error}")));
                    self.is_over = true;
                    break;
                }
            };
            self.ready.push_back(match decode_payload(self.encoding, payload) {
                Ok(inbound) => Received::Payload(inbound),
                Err(error) => Received::Undecodable(format!("{error}: {}", excerpt(payload))),
            });
        }
        pongs
    }

    /// Sends a payload that is no dispatch.
    pub(crate) async fn send_control(&mut self, op: u8, d: &serde_json::Value) -> Result<()> {
        let payload = control_payload(self.encoding, op, d)?;
        self.send(&payload).await
    }

    /// Sends a payload, compressed and framed as the connection is.
    pub(crate) async fn send(&mut self, payload: &[u8]) -> Result<()> {
        let is_text = self.encoding == Encoding::Json && self.compressor.is_none();
        let opcode = if is_text { Opcode::Text } else { Opcode::Binary };
        let Some(compressor) = &mut self.compressor else {
            return self.send_message(opcode, payload).await;
        };
        let mut made = Vec::new();
        compressor.compress(&[payload], &mut made)?;
        match self.late.take() {
            Some(late) if late.bytes < made.len() => {
                let (first, last) = made.split_at(made.len() - late.bytes);
                self.send_message(opcode, first).await?;
                sleep(Duration::from_millis(late.wait_ms)).await;
                self.send_message(opcode, last).await
            }
            _ => self.send_message(opcode, &made).await,
        }
    }

    async fn send_message(&mut self, opcode: Opcode, payload: &[u8]) -> Result<()> {
        let mut bytes = Vec::with_capacity(payload.len() + 16);
        match self.fragment_bytes {
            0 => append_frame(opcode, payload, &mut bytes),
            size => {
                let pieces: Vec<&[u8]> = payload.chunks(size).collect();
                for (at, piece) in pieces.iter().enumerate() {
                    let opcode = if at == 0 { opcode } else { Opcode::Continuation };
                    append_frame(Head { opcode, fin: at + 1 == pieces.len(), compressed: false }, piece, &mut bytes);
                }
            }
        }
        self.write(bytes).await
    }

    async fn write(&mut self, bytes: Vec<u8>) -> Result<()> {
        if let Some(held) = &mut self.held {
            held.extend_from_slice(&bytes);
            return Ok(());
        }
        let mut bytes = &bytes[..];
        for (part, next_at) in std::mem::take(&mut self.cuts) {
            let end = (bytes.len() as f64 * part) as usize;
            let (piece, rest) = bytes.split_at(end.min(bytes.len()));
            self.write_piece(piece).await?;
            sleep_until(next_at).await;
            bytes = rest;
        }
        let Pace { bytes: size, every_ms } = self.pace;
        let pieces = bytes.chunks(if size == 0 { bytes.len().max(1) } else { size });
        for piece in pieces {
            self.write_piece(piece).await?;
            if every_ms > 0 {
                sleep(Duration::from_millis(every_ms)).await;
            }
        }
        Ok(())
    }

    async fn write_piece(&mut self, piece: &[u8]) -> Result<()> {
        match timeout(WRITE_WAIT, self.stream.write_all(piece)).await {
            Ok(written) => written.context("the client's connection cannot be written to"),
            Err(_) => bail!("the client has not read for {} s", WRITE_WAIT.as_secs()),
        }
    }

    /// Bytes that were collected and not sent.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.as_ref().map_or(0, Vec::len)
    }

    /// Collects what is sent from now on.
    pub(crate) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Sends what was collected, in one write.
    pub(crate) async fn release(&mut self) -> Result<()> {
        let bytes = self.held.take().unwrap_or_default();
        self.write(bytes).await
    }

    /// Sends a close frame.
    pub(crate) async fn close(&mut self, code: u16, reason: &str) -> Result<()> {
        self.release().await?;
        self.pace = Pace::default();
        self.has_closed = true;
        let frame = close_frame(Some(code), reason).to_vec();
        self.write(frame).await
    }

    /// Answers the client's close frame, and ends the stream.
    pub(crate) async fn answer_close(mut self, code: Option<u16>) {
        if !self.has_closed {
            let _ = timeout(WRITE_WAIT, self.stream.write_all(&close_frame(code, ""))).await;
        }
        let _ = timeout(WRITE_WAIT, self.stream.shutdown()).await;
    }
}

/// The start of a message, for people.
fn excerpt(payload: &[u8]) -> String {
    let text = String::from_utf8_lossy(&payload[..payload.len().min(60)]);
    text.chars().map(|c| if c.is_control() { '·' } else { c }).collect()
}
