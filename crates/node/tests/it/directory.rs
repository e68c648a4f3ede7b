//! The directory is right after every answer, and asks the store once.

use crate::support::{OWNER, World, bounded, new_guild, user};
use guildhall_guild::Command;
use guildhall_model::{ChannelId, User, UserId};
use std::sync::Arc;

#[tokio::test]
async fn channels_are_found_from_their_making_to_their_end() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    for _ in 0..3 {
        assert_eq!(world.node.guild_of_channel(channel_id).await.unwrap(), Some(guild_id));
    }
    assert_eq!(world.store.counts().channels, 0, "the worker told when it was made");
    world.command(guild_id, Command::DeleteChannel(channel_id)).await.unwrap();
    assert_eq!(world.node.guild_of_channel(channel_id).await.unwrap(), None);

    let kept = world.channel(guild_id).await.unwrap().id;
    let world = world.restarted().await;
    for _ in 0..3 {
        assert_eq!(world.node.guild_of_channel(kept).await.unwrap(), Some(guild_id));
    }
    assert_eq!(world.store.counts().channels, 1, "asked once, then remembered");
    let unknown = ChannelId::new(12345);
    assert_eq!(world.node.guild_of_channel(unknown).await.unwrap(), None);
    assert_eq!(world.node.guild_of_channel(unknown).await.unwrap(), None);
    assert_eq!(world.store.counts().channels, 3, "what is not there may be soon");
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

    // A guild's worker writes accounts too.
    let guild_id = world.guild().await;
    assert!(world.node.user(OWNER).await.unwrap().is_some());
    let renamed = Arc::new(User::new(id, "renamed again"));
    world.command(guild_id, Command::AddMember(renamed)).await.unwrap();
    assert_eq!(world.node.user(id).await.unwrap().unwrap().username, "renamed again");
}

#[tokio::test]
async fn a_write_that_fails_is_told() {
    let world = World::new();
    world.store.set(|faults| faults.failing_commits = 1);
    assert!(world.node.put_user(user(UserId::new(42))).await.is_err());
    assert!(world.node.user(UserId::new(42)).await.unwrap().is_none());
}

#[tokio::test]
async fn ids_are_above_everything_stored_even_if_the_clock_went_back() {
    let world = World::new();
    let old = bounded(world.node.create_guild(new_guild(50, OWNER))).await.unwrap();
    world.advance(86_400_000).await;
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let newest = world.say(guild_id, channel_id, "tomorrow").await.unwrap();
    // The fake clock starts a day earlier again.
    let world = world.restarted().await;
    let id = world.node.next_id::<()>().await.unwrap();
    assert!(id.get() > newest.get());
    assert!(world.node.next_id::<()>().await.unwrap() > id);
    // Also in guilds that have nothing so new themselves: one that is loaded, and one that is made.
    let world = world.restarted().await;
    assert!(world.channel(old).await.unwrap().id.get() > newest.get());
    let world = world.restarted().await;
    let made = bounded(world.node.create_guild(new_guild(51, OWNER))).await.unwrap();
    assert!(world.channel(made).await.unwrap().id.get() > newest.get());
}

#[tokio::test]
async fn no_two_channels_have_the_same_id() {
    // All in one millisecond of the fake clock, and more guilds than a worker has origins for ids.
    let world = World::new();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..1100 {
        let (_, channel_id) = world.guild_with_channel().await;
        assert!(seen.insert(channel_id), "{channel_id} was made twice");
    }
}
