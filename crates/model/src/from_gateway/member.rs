//! Members. Spec  docs/protocol/reference.md §6.2, §7.3.

use super::user::UserBody;
use crate::{
    id::{GuildId, RoleId, UserId},
    member::Member,
};
use guildhall_stdx::Timestamp;
use serde::Serialize;

/// A member without the user object, used in messages next to the author's user object.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PartialMemberBody<'a> {
    nick: Option<&'a str>,
    avatar: Option<&'a str>,
    banner: Option<&'a str>,
    roles: &'a [RoleId],
    joined_at: Timestamp,
    premium_since: (),
    deaf: bool,
    mute: bool,
    pending: bool,
    flags: u32,
    communication_disabled_until: Option<Timestamp>,
}

impl<'a> From<&'a Member> for PartialMemberBody<'a> {
    fn from(member: &'a Member) -> Self {
        Self {
            nick: member.nick.as_deref(),
            avatar: member.avatar(),
            banner: member.banner(),
            roles: &member.roles,
            joined_at: member.joined_at,
            premium_since: (),
            deaf: member.deaf,
            mute: member.mute,
            pending: false,
            flags: member.flags,
            communication_disabled_until: member.communication_disabled_until,
        }
    }
}

/// A member with the user: GUILD_CREATE, chunks, REST.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MemberBody<'a> {
    user: UserBody<'a>,
    #[serde(flatten)]
    member: PartialMemberBody<'a>,
}

impl<'a> From<&'a Member> for MemberBody<'a> {
    fn from(member: &'a Member) -> Self {
        Self { user: (&*member.user).into(), member: member.into() }
    }
}

impl MemberBody<'_> {
    /// Adds the keys that only answers of REST have.
    #[must_use]
    pub fn for_rest(self) -> Self {
        Self { user: self.user.for_rest(), ..self }
    }
}

/// GUILD_MEMBER_ADD and GUILD_MEMBER_UPDATE.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MemberUpdateBody<'a> {
    guild_id: GuildId,
    #[serde(flatten)]
    member: MemberBody<'a>,
}

impl<'a> MemberUpdateBody<'a> {
    /// The body for `member` of `guild_id`.
    #[must_use]
    pub fn new(guild_id: GuildId, member: &'a Member) -> Self {
        Self { guild_id, member: member.into() }
    }
}

/// A member for READY and READY_SUPPLEMENTAL with deduplicated users (reference.md §8.2).
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct MergedMemberBody<'a> {
    user_id: UserId,
    #[serde(flatten)]
    member: PartialMemberBody<'a>,
}

impl<'a> From<&'a Member> for MergedMemberBody<'a> {
    fn from(member: &'a Member) -> Self {
        Self { user_id: member.user.id, member: member.into() }
    }
}
