//! Code: deflate's symbols, and the fixed code for them, with bits in the order in which they are put.
//!
//! Spec  RFC 1951 §3.2.5, §3.2.6.

/// The symbol that ends a block.
pub const END_OF_BLOCK: usize = 256;
/// Symbols of distances.
pub const DISTANCE_SYMBOLS: usize = 30;

const LENGTH_BASE: [u16; 29] =
    [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const LENGTH_BITS: [u8; 29] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];

/// A symbol and its extra bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coded {
    pub symbol: u16,
    pub extra: u32,
    pub extra_bits: u32,
}

/// By length, from 3: the index of its symbol.
const LENGTH_INDEX: [u8; 256] = {
    let mut indices = [0; 256];
    let mut index = 0;
    let mut length = 3;
    while length <= 258 {
        if index + 1 < LENGTH_BASE.len() && LENGTH_BASE[index + 1] as usize <= length {
            index += 1;
        }
        indices[length - 3] = index as u8;
        length += 1;
    }
    indices
};

/// The symbol of a match length, 3 to 258.
#[inline]
pub const fn length_symbol(length: u32) -> Coded {
    let index = LENGTH_INDEX[length as usize - 3] as usize;
    Coded {
        symbol: 257 + index as u16,
        extra: length - LENGTH_BASE[index] as u32,
        extra_bits: LENGTH_BITS[index] as u32,
    }
}

/// Extra bits of a symbol of literals and lengths.
pub fn length_extra_bits(symbol: usize) -> u32 {
    symbol.checked_sub(257).and_then(|index| LENGTH_BITS.get(index)).map_or(0, |bits| u32::from(*bits))
}

/// Extra bits of a symbol of distances.
pub const fn distance_extra_bits(symbol: usize) -> u32 {
    (symbol as u32 / 2).saturating_sub(1)
}

/// Distances up to this have a row each in `DISTANCE_SYMBOL`; greater ones, whose symbols have at least `FAR_BITS`
/// extra bits, share rows.
const NEAR: usize = 256;
const FAR_BITS: u32 = 7;
/// Bits of every distance's symbol in the fixed code.
const FIXED_DISTANCE_BITS: u32 = 5;

/// A distance's symbol, and the least of its distances, less one.
#[derive(Clone, Copy)]
struct DistanceSymbol {
    base: u16,
    symbol: u8,
    extra_bits: u8,
    /// In the fixed code; and its bits with the extra ones.
    fixed: u16,
    fixed_bits: u16,
}

const DISTANCE_SYMBOL: [DistanceSymbol; 2 * NEAR] = {
    let mut rows = [DistanceSymbol { base: 0, symbol: 0, extra_bits: 0, fixed: 0, fixed_bits: 0 }; 2 * NEAR];
    let (mut symbol, mut base) = (0, 0);
    while symbol < DISTANCE_SYMBOLS {
        let extra_bits = distance_extra_bits(symbol);
        let next = base + (1 << extra_bits);
        let row = DistanceSymbol {
            base: base as u16,
            symbol: symbol as u8,
            extra_bits: extra_bits as u8,
            fixed: reversed(symbol as u32, FIXED_DISTANCE_BITS) as u16,
            fixed_bits: (FIXED_DISTANCE_BITS + extra_bits) as u16,
        };
        while base < next {
            rows[distance_row(base)] = row;
            base += if base < NEAR as u32 { 1 } else { 1 << FAR_BITS };
        }
        symbol += 1;
    }
    rows
};

/// Where in `DISTANCE_SYMBOL` a distance is, less one.
#[inline]
const fn distance_row(less: u32) -> usize {
    let row = if less < NEAR as u32 { less } else { NEAR as u32 + (less >> FAR_BITS) };
    row as usize % (2 * NEAR)
}

/// The symbol of a distance, 1 to 32768: by table, because finding the highest bit is slow on some machines.
#[inline]
pub const fn distance_symbol(distance: u32) -> Coded {
    let less = distance - 1;
    let DistanceSymbol { base, symbol, extra_bits, .. } = DISTANCE_SYMBOL[distance_row(less)];
    Coded { symbol: symbol as u16, extra: less - base as u32, extra_bits: extra_bits as u32 }
}

/// The lowest `bits` of `code` the other way round: codes are put from their most significant bit.
pub const fn reversed(code: u32, bits: u32) -> u64 {
    (code.reverse_bits() >> (32 - bits)) as u64
}

/// The fixed code of a literal or length symbol.
const fn fixed(symbol: u32) -> (u32, u32) {
    match symbol {
        0..144 => (0x30 + symbol, 8),
        144..256 => (0x190 + symbol - 144, 9),
        256..280 => (symbol - 256, 7),
        _ => (0xC0 + symbol - 280, 8),
    }
}

/// The fixed code of every literal.
const LITERALS: [(u16, u8); 256] = {
    let mut literals = [(0, 0); 256];
    let mut byte = 0;
    while byte < 256 {
        let (code, bits) = fixed(byte as u32);
        literals[byte] = (reversed(code, bits) as u16, bits as u8);
        byte += 1;
    }
    literals
};

/// The fixed code of every match length, from 3, with its extra bits.
const LENGTHS: [(u16, u8); 256] = {
    let mut lengths = [(0, 0); 256];
    let mut index = 0;
    while index < 256 {
        let coded = length_symbol(index as u32 + 3);
        let (code, bits) = fixed(coded.symbol as u32);
        lengths[index] = (reversed(code, bits) as u16 | (coded.extra as u16) << bits, (bits + coded.extra_bits) as u8);
        index += 1;
    }
    lengths
};

/// The fixed code of a literal: bits and how many.
#[inline]
pub fn literal(byte: u8) -> (u64, u32) {
    let (code, bits) = LITERALS[usize::from(byte)];
    (code.into(), bits.into())
}

/// The fixed code of a match length and its extra bits.
#[inline]
pub fn match_length(length: u32) -> (u64, u32) {
    let (code, bits) = LENGTHS[length as usize - 3];
    (code.into(), bits.into())
}

/// The fixed code of a distance and its extra bits.
#[inline]
pub fn distance(distance: u32) -> (u64, u32) {
    let less = distance - 1;
    let DistanceSymbol { base, fixed, fixed_bits, .. } = DISTANCE_SYMBOL[distance_row(less)];
    (u64::from(fixed) | u64::from(less - u32::from(base)) << FIXED_DISTANCE_BITS, fixed_bits.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_those_of_the_tables() {
        // RFC 1951 §3.2.5, the bases of all distance symbols.
        let mut base = 1;
        for symbol in 0..30u32 {
            let bits = (symbol / 2).saturating_sub(1);
            assert_eq!(distance_symbol(base), Coded { symbol: symbol as u16, extra: 0, extra_bits: bits });
            base += 1 << bits;
            assert_eq!(distance_symbol(base - 1).symbol, symbol as u16);
        }
        assert_eq!(base, 32_769);
        for (index, base) in LENGTH_BASE.iter().enumerate() {
            let symbol = 257 + index as u16;
            assert_eq!((length_symbol(u32::from(*base)).symbol, length_symbol(u32::from(*base)).extra), (symbol, 0));
            let below = LENGTH_BASE.get(index + 1).map_or(*base, |next| next - 1);
            assert_eq!(length_symbol(u32::from(below)).symbol, symbol);
        }
        assert_eq!(length_symbol(258), Coded { symbol: 285, extra: 0, extra_bits: 0 });
        assert_eq!(length_symbol(257), Coded { symbol: 284, extra: 30, extra_bits: 5 });
    }
}
