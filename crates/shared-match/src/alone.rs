//! Alone: matches inside one message that no other connection gets.
//!
//! Owns        a hash table for it, kept between messages; connections keep none.
//! Method      the newest place with the same seven bytes, and one step of laziness: such messages are large, and are lists of
//!             things that are alike, so what is near is as good as anything.
//! Limits      two places per position; messages of any length, of which the last `reach` bytes can be referred to, and only the
//!             first `PLACES_MAX` be found.

use crate::places::{eight, equal_bytes};

const HASH_LOG_MAX: u32 = 15;
const HASH_LOG_MIN: u32 = 6;
const FOUND_BYTES_MIN: usize = 4;
const LONG_BYTES: usize = 8;
/// A match that long needs no better one.
const GOOD_BYTES: usize = 40;
/// A match that long is taken without a look at the one after it.
const PATIENT_BYTES: usize = 8;
/// What stands in front of the message is far, so a match there has to be so much longer.
const FAR_IS_WORTH_BYTES: usize = 2;
/// Of a match, so many places at its beginning and at its end can be found later.
const LINKED_BYTES: usize = 2;

/// Places that can be found, of which an entry of the table holds the number.
const PLACES_MAX: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 24;

/// Where in the table the bytes at a position belong, and what tells them from most others that belong there: a look at these
/// would cost more.
#[derive(Clone, Copy)]
struct Key {
    slot: usize,
    /// Never 0.
    tag: u32,
}

impl Key {
    #[inline]
    fn of(eight: u64, hash_log: u32) -> Self {
        let mixed = (eight << 8).wrapping_mul(0x9E37_79B1_85EB_CA87);
        let tag = (mixed >> (64 - HASH_LOG_MAX - 8)) as u32 | 0x80;
        Self { slot: (mixed >> (64 - hash_log)) as usize, tag: tag << PLACE_BITS }
    }

    #[inline]
    fn entry(self, at: usize) -> u32 {
        self.tag | at as u32
    }

    /// The place that an entry holds, if its bytes are probably those of the key.
    #[inline]
    fn place(self, entry: u32) -> Option<usize> {
        let place = entry ^ self.tag;
        (place < PLACES_MAX as u32).then_some(place as usize)
    }
}

/// Literals, then bytes from `distance` before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    pub literals: u32,
    pub length: u32,
    pub distance: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Alone {
    /// The newest place, by the hash of its first seven bytes; 0 for none.
    places: Vec<u32>,
    hash_log: u32,
    copies: Vec<Copy>,
}

/// A match at some position: how long, and from how far.
#[derive(Clone, Copy, Default)]
pub struct Match {
    pub length: usize,
    pub distance: usize,
}

/// What stands in front of a message and may be referred to.
pub trait Before {
    /// What is best for `wanted`, which stands at `at` in the message.
    fn longest(&self, wanted: &[u8], at: usize) -> Match;
}

/// Nothing may be referred to but the message itself.
struct Nothing;

impl Before for Nothing {
    #[inline]
    fn longest(&self, _: &[u8], _: usize) -> Match {
        Match::default()
    }
}

/// One message that is looked through.
#[derive(Clone, Copy)]
struct Looked<'a> {
    message: &'a [u8],
    length_max: usize,
    reach: usize,
}

impl Looked<'_> {
    /// How much repeats what stands at `from`, where `eight` stand at `at`.
    #[inline]
    fn match_at(&self, at: usize, eight: u64, from: usize) -> Match {
        let distance = at - from;
        let Some(there) = self.eight(from).filter(|_| distance <= self.reach) else { return Match::default() };
        let differing = eight ^ there;
        if differing != 0 {
            return Match { length: differing.trailing_zeros() as usize / 8, distance };
        }
        let end = self.message.len().min(at + self.length_max);
        let wanted = self.message.get(at + LONG_BYTES..end).unwrap_or_default();
        Match { length: LONG_BYTES + equal_bytes(wanted, &self.message[from + LONG_BYTES..]), distance }
    }

    /// What a match at a position may equal.
    #[inline]
    fn wanted(&self, at: usize) -> &[u8] {
        &self.message[at..self.message.len().min(at + self.length_max)]
    }

    #[inline]
    fn eight(&self, at: usize) -> Option<u64> {
        eight(self.message, at)
    }
}

impl Alone {
    /// Finds what repeats in `message` itself: see `find_behind`.
    pub fn find(&mut self, message: &[u8], length_max: usize, reach: usize) -> &[Copy] {
        self.find_behind(&Nothing, message, length_max, reach)
    }

    /// Finds what repeats in `message`: no match is longer than `length_max` or reaches back more than `reach`. Bytes
    /// behind the last copy are literals.
    pub fn find_behind(&mut self, before: &impl Before, message: &[u8], length_max: usize, reach: usize) -> &[Copy] {
        // Clearing the table costs no more than reading the message.
        self.hash_log = message.len().max(1).ilog2().clamp(HASH_LOG_MIN, HASH_LOG_MAX);
        self.places.clear();
        self.places.resize(1 << self.hash_log, 0);
        self.copies.clear();
        let looked = Looked { message, length_max, reach };
        let (mut at, mut run_from) = (0, 0);
        while let Some(mut best) = self.longest(before, &looked, at) {
            if best.length == 0 {
                at += 1;
                continue;
            }
            if best.length < PATIENT_BYTES
                && let Some(next) = self.longest(before, &looked, at + 1)
                && next.length > best.length + 1
            {
                best = next;
                at += 1;
            }
            let (literals, length, distance) = (at - run_from, best.length, best.distance);
            self.copies.push(Copy { literals: literals as u32, length: length as u32, distance: distance as u32 });
            self.link(&looked, at + 1, at + length);
            at += length;
            run_from = at;
        }
        &self.copies
    }

    /// Makes the places of a match findable.
    fn link(&mut self, looked: &Looked<'_>, from: usize, to: usize) {
        let begin_end = to.min(from + LINKED_BYTES);
        for at in (from..begin_end).chain(begin_end.max(to.saturating_sub(LINKED_BYTES))..to) {
            let Some(eight) = looked.eight(at) else { break };
            self.replace(eight, at);
        }
    }

    /// Makes a position findable, and says where its bytes probably stood last.
    #[inline]
    fn replace(&mut self, eight: u64, at: usize) -> Option<usize> {
        let key = Key::of(eight, self.hash_log);
        let entry = &mut self.places[key.slot];
        let newest = key.place(*entry);
        if at < PLACES_MAX {
            *entry = key.entry(at);
        }
        newest
    }

    /// The best match at a position, of length 0 if there is none; makes the position findable. None where the message ends.
    #[inline(always)]
    fn longest(&mut self, before: &impl Before, looked: &Looked<'_>, at: usize) -> Option<Match> {
        let eight = looked.eight(at)?;
        let mut best = self.replace(eight, at).map_or(Match::default(), |from| looked.match_at(at, eight, from));
        if best.length < GOOD_BYTES {
            let found = before.longest(looked.wanted(at), at);
            if found.length > best.length + FAR_IS_WORTH_BYTES {
                best = found;
            }
        }
        if best.length < FOUND_BYTES_MIN { Some(Match::default()) } else { Some(best) }
    }

    /// Heap it holds.
    pub fn heap_bytes(&self) -> usize {
        4 * self.places.len() + self.copies.capacity() * size_of::<Copy>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_may_be_longer_than_what_the_table_can_name() {
        let mut message: Vec<u8> = (0..PLACES_MAX + 100_000).map(|at| (at % 251) as u8).collect();
        message[PLACES_MAX..].iter_mut().for_each(|byte| *byte ^= 0x80);
        let mut alone = Alone::default();
        let copies = alone.find(&message, 32 << 10, 1 << 21);
        let mut rebuilt: Vec<u8> = Vec::with_capacity(message.len());
        for copy in copies {
            rebuilt.extend_from_slice(&message[rebuilt.len()..rebuilt.len() + copy.literals as usize]);
            let from = rebuilt.len() - copy.distance as usize;
            (from..from + copy.length as usize).for_each(|at| rebuilt.push(rebuilt[at]));
        }
        assert!(rebuilt == message[..rebuilt.len()] && message.len() - rebuilt.len() < 101_000, "{}", rebuilt.len());
    }
}
