//! Rules of a list: its groups, their order, and the group of each member.
//!
//! Invariants  U1 the highest hoisted role decides, except for offline members. U2 guild states with equal rules sort
//!             every member alike, so a list is rebuilt only if the rules differ. (tests `u1_*`)
//! Limits      `ROLES_MAX` hoisted roles; members of lower ones are listed as if they had none.
//! Spec        docs/protocol/reference.md §8.6 "Rows".

use crate::row::GroupId;
use guildhall_model::{Member, Presence, Role, RoleId, Status};
use std::cmp::Reverse;

/// Maximum number of hoisted roles. Far more than a guild may have; group numbers have 16 bits.
const ROLES_MAX: usize = 10_000;

/// The groups of a list. Recomputed when roles change or the guild grows past the limit for offline members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRules {
    /// Highest first.
    hoisted: Vec<RoleId>,
    /// The same sorted by id, with the index in `hoisted`.
    by_id: Vec<(RoleId, u16)>,
    offline_listed: bool,
}

impl ListRules {
    /// Guilds with more members do not list offline members.
    pub const OFFLINE_LISTED_MEMBERS_MAX: usize = 1000;

    /// Rules of a guild with these roles and `member_count` members.
    #[must_use]
    pub fn new<'a>(roles: impl IntoIterator<Item = &'a Role>, member_count: usize) -> Self {
        let mut hoisted: Vec<_> = roles.into_iter().filter(|role| role.hoist).collect();
        hoisted.sort_unstable_by_key(|role| (Reverse(role.position), role.id));
        hoisted.truncate(ROLES_MAX);
        let hoisted: Vec<_> = hoisted.into_iter().map(|role| role.id).collect();
        let mut by_id: Vec<_> = hoisted.iter().copied().zip(0..).collect();
        by_id.sort_unstable();
        Self { hoisted, by_id, offline_listed: member_count <= Self::OFFLINE_LISTED_MEMBERS_MAX }
    }

    /// Group number of a member, in list order; none for a member who is not listed.
    pub(crate) fn group_of(&self, member: &Member, presence: Option<&Presence>) -> Option<u16> {
        if presence.is_none_or(|presence| presence.status == Status::Offline) {
            return self.offline_listed.then_some(self.online() + 1);
        }
        let places = member.roles.iter().filter_map(|role| {
            let at = self.by_id.binary_search_by_key(role, |(id, _)| *id).ok()?;
            Some(self.by_id[at].1)
        });
        Some(places.min().unwrap_or(self.online()))
    }

    /// Group number of members without a hoisted role; the next number is that of offline members.
    pub(crate) fn online(&self) -> u16 {
        self.hoisted.len() as u16
    }

    /// Number of possible groups, offline included.
    pub(crate) fn groups_count(&self) -> usize {
        self.hoisted.len() + 2
    }

    pub(crate) fn group_id(&self, group: u16) -> GroupId {
        match self.hoisted.get(usize::from(group)) {
            Some(role) => GroupId::Role(*role),
            None if group == self.online() => GroupId::Online,
            None => GroupId::Offline,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::{Permissions, User, UserId};
    use guildhall_stdx::Timestamp;
    use std::sync::Arc;

    fn role(id: u64, position: i32, hoist: bool) -> Role {
        let name = format!("role {id}");
        let (color, permissions, managed, mentionable) = (0, Permissions::NONE, false, false);
        Role { id: RoleId::new(id), name, color, hoist, position, permissions, managed, mentionable, icon: None }
    }

    #[test]
    fn u1_the_highest_hoisted_role_decides() {
        let roles = [role(10, 1, true), role(20, 3, true), role(30, 9, false), role(40, 3, true)];
        let group_of = |member_count, roles_held: &[u64], status| {
            let rules = ListRules::new(&roles, member_count);
            let mut member = Member::new(Arc::new(User::new(UserId::new(1), "ana")), Timestamp(0));
            member.roles = roles_held.iter().copied().map(RoleId::new).collect();
            let presence = Presence { status, ..Presence::default() };
            let group = rules.group_of(&member, Some(&presence));
            if status == Status::Offline {
                assert_eq!(rules.group_of(&member, None), group);
            }
            group.map(|group| rules.group_id(group).to_string())
        };
        let check = |roles_held: &[u64], expected: &str| {
            for status in [Status::Online, Status::Idle, Status::Dnd] {
                assert_eq!(group_of(5000, roles_held, status).as_deref(), Some(expected), "{roles_held:?}");
            }
            assert_eq!(group_of(1000, roles_held, Status::Offline).as_deref(), Some("offline"));
            assert_eq!(group_of(1001, roles_held, Status::Offline), None);
        };
        check(&[], "online");
        check(&[30, 77], "online");
        check(&[10, 30], "10");
        check(&[10, 40], "40");
        check(&[10, 20, 40], "20");
    }

    #[test]
    fn u2_names_and_permissions_make_no_difference() {
        let roles = [role(10, 1, true), role(20, 3, true)];
        let mut renamed = roles.clone();
        renamed[0].name.push('!');
        renamed[1].position = 7;
        assert_eq!(ListRules::new(&roles, 5), ListRules::new(&renamed, 1000));
        renamed[0].position = 8;
        assert_ne!(ListRules::new(&roles, 5), ListRules::new(&renamed, 5));
        assert_ne!(ListRules::new(&roles, 5), ListRules::new(&roles, 1001));
    }
}
