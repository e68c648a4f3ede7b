//! Ring: where in a connection's stream the texts are that it was sent lately.
//!
//! Owns        pairs (text, position), oldest first, in six bytes each: 24 bits of either are kept, and what is so old
//!             that these would not tell it from another is forgotten first.
//! Invariants  R1 a position found is one where that very text stands in this stream. R2 order of texts is only a help
//!             to find them fast: one out of order may be missed, which costs bytes, never a wrong reference.
//! Limits      `ENTRIES_MAX` entries, `AGE_MAX` texts, and the reach that the caller gives; the oldest are forgotten.

/// A text's number in its matcher; later ones are larger.
pub type TextId = u32;

/// Most texts a connection remembers.
pub const ENTRIES_MAX: usize = 480;
const ENTRIES_MIN: usize = 16;
/// Older texts than this, counted in those of the matcher, are forgotten. Below 2^23, so that 24 bits tell the order.
const AGE_MAX: u32 = 1 << 22;
const MASK: u32 = (1 << 24) - 1;

/// The low 24 bits of the text, then those of the position.
#[derive(Clone, Copy, Debug, Default)]
struct Entry([u16; 3]);

impl Entry {
    #[inline]
    fn new(id: TextId, position: u32) -> Self {
        Self([id as u16, (id >> 16 & 0xFF) as u16 | (position as u16) << 8, (position >> 8) as u16])
    }

    #[inline]
    fn id(self) -> u32 {
        u32::from(self.0[0]) | u32::from(self.0[1] & 0xFF) << 16
    }

    #[inline]
    fn position(self) -> u32 {
        u32::from(self.0[1] >> 8) | u32::from(self.0[2]) << 8
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct PositionRing {
    entries: Box<[Entry]>,
    /// Where the next goes.
    next: u16,
    count: u16,
    /// The last one pushed.
    newest: TextId,
}

impl PositionRing {
    #[inline]
    fn entry(&self, back: u32) -> Entry {
        let at = i64::from(self.next) - 1 - i64::from(back);
        let at = if at < 0 { at + self.entries.len() as i64 } else { at };
        self.entries[at as usize]
    }

    /// How many texts before the newest one an entry's is.
    #[inline]
    fn age(&self, entry: Entry) -> u32 {
        self.newest.wrapping_sub(entry.id()) & MASK
    }

    /// Remembers that `id` stands at `position`.
    pub fn push(&mut self, id: TextId, position: u32) {
        // One that comes out of order leaves the newest as it is.
        if id.wrapping_sub(self.newest) < 1 << 31 {
            if id.wrapping_sub(self.newest) > AGE_MAX {
                self.count = 0;
            }
            self.newest = id;
        } else if self.newest.wrapping_sub(id) > AGE_MAX {
            return;
        }
        while self.count > 0 && self.age(self.entry(u32::from(self.count) - 1)) > AGE_MAX {
            self.count -= 1;
        }
        if usize::from(self.count) == self.entries.len() && self.entries.len() < ENTRIES_MAX {
            self.grow();
        }
        self.entries[usize::from(self.next)] = Entry::new(id, position);
        self.next = if usize::from(self.next) + 1 == self.entries.len() { 0 } else { self.next + 1 };
        self.count = (self.count + 1).min(self.entries.len() as u16);
    }

    fn grow(&mut self) {
        let room = (self.entries.len() * 2).clamp(ENTRIES_MIN, ENTRIES_MAX);
        let mut larger = vec![Entry::default(); room].into_boxed_slice();
        for back in 0..self.count {
            larger[usize::from(self.count - 1 - back)] = self.entry(u32::from(back));
        }
        self.next = self.count;
        self.entries = larger;
    }

    /// Forgets what lies more than `reach` before `position`. Has to be called before the stream has grown by 2^23 bytes
    /// since the last time.
    #[inline]
    pub fn forget_beyond(&mut self, position: u32, reach: u32) {
        while self.count > 0 {
            let oldest = self.entry(u32::from(self.count) - 1);
            if position.wrapping_sub(oldest.position()) & MASK <= reach {
                break;
            }
            self.count -= 1;
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// The oldest text that is remembered.
    #[inline]
    pub fn oldest(&self) -> Option<TextId> {
        (self.count > 0).then(|| self.newest.wrapping_sub(self.age(self.entry(u32::from(self.count) - 1))))
    }

    /// How far before `position` a text stands. `hint` says how many entries back it was found last, for any connection,
    /// and is kept for the next.
    #[inline]
    pub fn distance(&self, id: TextId, position: u32, hint: &mut u16) -> Option<u32> {
        if self.newest.wrapping_sub(id) > AGE_MAX {
            return None;
        }
        let entry = if *hint < self.count { self.entry(u32::from(*hint)) } else { Entry::default() };
        let entry = if *hint < self.count && entry.id() == id & MASK { entry } else { self.search(id, hint)? };
        Some(position.wrapping_sub(entry.position()) & MASK)
    }

    fn search(&self, id: TextId, hint: &mut u16) -> Option<Entry> {
        let wanted = self.newest.wrapping_sub(id);
        let (mut near, mut far) = (0, u32::from(self.count));
        while near < far {
            let middle = (near + far) / 2;
            let entry = self.entry(middle);
            let age = self.age(entry);
            if age == wanted {
                *hint = middle as u16;
                return Some(entry);
            }
            if age < wanted {
                near = middle + 1;
            } else {
                far = middle;
            }
        }
        None
    }

    /// The texts that are remembered.
    pub fn ids(&self) -> impl Iterator<Item = TextId> + '_ {
        (0..u32::from(self.count)).map(|back| self.newest.wrapping_sub(self.age(self.entry(back))))
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
        let (mut id, mut position, mut hint) = (MASK - 3_000, u32::MAX - 50_000, 0u16);
        for step in 0..8_000 {
            // Now and then so much happens elsewhere that 24 bits would not tell old from new.
            id += 1 + rng.below(if step % 500 == 0 { 9_000_000 } else { 4 }) as u32;
            position = position.wrapping_add(rng.below(900) as u32);
            ring.push(id, position);
            list.push_back((id, position));
            while list.len() > ENTRIES_MAX || position.wrapping_sub(list[0].1) > 400_000 || id - list[0].0 > AGE_MAX {
                list.pop_front();
            }
            ring.forget_beyond(position, 400_000);
            assert_eq!(ring.oldest(), list.front().map(|entry| entry.0));
            assert!(ring.ids().eq(list.iter().rev().map(|entry| entry.0)));
            let wanted = id - rng.below(1_200) as u32;
            let expected = list.iter().find(|entry| entry.0 == wanted).map(|entry| position.wrapping_sub(entry.1));
            assert_eq!(ring.distance(wanted, position, &mut hint), expected);
        }
        assert_eq!(ring.heap_bytes(), 6 * ENTRIES_MAX);
    }
}
