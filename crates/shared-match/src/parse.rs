//! Parse: the cheapest way to write a text as literals and references, for connections that have its sources.
//!
//! Owns        the search for the cheapest path under real prices: `repeats` for zstd, where the last offsets are cheap to say
//!             again, `plain` for deflate, where each is said in full.
//! Invariants  P1 what a parse rebuilds from its sources is the text. P2 it refers to no text older than its horizon
//!             nor beyond its reach, nor into a hole; to a dictionary only if its candidates do.
//! Limits      `SOURCES_MAX` texts that it refers to: those that give the most bytes.

mod plain;
mod repeats;

use crate::{
    candidates::{Candidate, Candidates, ITSELF},
    dictionary::{DICTIONARY, Dictionary},
    had::Had,
    history::{Entry, History},
    price::Prices,
    ring::BodyId,
};

/// About so many bytes a connection gets per text of the matcher: some are large, and most it is not sent.
const BYTES_PER_TEXT: u32 = 700;

/// Texts that one parse refers to at most: each is looked for on every connection.
pub const SOURCES_MAX: usize = 240;

/// A source and how far it is shifted against the text: `from - at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    pub source: BodyId,
    pub shift: i32,
}

impl Alignment {
    const NONE: Self = Self { source: BodyId::MAX, shift: 0 };
}

/// How the offset of a sequence is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// As one of the three last: the value 1, 2 or 3 of the format.
    Repeat(u8),
    /// In full.
    Explicit,
}

/// Literals, then bytes from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    pub literals: u32,
    pub length: u32,
    pub alignment: Alignment,
    pub offset: Offset,
}

/// What texts refer to.
#[derive(Clone, Copy, Debug)]
pub struct Past<'a> {
    pub history: &'a History,
    /// And how far before the text it begins, on the connection that asks.
    pub dictionary: Option<(&'a Dictionary, u32)>,
}

impl<'a> Past<'a> {
    /// The bytes of a source other than the text itself.
    pub fn bytes(&self, id: BodyId) -> Option<&'a [u8]> {
        if id == DICTIONARY {
            return self.dictionary.map(|(dictionary, _)| dictionary.content());
        }
        self.history.text(id).map(|source| self.history.bytes(source))
    }
}

/// What is parsed.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    pub text: &'a Entry,
    pub past: Past<'a>,
    /// Where the text stood before.
    pub candidates: &'a Candidates,
    /// How many bytes back it may refer to itself.
    pub reach: u32,
}

/// Which sources a parse may have, beside the text itself and a dictionary.
#[derive(Clone, Copy, Debug)]
pub enum Allowed<'a> {
    /// What nearly all have, from `oldest` on, and one text more.
    Common { oldest: BodyId, template: Option<BodyId> },
    /// What one connection has.
    Had(&'a Had),
    /// One text.
    Only(BodyId),
    /// All.
    All,
    /// None.
    Nothing,
}

impl Allowed<'_> {
    fn allows(&self, found: &Candidate) -> bool {
        match *self {
            // No branches: they could not be foretold.
            Self::Common { oldest, template } => {
                found.is_common & (found.source >= oldest) | (Some(found.source) == template)
            }
            Self::Had(had) => had.contains(found.source),
            Self::Only(only) => found.source == only,
            Self::All => true,
            Self::Nothing => false,
        }
    }
}

/// About how far back an alignment's bytes are, as far as that is known before there is a connection.
fn likely_distance(past: Past<'_>, text: &Entry, alignment: Alignment) -> u32 {
    match alignment.source {
        ITSELF => -alignment.shift as u32,
        DICTIONARY => past.dictionary.map_or(0, |(_, distance)| distance).wrapping_sub(alignment.shift as u32),
        source => text.id.wrapping_sub(source).saturating_mul(BYTES_PER_TEXT).clamp(1_000, 1 << 20),
    }
}

/// Room for parsing, kept between parses.
#[derive(Debug, Default)]
pub struct Parser {
    repeats: repeats::Parser,
    plain: plain::Parser,
}

impl Parser {
    /// The cheapest sequences under `prices` with sources that are `allowed`.
    pub fn parse(&mut self, task: Task<'_>, prices: Prices<'_>, allowed: Allowed<'_>) -> Vec<Sequence> {
        let sequences = match (prices, allowed) {
            (Prices::Deflate(prices), Allowed::Common { oldest, template }) => {
                self.plain.parse_common(task, prices, (oldest, template))
            }
            // Most parses, so it has a loop of its own.
            (_, Allowed::Common { .. }) => self.parse_with(task, prices, |found| allowed.allows(found)),
            _ => self.parse_with(task, prices, |found| allowed.allows(found)),
        };
        let Some(best) = best_sources(&sequences) else { return sequences };
        self.parse_with(task, prices, |found| best.binary_search(&found.source).is_ok() && allowed.allows(found))
    }

    fn parse_with(
        &mut self,
        task: Task<'_>,
        prices: Prices<'_>,
        allowed: impl Fn(&Candidate) -> bool,
    ) -> Vec<Sequence> {
        let may_use = |at: usize, candidate: &Candidate| match candidate.source {
            ITSELF => at as u32 - candidate.from <= task.reach,
            DICTIONARY => true,
            _ => allowed(candidate),
        };
        match prices {
            Prices::Zstd(prices) => self.repeats.parse(task, prices, may_use),
            Prices::Deflate(prices) => self.plain.parse(task, prices, may_use),
        }
    }
}

/// If these have more than [`SOURCES_MAX`] sources, those that give the most bytes, in order.
pub fn best_sources(sequences: &[Sequence]) -> Option<Vec<BodyId>> {
    if sequences.len() <= SOURCES_MAX {
        return None;
    }
    let mut given: Vec<(BodyId, u32)> =
        sequences.iter().map(|sequence| (sequence.alignment.source, sequence.length)).collect();
    given.retain(|(source, _)| !matches!(*source, ITSELF | DICTIONARY));
    given.sort_unstable();
    given.dedup_by(|later, first| {
        let is_same = later.0 == first.0;
        first.1 += if is_same { later.1 } else { 0 };
        is_same
    });
    if given.len() <= SOURCES_MAX {
        return None;
    }
    given.sort_unstable_by_key(|(source, bytes)| (std::cmp::Reverse(*bytes), *source));
    given.truncate(SOURCES_MAX);
    let mut best: Vec<BodyId> = given.into_iter().map(|(source, _)| source).collect();
    best.sort_unstable();
    Some(best)
}
