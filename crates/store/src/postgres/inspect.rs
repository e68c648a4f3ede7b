//! Inspection: reads facts about a database without a claim, also while a node runs on it.

use super::{ENCODING, PostgresOptions, holder, read};
use crate::{Inspection, StoreError, migrations};
use sqlx::Connection as _;
use std::sync::Arc;

/// Reads version, size and contents of a database. None: it is empty, and the first start of a node fills it.
///
/// # Errors
/// `Server` when it cannot be reached, `Encoding` when it has the wrong one, `Database` when it cannot be read.
pub async fn inspect_postgres(options: &PostgresOptions) -> Result<Option<Inspection>, StoreError> {
    let server = options.server();
    let open = |error| StoreError::Server { server: server.clone(), source: Arc::new(error) };
    let mut connection = holder::connect(options).await.map_err(open)?;
    check_encoding(&mut connection, options).await?;
    let sql = "SELECT to_regclass('_sqlx_migrations') IS NOT NULL";
    let has_schema: bool = sqlx::query_scalar(sql).fetch_one(&mut connection).await?;
    if !has_schema {
        return Ok(None);
    }
    let sql = "SELECT MAX(version) FROM _sqlx_migrations";
    let schema: Option<i64> = sqlx::query_scalar(sql).fetch_one(&mut connection).await?;
    let schema_known = migrations::newest(&migrations::POSTGRES);
    let largest_id = read::largest_id(&mut connection).await?;
    connection.close().await?;
    Ok(Some(Inspection { schema: schema.unwrap_or(0), schema_known, largest_id, check_ms: 0 }))
}

/// Fails unless the database can store every text.
pub(super) async fn check_encoding(
    connection: &mut sqlx::PgConnection,
    options: &PostgresOptions,
) -> Result<(), StoreError> {
    let found: String = sqlx::query_scalar("SHOW server_encoding").fetch_one(connection).await?;
    if found == ENCODING { Ok(()) } else { Err(StoreError::Encoding { server: options.server(), found }) }
}
