//! Steps per change and per query, from a thousand members to a million.

use guildhall_member_list::{IndexedSet, Interval, ListRules, MemberList, Watch};
use guildhall_model::{Member, Permissions, Presence, Role, RoleId, Status, User, UserId};
use guildhall_stdx::{Rng, Timestamp};
use std::sync::Arc;

pub fn rules() -> ListRules {
    let role = |id, position| Role {
        id: RoleId::new(id),
        name: String::new(),
        color: 0,
        hoist: true,
        position,
        permissions: Permissions::NONE,
        managed: false,
        mentionable: false,
        icon: None,
    };
    ListRules::new(&[role(1, 1), role(2, 2)], 1_000_000)
}

/// Members who are all online, in the order of their names.
pub struct Crowd {
    members: Vec<Arc<Member>>,
    presence: Arc<Presence>,
}

impl Crowd {
    pub fn new(members_count: usize) -> Self {
        let member = |n: usize| {
            let user = User::new(UserId::new(n as u64), "user");
            let mut member = Member::new(Arc::new(user), Timestamp(0));
            member.nick = Some(format!("{n:08x}").into());
            Arc::new(member)
        };
        let presence = Presence { status: Status::Online, ..Presence::default() };
        Self { members: (0..members_count).map(member).collect(), presence: Arc::new(presence) }
    }

    pub fn people(&self) -> Vec<(Arc<Member>, Option<Arc<Presence>>)> {
        self.members.iter().map(|member| (member.clone(), Some(self.presence.clone()))).collect()
    }

    /// A member leaves the list and re-enters it at another position.
    pub fn rejoin(&mut self, list: &mut MemberList, rng: &mut Rng) {
        let at = rng.below(self.members.len() as u64) as usize;
        let member = &mut self.members[at];
        list.set(Some((member, Some(&self.presence))), None);
        Arc::make_mut(member).nick = Some(format!("{:08x}", rng.next_u64() >> 32).into());
        list.set(None, Some((member.clone(), Some(self.presence.clone()))));
    }
}

/// Maximum steps of each kind of change, of lookups, and of a watch update.
fn most_steps(members_count: usize) -> [u64; 4] {
    let mut crowd = Crowd::new(members_count);
    let mut list = MemberList::build(rules(), crowd.people());
    let mut rng = Rng::new(members_count as u64);
    let mut most = [0; 4];
    for round in 0..400 {
        let at = rng.below(members_count as u64) as usize;
        let mut count = |list: &mut MemberList, kind: usize, work: &mut dyn FnMut(&mut MemberList)| {
            let before = list.steps();
            work(list);
            most[kind] = most[kind].max(list.steps() - before);
        };
        // Removes a member and inserts them: two changes.
        count(&mut list, 0, &mut |list| crowd.rejoin(list, &mut rng));
        // Into a hoisted role's group and back, with headers.
        let member = crowd.members[at].clone();
        let mut hoisted = Member::clone(&member);
        hoisted.roles.push(RoleId::new(1 + round % 2));
        let (hoisted, presence) = (Arc::new(hoisted), &crowd.presence);
        let shown = |member: &Arc<Member>| Some((member.clone(), Some(presence.clone())));
        count(&mut list, 1, &mut |list| {
            list.set(Some((&member, Some(presence))), shown(&hoisted));
            list.set(Some((&hoisted, Some(presence))), shown(&member));
        });
        count(&mut list, 2, &mut |list| assert!(list.row_of(&member, Some(presence)).is_some()));
        let interval = Interval::from_ranges([[at as u64, at as u64 + 99]])[0];
        count(&mut list, 3, &mut |list| assert_eq!(Watch::new(list, interval).update(list), None));
    }
    most
}

#[test]
fn steps_grow_with_the_logarithm() {
    let most: Vec<_> = [1_000, 10_000, 100_000, 1_000_000].map(most_steps).into();
    println!("most steps for two changes, two moves, a lookup and a watch, at 10³ to 10⁶ members: {most:?}");
    for kind in 0..4 {
        check(most.iter().map(|most| most[kind]));
    }
}

/// Ten times the members may cost one more level of nodes in each search, not ten times the steps.
fn check(steps: impl Iterator<Item = u64>) {
    let steps: Vec<_> = steps.collect();
    assert!(steps[0] > 0, "it measures something");
    assert!(steps.windows(2).all(|pair| pair[1] <= pair[0] + 250), "{steps:?}");
}

#[test]
fn set_steps_grow_with_the_logarithm() {
    let most_steps = |len: u64| {
        let mut set = IndexedSet::from_sorted((0..len).map(|n| 2 * n).collect());
        let mut rng = Rng::new(len);
        let mut most = 0;
        for _ in 0..2000 {
            let key = rng.below(2 * len);
            let before = set.steps();
            let wanted = set.select(rng.below(len) as usize).copied().unwrap_or(key);
            assert!(set.remove(|other| other.cmp(&wanted)).is_some());
            set.insert(key);
            set.insert(wanted);
            most = most.max(set.steps() - before);
        }
        most
    };
    let most: Vec<_> = [1_000, 10_000, 100_000, 1_000_000].map(most_steps).into();
    println!("most steps to select, remove and insert two, at 10³ to 10⁶ keys: {most:?}");
    check(most.into_iter());
}
