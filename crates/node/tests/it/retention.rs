//! Retention: which messages the node deletes, when, and what clients see of it.

use crate::support::{OWNER, World, bounded};
use guildhall_guild::{Actor, Command, Refusal, Reply, Write};
use guildhall_model::{ChannelId, GuildId, Message, MessageId, ReactionEmoji, smallest_id_at};
use guildhall_node::Clock as _;
use guildhall_store::{Page, Store as _};
use std::sync::Arc;

const DAY_MS: u64 = 86_400_000;

async fn left(world: &World, channel_id: ChannelId) -> Vec<MessageId> {
    let messages = world.store.messages(channel_id, Page::Newest, 10_000).await.unwrap();
    messages.iter().map(|record| record.message.id).rev().collect()
}

async fn say(world: &World, guild_id: GuildId, channel_id: ChannelId) -> MessageId {
    world.say(guild_id, channel_id, "something").await.unwrap()
}

#[tokio::test]
async fn messages_go_when_their_days_are_over() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let old = say(&world, guild_id, channel_id).await;
    world.advance(10 * DAY_MS).await;
    let new = say(&world, guild_id, channel_id).await;
    world.advance(DAY_MS).await;
    for keep_days in [0, 12, 11] {
        assert_eq!(bounded(world.node.expire_messages(keep_days)).await.unwrap(), 0, "{keep_days}");
        assert_eq!(left(&world, channel_id).await, [old, new]);
    }
    // Ids of one millisecond can borrow from the next ones.
    world.advance(1_000).await;
    assert_eq!(bounded(world.node.expire_messages(11)).await.unwrap(), 1);
    assert_eq!(left(&world, channel_id).await, [new]);
    assert_eq!(bounded(world.node.expire_messages(11)).await.unwrap(), 0);
    let counts = world.node.retention_counts();
    assert_eq!((counts.messages, counts.channels, counts.passes, counts.failures), (1, 1, 5, 0));
    assert_eq!(counts.progress, 1, "channels that the last pass looked at");
}

#[tokio::test]
async fn guilds_and_channels_can_differ() {
    let world = World::new();
    let (one, first) = world.guild_with_channel().await;
    let second = world.channel(one).await.unwrap().id;
    let (other, third) = world.guild_with_channel().await;
    for (guild_id, channel_id) in [(one, first), (one, second), (other, third)] {
        say(&world, guild_id, channel_id).await;
    }
    world.advance(5 * DAY_MS).await;
    world.store.set_keep_days(one.get(), Some(3)).await.unwrap();
    world.store.set_keep_days(second.get(), Some(0)).await.unwrap();
    assert_eq!(bounded(world.node.expire_messages(30)).await.unwrap(), 1);
    assert!(left(&world, first).await.is_empty(), "the guild's three days");
    assert_eq!(left(&world, second).await.len(), 1, "for ever");
    assert_eq!(left(&world, third).await.len(), 1, "the node's thirty days");
    world.store.set_keep_days(second.get(), None).await.unwrap();
    assert_eq!(bounded(world.node.expire_messages(4)).await.unwrap(), 2);
}

#[tokio::test]
async fn n1_an_expired_message_is_unknown() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let old = say(&world, guild_id, channel_id).await;
    world.command(guild_id, Command::Pin(channel_id, old)).await.unwrap();
    world.advance(10 * DAY_MS).await;
    let new = say(&world, guild_id, channel_id).await;
    assert_eq!(bounded(world.node.expire_messages(5)).await.unwrap(), 1);
    let emoji = ReactionEmoji { id: None, name: "🦀".to_owned() };
    let react = |id| Command::AddReaction(channel_id, id, emoji.clone());
    let react = async |id| bounded(world.node.command(guild_id, Actor::User(OWNER), react(id))).await;
    assert!(matches!(react(old).await, Err(Refusal::UnknownMessage)));
    assert!(react(new).await.is_ok());
    let Ok(Reply::Pins(pins)) = world.command(guild_id, Command::ListPins(channel_id)).await else { panic!() };
    assert!(pins.is_empty());
    // The same after a restart.
    let world = world.restarted().await;
    let react = Command::AddReaction(channel_id, old, emoji);
    let react = bounded(world.node.command(guild_id, Actor::User(OWNER), react)).await;
    assert!(matches!(react, Err(Refusal::UnknownMessage)));
    assert!(world.say(guild_id, channel_id, "and on").await.unwrap() > new);
    assert_eq!(left(&world, channel_id).await.len(), 2);
}

#[tokio::test]
async fn many_messages_go_in_slices() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let author = crate::support::user(OWNER);
    let first: MessageId = smallest_id_at(world.clock.now().unix);
    let messages = (0..1_700).map(|n| {
        let id = MessageId::new(first.get() + 1_000_000 + n);
        Write::PutMessage(Arc::new(Message::new(id, channel_id, guild_id, author.clone())))
    });
    world.store.commit(messages.collect()).await.unwrap();
    world.advance(2 * DAY_MS).await;
    let new = say(&world, guild_id, channel_id).await;
    assert_eq!(bounded(world.node.expire_messages(1)).await.unwrap(), 1_700);
    assert_eq!(left(&world, channel_id).await, [new]);
}
