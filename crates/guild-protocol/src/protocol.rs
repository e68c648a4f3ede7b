//! Guild ↔ relay protocol: messages between a guild and the relays of its sessions.
//!
//! Owns        `ToRelay` and `ToGuild`. They are plain data: within one process they cross a queue; between nodes they
//!             cross in the form of `guildhall-cluster`.
//! Invariants  P1 messages to one relay are numbered 1, 2, 3 … from its subscription on; a relay that detects a gap
//!             sends `Resync`. P2 `epoch` identifies one incarnation of a relay: messages with an older epoch are
//!             dropped. P3 `Attached` is at the position of the stream where the session's view starts: the view
//!             contains everything published before, and nothing published after. P4 `Transferred` is at the same
//!             position in the stream of the relay that the session leaves.
//! Limits      the guild holds at most its queue's capacity of unsent messages per relay; past it the relay
//!             is cut off and restarts with `Snapshot { reset: true }`.

use crate::{
    event::Event,
    members::{MemberEntry, MemberTable},
    replica::{GuildReplica, VoiceEntry},
    structure::GuildStructure,
    thread::ThreadEntry,
};
use guildhall_member_list::{Group, Interval, Item, ListId, ListOp};
use guildhall_model::{
    AccountKind, Activity, ChannelId, ClientStatus, GuildId, Member, MessageId, Platform, Presence, Status, UserId,
    to_gateway::{RequestGuildMembers, SearchRecentMembers, VoiceStateUpdate},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A partition, numbered throughout the cluster: the node's number in the upper 8 bits, the partition's index on its
/// node in the lower 8. A single node has number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PartitionId(pub u16);

impl PartitionId {
    /// Partition `index` of a node.
    #[must_use]
    pub const fn of_node(node: u8, index: u8) -> Self {
        Self((node as u16) << 8 | index as u16)
    }

    /// Number of its node.
    #[must_use]
    pub const fn node(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Index on its node.
    #[must_use]
    pub const fn index(self) -> usize {
        (self.0 & 0xff) as usize
    }
}

/// Address of a relay within a guild. A partition has several relays for a guild with many sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RelayId {
    pub partition: PartitionId,
    /// Index among the guild's relays in that partition.
    pub index: u16,
}

impl RelayId {
    /// The first relay of a partition.
    #[must_use]
    pub const fn first(partition: PartitionId) -> Self {
        Self { partition, index: 0 }
    }
}

/// A session as guilds address it. Never reused: `generation` increases with every session of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionKey {
    /// Relay that the session is attached to.
    pub relay: RelayId,
    /// Slot in the partition.
    pub slot: u32,
    /// Generation of the slot.
    pub generation: u32,
}

/// Presence of one session, before aggregation with the account's other sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionPresence {
    /// `Offline` also means invisible.
    pub status: Status,
    /// Activities of the session.
    pub activities: Arc<[Activity]>,
    /// Platform of the client.
    pub platform: Platform,
}

impl From<&SessionPresence> for Presence {
    /// Of an account with this session alone.
    fn from(session: &SessionPresence) -> Self {
        if session.status == Status::Offline {
            return Self::default();
        }
        let mut client_status = ClientStatus::default();
        client_status.raise(session.platform, session.status);
        Self { status: session.status, activities: session.activities.to_vec(), client_status }
    }
}

/// Members that a session receives in GUILD_CREATE (reference.md §6.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MembersWanted {
    /// The own member and users in voice.
    OwnAndVoice,
    /// All members of a guild of up to `large_threshold` members; in larger guilds online members only.
    /// Needs GUILD_PRESENCES.
    ByThreshold {
        /// Value from IDENTIFY.
        large_threshold: u16,
    },
}

/// Message from a relay to the guild, or from a backend on behalf of a user.
#[derive(Clone, Debug, strum::EnumDiscriminants, Serialize, Deserialize)]
#[strum_discriminants(
    name(ToGuildKind),
    derive(strum::VariantNames),
    strum(serialize_all = "snake_case"),
    allow(missing_docs),
    doc = "Kind of a message, for time accounting."
)]
pub enum ToGuild {
    /// The relay starts or restarts its stream.
    Subscribe {
        relay: RelayId,
        /// New incarnation of the relay.
        epoch: u32,
    },
    /// The relay's last session left; the guild stops its stream.
    Unsubscribe {
        relay: RelayId,
        /// Incarnation of the relay.
        epoch: u32,
    },
    /// The relay detected a gap (P1) and restarts.
    Resync {
        relay: RelayId,
        /// New incarnation of the relay.
        epoch: u32,
    },
    /// A session attaches.
    Attach {
        session: SessionKey,
        /// Session id in voice states.
        session_id: Arc<str>,
        user_id: UserId,
        /// Client family.
        kind: AccountKind,
        /// Initial presence.
        presence: SessionPresence,
        /// Members for its GUILD_CREATE.
        members: MembersWanted,
        /// The session's connection goes on from the previous process: its watchers have this presence.
        #[serde(default)]
        is_restored: bool,
        /// Its key at the node that it leaves: the guild transfers it from there.
        #[serde(default)]
        previous: Option<SessionKey>,
    },
    /// A session ended: the guild removes its presence and disconnects it from voice.
    Detach { session: SessionKey },
    /// A session changed its presence (op 3).
    Presence {
        session: SessionKey,
        /// New presence.
        presence: SessionPresence,
    },
    /// A session joins, changes or leaves voice (op 4).
    Voice {
        session: SessionKey,
        /// Requested voice state.
        update: VoiceStateUpdate,
    },
    /// A session requests members (op 8).
    RequestMembers {
        session: SessionKey,
        /// Decoded payload of op 8.
        request: Box<RequestGuildMembers>,
    },
    /// A session requests members by time of joining (op 35).
    RecentMembers {
        session: SessionKey,
        /// Decoded payload of op 35.
        request: Box<SearchRecentMembers>,
    },
    /// A session subscribes to the members of a thread. The answer is a `Direct`; none if the account cannot view it.
    ListThread { session: SessionKey, thread_id: ChannelId },
    /// A session requests the member count of a channel (op 39). The answer is a `Direct`.
    CountMembers { session: SessionKey, channel_id: ChannelId },
    /// Whether the relay has sessions that receive every member's presence. If not (the initial state), the guild sends
    /// it only presences of watched members.
    WantPresences {
        relay: RelayId,
        /// The relay has such sessions.
        all: bool,
    },
    /// Changes the set of members whose presence and member updates sessions of the relay watch.
    WatchMembers {
        relay: RelayId,
        /// Newly watched accounts.
        added: Vec<UserId>,
        /// Accounts that are no longer watched.
        removed: Vec<UserId>,
    },
    /// Changes the set of member-list rows that sessions of the relay watch. The guild answers with the rows of added
    /// intervals, then sends every change until they are removed.
    WatchList {
        relay: RelayId,
        /// The guild ignores the request if the channel has another list by then; the relay is about to learn of that.
        list: ListId,
        /// A channel with this list.
        channel_id: ChannelId,
        /// Newly watched intervals.
        added: Vec<Interval>,
        /// Intervals that are no longer watched.
        removed: Vec<Interval>,
    },
    /// A session requests the current presences of these members.
    RequestPresences {
        session: SessionKey,
        /// Members whose presences to send.
        user_ids: Vec<UserId>,
    },
    /// The relay's canary session received a canary. The guild's driver takes the message; the guild ignores it.
    CanaryReturned {
        relay: RelayId,
        /// Number of the canary.
        number: u32,
    },
}

/// An event of the guild's driver to the canary session that each relay has. It has a number in the stream like any
/// event, and passes the same queues and threads. The relay receives it at the point where it would deliver an event to
/// its sessions, and sends nothing to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// Counts up from 1 for each guild in memory.
    pub number: u32,
    /// When it was created, Unix microseconds.
    pub created_at_us: u64,
    /// Members of the guild then.
    pub members_count: u64,
}

impl ToGuild {
    /// Relay that sent it, or that of its session.
    #[must_use]
    pub fn relay(&self) -> RelayId {
        match self {
            Self::CanaryReturned { relay, .. }
            | Self::Subscribe { relay, .. }
            | Self::Unsubscribe { relay, .. }
            | Self::Resync { relay, .. }
            | Self::WantPresences { relay, .. }
            | Self::WatchMembers { relay, .. }
            | Self::WatchList { relay, .. } => *relay,
            Self::Attach { session, .. }
            | Self::Detach { session }
            | Self::Presence { session, .. }
            | Self::Voice { session, .. }
            | Self::RequestMembers { session, .. }
            | Self::RecentMembers { session, .. }
            | Self::ListThread { session, .. }
            | Self::CountMembers { session, .. }
            | Self::RequestPresences { session, .. } => session.relay,
        }
    }
}

/// Message from the guild to one of its relays that has no number yet: `RelayStreams` makes a `ToRelay` of it.
#[derive(Clone, Debug)]
pub struct RelayOutput {
    pub guild_id: GuildId,
    pub relay: RelayId,
    /// Incarnation of the relay (P2).
    pub epoch: u32,
    /// Content of the message.
    pub message: RelayMessage,
}

/// Message from the guild to one of its relays.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToRelay {
    pub guild_id: GuildId,
    pub relay: RelayId,
    /// Incarnation of the relay (P2).
    pub epoch: u32,
    /// Number in the relay's stream (P1).
    pub seq: u64,
    /// Content of the message.
    pub message: RelayMessage,
}

impl ToRelay {
    /// `next` may carry the same message to another relay: guilds send to relays in ascending order. No
    /// session receives both.
    #[must_use]
    pub fn is_continued_by(&self, next: &Self) -> bool {
        next.guild_id == self.guild_id && next.relay > self.relay
    }
}

/// Content of a message to a relay.
#[derive(Clone, Debug, strum::EnumDiscriminants, Serialize, Deserialize)]
#[strum_discriminants(
    name(RelayMessageKind),
    derive(strum::VariantNames),
    strum(serialize_all = "snake_case"),
    allow(missing_docs),
    doc = "Kind of a message, for time accounting."
)]
pub enum RelayMessage {
    /// Initial state of the replica. With `reset`, events were lost and the relay's sessions must start over.
    Snapshot {
        /// State of the guild at this position of the stream.
        replica: GuildReplica,
        /// Messages before this one were lost.
        reset: bool,
    },
    /// An event; all relays share the object.
    Published(Arc<Published>),
    /// A session's view starts here (P3).
    Attached {
        session: SessionKey,
        /// The view; none if the account is not a member.
        view: Option<Box<GuildView>>,
    },
    /// The guild has attached the session under another key, at another node, and sends nothing more for this one. Only
    /// to a relay of a session whose key was an `Attach::previous`.
    Transferred {
        session: SessionKey,
        /// Account of the session.
        user_id: UserId,
    },
    /// The guild cannot be served now; the session receives an outage.
    Unavailable {
        /// Session that requested to attach.
        session: SessionKey,
    },
    /// A dispatch for one session only.
    Direct {
        session: SessionKey,
        /// The event to dispatch.
        event: Arc<Event>,
    },
    /// Rows of watched member-list intervals: requested ones, and changed ones.
    List(Arc<ListUpdate>),
    /// Answer to `RequestMembers` or `RecentMembers`, from which the session writes its chunks. Answers may arrive in
    /// another order than the requests; clients match them by `nonce`.
    Members {
        session: SessionKey,
        /// Members to send.
        answer: Box<MembersAnswer>,
    },
    /// For the relay's canary session.
    Canary(Canary),
}

/// Members that a session requested, as of this position of the stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MembersAnswer {
    /// Echo of the request's nonce.
    pub nonce: Option<String>,
    /// The session requested presences.
    pub presences: bool,
    /// Members of the answer.
    pub members: FoundMembers,
}

/// Members that a session receives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FoundMembers {
    /// All members, in chunks.
    Whole(MemberTable),
    /// Selected members: one chunk, at most 1,000.
    Some {
        /// In the order of the answer.
        entries: Vec<MemberEntry>,
        /// Requested ids that are not members.
        not_found: Vec<UserId>,
    },
}

impl Default for FoundMembers {
    /// A snapshot without members.
    fn default() -> Self {
        Self::Some { entries: Vec::new(), not_found: Vec::new() }
    }
}

/// An event with the change that it makes to a relay's replica.
#[derive(Debug, Serialize, Deserialize)]
pub struct Published {
    /// Event that is dispatched to sessions.
    pub event: Event,
    /// Applied to the replica before fan-out.
    pub replica_update: ReplicaUpdate,
}

/// Changes of watched intervals of one member list at one moment. A relay ignores intervals that it does not watch.
#[derive(Debug, Serialize, Deserialize)]
pub struct ListUpdate {
    pub list: ListId,
    /// Number of members of the guild.
    pub member_count: u64,
    /// Number of members who are not offline.
    pub online_count: u64,
    /// All groups of the list.
    pub groups: Arc<[Group]>,
    /// Ascending by interval.
    pub intervals: Vec<IntervalUpdate>,
}

/// Change of one interval.
#[derive(Debug, Serialize, Deserialize)]
pub struct IntervalUpdate {
    pub interval: Interval,
    /// Operations from the rows last sent to `rows`; empty in an answer to a new subscription.
    pub ops: Vec<ListOp>,
    /// Current rows.
    pub rows: Arc<[Item]>,
}

/// Change of a relay's replica.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ReplicaUpdate {
    /// The replica does not change.
    None,
    /// Base fields, roles or channels changed.
    Structure(Arc<GuildStructure>),
    /// A member joined, changed, or (with none) left.
    Member(UserId, Option<Arc<Member>>),
    /// A channel has a newer message.
    Message(ChannelId, MessageId),
    /// A user's voice state; none: the user left voice.
    Voice(UserId, Option<VoiceEntry>),
    /// A thread was created or changed; none: it was deleted.
    Thread(ChannelId, Option<ThreadEntry>),
    /// The guild was deleted: every session loses it.
    Deleted,
}

/// A session's initial view of a guild, in addition to the relay's replica.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuildView {
    /// Member object of the session's account.
    pub member: Arc<Member>,
    /// Exact number of members.
    pub member_count: u64,
    /// Members and presences with the session's `large_threshold`, if the session receives more than its own member.
    pub members: Option<(MemberTable, u16)>,
    /// Version of the guild; increases with every change.
    pub version: u64,
    /// The relay of `Attach::previous` receives everything published before, then `Transferred`. The session, wherever
    /// it was when an event was published, is sent each event by one of the two relays.
    #[serde(default)]
    pub is_transferred: bool,
}
