//! Feed: the events of a guild that backends read later, from the store.
//!
//! Owns        `FeedKind`, which events those are; `FeedEvent`, one of them as a write.
//! Invariants  F1 an event is written in the same batch as the change that it reports. F2 without
//!             `GuildLimits::keeps_events` nothing is written. F3 events for some members alone are left out: ephemeral
//!             messages, and joins of an import without `events`. (tests `it/feed.rs`)
//! Limits      one row per event, whatever the number of members and sessions.
//! Not here    when they are written: `Guild::keep_event`. Positions, retention: `guildhall-store`. Consumers:
//!             `guildhall-backend`.

use guildhall_guild_protocol::{AudienceRule, Published};
use guildhall_model::{ChannelId, EventName, GuildId};
use std::sync::Arc;

macro_rules! feed_kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $number:literal),+ $(,)?) => {
        /// Kind of an event. The numbers are stored.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum FeedKind { $($(#[doc = $doc])+ $kind = $number),+ }

        impl FeedKind {
            /// All kinds, by number.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The event of the protocol.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => EventName::$kind.as_str()),+ }
            }

            const fn of_name(name: EventName) -> Option<Self> {
                match name {
                    $(EventName::$kind => Some(Self::$kind),)+
                    _ => None,
                }
            }
        }
    };
}

feed_kinds! {
    /// A message was sent.
    MessageCreate = 0,
    /// A message was changed.
    MessageUpdate = 1,
    /// A message was deleted.
    MessageDelete = 2,
    /// Several messages were deleted.
    MessageDeleteBulk = 3,
    /// An account reacted.
    MessageReactionAdd = 4,
    /// A reaction was removed.
    MessageReactionRemove = 5,
    /// All reactions were removed.
    MessageReactionRemoveAll = 6,
    /// All reactions with one emoji were removed.
    MessageReactionRemoveEmoji = 7,
    /// An account joined.
    GuildMemberAdd = 8,
    /// An account left, or was removed.
    GuildMemberRemove = 9,
    /// An account joined, left or changed a voice channel, or its state there.
    VoiceStateUpdate = 10,
    /// An account was banned.
    GuildBanAdd = 11,
    /// A ban was removed.
    GuildBanRemove = 12,
    /// A moderator did something: kicks, time-outs, changed roles and channels.
    GuildAuditLogEntryCreate = 13,
    /// An account was added to a group.
    ChannelRecipientAdd = 14,
    /// An account left a group.
    ChannelRecipientRemove = 15,
    /// A channel was deleted with its messages.
    ChannelDelete = 16,
    /// A thread was deleted with its messages.
    ThreadDelete = 17,
    /// An account voted for an answer of a poll.
    MessagePollVoteAdd = 18,
    /// A vote was withdrawn.
    MessagePollVoteRemove = 19,
}

impl FeedKind {
    /// The kind with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The kind of an event with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// None: the event is not in the feed.
    fn of(published: &Published) -> Option<Self> {
        let event = &published.event;
        let is_for_some = match event.audience.rule {
            AudienceRule::User(_) | AudienceRule::Users(_) => {
                event.guild_id.is_some() || event.name == EventName::ChannelDelete
            }
            // Of two events of a voice move, the one for members who view the earlier channel alone.
            AudienceRule::ChannelExcept(..) => true,
            _ => false,
        };
        Self::of_name(event.name).filter(|_| !is_for_some)
    }
}

/// An event of the feed, which becomes JSON where it is stored.
#[derive(Clone, Debug)]
pub struct FeedEvent {
    pub kind: FeedKind,
    published: Arc<Published>,
}

impl FeedEvent {
    /// None: the event is not in the feed.
    #[must_use]
    pub fn of(published: &Arc<Published>) -> Option<Self> {
        FeedKind::of(published).map(|kind| Self { kind, published: published.clone() })
    }

    /// None: in a direct message.
    #[must_use]
    pub fn guild_id(&self) -> Option<GuildId> {
        self.published.event.guild_id
    }

    /// None: it is about no channel.
    #[must_use]
    pub fn channel_id(&self) -> Option<ChannelId> {
        let event = &self.published.event;
        match event.audience.rule {
            AudienceRule::Channel(id) | AudienceRule::ChannelPermission(id, _) => Some(id),
            AudienceRule::Thread { thread, .. } => Some(thread),
            _ => event.direct_channel(),
        }
    }

    /// The body as clients receive it, without redaction.
    #[must_use]
    pub fn to_json(&self) -> String {
        self.published.event.to_json()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_table() {
        for (number, kind) in FeedKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, number);
            assert_eq!(FeedKind::from_name(kind.name()), Some(*kind));
        }
        assert_eq!(FeedKind::from_number(FeedKind::ALL.len() as u8), None);
        assert!(FeedKind::ALL.len() <= 63, "a filter is a bit set");
    }
}
