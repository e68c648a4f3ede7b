//! Commands that backends and REST send to a guild, and their replies.
//!
//! Owns        `Actor`, `Command`; in the folder what commands carry, by subject, and `Reply` and `Refusal`.
//! Invariants  a command is applied whole or refused whole; it is answered only once what it changed is durable.
//! Not here    HTTP, rate limits, tokens: `guildhall-rest`.

mod audit;
mod auto_moderation;
mod backend;
mod community;
mod direct;
mod expression;
mod interaction;
mod kind;
mod message;
mod outcome;
mod people;
mod refusal;
mod reply;
pub mod request;
mod scheduled_event;
mod stage;
mod structure;
mod thread;
mod webhook;

use guildhall_model::{
    ChannelId, EmojiId, Follower, Id, InviteCode, MessageId, Overwrite, OverwriteKind, Presence, ReactionEmoji, RoleId,
    StickerId, User, UserId, WebhookId,
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;

pub use audit::AuditQuery;
pub use auto_moderation::AutoModPatch;
pub use backend::{
    BackendCommand, Expected, IMPORT_MEMBERS_MAX, IMPORT_MESSAGES_MAX, Imported, JoinAudience, NewMember,
    REASSIGNED_MAX, ROLE_CHANGES_MAX, RoleChange, RolesPut,
};
pub use community::{NewTemplate, OnboardingPatch, TemplatePatch, TemplateReply, WelcomeScreenPatch};
pub use direct::{DirectCommand, NewDirect};
pub use expression::{EmojiPatch, NewEmoji, NewSticker, StickerPatch};
pub use interaction::{InteractionContext, InteractionQuery, RESOLVED_MAX, Response, ResponsePatch};
pub use message::{AllowedMentions, CONTENT_CHARS_MAX, Forward, MessagePatch, NewMessage, NewPoll, ReplyTo};
pub use outcome::Outcome;
pub(crate) use outcome::{CommandResult, Stop};
pub use people::{BulkRole, Join, MemberPatch, NewBan, NewInvite, Page, Prune, RoleAction};
pub use refusal::{DATABASE_AWAY, DISK_FULL, Refusal};
pub use reply::{GuildReply, InviteReply, MessageReply, ReactionCount, Reply, ThreadList, ThreadReply};
pub use request::{ChannelReply, HistoryGrant, PublishReply, ReplyValue, Request, Upserted};
pub(crate) use scheduled_event::Interest;
pub use scheduled_event::{NewScheduledEvent, ScheduledEventContent};
pub use stage::{StageContent, VoiceStatePatch};
pub use structure::{ChannelMove, ChannelPatch, GuildPatch, NewChannel, NewGuild, NewRole, RolePatch};
pub use thread::{ArchivedThreads, NewThread};
pub use webhook::{NewFollow, NewWebhook, WebhookAccess, WebhookPatch, WebhookPost};

/// For a field of a patch that is there: `Some(None)` removes a value. Without the field there is no change.
fn some<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The requester of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// A command to a guild.
#[derive(Clone, Debug, strum::EnumDiscriminants, Serialize, Deserialize)]
#[strum_discriminants(
    name(CommandKind),
    derive(strum::VariantNames),
    strum(serialize_all = "snake_case"),
    allow(missing_docs),
    doc = "Kind of a command, for time accounting."
)]
pub enum Command {
    // Reading. Each checks that the actor may see the result.
    /// Base fields, roles, channels, counts.
    ReadGuild,
    /// One channel the actor can view.
    ReadChannel(ChannelId),
    /// Reads one member.
    ReadMember(UserId),
    /// A snapshot of all members, to be read at leisure.
    ReadMembers,
    /// Members by the beginning of a name (not empty), by id: `limit` at most, and `found_members_max`.
    SearchMembers {
        /// Whatever its case.
        query: String,
        /// Maximum number of results, at least 1.
        limit: usize,
    },
    /// How many `@everyone` and `@context` reach in a channel the actor can view.
    ReadAudience(ChannelId),
    /// May the actor read this channel's messages, and its history?
    AuthorizeHistory(ChannelId),
    /// Channels and threads whose history the actor may read, ascending; age-restricted ones only if `include_nsfw`.
    ReadableChannels { include_nsfw: bool },
    /// May the actor send files there, or add some to this message of theirs? REST checks it before an upload.
    AuthorizeFiles(ChannelId, Option<MessageId>),

    // Messages.
    /// Sends a message.
    CreateMessage(ChannelId, Box<NewMessage>),
    /// Changes a message's content.
    EditMessage(ChannelId, MessageId, Box<MessagePatch>),
    /// Deletes a message.
    DeleteMessage(ChannelId, MessageId),
    /// Deletes several messages of a channel (MANAGE_MESSAGES), whether or not they exist; published as one event.
    DeleteMessages(ChannelId, Vec<MessageId>),
    /// Forgets a channel's messages below this one, before the node deletes them. System only; no
    /// event but that of pins.
    ExpireMessages(ChannelId, MessageId),
    /// Pins a message.
    Pin(ChannelId, MessageId),
    /// Unpins a message.
    Unpin(ChannelId, MessageId),
    /// Pinned messages, the newest pin first; none without READ_MESSAGE_HISTORY.
    ListPins(ChannelId),
    /// Adds the actor's reaction.
    AddReaction(ChannelId, MessageId, ReactionEmoji),
    /// Removes a reaction: the actor's own, or (with MANAGE_MESSAGES) another user's.
    RemoveReaction(ChannelId, MessageId, ReactionEmoji, UserId),
    /// Removes all reactions, or all with one emoji.
    ClearReactions(ChannelId, MessageId, Option<ReactionEmoji>),
    /// Rules of auto moderation, by id (MANAGE_GUILD).
    ListAutoModRules,
    /// Adds a rule of auto moderation.
    CreateAutoModRule(Box<AutoModPatch>),
    /// Changes a rule of auto moderation.
    UpdateAutoModRule(Id<()>, Box<AutoModPatch>),
    /// Deletes a rule of auto moderation.
    DeleteAutoModRule(Id<()>),
    /// Publishes a message of an announcement channel. The caller delivers it to the followers.
    Crosspost(ChannelId, MessageId),
    /// Adds a follower of an announcement channel that the actor can view.
    AddFollower(ChannelId, Follower),
    /// Removes a follower. System only.
    RemoveFollower(ChannelId, WebhookId),
    /// Followers of an announcement channel. System only.
    ListFollowers(ChannelId),
    /// Has a channel follow an announcement channel, which the caller has checked (MANAGE_WEBHOOKS).
    Follow(ChannelId, Box<NewFollow>),
    /// Posts a copy of a published message by the webhook of a follower. System only.
    DeliverCrosspost(WebhookId, Box<Forward>),
    /// Votes for these answers of a poll, and for no others.
    Vote(ChannelId, MessageId, Vec<u8>),
    /// Ends the actor's poll before its time.
    EndPoll(ChannelId, MessageId),
    /// Publishes that the actor is typing.
    StartTyping(ChannelId),

    // Structure and people.
    /// Changes base fields.
    UpdateGuild(Box<GuildPatch>),
    /// Deletes the guild.
    DeleteGuild,
    /// The welcome screen; one that is not enabled needs MANAGE_GUILD.
    ReadWelcomeScreen,
    /// Changes the welcome screen (MANAGE_GUILD).
    UpdateWelcomeScreen(Box<WelcomeScreenPatch>),
    /// Questions and channels for new members.
    ReadOnboarding,
    /// Changes those (MANAGE_GUILD and MANAGE_ROLES).
    UpdateOnboarding(Box<OnboardingPatch>),
    /// Gives the actor the roles of these options.
    AnswerOnboarding {
        options: Vec<Id<()>>,
        /// The roles of the other options are taken away.
        replaces: bool,
        /// Prompts that the client has shown, and when.
        #[serde(default)]
        prompts_seen: Box<[(Id<()>, Timestamp)]>,
        /// Options that it has shown.
        #[serde(default)]
        options_seen: Box<[(Id<()>, Timestamp)]>,
    },
    /// The guild by the code of its vanity URL. Any actor may read it.
    ReadVanityInvite(Box<str>),
    /// Joins by the vanity URL.
    AcceptVanityInvite(Box<str>, Arc<User>),
    /// Templates of the guild (MANAGE_GUILD).
    ListTemplates,
    /// Makes a template of the guild (MANAGE_GUILD).
    CreateTemplate(Box<NewTemplate>),
    /// Changes the texts of a template (MANAGE_GUILD).
    UpdateTemplate(InviteCode, Box<TemplatePatch>),
    /// Has a template take over the guild's present structure (MANAGE_GUILD).
    SyncTemplate(InviteCode),
    /// Deletes a template (MANAGE_GUILD).
    DeleteTemplate(InviteCode),
    /// A template by its code. Any actor may read it.
    ReadTemplate(InviteCode),
    /// Counts a guild that was made from a template. System only.
    UseTemplate(InviteCode),
    /// Creates a role at position 1; the system may choose another position.
    CreateRole(Box<NewRole>),
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
    /// Schedules an event.
    CreateScheduledEvent(Box<NewScheduledEvent>),
    /// Replaces the content of a scheduled event.
    UpdateScheduledEvent(Id<()>, Box<ScheduledEventContent>),
    /// Removes a scheduled event.
    DeleteScheduledEvent(Id<()>),
    /// Adds the actor to the followers of a scheduled event.
    FollowScheduledEvent(Id<()>),
    /// Removes the actor from the followers of a scheduled event.
    UnfollowScheduledEvent(Id<()>),
    /// Opens a stage in a stage channel.
    CreateStage(ChannelId, Box<StageContent>),
    /// Replaces the content of an open stage.
    UpdateStage(ChannelId, Box<StageContent>),
    /// Closes a stage.
    DeleteStage(ChannelId),
    /// Adds a channel. Its id is assigned.
    CreateChannel(Box<NewChannel>),
    /// Changes a channel.
    UpdateChannel(ChannelId, Box<ChannelPatch>),
    /// Removes a channel. Members in voice leave first, a slice at a time, and none can join. If the command is refused
    /// in the end (the actor lost the permission in between), those members have left.
    DeleteChannel(ChannelId),
    /// Begins a thread, from a message or without.
    CreateThread(ChannelId, Box<NewThread>),
    /// Adds the actor or another user to a thread.
    AddThreadMember(ChannelId, UserId),
    /// Removes the actor or another user from a thread.
    RemoveThreadMember(ChannelId, UserId),
    /// Open threads that the actor can view.
    ListThreads,
    /// Closed threads of a channel, those that were closed last first.
    ListArchivedThreads(ChannelId, ArchivedThreads),
    /// Lists the members of a thread.
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
    /// Adds a user who authorized it (CREATE_INSTANT_INVITE). The reply is the member, or `Done` for an existing one.
    Join(Box<Join>),
    /// Bans a user (BAN_MEMBERS), member or not. A member is removed.
    Ban(Box<NewBan>),
    /// Removes a ban.
    Unban(UserId),
    /// Reads one ban.
    ReadBan(UserId),
    /// Bans by user id, ascending.
    ListBans(Page<UserId>),
    /// Entries of the audit log (VIEW_AUDIT_LOG).
    ReadAuditLog(AuditQuery),
    /// Makes an invite into a channel, or finds a similar one.
    CreateInvite(ChannelId, Box<NewInvite>),
    /// Reads an invite, for any caller that knows its code.
    ReadInvite(InviteCode),
    /// Takes an invite back.
    DeleteInvite(InviteCode),
    /// Invites into a channel, or into all.
    ListInvites(Option<ChannelId>),
    /// Adds this user by an invite. The actor is ignored.
    AcceptInvite(InviteCode, Arc<User>),
    /// Makes a webhook (MANAGE_WEBHOOKS). Its id is assigned.
    CreateWebhook(ChannelId, Box<NewWebhook>),
    /// Reads one webhook.
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
    /// Changes a message of a webhook.
    EditWebhookMessage(WebhookId, WebhookAccess, Option<ChannelId>, MessageId, Box<MessagePatch>),
    /// Takes one back.
    DeleteWebhookMessage(WebhookId, WebhookAccess, Option<ChannelId>, MessageId),
    /// Reads the objects of an interaction of the actor with an application in this channel.
    ReadInteraction(ChannelId, Box<InteractionQuery>),
    /// Answers an interaction by a message of its application. System only: the caller has checked the token.
    CreateResponse(ChannelId, Box<Response>),
    /// Changes such a message. System only.
    EditResponse(ChannelId, MessageId, Box<ResponsePatch>),
    /// Removes a member: they leave, or are thrown out.
    RemoveMember(UserId),
    /// Removes members who are offline and have none but the given roles (KICK_MEMBERS). The reply is their number. Not
    /// one transaction: a job finds them on a snapshot, and the guild removes a slice at a time after checking each
    /// again. Others see intermediate states; after an early end (a refusal, a failure of the node) the members removed
    /// so far stay removed.
    Prune(Box<Prune>),
    /// Gives many members a role, or takes it from them (MANAGE_ROLES). Answered with how many were changed. Not one
    /// transaction either.
    BulkRole(Box<BulkRole>),
    /// Shows a presence for a member who has no session here (demo, bridges). System only; `None` ends it.
    ShowPresence(UserId, Option<Arc<Presence>>),
    /// Puts a member into a voice channel, or takes them out (demo, bridges, media servers). A session that is in voice
    /// moves, and gets a new token; without one the member is shown there. System only.
    ShowVoice(UserId, Option<ChannelId>),
    /// Takes members out of a voice channel after its room at the media server has ended: a few at a time. The answer
    /// is their number; 0: none is left. System only.
    EmptyVoice(ChannelId),
    /// Voice state of a user in a channel that the actor can view, or of the actor.
    ReadVoiceState(UserId),
    /// On a stage: requests to speak, or changes who speaks.
    UpdateVoiceState(UserId, VoiceStatePatch),
    /// Commands that only direct messages have.
    Direct(DirectCommand),
    /// Commands of backends. System only.
    Backend(Box<BackendCommand>),
    /// A command with the actor's reason for it, which the audit log keeps.
    WithReason(Arc<str>, Box<Command>),
}

impl Command {
    /// Whether it may lead to a write. Such commands are refused while the disk is full, `AuthorizeFiles` too: a
    /// message follows.
    #[must_use]
    pub fn may_write(&self) -> bool {
        let is_read = matches!(
            self,
            Self::ReadGuild
                | Self::ReadChannel(_)
                | Self::ReadMember(_)
                | Self::ReadMembers
                | Self::SearchMembers { .. }
                | Self::ReadAudience(_)
                | Self::AuthorizeHistory(_)
                | Self::ReadableChannels { .. }
                | Self::ListPins(_)
                | Self::ListFollowers(_)
                | Self::ListAutoModRules
                | Self::ReadWelcomeScreen
                | Self::ReadOnboarding
                | Self::ReadVanityInvite(_)
                | Self::ListTemplates
                | Self::ReadTemplate(_)
                | Self::ListThreads
                | Self::ListArchivedThreads(..)
                | Self::ListThreadMembers(_)
                | Self::ReadBan(_)
                | Self::ListBans(_)
                | Self::ReadAuditLog(_)
                | Self::ReadInvite(_)
                | Self::ListInvites(_)
                | Self::ReadWebhook(..)
                | Self::ListWebhooks(_)
                | Self::ReadWebhookMessage(..)
                | Self::ReadVoiceState(_)
                | Self::ReadInteraction(..)
        );
        let is_transient = matches!(
            self,
            Self::StartTyping(_)
                | Self::ShowPresence(..)
                | Self::ShowVoice(..)
                | Self::EmptyVoice(_)
                | Self::UpdateVoiceState(..)
        ) || matches!(self, Self::Backend(command) if matches!(**command, BackendCommand::Publish { .. } | BackendCommand::CompareMembers(_)));
        !is_read && !is_transient
    }

    /// Whether it removes data, and adds an entry of the audit log at most: such commands are executed while the disk
    /// has only its reserve left. The account that `RefreshMember` announces was written before.
    #[must_use]
    pub fn is_deletion(&self) -> bool {
        match self {
            Self::DeleteMessage(..)
            | Self::DeleteMessages(..)
            | Self::ExpireMessages(..)
            | Self::Unpin(..)
            | Self::RemoveReaction(..)
            | Self::ClearReactions(..)
            | Self::DeleteGuild
            | Self::DeleteTemplate(_)
            | Self::DeleteRole(_)
            | Self::DeleteEmoji(_)
            | Self::DeleteSticker(_)
            | Self::DeleteScheduledEvent(_)
            | Self::UnfollowScheduledEvent(_)
            | Self::DeleteStage(_)
            | Self::DeleteChannel(_)
            | Self::RemoveThreadMember(..)
            | Self::DeleteOverwrite(..)
            | Self::RemoveMemberRole(..)
            | Self::Unban(_)
            | Self::DeleteInvite(_)
            | Self::DeleteWebhook(..)
            | Self::DeleteWebhookMessage(..)
            | Self::RemoveMember(_)
            | Self::Prune(_)
            | Self::RefreshMember(_)
            | Self::Direct(DirectCommand::RemoveRecipient(_)) => true,
            Self::Backend(command) => {
                matches!(**command, BackendCommand::RemoveMembers(_) | BackendCommand::RefreshUser(_))
            }
            Self::WithReason(_, command) => command.is_deletion(),
            _ => false,
        }
    }

    /// Account that is a member after the command has succeeded.
    #[must_use]
    pub fn joins(&self) -> Option<UserId> {
        match self {
            Self::AddMember(user) | Self::AcceptInvite(_, user) | Self::AcceptVanityInvite(_, user) => Some(user.id),
            Self::Join(join) => Some(join.user.id),
            Self::WithReason(_, command) => command.joins(),
            _ => None,
        }
    }
}
