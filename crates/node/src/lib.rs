//! The node: guild workers, accounts, and the way to both.
//!
//! Owns        the threads that run guilds, lazy loading, the commit pipeline (nothing is answered or
//!             published before it is durable), tokens, and the directory of channels and accounts.
//! Not here    sockets and sessions (`guildhall-net`), HTTP (`guildhall-api`).
#![forbid(unsafe_code)]

use guildhall_guild::{Actor, Command, NewGuild, Refusal, Reply};
use guildhall_model::{ChannelId, GuildId, User, UserId};
use guildhall_relay::{PartitionId, ToGuild, ToRelay};
use guildhall_stdx::Now;
use guildhall_store::Store;
use std::sync::Arc;

/// Where guilds' messages to relays go. Implemented by whatever runs the partitions.
pub trait RelaySink: Send + Sync + 'static {
    /// Hands over a message without waiting.
    ///
    /// # Errors
    /// Gives the message back when the partition's mailbox is full.
    fn try_deliver(&self, partition: PartitionId, message: ToRelay) -> Result<(), ToRelay>;
}

/// The node's clock. The real one is in `guildhall-net`, a fake one in the test kit.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Now;
}

/// Limits and secrets of a node.
#[derive(Clone)]
pub struct NodeConfig {
    /// Threads that run guilds.
    pub guild_workers_count: usize,
    /// Key for user tokens (HS256), at least 32 bytes.
    pub jwt_secret: Vec<u8>,
    /// Most commands waiting per guild worker; past it callers get `Refusal::Unavailable`.
    pub worker_mailbox_max: usize,
}

/// A checked token.
#[derive(Clone, Debug)]
pub struct Account {
    /// Whose.
    pub user: Arc<User>,
}

/// Why a token is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Malformed, unknown, revoked, expired, or signed with another key.
    #[error("the token is not valid")]
    Invalid,
    /// It could not be checked now: try again.
    #[error("the token could not be checked")]
    Unavailable(#[source] guildhall_store::StoreError),
}

/// A running node. Cheap to clone.
#[derive(Clone)]
pub struct Node {
    store: Arc<dyn Store>,
}

impl Node {
    /// Starts the workers.
    pub fn start(config: NodeConfig, store: Arc<dyn Store>, clock: Arc<dyn Clock>, relays: Arc<dyn RelaySink>) -> Self {
        let _ = (config, clock, relays);
        Self { store }
    }

    /// Asks something of a guild, loading it first if need be. The answer comes once what it changed is durable.
    pub async fn command(&self, guild_id: GuildId, actor: Actor, command: Command) -> Result<Reply, Refusal> {
        let _ = (guild_id, actor, command);
        Err(Refusal::Unavailable)
    }

    /// Makes a guild.
    pub async fn create_guild(&self, new: NewGuild) -> Result<GuildId, Refusal> {
        let _ = new;
        Err(Refusal::Unavailable)
    }

    /// From a relay to a guild, without waiting; loads the guild first if need be.
    ///
    /// # Errors
    /// Gives the message back when the worker's mailbox is full.
    pub fn try_send_to_guild(&self, guild_id: GuildId, message: ToGuild) -> Result<(), ToGuild> {
        let _ = guild_id;
        Err(message)
    }

    /// Checks a bot or user token, with or without `Bot ` or `Bearer `.
    pub async fn authenticate(&self, token: &str) -> Result<Account, AuthError> {
        let _ = token;
        Err(AuthError::Invalid)
    }

    /// The guilds an account is in, ascending; at most 100,000.
    pub async fn guilds_of_user(&self, user_id: UserId) -> Result<Vec<GuildId>, guildhall_store::StoreError> {
        self.store.guilds_of_user(user_id, 100_000).await
    }

    /// The guild of a channel; cached.
    pub async fn guild_of_channel(&self, channel_id: ChannelId) -> Result<Option<GuildId>, guildhall_store::StoreError> {
        self.store.guild_of_channel(channel_id).await
    }

    /// Adds or replaces an account.
    pub async fn put_user(&self, user: Arc<User>) -> Result<(), guildhall_store::StoreError> {
        let _ = user;
        Ok(())
    }

    /// Mints a bot token (base64 of the id without padding, a dot, opaque parts); only its hash is stored.
    pub async fn mint_bot_token(&self, user_id: UserId) -> Result<String, guildhall_store::StoreError> {
        let _ = user_id;
        Ok(String::new())
    }

    /// Mints a user token: a JWT that is valid for `ttl_s` seconds.
    pub fn mint_user_token(&self, user_id: UserId, ttl_s: u64) -> String {
        let _ = (user_id, ttl_s);
        String::new()
    }

    /// What the node stores in: for reads that need no guild (history, after `Command::AuthorizeHistory`).
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Waits until everything accepted so far is durable and published, and stops the workers.
    pub async fn shut_down(&self) {}
}
