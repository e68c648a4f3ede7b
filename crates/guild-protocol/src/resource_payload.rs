//! Payloads about guild resources: bans, invites, webhooks, pins, emoji, stickers, threads, deleted messages.
//!
//! Owns        `ResourcePayload`, one variant per shape of body.
//! Doors       `Payload::render`.
//! Not here    the recipients: the guild sets the audience rule.     Spec  docs/protocol/reference.md §7.1, §7.2, §7.4.

use crate::{
    event::Redaction,
    members::MemberEntry,
    payload::Put,
    thread::{ThreadEntry, ThreadEvent},
};
use guildhall_model::{
    AuditEntry, AutoModExecution, AutoModRule, Channel, ChannelId, ChannelType, Direct, Guild, GuildId, Id, Invite,
    InviteCode, Member, MessageId, ScheduledEvent, StageInstance, ThreadMember, User, UserId,
    from_gateway::{
        AuditEntryBody, AutoModExecutionBody, AutoModRuleBody, DirectBody, EmojiBody, InviteEventBody, MemberBody,
        PresenceBody, ScheduledEventBody, StageInstanceBody, StickerBody, ThreadListSyncBody, ThreadMemberBody,
        ThreadMembersBody, UserBody,
    },
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Payload of an event with a small body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ResourcePayload {
    /// GUILD_BAN_ADD, GUILD_BAN_REMOVE.
    Ban {
        user: Arc<User>,
        /// On GUILD_BAN_ADD: seconds of the account's messages that are deleted.
        delete_message_s: Option<u32>,
    },
    /// GUILD_AUDIT_LOG_ENTRY_CREATE.
    AuditEntry(Arc<AuditEntry>),
    /// INVITE_CREATE.
    Invite(Arc<Invite>),
    /// INVITE_DELETE.
    InviteGone {
        code: InviteCode,
        /// Channel of the invite.
        channel_id: ChannelId,
    },
    /// WEBHOOKS_UPDATE.
    Webhooks(ChannelId),
    /// CHANNEL_PINS_UPDATE.
    Pins {
        channel_id: ChannelId,
        /// Time of the newest remaining pin.
        last_pin_timestamp: Option<Timestamp>,
    },
    /// MESSAGE_DELETE_BULK.
    MessagesGone { channel_id: ChannelId, ids: Arc<[MessageId]> },
    /// MESSAGE_POLL_VOTE_ADD, MESSAGE_POLL_VOTE_REMOVE.
    PollVote { user_id: UserId, channel_id: ChannelId, message_id: MessageId, answer_id: u8 },
    /// AUTO_MODERATION_RULE_CREATE, _UPDATE, _DELETE.
    AutoModRule(Arc<AutoModRule>),
    /// AUTO_MODERATION_ACTION_EXECUTION.
    AutoModExecution(Box<AutoModExecution>),
    /// GUILD_EMOJIS_UPDATE.
    Emojis(Arc<Guild>),
    /// GUILD_STICKERS_UPDATE.
    Stickers(Arc<Guild>),
    /// GUILD_SCHEDULED_EVENT_CREATE, _UPDATE, _DELETE.
    ScheduledEvent(Arc<ScheduledEvent>),
    /// GUILD_SCHEDULED_EVENT_USER_ADD, _REMOVE.
    ScheduledEventUser { event_id: Id<()>, user_id: UserId },
    /// STAGE_INSTANCE_CREATE, _UPDATE, _DELETE.
    Stage(Box<StageInstance>),
    /// THREAD_CREATE, THREAD_UPDATE.
    Thread(ThreadEvent),
    /// THREAD_DELETE.
    ThreadGone(Arc<Channel>),
    /// THREAD_MEMBER_UPDATE.
    ThreadMember(ThreadMember),
    /// THREAD_MEMBERS_UPDATE.
    ThreadMembers {
        thread_id: ChannelId,
        /// Number of members after the change.
        members_count: usize,
        /// The account that joined.
        added: Option<(ThreadMember, Arc<Member>)>,
        /// The account that left.
        removed: Option<UserId>,
    },
    /// CHANNEL_CREATE, CHANNEL_UPDATE, CHANNEL_DELETE of a direct message.
    Direct {
        direct: Direct,
        /// Account that receives the event; it is not listed as recipient.
        reader: UserId,
    },
    /// CHANNEL_RECIPIENT_ADD, CHANNEL_RECIPIENT_REMOVE.
    Recipient {
        channel_id: ChannelId,
        /// The account that was added or removed.
        user: Arc<User>,
    },
    /// THREAD_MEMBER_LIST_UPDATE.
    ThreadMemberList {
        thread_id: ChannelId,
        /// Current members of the thread.
        members: Vec<MemberEntry>,
    },
    /// THREAD_LIST_SYNC.
    ThreadList {
        /// Channels of the threads; none: the whole guild.
        channel_ids: Option<Arc<[ChannelId]>>,
        /// The open threads.
        threads: Vec<ThreadEntry>,
        /// The account whose memberships are included.
        user_id: UserId,
        /// Contains only threads that the account joined.
        joined_only: bool,
    },
}

impl ResourcePayload {
    pub(crate) fn render(&self, guild: Option<GuildId>, redaction: Redaction, put: Put<'_>) {
        // Events to accounts have no payload whose body needs it.
        let guild_id = guild.unwrap_or(GuildId::new(0));
        match self {
            Self::Ban { user, delete_message_s } => {
                put.body(&BanBody { guild_id, user: (&**user).into(), delete_message_secs: *delete_message_s });
            }
            Self::AuditEntry(entry) => put.body(&AuditEntryBody::from(&**entry).with_guild(guild_id)),
            Self::Invite(invite) => put.body(&InviteEventBody::from(&**invite)),
            Self::InviteGone { code, channel_id } => {
                put.body(&InviteGoneBody { code: *code, channel_id: *channel_id, guild_id });
            }
            Self::Webhooks(channel_id) => put.body(&WebhooksBody { guild_id, channel_id: *channel_id }),
            Self::Pins { channel_id, last_pin_timestamp } => {
                let last_pin_timestamp = *last_pin_timestamp;
                put.body(&PinsBody { guild_id: guild, channel_id: *channel_id, last_pin_timestamp });
            }
            Self::MessagesGone { channel_id, ids } => {
                put.body(&MessagesGoneBody { ids, channel_id: *channel_id, guild_id });
            }
            Self::PollVote { user_id, channel_id, message_id, answer_id } => put.body(&PollVoteBody {
                user_id: *user_id,
                channel_id: *channel_id,
                message_id: *message_id,
                guild_id: guild,
                answer_id: *answer_id,
            }),
            Self::AutoModRule(rule) => put.body(&AutoModRuleBody::new(guild_id, rule)),
            Self::AutoModExecution(of) => {
                let body = AutoModExecutionBody::new(guild_id, of);
                put.body(&if redaction.message() { body.redacted() } else { body });
            }
            Self::Emojis(guild) => {
                put.body(&EmojisBody { guild_id, emojis: guild.emojis.iter().map(Into::into).collect() });
            }
            Self::Stickers(guild) => {
                let stickers = guild.stickers.iter().map(|sticker| StickerBody::new(guild_id, sticker));
                put.body(&StickersBody { guild_id, stickers: stickers.collect() });
            }
            Self::ScheduledEvent(event) => put.body(&ScheduledEventBody::new(guild_id, event)),
            Self::ScheduledEventUser { event_id, user_id } => {
                put.body(&EventUserBody { guild_scheduled_event_id: *event_id, user_id: *user_id, guild_id });
            }
            Self::Stage(stage) => put.body(&StageInstanceBody::from(&**stage)),
            Self::Thread(ThreadEvent { entry, own, newly_created }) => {
                let body = entry.body(*own);
                put.body(&if *newly_created { body.newly_created() } else { body });
            }
            Self::ThreadGone(thread) => {
                put.body(&ThreadGoneBody { id: thread.id, guild_id, parent_id: thread.parent_id, kind: thread.kind })
            }
            Self::ThreadMember(member) => put.body(&ThreadMemberBody::from(*member).with_guild(guild_id)),
            Self::ThreadMembers { thread_id, members_count, added, removed } => {
                let added = added.as_ref().map(|(of, member)| (*of, &**member));
                put.body(&ThreadMembersBody::new(guild_id, *thread_id, *members_count, added, *removed));
            }
            Self::ThreadMemberList { thread_id, members } => {
                let listed = members.iter().map(|entry| ListedBody {
                    user_id: entry.member.user.id,
                    member: (&*entry.member).into(),
                    presence: entry.presence.as_deref().map(|p| PresenceBody::new(None, entry.member.user.id, p)),
                });
                put.body(&ThreadMemberListBody { guild_id, thread_id: *thread_id, members: listed.collect() });
            }
            Self::Direct { direct, reader } => put.body(&DirectBody::new(direct, *reader)),
            Self::Recipient { channel_id, user } => {
                put.body(&RecipientBody { channel_id: *channel_id, user: (&**user).into() });
            }
            Self::ThreadList { channel_ids, threads, user_id, joined_only: _ } => {
                let own = threads.iter().filter_map(|entry| entry.members.get(user_id).copied());
                let bodies = threads.iter().map(|entry| entry.body(entry.members.get(user_id).copied())).collect();
                put.body(&ThreadListSyncBody::new(guild_id, channel_ids.as_deref(), bodies, own));
            }
        }
    }
}

#[derive(Serialize)]
struct BanBody<'a> {
    guild_id: GuildId,
    user: UserBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delete_message_secs: Option<u32>,
}

#[derive(Serialize)]
struct ThreadMemberListBody<'a> {
    guild_id: GuildId,
    thread_id: ChannelId,
    members: Vec<ListedBody<'a>>,
}

#[derive(Serialize)]
struct ListedBody<'a> {
    user_id: UserId,
    member: MemberBody<'a>,
    presence: Option<PresenceBody<'a>>,
}

#[derive(Serialize)]
struct RecipientBody<'a> {
    channel_id: ChannelId,
    user: UserBody<'a>,
}

#[derive(Serialize)]
struct InviteGoneBody {
    code: InviteCode,
    channel_id: ChannelId,
    guild_id: GuildId,
}

#[derive(Serialize)]
struct WebhooksBody {
    guild_id: GuildId,
    channel_id: ChannelId,
}

#[derive(Serialize)]
struct PinsBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    guild_id: Option<GuildId>,
    channel_id: ChannelId,
    last_pin_timestamp: Option<Timestamp>,
}

#[derive(Serialize)]
struct MessagesGoneBody<'a> {
    ids: &'a [MessageId],
    channel_id: ChannelId,
    guild_id: GuildId,
}

#[derive(Serialize)]
struct PollVoteBody {
    user_id: UserId,
    channel_id: ChannelId,
    message_id: MessageId,
    #[serde(skip_serializing_if = "Option::is_none")]
    guild_id: Option<GuildId>,
    answer_id: u8,
}

#[derive(Serialize)]
struct ThreadGoneBody {
    id: ChannelId,
    guild_id: GuildId,
    parent_id: Option<ChannelId>,
    #[serde(rename = "type")]
    kind: ChannelType,
}

#[derive(Serialize)]
struct EmojisBody<'a> {
    guild_id: GuildId,
    emojis: Vec<EmojiBody<'a>>,
}

#[derive(Serialize)]
struct StickersBody<'a> {
    guild_id: GuildId,
    stickers: Vec<StickerBody<'a>>,
}

#[derive(Serialize)]
struct EventUserBody {
    guild_scheduled_event_id: Id<()>,
    user_id: UserId,
    guild_id: GuildId,
}
