//! Direct messages: made, and their own commands.

use guildhall_model::{ChannelId, User, UserId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A direct message or a group to be made: see `Guild::create_direct`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewDirect {
    /// Its id, which what holds it has too.
    pub id: ChannelId,
    /// The creator and the others: at most `Direct::RECIPIENTS_MAX`.
    pub recipients: Vec<Arc<User>>,
    /// Whether it is a group, whatever the number of recipients.
    pub is_group: bool,
}

/// Commands that only direct messages have.
#[derive(Clone, Debug, strum::EnumDiscriminants, Serialize, Deserialize)]
#[strum_discriminants(
    name(DirectKind),
    derive(strum::VariantNames),
    strum(serialize_all = "snake_case"),
    allow(missing_docs),
    doc = "Kind of a direct message's command, for time accounting."
)]
pub enum DirectCommand {
    /// The actor wants it in their list.
    Open,
    /// Adds a user to a group.
    AddRecipient(Arc<User>),
    /// Removes a user from a group (owner only).
    RemoveRecipient(UserId),
}
