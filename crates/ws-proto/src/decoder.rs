//! Decoder: bytes as they arrive become messages and control frames.
//!
//! Owns        the place in the byte stream: a header cut off, a payload cut off, a fragmented message.
//! Doors       `Decoder::handle` takes what the socket gave; `Events::poll` gives what it meant.
//! Invariants  D1 nothing unfinished, no heap. D2 a frame that lies whole in the input is not copied.
//!             D3 any cut of the input gives the same events and the same error. D4 after a close frame or
//!             an error, all further input is dropped unread. (tests/it: `memory`, `split`, `close`)
//! Limits      a message holds `message_bytes_max`, checked from the header; unfinished ones cost at most
//!             twice what arrived, and never more than the limit (plus ~100 bytes of state).
//! Not here    inflate: compressed messages are handed on as they are.     Spec  RFC 6455 §5, §7, §8.1.

use crate::header::{Header, PARSED_BYTES_MAX, Rules};
use crate::{CONTROL_BYTES_MAX, Opcode, Role, WsError, close_code_is_valid, mask};
use std::ops::Range;

/// First allocation for an unfinished message, unless the limit is lower: most inbound messages fit.
const FIRST_PAYLOAD_BYTES: usize = 128;

/// What the peer may make us hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of one message, over all its fragments, as they come on the wire (compressed, if so).
    pub message_bytes_max: u32,
}

/// Something whole that the peer said. Borrows from the input, or from the decoder if it came in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A text message.
    Text(&'a str),
    /// A binary message.
    Binary(&'a [u8]),
    /// A message with RSV1 set, still compressed and so not checked for UTF-8. Never unless
    /// [`Decoder::set_rsv1_allowed`] was called. `Limits` has only bounded what came in: bound the output too.
    Compressed {
        /// Whether it is text once inflated; else bytes.
        text: bool,
        /// The compressed payload.
        payload: &'a [u8],
    },
    /// Wants a pong with the same payload, at most 125 bytes.
    Ping(&'a [u8]),
    /// An answer to our ping, or unasked-for.
    Pong(&'a [u8]),
    /// The peer closes. Nothing after this is read.
    Close {
        /// A valid code, if the peer gave one.
        code: Option<u16>,
        /// At most 123 bytes; empty without a code.
        reason: &'a str,
    },
}

/// One direction of one connection. 16 bytes; heap only while something is unfinished.
#[derive(Debug)]
pub struct Decoder {
    partial: Option<Box<Partial>>,
    message_bytes_max: u32,
    role: Role,
    rsv1_allowed: bool,
    done: bool,
}

/// What is unfinished at the end of the input.
#[derive(Debug, Default)]
struct Partial {
    at: At,
    /// The data message that is incomplete: in the middle of a frame, between its fragments, or both.
    message: Option<Message>,
    /// Payload so far of the control frame at `at`.
    control: Vec<u8>,
}

/// Where in the byte stream the input ended.
#[derive(Debug)]
enum At {
    /// In a header of which `len` bytes were seen; 0 between two fragments.
    Header { bytes: [u8; PARSED_BYTES_MAX], len: u8 },
    /// In a payload of which `got_bytes` were seen.
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
    /// How much of the payload is known to be UTF-8; the rest is the beginning of one character.
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
    /// What an event from this frame will be; for a continuation, what the message began as.
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

/// An event, before its bytes are borrowed.
struct Ready {
    kind: Kind,
    place: Place,
}

enum Place {
    Input(Range<usize>),
    Held,
}

impl Decoder {
    /// A decoder for a connection whose handshake has just ended.
    #[must_use]
    pub fn new(role: Role, limits: Limits) -> Self {
        let Limits { message_bytes_max } = limits;
        Self { partial: None, message_bytes_max, role, rsv1_allowed: false, done: false }
    }

    /// Changes the limits from the next frame header on. A frame whose header was accepted already may
    /// finish; a fragmented message already over the new limit fails at its next fragment.
    pub fn set_limits(&mut self, limits: Limits) {
        self.message_bytes_max = limits.message_bytes_max;
    }

    /// The limits in force.
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

    /// Whether a close frame or an error has ended the stream. Further input is dropped.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Bytes this decoder holds on the heap: 0 unless a frame or a fragmented message is unfinished.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.partial.as_ref().map_or(0, |partial| {
            let message_bytes = partial.message.as_ref().map_or(0, |message| message.payload.capacity());
            size_of::<Partial>() + message_bytes + partial.control.capacity()
        })
    }

    /// Takes what arrived. Payloads are unmasked where they lie, so `input` is scratch afterwards.
    ///
    /// Call [`Events::poll`] until it gives `None`. Whoever stops earlier must hand the last
    /// [`Events::unread_bytes`] of `input` in again, or the stream is broken.
    pub fn handle<'a>(&'a mut self, input: &'a mut [u8]) -> Events<'a> {
        Events { decoder: self, input, used: 0, held: Vec::new() }
    }

    fn finish(&mut self) {
        self.done = true;
        self.partial = None;
    }

    /// Moves through `input` from `used` to the end of the next whole message or control frame, or to the
    /// end of the input. What had to be collected on the heap is moved to `held`.
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
                // With the last fragment the size is known; before, only its limit is.
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

    /// The frame we are in and how much of its payload was seen; reads the next header if between frames.
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
        // Less than a header, so all of the input is in `bytes` now.
        *used = input.len();
        if len > 0 {
            self.partial.get_or_insert_default().at = At::Header { bytes, len: len as u8 };
        }
        Ok(None)
    }

    /// A frame has ended: keep only an open message.
    fn at_boundary(&mut self) {
        match &mut self.partial {
            Some(partial) if partial.message.is_some() => partial.at = At::default(),
            partial => *partial = None,
        }
    }
}

impl Message {
    /// Adds what arrived. The message will not grow past `bytes_max`.
    fn append(&mut self, chunk: &[u8], bytes_max: usize) -> Result<(), WsError> {
        let len = self.payload.len() + chunk.len();
        if len > self.payload.capacity() {
            // Twice what we have, so that many small pieces stay cheap.
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

/// The events in one piece of input, from [`Decoder::handle`].
#[must_use = "the stream is broken unless the events are polled until there are none"]
#[derive(Debug)]
pub struct Events<'a> {
    decoder: &'a mut Decoder,
    input: &'a mut [u8],
    used: usize,
    /// The payload of the last event, if it was collected from pieces.
    held: Vec<u8>,
}

impl Events<'_> {
    /// The next event; `None` when the input is used up, or after a close frame.
    ///
    /// # Errors
    /// What the peer did wrong. The decoder is done then: later input is dropped and gives `None`.
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
        // One per connection: at a million connections each 16 bytes more are 16 MB.
        assert!(size_of::<Decoder>() <= 16, "{} bytes", size_of::<Decoder>());
        assert!(size_of::<Partial>() <= 112, "{} bytes", size_of::<Partial>());
    }
}
