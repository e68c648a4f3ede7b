//! Hash index of a domain's bodies: the two newest positions of each of two hashes, as zstd's `dfast` has them.
//!
//! Owns        two hash tables of one domain: of a position's first eight bytes, and of its first five.
//! Method      an entry is a position in the ring, and above it as many more bits of the hash as there is room for (its
//!             tag). So the ring, which is mostly cold memory, is looked at only where the bytes are probably the same.
//! Invariants  the index depends on bodies of the domain alone. An entry is a hint: a newer body may have
//!             overwritten the bytes at its position, so the search compares them.
//! Limits      as many bytes as the domain's ring. A tag has 22 bits in the smallest ring and 4 in one of 256 MiB.

use guildhall_prefetch::prefetch;

/// Bytes that a position's two hashes are of.
pub const LONG_BYTES: usize = 8;
pub const SHORT_BYTES: usize = 5;
/// Positions that are kept per hash, newest first.
pub const WAYS: usize = 2;
/// Bytes of the ring per slot of each table, as a power of two.
const SLOT_POSITIONS_LOG: u32 = 4;
/// Distance between two positions of a body that are inserted into each table. The search extends matches backwards
/// over the gap.
const LONG_STEP: usize = 4;
const SHORT_STEP: usize = 3;
/// The same for a body with a recipient or a few, into both tables: half of the inserts for 2 % of the bytes.
const SPARSE_STEP: usize = 6;
/// Positions whose slots are prefetched before they are written to.
const BATCH: usize = 16;

/// Where a byte is in its domain's ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position(u32);

impl Position {
    /// Of an address, in a ring of `capacity` bytes.
    #[inline]
    pub fn of(address: u64, capacity: usize) -> Self {
        Self(address as u32 & (capacity - 1) as u32)
    }

    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// How far behind another one, in a ring of `capacity` bytes.
    #[inline]
    pub fn behind(self, other: Self, capacity: usize) -> u32 {
        self.0.wrapping_sub(other.0) & (capacity - 1) as u32
    }
}

/// The bytes at a position as a number; zeros behind the last.
#[inline]
pub fn eight_at(bytes: &[u8], at: usize) -> u64 {
    match bytes[at..].first_chunk() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => bytes[at..].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)),
    }
}

/// Slot of a hash, and the entry of position 0 there.
#[derive(Clone, Copy, Default)]
struct Key {
    slot: usize,
    tag: u32,
}

/// How large the tables are, and what their entries consist of.
#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    /// Slots of a table, as a power of two.
    slots_log: u32,
    /// Bits of an entry that are its position.
    position_mask: u32,
}

impl Layout {
    #[inline]
    fn key(self, hash: u64) -> Key {
        let tag = (hash << self.slots_log >> 32) as u32 & !self.position_mask;
        Key { slot: (hash >> (64 - self.slots_log)) as usize, tag }
    }

    /// Of the first eight bytes.
    #[inline]
    fn long(self, eight: u64) -> Key {
        self.key(eight.wrapping_mul(0xCF1B_BCDC_B7A5_6463))
    }

    /// Of the first five of them.
    #[inline]
    fn short(self, eight: u64) -> Key {
        self.key((eight << (64 - 8 * SHORT_BYTES)).wrapping_mul(0x9E37_79B1_85EB_CA87))
    }

    /// The address of an entry's position: the newest before `end`, for older bytes there were overwritten.
    fn address(self, entry: u32, end: u64) -> u64 {
        let newest = end.wrapping_sub(1);
        newest.wrapping_sub(newest.wrapping_sub(entry.into()) & u64::from(self.position_mask))
    }
}

/// Calls `put` with the slots of every `step`-th position of a body that has eight bytes: for each of a batch first
/// without the position, to prefetch, then with it.
#[inline(always)]
fn in_batches<S: Copy + Default>(
    body: &[u8],
    step: usize,
    keys_of: impl Fn(u64) -> S,
    mut put: impl FnMut(S, Option<usize>),
) {
    let end = (body.len() + 1).saturating_sub(LONG_BYTES);
    let mut batch = [S::default(); BATCH];
    for first in (0..end).step_by(step * BATCH) {
        let count = (end - first).div_ceil(step).min(BATCH);
        for (index, keys) in batch[..count].iter_mut().enumerate() {
            *keys = keys_of(eight_at(body, first + step * index));
            put(*keys, None);
        }
        for (index, keys) in batch[..count].iter().enumerate() {
            put(*keys, Some(first + step * index));
        }
    }
}

/// See the module. Without a ring it is empty.
#[derive(Debug, Default)]
pub struct HashIndex {
    long: Vec<[u32; WAYS]>,
    short: Vec<[u32; WAYS]>,
    layout: Layout,
}

impl HashIndex {
    /// An empty index for a ring of `capacity` bytes, a power of two from 2^10 to 2^28.
    pub fn new(capacity: usize) -> Self {
        if capacity == 0 {
            return Self::default();
        }
        let slots_log = capacity.ilog2() - SLOT_POSITIONS_LOG;
        let table = || vec![[0; WAYS]; 1 << slots_log];
        let layout = Layout { slots_log, position_mask: capacity as u32 - 1 };
        Self { long: table(), short: table(), layout }
    }

    /// Makes the tables as large as for a ring of `capacity` bytes; keeps positions of the addresses from `begin` to
    /// `end`. Nothing is hashed again: a slot and a tag together are as many bits of the hash, whatever the size.
    pub fn resize(&mut self, capacity: usize, begin: u64, end: u64) {
        let old = std::mem::replace(self, Self::new(capacity));
        let layout = self.layout;
        let entry_of = |slot: usize, entry: u32| {
            let address = old.layout.address(entry, end);
            let is_kept = entry != 0 && (begin..end).contains(&address);
            is_kept.then(|| {
                let tag = u64::from(entry & !old.layout.position_mask) << 32 >> old.layout.slots_log;
                let key = layout.key((slot as u64) << (64 - old.layout.slots_log) | tag);
                (key, address)
            })
        };
        let put = |table: &mut [[u32; WAYS]], key: Key, address: u64| {
            let slot = &mut table[key.slot];
            let entry = key.tag | Position::of(address, capacity).0;
            let [newest, second] = slot.map(|entry| if entry == 0 { 0 } else { layout.address(entry, end) });
            if address > newest {
                *slot = [entry, slot[0]];
            } else if address > second && address != newest {
                slot[1] = entry;
            }
        };
        for (from, to) in [(&old.long, &mut self.long), (&old.short, &mut self.short)] {
            for (slot, entries) in from.iter().enumerate() {
                let kept = entries.iter().rev().filter_map(|entry| entry_of(slot, *entry));
                kept.for_each(|(key, address)| put(to, key, address));
            }
        }
    }

    /// Inserts positions of a body that begins at `begin`. A slot keeps one position of it.
    pub fn insert(&mut self, body: &[u8], begin: Position, is_sparse: bool) {
        if self.long.is_empty() {
            return;
        }
        let layout = self.layout;
        let put = |slot: &mut [u32; WAYS], tag: u32, at: usize| {
            // This body has overwritten positions of the last round.
            if slot[0].wrapping_sub(begin.0) & layout.position_mask >= at as u32 {
                slot[1] = slot[0];
            }
            slot[0] = tag | (begin.0 + at as u32);
        };
        if is_sparse {
            in_batches(
                body,
                SPARSE_STEP,
                |eight| [layout.long(eight), layout.short(eight)],
                |[long, short], at| match at {
                    None => {
                        prefetch(&self.long[long.slot]);
                        prefetch(&self.short[short.slot]);
                    }
                    Some(at) => {
                        put(&mut self.long[long.slot], long.tag, at);
                        put(&mut self.short[short.slot], short.tag, at);
                    }
                },
            );
            return;
        }
        in_batches(
            body,
            LONG_STEP,
            |eight| layout.long(eight),
            |long, at| match at {
                None => prefetch(&self.long[long.slot]),
                Some(at) => put(&mut self.long[long.slot], long.tag, at),
            },
        );
        in_batches(
            body,
            SHORT_STEP,
            |eight| layout.short(eight),
            |short, at| match at {
                None => prefetch(&self.short[short.slot]),
                Some(at) => put(&mut self.short[short.slot], short.tag, at),
            },
        );
    }

    /// Positions with, probably, the same eight bytes, then those with the same five.
    #[inline]
    pub fn look_up(&self, eight: u64) -> [Option<Position>; 2 * WAYS] {
        if self.long.is_empty() {
            return [None; 2 * WAYS];
        }
        let (long, short) = (self.layout.long(eight), self.layout.short(eight));
        let position = |key: Key, entry: u32| {
            let position = entry ^ key.tag;
            (position <= self.layout.position_mask).then_some(Position(position))
        };
        let ([a, b], [c, d]) = (self.long[long.slot], self.short[short.slot]);
        [position(long, a), position(long, b), position(short, c), position(short, d)]
    }

    /// Prefetches the slots that `look_up` reads.
    #[inline]
    pub fn prefetch(&self, eight: u64) {
        if !self.long.is_empty() {
            prefetch(&self.long[self.layout.long(eight).slot]);
            prefetch(&self.short[self.layout.short(eight).slot]);
        }
    }

    /// Heap of an index for a ring of `capacity` bytes.
    pub fn bytes_of(capacity: usize) -> usize {
        2 * size_of::<[u32; WAYS]>() * (capacity >> SLOT_POSITIONS_LOG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::Rng;

    /// Addresses of bodies whose beginning is found.
    fn found(index: &HashIndex, bodies: &[(u64, Vec<u8>)], capacity: usize) -> Vec<u64> {
        let is_found = |(address, body): &&(u64, Vec<u8>)| {
            index.look_up(eight_at(body, 0)).contains(&Some(Position::of(*address, capacity)))
        };
        bodies.iter().filter(is_found).map(|(address, _)| *address).collect()
    }

    /// Bodies in a ring that is smaller and larger by turns: a larger index finds all that the smaller one did.
    #[test]
    fn a_larger_index_knows_the_same_positions() {
        const BODY_BYTES: u64 = 64;
        let mut rng = Rng::new(7);
        let mut capacity = 1 << 12;
        let mut index = HashIndex::new(capacity);
        let mut bodies: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut end = BODY_BYTES;
        for step in 0..2_000 {
            if step % 40 == 39 {
                let is_larger = step % 80 == 39;
                let before = found(&index, &bodies, capacity);
                capacity = if is_larger { 2 * capacity } else { capacity / 2 };
                bodies.retain(|(address, _)| address + capacity as u64 >= end);
                index.resize(capacity, bodies.first().map_or(end, |(address, _)| *address), end);
                let after = found(&index, &bodies, capacity);
                assert!(before.len() >= 24, "{} of {}", before.len(), bodies.len());
                assert!(!is_larger || before.iter().all(|address| after.contains(address)), "{before:?} {after:?}");
                assert!(after.len() >= 16, "{} of {}", after.len(), bodies.len());
            }
            let body: Vec<u8> = (0..BODY_BYTES).map(|_| rng.next_u64() as u8).collect();
            index.insert(&body, Position::of(end, capacity), step % 3 == 0);
            bodies.push((end, body));
            end += BODY_BYTES;
            bodies.retain(|(address, _)| address + capacity as u64 >= end);
            let found = found(&index, &bodies, capacity);
            assert!(found.len() * 3 > bodies.len() || bodies.len() < 20, "{} of {}", found.len(), bodies.len());
        }
    }

    #[test]
    fn tags_reject_most_other_bytes_with_the_same_slot() {
        let mut rng = Rng::new(8);
        let mut index = HashIndex::new(1 << 20);
        let body: Vec<u8> = (0..200_000).map(|_| rng.next_u64() as u8).collect();
        index.insert(&body, Position::of(64, 1 << 20), false);
        let wrong = (0..10_000).flat_map(|_| index.look_up(rng.next_u64())).flatten().count();
        // Of 40,000 entries, most of them not empty, one in 2^12.
        assert!(wrong < 40, "{wrong}");
    }
}
