//! Message cache: messages that were written, changed or loaded of late, and ids known to have none.
//!
//! Owns        `MessageCache`; `CachedMessage`, a message with its reactions.
//! Doors       `lookup` before anything is done to a message; `put`, `change`, `remove` with the guild's version;
//!             `load_began`, `load_ended` around a read of the store; `committed`.
//! Invariants  K1 a change that is not durable yet is never evicted, a deletion neither: what the store would
//!             answer is older. K2 a load never replaces what is here, and nothing whose load is under way is
//!             evicted: of two loads the later to arrive may be the older. K3 after `load_ended` a `lookup` finds
//!             an answer until `cached_messages_max / 8` others were loaded.
//! Limits      `cached_messages_max` entries, least recently used go first; what K1 and K2 hold comes on top,
//!             which the driver bounds by its queue of commits and loads. Lists of reacting users are kept whole.

use crate::record::MessageRecord;
use guildhall_model::{ChannelId, Message, MessageId, ReactionEmoji, UserId};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Who reacted with one emoji.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reactions {
    pub emoji: ReactionEmoji,
    /// With a number that ascends in the order of reacting.
    users: BTreeMap<UserId, u64>,
    next: u64,
}

/// A message with its reactions, quick to ask who reacted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CachedMessage {
    pub message: Arc<Message>,
    /// In the order of first use.
    pub reactions: Vec<Reactions>,
}

impl Reactions {
    /// With nobody yet.
    pub fn new(emoji: ReactionEmoji) -> Self {
        Self { emoji, users: BTreeMap::new(), next: 0 }
    }

    /// Custom emoji are the same by id, whatever they are called.
    pub fn is_with(&self, emoji: &ReactionEmoji) -> bool {
        match (self.emoji.id, emoji.id) {
            (None, None) => self.emoji.name == emoji.name,
            (a, b) => a == b,
        }
    }

    pub fn contains(&self, user_id: UserId) -> bool {
        self.users.contains_key(&user_id)
    }

    pub fn add(&mut self, user_id: UserId) {
        let next = self.next;
        self.users.entry(user_id).or_insert(next);
        self.next += 1;
    }

    pub fn remove(&mut self, user_id: UserId) {
        self.users.remove(&user_id);
    }

    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    fn in_order(&self) -> Vec<UserId> {
        let mut users: Vec<(u64, UserId)> = self.users.iter().map(|(user, order)| (*order, *user)).collect();
        users.sort_unstable();
        users.into_iter().map(|(_, user)| user).collect()
    }
}

impl CachedMessage {
    /// A message nobody reacted to.
    pub fn new(message: Arc<Message>) -> Self {
        Self { message, reactions: Vec::new() }
    }

    /// As it is stored. Grows with the number of reactions.
    pub fn record(&self) -> MessageRecord {
        let reactions = self.reactions.iter().map(|r| (r.emoji.clone(), r.in_order())).collect();
        MessageRecord { message: self.message.clone(), reactions }
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

/// What is known of a message.
#[derive(Debug)]
pub(crate) enum Lookup<'a> {
    /// This.
    Found(&'a CachedMessage),
    /// There is no such message.
    Absent,
    /// Nothing: ask the store.
    Unknown,
}

type Key = (ChannelId, MessageId);

#[derive(Debug)]
struct Entry {
    /// None: there is no such message.
    content: Option<CachedMessage>,
    /// The version of its last change, if that is not durable yet.
    changed_at: Option<u64>,
    /// Its place in `evictable`.
    stamp: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct MessageCache {
    max: usize,
    entries: BTreeMap<Key, Entry>,
    /// What is durable and has no load under way, least recently used first.
    evictable: BTreeMap<u64, Key>,
    stamp_next: u64,
    /// Changes that are not durable yet, versions ascending; an entry that changed again is in it twice.
    changed: VecDeque<(u64, Key)>,
    /// How many loads are under way.
    loads: BTreeMap<Key, u32>,
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
        }
    }

    /// What is known of a message; it counts as used.
    pub fn lookup(&mut self, key: Key) -> Lookup<'_> {
        self.settle(key);
        match self.entries.get(&key) {
            Some(Entry { content: Some(message), .. }) => Lookup::Found(message),
            Some(_) => Lookup::Absent,
            None => Lookup::Unknown,
        }
    }

    /// A message was written, or written over.
    pub fn put(&mut self, key: Key, message: CachedMessage, version: u64) {
        self.set(key, Some(message), version);
    }

    /// A message changes; nothing happens if there is none.
    pub fn change(&mut self, key: Key, version: u64, change: impl FnOnce(&mut CachedMessage)) {
        if let Some(message) = self.entries.get_mut(&key).and_then(|entry| entry.content.as_mut()) {
            change(message);
            self.mark_changed(key, version);
        }
    }

    /// A message was deleted.
    pub fn remove(&mut self, key: Key, version: u64) {
        self.set(key, None, version);
    }

    /// A channel is gone, and nobody will ask for its messages.
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

    /// The store is asked for a message.
    pub fn load_began(&mut self, key: Key) {
        *self.loads.entry(key).or_default() += 1;
    }

    /// The store answered: a message, none (`Some(None)`), or (`None`) not at all.
    pub fn load_ended(&mut self, key: Key, answer: Option<Option<MessageRecord>>) {
        let Some(loads) = self.loads.get_mut(&key) else { return };
        *loads -= 1;
        if *loads == 0 {
            self.loads.remove(&key);
        }
        if let Some(record) = answer
            && !self.entries.contains_key(&key)
        {
            let content = record.map(Into::into);
            self.entries.insert(key, Entry { content, changed_at: None, stamp: None });
        }
        self.settle(key);
        self.shrink();
    }

    /// Whether the store still owes an answer.
    pub fn is_loading(&self) -> bool {
        !self.loads.is_empty()
    }

    /// Everything up to `version` is durable.
    pub fn committed(&mut self, version: u64) {
        while let Some((at, key)) = self.changed.front().copied().filter(|(at, _)| *at <= version) {
            self.changed.pop_front();
            if let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.changed_at == Some(at)) {
                entry.changed_at = None;
                self.settle(key);
            }
        }
        self.shrink();
    }

    fn set(&mut self, key: Key, content: Option<CachedMessage>, version: u64) {
        self.entries.entry(key).or_insert(Entry { content: None, changed_at: None, stamp: None }).content = content;
        self.mark_changed(key, version);
        self.shrink();
    }

    fn mark_changed(&mut self, key: Key, version: u64) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if entry.changed_at.replace(version) != Some(version) {
            self.changed.push_back((version, key));
        }
        self.settle(key);
    }

    /// Puts an entry last in the order of eviction, or takes it out while it must stay.
    fn settle(&mut self, key: Key) {
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
        // A few stay even when everything else waits for a commit: a load must be of use (K3).
        let stay = self.max / 8 + 1;
        while self.entries.len() > self.max && self.evictable.len() > stay {
            let Some((_, key)) = self.evictable.first_key_value() else { return };
            self.evict(*key);
        }
    }

    fn evict(&mut self, key: Key) {
        if let Some(stamp) = self.entries.remove(&key).and_then(|entry| entry.stamp) {
            self.evictable.remove(&stamp);
        }
    }
}
