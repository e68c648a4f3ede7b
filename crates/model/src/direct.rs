//! Direct messages: channels of accounts, without a guild around them.
//!
//! Spec  docs/protocol.md §6.4; ADR 25.

use crate::{
    channel::ChannelType,
    id::{MessageId, UserId},
    user::User,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What only direct messages and groups have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectFields {
    /// Who may throw others out of a group. None between two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<UserId>,
    /// Who has closed it: they are not told that it is there until something is said in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed_by: Vec<UserId>,
}

/// A direct message or a group, with who is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Itself, with its newest message's id.
    pub channel: Arc<crate::Channel>,
    /// Everybody in it, by id.
    pub recipients: Arc<[Arc<User>]>,
}

impl Direct {
    /// People in a group, whoever made it among them. 10 as upstream.
    pub const RECIPIENTS_MAX: usize = 10;

    /// It is a group, however many are in it.
    #[must_use]
    pub fn is_group(&self) -> bool {
        self.channel.kind == ChannelType::GroupDm
    }

    /// Sort key of lists: the id of the newest message, or of the channel if it has no message.
    #[must_use]
    pub fn newest_activity(&self) -> u64 {
        self.channel.last_message_id.map_or(self.channel.id.get(), MessageId::get)
    }

    /// The account has it in their list.
    #[must_use]
    pub fn is_open_for(&self, user_id: UserId) -> bool {
        let is_in = self.recipients.iter().any(|user| user.id == user_id);
        is_in && self.channel.direct.as_ref().is_none_or(|direct| !direct.closed_by.contains(&user_id))
    }
}
