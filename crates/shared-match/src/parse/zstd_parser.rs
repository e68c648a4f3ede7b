//! Optimal parser for zstd: cheapest path by price, in which each of the last three offsets is nearly free to repeat.
//!
//! Method      one forward pass over positions, each keeping its cheapest arrival with that arrival's repeats; a repeat
//!             is an alignment (source, shift), so it means the same on every connection.

use super::{Alignment, Offset, Past, Sequence, Task};
use crate::{
    parse::prices::ZstdPrices, search::candidates::Candidate, search::compare::equal_bytes, search::source::Source,
};

/// A repeat that long is taken without looking at the ways around it.
const LONG_BYTES: usize = 64;
/// Sources whose bytes are remembered.
const SOURCE_SLOTS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Node {
    price: i32,
    /// Literals since the last match.
    run: u32,
    /// Of the step that led here; 0 for a literal.
    length: u32,
    offset: Offset,
    repeats: [Alignment; 3],
}

impl Node {
    const UNREACHED: Self =
        Self { price: i32::MAX, run: 0, length: 0, offset: Offset::Explicit, repeats: [Alignment::NONE; 3] };
}

/// Price of an explicit offset.
fn explicit_price(prices: &ZstdPrices, candidate: &Candidate) -> i32 {
    let address = if candidate.source.body_id().is_some() { prices.address() } else { 0 };
    prices.offset(candidate.offset + 3) + address
}

/// Bytes of sources that repeats refer to: each position compares up to three.
struct SourceBytes<'a> {
    past: Past<'a>,
    known: [(Source, &'a [u8]); SOURCE_SLOTS],
}

impl<'a> SourceBytes<'a> {
    fn new(past: Past<'a>) -> Self {
        // No lookup uses this source.
        Self { past, known: [(Source::ITSELF, &[]); SOURCE_SLOTS] }
    }

    /// The bytes of a body other than the parsed one; none of one that was evicted.
    #[inline]
    fn get(&mut self, source: Source) -> &'a [u8] {
        let slot = &mut self.known[source.number() % SOURCE_SLOTS];
        if slot.0 != source {
            *slot = (source, self.past.bytes(source).unwrap_or_default());
        }
        slot.1
    }
}

/// Memory for parsing, kept between parses.
#[derive(Debug, Default)]
pub struct ZstdParser {
    nodes: Vec<Node>,
}

/// The repeats after one was used: as value 1, 2 or 3, behind literals or right behind a match.
fn after_repeat(repeats: [Alignment; 3], index: usize) -> [Alignment; 3] {
    match index {
        0 => repeats,
        1 => [repeats[1], repeats[0], repeats[2]],
        _ => [repeats[2], repeats[0], repeats[1]],
    }
}

impl ZstdParser {
    /// The cheapest sequences under `prices` with those candidates of each position that it `may_use`.
    pub fn parse(
        &mut self,
        Task { past, candidates, body, .. }: Task<'_>,
        prices: &ZstdPrices,
        may_use: impl Fn(usize, &Candidate) -> bool,
    ) -> Vec<Sequence> {
        let bytes = past.history.bytes(body);
        self.nodes.clear();
        self.nodes.resize(bytes.len() + 1, Node::UNREACHED);
        self.nodes[0].price = 0;
        let mut sources = SourceBytes::new(past);
        for at in 0..bytes.len() {
            if self.nodes[at].price == i32::MAX {
                continue;
            }
            let end = bytes.len().min(at + prices.match_bytes_max());
            let longest_repeat = self.repeats(&mut sources, prices, bytes, at, end);
            if longest_repeat >= LONG_BYTES {
                continue;
            }
            self.literal(prices, bytes, at);
            let mut shorter = 2.max(longest_repeat);
            for candidate in candidates.at(at) {
                let length = (candidate.length as usize).min(prices.match_bytes_max());
                if length <= shorter || !may_use(at, candidate) {
                    continue;
                }
                let shift = candidate.from as i32 - at as i32;
                let alignment = Alignment { source: candidate.source, shift };
                let offset_price = explicit_price(prices, candidate);
                let lengths = if length > LONG_BYTES { length..=length } else { shorter + 1..=length };
                for length in lengths {
                    self.arrive(prices, at, length, Offset::Explicit, offset_price, alignment, None);
                }
                shorter = length;
            }
        }
        self.sequences(bytes.len())
    }

    fn literal(&mut self, prices: &ZstdPrices, bytes: &[u8], at: usize) {
        let node = self.nodes[at];
        let run = node.run + 1;
        let price = node.price + prices.literal(bytes[at]) + prices.run(run) - prices.run(node.run);
        if price < self.nodes[at + 1].price {
            self.nodes[at + 1] = Node { price, run, length: 0, offset: Offset::Explicit, repeats: node.repeats };
        }
    }

    /// Tries the three last alignments; returns the length of the longest match.
    fn repeats(
        &mut self,
        sources: &mut SourceBytes<'_>,
        prices: &ZstdPrices,
        bytes: &[u8],
        at: usize,
        end: usize,
    ) -> usize {
        let node = self.nodes[at];
        let mut longest = 0;
        // Right behind a match its own alignment would only have made it longer, and the values mean others.
        let first = usize::from(node.run == 0);
        for index in first..node.repeats.len() {
            let alignment = node.repeats[index];
            if alignment == Alignment::NONE {
                break;
            }
            let Ok(from) = usize::try_from(at as i32 + alignment.shift) else { continue };
            let length = if alignment.source == Source::ITSELF {
                // The copied range may overlap the written one.
                equal_bytes(&bytes[at..end], &bytes[from..])
            } else {
                let Some(there) = sources.get(alignment.source).get(from..) else { continue };
                equal_bytes(&bytes[at..end], there)
            };
            if length < 3 || length <= longest {
                continue;
            }
            let value = (index + 1 - first) as u8;
            let (offset, price) = (Offset::Repeat(value), prices.offset(u32::from(value)));
            let lengths = if length >= LONG_BYTES { length..=length } else { 3.max(longest + 1)..=length };
            for length in lengths {
                self.arrive(prices, at, length, offset, price, alignment, Some(index));
            }
            longest = length;
        }
        longest
    }

    #[expect(clippy::too_many_arguments, reason = "one call in each of two loops; a struct would only name them twice")]
    #[inline]
    fn arrive(
        &mut self,
        prices: &ZstdPrices,
        at: usize,
        length: usize,
        offset: Offset,
        offset_price: i32,
        alignment: Alignment,
        repeat: Option<usize>,
    ) {
        let node = self.nodes[at];
        let price = node.price + offset_price + prices.match_length(length) + prices.run(0);
        let target = &mut self.nodes[at + length];
        if price >= target.price {
            return;
        }
        let repeats = match repeat {
            Some(index) => after_repeat(node.repeats, index),
            None => [alignment, node.repeats[0], node.repeats[1]],
        };
        *target = Node { price, run: 0, length: length as u32, offset, repeats };
    }

    /// Walks back from the end.
    fn sequences(&self, length: usize) -> Vec<Sequence> {
        let mut sequences: Vec<Sequence> = Vec::new();
        let mut at = length;
        let mut literals = 0;
        while at > 0 {
            let node = self.nodes[at];
            if node.length == 0 {
                literals += 1;
                at -= 1;
                continue;
            }
            if let Some(later) = sequences.last_mut() {
                later.literals = literals;
            }
            literals = 0;
            at -= node.length as usize;
            // A match makes its alignment the last one.
            let alignment = node.repeats[0];
            sequences.push(Sequence { literals: 0, length: node.length, alignment, offset: node.offset });
        }
        if let Some(first) = sequences.last_mut() {
            first.literals = literals;
        }
        sequences.reverse();
        sequences
    }
}
