//! External ids: how backends call accounts, guilds and channels.
//!
//! Owns        their form, and the kinds of objects within which they are unique.

/// How many external ids are looked up or put at once.
pub const EXTERNAL_IDS_MAX: usize = 1_000;

/// Characters of an external id.
const EXTERNAL_ID_CHARS_MAX: usize = 128;

/// Whether a text may be an external id: 1 to 128 printable ASCII characters without spaces.
#[must_use]
pub fn is_external_id(text: &str) -> bool {
    (1..=EXTERNAL_ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Kind of object that has an external id. External ids are unique within a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExternalKind {
    /// A user account or a bot.
    User = 0,
    /// A guild; direct messages have none.
    Guild = 1,
    /// A channel of a guild.
    Channel = 2,
}

/// An object's external id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExternalId {
    /// Id of the object.
    pub id: u64,
    /// How the backend calls it.
    pub text: String,
}
