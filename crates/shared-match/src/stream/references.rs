//! References: the bodies that a parse refers to, and how far back each is in one connection's stream.

use crate::{
    history::BodyId,
    history::message_sizes::MessageSizes,
    parse::{Alignment, SOURCES_MAX, Sequence},
    search::source::{Reference, Source},
    stream::state::StreamState,
};
use smallvec::SmallVec;

/// One body that is referred to.
#[derive(Clone, Copy, Debug)]
struct ReferencedBody {
    id: BodyId,
    /// An offset may exceed the distance of the two bodies by this much.
    excess: i32,
}

/// How far back each body is that a parse refers to, in bytes of one connection's stream, by slot. The offset of a
/// match is that of its body and an addend of the match (`OffsetFixup` of zstd, `Step` of deflate). Slot 0 is 0, for
/// matches that need none.
#[derive(Clone, Debug)]
pub struct Offsets {
    // As many as there are slots, for then none needs to be checked.
    all: [u32; SLOTS],
}

const SLOTS: usize = 1 << u8::BITS;
// One for nothing, one for a head, one for a dictionary, and one that a format may take for none.
const _: () = assert!(SOURCES_MAX + 4 <= SLOTS);

impl Default for Offsets {
    fn default() -> Self {
        Self { all: [0; SLOTS] }
    }
}

impl Offsets {
    /// That of the body in this slot, as the last `resolve` found it. Only for slots that the parse uses.
    #[inline]
    pub fn of(&self, slot: u8) -> u32 {
        self.all[usize::from(slot)]
    }
}

/// The position that a body will have in one connection's stream, and how far back it may refer from there.
#[derive(Clone, Copy, Debug)]
pub struct StreamCursor<'a> {
    pub state: &'a StreamState,
    pub sizes: &'a MessageSizes,
    pub position: u32,
    pub window: u32,
    /// How far before the body the stream's dictionary begins, if it can be referred to; 0: none.
    pub dictionary: u32,
}

/// The connection cannot use this parse: one of its sources was not sent to it, or is out of reach, or its window is
/// smaller than the reach of the body's references to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unresolved;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct References {
    bodies: SmallVec<[ReferencedBody; 8]>,
    /// The first of them is the body whose head is copied.
    has_head: bool,
    /// How far back the body refers to itself.
    own: u32,
    /// If it refers to a dictionary: by how much an offset may exceed the dictionary's distance.
    dictionary: Option<i32>,
}

impl References {
    /// Of a parse, and of its head.
    pub fn of(sequences: &[Sequence], head: Option<BodyId>) -> Self {
        let mut references = Self { has_head: head.is_some(), ..Self::default() };
        references.bodies.extend(head.map(|id| ReferencedBody { id, excess: 0 }));
        for Alignment { source, shift } in sequences.iter().map(|sequence| sequence.alignment) {
            let id = match source.reference() {
                Reference::Itself => {
                    references.own = references.own.max(shift.unsigned_abs());
                    continue;
                }
                Reference::Dictionary => {
                    references.dictionary = references.dictionary.max(Some(-shift));
                    continue;
                }
                Reference::Body(id) => id,
            };
            match references.bodies.iter_mut().find(|known| known.id == id) {
                Some(known) => known.excess = known.excess.max(-shift),
                None => references.bodies.push(ReferencedBody { id, excess: -shift }),
            }
        }
        references
    }

    /// How far back the head is that a head may be copied from, as `resolve` found it.
    #[inline]
    pub fn head_distance(&self, offsets: &Offsets) -> Option<u32> {
        self.has_head.then(|| offsets.of(1))
    }

    /// The slot of a source.
    pub fn slot(&self, source: Source) -> u8 {
        match source.reference() {
            Reference::Itself => 0,
            Reference::Body(id) => {
                let index = self.bodies.iter().position(|known| known.id == id);
                index.map_or(0, |index| index as u8 + 1)
            }
            // The last.
            Reference::Dictionary => self.bodies.len() as u8 + 1,
        }
    }

    /// Finds the offsets for a connection that has all sources within reach.
    #[inline]
    pub fn resolve(&self, cursor: StreamCursor<'_>, offsets: &mut Offsets) -> Result<(), Unresolved> {
        let StreamCursor { state, sizes, position, window, dictionary } = cursor;
        if self.own > window {
            return Err(Unresolved);
        }
        for (body, slot) in self.bodies.iter().zip(&mut offsets.all[1..]) {
            let distance = state.distance(body.id, position, sizes).ok_or(Unresolved)?;
            if i64::from(distance) + i64::from(body.excess) > i64::from(window) {
                return Err(Unresolved);
            }
            *slot = distance;
        }
        if let Some(excess) = self.dictionary {
            if dictionary == 0 || i64::from(dictionary) + i64::from(excess) > i64::from(window) {
                return Err(Unresolved);
            }
            offsets.all[1 + self.bodies.len()] = dictionary;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Offset;

    #[test]
    fn a_small_window_is_not_served_by_far_references_of_a_text_to_itself() {
        let alignment = Alignment { source: Source::ITSELF, shift: -700 };
        let sequence = Sequence { literals: 900, length: 9, alignment, offset: Offset::Explicit };
        let references = References::of(&[sequence], None);
        let mut offsets = Offsets::default();
        let (state, sizes) = (StreamState::default(), MessageSizes::default());
        let mut resolve = |window| {
            let cursor = StreamCursor { state: &state, sizes: &sizes, position: 5_000, window, dictionary: 0 };
            references.resolve(cursor, &mut offsets)
        };
        assert_eq!(resolve(1 << 9), Err(Unresolved));
        assert_eq!(resolve(1 << 10), Ok(()));
    }

    #[test]
    fn references_to_a_dictionary_out_of_reach_are_unresolved() {
        let alignment = Alignment { source: Source::DICTIONARY, shift: -700 };
        let sequence = Sequence { literals: 900, length: 9, alignment, offset: Offset::Explicit };
        let references = References::of(&[sequence], None);
        let mut offsets = Offsets::default();
        let (state, sizes) = (StreamState::default(), MessageSizes::default());
        let mut resolve = |dictionary| {
            let cursor = StreamCursor { state: &state, sizes: &sizes, position: 5_000, window: 1 << 20, dictionary };
            references.resolve(cursor, &mut offsets)
        };
        assert_eq!(resolve(0), Err(Unresolved), "there is none");
        assert_eq!(resolve((1 << 20) - 699), Err(Unresolved));
        assert_eq!(resolve((1 << 20) - 700), Ok(()));
        assert_eq!(references.slot(Source::DICTIONARY), 1);
    }
}
