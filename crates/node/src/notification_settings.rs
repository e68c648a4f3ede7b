//! Notification settings of accounts, one object per guild, and one for direct messages.
//!
//! Doors       `Node::notification_settings`, `change_notification_settings`, `remove_notification_settings`.
//! Invariants  F1 of two changes neither undoes the other: a change is applied to what is stored now. F2 an event
//!             follows the commit. (tests `f1_*` in `tests/it/read_states.rs`)
//! Limits      `OVERRIDES_MAX` channels per object; a change that needs more is refused. `OBJECTS_MAX` objects in
//!             READY, by guild id. `ATTEMPTS_MAX` if others change the same settings.
//! Spec        ADR 51.

use crate::Node;
use guildhall_model::{
    ChannelId, ChannelOverride, GuildId, MuteConfig, NotificationSettings, UserId,
    from_gateway::NotificationSettingsBody,
};
use guildhall_store::StoreError;

/// Kind of the records; the id is the account's and the guild's, 0 for direct messages.
const KIND: &str = "notification-settings";
/// Channels with settings of their own, in one guild.
pub const OVERRIDES_MAX: usize = 500;
/// Objects of an account that READY has.
const OBJECTS_MAX: usize = 1_000;
/// Read at once.
const PAGE: u32 = 256;
const ATTEMPTS_MAX: u32 = 10;

/// A change of settings. Fields that are none stay as they are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotificationChange {
    pub message_notifications: Option<u8>,
    pub suppress_everyone: Option<bool>,
    pub suppress_roles: Option<bool>,
    pub mute_scheduled_events: Option<bool>,
    pub mobile_push: Option<bool>,
    pub muted: Option<bool>,
    pub mute_config: Option<Option<MuteConfig>>,
    pub hide_muted_channels: Option<bool>,
    pub notify_highlights: Option<u8>,
    pub flags: Option<u32>,
    pub channel_overrides: Vec<(ChannelId, OverrideChange)>,
}

/// A change of the settings of one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverrideChange {
    pub message_notifications: Option<u8>,
    pub muted: Option<bool>,
    pub mute_config: Option<Option<MuteConfig>>,
    pub collapsed: Option<bool>,
    pub flags: Option<u32>,
}

impl OverrideChange {
    fn apply(&self, to: &mut ChannelOverride) {
        let Self { message_notifications, muted, mute_config, collapsed, flags } = *self;
        to.message_notifications = message_notifications.unwrap_or(to.message_notifications);
        to.muted = muted.unwrap_or(to.muted);
        to.mute_config = mute_config.unwrap_or(to.mute_config);
        to.collapsed = collapsed.unwrap_or(to.collapsed);
        to.flags = flags.unwrap_or(to.flags);
    }
}

impl NotificationChange {
    fn apply(&self, to: &mut NotificationSettings) {
        // Without `..`, so that a new field cannot be forgotten.
        let Self {
            message_notifications,
            suppress_everyone,
            suppress_roles,
            mute_scheduled_events,
            mobile_push,
            muted,
            mute_config,
            hide_muted_channels,
            notify_highlights,
            flags,
            channel_overrides,
        } = self;
        to.message_notifications = message_notifications.unwrap_or(to.message_notifications);
        to.suppress_everyone = suppress_everyone.unwrap_or(to.suppress_everyone);
        to.suppress_roles = suppress_roles.unwrap_or(to.suppress_roles);
        to.mute_scheduled_events = mute_scheduled_events.unwrap_or(to.mute_scheduled_events);
        to.mobile_push = mobile_push.unwrap_or(to.mobile_push);
        to.muted = muted.unwrap_or(to.muted);
        to.mute_config = mute_config.unwrap_or(to.mute_config);
        to.hide_muted_channels = hide_muted_channels.unwrap_or(to.hide_muted_channels);
        to.notify_highlights = notify_highlights.unwrap_or(to.notify_highlights);
        to.flags = flags.unwrap_or(to.flags);
        for (channel_id, change) in channel_overrides {
            let at = match to.channel_overrides.binary_search_by_key(channel_id, |of| of.channel_id) {
                Ok(at) => at,
                Err(at) => {
                    to.channel_overrides.insert(at, ChannelOverride::new(*channel_id));
                    at
                }
            };
            change.apply(&mut to.channel_overrides[at]);
        }
        to.channel_overrides.retain(|of| *of != ChannelOverride::new(of.channel_id));
    }
}

/// Outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotificationsChanged {
    Changed(NotificationSettings),
    /// More than `OVERRIDES_MAX` channels would have settings of their own.
    TooManyOverrides,
    /// Others changed them all the time: the client may try again.
    Contended,
}

fn record_id(user_id: UserId, guild_id: Option<GuildId>) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&user_id.get().to_be_bytes());
    id[8..].copy_from_slice(&guild_id.map_or(0, GuildId::get).to_be_bytes());
    id
}

fn decode(data: &[u8]) -> Result<NotificationSettings, StoreError> {
    serde_json::from_slice(data).map_err(|source| StoreError::Corrupt { what: "notification settings", source })
}

impl Node {
    /// Settings of an account, by guild, those of direct messages first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn notification_settings(&self, user_id: UserId) -> Result<Vec<NotificationSettings>, StoreError> {
        let prefix = user_id.get().to_be_bytes();
        // In front of the account's first record: an id that is a prefix of others sorts before them.
        let mut after = prefix.to_vec();
        let mut all = Vec::new();
        loop {
            let page = self.inner.store.records(KIND, &after, PAGE).await?;
            let is_last = page.len() < PAGE as usize;
            for (id, data) in page {
                if !id.starts_with(&prefix) || all.len() >= OBJECTS_MAX {
                    return Ok(all);
                }
                all.push(decode(&data)?);
                after = id;
            }
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Changes settings, durably, and sends them to the account's sessions.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn change_notification_settings(
        &self,
        user_id: UserId,
        guild_id: Option<GuildId>,
        change: &NotificationChange,
    ) -> Result<NotificationsChanged, StoreError> {
        let id = record_id(user_id, guild_id);
        for _ in 0..ATTEMPTS_MAX {
            let stored = self.inner.store.record(KIND, &id).await?;
            let before = stored.as_deref().map(decode).transpose()?;
            let mut settings = before.unwrap_or_else(|| NotificationSettings::new(guild_id));
            change.apply(&mut settings);
            if settings.channel_overrides.len() > OVERRIDES_MAX {
                return Ok(NotificationsChanged::TooManyOverrides);
            }
            settings.version += 1;
            let data = serde_json::to_vec(&settings);
            let data = data.map_err(|source| StoreError::Encode { what: "notification settings", source })?;
            if self.inner.store.swap_record(KIND, &id, stored.as_deref(), Some(&data)).await? {
                let body = NotificationSettingsBody::from(&settings);
                self.publish_to_account(user_id, "USER_GUILD_SETTINGS_UPDATE", &body);
                return Ok(NotificationsChanged::Changed(settings));
            }
        }
        Ok(NotificationsChanged::Contended)
    }

    /// Removes all settings of an account.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn remove_notification_settings(&self, user_id: UserId) -> Result<(), StoreError> {
        let prefix = user_id.get().to_be_bytes();
        loop {
            let page = self.inner.store.records(KIND, &prefix, PAGE).await?;
            let own: Vec<Vec<u8>> = page.into_iter().map(|(id, _)| id).filter(|id| id.starts_with(&prefix)).collect();
            if own.is_empty() {
                return Ok(());
            }
            for id in own {
                self.inner.store.delete_record(KIND, &id).await?;
            }
        }
    }
}
