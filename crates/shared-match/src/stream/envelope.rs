//! Envelope: bytes around an event's `d`. The part that all connections share belongs to the body, the part with the
//! seq does not.
//!
//! JSON has the seq in front of the body, in the head; ETF behind it, in the tail.     Spec  docs/protocol/reference.md
//! §1.2, §2.2.

use crate::{
    entropy::tables::Form, history::message_sizes::MessageSize, search::standalone::ResolvedSequence,
    stream::state::StreamState,
};

/// Longest head.
pub const HEAD_BYTES_MAX: usize = 96;
/// Longest name of an event.
pub const NAME_BYTES_MAX: usize = 64;

const BEFORE_NAME: &[u8] = b"{\"t\":\"";
/// The key `t`, and the beginning of an atom.
const BEFORE_ETF_NAME: &[u8] = b"d\0\x01td\0";
const BEFORE_SEQ: &[u8] = b"\",\"s\":";

/// Bytes of a body in front of the event's `d`, and behind it: the part of the envelope that all connections share.
pub fn around(form: Form) -> (&'static [u8], &'static [u8]) {
    match form {
        Form::Json => (b",\"op\":0,\"d\":", b"}"),
        // A map of four and its first key `d`; then `op` with its 0, and the key `s`.
        Form::Etf => (b"\x83t\0\0\0\x04d\0\x01d", b"d\0\x02opa\0d\0\x01s"),
    }
}

/// Bytes of a message that belong to a body of `body_bytes`: its envelope except the seq.
pub fn message_size(form: Form, name: &str, body_bytes: usize) -> MessageSize {
    let (before, after) = match form {
        Form::Json => (BEFORE_NAME.len() + name.len() + BEFORE_SEQ.len(), body_bytes),
        Form::Etf => (0, body_bytes + BEFORE_ETF_NAME.len() + 1 + name.len()),
    };
    MessageSize { after: after as u32, before: before as u32 }
}

/// How many digits a seq is written with.
#[inline]
pub fn digits_of(seq: u64) -> u32 {
    seq.checked_ilog10().unwrap_or(0) + 1
}

/// Bytes of a head that are copied: behind `run` that are not, `length` from `distance` before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadCopy {
    pub run: u32,
    pub length: u32,
    pub distance: u32,
}

/// Head of an earlier message.
#[derive(Clone, Copy, Debug)]
pub struct EarlierHead {
    pub name: &'static str,
    /// How far before the present body its own begins.
    pub distance: u32,
    pub digits: u32,
}

/// Head of one message on one connection. Parts may be copied from earlier heads; the rest is written as literals.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    name: &'static str,
    seq: u64,
    digits_count: u8,
    length: u8,
    literals: [u8; HEAD_BYTES_MAX],
    literals_length: u8,
    copies: [HeadCopy; 2],
    copies_count: u8,
    is_copied_whole: bool,
}

impl Head {
    /// An empty head.
    pub const NONE: Self = Self {
        name: "",
        seq: 0,
        digits_count: 0,
        length: 0,
        literals: [0; HEAD_BYTES_MAX],
        literals_length: 0,
        copies: [HeadCopy { run: 0, length: 0, distance: 0 }; 2],
        copies_count: 0,
        is_copied_whole: false,
    };

    /// Becomes the head of a JSON message: all that comes before `,"op":0,"d":`.
    #[inline]
    pub fn begin_json(&mut self, name: &'static str, seq: u64) {
        (self.name, self.seq, self.digits_count) = (name, seq, digits_of(seq) as u8);
        (self.literals_length, self.copies_count, self.is_copied_whole) = (0, 0, false);
        self.length = (BEFORE_NAME.len() + name.len() + BEFORE_SEQ.len()) as u8 + self.digits_count;
    }

    /// Writes the literal parts: the pieces and, behind the last one, `digits` digits.
    #[inline]
    fn spell(&mut self, copies: &[HeadCopy], pieces: &[&[u8]], digits: u8) {
        self.copies[..copies.len()].copy_from_slice(copies);
        self.copies_count = copies.len() as u8;
        self.literals_length = 0;
        pieces.iter().copied().flatten().for_each(|byte| {
            self.literals[usize::from(self.literals_length)] = *byte;
            self.literals_length += 1;
        });
        let mut rest = self.seq;
        for place in (self.literals_length..self.literals_length + digits).rev() {
            self.literals[usize::from(place)] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.literals_length += digits;
    }

    /// Spells out all of it: nothing is copied.
    pub fn spell_out(&mut self) {
        self.spell(&[], &[BEFORE_NAME, self.name.as_bytes(), BEFORE_SEQ], self.digits_count);
    }

    /// How long it is, copied or not.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.length)
    }

    /// Copies as much as possible of the head of an earlier body of the same name, `distance` before this one, which
    /// will be at `position`. False if nothing can be copied.
    #[inline]
    pub fn copy_from(&mut self, state: &StreamState, distance: u32, position: u32, window: u32) -> bool {
        let changed = state.changed_digits(distance, position, self.digits_count.into());
        let Some(copied) = self.copied_digits(changed).filter(|_| distance <= window) else { return false };
        let length = u32::from(self.length - self.digits_count + copied);
        self.copy(&[HeadCopy { run: 0, length, distance }], 0, copied);
        self.is_copied_whole = true;
        true
    }

    /// How many digits are the same as before, in front of `changed` that may not be.
    #[inline]
    fn copied_digits(&self, changed: u32) -> Option<u8> {
        // At least one digit is a literal, even if a seq occurred twice: without literals the last offset is encoded
        // differently. With another first digit the number of digits may differ, and the heads would not align.
        u32::from(self.digits_count).checked_sub(changed.max(1)).filter(|copied| *copied > 0).map(|copied| copied as u8)
    }

    /// Copies what it can of the head of some other message: what names have in common, and what is around them.
    /// `changed` digits may be others than there. False if it cannot.
    #[inline]
    pub fn copy_from_other(&mut self, other: EarlierHead, changed: u32, window: u32) -> bool {
        let name = self.name;
        let common = name.bytes().zip(other.name.bytes()).take_while(|(a, b)| a == b).count();
        // From the beginning of the head to that of the body.
        let lengths = [(name.len(), self.digits_count.into()), (other.name.len(), other.digits)]
            .map(|(name, digits): (usize, u32)| (BEFORE_NAME.len() + name + BEFORE_SEQ.len()) as u32 + digits);
        let Some(name_distance) = (other.distance + lengths[1]).checked_sub(lengths[0]) else { return false };
        let seq_distance = other.distance + other.digits - u32::from(self.digits_count);
        if name_distance.max(seq_distance) > window {
            return false;
        }
        let is_alike = other.digits == u32::from(self.digits_count);
        let copied = if is_alike { self.copied_digits(changed).unwrap_or(0) } else { 0 };
        let begin = HeadCopy { run: 0, length: (BEFORE_NAME.len() + common) as u32, distance: name_distance };
        let run = (name.len() - common) as u32;
        let end = HeadCopy { run, length: BEFORE_SEQ.len() as u32 + u32::from(copied), distance: seq_distance };
        if run == 0 && name.len() == other.name.len() {
            self.copy(&[HeadCopy { length: begin.length + end.length, ..begin }], 0, copied);
        } else {
            self.copy(&[begin, end], run, copied);
        }
        true
    }

    /// All is copied but the last `run` bytes of the name, and the digits behind the first `copied`.
    #[inline]
    fn copy(&mut self, copies: &[HeadCopy], run: u32, copied: u8) {
        let name = self.name.as_bytes();
        self.spell(copies, &[&name[name.len() - run as usize..]], self.digits_count - copied);
    }

    /// Literal bytes.
    #[inline]
    pub fn literals(&self) -> &[u8] {
        &self.literals[..usize::from(self.literals_length)]
    }

    /// Copied ranges, in order.
    #[inline]
    pub fn copies(&self) -> &[HeadCopy] {
        &self.copies[..usize::from(self.copies_count)]
    }

    /// Whether it was copied by `copy_from`: the last offset is that of the body it was copied with.
    #[inline]
    pub fn is_copied_whole(&self) -> bool {
        self.is_copied_whole
    }

    /// Puts what is copied of it in front of the sequences of a body.
    pub fn put_in_front(&self, sequences: &mut Vec<ResolvedSequence>) {
        if let Some(first) = sequences.first_mut() {
            first.literals += self.last_run();
        }
        let own = self.copies().iter();
        let own = own.map(|copy| ResolvedSequence { literals: copy.run, length: copy.length, distance: copy.distance });
        sequences.splice(..0, own);
    }

    /// Appends the whole of it, copied or not.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        if self.length == 0 {
            return;
        }
        let start = out.len();
        [BEFORE_NAME, self.name.as_bytes(), BEFORE_SEQ].into_iter().for_each(|piece| out.extend_from_slice(piece));
        out.resize(start + self.len(), 0);
        let mut rest = self.seq;
        for digit in out[start..].iter_mut().rev().take(self.digits_count.into()) {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }

    /// Literals behind what is copied.
    #[inline]
    pub fn last_run(&self) -> u32 {
        u32::from(self.literals_length) - self.copies().iter().map(|copy| copy.run).sum::<u32>()
    }
}

/// Bytes with the seq after a body; the head is [`Head::NONE`] then.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    bytes: [u8; HEAD_BYTES_MAX],
    length: u8,
}

impl Tail {
    /// An empty tail.
    pub const NONE: Self = Self { bytes: [0; HEAD_BYTES_MAX], length: 0 };

    /// Becomes the tail of an ETF message: the seq, the key `t` and the name.
    pub fn begin_etf(&mut self, name: &str, seq: u64) {
        self.length = 0;
        match (u8::try_from(seq), i32::try_from(seq)) {
            (Ok(small), _) => self.push(&[97, small]),
            (_, Ok(integer)) => {
                self.push(&[98]);
                self.push(&integer.to_be_bytes());
            }
            _ => {
                let bytes = seq.to_le_bytes();
                let length = 8 - seq.leading_zeros() as usize / 8;
                self.push(&[110, length as u8, 0]);
                self.push(&bytes[..length]);
            }
        }
        self.push(BEFORE_ETF_NAME);
        self.push(&[name.len() as u8]);
        self.push(name.as_bytes());
    }

    fn push(&mut self, piece: &[u8]) {
        let start = usize::from(self.length);
        self.bytes[start..start + piece.len()].copy_from_slice(piece);
        self.length += piece.len() as u8;
    }

    /// The complete tail.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}
