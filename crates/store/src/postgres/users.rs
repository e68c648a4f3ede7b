//! Changes of accounts that state the version of which they were made.
//!
//! Invariants  an account is stored by the statement that compares its version: of two changes of one version
//!             PostgreSQL carries out one (isolation level READ COMMITTED: the second waits, and compares again).
//! Limits      `CONFLICTS_MAX` repetitions, when two transactions waited for each other.

use super::{PostgresStore, fault::Fault};
use crate::{StoreError, UserChange, stored::int};

const CONFLICTS_MAX: u32 = 3;

const INSERT: &str = "\
    INSERT INTO users (id, data) SELECT * FROM unnest($1::BIGINT[], $2::TEXT[]) ON CONFLICT DO NOTHING";
/// The trigger `users_version` raises the version.
const UPDATE: &str = "\
    UPDATE users SET data = changed.data FROM unnest($1::BIGINT[], $2::TEXT[], $3::BIGINT[]) AS changed (id, data, expected) \
    WHERE users.id = changed.id AND users.version = changed.expected";

/// Columns of accounts.
#[derive(Debug, Default)]
struct Rows {
    ids: Vec<i64>,
    data: Vec<String>,
    expected: Vec<i64>,
}

pub(super) async fn change(store: &PostgresStore, changes: &[UserChange]) -> Result<u64, StoreError> {
    // In the order of ids, so that two transactions with the same accounts seldom wait for each other.
    let mut changes: Vec<&UserChange> = changes.iter().collect();
    changes.sort_unstable_by_key(|change| change.user.id);
    let (mut new, mut known) = (Rows::default(), Rows::default());
    for change in changes {
        let data = serde_json::to_string(&*change.user);
        let data = data.map_err(|source| StoreError::Encode { what: "account", source })?;
        let rows = if change.expected.is_some() { &mut known } else { &mut new };
        rows.ids.push(int(change.user.id));
        rows.data.push(data);
        rows.expected.extend(change.expected.map(|version| version.0 as i64));
    }
    let mut conflicts_count = 0;
    loop {
        match transaction(store, &new, &known).await {
            Err(Fault::Conflict(_)) if conflicts_count < CONFLICTS_MAX => conflicts_count += 1,
            done => return done.map_err(StoreError::from),
        }
    }
}

async fn transaction(store: &PostgresStore, new: &Rows, known: &Rows) -> Result<u64, Fault> {
    let mut transaction = store.claim.begin(&store.read_pool).await?;
    let mut changed = 0;
    if !new.ids.is_empty() {
        let insert = sqlx::query(INSERT).bind(&new.ids).bind(&new.data);
        changed += insert.execute(&mut *transaction).await?.rows_affected();
    }
    if !known.ids.is_empty() {
        let update = sqlx::query(UPDATE).bind(&known.ids).bind(&known.data).bind(&known.expected);
        changed += update.execute(&mut *transaction).await?.rows_affected();
    }
    transaction.commit().await?;
    Ok(changed)
}
