//! Exports: the guild of the next process begins as the one before ended, and its sessions find their places again.

use crate::{
    fixture::{text as text_message, *},
    random::Walk,
};
use guildhall_guild::{Command, Guild, HandoffParts, HandoffTail, NewMessage, Reply};
use guildhall_guild_protocol::{MembersWanted, Payload, Published, SessionKey, ToGuild};
use guildhall_model::{AccountKind, ChannelId, ChannelType, Nonce, Status, UserId, to_gateway::VoiceStateUpdate};
use guildhall_stdx::Now;
use serde::{Serialize, de::DeserializeOwned};
use std::{convert::Infallible, sync::Arc};

const STEPS: usize = 300;

/// As the next process reads it.
fn sent<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).expect("it can be written")).expect("it can be read")
}

fn exported(guild: &Guild, now: Now) -> (HandoffParts, HandoffTail, Vec<String>) {
    let (base, tail) = guild.export(now);
    let (mut parts, mut texts) = (HandoffParts::default(), Vec::new());
    let Ok(()) = base.for_each_chunk(|chunk| {
        texts.push(serde_json::to_string(&chunk).expect("it can be written"));
        parts.add(sent(&chunk));
        Ok::<_, Infallible>(())
    });
    texts.push(serde_json::to_string(&tail).expect("it can be written"));
    (parts, sent(&tail), texts)
}

/// The guild of the next process, with a relay and no session.
fn next_process(world: &mut World) {
    let (parts, tail, _) = exported(&world.guild, world.now);
    world.begin_again(parts.restored(world.now, Default::default(), 5, tail).expect("it is complete"));
    world.take();
}

/// A session of the process before attaches. Its key is another one.
fn comes_back(world: &mut World, key: SessionKey, before: SessionKey, user_id: UserId, status: Status) {
    let session_id = session_id(before).into();
    let (presence, members) = (presence(status), MembersWanted::OwnAndVoice);
    let kind = AccountKind::Bot;
    let attach = ToGuild::Attach {
        session: key,
        session_id,
        user_id,
        kind,
        presence,
        members,
        is_restored: true,
        previous: None,
    };
    world.relay(attach);
}

fn voice_channel(world: &mut World) -> ChannelId {
    world.channel(new_channel("talk", ChannelType::Voice))
}

fn join(world: &mut World, session: SessionKey, channel_id: ChannelId) {
    let update = VoiceStateUpdate { guild_id: Some(GUILD), ..voice_state(Some(channel_id)) };
    world.relay(ToGuild::Voice { session, update });
}

/// Users and channels of voice states, users and presences.
type VoiceAndPresences = (Vec<(UserId, Option<ChannelId>)>, Vec<(UserId, Status)>);

fn published(events: &[Arc<Published>]) -> VoiceAndPresences {
    let mut found = VoiceAndPresences::default();
    for published in events {
        match &published.event.payload {
            Payload::Voice { state, .. } => found.0.push((state.user_id, state.channel_id)),
            Payload::Presence { user_id, presence } => found.1.push((*user_id, presence.status)),
            _ => {}
        }
    }
    found
}

fn voice_events(world: &mut World) -> Vec<(UserId, Option<ChannelId>)> {
    published(&world.all_events()).0
}

fn presence_events(world: &mut World) -> Vec<(UserId, Status)> {
    published(&world.all_events()).1
}

#[test]
fn e1_the_next_process_begins_with_the_state_of_the_one_before() {
    let mut compared_bytes = 0;
    for seed in 0..40 {
        let mut walk = Walk::new(seed);
        for _ in 0..STEPS {
            walk.step();
        }
        walk.run_until_idle();
        let now = walk.world.now;
        let (parts, tail, expected) = exported(&walk.world.guild, now);
        let guild = parts.restored(now, walk.limits.clone(), 5, tail).expect("it is complete");
        let (_, _, found) = exported(&guild, now);
        compared_bytes += expected.iter().map(String::len).sum::<usize>();
        assert_eq!(expected.len(), found.len(), "seed {seed}");
        for (expected, found) in expected.iter().zip(&found) {
            assert_eq!(expected, found, "seed {seed}");
        }
    }
    assert!(compared_bytes > 100_000, "there is something to compare: {compared_bytes}");
}

#[test]
fn e2_sessions_that_attach_again_cause_no_event() {
    let mut world = World::populated();
    let channel = voice_channel(&mut world);
    let (ana, bob) = (session(0, 3), session(0, 4));
    world.attach(ana, ANA, Status::Online);
    world.attach(bob, BOB, Status::Idle);
    join(&mut world, ana, channel);
    for round in 0..2 {
        next_process(&mut world);
        // The keys of the two are exchanged.
        let (new_ana, new_bob) = if round == 0 { (bob, ana) } else { (ana, bob) };
        comes_back(&mut world, new_ana, ana, ANA, Status::Online);
        comes_back(&mut world, new_bob, bob, BOB, Status::Idle);
        let now = world.now;
        world.guild.end_restore(now);
        world.drain();
        world.rest();
        assert!(world.all_events().is_empty());
        match world.system(Command::ReadVoiceState(ANA)) {
            Reply::VoiceState(entry) => assert_eq!(entry.state.channel_id, Some(channel)),
            other => panic!("{other:?}"),
        }
    }
    // The connection is that of the session that attached.
    world.relay(ToGuild::Detach { session: bob });
    assert!(voice_events(&mut world).is_empty());
    world.relay(ToGuild::Detach { session: ana });
    assert_eq!(voice_events(&mut world), [(ANA, None)]);
}

#[test]
fn e2_a_presence_that_waits_is_published_after_the_restore() {
    let mut world = World::populated();
    let watcher = session(0, 1);
    world.attach(watcher, OWNER, Status::Online);
    let key = session(0, 3);
    world.attach(key, ANA, Status::Online);
    world.rest();
    world.pass_ms(5_000);
    world.take();
    // More changes than the limit admits at once; the last one waits.
    for n in 0..1_001 {
        let status = if n % 2 == 0 { Status::Idle } else { Status::Online };
        world.relay(ToGuild::Presence { session: key, presence: presence(status) });
    }
    let last = presence_events(&mut world).pop().expect("some are published");
    assert_eq!(last, (ANA, Status::Online), "so that the last one is to be published");
    next_process(&mut world);
    comes_back(&mut world, watcher, watcher, OWNER, Status::Online);
    world.pass_ms(5_000);
    let now = world.now;
    world.guild.handle_timer(now);
    world.drain();
    assert!(presence_events(&mut world).is_empty(), "E2");
    comes_back(&mut world, key, key, ANA, Status::Idle);
    world.guild.end_restore(now);
    world.drain();
    world.rest();
    assert_eq!(presence_events(&mut world), [(ANA, Status::Idle)]);
}

#[test]
fn e3_users_whose_session_does_not_come_back_leave_voice_and_are_offline() {
    let mut world = World::populated();
    let channel = voice_channel(&mut world);
    let (ana, other_ana, bob) = (session(0, 3), session(0, 5), session(0, 4));
    world.attach(ana, ANA, Status::Online);
    world.attach(other_ana, ANA, Status::Idle);
    world.attach(bob, BOB, Status::Dnd);
    join(&mut world, ana, channel);
    join(&mut world, bob, channel);
    world.system(Command::ShowVoice(EVE, Some(channel)));
    next_process(&mut world);
    comes_back(&mut world, session(0, 0), other_ana, ANA, Status::Idle);
    let now = world.now;
    world.guild.end_restore(now);
    world.drain();
    world.rest();
    let (voice, presences) = published(&world.all_events());
    assert_eq!(voice, [(ANA, None), (BOB, None)], "the backend's state stays");
    assert_eq!(presences, [(ANA, Status::Idle), (BOB, Status::Offline)]);
    // It has ended: a session that attaches late changes nothing of it.
    comes_back(&mut world, session(0, 2), bob, BOB, Status::Dnd);
    assert!(voice_events(&mut world).is_empty());
}

#[test]
fn a_nonce_of_the_process_before_counts() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let with = |enforce_nonce| NewMessage { nonce: Some(Nonce::Number(5)), enforce_nonce, ..text_message("once") };
    let first = world.try_say(ANA, channel, with(false)).expect("it is sent").message.id;
    next_process(&mut world);
    let again = world.try_say(ANA, channel, with(true)).expect("it is answered").message.id;
    assert_eq!(again, first);
}
