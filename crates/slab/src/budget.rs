//! Budget: how many resident bytes several pools may have between them.

use crate::SlabError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts resident bytes against a bound that may be changed at any time. Lowering it takes nothing back: nothing new
/// is given until there is room again.
#[derive(Debug)]
pub struct Budget {
    bytes: AtomicU64,
    bytes_max: AtomicU64,
}

impl Budget {
    /// Nothing is used yet.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes: AtomicU64::new(0), bytes_max: AtomicU64::new(bytes_max) }
    }

    /// Resident bytes of all pools.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// What they may be.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Acquire)
    }

    /// Changes the bound.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Release);
    }

    /// Whether `bytes` more would fit now.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.bytes().saturating_add(bytes) <= self.bytes_max()
    }

    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), SlabError> {
        let bytes_max = self.bytes_max();
        let more = |used: u64| used.checked_add(bytes).filter(|total| *total <= bytes_max);
        let reserved = self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        reserved.map(drop).map_err(|_| SlabError::Full { bytes_max })
    }

    pub(crate) fn release(&self, bytes: u64) {
        let before = self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        assert!(before >= bytes, "more was given back than was taken");
    }
}
