//! Entries of the audit log by id.
//!
//! Owns        `AuditLog`.
//! Limits      those of `audit`, which makes room before it adds an entry.

use guildhall_model::{AuditEntry, GuildResource, Id};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[derive(Debug, Default)]
pub(crate) struct AuditLog {
    entries: BTreeMap<Id<()>, Arc<AuditEntry>>,
    of_members: BTreeSet<Id<()>>,
}

impl AuditLog {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// By id, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<AuditEntry>> {
        self.entries.values()
    }

    /// Ids of all entries, in ascending order.
    pub fn ids(&self) -> impl Iterator<Item = &Id<()>> {
        self.entries.keys()
    }

    /// Number of entries of actions that plain members take.
    pub fn of_members_count(&self) -> usize {
        self.of_members.len()
    }

    pub fn newest_id(&self) -> u64 {
        self.entries.last_key_value().map_or(0, |(id, _)| id.get())
    }

    pub fn insert(&mut self, entry: Arc<AuditEntry>) {
        if entry.action.is_of_members() {
            self.of_members.insert(entry.id);
        }
        self.entries.insert(entry.id, entry);
    }

    /// All of them, as they are stored.
    pub fn all(&self) -> impl Iterator<Item = GuildResource> {
        self.entries.values().map(|entry| GuildResource::AuditEntry(entry.clone()))
    }

    pub fn remove(&mut self, id: Id<()>) {
        self.entries.remove(&id);
        self.of_members.remove(&id);
    }

    pub fn newest(&self) -> Option<&Arc<AuditEntry>> {
        self.entries.last_key_value().map(|(_, entry)| entry)
    }

    pub fn oldest(&self, of_members: bool) -> Option<Id<()>> {
        match of_members {
            true => self.of_members.first().copied(),
            false => self.entries.keys().find(|id| !self.of_members.contains(id)).copied(),
        }
    }
}
