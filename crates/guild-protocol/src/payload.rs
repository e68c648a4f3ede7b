//! Payloads: the typed content of each event, and its serialization.
//!
//! Owns        `Payload`, one variant per body shape of reference.md §7.
//! Doors       `render`.
//! Not here    the recipients (`event.rs`), the envelope (`guildhall-codec`).

use crate::{
    backend::{BackendEvent, Receipt},
    event::{ContentReaders, Mentions, Redaction},
    message_form,
    passive::{PassiveDelta, PassiveSnapshot, Unreads},
    resource_payload::ResourcePayload,
    structure::GuildStructure,
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
        RoleBody, UnavailableGuild, UserBody, VoiceStateBody, VoteCount,
    },
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A message with the member objects at the time of the event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MessageEvent {
    #[serde(with = "message_form")]
    pub message: Arc<Message>,
    /// Type of the message's channel.
    pub channel_type: ChannelType,
    /// Member object of the author; none if the author has left.
    pub author: Option<Arc<Member>>,
    /// Member objects of mentioned users.
    pub mentioned: Vec<Arc<Member>>,
    /// For a reply: the original message; none if it was deleted.
    #[serde(with = "message_form::option")]
    pub referenced: Option<Arc<Message>>,
    /// Votes for each answer of the message's poll.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<(u8, u64)>,
}

/// One account's reaction, added or removed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReactionEvent {
    /// Account that reacted.
    pub user_id: UserId,
    pub channel_id: ChannelId,
    pub message_id: MessageId,
    /// Author of the message.
    pub author_id: UserId,
    /// Emoji of the reaction.
    pub emoji: ReactionEmoji,
    /// Member object of the account, when a reaction is added.
    pub member: Option<Arc<Member>>,
}

/// Update for sessions that watch the same rows of a member list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListChange {
    pub list: ListId,
    /// Number of members of the guild.
    pub member_count: u64,
    /// Number of members who are not offline.
    pub online_count: u64,
    /// All groups after `ops`.
    pub groups: Arc<[Group]>,
    /// Operations in order of application.
    pub ops: Vec<ListOp>,
}

/// Content of an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Payload {
    /// MESSAGE_CREATE, MESSAGE_UPDATE.
    Message(Box<MessageEvent>),
    /// MESSAGE_DELETE.
    MessageDelete { id: MessageId, channel_id: ChannelId },
    /// MESSAGE_REACTION_ADD, MESSAGE_REACTION_REMOVE.
    Reaction(Box<ReactionEvent>),
    /// MESSAGE_REACTION_REMOVE_ALL, and with an emoji MESSAGE_REACTION_REMOVE_EMOJI.
    ReactionsCleared {
        channel_id: ChannelId,
        message_id: MessageId,
        /// Only reactions with this emoji; none: all reactions.
        emoji: Option<ReactionEmoji>,
    },
    /// TYPING_START.
    Typing {
        channel_id: ChannelId,
        /// Start time in Unix seconds.
        timestamp_s: i64,
        /// The typing member.
        member: Arc<Member>,
    },
    /// PRESENCE_UPDATE.
    Presence {
        user_id: UserId,
        /// Presence aggregated over the account's sessions.
        presence: Arc<Presence>,
    },
    /// VOICE_STATE_UPDATE.
    Voice {
        /// New voice state.
        state: Arc<VoiceState>,
        /// Member object of the user.
        member: Option<Arc<Member>>,
    },
    /// VOICE_SERVER_UPDATE.
    VoiceServer {
        /// Token for the media server.
        token: String,
        /// `host[:port]`; none: the client waits for another update.
        endpoint: Option<String>,
    },
    /// GUILD_MEMBER_ADD, GUILD_MEMBER_UPDATE.
    Member(Arc<Member>),
    /// GUILD_MEMBER_REMOVE.
    MemberRemove(Arc<User>),
    /// GUILD_UPDATE.
    Guild(Arc<GuildStructure>),
    /// GUILD_DELETE, for sessions that lose the guild.
    GuildGone,
    /// GUILD_ROLE_CREATE, GUILD_ROLE_UPDATE.
    Role(Arc<Role>),
    /// GUILD_ROLE_DELETE.
    RoleDelete(RoleId),
    /// CHANNEL_CREATE, CHANNEL_UPDATE, CHANNEL_DELETE.
    Channel(Arc<Channel>),
    /// CHANNEL_MEMBER_COUNT_UPDATE.
    ChannelMemberCount {
        channel_id: ChannelId,
        /// Number of members who can view the channel.
        member_count: u64,
        /// Number of those members who are not offline.
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
    /// An event with a small body.
    Resource(Box<ResourcePayload>),
    /// An event published by a backend.
    Backend(Arc<BackendEvent>),
}

impl Payload {
    /// Recipients that receive the content whatever their intents; none if there is no content to redact.
    pub(crate) fn content_readers(&self) -> Option<ContentReaders> {
        if let Self::Backend(event) = self {
            return event.readers();
        }
        if let Self::Resource(resource) = self
            && let ResourcePayload::AutoModExecution(of) = &**resource
        {
            return Some(ContentReaders { message: std::iter::once(of.user_id).collect(), referenced: None });
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

    /// Mentions of a message.
    pub(crate) fn mentions(&self) -> Option<Mentions> {
        if let Self::Backend(event) = self {
            return event.mentions();
        }
        let Self::Message(event) = self else { return None };
        let message = &event.message;
        Some(Mentions {
            users: std::iter::once(message.author.id).chain(message.mentions.iter().map(|user| user.id)).collect(),
            roles: message.mention_roles.iter().copied().collect(),
            everyone: message.mention_everyone,
        })
    }

    /// Receipt that counts the sessions the event reached.
    #[must_use]
    pub fn receipt(&self) -> Option<&Arc<dyn Receipt>> {
        match self {
            Self::Backend(event) => event.receipt(),
            _ => None,
        }
    }

    /// Appends the serialized body to `out`.
    pub(crate) fn render(&self, guild: Option<GuildId>, encoding: Encoding, redaction: Redaction, out: &mut Vec<u8>) {
        if let Self::Backend(event) = self {
            return event.render(encoding, redaction, out);
        }
        // Events to accounts have no payload whose body needs it.
        let guild_id = guild.unwrap_or(GuildId::new(0));
        let put = Put { encoding, out };
        match self {
            Self::Backend(_) => {}
            Self::Message(event) => put.body(&message_body(guild, event, redaction)),
            Self::MessageDelete { id, channel_id } => {
                put.body(&MessageDeleteBody { id: *id, channel_id: *channel_id, guild_id: guild });
            }
            Self::Reaction(event) => put.body(&ReactionEventBody {
                user_id: event.user_id,
                channel_id: event.channel_id,
                message_id: event.message_id,
                message_author_id: event.member.is_some().then_some(event.author_id),
                guild_id: guild,
                member: event.member.as_deref().filter(|_| guild.is_some()).map(Into::into),
                emoji: (&event.emoji).into(),
                burst: false,
                burst_colors: [],
                kind: 0,
            }),
            Self::ReactionsCleared { channel_id, message_id, emoji } => put.body(&ReactionsClearedBody {
                channel_id: *channel_id,
                message_id: *message_id,
                guild_id: guild,
                emoji: emoji.as_ref().map(Into::into),
            }),
            Self::Typing { channel_id, timestamp_s, member } => put.body(&TypingBody {
                channel_id: *channel_id,
                guild_id: guild,
                user_id: member.user.id,
                timestamp: *timestamp_s,
                member: guild.map(|_| (&**member).into()),
            }),
            Self::Presence { user_id, presence } => put.body(&PresenceBody::new(guild, *user_id, presence)),
            Self::Voice { state, member } => put.body(&VoiceStateBody::event(guild_id, state, member.as_deref())),
            Self::VoiceServer { token, endpoint } => {
                put.body(&VoiceServerBody { token, guild_id, endpoint: endpoint.as_deref() });
            }
            Self::Member(member) => put.body(&MemberUpdateBody::new(guild_id, member)),
            Self::MemberRemove(user) => put.body(&MemberRemoveBody { guild_id, user: (&**user).into() }),
            Self::Guild(structure) => {
                put.body(&GuildBody::new(
                    &structure.guild,
                    structure.roles.values().map(|role| RoleBody::from(&**role)),
                ));
            }
            Self::GuildGone => put.body(&UnavailableGuild { id: guild_id, unavailable: None }),
            Self::Role(role) => put.body(&RoleEventBody { guild_id, role: (&**role).into() }),
            Self::RoleDelete(role_id) => put.body(&RoleDeleteBody { guild_id, role_id: *role_id }),
            Self::Channel(channel) if redaction == Redaction::Channel => put.body(&ChannelBody::obfuscated(channel)),
            Self::Channel(channel) if redaction == Redaction::ChannelUnread => {
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
            Self::Resource(resource) => resource.render(guild, redaction, put),
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
    // Row numbers have 32 bits on the wire; intervals never exceed that.
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

fn message_body<'a>(guild_id: Option<GuildId>, event: &'a MessageEvent, redaction: Redaction) -> MessageBody<'a> {
    // Direct messages have no member objects.
    let standing = |member: &'a Arc<Member>| guild_id.map(|_| &**member);
    let extras = MessageExtras {
        guild_id,
        channel_type: event.channel_type,
        member: event.author.as_ref().and_then(standing).map(Into::into),
    };
    let member_of = |user: &User| event.mentioned.iter().find(|member| member.user.id == user.id).and_then(standing);
    let votes: Vec<_> =
        event.votes.iter().map(|(id, count)| VoteCount { id: *id, count: *count, me_voted: false }).collect();
    let body = MessageBody::new(&event.message).with_votes(&votes);
    let mut body = body.with_extras(extras, member_of, &event.message);
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
