//! Search: the index of messages, kept up to date, and searches of it.
//!
//! Owns        the task that indexes what the store has not indexed yet.
//! Doors       `Node::search_messages`.
//! Invariants  a search begins with the messages that were committed before it, unless more wait than `CATCH_UP_MAX`.
//! Limits      `INDEXED_AT_ONCE_MAX` messages per transaction; a pause as long as the one before, so that at least half
//!             of the writer's time is left for others; a look every `EVERY`.
//! Not here    permissions: the guild has the channels that an account may read (`ReadableChannels`).     Spec  ADR 53.

use crate::{Inner, Node};
use guildhall_store::{INDEXED_AT_ONCE_MAX, MessageSearch, SearchIndex, SearchPage, StoreError};
use std::{
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// Between two looks for messages that are not indexed.
const EVERY: Duration = Duration::from_secs(1);
/// After a failure.
const RETRY: Duration = Duration::from_secs(10);
/// Time that a search spends on indexing before it begins.
const CATCH_UP_MAX: Duration = Duration::from_millis(100);
/// Between two slices of that. Another node may be indexing, and this one waits for it.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(1);

/// Answer to a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Searched {
    /// Messages from before there was an index are not in it yet.
    NotReady {
        /// How many of them are.
        indexed: u64,
    },
    /// `is_behind`: some new or changed messages are not in the index yet.
    Found { page: SearchPage, is_behind: bool },
}

/// Indexes messages until the node ends.
pub(crate) fn follow(inner: &Arc<Inner>) {
    let inner = Arc::downgrade(inner);
    tokio::spawn(async move {
        loop {
            let Some(inner) = Weak::upgrade(&inner) else { return };
            let started = Instant::now();
            let pause = match inner.store.index_messages(INDEXED_AT_ONCE_MAX).await {
                Ok(SearchIndex::Current) => EVERY,
                Ok(SearchIndex::Behind | SearchIndex::Building { .. }) => started.elapsed(),
                Err(StoreError::Closed) => return,
                Err(error) if error.is_passing() => RETRY,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "messages were not indexed: searches do not find them yet");
                    RETRY
                }
            };
            drop(inner);
            sleep(pause).await;
        }
    });
}

impl Node {
    /// Searches messages, after those that were committed before are indexed.
    ///
    /// # Errors
    /// The store fails, or the search takes too long. A store that accepts no writes is searched as it is indexed.
    pub async fn search_messages(&self, search: &MessageSearch) -> Result<Searched, StoreError> {
        let store = self.store();
        let started = Instant::now();
        let is_behind = loop {
            match store.index_messages(INDEXED_AT_ONCE_MAX).await {
                Ok(SearchIndex::Current) => break false,
                Ok(SearchIndex::Building { indexed }) => return Ok(Searched::NotReady { indexed }),
                Ok(SearchIndex::Behind) if started.elapsed() < CATCH_UP_MAX => sleep(CATCH_UP_PAUSE).await,
                Ok(SearchIndex::Behind) => break true,
                Err(error) if error.is_full() => break true,
                Err(error) => return Err(error),
            }
        };
        Ok(Searched::Found { page: store.search_messages(search).await?, is_behind })
    }
}
