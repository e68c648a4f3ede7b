//! Channels and their permission overwrites.
//!
//! Spec  docs/protocol/reference.md §6.4, §6.5.

use crate::{
    direct::DirectFields,
    forum::ForumFields,
    id::{ChannelId, GuildId, MessageId, RoleId, UserId},
    permissions::Permissions,
    thread::ThreadFields,
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

macro_rules! channel_types {
    ($($(#[$doc:meta])* $n:literal $name:ident),* $(,)?) => {
        /// Channel type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum ChannelType { $($(#[$doc])* $name = $n,)* }

        impl ChannelType {
            /// The type with this number on the wire.
            #[must_use]
            pub const fn from_wire(n: u8) -> Option<Self> {
                match n { $($n => Some(Self::$name),)* _ => None }
            }
        }
    };
}
channel_types! {
    /// Text channel of a guild.
    0 Text,
    /// Direct message between two accounts.
    1 Dm,
    /// Voice, with a text chat of its own.
    2 Voice,
    /// Direct messages between several accounts.
    3 GroupDm,
    /// Groups other channels under a heading.
    4 Category,
    /// Text channel that other guilds can follow.
    5 Announcement,
    /// Thread in an announcement channel.
    10 AnnouncementThread,
    /// Thread that everyone with access to the parent channel can see.
    11 PublicThread,
    /// Thread for invited members.
    12 PrivateThread,
    /// Voice channel with speakers and an audience.
    13 Stage,
    /// Directory of guilds.
    14 Directory,
    /// Forum: contains only threads.
    15 Forum,
    /// Forum for media: contains only threads.
    16 Media,
}

impl ChannelType {
    /// Messages can be posted directly into it.
    #[must_use]
    pub const fn holds_messages(self) -> bool {
        !matches!(self, Self::Category | Self::Directory | Self::Forum | Self::Media)
    }

    /// Contains posts, which are threads, and no messages of its own.
    #[must_use]
    pub const fn holds_posts(self) -> bool {
        matches!(self, Self::Forum | Self::Media)
    }

    /// Users can connect to it by voice.
    #[must_use]
    pub const fn is_voice(self) -> bool {
        matches!(self, Self::Voice | Self::Stage)
    }

    /// Belongs to no guild.
    #[must_use]
    pub const fn is_direct(self) -> bool {
        matches!(self, Self::Dm | Self::GroupDm)
    }

    /// Is a thread of another channel.
    #[must_use]
    pub const fn is_thread(self) -> bool {
        matches!(self, Self::AnnouncementThread | Self::PublicThread | Self::PrivateThread)
    }
}

impl Serialize for ChannelType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(*self as u8)
    }
}

impl<'de> Deserialize<'de> for ChannelType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let n = u8::deserialize(deserializer)?;
        Self::from_wire(n).ok_or_else(|| D::Error::custom(format_args!("{n} is not a channel type")))
    }
}

/// Role or member that an overwrite applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverwriteKind {
    /// Members with this role.
    Role(RoleId),
    /// This member only.
    Member(UserId),
}

/// Permissions that a channel grants or denies to a role or a member, on top of the guild's permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overwrite {
    pub target: OverwriteKind,
    /// Permissions granted in this channel.
    pub allow: Permissions,
    /// Permissions denied in this channel; `allow` wins within the same step.
    pub deny: Permissions,
}

/// A channel of a guild, or a direct message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    pub id: ChannelId,
    /// The guild it belongs to. A direct message has a guild of its own with the same id (ADR 25).
    pub guild_id: GuildId,
    #[serde(rename = "type")]
    pub kind: ChannelType,
    /// 1–100 characters.
    pub name: String,
    /// Sort key: `(position, id)`, ascending.
    #[serde(default)]
    pub position: i32,
    /// Permission overwrites of roles and members.
    #[serde(default)]
    pub overwrites: Vec<Overwrite>,
    /// Parent category, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<ChannelId>,
    /// Description shown above the messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Age-restricted.
    #[serde(default)]
    pub nsfw: bool,
    /// Id of the newest message, which may have been deleted since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message_id: Option<MessageId>,
    /// Time of the latest pin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pin_timestamp: Option<Timestamp>,
    /// Seconds a member must wait between messages, 0–21600.
    #[serde(default)]
    pub rate_limit_per_user: u16,
    /// Bits per second, voice only.
    #[serde(default)]
    pub bitrate: u32,
    /// Most people at once, voice only; 0 for no limit.
    #[serde(default)]
    pub user_limit: u16,
    /// Slow mode that new threads of the channel start with, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_thread_rate_limit_per_user: Option<u16>,
    /// Minutes after which clients hide a new thread, unless its creator sets another time: 60, 1440, 4320 or 10080.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_auto_archive_duration: Option<u16>,
    /// Set for forum and media channels only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forum: Option<Box<ForumFields>>,
    /// Set for threads only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<Box<ThreadFields>>,
    /// Set for direct messages only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<Box<DirectFields>>,
}

impl Channel {
    /// An empty channel.
    #[must_use]
    pub fn new(id: ChannelId, guild_id: GuildId, kind: ChannelType, name: &str) -> Self {
        Self {
            id,
            guild_id,
            kind,
            name: name.to_owned(),
            position: 0,
            overwrites: Vec::new(),
            parent_id: None,
            topic: None,
            nsfw: false,
            last_message_id: None,
            last_pin_timestamp: None,
            rate_limit_per_user: 0,
            bitrate: if kind.is_voice() { 64_000 } else { 0 },
            user_limit: 0,
            default_thread_rate_limit_per_user: None,
            default_auto_archive_duration: None,
            forum: None,
            thread: None,
            direct: None,
        }
    }
}
