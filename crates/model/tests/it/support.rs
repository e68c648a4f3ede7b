//! The people and the guild of docs/protocol/reference.md's examples, and how a body is compared with what it should
//! be.

use guildhall_codec::{DecodeLimits, Encoding, decode_etf_from_gateway, etf};
use guildhall_model::{
    Channel, ChannelId, ChannelType, ClientStatus, Guild, GuildId, Member, MessageId, Permissions, Platform, Presence,
    Role, Status, User, UserId, VoiceState,
    from_gateway::{ChannelBody, GuildPeople, GuildSnapshot, RoleBody},
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value, json};
use std::{fmt, sync::Arc};

pub const GUILD: GuildId = GuildId::new(1_100_000_000_000_000_001);
pub const ANA: UserId = UserId::new(1_100_000_000_000_000_777);
pub const BO: UserId = UserId::new(1_100_000_000_000_000_555);
pub const GENERAL: ChannelId = ChannelId::new(1_100_000_000_000_000_010);
pub const LOUNGE: ChannelId = ChannelId::new(1_100_000_000_000_000_011);
pub const MESSAGE: MessageId = MessageId::new(1_174_109_840_998_400_000);

/// Both encodings of `body` must mean `expected`, written as JSON.
#[track_caller]
pub fn check(body: &impl Serialize, expected: &Value) {
    assert_eq!(json_of(body), *expected, "JSON");
    assert_eq!(etf_of(body), ids_as_integers(expected), "ETF");
}

/// Parses as a JSON client does. Fails on duplicate keys, because clients differ in which of the two they use.
#[track_caller]
pub fn json_of(body: &impl Serialize) -> Value {
    let mut text = Vec::new();
    Encoding::Json.encode(body, &mut text).unwrap();
    serde_json::from_slice::<WithoutDuplicates>(&text).unwrap().0
}

/// Decodes as an ETF client does.
pub fn etf_of(body: &impl Serialize) -> Value {
    let mut term = vec![etf::VERSION];
    Encoding::Etf.encode(body, &mut term).unwrap();
    decode_etf_from_gateway(&term, DecodeLimits::default()).unwrap()
}

/// ETF has ids as integers. In these tests an id has 19 digits and nothing else does.
pub fn ids_as_integers(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() == 19 => text.parse::<u64>().map_or(value.clone(), Value::from),
        Value::Array(items) => items.iter().map(ids_as_integers).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), ids_as_integers(value))).collect(),
        _ => value.clone(),
    }
}

struct WithoutDuplicates(Value);

impl<'de> Deserialize<'de> for WithoutDuplicates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> de::Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(WithoutDuplicates(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }
    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, WithoutDuplicates(value))) = entries.next_entry::<String, _>()? {
            if map.insert(key.clone(), value).is_some() {
                return Err(de::Error::custom(format_args!("`{key}` is there twice")));
            }
        }
        Ok(map.into())
    }
}

/// `a` with the entries of `b`.
pub fn with(mut a: Value, b: Value) -> Value {
    let Value::Object(b) = b else { panic!("an object") };
    a.as_object_mut().unwrap().extend(b);
    a
}

/// `a` without `keys`.
pub fn without(mut a: Value, keys: &[&str]) -> Value {
    for key in keys {
        a.as_object_mut().unwrap().remove(*key).unwrap_or_else(|| panic!("no `{key}`"));
    }
    a
}

pub fn joined_at() -> Timestamp {
    Timestamp::parse("2023-01-02T03:04:05.000000+00:00").unwrap()
}

pub fn ana() -> Member {
    let user = User { global_name: Some("Ana".into()), ..User::new(ANA, "ana") };
    Member::new(Arc::new(user), joined_at())
}

pub fn bo() -> Member {
    Member::new(Arc::new(User::new(BO, "bo")), joined_at())
}

pub fn user_json(member: &Member) -> Value {
    let User { id, username, global_name, .. } = &*member.user;
    json!({"id": id, "username": username, "discriminator": "0", "global_name": global_name, "avatar": null,
        "public_flags": 0, "avatar_decoration_data": null})
}

/// A member's own keys, without the user.
pub fn standing_json() -> Value {
    json!({"nick": null, "avatar": null, "banner": null, "roles": [], "joined_at": "2023-01-02T03:04:05.000000+00:00",
        "premium_since": null, "deaf": false, "mute": false, "pending": false, "flags": 0,
        "communication_disabled_until": null})
}

pub fn member_json(member: &Member) -> Value {
    with(standing_json(), json!({"user": user_json(member)}))
}

pub fn online() -> Presence {
    let mut client_status = ClientStatus::default();
    client_status.raise(Platform::Web, Status::Online);
    Presence { status: Status::Online, activities: Vec::new(), client_status }
}

pub fn in_lounge(user_id: UserId) -> VoiceState {
    VoiceState {
        channel_id: Some(LOUNGE),
        session_id: "5f0c0d4ae1b84a6c".into(),
        self_deaf: true,
        ..VoiceState::new(user_id)
    }
}

pub fn in_lounge_json(user_id: UserId) -> Value {
    json!({"channel_id": LOUNGE, "user_id": user_id, "session_id": "5f0c0d4ae1b84a6c", "deaf": false, "mute": false,
        "self_deaf": true, "self_mute": false, "self_video": false, "self_stream": false, "suppress": false,
        "request_to_speak_timestamp": null})
}

/// The guild of the examples as stored.
pub struct World {
    pub guild: Guild,
    pub everyone: Role,
    pub general: Channel,
    pub ana: Member,
    pub bo: Member,
    pub online: Presence,
    pub bo_in_lounge: VoiceState,
}

impl World {
    pub fn new() -> Self {
        let everyone = Role::everyone(GUILD, Permissions(137_411_140_505_153));
        let mut general = Channel::new(GENERAL, GUILD, ChannelType::Text, "general");
        general.last_message_id = Some(MESSAGE);
        Self {
            guild: Guild::new(GUILD, "demo", ANA),
            everyone,
            general,
            ana: ana(),
            bo: bo(),
            online: online(),
            bo_in_lounge: in_lounge(BO),
        }
    }

    pub fn snapshot(&self) -> GuildSnapshot<'_> {
        GuildSnapshot {
            guild: &self.guild,
            roles: vec![RoleBody::from(&self.everyone)],
            channels: vec![ChannelBody::from(&self.general)],
            threads: Vec::new(),
            stage_instances: Vec::new(),
            scheduled_events: Vec::new(),
            large: false,
            member_count: 2,
            version: 7,
        }
    }

    /// Ana receives; Bo is there, online, and in voice.
    pub fn people(&self) -> GuildPeople<'_> {
        GuildPeople {
            own: &self.ana,
            others: vec![&self.bo],
            presences: vec![(BO, &self.online)],
            voice_states: vec![&self.bo_in_lounge],
        }
    }
}

/// The base fields of `World`'s guild that have the same place in `properties` and in a flat guild.
pub fn properties_json() -> Value {
    json!({"id": GUILD, "name": "demo", "icon": null, "splash": null, "discovery_splash": null, "banner": null,
        "description": null, "owner_id": ANA, "afk_channel_id": null, "afk_timeout": 300, "verification_level": 0,
        "default_message_notifications": 0, "explicit_content_filter": 0, "features": [], "mfa_level": 0,
        "application_id": null, "system_channel_id": null, "system_channel_flags": 0, "rules_channel_id": null,
        "public_updates_channel_id": null, "safety_alerts_channel_id": null, "max_members": 25_000_000,
        "max_presences": null, "max_video_channel_users": 25, "max_stage_video_channel_users": 50,
        "vanity_url_code": null, "premium_tier": 0, "preferred_locale": "en-US", "premium_progress_bar_enabled": false,
        "nsfw_level": 0, "nsfw": false, "widget_enabled": false, "widget_channel_id": null, "hub_type": null,
        "incidents_data": null, "region": "deprecated"})
}

/// Additional fields of `World`'s guild in both shapes, without members.
pub fn resources_json() -> Value {
    json!({"premium_subscription_count": 0, "emojis": [], "stickers": [],
        "roles": [{"id": GUILD, "name": "@everyone", "color": 0, "colors": {"primary_color": 0, "secondary_color": null,
            "tertiary_color": null}, "hoist": false, "icon": null, "unicode_emoji": null, "position": 0,
            "permissions": "137411140505153", "managed": false, "mentionable": false, "flags": 0}],
        "joined_at": "2023-01-02T03:04:05.000000+00:00", "large": false, "unavailable": false, "member_count": 2,
        "channels": [general_json()], "threads": [], "stage_instances": [], "guild_scheduled_events": [], "version": 7})
}

pub fn general_json() -> Value {
    json!({"id": GENERAL, "guild_id": GUILD, "type": 0, "name": "general", "position": 0, "parent_id": null,
        "topic": null, "nsfw": false, "last_message_id": MESSAGE, "last_pin_timestamp": null, "rate_limit_per_user": 0,
        "flags": 0, "permission_overwrites": []})
}

pub fn online_json() -> Value {
    json!({"status": "online", "activities": [], "client_status": {"web": "online"}})
}
