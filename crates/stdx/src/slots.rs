//! Slot map: a vector whose slots are reused, each time under a new generation.
//!
//! Invariants  an old key never finds a value that was inserted into its slot later. (tests)

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

/// Slot map. Memory is that of the largest number of values ever held at once; it never shrinks.
#[derive(Debug)]
pub struct Slots<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    len: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), len: 0 }
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

    /// The key that the next `insert` will return.
    #[must_use]
    pub fn next_key(&self) -> SlotKey {
        match self.free.last() {
            Some(slot) => SlotKey { slot: *slot, generation: self.entries[*slot as usize].generation },
            None => SlotKey { slot: self.entries.len() as u32, generation: 0 },
        }
    }

    /// Inserts a value into a free slot.
    ///
    /// # Panics
    /// With more than 2³² slots.
    pub fn insert(&mut self, value: T) -> SlotKey {
        let key = self.next_key();
        if self.free.pop().is_some() {
            self.entries[key.slot as usize].value = Some(value);
        } else {
            assert!(key.slot < u32::MAX, "more places than a u32 can number");
            self.entries.push(Entry { generation: 0, value: Some(value) });
        }
        self.len += 1;
        key
    }

    /// Value with exactly this key.
    #[must_use]
    pub fn get(&self, key: SlotKey) -> Option<&T> {
        let entry = self.entries.get(key.slot as usize)?;
        if entry.generation == key.generation { entry.value.as_ref() } else { None }
    }

    /// Value with exactly this key.
    pub fn get_mut(&mut self, key: SlotKey) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.slot as usize)?;
        if entry.generation == key.generation { entry.value.as_mut() } else { None }
    }

    /// Current value of a slot, whatever its generation. For callers that are notified when a value is removed.
    #[must_use]
    pub fn at(&self, slot: u32) -> Option<&T> {
        self.entries.get(slot as usize)?.value.as_ref()
    }

    /// As [`Slots::at`].
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.entries.get_mut(slot as usize)?.value.as_mut()
    }

    /// Prefetches the value of a slot.
    pub fn prefetch(&self, slot: u32) {
        if let Some(entry) = self.entries.get(slot as usize) {
            prefetch(entry);
        }
    }

    /// Removes and returns a value.
    pub fn remove(&mut self, key: SlotKey) -> Option<T> {
        self.get(key)?;
        let entry = &mut self.entries[key.slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(key.slot);
        self.len -= 1;
        entry.value.take()
    }

    /// All values with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (SlotKey, &T)> {
        self.entries.iter().enumerate().filter_map(|(slot, entry)| {
            let key = SlotKey { slot: slot as u32, generation: entry.generation };
            entry.value.as_ref().map(|value| (key, value))
        })
    }

    /// Estimated heap memory: the slots, and what their values hold.
    #[must_use]
    pub fn heap_bytes(&self, sample: Sample, heap: impl FnMut(&T) -> usize) -> usize {
        heap::of_buffer(&self.entries) + heap::of_buffer(&self.free) + self.values_bytes(sample, heap)
    }

    /// Estimate of what the values hold.
    #[must_use]
    pub fn values_bytes(&self, sample: Sample, mut heap: impl FnMut(&T) -> usize) -> usize {
        sample.of_slice(&self.entries, |entry| entry.value.as_ref().map_or(0, &mut heap))
    }

    /// Number of slots, free ones included.
    #[must_use]
    pub fn places(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Key of the current value of a slot.
    #[must_use]
    pub fn key_at(&self, slot: u32) -> Option<SlotKey> {
        let entry = self.entries.get(slot as usize).filter(|entry| entry.value.is_some())?;
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
}
