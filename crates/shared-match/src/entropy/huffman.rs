//! Huffman: the code of zstd's literals.
//!
//! Spec  RFC 8878 §4.2. Lengths are limited by package-merge (Larmore and Hirschberg, 1990).

use crate::{
    entropy::bits::{self, BitBuffer, PUT_BITS_MAX},
    entropy::fse::{FseTable, code_interleaved, normalise},
};

/// Longest code that zstd's literals may have.
pub const CODE_BITS_MAX: u32 = 11;
/// Longest description: one byte for its kind and what that can count.
pub const DESCRIPTION_BYTES_MAX: usize = 128;
const CODES_PUT_AT_ONCE: usize = (PUT_BITS_MAX / CODE_BITS_MAX) as usize;
/// Accuracy of the table that codes the weights.
const WEIGHTS_LOG: u32 = 6;

/// A code for bytes.
#[derive(Clone, Debug)]
pub struct Huffman {
    codes: [u16; 256],
    lengths: [u8; 256],
}

impl Huffman {
    /// The best code for bytes that occur this often; bytes that do not occur have none.
    ///
    /// Gives none for fewer than two different bytes: such literals are better repeated.
    pub fn for_counts(counts: &[u64; 256]) -> Option<Self> {
        Self::with_lengths(limited_lengths(counts, CODE_BITS_MAX)?)
    }

    /// The code with these lengths; none unless they are a complete code within the limit.
    pub fn with_lengths(lengths: [u8; 256]) -> Option<Self> {
        let room: u32 = lengths.iter().filter(|length| **length > 0).map(|l| 1 << CODE_BITS_MAX >> l).sum();
        if room != 1 << CODE_BITS_MAX || lengths.iter().any(|length| u32::from(*length) > CODE_BITS_MAX) {
            return None;
        }
        // The longest codes are the smallest; among equals the order is that of the bytes.
        let mut next = [0u16; CODE_BITS_MAX as usize + 2];
        let mut smallest = 0u16;
        for length in (1..=CODE_BITS_MAX as usize).rev() {
            next[length] = smallest;
            let used = lengths.iter().filter(|l| usize::from(**l) == length).count() as u16;
            smallest = (smallest + used) >> 1;
        }
        let mut codes = [0u16; 256];
        for (code, length) in codes.iter_mut().zip(&lengths).filter(|(_, length)| **length > 0) {
            *code = next[usize::from(*length)];
            next[usize::from(*length)] += 1;
        }
        Some(Self { codes, lengths })
    }

    /// Bits of a byte's code; 0 when it has none.
    #[inline]
    pub fn length(&self, byte: u8) -> u32 {
        u32::from(self.lengths[usize::from(byte)])
    }

    /// Lengths of all symbols.
    pub fn lengths(&self) -> &[u8; 256] {
        &self.lengths
    }

    /// A byte's code.
    #[inline]
    pub fn code(&self, byte: u8) -> (u64, u32) {
        (u64::from(self.codes[usize::from(byte)]), self.length(byte))
    }

    /// Bits that `literals` take; none if one of them has no code.
    pub fn bits_of(&self, literals: &[u8]) -> Option<usize> {
        literals.iter().try_fold(0, |sum, byte| match self.length(*byte) {
            0 => None,
            bits => Some(sum + bits as usize),
        })
    }

    /// Appends one stream of `literals`, which must be covered: it is read from its end, so the last byte comes first.
    pub fn code_stream(&self, literals: &[u8], out: &mut Vec<u8>) {
        bits::append(out, literals.len() * 2 + 2, |writer| {
            let (first, fives) = literals.as_rchunks::<CODES_PUT_AT_ONCE>();
            for five in fives.iter().rev() {
                writer.put_small(five.iter().rev().map(|byte| self.code(*byte)).collect());
            }
            writer.put_mark(first.iter().rev().map(|byte| self.code(*byte)).collect());
        });
    }

    /// The bits of `literals`, to be put behind others.
    pub fn bits(&self, literals: &[u8]) -> BitBuffer {
        let mut buffer = BitBuffer::default();
        for byte in literals.iter().rev() {
            let (code, bits) = self.code(*byte);
            buffer.put(code, bits);
        }
        buffer
    }

    /// Appends the description of the code; false, and nothing is appended, if it has none that the format can hold.
    pub fn describe(&self, out: &mut Vec<u8>) -> bool {
        let longest = *self.lengths.iter().max().expect("there are 256");
        let last = self.lengths.iter().rposition(|length| *length > 0).expect("a code has two bytes");
        let weights: Vec<u8> =
            self.lengths[..last].iter().map(|length| if *length == 0 { 0 } else { longest + 1 - length }).collect();
        let start = out.len();
        if describe_compressed(&weights, out) && (weights.len() > 128 || out.len() - start <= weights.len() / 2 + 1) {
            return true;
        }
        out.truncate(start);
        if weights.len() > 128 {
            return false;
        }
        out.push(127 + weights.len() as u8);
        out.extend(weights.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).unwrap_or(&0)));
        true
    }
}

fn describe_compressed(weights: &[u8], out: &mut Vec<u8>) -> bool {
    let mut counts = [0u64; CODE_BITS_MAX as usize + 2];
    weights.iter().for_each(|weight| counts[usize::from(*weight)] += 1);
    let used = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    if weights.len() < 2 || counts.iter().filter(|count| **count > 0).count() < 2 {
        return false;
    }
    let table = FseTable::new(&normalise(&counts[..used], WEIGHTS_LOG), WEIGHTS_LOG);
    let start = out.len();
    out.push(0);
    table.describe(out);
    code_interleaved(&table, weights, out);
    let bytes = out.len() - start - 1;
    if bytes >= DESCRIPTION_BYTES_MAX {
        return false;
    }
    out[start] = bytes as u8;
    true
}

/// Symbols that a code may have at most.
const SYMBOLS_MAX: usize = 288;
const NODES_MAX: usize = 2 * SYMBOLS_MAX;

/// How often a symbol occurs, in front of the symbol: in the order in which a code is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Leaf(u64);

impl Leaf {
    const SYMBOL_BITS: u32 = 16;

    fn new(symbol: usize, count: u64) -> Self {
        Self(count << Self::SYMBOL_BITS | symbol as u64)
    }

    #[inline]
    fn count(self) -> u64 {
        self.0 >> Self::SYMBOL_BITS
    }

    #[inline]
    fn symbol(self) -> usize {
        self.0 as usize % (1 << Self::SYMBOL_BITS)
    }
}

/// Lengths of the best code for symbols that occur so often, none longer than `bits_max`; 0 where one does not occur.
///
/// Gives none for fewer than two symbols, which need no code, and for more than fit.
pub fn limited_lengths<const N: usize>(counts: &[u64; N], bits_max: u32) -> Option<[u8; N]> {
    const { assert!(N <= SYMBOLS_MAX) };
    let mut all = [Leaf::default(); N];
    let mut used = 0;
    for (symbol, count) in counts.iter().enumerate() {
        // The next one is written over one that does not occur.
        all[used] = Leaf::new(symbol, *count);
        used += usize::from(*count > 0);
    }
    let leaves = &mut all[..used];
    if leaves.len() < 2 || leaves.len() > 1 << bits_max {
        return None;
    }
    leaves.sort_unstable();
    let mut lengths = [0; N];
    if !unlimited_lengths(leaves, bits_max, &mut lengths) {
        merged_lengths(leaves, bits_max, &mut lengths);
    }
    Some(lengths)
}

/// The lengths of Huffman's own code, if none is longer than `bits_max`: nearly always, and much faster. Else false.
fn unlimited_lengths(leaves: &[Leaf], bits_max: u32, lengths: &mut [u8]) -> bool {
    // Nodes in order of their count: the leaves, then what was joined, which comes out in that order, too.
    let count = leaves.len();
    let mut joined = [0u64; SYMBOLS_MAX];
    let mut parents = [0u16; NODES_MAX];
    let (mut leaf, mut node) = (0, 0);
    for join in 0..count - 1 {
        let mut sum = 0;
        for _ in 0..2 {
            let is_leaf = leaf < count && (node == join || leaves[leaf].count() <= joined[node]);
            let (least, next) = if is_leaf { (leaf, &mut leaf) } else { (count + node, &mut node) };
            sum += if is_leaf { leaves[least].count() } else { joined[least - count] };
            parents[least] = (count + join) as u16;
            *next += 1;
        }
        joined[join] = sum;
    }
    let mut depths = [0u32; NODES_MAX];
    for node in (0..2 * count - 2).rev() {
        depths[node] = depths[usize::from(parents[node])] + 1;
    }
    // The rarest are the deepest.
    if depths[0] > bits_max {
        return false;
    }
    leaves.iter().zip(depths).for_each(|(leaf, depth)| lengths[leaf.symbol()] = depth as u8);
    true
}

/// A leaf, or two items of the level before.
#[derive(Clone, Copy)]
struct Item {
    count: u64,
    is_package: bool,
}

/// Of package-merge: one list of items per bit, cheapest first. Their leaves are the rarest, so they are not kept.
fn merged_levels(leaves: &[Leaf], bits_max: u32) -> Vec<Vec<Item>> {
    let mut levels: Vec<Vec<Item>> = Vec::with_capacity(bits_max as usize);
    for _ in 0..bits_max {
        let before = levels.last().map_or(&[][..], Vec::as_slice);
        let mut packages = before.chunks_exact(2).map(|pair| pair[0].count + pair[1].count).peekable();
        let mut level = Vec::with_capacity(leaves.len() * 2);
        for count in leaves.iter().map(|leaf| leaf.count()) {
            while let Some(package) = packages.next_if(|package| *package <= count) {
                level.push(Item { count: package, is_package: true });
            }
            level.push(Item { count, is_package: false });
        }
        level.extend(packages.map(|count| Item { count, is_package: true }));
        levels.push(level);
    }
    levels
}

/// By package-merge.
fn merged_lengths(leaves: &[Leaf], bits_max: u32, lengths: &mut [u8]) {
    let levels = merged_levels(leaves, bits_max);
    // A level selects its cheapest items: leaves, each of which gets one bit longer, and packages, each of which
    // represents two items of the previous level.
    let mut chosen = 2 * leaves.len() - 2;
    for level in levels.iter().rev() {
        let packages = level[..chosen].iter().filter(|item| item.is_package).count();
        leaves[..chosen - packages].iter().for_each(|leaf| lengths[leaf.symbol()] += 1);
        chosen = 2 * packages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::Rng;

    #[test]
    fn both_ways_to_a_code_are_complete_and_cost_the_same() {
        let mut rng = Rng::new(1);
        let mut unlimited = 0;
        for round in 0..2_000 {
            let symbols = 2 + rng.below(SYMBOLS_MAX as u64 - 1) as usize;
            let steepness = rng.below(20);
            let mut counts = [0; SYMBOLS_MAX];
            for count in &mut counts[..symbols] {
                *count = match rng.below(5) {
                    0 => 0,
                    _ => 1 + ((rng.next_u64() % (1 << steepness)) >> rng.below(steepness + 1)),
                };
            }
            let bits_max = [9, 11, 15][round % 3];
            let Some(lengths) = limited_lengths(&counts, bits_max) else { continue };
            let room: f64 =
                lengths.iter().filter(|length| **length > 0).map(|length| 0.5f64.powi((*length).into())).sum();
            assert_eq!(room, 1.0, "{counts:?}");
            assert!(lengths.iter().zip(&counts).all(|(length, count)| (*length > 0) == (*count > 0)));
            assert!(lengths.iter().all(|length| u32::from(*length) <= bits_max));
            let mut leaves: Vec<Leaf> = counts
                .iter()
                .zip(0..)
                .filter(|(count, _)| **count > 0)
                .map(|(c, symbol)| Leaf::new(symbol, *c))
                .collect();
            leaves.sort_unstable();
            let mut merged = [0; SYMBOLS_MAX];
            merged_lengths(&leaves, bits_max, &mut merged);
            let cost = |lengths: &[u8]| -> u64 { counts.iter().zip(lengths).map(|(c, l)| c * u64::from(*l)).sum() };
            assert_eq!(cost(&lengths), cost(&merged), "{counts:?}");
            unlimited += usize::from(unlimited_lengths(&leaves, bits_max, &mut merged));
        }
        assert!((200..1_900).contains(&unlimited), "both are tried: {unlimited}");
    }
}
