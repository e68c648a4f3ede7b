//! Alone: a message that no other connection gets, as deflate blocks: stored, with the fixed code, or with their own.

use super::{
    DeflateState,
    code::{self, END_OF_BLOCK},
    own::{Code, Own},
    program::FIXED_BLOCK,
};
use crate::{
    alone::Copy,
    bits::{self, BitWriter, Few},
};

/// Shorter messages go as they are.
const CODED_BYTES_MIN: usize = 16;
/// A block ends behind the copy that reaches so many bytes of content.
const CONTENT_BYTES: usize = 48 << 10;
/// A copy in the fixed code has thirty-one bits at most.
const COPY_BYTES_MAX: usize = 4;
/// What a block has beside its content, and rounding.
const BLOCK_BYTES: usize = 32;
/// A stored block holds at most this.
const STORED_BYTES_MAX: usize = 65_535;

/// Appends `message`, of which `copies` repeat what stands before.
pub fn write(state: &mut DeflateState, message: &[u8], copies: &[Copy], out: &mut Vec<u8>) {
    state.begin(out);
    let copies = if message.len() < CODED_BYTES_MIN { &[] } else { copies };
    bits::append(out, bytes_max(message, copies), |writer| {
        let (mut from, mut end, mut first) = (0, 0, 0);
        for (index, copy) in copies.iter().enumerate() {
            end += (copy.literals + copy.length) as usize;
            if end - from >= CONTENT_BYTES {
                put_block(&message[from..end], &copies[first..=index], writer);
                (from, first) = (end, index + 1);
            }
        }
        for (index, piece) in message[from..].chunks(CONTENT_BYTES.max(end - from)).enumerate() {
            put_block(piece, if index == 0 { &copies[first..] } else { &[] }, writer);
        }
        state.end(writer);
    });
}

/// Appends `message` as it is.
pub fn store(state: &mut DeflateState, message: &[u8], out: &mut Vec<u8>) {
    state.begin(out);
    bits::append(out, bytes_max(message, &[]), |writer| {
        put_stored(message, writer);
        state.end(writer);
    });
}

/// What a message takes at most: no block is longer than in the fixed code, nor much longer than its content.
fn bytes_max(message: &[u8], copies: &[Copy]) -> usize {
    let copied: usize = copies.iter().map(|copy| copy.length as usize).sum();
    let blocks = message.len() / CONTENT_BYTES + 2;
    (message.len() - copied) / 8 * 9 + copies.len() * COPY_BYTES_MAX + blocks * BLOCK_BYTES
}

/// The cheapest of the three kinds of blocks.
fn put_block(content: &[u8], copies: &[Copy], writer: &mut BitWriter<'_>) {
    let literals = code::counted(content, copies.iter().map(|copy| (copy.literals, copy.length)));
    let mut distances = [0u64; 32];
    let mut extra_bits = 0;
    for copy in copies {
        let distance = code::distance_symbol(copy.distance);
        distances[usize::from(distance.symbol)] += 1;
        extra_bits += u64::from(code::length_symbol(copy.length).extra_bits + distance.extra_bits);
    }
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

fn put_symbols(content: &[u8], copies: &[Copy], literals: &Code, distances: &Code, writer: &mut BitWriter<'_>) {
    // One that nobody else sees is kept in registers.
    let mut put = std::mem::take(writer);
    let mut at = 0;
    for copy in copies {
        let end = at + copy.literals as usize;
        let last = put_literals(&content[at..end], literals, &mut put);
        // Behind thirty bits twenty, then twenty-eight.
        let coded = last.and(literals.coded(code::length_symbol(copy.length)));
        put.put_two(coded, distances.coded(code::distance_symbol(copy.distance)).into());
        at = end + copy.length as usize;
    }
    let last = put_literals(&content[at..], literals, &mut put);
    put.put_few(last.and(literals.of(END_OF_BLOCK as u16)));
    *writer = put;
}

/// Three at a time, for a code has fifteen bits at most; gives back the last two or fewer.
#[inline]
fn put_literals(content: &[u8], literals: &Code, writer: &mut BitWriter<'_>) -> Few {
    let (threes, rest) = content.as_chunks::<3>();
    threes.iter().for_each(|three| writer.put_few(three.iter().map(|byte| literals.of((*byte).into())).collect()));
    rest.iter().map(|byte| literals.of((*byte).into())).collect()
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
