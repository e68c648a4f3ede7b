//! Stores: what outlives the process.
//!
//! Owns        the `Store` trait and its drivers, `SqliteStore`, `PostgresStore` and `MemoryStore`; one contract suite
//!             for all of them (`tests/it/contract`).
//! Invariants  a batch is committed whole or not at all; `commit` returns only when it would survive `kill -9`;
//!             every later call sees writes that an earlier one acknowledged.
//! Limits      see each method: every read is bounded by an argument or by one guild.
//! Not here    permissions, caches, ids: `guildhall-guild`.
#![forbid(unsafe_code)]

mod accounts;
mod content;
mod error;
mod events;
mod external;
mod memory;
mod migrations;
mod picture;
mod postgres;
mod read_state;
mod retention;
mod search;
mod sign_in;
mod sql;
mod sqlite;
mod stored;
mod token;

pub use content::{ContentOf, Place};
pub use error::StoreError;
pub use events::{EVENTS_SCANNED_MAX, EventBounds, EventFilter, StoredEvent};
pub use external::{EXTERNAL_IDS_MAX, ExternalId, ExternalKind, is_external_id};
pub use memory::MemoryStore;
pub use picture::{
    PICTURE_OWNERS_ASKED_MAX, PictureNames, PictureOwner, emoji_picture, event_picture, role_picture, sticker_picture,
};
pub use postgres::{Copied, PostgresOptions, PostgresStore, Sharing, copy_sqlite_to_postgres, inspect_postgres};
pub use read_state::{
    DIRECTS_ASKED_MAX, DirectSpan, MENTIONS_MAX, MENTIONS_PER_CHANNEL_MAX, READ_CHANGES_MAX, ReadChange,
    ReadStateChange, ReadUpTo,
};
pub use retention::{Expired, MessageAge};
pub use search::{
    AuthorType, Has, INDEXED_AT_ONCE_MAX, MessageSearch, SEARCH_HITS_MAX, SEARCH_WORDS_MAX, SearchIndex, SearchOrder,
    SearchPage, search_words_count,
};
pub use sign_in::{SIGN_INS_MAX, SignIn};
pub use sqlite::{
    DATABASE_FILE, DataDir, Inspection, LOCK_FILE, RESTORING_FILE, SqliteOptions, SqliteStore, Synchronous,
    WriterCounts, backup_database, inspect,
};
pub use token::{TokenHash, TokenRecord};

use async_trait::async_trait;
use guildhall_guild::{GuildRecord, MessageRecord, Write};
use guildhall_model::{
    ChannelId, Direct, GuildId, Id, MessageId, ReactionEmoji, ReadState, ResourceKind, UnreadMention, User, UserId,
};
use guildhall_stdx::Timestamp;
use std::{collections::BTreeSet, sync::Arc};

/// Maximum number of attachments per call of `Store::attachments_in_use`.
pub const ATTACHMENTS_ASKED_MAX: usize = 256;

/// How many accounts `Store::user_versions` and `Store::change_users` take at once.
pub const USERS_CHANGED_MAX: usize = 1_000;

/// How many records `Store::swap_records` changes at once.
pub const RECORD_SWAPS_MAX: usize = 16;

/// A record to change if it is what the caller read. `before` and `after` are not both none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSwap {
    pub kind: &'static str,
    pub id: Vec<u8>,
    /// None: there is no record.
    pub before: Option<Vec<u8>>,
    /// None: it is removed.
    pub after: Option<Vec<u8>>,
}

/// A record: its id, and its contents.
pub type IdAndData = (Vec<u8>, Vec<u8>);

/// Number of a claim of a guild: the claim with the largest one is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuildEpoch(pub u64);

/// Number of an account's changes so far. It grows with each, so that a change which was made of an earlier state of
/// the account is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserVersion(pub u64);

/// An account to store, if it still is as the caller read it.
#[derive(Clone, Debug)]
pub struct UserChange {
    pub user: Arc<User>,
    /// The version that the caller read. None: there was no account.
    pub expected: Option<UserVersion>,
}

/// Which messages of a channel. Whatever the page, they are returned newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The newest messages.
    Newest,
    /// The newest of those older than this.
    Before(MessageId),
    /// The oldest of those newer than this.
    After(MessageId),
    /// ⌊limit / 2⌋ older ones; this one and newer ones for the rest. Neither side is topped up from the other.
    Around(MessageId),
}

/// What outlives the process.
///
/// Each method fails with `Closed` after a shutdown, with `Database` when the database does (`Full` when it only has no
/// room to write), and with `Corrupt` when a row is not what was written.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Applies `writes` in order, all or none; returns once they are durable. Batches of concurrent callers may share
    /// one transaction. Dropping the future does not take a batch back that was already handed over.
    ///
    /// Deleting what does not exist does nothing, and so does reacting twice. A member's account is stored with the
    /// member if it is not stored yet; it never replaces a stored one, because a guild may have an old one in memory.
    /// The id of a channel belongs to one guild until the channel is deleted.
    ///
    /// # Errors
    /// `Taken` for a channel of another guild. `Dangling` for a role, channel or member of a guild that is not stored,
    /// a message in such a channel, or a reaction on such a message or by such an account. Only the faulty batch
    /// fails, not others of its transaction. After `Database` the batch may or may not have been applied; applying it
    /// again is harmless.
    async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError>;

    /// Claims a guild for one owner: raises its epoch. When this returns, batches with an earlier epoch are committed
    /// or will never be, so the new owner claims first and loads then. A store that only one process has always returns
    /// the same epoch, which is valid.
    ///
    /// # Errors
    /// `Fenced` when another node has claimed the whole database, `Unreachable` also when a commit of the earlier owner
    /// does not end within seconds. After `Unreachable` the epoch may have been raised: claim again.
    async fn claim_guild(&self, guild_id: GuildId) -> Result<GuildEpoch, StoreError>;

    /// Like `commit`, for writes of one guild by its owner: the same transaction checks the epoch. Writes without a
    /// guild may be among them.
    ///
    /// # Errors
    /// As `commit`; and `Fenced` when the guild was claimed since. Nothing of the batch was written then, and others of
    /// its transaction were.
    async fn commit_fenced(&self, fence: (GuildId, GuildEpoch), writes: Vec<Write>) -> Result<(), StoreError>;

    /// A guild with everything but its messages; none if there is no such guild. Loads all members: call it once per
    /// guild and owner.
    async fn load_guild(&self, guild_id: GuildId) -> Result<Option<GuildRecord>, StoreError>;
    /// Every guild's id, ascending, above `after`, at most `limit`. Direct messages are none.
    async fn guild_ids(&self, after: GuildId, limit: u32) -> Result<Vec<GuildId>, StoreError>;
    /// The guild a channel belongs to; of a direct message what holds it.
    async fn guild_of_channel(&self, channel_id: ChannelId) -> Result<Option<GuildId>, StoreError>;

    /// One message of a channel, with all its reactions.
    async fn message(&self, channel_id: ChannelId, message_id: MessageId) -> Result<Option<MessageRecord>, StoreError>;
    /// At most `limit` messages of a channel, newest first, each with all its reactions.
    async fn messages(&self, channel_id: ChannelId, page: Page, limit: u32) -> Result<Vec<MessageRecord>, StoreError>;
    /// Users who reacted with one emoji, ids ascending above `after`, at most `limit`.
    async fn reaction_users(
        &self,
        channel_id: ChannelId,
        message_id: MessageId,
        emoji: &ReactionEmoji,
        after: UserId,
        limit: u32,
    ) -> Result<Vec<User>, StoreError>;

    /// Reads one account.
    async fn user(&self, user_id: UserId) -> Result<Option<Arc<User>>, StoreError>;
    /// These accounts with their versions, in any order; those that are not stored are left out. At most
    /// `USERS_CHANGED_MAX`.
    async fn user_versions(&self, user_ids: &[UserId]) -> Result<Vec<(Arc<User>, UserVersion)>, StoreError>;
    /// Stores each account that still has the expected version, and raises it. Returns how many there are; the others
    /// stay as they are. The accounts are distinct, at most `USERS_CHANGED_MAX`.
    async fn change_users(&self, changes: &[UserChange]) -> Result<u64, StoreError>;
    /// Accounts, ascending by id, above `after`, at most `limit`.
    async fn users(&self, after: UserId, limit: u32) -> Result<Vec<Arc<User>>, StoreError>;
    /// Accounts with exactly this username, at most `limit`; bots too.
    async fn users_named(&self, username: &str, limit: u32) -> Result<Vec<Arc<User>>, StoreError>;
    /// The guilds an account is in, ascending, at most `limit`. Direct messages are none.
    async fn guilds_of_user(&self, user_id: UserId, limit: u32) -> Result<Vec<GuildId>, StoreError>;
    /// The direct messages and groups that an account is in and has not closed, at most `limit`: direct messages before
    /// groups, each by its newest message, or by its own id where there is none, newest first.
    async fn directs_of_user(&self, user_id: UserId, limit: u32) -> Result<Vec<Direct>, StoreError>;
    /// Whether two accounts are members of one guild. Direct messages are none. Costs a step per guild of the first.
    async fn have_common_guild(&self, users: [UserId; 2]) -> Result<bool, StoreError>;
    /// The id of the direct message between two accounts, in either order; none if it was never created.
    async fn direct_of_pair(&self, pair: [UserId; 2]) -> Result<Option<ChannelId>, StoreError>;
    /// Like `direct_of_pair`; inserts `id` if there was none. The creator of a direct message calls this
    /// first and uses the result.
    async fn direct_of_pair_or_insert(&self, pair: [UserId; 2], id: ChannelId) -> Result<ChannelId, StoreError>;
    /// The guild that keeps an invite or a webhook.
    async fn guild_of_resource(&self, kind: ResourceKind, id: u64) -> Result<Option<GuildId>, StoreError>;
    /// Guilds above `after` that banned an account, ascending, at most `limit`.
    async fn guilds_with_ban(&self, user_id: UserId, after: GuildId, limit: u32) -> Result<Vec<GuildId>, StoreError>;
    /// Messages of one author in a channel, from `from` on, ascending, at most `limit`. Costs a
    /// read of all messages of the channel from `from` on.
    async fn messages_by(
        &self,
        channel_id: ChannelId,
        author_id: UserId,
        from: MessageId,
        limit: u32,
    ) -> Result<Vec<MessageId>, StoreError>;

    /// Messages and reactions of an account among the first `scanned_max` messages above `after`, in direct messages
    /// too. Reads the messages of all authors: there is no index by author.
    async fn content_of(&self, user_id: UserId, after: Place, scanned_max: u32) -> Result<ContentOf, StoreError>;

    /// Attachments among `ids` that a message still has. At most `ATTACHMENTS_ASKED_MAX` ids.
    async fn attachments_in_use(&self, ids: &[Id<()>]) -> Result<BTreeSet<Id<()>>, StoreError>;

    /// Which objects have these external ids, in any order; those that no object has are left out. At most
    /// `EXTERNAL_IDS_MAX` are looked up at once.
    async fn with_external_ids(&self, kind: ExternalKind, texts: &[String]) -> Result<Vec<ExternalId>, StoreError>;
    /// The external ids of these objects, in any order; objects without one are left out. Limit as above.
    async fn external_ids(&self, kind: ExternalKind, ids: &[u64]) -> Result<Vec<ExternalId>, StoreError>;
    /// Gives each object its external id, or takes it away (None): all or none. The objects need not exist yet.
    /// Deleting a guild or a channel releases its external id.
    ///
    /// # Errors
    /// `Taken` when another object of the kind has one of them.
    async fn put_external_ids(&self, kind: ExternalKind, of: &[(u64, Option<String>)]) -> Result<(), StoreError>;

    /// Channels, threads and direct messages by id, above `after`, at most `limit`. Costs a few steps each.
    async fn message_ages(&self, after: ChannelId, limit: u32) -> Result<Vec<MessageAge>, StoreError>;
    /// Deletes a channel's oldest messages below `before`, or first their reactions: at most some `rows_max` rows in
    /// one transaction.
    async fn expire_messages(
        &self,
        channel_id: ChannelId,
        before: MessageId,
        rows_max: u32,
    ) -> Result<Expired, StoreError>;
    /// How many days the messages of a guild or channel are kept; none: as elsewhere.
    async fn keep_days(&self, id: u64) -> Result<Option<u32>, StoreError>;
    /// Sets that, or removes it. It is removed with the guild or channel.
    async fn set_keep_days(&self, id: u64, keep_days: Option<u32>) -> Result<(), StoreError>;

    /// Events of the feed above position `after` and up to `upto`, ascending, at most `limit`. `upto` is at most a
    /// `newest` that was read before, so that every event below it is visible.
    async fn events(
        &self,
        after: u64,
        upto: u64,
        filter: EventFilter,
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError>;
    /// Extent of the feed. Costs a few steps.
    async fn event_bounds(&self) -> Result<EventBounds, StoreError>;
    /// Removes the oldest events: those before a time, and those that are more than `rows_max`; at most `slice` at
    /// once. Returns how many.
    async fn prune_events(&self, before: Timestamp, rows_max: u64, slice: u32) -> Result<u64, StoreError>;
    /// Applies changes of read states in order, at most `READ_CHANGES_MAX`: all or none.
    async fn change_read_states(&self, changes: &[ReadStateChange]) -> Result<(), StoreError>;
    /// An account's read states by channel, at most `limit`.
    async fn read_states(&self, user_id: UserId, limit: u32) -> Result<Vec<ReadState>, StoreError>;
    /// Keeps an account's `keep` read states with the newest messages and forgets the others. Costs a step per state.
    async fn trim_read_states(&self, user_id: UserId, keep: u32) -> Result<(), StoreError>;
    /// Messages of others after the account's read state that mention it or a role of it, in any order. The guild's
    /// role `@everyone` and its other roles count from when the account joined. One message may be listed for several
    /// targets. At most `MENTIONS_PER_CHANNEL_MAX` of a target in a channel, the newest, and `MENTIONS_MAX`. Costs a
    /// few steps per target and channel, and one per mention.
    async fn unread_mentions(&self, user_id: UserId) -> Result<Vec<UnreadMention>, StoreError>;
    /// How many messages others than the account wrote in each of these spans. Counts among the first `each_max`
    /// messages of a span, in the first `DIRECTS_ASKED_MAX` spans.
    async fn unread_directs(
        &self,
        user_id: UserId,
        spans: &[DirectSpan],
        each_max: u32,
    ) -> Result<Vec<u32>, StoreError>;

    /// Adds new and changed messages to the index of searches, at most `limit` and `INDEXED_AT_ONCE_MAX`; without such
    /// those from before there was an index. Returns the state of the index afterwards.
    async fn index_messages(&self, limit: u32) -> Result<SearchIndex, StoreError>;
    /// Searches messages that are in the index. Costs a step per message that has the searched words, up to
    /// `SEARCH_HITS_MAX` results.
    ///
    /// # Errors
    /// `TooSlow` when it takes longer than two seconds.
    async fn search_messages(&self, search: &MessageSearch) -> Result<SearchPage, StoreError>;

    /// Names of the pictures that each of these owners refers to; none for an owner that does not exist. Looks at
    /// the first `PICTURE_OWNERS_ASKED_MAX` owners.
    async fn pictures_in_use(&self, owners: &[PictureOwner]) -> Result<Vec<PictureNames>, StoreError>;

    /// Stores a token's hash, or replaces its record.
    async fn put_token(&self, hash: TokenHash, record: TokenRecord) -> Result<(), StoreError>;
    /// The record of a token; `None` if it is unknown or revoked.
    async fn token(&self, hash: TokenHash) -> Result<Option<TokenRecord>, StoreError>;
    /// The records of these tokens, each with its account and the account's guilds, in any order; those that are
    /// unknown or revoked are left out. At most `SIGN_INS_MAX`.
    async fn sign_ins(&self, hashes: &[TokenHash]) -> Result<Vec<SignIn>, StoreError> {
        sign_in::one_by_one(self, hashes).await
    }
    /// Revokes a token; false if there was none.
    async fn revoke_token(&self, hash: TokenHash) -> Result<bool, StoreError>;

    /// An account's tokens by their hashes, ascending, at most `limit`.
    async fn tokens_of_user(&self, user_id: UserId, limit: u32) -> Result<Vec<(TokenHash, TokenRecord)>, StoreError>;

    /// Adds or replaces a record of the node itself. `kind` and `id` name it.
    async fn put_record(&self, kind: &'static str, id: &[u8], data: &[u8]) -> Result<(), StoreError>;
    /// Reads one record.
    async fn record(&self, kind: &'static str, id: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    /// Records of a kind with their ids, which ascend, above `after`, at most `limit`.
    async fn records(&self, kind: &'static str, after: &[u8], limit: u32) -> Result<Vec<IdAndData>, StoreError>;
    /// Removes a record; false if there was none.
    async fn delete_record(&self, kind: &'static str, id: &[u8]) -> Result<bool, StoreError>;
    /// Replaces a record that is `before` by `after`; none is no record. False if it is another one: it stays.
    async fn swap_record(
        &self,
        kind: &'static str,
        id: &[u8],
        before: Option<&[u8]>,
        after: Option<&[u8]>,
    ) -> Result<bool, StoreError>;

    /// `swap_record` of several records in one transaction, at most `RECORD_SWAPS_MAX`. False if one of them is another
    /// one: all stay. A swap of no record by no record is passed over. The records are distinct.
    async fn swap_records(&self, swaps: &[RecordSwap]) -> Result<bool, StoreError>;

    /// A small named value of the node itself (generated secrets, schema marks).
    async fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;
    /// Sets it if it has no value yet; returns the value it has afterwards.
    async fn setting_or_insert(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError>;
    /// The largest id of a stored account, guild, role, channel, message or attachment, 0 if there is none, so that new
    /// ids are above it after a restart with a wrong clock. Costs a lookup per guild and channel: call it once.
    async fn largest_id(&self) -> Result<u64, StoreError>;

    /// Whether another node has claimed the database: this one can write nothing more, and should end.
    fn is_fenced(&self) -> bool {
        false
    }
    /// Whether the task that writes has ended, by a panic or because the store was closed: nothing can be written any
    /// more, and the process should end.
    fn has_ended(&self) -> bool {
        false
    }
    /// Whether the database cannot be reached now. Found out within seconds.
    fn is_away(&self) -> bool {
        false
    }
    /// Commits what was handed over, then releases the database. Everything afterwards fails with `Closed`.
    async fn close(&self) {}
}
