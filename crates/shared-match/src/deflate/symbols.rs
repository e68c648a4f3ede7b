//! Symbols of a block, listed before they are counted and written.
//!
//! Why         runs of literals are so short and irregular that branch prediction fails at their ends.
//! They are copied here
//!             sixteen bytes at a time, and later passes over the list have no runs.
//! Limits      four bytes for each of the largest block that there was: `CONTENT_BYTES` of `standalone`, and a run of
//!             literals behind them.

use super::{
    code::{self, Coded, END_OF_BLOCK},
    dynamic_codes::{self, DistanceCode, LiteralCode},
};
use crate::{
    entropy::bits::{BitWriter, SmallBits},
    search::standalone::ResolvedSequence,
};
use std::sync::LazyLock;

/// Symbols of literals and lengths, and behind them those of distances.
const DISTANCES_FROM: usize = 288;
const ALL: usize = DISTANCES_FROM + 32;
const INDEX_BITS: u32 = 9;
/// Tables have room for every index, so that none has to be checked.
const INDICES: usize = 1 << INDEX_BITS;
const _: () = assert!(ALL <= INDICES);
/// Literals that are copied together, mostly more than there are.
const TOGETHER: usize = 16;

/// A symbol of either alphabet, and its extra bits.
#[derive(Clone, Copy, Debug, Default)]
struct Symbol(u32);

impl Symbol {
    const END: Self = Self(END_OF_BLOCK as u32);

    const fn of(first: usize, coded: Coded) -> Self {
        Self((first as u32 + coded.symbol as u32) | coded.extra << INDEX_BITS)
    }

    #[inline]
    fn length(length: u32) -> Self {
        const LENGTHS: [Symbol; 256] = {
            let mut lengths = [Symbol(0); 256];
            let mut index = 0;
            while index < lengths.len() {
                lengths[index] = Symbol::of(0, code::length_symbol(index as u32 + 3));
                index += 1;
            }
            lengths
        };
        LENGTHS[length as usize - 3]
    }

    #[inline]
    fn distance(distance: u32) -> Self {
        Self::of(DISTANCES_FROM, code::distance_symbol(distance))
    }

    #[inline]
    fn index(self) -> usize {
        self.0 as usize % INDICES
    }
}

/// The symbols of one block, and its end; room for them is kept from block to block.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Entries behind `count` belong to earlier blocks.
    all: Vec<Symbol>,
    count: usize,
}

/// How often each symbol occurs.
pub struct Counts {
    pub literals: [u64; DISTANCES_FROM],
    pub distances: [u64; ALL - DISTANCES_FROM],
    pub extra_bits: u64,
}

impl Symbols {
    /// Lists those of `content`, of which `sequences` repeat earlier bytes; behind the last one there are literals.
    pub fn list(&mut self, content: &[u8], sequences: &[ResolvedSequence]) {
        // A literal is one symbol, and a sequence, of three bytes at least, two.
        let needed = content.len() + 1 + TOGETHER;
        self.all.resize(self.all.len().max(needed), Symbol::default());
        let mut room = self.all.as_mut_slice();
        let mut rest = content;
        for sequence in sequences {
            room = list_literals(rest, sequence.literals as usize, room);
            let (pair, behind) = room.split_at_mut(2);
            pair.copy_from_slice(&[Symbol::length(sequence.length), Symbol::distance(sequence.distance)]);
            room = behind;
            rest = &rest[(sequence.literals + sequence.length) as usize..];
        }
        room = list_literals(rest, rest.len(), room);
        room[0] = Symbol::END;
        let unused = room.len() - 1;
        self.count = self.all.len() - unused;
    }

    fn all(&self) -> &[Symbol] {
        &self.all[..self.count]
    }

    /// Counts the symbols.
    pub fn counts(&self) -> Counts {
        let mut all = [0u64; INDICES];
        self.all().iter().for_each(|symbol| all[symbol.index()] += 1);
        let (literals, distances) = all[..ALL].split_at(DISTANCES_FROM);
        Counts {
            literals: literals.try_into().expect("as many"),
            distances: distances.try_into().expect("as many"),
            extra_bits: all[..ALL].iter().enumerate().map(|(index, count)| count * u64::from(extra_bits(index))).sum(),
        }
    }

    /// Puts them in these codes.
    pub fn put(&self, codes: &Codes, writer: &mut BitWriter<'_>) {
        // The compiler keeps a local writer in registers.
        let mut put = std::mem::take(writer);
        let both = |two: &[Symbol; 2]| two.iter().map(|symbol| codes.coded(*symbol)).collect();
        // Twenty-eight bits each at most, so two fit always and four nearly always.
        let (fours, rest) = self.all().as_chunks::<4>();
        for [first, second, third, fourth] in fours {
            put.put_two(both(&[*first, *second]), both(&[*third, *fourth]));
        }
        rest.iter().for_each(|symbol| put.put_small(SmallBits::from(codes.coded(*symbol))));
        *writer = put;
    }

    /// Heap it holds.
    pub fn heap_bytes(&self) -> usize {
        self.all.capacity() * size_of::<Symbol>()
    }
}

/// Lists the first `count` bytes of `content`; returns the remaining room.
#[inline]
fn list_literals<'a>(content: &[u8], count: usize, all: &'a mut [Symbol]) -> &'a mut [Symbol] {
    let mut done = 0;
    while let (Some(literals), Some(symbols)) =
        (content[done..].first_chunk::<TOGETHER>(), all[done..].first_chunk_mut::<TOGETHER>())
    {
        symbols.iter_mut().zip(literals).for_each(|(symbol, byte)| *symbol = Symbol(u32::from(*byte)));
        done += TOGETHER;
        if done >= count {
            return &mut all[count..];
        }
    }
    list_last(&content[done..count], &mut all[done..]);
    &mut all[count..]
}

/// Fewer than are listed together.
#[inline(never)]
fn list_last(literals: &[u8], room: &mut [Symbol]) {
    room.iter_mut().zip(literals).for_each(|(symbol, byte)| *symbol = Symbol(u32::from(*byte)));
}

/// Extra bits of a symbol.
fn extra_bits(index: usize) -> u32 {
    match index.checked_sub(DISTANCES_FROM) {
        Some(distance) => code::distance_extra_bits(distance),
        None => code::length_extra_bits(index),
    }
}

/// How a symbol is put.
#[derive(Clone, Copy, Default)]
struct SymbolCode {
    code: u16,
    bits: u8,
    /// With its extra bits.
    all_bits: u8,
}

/// The codes of both alphabets, by symbol.
pub struct Codes([SymbolCode; INDICES]);

impl Codes {
    /// The fixed codes, prebuilt, because short messages use them.
    pub fn fixed() -> &'static Self {
        static FIXED: LazyLock<Codes> =
            LazyLock::new(|| Codes::new(&dynamic_codes::fixed().0, &dynamic_codes::fixed().1));
        &FIXED
    }

    /// Of a code for literals and lengths, and one for distances.
    pub fn new(literals: &LiteralCode, distances: &DistanceCode) -> Self {
        let mut all = [SymbolCode::default(); INDICES];
        for (index, of) in all[..ALL].iter_mut().enumerate() {
            let (code, bits) = match index.checked_sub(DISTANCES_FROM) {
                Some(distance) => distances.of(distance as u16),
                None => literals.of(index as u16),
            };
            *of = SymbolCode { code: code as u16, bits: bits as u8, all_bits: (bits + extra_bits(index)) as u8 };
        }
        Self(all)
    }

    #[inline]
    fn coded(&self, symbol: Symbol) -> (u64, u32) {
        let SymbolCode { code, bits, all_bits } = self.0[symbol.index()];
        (u64::from(code) | u64::from(symbol.0 >> INDEX_BITS) << bits, all_bits.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deflate::WINDOW_BYTES_MAX;
    use guildhall_stdx::Rng;

    /// Symbol by symbol, as the format defines it.
    fn naive(content: &[u8], sequences: &[ResolvedSequence]) -> Vec<(usize, u32)> {
        let mut listed = Vec::new();
        let mut at = 0;
        for sequence in sequences {
            let match_at = at + sequence.literals as usize;
            listed.extend(content[at..match_at].iter().map(|byte| (usize::from(*byte), 0)));
            let (length, distance) = (code::length_symbol(sequence.length), code::distance_symbol(sequence.distance));
            listed.push((length.symbol.into(), length.extra));
            listed.push((DISTANCES_FROM + usize::from(distance.symbol), distance.extra));
            at = match_at + sequence.length as usize;
        }
        listed.extend(content[at..].iter().map(|byte| (usize::from(*byte), 0)));
        listed.push((END_OF_BLOCK, 0));
        listed
    }

    #[test]
    fn every_run_is_listed_whole_and_nothing_of_earlier_blocks() {
        let mut rng = Rng::new(1);
        let mut symbols = Symbols::default();
        for _ in 0..2_000 {
            let mut sequences = Vec::new();
            let mut bytes = 0;
            for _ in 0..rng.below(12) {
                // No literals, fewer than are copied together, as many, more.
                let literals = rng.below(40) as u32;
                let length = 3 + rng.below(256) as u32;
                sequences.push(ResolvedSequence {
                    literals,
                    length,
                    distance: 1 + rng.below(WINDOW_BYTES_MAX.into()) as u32,
                });
                bytes += (literals + length) as usize;
            }
            let content: Vec<u8> = (0..bytes as u64 + rng.below(40)).map(|_| rng.next_u64() as u8).collect();
            symbols.list(&content, &sequences);
            let listed: Vec<(usize, u32)> =
                symbols.all().iter().map(|symbol| (symbol.index(), symbol.0 >> INDEX_BITS)).collect();
            let expected = naive(&content, &sequences);
            assert_eq!(listed, expected);
            let counts = symbols.counts();
            let counted = counts.literals.iter().chain(&counts.distances).copied();
            for (index, count) in counted.enumerate() {
                assert_eq!(count, expected.iter().filter(|(symbol, _)| *symbol == index).count() as u64, "{index}");
            }
        }
    }
}
