//! Notification settings of an account in one guild, and in its direct messages.
//!
//! Spec  docs/protocol/reference.md §6.12.

use crate::id::{ChannelId, GuildId};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};

/// Level of notifications: as the level above.
pub const NOTIFICATIONS_INHERITED: u8 = 3;

/// Until when something is muted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MuteConfig {
    /// None: for ever.
    #[serde(default)]
    pub end_time: Option<Timestamp>,
    /// Seconds that the user chose; -1: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_time_window: Option<i64>,
}

/// Settings of one channel or category, where they differ from those of the guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelOverride {
    pub channel_id: ChannelId,
    /// 0 all messages, 1 mentions, 2 none, 3 as the guild.
    pub message_notifications: u8,
    pub muted: bool,
    pub mute_config: Option<MuteConfig>,
    /// A category is shown without its channels.
    pub collapsed: bool,
    /// Flags of clients.
    #[serde(default)]
    pub flags: u32,
}

impl ChannelOverride {
    /// Nothing differs.
    #[must_use]
    pub fn new(channel_id: ChannelId) -> Self {
        Self {
            channel_id,
            message_notifications: NOTIFICATIONS_INHERITED,
            muted: false,
            mute_config: None,
            collapsed: false,
            flags: 0,
        }
    }
}

/// Notification settings of an account in a guild.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationSettings {
    /// None: in direct messages.
    pub guild_id: Option<GuildId>,
    /// 0 all messages, 1 mentions, 2 none, 3 as the guild.
    pub message_notifications: u8,
    pub suppress_everyone: bool,
    pub suppress_roles: bool,
    pub mute_scheduled_events: bool,
    pub mobile_push: bool,
    pub muted: bool,
    pub mute_config: Option<MuteConfig>,
    pub hide_muted_channels: bool,
    /// 0 default, 1 off, 2 on.
    pub notify_highlights: u8,
    /// Flags of clients.
    pub flags: u32,
    /// By channel id, without those that differ in nothing.
    pub channel_overrides: Vec<ChannelOverride>,
    /// Number of changes.
    pub version: u64,
}

impl NotificationSettings {
    /// Settings that the account has not changed.
    #[must_use]
    pub fn new(guild_id: Option<GuildId>) -> Self {
        Self {
            guild_id,
            message_notifications: NOTIFICATIONS_INHERITED,
            suppress_everyone: false,
            suppress_roles: false,
            mute_scheduled_events: false,
            mobile_push: true,
            muted: false,
            mute_config: None,
            hide_muted_channels: false,
            notify_highlights: 0,
            flags: 0,
            channel_overrides: Vec::new(),
            version: 0,
        }
    }

    /// Whether a channel is muted by itself at `now`.
    #[must_use]
    pub fn mutes(&self, channel_id: ChannelId, now: Timestamp) -> bool {
        let found = self.channel_overrides.iter().find(|of| of.channel_id == channel_id);
        found.is_some_and(|of| {
            let end_time = of.mute_config.and_then(|config| config.end_time);
            of.muted && end_time.is_none_or(|end_time| end_time > now)
        })
    }
}
