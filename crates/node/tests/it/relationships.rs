//! Relationships: both sides of a pair change together, and both accounts learn of it.

use crate::support::{World, bounded, user};
use guildhall_guild::{Refusal, Write};
use guildhall_model::{EventName, RelationshipKind, UserId};
use guildhall_node::{RELATIONSHIPS_MAX, RelationshipAct, RelationshipRefusal};
use guildhall_store::Store as _;

const ANA: UserId = UserId::new(7);
const BO: UserId = UserId::new(8);

async fn world_of(ids: impl IntoIterator<Item = UserId>) -> World {
    let world = World::new();
    world.store.commit(ids.into_iter().map(|id| Write::PutUser(user(id))).collect()).await.expect("there is room");
    world
}

async fn act(
    world: &World,
    user_id: UserId,
    other_id: UserId,
    act: RelationshipAct,
) -> Result<(), RelationshipRefusal> {
    bounded(world.node.change_relationship(user_id, other_id, act)).await.expect("the store works")
}

async fn kinds(world: &World, user_id: UserId) -> Vec<(u64, RelationshipKind)> {
    let all = bounded(world.node.relationships(user_id)).await.expect("the store works");
    all.iter().map(|of| (of.user.id.get(), of.relation.kind)).collect()
}

/// Events of relationships so far, by account.
fn events(world: &World) -> Vec<(EventName, u64)> {
    world.relays.user_events().iter().map(|(name, to)| (*name, to[0].get())).collect()
}

#[tokio::test]
async fn p1_p2_requests_at_once_become_one_friendship() {
    let world = world_of([ANA, BO]).await;
    let mut changes = tokio::task::JoinSet::new();
    for n in 0..8 {
        let node = world.node.clone();
        let (from, to) = if n % 2 == 0 { (ANA, BO) } else { (BO, ANA) };
        changes.spawn(async move { node.change_relationship(from, to, RelationshipAct::Befriend).await });
    }
    for changed in bounded(changes.join_all()).await {
        assert_eq!(changed.expect("the store works"), Ok(()));
    }
    assert_eq!(kinds(&world, ANA).await, [(8, RelationshipKind::Friend)]);
    assert_eq!(kinds(&world, BO).await, [(7, RelationshipKind::Friend)]);
    let added = |id| (EventName::RelationshipAdd, id);
    let mut sent = events(&world);
    sent.sort_unstable_by_key(|(_, id)| *id);
    assert_eq!(sent, [added(7), added(7), added(8), added(8)], "a request and a friendship, each once");
    let world = world.restarted().await;
    assert_eq!(kinds(&world, BO).await, [(7, RelationshipKind::Friend)]);
}

#[tokio::test]
async fn p3_events_of_a_crashed_node_are_sent_by_another() {
    let world = world_of([ANA, BO]).await;
    act(&world, ANA, BO, RelationshipAct::Befriend).await.expect("they are strangers");
    let store = world.store.clone();
    assert!(
        store.records("relationship-news", &[], 10).await.expect("it can be read").is_empty(),
        "the events are sent"
    );
    // As if the node had crashed between the commit and the events.
    let id = [7_u64.to_be_bytes(), 8_u64.to_be_bytes()].concat();
    store.put_record("relationship-news", &id, &[0; 16]).await.expect("there is room");
    let world = world.restarted().await;
    assert!(events(&world).is_empty() || events(&world).len() == 2);
    let before = events(&world).len();
    bounded(world.node.send_relationship_news(1)).await.expect("the store works");
    let sent: Vec<_> = events(&world).split_off(before);
    assert_eq!(sent, [(EventName::RelationshipAdd, 7), (EventName::RelationshipAdd, 8)]);
    assert!(store.records("relationship-news", &[], 10).await.expect("it can be read").is_empty());
    // Of a pair without a relationship both learn that.
    act(&world, BO, ANA, RelationshipAct::Remove).await.expect("it is never refused");
    store.put_record("relationship-news", &id, &[0; 16]).await.expect("there is room");
    let before = events(&world).len();
    bounded(world.node.send_relationship_news(1)).await.expect("the store works");
    let sent: Vec<_> = events(&world).split_off(before);
    assert_eq!(sent, [(EventName::RelationshipRemove, 7), (EventName::RelationshipRemove, 8)]);
}

#[tokio::test]
async fn p3_no_event_without_a_commit() {
    let world = world_of([ANA, BO]).await;
    world.store.set(|faults| faults.full = true);
    let changed = bounded(world.node.change_relationship(ANA, BO, RelationshipAct::Befriend)).await;
    assert!(changed.is_err() && events(&world).is_empty());
    assert!(kinds(&world, ANA).await.is_empty() && kinds(&world, BO).await.is_empty());
}

#[tokio::test]
async fn a_block_is_ones_own_and_closes_direct_messages() {
    let world = world_of([ANA, BO]).await;
    act(&world, ANA, BO, RelationshipAct::Befriend).await.expect("they are strangers");
    act(&world, BO, ANA, RelationshipAct::Befriend).await.expect("she has requested it");
    let direct = bounded(world.node.open_direct(&user(ANA), &user(BO))).await.expect("friends may");
    act(&world, BO, ANA, RelationshipAct::Block).await.expect("it is never refused");
    assert_eq!(kinds(&world, BO).await, [(7, RelationshipKind::Blocked)]);
    assert_eq!(kinds(&world, ANA).await, [], "she does not see it");
    let last = events(&world).split_off(events(&world).len() - 2);
    assert_eq!(last, [(EventName::RelationshipAdd, 8), (EventName::RelationshipRemove, 7)]);
    for pair in [[ANA, BO], [BO, ANA]] {
        assert_eq!(bounded(world.node.need_no_block(pair)).await, Err(Refusal::CannotMessage));
    }
    assert_eq!(act(&world, ANA, BO, RelationshipAct::Befriend).await, Err(RelationshipRefusal::NotAccepted));
    // It stays open, as upstream.
    let again = bounded(world.node.open_direct(&user(ANA), &user(BO))).await;
    assert_eq!(again.map(|again| again.channel.id), Ok(direct.channel.id));
    act(&world, BO, ANA, RelationshipAct::Remove).await.expect("it is never refused");
    assert_eq!(bounded(world.node.need_no_block([ANA, BO])).await, Ok(()));
}

#[tokio::test]
async fn relationships_are_bounded() {
    let others = || (1..=u64::from(RELATIONSHIPS_MAX) + 1).map(|n| UserId::new(1_000 + n));
    let world = world_of(others().chain([ANA])).await;
    let mut refused = Vec::new();
    for other in others() {
        refused.extend(act(&world, other, ANA, RelationshipAct::Befriend).await.err());
    }
    assert_eq!(refused, [RelationshipRefusal::NotAccepted], "the last of the incoming requests");
    // They take no place of her own.
    for other in others().take(RELATIONSHIPS_MAX as usize) {
        act(&world, ANA, other, RelationshipAct::Befriend).await.expect("there is room");
    }
    let last = others().next_back().expect("there is one");
    for too_many in [RelationshipAct::Befriend, RelationshipAct::Block] {
        assert_eq!(act(&world, ANA, last, too_many).await, Err(RelationshipRefusal::TooMany));
    }
    act(&world, ANA, UserId::new(1_001), RelationshipAct::Block).await.expect("it takes the friend's place");
    act(&world, ANA, UserId::new(1_001), RelationshipAct::Remove).await.expect("it is never refused");
    act(&world, ANA, last, RelationshipAct::Block).await.expect("there is room again");
    assert_eq!(kinds(&world, ANA).await.len(), RELATIONSHIPS_MAX as usize);

    bounded(world.node.remove_relationships(ANA)).await.expect("the store works");
    assert_eq!(kinds(&world, ANA).await, []);
    assert_eq!(kinds(&world, UserId::new(1_500)).await, []);
    assert!(world.store.records("relationship-counts", &[], 10).await.expect("it can be read").is_empty());
}
