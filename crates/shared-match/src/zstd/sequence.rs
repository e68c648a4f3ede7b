//! Sequence: one sequence as its three codes, and how far these are: the same for what many get and for what one gets
//! alone.

use crate::{
    entropy::bits::SmallBits,
    entropy::fse::FseState,
    entropy::tables::Tables,
    zstd::codes::{self, Coded},
};

/// Maximum size of a sequence: the three codes and their extra bits.
pub const SEQUENCE_BYTES_MAX: usize = 10;

/// A sequence by its codes.
#[derive(Clone, Copy, Debug)]
pub struct CodedSequence {
    run: Coded,
    length: Coded,
    offset: Coded,
}

impl CodedSequence {
    #[inline]
    pub fn new(run: u32, length: u32, offset: Coded) -> Self {
        Self { run: codes::literals(run), length: codes::match_length(length), offset }
    }

    /// The symbols of literals, match and offset.
    #[inline]
    pub fn symbols(&self) -> [u8; 3] {
        [self.run.symbol, self.length.symbol, self.offset.symbol]
    }

    /// Extra bits after its codes.
    #[inline]
    pub fn extra(&self) -> SmallBits {
        [self.run, self.length, self.offset].map(Coded::extra).into_iter().collect()
    }
}

/// The three codes under way.
#[derive(Clone, Copy, Debug)]
pub struct States {
    pub literals: FseState,
    pub offsets: FseState,
    pub matches: FseState,
}

impl States {
    /// After the sequence that is coded first: the last.
    #[inline]
    pub fn start(tables: &Tables, last: &CodedSequence) -> Self {
        Self {
            literals: tables.literals.start(last.run.symbol),
            offsets: tables.offsets.start(last.offset.symbol),
            matches: tables.matches.start(last.length.symbol),
        }
    }

    /// Codes one more: the bits that leave.
    #[inline]
    pub fn code(&mut self, tables: &Tables, sequence: &CodedSequence) -> SmallBits {
        let codes = [
            tables.offsets.code(&mut self.offsets, sequence.offset.symbol),
            tables.matches.code(&mut self.matches, sequence.length.symbol),
            tables.literals.code(&mut self.literals, sequence.run.symbol),
        ];
        codes.into_iter().collect()
    }

    /// Initial state of a decoder.
    #[inline]
    pub fn ends(&self, tables: &Tables) -> SmallBits {
        let ends =
            [tables.matches.end(self.matches), tables.offsets.end(self.offsets), tables.literals.end(self.literals)];
        ends.into_iter().collect()
    }
}
