//! Codes: how lengths and offsets become a symbol and extra bits.
//!
//! Spec  RFC 8878 §3.1.1.3.2.1 (zstd), RFC 1951 §3.2.5 (deflate).

/// A symbol, and what is added to its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coded {
    pub symbol: u8,
    pub extra: u32,
    pub extra_bits: u8,
}

impl Coded {
    /// Value and number of the extra bits.
    #[inline]
    pub fn extra(self) -> (u64, u32) {
        (self.extra.into(), self.extra_bits.into())
    }
}

const fn bases<const N: usize>(first: u32, extra_bits: &[u8; N]) -> [u32; N] {
    let mut bases = [first; N];
    let mut i = 1;
    while i < N {
        bases[i] = bases[i - 1] + (1 << extra_bits[i - 1]);
        i += 1;
    }
    bases
}

const LITERALS_BITS: [u8; 36] =
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const LITERALS_BASE: [u32; 36] = bases(0, &LITERALS_BITS);
const MATCH_BITS: [u8; 53] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2,
    3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
];
const MATCH_BASE: [u32; 53] = bases(3, &MATCH_BITS);

/// Symbols of zstd's literal lengths that we use: a run has [`LITERALS_RUN_MAX`] bytes at most.
pub const LITERALS_SYMBOLS: usize = 29;
/// Longest run of literals in one sequence; longer ones are broken up.
pub const LITERALS_RUN_MAX: u32 = 1023;
/// Symbols of zstd's match lengths.
pub const MATCH_SYMBOLS: usize = 53;
/// Symbols of zstd's offsets that we use: a window of 2^21 bytes at most.
pub const OFFSET_SYMBOLS: usize = 22;

/// The symbols of the `N` first lengths; those of longer ones follow from the logarithm.
const fn symbols<const N: usize>(bases: &[u32]) -> [u8; N] {
    let mut symbols = [0; N];
    let (mut index, mut symbol) = (0, 0);
    while index < N {
        if bases[symbol + 1] == bases[0] + index as u32 {
            symbol += 1;
        }
        symbols[index] = symbol as u8;
        index += 1;
    }
    symbols
}

/// The first lengths, coded.
const LITERALS_CODED: [Coded; 64] = all_coded(&symbols::<64>(&LITERALS_BASE), &LITERALS_BASE, &LITERALS_BITS);
const MATCH_CODED: [Coded; 128] = all_coded(&symbols::<128>(&MATCH_BASE), &MATCH_BASE, &MATCH_BITS);

const fn all_coded<const N: usize>(symbols: &[u8; N], bases: &[u32], bits: &[u8]) -> [Coded; N] {
    let mut all = [Coded { symbol: 0, extra: 0, extra_bits: 0 }; N];
    let mut index = 0;
    while index < N {
        all[index] = coded(bases[0] + index as u32, symbols[index] as usize, bases, bits);
        index += 1;
    }
    all
}

#[inline]
const fn coded(value: u32, symbol: usize, bases: &[u32], bits: &[u8]) -> Coded {
    Coded { symbol: symbol as u8, extra: value - bases[symbol], extra_bits: bits[symbol] }
}

/// A literal length.
#[inline]
pub fn literals(length: u32) -> Coded {
    match LITERALS_CODED.get(length as usize) {
        Some(coded) => *coded,
        None => coded(length, 19 + length.ilog2() as usize, &LITERALS_BASE, &LITERALS_BITS),
    }
}

/// A match length, at least 3.
#[inline]
pub fn match_length(length: u32) -> Coded {
    match MATCH_CODED.get(length as usize - 3) {
        Some(coded) => *coded,
        None => coded(length, 36 + (length - 3).ilog2() as usize, &MATCH_BASE, &MATCH_BITS),
    }
}

/// Symbol of an offset value. It equals the number of extra bits, which are the value without its highest bit.
#[inline]
pub fn offset_symbol(value: u32) -> u32 {
    debug_assert!(value > 0, "there is no offset value 0");
    (value | 1).ilog2()
}

/// An offset value: 1 to 3 for a repeat, else the offset and 3.
#[inline]
pub fn offset(value: u32) -> Coded {
    let symbol = offset_symbol(value);
    Coded { symbol: symbol as u8, extra: value ^ (1 << symbol), extra_bits: symbol as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: u32, got: Coded, bases: &[u32], bits: &[u8]) {
        let symbol = usize::from(got.symbol);
        assert_eq!(bases[symbol] + got.extra, value);
        assert!(got.extra < 1 << bits[symbol], "{value}: {got:?}");
    }

    #[test]
    fn every_length_has_its_symbol() {
        assert_eq!((LITERALS_BASE[35], MATCH_BASE[52]), (65_536, 65_539), "as the RFC's tables end");
        for length in 0..131_072 {
            check(length, literals(length), &LITERALS_BASE, &LITERALS_BITS);
        }
        for length in 3..131_075 {
            check(length, match_length(length), &MATCH_BASE, &MATCH_BITS);
        }
    }
}
