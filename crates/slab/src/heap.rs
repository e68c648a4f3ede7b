//! Mapping for systems without `madvise`: whole slabs from the global allocator.
//!
//! Owns        one allocation from construction to drop.
//! Invariants  as `mapping.rs`, but pages are freed only with their slab: `discard` always fails.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    io,
    ptr::NonNull,
};

/// Slots are rounded up to a multiple of this.
pub(crate) fn page_bytes() -> usize {
    16 << 10
}

pub(crate) struct Mapping {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: this value owns the allocation, may free it on any thread, and does not read through it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `bytes` zeroed bytes, page-aligned.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        assert!(bytes > 0 && bytes.is_multiple_of(page_bytes()), "a mapping is whole pages");
        let layout = Layout::from_size_align(bytes, page_bytes()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, layout })
    }

    /// Address of `offset` in the mapping; at least `bytes` of the mapping follow.
    pub(crate) fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.layout.size()), "a slot lies in its slab");
        // SAFETY: the result is within the allocation.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `new` with this layout and is freed once; no slot of it is in use (S4).
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// # Safety
/// None needed here; see `mapping.rs`.
pub(crate) unsafe fn populate(_: NonNull<u8>, _: usize) -> io::Result<()> {
    Ok(())
}

/// # Safety
/// None needed here; see `mapping.rs`.
///
/// # Errors
/// On every call: heap memory has no pages to return.
pub(crate) unsafe fn discard(_: NonNull<u8>, _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
