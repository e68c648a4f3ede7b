//! Listening: what a session wants to be told of in a guild, in one word, so that sessions that want the same stand together.
//!
//! Owns        `Listening`, from intents (bots) or from subscriptions (user accounts); `ForUsers`, what an event asks of
//!             user accounts.
//! Invariants  equal `Listening` and equal channels in view mean: the same events, but for those about single users.
//! Not here    permissions (`audience`), who subscribed to what (`subscriptions`).     Spec  docs/protocol.md §4.1, §7, §8.4, §8.5

use crate::event::Audience;
use guildhall_model::{EventName, Intents, PassiveUpdate};

/// What a session wants to be told of in a guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Listening(u32);

/// A user account's stand in a guild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserListening {
    /// It looks at the guild: messages, reactions, voice.
    pub active: bool,
    /// TYPING_START.
    pub typing: bool,
    /// Every member that joins, changes or leaves.
    pub member_updates: bool,
    /// Every thread that it can view, not only those that its user joined.
    pub threads: bool,
    /// While it is not active.
    pub passive: PassiveUpdate,
    /// Of channels that it may not view it is told only where they are.
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

impl Listening {
    /// Of a bot.
    #[must_use]
    pub const fn bot(intents: Intents) -> Self {
        Self(intents.0 & !USER)
    }

    /// Of a user account.
    #[must_use]
    pub const fn user(user: UserListening) -> Self {
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

    /// A user account's, not a bot's.
    #[must_use]
    pub const fn is_user(self) -> bool {
        self.0 & USER != 0
    }

    /// A user account that does not look at the guild.
    #[must_use]
    pub const fn is_passive(self) -> bool {
        self.0 & (USER | ACTIVE) == USER
    }

    /// How it is told what it missed, if it is passive.
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

    /// Messages reach it without content that its user neither wrote nor is named in.
    #[must_use]
    pub const fn lacks_content(self) -> bool {
        self.0 & USER == 0 && self.0 & Intents::MESSAGE_CONTENT.0 == 0
    }

    /// A bot that is told every member's presence.
    #[must_use]
    pub const fn wants_presences(self) -> bool {
        self.0 & USER == 0 && self.0 & Intents::GUILD_PRESENCES.0 != 0
    }

    /// It is told of every thread that it can view.
    #[must_use]
    pub const fn wants_threads(self) -> bool {
        if self.0 & USER == 0 { self.0 & Intents::GUILDS.0 != 0 } else { self.0 & THREADS != 0 }
    }

    /// A user account that is told only where channels are that it may not view.
    #[must_use]
    pub const fn is_obfuscated(self) -> bool {
        self.0 & (USER | OBFUSCATED) == USER | OBFUSCATED
    }

    /// Whether events for such an audience are for sessions like this.
    pub(crate) const fn admits(self, audience: &Audience) -> bool {
        if self.0 & USER == 0 {
            return audience.intents.0 == 0 || self.0 & audience.intents.0 != 0;
        }
        match audience.users {
            ForUsers::All => true,
            ForUsers::Active => self.0 & ACTIVE != 0,
            ForUsers::Voice => self.0 & ACTIVE != 0 || self.0 & (SNAPSHOT | DELTA) == 0,
            ForUsers::Typing => self.0 & TYPING != 0,
            ForUsers::MemberUpdates => self.0 & MEMBER_UPDATES != 0,
            ForUsers::Threads => self.0 & THREADS != 0,
            ForUsers::Named => false,
        }
    }
}

/// Which user accounts an event is for, before permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForUsers {
    /// All.
    All,
    /// Those that look at the guild.
    Active,
    /// Those that look at the guild, and passive ones that are not told of voice in any other way.
    Voice,
    /// Those that asked for typing.
    Typing,
    /// Those that asked for all members' changes.
    MemberUpdates,
    /// Those that asked for all threads, and those whose user is in the thread.
    Threads,
    /// Nobody but those the audience names: whom it is about, who watches that member.
    Named,
}

impl ForUsers {
    /// The rule of docs/protocol.md §7 and §8.5.
    #[must_use]
    pub const fn of(name: EventName) -> Self {
        match name {
            EventName::MessageCreate
            | EventName::MessageUpdate
            | EventName::MessageDelete
            | EventName::MessageDeleteBulk
            | EventName::ChannelPinsUpdate
            | EventName::MessageReactionAdd
            | EventName::MessageReactionRemove
            | EventName::MessageReactionRemoveAll
            | EventName::MessageReactionRemoveEmoji => Self::Active,
            EventName::VoiceStateUpdate => Self::Voice,
            EventName::TypingStart => Self::Typing,
            EventName::GuildMemberAdd | EventName::GuildMemberUpdate | EventName::GuildMemberRemove => {
                Self::MemberUpdates
            }
            EventName::ThreadCreate
            | EventName::ThreadUpdate
            | EventName::ThreadDelete
            | EventName::ThreadListSync
            | EventName::ThreadMemberUpdate
            | EventName::ThreadMembersUpdate => Self::Threads,
            EventName::PresenceUpdate | EventName::InviteCreate | EventName::InviteDelete => Self::Named,
            _ => Self::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_says_what_was_put_in() {
        for n in 0..96u32 {
            let passive =
                [PassiveUpdate::ChannelUnreads, PassiveUpdate::Snapshot, PassiveUpdate::Delta][n as usize % 3];
            let user = UserListening {
                active: n & 8 != 0,
                typing: n & 4 != 0,
                member_updates: n & 16 != 0,
                threads: n & 1 != 0,
                passive,
                obfuscated: n & 32 != 0,
            };
            let listening = Listening::user(user);
            assert!(listening.is_user() && !listening.lacks_content() && !listening.wants_presences());
            assert_eq!(listening.is_passive(), !user.active);
            assert_eq!(listening.is_obfuscated(), user.obfuscated);
            assert_eq!(listening.passive_form(), passive);
        }
        let bot = Listening::bot(Intents::ALL);
        assert!(!bot.is_user() && !bot.is_passive() && !bot.lacks_content() && bot.wants_presences());
        assert!(!bot.is_obfuscated());
        assert!(Listening::bot(Intents::GUILDS).lacks_content());
    }
}
