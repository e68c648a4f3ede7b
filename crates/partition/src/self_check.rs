//! Self-check: some connections have every message decoded before it is sent, as their client would.
//!
//! Owns        `SelfCheck`, the choice of connections and the results of a partition; `Check`, the decoder of one such
//!             connection.
//! Not here    the consequence of a mismatch: `stream_codec`.

use guildhall_codec::{CodecError, Dictionary, StreamDecompressor};
use guildhall_shared_match::{Container, ZSTD_WINDOW_LOG};
use std::num::NonZeroU32;

/// Decodes a connection's messages as its client would, and compares.
#[derive(Debug)]
pub struct Check {
    reader: StreamDecompressor,
    container: Option<Container>,
    is_begun: bool,
    read: Vec<u8>,
}

/// The zlib header that decoders expect, and the flush that permessage-deflate leaves out.
const ZLIB_HEADER: &[u8] = &[0x78, 0x9C];
const FLUSH: &[u8] = &[0x00, 0x00, 0xFF, 0xFF];

impl Check {
    /// None if there is no memory for a decoder.
    pub fn new(container: Option<Container>, dictionary: Option<&Dictionary>) -> Option<Box<Self>> {
        let reader = match (container, dictionary) {
            (None, None) => StreamDecompressor::zstd(ZSTD_WINDOW_LOG),
            (None, Some(dictionary)) => StreamDecompressor::zstd_with(ZSTD_WINDOW_LOG, dictionary),
            (Some(_), _) => StreamDecompressor::zlib(),
        };
        Some(Box::new(Self { reader: reader.ok()?, container, is_begun: false, read: Vec::new() }))
    }

    /// Heap memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.reader.memory_bytes()
    }

    /// Decodes the bytes that are about to be sent, and compares them with the message.
    pub fn read(&mut self, wire: &[u8], message: &[u8]) -> Result<(), CodecError> {
        self.read.clear();
        let is_bare = self.container == Some(Container::PerMessage);
        let header = if is_bare && !self.is_begun { ZLIB_HEADER } else { &[] };
        self.is_begun = true;
        for piece in [header, wire, if is_bare { FLUSH } else { &[] }] {
            let room = message.len().saturating_sub(self.read.len());
            self.reader.decompress(piece, &mut self.read, room)?;
        }
        if self.read == message { Ok(()) } else { Err(CodecError::Corrupt) }
    }
}

/// Results of the self-check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Messages of checked connections that were read back.
    pub messages_total: u64,
    /// Of these, messages that decoded to other bytes. After the first, new connections get library contexts.
    pub mismatches_total: u64,
}

/// The self-check of a partition's streams.
#[derive(Debug, Default)]
pub struct SelfCheck {
    /// One of this many connections is checked. None: no connection.
    one_in: Option<NonZeroU32>,
    streams_total: u32,
    results: Checked,
    /// Number of messages after which one is corrupted, for tests.
    spoils_after: Option<u32>,
}

impl SelfCheck {
    /// Changes the share of new connections that are checked.
    pub fn set_one_in(&mut self, one_in: Option<NonZeroU32>) {
        self.one_in = one_in;
    }

    /// Results so far.
    pub fn results(&self) -> Checked {
        self.results
    }

    /// Whether a message did not decode to its source.
    pub fn has_failed(&self) -> bool {
        self.results.mismatches_total > 0
    }

    /// A stream begins. Returns its check, if it is one of those that are checked.
    pub fn begin(&mut self, container: Option<Container>, dictionary: Option<&Dictionary>) -> Option<Box<Check>> {
        let is_checked = self.one_in.is_some_and(|n| self.streams_total.is_multiple_of(n.get()));
        self.streams_total = self.streams_total.wrapping_add(1);
        if is_checked { Check::new(container, dictionary) } else { None }
    }

    /// Decodes a message that is about to be sent, and compares.
    ///
    /// # Errors
    /// [`CodecError::Corrupt`]: it does not decode to its source.
    pub fn read(&mut self, check: &mut Check, wire: &[u8], message: &[u8]) -> Result<(), CodecError> {
        self.results.messages_total += 1;
        check.read(wire, message).map_err(|_| {
            self.results.mismatches_total += 1;
            CodecError::Corrupt
        })
    }

    /// Corrupts one message after `after` others, as a fault in the codec would.
    pub fn spoil_after(&mut self, after: u32) {
        self.spoils_after = Some(after);
    }

    /// Corrupts a compressed message, if a test has enabled it.
    pub fn spoil(&mut self, wire: &mut [u8]) {
        let Some(after) = self.spoils_after else { return };
        self.spoils_after = after.checked_sub(1);
        if let Some(last) = wire.last_mut().filter(|_| after == 0) {
            *last ^= 0x10;
        }
    }
}
