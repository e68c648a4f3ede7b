//! Records that change if they are what the caller read.
//!
//! Invariants  of two changes of one record PostgreSQL carries out one (isolation level READ COMMITTED: the second
//!             waits, and compares again).
//! Limits      `CONFLICTS_MAX` repetitions, when two transactions waited for each other.

use super::{PostgresStore, fault::Fault};
use crate::{RECORD_SWAPS_MAX, RecordSwap, StoreError};
use sqlx::{Postgres, postgres::PgArguments, query::Query};

const CONFLICTS_MAX: u32 = 3;

/// It changes a row if the record is `before`. None: neither is there a record, nor shall there be one.
pub(super) fn swap<'q>(
    kind: &'q str,
    id: &'q [u8],
    before: Option<&'q [u8]>,
    after: Option<&'q [u8]>,
) -> Option<Query<'q, Postgres, PgArguments>> {
    Some(match (before, after) {
        (None, None) => return None,
        (None, Some(after)) => {
            let sql = "INSERT INTO records (kind, id, data) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
            sqlx::query(sql).bind(kind).bind(id).bind(after)
        }
        (Some(before), None) => {
            let sql = "DELETE FROM records WHERE kind = $1 AND id = $2 AND data = $3";
            sqlx::query(sql).bind(kind).bind(id).bind(before)
        }
        (Some(before), Some(after)) => {
            let sql = "UPDATE records SET data = $4 WHERE kind = $1 AND id = $2 AND data = $3";
            sqlx::query(sql).bind(kind).bind(id).bind(before).bind(after)
        }
    })
}

/// Changes all of these records, or none.
pub(super) async fn swap_all(store: &PostgresStore, swaps: &[RecordSwap]) -> Result<bool, StoreError> {
    // In one order, so that two transactions with the same records seldom wait for each other.
    let mut swaps: Vec<&RecordSwap> = swaps.iter().take(RECORD_SWAPS_MAX).collect();
    swaps.sort_unstable_by_key(|swap| (swap.kind, &swap.id));
    let mut conflicts_count = 0;
    loop {
        match transaction(store, &swaps).await {
            Err(Fault::Conflict(_)) if conflicts_count < CONFLICTS_MAX => conflicts_count += 1,
            done => return done.map_err(StoreError::from),
        }
    }
}

async fn transaction(store: &PostgresStore, swaps: &[&RecordSwap]) -> Result<bool, Fault> {
    let mut transaction = store.claim.begin(&store.read_pool).await?;
    for RecordSwap { kind, id, before, after } in swaps {
        let Some(query) = swap(kind, id, before.as_deref(), after.as_deref()) else { continue };
        if query.execute(&mut *transaction).await?.rows_affected() == 0 {
            transaction.rollback().await?;
            return Ok(false);
        }
    }
    transaction.commit().await?;
    Ok(true)
}
