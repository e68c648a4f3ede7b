//! permessage-deflate, inbound: compressed messages of clients, bounded.
//!
//! Owns        `MessageInflater`, one for all connections of a thread; `InflateHistory`, the bytes to which messages of
//!             a client with context takeover may refer.
//! Invariants  I1 a message inflates to at most `bytes_max` bytes, after the last call too. I2 between messages a
//!             connection has only its history, and without takeover nothing. I3 a final block ends neither the history
//!             nor the message.
//! Limits      `bytes_max` per message; a history has at most the negotiated window, and at most the bytes received.
//! Not here    frames, fragments, RSV1: ws-proto.     Spec  RFC 7692 §7.2.2.

use super::decompress_room;
use super::deflate::FLUSH_TAIL;
use super::zlib_sys::{Flush, ZStream};
use crate::CodecError;

/// Largest distance in deflate.
const WINDOW_BYTES_MAX: usize = 32 << 10;

/// Inflates messages of any number of connections, one message at a time.
#[derive(Debug)]
pub struct MessageInflater {
    stream: ZStream,
}

impl MessageInflater {
    /// Some 7 KiB, and 32 KiB from the first longer message on.
    ///
    /// # Errors
    /// [`CodecError::Memory`].
    pub fn new() -> Result<Self, CodecError> {
        Ok(Self { stream: ZStream::inflate_raw()? })
    }

    /// Appends the inflated `payload`, all fragments of one message: at most `bytes_max` bytes. `history` is that of
    /// the client, empty without context takeover.
    ///
    /// # Errors
    /// [`CodecError::TooLarge`]; [`CodecError::Corrupt`] for input that is not deflate, or is truncated inside a block.
    /// `out` is then unchanged. The next message, of any connection, starts with a clean state.
    pub fn inflate(
        &mut self,
        history: &InflateHistory,
        payload: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<(), CodecError> {
        let start = out.len();
        let result = self.try_inflate(&history.bytes, payload, out, bytes_max);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    fn try_inflate(
        &mut self,
        history: &[u8],
        payload: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<(), CodecError> {
        if payload.is_empty() {
            // Not valid by RFC 7692 §7.2.3.6, but the meaning is unambiguous.
            return Ok(());
        }
        let start = out.len();
        self.begin(history)?;
        let mut has_ended = false;
        for mut input in [payload, &FLUSH_TAIL] {
            // After a final block that fills its last byte there is no flush to complete.
            while !input.is_empty() && (!has_ended || input != FLUSH_TAIL) {
                if std::mem::take(&mut has_ended) {
                    self.begin_again(history, &out[start..])?;
                }
                (has_ended, input) = self.feed(input, out, start, bytes_max)?;
            }
        }
        if has_ended || self.stream.is_between_blocks() { Ok(()) } else { Err(CodecError::Corrupt) }
    }

    /// Reads to the end of the input or of a final block; returns the input behind it.
    fn feed<'a>(
        &mut self,
        mut input: &'a [u8],
        out: &mut Vec<u8>,
        start: usize,
        bytes_max: usize,
    ) -> Result<(bool, &'a [u8]), CodecError> {
        loop {
            let room = decompress_room(input.len(), out.len() - start, bytes_max);
            let step = self.stream.step(input, out, room, Flush::Sync)?;
            input = &input[step.consumed..];
            if out.len() - start > bytes_max {
                return Err(CodecError::TooLarge { bytes_max });
            }
            if step.is_end || !step.is_full {
                return match (step.is_end, input) {
                    (true, rest) => Ok((true, rest)),
                    (false, []) => Ok((false, &[])),
                    (false, _) => Err(CodecError::Corrupt),
                };
            }
        }
    }

    fn begin(&mut self, history: &[u8]) -> Result<(), CodecError> {
        self.stream.reset();
        if history.is_empty() { Ok(()) } else { self.stream.set_dictionary(history) }
    }

    /// After a final block: output so far may still be referenced.
    fn begin_again(&mut self, history: &[u8], produced: &[u8]) -> Result<(), CodecError> {
        let produced = &produced[produced.len().saturating_sub(WINDOW_BYTES_MAX)..];
        let older = &history[(history.len() + produced.len()).saturating_sub(WINDOW_BYTES_MAX).min(history.len())..];
        self.begin(&[older, produced].concat())
    }

    /// Memory it holds.
    pub fn memory_bytes(&self) -> usize {
        self.stream.memory_bytes()
    }
}

/// The last bytes of a client's inflated messages, as far back as later messages may refer.
#[derive(Debug, Default)]
pub struct InflateHistory {
    bytes: Vec<u8>,
}

impl InflateHistory {
    /// For clients that compress each message alone.
    pub const NONE: Self = Self { bytes: Vec::new() };

    /// The history of a client that another process has served; of more bytes than any window the last ones.
    #[must_use]
    pub fn restore(mut bytes: Vec<u8>) -> Self {
        bytes.drain(..bytes.len().saturating_sub(WINDOW_BYTES_MAX));
        Self { bytes }
    }

    /// The bytes to which the next message may refer.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends an inflated message; at most `2^window_bits` bytes are stored.
    pub fn remember(&mut self, message: &[u8], window_bits: u8) {
        let window_bytes = 1usize << window_bits;
        let message = &message[message.len().saturating_sub(window_bytes)..];
        let too_many = (self.bytes.len() + message.len()).saturating_sub(window_bytes);
        self.bytes.drain(..too_many);
        self.bytes.reserve_exact(message.len());
        self.bytes.extend_from_slice(message);
    }

    /// Memory it holds.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}
