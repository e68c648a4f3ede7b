//! Stickers, scheduled events and stage instances of a guild.
//!
//! Spec  docs/protocol/reference.md §6.7, §6.10.

use crate::{
    id::{ChannelId, GuildId, Id, StickerId, UserId},
    user::User,
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// A custom sticker of a guild.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sticker {
    pub id: StickerId,
    /// 2–30 characters.
    pub name: String,
    /// Description of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Keywords for search and autocomplete.
    pub tags: String,
    /// 1 PNG, 2 APNG, 3 Lottie, 4 GIF.
    pub format_type: u8,
    /// Account that uploaded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<User>>,
}

/// A scheduled event. Its content is passed through; only the followers are interpreted.
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
    /// Interested accounts, sorted by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub followers: Vec<UserId>,
}

/// An open stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageInstance {
    pub id: Id<()>,
    pub guild_id: GuildId,
    /// The stage channel.
    pub channel_id: ChannelId,
    /// 1–120 characters.
    pub topic: String,
    /// Always 2: visible to the guild only.
    pub privacy_level: u8,
    /// Scheduled event that this stage belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guild_scheduled_event_id: Option<Id<()>>,
}
