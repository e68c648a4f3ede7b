//! Database: opens the one that the configuration names, SQLite or PostgreSQL.
//!
//! Doors       `open` for a node and for commands without one; `lock_data_dir` for a node alone.
//! Invariants  a node has its data directory and its database for itself: an SQLite store locks the directory of its
//!             file, a PostgreSQL store its database, and `lock_data_dir` the data directory otherwise.
//! Not here    what the URLs mean: `config`.

use crate::{
    cluster,
    config::{Config, Database, DatabaseCheck, Synchronous},
};
use guildhall_store::{DataDir, PostgresStore, Sharing, SqliteOptions, SqliteStore, Store, StoreError};
use std::{fs, path::Path, sync::Arc, time::Duration};

/// Longest time that a start waits for the check of an SQLite database; a longer check continues in the background.
/// Below the time that clients wait for a restart.
const CHECK_WAIT_MS: u32 = 10_000;
const FENCE_CHECKED_EVERY: Duration = Duration::from_secs(1);

/// Opens the database.
///
/// # Errors
/// See `SqliteStore::open` and `PostgresStore::open`.
pub async fn open(config: &Config) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match config.store.database() {
        Database::Sqlite(dir) => Arc::new(SqliteStore::open(dir, sqlite_options(config)).await?),
        Database::Postgres(options) => {
            let mut options = options.clone();
            if let Some(name) = cluster::name(config) {
                options.sharing = Sharing::Cluster { name: name.to_owned() };
            }
            Arc::new(PostgresStore::open(options).await?)
        }
    })
}

fn sqlite_options(config: &Config) -> SqliteOptions {
    SqliteOptions {
        synchronous: match config.store.synchronous {
            Synchronous::Full => guildhall_store::Synchronous::Full,
            Synchronous::Normal => guildhall_store::Synchronous::Normal,
        },
        check_wait_ms: (config.store.check == DatabaseCheck::Quick).then_some(CHECK_WAIT_MS),
        ..SqliteOptions::default()
    }
}

/// Locks the data directory, after the database was opened. None: the database is in it, and the store has the lock.
///
/// # Errors
/// See `DataDir::open`.
pub fn lock_data_dir(config: &Config) -> Result<Option<DataDir>, StoreError> {
    match config.store.database() {
        Database::Sqlite(dir) if is_same(dir, &config.store.dir) => Ok(None),
        Database::Sqlite(_) | Database::Postgres(_) => DataDir::open(&config.store.dir).map(Some),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    one == other || fs::canonicalize(one).is_ok_and(|one| fs::canonicalize(other).is_ok_and(|other| one == other))
}

/// Completes when another node has claimed the database: this one can write nothing more.
pub async fn fenced(store: &dyn Store) {
    while !store.is_fenced() {
        tokio::time::sleep(FENCE_CHECKED_EVERY).await;
    }
    tracing::error!("another node has claimed the database: this one ends. Let only one of them run");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flag, Sources, load};

    #[tokio::test]
    async fn the_data_directory_has_one_lock() {
        let dir = tempfile::tempdir().unwrap();
        let (data, other) = (dir.path().join("data"), dir.path().join("other"));
        fs::create_dir(&other).unwrap();
        let config = |url: &Path| {
            let url = Flag::new("--set", "store.url", format!("sqlite:{}", url.display()));
            let data = Flag::new("--data", "store.dir", data.display().to_string());
            load(&Sources { flags: vec![data, url], ..Sources::default() }).unwrap().config
        };
        for (url, is_apart) in [(other.join("../data"), false), (other, true)] {
            let config = config(&url);
            let store = open(&config).await.unwrap();
            let lock = lock_data_dir(&config).unwrap();
            assert_eq!(lock.is_some(), is_apart, "{}", url.display());
            assert!(matches!(DataDir::open(&data), Err(StoreError::InUse { .. })), "{}", url.display());
            store.close().await;
        }
    }
}
