//! Parse: the cheapest way to write a body as literals and references, for connections that have its sources.
//!
//! Owns        the search for the cheapest path under real prices: `zstd_parser`, where the last offsets are cheap
//!             to repeat, and `deflate_parser`, where each offset is written in full.
//! Invariants  P1 a parse and its sources reproduce the body. P2 it refers to sources of its candidates only.
//! Limits      `SOURCES_MAX` bodies that it refers to: those that provide the most bytes.

pub mod cache;
mod deflate_parser;
pub mod dictionary_parses;
pub mod prices;
pub mod selection;
mod zstd_parser;

use crate::{
    history::BodyId,
    history::{History, HistoryEntry},
    parse::prices::Prices,
    search::candidates::{Candidate, Candidates},
    search::dictionary::Dictionary,
    search::source::{Reference, Source},
};

/// Bodies that one parse may refer to: each is looked up on every connection.
pub const SOURCES_MAX: usize = 240;

/// A source and its shift against the body: `from - at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    pub source: Source,
    pub shift: i32,
}

impl Alignment {
    /// None: a match within a body copies from in front of it.
    const NONE: Self = Self { source: Source::ITSELF, shift: 0 };
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
    /// The bytes of a source; none of the body itself, and of one that was evicted.
    pub fn bytes(&self, source: Source) -> Option<&'a [u8]> {
        match source.reference() {
            Reference::Itself => None,
            Reference::Dictionary => self.dictionary.map(|(dictionary, _)| dictionary.content()),
            Reference::Body(id) => self.history.entry(id).map(|entry| self.history.bytes(entry)),
        }
    }
}

/// Input of a parse.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    pub body: &'a HistoryEntry,
    pub past: Past<'a>,
    /// Earlier occurrences of the body's bytes.
    pub candidates: &'a Candidates,
    /// Maximum distance of references to the body itself.
    pub reach: u32,
}

/// Memory for parsing, reused between parses.
#[derive(Debug, Default)]
pub struct Parser {
    repeats: zstd_parser::ZstdParser,
    plain: deflate_parser::DeflateParser,
}

impl Parser {
    /// The cheapest sequences under `prices`.
    pub fn parse(&mut self, task: Task<'_>, prices: Prices<'_>) -> Vec<Sequence> {
        let sequences = self.parse_with(task, prices, |_| true);
        match best_sources(&sequences) {
            None => sequences,
            Some(best) => self.parse_with(task, prices, |id| best.binary_search(&id).is_ok()),
        }
    }

    fn parse_with(&mut self, task: Task<'_>, prices: Prices<'_>, allowed: impl Fn(BodyId) -> bool) -> Vec<Sequence> {
        let may_use = |at: usize, candidate: &Candidate| match candidate.source.reference() {
            Reference::Itself => at as u32 - candidate.from <= task.reach,
            Reference::Dictionary => true,
            Reference::Body(id) => allowed(id),
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
    let given = sequences.iter().filter_map(|sequence| Some((sequence.alignment.source.body_id()?, sequence.length)));
    let mut given: Vec<(BodyId, u32)> = given.collect();
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
