//! Mapping: pages allocated from the system and released to it.
//!
//! Owns        one private anonymous mapping from construction to drop.
//! Invariants  M1 only the holder of a slot reads or writes its bytes. The mapping itself accesses them only in
//!             `populate` and `discard`; their callers hold the slot.

use rustix::{
    io::Errno,
    mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap},
};
use std::{io, ptr::NonNull};

/// Slots are rounded up to a multiple of this.
pub(crate) fn page_bytes() -> usize {
    rustix::param::page_size()
}

pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this value reaches none of its bytes (M1).
unsafe impl Send for Mapping {}

impl Mapping {
    /// Reserves `bytes` of address space, none of it resident. `bytes` is a non-zero multiple of the page size.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        assert!(bytes > 0 && bytes.is_multiple_of(page_bytes()), "a mapping is whole pages");
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: no address is requested, so no memory in use is replaced.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }?;
        // SAFETY: advice about the mapping just made. It fails where huge pages are unknown; none are
        // used there anyway.
        let _ = unsafe { madvise(base, bytes, Advice::LinuxNoHugepage) };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, bytes })
    }

    /// Address of `offset` in the mapping; at least `bytes` of the mapping follow.
    pub(crate) fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes), "a slot lies in its slab");
        // SAFETY: the result is within the mapping, which is one allocation.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new` with this length and is unmapped once. No slot of it is in use: the pool drops
        // a slab only then (S4), and a slot holds the pool.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "the range of a mapping can be unmapped");
    }
}

/// Makes every page of a slot resident.
///
/// # Safety
/// The range is whole pages of a live `Mapping`, all zeros, and the caller has exclusive access to it.
pub(crate) unsafe fn populate(base: NonNull<u8>, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller's range; the advice keeps its contents.
    match unsafe { madvise(base.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) } {
        Ok(()) => Ok(()),
        // Linux before 5.14 does not know the advice.
        Err(Errno::INVAL) => {
            for offset in (0..bytes).step_by(page_bytes()) {
                // SAFETY: inside the caller's range, to which the caller has exclusive access; it is zero and stays so.
                unsafe { base.add(offset).write_volatile(0) };
            }
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Releases every page of a slot to the system; they read as zeros afterwards.
///
/// # Errors
/// When the system refuses, for example because the memory is locked: the pages stay resident with their content.
///
/// # Safety
/// The range is whole pages of a live `Mapping`, and the caller has exclusive access to it.
pub(crate) unsafe fn discard(base: NonNull<u8>, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller's range. On private anonymous memory the next read finds zeros, which are a valid `u8`.
    unsafe { madvise(base.as_ptr().cast(), bytes, Advice::LinuxDontNeed) }.map_err(io::Error::from)
}
