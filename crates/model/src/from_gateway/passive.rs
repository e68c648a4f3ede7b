//! What a session hears of a guild in which it is passive. Spec  docs/protocol.md §8.5.

use super::{MemberBody, VoiceStateBody};
use crate::{
    channel::Channel,
    id::{ChannelId, GuildId, MessageId, UserId},
};
use guildhall_stdx::Timestamp;
use serde::Serialize;

/// How far a channel has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ChannelUnread {
    /// Which.
    pub id: ChannelId,
    /// Its newest message; null when there never was one.
    pub last_message_id: Option<MessageId>,
    /// When something was last pinned. Absent when nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_pin_timestamp: Option<Timestamp>,
}

impl From<&Channel> for ChannelUnread {
    fn from(channel: &Channel) -> Self {
        Self {
            id: channel.id,
            last_message_id: channel.last_message_id,
            last_pin_timestamp: channel.last_pin_timestamp,
        }
    }
}

/// CHANNEL_UNREAD_UPDATE: channels that moved, for clients without either passive capability.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelUnreadUpdateBody {
    /// Which guild.
    pub guild_id: GuildId,
    /// Those that moved since the last one.
    pub channel_unread_updates: Vec<ChannelUnread>,
}

/// PASSIVE_UPDATE_V1: everything as it is.
#[derive(Clone, Debug, Serialize)]
pub struct PassiveUpdateV1Body<'a> {
    /// Which guild.
    pub guild_id: GuildId,
    /// All channels that the receiver may view.
    pub channels: Vec<ChannelUnread>,
    /// Who is in voice. Absent when nobody is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub voice_states: Vec<VoiceStateBody<'a>>,
    /// The members of `voice_states`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberBody<'a>>,
}

/// PASSIVE_UPDATE_V2: what changed since the last one. All keys are always there.
#[derive(Clone, Debug, Serialize)]
pub struct PassiveUpdateV2Body<'a> {
    /// Which guild.
    pub guild_id: GuildId,
    /// Channels whose newest message or pin moved.
    pub updated_channels: Vec<ChannelUnread>,
    /// Who joined voice, moved, or changed there.
    pub updated_voice_states: Vec<VoiceStateBody<'a>>,
    /// Who left voice.
    pub removed_voice_states: Vec<UserId>,
    /// The members of `updated_voice_states`.
    pub updated_members: Vec<MemberBody<'a>>,
}

impl PassiveUpdateV2Body<'_> {
    /// Nothing changed: not worth sending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.updated_channels.is_empty() && self.updated_voice_states.is_empty() && self.removed_voice_states.is_empty()
    }
}
