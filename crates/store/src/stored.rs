//! Stored form: objects as columns and JSON, the same for all databases.
//!
//! Invariants  ids are below 2⁶³, so that they are integers of a database.

use guildhall_model::{GuildId, Id, Member, MemberPictures, ResourceKey, RoleId, User, UserId};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;

/// Two accounts, in whatever order, as they are stored.
pub(crate) fn sorted(mut pair: [UserId; 2]) -> [UserId; 2] {
    pair.sort_unstable();
    pair
}

/// An id as a column: ids are below 2⁶³.
pub(crate) fn int<T>(id: Id<T>) -> i64 {
    id.get() as i64
}

/// The id of a column.
pub(crate) fn id<T>(column: i64) -> Id<T> {
    Id::new(column as u64)
}

/// Columns that a guild resource is found by.
pub(crate) fn resource_columns(guild_id: GuildId, key: ResourceKey) -> [i64; 4] {
    [int(guild_id), key.kind as i64, key.id as i64, key.part as i64]
}

/// A member without the account.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredMember {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nick: Option<String>,
    #[serde(default, skip_serializing_if = "SmallVec::is_empty")]
    roles: SmallVec<[RoleId; 4]>,
    joined_at: Timestamp,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    deaf: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    mute: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    flags: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    communication_disabled_until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pictures: Option<Box<MemberPictures>>,
}

impl StoredMember {
    pub(crate) fn of(member: &Member) -> Self {
        // Without `..`, so that a new field cannot be forgotten.
        let Member { user: _, nick, roles, joined_at, deaf, mute, flags, communication_disabled_until, pictures } =
            member;
        Self {
            nick: nick.clone(),
            roles: roles.clone(),
            joined_at: *joined_at,
            deaf: *deaf,
            mute: *mute,
            flags: *flags,
            communication_disabled_until: *communication_disabled_until,
            pictures: pictures.clone(),
        }
    }

    /// The member, with the account.
    pub(crate) fn with(self, user: Arc<User>) -> Member {
        let Self { nick, roles, joined_at, deaf, mute, flags, communication_disabled_until, pictures } = self;
        Member { user, nick, roles, joined_at, deaf, mute, flags, communication_disabled_until, pictures }
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}
