//! Intents: the event groups that a session subscribes to.
//!
//! Spec  docs/protocol/reference.md §4.1.

use serde::{Deserialize, Serialize};
use std::ops::{BitAnd, BitOr};

/// A set of intents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Intents(pub u32);

macro_rules! intents {
    ($($bit:literal $name:ident),* $(,)?) => {
        impl Intents {
            $(#[doc = concat!("Bit ", stringify!($bit), ".")] pub const $name: Self = Self(1 << $bit);)*

            /// All intents with their names.
            const NAMES: &[(Self, &str)] = &[$((Self::$name, stringify!($name))),*];
        }
    };
}
intents! {
    0 GUILDS, 1 GUILD_MEMBERS, 2 GUILD_MODERATION, 3 GUILD_EXPRESSIONS, 4 GUILD_INTEGRATIONS, 5 GUILD_WEBHOOKS,
    6 GUILD_INVITES, 7 GUILD_VOICE_STATES, 8 GUILD_PRESENCES, 9 GUILD_MESSAGES, 10 GUILD_MESSAGE_REACTIONS,
    11 GUILD_MESSAGE_TYPING, 12 DIRECT_MESSAGES, 13 DIRECT_MESSAGE_REACTIONS, 14 DIRECT_MESSAGE_TYPING,
    15 MESSAGE_CONTENT, 16 GUILD_SCHEDULED_EVENTS, 17 GUILD_EMBEDDED_ACTIVITIES, 18 PRIVATE_CHANNELS, 19 CALLS,
    20 AUTO_MODERATION_CONFIGURATION, 21 AUTO_MODERATION_EXECUTION, 22 USER_RELATIONSHIPS, 23 USER_PRESENCE,
    24 GUILD_MESSAGE_POLLS, 25 DIRECT_MESSAGE_POLLS, 26 DIRECT_EMBEDDED_ACTIVITIES, 27 LOBBIES, 28 LOBBY_DELETE,
}

impl Intents {
    /// Empty set. An event that requires no intent is delivered to every session it is addressed to.
    pub const NONE: Self = Self(0);
    /// All defined intents; a user account that sends no intents gets these.
    pub const ALL: Self = Self((1 << 29) - 1);
    /// Privileged intents: the application must have been granted them.
    pub const PRIVILEGED: Self = Self(1 << 1 | 1 << 8 | 1 << 15);
    /// Intents reserved for user accounts.
    pub const USER_ONLY: Self = Self(1 << 18 | 1 << 19 | 1 << 22 | 1 << 23);

    /// All bits of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Any bit of `other` is set.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Names of the set bits: `GUILD_MEMBERS, MESSAGE_CONTENT`.
    #[must_use]
    pub fn names(self) -> String {
        let named = Self::NAMES.iter().filter(|(intent, _)| self.contains(*intent));
        named.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
    }

    /// A session with these intents may receive an event that requires any of `required`.
    #[must_use]
    pub const fn admit(self, required: Self) -> bool {
        required.0 == 0 || self.0 & required.0 != 0
    }
}

impl BitOr for Intents {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
impl BitAnd for Intents {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}
