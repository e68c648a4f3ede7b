//! Commands: what backends and REST ask of a guild, and what it answers.
//!
//! Owns        `Command`, `Reply`, and `Refusal`, each with the HTTP status and code of docs/protocol.md §10.1.
//! Invariants  a command is applied whole or refused whole; it is answered only once what it changed is durable.
//! Not here    HTTP, rate limits, tokens: `guildhall-api`.

use crate::{
    backend::{BackendCommand, Imported},
    job::{Audience, MemberFilter},
};
use guildhall_model::{
    Channel, ChannelId, ChannelType, Guild, Member, MessageId, Nonce, Overwrite, OverwriteKind, Permissions, Presence,
    ReactionEmoji, Role, RoleId, User, UserId,
};
use guildhall_relay::{GuildMeta, MemberTable};
use guildhall_stdx::Timestamp;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// An account: it must be a member and have the permission.
    User(UserId),
    /// The backend or the operator: everything is allowed.
    System,
}

impl Actor {
    /// None for the system.
    #[must_use]
    pub fn user_id(self) -> Option<UserId> {
        match self {
            Self::User(user_id) => Some(user_id),
            Self::System => None,
        }
    }
}

/// A new message. Lengths and counts were checked by the caller.
#[derive(Clone, Debug, Default)]
pub struct NewMessage {
    /// At most 2000 characters; may be empty only with embeds.
    pub content: String,
    /// Echoed.
    pub nonce: Option<Nonce>,
    /// Same author and nonce within a few minutes: the earlier message is returned, nothing is sent.
    pub enforce_nonce: bool,
    /// To be read aloud; ignored without the permission.
    pub tts: bool,
    /// At most 10.
    pub embeds: Vec<Value>,
    /// Passed through.
    pub components: Vec<Value>,
    /// Already masked to what a sender may set.
    pub flags: u32,
    /// Who may be mentioned; none: whoever the content mentions.
    pub allowed_mentions: Option<AllowedMentions>,
    /// What it answers.
    pub reply_to: Option<ReplyTo>,
}

/// The message a new message answers.
#[derive(Clone, Copy, Debug)]
pub struct ReplyTo {
    /// In the same channel.
    pub message_id: MessageId,
    /// Refuse when it does not exist; otherwise the reply becomes a plain message.
    pub fail_if_not_exists: bool,
}

/// Who may be mentioned by a message (docs/protocol.md §10.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedMentions {
    /// Everybody in the content.
    pub all_users: bool,
    /// Every role in the content.
    pub all_roles: bool,
    /// `@everyone` and `@here`.
    pub everyone: bool,
    /// These users of the content.
    pub users: Vec<UserId>,
    /// These roles of the content.
    pub roles: Vec<RoleId>,
    /// The author of the message that is answered.
    pub replied_user: bool,
}

/// Changes to a message; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct MessagePatch {
    /// Replaces the content; mentions are found anew.
    pub content: Option<String>,
    /// Replaces the embeds.
    pub embeds: Option<Vec<Value>>,
    /// Replaces the components.
    pub components: Option<Vec<Value>>,
    /// Replaces the flags that may be set.
    pub flags: Option<u32>,
    /// For the mentions of the new content.
    pub allowed_mentions: Option<AllowedMentions>,
}

/// Changes to a member; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct MemberPatch {
    /// New nick, or none.
    pub nick: Option<Option<String>>,
    /// All roles.
    pub roles: Option<Vec<RoleId>>,
    /// Server mute.
    pub mute: Option<bool>,
    /// Server deafen.
    pub deaf: Option<bool>,
    /// Move in voice, or disconnect.
    pub channel_id: Option<Option<ChannelId>>,
    /// Time-out until then, or end of it.
    pub communication_disabled_until: Option<Option<Timestamp>>,
}

/// Changes to a role; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct RolePatch {
    /// New name.
    pub name: Option<String>,
    /// New colour.
    pub color: Option<u32>,
    /// Shown apart.
    pub hoist: Option<bool>,
    /// New position.
    pub position: Option<i32>,
    /// New permissions.
    pub permissions: Option<Permissions>,
    /// Everybody may mention it.
    pub mentionable: Option<bool>,
}

/// Changes to a channel; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct ChannelPatch {
    /// New name.
    pub name: Option<String>,
    /// New topic, or none.
    pub topic: Option<Option<String>>,
    /// New position.
    pub position: Option<i32>,
    /// New category, or none.
    pub parent_id: Option<Option<ChannelId>>,
    /// Age-restricted.
    pub nsfw: Option<bool>,
    /// Slow mode, seconds.
    pub rate_limit_per_user: Option<u16>,
    /// Most people in voice.
    pub user_limit: Option<u16>,
    /// All overwrites.
    pub overwrites: Option<Vec<Overwrite>>,
}

/// Changes to a guild's base fields; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct GuildPatch {
    /// New name.
    pub name: Option<String>,
    /// New description, or none.
    pub description: Option<Option<String>>,
    /// New owner.
    pub owner_id: Option<UserId>,
}

/// What is asked of a guild.
#[derive(Clone, Debug)]
pub enum Command {
    // Reading. Each checks that the actor may see what it asks for.
    /// Base fields, roles, channels, counts.
    ReadGuild,
    /// One channel the actor can view.
    ReadChannel(ChannelId),
    /// One member.
    ReadMember(UserId),
    /// A snapshot of all members, to be read at leisure.
    ReadMembers,
    /// Members by the beginning of a name (not empty), by id: `limit` at most, and `found_members_max`.
    SearchMembers {
        /// Whatever its case.
        query: String,
        /// At least 1.
        limit: usize,
    },
    /// How many `@everyone` and `@here` reach in a channel the actor can view.
    ReadAudience(ChannelId),
    /// May the actor read this channel's messages, and its history?
    AuthorizeHistory(ChannelId),

    // Messages.
    /// Says something.
    CreateMessage(ChannelId, Box<NewMessage>),
    /// Changes what was said.
    EditMessage(ChannelId, MessageId, Box<MessagePatch>),
    /// Takes back what was said.
    DeleteMessage(ChannelId, MessageId),
    /// Reacts.
    AddReaction(ChannelId, MessageId, ReactionEmoji),
    /// Takes back a reaction: the actor's own, or (with MANAGE_MESSAGES) somebody else's.
    RemoveReaction(ChannelId, MessageId, ReactionEmoji, UserId),
    /// Removes all reactions, or all with one emoji.
    ClearReactions(ChannelId, MessageId, Option<ReactionEmoji>),
    /// Is typing.
    StartTyping(ChannelId),

    // Structure and people.
    /// Changes base fields.
    UpdateGuild(Box<GuildPatch>),
    /// Deletes the guild.
    DeleteGuild,
    /// Adds a role. Its id is assigned.
    CreateRole(Box<Role>),
    /// Changes a role.
    UpdateRole(RoleId, Box<RolePatch>),
    /// Removes a role, also from every member who has it.
    DeleteRole(RoleId),
    /// Adds a channel. Its id is assigned.
    CreateChannel(Box<NewChannel>),
    /// Changes a channel.
    UpdateChannel(ChannelId, Box<ChannelPatch>),
    /// Removes a channel. Where many are in voice they leave first, a slice at a time, and nobody comes in; if it is refused
    /// in the end (the actor lost the permission meanwhile), who left has left.
    DeleteChannel(ChannelId),
    /// Adds or replaces one overwrite of a channel.
    PutOverwrite(ChannelId, Overwrite),
    /// Removes one overwrite of a channel.
    DeleteOverwrite(ChannelId, OverwriteKind),
    /// Adds a member (system only), or refreshes the account of one who is there.
    AddMember(Arc<User>),
    /// Changes a member.
    UpdateMember(UserId, Box<MemberPatch>),
    /// Gives a member a role.
    AddMemberRole(UserId, RoleId),
    /// Takes a role from a member.
    RemoveMemberRole(UserId, RoleId),
    /// Removes a member: they leave, or are thrown out.
    RemoveMember(UserId),
    /// Removes members who are not there and have no roles to speak of (KICK_MEMBERS). Answered with how many. Not one
    /// transaction: members are found on a snapshot and go a slice at a time, each if that is right at that moment. Others
    /// see it half done; if it ends early (a refusal, a failure of the node), who went has gone.
    Prune(Box<Prune>),
    /// Gives many members a role, or takes it from them (MANAGE_ROLES). Answered with how many were changed. Not one
    /// transaction either.
    BulkRole(Box<BulkRole>),
    /// Shows a presence for a member who has no session here (demo, bridges). System only; `None` ends it.
    ShowPresence(UserId, Option<Arc<Presence>>),
    /// Puts a member into a voice channel without a session (demo, bridges), or takes them out. System only.
    ShowVoice(UserId, Option<ChannelId>),
    /// What only backends ask. System only.
    Backend(Box<BackendCommand>),
}

/// Whom to remove: the owner, the actor and who is online stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prune {
    /// Roles that do not save their bearers; all below the actor's highest.
    pub roles: Vec<RoleId>,
    /// Who joined at this moment or later stays.
    pub joined_before: Timestamp,
    /// Tell how many there are, and leave them.
    pub counts_only: bool,
}

/// A role for many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkRole {
    /// Which.
    pub role_id: RoleId,
    /// Whether they have it from then on.
    pub has: bool,
    /// For whom.
    pub filter: MemberFilter,
}

/// A channel to be made.
#[derive(Clone, Debug)]
pub struct NewChannel {
    /// 1–100 characters.
    pub name: String,
    /// What it is.
    pub kind: ChannelType,
    /// What it is about.
    pub topic: Option<String>,
    /// Its category.
    pub parent_id: Option<ChannelId>,
    /// Its place; none: last.
    pub position: Option<i32>,
    /// Who may do what in it.
    pub overwrites: Vec<Overwrite>,
    /// Most people in voice, 0 for no limit.
    pub user_limit: u16,
}

/// A guild to be made: see `Guild::create`.
#[derive(Clone, Debug)]
pub struct NewGuild {
    /// Base fields.
    pub guild: Guild,
    /// Its first member.
    pub owner: Arc<User>,
}

/// What a guild answers.
#[derive(Clone, Debug)]
pub enum Reply {
    /// It is done.
    Done,
    /// The guild as it is.
    Guild(Box<GuildReply>),
    /// A channel, with its newest message's id filled in.
    Channel(Arc<Channel>),
    /// A role.
    Role(Arc<Role>),
    /// A member.
    Member(Arc<Member>),
    /// A snapshot of the members.
    Members(MemberTable),
    /// Members that were found, by id.
    FoundMembers(Vec<Arc<Member>>),
    /// How many mentions reach.
    Audience(Audience),
    /// How many.
    Count(u64),
    /// What was put was not there before.
    Created(Box<Reply>),
    /// What became of members that were imported.
    Imported(Box<Imported>),
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
    /// Channels the actor can view, ascending.
    pub visible_channels: Vec<ChannelId>,
    /// The actor's permissions in the guild.
    pub permissions: Permissions,
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

/// Why a guild refuses a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such guild, or the actor is not in it.
    #[error("Unknown Guild")]
    UnknownGuild,
    /// No such channel here.
    #[error("Unknown Channel")]
    UnknownChannel,
    /// No such message.
    #[error("Unknown Message")]
    UnknownMessage,
    /// Not a member.
    #[error("Unknown Member")]
    UnknownMember,
    /// No such role.
    #[error("Unknown Role")]
    UnknownRole,
    /// No such custom emoji.
    #[error("Unknown Emoji")]
    UnknownEmoji,
    /// No such user.
    #[error("Unknown User")]
    UnknownUser,
    /// The actor cannot see it.
    #[error("Missing Access")]
    MissingAccess,
    /// The actor can see it but not do that.
    #[error("Missing Permissions")]
    MissingPermissions,
    /// Somebody else wrote it.
    #[error("Cannot edit a message authored by another user")]
    NotTheAuthor,
    /// No messages go into this kind of channel.
    #[error("Cannot send messages in a non-text channel")]
    NotATextChannel,
    /// Nothing to say.
    #[error("Cannot send an empty message")]
    EmptyMessage,
    /// The message a reply answers does not exist.
    #[error("Invalid Form Body")]
    UnknownReference,
    /// More different emoji than a message can have.
    #[error("Maximum number of reactions reached (20)")]
    TooManyReactions,
    /// More channels, roles or the like than a guild can have.
    #[error("Maximum number of guild channels reached (500)")]
    TooManyChannels,
    /// More roles than a guild can have.
    #[error("Maximum number of guild roles reached (250)")]
    TooManyRoles,
    /// More overwrites than a channel can have.
    #[error("Maximum number of permission overwrites reached (1000)")]
    TooManyOverwrites,
    /// No such overwrite.
    #[error("Unknown Permission Overwrite")]
    UnknownOverwrite,
    /// `@everyone` or a managed role, where it cannot be.
    #[error("Invalid Role")]
    InvalidRole,
    /// Only who is in voice can be moved there.
    #[error("Target user is not connected to voice.")]
    NotInVoice,
    /// This field cannot have that value here.
    #[error("Invalid Form Body")]
    InvalidForm(&'static str),
    /// Slow mode: again in so many milliseconds.
    #[error("This action cannot be performed due to slowmode rate limit.")]
    SlowMode {
        /// When it is over.
        retry_after_ms: u64,
    },
    /// Somebody else changed it meanwhile: read it again.
    #[error("It was changed meanwhile")]
    Changed,
    /// The guild cannot be loaded, or its worker is overloaded: try again.
    #[error("Service Unavailable")]
    Unavailable,
}

impl Refusal {
    /// HTTP status and JSON error code.
    #[must_use]
    pub fn status_and_code(self) -> (u16, u32) {
        match self {
            Self::UnknownGuild => (404, 10004),
            Self::UnknownChannel => (404, 10003),
            Self::UnknownMessage => (404, 10008),
            Self::UnknownMember => (404, 10007),
            Self::UnknownRole => (404, 10011),
            Self::UnknownEmoji => (400, 10014),
            Self::UnknownUser => (404, 10013),
            Self::MissingAccess => (403, 50001),
            Self::MissingPermissions => (403, 50013),
            Self::NotTheAuthor => (403, 50005),
            Self::NotATextChannel => (400, 50008),
            Self::EmptyMessage => (400, 50006),
            Self::UnknownReference => (400, 50035),
            Self::TooManyReactions => (400, 30010),
            Self::TooManyChannels => (400, 30013),
            Self::TooManyRoles => (400, 30005),
            Self::TooManyOverwrites => (400, 30060),
            Self::UnknownOverwrite => (404, 10009),
            Self::InvalidRole => (400, 50028),
            Self::NotInVoice => (400, 40032),
            Self::InvalidForm(_) => (400, 50035),
            Self::SlowMode { .. } => (429, 20016),
            Self::Changed => (409, 0),
            Self::Unavailable => (503, 0),
        }
    }
}
