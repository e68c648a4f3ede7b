//! Capabilities: what a user client can take, and so how it is told things.
//!
//! Spec  docs/protocol.md §8.1.

use std::ops::BitOr;

/// A set of capabilities. Kept whole, unknown bits included: newer clients set bits that mean nothing here.
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
    /// READY names each user once and refers to them by id.
    4 DEDUPE_USER_OBJECTS,
    /// READY leaves members, presences and voice states to READY_SUPPLEMENTAL. See [`Self::is_prioritized`].
    5 PRIORITIZED_READY_PAYLOAD,
    /// No effect here: there are no experiments.
    6 MULTIPLE_GUILD_EXPERIMENT_POPULATIONS,
    /// No effect here: there are no read states beside those of channels.
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
    /// Bursts of reactions may come as one event.
    13 DEBOUNCE_MESSAGE_REACTIONS,
    /// PASSIVE_UPDATE_V2, whatever bit 11 says.
    14 PASSIVE_GUILD_UPDATE_V2,
    /// Channels that may not be viewed come without name and topic.
    15 CHANNEL_OBFUSCATION,
    /// No effect here: there are no lobbies.
    16 AUTO_LOBBY_CONNECT,
}

/// How a session hears of guilds in which it is passive.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassiveUpdate {
    /// CHANNEL_UNREAD_UPDATE: channels only.
    #[default]
    ChannelUnreads,
    /// PASSIVE_UPDATE_V1: all channels, all voice states.
    Snapshot,
    /// PASSIVE_UPDATE_V2: what changed since the last one.
    Delta,
}

impl Capabilities {
    /// What bots have, and user clients that say nothing.
    pub const NONE: Self = Self(0);

    /// All bits of `other` are in here.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// READY comes in two parts. Without deduplication the second part could not name users, so it takes both bits.
    #[must_use]
    pub const fn is_prioritized(self) -> bool {
        self.contains(Self(Self::DEDUPE_USER_OBJECTS.0 | Self::PRIORITIZED_READY_PAYLOAD.0))
    }

    /// The newest form of passive update that the client takes.
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
        // The three of docs/protocol.md §8.1, then discord.py-self's.
        check(30_717, true, PassiveUpdate::Delta, false);
        check(161_789, true, PassiveUpdate::Delta, false);
        check(1_734_653, true, PassiveUpdate::Delta, false);
        check(0b101_0111_1111_1101, true, PassiveUpdate::Delta, false);
        check(u64::MAX, true, PassiveUpdate::Delta, true);
        check(1 << 5, false, PassiveUpdate::ChannelUnreads, false);
        check(1 << 11, false, PassiveUpdate::Snapshot, false);
    }
}
