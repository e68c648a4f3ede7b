//! Full-text search by a `tsvector` per message: the index brought up to date, and read.
//!
//! Invariants  G1 as in `sqlite::search`: a row is locked against changes from when its data is compared until the
//!             commit. The transaction waits for no lock: rows that others have locked wait for the next call.
//! Limits      `INDEXED_AT_ONCE_MAX` messages per transaction, by one node at a time; `SEARCH_TIME_MAX` per search, by
//!             the server's `statement_timeout`.

use super::PostgresStore;
use crate::{
    INDEXED_AT_ONCE_MAX, MessageSearch, SEARCH_HITS_MAX, SearchIndex, SearchOrder, SearchPage, StoreError,
    search::{self, SEARCH_TIME_MAX},
    sql::Columns as _,
    stored::int,
};
use guildhall_model::{ChannelId, Message};
use sqlx::{PgConnection, PgPool, postgres::PgRow};
use std::collections::BTreeSet;

/// Code of a statement that took longer than `statement_timeout`.
const CANCELED: &str = "57014";

const PENDING: &str = "\
    SELECT pending.seq, pending.channel_id, pending.id, messages.data FROM search_pending AS pending \
    LEFT JOIN messages ON messages.channel_id = pending.channel_id AND messages.id = pending.id \
    ORDER BY pending.seq LIMIT $1";
const PROGRESS: &str = "SELECT channel_id, id, indexed FROM search_progress LIMIT 1";
const EARLIER: &str = "\
    SELECT 0::BIGINT, channel_id, id, data FROM messages WHERE (channel_id, id) > ($1, $2) \
    ORDER BY channel_id, id LIMIT $3";

/// Tokens of a message are separated by spaces.
const PUT: &str = "\
    INSERT INTO search_messages (channel_id, id, guild_id, tokens) \
    SELECT m.channel_id, m.id, m.guild_id, array_to_tsvector(string_to_array(t.tokens, ' ')) \
    FROM unnest($1::BIGINT[], $2::BIGINT[], $3::TEXT[], $4::TEXT[]) AS t (channel_id, id, data, tokens) \
    JOIN messages AS m ON m.channel_id = t.channel_id AND m.id = t.id AND m.data = t.data \
    FOR SHARE OF m SKIP LOCKED \
    ON CONFLICT (channel_id, id) DO UPDATE SET tokens = excluded.tokens RETURNING channel_id, id";

/// The page of a search: `$1` guild, `$2` query, `$3` and `$4` bounds, `$5` channels, `$6` messages to count, `$7`
/// limit, `$8` offset.
macro_rules! page {
    ($direction:literal) => {
        concat!(
            "WITH hits AS MATERIALIZED ( \
                SELECT channel_id, id FROM search_messages \
                WHERE guild_id = $1 AND tokens @@ $2::TSQUERY AND id > $3 AND id < $4 AND channel_id = ANY ($5) \
                ORDER BY id ",
            $direction,
            ", channel_id LIMIT $6) \
            SELECT (SELECT COUNT(*) FROM hits), page.channel_id, page.id FROM (SELECT 1) AS one LEFT JOIN \
            (SELECT channel_id, id FROM hits ORDER BY id ",
            $direction,
            ", channel_id LIMIT $7 OFFSET $8) AS page ON TRUE ORDER BY page.id ",
            $direction,
            ", page.channel_id"
        )
    };
}

const NEWEST_FIRST: &str = page!("DESC");
const OLDEST_FIRST: &str = page!("ASC");

/// Messages with their tokens, as columns.
#[derive(Default)]
struct Indexed {
    channels: Vec<i64>,
    ids: Vec<i64>,
    datas: Vec<String>,
    tokens: Vec<String>,
}

impl Indexed {
    /// A message that was deleted, or cannot be read, is left out.
    fn push(&mut self, row: &PgRow) -> Result<(), StoreError> {
        let data: Option<String> = sqlx::Row::try_get(row, 3)?;
        let Some(data) = data else { return Ok(()) };
        let (channel_id, id) = (row.int(1)?, row.int(2)?);
        let message: Message = match serde_json::from_str(&data) {
            Ok(message) => message,
            Err(error) => {
                tracing::warn!(message_id = id, %error, "a stored message cannot be read: search does not find it");
                return Ok(());
            }
        };
        // A message may wait more than once; one statement cannot put a row twice.
        let is_there = self.ids.iter().zip(&self.channels).any(|key| key == (&id, &channel_id));
        if let Some(tokens) = search::tokens(&message).filter(|_| !is_there) {
            self.channels.push(channel_id);
            self.ids.push(id);
            self.datas.push(data);
            self.tokens.push(tokens.into_iter().collect::<Vec<_>>().join(" "));
        }
        Ok(())
    }

    /// Messages that another transaction is changing, or has changed since they were read, wait on. Returns whether
    /// there are none.
    async fn put(self, connection: &mut PgConnection) -> Result<bool, StoreError> {
        if self.ids.is_empty() {
            return Ok(true);
        }
        let keys: Vec<(i64, i64)> = self.channels.iter().copied().zip(self.ids.iter().copied()).collect();
        let query = sqlx::query(PUT).bind(self.channels).bind(self.ids).bind(self.datas).bind(self.tokens);
        let rows = query.fetch_all(&mut *connection).await?;
        let put = rows.iter().map(|row| Ok((row.int(0)?, row.int(1)?))).collect::<Result<BTreeSet<_>, StoreError>>()?;
        let (channels, ids): (Vec<i64>, Vec<i64>) = keys.into_iter().filter(|key| !put.contains(key)).unzip();
        let is_all = ids.is_empty();
        if !is_all {
            let wait = "INSERT INTO search_pending (channel_id, id) SELECT * FROM unnest($1::BIGINT[], $2::BIGINT[])";
            sqlx::query(wait).bind(channels).bind(ids).execute(connection).await?;
        }
        Ok(is_all)
    }
}

/// Brings the index up to date, by one slice.
pub(super) async fn index(store: &PostgresStore, limit: u32) -> Result<SearchIndex, StoreError> {
    let limit = i64::from(limit.clamp(1, INDEXED_AT_ONCE_MAX));
    let mut transaction = store.claim.begin(&store.read_pool).await?;
    let lock = "SELECT pg_try_advisory_xact_lock(53, 0)";
    let is_mine: bool = sqlx::query_scalar(lock).fetch_one(&mut *transaction).await?;
    let progress = sqlx::query(PROGRESS).fetch_optional(&mut *transaction).await?;
    let progress = match &progress {
        Some(row) => Some((row.int(0)?, row.int(1)?, row.int(2)?)),
        None => None,
    };
    let building = |indexed: i64| SearchIndex::Building { indexed: indexed as u64 };
    if !is_mine {
        // Another call indexes now.
        return Ok(progress.map_or(SearchIndex::Behind, |(_, _, indexed)| building(indexed)));
    }
    let pending = sqlx::query(PENDING).bind(limit).fetch_all(&mut *transaction).await?;
    let mut indexed = Indexed::default();
    let state = match progress {
        _ if !pending.is_empty() => {
            let seqs = pending.iter().map(|row| row.int(0)).collect::<Result<Vec<i64>, _>>()?;
            let is_all = (pending.len() as i64) < limit;
            for row in &pending {
                indexed.push(row)?;
            }
            let delete = sqlx::query("DELETE FROM search_pending WHERE seq = ANY ($1)").bind(seqs);
            delete.execute(&mut *transaction).await?;
            match progress {
                Some((_, _, done)) => building(done),
                None if is_all => SearchIndex::Current,
                None => SearchIndex::Behind,
            }
        }
        None => return Ok(SearchIndex::Current),
        Some((channel_id, id, done)) => {
            let earlier = sqlx::query(EARLIER).bind(channel_id).bind(id).bind(limit);
            let earlier = earlier.fetch_all(&mut *transaction).await?;
            for row in &earlier {
                indexed.push(row)?;
            }
            let done = done + earlier.len() as i64;
            match earlier.last().filter(|_| earlier.len() as i64 == limit) {
                Some(last) => {
                    let update = sqlx::query("UPDATE search_progress SET channel_id = $1, id = $2, indexed = $3");
                    update.bind(last.int(1)?).bind(last.int(2)?).bind(done).execute(&mut *transaction).await?;
                    building(done)
                }
                None => {
                    sqlx::query("DELETE FROM search_progress").execute(&mut *transaction).await?;
                    SearchIndex::Behind
                }
            }
        }
    };
    let is_all = indexed.put(&mut transaction).await?;
    transaction.commit().await?;
    Ok(if is_all || state != SearchIndex::Current { state } else { SearchIndex::Behind })
}

fn is_canceled(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).as_deref() == Some(CANCELED)
}

pub(super) async fn search(pool: &PgPool, search: &MessageSearch) -> Result<SearchPage, StoreError> {
    let Some(clauses) = search.clauses() else { return Ok(SearchPage::default()) };
    let (after, before) = search.bounds();
    let channels: Vec<i64> = search.channels.iter().map(|id| int(*id)).collect();
    let sql = match search.order {
        SearchOrder::NewestFirst => NEWEST_FIRST,
        SearchOrder::OldestFirst => OLDEST_FIRST,
    };
    let mut transaction = pool.begin().await?;
    let timeout = "SELECT set_config('statement_timeout', $1, TRUE)";
    sqlx::query(timeout).bind(SEARCH_TIME_MAX.as_millis().to_string()).execute(&mut *transaction).await?;
    let query = sqlx::query(sql).bind(search.guild_id.map_or(0, int)).bind(clauses.tsquery()).bind(after).bind(before);
    let query = query.bind(channels).bind(i64::from(SEARCH_HITS_MAX));
    let query = query.bind(i64::from(search.limit)).bind(i64::from(search.offset));
    let rows = query.fetch_all(&mut *transaction).await;
    let rows = rows.map_err(|error| if is_canceled(&error) { StoreError::TooSlow } else { error.into() })?;
    let mut page = SearchPage::default();
    for row in &rows {
        page.total = row.int(0)? as u32;
        if let Some(channel_id) = row.int_or_null(1)? {
            page.messages.push((ChannelId::new(channel_id as u64), row.id(2)?));
        }
    }
    Ok(page)
}
