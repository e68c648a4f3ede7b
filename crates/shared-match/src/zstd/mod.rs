//! Zstd: one never-ending frame of compressed blocks whose tables are sent once.
//!
//! Owns        the bytes of frame headers, blocks, literals and sequences.
//! Invariants  Z1 tables are repeated only after this stream carried them, whatever a dictionary contains. Z2 a
//!             repeated offset was used in the same message, because earlier ones in the stream are unknown.
//! Spec        RFC 8878 §3.1.1.

pub mod codes;
pub mod encoded_parse;
pub mod section;
mod sequence;
pub mod standalone;

pub use encoded_parse::EncodedParse;

use crate::{
    search::dictionary::{Dictionary, USED_BYTES},
    stream::state::StreamState,
};
use std::sync::Arc;

/// Logarithm of how many bytes a decoder of a [`ZstdStream`] keeps. It costs the server nothing; 2 MiB are what clients
/// have to spare.
pub const WINDOW_LOG: u32 = 21;
/// Offsets are at most this.
pub const WINDOW_BYTES: u32 = 1 << WINDOW_LOG;
/// Magic number, a header without content size, checksum or dictionary, and the window.
const FRAME_HEADER: [u8; 6] = [0x28, 0xB5, 0x2F, 0xFD, 0, (WINDOW_LOG as u8 - 10) << 3];
/// Of the byte behind the magic number: a dictionary's number follows the window, in four bytes.
const WITH_DICTIONARY: u8 = 3;
/// Most bytes that one block decodes to.
pub const BLOCK_BYTES_MAX: usize = 128 << 10;

/// The sending end of one `zstd-stream` connection.
#[derive(Clone, Debug, Default)]
pub struct ZstdStream {
    pub(crate) state: StreamState,
    pub(crate) decoder: ZstdDecoder,
    /// Dictionary of the stream, while it is worth referring to.
    pub(crate) dictionary: Option<Arc<Dictionary>>,
}

/// State of the decoder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZstdDecoder {
    /// Offsets are at most this.
    window: u32,
    is_begun: bool,
    /// The trained code of literals.
    has_bytes_table: bool,
    /// The trained codes of sequences.
    has_sequence_tables: bool,
    /// Of the dictionary that the stream begins with; 0: none.
    dictionary_number: u32,
}

impl Default for ZstdDecoder {
    fn default() -> Self {
        Self {
            window: WINDOW_BYTES,
            is_begun: false,
            has_bytes_table: false,
            has_sequence_tables: false,
            dictionary_number: 0,
        }
    }
}

impl ZstdDecoder {
    /// How far back this stream refers.
    #[inline]
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Puts the frame header in front of the first block.
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if !self.is_begun {
            self.is_begun = true;
            let start = out.len();
            out.extend_from_slice(&FRAME_HEADER);
            if self.dictionary_number > 0 {
                out[start + 4] = WITH_DICTIONARY;
                out.extend_from_slice(&self.dictionary_number.to_le_bytes());
            }
        }
    }
}

impl ZstdStream {
    /// A stream for a client that has this dictionary. A decoder without it refuses the stream by the number.
    #[must_use]
    pub fn with_dictionary(dictionary: Arc<Dictionary>) -> Self {
        let decoder = ZstdDecoder { dictionary_number: dictionary.number(), ..ZstdDecoder::default() };
        Self { decoder, dictionary: Some(dictionary), ..Self::default() }
    }

    /// A stream that a library context has started, with a window of `2^WINDOW_LOG` bytes or more in its header, and
    /// that is continued here. The caller reports what the context writes with `follow` and `Matcher::follow_zstd`.
    #[must_use]
    pub fn continued() -> Self {
        let decoder = ZstdDecoder { is_begun: true, ..ZstdDecoder::default() };
        Self { decoder, ..Self::default() }
    }

    /// As `continued`, with a window of `2^window_log` bytes in the header. Whatever wrote the stream so far, it is
    /// continued without references to it. None: blocks of this size have no room in the window.
    #[must_use]
    pub fn continued_within(window_log: u8) -> Option<Self> {
        let window = 1u32.checked_shl(window_log.into())?.min(WINDOW_BYTES);
        if (window as usize) < BLOCK_BYTES_MAX {
            return None;
        }
        let mut stream = Self::continued();
        stream.decoder.window = window;
        Some(stream)
    }

    /// Window of the stream, as the exponent of 2.
    #[must_use]
    pub fn window_log(&self) -> u8 {
        self.decoder.window.ilog2() as u8
    }

    /// A library context wrote a message of `bytes` bytes that no other connection gets.
    pub fn follow(&mut self, bytes: usize) {
        self.state.advance(bytes);
    }

    /// Whether a message may refer to a dictionary. Must be called before any message is written.
    #[inline]
    pub(crate) fn has_dictionary(&mut self) -> bool {
        self.dictionary.is_some() && self.keeps_dictionary()
    }

    #[cold]
    fn keeps_dictionary(&mut self) -> bool {
        if self.state.position() > USED_BYTES {
            self.dictionary = None;
        }
        self.dictionary.is_some()
    }

    /// Dictionary that the next message may refer to.
    pub(crate) fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.dictionary.as_ref()
    }

    /// Appends a message uncompressed, in the stream's format: for clients before IDENTIFY.
    pub fn store(&mut self, message: &[u8], out: &mut Vec<u8>) {
        self.has_dictionary();
        self.decoder.begin(out);
        raw_blocks(message, out);
        self.state.advance(message.len());
    }

    /// The stream goes on with another matcher, which numbers its bodies otherwise: none of those that were sent can be
    /// referred to any more. A dictionary can.
    pub fn leave_matcher(&mut self) {
        self.state.leave_matcher();
    }

    /// Prefetches the memory that a matcher reads when it writes the newest body to this stream. Called some
    /// connections ahead, it hides the latency. Reads the struct itself.
    #[inline]
    pub fn prefetch(&self) {
        self.state.prefetch();
    }

    /// Heap it holds.
    pub fn heap_bytes(&self) -> usize {
        self.state.heap_bytes()
    }
}

/// Header of a compressed block of `bytes` bytes, not the last.
#[inline]
pub(crate) fn block_header(bytes: usize) -> [u8; 3] {
    let [a, b, c, _] = (bytes as u32 * 8 + 2 * 2).to_le_bytes();
    [a, b, c]
}

/// Appends content as it is, in blocks.
pub(crate) fn raw_blocks(content: &[u8], out: &mut Vec<u8>) {
    for piece in content.chunks(BLOCK_BYTES_MAX) {
        out.extend_from_slice(&(piece.len() as u32 * 8).to_le_bytes()[..3]);
        out.extend_from_slice(piece);
    }
}
