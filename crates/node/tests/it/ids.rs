//! Ids: above everything stored, each made once on the whole node, growing in every channel.

use crate::support::{OWNER, World, bounded, config, new_guild, user};
use guildhall_guild::{Command, NewRole, Refusal, Reply, Write};
use guildhall_model::{ChannelId, GuildId, MessageId, Permissions, RoleId};
use guildhall_node::{NodeConfig, NodeLimits};
use guildhall_store::{MemoryStore, Store};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

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
async fn ids_are_above_those_of_a_guild_written_by_another_process() {
    let world = World::new();
    let other = World::new();
    other.advance(86_400_000).await;
    let (guild_id, channel_id) = other.guild_with_channel().await;
    let newest = other.say(guild_id, channel_id, "from another clock").await.unwrap();
    bounded(other.node.shut_down()).await;
    // The node reads the largest id of the store before the guild is stored.
    let early = world.guild().await;
    let mut record = other.store.load_guild(guild_id).await.unwrap().unwrap();
    let message = other.store.message(channel_id, newest).await.unwrap().unwrap();
    let mut writes = vec![Write::PutUser(user(OWNER)), Write::PutGuild(Arc::new(record.guild))];
    writes.extend(record.roles.drain(..).map(|role| Write::PutRole(guild_id, Arc::new(role))));
    writes.extend(record.channels.drain(..).map(|channel| Write::PutChannel(Arc::new(channel))));
    writes.extend(record.members.drain(..).map(|member| Write::PutMember(guild_id, member)));
    writes.push(Write::PutMessage(message.message));
    world.store.commit(writes).await.unwrap();
    assert!(world.channel(early).await.unwrap().id.get() < newest.get());
    assert!(world.say(guild_id, channel_id, "from this one").await.unwrap() > newest);
}

const GUILDS_COUNT: usize = 12;
const CHANNELS_PER_GUILD: usize = 5;
const MESSAGES_PER_CHANNEL: usize = 60;

async fn role(world: &World, guild_id: GuildId) -> RoleId {
    let new = NewRole {
        id: None,
        name: "a role".to_owned(),
        color: 0,
        hoist: false,
        position: 1,
        permissions: Permissions::NONE,
        managed: false,
        mentionable: false,
        icon: None,
    };
    match world.command(guild_id, Command::CreateRole(Box::new(new))).await {
        Ok(Reply::Role(role)) => role.id,
        other => panic!("{other:?}"),
    }
}

/// Everything that was made, on several nodes one after the other.
#[derive(Default)]
struct Made {
    ids: BTreeSet<u64>,
    channels: BTreeMap<ChannelId, GuildId>,
    newest: BTreeMap<ChannelId, MessageId>,
}

impl Made {
    fn add(&mut self, id: u64) {
        assert!(self.ids.insert(id), "{id} was made twice");
    }

    fn add_message(&mut self, channel_id: ChannelId, id: MessageId) {
        self.add(id.get());
        let before = self.newest.insert(channel_id, id);
        assert!(before.is_none_or(|before| before < id), "{id} came after {before:?}");
    }

    /// All guilds at once get roles and channels, and then all channels at once messages.
    async fn fill(&mut self, world: &Arc<World>, guilds: &[GuildId]) {
        let built: Vec<_> = guilds
            .iter()
            .map(|&guild_id| {
                let world = world.clone();
                tokio::spawn(async move {
                    let mut built = Vec::new();
                    for _ in 0..CHANNELS_PER_GUILD {
                        built.push((role(&world, guild_id).await, world.channel(guild_id).await.unwrap().id));
                    }
                    (guild_id, built, world.node.next_id::<()>().await.unwrap())
                })
            })
            .collect();
        for built in built {
            let (guild_id, built, own) = bounded(built).await.unwrap();
            self.add(own.get());
            for (role_id, channel_id) in built {
                self.add(role_id.get());
                self.add(channel_id.get());
                self.channels.insert(channel_id, guild_id);
            }
        }
        let sent: Vec<_> = self
            .channels
            .iter()
            .map(|(&channel_id, &guild_id)| {
                let world = world.clone();
                tokio::spawn(async move {
                    let mut sent = Vec::new();
                    for n in 0..MESSAGES_PER_CHANNEL {
                        sent.push(world.say(guild_id, channel_id, &n.to_string()).await.unwrap());
                    }
                    (channel_id, sent)
                })
            })
            .collect();
        for sent in sent {
            let (channel_id, sent) = bounded(sent).await.unwrap();
            sent.into_iter().for_each(|id| self.add_message(channel_id, id));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i3_no_id_is_made_twice_on_a_node() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut made = Made::default();
    let mut guilds = Vec::new();
    // One millisecond of the fake clock, for both nodes: guilds find themselves on another worker after the first.
    for guild_workers_count in [3, 2] {
        let config = NodeConfig { guild_workers_count, ..config() };
        let world = Arc::new(World::with(config, NodeLimits::default(), store.clone()));
        for _ in 0..GUILDS_COUNT {
            let guild_id = world.guild().await;
            made.add(guild_id.get());
            guilds.push(guild_id);
        }
        made.fill(&world, &guilds).await;
        bounded(world.node.shut_down()).await;
    }
    assert!(made.ids.len() > 3 * GUILDS_COUNT * CHANNELS_PER_GUILD * MESSAGES_PER_CHANNEL);
}

#[tokio::test]
async fn i3_a_reloaded_guild_repeats_no_id() {
    let world = World::new();
    let mut made = Made::default();
    let mut channels = Vec::new();
    for _ in 0..4 {
        let (guild_id, channel_id) = world.guild_with_channel().await;
        made.add(guild_id.get());
        made.add(channel_id.get());
        channels.push((guild_id, channel_id));
    }
    for round in 0..20 {
        for &(guild_id, channel_id) in &channels {
            made.add_message(channel_id, world.say(guild_id, channel_id, "hello").await.unwrap());
        }
        let (guild_id, channel_id) = channels[round % channels.len()];
        world.store.set(|faults| faults.failing_commits = 1);
        assert_eq!(world.say(guild_id, channel_id, "lost").await, Err(Refusal::Unavailable));
        assert_eq!(world.member_count(guild_id).await, Ok(1), "it is back");
        // Long enough for the failure to be forgotten, and the next to be repaired at once.
        world.advance(60_000).await;
    }
}
