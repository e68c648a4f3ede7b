//! Database: opens the one that the configuration names, SQLite or PostgreSQL.
//!
//! Doors       `open` for a node and for commands without one; `lock_data_dir` for a node alone.
//! Invariants  a node has its data directory and its database for itself: an SQLite store locks the directory of its
//!             file, a PostgreSQL store its database, and `lock_data_dir` the data directory otherwise.
//! Not here    URLs and their redaction: `guildhall_settings`.

use crate::cluster;
use guildhall_settings::{Config, Database, DatabaseCheck, StoreConfig, Synchronous};
use guildhall_store::{
    DataDir, PostgresOptions, PostgresStore, Sharing, SqliteOptions, SqliteStore, Store, StoreError,
};
use std::{fs, path::Path, sync::Arc, time::Duration};

/// Longest time that a start waits for the check of an SQLite database; a longer check continues in the background.
/// Below the time that clients wait for a restart.
const CHECK_WAIT_MS: u32 = 10_000;
const CHECKED_EVERY: Duration = Duration::from_secs(1);

/// The database that the settings name, as its driver takes it.
pub enum Options<'a> {
    /// The directory of the database.
    Sqlite(&'a Path),
    /// Of a PostgreSQL server.
    Postgres(Box<PostgresOptions>),
}

/// The database of a node.
///
/// # Errors
/// `Url`, without any part of the password.
pub fn options(store: &StoreConfig) -> Result<Options<'_>, StoreError> {
    Ok(match store.database() {
        Database::Sqlite(dir) => Options::Sqlite(dir),
        Database::Postgres(url) => Options::Postgres(Box::new(PostgresOptions::new(url.reveal())?)),
    })
}

/// Opens the database. A command waits for at most `in_use_wait_ms` until another node releases it, a node for longer.
///
/// # Errors
/// See `SqliteStore::open` and `PostgresStore::open`.
pub async fn open(config: &Config, in_use_wait_ms: Option<u32>) -> Result<Arc<dyn Store>, StoreError> {
    open_as(config, in_use_wait_ms, sqlite_options(config)).await
}

/// As `open`, of a process that has just closed it: it is not checked, because clients wait.
///
/// # Errors
/// As `open`.
pub async fn open_after(config: &Config) -> Result<Arc<dyn Store>, StoreError> {
    open_as(config, None, SqliteOptions { check_wait_ms: None, ..sqlite_options(config) }).await
}

async fn open_as(
    config: &Config,
    in_use_wait_ms: Option<u32>,
    sqlite: SqliteOptions,
) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match options(&config.store)? {
        Options::Sqlite(dir) => Arc::new(SqliteStore::open(dir, sqlite).await?),
        Options::Postgres(mut options) => {
            options.in_use_wait_ms = in_use_wait_ms.unwrap_or(options.in_use_wait_ms);
            if let Some(name) = cluster::name(config) {
                options.sharing = Sharing::Cluster { name: name.to_owned() };
            }
            Arc::new(PostgresStore::open(*options).await?)
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

/// Completes when nothing can be written any more: another node has claimed the database, or the task that writes has
/// ended.
pub async fn failed(store: &dyn Store) {
    loop {
        if store.is_fenced() {
            tracing::error!("another node has claimed the database: this one ends. Let only one of them run");
            return;
        }
        if store.has_ended() {
            tracing::error!("the task that writes to the database has ended: the node ends. This is a bug: report it");
            return;
        }
        tokio::time::sleep(CHECKED_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;
    use guildhall_settings::{Flag, Sources};

    #[test]
    fn settings_and_store_name_the_same_file() {
        assert_eq!(guildhall_settings::DATABASE_FILE, guildhall_store::DATABASE_FILE);
    }

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
            let store = open(&config, None).await.unwrap();
            let lock = lock_data_dir(&config).unwrap();
            assert_eq!(lock.is_some(), is_apart, "{}", url.display());
            assert!(matches!(DataDir::open(&data), Err(StoreError::InUse { .. })), "{}", url.display());
            store.close().await;
        }
    }
}
