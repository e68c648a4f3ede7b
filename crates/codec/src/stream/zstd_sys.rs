//! FFI boundary to zstd for compression: a context inside a slot, with a safe step function over slices.
//!
//! Owns        the slot, and the context in it: zstd takes no other memory for it, ever.
//! Doors       `slot_bytes` is the size that a slot needs; `ZstdContext::new`, then `compress`.
//! Invariants  X1 the context is at the start of the slot, from construction to drop, and uses only the slot. X2 zstd
//!             sees only the caller's input slice and the spare capacity of the output vector, with their true lengths.
//! Not here    headers, limits, what to do without a slot (zstd.rs).

use std::ffi::c_int;
use std::ptr::NonNull;

use guildhall_slab::Slot;
use zstd_safe::zstd_sys as z;

use super::zstd::{ZstdParams, zstd_error};
use crate::CodecError;

/// What to do with the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directive {
    /// Consume the input.
    Continue,
    /// And put out all that it compresses to.
    Flush,
}

/// A compressing context in a slot.
pub(crate) struct ZstdContext {
    context: NonNull<z::ZSTD_CCtx>,
    /// Last field, because the context is inside it.
    slot: Slot,
}

// SAFETY: the context is reachable only through this value and is inside a slot, which is `Send`; zstd has no
// thread-local state.
unsafe impl Send for ZstdContext {}

/// Bytes of a slot that holds a context, to the byte: zstd's own sum for these parameters.
pub(crate) fn slot_bytes(params: ZstdParams) -> Result<usize, CodecError> {
    let settings = Settings::new(params)?;
    // SAFETY: the settings are live.
    let bytes = unsafe { z::ZSTD_estimateCStreamSize_usingCCtxParams(settings.0.as_ptr()) };
    checked(bytes)
}

impl ZstdContext {
    /// Makes a context in `slot`, which must have at least `slot_bytes(params)` bytes.
    pub(crate) fn new(params: ZstdParams, mut slot: Slot) -> Result<Self, CodecError> {
        let settings = Settings::new(params)?;
        // SAFETY: the slot's bytes are this function's alone, are aligned to a page, and stay where they are for as
        // long as `slot` lives, which the value below holds on to (X1).
        let context = unsafe { z::ZSTD_initStaticCStream(slot.as_mut_ptr().cast(), slot.bytes_count()) };
        let context = NonNull::new(context).ok_or(CodecError::Memory)?;
        // SAFETY: both are live, and no frame is begun.
        checked(unsafe { z::ZSTD_CCtx_setParametersUsingCCtxParams(context.as_ptr(), settings.0.as_ptr()) })?;
        Ok(Self { context, slot })
    }

    /// Passes all of `input` to zstd; with `Flush`, appends all of its output.
    pub(crate) fn compress(&mut self, input: &[u8], out: &mut Vec<u8>, directive: Directive) -> Result<(), CodecError> {
        let mut from = z::ZSTD_inBuffer { src: input.as_ptr().cast(), size: input.len(), pos: 0 };
        let end = match directive {
            Directive::Continue => z::ZSTD_EndDirective::ZSTD_e_continue,
            Directive::Flush => z::ZSTD_EndDirective::ZSTD_e_flush,
        };
        loop {
            out.reserve(((input.len() - from.pos) / 2).max(64));
            let room = out.spare_capacity_mut();
            let mut to = z::ZSTD_outBuffer { dst: room.as_mut_ptr().cast(), size: room.len(), pos: 0 };
            // SAFETY: the context is live (X1). `from` describes `input`, which zstd only reads; `to` the spare
            // capacity of `out`, which zstd only writes. Both outlive the call, and zstd keeps no pointer into them:
            // its buffers are its own (X2).
            let result = unsafe { z::ZSTD_compressStream2(self.context.as_ptr(), &mut to, &mut from, end) };
            // SAFETY: zstd has written `to.pos` bytes, at most the room, from the old end of `out` on.
            unsafe { out.set_len(out.len() + to.pos) };
            let left = checked(result)?;
            let is_flushed = left == 0 || directive == Directive::Continue;
            if is_flushed && from.pos == input.len() {
                return Ok(());
            }
        }
    }

    /// The whole slot.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slot.bytes_count()
    }
}

fn checked(result: usize) -> Result<usize, CodecError> {
    // SAFETY: a function of its argument alone.
    if unsafe { z::ZSTD_isError(result) } == 0 { Ok(result) } else { Err(zstd_error(result)) }
}

/// Parameters in zstd's form, for estimates and contexts alike, so that both use the same.
struct Settings(NonNull<z::ZSTD_CCtx_params>);

impl Settings {
    fn new(params: ZstdParams) -> Result<Self, CodecError> {
        use z::ZSTD_cParameter as P;
        // SAFETY: makes a new object or returns null.
        let settings = Self(NonNull::new(unsafe { z::ZSTD_createCCtxParams() }).ok_or(CodecError::Memory)?);
        let (enable, disable) = (1, 2);
        for (name, value) in [
            (P::ZSTD_c_compressionLevel, params.level),
            (P::ZSTD_c_windowLog, params.window_log as c_int),
            (P::ZSTD_c_chainLog, params.chain_log as c_int),
            (P::ZSTD_c_hashLog, params.hash_log as c_int),
            // Magicless; ZSTD_c_format.
            (P::ZSTD_c_experimentalParam2, 1),
            // ZSTD_c_maxBlockSize.
            (P::ZSTD_c_experimentalParam18, params.block_bytes_max as c_int),
            // ZSTD_c_useRowMatchFinder, as zstd would choose for itself. The estimate does not know that choice, and
            // would be a fifth too large.
            (P::ZSTD_c_experimentalParam14, if has_rows(params) { enable } else { disable }),
            // zstd would choose it for the largest windows, and the sum does not know that either.
            (P::ZSTD_c_enableLongDistanceMatching, disable),
            (P::ZSTD_c_contentSizeFlag, 0),
            (P::ZSTD_c_checksumFlag, 0),
            (P::ZSTD_c_dictIDFlag, 0),
        ] {
            // SAFETY: the settings are live.
            checked(unsafe { z::ZSTD_CCtxParams_setParameter(settings.0.as_ptr(), name, value) })?;
        }
        Ok(settings)
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // SAFETY: made in `new`, freed once. Contexts have copied what they need.
        unsafe { z::ZSTD_freeCCtxParams(self.0.as_ptr()) };
    }
}

/// Whether zstd uses its row match finder for these parameters: with its middle strategies and windows over 16 KiB.
fn has_rows(params: ZstdParams) -> bool {
    // SAFETY: a function of its arguments alone.
    let defaults = unsafe { z::ZSTD_getCParams(params.level, 0, 0) };
    let first = z::ZSTD_strategy::ZSTD_greedy as u32;
    let last = z::ZSTD_strategy::ZSTD_lazy2 as u32;
    (first..=last).contains(&(defaults.strategy as u32)) && params.window_log > 14
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_slab::{Budget, Pool};
    use std::sync::Arc;

    /// Estimates are exact: contexts stay within them, and they are never too small.
    #[test]
    fn x1_contexts_stay_within_their_sum() {
        let base = ZstdParams::default();
        let mut all = vec![base, base.upgraded().unwrap()];
        for level in -3..=19 {
            for (window_log, log, block) in
                [(10, 6, 1 << 10), (14, 12, 4 << 10), (15, 18, 128 << 10), (18, 16, 4 << 10)]
            {
                let params = ZstdParams { level, window_log, chain_log: log, hash_log: log, block_bytes_max: block };
                all.push(params);
            }
        }
        for params in all {
            let bytes = slot_bytes(params).unwrap();
            let pool = Pool::new(bytes + 4096, Arc::new(Budget::new(u64::MAX)));
            let mut slot = pool.open().unwrap();
            slot.bytes_mut().fill(0xC7);
            let base = slot.as_mut_ptr();
            // SAFETY: `slot` lives in the context below; zstd is passed its first `bytes` bytes only.
            let context = unsafe { z::ZSTD_initStaticCStream(base.cast(), bytes) };
            let settings = Settings::new(params).unwrap();
            let context = NonNull::new(context).unwrap();
            // SAFETY: as in `new`.
            checked(unsafe { z::ZSTD_CCtx_setParametersUsingCCtxParams(context.as_ptr(), settings.0.as_ptr()) })
                .unwrap();
            let mut stream = ZstdContext { context, slot };
            let mut out = Vec::new();
            for round in 0..12u32 {
                let message: Vec<u8> =
                    (0..9_000 * round).map(|n| (n % 1_009 * (n % 1_009) % 251) as u8 ^ round as u8).collect();
                stream
                    .compress(&message, &mut out, Directive::Flush)
                    .unwrap_or_else(|error| panic!("{params:?}: {error}"));
            }
            assert!(stream.slot.bytes_mut()[bytes..].iter().all(|byte| *byte == 0xC7), "{params:?}");
        }
    }

    /// Size that a node accounts for by default, and the addition of an upgrade.
    #[test]
    fn the_published_tuning_has_a_known_size() {
        let base = ZstdParams::default();
        let [base, up] = [base, base.upgraded().unwrap()].map(|params| slot_bytes(params).unwrap());
        assert_eq!((base, up), (709_777, 1_299_601));
    }

    #[test]
    fn a_slot_that_is_too_small_is_an_error_and_comes_back() {
        let budget = Arc::new(Budget::new(u64::MAX));
        for bytes in [4096, 256 << 10] {
            let pool = Pool::new(bytes, budget.clone());
            let made = ZstdContext::new(ZstdParams::default(), pool.open().unwrap());
            let used = made.and_then(|mut context| context.compress(b"x", &mut Vec::new(), Directive::Flush));
            assert!(used.is_err());
        }
        assert_eq!(budget.bytes(), 0);
    }
}
