//! Message sizes: bytes of a stream per body, equal on every connection except for the digits of the seq.
//!
//! Owns        for each body in the history, the size of its head and of its message.
//! Invariants  W1 the distance of two bodies of a stream is the sum of the message sizes in between, so a ring need not
//!             store each position.

use super::BodyId;

/// What all messages with a body have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageSize {
    /// From where the body begins, without the seq.
    pub after: u32,
    /// In front of the body, without the seq.
    pub before: u32,
}

/// A size as it is kept.
#[derive(Clone, Copy, Debug, Default)]
struct Stored {
    before: u32,
    /// Of all messages of earlier bodies, wrapping around.
    earlier: u32,
}

/// How many numbers on [`MessageSizes::walk_set`] looks.
pub const SET_BITS: usize = 48;
/// This many first entries of `wholes` are repeated after the last.
const MIRRORED: usize = 64;
const _: () = assert!(SET_BITS < MIRRORED);

/// By four bits, the lowest first: all bits of those that are set.
const MASKS: [[u32; 4]; 16] = {
    let mut masks = [[0; 4]; 16];
    let mut index = 0;
    while index < 64 {
        masks[index / 4][index % 4] = 0u32.wrapping_sub(((index / 4) >> (index % 4) & 1) as u32);
        index += 1;
    }
    masks
};

/// Those of the newest bodies of a matcher.
#[derive(Debug, Default)]
pub struct MessageSizes {
    /// By the last digits of the number, in base two.
    kept: Vec<Stored>,
    /// Of whole messages, without the seq, in the same order.
    wholes: Vec<u32>,
    first: BodyId,
    count: u32,
    /// Of all messages so far, wrapping around.
    total: u32,
}

impl MessageSizes {
    /// Of the body after the newest, or the first.
    pub fn push(&mut self, id: BodyId, size: MessageSize) {
        if self.count == 0 {
            self.first = id;
        }
        if self.count as usize == self.kept.len() {
            self.grow();
        }
        let whole = size.before + size.after;
        self.put(id, Stored { before: size.before, earlier: self.total }, whole);
        self.total = self.total.wrapping_add(whole);
        self.count += 1;
    }

    /// Heap it holds.
    pub fn heap_bytes(&self) -> usize {
        self.kept.len() * size_of::<Stored>() + self.wholes.len() * size_of::<u32>()
    }

    fn put(&mut self, id: BodyId, kept: Stored, whole: u32) {
        let index = self.index(id);
        self.kept[index] = kept;
        self.wholes[index] = whole;
        if index < MIRRORED {
            self.wholes[self.kept.len() + index] = whole;
        }
    }

    fn grow(&mut self) {
        let (old, old_wholes) = (std::mem::take(&mut self.kept), std::mem::take(&mut self.wholes));
        let room = (old.len() * 2).max(MIRRORED);
        self.kept = vec![Stored::default(); room];
        self.wholes = vec![0; room + MIRRORED];
        let first = self.first;
        for id in (0..self.count).map(|age| first.wrapping_add(age)) {
            let index = id as usize & (old.len() - 1);
            self.put(id, old[index], old_wholes[index]);
        }
    }

    /// The oldest body is forgotten.
    pub fn forget_oldest(&mut self) {
        if self.count > 0 {
            self.count -= 1;
            self.first = self.first.wrapping_add(1);
        }
    }

    #[inline]
    fn index(&self, id: BodyId) -> usize {
        id as usize & (self.kept.len() - 1)
    }

    #[inline]
    fn of(&self, id: BodyId) -> Option<Stored> {
        (id.wrapping_sub(self.first) < self.count).then(|| self.kept[self.index(id)])
    }

    /// How long a message is, of a body that is known.
    #[inline]
    fn whole(&self, id: BodyId) -> u32 {
        self.wholes[self.index(id)]
    }

    /// How far apart two bodies begin of which the second was sent right behind the first, without the seq.
    #[inline]
    pub fn step(&self, from: BodyId, to: BodyId) -> Option<u32> {
        let first = self.of(from)?;
        Some(self.whole(from) - first.before + self.of(to)?.before)
    }

    /// How far apart two bodies begin if all in between were sent, without their seqs.
    #[inline]
    pub fn stretch(&self, from: BodyId, to: BodyId) -> Option<u32> {
        let (from, to) = (self.of(from)?, self.of(to)?);
        Some(to.earlier.wrapping_sub(from.earlier) + to.before - from.before)
    }

    /// How far apart two bodies begin of which the second was sent after those whose bits are set in `between`, the
    /// lowest of [`SET_BITS`] for the number behind `from`. The seq of each takes `digits` bytes.
    #[inline]
    pub fn walk_set(&self, from: BodyId, to: BodyId, between: u64, digits: u32) -> Option<u32> {
        let (first, last) = (self.of(from)?, self.of(to)?);
        let wholes: &[u32; SET_BITS] = self.wholes[self.index(from) + 1..].first_chunk()?;
        let mut sums = [0u32; 4];
        // Four at a time, and half of all without a look at whether any is left: there mostly are, and it cannot be
        // foretold.
        for (half, fours) in wholes.as_chunks::<4>().0.chunks_exact(SET_BITS / 8).enumerate() {
            let left = between >> (half * SET_BITS / 2);
            if left == 0 {
                break;
            }
            for (index, four) in fours.iter().enumerate() {
                let mask = MASKS[(left >> (4 * index)) as usize % MASKS.len()];
                for lane in 0..4 {
                    sums[lane] = sums[lane].wrapping_add(four[lane].wrapping_add(digits) & mask[lane]);
                }
            }
        }
        let sum = sums.into_iter().fold(self.whole(from) + digits, u32::wrapping_add);
        Some(sum.wrapping_sub(first.before).wrapping_add(last.before))
    }

    /// Distance between the starts of two bodies, the second sent after bodies with these number `gaps`, without seqs;
    /// and the number of bodies. None if the gaps do not lead from one to the other.
    #[inline]
    pub fn walk(&self, from: BodyId, to: BodyId, gaps: impl Iterator<Item = u32>) -> Option<(u32, u32)> {
        let wanted = to.wrapping_sub(from);
        let (first, last) = (self.of(from)?, self.of(to)?);
        let (mut passed, mut sum, mut count) = (0, self.whole(from), 0);
        for gap in gaps {
            passed += gap;
            count += 1;
            if passed >= wanted {
                return (passed == wanted).then_some((sum - first.before + last.before, count));
            }
            // Between two that are known.
            sum = sum.wrapping_add(self.whole(from.wrapping_add(passed)));
        }
        None
    }
}
