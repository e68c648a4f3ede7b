//! zstd-stream with a dictionary: the same never-ending frame, which may refer to the dictionary from
//! its first byte on.
//!
//! Owns        the frame's header, flush loops.
//! Doors       `StreamCompressor::zstd_with`, `StreamDecompressor::zstd_with`.
//! Invariants  The frame names the dictionary's number. Nothing is stored before there is a context: a stored message
//!             would come between the dictionary and the position at which the context begins. So a stream that finds
//!             no room for its context at its first message is stored to its end.
//! Price       a context from HELLO on, 713 KB like one without; the dictionary itself exists once.
//! Spec        RFC 8878; docs/adr/0018.

use super::{Dictionary, dictionary_sys::Context, guarded, zstd::store_blocks};
use crate::CodecError;
use crate::context_pool::ContextPool;
use std::sync::Arc;
use zstd_safe::zstd_sys::ZSTD_EndDirective;

/// RFC 8878 §3.1.1: start of a frame.
const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
/// Descriptor, window, and the dictionary's number in four bytes.
const HEADER_BYTES: usize = 6;

/// The compressing end of a zstd-stream connection that has a dictionary.
pub struct ZstdDictCompressor {
    contexts: ContextPool,
    dictionary: Arc<Dictionary>,
    /// Made by the first message, if there is room for it.
    context: Option<Context>,
    is_started: bool,
    broken: bool,
}

impl ZstdDictCompressor {
    /// Starts a stream. Allocates nothing before the first message.
    pub(crate) fn new(contexts: ContextPool, dictionary: Arc<Dictionary>) -> Self {
        Self { contexts, dictionary, context: None, is_started: false, broken: false }
    }

    fn header(&self) -> [u8; HEADER_BYTES] {
        let [a, b, c, d] = self.dictionary.number().to_le_bytes();
        [3, (self.contexts.params().zstd.window_log as u8 - 10) << 3, a, b, c, d]
    }

    /// As [`StreamCompressor::compress`](super::StreamCompressor::compress).
    ///
    /// # Errors
    /// As [`StreamCompressor::compress`](super::StreamCompressor::compress).
    pub fn compress(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let Some(last) = parts.iter().rposition(|part| !part.is_empty()) else {
            return if self.broken { Err(CodecError::Broken) } else { Ok(()) };
        };
        let header = self.header();
        let is_first = !std::mem::replace(&mut self.is_started, true);
        let Self { contexts, dictionary, context, broken, .. } = self;
        guarded(broken, out, |out| {
            let params = contexts.params().zstd;
            if is_first {
                if let Some(slot) = contexts.open_zstd_base() {
                    *context = Some(Context::new(params, dictionary.digested(params)?, slot)?);
                }
                out.extend_from_slice(&MAGIC);
            }
            let Some(context) = context else {
                if is_first {
                    out.extend_from_slice(&header);
                }
                contexts.note_stored();
                store_blocks(params.window_log, params.block_bytes_max, parts, out);
                return Ok(());
            };
            let start = out.len();
            for part in &parts[..last] {
                write(context, part, out, ZSTD_EndDirective::ZSTD_e_continue)?;
            }
            write(context, parts[last], out, ZSTD_EndDirective::ZSTD_e_flush)?;
            // A decoder reads its window and the dictionary from here.
            if is_first && out.get(start..start + HEADER_BYTES) != Some(&header[..]) {
                return Err(CodecError::Broken);
            }
            Ok(())
        })
    }

    /// Window in the frame header, as the exponent of 2.
    pub(super) fn window_log(&self) -> u32 {
        self.contexts.params().zstd.window_log
    }

    /// Memory the context holds; none before the first message.
    pub fn memory_bytes(&self) -> usize {
        self.context.as_ref().map_or(0, Context::memory_bytes)
    }
}

/// Passes all of `input` to zstd; when flushing, appends all of its output.
fn write(
    context: &mut Context,
    mut input: &[u8],
    out: &mut Vec<u8>,
    directive: ZSTD_EndDirective,
) -> Result<(), CodecError> {
    loop {
        out.reserve((input.len() / 2).max(64));
        let (taken, left_bytes) = context.step(input, out, directive)?;
        input = &input[taken..];
        let is_flushed = left_bytes == 0 || directive == ZSTD_EndDirective::ZSTD_e_continue;
        if is_flushed && input.is_empty() {
            return Ok(());
        }
    }
}

impl std::fmt::Debug for ZstdDictCompressor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ZstdDictCompressor")
            .field("dictionary", &self.dictionary.id())
            .field("memory_bytes", &self.memory_bytes())
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}
