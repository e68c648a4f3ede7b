//! zlib-stream, and the one-shot zlib of payload compression.
//!
//! Owns        parameters, flush rules, output limits.
//! Doors       through `StreamCompressor` and `StreamDecompressor`; `deflate_once`, `inflate_once`.
//! Invariants  Z1 every message ends in 00 00 FF FF, even an empty one. Z2 no input is lost when the output fills.
//! Not here    the C calls (zlib_sys.rs).     Spec  RFC 1950, RFC 1951; docs/protocol/reference.md §2.3, §2.4.

use super::zlib_sys::{Flush, ZStream, deflate_bytes};
use super::{check_param, decompress_room, guarded};
use crate::CodecError;
use crate::context_pool::ContextPool;

/// Parameters of a zlib context. Memory is about `2^(window_bits + 2) + 2^(mem_level + 9)` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZlibParams {
    /// Effort, 0 (stored) to 9.
    pub level: u8,
    /// Window of `2^window_bits` bytes, 9 to 15. Not 8: zlib cannot, and silently takes 9.
    pub window_bits: u8,
    /// Size of the hash table and the symbol buffer, 1 to 9.
    pub mem_level: u8,
}

impl Default for ZlibParams {
    /// The upstream gateway's parameters: the ratio that clients expect, at 270 KB per context.
    fn default() -> Self {
        Self { level: 6, window_bits: 15, mem_level: 8 }
    }
}

impl ZlibParams {
    /// Checks each field against its range.
    ///
    /// # Errors
    /// [`CodecError::Param`] for the first field outside its range.
    pub fn validate(&self) -> Result<(), CodecError> {
        check_param("zlib level", self.level.into(), 0, 9)?;
        check_param("zlib window_bits", self.window_bits.into(), 9, 15)?;
        check_param("zlib mem_level", self.mem_level.into(), 1, 9)
    }
}

/// Room per step: a flush marker needs more than 6 bytes, or zlib repeats it.
const STEP_ROOM_MIN: usize = 64;

/// An empty stored block, as it looks on a byte boundary.
const EMPTY_BLOCK: &[u8] = &[0x00, 0x00, 0x00, 0xff, 0xff];

/// Bytes a stored block can hold.
const STORED_BYTES_MAX: usize = 0xffff;

/// The compressing end of a zlib-stream connection.
///
/// It writes the header itself and the context makes raw blocks, so that messages can be stored while there is no
/// context: before IDENTIFY, or when contexts have used up their memory.
#[derive(Debug)]
pub struct ZlibCompressor {
    contexts: ContextPool,
    /// Made by the first `compress` that finds room for it.
    stream: Option<ZStream>,
    /// In the header of the stream.
    window_bits: u8,
    is_movable: bool,
    is_started: bool,
    broken: bool,
}

impl ZlibCompressor {
    /// Starts a stream. Allocates nothing before the first `compress`.
    pub(crate) fn new(contexts: ContextPool) -> Self {
        let window_bits = contexts.params().zlib.window_bits;
        Self { contexts, stream: None, window_bits, is_movable: false, is_started: false, broken: false }
    }

    /// Continues a stream that another process has started with `2^window_bits` in its header, at the end of a message.
    /// A new context refers to nothing before it. `None`: contexts of the pool have a larger window than the header.
    pub(crate) fn continued(contexts: ContextPool, window_bits: u8) -> Option<Self> {
        let is_within = contexts.params().zlib.window_bits <= window_bits;
        is_within.then(|| Self { window_bits, is_started: true, ..Self::new(contexts) })
    }

    /// Window in the header, as the exponent of 2.
    pub(super) fn window_bits(&self) -> u8 {
        self.window_bits
    }

    /// As [`StreamCompressor::may_take`](super::StreamCompressor::may_take).
    pub(super) fn may_take(&self, contexts: &ContextPool) -> bool {
        self.stream.is_none() && !self.broken && contexts.params().zlib.window_bits <= self.window_bits
    }

    pub(super) fn set_contexts(&mut self, contexts: ContextPool) {
        self.contexts = contexts;
    }

    /// Another writer can continue the stream: it gets a context only while contexts of such streams have room.
    pub(crate) fn movable(mut self) -> Self {
        self.is_movable = true;
        self
    }

    /// As [`StreamCompressor::store`](super::StreamCompressor::store).
    ///
    /// # Errors
    /// As [`StreamCompressor::store`](super::StreamCompressor::store).
    pub fn store(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        if self.stream.is_some() || self.broken {
            return self.compress(&[message], out);
        }
        self.store_parts(&[message], out);
        Ok(())
    }

    fn store_parts(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) {
        self.start(out);
        for chunk in parts.iter().flat_map(|part| part.chunks(STORED_BYTES_MAX)) {
            let length = chunk.len() as u16;
            out.push(0);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&(!length).to_le_bytes());
            out.extend_from_slice(chunk);
        }
        out.extend_from_slice(EMPTY_BLOCK);
    }

    /// Puts the two header bytes in front of the first message.
    fn start(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_started, true) {
            let params = ZlibParams { window_bits: self.window_bits, ..self.contexts.params().zlib };
            out.extend_from_slice(&header(params));
        }
    }

    /// As [`StreamCompressor::compress`](super::StreamCompressor::compress).
    ///
    /// # Errors
    /// As [`StreamCompressor::compress`](super::StreamCompressor::compress).
    pub fn compress(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let last = parts.iter().rposition(|part| !part.is_empty());
        let Some(last) = last.filter(|_| !self.broken) else {
            if self.broken {
                return Err(CodecError::Broken);
            }
            // zlib refuses a second flush without input in between. The stream is on a byte boundary after the last
            // one, so the marker can be written without zlib.
            self.start(out);
            out.extend_from_slice(EMPTY_BLOCK);
            return Ok(());
        };
        self.open()?;
        let start = out.len();
        self.start(out);
        let Some(stream) = &mut self.stream else {
            self.contexts.note_stored();
            self.store_parts(parts, out);
            return Ok(());
        };
        let result = guarded(&mut self.broken, out, |out| {
            for part in &parts[..last] {
                write(stream, part, out, Flush::No)?;
            }
            write(stream, parts[last], out, Flush::Sync)
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
        if self.stream.is_none()
            && (!self.is_movable || self.contexts.has_movable_room())
            && let Some(slot) = self.contexts.open_zlib()
        {
            let ZlibParams { level, window_bits, mem_level } = self.contexts.params().zlib;
            let stream = ZStream::deflate_raw_in(slot, level, window_bits, mem_level);
            self.stream = Some(stream.inspect_err(|_| self.broken = true)?);
        }
        Ok(self.stream.is_some())
    }

    /// Memory the context holds; none before the first `compress`.
    pub fn memory_bytes(&self) -> usize {
        self.stream.as_ref().map_or(0, ZStream::memory_bytes)
    }
}

/// Bytes of a slot that holds a context.
pub(crate) fn slot_bytes(params: ZlibParams) -> Result<usize, CodecError> {
    deflate_bytes(params.level, params.window_bits, params.mem_level)
}

/// RFC 1950 §2.2: method and window, then effort, and a check that makes both together a multiple of 31.
fn header(params: ZlibParams) -> [u8; 2] {
    let method = (params.window_bits - 8) << 4 | 8;
    let effort: u8 = match params.level {
        0 | 1 => 0,
        2..=5 => 1,
        6 => 2,
        _ => 3,
    };
    let both = u16::from_be_bytes([method, effort << 6]);
    let check = 31 - both % 31;
    [method, effort << 6 | (check % 31) as u8]
}

/// Passes all of `input` to zlib and appends all of its output.
pub(super) fn write(stream: &mut ZStream, mut input: &[u8], out: &mut Vec<u8>, flush: Flush) -> Result<(), CodecError> {
    loop {
        let room = (input.len() / 2).max(STEP_ROOM_MIN);
        let step = stream.step(input, out, room, flush)?;
        input = &input[step.consumed..];
        if step.is_end || (!step.is_full && input.is_empty()) {
            return Ok(());
        }
    }
}

#[cfg(test)]
pub(super) fn write_for_test(stream: &mut ZStream, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    write(stream, input, out, Flush::Sync)
}

/// The reading end of a zlib-stream connection.
#[derive(Debug)]
pub struct ZlibDecompressor {
    stream: ZStream,
    broken: bool,
}

impl ZlibDecompressor {
    /// Starts reading a stream.
    ///
    /// # Errors
    /// [`CodecError::Memory`].
    pub fn new() -> Result<Self, CodecError> {
        Ok(Self { stream: ZStream::inflate()?, broken: false })
    }

    /// As [`StreamDecompressor::decompress`](super::StreamDecompressor::decompress).
    ///
    /// # Errors
    /// As [`StreamDecompressor::decompress`](super::StreamDecompressor::decompress).
    pub fn decompress(&mut self, chunk: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<(), CodecError> {
        let Self { stream, broken } = self;
        guarded(broken, out, |out| {
            match read(stream, chunk, out, bytes_max)? {
                Ending::Open => Ok(()),
                // The gateway's stream never ends.
                Ending::Closed { .. } => Err(CodecError::Corrupt),
            }
        })
    }

    /// Memory the context holds.
    pub fn memory_bytes(&self) -> usize {
        self.stream.memory_bytes()
    }
}

enum Ending {
    /// All input is read, more may come.
    Open,
    /// The stream ended, with this number of input bytes behind its end.
    Closed { left_bytes: usize },
}

fn read(stream: &mut ZStream, mut input: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<Ending, CodecError> {
    let start = out.len();
    loop {
        let room = decompress_room(input.len(), out.len() - start, bytes_max);
        let step = stream.step(input, out, room, Flush::Sync)?;
        input = &input[step.consumed..];
        if out.len() - start > bytes_max {
            return Err(CodecError::TooLarge { bytes_max });
        }
        if step.is_end {
            let left_bytes = input.len();
            return Ok(Ending::Closed { left_bytes });
        }
        if !step.is_full {
            return match input {
                [] => Ok(Ending::Open),
                _ => Err(CodecError::Corrupt),
            };
        }
    }
}

/// Appends `input` as one complete zlib stream, for payload compression.
///
/// # Errors
/// [`CodecError::Memory`]; `out` is then unchanged.
pub fn deflate_once(input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    let params = ZlibParams::default();
    let mut stream = ZStream::deflate(params.level, params.window_bits, params.mem_level)?;
    guarded(&mut false, out, |out| write(&mut stream, input, out, Flush::Finish))
}

/// Appends the decoded bytes of one complete zlib stream, at most `bytes_max`.
///
/// # Errors
/// [`CodecError::TooLarge`]; [`CodecError::Corrupt`] for bytes that are not exactly one complete stream; `out` is
/// then unchanged.
pub fn inflate_once(input: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<(), CodecError> {
    let mut stream = ZStream::inflate()?;
    guarded(&mut false, out, |out| match read(&mut stream, input, out, bytes_max)? {
        Ending::Closed { left_bytes: 0 } => Ok(()),
        _ => Err(CodecError::Corrupt),
    })
}
