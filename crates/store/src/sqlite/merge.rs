//! Merge: the write-ahead log goes into the database beside the writer, not within its commits.
//!
//! Owns        a connection of its own, which merges and does nothing else, and the task that has it.
//! Why         a merge waits for the disk twice and copies megabytes: some ten milliseconds, for which everybody who waits for the
//!             commit it is part of would wait, and everybody behind them.
//! Invariants  G1 nobody waits for a merge but the end of the store. G2 one that fails costs nothing but its time: the log keeps what it
//!             has, and the writer merges by itself once it is four times as long.
//! Limits      one merge at a time, and one more that is asked for meanwhile.
//! Spec        <https://sqlite.org/wal.html#ckpt>, <https://sqlite.org/pragma.html#pragma_wal_checkpoint>

use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::JoinHandle,
};

/// A merge copies what commits add meanwhile in another round, as long as it is more than this, ...
const LEFT_PAGES_MAX: i64 = 64;
/// ... and so often: then the writer can begin its log anew.
const ROUNDS_MAX: usize = 4;

/// See the module.
pub(super) struct Merger {
    pages_max: u64,
    /// About so many pages went into the log since a merge was asked for.
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

    /// A transaction with so many changes was committed.
    pub(super) fn committed(&mut self, changes: usize) {
        // What one message takes: its page, that of an index, and their like above them. Of many changes most share theirs.
        self.pages += 4 + changes as u64 / 4;
        if self.pages >= self.pages_max && self.due.try_send(()).is_ok() {
            self.pages = 0;
        }
    }

    /// Waits for the merge under way.
    pub(super) async fn close(self) {
        drop(self.due);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "what merges the log failed");
        }
    }
}

async fn run(options: SqliteConnectOptions, mut asked: Receiver<()>) {
    let mut connection = None;
    while asked.recv().await.is_some() {
        if let Err(error) = merge(&options, &mut connection).await {
            tracing::warn!(%error, "the log was not merged; it grows until it can be");
            connection = None;
        }
    }
    if let Some(connection) = connection
        && let Err(error) = connection.close().await
    {
        tracing::warn!(%error, "the connection that merges was not closed cleanly");
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
