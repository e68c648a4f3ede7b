//! Threads: the extra fields of a thread, and its members.
//!
//! Spec  docs/protocol/reference.md §6.5, §7.2.

use crate::id::{ChannelId, UserId};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};

/// Fields of threads only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadFields {
    /// Creator: an account or a webhook.
    pub owner_id: UserId,
    /// Archived: read-only until it is reopened.
    #[serde(default)]
    pub archived: bool,
    /// Time at which it was last archived or reopened; initially its creation time.
    pub archive_timestamp: Timestamp,
    /// Minutes of inactivity after which clients hide it: 60, 1440, 4320 or 10080.
    pub auto_archive_duration: u16,
    /// Only moderators may reopen it.
    #[serde(default)]
    pub locked: bool,
    /// For private threads: members without moderator permissions may add others.
    #[serde(default)]
    pub invitable: bool,
    /// Current number of messages, without the starter message.
    #[serde(default)]
    pub message_count: u32,
    /// Number of messages ever sent.
    #[serde(default)]
    pub total_message_sent: u32,
    /// Tags from the parent forum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied_tags: Vec<crate::id::Id<()>>,
}

/// Membership of one account in a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadMember {
    pub thread_id: ChannelId,
    pub user_id: UserId,
    pub join_timestamp: Timestamp,
    /// Notification settings, chosen by the client.
    #[serde(default)]
    pub flags: u32,
}
