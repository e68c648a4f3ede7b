//! Jobs that wait or run, and what waits for each.
//!
//! Owns        `JobQueue`, `Waiter`; job ids.
//! Limits      those of `job_queue`.

use super::tasks::Bulk;
use crate::{
    command::Actor,
    job::{JobId, Prefix},
};
use guildhall_guild_protocol::SessionKey;
use guildhall_member_list::ListId;
use guildhall_model::{ChannelId, UserId};
use guildhall_stdx::Timestamp;
use std::collections::{BTreeMap, VecDeque};

/// Waiter for a job.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A session that requested members.
    Members(MembersRequest),
    /// A session that requested the member count of a channel.
    Count { session: SessionKey, user_id: UserId, channel_id: ChannelId, at: Timestamp },
    /// A command that searches members.
    Search { command: JobId, actor: Actor, prefix: Prefix, limit: usize },
    /// A command that counts a channel's audience.
    Audience { command: JobId, actor: Actor, channel_id: ChannelId, at: Timestamp },
    /// A command that changes many members.
    Bulk(Box<Bulk>),
    /// A member list to build or update.
    List(ListId, u64),
}

/// A session's request for members.
#[derive(Debug)]
pub(crate) struct MembersRequest {
    pub session: SessionKey,
    pub user_id: UserId,
    pub nonce: Option<String>,
    pub presences: bool,
    pub kind: MemberQueryKind,
}

#[derive(Debug)]
pub(crate) enum MemberQueryKind {
    Named { prefix: Prefix, limit: usize },
    Recent { prefix: Option<Prefix>, after: Option<UserId> },
}

impl MemberQueryKind {
    pub fn prefix(&self) -> Option<&Prefix> {
        match self {
            Self::Named { prefix, .. } => Some(prefix),
            Self::Recent { prefix, .. } => prefix.as_ref(),
        }
    }
}

impl Waiter {
    /// User whose quota it counts towards; none for the system.
    pub fn user_id(&self) -> Option<UserId> {
        match self {
            Self::Members(request) => Some(request.user_id),
            Self::Count { user_id, .. } => Some(*user_id),
            Self::Search { actor, .. } | Self::Audience { actor, .. } => actor.user_id(),
            Self::Bulk(bulk) => bulk.actor.user_id(),
            Self::List(..) => None,
        }
    }

    pub fn command(&self) -> Option<JobId> {
        match self {
            Self::Members(_) | Self::Count { .. } | Self::List(..) => None,
            Self::Search { command, .. } | Self::Audience { command, .. } => Some(*command),
            Self::Bulk(bulk) => Some(bulk.command),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct JobQueue {
    ids_count: u64,
    pub waiting: VecDeque<Waiter>,
    pub running: BTreeMap<JobId, Waiter>,
}

impl JobQueue {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Whether lists are all that jobs are wanted for.
    pub fn has_only_lists(&self) -> bool {
        self.all().all(|waiter| matches!(waiter, Waiter::List(..)))
    }

    /// The next unused id.
    pub fn next_id(&mut self) -> JobId {
        self.ids_count += 1;
        JobId(self.ids_count)
    }

    pub fn all(&self) -> impl Iterator<Item = &Waiter> {
        self.waiting.iter().chain(self.running.values())
    }

    /// Number of bulk changes that wait for a search.
    pub fn bulks_count(&self) -> usize {
        self.all().filter(|waiting| matches!(waiting, Waiter::Bulk(_))).count()
    }

    /// Drops all waiters. Returns the commands among them.
    pub fn clear(&mut self) -> Vec<JobId> {
        let waiting = self.waiting.drain(..).chain(std::mem::take(&mut self.running).into_values());
        waiting.filter_map(|waiting| waiting.command()).collect()
    }
}
