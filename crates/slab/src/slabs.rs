//! Slabs: which slots are taken, and which slab the next one comes from.
//!
//! Owns        the table of slabs and, of those with free slots, their order.
//! Invariants  T1 a slot comes from the fullest slab that has one, so that the others can empty. T2 a slab without
//!             slots in use is handed out, to be unmapped.

use crate::mapping::Mapping;
use std::collections::BTreeSet;

/// One bit per slot.
pub(crate) const SLOTS_MAX: u32 = u64::BITS;

/// Where a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub slab: u32,
    pub slot: u32,
}

struct Slab {
    mapping: Mapping,
    used: u64,
    /// Slots whose pages are the system's to count: those in use, and free ones that could not be discarded.
    resident: u64,
}

/// See the module.
pub(crate) struct Slabs {
    slots_per_slab: u32,
    slabs: Vec<Option<Slab>>,
    /// Places in `slabs` with none in them.
    vacant: Vec<u32>,
    /// Slabs with free slots: how many, and which. The first is the fullest.
    with_room: BTreeSet<(u32, u32)>,
    used_count: u64,
}

/// A slot that was taken.
pub(crate) struct Taken {
    pub place: Place,
    /// Its pages are there from an earlier use, with what was in them.
    pub was_resident: bool,
}

/// A slot that was given back.
pub(crate) struct GivenBack {
    /// Slots whose pages the system has back, this one or those of the whole slab.
    pub discarded_count: u32,
    /// The slab, when it was its last slot.
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

    /// Adds a slab without slots in use; the next slot comes from it if no other has one.
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

    /// Takes a slot from the fullest slab with room (T1), one whose pages are there if it has one.
    pub(crate) fn take(&mut self) -> Option<Taken> {
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
        Some(Taken { place: Place { slab: index, slot }, was_resident })
    }

    /// Takes back a slot that `take` gave and whose pages the system has back, or has not.
    pub(crate) fn give_back(&mut self, place: Place, is_discarded: bool) -> GivenBack {
        let entry = &mut self.slabs[place.slab as usize];
        let slab = entry.as_mut().expect("the slab of a slot in use is there");
        let bit = 1 << place.slot;
        assert!(slab.used & bit != 0, "a slot is given back once");
        let free_before = self.slots_per_slab - slab.used.count_ones();
        slab.used &= !bit;
        if is_discarded {
            slab.resident &= !bit;
        }
        self.used_count -= 1;
        self.with_room.remove(&(free_before, place.slab));
        if slab.used != 0 {
            self.with_room.insert((free_before + 1, place.slab));
            return GivenBack { discarded_count: is_discarded.into(), emptied: None };
        }
        let left_count = slab.resident.count_ones();
        let emptied = entry.take().map(|slab| slab.mapping);
        self.vacant.push(place.slab);
        GivenBack { discarded_count: left_count + u32::from(is_discarded), emptied }
    }
}
