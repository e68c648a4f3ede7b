//! Input of commands that open and change stages.

use guildhall_model::Id;
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
