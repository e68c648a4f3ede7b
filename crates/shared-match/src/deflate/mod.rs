//! Deflate: fixed-code blocks, each message ended by a flush to a byte.
//!
//! Owns        the bytes of zlib headers, blocks and flushes.
//! Invariants  D1 after each message a reader that has all bytes so far can decode it to its last byte.
//! Spec        RFC 1951, RFC 1950 §2.2 (header), RFC 7692 §7.2.1 (how a message ends in permessage-deflate).

pub mod code;
mod dynamic_codes;
pub mod encoded_parse;
pub mod standalone;
pub mod symbols;

pub use encoded_parse::EncodedParse;

use crate::{entropy::bits::BitWriter, stream::state::StreamState};

/// Longest match.
pub const MATCH_BYTES_MAX: u32 = 258;
/// The largest window, as the logarithm that is agreed on.
const WINDOW_BITS_MAX: u8 = 15;
/// The largest window.
pub const WINDOW_BYTES_MAX: u32 = 1 << WINDOW_BITS_MAX;
/// A header for the largest window.
const ZLIB_HEADER: [u8; 2] = [0x78, 0x9C];

/// Format around the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// `zlib-stream`: a zlib header, and every message ends with an empty stored block.
    Zlib,
    /// permessage-deflate with context takeover: no header, and the four last bytes of that block are left out.
    PerMessage,
}

/// The sending end of one connection whose stream is deflate.
#[derive(Clone, Debug)]
pub struct DeflateStream {
    pub(crate) state: StreamState,
    pub(crate) decoder: DeflateDecoder,
}

/// State of the decoder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeflateDecoder {
    container: Container,
    is_begun: bool,
    window: u32,
}

impl DeflateStream {
    /// A stream that refers back `2^window_bits` bytes at most, 8 to 15; others are taken for the nearest of these.
    pub fn new(container: Container, window_bits: u8) -> Self {
        let window = 1 << window_bits.clamp(8, WINDOW_BITS_MAX);
        Self { state: StreamState::default(), decoder: DeflateDecoder { container, is_begun: false, window } }
    }

    /// A stream that a library context has started and that is continued here. The caller reports what the context
    /// writes with `follow` and `Matcher::follow_deflate`.
    #[must_use]
    pub fn continued(container: Container, window_bits: u8) -> Self {
        let mut stream = Self::new(container, window_bits);
        stream.decoder.is_begun = true;
        stream
    }

    /// A library context wrote a message of `bytes` bytes that no other connection gets.
    pub fn follow(&mut self, bytes: usize) {
        self.state.advance(bytes);
    }

    /// Window of the stream, as the exponent of 2.
    #[must_use]
    pub fn window_bits(&self) -> u8 {
        self.decoder.window.ilog2() as u8
    }

    /// Appends a message uncompressed, in the stream's format: for clients before IDENTIFY.
    pub fn store(&mut self, message: &[u8], out: &mut Vec<u8>) {
        standalone::store(&mut self.decoder, message, out);
        self.state.advance(message.len());
    }

    /// The stream goes on with another matcher, which numbers its bodies otherwise: none of those that were sent can be
    /// referred to any more.
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

impl DeflateDecoder {
    /// How far back this stream refers.
    #[inline]
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Puts the container's header in front of the first block.
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if !self.is_begun {
            self.is_begun = true;
            if self.container == Container::Zlib {
                out.extend_from_slice(&ZLIB_HEADER);
            }
        }
    }

    /// Ends a message: an empty stored block brings it to a whole byte.
    #[inline]
    pub fn end(&self, writer: &mut BitWriter<'_>) {
        let header = 3 + writer.padding_behind(3);
        match self.container {
            Container::Zlib => writer.put(0xFFFF_0000 << header, header + 32),
            Container::PerMessage => writer.put(0, header),
        }
    }
}
