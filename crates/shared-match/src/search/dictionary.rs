//! Dictionary: bytes that a zstd stream may refer to before anything was sent on it.
//!
//! Owns        the content, its number, and all positions in it, sorted by the bytes there. Made once, shared by all
//!             streams and matchers.
//! Method      the content directly precedes the stream: its last byte has the distance 1 from the stream's first.
//!             Codes and repeated offsets of a dictionary are not used: a stream sends its own tables, and an explicit
//!             offset before it repeats one (Z1, Z2).
//! Invariants  Y1 a stream refers to the dictionary only while all of it is within the window: every decoder then still
//!             has it (RFC 8878 §5), and behaviour at the edge does not matter.
//! Limits      `CONTENT_BYTES_MAX`; four bytes per byte of content, and 256 KiB; the first `USED_BYTES` of a stream,
//!             bodies of `BODY_BYTES_MAX`, and the first `STANDALONE_BYTES_MAX` of other messages.

use crate::{
    search::compare::equal_bytes,
    search::standalone::{Match, Prefix, SearchedMessage},
    zstd::WINDOW_BYTES,
};
use std::ops::Range;

/// A stream refers to its dictionary while it is not longer than this. Later it has better matches.
pub const USED_BYTES: u32 = 1 << 20;
/// Longer bodies are not looked for in dictionaries: they are rare, and would hold up others.
pub const BODY_BYTES_MAX: usize = 16 << 10;
/// Most bytes of content.
const CONTENT_BYTES_MAX: usize = 256 << 10;
/// Maximum searched length of a single-recipient message: a longer one is most similar to itself.
const STANDALONE_BYTES_MAX: usize = 32 << 10;
// Y1 holds without a look: in front of a body is a head, and behind the last byte that is looked for a match that ends
// with the content.
const _: () = {
    let after = if BODY_BYTES_MAX * 2 > STANDALONE_BYTES_MAX { BODY_BYTES_MAX * 2 } else { STANDALONE_BYTES_MAX };
    assert!(USED_BYTES as usize + CONTENT_BYTES_MAX + after <= WINDOW_BYTES as usize);
};

/// Positions are sorted by this many bytes.
const SORTED_BYTES: usize = 32;
/// Of positions equal in these bytes, this many are compared.
const EQUALS_MAX: usize = 8;
/// Shorter matches cost more than the bytes they replace: a dictionary is far away.
pub const FOUND_BYTES_MIN: usize = 5;

/// See the module.
pub struct Dictionary {
    number: u32,
    content: Box<[u8]>,
    /// Positions, sorted by the bytes there; among equals the first position first, as it has the most bytes after it.
    sorted: Box<[u32]>,
    /// Of `sorted`: where those begin that start with two bytes, by these.
    starts: Box<[u32]>,
}

/// What cannot be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DictionaryError {
    /// Nothing, or too much.
    #[error(
        "a dictionary of shared-match streams has 1 to {CONTENT_BYTES_MAX} bytes of content, not {0}: train a smaller one"
    )]
    Length(usize),
    /// A run of zeros.
    #[error("a dictionary needs a number: zero means that there is none")]
    Number,
}

impl Dictionary {
    /// From the content of a zstd dictionary (RFC 8878 §5), which follows its tables, and its number.
    ///
    /// # Errors
    /// See [`DictionaryError`].
    pub fn new(number: u32, content: &[u8]) -> Result<Self, DictionaryError> {
        if content.is_empty() || content.len() > CONTENT_BYTES_MAX {
            return Err(DictionaryError::Length(content.len()));
        }
        if number == 0 {
            return Err(DictionaryError::Number);
        }
        let mut keyed: Vec<(u64, u32)> = (0..content.len()).map(|at| (key(&content[at..]), at as u32)).collect();
        keyed.sort_unstable_by(|(a_key, a), (b_key, b)| {
            let rest = |at: &u32| sorted_by(&content[*at as usize..]);
            a_key.cmp(b_key).then_with(|| rest(a).cmp(rest(b))).then(a.cmp(b))
        });
        let sorted: Box<[u32]> = keyed.iter().map(|(_, at)| *at).collect();
        let mut starts = vec![0; (1 << 16) + 1];
        for (key, _) in &keyed {
            starts[(key >> 48) as usize + 1] += 1;
        }
        for pair in 1..starts.len() {
            starts[pair] += starts[pair - 1];
        }
        Ok(Self { number, content: content.into(), sorted, starts: starts.into() })
    }

    /// Dictionary_ID in the frame header of streams that use it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The bytes that can be referred to.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// How far its first byte is before what a stream decodes to at `position`.
    #[inline]
    pub(crate) fn distance(&self, position: u32) -> u32 {
        position + self.content.len() as u32
    }

    /// The longest bytes equal to the beginning of `wanted`.
    pub(crate) fn longest(&self, wanted: &[u8]) -> Option<Range<usize>> {
        let pair = usize::from(*wanted.first()?) << 8 | usize::from(*wanted.get(1)?);
        let (first, end) = (self.starts[pair] as usize, self.starts[pair + 1] as usize);
        let sorted = &self.sorted[first..end];
        let (wanted_key, wanted_start) = (key(wanted), sorted_by(wanted));
        let is_before = |at: &u32| {
            let there = &self.content[*at as usize..];
            key(there).cmp(&wanted_key).then_with(|| sorted_by(there).cmp(wanted_start)).is_lt()
        };
        let index = sorted.partition_point(is_before);
        // The best match is immediately before or after in sorted order, or a few positions behind
        // where the order ends.
        let mut longest = 0..0;
        for at in &sorted[index.saturating_sub(1)..sorted.len().min(index + EQUALS_MAX)] {
            let at = *at as usize;
            let length = equal_bytes(wanted, &self.content[at..]);
            if length > longest.len() {
                longest = at..at + length;
            } else if length < SORTED_BYTES {
                break;
            }
        }
        (longest.len() >= FOUND_BYTES_MIN).then_some(longest)
    }

    /// Memory it takes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.content.len() + 4 * (self.sorted.len() + self.starts.len())
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary").field("number", &self.number).field("bytes", &self.content.len()).finish()
    }
}

/// A dictionary in front of a stream, seen from a message that begins at `position`.
pub struct DictionaryPrefix<'a> {
    pub dictionary: &'a Dictionary,
    pub position: usize,
}

impl Prefix for DictionaryPrefix<'_> {
    fn longest(&self, looked: &SearchedMessage<'_>, at: usize) -> Match {
        let end = self.position + at + self.dictionary.content.len();
        // Y1 as well, whatever the message's length.
        if at > STANDALONE_BYTES_MAX {
            return Match::default();
        }
        let found = self.dictionary.longest(looked.wanted(at)).unwrap_or_default();
        Match { length: found.len(), distance: end - found.start }
    }
}

/// Sort key of a position.
fn sorted_by(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(SORTED_BYTES)]
}

/// The first eight bytes, and zeros where there are fewer: in the same order.
#[inline]
fn key(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => bytes.iter().enumerate().fold(0, |key, (index, byte)| key | u64::from(*byte) << (56 - 8 * index)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::Rng;

    #[test]
    fn the_longest_is_found() {
        let mut rng = Rng::new(4);
        for letters in [2, 3, 20] {
            for length in [1, 2, 9, 700] {
                let mut letters = || (0..length).map(|_| b'a' + rng.below(letters) as u8).collect::<Vec<u8>>();
                let (content, wanted) = (letters(), letters());
                let dictionary = Dictionary::new(7, &content).unwrap();
                for at in 0..wanted.len() {
                    let longest =
                        |at: usize| (0..content.len()).map(|from| equal_bytes(&wanted[at..], &content[from..])).max();
                    let found = dictionary.longest(&wanted[at..]).unwrap_or_default();
                    assert!(content[found.clone()] == wanted[at..at + found.len()]);
                    assert_eq!(found.len(), longest(at).filter(|length| *length >= FOUND_BYTES_MIN).unwrap_or(0));
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_one_is_refused() {
        assert_eq!(Dictionary::new(1, &[]).err(), Some(DictionaryError::Length(0)));
        let longer = vec![0; CONTENT_BYTES_MAX + 1];
        assert_eq!(Dictionary::new(1, &longer).err(), Some(DictionaryError::Length(longer.len())));
        assert_eq!(Dictionary::new(0, b"content").err(), Some(DictionaryError::Number));
    }
}
