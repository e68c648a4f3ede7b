//! GUILD_MEMBER_LIST_UPDATE. Spec  docs/protocol/reference.md §8.6.

use super::{MemberBody, PresenceBody};
use crate::{id::GuildId, member::Member, presence::Presence};
use serde::Serialize;
use std::borrow::Cow;

/// GUILD_MEMBER_LIST_UPDATE.
#[derive(Clone, Debug, Serialize)]
pub struct MemberListUpdateBody<'a> {
    pub guild_id: GuildId,
    /// List id: `everyone`, or a hash of the channel's view permissions.
    pub id: &'a str,
    /// Number of members of the guild.
    pub member_count: u64,
    /// Members who are not offline.
    pub online_count: u64,
    /// All groups that are not empty, in display order, after `ops` have been applied.
    pub groups: Vec<MemberListGroup<'a>>,
    /// Changes of rows, in the order of application.
    pub ops: Vec<MemberListOp<'a>>,
}

/// A header row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberListGroup<'a> {
    /// A role's id, `online`, or `offline`; text in every encoding.
    pub id: Cow<'a, str>,
    /// Members under it.
    pub count: u64,
}

/// A change of rows. Row indexes start at 0; each operation sees the result of the previous ones.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "op", rename_all = "UPPERCASE")]
pub enum MemberListOp<'a> {
    /// Replaces these rows.
    Sync {
        /// First and last row; the list may end before the last.
        range: (u32, u32),
        items: Vec<MemberListItem<'a>>,
    },
    /// Inserts a row; rows from `index` on move down.
    Insert { index: u32, item: MemberListItem<'a> },
    /// Replaces one row.
    Update { index: u32, item: MemberListItem<'a> },
    /// Deletes a row; the rows behind it move up.
    Delete { index: u32 },
    /// Ends updates of these rows.
    Invalidate {
        /// First and last row.
        range: (u32, u32),
    },
}

/// Content of a row.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberListItem<'a> {
    Group(MemberListGroup<'a>),
    Member(MemberListMember<'a>),
}

impl<'a> MemberListItem<'a> {
    /// A member's row; no presence means offline.
    #[must_use]
    pub fn member(member: &'a Member, presence: Option<&'a Presence>) -> Self {
        let presence = PresenceBody::of(None, member.user.id, presence);
        Self::Member(MemberListMember { member: member.into(), presence })
    }

    /// A header row.
    pub fn group(id: impl Into<Cow<'a, str>>, count: u64) -> Self {
        Self::Group(MemberListGroup { id: id.into(), count })
    }
}

/// A member with the presence inside.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MemberListMember<'a> {
    #[serde(flatten)]
    member: MemberBody<'a>,
    presence: PresenceBody<'a>,
}
