//! Dynamic codes: Huffman codes for one block, and their description in its header (RFC 1951 §3.2.7).

use super::code;
use crate::{entropy::bits::BitWriter, entropy::huffman::limited_lengths};
use std::sync::LazyLock;

/// Order in which the code lengths of the code-length code are written.
const LENGTHS_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// A code's symbols as they are put, and how many bits each has.
#[derive(Clone, Debug)]
pub struct Code<const N: usize>([Symbol; N]);

/// Of literals and lengths.
pub type LiteralCode = Code<288>;
pub type DistanceCode = Code<32>;

/// Nothing and no bits, where it does not occur.
#[derive(Clone, Copy, Debug, Default)]
struct Symbol {
    code: u16,
    bits: u8,
}

impl Symbol {
    /// With the extra bits of what it codes.
    #[inline]
    fn with_extra(self, coded: code::Coded) -> (u64, u32) {
        let bits = u32::from(self.bits);
        (u64::from(self.code) | u64::from(coded.extra) << bits, bits + coded.extra_bits)
    }
}

/// The fixed codes, which need no description.
pub fn fixed() -> &'static (LiteralCode, DistanceCode) {
    static FIXED: LazyLock<(LiteralCode, DistanceCode)> = LazyLock::new(|| {
        let literal = |symbol: usize| match symbol {
            0..144 | 280.. => 8,
            144..256 => 9,
            _ => 7,
        };
        (Code::new(&std::array::from_fn(literal)), Code::new(&[5; 32]))
    });
    &FIXED
}

impl<const N: usize> Code<N> {
    /// The canonical code of these lengths (RFC 1951 §3.2.2).
    pub fn new(lengths: &[u8; N]) -> Self {
        let mut counts = [0u32; 16];
        lengths.iter().for_each(|length| counts[usize::from(*length)] += 1);
        let mut next = [0u32; 17];
        for bits in 1..16 {
            next[bits + 1] = (next[bits] + counts[bits]) << 1;
        }
        Self(lengths.map(|bits| {
            let code = match usize::from(bits) {
                0 => 0,
                index => {
                    next[index] += 1;
                    code::reversed(next[index] - 1, bits.into())
                }
            };
            Symbol { code: code as u16, bits }
        }))
    }

    /// Puts a symbol that has a code.
    #[inline]
    pub fn put(&self, symbol: u16, writer: &mut BitWriter<'_>) {
        let (code, bits) = self.of(symbol);
        writer.put(code, bits);
    }

    /// A symbol as it is put, and how many bits.
    #[inline]
    pub fn of(&self, symbol: u16) -> (u64, u32) {
        let Symbol { code, bits } = self.0[usize::from(symbol)];
        (code.into(), bits.into())
    }

    /// A symbol and its extra bits.
    #[inline]
    pub fn coded(&self, coded: code::Coded) -> (u64, u32) {
        self.0[usize::from(coded.symbol)].with_extra(coded)
    }

    /// Total bits of `counts` occurrences of each symbol.
    pub fn bits(&self, counts: &[u64]) -> u64 {
        counts.iter().zip(&self.0).map(|(count, symbol)| count * u64::from(symbol.bits)).sum()
    }
}

impl DistanceCode {
    /// A distance as it is put: its symbol and that one's extra bits.
    #[inline]
    pub fn distance(&self, distance: u32) -> (u64, u32) {
        let coded = code::distance_symbol(distance);
        // No symbol is larger, so nothing need be checked.
        self.0[usize::from(coded.symbol) % self.0.len()].with_extra(coded)
    }
}

/// Dynamic codes of one block with their description.
#[derive(Clone, Debug)]
pub struct DynamicCodes {
    pub literals: LiteralCode,
    pub distances: DistanceCode,
    /// Lengths of both codes in the symbols of the format.
    described: Vec<LengthSymbol>,
    lengths_code: Code<19>,
    literal_count: usize,
    distance_count: usize,
}

/// A symbol of the lengths' code, its extra bits and how many.
#[derive(Clone, Copy, Debug)]
struct LengthSymbol {
    symbol: u8,
    extra: u8,
    extra_bits: u8,
}

impl DynamicCodes {
    /// The best codes for symbols that occur so often; none if they need none.
    pub fn new(literals: &[u64; 288], distances: &[u64; 32]) -> Option<Self> {
        let literals = limited_lengths(literals, 15)?;
        // Fewer than two distances have no code of their own here; the fixed one does for such a block.
        let distances = limited_lengths(distances, 15)?;
        let used = |lengths: &[u8], min: usize| lengths.iter().rposition(|l| *l > 0).map_or(min, |at| min.max(at + 1));
        let (literal_count, distance_count) = (used(&literals, 257), used(&distances, 1));
        let described = length_symbols(&[&literals[..literal_count], &distances[..distance_count]].concat());
        let mut counts = [0u64; 19];
        described.iter().for_each(|described| counts[usize::from(described.symbol)] += 1);
        let lengths_code = Code::new(&limited_lengths(&counts, 7)?);
        Some(Self {
            literals: Code::new(&literals),
            distances: Code::new(&distances),
            described,
            lengths_code,
            literal_count,
            distance_count,
        })
    }

    fn lengths_code_count(&self) -> usize {
        LENGTHS_ORDER
            .iter()
            .rposition(|symbol| self.lengths_code.of(*symbol as u16).1 > 0)
            .map_or(4, |at| (at + 1).max(4))
    }

    /// Bits of the block header: its type, and the description of both codes.
    pub fn header_bits(&self) -> u64 {
        let bits = |described: &LengthSymbol| {
            u64::from(self.lengths_code.of(described.symbol.into()).1) + u64::from(described.extra_bits)
        };
        17 + 3 * self.lengths_code_count() as u64 + self.described.iter().map(bits).sum::<u64>()
    }

    /// Begins the block.
    pub fn put_header(&self, writer: &mut BitWriter<'_>) {
        let lengths = self.lengths_code_count();
        writer.put(0b100, 3);
        writer.put(self.literal_count as u64 - 257, 5);
        writer.put(self.distance_count as u64 - 1, 5);
        writer.put(lengths as u64 - 4, 4);
        for symbol in &LENGTHS_ORDER[..lengths] {
            writer.put(self.lengths_code.of(*symbol as u16).1.into(), 3);
        }
        for LengthSymbol { symbol, extra, extra_bits } in &self.described {
            self.lengths_code.put(u16::from(*symbol), writer);
            writer.put((*extra).into(), (*extra_bits).into());
        }
    }
}

/// Code lengths as symbols, some of which encode repeats (RFC 1951 §3.2.7).
fn length_symbols(lengths: &[u8]) -> Vec<LengthSymbol> {
    let mut described = Vec::with_capacity(lengths.len());
    let itself = |length: u8| LengthSymbol { symbol: length, extra: 0, extra_bits: 0 };
    let mut at = 0;
    while at < lengths.len() {
        let length = lengths[at];
        let run = lengths[at..].iter().take_while(|other| **other == length).count();
        let mut left = run;
        if length == 0 {
            while left >= 3 {
                let taken = left.min(138);
                match taken {
                    3..11 => described.push(LengthSymbol { symbol: 17, extra: taken as u8 - 3, extra_bits: 3 }),
                    _ => described.push(LengthSymbol { symbol: 18, extra: taken as u8 - 11, extra_bits: 7 }),
                }
                left -= taken;
            }
        } else {
            described.push(itself(length));
            left -= 1;
            while left >= 3 {
                let taken = left.min(6);
                described.push(LengthSymbol { symbol: 16, extra: taken as u8 - 3, extra_bits: 2 });
                left -= taken;
            }
        }
        described.extend((0..left).map(|_| itself(length)));
        at += run;
    }
    described
}
