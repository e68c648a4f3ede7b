//! Stickers, scheduled events and stages: what a guild keeps among its base fields.
//!
//! Spec  docs/protocol.md §6.7, §6.10.

use crate::{
    id::{ChannelId, GuildId, Id, StickerId, UserId},
    user::User,
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// A guild's own sticker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sticker {
    /// Its id.
    pub id: StickerId,
    /// 2–30 characters.
    pub name: String,
    /// What it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What finds it.
    pub tags: String,
    /// 1 PNG, 2 APNG, 3 Lottie, 4 GIF.
    pub format_type: u8,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<User>>,
}

/// Something that is announced. Passed through, but for who is interested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledEvent {
    /// Its id.
    pub id: Id<()>,
    /// Who announced it; none: the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator_id: Option<UserId>,
    /// Where, if it is in a channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_id: Option<ChannelId>,
    /// 1–100 characters.
    pub name: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When it begins.
    pub scheduled_start_time: Timestamp,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_end_time: Option<Timestamp>,
    /// 2: for the guild.
    pub privacy_level: u8,
    /// 1 scheduled, 2 active, 3 completed, 4 cancelled.
    pub status: u8,
    /// 1 stage, 2 voice, 3 elsewhere.
    pub entity_type: u8,
    /// More of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity_metadata: Option<Value>,
    /// Who is interested, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub followers: Vec<UserId>,
}

/// A stage that is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageInstance {
    /// Its id.
    pub id: Id<()>,
    /// Where.
    pub guild_id: GuildId,
    /// In which stage channel.
    pub channel_id: ChannelId,
    /// 1–120 characters.
    pub topic: String,
    /// 2: for the guild.
    pub privacy_level: u8,
    /// What it was announced as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guild_scheduled_event_id: Option<Id<()>>,
}
