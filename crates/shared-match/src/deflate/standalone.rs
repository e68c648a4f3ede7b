//! Standalone: a message that no other connection gets, as deflate blocks: stored, with the fixed code, or with
//! their own.

use super::{
    DeflateDecoder,
    dynamic_codes::{self, DynamicCodes},
    encoded_parse::FIXED_BLOCK,
    symbols::{Codes, Counts, Symbols},
};
use crate::{
    entropy::bits::{self, BitWriter},
    search::standalone::ResolvedSequence,
};

/// Shorter messages go as they are.
const CODED_BYTES_MIN: usize = 16;
/// A block ends after the sequence that reaches this many bytes of content.
const CONTENT_BYTES: usize = 48 << 10;
/// A sequence in the fixed code has thirty-one bits at most.
const COPY_BYTES_MAX: usize = 4;
/// Overhead of a block, with rounding.
const BLOCK_BYTES: usize = 32;
/// Bits that the description of a block's own code nearly always takes.
const DESCRIPTION_BITS_MIN: u64 = 300;
/// A stored block holds at most this.
const STORED_BYTES_MAX: usize = 65_535;

/// Appends `message`, of which `sequences` repeat earlier bytes.
pub fn write(
    decoder: &mut DeflateDecoder,
    symbols: &mut Symbols,
    message: &[u8],
    sequences: &[ResolvedSequence],
    out: &mut Vec<u8>,
) {
    decoder.begin(out);
    let sequences = if message.len() < CODED_BYTES_MIN { &[] } else { sequences };
    bits::append(out, bytes_max(message, sequences), |writer| {
        let (mut from, mut end, mut first) = (0, 0, 0);
        for (index, sequence) in sequences.iter().enumerate() {
            end += (sequence.literals + sequence.length) as usize;
            if end - from >= CONTENT_BYTES {
                put_block(symbols, &message[from..end], &sequences[first..=index], writer);
                (from, first) = (end, index + 1);
            }
        }
        for (index, piece) in message[from..].chunks(CONTENT_BYTES.max(end - from)).enumerate() {
            put_block(symbols, piece, if index == 0 { &sequences[first..] } else { &[] }, writer);
        }
        decoder.end(writer);
    });
}

/// Appends `message` as it is.
pub fn store(decoder: &mut DeflateDecoder, message: &[u8], out: &mut Vec<u8>) {
    decoder.begin(out);
    bits::append(out, bytes_max(message, &[]), |writer| {
        put_stored(message, writer);
        decoder.end(writer);
    });
}

/// Upper bound for the encoded message: no block is longer than in the fixed code, nor much longer than its content.
fn bytes_max(message: &[u8], sequences: &[ResolvedSequence]) -> usize {
    let copied: usize = sequences.iter().map(|sequence| sequence.length as usize).sum();
    let blocks = message.len() / CONTENT_BYTES + 2;
    (message.len() - copied) / 8 * 9 + sequences.len() * COPY_BYTES_MAX + blocks * BLOCK_BYTES
}

/// The cheapest of the three kinds of blocks.
fn put_block(symbols: &mut Symbols, content: &[u8], sequences: &[ResolvedSequence], writer: &mut BitWriter<'_>) {
    symbols.list(content, sequences);
    let Counts { literals, distances, extra_bits } = symbols.counts();
    let fixed = dynamic_codes::fixed();
    let fixed_bits = fixed.0.bits(&literals) + fixed.1.bits(&distances) + extra_bits;
    let stored_bits = 40 + 8 * content.len() as u64;
    let least_bits = entropy_bits(&literals) + entropy_bits(&distances) + DESCRIPTION_BITS_MIN + extra_bits;
    let own = (least_bits < fixed_bits.min(stored_bits)).then(|| DynamicCodes::new(&literals, &distances)).flatten();
    let own_bits = own.as_ref().map_or(u64::MAX, |own| {
        own.header_bits() + own.literals.bits(&literals) + own.distances.bits(&distances) + extra_bits
    });
    if stored_bits < fixed_bits.min(own_bits) {
        put_stored(content, writer);
    } else if let Some(own) = own.filter(|_| own_bits < fixed_bits) {
        own.put_header(writer);
        symbols.put(&Codes::new(&own.literals, &own.distances), writer);
    } else {
        writer.put(FIXED_BLOCK.0, FIXED_BLOCK.1);
        symbols.put(Codes::fixed(), writer);
    }
}

/// Lower bound for the bits of any code: rules out most blocks at a tenth of the cost of a code.
fn entropy_bits(counts: &[u64]) -> u64 {
    let total = counts.iter().sum::<u64>() as f32;
    let used = counts.iter().filter(|count| **count > 0).map(|count| *count as f32);
    used.map(|count| count * (total / count).log2()).sum::<f32>() as u64
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
