//! Full relays: their streams are cut, and restarted when there is room, without an unreported gap.

use crate::support::{OWNER, World, attach, bounded, session};
use guildhall_guild::Command;
use guildhall_guild_protocol::RelayMessage;
use guildhall_model::GuildId;

#[tokio::test]
async fn a_relay_that_lags_is_reset_and_the_others_miss_nothing() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let mut slow = world.listen(guild_id, 0);
    let mut quick = world.listen(guild_id, 1);
    slow.snapshot().await;
    quick.snapshot().await;
    let first = world.say(guild_id, channel_id, "first").await.unwrap();
    assert_eq!((slow.next_message().await.0, quick.next_message().await.0), (first, first));

    world.relays.set_full(0, true);
    let mut missed = Vec::new();
    for n in 0..5 {
        missed.push(world.say(guild_id, channel_id, &n.to_string()).await.unwrap());
    }
    for id in missed {
        assert_eq!(quick.next_message().await.0, id);
    }
    // Only the first was tried: a cut stream is left alone until the timer.
    world.refused(1).await;
    world.advance(20).await;
    world.refused(2).await;
    assert!(slow.try_next().is_none());

    world.relays.set_full(0, false);
    // Room alone is no reason to send the middle of something.
    let unheard = world.say(guild_id, channel_id, "between").await.unwrap();
    assert_eq!(quick.next_message().await.0, unheard);
    assert!(slow.try_next().is_none());
    world.advance(20).await;
    assert!(slow.snapshot().await, "it gets a snapshot after the loss");
    let last = world.say(guild_id, channel_id, "last").await.unwrap();
    assert_eq!((slow.next_message().await.0, quick.next_message().await.0), (last, last));
    assert!(slow.try_next().is_none() && quick.try_next().is_none());
}

#[tokio::test]
async fn what_waits_for_its_commit_is_not_sent_past_a_loss() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let mut relay = world.listen(guild_id, 0);
    relay.snapshot().await;
    let started = world.store.counts().commits_begun;
    world.store.set(|faults| faults.hold_commits = true);
    let first = world.start_saying(guild_id, channel_id, "first");
    world.store.wait(|counts| counts.commits_begun == started + 1).await;
    let rest: Vec<_> = (0..3).map(|n| world.start_saying(guild_id, channel_id, &n.to_string())).collect();
    tokio::task::yield_now().await;
    world.barrier().await;
    world.relays.set_full(0, true);
    world.store.set(|faults| faults.hold_commits = false);
    bounded(first).await.unwrap().unwrap();
    world.relays.set_full(0, false);
    for sent in rest {
        bounded(sent).await.unwrap().expect("a command does not wait for slow relays");
    }
    world.barrier().await;
    assert!(relay.try_next().is_none());
    world.advance(20).await;
    assert!(relay.snapshot().await);
    assert!(relay.try_next().is_none());
}

#[tokio::test]
async fn a_relay_that_subscribes_again_while_it_lags_starts_afresh() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let mut relay = world.listen(guild_id, 0);
    relay.snapshot().await;
    world.relays.set_full(0, true);
    world.say(guild_id, channel_id, "lost").await.unwrap();
    world.refused(1).await;
    world.relays.set_full(0, false);
    let mut again = crate::support::Listener::new(world.relays.clone(), guild_id, relay.relay);
    again.epoch = 2;
    again.skip_everything();
    world.send(guild_id, again.subscribe());
    assert!(!again.snapshot().await);
    world.advance(20).await;
    let id = world.say(guild_id, channel_id, "heard").await.unwrap();
    assert_eq!(again.next_message().await.0, id);
}

#[tokio::test]
async fn a_relay_that_missed_the_deletion_of_its_guild_is_reset() {
    let world = World::new();
    let guild_id = world.guild().await;
    let mut relay = world.listen(guild_id, 0);
    relay.snapshot().await;
    world.relays.set_full(0, true);
    world.command(guild_id, Command::DeleteGuild).await.unwrap();
    // The event, and the news that something was lost.
    world.refused(2).await;
    world.relays.set_full(0, false);
    world.advance(20).await;
    assert!(relay.snapshot().await);
    world.send(guild_id, attach(session(0, 1), OWNER));
    assert!(matches!(relay.next().await, RelayMessage::Attached { view: None, .. }));
}

#[tokio::test]
async fn answers_for_a_guild_that_does_not_exist_wait_for_room() {
    let world = World::new();
    let guild_id = GuildId::new(4711);
    world.relays.set_full(0, true);
    let mut relay = world.listen(guild_id, 0);
    world.send(guild_id, attach(session(0, 1), OWNER));
    world.refused(1).await;
    world.advance(20).await;
    world.refused(2).await;
    world.relays.set_full(0, false);
    world.advance(20).await;
    relay.snapshot().await;
    assert!(matches!(relay.next().await, RelayMessage::Attached { view: None, .. }));
    // What waited gave its place back, and the guild is made as if nothing had been.
    let new = crate::support::new_guild(4711, OWNER);
    assert_eq!(bounded(world.node.create_guild(new)).await, Ok(guild_id));
}
