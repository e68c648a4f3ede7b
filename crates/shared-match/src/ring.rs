//! Ring: where in a connection's stream the texts are that it was sent lately.
//!
//! Owns        pairs (text, position), oldest first.
//! Invariants  R1 a position found is one where that very text stands in this stream. R2 order of texts is only a help
//!             to find them fast: one out of order may be missed, which costs bytes, never a wrong reference.
//! Limits      `ENTRIES_MAX` entries; the oldest are forgotten.

/// A text's number in its matcher; later ones are larger.
pub type TextId = u32;

/// Most texts a connection remembers: 8 bytes each.
pub const ENTRIES_MAX: usize = 256;
const ENTRIES_MIN: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    id: TextId,
    position: u32,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct PositionRing {
    /// A power of two, or empty.
    entries: Box<[Entry]>,
    /// Entries ever pushed into `entries`; the newest is at `pushed - 1`.
    pushed: u32,
    count: u32,
}

impl PositionRing {
    #[inline]
    fn entry(&self, back: u32) -> Entry {
        self.entries[self.pushed.wrapping_sub(back + 1) as usize & (self.entries.len() - 1)]
    }

    /// Remembers that `id` stands at `position`.
    pub fn push(&mut self, id: TextId, position: u32) {
        if self.count as usize == self.entries.len() && self.entries.len() < ENTRIES_MAX {
            self.grow();
        }
        let slot = self.pushed as usize & (self.entries.len() - 1);
        self.entries[slot] = Entry { id, position };
        self.pushed = self.pushed.wrapping_add(1);
        self.count = (self.count + 1).min(self.entries.len() as u32);
    }

    fn grow(&mut self) {
        let room = (self.entries.len() * 2).max(ENTRIES_MIN);
        let mut larger = vec![Entry::default(); room].into_boxed_slice();
        for back in 0..self.count {
            larger[(self.count - 1 - back) as usize] = self.entry(back);
        }
        self.pushed = self.count;
        self.entries = larger;
    }

    /// Forgets what lies more than `reach` before `position`.
    #[inline]
    pub fn forget_beyond(&mut self, position: u32, reach: u32) {
        while self.count > 0 && position.wrapping_sub(self.entry(self.count - 1).position) > reach {
            self.count -= 1;
        }
    }

    /// The oldest text that is remembered.
    #[inline]
    pub fn oldest(&self) -> Option<TextId> {
        (self.count > 0).then(|| self.entry(self.count - 1).id)
    }

    /// Where `id` stands. `hint` says how far back it was found last, for any connection, and is kept for the next.
    #[inline]
    pub fn position(&self, id: TextId, hint: &mut u16) -> Option<u32> {
        let back = u32::from(*hint);
        if back < self.count {
            let entry = self.entry(back);
            if entry.id == id {
                return Some(entry.position);
            }
        }
        self.search(id, hint)
    }

    fn search(&self, id: TextId, hint: &mut u16) -> Option<u32> {
        // Ids fall as one goes back.
        let (mut near, mut far) = (0, self.count);
        while near < far {
            let middle = (near + far) / 2;
            let entry = self.entry(middle);
            if entry.id == id {
                *hint = middle as u16;
                return Some(entry.position);
            }
            if entry.id > id {
                near = middle + 1;
            } else {
                far = middle;
            }
        }
        None
    }

    /// The texts that are remembered.
    pub fn ids(&self) -> impl Iterator<Item = TextId> + '_ {
        (0..self.count).map(|back| self.entry(back).id)
    }

    /// Heap it holds.
    pub fn heap_bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::Rng;
    use std::collections::VecDeque;

    #[test]
    fn agrees_with_a_list() {
        let mut rng = Rng::new(3);
        let (mut ring, mut list) = (PositionRing::default(), VecDeque::new());
        let (mut id, mut position, mut hint) = (0u32, u32::MAX - 50_000, 0u16);
        for _ in 0..5_000 {
            id += 1 + rng.below(4) as u32;
            position = position.wrapping_add(rng.below(900) as u32);
            ring.push(id, position);
            list.push_back((id, position));
            while list.len() > ENTRIES_MAX || position.wrapping_sub(list[0].1) > 100_000 {
                list.pop_front();
            }
            ring.forget_beyond(position, 100_000);
            assert_eq!(ring.oldest(), list.front().map(|entry| entry.0));
            let wanted = id - rng.below(u64::from(id.min(900))) as u32;
            let expected = list.iter().find(|entry| entry.0 == wanted).map(|entry| entry.1);
            assert_eq!(ring.position(wanted, &mut hint), expected);
        }
        assert_eq!(ring.heap_bytes(), 2048);
    }
}
