//! Spans: how many bytes of a stream belong to a text, the same on every connection but for the digits of the seq.
//!
//! Owns        for each text that is kept, what stands in front of it in its message, and how long messages are.
//! Invariants  W1 what lies between two texts of a stream is the sum of what was sent in between, so a ring need not
//!             remember each position.

use crate::ring::TextId;

/// What all messages with a text have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// From where the text begins, without the seq.
    pub after: u32,
    /// In front of the text, without the seq.
    pub before: u32,
}

/// A span as it is kept.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    before: u32,
    /// Of a whole message, without the seq.
    whole: u32,
    /// Of all messages of earlier texts, wrapping around.
    earlier: u32,
}

/// Those of the newest texts of a matcher.
#[derive(Debug, Default)]
pub struct Spans {
    /// By the last digits of the number, in base two.
    kept: Vec<Kept>,
    first: TextId,
    count: u32,
    /// Of all messages so far, wrapping around.
    total: u32,
}

impl Spans {
    /// Of the text after the newest, or the first.
    pub fn push(&mut self, id: TextId, span: Span) {
        if self.count == 0 {
            self.first = id;
        }
        if self.count as usize == self.kept.len() {
            self.grow();
        }
        let kept = Kept { before: span.before, whole: span.before + span.after, earlier: self.total };
        let index = self.index(id);
        self.kept[index] = kept;
        self.total = self.total.wrapping_add(kept.whole);
        self.count += 1;
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.kept);
        self.kept = vec![Kept::default(); (old.len() * 2).max(64)];
        for id in (0..self.count).map(|age| self.first.wrapping_add(age)) {
            let index = self.index(id);
            self.kept[index] = old[id as usize & (old.len() - 1)];
        }
    }

    /// The oldest text is forgotten.
    pub fn forget_oldest(&mut self) {
        if self.count > 0 {
            self.count -= 1;
            self.first = self.first.wrapping_add(1);
        }
    }

    #[inline]
    fn index(&self, id: TextId) -> usize {
        id as usize & (self.kept.len() - 1)
    }

    #[inline]
    fn of(&self, id: TextId) -> Option<Kept> {
        (id.wrapping_sub(self.first) < self.count).then(|| self.kept[self.index(id)])
    }

    /// How far apart two texts begin of which the second was sent right behind the first, without the seq.
    #[inline]
    pub fn step(&self, from: TextId, to: TextId) -> Option<u32> {
        let from = self.of(from)?;
        Some(from.whole - from.before + self.of(to)?.before)
    }

    /// How far apart two texts begin if all in between were sent, without their seqs.
    #[inline]
    pub fn stretch(&self, from: TextId, to: TextId) -> Option<u32> {
        let (from, to) = (self.of(from)?, self.of(to)?);
        Some(to.earlier.wrapping_sub(from.earlier) + to.before - from.before)
    }

    /// How far apart two texts begin of which the second was sent after those whose bits are set in `between`, the lowest for the
    /// number behind `from`, without the seqs; and how many steps these are.
    #[inline]
    pub fn walk_set(&self, from: TextId, to: TextId, between: u64) -> Option<(u32, u32)> {
        let (first, last) = (self.of(from)?, self.of(to)?);
        let (mut left, mut sum, mut count) = (between, first.whole, 1);
        while left != 0 {
            let id = from.wrapping_add(1 + left.trailing_zeros());
            // Between two that are known.
            sum = sum.wrapping_add(self.kept[self.index(id)].whole);
            left &= left - 1;
            count += 1;
        }
        Some((sum - first.before + last.before, count))
    }

    /// How far apart two texts begin of which the second was sent after those that are so many numbers `gaps` apart, without
    /// the seqs; and how many these were. None if the gaps do not come to it.
    #[inline]
    pub fn walk(&self, from: TextId, to: TextId, gaps: impl Iterator<Item = u32>) -> Option<(u32, u32)> {
        let wanted = to.wrapping_sub(from);
        let (first, last) = (self.of(from)?, self.of(to)?);
        let (mut passed, mut sum, mut count) = (0, first.whole, 0);
        for gap in gaps {
            passed += gap;
            count += 1;
            if passed >= wanted {
                return (passed == wanted).then_some((sum - first.before + last.before, count));
            }
            // Between two that are known.
            sum = sum.wrapping_add(self.kept[self.index(from.wrapping_add(passed))].whole);
        }
        None
    }
}
