//! Alone: a message that no other connection gets, as deflate blocks: stored, with the fixed code, or with their own.

use super::{
    DeflateState,
    code::{self, DISTANCE_SYMBOLS, END_OF_BLOCK, LITERAL_SYMBOLS},
    program::FIXED_BLOCK,
};
use crate::{alone::Copy, bits::BitWriter, huffman::limited_lengths};

/// Shorter messages go as they are.
const CODED_BYTES_MIN: usize = 16;
/// A block ends behind the copy that reaches so many bytes of content.
const CONTENT_BYTES: usize = 48 << 10;
/// A stored block holds at most this.
const STORED_BYTES_MAX: usize = 65_535;
/// The order in which the lengths of the lengths' code are told.
const LENGTHS_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// A code's symbols as they are put, and how many bits each has.
#[derive(Clone, Debug)]
struct Code {
    codes: Vec<u64>,
    lengths: Vec<u8>,
}

impl Code {
    /// The canonical code of these lengths (RFC 1951 §3.2.2).
    fn new(lengths: Vec<u8>) -> Self {
        let mut next = [0u32; 17];
        for bits in 1..16 {
            let shorter = lengths.iter().filter(|length| **length > 0 && usize::from(**length) == bits).count() as u32;
            next[bits + 1] = (next[bits] + shorter) << 1;
        }
        let codes = lengths
            .iter()
            .map(|length| match usize::from(*length) {
                0 => 0,
                bits => {
                    next[bits] += 1;
                    code::reversed(next[bits] - 1, bits as u32)
                }
            })
            .collect();
        Self { codes, lengths }
    }

    fn fixed() -> (Self, Self) {
        let literal = |symbol: usize| match symbol {
            0..144 | 280.. => 8,
            144..256 => 9,
            _ => 7,
        };
        (Self::new((0..288).map(literal).collect()), Self::new(vec![5; 32]))
    }

    fn put(&self, symbol: u16, writer: &mut BitWriter<'_>) {
        writer.put(self.codes[usize::from(symbol)], u32::from(self.lengths[usize::from(symbol)]));
    }

    fn bits(&self, counts: &[u64]) -> u64 {
        counts.iter().zip(&self.lengths).map(|(count, length)| count * u64::from(*length)).sum()
    }
}

/// Appends `message`, of which `copies` repeat what stands before.
pub fn write(state: &mut DeflateState, message: &[u8], copies: &[Copy], out: &mut Vec<u8>) {
    state.begin(out);
    let copies = if message.len() < CODED_BYTES_MIN { &[] } else { copies };
    // Whichever way a block is written, it is not much longer than its content.
    let mut writer = BitWriter::new(out, message.len() + message.len() / 4 + 64);
    let (mut from, mut end, mut first) = (0, 0, 0);
    for (index, copy) in copies.iter().enumerate() {
        end += (copy.literals + copy.length) as usize;
        if end - from >= CONTENT_BYTES {
            put_block(&message[from..end], &copies[first..=index], &mut writer);
            (from, first) = (end, index + 1);
        }
    }
    for (index, piece) in message[from..].chunks(CONTENT_BYTES.max(end - from)).enumerate() {
        put_block(piece, if index == 0 { &copies[first..] } else { &[] }, &mut writer);
    }
    state.end(writer);
}

/// Appends `message` as it is.
pub fn store(state: &mut DeflateState, message: &[u8], out: &mut Vec<u8>) {
    state.begin(out);
    let mut writer = BitWriter::new(out, message.len() + message.len() / 4 + 64);
    put_stored(message, &mut writer);
    state.end(writer);
}

/// The cheapest of the three kinds of blocks.
fn put_block(content: &[u8], copies: &[Copy], writer: &mut BitWriter<'_>) {
    let (mut literals, mut distances) = ([0u64; 288], [0u64; 32]);
    let mut extra_bits = 0;
    each_symbol(content, copies, |symbol, distance| {
        literals[usize::from(symbol.symbol)] += 1;
        extra_bits += u64::from(symbol.extra_bits);
        if let Some(distance) = distance {
            distances[usize::from(distance.symbol)] += 1;
            extra_bits += u64::from(distance.extra_bits);
        }
    });
    literals[END_OF_BLOCK] = 1;
    let fixed = Code::fixed();
    let fixed_bits = fixed.0.bits(&literals) + fixed.1.bits(&distances) + extra_bits;
    let stored_bits = 40 + 8 * content.len() as u64;
    let own = (content.len() > 512).then(|| Own::new(&literals, &distances)).flatten();
    let own_bits = own.as_ref().map_or(u64::MAX, |own| {
        own.header_bits() + own.literals.bits(&literals) + own.distances.bits(&distances) + extra_bits
    });
    if stored_bits < fixed_bits.min(own_bits) {
        put_stored(content, writer);
    } else if let Some(own) = own.filter(|_| own_bits < fixed_bits) {
        own.put_header(writer);
        put_symbols(content, copies, &own.literals, &own.distances, writer);
    } else {
        writer.put(FIXED_BLOCK.0, FIXED_BLOCK.1);
        put_symbols(content, copies, &fixed.0, &fixed.1, writer);
    }
}

fn each_symbol(content: &[u8], copies: &[Copy], mut each: impl FnMut(code::Coded, Option<code::Coded>)) {
    let literal = |byte: &u8| code::Coded { symbol: u16::from(*byte), extra: 0, extra_bits: 0 };
    let mut at = 0;
    for copy in copies {
        let end = at + copy.literals as usize;
        content[at..end].iter().for_each(|byte| each(literal(byte), None));
        each(code::length_symbol(copy.length), Some(code::distance_symbol(copy.distance)));
        at = end + copy.length as usize;
    }
    content[at..].iter().for_each(|byte| each(literal(byte), None));
}

fn put_symbols(content: &[u8], copies: &[Copy], literals: &Code, distances: &Code, writer: &mut BitWriter<'_>) {
    each_symbol(content, copies, |symbol, distance| {
        literals.put(symbol.symbol, writer);
        writer.put(u64::from(symbol.extra), symbol.extra_bits);
        if let Some(distance) = distance {
            distances.put(distance.symbol, writer);
            writer.put(u64::from(distance.extra), distance.extra_bits);
        }
    });
    literals.put(END_OF_BLOCK as u16, writer);
}

fn put_stored(content: &[u8], writer: &mut BitWriter<'_>) {
    for piece in content.chunks(STORED_BYTES_MAX) {
        writer.put(0, 3);
        writer.pad();
        let length = piece.len() as u64;
        writer.put(length | (!length & 0xFFFF) << 16, 32);
        piece.iter().for_each(|byte| writer.put(u64::from(*byte), 8));
    }
}

/// Codes of one block's own, and how they are told.
struct Own {
    literals: Code,
    distances: Code,
    /// Lengths of both codes in the symbols of the format: symbol, extra bits and how many.
    told: Vec<(u16, u64, u32)>,
    told_code: Code,
    literal_count: usize,
    distance_count: usize,
}

impl Own {
    fn new(literals: &[u64; 288], distances: &[u64; 32]) -> Option<Self> {
        let literals = limited_lengths(&literals[..LITERAL_SYMBOLS], 15)?;
        // Fewer than two distances have no code of their own here; the fixed one does for such a block.
        let distances = limited_lengths(&distances[..DISTANCE_SYMBOLS], 15)?;
        let used = |lengths: &[u8], min: usize| lengths.iter().rposition(|l| *l > 0).map_or(min, |at| min.max(at + 1));
        let (literal_count, distance_count) = (used(&literals, 257), used(&distances, 1));
        let told = tell(&[&literals[..literal_count], &distances[..distance_count]].concat());
        let mut counts = [0u64; 19];
        told.iter().for_each(|(symbol, ..)| counts[usize::from(*symbol)] += 1);
        let told_code = Code::new(limited_lengths(&counts, 7)?);
        Some(Self {
            literals: Code::new(literals),
            distances: Code::new(distances),
            told,
            told_code,
            literal_count,
            distance_count,
        })
    }

    fn told_lengths_count(&self) -> usize {
        LENGTHS_ORDER.iter().rposition(|symbol| self.told_code.lengths[*symbol] > 0).map_or(4, |at| (at + 1).max(4))
    }

    fn header_bits(&self) -> u64 {
        let told = self.told.iter().map(|(symbol, _, extra_bits)| {
            u64::from(self.told_code.lengths[usize::from(*symbol)]) + u64::from(*extra_bits)
        });
        17 + 3 * self.told_lengths_count() as u64 + told.sum::<u64>()
    }

    fn put_header(&self, writer: &mut BitWriter<'_>) {
        let lengths = self.told_lengths_count();
        writer.put(0b100, 3);
        writer.put(self.literal_count as u64 - 257, 5);
        writer.put(self.distance_count as u64 - 1, 5);
        writer.put(lengths as u64 - 4, 4);
        for symbol in &LENGTHS_ORDER[..lengths] {
            writer.put(u64::from(self.told_code.lengths[*symbol]), 3);
        }
        for (symbol, extra, extra_bits) in &self.told {
            self.told_code.put(*symbol, writer);
            writer.put(*extra, *extra_bits);
        }
    }
}

/// Code lengths as symbols that also say repeats (RFC 1951 §3.2.7).
fn tell(lengths: &[u8]) -> Vec<(u16, u64, u32)> {
    let mut told = Vec::new();
    let mut at = 0;
    while at < lengths.len() {
        let length = lengths[at];
        let run = lengths[at..].iter().take_while(|other| **other == length).count();
        let mut left = run;
        if length == 0 {
            while left >= 3 {
                let taken = left.min(138);
                match taken {
                    3..11 => told.push((17, taken as u64 - 3, 3)),
                    _ => told.push((18, taken as u64 - 11, 7)),
                }
                left -= taken;
            }
        } else {
            told.push((u16::from(length), 0, 0));
            left -= 1;
            while left >= 3 {
                let taken = left.min(6);
                told.push((16, taken as u64 - 3, 2));
                left -= taken;
            }
        }
        told.extend((0..left).map(|_| (u16::from(length), 0, 0)));
        at += run;
    }
    told
}
