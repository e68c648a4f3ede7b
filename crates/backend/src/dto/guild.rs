//! Guild: a guild, as backends put, change and read it.

use super::{HASH_CHARS_MAX, NAME_CHARS_MAX};
use crate::{
    external,
    extract::{Check, FieldErrors},
    types::{AnyId, Snowflake, nullable},
};
use guildhall_guild::GuildReply;
use guildhall_model::{Guild, GuildId, UserId, name::cleaned};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

fn afk_timeout() -> u16 {
    300
}

fn locale() -> String {
    "en-US".to_owned()
}
/// All fields of a guild itself.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuildPut {
    /// Name of the guild.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// Owner, with all permissions: an existing account, and a member if the guild exists.
    pub owner_id: AnyId,
    /// Hash of the icon.
    #[serde(default)]
    #[schema(max_length = 128)]
    pub icon: Option<String>,
    /// Description of the guild.
    #[serde(default)]
    #[schema(max_length = 300)]
    pub description: Option<String>,
    /// Id of the existing voice channel for inactive members.
    #[serde(default)]
    pub afk_channel_id: Option<Snowflake>,
    /// Seconds of inactivity until then.
    #[serde(default = "afk_timeout")]
    #[schema(minimum = 60, maximum = 3600)]
    pub afk_timeout: u16,
    /// Id of the existing channel for system messages.
    #[serde(default)]
    pub system_channel_id: Option<Snowflake>,
    /// Verification level, 0 to 4.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 4)]
    pub verification_level: u8,
    /// Default notifications: 0 for all messages, 1 for mentions.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1)]
    pub default_message_notifications: u8,
    /// Explicit content filter, 0 to 2.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 2)]
    pub explicit_content_filter: u8,
    /// Feature names, sent to clients unchanged.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub features: Vec<String>,
    /// Preferred language, like `en-US`.
    #[serde(default = "locale")]
    #[schema(min_length = 2, max_length = 16)]
    pub preferred_locale: String,
    /// Key of the guild in your own database: unique among guilds, never sent to clients. Omitted:
    /// unchanged. Null: none.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, required = false, min_length = 1, max_length = 128, pattern = "^[!-~]*$")]
    pub external_id: Option<Option<String>>,
}

impl Check for GuildPut {
    fn check(&self, faults: &mut FieldErrors) {
        faults.name("name", &self.name, 1, NAME_CHARS_MAX);
        faults.optional_text("icon", self.icon.as_deref(), HASH_CHARS_MAX);
        faults.optional_text("description", self.description.as_deref(), 300);
        faults.number("afk_timeout", self.afk_timeout.into(), 60, 3600);
        faults.number("verification_level", self.verification_level.into(), 0, 4);
        faults.number("default_message_notifications", self.default_message_notifications.into(), 0, 1);
        faults.number("explicit_content_filter", self.explicit_content_filter.into(), 0, 2);
        faults.count("features", self.features.len(), 0, 100);
        for (index, feature) in self.features.iter().enumerate() {
            faults.text(&format!("features[{index}]"), feature, 1, 64);
        }
        faults.text("preferred_locale", &self.preferred_locale, 2, 16);
        external::check("external_id", self.external_id.as_ref().and_then(Option::as_deref), faults);
    }
}

impl GuildPut {
    /// The guild with these fields; other fields are those of `before`.
    pub fn into_guild(self, id: GuildId, owner_id: UserId, before: Option<&Guild>) -> Guild {
        fn kept<T: Clone>(before: Option<&Guild>, field: impl Fn(&Guild) -> &Vec<T>) -> Vec<T> {
            before.map_or_else(Vec::new, |before| field(before).clone())
        }
        Guild {
            id,
            name: cleaned(&self.name),
            icon: self.icon,
            splash: before.and_then(|before| before.splash.clone()),
            discovery_splash: before.and_then(|before| before.discovery_splash.clone()),
            banner: before.and_then(|before| before.banner.clone()),
            description: self.description,
            owner_id,
            afk_channel_id: self.afk_channel_id.map(Snowflake::id),
            afk_timeout: self.afk_timeout,
            verification_level: self.verification_level,
            default_message_notifications: self.default_message_notifications,
            explicit_content_filter: self.explicit_content_filter,
            system_channel_id: self.system_channel_id.map(Snowflake::id),
            vanity_url_code: before.and_then(|before| before.vanity_url_code.clone()),
            widget_enabled: before.is_some_and(|before| before.widget_enabled),
            widget_channel_id: before.and_then(|before| before.widget_channel_id),
            features: self.features,
            emojis: kept(before, |before| &before.emojis),
            stickers: kept(before, |before| &before.stickers),
            scheduled_events: kept(before, |before| &before.scheduled_events),
            stage_instances: kept(before, |before| &before.stage_instances),
            is_direct: false,
            preferred_locale: self.preferred_locale,
        }
    }
}

impl From<&Guild> for GuildPut {
    fn from(guild: &Guild) -> Self {
        Self {
            name: guild.name.clone(),
            owner_id: guild.owner_id.into(),
            icon: guild.icon.clone(),
            description: guild.description.clone(),
            afk_channel_id: guild.afk_channel_id.map(Into::into),
            afk_timeout: guild.afk_timeout,
            system_channel_id: guild.system_channel_id.map(Into::into),
            verification_level: guild.verification_level,
            default_message_notifications: guild.default_message_notifications,
            explicit_content_filter: guild.explicit_content_filter,
            features: guild.features.clone(),
            preferred_locale: guild.preferred_locale.clone(),
            external_id: None,
        }
    }
}

/// A guild with its id and number of members.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Guild)]
pub(crate) struct GuildBody {
    /// Id of the guild.
    pub id: Snowflake,
    /// Fields of the guild.
    #[serde(flatten)]
    pub fields: GuildPut,
    /// Number of members.
    pub member_count: u64,
    /// Number of members who are not offline.
    pub presence_count: u64,
}

impl From<&GuildReply> for GuildBody {
    fn from(reply: &GuildReply) -> Self {
        let guild = &*reply.structure.guild;
        Self {
            id: guild.id.into(),
            fields: guild.into(),
            member_count: reply.member_count,
            presence_count: reply.presence_count,
        }
    }
}

impl GuildBody {
    pub fn with_external_id(mut self, external_id: Option<String>) -> Self {
        self.fields.external_id = Some(external_id);
        self
    }
}
