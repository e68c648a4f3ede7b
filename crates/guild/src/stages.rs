//! Stage instances: open stages of a guild, stored in its base fields.
//!
//! Owns        `CreateStage`, `UpdateStage`, `DeleteStage`.
//! Invariants  a stage channel has at most one stage instance.
//! Spec        docs/protocol/reference.md §6.10, §7.1.

use crate::{
    audit::{self, NewEntry},
    check::ChannelContext,
    command::{CommandResult, Refusal, StageContent},
    machine::Guild,
    turn::Turn,
};
use guildhall_guild_protocol::ResourcePayload;
use guildhall_model::{
    AuditAction, ChannelId, ChannelType, EventName, Guild as GuildFields, Id, Permissions, StageInstance,
};
use guildhall_stdx::Now;

impl Guild {
    pub(crate) fn create_stage(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        content: &StageContent,
    ) -> CommandResult<Box<StageInstance>> {
        self.need_stage_moderator(turn, channel_id)?;
        if self.stage_at(channel_id).is_ok() {
            return Err(Refusal::StageExists.into());
        }
        let mut stages = self.structure.guild.stage_instances.clone();
        let id = self.next_id(turn.now);
        let stage = self.stage_instance(id, channel_id, content);
        stages.push(stage.clone());
        self.put_stages(turn.now, stages, EventName::StageInstanceCreate, stage.clone());
        let entry = NewEntry::new(AuditAction::StageInstanceCreate, stage.id).made(audit::of_stage(&stage));
        self.log(turn, entry.option("channel_id", channel_id));
        Ok(Box::new(stage))
    }

    /// Replaces the content of an open stage.
    pub(crate) fn update_stage(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        content: &StageContent,
    ) -> CommandResult<Box<StageInstance>> {
        self.need_stage_moderator(turn, channel_id)?;
        let at = self.stage_at(channel_id)?;
        let mut stages = self.structure.guild.stage_instances.clone();
        let stage = self.stage_instance(stages[at].id, channel_id, content);
        let entry = NewEntry::new(AuditAction::StageInstanceUpdate, stage.id)
            .changed(audit::of_stage(&stages[at]), audit::of_stage(&stage));
        stages[at] = stage.clone();
        self.put_stages(turn.now, stages, EventName::StageInstanceUpdate, stage.clone());
        self.log(turn, entry.option("channel_id", channel_id));
        Ok(Box::new(stage))
    }

    pub(crate) fn delete_stage(&mut self, turn: Turn<'_>, channel_id: ChannelId) -> CommandResult<()> {
        let context = self.in_channel(turn, channel_id)?;
        let at = self.stage_at(channel_id)?;
        need_to_moderate(&context)?;
        self.end_stage(turn, at);
        Ok(())
    }

    /// Ends the stage at this place of the list.
    pub(crate) fn end_stage(&mut self, turn: Turn<'_>, at: usize) {
        let mut stages = self.structure.guild.stage_instances.clone();
        let stage = stages.remove(at);
        let channel_id = stage.channel_id;
        let entry = NewEntry::new(AuditAction::StageInstanceDelete, stage.id).gone(audit::of_stage(&stage));
        self.put_stages(turn.now, stages, EventName::StageInstanceDelete, stage);
        self.log(turn, entry.option("channel_id", channel_id));
    }

    fn stage_instance(&self, id: Id<()>, channel_id: ChannelId, content: &StageContent) -> StageInstance {
        StageInstance {
            id,
            guild_id: self.structure.id(),
            channel_id,
            topic: content.topic.clone(),
            privacy_level: content.privacy_level,
            guild_scheduled_event_id: content.guild_scheduled_event_id,
        }
    }

    pub(crate) fn stage_at(&self, channel_id: ChannelId) -> Result<usize, Refusal> {
        let stages = &self.structure.guild.stage_instances;
        stages.iter().position(|stage| stage.channel_id == channel_id).ok_or(Refusal::UnknownStage)
    }

    fn need_stage_moderator(&self, turn: Turn<'_>, channel_id: ChannelId) -> Result<(), Refusal> {
        let context = self.in_channel(turn, channel_id)?;
        if context.channel.kind != ChannelType::Stage {
            return Err(Refusal::InvalidForm("channel_id"));
        }
        need_to_moderate(&context)
    }

    fn put_stages(&mut self, now: Now, stages: Vec<StageInstance>, name: EventName, stage: StageInstance) {
        let fields = GuildFields { stage_instances: stages, ..GuildFields::clone(&self.structure.guild) };
        let rule = self.viewers_or_members(Some(stage.channel_id));
        self.put_embedded(now, fields, rule, name, |_| ResourcePayload::Stage(Box::new(stage)));
    }
}

/// A stage moderator needs all of these permissions.
fn need_to_moderate(context: &ChannelContext) -> Result<(), Refusal> {
    context.need(Permissions::MANAGE_CHANNELS | Permissions::MUTE_MEMBERS | Permissions::MOVE_MEMBERS)
}
