//! Backends: commands of a backend with its own database, beyond the commands of members.
//!
//! Owns        `BackendCommand`: objects put whole under ids that the backend chose, members in batches, events
//!             published.
//! Invariants  H1 a put of an existing equal object changes nothing and publishes nothing. H2 the rules for members'
//!             commands apply (roles exist, parents are categories, number of each). H3 a published event changes
//!             nothing in the guild's data. H4 a change of many is applied whole or refused whole. H5 an event with an
//!             id is published once while the id counts. (tests `it/backend.rs`)
//! Limits      `IMPORT_MEMBERS_MAX` members per command, so that other commands come in between, and
//!             `ROLE_CHANGES_MAX`; the rest as for members.
//! Not here    whether an id is in use in another guild, forms: `guildhall-backend`.     Spec  docs/backend-api.md.

use crate::{
    cache::CachedMessage,
    channels::is_creatable,
    command::{
        BackendCommand, CommandResult, Expected, GuildReply, IMPORT_MEMBERS_MAX, IMPORT_MESSAGES_MAX, Imported,
        JoinAudience, NewMember, PublishReply, REASSIGNED_MAX, ROLE_CHANGES_MAX, Refusal, RoleChange, RolesPut,
        Upserted, request::dispatch,
    },
    machine::Guild,
    publications::PublicationId,
    record::Write,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, BackendEvent, Event, ReplicaUpdate};
use guildhall_model::{
    Channel, ChannelId, ChannelType, EventName, Guild as GuildFields, Member, Message, MessageId, Nonce, Permissions,
    Role, RoleId, User, UserId, timestamp_of,
};
use guildhall_stdx::Now;
use std::{collections::BTreeSet, sync::Arc};

/// A backend's clock may be so far ahead of ours.
const CLOCKS_APART_MS_MAX: i64 = 60_000;

/// What became of one.
enum Put {
    Added,
    Changed,
    Unchanged,
}

fn is_still<T: PartialEq>(expected: &Expected<T>, current: Option<&Arc<T>>) -> Result<(), Refusal> {
    match (expected, current) {
        (Some(expected), current) if Some(expected) != current => Err(Refusal::Changed),
        _ => Ok(()),
    }
}

impl Guild {
    pub(crate) fn run_backend(&mut self, turn: Turn<'_>, command: &BackendCommand) -> CommandResult {
        self.in_guild(turn)?.need_system()?;
        dispatch!(command, BackendCommand, {
            PutGuild(fields, expected) => {
                is_still(expected, Some(&self.structure.guild))?;
                self.put_whole_guild(turn, fields)
            },
            PutRole(role, expected) => {
                is_still(expected, self.structure.roles.get(&role.id))?;
                self.put_whole_role(turn.now, role)
            },
            PutChannel(channel, expected) => {
                // What changes with every message is not looked at.
                let plain = |channel: &Channel| Channel { last_message_id: None, ..channel.clone() };
                let expected = expected.as_deref().map(|channel| Arc::new(plain(channel)));
                let current = self.structure.channels.get(&channel.id).map(|channel| Arc::new(plain(channel)));
                is_still(&expected, current.as_ref())?;
                self.put_whole_channel(turn.now, channel)
            },
            PutMember(new, expected) => {
                is_still(expected, self.member(new.user.id).as_ref())?;
                if !new.roles.iter().all(|role| self.structure.roles.contains_key(role)) {
                    return Err(Refusal::InvalidForm("roles").into());
                }
                let put = self.put_whole_member(turn.now, new, JoinAudience::AllMembers);
                Ok(Upserted { value: self.need_member(new.user.id)?, is_new: matches!(put, Put::Added) })
            },
            RefreshUser(user) => Ok(self.refresh_user(turn.now, user)),
            ImportMembers { members, audience } => self.import_members(turn.now, members, *audience),
            CompareMembers(members) => self.compare_members(turn.now, members),
            RemoveMembers(user_ids) => self.remove_members(turn.now, user_ids),
            ChangeRoles(changes) => self.change_roles(turn.now, changes),
            PutRoles(roles) => self.put_roles(turn.now, roles),
            SendMessage { channel_id, author, message, key } => {
                let key = key.clone().map(Nonce::Text);
                self.send_message(turn, *channel_id, author, message, key.as_ref())
            },
            ReassignMessages { channel_id, ids, to } => self.reassign_messages(turn, *channel_id, ids, to),
            ImportMessages(messages) => self.import_messages(turn, messages),
            Publish { rule, event, id } => self.publish_of_backend(turn.now, rule, event, *id),
            ;
        })
    }

    fn put_whole_guild(&mut self, turn: Turn<'_>, fields: &GuildFields) -> CommandResult<Box<GuildReply>> {
        let mut fields = GuildFields { id: self.structure.id(), ..fields.clone() };
        self.keep_features(&mut fields);
        if self.member(fields.owner_id).is_none() {
            return Err(Refusal::InvalidForm("owner_id").into());
        }
        for (special, kind, field) in [
            (fields.system_channel_id, ChannelType::Text, "system_channel_id"),
            (fields.afk_channel_id, ChannelType::Voice, "afk_channel_id"),
        ] {
            let is_kind = |id| self.structure.channels.get(&id).is_some_and(|channel| channel.kind == kind);
            if special.is_some_and(|id| !is_kind(id)) {
                return Err(Refusal::InvalidForm(field).into());
            }
        }
        if fields != *self.structure.guild {
            self.put_fields(turn.now, fields);
        }
        self.read_guild(turn)
    }

    fn put_whole_role(&mut self, now: Now, role: &Role) -> CommandResult<Upserted<Arc<Role>>> {
        let before = self.structure.roles.get(&role.id).cloned();
        let mut role = Role { permissions: role.permissions & Permissions::ALL, ..role.clone() };
        if role.id == self.structure.id().cast() {
            role = Role::everyone(self.structure.id(), role.permissions);
        } else {
            role.position = role.position.max(1);
        }
        // No field of the backend API: it stays.
        role.icon = before.as_ref().and_then(|before| before.icon.clone());
        match before {
            Some(before) if *before == role => return Ok(Upserted { value: before, is_new: false }),
            None if self.structure.roles.len() >= self.limits.roles_max => return Err(Refusal::TooManyRoles.into()),
            _ => {}
        }
        let (is_new, role) = (before.is_none(), Arc::new(role));
        let name = if is_new { EventName::GuildRoleCreate } else { EventName::GuildRoleUpdate };
        self.put_role(now, name, &role);
        Ok(Upserted { value: role, is_new })
    }

    fn put_whole_channel(&mut self, now: Now, wanted: &Channel) -> CommandResult<Upserted<Arc<Channel>>> {
        // Members who can view the channel could read the messages of the thread.
        if self.threads.get(wanted.id).is_some() {
            return Err(Refusal::InvalidForm("id").into());
        }
        let before = self.structure.channels.get(&wanted.id).cloned().map(|channel| self.with_newest_message(channel));
        if before.as_ref().is_some_and(|before| !may_become(before.kind, wanted.kind)) || !is_creatable(wanted.kind) {
            return Err(Refusal::InvalidForm("type").into());
        }
        if before.is_none() && self.structure.channels.len() >= self.limits.channels_max {
            return Err(Refusal::TooManyChannels.into());
        }
        if wanted.parent_id == Some(wanted.id) {
            return Err(Refusal::InvalidForm("parent_id").into());
        }
        self.check_parent(wanted.kind, wanted.parent_id)?;
        let overwrites = self.check_overwrites(Permissions::ALL, &[], &wanted.overwrites)?;
        let kept = before.as_deref();
        let channel = Channel {
            guild_id: self.structure.id(),
            overwrites,
            last_message_id: kept.and_then(|channel| channel.last_message_id),
            last_pin_timestamp: kept.and_then(|channel| channel.last_pin_timestamp),
            // A backend does not name these: they are of the channel's members.
            default_thread_rate_limit_per_user: kept.and_then(|channel| channel.default_thread_rate_limit_per_user),
            default_auto_archive_duration: kept.and_then(|channel| channel.default_auto_archive_duration),
            forum: kept.and_then(|channel| channel.forum.clone()),
            ..wanted.clone()
        };
        if let Some(before) = before.as_ref().filter(|before| ***before == channel) {
            return Ok(Upserted { value: before.clone(), is_new: false });
        }
        let (is_new, channel) = (before.is_none(), Arc::new(channel));
        let name = if is_new { EventName::ChannelCreate } else { EventName::ChannelUpdate };
        self.put_channel(now, name, channel.clone());
        Ok(Upserted { value: channel, is_new })
    }

    fn refresh_user(&mut self, now: Now, user: &Arc<User>) -> Option<Arc<Member>> {
        self.refresh_banned(user);
        match self.member(user.id) {
            Some(member) if member.user != *user => {
                let member = Member { user: user.clone(), ..Member::clone(&member) };
                Some(self.put_member(now, EventName::GuildMemberUpdate, member))
            }
            _ => None,
        }
    }

    fn import_members(
        &mut self,
        now: Now,
        members: &[NewMember],
        audience: JoinAudience,
    ) -> CommandResult<Box<Imported>> {
        if members.len() > IMPORT_MEMBERS_MAX {
            return Err(Refusal::InvalidForm("members").into());
        }
        let mut imported = Imported::default();
        for new in members {
            match self.put_whole_member(now, new, audience) {
                Put::Added => imported.added.push(new.user.id),
                Put::Changed => imported.changed += 1,
                Put::Unchanged => imported.unchanged += 1,
            }
        }
        Ok(Box::new(imported))
    }

    /// Relays need GUILD_MEMBER_ADD for any `audience`, in the order of their stream.
    fn put_whole_member(&mut self, now: Now, new: &NewMember, audience: JoinAudience) -> Put {
        let before = self.member(new.user.id);
        let member = self.as_put(now, new, before.as_deref());
        if before.as_ref().is_some_and(|before| **before == member) {
            return Put::Unchanged;
        }
        let Some(_) = before else {
            let rule = match audience {
                JoinAudience::AllMembers => AudienceRule::Members,
                JoinAudience::NewMember => AudienceRule::User(new.user.id),
            };
            self.put_member_for(now, EventName::GuildMemberAdd, rule, member);
            return Put::Added;
        };
        self.put_member(now, EventName::GuildMemberUpdate, member);
        Put::Changed
    }

    fn as_put(&self, now: Now, new: &NewMember, before: Option<&Member>) -> Member {
        Member {
            user: new.user.clone(),
            nick: new.nick.as_deref().map(Into::into),
            roles: self.existing_roles(&new.roles),
            joined_at: new.joined_at.or(before.as_ref().map(|before| before.joined_at)).unwrap_or(now.unix),
            deaf: new.deaf,
            mute: new.mute,
            flags: new.flags,
            communication_disabled_until: new.communication_disabled_until,
            // No fields of the backend API: they stay.
            pictures: before.and_then(|before| before.pictures.clone()),
            onboarding: before.and_then(|before| before.onboarding.clone()),
        }
    }

    fn compare_members(&self, now: Now, members: &[NewMember]) -> CommandResult<Box<Imported>> {
        let mut imported = Imported::default();
        for new in members {
            match self.member(new.user.id) {
                None => imported.added.push(new.user.id),
                Some(before) if *before == self.as_put(now, new, Some(&before)) => imported.unchanged += 1,
                Some(_) => imported.changed += 1,
            }
        }
        Ok(Box::new(imported))
    }

    fn remove_members(&mut self, now: Now, user_ids: &[UserId]) -> CommandResult<u64> {
        if user_ids.len() > IMPORT_MEMBERS_MAX {
            return Err(Refusal::InvalidForm("members").into());
        }
        let owner_id = self.structure.guild.owner_id;
        let mut removed = 0;
        for user_id in user_ids.iter().filter(|user_id| **user_id != owner_id) {
            if let Some(member) = self.member(*user_id) {
                self.take_out(now, &member);
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn change_roles(&mut self, now: Now, changes: &[(UserId, RoleChange)]) -> CommandResult<u64> {
        if changes.len() > ROLE_CHANGES_MAX {
            return Err(Refusal::InvalidForm("members").into());
        }
        let everyone: RoleId = self.structure.id().cast();
        for (user_id, change) in changes {
            self.need_member(*user_id)?;
            for role in change.named() {
                if *role == everyone {
                    return Err(Refusal::InvalidRole.into());
                }
                self.need_role(*role)?;
            }
        }
        // Nothing is refused from here on.
        let mut changed = 0;
        for (user_id, change) in changes {
            let before = self.need_member(*user_id)?;
            let mut member = Member::clone(&before);
            match change {
                RoleChange::Set(roles) => member.roles = self.existing_roles(roles),
                RoleChange::Add(role) => {
                    if let Err(at) = member.roles.binary_search(role) {
                        member.roles.insert(at, *role);
                    }
                }
                RoleChange::Remove(role) => member.roles.retain(|other| other != role),
            }
            if member != *before {
                self.put_member(now, EventName::GuildMemberUpdate, member);
                changed += 1;
            }
        }
        Ok(changed)
    }

    fn put_roles(&mut self, now: Now, roles: &[Role]) -> CommandResult<RolesPut> {
        let new_ids: BTreeSet<RoleId> =
            roles.iter().map(|role| role.id).filter(|id| !self.structure.roles.contains_key(id)).collect();
        if self.structure.roles.len() + new_ids.len() > self.limits.roles_max {
            return Err(Refusal::TooManyRoles.into());
        }
        let mut put = RolesPut::default();
        for role in roles {
            let before = self.structure.roles.get(&role.id).cloned();
            self.put_whole_role(now, role)?;
            match before {
                None => put.added += 1,
                Some(before) if self.structure.roles.get(&role.id) == Some(&before) => put.unchanged += 1,
                Some(_) => put.changed += 1,
            }
        }
        Ok(put)
    }

    fn reassign_messages(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        ids: &[MessageId],
        to: &Arc<User>,
    ) -> CommandResult<u64> {
        if ids.len() > REASSIGNED_MAX {
            return Err(Refusal::InvalidForm("messages").into());
        }
        let context = self.message_channel(turn, channel_id)?;
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(message) = self.find_message((channel_id, *id))?.map(|found| found.message.clone()) else {
                continue;
            };
            if message.author.id != to.id {
                let referenced = self.referenced_by(&message)?.flatten();
                found.push((message, referenced));
            }
        }
        // Nothing waits from here on.
        let count = found.len() as u64;
        for (message, referenced) in found {
            let key = (channel_id, message.id);
            let message = Arc::new(Message { author: to.clone(), ..Message::clone(&message) });
            self.write(Write::PutMessage(message.clone()));
            let version = self.touch();
            self.messages.change(key, version, |cached| cached.message = message.clone());
            self.publish_message(
                turn.now,
                EventName::MessageUpdate,
                &context,
                message,
                referenced,
                ReplicaUpdate::None,
            );
        }
        Ok(count)
    }

    /// Their channels' newest messages stay as they are until the guild is loaded again: relays have them, too.
    fn import_messages(&mut self, turn: Turn<'_>, messages: &[Arc<Message>]) -> CommandResult<u64> {
        if messages.len() > IMPORT_MESSAGES_MAX {
            return Err(Refusal::InvalidForm("messages").into());
        }
        for message in messages {
            self.message_channel(turn, message.channel_id)?;
        }
        // Nothing is refused from here on.
        let mut count = 0;
        for message in messages {
            let key = (message.channel_id, message.id);
            if self.messages.cached(key).is_some() {
                continue;
            }
            self.write(Write::PutMessage(message.clone()));
            let version = self.touch();
            self.messages.put(key, CachedMessage::new(message.clone()), version);
            count += 1;
        }
        Ok(count)
    }

    fn existing_roles<B: FromIterator<RoleId>>(&self, wanted: &[RoleId]) -> B {
        let everyone: RoleId = self.structure.id().cast();
        let exists = |role: &RoleId| *role != everyone && self.structure.roles.contains_key(role);
        let mut roles: Vec<RoleId> = wanted.iter().copied().filter(exists).collect();
        roles.sort_unstable();
        roles.dedup();
        roles.into_iter().collect()
    }

    fn publish_of_backend(
        &mut self,
        now: Now,
        rule: &AudienceRule,
        event: &Arc<BackendEvent>,
        id: Option<PublicationId>,
    ) -> CommandResult<PublishReply> {
        if id.is_some_and(|id| self.publications.contains(now.instant, id)) {
            return Ok(PublishReply::PublishedBefore);
        }
        match rule {
            AudienceRule::Channel(channel_id) if !self.structure.channels.contains_key(channel_id) => {
                return Err(Refusal::UnknownChannel.into());
            }
            AudienceRule::Roles(roles) => {
                for role in roles.iter() {
                    self.need_role(*role)?;
                }
            }
            _ => {}
        }
        let replica_update = self.newest_of_backend(now, rule, event);
        let event = Event::of_backend(self.structure.id(), rule.clone(), event.clone());
        if let Some(id) = id {
            self.publications.record(now.instant, id);
        }
        Ok(PublishReply::Published { relays: self.publish(event, replica_update) })
    }

    /// A message that a backend published becomes the channel's newest for passive sessions, until the guild is loaded
    /// again. Ids of the future are ignored: no later message would count as newer.
    fn newest_of_backend(&mut self, now: Now, rule: &AudienceRule, event: &BackendEvent) -> ReplicaUpdate {
        let AudienceRule::Channel(channel_id) = rule else { return ReplicaUpdate::None };
        let Some(message_id) = event.newest_in(*channel_id) else { return ReplicaUpdate::None };
        let is_news = self.messages.newest_in(*channel_id).is_none_or(|newest| newest < message_id);
        if !is_news || timestamp_of(message_id).0 > now.unix.0 + CLOCKS_APART_MS_MAX {
            return ReplicaUpdate::None;
        }
        self.messages.set_newest(*channel_id, message_id);
        ReplicaUpdate::Message(*channel_id, message_id)
    }
}

/// Text and announcement channels differ only in their followers.
fn may_become(before: ChannelType, after: ChannelType) -> bool {
    let is_text = |kind| matches!(kind, ChannelType::Text | ChannelType::Announcement);
    before == after || is_text(before) && is_text(after)
}
