//! Slabs: which slots are used, and which slab the next slot comes from.
//!
//! Owns        the table of slabs, and the order of those with free slots.
//! Invariants  T1 a slot comes from the fullest slab with room, so that the others can empty. T2 a slab without used
//!             slots is returned to the caller, which unmaps it.

use crate::mapping::Mapping;
use std::collections::BTreeSet;

/// One bit per slot.
pub(crate) const SLOTS_MAX: u32 = u64::BITS;

/// Index of a slot: slab and bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub slab: u32,
    pub slot: u32,
}

struct Slab {
    mapping: Mapping,
    used: u64,
    /// Slots whose pages are resident: used ones, and free ones that could not be discarded.
    resident: u64,
}

/// Table of slabs with free and used slots.
pub(crate) struct Slabs {
    slots_per_slab: u32,
    slabs: Vec<Option<Slab>>,
    /// Unused indexes in `slabs`.
    vacant: Vec<u32>,
    /// Slabs with free slots as (number of free slots, index). The first is the fullest.
    with_room: BTreeSet<(u32, u32)>,
    used_count: u64,
}

/// A slot that was allocated.
pub(crate) struct AllocatedSlot {
    pub place: Place,
    /// Its pages are resident from an earlier use, with old content.
    pub was_resident: bool,
}

/// Result of releasing a slot.
pub(crate) struct Released {
    /// Slots whose pages were released to the system: this one, or all of the slab.
    pub discarded_count: u32,
    /// The slab, if this was its last used slot.
    pub emptied: Option<Mapping>,
}

impl Slabs {
    pub(crate) fn new(slots_per_slab: u32) -> Self {
        assert!((1..=SLOTS_MAX).contains(&slots_per_slab), "a bit per slot");
        Self { slots_per_slab, slabs: Vec::new(), vacant: Vec::new(), with_room: BTreeSet::new(), used_count: 0 }
    }

    pub(crate) fn used_count(&self) -> u64 {
        self.used_count
    }

    pub(crate) fn slabs_count(&self) -> usize {
        self.slabs.len() - self.vacant.len()
    }

    pub(crate) fn resident_count(&self) -> u64 {
        self.slabs.iter().flatten().map(|slab| u64::from(slab.resident.count_ones())).sum()
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.with_room.is_empty()
    }

    pub(crate) fn mapping(&self, place: Place) -> &Mapping {
        &self.slabs[place.slab as usize].as_ref().expect("the slab of a slot in use is there").mapping
    }

    /// Adds a slab without used slots; the next slot comes from it if no other has room.
    pub(crate) fn add(&mut self, mapping: Mapping) {
        let slab = Some(Slab { mapping, used: 0, resident: 0 });
        let index = match self.vacant.pop() {
            Some(index) => {
                self.slabs[index as usize] = slab;
                index
            }
            None => {
                self.slabs.push(slab);
                self.slabs.len() as u32 - 1
            }
        };
        self.with_room.insert((self.slots_per_slab, index));
    }

    /// Allocates a slot from the fullest slab with room (T1), preferring one with resident pages.
    pub(crate) fn take(&mut self) -> Option<AllocatedSlot> {
        let (free_count, index) = self.with_room.pop_first()?;
        let slab = self.slabs[index as usize].as_mut()?;
        let free = !slab.used & (u64::MAX >> (SLOTS_MAX - self.slots_per_slab));
        let warm = free & slab.resident;
        let slot = if warm == 0 { free } else { warm }.trailing_zeros();
        let was_resident = slab.resident >> slot & 1 == 1;
        slab.used |= 1 << slot;
        slab.resident |= 1 << slot;
        if free_count > 1 {
            self.with_room.insert((free_count - 1, index));
        }
        self.used_count += 1;
        Some(AllocatedSlot { place: Place { slab: index, slot }, was_resident })
    }

    /// Releases a slot of `take`. `is_discarded`: the system took its pages.
    pub(crate) fn release(&mut self, place: Place, is_discarded: bool) -> Released {
        let entry = &mut self.slabs[place.slab as usize];
        let slab = entry.as_mut().expect("the slab of a slot in use is there");
        let bit = 1 << place.slot;
        assert!(slab.used & bit != 0, "a slot is released once");
        let free_before = self.slots_per_slab - slab.used.count_ones();
        slab.used &= !bit;
        if is_discarded {
            slab.resident &= !bit;
        }
        self.used_count -= 1;
        self.with_room.remove(&(free_before, place.slab));
        if slab.used != 0 {
            self.with_room.insert((free_before + 1, place.slab));
            return Released { discarded_count: is_discarded.into(), emptied: None };
        }
        let left_count = slab.resident.count_ones();
        let emptied = entry.take().map(|slab| slab.mapping);
        self.vacant.push(place.slab);
        Released { discarded_count: left_count + u32::from(is_discarded), emptied }
    }
}
