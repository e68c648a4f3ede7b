//! Tables: the entropy codes that a stream carries once and then repeats.
//!
//! Owns        the codes for literals, literal lengths, offsets and match lengths, trained ahead, one set per encoding.
//! Doors       `Tables::built_in`, or `from_bytes` of what `train` made.
//! Invariants  T1 every length and every offset within the window has a code. T2 `to_bytes` and `from_bytes` agree.
//! Spec        RFC 8878 §3.1.1.3.

use crate::{
    entropy::fse::{FseTable, normalise},
    entropy::huffman::Huffman,
    zstd::codes::{LITERALS_SYMBOLS, MATCH_SYMBOLS, OFFSET_SYMBOLS},
};
use std::sync::OnceLock;

/// First byte of the stored form.
const VERSION: u8 = 1;
const STORED_BYTES: usize = 1 + 3 + 256 + 2 * (LITERALS_SYMBOLS + MATCH_SYMBOLS + OFFSET_SYMBOLS);

/// Accuracy of the trained codes: finer ones cost more to send once, coarser ones a little every time.
const LITERALS_LOG: u32 = 8;
const OFFSETS_LOG: u32 = 8;
const MATCHES_LOG: u32 = 9;

/// Encoding of a message, which determines its byte statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// JSON: the seq precedes the body.
    Json,
    /// ETF: the seq follows the body.
    Etf,
}

/// A set of tables.
#[derive(Clone, Debug)]
pub struct Tables {
    pub(crate) bytes: Huffman,
    pub(crate) literals: FseTable,
    pub(crate) offsets: FseTable,
    pub(crate) matches: FseTable,
    /// Descriptions for a decoder: of the byte table, if possible, and of the sequence tables. Computed once.
    described: OnceLock<(Option<Vec<u8>>, Vec<u8>)>,
}

/// Stored tables that are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TablesError {
    /// Not of this length.
    #[error("trained tables have {STORED_BYTES} bytes, not {0}: train them again")]
    Length(usize),
    /// Made by another version.
    #[error("trained tables of version {0} are not understood, this is version {VERSION}: train them again")]
    Version(u8),
    /// Not a complete code.
    #[error("trained tables hold no complete code: train them again")]
    Incomplete,
}

/// Observed symbol counts, from which tables are built.
#[derive(Clone, Debug)]
pub struct Histogram {
    pub(crate) bytes: [u64; 256],
    pub(crate) literals: [u64; LITERALS_SYMBOLS],
    pub(crate) offsets: [u64; OFFSET_SYMBOLS],
    pub(crate) matches: [u64; MATCH_SYMBOLS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            bytes: [0; 256],
            literals: [0; LITERALS_SYMBOLS],
            offsets: [0; OFFSET_SYMBOLS],
            matches: [0; MATCH_SYMBOLS],
        }
    }
}

impl Histogram {
    /// Tables for what was seen that can also code what was not.
    pub fn tables(&self, form: Form) -> Tables {
        let mut bytes = self.bytes.map(|count| count * 64);
        for (byte, count) in bytes.iter_mut().enumerate() {
            let possible = match form {
                // What UTF-8 text without control characters can hold.
                Form::Json => matches!(byte, 0x20..=0x7E | 0x80..=0xBF | 0xC2..=0xF4),
                Form::Etf => true,
            };
            *count += u64::from(possible);
        }
        let smoothed = |counts: &[u64], log| {
            let counts: Vec<u64> = counts.iter().map(|count| count * 64 + 1).collect();
            FseTable::new(&normalise(&counts, log), log)
        };
        Tables::new(
            Huffman::for_counts(&bytes).expect("more than one byte is possible"),
            smoothed(&self.literals, LITERALS_LOG),
            smoothed(&self.offsets, OFFSETS_LOG),
            smoothed(&self.matches, MATCHES_LOG),
        )
    }
}

impl Tables {
    /// Of these codes.
    pub(crate) fn new(bytes: Huffman, literals: FseTable, offsets: FseTable, matches: FseTable) -> Self {
        Self { bytes, literals, offsets, matches, described: OnceLock::new() }
    }

    fn described(&self) -> &(Option<Vec<u8>>, Vec<u8>) {
        self.described.get_or_init(|| {
            let (mut bytes, mut sequences) = (Vec::new(), Vec::new());
            let has_bytes = self.bytes.describe(&mut bytes);
            for table in [&self.literals, &self.offsets, &self.matches] {
                table.describe(&mut sequences);
            }
            (has_bytes.then_some(bytes), sequences)
        })
    }

    /// The description of the code of literals; none if the format cannot hold it.
    pub(crate) fn described_bytes(&self) -> Option<&[u8]> {
        self.described().0.as_deref()
    }

    /// The descriptions of the codes of sequences, in the order of the format.
    pub(crate) fn described_sequences(&self) -> &[u8] {
        &self.described().1
    }

    /// Bytes of all descriptions.
    #[cold]
    pub(crate) fn described_len(&self) -> usize {
        let (bytes, sequences) = self.described();
        bytes.as_ref().map_or(0, Vec::len) + sequences.len()
    }

    /// The tables that were trained ahead, from the traffic mix that `guildhall-bench codec` measures with.
    pub fn built_in(form: Form) -> Self {
        let stored: &[u8] = match form {
            Form::Json => include_bytes!("../../tables/json.bin"),
            Form::Etf => include_bytes!("../../tables/etf.bin"),
        };
        Self::from_bytes(stored).expect("a test reads the built-in tables")
    }

    /// The stored form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let fse = [&self.literals, &self.offsets, &self.matches];
        let mut out = vec![VERSION];
        out.extend(fse.map(|table| table.log() as u8));
        out.extend(self.bytes.lengths());
        fse.iter().flat_map(|table| table.counts()).for_each(|count| out.extend(count.to_le_bytes()));
        out
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// See [`TablesError`].
    pub fn from_bytes(stored: &[u8]) -> Result<Self, TablesError> {
        let version = *stored.first().ok_or(TablesError::Length(0))?;
        if version != VERSION {
            return Err(TablesError::Version(version));
        }
        if stored.len() != STORED_BYTES {
            return Err(TablesError::Length(stored.len()));
        }
        let lengths: [u8; 256] = stored[4..260].try_into().map_err(|_| TablesError::Incomplete)?;
        let mut counts = stored[260..].chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
        let mut table = |log: u8, symbols: usize, log_max: u8| {
            let counts: Vec<i16> = counts.by_ref().take(symbols).collect();
            let sum: i64 = counts.iter().map(|count| i64::from(count.unsigned_abs())).sum();
            let complete = (5..=log_max).contains(&log)
                && sum == 1 << log
                && counts.iter().all(|count| *count >= -1 && *count != 0);
            complete.then(|| FseTable::new(&counts, u32::from(log))).ok_or(TablesError::Incomplete)
        };
        let bytes = Huffman::with_lengths(lengths).ok_or(TablesError::Incomplete)?;
        let literals = table(stored[1], LITERALS_SYMBOLS, 9)?;
        let offsets = table(stored[2], OFFSET_SYMBOLS, 8)?;
        let matches = table(stored[3], MATCH_SYMBOLS, 9)?;
        Ok(Self::new(bytes, literals, offsets, matches))
    }
}
