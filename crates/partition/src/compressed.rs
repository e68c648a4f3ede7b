//! Compressed messages of clients with permessage-deflate.
//!
//! Owns        the path of a compressed message to its payload: `Core::handle_compressed`.
//! Invariants  F3 a client's message inflates to at most its limit, and is handled only then.
//! Limits      `message_bytes_max`; with takeover a client's history has at most its window, and no more than it sent.
//! Not here    the form of dispatches (`deflate`), the inflater (`inflate`).     Spec  RFC 7692 §7.2.

use crate::{conn::Phase, core::Core, transport::Transport, turn::Turn};
use guildhall_codec::CodecError;
use guildhall_model::{AccountKind, CloseCode, SessionFate};
use guildhall_stdx::SlotKey;
use guildhall_ws_proto::Opcode;

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
