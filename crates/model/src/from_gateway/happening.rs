//! Stickers, scheduled events and stages. Spec  docs/protocol/reference.md §6.7, §6.10.

use super::UserBody;
use crate::{
    happening::{ScheduledEvent, StageInstance, Sticker},
    id::{ChannelId, GuildId, Id, StickerId, UserId},
};
use guildhall_stdx::Timestamp;
use serde::Serialize;
use serde_json::Value;

#[derive(Clone, Debug, Serialize)]
pub struct StickerBody<'a> {
    id: StickerId,
    guild_id: GuildId,
    name: &'a str,
    description: Option<&'a str>,
    tags: &'a str,
    #[serde(rename = "type")]
    kind: u8,
    format_type: u8,
    available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<UserBody<'a>>,
}

impl<'a> StickerBody<'a> {
    /// Body of a sticker of `guild_id`.
    #[must_use]
    pub fn new(guild_id: GuildId, sticker: &'a Sticker) -> Self {
        Self {
            id: sticker.id,
            guild_id,
            name: &sticker.name,
            description: sticker.description.as_deref(),
            tags: &sticker.tags,
            kind: 2,
            format_type: sticker.format_type,
            available: true,
            user: sticker.user.as_deref().map(Into::into),
        }
    }
}

/// A scheduled event.
#[derive(Clone, Debug, Serialize)]
pub struct ScheduledEventBody<'a> {
    id: Id<()>,
    guild_id: GuildId,
    channel_id: Option<ChannelId>,
    creator_id: Option<UserId>,
    name: &'a str,
    description: Option<&'a str>,
    scheduled_start_time: Timestamp,
    scheduled_end_time: Option<Timestamp>,
    privacy_level: u8,
    status: u8,
    entity_type: u8,
    entity_id: (),
    entity_metadata: Option<&'a Value>,
    user_count: usize,
    image: (),
    recurrence_rule: (),
}

impl<'a> ScheduledEventBody<'a> {
    /// Body of an event of `guild_id`.
    #[must_use]
    pub fn new(guild_id: GuildId, event: &'a ScheduledEvent) -> Self {
        Self {
            id: event.id,
            guild_id,
            channel_id: event.channel_id,
            creator_id: event.creator_id,
            name: &event.name,
            description: event.description.as_deref(),
            scheduled_start_time: event.scheduled_start_time,
            scheduled_end_time: event.scheduled_end_time,
            privacy_level: event.privacy_level,
            status: event.status,
            entity_type: event.entity_type,
            entity_id: (),
            entity_metadata: event.entity_metadata.as_ref(),
            user_count: event.followers.len(),
            image: (),
            recurrence_rule: (),
        }
    }
}

/// An open stage.
#[derive(Clone, Debug, Serialize)]
pub struct StageInstanceBody<'a> {
    id: Id<()>,
    guild_id: GuildId,
    channel_id: ChannelId,
    topic: &'a str,
    privacy_level: u8,
    discoverable_disabled: bool,
    guild_scheduled_event_id: Option<Id<()>>,
}

impl<'a> From<&'a StageInstance> for StageInstanceBody<'a> {
    fn from(stage: &'a StageInstance) -> Self {
        Self {
            id: stage.id,
            guild_id: stage.guild_id,
            channel_id: stage.channel_id,
            topic: &stage.topic,
            privacy_level: stage.privacy_level,
            discoverable_disabled: true,
            guild_scheduled_event_id: stage.guild_scheduled_event_id,
        }
    }
}
