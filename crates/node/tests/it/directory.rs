//! The directory is right after every answer, and reads the store once.

use crate::support::{OWNER, World, bounded, user};
use guildhall_guild::{Command, Reply};
use guildhall_model::{ChannelId, User, UserId};
use guildhall_node::unchecked;
use guildhall_store::StoreError;
use std::sync::Arc;

#[tokio::test]
async fn channels_are_found_from_their_making_to_their_end() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    for _ in 0..3 {
        assert_eq!(world.node.guild_of_channel(channel_id).await.unwrap(), Some(guild_id));
    }
    assert_eq!(world.store.counts().channels, 0, "the worker added it when it was made");
    world.command(guild_id, Command::DeleteChannel(channel_id)).await.unwrap();
    assert_eq!(world.node.guild_of_channel(channel_id).await.unwrap(), None);

    let kept = world.channel(guild_id).await.unwrap().id;
    let world = world.restarted().await;
    for _ in 0..3 {
        assert_eq!(world.node.guild_of_channel(kept).await.unwrap(), Some(guild_id));
    }
    assert_eq!(world.store.counts().channels, 1, "read once, then cached");
    let unknown = ChannelId::new(12345);
    assert_eq!(world.node.guild_of_channel(unknown).await.unwrap(), None);
    assert_eq!(world.node.guild_of_channel(unknown).await.unwrap(), None);
    assert_eq!(world.store.counts().channels, 3, "a missing channel is not cached, since it may be created");
}

#[tokio::test]
async fn a_channel_whose_making_failed_is_not_found() {
    let world = World::new();
    let guild_id = world.guild().await;
    let first = world.channel(guild_id).await.unwrap().id;
    world.store.set(|faults| faults.failing_commits = 1);
    assert!(world.channel(guild_id).await.is_err());
    assert_eq!(world.node.guild_of_channel(first).await.unwrap(), Some(guild_id));
    let record = guildhall_store::Store::load_guild(&*world.store, guild_id).await.unwrap().unwrap();
    assert_eq!(record.channels.len(), 1);
}

#[tokio::test]
async fn accounts_are_read_once_and_anew_after_a_change() {
    let world = World::new();
    let id = UserId::new(42);
    assert!(world.node.user(id).await.unwrap().is_none());
    world.node.put_user(user(id)).await.unwrap();
    for _ in 0..3 {
        assert_eq!(world.node.user(id).await.unwrap().unwrap().username, "user-42");
    }
    assert_eq!(world.store.counts().users, 2);
    world.node.put_user(Arc::new(User::new(id, "renamed"))).await.unwrap();
    assert_eq!(world.node.user(id).await.unwrap().unwrap().username, "renamed");

    // A guild's worker stores accounts that are new, and changes none.
    let guild_id = world.guild().await;
    assert!(world.node.user(OWNER).await.unwrap().is_some());
    let (renamed, new) = (Arc::new(User::new(id, "renamed again")), UserId::new(43));
    world.command(guild_id, Command::AddMember(renamed)).await.unwrap();
    assert_eq!(world.node.user(id).await.unwrap().unwrap().username, "renamed");
    assert!(world.node.user(new).await.unwrap().is_none());
    world.command(guild_id, Command::AddMember(user(new))).await.unwrap();
    assert_eq!(world.node.user(new).await.unwrap(), Some(user(new)));
}

#[tokio::test]
async fn guilds_of_accounts_are_read_once_and_anew_after_a_change() {
    let world = World::new();
    let (guild_id, other_id) = (world.guild().await, world.guild().await);
    let ana = UserId::new(42);
    let guilds = async || world.node.guilds_of_user(ana).await.unwrap();
    assert_eq!(guilds().await, []);
    world.command(guild_id, Command::AddMember(user(ana))).await.unwrap();
    world.command(other_id, Command::AddMember(user(ana))).await.unwrap();
    for _ in 0..3 {
        assert_eq!(guilds().await, [guild_id, other_id]);
    }
    world.command(guild_id, Command::RemoveMember(ana)).await.unwrap();
    assert_eq!(guilds().await, [other_id]);
    // Reported as failed, but stored.
    world.store.set(|faults| faults.lying_commits = 1);
    assert!(world.command(guild_id, Command::AddMember(user(ana))).await.is_err());
    assert_eq!(world.member_count(guild_id).await, Ok(2));
    assert_eq!(guilds().await, [guild_id, other_id]);
    world.command(other_id, Command::DeleteGuild).await.unwrap();
    assert_eq!(guilds().await, [guild_id]);
}

#[tokio::test]
async fn a_failed_write_is_reported() {
    let world = World::new();
    world.store.set(|faults| faults.failing_commits = 1);
    assert!(world.node.put_user(user(UserId::new(42))).await.is_err());
    assert!(world.node.user(UserId::new(42)).await.unwrap().is_none());
}

#[tokio::test]
async fn s21_6_a_change_with_an_aborted_request_reaches_all_guilds() {
    let world = World::new();
    let ana = UserId::new(42);
    world.node.put_user(user(ana)).await.unwrap();
    let mut guilds = Vec::new();
    for _ in 0..20 {
        let guild_id = world.guild().await;
        world.command(guild_id, Command::AddMember(user(ana))).await.unwrap();
        guilds.push(guild_id);
    }
    for name in ["first", "second", "third"] {
        // The request is given up when its change is stored.
        let mut update =
            Box::pin(world.node.update_user(ana, unchecked, |_| Ok::<_, StoreError>(User::new(ana, name))));
        bounded(async {
            while world.node.user(ana).await.unwrap().unwrap().username != name {
                std::future::poll_fn(|cx| {
                    let _ = update.as_mut().poll(cx).is_pending();
                    std::task::Poll::Ready(())
                })
                .await;
                tokio::task::yield_now().await;
            }
        })
        .await;
        drop(update);
    }
    for guild_id in guilds {
        bounded(async {
            loop {
                match world.command(guild_id, Command::ReadMember(ana)).await.unwrap() {
                    Reply::Member(member) if member.user.username == "third" => break,
                    Reply::Member(_) => tokio::task::yield_now().await,
                    other => panic!("{other:?}"),
                }
            }
        })
        .await;
    }
}
