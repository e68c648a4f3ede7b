//! Purge: the content of deleted guilds and channels, a slice at a time.
//!
//! Owns        the task that deletes what `guildhall_apply_1` marked.
//! Why         deleting a million messages takes minutes. As one transaction it would hold back vacuum for as long, and
//!             a failure would waste all of it.
//! Invariants  R1 marked content is invisible to every read, so a crash between two slices loses nothing; the next
//!             start resumes. R2 a slice deletes only what is marked when it is executed: an id that was used again is
//!             left alone.
//! Limits      `SLICE_ROWS` per transaction; a pause as long as the slice before it; after a failure `RETRY`.

use super::{claim::Claim, fault::Fault};
use crate::StoreError;
use sqlx::PgPool;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Notify;

const SLICE_ROWS: i64 = 500;
const PAUSE_MIN: Duration = Duration::from_millis(1);
const RETRY: Duration = Duration::from_secs(10);

const NEXT_CHANNEL: &str = "SELECT id FROM channels WHERE guild_id = 0 LIMIT 1";
const NEXT_GUILD: &str = "SELECT id FROM deleted_guilds WHERE id > 0 LIMIT 1";

const REACTIONS: &str = "\
    DELETE FROM reactions WHERE ctid = ANY (ARRAY( \
    SELECT ctid FROM reactions WHERE channel_id = $1 \
    AND EXISTS (SELECT 1 FROM channels WHERE id = $1 AND guild_id = 0) LIMIT $2 FOR UPDATE))";
/// The oldest first. Files of a message are deleted with it.
const MESSAGES: &str = "\
    DELETE FROM messages WHERE channel_id = $1 AND EXISTS (SELECT 1 FROM channels WHERE id = $1 AND guild_id = 0) \
    AND id <= COALESCE((SELECT id FROM messages WHERE channel_id = $1 ORDER BY id LIMIT 1 OFFSET $2), \
    9223372036854775807)";
const CHANNEL: &str = "DELETE FROM channels WHERE id = $1 AND guild_id = 0 AND $2::BIGINT > 0";
const MEMBERS: &str = "\
    DELETE FROM members WHERE guild_id = $1 AND EXISTS (SELECT 1 FROM deleted_guilds WHERE id = $1) \
    AND user_id <= COALESCE((SELECT user_id FROM members WHERE guild_id = $1 ORDER BY user_id LIMIT 1 OFFSET $2), \
    9223372036854775807)";
const RESOURCES: &str = "\
    DELETE FROM guild_resources WHERE ctid = ANY (ARRAY( \
    SELECT ctid FROM guild_resources WHERE guild_id = $1 \
    AND EXISTS (SELECT 1 FROM deleted_guilds WHERE id = $1) LIMIT $2 FOR UPDATE))";
/// The mark, too: both at once.
const GUILD: &str = "\
    WITH marked AS (DELETE FROM deleted_guilds WHERE id = $1 AND $2::BIGINT > 0 RETURNING id) \
    DELETE FROM guilds WHERE id IN (SELECT id FROM marked)";

/// Purges until the store is closed.
pub(super) async fn run(pool: PgPool, claim: Arc<Claim>, wake: Arc<Notify>) {
    loop {
        match purge(&pool, &claim).await {
            Ok(()) => wake.notified().await,
            Err(StoreError::Closed | StoreError::Fenced) => return,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "deleted content was not purged; a later pass retries"
                );
                tokio::select! {
                    () = tokio::time::sleep(RETRY) => {}
                    // Closing does not wait for it.
                    () = wake.notified() => {}
                }
            }
        }
        if pool.is_closed() {
            return;
        }
    }
}

/// Purges everything that is marked.
async fn purge(pool: &PgPool, claim: &Claim) -> Result<(), StoreError> {
    let next = async |sql: &'static str| -> Result<Option<i64>, StoreError> {
        Ok(sqlx::query_scalar(sql).fetch_optional(pool).await?)
    };
    while let Some(channel_id) = next(NEXT_CHANNEL).await? {
        for sql in [REACTIONS, MESSAGES] {
            while slice(pool, claim, sql, channel_id).await? > 0 {}
        }
        slice(pool, claim, CHANNEL, channel_id).await?;
    }
    while let Some(guild_id) = next(NEXT_GUILD).await? {
        for sql in [MEMBERS, RESOURCES] {
            while slice(pool, claim, sql, guild_id).await? > 0 {}
        }
        slice(pool, claim, GUILD, guild_id).await?;
    }
    Ok(())
}

/// One transaction. Returns how many rows it deleted.
async fn slice(pool: &PgPool, claim: &Claim, sql: &'static str, id: i64) -> Result<u64, StoreError> {
    let began = Instant::now();
    let deleted = async {
        let mut transaction = claim.begin(pool).await?;
        let deleted = sqlx::query(sql).bind(id).bind(SLICE_ROWS).execute(&mut *transaction).await?.rows_affected();
        transaction.commit().await?;
        Ok::<_, Fault>(deleted)
    };
    let deleted = deleted.await?;
    tokio::time::sleep(began.elapsed().max(PAUSE_MIN)).await;
    Ok(deleted)
}
