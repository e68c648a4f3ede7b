//! Bodies of `/v1`, input and output: objects as backends put, change and read them.
//!
//! Owns        a struct per object and direction: put (whole), patch (in part), answer.
//! Invariants  O1 an answer of an object, without its id and computed fields, is a valid body to put. Spec
//!             docs/backend-api.md "Objects"; docs/protocol/reference.md §6 for the meaning of fields.

mod channel;
mod guild;
mod member;
mod message;
mod patch;
mod role;
mod user;

pub(crate) use channel::{ChannelBody, ChannelPut};
pub(crate) use guild::{GuildBody, GuildPut};
pub(crate) use member::{ImportLine, ImportUser, MemberBody, MemberPut, check_not_everyone};
pub(crate) use message::{HistoryLine, MessageBody, MessageChangeBody, MessageIds, NewMessageBody};
pub(crate) use patch::{ChannelChange, GuildChange, MemberChange, Patch, RoleChange, UserChange};
pub(crate) use role::{RoleBody, RolePut, RoleWithId};
pub(crate) use user::{UserBody, UserPut};

use super::types::Bits;
use guildhall_model::Permissions;

const NAME_CHARS_MAX: usize = 100;
const HASH_CHARS_MAX: usize = 128;

fn no_permissions() -> Bits {
    Bits(Permissions::NONE)
}
