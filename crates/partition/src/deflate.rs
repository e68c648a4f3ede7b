//! permessage-deflate on connections: the form in which dispatches are written, and the inflation of
//! compressed messages.
//!
//! Owns        `Form`, and the path of a compressed message to its payload.
//! Invariants  F1 on a connection with a context (takeover) every dispatch goes through the context and everything
//!             else is uncompressed, so that the context and the client's history agree. F2 without takeover a
//!             connection has no state in either direction. F3 a client's message inflates to at most its limit, and
//!             is handled only then.
//! Limits      `message_bytes_max`; with takeover a client's history has at most its window, and no more than it sent.
//! Not here    negotiation (ws-proto), layout of prepared frames (codec).     Spec  RFC 7692 §6, §7.2.

use crate::{conn::Phase, core::Core, transport::Transport, turn::Turn};
use guildhall_codec::{BodyDeflater, CodecError, DispatchFrame, FrameParts, Framing, SharedWindow};
use guildhall_model::{AccountKind, CloseCode, SessionFate};
use guildhall_stdx::SlotKey;
use guildhall_ws_proto::Opcode;

/// Form of dispatches on connections without a context of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Uncompressed.
    Plain(Framing),
    /// Compressed once for all recipients.
    Prepared(SharedWindow),
}

impl Form {
    /// Whether bodies are compressed in it.
    pub fn compresses(self) -> bool {
        matches!(self, Self::Prepared(_))
    }

    /// Compresses the shared body, unless that is done.
    pub fn prepare(self, frame: &mut DispatchFrame, deflater: &mut BodyDeflater) {
        if let Self::Prepared(window) = self {
            frame.prepare(window, deflater);
        }
    }

    /// The whole frame for one recipient, in place.
    pub fn write<'f>(self, frame: &'f mut DispatchFrame, seq: u64, deflater: &mut BodyDeflater) -> &'f [u8] {
        self.prepare(frame, deflater);
        match self {
            Self::Plain(framing) => frame.write_for(seq, framing),
            Self::Prepared(window) => frame.write_prepared(seq, window),
        }
    }

    /// Bytes of the uncompressed payload in a frame of this form. A plain frame has it behind its header, so that its
    /// size need not be made again from the envelope.
    pub fn raw_bytes(self, frame: &DispatchFrame, seq: u64, frame_bytes: usize) -> usize {
        match self {
            Self::Plain(Framing::WebSocket { .. }) => frame_bytes - header_bytes(frame_bytes),
            Self::Plain(Framing::None) | Self::Prepared(_) => frame.payload_bytes(seq),
        }
    }

    /// The frame in pieces, once it is prepared.
    pub fn parts(self, frame: &DispatchFrame, seq: u64) -> FrameParts<'_> {
        match self {
            Self::Plain(framing) => frame.parts(seq, framing),
            Self::Prepared(window) => frame.prepared_parts(seq, window),
        }
    }
}

/// Bytes of the header of an unmasked WebSocket frame, from those of the whole frame.
const fn header_bytes(frame_bytes: usize) -> usize {
    match frame_bytes {
        0..=127 => 2,
        128..=65_539 => 4,
        _ => 10,
    }
}

/// Fault of a compressed message.
enum Fault {
    /// It inflates to more than the limit.
    TooLarge,
    /// It is not deflate, or a text frame without valid UTF-8.
    Garbled,
    /// No memory is left for an inflater.
    Memory,
}

impl Core {
    /// Inflates a message and passes it to `handle_payload`.
    pub fn handle_compressed(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        opcode: Opcode,
        payload: &[u8],
    ) {
        // The rate limit comes before the work.
        if !self.admit_inbound(turn, key) {
            return;
        }
        let mut inflated = self.inflate.take_buffer();
        match self.inflate_message(key, opcode, payload, &mut inflated) {
            Ok(()) => self.handle_payload(turn, key, &inflated),
            // As without compression: a message that is too large is a fault of the gateway protocol,
            // others are below it.
            Err(Fault::TooLarge) => self.close(turn, key, CloseCode::DecodeError),
            Err(Fault::Garbled) => {
                let reason = "a compressed message cannot be read";
                self.close_websocket(turn, key, Some(1007), reason, SessionFate::Keep);
            }
            Err(Fault::Memory) => self.close(turn, key, CloseCode::UnknownError),
        }
        self.inflate.put_buffer(inflated);
    }

    fn inflate_message(
        &mut self,
        key: SlotKey,
        opcode: Opcode,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let bytes_max = self.message_bytes_max(key);
        let inflater = self.inflate.inflater().map_err(|_| Fault::Memory)?;
        let Some(conn) = self.conns.get_mut(key) else { return Ok(()) };
        match inflater.inflate(conn.inbox.history(), payload, out, bytes_max) {
            Ok(()) => {}
            Err(CodecError::TooLarge { .. }) => return Err(Fault::TooLarge),
            Err(CodecError::Memory) => return Err(Fault::Memory),
            Err(_) => return Err(Fault::Garbled),
        }
        if opcode == Opcode::Text && std::str::from_utf8(out).is_err() {
            return Err(Fault::Garbled);
        }
        if let Some(params) = conn.codec.deflate().filter(|params| !params.client_no_context_takeover) {
            conn.inbox.remember(out, params.client_window_bits);
        }
        Ok(())
    }

    fn message_bytes_max(&self, key: SlotKey) -> usize {
        let is_bot = match self.conns.get(key).map(|conn| &conn.phase) {
            Some(Phase::Established(session)) => {
                self.sessions.get(*session).is_some_and(|session| session.kind() == AccountKind::Bot)
            }
            _ => false,
        };
        let bytes_max = if is_bot { self.config.bot_message_bytes_max } else { self.config.user_message_bytes_max };
        bytes_max as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_ws_proto::FrameHeader;

    #[test]
    fn the_header_follows_from_the_size_of_the_frame() {
        for payload_bytes in [0, 1, 125, 126, 127, 128, 65_534, 65_535, 65_536, 65_540, 1 << 20] {
            let header = FrameHeader::new(Opcode::Text, payload_bytes);
            assert_eq!(header_bytes(header.len() + payload_bytes), header.len(), "{payload_bytes}");
        }
    }
}
