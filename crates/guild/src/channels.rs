//! Channels and their overwrites: made, changed, deleted.
//!
//! Owns        `CreateChannel`, `UpdateChannel`, `DeleteChannel`, `PutOverwrite`, `DeleteOverwrite`.
//! Invariants  F1 a parent is a category of this guild, and a category has none. F2 an overwrite of a role names one
//!             that exists; no target has two. F3 an actor changes in overwrites only bits they hold.
//! Limits      `channels_max`, `overwrites_max`. A role or category that goes touches each channel at most once.
//! Spec        docs/protocol/reference.md §5.2, §10.3, §10.4.

use crate::{
    audit::{self, NewEntry},
    check::ChannelContext,
    command::{ChannelPatch, ChannelReply, CommandResult, NewChannel, Refusal},
    machine::Guild,
    record::Write,
    state::tasks::STEP_ITEMS,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, Payload, ReplicaUpdate};
use guildhall_model::{
    AuditAction, Channel, ChannelId, ChannelType, EmojiId, EventName, ForumFields, ForumTag, Overwrite, OverwriteKind,
    Permissions,
};
use guildhall_stdx::Now;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

impl Guild {
    pub(crate) fn create_channel(&mut self, turn: Turn<'_>, new: &NewChannel) -> CommandResult<Arc<Channel>> {
        let guild_context = self.in_guild(turn)?;
        guild_context.need(Permissions::MANAGE_CHANNELS)?;
        if !is_creatable(new.kind) {
            return Err(Refusal::InvalidForm("type").into());
        }
        if !new.overwrites.is_empty() {
            guild_context.need(Permissions::MANAGE_ROLES)?;
        }
        let overwrites = self.check_overwrites(guild_context.permissions, &[], &new.overwrites)?;
        self.check_parent(new.kind, new.parent_id)?;
        // As upstream: a channel without overwrites of its own begins with those of its category.
        let category = new.parent_id.filter(|_| overwrites.is_empty()).and_then(|id| self.structure.channels.get(&id));
        let overwrites = category.map_or(overwrites, |category| category.overwrites.clone());
        if self.structure.channels.len() >= self.limits.channels_max {
            return Err(Refusal::TooManyChannels.into());
        }
        let last = self.structure.channels.values().map(|channel| channel.position).max();
        let position = new.position.unwrap_or_else(|| last.map_or(0, |last| last.saturating_add(1)));
        let channel = Arc::new(Channel {
            position,
            overwrites,
            parent_id: new.parent_id,
            topic: new.topic.clone(),
            user_limit: new.user_limit,
            ..Channel::new(self.next_id(turn.now), self.structure.id(), new.kind, &new.name)
        });
        self.put_channel(turn.now, EventName::ChannelCreate, channel.clone());
        let entry = NewEntry::new(AuditAction::ChannelCreate, channel.id);
        self.log(turn, entry.made(audit::of_channel(&channel)));
        Ok(channel)
    }

    pub(crate) fn update_channel(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        patch: &ChannelPatch,
    ) -> CommandResult<ChannelReply> {
        let context = self.in_channel(turn, channel_id)?;
        if context.channel.kind.is_thread() {
            return self.update_thread(turn, channel_id, patch).map(ChannelReply::Thread);
        }
        context.need(Permissions::MANAGE_CHANNELS)?;
        let before = self.with_newest_message(context.channel.clone());
        let mut channel = Channel::clone(&before);
        if let Some(overwrites) = &patch.overwrites {
            context.need(Permissions::MANAGE_ROLES)?;
            channel.overwrites =
                self.check_overwrites(self.grantable(turn, &context)?, &before.overwrites, overwrites)?;
        }
        if let Some(parent_id) = patch.parent_id {
            self.check_parent(channel.kind, parent_id)?;
            channel.parent_id = parent_id;
        }
        if let Some(name) = &patch.name {
            channel.name.clone_from(name);
        }
        if let Some(topic) = &patch.topic {
            if topic.as_ref().is_some_and(|topic| topic.chars().count() > topic_chars_max(channel.kind)) {
                return Err(Refusal::InvalidForm("topic").into());
            }
            channel.topic.clone_from(topic);
        }
        channel.position = patch.position.unwrap_or(channel.position);
        channel.nsfw = patch.nsfw.unwrap_or(channel.nsfw);
        channel.rate_limit_per_user = patch.rate_limit_per_user.unwrap_or(channel.rate_limit_per_user);
        if let Some(user_limit) = patch.user_limit {
            if user_limit > user_limit_max(channel.kind) {
                return Err(Refusal::InvalidForm("user_limit").into());
            }
            channel.user_limit = user_limit;
        }
        if let Some(bitrate) = patch.bitrate.filter(|_| channel.kind.is_voice()) {
            channel.bitrate = bitrate;
        }
        if let Some(seconds) = patch.default_thread_rate_limit_per_user {
            channel.default_thread_rate_limit_per_user = seconds;
        }
        if let Some(minutes) = patch.default_auto_archive_duration {
            channel.default_auto_archive_duration = minutes;
        }
        if channel.kind.holds_posts() {
            self.patch_forum(turn.now, channel.forum.get_or_insert_default(), patch)?;
        }
        if channel == *before {
            return Ok(ChannelReply::Channel(before));
        }
        let channel = Arc::new(channel);
        self.put_channel(turn.now, EventName::ChannelUpdate, channel.clone());
        self.log_channel(turn, &before, &channel);
        Ok(ChannelReply::Channel(channel))
    }

    /// What of a channel was changed, its overwrites apart. A new position alone is not worth an entry, as upstream.
    pub(crate) fn log_channel(&mut self, turn: Turn<'_>, before: &Channel, after: &Channel) {
        let entry = NewEntry::new(AuditAction::ChannelUpdate, after.id);
        let entry = entry.changed(audit::of_channel(before), audit::of_channel(after));
        if entry.has_changes() {
            self.log(turn, entry);
        }
        self.log_overwrites(turn, before, after);
    }

    /// Tags keep their ids; a tag with an id that the forum does not know gets a new one.
    fn patch_forum(&mut self, now: Now, forum: &mut ForumFields, patch: &ChannelPatch) -> Result<(), Refusal> {
        if let Some(wanted) = &patch.available_tags {
            let mut tags: Vec<ForumTag> = Vec::with_capacity(wanted.len());
            for tag in wanted {
                self.check_emoji_id(tag.emoji_id, "available_tags")?;
                let is_known = forum.tag(tag.id).is_some() && tags.iter().all(|other| other.id != tag.id);
                let id = if is_known { tag.id } else { self.next_id(now) };
                tags.push(ForumTag { id, ..tag.clone() });
            }
            forum.available_tags = tags;
        }
        if let Some(emoji) = &patch.default_reaction_emoji {
            self.check_emoji_id(emoji.as_ref().and_then(|emoji| emoji.emoji_id), "default_reaction_emoji")?;
            forum.default_reaction_emoji.clone_from(emoji);
        }
        forum.default_sort_order = patch.default_sort_order.unwrap_or(forum.default_sort_order);
        forum.default_forum_layout = patch.default_forum_layout.unwrap_or(forum.default_forum_layout);
        forum.flags = patch.forum_flags.unwrap_or(forum.flags);
        Ok(())
    }

    fn check_emoji_id(&self, id: Option<EmojiId>, field: &'static str) -> Result<(), Refusal> {
        let is_own = |id: EmojiId| self.structure.guild.emojis.iter().any(|own| own.id == id);
        if id.is_none_or(is_own) { Ok(()) } else { Err(Refusal::InvalidForm(field)) }
    }

    /// Stores and publishes a channel that is new or changed, to all members, even those who cannot view it.
    pub(crate) fn put_channel(&mut self, now: Now, name: EventName, channel: Arc<Channel>) {
        self.write(Write::PutChannel(channel.clone()));
        let replica_update = self.change_structure(now, |structure| {
            Arc::make_mut(&mut structure.channels).insert(channel.id, channel.clone());
        });
        let event = self.event(name, AudienceRule::Members, Payload::Channel(channel));
        self.publish(event, replica_update);
    }

    pub(crate) fn delete_channel(&mut self, turn: Turn<'_>, channel_id: ChannelId) -> CommandResult<ChannelReply> {
        let context = self.in_channel(turn, channel_id)?;
        if context.channel.kind.is_thread() {
            return self.delete_thread(turn, channel_id).map(ChannelReply::Thread);
        }
        context.need(Permissions::MANAGE_CHANNELS)?;
        let channel = self.with_newest_message(context.channel);
        // While relays still know who can view it.
        if self.voice.count_in(channel_id) > STEP_ITEMS {
            return self.delete_crowded_channel(turn, channel_id);
        }
        self.empty_voice(channel_id, STEP_ITEMS);
        self.end_events_in(turn.now, channel_id);

        let children = self.structure.channels.values().filter(|child| child.parent_id == Some(channel_id)).cloned();
        let children: BTreeMap<_, _> = children
            .map(|child| {
                let child = Channel { parent_id: None, ..Channel::clone(&self.with_newest_message(child)) };
                (child.id, Arc::new(child))
            })
            .collect();
        // Its viewers are sent the end of its stage while it is still theirs to view.
        if let Ok(at) = self.stage_at(channel_id) {
            self.end_stage(turn, at);
        }
        self.forget_channel_threads(channel_id);
        self.write(Write::DeleteChannel(self.structure.id(), channel_id));
        children.values().for_each(|child| self.write(Write::PutChannel(child.clone())));
        let replica_update = self.change_structure(turn.now, |structure| {
            let channels = Arc::make_mut(&mut structure.channels);
            channels.remove(&channel_id);
            channels.extend(children.clone());
        });
        self.forget_channel_resources(channel_id);
        self.messages.forget_channel(channel_id);
        let event = self.event(EventName::ChannelDelete, AudienceRule::Members, Payload::Channel(channel.clone()));
        self.publish(event, replica_update);
        for child in children.into_values() {
            let event = self.event(EventName::ChannelUpdate, AudienceRule::Members, Payload::Channel(child));
            self.publish(event, ReplicaUpdate::None);
        }
        self.forget_special_channel(turn.now, channel_id);
        let entry = NewEntry::new(AuditAction::ChannelDelete, channel_id);
        self.log(turn, entry.gone(audit::of_channel(&channel)));
        Ok(ChannelReply::Channel(channel))
    }

    /// The guild's own fields do not point at a channel that is gone.
    fn forget_special_channel(&mut self, now: Now, channel_id: ChannelId) {
        let mut fields = guildhall_model::Guild::clone(&self.structure.guild);
        let specials = [&mut fields.afk_channel_id, &mut fields.system_channel_id, &mut fields.widget_channel_id];
        for special in specials {
            *special = special.filter(|id| *id != channel_id);
        }
        if fields != *self.structure.guild {
            self.put_fields(now, fields);
        }
    }

    pub(crate) fn put_overwrite(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        overwrite: Overwrite,
    ) -> CommandResult<()> {
        let context = self.in_channel(turn, channel_id)?;
        need_own_overwrites(&context)?;
        context.need(Permissions::MANAGE_ROLES)?;
        let mut overwrites = context.channel.overwrites.clone();
        match overwrites.iter_mut().find(|before| before.target == overwrite.target) {
            Some(before) => *before = overwrite,
            None => overwrites.push(overwrite),
        }
        self.replace_overwrites(turn, &context, &overwrites)
    }

    pub(crate) fn delete_overwrite(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        target: OverwriteKind,
    ) -> CommandResult<()> {
        let context = self.in_channel(turn, channel_id)?;
        need_own_overwrites(&context)?;
        context.need(Permissions::MANAGE_ROLES)?;
        let mut overwrites = context.channel.overwrites.clone();
        overwrites.retain(|overwrite| overwrite.target != target);
        if overwrites.len() == context.channel.overwrites.len() {
            return Err(Refusal::UnknownOverwrite.into());
        }
        self.replace_overwrites(turn, &context, &overwrites)
    }

    fn replace_overwrites(
        &mut self,
        turn: Turn<'_>,
        context: &ChannelContext,
        overwrites: &[Overwrite],
    ) -> CommandResult<()> {
        let before = self.with_newest_message(context.channel.clone());
        let overwrites = self.check_overwrites(self.grantable(turn, context)?, &before.overwrites, overwrites)?;
        if overwrites != before.overwrites {
            let channel = Arc::new(Channel { overwrites, ..Channel::clone(&before) });
            self.put_channel(turn.now, EventName::ChannelUpdate, channel.clone());
            self.log_overwrites(turn, &before, &channel);
        }
        Ok(())
    }

    /// Permissions that an actor may grant in a channel: those that they have there or in the guild.
    fn grantable(&self, turn: Turn<'_>, context: &ChannelContext) -> Result<Permissions, Refusal> {
        Ok(self.in_guild(turn)?.permissions | context.permissions)
    }

    /// The overwrites as they will be kept: bits in use only, of two for one target the last.
    pub(crate) fn check_overwrites(
        &self,
        held: Permissions,
        before: &[Overwrite],
        wanted: &[Overwrite],
    ) -> Result<Vec<Overwrite>, Refusal> {
        if wanted.len() > self.limits.overwrites_max {
            return Err(Refusal::TooManyOverwrites);
        }
        let mut overwrites: Vec<Overwrite> = Vec::with_capacity(wanted.len());
        let mut places: HashMap<OverwriteKind, usize> = HashMap::with_capacity(wanted.len());
        for wanted in wanted {
            match wanted.target {
                OverwriteKind::Role(role_id) => drop(self.need_role(role_id)?),
                // A client would show it as the role's.
                OverwriteKind::Member(user_id) if self.structure.roles.contains_key(&user_id.cast()) => {
                    if before.iter().all(|before| before.target != wanted.target) {
                        return Err(Refusal::UnknownMember);
                    }
                }
                OverwriteKind::Member(_) => {}
            }
            let allow = wanted.allow & Permissions::ALL;
            let deny = wanted.deny & Permissions::ALL;
            let overwrite = Overwrite { target: wanted.target, allow, deny };
            let place = *places.entry(overwrite.target).or_insert(overwrites.len());
            match overwrites.get_mut(place) {
                Some(other) => *other = overwrite,
                None => overwrites.push(overwrite),
            }
        }
        let mut changes: HashMap<OverwriteKind, (Overwrite, Overwrite)> = HashMap::with_capacity(overwrites.len());
        let none = |target| Overwrite { target, allow: Permissions::NONE, deny: Permissions::NONE };
        let nothing = |overwrite: &Overwrite| (none(overwrite.target), none(overwrite.target));
        for was in before {
            changes.entry(was.target).or_insert(nothing(was)).0 = *was;
        }
        for is in &overwrites {
            changes.entry(is.target).or_insert(nothing(is)).1 = *is;
        }
        for (was, is) in changes.into_values() {
            let changed = Permissions((was.allow.0 ^ is.allow.0) | (was.deny.0 ^ is.deny.0));
            let needs_administrator = changed.contains(Permissions::MANAGE_ROLES);
            if !held.contains(changed) || needs_administrator && !held.contains(Permissions::ADMINISTRATOR) {
                return Err(Refusal::MissingPermissions);
            }
        }
        Ok(overwrites)
    }

    pub(crate) fn check_parent(&self, kind: ChannelType, parent_id: Option<ChannelId>) -> Result<(), Refusal> {
        let Some(parent_id) = parent_id else { return Ok(()) };
        let parent = self.structure.channels.get(&parent_id);
        let is_category = parent.is_some_and(|parent| parent.kind == ChannelType::Category);
        if is_category && kind != ChannelType::Category { Ok(()) } else { Err(Refusal::InvalidForm("parent_id")) }
    }
}

/// Characters of a topic; in a forum it has the guidelines for posts.
fn topic_chars_max(kind: ChannelType) -> usize {
    if kind.holds_posts() { 4_096 } else { 1_024 }
}

fn user_limit_max(kind: ChannelType) -> u16 {
    if kind == ChannelType::Stage { 10_000 } else { 99 }
}

/// Threads have those of their parents.
fn need_own_overwrites(context: &ChannelContext) -> Result<(), Refusal> {
    if context.channel.kind.is_thread() { Err(Refusal::InvalidForm("permission_overwrites")) } else { Ok(()) }
}

/// Whether a guild can create channels of this kind. Threads and direct messages are created otherwise.
pub(crate) fn is_creatable(kind: ChannelType) -> bool {
    matches!(
        kind,
        ChannelType::Text
            | ChannelType::Voice
            | ChannelType::Category
            | ChannelType::Announcement
            | ChannelType::Stage
            | ChannelType::Forum
            | ChannelType::Media
    )
}
