//! Direct messages and groups: small guilds that are invisible as such to clients.
//!
//! Owns        differences from a guild: permitted commands, recipients, joining, leaving and closing.
//! Doors       `Guild::create_direct`; `run_direct` sees every command first; `publish_direct` takes every event.
//! Invariants  I1 only recipients may send commands, and only they receive events. I2 no event names a guild. I3 a
//!             group with recipients has one of them as owner. I4 a recipient who closed a direct message has it in
//!             their list again before they receive its next message. (tests `it/direct.rs`)
//! Limits      `Direct::RECIPIENTS_MAX` recipients, so that loops over all of them stay short.
//! Spec        docs/protocol/reference.md §6.4, §10.2; ADR 25.

use crate::{
    check::ChannelContext,
    command::{
        BackendCommand, ChannelPatch, ChannelReply, Command, CommandResult, DirectCommand, NewDirect, Refusal, Stop,
        request::dispatch,
    },
    limits::GuildLimits,
    machine::Guild,
    messages::Sending,
    outbox::Output,
    record::{GuildRecord, Write},
    turn::Turn,
};
use guildhall_guild_protocol::{Event, Payload, Published, ReplicaUpdate, ResourcePayload};
use guildhall_model::{
    Channel, ChannelId, ChannelType, Direct, DirectFields, EventName, Guild as GuildFields, GuildId, Member, Message,
    Permissions, Role, User, UserId,
};
use guildhall_stdx::Now;
use std::sync::Arc;

impl Guild {
    /// A new direct message or group; the outputs have its writes, and the events for its recipients.
    #[must_use]
    pub fn create_direct(now: Now, new: NewDirect, limits: GuildLimits, origin: u16) -> Self {
        let guild_id: GuildId = new.id.cast();
        let mut members: Vec<_> =
            new.recipients.iter().map(|user| Arc::new(Member::new(user.clone(), now.unix))).collect();
        members.sort_unstable_by_key(|member| member.user.id);
        members.dedup_by_key(|member| member.user.id);
        let kind = if new.is_group { ChannelType::GroupDm } else { ChannelType::Dm };
        let owner_id = new.recipients.first().filter(|_| new.is_group).map(|user| user.id);
        let mut channel = Channel::new(new.id, guild_id, kind, "");
        channel.direct = Some(Box::new(DirectFields { owner_id, ..DirectFields::default() }));
        let record = GuildRecord {
            // No account is the owner.
            guild: GuildFields { is_direct: true, ..GuildFields::new(guild_id, "", UserId::new(0)) },
            roles: vec![Role::everyone(guild_id, Permissions::DIRECT)],
            channels: vec![channel],
            members: members.clone(),
            resources: Vec::new(),
            nonces: Vec::new(),
        };
        let mut guild = Self::load(record, limits, origin);
        guild.write(Write::PutGuild(guild.structure.guild.clone()));
        let roles: Vec<_> = guild.structure.roles.values().cloned().collect();
        roles.into_iter().for_each(|role| guild.write(Write::PutRole(guild_id, role)));
        members.into_iter().for_each(|member| guild.write(Write::PutMember(guild_id, member)));
        let channels: Vec<_> = guild.structure.channels.values().cloned().collect();
        channels.into_iter().for_each(|channel| guild.write(Write::PutChannel(channel)));
        guild.publish_own_channel(EventName::ChannelCreate, &guild.recipient_ids());
        guild
    }

    /// It holds a direct message or a group.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.structure.guild.is_direct
    }

    /// `guild_id` of messages; none in direct messages.
    pub(crate) fn guild_of_messages(&self) -> Option<GuildId> {
        if self.is_direct() { None } else { Some(self.structure.id()) }
    }

    fn recipient_ids(&self) -> Arc<[UserId]> {
        self.members.iter().map(|entry| entry.member.user.id).collect()
    }

    fn own_channel(&self) -> Result<Arc<Channel>, Refusal> {
        self.structure.channels.values().next().cloned().ok_or(Refusal::UnknownChannel)
    }

    fn direct(&self) -> Result<Direct, Refusal> {
        let channel = self.with_newest_message(self.own_channel()?);
        Ok(Direct { channel, recipients: self.members.iter().map(|entry| entry.member.user.clone()).collect() })
    }

    /// Publishes an event of a direct message to its recipients.
    pub(crate) fn publish_direct(&mut self, event: Event) {
        let to = self.recipient_ids();
        self.publish_to_users(event.name, to, event.payload);
    }

    fn publish_to_users(&mut self, name: EventName, to: Arc<[UserId]>, payload: Payload) {
        self.touch();
        let event = Event::direct(name, to, payload);
        let published = Arc::new(Published { event, replica_update: ReplicaUpdate::None });
        self.keep_event(&published);
        self.outbox.push(Output::Users(published));
    }

    /// Publishes the channel to these readers. Each receives it without itself among the recipients.
    fn publish_own_channel(&mut self, name: EventName, readers: &[UserId]) {
        let Ok(direct) = self.direct() else { return };
        for reader in readers {
            let resource = ResourcePayload::Direct { direct: direct.clone(), reader: *reader };
            self.publish_to_users(name, [*reader].into(), Payload::Resource(Box::new(resource)));
        }
    }

    fn publish_recipient(&mut self, name: EventName, channel_id: ChannelId, user: &Arc<User>, to: Arc<[UserId]>) {
        let resource = ResourcePayload::Recipient { channel_id, user: user.clone() };
        self.publish_to_users(name, to, Payload::Resource(Box::new(resource)));
    }

    /// Handles a command to a direct message. `None`: it is handled as in any guild.
    pub(crate) fn run_direct(&mut self, turn: Turn<'_>, command: &Command) -> Option<CommandResult> {
        Some(dispatch!(command, Command, {
            ReadChannel(channel) => {
                let read = self.in_channel(turn, *channel).and_then(|_| self.direct());
                read.map(ChannelReply::Direct).map_err(Stop::from)
            },
            UpdateChannel(channel, patch) => {
                self.update_group(turn, *channel, patch).map(ChannelReply::Direct)
            },
            DeleteChannel(channel) => self.close_direct(turn, *channel).map(ChannelReply::Direct),
            RefreshMember(user) => self.refresh_recipient(turn, user).map(|()| None),
            ;
            Command::AuthorizeHistory(_)
            | Command::ReadableChannels { .. }
            | Command::AuthorizeFiles(..)
            | Command::CreateMessage(..)
            | Command::EditMessage(..)
            | Command::DeleteMessage(..)
            | Command::ExpireMessages(..)
            | Command::Pin(..)
            | Command::Unpin(..)
            | Command::ListPins(_)
            | Command::AddReaction(..)
            | Command::RemoveReaction(..)
            | Command::Vote(..)
            | Command::EndPoll(..)
            | Command::ReadInteraction(..)
            | Command::CreateResponse(..)
            | Command::EditResponse(..)
            | Command::StartTyping(_) => return None,
            Command::Backend(command)
                if matches!(**command, BackendCommand::ReassignMessages { .. } | BackendCommand::SendMessage { .. }) =>
            {
                return None;
            },
            Command::Direct(command) => self.run_direct_only(turn, command),
            Command::DeleteMessages(channel, _)
            | Command::ClearReactions(channel, ..)
            | Command::CreateThread(channel, _)
            | Command::ListArchivedThreads(channel, _)
            | Command::PutOverwrite(channel, _)
            | Command::DeleteOverwrite(channel, _)
            | Command::CreateInvite(channel, _)
            | Command::ListInvites(Some(channel))
            | Command::CreateWebhook(channel, _)
            | Command::Crosspost(channel, _)
            | Command::AddFollower(channel, _)
            | Command::Follow(channel, _)
            | Command::ListWebhooks(Some(channel)) => {
                let context = self.in_channel(turn, *channel);
                Err(context.map_or_else(Stop::from, |_| Refusal::NotInDirect.into()))
            },
            _ => Err(Refusal::UnknownGuild.into()),
        }))
    }

    fn run_direct_only(&mut self, turn: Turn<'_>, command: &DirectCommand) -> CommandResult {
        let channel_id = self.own_channel()?.id;
        let context = self.in_channel(turn, channel_id)?;
        dispatch!(command, DirectCommand, {
            Open => {
                if let Some(member) = context.member {
                    self.open_for(turn.now, |user_id| user_id == member.user.id);
                }
                self.direct().map_err(Stop::from)
            },
            AddRecipient(user) => {
                need_group(&context)?;
                self.add_recipient(turn.now, &context, user)
            },
            RemoveRecipient(user_id) => {
                need_group(&context)?;
                let owner_id = context.channel.direct.as_ref().and_then(|direct| direct.owner_id);
                let is_owner = context.member.as_ref().is_none_or(|member| Some(member.user.id) == owner_id);
                if !is_owner && !context.is(*user_id) {
                    return Err(Refusal::MissingPermissions.into());
                }
                let member = self.member(*user_id).ok_or(Refusal::UnknownUser)?;
                self.leave_group(turn.now, &context, &member);
                Ok(())
            },
            ;
        })
    }

    /// Stores the channel and puts it into the guild structure.
    fn put_direct(&mut self, now: Now, channel: Channel) {
        let channel = Arc::new(channel);
        self.write(Write::PutChannel(channel.clone()));
        self.change_structure(now, |structure| {
            Arc::make_mut(&mut structure.channels).insert(channel.id, channel);
        });
    }

    fn change_direct(&mut self, now: Now, channel: &Arc<Channel>, change: impl FnOnce(&mut DirectFields)) {
        let mut channel = Channel::clone(&self.with_newest_message(channel.clone()));
        change(channel.direct.get_or_insert_default());
        self.put_direct(now, channel);
    }

    /// Adds the direct message again to the lists of recipients that closed it, if `is_meant` selects them.
    pub(crate) fn open_for(&mut self, now: Now, is_meant: impl Fn(UserId) -> bool) {
        let Ok(channel) = self.own_channel() else { return };
        let closed = channel.direct.iter().flat_map(|direct| &direct.closed_by).copied();
        let back: Vec<UserId> = closed.filter(|user_id| is_meant(*user_id)).collect();
        if !back.is_empty() {
            self.change_direct(now, &channel, |direct| direct.closed_by.retain(|user_id| !back.contains(user_id)));
            self.publish_own_channel(EventName::ChannelCreate, &back);
        }
    }

    fn add_recipient(&mut self, now: Now, context: &ChannelContext, user: &Arc<User>) -> CommandResult<()> {
        if self.member(user.id).is_some() {
            return Ok(());
        }
        if user.bot {
            return Err(Refusal::CannotMessage.into());
        }
        if self.members.len() >= Direct::RECIPIENTS_MAX {
            return Err(Refusal::TooManyRecipients.into());
        }
        // Nothing is refused from here on.
        let before = self.recipient_ids();
        self.store_member(Member::new(user.clone(), now.unix));
        self.publish_recipient(EventName::ChannelRecipientAdd, context.channel.id, user, before);
        self.publish_own_channel(EventName::ChannelCreate, &[user.id]);
        self.note(now, context, Message::KIND_RECIPIENT_ADD, user, |message| message.mentions = vec![user.clone()]);
        Ok(())
    }

    fn leave_group(&mut self, now: Now, context: &ChannelContext, member: &Member) {
        let user = &member.user;
        self.publish_own_channel(EventName::ChannelDelete, &[user.id]);
        self.remove_entry(user.id);
        self.write(Write::DeleteMember(self.structure.id(), user.id));
        let Some(next) = self.members.iter().map(|entry| &entry.member).min_by_key(|m| (m.joined_at, m.user.id)) else {
            return self.end_direct();
        };
        let (next_id, left) = (next.user.id, self.recipient_ids());
        self.publish_recipient(EventName::ChannelRecipientRemove, context.channel.id, user, left.clone());
        if context.channel.direct.as_ref().is_some_and(|direct| direct.owner_id == Some(user.id)) {
            self.change_direct(now, &context.channel, |direct| direct.owner_id = Some(next_id));
            self.publish_own_channel(EventName::ChannelUpdate, &left);
        }
        self.note(now, context, Message::KIND_RECIPIENT_REMOVE, user, |message| message.mentions = vec![user.clone()]);
    }

    /// The last recipient left, or the operator ends it: deletes it with all its content.
    fn end_direct(&mut self) {
        self.write(Write::DeleteGuild(self.structure.id()));
        self.is_deleted = true;
    }

    /// Closes a direct message for the actor; leaves a group.
    fn close_direct(&mut self, turn: Turn<'_>, channel_id: ChannelId) -> CommandResult<Direct> {
        let context = self.in_channel(turn, channel_id)?;
        let direct = self.direct()?;
        let Some(member) = &context.member else {
            self.publish_own_channel(EventName::ChannelDelete, &self.recipient_ids());
            self.end_direct();
            return Ok(direct);
        };
        if context.channel.kind == ChannelType::GroupDm {
            self.leave_group(turn.now, &context, member);
            return Ok(direct);
        }
        let user_id = member.user.id;
        if direct.is_open_for(user_id) {
            self.change_direct(turn.now, &context.channel, |direct| direct.closed_by.push(user_id));
            self.publish_own_channel(EventName::ChannelDelete, &[user_id]);
        }
        Ok(direct)
    }

    fn update_group(&mut self, turn: Turn<'_>, channel_id: ChannelId, patch: &ChannelPatch) -> CommandResult<Direct> {
        let context = self.in_channel(turn, channel_id)?;
        need_group(&context)?;
        let before = self.with_newest_message(context.channel.clone());
        let mut channel = Channel::clone(&before);
        let fields = channel.direct.get_or_insert_default();
        if let Some(owner_id) = patch.owner_id.filter(|owner_id| fields.owner_id != Some(*owner_id)) {
            if context.member.as_ref().is_some_and(|member| fields.owner_id != Some(member.user.id)) {
                return Err(Refusal::MissingPermissions.into());
            }
            self.member(owner_id).ok_or(Refusal::InvalidRecipient)?;
            fields.owner_id = Some(owner_id);
        }
        if let Some(name) = &patch.name {
            channel.name.clone_from(name);
        }
        if channel == *before {
            return Ok(self.direct()?);
        }
        // Nothing is refused from here on.
        let name = (channel.name != before.name).then(|| channel.name.clone());
        self.put_direct(turn.now, channel);
        self.publish_own_channel(EventName::ChannelUpdate, &self.recipient_ids());
        if let (Some(member), Some(name)) = (&context.member, name) {
            self.note(turn.now, &context, Message::KIND_NAME_CHANGE, &member.user, |message| message.content = name);
        }
        Ok(self.direct()?)
    }

    /// Writes a system message about a change of the group. Its author is the actor, or `of` if there is none.
    fn note(&mut self, now: Now, context: &ChannelContext, kind: u8, of: &Arc<User>, fill: impl FnOnce(&mut Message)) {
        let author = context.member.as_ref().map_or(of, |member| &member.user).clone();
        let id = self.next_id(now);
        let mut message = Message { kind, ..Message::new(id, context.channel.id, self.guild_of_messages(), author) };
        fill(&mut message);
        self.commit_message(now, context, message, Sending::default());
    }

    /// An account in it changed. Clients learn of that by its guilds; here the next messages are signed with it.
    fn refresh_recipient(&mut self, turn: Turn<'_>, user: &Arc<User>) -> CommandResult<()> {
        self.in_guild(turn)?.need_system()?;
        let member = self.need_member(user.id)?;
        if member.user != *user {
            self.store_member(Member { user: user.clone(), ..Member::clone(&member) });
        }
        Ok(())
    }
}

fn need_group(context: &ChannelContext) -> Result<(), Refusal> {
    if context.channel.kind == ChannelType::GroupDm { Ok(()) } else { Err(Refusal::NotInDirect) }
}
