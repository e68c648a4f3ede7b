//! Canaries: each relay of a guild gets them in its stream, and one that returns none is a ghost.

use crate::support::{Listener, OWNER, World, attach, config, limits, session};
use guildhall_guild_protocol::{Canary, RelayMessage, ToGuild};
use guildhall_model::GuildId;
use guildhall_node::{CanaryCounts, CanaryLimits, NodeLimits};
use guildhall_store::MemoryStore;
use std::sync::Arc;

fn world(members_min: u64) -> World {
    let canaries = CanaryLimits { members_min, interval_ms: 1_000 };
    World::with(config(), NodeLimits { canaries, ..limits() }, Arc::new(MemoryStore::new()))
}

fn canary(listener: &mut Listener) -> Option<Canary> {
    listener.try_next().map(|message| match message {
        RelayMessage::Canary(canary) => canary,
        other => panic!("{other:?} instead of a canary"),
    })
}

fn give_back(world: &World, guild_id: GuildId, listener: &Listener, number: u32) {
    world.send(guild_id, ToGuild::CanaryReturned { relay: listener.relay, number });
}

#[tokio::test]
async fn a_relay_that_returns_nothing_is_a_ghost_and_others_are_not() {
    let world = world(1);
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let (mut good, mut ghost) = (world.listen(guild_id, 0), world.listen(guild_id, 1));
    world.send(guild_id, attach(session(0, 0), OWNER));
    good.snapshot().await;
    ghost.snapshot().await;
    assert!(matches!(good.next().await, RelayMessage::Attached { .. }));
    world.barrier().await;
    for number in 1..=5 {
        world.advance(1_000).await;
        // Numbered like events: the listeners check that there is no gap.
        let (first, second) = (canary(&mut good).unwrap(), canary(&mut ghost).unwrap());
        assert_eq!((first.number, first.members_count, second), (number, 1, first));
        give_back(&world, guild_id, &good, number);
        world.barrier().await;
        assert_eq!(world.node.canary_counts().ghosts, u64::from(number >= 4), "{number}");
    }
    let sent = world.say(guild_id, channel_id, "between").await.unwrap();
    assert_eq!((good.next_message().await.0, ghost.next_message().await.0), (sent, sent), "the stream goes on");
    give_back(&world, guild_id, &ghost, 1);
    world.barrier().await;
    assert_eq!(world.node.canary_counts(), CanaryCounts { sent: 10, returned: 6, ghosts: 0 });
}

#[tokio::test]
async fn a_relay_that_is_full_or_gone_and_a_small_guild() {
    let world = world(1);
    let (guild_id, _) = world.guild_with_channel().await;
    let mut relay = world.listen(guild_id, 0);
    relay.snapshot().await;
    world.barrier().await;
    // What does not arrive is no gap: the stream continues behind it.
    world.relays.set_full(0, true);
    for _ in 0..4 {
        world.advance(1_000).await;
    }
    assert_eq!(world.node.canary_counts().ghosts, 1);
    world.relays.set_full(0, false);
    world.advance(1_000).await;
    assert_eq!(canary(&mut relay).unwrap().number, 5);
    world.send(guild_id, relay.unsubscribe());
    world.barrier().await;
    assert_eq!(world.node.canary_counts().ghosts, 0);

    let small = self::world(2);
    let (guild_id, _) = small.guild_with_channel().await;
    let mut relay = small.listen(guild_id, 0);
    relay.snapshot().await;
    small.barrier().await;
    for _ in 0..40 {
        small.advance(1_000).await;
    }
    assert_eq!((canary(&mut relay), small.node.canary_counts()), (None, CanaryCounts::default()));
}
