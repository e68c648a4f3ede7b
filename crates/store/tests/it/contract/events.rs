//! Events: the feed of backends.

use crate::support::*;
use futures_util::future::join_all;
use guildhall_guild::{FeedEvent, FeedKind, Write};
use guildhall_guild_protocol::{AudienceRule, Event, Payload, Published, ReplicaUpdate};
use guildhall_model::{Channel, ChannelId, ChannelType, EventName, Guild, GuildId, Message, User};
use guildhall_stdx::Timestamp;
use guildhall_store::{EventBounds, EventFilter, Store, StoreError, StoredEvent};
use std::sync::Arc;

fn event(guild: u64, channel: u64, message: u64) -> Write {
    let (guild_id, channel_id): (GuildId, ChannelId) = (id(guild), id(channel));
    let payload = Payload::MessageDelete { id: id(message), channel_id };
    let event = Event::new(guild_id, EventName::MessageDelete, AudienceRule::Channel(channel_id), payload);
    let published = Arc::new(Published { event, replica_update: ReplicaUpdate::None });
    Write::PutEvent(Box::new(FeedEvent::of(&published).expect("a kind of the feed")))
}

async fn all(store: &dyn Store) -> Vec<StoredEvent> {
    let newest = store.event_bounds().await.unwrap().newest;
    store.events(0, newest, EventFilter::ALL, 1_000).await.unwrap()
}

fn positions(events: &[StoredEvent]) -> Vec<u64> {
    events.iter().map(|event| event.position).collect()
}

pub async fn events_are_read_from_a_position(store: &dyn Store) {
    assert_eq!(store.event_bounds().await.unwrap(), EventBounds::default());
    assert_eq!(all(store).await, []);
    let user = Write::PutUser(Arc::new(User::new(id(11), "ada")));
    store.commit(vec![user, event(100, 101, 1), event(100, 102, 2)]).await.unwrap();
    store.commit(vec![event(200, 201, 3)]).await.unwrap();
    let found = all(store).await;
    assert_eq!(positions(&found), [1, 2, 3]);
    assert_eq!(store.event_bounds().await.unwrap(), EventBounds { pruned: 0, newest: 3 });
    let StoredEvent { at, kind, guild_id, channel_id, data, .. } = &found[0];
    assert!(at.0 > 1_700_000_000_000, "{at:?}");
    assert_eq!((*kind, *guild_id, *channel_id), (FeedKind::MessageDelete as u8, Some(id(100)), Some(id(101))));
    assert_eq!(data, "{\"id\":\"1\",\"channel_id\":\"101\",\"guild_id\":\"100\"}");
    let read = async |after, upto, filter, limit| positions(&store.events(after, upto, filter, limit).await.unwrap());
    assert_eq!(read(1, 3, EventFilter::ALL, 10).await, [2, 3]);
    assert_eq!(read(0, 2, EventFilter::ALL, 10).await, [1, 2]);
    assert_eq!(read(0, 3, EventFilter::ALL, 1).await, [1]);
    assert_eq!(read(0, 3, EventFilter { guild_id: Some(id(200)), ..EventFilter::ALL }, 10).await, [3]);
    assert_eq!(read(0, 3, EventFilter { channel_id: Some(id(102)), ..EventFilter::ALL }, 10).await, [2]);
    assert_eq!(read(0, 3, EventFilter::of_kinds([FeedKind::MessageCreate]), 10).await, [0; 0]);
    assert_eq!(read(0, 3, EventFilter::of_kinds([FeedKind::MessageDelete, FeedKind::ThreadDelete]), 2).await, [1, 2]);
}

pub async fn e1_an_event_is_committed_with_its_change(store: &dyn Store) {
    let message = Arc::new(Message::new(id(5), id(101), GuildId::new(100), Arc::new(User::new(id(11), "ada"))));
    let faulty = store.commit(vec![event(100, 101, 1), Write::PutMessage(message.clone())]).await;
    assert!(matches!(faulty, Err(StoreError::Dangling { .. })), "{faulty:?}");
    assert_eq!(all(store).await, []);
    let channel = Channel::new(id(101), id(100), ChannelType::Text, "general");
    let mut writes = vec![Write::PutUser(Arc::new(User::new(id(11), "ada")))];
    writes.extend([Write::PutGuild(Arc::new(Guild::new(id(100), "g", id(11)))), Write::PutChannel(Arc::new(channel))]);
    writes.extend([event(100, 101, 5), Write::PutMessage(message)]);
    store.commit(writes).await.unwrap();
    assert_eq!((all(store).await.len(), store.message(id(101), id(5)).await.unwrap().is_some()), (1, true));
}

/// E2: a reader sees each event once, however many commit at the same time.
pub async fn e2_a_reader_misses_no_event_of_concurrent_commits(store: &dyn Store) {
    const WRITERS: u64 = 8;
    const COMMITS: u64 = 40;
    let write = async |writer: u64| {
        for n in 0..COMMITS {
            let user = Write::PutUser(Arc::new(User::new(id(1_000 + writer), "ada")));
            store.commit(vec![user, event(100 + writer, 1, 1 + n)]).await.unwrap();
        }
    };
    let read = async {
        let (mut after, mut seen) = (0, Vec::new());
        while seen.len() < (WRITERS * COMMITS) as usize {
            let newest = store.event_bounds().await.unwrap().newest;
            let some = store.events(after, newest, EventFilter::ALL, 7).await.unwrap();
            after = some.last().map_or(after, |event| event.position);
            seen.extend(some);
            tokio::task::yield_now().await;
        }
        seen
    };
    let writing = join_all((0..WRITERS).map(write));
    let (seen, _) = within("every event", futures_util::future::join(read, writing)).await;
    assert!(seen.is_sorted_by_key(|event| event.position));
    for writer in 0..WRITERS {
        let of_guild = seen.iter().filter(|event| event.guild_id == Some(id(100 + writer)));
        let message =
            |event: &StoredEvent| serde_json::from_str::<serde_json::Value>(&event.data).unwrap()["id"].clone();
        let messages: Vec<serde_json::Value> = of_guild.map(message).collect();
        let expected: Vec<serde_json::Value> = (1..=COMMITS).map(|n| n.to_string().into()).collect();
        assert_eq!(messages, expected, "in the order of the guild's commits");
    }
}

pub async fn e3_positions_continue_after_removed_events(store: &dyn Store) {
    let keep = async |rows, slice| store.prune_events(Timestamp(0), rows, slice).await.unwrap();
    assert_eq!(keep(0, 10).await, 0);
    store.commit((1..=6).map(|n| event(100, 101, n)).collect()).await.unwrap();
    assert_eq!(keep(4, 10).await, 2);
    assert_eq!(keep(4, 10).await, 0);
    assert_eq!((positions(&all(store).await), store.event_bounds().await.unwrap().pruned), (vec![3, 4, 5, 6], 2));
    assert_eq!(keep(0, 3).await, 3, "a slice");
    assert_eq!(store.prune_events(Timestamp(i64::MAX), u64::MAX, 10).await.unwrap(), 1, "by their age");
    assert_eq!(store.event_bounds().await.unwrap(), EventBounds { pruned: 6, newest: 6 });
    store.commit(vec![event(100, 101, 7)]).await.unwrap();
    assert_eq!(positions(&all(store).await), [7]);
}
