//! Bodies that the gateway and the REST API send.
//!
//! Owns        one borrowing struct per object of docs/protocol.md §6, with every field that strict
//!             parsers demand (docs/protocol.md §12), constants included.
//! Invariants  ids serialise through `Id`, so JSON gets strings and ETF gets integers.

mod channel;
mod guild;
mod member;
mod message;
mod presence;
mod ready;
mod role;
mod user;
mod voice;

pub use channel::{ChannelBody, OverwriteBody};
pub use guild::{GuildBody, GuildCreateBody, GuildReference, RestGuildBody, UnavailableGuild};
pub use member::{MemberBody, MemberUpdateBody, PartialMemberBody};
pub use message::{MentionBody, MessageBody, MessageExtras, ReactionBody, ReactionEmojiBody, ReferencedMessage};
pub use presence::PresenceBody;
pub use ready::{ApplicationRef, BotReadyBody, ClientInfo, SessionBody, UserReadyBody, UserReadyConstants};
pub use role::RoleBody;
pub use user::{SelfUserBody, UserBody};
pub use voice::VoiceStateBody;

/// Serialises as an empty array, whatever is meant to be in it one day.
pub type Nothing = [(); 0];
/// Serialises as an empty object.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Empty {}
