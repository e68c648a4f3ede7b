//! Member table: all members and presences of a guild, copy-on-write.
//!
//! Owns        `MemberTable`, a `CowMap` by user id, with presences.
//! Doors       the guild changes it; snapshots (`clone`) go to slow readers: GUILD_CREATE, op 8.
//! Invariants  M1 it is sorted by user id. M2 a member keeps their presence when they change. M3 a snapshot never
//!             changes. (tests `m*_*`)
//! Limits      those of `CowMap`: a snapshot is free, and a change copies O(log n) entries for n members.
//! Not here    aggregation of presences: the guild stores the result here.

use crate::memory;
use guildhall_model::{Member, Presence, UserId};
use guildhall_stdx::{CowMap, heap::Sample};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{SeqAccess, Visitor},
    ser::SerializeSeq,
};
use std::{fmt, iter, sync::Arc};

/// A member with their presence; no presence means offline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberEntry {
    pub member: Arc<Member>,
    /// Never one with status `Offline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presence: Option<Arc<Presence>>,
}

/// Members by user id. `clone` is a snapshot.
#[derive(Clone, Debug, Default)]
pub struct MemberTable(CowMap<UserId, MemberEntry>);

impl MemberTable {
    /// Number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Has no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of entries and pointers that all changes so far copied. Tests use it to show that cost does not grow
    /// with the members.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.0.steps()
    }

    /// Estimated heap memory, as if no snapshot shared it.
    #[must_use]
    pub fn heap_bytes(&self, sample: Sample) -> usize {
        self.0.heap_bytes(sample, |_, entry| memory::entry_heap(entry))
    }

    /// The member with this user id.
    #[must_use]
    pub fn entry(&self, user_id: UserId) -> Option<&MemberEntry> {
        self.0.get(user_id)
    }

    /// Members with ids greater than `after`, ascending.
    pub fn iter_after(&self, after: UserId) -> impl Iterator<Item = &MemberEntry> {
        self.0.iter_after(after).map(|(_, entry)| entry)
    }

    /// All members, ascending by id.
    pub fn iter(&self) -> impl Iterator<Item = &MemberEntry> {
        self.0.iter().map(|(_, entry)| entry)
    }

    /// Adds or replaces a member; their presence stays. Returns the replaced member.
    pub fn insert(&mut self, member: Arc<Member>) -> Option<Arc<Member>> {
        let user_id = member.user.id;
        let presence = self.entry(user_id).and_then(|entry| entry.presence.clone());
        self.0.insert(user_id, MemberEntry { member, presence }).map(|before| before.member)
    }

    /// Removes a member.
    pub fn remove(&mut self, user_id: UserId) -> Option<MemberEntry> {
        self.0.remove(user_id)
    }

    /// Sets a member's presence; false if there is no such member.
    pub fn set_presence(&mut self, user_id: UserId, presence: Option<Arc<Presence>>) -> bool {
        self.0.with_mut(user_id, |entry| entry.presence = presence).is_some()
    }
}

impl FromIterator<Arc<Member>> for MemberTable {
    fn from_iter<I: IntoIterator<Item = Arc<Member>>>(members: I) -> Self {
        Self(members.into_iter().map(|member| (member.user.id, MemberEntry { member, presence: None })).collect())
    }
}

/// As a sequence of the members, ascending by id.
impl Serialize for MemberTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // `collect_seq` would not know the length.
        let mut entries = serializer.serialize_seq(Some(self.len()))?;
        for entry in self.iter() {
            entries.serialize_element(entry)?;
        }
        entries.end()
    }
}

/// From members in any order; of those with equal ids the last one counts.
impl<'de> Deserialize<'de> for MemberTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = MemberTable;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence of members")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let mut result = Ok(());
                let until_error = iter::from_fn(|| {
                    entries.next_element::<MemberEntry>().unwrap_or_else(|error| {
                        result = Err(error);
                        None
                    })
                });
                let table = until_error.map(|entry| (entry.member.user.id, entry)).collect();
                result.map(|()| MemberTable(table))
            }
        }
        deserializer.deserialize_seq(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::User;
    use guildhall_stdx::{Rng, Timestamp};
    use std::collections::BTreeMap;

    fn member(id: u64, mark: i64) -> Arc<Member> {
        Arc::new(Member::new(Arc::new(User::new(UserId::new(id), "u")), Timestamp(mark)))
    }

    fn content(table: &MemberTable) -> Vec<(u64, i64)> {
        table.iter().map(|e| (e.member.user.id.get(), e.member.joined_at.0)).collect()
    }

    #[test]
    fn m1_behaves_like_a_sorted_map() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let (mut table, mut model) = (MemberTable::default(), BTreeMap::new());
            for step in 0..3000 {
                let id = 1 + rng.below(700);
                match rng.below(3) {
                    0 => {
                        let removed = table.remove(UserId::new(id)).map(|e| e.member.joined_at.0);
                        assert_eq!(removed, model.remove(&id));
                    }
                    _ => {
                        let replaced = table.insert(member(id, step)).map(|m| m.joined_at.0);
                        assert_eq!(replaced, model.insert(id, step));
                    }
                }
                let probe = rng.below(800);
                assert_eq!(table.entry(UserId::new(probe)).map(|e| e.member.joined_at.0), model.get(&probe).copied());
            }
            assert_eq!(table.len(), model.len());
            assert_eq!(content(&table), model.clone().into_iter().collect::<Vec<_>>());
            let after = rng.below(800);
            let tail: Vec<u64> = table.iter_after(UserId::new(after)).map(|e| e.member.user.id.get()).collect();
            assert_eq!(tail, model.keys().copied().filter(|id| *id > after).collect::<Vec<_>>());
        }
    }

    #[test]
    fn m2_a_changed_member_keeps_its_presence() {
        let mut table: MemberTable = [member(1, 0)].into_iter().collect();
        assert!(table.set_presence(UserId::new(1), Some(Arc::default())));
        assert_eq!(table.insert(member(1, 5)).unwrap().joined_at.0, 0);
        assert!(table.entry(UserId::new(1)).unwrap().presence.is_some());
        table.remove(UserId::new(1));
        assert!(table.insert(member(1, 6)).is_none());
        assert!(table.entry(UserId::new(1)).unwrap().presence.is_none());
    }

    #[test]
    fn m3_a_snapshot_never_changes() {
        let mut table: MemberTable = (1..=1000).map(|id| member(id, 0)).collect();
        let snapshot = table.clone();
        let before = content(&snapshot);
        table.remove(UserId::new(500));
        table.insert(member(1001, 5));
        table.insert(member(7, 9));
        assert!(table.set_presence(UserId::new(8), Some(Arc::default())));
        assert!(!table.set_presence(UserId::new(5000), None));
        assert_eq!(content(&snapshot), before);
        assert!(snapshot.entry(UserId::new(8)).unwrap().presence.is_none());
        assert!(table.entry(UserId::new(8)).unwrap().presence.is_some());
        assert_eq!(table.entry(UserId::new(7)).unwrap().member.joined_at.0, 9);
    }
}
