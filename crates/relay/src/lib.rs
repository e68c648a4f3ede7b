//! Relays: fan-out of one guild's events to the sessions of one partition.
//!
//! Owns        the events and the guild ↔ relay protocol, the relay's replica of a guild, the audience
//!             (which session may see what), and GUILD_CREATE.
//! Invariants  a relay requests nothing from the guild per session or per event; this crate decides on visibility.
//! Not here    sequence numbers and replay (`guildhall-session`), sockets (`guildhall-net`).
#![forbid(unsafe_code)]

mod audience;
mod backend;
mod event;
mod hidden;
mod member_lists;
mod members;
mod passive;
mod payload;
mod protocol;
mod relay;
mod replica;
mod resource_payload;
mod structure;
mod subscription_mask;
mod subscriptions;
mod thread;
mod view;
mod visibility;

pub use audience::{AudienceIndex, Baselines, ChannelForm, Deliver, LogId, Subscriber};
pub use backend::{BackendEvent, BackendEventError, Receipt};
pub use event::{Audience, AudienceRule, ContentReaders, Event, Mentions, Redaction, Retention};
pub use hidden::HiddenChannels;
pub use members::{MemberEntry, MemberTable};
pub use passive::{PassiveDelta, PassiveSnapshot, Unreads};
pub use payload::{ListChange, MessageEvent, Payload, ReactionEvent};
pub use protocol::{
    FoundMembers, GuildView, IntervalUpdate, ListUpdate, MembersAnswer, MembersWanted, PartitionId, Published, RelayId,
    RelayMessage, ReplicaUpdate, SessionKey, SessionPresence, ToGuild, ToGuildKind, ToRelay,
};
pub use relay::{Progress, Recipients, Relay, ToGuilds};
pub use replica::{GuildReplica, VoiceEntry};
pub use resource_payload::ResourcePayload;
pub use structure::GuildStructure;
pub use subscription_mask::{SubscriptionMask, UserFilter, UserSubscriptions};
pub use thread::{THREAD_LISTED_MAX, ThreadEntry, ThreadEvent, threads_of};
pub use view::{people_of, snapshot_of, told_places};
pub use visibility::{
    AccessChange, Clearance, SEVERAL_CHANNELS, Viewer, Visibility, visibility_class, visibility_of_direct,
};
