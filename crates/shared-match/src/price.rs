//! Price: what the pieces of a parse cost in a format, in 1/256 bits.

use crate::{
    codes::{self, LITERALS_RUN_MAX},
    deflate,
    tables::Tables,
};

/// Matches in zstd are not made longer.
const ZSTD_MATCH_BYTES_MAX: u32 = 8_192;

/// See the module.
#[derive(Debug)]
pub struct Prices {
    literal: [i32; 256],
    /// By run length; what comes after the last costs the same.
    run: Vec<i32>,
    /// By length, from 3.
    match_length: Vec<i32>,
    /// By the logarithm of the value.
    offset: [i32; 32],
    has_repeats: bool,
    address: i32,
}

/// What a source costs beside its bits: to find where it is on each connection. In zstd eight bits for a look at memory that nothing
/// has touched lately: 0.7 % more bytes for a sixth fewer sources. Streams of deflate remember so little that it is always at hand.
const ADDRESS_ZSTD: i32 = 8 << 8;
const ADDRESS_DEFLATE: i32 = 1 << 7;

impl Prices {
    /// Of zstd blocks under these tables.
    pub fn zstd(tables: &Tables) -> Self {
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
            has_repeats: true,
            address: ADDRESS_ZSTD,
        }
    }

    /// Of deflate blocks with the fixed code.
    pub fn deflate_fixed() -> Self {
        Self {
            literal: std::array::from_fn(|byte| (deflate::code::literal(byte as u8).1 << 8) as i32),
            run: vec![0],
            match_length: (3..=deflate::MATCH_BYTES_MAX)
                .map(|length| (deflate::code::match_length(length).1 << 8) as i32)
                .collect(),
            offset: std::array::from_fn(|log| (5 + log.saturating_sub(1) as i32) << 8),
            has_repeats: false,
            address: ADDRESS_DEFLATE,
        }
    }

    /// A literal.
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

    /// An offset value: in zstd 1 to 3 for a repeat, else the distance and 3.
    #[inline]
    pub fn offset(&self, value: u32) -> i32 {
        self.offset[value.ilog2() as usize]
    }

    /// What any source costs beside its bits.
    #[inline]
    pub fn address(&self) -> i32 {
        self.address
    }

    /// How many of the last alignments are tried: where they cost no less than others, the candidates have the rest.
    #[inline]
    pub fn alignments(&self) -> usize {
        if self.has_repeats { 3 } else { 1 }
    }

    /// Whether the last offsets can be said again for less.
    pub fn has_repeats(&self) -> bool {
        self.has_repeats
    }
}
