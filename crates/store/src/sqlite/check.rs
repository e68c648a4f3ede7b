//! Check: are the pages of the database what SQLite wrote?
//!
//! Owns        the connection on which `PRAGMA quick_check` runs, and the task that waits for it.
//! Invariants  a database that is found damaged within `SqliteOptions::check_wait_ms` is not opened. (tests `s21_8_*`)
//! Limits      one check per start. It reads the whole database, so a large one takes longer than a start may; then it
//!             continues in the background and logs its result. The write-ahead log cannot be truncated until it ends.
//! Spec        <https://sqlite.org/pragma.html#pragma_quick_check>

use crate::StoreError;
use sqlx::{ConnectOptions as _, Connection as _, sqlite::SqliteConnectOptions};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

/// Instructions of SQLite's machine between two checks of `cancelled`: some tenth of a millisecond.
const CANCEL_OPS: i32 = 10_000;
/// What SQLite answers for a database in order.
const IN_ORDER: &str = "ok";

/// A check that continues in the background. Dropping it cancels it.
#[derive(Debug)]
pub(super) struct Check {
    cancelled: Arc<AtomicBool>,
    _task: JoinHandle<()>,
}

impl Drop for Check {
    fn drop(&mut self) {
        self.cancelled.store(true, Relaxed);
    }
}

/// Checks the database and waits for at most `wait`. Returns the check if it takes longer.
///
/// # Errors
/// `Damaged` with the first finding.
pub(super) async fn run(
    options: SqliteConnectOptions,
    path: PathBuf,
    wait: Duration,
) -> Result<Option<Check>, StoreError> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let of_task = Arc::clone(&cancelled);
    let began = Instant::now();
    let mut task = tokio::spawn(async move { check(options, path, of_task).await });
    let ms = move || began.elapsed().as_millis() as u64;
    match tokio::time::timeout(wait, &mut task).await {
        Ok(Ok(done)) => {
            done?;
            tracing::info!(ms = ms(), "the database was checked");
            Ok(None)
        }
        // The task does not panic; if it did, nothing is known to be wrong.
        Ok(Err(_)) => Ok(None),
        Err(_) => {
            tracing::info!(ms = ms(), "the database check continues while the store is in use");
            let cancelled_later = Arc::clone(&cancelled);
            let later = tokio::spawn(async move {
                match task.await {
                    Ok(Ok(())) => tracing::info!(ms = ms(), "the database was checked"),
                    Ok(Err(_)) if cancelled_later.load(Relaxed) => {}
                    Ok(Err(error)) => {
                        tracing::error!(error = &error as &dyn std::error::Error, ms = ms(), "stop the node")
                    }
                    Err(_) => {}
                }
            });
            Ok(Some(Check { cancelled, _task: later }))
        }
    }
}

pub(super) async fn check(
    options: SqliteConnectOptions,
    path: PathBuf,
    cancelled: Arc<AtomicBool>,
) -> Result<(), StoreError> {
    let mut connection = options.connect().await?;
    connection.lock_handle().await?.set_progress_handler(CANCEL_OPS, move || !cancelled.load(Relaxed));
    let findings = sqlx::query_scalar::<_, String>("PRAGMA quick_check(1)").fetch_all(&mut connection).await;
    let finding = match findings {
        Ok(findings) => findings.into_iter().find(|finding| finding != IN_ORDER),
        Err(error) if is_damage(&error) => Some(error.to_string()),
        Err(error) => return Err(error.into()),
    };
    connection.close().await?;
    match finding {
        None => Ok(()),
        Some(finding) => {
            // It may have several lines; the first names the table.
            let finding = finding.split_whitespace().collect::<Vec<_>>().join(" ");
            Err(StoreError::Damaged { path, finding })
        }
    }
}

/// SQLITE_CORRUPT, with its extended codes.
pub(super) fn is_damage(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code()).and_then(|code| code.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == 11)
}
