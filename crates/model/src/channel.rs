//! Channels and their permission overwrites.
//!
//! Spec  docs/protocol.md §6.4, §6.5.

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
        /// What kind of channel it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum ChannelType { $($(#[$doc])* $name = $n,)* }

        impl ChannelType {
            /// The kind with this number on the wire.
            #[must_use]
            pub const fn from_wire(n: u8) -> Option<Self> {
                match n { $($n => Some(Self::$name),)* _ => None }
            }
        }
    };
}
channel_types! {
    /// Text.
    0 Text,
    /// Direct message between two accounts.
    1 Dm,
    /// Voice, with a text chat of its own.
    2 Voice,
    /// Direct messages between several accounts.
    3 GroupDm,
    /// A heading over channels.
    4 Category,
    /// Text that other guilds can follow.
    5 Announcement,
    /// Thread in an announcement channel.
    10 AnnouncementThread,
    /// Thread that everybody who sees the parent sees.
    11 PublicThread,
    /// Thread for invited members.
    12 PrivateThread,
    /// Voice with an audience.
    13 Stage,
    /// Directory of guilds.
    14 Directory,
    /// Only threads.
    15 Forum,
    /// Only threads, about media.
    16 Media,
}

impl ChannelType {
    /// Messages can be written straight into it.
    #[must_use]
    pub const fn holds_messages(self) -> bool {
        !matches!(self, Self::Category | Self::Directory | Self::Forum | Self::Media)
    }

    /// It holds posts, which are threads, and no messages of its own.
    #[must_use]
    pub const fn holds_posts(self) -> bool {
        matches!(self, Self::Forum | Self::Media)
    }

    /// People can connect to it by voice.
    #[must_use]
    pub const fn is_voice(self) -> bool {
        matches!(self, Self::Voice | Self::Stage)
    }

    /// It is no guild's.
    #[must_use]
    pub const fn is_direct(self) -> bool {
        matches!(self, Self::Dm | Self::GroupDm)
    }

    /// It is a thread inside another channel.
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

/// Whom an overwrite is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverwriteKind {
    /// Everybody with the role.
    Role(RoleId),
    /// One member.
    Member(UserId),
}

/// What a channel allows and denies to a role or a member, over what the guild says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overwrite {
    /// Whom it is about.
    pub target: OverwriteKind,
    /// Granted here.
    pub allow: Permissions,
    /// Taken away here; `allow` wins within the same step.
    pub deny: Permissions,
}

/// A channel of a guild, or a direct message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// Its id.
    pub id: ChannelId,
    /// The guild it belongs to. A direct message is kept in one of its own, with the same id.
    pub guild_id: GuildId,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: ChannelType,
    /// 1–100 characters.
    pub name: String,
    /// Order: `(position, id)` ascending.
    #[serde(default)]
    pub position: i32,
    /// Who may do what here.
    #[serde(default)]
    pub overwrites: Vec<Overwrite>,
    /// The category, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<ChannelId>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Age-restricted.
    #[serde(default)]
    pub nsfw: bool,
    /// The newest message; may have been deleted since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message_id: Option<MessageId>,
    /// When something was last pinned.
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
    /// Minutes after which clients hide a new thread, unless its creator says otherwise: 60, 1440, 4320 or 10080.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_auto_archive_duration: Option<u16>,
    /// What only forum and media channels have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forum: Option<Box<ForumFields>>,
    /// What only threads have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<Box<ThreadFields>>,
    /// What only direct messages have.
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
