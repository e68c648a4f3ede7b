//! Entries of the member table: a member with their presence.
//!
//! Owns        `Members`: the table, and the number of members who are online.
//! Doors       `put_entry`, `set_user_presence` and `remove_entry`: the only ways to change the table.
//! Invariants  I1 the number of online members is that of the entries with a presence. I2 member lists follow each
//!             change of an entry.
//! Limits      one entry per member.

use crate::machine::Guild;
use guildhall_guild_protocol::{MemberEntry, MemberTable};
use guildhall_model::{Member, Presence, UserId};
use guildhall_stdx::heap::Sample;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Members {
    table: MemberTable,
    online_count: u64,
}

impl Members {
    /// Members without presences.
    pub fn new(members: Vec<Arc<Member>>) -> Self {
        Self { table: members.into_iter().collect(), online_count: 0 }
    }

    /// The table as it is now. O(1).
    pub fn snapshot(&self) -> MemberTable {
        self.table.clone()
    }

    pub fn entry(&self, user_id: UserId) -> Option<&MemberEntry> {
        self.table.entry(user_id)
    }

    /// By user id, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &MemberEntry> {
        self.table.iter()
    }

    /// Replaces the presence of a member by an equal one.
    pub fn share_presence(&mut self, user_id: UserId, presence: Option<Arc<Presence>>) {
        self.table.set_presence(user_id, presence);
    }

    pub fn heap_bytes(&self, sample: Sample) -> usize {
        self.table.heap_bytes(sample)
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Number of members with a presence.
    pub fn online_count(&self) -> u64 {
        self.online_count
    }
}

impl Guild {
    /// Adds or replaces a member.
    pub(crate) fn put_entry(&mut self, member: Arc<Member>) {
        let user_id = member.user.id;
        let before = self.members.entry(user_id).cloned();
        self.members.table.insert(member);
        self.lists_follow(user_id, before.as_ref());
    }

    /// Sets the presence of a member; none: offline.
    pub(crate) fn set_user_presence(&mut self, user_id: UserId, presence: Option<Arc<Presence>>) {
        let Some(before) = self.members.entry(user_id).cloned() else { return };
        self.members.online_count += u64::from(presence.is_some());
        self.members.online_count -= u64::from(before.presence.is_some());
        self.members.table.set_presence(user_id, presence);
        self.lists_follow(user_id, Some(&before));
    }

    pub(crate) fn remove_entry(&mut self, user_id: UserId) {
        if let Some(before) = self.members.table.remove(user_id) {
            self.members.online_count -= u64::from(before.presence.is_some());
            self.lists_follow(user_id, Some(&before));
        }
    }
}
