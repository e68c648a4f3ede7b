//! Retention: the age of the oldest message of each channel, and its limit.
//!
//! Owns        the results of `Store::message_ages` and `Store::expire_messages`.
//! Not here    the setting, the clock, and the command to the guild before a deletion: `guildhall-node`.

use guildhall_model::{ChannelId, GuildId, MessageId};

/// A channel, thread or direct message, and its oldest message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageAge {
    pub channel_id: ChannelId,
    /// Its guild; of a direct message what holds it.
    pub guild_id: GuildId,
    /// None: there are no messages.
    pub oldest: Option<MessageId>,
    /// As set for the channel, else for the channel that its thread is in, else for its guild. None: by the
    /// node's setting.
    pub keep_days: Option<u32>,
}

/// Result of one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Messages; none while their reactions are deleted first.
    pub messages: u64,
    /// There are no further ones.
    pub is_done: bool,
}
