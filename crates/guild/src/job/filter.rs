//! Which members a prune or a bulk change is about.

use guildhall_model::{Member, RoleId, UserId};
use guildhall_relay::{GuildMeta, MemberEntry};
use guildhall_stdx::Timestamp;

/// Members for whom all that is said here is true. The default admits everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberFilter {
    /// They have all of these roles.
    pub roles: Vec<RoleId>,
    /// They have no role but these.
    pub no_roles_but: Option<Vec<RoleId>>,
    /// They joined before this moment.
    pub joined_before: Option<Timestamp>,
    /// They are offline.
    pub offline: bool,
    /// They are none of these.
    pub none_of: Vec<UserId>,
}

impl MemberFilter {
    /// Roles that were deleted are as good as none.
    pub(crate) fn admits(&self, meta: &GuildMeta, entry: &MemberEntry) -> bool {
        let member: &Member = &entry.member;
        let has_none_but =
            |roles: &[RoleId]| member.roles.iter().all(|role| roles.contains(role) || !meta.roles.contains_key(role));
        (!self.offline || entry.presence.is_none())
            && !self.none_of.contains(&member.user.id)
            && self.joined_before.is_none_or(|before| member.joined_at < before)
            && self.roles.iter().all(|role| member.roles.contains(role) && meta.roles.contains_key(role))
            && self.no_roles_but.as_ref().is_none_or(|roles| has_none_but(roles))
    }
}
