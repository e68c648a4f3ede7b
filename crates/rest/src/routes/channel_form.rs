//! Channel forms: channels, overwrites and their changes, checked. Spec  docs/protocol/reference.md §6.4, §6.5, §10.3.

use crate::{
    error::ApiError,
    form::{self, FieldError, Form, Parsed},
};
use guildhall_guild::{ChannelPatch, NewChannel};
use guildhall_model::{
    ChannelType, DefaultReaction, EmojiId, ForumFields, ForumTag, Id, Overwrite, OverwriteKind, Permissions,
    ReactionEmoji, is_unicode_emoji,
};
use serde_json::Value;

pub(crate) const NAME_CHARS_MAX: usize = 100;
/// Forums and media channels may have this much; others a quarter of it.
const TOPIC_CHARS_MAX: usize = 4096;
const TOPIC_CHARS_MAX_TEXT: usize = 1024;
const POSITION_MAX: i64 = i32::MAX as i64;
const SLOW_MODE_S_MAX: i64 = 21_600;
const USER_LIMIT_MAX: i64 = 99;
const STAGE_USER_LIMIT_MAX: i64 = 10_000;
const BITRATE_MIN: i64 = 8_000;
const BITRATE_MAX: i64 = 384_000;
/// Tags of one post.
const TAGS_MAX: usize = 5;
/// Every role, and as many members again.
const OVERWRITES_MAX: usize = 500;

/// A form for a new channel: the fields of the create command, and a patch for the fields that it
/// lacks, applied right after.
#[derive(Debug)]
pub(crate) struct CreateForm {
    pub new: NewChannel,
    pub then: Option<ChannelPatch>,
}

/// Reads a form for a new channel of a guild.
pub(crate) fn create(form: &mut Form<'_>) -> Option<CreateForm> {
    let name = form.required("name", |v| form::name(v, 1, NAME_CHARS_MAX));
    let kind = form.optional("type", kind).unwrap_or(ChannelType::Text);
    let topic = form.optional("topic", |v| topic(v, Some(kind))).filter(|topic| !topic.is_empty());
    let parent_id = form.optional("parent_id", form::id);
    let position = form.optional("position", position);
    let overwrites = form.optional("permission_overwrites", overwrites).unwrap_or_default();
    let user_limit = form.optional("user_limit", |v| user_limit(v, Some(kind))).unwrap_or(0);
    let nsfw = form.optional("nsfw", form::boolean).filter(|nsfw| *nsfw);
    let rate_limit_per_user = form.optional("rate_limit_per_user", slow_mode).filter(|s| *s > 0);
    let rest = ChannelPatch { nsfw, rate_limit_per_user, ..later(form) };
    let then = (rest != ChannelPatch::default()).then_some(rest);
    Some(CreateForm { new: NewChannel { name: name?, kind, topic, parent_id, position, overwrites, user_limit }, then })
}

/// Reads changes to a channel.
pub(crate) fn patch(form: &mut Form<'_>) -> Option<ChannelPatch> {
    form.unsupported("icon", "This server keeps no pictures of groups.");
    Some(ChannelPatch {
        name: form.optional("name", |v| form::name(v, 1, NAME_CHARS_MAX)),
        topic: form.nullable("topic", |v| topic(v, None)).map(|topic| topic.filter(|topic| !topic.is_empty())),
        position: form.optional("position", position),
        parent_id: form.nullable("parent_id", form::id),
        nsfw: form.optional("nsfw", form::boolean),
        rate_limit_per_user: form.nullable("rate_limit_per_user", slow_mode).map(Option::unwrap_or_default),
        user_limit: form.nullable("user_limit", |v| user_limit(v, None)).map(Option::unwrap_or_default),
        // Null leaves them: serializers write it for a field that was never set, and a private channel would open.
        overwrites: form.optional("permission_overwrites", overwrites),
        archived: form.optional("archived", form::boolean),
        locked: form.optional("locked", form::boolean),
        auto_archive_duration: form.optional("auto_archive_duration", auto_archive),
        invitable: form.optional("invitable", form::boolean),
        applied_tags: form.optional("applied_tags", |v| form::list(v, 0, TAGS_MAX, form::id)),
        owner_id: form.optional("owner", form::id),
        ..later(form)
    })
}

/// Reads the fields that `create` and `patch` treat alike.
fn later(form: &mut Form<'_>) -> ChannelPatch {
    ChannelPatch {
        bitrate: form.optional("bitrate", |v| Ok(form::integer(v, BITRATE_MIN, BITRATE_MAX)? as u32)),
        default_thread_rate_limit_per_user: form.nullable("default_thread_rate_limit_per_user", slow_mode),
        default_auto_archive_duration: form.nullable("default_auto_archive_duration", auto_archive),
        available_tags: form.optional("available_tags", |v| form::list(v, 0, ForumFields::TAGS_MAX, tag)),
        default_reaction_emoji: form
            .nullable("default_reaction_emoji", default_reaction)
            .map(|emoji| emoji.filter(|emoji| emoji.emoji_id.is_some() || emoji.emoji_name.is_some())),
        default_sort_order: form.nullable("default_sort_order", |v| Ok(form::integer(v, 0, 1)? as u8)),
        default_forum_layout: form.optional("default_forum_layout", |v| Ok(form::integer(v, 0, 2)? as u8)),
        forum_flags: form.optional("flags", flags),
        ..ChannelPatch::default()
    }
}

/// Reads `emoji_id` and `emoji_name`, of which one at most may be set.
fn emoji(form: &mut Form<'_>) -> (Option<EmojiId>, Option<String>) {
    let id: Option<EmojiId> = form.optional("emoji_id", form::id).filter(|id: &EmojiId| id.get() != 0);
    let name = form.optional("emoji_name", |v| form::text(v, 0, ReactionEmoji::NAME_BYTES_MAX));
    let name = name.filter(|name| !name.is_empty());
    if id.is_some() && name.is_some() {
        form.fault("emoji_name", FieldError::new("INVALID_VALUE", "Set one of emoji_id and emoji_name."));
    }
    (id, name)
}

/// Refuses a text that is no emoji, of a tag or of the reaction button.
pub(crate) fn need_emoji(patch: &ChannelPatch) -> Result<(), ApiError> {
    let tags = patch.available_tags.iter().flatten().filter_map(|tag| tag.emoji_name.as_deref());
    let button = patch.default_reaction_emoji.iter().flatten().filter_map(|emoji| emoji.emoji_name.as_deref());
    if tags.chain(button).all(is_unicode_emoji) { Ok(()) } else { Err(ApiError::UNKNOWN_EMOJI) }
}

fn tag(value: &Value) -> Parsed<ForumTag> {
    form::object(value, |form| {
        let name = form.required("name", |v| form::name(v, 0, ForumFields::TAG_NAME_CHARS_MAX));
        let (emoji_id, emoji_name) = emoji(form);
        Some(ForumTag {
            id: form.optional("id", form::id).unwrap_or(Id::new(0)),
            moderated: form.optional("moderated", form::boolean).unwrap_or(false),
            emoji_id,
            emoji_name,
            name: name?,
        })
    })
}

fn default_reaction(value: &Value) -> Parsed<DefaultReaction> {
    form::object(value, |form| {
        let (emoji_id, emoji_name) = emoji(form);
        Some(DefaultReaction { emoji_id, emoji_name })
    })
}

fn flags(value: &Value) -> Parsed<u32> {
    let flags = form::integer(value, 0, i64::from(u32::MAX))? as u32;
    if flags & !ForumFields::REQUIRE_TAG != 0 {
        return Err(FieldError::new("INVALID_VALUE", "Of a channel's flags, only REQUIRE_TAG (16) can be set.").into());
    }
    Ok(flags)
}

/// Reads `type`, `allow` and `deny` of an overwrite for `id`.
pub(crate) fn overwrite(form: &mut Form<'_>, id: u64) -> Option<Overwrite> {
    let target = form.required("type", |v| overwrite_kind(v, id));
    // Missing and null mean none.
    let allow = form.optional("allow", form::permissions).unwrap_or(Permissions::NONE);
    let deny = form.optional("deny", form::permissions).unwrap_or(Permissions::NONE);
    Some(Overwrite { target: target?, allow, deny })
}

fn overwrites(value: &Value) -> Parsed<Vec<Overwrite>> {
    form::list(value, 0, OVERWRITES_MAX, |value| {
        form::object(value, |form| {
            let id = form.required("id", form::id::<()>);
            let overwrite = overwrite(form, id.map_or(0, |id| id.get()));
            id.and(overwrite)
        })
    })
}

fn overwrite_kind(value: &Value, id: u64) -> Parsed<OverwriteKind> {
    // Old clients send a word instead of a number.
    let kind = match value.as_str() {
        Some("role") => 0,
        Some("member") => 1,
        _ => form::integer(value, 0, 1)?,
    };
    Ok(if kind == 0 {
        OverwriteKind::Role(guildhall_model::Id::new(id))
    } else {
        OverwriteKind::Member(guildhall_model::Id::new(id))
    })
}

/// Threads and direct messages are not made this way.
fn kind(value: &Value) -> Parsed<ChannelType> {
    use ChannelType as T;
    let n = form::integer(value, 0, i64::from(u8::MAX))?;
    match u8::try_from(n).ok().and_then(T::from_wire) {
        Some(kind @ (T::Text | T::Voice | T::Category | T::Announcement | T::Stage | T::Forum | T::Media)) => Ok(kind),
        _ => Err(FieldError::new("BASE_TYPE_CHOICES", "Value must be one of (0, 2, 4, 5, 13, 15, 16).").into()),
    }
}

/// Empty: none. Of a channel that exists, the guild checks the length by its type.
fn topic(value: &Value, kind: Option<ChannelType>) -> Parsed<String> {
    let holds_posts = matches!(kind, None | Some(ChannelType::Forum | ChannelType::Media));
    form::block(value, if holds_posts { TOPIC_CHARS_MAX } else { TOPIC_CHARS_MAX_TEXT })
}

pub(crate) fn position(value: &Value) -> Parsed<i32> {
    Ok(form::integer(value, 0, POSITION_MAX)? as i32)
}

pub(crate) fn slow_mode(value: &Value) -> Parsed<u16> {
    Ok(form::integer(value, 0, SLOW_MODE_S_MAX)? as u16)
}

/// Minutes after which clients hide a thread.
pub(crate) fn auto_archive(value: &Value) -> Parsed<u16> {
    match form::integer(value, 0, i64::from(u16::MAX))? {
        minutes @ (60 | 1_440 | 4_320 | 10_080) => Ok(minutes as u16),
        _ => Err(FieldError::new("BASE_TYPE_CHOICES", "Value must be one of (60, 1440, 4320, 10080).").into()),
    }
}

fn user_limit(value: &Value, kind: Option<ChannelType>) -> Parsed<u16> {
    let max = if matches!(kind, None | Some(ChannelType::Stage)) { STAGE_USER_LIMIT_MAX } else { USER_LIMIT_MAX };
    Ok(form::integer(value, 0, max)? as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::{ChannelId, RoleId, UserId};
    use serde_json::json;

    #[test]
    fn a_new_channel() {
        let body = json!({
            "name": "general", "type": 0, "topic": "t", "parent_id": "5", "position": 3, "nsfw": false,
            "rate_limit_per_user": 5, "user_limit": 0, "bitrate": 64000,
            "permission_overwrites": [
                {"id": "1", "type": 0, "deny": "1024"}, {"id": 7, "type": "member", "allow": 1024, "deny": null},
            ],
        });
        let CreateForm { new, then } = form::object(&body, create).unwrap();
        assert_eq!((new.name.as_str(), new.kind, new.position), ("general", ChannelType::Text, Some(3)));
        assert_eq!((new.topic.as_deref(), new.parent_id), (Some("t"), Some(ChannelId::new(5))));
        assert_eq!(
            new.overwrites,
            [
                Overwrite {
                    target: OverwriteKind::Role(RoleId::new(1)),
                    allow: Permissions::NONE,
                    deny: Permissions::VIEW_CHANNEL
                },
                Overwrite {
                    target: OverwriteKind::Member(UserId::new(7)),
                    allow: Permissions::VIEW_CHANNEL,
                    deny: Permissions::NONE
                },
            ]
        );
        let then = then.unwrap();
        assert_eq!((then.rate_limit_per_user, then.bitrate), (Some(5), Some(64_000)));
        assert!(form::object(&json!({"name": "x", "nsfw": false}), create).unwrap().then.is_none());
    }

    #[test]
    fn faults() {
        let body = json!({"name": "", "type": 11, "topic": "x".repeat(1025), "rate_limit_per_user": 21601,
                          "permission_overwrites": [{"id": "x", "type": 2}, {}]});
        let faults = serde_json::to_value(form::object(&body, create).unwrap_err()).unwrap();
        let code = |path: &str| faults.pointer(path).map(|v| v["_errors"][0]["code"].clone()).unwrap_or_default();
        assert_eq!(code("/name"), "BASE_TYPE_BAD_LENGTH");
        assert_eq!(code("/type"), "BASE_TYPE_CHOICES");
        assert_eq!(code("/rate_limit_per_user"), "NUMBER_TYPE_MAX");
        assert_eq!(code("/permission_overwrites/0/id"), "NUMBER_TYPE_COERCE");
        assert_eq!(code("/permission_overwrites/0/type"), "NUMBER_TYPE_MAX");
        assert_eq!(code("/permission_overwrites/1/id"), "BASE_TYPE_REQUIRED");
        let topic = json!({"name": "x", "topic": "x".repeat(1025)});
        assert!(form::object(&topic, create).is_err());
        let forum = json!({"name": "x", "type": 15, "topic": "x".repeat(1025)});
        assert!(form::object(&forum, create).is_ok());
    }

    #[test]
    fn a_patch_distinguishes_null_from_missing() {
        let read = form::object(&json!({"topic": null, "parent_id": null, "user_limit": null}), patch).unwrap();
        assert_eq!((read.topic, read.parent_id, read.user_limit), (Some(None), Some(None), Some(0)));
        let read = form::object(&json!({}), patch).unwrap();
        assert!(read.topic.is_none() && read.parent_id.is_none() && read.overwrites.is_none());
    }
}
