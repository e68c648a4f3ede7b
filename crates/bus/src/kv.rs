//! Key-value store of a cluster: small values with revisions and expiry, for leases.
//!
//! Invariants  K1 of concurrent writes that expect the same revision, one succeeds. K2 revisions of a key ascend, also
//!             over its deletion, its expiry and a restart of the server: an old revision never fits again. K3 a value
//!             does not expire before its `ttl` has passed since the write. K4 a watch reports the last state of every
//!             key, and nothing older after something newer. (tests `k1_*` …, `tests/it/kv_contract.rs`)
//! Limits      `KV_VALUE_BYTES_MAX`; each call has a time-out (`NatsOptions::answer_max`, 1 s by default) and then
//!             fails with `Away`.
//! Not here    what a lease means. A lease alone proves nothing: a process that was paused believes in one that has
//!             expired. The revision is the epoch that the store checks with each commit.

use crate::subject::is_name;
use async_trait::async_trait;
use bytes::Bytes;
use std::{fmt, sync::Arc, time::Duration};

/// Longest value, for every driver.
pub const KV_VALUE_BYTES_MAX: usize = 64 << 10;
/// Shortest time to live. Drivers round up to whole seconds where their server counts those.
pub const KV_TTL_MIN: Duration = Duration::from_secs(1);

/// Name of a value: words of letters, digits, `-` and `_`, separated by dots, like a `Subject`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// None if it is not one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        is_name(text).then(|| Self(text.into()))
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is `prefix` with further words.
    #[must_use]
    pub fn is_below(&self, prefix: &Self) -> bool {
        self.0.strip_prefix(&*prefix.0).is_some_and(|rest| rest.starts_with('.'))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Number of a write. Later writes of the whole store have larger numbers, with gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A value with the number of the write that stored it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub value: Bytes,
    pub revision: Revision,
}

/// Why the store did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// The key has a value, this one.
    #[error("the key has a value, of revision {}", .0.revision.0)]
    Exists(Entry),
    /// The value has another revision, or is gone.
    #[error("the value was changed or removed by another writer")]
    Conflict,
    /// The server cannot be reached, or did not answer in time. A write may have happened, and may still happen.
    #[error("the key-value store cannot be reached: {0}")]
    Away(String),
    /// The value is larger than `KV_VALUE_BYTES_MAX`.
    #[error("the value has {bytes} bytes, and the key-value store accepts {bytes_max}")]
    TooLarge { bytes: usize, bytes_max: usize },
}

/// A change of a key below the prefix of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvEvent {
    /// The key has this value.
    Put(Key, Entry),
    /// The value was deleted or has expired. Only for a key that this watch reported with a value.
    Gone(Key),
    /// All values that were there when the watch began have been reported. Once per watch.
    Current,
}

/// Changes of the keys below a prefix.
#[async_trait]
pub trait KvWatch: Send {
    /// The next change. Dropping the future loses nothing.
    ///
    /// # Errors
    /// `Away` when the connection is lost or the watcher was too slow. The watch has ended then, with the same error
    /// again afterwards: open another one. Keys that it does not report before `Current` are gone.
    async fn next(&mut self) -> Result<KvEvent, KvError>;
}

/// Small values by key, shared by all nodes of a cluster.
///
/// A `ttl` counts from the write that states it, on the server's clock: a write replaces the earlier one's, and
/// without one the value stays. It is at least `KV_TTL_MIN`; a shorter one counts as that. A value may live
/// some seconds longer.
#[async_trait]
pub trait KeyValue: Send + Sync + 'static {
    /// Stores a value under a key that has none.
    ///
    /// # Errors
    /// `Exists`, `TooLarge`, `Away`. After `Away` a later `create` may find the own value.
    async fn create(&self, key: &Key, value: Bytes, ttl: Option<Duration>) -> Result<Revision, KvError>;

    /// Replaces the value of revision `expected`.
    ///
    /// # Errors
    /// `Conflict`, `TooLarge`, `Away`. After `Away` the same call may fail with `Conflict` because of itself: see
    /// `get`.
    async fn update(
        &self,
        key: &Key,
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> Result<Revision, KvError>;

    /// Removes the value of revision `expected`.
    ///
    /// # Errors
    /// `Conflict`, also when there is no value; `Away`.
    async fn delete(&self, key: &Key, expected: Revision) -> Result<(), KvError>;

    /// Reads a value as of the last write.
    ///
    /// # Errors
    /// `Away`.
    async fn get(&self, key: &Key) -> Result<Option<Entry>, KvError>;

    /// Watches the keys below a prefix, not the prefix itself: all present values, then `Current`, then changes. Of
    /// several changes of one key in short time it may report only the last.
    ///
    /// # Errors
    /// `Away`.
    async fn watch(&self, prefix: &Key) -> Result<Box<dyn KvWatch>, KvError>;

    /// Whether the server cannot be reached now.
    fn is_away(&self) -> bool {
        false
    }
}

/// Fails if a value is too large.
pub(crate) fn check_size(value: &Bytes) -> Result<(), KvError> {
    match value.len() {
        bytes if bytes > KV_VALUE_BYTES_MAX => Err(KvError::TooLarge { bytes, bytes_max: KV_VALUE_BYTES_MAX }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_below_a_prefix() {
        let key = |text| Key::new(text).unwrap();
        assert!(key("nodes.a").is_below(&key("nodes")));
        assert!(key("nodes.a.b").is_below(&key("nodes")));
        for other in ["nodes", "nodes2.a", "guilds.nodes"] {
            assert!(!key(other).is_below(&key("nodes")), "{other}");
        }
        assert_eq!(Key::new("nodes.*"), None);
    }
}
