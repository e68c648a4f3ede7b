//! Copy: everything of an SQLite database into an empty PostgreSQL database.
//!
//! Invariants  C1 all or nothing: one transaction of the target, which states the epoch. C2 the source is one snapshot,
//!             locked against a node. C3 each table has as many rows afterwards as before, or the copy fails. (tests
//!             `copy::*`)
//! Limits      `ROWS_MAX` rows or `BYTES_MAX` bytes are in memory at once. The transaction takes as long as the copy;
//!             vacuum of the target waits for it.
//! Not here    files: they stay in the data directory.

use super::PostgresStore;
use crate::{SqliteStore, StoreError};
use futures_util::TryStreamExt as _;
use sqlx::{AssertSqlSafe, PgConnection, Row as _, SqliteConnection, sqlite::SqliteRow};

const ROWS_MAX: usize = 2_000;
const BYTES_MAX: usize = 8 << 20;

/// Rows that were copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Tables with the number of their rows, in the order in which they were copied.
    pub tables: Vec<(&'static str, u64)>,
}

impl Copied {
    /// Rows of all tables.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|(_, rows)| rows).sum()
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Int,
    /// Perhaps null.
    MaybeInt,
    Text,
    Bytes,
}

/// A table of both databases.
struct Table {
    name: &'static str,
    /// Name, expression of the source, type.
    columns: &'static [(&'static str, &'static str, Kind)],
    /// Which rows of the source; the target's first migration has made the others.
    rows: &'static str,
}

/// A table that is copied whole.
const fn table(name: &'static str, columns: &'static [(&'static str, &'static str, Kind)]) -> Table {
    Table { name, columns, rows: "" }
}

const DATA: (&str, &str, Kind) = ("data", "data", Kind::Text);
const ID: (&str, &str, Kind) = ("id", "id", Kind::Int);
const GUILD: (&str, &str, Kind) = ("guild_id", "guild_id", Kind::Int);
const CHANNEL: (&str, &str, Kind) = ("channel_id", "channel_id", Kind::Int);
const MESSAGE: (&str, &str, Kind) = ("message_id", "message_id", Kind::Int);
const AUTHOR: (&str, &str, Kind) = ("author_id", "author_id", Kind::Int);
const USER: (&str, &str, Kind) = ("user_id", "user_id", Kind::Int);
/// Of threads only.
const PARENT: &str = "CASE WHEN data ->> '$.type' BETWEEN 10 AND 12 THEN CAST(data ->> '$.parent_id' AS INTEGER) END";

/// In an order in which no row refers to a later one.
const TABLES: [Table; 20] = [
    table("users", &[ID, DATA]),
    Table { name: "guilds", columns: &[ID, DATA], rows: "WHERE id <> 0" },
    Table { name: "deleted_guilds", columns: &[ID], rows: "WHERE id <> 0" },
    table("directs", &[ID]),
    table("direct_pairs", &[("low", "low", Kind::Int), ("high", "high", Kind::Int), ID]),
    table("roles", &[GUILD, ID, DATA]),
    table("channels", &[ID, GUILD, ("parent_id", PARENT, Kind::MaybeInt), DATA]),
    table("members", &[GUILD, USER, DATA]),
    table("messages", &[CHANNEL, ID, GUILD, AUTHOR, DATA]),
    table(
        "reactions",
        &[
            CHANNEL,
            MESSAGE,
            ("emoji_id", "emoji_id", Kind::Int),
            ("emoji_name", "CAST(emoji_name AS BLOB)", Kind::Bytes),
            USER,
            ("ordinal", "ordinal", Kind::Int),
            ("first_use", "first_use", Kind::Int),
        ],
    ),
    table("attachments", &[CHANNEL, MESSAGE, ID]),
    table("mentions", &[("kind", "kind", Kind::Int), ("target_id", "target_id", Kind::Int), CHANNEL, MESSAGE, AUTHOR]),
    table(
        "read_states",
        &[
            USER,
            CHANNEL,
            ("last_message_id", "last_message_id", Kind::Int),
            ("last_pin", "last_pin", Kind::Int),
            ("flags", "flags", Kind::Int),
            ("last_viewed", "last_viewed", Kind::Int),
        ],
    ),
    table("guild_resources", &[GUILD, ("kind", "kind", Kind::Int), ID, ("part", "part", Kind::Int), DATA]),
    table("external_ids", &[("kind", "kind", Kind::Int), ("external_id", "external_id", Kind::Text), ID]),
    table("retention", &[ID, ("keep_days", "keep_days", Kind::Int)]),
    table("tokens", &[("hash", "hash", Kind::Bytes), USER, ("created_at", "created_at", Kind::Int)]),
    table("records", &[("kind", "kind", Kind::Text), ("id", "id", Kind::Bytes), ("data", "data", Kind::Bytes)]),
    table(
        "events",
        &[
            ("seq", "seq", Kind::Int),
            ("id", "seq", Kind::Int),
            ("at", "at", Kind::Int),
            ("kind", "kind", Kind::Int),
            GUILD,
            CHANNEL,
            DATA,
        ],
    ),
    table("settings", &[("name", "name", Kind::Text), ("value", "value", Kind::Bytes)]),
];

/// Copies a database. `to` must be empty. `progress` is called with each table, its rows so far, and all its rows.
///
/// # Errors
/// `NotEmpty` when the target has content, `CopyIncomplete` when its rows are not as many as those of the source; those
/// of both databases. Nothing was written then.
pub async fn copy_sqlite_to_postgres(
    from: &SqliteStore,
    to: &PostgresStore,
    mut progress: impl FnMut(&'static str, u64, u64),
) -> Result<Copied, StoreError> {
    let mut source = from.read_pool.begin().await?;
    let mut target = to.claim.begin(&to.write_pool).await?;
    for table in &TABLES {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {} {})", table.name, table.rows);
        let has_rows: bool = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut *target).await?;
        if has_rows {
            return Err(StoreError::NotEmpty { table: table.name });
        }
    }
    let mut copied = Copied::default();
    for table in &TABLES {
        let rows_total: i64 = sqlx::query_scalar(count_sql(table)).fetch_one(&mut *source).await?;
        if table.name == "mentions" {
            // Those that the trigger made of the messages: older messages have none in the source.
            sqlx::query("DELETE FROM mentions").execute(&mut *target).await?;
        }
        let mut progress = |rows| progress(table.name, rows, rows_total as u64);
        let rows = copy_table(table, &mut source, &mut target, &mut progress).await?;
        let counted: i64 = sqlx::query_scalar(count_sql(table)).fetch_one(&mut *target).await?;
        if rows_total != counted || rows != counted as u64 {
            return Err(StoreError::CopyIncomplete { table: table.name });
        }
        copied.tables.push((table.name, rows));
    }
    // Reactions continue where they were.
    let ordinal: i64 =
        sqlx::query_scalar("SELECT value FROM counters WHERE name = 'reactions'").fetch_one(&mut *source).await?;
    sqlx::query("SELECT setval('reaction_ordinals', $1)").bind(ordinal.max(1)).execute(&mut *target).await?;
    // Positions of the feed, too.
    let pruned: i64 = sqlx::query_scalar("SELECT seq FROM events_pruned").fetch_one(&mut *source).await?;
    sqlx::query("UPDATE events_pruned SET seq = $1").bind(pruned).execute(&mut *target).await?;
    source.commit().await?;
    target.commit().await?;
    // The planner has no statistics of the new rows yet.
    sqlx::query("ANALYZE").execute(&to.write_pool).await?;
    Ok(copied)
}

async fn copy_table(
    table: &Table,
    source: &mut SqliteConnection,
    target: &mut PgConnection,
    progress: &mut impl FnMut(u64),
) -> Result<u64, StoreError> {
    let select: Vec<&str> = table.columns.iter().map(|(_, expression, _)| *expression).collect();
    let select = format!("SELECT {} FROM {} {}", select.join(", "), table.name, table.rows);
    let insert = insert_sql(table);
    let mut rows = sqlx::query(AssertSqlSafe(select)).fetch(source);
    let mut copied = 0;
    let mut chunk = Chunk::new(table);
    loop {
        let row = rows.try_next().await?;
        if let Some(row) = &row {
            chunk.push(row)?;
        }
        if chunk.is_full() || row.is_none() && chunk.rows > 0 {
            let full = std::mem::replace(&mut chunk, Chunk::new(table));
            let expected = full.rows as u64;
            let inserted = full.insert(&insert, target).await?;
            if inserted != expected {
                return Err(StoreError::CopyIncomplete { table: table.name });
            }
            copied += inserted;
            progress(copied);
        }
        if row.is_none() {
            return Ok(copied);
        }
    }
}

/// Number of the rows to copy; the same for both databases.
fn count_sql(table: &Table) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!("SELECT COUNT(*) FROM {} {}", table.name, table.rows))
}

fn insert_sql(table: &Table) -> String {
    let names: Vec<&str> = table.columns.iter().map(|(name, ..)| *name).collect();
    let parameter = |(n, (.., kind)): (usize, &(_, _, Kind))| {
        let array = match kind {
            Kind::Int | Kind::MaybeInt => "BIGINT[]",
            Kind::Text => "TEXT[]",
            Kind::Bytes => "BYTEA[]",
        };
        format!("${}::{array}", n + 1)
    };
    let parameters: Vec<String> = table.columns.iter().enumerate().map(parameter).collect();
    format!("INSERT INTO {} ({}) SELECT * FROM unnest({})", table.name, names.join(", "), parameters.join(", "))
}

/// Values of one column.
enum Column {
    Int(Vec<Option<i64>>),
    Text(Vec<String>),
    Bytes(Vec<Vec<u8>>),
}

/// Rows on their way.
struct Chunk {
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

impl Chunk {
    fn new(table: &Table) -> Self {
        let column = |(.., kind): &(_, _, Kind)| match kind {
            Kind::Int | Kind::MaybeInt => Column::Int(Vec::new()),
            Kind::Text => Column::Text(Vec::new()),
            Kind::Bytes => Column::Bytes(Vec::new()),
        };
        Self { columns: table.columns.iter().map(column).collect(), rows: 0, bytes: 0 }
    }

    fn is_full(&self) -> bool {
        self.rows >= ROWS_MAX || self.bytes >= BYTES_MAX
    }

    fn push(&mut self, row: &SqliteRow) -> Result<(), StoreError> {
        for (n, column) in self.columns.iter_mut().enumerate() {
            self.bytes += match column {
                Column::Int(values) => {
                    values.push(row.try_get(n)?);
                    size_of::<i64>()
                }
                Column::Text(values) => {
                    values.push(row.try_get(n)?);
                    values.last().map_or(0, String::len)
                }
                Column::Bytes(values) => {
                    values.push(row.try_get(n)?);
                    values.last().map_or(0, Vec::len)
                }
            };
        }
        self.rows += 1;
        Ok(())
    }

    async fn insert(self, sql: &str, target: &mut PgConnection) -> Result<u64, StoreError> {
        let mut query = sqlx::query(AssertSqlSafe(sql.to_owned()));
        for column in self.columns {
            query = match column {
                Column::Int(values) => query.bind(values),
                Column::Text(values) => query.bind(values),
                Column::Bytes(values) => query.bind(values),
            };
        }
        Ok(query.execute(target).await?.rows_affected())
    }
}
