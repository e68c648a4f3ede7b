//! Messages of a guild in memory.
//!
//! Owns        `Messages`: the cache, each channel's newest id, the first id that is not expired, nonces, slow mode.
//! Invariants  M1 `lookup` finds no expired message. M2 nothing remains of a deleted channel, except nonces and waits
//!             of slow mode, which end by themselves.
//! Limits      those of `cache`, `nonces` and `slow_mode`; one newest id per channel; 16 bytes per channel with expired
//!             messages, until the guild is unloaded.
//! Not here    the rules of commands: `messages`.

use crate::{
    cache::{CachedMessage, Lookup, MessageCache, Reactions},
    nonces::Nonces,
    record::SentNonce,
    slow_mode::SlowMode,
};
use guildhall_model::{ChannelId, MessageId, UserId};
use guildhall_stdx::{Instant, Now, heap::Sample};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

type Key = (ChannelId, MessageId);

#[derive(Debug)]
pub(crate) struct Messages {
    cache: MessageCache,
    /// Newest message per channel; it may have been deleted since. Relays share it.
    newest: Arc<BTreeMap<ChannelId, MessageId>>,
    /// Messages of a channel below this one are deleted by retention.
    floors: BTreeMap<ChannelId, MessageId>,
    pub nonces: Nonces,
    /// Of messages and of threads: by `Limited`.
    pub slow_mode: [SlowMode; 2],
}

/// What `Messages` has besides the cache and the store, for another node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MessagesTail {
    newest: Vec<(ChannelId, MessageId)>,
    floors: Vec<(ChannelId, MessageId)>,
    /// With their ages in milliseconds.
    nonces: Vec<(SentNonce, u64)>,
    /// Per kind: milliseconds since the last message, and until the end of the wait.
    waits: [Vec<(ChannelId, UserId, u64, u64)>; 2],
}

impl Messages {
    pub fn new(cached_messages_max: usize, newest: BTreeMap<ChannelId, MessageId>, nonces: Vec<SentNonce>) -> Self {
        Self {
            cache: MessageCache::new(cached_messages_max),
            newest: Arc::new(newest),
            floors: BTreeMap::new(),
            nonces: Nonces::load(nonces),
            slow_mode: Default::default(),
        }
    }

    /// Estimated heap memory.
    pub fn heap_bytes(&self, sample: Sample) -> usize {
        self.cache.heap_bytes(sample) + sample.of_tree(&self.newest, |_, _| 0) + sample.of_tree(&self.floors, |_, _| 0)
    }

    /// Messages in the cache.
    pub fn cached_count(&self) -> usize {
        self.cache.len()
    }

    pub fn lookup(&mut self, key: Key) -> Lookup<'_> {
        if self.is_expired(key) { Lookup::Absent } else { self.cache.lookup(key) }
    }

    /// The message if it is in memory, expired or not.
    pub fn cached(&mut self, key: Key) -> Option<&CachedMessage> {
        if let Lookup::Found(message) = self.cache.lookup(key) { Some(message) } else { None }
    }

    /// Stores a new or replaced message.
    pub fn put(&mut self, key: Key, message: CachedMessage, version: u64) {
        self.cache.put(key, message, version);
    }

    /// Changes a message; no effect if it is not in memory.
    pub fn change(&mut self, key: Key, version: u64, change: impl FnOnce(&mut CachedMessage)) {
        self.cache.change(key, version, change);
    }

    /// Records the deletion of a message.
    pub fn remove(&mut self, key: Key, version: u64) {
        self.cache.remove(key, version);
    }

    /// A load from the store starts.
    pub fn load_began(&mut self, key: Key) {
        self.cache.load_began(key);
    }

    /// A load ended with a message, or with none.
    pub fn load_ended(&mut self, key: Key, content: Option<CachedMessage>) {
        self.cache.load_ended(key, content);
    }

    /// A load ended with an error.
    pub fn load_failed(&mut self, key: Key) {
        self.cache.load_failed(key);
    }

    pub fn is_loading(&self) -> bool {
        self.cache.is_loading()
    }

    /// Everything up to `version` is durable.
    pub fn commit(&mut self, version: u64) {
        self.cache.committed(version);
    }

    /// Takes the reactions of evicted messages, and their number.
    pub fn take_evicted(&mut self) -> (usize, Vec<Reactions>) {
        self.cache.take_evicted()
    }

    /// Newest message per channel.
    pub fn newest(&self) -> &Arc<BTreeMap<ChannelId, MessageId>> {
        &self.newest
    }

    pub fn newest_in(&self, channel_id: ChannelId) -> Option<MessageId> {
        self.newest.get(&channel_id).copied()
    }

    pub fn set_newest(&mut self, channel_id: ChannelId, message_id: MessageId) {
        Arc::make_mut(&mut self.newest).insert(channel_id, message_id);
    }

    pub fn forget_newest(&mut self) {
        self.newest = Arc::default();
    }

    /// Messages of the channel below `before` are expired.
    pub fn expire(&mut self, channel_id: ChannelId, before: MessageId) {
        let floor = self.floors.entry(channel_id).or_insert(before);
        *floor = before.max(*floor);
    }

    fn is_expired(&self, (channel_id, message_id): Key) -> bool {
        self.floors.get(&channel_id).is_some_and(|floor| message_id < *floor)
    }

    /// State that does not come from the store.
    pub fn tail(&self, now: Now) -> MessagesTail {
        MessagesTail {
            newest: self.newest.iter().map(|(channel_id, message_id)| (*channel_id, *message_id)).collect(),
            floors: self.floors.iter().map(|(channel_id, floor)| (*channel_id, *floor)).collect(),
            nonces: self.nonces.ages(now),
            waits: self.slow_mode.each_ref().map(|slow_mode| slow_mode.waits(now.instant)),
        }
    }

    /// Begins with that of another node.
    pub fn take_over(&mut self, now: Now, tail: MessagesTail, nonces_max: usize) {
        self.newest = Arc::new(tail.newest.into_iter().collect());
        self.floors = tail.floors.into_iter().collect();
        self.nonces.take_over(now.instant, tail.nonces, nonces_max);
        for (slow_mode, waits) in self.slow_mode.iter_mut().zip(tail.waits) {
            slow_mode.take_over(now.instant, waits);
        }
    }

    /// Forgets a deleted channel or thread.
    pub fn forget_channel(&mut self, channel_id: ChannelId) {
        self.floors.remove(&channel_id);
        if self.newest.contains_key(&channel_id) {
            Arc::make_mut(&mut self.newest).remove(&channel_id);
        }
        self.cache.forget_channel(channel_id);
    }

    /// Removes expired nonces and ended waits, or part of them.
    pub fn sweep(&mut self, now: Instant) {
        self.nonces.sweep(now);
        self.slow_mode.iter_mut().for_each(|waits| waits.sweep(now));
    }

    /// Time at which `sweep` should be called even without other input.
    pub fn sweep_at(&self) -> Option<Instant> {
        let waits = self.slow_mode.iter().filter_map(SlowMode::sweep_at);
        self.nonces.sweep_at().into_iter().chain(waits).min()
    }
}
