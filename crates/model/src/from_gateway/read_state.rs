//! Read states and notification settings. Spec  docs/protocol/reference.md §6.12.

use crate::{
    id::{ChannelId, GuildId, MessageId},
    notification_settings::{ChannelOverride, MuteConfig, NotificationSettings},
    read_state::ReadState,
};
use guildhall_stdx::Timestamp;
use serde::Serialize;

/// How far the account has read a channel, in READY.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReadStateBody {
    id: ChannelId,
    last_message_id: MessageId,
    mention_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_pin_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "is_zero")]
    flags: u32,
    #[serde(skip_serializing_if = "is_zero")]
    last_viewed: u32,
}

impl ReadStateBody {
    /// A state, and the mentions after it.
    #[must_use]
    pub fn new(state: &ReadState, mention_count: u32) -> Self {
        let ReadState { channel_id, last_message_id, last_pin_timestamp, flags, last_viewed } = *state;
        Self { id: channel_id, last_message_id, mention_count, last_pin_timestamp, flags, last_viewed }
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// MESSAGE_ACK, to all sessions of the account.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MessageAckBody {
    pub channel_id: ChannelId,
    pub message_id: MessageId,
    /// Grows with each acknowledgement of the account.
    pub version: u64,
    /// The user marked the message as unread: the state may go back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub manual: bool,
    /// The number that the client sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mention_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flags: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_viewed: Option<u32>,
}

/// CHANNEL_PINS_ACK.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ChannelPinsAckBody {
    pub channel_id: ChannelId,
    pub timestamp: Timestamp,
    pub version: u64,
}

/// Notification settings: an entry of `user_guild_settings`, and USER_GUILD_SETTINGS_UPDATE.
#[derive(Clone, Debug, Serialize)]
pub struct NotificationSettingsBody {
    guild_id: Option<GuildId>,
    message_notifications: u8,
    suppress_everyone: bool,
    suppress_roles: bool,
    mute_scheduled_events: bool,
    mobile_push: bool,
    muted: bool,
    mute_config: Option<MuteConfigBody>,
    hide_muted_channels: bool,
    notify_highlights: u8,
    flags: u32,
    channel_overrides: Vec<ChannelOverrideBody>,
    version: u64,
}

impl NotificationSettingsBody {
    pub(super) fn version(&self) -> u64 {
        self.version
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
struct ChannelOverrideBody {
    channel_id: ChannelId,
    message_notifications: u8,
    muted: bool,
    mute_config: Option<MuteConfigBody>,
    collapsed: bool,
    flags: u32,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct MuteConfigBody {
    end_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selected_time_window: Option<i64>,
}

impl From<&NotificationSettings> for NotificationSettingsBody {
    fn from(settings: &NotificationSettings) -> Self {
        Self {
            guild_id: settings.guild_id,
            message_notifications: settings.message_notifications,
            suppress_everyone: settings.suppress_everyone,
            suppress_roles: settings.suppress_roles,
            mute_scheduled_events: settings.mute_scheduled_events,
            mobile_push: settings.mobile_push,
            muted: settings.muted,
            mute_config: settings.mute_config.map(Into::into),
            hide_muted_channels: settings.hide_muted_channels,
            notify_highlights: settings.notify_highlights,
            flags: settings.flags,
            channel_overrides: settings.channel_overrides.iter().map(Into::into).collect(),
            version: settings.version,
        }
    }
}

impl From<&ChannelOverride> for ChannelOverrideBody {
    fn from(of: &ChannelOverride) -> Self {
        let ChannelOverride { channel_id, message_notifications, muted, mute_config, collapsed, flags } = *of;
        let mute_config = mute_config.map(Into::into);
        Self { channel_id, message_notifications, muted, mute_config, collapsed, flags }
    }
}

impl From<MuteConfig> for MuteConfigBody {
    fn from(MuteConfig { end_time, selected_time_window }: MuteConfig) -> Self {
        Self { end_time, selected_time_window }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Id;
    use serde_json::json;

    #[test]
    fn what_is_not_set_is_left_out() {
        let state = ReadState { last_message_id: Id::new(7), ..ReadState::new(Id::new(5)) };
        let body = serde_json::to_value(ReadStateBody::new(&state, 2)).unwrap();
        assert_eq!(body, json!({"id": "5", "last_message_id": "7", "mention_count": 2}));
        let state = ReadState { last_pin_timestamp: Some(Timestamp(0)), flags: 1, last_viewed: 4_000, ..state };
        let body = serde_json::to_value(ReadStateBody::new(&state, 0)).unwrap();
        let pin = "1970-01-01T00:00:00.000000+00:00";
        assert_eq!(
            body,
            json!({"id": "5", "last_message_id": "7", "mention_count": 0, "last_pin_timestamp": pin, "flags": 1,
                "last_viewed": 4000})
        );
    }

    #[test]
    fn settings_have_every_field() {
        let mut settings = NotificationSettings::new(None);
        settings.channel_overrides = vec![ChannelOverride::new(Id::new(9))];
        settings.channel_overrides[0].mute_config = Some(MuteConfig { end_time: None, selected_time_window: Some(-1) });
        let body = serde_json::to_value(NotificationSettingsBody::from(&settings)).unwrap();
        assert_eq!(
            body,
            json!({"guild_id": null, "message_notifications": 3, "suppress_everyone": false, "suppress_roles": false,
                "mute_scheduled_events": false, "mobile_push": true, "muted": false, "mute_config": null,
                "hide_muted_channels": false, "notify_highlights": 0, "flags": 0, "version": 0,
                "channel_overrides": [{"channel_id": "9", "message_notifications": 3, "muted": false,
                    "mute_config": {"end_time": null, "selected_time_window": -1}, "collapsed": false, "flags": 0}]})
        );
    }
}
