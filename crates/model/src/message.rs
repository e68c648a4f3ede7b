//! Messages.
//!
//! Spec  docs/protocol.md §6.6.

use crate::{
    id::{ChannelId, GuildId, Id, MessageId, RoleId, StickerId, UserId, WebhookId},
    user::User,
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// A client's own mark on a message, echoed in its original JSON type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Nonce {
    /// As a number.
    Number(i64),
    /// As a string of at most 25 characters.
    Text(String),
}

/// The message that a message answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageReference {
    /// Which message; 0 for the channel itself.
    pub message_id: MessageId,
    /// In which channel.
    pub channel_id: ChannelId,
    /// In which guild; 0 for a direct message.
    pub guild_id: GuildId,
}

/// A file: one that this server keeps, or one that lies somewhere else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its id.
    pub id: Id<()>,
    /// 1–1024 characters.
    pub filename: String,
    /// Bytes; of what lies somewhere else, as whoever gave it says.
    pub size: u64,
    /// Where it lies.
    pub url: String,
    /// Media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// What it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Of a picture, pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// Of a picture, pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
}

/// A sticker on a message, as it was then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StickerItem {
    /// Which.
    pub id: StickerId,
    /// Its name.
    pub name: String,
    /// 1 PNG, 2 APNG, 3 Lottie, 4 GIF.
    pub format_type: u8,
}

/// A message, as it is kept. Reactions are kept beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its id, strictly increasing within a channel.
    pub id: MessageId,
    /// Where it was said.
    pub channel_id: ChannelId,
    /// The guild of that channel; 0 for a direct message.
    pub guild_id: GuildId,
    /// Who said it, as they were then.
    pub author: Arc<User>,
    /// At most 2000 characters.
    pub content: String,
    /// When it was last edited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_timestamp: Option<Timestamp>,
    /// To be read aloud.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tts: bool,
    /// Mentions everybody (or everybody who is there).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mention_everyone: bool,
    /// Mentioned users, as they were then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<Arc<User>>,
    /// Mentioned roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mention_roles: Vec<RoleId>,
    /// Rich content, passed through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub embeds: Vec<Value>,
    /// Interactive parts, passed through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Value>,
    /// Files, by where they lie.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Stickers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sticker_items: Vec<StickerItem>,
    /// Echo of the sender's mark. Not stored: it concerns only the moment of sending.
    #[serde(skip)]
    pub nonce: Option<Nonce>,
    /// Pinned in its channel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// 0 default, 19 reply; others are passed through.
    #[serde(rename = "type", default)]
    pub kind: u8,
    /// Message flags.
    #[serde(default)]
    pub flags: u32,
    /// What it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_reference: Option<MessageReference>,
    /// The webhook that posted it; `author` is its name then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_id: Option<WebhookId>,
}

impl Message {
    /// The kind of a plain message.
    pub const KIND_DEFAULT: u8 = 0;
    /// The kind of the note that somebody came into a group.
    pub const KIND_RECIPIENT_ADD: u8 = 1;
    /// The kind of the note that somebody left a group.
    pub const KIND_RECIPIENT_REMOVE: u8 = 2;
    /// The kind of the note that a group has another name.
    pub const KIND_NAME_CHANGE: u8 = 4;
    /// The kind of the note that a message was pinned.
    pub const KIND_PIN: u8 = 6;
    /// The kind of the note in a channel that a thread was begun there.
    pub const KIND_THREAD_CREATED: u8 = 18;
    /// The kind of what a thread begins with that was begun from a message: that message, by reference.
    pub const KIND_THREAD_STARTER: u8 = 21;
    /// The kind of an answer to another message.
    pub const KIND_REPLY: u8 = 19;

    /// An empty message.
    #[must_use]
    pub fn new(id: MessageId, channel_id: ChannelId, guild_id: GuildId, author: Arc<User>) -> Self {
        Self {
            id,
            channel_id,
            guild_id,
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
        }
    }

    /// The message that it answers, or that its thread was begun from.
    #[must_use]
    pub fn answers(&self) -> Option<(ChannelId, MessageId)> {
        let reference = self.message_reference?;
        matches!(self.kind, Self::KIND_REPLY | Self::KIND_THREAD_STARTER)
            .then_some((reference.channel_id, reference.message_id))
    }

    /// It was said in no guild.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.guild_id.get() == 0
    }

    /// Nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.content.trim().is_empty()
            && self.embeds.is_empty()
            && self.components.is_empty()
            && self.attachments.is_empty()
            && self.sticker_items.is_empty()
    }

    /// The account wrote the message or is mentioned in it: its content is never withheld from them.
    #[must_use]
    pub fn concerns(&self, user_id: UserId) -> bool {
        self.author.id == user_id || self.mentions.iter().any(|user| user.id == user_id)
    }
}
