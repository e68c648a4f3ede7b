//! Stage instances. Spec  docs/protocol/reference.md §6.10.

use crate::{
    id::{ChannelId, GuildId, Id},
    stage_instance::StageInstance,
};
use serde::Serialize;

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
