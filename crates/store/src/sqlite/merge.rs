//! WAL checkpointing on a separate connection, so that commits never pay for it.
//!
//! Owns        a connection that only runs checkpoints, and its task.
//! Why         a checkpoint waits for the disk twice and copies megabytes. Within a commit that is about ten
//!             milliseconds, for all callers that wait for this commit and for those behind it.
//! Invariants  G1 only the end of the store waits for a checkpoint. G2 a failed checkpoint is harmless: the WAL is
//!             kept, and SQLite checkpoints automatically at four times this size.
//! Limits      one running checkpoint, and one pending request.
//! Spec        <https://sqlite.org/wal.html#ckpt>, <https://sqlite.org/pragma.html#pragma_wal_checkpoint>

use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::JoinHandle,
};

/// A merge copies what commits add meanwhile in another round, as long as it is more than this, ...
const LEFT_PAGES_MAX: i64 = 64;
/// Repetitions per request; then the writer can reset the WAL.
const ROUNDS_MAX: usize = 4;

/// See the module.
pub(super) struct Merger {
    pages_max: u64,
    /// Estimated pages written to the WAL since the last request.
    pages: u64,
    due: Sender<()>,
    task: JoinHandle<()>,
}

impl Merger {
    /// Merges about every `pages_max` pages.
    pub(super) fn start(options: SqliteConnectOptions, pages_max: u32) -> Self {
        let (due, asked) = mpsc::channel(1);
        Self { pages_max: pages_max.into(), pages: 0, due, task: tokio::spawn(run(options, asked)) }
    }

    /// Counts a committed transaction of `changes` changes.
    pub(super) fn committed(&mut self, changes: usize) {
        // A message writes its page, an index page and their parents. Changes of a large batch share most of them.
        self.pages += 4 + changes as u64 / 4;
        if self.pages >= self.pages_max && self.due.try_send(()).is_ok() {
            self.pages = 0;
        }
    }

    /// Waits for the merge under way.
    pub(super) async fn close(self) {
        drop(self.due);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the checkpointer failed");
        }
    }
}

async fn run(options: SqliteConnectOptions, mut asked: Receiver<()>) {
    let mut connection = None;
    while asked.recv().await.is_some() {
        if let Err(error) = merge(&options, &mut connection).await {
            tracing::warn!(%error, "WAL checkpoint failed; the WAL keeps growing until one succeeds");
            connection = None;
        }
    }
    if let Some(connection) = connection
        && let Err(error) = connection.close().await
    {
        tracing::warn!(%error, "the checkpoint connection was not closed cleanly");
    }
}

async fn merge(options: &SqliteConnectOptions, connection: &mut Option<SqliteConnection>) -> Result<(), sqlx::Error> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(options.connect().await?),
    };
    for _ in 0..ROUNDS_MAX {
        let (_, logged, merged): (i64, i64, i64) =
            sqlx::query_as("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(&mut *connection).await?;
        if logged - merged <= LEFT_PAGES_MAX {
            break;
        }
    }
    Ok(())
}
