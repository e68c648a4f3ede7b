//! Guild ↔ relay: the messages between a guild's owner and the relays of its sessions.
//!
//! Owns        `ToRelay` and `ToGuild`. They are plain data: in one process they cross a channel, on a
//!             cluster they will cross machines.
//! Invariants  P1 `ToRelay` messages to one relay are numbered 1, 2, 3 … from its subscription on; a relay
//!             that sees a gap says `Resync`. P2 `epoch` names one incarnation of a relay: messages of an
//!             older one are dropped. P3 an `Attached` stands in the stream exactly where the session's
//!             view begins: what was published before is in it, what comes after is not.
//! Limits      the guild keeps at most its link's capacity of unsent messages per relay; past it the relay
//!             is cut off and starts again with `Snapshot { reset: true }`.

use crate::{
    event::Event,
    members::{MemberEntry, MemberTable},
    meta::GuildMeta,
    picture::{GuildPicture, VoiceEntry},
    thread::ThreadEntry,
};
use guildhall_member_list::{Group, Interval, Item, ListId, ListOp};
use guildhall_model::{
    AccountKind, Activity, ChannelId, GuildId, Member, MessageId, Platform, Status, UserId,
    to_gateway::{RequestGuildMembers, SearchRecentMembers, VoiceStateUpdate},
};
use std::sync::Arc;

/// One partition of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId(pub u16);

/// The address of a relay, together with the guild's id: a partition has several for a guild with many sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelayId {
    /// Where it is.
    pub partition: PartitionId,
    /// Which of those there.
    pub index: u16,
}

impl RelayId {
    /// The first relay of a partition.
    #[must_use]
    pub const fn first(partition: PartitionId) -> Self {
        Self { partition, index: 0 }
    }
}

/// A session, as guilds know it. Never reused: `generation` counts up with every session of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    /// Whose session it is in this guild.
    pub relay: RelayId,
    /// Its place in the partition.
    pub slot: u32,
    /// Which of the sessions that were in this place.
    pub generation: u32,
}

/// What a session shows, before it is aggregated with the user's other sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionPresence {
    /// `Offline` for invisible.
    pub status: Status,
    /// What it does.
    pub activities: Arc<[Activity]>,
    /// Where it runs.
    pub platform: Platform,
}

/// Which members a session wants in its GUILD_CREATE (docs/protocol.md §6.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembersWanted {
    /// Its own and those in voice.
    OwnAndVoice,
    /// Everybody in a guild of up to `large_threshold`, in a larger one those who stand out. Needs GUILD_PRESENCES.
    ByThreshold {
        /// From IDENTIFY.
        large_threshold: u16,
    },
}

/// From a relay (or a backend that acts for a user) to the guild.
#[derive(Clone, Debug)]
pub enum ToGuild {
    /// A relay begins, or begins again.
    Subscribe {
        /// Which relay.
        relay: RelayId,
        /// Its incarnation.
        epoch: u32,
    },
    /// The relay's last session left: no more messages, please.
    Unsubscribe {
        /// Which relay.
        relay: RelayId,
        /// Its incarnation.
        epoch: u32,
    },
    /// The relay saw a gap (P1) and starts again.
    Resync {
        /// Which relay.
        relay: RelayId,
        /// Its incarnation.
        epoch: u32,
    },
    /// A session enters.
    Attach {
        /// Which.
        session: SessionKey,
        /// As in voice states.
        session_id: Arc<str>,
        /// Whose.
        user_id: UserId,
        /// Which client family.
        kind: AccountKind,
        /// What it shows.
        presence: SessionPresence,
        /// For its GUILD_CREATE.
        members: MembersWanted,
    },
    /// A session ended: it no longer counts for presence, and leaves voice.
    Detach {
        /// Which.
        session: SessionKey,
    },
    /// A session shows something else (op 3).
    Presence {
        /// Which.
        session: SessionKey,
        /// What it shows now.
        presence: SessionPresence,
    },
    /// A session moves in voice (op 4).
    Voice {
        /// Which.
        session: SessionKey,
        /// Where to.
        update: VoiceStateUpdate,
    },
    /// A session asks for members (op 8).
    RequestMembers {
        /// Which.
        session: SessionKey,
        /// What it asks.
        request: Box<RequestGuildMembers>,
    },
    /// A session asks for members by when they joined (op 35).
    RecentMembers {
        /// Which.
        session: SessionKey,
        /// What it asks.
        request: Box<SearchRecentMembers>,
    },
    /// A session looks at the members of a thread. The answer is a `Direct`; none if it cannot view it.
    ListThread {
        /// Which.
        session: SessionKey,
        /// Which thread.
        thread_id: ChannelId,
    },
    /// A session asks how many can view a channel (op 39). The answer is a `Direct`.
    CountMembers {
        /// Which.
        session: SessionKey,
        /// Which channel.
        channel_id: ChannelId,
    },
    /// Whether the relay has sessions that are told every member's presence: without, it is told of none but those
    /// it watches. Until it says so it has none.
    WantPresences {
        /// Which relay.
        relay: RelayId,
        /// Whether it has.
        all: bool,
    },
    /// Members whose presence and changes somebody watches there, from now on and no more.
    WatchMembers {
        /// Which relay.
        relay: RelayId,
        /// From now on.
        added: Vec<UserId>,
        /// No more.
        removed: Vec<UserId>,
    },
    /// Rows of a member list that somebody watches there, from now on and no more. The guild answers with the rows that
    /// were added, then with every change, until they are removed.
    WatchList {
        /// Which relay.
        relay: RelayId,
        /// Which list. Ignored if it is no more that of the channel: the relay is about to hear of that.
        list: ListId,
        /// A channel whose list it is.
        channel_id: ChannelId,
        /// From now on.
        added: Vec<Interval>,
        /// No more.
        removed: Vec<Interval>,
    },
    /// A session wants to know what these members show at this moment.
    TellPresences {
        /// Which.
        session: SessionKey,
        /// Whose presences.
        user_ids: Vec<UserId>,
    },
}

/// From the guild to one of its relays.
#[derive(Clone, Debug)]
pub struct ToRelay {
    /// Which guild.
    pub guild_id: GuildId,
    /// Which of its relays.
    pub relay: RelayId,
    /// The relay's incarnation (P2).
    pub epoch: u32,
    /// Number in the relay's stream (P1).
    pub seq: u64,
    /// What.
    pub message: RelayMessage,
}

impl ToRelay {
    /// Whether `next` may tell another relay of the same: guilds tell their relays in ascending order. No session gets both.
    #[must_use]
    pub fn is_continued_by(&self, next: &Self) -> bool {
        next.guild_id == self.guild_id && next.relay > self.relay
    }
}

/// What a guild tells a relay.
#[derive(Clone, Debug)]
pub enum RelayMessage {
    /// The state to start from. With `reset`, events were lost: the relay's sessions must start anew.
    Snapshot {
        /// The guild at this moment.
        picture: GuildPicture,
        /// Whether this follows lost messages.
        reset: bool,
    },
    /// Something happened. Shared by all relays.
    Published(Arc<Published>),
    /// A session's view begins here (P3).
    Attached {
        /// Which session.
        session: SessionKey,
        /// Whether it may be here, and what it sees.
        view: Option<Box<GuildView>>,
    },
    /// The guild cannot be served now; sessions are told it is unavailable.
    Unavailable {
        /// Which session asked.
        session: SessionKey,
    },
    /// A dispatch for one session only.
    Direct {
        /// Which session.
        session: SessionKey,
        /// What.
        event: Arc<Event>,
    },
    /// Rows of a member list that are watched there: those that were asked for, and those that changed.
    List(Arc<ListUpdate>),
    /// The answer to `RequestMembers` or `RecentMembers`, for the session to write its chunks from. They may be asked for
    /// in one order and answered in another: clients tell them apart by `nonce`.
    Members {
        /// Which session.
        session: SessionKey,
        /// What it gets.
        answer: Box<MembersAnswer>,
    },
}

/// Members that a session asked for, as they are at this moment of the stream.
#[derive(Clone, Debug)]
pub struct MembersAnswer {
    /// Echoed.
    pub nonce: Option<String>,
    /// Whether presences were asked for.
    pub presences: bool,
    /// Who.
    pub members: FoundMembers,
}

/// Which members a session gets.
#[derive(Clone, Debug)]
pub enum FoundMembers {
    /// Everybody: in chunks.
    Whole(MemberTable),
    /// These: one chunk, at most 1,000.
    Some {
        /// In the order of the answer.
        entries: Vec<MemberEntry>,
        /// Those asked for by id who are no members.
        not_found: Vec<UserId>,
    },
}

impl Default for FoundMembers {
    /// Nobody.
    fn default() -> Self {
        Self::Some { entries: Vec::new(), not_found: Vec::new() }
    }
}

/// An event, and what it changes in a relay's own picture of the guild.
#[derive(Debug)]
pub struct Published {
    /// What sessions are told.
    pub event: Event,
    /// Applied before the event is fanned out.
    pub effect: Effect,
}

/// A member list at one moment: what changed in the intervals that are watched. A relay that does not watch some of them
/// passes over those.
#[derive(Debug)]
pub struct ListUpdate {
    /// Which list.
    pub list: ListId,
    /// Members of the guild.
    pub member_count: u64,
    /// Members who are not offline.
    pub online_count: u64,
    /// All its groups.
    pub groups: Arc<[Group]>,
    /// Intervals, ascending.
    pub intervals: Vec<IntervalUpdate>,
}

/// One interval of a member list.
#[derive(Debug)]
pub struct IntervalUpdate {
    /// Which rows.
    pub interval: Interval,
    /// What leads to `rows` from those that were told before; none for an answer to who begins to watch.
    pub ops: Vec<ListOp>,
    /// The rows as they are now.
    pub rows: Arc<[Item]>,
}

/// A change to a relay's picture of the guild.
#[derive(Clone, Debug)]
pub enum Effect {
    /// None.
    None,
    /// Base fields, roles or channels changed.
    Meta(Arc<GuildMeta>),
    /// A member changed, joined, or (with none) left.
    Member(UserId, Option<Arc<Member>>),
    /// A channel has a newer message.
    Message(ChannelId, MessageId),
    /// Somebody is in voice, or (with none) is no more.
    Voice(UserId, Option<VoiceEntry>),
    /// A thread changed, was begun, or (with none) is gone.
    Thread(ChannelId, Option<ThreadEntry>),
    /// The guild was deleted: every session loses it.
    Deleted,
}

/// What one session sees of a guild when its view begins, besides the relay's picture of it.
#[derive(Clone, Debug)]
pub struct GuildView {
    /// The session's own member.
    pub member: Arc<Member>,
    /// Exact.
    pub member_count: u64,
    /// All members and presences, where the session wants more than its own.
    pub members: Option<(MemberTable, u16)>,
    /// Of the guild: grows with every change.
    pub version: u64,
}
