//! A guild's base fields, roles and channels: made, changed, put into order.

use super::some;
use guildhall_model::{
    Channel, ChannelId, ChannelType, DefaultReaction, ForumTag, Guild, Id, Overwrite, Permissions, Role, RoleIcon,
    RoleId, User, UserId,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Changes to a guild's base fields; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GuildPatch {
    pub name: Option<String>,
    /// New description, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub description: Option<Option<String>>,
    pub owner_id: Option<UserId>,
    /// Where idle people in voice go, or nowhere.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub afk_channel_id: Option<Option<ChannelId>>,
    /// Seconds until then.
    pub afk_timeout: Option<u16>,
    /// Required verification, from 0 to 4.
    pub verification_level: Option<u8>,
    /// 0 all messages, 1 only mentions.
    pub default_message_notifications: Option<u8>,
    /// Scan of media, from 0 to 2.
    pub explicit_content_filter: Option<u8>,
    /// Where system messages go, or nowhere.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub system_channel_id: Option<Option<ChannelId>>,
    /// Language, like `en-US`.
    pub preferred_locale: Option<String>,
    /// Code of the vanity URL, which the caller has claimed, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub vanity_url_code: Option<Option<Box<str>>>,
    /// Whether anyone may read the widget.
    pub widget_enabled: Option<bool>,
    /// Channel that the widget names, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub widget_channel_id: Option<Option<ChannelId>>,
    /// Hash of a new icon, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub icon: Option<Option<Box<str>>>,
    /// The same of the picture behind invites.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub splash: Option<Option<Box<str>>>,
    /// The same of the picture of guild discovery.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub discovery_splash: Option<Option<Box<str>>>,
    /// The same of the picture above the channels.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub banner: Option<Option<Box<str>>>,
}

/// A guild to be made: see `Guild::create`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewGuild {
    /// The guild's own fields.
    pub guild: Guild,
    /// Its first member.
    pub owner: Arc<User>,
    /// Its roles, with ids from `Node::next_id`. Without `@everyone` that has the permissions of any new guild.
    #[serde(default)]
    pub roles: Vec<Role>,
    /// Its channels, with such ids.
    #[serde(default)]
    pub channels: Vec<Channel>,
}

impl NewGuild {
    /// Without channels.
    #[must_use]
    pub fn new(guild: Guild, owner: Arc<User>) -> Self {
        Self { guild, owner, roles: Vec::new(), channels: Vec::new() }
    }
}

/// A role to be made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewRole {
    /// From `Node::next_id`, if its picture is stored under it. The guild assigns one for `None` and for the id of an
    /// existing role.
    pub id: Option<RoleId>,
    /// 1–100 characters.
    pub name: String,
    /// RGB, 0 for none.
    pub color: u32,
    /// Whether its members are shown in a group of their own.
    pub hoist: bool,
    /// At least 1. Only the system chooses it; a member's new role is at 1.
    pub position: i32,
    pub permissions: Permissions,
    /// Whether it belongs to an integration; only the system sets it.
    pub managed: bool,
    /// All members may mention it.
    pub mentionable: bool,
    pub icon: Option<RoleIcon>,
}

/// Changes to a role; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RolePatch {
    pub name: Option<String>,
    /// RGB, 0 for none.
    pub color: Option<u32>,
    /// Whether its members are shown in a group of their own.
    pub hoist: Option<bool>,
    /// New position.
    pub position: Option<i32>,
    /// New permissions.
    pub permissions: Option<Permissions>,
    /// Whether all members may mention it.
    pub mentionable: Option<bool>,
    /// New icon, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub icon: Option<Option<RoleIcon>>,
}

/// Changes to a channel; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelPatch {
    pub name: Option<String>,
    /// New topic, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub topic: Option<Option<String>>,
    /// New position.
    pub position: Option<i32>,
    /// New category, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<Option<ChannelId>>,
    /// Age-restricted.
    pub nsfw: Option<bool>,
    /// Slow mode, seconds.
    pub rate_limit_per_user: Option<u16>,
    /// Most people in voice.
    pub user_limit: Option<u16>,
    /// All overwrites.
    pub overwrites: Option<Vec<Overwrite>>,
    /// Of a thread: no new messages.
    pub archived: Option<bool>,
    /// Of a thread: only moderators open it again.
    pub locked: Option<bool>,
    /// Of a thread: minutes until clients hide it.
    pub auto_archive_duration: Option<u16>,
    /// Of a private thread: its members bring others in.
    pub invitable: Option<bool>,
    /// Of a post: its tags.
    pub applied_tags: Option<Vec<Id<()>>>,
    /// Of a voice channel: bits per second.
    pub bitrate: Option<u32>,
    /// Slow mode that new threads start with, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub default_thread_rate_limit_per_user: Option<Option<u16>>,
    /// Minutes until clients hide a new thread, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub default_auto_archive_duration: Option<Option<u16>>,
    /// Of a forum: all its tags. Id 0 marks a new one.
    pub available_tags: Option<Vec<ForumTag>>,
    /// Of a forum: the emoji of the reaction button, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub default_reaction_emoji: Option<Option<DefaultReaction>>,
    /// Of a forum: order of its posts, or the client's own.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub default_sort_order: Option<Option<u8>>,
    /// Of a forum: list or gallery.
    pub default_forum_layout: Option<u8>,
    /// Of a forum: its channel flags, masked to those that can be set.
    pub forum_flags: Option<u32>,
    /// New owner of a group.
    pub owner_id: Option<UserId>,
}

/// Where a channel is to be; `None` leaves it there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChannelMove {
    pub id: ChannelId,
    /// Its new place.
    pub position: Option<i32>,
    /// Its new category, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<Option<ChannelId>>,
    /// It gets its category's overwrites.
    pub lock_permissions: bool,
}

/// A channel to be made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewChannel {
    /// 1–100 characters.
    pub name: String,
    /// Type of the channel.
    pub kind: ChannelType,
    pub topic: Option<String>,
    /// Its category.
    pub parent_id: Option<ChannelId>,
    /// Its place; none: last.
    pub position: Option<i32>,
    /// Permission overwrites of roles and members.
    pub overwrites: Vec<Overwrite>,
    /// Most people in voice, 0 for no limit.
    pub user_limit: u16,
}
