//! Shared by the tests: a node between a store with faults and recording relays.
//!
//! No test sleeps: each waits for a state, and fails after `PATIENCE`, with the line that waited.

mod faults;
mod relays;

pub use faults::FaultStore;
pub use relays::{Listener, PARTITIONS, Relays};

use guildhall_guild::{Actor, Command, NewChannel, NewGuild, NewMessage, Refusal, Reply};
use guildhall_guild_protocol::{MembersWanted, PartitionId, RelayId, SessionKey, SessionPresence, ToGuild};
use guildhall_model::{
    AccountKind, Channel, ChannelId, ChannelType, Guild, GuildId, MessageId, Platform, Status, User, UserId,
};
use guildhall_node::{Clock, DirectLimits, DirectsWho, Node, NodeConfig, NodeLimits};
use guildhall_stdx::Now;
use guildhall_store::{MemoryStore, Store};
use std::{
    future::Future,
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinHandle;

/// How long to wait for what must happen. Only a test that fails waits that long.
pub const PATIENCE: Duration = Duration::from_secs(30);
pub const SECRET: &[u8] = b"a secret of at least thirty-two bytes";
pub const OWNER: UserId = UserId::new(1001);
/// 2023-11-14T22:13:20Z.
const START_UNIX_MS: i64 = 1_700_000_000_000;

/// Waits for what must happen.
#[track_caller]
pub fn bounded<F: Future>(what: F) -> impl Future<Output = F::Output> {
    bounded_or(what, String::new)
}

/// The same; the panic shows what there was `instead`.
#[track_caller]
pub fn bounded_or<F: Future>(what: F, instead: impl FnOnce() -> String) -> impl Future<Output = F::Output> {
    let at = Location::caller();
    async move {
        match tokio::time::timeout(PATIENCE, what).await {
            Ok(output) => output,
            Err(_) => panic!("what {at} waits for did not happen in {PATIENCE:?}: {}", instead()),
        }
    }
}

/// A clock that a test moves.
#[derive(Default)]
pub struct FakeClock(AtomicU64);

impl Clock for FakeClock {
    fn now(&self) -> Now {
        let ms = self.0.load(Ordering::SeqCst);
        Now::new(ms, START_UNIX_MS + ms as i64)
    }
}

pub struct World {
    pub node: Node,
    pub store: Arc<FaultStore>,
    pub relays: Arc<Relays>,
    pub clock: Arc<FakeClock>,
}

pub fn config() -> NodeConfig {
    NodeConfig { guild_workers_count: 1, jwt_secret: SECRET.to_vec(), worker_mailbox_max: 10_000 }
}

/// The defaults, but every account may write to every other.
pub fn limits() -> NodeLimits {
    let directs = DirectLimits { who: DirectsWho::Anyone, ..DirectLimits::default() };
    NodeLimits { directs, ..NodeLimits::default() }
}

pub fn user(id: UserId) -> Arc<User> {
    Arc::new(User::new(id, &format!("user-{id}")))
}

impl World {
    pub fn new() -> Self {
        Self::with(config(), limits(), Arc::new(MemoryStore::new()))
    }

    pub fn with(config: NodeConfig, limits: NodeLimits, store: Arc<dyn Store>) -> Self {
        let store = Arc::new(FaultStore::new(store));
        let (relays, clock) = (Arc::new(Relays::default()), Arc::new(FakeClock::default()));
        let node = Node::start_with_limits(config, limits, store.clone(), clock.clone(), relays.clone());
        Self { node, store, relays, clock }
    }

    /// The same store, another node: as after a restart.
    pub async fn restarted(&self) -> Self {
        bounded(self.node.shut_down()).await;
        Self::with(config(), limits(), self.store.inner())
    }

    /// Moves the clock, and lets the workers see it.
    pub fn pass(&self, ms: u64) {
        self.clock.0.fetch_add(ms, Ordering::SeqCst);
        self.node.poke();
    }

    /// Moves the clock, and comes back when the workers have done what was due. A worker that is about to set a timer
    /// may set it by the new time: wait for a `barrier` first.
    pub async fn advance(&self, ms: u64) {
        self.pass(ms);
        self.barrier().await;
    }

    /// Comes back when every worker has handled what was there before: each handles inputs, then timers, so the
    /// second answer comes after the timers of the first.
    pub async fn barrier(&self) {
        for _ in 0..2 {
            for id in 1..=8 {
                let nobody = GuildId::new(id);
                let answer = bounded(self.node.command(nobody, Actor::System, Command::ReadGuild)).await;
                assert!(matches!(answer, Err(Refusal::UnknownGuild)), "{answer:?}");
            }
        }
    }

    /// Waits until full relays have refused `count` messages, and the worker has set its timer.
    pub async fn refused(&self, count: usize) {
        self.relays.wait_refused(count).await;
        self.barrier().await;
    }

    pub async fn guild(&self) -> GuildId {
        create_guild(&self.node).await
    }

    /// A guild with a text channel.
    pub async fn guild_with_channel(&self) -> (GuildId, ChannelId) {
        let guild_id = self.guild().await;
        (guild_id, self.channel(guild_id).await.expect("a channel can be made").id)
    }

    pub async fn command(&self, guild_id: GuildId, command: Command) -> Result<Reply, Refusal> {
        bounded(self.node.command(guild_id, Actor::System, command)).await
    }

    pub async fn channel(&self, guild_id: GuildId) -> Result<Arc<Channel>, Refusal> {
        let new = NewChannel {
            name: "general".to_owned(),
            kind: ChannelType::Text,
            topic: None,
            parent_id: None,
            position: None,
            overwrites: Vec::new(),
            user_limit: 0,
        };
        match self.command(guild_id, Command::CreateChannel(Box::new(new))).await? {
            Reply::Channel(channel) => Ok(channel),
            other => panic!("{other:?}"),
        }
    }

    pub async fn say(&self, guild_id: GuildId, channel_id: ChannelId, text: &str) -> Result<MessageId, Refusal> {
        bounded(self.start_saying(guild_id, channel_id, text)).await.expect("it does not panic")
    }

    /// Posts a message; the caller decides when to wait for the reply.
    pub fn start_saying(
        &self,
        guild_id: GuildId,
        channel_id: ChannelId,
        text: &str,
    ) -> JoinHandle<Result<MessageId, Refusal>> {
        let node = self.node.clone();
        let command = message(channel_id, text);
        tokio::spawn(async move {
            match node.command(guild_id, Actor::User(OWNER), command).await? {
                Reply::Message(reply) => Ok(reply.message.id),
                other => panic!("{other:?}"),
            }
        })
    }

    pub async fn member_count(&self, guild_id: GuildId) -> Result<u64, Refusal> {
        match self.command(guild_id, Command::ReadGuild).await? {
            Reply::Guild(guild) => Ok(guild.member_count),
            other => panic!("{other:?}"),
        }
    }

    pub fn send(&self, guild_id: GuildId, message: ToGuild) {
        self.node.try_send_to_guild(guild_id, message).expect("the mailbox has room");
    }

    /// A relay that subscribed.
    pub fn listen(&self, guild_id: GuildId, partition: u16) -> Listener {
        let listener = Listener::new(self.relays.clone(), guild_id, RelayId::first(PartitionId(partition)));
        self.send(guild_id, listener.subscribe());
        listener
    }
}

pub fn message(channel_id: ChannelId, text: &str) -> Command {
    Command::CreateMessage(channel_id, Box::new(NewMessage { content: text.to_owned(), ..NewMessage::default() }))
}

/// With id 0 for a new one.
/// A guild under a new id.
pub async fn create_guild(node: &Node) -> GuildId {
    let id: GuildId = bounded(node.next_id()).await.expect("an id");
    bounded(node.create_guild(new_guild(id.get(), OWNER))).await.expect("a guild can be made")
}

pub fn new_guild(id: u64, owner: UserId) -> NewGuild {
    NewGuild::new(Guild::new(GuildId::new(id), "a guild", owner), user(owner))
}

pub fn session(partition: u16, slot: u32) -> SessionKey {
    SessionKey { relay: RelayId::first(PartitionId(partition)), slot, generation: 1 }
}

pub fn attach(session: SessionKey, user_id: UserId) -> ToGuild {
    ToGuild::Attach {
        is_restored: false,
        previous: None,
        session,
        session_id: format!("session-{}", session.slot).into(),
        user_id,
        kind: AccountKind::Bot,
        presence: SessionPresence { status: Status::Online, activities: Arc::new([]), platform: Platform::Desktop },
        members: MembersWanted::OwnAndVoice,
    }
}
