//! Program: a parse as fixed-code deflate, with everything done but the distances and the head.

use super::{DeflateState, code};
use crate::{
    bits::BitWriter,
    envelope::{HEAD_BYTES_MAX, Head},
    find::ITSELF,
    parse::{Alignment, Sequence},
    ring::TextId,
    sources::{Distances, Sources},
};

/// A block with the fixed code, not the last.
pub const FIXED_BLOCK: (u64, u32) = (0b010, 3);
/// Bits that one step holds at most.
const STEP_BITS_MAX: u32 = 48;
/// No distance follows.
const NO_SLOT: u8 = u8::MAX;

/// Bits, then perhaps a distance: `distances[slot] + addend`.
#[derive(Clone, Copy, Debug)]
struct Step {
    bits: u64,
    addend: u32,
    bits_count: u8,
    slot: u8,
}

impl Step {
    const EMPTY: Self = Self { bits: 0, addend: 0, bits_count: 0, slot: NO_SLOT };
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Program {
    steps: Vec<Step>,
    sources: Sources,
    /// The slot of a text of the same name, from whose head ours is copied.
    head_slot: Option<u8>,
}

#[derive(Default)]
struct Builder {
    steps: Vec<Step>,
    is_open: bool,
}

impl Builder {
    fn put(&mut self, (value, count): (u64, u32)) {
        if !self.is_open || self.steps.last().is_some_and(|step| u32::from(step.bits_count) + count > STEP_BITS_MAX) {
            self.steps.push(Step::EMPTY);
            self.is_open = true;
        }
        if let Some(step) = self.steps.last_mut() {
            step.bits |= value << step.bits_count;
            step.bits_count += count as u8;
        }
    }

    /// The distance of the length that was put last.
    fn distance(&mut self, slot: u8, addend: u32) {
        if let Some(step) = self.steps.last_mut() {
            (step.slot, step.addend) = (slot, addend);
        }
        self.is_open = false;
    }
}

impl Program {
    /// Prepares the `sequences` of a text; its head is copied from that of `head_source`, if they refer to it.
    pub fn new(bytes: &[u8], sequences: &[Sequence], head_source: Option<TextId>) -> Self {
        let sources = Sources::of(sequences);
        let mut builder = Builder::default();
        let mut at = 0;
        for sequence in sequences {
            let match_at = at + sequence.literals as usize;
            bytes[at..match_at].iter().for_each(|byte| builder.put(code::literal(*byte)));
            builder.put(code::match_length(sequence.length));
            let Alignment { source, shift } = sequence.alignment;
            builder.distance(if source == ITSELF { 0 } else { sources.slot(source) }, -shift as u32);
            at = match_at + sequence.length as usize;
        }
        bytes[at..].iter().for_each(|byte| builder.put(code::literal(*byte)));
        let head_slot = head_source.map(|id| sources.slot(id)).filter(|slot| *slot > 0);
        Self { steps: builder.steps, sources, head_slot }
    }

    /// The texts that a connection has to have.
    #[inline]
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// How far back the head is that a head may be copied from.
    #[inline]
    pub fn head_distance(&self, distances: &Distances) -> Option<u32> {
        self.head_slot.map(|slot| distances[usize::from(slot)])
    }

    /// Appends the message: head, text, and what follows it.
    #[inline]
    pub fn write(&self, state: &mut DeflateState, distances: &Distances, head: &Head, tail: &[u8], out: &mut Vec<u8>) {
        state.begin(out);
        let bytes_max = self.steps.len() * 10 + HEAD_BYTES_MAX * 2 + tail.len() * 2 + 16;
        let mut writer = BitWriter::new(out, bytes_max);
        writer.put(FIXED_BLOCK.0, FIXED_BLOCK.1);
        let mut literals = head.literals();
        for copy in head.copies() {
            let (run, rest) = literals.split_at(copy.run as usize);
            put_literals(run, &mut writer);
            for (value, bits) in [code::match_length(copy.length), code::distance(copy.distance)] {
                writer.put(value, bits);
            }
            literals = rest;
        }
        put_literals(literals, &mut writer);
        for step in &self.steps {
            writer.put(step.bits, u32::from(step.bits_count));
            if step.slot != NO_SLOT {
                let (value, bits) = code::distance(distances[usize::from(step.slot)].wrapping_add(step.addend));
                writer.put(value, bits);
            }
        }
        put_literals(tail, &mut writer);
        // The end of the block.
        writer.put(0, 7);
        state.end(writer);
    }
}

#[inline]
fn put_literals(literals: &[u8], writer: &mut BitWriter<'_>) {
    for byte in literals {
        let (value, bits) = code::literal(*byte);
        writer.put(value, bits);
    }
}
