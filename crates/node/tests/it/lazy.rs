//! Guilds are loaded by the first request, and unloaded when unused.

use crate::support::{OWNER, World, attach, bounded, config, session};
use guildhall_guild::{Actor, Command, Refusal, Request};
use guildhall_guild_protocol::{MemberTable, RelayMessage, ToGuild};
use guildhall_node::{GUILD_IDLE_MS, NodeConfig, NodeLimits};
use guildhall_store::MemoryStore;
use std::sync::Arc;

#[tokio::test]
async fn concurrent_requests_make_one_load() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let world = world.restarted().await;
    assert_eq!(world.store.counts().loads_begun, 0, "nothing is loaded before it is needed");
    world.store.set(|faults| faults.hold_loads = true);
    let sent: Vec<_> = (0..20).map(|n| world.start_saying(guild_id, channel_id, &n.to_string())).collect();
    let mut relay = world.listen(guild_id, 0);
    world.send(guild_id, attach(session(0, 0), OWNER));
    world.store.wait(|counts| counts.loads_begun == 1).await;
    world.barrier().await;
    assert!(sent.iter().all(|sent| !sent.is_finished()));
    world.store.set(|faults| faults.hold_loads = false);
    for sent in sent {
        bounded(sent).await.unwrap().unwrap();
    }
    relay.snapshot().await;
    while !matches!(relay.next().await, RelayMessage::Attached { view: Some(_), .. }) {}
    assert_eq!(world.store.counts().loads_begun, 1);
}

/// Names a reply that `ReadGuild` does not have.
struct Mispaired;

impl Request for Mispaired {
    type Reply = MemberTable;

    fn into_command(self) -> Command {
        Command::ReadGuild
    }
}

#[tokio::test]
async fn a_reply_of_another_type_than_the_request_names_is_a_refusal() {
    let world = World::new();
    let guild_id = world.guild().await;
    let refused = bounded(world.node.command(guild_id, Actor::System, Mispaired)).await.map(drop);
    assert_eq!(refused, Err(Refusal::Internal));
    let refused = bounded(world.node.begin(guild_id, Actor::System, Mispaired)).await.map(drop);
    assert_eq!(refused, Err(Refusal::Internal));
    assert_eq!(Refusal::Internal.status_and_code(), (500, 0));
    bounded(world.node.command(guild_id, Actor::System, Command::ReadGuild)).await.expect("the guild still answers");
}

#[tokio::test]
async fn only_so_many_guilds_are_loaded_at_once() {
    let world = World::new();
    let mut guilds = Vec::new();
    for _ in 0..10 {
        guilds.push(world.guild().await);
    }
    let inner = world.store.inner();
    bounded(world.node.shut_down()).await;
    let limits = NodeLimits { guild_loads_max: 3, ..NodeLimits::default() };
    let world = World::with(config(), limits, inner);
    world.store.set(|faults| faults.hold_loads = true);
    let requests: Vec<_> = guilds
        .iter()
        .map(|guild_id| {
            let (node, guild_id) = (world.node.clone(), *guild_id);
            tokio::spawn(async move { node.command(guild_id, Actor::System, Command::ReadGuild).await.map(drop) })
        })
        .collect();
    world.store.wait(|counts| counts.loads_begun == 3).await;
    // No barrier here: it would have to be loaded too. The fourth begins only after one of these ended.
    assert_eq!(world.store.counts().loads_begun, 3);
    world.store.set(|faults| faults.hold_loads = false);
    for request in requests {
        assert_eq!(bounded(request).await.unwrap(), Ok(()));
    }
    assert_eq!(world.store.counts().loads_begun, 10);
}

#[tokio::test]
async fn an_idle_guild_is_unloaded_and_comes_back_as_it_was() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    world.say(guild_id, channel_id, "before").await.unwrap();
    world.advance(GUILD_IDLE_MS - 1).await;
    assert_eq!(world.member_count(guild_id).await, Ok(1));
    assert_eq!(world.store.counts().loads_begun, 0, "it was made here and never left");
    // It was used a moment ago.
    world.advance(GUILD_IDLE_MS - 1).await;
    assert_eq!(world.member_count(guild_id).await, Ok(1));
    assert_eq!(world.store.counts().loads_begun, 0);
    world.advance(GUILD_IDLE_MS).await;
    assert_eq!(world.member_count(guild_id).await, Ok(1));
    assert_eq!(world.store.counts().loads_begun, 1);
    world.say(guild_id, channel_id, "after").await.unwrap();
}

#[tokio::test]
async fn a_guild_with_a_relay_stays() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let mut relay = world.listen(guild_id, 0);
    relay.snapshot().await;
    world.advance(GUILD_IDLE_MS).await;
    world.advance(GUILD_IDLE_MS).await;
    world.say(guild_id, channel_id, "still here").await.unwrap();
    relay.next_message().await;
    assert_eq!(world.store.counts().loads_begun, 0);
    world.send(guild_id, relay.unsubscribe());
    world.barrier().await;
    world.advance(GUILD_IDLE_MS).await;
    world.say(guild_id, channel_id, "back").await.unwrap();
    assert_eq!(world.store.counts().loads_begun, 1);
}

#[tokio::test]
async fn a_full_mailbox_says_so_and_one_guild_cannot_fill_it() {
    let config = NodeConfig { worker_mailbox_max: 40, ..config() };
    let world = World::with(config.clone(), NodeLimits::default(), Arc::new(MemoryStore::new()));
    let (stuck, channel_id) = world.guild_with_channel().await;
    let (well, _) = world.guild_with_channel().await;
    let inner = world.store.inner();
    bounded(world.node.shut_down()).await;
    let world = World::with(config, NodeLimits::default(), inner);
    assert_eq!(world.member_count(well).await, Ok(1));

    world.store.set(|faults| faults.hold_loads = true);
    let waiting: Vec<_> = (0..15).map(|n| world.start_saying(stuck, channel_id, &n.to_string())).collect();
    world.store.wait(|counts| counts.loads_begun == 2).await;
    tokio::task::yield_now().await;
    let subscribe = |epoch| ToGuild::Subscribe {
        relay: guildhall_guild_protocol::RelayId::first(guildhall_guild_protocol::PartitionId(0)),
        epoch,
    };
    let taken = (1..=40).filter(|epoch| world.node.try_send_to_guild(stuck, subscribe(*epoch)).is_ok()).count();
    assert_eq!(taken, 5, "half of the places");
    assert!(matches!(world.node.try_send_to_guild(stuck, subscribe(99)), Err(ToGuild::Subscribe { epoch: 99, .. })));
    assert_eq!(world.say(stuck, channel_id, "no place").await, Err(Refusal::Unavailable));
    assert_eq!(world.member_count(well).await, Ok(1), "the other guild goes on");

    world.store.set(|faults| faults.hold_loads = false);
    for sent in waiting {
        bounded(sent).await.unwrap().expect("accepted commands are handled");
    }
    world.say(stuck, channel_id, "places were given back").await.unwrap();
    for epoch in 100..130 {
        world.send(stuck, subscribe(epoch));
        world.barrier().await;
    }
}
