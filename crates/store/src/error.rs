//! Errors: why the store did not do it.
//!
//! Invariants  an error never prints its source; walk the chain for the whole story.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database said no. Shared, because the callers of one transaction fail with it together.
    #[error("the database failed")]
    Database(#[source] Arc<sqlx::Error>),
    /// The database file cannot be opened, or is no database.
    #[error("the database {} cannot be opened", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: sqlx::Error,
    },
    /// The data directory cannot be created or written.
    #[error("the data directory {} cannot be used: it must be a directory that this process may write", path.display())]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody else has the data directory open: one process at a time.
    #[error("the data directory {} is in use by {}", path.display(), holder(*process_id))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Who, if it could be told.
        process_id: Option<u32>,
    },
    /// The database was written by a later version of this program.
    #[error("the database has schema version {found}, this program knows versions up to {known}: use a newer program")]
    SchemaTooNew {
        /// In the database.
        found: i64,
        /// The newest this binary has.
        known: i64,
    },
    /// The schema could not be brought up to date.
    #[error("the database's schema could not be migrated")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// A write is about something inside a guild, channel or message, or by an account, that is not stored.
    #[error("the {what} was to be stored without what it belongs to")]
    Dangling {
        /// Kind of object.
        what: &'static str,
    },
    /// A row is not what was written.
    #[error("the stored {what} cannot be read")]
    Corrupt {
        /// Kind of row.
        what: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// An object has no JSON form.
    #[error("the {what} cannot be stored")]
    Encode {
        /// Kind of object.
        what: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The store was shut down.
    #[error("the store is closed")]
    Closed,
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::PoolClosed => Self::Closed,
            error => Self::Database(Arc::new(error)),
        }
    }
}

impl StoreError {
    pub(crate) fn data_dir(path: &Path, source: io::Error) -> Self {
        Self::DataDir { path: path.to_owned(), source }
    }
}

fn holder(process_id: Option<u32>) -> String {
    process_id.map_or_else(|| "another process".to_owned(), |id| format!("another process (id {id})"))
}
