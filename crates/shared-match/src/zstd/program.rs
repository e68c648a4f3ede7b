//! Program: a parse as zstd blocks, with everything done that does not depend on the connection.
//!
//! What is left per connection: the offsets, the state of the offsets' code, and the head with its seq. Sequences are
//! coded from the last to the first, and so are literals, so a head that stands in front is what comes last in both.

use super::{
    ZstdState, begin_block, end_block,
    section::{ONE_STREAM_MAX, coded_header, raw_header, trained_sequences},
    sequence::{CodedSequence, States},
};
use crate::{
    bits::{BitBuffer, BitWriter, Few},
    codes::{self, Coded},
    envelope::{HEAD_BYTES_MAX, Head},
    find::ITSELF,
    fse::FseState,
    parse::{Alignment, Offset, Sequence},
    ring::TextId,
    sources::{Distances, Sources},
    tables::Tables,
};

/// Most literals of a block, so that a head still fits beside them.
const LITERALS_MAX: usize = ONE_STREAM_MAX - HEAD_BYTES_MAX;
/// A block ends behind the sequence that reaches so many bytes of content.
const CONTENT_BYTES: usize = 64 << 10;
/// What one sequence takes at most, in bytes: the three codes and their extra bits.
const SEQUENCE_BYTES_MAX: usize = 10;

/// How one offset comes about: `distances[slot] + addend`.
#[derive(Clone, Copy, Debug)]
struct Offsetting {
    slot: u8,
    addend: u32,
}

impl Offsetting {
    const REPEAT_LAST: Self = Self { slot: 0, addend: 1 };

    fn of(sequence: &Sequence, sources: &Sources) -> Self {
        let Alignment { source, shift } = sequence.alignment;
        match sequence.offset {
            Offset::Repeat(value) => Self { slot: 0, addend: u32::from(value) },
            Offset::Explicit if source == ITSELF => Self { slot: 0, addend: (3 - shift) as u32 },
            Offset::Explicit => Self { slot: sources.slot(source), addend: (3 - shift) as u32 },
        }
    }

    #[inline]
    fn coded(self, distances: &Distances) -> Coded {
        codes::offset(distances[usize::from(self.slot)].wrapping_add(self.addend))
    }
}

/// One sequence, all but its offset: the bits of the other two codes, which stand between the state bits and the extra
/// bits of the offset.
#[derive(Clone, Copy, Debug)]
struct Step {
    between: u64,
    between_bits: u8,
    offsetting: Offsetting,
}

/// The first sequence of a text: the literals of a head come in front of its own.
#[derive(Clone, Copy, Debug)]
struct First {
    literals: u32,
    length: u32,
    offsetting: Offsetting,
    /// Its alignment is the one with which a head is copied.
    follows_head: bool,
}

#[derive(Clone, Debug)]
struct Block {
    literals: Vec<u8>,
    /// The same, coded; none if the trained code lacks some of them.
    coded: Option<BitBuffer>,
    /// Only where a head may come in front.
    first: Option<First>,
    /// From the last sequence to the first.
    steps: Vec<Step>,
    /// Where the codes of lengths stand after `steps`.
    lengths: Option<(FseState, FseState)>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Program {
    blocks: Vec<Block>,
    sources: Sources,
}

impl Program {
    /// Prepares the `sequences` of a text; its head is copied from that of `head_source`, if they refer to it.
    pub fn new(bytes: &[u8], sequences: &[Sequence], tables: &Tables, head_source: Option<TextId>) -> Self {
        let sources = Sources::of(sequences, head_source);
        let mut builder = Builder { tables, sources: &sources, head_source, blocks: Vec::new() };
        let (mut at, mut begun) = (0, 0);
        let mut pending: Vec<Sequence> = Vec::new();
        let mut literals: Vec<u8> = Vec::new();
        for sequence in sequences {
            let mut run = sequence.literals as usize;
            if !pending.is_empty() && (literals.len() + run > LITERALS_MAX || at - begun >= CONTENT_BYTES) {
                builder.push(&mut literals, &mut pending);
                begun = at;
            }
            while literals.len() + run > LITERALS_MAX {
                let taken = LITERALS_MAX - literals.len();
                literals.extend_from_slice(&bytes[at..at + taken]);
                builder.push(&mut literals, &mut pending);
                (at, run, begun) = (at + taken, run - taken, at + taken);
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
        Self { blocks, sources }
    }

    /// The texts that a connection has to have.
    #[inline]
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Appends the blocks.
    #[inline]
    pub fn write(&self, state: &mut ZstdState, tables: &Tables, distances: &Distances, head: &Head, out: &mut Vec<u8>) {
        state.begin(out);
        let mut head = Some(head);
        for block in &self.blocks {
            block.write(state, tables, distances, head.take(), out);
        }
    }
}

struct Builder<'a> {
    tables: &'a Tables,
    sources: &'a Sources,
    head_source: Option<TextId>,
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
                    offsetting: Offsetting::of(sequence, self.sources),
                }
            })
            .collect();
        let first = first.map(|sequence| First {
            literals: sequence.literals,
            length: sequence.length,
            offsetting: Offsetting::of(sequence, self.sources),
            follows_head: self.head_source == Some(sequence.alignment.source) && sequence.alignment.shift == 0,
        });
        let coded = tables.bytes.bits_of(literals).map(|_| tables.bytes.bits(literals));
        self.blocks.push(Block { literals: std::mem::take(literals), coded, first, steps, lengths });
        pending.clear();
    }
}

impl Block {
    #[inline]
    fn write(
        &self,
        state: &mut ZstdState,
        tables: &Tables,
        distances: &Distances,
        head: Option<&Head>,
        out: &mut Vec<u8>,
    ) {
        let start = begin_block(out);
        let head_literals = head.map_or(&[][..], Head::literals);
        self.write_literals(state, tables, head_literals, out);
        let copies = head.map_or(&[][..], Head::copies);
        let count = self.steps.len() + usize::from(self.first.is_some()) + copies.len();
        trained_sequences(state, tables, count, out);
        if count > 0 {
            let mut writer = BitWriter::new(out, (count + 1) * SEQUENCE_BYTES_MAX);
            let mut states = self.write_steps(tables, distances, &mut writer);
            if let Some(first) = &self.first {
                let offset = match first.follows_head && head.is_some_and(Head::is_copied_whole) {
                    true => Offsetting::REPEAT_LAST.coded(distances),
                    false => first.offsetting.coded(distances),
                };
                let run = first.literals + head.map_or(0, Head::last_run);
                put_sequence(tables, &mut states, &CodedSequence::new(run, first.length, offset), &mut writer);
            }
            for copy in copies.iter().rev() {
                let copied = CodedSequence::new(copy.run, copy.length, codes::offset(copy.distance + 3));
                put_sequence(tables, &mut states, &copied, &mut writer);
            }
            let states = states.expect("there is a sequence");
            writer.finish_with_mark(states.ends(tables));
        }
        end_block(out, start);
    }

    #[inline]
    fn write_steps(&self, tables: &Tables, distances: &Distances, writer: &mut BitWriter<'_>) -> Option<States> {
        let (last, earlier) = self.steps.split_first()?;
        let (literals, matches) = self.lengths?;
        let offset = last.offsetting.coded(distances);
        let mut offsets = tables.offsets.start(offset.symbol);
        writer.put_two((last.between, last.between_bits.into()), offset.extra());
        for step in earlier {
            let offset = step.offsetting.coded(distances);
            let (value, bits) = tables.offsets.code(&mut offsets, offset.symbol);
            let (value, bits) = (value | step.between << bits, bits + u32::from(step.between_bits));
            writer.put_two((value, bits), offset.extra());
        }
        Some(States { literals, offsets, matches })
    }

    /// The literals of a head and the block's own, coded or as they are, whichever is less.
    #[inline]
    fn write_literals(&self, state: &mut ZstdState, tables: &Tables, head: &[u8], out: &mut Vec<u8>) {
        let count = head.len() + self.literals.len();
        let (raw, raw_bytes) = raw_header(count);
        if let Some(coded) = self.coded.as_ref().filter(|_| count > 0) {
            let bits = coded.bits() + head.iter().map(|byte| tables.bytes.length(*byte)).sum::<u32>();
            let stream_bytes = bits as usize / 8 + 1;
            let with_table = !state.has_bytes_table;
            if stream_bytes <= ONE_STREAM_MAX - 160 && (with_table || stream_bytes + 3 < count + raw_bytes) {
                let start = out.len();
                out.extend_from_slice(&[0; 3]);
                if with_table {
                    out.extend_from_slice(tables.described_bytes().expect("a test describes the built-in tables"));
                    state.has_bytes_table = true;
                }
                let run = coded.run();
                let whole = run.bits as usize / 8;
                out.extend_from_slice(&run.bytes[..whole]);
                let mut writer = BitWriter::new(out, head.len() * 2 + 2);
                let mut few = Few::default();
                if run.bits % 8 > 0 {
                    few = few.and((run.bytes[whole].into(), run.bits % 8));
                }
                head.iter().rev().for_each(|byte| writer.gather(&mut few, tables.bytes.code(*byte)));
                writer.finish_with_mark(few);
                let coded_bytes = out.len() - start - 3;
                out[start..start + 3].copy_from_slice(&coded_header(count, coded_bytes, with_table));
                return;
            }
        }
        out.extend_from_slice(&raw[..raw_bytes]);
        out.extend_from_slice(head);
        out.extend_from_slice(&self.literals);
    }
}

/// Codes a sequence all of which depends on the connection.
#[inline]
fn put_sequence(tables: &Tables, states: &mut Option<States>, sequence: &CodedSequence, writer: &mut BitWriter<'_>) {
    match states {
        None => *states = Some(States::start(tables, sequence)),
        Some(states) => writer.put_few(states.code(tables, sequence)),
    }
    writer.put_few(sequence.extra());
}
