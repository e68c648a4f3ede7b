//! Many tasks on several guilds at once: every acknowledged and every published change is stored, in one order.

use crate::support::{Listener, OWNER, World, bounded, config, user};
use guildhall_guild::{Actor, Command, Refusal, Reply};
use guildhall_guild_protocol::{Payload, RelayMessage};
use guildhall_model::{ChannelId, GuildId, MessageId, UserId};
use guildhall_node::{NodeConfig, NodeLimits};
use guildhall_stdx::Rng;
use guildhall_store::{MemoryStore, Page, SqliteOptions, SqliteStore, Store};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

const GUILDS_COUNT: usize = 4;
const TASKS_COUNT: u64 = 8;
const STEPS_COUNT: u64 = 60;

/// Replies to the tasks of one guild.
#[derive(Default)]
struct Acknowledged {
    sent: BTreeSet<MessageId>,
    deleted: BTreeSet<MessageId>,
    joined: BTreeSet<UserId>,
    refused_count: u64,
}

async fn task(world: Arc<World>, guild_id: GuildId, channel_id: ChannelId, seed: u64) -> Acknowledged {
    let mut rng = Rng::new(seed);
    let mut acknowledged = Acknowledged::default();
    for step in 0..STEPS_COUNT {
        let refused = match rng.below(10) {
            0..6 => match world.say(guild_id, channel_id, &format!("{seed}-{step}")).await {
                Ok(id) => {
                    acknowledged.sent.insert(id);
                    None
                }
                Err(refusal) => Some(refusal),
            },
            6 => {
                let id = UserId::new(1_000_000 + seed * 1000 + step);
                match world.command(guild_id, Command::AddMember(user(id))).await {
                    Ok(_) => {
                        acknowledged.joined.insert(id);
                        None
                    }
                    Err(refusal) => Some(refusal),
                }
            }
            7 => match acknowledged.sent.difference(&acknowledged.deleted).next().copied() {
                Some(id) => match world.command(guild_id, Command::DeleteMessage(channel_id, id)).await {
                    Ok(_) => {
                        acknowledged.deleted.insert(id);
                        None
                    }
                    // The deletion that was refused before may have taken place.
                    Err(Refusal::UnknownMessage) => {
                        acknowledged.deleted.insert(id);
                        None
                    }
                    Err(refusal) => {
                        // The outcome is unknown: the message counts as neither sent nor deleted.
                        acknowledged.sent.remove(&id);
                        Some(refusal)
                    }
                },
                None => None,
            },
            8 => {
                let typing = Command::StartTyping(channel_id);
                bounded(world.node.command(guild_id, Actor::User(OWNER), typing)).await.err()
            }
            _ => world.command(guild_id, Command::ReadGuild).await.err(),
        };
        match refused {
            None => {}
            Some(Refusal::Unavailable) => {
                acknowledged.refused_count += 1;
                world.advance(50).await;
            }
            Some(other) => panic!("{other:?}"),
        }
    }
    acknowledged
}

async fn messages(store: &dyn Store, channel_id: ChannelId) -> BTreeMap<MessageId, String> {
    let mut found = BTreeMap::new();
    let mut page = Page::Newest;
    loop {
        let records = store.messages(channel_id, page, 100).await.unwrap();
        let Some(last) = records.last() else { return found };
        page = Page::Before(last.message.id);
        found.extend(records.iter().map(|record| (record.message.id, record.message.content.clone())));
    }
}

/// Everything a relay heard until now: ids of messages, in order.
fn heard(listener: &mut Listener) -> Vec<MessageId> {
    let mut ids = Vec::new();
    while let Some(message) = listener.try_next() {
        if let RelayMessage::Published(published) = message
            && let Payload::Message(event) = &published.event.payload
        {
            ids.push(event.message.id);
        }
    }
    ids
}

async fn storm(store: Arc<dyn Store>, failing_share: f64) {
    let config = NodeConfig { guild_workers_count: 2, ..config() };
    let world = Arc::new(World::with(config, NodeLimits::default(), store.clone()));
    let mut guilds = Vec::new();
    for _ in 0..GUILDS_COUNT {
        let (guild_id, channel_id) = world.guild_with_channel().await;
        let mut listener = world.listen(guild_id, 0);
        listener.snapshot().await;
        guilds.push((guild_id, channel_id, listener));
    }
    let mut tasks = Vec::new();
    for (index, (guild_id, channel_id, _)) in guilds.iter().enumerate() {
        for n in 0..TASKS_COUNT {
            let seed = index as u64 * TASKS_COUNT + n;
            tasks.push((index, tokio::spawn(task(world.clone(), *guild_id, *channel_id, seed))));
        }
    }
    let saboteur = (failing_share > 0.0).then(|| {
        let world = world.clone();
        tokio::spawn(async move {
            let mut rng = Rng::new(1);
            let mut started = 0;
            loop {
                world.store.wait(|counts| counts.commits_begun > started).await;
                started = world.store.counts().commits_begun;
                if rng.chance(failing_share) {
                    world.store.set(|faults| match rng.chance(0.5) {
                        true => faults.failing_commits = 1,
                        false => faults.lying_commits = 1,
                    });
                }
                tokio::task::yield_now().await;
            }
        })
    });
    let mut acknowledged: Vec<Acknowledged> =
        std::iter::repeat_with(Acknowledged::default).take(GUILDS_COUNT).collect();
    for (index, task) in tasks {
        let one = bounded(task).await.unwrap();
        acknowledged[index].sent.extend(one.sent);
        acknowledged[index].deleted.extend(one.deleted);
        acknowledged[index].joined.extend(one.joined);
        acknowledged[index].refused_count += one.refused_count;
    }
    if let Some(saboteur) = saboteur {
        saboteur.abort();
    }
    world.store.set(|faults| {
        faults.failing_commits = 0;
        faults.lying_commits = 0;
    });
    let refused: u64 = acknowledged.iter().map(|acknowledged| acknowledged.refused_count).sum();
    assert_eq!(refused > 0, failing_share > 0.0, "{refused} commands were refused");
    world.advance(10_000).await;

    for ((guild_id, channel_id, listener), acknowledged) in guilds.iter_mut().zip(&acknowledged) {
        let in_memory = world.member_count(*guild_id).await.expect("it is well again");
        let record = store.load_guild(*guild_id).await.unwrap().unwrap();
        assert_eq!(in_memory, record.members.len() as u64);
        let members: BTreeSet<UserId> = record.members.iter().map(|member| member.user.id).collect();
        assert!(members.contains(&OWNER) && acknowledged.joined.is_subset(&members));
        for user_id in acknowledged.joined.iter().take(5) {
            assert_eq!(world.node.guilds_of_user(*user_id).await.unwrap(), [*guild_id]);
        }

        let stored = messages(&*store, *channel_id).await;
        for id in &acknowledged.sent {
            assert_ne!(stored.contains_key(id), acknowledged.deleted.contains(id), "message {id}");
        }
        let heard = heard(listener);
        assert!(heard.is_sorted_by(|a, b| a < b), "each once, in the order of their making");
        let heard: BTreeSet<MessageId> = heard.into_iter().collect();
        assert!(acknowledged.sent.is_subset(&heard), "every acknowledged message was published");
        if failing_share == 0.0 {
            assert_eq!(heard, acknowledged.sent);
            assert_eq!(in_memory, 1 + acknowledged.joined.len() as u64);
            assert_eq!(stored.len(), acknowledged.sent.len() - acknowledged.deleted.len());
        }
    }
    bounded(world.node.shut_down()).await;
    let commands = GUILDS_COUNT as u64 * TASKS_COUNT * STEPS_COUNT;
    assert!((world.store.counts().committed.len() as u64) < commands, "commits are shared");
}

/// A directory that goes away with the test.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("guildhall-node-{name}-{}", std::process::id()));
        Self(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // A left-over folder is in the system's directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_store() {
    storm(Arc::new(MemoryStore::new()), 0.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_store_with_failing_commits() {
    storm(Arc::new(MemoryStore::new()), 0.05).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_store() {
    let dir = TempDir::new("storm");
    let store = Arc::new(SqliteStore::open(&dir.0, SqliteOptions::default()).await.unwrap());
    storm(store.clone(), 0.0).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_store_with_failing_commits() {
    let dir = TempDir::new("failing-storm");
    let store = Arc::new(SqliteStore::open(&dir.0, SqliteOptions::default()).await.unwrap());
    storm(store.clone(), 0.05).await;
    store.close().await;
}

/// A node on a file: another one finds everything that the first had answered.
#[tokio::test]
async fn a_restart_finds_what_was_answered() {
    let dir = TempDir::new("restart");
    let store = Arc::new(SqliteStore::open(&dir.0, SqliteOptions::default()).await.unwrap());
    let world = World::with(config(), NodeLimits::default(), store.clone());
    let (guild_id, channel_id) = world.guild_with_channel().await;
    let id = world.say(guild_id, channel_id, "lasting").await.unwrap();
    let token = world.node.mint_bot_token(OWNER).await.unwrap();
    bounded(world.node.shut_down()).await;
    drop(world);
    store.close().await;
    drop(store);

    let store = Arc::new(SqliteStore::open(&dir.0, SqliteOptions::default()).await.unwrap());
    let world = World::with(config(), NodeLimits::default(), store.clone());
    assert_eq!(world.node.authenticate(&token).await.unwrap().user.id, OWNER);
    assert_eq!(world.node.guilds_of_user(OWNER).await.unwrap(), [guild_id]);
    assert_eq!(world.node.guild_of_channel(channel_id).await.unwrap(), Some(guild_id));
    let Ok(Reply::Guild(guild)) = world.command(guild_id, Command::ReadGuild).await else { panic!("it is there") };
    assert_eq!(guild.last_message_ids.get(&channel_id), Some(&id));
    bounded(world.node.shut_down()).await;
    store.close().await;
}
