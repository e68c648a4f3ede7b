//! The boundary to zlib: a stream as an owned value, stepped over slices.
//!
//! Owns        the `z_stream` (pinned on the heap: zlib's state points back at it) and the memory zlib allocates, which
//!             comes from a slot, or from the global allocator, and is counted.
//! Doors       `ZStream::deflate`, `::deflate_raw_in`, `::inflate`, then `step`; `deflate_bytes` is what a slot must
//!             hold.
//! Invariants  U1 the C structure is initialised from construction to drop, and freed once. U2 zlib sees only the
//!             caller's input slice and the spare capacity of the output vector, with their true lengths. U3 zlib's
//!             allocations within a slot are adjacent and aligned, and end before the slot does.
//! Not here    loops, flush rules, limits (zlib.rs).

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use guildhall_slab::Slot;
use libz_sys as z;

use crate::CodecError;

/// Flush mode of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Flush {
    No = z::Z_NO_FLUSH,
    Sync = z::Z_SYNC_FLUSH,
    Finish = z::Z_FINISH,
}

/// Result of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Input bytes taken.
    pub(super) consumed: usize,
    /// The room was used up: there may be more.
    pub(super) is_full: bool,
    /// The end of the stream was written or read.
    pub(super) is_end: bool,
}

type StepFn = unsafe extern "C" fn(z::z_streamp, c_int) -> c_int;
type EndFn = unsafe extern "C" fn(z::z_streamp) -> c_int;

/// A zlib stream, compressing or decompressing.
pub(super) struct ZStream {
    context: NonNull<Context>,
    step: StepFn,
    reset: EndFn,
    end: EndFn,
}

struct Context {
    stream: z::z_stream,
    /// zlib gets a pointer to this field.
    memory: Memory,
}

/// Source of zlib's memory.
struct Memory {
    /// None: the global allocator.
    slot: Option<Slot>,
    /// Allocated bytes; in a slot, those up to the end of the last allocation.
    allocated: usize,
    /// Bytes that all requests so far take in a slot.
    wanted: usize,
}

impl Memory {
    fn new(slot: Option<Slot>) -> Self {
        Self { slot, allocated: 0, wanted: 0 }
    }
}

// SAFETY: the context is reachable only through this value, its memory comes from a slot, which is `Send`, or from the
// global allocator, which any thread may use, and zlib keeps no thread-local state.
unsafe impl Send for ZStream {}

impl ZStream {
    /// A compressing stream with a zlib header; parameters must be in zlib's ranges.
    pub(super) fn deflate(level: u8, window_bits: u8, mem_level: u8) -> Result<Self, CodecError> {
        Self::deflate_with(Memory::new(None), level, window_bits.into(), mem_level)
    }

    /// The same without the header, the blocks alone, in a slot of at least `deflate_bytes` bytes.
    pub(super) fn deflate_raw_in(slot: Slot, level: u8, window_bits: u8, mem_level: u8) -> Result<Self, CodecError> {
        Self::deflate_with(Memory::new(Some(slot)), level, -c_int::from(window_bits), mem_level)
    }

    /// The same from the global allocator.
    pub(super) fn deflate_raw(level: u8, window_bits: u8, mem_level: u8) -> Result<Self, CodecError> {
        Self::deflate_with(Memory::new(None), level, -c_int::from(window_bits), mem_level)
    }

    fn deflate_with(memory: Memory, level: u8, window_bits: c_int, mem_level: u8) -> Result<Self, CodecError> {
        Self::new(z::deflate, z::deflateReset, z::deflateEnd, memory, |stream| {
            // SAFETY: `stream` points to a valid `z_stream` with allocation hooks set, at its final address; the size
            // is that of the structure libz-sys declares for the version it reports.
            unsafe {
                z::deflateInit2_(
                    stream,
                    level.into(),
                    z::Z_DEFLATED,
                    window_bits,
                    mem_level.into(),
                    z::Z_DEFAULT_STRATEGY,
                    z::zlibVersion(),
                    size_of::<z::z_stream>() as c_int,
                )
            }
        })
    }

    /// A decompressing stream for a zlib header and any window up to 32 KiB.
    pub(super) fn inflate() -> Result<Self, CodecError> {
        Self::inflate_with(15)
    }

    /// The same for the blocks alone.
    pub(super) fn inflate_raw() -> Result<Self, CodecError> {
        Self::inflate_with(-15)
    }

    fn inflate_with(window_bits: c_int) -> Result<Self, CodecError> {
        Self::new(z::inflate, z::inflateReset, z::inflateEnd, Memory::new(None), |stream| {
            // SAFETY: as in `deflate`.
            unsafe { z::inflateInit2_(stream, window_bits, z::zlibVersion(), size_of::<z::z_stream>() as c_int) }
        })
    }

    fn new(
        step: StepFn,
        reset: EndFn,
        end: EndFn,
        memory: Memory,
        init: impl FnOnce(z::z_streamp) -> c_int,
    ) -> Result<Self, CodecError> {
        let context = Box::into_raw(Box::new(Context {
            stream: z::z_stream {
                next_in: ptr::null_mut(),
                avail_in: 0,
                total_in: 0,
                next_out: ptr::null_mut(),
                avail_out: 0,
                total_out: 0,
                msg: ptr::null_mut(),
                state: ptr::null_mut(),
                zalloc: allocate,
                zfree: free,
                opaque: ptr::null_mut(),
                data_type: 0,
                adler: 0,
                reserved: 0,
            },
            memory,
        }));
        // SAFETY: `context` was just made and is not shared; only the address of the field is taken.
        unsafe { (*context).stream.opaque = (&raw mut (*context).memory).cast() };
        // SAFETY: a pointer to a field of a live allocation.
        let stream = unsafe { &raw mut (*context).stream };
        let code = init(stream);
        if code != z::Z_OK {
            // SAFETY: `context` came from `Box::into_raw` above; after a failed init zlib has freed what it took and
            // keeps no pointer.
            drop(unsafe { Box::from_raw(context) });
            return Err(match code {
                z::Z_MEM_ERROR => CodecError::Memory,
                code => CodecError::Zlib { code },
            });
        }
        // SAFETY: `Box::into_raw` never returns null.
        let context = unsafe { NonNull::new_unchecked(context) };
        Ok(Self { context, step, reset, end })
    }

    /// Runs zlib once over `input`, appending at most `room` bytes (at least 1) to `out`.
    pub(super) fn step(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        room: usize,
        flush: Flush,
    ) -> Result<Step, CodecError> {
        out.reserve(room);
        // zlib counts in 32 bits; the rest waits for the next step.
        let avail_in = u32::try_from(input.len()).unwrap_or(u32::MAX);
        let avail_out = u32::try_from(room).unwrap_or(u32::MAX);
        // SAFETY: the context is live (U1) and `&mut self` makes this the only access. Field by field through the raw
        // pointer, because zlib's state holds a copy of that pointer.
        let stream = unsafe { &raw mut (*self.context.as_ptr()).stream };
        // SAFETY: `stream` is initialised (U1). `next_in`/`avail_in` describe `input`, which zlib only reads;
        // `next_out`/`avail_out` lie within the capacity just reserved behind `out`'s contents, which zlib only writes
        // (or reads after writing). Both outlive the call, and zlib's pointers into them are not used after it.
        let code = unsafe {
            (*stream).next_in = input.as_ptr().cast_mut();
            (*stream).avail_in = avail_in;
            (*stream).next_out = out.as_mut_ptr().add(out.len());
            (*stream).avail_out = avail_out;
            (self.step)(stream, flush as c_int)
        };
        // SAFETY: as above, reading two counters of the live structure.
        let (left_in, left_out) = unsafe { ((*stream).avail_in, (*stream).avail_out) };
        let produced = (avail_out - left_out) as usize;
        // SAFETY: zlib has written `produced` bytes, at most `room`, from the old end of `out` on.
        unsafe { out.set_len(out.len() + produced) };
        match code {
            // Z_BUF_ERROR only means that this step could do nothing.
            z::Z_OK | z::Z_BUF_ERROR | z::Z_STREAM_END => Ok(Step {
                consumed: (avail_in - left_in) as usize,
                is_full: left_out == 0,
                is_end: code == z::Z_STREAM_END,
            }),
            z::Z_DATA_ERROR | z::Z_NEED_DICT => Err(CodecError::Corrupt),
            z::Z_MEM_ERROR => Err(CodecError::Memory),
            code => Err(CodecError::Zlib { code }),
        }
    }

    /// Resets to the initial state with the same parameters and memory.
    pub(super) fn reset(&mut self) {
        // SAFETY: the context is live (U1), and `reset` is the function for its kind. The result only reports whether
        // the structure is one of zlib's.
        unsafe { (self.reset)(&raw mut (*self.context.as_ptr()).stream) };
    }

    /// Sets the bytes that a raw deflate stream may refer to, right after a `reset`; the last 32 KiB count.
    pub(super) fn set_dictionary(&mut self, dictionary: &[u8]) -> Result<(), CodecError> {
        let dictionary = &dictionary[dictionary.len().saturating_sub(32 << 10)..];
        // SAFETY: the context is live (U1); zlib copies the slice during the call. On a stream of another kind it does
        // nothing but refuse.
        let code = unsafe {
            let stream = &raw mut (*self.context.as_ptr()).stream;
            z::inflateSetDictionary(stream, dictionary.as_ptr(), dictionary.len() as z::uInt)
        };
        match code {
            z::Z_OK => Ok(()),
            z::Z_MEM_ERROR => Err(CodecError::Memory),
            code => Err(CodecError::Zlib { code }),
        }
    }

    /// Whether a decompressing stream has read to the end of a block and nothing behind it.
    pub(super) fn is_between_blocks(&self) -> bool {
        // SAFETY: the context is live (U1); reading a field that zlib writes only inside calls that take `&mut self`.
        // zlib.h, `inflate`: 128 is set at the end of a block.
        unsafe { (*self.context.as_ptr()).stream.data_type & 128 != 0 }
    }

    fn memory(&self) -> &Memory {
        // SAFETY: the context is live (U1); zlib changes the field only inside calls that take `&mut self`.
        unsafe { &(*self.context.as_ptr()).memory }
    }

    /// Bytes zlib holds, the whole slot if it has one, and the structures around it.
    pub(super) fn memory_bytes(&self) -> usize {
        let memory = self.memory();
        memory.slot.as_ref().map_or(memory.allocated, Slot::bytes_count) + size_of::<Context>()
    }
}

/// Bytes of a slot that a compressing stream needs: found by making one.
pub(super) fn deflate_bytes(level: u8, window_bits: u8, mem_level: u8) -> Result<usize, CodecError> {
    let stream = ZStream::deflate_with(Memory::new(None), level, -c_int::from(window_bits), mem_level)?;
    Ok(stream.memory().wanted)
}

impl Drop for ZStream {
    fn drop(&mut self) {
        let context = self.context.as_ptr();
        // SAFETY: initialised once, ended once here; nothing uses it afterwards. The result only reports whether data
        // was left unflushed.
        unsafe { (self.end)(&raw mut (*context).stream) };
        // SAFETY: came from `Box::into_raw` in `new`, and zlib has released its pointers.
        drop(unsafe { Box::from_raw(context) });
    }
}

impl std::fmt::Debug for ZStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ZStream").field("memory_bytes", &self.memory_bytes()).finish_non_exhaustive()
    }
}

/// Room in front of each heap allocation for its size; 16 keeps the alignment `malloc` would give.
const HEADER_BYTES: usize = 16;

/// Allocations within a slot begin at a cache line.
const SLOT_ALIGN: usize = 64;

/// zlib's `zalloc`.
unsafe extern "C" fn allocate(opaque: *mut c_void, items: z::uInt, size: z::uInt) -> *mut c_void {
    // SAFETY: `opaque` is the memory of the context this call belongs to, and only one call runs on a context at a
    // time.
    let memory = unsafe { &mut *opaque.cast::<Memory>() };
    let Some(bytes) = (items as usize).checked_mul(size as usize).filter(|bytes| *bytes <= isize::MAX as usize / 2)
    else {
        return ptr::null_mut();
    };
    memory.wanted += bytes.next_multiple_of(SLOT_ALIGN);
    match &mut memory.slot {
        None => allocate_on_heap(&mut memory.allocated, bytes),
        Some(slot) => {
            // U3: the slot begins at a page, so what is aligned within it is aligned.
            let start = memory.allocated.next_multiple_of(SLOT_ALIGN);
            if start + bytes > slot.bytes_count() {
                return ptr::null_mut();
            }
            memory.allocated = start + bytes;
            // SAFETY: `start` is within the slot, at most at its end.
            unsafe { slot.as_mut_ptr().add(start).cast() }
        }
    }
}

fn allocate_on_heap(allocated: &mut usize, bytes: usize) -> *mut c_void {
    let Ok(layout) = Layout::from_size_align(bytes + HEADER_BYTES, HEADER_BYTES) else { return ptr::null_mut() };
    // SAFETY: the layout has at least the header's size.
    let base = unsafe { alloc(layout) };
    if base.is_null() {
        return ptr::null_mut();
    }
    *allocated += layout.size();
    // SAFETY: `base` has room and alignment for a `usize`, and `HEADER_BYTES` bytes in front of what zlib gets.
    unsafe {
        base.cast::<usize>().write(layout.size());
        base.add(HEADER_BYTES).cast()
    }
}

/// zlib's `zfree`. Memory in a slot is freed with the slot: zlib frees only when a stream ends.
unsafe extern "C" fn free(opaque: *mut c_void, address: *mut c_void) {
    // SAFETY: as in `allocate`.
    let memory = unsafe { &mut *opaque.cast::<Memory>() };
    if address.is_null() || memory.slot.is_some() {
        return;
    }
    // SAFETY: zlib frees only pointers that `allocate_on_heap` returned for the same context, so the header with the
    // size precedes it and the layout is the one it was allocated with.
    unsafe {
        let base = address.cast::<u8>().sub(HEADER_BYTES);
        let total = base.cast::<usize>().read();
        memory.allocated -= total;
        dealloc(base, Layout::from_size_align_unchecked(total, HEADER_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::zlib::write_for_test;
    use guildhall_slab::{Budget, Pool};
    use std::sync::Arc;

    /// Every allocation of zlib is in the slot, and no byte behind the last allocation changes.
    #[test]
    fn u3_requests_lie_side_by_side_in_the_slot() {
        for (level, window_bits, mem_level) in [(6, 15, 8), (9, 15, 9), (1, 9, 1), (6, 13, 5), (0, 12, 4)] {
            let bytes = deflate_bytes(level, window_bits, mem_level).unwrap();
            // A page more than needed, which must stay as it is.
            let pool = Pool::new(bytes + 4096, Arc::new(Budget::new(u64::MAX)));
            let mut slot = pool.open().unwrap();
            slot.bytes_mut().fill(0xC7);
            let mut stream = ZStream::deflate_raw_in(slot, level, window_bits, mem_level).unwrap();
            let mut out = Vec::new();
            for round in 0..40u8 {
                let message: Vec<u8> = (0..9_000u32).map(|n| (n % 251) as u8 ^ round).collect();
                write_for_test(&mut stream, &message, &mut out).unwrap();
            }
            assert!(stream.memory().allocated <= bytes);
            // SAFETY: the context is live, and nothing else uses its memory meanwhile.
            let memory = unsafe { &mut (*stream.context.as_ptr()).memory };
            let end = memory.allocated;
            assert!(memory.slot.as_mut().unwrap().bytes_mut()[end..].iter().all(|byte| *byte == 0xC7));
        }
    }

    /// The location of its memory has no effect on zlib's output.
    #[test]
    fn a_slot_changes_no_byte() {
        for (level, window_bits, mem_level) in [(6, 15, 8), (9, 9, 1), (1, 13, 5)] {
            let pool =
                Pool::new(deflate_bytes(level, window_bits, mem_level).unwrap(), Arc::new(Budget::new(u64::MAX)));
            let slot = pool.open().unwrap();
            let bits = -c_int::from(window_bits);
            let mut streams = [
                ZStream::deflate_raw_in(slot, level, window_bits, mem_level).unwrap(),
                ZStream::deflate_with(Memory::new(None), level, bits, mem_level).unwrap(),
            ];
            for round in 0..60u32 {
                let message: Vec<u8> = (0..4_000).map(|n| (n * round % 1_009 % 97) as u8).collect();
                let [ours, theirs] = streams.each_mut().map(|stream| {
                    let mut out = Vec::new();
                    write_for_test(stream, &message, &mut out).unwrap();
                    out
                });
                assert_eq!(ours, theirs);
            }
        }
    }

    #[test]
    fn a_slot_that_is_too_small_is_an_error_and_comes_back() {
        let budget = Arc::new(Budget::new(u64::MAX));
        let pool = Pool::new(4096, budget.clone());
        let result = ZStream::deflate_raw_in(pool.open().unwrap(), 6, 15, 8);
        assert!(matches!(result, Err(CodecError::Memory)));
        assert_eq!(budget.bytes(), 0);
    }
}
