//! Shutting down: accepted commands are finished, new ones are refused, and the threads end.

use crate::support::{FakeClock, FaultStore, Relays, World, bounded, config};
use guildhall_guild::{Actor, Command, Refusal};
use guildhall_node::{Clock, Node};
use guildhall_stdx::Now;
use guildhall_store::{MemoryStore, Store as _};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::watch;

#[tokio::test]
async fn accepted_commands_become_durable_and_are_published() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let mut relay = world.listen(guild_id, 0);
    relay.snapshot().await;
    let started = world.store.counts().commits_begun;
    world.store.set(|faults| faults.hold_commits = true);
    let first = world.start_saying(guild_id, channel_id, "first");
    world.store.wait(|counts| counts.commits_begun == started + 1).await;
    let second = world.start_saying(guild_id, channel_id, "second");
    tokio::task::yield_now().await;
    let node = world.node.clone();
    let down = tokio::spawn(async move { node.shut_down().await });
    tokio::task::yield_now().await;
    assert_eq!(world.say(guild_id, channel_id, "too late").await, Err(Refusal::Unavailable));
    assert!(!down.is_finished());
    world.store.set(|faults| faults.hold_commits = false);
    bounded(down).await.unwrap();
    for sent in [first, second] {
        let id = bounded(sent).await.unwrap().expect("it was accepted");
        assert_eq!(relay.next_message().await.0, id);
        assert!(world.store.message(channel_id, id).await.unwrap().is_some());
    }
    bounded(world.node.shut_down()).await;
}

#[tokio::test]
async fn a_guild_that_is_still_loading_is_waited_for() {
    let world = World::new();
    let guild_id = world.guild().await;
    let world = world.restarted().await;
    world.store.set(|faults| faults.hold_loads = true);
    let node = world.node.clone();
    let request =
        tokio::spawn(async move { node.command(guild_id, Actor::System, Command::ReadGuild).await.map(drop) });
    world.store.wait(|counts| counts.loads_begun == 1).await;
    let node = world.node.clone();
    let down = tokio::spawn(async move { node.shut_down().await });
    tokio::task::yield_now().await;
    world.store.set(|faults| faults.hold_loads = false);
    assert_eq!(bounded(request).await.unwrap(), Ok(()));
    bounded(down).await.unwrap();
}

#[tokio::test]
async fn a_failing_store_does_not_keep_a_node_from_shutting_down() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let mut relay = world.listen(guild_id, 0);
    relay.snapshot().await;
    world.store.set(|faults| {
        faults.failing_commits = u32::MAX;
        faults.failing_loads = u32::MAX;
    });
    assert_eq!(world.say(guild_id, channel_id, "lost").await, Err(Refusal::Unavailable));
    world.relays.set_full(0, true);
    bounded(world.node.shut_down()).await;
}

/// Reports when the last worker dropped it.
struct Watched(FakeClock, watch::Sender<bool>);

impl Clock for Watched {
    fn now(&self) -> Now {
        self.0.now()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.1.send_replace(true);
    }
}

#[tokio::test]
async fn the_threads_end_with_the_last_clone() {
    let sender = watch::Sender::new(false);
    let mut ended = sender.subscribe();
    let clock = Arc::new(Watched(FakeClock::default(), sender));
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    let node = Node::start(config(), store, clock, Arc::new(Relays::default()));
    let clone = node.clone();
    crate::support::create_guild(&node).await;
    drop(node);
    crate::support::create_guild(&clone).await;
    assert!(!*ended.borrow());
    drop(clone);
    bounded(ended.wait_for(|ended| *ended)).await.unwrap();
}

/// Panics its readers once the flag is set.
#[derive(Default)]
struct Broken(FakeClock, AtomicBool);

impl Clock for Broken {
    fn now(&self) -> Now {
        assert!(!self.1.load(Ordering::SeqCst), "the test breaks the clock");
        self.0.now()
    }
}

#[tokio::test]
async fn a_worker_that_panics_outside_of_a_guild_is_a_failure_of_the_node() {
    let clock = Arc::new(Broken::default());
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    let node = Node::start(config(), store, clock.clone(), Arc::new(Relays::default()));
    crate::support::create_guild(&node).await;
    let failed = node.failed();
    clock.1.store(true, Ordering::SeqCst);
    node.poke();
    bounded(failed).await;
}
