//! Steps: counts how many items a thread visited or copied, for tests of asymptotic cost.
//!
//! Doors       `count_steps` in structures that can be large; `steps_taken` before and after the measured code.
//! Invariants  release builds count nothing, at no cost.

/// Adds steps of this thread, in debug builds.
#[inline]
pub fn count_steps(count: u64) {
    #[cfg(debug_assertions)]
    STEPS.set(STEPS.get().wrapping_add(count));
    #[cfg(not(debug_assertions))]
    let _ = count;
}

/// Steps of this thread so far; 0 in release builds.
#[must_use]
pub fn steps_taken() -> u64 {
    #[cfg(debug_assertions)]
    return STEPS.get();
    #[cfg(not(debug_assertions))]
    0
}

#[cfg(debug_assertions)]
std::thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}
