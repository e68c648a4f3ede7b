//! Guild protocol: messages between guilds and relays, and the events that guilds publish.
//!
//! Owns        ids of partitions, relays and sessions; messages between guild and relay; events with their audience and
//!             payload; the numbers of a guild's messages
//!             (`RelayStreams`); the replica of a guild; the visibility domain of an event; sessions as backends see
//!             them.
//! Invariants  plain data, which can cross between nodes (`guildhall-cluster`): nothing here keeps the state of a
//!             guild, a relay or a session, except the numbers.
//! Not here    the recipients of an event (`guildhall-relay`), which events a guild publishes (`guildhall-guild`).
#![forbid(unsafe_code)]

mod backend;
mod event;
mod event_rules;
mod hidden;
mod members;
pub mod memory;
pub mod message_form;
mod passive;
mod payload;
mod protocol;
mod relay_streams;
mod replica;
mod resource_payload;
mod session_view;
mod structure;
mod thread;
mod visibility;

pub use backend::{BackendEvent, BackendEventError, Receipt, ReceiptPlace};
pub use event::{Audience, AudienceRule, ContentReaders, Event, Mentions, Redaction, Retention, UserFilter};
pub use hidden::HiddenChannels;
pub use members::{MemberEntry, MemberTable};
pub use passive::{PassiveDelta, PassiveSnapshot, Unreads};
pub use payload::{ListChange, MessageEvent, Payload, ReactionEvent};
pub use protocol::{
    Canary, FoundMembers, GuildView, IntervalUpdate, ListUpdate, MembersAnswer, MembersWanted, PartitionId, Published,
    RelayId, RelayMessage, RelayMessageKind, RelayOutput, ReplicaUpdate, SessionKey, SessionPresence, ToGuild,
    ToGuildKind, ToRelay,
};
pub use relay_streams::RelayStreams;
pub use replica::{GuildReplica, VoiceEntry};
pub use resource_payload::ResourcePayload;
pub use session_view::{SessionChange, SessionNews, SessionView, StreamView, Whose};
pub use structure::GuildStructure;
pub use thread::{THREAD_LISTED_MAX, ThreadEntry, ThreadEvent, threads_of};
pub use visibility::{
    AccessChange, AccessRules, Clearance, SEVERAL_CHANNELS, Viewer, Visibility, visibility_class, visibility_domain,
    visibility_of_direct,
};
