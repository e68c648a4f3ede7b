//! Sections: the headers inside a block.

/// Most literals and most compressed bytes in a section of one stream.
pub const ONE_STREAM_MAX: usize = 1023;

/// Codes of the sequences section's modes: all three tables follow, or all three are repeated.
const TABLES_FOLLOW: u8 = 2 << 6 | 2 << 4 | 2 << 2;
const TABLES_REPEAT: u8 = 3 << 6 | 3 << 4 | 3 << 2;

/// The header of literals as they are: its bits and how many.
#[inline]
pub fn raw_header(count: usize) -> (u64, u32) {
    let value = count as u64;
    match count {
        0..32 => (value << 3, 8),
        32..4096 => (1 << 2 | value << 4, 16),
        _ => (3 << 2 | value << 4, 24),
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

/// How many sequences follow: its bits and how many.
#[inline]
fn sequence_count(count: usize) -> (u64, u32) {
    let value = count as u64;
    match count {
        0..128 => (value, 8),
        128..0x7F00 => (value >> 8 | 0x80 | (value & 0xFF) << 8, 16),
        _ => (0xFF | (value - 0x7F00) << 8, 24),
    }
}

/// Header of a section with `count` sequences: value and number of bits. Descriptions of the tables follow, or the
/// tables are repeated.
#[inline]
pub fn sequences_header(count: usize, with_tables: bool) -> (u64, u32) {
    let (value, bits) = sequence_count(count);
    let modes = if with_tables { TABLES_FOLLOW } else { TABLES_REPEAT };
    match count {
        0 => (value, bits),
        _ => (value | u64::from(modes) << bits, bits + 8),
    }
}
