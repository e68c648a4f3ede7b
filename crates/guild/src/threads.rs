//! Threads: creation, membership, changes, archiving, deletion.
//!
//! Owns        the thread part of `UpdateChannel` and `DeleteChannel`; storing, counting and publishing threads. The
//!             modules below: creation, members, lists.
//! Invariants  T1 a thread's parent is a channel of the guild; deleting it deletes the thread. T2 exactly the members
//!             of a private thread, and members who may manage the parent's threads, receive its events. T3 an archived
//!             thread accepts a new message, which reopens it, and deletions; nothing else. T4 in a locked thread
//!             members without MANAGE_THREADS have `LOCKED` only; if it is also archived, they cannot delete. T5 a post
//!             has tags of its own forum. (tests `s17_*`, `s18_*` in `guildhall`)
//! Limits      `threads_max` in total, `active_threads_max` open, `thread_members_max` in each. `STEP_ITEMS` of them
//!             are archived by time at once.
//! Not here    archiving by time: `archive`.
//! Spec        docs/protocol/reference.md §5.2, §6.5, §7.2, §10.3.

mod begin;
mod listing;
mod members;

use crate::{
    audit::{self, NewEntry},
    check::ChannelContext,
    command::{Actor, ChannelPatch, CommandResult, Refusal, ThreadReply},
    machine::Guild,
    record::Write,
    state::threads::{is_active, is_counted},
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, Payload, ReplicaUpdate, ResourcePayload, ThreadEntry, ThreadEvent};
use guildhall_model::{
    AuditAction, Channel, ChannelId, ChannelType, EventName, ForumFields, ForumTag, Id, Message, Permissions,
    ResourceKey, ResourceKind, ThreadMember, UserId,
};
use guildhall_stdx::Now;
use std::{collections::BTreeMap, sync::Arc};

/// Permissions in a locked thread, for members without MANAGE_THREADS. As upstream.
const LOCKED: Permissions = Permissions(
    Permissions::VIEW_CHANNEL.0
        | Permissions::READ_MESSAGE_HISTORY.0
        | Permissions::ADD_REACTIONS.0
        | Permissions::USE_EXTERNAL_EMOJIS.0,
);

pub(crate) use begin::PostAuthor;

type Members = Arc<BTreeMap<UserId, ThreadMember>>;

/// Right by which an actor changes the tags of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagRight {
    /// Without moderated tags.
    Member,
    /// MANAGE_THREADS.
    Moderator,
}

impl TagRight {
    fn of(context: &ChannelContext) -> Self {
        if context.can(Permissions::MANAGE_THREADS) { Self::Moderator } else { Self::Member }
    }
}

impl Guild {
    /// A thread that the actor can view. Permissions are those of the parent, except for writing and locks.
    pub(crate) fn in_thread(&self, turn: Turn<'_>, thread_id: ChannelId) -> Result<ChannelContext, Refusal> {
        let thread = self.threads.get(thread_id).ok_or(Refusal::UnknownChannel)?;
        let parent_id = thread.channel.parent_id.ok_or(Refusal::UnknownChannel)?;
        let parent = self.in_channel(turn, parent_id)?;
        let is_in = parent.member.as_ref().is_none_or(|member| thread.members.contains_key(&member.user.id));
        if thread.is_private() && !is_in && !parent.can(Permissions::MANAGE_THREADS) {
            return Err(Refusal::MissingAccess);
        }
        let mut permissions = match &parent.member {
            Some(member) => {
                self.structure.thread_permissions(self.structure.standing(member, turn.now.unix), &parent.channel)
            }
            None => parent.permissions,
        };
        if is_locked(&thread.channel) && !parent.can(Permissions::MANAGE_THREADS) {
            permissions = permissions & LOCKED;
        }
        Ok(ChannelContext { channel: thread.channel.clone(), permissions, ..parent })
    }

    fn need_thread(&self, context: &ChannelContext) -> Result<&ThreadEntry, Refusal> {
        self.threads.get(context.channel.id).ok_or(Refusal::UnknownChannel)
    }

    /// Whether anything except messages may be written there (T3).
    pub(crate) fn need_open(&self, context: &ChannelContext) -> Result<(), Refusal> {
        match &context.channel.thread {
            Some(thread) if thread.archived => Err(Refusal::ArchivedThread),
            _ => Ok(()),
        }
    }

    /// Whether a message may be written there (T4).
    pub(crate) fn need_unlocked(&self, context: &ChannelContext) -> Result<(), Refusal> {
        if is_locked(&context.channel) && !context.can(Permissions::MANAGE_THREADS) {
            return Err(Refusal::LockedThread);
        }
        Ok(())
    }

    /// Whether a webhook may write there: a thread that is archived and locked stays archived (T4).
    pub(crate) fn need_reopenable(&self, context: &ChannelContext) -> Result<(), Refusal> {
        match &context.channel.thread {
            Some(thread) if thread.archived && thread.locked => Err(Refusal::LockedThread),
            _ => Ok(()),
        }
    }

    /// Whether a message may be deleted there (T4).
    pub(crate) fn need_deletable(&self, context: &ChannelContext) -> Result<(), Refusal> {
        if is_locked(&context.channel) && !context.can(Permissions::MANAGE_THREADS) {
            self.need_open(context)
        } else {
            Ok(())
        }
    }

    /// Tags of a post after a change (T5). `before` are its current tags; one that the forum no longer has is dropped.
    pub(crate) fn check_tags(
        parent: &Channel,
        before: &[Id<()>],
        wanted: &[Id<()>],
        right: TagRight,
    ) -> Result<Vec<Id<()>>, Refusal> {
        const FIELD: &str = "applied_tags";
        let none = ForumFields::default();
        let forum = match &parent.forum {
            Some(forum) => &**forum,
            None if parent.kind.holds_posts() || wanted.is_empty() => &none,
            None => return Err(Refusal::InvalidForm(FIELD)),
        };
        let mut tags: Vec<Id<()>> = Vec::with_capacity(wanted.len());
        for id in wanted {
            match forum.tag(*id) {
                Some(_) if tags.contains(id) => {}
                Some(_) => tags.push(*id),
                None if before.contains(id) => {}
                None => return Err(Refusal::InvalidForm(FIELD)),
            }
        }
        let is_changed = |tag: &&ForumTag| before.contains(&tag.id) != tags.contains(&tag.id);
        if right == TagRight::Member && forum.available_tags.iter().filter(is_changed).any(|tag| tag.moderated) {
            return Err(Refusal::MissingPermissions);
        }
        if forum.flags & ForumFields::REQUIRE_TAG != 0 && tags.is_empty() && right == TagRight::Member {
            return Err(Refusal::TagRequired);
        }
        Ok(tags)
    }

    pub(crate) fn thread_reply(&self, thread_id: ChannelId, actor: Actor) -> CommandResult<ThreadReply> {
        let entry = self.threads.get(thread_id).cloned().ok_or(Refusal::UnknownChannel)?;
        let own = actor.user_id().and_then(|user_id| entry.members.get(&user_id).copied());
        Ok(Box::new((entry, own)))
    }

    /// Stores a thread in its current state.
    pub(crate) fn keep_thread(&mut self, entry: ThreadEntry) -> ReplicaUpdate {
        self.touch();
        ReplicaUpdate::Thread(entry.channel.id, Some(self.threads.put(entry)))
    }

    pub(crate) fn thread_rule(entry: &ThreadEntry) -> AudienceRule {
        let parent = entry.channel.parent_id.unwrap_or(entry.channel.id);
        AudienceRule::Thread { parent, thread: entry.channel.id, is_private: entry.is_private(), only: None }
    }

    /// Audience of an event about a thread that only one of its viewers gets.
    fn thread_rule_of(entry: &ThreadEntry, user_id: UserId) -> AudienceRule {
        let parent = entry.channel.parent_id.unwrap_or(entry.channel.id);
        AudienceRule::Thread { parent, thread: entry.channel.id, is_private: entry.is_private(), only: Some(user_id) }
    }

    fn publish_thread(
        &mut self,
        name: EventName,
        entry: &ThreadEntry,
        resource: ResourcePayload,
        replica_update: ReplicaUpdate,
    ) {
        let event = self.event(name, Self::thread_rule(entry), Payload::Resource(Box::new(resource)));
        self.publish(event, replica_update);
    }

    /// Publishes an event about a thread to one account.
    fn publish_thread_to(&mut self, name: EventName, entry: &ThreadEntry, user_id: UserId, resource: ResourcePayload) {
        let event = self.event(name, Self::thread_rule_of(entry, user_id), Payload::Resource(Box::new(resource)));
        self.publish(event, ReplicaUpdate::None);
    }

    /// Counts a message written in a thread. Returns the replica update.
    pub(crate) fn thread_after_message(
        &mut self,
        context: &ChannelContext,
        message: &Message,
    ) -> Option<ReplicaUpdate> {
        let entry = self.threads.get(context.channel.id)?.clone();
        let mut channel = Channel::clone(&entry.channel);
        channel.last_message_id = Some(message.id);
        let thread = channel.thread.as_mut()?;
        if is_counted(message) {
            thread.message_count = thread.message_count.saturating_add(1);
        }
        if message.kind != Message::KIND_THREAD_STARTER {
            thread.total_message_sent = thread.total_message_sent.saturating_add(1);
        }
        let entry = ThreadEntry { channel: Arc::new(channel), ..entry };
        self.write(Write::PutChannel(entry.channel.clone()));
        Some(self.keep_thread(entry))
    }

    /// Subtracts deleted messages of a thread. The total of messages ever sent stays.
    pub(crate) fn thread_after_deletion(&mut self, context: &ChannelContext, counted: usize) -> ReplicaUpdate {
        let Some(entry) = self.threads.get(context.channel.id).filter(|_| counted > 0).cloned() else {
            return ReplicaUpdate::None;
        };
        let mut channel = Channel::clone(&entry.channel);
        let Some(thread) = channel.thread.as_mut() else { return ReplicaUpdate::None };
        thread.message_count = thread.message_count.saturating_sub(counted as u32);
        let entry = ThreadEntry { channel: Arc::new(channel), ..entry };
        self.write(Write::PutChannel(entry.channel.clone()));
        self.keep_thread(entry)
    }

    /// Reopens an archived thread before a message is written in it.
    pub(crate) fn open_thread(&mut self, now: Now, context: &ChannelContext) {
        let Some(entry) = self.threads.get(context.channel.id).cloned() else { return };
        if !entry.channel.thread.as_ref().is_some_and(|thread| thread.archived) {
            return;
        }
        let mut channel = Channel::clone(&entry.channel);
        if let Some(thread) = &mut channel.thread {
            (thread.archived, thread.archive_timestamp) = (false, now.unix);
        }
        self.put_thread(now, &entry, channel);
    }

    /// Stores and publishes a changed thread.
    pub(crate) fn put_thread(&mut self, now: Now, before: &ThreadEntry, channel: Channel) {
        let was_active = is_active(&before.channel);
        let is_active = is_active(&channel);
        let entry = self.threads.change(now, before, channel);
        self.write(Write::PutChannel(entry.channel.clone()));
        let replica_update = ReplicaUpdate::Thread(entry.channel.id, Some(entry.clone()));
        let event = ThreadEvent { entry: entry.clone(), own: None, newly_created: false };
        self.publish_thread(EventName::ThreadUpdate, &entry, ResourcePayload::Thread(event), replica_update);
        if is_active && !was_active {
            // Clients forget archived threads; after reopening, connected members receive their membership again.
            let context: Vec<_> =
                entry.members.values().filter(|of| self.relays.has_sessions(of.user_id)).copied().collect();
            for member in context {
                let resource = ResourcePayload::ThreadMember(member);
                self.publish_thread_to(EventName::ThreadMemberUpdate, &entry, member.user_id, resource);
            }
        }
    }

    /// MANAGE_THREADS allows every change. The creator may change name, tags, duration and archived state;
    /// others may reopen.
    pub(crate) fn update_thread(
        &mut self,
        turn: Turn<'_>,
        thread_id: ChannelId,
        patch: &ChannelPatch,
    ) -> CommandResult<ThreadReply> {
        let context = self.in_thread(turn, thread_id)?;
        let entry = self.need_thread(&context)?.clone();
        let mut channel = Channel::clone(&entry.channel);
        let Some(thread) = &mut channel.thread else { return Err(Refusal::UnknownChannel.into()) };
        let may_manage = context.can(Permissions::MANAGE_THREADS);
        if !may_manage {
            let is_owner = context.is(thread.owner_id);
            let wants_more = patch.locked.is_some()
                || patch.rate_limit_per_user.is_some()
                || (patch.invitable.is_some() || patch.applied_tags.is_some()) && !is_owner
                || (patch.name.is_some() || patch.auto_archive_duration.is_some()) && !is_owner
                || patch.archived == Some(true) && !is_owner;
            if wants_more {
                return Err(Refusal::MissingPermissions.into());
            }
            self.need_unlocked(&context)?;
            context.need(Permissions::SEND_MESSAGES)?;
        }
        if thread.archived && patch.archived != Some(false) {
            return Err(Refusal::ArchivedThread.into());
        }
        if let Some(archived) = patch.archived.filter(|archived| *archived != thread.archived) {
            if !archived && self.threads.active_count() >= self.limits.active_threads_max {
                return Err(Refusal::TooManyThreads.into());
            }
            (thread.archived, thread.archive_timestamp) = (archived, turn.now.unix);
        }
        thread.locked = patch.locked.unwrap_or(thread.locked);
        thread.auto_archive_duration = patch.auto_archive_duration.unwrap_or(thread.auto_archive_duration);
        if channel.kind == ChannelType::PrivateThread {
            thread.invitable = patch.invitable.unwrap_or(thread.invitable);
        }
        if let Some(tags) = &patch.applied_tags {
            let parent =
                channel.parent_id.and_then(|id| self.structure.channels.get(&id)).ok_or(Refusal::UnknownChannel)?;
            thread.applied_tags = Self::check_tags(parent, &thread.applied_tags, tags, TagRight::of(&context))?;
        }
        if let Some(name) = &patch.name {
            channel.name.clone_from(name);
        }
        channel.rate_limit_per_user = patch.rate_limit_per_user.unwrap_or(channel.rate_limit_per_user);
        if channel != *entry.channel {
            let logged = NewEntry::new(AuditAction::ThreadUpdate, thread_id);
            let logged = logged.changed(audit::of_channel(&entry.channel), audit::of_channel(&channel));
            self.put_thread(turn.now, &entry, channel);
            self.log(turn, logged);
        }
        self.thread_reply(thread_id, turn.actor)
    }

    pub(crate) fn delete_thread(&mut self, turn: Turn<'_>, thread_id: ChannelId) -> CommandResult<ThreadReply> {
        let context = self.in_thread(turn, thread_id)?;
        context.need(Permissions::MANAGE_THREADS)?;
        let entry = self.need_thread(&context)?.clone();
        self.forget_thread(&entry);
        let resource = ResourcePayload::ThreadGone(entry.channel.clone());
        self.publish_thread(EventName::ThreadDelete, &entry, resource, ReplicaUpdate::Thread(thread_id, None));
        let logged = NewEntry::new(AuditAction::ThreadDelete, thread_id);
        self.log(turn, logged.gone(audit::of_channel(&entry.channel)));
        Ok(Box::new((entry, None)))
    }

    fn forget_thread(&mut self, entry: &ThreadEntry) {
        let thread_id = entry.channel.id;
        self.threads.remove(entry);
        self.write(Write::DeleteChannel(self.structure.id(), thread_id));
        let members = ResourceKey::whole(ResourceKind::ThreadMember, thread_id.get());
        self.write(Write::DeleteResources(self.structure.id(), members));
        self.forget_channel_pins(thread_id);
        self.messages.forget_channel(thread_id);
    }

    /// Deletes the threads of a channel before the channel. Relays do the same by themselves.
    pub(crate) fn forget_channel_threads(&mut self, parent_id: ChannelId) {
        let threads = self.threads.iter().filter(|(_, entry)| entry.channel.parent_id == Some(parent_id));
        let threads: Vec<_> = threads.map(|(_, entry)| entry.clone()).collect();
        threads.iter().for_each(|entry| self.forget_thread(entry));
    }
}

fn is_locked(channel: &Channel) -> bool {
    channel.thread.as_ref().is_some_and(|thread| thread.locked)
}
