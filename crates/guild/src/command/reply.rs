//! Replies of a guild to successful commands.

use super::{Imported, InteractionContext, RolesPut, TemplateReply};
use crate::job::Audience;
use guildhall_guild_protocol::{GuildStructure, MemberTable, ThreadEntry, VoiceEntry, message_form};
use guildhall_model::{
    AuditEntry, AutoModRule, Ban, Channel, ChannelId, Direct, Emoji, Follower, Invite, Member, MessageId, Onboarding,
    Permissions, ReactionEmoji, Role, ScheduledEvent, StageInstance, Sticker, ThreadMember, Webhook, WelcomeScreen,
};
use guildhall_stdx::{CowMap, Timestamp};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Reply of a guild.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The command has no result.
    Done,
    /// The guild as it is.
    Guild(Box<GuildReply>),
    /// A channel, with its newest message's id filled in.
    Channel(Arc<Channel>),
    /// Ids of channels and threads, ascending.
    Channels(Vec<ChannelId>),
    /// A direct message or group with its recipients.
    Direct(Direct),
    /// A thread, and the actor's own member of it.
    Thread(ThreadReply),
    /// Threads of a channel or the guild.
    Threads(Box<ThreadList>),
    /// Members of a thread, with their guild members.
    ThreadMembers(Vec<(ThreadMember, Option<Arc<Member>>)>),
    Emoji(Box<Emoji>),
    Sticker(Box<Sticker>),
    /// The scheduled event.
    ScheduledEvent(Arc<ScheduledEvent>),
    Stage(Box<StageInstance>),
    Role(Arc<Role>),
    Member(Arc<Member>),
    /// A snapshot of the members.
    Members(MemberTable),
    /// Members that were found, by id.
    FoundMembers(Vec<Arc<Member>>),
    /// Bans, by user id.
    Bans(Vec<Arc<Ban>>),
    /// Entries of the audit log, in the order of the query.
    AuditLog(Vec<Arc<AuditEntry>>),
    /// An invite with the guild's public fields.
    Invite(Box<InviteReply>),
    /// Invites, and the guild they are of.
    Invites(Vec<Arc<Invite>>, Arc<GuildStructure>),
    Webhook(Arc<Webhook>),
    Webhooks(Vec<Arc<Webhook>>),
    /// Rules of auto moderation, by id.
    AutoModRules(Vec<Arc<AutoModRule>>),
    AutoModRule(Arc<AutoModRule>),
    /// The welcome screen, with channels that exist.
    WelcomeScreen(Arc<WelcomeScreen>),
    /// The onboarding, with channels and roles that exist.
    Onboarding(Arc<Onboarding>),
    Template(Box<TemplateReply>),
    Templates(Vec<TemplateReply>),
    /// Channels that follow an announcement channel.
    Followers(Vec<Follower>),
    /// Pinned messages, and since when.
    Pins(Vec<(MessageId, Timestamp)>),
    /// How many mentions reach.
    Audience(Audience),
    /// Number of affected objects.
    Count(u64),
    /// The put object is new.
    Created(Box<Reply>),
    /// What became of members that were imported.
    Imported(Box<Imported>),
    /// What became of roles that were put together.
    RolesPut(RolesPut),
    /// A message. `referenced`: the message it answers, `Some(None)` when that was deleted, none when it is no reply.
    Message(Box<MessageReply>),
    /// A user's voice state, with their member.
    VoiceState(Box<VoiceEntry>),
    /// Objects of an interaction.
    Interaction(Box<InteractionContext>),
    /// Whether history may be read too (READ_MESSAGE_HISTORY); that the channel may be viewed is certain then.
    HistoryGrant {
        /// READ_MESSAGE_HISTORY.
        may_read_history: bool,
    },
}

/// A thread, and the actor's own member of it.
pub type ThreadReply = Box<(ThreadEntry, Option<ThreadMember>)>;

/// A guild, as a reply.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuildReply {
    /// Base fields, roles, channels.
    pub structure: Arc<GuildStructure>,
    /// Newest message per channel.
    pub last_message_ids: Arc<BTreeMap<ChannelId, MessageId>>,
    /// Number of members, not estimated.
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InviteReply {
    pub invite: Arc<Invite>,
    /// The guild it is of.
    pub structure: Arc<GuildStructure>,
    /// Number of members, not estimated.
    pub member_count: u64,
    /// Members who are not offline.
    pub presence_count: u64,
    /// If it is enabled.
    #[serde(default)]
    pub welcome_screen: Option<Arc<WelcomeScreen>>,
}

/// A message, as a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageReply {
    #[serde(with = "message_form")]
    pub message: Arc<guildhall_model::Message>,
    /// How it was reacted to, in the order of first use.
    pub reactions: Vec<ReactionCount>,
    /// The message it answers: `Some(None)` when that was deleted, none when it is no reply.
    #[serde(default, with = "message_form::answered", skip_serializing_if = "Option::is_none")]
    pub referenced: Option<Option<Arc<guildhall_model::Message>>>,
}

/// Number of reactions with one emoji. The users are not included: that would grow with their number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReactionCount {
    pub emoji: ReactionEmoji,
    /// Number of users.
    pub count: u64,
    /// The actor among them.
    pub me: bool,
}

/// Threads, as a reply.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadList {
    pub threads: Vec<ThreadEntry>,
    /// The actor's own members of them.
    pub own: Vec<ThreadMember>,
    /// There are more.
    pub has_more: bool,
}
