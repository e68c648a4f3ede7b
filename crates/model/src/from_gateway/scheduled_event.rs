//! Scheduled events. Spec  docs/protocol/reference.md §6.10.

use super::Nothing;
use crate::{
    id::{ChannelId, GuildId, Id, UserId},
    scheduled_event::ScheduledEvent,
};
use guildhall_stdx::Timestamp;
use serde::Serialize;
use serde_json::Value;

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
    image: Option<&'a str>,
    recurrence_rule: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    guild_scheduled_event_exceptions: Option<Nothing>,
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
            image: event.image.as_deref(),
            recurrence_rule: (),
            guild_scheduled_event_exceptions: None,
        }
    }

    /// Adds the keys that only answers of REST have.
    #[must_use]
    pub fn for_rest(self) -> Self {
        Self { guild_scheduled_event_exceptions: Some([]), ..self }
    }
}
