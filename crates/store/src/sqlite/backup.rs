//! Backup: a copy of the database as it is at one moment, while a node may write to it.
//!
//! Invariants  everything that was committed before the call is in the copy, and nothing half. (tests `backup::*`)
//! Limits      the copy takes as much room as the content, and one read transaction: meanwhile the write-ahead log is
//!             not cut back.
//! Spec        <https://sqlite.org/lang_vacuum.html#vacuuminto>

use super::{check::is_damage, data_dir::DATABASE_FILE};
use crate::StoreError;
use sqlx::{ConnectOptions as _, Connection as _, sqlite::SqliteConnectOptions};
use std::{path::Path, sync::Arc, time::Duration};

/// A node's transactions take milliseconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Writes a copy of the database in `data_dir` to the new file `to`, without a lock on the directory: a node may run on
/// it. The copy is complete when this returns; syncing it is the caller's.
///
/// # Errors
/// `Open` when there is no database, `Damaged` when it cannot be read, `Database` when the copy cannot be written.
pub async fn backup_database(data_dir: &Path, to: &Path) -> Result<(), StoreError> {
    let path = data_dir.join(DATABASE_FILE);
    let open = |error: sqlx::Error| StoreError::Open { path: path.clone(), source: error.into() };
    let options = SqliteConnectOptions::new().filename(&path).busy_timeout(BUSY_TIMEOUT).disable_statement_logging();
    let mut connection = options.connect().await.map_err(open)?;
    let to = to.to_string_lossy().into_owned();
    match sqlx::query("VACUUM INTO ?1").bind(to).execute(&mut connection).await {
        Ok(_) => {}
        Err(error) if is_damage(&error) => return Err(StoreError::Damaged { path, finding: error.to_string() }),
        Err(error) => return Err(StoreError::of_database(&Arc::new(error))),
    }
    connection.close().await?;
    Ok(())
}
