//! Sources: the texts that a parse refers to, and how far back each is in one connection's stream.

use crate::{
    find::ITSELF,
    parse::{Alignment, Sequence},
    ring::{Spans, TextId},
    track::Track,
};
use smallvec::SmallVec;

/// One text that is referred to.
#[derive(Clone, Copy, Debug)]
struct Source {
    id: TextId,
    /// An offset may exceed the distance of the two texts by so much.
    excess: i32,
}

/// Distances to the sources on one connection, by slot; slot 0 is 0, for what needs none.
pub type Distances = SmallVec<[u32; 16]>;

/// A parse does not serve a connection: it lacks one of the sources, or has it too far back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Sources(SmallVec<[Source; 8]>);

impl Sources {
    /// Of a parse.
    pub fn of(sequences: &[Sequence]) -> Self {
        let mut sources = Self::default();
        for Alignment { source, shift } in sequences.iter().map(|sequence| sequence.alignment) {
            if source == ITSELF {
                continue;
            }
            match sources.0.iter_mut().find(|known| known.id == source) {
                Some(known) => known.excess = known.excess.max(-shift),
                None => sources.0.push(Source { id: source, excess: -shift }),
            }
        }
        sources
    }

    /// The slot of a source.
    pub fn slot(&self, id: TextId) -> u8 {
        match self.0.iter().position(|source| source.id == id) {
            Some(index) => index as u8 + 1,
            None => 0,
        }
    }

    /// The distances from a text at `position`, for a connection that has all sources within `window` bytes.
    #[inline]
    pub fn locate(
        &self,
        track: &Track,
        spans: &Spans,
        position: u32,
        window: u32,
        distances: &mut Distances,
    ) -> Result<(), Missing> {
        distances.clear();
        distances.push(0);
        for source in &self.0 {
            let distance = track.distance(source.id, position, spans).ok_or(Missing)?;
            if i64::from(distance) + i64::from(source.excess) > i64::from(window) {
                return Err(Missing);
            }
            distances.push(distance);
        }
        Ok(())
    }
}
