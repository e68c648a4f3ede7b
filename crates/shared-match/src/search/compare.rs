//! Comparing bytes, eight at a time.

/// The eight bytes from a position on.
#[inline]
pub fn eight(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

/// How many bytes are equal from the start of both.
#[inline]
pub fn equal_bytes(a: &[u8], b: &[u8]) -> usize {
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    let mut at = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let x = u64::from_le_bytes(x.try_into().expect("eight"));
        let y = u64::from_le_bytes(y.try_into().expect("eight"));
        if x != y {
            return at + (x ^ y).trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < length && a[at] == b[at] {
        at += 1;
    }
    at
}
