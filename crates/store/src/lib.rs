//! Stores: what outlives the process.
//!
//! Owns        the `Store` trait and its drivers; one contract suite for all of them.
//! Invariants  a batch is committed whole or not at all; `commit` returns only when it would survive `kill -9`.
//! Limits      see each method: every read is bounded by an argument or by one guild.
#![forbid(unsafe_code)]

use async_trait::async_trait;
use guildhall_guild::{GuildRecord, MessageRecord, Write};
use guildhall_model::{ChannelId, GuildId, MessageId, User, UserId};
use guildhall_stdx::Timestamp;
use std::sync::Arc;

/// SHA-256 of a token. Tokens themselves are never stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash(pub [u8; 32]);

/// Which messages of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The newest.
    Newest,
    /// The newest of those older than this.
    Before(MessageId),
    /// The oldest of those newer than this.
    After(MessageId),
    /// Half before, this one, half after.
    Around(MessageId),
}

/// A stored token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// Whose.
    pub user_id: UserId,
    /// When it was minted.
    pub created_at: Timestamp,
}

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database said no.
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    /// The schema could not be brought up to date.
    #[error("the database's schema could not be migrated")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A row is not what was written.
    #[error("a stored {what} cannot be read")]
    Corrupt {
        /// Kind of row.
        what: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The store was shut down.
    #[error("the store is closed")]
    Closed,
}

/// What outlives the process.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Applies `writes` in order, all or none; returns once they are durable. Batches of concurrent callers may share one transaction.
    async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError>;

    /// A guild with everything but its messages; none if there is no such guild.
    async fn load_guild(&self, guild_id: GuildId) -> Result<Option<GuildRecord>, StoreError>;
    /// Every guild's id, ascending, above `after`, at most `limit`.
    async fn guild_ids(&self, after: GuildId, limit: u32) -> Result<Vec<GuildId>, StoreError>;
    /// The guild a channel belongs to.
    async fn guild_of_channel(&self, channel_id: ChannelId) -> Result<Option<GuildId>, StoreError>;

    /// One message of a channel.
    async fn message(&self, channel_id: ChannelId, message_id: MessageId) -> Result<Option<MessageRecord>, StoreError>;
    /// At most `limit` messages of a channel, newest first.
    async fn messages(&self, channel_id: ChannelId, page: Page, limit: u32) -> Result<Vec<MessageRecord>, StoreError>;
    /// Who reacted with one emoji, ids ascending above `after`, at most `limit`.
    async fn reaction_users(&self, channel_id: ChannelId, message_id: MessageId, emoji: &guildhall_model::ReactionEmoji, after: UserId, limit: u32) -> Result<Vec<User>, StoreError>;

    /// One account.
    async fn user(&self, user_id: UserId) -> Result<Option<Arc<User>>, StoreError>;
    /// The guilds an account is in, ascending, at most `limit`.
    async fn guilds_of_user(&self, user_id: UserId, limit: u32) -> Result<Vec<GuildId>, StoreError>;

    /// Stores a token's hash.
    async fn put_token(&self, hash: TokenHash, record: TokenRecord) -> Result<(), StoreError>;
    /// Whose token this is; none if unknown or revoked.
    async fn token(&self, hash: TokenHash) -> Result<Option<TokenRecord>, StoreError>;
    /// Revokes a token; false if there was none.
    async fn revoke_token(&self, hash: TokenHash) -> Result<bool, StoreError>;

    /// A small named value of the node itself (generated secrets, schema marks).
    async fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;
    /// Sets it if it has no value yet; returns the value it has afterwards.
    async fn setting_or_insert(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError>;
    /// The largest snowflake in use, so that new ids are above it after a restart with a wrong clock.
    async fn largest_id(&self) -> Result<u64, StoreError>;
}
