//! SQLite: the store of a single node.
//!
//! Owns        a data directory, a writer task with the only connection that writes, one that merges the write-ahead
//!             log, one that purges deleted content, a pool of read connections.
//! Invariants  an acknowledged write was committed to the write-ahead log before; with `Synchronous::Full` it was
//!             on disk. Reads never wait for writes.
//! Limits      `SqliteOptions`. The write-ahead log is truncated to `LOG_BYTES_KEPT` after a checkpoint; it grows
//!             beyond that only while a read goes on.
//! Spec        <https://sqlite.org/wal.html>, <https://sqlite.org/lang_transaction.html>

mod apply;
mod backup;
mod change;
mod check;
mod checkpoint;
mod data_dir;
mod inspect;
mod purge;
mod read;
mod search;
mod writer;

pub use backup::backup_database;
pub use data_dir::{DATABASE_FILE, DataDir, LOCK_FILE, RESTORING_FILE};
pub use inspect::{Inspection, inspect};
pub use writer::WriterCounts;

use crate::{
    ContentOf, DirectSpan, EventBounds, EventFilter, Expired, ExternalId, ExternalKind, GuildEpoch, IdAndData,
    MessageAge, MessageSearch, Page, PictureNames, PictureOwner, Place, READ_CHANGES_MAX, ReadStateChange, RecordSwap,
    SearchIndex, SearchPage, SignIn, Store, StoreError, StoredEvent, TokenHash, TokenRecord, USERS_CHANGED_MAX,
    UserChange, UserVersion, accounts::Accounts, events::prune_to, migrations, sql,
};
use apply::Statements;
use async_trait::async_trait;
use change::Change;
use check::Check;
use checkpoint::Checkpointer;
use guildhall_guild::{GuildRecord, MessageRecord, Write};
use guildhall_model::{
    ChannelId, Direct, GuildId, Id, MessageId, ReactionEmoji, ReadState, ResourceKind, UnreadMention, User, UserId,
};
use guildhall_stdx::Timestamp;
use sqlx::{
    ConnectOptions as _, SqliteConnection, SqlitePool,
    migrate::MigrateError,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Mutex, Notify, mpsc, oneshot},
    task::JoinHandle,
};
use writer::{Batch, Counters, Job, WriteEnd, Writer};

/// Pages of the write-ahead log after which it is checkpointed: 8 MiB. A checkpoint costs two more waits for the disk,
/// so it should be rare; a restart after a crash reads the log, so it should be short.
const LOG_PAGES: u32 = 2048;
/// Pages at which a commit itself runs a checkpoint, if none succeeded before: 64 MiB.
const LOG_PAGES_MAX: u32 = 16_384;
const LOG_BYTES_KEPT: u32 = 64 << 20;
/// Page cache of the write connection and of each read connection.
const WRITE_CACHE_KIB: u32 = 16 << 10;
const READ_CACHE_KIB: u32 = 8 << 10;
const PAGE_BYTES: u64 = 4096;
/// Rows on their way from a connection's thread to the task that reads.
const ROWS_BUFFERED: usize = 256;

/// When a commit is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// When the disk acknowledges it: survives a power cut.
    #[default]
    Full,
    /// When the operating system has it: survives `kill -9`, but a power cut may take the last commits
    /// (whole batches, newest first).
    Normal,
}

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// When a commit is durable. Default: `Full`.
    pub synchronous: Synchronous,
    /// Read connections, at least 1; each has a thread and up to 8 MiB of cache. More reads wait, and fail
    /// after half a minute. Default: 4.
    pub read_connections: u32,
    /// How long to wait for a lock that some other program (`sqlite3`, a backup) holds on the database, milliseconds.
    /// Default: 5000.
    pub busy_timeout_ms: u32,
    /// Batches that may wait for the writer, at least 1; then `commit` waits before it queues. Default: 1024.
    pub queued_batches_max: usize,
    /// Changes at which a transaction accepts no further batch. Default: 4096.
    pub transaction_writes_max: usize,
    /// Largest size of the database file without its log; writes that need more fail. None: no limit but the disk.
    pub database_bytes_max: Option<u64>,
    /// Whether `open` checks every page of the database, and for how long it waits for that, milliseconds; then the
    /// check continues while the store is in use. None: no check. Default: none.
    pub check_wait_ms: Option<u32>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            synchronous: Synchronous::Full,
            read_connections: 4,
            busy_timeout_ms: 5000,
            queued_batches_max: 1024,
            transaction_writes_max: 4096,
            database_bytes_max: None,
            check_wait_ms: None,
        }
    }
}

/// A store in an SQLite database. Works inside a tokio runtime, which must live until it is closed.
pub struct SqliteStore {
    jobs: mpsc::Sender<Job>,
    pub(crate) read_pool: SqlitePool,
    accounts: Accounts,
    counters: Arc<Counters>,
    /// Held while messages are indexed.
    indexing: Mutex<()>,
    /// None once it was waited for.
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Continues until it is done or the store is closed.
    check: std::sync::Mutex<Option<Check>>,
}

impl SqliteStore {
    /// Opens the database in `data_dir`, creating or migrating it if need be, for this process alone.
    ///
    /// # Errors
    /// `DataDir` when the directory cannot be created or written, `Readable` when other users can read it, `InUse` when
    /// another process (or another store of this one) has it, `Open` when the file is no database, `Damaged` when its
    /// pages are not what was written, `SchemaTooNew` when a later version wrote it, `Migrate` when it cannot be
    /// brought up to date.
    pub async fn open(data_dir: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, StoreError> {
        let data_dir = DataDir::open(data_dir.as_ref())?;
        let path = data_dir.database()?;
        let write = write_options(&options, &path);
        let open = |source: sqlx::Error| match check::is_damage(&source) {
            true => StoreError::Damaged { path: path.clone(), finding: source.to_string() },
            false => StoreError::Open { path: path.clone(), source: source.into() },
        };
        let mut connection = write.connect().await.map_err(open)?;
        let read = connect_options(&options).filename(&path).read_only(true);
        let check = match options.check_wait_ms {
            Some(wait) => check::run(read.clone(), path.clone(), Duration::from_millis(wait.into())).await?,
            None => None,
        };
        migrate(&mut connection).await?;
        let read = read.pragma("cache_size", format!("-{READ_CACHE_KIB}"));
        let read_pool = pool_options(options.read_connections.max(1)).connect_with(read);
        let read_pool = read_pool.await.map_err(open)?;
        let checkpointer = Checkpointer::start(write.clone(), LOG_PAGES);
        let write = WriteEnd::Own { options: Box::new(write), connection: Some(connection) };
        let store = Self::start(&options, write, read_pool, Some(checkpointer), Some(data_dir));
        *store.check.lock().unwrap_or_else(PoisonError::into_inner) = check;
        Ok(store)
    }

    /// An empty database that lives as long as the store, for tests. It has one connection for everything.
    ///
    /// # Errors
    /// As `open`, though nothing should go wrong.
    pub async fn open_in_memory() -> Result<Self, StoreError> {
        let options = SqliteOptions::default();
        let pool = pool_options(1).connect_with(connect_options(&options)).await?;
        migrate(&mut *pool.acquire().await?).await?;
        Ok(Self::start(&options, WriteEnd::Shared(pool.clone()), pool, None, None))
    }

    fn start(
        options: &SqliteOptions,
        write: WriteEnd,
        read_pool: SqlitePool,
        checkpointer: Option<Checkpointer>,
        data_dir: Option<DataDir>,
    ) -> Self {
        let (jobs, queue) = mpsc::channel(options.queued_batches_max.max(1));
        let counters = Arc::new(Counters::default());
        let purge = Arc::new(Notify::new());
        tokio::spawn(purge::run(jobs.downgrade(), read_pool.clone(), Arc::clone(&purge)));
        let writer = Writer {
            jobs: queue,
            transaction_writes_max: options.transaction_writes_max,
            write,
            checkpointer,
            purge,
            read_pool: read_pool.clone(),
            statements: Statements::new(),
            counters: Arc::clone(&counters),
            data_dir,
        };
        let writer = Mutex::new(Some(tokio::spawn(writer.run())));
        Self {
            jobs,
            read_pool,
            accounts: Accounts::default(),
            counters,
            indexing: Mutex::default(),
            writer,
            check: std::sync::Mutex::default(),
        }
    }

    /// Commits what is queued, then closes the database and lets go of the data directory. Everything afterwards fails
    /// with `Closed`. A store that is dropped does the same, without a signal of its end.
    pub async fn close(&self) {
        let mut writer = self.writer.lock().await;
        drop(self.check.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(task) = writer.take() {
            // It may have ended by itself only by a panic.
            let _ = self.jobs.send(Job::Close).await;
            if let Err(error) = task.await {
                tracing::error!(%error, "the writer failed");
            }
        }
    }

    /// Statistics of the writer so far.
    #[must_use]
    pub fn writer_counts(&self) -> WriterCounts {
        self.counters.read()
    }

    async fn write(&self, changes: Vec<Change>) -> Result<u64, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.jobs.send(Job::Commit(Batch { changes, reply })).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

fn connect_options(options: &SqliteOptions) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .page_size(PAGE_BYTES as u32)
        .busy_timeout(Duration::from_millis(u64::from(options.busy_timeout_ms).min(i32::MAX as u64)))
        .statement_cache_capacity(Statements::COUNT_MAX)
        .row_buffer_size(ROWS_BUFFERED)
        .thread_name(|n| format!("sqlite-{n}"))
        .disable_statement_logging()
}

fn write_options(options: &SqliteOptions, path: &Path) -> SqliteConnectOptions {
    let write = connect_options(options)
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(match options.synchronous {
            Synchronous::Full => SqliteSynchronous::Full,
            Synchronous::Normal => SqliteSynchronous::Normal,
        })
        // On macOS `fsync` does not reach the disk; F_FULLFSYNC does. Other systems ignore the pragma.
        .pragma("fullfsync", if options.synchronous == Synchronous::Full { "ON" } else { "OFF" })
        .pragma("cache_size", format!("-{WRITE_CACHE_KIB}"))
        .pragma("wal_autocheckpoint", LOG_PAGES_MAX.to_string())
        .pragma("journal_size_limit", LOG_BYTES_KEPT.to_string());
    match options.database_bytes_max {
        Some(bytes) => write.pragma("max_page_count", (bytes / PAGE_BYTES).max(1).to_string()),
        None => write,
    }
}

/// Connections that stay: opening one costs more than keeping it.
fn pool_options(connections_max: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(connections_max)
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
}

async fn migrate(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let known = migrations::newest(&migrations::SQLITE);
    migrations::SQLITE.run_direct(None, connection, false).await.map_err(|error| match error {
        MigrateError::VersionMissing(found) if found > known => StoreError::SchemaTooNew { found, known },
        error => StoreError::Migrate(error),
    })
}

#[async_trait]
impl Store for SqliteStore {
    async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        if writes.is_empty() {
            return Ok(());
        }
        self.write(change::encode(&writes)?).await.map(drop)
    }

    fn has_ended(&self) -> bool {
        self.jobs.is_closed()
    }

    /// Only one process has the file, so there are no competing claims.
    async fn claim_guild(&self, _: GuildId) -> Result<GuildEpoch, StoreError> {
        Ok(GuildEpoch(0))
    }

    async fn commit_fenced(&self, _: (GuildId, GuildEpoch), writes: Vec<Write>) -> Result<(), StoreError> {
        self.commit(writes).await
    }

    async fn load_guild(&self, guild_id: GuildId) -> Result<Option<GuildRecord>, StoreError> {
        read::load_guild(&self.read_pool, &self.accounts, guild_id).await
    }

    async fn guild_ids(&self, after: GuildId, limit: u32) -> Result<Vec<GuildId>, StoreError> {
        sql::guild_ids(&self.read_pool, after, limit).await
    }

    async fn guild_of_channel(&self, channel_id: ChannelId) -> Result<Option<GuildId>, StoreError> {
        sql::guild_of_channel(&self.read_pool, channel_id).await
    }

    async fn message(&self, channel_id: ChannelId, message_id: MessageId) -> Result<Option<MessageRecord>, StoreError> {
        read::message(&self.read_pool, channel_id, message_id).await
    }

    async fn messages(&self, channel_id: ChannelId, page: Page, limit: u32) -> Result<Vec<MessageRecord>, StoreError> {
        read::messages(&self.read_pool, channel_id, page, limit).await
    }

    async fn reaction_users(
        &self,
        channel_id: ChannelId,
        message_id: MessageId,
        emoji: &ReactionEmoji,
        after: UserId,
        limit: u32,
    ) -> Result<Vec<User>, StoreError> {
        read::reaction_users(&self.read_pool, channel_id, message_id, emoji, after, limit).await
    }

    async fn user(&self, user_id: UserId) -> Result<Option<Arc<User>>, StoreError> {
        sql::user(&self.read_pool, &self.accounts, user_id).await
    }

    async fn user_versions(&self, user_ids: &[UserId]) -> Result<Vec<(Arc<User>, UserVersion)>, StoreError> {
        read::user_versions(&self.read_pool, &self.accounts, user_ids).await
    }

    async fn change_users(&self, changes: &[UserChange]) -> Result<u64, StoreError> {
        let changes: Result<Vec<Change>, _> = changes.iter().take(USERS_CHANGED_MAX).map(change::change_user).collect();
        self.write(changes?).await
    }

    async fn users(&self, after: UserId, limit: u32) -> Result<Vec<Arc<User>>, StoreError> {
        sql::users(&self.read_pool, after, limit).await
    }

    async fn users_named(&self, username: &str, limit: u32) -> Result<Vec<Arc<User>>, StoreError> {
        read::users_named(&self.read_pool, username, limit).await
    }

    async fn guilds_of_user(&self, user_id: UserId, limit: u32) -> Result<Vec<GuildId>, StoreError> {
        sql::guilds_of_user(&self.read_pool, user_id, limit).await
    }

    async fn directs_of_user(&self, user_id: UserId, limit: u32) -> Result<Vec<Direct>, StoreError> {
        read::directs_of_user(&self.read_pool, &self.accounts, user_id, limit).await
    }

    async fn have_common_guild(&self, users: [UserId; 2]) -> Result<bool, StoreError> {
        read::have_common_guild(&self.read_pool, users).await
    }

    async fn direct_of_pair(&self, pair: [UserId; 2]) -> Result<Option<ChannelId>, StoreError> {
        sql::direct_of_pair(&self.read_pool, pair).await
    }

    async fn direct_of_pair_or_insert(&self, pair: [UserId; 2], id: ChannelId) -> Result<ChannelId, StoreError> {
        self.write(vec![change::insert_pair(pair, id)]).await?;
        // Pairs are never changed or removed, so there is one now.
        Ok(self.direct_of_pair(pair).await?.unwrap_or(id))
    }

    async fn guild_of_resource(&self, kind: ResourceKind, id: u64) -> Result<Option<GuildId>, StoreError> {
        sql::guild_of_resource(&self.read_pool, kind, id).await
    }

    async fn guilds_with_ban(&self, user_id: UserId, after: GuildId, limit: u32) -> Result<Vec<GuildId>, StoreError> {
        sql::guilds_with_ban(&self.read_pool, user_id, after, limit).await
    }

    async fn messages_by(
        &self,
        channel_id: ChannelId,
        author_id: UserId,
        from: MessageId,
        limit: u32,
    ) -> Result<Vec<MessageId>, StoreError> {
        sql::messages_by(&self.read_pool, channel_id, author_id, from, limit).await
    }

    async fn content_of(&self, user_id: UserId, after: Place, scanned_max: u32) -> Result<ContentOf, StoreError> {
        read::content_of(&self.read_pool, user_id, after, scanned_max).await
    }

    async fn attachments_in_use(&self, ids: &[Id<()>]) -> Result<BTreeSet<Id<()>>, StoreError> {
        read::attachments_in_use(&self.read_pool, ids).await
    }

    async fn with_external_ids(&self, kind: ExternalKind, texts: &[String]) -> Result<Vec<ExternalId>, StoreError> {
        read::with_external_ids(&self.read_pool, kind, texts).await
    }

    async fn external_ids(&self, kind: ExternalKind, ids: &[u64]) -> Result<Vec<ExternalId>, StoreError> {
        read::external_ids(&self.read_pool, kind, ids).await
    }

    async fn put_external_ids(&self, kind: ExternalKind, of: &[(u64, Option<String>)]) -> Result<(), StoreError> {
        self.write(change::put_external_ids(kind, of)?.into()).await.map(drop)
    }

    async fn message_ages(&self, after: ChannelId, limit: u32) -> Result<Vec<MessageAge>, StoreError> {
        read::message_ages(&self.read_pool, after, limit).await
    }

    async fn expire_messages(
        &self,
        channel_id: ChannelId,
        before: MessageId,
        rows_max: u32,
    ) -> Result<Expired, StoreError> {
        if self.write(vec![change::expire_reactions(channel_id, before, rows_max)]).await? > 0 {
            return Ok(Expired::default());
        }
        let messages = self.write(vec![change::expire_messages(channel_id, before, rows_max)]).await?;
        Ok(Expired { messages, is_done: messages < u64::from(rows_max) })
    }

    async fn keep_days(&self, id: u64) -> Result<Option<u32>, StoreError> {
        sql::keep_days(&self.read_pool, id).await
    }

    async fn set_keep_days(&self, id: u64, keep_days: Option<u32>) -> Result<(), StoreError> {
        self.write(vec![change::set_keep_days(id, keep_days)]).await.map(drop)
    }

    async fn events(
        &self,
        after: u64,
        upto: u64,
        filter: EventFilter,
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        sql::events(&self.read_pool, after, upto, filter, limit).await
    }

    async fn event_bounds(&self) -> Result<EventBounds, StoreError> {
        sql::event_bounds(&self.read_pool).await
    }

    async fn prune_events(&self, before: Timestamp, rows_max: u64, slice: u32) -> Result<u64, StoreError> {
        let bounds = self.event_bounds().await?;
        let oldest = sql::oldest_events(&self.read_pool, slice).await?;
        match prune_to(bounds, &oldest, before, rows_max) {
            0 => Ok(0),
            upto => Ok(self.write(change::prune_events(upto).into()).await?.saturating_sub(1)),
        }
    }

    async fn change_read_states(&self, changes: &[ReadStateChange]) -> Result<(), StoreError> {
        let changes = changes.iter().take(READ_CHANGES_MAX).flat_map(change::change_read_state).collect();
        self.write(changes).await.map(drop)
    }

    async fn read_states(&self, user_id: UserId, limit: u32) -> Result<Vec<ReadState>, StoreError> {
        sql::read_states(&self.read_pool, user_id, limit).await
    }

    async fn trim_read_states(&self, user_id: UserId, keep: u32) -> Result<(), StoreError> {
        self.write(vec![change::trim_read_states(user_id, keep)]).await.map(drop)
    }

    async fn unread_mentions(&self, user_id: UserId) -> Result<Vec<UnreadMention>, StoreError> {
        read::unread_mentions(&self.read_pool, user_id).await
    }

    async fn unread_directs(
        &self,
        user_id: UserId,
        spans: &[DirectSpan],
        each_max: u32,
    ) -> Result<Vec<u32>, StoreError> {
        read::unread_directs(&self.read_pool, user_id, spans, each_max).await
    }

    async fn index_messages(&self, limit: u32) -> Result<SearchIndex, StoreError> {
        search::index(self, limit).await
    }

    async fn search_messages(&self, search: &MessageSearch) -> Result<SearchPage, StoreError> {
        search::search(&self.read_pool, search).await
    }

    async fn pictures_in_use(&self, owners: &[PictureOwner]) -> Result<Vec<PictureNames>, StoreError> {
        read::pictures_in_use(&self.read_pool, owners).await
    }

    async fn put_token(&self, hash: TokenHash, record: TokenRecord) -> Result<(), StoreError> {
        self.write(vec![change::put_token(hash, &record)]).await.map(drop)
    }

    async fn token(&self, hash: TokenHash) -> Result<Option<TokenRecord>, StoreError> {
        sql::token(&self.read_pool, hash).await
    }

    async fn sign_ins(&self, hashes: &[TokenHash]) -> Result<Vec<SignIn>, StoreError> {
        read::sign_ins(&self.read_pool, &self.accounts, hashes).await
    }

    async fn revoke_token(&self, hash: TokenHash) -> Result<bool, StoreError> {
        Ok(self.write(vec![change::revoke_token(hash)]).await? > 0)
    }

    async fn tokens_of_user(&self, user_id: UserId, limit: u32) -> Result<Vec<(TokenHash, TokenRecord)>, StoreError> {
        sql::tokens_of_user(&self.read_pool, user_id, limit).await
    }

    async fn put_record(&self, kind: &'static str, id: &[u8], data: &[u8]) -> Result<(), StoreError> {
        self.write(vec![change::put_record(kind, id, data)]).await.map(drop)
    }

    async fn record(&self, kind: &'static str, id: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        sql::record(&self.read_pool, kind, id).await
    }

    async fn records(&self, kind: &'static str, after: &[u8], limit: u32) -> Result<Vec<IdAndData>, StoreError> {
        sql::records(&self.read_pool, kind, after, limit).await
    }

    async fn delete_record(&self, kind: &'static str, id: &[u8]) -> Result<bool, StoreError> {
        Ok(self.write(vec![change::delete_record(kind, id)]).await? > 0)
    }

    async fn swap_record(
        &self,
        kind: &'static str,
        id: &[u8],
        before: Option<&[u8]>,
        after: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        match change::swap_record(kind, id, before, after) {
            Some(change) => Ok(self.write(vec![change]).await? > 0),
            None => Ok(self.record(kind, id).await?.is_none()),
        }
    }

    async fn swap_records(&self, swaps: &[RecordSwap]) -> Result<bool, StoreError> {
        match self.write(change::swap_records(swaps)).await {
            Ok(_) => Ok(true),
            Err(StoreError::Taken { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        sql::setting(&self.read_pool, name).await
    }

    async fn setting_or_insert(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        if let Some(value) = self.setting(name).await? {
            return Ok(value);
        }
        self.write(vec![change::insert_setting(name, value)]).await?;
        // Settings are never changed or removed, so there is one now.
        Ok(self.setting(name).await?.unwrap_or_else(|| value.to_vec()))
    }

    async fn largest_id(&self) -> Result<u64, StoreError> {
        read::largest_id(&self.read_pool).await
    }

    async fn close(&self) {
        Self::close(self).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What durability rests on is really set on the write connection.
    #[tokio::test]
    async fn pragmas() {
        let dir = std::env::temp_dir().join(format!("guildhall-pragmas-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (synchronous, code) in [(Synchronous::Full, 2), (Synchronous::Normal, 1)] {
            let options = SqliteOptions { synchronous, database_bytes_max: Some(1 << 20), ..Default::default() };
            let mut connection = write_options(&options, &dir.join("guildhall.db")).connect().await.unwrap();
            let mut number =
                async |sql: &'static str| sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut connection).await.unwrap();
            assert_eq!(number("PRAGMA synchronous").await, code);
            assert_eq!(number("PRAGMA foreign_keys").await, 1);
            assert_eq!(number("PRAGMA max_page_count").await, 256);
            assert_eq!(number("PRAGMA busy_timeout").await, 5000);
            let mode = sqlx::query_scalar::<_, String>("PRAGMA journal_mode").fetch_one(&mut connection);
            assert_eq!(mode.await.unwrap(), "wal");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
