//! Stage instances: open stages of a guild.
//!
//! Spec  docs/protocol/reference.md §6.10.

use crate::id::{ChannelId, GuildId, Id};
use serde::{Deserialize, Serialize};

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
