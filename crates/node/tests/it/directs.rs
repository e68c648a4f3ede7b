//! Direct messages: one for each pair, told in order and without loss, few of them in memory.

use crate::support::{World, bounded, config, message, user};
use guildhall_guild::{Actor, Refusal};
use guildhall_model::{EventName, UserId};
use guildhall_node::NodeLimits;
use guildhall_store::{MemoryStore, Store};
use std::sync::Arc;

const ANA: UserId = UserId::new(2001);

async fn open(world: &World, a: UserId, b: UserId) -> guildhall_model::ChannelId {
    let direct = bounded(world.node.open_direct(&user(a), &user(b))).await.expect("it can be opened");
    assert_eq!(direct.recipients.len(), 2);
    direct.channel.id
}

fn other(n: u64) -> UserId {
    UserId::new(3000 + n)
}

#[tokio::test]
async fn d1_one_for_each_pair_whoever_asks_however_often() {
    let world = World::new();
    let asked: Vec<_> = (0..20)
        .map(|n| {
            let node = world.node.clone();
            let (a, b) = if n % 2 == 0 { (ANA, other(0)) } else { (other(0), ANA) };
            tokio::spawn(async move { node.open_direct(&user(a), &user(b)).await.map(|direct| direct.channel.id) })
        })
        .collect();
    let mut ids = Vec::new();
    for asked in asked {
        ids.push(bounded(asked).await.unwrap().unwrap());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let created = world.relays.told().into_iter().filter(|(name, _)| *name == EventName::ChannelCreate);
    assert_eq!(created.count(), 2, "each is told once");
    let world = world.restarted().await;
    assert_eq!(open(&world, other(0), ANA).await, ids[0]);
    assert_ne!(open(&world, other(1), ANA).await, ids[0]);
    assert_eq!(bounded(world.node.directs_of_user(ANA)).await.unwrap().len(), 2);
    assert_eq!(bounded(world.node.guilds_of_user(ANA)).await.unwrap(), []);
    assert_eq!(bounded(world.node.open_direct(&user(ANA), &user(ANA))).await, Err(Refusal::CannotMessage));
}

#[tokio::test]
async fn d1_an_id_that_was_promised_before_a_crash_is_taken_up() {
    let store = Arc::new(MemoryStore::new());
    let promised = store.direct_of_pair_or_insert([ANA, other(0)], UserId::new(77).cast()).await.unwrap();
    let world = World::with(config(), NodeLimits::default(), store);
    assert_eq!(open(&world, ANA, other(0)).await, promised);
}

#[tokio::test]
async fn where_there_is_no_room_it_waits_and_so_does_who_asked() {
    let world = World::new();
    let id = open(&world, ANA, other(0)).await;
    let before = world.relays.told().len();
    world.relays.set_users_full(true);
    let said: Vec<_> = (0..5)
        .map(|n| {
            let node = world.node.clone();
            tokio::spawn(async move { node.command(id.cast(), Actor::User(ANA), message(id, &n.to_string())).await })
        })
        .collect();
    world.relays.wait_users_refused(3, &world).await;
    assert!(said.iter().all(|said| !said.is_finished()), "nobody is told that it is done");
    assert_eq!(world.relays.told().len(), before);
    // Guilds are not held up.
    let guild = world.guild().await;
    assert_eq!(world.member_count(guild).await, Ok(1));
    world.relays.set_users_full(false);
    world.pass(1_000);
    for said in said {
        assert!(bounded(said).await.unwrap().is_ok());
    }
    let told = world.relays.told().split_off(before);
    assert_eq!(told.len(), 5, "nothing is lost");
    assert!(told.iter().all(|(name, to)| *name == EventName::MessageCreate && to.len() == 2));
}

#[tokio::test]
async fn only_so_many_that_nobody_uses_are_kept_in_memory() {
    let limits = NodeLimits { idle_directs_max: 3, ..NodeLimits::default() };
    let world = World::with(config(), limits, Arc::new(MemoryStore::new()));
    let mut ids = Vec::new();
    for n in 0..6 {
        ids.push(open(&world, ANA, other(n)).await);
    }
    world.barrier().await;
    let loads = world.store.counts().loads_begun;
    for n in 0..3 {
        assert_eq!(open(&world, ANA, other(n)).await, ids[n as usize]);
    }
    assert_eq!(world.store.counts().loads_begun, loads, "the first three are there");
    for n in 3..6 {
        assert_eq!(open(&world, ANA, other(n)).await, ids[n as usize]);
        world.barrier().await;
    }
    assert!(world.store.counts().loads_begun >= loads + 3, "the others are not, and come back as they were");
}
