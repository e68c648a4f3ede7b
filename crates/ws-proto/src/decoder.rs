//! Decoder: turns bytes into messages and control frames.
//!
//! Owns        the position in the byte stream: a partial header, a partial payload, a fragmented message.
//! Doors       `Decoder::handle` takes bytes of the socket; `Events::poll` returns events.
//! Invariants  D1 the heap is used only while something is incomplete. D2 a frame that is complete in the input is not
//!             copied. D3 events and errors do not depend on how the input is split. D4 after a close frame or an
//!             error, all further input is dropped unread. (tests/it: `memory`, `split`, `close`)
//! Limits      a message holds `message_bytes_max`, checked from the header; an incomplete one costs at most twice the
//!             bytes that arrived, and never more than the limit (plus ~100 bytes of state).
//! Not here    inflate: compressed messages are returned compressed.     Spec  RFC 6455 §5, §7, §8.1.

use crate::header::{Header, PARSED_BYTES_MAX, Rules};
use crate::{CONTROL_BYTES_MAX, Opcode, Role, WsError, close_code_is_valid, mask};
use std::ops::Range;

/// First allocation for an incomplete message, unless the limit is lower: most inbound messages fit.
const FIRST_PAYLOAD_BYTES: usize = 128;

/// Bounds of the memory that the peer can occupy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of one message over all its fragments, on the wire (compressed, if so).
    pub message_bytes_max: u32,
}

/// A complete message or control frame. Borrows from the input, or from the decoder if it arrived in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A text message.
    Text(&'a str),
    /// A binary message.
    Binary(&'a [u8]),
    /// A message with RSV1 set, still compressed and so not checked for UTF-8. Only after
    /// [`Decoder::set_rsv1_allowed`]. `Limits` bounds only the compressed size: the caller must bound
    /// the inflated size.
    Compressed {
        /// The inflated message must be text; else bytes.
        text: bool,
        /// The compressed payload.
        payload: &'a [u8],
    },
    /// Must be answered by a pong with the same payload, at most 125 bytes.
    Ping(&'a [u8]),
    /// Answer to a ping, or unsolicited.
    Pong(&'a [u8]),
    /// The peer closes. The decoder reads nothing after this.
    Close {
        /// A valid code, if the frame has one.
        code: Option<u16>,
        /// At most 123 bytes; empty without a code.
        reason: &'a str,
    },
}

/// Decoder of one direction of one connection. 16 bytes; heap only while something is incomplete.
#[derive(Debug)]
pub struct Decoder {
    partial: Option<Box<Partial>>,
    message_bytes_max: u32,
    role: Role,
    rsv1_allowed: bool,
    done: bool,
}

/// State of an incomplete frame or message.
#[derive(Debug, Default)]
struct Partial {
    at: At,
    /// The incomplete data message: in the middle of a frame, between its fragments, or both.
    message: Option<Message>,
    /// Payload received so far of the control frame at `at`.
    control: Vec<u8>,
}

/// Position in the frame structure.
#[derive(Debug)]
enum At {
    /// In a header of which `len` bytes have arrived; 0 between two fragments.
    Header { bytes: [u8; PARSED_BYTES_MAX], len: u8 },
    /// In a payload of which `got_bytes` have arrived.
    Payload { header: Header, got_bytes: u32 },
}

impl Default for At {
    fn default() -> Self {
        Self::Header { bytes: [0; PARSED_BYTES_MAX], len: 0 }
    }
}

#[derive(Debug)]
struct Message {
    kind: Kind,
    payload: Vec<u8>,
    /// Bytes of the payload known to be UTF-8; the rest is the start of one character.
    utf8_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Binary,
    Compressed { text: bool },
    Ping,
    Pong,
    Close,
}

impl Kind {
    /// Kind of the event that this frame belongs to; for a continuation, that of the message.
    fn of(header: Header, message: Option<&Message>) -> Self {
        match header.opcode {
            Opcode::Text | Opcode::Binary if header.rsv1 => Self::Compressed { text: header.opcode == Opcode::Text },
            Opcode::Text => Self::Text,
            Opcode::Binary => Self::Binary,
            // `Header::parse` refuses a continuation unless a message is open.
            Opcode::Continuation => message.map_or(Self::Binary, |message| message.kind),
            Opcode::Ping => Self::Ping,
            Opcode::Pong => Self::Pong,
            Opcode::Close => Self::Close,
        }
    }
}

impl Kind {
    /// Opcode and RSV1 of the first frame of such a message.
    fn opcode(self) -> (Opcode, bool) {
        match self {
            Self::Text => (Opcode::Text, false),
            Self::Binary => (Opcode::Binary, false),
            Self::Compressed { text: true } => (Opcode::Text, true),
            Self::Compressed { text: false } => (Opcode::Binary, true),
            Self::Ping => (Opcode::Ping, false),
            Self::Pong => (Opcode::Pong, false),
            Self::Close => (Opcode::Close, false),
        }
    }
}

/// An event before its bytes are borrowed.
struct Ready {
    kind: Kind,
    place: Place,
}

enum Place {
    Input(Range<usize>),
    Held,
}

impl Decoder {
    /// A decoder for a connection after the handshake.
    #[must_use]
    pub fn new(role: Role, limits: Limits) -> Self {
        let Limits { message_bytes_max } = limits;
        Self { partial: None, message_bytes_max, role, rsv1_allowed: false, done: false }
    }

    /// Changes the limits from the next frame header on. A frame whose header was accepted may complete; a fragmented
    /// message already past the new limit fails at its next fragment.
    pub fn set_limits(&mut self, limits: Limits) {
        self.message_bytes_max = limits.message_bytes_max;
    }

    /// Current limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits { message_bytes_max: self.message_bytes_max }
    }

    /// Allows RSV1 on the first frame of a message, which then becomes [`Event::Compressed`]. Only for
    /// connections that negotiated permessage-deflate; off by default. On continuation and control frames
    /// RSV1 is refused always.
    pub fn set_rsv1_allowed(&mut self, allowed: bool) {
        self.rsv1_allowed = allowed;
    }

    /// A close frame or an error has ended the stream. Further input is dropped.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Heap bytes of this decoder: 0 unless a frame or a fragmented message is incomplete.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.partial.as_ref().map_or(0, |partial| {
            let message_bytes = partial.message.as_ref().map_or(0, |message| message.payload.capacity());
            size_of::<Partial>() + message_bytes + partial.control.capacity()
        })
    }

    /// Bytes that bring a new decoder, with the same role and RSV1 setting, to the state of this one: the incomplete
    /// frame or message as the peer could have sent it. Empty at the border of a message.
    #[must_use]
    pub fn unfinished(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Some(partial) = &self.partial else { return bytes };
        let open = match &partial.at {
            At::Payload { header, got_bytes } => Some((header, *got_bytes as usize)),
            At::Header { .. } => None,
        };
        let mut in_frame: &[u8] = &partial.control;
        if let Some(message) = &partial.message {
            let data_bytes = open.filter(|(header, _)| !header.opcode.is_control()).map_or(0, |(_, got)| got);
            let (fragments, rest) = message.payload.split_at(message.payload.len().saturating_sub(data_bytes));
            let begins_here = open.is_some_and(|(header, _)| matches!(header.opcode, Opcode::Text | Opcode::Binary));
            if !begins_here {
                let (opcode, rsv1) = message.kind.opcode();
                let mask = (self.role == Role::Server).then_some([0; 4]);
                let header = Header { opcode, fin: false, rsv1, mask, payload_bytes: fragments.len() as u32 };
                header.append(&mut bytes);
                bytes.extend_from_slice(fragments);
            }
            if data_bytes > 0 {
                in_frame = rest;
            }
        }
        match (&partial.at, open) {
            (_, Some((header, got_bytes))) => {
                header.append(&mut bytes);
                let start = bytes.len();
                bytes.extend_from_slice(&in_frame[..got_bytes]);
                if let Some(key) = header.mask {
                    mask::apply(key, 0, &mut bytes[start..]);
                }
            }
            (At::Header { bytes: header, len }, _) => bytes.extend_from_slice(&header[..usize::from(*len)]),
            (At::Payload { .. }, None) => {}
        }
        bytes
    }

    /// Takes input. Payloads are unmasked in place, so the content of `input` is undefined afterwards.
    /// Call [`Events::poll`] until it returns `None`. A caller that stops earlier must pass the last
    /// [`Events::unread_bytes`] of `input` in again, or the stream is corrupted.
    pub fn handle<'a>(&'a mut self, input: &'a mut [u8]) -> Events<'a> {
        Events { decoder: self, input, used: 0, held: Vec::new() }
    }

    fn finish(&mut self) {
        self.done = true;
        self.partial = None;
    }

    /// Advances through `input` from `used` to the end of the next complete message or control frame, or to the end of
    /// the input. Moves a payload that was collected on the heap to `held`.
    fn advance(&mut self, input: &mut [u8], used: &mut usize, held: &mut Vec<u8>) -> Result<Option<Ready>, WsError> {
        if self.done {
            *used = input.len();
        }
        while !self.done {
            let Some((header, got_bytes)) = self.next_header(input, used)? else { break };
            let missing = (header.payload_bytes - got_bytes) as usize;
            let start = *used;
            let end = start + missing.min(input.len() - start);
            *used = end;
            let chunk = &mut input[start..end];
            if let Some(key) = header.mask {
                mask::apply(key, got_bytes, chunk);
            }
            let complete = chunk.len() == missing;
            let message = self.partial.as_mut().and_then(|partial| partial.message.as_mut());
            let kind = Kind::of(header, message.as_deref());

            let untouched = got_bytes == 0 && (header.opcode.is_control() || message.is_none());
            if complete && header.fin && untouched {
                self.at_boundary();
                return Ok(Some(Ready { kind, place: Place::Input(start..end) }));
            }

            let partial = self.partial.get_or_insert_default();
            let got_bytes = got_bytes + chunk.len() as u32;
            partial.at = At::Payload { header, got_bytes };
            if header.opcode.is_control() {
                partial.control.reserve_exact(header.payload_bytes as usize - partial.control.len());
                partial.control.extend_from_slice(chunk);
            } else if complete || !chunk.is_empty() {
                let new = || Message { kind, payload: Vec::new(), utf8_bytes: 0 };
                let message = partial.message.get_or_insert_with(new);
                // The last fragment determines the size; before it only the limit is known.
                let announced = message.payload.len() + missing;
                let bytes_max = if header.fin { announced } else { announced.max(self.message_bytes_max as usize) };
                message.append(chunk, bytes_max)?;
            }
            if !complete {
                break;
            }
            if header.opcode.is_control() {
                *held = std::mem::take(&mut partial.control);
            } else if header.fin {
                *held = partial.message.take().map(|message| message.payload).unwrap_or_default();
            }
            self.at_boundary();
            if header.fin {
                return Ok(Some(Ready { kind, place: Place::Held }));
            }
        }
        Ok(None)
    }

    /// The current frame and the number of its payload bytes seen; reads the next header if between frames.
    fn next_header(&mut self, input: &[u8], used: &mut usize) -> Result<Option<(Header, u32)>, WsError> {
        let mut rules = Rules {
            role: self.role,
            rsv1_allowed: self.rsv1_allowed,
            message_bytes_max: self.message_bytes_max,
            message_bytes: None,
        };
        let rest = &input[*used..];
        let (mut bytes, seen) = match self.partial.as_deref() {
            Some(&Partial { at: At::Payload { header, got_bytes }, .. }) => return Ok(Some((header, got_bytes))),
            Some(Partial { at: At::Header { bytes, len }, message, .. }) => {
                rules.message_bytes = message.as_ref().map(|message| message.payload.len());
                (*bytes, usize::from(*len))
            }
            None => ([0; PARSED_BYTES_MAX], 0),
        };
        if seen == 0
            && let Some((header, header_bytes)) = Header::parse(rules, rest)?
        {
            *used += header_bytes;
            return Ok(Some((header, 0)));
        }

        let more = rest.len().min(PARSED_BYTES_MAX - seen);
        let len = seen + more;
        bytes[seen..len].copy_from_slice(&rest[..more]);
        if let Some((header, header_bytes)) = Header::parse(rules, &bytes[..len])? {
            *used += header_bytes - seen;
            return Ok(Some((header, 0)));
        }
        // The input is shorter than a header, so all of it is in `bytes`.
        *used = input.len();
        if len > 0 {
            self.partial.get_or_insert_default().at = At::Header { bytes, len: len as u8 };
        }
        Ok(None)
    }

    /// End of a frame: keeps state only for an incomplete message.
    fn at_boundary(&mut self) {
        match &mut self.partial {
            Some(partial) if partial.message.is_some() => partial.at = At::default(),
            partial => *partial = None,
        }
    }
}

impl Message {
    /// Appends a chunk. The message will not grow past `bytes_max`.
    fn append(&mut self, chunk: &[u8], bytes_max: usize) -> Result<(), WsError> {
        let len = self.payload.len() + chunk.len();
        if len > self.payload.capacity() {
            // Doubles, so that many small pieces stay cheap.
            let target = len.max(2 * self.payload.capacity()).max(FIRST_PAYLOAD_BYTES).min(bytes_max);
            self.payload.reserve_exact(target - self.payload.len());
        }
        self.payload.extend_from_slice(chunk);
        if self.kind == Kind::Text {
            let unchecked = &self.payload[self.utf8_bytes..];
            self.utf8_bytes += match simdutf8::compat::from_utf8(unchecked) {
                Ok(text) => text.len(),
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                Err(_) => return Err(WsError::TextNotUtf8),
            };
        }
        Ok(())
    }
}

/// Iterator over the events in one piece of input; from [`Decoder::handle`].
#[must_use = "the stream is broken unless the events are polled until there are none"]
#[derive(Debug)]
pub struct Events<'a> {
    decoder: &'a mut Decoder,
    input: &'a mut [u8],
    used: usize,
    /// Payload of the last event, if it was collected from pieces.
    held: Vec<u8>,
}

impl Events<'_> {
    /// The next event; `None` at the end of the input, or after a close frame.
    ///
    /// # Errors
    /// The peer violated the protocol. The decoder is done then: later input is dropped and yields `None`.
    pub fn poll(&mut self) -> Result<Option<Event<'_>>, WsError> {
        let ready = match self.decoder.advance(self.input, &mut self.used, &mut self.held) {
            Ok(Some(ready)) => ready,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.decoder.finish();
                return Err(error);
            }
        };
        let payload = match ready.place {
            Place::Input(range) => &self.input[range],
            Place::Held => &self.held[..],
        };
        let event = ready.kind.event(payload);
        if ready.kind == Kind::Close || event.is_err() {
            self.decoder.finish();
        }
        event.map(Some)
    }

    /// Bytes at the end of the input that are not part of any event polled so far.
    #[must_use]
    pub fn unread_bytes(&self) -> usize {
        self.input.len() - self.used
    }

    /// As [`Decoder::set_limits`], between two events of the same input.
    pub fn set_limits(&mut self, limits: Limits) {
        self.decoder.set_limits(limits);
    }
}

impl Kind {
    fn event(self, payload: &[u8]) -> Result<Event<'_>, WsError> {
        Ok(match self {
            Self::Text => Event::Text(simdutf8::basic::from_utf8(payload).map_err(|_| WsError::TextNotUtf8)?),
            Self::Binary => Event::Binary(payload),
            Self::Compressed { text } => Event::Compressed { text, payload },
            Self::Ping => Event::Ping(payload),
            Self::Pong => Event::Pong(payload),
            Self::Close => close_event(payload)?,
        })
    }
}

fn close_event(payload: &[u8]) -> Result<Event<'_>, WsError> {
    debug_assert!(payload.len() != 1 && payload.len() <= CONTROL_BYTES_MAX, "refused by Header::parse");
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        return Ok(Event::Close { code: None, reason: "" });
    };
    let code = u16::from_be_bytes(*code);
    if !close_code_is_valid(code) {
        return Err(WsError::CloseCodeInvalid(code));
    }
    let reason = simdutf8::basic::from_utf8(reason).map_err(|_| WsError::CloseReasonNotUtf8)?;
    Ok(Event::Close { code: Some(code), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_is_small() {
        // There is one per connection: at a million connections, 16 bytes more are 16 MB.
        assert!(size_of::<Decoder>() <= 16, "{} bytes", size_of::<Decoder>());
        assert!(size_of::<Partial>() <= 112, "{} bytes", size_of::<Partial>());
    }
}
