//! Places: positions in a domain's ring, and how bytes at a place are compared to others.

/// A position: its address, or 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(u32);

impl Place {
    /// None; older than any.
    pub const END: Self = Self(0);

    /// Of an address, which is not 0.
    pub fn of(address: u64) -> Self {
        Self(address as u32)
    }

    /// How far behind another one; a large number for one in front of it.
    #[inline]
    pub fn behind(self, other: Self) -> u32 {
        self.0.wrapping_sub(other.0)
    }

    /// Address of the position; 0 for `END`.
    #[inline]
    pub fn address(self) -> u64 {
        self.0.into()
    }
}

/// The bytes of all texts, by place.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    ring: &'a [u8],
    mask: usize,
}

impl<'a> Kept<'a> {
    /// Of a ring, as long as a power of two.
    #[inline]
    pub fn new(ring: &'a [u8]) -> Self {
        Self { ring, mask: ring.len() - 1 }
    }

    /// Where in the ring a place is.
    #[inline]
    fn index(self, place: Place) -> usize {
        place.0 as usize & self.mask
    }

    /// Whether the first four of `wanted` stand at a place, whatever is there now; yes if `wanted` has fewer.
    #[inline]
    pub fn begins_with(self, place: Place, wanted: &[u8]) -> bool {
        match (wanted.first_chunk::<4>(), self.ring.get(self.index(place)..).and_then(<[u8]>::first_chunk::<4>)) {
            (Some(wanted), Some(there)) => wanted == there,
            (_, None) => false,
            (None, _) => true,
        }
    }

    /// So many bytes from a place on, all of them of one text.
    #[inline]
    pub fn bytes(self, place: Place, count: u32) -> &'a [u8] {
        let start = self.index(place);
        &self.ring[start..start + count as usize]
    }
}

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
