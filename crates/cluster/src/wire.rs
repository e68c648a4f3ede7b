//! Wire: the binary form of messages between nodes.
//!
//! Owns        `encode`, `decode`, `elements`, the version, and the table below. The form is MessagePack; serde derives
//!             it next to each type, with the names of fields and variants.
//! Invariants  W1 bytes of an unknown version are refused before they are read. W2 any bytes are decoded or refused:
//!             `decode` never panics, and allocates in proportion to their number. W3 what a message means is the same
//!             on both nodes: an event has the same audience and the same bodies. (tests `w1_*` to `w3_*`)
//! Limits      `DEPTH_MAX`. The bus bounds the number of bytes.
//! Not here    the version's place in a frame, parts of large messages: `guildhall-bus`.
//!
//! What does not cross:
//!
//! | left out | on the other node |
//! |---|---|
//! | `Receipt` of a backend event | its place: relays report to the node of the backend, which keeps it |
//! | mentions and content readers of an event | the constructors' code derives them from the payload |
//! | sharing of one object by several `Arc`s | each has a copy; equal objects are still equal |
//!
//! How the form may change, so that an operator can upgrade one node after the other:
//!
//! | change | how |
//! |---|---|
//! | a field is added to a struct or to a variant with named fields | with `#[serde(default)]`, unless it is an `Option` without `deserialize_with`; an older node ignores the field. If it must not, `VERSION` increases |
//! | a field is removed | the release before gives it a default |
//! | a variant is added | `VERSION` increases: an older node refuses the whole message. Free if only nodes get it that have shown that they know it, as `RelayMessage::Transferred`; and for commands, of which an older node refuses the one request (`peer::ReadMessage`) |
//! | a place is added to a tuple, or content to a variant without | never: a new variant |
//! | a name or a meaning changes | never: a new field or variant |
//! | an integer gets wider | free |
//! | the order of fields or variants changes | free |
//! | `VERSION` increases | the release reads the previous version as well, and writes it until all nodes read the new one |
//!
//! Objects of `guildhall-model` have one form for this, for the store and for hand-overs. Their fields have defaults
//! for the store's sake; a change of one of them is a change of all three.

mod values;

use serde::{Serialize, de::DeserializeOwned};
use values::Values;

/// The version that this program writes, and the only one that it reads.
pub const VERSION: u16 = 1;

/// How deep arrays and maps may be nested. The deepest are embeds: a parser of JSON has accepted 128 levels of
/// them, and a message has less than 20 around them. Decoding is recursive, and a level takes some kilobytes of
/// stack at most.
pub const DEPTH_MAX: usize = 160;

/// Why bytes are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Another version of this program wrote the message.
    #[error("the message has version {found}, and this program reads version {VERSION}: upgrade the older node")]
    UnknownVersion { found: u16 },
    /// No program of ours writes these bytes as this version.
    #[error("the message is malformed: {0}")]
    Malformed(String),
}

/// The message as bytes of version `VERSION`.
///
/// # Panics
/// If values are nested deeper than 1,000 levels, which no parser of ours accepts.
#[must_use]
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(message).expect("messages are structs, maps, sequences, strings and numbers")
}

/// The message in `bytes`, which another node wrote as `version`.
///
/// # Errors
/// `UnknownVersion`, `Malformed`.
pub fn decode<T: DeserializeOwned>(version: u16, bytes: &[u8]) -> Result<T, WireError> {
    if version != VERSION {
        return Err(WireError::UnknownVersion { found: version });
    }
    check(bytes).map_err(|problem| WireError::Malformed(problem.to_owned()))?;
    T::deserialize(&mut Values(bytes)).map_err(|error| WireError::Malformed(error.to_string()))
}

/// The bytes of each element of an array, for `decode`.
///
/// # Errors
/// `UnknownVersion`; `Malformed`: the bytes are not one array.
pub fn elements(version: u16, bytes: &[u8]) -> Result<Vec<&[u8]>, WireError> {
    if version != VERSION {
        return Err(WireError::UnknownVersion { found: version });
    }
    check(bytes).and_then(|()| elements_of(bytes)).map_err(|problem| WireError::Malformed(problem.to_owned()))
}

/// Of bytes that are one value.
fn elements_of(bytes: &[u8]) -> Result<Vec<&[u8]>, &'static str> {
    let (marker, mut rest) = bytes.split_first().ok_or(TRUNCATED)?;
    let count = match marker {
        0x90..=0x9f => usize::from(marker & 0x0f),
        0xdc => length::<2>(&mut rest)?,
        0xdd => length::<4>(&mut rest)?,
        _ => return Err("it is no array"),
    };
    let mut elements = Vec::new();
    for _ in 0..count {
        let after = skip(rest)?;
        let (element, _) = rest.split_at(rest.len() - after.len());
        elements.push(element);
        rest = after;
    }
    Ok(elements)
}

const TRUNCATED: &str = "bytes are missing at its end";

/// Checks that the bytes are one value of MessagePack, so that a decoder can allocate the declared length of an array.
/// Costs about a twentieth of the decoding.
fn check(bytes: &[u8]) -> Result<(), &'static str> {
    if skip(bytes)?.is_empty() { Ok(()) } else { Err("bytes follow its end") }
}

/// The bytes behind one value.
fn skip(mut rest: &[u8]) -> Result<&[u8], &'static str> {
    let mut outer = [0_usize; DEPTH_MAX];
    let mut depth = 0_usize;
    // Values that follow in the innermost array or map.
    let mut left = 1_usize;
    loop {
        while left == 0 {
            let Some(above) = depth.checked_sub(1) else { return Ok(rest) };
            (depth, left) = (above, outer[above]);
        }
        left -= 1;
        let (marker, after) = rest.split_first().ok_or(TRUNCATED)?;
        rest = after;
        let (bytes_count, values_count) = match marker {
            0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => (0, 0),
            0x80..=0x8f => (0, 2 * usize::from(marker & 0x0f)),
            0x90..=0x9f => (0, usize::from(marker & 0x0f)),
            0xa0..=0xbf => (usize::from(marker & 0x1f), 0),
            0xcc | 0xd0 => (1, 0),
            0xcd | 0xd1 => (2, 0),
            0xca | 0xce | 0xd2 => (4, 0),
            0xcb | 0xcf | 0xd3 => (8, 0),
            0xc4 | 0xd9 => (length::<1>(&mut rest)?, 0),
            0xc5 | 0xda => (length::<2>(&mut rest)?, 0),
            0xc6 | 0xdb => (length::<4>(&mut rest)?, 0),
            0xdc => (0, length::<2>(&mut rest)?),
            0xdd => (0, length::<4>(&mut rest)?),
            0xde => (0, length::<2>(&mut rest)?.saturating_mul(2)),
            0xdf => (0, length::<4>(&mut rest)?.saturating_mul(2)),
            0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => return Err("it has a value of a type that no message has"),
        };
        rest = rest.get(bytes_count..).ok_or(TRUNCATED)?;
        if values_count > rest.len() {
            return Err(TRUNCATED);
        }
        if values_count > 0 {
            *outer.get_mut(depth).ok_or("its values are nested too deep")? = left;
            (depth, left) = (depth + 1, values_count);
        }
    }
}

/// A big-endian number of `N` bytes.
fn length<const N: usize>(rest: &mut &[u8]) -> Result<usize, &'static str> {
    let (digits, after) = rest.split_first_chunk::<N>().ok_or(TRUNCATED)?;
    *rest = after;
    Ok(digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)))
}
