//! The model: an independent implementation of docs/protocol/reference.md, for clarity instead of speed.
//!
//! Owns        `State`, a guild as known to a client that sees everything; visibility of an event; content of a
//!             dispatch as text.
//! Invariants  nothing of the product's audience, permission or fan-out code is used: only its plain data.

mod audience_model;
mod client_model;
mod direct;
mod direct_model;
mod event;
mod friend;
mod hidden;
mod list;
mod passive;
mod permissions;
mod presence_model;
mod publication;
mod received;
mod received_resource;
mod resource;
mod state;
mod text;
mod thread;

pub use audience_model::AudienceModel;
pub use client_model::ClientModel;
pub use direct::{DirectEvent, DirectModel, ListedDirects};
pub use event::{Change, Event, PassiveForm, Reader, is_half_a_move};
pub use friend::FriendEvent;
pub use hidden::{ChannelDispatch, OutOfView, channel_dispatch, view_changes};
pub use list::{list_id, list_rows};
pub use passive::{PendingUpdates, made_text};
pub use presence_model::PresenceModel;
pub use publication::{Publication, PublicationKind, Telling};
pub use received::Texts;
pub use state::{ChannelModel, MemberModel, State, status_text};
pub use text::{
    People, chunk_text, found_members, guild_create_text, guild_delete_text, payload_text, supplemental_text,
};
pub use thread::{Gained, ThreadList, ThreadModel};
