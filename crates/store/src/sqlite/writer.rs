//! Writer: the one task that changes the database.
//!
//! Owns        the only write connection and the receiving end of the queue of batches; ends on request, or when all
//!             senders are gone, after everything queued is committed.
//! Invariants  W1 a batch is answered after the COMMIT it was part of returned, never before. W2 batches take effect
//!             in the order in which they were queued. W3 a faulty batch fails alone.
//! Limits      a transaction takes what is queued when it begins, up to `transaction_writes_max` changes (one batch
//!             may be larger); the queue holds `queued_batches_max` batches, beyond that callers wait.

use super::{
    apply::{Fault, Statements},
    change::Change,
    checkpoint::Checkpointer,
    data_dir::DataDir,
};
use crate::StoreError;
use sqlx::{
    ConnectOptions as _, Connection as _, Sqlite, SqliteConnection, SqlitePool, pool::PoolConnection,
    sqlite::SqliteConnectOptions,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use tokio::sync::{Notify, mpsc, oneshot};

/// Requests to the writer.
pub(super) enum Job {
    Commit(Batch),
    /// Finish what is queued, take nothing more.
    Close,
}

/// Changes that are committed together.
pub(super) struct Batch {
    pub(super) changes: Vec<Change>,
    pub(super) reply: oneshot::Sender<Answer>,
}

/// How many rows a batch changed other than by putting.
pub(super) type Answer = Result<u64, StoreError>;

/// Statistics of the writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterCounts {
    /// Transactions committed.
    pub transactions: u64,
    /// Batches committed in them.
    pub batches: u64,
    /// Transactions that had to be done again batch by batch, because one of the batches was faulty.
    pub retries: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    transactions: AtomicU64,
    batches: AtomicU64,
    retries: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> WriterCounts {
        WriterCounts {
            transactions: self.transactions.load(Relaxed),
            batches: self.batches.load(Relaxed),
            retries: self.retries.load(Relaxed),
        }
    }
}

/// Where the writer gets its connection.
pub(super) enum WriteEnd {
    /// Its own. None after it failed in a way that left its state unknown: the next transaction opens another.
    Own { options: Box<SqliteConnectOptions>, connection: Option<SqliteConnection> },
    /// In memory there is but one connection, shared with the readers.
    Shared(SqlitePool),
}

pub(super) struct Writer {
    pub(super) jobs: mpsc::Receiver<Job>,
    pub(super) transaction_writes_max: usize,
    pub(super) write: WriteEnd,
    /// None in memory.
    pub(super) checkpointer: Option<Checkpointer>,
    /// Wakes the task that purges content which a commit marked as deleted, and signals shutdown to it.
    pub(super) purge: Arc<Notify>,
    pub(super) read_pool: SqlitePool,
    pub(super) statements: Statements,
    pub(super) counters: Arc<Counters>,
    /// Held until the last connection is closed.
    pub(super) data_dir: Option<DataDir>,
}

/// How batches share a transaction.
#[derive(Clone, Copy)]
enum Isolation {
    /// They share statements; a fault of one is a fault of all.
    Shared,
    /// Each has a savepoint, and may fail alone.
    Savepoints,
}

impl Writer {
    pub(super) async fn run(mut self) {
        while let Some(job) = self.jobs.recv().await {
            // Callers that were answered just now get to queue their next batch before this transaction is full.
            tokio::task::yield_now().await;
            let group = self.collect(job);
            if !group.is_empty() {
                self.commit(group).await;
            }
        }
        self.purge.notify_one();
        // Readers first: the last connection to close checkpoints the log, and theirs cannot write.
        self.read_pool.close().await;
        if let Some(checkpointer) = self.checkpointer {
            checkpointer.close().await;
        }
        if let WriteEnd::Own { connection: Some(connection), .. } = self.write
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "the database was not closed cleanly; nothing is lost, the next start repairs it");
        }
        drop(self.data_dir);
    }

    /// Everything that is queued, up to the bound.
    fn collect(&mut self, first: Job) -> Vec<Batch> {
        let mut group = Vec::new();
        let mut writes_count = 0;
        let mut next = Some(first);
        while let Some(job) = next {
            match job {
                Job::Commit(batch) => {
                    writes_count += batch.changes.len();
                    group.push(batch);
                }
                Job::Close => self.jobs.close(),
            }
            next = if writes_count < self.transaction_writes_max { self.jobs.try_recv().ok() } else { None };
        }
        group
    }

    async fn commit(&mut self, group: Vec<Batch>) {
        let mut result = self.transaction(&group, Isolation::Shared).await;
        if let Err(Fault::Dangling(_) | Fault::Taken(_)) = result
            && group.len() > 1
        {
            self.counters.retries.fetch_add(1, Relaxed);
            result = self.transaction(&group, Isolation::Savepoints).await;
        }
        let answers = result.unwrap_or_else(|fault| {
            if let Fault::Database(error) = &fault {
                tracing::error!(%error, batches_count = group.len(), "a transaction failed");
            }
            group.iter().map(|_| Err(StoreError::from(&fault))).collect()
        });
        let committed = answers.iter().filter(|answer| answer.is_ok()).count() as u64;
        self.counters.transactions.fetch_add(u64::from(committed > 0), Relaxed);
        self.counters.batches.fetch_add(committed, Relaxed);
        if let Some(checkpointer) = &mut self.checkpointer {
            checkpointer.committed(group.iter().map(|batch| batch.changes.len()).sum());
        }
        for (batch, answer) in group.into_iter().zip(answers) {
            if answer.is_ok() && batch.changes.iter().any(Change::marks_deleted) {
                self.purge.notify_one();
            }
            // A caller that stopped waiting needs no answer.
            let _ = batch.reply.send(answer);
        }
    }

    /// One transaction over the whole group, and one wait for the disk.
    async fn transaction(&mut self, group: &[Batch], isolation: Isolation) -> Result<Vec<Answer>, Fault> {
        let mut shared: PoolConnection<Sqlite>;
        let connection = match &mut self.write {
            WriteEnd::Own { connection: Some(connection), .. } => connection,
            WriteEnd::Own { options, connection } => connection.insert(options.connect().await?),
            WriteEnd::Shared(pool) => {
                shared = pool.acquire().await?;
                &mut *shared
            }
        };
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let applied = match isolation {
            Isolation::Savepoints => self.statements.apply_separately(&mut transaction, group).await,
            Isolation::Shared => {
                let changed = self.statements.apply(&mut transaction, group).await;
                changed.map(|changed| changed.into_iter().map(Ok).collect())
            }
        };
        let (result, is_usable) = match applied {
            Ok(answers) => match transaction.commit().await {
                Ok(()) => (Ok(answers), true),
                Err(error) => (Err(error.into()), false),
            },
            // On some faults SQLite rolls back by itself; then ours fails, and sqlx loses count of its transactions.
            Err(fault) => (Err(fault), transaction.rollback().await.is_ok()),
        };
        if !is_usable && let WriteEnd::Own { connection, .. } = &mut self.write {
            *connection = None;
        }
        result
    }
}
