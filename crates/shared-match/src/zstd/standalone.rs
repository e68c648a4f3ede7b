//! Standalone: a message that no other connection gets, as zstd blocks, with tables of its own where these pay.
//!
//! Owns        the offsets of its matches, which `MatchFinder::resolved` gives for this connection.

use super::{
    ZstdDecoder, block_header, raw_blocks,
    section::{ONE_STREAM_MAX, coded_header, four_streams_header, raw_header, sequences_header},
    sequence::{CodedSequence, SEQUENCE_BYTES_MAX, States},
};
use crate::{
    entropy::bits,
    entropy::fse::{FseTable, normalise},
    entropy::huffman::Huffman,
    entropy::tables::{Histogram, Tables},
    search::standalone::ResolvedSequence,
    zstd::codes::{self, LITERALS_RUN_MAX, LITERALS_SYMBOLS, MATCH_SYMBOLS, OFFSET_SYMBOLS},
};

/// A block ends after the sequence that reaches this many bytes of content.
const CONTENT_BYTES: usize = 64 << 10;
/// Shorter messages go as they are.
const CODED_BYTES_MIN: usize = 24;
/// Blocks of fewer literals and sequences never pay for tables of their own.
const OWN_TABLES_MIN: usize = 512;
/// Size of the trained tables if they must be sent again.
const TRAINED_BYTES: usize = 320;

/// Scratch memory for a block, kept between messages.
#[derive(Debug, Default)]
pub struct BlockScratch {
    literals: Vec<u8>,
    coded: Vec<CodedSequence>,
}

impl BlockScratch {
    /// Heap it holds.
    pub fn heap_bytes(&self) -> usize {
        self.literals.capacity() + self.coded.capacity() * size_of::<CodedSequence>()
    }
}

/// Appends `message`, of which `sequences` repeat earlier bytes.
pub fn write(
    decoder: &mut ZstdDecoder,
    tables: &Tables,
    scratch: &mut BlockScratch,
    message: &[u8],
    sequences: &[ResolvedSequence],
    out: &mut Vec<u8>,
) {
    decoder.begin(out);
    if message.len() < CODED_BYTES_MIN {
        return raw_blocks(message, out);
    }
    let BlockScratch { literals, coded } = scratch;
    literals.clear();
    coded.clear();
    let mut block = Block { decoder, tables, literals, sequences: coded, last_offsets: [0; 3] };
    let (mut at, mut block_start) = (0, 0);
    for sequence in sequences {
        let mut run = sequence.literals as usize;
        if at - block_start >= CONTENT_BYTES {
            block.end(out);
            block_start = at;
        }
        if run > LITERALS_RUN_MAX as usize {
            block.end(out);
            for piece in message[at..at + run].chunks(CONTENT_BYTES) {
                block.literals.extend_from_slice(piece);
                block.end(out);
            }
            (at, run) = (at + run, 0);
            block_start = at;
        }
        block.literals.extend_from_slice(&message[at..at + run]);
        block.push(run as u32, sequence);
        at += run + sequence.length as usize;
    }
    for piece in message[at..].chunks(CONTENT_BYTES - LITERALS_RUN_MAX as usize) {
        block.literals.extend_from_slice(piece);
        block.end(out);
    }
    block.end(out);
}

struct Block<'a> {
    decoder: &'a mut ZstdDecoder,
    tables: &'a Tables,
    literals: &'a mut Vec<u8>,
    sequences: &'a mut Vec<CodedSequence>,
    /// The last offsets of this message, newest first; 0 before there is one. Those of earlier messages are not
    /// repeated (Z2).
    last_offsets: [u32; 3],
}

impl Block<'_> {
    fn push(&mut self, run: u32, sequence: &ResolvedSequence) {
        // Behind no literals the value 1 means the second of them, and so on (RFC 8878 §3.1.1.5).
        let first = usize::from(run == 0);
        let known = self.last_offsets.iter().skip(first).position(|offset| *offset == sequence.distance);
        let value = match known {
            Some(known) => {
                self.last_offsets[..=known + first].rotate_right(1);
                known as u32 + 1
            }
            None => {
                self.last_offsets = [sequence.distance, self.last_offsets[0], self.last_offsets[1]];
                sequence.distance + 3
            }
        };
        self.sequences.push(CodedSequence::new(run, sequence.length, codes::offset(value)));
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.literals.is_empty() && self.sequences.is_empty() {
            return;
        }
        let own = self.own_tables();
        let start = out.len();
        out.extend_from_slice(&[0; 3]);
        let content = out.len();
        match &own {
            Some(own) => {
                self.write_literals(own, Description::Included, out);
                self.write_sequences(own, Description::Included, out);
                // The decoder has other tables now.
                self.decoder.has_bytes_table = false;
                self.decoder.has_sequence_tables = false;
            }
            None => {
                let of_literals = Description::unless(self.decoder.has_bytes_table);
                if self.write_literals(self.tables, of_literals, out) {
                    self.decoder.has_bytes_table = true;
                }
                let of_sequences = Description::unless(self.decoder.has_sequence_tables);
                self.write_sequences(self.tables, of_sequences, out);
                self.decoder.has_sequence_tables |= !self.sequences.is_empty();
            }
        }
        let header = block_header(out.len() - content);
        out[start..content].copy_from_slice(&header);
        self.literals.clear();
        self.sequences.clear();
    }

    /// Tables for this block alone, if it gets smaller with them.
    fn own_tables(&self) -> Option<Tables> {
        if self.literals.len() + self.sequences.len() < OWN_TABLES_MIN || self.sequences.len() < 64 {
            return None;
        }
        let mut seen = Histogram::default();
        self.literals.iter().for_each(|byte| seen.bytes[usize::from(*byte)] += 1);
        for sequence in &*self.sequences {
            let [literals, matches, offsets] = sequence.symbols().map(usize::from);
            seen.literals[literals] += 1;
            seen.matches[matches] += 1;
            seen.offsets[offsets] += 1;
        }
        let own = Tables::new(
            Huffman::for_counts(&seen.bytes)?,
            fitted(&seen.literals, LITERALS_SYMBOLS, 8)?,
            fitted(&seen.offsets, OFFSET_SYMBOLS, 8)?,
            fitted(&seen.matches, MATCH_SYMBOLS, 9)?,
        );
        let described = own.described_bytes()?.len() + own.described_sequences().len();
        let own_bytes = described + TRAINED_BYTES + bytes_under(&own, &seen);
        (own_bytes < bytes_under(self.tables, &seen)).then_some(own)
    }

    /// Writes the literals with the code of `tables`. Returns whether that included the code's description.
    fn write_literals(&self, tables: &Tables, description: Description, out: &mut Vec<u8>) -> bool {
        let with_table = description == Description::Included;
        let start = out.len();
        let literals = &self.literals;
        let bits = tables.bytes.bits_of(literals).filter(|_| !literals.is_empty());
        if bits.is_some_and(|bits| with_table || bits / 8 + 16 < literals.len()) {
            let header_bytes = if literals.len() <= ONE_STREAM_MAX {
                3
            } else {
                // Compressed, they are not longer: the larger of both decides.
                four_streams_header(literals.len(), 0, with_table).1
            };
            out.resize(start + header_bytes, 0);
            if with_table {
                out.extend_from_slice(tables.described_bytes().unwrap_or_default());
            }
            if literals.len() <= ONE_STREAM_MAX {
                tables.bytes.code_stream(literals, out);
            } else {
                four_streams(&tables.bytes, literals, out);
            }
            let coded_bytes = out.len() - start - header_bytes;
            if literals.len() <= ONE_STREAM_MAX && coded_bytes <= ONE_STREAM_MAX {
                out[start..start + 3].copy_from_slice(&coded_header(literals.len(), coded_bytes, with_table));
                return with_table;
            }
            let (header, length) = four_streams_header(literals.len(), coded_bytes, with_table);
            if literals.len() > ONE_STREAM_MAX && length == header_bytes {
                out[start..start + length].copy_from_slice(&header[..length]);
                return with_table;
            }
            out.truncate(start);
        }
        push_header(raw_header(literals.len()), out);
        out.extend_from_slice(literals);
        false
    }

    fn write_sequences(&self, tables: &Tables, description: Description, out: &mut Vec<u8>) {
        let with_tables = description == Description::Included;
        push_header(sequences_header(self.sequences.len(), with_tables), out);
        let Some((last, earlier)) = self.sequences.split_last() else { return };
        if with_tables {
            out.extend_from_slice(tables.described_sequences());
        }
        bits::append(out, (self.sequences.len() + 1) * SEQUENCE_BYTES_MAX, |writer| {
            let mut states = States::start(tables, last);
            writer.put_small(last.extra());
            for sequence in earlier.iter().rev() {
                writer.put_two(states.code(tables, sequence), sequence.extra());
            }
            writer.put_mark(states.ends(tables));
        });
    }
}

/// The description of a code before what is coded with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Description {
    Included,
    /// The decoder has the code from an earlier block.
    Omitted,
}

impl Description {
    fn unless(decoder_has_it: bool) -> Self {
        if decoder_has_it { Self::Omitted } else { Self::Included }
    }
}

/// A table for the symbols seen and no others; `None` for a single symbol, which the format encodes as RLE.
fn fitted(seen: &[u64], symbols: usize, log: u32) -> Option<FseTable> {
    let used = seen[..symbols].iter().rposition(|count| *count > 0)? + 1;
    if seen.iter().filter(|count| **count > 0).count() < 2 {
        return None;
    }
    Some(FseTable::new(&normalise(&seen[..used], log), log))
}

/// Bytes of what was seen under these tables, extra bits aside.
fn bytes_under(tables: &Tables, seen: &Histogram) -> usize {
    let literals: u64 = (0..=255u8)
        .map(|byte| {
            let bits = match tables.bytes.length(byte) {
                0 => 12,
                bits => bits,
            };
            seen.bytes[usize::from(byte)] * u64::from(bits) * 256
        })
        .sum();
    let priced = |table: &FseTable, seen: &[u64]| -> u64 {
        seen.iter().enumerate().map(|(symbol, count)| count * u64::from(table.price(symbol as u8))).sum()
    };
    let sequences = priced(&tables.literals, &seen.literals)
        + priced(&tables.offsets, &seen.offsets)
        + priced(&tables.matches, &seen.matches);
    ((literals + sequences) / 2048) as usize
}

fn four_streams(code: &Huffman, literals: &[u8], out: &mut Vec<u8>) {
    let quarter = literals.len().div_ceil(4);
    let jump_table = out.len();
    out.extend_from_slice(&[0; 6]);
    for (index, part) in literals.chunks(quarter).enumerate() {
        let start = out.len();
        code.code_stream(part, out);
        if index < 3 {
            let length = (out.len() - start) as u16;
            out[jump_table + 2 * index..][..2].copy_from_slice(&length.to_le_bytes());
        }
    }
}

/// Appends the bits of a header: whole bytes.
fn push_header((value, bits): (u64, u32), out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_le_bytes()[..bits as usize / 8]);
}
