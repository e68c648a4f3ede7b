//! The naive model: an independent implementation of docs/protocol/reference.md, for clarity instead of speed.
//!
//! Owns        `State`, a guild as known to a client that sees everything; visibility of an event; content of a
//!             dispatch as text.
//! Invariants  nothing of the product's audience, permission or fan-out code is used: only its plain data.

mod deed;
mod direct;
mod event;
mod got;
mod got_notice;
mod hidden;
mod known;
mod list;
mod passive;
mod permissions;
mod publication;
mod resource;
mod shown;
mod state;
mod text;
mod thread;
mod who;

pub use direct::{ListedDirects, NaiveDirect, ToldDirect};
pub use event::{Change, Event, PassiveForm, Reader, is_half_a_move};
pub use got::Texts;
pub use hidden::{OutOfView, ToldChannel, told_by, view_changes};
pub use known::Known;
pub use list::{list_id, list_rows};
pub use passive::{Untold, made_text};
pub use publication::{Publication, PublicationKind, Telling};
pub use shown::Shown;
pub use state::{NaiveChannel, NaiveMember, State, status_text};
pub use text::{
    People, chunk_text, found_members, guild_create_text, guild_delete_text, payload_text, supplemental_text,
};
pub use thread::{Gained, NaiveThread, ThreadList};
pub use who::Who;
