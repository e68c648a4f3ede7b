//! Threads and their members. Spec  docs/protocol/reference.md §6.5, §7.2.

use super::{ChannelBody, MemberBody};
use crate::{
    channel::Channel,
    id::{ChannelId, GuildId, Id, MessageId, UserId},
    member::Member,
    snowflake::timestamp_of,
    thread::ThreadMember,
};
use guildhall_stdx::Timestamp;
use serde::Serialize;

/// Largest `member_count`, as upstream.
const MEMBERS_SHOWN_MAX: usize = 50;

#[derive(Clone, Debug, Serialize)]
struct ThreadMetadata {
    archived: bool,
    auto_archive_duration: u16,
    archive_timestamp: Timestamp,
    locked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    invitable: Option<bool>,
    create_timestamp: Timestamp,
}

/// A thread: a channel with additional fields.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadBody<'a> {
    #[serde(flatten)]
    channel: ChannelBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner_id: Option<UserId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_metadata: Option<ThreadMetadata>,
    message_count: u32,
    member_count: usize,
    total_message_sent: u32,
    #[serde(skip_serializing_if = "<[Id<()>]>::is_empty")]
    applied_tags: &'a [Id<()>],
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<ThreadMemberBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    newly_created: Option<bool>,
}

impl<'a> ThreadBody<'a> {
    /// A thread with `members_count` members, and with the recipient's own membership if known.
    #[must_use]
    pub fn new(channel: &'a Channel, members_count: usize, own: Option<ThreadMember>) -> Self {
        let thread = channel.thread.as_deref();
        let is_private = channel.kind == crate::channel::ChannelType::PrivateThread;
        Self {
            channel: channel.into(),
            owner_id: thread.map(|thread| thread.owner_id),
            thread_metadata: thread.map(|thread| ThreadMetadata {
                archived: thread.archived,
                auto_archive_duration: thread.auto_archive_duration,
                archive_timestamp: thread.archive_timestamp,
                locked: thread.locked,
                invitable: is_private.then_some(thread.invitable),
                create_timestamp: timestamp_of(channel.id),
            }),
            message_count: thread.map_or(0, |thread| thread.message_count),
            member_count: members_count.min(MEMBERS_SHOWN_MAX),
            total_message_sent: thread.map_or(0, |thread| thread.total_message_sent),
            applied_tags: thread.map_or(&[], |thread| &thread.applied_tags),
            member: own.map(ThreadMemberBody::from),
            newly_created: None,
        }
    }

    /// Marks the thread as created by this event.
    #[must_use]
    pub fn newly_created(mut self) -> Self {
        self.newly_created = Some(true);
        self
    }
}

/// Membership of an account in a thread.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadMemberBody<'a> {
    id: ChannelId,
    user_id: UserId,
    join_timestamp: Timestamp,
    flags: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<MemberBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guild_id: Option<GuildId>,
}

impl From<ThreadMember> for ThreadMemberBody<'_> {
    fn from(of: ThreadMember) -> Self {
        Self {
            id: of.thread_id,
            user_id: of.user_id,
            join_timestamp: of.join_timestamp,
            flags: of.flags,
            member: None,
            guild_id: None,
        }
    }
}

impl<'a> ThreadMemberBody<'a> {
    /// Adds the keys that only answers of REST have.
    #[must_use]
    pub fn for_rest(self) -> Self {
        Self { member: self.member.map(MemberBody::for_rest), ..self }
    }

    /// Adds the guild member.
    #[must_use]
    pub fn with_member(mut self, member: Option<&'a Member>) -> Self {
        self.member = member.map(Into::into);
        self
    }

    /// Adds the guild id, for THREAD_MEMBER_UPDATE.
    #[must_use]
    pub fn with_guild(mut self, guild_id: GuildId) -> Self {
        self.guild_id = Some(guild_id);
        self
    }
}

/// THREAD_MEMBERS_UPDATE.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadMembersBody<'a> {
    id: ChannelId,
    guild_id: GuildId,
    member_count: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    added_members: Vec<ThreadMemberBody<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed_member_ids: Vec<UserId>,
}

impl<'a> ThreadMembersBody<'a> {
    /// An update of members who joined and members who left.
    #[must_use]
    pub fn new(
        guild_id: GuildId,
        thread_id: ChannelId,
        members_count: usize,
        added: Option<(ThreadMember, &'a Member)>,
        removed: Option<UserId>,
    ) -> Self {
        let added = added.map(|(of, member)| ThreadMemberBody::from(of).with_member(Some(member)));
        Self {
            id: thread_id,
            guild_id,
            member_count: members_count.min(MEMBERS_SHOWN_MAX),
            added_members: added.into_iter().collect(),
            removed_member_ids: removed.into_iter().collect(),
        }
    }
}

/// THREAD_LIST_SYNC.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadListSyncBody<'a> {
    guild_id: GuildId,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_ids: Option<&'a [ChannelId]>,
    threads: Vec<ThreadBody<'a>>,
    members: Vec<ThreadMemberBody<'a>>,
    most_recent_messages: [MessageId; 0],
}

impl<'a> ThreadListSyncBody<'a> {
    /// Open threads of these channels, or of the whole guild, with the recipient's own memberships.
    #[must_use]
    pub fn new(
        guild_id: GuildId,
        channel_ids: Option<&'a [ChannelId]>,
        threads: Vec<ThreadBody<'a>>,
        own: impl Iterator<Item = ThreadMember>,
    ) -> Self {
        Self { guild_id, channel_ids, threads, members: own.map(Into::into).collect(), most_recent_messages: [] }
    }
}
