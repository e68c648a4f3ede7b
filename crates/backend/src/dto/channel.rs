//! Channel: a channel with its overwrites, as backends put, change and read it.

use super::{NAME_CHARS_MAX, no_permissions};
use crate::{
    external,
    extract::{Check, FieldErrors},
    types::{Bits, Snowflake, nullable},
};
use guildhall_model::{
    Channel, ChannelId, ChannelType, GuildId, Overwrite, OverwriteKind,
    name::{cleaned, without_blank_ends},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

const TOPIC_CHARS_MAX: usize = 4096;
const OVERWRITES_MAX: usize = 1_000;
const SLOW_MODE_S_MAX: u16 = 21_600;
const USER_LIMIT_MAX: u16 = 10_000;
const BITRATE_MAX: u32 = 384_000;

/// Permissions that a channel allows and denies for a role or a member.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverwriteBody {
    /// Id of a role of the guild, or of a member.
    pub id: Snowflake,
    /// 0 for a role, 1 for a member.
    #[serde(rename = "type")]
    #[schema(minimum = 0, maximum = 1)]
    pub kind: u8,
    /// Permissions granted in this channel.
    #[serde(default = "no_permissions")]
    pub allow: Bits,
    /// Permissions denied in this channel.
    #[serde(default = "no_permissions")]
    pub deny: Bits,
}

impl From<&Overwrite> for OverwriteBody {
    fn from(overwrite: &Overwrite) -> Self {
        let (id, kind) = match overwrite.target {
            OverwriteKind::Role(id) => (id.into(), 0),
            OverwriteKind::Member(id) => (id.into(), 1),
        };
        Self { id, kind, allow: Bits(overwrite.allow), deny: Bits(overwrite.deny) }
    }
}

impl From<OverwriteBody> for Overwrite {
    fn from(body: OverwriteBody) -> Self {
        let target =
            if body.kind == 0 { OverwriteKind::Role(body.id.id()) } else { OverwriteKind::Member(body.id.id()) };
        Self { target, allow: body.allow.0, deny: body.deny.0 }
    }
}

/// All fields of a channel.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChannelPut {
    /// Name of the channel.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// 0 text, 2 voice, 4 category, 5 announcement, 13 stage, 15 forum, 16 media. Only 0 can become 5, and 5 become 0.
    #[serde(rename = "type")]
    #[schema(minimum = 0, maximum = 16)]
    pub kind: u8,
    /// Clients sort by position, then by id.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 2147483647)]
    pub position: i32,
    /// Id of its category.
    #[serde(default)]
    pub parent_id: Option<Snowflake>,
    /// Topic shown above the channel.
    #[serde(default)]
    #[schema(max_length = 4096)]
    pub topic: Option<String>,
    /// Whether the channel is age-restricted.
    #[serde(default)]
    pub nsfw: bool,
    /// Slow mode: seconds between two messages of a member; 0 for none.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 21600)]
    pub rate_limit_per_user: u16,
    /// Bits per second; voice only.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 384000)]
    pub bitrate: u32,
    /// Limit of members in voice; 0 for no limit.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 10000)]
    pub user_limit: u16,
    /// Permission overwrites for roles and members of the guild. Roles must exist.
    #[serde(default)]
    #[schema(max_items = 1000)]
    pub permission_overwrites: Vec<OverwriteBody>,
    /// Key of the channel in your own database: unique among channels, never sent to clients. Omitted:
    /// unchanged. Null: none.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, required = false, min_length = 1, max_length = 128, pattern = "^[!-~]*$")]
    pub external_id: Option<Option<String>>,
}

impl Check for ChannelPut {
    fn check(&self, faults: &mut FieldErrors) {
        faults.name("name", &self.name, 1, NAME_CHARS_MAX);
        external::check("external_id", self.external_id.as_ref().and_then(Option::as_deref), faults);
        if ChannelType::from_wire(self.kind).is_none() {
            faults.add("type", "Must be one of 0, 2, 4, 5, 13, 15, 16.");
        }
        faults.number("position", self.position.into(), 0, i32::MAX.into());
        faults.optional_text("topic", self.topic.as_deref(), TOPIC_CHARS_MAX);
        faults.number("rate_limit_per_user", self.rate_limit_per_user.into(), 0, SLOW_MODE_S_MAX.into());
        faults.number("bitrate", self.bitrate.into(), 0, BITRATE_MAX.into());
        faults.number("user_limit", self.user_limit.into(), 0, USER_LIMIT_MAX.into());
        faults.count("permission_overwrites", self.permission_overwrites.len(), 0, OVERWRITES_MAX);
        for (index, overwrite) in self.permission_overwrites.iter().enumerate() {
            faults.number(&format!("permission_overwrites[{index}].type"), overwrite.kind.into(), 0, 1);
        }
    }
}

impl ChannelPut {
    pub fn into_channel(self, id: ChannelId, guild_id: GuildId) -> Channel {
        let kind = ChannelType::from_wire(self.kind).unwrap_or(ChannelType::Text);
        let plain = Channel::new(id, guild_id, kind, &cleaned(&self.name));
        Channel {
            position: self.position,
            overwrites: self.permission_overwrites.into_iter().map(Into::into).collect(),
            parent_id: self.parent_id.map(Snowflake::id),
            topic: self.topic.as_deref().map(without_blank_ends).filter(|topic| !topic.is_empty()).map(str::to_owned),
            nsfw: self.nsfw,
            rate_limit_per_user: self.rate_limit_per_user,
            bitrate: if kind.is_voice() && self.bitrate == 0 { plain.bitrate } else { self.bitrate },
            user_limit: self.user_limit,
            ..plain
        }
    }
}

impl From<&Channel> for ChannelPut {
    fn from(channel: &Channel) -> Self {
        Self {
            name: channel.name.clone(),
            kind: channel.kind as u8,
            position: channel.position,
            parent_id: channel.parent_id.map(Into::into),
            topic: channel.topic.clone(),
            nsfw: channel.nsfw,
            rate_limit_per_user: channel.rate_limit_per_user,
            bitrate: channel.bitrate,
            user_limit: channel.user_limit,
            permission_overwrites: channel.overwrites.iter().map(Into::into).collect(),
            external_id: None,
        }
    }
}

/// A channel of a guild.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Channel)]
pub(crate) struct ChannelBody {
    /// Id of the channel.
    pub id: Snowflake,
    /// Id of its guild.
    pub guild_id: Snowflake,
    #[serde(flatten)]
    pub fields: ChannelPut,
    /// Id of the newest message, which may have been deleted.
    pub last_message_id: Option<Snowflake>,
}

impl From<&Channel> for ChannelBody {
    fn from(channel: &Channel) -> Self {
        Self {
            id: channel.id.into(),
            guild_id: channel.guild_id.into(),
            fields: channel.into(),
            last_message_id: channel.last_message_id.map(Into::into),
        }
    }
}

impl ChannelBody {
    pub fn with_external_id(mut self, external_id: Option<String>) -> Self {
        self.fields.external_id = Some(external_id);
        self
    }
}
