//! Holder: a lock on the database while a store has it open, so that a second node does not start on it by mistake; and
//! whether the server can be reached.
//!
//! Owns        a connection with a session lock of PostgreSQL, which is released when the connection ends, however the
//!             process ends. The nodes of a cluster hold it together, a node alone holds it exclusively.
//! Invariants  the lock is a courtesy. When a server restarts it is gone for a moment; that only one node writes is
//!             guaranteed by the epoch (`writer`, W3).
//! Limits      one check per `LOOK_EVERY`, and then one attempt to take the lock again. A server that does not answer
//!             for `ANSWER_MAX` is away.
//! Spec        manual of PostgreSQL, "Explicit Locking", "Advisory Locks".

use super::{PostgresOptions, Sharing, claim::Claim};
use crate::StoreError;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::oneshot, task::JoinHandle};

/// Key of the lock: `guil`, `d`. Such pairs are no keys of `guildhall_fence_1`.
const LOCK: (i32, i32) = (0x6775_696c, 0x64);
const LOOK_EVERY: Duration = Duration::from_secs(1);
const ANSWER_MAX: Duration = Duration::from_secs(5);
const WAIT_STEP: Duration = Duration::from_millis(100);
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Opens a connection, with a limit of its own: `sqlx` has none.
pub(super) async fn connect(options: &PostgresOptions) -> Result<PgConnection, sqlx::Error> {
    match tokio::time::timeout(CONNECT_MAX, options.connect.connect()).await {
        Ok(connected) => connected,
        Err(elapsed) => Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, elapsed))),
    }
}

async fn try_lock(connection: &mut PgConnection, sharing: &Sharing) -> Result<bool, sqlx::Error> {
    let sql = match sharing {
        Sharing::Alone => "SELECT pg_try_advisory_lock($1, $2)",
        Sharing::Cluster { .. } => "SELECT pg_try_advisory_lock_shared($1, $2)",
    };
    sqlx::query_scalar(sql).bind(LOCK.0).bind(LOCK.1).fetch_one(connection).await
}

/// Whether the nodes of a cluster have the lock.
async fn is_shared(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let sql = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND mode = 'ShareLock' \
        AND classid = $1::BIGINT::OID AND objid = $2::BIGINT::OID AND objsubid = 2 \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";
    sqlx::query_scalar(sql).bind(i64::from(LOCK.0)).bind(i64::from(LOCK.1)).fetch_one(connection).await
}

/// Fails if nodes of another cluster have the database, after waiting for them to release it. They can have the lock
/// together with this connection, which must have it already.
pub(super) async fn check_cluster(connection: &mut PgConnection, options: &PostgresOptions) -> Result<(), StoreError> {
    let Sharing::Cluster { name } = &options.sharing else { return Ok(()) };
    let until = Instant::now() + Duration::from_millis(options.in_use_wait_ms.into());
    // Holders of the lock, this connection among them.
    let sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted \
        AND classid = $1::BIGINT::OID AND objid = $2::BIGINT::OID AND objsubid = 2 \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    loop {
        let query = sqlx::query_scalar(sql).bind(i64::from(LOCK.0)).bind(i64::from(LOCK.1));
        let holders: i64 = query.fetch_one(&mut *connection).await?;
        let name_sql = "SELECT c.name FROM cluster AS c JOIN epochs AS e ON e.scope = 0 AND e.epoch = c.epoch";
        let found: Option<String> = sqlx::query_scalar(name_sql).fetch_optional(&mut *connection).await?;
        match found {
            Some(found) if holders > 1 && found != *name => {
                if Instant::now() >= until {
                    return Err(StoreError::OtherCluster { server: options.server(), found, wanted: name.clone() });
                }
            }
            _ => return Ok(()),
        }
        tokio::time::sleep(WAIT_STEP).await;
    }
}

/// Takes the lock, and waits for a node that has it to release it.
pub(super) async fn lock(connection: &mut PgConnection, options: &PostgresOptions) -> Result<(), StoreError> {
    let until = Instant::now() + Duration::from_millis(options.in_use_wait_ms.into());
    let mut is_told = false;
    while !try_lock(connection, &options.sharing).await? {
        if Instant::now() >= until {
            let server = options.server();
            let is_cluster = options.sharing != Sharing::Alone;
            return Err(match (is_cluster, is_shared(connection).await?) {
                (true, _) => StoreError::DatabaseNotShared { server },
                (false, true) => StoreError::DatabaseOfCluster { server },
                (false, false) => StoreError::DatabaseInUse { server },
            });
        }
        if !std::mem::replace(&mut is_told, true) {
            tracing::warn!(server = options.server(), "another node has the database open; waiting for it to end");
        }
        tokio::time::sleep(WAIT_STEP).await;
    }
    Ok(())
}

/// Holds the lock until it is closed or dropped.
pub(super) struct Holder {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Holder {
    pub(super) fn start(connection: PgConnection, options: PostgresOptions, claim: Arc<Claim>) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { stop, task: tokio::spawn(hold(connection, options, claim, stopped)) }
    }

    /// Releases the lock.
    pub(super) async fn close(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the task that holds the lock on the database failed");
        }
    }
}

async fn hold(
    connection: PgConnection,
    options: PostgresOptions,
    claim: Arc<Claim>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut connection = Some(connection);
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let held = connection.take();
        tokio::select! {
            _ = &mut stopped => break,
            checked = look(held, &options, &claim) => connection = checked,
        }
    }
    if let Some(connection) = connection {
        // The server releases the lock when the connection ends, whatever this returns.
        let _ = connection.close().await;
    }
}

/// The connection with the lock, or another one if it is lost.
async fn look(held: Option<PgConnection>, options: &PostgresOptions, claim: &Claim) -> Option<PgConnection> {
    if let Some(mut held) = held
        && tokio::time::timeout(ANSWER_MAX, held.ping()).await.is_ok_and(|answer| answer.is_ok())
    {
        return Some(held);
    }
    lock_again(options, claim).await
}

/// A new connection with the lock. Notes whether the server is away and whether the claim is lost.
async fn lock_again(options: &PostgresOptions, claim: &Claim) -> Option<PgConnection> {
    let mut connection = match connect(options).await {
        Ok(connection) => connection,
        Err(error) => {
            if !claim.set_away(true) {
                tracing::error!(
                    server = options.server(),
                    error = &error as &dyn std::error::Error,
                    "the database cannot be reached"
                );
            }
            return None;
        }
    };
    if claim.set_away(false) {
        tracing::info!(server = options.server(), "the database can be reached again");
    }
    claim.fence(&mut connection).await.ok()?;
    match try_lock(&mut connection, &options.sharing).await {
        Ok(true) => Some(connection),
        _ => None,
    }
}
