//! Payloads: the typed content of each event, and how it becomes a body.
//!
//! Owns        `Payload`, one variant per shape of docs/protocol.md §7.
//! Doors       `render`.
//! Not here    who gets it: `event.rs`. The envelope: `guildhall-codec`.

use crate::{
    backend::{BackendEvent, Receipt},
    event::{Calls, ContentReaders, Redaction},
    meta::GuildMeta,
    notice::Notice,
    passive::{PassiveDelta, PassiveSnapshot, Unreads},
};
use guildhall_codec::Encoding;
use guildhall_member_list::{Group, Interval, Item, ListId, ListOp};
use guildhall_model::{
    Channel, ChannelId, ChannelType, GuildId, Member, Message, MessageId, Presence, ReactionEmoji, Role, RoleId, User,
    UserId, VoiceState,
    from_gateway::{
        ChannelBody, ChannelMemberCountUpdateBody, ChannelUnread, ChannelUnreadUpdateBody, GuildBody, MemberBody,
        MemberListGroup, MemberListItem, MemberListOp, MemberListUpdateBody, MemberUpdateBody, MessageBody,
        MessageExtras, PassiveUpdateV1Body, PassiveUpdateV2Body, PresenceBody, ReactionEmojiBody, ReferencedMessage,
        RoleBody, UnavailableGuild, UserBody, VoiceStateBody,
    },
};
use guildhall_stdx::Timestamp;
use serde::Serialize;
use std::sync::Arc;

/// A message as an event tells it, with what was known of the people in it at that moment.
#[derive(Clone, Debug)]
pub struct MessageEvent {
    /// The message.
    pub message: Arc<Message>,
    /// Kind of its channel.
    pub channel_type: ChannelType,
    /// The author's member; none if they have left.
    pub author: Option<Arc<Member>>,
    /// Members among those mentioned.
    pub mentioned: Vec<Arc<Member>>,
    /// For a reply: the message it answers, or none if that was deleted.
    pub referenced: Option<Arc<Message>>,
}

/// One account's reaction, added or removed.
#[derive(Clone, Debug)]
pub struct ReactionEvent {
    /// Who reacted.
    pub user_id: UserId,
    /// Where.
    pub channel_id: ChannelId,
    /// To what.
    pub message_id: MessageId,
    /// Whose message it is.
    pub author_id: UserId,
    /// With what.
    pub emoji: ReactionEmoji,
    /// The reacting member, on add.
    pub member: Option<Arc<Member>>,
}

/// What those who watch the same rows of a member list are told.
#[derive(Clone, Debug)]
pub struct ListChange {
    /// Which list.
    pub list: ListId,
    /// Members of the guild.
    pub member_count: u64,
    /// Members who are not offline.
    pub online_count: u64,
    /// All groups, as they are after `ops`.
    pub groups: Arc<[Group]>,
    /// What to do, in order.
    pub ops: Vec<ListOp>,
}

/// What an event says.
#[derive(Clone, Debug)]
pub enum Payload {
    /// MESSAGE_CREATE, MESSAGE_UPDATE.
    Message(Box<MessageEvent>),
    /// MESSAGE_DELETE.
    MessageDelete {
        /// Which.
        id: MessageId,
        /// Where.
        channel_id: ChannelId,
    },
    /// MESSAGE_REACTION_ADD, MESSAGE_REACTION_REMOVE.
    Reaction(Box<ReactionEvent>),
    /// MESSAGE_REACTION_REMOVE_ALL, and with an emoji MESSAGE_REACTION_REMOVE_EMOJI.
    ReactionsCleared {
        /// Where.
        channel_id: ChannelId,
        /// Of which message.
        message_id: MessageId,
        /// Only these.
        emoji: Option<ReactionEmoji>,
    },
    /// TYPING_START.
    Typing {
        /// Where.
        channel_id: ChannelId,
        /// Since when, Unix seconds.
        timestamp_s: i64,
        /// Who.
        member: Arc<Member>,
    },
    /// PRESENCE_UPDATE.
    Presence {
        /// Whose.
        user_id: UserId,
        /// Aggregated over their sessions.
        presence: Arc<Presence>,
    },
    /// VOICE_STATE_UPDATE.
    Voice {
        /// The new state.
        state: Arc<VoiceState>,
        /// Whose.
        member: Option<Arc<Member>>,
    },
    /// VOICE_SERVER_UPDATE.
    VoiceServer {
        /// For the media server.
        token: String,
        /// `host[:port]`; with none the client waits for another update.
        endpoint: Option<String>,
    },
    /// GUILD_MEMBER_ADD, GUILD_MEMBER_UPDATE.
    Member(Arc<Member>),
    /// GUILD_MEMBER_REMOVE.
    MemberRemove(Arc<User>),
    /// GUILD_UPDATE.
    Guild(Arc<GuildMeta>),
    /// GUILD_DELETE, to those who lose it.
    GuildGone,
    /// GUILD_ROLE_CREATE, GUILD_ROLE_UPDATE.
    Role(Arc<Role>),
    /// GUILD_ROLE_DELETE.
    RoleDelete(RoleId),
    /// CHANNEL_CREATE, CHANNEL_UPDATE, CHANNEL_DELETE.
    Channel(Arc<Channel>),
    /// CHANNEL_MEMBER_COUNT_UPDATE.
    ChannelMemberCount {
        /// Where.
        channel_id: ChannelId,
        /// Members who can view it.
        member_count: u64,
        /// Those of them who are not offline.
        presence_count: u64,
    },
    /// PASSIVE_UPDATE_V2.
    PassiveDelta(PassiveDelta),
    /// PASSIVE_UPDATE_V1.
    PassiveSnapshot(PassiveSnapshot),
    /// GUILD_MEMBER_LIST_UPDATE.
    MemberList(Box<ListChange>),
    /// CHANNEL_UNREAD_UPDATE: channels and their newest messages.
    Unread(Unreads),
    /// One of the small ones.
    Notice(Box<Notice>),
    /// Whatever a backend published.
    Backend(Arc<BackendEvent>),
}

impl Payload {
    /// Who reads the content whatever their intents; none when there is no content to withhold.
    pub(crate) fn content_readers(&self) -> Option<ContentReaders> {
        if let Self::Backend(event) = self {
            return event.readers();
        }
        let Self::Message(event) = self else { return None };
        let readers = |message: &Message| {
            let mentioned = message.mentions.iter().map(|user| user.id);
            std::iter::once(message.author.id).chain(mentioned).collect()
        };
        Some(ContentReaders {
            message: readers(&event.message),
            referenced: event.referenced.as_ref().map(|message| readers(message)),
        })
    }

    /// Whom it calls, if it is a message.
    pub(crate) fn calls(&self) -> Option<Calls> {
        if let Self::Backend(event) = self {
            return event.calls();
        }
        let Self::Message(event) = self else { return None };
        let message = &event.message;
        Some(Calls {
            users: std::iter::once(message.author.id).chain(message.mentions.iter().map(|user| user.id)).collect(),
            roles: message.mention_roles.iter().copied().collect(),
            everyone: message.mention_everyone,
        })
    }

    /// Who is told how many sessions it reached.
    pub(crate) fn receipt(&self) -> Option<&Arc<dyn Receipt>> {
        match self {
            Self::Backend(event) => event.receipt(),
            _ => None,
        }
    }

    /// Appends the body to `out`.
    pub(crate) fn render(&self, guild_id: GuildId, encoding: Encoding, redaction: Redaction, out: &mut Vec<u8>) {
        if let Self::Backend(event) = self {
            return event.render(encoding, redaction, out);
        }
        let put = Put { encoding, out };
        match self {
            Self::Backend(_) => {}
            Self::Message(event) => put.body(&message_body(guild_id, event, redaction)),
            Self::MessageDelete { id, channel_id } => {
                put.body(&MessageDeleteBody { id: *id, channel_id: *channel_id, guild_id: some_guild(guild_id) });
            }
            Self::Reaction(event) => put.body(&ReactionEventBody {
                user_id: event.user_id,
                channel_id: event.channel_id,
                message_id: event.message_id,
                message_author_id: event.member.is_some().then_some(event.author_id),
                guild_id: some_guild(guild_id),
                member: event.member.as_deref().filter(|_| guild_id.get() != 0).map(Into::into),
                emoji: (&event.emoji).into(),
                burst: false,
                burst_colors: [],
                kind: 0,
            }),
            Self::ReactionsCleared { channel_id, message_id, emoji } => put.body(&ReactionsClearedBody {
                channel_id: *channel_id,
                message_id: *message_id,
                guild_id: some_guild(guild_id),
                emoji: emoji.as_ref().map(Into::into),
            }),
            Self::Typing { channel_id, timestamp_s, member } => put.body(&TypingBody {
                channel_id: *channel_id,
                guild_id: some_guild(guild_id),
                user_id: member.user.id,
                timestamp: *timestamp_s,
                member: (guild_id.get() != 0).then(|| (&**member).into()),
            }),
            Self::Presence { user_id, presence } => put.body(&PresenceBody::new(Some(guild_id), *user_id, presence)),
            Self::Voice { state, member } => put.body(&VoiceStateBody::event(guild_id, state, member.as_deref())),
            Self::VoiceServer { token, endpoint } => {
                put.body(&VoiceServerBody { token, guild_id, endpoint: endpoint.as_deref() });
            }
            Self::Member(member) => put.body(&MemberUpdateBody::new(guild_id, member)),
            Self::MemberRemove(user) => put.body(&MemberRemoveBody { guild_id, user: (&**user).into() }),
            Self::Guild(meta) => {
                put.body(&GuildBody::new(&meta.guild, meta.roles.values().map(|role| RoleBody::from(&**role))));
            }
            Self::GuildGone => put.body(&UnavailableGuild { id: guild_id, unavailable: None }),
            Self::Role(role) => put.body(&RoleEventBody { guild_id, role: (&**role).into() }),
            Self::RoleDelete(role_id) => put.body(&RoleDeleteBody { guild_id, role_id: *role_id }),
            Self::Channel(channel) if redaction == Redaction::CHANNEL => put.body(&ChannelBody::obfuscated(channel)),
            Self::Channel(channel) if redaction == Redaction::CHANNEL_UNREAD => {
                put.body(&ChannelBody::from(&**channel).without_messages());
            }
            Self::Channel(channel) => put.body(&ChannelBody::from(&**channel)),
            Self::PassiveDelta(delta) => put.body(&PassiveUpdateV2Body {
                guild_id,
                updated_channels: unreads(&delta.channels, &delta.pins),
                updated_voice_states: delta
                    .voice
                    .iter()
                    .map(|entry| VoiceStateBody::within_guild(&entry.state))
                    .collect(),
                removed_voice_states: delta.left.clone(),
                updated_members: delta.voice.iter().map(|entry| MemberBody::from(&*entry.member)).collect(),
            }),
            Self::PassiveSnapshot(snapshot) => put.body(&PassiveUpdateV1Body {
                guild_id,
                channels: (snapshot.channels.iter())
                    .map(|(id, last_message_id)| ChannelUnread {
                        id: *id,
                        last_message_id: *last_message_id,
                        last_pin_timestamp: pinned_at(&snapshot.pins, *id),
                    })
                    .collect(),
                voice_states: snapshot.voice.iter().map(|entry| VoiceStateBody::within_guild(&entry.state)).collect(),
                members: snapshot.voice.iter().map(|entry| MemberBody::from(&*entry.member)).collect(),
            }),
            Self::MemberList(change) => put.body(&MemberListUpdateBody {
                guild_id,
                id: &change.list.to_string(),
                member_count: change.member_count,
                online_count: change.online_count,
                groups: change.groups.iter().map(list_group).collect(),
                ops: change.ops.iter().map(list_op).collect(),
            }),
            Self::Unread(channels) => {
                put.body(&ChannelUnreadUpdateBody {
                    guild_id,
                    channel_unread_updates: unreads(channels, &channels.pins),
                });
            }
            Self::Notice(notice) => notice.render(guild_id, put),
            Self::ChannelMemberCount { channel_id, member_count, presence_count } => {
                put.body(&ChannelMemberCountUpdateBody {
                    guild_id,
                    channel_id: *channel_id,
                    member_count: *member_count,
                    presence_count: *presence_count,
                });
            }
        }
    }
}

fn list_group(group: &Group) -> MemberListGroup<'static> {
    MemberListGroup { id: group.id.to_string().into(), count: group.count as u64 }
}

fn list_item(item: &Item) -> MemberListItem<'_> {
    match item {
        Item::Group(group) => MemberListItem::Group(list_group(group)),
        Item::Member(member, presence) => MemberListItem::member(member, presence.as_deref()),
    }
}

fn list_op(op: &ListOp) -> MemberListOp<'_> {
    // Rows are counted with 32 bits: no interval goes further.
    let range = |interval: &Interval| (interval.first() as u32, interval.last() as u32);
    match op {
        ListOp::Sync { interval, items } => {
            MemberListOp::Sync { range: range(interval), items: items.iter().map(list_item).collect() }
        }
        ListOp::Insert { index, item } => MemberListOp::Insert { index: *index as u32, item: list_item(item) },
        ListOp::Update { index, item } => MemberListOp::Update { index: *index as u32, item: list_item(item) },
        ListOp::Delete { index } => MemberListOp::Delete { index: *index as u32 },
        ListOp::Invalidate { interval } => MemberListOp::Invalidate { range: range(interval) },
    }
}

fn pinned_at(pins: &[(ChannelId, Timestamp)], channel_id: ChannelId) -> Option<Timestamp> {
    pins.iter().find(|(id, _)| *id == channel_id).map(|(_, at)| *at)
}

fn unreads(channels: &[(ChannelId, MessageId)], pins: &[(ChannelId, Timestamp)]) -> Vec<ChannelUnread> {
    let unread = |(id, message_id): &(ChannelId, MessageId)| ChannelUnread {
        id: *id,
        last_message_id: Some(*message_id),
        last_pin_timestamp: pinned_at(pins, *id),
    };
    channels.iter().map(unread).collect()
}

/// The guild, if there is one: what is addressed to accounts names none.
pub(crate) fn some_guild(guild_id: GuildId) -> Option<GuildId> {
    (guild_id.get() != 0).then_some(guild_id)
}

pub(crate) struct Put<'a> {
    encoding: Encoding,
    out: &'a mut Vec<u8>,
}

impl Put<'_> {
    pub fn body(self, body: &impl Serialize) {
        self.encoding
            .encode(body, self.out)
            .expect("a body is made of structs, strings and numbers, which always encode");
    }
}

fn message_body<'a>(guild_id: GuildId, event: &'a MessageEvent, redaction: Redaction) -> MessageBody<'a> {
    let guild_id = some_guild(guild_id);
    // Who is in a direct message has no standing in it.
    let standing = |member: &'a Arc<Member>| guild_id.map(|_| &**member);
    let extras = MessageExtras {
        guild_id,
        channel_type: event.channel_type,
        member: event.author.as_ref().and_then(standing).map(Into::into),
    };
    let member_of = |user: &User| event.mentioned.iter().find(|member| member.user.id == user.id).and_then(standing);
    let mut body = MessageBody::new(&event.message).with_extras(extras, member_of, &event.message);
    if let Some(referenced) = &event.referenced {
        let referenced = MessageBody::new(referenced);
        let referenced = if redaction.referenced() { referenced.redacted() } else { referenced };
        body = body.with_referenced(ReferencedMessage::Found(Box::new(referenced)));
    }
    if redaction.message() { body.redacted() } else { body }
}

#[derive(Serialize)]
struct MessageDeleteBody {
    id: MessageId,
    channel_id: ChannelId,
    #[serde(skip_serializing_if = "Option::is_none")]
    guild_id: Option<GuildId>,
}

#[derive(Serialize)]
struct ReactionEventBody<'a> {
    user_id: UserId,
    channel_id: ChannelId,
    message_id: MessageId,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_author_id: Option<UserId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guild_id: Option<GuildId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<MemberBody<'a>>,
    emoji: ReactionEmojiBody<'a>,
    burst: bool,
    burst_colors: [(); 0],
    #[serde(rename = "type")]
    kind: u8,
}

#[derive(Serialize)]
struct ReactionsClearedBody<'a> {
    channel_id: ChannelId,
    message_id: MessageId,
    #[serde(skip_serializing_if = "Option::is_none")]
    guild_id: Option<GuildId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    emoji: Option<ReactionEmojiBody<'a>>,
}

#[derive(Serialize)]
struct TypingBody<'a> {
    channel_id: ChannelId,
    #[serde(skip_serializing_if = "Option::is_none")]
    guild_id: Option<GuildId>,
    user_id: UserId,
    timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<MemberBody<'a>>,
}

#[derive(Serialize)]
struct VoiceServerBody<'a> {
    token: &'a str,
    guild_id: GuildId,
    endpoint: Option<&'a str>,
}

#[derive(Serialize)]
struct MemberRemoveBody<'a> {
    guild_id: GuildId,
    user: UserBody<'a>,
}

#[derive(Serialize)]
struct RoleEventBody<'a> {
    guild_id: GuildId,
    role: RoleBody<'a>,
}

#[derive(Serialize)]
struct RoleDeleteBody {
    guild_id: GuildId,
    role_id: RoleId,
}
