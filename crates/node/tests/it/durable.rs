//! Nothing is answered or published before it is durable; then everything is, in order.

use crate::support::{OWNER, World, bounded, message, user};
use guildhall_guild::{Actor, Command, Reply};
use guildhall_guild_protocol::RelayMessage;
use guildhall_model::{EventName, GuildId, UserId};
use guildhall_store::Store as _;
use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};

#[tokio::test]
async fn nothing_gets_out_before_its_commit() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let mut relay = world.listen(guild_id, 0);
    assert!(!relay.snapshot().await);
    let commits = world.store.counts().commits_begun;

    world.store.set(|faults| faults.hold_commits = true);
    let sent = world.start_saying(guild_id, channel_id, "hello");
    world.store.wait(|counts| counts.commits_begun == commits + 1).await;
    // The worker has handled it, and no reply or event has left.
    world.barrier().await;
    assert!(!sent.is_finished());
    assert!(relay.try_next().is_none());

    world.store.set(|faults| faults.hold_commits = false);
    let id = bounded(sent).await.unwrap().expect("it is sent");
    assert_eq!(relay.next_message().await, (id, "hello".to_owned()));
    assert!(world.store.message(channel_id, id).await.unwrap().is_some());
}

#[tokio::test]
async fn what_is_not_written_waits_for_what_was_written_before() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let mut relay = world.listen(guild_id, 0);
    relay.snapshot().await;
    let commits = world.store.counts().commits_begun;

    world.store.set(|faults| faults.hold_commits = true);
    let sent = world.start_saying(guild_id, channel_id, "hello");
    world.store.wait(|counts| counts.commits_begun == commits + 1).await;
    // Both depend on writes that may still fail.
    let node = world.node.clone();
    let read = tokio::spawn(async move { node.command(guild_id, Actor::System, Command::ReadGuild).await });
    let node = world.node.clone();
    let typed =
        tokio::spawn(async move { node.command(guild_id, Actor::User(OWNER), Command::StartTyping(channel_id)).await });
    tokio::task::yield_now().await;
    world.barrier().await;
    assert!(!read.is_finished() && !typed.is_finished());
    assert!(relay.try_next().is_none());

    world.store.set(|faults| faults.hold_commits = false);
    let id = bounded(sent).await.unwrap().unwrap();
    let Ok(Reply::Guild(guild)) = bounded(read).await.unwrap() else { panic!("the guild can be read") };
    assert_eq!(guild.last_message_ids.get(&channel_id), Some(&id));
    bounded(typed).await.unwrap().expect("typing is published");
    relay.next_message().await;
    match relay.next().await {
        RelayMessage::Published(published) => assert_eq!(published.event.name, EventName::TypingStart),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_comes_during_a_commit_goes_into_the_next_one() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let before = world.store.counts();

    world.store.set(|faults| faults.hold_commits = true);
    let first = world.start_saying(guild_id, channel_id, "first");
    world.store.wait(|counts| counts.commits_begun == before.commits_begun + 1).await;
    let rest: Vec<_> = (0..50).map(|n| world.start_saying(guild_id, channel_id, &format!("{n}"))).collect();
    tokio::task::yield_now().await;
    world.barrier().await;
    assert_eq!(world.store.counts().commits_begun, before.commits_begun + 1, "one commit of a guild at a time");

    world.store.set(|faults| faults.hold_commits = false);
    bounded(first).await.unwrap().unwrap();
    for sent in rest {
        bounded(sent).await.unwrap().unwrap();
    }
    assert_eq!(world.store.counts().committed[before.committed.len()..], [1, 50]);
}

#[tokio::test]
async fn one_guild_does_not_wait_for_the_commit_of_another() {
    let world = World::new();
    let (slow, slow_channel) = world.guild_with_channel().await;
    let (quick, quick_channel) = world.guild_with_channel().await;
    let before = world.store.counts().commits_begun;
    world.store.set(|faults| faults.hold_commits = true);
    let held = world.start_saying(slow, slow_channel, "held");
    world.store.wait(|counts| counts.commits_begun == before + 1).await;
    let other = world.start_saying(quick, quick_channel, "its own commit");
    world.store.wait(|counts| counts.commits_begun == before + 2).await;
    assert!(world.member_count(GuildId::new(5)).await.is_err(), "the worker goes on");
    world.store.set(|faults| faults.hold_commits = false);
    bounded(held).await.unwrap().unwrap();
    bounded(other).await.unwrap().unwrap();
}

#[tokio::test]
async fn events_come_in_the_order_of_their_commands() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let mut relays = [world.listen(guild_id, 0), world.listen(guild_id, 1)];
    let mut sent = Vec::new();
    // Without waiting for answers: the mailbox keeps the order of calls made from one task.
    let mut calls = Vec::new();
    for n in 0..200 {
        let mut call = Box::pin(world.node.command(guild_id, Actor::User(OWNER), message(channel_id, &n.to_string())));
        assert!(poll_once(&mut call).is_none());
        calls.push(call);
    }
    for call in calls {
        let Ok(Reply::Message(reply)) = bounded(call).await else { panic!("it is sent") };
        sent.push((reply.message.id, reply.message.content.clone()));
    }
    assert!(sent.is_sorted_by(|a, b| a.0 < b.0));
    assert!(sent.iter().enumerate().all(|(n, (_, content))| *content == n.to_string()));
    for relay in &mut relays {
        relay.snapshot().await;
        for expected in &sent {
            assert_eq!(relay.next_message().await, *expected);
        }
        assert!(relay.try_next().is_none());
    }
}

/// Polls once, which hands the command over.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[tokio::test]
async fn a_guild_is_made_durably_and_once() {
    let world = World::new();
    let new = |owner| crate::support::new_guild(77, owner);
    world.store.set(|faults| faults.hold_commits = true);
    let node = world.node.clone();
    let first = tokio::spawn(async move { node.create_guild(crate::support::new_guild(77, OWNER)).await });
    world.store.wait(|counts| counts.commits_begun == 1).await;
    world.barrier().await;
    assert!(!first.is_finished());
    world.store.set(|faults| faults.hold_commits = false);
    let guild_id = bounded(first).await.unwrap().expect("it is made");
    assert_eq!(guild_id.get(), 77);
    assert!(world.store.load_guild(guild_id).await.unwrap().is_some());

    let again = bounded(world.node.create_guild(new(OWNER))).await;
    assert_eq!(again.expect("repeating the request is no error"), guild_id);
    let stranger = UserId::new(9);
    let refused = bounded(world.node.create_guild(new(stranger))).await;
    assert_eq!(refused.unwrap_err(), guildhall_guild::Refusal::MissingAccess);

    // Also when it has to be loaded first.
    let world = world.restarted().await;
    assert_eq!(bounded(world.node.create_guild(new(OWNER))).await.unwrap(), guild_id);
    assert!(bounded(world.node.create_guild(new(stranger))).await.is_err());
    let fresh = world.guild().await;
    assert!(fresh.get() > 77 && world.guild().await > fresh);
}

#[tokio::test]
async fn a_guild_whose_pipeline_is_full_takes_nothing_more_until_it_is_durable() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let mut relay = world.listen(guild_id, 0);
    relay.snapshot().await;
    let before = world.store.counts();
    world.store.set(|faults| faults.hold_commits = true);
    let first = world.start_saying(guild_id, channel_id, "first");
    world.store.wait(|counts| counts.commits_begun == before.commits_begun + 1).await;
    let rest: Vec<_> = (0..1500).map(|n| world.start_saying(guild_id, channel_id, &n.to_string())).collect();
    tokio::task::yield_now().await;
    world.barrier().await;
    world.store.set(|faults| faults.hold_commits = false);
    let mut ids = vec![bounded(first).await.unwrap().unwrap()];
    for sent in rest {
        ids.push(bounded(sent).await.unwrap().expect("it waited and was handled"));
    }
    assert_eq!(world.store.counts().committed[before.committed.len()..], [1, 1024, 476]);
    for id in ids {
        assert_eq!(relay.next_message().await.0, id);
    }
}

#[tokio::test]
async fn a_durable_join_is_announced_with_or_without_a_waiting_caller() {
    let world = World::new();
    let guild_id = world.guild().await;
    assert_eq!(world.relays.joined(), [(OWNER, guild_id)]);
    let started = world.store.counts().commits_begun;
    world.store.set(|faults| faults.hold_commits = true);
    let joining = UserId::new(5);
    let node = world.node.clone();
    let call =
        tokio::spawn(async move { node.command(guild_id, Actor::System, Command::AddMember(user(joining))).await });
    world.store.wait(|counts| counts.commits_begun == started + 1).await;
    world.barrier().await;
    assert_eq!(world.relays.joined().len(), 1);
    // A client that hangs up.
    call.abort();
    assert!(bounded(call).await.unwrap_err().is_cancelled());
    world.store.set(|faults| faults.hold_commits = false);
    world.relays.wait_joined(2).await;
    assert_eq!(world.relays.joined()[1], (joining, guild_id));

    world.store.set(|faults| faults.failing_commits = 1);
    assert!(world.command(guild_id, Command::AddMember(user(UserId::new(6)))).await.is_err());
    assert!(world.command(GuildId::new(5), Command::AddMember(user(joining))).await.is_err());
    assert_eq!(world.relays.joined().len(), 2);
}
