//! Prefetch: starts loading cache lines that will be read soon, without waiting.
//!
//! Why         an event goes to thousands of connections, each with a few cache lines that have gone
//! cold since its last
//!             event. Without prefetching the thread waits for each line in turn; prefetched a few connections ahead,
//!             they load while other connections are written. Does nothing on machines without the instruction.
//! Safety      the instruction has no visible effect and never faults, whatever the address; the address here is that
//!             of a borrowed value.
#![deny(unsafe_code)]

/// Size of a cache line on all supported machines.
const LINE_BYTES: usize = 64;
/// Only this many lines are prefetched, from the start of the value.
const LINES_MAX: usize = 4;

/// Prefetches up to 256 bytes of a value.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    for line in 0..size_of::<T>().div_ceil(LINE_BYTES).clamp(1, LINES_MAX) {
        prefetch_at(std::ptr::from_ref(value).cast::<u8>().wrapping_add(line * LINE_BYTES));
    }
}

#[inline(always)]
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the intrinsic takes an address")]
fn prefetch_at(address: *const u8) {
    // SAFETY: PREFETCHT0 is a hint: it faults on no address and changes no value. SSE is part of x86_64.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast()) }
}

#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
fn prefetch_at(_: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The effect is invisible, so this is for tools that watch memory: a zero-sized value, one that ends within a
    /// line, one longer than the limit, and one at the end of an allocation.
    #[test]
    fn values_are_left_as_they_are() {
        let long: Box<[u8; 1000]> = Box::new(std::array::from_fn(|index| index as u8));
        let last = vec![3u8; 65];
        prefetch(&());
        prefetch(&last[64]);
        prefetch(&*long);
        assert_eq!(last, vec![3; 65]);
        assert!(long.iter().enumerate().all(|(index, byte)| *byte == index as u8));
    }
}
