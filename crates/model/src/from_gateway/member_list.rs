//! GUILD_MEMBER_LIST_UPDATE. Spec  docs/protocol.md §8.6.

use super::{MemberBody, PresenceBody};
use crate::{id::GuildId, member::Member, presence::Presence};
use serde::Serialize;
use std::borrow::Cow;

/// GUILD_MEMBER_LIST_UPDATE.
#[derive(Clone, Debug, Serialize)]
pub struct MemberListUpdateBody<'a> {
    /// Which guild.
    pub guild_id: GuildId,
    /// Which of its lists: `everyone`, or a hash of who may view.
    pub id: &'a str,
    /// Members of the guild.
    pub member_count: u64,
    /// Members who are not offline.
    pub online_count: u64,
    /// Every group that is not empty, in order, as it is after `ops`.
    pub groups: Vec<MemberListGroup<'a>>,
    /// What to do to the rows, in order.
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

/// A change to rows. Rows count from 0; each op sees what the ones before it did.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "op", rename_all = "UPPERCASE")]
pub enum MemberListOp<'a> {
    /// These rows are as follows.
    Sync {
        /// First and last row; the list may end before the last.
        range: (u32, u32),
        /// What is in them.
        items: Vec<MemberListItem<'a>>,
    },
    /// A new row; those from here on move down.
    Insert {
        /// Where.
        index: u32,
        /// What.
        item: MemberListItem<'a>,
    },
    /// A row has changed.
    Update {
        /// Which.
        index: u32,
        /// What it is now.
        item: MemberListItem<'a>,
    },
    /// A row is gone; those after it move up.
    Delete {
        /// Which.
        index: u32,
    },
    /// These rows are not kept up to date any more.
    Invalidate {
        /// First and last row.
        range: (u32, u32),
    },
}

/// What is in a row.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberListItem<'a> {
    /// A header.
    Group(MemberListGroup<'a>),
    /// A member.
    Member(MemberListMember<'a>),
}

impl<'a> MemberListItem<'a> {
    /// A member's row; without a presence they are offline.
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

/// A member with their presence inside.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MemberListMember<'a> {
    #[serde(flatten)]
    member: MemberBody<'a>,
    presence: PresenceBody<'a>,
}
