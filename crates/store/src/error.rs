//! Errors: why the store did not do it.
//!
//! Invariants  an error never prints its source; walk the chain for the whole story.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// SQLite's extended result codes for writes that find no room: SQLITE_FULL, SQLITE_IOERR_WRITE (a quota),
/// SQLITE_IOERR_SHMSIZE, SQLITE_READONLY (the system made the file system read-only).
const DISK_FULL: [&str; 4] = ["13", "778", "4874", "8"];

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database returned an error. Shared, because the callers of one transaction fail with it together.
    #[error("the database failed")]
    Database(#[source] Arc<sqlx::Error>),
    /// The database file cannot be opened, or is no database.
    #[error("the database {} cannot be opened", path.display())]
    Open {
        /// Path of the database.
        path: PathBuf,
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The data directory cannot be created or written.
    #[error("the data directory {} cannot be used: it must be a directory that this process may write", path.display())]
    DataDir {
        /// The directory.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Other users of the machine can read the data directory, and its access rights are not this process's to change.
    #[error(
        "other users can read {} (mode {mode:o}), and this process may not change that: run `chown` to its user and \
         `chmod go= DIR`, or let store.dir (--data) name a new directory inside it",
        path.display()
    )]
    Readable {
        /// The directory, or a file in it.
        path: PathBuf,
        /// Its access rights.
        mode: u32,
    },
    /// A restore into the directory was interrupted.
    #[error(
        "a restore into {} did not finish: empty the directory and run `guildhall restore` again",
        path.display()
    )]
    RestoreUnfinished {
        /// The directory.
        path: PathBuf,
    },
    /// The file is a database, but its pages contradict one another.
    #[error(
        "the database {} is damaged ({finding}): keep a copy of the directory, and restore a backup with \
         `guildhall restore BACKUP --data NEW_DIR` (docs/operations/recipes.md, \"Backup and restore\")",
        path.display()
    )]
    Damaged {
        /// The database file.
        path: PathBuf,
        /// The first finding of SQLite.
        finding: String,
    },
    /// The disk cannot take further writes: it is full, over its quota, or read-only. Reads still work.
    #[error("the disk accepts no writes")]
    Full(#[source] Option<Arc<sqlx::Error>>),
    /// Another process has the data directory open: one process at a time.
    #[error("the data directory {} is in use by {}", path.display(), holder(*process_id))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that holds the lock, if it is known.
        process_id: Option<u32>,
    },
    /// A URL that names no PostgreSQL database.
    #[error("this is no URL of a PostgreSQL database: {problem}")]
    Url {
        /// The fault, without any part of the URL that may be secret.
        problem: String,
    },
    /// The server cannot be reached, or refuses the account.
    #[error("the PostgreSQL database {server} cannot be opened{}", crate::postgres::advice(source))]
    Server {
        /// Database, host and port.
        server: String,
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// A database that cannot store every text.
    #[error(
        "the PostgreSQL database {server} has encoding {found}, and Guildhall needs UTF8: create another with \
         `CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`"
    )]
    Encoding {
        /// Database, host and port.
        server: String,
        /// Its encoding.
        found: String,
    },
    /// Another node has the database open.
    #[error(
        "the PostgreSQL database {server} is in use by another node: stop it first. If its machine is gone, the server \
         notices within half a minute"
    )]
    DatabaseInUse {
        /// Database, host and port.
        server: String,
    },
    /// A node alone found the nodes of a cluster.
    #[error(
        "the PostgreSQL database {server} is in use by the nodes of a cluster: let this node join them (cluster.name), or \
         stop all of them first"
    )]
    DatabaseOfCluster {
        /// Database, host and port.
        server: String,
    },
    /// A node of a cluster found a node that runs alone.
    #[error(
        "the PostgreSQL database {server} is in use by a node that runs alone, and a node of a cluster cannot share it: \
         stop that node, and start it with the same cluster.name"
    )]
    DatabaseNotShared {
        /// Database, host and port.
        server: String,
    },
    /// A node found the nodes of a cluster with another name.
    #[error(
        "the PostgreSQL database {server} is in use by the cluster {found:?}, and this node belongs to {wanted:?}: give all \
         nodes the same cluster.name, or another database"
    )]
    OtherCluster {
        /// Database, host and port.
        server: String,
        /// Name of the cluster that has it.
        found: String,
        /// Name that this node was given.
        wanted: String,
    },
    /// A copy is into an empty database only.
    #[error("the target database is not empty (there are {table}): a copy never overwrites. Create another database")]
    NotEmpty {
        /// A table with rows.
        table: &'static str,
    },
    /// A row was not copied.
    #[error("some {table} were not copied; nothing was written")]
    CopyIncomplete {
        /// The table that lacks rows.
        table: &'static str,
    },
    /// The database server cannot be reached, or all connections are in use: the outcome of a write is unknown. It may
    /// work again at any time.
    #[error("the database cannot be reached in time")]
    Unreachable(#[source] Arc<sqlx::Error>),
    /// Another node has claimed the database, or the guild of the batch, since this one did: nothing of the batch was
    /// written, and nothing can be written with this claim any more. `Store::is_fenced` is true if it is the database.
    #[error("another node has claimed the database or this guild: this node can write nothing more there")]
    Fenced,
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
    /// A write refers to a guild, channel, message or account that is not stored.
    #[error("the {what} refers to an object that is not stored")]
    Dangling {
        /// Kind of object.
        what: &'static str,
    },
    /// Another object has that id of a backend's.
    #[error("the {what} belongs to another object")]
    Taken {
        /// Kind of id, for the text.
        what: &'static str,
    },
    /// Others changed it before each of many attempts.
    #[error("the {what} was changed by others before each attempt")]
    Contended {
        /// Kind of object.
        what: &'static str,
    },
    /// A search took too long.
    #[error("the search took longer than two seconds: search for longer words, in fewer channels, or in less time")]
    TooSlow,
    /// A row is not what was written.
    #[error("the stored {what} cannot be read")]
    Corrupt {
        what: &'static str,
        #[source]
        source: serde_json::Error,
    },
    /// An object has no JSON form.
    #[error("the {what} cannot be stored")]
    Encode {
        /// Kind of object.
        what: &'static str,
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
            error => crate::postgres::of_server(error).unwrap_or_else(|error| Self::of_database(&Arc::new(error))),
        }
    }
}

impl StoreError {
    /// An error of the database, by its meaning for a caller.
    pub(crate) fn of_database(error: &Arc<sqlx::Error>) -> Self {
        match error.as_database_error().and_then(|error| error.code()).as_deref() {
            Some(code) if DISK_FULL.contains(&code) => Self::Full(Some(Arc::clone(error))),
            _ => Self::Database(Arc::clone(error)),
        }
    }

    /// Whether the server of the database cannot be reached. It may work again at any time.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.is_full() || self.is_unreachable() || matches!(self, Self::Contended { .. })
    }

    /// Whether writes fail for lack of room while reads still work.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    pub(crate) fn data_dir(path: &Path, source: io::Error) -> Self {
        Self::DataDir { path: path.to_owned(), source }
    }
}

fn holder(process_id: Option<u32>) -> String {
    process_id.map_or_else(|| "another process".to_owned(), |id| format!("another process (id {id})"))
}
