//! Subscriptions to single members by user accounts of a relay.
//!
//! Owns        per session the members it watches, and per member its watchers.
//! Doors       `set` and `remove`, which return the changes to send to the guild; `member_watchers` for the fan-out.
//! Invariants  W1 a member has watchers here exactly while some session's subscription names them. W2 the guild
//!             receives the first watcher of a member and the removal of the last.
//! Limits      those of reference.md §8.4 per session, enforced when the opcode is parsed.

use crate::audience::Map;
use guildhall_model::UserId;
use guildhall_stdx::heap::{self, Sample};
use smallvec::SmallVec;
use std::sync::Arc;

/// Members with a first watcher, and members whose last watcher is gone.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Watched {
    pub added: Vec<UserId>,
    pub removed: Vec<UserId>,
}

#[derive(Debug)]
struct Watching {
    user_id: UserId,
    /// Sorted, without duplicates. Mostly shared with the session.
    members: Arc<[UserId]>,
}

#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    by_slot: Map<u32, Box<Watching>>,
    watchers: Map<UserId, SmallVec<[u32; 2]>>,
}

impl Subscriptions {
    /// Replaces the members that a session watches. Returns the changes for the guild, and the members that are
    /// new to the session.
    pub fn set(&mut self, user_id: UserId, slot: u32, members: Arc<[UserId]>) -> (Watched, Vec<UserId>) {
        let before = self.by_slot.get(&slot).map(|watching| watching.members.clone()).unwrap_or_default();
        let members = if members.is_sorted_by(|a, b| a < b) { members } else { sorted(&members) };
        let mut watched = Watched::default();
        for gone in before.iter().filter(|id| members.binary_search(id).is_err()) {
            self.unwatch(*gone, slot, &mut watched);
        }
        let new: Vec<UserId> = members.iter().filter(|id| before.binary_search(id).is_err()).copied().collect();
        for id in &new {
            let watchers = self.watchers.entry(*id).or_default();
            if watchers.is_empty() {
                watched.added.push(*id);
            }
            watchers.push(slot);
        }
        if members.is_empty() {
            self.by_slot.remove(&slot);
        } else {
            self.by_slot.insert(slot, Box::new(Watching { user_id, members }));
        }
        (watched, new)
    }

    /// Estimated heap memory.
    pub fn heap_bytes(&self, sample: Sample) -> usize {
        let of_slots =
            |slots: &SmallVec<[u32; 2]>| if slots.spilled() { heap::allocated(slots.capacity() * 4) } else { 0 };
        let of_members =
            |of: &Arc<[UserId]>| heap::allocated(2 * size_of::<usize>() + size_of_val(&**of)) / Arc::strong_count(of);
        sample.of_map(&self.by_slot, |_, watching| heap::boxed::<Watching>() + of_members(&watching.members))
            + sample.of_map(&self.watchers, |_, slots| of_slots(slots))
    }

    /// Removes a session.
    pub fn remove(&mut self, slot: u32) -> Watched {
        let mut watched = Watched::default();
        if let Some(watching) = self.by_slot.remove(&slot) {
            watching.members.iter().for_each(|id| self.unwatch(*id, slot, &mut watched));
        }
        watched
    }

    /// Members that a session watches.
    pub fn of(&self, slot: u32) -> &[UserId] {
        self.by_slot.get(&slot).map_or(&[], |watching| &watching.members)
    }

    /// All watched members, sorted.
    pub fn watched(&self) -> Vec<UserId> {
        let mut watched: Vec<UserId> = self.watchers.keys().copied().collect();
        watched.sort_unstable();
        watched
    }

    /// Watchers of a member: account and slot.
    pub fn member_watchers(&self, member: Option<UserId>) -> impl Iterator<Item = (UserId, u32)> + '_ {
        let slots = member.and_then(|id| self.watchers.get(&id)).into_iter().flatten();
        slots.filter_map(|slot| Some((self.by_slot.get(slot)?.user_id, *slot)))
    }

    fn unwatch(&mut self, member: UserId, slot: u32, watched: &mut Watched) {
        let Some(watchers) = self.watchers.get_mut(&member) else { return };
        watchers.retain(|other| *other != slot);
        if watchers.is_empty() {
            self.watchers.remove(&member);
            watched.removed.push(member);
        }
    }
}

fn sorted(members: &[UserId]) -> Arc<[UserId]> {
    let mut members = members.to_vec();
    members.sort_unstable();
    members.dedup();
    members.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[u64]) -> Vec<UserId> {
        ids.iter().copied().map(UserId::new).collect()
    }

    #[test]
    fn w1_w2_the_guild_hears_of_the_first_and_the_last() {
        let mut subscriptions = Subscriptions::default();
        let watched = |added: &[u64], removed: &[u64]| Watched { added: ids(added), removed: ids(removed) };
        let me = UserId::new(1);
        assert_eq!(subscriptions.set(me, 5, ids(&[8, 7, 7]).into()), (watched(&[7, 8], &[]), ids(&[7, 8])));
        assert_eq!(subscriptions.set(me, 6, ids(&[8, 9]).into()), (watched(&[9], &[]), ids(&[8, 9])));
        assert_eq!(subscriptions.set(me, 5, ids(&[7]).into()), (watched(&[], &[]), ids(&[])));
        assert_eq!(subscriptions.member_watchers(Some(UserId::new(8))).collect::<Vec<_>>(), [(me, 6)]);
        assert_eq!(subscriptions.remove(6), watched(&[], &[8, 9]));
        assert_eq!(subscriptions.set(me, 5, Arc::default()), (watched(&[], &[7]), ids(&[])));
        assert_eq!(subscriptions.remove(5), watched(&[], &[]));
        assert!(subscriptions.watched().is_empty() && subscriptions.by_slot.is_empty());
    }

    #[test]
    fn watched_members_are_reported_in_a_fixed_order() {
        let mut subscriptions = Subscriptions::default();
        let members: Vec<u64> = (1..50).collect();
        subscriptions.set(UserId::new(1), 5, ids(&members).into());
        assert_eq!(subscriptions.watched(), ids(&members));
    }
}
