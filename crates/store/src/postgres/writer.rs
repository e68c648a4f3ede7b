//! Writers: tasks that commit batches, each on a connection of the pool.
//!
//! Owns        the receiving end of the queue of batches. Each writer commits the queued batches in one transaction,
//!             while the others wait for the next batches.
//! Invariants  W1 a batch is answered after its COMMIT returned, never before. W2 a faulty batch fails alone.
//!             W3 every transaction states the epoch of this store, and none succeeds after another store claimed the
//!             database. W4 a batch of a guild states the guild's epoch, and fails alone when another node claimed it.
//!             Two batches that are in the queue at the same time may be committed in either order.
//! Limits      a transaction has at most `transaction_writes_max` operations (one batch may be larger) and batches of
//!             `GUILDS_MAX` guilds, because the server has room for some thousand locks at a time. A transaction that
//!             conflicts with another is repeated `CONFLICTS_MAX` times. While the server is away, a writer retries for
//!             `outage_ms`; then its batches fail with `Unreachable`, and the next batches are tried again.

use super::{
    PostgresOptions,
    claim::{Claim, SCOPE},
    encode::{Kind, Operation},
    fault::Fault,
};
use crate::StoreError;
use sqlx::{PgConnection, PgPool};
use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::{Mutex, Notify, mpsc, oneshot};

/// Guilds whose epochs one transaction checks.
const GUILDS_MAX: usize = 64;
/// Repetitions of a transaction that lost against another.
const CONFLICTS_MAX: u32 = 8;
/// Pauses between attempts while the server is away: doubled from the first to the last.
const AWAY_PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// Neighbouring rows of one table become one statement from this number on.
const BULK_MIN: usize = 32;
/// Rows of one such statement at most.
const BULK_MAX: usize = 4096;

/// Requests to the writers.
pub(super) enum Job {
    Commit(Batch),
    /// Commit what is queued, accept nothing more.
    Close,
}

/// Operations that are committed together.
pub(super) struct Batch {
    pub(super) operations: Vec<Operation>,
    /// The guild and its epoch.
    pub(super) fence: Option<(i64, i64)>,
    pub(super) reply: oneshot::Sender<Result<(), StoreError>>,
}

/// Counters of all writers.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) transactions: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) retries: AtomicU64,
}

pub(super) struct Writer {
    pub(super) jobs: Arc<Mutex<mpsc::Receiver<Job>>>,
    pub(super) pool: PgPool,
    pub(super) claim: Arc<Claim>,
    pub(super) options: Arc<PostgresOptions>,
    pub(super) counters: Arc<Counters>,
    /// Wakes the task that purges what a commit marked as deleted.
    pub(super) purge: Arc<Notify>,
}

impl Writer {
    pub(super) async fn run(self) {
        while let Some(group) = self.next_group().await {
            if !group.is_empty() {
                self.commit(group).await;
            }
            // Callers that were answered just now queue their next batch before a transaction begins.
            tokio::task::yield_now().await;
        }
    }

    /// Everything that is queued, up to the bound. None after `Close`, or when the store is gone.
    async fn next_group(&self) -> Option<Vec<Batch>> {
        let mut jobs = self.jobs.lock().await;
        let mut next = Some(jobs.recv().await?);
        let mut group = Vec::new();
        let mut operations_count = 0;
        let mut guilds = HashSet::new();
        while let Some(job) = next {
            match job {
                Job::Commit(batch) => {
                    operations_count += batch.operations.len();
                    guilds.extend(batch.fence);
                    group.push(batch);
                }
                Job::Close => jobs.close(),
            }
            let has_room = operations_count < self.options.transaction_writes_max && guilds.len() < GUILDS_MAX;
            next = if has_room { jobs.try_recv().ok() } else { None };
        }
        Some(group)
    }

    async fn commit(&self, mut group: Vec<Batch>) {
        let mut unknown = None;
        let together = loop {
            match self.persist(&group, &mut unknown).await {
                Err(Fault::GuildsFenced(stale)) if group.len() > 1 => {
                    self.counters.retries.fetch_add(1, Relaxed);
                    let is_stale = |batch: &mut Batch| batch.fence.is_some_and(|fence| stale.contains(&fence));
                    let fenced: Vec<Batch> = group.extract_if(.., is_stale).collect();
                    if fenced.is_empty() {
                        break Err(Fault::GuildsFenced(stale));
                    }
                    for batch in fenced {
                        self.answer(batch, Err(fenced_fault(&unknown)));
                    }
                    if group.is_empty() {
                        return;
                    }
                }
                Err(Fault::GuildsFenced(_)) => break Err(fenced_fault(&unknown)),
                together => break together,
            }
        };
        if let Err(Fault::Dangling(_) | Fault::Taken(_)) = together
            && group.len() > 1
        {
            self.counters.retries.fetch_add(1, Relaxed);
            for batch in group {
                let result = self.persist(std::slice::from_ref(&batch), &mut None).await;
                self.answer(batch, result);
            }
            return;
        }
        for batch in group {
            self.answer(batch, together.clone());
        }
    }

    fn answer(&self, batch: Batch, result: Result<(), Fault>) {
        if result.is_ok() {
            self.counters.batches.fetch_add(1, Relaxed);
            if batch.operations.iter().any(|of| matches!(of.kind, Kind::DeleteGuild | Kind::DeleteChannel)) {
                self.purge.notify_one();
            }
        }
        // A caller that stopped waiting needs no answer.
        let _ = batch.reply.send(result.map_err(StoreError::from));
    }

    /// Commits a group, and retries by the rules in the module's header. An attempt with an unknown outcome leaves its
    /// error in `unknown`.
    async fn persist(&self, group: &[Batch], unknown: &mut Option<Arc<sqlx::Error>>) -> Result<(), Fault> {
        let fences: Vec<(i64, i64)> = group.iter().filter_map(|batch| batch.fence).collect();
        let operations = group.iter().flat_map(|batch| &batch.operations);
        // Last, because their lock is held until the end.
        let (events, mut operations): (Vec<&Operation>, Vec<&Operation>) =
            operations.partition(|of| of.kind == Kind::PutEvent);
        operations.extend(events);
        let retry_until = Instant::now() + Duration::from_millis(self.options.outage_ms.into());
        let mut conflicts_count = 0;
        let mut pause = AWAY_PAUSES.0;
        loop {
            let fault = match self.transaction(&fences, &operations).await {
                Ok(()) => {
                    self.counters.transactions.fetch_add(1, Relaxed);
                    return Ok(());
                }
                Err(fault) => fault,
            };
            match fault {
                Fault::Conflict(_) if conflicts_count < CONFLICTS_MAX => {
                    conflicts_count += 1;
                    self.counters.retries.fetch_add(1, Relaxed);
                }
                Fault::Away(error) if Instant::now() < retry_until => {
                    if unknown.is_none() {
                        tracing::warn!(%error, "PostgreSQL cannot be reached; commits wait and retry");
                    }
                    *unknown = Some(error);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(AWAY_PAUSES.1);
                }
                Fault::Fenced => {
                    self.claim.set_lost();
                    return Err(Fault::Fenced);
                }
                // An attempt that seemed to fail may have been committed, and refused itself when it was repeated.
                Fault::Dangling(_) | Fault::Taken(_) if unknown.is_some() => {
                    return Err(unknown.clone().map_or(fault, Fault::Away));
                }
                Fault::Dangling(_) | Fault::Taken(_) | Fault::GuildsFenced(_) => return Err(fault),
                Fault::Away(ref error) | Fault::Conflict(ref error) | Fault::Database(ref error) => {
                    tracing::error!(%error, batches_count = group.len(), "a transaction failed");
                    return Err(fault);
                }
            }
        }
    }

    async fn transaction(&self, fences: &[(i64, i64)], operations: &[&Operation]) -> Result<(), Fault> {
        let parts = parts(operations);
        let mut connection = self.pool.acquire().await?;
        if let [Part::Each(operations)] = &parts[..] {
            return self.apply(&mut connection, fences, operations).await;
        }
        let mut transaction = sqlx::Connection::begin(&mut *connection).await?;
        self.claim.fence(&mut transaction).await?;
        if !fences.is_empty() {
            let query = sqlx::query("SELECT guildhall_fence_guilds_1($1, $2)");
            let (guilds, epochs): (Vec<i64>, Vec<i64>) = fences.iter().copied().unzip();
            query.bind(guilds).bind(epochs).execute(&mut *transaction).await?;
        }
        for part in &parts {
            match part {
                Part::Each(operations) => self.apply(&mut transaction, &[], operations).await?,
                Part::Bulk(kind, operations) => bulk(&mut transaction, *kind, operations).await?,
                Part::Events(operations) => put_events(&mut transaction, operations).await?,
            }
        }
        Ok(transaction.commit().await?)
    }

    /// One statement, which is a transaction of its own where none is open.
    async fn apply(
        &self,
        connection: &mut PgConnection,
        fences: &[(i64, i64)],
        operations: &[&Operation],
    ) -> Result<(), Fault> {
        let key = |n: usize| operations.iter().map(|of| of.keys[n]).collect::<Vec<Option<i64>>>();
        let kinds: Vec<i16> = operations.iter().map(|of| of.kind as i16).collect();
        let names: Vec<Option<&[u8]>> = operations.iter().map(|of| of.name.as_deref()).collect();
        let data: Vec<Option<&str>> = operations.iter().map(|of| of.data.as_deref()).collect();
        let query = if fences.is_empty() {
            let query = sqlx::query("SELECT guildhall_apply_1($1, $2, $3, $4, $5, $6, $7, $8, $9)");
            query.bind(SCOPE).bind(self.claim.epoch)
        } else {
            let (guilds, epochs): (Vec<i64>, Vec<i64>) = fences.iter().copied().unzip();
            let query = sqlx::query("SELECT guildhall_apply_2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)");
            query.bind(SCOPE).bind(self.claim.epoch).bind(guilds).bind(epochs)
        };
        let query = query.bind(kinds);
        let query = query.bind(key(0)).bind(key(1)).bind(key(2)).bind(key(3)).bind(names).bind(data);
        query.execute(connection).await?;
        Ok(())
    }
}

/// Answer to a batch of a guild that another node has claimed. An attempt before that may have been committed.
fn fenced_fault(unknown: &Option<Arc<sqlx::Error>>) -> Fault {
    unknown.clone().map_or(Fault::GuildsFenced(Vec::new()), Fault::Away)
}

/// Operations of a transaction that become one statement.
enum Part<'a> {
    /// Whatever they are, one after the other.
    Each(&'a [&'a Operation]),
    /// Rows of one table.
    Bulk(Kind, &'a [&'a Operation]),
    /// Events of the feed.
    Events(&'a [&'a Operation]),
}

/// Splits operations into statements: long runs of rows of one table, and the rest.
fn parts<'a>(operations: &'a [&'a Operation]) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    let mut each_from = 0;
    let mut at = 0;
    while at < operations.len() {
        let kind = operations[at].kind;
        let length = operations[at..].iter().take(BULK_MAX).take_while(|of| of.kind == kind).count();
        let part = match kind {
            Kind::PutEvent => Some(Part::Events(&operations[at..at + length])),
            _ if length >= BULK_MIN && bulk_sql(kind).is_some() => Some(Part::Bulk(kind, &operations[at..at + length])),
            _ => None,
        };
        if let Some(part) = part {
            if each_from < at {
                parts.push(Part::Each(&operations[each_from..at]));
            }
            parts.push(part);
            each_from = at + length;
        }
        at += length;
    }
    if each_from < operations.len() {
        parts.push(Part::Each(&operations[each_from..]));
    }
    parts
}

/// Appends events.
async fn put_events(connection: &mut PgConnection, operations: &[&Operation]) -> Result<(), Fault> {
    let key = |n: usize| operations.iter().map(|of| of.keys[n]).collect::<Vec<Option<i64>>>();
    let query = sqlx::query("SELECT guildhall_put_events_1($1, $2, $3, $4, $5)");
    let query = query.bind(key(0)).bind(key(1)).bind(key(2)).bind(key(3));
    query.bind(operations.iter().map(|of| of.data.as_deref()).collect::<Vec<_>>()).execute(connection).await?;
    Ok(())
}

/// Statement that puts many rows, and the number of its keys. The rows are distinct.
fn bulk_sql(kind: Kind) -> Option<(&'static str, usize)> {
    Some(match kind {
        Kind::PutMessage => (
            "INSERT INTO messages (channel_id, id, guild_id, author_id, data) \
             SELECT t.a, t.b, t.c, t.d, t.data FROM unnest($1::BIGINT[], $2::BIGINT[], $3::BIGINT[], $4::BIGINT[], \
             $5::TEXT[]) AS t (a, b, c, d, data) \
             WHERE EXISTS (SELECT 1 FROM channels WHERE channels.id = t.a AND channels.guild_id <> 0) \
             ON CONFLICT (channel_id, id) DO UPDATE SET author_id = excluded.author_id, data = excluded.data",
            4,
        ),
        Kind::PutUser => (
            "INSERT INTO users (id, data) SELECT t.a, t.data FROM unnest($1::BIGINT[], $2::TEXT[]) AS t (a, data) \
             ON CONFLICT (id) DO UPDATE SET data = excluded.data",
            1,
        ),
        Kind::PutMissingUser => (
            "INSERT INTO users (id, data) SELECT t.a, t.data FROM unnest($1::BIGINT[], $2::TEXT[]) AS t (a, data) \
             ON CONFLICT (id) DO NOTHING",
            1,
        ),
        Kind::PutMember => (
            "INSERT INTO members (guild_id, user_id, data) \
             SELECT t.a, t.b, t.data FROM unnest($1::BIGINT[], $2::BIGINT[], $3::TEXT[]) AS t (a, b, data) \
             WHERE NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE id = t.a) \
             ON CONFLICT (guild_id, user_id) DO UPDATE SET data = excluded.data",
            2,
        ),
        Kind::PutRole => (
            "INSERT INTO roles (guild_id, id, data) \
             SELECT t.a, t.b, t.data FROM unnest($1::BIGINT[], $2::BIGINT[], $3::TEXT[]) AS t (a, b, data) \
             WHERE NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE deleted_guilds.id = t.a) \
             ON CONFLICT (guild_id, id) DO UPDATE SET data = excluded.data",
            2,
        ),
        _ => return None,
    })
}

/// Puts rows of one table with one statement. Of rows with the same key the last counts; of accounts that are put only
/// if they are missing, the first.
async fn bulk(connection: &mut PgConnection, kind: Kind, operations: &[&Operation]) -> Result<(), Fault> {
    let Some((sql, keys_count)) = bulk_sql(kind) else { return Ok(()) };
    // Which keys make a row: the account, or two of them.
    let identity = |of: &Operation| (of.keys[0], of.keys[1].filter(|_| keys_count > 1));
    let mut seen = HashSet::with_capacity(operations.len());
    let mut rows: Vec<&Operation> = Vec::with_capacity(operations.len());
    if kind == Kind::PutMissingUser {
        rows.extend(operations.iter().filter(|of| seen.insert(identity(of))));
    } else {
        rows.extend(operations.iter().rev().filter(|of| seen.insert(identity(of))));
    }
    // In the order of keys, so that two transactions with the same rows do not wait for each other.
    rows.sort_unstable_by_key(|of| identity(of));
    let mut query = sqlx::query(sql);
    for n in 0..keys_count {
        query = query.bind(rows.iter().map(|of| of.keys[n]).collect::<Vec<Option<i64>>>());
    }
    let done = query.bind(rows.iter().map(|of| of.data.as_deref()).collect::<Vec<Option<&str>>>());
    let done = done.execute(connection).await?;
    match kind {
        Kind::PutMessage if done.rows_affected() < rows.len() as u64 => Err(Fault::Dangling("message")),
        Kind::PutMember if done.rows_affected() < rows.len() as u64 => Err(Fault::Dangling("member")),
        Kind::PutRole if done.rows_affected() < rows.len() as u64 => Err(Fault::Dangling("role")),
        _ => Ok(()),
    }
}
