//! Answers to the smaller requests of user clients. Spec  docs/protocol/reference.md §1.3, §7.2, §7.4, §8.8.
//!
//! Features that Guildhall does not have (soundboards, statuses) are answered with an empty list, so that a client
//! which waits for an answer gets one.

use super::{ChannelBody, MessageBody, Nothing};
use crate::id::{ChannelId, GuildId};
use serde::Serialize;

/// LAST_MESSAGES, for op 34.
#[derive(Clone, Debug, Serialize)]
pub struct LastMessagesBody<'a> {
    pub guild_id: GuildId,
    /// Newest message of each requested channel that the recipient can view and that has one.
    pub messages: Vec<MessageBody<'a>>,
}

/// CHANNEL_MEMBER_COUNT_UPDATE, for op 39.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ChannelMemberCountUpdateBody {
    pub guild_id: GuildId,
    pub channel_id: ChannelId,
    /// Number of members who can view the channel.
    pub member_count: u64,
    /// Number of those members who are not offline.
    pub presence_count: u64,
}

/// CHANNEL_SYNC, for op 38.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelSyncBody<'a> {
    guild_id: GuildId,
    channels: Vec<ChannelBody<'a>>,
    integrity_check: bool,
}

impl<'a> ChannelSyncBody<'a> {
    /// `channels` are the requested ones that the recipient can view.
    #[must_use]
    pub fn new(guild_id: GuildId, channels: Vec<ChannelBody<'a>>) -> Self {
        Self { guild_id, channels, integrity_check: false }
    }
}

/// CHANNEL_STATUSES, for op 36.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ChannelStatusesBody {
    guild_id: GuildId,
    channels: Nothing,
}

impl ChannelStatusesBody {
    /// No channel of the guild has a status.
    #[must_use]
    pub fn none(guild_id: GuildId) -> Self {
        Self { guild_id, channels: [] }
    }
}

/// CHANNEL_INFO, for op 43.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ChannelInfoBody {
    guild_id: GuildId,
    channels: Nothing,
}

impl ChannelInfoBody {
    /// No channel of the guild has a status or a start time.
    #[must_use]
    pub fn none(guild_id: GuildId) -> Self {
        Self { guild_id, channels: [] }
    }
}

/// SOUNDBOARD_SOUNDS, for each guild of op 31.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SoundboardSoundsBody {
    guild_id: GuildId,
    soundboard_sounds: Nothing,
}

impl SoundboardSoundsBody {
    /// The guild has no sounds.
    #[must_use]
    pub fn none(guild_id: GuildId) -> Self {
        Self { guild_id, soundboard_sounds: [] }
    }
}
