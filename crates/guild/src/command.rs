//! Commands: what backends and REST ask of a guild, and what it answers.
//!
//! Owns        `Command`, `Reply`, and `Refusal`, each with the HTTP status and code of docs/protocol.md §10.1.
//! Invariants  a command is applied whole or refused whole; it is answered only once what it changed is durable.
//! Not here    HTTP, rate limits, tokens: `guildhall-api`.

use crate::{
    backend::{BackendCommand, Imported},
    direct::DirectCommand,
    job::{Audience, MemberFilter},
    webhooks::WebhookAccess,
};
use guildhall_model::{
    Attachment, Ban, Channel, ChannelId, ChannelType, Direct, Emoji, EmojiId, Guild, Id, Invite, InviteCode, Member,
    MessageId, Nonce, Overwrite, OverwriteKind, Permissions, Presence, ReactionEmoji, Role, RoleId, ScheduledEvent,
    StageInstance, Sticker, StickerId, ThreadMember, User, UserId, Webhook, WebhookId,
};
use guildhall_relay::{GuildMeta, MemberTable, ThreadEntry};
use guildhall_stdx::{CowMap, Timestamp};
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
    /// Files that lie somewhere else; their ids are assigned.
    pub attachments: Vec<Attachment>,
    /// Of the guild's own.
    pub sticker_ids: Vec<StickerId>,
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
    /// Which attachments stay.
    pub attachments: Option<Vec<Id<()>>>,
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
    /// Of a thread: nobody writes in it.
    pub archived: Option<bool>,
    /// Of a thread: only moderators open it again.
    pub locked: Option<bool>,
    /// Of a thread: minutes until clients hide it.
    pub auto_archive_duration: Option<u16>,
    /// Of a private thread: its members bring others in.
    pub invitable: Option<bool>,
    /// Of a post: its tags.
    pub applied_tags: Option<Vec<Id<()>>>,
    /// Of a group: who owns it.
    pub owner_id: Option<UserId>,
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
    /// Where idle people in voice go, or nowhere.
    pub afk_channel_id: Option<Option<ChannelId>>,
    /// Seconds until then.
    pub afk_timeout: Option<u16>,
    /// 0–4.
    pub verification_level: Option<u8>,
    /// 0 all messages, 1 only mentions.
    pub default_message_notifications: Option<u8>,
    /// 0–2.
    pub explicit_content_filter: Option<u8>,
    /// Where system messages go, or nowhere.
    pub system_channel_id: Option<Option<ChannelId>>,
    /// Language.
    pub preferred_locale: Option<String>,
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
    /// Takes back several messages of a channel (MANAGE_MESSAGES), whether or not they exist; told as one event.
    DeleteMessages(ChannelId, Vec<MessageId>),
    /// Pins a message.
    Pin(ChannelId, MessageId),
    /// Unpins it.
    Unpin(ChannelId, MessageId),
    /// Pinned messages, the newest pin first; none without READ_MESSAGE_HISTORY.
    ListPins(ChannelId),
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
    /// Puts several roles into order.
    MoveRoles(Vec<(RoleId, i32)>),
    /// Puts several channels into order.
    MoveChannels(Vec<ChannelMove>),
    /// Adds an emoji. Its id is assigned.
    CreateEmoji(Box<NewEmoji>),
    /// Changes an emoji.
    UpdateEmoji(EmojiId, Box<EmojiPatch>),
    /// Removes an emoji.
    DeleteEmoji(EmojiId),
    /// Adds a sticker. Its id is assigned.
    CreateSticker(Box<NewSticker>),
    /// Changes a sticker.
    UpdateSticker(StickerId, Box<StickerPatch>),
    /// Removes a sticker.
    DeleteSticker(StickerId),
    /// Announces something (with id 0), or replaces what was announced.
    PutScheduledEvent(Box<ScheduledEvent>),
    /// Takes it back.
    DeleteScheduledEvent(Id<()>),
    /// The actor is interested in it, or no more.
    FollowScheduledEvent(Id<()>, bool),
    /// Opens a stage (true), or changes one that is open.
    PutStage(Box<StageInstance>, bool),
    /// Closes a stage.
    DeleteStage(ChannelId),
    /// Adds a channel. Its id is assigned.
    CreateChannel(Box<NewChannel>),
    /// Changes a channel.
    UpdateChannel(ChannelId, Box<ChannelPatch>),
    /// Removes a channel. Where many are in voice they leave first, a slice at a time, and nobody comes in; if it is refused
    /// in the end (the actor lost the permission meanwhile), who left has left.
    DeleteChannel(ChannelId),
    /// Begins a thread, from a message or without.
    CreateThread(ChannelId, Box<NewThread>),
    /// Joins a thread, or brings somebody in.
    AddThreadMember(ChannelId, UserId),
    /// Leaves a thread, or throws somebody out.
    RemoveThreadMember(ChannelId, UserId),
    /// Open threads that the actor can view.
    ListThreads,
    /// Closed threads of a channel, those that were closed last first.
    ListArchivedThreads(ChannelId, ArchivedThreads),
    /// Who is in a thread.
    ListThreadMembers(ChannelId),
    /// Adds or replaces one overwrite of a channel.
    PutOverwrite(ChannelId, Overwrite),
    /// Removes one overwrite of a channel.
    DeleteOverwrite(ChannelId, OverwriteKind),
    /// Adds a member (system only), or refreshes the account of one who is there.
    AddMember(Arc<User>),
    /// An account changed (system only): its member follows, if it is one.
    RefreshMember(Arc<User>),
    /// Changes a member.
    UpdateMember(UserId, Box<MemberPatch>),
    /// Gives a member a role.
    AddMemberRole(UserId, RoleId),
    /// Takes a role from a member.
    RemoveMemberRole(UserId, RoleId),
    /// Brings somebody in who agreed to it (CREATE_INSTANT_INVITE). Answered with the member, or done if they were one.
    Join(Box<Join>),
    /// Bans somebody (BAN_MEMBERS), member or not. Members are thrown out.
    Ban(Box<NewBan>),
    /// Ends a ban.
    Unban(UserId),
    /// One ban.
    ReadBan(UserId),
    /// Bans by user id, ascending.
    ListBans(Page<UserId>),
    /// Makes an invite into a channel, or finds a similar one.
    CreateInvite(ChannelId, Box<NewInvite>),
    /// An invite, for whoever knows its code: nothing else is asked.
    ReadInvite(InviteCode),
    /// Takes an invite back.
    DeleteInvite(InviteCode),
    /// Invites into a channel, or into all.
    ListInvites(Option<ChannelId>),
    /// Comes in by an invite. The actor says nothing: it is who is named.
    AcceptInvite(InviteCode, Arc<User>),
    /// Makes a webhook (MANAGE_WEBHOOKS). Its id is assigned.
    CreateWebhook(ChannelId, Box<NewWebhook>),
    /// One webhook.
    ReadWebhook(WebhookId, WebhookAccess),
    /// Webhooks of a channel, or of all that the actor may manage.
    ListWebhooks(Option<ChannelId>),
    /// Changes a webhook.
    UpdateWebhook(WebhookId, WebhookAccess, Box<WebhookPatch>),
    /// Deletes a webhook.
    DeleteWebhook(WebhookId, WebhookAccess),
    /// Posts by a webhook.
    ExecuteWebhook(WebhookId, WebhookAccess, Box<WebhookPost>),
    /// A message that was posted by it, there or in a thread.
    ReadWebhookMessage(WebhookId, WebhookAccess, Option<ChannelId>, MessageId),
    /// Changes one.
    EditWebhookMessage(WebhookId, WebhookAccess, Option<ChannelId>, MessageId, Box<MessagePatch>),
    /// Takes one back.
    DeleteWebhookMessage(WebhookId, WebhookAccess, Option<ChannelId>, MessageId),
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
    /// What is asked only of direct messages.
    Direct(DirectCommand),
    /// What only backends ask. System only.
    Backend(Box<BackendCommand>),
}

impl Command {
    /// Who is a member, or was one already, once it has succeeded.
    #[must_use]
    pub fn joins(&self) -> Option<UserId> {
        match self {
            Self::AddMember(user) | Self::AcceptInvite(_, user) => Some(user.id),
            Self::Join(join) => Some(join.user.id),
            _ => None,
        }
    }
}

/// Somebody to be brought in.
#[derive(Clone, Debug)]
pub struct Join {
    /// Who.
    pub user: Arc<User>,
    /// Their nick (MANAGE_NICKNAMES).
    pub nick: Option<String>,
    /// Their roles (MANAGE_ROLES).
    pub roles: Vec<RoleId>,
    /// Server-muted (MUTE_MEMBERS).
    pub mute: bool,
    /// Server-deafened (DEAFEN_MEMBERS).
    pub deaf: bool,
}

/// Somebody to be banned.
#[derive(Clone, Debug)]
pub struct NewBan {
    /// Who.
    pub user: Arc<User>,
    /// Why.
    pub reason: Option<String>,
    /// How far back what they said is deleted: told, and done by the caller.
    pub delete_message_s: u32,
}

/// A stretch of a sorted list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page<T> {
    /// The last so many before it, still ascending.
    Before(T, usize),
    /// The first so many after it.
    After(T, usize),
}

/// An invite to be made.
#[derive(Clone, Debug)]
pub struct NewInvite {
    /// One that nobody can guess and no other has.
    pub code: InviteCode,
    /// For how long, seconds; 0 for ever.
    pub max_age_s: u32,
    /// How often; 0 as often as one likes.
    pub max_uses: u32,
    /// Whoever comes in by it leaves with their last session.
    pub temporary: bool,
    /// Never a similar one instead.
    pub is_unique: bool,
}

/// A webhook to be made.
#[derive(Clone, Debug)]
pub struct NewWebhook {
    /// What its messages are signed with.
    pub name: String,
    /// Hash of the picture.
    pub avatar: Option<String>,
    /// One that nobody can guess.
    pub token: String,
}

/// Changes to a webhook; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct WebhookPatch {
    /// New name.
    pub name: Option<String>,
    /// New picture, or none.
    pub avatar: Option<Option<String>>,
    /// Where it posts from now on; not by token.
    pub channel_id: Option<ChannelId>,
}

/// Something to be posted by a webhook. Lengths and counts were checked by the caller.
#[derive(Clone, Debug)]
pub struct WebhookPost {
    /// What.
    pub message: NewMessage,
    /// Signed with this instead.
    pub username: Option<String>,
    /// With this picture instead.
    pub avatar: Option<String>,
    /// Into this thread of its channel.
    pub thread_id: Option<ChannelId>,
}

/// Where a channel is to be; `None` leaves it there.
#[derive(Clone, Debug)]
pub struct ChannelMove {
    /// Which.
    pub id: ChannelId,
    /// Its new place.
    pub position: Option<i32>,
    /// Its new category, or none.
    pub parent_id: Option<Option<ChannelId>>,
    /// It gets its category's overwrites.
    pub lock_permissions: bool,
}

/// An emoji to be added.
#[derive(Clone, Debug)]
pub struct NewEmoji {
    /// 2–32 letters, digits and underscores.
    pub name: String,
    /// Whether it moves.
    pub animated: bool,
    /// Only for these.
    pub roles: Vec<RoleId>,
}

/// Changes to an emoji; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct EmojiPatch {
    /// New name.
    pub name: Option<String>,
    /// Only for these from now on.
    pub roles: Option<Vec<RoleId>>,
}

/// A sticker to be added.
#[derive(Clone, Debug)]
pub struct NewSticker {
    /// 2–30 characters.
    pub name: String,
    /// What it shows.
    pub description: Option<String>,
    /// What finds it.
    pub tags: String,
}

/// Changes to a sticker; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct StickerPatch {
    /// New name.
    pub name: Option<String>,
    /// New description, or none.
    pub description: Option<Option<String>>,
    /// New tags.
    pub tags: Option<String>,
}

/// A thread to be begun.
#[derive(Clone, Debug, Default)]
pub struct NewThread {
    /// 1–100 characters.
    pub name: String,
    /// From this message, whose id it gets.
    pub from: Option<MessageId>,
    /// What kind; none: what the channel has.
    pub kind: Option<ChannelType>,
    /// Minutes until clients hide it; none: three days.
    pub auto_archive_duration: Option<u16>,
    /// Of a private one: its members bring others in.
    pub invitable: bool,
    /// Slow mode, seconds.
    pub rate_limit_per_user: u16,
    /// What a post of a forum begins with; there, and only there, it must be.
    pub message: Option<Box<NewMessage>>,
    /// Of a post: its tags.
    pub applied_tags: Vec<Id<()>>,
}

/// Which closed threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchivedThreads {
    /// Private ones instead of public ones.
    pub are_private: bool,
    /// Only those that the actor is in.
    pub are_own: bool,
    /// Those that were closed before.
    pub before: Option<Timestamp>,
    /// At most so many.
    pub limit: usize,
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
    /// Not banned.
    #[error("Unknown Ban")]
    UnknownBan,
    /// No such invite, or it is over.
    #[error("Unknown Invite")]
    UnknownInvite,
    /// No such webhook.
    #[error("Unknown Webhook")]
    UnknownWebhook,
    /// Not the webhook's token.
    #[error("Invalid Webhook Token")]
    InvalidWebhookToken,
    /// They may not come in.
    #[error("The user is banned from this guild.")]
    Banned,
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
    /// Not one of the guild's.
    #[error("Invalid sticker sent")]
    InvalidSticker,
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
    /// More bans than a guild can have.
    #[error("Maximum number of bans has been reached (500000)")]
    TooManyBans,
    /// More invites than a guild can have.
    #[error("Maximum number of invites reached (1000)")]
    TooManyInvites,
    /// More webhooks than a channel can have.
    #[error("Maximum number of webhooks reached (15)")]
    TooManyWebhooks,
    /// More pins than a channel can have.
    #[error("Maximum number of pins reached for the channel (250)")]
    TooManyPins,
    /// No such sticker.
    #[error("Unknown Sticker")]
    UnknownSticker,
    /// Nothing like that is announced.
    #[error("Unknown Guild Scheduled Event")]
    UnknownScheduledEvent,
    /// No stage is open there.
    #[error("Unknown Stage Instance")]
    UnknownStage,
    /// One is open already.
    #[error("The Stage is already open")]
    StageExists,
    /// More emoji than a guild can have.
    #[error("Maximum number of emojis reached (250)")]
    TooManyEmojis,
    /// More stickers than a guild can have.
    #[error("Maximum number of stickers reached (60)")]
    TooManyStickers,
    /// More is announced than a guild can have.
    #[error("Maximum number of uncompleted guild scheduled events has been reached (100)")]
    TooManyScheduledEvents,
    /// More threads than a guild can have.
    #[error("Maximum number of active threads reached (1000)")]
    TooManyThreads,
    /// More members than a thread can have.
    #[error("Maximum number of thread participants has been reached (1000)")]
    TooManyThreadMembers,
    /// A message has one thread at most.
    #[error("A thread has already been created for this message")]
    ThreadExists,
    /// Nothing goes on in a closed thread.
    #[error("Tried to perform an operation on an archived thread, such as editing a message or adding a user")]
    ArchivedThread,
    /// Only moderators open it.
    #[error("This thread is locked")]
    LockedThread,
    /// Direct messages have no such thing.
    #[error("Cannot execute action on a DM channel")]
    NotInDirect,
    /// Nobody can be written to by whoever asks.
    #[error("Cannot send messages to this user")]
    CannotMessage,
    /// Not somebody who can be written to.
    #[error("Invalid Recipient(s)")]
    InvalidRecipient,
    /// More people than a group can have.
    #[error("Maximum number of recipients reached (10)")]
    TooManyRecipients,
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
            Self::UnknownBan => (404, 10026),
            Self::UnknownInvite => (404, 10006),
            Self::UnknownWebhook => (404, 10015),
            Self::InvalidWebhookToken => (401, 50027),
            Self::Banned => (403, 40007),
            Self::TooManyBans => (400, 30035),
            Self::TooManyInvites => (400, 30016),
            Self::TooManyWebhooks => (400, 30007),
            Self::TooManyPins => (400, 30003),
            Self::UnknownSticker => (404, 10060),
            Self::UnknownScheduledEvent => (404, 10070),
            Self::UnknownStage => (404, 10067),
            Self::StageExists => (400, 150_006),
            Self::TooManyEmojis => (400, 30008),
            Self::TooManyStickers => (400, 30039),
            Self::TooManyScheduledEvents => (400, 30038),
            Self::TooManyThreads => (400, 160_006),
            Self::TooManyThreadMembers => (400, 30033),
            Self::ThreadExists => (400, 160_004),
            Self::ArchivedThread => (403, 50083),
            Self::LockedThread => (403, 160_005),
            Self::MissingAccess => (403, 50001),
            Self::MissingPermissions => (403, 50013),
            Self::NotTheAuthor => (403, 50005),
            Self::NotATextChannel => (400, 50008),
            Self::InvalidSticker => (400, 50081),
            Self::EmptyMessage => (400, 50006),
            Self::UnknownReference => (400, 50035),
            Self::TooManyReactions => (400, 30010),
            Self::TooManyChannels => (400, 30013),
            Self::TooManyRoles => (400, 30005),
            Self::NotInDirect => (403, 50003),
            Self::CannotMessage => (403, 50007),
            Self::InvalidRecipient => (400, 50033),
            Self::TooManyRecipients => (400, 30004),
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
