//! Messages.
//!
//! Spec  docs/protocol/reference.md §6.6.

use crate::{
    id::{ApplicationId, ChannelId, GuildId, Id, MessageId, RoleId, StickerId, UserId, WebhookId},
    poll::Poll,
    snowflake::timestamp_of,
    user::User,
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Identifier chosen by the client for a message, echoed with its original JSON type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Nonce {
    /// Sent as a number.
    Number(i64),
    /// Sent as a string of at most 25 characters.
    Text(String),
}

/// Reference to the message that this one replies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageReference {
    /// 0 refers to the channel itself.
    pub message_id: MessageId,
    pub channel_id: ChannelId,
    /// None: in a direct message. Stored as 0 then.
    #[serde(with = "id_or_zero")]
    pub guild_id: Option<GuildId>,
}

/// A file attached to a message: stored by this node, or hosted elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub id: Id<()>,
    /// 1–1024 characters.
    pub filename: String,
    /// Size in bytes. For a file hosted elsewhere the sender's own value, unchecked.
    pub size: u64,
    /// Where clients download the file.
    pub url: String,
    /// Media type, for example `image/png`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Alternative text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Height of an image in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// Width of an image in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
}

/// An attachment of a message that is not stored yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewAttachment {
    /// Id of a file that this node has stored, a part of its URL. None: a file hosted elsewhere; the guild
    /// assigns its id.
    #[serde(with = "id_or_zero")]
    pub id: Option<Id<()>>,
    /// As [`Attachment::filename`].
    pub filename: String,
    /// As [`Attachment::size`].
    pub size: u64,
    /// As [`Attachment::url`].
    pub url: String,
    /// As [`Attachment::content_type`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// As [`Attachment::description`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// As [`Attachment::height`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// As [`Attachment::width`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
}

impl NewAttachment {
    /// The attachment as stored, with this id.
    #[must_use]
    pub fn with_id(self, id: Id<()>) -> Attachment {
        let Self { id: _, filename, size, url, content_type, description, height, width } = self;
        Attachment { id, filename, size, url, content_type, description, height, width }
    }
}

impl From<Attachment> for NewAttachment {
    fn from(attachment: Attachment) -> Self {
        let Attachment { id, filename, size, url, content_type, description, height, width } = attachment;
        Self { id: Some(id), filename, size, url, content_type, description, height, width }
    }
}

/// A sticker in a message, as it was when the message was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StickerItem {
    pub id: StickerId,
    pub name: String,
    /// 1 PNG, 2 APNG, 3 Lottie, 4 GIF.
    pub format_type: u8,
}

/// Content of a forwarded message, as it was when it was forwarded. Changes of the original do not reach it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageSnapshot {
    /// As [`Message::kind`].
    #[serde(rename = "type", default)]
    pub kind: u8,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content: String,
    /// Time at which the original was sent.
    pub timestamp: Timestamp,
    /// As [`Message::edited_timestamp`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_timestamp: Option<Timestamp>,
    #[serde(default)]
    pub flags: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<Arc<User>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mention_roles: Vec<RoleId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub embeds: Vec<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Value>,
    /// The original's own files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sticker_items: Vec<StickerItem>,
}

impl From<&Message> for MessageSnapshot {
    fn from(message: &Message) -> Self {
        Self {
            kind: message.kind,
            content: message.content.clone(),
            timestamp: timestamp_of(message.id),
            edited_timestamp: message.edited_timestamp,
            flags: message.flags,
            mentions: message.mentions.clone(),
            mention_roles: message.mention_roles.clone(),
            embeds: message.embeds.clone(),
            components: message.components.clone(),
            attachments: message.attachments.clone(),
            sticker_items: message.sticker_items.clone(),
        }
    }
}

/// The interaction that a message answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageInteraction {
    pub id: Id<()>,
    /// 2 command, 3 component, 5 modal.
    #[serde(rename = "type")]
    pub kind: u8,
    /// Name of the command with those of its subcommands; empty for components and modals.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The account that used the command or component.
    pub user: Arc<User>,
    /// First answer to the interaction, for a further one. None if that is ephemeral.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_response_message_id: Option<MessageId>,
    /// Message of the used component. None if that is ephemeral.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interacted_message_id: Option<MessageId>,
    /// The interaction that a modal answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggering: Option<Box<MessageInteraction>>,
}

/// An optional id in the stored form and between nodes: 0 for none.
mod id_or_zero {
    use super::Id;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<T, S: Serializer>(id: &Option<Id<T>>, serializer: S) -> Result<S::Ok, S::Error> {
        id.unwrap_or(Id::new(0)).serialize(serializer)
    }

    pub fn deserialize<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Id<T>>, D::Error> {
        let id = Id::deserialize(deserializer)?;
        Ok(Some(id).filter(|id| id.get() != 0))
    }
}

/// A message as stored. Its reactions are stored separately.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Strictly increasing within a channel.
    pub id: MessageId,
    pub channel_id: ChannelId,
    /// None: in a direct message. Stored as 0 then.
    #[serde(with = "id_or_zero")]
    pub guild_id: Option<GuildId>,
    /// The author's account as it was when the message was sent.
    pub author: Arc<User>,
    /// At most 2000 characters.
    pub content: String,
    /// Time of the last edit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_timestamp: Option<Timestamp>,
    /// Clients read it aloud (text to speech).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tts: bool,
    /// Mentions `@everyone` or `@here`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mention_everyone: bool,
    /// Mentioned accounts, as they were when the message was sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<Arc<User>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mention_roles: Vec<RoleId>,
    /// Embeds, passed through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub embeds: Vec<Value>,
    /// Interactive components, passed through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Value>,
    /// Attached files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Stickers of the same guild.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sticker_items: Vec<StickerItem>,
    /// Echo of the sender's nonce. Not stored: only the MESSAGE_CREATE event carries it.
    #[serde(skip)]
    pub nonce: Option<Nonce>,
    /// Is pinned in its channel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// Message type: 0 default, 19 reply; others are passed through.
    #[serde(rename = "type", default)]
    pub kind: u8,
    /// Message flags.
    #[serde(default)]
    pub flags: u32,
    /// The message this one replies to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_reference: Option<MessageReference>,
    /// The webhook that posted it; `author` then has the webhook's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_id: Option<WebhookId>,
    /// The application that answered an interaction with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_id: Option<ApplicationId>,
    /// The interaction that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interaction: Option<Box<MessageInteraction>>,
    /// Poll in the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<Box<Poll>>,
    /// The message that this one forwards, which `message_reference` names. At most one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<MessageSnapshot>,
}

impl Message {
    /// Type of a plain message.
    pub const KIND_DEFAULT: u8 = 0;
    /// Type of the system message "an account was added to the group".
    pub const KIND_RECIPIENT_ADD: u8 = 1;
    /// Type of the system message "an account left the group".
    pub const KIND_RECIPIENT_REMOVE: u8 = 2;
    /// Type of the system message "the group was renamed".
    pub const KIND_NAME_CHANGE: u8 = 4;
    /// Type of the system message "a message was pinned".
    pub const KIND_PIN: u8 = 6;
    /// Type of the system message "this channel follows an announcement channel".
    pub const KIND_CHANNEL_FOLLOW_ADD: u8 = 12;
    /// Type of the system message "a thread was started in this channel".
    pub const KIND_THREAD_CREATED: u8 = 18;
    /// Type of the first message of a thread that was started from a message. It refers to that message.
    pub const KIND_THREAD_STARTER: u8 = 21;
    /// Type of a reply.
    pub const KIND_REPLY: u8 = 19;
    /// Type of the answer to a chat command.
    pub const KIND_CHAT_INPUT_COMMAND: u8 = 20;
    /// Type of the answer to a command of a user or message.
    pub const KIND_CONTEXT_MENU_COMMAND: u8 = 23;
    /// Type of the system message "a rule of auto moderation matched a message".
    pub const KIND_AUTO_MODERATION_ACTION: u8 = 24;
    /// Type of the system message "a poll has ended".
    pub const KIND_POLL_RESULT: u8 = 46;

    /// Flag: it was published to the channels that follow its channel.
    pub const CROSSPOSTED: u32 = 1 << 0;
    /// Flag: a copy of a message of a followed channel.
    pub const IS_CROSSPOST: u32 = 1 << 1;
    /// Flag: visible to one account only. Such a message is in no channel's history.
    pub const EPHEMERAL: u32 = 1 << 6;
    /// Flag: the application has not answered yet.
    pub const LOADING: u32 = 1 << 7;
    /// Flag: it forwards another message.
    pub const HAS_SNAPSHOT: u32 = 1 << 14;
    /// Flag: the message consists of components only.
    pub const IS_COMPONENTS_V2: u32 = 1 << 15;

    /// An empty message.
    #[must_use]
    pub fn new(id: MessageId, channel_id: ChannelId, guild_id: impl Into<Option<GuildId>>, author: Arc<User>) -> Self {
        Self {
            id,
            channel_id,
            guild_id: guild_id.into(),
            author,
            content: String::new(),
            edited_timestamp: None,
            tts: false,
            mention_everyone: false,
            mentions: Vec::new(),
            mention_roles: Vec::new(),
            embeds: Vec::new(),
            components: Vec::new(),
            attachments: Vec::new(),
            sticker_items: Vec::new(),
            nonce: None,
            pinned: false,
            kind: Self::KIND_DEFAULT,
            flags: 0,
            message_reference: None,
            webhook_id: None,
            application_id: None,
            interaction: None,
            poll: None,
            snapshots: Vec::new(),
        }
    }

    /// The message that this one replies to, or from which its thread was started.
    #[must_use]
    pub fn answers(&self) -> Option<(ChannelId, MessageId)> {
        let reference = self.message_reference?;
        matches!(self.kind, Self::KIND_REPLY | Self::KIND_THREAD_STARTER)
            .then_some((reference.channel_id, reference.message_id))
    }

    /// Its own files, and those of the message that it forwards.
    pub fn all_attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.attachments.iter().chain(self.snapshots.iter().flat_map(|snapshot| &snapshot.attachments))
    }

    /// Was sent in a direct message.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.guild_id.is_none()
    }

    /// Has neither content nor attachments, embeds, stickers, a poll or a forwarded message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.content.trim().is_empty()
            && self.embeds.is_empty()
            && self.components.is_empty()
            && self.attachments.is_empty()
            && self.sticker_items.is_empty()
            && self.poll.is_none()
            && self.snapshots.is_empty()
    }

    /// The account wrote the message or is mentioned in it. The gateway never redacts its content for that account.
    #[must_use]
    pub fn concerns(&self, user_id: UserId) -> bool {
        self.author.id == user_id || self.mentions.iter().any(|user| user.id == user_id)
    }
}
