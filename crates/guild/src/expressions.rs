//! Expressions and events: emoji, stickers, scheduled events, stages. All are base fields of the guild.
//!
//! Owns        `CreateEmoji`, `UpdateEmoji`, `DeleteEmoji`, the same of stickers, `PutScheduledEvent`,
//!             `DeleteScheduledEvent`, `FollowScheduledEvent`, `PutStage`, `DeleteStage`.
//! Invariants  the creator of an emoji or sticker may change it with CREATE_GUILD_EXPRESSIONS; others need MANAGE.
//! Limits      `emojis_max`, `stickers_max`, `scheduled_events_max`; stages: one for each stage channel.
//! Not here    pictures: the caller stores them, under ids that it passes to `CreateEmoji` and `CreateSticker`. The
//!             content of scheduled events, which is passed through.
//! Spec        docs/protocol.md §6.7, §6.10, §7.1.

use crate::{
    audit::{self, NewEntry},
    check::GuildContext,
    command::{Actor, EmojiPatch, NewEmoji, NewSticker, Refusal, StickerPatch},
    machine::{CommandResult, Guild},
    record::Write,
};
use guildhall_guild_protocol::{AudienceRule, Payload, ResourcePayload};
use guildhall_model::{
    AuditAction, ChannelId, ChannelType, Emoji, EmojiId, EventName, Guild as GuildFields, Id, Permissions,
    ScheduledEvent, StageInstance, Sticker, StickerId, UserId,
};
use guildhall_stdx::Now;
use std::sync::Arc;

impl Guild {
    /// Stores base fields and tells `name` instead of GUILD_UPDATE.
    /// With a `channel_id` the notice goes to the channel's viewers; to all members if the channel was deleted.
    fn keep_fields(
        &mut self,
        now: Now,
        fields: GuildFields,
        channel_id: Option<ChannelId>,
        name: EventName,
        resource: impl FnOnce(&Self) -> ResourcePayload,
    ) {
        let fields = Arc::new(fields);
        self.write(Write::PutGuild(fields.clone()));
        let replica_update = self.change_structure(now, |structure| structure.guild = fields);
        let resource = resource(self);
        let channel_id = channel_id.filter(|id| self.structure.channels.contains_key(id));
        let rule = channel_id.map_or(AudienceRule::Members, AudienceRule::Channel);
        let event = self.event(name, rule, Payload::Resource(Box::new(resource)));
        self.publish(event, replica_update);
    }

    fn keep_emojis(&mut self, now: Now, emojis: Vec<Emoji>) {
        let fields = GuildFields { emojis, ..GuildFields::clone(&self.structure.guild) };
        self.keep_fields(now, fields, None, EventName::GuildEmojisUpdate, |guild| {
            ResourcePayload::Emojis(guild.structure.guild.clone())
        });
    }

    fn keep_stickers(&mut self, now: Now, stickers: Vec<Sticker>) {
        let fields = GuildFields { stickers, ..GuildFields::clone(&self.structure.guild) };
        let resource = |guild: &Self| ResourcePayload::Stickers(guild.structure.guild.clone());
        self.keep_fields(now, fields, None, EventName::GuildStickersUpdate, resource);
    }

    pub(crate) fn create_emoji(&mut self, now: Now, actor: Actor, new: &NewEmoji) -> CommandResult<Box<Emoji>> {
        let guild_context = self.in_guild(now, actor)?;
        need_to_create(&guild_context)?;
        if self.structure.guild.emojis.len() >= self.limits.emojis_max {
            return Err(Refusal::TooManyEmojis.into());
        }
        let emoji = Emoji {
            id: new.id.unwrap_or_else(|| self.next_id(now)),
            name: new.name.clone(),
            animated: new.animated,
            roles: new.roles.clone(),
            user: guild_context.member.as_ref().map(|member| member.user.clone()),
        };
        let mut emojis = self.structure.guild.emojis.clone();
        emojis.push(emoji.clone());
        self.keep_emojis(now, emojis);
        self.log(now, actor, NewEntry::new(AuditAction::EmojiCreate, emoji.id).made(audit::of_emoji(&emoji)));
        Ok(Box::new(emoji))
    }

    pub(crate) fn update_emoji(
        &mut self,
        now: Now,
        actor: Actor,
        id: EmojiId,
        patch: &EmojiPatch,
    ) -> CommandResult<Box<Emoji>> {
        let guild_context = self.in_guild(now, actor)?;
        let mut emojis = self.structure.guild.emojis.clone();
        let emoji = emojis.iter_mut().find(|emoji| emoji.id == id).ok_or(Refusal::UnknownEmoji)?;
        need_to_change(&guild_context, emoji.user.as_ref().map(|user| user.id))?;
        let before = emoji.clone();
        if let Some(name) = &patch.name {
            emoji.name.clone_from(name);
        }
        if let Some(roles) = &patch.roles {
            emoji.roles.clone_from(roles);
        }
        let emoji = emoji.clone();
        if emoji != before {
            self.keep_emojis(now, emojis);
            let entry = NewEntry::new(AuditAction::EmojiUpdate, id);
            self.log(now, actor, entry.changed(audit::of_emoji(&before), audit::of_emoji(&emoji)));
        }
        Ok(Box::new(emoji))
    }

    pub(crate) fn delete_emoji(&mut self, now: Now, actor: Actor, id: EmojiId) -> CommandResult<()> {
        let guild_context = self.in_guild(now, actor)?;
        let mut emojis = self.structure.guild.emojis.clone();
        let at = emojis.iter().position(|emoji| emoji.id == id).ok_or(Refusal::UnknownEmoji)?;
        need_to_change(&guild_context, emojis[at].user.as_ref().map(|user| user.id))?;
        let emoji = emojis.remove(at);
        self.keep_emojis(now, emojis);
        self.log(now, actor, NewEntry::new(AuditAction::EmojiDelete, id).gone(audit::of_emoji(&emoji)));
        Ok(())
    }

    pub(crate) fn create_sticker(&mut self, now: Now, actor: Actor, new: &NewSticker) -> CommandResult<Box<Sticker>> {
        let guild_context = self.in_guild(now, actor)?;
        need_to_create(&guild_context)?;
        if self.structure.guild.stickers.len() >= self.limits.stickers_max {
            return Err(Refusal::TooManyStickers.into());
        }
        let sticker = Sticker {
            id: new.id.unwrap_or_else(|| self.next_id(now)),
            name: new.name.clone(),
            description: new.description.clone(),
            tags: new.tags.clone(),
            format_type: new.format_type,
            user: guild_context.member.as_ref().map(|member| member.user.clone()),
        };
        let mut stickers = self.structure.guild.stickers.clone();
        stickers.push(sticker.clone());
        self.keep_stickers(now, stickers);
        let entry = NewEntry::new(AuditAction::StickerCreate, sticker.id);
        self.log(now, actor, entry.made(audit::of_sticker(&sticker)));
        Ok(Box::new(sticker))
    }

    pub(crate) fn update_sticker(
        &mut self,
        now: Now,
        actor: Actor,
        id: StickerId,
        patch: &StickerPatch,
    ) -> CommandResult<Box<Sticker>> {
        let guild_context = self.in_guild(now, actor)?;
        let mut stickers = self.structure.guild.stickers.clone();
        let sticker = stickers.iter_mut().find(|sticker| sticker.id == id).ok_or(Refusal::UnknownSticker)?;
        need_to_change(&guild_context, sticker.user.as_ref().map(|user| user.id))?;
        let before = sticker.clone();
        if let Some(name) = &patch.name {
            sticker.name.clone_from(name);
        }
        if let Some(description) = &patch.description {
            sticker.description.clone_from(description);
        }
        if let Some(tags) = &patch.tags {
            sticker.tags.clone_from(tags);
        }
        let sticker = sticker.clone();
        if sticker != before {
            self.keep_stickers(now, stickers);
            let entry = NewEntry::new(AuditAction::StickerUpdate, id);
            self.log(now, actor, entry.changed(audit::of_sticker(&before), audit::of_sticker(&sticker)));
        }
        Ok(Box::new(sticker))
    }

    pub(crate) fn delete_sticker(&mut self, now: Now, actor: Actor, id: StickerId) -> CommandResult<()> {
        let guild_context = self.in_guild(now, actor)?;
        let mut stickers = self.structure.guild.stickers.clone();
        let at = stickers.iter().position(|sticker| sticker.id == id).ok_or(Refusal::UnknownSticker)?;
        need_to_change(&guild_context, stickers[at].user.as_ref().map(|user| user.id))?;
        let sticker = stickers.remove(at);
        self.keep_stickers(now, stickers);
        self.log(now, actor, NewEntry::new(AuditAction::StickerDelete, id).gone(audit::of_sticker(&sticker)));
        Ok(())
    }

    // ── scheduled events and stages ──────────────────────────────────────────────────────────────

    /// Creates an event, under its id if it has one, or replaces the content of an event.
    pub(crate) fn put_scheduled_event(
        &mut self,
        now: Now,
        actor: Actor,
        event: &ScheduledEvent,
        is_new: bool,
    ) -> CommandResult<Arc<ScheduledEvent>> {
        let guild_context = self.in_guild(now, actor)?;
        let mut events = self.structure.guild.scheduled_events.clone();
        let found = events.iter().position(|of| of.id == event.id);
        let own = guild_context.member.as_ref().map(|member| member.user.id);
        let (event, name) = match found {
            Some(_) if is_new => return Err(Refusal::InvalidForm("id").into()),
            Some(at) => {
                need_own_event(&guild_context, events[at].creator_id)?;
                let event = ScheduledEvent {
                    followers: events[at].followers.clone(),
                    creator_id: events[at].creator_id,
                    ..event.clone()
                };
                (event, EventName::GuildScheduledEventUpdate)
            }
            None if !is_new => return Err(Refusal::UnknownScheduledEvent.into()),
            None => {
                if guild_context.need(Permissions::CREATE_EVENTS).is_err() {
                    guild_context.need(Permissions::MANAGE_EVENTS)?;
                }
                if events.len() >= self.limits.scheduled_events_max {
                    return Err(Refusal::TooManyScheduledEvents.into());
                }
                let id = if event.id.get() == 0 { self.next_id(now) } else { event.id };
                let event = ScheduledEvent { id, creator_id: own, ..event.clone() };
                (event, EventName::GuildScheduledEventCreate)
            }
        };
        let event = Arc::new(event);
        let entry = match found {
            Some(at) => NewEntry::new(AuditAction::ScheduledEventUpdate, event.id)
                .changed(audit::of_event(&events[at]), audit::of_event(&event)),
            None => NewEntry::new(AuditAction::ScheduledEventCreate, event.id).made(audit::of_event(&event)),
        };
        match found {
            Some(at) => events[at] = event.clone(),
            None => events.push(event.clone()),
        }
        self.keep_scheduled_events(now, events, name, event.clone());
        self.log(now, actor, entry);
        Ok(event)
    }

    fn keep_scheduled_events(
        &mut self,
        now: Now,
        events: Vec<Arc<ScheduledEvent>>,
        name: EventName,
        event: Arc<ScheduledEvent>,
    ) {
        let fields = GuildFields { scheduled_events: events, ..GuildFields::clone(&self.structure.guild) };
        self.keep_fields(now, fields, event.channel_id, name, |_| ResourcePayload::ScheduledEvent(event));
    }

    pub(crate) fn delete_scheduled_event(&mut self, now: Now, actor: Actor, id: Id<()>) -> CommandResult<()> {
        let guild_context = self.in_guild(now, actor)?;
        let mut events = self.structure.guild.scheduled_events.clone();
        let at = events.iter().position(|of| of.id == id).ok_or(Refusal::UnknownScheduledEvent)?;
        need_own_event(&guild_context, events[at].creator_id)?;
        let event = events.remove(at);
        let entry = NewEntry::new(AuditAction::ScheduledEventDelete, id).gone(audit::of_event(&event));
        self.keep_scheduled_events(now, events, EventName::GuildScheduledEventDelete, event);
        self.log(now, actor, entry);
        Ok(())
    }

    /// Adds or removes the actor's interest in a scheduled event.
    pub(crate) fn follow_scheduled_event(
        &mut self,
        now: Now,
        actor: Actor,
        id: Id<()>,
        follows: bool,
    ) -> CommandResult<()> {
        let guild_context = self.in_guild(now, actor)?;
        let user_id: UserId = guild_context.member.as_ref().ok_or(Refusal::UnknownUser)?.user.id;
        let mut events = self.structure.guild.scheduled_events.clone();
        let at = events.iter().position(|of| of.id == id).ok_or(Refusal::UnknownScheduledEvent)?;
        if follows {
            guild_context.need_free()?;
        }
        let mut event = ScheduledEvent::clone(&events[at]);
        let is_changed = match event.followers.binary_search(&user_id) {
            Err(place) if follows => {
                if event.followers.len() >= self.limits.followers_max {
                    return Err(Refusal::Unavailable.into());
                }
                event.followers.insert(place, user_id);
                true
            }
            Ok(place) if !follows => {
                event.followers.remove(place);
                true
            }
            _ => false,
        };
        if is_changed {
            let channel_id = event.channel_id;
            events[at] = Arc::new(event);
            let fields = GuildFields { scheduled_events: events, ..GuildFields::clone(&self.structure.guild) };
            let name = match follows {
                true => EventName::GuildScheduledEventUserAdd,
                false => EventName::GuildScheduledEventUserRemove,
            };
            self.keep_fields(now, fields, channel_id, name, |_| ResourcePayload::ScheduledEventUser {
                event_id: id,
                user_id,
            });
        }
        Ok(())
    }

    /// Opens a stage, or changes what an open one is about.
    pub(crate) fn put_stage(
        &mut self,
        now: Now,
        actor: Actor,
        wanted: &StageInstance,
        is_new: bool,
    ) -> CommandResult<Box<StageInstance>> {
        let context = self.in_channel(now, actor, wanted.channel_id)?;
        if context.channel.kind != ChannelType::Stage {
            return Err(Refusal::InvalidForm("channel_id").into());
        }
        need_to_moderate(context.permissions)?;
        let mut stages = self.structure.guild.stage_instances.clone();
        let found = stages.iter().position(|stage| stage.channel_id == wanted.channel_id);
        let mut before = audit::Fields::new();
        let (stage, name) = match found {
            Some(_) if is_new => return Err(Refusal::StageExists.into()),
            None if !is_new => return Err(Refusal::UnknownStage.into()),
            Some(at) => {
                before = audit::of_stage(&stages[at]);
                stages[at] = StageInstance { id: stages[at].id, guild_id: self.structure.id(), ..wanted.clone() };
                (stages[at].clone(), EventName::StageInstanceUpdate)
            }
            None => {
                let stage = StageInstance { id: self.next_id(now), guild_id: self.structure.id(), ..wanted.clone() };
                stages.push(stage.clone());
                (stage, EventName::StageInstanceCreate)
            }
        };
        self.keep_stages(now, stages, name, stage.clone());
        let action = if is_new { AuditAction::StageInstanceCreate } else { AuditAction::StageInstanceUpdate };
        let entry = NewEntry::new(action, stage.id).changed(before, audit::of_stage(&stage));
        self.log(now, actor, entry.option("channel_id", stage.channel_id));
        Ok(Box::new(stage))
    }

    fn keep_stages(&mut self, now: Now, stages: Vec<StageInstance>, name: EventName, stage: StageInstance) {
        let fields = GuildFields { stage_instances: stages, ..GuildFields::clone(&self.structure.guild) };
        self.keep_fields(now, fields, Some(stage.channel_id), name, |_| ResourcePayload::Stage(Box::new(stage)));
    }

    pub(crate) fn delete_stage(&mut self, now: Now, actor: Actor, channel_id: ChannelId) -> CommandResult<()> {
        let context = self.in_channel(now, actor, channel_id)?;
        let mut stages = self.structure.guild.stage_instances.clone();
        let at = stages.iter().position(|stage| stage.channel_id == channel_id).ok_or(Refusal::UnknownStage)?;
        need_to_moderate(context.permissions)?;
        let stage = stages.remove(at);
        let entry = NewEntry::new(AuditAction::StageInstanceDelete, stage.id).gone(audit::of_stage(&stage));
        self.keep_stages(now, stages, EventName::StageInstanceDelete, stage);
        self.log(now, actor, entry.option("channel_id", channel_id));
        Ok(())
    }
}

fn need_to_create(guild_context: &GuildContext) -> Result<(), Refusal> {
    let any = Permissions::CREATE_GUILD_EXPRESSIONS | Permissions::MANAGE_GUILD_EXPRESSIONS;
    if guild_context.permissions.intersects(any) { Ok(()) } else { Err(Refusal::MissingPermissions) }
}

fn need_to_change(guild_context: &GuildContext, made_by: Option<UserId>) -> Result<(), Refusal> {
    let is_own = made_by.is_some_and(|user_id| guild_context.is(user_id));
    if is_own && guild_context.permissions.contains(Permissions::CREATE_GUILD_EXPRESSIONS) {
        return Ok(());
    }
    guild_context.need(Permissions::MANAGE_GUILD_EXPRESSIONS)
}

/// The creator needs CREATE_EVENTS still; of others' events, MANAGE_EVENTS is needed.
fn need_own_event(guild_context: &GuildContext, creator_id: Option<UserId>) -> Result<(), Refusal> {
    let is_own = creator_id.is_some_and(|user_id| guild_context.is(user_id));
    if is_own && guild_context.permissions.contains(Permissions::CREATE_EVENTS) {
        return Ok(());
    }
    guild_context.need(Permissions::MANAGE_EVENTS)
}

/// A stage moderator needs all of these permissions.
fn need_to_moderate(permissions: Permissions) -> Result<(), Refusal> {
    let all = Permissions::MANAGE_CHANNELS | Permissions::MUTE_MEMBERS | Permissions::MOVE_MEMBERS;
    if permissions.contains(all) { Ok(()) } else { Err(Refusal::MissingPermissions) }
}
