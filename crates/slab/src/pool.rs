//! Pool: slots of one size, usable from any thread.

use crate::{
    SlabError,
    budget::Budget,
    mapping::{self, Mapping},
    slabs::{Place, SLOTS_MAX, Slabs},
};
use std::{
    fmt, io,
    ptr::NonNull,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Approximate size of a slab. Large, so that a node with many slots has few mappings (Linux allows 65,530).
const SLAB_BYTES: usize = 16 << 20;

/// Slots of one size. Clones share the pool.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    slot_bytes: usize,
    slots_per_slab: u32,
    budget: Arc<Budget>,
    slabs: Mutex<Slabs>,
    opened_total: AtomicU64,
    refused_total: AtomicU64,
    kept_total: AtomicU64,
}

/// Accounting of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes per slot, a multiple of the page size.
    pub slot_bytes: u64,
    /// Slots per slab.
    pub slots_per_slab: u32,
    /// Slots in use.
    pub slots_used: u64,
    /// Mapped slabs.
    pub slabs_count: u64,
    /// Resident bytes: of used slots, and of free slots whose pages the system did not take.
    pub resident_bytes: u64,
    /// Mapped address space; most of the part that is not resident costs nothing.
    pub mapped_bytes: u64,
    /// Slots opened since the start.
    pub opened_total: u64,
    /// Failed opens: the budget was used up, or the system refused memory.
    pub refused_total: u64,
    /// Dropped slots whose pages the system did not take.
    pub kept_total: u64,
}

impl Pool {
    /// A pool of slots of at least `slot_bytes`, rounded up to whole pages. It uses no memory before the first slot.
    ///
    /// # Panics
    /// When `slot_bytes` is 0 or close to the size of the address space.
    #[must_use]
    pub fn new(slot_bytes: usize, budget: Arc<Budget>) -> Self {
        assert!(slot_bytes > 0 && slot_bytes <= isize::MAX as usize / 2, "a slot of {slot_bytes} bytes");
        let slot_bytes = slot_bytes.next_multiple_of(mapping::page_bytes());
        let slots_per_slab = (SLAB_BYTES / slot_bytes).clamp(1, SLOTS_MAX as usize) as u32;
        let slabs = Mutex::new(Slabs::new(slots_per_slab));
        let (opened_total, refused_total, kept_total) = Default::default();
        let shared = Shared { slot_bytes, slots_per_slab, budget, slabs, opened_total, refused_total, kept_total };
        Self { shared: Arc::new(shared) }
    }

    /// Bytes per slot.
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        self.shared.slot_bytes
    }

    /// Opens a slot, zeroed (S2) and resident (S3). Costs a page fault's work per page; not for hot paths.
    ///
    /// # Errors
    /// `Full`, `System`.
    pub fn open(&self) -> Result<Slot, SlabError> {
        let opened = self.try_open();
        let counter = if opened.is_ok() { &self.shared.opened_total } else { &self.shared.refused_total };
        counter.fetch_add(1, Ordering::Relaxed);
        opened
    }

    #[expect(unsafe_code, reason = "makes a slot's pages resident")]
    fn try_open(&self) -> Result<Slot, SlabError> {
        let shared = &self.shared;
        // Counted before the pages are resident, so that the accounting is never too low.
        shared.budget.reserve(shared.slot_bytes as u64)?;
        let taken = shared.take().inspect_err(|_| shared.budget.release(shared.slot_bytes as u64));
        let (base, place, was_resident) = taken.map_err(SlabError::System)?;
        let mut slot = Slot { shared: shared.clone(), base, place };
        if was_resident {
            // This slot was counted already.
            shared.budget.release(shared.slot_bytes as u64);
            slot.bytes_mut().fill(0);
            return Ok(slot);
        }
        // SAFETY: the slot's own pages, whole, zero since they were mapped or discarded; this call owns the slot.
        // On failure, dropping `slot` releases it.
        unsafe { mapping::populate(base, shared.slot_bytes) }.map_err(SlabError::System)?;
        Ok(slot)
    }

    /// Current accounting.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let shared = &self.shared;
        let slabs = shared.slabs();
        let (slots_used, slabs_count) = (slabs.used_count(), slabs.slabs_count() as u64);
        let resident_count = slabs.resident_count();
        drop(slabs);
        let slot_bytes = shared.slot_bytes as u64;
        PoolStats {
            slot_bytes,
            slots_per_slab: shared.slots_per_slab,
            slots_used,
            slabs_count,
            resident_bytes: resident_count * slot_bytes,
            mapped_bytes: slabs_count * u64::from(shared.slots_per_slab) * slot_bytes,
            opened_total: shared.opened_total.load(Ordering::Relaxed),
            refused_total: shared.refused_total.load(Ordering::Relaxed),
            kept_total: shared.kept_total.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

impl Shared {
    fn slabs(&self) -> MutexGuard<'_, Slabs> {
        self.slabs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> io::Result<(NonNull<u8>, Place, bool)> {
        let mut slabs = self.slabs();
        if !slabs.has_room() {
            slabs.add(Mapping::new(self.slot_bytes * self.slots_per_slab as usize)?);
        }
        let taken = slabs.take().expect("a slab with room was just added");
        let offset = taken.place.slot as usize * self.slot_bytes;
        let base = slabs.mapping(taken.place).at(offset, self.slot_bytes);
        Ok((base, taken.place, taken.was_resident))
    }
}

/// A block of memory that its holder owns exclusively. It is page-aligned and never moves.
pub struct Slot {
    shared: Arc<Shared>,
    base: NonNull<u8>,
    place: Place,
}

// SAFETY: a slot is the only access to its bytes (S1), and memory belongs to no thread; the pool that a drop
// returns it to is `Sync`.
#[expect(unsafe_code, reason = "a slot may change threads")]
unsafe impl Send for Slot {}

impl Slot {
    /// Start of the slot. The bytes may be read and written for as long as the slot lives.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes_count(&self) -> usize {
        self.shared.slot_bytes
    }

    /// The bytes of the slot.
    #[expect(unsafe_code, reason = "a slot as a slice")]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `slot_bytes` mapped, initialised (the system provides zeros) bytes that only this slot
        // accesses (S1). The slice borrows the slot, so nothing else accesses them, and the slab stays mapped
        // while the slot lives (S4).
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.shared.slot_bytes) }
    }
}

impl Drop for Slot {
    #[expect(unsafe_code, reason = "gives a slot's pages back")]
    fn drop(&mut self) {
        let shared = &self.shared;
        // SAFETY: the slot's own pages, whole, of a slab that stays mapped while the slot counts as used. `self` owns
        // the slot, and nothing reads it after this.
        let is_discarded = unsafe { mapping::discard(self.base, shared.slot_bytes) }.is_ok();
        let released = shared.slabs().release(self.place, is_discarded);
        if !is_discarded && released.emptied.is_none() {
            shared.kept_total.fetch_add(1, Ordering::Relaxed);
        }
        drop(released.emptied);
        // Subtracted after the pages are gone, so that the accounting is never too low.
        shared.budget.release(u64::from(released.discarded_count) * shared.slot_bytes as u64);
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("bytes_count", &self.bytes_count()).field("place", &self.place).finish()
    }
}
