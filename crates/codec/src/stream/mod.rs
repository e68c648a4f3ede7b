//! Transport compression: one library context per connection, one flushed message at a time.
//!
//! Owns        the contexts' lifetimes and parameters, and the one-shot zlib of payload compression.
//! Doors       `StreamCompressor::compress` per message; `StreamDecompressor` for clients, tests and self-checks;
//!             `deflate_once` and `inflate_once` for `IDENTIFY.compress`.
//! Invariants  C1 after each `compress` a decoder with all bytes so far can decode that message to its last byte. C2 a
//!             context that failed produces no further byte.
//! Limits      parameter ranges in `ZlibParams` and `ZstdParams`; `bytes_max` per decompressed message.
//! Not here    shared-match streams, prepared frames, choice of a codec.     Spec
//!             docs/protocol/reference.md §2.3, §2.4.

mod deflate;
mod dictionaries;
mod dictionary;
#[expect(unsafe_code, reason = "zstd is a C library, and its safe wrapper digests dictionaries for a level only")]
mod dictionary_sys;
mod inflate;
pub(crate) mod zlib;
#[expect(unsafe_code, reason = "zlib is a C library, this module is its whole surface")]
mod zlib_sys;
pub(crate) mod zstd;
mod zstd_dict;
#[expect(unsafe_code, reason = "zstd contexts in memory of ours, which no binding wraps")]
pub(crate) mod zstd_sys;

pub use deflate::{BodyDeflater, DeflateCompressor, SharedWindow};
pub use dictionaries::{
    Asker, DICTIONARIES_MAX, Dictionaries, DictionarySwitch, DictionaryTrials, KnownDictionary, PERMILLE_ALL,
    TriedOffer,
};
pub use dictionary::{
    DICTIONARY_BYTES, DICTIONARY_BYTES_MAX, Dictionary, DictionaryId, ParseDictionaryIdError, Training,
};
pub use dictionary::{DictionaryUse, DictionaryUses};
pub use inflate::{InflateHistory, MessageInflater};
pub use zlib::{ZlibCompressor, ZlibDecompressor, ZlibParams, deflate_once, inflate_once};
pub(crate) use zstd::zstd_error;
pub use zstd::{ZstdCompressor, ZstdDecompressor, ZstdParams};
pub use zstd_dict::ZstdDictCompressor;

use crate::CodecError;
use crate::context_pool::{ContextParams, ContextPool};
use std::sync::Arc;

/// The compressing end of one connection.
///
/// ```
/// use guildhall_codec::{StreamCompressor, StreamDecompressor, ZstdParams};
/// let mut gateway = StreamCompressor::zstd(ZstdParams::default())?;
/// let mut client = StreamDecompressor::zstd(18)?;
/// let (mut wire, mut message) = (Vec::new(), Vec::new());
/// gateway.compress(&[b"{\"t\":null,", b"\"op\":11}"], &mut wire)?;
/// client.decompress(&wire, &mut message, 4096)?;
/// assert_eq!(message, b"{\"t\":null,\"op\":11}");
/// # Ok::<(), guildhall_codec::CodecError>(())
/// ```
#[derive(Debug)]
pub enum StreamCompressor {
    /// `compress=zlib-stream`
    Zlib(ZlibCompressor),
    /// `compress=zstd-stream`
    Zstd(ZstdCompressor),
    /// `compress=zstd-stream&dict=…`
    ZstdDict(ZstdDictCompressor),
    /// permessage-deflate with context takeover; messages are to be framed with RSV1.
    Deflate(DeflateCompressor),
}

impl StreamCompressor {
    /// Starts a zlib stream with memory of its own. A node takes it from [`ContextPool::zlib`].
    ///
    /// # Errors
    /// [`CodecError::Param`] or [`CodecError::Memory`].
    pub fn zlib(params: ZlibParams) -> Result<Self, CodecError> {
        Ok(ContextPool::new(ContextParams { zlib: params, ..ContextParams::default() })?.zlib())
    }

    /// Starts a zstd stream with memory of its own. A node takes it from [`ContextPool::zstd`].
    ///
    /// # Errors
    /// [`CodecError::Param`] or [`CodecError::Memory`].
    pub fn zstd(params: ZstdParams) -> Result<Self, CodecError> {
        Ok(ContextPool::new(ContextParams { zstd: params, ..ContextParams::default() })?.zstd())
    }

    /// Starts a zstd stream that refers to a dictionary, which its reader has to have, with memory of its own. A node
    /// takes it from [`ContextPool::zstd_with`].
    ///
    /// # Errors
    /// [`CodecError::Param`] or [`CodecError::Memory`].
    pub fn zstd_with(params: ZstdParams, dictionary: Arc<Dictionary>) -> Result<Self, CodecError> {
        Ok(ContextPool::new(ContextParams { zstd: params, ..ContextParams::default() })?.zstd_with(dictionary))
    }

    /// Starts permessage-deflate with context takeover, for a window of `2^window_bits`.
    ///
    /// # Errors
    /// [`CodecError::Param`].
    pub fn deflate(params: ZlibParams, window_bits: u8) -> Result<Self, CodecError> {
        DeflateCompressor::new(params, window_bits).map(Self::Deflate)
    }

    /// Window that its reader has, as the exponent of 2: at least as large as the one to which the stream refers.
    #[must_use]
    pub fn window_log(&self) -> u8 {
        match self {
            Self::Zlib(stream) => stream.window_bits(),
            Self::Zstd(stream) => stream.window_log() as u8,
            Self::ZstdDict(stream) => stream.window_log() as u8,
            Self::Deflate(stream) => stream.window_bits(),
        }
    }

    /// Makes its context now, if it has none. False: there is no room for one, and messages would be stored.
    ///
    /// # Errors
    /// The library's; the stream is broken then.
    pub fn open(&mut self) -> Result<bool, CodecError> {
        match self {
            Self::Zlib(stream) => stream.open(),
            Self::Zstd(stream) => stream.open(),
            // The first needs its context from the first message on; the other takes no slot.
            Self::ZstdDict(_) | Self::Deflate(_) => Ok(true),
        }
    }

    /// Whether it can still take its context from another pool: it has none yet, and has declared a window that is as
    /// large as those of the pool.
    #[must_use]
    pub fn may_take(&self, contexts: &ContextPool) -> bool {
        match self {
            Self::Zlib(stream) => stream.may_take(contexts),
            Self::Zstd(stream) => stream.may_take(contexts),
            Self::ZstdDict(_) | Self::Deflate(_) => false,
        }
    }

    /// Takes its context from another pool, such as [`ContextPool::variant`]. False, and nothing has changed: see
    /// [`StreamCompressor::may_take`].
    pub fn set_contexts(&mut self, contexts: &ContextPool) -> bool {
        let may_take = self.may_take(contexts);
        match self {
            Self::Zlib(stream) if may_take => stream.set_contexts(contexts.clone()),
            Self::Zstd(stream) if may_take => stream.set_contexts(contexts.clone()),
            _ => {}
        }
        may_take
    }

    /// Appends one message, made of `parts` in order, compressed and flushed: it fills exactly one WebSocket message.
    ///
    /// # Errors
    /// The library's; `out` is then unchanged, the stream is broken and the connection has to be closed.
    pub fn compress(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), CodecError> {
        match self {
            Self::Zlib(stream) => stream.compress(parts, out),
            Self::Zstd(stream) => stream.compress(parts, out),
            Self::ZstdDict(stream) => stream.compress(parts, out),
            Self::Deflate(stream) => stream.compress(parts, out),
        }
    }

    /// Appends one message uncompressed, in the stream's format, without creating a context: for clients before
    /// IDENTIFY. Later messages may be compressed; with a context, this one is compressed as well.
    ///
    /// # Errors
    /// As `compress`.
    pub fn store(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        match self {
            Self::Zlib(stream) => stream.store(message, out),
            Self::Zstd(stream) => stream.store(message, out),
            Self::ZstdDict(stream) => stream.compress(&[message], out),
            // There is no need to: such a message is sent without RSV1 and stays out of the window.
            Self::Deflate(stream) => stream.compress(&[message], out),
        }
    }

    /// Whether its context is a larger one (`upgrade`).
    pub fn is_upgraded(&self) -> bool {
        match self {
            Self::Zlib(_) | Self::ZstdDict(_) | Self::Deflate(_) => false,
            Self::Zstd(stream) => stream.is_upgraded(),
        }
    }

    /// Memory the context holds now; none before the first `compress`.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Zlib(stream) => stream.memory_bytes(),
            Self::Zstd(stream) => stream.memory_bytes(),
            Self::ZstdDict(stream) => stream.memory_bytes(),
            Self::Deflate(stream) => stream.memory_bytes(),
        }
    }
}

/// The reading end of one connection.
#[derive(Debug)]
pub enum StreamDecompressor {
    /// `compress=zlib-stream`
    Zlib(ZlibDecompressor),
    /// `compress=zstd-stream`
    Zstd(ZstdDecompressor),
}

impl StreamDecompressor {
    /// Starts reading a zlib stream of any window.
    ///
    /// # Errors
    /// [`CodecError::Memory`].
    pub fn zlib() -> Result<Self, CodecError> {
        ZlibDecompressor::new().map(Self::Zlib)
    }

    /// Starts reading a zstd stream whose window is at most `2^window_log_max` bytes.
    ///
    /// # Errors
    /// [`CodecError::Param`] or [`CodecError::Memory`].
    pub fn zstd(window_log_max: u32) -> Result<Self, CodecError> {
        ZstdDecompressor::new(window_log_max).map(Self::Zstd)
    }

    /// As [`zstd`](Self::zstd), for a stream that may refer to a dictionary.
    ///
    /// # Errors
    /// As [`zstd`](Self::zstd).
    pub fn zstd_with(window_log_max: u32, dictionary: &Dictionary) -> Result<Self, CodecError> {
        ZstdDecompressor::with_dictionary(window_log_max, dictionary.bytes()).map(Self::Zstd)
    }

    /// Appends all that `chunk` (usually one WebSocket message) decodes to, at most `bytes_max` bytes.
    ///
    /// # Errors
    /// [`CodecError::TooLarge`], [`CodecError::Corrupt`], or the library's error; `out` is then unchanged and the
    /// stream is unusable.
    pub fn decompress(&mut self, chunk: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<(), CodecError> {
        match self {
            Self::Zlib(stream) => stream.decompress(chunk, out, bytes_max),
            Self::Zstd(stream) => stream.decompress(chunk, out, bytes_max),
        }
    }

    /// Memory the context holds now.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Zlib(stream) => stream.memory_bytes(),
            Self::Zstd(stream) => stream.memory_bytes(),
        }
    }
}

fn check_param(name: &'static str, value: i64, min: i64, max: i64) -> Result<(), CodecError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(CodecError::Param { name, value, min, max })
}

/// Runs one call on a stream. On failure removes its output and marks the stream as broken.
fn guarded(
    broken: &mut bool,
    out: &mut Vec<u8>,
    call: impl FnOnce(&mut Vec<u8>) -> Result<(), CodecError>,
) -> Result<(), CodecError> {
    if *broken {
        return Err(CodecError::Broken);
    }
    let start = out.len();
    let result = call(out);
    if result.is_err() {
        *broken = true;
        out.truncate(start);
    }
    result
}

/// Room for the next decompression step: grows with the input, up to one byte past the limit, so that
/// exceeding it is noticed.
fn decompress_room(chunk_bytes: usize, produced_bytes: usize, bytes_max: usize) -> usize {
    let wanted = chunk_bytes.saturating_mul(8).max(produced_bytes).clamp(1 << 10, 1 << 18);
    wanted.min((bytes_max - produced_bytes).saturating_add(1))
}
