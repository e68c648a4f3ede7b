//! Retention: deletes messages that are older than their retention.
//!
//! Owns        the task that deletes them (`Retention`), and its counters.
//! Doors       `Node::keep_messages` in the background; `Node::expire_messages` once.
//! Invariants  N1 a channel's guild forgets expired messages before the store deletes them, so no command in progress
//!             refers to one. N2 the database's writer is free for at least half of the time. N3 a pass that fails or
//!             is interrupted by a restart loses nothing: the next one starts again. (tests `it/retention.rs`)
//! Limits      a pass per `EVERY`; `CHANNELS_PER_READ` channels per read, with `PAUSE` between; `SLICE_ROWS` rows per
//!             transaction, with a pause as long as the transaction took.
//! Not here    files: the sweep of `guildhall-media` removes those of deleted messages. Events: none are sent.

use crate::Node;
use guildhall_guild::{Actor, Command, Refusal};
use guildhall_model::{ChannelId, smallest_id_at};
use guildhall_stdx::Timestamp;
use guildhall_store::{MessageAge, StoreError};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::{task::JoinHandle, time::sleep};

const EVERY: Duration = Duration::from_secs(3600);
/// Delay after the start, so that the start does not compete with it.
const FIRST_AFTER: Duration = Duration::from_secs(60);
const CHANNELS_PER_READ: u32 = 256;
const PAUSE: Duration = Duration::from_millis(20);
/// As purging deleted content: a thousand messages take some four milliseconds.
const SLICE_ROWS: u32 = 500;
const SLICE_PAUSE_MIN: Duration = Duration::from_millis(1);
const DAY_MS: i64 = 86_400_000;

/// Counters of retention since the start of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionCounts {
    /// Messages deleted.
    pub messages: u64,
    /// Channels, threads and direct messages from which messages were deleted, once per pass.
    pub channels: u64,
    /// Passes that completed.
    pub passes: u64,
    /// Passes that the store or a guild did not let end.
    pub failures: u64,
    /// Channels that the current pass, or the last one, has looked at.
    pub progress: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    messages: AtomicU64,
    channels: AtomicU64,
    passes: AtomicU64,
    failures: AtomicU64,
    progress: AtomicU64,
}

/// Deletes expired messages until it is dropped.
#[derive(Debug)]
pub struct Retention {
    task: JoinHandle<()>,
    keep_days: Arc<AtomicU32>,
}

impl Drop for Retention {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Retention {
    /// Default retention in days; 0: for ever. Applies from the next channel of a pass on.
    pub fn set_keep_days(&self, keep_days: u32) {
        self.keep_days.store(keep_days, Relaxed);
    }
}

impl Node {
    /// Deletes expired messages every hour.
    #[must_use]
    pub fn keep_messages(&self, keep_days: u32) -> Retention {
        let (node, keep_days) = (self.clone(), Arc::new(AtomicU32::new(keep_days)));
        let days = keep_days.clone();
        let task = tokio::spawn(async move {
            sleep(FIRST_AFTER).await;
            loop {
                match node.expire(|| days.load(Relaxed)).await {
                    Ok(0) => {}
                    Ok(messages) => tracing::info!(messages, "expired messages were deleted"),
                    Err(error) => tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "some expired messages were not deleted; the next pass retries in an hour"
                    ),
                }
                sleep(EVERY).await;
            }
        });
        Retention { task, keep_days }
    }

    /// Counters of retention.
    #[must_use]
    pub fn retention_counts(&self) -> RetentionCounts {
        let Counters { messages, channels, passes, failures, progress } = &self.inner.retention;
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        RetentionCounts {
            messages: read(messages),
            channels: read(channels),
            passes: read(passes),
            failures: read(failures),
            progress: read(progress),
        }
    }

    /// Deletes every expired message, and returns their number.
    ///
    /// # Errors
    /// When the store fails. Messages that earlier slices deleted stay deleted.
    pub async fn expire_messages(&self, keep_days: u32) -> Result<u64, StoreError> {
        self.expire(|| keep_days).await
    }

    async fn expire(&self, keep_days: impl Fn() -> u32) -> Result<u64, StoreError> {
        let counters = &self.inner.retention;
        counters.progress.store(0, Relaxed);
        let outcome = self.expire_all(keep_days).await;
        let counter = if outcome.is_ok() { &counters.passes } else { &counters.failures };
        counter.fetch_add(1, Relaxed);
        outcome
    }

    async fn expire_all(&self, keep_days: impl Fn() -> u32) -> Result<u64, StoreError> {
        let mut deleted = 0;
        let mut after = ChannelId::new(0);
        loop {
            let ages = self.inner.store.message_ages(after, CHANNELS_PER_READ).await?;
            let Some(last) = ages.last() else { return Ok(deleted) };
            after = last.channel_id;
            for age in &ages {
                deleted += self.expire_in(age, age.keep_days.unwrap_or_else(&keep_days)).await?;
                self.inner.retention.progress.fetch_add(1, Relaxed);
            }
            sleep(PAUSE).await;
        }
    }

    async fn expire_in(&self, age: &MessageAge, keep_days: u32) -> Result<u64, StoreError> {
        let now = self.inner.clock.now().unix;
        let before = smallest_id_at(Timestamp(now.0.saturating_sub(i64::from(keep_days) * DAY_MS)));
        if keep_days == 0 || age.oldest.is_none_or(|oldest| oldest >= before) {
            return Ok(0);
        }
        // N1: answered once everything that the guild wrote before is durable.
        let command = Command::ExpireMessages(age.channel_id, before);
        match self.command(age.guild_id, Actor::System, command).await {
            Ok(_) => {}
            // The guild is overloaded or cannot be written: the next pass tries again.
            Err(Refusal::Unavailable | Refusal::DiskFull | Refusal::DatabaseAway) => {
                tracing::warn!(channel_id = %age.channel_id, "expired messages of a channel were left for the next pass");
                return Ok(0);
            }
            // Deleted since.
            Err(_) => return Ok(0),
        }
        let mut deleted = 0;
        loop {
            let began = Instant::now();
            let slice = self.inner.store.expire_messages(age.channel_id, before, SLICE_ROWS).await?;
            deleted += slice.messages;
            self.inner.retention.messages.fetch_add(slice.messages, Relaxed);
            if slice.is_done {
                break;
            }
            sleep(began.elapsed().max(SLICE_PAUSE_MIN)).await;
        }
        self.inner.retention.channels.fetch_add(1, Relaxed);
        Ok(deleted)
    }
}
