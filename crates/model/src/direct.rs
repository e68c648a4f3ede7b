//! Direct messages: channels of accounts, without a guild around them.
//!
//! Spec  docs/protocol/reference.md §6.4; ADR 25.

use crate::{
    channel::ChannelType,
    id::{MessageId, UserId},
    user::User,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Fields of direct messages and groups only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectFields {
    /// Account that may remove others from a group. None for a direct message between two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<UserId>,
    /// Accounts that closed the channel. It is hidden from them until the next message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed_by: Vec<UserId>,
}

/// A direct message or a group with its recipients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Direct {
    /// The channel, including the id of its newest message.
    pub channel: Arc<crate::Channel>,
    /// All accounts in the channel, sorted by id.
    pub recipients: Arc<[Arc<User>]>,
}

impl Direct {
    /// Accounts in a group, including its creator. 10 as upstream.
    pub const RECIPIENTS_MAX: usize = 10;

    /// Is a group, whatever its number of recipients.
    #[must_use]
    pub fn is_group(&self) -> bool {
        self.channel.kind == ChannelType::GroupDm
    }

    /// Sort key of channel lists: the id of the newest message, or of the channel if it has no message.
    #[must_use]
    pub fn newest_activity(&self) -> u64 {
        self.channel.last_message_id.map_or(self.channel.id.get(), MessageId::get)
    }

    /// The account has not closed the channel.
    #[must_use]
    pub fn is_open_for(&self, user_id: UserId) -> bool {
        let is_in = self.recipients.iter().any(|user| user.id == user_id);
        is_in && self.channel.direct.as_ref().is_none_or(|direct| !direct.closed_by.contains(&user_id))
    }
}
