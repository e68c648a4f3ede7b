//! Alone: a message that no other connection gets, as deflate blocks: stored, with the fixed code, or with their own.

use super::{
    DeflateState,
    code::{self, END_OF_BLOCK},
    own::{Code, Own},
    program::FIXED_BLOCK,
};
use crate::{
    alone::Copy,
    bits::{self, BitWriter},
};

/// Shorter messages go as they are.
const CODED_BYTES_MIN: usize = 16;
/// A block ends behind the copy that reaches so many bytes of content.
const CONTENT_BYTES: usize = 48 << 10;
/// A stored block holds at most this.
const STORED_BYTES_MAX: usize = 65_535;

/// Appends `message`, of which `copies` repeat what stands before.
pub fn write(state: &mut DeflateState, message: &[u8], copies: &[Copy], out: &mut Vec<u8>) {
    state.begin(out);
    let copies = if message.len() < CODED_BYTES_MIN { &[] } else { copies };
    bits::append(out, bytes_max(message), |writer| {
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
    bits::append(out, bytes_max(message), |writer| {
        put_stored(message, writer);
        state.end(writer);
    });
}

/// Whichever way a message is written, it is not much longer.
fn bytes_max(message: &[u8]) -> usize {
    message.len() + message.len() / 4 + 64
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
    let mut at = 0;
    for copy in copies {
        let end = at + copy.literals as usize;
        put_literals(&content[at..end], literals, writer);
        // Twenty bits at most, and twenty-eight.
        let (length, length_bits) = literals.coded(code::length_symbol(copy.length));
        let (distance, distance_bits) = distances.coded(code::distance_symbol(copy.distance));
        writer.put(length | distance << length_bits, length_bits + distance_bits);
        at = end + copy.length as usize;
    }
    put_literals(&content[at..], literals, writer);
    literals.put(END_OF_BLOCK as u16, writer);
}

/// Three at a time: a code has fifteen bits at most.
#[inline]
fn put_literals(content: &[u8], literals: &Code, writer: &mut BitWriter<'_>) {
    let mut threes = content.chunks_exact(3);
    for three in &mut threes {
        let [(a, a_bits), (b, b_bits), (c, c_bits)] = [0, 1, 2].map(|index| literals.of(three[index].into()));
        writer.put(a | b << a_bits | c << (a_bits + b_bits), a_bits + b_bits + c_bits);
    }
    threes.remainder().iter().for_each(|byte| literals.put((*byte).into(), writer));
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
