//! Guilds of a node that ends, in the next one.

use crate::support::{OWNER, World, bounded};
use guildhall_guild::{Actor, Command, NewMessage, Reply};
use guildhall_model::{ChannelId, GuildId, MessageId, Nonce};
use guildhall_node::{GuildImports, GuildSink};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

/// Parts as they arrive, until there are `max`.
struct Parts {
    taken: Mutex<Vec<(GuildId, Vec<u8>)>>,
    max: usize,
}

impl GuildSink for Parts {
    fn take_part(&self, guild_id: GuildId, part: Vec<u8>) -> bool {
        let mut taken = self.taken.lock().unwrap();
        if taken.len() < self.max {
            taken.push((guild_id, part));
        }
        taken.len() < self.max
    }
}

/// Ends a node that takes parts, and returns them.
async fn export(world: &World, max: usize) -> Vec<(GuildId, Vec<u8>)> {
    let parts = Arc::new(Parts { taken: Mutex::default(), max });
    world.node.export_to(parts.clone());
    bounded(world.node.shut_down()).await;
    std::mem::take(&mut parts.taken.lock().unwrap())
}

/// Sends a message with a nonce that is only in memory the first time.
async fn say(world: &World, guild_id: GuildId, channel_id: ChannelId, enforce_nonce: bool) -> MessageId {
    let nonce = Some(Nonce::Number(7));
    let new = NewMessage { content: "once".to_owned(), nonce, enforce_nonce, ..NewMessage::default() };
    let command = Command::CreateMessage(channel_id, Box::new(new));
    match bounded(world.node.command(guild_id, Actor::User(OWNER), command)).await.expect("it is sent") {
        Reply::Message(reply) => reply.message.id,
        other => panic!("{other:?}"),
    }
}

/// The next node on the same store begins with these parts.
async fn import(world: &World, parts: &[(GuildId, Vec<u8>)]) -> (World, BTreeSet<GuildId>) {
    let next = world.restarted().await;
    let mut imports = GuildImports::default();
    parts.iter().for_each(|(guild_id, part)| imports.add(*guild_id, part));
    let imported = bounded(next.node.import(imports)).await;
    next.node.end_restore(&imported);
    (next, imported)
}

#[tokio::test]
async fn o1_the_next_node_has_the_state_that_is_only_in_memory() {
    let mut world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let first = say(&world, guild_id, channel_id, false).await;
    for _ in 0..2 {
        let parts = export(&world, usize::MAX).await;
        assert!(parts.iter().all(|(of, _)| *of == guild_id) && parts.len() > 1);
        let (next, imported) = import(&world, &parts).await;
        assert_eq!(imported, BTreeSet::from([guild_id]));
        assert_eq!(say(&next, guild_id, channel_id, true).await, first);
        world = next;
    }
    // Its writes are durable.
    world.say(guild_id, channel_id, "later").await.expect("it is sent");
    let (world, imported) = import(&world, &[]).await;
    assert!(imported.is_empty());
    assert_eq!(world.member_count(guild_id).await, Ok(1));
}

#[tokio::test]
async fn o2_a_guild_that_is_incomplete_or_damaged_is_loaded_from_the_store() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let first = say(&world, guild_id, channel_id, false).await;
    let parts = export(&world, usize::MAX).await;
    let cut = |at: usize| {
        let mut parts = parts.clone();
        parts[at].1.pop();
        parts
    };
    let without = |at: usize| {
        let mut parts = parts.clone();
        parts.remove(at);
        parts
    };
    let mut twice = parts.clone();
    twice.extend(parts.last().cloned());
    let mut of_another = parts.clone();
    of_another.iter_mut().for_each(|(guild_id, _)| *guild_id = GuildId::new(99));
    let incomplete = (0..parts.len()).flat_map(|at| [cut(at), without(at)]);
    for damaged in incomplete.chain([twice, of_another, vec![(guild_id, Vec::new())]]) {
        let (next, imported) = import(&world, &damaged).await;
        assert!(imported.is_empty(), "{imported:?}");
        assert_eq!(next.member_count(guild_id).await, Ok(1));
        bounded(next.node.shut_down()).await;
    }
    let (next, _) = import(&world, &[]).await;
    assert_ne!(say(&next, guild_id, channel_id, true).await, first);
}

#[tokio::test]
async fn a_sink_that_takes_no_more_ends_only_the_export() {
    let world = World::new();
    let (guild_id, channel_id) = world.guild_with_channel().await;
    say(&world, guild_id, channel_id, false).await;
    let parts = export(&world, 1).await;
    assert_eq!(parts.len(), 1);
    let (next, imported) = import(&world, &parts).await;
    assert!(imported.is_empty());
    assert_eq!(next.member_count(guild_id).await, Ok(1));
}
