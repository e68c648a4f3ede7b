//! Users: the accounts of sessions, members and messages.
//!
//! Spec  docs/protocol/reference.md §6.1.

use crate::id::UserId;
use serde::{Deserialize, Serialize};

/// Client family. The account determines it, not the content of IDENTIFY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountKind {
    /// Uses intents and sharding; receives guilds one by one after READY.
    Bot,
    /// Uses capabilities and guild subscriptions; receives guilds inside READY.
    User,
}

/// A user account or bot account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub id: UserId,
    /// 2–32 characters.
    pub username: String,
    /// `"0"` for names without one; bots may have four digits.
    #[serde(default = "no_discriminator")]
    pub discriminator: String,
    /// Display name shown to other users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_name: Option<String>,
    /// Hash of the avatar image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avatar: Option<String>,
    /// Hash of the wide picture of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub banner: Option<Box<str>>,
    /// Is a bot account.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bot: bool,
    /// Flags visible to other users.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub public_flags: u32,
    /// Flags of the bot's application (reference.md §4.2): which privileged intents it was granted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub application_flags: u32,
}

impl User {
    /// Application flags that grant GUILD_PRESENCES (either of two).
    pub const APPLICATION_PRESENCE: u32 = 1 << 12 | 1 << 13;
    /// Application flags that grant GUILD_MEMBERS (either of two).
    pub const APPLICATION_GUILD_MEMBERS: u32 = 1 << 14 | 1 << 15;
    /// Application flags that grant MESSAGE_CONTENT (either of two).
    pub const APPLICATION_MESSAGE_CONTENT: u32 = 1 << 18 | 1 << 19;
    /// Application flags that grant all three, as a bot in few guilds has them.
    pub const APPLICATION_PRIVILEGED: u32 = 1 << 12 | 1 << 14 | 1 << 18;

    /// A user account with only a name.
    #[must_use]
    pub fn new(id: UserId, username: &str) -> Self {
        Self {
            id,
            username: username.to_owned(),
            discriminator: no_discriminator(),
            global_name: None,
            avatar: None,
            banner: None,
            bot: false,
            public_flags: 0,
            application_flags: 0,
        }
    }

    /// Username of a deleted account. Messages and reactions still refer to it.
    #[must_use]
    pub fn deleted_name(id: UserId) -> String {
        format!("deleted_{id}")
    }

    /// The tombstone of an account after its deletion.
    #[must_use]
    pub fn deleted(id: UserId, bot: bool) -> Self {
        Self { bot, ..Self::new(id, &Self::deleted_name(id)) }
    }

    /// Whether nothing is left of the account but its id.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        *self == Self::deleted(self.id, self.bot)
    }

    /// Client family of the account.
    #[must_use]
    pub fn kind(&self) -> AccountKind {
        if self.bot { AccountKind::Bot } else { AccountKind::User }
    }

    /// The name that others see outside of guilds.
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.global_name.as_deref().unwrap_or(&self.username)
    }
}

fn no_discriminator() -> String {
    "0".to_owned()
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}
