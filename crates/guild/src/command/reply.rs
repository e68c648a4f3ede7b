//! What a guild answers when it did what was asked.

use crate::{
    backend::{Imported, RolesPut},
    job::Audience,
};
use guildhall_model::{
    AuditEntry, Ban, Channel, ChannelId, Direct, Emoji, Invite, Member, MessageId, Permissions, ReactionEmoji, Role,
    ScheduledEvent, StageInstance, Sticker, ThreadMember, Webhook,
};
use guildhall_relay::{GuildMeta, MemberTable, ThreadEntry};
use guildhall_stdx::{CowMap, Timestamp};
use std::{collections::BTreeMap, sync::Arc};

/// What a guild answers.
#[derive(Clone, Debug)]
pub enum Reply {
    /// It is done.
    Done,
    /// The guild as it is.
    Guild(Box<GuildReply>),
    /// A channel, with its newest message's id filled in.
    Channel(Arc<Channel>),
    /// A direct message or a group, with who is in it.
    Direct(Direct),
    /// A thread, and the actor's own member of it.
    Thread(Box<(ThreadEntry, Option<ThreadMember>)>),
    /// Threads.
    Threads(Box<ThreadList>),
    /// Who is in a thread, and who they are in the guild.
    ThreadMembers(Vec<(ThreadMember, Option<Arc<Member>>)>),
    /// An emoji.
    Emoji(Box<Emoji>),
    /// A sticker.
    Sticker(Box<Sticker>),
    /// What is announced.
    ScheduledEvent(Arc<ScheduledEvent>),
    /// A stage.
    Stage(Box<StageInstance>),
    /// A role.
    Role(Arc<Role>),
    /// A member.
    Member(Arc<Member>),
    /// A snapshot of the members.
    Members(MemberTable),
    /// Members that were found, by id.
    FoundMembers(Vec<Arc<Member>>),
    /// Bans, by user id.
    Bans(Vec<Arc<Ban>>),
    /// Entries of the audit log, in the order that the query says.
    AuditLog(Vec<Arc<AuditEntry>>),
    /// An invite.
    Invite(Box<InviteReply>),
    /// Invites, and the guild they are of.
    Invites(Vec<Arc<Invite>>, Arc<GuildMeta>),
    /// A webhook.
    Webhook(Arc<Webhook>),
    /// Webhooks.
    Webhooks(Vec<Arc<Webhook>>),
    /// Pinned messages, and since when.
    Pins(Vec<(MessageId, Timestamp)>),
    /// How many mentions reach.
    Audience(Audience),
    /// How many.
    Count(u64),
    /// What was put was not there before.
    Created(Box<Reply>),
    /// What became of members that were imported.
    Imported(Box<Imported>),
    /// What became of roles that were put together.
    RolesPut(RolesPut),
    /// A message. `referenced`: the message it answers, `Some(None)` when that was deleted, none when it is no reply.
    Message(Box<MessageReply>),
    /// Whether history may be read too (READ_MESSAGE_HISTORY); that the channel may be viewed is certain then.
    HistoryGrant {
        /// READ_MESSAGE_HISTORY.
        may_read_history: bool,
    },
}

/// A guild, as a reply.
#[derive(Clone, Debug)]
pub struct GuildReply {
    /// Base fields, roles, channels.
    pub meta: Arc<GuildMeta>,
    /// Newest message per channel.
    pub last_message_ids: Arc<BTreeMap<ChannelId, MessageId>>,
    /// Exact.
    pub member_count: u64,
    /// Members who are not offline.
    pub presence_count: u64,
    /// All threads, whether or not the actor can view them.
    pub threads: CowMap<ChannelId, ThreadEntry>,
    /// Channels the actor can view, ascending.
    pub visible_channels: Vec<ChannelId>,
    /// The actor's permissions in the guild.
    pub permissions: Permissions,
}

/// An invite, as a reply.
#[derive(Clone, Debug)]
pub struct InviteReply {
    /// The invite.
    pub invite: Arc<Invite>,
    /// The guild it is of.
    pub meta: Arc<GuildMeta>,
    /// Exact.
    pub member_count: u64,
    /// Members who are not offline.
    pub presence_count: u64,
}

/// A message, as a reply.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageReply {
    /// The message.
    pub message: Arc<guildhall_model::Message>,
    /// How it was reacted to, in the order of first use.
    pub reactions: Vec<ReactionCount>,
    /// The message it answers: `Some(None)` when that was deleted, none when it is no reply.
    pub referenced: Option<Option<Arc<guildhall_model::Message>>>,
}

/// How often one emoji was put on a message. Who did is not said: that would grow with their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReactionCount {
    /// Which.
    pub emoji: ReactionEmoji,
    /// By how many.
    pub count: u64,
    /// The actor among them.
    pub me: bool,
}

/// Threads, as a reply.
#[derive(Clone, Debug)]
pub struct ThreadList {
    /// The threads.
    pub threads: Vec<ThreadEntry>,
    /// The actor's own members of them.
    pub own: Vec<ThreadMember>,
    /// There are more.
    pub has_more: bool,
}
