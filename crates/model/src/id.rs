//! Typed ids: a role id cannot be passed as a user id.
//!
//! Invariants  an id is at most 2⁶³−1, so parsers with signed integers can read it.
//! Spec        docs/protocol/reference.md §2.1, §2.2 and §11: a decimal string in JSON, an integer in ETF;
//!             clients may send either.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{cmp::Ordering, fmt, hash, marker::PhantomData, str::FromStr};

/// Types of objects that ids identify.
pub mod marker {
    #[derive(Debug)]
    pub enum Guild {}
    /// A channel or thread.
    #[derive(Debug)]
    pub enum Channel {}
    /// A role; the `@everyone` role has its guild's id.
    #[derive(Debug)]
    pub enum Role {}
    /// A user account or bot account.
    #[derive(Debug)]
    pub enum User {}
    /// A chat message.
    #[derive(Debug)]
    pub enum Message {}
    /// A custom emoji.
    #[derive(Debug)]
    pub enum Emoji {}
    /// An application, the owner of a bot account.
    #[derive(Debug)]
    pub enum Application {}
    #[derive(Debug)]
    pub enum Webhook {}
    #[derive(Debug)]
    pub enum Sticker {}
}

pub type GuildId = Id<marker::Guild>;
pub type ChannelId = Id<marker::Channel>;
pub type RoleId = Id<marker::Role>;
pub type UserId = Id<marker::User>;
pub type MessageId = Id<marker::Message>;
pub type EmojiId = Id<marker::Emoji>;
pub type ApplicationId = Id<marker::Application>;
pub type WebhookId = Id<marker::Webhook>;
pub type StickerId = Id<marker::Sticker>;

/// A snowflake, typed by the object it identifies.
pub struct Id<T>(u64, PhantomData<fn(T) -> T>);

/// The text is not a decimal number of at most 2⁶³−1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a snowflake: expected a decimal number below 2^63")]
pub struct ParseIdError;

impl<T> Id<T> {
    /// The id with this number; the top bit is cleared.
    #[must_use]
    pub const fn new(raw: u64) -> Self {
        Self(raw & (u64::MAX >> 1), PhantomData)
    }

    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The same number as the id of another type. Needed for example for the `@everyone` role, which
    /// has its guild's id.
    #[must_use]
    pub const fn cast<U>(self) -> Id<U> {
        Id(self.0, PhantomData)
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Id<T> {}
impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T> Eq for Id<T> {}
impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}
impl<T> hash::Hash for Id<T> {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
impl<T> fmt::Display for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> FromStr for Id<T> {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let raw = if digits { text.parse::<u64>().ok() } else { None };
        raw.filter(|raw| *raw <= u64::MAX >> 1).map(Self::new).ok_or(ParseIdError)
    }
}

impl<T> Serialize for Id<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() { serializer.collect_str(&self.0) } else { serializer.serialize_u64(self.0) }
    }
}

impl<'de, T> Deserialize<'de> for Id<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<fn(T) -> T>);
        impl<T> de::Visitor<'_> for Visitor<T> {
            type Value = Id<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a snowflake as a decimal string or number")
            }
            fn visit_u64<E: de::Error>(self, raw: u64) -> Result<Id<T>, E> {
                if raw > u64::MAX >> 1 { Err(E::custom(ParseIdError)) } else { Ok(Id::new(raw)) }
            }
            fn visit_i64<E: de::Error>(self, raw: i64) -> Result<Id<T>, E> {
                u64::try_from(raw).map(Id::new).map_err(|_| E::custom(ParseIdError))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Id<T>, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_strings_and_numbers() {
        let check = |json: &str, expected: Option<u64>| {
            assert_eq!(serde_json::from_str::<UserId>(json).ok().map(Id::get), expected, "{json}");
        };
        check("\"1100000000000000777\"", Some(1_100_000_000_000_000_777));
        check("1100000000000000777", Some(1_100_000_000_000_000_777));
        check("\"9223372036854775807\"", Some(u64::MAX >> 1));
        check("\"9223372036854775808\"", None);
        check("18446744073709551615", None);
        check("-1", None);
        check("1.5", None);
        check("\"\"", None);
        check("\"+1\"", None);
        check("\" 1\"", None);
        check("null", None);
    }

    #[test]
    fn writes_a_string() {
        assert_eq!(serde_json::to_string(&GuildId::new(5)).unwrap(), "\"5\"");
    }
}
