//! Alone: matches inside one message that no other connection gets.
//!
//! Owns        the hash chains for it, kept between messages; connections keep none.
//! Method      chains with one step of laziness, as the levels in the middle of the libraries do it.
//! Limits      `LINKS_MAX` places per position; messages of any length, of which the last `reach` bytes can be referred
//!             to.

use crate::history::equal_bytes;

const HASH_LOG_MAX: u32 = 15;
const HASH_LOG_MIN: u32 = 6;
const LINKS_MAX: usize = 24;
const FOUND_BYTES_MIN: usize = 4;
/// A match that long needs no better one.
const GOOD_BYTES: usize = 40;
/// Room that is kept for the next message; what a larger one took is given back.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Literals, then bytes from `distance` before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    pub literals: u32,
    pub length: u32,
    pub distance: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Alone {
    heads: Vec<u32>,
    hash_log: u32,
    before: Vec<u32>,
    copies: Vec<Copy>,
}

impl Default for Alone {
    fn default() -> Self {
        Self { heads: Vec::new(), hash_log: HASH_LOG_MIN, before: Vec::new(), copies: Vec::new() }
    }
}

impl Alone {
    /// Finds what repeats in `message`: no match is longer than `length_max` or reaches back more than `reach`. Bytes
    /// behind the last copy are literals.
    pub fn find(&mut self, message: &[u8], length_max: usize, reach: usize) -> &[Copy] {
        // Clearing the table costs no more than reading the message.
        self.hash_log = message.len().max(1).ilog2().clamp(HASH_LOG_MIN, HASH_LOG_MAX);
        self.heads.clear();
        self.heads.resize(1 << self.hash_log, 0);
        if self.before.capacity() > KEPT_BYTES_MAX {
            self.before = Vec::new();
        }
        self.before.clear();
        self.before.resize(message.len(), 0);
        self.copies.clear();
        let (mut at, mut run, mut linked) = (0, 0, 0);
        let mut last_distance = 0;
        while at + FOUND_BYTES_MIN <= message.len() {
            let (mut length, mut distance) = self.longest(message, at, &mut linked, last_distance, length_max, reach);
            if length == 0 {
                (at, run) = (at + 1, run + 1);
                continue;
            }
            if length < GOOD_BYTES && at + 1 + FOUND_BYTES_MIN <= message.len() {
                let next = self.longest(message, at + 1, &mut linked, last_distance, length_max, reach);
                if next.0 > length + 1 {
                    (length, distance) = next;
                    (at, run) = (at + 1, run + 1);
                }
            }
            self.copies.push(Copy { literals: run, length: length as u32, distance: distance as u32 });
            last_distance = distance;
            (at, run) = (at + length, 0);
        }
        &self.copies
    }

    fn hash(&self, bytes: &[u8]) -> usize {
        let four = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        (four.wrapping_mul(0x9E37_79B1) >> (32 - self.hash_log)) as usize
    }

    fn longest(
        &mut self,
        message: &[u8],
        at: usize,
        linked: &mut usize,
        last_distance: usize,
        length_max: usize,
        reach: usize,
    ) -> (usize, usize) {
        while *linked < at {
            let hash = self.hash(&message[*linked..]);
            let slot = &mut self.heads[hash];
            self.before[*linked] = *slot;
            *linked += 1;
            *slot = *linked as u32;
        }
        let wanted = &message[at..message.len().min(at + length_max)];
        let mut best = (0, 0);
        if last_distance > 0 {
            let length = equal_bytes(wanted, &message[at - last_distance..]);
            if length >= FOUND_BYTES_MIN {
                best = (length, last_distance);
            }
        }
        let mut place = self.heads[self.hash(&message[at..])];
        for _ in 0..LINKS_MAX {
            if place == 0 || at + 1 - place as usize > reach {
                break;
            }
            let from = place as usize - 1;
            let length = equal_bytes(wanted, &message[from..]);
            // Another distance than the last has to be said in full.
            let extra = usize::from(best.1 == last_distance && best.0 > 0) * 2;
            if length >= FOUND_BYTES_MIN && length > best.0 + extra {
                best = (length, at - from);
                if length == wanted.len() {
                    break;
                }
            }
            place = self.before[from];
        }
        best
    }

    /// Heap it holds.
    pub fn heap_bytes(&self) -> usize {
        4 * (self.heads.len() + self.before.capacity()) + self.copies.capacity() * size_of::<Copy>()
    }
}
