//! Near index: positions of bytes in the similar bodies of one parse, and in the parsed part of the body itself.

use crate::history::hash_index::WAYS;

/// Distance between two positions of a similar body that are inserted. The search extends matches backwards.
const SIMILAR_STEP: usize = 3;

/// Index of the similar bodies of one parse, and of the parsed part of the body itself.
///
/// Bodies of all parses follow one another in one space of positions. Entries of earlier parses are below
/// `begin`, so nothing is cleared between parses.
#[derive(Debug)]
pub struct NearIndex {
    table: Box<[[u32; WAYS]; NEAR_SLOTS]>,
    /// How many slots this parse uses, as a power of two.
    log: u32,
    /// Where the bodies of this parse begin, and where the next one will.
    pub begin: u32,
    end: u32,
}

const NEAR_LOG_MAX: u32 = 12;
const NEAR_SLOTS: usize = 1 << NEAR_LOG_MAX;

impl Default for NearIndex {
    fn default() -> Self {
        let table = vec![[0; WAYS]; NEAR_SLOTS].into_boxed_slice().try_into().expect("as many");
        Self { table, log: NEAR_LOG_MAX, begin: 1, end: 1 }
    }
}

impl NearIndex {
    /// Starts another parse, whose bodies have `bytes` bytes in total.
    pub fn start(&mut self, bytes: usize) {
        self.log = bytes.max(1).ilog2().clamp(6, NEAR_LOG_MAX);
        self.begin = self.end;
        if u32::MAX - self.begin <= bytes as u32 {
            self.table.fill([0; WAYS]);
            (self.begin, self.end) = (1, 1);
        }
    }

    /// Reserves places for a body of `bytes` bytes; returns the first.
    pub fn place(&mut self, bytes: usize) -> u32 {
        let begin = self.end;
        self.end += bytes as u32;
        begin
    }

    /// The newest places of four bytes with, probably, this value. Those in front of `begin` are of earlier parses.
    #[inline]
    pub fn look_up(&self, four: u32) -> &[u32; WAYS] {
        &self.table[self.slot(four)]
    }

    #[inline]
    fn slot(&self, four: u32) -> usize {
        (four.wrapping_mul(0x9E37_79B1) >> (32 - self.log)) as usize % NEAR_SLOTS
    }

    /// Makes four bytes findable.
    #[inline]
    pub fn insert(&mut self, four: u32, place: u32) {
        let slot = self.slot(four);
        let slot = &mut self.table[slot];
        *slot = [place, slot[0]];
    }

    /// Makes a body that begins at a place findable.
    pub fn insert_all(&mut self, bytes: &[u8], begin: u32) {
        for at in (0..(bytes.len() + 1).saturating_sub(4)).step_by(SIMILAR_STEP) {
            let four = bytes[at..].first_chunk().expect("four bytes");
            self.insert(u32::from_le_bytes(*four), begin + at as u32);
        }
    }
}
