//! Budget: bound on the resident bytes of several pools.

use crate::SlabError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts resident bytes against a bound that can change at any time. Lowering it frees nothing; pools refuse new slots
/// until they are below it.
#[derive(Debug)]
pub struct Budget {
    bytes: AtomicU64,
    bytes_max: AtomicU64,
}

impl Budget {
    /// A budget with nothing used.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes: AtomicU64::new(0), bytes_max: AtomicU64::new(bytes_max) }
    }

    /// Resident bytes of all pools.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Bound on the resident bytes.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Acquire)
    }

    /// Changes the bound.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Release);
    }

    /// `bytes` more would fit now.
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
        assert!(before >= bytes, "more bytes released than reserved");
    }
}
