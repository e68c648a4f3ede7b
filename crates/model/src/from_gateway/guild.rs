//! Guilds: base fields, GUILD_CREATE, and the body of an unavailable guild. Spec  docs/protocol/reference.md §6.11.

use super::{RoleBody, StickerBody, UserBody};
use crate::{
    emoji::Emoji,
    guild::Guild,
    id::{ChannelId, EmojiId, GuildId, RoleId, UserId},
};
use serde::Serialize;

/// A guild that is not loaded or has an outage, or (without the key) one that the recipient has left.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct UnavailableGuild {
    pub id: GuildId,
    /// `Some(true)` for an outage, none for "you are no longer a member".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<bool>,
}

/// Body of small events that contain only the guild's id.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct GuildReference {
    pub guild_id: GuildId,
}

/// A custom emoji.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EmojiBody<'a> {
    id: EmojiId,
    name: &'a str,
    roles: &'a [RoleId],
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<UserBody<'a>>,
    require_colons: bool,
    managed: bool,
    animated: bool,
    available: bool,
}

impl<'a> From<&'a Emoji> for EmojiBody<'a> {
    fn from(emoji: &'a Emoji) -> Self {
        Self {
            id: emoji.id,
            name: &emoji.name,
            roles: &emoji.roles,
            user: emoji.user.as_deref().map(Into::into),
            require_colons: true,
            managed: false,
            animated: emoji.animated,
            available: true,
        }
    }
}

impl EmojiBody<'_> {
    /// Adds the keys that only answers of REST have.
    #[must_use]
    pub fn for_rest(self) -> Self {
        Self { user: self.user.map(UserBody::for_rest), ..self }
    }
}

/// Base fields except those that CLIENT_STATE_V2 places outside of `properties`.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct GuildProperties<'a> {
    id: GuildId,
    name: &'a str,
    icon: Option<&'a str>,
    splash: Option<&'a str>,
    discovery_splash: Option<&'a str>,
    banner: Option<&'a str>,
    description: Option<&'a str>,
    owner_id: UserId,
    afk_channel_id: Option<ChannelId>,
    afk_timeout: u16,
    verification_level: u8,
    default_message_notifications: u8,
    explicit_content_filter: u8,
    mfa_level: u8,
    application_id: (),
    system_channel_id: Option<ChannelId>,
    rules_channel_id: (),
    public_updates_channel_id: (),
    safety_alerts_channel_id: (),
    system_channel_flags: u32,
    max_members: u32,
    max_presences: (),
    max_video_channel_users: u32,
    max_stage_video_channel_users: u32,
    vanity_url_code: Option<&'a str>,
    premium_tier: u8,
    preferred_locale: &'a str,
    premium_progress_bar_enabled: bool,
    nsfw_level: u8,
    nsfw: bool,
    widget_enabled: bool,
    widget_channel_id: Option<ChannelId>,
    hub_type: (),
    incidents_data: (),
    region: &'static str,
    features: &'a [String],
}

impl<'a> From<&'a Guild> for GuildProperties<'a> {
    fn from(guild: &'a Guild) -> Self {
        Self {
            id: guild.id,
            name: &guild.name,
            icon: guild.icon.as_deref(),
            splash: guild.splash.as_deref(),
            discovery_splash: guild.discovery_splash.as_deref(),
            banner: guild.banner.as_deref(),
            description: guild.description.as_deref(),
            owner_id: guild.owner_id,
            afk_channel_id: guild.afk_channel_id,
            afk_timeout: guild.afk_timeout,
            verification_level: guild.verification_level,
            default_message_notifications: guild.default_message_notifications,
            explicit_content_filter: guild.explicit_content_filter,
            mfa_level: 0,
            application_id: (),
            system_channel_id: guild.system_channel_id,
            rules_channel_id: (),
            public_updates_channel_id: (),
            safety_alerts_channel_id: (),
            system_channel_flags: 0,
            max_members: 25_000_000,
            max_presences: (),
            max_video_channel_users: 25,
            max_stage_video_channel_users: 50,
            vanity_url_code: guild.vanity_url_code.as_deref(),
            premium_tier: 0,
            preferred_locale: &guild.preferred_locale,
            premium_progress_bar_enabled: false,
            nsfw_level: 0,
            nsfw: false,
            widget_enabled: guild.widget_enabled,
            widget_channel_id: guild.widget_channel_id,
            hub_type: (),
            incidents_data: (),
            region: "deprecated",
            features: &guild.features,
        }
    }
}

/// Base fields: GUILD_UPDATE, REST, and the first part of GUILD_CREATE.
#[derive(Clone, Debug, Serialize)]
pub struct GuildBody<'a> {
    #[serde(flatten)]
    properties: GuildProperties<'a>,
    premium_subscription_count: u32,
    roles: Vec<RoleBody<'a>>,
    emojis: Vec<EmojiBody<'a>>,
    stickers: Vec<StickerBody<'a>>,
}

impl<'a> GuildBody<'a> {
    /// Base fields of `guild` with its roles in display order.
    pub fn new(guild: &'a Guild, roles: impl Iterator<Item = RoleBody<'a>>) -> Self {
        Self {
            properties: guild.into(),
            premium_subscription_count: 0,
            roles: roles.collect(),
            emojis: guild.emojis.iter().map(Into::into).collect(),
            stickers: guild.stickers.iter().map(|sticker| StickerBody::new(guild.id, sticker)).collect(),
        }
    }
}

/// A guild over REST: base fields, with counts if the caller requested them.
#[derive(Clone, Debug, Serialize)]
pub struct RestGuildBody<'a> {
    #[serde(flatten)]
    guild: GuildBody<'a>,
    home_header: (),
    /// With `with_counts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    approximate_member_count: Option<u64>,
    /// With `with_counts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    approximate_presence_count: Option<u64>,
}

impl<'a> RestGuildBody<'a> {
    /// The guild, with the counts of its members and presences if there are any.
    #[must_use]
    pub fn new(guild: GuildBody<'a>, counts: Option<(u64, u64)>) -> Self {
        let GuildBody { properties, premium_subscription_count, roles, emojis, stickers } = guild;
        let emojis = emojis.into_iter().map(EmojiBody::for_rest).collect();
        let stickers = stickers.into_iter().map(StickerBody::for_rest).collect();
        Self {
            guild: GuildBody { properties, premium_subscription_count, roles, emojis, stickers },
            home_header: (),
            approximate_member_count: counts.map(|(members, _)| members),
            approximate_presence_count: counts.map(|(_, presences)| presences),
        }
    }
}
