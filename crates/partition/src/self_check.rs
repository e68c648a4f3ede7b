//! Self-check: some connections have every message decoded before it is sent, as their client would.
//!
//! Owns        `Check`, the decoder of one such connection, and the results of a partition.
//! Not here    which connections are checked, and what follows from a mismatch: `stream_codec`.

use guildhall_codec::{CodecError, Dictionary, StreamDecompressor};
use guildhall_shared_match::{Container, ZSTD_WINDOW_LOG};

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
