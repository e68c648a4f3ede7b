//! What messages are written and changed with.

use guildhall_model::{Attachment, Id, MessageId, Nonce, RoleId, StickerId, UserId};
use serde_json::Value;

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
    /// Files that lie somewhere else, whose ids are 0 and will be assigned, and files that this server keeps.
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
    /// Files that come to those that stay, each with its id.
    pub added: Vec<Attachment>,
    /// Replaces the flags that may be set.
    pub flags: Option<u32>,
    /// For the mentions of the new content.
    pub allowed_mentions: Option<AllowedMentions>,
}
