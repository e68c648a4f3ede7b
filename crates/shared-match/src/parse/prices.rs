//! Prices: cost of the elements of a parse in a format.

use crate::{
    deflate,
    entropy::tables::Tables,
    zstd::codes::{self, LITERALS_RUN_MAX},
};

/// Those of the format in question.
#[derive(Clone, Copy, Debug)]
pub enum Prices<'a> {
    Zstd(&'a ZstdPrices),
    Deflate(&'a DeflatePrices),
}

/// Matches in zstd are not made longer.
const ZSTD_MATCH_BYTES_MAX: u32 = 8_192;
/// Price of a source in addition to its bits: eight bits for the lookup of cold memory on each connection. 0.7 % more
/// bytes for a sixth fewer sources.
const ZSTD_ADDRESS: i32 = 8 << 8;

/// In 1/256 bits, under trained tables.
#[derive(Debug)]
pub struct ZstdPrices {
    literal: [i32; 256],
    /// By run length; longer runs cost the same as the last.
    run: Vec<i32>,
    /// By length, from 3.
    match_length: Vec<i32>,
    /// By the logarithm of the value.
    offset: [i32; 32],
}

impl ZstdPrices {
    /// Of blocks under these tables.
    pub fn new(tables: &Tables) -> Self {
        let of = |coded: codes::Coded, price: u32| (price + (u32::from(coded.extra_bits) << 8)) as i32;
        let run = |length| {
            let coded = codes::literals(length);
            of(coded, tables.literals.price(coded.symbol))
        };
        let match_length = |length| {
            let coded = codes::match_length(length);
            of(coded, tables.matches.price(coded.symbol))
        };
        Self {
            literal: std::array::from_fn(|byte| match tables.bytes.length(byte as u8) {
                0 => 16 << 8,
                bits => (bits << 8) as i32,
            }),
            run: (0..=LITERALS_RUN_MAX).map(run).collect(),
            match_length: (3..=ZSTD_MATCH_BYTES_MAX).map(match_length).collect(),
            offset: std::array::from_fn(|symbol| (tables.offsets.price(symbol as u8) + ((symbol as u32) << 8)) as i32),
        }
    }

    /// Price of a literal.
    #[inline]
    pub fn literal(&self, byte: u8) -> i32 {
        self.literal[usize::from(byte)]
    }

    /// A run of literals in front of a match.
    #[inline]
    pub fn run(&self, length: u32) -> i32 {
        self.run[(length as usize).min(self.run.len() - 1)]
    }

    /// A match of 3 to `match_bytes_max` bytes.
    #[inline]
    pub fn match_length(&self, length: usize) -> i32 {
        self.match_length[length - 3]
    }

    /// Longest match.
    #[inline]
    pub fn match_bytes_max(&self) -> usize {
        self.match_length.len() + 2
    }

    /// An offset value: 1 to 3 for a repeat, else the distance and 3.
    #[inline]
    pub fn offset(&self, value: u32) -> i32 {
        self.offset[value.ilog2() as usize]
    }

    /// Price of any source in addition to its bits.
    #[inline]
    pub fn address(&self) -> i32 {
        ZSTD_ADDRESS
    }
}

/// Number of impossible lengths before the first real one in `padded_match_lengths`, at a price that no parse pays.
pub const PADDING: usize = 8;

/// In bits, under the fixed code. Sums of them are exact: all are whole.
#[derive(Debug)]
pub struct DeflatePrices {
    literal: [f32; 256],
    match_lengths: Vec<f32>,
    /// By the logarithm of the distance.
    distance: [f32; 32],
}

impl DeflatePrices {
    pub fn fixed() -> Self {
        let match_length = |length| match length {
            0..3 => f32::INFINITY,
            _ => deflate::code::match_length(length).1 as f32,
        };
        Self {
            literal: std::array::from_fn(|byte| deflate::code::literal(byte as u8).1 as f32),
            match_lengths: std::iter::repeat_n(f32::INFINITY, PADDING)
                .chain((0..=deflate::MATCH_BYTES_MAX).map(match_length))
                .collect(),
            distance: std::array::from_fn(|log| 5.0 + log.saturating_sub(1) as f32),
        }
    }

    /// Price of a literal.
    #[inline]
    pub fn literal(&self, byte: u8) -> f32 {
        self.literal[usize::from(byte)]
    }

    /// A match of 3 to 258 bytes.
    #[inline]
    pub fn match_length(&self, length: usize) -> f32 {
        self.match_lengths[PADDING + length]
    }

    /// Matches by their length, behind `PADDING` more.
    #[inline]
    pub fn padded_match_lengths(&self) -> &[f32] {
        &self.match_lengths
    }

    /// A distance, at least 1.
    #[inline]
    pub fn distance(&self, distance: u32) -> f32 {
        self.distance[distance.ilog2() as usize]
    }
}
