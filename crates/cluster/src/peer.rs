//! Peer: messages between two nodes, in order on one stream for each direction.

use crate::node::Incarnation;
use guildhall_guild::{Actor, Command, NewDirect, NewGuild, Refusal, Reply};
use guildhall_guild_protocol::{Published, RelayId, RelayMessage, ToGuild};
use guildhall_model::{ChannelId, GuildId, User, UserId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A request of one node, unique in its incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// Result of a command.
pub type Answer = Result<Reply, Refusal>;

/// A guild or direct message to create if it does not exist.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Creation {
    Guild(Box<NewGuild>),
    Direct(NewDirect),
}

/// Input of a guild.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum GuildInput {
    /// A command; its answer names the request.
    Command { request: RequestId, actor: Actor, command: Box<Command> },
    /// Creates the guild, as a command does.
    Create { request: RequestId, creation: Creation },
    /// A relay's message.
    Relay(ToGuild),
    /// A relay begins again: the guild forgets it with its sessions, and sends a snapshot that resets them. The guild has
    /// another owner than before, or messages between the two nodes were lost.
    Reset { relay: RelayId, epoch: u32 },
}

impl GuildInput {
    /// The request that waits for an answer.
    #[must_use]
    pub fn request(&self) -> Option<RequestId> {
        match self {
            Self::Command { request, .. } | Self::Create { request, .. } => Some(*request),
            Self::Relay(_) | Self::Reset { .. } => None,
        }
    }
}

/// Entry of the directory that a durable write changed: other nodes read it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirectoryChange {
    ChannelPut(ChannelId, GuildId),
    ChannelGone(ChannelId),
    GuildGone(GuildId),
    User(UserId),
}

/// Recipient of a guild's message: its place in the relay's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayPlace {
    pub relay: RelayId,
    pub epoch: u32,
    pub seq: u64,
}

impl PeerMessage {
    /// Whether it may be sent on a stream that has not begun.
    #[must_use]
    pub fn is_control(&self) -> bool {
        matches!(self, Self::Hello { .. } | Self::Welcome { .. } | Self::Lost { .. })
    }
}

/// Why a relay's message was dropped. The relay has to be reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotServed {
    /// The guild has another owner.
    Owner,
    /// The guild's mailbox was full.
    Full,
}

/// Message of one node to another. `Hello`, `Welcome` and `Lost` may come on a stream that has not begun.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PeerMessage {
    /// Asks for a new stream, which has the number of the one that this comes on; repeated until there is a `Welcome`. What
    /// was sent on an earlier one and has not arrived is lost. Another process that has the number of `to`, because it does
    /// not know that it lost it, ignores this.
    Hello { to: Incarnation },
    /// The receiver's stream of this number has begun: other messages may follow.
    Welcome { stream: u64 },
    /// Nothing else was sent for a while: the number of its frame shows a loss.
    Beat,
    /// The sender of this misses messages of that stream, and ignores the rest of it: a new one has to begin.
    Lost { stream: u64 },
    /// To a guild that the receiver owns.
    ToGuild { guild_id: GuildId, input: GuildInput },
    /// The receiver does not own the guild of this request, which was not carried out.
    NotOwner { guild_id: GuildId, request: RequestId },
    /// A message of the receiver's relay was dropped.
    NotServed { guild_id: GuildId, relay: RelayId, reason: NotServed },
    /// The sender has dropped a guild from memory, with the relays of the receiver.
    Released { guild_id: GuildId },
    /// What became of a request.
    Answer { request: RequestId, answer: Box<Answer> },
    /// A guild's message to relays of the receiver.
    ToRelays { guild_id: GuildId, relays: Vec<RelayPlace>, message: RelayMessage },
    /// An event for sessions of the accounts that its audience names.
    Users(Arc<Published>),
    /// An account joined a guild.
    Joined { user_id: UserId, guild_id: GuildId },
    /// An account changed.
    UserChanged(Arc<User>),
    /// Entries of the directory changed.
    Changed(Vec<DirectoryChange>),
}
