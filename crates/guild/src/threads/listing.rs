//! Lists of threads and of their members.
//!
//! Owns        `ListThreads`, `ListArchivedThreads`, `ListThreadMembers`, and the member list of an open thread.

use crate::{
    command::{Actor, ArchivedThreads, CommandResult, ThreadList},
    machine::Guild,
    state::threads::is_active,
    turn::Turn,
};
use guildhall_guild_protocol::{Payload, RelayMessage, ResourcePayload, SessionKey, THREAD_LISTED_MAX, ThreadEntry};
use guildhall_model::{ChannelId, EventName, Member, Permissions, ThreadMember};
use guildhall_stdx::Now;
use std::sync::Arc;

impl Guild {
    /// The open threads that the actor can view.
    pub(crate) fn list_threads(&self, turn: Turn<'_>) -> CommandResult<Box<ThreadList>> {
        self.in_guild(turn)?;
        let is_viewed =
            |entry: &ThreadEntry| is_active(&entry.channel) && self.in_thread(turn, entry.channel.id).is_ok();
        let threads: Vec<_> = self.threads.iter().map(|(_, entry)| entry).filter(|e| is_viewed(e)).cloned().collect();
        Ok(Box::new(self.thread_list(threads, turn.actor)))
    }

    /// Archived threads of a channel, last archived first. Private ones: all (needs MANAGE_THREADS), or the actor's
    /// own, largest id first.
    pub(crate) fn list_archived_threads(
        &self,
        turn: Turn<'_>,
        parent_id: ChannelId,
        which: ArchivedThreads,
    ) -> CommandResult<Box<ThreadList>> {
        let ArchivedThreads { are_private, are_own, before, before_id, limit } = which;
        let parent = self.in_channel(turn, parent_id)?;
        parent.need_history()?;
        if are_private && !are_own {
            parent.need(Permissions::MANAGE_THREADS)?;
        }
        let archived_at = |entry: &ThreadEntry| {
            entry.channel.thread.as_ref().filter(|thread| thread.archived).map(|thread| thread.archive_timestamp)
        };
        let is_in = |entry: &ThreadEntry| turn.actor.user_id().is_none_or(|id| entry.members.contains_key(&id));
        let is_meant = |entry: &&ThreadEntry| {
            entry.channel.parent_id == Some(parent_id)
                && entry.is_private() == are_private
                && (!are_own || is_in(entry))
                && before_id.is_none_or(|before| entry.channel.id < before)
                && archived_at(entry).is_some_and(|at| before.is_none_or(|before| at < before))
        };
        let mut threads: Vec<_> = self.threads.iter().map(|(_, entry)| entry).filter(is_meant).cloned().collect();
        let order = |entry: &ThreadEntry| (archived_at(entry).filter(|_| !are_own), entry.channel.id);
        threads.sort_unstable_by_key(|entry| std::cmp::Reverse(order(entry)));
        let has_more = threads.len() > limit;
        threads.truncate(limit);
        Ok(Box::new(ThreadList { has_more, ..self.thread_list(threads, turn.actor) }))
    }

    pub(crate) fn list_thread_members(
        &self,
        turn: Turn<'_>,
        thread_id: ChannelId,
    ) -> CommandResult<Vec<(ThreadMember, Option<Arc<Member>>)>> {
        let context = self.in_thread(turn, thread_id)?;
        let entry = self.need_thread(&context)?;
        let members = entry.members.values().map(|of| (*of, self.member(of.user_id)));
        Ok(members.collect())
    }

    /// A complete list.
    fn thread_list(&self, threads: Vec<ThreadEntry>, actor: Actor) -> ThreadList {
        let own = |entry: &ThreadEntry| actor.user_id().and_then(|user_id| entry.members.get(&user_id).copied());
        let own = threads.iter().filter_map(own).collect();
        ThreadList { threads, own, has_more: false }
    }

    /// Members of a thread with presences, for a session that subscribes to them.
    pub(crate) fn send_thread_list(&mut self, now: Now, session: SessionKey, thread_id: ChannelId) {
        let Some(user_id) = self.session(session).map(|session| session.client.user_id) else { return };
        if self.in_thread(Turn::new(now, Actor::User(user_id)), thread_id).is_err() {
            return;
        }
        let Some(entry) = self.threads.get(thread_id) else { return };
        let listed = entry.members.keys().take(THREAD_LISTED_MAX).filter_map(|id| self.members.entry(*id).cloned());
        let resource = ResourcePayload::ThreadMemberList { thread_id, members: listed.collect() };
        let rule = Self::thread_rule_of(entry, user_id);
        let payload = Payload::Resource(Box::new(resource));
        let event = Arc::new(self.event(EventName::ThreadMemberListUpdate, rule, payload));
        self.send(session.relay, RelayMessage::Direct { session, event });
    }
}
