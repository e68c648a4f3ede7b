//! PostgreSQL: the store of a node whose database is a server.
//!
//! Owns        a queue of batches with writers, one connection each; a pool of read connections; the lock on the
//!             database (`holder`); the task that purges deleted content.
//! Invariants  an acknowledged write was committed before, with `synchronous_commit` at least `local`. Every
//!             transaction states the epoch that `open` claimed, and PostgreSQL refuses it when another store has
//!             claimed the database since: two nodes cannot both write, however long one of them was paused. The nodes
//!             of a cluster share that epoch; batches of guilds state the guild's own in addition.
//! Limits      `PostgresOptions`.

mod claim;
mod copy;
mod encode;
mod fault;
mod holder;
mod inspect;
mod options;
mod purge;
mod read;
mod records;
mod search;
mod users;
mod writer;

pub use copy::{Copied, copy_sqlite_to_postgres};
pub(crate) use fault::{advice, of_server};
pub use inspect::inspect_postgres;
pub use options::{PostgresOptions, Sharing};

use crate::{
    ContentOf, DirectSpan, EventBounds, EventFilter, Expired, ExternalId, ExternalKind, GuildEpoch, IdAndData,
    MessageAge, MessageSearch, Page, PictureNames, PictureOwner, Place, READ_CHANGES_MAX, ReadStateChange, RecordSwap,
    SearchIndex, SearchPage, SignIn, Store, StoreError, StoredEvent, TokenHash, TokenRecord, USERS_CHANGED_MAX,
    UserChange, UserVersion, WriterCounts,
    accounts::Accounts,
    events::prune_to,
    migrations, sql,
    stored::{int, sorted},
};
use async_trait::async_trait;
use claim::Claim;
use fault::Fault;
use guildhall_guild::{GuildRecord, MessageRecord, Write};
use guildhall_model::{
    ChannelId, Direct, GuildId, Id, MessageId, ReactionEmoji, ReadState, ResourceKind, UnreadMention, User, UserId,
};
use guildhall_stdx::Timestamp;
use holder::Holder;
use sqlx::{
    PgConnection, PgPool, Postgres,
    migrate::MigrateError,
    postgres::{PgArguments, PgPoolOptions},
    query::Query,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    sync::{Mutex, Notify, mpsc, oneshot},
    task::JoinHandle,
};
use writer::{Batch, Counters, Job, Writer};

/// Encoding that a database must have: other ones cannot store every message.
const ENCODING: &str = "UTF8";
/// Reads that find no connection in this time fail.
const ACQUIRE_MAX: Duration = Duration::from_secs(5);
/// A commit is durable when it returns, whatever the default of the server is.
const DURABLE: &str = "\
    SELECT set_config('synchronous_commit', 'on', FALSE) WHERE current_setting('synchronous_commit') = 'off'";

/// A process that is paused in the middle of a transaction loses it after this time, so that a claim does not
/// wait for it.
const IDLE_MAX: (&str, &str) = ("idle_in_transaction_session_timeout", "2000");

/// A store in a PostgreSQL database. Works inside a tokio runtime, which must live until it is closed.
pub struct PostgresStore {
    jobs: mpsc::Sender<Job>,
    read_pool: PgPool,
    write_pool: PgPool,
    claim: Arc<Claim>,
    /// Batches of guilds state the guild's epoch. A node alone has that of the database for all of them.
    is_cluster: bool,
    accounts: Accounts,
    counters: Arc<Counters>,
    purge: Arc<Notify>,
    /// None once they were waited for.
    tasks: Mutex<Option<Tasks>>,
}

struct Tasks {
    writers: Vec<JoinHandle<()>>,
    purge: JoinHandle<()>,
    holder: Holder,
}

impl PostgresStore {
    /// Opens the database, brings its schema up to date, and claims it for this store, or for its cluster.
    ///
    /// # Errors
    /// `Server` when the server cannot be reached or refuses the account, `Encoding` when the database has another
    /// encoding than UTF-8, `DatabaseInUse`, `DatabaseOfCluster`, `DatabaseNotShared` or `OtherCluster` when others
    /// have it open, `SchemaTooNew` when a later version wrote it, `Migrate` when it cannot be brought up to date.
    pub async fn open(options: PostgresOptions) -> Result<Self, StoreError> {
        let server = options.server();
        let open = |error| StoreError::Server { server: server.clone(), source: Arc::new(error) };
        let mut connection = holder::connect(&options).await.map_err(open)?;
        inspect::check_encoding(&mut connection, &options).await?;
        holder::lock(&mut connection, &options).await?;
        migrate(&mut connection, open).await?;
        holder::check_cluster(&mut connection, &options).await?;
        let claim = Claim::take(&mut connection, &options.sharing).await?;
        let connect = options.connect.clone().options([IDLE_MAX]);
        let read_pool = pool_options(options.read_connections).connect_with(connect.clone()).await.map_err(open)?;
        let write_pool = pool_options(options.write_connections).test_before_acquire(false);
        // A writer retries by itself, and each has a connection of its own.
        let write_pool = write_pool.acquire_timeout(Duration::from_secs(2));
        let write_pool = write_pool.connect_with(connect).await.map_err(open)?;
        tracing::info!(server, epoch = claim.epoch, "the database is claimed");
        Ok(Self::start(options, connection, claim, read_pool, write_pool))
    }

    fn start(
        options: PostgresOptions,
        connection: PgConnection,
        claim: Claim,
        read_pool: PgPool,
        write_pool: PgPool,
    ) -> Self {
        let (jobs, queue) = mpsc::channel(options.queued_batches_max.max(1));
        let (queue, options, claim) = (Arc::new(Mutex::new(queue)), Arc::new(options), Arc::new(claim));
        let holder = Holder::start(connection, PostgresOptions::clone(&options), claim.clone());
        let (counters, purge) = (Arc::new(Counters::default()), Arc::new(Notify::new()));
        let is_cluster = options.sharing != Sharing::Alone;
        let writer = |_| {
            let writer = Writer {
                jobs: queue.clone(),
                pool: write_pool.clone(),
                claim: claim.clone(),
                options: options.clone(),
                counters: counters.clone(),
                purge: purge.clone(),
            };
            tokio::spawn(writer.run())
        };
        let writers = (0..options.write_connections.max(1)).map(writer).collect();
        let purging = tokio::spawn(purge::run(read_pool.clone(), claim.clone(), purge.clone()));
        let tasks = Mutex::new(Some(Tasks { writers, purge: purging, holder }));
        let accounts = Accounts::default();
        Self { jobs, read_pool, write_pool, claim, is_cluster, accounts, counters, purge, tasks }
    }

    /// Commits what is queued, then closes the connections and releases the database. Everything afterwards fails with
    /// `Closed`.
    pub async fn close(&self) {
        let mut tasks = self.tasks.lock().await;
        let Some(Tasks { writers, purge, holder }) = tasks.take() else { return };
        // The writers may have ended only by a panic.
        let _ = self.jobs.send(Job::Close).await;
        for writer in writers {
            if let Err(error) = writer.await {
                tracing::error!(%error, "a writer failed");
            }
        }
        self.write_pool.close().await;
        self.purge.notify_one();
        self.read_pool.close().await;
        purge.abort();
        holder.close().await;
    }

    /// Counters of the writers so far.
    #[must_use]
    pub fn writer_counts(&self) -> WriterCounts {
        WriterCounts {
            transactions: self.counters.transactions.load(Relaxed),
            batches: self.counters.batches.load(Relaxed),
            retries: self.counters.retries.load(Relaxed),
        }
    }

    /// Whether another store has claimed the database: this one can write nothing more.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.claim.is_lost()
    }

    /// Commits a batch, which a writer shares with others.
    async fn enqueue(&self, fence: Option<(i64, i64)>, writes: &[Write]) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        let batch = Batch { operations: encode::encode(writes)?, fence, reply };
        self.jobs.send(Job::Commit(batch)).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Executes one statement in a transaction of its own that states the epoch. Returns how many rows it changed.
    async fn change(&self, query: Query<'_, Postgres, PgArguments>) -> Result<u64, StoreError> {
        self.change_all([query]).await
    }

    /// The same with several statements; the result is that of the last.
    async fn change_all<'q>(
        &self,
        queries: impl IntoIterator<Item = Query<'q, Postgres, PgArguments>, IntoIter: Send> + Send,
    ) -> Result<u64, StoreError> {
        let changed = async {
            let mut transaction = self.claim.begin(&self.read_pool).await?;
            let mut changed = 0;
            for query in queries {
                changed = query.execute(&mut *transaction).await?.rows_affected();
            }
            transaction.commit().await?;
            Ok::<_, Fault>(changed)
        };
        changed.await.map_err(StoreError::from)
    }
}

fn pool_options(connections_max: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections_max.max(1))
        .min_connections(1)
        .acquire_timeout(ACQUIRE_MAX)
        .after_connect(|connection, _| {
            Box::pin(async move { sqlx::query(DURABLE).execute(connection).await.map(drop) })
        })
}

async fn migrate(
    connection: &mut PgConnection,
    forbidden: impl Fn(sqlx::Error) -> StoreError,
) -> Result<(), StoreError> {
    let known = migrations::newest(&migrations::POSTGRES);
    migrations::POSTGRES.run_direct(None, connection, false).await.map_err(|error| match error {
        MigrateError::VersionMissing(found) if found > known => StoreError::SchemaTooNew { found, known },
        MigrateError::Execute(error) if fault::is_forbidden(&error) => forbidden(error),
        error => StoreError::Migrate(error),
    })
}

/// Statements of `Store::expire_messages`: reactions first, so that a slice has at most its number of rows.
const EXPIRE_REACTIONS: &str = "\
    DELETE FROM reactions WHERE ctid = ANY (ARRAY( \
    SELECT ctid FROM reactions WHERE channel_id = $1 AND message_id < $2 LIMIT $3 FOR UPDATE))";
const EXPIRE_MESSAGES: &str = "\
    DELETE FROM messages WHERE channel_id = $1 AND id < LEAST($2, \
    COALESCE((SELECT id FROM messages WHERE channel_id = $1 ORDER BY id LIMIT 1 OFFSET $3), $2))";
const SET_KEEP_DAYS: &str = "\
    INSERT INTO retention (id, keep_days) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET keep_days = excluded.keep_days";
const PUT_TOKEN: &str = "\
    INSERT INTO tokens (hash, user_id, created_at) VALUES ($1, $2, $3) \
    ON CONFLICT (hash) DO UPDATE SET user_id = excluded.user_id, created_at = excluded.created_at";
const PUT_RECORD: &str = "\
    INSERT INTO records (kind, id, data) VALUES ($1, $2, $3) ON CONFLICT (kind, id) DO UPDATE SET data = excluded.data";

const TRIM_READ_STATES: &str = "\
    DELETE FROM read_states WHERE user_id = $1 AND channel_id IN ( \
    SELECT channel_id FROM read_states WHERE user_id = $1 ORDER BY last_message_id DESC, channel_id OFFSET $2)";

/// Arguments of `guildhall_change_read_states_1`.
#[derive(Default)]
struct ReadStateRows {
    users: Vec<i64>,
    channels: Vec<i64>,
    resets: Vec<bool>,
    sets: Vec<bool>,
    /// Message, pin, flags, day.
    columns: [Vec<i64>; 4],
}

impl ReadStateRows {
    fn push(&mut self, of: &ReadStateChange) {
        self.users.push(int(of.user_id));
        self.channels.push(int(of.channel_id));
        self.resets.push(of.change.is_reset);
        self.sets.push(of.change.is_exact());
        self.columns.iter_mut().zip(of.change.columns()).for_each(|(column, value)| column.push(value));
    }

    fn query(self) -> Query<'static, Postgres, PgArguments> {
        let [messages, pins, flags, views] = self.columns;
        sqlx::query("SELECT guildhall_change_read_states_1($1, $2, $3, $4, $5, $6, $7, $8)")
            .bind(self.users)
            .bind(self.channels)
            .bind(self.resets)
            .bind(messages)
            .bind(self.sets)
            .bind(pins)
            .bind(flags)
            .bind(views)
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        if writes.is_empty() {
            return Ok(());
        }
        self.enqueue(None, &writes).await
    }

    async fn claim_guild(&self, guild_id: GuildId) -> Result<GuildEpoch, StoreError> {
        if !self.is_cluster {
            return Ok(GuildEpoch(0));
        }
        let query = sqlx::query_scalar("SELECT guildhall_claim_guild_1($1, $2, $3)");
        let query = query.bind(claim::SCOPE).bind(self.claim.epoch).bind(int(guild_id));
        let claimed: Result<i64, sqlx::Error> = query.fetch_one(&self.read_pool).await;
        let epoch = claimed.map_err(|error| {
            let fault = Fault::from(error);
            if matches!(fault, Fault::Fenced) {
                self.claim.set_lost();
            }
            StoreError::from(fault)
        })?;
        Ok(GuildEpoch(epoch as u64))
    }

    async fn commit_fenced(&self, fence: (GuildId, GuildEpoch), writes: Vec<Write>) -> Result<(), StoreError> {
        if !self.is_cluster {
            return self.commit(writes).await;
        }
        let (guild_id, GuildEpoch(epoch)) = fence;
        self.enqueue(Some((int(guild_id), epoch as i64)), &writes).await
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
        users::change(self, &changes[..changes.len().min(USERS_CHANGED_MAX)]).await
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
        let [low, high] = sorted(pair).map(int);
        let sql = "INSERT INTO direct_pairs (low, high, id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        self.change(sqlx::query(sql).bind(low).bind(high).bind(int(id))).await?;
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
        let ids: Vec<i64> = of.iter().map(|(id, _)| *id as i64).collect();
        let with_text = of.iter().filter_map(|(id, text)| Some((*id as i64, text.as_deref()?)));
        let (own, texts): (Vec<i64>, Vec<&str>) = with_text.unzip();
        // Old ones are deleted first, so that two objects can exchange theirs.
        let delete =
            sqlx::query("DELETE FROM external_ids WHERE kind = $1 AND id = ANY ($2)").bind(kind as i64).bind(ids);
        let insert =
            "INSERT INTO external_ids (kind, id, external_id) SELECT $1, * FROM unnest($2::BIGINT[], $3::TEXT[])";
        self.change_all([delete, sqlx::query(insert).bind(kind as i64).bind(own).bind(texts)]).await.map(drop)
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
        let expire = |sql| sqlx::query(sql).bind(int(channel_id)).bind(int(before)).bind(i64::from(rows_max));
        if self.change(expire(EXPIRE_REACTIONS)).await? > 0 {
            return Ok(Expired::default());
        }
        let messages = self.change(expire(EXPIRE_MESSAGES)).await?;
        Ok(Expired { messages, is_done: messages < u64::from(rows_max) })
    }

    async fn keep_days(&self, id: u64) -> Result<Option<u32>, StoreError> {
        sql::keep_days(&self.read_pool, id).await
    }

    async fn set_keep_days(&self, id: u64, keep_days: Option<u32>) -> Result<(), StoreError> {
        let id = id as i64;
        let query = match keep_days {
            Some(days) => sqlx::query(SET_KEEP_DAYS).bind(id).bind(i64::from(days)),
            None => sqlx::query("DELETE FROM retention WHERE id = $1").bind(id),
        };
        self.change(query).await.map(drop)
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
        let upto = match prune_to(bounds, &oldest, before, rows_max) {
            0 => return Ok(0),
            upto => upto as i64,
        };
        let mark = sqlx::query("UPDATE events_pruned SET seq = GREATEST(seq, $1)").bind(upto);
        let delete = sqlx::query("DELETE FROM events WHERE seq <= $1").bind(upto);
        self.change_all([mark, delete]).await
    }

    async fn change_read_states(&self, changes: &[ReadStateChange]) -> Result<(), StoreError> {
        let mut rows = ReadStateRows::default();
        changes.iter().take(READ_CHANGES_MAX).for_each(|change| rows.push(change));
        self.change(rows.query()).await.map(drop)
    }

    async fn read_states(&self, user_id: UserId, limit: u32) -> Result<Vec<ReadState>, StoreError> {
        sql::read_states(&self.read_pool, user_id, limit).await
    }

    async fn trim_read_states(&self, user_id: UserId, keep: u32) -> Result<(), StoreError> {
        self.change(sqlx::query(TRIM_READ_STATES).bind(int(user_id)).bind(i64::from(keep))).await.map(drop)
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
        let query = sqlx::query(PUT_TOKEN).bind(&hash.0[..]).bind(int(record.user_id)).bind(record.created_at.0);
        self.change(query).await.map(drop)
    }

    async fn token(&self, hash: TokenHash) -> Result<Option<TokenRecord>, StoreError> {
        sql::token(&self.read_pool, hash).await
    }

    async fn sign_ins(&self, hashes: &[TokenHash]) -> Result<Vec<SignIn>, StoreError> {
        read::sign_ins(&self.read_pool, &self.accounts, hashes).await
    }

    async fn revoke_token(&self, hash: TokenHash) -> Result<bool, StoreError> {
        Ok(self.change(sqlx::query("DELETE FROM tokens WHERE hash = $1").bind(&hash.0[..])).await? > 0)
    }

    async fn tokens_of_user(&self, user_id: UserId, limit: u32) -> Result<Vec<(TokenHash, TokenRecord)>, StoreError> {
        sql::tokens_of_user(&self.read_pool, user_id, limit).await
    }

    async fn put_record(&self, kind: &'static str, id: &[u8], data: &[u8]) -> Result<(), StoreError> {
        self.change(sqlx::query(PUT_RECORD).bind(kind).bind(id).bind(data)).await.map(drop)
    }

    async fn record(&self, kind: &'static str, id: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        sql::record(&self.read_pool, kind, id).await
    }

    async fn records(&self, kind: &'static str, after: &[u8], limit: u32) -> Result<Vec<IdAndData>, StoreError> {
        sql::records(&self.read_pool, kind, after, limit).await
    }

    async fn delete_record(&self, kind: &'static str, id: &[u8]) -> Result<bool, StoreError> {
        let query = sqlx::query("DELETE FROM records WHERE kind = $1 AND id = $2").bind(kind).bind(id);
        Ok(self.change(query).await? > 0)
    }

    async fn swap_record(
        &self,
        kind: &'static str,
        id: &[u8],
        before: Option<&[u8]>,
        after: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        match records::swap(kind, id, before, after) {
            Some(query) => Ok(self.change(query).await? > 0),
            None => Ok(self.record(kind, id).await?.is_none()),
        }
    }

    async fn swap_records(&self, swaps: &[RecordSwap]) -> Result<bool, StoreError> {
        records::swap_all(self, swaps).await
    }

    async fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        sql::setting(&self.read_pool, name).await
    }

    async fn setting_or_insert(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        if let Some(value) = self.setting(name).await? {
            return Ok(value);
        }
        let sql = "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        self.change(sqlx::query(sql).bind(name).bind(value)).await?;
        // Settings are never changed or removed, so there is one now.
        Ok(self.setting(name).await?.unwrap_or_else(|| value.to_vec()))
    }

    async fn largest_id(&self) -> Result<u64, StoreError> {
        read::largest_id(&mut *self.read_pool.acquire().await?).await
    }

    fn is_fenced(&self) -> bool {
        Self::is_fenced(self)
    }

    fn has_ended(&self) -> bool {
        self.jobs.is_closed()
    }

    fn is_away(&self) -> bool {
        self.claim.is_away()
    }

    async fn close(&self) {
        Self::close(self).await;
    }
}
