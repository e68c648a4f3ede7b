//! Members of threads: added, joined by writing or by a mention, left, removed.
//!
//! Owns        `AddThreadMember`, `RemoveThreadMember`.
//! Limits      `thread_members_max`.

use crate::{
    check::ChannelContext,
    command::{Actor, CommandResult, Refusal},
    machine::Guild,
    turn::Turn,
};
use guildhall_guild_protocol::{Payload, ReplicaUpdate, ResourcePayload, ThreadEntry, ThreadEvent};
use guildhall_model::{
    ChannelId, EventName, GuildResource, Permissions, ResourceKey, ResourceKind, ThreadMember, User, UserId,
};
use guildhall_stdx::Now;
use std::sync::Arc;

/// Change of an account's membership in a thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum Membership {
    Begun(ThreadMember),
    Ended(UserId),
}

impl Guild {
    /// A thread that the actor can view, if it is open to changes of its members.
    fn in_open_thread(&self, turn: Turn<'_>, thread_id: ChannelId) -> Result<(ChannelContext, ThreadEntry), Refusal> {
        let context = self.in_thread(turn, thread_id)?;
        self.need_open(&context)?;
        let entry = self.need_thread(&context)?.clone();
        Ok((context, entry))
    }

    /// Adds a member to a thread. An actor who can view the thread can join it; adding another account also needs
    /// SEND_MESSAGES, and in a private thread `invitable`, ownership or MANAGE_THREADS.
    pub(crate) fn add_thread_member(
        &mut self,
        turn: Turn<'_>,
        thread_id: ChannelId,
        user_id: UserId,
    ) -> CommandResult<()> {
        let (context, entry) = self.in_open_thread(turn, thread_id)?;
        context.need_free()?;
        if !context.is(user_id) {
            need_to_invite(&context, &entry)?;
            // The added member must be able to view the thread.
            self.need_member(user_id)?;
            let parent_id = entry.channel.parent_id.ok_or(Refusal::UnknownChannel)?;
            self.in_channel(turn.by(Actor::User(user_id)), parent_id)?;
        }
        if entry.members.contains_key(&user_id) {
            return Ok(());
        }
        if entry.members.len() >= self.limits.thread_members_max {
            return Err(Refusal::TooManyThreadMembers.into());
        }
        self.add_to_thread(turn.now, &entry, user_id);
        Ok(())
    }

    /// Oneself; others with MANAGE_THREADS, or by the creator of a private thread.
    pub(crate) fn remove_thread_member(
        &mut self,
        turn: Turn<'_>,
        thread_id: ChannelId,
        user_id: UserId,
    ) -> CommandResult<()> {
        let (context, entry) = self.in_open_thread(turn, thread_id)?;
        if !context.is(user_id) {
            let is_owner = entry.channel.thread.as_ref().is_some_and(|thread| context.is(thread.owner_id));
            if !(entry.is_private() && is_owner) {
                context.need(Permissions::MANAGE_THREADS)?;
            }
        }
        if !entry.members.contains_key(&user_id) {
            return Err(Refusal::UnknownMember.into());
        }
        self.take_from_thread(&entry, user_id);
        Ok(())
    }

    /// An author of a message joins the thread.
    pub(crate) fn join_by_writing(&mut self, now: Now, context: &ChannelContext, user_id: UserId) {
        let Some(entry) = self.threads.get(context.channel.id).cloned() else { return };
        if !entry.members.contains_key(&user_id) && entry.members.len() < self.limits.thread_members_max {
            self.add_to_thread(now, &entry, user_id);
        }
    }

    /// Members that a message mentions join its thread if its author may add them, and they may view the parent. A
    /// mentioned role adds no members, because finding them is linear in the guild's. A webhook has no permissions, so
    /// it adds no members to a private thread without `invitable`. Costs O(mentions).
    pub(crate) fn join_by_mention(&mut self, now: Now, context: &ChannelContext, mentioned: &[Arc<User>]) {
        let Some(entry) = self.threads.get(context.channel.id) else { return };
        let is_invitable = entry.channel.thread.as_ref().is_some_and(|thread| thread.invitable);
        if context.member.is_none() && entry.is_private() && !is_invitable {
            return;
        }
        let Some(parent_id) = entry.channel.parent_id.filter(|_| need_to_invite(context, entry).is_ok()) else {
            return;
        };
        for user in mentioned {
            let Some(entry) = self.threads.get(context.channel.id).cloned() else { return };
            let has_room = entry.members.len() < self.limits.thread_members_max;
            if has_room
                && !entry.members.contains_key(&user.id)
                && self.in_channel(Turn::new(now, Actor::User(user.id)), parent_id).is_ok()
            {
                self.add_to_thread(now, &entry, user.id);
            }
        }
    }

    fn add_to_thread(&mut self, now: Now, entry: &ThreadEntry, user_id: UserId) {
        let member = ThreadMember { thread_id: entry.channel.id, user_id, join_timestamp: now.unix, flags: 0 };
        let entry = self.threads.add_member(entry, member);
        self.put_resource(GuildResource::ThreadMember(member));
        self.publish_membership(&entry, Membership::Begun(member));
        // To a member who just joined, the thread is new.
        let event = ThreadEvent { entry: entry.clone(), own: Some(member), newly_created: false };
        self.publish_thread_to(EventName::ThreadCreate, &entry, user_id, ResourcePayload::Thread(event));
    }

    fn take_from_thread(&mut self, entry: &ThreadEntry, user_id: UserId) {
        let entry = self.threads.remove_member(entry, user_id);
        let key = ResourceKey { kind: ResourceKind::ThreadMember, id: entry.channel.id.get(), part: user_id.get() };
        self.delete_resource(key);
        self.publish_membership(&entry, Membership::Ended(user_id));
    }

    /// Removes a former member of the guild from all threads.
    pub(crate) fn take_from_threads(&mut self, user_id: UserId) {
        let threads = self.threads.member_threads(user_id);
        threads.iter().for_each(|entry| self.take_from_thread(entry, user_id));
    }

    /// THREAD_MEMBERS_UPDATE: the affected account receives it whatever its intents.
    pub(super) fn publish_membership(&mut self, entry: &ThreadEntry, change: Membership) {
        let (user_id, added, removed) = match change {
            Membership::Begun(added) => (added.user_id, self.member(added.user_id).map(|of| (added, of)), None),
            Membership::Ended(user_id) => (user_id, None, Some(user_id)),
        };
        let resource = ResourcePayload::ThreadMembers {
            thread_id: entry.channel.id,
            members_count: entry.members.len(),
            added,
            removed,
        };
        let rule = Self::thread_rule(entry);
        let event = self.event(EventName::ThreadMembersUpdate, rule, Payload::Resource(Box::new(resource)));
        self.publish(event.always_to(user_id), ReplicaUpdate::Thread(entry.channel.id, Some(entry.clone())));
    }
}

/// Whether the actor may add others: SEND_MESSAGES, and in a private thread `invitable`, ownership or MANAGE_THREADS.
fn need_to_invite(context: &ChannelContext, entry: &ThreadEntry) -> Result<(), Refusal> {
    context.need(Permissions::SEND_MESSAGES)?;
    let thread = entry.channel.thread.as_ref();
    let may_invite = !entry.is_private()
        || context.can(Permissions::MANAGE_THREADS)
        || thread.is_some_and(|thread| thread.invitable || context.is(thread.owner_id));
    if may_invite { Ok(()) } else { Err(Refusal::MissingPermissions) }
}
