//! Threads that are begun, and which closed ones are asked for.

use super::NewMessage;
use guildhall_model::{ChannelType, Id, MessageId};
use guildhall_stdx::Timestamp;

/// A thread to be begun.
#[derive(Clone, Debug, Default)]
pub struct NewThread {
    /// 1–100 characters.
    pub name: String,
    /// From this message, whose id it gets.
    pub from: Option<MessageId>,
    /// What kind; none: what the channel has.
    pub kind: Option<ChannelType>,
    /// Minutes until clients hide it; none: as the channel says, or else three days.
    pub auto_archive_duration: Option<u16>,
    /// Of a private one: its members bring others in.
    pub invitable: bool,
    /// Slow mode, seconds; none: as the channel says.
    pub rate_limit_per_user: Option<u16>,
    /// What a post of a forum begins with; there, and only there, it must be.
    pub message: Option<Box<NewMessage>>,
    /// Of a post: its tags.
    pub applied_tags: Vec<Id<()>>,
}

/// Which closed threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchivedThreads {
    /// Private ones instead of public ones.
    pub are_private: bool,
    /// Only those that the actor is in.
    pub are_own: bool,
    /// Those that were closed before.
    pub before: Option<Timestamp>,
    /// At most so many.
    pub limit: usize,
}
