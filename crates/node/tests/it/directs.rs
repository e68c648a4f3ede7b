//! Direct messages: one for each pair, published in order and without loss, few of them in memory.

use crate::support::{OWNER, World, bounded, config, limits, message, user};
use guildhall_guild::{Actor, Command, Refusal};
use guildhall_model::{EventName, UserId};
use guildhall_node::{DirectLimits, DirectsWho, NodeLimits};
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
    let requests: Vec<_> = (0..20)
        .map(|n| {
            let node = world.node.clone();
            let (a, b) = if n % 2 == 0 { (ANA, other(0)) } else { (other(0), ANA) };
            tokio::spawn(async move { node.open_direct(&user(a), &user(b)).await.map(|direct| direct.channel.id) })
        })
        .collect();
    let mut ids = Vec::new();
    for request in requests {
        ids.push(bounded(request).await.unwrap().unwrap());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let created = world.relays.user_events().into_iter().filter(|(name, _)| *name == EventName::ChannelCreate);
    assert_eq!(created.count(), 2, "each receives it once");
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
    let world = World::with(config(), limits(), store);
    assert_eq!(open(&world, ANA, other(0)).await, promised);
}

#[tokio::test]
async fn a_direct_message_and_its_caller_wait_for_room() {
    let world = World::new();
    let id = open(&world, ANA, other(0)).await;
    let before = world.relays.user_events().len();
    world.relays.set_users_full(true);
    let sent: Vec<_> = (0..5)
        .map(|n| {
            let node = world.node.clone();
            tokio::spawn(async move { node.command(id.cast(), Actor::User(ANA), message(id, &n.to_string())).await })
        })
        .collect();
    world.relays.wait_users_refused(3, &world).await;
    assert!(sent.iter().all(|sent| !sent.is_finished()), "no caller gets a reply");
    assert_eq!(world.relays.user_events().len(), before);
    // Guilds are not held up.
    let guild = world.guild().await;
    assert_eq!(world.member_count(guild).await, Ok(1));
    world.relays.set_users_full(false);
    world.pass(1_000);
    for sent in sent {
        assert!(bounded(sent).await.unwrap().is_ok());
    }
    let user_events = world.relays.user_events().split_off(before);
    assert_eq!(user_events.len(), 5, "nothing is lost");
    assert!(user_events.iter().all(|(name, to)| *name == EventName::MessageCreate && to.len() == 2));
}

#[tokio::test]
async fn unused_direct_messages_in_memory_are_bounded() {
    let limits = NodeLimits { idle_directs_max: 3, ..limits() };
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

fn limited(directs: DirectLimits) -> World {
    World::with(config(), NodeLimits { directs, ..limits() }, Arc::new(MemoryStore::new()))
}

#[tokio::test]
async fn s11_strangers_are_not_written_to() {
    let world = limited(DirectLimits::default());
    let guild = world.guild().await;
    for id in [ANA, other(0)] {
        world.command(guild, Command::AddMember(user(id))).await.unwrap();
    }
    let open = |a, b| bounded_open(&world, a, b);
    let dm = open(ANA, OWNER).await.unwrap();
    assert_eq!(open(ANA, other(1)).await, Err(Refusal::CannotMessage));
    let group = |others: &[UserId]| {
        let others: Vec<_> = others.iter().map(|id| user(*id)).collect();
        let node = world.node.clone();
        async move { bounded(node.create_group(&user(ANA), &others)).await.map(|direct| direct.recipients.len()) }
    };
    assert_eq!(group(&[OWNER, other(0)]).await, Ok(3));
    assert_eq!(group(&[OWNER, other(1)]).await, Err(Refusal::CannotMessage), "one stranger is one too many");
    assert_eq!(bounded(world.node.need_consent(ANA, other(1))).await, Err(Refusal::CannotMessage));
    // An existing direct message stays open without a common guild.
    world.command(guild, Command::RemoveMember(ANA)).await.unwrap();
    assert_eq!(open(OWNER, ANA).await, Ok(dm));
    assert_eq!(open(other(0), ANA).await, Err(Refusal::CannotMessage));
}

async fn bounded_open(world: &World, a: UserId, b: UserId) -> Result<guildhall_model::ChannelId, Refusal> {
    bounded(world.node.open_direct(&user(a), &user(b))).await.map(|direct| direct.channel.id)
}

#[tokio::test]
async fn s11_only_backends_bring_together_where_they_decide() {
    let world = limited(DirectLimits { who: DirectsWho::Backend, ..DirectLimits::default() });
    let guild = world.guild().await;
    world.command(guild, Command::AddMember(user(ANA))).await.unwrap();
    assert_eq!(bounded_open(&world, ANA, OWNER).await, Err(Refusal::CannotMessage));
    let made = bounded(world.node.put_direct(&user(ANA), &user(OWNER))).await.unwrap();
    assert_eq!(bounded_open(&world, OWNER, ANA).await, Ok(made.channel.id));
    let group = bounded(world.node.put_group(&user(ANA), &[user(OWNER), user(other(0))])).await.unwrap();
    assert!(group.is_group() && group.recipients.len() == 3);
}

#[tokio::test]
async fn s11_an_account_makes_so_many_a_day() {
    let directs = DirectLimits { who: DirectsWho::Anyone, directs_per_day_max: 3, groups_per_day_max: 2 };
    let world = limited(directs);
    for n in 0..3 {
        bounded_open(&world, ANA, other(n)).await.unwrap();
    }
    assert_eq!(bounded_open(&world, ANA, other(3)).await, Err(Refusal::TooManyDirects));
    assert!(bounded_open(&world, ANA, other(0)).await.is_ok(), "an existing one does not count");
    assert!(bounded_open(&world, other(3), ANA).await.is_ok(), "each account has its own");
    assert!(bounded_open(&world, ANA, other(3)).await.is_ok());
    let group = || async { bounded(world.node.create_group(&user(ANA), &[user(other(0)), user(other(1))])).await };
    for _ in 0..2 {
        group().await.unwrap();
    }
    assert_eq!(group().await, Err(Refusal::TooManyDirects));
    world.advance(86_400_000).await;
    assert!(group().await.is_ok() && bounded_open(&world, ANA, other(4)).await.is_ok(), "a new day");
}

#[tokio::test]
async fn s11_a_direct_message_that_came_to_nothing_is_not_counted() {
    let directs = DirectLimits { who: DirectsWho::Anyone, directs_per_day_max: 1, groups_per_day_max: 1 };
    let world = limited(directs);
    let bot = |id| Arc::new(guildhall_model::User { bot: true, ..guildhall_model::User::clone(&user(id)) });
    for _ in 0..3 {
        let refused = bounded(world.node.create_group(&user(ANA), &[bot(other(0)), user(other(1))])).await;
        assert_eq!(refused, Err(Refusal::CannotMessage));
    }
    assert!(bounded(world.node.create_group(&user(ANA), &[user(other(0)), user(other(1))])).await.is_ok());
}
