//! Interactions: objects that their checks read from a guild, and the messages that answer them.

use super::{MessagePatch, NewMessage};
use guildhall_model::{
    Channel, ChannelId, Guild, Id, Member, MessageId, MessageInteraction, Permissions, Role, RoleId, UserId,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Most objects of each kind that one interaction names.
pub const RESOLVED_MAX: usize = 25;

/// Query for the objects of an interaction of the actor: for its checks, and for its description to the application.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InteractionQuery {
    /// Bot account of the application.
    pub application: UserId,
    /// Accounts that the interaction names.
    pub users: Vec<UserId>,
    /// Roles that it names.
    pub roles: Vec<RoleId>,
    /// Channels that it names.
    pub channels: Vec<ChannelId>,
}

/// The answer: of these objects those that the actor may view.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InteractionContext {
    pub channel: Arc<Channel>,
    /// None: a direct message.
    pub guild: Option<Arc<Guild>>,
    /// The actor's member; none in a direct message.
    pub member: Option<Arc<Member>>,
    /// The actor's permissions in the channel.
    pub permissions: Permissions,
    /// Permissions of the application's bot there. None: it is not a member.
    pub application_permissions: Option<Permissions>,
    /// A time-out or a quarantine of the actor is in force.
    pub is_silenced: bool,
    /// Those accounts that are members, with their permissions in the channel.
    pub members: Vec<(Arc<Member>, Permissions)>,
    /// Those roles that exist.
    pub roles: Vec<Arc<Role>>,
    /// Those channels and threads that the actor can view, with the actor's permissions there.
    pub channels: Vec<(Arc<Channel>, Permissions)>,
}

/// A message that answers an interaction. Lengths and counts were checked by the caller.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Response {
    /// Bot account of the application, which is the author.
    pub application: UserId,
    pub interaction: Box<MessageInteraction>,
    pub message: NewMessage,
    /// Type of the message, unless it answers another one.
    pub kind: u8,
    /// The message that it answers, in the same channel. Without it the message has type `kind`.
    pub reply_to: Option<MessageId>,
    /// The application has not answered yet: the message is empty and marked as loading.
    pub is_deferred: bool,
}

/// Changes to a message of an application that answers an interaction, or that has the used component.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResponsePatch {
    /// Bot account of the application, which is the author.
    pub application: UserId,
    /// The interaction that it answers. None: the caller knows that the message belongs to it otherwise.
    pub interaction: Option<Id<()>>,
    pub patch: MessagePatch,
}
