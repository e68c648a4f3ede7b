//! Commands about messages that are not in memory.

use crate::support::{OWNER, World, bounded};
use guildhall_guild::{Actor, Command, MessagePatch, Refusal, Reply};
use guildhall_model::{ChannelId, GuildId, MessageId};
use guildhall_store::Store as _;
use tokio::task::JoinHandle;

fn edit(
    world: &World,
    guild_id: GuildId,
    channel_id: ChannelId,
    id: MessageId,
    text: &str,
) -> JoinHandle<Result<String, Refusal>> {
    let patch = MessagePatch { content: Some(text.to_owned()), ..MessagePatch::default() };
    let command = Command::EditMessage(channel_id, id, Box::new(patch));
    let node = world.node.clone();
    tokio::spawn(async move {
        match node.command(guild_id, Actor::User(OWNER), command).await? {
            Reply::Message(reply) => Ok(reply.message.content.clone()),
            other => panic!("{other:?}"),
        }
    })
}

/// A guild whose message only the store remembers.
async fn forgotten() -> (World, GuildId, ChannelId, MessageId) {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let id = world.say(guild_id, channel_id, "old").await.unwrap();
    (world.restarted().await, guild_id, channel_id, id)
}

#[tokio::test]
async fn an_old_message_is_loaded_while_others_go_on() {
    let (world, guild_id, channel_id, id) = forgotten().await;
    world.store.set(|faults| faults.hold_messages = true);
    let edited = edit(&world, guild_id, channel_id, id, "new");
    world.store.wait(|counts| counts.messages_begun == 1).await;
    world.say(guild_id, channel_id, "meanwhile").await.expect("the guild does not wait");
    assert!(!edited.is_finished());
    world.store.set(|faults| faults.hold_messages = false);
    assert_eq!(bounded(edited).await.unwrap(), Ok("new".to_owned()));
    let stored = world.store.message(channel_id, id).await.unwrap().unwrap();
    assert_eq!(stored.message.content, "new");
}

#[tokio::test]
async fn a_message_that_does_not_exist_is_unknown() {
    let (world, guild_id, channel_id, id) = forgotten().await;
    let other = MessageId::new(id.get() + 1);
    assert_eq!(bounded(edit(&world, guild_id, channel_id, other, "x")).await.unwrap(), Err(Refusal::UnknownMessage));
}

#[tokio::test]
async fn a_load_that_fails_refuses_the_command_and_nothing_else() {
    let (world, guild_id, channel_id, id) = forgotten().await;
    world.store.set(|faults| faults.failing_messages = 1);
    assert_eq!(bounded(edit(&world, guild_id, channel_id, id, "x")).await.unwrap(), Err(Refusal::Unavailable));
    assert_eq!(bounded(edit(&world, guild_id, channel_id, id, "y")).await.unwrap(), Ok("y".to_owned()));
}

#[tokio::test]
async fn more_loads_than_a_guild_may_have_at_once_wait_for_their_turn() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let mut ids = Vec::new();
    for n in 0..100 {
        ids.push(world.say(guild_id, channel_id, &n.to_string()).await.unwrap());
    }
    let world = world.restarted().await;
    world.store.set(|faults| faults.hold_messages = true);
    let edits: Vec<_> =
        ids.iter().map(|id| edit(&world, guild_id, channel_id, *id, &format!("edit of {id}"))).collect();
    world.store.wait(|counts| counts.messages_begun == 32).await;
    world.barrier().await;
    assert_eq!(world.store.counts().messages_begun, 32);
    world.store.set(|faults| faults.hold_messages = false);
    for (id, edit) in ids.iter().zip(edits) {
        assert_eq!(bounded(edit).await.unwrap(), Ok(format!("edit of {id}")));
    }
}

#[tokio::test]
async fn a_command_that_waits_for_a_message_survives_the_failure_of_its_guild() {
    let (world, guild_id, channel_id, id) = forgotten().await;
    assert!(world.member_count(guild_id).await.is_ok());
    world.store.set(|faults| faults.hold_messages = true);
    let edited = edit(&world, guild_id, channel_id, id, "new");
    world.store.wait(|counts| counts.messages_begun == 1).await;
    world.store.set(|faults| faults.failing_commits = 1);
    assert_eq!(world.say(guild_id, channel_id, "lost").await, Err(Refusal::Unavailable));
    // The reloaded guild reads again, and ignores the answer to its first read.
    world.store.wait(|counts| counts.messages_begun == 2).await;
    world.store.set(|faults| faults.hold_messages = false);
    assert_eq!(bounded(edited).await.unwrap(), Ok("new".to_owned()));
}
