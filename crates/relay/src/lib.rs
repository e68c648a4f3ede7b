//! Relays: fan-out of one guild's events to the sessions of one partition.
//!
//! Owns        the events and the guild ↔ relay protocol, the relay's picture of a guild, the audience
//!             (which session may see what), and GUILD_CREATE.
//! Invariants  nothing is asked of the guild per session or per event; who sees what is decided here.
//! Not here    sequence numbers and replay (`guildhall-session`), sockets (`guildhall-net`).
#![forbid(unsafe_code)]

mod audience;
mod event;
mod members;
mod meta;
mod payload;
mod protocol;
mod relay;
mod view;

pub use audience::{AudienceIndex, Seat};
pub use event::{Audience, ContentReaders, Event, Gate, Redaction};
pub use members::{MemberEntry, MemberTable};
pub use meta::GuildMeta;
pub use payload::{MessageEvent, Payload, ReactionEvent};
pub use protocol::{
    Effect, GuildView, MembersWanted, PartitionId, Published, RelayMessage, SessionKey, SessionPresence, ToGuild,
    ToRelay,
};
pub use relay::{Progress, Recipients, Relay};
pub use view::{channels_with_last_message, with_guild_create};
