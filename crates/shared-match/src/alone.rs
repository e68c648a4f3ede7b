//! Alone: matches inside one message that no other connection gets.
//!
//! Owns        a hash table for it, kept between messages; connections keep none.
//! Method      the last distance, or else the newest place with the same six bytes, and one step of laziness: such messages are
//!             large, and are lists of things that are alike, so what is near and long is as good as anything.
//! Limits      two places per position; messages of any length, of which the last `reach` bytes can be referred to.

use crate::history::equal_bytes;

const HASH_LOG_MAX: u32 = 15;
const HASH_LOG_MIN: u32 = 6;
const FOUND_BYTES_MIN: usize = 4;
const LONG_BYTES: usize = 8;
/// A match that long needs no better one.
const GOOD_BYTES: usize = 40;
/// A match that long is taken without a look at the one after it.
const PATIENT_BYTES: usize = 12;
/// Saying another distance than the last is worth a match that is so much longer.
const LAST_IS_WORTH_BYTES: usize = 2;
/// What stands in front of the message is far, so a match there has to be so much longer.
const FAR_IS_WORTH_BYTES: usize = 2;
/// Of a match, so many places at its beginning and at its end can be found later.
const LINKED_BYTES: usize = 2;

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
    /// The newest place and one, by the hash of its first six bytes.
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
    /// How much of `wanted`, which stands at `at` in the message, repeats what is `distance` before.
    fn match_at(&self, wanted: &[u8], at: usize, distance: usize) -> Match;
    /// What is best for it.
    fn longest(&self, wanted: &[u8], at: usize) -> Match;
}

/// Nothing may be referred to but the message itself.
struct Nothing;

impl Before for Nothing {
    #[inline]
    fn match_at(&self, _: &[u8], _: usize, _: usize) -> Match {
        Match::default()
    }

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
        self.message.get(at..at + LONG_BYTES).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight")))
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
        let (mut at, mut run_from, mut last_distance) = (0, 0, 0);
        while let Some(mut best) = self.longest(before, &looked, at, last_distance) {
            if best.length == 0 {
                at += 1;
                continue;
            }
            if best.length < PATIENT_BYTES
                && let Some(next) = self.longest(before, &looked, at + 1, last_distance)
                && next.length > best.length + 1
            {
                best = next;
                at += 1;
            }
            let (literals, length, distance) = (at - run_from, best.length, best.distance);
            self.copies.push(Copy { literals: literals as u32, length: length as u32, distance: distance as u32 });
            self.link(&looked, at + 1, at + length);
            last_distance = distance;
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
            let slot = self.slot(eight);
            self.places[slot] = at as u32 + 1;
        }
    }

    #[inline]
    fn slot(&self, eight: u64) -> usize {
        ((eight << 16).wrapping_mul(0x9E37_79B1_85EB_CA87) >> (64 - self.hash_log)) as usize
    }

    /// The best match at a position, of length 0 if there is none; makes the position findable. None where the message ends.
    #[inline]
    fn longest(&mut self, before: &impl Before, looked: &Looked<'_>, at: usize, last_distance: usize) -> Option<Match> {
        let eight = looked.eight(at)?;
        let slot = self.slot(eight);
        let place = at as u32 + 1;
        let newest = std::mem::replace(&mut self.places[slot], place);
        let mut best = Match::default();
        if last_distance > 0 && last_distance <= at {
            best = looked.match_at(at, eight, at - last_distance);
        } else if last_distance > 0 {
            best = before.match_at(looked.wanted(at), at, last_distance);
        }
        // The place may be the position itself, which was looked at once as the one after another.
        if newest != 0 && newest != place && best.length < GOOD_BYTES {
            let found = looked.match_at(at, eight, newest as usize - 1);
            let extra = if best.length >= FOUND_BYTES_MIN { LAST_IS_WORTH_BYTES } else { 0 };
            if found.length > best.length + extra {
                best = found;
            }
        }
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
