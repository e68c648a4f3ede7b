//! When the store fails: no reply or event for lost changes, memory and disk agree again, and relays restart.

use crate::support::{OWNER, World, attach, bounded, session, user};
use guildhall_guild::{Command, Refusal, Reply, Write};
use guildhall_guild_protocol::{RelayMessage, ReplicaUpdate, ToGuild};
use guildhall_model::{GuildId, UserId};
use guildhall_store::Store as _;

#[tokio::test]
async fn a_failed_commit_is_not_published_and_resets() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let mut relay = world.listen(guild_id, 0);
    relay.snapshot().await;
    world.send(guild_id, attach(session(0, 0), OWNER));
    while !matches!(relay.next().await, RelayMessage::Attached { view: Some(_), .. }) {}
    let kept = world.say(guild_id, channel_id, "kept").await.unwrap();
    assert_eq!(relay.next_message().await.0, kept);
    let loads = world.store.counts().loads_begun;

    // Two groups in the commit that fails, one behind it.
    let started = world.store.counts().commits_begun;
    world.store.set(|faults| {
        faults.hold_commits = true;
        faults.failing_commits = 1;
    });
    let lost = [world.start_saying(guild_id, channel_id, "lost"), world.start_saying(guild_id, channel_id, "too")];
    world.store.wait(|counts| counts.commits_begun == started + 1).await;
    let behind = world.start_saying(guild_id, channel_id, "behind");
    tokio::task::yield_now().await;
    world.barrier().await;
    world.store.set(|faults| faults.hold_commits = false);
    for sent in lost.into_iter().chain([behind]) {
        assert_eq!(bounded(sent).await.unwrap(), Err(Refusal::Unavailable));
    }

    assert!(relay.snapshot().await, "the next message of the relay's stream is a snapshot");
    assert_eq!(world.store.counts().loads_begun, loads + 1);
    let Ok(Reply::Guild(guild)) = world.command(guild_id, Command::ReadGuild).await else { panic!("it is back") };
    assert_eq!(guild.last_message_ids.get(&channel_id), Some(&kept));
    assert_eq!(guild.presence_count, 0, "sessions attach again");

    let after = world.say(guild_id, channel_id, "after").await.unwrap();
    assert_eq!(relay.next_message().await, (after, "after".to_owned()));
    assert!(relay.try_next().is_none());
}

#[tokio::test]
async fn a_commit_that_failed_only_by_its_own_account_is_found_after_the_reload() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let mut relay = world.listen(guild_id, 0);
    relay.snapshot().await;
    world.store.set(|faults| faults.lying_commits = 1);
    assert_eq!(world.say(guild_id, channel_id, "hello").await, Err(Refusal::Unavailable));
    assert!(relay.snapshot().await);
    let stored = world.store.load_guild(guild_id).await.unwrap().unwrap().channels[0].last_message_id;
    let Ok(Reply::Guild(guild)) = world.command(guild_id, Command::ReadGuild).await else { panic!("it is back") };
    assert!(stored.is_some());
    assert_eq!(guild.last_message_ids.get(&channel_id).copied(), stored);
}

#[tokio::test]
async fn a_guild_that_goes_on_failing_is_left_alone_for_a_while() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let mut relay = world.listen(guild_id, 0);
    relay.snapshot().await;
    world.store.set(|faults| faults.failing_commits = 3);
    assert_eq!(world.say(guild_id, channel_id, "1").await, Err(Refusal::Unavailable));
    assert!(relay.snapshot().await);
    let loads = world.store.counts().loads_begun;
    assert_eq!(world.say(guild_id, channel_id, "2").await, Err(Refusal::Unavailable));
    // Refused at once, without a read of the store.
    assert_eq!(world.say(guild_id, channel_id, "3").await, Err(Refusal::Unavailable));
    world.send(guild_id, attach(session(0, 0), OWNER));
    assert!(matches!(relay.next().await, RelayMessage::Unavailable { session: s } if s == session(0, 0)));
    assert_eq!(world.store.counts().loads_begun, loads);

    // The guild notifies its relay after the load, without a command.
    world.advance(100).await;
    assert!(relay.snapshot().await);
    assert_eq!(world.store.counts().loads_begun, loads + 1);
    assert_eq!(world.say(guild_id, channel_id, "4").await, Err(Refusal::Unavailable));
    world.advance(100).await;
    assert!(relay.try_next().is_none(), "the pause is longer each time");
    world.advance(100).await;
    assert!(relay.snapshot().await);
    let id = world.say(guild_id, channel_id, "5").await.expect("it is well again");
    assert_eq!(relay.next_message().await.0, id);

    // A minute of health, and the next failure is repaired at once again.
    world.advance(60_000).await;
    world.store.set(|faults| faults.failing_commits = 1);
    assert_eq!(world.say(guild_id, channel_id, "6").await, Err(Refusal::Unavailable));
    assert!(relay.snapshot().await);
}

/// However many writes arrive, the guild restarts once, for the commit that found the disk full.
#[tokio::test]
async fn s21_3_on_a_full_disk_reads_are_served_and_writes_refused() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let (other_id, other_channel_id) = world.guild_with_channel().await;
    let (mut relay, mut other) = (world.listen(guild_id, 0), world.listen(other_id, 1));
    relay.snapshot().await;
    other.snapshot().await;
    let kept = world.say(guild_id, channel_id, "kept").await.unwrap();
    assert_eq!(relay.next_message().await.0, kept);
    let loads = world.store.counts().loads_begun;

    world.store.set(|faults| faults.full = true);
    assert_eq!(world.say(guild_id, channel_id, "lost").await, Err(Refusal::DiskFull));
    assert!(relay.snapshot().await);
    assert!(world.node.are_writes_stopped());
    for n in 0..20 {
        for (guild_id, channel_id) in [(guild_id, channel_id), (other_id, other_channel_id)] {
            assert_eq!(world.say(guild_id, channel_id, &n.to_string()).await, Err(Refusal::DiskFull));
            let Ok(Reply::Guild(guild)) = world.command(guild_id, Command::ReadGuild).await else {
                panic!("reads are served")
            };
            assert_eq!(guild.structure.guild.id, guild_id);
            world.command(guild_id, Command::ReadChannel(channel_id)).await.expect("channels, too");
        }
    }
    let new = crate::support::new_guild(0, OWNER);
    assert_eq!(bounded(world.node.create_guild(new)).await, Err(Refusal::DiskFull));
    assert_eq!(world.store.counts().loads_begun, loads + 1, "nothing else was loaded again");
    while let Some(message) = relay.try_next() {
        assert!(!matches!(message, RelayMessage::Snapshot { .. }), "{message:?}");
    }
    while let Some(message) = other.try_next() {
        assert!(!matches!(message, RelayMessage::Snapshot { .. }), "its sessions noticed something: {message:?}");
    }

    world.store.set(|faults| faults.full = false);
    let sent = bounded(async {
        loop {
            match world.say(guild_id, channel_id, "again").await {
                Ok(id) => break id,
                // The disk may have room again before the node gives the reason.
                Err(refusal) => assert!(matches!(refusal, Refusal::DiskFull | Refusal::Unavailable), "{refusal:?}"),
            }
        }
    });
    let sent = sent.await;
    assert!(sent > kept && !world.node.are_writes_stopped());
    world.say(other_id, other_channel_id, "here too").await.unwrap();
}

#[tokio::test]
async fn s21_3_writes_can_be_held_from_outside() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let sent = world.say(guild_id, channel_id, "before").await.unwrap();
    world.node.hold_writes(true);
    assert_eq!(world.say(guild_id, channel_id, "no").await, Err(Refusal::DiskFull));
    assert!(world.command(guild_id, Command::ReadGuild).await.is_ok());
    world.command(guild_id, Command::DeleteMessage(channel_id, sent)).await.expect("deletions go on");
    let direct = bounded(world.node.put_direct(&user(UserId::new(3)), &user(UserId::new(4)))).await;
    assert_eq!(direct.map(drop), Err(Refusal::DiskFull));
    world.node.hold_writes(false);
    world.say(guild_id, channel_id, "yes").await.unwrap();
}

#[tokio::test]
async fn a_guild_that_cannot_be_loaded_is_unavailable_and_tried_again() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let world = world.restarted().await;
    world.store.set(|faults| faults.failing_loads = 1);
    let mut relay = world.listen(guild_id, 0);
    world.send(guild_id, attach(session(0, 4), OWNER));
    assert!(matches!(relay.next().await, RelayMessage::Unavailable { session: s } if s == session(0, 4)));
    assert_eq!(world.say(guild_id, channel_id, "no").await, Err(Refusal::Unavailable));
    let new = crate::support::new_guild(guild_id.get(), OWNER);
    assert_eq!(bounded(world.node.create_guild(new)).await, Err(Refusal::Unavailable));
    assert_eq!(world.store.counts().loads_begun, 1, "one failure is enough for a while");

    world.advance(100).await;
    assert!(relay.snapshot().await, "a reset: the refused session attaches again");
    world.send(guild_id, attach(session(0, 4), OWNER));
    while !matches!(relay.next().await, RelayMessage::Attached { view: Some(_), .. }) {}
    world.say(guild_id, channel_id, "yes").await.unwrap();
}

#[tokio::test]
async fn s5_relays_that_are_subscribed_get_their_guild_without_asking_again() {
    let world = World::new();
    let guild_id = world.guild().await;
    let world = world.restarted().await;
    world.store.set(|faults| faults.failing_loads = 10);
    let (mut notified, mut silent) = (world.listen(guild_id, 0), world.listen(guild_id, 1));
    world.send(guild_id, attach(session(0, 4), OWNER));
    assert!(matches!(notified.next().await, RelayMessage::Unavailable { session: s } if s == session(0, 4)));
    // The guild receives no message from here on.
    for (failed, pause_ms) in (1..).zip([100, 200, 400, 800, 1600, 3000, 3000, 3000, 3000, 3000]) {
        world.store.wait(|counts| counts.loads_begun == failed).await;
        world.barrier().await;
        world.advance(pause_ms - 1).await;
        assert_eq!(world.store.counts().loads_begun, failed, "not before its time");
        assert!(notified.try_next().is_none() && silent.try_next().is_none());
        world.advance(1).await;
    }
    assert!(notified.snapshot().await, "its sessions have to attach again");
    assert!(!silent.snapshot().await, "it has missed nothing");
    assert_eq!(world.store.counts().loads_begun, 11);
    world.send(guild_id, attach(session(0, 4), OWNER));
    while !matches!(notified.next().await, RelayMessage::Attached { view: Some(_), .. }) {}
}

#[tokio::test]
async fn s5_a_relay_that_is_full_when_its_guild_is_back_gets_it_later() {
    let world = World::new();
    let guild_id = world.guild().await;
    let world = world.restarted().await;
    world.store.set(|faults| faults.failing_loads = 1);
    let mut relay = world.listen(guild_id, 0);
    world.send(guild_id, attach(session(0, 4), OWNER));
    assert!(matches!(relay.next().await, RelayMessage::Unavailable { .. }));
    world.barrier().await;
    world.relays.set_full(0, true);
    world.advance(100).await;
    world.refused(1).await;
    world.advance(20).await;
    world.refused(2).await;
    assert!(relay.try_next().is_none());
    world.relays.set_full(0, false);
    world.advance(20).await;
    assert!(relay.snapshot().await);
    assert_eq!(world.store.counts().loads_begun, 2);
}

#[tokio::test]
async fn s5_a_session_that_was_sent_away_finds_out_that_its_guild_is_gone() {
    let world = World::new();
    let guild_id = world.guild().await;
    let world = world.restarted().await;
    world.store.set(|faults| faults.failing_loads = 1);
    let mut relay = world.listen(guild_id, 0);
    world.send(guild_id, attach(session(0, 4), OWNER));
    assert!(matches!(relay.next().await, RelayMessage::Unavailable { .. }));
    world.barrier().await;
    world.store.commit(vec![Write::DeleteGuild(guild_id)]).await.unwrap();
    world.advance(100).await;
    assert!(relay.snapshot().await);
    world.send(guild_id, attach(session(0, 4), OWNER));
    assert!(matches!(relay.next().await, RelayMessage::Attached { view: None, .. }));
}

#[tokio::test]
async fn without_relays_a_failed_guild_is_unloaded_until_the_next_request() {
    let world = World::new();
    let guild_id = world.guild().await;
    let world = world.restarted().await;
    world.store.set(|faults| faults.failing_loads = 1);
    assert_eq!(world.member_count(guild_id).await, Err(Refusal::Unavailable));
    world.advance(100).await;
    world.advance(10_000).await;
    assert_eq!(world.store.counts().loads_begun, 1);
    assert_eq!(world.member_count(guild_id).await, Ok(1));
}

#[tokio::test]
async fn requests_for_an_unknown_guild_are_refused() {
    let world = World::new();
    let guild_id = GuildId::new(4711);
    assert_eq!(world.member_count(guild_id).await, Err(Refusal::UnknownGuild));
    let mut relay = world.listen(guild_id, 0);
    world.send(guild_id, attach(session(0, 1), OWNER));
    world.send(guild_id, attach(session(0, 2), OWNER));
    // A relay takes an `Attached` only after a snapshot.
    assert!(!relay.snapshot().await);
    for slot in [1, 2] {
        match relay.next().await {
            RelayMessage::Attached { session: s, view: None } => assert_eq!(s, session(0, slot)),
            other => panic!("{other:?}"),
        }
    }
    // It is made while the relay is there, and speaks for itself from then on.
    bounded(world.node.create_guild(crate::support::new_guild(4711, OWNER))).await.unwrap();
    relay.snapshot().await;
    world.send(guild_id, attach(session(0, 1), OWNER));
    while !matches!(relay.next().await, RelayMessage::Attached { view: Some(_), .. }) {}
}

#[tokio::test]
async fn a_deleted_guild_is_lost_by_all_sessions() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let mut relay = world.listen(guild_id, 0);
    relay.snapshot().await;
    assert_eq!(world.node.guild_of_channel(channel_id).await.unwrap(), Some(guild_id));
    world.command(guild_id, Command::DeleteGuild).await.unwrap();
    match relay.next().await {
        RelayMessage::Published(published) => assert!(matches!(published.replica_update, ReplicaUpdate::Deleted)),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.say(guild_id, channel_id, "anybody?").await, Err(Refusal::UnknownGuild));
    assert_eq!(world.node.guild_of_channel(channel_id).await.unwrap(), None);
    world.send(guild_id, attach(session(0, 0), OWNER));
    assert!(matches!(relay.next().await, RelayMessage::Attached { view: None, .. }));
    assert!(world.store.load_guild(guild_id).await.unwrap().is_none());
}

#[tokio::test]
async fn what_comes_during_a_deletion_is_answered_by_its_outcome() {
    for fails in [false, true] {
        let world = World::new();
        let (guild_id, channel_id) = world.guild_with_channel().await;
        let mut relay = world.listen(guild_id, 0);
        relay.snapshot().await;
        let started = world.store.counts().commits_begun;
        world.store.set(|faults| {
            faults.hold_commits = true;
            faults.failing_commits = u32::from(fails);
        });
        let node = world.node.clone();
        let deleted = tokio::spawn(async move {
            node.command(guild_id, guildhall_guild::Actor::System, Command::DeleteGuild).await.map(drop)
        });
        world.store.wait(|counts| counts.commits_begun == started + 1).await;
        let sent = world.start_saying(guild_id, channel_id, "still here?");
        tokio::task::yield_now().await;
        world.barrier().await;
        assert!(!deleted.is_finished() && !sent.is_finished());
        world.store.set(|faults| faults.hold_commits = false);
        let (deleted, sent) = (bounded(deleted).await.unwrap(), bounded(sent).await.unwrap());
        if fails {
            assert_eq!(deleted, Err(Refusal::Unavailable));
            assert!(relay.snapshot().await);
            assert_eq!(relay.next_message().await.0, sent.expect("the guild is still there"));
        } else {
            assert_eq!((deleted, sent), (Ok(()), Err(Refusal::UnknownGuild)));
        }
    }
}

#[tokio::test]
async fn a_deletion_that_was_reported_as_failed_resets_the_relays() {
    let world = World::new();
    let guild_id = world.guild().await;
    let mut relay = world.listen(guild_id, 0);
    relay.snapshot().await;
    world.store.set(|faults| faults.lying_commits = 1);
    assert_eq!(world.command(guild_id, Command::DeleteGuild).await.map(drop), Err(Refusal::Unavailable));
    assert!(relay.snapshot().await, "its sessions have to find out");
    assert_eq!(world.member_count(guild_id).await, Err(Refusal::UnknownGuild));
}

#[tokio::test]
async fn every_answered_membership_is_found_and_no_other() {
    let world = World::new();
    let guild_id = world.guild().await;
    let (joined, failed) = (UserId::new(2001), UserId::new(2002));
    world.command(guild_id, Command::AddMember(user(joined))).await.unwrap();
    assert_eq!(world.node.guilds_of_user(joined).await.unwrap(), [guild_id]);
    world.store.set(|faults| faults.failing_commits = 1);
    assert!(world.command(guild_id, Command::AddMember(user(failed))).await.is_err());
    assert!(world.node.guilds_of_user(failed).await.unwrap().is_empty());
    assert_eq!(world.member_count(guild_id).await, Ok(2));
}

#[tokio::test]
async fn a_relay_that_begins_again_counts_from_one() {
    let world = World::new();
    let guild_id = world.guild().await;
    let mut relay = world.listen(guild_id, 3);
    relay.snapshot().await;
    world.command(guild_id, Command::AddMember(user(UserId::new(5)))).await.unwrap();
    relay.next().await;
    world.send(guild_id, ToGuild::Resync { relay: relay.relay, epoch: 1 });
    assert!(relay.snapshot().await, "the numbers go on after a resync");
    world.send(guild_id, relay.unsubscribe());
    world.command(guild_id, Command::AddMember(user(UserId::new(6)))).await.unwrap();
    world.barrier().await;
    assert!(relay.try_next().is_none());
    let mut next = crate::support::Listener::new(world.relays.clone(), guild_id, relay.relay);
    next.epoch = 2;
    // The mailbox of the partition holds what the earlier incarnation was sent.
    next.skip_everything();
    world.send(guild_id, next.subscribe());
    assert!(!next.snapshot().await);
}
