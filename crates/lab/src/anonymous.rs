//! Recordings without what identifies anybody: a dictionary is served to everybody.
//!
//! Owns        which parts of a recorded dispatch a dictionary may contain, and what replaces the others.
//! Invariants  A1 of a recorded text, and of a number with more than `DIGITS_KEPT` digits, nothing remains but its
//!             length and form; the exceptions are in `WORDS`. A2 field names remain if they are in `FIELDS`, names of
//!             events if the gateway itself sends them. (tests `a1_*`, `a2_*`)
//! Not here    reading recordings: `samples`.

use crate::{scrub::DIGITS_KEPT, surrogate::HASH_DIGITS_MIN};
use guildhall_stdx::Rng;
use guildhall_traffic::Chat;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::{fmt, io::Write as _};

/// Texts that remain: values that the protocol defines.
const WORDS: [&str; 32] = [
    "",
    "0",
    "announcement",
    "article",
    "auto_moderation_message",
    "en-GB",
    "en-US",
    "application/json",
    "audio/ogg",
    "audio/mpeg",
    "desktop",
    "dnd",
    "gifv",
    "idle",
    "image",
    "image/gif",
    "image/jpeg",
    "image/png",
    "image/webp",
    "invisible",
    "link",
    "mobile",
    "normal",
    "obfuscated",
    "offline",
    "online",
    "partial",
    "poll_result",
    "rich",
    "text/plain",
    "video",
    "web",
];

/// Fields that the protocol defines. Sorted.
const FIELDS: [&str; 402] = [
    "_trace",
    "accent_color",
    "account_id",
    "action_type",
    "activities",
    "activity",
    "activity_instances",
    "activity_type",
    "added_members",
    "affinity",
    "afk_channel_id",
    "afk_timeout",
    "allow",
    "analytics_token",
    "animated",
    "api_code_version",
    "app_permissions",
    "application",
    "application_id",
    "applied_tags",
    "approximate_member_count",
    "approximate_presence_count",
    "apps",
    "archive_timestamp",
    "archived",
    "assets",
    "attachments",
    "auth",
    "auth_session_id_hash",
    "author",
    "auto_archive_duration",
    "available",
    "available_tags",
    "avatar",
    "avatar_decoration_data",
    "badge",
    "banner",
    "big_text",
    "bio",
    "bitrate",
    "bot",
    "bot_public",
    "burst",
    "burst_colors",
    "buttons",
    "call",
    "category",
    "changes",
    "channel",
    "channel_id",
    "channel_ids",
    "channel_type",
    "channel_unread_updates",
    "channels",
    "chunk_count",
    "chunk_index",
    "clan",
    "client",
    "client_info",
    "client_status",
    "code",
    "collectibles",
    "color",
    "colors",
    "communication_disabled_until",
    "components",
    "components_version",
    "connected_accounts",
    "consents",
    "content",
    "content_type",
    "count",
    "count_details",
    "country_code",
    "create_timestamp",
    "created_at",
    "creator_id",
    "custom",
    "custom_id",
    "custom_message",
    "d",
    "data_mode",
    "deaf",
    "default_auto_archive_duration",
    "default_forum_layout",
    "default_message_notifications",
    "default_reaction_emoji",
    "default_sort_order",
    "default_thread_rate_limit_per_user",
    "delete_message_secs",
    "deny",
    "description",
    "desktop",
    "details",
    "details_url",
    "disabled",
    "disclose",
    "discoverable",
    "discoverable_disabled",
    "discovery_splash",
    "discriminator",
    "display_name",
    "display_name_styles",
    "divider",
    "duration_secs",
    "edited_timestamp",
    "email",
    "embed",
    "embeds",
    "emoji",
    "emoji_id",
    "emoji_name",
    "emoji_type",
    "emojis",
    "end",
    "ended_timestamp",
    "endpoint",
    "entity_id",
    "entity_metadata",
    "entity_type",
    "ephemeral",
    "experiments",
    "expires_at",
    "explicit_content_filter",
    "explicit_content_scan_version",
    "features",
    "fields",
    "filename",
    "flags",
    "flags_new",
    "footer",
    "format_type",
    "friend_suggestion_count",
    "friends",
    "game",
    "game_invites",
    "game_relationships",
    "geo_ordered_rtc_regions",
    "global_name",
    "group",
    "groups",
    "guild",
    "guild_experiments",
    "guild_id",
    "guild_ids",
    "guild_join_requests",
    "guild_scheduled_event_id",
    "guild_scheduled_events",
    "guilds",
    "height",
    "hidden_activities",
    "hoist",
    "hub_type",
    "icon",
    "icon_hash",
    "icon_url",
    "id",
    "identity_enabled",
    "identity_guild_id",
    "ids",
    "image",
    "incidents_data",
    "index",
    "inline",
    "instance",
    "integrity_check",
    "interaction",
    "interaction_metadata",
    "invitable",
    "inviter",
    "item",
    "items",
    "join",
    "join_timestamp",
    "joined_at",
    "key",
    "kind",
    "label",
    "large",
    "large_image",
    "large_text",
    "last_message_id",
    "last_pin_timestamp",
    "layout",
    "lazy",
    "lazy_private_channels",
    "linked_users",
    "list_id",
    "locale",
    "locked",
    "managed",
    "match",
    "max_age",
    "max_members",
    "max_presences",
    "max_stage_video_channel_users",
    "max_uses",
    "max_values",
    "max_video_channel_users",
    "me",
    "me_burst",
    "media",
    "member",
    "member_count",
    "members",
    "mention_everyone",
    "mention_roles",
    "mentionable",
    "mentions",
    "merged",
    "merged_members",
    "merged_presences",
    "message_author_id",
    "message_count",
    "message_id",
    "message_reference",
    "message_snapshots",
    "messages",
    "meta",
    "mfa_enabled",
    "mfa_level",
    "min_values",
    "mobile",
    "moderated",
    "most_recent_messages",
    "mute",
    "mutual_guilds",
    "name",
    "new_value",
    "newly_created",
    "nick",
    "nonce",
    "normal",
    "not_found",
    "notes",
    "nsfw",
    "nsfw_level",
    "old_value",
    "online_count",
    "op",
    "op_type",
    "opcode",
    "ops",
    "options",
    "os",
    "owner_id",
    "parent_id",
    "partial_emoji",
    "party",
    "pending",
    "permission_overwrites",
    "permissions",
    "pinned",
    "placeholder",
    "platform",
    "poll",
    "position",
    "position_type",
    "preferred_locale",
    "premium",
    "premium_progress_bar_enabled",
    "premium_since",
    "premium_subscription_count",
    "premium_tier",
    "premium_type",
    "presence",
    "presence_count",
    "presence_update",
    "presences",
    "primary_color",
    "primary_guild",
    "privacy_level",
    "private_channels",
    "pronouns",
    "properties",
    "provider",
    "proxy_icon_url",
    "proxy_url",
    "public_flags",
    "public_updates_channel_id",
    "purchased_flags",
    "range",
    "ranges",
    "rate_limit_per_user",
    "raw",
    "reaction",
    "reactions",
    "read_state",
    "reason",
    "recipient_ids",
    "recipients",
    "recurrence_rule",
    "referenced_message",
    "region",
    "relationships",
    "removed_member_ids",
    "removed_voice_states",
    "request_to_speak_timestamp",
    "require_colons",
    "required",
    "required_action",
    "resolved",
    "resume_gateway_url",
    "retry_after",
    "role",
    "role_id",
    "role_subscription_data",
    "roles",
    "row",
    "rows",
    "rtc_region",
    "rules_channel_id",
    "s",
    "safety_alerts_channel_id",
    "scheduled_end_time",
    "scheduled_start_time",
    "secondary_color",
    "secret",
    "self_deaf",
    "self_mute",
    "self_stream",
    "self_video",
    "session_id",
    "session_type",
    "sessions",
    "shard",
    "size",
    "sku_id",
    "small_image",
    "small_text",
    "soundboard_sounds",
    "spacing",
    "spectate",
    "splash",
    "spoiler",
    "stage_instances",
    "start",
    "state",
    "static_client_session_id",
    "status",
    "sticker_items",
    "stickers",
    "style",
    "suppress",
    "sync_id",
    "system_channel_flags",
    "system_channel_id",
    "t",
    "tags",
    "target_id",
    "temporary",
    "tertiary_color",
    "text",
    "thread",
    "thread_id",
    "thread_metadata",
    "threads",
    "thumbnail",
    "timestamp",
    "timestamps",
    "title",
    "token",
    "topic",
    "total",
    "total_message_sent",
    "tts",
    "tutorial",
    "type",
    "unavailable",
    "unicode_emoji",
    "unread",
    "updated_channels",
    "updated_members",
    "updated_voice_states",
    "url",
    "user",
    "user_count",
    "user_guild_settings",
    "user_id",
    "user_limit",
    "user_settings",
    "user_settings_proto",
    "username",
    "users",
    "uses",
    "v",
    "value",
    "vanity_url_code",
    "verification_level",
    "verified",
    "verified_bot",
    "version",
    "video",
    "vip",
    "voice_channel_id",
    "voice_states",
    "waveform",
    "web",
    "webhook_id",
    "widget_channel_id",
    "widget_enabled",
    "width",
];

/// Makes anonymous copies.
pub(crate) struct Anonymizer {
    rng: Rng,
    chat: Chat,
}

impl Anonymizer {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), chat: Chat::built_in() }
    }

    /// A copy of one JSON value, its fields in the same order.
    pub(crate) fn copy(&mut self, json: &str) -> serde_json::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(json.len());
        let mut deserializer = serde_json::Deserializer::from_str(json);
        Copier { of: self, out: &mut out, is_content: false }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(out)
    }

    fn letter(&mut self) -> char {
        char::from(b'a' + self.rng.below(26) as u8)
    }

    fn digit(&mut self) -> char {
        char::from(b'0' + self.rng.below(10) as u8)
    }

    /// As many digits, and the first is no zero.
    fn number(&mut self, digits: usize) -> String {
        let first = char::from(b'1' + self.rng.below(9) as u8);
        (0..digits).map(|n| if n == 0 { first } else { self.digit() }).collect()
    }

    fn text(&mut self, text: &str, is_content: bool) -> String {
        let is_all = |of: fn(char) -> bool| text.chars().all(of);
        if WORDS.contains(&text) {
            text.to_owned()
        } else if is_all(|c| c.is_ascii_digit()) {
            self.number(text.len())
        } else if is_time(text) {
            text.chars().map(|c| if c.is_ascii_digit() { self.digit() } else { c }).collect()
        } else if text.len() >= HASH_DIGITS_MIN && is_all(|c| c.is_ascii_hexdigit()) {
            text.chars().map(|_| char::from(b"0123456789abcdef"[self.rng.below(16) as usize])).collect()
        } else if is_content {
            let line = self.rng.next_u64() as usize % (1 << 20);
            self.chat.line(line).chars().take(text.chars().count()).collect()
        } else {
            text.chars().map(|_| self.letter()).collect()
        }
    }
}

/// Whether it has the form `2026-01-02T03:04:05.678000+00:00`: digits, and the punctuation of one.
fn is_time(text: &str) -> bool {
    const FORM: &str = "0000-00-00T00:00:00.000000+00:00";
    let has_form = |form: &str| {
        let digits_alike = |(c, f): (char, char)| if f == '0' { c.is_ascii_digit() } else { c == f };
        text.len() == form.len() && text.chars().zip(form.chars()).all(digits_alike)
    };
    has_form(FORM) || has_form("0000-00-00T00:00:00.000Z") || has_form("0000-00-00T00:00:00+00:00")
}

/// Copies one value.
struct Copier<'a> {
    of: &'a mut Anonymizer,
    out: &'a mut Vec<u8>,
    /// The value is the text of a message.
    is_content: bool,
}

impl Copier<'_> {
    fn push_text(&mut self, text: &str) {
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(&mut *self.out, text);
    }

    fn number(self, number: &str) {
        let digits = number.bytes().filter(u8::is_ascii_digit).count();
        if digits <= DIGITS_KEPT {
            self.out.extend_from_slice(number.as_bytes());
        } else {
            let whole = self.of.number(digits.min(18));
            let _ = self.out.write_all(whole.as_bytes());
        }
    }
}

impl<'de> DeserializeSeed<'de> for Copier<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Copier<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.number(&value.to_string());
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.number(&value.to_string());
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.number(&value.to_string());
        Ok(())
    }

    fn visit_str<E: Error>(mut self, value: &str) -> Result<(), E> {
        let text = self.of.text(value, self.is_content);
        self.push_text(&text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.out.push(b'[');
        let begun = self.out.len();
        loop {
            let before = self.out.len();
            if before > begun {
                self.out.push(b',');
            }
            let copier = Copier { of: &mut *self.of, out: &mut *self.out, is_content: self.is_content };
            if seq.next_element_seed(copier)?.is_none() {
                self.out.truncate(before);
                break;
            }
        }
        self.out.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.out.push(b'{');
        let begun = self.out.len();
        while let Some(name) = map.next_key::<String>()? {
            if self.out.len() > begun {
                self.out.push(b',');
            }
            match FIELDS.binary_search(&&*name) {
                Ok(_) => self.push_text(&name),
                Err(_) => {
                    let other = self.of.text(&name, false);
                    self.push_text(&other);
                }
            }
            self.out.push(b':');
            let is_content = name == "content";
            map.next_value_seed(Copier { of: &mut *self.of, out: &mut *self.out, is_content })?;
        }
        self.out.push(b'}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    fn copy(json: &str) -> String {
        String::from_utf8(Anonymizer::new(1).copy(json).unwrap()).unwrap()
    }

    #[test]
    fn a1_no_text_or_long_number_remains() {
        let values = [
            "\"correct horse battery\"",
            "\"äöüäöü \\\" ???!!!###\"",
            "\"wss://gw.example.net:443/secret\"",
            "\"1234567890123456789\"",
            "1234567890123456789",
            "-123456.75",
            "1e300",
            "\"2026-11-28T19:41:43.123456+00:00\"",
            "\"a_0123456789abcdef0123456789abcdef\"",
            "\"0123456789abcdef0123456789abcdef\"",
            "[\"in a list\", {\"content\": \"in an object\"}]",
        ];
        for value in values {
            let copied = copy(&format!("{{\"content\":{value},\"name\":{value},\"secret field 1\":{value}}}"));
            let parsed: Value = serde_json::from_str(&copied).unwrap();
            assert_eq!(parsed.as_object().unwrap().len(), 3, "{copied}");
            let bytes: Vec<char> = value.chars().filter(|c| !"-T:.+[]{}\",".contains(*c)).collect();
            for six in bytes.windows(6).map(|six| six.iter().collect::<String>()) {
                assert!(six == "conten" || six == "ontent" || !copied.contains(&six), "{six:?} of {value} in {copied}");
            }
        }
    }

    #[test]
    fn a1_structure_and_words_of_the_protocol_remain() {
        let json = r#"{"type":0,"status":"online","flags":4096,"bot":true,"avatar":null,"list":[1,[],{}],"discriminator":"0"}"#;
        let copied = copy(json);
        // `list` is no field.
        assert_eq!(copied.replace(&copied[copied.find("null,").unwrap() + 6..][..4], "list"), json);
        let (a, b) = (copy(r#"{"content":"seven words"}"#), copy(r#"{"content":"seven words"}"#));
        assert_eq!(a, b, "equal arguments give equal bytes");
    }

    #[test]
    fn a2_names_that_the_protocol_does_not_define_are_replaced() {
        let copied = copy(r#"{"123456789":{"nick":1},"alice":2}"#);
        assert!(!copied.contains("alice") && !copied.contains("123456789") && copied.contains("nick"), "{copied}");
    }

    #[test]
    fn a2_the_tables_are_sorted_and_have_the_fields_of_the_traffic() {
        assert!(FIELDS.is_sorted());
        let mut missing = BTreeSet::new();
        fn names(value: &Value, missing: &mut BTreeSet<String>) {
            match value {
                Value::Object(fields) => {
                    for (name, value) in fields {
                        if FIELDS.binary_search(&&**name).is_err() {
                            missing.insert(name.clone());
                        }
                        names(value, missing);
                    }
                }
                Value::Array(values) => values.iter().for_each(|value| names(value, missing)),
                _ => {}
            }
        }
        let params = guildhall_traffic::Params { kind: guildhall_traffic::Kind::Session, seed: 1, sessions: 0 };
        for event in guildhall_traffic::Traffic::new(params, Chat::built_in()).take(3000) {
            names(&serde_json::from_slice(&event.body_json).unwrap(), &mut missing);
        }
        missing.retain(|name| !name.bytes().all(|byte| byte.is_ascii_digit()));
        assert!(missing.is_empty(), "{missing:?}");
    }
}
