//! Commands about membership: members, bans, invites, and changes of many members.

use super::some;
use crate::job::MemberFilter;
use guildhall_model::{ChannelId, InviteCode, RoleId, User};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Changes to a member; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MemberPatch {
    /// New nick, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub nick: Option<Option<String>>,
    /// The complete new list of roles, without `@everyone`.
    pub roles: Option<Vec<RoleId>>,
    /// Whether the server mutes the member.
    pub mute: Option<bool>,
    /// Server deafen.
    pub deaf: Option<bool>,
    /// Move in voice, or disconnect.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub channel_id: Option<Option<ChannelId>>,
    /// Time-out until then, or end of it.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub communication_disabled_until: Option<Option<Timestamp>>,
    /// Hash of a new avatar in this guild, or none. Only members themselves change their pictures.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub avatar: Option<Option<Box<str>>>,
    /// The same of the banner.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub banner: Option<Option<Box<str>>>,
}

/// User to add as a member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Join {
    pub user: Arc<User>,
    /// Their nick (MANAGE_NICKNAMES).
    pub nick: Option<String>,
    /// Their roles (MANAGE_ROLES).
    pub roles: Vec<RoleId>,
    /// Server-muted (MUTE_MEMBERS).
    pub mute: bool,
    /// Server-deafened (DEAFEN_MEMBERS).
    pub deaf: bool,
}

/// User to ban.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewBan {
    pub user: Arc<User>,
    /// For the ban and the audit log.
    pub reason: Option<String>,
    /// Age up to which the user's messages are deleted, seconds. The ban event has it; the caller deletes the messages.
    pub delete_message_s: u32,
}

/// A stretch of a sorted list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Page<T> {
    /// The last results before the id, at most this many, in ascending order.
    Before(T, usize),
    /// The first results after the id, at most this many.
    After(T, usize),
}

/// An invite to be made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewInvite {
    /// Unique and unguessable.
    pub code: InviteCode,
    /// For how long, seconds; 0 for ever.
    pub max_age_s: u32,
    /// How often; 0 as often as one likes.
    pub max_uses: u32,
    /// Whether members who join by it are removed when their last session ends.
    pub temporary: bool,
    /// Never a similar one instead.
    pub is_unique: bool,
}

/// Filter of a prune. The owner, the actor and online members are never removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prune {
    /// Roles that do not save their bearers; all below the actor's highest.
    pub roles: Vec<RoleId>,
    /// Members who joined at this moment or later are kept.
    pub joined_before: Timestamp,
    /// Only count the members.
    pub counts_only: bool,
}

/// Change of a member's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoleAction {
    Grant,
    Revoke,
}

/// A change of one role for many members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkRole {
    pub role_id: RoleId,
    pub action: RoleAction,
    pub filter: MemberFilter,
}
