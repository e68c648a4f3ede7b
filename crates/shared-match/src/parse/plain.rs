//! Optimal parser for formats in which an offset always costs the same, such as deflate.
//!
//! Method      one backward pass: the cost of the rest of a text does not depend on the path to a position,
//! so one number per
//!             position suffices. All lengths of a candidate are tried at once, `LANES` at a time.
//!             Parses with different
//!             look-backs share most candidates, which are filtered once (`Ladder`).

use super::{Alignment, Offset, Sequence, Task, likely_distance};
use crate::{
    candidates::{Candidate, ITSELF},
    deflate::MATCH_BYTES_MAX,
    price::{DeflatePrices, PADDING},
    ring::BodyId,
    templates::TEMPLATES_MAX,
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

/// Ladders that are kept: with each template, and without.
const LADDERS_MAX: usize = TEMPLATES_MAX + 1;

/// A candidate that may be part of the cheapest path, and what its offset costs.
#[derive(Clone, Copy, Debug)]
struct Rung {
    /// The largest number, if it may always be used.
    source: BodyId,
    /// Which of the position's candidates it is.
    index: u32,
    length: u32,
    offset: f32,
}

/// Key of a ladder: the newest text, its reach into itself, and its template.
type LadderKey = (BodyId, u32, Option<BodyId>);

/// Per position of a text, the common candidates and those of a template, except for ones with a nearer
/// candidate of equal length.
#[derive(Debug, Default)]
struct Ladder {
    key: Option<LadderKey>,
    /// Of position `p`: `rungs[starts[p]..starts[p + 1]]`.
    starts: Vec<u32>,
    rungs: Vec<Rung>,
}

impl Ladder {
    fn make(&mut self, template: Option<BodyId>, task: Task<'_>, prices: &DeflatePrices) {
        let Task { text, candidates, reach, .. } = task;
        self.key = Some((text.id, reach, template));
        self.starts.clear();
        self.rungs.clear();
        for at in 0..text.len() {
            self.starts.push(self.rungs.len() as u32);
            // The longest that may be used by all parses, and by those that look back as far.
            let (mut longest, mut longest_here) = (MATCH_MIN - 1, MATCH_MIN - 1);
            for (index, candidate) in candidates.at(at).iter().enumerate() {
                let is_usable = match candidate.source {
                    ITSELF => at as u32 - candidate.from <= reach,
                    source => candidate.is_common | (Some(source) == template),
                };
                let is_for_all = candidate.source == ITSELF || Some(candidate.source) == template;
                let length = candidate.length as usize;
                if !is_usable || length <= if is_for_all { longest } else { longest_here } {
                    continue;
                }
                longest_here = longest_here.max(length.min(MATCH_MAX));
                if is_for_all {
                    longest = longest.max(length.min(MATCH_MAX));
                }
                let source = if is_for_all { BodyId::MAX } else { candidate.source };
                self.rungs.push(Rung { source, ..Rung::of(index, candidate, at, task, prices) });
            }
        }
        self.starts.push(self.rungs.len() as u32);
    }

    #[inline]
    fn at(&self, position: usize) -> &[Rung] {
        &self.rungs[self.starts[position] as usize..self.starts[position + 1] as usize]
    }
}

impl Rung {
    #[inline]
    fn of(index: usize, candidate: &Candidate, at: usize, task: Task<'_>, prices: &DeflatePrices) -> Self {
        let Candidate { source, from, length, .. } = *candidate;
        let alignment = Alignment { source, shift: from as i32 - at as i32 };
        let offset = prices.distance(likely_distance(task.past, task.text, alignment));
        Self { source, index: index as u32, length, offset }
    }
}

/// Room for parsing, kept between parses.
#[derive(Debug, Default)]
pub struct Parser {
    ladders: [Ladder; LADDERS_MAX],
    /// Index of the next ladder to rebuild.
    next_ladder: usize,
    /// Behind `PADDING` more: bits of the text from each position on.
    costs: Vec<f32>,
    /// By position: which candidate is the first step of that, and how many of its bytes.
    steps: Vec<(u32, u32)>,
}

impl Parser {
    /// The cheapest sequences under `prices` with those candidates of each position that it `may_use`.
    pub fn parse(
        &mut self,
        task: Task<'_>,
        prices: &DeflatePrices,
        may_use: impl Fn(usize, &Candidate) -> bool,
    ) -> Vec<Sequence> {
        let may_use = &may_use;
        self.climb(task, prices, |at| {
            let usable = task.candidates.at(at).iter().enumerate().filter(move |(_, candidate)| may_use(at, candidate));
            usable.map(move |(index, candidate)| Rung::of(index, candidate, at, task, prices))
        });
        self.sequences(task, prices)
    }

    /// Parses with the common sources from `oldest` on, with a template, and with the text itself within its reach.
    pub fn parse_common(
        &mut self,
        task: Task<'_>,
        prices: &DeflatePrices,
        (oldest, template): (BodyId, Option<BodyId>),
    ) -> Vec<Sequence> {
        let key = (task.text.id, task.reach, template);
        let index = self.ladders.iter().position(|ladder| ladder.key == Some(key)).unwrap_or_else(|| {
            self.next_ladder = (self.next_ladder + 1) % LADDERS_MAX;
            self.ladders[self.next_ladder].make(template, task, prices);
            self.next_ladder
        });
        let ladder = std::mem::take(&mut self.ladders[index]);
        self.climb(task, prices, |at| ladder.at(at).iter().filter(|rung| rung.source >= oldest).copied());
        self.ladders[index] = ladder;
        self.sequences(task, prices)
    }

    /// Finds the cheapest step of each position among the `rungs` that there are, nearest first.
    #[inline]
    fn climb<R: Iterator<Item = Rung>>(&mut self, task: Task<'_>, prices: &DeflatePrices, rungs: impl Fn(usize) -> R) {
        let bytes = task.past.history.bytes(task.text);
        // Remaining values of another parse there are never read.
        let room = PADDING + bytes.len() + 1;
        self.costs.resize(self.costs.len().max(room), 0.0);
        self.steps.resize(self.steps.len().max(bytes.len()), (LITERAL, 1));
        self.costs[room - 1] = 0.0;
        for at in (0..bytes.len()).rev() {
            let mut least = prices.literal(bytes[at]) + self.cost(at + 1);
            let mut step = (LITERAL, 1);
            let mut shorter = MATCH_MIN - 1;
            for Rung { index, length, offset, .. } in rungs(at) {
                let length = length as usize;
                if length <= shorter {
                    continue;
                }
                let longest = length.min(MATCH_MAX);
                if longest > shorter {
                    let ends_from = (shorter + 1).max(longest.saturating_sub(ENDS_TRIED_MAX));
                    let cost = offset + self.cheapest_end(prices, at, ends_from, longest);
                    if cost < least {
                        (least, step) = (cost, (index, longest as u32));
                    }
                }
                if length > MATCH_MAX {
                    let pieces = length.div_ceil(MATCH_MAX) as f32;
                    let cost = pieces * (offset + prices.match_length(MATCH_MAX)) + self.cost(at + length);
                    if cost < least {
                        (least, step) = (cost, (index, length as u32));
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
    fn sequences(&self, Task { candidates, text, .. }: Task<'_>, prices: &DeflatePrices) -> Vec<Sequence> {
        let length = text.len();
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

#[cfg(test)]
mod tests {
    use super::{super::Past, *};
    use crate::{
        candidates::Candidates,
        history::{Domain, Entry, History, Scope},
        spans::Span,
    };
    use guildhall_stdx::Rng;

    /// Of each position some, nearest first, as a search would have it; nobody looks whether their bytes are there.
    fn random_candidates(rng: &mut Rng, text: &Entry) -> Candidates {
        let mut candidates = Candidates::default();
        for at in 0..text.len() {
            candidates.start_position();
            let mut source = text.id;
            let mut found = Vec::new();
            while source > 1 && rng.chance(0.7) {
                let longest = if rng.chance(0.05) { 400 } else { 10 };
                let length = (MATCH_MIN as u64 + rng.below(longest)).min((text.len() - at) as u64) as u32;
                // Behind what the text has itself.
                let is_itself = source == text.id && at > 0 && rng.chance(0.5);
                source -= 1 + rng.below(4).min(u64::from(source) - 2) as u32;
                found.push(match is_itself {
                    true => Candidate { source: ITSELF, from: rng.below(at as u64) as u32, length, is_common: true },
                    false => Candidate { source, from: 0, length, is_common: rng.chance(0.6) },
                });
            }
            found.retain(|candidate| candidate.length as usize >= MATCH_MIN);
            candidates.extend(found);
        }
        candidates.start_position();
        candidates
    }

    #[test]
    fn a_ladder_leaves_out_nothing_that_counts() {
        let mut rng = Rng::new(3);
        let mut history = History::new(1 << 20);
        let scope = Scope { domain: Domain::Public { guild: 1, view: 0 }, class: 0, kind: 0 };
        let mut parser = Parser::default();
        let (mut matches, prices) = (0, DeflatePrices::fixed());
        for _ in 0..60 {
            let bytes: Vec<u8> = (0..1 + rng.below(700)).map(|_| b' ' + rng.below(90) as u8).collect();
            let id = history.push(scope, "X", &bytes, Span::default()).expect("it is short");
            let text = history.text(id).expect("it was pushed just now").clone();
            let candidates = random_candidates(&mut rng, &text);
            let past = Past { history: &history, dictionary: None };
            let reach = [100, 1 << 15][rng.below(2) as usize];
            let task = Task { text: &text, past, candidates: &candidates, reach };
            for _ in 0..12 {
                let oldest = 1 + rng.below(id.into()) as BodyId;
                let template = rng.chance(0.5).then(|| 1 + rng.below(id.into()) as BodyId);
                let allowed = |at: usize, found: &Candidate| match found.source {
                    ITSELF => at as u32 - found.from <= reach,
                    source => found.is_common && source >= oldest || Some(source) == template,
                };
                let asked = parser.parse(task, &prices, allowed);
                let laddered = parser.parse_common(task, &prices, (oldest, template));
                assert_eq!(laddered, asked, "text {id} from {oldest} on, with {template:?}");
                matches += asked.len();
            }
        }
        assert!(matches > 3_000, "{matches}");
    }
}
