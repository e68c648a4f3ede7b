//! Changes of accounts: each applies its form to the account as it is.

use crate::support::{OWNER, World, bounded, config, limits, user};
use guildhall_guild::{Command, Reply};
use guildhall_model::{GuildId, User, UserId};
use guildhall_node::{Node, unchecked};
use guildhall_store::{MemoryStore, Store, StoreError, UserChange};
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
};
use tokio::task::JoinHandle;

const ANA: UserId = UserId::new(42);

/// One character more: no two of such changes are alike.
fn longer(before: Option<&User>) -> Result<User, StoreError> {
    let mut user = before.cloned().unwrap_or_else(|| User::new(ANA, "ana"));
    user.global_name.get_or_insert_default().push('x');
    Ok(user)
}

async fn length(node: &Node) -> usize {
    let (user, _) = node.stored_user(ANA).await.unwrap().unwrap();
    user.global_name.as_ref().map_or(0, String::len)
}

/// The store in memory never waits.
fn now<T>(future: impl Future<Output = Result<T, StoreError>>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done.unwrap(),
        Poll::Pending => panic!("it waits"),
    }
}

async fn all_done<T>(tasks: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    let mut done = Vec::new();
    for task in tasks.into_iter().collect::<Vec<_>>() {
        done.push(task.await.unwrap());
    }
    done
}

/// Two nodes on one store, without a bus between them.
fn two() -> (World, World) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    (World::with(config(), limits(), store.clone()), World::with(config(), limits(), store))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn u1_changes_at_once_all_count() {
    let world = World::new();
    let changes = (0..200).map(|n| {
        let node = world.node.clone();
        tokio::spawn(async move {
            if n % 2 == 0 {
                node.change_user(ANA, unchecked, longer).await
            } else {
                node.update_user(ANA, unchecked, longer).await
            }
        })
    });
    for change in bounded(all_done(changes)).await {
        change.unwrap();
    }
    assert_eq!(length(&world.node).await, 200);
    assert_eq!(world.node.user(ANA).await.unwrap().unwrap().global_name.as_ref().unwrap().len(), 200, "and the cache");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn u1_changes_of_two_nodes_all_count() {
    let (one, other) = two();
    let changes = [&one, &other].map(|world| {
        let node = world.node.clone();
        tokio::spawn(async move {
            for _ in 0..200 {
                node.change_user(ANA, unchecked, longer).await.unwrap();
            }
        })
    });
    bounded(all_done(changes)).await;
    assert_eq!(length(&one.node).await, 400);
}

#[tokio::test]
async fn u1_many_at_once_and_one_between() {
    let (one, other) = two();
    one.node.change_user(ANA, unchecked, longer).await.unwrap();
    let (bob, eve) = (UserId::new(43), UserId::new(44));
    one.node.put_user(user(eve)).await.unwrap();
    let came_between = AtomicU32::new(0);
    let form = |id: UserId, before: Option<&User>| {
        if id == ANA && came_between.fetch_add(1, SeqCst) == 0 {
            // Another node changes it after it was read here. The store in memory never waits.
            let (user, version) = now(other.store.user_versions(&[ANA])).pop().unwrap();
            let change = UserChange { user: Arc::new(longer(Some(&user)).unwrap()), expected: Some(version) };
            assert_eq!(now(other.store.change_users(&[change])), 1);
        }
        match before {
            Some(before) if id == ANA => Some(User { username: "renamed".to_owned(), ..before.clone() }),
            None if id == bob => Some(User::new(bob, "bob")),
            _ => None,
        }
    };
    bounded(one.node.change_users(&[ANA, bob, eve], form)).await.unwrap();
    let (ana, _) = one.node.stored_user(ANA).await.unwrap().unwrap();
    assert_eq!((&*ana.username, ana.global_name.as_deref()), ("renamed", Some("xx")), "both changes");
    assert_eq!(one.node.user(bob).await.unwrap().unwrap().username, "bob");
    assert_eq!(one.node.user(eve).await.unwrap(), Some(user(eve)));
}

#[tokio::test]
async fn u2_a_change_is_checked_after_the_account_was_read() {
    let (one, other) = two();
    one.node.change_user(ANA, unchecked, longer).await.unwrap();
    let checks = AtomicU32::new(0);
    let check = || {
        let (first, other) = (checks.fetch_add(1, SeqCst) == 0, &other.node);
        async move {
            if first {
                // Deleted elsewhere, between the read and the write.
                let form = |before: Option<&User>| Ok::<_, StoreError>(guildhall_node::as_deleted(before.unwrap()));
                other.change_user(ANA, unchecked, form).await?;
            }
            Ok(())
        }
    };
    let form = |before: Option<&User>| match before {
        Some(user) if guildhall_node::is_deleted(user) => Err(StoreError::Closed),
        before => longer(before),
    };
    let refused = bounded(one.node.change_user(ANA, check, form)).await;
    assert!(matches!(refused, Err(StoreError::Closed)), "{refused:?}");
    assert_eq!(checks.load(SeqCst), 2, "the form is applied again to what is there now");
    let (gone, _) = one.node.stored_user(ANA).await.unwrap().unwrap();
    assert!(guildhall_node::is_deleted(&gone), "{gone:?}");
    let refused = one.node.change_user(ANA, || async { Err(StoreError::Closed) }, longer).await;
    assert!(matches!(refused, Err(StoreError::Closed)), "what the check refuses is not stored: {refused:?}");
}

#[tokio::test]
async fn an_account_that_never_rests_is_contended() {
    let (one, other) = two();
    let check = || {
        let other = &other.node;
        async move { other.change_user(ANA, unchecked, longer).await.map(drop) }
    };
    let refused = bounded(one.node.change_user(ANA, check, longer)).await;
    assert!(matches!(refused, Err(StoreError::Contended { .. })), "{refused:?}");
}

async fn member(world: &World, guild_id: GuildId) -> Arc<User> {
    match world.command(guild_id, Command::ReadMember(ANA)).await.unwrap() {
        Reply::Member(member) => member.user.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_guild_undoes_no_change_and_learns_of_it() {
    let world = World::new();
    let guild_id = world.guild().await;
    world.node.put_user(user(ANA)).await.unwrap();
    let sent = world.node.user(ANA).await.unwrap().unwrap();
    let renamed = |_: Option<&User>| Ok::<_, StoreError>(User::new(ANA, "renamed"));
    world.node.update_user(ANA, unchecked, renamed).await.unwrap();
    // A request that had read the account before brings it into the guild.
    world.command(guild_id, Command::AddMember(sent.clone())).await.unwrap();
    assert_eq!(world.node.user(ANA).await.unwrap().unwrap().username, "renamed");
    world.node.settle_member(guild_id, &sent).await.unwrap();
    assert_eq!(member(&world, guild_id).await.username, "renamed");
    // And so does one that makes a guild.
    let stale = Arc::new(User { username: "stale".to_owned(), ..User::clone(&user(OWNER)) });
    world.node.put_user(user(OWNER)).await.unwrap();
    let guild = guildhall_model::Guild::new(GuildId::new(0), "another", OWNER);
    world.node.create_guild(guildhall_guild::NewGuild::new(guild, stale)).await.unwrap();
    assert_eq!(world.node.user(OWNER).await.unwrap(), Some(user(OWNER)));
}

#[tokio::test]
async fn n1_an_account_has_one_deletion() {
    let (one, other) = two();
    assert_eq!(one.node.deletion_of(ANA).await.unwrap(), None);
    assert_eq!(one.node.begin_deletion(ANA, 7).await.unwrap(), 7);
    assert_eq!(other.node.begin_deletion(ANA, 8).await.unwrap(), 7, "the first one's");
    assert_eq!(other.node.deletion_of(ANA).await.unwrap(), Some(7));
    assert_eq!(other.node.deletions().await.unwrap(), [(ANA, 7)]);
    one.node.end_deletion(ANA, 8).await.unwrap();
    assert_eq!(one.node.deletion_of(ANA).await.unwrap(), Some(7), "another one's end");
    one.node.end_deletion(ANA, 7).await.unwrap();
    assert_eq!(other.node.deletions().await.unwrap(), []);
}
