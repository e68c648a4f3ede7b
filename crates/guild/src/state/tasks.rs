//! Tasks: long work of a guild that waits for its next step.
//!
//! Owns        `BackgroundTasks`, and what each task has left to do.
//! Limits      `STEP_ITEMS` items per step, one step each `STEP_EVERY_MS`; the number of tasks: `background`.
//! Not here    the steps: `background`, `bulk`, `voice`.

use crate::{
    command::{Actor, RoleAction},
    job::{JobId, MemberFilter, Work},
    turn::Turn,
};
use guildhall_guild_protocol::{GuildStructure, MemberTable, RelayId, SessionKey};
use guildhall_member_list::{Interval, ListId};
use guildhall_model::{ChannelId, RoleId, UserId};
use guildhall_stdx::{Instant, Now};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    vec,
};

/// Members, sessions, voice states per step.
pub(crate) const STEP_ITEMS: usize = 64;
/// Watched members of a removed relay, per step.
pub(crate) const WATCHED_STEP_ITEMS: usize = 1_024;
/// Interval between steps: 6,400 members a second, each an event for all sessions, which a partition can handle.
pub(crate) const STEP_EVERY_MS: u64 = 10;

/// Cleanup of a removed relay.
#[derive(Debug)]
pub(crate) struct RelayGone {
    pub relay: RelayId,
    pub epoch: u32,
    /// The last processed session; none at the start.
    pub after: Option<SessionKey>,
    pub has_sessions: bool,
    /// Watched rows of member lists.
    pub watched: Watched,
}

#[derive(Debug)]
pub(crate) enum BackgroundTask {
    /// Removes sessions and watches of a relay, up to this incarnation.
    RelayGone(RelayGone),
    /// Disconnects all users of a voice channel, then deletes it.
    CloseChannel(ClosingChannel),
    /// Changes or removes many members.
    Bulk(Box<Bulk>),
    /// Compares voice states with permissions that changed.
    VoicePass(VoicePass),
}

impl BackgroundTask {
    fn command(&self) -> Option<JobId> {
        match self {
            Self::RelayGone(_) | Self::VoicePass(_) => None,
            Self::CloseChannel(closing) => Some(closing.command),
            Self::Bulk(bulk) => Some(bulk.command),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct BackgroundTasks {
    pub queue: VecDeque<BackgroundTask>,
    pub due_at: Option<Instant>,
}

impl BackgroundTasks {
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// Number of tasks with a waiting caller.
    pub fn commands_count(&self) -> usize {
        self.queue.iter().filter(|task| task.command().is_some()).count()
    }

    pub fn iter(&self) -> impl Iterator<Item = &BackgroundTask> {
        self.queue.iter()
    }

    /// Drops all tasks. Returns the commands among them.
    pub fn clear(&mut self) -> Vec<JobId> {
        self.due_at = None;
        self.queue.drain(..).filter_map(|task| task.command()).collect()
    }
}

/// A pass over the users in voice after a change of roles, channels or the guild.
#[derive(Debug)]
pub(crate) struct VoicePass {
    /// The last user who was looked at; none at the start.
    pub after: UserId,
}

/// A change of many members, as a command requests it.
#[derive(Debug)]
pub(crate) struct BulkPlan {
    pub change: Change,
    pub filter: MemberFilter,
    pub counts_only: bool,
}

/// A change of many members.
#[derive(Debug)]
pub(crate) struct Bulk {
    pub command: JobId,
    pub actor: Actor,
    pub plan: BulkPlan,
    /// Members found and not yet processed.
    pub user_ids: vec::IntoIter<UserId>,
    /// Members after this one have not been searched yet; none: the search is complete.
    pub more_after: Option<UserId>,
    pub done_count: u64,
    /// For the audit log.
    pub reason: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Removes members who were inactive for this many days.
    Remove {
        days: i64,
    },
    Role(RoleId, RoleAction),
}

/// A voice channel that is deleted once it is empty.
#[derive(Debug)]
pub(crate) struct ClosingChannel {
    pub command: JobId,
    pub channel_id: ChannelId,
    pub actor: Actor,
    pub reason: Option<Arc<str>>,
}

impl ClosingChannel {
    /// The actor's turn, at another time than the command's.
    pub fn turn(&self, now: Now) -> Turn<'_> {
        Turn { now, actor: self.actor, reason: self.reason.as_ref() }
    }
}

impl Bulk {
    /// The actor's turn, at another time than the command's.
    pub fn turn(&self, now: Now) -> Turn<'_> {
        Turn { now, actor: self.actor, reason: self.reason.as_ref() }
    }

    /// The search for the affected members.
    pub fn work(&self, members: MemberTable, structure: Arc<GuildStructure>) -> Work {
        let after = self.more_after.unwrap_or(UserId::new(0));
        Work::Matching {
            members,
            structure,
            filter: self.plan.filter.clone(),
            after,
            counts_only: self.plan.counts_only,
        }
    }
}

/// Intervals that a removed relay watched.
#[derive(Debug, Default)]
pub(crate) struct Watched(pub Vec<(ListId, BTreeSet<Interval>)>);

impl Watched {
    pub fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }
}
