//! Answers to the smaller requests of user clients. Spec  docs/protocol.md §1.3, §7.2, §7.4, §8.8.
//!
//! What there is nothing to say about yet (soundboards, statuses, threads) is answered with an empty list: a client that
//! waits for an answer gets one.

use super::{ChannelBody, MessageBody, Nothing};
use crate::id::{ChannelId, GuildId};
use serde::Serialize;

/// LAST_MESSAGES, for op 34.
#[derive(Clone, Debug, Serialize)]
pub struct LastMessagesBody<'a> {
    /// Which guild.
    pub guild_id: GuildId,
    /// The newest message of each channel asked for that the receiver may view and that has one.
    pub messages: Vec<MessageBody<'a>>,
}

/// CHANNEL_MEMBER_COUNT_UPDATE, for op 39.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ChannelMemberCountUpdateBody {
    /// Which guild.
    pub guild_id: GuildId,
    /// Which channel.
    pub channel_id: ChannelId,
    /// Members who can view it.
    pub member_count: u64,
    /// Those of them who are not offline.
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
    /// `channels` are those asked for that the receiver may view.
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
