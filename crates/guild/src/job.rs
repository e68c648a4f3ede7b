//! Jobs: work that grows with the number of members, done on a snapshot outside of the guild.
//!
//! Owns        `Job`: the guild emits it as `Output::Job`, a driver runs it anywhere, and its `JobDone` returns
//!             through `Guild::handle_job_done`; `MemberFilter`.
//! Doors       `Job::run`: pure, so that the simulation can run jobs at any time; it also drops the snapshot.
//! Invariants  J1 a result holds ids and counts, never members (except the rows of a list, which the guild brings up to
//!             date). The guild looks the ids up again, so no answer is older than a published event. J2 a result is
//!             bounded for any number of members. (tests `j*_*`)
//! Limits      `RECENT_MAX`, `MATCHES_MAX`, and the limit of a search.
//! Not here    scheduling of jobs: `job_queue`. Threads: the driver.     Spec  docs/protocol/reference.md §8.7, §8.8.

mod filter;
mod list;
#[cfg(test)]
mod tests;
mod view;

pub use filter::MemberFilter;
pub(crate) use list::{ListBuild, ListBuilt, Viewers as ListViewers};

use guildhall_guild_protocol::{GuildStructure, MemberTable};
use guildhall_model::{Channel, Member, UserId};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::{cmp::Reverse, collections::BinaryHeap, fmt, sync::Arc};
use view::Viewers;

/// Members by time of joining can be paginated up to this depth.
pub(crate) const RECENT_MAX: usize = 10_000;
/// Page size for members by time of joining. Up to 1,000 are allowed; the guild looks each one up, and this limit keeps
/// that below a millisecond on a busy machine too.
pub(crate) const RECENT_PAGE: usize = 250;
/// Maximum number of matches per job; a caller that needs more continues after the last.
pub(crate) const MATCHES_MAX: usize = 65_536;

/// Id of a job, and of a command answered by `Output::Answer`. Never reused within one `Guild`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub(crate) u64);

/// Work to be done outside of the guild.
pub struct Job {
    pub(crate) id: JobId,
    pub(crate) work: Work,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the snapshot: it contains all members.
        f.debug_struct("Job").field("id", &self.id).field("work", &Self::KIND_NAMES[self.kind()]).finish()
    }
}

/// Kinds of work. Each holds the snapshot that it reads.
pub(crate) enum Work {
    /// The first members by id with a name prefix.
    Search { members: MemberTable, prefix: Prefix, limit: usize },
    /// Members by time of joining, newest first.
    Recent { members: MemberTable, prefix: Option<Prefix>, after: Option<UserId> },
    /// Members who can view a channel.
    Audience { members: MemberTable, structure: Arc<GuildStructure>, channel: Arc<Channel>, now: Timestamp },
    /// Members that a filter admits, by id.
    Matching {
        members: MemberTable,
        structure: Arc<GuildStructure>,
        filter: MemberFilter,
        after: UserId,
        counts_only: bool,
    },
    /// Builds the member list of those who can view a channel.
    List(Box<ListBuild>),
    /// Frees a large object.
    Dispose(Box<dyn fmt::Debug + Send + Sync>),
}

impl Work {
    fn kind(&self) -> usize {
        match self {
            Self::Search { .. } => 0,
            Self::Recent { .. } => 1,
            Self::Audience { .. } => 2,
            Self::Matching { .. } => 3,
            Self::List(_) => 4,
            Self::Dispose(_) => 5,
        }
    }
}

/// A job's result.
#[derive(Debug)]
pub struct JobDone {
    pub(crate) id: JobId,
    pub(crate) found: Found,
}

#[derive(Debug)]
pub(crate) enum Found {
    /// In the order of the answer.
    Members(Vec<UserId>),
    Audience(Audience),
    Matches(Matches),
    /// The one result with members: `member_lists` applies changes made since the snapshot.
    List(Box<ListBuilt>),
    Nothing,
}

/// Members that `@everyone` in a channel reaches, and the online ones among them (`@context`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audience {
    /// Number of members who can view the channel: `@everyone`.
    pub member_count: u64,
    /// Number of those members who are not offline: `@context`.
    pub presence_count: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Matches {
    /// Number of members found.
    pub count: u64,
    /// Their ids, ascending; empty if only the count was requested.
    pub user_ids: Vec<UserId>,
    /// There may be more members after the last one.
    pub is_cut: bool,
}

impl Job {
    /// Names of the kinds of work, by their numbers.
    pub const KIND_NAMES: [&'static str; 6] = ["search", "recent", "audience", "matching", "list", "dispose"];

    /// Number of its kind of work: for accounts of time.
    #[must_use]
    pub fn kind(&self) -> usize {
        self.work.kind()
    }

    /// Id of the job. The driver calls `handle_job_lost` with it if the job cannot be completed.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.id
    }

    /// Runs the job. Takes time proportional to the members; its snapshot never changes.
    #[must_use]
    pub fn run(self) -> JobDone {
        let found = match self.work {
            Work::Search { members, prefix, limit } => Found::Members(search(&members, &prefix, limit)),
            Work::Recent { members, prefix, after } => Found::Members(recent(&members, prefix.as_ref(), after)),
            Work::Audience { members, structure, channel, now } => {
                Found::Audience(audience(&members, &structure, &channel, now))
            }
            Work::Matching { members, structure, filter, after, counts_only } => {
                let of = Matching { members: &members, structure: &structure, filter: &filter };
                Found::Matches(if counts_only { of.count(after) } else { of.list(after) })
            }
            Work::List(build) => Found::List(Box::new(build.run())),
            Work::Dispose(remains) => {
                drop(remains);
                Found::Nothing
            }
        };
        JobDone { id: self.id, found }
    }
}

/// A case-insensitive name prefix. Not empty.
#[derive(Clone, Debug)]
pub(crate) struct Prefix(String);

impl Prefix {
    /// None for an empty text, because every name matches it.
    pub fn new(text: &str) -> Option<Self> {
        let folded: String = text.chars().flat_map(char::to_lowercase).collect();
        (!folded.is_empty()).then_some(Self(folded))
    }

    /// Whether one of a member's names starts with it.
    pub fn is_of(&self, member: &Member) -> bool {
        let user = &member.user;
        let starts = |name: &str| {
            let mut folded = name.chars().flat_map(char::to_lowercase);
            self.0.chars().all(|expected| folded.next() == Some(expected))
        };
        starts(&user.username)
            || [user.global_name.as_deref(), member.nick.as_deref()].into_iter().flatten().any(starts)
    }
}

fn search(members: &MemberTable, prefix: &Prefix, limit: usize) -> Vec<UserId> {
    let found = members.iter().filter(|entry| prefix.is_of(&entry.member));
    found.take(limit).map(|entry| entry.member.user.id).collect()
}

/// Of the newest `RECENT_MAX` members those after `after`; none if `after` is not among them. With a prefix
/// only the first match.
fn recent(members: &MemberTable, prefix: Option<&Prefix>, after: Option<UserId>) -> Vec<UserId> {
    let mut newest: BinaryHeap<Reverse<(Timestamp, UserId)>> = BinaryHeap::with_capacity(RECENT_MAX + 1);
    for entry in members.iter() {
        let joined = Reverse((entry.member.joined_at, entry.member.user.id));
        if newest.len() < RECENT_MAX {
            newest.push(joined);
        } else if newest.peek().is_some_and(|oldest| joined < *oldest) {
            newest.pop();
            newest.push(joined);
        }
    }
    // Ascending by `Reverse`: newest first.
    let user_ids = newest.into_sorted_vec().into_iter().map(|Reverse((_, user_id))| user_id);
    let mut user_ids = user_ids.skip_while(|user_id| after.is_some_and(|after| *user_id != after));
    if after.is_some() {
        user_ids.next();
    }
    match prefix {
        None => user_ids.take(RECENT_PAGE).collect(),
        Some(prefix) => {
            let is_meant = |id: &UserId| members.entry(*id).is_some_and(|entry| prefix.is_of(&entry.member));
            user_ids.find(is_meant).into_iter().collect()
        }
    }
}

fn audience(members: &MemberTable, structure: &GuildStructure, channel: &Channel, now: Timestamp) -> Audience {
    let mut viewers = Viewers::new(structure, channel, now);
    let mut audience = Audience::default();
    for entry in members.iter().filter(|entry| viewers.includes(&entry.member)) {
        audience.member_count += 1;
        audience.presence_count += u64::from(entry.presence.is_some());
    }
    audience
}

/// Members of a guild that a filter admits.
struct Matching<'a> {
    members: &'a MemberTable,
    structure: &'a GuildStructure,
    filter: &'a MemberFilter,
}

impl Matching<'_> {
    /// Those after this user, at most `MATCHES_MAX`.
    fn list(&self, after: UserId) -> Matches {
        let mut matches = Matches::default();
        for user_id in self.user_ids(after) {
            if matches.user_ids.len() == MATCHES_MAX {
                matches.is_cut = true;
                break;
            }
            matches.count += 1;
            matches.user_ids.push(user_id);
        }
        matches
    }

    /// The number of those after this user.
    fn count(&self, after: UserId) -> Matches {
        Matches { count: self.user_ids(after).count() as u64, ..Matches::default() }
    }

    fn user_ids(&self, after: UserId) -> impl Iterator<Item = UserId> {
        let is_admitted = |entry: &&_| self.filter.admits(self.structure, entry);
        self.members.iter_after(after).filter(is_admitted).map(|entry| entry.member.user.id)
    }
}
