//! Faults: meanings of PostgreSQL's errors.
//!
//! Spec  manual of PostgreSQL, appendix A, "PostgreSQL Error Codes".

use crate::StoreError;
use sqlx::postgres::PgDatabaseError;
use std::sync::Arc;

/// Raised by `guildhall_fence_1`.
const FENCED: &str = "GH001";
/// Raised by `guildhall_fence_guilds_1`.
const GUILDS_FENCED: &str = "GH002";
/// Two transactions waited for each other, or would have overtaken each other; one of them is to be repeated.
const REPEAT: [&str; 2] = ["40P01", "40001"];
/// The server stops, crashed, starts, or has no place for another connection; a claim waited too long for another
/// transaction; a transaction was idle for too long, because this process was paused.
const AWAY: [&str; 6] = ["57P01", "57P02", "57P03", "53300", "55P03", "25P03"];
/// Class of errors of connections.
const CONNECTION: &str = "08";
/// The account may not do this, such as create tables.
const FORBIDDEN: &str = "42501";
/// No room on the disk; a server that accepts no writes (a replica, or `default_transaction_read_only`).
const FULL: [&str; 2] = ["53100", "25006"];

/// Why a transaction failed.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// One of its batches refers to an object that is not stored.
    Dangling(&'static str),
    /// One of its batches has a key that belongs to another object.
    Taken(&'static str),
    /// Another node has claimed the database.
    Fenced,
    /// Other nodes have claimed these guilds since these epochs.
    GuildsFenced(Vec<(i64, i64)>),
    /// The transaction was rolled back and may succeed when it is repeated.
    Conflict(Arc<sqlx::Error>),
    /// The server cannot be reached: the outcome is unknown.
    Away(Arc<sqlx::Error>),
    /// Everything else.
    Database(Arc<sqlx::Error>),
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        let database = error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
        let Some(database) = database else {
            return match error {
                sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => {
                    Self::Away(Arc::new(error))
                }
                error => Self::Database(Arc::new(error)),
            };
        };
        match database.code() {
            FENCED => Self::Fenced,
            GUILDS_FENCED => Self::GuildsFenced(guilds(database.detail().unwrap_or_default())),
            "23503" => Self::Dangling(what(database.table())),
            "23505" => Self::Taken(what(database.table())),
            code if REPEAT.contains(&code) => Self::Conflict(Arc::new(error)),
            code if AWAY.contains(&code) || code.starts_with(CONNECTION) => Self::Away(Arc::new(error)),
            _ => Self::Database(Arc::new(error)),
        }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Dangling(what) => Self::Dangling { what },
            Fault::Taken(what) => Self::Taken { what },
            Fault::Fenced | Fault::GuildsFenced(_) => Self::Fenced,
            Fault::Away(error) => match &*error {
                sqlx::Error::PoolClosed => Self::Closed,
                _ => Self::Unreachable(error),
            },
            Fault::Conflict(error) | Fault::Database(error) => {
                let code = error.as_database_error().and_then(|error| error.code());
                match (&*error, code.as_deref()) {
                    (sqlx::Error::PoolClosed, _) => Self::Closed,
                    (_, Some(code)) if FULL.contains(&code) => Self::Full(Some(error.clone())),
                    _ => Self::Database(error.clone()),
                }
            }
        }
    }
}

/// An error of PostgreSQL or of the connection to it, by its meaning for a caller; other errors are returned.
pub(crate) fn of_server(error: sqlx::Error) -> Result<StoreError, sqlx::Error> {
    let is_of_server = match &error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut => true,
        sqlx::Error::Database(error) => error.try_downcast_ref::<PgDatabaseError>().is_some(),
        _ => false,
    };
    if is_of_server { Ok(Fault::from(error).into()) } else { Err(error) }
}

/// Whether the account lacks a right.
pub(super) fn is_forbidden(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).as_deref() == Some(FORBIDDEN)
}

/// Advice to the operator of a database that cannot be opened, after a colon; may be empty.
pub(crate) fn advice(error: &sqlx::Error) -> &'static str {
    match error {
        sqlx::Error::Tls(_) => {
            ": let sslrootcert= name the certificate authority, or sslmode= state that the server has no certificate"
        }
        sqlx::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            ": nothing answers at this address; see its firewall"
        }
        sqlx::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            ": see that the server runs and listens there"
        }
        _ => match error.as_database_error().and_then(|error| error.code()).as_deref() {
            Some("28P01" | "28000") => ": see its user and password, and pg_hba.conf of the server",
            Some("3D000") => ": create it, such as by `createdb --encoding=UTF8 --template=template0`",
            Some(FORBIDDEN) => ": let its user own the database, or GRANT CREATE ON SCHEMA public",
            Some("53300") => ": the server has no place for further connections; a node has 13 (max_connections)",
            _ => "",
        },
    }
}

/// The list of `guildhall_fence_guilds_1`: `guild:epoch,…`.
fn guilds(detail: &str) -> Vec<(i64, i64)> {
    let pair = |pair: &str| {
        let (guild_id, epoch) = pair.split_once(':')?;
        Some((guild_id.parse().ok()?, epoch.parse().ok()?))
    };
    detail.split(',').filter_map(pair).collect()
}

/// Name of the objects in a table.
fn what(table: Option<&str>) -> &'static str {
    match table {
        Some("users") => "account",
        Some("guilds") => "guild",
        Some("roles") => "role",
        Some("channels") => "channel",
        Some("members") => "member",
        Some("messages") => "message",
        Some("reactions") => "reaction",
        Some("attachments") => "attachment",
        Some("guild_resources") => "guild resource",
        Some("external_ids") => "external id",
        Some("read_states") => "read state",
        Some("directs" | "direct_pairs") => "direct message",
        _ => "object",
    }
}
