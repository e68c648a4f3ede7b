//! Requests: each command as a type that names the type of its reply.
//!
//! Owns        `Request`, `ReplyValue`, the table of commands and replies, `dispatch!`.
//! Invariants  Y1 a guild's handler returns, and a caller receives, the reply type that the table has for the command:
//!             the compiler checks both sides. `Command` and `Reply` remain the transport form.

use super::{
    ArchivedThreads, AuditQuery, AutoModPatch, BackendCommand, ChannelMove, ChannelPatch, Command, CommandResult,
    DirectCommand, EmojiPatch, Expected, Forward, GuildPatch, GuildReply, Imported, InteractionContext,
    InteractionQuery, InviteReply, JoinAudience, MemberPatch, MessagePatch, MessageReply, NewBan, NewChannel, NewEmoji,
    NewFollow, NewInvite, NewMember, NewMessage, NewRole, NewScheduledEvent, NewSticker, NewTemplate, NewThread,
    NewWebhook, OnboardingPatch, Page, Reply, Response, ResponsePatch, RoleChange, RolePatch, RolesPut,
    ScheduledEventContent, StageContent, StickerPatch, TemplatePatch, TemplateReply, ThreadList, ThreadReply,
    VoiceStatePatch, WebhookAccess, WebhookPatch, WebhookPost, WelcomeScreenPatch,
};
use crate::{job::Audience, publications::PublicationId};
use guildhall_guild_protocol::{AudienceRule, BackendEvent, GuildStructure, MemberTable, VoiceEntry};
use guildhall_model::{
    AuditEntry, AutoModRule, Channel, ChannelId, Direct, Emoji, EmojiId, Follower, Guild, Id, Invite, InviteCode,
    Member, Message, MessageId, Onboarding, Overwrite, OverwriteKind, Presence, ReactionEmoji, Role, RoleId,
    ScheduledEvent, StageInstance, Sticker, StickerId, ThreadMember, User, UserId, Webhook, WebhookId, WelcomeScreen,
};
use guildhall_stdx::Timestamp;
use std::{convert::identity, sync::Arc};

/// A command whose reply has a known type.
pub trait Request: Send {
    /// Result of the command.
    type Reply: ReplyValue;

    /// The command in the form in which it travels.
    fn into_command(self) -> Command;
}

/// A command that was made elsewhere, with any reply.
impl Request for Command {
    type Reply = Reply;

    fn into_command(self) -> Command {
        self
    }
}

/// A request with the actor's reason for it, which the audit log keeps.
#[derive(Clone, Debug)]
pub struct WithReason<R>(pub Option<Arc<str>>, pub R);

impl<R: Request> Request for WithReason<R> {
    type Reply = R::Reply;

    fn into_command(self) -> Command {
        let command = self.1.into_command();
        match self.0 {
            Some(reason) => Command::WithReason(reason, Box::new(command)),
            None => command,
        }
    }
}

/// Result of a command: one variant of `Reply`, or a choice of several.
pub trait ReplyValue: Sized + Send {
    /// The reply in the form in which it travels.
    fn into_reply(self) -> Reply;

    /// `None` if it is another reply.
    fn from_reply(reply: Reply) -> Option<Self>;
}

impl ReplyValue for Reply {
    fn into_reply(self) -> Reply {
        self
    }

    fn from_reply(reply: Reply) -> Option<Self> {
        Some(reply)
    }
}

impl ReplyValue for () {
    fn into_reply(self) -> Reply {
        Reply::Done
    }

    fn from_reply(reply: Reply) -> Option<Self> {
        matches!(reply, Reply::Done).then_some(())
    }
}

/// The member if the command added or changed one.
impl ReplyValue for Option<Arc<Member>> {
    fn into_reply(self) -> Reply {
        self.map_or(Reply::Done, Reply::Member)
    }

    fn from_reply(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Done => Some(None),
            Reply::Member(member) => Some(Some(member)),
            _ => None,
        }
    }
}

/// Invites, and the guild that they lead to.
impl ReplyValue for (Vec<Arc<Invite>>, Arc<GuildStructure>) {
    fn into_reply(self) -> Reply {
        Reply::Invites(self.0, self.1)
    }

    fn from_reply(reply: Reply) -> Option<Self> {
        if let Reply::Invites(invites, structure) = reply { Some((invites, structure)) } else { None }
    }
}

/// Reply to a command that names a channel: it can be of three kinds.
#[derive(Clone, Debug)]
pub enum ChannelReply {
    /// A channel of a guild, with its newest message's id filled in.
    Channel(Arc<Channel>),
    /// A direct message or group with its recipients.
    Direct(Direct),
    Thread(ThreadReply),
}

impl ReplyValue for ChannelReply {
    fn into_reply(self) -> Reply {
        match self {
            Self::Channel(channel) => Reply::Channel(channel),
            Self::Direct(direct) => Reply::Direct(direct),
            Self::Thread(thread) => Reply::Thread(thread),
        }
    }

    fn from_reply(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Channel(channel) => Some(Self::Channel(channel)),
            Reply::Direct(direct) => Some(Self::Direct(direct)),
            Reply::Thread(thread) => Some(Self::Thread(thread)),
            _ => None,
        }
    }
}

/// Reply to a command that adds or replaces an object.
#[derive(Clone, Copy, Debug)]
pub struct Upserted<T> {
    pub value: T,
    /// The object did not exist before.
    pub is_new: bool,
}

impl<T: ReplyValue> ReplyValue for Upserted<T> {
    fn into_reply(self) -> Reply {
        let reply = self.value.into_reply();
        if self.is_new { Reply::Created(Box::new(reply)) } else { reply }
    }

    fn from_reply(reply: Reply) -> Option<Self> {
        let (is_new, reply) = match reply {
            Reply::Created(reply) => (true, *reply),
            reply => (false, reply),
        };
        T::from_reply(reply).map(|value| Self { value, is_new })
    }
}

/// Permission to read a channel's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryGrant {
    /// READ_MESSAGE_HISTORY: older messages, too.
    pub may_read_history: bool,
}

impl ReplyValue for HistoryGrant {
    fn into_reply(self) -> Reply {
        Reply::HistoryGrant { may_read_history: self.may_read_history }
    }

    fn from_reply(reply: Reply) -> Option<Self> {
        if let Reply::HistoryGrant { may_read_history } = reply { Some(Self { may_read_history }) } else { None }
    }
}

/// What became of an event that was to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishReply {
    /// This number of relays will report how many sessions it reached.
    Published { relays: u64 },
    /// The guild published it for an earlier request.
    PublishedBefore,
}

impl ReplyValue for PublishReply {
    fn into_reply(self) -> Reply {
        match self {
            Self::Published { relays } => Reply::Count(relays),
            Self::PublishedBefore => Reply::Done,
        }
    }

    fn from_reply(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Count(relays) => Some(Self::Published { relays }),
            Reply::Done => Some(Self::PublishedBefore),
            _ => None,
        }
    }
}

macro_rules! reply_values {
    ($($variant:ident: $type:ty;)*) => { $(
        impl ReplyValue for $type {
            fn into_reply(self) -> Reply {
                Reply::$variant(self)
            }

            fn from_reply(reply: Reply) -> Option<Self> {
                if let Reply::$variant(value) = reply { Some(value) } else { None }
            }
        }
    )* };
}

reply_values! {
    Guild: Box<GuildReply>;
    Channel: Arc<Channel>;
    Channels: Vec<ChannelId>;
    Direct: Direct;
    Thread: ThreadReply;
    Threads: Box<ThreadList>;
    ThreadMembers: Vec<(ThreadMember, Option<Arc<Member>>)>;
    Emoji: Box<Emoji>;
    Sticker: Box<Sticker>;
    ScheduledEvent: Arc<ScheduledEvent>;
    Stage: Box<StageInstance>;
    Role: Arc<Role>;
    Member: Arc<Member>;
    Members: MemberTable;
    FoundMembers: Vec<Arc<Member>>;
    Bans: Vec<Arc<guildhall_model::Ban>>;
    AuditLog: Vec<Arc<AuditEntry>>;
    Invite: Box<InviteReply>;
    Webhook: Arc<Webhook>;
    Webhooks: Vec<Arc<Webhook>>;
    Pins: Vec<(MessageId, Timestamp)>;
    Followers: Vec<Follower>;
    AutoModRules: Vec<Arc<AutoModRule>>;
    AutoModRule: Arc<AutoModRule>;
    WelcomeScreen: Arc<WelcomeScreen>;
    Onboarding: Arc<Onboarding>;
    Template: Box<TemplateReply>;
    Templates: Vec<TemplateReply>;
    Audience: Audience;
    Count: u64;
    Imported: Box<Imported>;
    RolesPut: RolesPut;
    Message: Box<MessageReply>;
    VoiceState: Box<VoiceEntry>;
    Interaction: Box<InteractionContext>;
}

macro_rules! requests {
    ($enum:ident by $wrap:path; $(
        $name:ident $(($($field:ident: $type:ty),*))? $({$($named:ident: $named_type:ty),*})? -> $reply:ty;
    )*) => { $(
        #[doc = concat!("Request for `", stringify!($enum), "::", stringify!($name), "`.")]
        #[derive(Clone, Debug)]
        pub struct $name $(($(pub $type),*))? $(($(pub $named_type),*))?;

        impl Request for $name {
            type Reply = $reply;

            fn into_command(self) -> Command {
                let Self $(($($field),*))? $(($($named),*))? = self;
                $wrap($enum::$name $(($($field),*))? $({$($named),*})?)
            }
        }
    )* };
}

requests! {
    Command by identity;
    ReadGuild -> Box<GuildReply>;
    ReadChannel(channel: ChannelId) -> ChannelReply;
    ReadMember(user: UserId) -> Arc<Member>;
    ReadMembers -> MemberTable;
    SearchMembers { query: String, limit: usize } -> Vec<Arc<Member>>;
    ReadAudience(channel: ChannelId) -> Audience;
    AuthorizeHistory(channel: ChannelId) -> HistoryGrant;
    ReadableChannels { include_nsfw: bool } -> Vec<ChannelId>;
    AuthorizeFiles(channel: ChannelId, edited: Option<MessageId>) -> ();
    CreateMessage(channel: ChannelId, new: Box<NewMessage>) -> Box<MessageReply>;
    EditMessage(channel: ChannelId, message: MessageId, patch: Box<MessagePatch>) -> Box<MessageReply>;
    DeleteMessage(channel: ChannelId, message: MessageId) -> ();
    DeleteMessages(channel: ChannelId, messages: Vec<MessageId>) -> ();
    ExpireMessages(channel: ChannelId, before: MessageId) -> ();
    Pin(channel: ChannelId, message: MessageId) -> ();
    Unpin(channel: ChannelId, message: MessageId) -> ();
    ListPins(channel: ChannelId) -> Vec<(MessageId, Timestamp)>;
    AddReaction(channel: ChannelId, message: MessageId, emoji: ReactionEmoji) -> ();
    RemoveReaction(channel: ChannelId, message: MessageId, emoji: ReactionEmoji, user: UserId) -> ();
    ClearReactions(channel: ChannelId, message: MessageId, emoji: Option<ReactionEmoji>) -> ();
    ListAutoModRules -> Vec<Arc<AutoModRule>>;
    CreateAutoModRule(new: Box<AutoModPatch>) -> Arc<AutoModRule>;
    UpdateAutoModRule(id: Id<()>, patch: Box<AutoModPatch>) -> Arc<AutoModRule>;
    DeleteAutoModRule(id: Id<()>) -> ();
    Crosspost(channel: ChannelId, message: MessageId) -> Box<MessageReply>;
    AddFollower(channel: ChannelId, follower: Follower) -> ();
    RemoveFollower(channel: ChannelId, webhook: WebhookId) -> ();
    ListFollowers(channel: ChannelId) -> Vec<Follower>;
    Follow(channel: ChannelId, new: Box<NewFollow>) -> Arc<Webhook>;
    DeliverCrosspost(webhook: WebhookId, original: Box<Forward>) -> Box<MessageReply>;
    Vote(channel: ChannelId, message: MessageId, answers: Vec<u8>) -> ();
    EndPoll(channel: ChannelId, message: MessageId) -> Box<MessageReply>;
    StartTyping(channel: ChannelId) -> ();
    UpdateGuild(patch: Box<GuildPatch>) -> Box<GuildReply>;
    DeleteGuild -> ();
    ReadWelcomeScreen -> Arc<WelcomeScreen>;
    UpdateWelcomeScreen(patch: Box<WelcomeScreenPatch>) -> Arc<WelcomeScreen>;
    ReadOnboarding -> Arc<Onboarding>;
    UpdateOnboarding(patch: Box<OnboardingPatch>) -> Arc<Onboarding>;
    AnswerOnboarding {
        options: Vec<Id<()>>,
        replaces: bool,
        prompts_seen: Box<[(Id<()>, Timestamp)]>,
        options_seen: Box<[(Id<()>, Timestamp)]>
    } -> Arc<Member>;
    ReadVanityInvite(code: Box<str>) -> Box<InviteReply>;
    AcceptVanityInvite(code: Box<str>, user: Arc<User>) -> Box<InviteReply>;
    ListTemplates -> Vec<TemplateReply>;
    CreateTemplate(new: Box<NewTemplate>) -> Box<TemplateReply>;
    UpdateTemplate(code: InviteCode, patch: Box<TemplatePatch>) -> Box<TemplateReply>;
    SyncTemplate(code: InviteCode) -> Box<TemplateReply>;
    DeleteTemplate(code: InviteCode) -> Box<TemplateReply>;
    ReadTemplate(code: InviteCode) -> Box<TemplateReply>;
    UseTemplate(code: InviteCode) -> ();
    CreateRole(new: Box<NewRole>) -> Arc<Role>;
    UpdateRole(role: RoleId, patch: Box<RolePatch>) -> Arc<Role>;
    DeleteRole(role: RoleId) -> ();
    MoveRoles(moves: Vec<(RoleId, i32)>) -> ();
    MoveChannels(moves: Vec<ChannelMove>) -> ();
    CreateEmoji(new: Box<NewEmoji>) -> Box<Emoji>;
    UpdateEmoji(emoji: EmojiId, patch: Box<EmojiPatch>) -> Box<Emoji>;
    DeleteEmoji(emoji: EmojiId) -> ();
    CreateSticker(new: Box<NewSticker>) -> Box<Sticker>;
    UpdateSticker(sticker: StickerId, patch: Box<StickerPatch>) -> Box<Sticker>;
    DeleteSticker(sticker: StickerId) -> ();
    CreateScheduledEvent(new: Box<NewScheduledEvent>) -> Arc<ScheduledEvent>;
    UpdateScheduledEvent(event: Id<()>, content: Box<ScheduledEventContent>) -> Arc<ScheduledEvent>;
    DeleteScheduledEvent(event: Id<()>) -> ();
    FollowScheduledEvent(event: Id<()>) -> ();
    UnfollowScheduledEvent(event: Id<()>) -> ();
    CreateStage(channel: ChannelId, content: Box<StageContent>) -> Box<StageInstance>;
    UpdateStage(channel: ChannelId, content: Box<StageContent>) -> Box<StageInstance>;
    DeleteStage(channel: ChannelId) -> ();
    CreateChannel(new: Box<NewChannel>) -> Arc<Channel>;
    UpdateChannel(channel: ChannelId, patch: Box<ChannelPatch>) -> ChannelReply;
    DeleteChannel(channel: ChannelId) -> ChannelReply;
    CreateThread(channel: ChannelId, new: Box<NewThread>) -> ThreadReply;
    AddThreadMember(thread: ChannelId, user: UserId) -> ();
    RemoveThreadMember(thread: ChannelId, user: UserId) -> ();
    ListThreads -> Box<ThreadList>;
    ListArchivedThreads(channel: ChannelId, which: ArchivedThreads) -> Box<ThreadList>;
    ListThreadMembers(thread: ChannelId) -> Vec<(ThreadMember, Option<Arc<Member>>)>;
    PutOverwrite(channel: ChannelId, overwrite: Overwrite) -> ();
    DeleteOverwrite(channel: ChannelId, target: OverwriteKind) -> ();
    AddMember(user: Arc<User>) -> Arc<Member>;
    RefreshMember(user: Arc<User>) -> Option<Arc<Member>>;
    UpdateMember(user: UserId, patch: Box<MemberPatch>) -> Arc<Member>;
    AddMemberRole(user: UserId, role: RoleId) -> ();
    RemoveMemberRole(user: UserId, role: RoleId) -> ();
    RemoveMember(user: UserId) -> ();
    Join(join: Box<super::Join>) -> Option<Arc<Member>>;
    Ban(ban: Box<NewBan>) -> ();
    Unban(user: UserId) -> ();
    ReadBan(user: UserId) -> Vec<Arc<guildhall_model::Ban>>;
    ListBans(page: Page<UserId>) -> Vec<Arc<guildhall_model::Ban>>;
    ReadAuditLog(query: AuditQuery) -> Vec<Arc<AuditEntry>>;
    CreateInvite(channel: ChannelId, new: Box<NewInvite>) -> Box<InviteReply>;
    ReadInvite(code: InviteCode) -> Box<InviteReply>;
    DeleteInvite(code: InviteCode) -> Box<InviteReply>;
    ListInvites(channel: Option<ChannelId>) -> (Vec<Arc<Invite>>, Arc<GuildStructure>);
    AcceptInvite(code: InviteCode, user: Arc<User>) -> Box<InviteReply>;
    CreateWebhook(channel: ChannelId, new: Box<NewWebhook>) -> Arc<Webhook>;
    ReadWebhook(webhook: WebhookId, access: WebhookAccess) -> Arc<Webhook>;
    ListWebhooks(channel: Option<ChannelId>) -> Vec<Arc<Webhook>>;
    UpdateWebhook(webhook: WebhookId, access: WebhookAccess, patch: Box<WebhookPatch>) -> Arc<Webhook>;
    DeleteWebhook(webhook: WebhookId, access: WebhookAccess) -> ();
    ExecuteWebhook(webhook: WebhookId, access: WebhookAccess, post: Box<WebhookPost>) -> Box<MessageReply>;
    ReadWebhookMessage(webhook: WebhookId, access: WebhookAccess, thread: Option<ChannelId>, message: MessageId)
        -> Box<MessageReply>;
    EditWebhookMessage(
        webhook: WebhookId, access: WebhookAccess, thread: Option<ChannelId>, message: MessageId,
        patch: Box<MessagePatch>
    ) -> Box<MessageReply>;
    DeleteWebhookMessage(webhook: WebhookId, access: WebhookAccess, thread: Option<ChannelId>, message: MessageId)
        -> ();
    ReadInteraction(channel: ChannelId, query: Box<InteractionQuery>) -> Box<InteractionContext>;
    CreateResponse(channel: ChannelId, response: Box<Response>) -> Box<MessageReply>;
    EditResponse(channel: ChannelId, message: MessageId, patch: Box<ResponsePatch>) -> Box<MessageReply>;
    Prune(prune: Box<super::Prune>) -> u64;
    BulkRole(bulk: Box<super::BulkRole>) -> u64;
    ShowPresence(user: UserId, presence: Option<Arc<Presence>>) -> ();
    ShowVoice(user: UserId, channel: Option<ChannelId>) -> ();
    EmptyVoice(channel: ChannelId) -> u64;
    ReadVoiceState(user: UserId) -> Box<VoiceEntry>;
    UpdateVoiceState(user: UserId, patch: VoiceStatePatch) -> ();
}

requests! {
    DirectCommand by Command::Direct;
    Open -> Direct;
    AddRecipient(user: Arc<User>) -> ();
    RemoveRecipient(user: UserId) -> ();
}

fn by_backend(command: BackendCommand) -> Command {
    Command::Backend(Box::new(command))
}

requests! {
    BackendCommand by by_backend;
    PutGuild(fields: Box<Guild>, expected: Expected<Guild>) -> Box<GuildReply>;
    PutRole(role: Box<Role>, expected: Expected<Role>) -> Upserted<Arc<Role>>;
    PutChannel(channel: Box<Channel>, expected: Expected<Channel>) -> Upserted<Arc<Channel>>;
    PutMember(new: Box<NewMember>, expected: Expected<Member>) -> Upserted<Arc<Member>>;
    RefreshUser(user: Arc<User>) -> Option<Arc<Member>>;
    ImportMembers { members: Vec<NewMember>, audience: JoinAudience } -> Box<Imported>;
    CompareMembers(members: Vec<NewMember>) -> Box<Imported>;
    RemoveMembers(users: Vec<UserId>) -> u64;
    ChangeRoles(changes: Vec<(UserId, RoleChange)>) -> u64;
    ReassignMessages { channel_id: ChannelId, ids: Vec<MessageId>, to: Arc<User> } -> u64;
    PutRoles(roles: Vec<Role>) -> RolesPut;
    SendMessage { channel_id: ChannelId, author: Arc<User>, message: Box<NewMessage>, key: Option<String> }
        -> Upserted<Box<MessageReply>>;
    ImportMessages(messages: Vec<Arc<Message>>) -> u64;
    Publish { rule: AudienceRule, event: Arc<BackendEvent>, id: Option<PublicationId> } -> PublishReply;
}

/// The result of a handler, which has the type that its request names, as a reply.
pub(crate) fn reply<R: Request>(result: CommandResult<R::Reply>) -> CommandResult {
    result.map(ReplyValue::into_reply)
}

/// A `match` over commands that holds each handler to the reply of its request. Arms after the `;` are plain ones.
macro_rules! dispatch {
    ($command:expr, $enum:ident, {
        $($name:ident $(($($arg:pat),*))? $({$($named:ident),*})? => $handler:expr,)*
        ; $($other:pat $(if $guard:expr)? => $rest:expr,)*
    }) => {
        match $command {
            $($enum::$name $(($($arg),*))? $({$($named),*})? => {
                $crate::command::request::reply::<$crate::command::request::$name>($handler)
            })*
            $($other $(if $guard)? => $rest,)*
        }
    };
}
pub(crate) use dispatch;
