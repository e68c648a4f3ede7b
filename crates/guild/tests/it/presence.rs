//! Presence: a member's state over all their sessions.

use crate::fixture::*;
use guildhall_guild::{Actor, Command, GuildLimits, Refusal, Reply};
use guildhall_guild_protocol::{
    AudienceRule, MembersWanted, Payload, RelayId, RelayMessage, SessionKey, SessionPresence, ToGuild,
};
use guildhall_model::{AccountKind, Activity, ClientStatus, EventName, Platform, Presence, Status, UserId};
use guildhall_stdx::Rng;
use std::{collections::BTreeMap, sync::Arc};

fn shows(status: Status, platform: Platform, activities: &[&str]) -> SessionPresence {
    let activity = |name: &&str| Activity::from_iter([("name".to_owned(), (*name).into())]);
    SessionPresence { status, platform, activities: activities.iter().map(activity).collect() }
}

fn attach(world: &mut World, slot: u32, presence: SessionPresence) {
    world.attach_as(session(0, slot), ANA, presence, AccountKind::User, MembersWanted::OwnAndVoice);
}

/// The presence in the one PRESENCE_UPDATE, or none if there was none.
fn published_presence(world: &mut World) -> Option<Arc<Presence>> {
    let events = world.events();
    assert!(events.len() <= 1, "{events:?}");
    let published = events.first()?;
    assert_eq!((published.event.name, rule(published)), (EventName::PresenceUpdate, AudienceRule::Members));
    assert_eq!(published.event.audience.never_user_account, Some(ANA));
    match &published.event.payload {
        Payload::Presence { user_id, presence } if *user_id == ANA => Some(presence.clone()),
        other => panic!("{other:?}"),
    }
}

fn names(presence: &Presence) -> Vec<&str> {
    presence.activities.iter().filter_map(|activity| activity["name"].as_str()).collect()
}

fn statuses(presence: &Presence) -> String {
    serde_json::to_string(&presence.client_status).expect("it is a map")
}

#[test]
fn sessions_come_and_go() {
    let mut world = World::populated();
    attach(&mut world, 1, shows(Status::Idle, Platform::Web, &["a"]));
    let presence = published_presence(&mut world).expect("she is there");
    assert_eq!((presence.status, names(&presence)), (Status::Idle, vec!["a"]));
    assert_eq!(statuses(&presence), r#"{"web":"idle"}"#);

    attach(&mut world, 2, shows(Status::Dnd, Platform::Mobile, &["b", "c"]));
    let presence = published_presence(&mut world).expect("it differs");
    assert_eq!((presence.status, names(&presence)), (Status::Dnd, vec!["a", "b", "c"]));
    assert_eq!(statuses(&presence), r#"{"mobile":"dnd","web":"idle"}"#);

    attach(&mut world, 3, shows(Status::Offline, Platform::Desktop, &["hidden"]));
    assert!(published_presence(&mut world).is_none(), "an invisible session shows nothing");
    world.relay(ToGuild::Presence { session: session(0, 3), presence: shows(Status::Offline, Platform::Web, &[]) });
    assert!(published_presence(&mut world).is_none());
    attach(&mut world, 4, shows(Status::Idle, Platform::Web, &[]));
    assert!(published_presence(&mut world).is_none(), "nothing that was not shown already");

    world.relay(ToGuild::Detach { session: session(0, 2) });
    assert_eq!(published_presence(&mut world).expect("it differs").status, Status::Idle);
    world.relay(ToGuild::Detach { session: session(0, 4) });
    assert!(published_presence(&mut world).is_none());
    world.relay(ToGuild::Presence { session: session(0, 1), presence: shows(Status::Offline, Platform::Web, &["a"]) });
    assert_eq!(*published_presence(&mut world).expect("she is gone"), Presence::default());
    world.relay(ToGuild::Detach { session: session(0, 1) });
    assert!(published_presence(&mut world).is_none(), "gone already");
}

#[test]
fn shown_without_a_session() {
    let mut world = World::populated();
    let mut client_status = ClientStatus::default();
    client_status.raise(Platform::Desktop, Status::Online);
    let shown = Arc::new(Presence { status: Status::Online, activities: Vec::new(), client_status });
    let show = |presence: Option<&Arc<Presence>>| Command::ShowPresence(ANA, presence.cloned());
    world.system(show(Some(&shown)));
    assert_eq!(published_presence(&mut world).as_deref(), Some(&*shown));
    world.system(show(Some(&shown)));
    assert!(published_presence(&mut world).is_none());
    assert!(!world.guild.is_idle());
    attach(&mut world, 1, shows(Status::Idle, Platform::Web, &["a"]));
    let presence = published_presence(&mut world).expect("it differs");
    assert_eq!((presence.status, &*statuses(&presence)), (Status::Online, r#"{"desktop":"online","web":"idle"}"#));
    world.system(show(None));
    assert_eq!(published_presence(&mut world).expect("it differs").status, Status::Idle);
    world.system(show(Some(&Arc::default())));
    assert!(published_presence(&mut world).is_none(), "showing offline is showing nothing");

    assert_eq!(world.by(OWNER, show(None)).unwrap_err(), Refusal::MissingPermissions);
    let stranger = Command::ShowPresence(NOBODY, Some(shown));
    assert_eq!(world.command(Actor::System, stranger).unwrap_err(), Refusal::UnknownMember);
}

/// Plain implementation of reference.md §6.9, without state.
fn naive(
    sessions: &BTreeMap<SessionKey, SessionPresence>,
    shown: Option<&Presence>,
    activities_max: usize,
) -> Option<Presence> {
    let visible: Vec<&SessionPresence> = sessions.values().filter(|s| s.status != Status::Offline).collect();
    let status = visible.iter().map(|s| s.status).chain(shown.map(|shown| shown.status)).max()?;
    let mut activities: Vec<Activity> = shown.map(|shown| shown.activities.clone()).unwrap_or_default();
    activities.extend(visible.iter().flat_map(|s| s.activities.iter().cloned()));
    activities.truncate(activities_max);
    let mut client_status = shown.map(|shown| shown.client_status).unwrap_or_default();
    visible.iter().for_each(|s| client_status.raise(s.platform, s.status));
    Some(Presence { status, activities, client_status })
}

#[test]
fn s1_s2_agree_with_a_naive_model() {
    const USERS: [UserId; 3] = [ANA, BOB, EVE];
    const STATUSES: [Status; 4] = [Status::Offline, Status::Idle, Status::Online, Status::Dnd];
    const PLATFORMS: [Platform; 3] = [Platform::Web, Platform::Mobile, Platform::Vr];
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut world = World::with_limits(GuildLimits { activities_max: 3, ..GuildLimits::default() });
        USERS.into_iter().for_each(|id| world.join(id));
        world.subscribe(P1, 1);
        let mut sessions: BTreeMap<UserId, BTreeMap<SessionKey, SessionPresence>> = BTreeMap::new();
        let mut shown: BTreeMap<UserId, Presence> = BTreeMap::new();
        let mut last: BTreeMap<UserId, Presence> = BTreeMap::new();
        let mut epoch = 1;
        for step in 0..300 {
            world.sent.clear();
            let user_id = *rng.pick(&USERS).expect("there are users");
            let presence = shows(
                *rng.pick(&STATUSES).expect("there are some"),
                *rng.pick(&PLATFORMS).expect("there are some"),
                &["a", "b"][..rng.below(3) as usize],
            );
            let own: Vec<SessionKey> = sessions.entry(user_id).or_default().keys().copied().collect();
            let known = rng.pick(&own).copied();
            let epoch_before = epoch;
            match (rng.below(10), known) {
                (0..=3, _) => {
                    let key = session(rng.below(2) as u16, step);
                    sessions.entry(user_id).or_default().insert(key, presence.clone());
                    world.attach_as(key, user_id, presence, AccountKind::Bot, MembersWanted::OwnAndVoice);
                }
                (4..=5, Some(key)) => {
                    sessions.entry(user_id).or_default().insert(key, presence.clone());
                    world.relay(ToGuild::Presence { session: key, presence });
                }
                (6..=7, Some(key)) => {
                    sessions.entry(user_id).or_default().remove(&key);
                    world.relay(ToGuild::Detach { session: key });
                }
                (8, _) => {
                    let show = Presence {
                        status: presence.status,
                        activities: presence.activities.to_vec(),
                        client_status: ClientStatus::default(),
                    };
                    if show.status == Status::Offline {
                        shown.remove(&user_id);
                    } else {
                        shown.insert(user_id, show.clone());
                    }
                    world.system(Command::ShowPresence(user_id, Some(Arc::new(show))));
                }
                (9, _) if rng.chance(0.2) => {
                    epoch += 1;
                    world.subscribe(P1, epoch);
                    let is_there = |key: &SessionKey, _: &mut SessionPresence| key.relay == P0;
                    sessions.values_mut().for_each(|own| own.retain(is_there));
                }
                _ => continue,
            }
            // Exactly the changed presences are published, in their current state.
            let mut changed: BTreeMap<UserId, Presence> = BTreeMap::new();
            for published in world.events() {
                let Payload::Presence { user_id, presence } = &published.event.payload else { panic!() };
                changed.insert(*user_id, Presence::clone(presence));
            }
            let mut online = 0;
            for user_id in USERS {
                let expected = naive(&sessions.entry(user_id).or_default().clone(), shown.get(&user_id), 3);
                online += u64::from(expected.is_some());
                let before = last.get(&user_id).cloned();
                let now = changed.get(&user_id).cloned();
                let difference = (before != expected).then(|| expected.clone().unwrap_or_default());
                assert_eq!(
                    now.filter(|_| before != expected).is_some(),
                    difference.is_some(),
                    "seed {seed} step {step}"
                );
                if let Some(difference) = difference {
                    assert_eq!(changed[&user_id], difference, "seed {seed} step {step}");
                } else if epoch == epoch_before {
                    // (The ends of several sessions are published one by one.)
                    assert!(!changed.contains_key(&user_id), "seed {seed} step {step}: published without a change");
                }
                match expected {
                    Some(expected) => drop(last.insert(user_id, expected)),
                    None => drop(last.remove(&user_id)),
                }
            }
            let Reply::Guild(reply) = world.system(Command::ReadGuild) else { panic!() };
            assert_eq!(reply.presence_count, online, "seed {seed} step {step}");
        }
    }
}

#[test]
fn only_so_many_sessions_count() {
    let limits = GuildLimits { presence_sessions_max: 2, ..GuildLimits::default() };
    let mut world = World::with_limits(limits);
    world.join(ANA);
    world.sent.clear();
    attach(&mut world, 1, shows(Status::Idle, Platform::Web, &["1"]));
    attach(&mut world, 2, shows(Status::Idle, Platform::Web, &["2"]));
    world.sent.clear();
    attach(&mut world, 3, shows(Status::Dnd, Platform::Web, &["3"]));
    assert!(published_presence(&mut world).is_none());
    world.relay(ToGuild::Detach { session: session(0, 1) });
    assert_eq!(published_presence(&mut world).expect("the third counts now").status, Status::Dnd);
}

/// Users whose presence each relay received since the last `take`.
fn presences_sent_to(world: &mut World, relay: RelayId) -> Vec<UserId> {
    let presences = world.take().into_iter().filter(|(to, _)| *to == relay).filter_map(|(_, message)| match message {
        RelayMessage::Published(published) => match published.event.payload {
            Payload::Presence { user_id, .. } => Some(user_id),
            _ => None,
        },
        _ => None,
    });
    presences.collect()
}

#[test]
fn presences_go_only_to_relays_that_want_them() {
    let mut world = World::populated();
    world.relay(ToGuild::WantPresences { relay: P0, all: false });
    world.relay(ToGuild::Subscribe { relay: P1, epoch: 1 });
    let mut next = Status::Idle;
    let mut presences_for = |world: &mut World, relay| {
        next = if next == Status::Idle { Status::Dnd } else { Status::Idle };
        world.sent.clear();
        for (slot, user_id) in [(1, ANA), (2, BOB)] {
            world.attach(session(0, slot), user_id, next);
        }
        presences_sent_to(world, relay)
    };
    assert_eq!(presences_for(&mut world, P1), []);
    assert_eq!(presences_for(&mut world, P0), []);
    world.relay(ToGuild::WatchMembers { relay: P1, added: vec![ANA, EVE], removed: vec![] });
    world.relay(ToGuild::WatchMembers { relay: relay(7), added: vec![ANA], removed: vec![] });
    assert_eq!(presences_for(&mut world, P1), [ANA]);
    assert_eq!(presences_for(&mut world, P0), []);
    world.relay(ToGuild::WatchMembers { relay: P1, added: vec![BOB], removed: vec![ANA] });
    assert_eq!(presences_for(&mut world, P1), [BOB]);
    world.relay(ToGuild::WantPresences { relay: P1, all: true });
    assert_eq!(presences_for(&mut world, P1), [ANA, BOB], "once each");
    world.relay(ToGuild::WantPresences { relay: P1, all: false });
    assert_eq!(presences_for(&mut world, P1), [BOB]);
    // A restarted relay has to send its interests again.
    world.relay(ToGuild::Subscribe { relay: P1, epoch: 2 });
    assert_eq!(presences_for(&mut world, P1), []);
}

#[test]
fn a_session_with_all_presences_misses_no_later_change() {
    let mut world = World::populated();
    world.relay(ToGuild::Subscribe { relay: P1, epoch: 1 });
    let all = MembersWanted::ByThreshold { large_threshold: 50 };
    let (reader, again) = (session(1, 1), session(1, 2));
    world.attach_as(reader, EVE, shows(Status::Offline, Platform::Web, &[]), AccountKind::Bot, all);
    world.sent.clear();
    // The relay has not yet received that view, and has not requested presences.
    world.attach(session(0, 1), ANA, Status::Idle);
    assert_eq!(presences_sent_to(&mut world, P1), [ANA]);
    // The relay's cancellation crosses the attach of another session with all presences.
    world.attach_as(again, EVE, shows(Status::Offline, Platform::Web, &[]), AccountKind::Bot, all);
    world.relay(ToGuild::Detach { session: reader });
    world.relay(ToGuild::WantPresences { relay: P1, all: false });
    world.sent.clear();
    world.attach(session(0, 1), ANA, Status::Dnd);
    assert_eq!(presences_sent_to(&mut world, P1), [ANA]);
    world.relay(ToGuild::Detach { session: again });
    world.sent.clear();
    world.attach(session(0, 1), ANA, Status::Idle);
    assert_eq!(presences_sent_to(&mut world, P1), []);
}

#[test]
fn a_request_for_presences_is_answered_with_the_current_ones() {
    let mut world = World::populated();
    world.attach(session(0, 1), ANA, Status::Idle);
    world.attach(session(0, 2), EVE, Status::Offline);
    world.sent.clear();
    world.relay(ToGuild::RequestPresences { session: session(0, 2), user_ids: vec![ANA, NOBODY, BOB] });
    let presences: Vec<_> = world
        .take()
        .into_iter()
        .map(|(to, message)| match message {
            RelayMessage::Direct { session: who, event } => match &event.payload {
                Payload::Presence { user_id, presence } => {
                    assert_eq!((to, who, event.name), (P0, session(0, 2), EventName::PresenceUpdate));
                    (*user_id, presence.status)
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(presences, [(ANA, Status::Idle), (BOB, Status::Offline)]);
    // The request of a removed member may arrive late.
    world.system(Command::RemoveMember(EVE));
    world.sent.clear();
    world.relay(ToGuild::RequestPresences { session: session(0, 2), user_ids: vec![ANA, EVE] });
    assert_eq!(world.sent.len(), 0);
}

#[test]
fn s6_what_is_shown_of_one_user_is_bounded() {
    let mut world = World::populated();
    let long = "x".repeat(1_900);
    let mut largest = 0;
    for slot in 1..=16 {
        attach(&mut world, slot, shows(Status::Online, Platform::Web, &[&long, &long]));
        if let Some(presence) = published_presence(&mut world) {
            largest = largest.max(serde_json::to_string(&presence.activities).expect("it encodes").len());
        }
    }
    assert!((6 << 10..=8 << 10).contains(&largest), "{largest} bytes of 61,000");
    world.relay(ToGuild::Presence { session: session(0, 1), presence: shows(Status::Online, Platform::Web, &["go"]) });
    let presence = published_presence(&mut world).expect("it differs");
    assert_eq!((names(&presence)[0], presence.activities.len()), ("go", 5));
}
