//! The term writer: one method per shape the gateway emits.
//!
//! Owns        tags, lengths that are only known afterwards, the choice between atom and binary for a map key, and the
//!             rule that a map never holds a key twice.
//! Doors       driven by `ser` (Rust values) and `transcode` (JSON text).
//! Invariants  W1 of equal keys in a dynamic map the last one wins, as in JSON: Erlang refuses a term with duplicates.
//!             W2 no atom but tag 100, latin-1: older decoders lack 118 and 119.
//! Limits      `DEPTH_MAX`; lengths of 32 bits.

use super::{ATOM_CHARS_MAX, DEPTH_MAX, tag};
use crate::EncodeError;

/// How map keys are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// Gateway to client: names are atoms, data is binaries.
    Atoms,
    /// Client to gateway: all are binaries, atoms are refused there.
    Binaries,
}

/// Writes one term to the end of a buffer.
pub(super) struct TermWriter<'a> {
    out: &'a mut Vec<u8>,
    keys: Keys,
    depth: usize,
    /// Entries of all open dynamic maps, innermost last.
    entries: Vec<Entry>,
    /// Reason of the writer's refusal, for callers whose own error type cannot carry it.
    pub(super) fault: Option<EncodeError>,
}

/// Position of an entry of a dynamic map in the output; it ends where the next starts.
#[derive(Clone, Copy)]
struct Entry {
    start: usize,
    key_end: usize,
    key_fingerprint: u64,
}

/// A list whose length is still to be written.
pub(super) struct OpenList {
    at: usize,
    count: u32,
}

/// A map whose length is still to be written.
pub(super) struct OpenMap {
    at: usize,
    count: u32,
    /// Index of its first entry in `TermWriter::entries`, for maps whose keys may be equal.
    entries_base: Option<usize>,
}

impl<'a> TermWriter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>, keys: Keys) -> Self {
        Self { out, keys, depth: 0, entries: Vec::new(), fault: None }
    }

    pub(super) fn nil(&mut self) {
        self.out.extend_from_slice(b"\x64\x00\x03nil");
    }

    pub(super) fn bool(&mut self, value: bool) {
        let atom: &[u8] = if value { b"\x64\x00\x04true" } else { b"\x64\x00\x05false" };
        self.out.extend_from_slice(atom);
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.out.extend_from_slice(&IntBytes::from_u64(value));
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.out.extend_from_slice(&IntBytes::from_i64(value));
    }

    /// Floats that are not finite become nil, as they become `null` in JSON; a term cannot hold them.
    pub(super) fn f64(&mut self, value: f64) {
        if value.is_finite() {
            self.out.push(tag::NEW_FLOAT);
            self.out.extend_from_slice(&value.to_be_bytes());
        } else {
            self.nil();
        }
    }

    pub(super) fn binary(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        let length = u32::try_from(bytes.len()).map_err(|_| EncodeError::TooLong)?;
        self.out.reserve(5 + bytes.len());
        self.out.push(tag::BINARY);
        self.out.extend_from_slice(&length.to_be_bytes());
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes a value's `Display` form as a binary, without a string in between.
    pub(super) fn binary_display<T: std::fmt::Display + ?Sized>(&mut self, value: &T) -> Result<(), EncodeError> {
        use std::io::Write as _;
        self.out.push(tag::BINARY);
        let at = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        // Writing to a Vec does not fail: only the value's own `Display` can.
        write!(self.out, "{value}").map_err(|_| EncodeError::Custom("a Display implementation failed".to_owned()))?;
        let length = self.out.len() - at - 4;
        let length = u32::try_from(length).map_err(|_| EncodeError::TooLong)?;
        self.out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// A key that is a name in our code: a struct field or an enum variant.
    pub(super) fn key_name(&mut self, name: &str) -> Result<(), EncodeError> {
        if self.keys == Keys::Atoms && self.try_atom(name) {
            return Ok(());
        }
        self.binary(name.as_bytes())
    }

    /// Writes a string key: as a name, unless it looks like data (an id) or cannot be an atom.
    pub(super) fn key_string(&mut self, key: &str) -> Result<(), EncodeError> {
        if key.bytes().all(|byte| byte.is_ascii_digit()) { self.binary(key.as_bytes()) } else { self.key_name(key) }
    }

    /// Writes `name` as an atom if it can be one.
    fn try_atom(&mut self, name: &str) -> bool {
        if name.is_empty() {
            return false;
        }
        if name.is_ascii() && name.len() <= ATOM_CHARS_MAX {
            self.out.extend_from_slice(&[tag::ATOM, 0, name.len() as u8]);
            self.out.extend_from_slice(name.as_bytes());
            return true;
        }
        let mut chars_count = 0;
        for char in name.chars() {
            chars_count += 1;
            if u32::from(char) > 0xff || chars_count > ATOM_CHARS_MAX {
                return false;
            }
        }
        self.out.extend_from_slice(&[tag::ATOM, 0, chars_count as u8]);
        self.out.extend(name.chars().map(|char| u32::from(char) as u8));
        true
    }

    fn descend(&mut self) -> Result<(), EncodeError> {
        if self.depth == DEPTH_MAX {
            self.fault = Some(EncodeError::TooDeep { depth_max: DEPTH_MAX });
            return Err(EncodeError::TooDeep { depth_max: DEPTH_MAX });
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn begin_list(&mut self) -> Result<OpenList, EncodeError> {
        self.descend()?;
        let at = self.out.len();
        self.out.extend_from_slice(&[tag::LIST, 0, 0, 0, 0]);
        Ok(OpenList { at, count: 0 })
    }

    pub(super) fn item(&mut self, list: &mut OpenList) -> Result<(), EncodeError> {
        list.count = list.count.checked_add(1).ok_or(EncodeError::TooLong)?;
        Ok(())
    }

    pub(super) fn end_list(&mut self, list: OpenList) {
        self.depth -= 1;
        if list.count == 0 {
            self.out.truncate(list.at);
        } else {
            self.out[list.at + 1..list.at + 5].copy_from_slice(&list.count.to_be_bytes());
        }
        self.out.push(tag::NIL);
    }

    /// Opens a map whose keys are known to differ: a struct or a variant.
    pub(super) fn begin_struct(&mut self) -> Result<OpenMap, EncodeError> {
        self.descend()?;
        let at = self.out.len();
        self.out.extend_from_slice(&[tag::MAP, 0, 0, 0, 0]);
        Ok(OpenMap { at, count: 0, entries_base: None })
    }

    /// Opens a map whose keys are data and may repeat.
    pub(super) fn begin_map(&mut self) -> Result<OpenMap, EncodeError> {
        let mut map = self.begin_struct()?;
        self.entries.reserve(16);
        map.entries_base = Some(self.entries.len());
        Ok(map)
    }

    /// Begins the next entry; `key` writes its key, and the caller its value.
    pub(super) fn entry(
        &mut self,
        map: &mut OpenMap,
        key: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        map.count = map.count.checked_add(1).ok_or(EncodeError::TooLong)?;
        let start = self.out.len();
        key(self)?;
        if map.entries_base.is_some() {
            let key_end = self.out.len();
            self.entries.push(Entry { start, key_end, key_fingerprint: fingerprint(&self.out[start..key_end]) });
        }
        Ok(())
    }

    pub(super) fn end_map(&mut self, mut map: OpenMap) {
        self.depth -= 1;
        if let Some(base) = map.entries_base {
            if self.may_have_duplicates(base) {
                map.count = self.drop_duplicates(base);
            }
            self.entries.truncate(base);
        }
        self.out[map.at + 1..map.at + 5].copy_from_slice(&map.count.to_be_bytes());
    }

    fn key_of(&self, entry: Entry) -> &[u8] {
        &self.out[entry.start..entry.key_end]
    }

    /// Whether two keys may be equal, by their fingerprints. A false positive only costs the exact comparison.
    fn may_have_duplicates(&self, base: usize) -> bool {
        /// Up to this number of keys, comparing all pairs is cheaper than sorting.
        const PAIRWISE_MAX: usize = 24;
        let entries = &self.entries[base..];
        if entries.len() <= PAIRWISE_MAX {
            return entries.iter().enumerate().any(|(index, left)| {
                entries[..index].iter().any(|right| left.key_fingerprint == right.key_fingerprint)
            });
        }
        let mut fingerprints: Vec<u64> = entries.iter().map(|entry| entry.key_fingerprint).collect();
        fingerprints.sort_unstable();
        fingerprints.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Keeps the last entry of each key and returns the number of entries left. One pass, because a peer may
    /// repeat a key often.
    fn drop_duplicates(&mut self, base: usize) -> u32 {
        let entries = self.entries.split_off(base);
        let end = self.out.len();
        let end_of = |index: usize| entries.get(index + 1).map_or(end, |next| next.start);
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by(|&left, &right| self.key_of(entries[left]).cmp(self.key_of(entries[right])));
        let mut keep = vec![true; entries.len()];
        for pair in order.windows(2) {
            // The sort is stable: of two equal keys the left index is the earlier entry.
            if self.key_of(entries[pair[0]]) == self.key_of(entries[pair[1]]) {
                keep[pair[0]] = false;
            }
        }
        let mut to = entries[0].start;
        let mut count = 0;
        for (index, entry) in entries.iter().enumerate() {
            if keep[index] {
                self.out.copy_within(entry.start..end_of(index), to);
                to += end_of(index) - entry.start;
                count += 1;
            }
        }
        self.out.truncate(to);
        count
    }
}

/// A cheap fingerprint, from the first and last eight bytes: equal keys have equal ones, other keys mostly not.
fn fingerprint(key: &[u8]) -> u64 {
    match (key.first_chunk(), key.last_chunk()) {
        (Some(first), Some(last)) => {
            let spread = u64::from_le_bytes(*first).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            spread.rotate_left(29) ^ u64::from_le_bytes(*last)
        }
        _ => key.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// An integer term, at most 11 bytes, on the stack: frame tails need it outside a buffer.
#[derive(Clone, Copy)]
pub(crate) struct IntBytes {
    bytes: [u8; Self::BYTES_MAX],
    length: u8,
}

/// The sign byte of a SMALL_BIG_EXT.
#[derive(Clone, Copy)]
enum Sign {
    Positive = 0,
    Negative = 1,
}

impl IntBytes {
    pub(crate) const BYTES_MAX: usize = 11;

    pub(crate) fn from_u64(value: u64) -> Self {
        if value <= u64::from(u8::MAX) {
            Self::small(value as u8)
        } else if value <= i32::MAX as u64 {
            Self::i32(value as i32)
        } else {
            Self::big(Sign::Positive, value)
        }
    }

    pub(crate) fn from_i64(value: i64) -> Self {
        match i32::try_from(value) {
            Ok(value) => match u8::try_from(value) {
                Ok(value) => Self::small(value),
                Err(_) => Self::i32(value),
            },
            Err(_) => {
                let sign = if value < 0 { Sign::Negative } else { Sign::Positive };
                Self::big(sign, value.unsigned_abs())
            }
        }
    }

    fn small(value: u8) -> Self {
        let mut bytes = [0; Self::BYTES_MAX];
        bytes[..2].copy_from_slice(&[tag::SMALL_INTEGER, value]);
        Self { bytes, length: 2 }
    }

    fn i32(value: i32) -> Self {
        let mut bytes = [0; Self::BYTES_MAX];
        bytes[0] = tag::INTEGER;
        bytes[1..5].copy_from_slice(&value.to_be_bytes());
        Self { bytes, length: 5 }
    }

    fn big(sign: Sign, magnitude: u64) -> Self {
        let digits_bytes = 8 - (magnitude.leading_zeros() / 8) as u8;
        let mut bytes = [0; Self::BYTES_MAX];
        bytes[..3].copy_from_slice(&[tag::SMALL_BIG, digits_bytes, sign as u8]);
        bytes[3..].copy_from_slice(&magnitude.to_le_bytes());
        Self { bytes, length: 3 + digits_bytes }
    }
}

impl std::ops::Deref for IntBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}
