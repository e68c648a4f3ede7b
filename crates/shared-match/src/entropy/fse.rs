//! FSE: the table-driven entropy coder of zstd's sequences and Huffman weights.
//!
//! Spec  RFC 8878 §4.1 (tables, descriptions); the state machine is J. Duda's tANS as Zstandard defines it.

use crate::entropy::bits::{self, BitBuffer, SmallBits};

/// State transition of a symbol.
#[derive(Clone, Copy, Debug, Default)]
struct Transition {
    /// `(state + bits_base) >> 16` is how many bits leave.
    bits_base: u32,
    /// Added to what is left of the state to find the next one.
    state_base: i32,
}

/// Largest accuracy log: that of the format's match and literal lengths.
const LOG_MAX: u32 = 9;
const STATES_MAX: usize = 1 << LOG_MAX;
/// More symbols than any alphabet of the format has: a power of two.
const SYMBOLS_MAX: usize = 64;

/// An encoder's table for one alphabet.
#[derive(Clone, Debug)]
pub struct FseTable {
    log: u32,
    // Of fixed sizes, for an index then needs no check.
    states: [u16; STATES_MAX],
    symbols: [Transition; SYMBOLS_MAX],
    counts: Vec<i16>,
}

/// A running encoder: states are `size..2 * size`.
#[derive(Clone, Copy, Debug)]
pub struct FseState(u32);

impl FseTable {
    /// The table of normalised `counts` (they sum to `2^log`; −1 means "less than one").
    ///
    /// # Panics
    /// If they do not, or are more than the format has.
    pub fn new(counts: &[i16], log: u32) -> Self {
        assert!(log <= LOG_MAX && counts.len() <= SYMBOLS_MAX, "{} symbols, 2^{log} states", counts.len());
        let size = 1usize << log;
        assert_eq!(
            counts.iter().map(|count| count.unsigned_abs() as usize).sum::<usize>(),
            size,
            "counts fill the table"
        );
        let spread = spread(counts, size);
        let mut next = Vec::with_capacity(counts.len());
        let mut sum = 0usize;
        for count in counts {
            next.push(sum);
            sum += usize::from(count.unsigned_abs());
        }
        let mut states = [0; STATES_MAX];
        for (state, symbol) in spread.iter().enumerate() {
            let slot = &mut next[usize::from(*symbol)];
            states[*slot] = (size + state) as u16;
            *slot += 1;
        }
        let mut total = 0i32;
        let mut symbols = [Transition::default(); SYMBOLS_MAX];
        for (transition, count) in symbols.iter_mut().zip(counts) {
            let count = i32::from(count.unsigned_abs());
            *transition = match count {
                0 => Transition { bits_base: ((log + 1) << 16) - (1 << log), state_base: 0 },
                1 => Transition { bits_base: (log << 16).wrapping_sub(1 << log), state_base: total - 1 },
                _ => {
                    let bits = log - (count - 1).ilog2();
                    let min_state = (count as u32) << bits;
                    Transition { bits_base: (bits << 16).wrapping_sub(min_state), state_base: total - count }
                }
            };
            total += count;
        }
        Self { log, states, symbols, counts: counts.to_vec() }
    }

    /// Accuracy log.
    pub fn log(&self) -> u32 {
        self.log
    }

    /// The normalised counts it was made from.
    pub fn counts(&self) -> &[i16] {
        &self.counts
    }

    /// The state in which a decoder ends that reads `symbol` last: coding starts here.
    #[inline]
    pub fn start(&self, symbol: u8) -> FseState {
        let transition = self.transition(symbol);
        let bits = transition.bits_base.wrapping_add(1 << 15) >> 16;
        let value = (bits << 16).wrapping_sub(transition.bits_base);
        self.at((value >> bits) as i32 + transition.state_base)
    }

    /// Transition of a symbol that has a code.
    #[inline]
    fn transition(&self, symbol: u8) -> Transition {
        debug_assert!(usize::from(symbol) < self.counts.len(), "symbol {symbol}");
        self.symbols[usize::from(symbol) % SYMBOLS_MAX]
    }

    #[inline]
    fn at(&self, index: i32) -> FseState {
        FseState(u32::from(self.states[index as usize % STATES_MAX]))
    }

    /// Codes `symbol`: the bits that leave and how many.
    #[inline]
    pub fn code(&self, state: &mut FseState, symbol: u8) -> (u64, u32) {
        let transition = self.transition(symbol);
        let bits = state.0.wrapping_add(transition.bits_base) >> 16;
        let staying = state.0 >> bits;
        let leaving = state.0 ^ (staying << bits);
        *state = self.at(staying as i32 + transition.state_base);
        (u64::from(leaving), bits)
    }

    /// The final state, which the decoder reads first.
    #[inline]
    pub fn end(&self, state: FseState) -> (u64, u32) {
        (u64::from(state.0) & ((1 << self.log) - 1), self.log)
    }

    /// Price of a symbol in 1/256 bits; for a symbol without a code, more than any other.
    pub fn price(&self, symbol: u8) -> u32 {
        match self.counts.get(usize::from(symbol)) {
            None | Some(0) => 30 << 8,
            Some(count) => {
                let share = f64::from(count.unsigned_abs()) / f64::from(1u32 << self.log);
                (-share.log2() * 256.0).round() as u32
            }
        }
    }

    /// Appends the description from which a decoder builds its table (RFC 8878 §4.1.1).
    pub fn describe(&self, out: &mut Vec<u8>) {
        let mut bits = BitBuffer::default();
        bits.put(u64::from(self.log - 5), 4);
        let mut remaining = (1i32 << self.log) + 1;
        let mut threshold = 1i32 << self.log;
        let mut width = self.log + 1;
        let mut symbol = 0;
        let mut after_zero = false;
        while symbol < self.counts.len() && remaining > 1 {
            if after_zero {
                let start = symbol;
                while self.counts[symbol] == 0 {
                    symbol += 1;
                }
                for _ in 0..(symbol - start) / 3 {
                    bits.put(3, 2);
                }
                bits.put((symbol - start) as u64 % 3, 2);
            }
            let count = i32::from(self.counts[symbol]);
            symbol += 1;
            let short_max = 2 * threshold - 1 - remaining;
            remaining -= count.abs();
            let mut coded = count + 1;
            if coded >= threshold {
                coded += short_max;
            }
            bits.put(coded as u64, width - u32::from(coded < short_max));
            after_zero = count == 0;
            while remaining < threshold && width > 0 {
                width -= 1;
                threshold >>= 1;
            }
        }
        out.extend_from_slice(bits.run().bytes);
    }
}

/// Which symbol each state decodes to.
fn spread(counts: &[i16], size: usize) -> Vec<u8> {
    let mut symbols = vec![0u8; size];
    let mut free = size;
    for (symbol, _) in counts.iter().enumerate().filter(|(_, count)| **count == -1) {
        free -= 1;
        symbols[free] = symbol as u8;
    }
    let (step, mask) = ((size >> 1) + (size >> 3) + 3, size - 1);
    let mut at = 0;
    for (symbol, count) in counts.iter().enumerate() {
        for _ in 0..(*count).max(0) {
            symbols[at] = symbol as u8;
            at = (at + step) & mask;
            while at >= free && free > 0 {
                at = (at + step) & mask;
            }
        }
    }
    symbols
}

/// Scales `counts` to sum to `2^log`, each that is not zero at least one.
///
/// # Panics
/// If there are more of these than the table has states, or none.
pub fn normalise(counts: &[u64], log: u32) -> Vec<i16> {
    let size = 1i64 << log;
    let total: u64 = counts.iter().sum();
    let used = counts.iter().filter(|count| **count > 0).count() as i64;
    assert!(total > 0 && used <= size, "{used} symbols for {size} states");
    let scaled = |count: u64| (count as f64 * size as f64 / total as f64).round() as i64;
    let mut normal: Vec<i64> = counts.iter().map(|count| if *count == 0 { 0 } else { scaled(*count).max(1) }).collect();
    let mut surplus = normal.iter().sum::<i64>() - size;
    while surplus != 0 {
        // Where one state more or less changes the least: the largest.
        let largest = (0..normal.len()).max_by_key(|symbol| normal[*symbol]).expect("some are used");
        let step = if surplus > 0 { surplus.min((normal[largest] / 4).max(1)) } else { surplus };
        normal[largest] -= step;
        surplus -= step;
    }
    normal.into_iter().map(|count| count as i16).collect()
}

/// Appends `symbols` coded with two interleaved states, as Huffman weights are (RFC 8878 §4.2.1.2).
pub fn code_interleaved(table: &FseTable, symbols: &[u8], out: &mut Vec<u8>) {
    bits::append(out, symbols.len() * 2 + 8, |writer| {
        let mut states: [Option<FseState>; 2] = [None; 2];
        for (index, symbol) in symbols.iter().enumerate().rev() {
            match &mut states[index % 2] {
                Some(state) => {
                    let (value, bits) = table.code(state, *symbol);
                    writer.put(value, bits);
                }
                empty => *empty = Some(table.start(*symbol)),
            }
        }
        for state in states.iter().rev().flatten() {
            let (value, bits) = table.end(*state);
            writer.put(value, bits);
        }
        writer.put_mark(SmallBits::default());
    });
}
