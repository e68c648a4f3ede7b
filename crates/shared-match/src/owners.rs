//! Cache of text metadata for one search, because positions query the same texts repeatedly.
//!
//! Limits      `SLOTS` texts; others replace them and are looked up again when needed.

use crate::{places::Place, ring::BodyId};

/// Properties of an earlier text that a search needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owner {
    pub id: BodyId,
    pub begin: Place,
    /// 0: it was forgotten.
    pub length: u32,
    /// Nearly all who get the text have it.
    pub is_common: bool,
    /// A candidate stands in it.
    is_used: bool,
}

impl Owner {
    pub fn new(id: BodyId, (begin, length): (Place, u32), is_common: bool) -> Self {
        Self { id, begin, length, is_common, is_used: false }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Owners {
    slots: Vec<Owner>,
    used: Vec<BodyId>,
}

impl Owners {
    const SLOTS: usize = 2048;

    /// Clears the cache before another text.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.slots.resize(Self::SLOTS, Owner::default());
        self.used.clear();
    }

    /// What there is to know of a text, which `tell` tells.
    #[inline]
    pub fn get(&mut self, id: BodyId, tell: impl FnOnce(BodyId) -> Owner) -> Owner {
        let slot = &mut self.slots[id as usize % Self::SLOTS];
        if slot.id != id {
            *slot = tell(id);
        }
        *slot
    }

    /// A candidate is in text `id`, the text that was queried last.
    #[inline]
    pub fn note_used(&mut self, id: BodyId) {
        let slot = &mut self.slots[id as usize % Self::SLOTS];
        debug_assert_eq!(slot.id, id, "no other text was queried since");
        if slot.is_common && !slot.is_used {
            slot.is_used = true;
            self.used.push(id);
        }
    }

    /// The texts that nearly all have and in which a candidate stands; some twice.
    pub fn used(&self) -> &[BodyId] {
        &self.used
    }
}
