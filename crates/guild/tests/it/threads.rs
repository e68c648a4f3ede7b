//! Threads: starter messages, counters, and archiving by time.

use crate::fixture::*;
use guildhall_guild::{Actor, ChannelPatch, Command, Guild, GuildLimits, NewThread, Outcome, Reply};
use guildhall_guild_protocol::{Payload, Published, ResourcePayload, ThreadEntry};
use guildhall_model::{Channel, ChannelId, ChannelType, EventName, Message, MessageId};

const HOUR_MS: u64 = 3_600_000;

fn begin(world: &mut World, parent: ChannelId, from: Option<MessageId>) -> ChannelId {
    let new = NewThread {
        name: "a thread".to_owned(),
        from,
        kind: Some(ChannelType::PublicThread),
        auto_archive_duration: Some(60),
        ..NewThread::default()
    };
    match world.by(OWNER, Command::CreateThread(parent, Box::new(new))) {
        Ok(Reply::Thread(thread)) => thread.0.channel.id,
        other => panic!("{other:?}"),
    }
}

fn as_it_is(world: &mut World, thread: ChannelId) -> ThreadEntry {
    match world.by(OWNER, Command::ReadChannel(thread)) {
        Ok(Reply::Thread(thread)) => thread.0,
        other => panic!("{other:?}"),
    }
}

fn counts(world: &mut World, thread: ChannelId) -> (u32, u32) {
    let entry = as_it_is(world, thread);
    let fields = entry.channel.thread.as_ref().unwrap();
    (fields.message_count, fields.total_message_sent)
}

fn is_archived(channel: &Channel) -> bool {
    channel.thread.as_ref().is_some_and(|thread| thread.archived)
}

/// Those that were closed since this was last asked.
fn closed(world: &mut World) -> Vec<ChannelId> {
    let of = |published: &std::sync::Arc<Published>| match &published.event.payload {
        Payload::Resource(resource) if published.event.name == EventName::ThreadUpdate => match &**resource {
            ResourcePayload::Thread(event) if is_archived(&event.entry.channel) => Some(event.entry.channel.id),
            _ => None,
        },
        _ => None,
    };
    world.events().iter().filter_map(of).collect()
}

/// Runs the timers that are due now.
fn run_due(world: &mut World) {
    while world.guild.next_deadline().is_some_and(|at| at <= world.now.instant) {
        let now = world.now;
        world.guild.handle_timer(now);
        world.drain();
    }
}

fn said(world: &mut World) -> Vec<Message> {
    let events = world.events();
    let created = events.iter().filter(|published| published.event.name == EventName::MessageCreate);
    created.map(|published| message_of(published).clone()).collect()
}

#[test]
fn one_begun_from_a_message_begins_with_it() {
    let mut world = World::populated();
    let parent = world.text_channel();
    let message = world.say(ANA, parent, "look");
    world.sent.clear();
    let thread = begin(&mut world, parent, Some(message));
    let [starter] = &said(&mut world)[..] else { panic!("one message") };
    assert_eq!((starter.kind, starter.channel_id, starter.author.id), (21, thread, ANA));
    assert_eq!(starter.answers(), Some((parent, message)));
    assert_eq!(counts(&mut world, thread), (0, 0), "the starter message does not count");
}

#[test]
fn one_begun_from_nothing_is_announced_in_the_channel() {
    let mut world = World::populated();
    let parent = world.text_channel();
    world.sent.clear();
    let thread = begin(&mut world, parent, None);
    let [note] = &said(&mut world)[..] else { panic!("one message") };
    assert_eq!((note.kind, note.channel_id, note.content.as_str()), (18, parent, "a thread"));
    let reference = note.message_reference.unwrap();
    assert_eq!((reference.channel_id, reference.message_id.get()), (thread, 0));
    // A private thread publishes no notice.
    let new = NewThread { name: "secret".to_owned(), kind: Some(ChannelType::PrivateThread), ..NewThread::default() };
    world.by(OWNER, Command::CreateThread(parent, Box::new(new))).unwrap();
    assert!(said(&mut world).is_empty());
}

#[test]
fn messages_that_are_deleted_count_no_more_but_were_sent() {
    let mut world = World::populated();
    let parent = world.text_channel();
    let message = world.say(ANA, parent, "look");
    let thread = begin(&mut world, parent, Some(message));
    let ids: Vec<MessageId> = (0..5).map(|n| world.say(ANA, thread, &n.to_string())).collect();
    assert_eq!(counts(&mut world, thread), (5, 5));
    world.by(ANA, Command::DeleteMessage(thread, ids[0])).unwrap();
    assert_eq!(counts(&mut world, thread), (4, 5));
    world.by(OWNER, Command::DeleteMessages(thread, vec![ids[1], ids[2]])).unwrap();
    assert_eq!(counts(&mut world, thread), (2, 5));
    let mut loaded = Guild::load(world.store.record(), GuildLimits::default(), 1);
    let read = Command::ReadChannel(thread);
    let Outcome::Reply(Ok(Reply::Thread(entry))) = loaded.handle_command(world.now, Actor::System, &read) else {
        panic!("it is there")
    };
    assert_eq!(entry.0.channel, as_it_is(&mut world, thread).channel);
}

#[test]
fn a1_they_are_closed_when_nothing_was_said_for_so_long_and_not_before() {
    let mut world = World::populated();
    let parent = world.text_channel();
    let (quiet, busy) = (begin(&mut world, parent, None), begin(&mut world, parent, None));
    world.sent.clear();
    world.pass_ms(HOUR_MS - 1);
    world.say(ANA, busy, "still here");
    run_due(&mut world);
    assert_eq!(closed(&mut world), []);
    world.pass_ms(1);
    run_due(&mut world);
    assert_eq!(closed(&mut world), [quiet]);
    assert!(is_archived(&as_it_is(&mut world, quiet).channel));
    world.pass_ms(HOUR_MS);
    run_due(&mut world);
    assert_eq!(closed(&mut world), [busy]);
    // Opened, it has its time again; with more of it, it stays longer.
    let open = ChannelPatch { archived: Some(false), ..ChannelPatch::default() };
    world.by(OWNER, Command::UpdateChannel(quiet, Box::new(open))).unwrap();
    let longer = ChannelPatch { auto_archive_duration: Some(1_440), ..ChannelPatch::default() };
    world.by(OWNER, Command::UpdateChannel(quiet, Box::new(longer))).unwrap();
    world.pass_ms(24 * HOUR_MS - 1);
    run_due(&mut world);
    assert_eq!(closed(&mut world), []);
    // A thread whose archive time passed while the guild was unloaded is archived after the load.
    let mut loaded = Guild::load(world.store.record(), GuildLimits::default(), 1);
    assert!(loaded.next_deadline().is_some_and(|at| at <= world.now.instant), "the first timer looks");
    world.pass_ms(1);
    loaded.handle_timer(world.now);
    let read = Command::ReadChannel(quiet);
    let Outcome::Reply(Ok(Reply::Thread(entry))) = loaded.handle_command(world.now, Actor::System, &read) else {
        panic!("it is there")
    };
    assert!(is_archived(&entry.0.channel));
    assert!(loaded.next_deadline().is_none(), "there is no other");
}

#[test]
fn a1_many_at_once_are_closed_in_slices() {
    let mut world = World::populated();
    let parent = world.text_channel();
    let mut threads: Vec<ChannelId> = (0..150).map(|_| begin(&mut world, parent, None)).collect();
    world.sent.clear();
    world.pass_ms(HOUR_MS);
    let now = world.now;
    world.guild.handle_timer(now);
    world.drain();
    let first = closed(&mut world);
    assert!(first.len() < threads.len(), "not all in one input");
    let mut all = first;
    while world.guild.next_deadline().is_some() {
        world.pass_ms(10);
        run_due(&mut world);
        all.extend(closed(&mut world));
    }
    all.sort_unstable();
    threads.sort_unstable();
    assert_eq!(all, threads);
}
