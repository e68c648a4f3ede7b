//! Subscription mask: the subscriptions of a session in a guild as a bit set, so that sessions with equal sets form a
//! group.
//!
//! Owns        `SubscriptionMask`, from intents (bots) or from subscriptions (user accounts); whether a session is
//!             active or passive.
//! Invariants  sessions with equal `SubscriptionMask` and equal visible channels receive the same events, except for
//!             events about single users.
//! Not here    permissions (`audience`), subscriptions (`subscriptions`).
//! Spec        docs/protocol/reference.md §4.1, §7, §8.4, §8.5.

use guildhall_guild_protocol::{Audience, UserFilter};
use guildhall_model::{Intents, PassiveUpdate};

/// Subscriptions of a session in a guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriptionMask(u32);

/// Subscriptions of a user account in a guild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserSubscriptions {
    /// Active in the guild: receives messages, reactions, voice states.
    pub active: bool,
    /// TYPING_START.
    pub typing: bool,
    /// Receives events of every member that joins, changes or leaves.
    pub member_updates: bool,
    /// Receives events of every visible thread, not only of joined ones.
    pub threads: bool,
    /// Form of passive updates while it is not active.
    pub passive: PassiveUpdate,
    /// Receives hidden channels in obfuscated form.
    pub obfuscated: bool,
}

const USER: u32 = 1 << 31;
const ACTIVE: u32 = 1 << 0;
const TYPING: u32 = 1 << 1;
const MEMBER_UPDATES: u32 = 1 << 2;
const SNAPSHOT: u32 = 1 << 3;
const DELTA: u32 = 1 << 4;
const THREADS: u32 = 1 << 5;
const OBFUSCATED: u32 = 1 << 6;

impl SubscriptionMask {
    /// Subscriptions of a bot.
    #[must_use]
    pub const fn bot(intents: Intents) -> Self {
        Self(intents.0 & !USER)
    }

    /// For a user account.
    #[must_use]
    pub const fn user(user: UserSubscriptions) -> Self {
        let mut bits = USER;
        if user.active {
            bits |= ACTIVE;
        }
        if user.typing {
            bits |= TYPING;
        }
        if user.member_updates {
            bits |= MEMBER_UPDATES;
        }
        if user.threads {
            bits |= THREADS;
        }
        if user.obfuscated {
            bits |= OBFUSCATED;
        }
        match user.passive {
            PassiveUpdate::ChannelUnreads => {}
            PassiveUpdate::Snapshot => bits |= SNAPSHOT,
            PassiveUpdate::Delta => bits |= DELTA,
        }
        Self(bits)
    }

    /// Is a user account, not a bot.
    #[must_use]
    pub const fn is_user(self) -> bool {
        self.0 & USER != 0
    }

    /// Is a user account that is passive in the guild.
    #[must_use]
    pub const fn is_passive(self) -> bool {
        self.0 & (USER | ACTIVE) == USER
    }

    /// Form of passive updates, if it is passive.
    #[must_use]
    pub const fn passive_form(self) -> PassiveUpdate {
        if self.0 & DELTA != 0 {
            PassiveUpdate::Delta
        } else if self.0 & SNAPSHOT != 0 {
            PassiveUpdate::Snapshot
        } else {
            PassiveUpdate::ChannelUnreads
        }
    }

    /// Receives messages of others without content, unless it is mentioned.
    #[must_use]
    pub const fn lacks_content(self) -> bool {
        self.0 & USER == 0 && self.0 & Intents::MESSAGE_CONTENT.0 == 0
    }

    /// Is a bot that receives every member's presence.
    #[must_use]
    pub const fn wants_presences(self) -> bool {
        self.0 & USER == 0 && self.0 & Intents::GUILD_PRESENCES.0 != 0
    }

    /// Receives events of every visible thread.
    #[must_use]
    pub const fn wants_threads(self) -> bool {
        if self.0 & USER == 0 { self.0 & Intents::GUILDS.0 != 0 } else { self.0 & THREADS != 0 }
    }

    /// Is a user account that receives hidden channels in obfuscated form.
    #[must_use]
    pub const fn is_obfuscated(self) -> bool {
        self.0 & (USER | OBFUSCATED) == USER | OBFUSCATED
    }

    /// Whether sessions with these subscriptions receive events for `audience`.
    pub(crate) const fn admits(self, audience: &Audience) -> bool {
        if self.0 & USER == 0 {
            return audience.intents.0 == 0 || self.0 & audience.intents.0 != 0;
        }
        match audience.users {
            UserFilter::All => true,
            UserFilter::Active => self.0 & ACTIVE != 0,
            UserFilter::Voice => self.0 & ACTIVE != 0 || self.0 & (SNAPSHOT | DELTA) == 0,
            UserFilter::Typing => self.0 & TYPING != 0,
            UserFilter::MemberUpdates => self.0 & MEMBER_UPDATES != 0,
            UserFilter::Threads => self.0 & THREADS != 0,
            UserFilter::Named => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_holds_what_was_put_in() {
        for n in 0..96u32 {
            let passive =
                [PassiveUpdate::ChannelUnreads, PassiveUpdate::Snapshot, PassiveUpdate::Delta][n as usize % 3];
            let user = UserSubscriptions {
                active: n & 8 != 0,
                typing: n & 4 != 0,
                member_updates: n & 16 != 0,
                threads: n & 1 != 0,
                passive,
                obfuscated: n & 32 != 0,
            };
            let mask = SubscriptionMask::user(user);
            assert!(mask.is_user() && !mask.lacks_content() && !mask.wants_presences());
            assert_eq!(mask.is_passive(), !user.active);
            assert_eq!(mask.is_obfuscated(), user.obfuscated);
            assert_eq!(mask.passive_form(), passive);
        }
        let bot = SubscriptionMask::bot(Intents::ALL);
        assert!(!bot.is_user() && !bot.is_passive() && !bot.lacks_content() && bot.wants_presences());
        assert!(!bot.is_obfuscated());
        assert!(SubscriptionMask::bot(Intents::GUILDS).lacks_content());
    }
}
