//! Candidates: where the bytes of a text stood before, by position: all that its parses are made from.
//!
//! Owns        per position the candidates that are longer than every nearer one; and which texts those stand in that nearly
//!             all have, so that parses for horizons between which there is nothing are one parse.
//! Limits      those of the search that finds them (`find`, `dictionary`).

use crate::ring::BodyId;

/// A text may look back into itself.
pub const ITSELF: BodyId = 0;

/// Equal bytes in an earlier text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// [`ITSELF`], [`DICTIONARY`](crate::dictionary::DICTIONARY) or an earlier text.
    pub source: BodyId,
    /// Position in the source.
    pub from: u32,
    /// Number of equal bytes.
    pub length: u32,
    /// Nearly all who get the text have the source.
    pub is_common: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Candidates {
    /// Of position `p`: `all[starts[p]..starts[p + 1]]`, nearest and shortest first.
    starts: Vec<u32>,
    all: Vec<Candidate>,
    /// Every text in which a candidate stands that nearly all have, newest first.
    common: Vec<BodyId>,
}

impl Candidates {
    #[inline]
    pub fn at(&self, position: usize) -> &[Candidate] {
        match (self.starts.get(position), self.starts.get(position + 1)) {
            (Some(start), Some(end)) => &self.all[*start as usize..*end as usize],
            _ => &[],
        }
    }

    /// Greatest look-back of a parse of text `id` that contains no more common sources than a look-back of `age`
    /// texts; at least `age`.
    pub fn horizon(&self, id: BodyId, age: u32) -> u32 {
        let age_of = |source: &BodyId| id.wrapping_sub(*source);
        let next = self.common.partition_point(|source| age_of(source) <= age);
        self.common.get(next).map_or(u32::MAX, |next| age_of(next) - 1)
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        self.starts.clear();
        self.all.clear();
        self.common.clear();
    }

    /// Starts the next position; called again after the last.
    #[inline]
    pub(crate) fn start_position(&mut self) {
        self.starts.push(self.all.len() as u32);
    }

    /// Adds to the position that was started last: nearest and shortest first.
    #[inline]
    pub(crate) fn extend(&mut self, found: impl IntoIterator<Item = Candidate>) {
        self.all.extend(found);
    }

    /// Adds common sources, in any order, possibly repeated.
    pub(crate) fn note_common(&mut self, texts: &[BodyId]) {
        self.common.extend_from_slice(texts);
        self.common.sort_unstable_by_key(|text| std::cmp::Reverse(*text));
        self.common.dedup();
    }

    /// As [`Candidates::note_common`], the same as of others.
    pub(crate) fn note_common_of(&mut self, others: &Self) {
        self.common.clone_from(&others.common);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_sources_all_horizons_are_one() {
        let mut candidates = Candidates::default();
        candidates.note_common(&[70, 96, 70, 99]);
        let horizons: Vec<u32> = [0, 1, 2, 4, 29, 30, 31, 5_000].map(|age| candidates.horizon(100, age)).into();
        assert_eq!(horizons, [0, 3, 3, 29, 29, u32::MAX, u32::MAX, u32::MAX]);
        candidates.clear();
        assert_eq!(candidates.horizon(100, 3), u32::MAX);
    }
}
