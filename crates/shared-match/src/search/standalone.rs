//! Standalone: matches inside one message that no other connection gets.
//!
//! Owns        a hash table for it, kept between messages; connections keep none.
//! Method      the newest place with the same seven bytes, and one step of laziness: such messages are large, and are
//!             lists of similar entries, so the nearest match is as good as any other.
//! Limits      messages of any length, of which the last `reach` bytes can be referred to; only the first `PLACES_MAX`
//!             are looked at.

use crate::search::compare::{eight, equal_bytes};

const HASH_LOG_MAX: u32 = 15;
const SLOTS_MAX: usize = 1 << HASH_LOG_MAX;
const HASH_LOG_MIN: u32 = 6;
const FOUND_BYTES_MIN: usize = 4;
const LONG_BYTES: usize = 8;
/// A match that long needs no better one.
const GOOD_BYTES: usize = 40;
/// A match that long is taken without a look at the one after it.
const PATIENT_BYTES: usize = 8;
/// Bytes in front of the message are far away, so a match there must be longer by this much.
const FAR_IS_WORTH_BYTES: usize = 2;
/// Of a match, this many positions at its start and at its end are added to the table.
const LINKED_BYTES: usize = 2;

/// Places that can be found, of which an entry of the table holds the number.
const PLACES_MAX: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 24;

/// Table slot of the bytes at a position, and a tag that distinguishes them from most others in the slot without
/// reading their bytes.
#[derive(Clone, Copy)]
struct Key {
    slot: usize,
    /// Never 0, which marks an empty slot.
    tag: u32,
}

impl Key {
    #[inline]
    fn of(eight: u64, hash_log: u32) -> Self {
        let mixed = (eight << 8).wrapping_mul(0x9E37_79B1_85EB_CA87);
        let tag = (mixed >> (64 - HASH_LOG_MAX - 8)) as u32 | 0x80;
        Self { slot: (mixed >> (64 - hash_log)) as usize % SLOTS_MAX, tag: tag << PLACE_BITS }
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
pub struct ResolvedSequence {
    pub literals: u32,
    pub length: u32,
    pub distance: u32,
}

/// See the module.
#[derive(Debug)]
pub struct StandaloneMatcher {
    /// The newest place, by the hash of its first seven bytes; 0 for none. A short message uses the first of them only.
    places: Box<[u32; SLOTS_MAX]>,
    hash_log: u32,
    sequences: Vec<ResolvedSequence>,
}

impl Default for StandaloneMatcher {
    fn default() -> Self {
        let places = vec![0; SLOTS_MAX].into_boxed_slice().try_into().expect("as many");
        Self { places, hash_log: HASH_LOG_MIN, sequences: Vec::new() }
    }
}

/// A match at some position: how long, and from how far.
#[derive(Clone, Copy, Default)]
pub struct Match {
    pub length: usize,
    pub distance: usize,
}

/// Bytes before a message to which it may refer.
pub trait Prefix {
    /// Best match for the bytes at `at` of the message.
    fn longest(&self, looked: &SearchedMessage<'_>, at: usize) -> Match;
}

/// Nothing may be referred to but the message itself.
struct Nothing;

impl Prefix for Nothing {
    #[inline]
    fn longest(&self, _: &SearchedMessage<'_>, _: usize) -> Match {
        Match::default()
    }
}

/// One message that is looked through.
#[derive(Clone, Copy)]
pub struct SearchedMessage<'a> {
    message: &'a [u8],
    length_max: usize,
    reach: usize,
    /// The first position that is not looked at.
    end: usize,
}

impl SearchedMessage<'_> {
    /// Match of the bytes at `at`, which begin with `eight`, with those at `from`.
    #[inline]
    fn match_at(&self, at: usize, eight: u64, from: usize) -> Match {
        let distance = at - from;
        if distance > self.reach {
            return Match::default();
        }
        let differing = eight ^ self.eight(from);
        if differing != 0 {
            return Match { length: differing.trailing_zeros() as usize / 8, distance };
        }
        let wanted = self.wanted(at).get(LONG_BYTES..).unwrap_or_default();
        Match { length: LONG_BYTES + equal_bytes(wanted, &self.message[from + LONG_BYTES..]), distance }
    }

    /// Bytes that a match at a position may equal.
    #[inline]
    pub fn wanted(&self, at: usize) -> &[u8] {
        let rest = &self.message[at..];
        &rest[..rest.len().min(self.length_max)]
    }

    /// From a position at which there are as many.
    #[inline]
    fn eight(&self, at: usize) -> u64 {
        eight(self.message, at).expect("the message goes on")
    }
}

impl StandaloneMatcher {
    /// Finds what repeats in `message` itself: see `find_behind`.
    pub fn find(&mut self, message: &[u8], length_max: usize, reach: usize) -> &[ResolvedSequence] {
        self.find_behind(&Nothing, message, length_max, reach)
    }

    /// Finds what repeats in `message`: no match is longer than `length_max` or reaches back more than `reach`. Bytes
    /// behind the last sequence are literals.
    pub fn find_behind(
        &mut self,
        before: &impl Prefix,
        message: &[u8],
        length_max: usize,
        reach: usize,
    ) -> &[ResolvedSequence] {
        // Clearing the table costs no more than reading the message.
        self.hash_log = message.len().max(1).ilog2().clamp(HASH_LOG_MIN, HASH_LOG_MAX);
        self.places[..1 << self.hash_log].fill(0);
        self.sequences.clear();
        let end = (message.len() + 1).saturating_sub(LONG_BYTES).min(PLACES_MAX);
        let looked = SearchedMessage { message, length_max, reach, end };
        let (mut at, mut run_from) = (0, 0);
        while at < end {
            let mut best = self.longest(before, &looked, at);
            if best.length == 0 {
                at += 1;
                continue;
            }
            if best.length < PATIENT_BYTES && at + 1 < end {
                let next = self.longest(before, &looked, at + 1);
                if next.length > best.length + 1 {
                    best = next;
                    at += 1;
                }
            }
            let (literals, length, distance) = (at - run_from, best.length, best.distance);
            self.sequences.push(ResolvedSequence {
                literals: literals as u32,
                length: length as u32,
                distance: distance as u32,
            });
            self.link(&looked, at, at + length);
            at += length;
            run_from = at;
        }
        &self.sequences
    }

    /// Makes the places of a match findable: those behind its first, and the last ones.
    #[inline]
    fn link(&mut self, looked: &SearchedMessage<'_>, first: usize, to: usize) {
        for index in 0..2 * LINKED_BYTES {
            let at = if index < LINKED_BYTES { first + 1 + index } else { to - 2 * LINKED_BYTES + index };
            if at < looked.end {
                self.replace(looked.eight(at), at);
            }
        }
    }

    /// Indexes a position. Returns the previous position with probably the same bytes.
    #[inline]
    fn replace(&mut self, eight: u64, at: usize) -> Option<usize> {
        let key = Key::of(eight, self.hash_log);
        let entry = &mut self.places[key.slot];
        let newest = key.place(*entry);
        *entry = key.entry(at);
        newest
    }

    /// The best match at a position, of length 0 if there is none; makes the position findable.
    #[inline(always)]
    fn longest(&mut self, before: &impl Prefix, looked: &SearchedMessage<'_>, at: usize) -> Match {
        let eight = looked.eight(at);
        let mut best = self.replace(eight, at).map_or(Match::default(), |from| looked.match_at(at, eight, from));
        if best.length < GOOD_BYTES {
            let found = before.longest(looked, at);
            if found.length > best.length + FAR_IS_WORTH_BYTES {
                best = found;
            }
        }
        if best.length < FOUND_BYTES_MIN { Match::default() } else { best }
    }

    /// Heap it holds.
    pub fn heap_bytes(&self) -> usize {
        size_of_val(&*self.places) + self.sequences.capacity() * size_of::<ResolvedSequence>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_may_be_longer_than_what_the_table_can_name() {
        let mut message: Vec<u8> = (0..PLACES_MAX + 100_000).map(|at| (at % 251) as u8).collect();
        message[PLACES_MAX..].iter_mut().for_each(|byte| *byte ^= 0x80);
        let mut alone = StandaloneMatcher::default();
        let sequences = alone.find(&message, 32 << 10, 1 << 21);
        let mut rebuilt: Vec<u8> = Vec::with_capacity(message.len());
        for sequence in sequences {
            rebuilt.extend_from_slice(&message[rebuilt.len()..rebuilt.len() + sequence.literals as usize]);
            let from = rebuilt.len() - sequence.distance as usize;
            (from..from + sequence.length as usize).for_each(|at| rebuilt.push(rebuilt[at]));
        }
        assert!(rebuilt == message[..rebuilt.len()] && message.len() - rebuilt.len() < 101_000, "{}", rebuilt.len());
    }
}
