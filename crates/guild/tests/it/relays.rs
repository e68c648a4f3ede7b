//! Relays: streams, attaches, losses. The fixture checks numbers, epochs and snapshots of everything.

use crate::fixture::*;
use guildhall_guild::{Actor, Command, NewChannel, Outcome, Output, Reply};
use guildhall_guild_protocol::{MembersWanted, RelayId, RelayMessage, ReplicaUpdate, SessionKey, ToGuild};
use guildhall_model::{
    AccountKind, ChannelType, EventName, MessageId, Presence, Status, UserId,
    to_gateway::{MemberQuery, RequestGuildMembers, VoiceStateUpdate},
};
use std::sync::Arc;

/// Kinds of messages a relay was sent since anything was last taken.
fn kinds(world: &mut World, relay: RelayId) -> Vec<&'static str> {
    let messages = world.take().into_iter().filter(|(to, _)| *to == relay);
    messages
        .map(|(_, message)| match message {
            RelayMessage::Snapshot { reset: false, .. } => "snapshot",
            RelayMessage::Snapshot { reset: true, .. } => "reset",
            RelayMessage::Published(published) => published.event.name.as_str(),
            RelayMessage::Attached { view: Some(_), .. } => "attached",
            RelayMessage::Attached { view: None, .. } => "stranger",
            RelayMessage::Transferred { .. } => "transferred",
            RelayMessage::Unavailable { .. } => "unavailable",
            RelayMessage::Direct { .. } => "direct",
            RelayMessage::Members { .. } => "members",
            RelayMessage::List(_) => "list",
            RelayMessage::Canary(_) => "canary",
        })
        .collect()
}

fn replica_update(message: &RelayMessage) -> &ReplicaUpdate {
    match message {
        RelayMessage::Published(published) => &published.replica_update,
        other => panic!("{other:?}"),
    }
}

#[test]
fn p1_each_relay_has_its_own_numbers() {
    let mut world = World::populated();
    let channel = world.text_channel();
    world.say(ANA, channel, "1");
    world.subscribe(P1, 5);
    assert_eq!(world.seq(P1), 1);
    world.say(ANA, channel, "2");
    assert_eq!(world.seq(P1), 2);
    let (before, seq) = (world.seq(P0), world.seq(P1));
    world.relay(ToGuild::Unsubscribe { relay: P1, epoch: 4 });
    world.say(ANA, channel, "3");
    assert_eq!(world.seq(P1), seq + 1, "an older incarnation's farewell is no farewell");
    world.relay(ToGuild::Unsubscribe { relay: P1, epoch: 5 });
    world.sent.clear();
    world.say(ANA, channel, "4");
    assert!(world.sent.iter().all(|(to, _)| *to == P0));
    assert_eq!(world.seq(P0), before + 2);
    // All relays share one event.
    world.subscribe(P1, 6);
    world.sent.clear();
    world.say(ANA, channel, "5");
    let shared: Vec<_> = world
        .take()
        .into_iter()
        .map(|(_, message)| match message {
            RelayMessage::Published(published) => published,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(shared.len() == 2 && Arc::ptr_eq(&shared[0], &shared[1]));
}

#[test]
fn p2_an_older_incarnation_is_ignored() {
    let mut world = World::populated();
    world.subscribe(P1, 5);
    world.attach(session(1, 1), ANA, Status::Online);
    world.sent.clear();
    for stale in [
        ToGuild::Subscribe { relay: P1, epoch: 4 },
        ToGuild::Resync { relay: P1, epoch: 4 },
        ToGuild::Unsubscribe { relay: P1, epoch: 4 },
        ToGuild::Resync { relay: relay(2), epoch: 1 },
        ToGuild::Detach { session: session(1, 2) },
        ToGuild::Presence { session: session(1, 2), presence: presence(Status::Dnd) },
    ] {
        world.relay(stale);
    }
    // No relay there to answer to.
    world.attach(session(2, 1), BOB, Status::Online);
    assert!(world.take().is_empty());
    assert!(!world.guild.is_idle());

    // A new incarnation: the sessions of the old one are gone, and the others hear of it.
    world.subscribe(P1, 6);
    let sent = std::mem::take(&mut world.sent);
    assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [P0, P1]);
    assert!(matches!(&sent[0].1.message, RelayMessage::Published(p) if p.event.name == EventName::PresenceUpdate));
    assert!(matches!(&sent[1].1.message, RelayMessage::Snapshot { reset: false, .. }));
    // The same again: it did not hear the answer.
    world.subscribe(P1, 6);
    assert_eq!(kinds(&mut world, P1), ["reset"]);
}

#[test]
fn p3_an_attach_stands_where_its_view_begins() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let voice = world.channel(new_channel("voice", ChannelType::Voice));
    world.sent.clear();
    let first = world.say(ANA, channel, "1");
    world.system(Command::ShowVoice(BOB, Some(voice)));
    world.attach(session(0, 1), ANA, Status::Dnd);
    let second = world.say(ANA, channel, "2");
    let messages = world.take();
    let names: Vec<_> = messages
        .iter()
        .map(|(_, message)| match message {
            RelayMessage::Published(published) => published.event.name.as_str(),
            RelayMessage::Attached { .. } => "attached",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["MESSAGE_CREATE", "VOICE_STATE_UPDATE", "PRESENCE_UPDATE", "attached", "MESSAGE_CREATE"]);
    let RelayMessage::Attached { session: key, view: Some(view) } = &messages[3].1 else { panic!() };
    assert_eq!(*key, session(0, 1));
    // What its relay knows by then.
    assert!(matches!(replica_update(&messages[0].1), ReplicaUpdate::Message(of, id) if (*of, *id) == (channel, first)));
    assert!(
        matches!(replica_update(&messages[1].1), ReplicaUpdate::Voice(who, Some(entry)) if [*who, entry.member.user.id] == [BOB; 2])
    );
    assert_eq!((view.member.user.id, view.member_count), (ANA, 4));
    assert!(view.members.is_none());
    assert!(second > first);

    // All members, for sessions that request them, with presences, including that of the session itself.
    let wanted = MembersWanted::ByThreshold { large_threshold: 50 };
    world.attach_as(session(0, 2), EVE, presence(Status::Idle), AccountKind::Bot, wanted);
    let views = world.views();
    let (table, threshold) =
        views[0].1.as_ref().and_then(|view| view.members.clone()).expect("the session requested it");
    assert_eq!((table.len(), threshold), (4, 50));
    let shown = |user_id| table.entry(user_id).and_then(|entry| entry.presence.as_ref()).map(|shown| shown.status);
    assert_eq!([shown(ANA), shown(EVE), shown(BOB)], [Some(Status::Dnd), Some(Status::Idle), None]);
    // The view's version grows.
    assert!(views[0].1.as_ref().is_some_and(|later| later.version > view.version));
}

#[test]
fn l2_strangers_do_not_count() {
    let mut world = World::populated();
    world.attach(session(0, 1), NOBODY, Status::Online);
    assert_eq!(kinds(&mut world, P0), ["stranger"]);
    assert!(!world.guild.is_idle(), "a relay is there");
    world.relay(ToGuild::Unsubscribe { relay: P0, epoch: 1 });
    assert!(world.guild.is_idle());
}

#[test]
fn l1_a_lost_relay_starts_again() {
    let mut world = World::populated();
    let channel = world.text_channel();
    world.subscribe(P1, 1);
    world.attach(session(1, 1), ANA, Status::Online);
    world.sent.clear();

    world.guild.handle_relay_lost(P1);
    world.say(ANA, channel, "lost");
    world.attach(session(1, 2), BOB, Status::Online);
    let request = RequestGuildMembers { guild_ids: vec![GUILD], query: MemberQuery::All, presences: true, nonce: None };
    world.relay(ToGuild::RequestMembers { session: session(1, 1), request: Box::new(request) });
    let sent = std::mem::take(&mut world.sent);
    assert!(sent.iter().all(|(to, _)| *to == P0));
    assert_eq!(sent.len(), 2, "the message, and that bob is there");
    world.guild.handle_relay_room(P0);
    world.drain();
    assert!(world.take().is_empty(), "that one was not lost");

    world.guild.handle_relay_room(P1);
    world.drain();
    assert_eq!(kinds(&mut world, P1), ["reset"]);
    world.say(ANA, channel, "heard");
    assert_eq!(kinds(&mut world, P1), ["MESSAGE_CREATE"]);
    // The session attaches again and is answered; it does not count twice.
    world.attach(session(1, 2), BOB, Status::Online);
    assert_eq!(kinds(&mut world, P1), ["attached"]);
    world.relay(ToGuild::Detach { session: session(1, 2) });
    assert_eq!(kinds(&mut world, P1), ["PRESENCE_UPDATE"]);

    // Its own word that it lost something does the same, whether or not the link was lost.
    world.guild.handle_relay_lost(P1);
    world.relay(ToGuild::Resync { relay: P1, epoch: 1 });
    assert_eq!(kinds(&mut world, P1), ["reset"]);
    world.guild.handle_relay_room(P1);
    world.relay(ToGuild::Resync { relay: P1, epoch: 1 });
    assert_eq!(kinds(&mut world, P1), ["reset"]);
}

#[test]
fn a_loss_drops_what_was_not_polled() {
    let mut world = World::populated();
    let channel = world.channel(new_channel("category", ChannelType::Category));
    for _ in 0..2 {
        world.channel(NewChannel { parent_id: Some(channel), ..new_channel("child", ChannelType::Text) });
    }
    world.subscribe(P1, 1);
    world.sent.clear();
    // The driver polls one message, cannot deliver it, and reports that before it polls on.
    world.guild.handle_command(world.now, Actor::System, &Command::DeleteChannel(channel));
    let mut lost = 0;
    let mut kept = 0;
    while let Some(output) = world.guild.poll_output() {
        match output {
            Output::Relay(output) if output.relay == P1 => {
                lost += 1;
                world.guild.handle_relay_lost(P1);
            }
            Output::Relay(..) => kept += 1,
            Output::Write(write) => world.store.apply(write),
            Output::Job(_) | Output::Answer(..) | Output::Users(_) => panic!("it takes no time"),
        }
    }
    assert_eq!((lost, kept), (1, 3));
    world.guild.handle_relay_room(P1);
    world.drain();
    assert_eq!(kinds(&mut world, P1), ["reset"]);
}

#[test]
fn d2_whoever_goes_leaves_nothing_behind() {
    let mut world = World::populated();
    let voice = world.channel(new_channel("voice", ChannelType::Voice));
    world.attach(session(0, 1), ANA, Status::Online);
    world.relay(ToGuild::Voice { session: session(0, 1), update: voice_state(Some(voice)) });
    world.sent.clear();
    world.by(ANA, Command::RemoveMember(ANA)).expect("every member may leave");
    let events = world.events();
    let names: Vec<_> = events.iter().map(|published| published.event.name).collect();
    assert_eq!(names, [EventName::VoiceStateUpdate, EventName::GuildMemberRemove]);
    assert!(matches!(events[1].replica_update, ReplicaUpdate::Member(user_id, None) if user_id == ANA));
    // Messages of the relay about the removed session have no effect.
    world.relay(ToGuild::Presence { session: session(0, 1), presence: presence(Status::Dnd) });
    world.relay(ToGuild::Voice { session: session(0, 1), update: voice_state(Some(voice)) });
    assert!(world.take().is_empty());
    // Back again, they are offline: neither that session counts, nor what was shown without one.
    world.join(ANA);
    world.system(Command::ShowPresence(ANA, Some(Arc::new(Presence { status: Status::Dnd, ..Presence::default() }))));
    world.system(Command::RemoveMember(ANA));
    world.join(ANA);
    world.sent.clear();
    world.relay(ToGuild::Presence { session: session(0, 1), presence: presence(Status::Dnd) });
    world.attach(session(0, 3), ANA, Status::Offline);
    assert_eq!(kinds(&mut world, P0), ["attached"]);
    world.relay(ToGuild::Detach { session: session(0, 3) });
    world.relay(ToGuild::Detach { session: session(0, 1) });
    let wanted = MembersWanted::ByThreshold { large_threshold: 50 };
    world.attach_as(session(0, 2), OWNER, presence(Status::Offline), AccountKind::Bot, wanted);
    let views = world.views();
    let view = views[0].1.as_ref().expect("the owner is a member");
    assert!(view.members.as_ref().is_some_and(|(table, _)| table.iter().all(|entry| entry.presence.is_none())));
}

#[test]
fn a_deleted_guild_has_no_members() {
    let mut world = World::populated();
    let channel = world.text_channel();
    world.attach(session(0, 1), ANA, Status::Online);
    world.sent.clear();
    assert!(world.by(ANA, Command::DeleteGuild).is_err(), "she does not own it");
    world.by(OWNER, Command::DeleteGuild).expect("the owner may");
    let published = world.only_event(EventName::GuildDelete);
    assert!(matches!(published.replica_update, ReplicaUpdate::Deleted));
    assert!(world.guild.is_deleted() && world.store.guild.is_none() && world.store.members.is_empty());
    for command in [Command::ReadGuild, Command::ReadChannel(channel), Command::AddMember(user(UserId::new(5)))] {
        let refusal = world.command(Actor::System, command).unwrap_err();
        assert_eq!(refusal, guildhall_guild::Refusal::UnknownGuild);
    }
    world.attach(session(0, 2), OWNER, Status::Online);
    assert_eq!(kinds(&mut world, P0), ["stranger"]);
    let version = world.guild.version();
    world.relay(ToGuild::Detach { session: session(0, 1) });
    assert_eq!(world.guild.version(), version, "it was forgotten");
    world.relay(ToGuild::Unsubscribe { relay: P0, epoch: 1 });
    assert!(world.guild.is_idle());
}

#[test]
fn idle_means_durable() {
    let mut world = World::populated();
    let channel = world.text_channel();
    world.relay(ToGuild::Unsubscribe { relay: P0, epoch: 1 });
    assert!(world.guild.is_idle());
    world.commits_at_once = false;
    world.say(ANA, channel, "x");
    assert!(!world.guild.is_idle(), "not durable yet");
    world.commit(usize::MAX);
    assert!(world.guild.is_idle());
    let shown = Arc::new(Presence { status: Status::Idle, ..Presence::default() });
    world.system(Command::ShowPresence(ANA, Some(shown)));
    assert!(!world.guild.is_idle(), "it would be forgotten");
    world.system(Command::ShowPresence(ANA, None));
    assert!(world.guild.is_idle());
    let delete = Command::DeleteMessage(channel, MessageId::new(5));
    let outcome = world.guild.handle_command(world.now, Actor::System, &delete);
    assert!(matches!(outcome, Outcome::NeedsMessage(..)));
    assert!(!world.guild.is_idle(), "a command waits");
    world.guild.handle_message_load_failed(channel, MessageId::new(5));
    assert!(world.guild.is_idle());
}

#[test]
fn a_key_that_is_used_twice_leaves_no_presence_behind() {
    let mut world = World::populated();
    world.attach(session(0, 1), ANA, Status::Online);
    world.sent.clear();
    world.attach(session(0, 1), BOB, Status::Online);
    assert_eq!(kinds(&mut world, P0), ["PRESENCE_UPDATE", "PRESENCE_UPDATE", "attached"]);
    world.relay(ToGuild::Detach { session: session(0, 1) });
    let Reply::Guild(reply) = world.system(Command::ReadGuild) else { panic!() };
    assert_eq!(reply.presence_count, 0);
}

/// A session attaches under another key, from which the guild transfers it.
fn transfer(world: &mut World, from: SessionKey, to: SessionKey, user_id: UserId, status: Status) {
    world.relay(ToGuild::Attach {
        session: to,
        session_id: session_id(from).into(),
        user_id,
        kind: AccountKind::Bot,
        presence: presence(status),
        members: MembersWanted::OwnAndVoice,
        is_restored: false,
        previous: Some(from),
    });
}

/// Whether the view of the last message to a relay goes on from another one.
fn is_transferred(world: &mut World, relay: RelayId) -> bool {
    let last = world.take().into_iter().rfind(|(to, _)| *to == relay);
    match last {
        Some((_, RelayMessage::Attached { view: Some(view), .. })) => view.is_transferred,
        other => panic!("{other:?}"),
    }
}

#[test]
fn l5_a_session_is_transferred_with_its_presence_and_voice_and_no_event() {
    let mut world = World::populated();
    let voice = world.channel(new_channel("voice", ChannelType::Voice));
    let channel = world.text_channel();
    world.subscribe(P1, 1);
    let (old, new) = (session(0, 1), session(1, 7));
    world.attach(old, ANA, Status::Dnd);
    let update = VoiceStateUpdate {
        guild_id: None,
        channel_id: Some(voice),
        self_mute: false,
        self_deaf: false,
        self_video: false,
    };
    world.relay(ToGuild::Voice { session: old, update });
    world.sent.clear();
    world.say(ANA, channel, "before");
    transfer(&mut world, old, new, ANA, Status::Dnd);
    world.say(ANA, channel, "after");
    let sent = std::mem::take(&mut world.sent);
    let of = |relay| sent.iter().filter(move |(to, _)| *to == relay).map(|(_, message)| &message.message);
    let old_messages: Vec<_> = of(P0).collect();
    assert!(
        matches!(
            old_messages[..],
            [RelayMessage::Published(_), RelayMessage::Transferred { session, user_id }, RelayMessage::Published(_)]
                if *session == old && *user_id == ANA
        ),
        "{old_messages:?}"
    );
    let new_messages: Vec<_> = of(P1).collect();
    assert!(
        matches!(
            new_messages[..],
            [RelayMessage::Published(_), RelayMessage::Attached { session, view: Some(view) }, RelayMessage::Published(_)]
                if *session == new && view.is_transferred
        ),
        "{new_messages:?}"
    );
    // The session that left means nothing any more, and the other one is in voice.
    world.relay(ToGuild::Detach { session: old });
    assert_eq!(kinds(&mut world, P0), Vec::<&str>::new());
    world.relay(ToGuild::Detach { session: new });
    assert_eq!(kinds(&mut world, P0), ["VOICE_STATE_UPDATE", "PRESENCE_UPDATE"]);
}

#[test]
fn l5_a_session_is_not_transferred_from_a_relay_that_lost_messages_or_that_does_not_have_it() {
    let mut world = World::populated();
    world.subscribe(P1, 1);
    let (old, new) = (session(0, 1), session(1, 7));
    transfer(&mut world, old, new, ANA, Status::Online);
    assert!(!is_transferred(&mut world, P1), "no session has this key");
    world.attach(old, BOB, Status::Online);
    transfer(&mut world, old, new, ANA, Status::Online);
    assert!(!is_transferred(&mut world, P1), "it is another account's");
    world.relay(ToGuild::Detach { session: old });
    world.attach(old, ANA, Status::Online);
    world.guild.handle_relay_lost(P0);
    world.sent.clear();
    transfer(&mut world, old, new, ANA, Status::Online);
    assert!(!is_transferred(&mut world, P1), "its relay has lost messages");
    assert!(world.guild.is_idle() || world.sent.iter().all(|(to, _)| *to != P0));
}
