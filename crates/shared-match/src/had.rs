//! Had: which texts one connection has.

use crate::{ring::BodyId, track::Track};

/// How many texts back it is known.
const REACH: usize = 8192;

/// Which texts a connection has, as bits: how much older than the newest.
#[derive(Debug, Default)]
pub struct Had {
    newest: BodyId,
    bits: Vec<u64>,
}

impl Had {
    /// Those of this connection from `oldest` on, seen from the newest text.
    pub fn fill(&mut self, newest: BodyId, oldest: Option<BodyId>, track: &Track) {
        self.newest = newest;
        self.bits.clear();
        self.bits.resize(REACH / 64, 0);
        let age_max = oldest.and_then(|oldest| newest.checked_sub(oldest)).unwrap_or(0);
        for age in track.ids().filter_map(|id| newest.checked_sub(id)).filter(|age| *age <= age_max) {
            if let Some(word) = self.bits.get_mut(age as usize / 64) {
                *word |= 1 << (age % 64);
            }
        }
    }

    /// Whether it has one.
    pub fn contains(&self, id: BodyId) -> bool {
        let age = self.newest.wrapping_sub(id);
        self.bits.get(age as usize / 64).is_some_and(|word| word >> (age % 64) & 1 == 1)
    }
}
