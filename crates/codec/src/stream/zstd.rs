//! zstd-stream: one frame that never ends, flushed after each message.
//!
//! Owns        parameters, flush loops, output limits.
//! Doors       through `StreamCompressor` and `StreamDecompressor`.
//! Invariants  The frame has no checksum, content size or dictionary id; a message of no bytes compresses to none.
//! Limits      `window_log` up to 27, what every decoder accepts; a reader bounds it again (`window_log_max`).
//! Spec        RFC 8878; docs/protocol/reference.md §2.3.

use zstd_safe::{DCtx, DParameter, ErrorCode, InBuffer, OutBuffer};

use super::zstd_sys::{Directive, ZstdContext};
use super::{check_param, decompress_room, guarded};
use crate::CodecError;
use crate::context_pool::{ContextPool, ZstdSlot};
use crate::upgrade::Upgrade;

/// Parameters of a zstd context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZstdParams {
    /// Effort, -7 to 22.
    pub level: i32,
    /// Window of `2^window_log` bytes, 10 to 27; the client pays for it as well.
    pub window_log: u32,
    /// Chain table of `2^chain_log` entries of 4 bytes, 6 to 28.
    pub chain_log: u32,
    /// Hash table of `2^hash_log` entries of 4 bytes, 6 to 28.
    pub hash_log: u32,
    /// Messages are split into blocks of at most this, 1 KiB to 128 KiB; buffers are sized by it.
    pub block_bytes_max: u32,
}

impl Default for ZstdParams {
    /// As published by the upstream gateway, but with small blocks: half the memory (713 KB). READY and long member
    /// lists, which the library would write as one block, are larger by 2 %.
    fn default() -> Self {
        Self { level: 6, window_log: 18, chain_log: 16, hash_log: 16, block_bytes_max: 16 << 10 }
    }
}

impl ZstdParams {
    /// Checks each field against its range.
    ///
    /// # Errors
    /// [`CodecError::Param`] for the first field outside its range.
    pub fn validate(&self) -> Result<(), CodecError> {
        check_param("zstd level", self.level.into(), -7, 22)?;
        check_window_log(self.window_log)?;
        check_param("zstd chain_log", self.chain_log.into(), 6, 28)?;
        check_param("zstd hash_log", self.hash_log.into(), 6, 28)?;
        check_param("zstd block_bytes_max", self.block_bytes_max.into(), 1 << 10, 128 << 10)
    }
}

impl ZstdParams {
    /// Each of the three sizes one step up; none when one of them is at its end.
    #[must_use]
    pub fn upgraded(self) -> Option<Self> {
        let up = Self {
            window_log: self.window_log + 1,
            chain_log: self.chain_log + 1,
            hash_log: self.hash_log + 1,
            ..self
        };
        up.validate().is_ok().then_some(up)
    }
}

fn check_window_log(window_log: u32) -> Result<(), CodecError> {
    check_param("zstd window_log", window_log.into(), 10, 27)
}

pub(crate) fn zstd_error(code: ErrorCode) -> CodecError {
    CodecError::Zstd { name: zstd_safe::get_error_name(code) }
}

/// Appends `parts` as blocks that are not compressed.
pub(super) fn store_blocks(window_log: u32, block_bytes_max: u32, parts: &[&[u8]], out: &mut Vec<u8>) {
    // No block may be larger than the window.
    let bytes_max = (1usize << window_log).min(block_bytes_max as usize);
    for chunk in parts.iter().flat_map(|part| part.chunks(bytes_max)) {
        // RFC 8878 §3.1.1.2: not the last, raw, and the size.
        let header = (chunk.len() as u32) << 3;
        out.extend_from_slice(&header.to_le_bytes()[..3]);
        out.extend_from_slice(chunk);
    }
}

/// RFC 8878 §3.1.1: start of a frame.
const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();

/// Bytes of the frame header behind the magic number: descriptor and window.
const HEADER_BYTES: usize = 2;

/// The compressing end of a zstd-stream connection.
///
/// It writes magic number and frame header itself and removes those of the context, so that messages can be stored
/// while there is no context: before IDENTIFY, or when contexts have used up their memory.
pub struct ZstdCompressor {
    contexts: ContextPool,
    /// Window in the frame header.
    window_log: u32,
    /// It gets a larger context, if there is still room when the context is created.
    is_upgrade_due: bool,
    /// Made by the first `compress` that finds room for it.
    context: Option<ZstdContext>,
    /// The context has written its frame header, which was removed.
    has_context_begun: bool,
    /// Present in a larger context; released with it.
    upgrade: Option<Upgrade>,
    is_movable: bool,
    is_started: bool,
    broken: bool,
}

impl ZstdCompressor {
    /// Starts a stream. Allocates nothing before the first `compress`.
    pub(crate) fn new(contexts: ContextPool, is_upgrade_due: bool) -> Self {
        let window_log = contexts.params().zstd.window_log + u32::from(is_upgrade_due);
        Self {
            contexts,
            window_log,
            is_upgrade_due,
            context: None,
            has_context_begun: false,
            upgrade: None,
            is_movable: false,
            is_started: false,
            broken: false,
        }
    }

    /// Window in the frame header, as the exponent of 2.
    pub(super) fn window_log(&self) -> u32 {
        self.window_log
    }

    /// As [`StreamCompressor::may_take`](super::StreamCompressor::may_take).
    pub(super) fn may_take(&self, contexts: &ContextPool) -> bool {
        self.context.is_none() && !self.broken && contexts.params().zstd.window_log <= self.window_log
    }

    pub(super) fn set_contexts(&mut self, contexts: ContextPool) {
        self.contexts = contexts;
        self.is_upgrade_due = false;
    }

    /// Another writer can continue the stream: it declares a window of at least `2^window_log` bytes, and gets a
    /// context only while contexts of such streams have room. Call before the first message.
    pub(crate) fn movable(mut self, window_log: u32) -> Self {
        self.window_log = self.window_log.max(window_log);
        self.is_movable = true;
        self
    }

    /// As [`StreamCompressor::store`](super::StreamCompressor::store).
    ///
    /// # Errors
    /// As [`StreamCompressor::store`](super::StreamCompressor::store).
    pub fn store(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        if self.context.is_some() || self.broken {
            return self.compress(&[message], out);
        }
        if !message.is_empty() {
            self.store_parts(&[message], out);
        }
        Ok(())
    }

    fn store_parts(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) {
        self.start(out);
        store_blocks(self.window_log, self.contexts.params().zstd.block_bytes_max, parts, out);
    }

    /// No content size, checksum or dictionary id; a window of `2^window_log` bytes.
    fn header(&self) -> [u8; HEADER_BYTES] {
        [0, (self.window_log as u8 - 10) << 3]
    }

    fn start(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_started, true) {
            out.extend_from_slice(&MAGIC);
            out.extend_from_slice(&self.header());
        }
    }

    /// As [`StreamCompressor::compress`](super::StreamCompressor::compress).
    ///
    /// # Errors
    /// As [`StreamCompressor::compress`](super::StreamCompressor::compress).
    pub fn compress(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), CodecError> {
        if self.broken {
            return Err(CodecError::Broken);
        }
        let Some(last) = parts.iter().rposition(|part| !part.is_empty()) else {
            return Ok(());
        };
        self.open()?;
        let start = out.len();
        self.start(out);
        let window_log = self.window_log;
        let Some(context) = self.context.as_mut() else {
            self.contexts.note_stored();
            self.store_parts(parts, out);
            return Ok(());
        };
        let is_first = !std::mem::replace(&mut self.has_context_begun, true);
        let result = guarded(&mut self.broken, out, |out| {
            let start = out.len();
            for part in &parts[..last] {
                context.compress(part, out, Directive::Continue)?;
            }
            context.compress(parts[last], out, Directive::Flush)?;
            if is_first {
                // The context begins with a header of its own. Its window may be smaller than the one in the header
                // that was sent, but not larger; any other difference would mean another format.
                let header = out.get(start..start + HEADER_BYTES).ok_or(CodecError::Broken)?;
                if header[0] != 0 || header[1] > (window_log as u8 - 10) << 3 {
                    return Err(CodecError::Broken);
                }
                out.drain(start..start + HEADER_BYTES);
            }
            Ok(())
        });
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    /// As [`StreamCompressor::open`](super::StreamCompressor::open).
    ///
    /// # Errors
    /// As [`StreamCompressor::open`](super::StreamCompressor::open).
    pub fn open(&mut self) -> Result<bool, CodecError> {
        if self.context.is_none()
            && (!self.is_movable || self.contexts.has_movable_room())
            && let Some(ZstdSlot { slot, params, upgrade }) = self.contexts.open_zstd(self.is_upgrade_due)
        {
            self.context = Some(ZstdContext::new(params, slot).inspect_err(|_| self.broken = true)?);
            self.upgrade = upgrade;
        }
        Ok(self.context.is_some())
    }

    /// Whether its context is a larger one.
    pub fn is_upgraded(&self) -> bool {
        self.upgrade.is_some()
    }

    /// Memory the context holds now; none before the first `compress`.
    pub fn memory_bytes(&self) -> usize {
        self.context.as_ref().map_or(0, ZstdContext::memory_bytes)
    }
}

impl std::fmt::Debug for ZstdCompressor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ZstdCompressor")
            .field("memory_bytes", &self.memory_bytes())
            .field("is_upgraded", &self.is_upgraded())
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

/// The reading end of a zstd-stream connection.
pub struct ZstdDecompressor {
    context: DCtx<'static>,
    broken: bool,
}

impl ZstdDecompressor {
    /// Starts reading a stream whose window is at most `2^window_log_max` bytes (10 to 27).
    ///
    /// # Errors
    /// [`CodecError::Param`] or [`CodecError::Memory`].
    pub fn new(window_log_max: u32) -> Result<Self, CodecError> {
        check_window_log(window_log_max)?;
        let mut context = DCtx::try_create().ok_or(CodecError::Memory)?;
        context.set_parameter(DParameter::WindowLogMax(window_log_max)).map_err(zstd_error)?;
        Ok(Self { context, broken: false })
    }

    /// As [`new`](Self::new), for a stream that may refer to a dictionary.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_dictionary(window_log_max: u32, dictionary: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Self::new(window_log_max)?;
        reader.context.load_dictionary(dictionary).map_err(zstd_error)?;
        Ok(reader)
    }

    /// As [`StreamDecompressor::decompress`](super::StreamDecompressor::decompress).
    ///
    /// # Errors
    /// As [`StreamDecompressor::decompress`](super::StreamDecompressor::decompress).
    pub fn decompress(&mut self, chunk: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<(), CodecError> {
        let Self { context, broken } = self;
        guarded(broken, out, |out| {
            let start = out.len();
            let mut input = InBuffer::around(chunk);
            loop {
                let left_bytes = chunk.len() - input.pos;
                out.reserve(decompress_room(left_bytes, out.len() - start, bytes_max));
                let end = out.len();
                let mut output = OutBuffer::around_pos(out, end);
                let hint = context.decompress_stream(&mut output, &mut input).map_err(zstd_error)?;
                if out.len() - start > bytes_max {
                    return Err(CodecError::TooLarge { bytes_max });
                }
                if hint == 0 {
                    // The gateway's frame never ends.
                    return Err(CodecError::Corrupt);
                }
                // A full buffer may hide a flushed tail.
                if input.pos == chunk.len() && out.len() < out.capacity() {
                    return Ok(());
                }
            }
        })
    }

    /// Memory the context holds now.
    pub fn memory_bytes(&self) -> usize {
        self.context.sizeof()
    }
}

impl std::fmt::Debug for ZstdDecompressor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ZstdDecompressor")
            .field("memory_bytes", &self.memory_bytes())
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}
