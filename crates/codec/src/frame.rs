//! Frames: the envelope around a body that many sessions share.
//!
//! Owns        the byte layout of envelopes in both encodings.
//! Doors       `DispatchFrame` once per (event, encoding), then `write_for` or `parts` once per recipient;
//!             `control_payload` for everything that is not a dispatch.
//! Invariants  F1 only the seq (and so the WebSocket length) differs between recipients; the body is never copied or
//!             moved. F2 `write_for` and the three slices of `parts` are the same bytes. (tests `f1_*`, `f2_*`)
//! Limits      `EVENT_NAME_BYTES_MAX`; heads and tails fit `HEAD_BYTES_MAX`.
//! Not here    WebSocket headers, masking, fragments, extensions (ws-proto); compression (stream).     Spec
//!             docs/protocol/reference.md §1.2, §2.2.

use std::ops::Range;

use guildhall_ws_proto::{FrameHeader, HEADER_BYTES_MAX as WS_HEADER_BYTES_MAX, Opcode};
use serde::Serialize;

use crate::etf::{IntBytes, VERSION, tag};
use crate::{EncodeError, Encoding, encode_etf, encode_json};

/// Longest event name; the longest one in use has 38 bytes.
pub const EVENT_NAME_BYTES_MAX: usize = 64;

/// Longest head or tail around a body.
pub const HEAD_BYTES_MAX: usize = 128;

/// Header of a stored deflate block in prepared frames: not final, stored; the length; its complement.
pub(crate) const STORED_HEADER_BYTES: usize = 5;

/// Digits of `u64::MAX`.
const SEQ_DIGITS_MAX: usize = 20;

/// Room for a body whose length is not known.
const BODY_BYTES: usize = 1_024;

const JSON_NAME_BEFORE: &[u8] = b"{\"t\":\"";
const JSON_NAME_AFTER: &[u8] = b"\",\"s\":";
/// Between the seq and the body.
pub(crate) const JSON_OP: &[u8] = b",\"op\":0,\"d\":";
pub(crate) const JSON_END: &[u8] = b"}";

/// A map of four, and its first key `d`.
pub(crate) const ETF_HEAD: &[u8] = &[VERSION, tag::MAP, 0, 0, 0, 4, tag::ATOM, 0, 1, b'd'];
/// Between the body and the seq: `op => 0`, key `s`.
pub(crate) const ETF_OP: &[u8] = b"\x64\x00\x02op\x61\x00\x64\x00\x01s";
/// Between the seq and the event name: key `t`.
const ETF_T: &[u8] = b"\x64\x00\x01t";

const _: () = assert!(
    WS_HEADER_BYTES_MAX
        + JSON_NAME_BEFORE.len()
        + EVENT_NAME_BYTES_MAX
        + JSON_NAME_AFTER.len()
        + SEQ_DIGITS_MAX
        + JSON_OP.len()
        + STORED_HEADER_BYTES
        <= HEAD_BYTES_MAX
);
const _: () = assert!(
    STORED_HEADER_BYTES + 1 + ETF_OP.len() + IntBytes::BYTES_MAX + ETF_T.len() + 3 + EVENT_NAME_BYTES_MAX
        <= HEAD_BYTES_MAX
);

/// Headers in front of the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No framing: the payload is compressed first.
    None,
    /// The header of one unmasked, unfragmented WebSocket message.
    WebSocket {
        /// Text or binary.
        opcode: Opcode,
    },
}

impl Framing {
    /// The framing of an uncompressed payload: text for JSON, binary for ETF.
    pub fn websocket(encoding: Encoding) -> Self {
        let opcode = match encoding {
            Encoding::Json => Opcode::Text,
            Encoding::Etf => Opcode::Binary,
        };
        Self::WebSocket { opcode }
    }

    fn header(self, payload_bytes: usize) -> Option<FrameHeader> {
        match self {
            Self::None => None,
            Self::WebSocket { opcode } => Some(FrameHeader::new(opcode, payload_bytes)),
        }
    }
}

/// Up to [`HEAD_BYTES_MAX`] bytes on the stack.
#[derive(Clone, Copy)]
pub struct SmallHead {
    bytes: [u8; HEAD_BYTES_MAX],
    length: u8,
}

impl SmallHead {
    pub(crate) const EMPTY: Self = Self { bytes: [0; HEAD_BYTES_MAX], length: 0 };

    /// All callers stay within the bounds asserted at the top of this file.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let start = usize::from(self.length);
        let end = start + bytes.len();
        self.bytes[start..end].copy_from_slice(bytes);
        self.length = end as u8;
    }
}

impl std::ops::Deref for SmallHead {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl std::fmt::Debug for SmallHead {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "\"{}\"", self.escape_ascii())
    }
}

/// One frame in three pieces, for a vectored write from a queue.
#[derive(Clone, Copy, Debug)]
pub struct FrameParts<'a> {
    /// WebSocket header and the envelope before the body.
    pub head: SmallHead,
    /// The shared body.
    pub body: &'a [u8],
    /// The envelope after the body.
    pub tail: SmallHead,
}

impl FrameParts<'_> {
    /// Bytes of the whole frame.
    #[expect(clippy::len_without_is_empty, reason = "a frame is never empty")]
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len() + self.tail.len()
    }

    /// The pieces of the frame after its first `skip_bytes`, which are already written.
    pub fn slices(&self, skip_bytes: usize) -> [&[u8]; 3] {
        let mut skip_bytes = skip_bytes;
        [&*self.head, self.body, &*self.tail].map(|piece| {
            let skipped = skip_bytes.min(piece.len());
            skip_bytes -= skipped;
            &piece[skipped..]
        })
    }
}

/// A dispatch: one event in one encoding, ready to be addressed to any number of sessions.
///
/// One buffer holds, in this order: the bytes of the event name (kept, to be copied from), room, the body, room. A
/// recipient's head is written right-aligned in front of the body and its tail behind it, so the frame is one slice.
///
/// A partition keeps it as `Rc<RefCell<DispatchFrame>>`: [`write_for`](Self::write_for) while it goes around the
/// sockets, [`parts`](Self::parts) for the connections that had to queue it. The same seq and framing give the same
/// bytes each time, so a partly written frame can be continued at its offset.
///
/// ```
/// use guildhall_codec::{DispatchFrame, Encoding, Framing};
/// let mut frame = DispatchFrame::new(Encoding::Json, "RESUMED", &())?;
/// assert_eq!(frame.write_for(7, Framing::None), br#"{"t":"RESUMED","s":7,"op":0,"d":null}"#);
/// let parts = frame.parts(8, Framing::websocket(Encoding::Json));
/// assert_eq!(parts.slices(0).concat(), b"\x81\x25{\"t\":\"RESUMED\",\"s\":8,\"op\":0,\"d\":null}");
/// # Ok::<(), guildhall_codec::EncodeError>(())
/// ```
#[derive(Debug)]
pub struct DispatchFrame {
    buffer: Vec<u8>,
    encoding: Encoding,
    /// The piece with the event name, at the start of the buffer: JSON `{"t":"NAME","s":`, ETF `t => NAME`.
    name_piece_bytes: usize,
    name: Range<usize>,
    body: Range<usize>,
    /// Position of the name: in JSON its start in the head, in ETF its start in the tail. 0 before the first write.
    name_piece_at: usize,
    /// End of the last tail.
    tail_end: usize,
    /// Compressed forms, one for each window that a recipient needed.
    #[cfg(feature = "stream")]
    pub(crate) prepared: crate::prepared::PreparedForms,
}

impl DispatchFrame {
    /// Encodes `value` as the body of a dispatch called `name`.
    ///
    /// For a body that is already there as JSON text pass a `serde_json::value::RawValue`.
    ///
    /// # Errors
    /// [`EncodeError::EventName`] for a name that is not 1 to 64 of `A-Z`, `0-9`, `_`; else as the encoding's encoder.
    pub fn new<T: Serialize + ?Sized>(encoding: Encoding, name: &str, value: &T) -> Result<Self, EncodeError> {
        let mut frame = Self::build(encoding, name, BODY_BYTES, |buffer| encoding.encode(value, buffer))?;
        // Replay buffers keep frames.
        frame.buffer.shrink_to_fit();
        Ok(frame)
    }

    /// As [`new`](Self::new), around a body that [`Encoding::encode`] made before.
    ///
    /// # Errors
    /// [`EncodeError::EventName`].
    pub fn from_body(encoding: Encoding, name: &str, body: &[u8]) -> Result<Self, EncodeError> {
        Self::build(encoding, name, body.len(), |buffer| {
            buffer.extend_from_slice(body);
            Ok(())
        })
    }

    /// As [`new`](Self::new), around JSON text that `put_body` appends, about `body_bytes` of it.
    ///
    /// # Errors
    /// [`EncodeError::EventName`]; else those of `put_body`.
    pub fn from_json(
        name: &str,
        body_bytes: usize,
        put_body: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
    ) -> Result<Self, EncodeError> {
        Self::build(Encoding::Json, name, body_bytes, |buffer| put_body(buffer).map_err(EncodeError::Json))
    }

    fn build(
        encoding: Encoding,
        name: &str,
        body_bytes: usize,
        put_body: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
    ) -> Result<Self, EncodeError> {
        let name_bytes = name.len();
        // Such names need no escaping in JSON and are atoms in ETF.
        let is_plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        if !(1..=EVENT_NAME_BYTES_MAX).contains(&name_bytes) || !name.bytes().all(is_plain) {
            return Err(EncodeError::EventName { name_bytes });
        }
        let mut buffer = Vec::new();
        let name_start;
        let name_piece_bytes;
        match encoding {
            Encoding::Json => {
                name_start = JSON_NAME_BEFORE.len();
                name_piece_bytes = name_start + name_bytes + JSON_NAME_AFTER.len();
                let head_bytes_max = WS_HEADER_BYTES_MAX + name_piece_bytes + SEQ_DIGITS_MAX + JSON_OP.len();
                buffer.reserve_exact(name_piece_bytes + head_bytes_max + body_bytes + JSON_END.len());
                buffer.extend_from_slice(JSON_NAME_BEFORE);
                buffer.extend_from_slice(name.as_bytes());
                buffer.extend_from_slice(JSON_NAME_AFTER);
                buffer.resize(name_piece_bytes + head_bytes_max - JSON_OP.len(), 0);
                buffer.extend_from_slice(JSON_OP);
            }
            Encoding::Etf => {
                name_start = ETF_T.len() + 3;
                name_piece_bytes = name_start + name_bytes;
                let head_bytes_max = WS_HEADER_BYTES_MAX + ETF_HEAD.len();
                let tail_bytes_max = ETF_OP.len() + IntBytes::BYTES_MAX + name_piece_bytes;
                buffer.reserve_exact(name_piece_bytes + head_bytes_max + body_bytes + tail_bytes_max);
                buffer.extend_from_slice(ETF_T);
                buffer.extend_from_slice(&[tag::ATOM, 0, name_bytes as u8]);
                buffer.extend_from_slice(name.as_bytes());
                buffer.resize(name_piece_bytes + head_bytes_max - ETF_HEAD.len(), 0);
                buffer.extend_from_slice(ETF_HEAD);
            }
        }
        let body_start = buffer.len();
        put_body(&mut buffer)?;
        let body = body_start..buffer.len();
        match encoding {
            Encoding::Json => buffer.extend_from_slice(JSON_END),
            Encoding::Etf => {
                buffer.extend_from_slice(ETF_OP);
                buffer.resize(buffer.len() + IntBytes::BYTES_MAX + name_piece_bytes, 0);
            }
        }
        Ok(Self {
            tail_end: buffer.len(),
            buffer,
            encoding,
            name_piece_bytes,
            name: name_start..name_start + name_bytes,
            body,
            name_piece_at: 0,
            #[cfg(feature = "stream")]
            prepared: Default::default(),
        })
    }

    /// Encoding of the body.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The event name, `t`.
    pub fn name(&self) -> &[u8] {
        &self.buffer[self.name.clone()]
    }

    /// The piece of the envelope with the event name.
    #[cfg(feature = "stream")]
    pub(crate) fn name_piece(&self) -> &[u8] {
        &self.buffer[..self.name_piece_bytes]
    }

    /// Heap memory in bytes: the buffer, and the forms that were compressed once.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        #[cfg(feature = "stream")]
        let prepared_bytes = self.prepared_bytes();
        #[cfg(not(feature = "stream"))]
        let prepared_bytes = 0;
        self.buffer.capacity() + prepared_bytes
    }

    /// The body, `d`.
    pub fn body(&self) -> &[u8] {
        &self.buffer[self.body.clone()]
    }

    /// Bytes of the uncompressed payload under `seq`: envelope and body, without framing.
    pub fn payload_bytes(&self, seq: u64) -> usize {
        let envelope = match self.encoding {
            Encoding::Json => seq.checked_ilog10().unwrap_or(0) as usize + 1 + JSON_OP.len() + JSON_END.len(),
            Encoding::Etf => ETF_HEAD.len() + ETF_OP.len() + IntBytes::from_u64(seq).len(),
        };
        self.name_piece_bytes + envelope + self.body.len()
    }

    /// Writes the head and tail for `seq` around the body and returns the whole frame, ready for one `send`.
    ///
    /// Takes some tens of nanoseconds for a body of any size: it allocates nothing and does not move the body.
    pub fn write_for(&mut self, seq: u64, framing: Framing) -> &[u8] {
        let payload = match self.encoding {
            Encoding::Json => self.write_json(seq),
            Encoding::Etf => self.write_etf(seq),
        };
        let header = framing.header(payload.len());
        let header = header.as_deref().unwrap_or_default();
        let start = payload.start - header.len();
        self.buffer[start..payload.start].copy_from_slice(header);
        &self.buffer[start..payload.end]
    }

    /// Name piece, digits, op, body, brace; the name piece moves only when the number of digits does.
    fn write_json(&mut self, seq: u64) -> Range<usize> {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(seq).as_bytes();
        let digits_end = self.body.start - JSON_OP.len();
        let digits_start = digits_end - digits.len();
        self.buffer[digits_start..digits_end].copy_from_slice(digits);
        let start = digits_start - self.name_piece_bytes;
        if self.name_piece_at != start {
            self.buffer.copy_within(..self.name_piece_bytes, start);
            self.name_piece_at = start;
        }
        start..self.tail_end
    }

    /// Head, body, op, integer, name piece; the name piece moves only when the integer's width does.
    fn write_etf(&mut self, seq: u64) -> Range<usize> {
        let seq = IntBytes::from_u64(seq);
        let seq_start = self.body.end + ETF_OP.len();
        let seq_end = seq_start + seq.len();
        self.buffer[seq_start..seq_end].copy_from_slice(&seq);
        if self.name_piece_at != seq_end {
            self.buffer.copy_within(..self.name_piece_bytes, seq_end);
            self.name_piece_at = seq_end;
            self.tail_end = seq_end + self.name_piece_bytes;
        }
        self.body.start - ETF_HEAD.len()..self.tail_end
    }

    /// The frame for `seq` in pieces, leaving this one untouched: for frames that wait in queues.
    pub fn parts(&self, seq: u64, framing: Framing) -> FrameParts<'_> {
        let name_piece = &self.buffer[..self.name_piece_bytes];
        let body = self.body();
        let mut envelope = SmallHead::EMPTY;
        let mut tail = SmallHead::EMPTY;
        match self.encoding {
            Encoding::Json => {
                envelope.push(name_piece);
                envelope.push(itoa::Buffer::new().format(seq).as_bytes());
                envelope.push(JSON_OP);
                tail.push(JSON_END);
            }
            Encoding::Etf => {
                envelope.push(ETF_HEAD);
                tail.push(ETF_OP);
                tail.push(&IntBytes::from_u64(seq));
                tail.push(name_piece);
            }
        }
        let payload_bytes = envelope.len() + body.len() + tail.len();
        let mut head = SmallHead::EMPTY;
        head.push(framing.header(payload_bytes).as_deref().unwrap_or_default());
        head.push(&envelope);
        FrameParts { head, body, tail }
    }
}

/// A payload that is no dispatch (HELLO, heartbeat ACK, INVALID SESSION, RECONNECT …): `s` and `t` are null.
///
/// # Errors
/// As [`Encoding::encode`]; never for `d` made of numbers, strings and lists of those.
pub fn control_payload<T: Serialize + ?Sized>(encoding: Encoding, op: u8, d: &T) -> Result<Vec<u8>, EncodeError> {
    let mut payload = Vec::with_capacity(128);
    match encoding {
        Encoding::Json => {
            payload.extend_from_slice(b"{\"t\":null,\"s\":null,\"op\":");
            payload.extend_from_slice(itoa::Buffer::new().format(op).as_bytes());
            payload.extend_from_slice(b",\"d\":");
            encode_json(d, &mut payload)?;
            payload.push(b'}');
        }
        Encoding::Etf => {
            payload.extend_from_slice(ETF_HEAD);
            encode_etf(d, &mut payload)?;
            payload.extend_from_slice(b"\x64\x00\x02op");
            payload.extend_from_slice(&IntBytes::from_u64(op.into()));
            payload.extend_from_slice(b"\x64\x00\x01s\x64\x00\x03nil\x64\x00\x01t\x64\x00\x03nil");
        }
    }
    Ok(payload)
}
