//! Scheduled events of a guild.
//!
//! Spec  docs/protocol/reference.md §6.10.

use crate::id::{ChannelId, Id, UserId};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A scheduled event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledEvent {
    pub id: Id<()>,
    /// Account that scheduled it; none: the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator_id: Option<UserId>,
    /// Stage or voice channel; none if it takes place elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_id: Option<ChannelId>,
    /// 1–100 characters.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub scheduled_start_time: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_end_time: Option<Timestamp>,
    /// Always 2: visible to the guild only.
    pub privacy_level: u8,
    /// 1 scheduled, 2 active, 3 completed, 4 cancelled.
    pub status: u8,
    /// 1 stage, 2 voice, 3 external.
    pub entity_type: u8,
    /// Location and other details, depending on `entity_type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity_metadata: Option<Value>,
    /// Hash of the cover picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Box<str>>,
    /// Interested accounts, sorted by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub followers: Vec<UserId>,
}

impl ScheduledEvent {
    /// Entity type: on a stage.
    pub const STAGE: u8 = 1;
    /// Entity type: in a voice channel.
    pub const VOICE: u8 = 2;
    /// Entity type: outside of the guild.
    pub const EXTERNAL: u8 = 3;
    /// Status of a new event.
    pub const SCHEDULED: u8 = 1;
    /// Status of an event that takes place now.
    pub const ACTIVE: u8 = 2;
    /// Status of an event that took place.
    pub const COMPLETED: u8 = 3;
    /// Status of an event that does not take place.
    pub const CANCELLED: u8 = 4;
}
