//! What guilds have done elsewhere: searches, and changes of many members, answered late.

use crate::support::{OWNER, World, bounded, user};
use guildhall_guild::{Actor, Command, Prune, Refusal, Reply};
use guildhall_model::{GuildId, UserId};
use guildhall_stdx::Timestamp;
use guildhall_store::Store as _;
use tokio::task::JoinHandle;

/// A guild with `members_count` members besides its owner.
async fn guild_of(world: &World, members_count: u64) -> GuildId {
    let guild_id = world.guild().await;
    for n in 1..=members_count {
        world.command(guild_id, Command::AddMember(user(UserId::new(n)))).await.unwrap();
    }
    guild_id
}

fn start_prune(world: &World, guild_id: GuildId) -> JoinHandle<Result<u64, Refusal>> {
    let node = world.node.clone();
    let prune = Prune { roles: Vec::new(), joined_before: Timestamp(i64::MAX), counts_only: false };
    tokio::spawn(async move {
        match node.command(guild_id, Actor::User(OWNER), Command::Prune(Box::new(prune))).await? {
            Reply::Count(count) => Ok(count),
            other => panic!("{other:?}"),
        }
    })
}

/// Lets time pass until it is answered.
async fn answer(world: &World, request: JoinHandle<Result<u64, Refusal>>) -> Result<u64, Refusal> {
    bounded(async {
        while !request.is_finished() {
            world.advance(10).await;
        }
    })
    .await;
    request.await.expect("it does not panic")
}

#[tokio::test]
async fn a_search_is_answered() {
    let world = World::new();
    let guild_id = guild_of(&world, 12).await;
    let search = Command::SearchMembers { query: "USER-1".to_owned(), limit: 100 };
    let Ok(Reply::FoundMembers(found)) = world.command(guild_id, search).await else { panic!("it is answered") };
    let found: Vec<u64> = found.iter().map(|member| member.user.id.get()).collect();
    assert_eq!(found, [1, 10, 11, 12, OWNER.get()]);
}

#[tokio::test]
async fn a_prune_goes_on_over_time_and_is_durable() {
    let world = World::new();
    let guild_id = guild_of(&world, 150).await;
    let pruning = start_prune(&world, guild_id);
    assert_eq!(answer(&world, pruning).await, Ok(150));
    assert_eq!(world.member_count(guild_id).await, Ok(1));
    let world = world.restarted().await;
    assert_eq!(world.member_count(guild_id).await, Ok(1));
}

#[tokio::test]
async fn a_late_answer_waits_for_the_commit() {
    let world = World::new();
    let guild_id = guild_of(&world, 1).await;
    let started = world.store.counts().commits_begun;
    world.store.set(|faults| faults.hold_commits = true);
    let pruning = start_prune(&world, guild_id);
    bounded(async {
        while world.store.counts().commits_begun == started {
            world.advance(10).await;
        }
    })
    .await;
    world.barrier().await;
    assert!(!pruning.is_finished());
    world.store.set(|faults| faults.hold_commits = false);
    assert_eq!(bounded(pruning).await.unwrap(), Ok(1));
    assert!(world.store.guilds_of_user(UserId::new(1), 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_failing_guild_refuses_pending_requests() {
    let world = World::new();
    let guild_id = guild_of(&world, 100).await;
    world.store.set(|faults| faults.failing_commits = 1);
    let pruning = start_prune(&world, guild_id);
    assert_eq!(answer(&world, pruning).await, Err(Refusal::Unavailable));
    // The guild was loaded again with all members, and handles the repeated command.
    assert_eq!(world.member_count(guild_id).await, Ok(101));
    let pruning = start_prune(&world, guild_id);
    assert_eq!(answer(&world, pruning).await, Ok(100));
}

#[tokio::test]
async fn a_deleted_guild_answers_pending_requests() {
    let world = World::new();
    let guild_id = guild_of(&world, 200).await;
    let pruning = start_prune(&world, guild_id);
    tokio::task::yield_now().await;
    world.command(guild_id, Command::DeleteGuild).await.unwrap();
    assert_eq!(bounded(pruning).await.unwrap(), Err(Refusal::UnknownGuild));
    assert_eq!(world.member_count(guild_id).await, Err(Refusal::UnknownGuild));
    bounded(world.node.shut_down()).await;
}

#[tokio::test]
async fn a_node_that_shuts_down_ends_what_was_begun() {
    let world = World::new();
    let guild_id = guild_of(&world, 100).await;
    let pruning = start_prune(&world, guild_id);
    tokio::task::yield_now().await;
    let node = world.node.clone();
    let down = tokio::spawn(async move { node.shut_down().await });
    bounded(async {
        while !down.is_finished() {
            world.pass(10);
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(bounded(pruning).await.unwrap(), Ok(100));
}
