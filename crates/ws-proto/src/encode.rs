//! Encoding: frames as plain bytes that can be sent to any number of peers.
//!
//! Owns        headers of unmasked frames, control frames, and masked frames for our own client.
//! Invariants  a frame from here decodes to its input; lengths are minimal.
//! Limits      control payloads 125 bytes, hence close reasons 123.
//! Not here    randomness: the client's mask key is an argument.     Spec  RFC 6455 §5.2, §5.5.

use crate::{CONTROL_BYTES_MAX, Opcode, close_code_is_valid, mask};
use std::ops::Deref;

/// Longest header of an unmasked frame, in bytes: the room to leave in front of a payload.
pub const HEADER_BYTES_MAX: usize = 10;

/// First byte of a frame. An [`Opcode`] alone converts to a complete, uncompressed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub opcode: Opcode,
    /// The message ends with this frame.
    pub fin: bool,
    /// RSV1: the message is compressed. Only on the first frame of a message, and only if negotiated.
    pub compressed: bool,
}

impl From<Opcode> for Head {
    fn from(opcode: Opcode) -> Self {
        Self { opcode, fin: true, compressed: false }
    }
}

impl Head {
    /// A complete, compressed message.
    #[must_use]
    pub fn compressed(opcode: Opcode) -> Self {
        Self { opcode, fin: true, compressed: true }
    }

    fn byte(self) -> u8 {
        u8::from(self.fin) << 7 | u8::from(self.compressed) << 6 | self.opcode as u8
    }
}

/// Header bytes in front of an unmasked payload of `payload_bytes`: 2, 4 or 10.
#[must_use]
pub fn header_len(payload_bytes: usize) -> usize {
    match payload_bytes {
        0..=125 => 2,
        126..=0xFFFF => 4,
        _ => 10,
    }
}

/// Writes the header of an unmasked frame to the start of `out` and returns its length.
pub fn frame_header(head: impl Into<Head>, payload_bytes: usize, out: &mut [u8; HEADER_BYTES_MAX]) -> usize {
    out[0] = head.into().byte();
    let header_bytes = header_len(payload_bytes);
    match header_bytes {
        2 => out[1] = payload_bytes as u8,
        4 => {
            out[1] = 126;
            out[2..4].copy_from_slice(&(payload_bytes as u16).to_be_bytes());
        }
        _ => {
            out[1] = 127;
            out[2..10].copy_from_slice(&(payload_bytes as u64).to_be_bytes());
        }
    }
    header_bytes
}

/// The header of an unmasked frame, stored inline: at most [`HEADER_BYTES_MAX`] bytes. Dereferences to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    bytes: [u8; HEADER_BYTES_MAX],
    len: u8,
}

impl FrameHeader {
    /// The header in front of a payload of `payload_bytes`.
    #[must_use]
    pub fn new(head: impl Into<Head>, payload_bytes: usize) -> Self {
        let mut bytes = [0; HEADER_BYTES_MAX];
        let len = frame_header(head, payload_bytes, &mut bytes) as u8;
        Self { bytes, len }
    }
}

impl Deref for FrameHeader {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Writes the header of an unmasked frame to the *end* of `room` and returns its start, for payloads that are built
/// after ten spare bytes: frame = `buffer[start..]`, without moving the payload.
pub fn frame_header_before(head: impl Into<Head>, payload_bytes: usize, room: &mut [u8; HEADER_BYTES_MAX]) -> usize {
    let mut header = [0; HEADER_BYTES_MAX];
    let header_bytes = frame_header(head, payload_bytes, &mut header);
    let start = HEADER_BYTES_MAX - header_bytes;
    room[start..].copy_from_slice(&header[..header_bytes]);
    start
}

/// Appends an unmasked frame to `out`.
pub fn append_frame(head: impl Into<Head>, payload: &[u8], out: &mut Vec<u8>) {
    let mut header = [0; HEADER_BYTES_MAX];
    let header_bytes = frame_header(head, payload.len(), &mut header);
    out.reserve(header_bytes + payload.len());
    out.extend_from_slice(&header[..header_bytes]);
    out.extend_from_slice(payload);
}

/// An unmasked frame, allocated with exactly its size.
#[must_use]
pub fn frame(head: impl Into<Head>, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(header_len(payload.len()) + payload.len());
    append_frame(head, payload, &mut out);
    out
}

/// Appends a masked frame, as clients send it. `mask_key` should be unpredictable if someone else chooses the payload
/// and a cache may be on the path (RFC 6455 §10.3); tests and benches may use a counter.
pub fn append_masked_frame(head: impl Into<Head>, mask_key: [u8; 4], payload: &[u8], out: &mut Vec<u8>) {
    let mut header = [0; HEADER_BYTES_MAX];
    let header_bytes = frame_header(head, payload.len(), &mut header);
    header[1] |= 0x80;
    out.reserve(header_bytes + mask_key.len() + payload.len());
    out.extend_from_slice(&header[..header_bytes]);
    out.extend_from_slice(&mask_key);
    let start = out.len();
    out.extend_from_slice(payload);
    mask::apply(mask_key, 0, &mut out[start..]);
}

/// An unmasked control frame, stored inline: 2 to 127 bytes. Dereferences to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlFrame {
    bytes: [u8; 2 + CONTROL_BYTES_MAX],
    len: u8,
}

impl ControlFrame {
    fn new(opcode: Opcode, parts: [&[u8]; 2]) -> Self {
        let mut frame = Self { bytes: [0; 2 + CONTROL_BYTES_MAX], len: 2 };
        for part in parts {
            let start = usize::from(frame.len);
            frame.bytes[start..start + part.len()].copy_from_slice(part);
            frame.len += part.len() as u8;
        }
        frame.bytes[0] = Head::from(opcode).byte();
        frame.bytes[1] = frame.len - 2;
        frame
    }

    /// The payload; a client sends it with [`append_masked_frame`].
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self[2..]
    }
}

impl Deref for ControlFrame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// A close frame. A `reason` over 123 bytes is truncated at a character boundary. To answer a close, use its code, or
/// `None` if it had none; without a code the reason is omitted, because the format has no place for it.
///
/// # Panics
/// If `code` must not be sent; check a code from outside with [`close_code_is_valid`].
#[must_use]
pub fn close_frame(code: Option<u16>, reason: &str) -> ControlFrame {
    let Some(code) = code else { return ControlFrame::new(Opcode::Close, [&[], &[]]) };
    assert!(close_code_is_valid(code), "close code {code} must not be sent");
    let reason = &reason[..reason.floor_char_boundary(CONTROL_BYTES_MAX - 2)];
    ControlFrame::new(Opcode::Close, [&code.to_be_bytes(), reason.as_bytes()])
}

/// A ping frame.
///
/// # Panics
/// If `payload` is over [`CONTROL_BYTES_MAX`].
#[must_use]
pub fn ping(payload: &[u8]) -> ControlFrame {
    assert!(payload.len() <= CONTROL_BYTES_MAX, "ping of {} bytes", payload.len());
    ControlFrame::new(Opcode::Ping, [payload, &[]])
}

/// A pong frame. The payload of a decoded ping always fits.
///
/// # Panics
/// If `payload` is over [`CONTROL_BYTES_MAX`].
#[must_use]
pub fn pong(payload: &[u8]) -> ControlFrame {
    assert!(payload.len() <= CONTROL_BYTES_MAX, "pong of {} bytes", payload.len());
    ControlFrame::new(Opcode::Pong, [payload, &[]])
}
