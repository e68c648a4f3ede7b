//! Input of commands that create and edit messages.

use guildhall_model::{
    ChannelId, GuildId, Id, MessageId, MessageSnapshot, NewAttachment, Nonce, PollAnswer, RoleId, StickerId, UserId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// Longest content of a message, in characters.
pub const CONTENT_CHARS_MAX: usize = 2_000;

/// A new message. The caller has checked lengths and counts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NewMessage {
    /// At most `CONTENT_CHARS_MAX` characters; may be empty only with embeds.
    pub content: String,
    /// Echoed in MESSAGE_CREATE.
    pub nonce: Option<Nonce>,
    /// If the author used the nonce within the last minutes, return that message and send nothing.
    pub enforce_nonce: bool,
    /// Text to speech; ignored without the permission.
    pub tts: bool,
    /// At most 10 embeds.
    pub embeds: Vec<Value>,
    /// Passed through.
    pub components: Vec<Value>,
    /// Files hosted elsewhere, and files stored by this node.
    pub attachments: Vec<NewAttachment>,
    /// Stickers of this guild.
    pub sticker_ids: Vec<StickerId>,
    /// Masked to the flags that a sender may set.
    pub flags: u32,
    /// Allowed mentions; none: all mentions in the content.
    pub allowed_mentions: Option<AllowedMentions>,
    /// The message to reply to.
    pub reply_to: Option<ReplyTo>,
    /// Poll in the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<Box<NewPoll>>,
    /// The message that it forwards. It has nothing else then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<Box<Forward>>,
}

impl NewMessage {
    /// Its text, with those of its poll and of the message that it forwards.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        let forwarded = self.forward.as_ref().and_then(|forward| forward.snapshot.as_ref());
        let poll = self.poll.as_deref();
        if forwarded.is_none() && poll.is_none() {
            return Cow::Borrowed(&self.content);
        }
        let mut texts = vec![self.content.as_str()];
        texts.extend(forwarded.map(|snapshot| snapshot.content.as_str()));
        texts.extend(poll.map(|poll| poll.question.as_str()));
        texts.extend(poll.iter().flat_map(|poll| &poll.answers).filter_map(|answer| answer.text.as_deref()));
        Cow::Owned(texts.join("\n"))
    }
}

/// A message that a new one forwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forward {
    pub channel_id: ChannelId,
    pub message_id: MessageId,
    /// None: a direct message.
    pub guild_id: Option<GuildId>,
    /// The caller has read it as an account that may. A guild refuses the message without it.
    pub snapshot: Option<MessageSnapshot>,
}

/// Poll of a message that is not stored yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewPoll {
    /// As `Poll::question`.
    pub question: String,
    /// The guild numbers them, whatever their ids.
    pub answers: Vec<PollAnswer>,
    /// Hours until it ends.
    pub duration_h: u32,
    /// As `Poll::allow_multiselect`.
    pub allow_multiselect: bool,
}

/// The message that a new message replies to.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ReplyTo {
    /// In the same channel.
    pub message_id: MessageId,
    /// Refuse if it does not exist; otherwise the reply becomes a plain message.
    pub fail_if_not_exists: bool,
}

/// Users and roles that a message may mention (reference.md §10.3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedMentions {
    /// All users in the content.
    pub all_users: bool,
    /// All roles in the content.
    pub all_roles: bool,
    /// `@everyone` and `@context`.
    pub everyone: bool,
    /// These users of the content.
    pub users: Vec<UserId>,
    /// These roles of the content.
    pub roles: Vec<RoleId>,
    /// The author of the original message.
    pub replied_user: bool,
}

/// Changes to a message; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MessagePatch {
    /// Replaces the content and its mentions.
    pub content: Option<String>,
    /// Replaces the embeds.
    pub embeds: Option<Vec<Value>>,
    /// Replaces the components.
    pub components: Option<Vec<Value>>,
    /// Ids of the attachments that stay.
    pub attachments: Option<Vec<Id<()>>>,
    /// Additional files.
    pub added: Vec<NewAttachment>,
    /// Replaces the flags that a sender may set.
    pub flags: Option<u32>,
    /// Allowed mentions in the new content.
    pub allowed_mentions: Option<AllowedMentions>,
}
