//! Friends: friendships and presences of accounts, as the node has them for the partitions.
//!
//! Invariants  an account's presence is sent to its friends of that moment, to both partitions in the same order.
//!             Presences that a partition requests after a RESUME are sent to friends alone. READY has the presences
//!             of the moment at which it is answered.
//! Not here    records and transactions of relationships: `guildhall-node` has tests of its own.

use super::{PartitionCommand, Side, World};
use crate::{checker::Fault, model::FriendEvent};
use guildhall_guild_protocol::{Event, Published, ReplicaUpdate};
use guildhall_model::{Presence, Status, UserId};
use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

/// Friendships, and presences of accounts that are not offline.
#[derive(Debug, Default)]
pub struct Friends {
    /// The smaller id first.
    pairs: BTreeSet<(u64, u64)>,
    shown: BTreeMap<u64, Status>,
}

impl Friends {
    pub fn are(&self, one: u64, other: u64) -> bool {
        self.pairs.contains(&(one.min(other), one.max(other)))
    }

    /// Friends of an account.
    pub fn of(&self, user: u64) -> BTreeSet<u64> {
        let other = |(low, high): &(u64, u64)| match user {
            user if user == *low => Some(*high),
            user if user == *high => Some(*low),
            _ => None,
        };
        self.pairs.iter().filter_map(other).collect()
    }

    pub fn shown(&self, user: u64) -> Status {
        self.shown.get(&user).copied().unwrap_or_default()
    }

    /// Of friends that are not offline, for READY.
    pub fn presences(&self, user: u64) -> Vec<(UserId, Presence)> {
        let presence = |friend: u64| {
            let status = *self.shown.get(&friend)?;
            Some((UserId::new(friend), Presence { status, ..Presence::default() }))
        };
        self.of(user).into_iter().filter_map(presence).collect()
    }
}

impl World {
    /// Two accounts become friends, or one of them ends that, which it also does by a block.
    pub fn befriend_or_part(&mut self, one: u64, other: u64) {
        let pair = (one.min(other), one.max(other));
        if one == other || self.friends.pairs.remove(&pair) {
            return;
        }
        self.friends.pairs.insert(pair);
        // A client forgets what it knew of an earlier friendship. Those here do not.
        self.send_presence(one, [other].into());
        self.send_presence(other, [one].into());
    }

    /// The sessions of an account show something else.
    pub fn show_to_friends(&mut self, user: u64, status: Status) {
        match status {
            Status::Offline => self.friends.shown.remove(&user),
            status => self.friends.shown.insert(user, status),
        };
        self.send_presence(user, self.friends.of(user));
    }

    /// A partition has left presences out of a replay.
    pub(super) fn show_friends(&mut self, user: u64, friends: &[UserId]) {
        for friend in friends.iter().map(|friend| friend.get()) {
            if self.friends.are(user, friend) {
                self.send_presence(friend, [user].into());
            }
        }
    }

    fn send_presence(&mut self, of: u64, to: BTreeSet<u64>) {
        if to.is_empty() {
            return;
        }
        let status = self.friends.shown(of);
        let presence = Arc::new(Presence { status, ..Presence::default() });
        let readers: Arc<[UserId]> = to.iter().map(|user| UserId::new(*user)).collect();
        let event = Event::of_friend(UserId::new(of), presence, readers);
        let published = Arc::new(Published { event, replica_update: ReplicaUpdate::None });
        let event = Rc::new(FriendEvent::new(of, to, status));
        for side in &mut self.sides {
            let (published, event) = (published.clone(), event.clone());
            side.commands.push_back(PartitionCommand::Friend { published, event });
        }
    }

    pub(super) fn friend_at(
        &mut self,
        side: usize,
        published: &Arc<Published>,
        event: &FriendEvent,
    ) -> Result<(), Fault> {
        self.checker.publish_friend(side, event);
        let now = self.now();
        let to = self.fault_injector.friends(side, event.of, published.event.audience.rule.users());
        let Side { partition, link, .. } = &mut self.sides[side];
        partition.publish_to_users(now, published, &to, link);
        self.after(side)
    }
}
