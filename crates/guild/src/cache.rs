//! Message cache: recently written, changed or loaded messages, and ids known to be absent.
//!
//! Owns        `MessageCache`; `CachedMessage`, a message with its reactions.
//! Doors       `lookup` before any operation on a message; `put`, `change`, `remove` with the guild's version;
//!             `load_began`, `load_ended` around a read of the store; `committed`; `take_evicted` after any of them.
//! Invariants  K1 a change or deletion that is not durable yet is never evicted, because the store would return an
//!             older state. K2 a load never replaces an existing entry, and an entry with a pending load is not
//!             evicted, because of two loads the one that arrives later may be older. K3 after `load_ended` a `lookup`
//!             finds an answer until `cached_messages_max / 8` others were loaded. K4 no operation grows with the
//!             number of reactions: a loaded message is built elsewhere, and reactions of an evicted message are freed
//!             elsewhere.
//! Limits      `cached_messages_max` entries, evicted in least-recently-used order, plus the entries of K1 and K2,
//!             which the driver bounds by its queue of commits and loads. Lists of reacting users are stored
//!             completely.

use crate::{
    command::{Actor, ReactionCount},
    record::MessageRecord,
};
use guildhall_guild_protocol::memory::message_heap;
use guildhall_model::{ChannelId, Message, MessageId, ReactionEmoji, UserId};
use guildhall_stdx::heap::{self, Sample};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
};

/// Users who reacted with one emoji.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reactions {
    pub emoji: ReactionEmoji,
    users: BTreeSet<UserId>,
}

/// A message with its reactions, indexed by user. It is built from a record outside of the guild, because that takes
/// time proportional to the reactions.
#[derive(Clone, Debug, PartialEq)]
pub struct CachedMessage {
    pub(crate) message: Arc<Message>,
    /// In order of first use.
    pub(crate) reactions: Vec<Reactions>,
}

impl Reactions {
    /// Reactions without users.
    pub fn new(emoji: ReactionEmoji) -> Self {
        Self { emoji, users: BTreeSet::new() }
    }

    /// Custom emoji are compared by id, whatever their name.
    pub fn is_with(&self, emoji: &ReactionEmoji) -> bool {
        match (self.emoji.id, emoji.id) {
            (None, None) => self.emoji.name == emoji.name,
            (a, b) => a == b,
        }
    }

    pub fn contains(&self, user_id: UserId) -> bool {
        self.users.contains(&user_id)
    }

    pub fn add(&mut self, user_id: UserId) {
        self.users.insert(user_id);
    }

    pub fn remove(&mut self, user_id: UserId) {
        self.users.remove(&user_id);
    }

    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    pub fn len(&self) -> usize {
        self.users.len()
    }
}

impl CachedMessage {
    /// A message without reactions.
    pub(crate) fn new(message: Arc<Message>) -> Self {
        Self { message, reactions: Vec::new() }
    }

    /// Adds a user to the reactions with an emoji, or to the votes for an answer.
    pub(crate) fn add_reaction(&mut self, emoji: &ReactionEmoji, user_id: UserId) {
        match self.reactions.iter_mut().find(|reactions| reactions.is_with(emoji)) {
            Some(reactions) => reactions.add(user_id),
            None => {
                let mut reactions = Reactions::new(emoji.clone());
                reactions.add(user_id);
                self.reactions.push(reactions);
            }
        }
    }

    /// The opposite of `add_reaction`.
    pub(crate) fn remove_reaction(&mut self, emoji: &ReactionEmoji, user_id: UserId) {
        for reactions in self.reactions.iter_mut().filter(|reactions| reactions.is_with(emoji)) {
            reactions.remove(user_id);
        }
        self.reactions.retain(|reactions| !reactions.is_empty());
    }

    /// Reaction counts, as `actor` sees them.
    pub(crate) fn counts(&self, actor: Actor) -> Vec<ReactionCount> {
        let is_by = |reactions: &Reactions| matches!(actor, Actor::User(user_id) if reactions.contains(user_id));
        let count = |reactions: &Reactions| ReactionCount {
            emoji: reactions.emoji.clone(),
            count: reactions.len() as u64,
            me: is_by(reactions),
        };
        self.reactions.iter().map(count).collect()
    }
}

impl From<MessageRecord> for CachedMessage {
    fn from(record: MessageRecord) -> Self {
        let reactions = record.reactions.into_iter().filter(|(_, users)| !users.is_empty());
        let reactions = reactions.map(|(emoji, users)| {
            let mut reactions = Reactions::new(emoji);
            users.into_iter().for_each(|user| reactions.add(user));
            reactions
        });
        Self { message: record.message, reactions: reactions.collect() }
    }
}

/// Result of a lookup.
#[derive(Debug)]
pub(crate) enum Lookup<'a> {
    /// The message is in the cache.
    Found(&'a CachedMessage),
    /// The message does not exist.
    Absent,
    /// Unknown: load it from the store.
    Unknown,
}

type Key = (ChannelId, MessageId);

#[derive(Debug)]
struct Entry {
    /// None: the message does not exist.
    content: Option<CachedMessage>,
    /// Version of its last change, if that is not durable yet.
    changed_at: Option<u64>,
    /// Key of its entry in `evictable`.
    stamp: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct MessageCache {
    max: usize,
    entries: BTreeMap<Key, Entry>,
    /// Durable entries without a pending load, least recently used first.
    evictable: BTreeMap<u64, Key>,
    stamp_next: u64,
    /// Changes that are not durable yet, by ascending version; an entry that changed twice occurs twice.
    changed: VecDeque<(u64, Key)>,
    /// Number of pending loads per message.
    loads: BTreeMap<Key, u32>,
    /// Reactions of evicted messages.
    evicted: Vec<Reactions>,
}

impl MessageCache {
    pub fn new(max: usize) -> Self {
        Self {
            max,
            entries: BTreeMap::new(),
            evictable: BTreeMap::new(),
            stamp_next: 0,
            changed: VecDeque::new(),
            loads: BTreeMap::new(),
            evicted: Vec::new(),
        }
    }

    /// Estimated heap memory.
    pub fn heap_bytes(&self, sample: Sample) -> usize {
        let of_reactions = |of: &Reactions| heap::allocated(of.emoji.name.len()) + heap::of_set(&of.users);
        let of_entry = |entry: &Entry| {
            entry.content.as_ref().map_or(0, |content| {
                heap::part_of(&content.message, message_heap) + Sample::SMALL.of_vec(&content.reactions, of_reactions)
            })
        };
        sample.of_tree(&self.entries, |_, entry| of_entry(entry))
            + sample.of_tree(&self.evictable, |_, _| 0)
            + heap::allocated(self.changed.capacity() * size_of::<(u64, Key)>())
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Looks up a message and marks it as used.
    pub fn lookup(&mut self, key: Key) -> Lookup<'_> {
        self.update_eviction_order(key);
        match self.entries.get(&key) {
            Some(Entry { content: Some(message), .. }) => Lookup::Found(message),
            Some(_) => Lookup::Absent,
            None => Lookup::Unknown,
        }
    }

    /// Stores a new or replaced message.
    pub fn put(&mut self, key: Key, message: CachedMessage, version: u64) {
        self.set(key, Some(message), version);
    }

    /// Changes a message; no effect if it is absent.
    pub fn change(&mut self, key: Key, version: u64, change: impl FnOnce(&mut CachedMessage)) {
        if let Some(message) = self.entries.get_mut(&key).and_then(|entry| entry.content.as_mut()) {
            change(message);
            self.mark_changed(key, version);
        }
    }

    /// Records the deletion of a message.
    pub fn remove(&mut self, key: Key, version: u64) {
        self.set(key, None, version);
    }

    /// Removes the messages of a deleted channel.
    pub fn forget_channel(&mut self, channel_id: ChannelId) {
        let keys: Vec<Key> = self
            .entries
            .range((channel_id, MessageId::new(0))..)
            .take_while(|(key, _)| key.0 == channel_id)
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            self.evict(key);
        }
    }

    /// A load from the store starts.
    pub fn load_began(&mut self, key: Key) {
        *self.loads.entry(key).or_default() += 1;
    }

    /// A load ended with a message, or with none.
    pub fn load_ended(&mut self, key: Key, content: Option<CachedMessage>) {
        if !self.end_load(key) {
            return;
        }
        match content {
            content if !self.entries.contains_key(&key) => {
                self.entries.insert(key, Entry { content, changed_at: None, stamp: None });
            }
            Some(unneeded) => self.evicted.extend(unneeded.reactions),
            None => {}
        }
        self.update_eviction_order(key);
        self.shrink();
    }

    /// A load ended with an error.
    pub fn load_failed(&mut self, key: Key) {
        if self.end_load(key) {
            self.update_eviction_order(key);
            self.shrink();
        }
    }

    /// False if no load of it is pending.
    fn end_load(&mut self, key: Key) -> bool {
        let Some(loads) = self.loads.get_mut(&key) else { return false };
        *loads -= 1;
        if *loads == 0 {
            self.loads.remove(&key);
        }
        true
    }

    /// Whether loads are pending.
    pub fn is_loading(&self) -> bool {
        !self.loads.is_empty()
    }

    /// Takes the reactions of evicted messages, and their number.
    pub fn take_evicted(&mut self) -> (usize, Vec<Reactions>) {
        (self.evicted.iter().map(Reactions::len).sum(), mem::take(&mut self.evicted))
    }

    /// Everything up to `version` is durable.
    pub fn committed(&mut self, version: u64) {
        while let Some((at, key)) = self.changed.front().copied().filter(|(at, _)| *at <= version) {
            self.changed.pop_front();
            if let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.changed_at == Some(at)) {
                entry.changed_at = None;
                self.update_eviction_order(key);
            }
        }
        self.shrink();
    }

    fn set(&mut self, key: Key, content: Option<CachedMessage>, version: u64) {
        let entry = self.entries.entry(key).or_insert(Entry { content: None, changed_at: None, stamp: None });
        let before = mem::replace(&mut entry.content, content);
        self.evicted.extend(before.into_iter().flat_map(|message| message.reactions));
        self.mark_changed(key, version);
        self.shrink();
    }

    fn mark_changed(&mut self, key: Key, version: u64) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if entry.changed_at.replace(version) != Some(version) {
            self.changed.push_back((version, key));
        }
        self.update_eviction_order(key);
    }

    /// Moves an entry to the end of the eviction order, or removes it from the order while it must stay.
    fn update_eviction_order(&mut self, key: Key) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if let Some(stamp) = entry.stamp.take() {
            self.evictable.remove(&stamp);
        }
        if entry.changed_at.is_none() && !self.loads.contains_key(&key) {
            entry.stamp = Some(self.stamp_next);
            self.evictable.insert(self.stamp_next, key);
            self.stamp_next += 1;
        }
    }

    fn shrink(&mut self) {
        // A few entries stay even if all others wait for a commit, so that loads are useful (K3).
        let stay = self.max / 8 + 1;
        while self.entries.len() > self.max && self.evictable.len() > stay {
            let Some((_, key)) = self.evictable.first_key_value() else { return };
            self.evict(*key);
        }
    }

    fn evict(&mut self, key: Key) {
        let Some(entry) = self.entries.remove(&key) else { return };
        if let Some(stamp) = entry.stamp {
            self.evictable.remove(&stamp);
        }
        self.evicted.extend(entry.content.into_iter().flat_map(|message| message.reactions));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::{GuildId, User};
    use guildhall_stdx::Rng;

    const MAX: usize = 8;

    fn key(n: u64) -> Key {
        (ChannelId::new(1 + n % 2), MessageId::new(n))
    }

    /// A message with content `mark`.
    fn record(n: u64, mark: u64) -> MessageRecord {
        let message = Message {
            content: mark.to_string(),
            ..Message::new(key(n).1, key(n).0, GuildId::new(1), Arc::new(User::new(UserId::new(7), "u")))
        };
        MessageRecord { message: Arc::new(message), reactions: Vec::new() }
    }

    fn cached(n: u64, mark: u64) -> CachedMessage {
        record(n, mark).into()
    }

    /// Cached state: unknown, absent, or the mark.
    fn known(cache: &mut MessageCache, n: u64) -> Option<Option<u64>> {
        match cache.lookup(key(n)) {
            Lookup::Found(message) => Some(message.message.content.parse().ok()),
            Lookup::Absent => Some(None),
            Lookup::Unknown => None,
        }
    }

    fn invariants(cache: &MessageCache) {
        let held = |(key, entry): &(&Key, &Entry)| entry.changed_at.is_some() || cache.loads.contains_key(*key);
        let held = cache.entries.iter().filter(held).count();
        assert!(cache.entries.len() <= MAX + held, "{} entries, {held} held", cache.entries.len());
        let evictable: BTreeMap<u64, Key> =
            cache.entries.iter().filter_map(|(key, entry)| Some((entry.stamp?, *key))).collect();
        assert_eq!(evictable, cache.evictable);
        assert_eq!(evictable.len() + held, cache.entries.len());
    }

    #[test]
    fn k1_what_is_not_durable_stays() {
        let mut cache = MessageCache::new(MAX);
        (0..20).for_each(|n| cache.put(key(n), cached(n, n), 1 + n));
        (0..10).for_each(|n| cache.remove(key(n), 30 + n));
        assert!((0..10).all(|n| known(&mut cache, n) == Some(None)));
        assert!((10..20).all(|n| known(&mut cache, n) == Some(Some(n))));
        cache.committed(15);
        invariants(&cache);
        assert!((0..10).all(|n| known(&mut cache, n) == Some(None)), "changed again since");
        assert!((15..20).all(|n| known(&mut cache, n) == Some(Some(n))));
        cache.committed(100);
        invariants(&cache);
        assert_eq!(cache.entries.len(), MAX);
    }

    #[test]
    fn k2_the_later_of_two_loads_may_be_the_older() {
        let mut cache = MessageCache::new(MAX);
        cache.load_began(key(1));
        cache.load_began(key(1));
        cache.load_ended(key(1), Some(cached(1, 10)));
        cache.change(key(1), 5, |message| *message = cached(1, 11));
        cache.committed(5);
        // Other entries push, but the second load still holds this one.
        for n in 10..40 {
            cache.load_began(key(n));
            cache.load_ended(key(n), None);
        }
        cache.load_ended(key(1), Some(cached(1, 10)));
        assert_eq!(known(&mut cache, 1), Some(Some(11)));
        invariants(&cache);
        // An unsolicited answer is ignored.
        cache.load_ended(key(2), Some(cached(2, 20)));
        assert_eq!(known(&mut cache, 2), None);
        // A failed load leaves the message unknown.
        cache.load_began(key(3));
        cache.load_failed(key(3));
        assert_eq!((known(&mut cache, 3), cache.is_loading()), (None, false));
    }

    #[test]
    fn k3_a_load_is_of_use_even_when_all_else_waits_for_a_commit() {
        let mut cache = MessageCache::new(MAX);
        (0..50).for_each(|n| cache.put(key(n), cached(n, n), 1));
        for n in [100, 101] {
            cache.load_began(key(n));
            cache.load_ended(key(n), None);
        }
        assert_eq!((known(&mut cache, 100), known(&mut cache, 101)), (Some(None), Some(None)));
    }

    #[test]
    fn a_channel_that_is_gone_takes_up_no_room() {
        let mut cache = MessageCache::new(MAX);
        (0..6).for_each(|n| cache.put(key(n), cached(n, n), 1));
        cache.forget_channel(ChannelId::new(1));
        cache.committed(1);
        invariants(&cache);
        let left: Vec<u64> = (0..6).filter(|n| known(&mut cache, *n).is_some()).collect();
        assert_eq!(left, [1, 3, 5]);
    }

    /// Compares with a store that commits late and answers loads late and out of order.
    #[test]
    fn what_is_known_is_true() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut cache = MessageCache::new(MAX);
            let mut truth: BTreeMap<u64, u64> = BTreeMap::new();
            let mut durable = truth.clone();
            let mut uncommitted: VecDeque<(u64, BTreeMap<u64, u64>)> = VecDeque::new();
            let mut loads: Vec<(u64, Option<u64>)> = Vec::new();
            for version in 1..600 {
                let n = rng.below(24);
                let is_here = matches!(cache.lookup(key(n)), Lookup::Found(_));
                match rng.below(10) {
                    0..=1 if !truth.contains_key(&n) && known(&mut cache, n) == Some(None) => {
                        cache.put(key(n), cached(n, version), version);
                        truth.insert(n, version);
                    }
                    2..=3 if is_here => {
                        cache.change(key(n), version, |message| *message = cached(n, version));
                        truth.insert(n, version);
                    }
                    4 if is_here => {
                        cache.remove(key(n), version);
                        truth.remove(&n);
                    }
                    5..=6 => {
                        if let Some((version, state)) = uncommitted.pop_front() {
                            durable = state;
                            cache.committed(version);
                        }
                    }
                    7 if !loads.is_empty() => {
                        let (n, answer) = loads.swap_remove(rng.below(loads.len() as u64) as usize);
                        cache.load_ended(key(n), answer.map(|mark| cached(n, mark)));
                        assert!(known(&mut cache, n).is_some(), "seed {seed}");
                    }
                    _ if known(&mut cache, n).is_none() => {
                        cache.load_began(key(n));
                        loads.push((n, durable.get(&n).copied()));
                    }
                    _ => {}
                }
                uncommitted.push_back((version, truth.clone()));
                if let Some(known) = known(&mut cache, n) {
                    assert_eq!(known, truth.get(&n).copied(), "seed {seed} version {version}");
                }
                invariants(&cache);
            }
        }
    }
}
