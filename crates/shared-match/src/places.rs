//! Places: where in the history some bytes stood before, found by a look at two lines of memory.
//!
//! Owns        the index of four bytes and that of eight in one domain; how bytes at a place are compared to others.
//! Limits      the `SHORT_PLACES` and `LONG_PLACES` newest of each hash; three quarters as much memory as the history.

use guildhall_prefetch::prefetch;
use std::ops::Range;

/// Number of buckets, as a power of two: one per this many positions, so that the index is three quarters as large
/// as the history, ...
const BUCKET_POSITIONS_LOG: u32 = 7;
/// ... within these.
const HASH_LOG_MIN: u32 = 3;
const HASH_LOG_MAX: u32 = 20;
/// Places that it knows of four equal bytes, and of eight in one domain.
const SHORT_PLACES: usize = 8;
const LONG_PLACES: usize = 16;
const LONG_FROM: usize = SHORT_PLACES + 1;
const PLACES_ROOM: usize = 32;
const _: () = assert!(LONG_FROM + LONG_PLACES < PLACES_ROOM);
/// Fewest equal bytes that the index finds.
pub const FOUND_BYTES_MIN: usize = 4;

/// Where bytes stood before, newest first.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// Those of four equal bytes, an end, and from `LONG_FROM` on those of eight in the domain, and an end.
    all: [Place; PLACES_ROOM],
}

impl Places {
    const NONE: Self = Self { all: [Place::END; PLACES_ROOM] };

    /// Those from `oldest` on.
    #[inline]
    pub fn newest_first(&self, oldest: Place) -> impl Iterator<Item = Place> {
        let (mut short, mut long) = (0, LONG_FROM);
        std::iter::from_fn(move || {
            // None of both is beyond its end.
            let (one, other) = (self.all[short % PLACES_ROOM], self.all[long % PLACES_ROOM]);
            let newest = one.max(other);
            short += usize::from(one == newest);
            long += usize::from(other == newest);
            (newest >= oldest && newest != Place::END).then_some(newest)
        })
    }
}

/// See the module.
#[derive(Debug)]
pub struct Index {
    /// Places where four equal bytes begin.
    short: Buckets<SHORT_PLACES>,
    /// Places where eight equal bytes begin.
    long: Buckets<LONG_PLACES>,
}

impl Index {
    /// For a history of `room` bytes.
    pub fn new(room: usize) -> Self {
        let hash_log =
            (room.max(1).ilog2().max(BUCKET_POSITIONS_LOG) - BUCKET_POSITIONS_LOG).clamp(HASH_LOG_MIN, HASH_LOG_MAX);
        Self { short: Buckets::new(hash_log), long: Buckets::new(hash_log) }
    }

    /// Candidate earlier positions for the bytes at each position of `range` of a text; of those with four equal bytes
    /// only the newest few. Inserts the positions of `range` as newest. Call once per position, in order; the text
    /// starts at `begin`, behind everything linked before.
    ///
    /// Takes a range, so that all memory accesses are prefetched before the first one waits.
    pub fn link(
        &mut self,
        (text, begin): (&[u8], Place),
        range: Range<usize>,
        short_max: usize,
        found: &mut Vec<Places>,
    ) {
        for at in range.clone() {
            self.prefetch(text, at);
        }
        found.clear();
        found.extend(range.map(|at| {
            let mut places = Places::NONE;
            let place = Place(begin.0 + at as u32);
            if let Some(four) = four(text, at) {
                self.short.link(u64::from(four), (begin, place), &mut places.all);
                places.all[short_max.min(SHORT_PLACES)] = Place::END;
            }
            if let Some(eight) = eight(text, at) {
                self.long.link(eight, (begin, place), &mut places.all[LONG_FROM..]);
            }
            places
        }));
    }

    /// Where the bytes at each position of `range` of a text stood before, as [`Index::link`] finds them; the text is not indexed.
    pub fn look_up(&self, text: &[u8], range: Range<usize>, short_max: usize, found: &mut Vec<Places>) {
        range.clone().for_each(|at| self.prefetch(text, at));
        found.clear();
        found.extend(range.map(|at| {
            let mut places = Places::NONE;
            if let Some(four) = four(text, at) {
                self.short.look_up(u64::from(four), &mut places.all);
                places.all[short_max.min(SHORT_PLACES)] = Place::END;
            }
            if let Some(eight) = eight(text, at) {
                self.long.look_up(eight, &mut places.all[LONG_FROM..]);
            }
            places
        }));
    }

    #[inline]
    fn prefetch(&self, text: &[u8], at: usize) {
        four(text, at).into_iter().for_each(|four| self.short.prefetch(u64::from(four)));
        eight(text, at).into_iter().for_each(|eight| self.long.prefetch(eight));
    }

    /// Heap it holds, whether touched or not.
    pub fn heap_bytes(&self) -> usize {
        size_of_val(&*self.short.0) + size_of_val(&*self.long.0)
    }
}

/// The `WAYS` newest places of every hash. One look at memory finds them all; chains would take one per place.
///
/// Numbers of places: zeros are mapped when they are touched.
#[derive(Debug)]
struct Buckets<const WAYS: usize>(Vec<[u32; WAYS]>);

impl<const WAYS: usize> Buckets<WAYS> {
    fn new(hash_log: u32) -> Self {
        Self(vec![[0; WAYS]; 1 << hash_log])
    }

    /// The places of a key in front of an end; `place` stands in front of them the next time, instead of one in the same text,
    /// which begins at `begin`.
    #[inline]
    fn link(&mut self, key: u64, (begin, place): (Place, Place), found: &mut [Place]) {
        self.look_up(key, found);
        let index = self.index(key);
        let bucket = &mut self.0[index];
        if bucket[0] < begin.0 {
            bucket.copy_within(..WAYS - 1, 1);
        }
        bucket[0] = place.0;
    }

    /// The places of a key in front of an end.
    #[inline]
    fn look_up(&self, key: u64, found: &mut [Place]) {
        for (found, number) in found.iter_mut().zip(&self.0[self.index(key)]) {
            *found = Place(*number);
        }
    }

    #[inline]
    fn index(&self, key: u64) -> usize {
        let mixed = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> (64 - self.0.len().ilog2())) as usize
    }

    /// Asks memory for what `link` will look at.
    #[inline]
    fn prefetch(&self, key: u64) {
        prefetch(&self.0[self.index(key)]);
    }
}

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

    /// Advances by one byte.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
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

    /// Asks memory for what stands at a place.
    #[inline]
    pub fn prefetch(self, place: Place) {
        prefetch(&self.ring[self.index(place)]);
    }

    /// Whether the bytes at a place may equal more of what is wanted than what is to be beaten.
    #[inline]
    pub fn may_beat(self, beaten: Beaten, place: Place) -> bool {
        beaten.is_in(self.ring, self.index(place))
    }

    /// So many bytes from a place on, all of them of one text.
    #[inline]
    pub fn bytes(self, place: Place, count: u32) -> &'a [u8] {
        let start = self.index(place);
        &self.ring[start..start + count as usize]
    }
}

/// The last four of the bytes that something has to equal to be longer than what was found already.
#[derive(Clone, Copy, Debug)]
pub struct Beaten {
    four: u32,
    from: usize,
}

impl Beaten {
    /// Whether these bytes are in `bytes`, behind a match that begins at `at`.
    #[inline]
    pub fn is_in(self, bytes: &[u8], at: usize) -> bool {
        four(bytes, at + self.from).is_some_and(|four| four == self.four)
    }

    /// `length` bytes of `wanted` were found; `wanted` has at least `FOUND_BYTES_MIN` bytes.
    #[inline]
    pub fn new(wanted: &[u8], length: u32) -> Self {
        let from = (length as usize + 1).saturating_sub(FOUND_BYTES_MIN);
        match four(wanted, from) {
            Some(four) => Self { four, from },
            // Nothing is longer than all of it.
            None => Self { four: 0, from: usize::MAX / 2 },
        }
    }
}

/// A slot for the first four bytes, in a table of a power of two of slots.
#[inline]
pub fn hash_of_four(bytes: &[u8], table_log: u32) -> usize {
    let four = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    (four.wrapping_mul(0x9E37_79B1) >> (32 - table_log)) as usize
}

#[inline]
fn four(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + FOUND_BYTES_MIN)?.try_into().ok()?))
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

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::Rng;

    /// Of a text that repeats itself a lot, at all of its positions.
    #[test]
    fn what_is_longer_is_never_passed_over() {
        let mut rng = Rng::new(5);
        let ring: Vec<u8> = (0..1 << 10).map(|_| b"ab"[rng.below(2) as usize]).collect();
        let kept = Kept::new(&ring);
        let (mut longer_count, mut passed_over_count) = (0, 0);
        for at in 512..ring.len() - FOUND_BYTES_MIN {
            let wanted = &ring[at..];
            for address in 1..at {
                let place = Place::of(address as u64);
                let equal = equal_bytes(wanted, kept.bytes(place, (ring.len() - address) as u32));
                for beaten in (0..12).filter(|beaten| *beaten <= wanted.len()) {
                    let may_beat = kept.may_beat(Beaten::new(wanted, beaten as u32), place);
                    let is_longer = equal > beaten && equal >= FOUND_BYTES_MIN;
                    assert!(may_beat || !is_longer, "{equal} bytes at {address} beat {beaten}");
                    longer_count += usize::from(is_longer);
                    passed_over_count += usize::from(!may_beat);
                }
            }
        }
        assert!(longer_count > 10_000 && passed_over_count > 1_000_000, "{longer_count} {passed_over_count}");
    }

    #[test]
    fn places_come_newest_first_and_once_and_never_of_the_same_text_twice() {
        let mut index = Index::new(1 << 16);
        let mut found = Vec::new();
        // Each text is the same bytes, at which the last but one stands twice.
        let texts: Vec<Place> = (1..=12).map(|text| Place::of(text * 64)).collect();
        for begin in &texts {
            index.link((b"12345678 12345678", *begin), 0..17, usize::MAX, &mut found);
        }
        let of_four: Vec<Place> = found[9].newest_first(Place::END).collect();
        let second = |begin: &Place| Place(begin.0 + 9);
        // The text itself from its first bytes on, then those before it, of which only the second place is kept.
        let expected: Vec<Place> = std::iter::once(texts[11]).chain(texts[..11].iter().rev().map(second)).collect();
        assert_eq!(of_four, expected);
        index.look_up(b"12345670", 0..8, 2, &mut found);
        let of_four: Vec<Place> = found[0].newest_first(Place::END).collect();
        assert_eq!(
            of_four,
            texts[10..].iter().rev().map(second).collect::<Vec<_>>(),
            "two of four bytes, none of eight"
        );
    }
}
