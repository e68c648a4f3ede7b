//! Test client: the client side of the protocol over a fake socket.
//!
//! Owns        the state of a client library: decoder, decompressor, last `s`, session id.
//! Doors       `read` returns what arrived; the other methods send.
//! Invariants  checks all input against docs/protocol/reference.md §1.2: frame types, keys and their order, one message
//!             per frame, compression as negotiated. A violation is a `ClientFault`.
//! Not here    whether the received events are the expected ones.

use crate::{
    received::{Body, Dispatch, Received, strings_for_ids},
    socket::{FakeSocket, ServerEnd},
};
use guildhall_codec::{
    DecodeLimits, DeflateCompressor, Dictionary, Encoding, InflateHistory, MessageInflater, StreamDecompressor,
    ZlibParams, decode_etf_from_gateway, encode_payload_to_gateway, inflate_once,
};
use guildhall_partition::{Compression, ConnParams};
use guildhall_ws_proto::{Decoder, DeflateParams, Event, Head, Limits, Opcode, Role, append_masked_frame, close_frame};
use serde_json::{Value, json, value::RawValue};
use std::collections::BTreeMap;

/// Maximum size of a message, compressed or not.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// The server violated the protocol below the level of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFault(pub String);

fn fault<T>(text: impl Into<String>) -> Result<T, ClientFault> {
    Err(ClientFault(text.into()))
}

/// Connection and IDENTIFY options of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientParams {
    /// `encoding` and `compress` of the URL.
    pub conn: ConnParams,
    /// `IDENTIFY.compress`.
    pub compress_payloads: bool,
}

impl ClientParams {
    /// JSON without compression.
    pub const JSON: Self = Self::new(Encoding::Json, Compression::None);
    /// ETF without compression.
    pub const ETF: Self = Self::new(Encoding::Etf, Compression::None);

    /// An encoding with a transport compression.
    #[must_use]
    pub const fn new(encoding: Encoding, compression: Compression) -> Self {
        Self { conn: ConnParams { encoding, compression }, compress_payloads: false }
    }

    /// With permessage-deflate: takeover by neither end, or by both; windows of `2^bits` bytes.
    #[must_use]
    pub const fn deflate(encoding: Encoding, takeover: bool, window_bits: u8) -> Self {
        Self::new(
            encoding,
            Compression::Deflate(DeflateParams {
                server_no_context_takeover: !takeover,
                client_no_context_takeover: !takeover,
                server_window_bits: window_bits,
                client_window_bits: window_bits,
            }),
        )
    }

    /// With `IDENTIFY.compress`.
    #[must_use]
    pub const fn with_compressed_payloads(mut self) -> Self {
        self.compress_payloads = true;
        self
    }
}

/// State of permessage-deflate in both directions.
#[derive(Debug)]
struct Deflate {
    params: DeflateParams,
    inflater: MessageInflater,
    history: InflateHistory,
    deflater: DeflateCompressor,
}

impl Deflate {
    fn new(params: DeflateParams) -> Self {
        let deflater = DeflateCompressor::new(ZlibParams::default(), params.client_window_bits);
        Self {
            params,
            inflater: MessageInflater::new().expect("there is memory"),
            history: InflateHistory::default(),
            deflater: deflater.expect("agreed windows are in range"),
        }
    }

    /// Inflates a message of the server. Fails if it refers back further than negotiated.
    fn inflate(&mut self, payload: &[u8]) -> Result<Vec<u8>, ClientFault> {
        let mut message = Vec::new();
        let result = self.inflater.inflate(&self.history, payload, &mut message, MESSAGE_BYTES_MAX);
        result.map_err(|error| ClientFault(format!("permessage-deflate: {error}")))?;
        if !self.params.server_no_context_takeover {
            self.history.remember(&message, self.params.server_window_bits);
        }
        Ok(message)
    }

    fn deflate(&mut self, message: &[u8]) -> Vec<u8> {
        let mut payload = Vec::new();
        let result = match self.params.client_no_context_takeover {
            true => self.deflater.compress_alone(&[message], &mut payload),
            false => self.deflater.compress(&[message], &mut payload),
        };
        result.expect("there is memory");
        payload
    }
}

/// A client on one connection. `reconnected` creates the client of the next connection.
#[derive(Debug)]
pub struct TestClient {
    params: ClientParams,
    socket: FakeSocket,
    decoder: Decoder,
    decompressor: Option<StreamDecompressor>,
    deflate: Option<Deflate>,
    mask: u32,
    /// Last `s` received.
    pub seq: u64,
    /// Session id of READY.
    pub session_id: Option<String>,
    /// Number of messages received with payload compression.
    pub inflated_count: usize,
    /// Number of messages received with permessage-deflate.
    pub deflated_count: usize,
    /// All received bytes, if recording is on.
    wire: Option<Vec<u8>>,
    has_ended: bool,
}

impl TestClient {
    /// A client whose upgrade was answered.
    ///
    /// # Panics
    /// When a decompressor cannot be allocated.
    #[must_use]
    pub fn new(params: ClientParams, socket: FakeSocket) -> Self {
        let decompressor = match params.conn.compression {
            Compression::None | Compression::Deflate(_) => None,
            Compression::Zlib => Some(StreamDecompressor::zlib().expect("there is memory")),
            Compression::Zstd => Some(StreamDecompressor::zstd(27).expect("there is memory")),
            // `with_dictionary` sets it.
            Compression::ZstdDict(_) => None,
        };
        let mut decoder = Decoder::new(Role::Client, Limits { message_bytes_max: MESSAGE_BYTES_MAX as u32 });
        let deflate = match params.conn.compression {
            Compression::Deflate(params) => Some(Deflate::new(params)),
            Compression::None | Compression::Zlib | Compression::Zstd | Compression::ZstdDict(_) => None,
        };
        decoder.set_rsv1_allowed(deflate.is_some());
        Self {
            params,
            socket,
            decoder,
            decompressor,
            deflate,
            mask: 0x1234_5678,
            seq: 0,
            session_id: None,
            inflated_count: 0,
            deflated_count: 0,
            wire: None,
            has_ended: false,
        }
    }

    /// Sets the dictionary that the stream starts with, if the client requested one.
    ///
    /// # Panics
    /// When a decompressor cannot be allocated.
    #[must_use]
    pub fn with_dictionary(mut self, dictionary: Option<&Dictionary>) -> Self {
        if let Some(dictionary) = dictionary {
            self.decompressor = Some(StreamDecompressor::zstd_with(27, dictionary).expect("there is memory"));
        }
        self
    }

    /// The same client on a new connection, with session id and last `s`.
    #[must_use]
    pub fn reconnected(&self, params: ClientParams, socket: FakeSocket) -> Self {
        Self { seq: self.seq, session_id: self.session_id.clone(), ..Self::new(params, socket) }
    }

    /// Connection options.
    #[must_use]
    pub fn params(&self) -> ClientParams {
        self.params
    }

    /// The client's end of the connection.
    #[must_use]
    pub fn socket(&self) -> &FakeSocket {
        &self.socket
    }

    /// Everything was read, and the connection has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Starts recording of all received bytes.
    pub fn record_wire(&mut self) {
        self.wire.get_or_insert_default();
    }

    /// All bytes received since recording started.
    #[must_use]
    pub fn wire(&self) -> &[u8] {
        self.wire.as_deref().unwrap_or_default()
    }

    // ── receiving ────────────────────────────────────────────────────────────────────────────────

    /// Takes at most `max` bytes that arrived, and returns the messages that they complete.
    ///
    /// # Errors
    /// When the server violates the protocol.
    pub fn read(&mut self, max: usize) -> Result<Vec<Received>, ClientFault> {
        let mut bytes = self.socket.client_read(max);
        if let Some(wire) = &mut self.wire {
            wire.extend_from_slice(&bytes);
        }
        let mut received = Vec::new();
        let mut decoder =
            std::mem::replace(&mut self.decoder, Decoder::new(Role::Client, Limits { message_bytes_max: 0 }));
        let mut events = decoder.handle(&mut bytes);
        loop {
            match events.poll() {
                Ok(None) => break,
                Ok(Some(event)) => received.push(self.event(event)?),
                Err(error) => return fault(format!("WebSocket: {error}")),
            }
        }
        drop(events);
        self.decoder = decoder;
        let ended = self.socket.server_end() != ServerEnd::Open && self.socket.unread_bytes() == 0;
        if ended && !self.has_ended {
            self.has_ended = true;
            received.push(Received::End);
        }
        Ok(received)
    }

    fn event(&mut self, event: Event<'_>) -> Result<Received, ClientFault> {
        let is_plain = matches!(self.params.conn.compression, Compression::None | Compression::Deflate(_));
        match event {
            Event::Text(text) if is_plain && self.params.conn.encoding == Encoding::Json => self.json(text),
            Event::Text(_) => fault("a text frame where only binary ones are allowed"),
            Event::Binary(bytes) => self.binary(bytes),
            Event::Compressed { text, payload } => self.deflated(text, payload),
            Event::Ping(_) => fault("the gateway never pings"),
            Event::Pong(payload) => Ok(Received::Pong(payload.to_vec())),
            Event::Close { code, reason } => Ok(Received::Close(code, reason.to_owned())),
        }
    }

    fn deflated(&mut self, is_text: bool, payload: &[u8]) -> Result<Received, ClientFault> {
        let Some(deflate) = &mut self.deflate else { return fault("RSV1 without permessage-deflate") };
        let message = deflate.inflate(payload)?;
        self.deflated_count += 1;
        match (is_text, self.params.conn.encoding) {
            (true, Encoding::Json) => match std::str::from_utf8(&message) {
                Ok(text) => self.json(text),
                Err(_) => fault("JSON that is not UTF-8"),
            },
            (false, Encoding::Etf) => self.etf(&message),
            _ => fault("a compressed message of the other kind of frame"),
        }
    }

    fn binary(&mut self, bytes: &[u8]) -> Result<Received, ClientFault> {
        let mut inflated = Vec::new();
        let payload = match &mut self.decompressor {
            Some(decompressor) => {
                if self.params.conn.compression == Compression::Zlib && !bytes.ends_with(&[0, 0, 0xff, 0xff]) {
                    return fault("a zlib-stream message does not end with the flush marker");
                }
                let result = decompressor.decompress(bytes, &mut inflated, MESSAGE_BYTES_MAX);
                result.map_err(|error| ClientFault(format!("decompression: {error}")))?;
                &inflated[..]
            }
            None if self.params.conn.encoding == Encoding::Json => {
                if !self.params.compress_payloads {
                    return fault("a binary frame in plain JSON");
                }
                let result = inflate_once(bytes, &mut inflated, MESSAGE_BYTES_MAX);
                result.map_err(|error| ClientFault(format!("payload compression: {error}")))?;
                self.inflated_count += 1;
                &inflated[..]
            }
            None => bytes,
        };
        match self.params.conn.encoding {
            Encoding::Json => match std::str::from_utf8(payload) {
                Ok(text) => self.json(text),
                Err(_) => fault("JSON that is not UTF-8"),
            },
            Encoding::Etf => self.etf(payload),
        }
    }

    /// Parses key by key as scanners do: `t`, `s`, `op`, `d`, in this order and without spaces.
    fn json(&mut self, text: &str) -> Result<Received, ClientFault> {
        let envelope = || -> Option<(Value, Value, u64, &str)> {
            let rest = text.strip_prefix("{\"t\":")?;
            let (name, rest) = rest.split_once(",\"s\":")?;
            let (seq, rest) = rest.split_once(",\"op\":")?;
            let (op, rest) = rest.split_once(",\"d\":")?;
            let body = rest.strip_suffix('}')?;
            Some((serde_json::from_str(name).ok()?, serde_json::from_str(seq).ok()?, op.parse().ok()?, body))
        };
        let Some((name, seq, op, body)) = envelope() else {
            return fault(format!("not an envelope: {}", text.chars().take(200).collect::<String>()));
        };
        if let Err(error) = serde_json::from_str::<&RawValue>(body) {
            return fault(format!("a body that is not JSON: {error}"));
        }
        self.payload(op, &name, &seq, Body::Json(body.into()))
    }

    fn etf(&mut self, bytes: &[u8]) -> Result<Received, ClientFault> {
        let value = match decode_etf_from_gateway(bytes, DecodeLimits::default()) {
            Ok(Value::Object(map)) => map,
            Ok(_) => return fault("a term that is no map"),
            Err(error) => return fault(format!("ETF: {error}")),
        };
        let mut map: BTreeMap<String, Value> = value.into_iter().collect();
        let (Some(op), Some(name), Some(seq), Some(mut d)) =
            (map.remove("op").and_then(|op| op.as_u64()), map.remove("t"), map.remove("s"), map.remove("d"))
        else {
            return fault("a term that lacks one of op, t, s, d");
        };
        strings_for_ids(&mut d);
        self.payload(op, &name, &seq, Body::Etf(d.into()))
    }

    fn payload(&mut self, op: u64, name: &Value, seq: &Value, body: Body) -> Result<Received, ClientFault> {
        if op == 0 {
            let (Some(name), Some(seq)) = (name.as_str(), seq.as_u64()) else {
                return fault("a dispatch without name or sequence");
            };
            let dispatch = Dispatch { seq, name: name.to_owned(), body };
            self.seq = seq;
            if name == "READY" {
                self.session_id = dispatch.d()["session_id"].as_str().map(str::to_owned);
            }
            return Ok(Received::Dispatch(dispatch));
        }
        if !name.is_null() || !seq.is_null() {
            return fault(format!("op {op} with a name or sequence"));
        }
        let d = Dispatch { seq: 0, name: String::new(), body }.d();
        match (op, &d) {
            (7, Value::Null) => Ok(Received::Reconnect),
            (9, Value::Bool(resumable)) => Ok(Received::InvalidSession(*resumable)),
            (10, hello) => match hello["heartbeat_interval"].as_u64() {
                Some(heartbeat_interval) => Ok(Received::Hello { heartbeat_interval }),
                None => fault("HELLO without interval"),
            },
            (11, Value::Null) => Ok(Received::HeartbeatAck),
            _ => fault(format!("op {op} with {d}")),
        }
    }

    // ── sending ──────────────────────────────────────────────────────────────────────────────────

    fn frame(&mut self, head: impl Into<Head>, payload: &[u8]) {
        self.mask = self.mask.wrapping_mul(0x9E37_79B1).wrapping_add(1);
        let mut frame = Vec::new();
        append_masked_frame(head, self.mask.to_be_bytes(), payload, &mut frame);
        self.socket.client_write(&frame);
    }

    /// Sends a compressed message, or one that claims to be.
    pub fn send_deflated(&mut self, payload: &[u8]) {
        let opcode = if self.params.conn.encoding == Encoding::Json { Opcode::Text } else { Opcode::Binary };
        self.frame(Head { opcode, fin: true, compressed: true }, payload);
    }

    /// Sends any frame.
    pub fn send_frame(&mut self, head: Head, payload: &[u8]) {
        self.frame(head, payload);
    }

    /// Sends a message that need not be a valid payload.
    pub fn send_raw(&mut self, payload: &[u8]) {
        let opcode = if self.params.conn.encoding == Encoding::Json { Opcode::Text } else { Opcode::Binary };
        // Two of three are compressed, so that both kinds occur in any order.
        match self.deflate.as_mut().filter(|_| !self.mask.is_multiple_of(3)) {
            Some(deflate) => {
                let payload = deflate.deflate(payload);
                self.frame(Head { opcode, fin: true, compressed: true }, &payload);
            }
            None => self.frame(opcode, payload),
        }
    }

    /// Sends a payload.
    ///
    /// # Panics
    /// When `d` cannot be encoded.
    pub fn send(&mut self, op: u64, d: &Value) {
        let mut payload = Vec::new();
        encode_payload_to_gateway(self.params.conn.encoding, op, d, &mut payload).expect("it can be encoded");
        self.send_raw(&payload);
    }

    /// Op 1 with the last `s`.
    pub fn heartbeat(&mut self) {
        let seq = if self.seq == 0 { Value::Null } else { self.seq.into() };
        self.send(1, &seq);
    }

    /// Op 2. The client's parameters determine `compress`; `d` holds the other fields.
    pub fn identify(&mut self, mut d: Value) {
        d["compress"] = self.params.compress_payloads.into();
        self.send(2, &d);
    }

    /// Op 6 with the remembered session id and `s`.
    pub fn resume(&mut self, token: &str) {
        let (session_id, seq) = (self.session_id.clone().unwrap_or_default(), self.seq);
        self.send(6, &json!({"token": token, "session_id": session_id, "seq": seq}));
    }

    /// Sends a ping.
    pub fn ping(&mut self, payload: &[u8]) {
        self.frame(Opcode::Ping, payload);
    }

    /// Sends a close frame.
    pub fn close(&mut self, code: Option<u16>) {
        let frame = close_frame(code, "");
        self.frame(Opcode::Close, frame.payload());
    }
}

/// The `d` of a typical IDENTIFY. No intents for user accounts that want everything.
#[must_use]
pub fn identify_payload(token: &str, intents: Option<u32>) -> Value {
    let mut d = json!({"token": token, "properties": {"os": "linux", "browser": "kit", "device": "kit"}});
    if let Some(intents) = intents {
        d["intents"] = intents.into();
    }
    d
}
