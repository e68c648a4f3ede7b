//! Session table: the sessions of a partition, by slot, id and account.
//!
//! Invariants  the indexes name every session, and no others. `attached_count` is the number of sessions with a
//!             connection.

use guildhall_model::UserId;
use guildhall_session::Session;
use guildhall_stdx::{
    SlotKey, Slots,
    heap::{self, Sample},
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// See the module.
#[derive(Debug, Default)]
pub struct SessionTable {
    slots: Slots<Session>,
    by_id: HashMap<Arc<str>, SlotKey>,
    /// A set, because most users have one session: a vector for each would need more memory than an entry.
    by_user: BTreeSet<(UserId, SlotKey)>,
    attached_count: usize,
}

impl SessionTable {
    pub fn get(&self, key: SlotKey) -> Option<&Session> {
        self.slots.get(key)
    }

    pub fn get_mut(&mut self, key: SlotKey) -> Option<&mut Session> {
        self.slots.get_mut(key)
    }

    /// The session in a slot.
    pub fn at(&self, slot: u32) -> Option<&Session> {
        self.slots.at(slot)
    }

    /// The session in a slot.
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut Session> {
        self.slots.at_mut(slot)
    }

    /// Key of the session in a slot.
    pub fn key_at(&self, slot: u32) -> Option<SlotKey> {
        self.slots.key_at(slot)
    }

    /// Number of slots, occupied or not.
    pub fn places(&self) -> u32 {
        self.slots.places()
    }

    /// Key of the next session.
    pub fn next_key(&self) -> SlotKey {
        self.slots.next_key()
    }

    /// Keys of all sessions.
    pub fn keys(&self) -> Vec<SlotKey> {
        self.slots.keys()
    }

    pub fn iter(&self) -> impl Iterator<Item = (SlotKey, &Session)> {
        self.slots.iter()
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Prefetches the session in a slot.
    pub fn prefetch(&self, slot: u32) {
        self.slots.prefetch(slot);
    }

    /// Estimated heap memory of the sessions.
    pub fn heap_bytes(&self, sample: Sample, of_session: impl FnMut(&Session) -> usize) -> usize {
        self.slots.heap_bytes(sample, of_session)
    }

    /// Estimated sum of `of_session` over all sessions.
    pub fn values_bytes(&self, sample: Sample, of_session: impl FnMut(&Session) -> usize) -> usize {
        self.slots.values_bytes(sample, of_session)
    }

    /// Estimated heap memory of the indexes.
    pub fn index_bytes(&self, sample: Sample) -> usize {
        sample.of_map(&self.by_id, |_, _| 0) + heap::of_set(&self.by_user)
    }

    /// Number of sessions with a connection.
    pub fn attached_count(&self) -> usize {
        self.attached_count
    }

    /// Finds a session by the id that clients know.
    pub fn find(&self, id: &str) -> Option<SlotKey> {
        self.by_id.get(id).copied()
    }

    /// Sessions of a user.
    pub fn of_user(&self, user_id: UserId) -> Vec<SlotKey> {
        let (first, last) = (SlotKey { slot: 0, generation: 0 }, SlotKey { slot: u32::MAX, generation: u32::MAX });
        self.by_user.range((user_id, first)..=(user_id, last)).map(|(_, key)| *key).collect()
    }

    /// Adds a session under `next_key`.
    pub fn insert(&mut self, session: Session) -> SlotKey {
        let (id, user_id, is_attached) = (session.id.clone(), session.user.id, session.conn.is_some());
        let key = self.slots.insert(session);
        self.attached_count += usize::from(is_attached);
        self.by_id.insert(id, key);
        self.by_user.insert((user_id, key));
        key
    }

    pub fn remove(&mut self, key: SlotKey) -> Option<Session> {
        let session = self.slots.remove(key)?;
        self.attached_count -= usize::from(session.conn.is_some());
        self.by_id.remove(&session.id);
        self.by_user.remove(&(session.user.id, key));
        Some(session)
    }

    /// A connection serves the session from now on.
    pub fn attach(&mut self, key: SlotKey, conn: SlotKey) -> Option<&mut Session> {
        let session = self.slots.get_mut(key)?;
        self.attached_count += usize::from(session.conn.replace(conn).is_none());
        Some(session)
    }

    /// The session has no connection from now on.
    pub fn detach(&mut self, key: SlotKey) -> Option<&mut Session> {
        let session = self.slots.get_mut(key)?;
        self.attached_count -= usize::from(session.conn.take().is_some());
        Some(session)
    }
}
