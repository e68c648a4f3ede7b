//! Plain: the cheapest path where an offset costs the same every time it is said, as in deflate.
//!
//! Method      one backward pass: what the rest of the text costs from a position on does not depend on how one came there, so
//!             a number per position is all there is to keep. Of a candidate all lengths are tried at once, `LANES` at a time.

use super::{Alignment, Offset, Past, Sequence, likely_distance};
use crate::{
    deflate::MATCH_BYTES_MAX,
    find::{Candidate, Candidates},
    history::Text,
    price::{DeflatePrices, PADDING},
};

/// Lengths that are tried together.
const LANES: usize = 8;
const _: () = assert!(PADDING >= LANES);
/// Of a longer match, ends farther from its own are not tried.
const ENDS_TRIED_MAX: usize = 64;
const MATCH_MAX: usize = MATCH_BYTES_MAX as usize;
const MATCH_MIN: usize = 3;

/// No candidate: a literal.
const LITERAL: u32 = u32::MAX;

/// Room for parsing, kept between parses.
#[derive(Debug, Default)]
pub struct Parser {
    /// Behind `PADDING` more: bits of the text from each position on.
    costs: Vec<f32>,
    /// By position: which candidate is the first step of that, and how many of its bytes.
    steps: Vec<(u32, u32)>,
}

impl Parser {
    /// The cheapest sequences for `text` under `prices` with those candidates of each position that it `may_use`.
    pub fn parse(
        &mut self,
        past: Past<'_>,
        candidates: &Candidates,
        prices: &DeflatePrices,
        text: &Text,
        may_use: impl Fn(usize, &Candidate) -> bool,
    ) -> Vec<Sequence> {
        let bytes = past.history.bytes(text);
        self.costs.clear();
        self.costs.resize(PADDING + bytes.len() + 1, 0.0);
        self.steps.clear();
        self.steps.resize(bytes.len(), (LITERAL, 1));
        for at in (0..bytes.len()).rev() {
            let mut least = prices.literal(bytes[at]) + self.cost(at + 1);
            let mut shorter = MATCH_MIN - 1;
            for (index, candidate) in candidates.at(at).iter().enumerate() {
                let length = candidate.length as usize;
                if length <= shorter || !may_use(at, candidate) {
                    continue;
                }
                let alignment = Alignment { source: candidate.source, shift: candidate.from as i32 - at as i32 };
                let offset = prices.distance(likely_distance(past, text, alignment));
                let longest = length.min(MATCH_MAX);
                if longest > shorter {
                    let ends_from = (shorter + 1).max(longest.saturating_sub(ENDS_TRIED_MAX));
                    let cost = offset + self.cheapest_end(prices, at, ends_from, longest);
                    if cost < least {
                        least = cost;
                        self.steps[at] = (index as u32, longest as u32);
                    }
                }
                if length > MATCH_MAX {
                    let pieces = length.div_ceil(MATCH_MAX) as f32;
                    let cost = pieces * (offset + prices.match_length(MATCH_MAX)) + self.cost(at + length);
                    if cost < least {
                        least = cost;
                        self.steps[at] = (index as u32, length as u32);
                    }
                }
                shorter = longest;
            }
            self.costs[PADDING + at] = least;
        }
        self.sequences(candidates, prices, bytes.len())
    }

    #[inline]
    fn cost(&self, at: usize) -> f32 {
        self.costs[PADDING + at]
    }

    /// What it costs to go on behind a match at `at` that ends `from` to `to` bytes on, wherever that is cheapest. Some shorter
    /// ones are tried along with these.
    #[inline]
    fn cheapest_end(&self, prices: &DeflatePrices, at: usize, from: usize, to: usize) -> f32 {
        let count = (to + 1 - from).next_multiple_of(LANES);
        let end = PADDING + to + 1;
        let costs = self.costs[at + end - count..at + end].chunks_exact(LANES);
        let lengths = prices.padded_match_lengths()[end - count..end].chunks_exact(LANES);
        let mut least = [f32::INFINITY; LANES];
        for (costs, lengths) in costs.zip(lengths) {
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
    fn sequences(&self, candidates: &Candidates, prices: &DeflatePrices, length: usize) -> Vec<Sequence> {
        let mut sequences = Vec::new();
        let (mut at, mut literals) = (0, 0);
        while at < length {
            let (index, longest) = self.steps[at];
            if index == LITERAL {
                literals += 1;
                at += 1;
                continue;
            }
            let candidate = &candidates.at(at)[index as usize];
            let alignment = Alignment { source: candidate.source, shift: candidate.from as i32 - at as i32 };
            let end = at + self.step_length(prices, at, longest as usize);
            while at < end {
                // What is left has to be long enough, too.
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
