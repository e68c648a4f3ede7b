//! Message forms: JSON of a client, checked against every limit.
//!
//! Owns        `new_message` and `message_patch`, from JSON to commands, and the descriptions of uploaded files.
//! Limits      docs/protocol/reference.md §10.3, among them the longest content, 2,000 characters, which is no setting;
//!             components: `super::component_form`.

use super::{component_form, embeds::embeds};
use crate::{
    error::ApiError,
    form::{self, FieldError, Form, Parsed},
};
use guildhall_guild::{
    AllowedMentions, CONTENT_CHARS_MAX, Forward, MessagePatch, NewMessage, NewPoll, Refusal, ReplyTo,
};
use guildhall_media::{FILES_MAX, FileForm, NO_FILES};
use guildhall_model::{
    ChannelId, EmojiId, Id, Message, NewAttachment, Nonce, PollAnswer, ReactionEmoji, is_unicode_emoji,
};
use serde_json::Value;

const NONCE_CHARS_MAX: usize = 25;
const ALLOWED_IDS_MAX: usize = 100;
const STICKERS_MAX: usize = 3;
const FILENAME_CHARS_MAX: usize = 1024;
const URL_CHARS_MAX: usize = 2048;
const POLL_QUESTION_CHARS_MAX: usize = 300;
const POLL_ANSWER_CHARS_MAX: usize = 55;
const POLL_ANSWERS_MAX: usize = 10;
/// Longest poll: 32 days, as upstream.
const POLL_HOURS_MAX: i64 = 768;
const POLL_HOURS_DEFAULT: i64 = 24;
/// Flags that a sender may set: SUPPRESS_EMBEDS, SUPPRESS_NOTIFICATIONS, IS_VOICE_MESSAGE, IS_COMPONENTS_V2.
const FLAGS: i64 = 4 | 4096 | 8192 | 32768;

/// A field that this server does not support.
fn unsupported(message: &'static str) -> FieldError {
    FieldError::new("UNSUPPORTED", message)
}

/// An entry of `attachments`.
enum Named {
    /// A file at another URL.
    Linked(NewAttachment),
    /// A file of this request.
    Uploaded(FileForm),
    /// The message has it already.
    Kept(Id<()>),
}

/// Reads a new message for `channel_id`, with which the files of these numbers came.
pub(crate) fn new_message(
    body: &Value,
    uploads: &[usize],
    channel_id: ChannelId,
) -> Result<(NewMessage, Vec<FileForm>), ApiError> {
    let (message, files, ()) = new_message_with(body, uploads, channel_id, |_| ())?;
    Ok((message, files))
}

/// As `new_message`, with other fields of the same form.
pub(crate) fn new_message_with<T>(
    body: &Value,
    uploads: &[usize],
    channel_id: ChannelId,
    others: impl FnOnce(&mut Form<'_>) -> T,
) -> Result<(NewMessage, Vec<FileForm>, T), ApiError> {
    let mut files = Vec::new();
    let (message, others) = form::object(body, |form| {
        let content = form.optional("content", content).unwrap_or_default();
        // Clients of API version 9 still send `embed`.
        let embeds = match form.optional("embeds", embeds) {
            Some(embeds) => embeds,
            None => form.optional("embed", |v| self::embeds(&Value::Array(vec![v.clone()]))).unwrap_or_default(),
        };
        let stickers = form.optional("sticker_ids", |v| form::list(v, 0, STICKERS_MAX, form::id));
        let named = form.optional("attachments", |v| form::list(v, 0, FILES_MAX, |v| attachment(v, uploads)));
        let mut attachments = Vec::new();
        for named in named.unwrap_or_default() {
            match named {
                Named::Linked(linked) => attachments.push(linked),
                Named::Uploaded(file) => files.push(file),
                Named::Kept(_) => {}
            }
        }
        if attachments.len() + uploads.len() > FILES_MAX {
            form.fault("attachments", too_many());
        }
        let flags = form.optional("flags", flags).unwrap_or(0);
        let is_v2 = flags & Message::IS_COMPONENTS_V2 != 0;
        let components = form.optional("components", |v| component_form::of_message(v, Some(is_v2)));
        let reference = form.optional("message_reference", |v| reference(v, channel_id));
        let message = NewMessage {
            content,
            attachments,
            sticker_ids: stickers.unwrap_or_default(),
            nonce: form.optional("nonce", nonce),
            enforce_nonce: form.optional("enforce_nonce", form::boolean).unwrap_or(false),
            tts: form.optional("tts", form::boolean).unwrap_or(false),
            embeds,
            components: components.unwrap_or_default(),
            flags,
            allowed_mentions: form.optional("allowed_mentions", allowed_mentions),
            reply_to: match &reference {
                Some(Reference::Reply(reply_to)) => Some(*reply_to),
                _ => None,
            },
            poll: form.optional("poll", poll).map(Box::new),
            forward: match reference {
                Some(Reference::Forward(forward)) => Some(forward),
                _ => None,
            },
        };
        if message.forward.is_some() && has_more_than_forward(&message, uploads) {
            form.fault("message_reference", unsupported("A message that forwards another one has nothing else in it."));
        }
        if is_v2 {
            refuse_with_v2(form, &message);
        }
        Some((message, others(form)))
    })?;
    let has_files = !message.attachments.is_empty() || !uploads.is_empty();
    let has_rest = has_files || !message.sticker_ids.is_empty() || message.poll.is_some() || message.forward.is_some();
    let has_rich = !message.embeds.is_empty() || !message.components.is_empty();
    if message.content.trim().is_empty() && !has_rich && !has_rest {
        return Err(Refusal::EmptyMessage.into());
    }
    Ok((message, files, others))
}

/// Reads changes to a message, with which the files of these numbers came. A key that is present with null clears.
pub(crate) fn message_patch(body: &Value, uploads: &[usize]) -> Result<(MessagePatch, Vec<FileForm>), ApiError> {
    let mut files = Vec::new();
    let patch = form::object(body, |form| {
        let named = form.nullable("attachments", |v| form::list(v, 0, FILES_MAX, |v| kept(v, uploads)));
        let attachments = named.map(|named| {
            let mut kept = Vec::new();
            for named in named.unwrap_or_default() {
                match named {
                    Named::Kept(id) => kept.push(id),
                    Named::Uploaded(file) => files.push(file),
                    Named::Linked(_) => {}
                }
            }
            kept
        });
        let flags = form.nullable("flags", flags).map(Option::unwrap_or_default);
        let is_v2 = flags.filter(|flags| flags & Message::IS_COMPONENTS_V2 != 0).map(|_| true);
        let components = form.nullable("components", |v| component_form::of_message(v, is_v2));
        let patch = MessagePatch {
            content: form.nullable("content", content).map(Option::unwrap_or_default),
            embeds: form.nullable("embeds", embeds).map(Option::unwrap_or_default),
            components: components.map(Option::unwrap_or_default),
            attachments,
            added: Vec::new(),
            flags,
            allowed_mentions: form.optional("allowed_mentions", allowed_mentions),
        };
        refuse_poll(form, "A poll cannot be added by an edit: send a new message.");
        Some(patch)
    })?;
    Ok((patch, files))
}

/// Only bots and webhooks may choose the URLs of files.
pub(crate) fn need_bot(message: &NewMessage, is_bot: bool) -> Result<(), ApiError> {
    if message.attachments.is_empty() || is_bot {
        return Ok(());
    }
    Err(form::FieldErrors::at("attachments", unsupported(NO_FILES)).into())
}

fn too_many() -> FieldError {
    FieldError::new("BASE_TYPE_MAX_LENGTH", format!("Must be {FILES_MAX} or fewer in length."))
}

/// A file by its URL, or by its number in this request.
fn attachment(value: &Value, uploads: &[usize]) -> Parsed<Named> {
    let has_url = value.get("url").is_some_and(|url| !url.is_null());
    if has_url { linked(value).map(Named::Linked) } else { uploaded(value, uploads) }
}

fn number(value: &Value) -> Option<usize> {
    value.get("id").and_then(|id| id.as_u64().or_else(|| id.as_str()?.parse().ok())).map(|n| n as usize)
}

fn uploaded(value: &Value, uploads: &[usize]) -> Parsed<Named> {
    let number = number(value).filter(|number| uploads.contains(number));
    let Some(number) = number else {
        let fault = match uploads {
            [] => unsupported("No file came with this."),
            _ => FieldError::new("ATTACHMENT_NOT_FOUND", "No file came with this id."),
        };
        return Err(fault.into());
    };
    form::object(value, |form| {
        Some(Named::Uploaded(FileForm {
            number,
            filename: form.optional("filename", |v| form::text(v, 1, FILENAME_CHARS_MAX)),
            description: form.optional("description", |v| form::text(v, 0, FILENAME_CHARS_MAX)),
        }))
    })
}

fn linked(value: &Value) -> Parsed<NewAttachment> {
    form::object(value, |form| {
        let pixels = |v: &Value| form::integer(v, 1, 1 << 20).map(|n| n as u32);
        // Each is judged, whatever is wrong with the others.
        let (filename, url) =
            (form.required("filename", |v| form::text(v, 1, FILENAME_CHARS_MAX)), form.required("url", url));
        Some(NewAttachment {
            id: None,
            filename: filename?,
            size: form.optional("size", |v| form::integer(v, 0, 1 << 50)).unwrap_or(0) as u64,
            content_type: form.optional("content_type", |v| form::text(v, 1, 255)),
            description: form.optional("description", |v| form::text(v, 0, FILENAME_CHARS_MAX)),
            height: form.optional("height", pixels),
            width: form.optional("width", pixels),
            url: url?,
        })
    })
}

/// A URL of the web, as clients open it.
pub(super) fn url(value: &Value) -> Parsed<String> {
    let url = form::text(value, 1, URL_CHARS_MAX)?;
    if url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(FieldError::new("URL_TYPE_INVALID_URL", "Not a well formed URL.").into());
    }
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    if ["https", "http"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Ok(url);
    }
    Err(FieldError::new("URL_TYPE_INVALID_SCHEME", "Scheme must be one of ('http', 'https').").into())
}

/// Attachments to keep, and descriptions of new ones.
fn kept(value: &Value, uploads: &[usize]) -> Parsed<Named> {
    // Ids are far above the numbers of files.
    if number(value).is_some_and(|number| uploads.contains(&number)) {
        return uploaded(value, uploads);
    }
    let is_new = value.get("url").is_some() || value.get("filename").is_some_and(|_| value.get("size").is_none());
    if is_new && number(value).is_none_or(|number| number < FILES_MAX) {
        return Err(unsupported("No file came with this.").into());
    }
    form::object(value, |form| form.required("id", form::id)).map(Named::Kept)
}

/// A message of components has nothing else in it.
fn refuse_with_v2(form: &mut Form<'_>, message: &NewMessage) {
    let used = [
        ("content", !message.content.is_empty()),
        ("embeds", !message.embeds.is_empty()),
        ("sticker_ids", !message.sticker_ids.is_empty()),
    ];
    for (field, _) in used.into_iter().filter(|(_, is_used)| *is_used) {
        let message = format!("The '{field}' field cannot be used when using MessageFlags.IS_COMPONENTS_V2");
        form.fault(field, FieldError::new("MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2", message));
    }
}

/// Better a clear no than a message without what it was about.
pub(super) fn refuse_poll(form: &mut Form<'_>, message: &'static str) {
    form.unsupported("poll", message);
}

fn poll(value: &Value) -> Parsed<NewPoll> {
    form::object(value, |form| {
        let question = form.required("question", |v| {
            form::object(v, |form| {
                form.unsupported("emoji", "A question has no emoji.");
                form.required("text", |v| form::name(v, 1, POLL_QUESTION_CHARS_MAX))
            })
        });
        let answers = form.required("answers", |v| form::list(v, 1, POLL_ANSWERS_MAX, poll_answer));
        let hours = form.optional("duration", |v| form::integer(v, 1, POLL_HOURS_MAX)).unwrap_or(POLL_HOURS_DEFAULT);
        form.optional("layout_type", |v| form::integer(v, 1, 1));
        let allow_multiselect = form.optional("allow_multiselect", form::boolean).unwrap_or(false);
        Some(NewPoll { question: question?, answers: answers?, duration_h: hours as u32, allow_multiselect })
    })
}

/// An answer without a number. It has a text or an emoji.
fn poll_answer(value: &Value) -> Parsed<PollAnswer> {
    form::object(value, |form| {
        form.required("poll_media", |v| {
            form::object(v, |form| {
                let text = form.optional("text", |v| form::name(v, 1, POLL_ANSWER_CHARS_MAX));
                let emoji = form.optional("emoji", poll_emoji);
                if text.is_none() && emoji.is_none() && form.has_no_faults() {
                    form.fault("text", FieldError::required());
                }
                Some(PollAnswer { id: 0, text, emoji })
            })
        })
    })
}

/// A custom emoji by its id, or a Unicode emoji by its name.
fn poll_emoji(value: &Value) -> Parsed<ReactionEmoji> {
    form::object(value, |form| {
        let id: Option<EmojiId> = form.optional("id", form::id);
        let name = form.optional("name", |v| form::text(v, 0, ReactionEmoji::NAME_BYTES_MAX));
        form.optional("animated", form::boolean);
        let name = name.unwrap_or_default();
        if id.is_none() && !is_unicode_emoji(&name) {
            form.fault("name", FieldError::new("INVALID_EMOJI", "Not a Unicode emoji, and no id of a custom one."));
        }
        Some(ReactionEmoji { id, name })
    })
}

/// Without white space at its ends, as upstream, and without U+0000, at which some clients end a text; the length is
/// that of what is left.
fn content(value: &Value) -> Parsed<String> {
    match value.as_str() {
        Some(content) => form::text(&Value::from(content.replace('\0', "").trim()), 0, CONTENT_CHARS_MAX),
        None => form::text(value, 0, CONTENT_CHARS_MAX),
    }
}

fn flags(value: &Value) -> Parsed<u32> {
    // Others may be set by the server only, and are ignored, as upstream does.
    Ok((form::integer(value, 0, i64::from(u32::MAX))? & FLAGS) as u32)
}

pub(super) fn nonce(value: &Value) -> Parsed<Nonce> {
    match value {
        Value::Number(number) if number.is_i64() => Ok(Nonce::Number(number.as_i64().unwrap_or_default())),
        Value::String(text) if text.chars().count() <= NONCE_CHARS_MAX => Ok(Nonce::Text(text.clone())),
        Value::String(_) => {
            let message = format!("Must be {NONCE_CHARS_MAX} or fewer characters long.");
            Err(FieldError::new("NONCE_TYPE_TOO_LONG", message).into())
        }
        _ => Err(FieldError::new("NONCE_TYPE_INVALID_TYPE", "This field must be a string or integer.").into()),
    }
}

fn allowed_mentions(value: &Value) -> Parsed<AllowedMentions> {
    form::object(value, |form| {
        let mut allowed = AllowedMentions::default();
        form.optional("parse", |v| {
            form::present(v, 3, |kind| {
                match kind.as_str() {
                    Some("users") => allowed.all_users = true,
                    Some("roles") => allowed.all_roles = true,
                    Some("everyone") => allowed.everyone = true,
                    _ => {
                        let message = "Value must be one of ('roles', 'users', 'everyone').";
                        return Err(FieldError::new("BASE_TYPE_CHOICES", message).into());
                    }
                }
                Ok(())
            })
        });
        allowed.users = form.optional("users", |v| form::present(v, ALLOWED_IDS_MAX, form::id)).unwrap_or_default();
        allowed.roles = form.optional("roles", |v| form::present(v, ALLOWED_IDS_MAX, form::id)).unwrap_or_default();
        allowed.replied_user = form.optional("replied_user", form::boolean).unwrap_or(false);
        let excluded = [
            ("users", allowed.all_users && !allowed.users.is_empty()),
            ("roles", allowed.all_roles && !allowed.roles.is_empty()),
        ];
        for (kind, is_excluded) in excluded {
            if is_excluded {
                let message = format!("parse:[\"{kind}\"] and {kind}: [ids...] are mutually exclusive.");
                form.fault_here(FieldError::new("MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", message));
            }
        }
        Some(allowed)
    })
}

/// `message_reference` of a new message.
enum Reference {
    Reply(ReplyTo),
    /// Without the forwarded content.
    Forward(Box<Forward>),
}

fn has_more_than_forward(message: &NewMessage, uploads: &[usize]) -> bool {
    !message.content.is_empty()
        || !message.embeds.is_empty()
        || !message.components.is_empty()
        || !message.attachments.is_empty()
        || !message.sticker_ids.is_empty()
        || !uploads.is_empty()
        || message.poll.is_some()
}

fn reference(value: &Value, channel_id: ChannelId) -> Parsed<Reference> {
    form::object(value, |form| {
        let referenced = form.optional("channel_id", form::id);
        if form.optional("type", |v| form::integer(v, 0, 1)) == Some(1) {
            form.optional("fail_if_not_exists", form::boolean);
            let message_id = form.required("message_id", form::id)?;
            let channel_id = referenced.unwrap_or(channel_id);
            let forward = Forward { channel_id, message_id, guild_id: None, snapshot: None };
            return Some(Reference::Forward(Box::new(forward)));
        }
        if referenced.is_some_and(|id: ChannelId| id != channel_id) {
            form.fault_here(FieldError::new(
                "REPLIES_CANNOT_REFERENCE_OTHER_CHANNEL",
                "Cannot reply to a message in a different channel",
            ));
        }
        let fail_if_not_exists = form.optional("fail_if_not_exists", form::boolean).unwrap_or(true);
        Some(Reference::Reply(ReplyTo { message_id: form.required("message_id", form::id)?, fail_if_not_exists }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;
    use guildhall_model::{MessageId, RoleId, UserId};
    use proptest::prelude::*;
    use serde_json::json;

    const CHANNEL: ChannelId = ChannelId::new(10);

    fn read(body: Value) -> NewMessage {
        new_message(&body, &[], CHANNEL).unwrap().0
    }

    fn faults(body: Value) -> Value {
        match new_message(&body, &[], CHANNEL).unwrap_err() {
            ApiError::Form(faults) => serde_json::to_value(faults).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn content_has_no_white_space_at_its_ends() {
        assert_eq!(read(json!({"content": " \n a  b\u{3000}"})).content, "a  b");
        assert_eq!(read(json!({"content": format!("x{}", " ".repeat(3000))})).content, "x");
        assert_eq!(read(json!({"content": "a\0b \0"})).content, "ab");
        assert_eq!(read(json!({"content": "\u{200b} "})).content, "\u{200b}", "bots use it for empty messages");
        assert_eq!(message_patch(&json!({"content": " y "}), &[]).unwrap().0.content.as_deref(), Some("y"));
    }

    fn status_and_message(error: ApiError) -> (u16, String) {
        let message = error.to_string();
        (error.into_response().status().as_u16(), message)
    }

    #[test]
    fn a_full_form() {
        let message = read(json!({
            "content": "hi", "nonce": 5, "enforce_nonce": true, "tts": true, "flags": 4 | 64 | 4096 | 1,
            "embeds": [{"title": "t"}], "components": [{"type": 1, "components": [{"type": 2, "style": 1, "label": "b", "custom_id": "b"}]}],
            "sticker_ids": [],
            "attachments": [], "poll": null, "unknown": 1,
            "allowed_mentions": {"parse": ["everyone", "roles"], "users": ["7", 8], "replied_user": true},
            "message_reference": {"message_id": "50", "channel_id": "10", "guild_id": "1", "fail_if_not_exists": false},
        }));
        assert_eq!(message.content, "hi");
        assert_eq!(message.nonce, Some(Nonce::Number(5)));
        assert!(message.enforce_nonce && message.tts);
        assert_eq!(message.flags, 4 | 4096);
        assert_eq!(message.embeds, [json!({"type": "rich", "title": "t"})]);
        assert_eq!(message.components.len(), 1);
        assert_eq!(
            message.allowed_mentions,
            Some(AllowedMentions {
                all_users: false,
                all_roles: true,
                everyone: true,
                users: vec![UserId::new(7), UserId::new(8)],
                roles: vec![],
                replied_user: true,
            })
        );
        let reply = message.reply_to.unwrap();
        assert_eq!((reply.message_id, reply.fail_if_not_exists), (MessageId::new(50), false));
    }

    #[test]
    fn nulls_count_as_missing() {
        let message = read(json!({
            "content": "hi", "nonce": null, "embeds": null, "components": null, "flags": null, "tts": null,
            "allowed_mentions": null, "message_reference": null, "attachments": null, "sticker_ids": null,
        }));
        assert!(message.nonce.is_none() && message.allowed_mentions.is_none() && message.reply_to.is_none());
        assert_eq!(message.flags, 0);
    }

    #[test]
    fn content_is_at_most_2000_characters() {
        assert_eq!(read(json!({"content": "🔥".repeat(2000)})).content.chars().count(), 2000);
        assert_eq!(
            faults(json!({"content": "x".repeat(2001)})),
            json!({"content": {"_errors": [
                {"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 2000 or fewer in length."}]}})
        );
    }

    #[test]
    fn empty_messages_are_refused() {
        for body in [json!({}), json!({"content": ""}), json!({"content": " \n"}), json!({"content": null})] {
            let error = new_message(&body, &[], CHANNEL).unwrap_err();
            assert_eq!(status_and_message(error), (400, "Cannot send an empty message".to_owned()));
        }
        assert!(new_message(&json!({"embeds": [{"title": "t"}]}), &[], CHANNEL).is_ok());
        assert!(new_message(&json!({"embed": {"title": "t"}}), &[], CHANNEL).is_ok());
    }

    #[test]
    fn parse_and_explicit_lists_exclude_each_other() {
        assert_eq!(
            faults(json!({"content": "x", "allowed_mentions": {"parse": ["users"], "users": ["7"]}})),
            json!({"allowed_mentions": {"_errors": [{"code": "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE",
                "message": "parse:[\"users\"] and users: [ids...] are mutually exclusive."}]}})
        );
        let allowed =
            read(json!({"content": "x", "allowed_mentions": {"parse": ["users"], "users": [], "roles": ["3"]}}));
        assert_eq!(allowed.allowed_mentions.unwrap().roles, [RoleId::new(3)]);
        assert_eq!(
            faults(json!({"content": "x", "allowed_mentions": {"parse": ["all"], "users": vec!["1"; 101]}})),
            json!({"allowed_mentions": {
                "parse": {"0": {"_errors": [{"code": "BASE_TYPE_CHOICES",
                    "message": "Value must be one of ('roles', 'users', 'everyone')."}]}},
                "users": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 100 or fewer in length."}]},
            }})
        );
    }

    #[test]
    fn nonces() {
        assert_eq!(read(json!({"content": "x", "nonce": "n".repeat(25)})).nonce, Some(Nonce::Text("n".repeat(25))));
        let code =
            |nonce: Value| faults(json!({"content": "x", "nonce": nonce}))["nonce"]["_errors"][0]["code"].clone();
        assert_eq!(code(json!("n".repeat(26))), "NONCE_TYPE_TOO_LONG");
        assert_eq!(code(json!(1.5)), "NONCE_TYPE_INVALID_TYPE");
        assert_eq!(code(json!([])), "NONCE_TYPE_INVALID_TYPE");
    }

    #[test]
    fn references_stay_in_the_channel() {
        let code = |reference: Value| {
            let faults = faults(json!({"content": "x", "message_reference": reference}));
            let faults = &faults["message_reference"];
            [&faults["_errors"][0]["code"], &faults["message_id"]["_errors"][0]["code"]].map(Value::clone)
        };
        assert_eq!(
            code(json!({"message_id": "1", "channel_id": "11"})),
            [json!("REPLIES_CANNOT_REFERENCE_OTHER_CHANNEL"), json!(null)]
        );
        assert_eq!(code(json!({"message_id": "1", "type": 1})), [json!("UNSUPPORTED"), json!(null)], "with content");
        let forward = read(json!({"message_reference": {"message_id": "1", "channel_id": "11", "type": 1}}));
        assert!(forward.forward.is_some() && forward.reply_to.is_none());
        assert_eq!(code(json!({})), [json!(null), json!("BASE_TYPE_REQUIRED")]);
        assert_eq!(code(json!({"message_id": "x"})), [json!(null), json!("NUMBER_TYPE_COERCE")]);
    }

    #[test]
    fn attachments_need_a_file_or_a_permitted_url() {
        let upload = faults(json!({"content": "x", "attachments": [{"id": 0}]}));
        assert_eq!(upload["attachments"]["0"]["_errors"][0]["code"], "UNSUPPORTED");
        let linked = read(json!({"attachments": [{"url": "https://files.example.net/a.png", "filename": "a.png"}]}));
        assert_eq!(linked.attachments[0].filename, "a.png");
        assert!(need_bot(&linked, false).is_err() && need_bot(&linked, true).is_ok());
        let odd = faults(json!({"attachments": [{"url": "file:///a", "filename": ""}]}));
        assert_eq!(odd["attachments"]["0"]["url"]["_errors"][0]["code"], "URL_TYPE_INVALID_SCHEME");
        assert_eq!(faults(json!({"poll": {}}))["poll"]["question"]["_errors"][0]["code"], "BASE_TYPE_REQUIRED");
    }

    #[test]
    fn files_are_named_by_number() {
        let body = json!({"attachments": [{"id": "1", "filename": "b.txt", "description": "two"}, {"id": 0}]});
        let (message, files) = new_message(&body, &[0, 1], CHANNEL).unwrap();
        assert!(message.attachments.is_empty());
        let named = |number, filename: Option<&str>, description: Option<&str>| {
            let [filename, description] = [filename, description].map(|text| text.map(str::to_owned));
            FileForm { number, filename, description }
        };
        assert_eq!(files, [named(1, Some("b.txt"), Some("two")), named(0, None, None)]);
        // A file is something; one that did not come is a mistake; ten of both kinds are the most.
        assert!(new_message(&json!({}), &[0], CHANNEL).is_ok());
        assert!(new_message(&json!({"attachments": [{"id": 2}]}), &[0], CHANNEL).is_err());
        let linked = json!({"attachments": [{"url": "https://a", "filename": "a"}]});
        assert!(new_message(&linked, &(0..9).collect::<Vec<_>>(), CHANNEL).is_ok());
        assert!(new_message(&linked, &(0..10).collect::<Vec<_>>(), CHANNEL).is_err());
    }

    #[test]
    fn an_edit_distinguishes_old_files_from_new() {
        let old = json!({"id": "1100000000000000001", "filename": "a.txt", "size": 5, "url": "http://a"});
        let body = json!({"attachments": [old, {"id": 0, "filename": "b.txt"}]});
        let (patch, files) = message_patch(&body, &[0]).unwrap();
        assert_eq!(patch.attachments, Some(vec![Id::new(1_100_000_000_000_000_001)]));
        assert_eq!((files.len(), files[0].filename.as_deref()), (1, Some("b.txt")));
        // Without the field, existing attachments are unchanged.
        assert_eq!(message_patch(&json!({}), &[0]).unwrap().0.attachments, None);
        assert!(message_patch(&body, &[]).is_err());
    }

    #[test]
    fn a_message_of_components_has_nothing_else() {
        let text = json!([{"type": 10, "content": "x"}]);
        assert_eq!(read(json!({"components": text, "flags": 32768})).components.len(), 1);
        let both = faults(json!({"content": "x", "components": text, "flags": 32768}));
        assert_eq!(both["content"]["_errors"][0]["code"], "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2");
        assert_eq!(
            faults(json!({"content": "x", "components": [1]}))["components"]["0"]["_errors"][0]["code"],
            "MODEL_TYPE_CONVERT"
        );
    }

    #[test]
    fn patches_tell_null_from_missing() {
        let patch = message_patch(&json!({}), &[]).unwrap().0;
        assert!(patch.content.is_none() && patch.embeds.is_none() && patch.components.is_none());
        let patch = message_patch(&json!({"content": null, "embeds": null, "components": null, "flags": 4 | 64}), &[]);
        let patch = patch.unwrap().0;
        assert_eq!((patch.content.as_deref(), patch.embeds.as_deref()), (Some(""), Some(&[][..])));
        assert_eq!((patch.components.as_deref(), patch.flags), (Some(&[][..]), Some(4)));
        assert!(message_patch(&json!({"content": "x".repeat(2001)}), &[]).is_err());
    }

    /// JSON of any shape, with keys that mean something.
    fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,12}".prop_map(Value::from),
            "[0-9]{1,21}".prop_map(Value::from),
        ];
        let key = prop::sample::select(vec![
            "content",
            "nonce",
            "tts",
            "embeds",
            "components",
            "flags",
            "allowed_mentions",
            "parse",
            "users",
            "roles",
            "message_reference",
            "message_id",
            "channel_id",
            "type",
            "title",
            "fields",
            "name",
            "value",
            "url",
            "sticker_ids",
            "attachments",
            "poll",
            "author",
            "footer",
            "text",
            "image",
            "timestamp",
            "color",
        ]);
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..8)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn accepted_messages_are_within_limits(body in anything()) {
            let _ = message_patch(&body, &[0]);
            if let Ok((message, _)) = new_message(&body, &[], CHANNEL) {
                prop_assert!(message.content.chars().count() <= CONTENT_CHARS_MAX);
                prop_assert!(message.embeds.len() <= 10 && message.components.len() <= 40);
                prop_assert_eq!(i64::from(message.flags) & !FLAGS, 0);
                prop_assert!(!matches!(&message.nonce, Some(Nonce::Text(text)) if text.chars().count() > NONCE_CHARS_MAX));
            }
        }
    }
}
