//! Message: as backends send, change and read it.
//!
//! Not here    the rules of texts, embeds and components: `guildhall_rest::new_message`, which are those of clients.

use crate::{
    error::{FieldError, V1Error},
    extract::{Check, FieldErrors},
    types::{AnyId, Snowflake, Time, nullable},
};
use guildhall_guild::{MessagePatch, MessageReply, NewMessage};
use guildhall_model::{Attachment, ChannelId, Message, Poll, PollAnswer, ReactionEmoji, timestamp_of};
use guildhall_rest::FieldFault;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

const KEY_CHARS_MAX: usize = 128;
const NONCE_CHARS_MAX: usize = 25;

/// A new message.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessageBody {
    /// Account that sends it, member of the guild or not. In a direct message it is a recipient.
    pub author_id: AnyId,
    /// Idempotency key. For five minutes, a request of the same author with the same key is answered with the first
    /// message, and sends none.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128)]
    pub key: Option<String>,
    /// Text of the message.
    #[serde(default)]
    #[schema(max_length = 2000)]
    content: String,
    /// Echoed in the MESSAGE_CREATE of the message.
    #[serde(default)]
    #[schema(max_length = 25)]
    nonce: Option<String>,
    /// Whether clients read it aloud.
    #[serde(default)]
    tts: bool,
    /// At most 10 embeds, in the form of the protocol.
    #[serde(default)]
    #[schema(value_type = Vec<Object>, max_items = 10)]
    embeds: Vec<Value>,
    /// Buttons, selects and other components, in the form of the protocol.
    #[serde(default)]
    #[schema(value_type = Vec<Object>, max_items = 40)]
    components: Vec<Value>,
    /// Files that are hosted elsewhere.
    #[serde(default)]
    #[schema(max_items = 10)]
    attachments: Vec<LinkedFile>,
    /// Stickers of the guild.
    #[serde(default)]
    #[schema(max_items = 3)]
    sticker_ids: Vec<Snowflake>,
    /// Message flags that a sender may set: 4, 4096, 8192, 32768. Others are ignored.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 4294967295_u64)]
    flags: u32,
    /// Mentions of the text that count; omitted or null: all of them, `@everyone` included.
    #[serde(default)]
    allowed_mentions: Option<AllowedMentionsBody>,
    /// Message of the same channel that it replies to.
    #[serde(default)]
    reply_to: Option<Snowflake>,
}

/// A file at another URL.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkedFile {
    /// Where clients download it: http or https.
    #[schema(min_length = 1, max_length = 2048)]
    url: String,
    /// Name of the file.
    #[schema(min_length = 1, max_length = 1024)]
    filename: String,
    /// Bytes of the file.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1125899906842624_u64)]
    size: u64,
    /// Media type, such as `image/png`.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    content_type: Option<String>,
    /// Alternative text.
    #[serde(default)]
    #[schema(max_length = 1024)]
    description: Option<String>,
    /// Height of an image in pixels.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1048576)]
    height: Option<u32>,
    /// Width of an image in pixels.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1048576)]
    width: Option<u32>,
}

/// Mentions that count.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AllowedMentionsBody {
    /// Kinds of mentions: `users`, `roles`, `everyone`.
    #[serde(default)]
    #[schema(max_items = 3)]
    parse: Vec<String>,
    /// Accounts. Not with `users` in `parse`.
    #[serde(default)]
    #[schema(max_items = 100)]
    users: Vec<Snowflake>,
    /// Roles. Not with `roles` in `parse`.
    #[serde(default)]
    #[schema(max_items = 100)]
    roles: Vec<Snowflake>,
    /// The author of the message that it replies to.
    #[serde(default)]
    replied_user: bool,
}

impl Check for NewMessageBody {
    fn check(&self, faults: &mut FieldErrors) {
        if let Some(key) = &self.key {
            faults.text("key", key, 1, KEY_CHARS_MAX);
        }
        faults.optional_text("nonce", self.nonce.as_deref(), NONCE_CHARS_MAX);
    }
}

impl NewMessageBody {
    pub fn into_message(self, channel_id: ChannelId) -> Result<NewMessage, V1Error> {
        let mut form = as_form(&self)?;
        if let Some(reply_to) = self.reply_to {
            form["message_reference"] = json!({ "message_id": reply_to });
        }
        guildhall_rest::new_message(&form, channel_id).map_err(invalid)
    }
}

/// Changes to a message. A missing field stays as it is.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageChangeBody {
    /// Replaces the text; null removes it.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, required = false, max_length = 2000)]
    content: Option<Option<String>>,
    /// Replaces the embeds; null removes them.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>, required = false, max_items = 10)]
    embeds: Option<Option<Vec<Value>>>,
    /// Replaces the components; null removes them.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>, required = false, max_items = 40)]
    components: Option<Option<Vec<Value>>>,
    /// Ids of the files that stay; null removes all.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Snowflake>>, required = false, max_items = 10)]
    attachment_ids: Option<Option<Vec<Snowflake>>>,
    /// Replaces the flags that an author may change: 4 and 32768.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 4294967295_u64)]
    flags: Option<u32>,
    /// Mentions of the new text that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    allowed_mentions: Option<AllowedMentionsBody>,
}

impl Check for MessageChangeBody {
    fn check(&self, _: &mut FieldErrors) {}
}

impl MessageChangeBody {
    pub fn into_patch(self) -> Result<MessagePatch, V1Error> {
        let mut form = as_form(&self)?;
        if let Some(kept) = self.attachment_ids {
            let kept = kept.unwrap_or_default();
            form["attachments"] = kept.into_iter().map(|id| json!({ "id": id })).collect();
        }
        guildhall_rest::message_patch(&form).map_err(invalid)
    }
}

/// The form of clients, which ignores the fields of backends.
fn as_form<T: Serialize>(body: &T) -> Result<Value, V1Error> {
    serde_json::to_value(body).map_err(|_| V1Error::bug("a message"))
}

fn invalid(faults: Vec<FieldFault>) -> V1Error {
    let error = |FieldFault { field, message }| {
        let field = match field.strip_prefix("message_reference") {
            Some(_) => "reply_to".to_owned(),
            None => field,
        };
        FieldError { field, message }
    };
    V1Error::invalid(faults.into_iter().map(error).collect())
}

/// A message of a history.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryLine {
    /// Its id, which contains its time. Omitted: one that the node makes from `timestamp`, the channel, the author and
    /// the text, the same each time.
    #[serde(default)]
    pub id: Option<Snowflake>,
    /// Channel or thread of the guild.
    pub channel_id: AnyId,
    /// Account that wrote it, member or not.
    pub author_id: AnyId,
    /// When it was written; needed without `id`.
    #[serde(default)]
    pub timestamp: Option<Time>,
    /// When it was changed last.
    #[serde(default)]
    pub edited_timestamp: Option<Time>,
    /// Text of the message.
    #[serde(default)]
    #[schema(max_length = 2000)]
    pub content: String,
    /// In the form of the protocol.
    #[serde(default)]
    #[schema(value_type = Vec<Object>, max_items = 10)]
    embeds: Vec<Value>,
    /// In the form of the protocol.
    #[serde(default)]
    #[schema(value_type = Vec<Object>, max_items = 40)]
    components: Vec<Value>,
    /// Files that are hosted elsewhere.
    #[serde(default)]
    #[schema(max_items = 10)]
    attachments: Vec<LinkedFile>,
    /// Message flags that a sender may set.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 4294967295_u64)]
    flags: u32,
    /// Message of the same channel that it replies to, imported or not.
    #[serde(default)]
    pub reply_to: Option<Snowflake>,
}

impl Check for HistoryLine {
    fn check(&self, faults: &mut FieldErrors) {
        if self.id.is_none() && self.timestamp.is_none() {
            faults.add("timestamp", "Is needed, unless there is an `id`.");
        }
    }
}

impl HistoryLine {
    pub fn into_message(self, channel_id: ChannelId) -> Result<NewMessage, V1Error> {
        guildhall_rest::new_message(&as_form(&self)?, channel_id).map_err(invalid)
    }
}

/// Ids of messages to delete.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageIds {
    /// 1 to 100 messages of the channel, of any age. Those that do not exist are left out.
    #[schema(min_items = 1, max_items = 100)]
    pub message_ids: Vec<Snowflake>,
}

impl Check for MessageIds {
    fn check(&self, faults: &mut FieldErrors) {
        faults.count("message_ids", self.message_ids.len(), 1, 100);
    }
}

/// Author of a message, as the account was when it was sent.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = MessageAuthor)]
pub(crate) struct AuthorBody {
    /// Account, or webhook.
    id: Snowflake,
    username: String,
    global_name: Option<String>,
    /// Hash of the avatar.
    avatar: Option<String>,
    bot: bool,
}

/// A file of a message.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = MessageFile)]
pub(crate) struct FileBody {
    id: Snowflake,
    filename: String,
    /// Bytes of the file; of a file that is hosted elsewhere, the number that its sender gave.
    size: u64,
    /// Where clients download it. The link to a file of this node expires.
    url: String,
    content_type: Option<String>,
    /// Alternative text.
    description: Option<String>,
    height: Option<u32>,
    width: Option<u32>,
}

impl From<&Attachment> for FileBody {
    fn from(file: &Attachment) -> Self {
        Self {
            id: file.id.into(),
            filename: file.filename.clone(),
            size: file.size,
            url: file.url.clone(),
            content_type: file.content_type.clone(),
            description: file.description.clone(),
            height: file.height,
            width: file.width,
        }
    }
}

/// Number of reactions with one emoji.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = MessageReaction)]
pub(crate) struct ReactionBody {
    /// Custom emoji; null: a Unicode emoji.
    emoji_id: Option<Snowflake>,
    /// The Unicode emoji, or the name of a custom one.
    emoji_name: String,
    count: u64,
}

impl ReactionBody {
    fn new(emoji: &ReactionEmoji, count: u64) -> Self {
        Self { emoji_id: emoji.id.map(Into::into), emoji_name: emoji.name.clone(), count }
    }
}

/// An answer of a poll, with its votes.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = PollAnswer)]
pub(crate) struct AnswerBody {
    /// Number from 1 on.
    id: u8,
    text: Option<String>,
    /// Custom emoji in front of the text.
    emoji_id: Option<Snowflake>,
    /// Unicode emoji in front of the text, or the name of a custom one.
    emoji_name: Option<String>,
    votes: u64,
}

/// A poll in a message.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Poll)]
pub(crate) struct PollBody {
    question: String,
    /// In the order in which clients show them.
    answers: Vec<AnswerBody>,
    /// Time from which it takes no votes.
    expires_at: Time,
    /// An account may vote for several answers.
    allow_multiselect: bool,
    /// It has ended: the votes are its result.
    is_final: bool,
}

impl PollBody {
    fn new(poll: &Poll, votes: &[(u8, u64)]) -> Self {
        let count = |at: usize, id: u8| match &poll.results {
            Some(results) => results.get(at).copied().unwrap_or(0),
            None => votes.iter().find(|(of, _)| *of == id).map_or(0, |(_, count)| *count),
        };
        let answer = |(at, PollAnswer { id, text, emoji }): (usize, &PollAnswer)| AnswerBody {
            id: *id,
            text: text.clone(),
            emoji_id: emoji.as_ref().and_then(|emoji| emoji.id).map(Into::into),
            emoji_name: emoji.as_ref().map(|emoji| emoji.name.clone()),
            votes: count(at, *id),
        };
        Self {
            question: poll.question.clone(),
            answers: poll.answers.iter().enumerate().map(answer).collect(),
            expires_at: Time(poll.expires_at),
            allow_multiselect: poll.allow_multiselect,
            is_final: poll.results.is_some(),
        }
    }
}

/// The message that another one forwards, as it was then.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ForwardedMessage)]
pub(crate) struct ForwardedBody {
    /// The original.
    message_id: Snowflake,
    channel_id: Snowflake,
    /// Null: of a direct message.
    guild_id: Option<Snowflake>,
    content: String,
    /// Time of the original.
    timestamp: Time,
    edited_timestamp: Option<Time>,
    /// In the form of the protocol.
    #[schema(value_type = Vec<Object>)]
    embeds: Vec<Value>,
    /// In the form of the protocol.
    #[schema(value_type = Vec<Object>)]
    components: Vec<Value>,
    attachments: Vec<FileBody>,
    sticker_ids: Vec<Snowflake>,
}

impl ForwardedBody {
    /// None: the message forwards nothing.
    fn of(message: &Message) -> Option<Self> {
        let (snapshot, reference) = (message.snapshots.first()?, message.message_reference?);
        Some(Self {
            message_id: reference.message_id.into(),
            channel_id: reference.channel_id.into(),
            guild_id: reference.guild_id.map(Into::into),
            content: snapshot.content.clone(),
            timestamp: Time(snapshot.timestamp),
            edited_timestamp: snapshot.edited_timestamp.map(Time),
            embeds: snapshot.embeds.clone(),
            components: snapshot.components.clone(),
            attachments: snapshot.attachments.iter().map(FileBody::from).collect(),
            sticker_ids: snapshot.sticker_items.iter().map(|item| item.id.into()).collect(),
        })
    }
}

/// A message as the node stores it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Message)]
pub(crate) struct MessageBody {
    id: Snowflake,
    channel_id: Snowflake,
    /// Guild of the channel; null: a direct message.
    guild_id: Option<Snowflake>,
    author: AuthorBody,
    /// Webhook that posted it.
    webhook_id: Option<Snowflake>,
    content: String,
    /// Time of the message, from its id.
    timestamp: Time,
    /// Time of the last edit.
    edited_timestamp: Option<Time>,
    /// 0 default, 19 reply; others as in the protocol.
    r#type: u8,
    flags: u32,
    tts: bool,
    pinned: bool,
    mention_everyone: bool,
    /// Mentioned accounts.
    mentions: Vec<Snowflake>,
    mention_roles: Vec<Snowflake>,
    /// In the form of the protocol.
    #[schema(value_type = Vec<Object>)]
    embeds: Vec<Value>,
    /// In the form of the protocol.
    #[schema(value_type = Vec<Object>)]
    components: Vec<Value>,
    attachments: Vec<FileBody>,
    sticker_ids: Vec<Snowflake>,
    reactions: Vec<ReactionBody>,
    /// Message that it replies to.
    reply_to: Option<Snowflake>,
    /// Poll of the message; null: none.
    poll: Option<PollBody>,
    /// The forwarded message; null: it forwards none.
    forwarded: Option<ForwardedBody>,
}

impl MessageBody {
    /// `counts`: of reactions and votes.
    pub fn new<'a>(message: &Message, counts: impl Iterator<Item = (&'a ReactionEmoji, u64)>) -> Self {
        let author = &message.author;
        let (mut reactions, mut votes) = (Vec::new(), Vec::new());
        for (emoji, count) in counts {
            match emoji.answer() {
                Some(answer_id) => votes.push((answer_id, count)),
                None => reactions.push(ReactionBody::new(emoji, count)),
            }
        }
        Self {
            id: message.id.into(),
            channel_id: message.channel_id.into(),
            guild_id: message.guild_id.map(Into::into),
            author: AuthorBody {
                id: author.id.into(),
                username: author.username.clone(),
                global_name: author.global_name.clone(),
                avatar: author.avatar.clone(),
                bot: author.bot,
            },
            webhook_id: message.webhook_id.map(Into::into),
            content: message.content.clone(),
            timestamp: Time(timestamp_of(message.id)),
            edited_timestamp: message.edited_timestamp.map(Time),
            r#type: message.kind,
            flags: message.flags,
            tts: message.tts,
            pinned: message.pinned,
            mention_everyone: message.mention_everyone,
            mentions: message.mentions.iter().map(|user| user.id.into()).collect(),
            mention_roles: message.mention_roles.iter().map(|id| (*id).into()).collect(),
            embeds: message.embeds.clone(),
            components: message.components.clone(),
            attachments: message.attachments.iter().map(FileBody::from).collect(),
            sticker_ids: message.sticker_items.iter().map(|item| item.id.into()).collect(),
            reactions,
            reply_to: message
                .answers()
                .filter(|(channel_id, _)| *channel_id == message.channel_id)
                .map(|(_, message_id)| message_id.into()),
            poll: message.poll.as_ref().map(|poll| PollBody::new(poll, &votes)),
            forwarded: ForwardedBody::of(message),
        }
    }
}

impl From<&MessageReply> for MessageBody {
    fn from(reply: &MessageReply) -> Self {
        Self::new(&reply.message, reply.reactions.iter().map(|of| (&of.emoji, of.count)))
    }
}
