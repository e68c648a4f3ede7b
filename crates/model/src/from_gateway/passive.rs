//! Passive updates: events about a guild in which a session is passive. Spec  docs/protocol/reference.md §8.5.

use super::{MemberBody, VoiceStateBody};
use crate::{
    channel::Channel,
    id::{ChannelId, GuildId, MessageId, UserId},
};
use guildhall_stdx::Timestamp;
use serde::Serialize;

/// Newest message and pin of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ChannelUnread {
    pub id: ChannelId,
    /// Null if there has never been a message.
    pub last_message_id: Option<MessageId>,
    /// Time of the latest pin. Absent if there was none.
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

/// CHANNEL_UNREAD_UPDATE: channels with news, for clients without either passive capability.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelUnreadUpdateBody {
    pub guild_id: GuildId,
    /// Channels with news since the previous update.
    pub channel_unread_updates: Vec<ChannelUnread>,
}

/// PASSIVE_UPDATE_V1: the complete current state.
#[derive(Clone, Debug, Serialize)]
pub struct PassiveUpdateV1Body<'a> {
    pub guild_id: GuildId,
    /// All channels that the recipient can view.
    pub channels: Vec<ChannelUnread>,
    /// Voice states of all connected users. Absent when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub voice_states: Vec<VoiceStateBody<'a>>,
    /// The members of `voice_states`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberBody<'a>>,
}

/// PASSIVE_UPDATE_V2: changes since the previous update. All keys are always present.
#[derive(Clone, Debug, Serialize)]
pub struct PassiveUpdateV2Body<'a> {
    pub guild_id: GuildId,
    /// Channels with a new newest message or pin.
    pub updated_channels: Vec<ChannelUnread>,
    /// Voice states that are new or changed.
    pub updated_voice_states: Vec<VoiceStateBody<'a>>,
    /// Users who left voice.
    pub removed_voice_states: Vec<UserId>,
    /// The members of `updated_voice_states`.
    pub updated_members: Vec<MemberBody<'a>>,
}

impl PassiveUpdateV2Body<'_> {
    /// Nothing changed, so there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.updated_channels.is_empty() && self.updated_voice_states.is_empty() && self.removed_voice_states.is_empty()
    }
}
