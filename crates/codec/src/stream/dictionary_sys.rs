//! The boundary to zstd for dictionaries: digested forms that contexts refer to, and contexts that refer to one.
//!
//! Why not `zstd-safe`: it digests a dictionary for a level only, with tables of other sizes than those the node
//! accounts for, and the parameters of the digested form win over those of the context.
//!
//! Owns        `Digested` (a `ZSTD_CDict`); `Context` (a `ZSTD_CCtx` inside a slot).
//! Invariants  S1 a context is inside its slot, which does not move, and is never freed separately. S2 data that a
//!             context refers to lives as long as the context. S3 a digested form is immutable, and does not outlive
//!             the bytes it refers to.
//! Not here    loops, frame headers, limits (zstd_dict.rs).

use super::ZstdParams;
use crate::CodecError;
use guildhall_slab::Slot;
use std::{ffi::c_void, ptr::NonNull, sync::Arc};
use zstd_safe::zstd_sys as z;

/// Bytes of magic number, number and tables; nothing for bytes that are no dictionary.
pub(super) fn header_bytes(dictionary: &[u8]) -> Option<usize> {
    // SAFETY: zstd reads the slice within its length.
    let bytes = unsafe { z::ZDICT_getDictHeaderSize(dictionary.as_ptr().cast(), dictionary.len()) };
    check(bytes).ok()
}

/// Fills `out` with a dictionary by zstd's COVER, which tries its parameters on part of the samples. Returns its bytes.
pub(super) fn train_cover(out: &mut [u8], text: &[u8], lengths: &[usize]) -> Result<usize, CodecError> {
    let count = u32::try_from(lengths.len()).map_err(|_| CodecError::Dictionary { reason: "too many samples" })?;
    assert_eq!(lengths.iter().sum::<usize>(), text.len(), "the lengths are those of the samples");
    // SAFETY: zeros are valid for a struct of numbers, and mean that zstd chooses.
    let mut params: z::ZDICT_cover_params_t = unsafe { std::mem::zeroed() };
    params.d = 8;
    params.steps = 8;
    params.nbThreads = 1;
    // SAFETY: zstd reads `text` and `lengths` within their lengths, which agree, and writes `out` within its own.
    let bytes = unsafe {
        z::ZDICT_optimizeTrainFromBuffer_cover(
            out.as_mut_ptr().cast(),
            out.len(),
            text.as_ptr().cast(),
            lengths.as_ptr(),
            count,
            &mut params,
        )
    };
    // SAFETY: a function of its argument.
    if unsafe { z::ZDICT_isError(bytes) } == 0 {
        return Ok(bytes);
    }
    Err(CodecError::Dictionary { reason: "COVER found nothing in common in the samples" })
}

fn check(code: usize) -> Result<usize, CodecError> {
    // SAFETY: a function of its argument.
    if unsafe { z::ZSTD_isError(code) } == 0 {
        return Ok(code);
    }
    Err(CodecError::Zstd { name: zstd_safe::get_error_name(code) })
}

/// A dictionary with its tables filled, for contexts of certain parameters.
pub(super) struct Digested {
    form: NonNull<z::ZSTD_CDict>,
    /// Bytes that the form refers to.
    _bytes: Arc<[u8]>,
}

// SAFETY: S3. zstd.h: a CDict can be shared by multiple threads, its usage is read-only.
unsafe impl Send for Digested {}
// SAFETY: as above.
unsafe impl Sync for Digested {}

impl Digested {
    /// Nothing if zstd cannot use the dictionary, or there is no memory.
    pub(super) fn new(bytes: Arc<[u8]>, params: ZstdParams) -> Option<Self> {
        let parameters = ContextParameters::new(params).ok()?;
        // Contexts take their tables' sizes from here. By default zstd makes them as small as the dictionary, which
        // would suit only short texts.
        parameters.set(z::ZSTD_cParameter::ZSTD_c_experimentalParam7, i32::MAX).ok()?;
        // SAFETY: the slice is read within its length, and lives as long as the form (S3); the parameters are only
        // read. No functions for memory: those of the C library are used.
        let form = unsafe {
            z::ZSTD_createCDict_advanced2(
                bytes.as_ptr().cast(),
                bytes.len(),
                z::ZSTD_dictLoadMethod_e::ZSTD_dlm_byRef,
                z::ZSTD_dictContentType_e::ZSTD_dct_fullDict,
                parameters.0.as_ptr(),
                z::ZSTD_customMem { customAlloc: None, customFree: None, opaque: std::ptr::null_mut() },
            )
        };
        Some(Self { form: NonNull::new(form)?, _bytes: bytes })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // SAFETY: the form is alive.
        unsafe { z::ZSTD_sizeof_CDict(self.form.as_ptr()) }
    }
}

impl Drop for Digested {
    fn drop(&mut self) {
        // SAFETY: it was made by zstd and is freed once; no context refers to it any more (S2).
        unsafe { z::ZSTD_freeCDict(self.form.as_ptr()) };
    }
}

/// Parameters of a context, as zstd keeps them; freed when dropped.
struct ContextParameters(NonNull<z::ZSTD_CCtx_params>);

impl ContextParameters {
    fn new(params: ZstdParams) -> Result<Self, CodecError> {
        use z::ZSTD_cParameter as Key;
        // SAFETY: a function of its arguments; an unknown size of text, and no dictionary.
        let of_level = unsafe { z::ZSTD_getCParams(params.level, 0, 0) };
        // SAFETY: it takes nothing, and gives null or an object to free.
        let made = Self(NonNull::new(unsafe { z::ZSTD_createCCtxParams() }).ok_or(CodecError::Memory)?);
        for (key, value) in [
            // The format: magicless.
            (Key::ZSTD_c_experimentalParam2, 1),
            (Key::ZSTD_c_compressionLevel, params.level),
            (Key::ZSTD_c_windowLog, params.window_log as i32),
            (Key::ZSTD_c_chainLog, params.chain_log as i32),
            (Key::ZSTD_c_hashLog, params.hash_log as i32),
            // Set although the level implies it: the memory estimate reads it here, and otherwise counts a table that
            // is not created.
            (Key::ZSTD_c_strategy, of_level.strategy as i32),
            // The largest block.
            (Key::ZSTD_c_experimentalParam18, params.block_bytes_max as i32),
            // Off: zstd would choose it for the largest windows, and slots have no room for it.
            (Key::ZSTD_c_enableLongDistanceMatching, 2),
            (Key::ZSTD_c_contentSizeFlag, 0),
            (Key::ZSTD_c_checksumFlag, 0),
            (Key::ZSTD_c_dictIDFlag, 1),
        ] {
            made.set(key, value)?;
        }
        Ok(made)
    }

    fn set(&self, key: z::ZSTD_cParameter, value: i32) -> Result<(), CodecError> {
        // SAFETY: the object is alive, and no other thread has it.
        check(unsafe { z::ZSTD_CCtxParams_setParameter(self.0.as_ptr(), key, value) }).map(drop)
    }
}

impl Drop for ContextParameters {
    fn drop(&mut self) {
        // SAFETY: it was made by zstd and is freed once.
        unsafe { z::ZSTD_freeCCtxParams(self.0.as_ptr()) };
    }
}

/// A compressing context that refers to a digested dictionary.
pub(super) struct Context {
    context: NonNull<z::ZSTD_CCtx>,
    /// Where it lives (S1).
    slot: Slot,
    /// Dictionary that the context refers to (S2).
    _dictionary: Arc<Digested>,
}

// SAFETY: the context is reachable only through this value, and zstd keeps no thread-local state.
unsafe impl Send for Context {}

impl Context {
    /// The slot is as large as for a context without a dictionary (`zstd_sys::slot_bytes`).
    pub(super) fn new(params: ZstdParams, dictionary: Arc<Digested>, mut slot: Slot) -> Result<Self, CodecError> {
        let parameters = ContextParameters::new(params)?;
        // SAFETY: the slot is page-aligned, has that many bytes, and stays in place while the context is used (S1).
        let context = unsafe { z::ZSTD_initStaticCCtx(slot.as_mut_ptr().cast::<c_void>(), slot.bytes_count()) };
        let context = NonNull::new(context).ok_or(CodecError::Memory)?;
        // SAFETY: both objects are alive, and `dictionary` is kept for as long as the context (S2).
        unsafe {
            check(z::ZSTD_CCtx_setParametersUsingCCtxParams(context.as_ptr(), parameters.0.as_ptr()))?;
            check(z::ZSTD_CCtx_refCDict(context.as_ptr(), dictionary.form.as_ptr()))?;
        }
        Ok(Self { context, slot, _dictionary: dictionary })
    }

    /// One call of zstd: reads from `input`, writes into the free capacity of `out`. Returns the number of bytes read,
    /// and of output bytes held back.
    pub(super) fn step(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        directive: z::ZSTD_EndDirective,
    ) -> Result<(usize, usize), CodecError> {
        let (start, room) = (out.len(), out.capacity());
        let mut output = z::ZSTD_outBuffer { dst: out.as_mut_ptr().cast(), size: room, pos: start };
        let mut text = z::ZSTD_inBuffer { src: input.as_ptr().cast(), size: input.len(), pos: 0 };
        // SAFETY: the context is alive (S1); zstd reads the input within its length, and writes the output from `pos`
        // up to its capacity.
        let left = unsafe { z::ZSTD_compressStream2(self.context.as_ptr(), &mut output, &mut text, directive) };
        let left = check(left)?;
        assert!((start..=room).contains(&output.pos), "zstd wrote where there is no room");
        // SAFETY: everything up to `pos` was written, by us before and by zstd now.
        unsafe { out.set_len(output.pos) };
        Ok((text.pos, left))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slot.bytes_count()
    }
}
