//! Input of commands that create threads and list archived ones.

use super::NewMessage;
use guildhall_model::{ChannelId, ChannelType, Id, MessageId};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};

/// A new thread.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NewThread {
    /// 1–100 characters.
    pub name: String,
    /// Message to start from; the thread gets its id.
    pub from: Option<MessageId>,
    /// Channel type; none: the default of the parent channel.
    pub kind: Option<ChannelType>,
    /// Minutes of inactivity until clients hide it; none: the parent's default, else three days.
    pub auto_archive_duration: Option<u16>,
    /// Private threads: members may add others.
    pub invitable: bool,
    /// Slow mode in seconds; none: the parent's default.
    pub rate_limit_per_user: Option<u16>,
    /// First message of a forum post; required there, not allowed elsewhere.
    pub message: Option<Box<NewMessage>>,
    /// Tags of a forum post.
    pub applied_tags: Vec<Id<()>>,
}

/// Query for archived threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedThreads {
    /// List private instead of public threads.
    pub are_private: bool,
    /// Only threads that the actor joined.
    pub are_own: bool,
    /// Only threads archived before this time.
    pub before: Option<Timestamp>,
    /// Only threads with a smaller id. The actor's own are ordered by descending id, as upstream; others by the time
    /// of their archival.
    pub before_id: Option<ChannelId>,
    /// Maximum number of results.
    pub limit: usize,
}
