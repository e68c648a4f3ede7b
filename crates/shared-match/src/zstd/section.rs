//! Sections: the headers inside a block.

use super::ZstdState;
use crate::tables::Tables;

/// Most literals and most compressed bytes in a section of one stream.
pub const ONE_STREAM_MAX: usize = 1023;

/// Codes of the sequences section's modes: all three tables follow, or all three are repeated.
const TABLES_FOLLOW: u8 = 2 << 6 | 2 << 4 | 2 << 2;
const TABLES_REPEAT: u8 = 3 << 6 | 3 << 4 | 3 << 2;

/// The header of literals as they are: the bytes and how many count.
#[inline]
pub fn raw_header(count: usize) -> ([u8; 3], usize) {
    let count = count as u32;
    match count {
        0..32 => ([(count as u8) << 3, 0, 0], 1),
        32..4096 => ([1 << 2 | (count as u8) << 4, (count >> 4) as u8, 0], 2),
        _ => ([3 << 2 | (count as u8) << 4, (count >> 4) as u8, (count >> 12) as u8], 3),
    }
}

/// The header of one coded stream: `with_table` if the code's description is part of `coded_bytes`.
#[inline]
pub fn coded_header(count: usize, coded_bytes: usize, with_table: bool) -> [u8; 3] {
    let kind = if with_table { 2 } else { 3 };
    let header = kind | (count as u32) << 4 | (coded_bytes as u32) << 14;
    let [a, b, c, _] = header.to_le_bytes();
    [a, b, c]
}

/// The header of four coded streams.
pub fn four_streams_header(count: usize, coded_bytes: usize, with_table: bool) -> ([u8; 5], usize) {
    let kind: u64 = if with_table { 2 } else { 3 };
    let (count, coded) = (count as u64, coded_bytes as u64);
    let (header, bytes) = match count.max(coded) {
        0..1024 => (kind | 1 << 2 | count << 4 | coded << 14, 3),
        1024..16_384 => (kind | 2 << 2 | count << 4 | coded << 18, 4),
        _ => (kind | 3 << 2 | count << 4 | coded << 22, 5),
    };
    let [a, b, c, d, e, ..] = header.to_le_bytes();
    ([a, b, c, d, e], bytes)
}

/// Appends how many sequences follow.
#[inline]
pub fn sequence_count(count: usize, out: &mut Vec<u8>) {
    match count {
        0..128 => out.push(count as u8),
        128..0x7F00 => out.extend_from_slice(&[(count >> 8) as u8 + 0x80, count as u8]),
        _ => {
            let [low, high] = ((count - 0x7F00) as u16).to_le_bytes();
            out.extend_from_slice(&[0xFF, low, high]);
        }
    }
}

/// Appends the header of trained sequences: their tables, or that they are repeated.
#[inline]
pub fn trained_sequences(state: &mut ZstdState, tables: &Tables, count: usize, out: &mut Vec<u8>) {
    sequence_count(count, out);
    if count == 0 {
        return;
    }
    if state.has_sequence_tables {
        out.push(TABLES_REPEAT);
        return;
    }
    own_sequences(tables, out);
    state.has_sequence_tables = true;
}

/// Appends the mode and the descriptions of a block's own tables.
pub fn own_sequences(tables: &Tables, out: &mut Vec<u8>) {
    out.push(TABLES_FOLLOW);
    out.extend_from_slice(tables.described_sequences());
}
