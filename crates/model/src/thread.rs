//! Threads: what a channel has only if it is one, and who joined it.
//!
//! Spec  docs/protocol.md §6.5, §7.2.

use crate::id::{ChannelId, UserId};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};

/// What a thread has and other channels have not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadFields {
    /// Who began it; a user, or a webhook.
    pub owner_id: UserId,
    /// Nobody writes in it until it is opened again.
    #[serde(default)]
    pub archived: bool,
    /// When it was last archived or opened, or else created.
    pub archive_timestamp: Timestamp,
    /// Minutes without a message after which clients hide it: 60, 1440, 4320 or 10080.
    pub auto_archive_duration: u16,
    /// Only moderators open it again.
    #[serde(default)]
    pub locked: bool,
    /// Of a private thread: members who are no moderators may add others.
    #[serde(default)]
    pub invitable: bool,
    /// Messages now, without the one it began with.
    #[serde(default)]
    pub message_count: u32,
    /// Messages ever.
    #[serde(default)]
    pub total_message_sent: u32,
    /// Tags of the forum it is in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied_tags: Vec<crate::id::Id<()>>,
}

/// Somebody who joined a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadMember {
    /// Which thread.
    pub thread_id: ChannelId,
    /// Who.
    pub user_id: UserId,
    /// Since when.
    pub join_timestamp: Timestamp,
    /// The client's own notification settings.
    #[serde(default)]
    pub flags: u32,
}
