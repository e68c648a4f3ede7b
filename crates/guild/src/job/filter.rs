//! Filter of the members that a prune or a bulk change affects.

use guildhall_guild_protocol::{GuildStructure, MemberEntry};
use guildhall_model::{Member, RoleId, UserId};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};

/// Members who meet all of these conditions. The default admits all members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberFilter {
    /// Have all of these roles.
    pub roles: Vec<RoleId>,
    /// Have no roles except these.
    pub no_roles_but: Option<Vec<RoleId>>,
    /// Joined before this time.
    pub joined_before: Option<Timestamp>,
    /// Whether offline members are included.
    pub offline: bool,
    /// Are none of these.
    pub none_of: Vec<UserId>,
}

impl MemberFilter {
    /// Deleted roles count as absent.
    pub(crate) fn admits(&self, structure: &GuildStructure, entry: &MemberEntry) -> bool {
        let member: &Member = &entry.member;
        let has_none_but = |roles: &[RoleId]| {
            member.roles.iter().all(|role| roles.contains(role) || !structure.roles.contains_key(role))
        };
        (!self.offline || entry.presence.is_none())
            && !self.none_of.contains(&member.user.id)
            && self.joined_before.is_none_or(|before| member.joined_at < before)
            && self.roles.iter().all(|role| member.roles.contains(role) && structure.roles.contains_key(role))
            && self.no_roles_but.as_ref().is_none_or(|roles| has_none_but(roles))
    }
}
