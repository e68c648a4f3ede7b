//! Envelope: what stands around a body: the part that all connections share is in the text, the part with the seq is not.
//!
//! JSON has the seq in front of the body, in the head; ETF behind it, in the tail.     Spec  docs/protocol.md 1.2, 2.2.

use crate::{spans::Span, tables::Form, track::Track};

/// Longest head.
pub const HEAD_BYTES_MAX: usize = 96;
/// Longest name of an event.
pub const NAME_BYTES_MAX: usize = 64;

const BEFORE_NAME: &[u8] = b"{\"t\":\"";
/// The key `t`, and the beginning of an atom.
const BEFORE_ETF_NAME: &[u8] = b"d\0\x01td\0";
const BEFORE_SEQ: &[u8] = b"\",\"s\":";

/// What comes in front of a body and behind it in its text.
pub fn around(form: Form) -> (&'static [u8], &'static [u8]) {
    match form {
        Form::Json => (b",\"op\":0,\"d\":", b"}"),
        // A map of four and its first key `d`; then `op` with its 0, and the key `s`.
        Form::Etf => (b"\x83t\0\0\0\x04d\0\x01d", b"d\0\x02opa\0d\0\x01s"),
    }
}

/// What belongs to a text of so many bytes in every message: its envelope but for the seq.
pub fn span_of(form: Form, name: &str, text_bytes: usize) -> Span {
    let (before, after) = match form {
        Form::Json => (BEFORE_NAME.len() + name.len() + BEFORE_SEQ.len(), text_bytes),
        Form::Etf => (0, text_bytes + BEFORE_ETF_NAME.len() + 1 + name.len()),
    };
    Span { after: after as u32, before: before as u32 }
}

/// The head of one message on one connection: the first part may be copied from an earlier message of the same name.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    length: u8,
    digits: u8,
    /// How many bytes are copied, and from how far back.
    copied: Option<(u8, u32)>,
}

impl Head {
    /// No head.
    pub const NONE: Self = Self { bytes: [0; HEAD_BYTES_MAX], length: 0, digits: 0, copied: None };

    /// The head of a JSON message: all that comes before `,"op":0,"d":`.
    #[inline]
    pub fn json(name: &str, seq: u64) -> Self {
        let mut head = Self::NONE;
        for piece in [BEFORE_NAME, name.as_bytes(), BEFORE_SEQ] {
            head.push(piece);
        }
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = seq;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        head.push(&digits[at..]);
        head.digits = (digits.len() - at) as u8;
        head
    }

    fn push(&mut self, piece: &[u8]) {
        let start = usize::from(self.length);
        self.bytes[start..start + piece.len()].copy_from_slice(piece);
        self.length += piece.len() as u8;
    }

    /// Copies what it can of the head of a text that stands `distance` before this one's, which will be at `position`.
    #[inline]
    pub fn copy_from(&mut self, track: &Track, distance: u32, position: u32, window: u32) {
        let digits = u32::from(self.digits);
        // One at least, though no seq should come twice: behind no literals, the last offset is said otherwise.
        let literal = track.changed_digits(distance, position, digits).max(1);
        // With another first digit there may be more digits, or fewer, and the heads do not lie alike.
        if literal < digits && distance <= window {
            self.copied = Some((self.length - literal as u8, distance));
        }
    }

    /// All bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// What is not copied.
    #[inline]
    pub fn literals(&self) -> &[u8] {
        &self.bytes[self.copied.map_or(0, |(copied, _)| usize::from(copied))..usize::from(self.length)]
    }

    /// What is copied: how much, and from how far back.
    #[inline]
    pub fn copied(&self) -> Option<(u32, u32)> {
        self.copied.map(|(length, distance)| (u32::from(length), distance))
    }
}

/// What stands behind a text and holds its seq; with [`Head::NONE`] in front.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    bytes: [u8; HEAD_BYTES_MAX],
    length: u8,
}

impl Tail {
    /// No tail.
    pub const NONE: Self = Self { bytes: [0; HEAD_BYTES_MAX], length: 0 };

    /// The tail of an ETF message: the seq, the key `t` and the name.
    #[inline]
    pub fn etf(name: &str, seq: u64) -> Self {
        let mut tail = Self::NONE;
        match (u8::try_from(seq), i32::try_from(seq)) {
            (Ok(small), _) => tail.push(&[97, small]),
            (_, Ok(integer)) => {
                tail.push(&[98]);
                tail.push(&integer.to_be_bytes());
            }
            _ => {
                let bytes = seq.to_le_bytes();
                let length = 8 - seq.leading_zeros() as usize / 8;
                tail.push(&[110, length as u8, 0]);
                tail.push(&bytes[..length]);
            }
        }
        tail.push(BEFORE_ETF_NAME);
        tail.push(&[name.len() as u8]);
        tail.push(name.as_bytes());
        tail
    }

    fn push(&mut self, piece: &[u8]) {
        let start = usize::from(self.length);
        self.bytes[start..start + piece.len()].copy_from_slice(piece);
        self.length += piece.len() as u8;
    }

    /// All bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}
