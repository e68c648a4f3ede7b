//! Coverage: which earlier texts the recipients of a text probably have, estimated from a sample of the connections.
//!
//! Owns        the sample: up to `SAMPLE_MAX` connections whose every text is noted.
//! Why         a text goes to connections with different histories. A parse fits connections that have
//! all of its sources,
//!             so it should use sources that nearly all have. Rules alone cannot determine them: they
//!             depend on channels,
//!             intents, subscriptions and on when each connection started.
//! Limits      32 bytes per text, 8 per connection.

use crate::{deflate::WINDOW_BYTES_MAX, ring::BodyId};
use guildhall_stdx::Rng;
use smallvec::SmallVec;

/// Connections that are followed.
pub const SAMPLE_MAX: usize = 256;
/// When the sample is full, one new connection in this many replaces a sampled one.
const REPLACE_ONE_IN: u64 = 8;
/// With fewer of a text's recipients in the sample, it says nothing, unless it is all connections.
const TELLING_COUNT: u32 = 6;

/// With more of a text's recipients in the sample, it is looked for in what nearly all of them have, and in nothing else: less
/// than 0.1 % more bytes, and a tenth less work for streams of deflate.
const SEVERAL_MAX: u32 = 40;
/// "Nearly all" means: all except one in this many.
const NEARLY_ALL_BUT_ONE_IN: u32 = 16;

/// A set of sampled connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampled([u64; SAMPLE_MAX / 64]);

impl Sampled {
    /// Adds a connection.
    pub fn insert(&mut self, sample: u8) {
        self.0[usize::from(sample) / 64] |= 1 << (sample % 64);
    }

    fn remove(&mut self, sample: u8) {
        self.0[usize::from(sample) / 64] &= !(1 << (sample % 64));
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// How many are in both.
    pub fn common(self, other: Self) -> u32 {
        self.within(other).count()
    }

    /// Those that are in `other`, too.
    pub fn within(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// Those that are not in `other`.
    pub fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    fn each(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(word, bits)| {
            let next = |bits: &u64| Some(bits & (bits - 1)).filter(|left| *left > 0);
            std::iter::successors(Some(bits).filter(|bits| *bits > 0), next)
                .map(move |bits| 64 * word + bits.trailing_zeros() as usize)
        })
    }
}

/// A connection's place in the sample, if it has one.
#[derive(Clone, Copy, Debug, Default)]
pub enum Membership {
    /// It has not been sent a text yet.
    #[default]
    Undecided,
    /// It is not followed.
    None,
    /// It is followed, unless another took its place.
    Some { sample: u8, token: u32 },
}

/// See the module.
#[derive(Debug)]
pub struct Coverage {
    /// Token of the connection that holds each place.
    owners: Vec<u32>,
    /// The oldest text that each had within reach when it was last written to.
    oldest: [BodyId; SAMPLE_MAX],
    /// Those whose streams reach back farther than a stream of deflate can.
    far: Sampled,
    next_token: u32,
    rng: Rng,
}

impl Default for Coverage {
    fn default() -> Self {
        Self { owners: Vec::new(), oldest: [0; SAMPLE_MAX], far: Sampled::default(), next_token: 0, rng: Rng::new(0) }
    }
}

impl Coverage {
    /// The place of a connection that is being sent a text.
    #[inline]
    pub fn sample_of(&mut self, membership: &mut Membership) -> Option<u8> {
        match *membership {
            Membership::None => None,
            Membership::Some { sample, token } if self.owners[usize::from(sample)] == token => Some(sample),
            Membership::Some { .. } => {
                *membership = Membership::None;
                None
            }
            Membership::Undecided => {
                *membership = self.enrol();
                match *membership {
                    Membership::Some { sample, .. } => Some(sample),
                    Membership::Undecided | Membership::None => None,
                }
            }
        }
    }

    /// One of the sample was written to: the oldest text that it can still refer to, with so large a window.
    pub fn note_reach(&mut self, sample: u8, oldest: BodyId, window: u32) {
        self.oldest[usize::from(sample)] = oldest;
        if window > WINDOW_BYTES_MAX { self.far.insert(sample) } else { self.far.remove(sample) }
    }

    /// Those of `all` that have got `source` and can probably still refer to it.
    pub fn can_refer(&self, all: Sampled, source: BodyId, got: Sampled) -> Sampled {
        let mut able = Sampled::default();
        all.within(got)
            .each()
            .filter(|sample| self.oldest[*sample] <= source)
            .for_each(|sample| able.insert(sample as u8));
        able
    }

    /// The oldest text that is worth looking at for a text that these will get: each older one is too far back for all but a few of
    /// those with small windows, and for all but a few of those with large ones. None if the sample does not tell.
    pub fn oldest_in_reach(&self, expected: Sampled) -> Option<BodyId> {
        let groups = [expected.within(self.far), expected.without(self.far)];
        let oldest = groups.into_iter().filter_map(|group| self.oldest_of(group)).min();
        oldest.filter(|_| self.is_telling(expected.count()))
    }

    fn oldest_of(&self, group: Sampled) -> Option<BodyId> {
        let mut all: SmallVec<[BodyId; SAMPLE_MAX]> = group.each().map(|sample| self.oldest[sample]).collect();
        let farthest_count = all.len() / NEARLY_ALL_BUT_ONE_IN as usize;
        (!all.is_empty()).then(|| *all.select_nth_unstable(farthest_count).1)
    }

    #[cold]
    fn enrol(&mut self) -> Membership {
        let token = self.next_token;
        self.next_token = self.next_token.wrapping_add(1);
        let sample = if self.owners.len() < SAMPLE_MAX {
            self.owners.push(token);
            self.owners.len() - 1
        } else if self.rng.below(REPLACE_ONE_IN) == 0 {
            let sample = self.rng.below(SAMPLE_MAX as u64) as usize;
            self.owners[sample] = token;
            sample
        } else {
            return Membership::None;
        };
        Membership::Some { sample: sample as u8, token }
    }

    /// Whether a text with this many expected recipients in the sample has so large an audience that the search may
    /// ignore sources that not nearly all of them have.
    pub fn is_for_many(&self, expected_count: u32) -> bool {
        expected_count > SEVERAL_MAX
    }

    /// Whether the sample is meaningful for a text with this many recipients in it.
    fn is_telling(&self, expected_count: u32) -> bool {
        expected_count >= TELLING_COUNT || expected_count > 0 && self.next_token as usize <= SAMPLE_MAX
    }

    /// Whether nearly all who are expected to get a text have got another; none if the sample does not tell.
    pub fn covers(&self, expected: Sampled, got: Sampled) -> Option<bool> {
        let count = expected.count();
        self.is_telling(count)
            .then(|| expected.common(got) * NEARLY_ALL_BUT_ONE_IN >= count * (NEARLY_ALL_BUT_ONE_IN - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many connections, of which each looks back to the text of its own number.
    fn sampled(count: BodyId) -> (Coverage, Sampled) {
        let (mut coverage, mut all) = (Coverage::default(), Sampled::default());
        for number in 1..=count {
            let sample = coverage.sample_of(&mut Membership::default()).expect("there is room");
            coverage.note_reach(sample, number, WINDOW_BYTES_MAX);
            all.insert(sample);
        }
        (coverage, all)
    }

    #[test]
    fn what_few_alone_can_refer_to_is_not_worth_looking_at() {
        for (count, oldest) in [(1, Some(1)), (15, Some(1)), (16, Some(2)), (40, Some(3)), (256, Some(17)), (0, None)] {
            let (coverage, all) = sampled(count);
            assert_eq!(coverage.oldest_in_reach(all), oldest, "of {count}");
        }
    }

    #[test]
    fn streams_with_large_windows_are_heard_however_few_they_are() {
        let (mut coverage, all) = sampled(256);
        coverage.note_reach(0, 1, 2 * WINDOW_BYTES_MAX);
        assert_eq!(coverage.oldest_in_reach(all), Some(1));
        // Another took its place.
        coverage.note_reach(0, 200, WINDOW_BYTES_MAX);
        assert_eq!(coverage.oldest_in_reach(all), Some(17 + 1));
    }

    #[test]
    fn a_few_of_a_crowd_do_not_tell_how_far_others_reach() {
        let (mut coverage, _) = sampled(SAMPLE_MAX as BodyId);
        coverage.sample_of(&mut Membership::default());
        let first = |count: u8| {
            (0..count).fold(Sampled::default(), |mut first, sample| {
                first.insert(sample);
                first
            })
        };
        assert_eq!(coverage.oldest_in_reach(first(TELLING_COUNT as u8 - 1)), None);
        assert!(coverage.oldest_in_reach(first(TELLING_COUNT as u8)).is_some());
    }
}
