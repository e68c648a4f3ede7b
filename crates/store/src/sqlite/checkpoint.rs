//! WAL checkpoints on a connection of their own, so that commits never wait for one.
//!
//! Owns        the connection and the task that runs checkpoints on it.
//! Why         a checkpoint syncs the disk twice and copies megabytes, some ten milliseconds. Within a commit, every
//!             caller that waits for that commit or for a later one would wait for it.
//! Invariants  G1 only closing the store waits for a checkpoint. G2 a checkpoint that fails loses nothing: the log
//!             keeps its pages, and the writer checkpoints by itself when the log is four times as long.
//! Limits      one checkpoint at a time, and one more request in the queue.
//! Spec        <https://sqlite.org/wal.html#ckpt>, <https://sqlite.org/pragma.html#pragma_wal_checkpoint>

use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::JoinHandle,
};

/// A checkpoint runs another round while more pages than this are left, because commits added them, ...
const LEFT_PAGES_MAX: i64 = 64;
/// Repetitions per request; then the writer can reset the WAL.
const ROUNDS_MAX: usize = 4;

/// Handle to the checkpoint task.
pub(super) struct Checkpointer {
    pages_max: u64,
    /// Estimated pages written to the WAL since the last request.
    pages: u64,
    due: Sender<()>,
    task: JoinHandle<()>,
}

impl Checkpointer {
    /// Checkpoints about every `pages_max` pages.
    pub(super) fn start(options: SqliteConnectOptions, pages_max: u32) -> Self {
        let (due, requested) = mpsc::channel(1);
        Self { pages_max: pages_max.into(), pages: 0, due, task: tokio::spawn(run(options, requested)) }
    }

    /// Counts a committed transaction of `changes` changes.
    pub(super) fn committed(&mut self, changes: usize) {
        // A message writes its page, an index page, their parents, and the queue of the search's index. Changes of a
        // large batch share most of them.
        self.pages += 6 + changes as u64 / 4;
        if self.pages >= self.pages_max && self.due.try_send(()).is_ok() {
            self.pages = 0;
        }
    }

    /// Waits for the checkpoint under way.
    pub(super) async fn close(self) {
        drop(self.due);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the checkpointer failed");
        }
    }
}

async fn run(options: SqliteConnectOptions, mut requested: Receiver<()>) {
    let mut connection = None;
    while requested.recv().await.is_some() {
        if let Err(error) = checkpoint(&options, &mut connection).await {
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

async fn checkpoint(
    options: &SqliteConnectOptions,
    connection: &mut Option<SqliteConnection>,
) -> Result<(), sqlx::Error> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(options.connect().await?),
    };
    for _ in 0..ROUNDS_MAX {
        let (_, logged, checkpointed): (i64, i64, i64) =
            sqlx::query_as("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(&mut *connection).await?;
        if logged - checkpointed <= LEFT_PAGES_MAX {
            break;
        }
    }
    Ok(())
}
