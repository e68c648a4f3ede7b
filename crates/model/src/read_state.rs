//! Read states: how far an account has read its channels, and what mentions it since.
//!
//! Spec  docs/protocol/reference.md §6.12.

use crate::id::{ChannelId, MessageId, RoleId};
use guildhall_stdx::Timestamp;

/// How far an account has read a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadState {
    pub channel_id: ChannelId,
    /// The newest message that was read; 0: none.
    pub last_message_id: MessageId,
    /// Time of the newest pin that was seen.
    pub last_pin_timestamp: Option<Timestamp>,
    /// Flags that the client sent.
    pub flags: u32,
    /// Day on which the client last showed the channel, counted from 2015-01-01; 0: not stated.
    pub last_viewed: u32,
}

impl ReadState {
    /// Nothing was read.
    #[must_use]
    pub fn new(channel_id: ChannelId) -> Self {
        Self { channel_id, last_message_id: MessageId::new(0), last_pin_timestamp: None, flags: 0, last_viewed: 0 }
    }
}

/// By what a message mentions an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MentionTarget {
    /// The account itself.
    User,
    /// One of its roles; `@everyone` and `@here` are the role with the guild's id.
    Role(RoleId),
}

/// A message that mentions an account, and that it has not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnreadMention {
    pub channel_id: ChannelId,
    pub message_id: MessageId,
    pub target: MentionTarget,
}
