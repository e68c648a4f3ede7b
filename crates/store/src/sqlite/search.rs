//! Full-text search by FTS5: the index brought up to date, and read.
//!
//! Invariants  G1 a row of the index belongs to the message as it is stored: triggers remove it with a change
//!             (`0053_search.sql`), and a batch adds it only if the message still has the data that its tokens
//!             were made of.
//! Limits      `INDEXED_AT_ONCE_MAX` messages per transaction; `SEARCH_TIME_MAX` per search, checked
//!             every `STEPS` steps.

use super::{
    SqliteStore,
    change::{Change, Value, run},
};
use crate::{
    INDEXED_AT_ONCE_MAX, MessageSearch, SEARCH_HITS_MAX, SearchIndex, SearchOrder, SearchPage, StoreError,
    search::{self, SEARCH_TIME_MAX},
    sql::Columns as _,
};
use guildhall_model::{ChannelId, Message};
use sqlx::{SqlitePool, sqlite::SqliteRow};
use std::{sync::Arc, time::Instant};

/// Steps of a statement between two looks at the clock: some 50 µs.
const STEPS: i32 = 10_000;
/// SQLITE_INTERRUPT, which a statement returns that the clock has ended.
const INTERRUPTED: &str = "9";

const PENDING: &str = "\
    SELECT pending.seq, pending.channel_id, pending.id, messages.data FROM search_pending AS pending \
    LEFT JOIN messages ON messages.channel_id = pending.channel_id AND messages.id = pending.id \
    ORDER BY pending.seq LIMIT ?1";
const PROGRESS: &str = "SELECT channel_id, id, indexed FROM search_progress LIMIT 1";
const EARLIER: &str = "\
    SELECT 0, channel_id, id, data FROM messages WHERE (channel_id, id) > (?1, ?2) ORDER BY channel_id, id LIMIT ?3";

/// Selects a free key for message `?2` of channel `?1`, if it still has data `?3` and is not in the index.
macro_rules! with_free_key {
    ($head:literal, $columns:literal) => {
        concat!(
            $head,
            " SELECT ?2 + ahead.column1, ",
            $columns,
            " FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7)) AS ahead \
            WHERE EXISTS (SELECT 1 FROM messages WHERE channel_id = ?1 AND id = ?2 AND data = ?3) \
            AND NOT EXISTS (SELECT 1 FROM search_messages AS other WHERE other.key BETWEEN ?2 AND ?2 + 7 \
                AND other.key - other.ahead = ?2 AND other.channel_id = ?1) \
            AND NOT EXISTS (SELECT 1 FROM search_messages AS other WHERE other.key = ?2 + ahead.column1) \
            ORDER BY ahead.column1 LIMIT 1"
        )
    };
}

const PUT_TOKENS: &str = with_free_key!("INSERT INTO search_index (rowid, tokens)", "?4");
/// After `PUT_TOKENS`, which selects the same key.
const PUT_MESSAGE: &str = with_free_key!("INSERT INTO search_messages (key, channel_id, ahead)", "?1, ahead.column1");

/// The page of a search: `?1` query, `?2` and `?3` bounds, `?4` channels, `?5` messages to count, `?6`
/// limit, `?7` offset.
macro_rules! page {
    ($direction:literal) => {
        concat!(
            "WITH hits AS MATERIALIZED ( \
                SELECT m.key, m.channel_id, m.key - m.ahead AS id \
                FROM search_index CROSS JOIN search_messages AS m ON m.key = search_index.rowid \
                WHERE search_index MATCH ?1 AND search_index.rowid > ?2 AND search_index.rowid < ?3 + 7 \
                AND m.key - m.ahead > ?2 AND m.key - m.ahead < ?3 \
                AND m.channel_id IN (SELECT value FROM json_each(?4)) \
                ORDER BY search_index.rowid ",
            $direction,
            " LIMIT ?5) \
            SELECT (SELECT COUNT(*) FROM hits), page.channel_id, page.id FROM (SELECT 1) LEFT JOIN \
            (SELECT channel_id, id, key FROM hits ORDER BY key ",
            $direction,
            " LIMIT ?6 OFFSET ?7) AS page ORDER BY page.key ",
            $direction
        )
    };
}

const NEWEST_FIRST: &str = page!("DESC");
const OLDEST_FIRST: &str = page!("ASC");

/// A message to be indexed: position in `search_pending`, key, data. Without data it was deleted.
struct Waiting {
    seq: i64,
    channel_id: i64,
    id: i64,
    data: Option<Arc<str>>,
}

impl Waiting {
    fn read(row: &SqliteRow) -> Result<Self, StoreError> {
        let data: Option<String> = sqlx::Row::try_get(row, 3)?;
        Ok(Self { seq: row.int(0)?, channel_id: row.int(1)?, id: row.int(2)?, data: data.map(Into::into) })
    }

    /// Puts it into the index. A message that cannot be read is left out.
    fn put(&self, changes: &mut Vec<Change>) {
        let Some(data) = &self.data else { return };
        let message: Message = match serde_json::from_str(data) {
            Ok(message) => message,
            Err(error) => {
                tracing::warn!(message_id = self.id, %error, "a stored message cannot be read: search does not find it");
                return;
            }
        };
        let Some(tokens) = search::tokens(&message) else { return };
        let tokens = tokens.into_iter().collect::<Vec<_>>().join(" ");
        let key = [Value::Int(self.channel_id), Value::Int(self.id), Value::Text(Arc::clone(data))];
        let [channel_id, id, data] = key.clone();
        changes.push(run("message", PUT_TOKENS, [channel_id, id, data, Value::Text(tokens.into())]));
        changes.push(run("message", PUT_MESSAGE, key));
    }
}

/// Brings the index up to date, by one slice.
pub(super) async fn index(store: &SqliteStore, limit: u32) -> Result<SearchIndex, StoreError> {
    let _one_at_a_time = store.indexing.lock().await;
    let limit = i64::from(limit.clamp(1, INDEXED_AT_ONCE_MAX));
    let pool = &store.read_pool;
    let pending = sqlx::query(PENDING).bind(limit).fetch_all(pool).await?;
    let pending = pending.iter().map(Waiting::read).collect::<Result<Vec<_>, _>>()?;
    let mut changes = Vec::with_capacity(2 * pending.len() + 1);
    if let Some(last) = pending.last() {
        pending.iter().for_each(|waiting| waiting.put(&mut changes));
        // The writer's transactions are visible in their order, so that all up to it were read.
        changes.push(run("message", "DELETE FROM search_pending WHERE seq <= ?1", [Value::Int(last.seq)]));
        store.write(changes).await?;
    }
    let Some(progress) = sqlx::query(PROGRESS).fetch_optional(pool).await? else {
        return Ok(if (pending.len() as i64) < limit { SearchIndex::Current } else { SearchIndex::Behind });
    };
    let (channel_id, id, indexed) = (progress.int(0)?, progress.int(1)?, progress.int(2)?);
    if !pending.is_empty() {
        return Ok(SearchIndex::Building { indexed: indexed as u64 });
    }
    let earlier = sqlx::query(EARLIER).bind(channel_id).bind(id).bind(limit).fetch_all(pool).await?;
    let earlier = earlier.iter().map(Waiting::read).collect::<Result<Vec<_>, _>>()?;
    let mut changes = Vec::with_capacity(2 * earlier.len() + 1);
    earlier.iter().for_each(|waiting| waiting.put(&mut changes));
    let last = earlier.last().filter(|_| earlier.len() as i64 == limit);
    let indexed = indexed + earlier.len() as i64;
    changes.push(match last {
        Some(last) => run(
            "message",
            "UPDATE search_progress SET channel_id = ?1, id = ?2, indexed = ?3",
            [last.channel_id, last.id, indexed].map(Value::Int),
        ),
        None => run("message", "DELETE FROM search_progress WHERE indexed <= ?1", [Value::Int(indexed)]),
    });
    let is_built = last.is_none();
    store.write(changes).await?;
    Ok(if is_built { SearchIndex::Behind } else { SearchIndex::Building { indexed: indexed as u64 } })
}

pub(super) async fn search(pool: &SqlitePool, search: &MessageSearch) -> Result<SearchPage, StoreError> {
    let Some(clauses) = search.clauses() else { return Ok(SearchPage::default()) };
    let (after, before) = search.bounds();
    let channels: Vec<i64> = search.channels.iter().map(|id| crate::stored::int(*id)).collect();
    let channels = serde_json::to_string(&channels).map_err(|source| StoreError::Encode { what: "search", source })?;
    let sql = match search.order {
        SearchOrder::NewestFirst => NEWEST_FIRST,
        SearchOrder::OldestFirst => OLDEST_FIRST,
    };
    let (query, limit, offset) = (clauses.fts5(), search.limit, search.offset);
    let pool = pool.clone();
    // A task of its own: it always removes the handler from the connection.
    let found = tokio::spawn(async move {
        let mut connection = pool.acquire().await?;
        let ends = Instant::now() + SEARCH_TIME_MAX;
        connection.lock_handle().await?.set_progress_handler(STEPS, move || Instant::now() < ends);
        let query = sqlx::query(sql).bind(query).bind(after).bind(before).bind(channels);
        let query = query.bind(i64::from(SEARCH_HITS_MAX)).bind(i64::from(limit)).bind(i64::from(offset));
        let rows = query.fetch_all(&mut *connection).await;
        connection.lock_handle().await?.remove_progress_handler();
        rows
    });
    let rows = found.await.map_err(|_| StoreError::Closed)?;
    let rows = rows.map_err(|error| if is_interrupted(&error) { StoreError::TooSlow } else { error.into() })?;
    page(&rows)
}

fn is_interrupted(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).as_deref() == Some(INTERRUPTED)
}

/// Rows of a page: each with the number of all results; without results one with nulls.
fn page(rows: &[SqliteRow]) -> Result<SearchPage, StoreError> {
    let mut page = SearchPage::default();
    for row in rows {
        page.total = row.int(0)? as u32;
        if let Some(channel_id) = row.int_or_null(1)? {
            page.messages.push((ChannelId::new(channel_id as u64), row.id(2)?));
        }
    }
    Ok(page)
}
