//! permessage-deflate, outbound: raw deflate messages, with context takeover or each alone.
//!
//! Owns        `DeflateCompressor`, a connection's context; `BodyDeflater`, a thread's contexts for single bodies.
//! Doors       `StreamCompressor::deflate` for connections; `BodyDeflater` through `prepared`.
//! Invariants  D1 a message ends in a flush without its last four bytes, as RFC 7692 §7.2.1 requires. D2 only data that
//!             is passed to `compress` enters the window: uncompressed messages do not. D3 no distance exceeds the
//!             negotiated window, not even one of 256 bytes (test `trap_1_window_of_256_bytes`).
//! Limits      contexts by `ZlibParams`; none before the first `compress`.
//! Not here    frames (prepared, the partition), messages of clients (inflate).     Spec  RFC 7692 §7.2.

use super::guarded;
use super::zlib::{ZlibParams, write};
use super::zlib_sys::{Flush, ZStream};
use crate::CodecError;

/// End of a flush, which messages omit.
pub(super) const FLUSH_TAIL: [u8; 4] = [0x00, 0x00, 0xff, 0xff];

/// zlib has no windows of `2^8`. With `2^9` its matches reach back at most `512 - 262` bytes, so it serves for both.
const WINDOW_BITS_MIN: u8 = 9;

/// The compressing end of a connection that agreed on permessage-deflate.
#[derive(Debug)]
pub struct DeflateCompressor {
    params: ZlibParams,
    /// Made by the first `compress`.
    stream: Option<ZStream>,
    broken: bool,
}

impl DeflateCompressor {
    /// A compressor for a connection whose window is `2^window_bits`, 8 to 15. `params` may make it
    /// smaller, not larger.
    ///
    /// # Errors
    /// [`CodecError::Param`].
    pub fn new(params: ZlibParams, window_bits: u8) -> Result<Self, CodecError> {
        params.validate()?;
        super::check_param("deflate window_bits", window_bits.into(), 8, 15)?;
        let window_bits = params.window_bits.min(window_bits).max(WINDOW_BITS_MIN);
        Ok(Self { params: ZlibParams { window_bits, ..params }, stream: None, broken: false })
    }

    /// Appends one message, made of `parts`; it may refer to earlier ones.
    ///
    /// # Errors
    /// As [`StreamCompressor::compress`](super::StreamCompressor::compress).
    pub fn compress(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let Self { params, stream, broken } = self;
        guarded(broken, out, |out| {
            let Some(last) = parts.iter().rposition(|part| !part.is_empty()) else {
                // RFC 7692 §7.2.3.6: the header of an empty stored block. zlib has nothing to flush.
                out.push(0);
                return Ok(());
            };
            let stream = match stream {
                Some(stream) => stream,
                None => stream.insert(ZStream::deflate_raw(params.level, params.window_bits, params.mem_level)?),
            };
            for part in &parts[..last] {
                write(stream, part, out, Flush::No)?;
            }
            write(stream, parts[last], out, Flush::Sync)?;
            if !out.ends_with(&FLUSH_TAIL) {
                return Err(CodecError::Broken);
            }
            out.truncate(out.len() - FLUSH_TAIL.len());
            Ok(())
        })
    }

    /// As `compress`, but self-contained: neither this message nor later ones refer to others across it.
    ///
    /// # Errors
    /// As `compress`.
    pub fn compress_alone(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), CodecError> {
        if let Some(stream) = &mut self.stream {
            stream.reset();
        }
        self.compress(parts, out)
    }

    /// Window of its context, as the exponent of 2.
    pub(super) fn window_bits(&self) -> u8 {
        self.params.window_bits
    }

    /// Memory the context holds; none before the first `compress`.
    pub fn memory_bytes(&self) -> usize {
        self.stream.as_ref().map_or(0, ZStream::memory_bytes)
    }
}

/// Window of a message that is compressed once for many connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharedWindow {
    /// 32 KiB, for connections with the largest window: nearly all.
    Full,
    /// 250 bytes, for all smaller windows: shared bytes must suit the smallest.
    Least,
}

impl SharedWindow {
    /// How many there are.
    pub(crate) const COUNT: usize = 2;

    /// The shared window for a connection whose window is `2^window_bits`.
    pub fn of(window_bits: u8) -> Self {
        if window_bits < 15 { Self::Least } else { Self::Full }
    }

    fn window_bits(self) -> u8 {
        match self {
            Self::Full => 15,
            Self::Least => WINDOW_BITS_MIN,
        }
    }
}

/// Compresses self-contained messages, with reusable contexts: one per window, created when first used; the larger
/// takes 270 KB. One per thread, not per connection.
#[derive(Debug)]
pub struct BodyDeflater {
    contexts: [DeflateCompressor; SharedWindow::COUNT],
    compressed_count: u64,
}

impl Default for BodyDeflater {
    fn default() -> Self {
        Self::new(ZlibParams::default()).expect("the default parameters are in their ranges")
    }
}

impl BodyDeflater {
    /// Uses the effort and table sizes of `params`; its window has no effect.
    ///
    /// # Errors
    /// [`CodecError::Param`].
    pub fn new(params: ZlibParams) -> Result<Self, CodecError> {
        let params = ZlibParams { window_bits: 15, ..params };
        let context = |window: SharedWindow| DeflateCompressor::new(params, window.window_bits());
        Ok(Self { contexts: [context(SharedWindow::Full)?, context(SharedWindow::Least)?], compressed_count: 0 })
    }

    /// How many messages it has compressed.
    pub fn compressed_count(&self) -> u64 {
        self.compressed_count
    }

    /// Memory the contexts hold.
    pub fn memory_bytes(&self) -> usize {
        self.contexts.iter().map(DeflateCompressor::memory_bytes).sum()
    }

    /// Appends a self-contained message, as [`DeflateCompressor::compress_alone`].
    ///
    /// # Errors
    /// As there. The next message starts with a clean state.
    pub fn compress(&mut self, window: SharedWindow, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.compressed_count += 1;
        let context = &mut self.contexts[window as usize];
        let result = context.compress_alone(parts, out);
        if result.is_err() {
            // A new context: no later message depends on the broken one.
            (context.stream, context.broken) = (None, false);
        }
        result
    }
}
