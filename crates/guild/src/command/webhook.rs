//! Webhooks: made, changed, and what they post.

use super::{Actor, NewMessage, some};
use guildhall_model::{ChannelId, Id, WebhookId, WebhookSource};
use serde::{Deserialize, Serialize};

/// Which of a guild's webhooks, and by what right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WebhookAccess {
    /// An account with MANAGE_WEBHOOKS.
    Actor(Actor),
    /// A caller with the webhook's token.
    Token(String),
}

impl WebhookAccess {
    /// Actor for the audit log. A webhook's token names no account.
    pub(crate) fn actor(&self) -> Actor {
        if let Self::Actor(actor) = self { *actor } else { Actor::System }
    }
}

/// A webhook to be made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewWebhook {
    /// From `Node::next_id`, if its picture is kept under it. None: the guild takes one.
    pub id: Option<WebhookId>,
    /// What its messages are signed with.
    pub name: String,
    /// Hash of the picture.
    pub avatar: Option<String>,
    /// Unguessable.
    pub token: String,
}

/// Changes to a webhook; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WebhookPatch {
    pub name: Option<String>,
    /// New picture, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub avatar: Option<Option<String>>,
    /// Where it posts from now on; not by token.
    pub channel_id: Option<ChannelId>,
}

/// Something to be posted by a webhook. Lengths and counts were checked by the caller.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WebhookPost {
    pub message: NewMessage,
    /// Signed with this instead.
    pub username: Option<String>,
    /// With this picture instead.
    pub avatar: Option<String>,
    /// Into this thread of its channel.
    pub thread_id: Option<ChannelId>,
    /// As the first message of a post of this name, in a forum.
    pub thread_name: Option<String>,
    /// Tags of that post.
    #[serde(default)]
    pub applied_tags: Vec<Id<()>>,
}

/// The webhook by which a channel follows an announcement channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewFollow {
    pub id: WebhookId,
    /// The caller has checked that the actor can view it.
    pub source: Box<WebhookSource>,
}
