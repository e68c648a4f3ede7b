//! Switch: turns the accounts off, to measure what they cost.
//!
//! Invariants  they are on unless a bench turns them off. Deliveries that happen while they are off are missing from
//!             all sums.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static IS_ON: AtomicBool = AtomicBool::new(true);

/// Whether the process keeps accounts.
#[inline]
#[must_use]
pub fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// Turns the accounts of the whole process on or off, for benches.
pub fn set_on(is_on: bool) {
    IS_ON.store(is_on, Relaxed);
}
