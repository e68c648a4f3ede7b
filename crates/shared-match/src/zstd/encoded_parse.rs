//! Encoded parse: a parse as zstd blocks, with everything done that does not depend on the connection.
//!
//! Owns        the offset of a match in a connection's stream (`OffsetFixup`): that of its body, and an addend of the
//!             match.
//!
//! Written per connection: the offsets, the state of the offsets' code, and the head with its seq. Sequences and
//! literals are coded from the last to the first, so the head comes last in both.

use super::{
    ZstdDecoder, block_header,
    section::{ONE_STREAM_MAX, coded_header, raw_header, sequences_header},
    sequence::{CodedSequence, SEQUENCE_BYTES_MAX, States},
};
use crate::{
    entropy::bits::{self, BitBuffer, BitWriter, SmallBits},
    entropy::fse::FseState,
    entropy::tables::Tables,
    history::BodyId,
    parse::{Alignment, Offset, Sequence},
    search::source::Source,
    stream::envelope::{HEAD_BYTES_MAX, Head, HeadCopy},
    stream::references::{Offsets, References},
    zstd::codes,
};

/// Maximum number of literals per block, which leaves room for a head.
const LITERALS_MAX: usize = ONE_STREAM_MAX - HEAD_BYTES_MAX;
/// A block ends after the sequence that reaches this many bytes of content.
const CONTENT_BYTES: usize = 64 << 10;

/// The headers of a block and of its sections.
const HEADERS_BYTES_MAX: usize = 16;

/// How one offset value comes about: `offsets[slot] + addend`. The format codes an explicit offset as itself and 3,
/// because 1 to 3 repeat one of the last three offsets (RFC 8878 §3.1.1.5).
#[derive(Clone, Copy, Debug)]
struct OffsetFixup {
    slot: u8,
    addend: u32,
}

impl OffsetFixup {
    const REPEAT_LAST: Self = Self { slot: 0, addend: 1 };

    fn of(sequence: &Sequence, references: &References) -> Self {
        let Alignment { source, shift } = sequence.alignment;
        match sequence.offset {
            Offset::Repeat(value) => Self { slot: 0, addend: u32::from(value) },
            Offset::Explicit if source == Source::ITSELF => Self { slot: 0, addend: (3 - shift) as u32 },
            Offset::Explicit => Self { slot: references.slot(source), addend: (3 - shift) as u32 },
        }
    }

    #[inline]
    fn value(self, offsets: &Offsets) -> u32 {
        offsets.of(self.slot).wrapping_add(self.addend)
    }
}

/// One sequence without its offset: the bits of the other two codes, which come between the state bits and the extra
/// bits of the offset.
#[derive(Clone, Copy, Debug)]
struct Step {
    between: u64,
    between_bits: u8,
    fixup: OffsetFixup,
}

/// The first sequence of a body: the literals of a head come in front of its own.
#[derive(Clone, Copy, Debug)]
struct First {
    literals: u32,
    length: u32,
    fixup: OffsetFixup,
    /// Its alignment is the one with which a head is copied.
    follows_head: bool,
}

impl First {
    #[inline]
    fn coded(&self, head: &Head, offsets: &Offsets) -> CodedSequence {
        let fixup = if self.follows_head && head.is_copied_whole() { OffsetFixup::REPEAT_LAST } else { self.fixup };
        CodedSequence::new(self.literals + head.last_run(), self.length, codes::offset(fixup.value(offsets)))
    }
}

#[derive(Clone, Debug)]
struct Block {
    literals: Vec<u8>,
    /// Upper bound for the literals, coded or not.
    literals_bytes_max: usize,
    /// The same, coded; none if the trained code lacks some of them.
    coded: Option<BitBuffer>,
    /// Only where a head may come in front.
    first: Option<First>,
    /// From the last sequence to the first.
    steps: Vec<Step>,
    /// States of the codes of lengths after `steps`.
    lengths: Option<(FseState, FseState)>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct EncodedParse {
    blocks: Vec<Block>,
    references: References,
}

impl EncodedParse {
    /// Prepares the `sequences` of a body; its head is copied from that of `head_source`, if they refer to it.
    pub fn new(bytes: &[u8], sequences: &[Sequence], tables: &Tables, head_source: Option<BodyId>) -> Self {
        let references = References::of(sequences, head_source);
        let mut builder = Builder { tables, references: &references, head_source, blocks: Vec::new() };
        let (mut at, mut block_start) = (0, 0);
        let mut pending: Vec<Sequence> = Vec::new();
        let mut literals: Vec<u8> = Vec::new();
        for sequence in sequences {
            let mut run = sequence.literals as usize;
            if !pending.is_empty() && (literals.len() + run > LITERALS_MAX || at - block_start >= CONTENT_BYTES) {
                builder.push(&mut literals, &mut pending);
                block_start = at;
            }
            while literals.len() + run > LITERALS_MAX {
                let taken = LITERALS_MAX - literals.len();
                literals.extend_from_slice(&bytes[at..at + taken]);
                builder.push(&mut literals, &mut pending);
                (at, run, block_start) = (at + taken, run - taken, at + taken);
            }
            literals.extend_from_slice(&bytes[at..at + run]);
            pending.push(Sequence { literals: run as u32, ..*sequence });
            at += run + sequence.length as usize;
        }
        while literals.len() + bytes.len() - at > LITERALS_MAX {
            let taken = LITERALS_MAX - literals.len();
            literals.extend_from_slice(&bytes[at..at + taken]);
            builder.push(&mut literals, &mut pending);
            at += taken;
        }
        literals.extend_from_slice(&bytes[at..]);
        if builder.blocks.is_empty() || !literals.is_empty() || !pending.is_empty() {
            builder.push(&mut literals, &mut pending);
        }
        let blocks = builder.blocks;
        Self { blocks, references }
    }

    /// The bodies that a connection has to have.
    #[inline]
    pub fn references(&self) -> &References {
        &self.references
    }

    /// Appends the blocks.
    #[inline]
    pub fn write(&self, decoder: &mut ZstdDecoder, tables: &Tables, offsets: &Offsets, head: &Head, out: &mut Vec<u8>) {
        decoder.begin(out);
        let mut head = Some(head);
        for block in &self.blocks {
            block.write(decoder, tables, offsets, head.take(), out);
        }
    }
}

struct Builder<'a> {
    tables: &'a Tables,
    references: &'a References,
    head_source: Option<BodyId>,
    blocks: Vec<Block>,
}

impl Builder<'_> {
    /// Makes a block of what is pending.
    fn push(&mut self, literals: &mut Vec<u8>, pending: &mut Vec<Sequence>) {
        let tables = self.tables;
        let may_have_head = self.blocks.is_empty();
        let (first, rest) = match pending.split_first() {
            Some((first, rest)) if may_have_head => (Some(first), rest),
            _ => (None, pending.as_slice()),
        };
        let mut lengths: Option<(FseState, FseState)> = None;
        let steps = rest
            .iter()
            .rev()
            .map(|sequence| {
                let (run, length) = (codes::literals(sequence.literals), codes::match_length(sequence.length));
                let mut between = (0, 0);
                let mut put = |value: u64, bits: u32| between = (between.0 | value << between.1, between.1 + bits);
                lengths = Some(match lengths {
                    None => (tables.literals.start(run.symbol), tables.matches.start(length.symbol)),
                    Some((mut literals, mut matches)) => {
                        let (value, bits) = tables.matches.code(&mut matches, length.symbol);
                        put(value, bits);
                        let (value, bits) = tables.literals.code(&mut literals, run.symbol);
                        put(value, bits);
                        (literals, matches)
                    }
                });
                put(u64::from(run.extra), u32::from(run.extra_bits));
                put(u64::from(length.extra), u32::from(length.extra_bits));
                Step {
                    between: between.0,
                    between_bits: between.1 as u8,
                    fixup: OffsetFixup::of(sequence, self.references),
                }
            })
            .collect();
        let first = first.map(|sequence| First {
            literals: sequence.literals,
            length: sequence.length,
            fixup: OffsetFixup::of(sequence, self.references),
            follows_head: self.head_source.map(Source::body) == Some(sequence.alignment.source)
                && sequence.alignment.shift == 0,
        });
        let coded = tables.bytes.bits_of(literals).map(|_| tables.bytes.bits(literals));
        let literals_bytes_max = literals.len().max(coded.as_ref().map_or(0, |coded| coded.run().bytes.len()));
        self.blocks.push(Block {
            literals: std::mem::take(literals),
            literals_bytes_max,
            coded,
            first,
            steps,
            lengths,
        });
        pending.clear();
    }
}

impl Block {
    #[inline]
    fn write(
        &self,
        decoder: &mut ZstdDecoder,
        tables: &Tables,
        offsets: &Offsets,
        head: Option<&Head>,
        out: &mut Vec<u8>,
    ) {
        let head = head.unwrap_or(&Head::NONE);
        let copies = head.copies();
        let count = self.steps.len() + usize::from(self.first.is_some()) + copies.len();
        bits::append(out, self.bytes_max(decoder, tables, head, count), |writer| {
            let header = writer.bytes(3);
            let room = writer.room();
            self.put_literals(decoder, tables, head.literals(), writer);
            let with_tables = !decoder.has_sequence_tables;
            let (sequences, bits) = sequences_header(count, with_tables);
            writer.put(sequences, bits);
            if count > 0 {
                if with_tables {
                    writer.put_bytes(tables.described_sequences());
                    decoder.has_sequence_tables = true;
                }
                let mut states = self.put_steps(tables, offsets, writer);
                let first = self.first.iter().map(|first| first.coded(head, offsets));
                for sequence in first.chain(copies.iter().rev().map(coded_copy)) {
                    let codes = match &mut states {
                        Some(states) => states.code(tables, &sequence),
                        None => {
                            states = Some(States::start(tables, &sequence));
                            SmallBits::default()
                        }
                    };
                    writer.put_two(codes, sequence.extra());
                }
                let states = states.expect("there is a sequence");
                writer.put_mark(states.ends(tables));
            }
            header.copy_from_slice(&block_header(room - writer.room()));
        });
    }

    /// Upper bound for the block with this head and `count` sequences.
    #[inline]
    fn bytes_max(&self, decoder: &ZstdDecoder, tables: &Tables, head: &Head, count: usize) -> usize {
        let tables = if decoder.has_bytes_table && decoder.has_sequence_tables { 0 } else { tables.described_len() };
        HEADERS_BYTES_MAX
            + tables
            + self.literals_bytes_max
            + 2 * head.literals().len()
            + (count + 1) * SEQUENCE_BYTES_MAX
    }

    #[inline]
    fn put_steps(&self, tables: &Tables, offsets: &Offsets, writer: &mut BitWriter<'_>) -> Option<States> {
        let (last, earlier) = self.steps.split_first()?;
        let (literals, matches) = self.lengths?;
        let offset = codes::offset(last.fixup.value(offsets));
        let mut state = tables.offsets.start(offset.symbol);
        writer.put_two((last.between, last.between_bits.into()).into(), offset.extra().into());
        for step in earlier {
            let value = step.fixup.value(offsets);
            let symbol = codes::offset_symbol(value);
            let (leaving, bits) = tables.offsets.code(&mut state, symbol as u8);
            let (leaving, bits) = (leaving | step.between << bits, bits + u32::from(step.between_bits));
            writer.put_two((leaving, bits).into(), (u64::from(value ^ 1 << symbol), symbol).into());
        }
        Some(States { literals, offsets: state, matches })
    }

    /// The literals of a head and the block's own, coded or as they are, whichever is less.
    #[inline]
    fn put_literals(&self, decoder: &mut ZstdDecoder, tables: &Tables, head: &[u8], writer: &mut BitWriter<'_>) {
        let count = head.len() + self.literals.len();
        let (raw, raw_bits) = raw_header(count);
        if let Some(coded) = self.coded.as_ref().filter(|_| count > 0) {
            let bits = coded.bits() + head.iter().map(|byte| tables.bytes.length(*byte)).sum::<u32>();
            let stream_bytes = bits as usize / 8 + 1;
            let with_table = !decoder.has_bytes_table;
            if stream_bytes <= ONE_STREAM_MAX - 160 && (with_table || stream_bytes + 3 < count + raw_bits as usize / 8)
            {
                let header = writer.bytes(3);
                let room = writer.room();
                if with_table {
                    writer.put_bytes(tables.described_bytes().expect("a test describes the built-in tables"));
                    decoder.has_bytes_table = true;
                }
                let run = coded.run();
                let whole = run.bits as usize / 8;
                writer.put_bytes(&run.bytes[..whole]);
                let mut few = SmallBits::default();
                if run.bits % 8 > 0 {
                    few = few.and((run.bytes[whole].into(), run.bits % 8));
                }
                head.iter().rev().for_each(|byte| writer.gather(&mut few, tables.bytes.code(*byte)));
                writer.put_mark(few);
                header.copy_from_slice(&coded_header(count, room - writer.room(), with_table));
                return;
            }
        }
        writer.put(raw, raw_bits);
        writer.put_bytes(head);
        writer.put_bytes(&self.literals);
    }
}

/// Sequence of a copied part of a head.
#[inline]
fn coded_copy(copy: &HeadCopy) -> CodedSequence {
    CodedSequence::new(copy.run, copy.length, codes::offset(copy.distance + 3))
}
