//! Parse: the cheapest way to write a body as literals and references, for connections that have its sources.
//!
//! Owns        the search for the cheapest path under real prices: `repeats` for zstd, where the last offsets are cheap
//!             to repeat, `plain` for deflate, where each offset is written in full.
//! Invariants  P1 a parse and its sources reproduce the body. P2 it refers to no body older than its horizon, beyond
//!             its reach, or in a hole; to a dictionary only if its candidates do.
//! Limits      `SOURCES_MAX` bodies that it refers to: those that provide the most bytes.

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

/// Approximate bytes that a connection receives per body of the matcher: some bodies are large, and most are
/// not sent to it.
const BYTES_PER_TEXT: u32 = 700;

/// Bodies that one parse may refer to: each is looked up on every connection.
pub const SOURCES_MAX: usize = 240;

/// A source and its shift against the body: `from - at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    pub source: BodyId,
    pub shift: i32,
}

impl Alignment {
    const NONE: Self = Self { source: BodyId::MAX, shift: 0 };
}

/// Form of a sequence's offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// One of the last three offsets: the value 1, 2 or 3 of the format.
    Repeat(u8),
    /// The offset itself.
    Explicit,
}

/// Literals, then bytes of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    pub literals: u32,
    pub length: u32,
    pub alignment: Alignment,
    pub offset: Offset,
}

/// Data that bodies may refer to.
#[derive(Clone, Copy, Debug)]
pub struct Past<'a> {
    pub history: &'a History,
    /// With its distance before the body, on the connection of this parse.
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

/// Input of a parse.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    pub text: &'a Entry,
    pub past: Past<'a>,
    /// Earlier occurrences of the body's bytes.
    pub candidates: &'a Candidates,
    /// Maximum distance of references to the body itself.
    pub reach: u32,
}

/// Sources that a parse may use, in addition to the body itself and a dictionary.
#[derive(Clone, Copy, Debug)]
pub enum Allowed<'a> {
    /// Bodies that nearly all connections have, from `oldest` on, and one more.
    Common { oldest: BodyId, template: Option<BodyId> },
    /// Bodies that one connection has.
    Had(&'a Had),
    /// One body only.
    Only(BodyId),
    /// All bodies.
    All,
    /// No other body.
    Nothing,
}

impl Allowed<'_> {
    fn allows(&self, found: &Candidate) -> bool {
        match *self {
            // Without branches, because the CPU could not predict them.
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

/// Approximate distance of an alignment's bytes, before a connection is known.
fn likely_distance(past: Past<'_>, text: &Entry, alignment: Alignment) -> u32 {
    match alignment.source {
        ITSELF => -alignment.shift as u32,
        DICTIONARY => past.dictionary.map_or(0, |(_, distance)| distance).wrapping_sub(alignment.shift as u32),
        source => text.id.wrapping_sub(source).saturating_mul(BYTES_PER_TEXT).clamp(1_000, 1 << 20),
    }
}

/// Memory for parsing, reused between parses.
#[derive(Debug, Default)]
pub struct Parser {
    repeats: repeats::Parser,
    plain: plain::Parser,
}

impl Parser {
    /// The cheapest sequences under `prices` with `allowed` sources.
    pub fn parse(&mut self, task: Task<'_>, prices: Prices<'_>, allowed: Allowed<'_>) -> Vec<Sequence> {
        let sequences = match (prices, allowed) {
            (Prices::Deflate(prices), Allowed::Common { oldest, template }) => {
                self.plain.parse_common(task, prices, (oldest, template))
            }
            // The most frequent case has a loop of its own.
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

/// If the sequences have more than [`SOURCES_MAX`] sources: those that provide the most bytes, in order.
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
