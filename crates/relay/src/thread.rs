//! Threads as a relay knows them: who is in which, and their events.
//!
//! Owns        `ThreadEntry`, a thread with its members; `ThreadEvent`, how it is told.
//! Invariants  immutable: a change makes a new one.
//! Limits      the guild's: how many threads, and how many members each has.
//! Not here    who is told: `audience`.     Spec  docs/protocol.md §6.5, §7.2.

use crate::{meta::GuildMeta, picture::GuildPicture};
use guildhall_model::{
    Channel, ChannelId, ChannelType, Member, Permissions, ThreadMember, UserId, from_gateway::ThreadBody,
};
use guildhall_stdx::Timestamp;
use std::{collections::BTreeMap, sync::Arc};

/// Members of a thread that a session which looks at them is told of, and follows: the first by id.
pub const THREAD_LISTED_MAX: usize = 100;

/// A thread, and who joined it.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadEntry {
    /// The thread itself; it knows its newest message.
    pub channel: Arc<Channel>,
    /// By user id.
    pub members: Arc<BTreeMap<UserId, ThreadMember>>,
}

impl ThreadEntry {
    /// Only for its members, and who may manage threads.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.channel.kind == ChannelType::PrivateThread
    }

    /// Nobody archived it.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.channel.thread.as_ref().is_some_and(|thread| !thread.archived)
    }

    /// As it is told, with the receiver's own member if that is known.
    #[must_use]
    pub fn body(&self, own: Option<ThreadMember>) -> ThreadBody<'_> {
        ThreadBody::new(&self.channel, self.members.len(), own)
    }

    /// Whether a member can view it at this moment: time-outs take MANAGE_THREADS away, and with it private threads.
    #[must_use]
    pub fn is_viewed_by(&self, meta: &GuildMeta, member: &Member, now: Timestamp) -> bool {
        let parent = self.channel.parent_id.and_then(|parent| meta.channels.get(&parent));
        let Some(parent) = parent else { return false };
        let permissions = meta.channel_permissions(meta.standing(member, now), parent);
        let is_let_in = !self.is_private()
            || self.members.contains_key(&member.user.id)
            || permissions.contains(Permissions::MANAGE_THREADS);
        permissions.contains(Permissions::VIEW_CHANNEL) && is_let_in
    }
}

/// THREAD_CREATE, THREAD_UPDATE.
#[derive(Clone, Debug)]
pub struct ThreadEvent {
    /// The thread.
    pub entry: ThreadEntry,
    /// The receiver's own member, if it is told to them alone.
    pub own: Option<ThreadMember>,
    /// It was not there before.
    pub newly_created: bool,
}

/// Open threads that a member can view at this moment: all, or only those they joined.
#[must_use]
pub fn threads_of<'a>(
    picture: &'a GuildPicture,
    member: &'a Member,
    only_joined: bool,
    of_channels: Option<&'a [ChannelId]>,
    now: Timestamp,
) -> Vec<&'a ThreadEntry> {
    let user_id = member.user.id;
    let is_meant = |entry: &&ThreadEntry| {
        entry.is_active()
            && (!only_joined || entry.members.contains_key(&user_id))
            && of_channels.is_none_or(|ids| entry.channel.parent_id.is_some_and(|parent| ids.contains(&parent)))
            && entry.is_viewed_by(&picture.meta, member, now)
    };
    picture.threads.iter().map(|(_, entry)| entry).filter(is_meant).collect()
}
