//! Optimal parser for formats in which an offset always costs the same, such as deflate.
//!
//! Method      one backward pass: the cost of the rest of a body does not depend on the path to a position, so one
//!             number per position suffices. All lengths of a candidate are tried at once, `LANES` at a time.

use super::{Alignment, Offset, Sequence, Task};
use crate::{
    deflate::MATCH_BYTES_MAX,
    parse::prices::{DeflatePrices, PADDING},
    search::candidates::Candidate,
};

/// Lengths that are tried together.
const LANES: usize = 8;
const _: () = assert!(PADDING >= LANES);
/// Of a longer match, ends farther from its own are not tried.
const ENDS_TRIED_MAX: usize = 64;
const MATCH_MAX: usize = MATCH_BYTES_MAX as usize;
const MATCH_MIN: usize = 3;

/// The first step of the cheapest path from a position.
#[derive(Clone, Copy, Debug)]
enum Step {
    Literal,
    /// So many bytes at most of one of the position's candidates.
    Match {
        candidate: u16,
        length: u32,
    },
}

/// A candidate that may be part of the cheapest path, and what its offset costs.
#[derive(Clone, Copy, Debug)]
struct FilteredCandidate {
    /// Which of the position's candidates it is.
    index: u16,
    length: u32,
    offset: f32,
}

impl FilteredCandidate {
    #[inline]
    fn of(index: usize, candidate: &Candidate, prices: &DeflatePrices) -> Self {
        Self { index: index as u16, length: candidate.length, offset: prices.distance(candidate.offset) }
    }
}

/// Memory for parsing, kept between parses.
#[derive(Debug, Default)]
pub struct DeflateParser {
    /// Behind `PADDING` more: bits of the body from each position on.
    costs: Vec<f32>,
    /// By position: the first step of that.
    steps: Vec<Step>,
}

impl DeflateParser {
    /// The cheapest sequences under `prices` with those candidates of each position that it `may_use`.
    pub fn parse(
        &mut self,
        task: Task<'_>,
        prices: &DeflatePrices,
        may_use: impl Fn(usize, &Candidate) -> bool,
    ) -> Vec<Sequence> {
        let may_use = &may_use;
        self.find_cheapest(task, prices, |at| {
            let usable = task.candidates.at(at).iter().enumerate().filter(move |(_, candidate)| may_use(at, candidate));
            usable.map(move |(index, candidate)| FilteredCandidate::of(index, candidate, prices))
        });
        self.sequences(task, prices)
    }

    /// Finds the cheapest step of each position among the `filtered` that there are, nearest first.
    #[inline]
    fn find_cheapest<R: Iterator<Item = FilteredCandidate>>(
        &mut self,
        task: Task<'_>,
        prices: &DeflatePrices,
        filtered: impl Fn(usize) -> R,
    ) {
        let bytes = task.past.history.bytes(task.body);
        // Remaining values of another parse there are never read.
        let room = PADDING + bytes.len() + 1;
        self.costs.resize(self.costs.len().max(room), 0.0);
        self.steps.resize(self.steps.len().max(bytes.len()), Step::Literal);
        self.costs[room - 1] = 0.0;
        for at in (0..bytes.len()).rev() {
            let mut least = prices.literal(bytes[at]) + self.cost(at + 1);
            let mut step = Step::Literal;
            let mut shorter = MATCH_MIN - 1;
            for FilteredCandidate { index, length, offset, .. } in filtered(at) {
                let length = length as usize;
                if length <= shorter {
                    continue;
                }
                let longest = length.min(MATCH_MAX);
                if longest > shorter {
                    let ends_from = (shorter + 1).max(longest.saturating_sub(ENDS_TRIED_MAX));
                    let cost = offset + self.cheapest_end(prices, at, ends_from, longest);
                    if cost < least {
                        (least, step) = (cost, Step::Match { candidate: index, length: longest as u32 });
                    }
                }
                if length > MATCH_MAX {
                    let pieces = length.div_ceil(MATCH_MAX) as f32;
                    let cost = pieces * (offset + prices.match_length(MATCH_MAX)) + self.cost(at + length);
                    if cost < least {
                        (least, step) = (cost, Step::Match { candidate: index, length: length as u32 });
                    }
                }
                shorter = longest;
            }
            self.costs[PADDING + at] = least;
            self.steps[at] = step;
        }
    }

    #[inline]
    fn cost(&self, at: usize) -> f32 {
        self.costs[PADDING + at]
    }

    /// Cheapest end of a match at `at` among `from` to `to` bytes, where the rest is cheapest. Some shorter ends
    /// are tried as well.
    #[inline(always)]
    fn cheapest_end(&self, prices: &DeflatePrices, at: usize, from: usize, to: usize) -> f32 {
        let count = (to + 1 - from).next_multiple_of(LANES);
        let end = PADDING + to + 1;
        let (costs, _) = self.costs[at + end - count..][..count].as_chunks::<LANES>();
        let (lengths, _) = prices.padded_match_lengths()[end - count..][..count].as_chunks::<LANES>();
        let mut least = [f32::INFINITY; LANES];
        for (costs, lengths) in costs.iter().zip(lengths) {
            for lane in 0..LANES {
                let cost = costs[lane] + lengths[lane];
                // This comparison and no other is one instruction for all lanes.
                least[lane] = if cost < least[lane] { cost } else { least[lane] };
            }
        }
        // By halves, which are lanes again.
        let less = |a: f32, b: f32| if b < a { b } else { a };
        let four: [f32; LANES / 2] = std::array::from_fn(|lane| less(least[lane], least[lane + LANES / 2]));
        less(less(four[0], four[2]), less(four[1], four[3]))
    }

    /// Follows the cheapest steps from the beginning.
    fn sequences(&self, Task { candidates, body, .. }: Task<'_>, prices: &DeflatePrices) -> Vec<Sequence> {
        let length = body.len();
        let mut sequences = Vec::new();
        let (mut at, mut literals) = (0, 0);
        while at < length {
            let Step::Match { candidate, length: longest } = self.steps[at] else {
                literals += 1;
                at += 1;
                continue;
            };
            let candidate = &candidates.at(at)[usize::from(candidate)];
            let alignment = Alignment { source: candidate.source, shift: candidate.from as i32 - at as i32 };
            let end = at + self.step_length(prices, at, longest as usize);
            while at < end {
                // The rest must be long enough, too.
                let piece = match end - at {
                    left if left > MATCH_MAX && left < MATCH_MAX + MATCH_MIN => left - MATCH_MIN,
                    left => left.min(MATCH_MAX),
                };
                sequences.push(Sequence { literals, length: piece as u32, alignment, offset: Offset::Explicit });
                literals = 0;
                at += piece;
            }
        }
        sequences
    }

    /// Where a match that may have up to `longest` bytes ends best.
    fn step_length(&self, prices: &DeflatePrices, at: usize, longest: usize) -> usize {
        if longest > MATCH_MAX {
            return longest;
        }
        let least = self.cheapest_end(prices, at, MATCH_MIN, longest);
        let cost = |length: usize| prices.match_length(length) + self.cost(at + length);
        (MATCH_MIN..=longest).rev().find(|length| cost(*length) <= least).unwrap_or(longest)
    }
}
