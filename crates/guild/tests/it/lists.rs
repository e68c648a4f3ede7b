//! Member lists of a guild that is too large to build them at once: built as jobs, while everything goes on.

use crate::{fixture::*, handoff::Handoff};
use guildhall_guild::{Actor, Command, GuildLimits, HandoffPlace, MemberPatch, Outcome, Reply, RolePatch};
use guildhall_guild_protocol::{RelayMessage, ToGuild};
use guildhall_member_list::{Interval, Item, ListId, ListRules, MemberList};
use guildhall_model::{ChannelId, Permissions, RoleId, Status};
use guildhall_stdx::Rng;
use std::{collections::BTreeMap, sync::Arc};

const MEMBERS: u64 = 600;

/// A guild and the first rows of its list, as a relay received them.
struct Walk {
    world: World,
    rng: Rng,
    channel: ChannelId,
    role: RoleId,
    received: BTreeMap<Interval, Arc<[Item]>>,
    builds_count: usize,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut world = World::with_limits(GuildLimits { seed, ..GuildLimits::default() });
        (1..=MEMBERS).for_each(|n| world.join(extra(n)));
        let (channel, role) = (world.text_channel(), world.role(Permissions::NONE, 1));
        for n in 1..=30 {
            world.attach(session(0, n as u32), extra(n), Status::Online);
        }
        world.rest();
        world.sent.clear();
        Self { world, rng: Rng::new(seed), channel, role, received: BTreeMap::new(), builds_count: 0 }
    }

    fn watch(&mut self) {
        let added = Interval::from_ranges([[0, 99], [100, 199]]);
        let (list, channel_id) = (ListId::Everyone, self.channel);
        self.world.relay(ToGuild::WatchList { relay: P0, list, channel_id, added, removed: Vec::new() });
    }

    fn follow(&mut self) {
        for (_, message) in self.world.take() {
            if let RelayMessage::List(update) = message {
                assert_eq!(update.list, ListId::Everyone);
                for interval in &update.intervals {
                    self.received.insert(interval.interval, interval.rows.clone());
                }
            }
        }
    }

    fn step(&mut self) {
        let (n, slot) = (1 + self.rng.below(MEMBERS + 20), 1 + self.rng.below(30));
        match self.rng.below(12) {
            0..=3 => {
                let statuses = [Status::Offline, Status::Idle, Status::Dnd];
                let status = *self.rng.pick(&statuses).expect("there are some");
                self.world.relay(ToGuild::Presence { session: session(0, slot as u32), presence: presence(status) });
            }
            4 => self.world.join(extra(n)),
            5 if self.world.store.members.contains_key(&extra(n)) => {
                drop(self.world.system(Command::RemoveMember(extra(n))));
            }
            6 if self.world.store.members.contains_key(&extra(n)) => {
                let nick = MemberPatch { nick: Some(Some(format!("a{n}"))), ..MemberPatch::default() };
                self.world.system(Command::UpdateMember(extra(n), Box::new(nick)));
            }
            7 if self.world.store.members.contains_key(&extra(n)) => {
                drop(self.world.system(Command::AddMemberRole(extra(n), self.role)));
            }
            // The whole list is sorted otherwise.
            8 if self.rng.chance(0.2) => {
                let patch = RolePatch { hoist: Some(self.rng.chance(0.5)), ..RolePatch::default() };
                self.world.system(Command::UpdateRole(self.role, Box::new(patch)));
            }
            9 => drop(self.world.tick()),
            10 if !self.world.jobs.is_empty() => {
                let job = self.world.jobs.swap_remove(0);
                self.builds_count += 1;
                if self.rng.chance(0.1) {
                    self.world.guild.handle_job_lost(self.world.now, job.id());
                    self.world.drain();
                    self.watch();
                } else {
                    self.world.guild.handle_job_done(self.world.now, job.run());
                    self.world.drain();
                }
            }
            _ => {}
        }
        self.follow();
    }

    /// Another node takes the guild over, while the list is built or not.
    fn change_owner(&mut self) {
        let mut handoff = Handoff::begin(&mut self.world.guild);
        (0..self.rng.below(20)).for_each(|_| self.step());
        handoff.build(self.world.now, &GuildLimits::default());
        while handoff.place != HandoffPlace::End {
            handoff.next_slice(&mut self.world.guild, self.world.now);
        }
        (0..self.rng.below(20)).for_each(|_| self.step());
        self.world.guild.end_lists(self.world.now);
        self.world.drain();
        self.follow();
        self.world.guild = handoff.end(&mut self.world.guild, self.world.now);
        self.world.jobs.clear();
        self.world.drain();
        self.follow();
    }

    /// The list as it would be made from nothing now.
    fn expected(&mut self) -> MemberList {
        let read = |world: &mut World, command| match world.guild.handle_command(world.now, Actor::System, &command) {
            Outcome::Reply(Ok(reply)) => reply,
            other => panic!("{other:?}"),
        };
        let Reply::Members(members) = read(&mut self.world, Command::ReadMembers) else { panic!() };
        let Reply::Guild(guild) = read(&mut self.world, Command::ReadGuild) else { panic!() };
        let rules = ListRules::new(guild.structure.roles.values().map(|role| &**role), members.len());
        MemberList::build(rules, members.iter().map(|entry| (entry.member.clone(), entry.presence.clone())))
    }
}

#[test]
fn z1_z2_the_last_rows_sent_equal_the_list() {
    assert!(walks(false) > 24, "lists were rebuilt and caught up");
}

#[test]
fn z1_z2_hold_over_handoffs() {
    assert!(walks(true) > 0, "lists were rebuilt and caught up");
}

/// Returns the number of jobs that built lists.
fn walks(changes_owner: bool) -> usize {
    let mut builds_count = 0;
    for seed in 0..12 {
        let mut walk = Walk::new(seed);
        walk.watch();
        assert!(walk.received.is_empty() && walk.world.jobs.len() == 1, "a job builds the list");
        for step in 0..250 {
            walk.step();
            if changes_owner && step % 60 == 59 {
                walk.change_owner();
            }
        }
        walk.world.rest();
        walk.follow();
        let list = walk.expected();
        assert_eq!(walk.received.len(), 2, "seed {seed}");
        for (interval, rows) in &walk.received {
            let expected: Vec<Item> = list.rows(interval.rows()).map(|row| row.to_item()).collect();
            assert_eq!(rows[..], expected[..], "seed {seed}, {interval:?}");
        }
        builds_count += walk.builds_count;
    }
    builds_count
}

#[test]
fn a_list_that_only_a_lost_relay_watched_is_freed() {
    let mut walk = Walk::new(1);
    walk.watch();
    walk.world.rest();
    assert!(walk.world.guild.next_deadline().is_none(), "nothing changes, nothing is due");
    walk.world.relay(ToGuild::Unsubscribe { relay: P0, epoch: 1 });
    // Clients look away and back: it stays for a while.
    walk.world.rest();
    assert!(walk.world.guild.next_deadline().is_some());
    walk.world.pass_ms(60_000);
    walk.world.guild.handle_timer(walk.world.now);
    assert!(walk.world.guild.next_deadline().is_none());
}
