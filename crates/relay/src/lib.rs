//! Relays: fan-out of one guild's events to the sessions of one partition.
//!
//! Owns        the relay's replica of a guild, the audience (which session may see what), passive updates, member-list
//!             subscriptions, and GUILD_CREATE.
//! Invariants  a relay requests nothing from the guild per session or per event; this crate decides on visibility.
//! Not here    events and messages to guilds (`guildhall-guild-protocol`), sequence numbers and replay
//!             (`guildhall-session`), sockets (`guildhall-net`).
#![forbid(unsafe_code)]

mod audience;
mod member_lists;
mod passive;
mod relay;
mod subscription_mask;
mod subscriptions;
mod view;
mod view_change;

pub use audience::{
    AudienceIndex, Baselines, Delivering, GroupDelivering, GuildPlaces, Lead, LogId, PassiveSubjects, ReplayDecision,
    ReplayVisibility, Replayed, Subscriber,
};
pub use relay::{Progress, Recipients, Relay, ToGuilds};
pub use subscription_mask::{SubscriptionMask, UserSubscriptions};
pub use view::{ViewForm, guild_people, guild_snapshot, has_same_state, newest_in_view, view_places, viewed_channels};
