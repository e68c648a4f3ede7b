//! Inspection: reads facts about a database without opening a store, also while a node runs.

use super::{check, data_dir::DATABASE_FILE, pool_options, read};
use crate::{StoreError, migrations};
use sqlx::{ConnectOptions as _, sqlite::SqliteConnectOptions};
use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

/// Facts about a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Schema version of the database.
    pub schema: i64,
    /// The newest that this program knows.
    pub schema_known: i64,
    /// The largest id of an object, 0 if there is none.
    pub largest_id: u64,
    /// How long the check of all pages took.
    pub check_ms: u64,
}

/// Checks the database in `data_dir` and reads its version, size and contents.
///
/// # Errors
/// `Open` when there is none, `Damaged` when a page is not what was written, `Database` when it cannot be read.
pub async fn inspect(data_dir: &Path) -> Result<Inspection, StoreError> {
    let path = data_dir.join(DATABASE_FILE);
    let options = SqliteConnectOptions::new().filename(&path).disable_statement_logging();
    let began = Instant::now();
    check::check(options.clone(), path.clone(), Arc::new(AtomicBool::new(false))).await?;
    let check_ms = began.elapsed().as_millis() as u64;
    let pool =
        pool_options(1).connect_with(options).await.map_err(|error| StoreError::Open { path, source: error.into() })?;
    let schema: Option<i64> = sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations").fetch_one(&pool).await?;
    let schema_known = migrations::newest(&migrations::SQLITE);
    let largest_id = read::largest_id(&pool).await?;
    pool.close().await;
    Ok(Inspection { schema: schema.unwrap_or(0), schema_known, largest_id, check_ms })
}
