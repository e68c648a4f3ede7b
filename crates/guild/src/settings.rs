//! Guild settings: reads and changes them; deletes the guild.
//!
//! Owns        `Command`'s reads, `UpdateGuild`, `DeleteGuild`.
//! Invariants  a read grows with roles and channels, never with members.
//! Spec        docs/protocol/reference.md §6.11, §10.3, §10.4.

use crate::{
    audit::{self, NewEntry},
    check::GuildContext,
    command::{Actor, ChannelReply, CommandResult, GuildPatch, GuildReply, HistoryGrant, Refusal},
    community::{VANITY_URL, set_feature},
    machine::Guild,
    record::Write,
    state::presence::Presences,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, MemberTable, Payload, ReplicaUpdate, ResourcePayload, ThreadEntry};
use guildhall_model::{AuditAction, Channel, ChannelId, ChannelType, EventName, Member, Permissions, UserId};
use guildhall_stdx::Now;
use std::{collections::HashMap, mem, sync::Arc};

impl Guild {
    pub(crate) fn read_guild(&self, turn: Turn<'_>) -> CommandResult<Box<GuildReply>> {
        let guild_context = self.in_guild(turn)?;
        Ok(self.guild_reply(turn.now, &guild_context))
    }

    fn guild_reply(&self, now: Now, guild_context: &GuildContext) -> Box<GuildReply> {
        let is_visible = |channel: &Channel| match &guild_context.member {
            None => true,
            Some(member) => self.permissions_in(now, member, channel).contains(Permissions::VIEW_CHANNEL),
        };
        Box::new(GuildReply {
            structure: self.structure.clone(),
            last_message_ids: self.messages.newest().clone(),
            member_count: self.members.len() as u64,
            presence_count: self.members.online_count(),
            threads: self.threads.snapshot(),
            visible_channels: self.structure.channels.values().filter(|c| is_visible(c)).map(|c| c.id).collect(),
            permissions: guild_context.permissions,
        })
    }

    pub(crate) fn read_channel(&self, turn: Turn<'_>, channel_id: ChannelId) -> CommandResult<ChannelReply> {
        let context = self.in_channel(turn, channel_id)?;
        if context.channel.kind.is_thread() {
            return self.thread_reply(channel_id, turn.actor).map(ChannelReply::Thread);
        }
        Ok(ChannelReply::Channel(self.with_newest_message(context.channel)))
    }

    /// The channel with its newest message's id, which changes too often to be kept in it.
    pub(crate) fn with_newest_message(&self, channel: Arc<Channel>) -> Arc<Channel> {
        if channel.kind.is_thread() {
            return channel;
        }
        let last_message_id = self.messages.newest_in(channel.id);
        if channel.last_message_id == last_message_id {
            return channel;
        }
        Arc::new(Channel { last_message_id, ..Channel::clone(&channel) })
    }

    pub(crate) fn read_member(&self, turn: Turn<'_>, user_id: UserId) -> CommandResult<Arc<Member>> {
        self.in_guild(turn)?;
        Ok(self.need_member(user_id)?)
    }

    pub(crate) fn read_members(&self, turn: Turn<'_>) -> CommandResult<MemberTable> {
        self.in_guild(turn)?;
        Ok(self.members.snapshot())
    }

    pub(crate) fn authorize_history(&self, turn: Turn<'_>, channel_id: ChannelId) -> CommandResult<HistoryGrant> {
        let context = self.message_channel(turn, channel_id)?;
        Ok(HistoryGrant { may_read_history: context.may_read_history() })
    }

    /// Channels and threads whose messages the actor may search. Permissions are computed per channel; a thread costs a
    /// look-up of its channel's.
    pub(crate) fn readable_channels(&self, turn: Turn<'_>, include_nsfw: bool) -> CommandResult<Vec<ChannelId>> {
        self.in_guild(turn)?;
        let mut readable = Vec::new();
        // The rights of the actor over the threads of channels.
        let mut parents = HashMap::new();
        for channel_id in self.structure.channels.keys() {
            let Ok(context) = self.in_channel(turn, *channel_id) else { continue };
            if context.channel.nsfw && !include_nsfw {
                continue;
            }
            if context.can(Permissions::READ_MESSAGE_HISTORY) {
                parents.insert(*channel_id, context.can(Permissions::MANAGE_THREADS));
            }
            if context.channel.kind.holds_messages() && context.may_read_history() {
                readable.push(*channel_id);
            }
        }
        let is_joined = |thread: &ThreadEntry| match turn.actor {
            Actor::User(user_id) => thread.members.contains_key(&user_id),
            _ => true,
        };
        let threads = self.threads.iter().filter(|(_, thread)| {
            let of_parent = thread.channel.parent_id.and_then(|parent_id| parents.get(&parent_id));
            of_parent.is_some_and(|manages| *manages || !thread.is_private() || is_joined(thread))
        });
        readable.extend(threads.map(|(thread_id, _)| thread_id));
        readable.sort_unstable();
        Ok(readable)
    }

    pub(crate) fn update_guild(&mut self, turn: Turn<'_>, patch: &GuildPatch) -> CommandResult<Box<GuildReply>> {
        let guild_context = self.in_guild(turn)?;
        guild_context.need(Permissions::MANAGE_GUILD)?;
        let mut fields = guildhall_model::Guild::clone(&self.structure.guild);
        if let Some(owner_id) = patch.owner_id.filter(|owner_id| *owner_id != fields.owner_id) {
            if !guild_context.is_owner && !guild_context.is_system() {
                return Err(Refusal::MissingPermissions.into());
            }
            self.need_member(owner_id)?;
            fields.owner_id = owner_id;
        }
        if let Some(name) = &patch.name {
            fields.name.clone_from(name);
        }
        if let Some(description) = &patch.description {
            fields.description.clone_from(description);
        }
        if let Some(channel_id) = patch.afk_channel_id {
            self.check_special_channel(channel_id, "afk_channel_id", ChannelType::is_voice)?;
            fields.afk_channel_id = channel_id;
        }
        if let Some(channel_id) = patch.system_channel_id {
            self.check_special_channel(channel_id, "system_channel_id", |kind| kind == ChannelType::Text)?;
            fields.system_channel_id = channel_id;
        }
        fields.afk_timeout = patch.afk_timeout.unwrap_or(fields.afk_timeout);
        fields.verification_level = patch.verification_level.unwrap_or(fields.verification_level);
        let notifications = patch.default_message_notifications;
        fields.default_message_notifications = notifications.unwrap_or(fields.default_message_notifications);
        fields.explicit_content_filter = patch.explicit_content_filter.unwrap_or(fields.explicit_content_filter);
        if let Some(locale) = &patch.preferred_locale {
            fields.preferred_locale.clone_from(locale);
        }
        if let Some(code) = &patch.vanity_url_code {
            fields.vanity_url_code.clone_from(code);
            set_feature(&mut fields.features, VANITY_URL, code.is_some());
        }
        fields.widget_enabled = patch.widget_enabled.unwrap_or(fields.widget_enabled);
        if let Some(channel_id) = patch.widget_channel_id {
            self.check_special_channel(channel_id, "channel_id", |kind| kind != ChannelType::Category)?;
            fields.widget_channel_id = channel_id;
        }
        if let Some(icon) = &patch.icon {
            fields.icon = icon.as_deref().map(str::to_owned);
        }
        for (picture, field) in [
            (&patch.splash, &mut fields.splash),
            (&patch.discovery_splash, &mut fields.discovery_splash),
            (&patch.banner, &mut fields.banner),
        ] {
            if let Some(picture) = picture {
                field.clone_from(picture);
            }
        }
        if fields != *self.structure.guild {
            let entry = NewEntry::new(AuditAction::GuildUpdate, fields.id);
            let entry = entry.changed(audit::of_guild(&self.structure.guild), audit::of_guild(&fields));
            if fields.vanity_url_code != self.structure.guild.vanity_url_code {
                self.reset_vanity_uses();
            }
            self.put_fields(turn.now, fields);
            self.log(turn, entry);
        }
        // The former owner sees the guild with their remaining permissions.
        let guild_context = self.in_guild(turn)?;
        Ok(self.guild_reply(turn.now, &guild_context))
    }

    fn check_special_channel(
        &self,
        channel_id: Option<ChannelId>,
        field: &'static str,
        fits: impl Fn(ChannelType) -> bool,
    ) -> Result<(), Refusal> {
        let Some(channel_id) = channel_id else { return Ok(()) };
        let fits = self.structure.channels.get(&channel_id).is_some_and(|channel| fits(channel.kind));
        if fits { Ok(()) } else { Err(Refusal::InvalidForm(field)) }
    }

    /// Stores and publishes new base fields.
    pub(crate) fn put_fields(&mut self, now: Now, fields: guildhall_model::Guild) {
        let fields = Arc::new(fields);
        self.write(Write::PutGuild(fields.clone()));
        let replica_update = self.change_structure(now, |structure| structure.guild = fields);
        let event = self.event(EventName::GuildUpdate, AudienceRule::Members, Payload::Guild(self.structure.clone()));
        self.publish(event, replica_update);
    }

    /// Stores base fields that hold a changed resource, and publishes `name` instead of GUILD_UPDATE.
    pub(crate) fn put_embedded(
        &mut self,
        now: Now,
        fields: guildhall_model::Guild,
        rule: AudienceRule,
        name: EventName,
        resource: impl FnOnce(&Self) -> ResourcePayload,
    ) {
        let fields = Arc::new(fields);
        self.write(Write::PutGuild(fields.clone()));
        let replica_update = self.change_structure(now, |structure| structure.guild = fields);
        let resource = resource(self);
        let event = self.event(name, rule, Payload::Resource(Box::new(resource)));
        self.publish(event, replica_update);
    }

    /// Viewers of the channel; all members if there is no such channel.
    pub(crate) fn viewers_or_members(&self, channel_id: Option<ChannelId>) -> AudienceRule {
        let channel_id = channel_id.filter(|id| self.structure.channels.contains_key(id));
        channel_id.map_or(AudienceRule::Members, AudienceRule::Channel)
    }

    /// Drops all members, sessions and their state. Pending requests are refused.
    fn drop_members_and_sessions(&mut self) {
        let size = self.members.len() + self.resources.len() + self.audit.len();
        let remains = (
            mem::take(&mut self.members),
            self.relays.take_sessions(),
            mem::take(&mut self.lists),
            mem::take(&mut self.voice),
            (mem::take(&mut self.resources), mem::take(&mut self.temporary), mem::take(&mut self.audit)),
            mem::take(&mut self.threads),
            mem::replace(&mut self.presences, Presences::new(&self.limits)),
        );
        // Sessions, presences and the like are as many as members, or few.
        self.dispose(size, remains);
        for command in [self.queue.clear(), self.background.clear()].concat() {
            self.refuse(command, Refusal::UnknownGuild);
        }
    }

    pub(crate) fn delete_guild(&mut self, turn: Turn<'_>) -> CommandResult<()> {
        let guild_context = self.in_guild(turn)?;
        if !guild_context.is_owner && !guild_context.is_system() {
            return Err(Refusal::MissingPermissions.into());
        }
        self.write(Write::DeleteGuild(self.structure.id()));
        let event = self.event(EventName::GuildDelete, AudienceRule::Members, Payload::GuildGone);
        self.publish(event, ReplicaUpdate::Deleted);
        // Later attaches are refused: the account is no member.
        self.is_deleted = true;
        self.messages.forget_newest();
        self.drop_members_and_sessions();
        Ok(())
    }
}
