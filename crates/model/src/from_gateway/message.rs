//! Messages and reactions. Spec  docs/protocol/reference.md §6.6, §6.7.

use super::{Nothing, member::PartialMemberBody, user::UserBody};
use crate::{
    channel::ChannelType,
    emoji::ReactionEmoji,
    id::{ApplicationId, ChannelId, EmojiId, GuildId, Id, MessageId, RoleId, StickerId, WebhookId},
    member::Member,
    message::{Attachment, Message, MessageInteraction, MessageReference, MessageSnapshot, Nonce, StickerItem},
    poll::{Poll, PollAnswer},
    snowflake::timestamp_of,
    user::User,
};
use guildhall_stdx::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// Emoji of a reaction.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReactionEmojiBody<'a> {
    id: Option<EmojiId>,
    name: &'a str,
    animated: bool,
}

impl<'a> From<&'a ReactionEmoji> for ReactionEmojiBody<'a> {
    fn from(emoji: &'a ReactionEmoji) -> Self {
        Self { id: emoji.id, name: &emoji.name, animated: false }
    }
}

/// Count of one reaction on a message; REST only.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReactionBody<'a> {
    count: u64,
    count_details: CountDetails,
    me: bool,
    me_burst: bool,
    emoji: ReactionEmojiBody<'a>,
    burst_colors: Nothing,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct CountDetails {
    burst: u64,
    normal: u64,
}

impl<'a> ReactionBody<'a> {
    /// `count` reactions with `emoji`; `me` if one of them is the recipient's.
    #[must_use]
    pub fn new(emoji: &'a ReactionEmoji, count: u64, me: bool) -> Self {
        Self {
            count,
            count_details: CountDetails { burst: 0, normal: count },
            me,
            me_burst: false,
            emoji: emoji.into(),
            burst_colors: [],
        }
    }
}

/// A mentioned user. Gateway events include the member object.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MentionBody<'a> {
    #[serde(flatten)]
    user: UserBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<PartialMemberBody<'a>>,
}

/// The message that a reply refers to.
#[derive(Clone, Debug)]
pub enum ReferencedMessage<'a> {
    /// Not a reply: the key is absent.
    NotAReply,
    /// The message was deleted: the key is null.
    Deleted,
    /// The message exists.
    Found(Box<MessageBody<'a>>),
}

impl Serialize for ReferencedMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::NotAReply | Self::Deleted => serializer.serialize_none(),
            Self::Found(message) => message.serialize(serializer),
        }
    }
}

impl ReferencedMessage<'_> {
    fn is_absent(&self) -> bool {
        matches!(self, Self::NotAReply)
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
struct ReferenceBody {
    #[serde(rename = "type")]
    kind: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<MessageId>,
    channel_id: ChannelId,
    #[serde(skip_serializing_if = "Option::is_none")]
    guild_id: Option<GuildId>,
}

impl ReferenceBody {
    const FORWARD: u8 = 1;
}

impl From<&MessageReference> for ReferenceBody {
    fn from(reference: &MessageReference) -> Self {
        Self {
            kind: 0,
            message_id: (reference.message_id.get() != 0).then_some(reference.message_id),
            channel_id: reference.channel_id,
            guild_id: reference.guild_id,
        }
    }
}

/// Fields of a message that only gateway events have.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MessageExtras<'a> {
    /// None for a direct message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guild_id: Option<GuildId>,
    /// Type of the message's channel.
    pub channel_type: ChannelType,
    /// The author's member object; none if the author has left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<PartialMemberBody<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Attachments<'a>(&'a [Attachment]);

impl Serialize for Attachments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|of| AttachmentBody {
            id: of.id,
            filename: &of.filename,
            size: of.size,
            url: &of.url,
            // Guildhall has no media proxy, so both URLs are equal.
            proxy_url: &of.url,
            content_type: of.content_type.as_deref(),
            description: of.description.as_deref(),
            height: of.height,
            width: of.width,
        }))
    }
}

#[derive(Serialize)]
struct AttachmentBody<'a> {
    id: Id<()>,
    filename: &'a str,
    size: u64,
    url: &'a str,
    proxy_url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct StickerItems<'a>(&'a [StickerItem]);

impl StickerItems<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for StickerItems<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let item = |of: &StickerItem| StickerItemBody { id: of.id, name: of.name.clone(), format_type: of.format_type };
        serializer.collect_seq(self.0.iter().map(item))
    }
}

#[derive(Serialize)]
struct StickerItemBody {
    id: StickerId,
    name: String,
    format_type: u8,
}

/// The interaction that a message answers.
#[derive(Clone, Debug, Serialize)]
struct InteractionMetadataBody<'a> {
    id: Id<()>,
    #[serde(rename = "type")]
    kind: u8,
    user: UserBody<'a>,
    authorizing_integration_owners: IntegrationOwners,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_response_message_id: Option<MessageId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interacted_message_id: Option<MessageId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    triggering_interaction_metadata: Option<Box<InteractionMetadataBody<'a>>>,
}

/// Where the application is installed: in the guild, or for its direct messages.
#[derive(Clone, Copy, Debug, Serialize)]
struct IntegrationOwners {
    /// 0 in a direct message.
    #[serde(rename = "0")]
    guild: GuildId,
}

impl<'a> InteractionMetadataBody<'a> {
    fn new(interaction: &'a MessageInteraction, guild_id: Option<GuildId>) -> Self {
        Self {
            id: interaction.id,
            kind: interaction.kind,
            user: (&*interaction.user).into(),
            authorizing_integration_owners: IntegrationOwners { guild: guild_id.unwrap_or(GuildId::new(0)) },
            name: &interaction.name,
            original_response_message_id: interaction.original_response_message_id,
            interacted_message_id: interaction.interacted_message_id,
            triggering_interaction_metadata: (interaction.triggering.as_deref())
                .map(|triggering| Box::new(Self::new(triggering, guild_id))),
        }
    }

    fn for_rest(mut self) -> Self {
        self.user = self.user.for_rest();
        self.triggering_interaction_metadata =
            self.triggering_interaction_metadata.map(|triggering| Box::new(triggering.for_rest()));
        self
    }
}

/// The same for a command, in the form of earlier clients.
#[derive(Clone, Copy, Debug, Serialize)]
struct InteractionBody<'a> {
    id: Id<()>,
    #[serde(rename = "type")]
    kind: u8,
    name: &'a str,
    user: UserBody<'a>,
}

impl<'a> InteractionBody<'a> {
    fn of(interaction: &'a MessageInteraction) -> Option<Self> {
        let MessageInteraction { id, kind, name, user, .. } = interaction;
        (!name.is_empty()).then(|| Self { id: *id, kind: *kind, name, user: (&**user).into() })
    }
}

#[derive(Clone, Debug, Serialize)]
struct SnapshotBody<'a> {
    message: SnapshotMessageBody<'a>,
}

/// Content of a forwarded message.
#[derive(Clone, Debug, Serialize)]
struct SnapshotMessageBody<'a> {
    #[serde(rename = "type")]
    kind: u8,
    content: &'a str,
    timestamp: Timestamp,
    edited_timestamp: Option<Timestamp>,
    flags: u32,
    mentions: Vec<UserBody<'a>>,
    mention_roles: &'a [RoleId],
    embeds: &'a [Value],
    components: &'a [Value],
    attachments: Attachments<'a>,
    #[serde(skip_serializing_if = "StickerItems::is_empty")]
    sticker_items: StickerItems<'a>,
}

impl<'a> From<&'a MessageSnapshot> for SnapshotBody<'a> {
    fn from(snapshot: &'a MessageSnapshot) -> Self {
        Self {
            message: SnapshotMessageBody {
                kind: snapshot.kind,
                content: &snapshot.content,
                timestamp: snapshot.timestamp,
                edited_timestamp: snapshot.edited_timestamp,
                flags: snapshot.flags,
                mentions: snapshot.mentions.iter().map(|user| (&**user).into()).collect(),
                mention_roles: &snapshot.mention_roles,
                embeds: &snapshot.embeds,
                components: &snapshot.components,
                attachments: Attachments(&snapshot.attachments),
                sticker_items: StickerItems(&snapshot.sticker_items),
            },
        }
    }
}

/// Text and emoji of a question or an answer.
#[derive(Clone, Copy, Debug, Serialize)]
struct PollMediaBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    emoji: Option<ReactionEmojiBody<'a>>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct PollAnswerBody<'a> {
    answer_id: u8,
    poll_media: PollMediaBody<'a>,
}

impl<'a> From<&'a PollAnswer> for PollAnswerBody<'a> {
    fn from(answer: &'a PollAnswer) -> Self {
        let emoji = answer.emoji.as_ref().map(Into::into);
        Self { answer_id: answer.id, poll_media: PollMediaBody { text: answer.text.as_deref(), emoji } }
    }
}

/// Number of votes for one answer of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct VoteCount {
    /// Number of the answer.
    pub id: u8,
    pub count: u64,
    /// One of them is the recipient's. False in events, which all recipients share.
    pub me_voted: bool,
}

#[derive(Clone, Debug, Serialize)]
struct PollResultsBody {
    /// Without answers that have no votes.
    answer_counts: Vec<VoteCount>,
    is_finalized: bool,
}

#[derive(Clone, Debug, Serialize)]
struct PollBody<'a> {
    question: PollMediaBody<'a>,
    answers: Vec<PollAnswerBody<'a>>,
    expiry: Timestamp,
    allow_multiselect: bool,
    layout_type: u8,
    results: PollResultsBody,
}

impl<'a> From<&'a Poll> for PollBody<'a> {
    fn from(poll: &'a Poll) -> Self {
        let count = |(answer, count): (&PollAnswer, &u64)| VoteCount { id: answer.id, count: *count, me_voted: false };
        let counts = poll.results.iter().flat_map(|results| poll.answers.iter().zip(results).map(count));
        Self {
            question: PollMediaBody { text: Some(&poll.question), emoji: None },
            answers: poll.answers.iter().map(Into::into).collect(),
            expiry: poll.expires_at,
            allow_multiselect: poll.allow_multiselect,
            layout_type: 1,
            results: PollResultsBody {
                answer_counts: counts.filter(|of| of.count > 0).collect(),
                is_finalized: poll.results.is_some(),
            },
        }
    }
}

/// A message, for REST, MESSAGE_CREATE and MESSAGE_UPDATE.
#[derive(Clone, Debug, Serialize)]
pub struct MessageBody<'a> {
    id: MessageId,
    channel_id: ChannelId,
    author: UserBody<'a>,
    content: &'a str,
    timestamp: Timestamp,
    edited_timestamp: Option<Timestamp>,
    tts: bool,
    mention_everyone: bool,
    mentions: Vec<MentionBody<'a>>,
    mention_roles: &'a [RoleId],
    attachments: Attachments<'a>,
    embeds: &'a [Value],
    components: &'a [Value],
    #[serde(skip_serializing_if = "StickerItems::is_empty")]
    sticker_items: StickerItems<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reactions: Vec<ReactionBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a Nonce>,
    pinned: bool,
    #[serde(rename = "type")]
    kind: u8,
    flags: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook_id: Option<WebhookId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    application_id: Option<ApplicationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interaction_metadata: Option<InteractionMetadataBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interaction: Option<InteractionBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    poll: Option<PollBody<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    message_snapshots: Vec<SnapshotBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_reference: Option<ReferenceBody>,
    #[serde(skip_serializing_if = "ReferencedMessage::is_absent")]
    referenced_message: ReferencedMessage<'a>,
    #[serde(flatten)]
    extras: Option<MessageExtras<'a>>,
}

impl<'a> MessageBody<'a> {
    /// The message without reactions, without what only events or only answers of REST have, and without the message
    /// it replies to.
    #[must_use]
    pub fn new(message: &'a Message) -> Self {
        Self {
            id: message.id,
            channel_id: message.channel_id,
            author: (&*message.author).into(),
            content: &message.content,
            timestamp: timestamp_of(message.id),
            edited_timestamp: message.edited_timestamp,
            tts: message.tts,
            mention_everyone: message.mention_everyone,
            mentions: message
                .mentions
                .iter()
                .map(|user| MentionBody { user: (&**user).into(), member: None })
                .collect(),
            mention_roles: &message.mention_roles,
            attachments: Attachments(&message.attachments),
            embeds: &message.embeds,
            components: &message.components,
            sticker_items: StickerItems(&message.sticker_items),
            reactions: Vec::new(),
            nonce: message.nonce.as_ref(),
            pinned: message.pinned,
            kind: message.kind,
            flags: message.flags,
            webhook_id: message.webhook_id,
            application_id: message.application_id,
            interaction_metadata: (message.interaction.as_deref())
                .map(|interaction| InteractionMetadataBody::new(interaction, message.guild_id)),
            interaction: message.interaction.as_deref().and_then(InteractionBody::of),
            poll: message.poll.as_deref().map(Into::into),
            message_snapshots: message.snapshots.iter().map(Into::into).collect(),
            message_reference: message.message_reference.as_ref().map(|reference| match message.snapshots[..] {
                [] => reference.into(),
                _ => ReferenceBody { kind: ReferenceBody::FORWARD, ..reference.into() },
            }),
            referenced_message: match message.answers() {
                Some(_) => ReferencedMessage::Deleted,
                None => ReferencedMessage::NotAReply,
            },
            extras: None,
        }
    }

    /// Adds the fields that only gateway events have: guild, channel type, and the members of author
    /// and mentioned users.
    #[must_use]
    pub fn with_extras(
        mut self,
        extras: MessageExtras<'a>,
        member_of: impl Fn(&User) -> Option<&'a Member>,
        message: &'a Message,
    ) -> Self {
        self.mentions = message
            .mentions
            .iter()
            .map(|user| MentionBody { user: (&**user).into(), member: member_of(user).map(Into::into) })
            .collect();
        self.extras = Some(extras);
        self
    }

    /// Adds the keys that only answers of REST have.
    #[must_use]
    pub fn for_rest(mut self) -> Self {
        self.author = self.author.for_rest();
        for mention in &mut self.mentions {
            mention.user = mention.user.for_rest();
        }
        for user in self.message_snapshots.iter_mut().flat_map(|of| &mut of.message.mentions) {
            *user = user.for_rest();
        }
        self.interaction_metadata = self.interaction_metadata.map(InteractionMetadataBody::for_rest);
        self.interaction = self.interaction.map(|of| InteractionBody { user: of.user.for_rest(), ..of });
        self
    }

    /// Adds reactions.
    #[must_use]
    pub fn with_reactions(mut self, reactions: Vec<ReactionBody<'a>>) -> Self {
        self.reactions = reactions;
        self
    }

    /// Adds the votes for its poll. Counts that are final stay, and only the recipient's own votes are added.
    #[must_use]
    pub fn with_votes(mut self, votes: &[VoteCount]) -> Self {
        let Some(poll) = &mut self.poll else { return self };
        let results = &mut poll.results;
        if !results.is_finalized {
            results.answer_counts = votes.iter().filter(|of| of.count > 0).copied().collect();
        }
        for of in &mut results.answer_counts {
            of.me_voted = votes.iter().any(|vote| vote.id == of.id && vote.me_voted);
        }
        self
    }

    /// Adds the message that this one replies to.
    #[must_use]
    pub fn with_referenced(mut self, referenced: ReferencedMessage<'a>) -> Self {
        self.referenced_message = referenced;
        self
    }

    /// Removes the content that a bot without MESSAGE_CONTENT must not read (reference.md §4.3). The message that this
    /// one replies to is redacted separately.
    #[must_use]
    pub fn redacted(mut self) -> Self {
        // All fields by name, so that a new one is placed: it is content, or any recipient may read it.
        let Self {
            content,
            embeds,
            attachments,
            components,
            poll,
            message_snapshots,
            id: _,
            channel_id: _,
            author: _,
            timestamp: _,
            edited_timestamp: _,
            tts: _,
            mention_everyone: _,
            mentions: _,
            mention_roles: _,
            sticker_items: _,
            reactions: _,
            nonce: _,
            pinned: _,
            kind: _,
            flags: _,
            webhook_id: _,
            application_id: _,
            interaction_metadata: _,
            interaction: _,
            message_reference: _,
            referenced_message: _,
            extras: _,
        } = &mut self;
        *content = "";
        *embeds = &[];
        *attachments = Attachments(&[]);
        *components = &[];
        *poll = None;
        message_snapshots.clear();
        self
    }
}
