//! Presence storms: more changes than the rate limit. No session is closed or keeps an old presence (traps.md 17).

use crate::fixture::*;
use guildhall_guild::{Command, GuildLimits};
use guildhall_guild_protocol::{MembersWanted, Payload, RelayId, RelayMessage, ToGuild};
use guildhall_model::{AccountKind, EventName, Status, UserId};
use guildhall_stdx::Rng;
use std::collections::BTreeMap;

fn world(per_s: u32, burst: u32, waiting_max: usize, members_count: u64) -> World {
    let mut world = World::with_limits(GuildLimits {
        presence_events_per_s_max: per_s,
        presence_burst_max: burst,
        presence_waiting_max: waiting_max,
        ..GuildLimits::default()
    });
    (1..=members_count).for_each(|n| world.join(extra(n)));
    world.sent.clear();
    world
}

fn show(world: &mut World, slot: u64, status: Status) {
    world.relay(ToGuild::Presence { session: session(0, slot as u32), presence: presence(status) });
}

/// Presences that the first relay received; its other messages must be attaches.
fn published(world: &mut World) -> Vec<(UserId, Status)> {
    let presences = world.take().into_iter().filter_map(|(_, message)| match message {
        RelayMessage::Published(published) => match &published.event.payload {
            Payload::Presence { user_id, presence } => Some((*user_id, presence.status)),
            other => panic!("{other:?}"),
        },
        RelayMessage::Attached { .. } => None,
        other => panic!("{other:?}"),
    });
    presences.collect()
}

#[test]
fn a_guild_that_comes_online_is_published_at_the_rate() {
    let mut world = world(100, 20, 65_536, 500);
    for n in 1..=500 {
        world.attach(session(0, n as u32), extra(n), Status::Online);
    }
    assert_eq!(published(&mut world).len(), 20);
    // Some change again before it is their turn; some go as if they had never come.
    (400..=450).for_each(|n| show(&mut world, n, Status::Dnd));
    (451..=500).for_each(|n| show(&mut world, n, Status::Offline));
    assert!(published(&mut world).is_empty());
    let (began, mut all) = (world.now.instant, Vec::new());
    while world.tick() {
        all.extend(published(&mut world));
        let passed_ms = world.now.instant.ms_since(began);
        assert!(all.len() as u64 <= passed_ms / 10 + 1, "{} in {passed_ms} ms", all.len());
    }
    let expected = (21..=450).map(|n| (extra(n), if n < 400 { Status::Online } else { Status::Dnd }));
    assert_eq!(all, expected.collect::<Vec<_>>(), "once each, in order, with what they show by then");
    assert!((4_000..5_000).contains(&world.now.instant.ms_since(began)));
}

#[test]
fn changes_without_watchers_cost_no_tokens() {
    let mut world = world(1, 1, 65_536, 200);
    world.relay(ToGuild::WantPresences { relay: P0, all: false });
    world.relay(ToGuild::WatchMembers { relay: P0, added: vec![extra(200)], removed: vec![] });
    for n in 1..=200 {
        world.attach(session(0, n as u32), extra(n), Status::Online);
    }
    assert_eq!(published(&mut world), [(extra(200), Status::Online)], "it had the whole rate for itself");
    assert!(!world.tick(), "the queue is empty");
}

#[test]
fn a_member_who_leaves_while_queued_is_not_published() {
    let mut world = world(1, 1, 65_536, 3);
    for n in 1..=3 {
        world.attach(session(0, n as u32), extra(n), Status::Online);
    }
    world.sent.clear();
    world.system(Command::RemoveMember(extra(2)));
    assert_eq!(world.event_names(), [EventName::GuildMemberRemove]);
    world.rest();
    assert_eq!(published(&mut world), [(extra(3), Status::Online)]);
}

/// Presences known to a relay, for the users that the guild promises to keep current.
#[derive(Default)]
struct Mirror {
    /// Whether it receives all presences.
    reads: bool,
    watched: BTreeMap<UserId, ()>,
    known: BTreeMap<UserId, Status>,
}

#[test]
fn s3_whoever_watches_ends_with_the_newest() {
    const USERS: u64 = 12;
    const STATUSES: [Status; 4] = [Status::Offline, Status::Idle, Status::Online, Status::Dnd];
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let (per_s, burst) = (1 + rng.below(50) as u32, 1 + rng.below(3) as u32);
        let mut world = world(per_s, burst, rng.below(5) as usize, USERS);
        let relays: [RelayId; 3] = [relay(0), relay(1), relay(2)];
        world.relay(ToGuild::WantPresences { relay: P0, all: false });
        for relay in &relays[1..] {
            world.relay(ToGuild::Subscribe { relay: *relay, epoch: 1 });
        }
        let mut mirrors: BTreeMap<RelayId, Mirror> = relays.map(|relay| (relay, Mirror::default())).into();
        let mut shown: BTreeMap<UserId, Status> = BTreeMap::new();
        for n in 1..=USERS {
            world.attach(session(0, n as u32), extra(n), Status::Offline);
        }
        let mut slot = 100;
        for step in 0..300 {
            let relay = *rng.pick(&relays).expect("there are relays");
            let partition = relay.partition.0;
            let n = 1 + rng.below(USERS);
            match rng.below(20) {
                0 => {
                    // A bot that receives all members, and all presences from then on.
                    slot += 1;
                    let all = MembersWanted::ByThreshold { large_threshold: 50 };
                    let key = session(partition, slot);
                    world.attach_as(key, OWNER, presence(Status::Offline), AccountKind::Bot, all);
                    mirrors.get_mut(&relay).expect("it is one of them").reads = true;
                }
                1 => {
                    slot += 1;
                    world.attach(session(partition, slot), OWNER, Status::Offline);
                    let (added, user_ids) = (vec![extra(n)], vec![extra(n)]);
                    world.relay(ToGuild::WatchMembers { relay, added, removed: vec![] });
                    world.relay(ToGuild::RequestPresences { session: session(partition, slot), user_ids });
                    mirrors.get_mut(&relay).expect("it is one of them").watched.insert(extra(n), ());
                }
                2 => {
                    world.relay(ToGuild::WatchMembers { relay, added: vec![], removed: vec![extra(n)] });
                    mirrors.get_mut(&relay).expect("it is one of them").watched.remove(&extra(n));
                }
                3..=6 => drop(world.tick()),
                7 => world.pass_ms(rng.below(100)),
                _ => {
                    let status = *rng.pick(&STATUSES).expect("there are some");
                    show(&mut world, n, status);
                    shown.insert(extra(n), status);
                }
            }
            follow(&mut world, &mut mirrors);
            if step == 299 {
                world.rest();
                follow(&mut world, &mut mirrors);
            }
        }
        for (relay, mirror) in &mirrors {
            for n in 1..=USERS {
                if mirror.reads || mirror.watched.contains_key(&extra(n)) {
                    let of = |statuses: &BTreeMap<UserId, Status>| statuses.get(&extra(n)).copied().unwrap_or_default();
                    assert_eq!(of(&mirror.known), of(&shown), "seed {seed}, {relay:?}, user {n}");
                }
            }
        }
    }
}

fn follow(world: &mut World, mirrors: &mut BTreeMap<RelayId, Mirror>) {
    for (relay, message) in world.take() {
        let mirror = mirrors.get_mut(&relay).expect("it is one of them");
        match message {
            RelayMessage::Published(published) => {
                if let Payload::Presence { user_id, presence } = &published.event.payload {
                    mirror.known.insert(*user_id, presence.status);
                }
            }
            RelayMessage::Direct { event, .. } => {
                if let Payload::Presence { user_id, presence } = &event.payload {
                    mirror.known.insert(*user_id, presence.status);
                }
            }
            RelayMessage::Attached { view: Some(view), .. } => {
                for entry in view.members.iter().flat_map(|(table, _)| table.iter()) {
                    let status = entry.presence.as_ref().map(|presence| presence.status).unwrap_or_default();
                    mirror.known.insert(entry.member.user.id, status);
                }
            }
            RelayMessage::Snapshot { reset, .. } => assert!(!reset, "the rate cuts no relay's stream"),
            other => panic!("{other:?}"),
        }
    }
}
