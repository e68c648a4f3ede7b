//! Threads in a relay's replica: members and events.
//!
//! Owns        `ThreadEntry`, a thread with its members and the rule by which a member may see it (`is_viewed_by`);
//!             `ThreadEvent`, its event.
//! Invariants  immutable: a change creates a new one.
//! Limits      the guild's: number of threads, and of members per thread.
//! Not here    the audience: `audience`.     Spec  docs/protocol/reference.md §6.5, §7.2.

use crate::{replica::GuildReplica, structure::GuildStructure};
use guildhall_model::{
    Channel, ChannelId, ChannelType, Member, Permissions, ThreadMember, UserId, from_gateway::ThreadBody,
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Maximum number of members that a session subscribed to a thread receives and follows: the first by id.
pub const THREAD_LISTED_MAX: usize = 100;

/// A thread with its members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadEntry {
    /// The thread's channel object, including its newest message.
    pub channel: Arc<Channel>,
    /// Members by user id.
    pub members: Arc<BTreeMap<UserId, ThreadMember>>,
}

impl ThreadEntry {
    /// Visible only to its members and to members who may manage threads.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.channel.kind == ChannelType::PrivateThread
    }

    /// Is not archived.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.channel.thread.as_ref().is_some_and(|thread| !thread.archived)
    }

    /// Body of the thread, with the recipient's own membership if known.
    #[must_use]
    pub fn body(&self, own: Option<ThreadMember>) -> ThreadBody<'_> {
        ThreadBody::new(&self.channel, self.members.len(), own)
    }

    /// Whether a member can view it now. A time-out removes MANAGE_THREADS, and with it access to private threads.
    #[must_use]
    pub fn is_viewed_by(&self, structure: &GuildStructure, member: &Member, now: Timestamp) -> bool {
        let parent = self.channel.parent_id.and_then(|parent| structure.channels.get(&parent));
        let Some(parent) = parent else { return false };
        let permissions = structure.channel_permissions(structure.standing(member, now), parent);
        let is_let_in = !self.is_private()
            || self.members.contains_key(&member.user.id)
            || permissions.contains(Permissions::MANAGE_THREADS);
        permissions.contains(Permissions::VIEW_CHANNEL) && is_let_in
    }
}

/// THREAD_CREATE, THREAD_UPDATE.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadEvent {
    pub entry: ThreadEntry,
    /// Membership of the recipient, for an event to them alone.
    pub own: Option<ThreadMember>,
    /// The event creates the thread.
    pub newly_created: bool,
}

/// Open threads that a member can view now: all, or only joined ones.
#[must_use]
pub fn threads_of<'a>(
    replica: &'a GuildReplica,
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
            && entry.is_viewed_by(&replica.structure, member, now)
    };
    replica.threads.iter().map(|(_, entry)| entry).filter(is_meant).collect()
}
