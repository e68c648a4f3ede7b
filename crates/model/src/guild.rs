//! Guilds: their own fields, without roles, channels and members.
//!
//! Spec  docs/protocol/reference.md §6.11.

use crate::{
    emoji::Emoji,
    id::{ChannelId, GuildId, UserId},
    scheduled_event::ScheduledEvent,
    stage_instance::StageInstance,
    sticker::Sticker,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A guild's own fields. Roles, channels and members are separate objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guild {
    /// Also the id of the guild's `@everyone` role.
    pub id: GuildId,
    /// 2–100 characters.
    pub name: String,
    /// Hash of the icon image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// Hash of the picture behind invites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub splash: Option<Box<str>>,
    /// Hash of the picture of guild discovery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery_splash: Option<Box<str>>,
    /// Hash of the picture above the channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub banner: Option<Box<str>>,
    /// Description shown to members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The owner has every permission.
    pub owner_id: UserId,
    /// Voice channel that idle users are moved to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub afk_channel_id: Option<ChannelId>,
    /// Seconds until an idle user is moved: 60, 300, 900, 1800 or 3600.
    #[serde(default = "afk_timeout")]
    pub afk_timeout: u16,
    /// 0 none, 1 low, 2 medium, 3 high, 4 very high.
    #[serde(default)]
    pub verification_level: u8,
    /// 0 all messages, 1 only mentions.
    #[serde(default)]
    pub default_message_notifications: u8,
    /// 0 disabled, 1 members without roles, 2 all members.
    #[serde(default)]
    pub explicit_content_filter: u8,
    /// Channel that receives system messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_channel_id: Option<ChannelId>,
    /// Code of the guild's own choice that works as an invite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vanity_url_code: Option<Box<str>>,
    /// Anyone may read the guild's widget.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub widget_enabled: bool,
    /// Channel that the widget names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub widget_channel_id: Option<ChannelId>,
    /// Feature names, passed through unchecked.
    #[serde(default)]
    pub features: Vec<String>,
    /// Custom emoji.
    #[serde(default)]
    pub emojis: Vec<Emoji>,
    /// Custom stickers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stickers: Vec<Sticker>,
    /// Scheduled events that have not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheduled_events: Vec<Arc<ScheduledEvent>>,
    /// Stages with an open instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stage_instances: Vec<StageInstance>,
    /// Internal holder of a direct message or a group (ADR 25). Clients never see it as a guild.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_direct: bool,
    /// Language tag, for example `en-US`.
    #[serde(default = "locale")]
    pub preferred_locale: String,
}

impl Guild {
    /// A guild with nothing but a name and an owner.
    #[must_use]
    pub fn new(id: GuildId, name: &str, owner_id: UserId) -> Self {
        Self {
            id,
            name: name.to_owned(),
            icon: None,
            splash: None,
            discovery_splash: None,
            banner: None,
            description: None,
            owner_id,
            afk_channel_id: None,
            afk_timeout: afk_timeout(),
            verification_level: 0,
            default_message_notifications: 0,
            explicit_content_filter: 0,
            system_channel_id: None,
            vanity_url_code: None,
            widget_enabled: false,
            widget_channel_id: None,
            features: Vec::new(),
            emojis: Vec::new(),
            stickers: Vec::new(),
            scheduled_events: Vec::new(),
            stage_instances: Vec::new(),
            is_direct: false,
            preferred_locale: locale(),
        }
    }
}

fn afk_timeout() -> u16 {
    300
}

fn locale() -> String {
    "en-US".to_owned()
}
