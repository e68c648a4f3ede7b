//! Input of commands that create and change scheduled events.

use guildhall_model::{ChannelId, Id, ScheduledEvent, UserId};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A new scheduled event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewScheduledEvent {
    /// From `Node::next_id`, if its picture is stored under it. None: the guild assigns one.
    pub id: Option<Id<()>>,
    pub content: ScheduledEventContent,
}

/// The fields of a scheduled event that its creator sets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScheduledEventContent {
    /// Stage or voice channel; none if it takes place elsewhere.
    pub channel_id: Option<ChannelId>,
    /// 1–100 characters.
    pub name: String,
    pub description: Option<String>,
    pub scheduled_start_time: Timestamp,
    pub scheduled_end_time: Option<Timestamp>,
    /// Always 2: visible to the guild only.
    pub privacy_level: u8,
    /// 1 scheduled, 2 active, 3 completed, 4 cancelled.
    pub status: u8,
    /// 1 stage, 2 voice, 3 external.
    pub entity_type: u8,
    /// Location and other details, depending on `entity_type`.
    pub entity_metadata: Option<Value>,
    /// Hash of the cover picture.
    pub image: Option<Box<str>>,
}

impl ScheduledEventContent {
    pub(crate) fn into_event(self, id: Id<()>, creator_id: Option<UserId>, followers: Vec<UserId>) -> ScheduledEvent {
        ScheduledEvent {
            id,
            creator_id,
            channel_id: self.channel_id,
            name: self.name,
            description: self.description,
            scheduled_start_time: self.scheduled_start_time,
            scheduled_end_time: self.scheduled_end_time,
            privacy_level: self.privacy_level,
            status: self.status,
            entity_type: self.entity_type,
            entity_metadata: self.entity_metadata,
            image: self.image,
            followers,
        }
    }
}

/// Change of an actor's interest in a scheduled event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Add,
    Remove,
}
