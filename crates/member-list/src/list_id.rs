//! List ids: channels that the same members can view share a list.
//!
//! Invariants  the id equals the one that clients compute from the channel's overwrites: the test for `everyone`
//!             is coarser than real permissions and must stay so. (test `vectors`)
//! Not here    whether a member can view a channel: `guildhall_model::channel_permissions`.
//! Spec        docs/protocol/reference.md §8.6; MurmurHash3_x86_32 (Austin Appleby, public domain).

use guildhall_model::{Overwrite, OverwriteKind, Permissions};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{fmt, str::FromStr};

/// Id of a member list: on the wire `"everyone"` or a decimal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListId {
    /// Every member can view the channel.
    Everyone,
    /// Hash of the overwrites that grant or deny VIEW_CHANNEL.
    Hash(u32),
}

impl ListId {
    /// The list of a channel. `everyone_has_view`: the guild's `@everyone` role has VIEW_CHANNEL. A thread has the
    /// list of its parent.
    #[must_use]
    pub fn of_channel(everyone_has_view: bool, overwrites: &[Overwrite]) -> Self {
        let has_view = |permissions: Permissions| permissions.contains(Permissions::VIEW_CHANNEL);
        if everyone_has_view && !overwrites.iter().any(|overwrite| has_view(overwrite.deny)) {
            return Self::Everyone;
        }
        let mut tokens: Vec<String> = Vec::new();
        for overwrite in overwrites {
            let id = match overwrite.target {
                OverwriteKind::Role(id) => id.get(),
                OverwriteKind::Member(id) => id.get(),
            };
            if has_view(overwrite.allow) {
                tokens.push(format!("allow:{id}"));
            } else if has_view(overwrite.deny) {
                tokens.push(format!("deny:{id}"));
            }
        }
        // Sorted as strings: "allow:10" comes before "allow:9".
        tokens.sort_unstable();
        Self::Hash(murmur3_x86_32(tokens.join(",").as_bytes()))
    }
}

/// The seed is 0.
fn murmur3_x86_32(bytes: &[u8]) -> u32 {
    fn scramble(block: u32) -> u32 {
        block.wrapping_mul(0xCC9E_2D51).rotate_left(15).wrapping_mul(0x1B87_3593)
    }
    let (blocks, tail) = bytes.as_chunks::<4>();
    let mut hash: u32 = 0;
    for block in blocks {
        hash = (hash ^ scramble(u32::from_le_bytes(*block))).rotate_left(13).wrapping_mul(5).wrapping_add(0xE654_6B64);
    }
    let tail = tail.iter().rev().fold(0, |block, byte| block << 8 | u32::from(*byte));
    hash ^= scramble(tail);
    hash ^= bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85EB_CA6B);
    hash = (hash ^ hash >> 13).wrapping_mul(0xC2B2_AE35);
    hash ^ hash >> 16
}

impl fmt::Display for ListId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everyone => f.write_str("everyone"),
            Self::Hash(hash) => hash.fmt(f),
        }
    }
}

/// The text is not a list id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseListIdError;

impl fmt::Display for ParseListIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a member list id: expected \"everyone\" or a decimal number below 2^32")
    }
}

impl std::error::Error for ParseListIdError {}

impl FromStr for ListId {
    type Err = ParseListIdError;

    fn from_str(text: &str) -> Result<Self, ParseListIdError> {
        if text == "everyone" {
            return Ok(Self::Everyone);
        }
        let hash: u32 = text.parse().map_err(|_| ParseListIdError)?;
        // One spelling per id: no sign, no leading zeros.
        if hash.to_string() == text { Ok(Self::Hash(hash)) } else { Err(ParseListIdError) }
    }
}

impl Serialize for ListId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ListId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::{RoleId, UserId};

    const VIEW: Permissions = Permissions::VIEW_CHANNEL;
    const NONE: Permissions = Permissions::NONE;

    fn role(id: u64, allow: Permissions, deny: Permissions) -> Overwrite {
        Overwrite { target: OverwriteKind::Role(RoleId::new(id)), allow, deny }
    }

    fn check(everyone_has_view: bool, overwrites: &[Overwrite], expected: &str) {
        assert_eq!(ListId::of_channel(everyone_has_view, overwrites).to_string(), expected, "{overwrites:?}");
    }

    #[test]
    fn vectors() {
        check(false, &[], "0");
        check(true, &[role(1001, NONE, VIEW)], "3477805530");
        check(true, &[role(1001, NONE, VIEW), role(2002, VIEW, NONE)], "2523820452");
        check(
            true,
            &[role(1_100_000_000_000_000_020, VIEW, NONE), role(1_100_000_000_000_000_001, NONE, VIEW)],
            "647443077",
        );
    }

    #[test]
    fn hash_of_every_tail_length() {
        // Published results; "aa" from an independent implementation.
        for (text, expected) in [
            ("", 0),
            ("a", 0x3C25_69B2),
            ("aa", 0x3710_91A9),
            ("abc", 0xB3DD_93FA),
            ("test", 0xBA6B_D213),
            ("Hello, world!", 0xC036_3E43),
            ("The quick brown fox jumps over the lazy dog", 0x2E4F_F723),
        ] {
            assert_eq!(murmur3_x86_32(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn everyone_is_as_coarse_as_clients_have_it() {
        let member = |allow, deny| Overwrite { target: OverwriteKind::Member(UserId::new(7)), allow, deny };
        check(true, &[], "everyone");
        check(true, &[role(5, VIEW, NONE), role(6, Permissions::SEND_MESSAGES, NONE)], "everyone");
        check(true, &[role(5, NONE, Permissions::SEND_MESSAGES)], "everyone");
        // A deny counts even if an allow undoes it, for members as well as for roles.
        let undone = ListId::of_channel(true, &[role(5, VIEW, VIEW)]);
        assert_eq!(undone, ListId::of_channel(false, &[role(5, VIEW, NONE)]));
        assert_ne!(ListId::of_channel(true, &[member(NONE, VIEW)]), ListId::Everyone);
        // Without VIEW_CHANNEL in the guild, an overwrite that grants it to @everyone does not make the id "everyone".
        assert_ne!(ListId::of_channel(false, &[role(1, VIEW, NONE)]), ListId::Everyone);
    }

    #[test]
    fn tokens_are_sorted_as_strings() {
        let (nine, ten) = (role(9, VIEW, NONE), role(10, VIEW, NONE));
        let expected = ListId::Hash(murmur3_x86_32(b"allow:10,allow:9"));
        assert_eq!(ListId::of_channel(false, &[nine, ten]), expected);
        assert_eq!(ListId::of_channel(false, &[ten, nine]), expected);
    }

    #[test]
    fn reads_what_it_writes_and_nothing_else() {
        for id in [ListId::Everyone, ListId::Hash(0), ListId::Hash(u32::MAX)] {
            let json = serde_json::to_string(&id).expect("a string");
            assert_eq!(serde_json::from_str::<ListId>(&json).ok(), Some(id), "{json}");
        }
        for text in ["", "Everyone", "-1", "+1", "01", "4294967296"] {
            assert_eq!(text.parse::<ListId>(), Err(ParseListIdError), "{text}");
        }
    }
}
