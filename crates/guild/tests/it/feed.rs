//! The feed: which events are written, and with what.

use crate::fixture::*;
use guildhall_guild::{Command, FeedKind, GuildLimits};
use guildhall_guild_protocol::ToGuild;

fn kinds(world: &World) -> Vec<FeedKind> {
    world.store.events.iter().map(|event| event.kind).collect()
}

fn world(keeps_events: bool) -> World {
    let mut world = World::populated();
    let record = world.store.record();
    let limits = GuildLimits { keeps_events, ..GuildLimits::default() };
    world.guild = guildhall_guild::Guild::load(record, limits, 3);
    world.relay(ToGuild::Subscribe { relay: P0, epoch: 2 });
    world
}

#[test]
fn f1_an_event_is_written_once_and_with_its_change() {
    let mut world = world(true);
    let channel = world.text_channel();
    let id = world.say(ANA, channel, "hello");
    world.by(ANA, Command::DeleteMessage(channel, id)).expect("she may");
    assert_eq!(kinds(&world), [FeedKind::MessageCreate, FeedKind::MessageDelete]);
    let event = &world.store.events[0];
    assert_eq!((event.guild_id(), event.channel_id()), (Some(GUILD), Some(channel)));
    assert!(event.to_json().contains("\"content\":\"hello\""), "{}", event.to_json());
}

#[test]
fn f1_without_sessions_too() {
    let mut world = world(true);
    world.relay(ToGuild::Unsubscribe { relay: P0, epoch: 2 });
    let channel = world.text_channel();
    world.say(ANA, channel, "hello");
    assert_eq!(kinds(&world), [FeedKind::MessageCreate]);
}

#[test]
fn f2_nothing_is_written_without_the_limit() {
    let mut world = world(false);
    let channel = world.text_channel();
    world.say(ANA, channel, "hello");
    assert_eq!(kinds(&world), []);
}
