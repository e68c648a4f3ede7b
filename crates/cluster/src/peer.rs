//! Peer: messages between two nodes, in order on one stream for each direction.
//!
//! Invariants  R1 a request with a command of a later release is refused alone: the messages around it are handled, and
//!             the stream goes on. (tests `r1_*`)

use crate::{
    node::{Incarnation, NodeNumber},
    wire::{self, WireError},
};
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

/// A guild or direct message to create.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Creation {
    Guild(Box<NewGuild>),
    Direct(NewDirect),
}

/// Place in the trace of a request that is sampled: spans that the receiver adds are parts of `span`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    /// Upper and lower half.
    pub trace_id: [u64; 2],
    pub span: u64,
}

/// Input of a guild.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum GuildInput {
    /// A command. Its answer carries `request`.
    Command {
        request: RequestId,
        actor: Actor,
        command: Box<Command>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<TraceContext>,
    },
    /// Creates the guild if it does not exist.
    Create { request: RequestId, creation: Creation },
    /// A relay's message.
    Relay(ToGuild),
    /// Resets a relay after a change of owner or a loss between two nodes: the guild drops the relay's subscription and
    /// sessions, and sends a snapshot that makes the sessions attach again.
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

/// Directory entry that a durable write changed: other nodes evict it from their caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirectoryChange {
    ChannelPut(ChannelId, GuildId),
    ChannelGone(ChannelId),
    GuildGone(GuildId),
    User(UserId),
}

/// Recipient of a guild's message, and the message's position in the recipient's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayPlace {
    pub relay: RelayId,
    pub epoch: u32,
    pub seq: u64,
}

/// Why a relay's message was dropped. The relay has to be reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotServed {
    /// The guild has another owner.
    Owner,
    /// The guild's mailbox was full.
    Full,
}

/// Message from one node to another. `Hello`, `Welcome` and `Lost` may arrive on a stream that has not begun.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PeerMessage {
    /// Begins the stream on which it arrives; repeated until the `Welcome`. Messages of an earlier stream that have not
    /// arrived are lost. `to` is the receiver's incarnation: a process that has lost its node number without noticing
    /// ignores the message.
    Hello { to: Incarnation },
    /// Accepts the receiver's stream of this number: other messages may follow.
    Welcome { stream: u64 },
    /// Sent on an idle stream: the number of its frame shows a loss.
    Beat,
    /// The sender of this missed messages of that stream and ignores the rest of it: the receiver begins a new one.
    Lost { stream: u64 },
    /// Input for a guild that the receiver owns.
    ToGuild { guild_id: GuildId, input: GuildInput },
    /// Refuses a request, because the sender of this does not own the guild.
    NotOwner { guild_id: GuildId, request: RequestId },
    /// The sender of this dropped a message of the receiver's relay.
    NotServed { guild_id: GuildId, relay: RelayId, reason: NotServed },
    /// The sender has dropped a guild from memory, with the relays of the receiver.
    Released { guild_id: GuildId },
    /// The sender of this has handed a guild over to the node with this incarnation, and sends its relays nothing more.
    /// `nodes`: all to which it sends this message; for the new owner.
    Moved { guild_id: GuildId, to: Incarnation, nodes: Vec<NodeNumber> },
    /// Answer to `Moved`: inputs for the guild go to the new owner from here on.
    Fence { guild_id: GuildId },
    /// For the new owner: all that this node sent the old owner for the guild before its `Fence` has been passed on.
    Passed { guild_id: GuildId, node: NodeNumber },
    /// The new owner serves the guild, and all inputs of the receiver have reached it.
    Arrived { guild_id: GuildId },
    /// Result of a request.
    Answer { request: RequestId, answer: Box<Answer> },
    /// A guild's message to relays of the receiver.
    ToRelays {
        guild_id: GuildId,
        relays: Vec<RelayPlace>,
        message: RelayMessage,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<TraceContext>,
    },
    /// An event for sessions of the accounts that its audience names.
    Users(Arc<Published>),
    /// The same, of a request that is traced.
    TracedUsers { published: Arc<Published>, trace: TraceContext },
    /// An account joined a guild.
    Joined { user_id: UserId, guild_id: GuildId },
    /// An account changed.
    UserChanged(Arc<User>),
    /// Entries of the directory changed.
    Changed(Vec<DirectoryChange>),
}

impl PeerMessage {
    /// Whether it may be sent on a stream that has not begun.
    #[must_use]
    pub fn is_control(&self) -> bool {
        matches!(self, Self::Hello { .. } | Self::Welcome { .. } | Self::Lost { .. })
    }
}

/// A message of a frame that this program cannot read as a whole.
#[derive(Debug)]
pub enum ReadMessage {
    Known(PeerMessage),
    /// A request that this program does not know: the other node has a later release.
    UnknownRequest(RequestId),
}

/// Envelope of a request whose command is not known.
#[derive(Deserialize)]
enum AnyRequest {
    ToGuild { input: AnyInput },
}

#[derive(Deserialize)]
enum AnyInput {
    Command { request: RequestId },
    Create { request: RequestId },
}

impl ReadMessage {
    /// Reads the messages of a frame one by one. The error is that of the first unreadable one, where reading ends.
    #[must_use]
    pub fn each(version: u16, payload: &[u8]) -> (Vec<Self>, Option<WireError>) {
        let elements = match wire::elements(version, payload) {
            Ok(elements) => elements,
            Err(error) => return (Vec::new(), Some(error)),
        };
        let mut read = Vec::with_capacity(elements.len());
        for element in elements {
            match (wire::decode(version, element), wire::decode::<AnyRequest>(version, element)) {
                (Ok(message), _) => read.push(Self::Known(message)),
                (Err(_), Ok(AnyRequest::ToGuild { input })) => {
                    let (AnyInput::Command { request } | AnyInput::Create { request }) = input;
                    read.push(Self::UnknownRequest(request));
                }
                (Err(error), Err(_)) => return (read, Some(error)),
            }
        }
        (read, None)
    }
}
