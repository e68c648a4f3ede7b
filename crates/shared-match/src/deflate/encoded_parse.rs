//! Encoded parse: a parse as a block of deflate, with everything done but the distances and the head.
//!
//! Owns        the offset of a match in a connection's stream (`Step`): that of its body, and an addend of the match.
//!
//! Most are so short that the fixed code does best. A long one has codes of its own, in a block of its own behind the
//! head's: of distances every symbol has a code then, for each connection has others.

use super::{
    DeflateDecoder, WINDOW_BYTES_MAX,
    code::{self, DISTANCE_SYMBOLS, END_OF_BLOCK},
    dynamic_codes::{self, DistanceCode, DynamicCodes},
};
use crate::{
    entropy::bits::{self, BitWriter, PUT_BITS_MAX, SmallBits},
    history::BodyId,
    parse::{Alignment, Sequence},
    search::source::{Reference, Source},
    stream::envelope::Head,
    stream::references::{Offsets, References},
};

/// A block with the fixed code, not the last.
pub const FIXED_BLOCK: (u64, u32) = (0b010, 3);
/// The end of a block in the fixed code.
const FIXED_END: (u64, u32) = (0, 7);
/// Shorter bodies never pay for dynamic codes, whose description takes about five hundred bits.
const DYNAMIC_BITS_MIN: u64 = 1_200;
/// Minimum size of the description of dynamic codes.
const DESCRIPTION_BITS_MIN: f32 = 400.0;
/// Bits that one step holds at most.
const STEP_BITS_MAX: u32 = PUT_BITS_MAX;
/// What copies of a head take at most, and what goes around all.
const AROUND_BYTES_MAX: usize = 40;
/// A code and its extra bits.
const DISTANCE_BITS_MAX: u32 = 15 + 13;
/// Weight of an expected distance relative to a merely possible one.
const DISTANCE_WEIGHT: u64 = 16;
/// No distance follows.
const NO_SLOT: u8 = u8::MAX;

/// Bits, then perhaps a distance: `offsets[slot] + addend`.
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

/// Header of a block with dynamic codes, and the code of its distances.
#[derive(Clone, Debug)]
struct DynamicBlock {
    distances: DistanceCode,
    end: (u64, u32),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct EncodedParse {
    steps: Vec<Step>,
    /// Upper bound for the encoded steps.
    steps_bytes_max: usize,
    references: References,
    own: Option<Box<DynamicBlock>>,
}

#[derive(Default)]
struct Builder<'a> {
    own: Option<&'a DynamicCodes>,
    steps: Vec<Step>,
    is_open: bool,
}

impl Builder<'_> {
    /// Writes the header of dynamic codes first.
    fn header(&mut self) {
        let Some(own) = self.own else { return };
        let mut left = own.header_bits() as u32;
        let mut header = Vec::new();
        bits::append(&mut header, left as usize / 8 + 1, |writer| own.put_header(writer));
        for piece in header.chunks(STEP_BITS_MAX as usize / 8) {
            let value = piece.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
            let bits = left.min(8 * piece.len() as u32);
            self.put((value & ((1 << bits) - 1), bits));
            left -= bits;
        }
    }

    fn literal(&mut self, byte: u8) {
        self.put(match self.own {
            Some(own) => own.literals.of(byte.into()),
            None => code::literal(byte),
        });
    }

    fn length(&mut self, length: u32) {
        self.put(match self.own {
            Some(own) => own.literals.coded(code::length_symbol(length)),
            None => code::match_length(length),
        });
    }

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

/// How often a parse has each symbol of literals and lengths.
fn counted(bytes: &[u8], sequences: &[Sequence]) -> [u64; 288] {
    let mut counts = [0; 288];
    let mut at = 0;
    for Sequence { literals, length, .. } in sequences {
        let match_at = at + *literals as usize;
        bytes[at..match_at].iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        counts[usize::from(code::length_symbol(*length).symbol)] += 1;
        at = match_at + *length as usize;
    }
    bytes[at..].iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    counts[END_OF_BLOCK] = 1;
    counts
}

/// Codes for one parse, if they make it shorter. `distance_of` returns the approximate distance of a source.
fn dynamic_codes_for(
    bytes: &[u8],
    sequences: &[Sequence],
    distance_of: impl Fn(BodyId) -> Option<u32>,
) -> Option<DynamicCodes> {
    let literals = counted(bytes, sequences);
    let mut distances = [0u64; 32];
    let (fixed, fixed_distances) = dynamic_codes::fixed();
    let fixed_bits = fixed.bits(&literals);
    if fixed_bits < DYNAMIC_BITS_MIN {
        return None;
    }
    // Lower bound for any code: rules out most bodies cheaply.
    let total: u64 = literals.iter().sum();
    let of_symbol = |count: &u64| *count as f32 * (total as f32 / *count as f32).log2();
    let least_bits: f32 = literals.iter().filter(|count| **count > 0).map(of_symbol).sum();
    if least_bits + DESCRIPTION_BITS_MIN - 2.0 * sequences.len() as f32 > fixed_bits as f32 {
        return None;
    }
    // Those that are seen count the more: others are still likely where connections differ.
    distances[..DISTANCE_SYMBOLS].fill(1);
    for Alignment { source, shift } in sequences.iter().map(|sequence| sequence.alignment) {
        let distance = match source.reference() {
            Reference::Itself => Some(shift.unsigned_abs()),
            Reference::Body(id) => distance_of(id),
            // Streams of deflate begin with none.
            Reference::Dictionary => None,
        };
        if let Some(distance) = distance.filter(|distance| (1..=WINDOW_BYTES_MAX).contains(distance)) {
            distances[usize::from(code::distance_symbol(distance).symbol)] += DISTANCE_WEIGHT;
        }
    }
    let own = DynamicCodes::new(&literals, &distances)?;
    let own_bits = own.header_bits() + own.literals.bits(&literals) + own.distances.bits(&distances) / DISTANCE_WEIGHT;
    let all_fixed_bits = fixed_bits + fixed_distances.bits(&distances) / DISTANCE_WEIGHT;
    // A block more ends with a symbol more.
    (own_bits + u64::from(FIXED_END.1) < all_fixed_bits).then_some(own)
}

impl EncodedParse {
    /// Prepares the `sequences` of a body; its head is copied from that of `head_source`, if they refer to it.
    /// `distance_of` returns the approximate distance of a source.
    pub fn new(
        bytes: &[u8],
        sequences: &[Sequence],
        head_source: Option<BodyId>,
        distance_of: impl Fn(BodyId) -> Option<u32>,
    ) -> Self {
        let references = References::of(sequences, head_source);
        let own = dynamic_codes_for(bytes, sequences, distance_of);
        let mut builder = Builder { own: own.as_ref(), ..Builder::default() };
        builder.header();
        let mut at = 0;
        for sequence in sequences {
            let match_at = at + sequence.literals as usize;
            bytes[at..match_at].iter().for_each(|byte| builder.literal(*byte));
            builder.length(sequence.length);
            let Alignment { source, shift } = sequence.alignment;
            builder.distance(if source == Source::ITSELF { 0 } else { references.slot(source) }, -shift as u32);
            at = match_at + sequence.length as usize;
        }
        bytes[at..].iter().for_each(|byte| builder.literal(*byte));
        let steps = builder.steps;
        let distance_bits = |step: &Step| if step.slot == NO_SLOT { 0 } else { DISTANCE_BITS_MAX };
        let bits: u32 = steps.iter().map(|step| u32::from(step.bits_count) + distance_bits(step)).sum();
        let steps_bytes_max = bits as usize / 8 + 1;
        let own = own.map(|own| {
            let end = own.literals.of(END_OF_BLOCK as u16);
            Box::new(DynamicBlock { distances: own.distances, end })
        });
        Self { steps, steps_bytes_max, references, own }
    }

    /// The bodies that a connection has to have.
    #[inline]
    pub fn references(&self) -> &References {
        &self.references
    }

    /// Appends the message: head, body, and what follows it.
    #[inline]
    pub fn write(&self, decoder: &mut DeflateDecoder, offsets: &Offsets, head: &Head, tail: &[u8], out: &mut Vec<u8>) {
        decoder.begin(out);
        let bytes_max = self.steps_bytes_max + head.literals().len() * 2 + tail.len() * 2 + AROUND_BYTES_MAX;
        bits::append(out, bytes_max, |writer| {
            // Codes of its own begin a block of their own, behind that of the head.
            if self.own.is_none() || head.len() > 0 {
                let mut few = SmallBits::from(FIXED_BLOCK);
                put_head(head, &mut few, writer);
                if self.own.is_some() {
                    writer.gather(&mut few, FIXED_END);
                }
                writer.put_small(few);
            }
            let mut few = SmallBits::default();
            match &self.own {
                None => self.put_steps(offsets, code::distance, writer),
                Some(own) => {
                    self.put_steps(offsets, |distance| own.distances.distance(distance), writer);
                    few = SmallBits::from(own.end);
                    if !tail.is_empty() {
                        writer.gather(&mut few, FIXED_BLOCK);
                    }
                }
            }
            put_literals(tail, &mut few, writer);
            if self.own.is_none() || !tail.is_empty() {
                writer.gather(&mut few, FIXED_END);
            }
            writer.put_small(few);
            decoder.end(writer);
        });
    }

    #[inline]
    fn put_steps(&self, offsets: &Offsets, code: impl Fn(u32) -> (u64, u32), writer: &mut BitWriter<'_>) {
        // The compiler keeps a local writer in registers.
        let mut put = std::mem::take(writer);
        for step in &self.steps {
            let mut few = SmallBits::from((step.bits, step.bits_count.into()));
            if step.slot != NO_SLOT {
                put.gather(&mut few, code(offsets.of(step.slot).wrapping_add(step.addend)));
            }
            put.put_small(few);
        }
        *writer = put;
    }
}

/// In the fixed code.
#[inline]
fn put_head(head: &Head, few: &mut SmallBits, writer: &mut BitWriter<'_>) {
    let mut literals = head.literals();
    for copy in head.copies() {
        let (run, rest) = literals.split_at(copy.run as usize);
        put_literals(run, few, writer);
        writer.gather(few, code::match_length(copy.length));
        writer.gather(few, code::distance(copy.distance));
        literals = rest;
    }
    put_literals(literals, few, writer);
}

#[inline]
fn put_literals(literals: &[u8], few: &mut SmallBits, writer: &mut BitWriter<'_>) {
    literals.iter().for_each(|byte| writer.gather(few, code::literal(*byte)));
}
