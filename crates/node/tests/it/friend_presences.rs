//! Presences of friends: friends are sent them, and no other account.

use crate::support::{World, bounded, user};
use guildhall_guild::Write;
use guildhall_model::{Status, UserId};
use guildhall_node::RelationshipAct;
use guildhall_store::Store as _;

const ANA: UserId = UserId::new(7);
const BO: UserId = UserId::new(8);
const CY: UserId = UserId::new(9);
const DI: UserId = UserId::new(10);

async fn act(world: &World, user_id: UserId, other_id: UserId, act: RelationshipAct) {
    let changed = bounded(world.node.change_relationship(user_id, other_id, act)).await;
    assert_eq!(changed.expect("the store works"), Ok(()));
}

async fn befriend(world: &World, one: UserId, other: UserId) {
    act(world, one, other, RelationshipAct::Befriend).await;
    act(world, other, one, RelationshipAct::Befriend).await;
}

/// Ana and Bo are friends, and Di is a friend of Bo; Cy has requested a friendship of Ana.
async fn friends() -> World {
    let world = World::new();
    let users = [ANA, BO, CY, DI].map(|id| Write::PutUser(user(id)));
    world.store.commit(users.into()).await.expect("there is room");
    befriend(&world, ANA, BO).await;
    befriend(&world, BO, DI).await;
    act(&world, CY, ANA, RelationshipAct::Befriend).await;
    world
}

fn set(world: &World, user_id: UserId, status: Status) {
    world.relays.set_presence(user_id, status);
    world.node.presence_changed(user_id);
}

#[tokio::test]
async fn f1_f2_friends_are_sent_a_presence_and_no_other_account() {
    let world = friends().await;
    set(&world, ANA, Status::Idle);
    assert_eq!(world.relays.take_shown(1).await, [(ANA, Status::Idle, vec![BO])]);
    set(&world, BO, Status::Online);
    assert_eq!(world.relays.take_shown(1).await, [(BO, Status::Online, vec![ANA, DI])]);
    set(&world, ANA, Status::Offline);
    assert_eq!(world.relays.take_shown(1).await, [(ANA, Status::Offline, vec![BO])]);
    for ends in [RelationshipAct::Block, RelationshipAct::Remove] {
        act(&world, BO, DI, ends.clone()).await;
        set(&world, DI, Status::Dnd);
        // Accounts are announced in the order of their ids.
        set(&world, BO, Status::Idle);
        assert_eq!(world.relays.take_shown(1).await, [(BO, Status::Idle, vec![ANA])], "{ends:?}");
        set(&world, ANA, Status::Online);
        assert_eq!(world.relays.take_shown(1).await, [(ANA, Status::Online, vec![BO])], "{ends:?}");
    }
}

#[tokio::test]
async fn f1_a_new_friend_is_shown_at_once() {
    let world = friends().await;
    set(&world, ANA, Status::Online);
    world.relays.take_shown(1).await;
    act(&world, ANA, CY, RelationshipAct::Befriend).await;
    // Cy is offline.
    assert_eq!(world.relays.take_shown(1).await, [(ANA, Status::Online, vec![CY])]);
}

#[tokio::test]
async fn f1_ready_and_resume_have_friends_alone() {
    let world = friends().await;
    for id in [ANA, CY, DI] {
        world.relays.set_presence(id, Status::Online);
    }
    let node = &world.node;
    let of = async |user_id| bounded(node.relationships(user_id)).await.expect("the store works");
    let (bos, cys) = (of(BO).await, of(CY).await);
    let ids = |found: Vec<(UserId, _)>| found.into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    assert_eq!(ids(bounded(world.node.friend_presences(&bos)).await), [ANA, DI]);
    assert_eq!(ids(bounded(world.node.friend_presences(&cys)).await), []);
    world.relays.set_presence(DI, Status::Offline);
    bounded(world.node.show_friends(BO, &[ANA, CY, DI])).await.expect("the store works");
    let shown = [(ANA, Status::Online, vec![BO]), (DI, Status::Offline, vec![BO])];
    assert_eq!(world.relays.take_shown(2).await, shown);
}
