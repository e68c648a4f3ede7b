//! Slot map: slots that are reused, each time under a new generation.
//!
//! Invariants  an old key never finds a value that was inserted into its slot later. A value never moves. (tests)
//! Limits      2³² slots. Memory is that of the largest number of values ever held at once, and of up to `CHUNK_SLOTS`
//!             more; it never shrinks.

use crate::heap::{self, Sample};
use guildhall_prefetch::prefetch;

/// Key of a value: its slot and the generation of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotKey {
    /// Index of the slot.
    pub slot: u32,
    /// Incremented each time the slot is reused.
    pub generation: u32,
}

/// The generation comes first in memory, where `prefetch` begins: every look at a value reads it.
#[derive(Debug)]
#[repr(C)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

/// Slots that are allocated together. A vector of all slots would copy all values when it grows, and on average a
/// quarter of it would be unused. The table of the chunks of 50,000 values is 1.2 KB, which the cache holds.
const CHUNK_SLOTS: usize = 1_024;

/// Slot map: see the module.
#[derive(Debug)]
pub struct Slots<T> {
    /// All full except the last, each with room for `CHUNK_SLOTS`.
    chunks: Vec<Vec<Entry<T>>>,
    places: u32,
    free: Vec<u32>,
    len: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), places: 0, free: Vec::new(), len: 0 }
    }
}

impl<T> Slots<T> {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Has no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn entry(&self, slot: u32) -> Option<&Entry<T>> {
        self.chunks.get(slot as usize / CHUNK_SLOTS)?.get(slot as usize % CHUNK_SLOTS)
    }

    fn entry_mut(&mut self, slot: u32) -> Option<&mut Entry<T>> {
        self.chunks.get_mut(slot as usize / CHUNK_SLOTS)?.get_mut(slot as usize % CHUNK_SLOTS)
    }

    /// The key that the next `insert` will return.
    #[must_use]
    pub fn next_key(&self) -> SlotKey {
        let free = self.free.last().and_then(|slot| Some((*slot, self.entry(*slot)?.generation)));
        let (slot, generation) = free.unwrap_or((self.places, 0));
        SlotKey { slot, generation }
    }

    /// Inserts a value into a free slot.
    ///
    /// # Panics
    /// With more than 2³² slots.
    pub fn insert(&mut self, value: T) -> SlotKey {
        let key = self.next_key();
        self.len += 1;
        if self.free.pop().is_some()
            && let Some(entry) = self.entry_mut(key.slot)
        {
            entry.value = Some(value);
            return key;
        }
        assert!(key.slot < u32::MAX, "more places than a u32 can number");
        if (self.places as usize).is_multiple_of(CHUNK_SLOTS) {
            self.chunks.push(Vec::with_capacity(CHUNK_SLOTS));
        }
        self.chunks.last_mut().expect("it has room").push(Entry { generation: 0, value: Some(value) });
        self.places += 1;
        key
    }

    /// Value with exactly this key.
    #[must_use]
    pub fn get(&self, key: SlotKey) -> Option<&T> {
        let entry = self.entry(key.slot)?;
        if entry.generation == key.generation { entry.value.as_ref() } else { None }
    }

    /// Value with exactly this key.
    pub fn get_mut(&mut self, key: SlotKey) -> Option<&mut T> {
        let entry = self.entry_mut(key.slot)?;
        if entry.generation == key.generation { entry.value.as_mut() } else { None }
    }

    /// Current value of a slot, whatever its generation. For callers that are notified when a value is removed.
    #[must_use]
    pub fn at(&self, slot: u32) -> Option<&T> {
        self.entry(slot)?.value.as_ref()
    }

    /// As [`Slots::at`].
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.entry_mut(slot)?.value.as_mut()
    }

    /// Prefetches the value of a slot.
    pub fn prefetch(&self, slot: u32) {
        if let Some(entry) = self.entry(slot) {
            prefetch(entry);
        }
    }

    /// Removes and returns a value.
    pub fn remove(&mut self, key: SlotKey) -> Option<T> {
        let entry = self.entry_mut(key.slot).filter(|entry| entry.generation == key.generation)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(key.slot);
        self.len -= 1;
        Some(value)
    }

    /// All values with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (SlotKey, &T)> {
        self.chunks.iter().flatten().enumerate().filter_map(|(slot, entry)| {
            let key = SlotKey { slot: slot as u32, generation: entry.generation };
            entry.value.as_ref().map(|value| (key, value))
        })
    }

    /// Estimated heap memory: the slots, and what their values hold.
    #[must_use]
    pub fn heap_bytes(&self, sample: Sample, heap: impl FnMut(&T) -> usize) -> usize {
        let chunks = self.chunks.len() * heap::allocated(CHUNK_SLOTS * size_of::<Entry<T>>());
        heap::of_buffer(&self.chunks) + chunks + heap::of_buffer(&self.free) + self.values_bytes(sample, heap)
    }

    /// Estimate of what the values hold.
    #[must_use]
    pub fn values_bytes(&self, sample: Sample, mut heap: impl FnMut(&T) -> usize) -> usize {
        sample.of_places(self.places as usize, |place| self.at(place as u32).map_or(0, &mut heap))
    }

    /// Number of slots, free ones included.
    #[must_use]
    pub fn places(&self) -> u32 {
        self.places
    }

    /// Key of the current value of a slot.
    #[must_use]
    pub fn key_at(&self, slot: u32) -> Option<SlotKey> {
        let entry = self.entry(slot).filter(|entry| entry.value.is_some())?;
        Some(SlotKey { slot, generation: entry.generation })
    }

    /// Keys of all entries.
    #[must_use]
    pub fn keys(&self) -> Vec<SlotKey> {
        self.iter().map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_finds_nothing() {
        let mut slots = Slots::default();
        let a = slots.insert("a");
        let b = slots.insert("b");
        assert_eq!(slots.remove(a), Some("a"));
        assert_eq!(slots.remove(a), None);
        assert_eq!(slots.next_key().slot, a.slot);
        let c = slots.insert("c");
        assert_eq!((c.slot, slots.get(a), slots.get(c), slots.get(b)), (a.slot, None, Some(&"c"), Some(&"b")));
        assert_eq!(slots.len(), 2);
        assert_eq!(slots.keys(), [c, b]);
    }

    #[test]
    fn values_stay_where_they_are() {
        let mut slots = Slots::default();
        let first = slots.insert([7_u64; 2]);
        let address = std::ptr::from_ref(slots.get(first).expect("inserted"));
        let keys: Vec<SlotKey> = (0..3 * CHUNK_SLOTS as u64).map(|n| slots.insert([n; 2])).collect();
        assert_eq!(slots.get(first).map(std::ptr::from_ref), Some(address));
        assert_eq!((slots.len(), slots.places()), (3 * CHUNK_SLOTS + 1, 3 * CHUNK_SLOTS as u32 + 1));
        assert!(keys.iter().zip(0..).all(|(key, n)| slots.get(*key) == Some(&[n; 2])));
        assert_eq!(slots.iter().map(|(key, _)| key.slot).collect::<Vec<_>>(), (0..slots.places()).collect::<Vec<_>>());
        // At most one chunk is not full.
        let used = slots.len() * size_of::<Entry<[u64; 2]>>();
        let chunk = CHUNK_SLOTS * size_of::<Entry<[u64; 2]>>();
        let bytes = slots.heap_bytes(Sample::SMALL, |_| 0);
        assert!((used..used + 2 * chunk).contains(&bytes), "{bytes} for {used}");
    }
}
