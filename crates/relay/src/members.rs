//! Member table: all members and presences of a guild, copy-on-write.
//!
//! Owns        `MemberTable`, sorted by user id, cut into chunks behind `Arc`.
//! Doors       the guild changes it; snapshots (`clone`) go to whoever reads at leisure: GUILD_CREATE, op 8.
//! Invariants  M1 user ids ascend within and across chunks. M2 no chunk is empty, none exceeds `CHUNK_MAX`.
//!             M3 a snapshot never changes. (tests `m1_*`, `m3_*`)
//! Limits      a clone copies one pointer per chunk at the next change of the directory, at most one chunk
//!             (`CHUNK_MAX` entries) per change after a snapshot.
//! Not here    who is online: the guild aggregates presences and stores the result here.

use guildhall_model::{Member, Presence, UserId};
use std::sync::Arc;

/// A member, and what they show; no presence means offline.
#[derive(Clone, Debug)]
pub struct MemberEntry {
    /// The member.
    pub member: Arc<Member>,
    /// Never one with status `Offline`.
    pub presence: Option<Arc<Presence>>,
}

/// Entries per chunk: small enough to copy in a few microseconds, large enough that ten million members
/// make a directory of some tens of thousands of pointers.
const CHUNK_MAX: usize = 256;

type Chunk = Arc<Vec<MemberEntry>>;

/// Members by user id. `clone` is a snapshot.
#[derive(Clone, Debug, Default)]
pub struct MemberTable {
    chunks: Arc<Vec<Chunk>>,
    len: usize,
}

fn id_of(entry: &MemberEntry) -> UserId {
    entry.member.user.id
}

impl MemberTable {
    /// How many members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The chunk that holds `user_id`, or would.
    fn chunk_index(&self, user_id: UserId) -> usize {
        self.chunks.partition_point(|chunk| id_of(&chunk[0]) <= user_id).saturating_sub(1)
    }

    /// One member.
    #[must_use]
    pub fn entry(&self, user_id: UserId) -> Option<&MemberEntry> {
        let chunk = self.chunks.get(self.chunk_index(user_id))?;
        chunk.binary_search_by_key(&user_id, id_of).ok().map(|at| &chunk[at])
    }

    /// Everybody with an id above `after`, in ascending order.
    pub fn iter_after(&self, after: UserId) -> impl Iterator<Item = &MemberEntry> {
        let first = self.chunk_index(after);
        self.chunks[first.min(self.chunks.len())..]
            .iter()
            .flat_map(|chunk| chunk.iter())
            .skip_while(move |e| id_of(e) <= after)
    }

    /// Everybody, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &MemberEntry> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Adds or replaces a member; a presence that was there stays. Returns the member that was there.
    pub fn insert(&mut self, member: Arc<Member>) -> Option<Arc<Member>> {
        let user_id = member.user.id;
        let index = self.chunk_index(user_id);
        let chunks = Arc::make_mut(&mut self.chunks);
        let Some(chunk) = chunks.get_mut(index) else {
            chunks.push(Arc::new(vec![MemberEntry { member, presence: None }]));
            self.len = 1;
            return None;
        };
        let chunk = Arc::make_mut(chunk);
        match chunk.binary_search_by_key(&user_id, id_of) {
            Ok(at) => return Some(std::mem::replace(&mut chunk[at].member, member)),
            Err(at) => chunk.insert(at, MemberEntry { member, presence: None }),
        }
        if chunk.len() > CHUNK_MAX {
            // Ids mostly ascend with time: splitting off only the end keeps chunks full when members are added in order.
            let appended = id_of(chunk.last().expect("it is longer than CHUNK_MAX")) == user_id;
            let upper = chunk.split_off(if appended { CHUNK_MAX } else { CHUNK_MAX / 2 });
            chunks.insert(index + 1, Arc::new(upper));
        }
        self.len += 1;
        None
    }

    /// Takes a member out.
    pub fn remove(&mut self, user_id: UserId) -> Option<MemberEntry> {
        let index = self.chunk_index(user_id);
        let at = self.chunks.get(index)?.binary_search_by_key(&user_id, id_of).ok()?;
        let chunks = Arc::make_mut(&mut self.chunks);
        let chunk = Arc::make_mut(&mut chunks[index]);
        let entry = chunk.remove(at);
        if chunk.is_empty() {
            chunks.remove(index);
        }
        self.len -= 1;
        Some(entry)
    }

    /// Sets what a member shows; false when there is no such member.
    pub fn set_presence(&mut self, user_id: UserId, presence: Option<Arc<Presence>>) -> bool {
        let index = self.chunk_index(user_id);
        let Some(Ok(at)) = self.chunks.get(index).map(|chunk| chunk.binary_search_by_key(&user_id, id_of)) else {
            return false;
        };
        Arc::make_mut(&mut Arc::make_mut(&mut self.chunks)[index])[at].presence = presence;
        true
    }
}

impl FromIterator<Arc<Member>> for MemberTable {
    fn from_iter<I: IntoIterator<Item = Arc<Member>>>(members: I) -> Self {
        let mut table = Self::default();
        for member in members {
            table.insert(member);
        }
        table
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

    fn invariants(table: &MemberTable) {
        assert!(table.chunks.iter().all(|chunk| (1..=CHUNK_MAX).contains(&chunk.len())));
        assert!(content(table).is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(table.iter().count(), table.len());
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
            invariants(&table);
            assert_eq!(content(&table), model.clone().into_iter().collect::<Vec<_>>());
            let after = rng.below(800);
            let tail: Vec<u64> = table.iter_after(UserId::new(after)).map(|e| e.member.user.id.get()).collect();
            assert_eq!(tail, model.keys().copied().filter(|id| *id > after).collect::<Vec<_>>());
        }
    }

    #[test]
    fn m1_ascending_inserts_fill_chunks() {
        let table: MemberTable = (1..=10_000).map(|id| member(id, 0)).collect();
        invariants(&table);
        assert_eq!(table.chunks.len(), 10_000usize.div_ceil(CHUNK_MAX));
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
