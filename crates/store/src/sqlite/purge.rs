//! Purge: the content of deleted guilds and channels, a slice at a time.
//!
//! Owns        the task that deletes what `Write::DeleteGuild` and `Write::DeleteChannel` marked (`0027_deleted.sql`).
//! Doors       `wake`, by the writer after it committed such a mark.
//! Why         deleting a million messages takes seconds; as one transaction it would delay every other write by as
//!             much.
//! Invariants  R1 marked content is invisible to every read, so a crash between two slices loses nothing; the next
//!             start resumes. R2 a slice deletes only what is marked when it is executed: an id that was used again
//!             meanwhile is left alone. (tests `s21_9_*`)
//! Limits      `SLICE_ROWS` per transaction; a pause as long as the slice before it, so that at least half of the
//!             writer's time is left for others; after a failure `RETRY`.

use super::{
    change::{Change, Value},
    writer::{Batch, Job},
};
use crate::StoreError;
use smallvec::SmallVec;
use sqlx::SqlitePool;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{Notify, mpsc::WeakSender, oneshot};

/// A thousand messages take some four milliseconds.
const SLICE_ROWS: i64 = 500;
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// A full disk cannot be purged either: deleting needs room in the write-ahead log.
const RETRY: Duration = Duration::from_secs(10);

const NEXT_CHANNEL: &str = "SELECT id FROM channels WHERE guild_id = 0 LIMIT 1";
const NEXT_GUILD: &str = "SELECT id FROM deleted_guilds WHERE id > 0 LIMIT 1";

const REACTIONS: &str = "\
    DELETE FROM reactions WHERE (channel_id, message_id, emoji_id, emoji_name, user_id) IN ( \
    SELECT channel_id, message_id, emoji_id, emoji_name, user_id FROM reactions \
    WHERE channel_id = ?1 AND EXISTS (SELECT 1 FROM channels WHERE id = ?1 AND guild_id = 0) LIMIT ?2)";
/// The oldest first. Files of a message go with it.
const MESSAGES: &str = "\
    DELETE FROM messages WHERE channel_id = ?1 AND EXISTS (SELECT 1 FROM channels WHERE id = ?1 AND guild_id = 0) \
    AND id <= COALESCE((SELECT id FROM messages WHERE channel_id = ?1 ORDER BY id LIMIT 1 OFFSET ?2), 9223372036854775807)";
const CHANNEL: &str = "DELETE FROM channels WHERE id = ?1 AND guild_id = 0 AND ?2 > 0";
const MEMBERS: &str = "\
    DELETE FROM members WHERE guild_id = ?1 AND EXISTS (SELECT 1 FROM deleted_guilds WHERE id = ?1) \
    AND user_id <= COALESCE((SELECT user_id FROM members WHERE guild_id = ?1 ORDER BY user_id LIMIT 1 OFFSET ?2), \
    9223372036854775807)";
const RESOURCES: &str = "\
    DELETE FROM guild_resources WHERE (guild_id, kind, id, part) IN ( \
    SELECT guild_id, kind, id, part FROM guild_resources \
    WHERE guild_id = ?1 AND EXISTS (SELECT 1 FROM deleted_guilds WHERE id = ?1) LIMIT ?2)";
const GUILD: &str = "DELETE FROM guilds WHERE id IN (SELECT id FROM deleted_guilds WHERE id = ?1 AND ?2 > 0)";
const MARK: &str = "\
    DELETE FROM deleted_guilds WHERE id = ?1 AND ?2 > 0 AND NOT EXISTS (SELECT 1 FROM guilds WHERE id = ?1)";

/// Purges until the store is closed.
pub(super) async fn run(jobs: WeakSender<Job>, read_pool: SqlitePool, wake: Arc<Notify>) {
    loop {
        match purge(&jobs, &read_pool).await {
            Ok(()) => wake.notified().await,
            Err(StoreError::Closed) => return,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "deleted content was not purged; a later pass retries"
                );
                tokio::select! {
                    () = tokio::time::sleep(RETRY) => {}
                    // A dropped store does not wait for it.
                    () = wake.notified() => {}
                }
            }
        }
        if jobs.upgrade().is_none() {
            return;
        }
    }
}

/// Purges everything that is marked.
async fn purge(jobs: &WeakSender<Job>, read_pool: &SqlitePool) -> Result<(), StoreError> {
    let next = async |sql: &'static str| -> Result<Option<i64>, StoreError> {
        Ok(sqlx::query_scalar(sql).fetch_optional(read_pool).await?)
    };
    while let Some(channel_id) = next(NEXT_CHANNEL).await? {
        for sql in [REACTIONS, MESSAGES] {
            while slice(jobs, &[sql], channel_id).await? > 0 {}
        }
        slice(jobs, &[CHANNEL], channel_id).await?;
    }
    while let Some(guild_id) = next(NEXT_GUILD).await? {
        for sql in [MEMBERS, RESOURCES] {
            while slice(jobs, &[sql], guild_id).await? > 0 {}
        }
        slice(jobs, &[GUILD, MARK], guild_id).await?;
    }
    Ok(())
}

/// One transaction's share. Returns how many rows it deleted.
async fn slice(jobs: &WeakSender<Job>, statements: &[&'static str], id: i64) -> Result<u64, StoreError> {
    let began = Instant::now();
    let values: SmallVec<[Value; 5]> = SmallVec::from_iter([Value::Int(id), Value::Int(SLICE_ROWS)]);
    let change = |sql: &&'static str| Change::Run { what: "deleted content", sql, values: values.clone() };
    let (reply, answer) = oneshot::channel();
    let batch = Batch { changes: statements.iter().map(change).collect(), reply };
    {
        let jobs = jobs.upgrade().ok_or(StoreError::Closed)?;
        jobs.send(Job::Commit(batch)).await.map_err(|_| StoreError::Closed)?;
    }
    let deleted = answer.await.map_err(|_| StoreError::Closed)??;
    tokio::time::sleep(began.elapsed().max(PAUSE_MIN)).await;
    Ok(deleted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::change;
    use sqlx::Row as _;

    /// A slice must not visit rows that it does not delete.
    #[tokio::test]
    async fn no_slice_scans() {
        let pool = crate::sqlite::pool_options(1).connect_with(crate::sqlite::connect_options(&Default::default()));
        let pool = pool.await.unwrap();
        crate::sqlite::migrate(&mut pool.acquire().await.unwrap()).await.unwrap();
        let expiry = [change::EXPIRE_REACTIONS, change::EXPIRE_MESSAGES];
        let purge = [NEXT_CHANNEL, NEXT_GUILD, REACTIONS, MESSAGES, CHANNEL, MEMBERS, RESOURCES, GUILD, MARK];
        for sql in purge.into_iter().chain(expiry) {
            let plan = sqlx::query(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"))).fetch_all(&pool).await;
            for step in plan.unwrap().iter().map(|row| row.get::<String, _>("detail")) {
                assert!(!step.starts_with("SCAN") && !step.contains("TEMP B-TREE"), "{step}: {sql}");
            }
        }
    }
}
