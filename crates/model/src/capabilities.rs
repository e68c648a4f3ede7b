//! Capabilities: protocol features that a user client supports.
//!
//! Spec  docs/protocol/reference.md §8.1.

use std::ops::BitOr;

/// A set of capabilities. Unknown bits are preserved: newer clients set bits without a meaning here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Capabilities(pub u64);

macro_rules! capabilities {
    ($($(#[$doc:meta])* $bit:literal $name:ident),* $(,)?) => {
        impl Capabilities {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*
        }
    };
}
capabilities! {
    /// No `notes` in READY.
    0 LAZY_USER_NOTES,
    /// Implicit relationships bring no members and presences.
    1 NO_AFFINE_USER_IDS,
    /// `read_state` is a versioned array.
    2 VERSIONED_READ_STATES,
    /// `user_guild_settings` is a versioned array.
    3 VERSIONED_USER_GUILD_SETTINGS,
    /// READY contains each user once and refers to users by id.
    4 DEDUPE_USER_OBJECTS,
    /// READY moves members, presences and voice states to READY_SUPPLEMENTAL. See [`Self::is_prioritized`].
    5 PRIORITIZED_READY_PAYLOAD,
    /// No effect here: there are no experiments.
    6 MULTIPLE_GUILD_EXPERIMENT_POPULATIONS,
    /// No effect here: only channels have read states.
    7 NON_CHANNEL_READ_STATES,
    /// No effect here: tokens are not replaced in READY.
    8 AUTH_TOKEN_REFRESH,
    /// No `user_settings` in READY, only `user_settings_proto`.
    9 USER_SETTINGS_PROTO,
    /// A guild's base fields are in `properties`.
    10 CLIENT_STATE_V2,
    /// PASSIVE_UPDATE_V1 instead of CHANNEL_UNREAD_UPDATE. See [`Self::passive_update`].
    11 PASSIVE_GUILD_UPDATE,
    /// No effect here: there are no calls.
    12 AUTO_CALL_CONNECT,
    /// Several reactions may be sent as one event.
    13 DEBOUNCE_MESSAGE_REACTIONS,
    /// PASSIVE_UPDATE_V2, with or without bit 11.
    14 PASSIVE_GUILD_UPDATE_V2,
    /// Channels that the account cannot view are sent without name and topic.
    15 CHANNEL_OBFUSCATION,
    /// No effect here: there are no lobbies.
    16 AUTO_LOBBY_CONNECT,
}

/// Event that updates a session about guilds in which it is passive.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassiveUpdate {
    /// CHANNEL_UNREAD_UPDATE: channels only.
    #[default]
    ChannelUnreads,
    /// PASSIVE_UPDATE_V1: all channels, all voice states.
    Snapshot,
    /// PASSIVE_UPDATE_V2: changes since the previous update.
    Delta,
}

impl Capabilities {
    /// Value for bots, and for user clients that send none.
    pub const NONE: Self = Self(0);

    /// All bits of `other` are in here.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// READY is split in two. This needs deduplication as well, because the second part refers to users by id.
    #[must_use]
    pub const fn is_prioritized(self) -> bool {
        self.contains(Self(Self::DEDUPE_USER_OBJECTS.0 | Self::PRIORITIZED_READY_PAYLOAD.0))
    }

    /// The newest passive update that the client supports.
    #[must_use]
    pub const fn passive_update(self) -> PassiveUpdate {
        if self.contains(Self::PASSIVE_GUILD_UPDATE_V2) {
            PassiveUpdate::Delta
        } else if self.contains(Self::PASSIVE_GUILD_UPDATE) {
            PassiveUpdate::Snapshot
        } else {
            PassiveUpdate::ChannelUnreads
        }
    }
}

impl BitOr for Capabilities {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_real_clients_send() {
        let check = |bits: u64, prioritized: bool, passive: PassiveUpdate, obfuscated: bool| {
            let capabilities = Capabilities(bits);
            assert_eq!(capabilities.is_prioritized(), prioritized, "{bits}");
            assert_eq!(capabilities.passive_update(), passive, "{bits}");
            assert_eq!(capabilities.contains(Capabilities::CHANNEL_OBFUSCATION), obfuscated, "{bits}");
        };
        check(0, false, PassiveUpdate::ChannelUnreads, false);
        // The three of reference.md §8.1, then the one of discord.py-self.
        check(30_717, true, PassiveUpdate::Delta, false);
        check(161_789, true, PassiveUpdate::Delta, false);
        check(1_734_653, true, PassiveUpdate::Delta, false);
        check(0b101_0111_1111_1101, true, PassiveUpdate::Delta, false);
        check(u64::MAX, true, PassiveUpdate::Delta, true);
        check(1 << 5, false, PassiveUpdate::ChannelUnreads, false);
        check(1 << 11, false, PassiveUpdate::Snapshot, false);
    }
}
