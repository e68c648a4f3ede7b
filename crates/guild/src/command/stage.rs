//! Input of commands that open and change stages, and of those that change their speakers.

use super::some;
use guildhall_model::{ChannelId, Id};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};

/// The fields of a stage instance that a moderator sets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageContent {
    /// 1–120 characters.
    pub topic: String,
    /// Always 2: visible to the guild only.
    pub privacy_level: u8,
    /// Scheduled event that this stage belongs to.
    pub guild_scheduled_event_id: Option<Id<()>>,
}

/// Changes to the voice state of a user on a stage; `None` leaves a field as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoiceStatePatch {
    /// The stage channel, if the actor names it: the user must be there.
    pub channel_id: Option<ChannelId>,
    /// Whether the user is in the audience.
    pub suppress: Option<bool>,
    /// Time of the request to speak, or that there is none. Only users themselves change theirs.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub request_to_speak_timestamp: Option<Option<Timestamp>>,
}
