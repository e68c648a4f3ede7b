//! Users: the accounts behind sessions, members and messages.
//!
//! Spec  docs/protocol.md §6.1.

use crate::id::UserId;
use serde::{Deserialize, Serialize};

/// The two client families. The account decides, not what IDENTIFY contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountKind {
    /// Intents, sharding, lazy guilds.
    Bot,
    /// Capabilities, guild subscriptions, guilds inside READY.
    User,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Its id.
    pub id: UserId,
    /// 2–32 characters.
    pub username: String,
    /// `"0"` for names without one; bots may have four digits.
    #[serde(default = "no_discriminator")]
    pub discriminator: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_name: Option<String>,
    /// Hash of the picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avatar: Option<String>,
    /// Whether it is a bot account.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bot: bool,
    /// Public flags.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub public_flags: u32,
    /// Flags of the bot's application (docs/protocol.md §4.2): which privileged intents it was granted.
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

    /// A plain account with nothing but a name.
    #[must_use]
    pub fn new(id: UserId, username: &str) -> Self {
        Self {
            id,
            username: username.to_owned(),
            discriminator: no_discriminator(),
            global_name: None,
            avatar: None,
            bot: false,
            public_flags: 0,
            application_flags: 0,
        }
    }

    /// Which client family the account belongs to.
    #[must_use]
    pub fn kind(&self) -> AccountKind {
        if self.bot { AccountKind::Bot } else { AccountKind::User }
    }

    /// The name others see, before any nick.
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
