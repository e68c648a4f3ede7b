//! Model of a guild: produces every change of the list, and computes the expected rows from scratch.

use guildhall_member_list::{Group, GroupId, Item, ListRules, MemberList};
use guildhall_model::{Member, Permissions, Presence, Role, RoleId, Status, User, UserId};
use guildhall_stdx::{Rng, Timestamp};
use std::{cmp::Reverse, sync::Arc};

const NAMES: [&str; 12] =
    ["ana", "Ana", "ANA", "anastasia", "Anastasius", "bo", "Bö", "bÖ", "", "日本", "zoë", "a very long name indeed"];

pub struct Person {
    pub member: Arc<Member>,
    pub presence: Option<Arc<Presence>>,
    /// Can view the list's channels.
    pub has_view: bool,
}

type Seen = Option<(Arc<Member>, Option<Arc<Presence>>)>;

impl Person {
    fn seen(&self) -> Seen {
        self.has_view.then(|| (self.member.clone(), self.presence.clone()))
    }
}

pub struct World {
    pub rng: Rng,
    pub people: Vec<Person>,
    roles: Vec<Role>,
    /// Members that take part in no change, to reach the limit for offline members.
    silent_members: usize,
    last_id: u64,
    pub list: MemberList,
}

impl World {
    pub fn new(seed: u64, people_max: u64) -> Self {
        let mut rng = Rng::new(seed);
        let roles = (1..=5)
            .map(|id| Role {
                id: RoleId::new(id),
                name: format!("role {id}"),
                color: 0,
                hoist: rng.chance(0.6),
                position: rng.below(4) as i32,
                permissions: Permissions::NONE,
                managed: false,
                mentionable: false,
                icon: None,
            })
            .collect();
        let silent_members = *rng.pick(&[0, 990, 5000]).expect("some");
        let list = MemberList::build(ListRules::new(&[], 0), []);
        let mut world = Self { rng, people: Vec::new(), roles, silent_members, last_id: 0, list };
        for _ in 0..world.rng.below(people_max + 1) {
            let person = world.stranger();
            world.people.push(person);
        }
        world.rebuild();
        world
    }

    fn rules(&self) -> ListRules {
        ListRules::new(&self.roles, self.people.len() + self.silent_members)
    }

    pub fn rebuild(&mut self) {
        self.list = MemberList::build(self.rules(), self.people.iter().filter_map(Person::seen));
    }

    fn stranger(&mut self) -> Person {
        self.last_id += 1;
        let mut user = User::new(UserId::new(self.last_id), self.name());
        user.global_name = self.rng.chance(0.3).then(|| self.name().to_owned());
        let mut member = Member::new(Arc::new(user), Timestamp(0));
        member.nick = self.rng.chance(0.3).then(|| self.name().into());
        member.roles = self.roles_held().into();
        Person { member: Arc::new(member), presence: self.presence(), has_view: self.rng.chance(0.9) }
    }

    fn name(&mut self) -> &'static str {
        self.rng.pick(&NAMES).expect("some")
    }

    fn roles_held(&mut self) -> Vec<RoleId> {
        let rng = &mut self.rng;
        self.roles.iter().map(|role| role.id).filter(|_| rng.chance(0.25)).collect()
    }

    fn presence(&mut self) -> Option<Arc<Presence>> {
        let status = *self.rng.pick(&[Status::Offline, Status::Idle, Status::Online, Status::Dnd]).expect("some");
        // Offline can be no presence or a presence with status offline.
        (status != Status::Offline || self.rng.chance(0.2))
            .then(|| Arc::new(Presence { status, ..Presence::default() }))
    }

    /// Makes a random change and applies it to the list.
    pub fn change(&mut self) {
        let at = self.rng.below(self.people.len() as u64) as usize;
        match self.rng.below(100) {
            0..20 => {
                let stranger = self.stranger();
                self.list.set(None, stranger.seen());
                self.people.push(stranger);
            }
            _ if self.people.is_empty() => {}
            20..40 => {
                let person = self.people.swap_remove(at);
                self.apply(person.seen(), None);
            }
            40..60 => {
                let presence = self.presence();
                self.alter(at, |person| person.presence = presence);
            }
            60..70 => {
                let nick = self.rng.chance(0.7).then(|| self.name().into());
                self.alter(at, |person| Arc::make_mut(&mut person.member).nick = nick);
            }
            70..75 => {
                let global_name = self.rng.chance(0.7).then(|| self.name().to_owned());
                self.alter(at, |person| {
                    Arc::make_mut(&mut Arc::make_mut(&mut person.member).user).global_name = global_name;
                });
            }
            75..85 => {
                let roles = self.roles_held();
                self.alter(at, |person| Arc::make_mut(&mut person.member).roles = roles.into());
            }
            85..90 => self.alter(at, |person| Arc::make_mut(&mut person.member).mute ^= true),
            // Equal values in different objects.
            90..93 => self.alter(at, |person| person.member = Arc::new(Member::clone(&person.member))),
            93..97 => self.alter(at, |person| person.has_view ^= true),
            _ => {
                let (hoist, position) = (self.rng.chance(0.6), self.rng.below(4) as i32);
                let at = self.rng.below(self.roles.len() as u64) as usize;
                (self.roles[at].hoist, self.roles[at].position) = (hoist, position);
            }
        }
        if *self.list.rules() != self.rules() {
            self.rebuild();
        }
    }

    fn alter(&mut self, at: usize, alter: impl FnOnce(&mut Person)) {
        let before = self.people[at].seen();
        alter(&mut self.people[at]);
        let after = self.people[at].seen();
        self.apply(before, after);
    }

    fn apply(&mut self, before: Seen, after: Seen) {
        let before = before.as_ref().map(|(member, presence)| (&**member, presence.as_deref()));
        self.list.set(before, after);
    }

    /// §8.6 "Rows", literally.
    pub fn naive_groups(&self) -> Vec<(GroupId, Vec<&Person>)> {
        let mut hoisted: Vec<_> = self.roles.iter().filter(|role| role.hoist).collect();
        hoisted.sort_by_key(|role| (Reverse(role.position), role.id));
        let mut groups: Vec<_> = hoisted.iter().map(|role| (GroupId::Role(role.id), Vec::new())).collect();
        groups.extend([(GroupId::Online, Vec::new()), (GroupId::Offline, Vec::new())]);
        let offline_listed = self.people.len() + self.silent_members <= 1000;
        for person in self.people.iter().filter(|person| person.has_view) {
            let is_offline = person.presence.as_ref().is_none_or(|presence| presence.status == Status::Offline);
            let highest = hoisted.iter().find(|role| person.member.roles.contains(&role.id));
            let id = match highest {
                _ if is_offline => GroupId::Offline,
                Some(role) => GroupId::Role(role.id),
                None => GroupId::Online,
            };
            if let Some((_, people)) = groups.iter_mut().find(|group| group.0 == id)
                && (offline_listed || !is_offline)
            {
                people.push(person);
            }
        }
        for (_, people) in &mut groups {
            people.sort_by_key(|person| (name_folded(&person.member), person.member.user.id));
        }
        groups.retain(|(_, people)| !people.is_empty());
        groups
    }

    pub fn naive_rows(&self) -> Vec<Item> {
        let mut rows = Vec::new();
        for (id, people) in self.naive_groups() {
            rows.push(Item::Group(Group { id, count: people.len() }));
            rows.extend(people.iter().map(|person| Item::Member(person.member.clone(), person.presence.clone())));
        }
        rows
    }
}

fn name_folded(member: &Member) -> String {
    let user = &member.user;
    let name = member.nick.as_deref().or(user.global_name.as_deref()).unwrap_or(&user.username);
    name.chars().flat_map(char::to_lowercase).collect()
}
