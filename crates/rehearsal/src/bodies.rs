//! Bodies: payloads of a gateway, with every field that a strict client needs.
//!
//! Not here    the envelope and its encoding: `link`.     Spec  docs/protocol/reference.md §1.8, §6.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use serde_json::{Value, json};

/// Id of the account of every client.
pub const BOT_ID: &str = "1100000000000000900";
const OTHER_ID: &str = "1100000000000000901";
const GUILD_ID: u64 = 1_100_000_000_000_000_001;
pub(crate) const CHANNEL_ID: &str = "1100000000000000010";
const TIME: &str = "2026-01-02T03:04:05.678000+00:00";

/// A token of the form that libraries check. The gateway of a rehearsal accepts any.
#[must_use]
pub fn bot_token() -> String {
    format!("{}.rehearsal.not-a-secret", STANDARD_NO_PAD.encode(BOT_ID))
}

fn user(id: &str, name: &str, is_bot: bool) -> Value {
    json!({
        "id": id, "username": name, "discriminator": "0", "global_name": null, "avatar": null, "bot": is_bot,
        "public_flags": 0, "banner": null, "accent_color": null, "avatar_decoration_data": null,
    })
}

/// The account as it sees itself.
pub(crate) fn own_user() -> Value {
    let mut own = user(BOT_ID, "rehearsal", true);
    let private = json!({
        "mfa_enabled": true, "verified": true, "email": null, "flags": 0, "locale": "en-US", "premium_type": 0,
    });
    if let (Value::Object(own), Value::Object(private)) = (&mut own, private) {
        own.extend(private);
    }
    own
}

pub(crate) fn application() -> Value {
    json!({
        "id": BOT_ID, "name": "rehearsal", "icon": null, "description": "", "summary": "", "type": null,
        "bot_public": true, "bot_require_code_grant": false, "verify_key": "0".repeat(64), "flags": 565_248,
        "owner": user(OTHER_ID, "owner", false), "team": null, "hook": true, "bot": own_user(),
        "redirect_uris": [], "interactions_endpoint_url": null, "tags": [], "approximate_guild_count": 1,
    })
}

fn guild_id(index: u64) -> String {
    (GUILD_ID + index).to_string()
}

/// READY of a bot.
pub(crate) fn ready(session_id: &str, resume_url: &str, shard: Option<&Value>, guilds: u64, bytes: usize) -> Value {
    let guilds: Vec<Value> = (0..guilds).map(|index| json!({ "id": guild_id(index), "unavailable": true })).collect();
    let mut body = json!({
        "v": 10, "user": own_user(), "guilds": guilds, "session_id": session_id, "resume_gateway_url": resume_url,
        "application": { "id": BOT_ID, "flags": 565_248 }, "session_type": "normal", "private_channels": [],
        "presences": [], "relationships": [], "user_settings": {}, "geo_ordered_rtc_regions": [],
        "guild_join_requests": [], "auth": {},
    });
    if let (Value::Object(fields), Some(shard)) = (&mut body, shard) {
        fields.insert("shard".to_owned(), shard.clone());
    }
    let missing = bytes.saturating_sub(body.to_string().len());
    if let (Value::Object(fields), 1..) = (&mut body, missing) {
        fields.insert("user_guild_settings".to_owned(), json!({ "entries": settings(missing), "version": 1 }));
    }
    body
}

/// Entries of about as many bytes.
fn settings(bytes: usize) -> Vec<Value> {
    let entry = |number: usize| {
        let overrides: Vec<Value> = (0..8)
            .map(|channel| {
                let id = 1_100_000_000_100_000_000 + (number * 7_919 + channel * 104_729) as u64;
                json!({
                    "channel_id": id.to_string(), "muted": channel % 3 == 0, "message_notifications": channel % 4,
                    "mute_config": null, "flags": number % 4096, "collapsed": false,
                })
            })
            .collect();
        json!({
            "guild_id": (GUILD_ID + 1_000 + number as u64 * 31).to_string(), "muted": false, "mobile_push": true,
            "suppress_roles": false, "suppress_everyone": number.is_multiple_of(5), "message_notifications": 1,
            "hide_muted_channels": false, "version": number, "flags": 0, "channel_overrides": overrides,
        })
    };
    let one = entry(100).to_string().len() + 1;
    (0..bytes.div_ceil(one)).map(entry).collect()
}

fn member(user: Value) -> Value {
    json!({
        "user": user, "nick": null, "avatar": null, "banner": null, "roles": [], "joined_at": TIME,
        "premium_since": null, "deaf": false, "mute": false, "flags": 0, "pending": false,
        "communication_disabled_until": null, "permissions": "2147483647",
    })
}

/// A guild of `members` members; the bot is the first.
pub(crate) fn guild(index: u64, members: u64) -> Value {
    let id = guild_id(index);
    let role = json!({
        "id": id, "name": "@everyone", "color": 0, "hoist": false, "position": 0, "permissions": "2147483647",
        "managed": false, "mentionable": false, "flags": 0, "icon": null, "unicode_emoji": null,
        "colors": { "primary_color": 0, "secondary_color": null, "tertiary_color": null },
    });
    let channel_id = match index {
        0 => CHANNEL_ID.to_owned(),
        _ => (1_100_000_000_010_000_000 + index).to_string(),
    };
    let channel = json!({
        "id": channel_id, "type": 0, "name": "rehearsal", "position": 0, "permission_overwrites": [], "topic": null,
        "nsfw": false, "last_message_id": null, "rate_limit_per_user": 0, "parent_id": null, "flags": 0,
        "last_pin_timestamp": null,
    });
    let others = (1..members).map(|number| {
        let id = (1_100_000_000_000_000_900 + number).to_string();
        member(user(&id, &format!("member-{number}"), false))
    });
    let members: Vec<Value> = std::iter::once(member(own_user())).chain(others).collect();
    json!({
        "id": id, "name": format!("Rehearsal {index}"), "icon": null, "splash": null, "discovery_splash": null,
        "banner": null, "description": null, "owner_id": OTHER_ID, "afk_channel_id": null, "afk_timeout": 300,
        "verification_level": 0, "default_message_notifications": 0, "explicit_content_filter": 0, "mfa_level": 0,
        "nsfw_level": 0, "nsfw": false, "premium_tier": 0, "premium_subscription_count": 0,
        "premium_progress_bar_enabled": false, "preferred_locale": "en-US", "features": [], "emojis": [],
        "stickers": [], "roles": [role], "system_channel_id": null, "system_channel_flags": 0,
        "rules_channel_id": null, "public_updates_channel_id": null, "safety_alerts_channel_id": null,
        "application_id": null, "vanity_url_code": null, "hub_type": null, "max_members": 500_000,
        "max_presences": null, "max_video_channel_users": 25, "max_stage_video_channel_users": 50,
        "joined_at": TIME, "large": false, "unavailable": false, "member_count": members.len(), "members": members,
        "channels": [channel], "threads": [], "presences": [], "voice_states": [], "stage_instances": [],
        "guild_scheduled_events": [], "soundboard_sounds": [], "version": 1,
        "region": "deprecated", "home_header": null, "incidents_data": null, "inventory_settings": null,
        "latest_onboarding_question_id": null,
    })
}

/// A message of another account; `number` is in its id and text.
pub(crate) fn message(number: u64, bytes: usize, content: Option<&str>) -> Value {
    let mut text = content.map_or_else(|| format!("message {number} "), str::to_owned);
    while text.len() < bytes {
        text.push_str(&format!("{} ", text.len() * 7_919 % 1_000));
    }
    let author = if content.is_some() { own_user() } else { user(OTHER_ID, "other", false) };
    json!({
        "id": (1_100_000_000_001_000_000 + number).to_string(), "channel_id": CHANNEL_ID,
        "guild_id": GUILD_ID.to_string(), "author": author, "content": text.trim_end(), "timestamp": TIME,
        "edited_timestamp": null, "tts": false, "mention_everyone": false, "mentions": [], "mention_roles": [],
        "mention_channels": [], "attachments": [], "embeds": [], "reactions": [], "pinned": false, "type": 0,
        "flags": 0, "components": [], "nonce": null,
        "member": {
            "nick": null, "avatar": null, "roles": [], "joined_at": TIME, "premium_since": null, "deaf": false,
            "mute": false, "flags": 0, "pending": false, "communication_disabled_until": null,
        },
    })
}

/// The guild over REST.
pub(crate) fn guild_of(id: &str) -> Option<Value> {
    let index = id.parse::<u64>().ok()?.checked_sub(GUILD_ID)?;
    (index < 2_500).then(|| guild(index, 2))
}
