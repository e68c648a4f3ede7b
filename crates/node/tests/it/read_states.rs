//! Read states and notification settings.

use crate::support::{World, bounded};
use guildhall_guild::Refusal;
use guildhall_model::{ChannelId, MessageId, NotificationSettings, UserId};
use guildhall_node::{Ack, NotificationChange, NotificationsChanged, OVERRIDES_MAX, OverrideChange};
use guildhall_store::Store as _;

const ANA: UserId = UserId::new(7);
const ROOM: ChannelId = ChannelId::new(100);

fn ack(message_id: u64) -> Ack {
    let message_id = MessageId::new(message_id);
    Ack { message_id, is_manual: false, mention_count: None, flags: None, last_viewed: None }
}

async fn read_up_to(world: &World, channel_id: ChannelId) -> u64 {
    let reading = bounded(world.node.reading(ANA, &[])).await.expect("the store can be read");
    let state = reading.states.iter().find(|state| state.channel_id == channel_id);
    state.map_or(0, |state| state.last_message_id.get())
}

/// Waits for a number of events to accounts.
async fn events(world: &World, count: usize) {
    bounded(async {
        while world.relays.user_events().len() < count {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a1_an_event_follows_the_commit() {
    let world = World::new();
    world.store.set(|faults| faults.full = true);
    world.node.acknowledge(ANA, ROOM, ack(5)).expect("there is room");
    // A read does not fail with the write.
    assert_eq!(read_up_to(&world, ROOM).await, 0);
    assert!(world.relays.user_events().is_empty());
    world.node.acknowledge(ANA, ROOM, ack(4)).expect("there is room");

    world.store.set(|faults| faults.full = false);
    // The gate of the node opens when a probe succeeds.
    bounded(async {
        while read_up_to(&world, ROOM).await != 5 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    events(&world, 1).await;
    assert_eq!(world.relays.user_events().len(), 1, "merged");
    assert_eq!(world.relays.user_events()[0].1, [ANA]);
    world.node.wrote_message(ANA, ROOM, MessageId::new(9));
    assert_eq!(read_up_to(&world, ROOM).await, 9);
    assert_eq!(world.relays.user_events().len(), 1, "the author's clients know");
}

#[tokio::test]
async fn a2_a_read_includes_what_was_accepted() {
    let world = World::new();
    for n in 1..=300 {
        world.node.acknowledge(ANA, ChannelId::new(n), ack(1_000 + n)).expect("there is room");
        if n % 100 == 0 {
            assert_eq!(read_up_to(&world, ChannelId::new(n)).await, 1_000 + n);
        }
    }
    events(&world, 300).await;
    world.node.forget_read_state(ANA, ROOM).expect("there is room");
    assert_eq!(read_up_to(&world, ROOM).await, 0);
    // The end of the node writes what waits.
    world.node.acknowledge(ANA, ROOM, ack(8)).expect("there is room");
    let world = world.restarted().await;
    assert_eq!(read_up_to(&world, ROOM).await, 8);
    bounded(world.node.remove_read_states(ANA)).await.expect("the store can be written");
    assert!(world.store.read_states(ANA, 10).await.expect("it can be read").is_empty());
}

#[tokio::test]
async fn what_waits_is_bounded() {
    let world = World::new();
    world.store.set(|faults| faults.full = true);
    let accepted = (1..=70_000).take_while(|n| world.node.acknowledge(ANA, ChannelId::new(*n), ack(1)).is_ok());
    assert_eq!(accepted.count(), 65_536);
    assert_eq!(world.node.acknowledge(ANA, ChannelId::new(70_000), ack(1)), Err(Refusal::Unavailable));
    world.node.acknowledge(ANA, ChannelId::new(1), ack(2)).expect("it is merged");
}

#[tokio::test]
async fn f1_changes_of_settings_add_up() {
    let world = World::new();
    let muted = |n| NotificationChange {
        channel_overrides: vec![(ChannelId::new(n), OverrideChange { muted: Some(true), ..OverrideChange::default() })],
        ..NotificationChange::default()
    };
    let mut changes = tokio::task::JoinSet::new();
    for n in 1..=8 {
        let (node, change) = (world.node.clone(), muted(n));
        changes.spawn(async move { node.change_notification_settings(ANA, None, &change).await });
    }
    for changed in bounded(changes.join_all()).await {
        assert!(matches!(changed.expect("the store works"), NotificationsChanged::Changed(_)));
    }
    let stored: Vec<NotificationSettings> = world.node.notification_settings(ANA).await.expect("the store works");
    assert_eq!((stored.len(), stored[0].channel_overrides.len(), stored[0].version), (1, 8, 8));
    let many = (10..10 + OVERRIDES_MAX as u64).flat_map(|n| muted(n).channel_overrides).collect();
    let many = NotificationChange { channel_overrides: many, ..NotificationChange::default() };
    let refused = world.node.change_notification_settings(ANA, None, &many).await.expect("the store works");
    assert_eq!(refused, NotificationsChanged::TooManyOverrides);
    bounded(world.node.remove_notification_settings(ANA)).await.expect("the store works");
    assert!(world.node.notification_settings(ANA).await.expect("the store works").is_empty());
}
