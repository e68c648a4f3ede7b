//! Claim: the right of a store to write, and whether the store still has it.
//!
//! Invariants  a transaction that begins here states the epoch of the store: it fails if another store has claimed the
//!             database since, and a claim waits until it ends. The nodes of a cluster share an epoch. (tests `w3_*`)
//! Spec        ADR 33; `guildhall_claim_1` and `guildhall_fence_1` in `0001_initial.sql`, `guildhall_join_1` in
//!             `0002_cluster.sql`.

use super::{Sharing, fault::Fault};
use sqlx::{PgConnection, PgPool, Postgres, Transaction};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The whole database.
pub(super) const SCOPE: i64 = 0;

/// The epoch that a store claimed, and whether it still holds.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) epoch: i64,
    /// Another store has claimed the database.
    is_lost: AtomicBool,
    /// The server cannot be reached.
    is_away: AtomicBool,
}

impl Claim {
    /// Claims the database: commits of earlier stores fail from now on, except those of nodes of the same cluster.
    pub(super) async fn take(connection: &mut PgConnection, sharing: &Sharing) -> Result<Self, sqlx::Error> {
        let query = match sharing {
            Sharing::Alone => sqlx::query_scalar("SELECT guildhall_claim_1($1)").bind(SCOPE),
            Sharing::Cluster { name } => sqlx::query_scalar("SELECT guildhall_join_1($1)").bind(name),
        };
        let epoch: i64 = query.fetch_one(connection).await?;
        Ok(Self { epoch, is_lost: AtomicBool::new(false), is_away: AtomicBool::new(false) })
    }

    /// Begins a transaction that states the epoch.
    pub(super) async fn begin(&self, pool: &PgPool) -> Result<Transaction<'static, Postgres>, Fault> {
        let mut transaction = pool.begin().await?;
        self.fence(&mut transaction).await?;
        Ok(transaction)
    }

    /// Fails unless the epoch is the current one; holds off other claims until the transaction ends.
    pub(super) async fn fence(&self, connection: &mut PgConnection) -> Result<(), Fault> {
        let query = sqlx::query("SELECT guildhall_fence_1($1, $2)").bind(SCOPE).bind(self.epoch);
        let fault = match query.execute(connection).await {
            Ok(_) => return Ok(()),
            Err(error) => Fault::from(error),
        };
        if matches!(fault, Fault::Fenced) {
            self.set_lost();
        }
        Err(fault)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Relaxed)
    }

    /// A transaction was refused for its epoch.
    pub(super) fn set_lost(&self) {
        if !self.is_lost.swap(true, Relaxed) {
            tracing::error!(
                epoch = self.epoch,
                "another node has claimed the database: this one can write nothing more"
            );
        }
    }

    pub(super) fn is_away(&self) -> bool {
        self.is_away.load(Relaxed)
    }

    /// Notes whether the server can be reached; returns what was noted before.
    pub(super) fn set_away(&self, is_away: bool) -> bool {
        self.is_away.swap(is_away, Relaxed)
    }
}
