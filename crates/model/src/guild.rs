//! Guilds: the base fields, without what belongs to them.
//!
//! Spec  docs/protocol.md §6.11.

use crate::{
    emoji::Emoji,
    happening::{ScheduledEvent, StageInstance, Sticker},
    id::{ChannelId, GuildId, UserId},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A guild's own fields. Roles, channels and members are kept beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guild {
    /// Its id, also the id of its `@everyone` role.
    pub id: GuildId,
    /// 2–100 characters.
    pub name: String,
    /// Hash of the picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who may do everything.
    pub owner_id: UserId,
    /// Where idle people in voice go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub afk_channel_id: Option<ChannelId>,
    /// Seconds until then: 60, 300, 900, 1800 or 3600.
    #[serde(default = "afk_timeout")]
    pub afk_timeout: u16,
    /// 0–4.
    #[serde(default)]
    pub verification_level: u8,
    /// 0 all messages, 1 only mentions.
    #[serde(default)]
    pub default_message_notifications: u8,
    /// 0–2.
    #[serde(default)]
    pub explicit_content_filter: u8,
    /// Where system messages go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_channel_id: Option<ChannelId>,
    /// Feature names, passed through.
    #[serde(default)]
    pub features: Vec<String>,
    /// Its own emoji.
    #[serde(default)]
    pub emojis: Vec<Emoji>,
    /// Its own stickers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stickers: Vec<Sticker>,
    /// What is announced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheduled_events: Vec<Arc<ScheduledEvent>>,
    /// Stages that are open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stage_instances: Vec<StageInstance>,
    /// It is no guild to anybody, but what holds a direct message or a group (ADR 25).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_direct: bool,
    /// Language.
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
            description: None,
            owner_id,
            afk_channel_id: None,
            afk_timeout: afk_timeout(),
            verification_level: 0,
            default_message_notifications: 0,
            explicit_content_filter: 0,
            system_channel_id: None,
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
