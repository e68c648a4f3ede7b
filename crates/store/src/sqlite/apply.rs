//! Apply: changes become statements on the write connection, within a transaction.
//!
//! Owns        the statements that put many rows at once; the meaning of a failing statement.
//! Limits      few different statements, so that all of them stay prepared.

use super::{
    change::{Change, Row, Table, Value},
    writer::{Answer, Batch},
};
use crate::StoreError;
use sqlx::{AssertSqlSafe, Connection as _, Sqlite, SqliteConnection};
use std::sync::Arc;

/// SQLITE_CONSTRAINT_TRIGGER.
const CONSTRAINT_TRIGGER: &str = "1811";
/// Text of the trigger `channels_of_one_guild` (`0040_account_versions.sql`).
const OF_ANOTHER_GUILD: &str = "another guild has the channel";

/// Why a transaction did not come about.
pub(super) enum Fault {
    /// One of the batches is faulty: it refers to an object that is missing.
    Dangling(&'static str),
    /// One of the batches is faulty: another object has its id.
    Taken(&'static str),
    /// None of them is.
    Database(Arc<sqlx::Error>),
}

impl Fault {
    fn new(what: &'static str, error: sqlx::Error) -> Self {
        match error.as_database_error() {
            Some(error) if error.is_foreign_key_violation() => Self::Dangling(what),
            Some(error) if error.message() == OF_ANOTHER_GUILD => Self::Taken(what),
            // Its guild or channel is deleted, and not purged yet (`0027_deleted.sql`).
            Some(error) if error.code().as_deref() == Some(CONSTRAINT_TRIGGER) => Self::Dangling(what),
            Some(error) if error.is_unique_violation() => Self::Taken(what),
            _ => error.into(),
        }
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(Arc::new(error))
    }
}

impl From<&Fault> for StoreError {
    fn from(fault: &Fault) -> Self {
        match fault {
            Fault::Dangling(what) => Self::Dangling { what },
            Fault::Taken(what) => Self::Taken { what },
            Fault::Database(error) => Self::of_database(error),
        }
    }
}

/// Rows per statement: as many of the first as fit, then of the next.
const ROWS_PER_STATEMENT: [usize; 4] = [256, 32, 4, 1];

/// The statements that put rows, for each table and number of rows.
pub(super) struct Statements([[Arc<str>; ROWS_PER_STATEMENT.len()]; Table::ALL.len()]);

impl Statements {
    /// How many there can be on a connection, with room for those that are not for putting.
    pub(super) const COUNT_MAX: usize = ROWS_PER_STATEMENT.len() * Table::ALL.len() + 32;

    pub(super) fn new() -> Self {
        Self(Table::ALL.map(|table| ROWS_PER_STATEMENT.map(|rows| table.upsert(rows).into())))
    }

    /// Applies all changes in order; neighbouring rows share statements, also across batches. Returns, for each batch,
    /// how many rows it changed other than by putting.
    pub(super) async fn apply(&self, connection: &mut SqliteConnection, group: &[Batch]) -> Result<Vec<u64>, Fault> {
        let mut changed = vec![0; group.len()];
        let mut table = Table::Users;
        let mut rows: Vec<&Row> = Vec::new();
        for (batch, changed) in group.iter().zip(&mut changed) {
            for change in &batch.changes {
                match change {
                    Change::Put(next_table, row) => {
                        if *next_table != table {
                            self.put(connection, table, &mut rows).await?;
                            table = *next_table;
                        }
                        rows.push(row);
                    }
                    Change::Run { what, sql, values } | Change::Must { what, sql, values } => {
                        self.put(connection, table, &mut rows).await?;
                        let query = values.iter().fold(sqlx::query(*sql), |query, value| match value {
                            Value::Int(n) => query.bind(*n),
                            Value::Text(text) => query.bind(Arc::clone(text)),
                            Value::Bytes(bytes) => query.bind(bytes.clone()),
                        });
                        let done = query.execute(&mut *connection).await.map_err(|error| Fault::new(what, error))?;
                        if matches!(change, Change::Must { .. }) && done.rows_affected() == 0 {
                            return Err(Fault::Taken(what));
                        }
                        *changed += done.rows_affected();
                    }
                }
            }
        }
        self.put(connection, table, &mut rows).await?;
        Ok(changed)
    }

    /// Applies each batch by itself: the faulty ones are undone, the others stay.
    pub(super) async fn apply_separately(
        &self,
        connection: &mut SqliteConnection,
        group: &[Batch],
    ) -> Result<Vec<Answer>, Fault> {
        let mut answers = Vec::with_capacity(group.len());
        for batch in group {
            let mut savepoint = connection.begin().await?;
            answers.push(match self.apply(&mut savepoint, std::slice::from_ref(batch)).await {
                Ok(changed) => {
                    savepoint.commit().await?;
                    Ok(changed.into_iter().sum())
                }
                Err(fault @ (Fault::Dangling(_) | Fault::Taken(_))) => {
                    savepoint.rollback().await?;
                    Err(StoreError::from(&fault))
                }
                Err(fault) => return Err(fault),
            });
        }
        Ok(answers)
    }

    /// Puts `rows` into `table`, in order, and leaves `rows` empty.
    async fn put(&self, connection: &mut SqliteConnection, table: Table, rows: &mut Vec<&Row>) -> Result<(), Fault> {
        let mut rest = rows.as_slice();
        for (rows_count, sql) in ROWS_PER_STATEMENT.iter().zip(&self.0[table as usize]) {
            while let Some((now, later)) = rest.split_at_checked(*rows_count) {
                let query = sqlx::query::<Sqlite>(AssertSqlSafe(Arc::clone(sql)));
                let query = now.iter().fold(query, |query, row| {
                    row.keys.iter().fold(query, |query, key| query.bind(*key)).bind(Arc::clone(&row.data))
                });
                query.execute(&mut *connection).await.map_err(|error| Fault::new(table.what(), error))?;
                rest = later;
            }
        }
        rows.clear();
        Ok(())
    }
}
