//! Huffman: the code of zstd's literals.
//!
//! Spec  RFC 8878 §4.2. Lengths are limited by package-merge (Larmore and Hirschberg, 1990).

use crate::{
    bits::{BitBuffer, BitWriter},
    fse::{FseTable, code_interleaved, normalise},
};

/// Longest code that zstd's literals may have.
pub const CODE_BITS_MAX: u32 = 11;
/// Longest description: one byte for its kind and what that can count.
pub const DESCRIPTION_BYTES_MAX: usize = 128;
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
        Self::with_lengths(limited_lengths(counts, CODE_BITS_MAX)?.try_into().ok()?)
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

    /// All lengths.
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
        let mut writer = BitWriter::new(out, literals.len() * 2 + 2);
        for byte in literals.iter().rev() {
            let (code, bits) = self.code(*byte);
            writer.put(code, bits);
        }
        writer.finish_with_mark();
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

/// Lengths of the best code for symbols that occur so often, none longer than `bits_max`; 0 where one does not occur.
///
/// Gives none for fewer than two symbols, which need no code, and for more than fit.
pub fn limited_lengths(counts: &[u64], bits_max: u32) -> Option<Vec<u8>> {
    let mut leaves: Vec<(u64, usize)> =
        counts.iter().enumerate().map(|(symbol, count)| (*count, symbol)).filter(|(count, _)| *count > 0).collect();
    if leaves.len() < 2 || leaves.len() > 1 << bits_max {
        return None;
    }
    leaves.sort_unstable();
    let mut lengths = vec![0u8; counts.len()];
    // Each item is a set of leaves; what is chosen at last lengthens each of its leaves by one bit.
    let mut items: Vec<(u64, Vec<usize>)> = Vec::new();
    for _ in 0..bits_max {
        let packages =
            items.chunks_exact(2).map(|pair| (pair[0].0 + pair[1].0, [pair[0].1.as_slice(), &pair[1].1].concat()));
        let mut merged: Vec<_> = packages.collect();
        merged.extend(leaves.iter().map(|(count, symbol)| (*count, vec![*symbol])));
        merged.sort_by_key(|item| item.0);
        items = merged;
    }
    for (_, symbols) in &items[..2 * leaves.len() - 2] {
        symbols.iter().for_each(|symbol| lengths[*symbol] += 1);
    }
    Some(lengths)
}
