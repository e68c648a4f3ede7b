//! Accounts: a node's changes of accounts and its cache, by the rules of `guildhall_node::user_changes` and
//! `guildhall_node::directory`, and the database that compares versions.
//!
//! An account is the set of its changes. A change reads it, adds itself and writes it whole, if the account still has
//! the version that was read. The last change of some accounts deletes them. Ids go to the first requester.

use guildhall_cluster::DirectoryChange;
use guildhall_model::UserId;
use std::collections::{BTreeMap, BTreeSet};

pub const ACCOUNTS: u64 = 3;
/// Ids that two nodes request, such as those of channels.
pub const IDS: u64 = 400;

/// A change of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    pub id: u64,
    pub account: u64,
    pub deletes: bool,
}

/// An account in the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub version: u64,
    pub changes: BTreeSet<u64>,
    pub is_deleted: bool,
}

impl Account {
    /// The account with a change.
    pub fn with(&self, change: Change) -> Self {
        let changes =
            if change.deletes { BTreeSet::new() } else { self.changes.iter().copied().chain([change.id]).collect() };
        Self { version: self.version + 1, changes, is_deleted: change.deletes }
    }
}

/// Purpose of a read of an account.
#[derive(Clone, Copy, Debug)]
pub enum Reader {
    Change(Change),
    /// With the number of evictions before.
    Cache(u64),
}

/// Events of a node's accounts.
#[derive(Clone, Debug)]
pub enum AccountEvent {
    /// Something wants an account, or an id.
    Client,
    /// None: the database did not answer.
    Read(u64, Reader, Option<Account>),
    /// Whether it was written; none: the database did not answer.
    Written(Change, Option<bool>),
    /// Whether the node has it.
    Given(u64, Option<bool>),
}

/// A node's cache: the version of each account in it.
#[derive(Debug, Default)]
pub struct Cache {
    pub versions: BTreeMap<u64, u64>,
    pub evictions: u64,
}

impl Cache {
    pub fn forget(&mut self, account: u64) {
        self.evictions += 1;
        self.versions.remove(&account);
    }

    pub fn clear(&mut self) {
        self.evictions += 1;
        self.versions.clear();
    }

    pub fn fill(&mut self, evictions: u64, account: u64, version: u64) {
        if self.evictions == evictions {
            self.versions.insert(account, version);
        }
    }

    /// Another node reports changes.
    pub fn apply(&mut self, changes: &[DirectoryChange]) {
        for change in changes {
            if let DirectoryChange::User(user_id) = change {
                self.forget(user_id.get());
            }
        }
    }
}

pub fn report(account: u64) -> Vec<DirectoryChange> {
    vec![DirectoryChange::User(UserId::new(account))]
}

/// Accounts and ids in the database, and what was acknowledged of them.
#[derive(Debug, Default)]
pub struct Accounts {
    pub stored: BTreeMap<u64, Account>,
    pub acknowledged: BTreeMap<u64, BTreeSet<u64>>,
    /// Of each account, once its deletion was acknowledged: its version.
    pub deleted: BTreeMap<u64, u64>,
    /// The slot that has it.
    pub ids: BTreeMap<u64, usize>,
    pub ids_acknowledged: BTreeMap<u64, usize>,
    pub changes_count: u64,
}

impl Accounts {
    /// Promise: a change that was acknowledged is there, unless the account was deleted; a deleted account stays so.
    pub fn problem(&self) -> Option<String> {
        for (account, acknowledged) in &self.acknowledged {
            let stored = self.stored.get(account).cloned().unwrap_or_default();
            let lost: Vec<u64> = acknowledged.difference(&stored.changes).copied().collect();
            if !stored.is_deleted && !lost.is_empty() {
                return Some(format!("account {account} lacks acknowledged changes {lost:?}"));
            }
        }
        for (account, version) in &self.deleted {
            let stored = self.stored.get(account);
            if stored.is_none_or(|stored| !stored.is_deleted || stored.version != *version) {
                return Some(format!("account {account} was deleted as {version}, and is {stored:?}"));
            }
        }
        let id = self.ids_acknowledged.iter().find(|(id, slot)| self.ids.get(id) != Some(slot))?;
        Some(format!("id {} was given to slot {}, and {:?} has it", id.0, id.1, self.ids.get(id.0)))
    }
}
