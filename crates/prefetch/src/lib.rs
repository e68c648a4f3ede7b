//! Prefetch: asks memory for what will be read soon, and does not wait for it.
//!
//! Why         an event goes to thousands of connections, each of which has its own few lines of memory that nothing
//!             has touched since its last message. One after another, every line is waited for; asked for a few
//!             connections ahead, they come while others are written to. On a machine without the instruction it does
//!             nothing.
//! Safety      the instruction changes nothing that a program can see, and never faults, whatever the address; the
//!             address here is that of a value that is borrowed.
#![deny(unsafe_code)]

/// What memory hands out at once, on all machines this runs on.
const LINE_BYTES: usize = 64;
/// Of larger values only so many lines from the beginning are asked for.
const LINES_MAX: usize = 4;

/// Asks for a value, up to 256 bytes of it.
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

    /// There is nothing to see, so this is for tools that watch memory: a value of no bytes, one that ends within a
    /// line, one that is longer than what is asked for, and one at the end of an allocation.
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
