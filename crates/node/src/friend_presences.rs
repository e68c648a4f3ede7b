//! Presences of friends, which a user account sees without a common guild.
//!
//! Owns        the accounts whose presence may have changed, until their friends were sent it; what READY has of it;
//!             presences of accounts at other nodes, as this node knows them.
//! Doors       `Node::presence_changed` from sessions; `show_friends` after a RESUME; `friend_presences` for READY;
//!             `show_presence` for a new friendship.
//! Invariants  F1 only friends of an account are sent its presence: this node reads who they are, and publishes, while
//!             it changes no relationship. F2 friends are sent the newest presence: an account is read again after its
//!             event, and sent again if it differs, because another node may have sent an event too. F3 when a
//!             node is lost, the others send the presences that its accounts have left. (tests `f1_*` to
//!             `f3_*` in `tests/it`)
//! Limits      `CHANGED_MAX` accounts wait, one is announced at a time; past it friends see the next change.
//!             `LOOK_MAX` for the other nodes: sessions of a node that does not answer do not count. `PAGE` accounts a
//!             question. `ELSEWHERE_MAX` accounts at other nodes, past which friends see the loss of a node with the
//!             next change.
//! Not here    presences of members, which guilds have.     Spec  docs/protocol/reference.md §6.9; ADR 55.

use crate::{
    Inner, Node,
    cluster::{PeerNews, PeerQuestion},
};
use guildhall_guild_protocol::{Event, Published, ReplicaUpdate};
use guildhall_model::{Presence, Relationship, RelationshipKind, Status, UserId};
use guildhall_store::StoreError;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, task::JoinSet, time::sleep};

/// Accounts that wait.
const CHANGED_MAX: usize = 65_536;
/// Longest wait for another node. READY waits for it too.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// Accounts of a question: an answer has up to 8 KiB of activities of each.
const PAGE: usize = 64;
/// Accounts at other nodes, some 20 bytes each.
const ELSEWHERE_MAX: usize = 262_144;
/// Events about one change, if the presence changes while they are sent.
const REPEATS_MAX: u32 = 3;
/// Looks at an account while a node does not answer, which is lost after its lease.
const LOOKS_MAX: u32 = 4;
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Back-off while partitions have no room for events.
const ROOM_PAUSE: Duration = Duration::from_millis(10);

/// Presences of accounts over the sessions of a node.
#[derive(Clone, Serialize, Deserialize)]
struct PresencesOf(Vec<UserId>);

impl PeerQuestion for PresencesOf {
    const KIND: &'static str = "presences";
    type Answer = Vec<(UserId, Presence)>;
}

/// Accounts whose presence may have changed.
#[derive(Debug, Default)]
pub(crate) struct FriendPresences {
    changed: Mutex<BTreeSet<UserId>>,
    /// Accounts that may have sessions at other nodes, with the status that their friends have.
    elsewhere: Mutex<BTreeMap<UserId, Status>>,
    /// Nodes have joined or left since `elsewhere` was compared with what they have.
    has_new_members: AtomicBool,
    wake: Arc<Notify>,
}

impl FriendPresences {
    fn changed(&self) -> MutexGuard<'_, BTreeSet<UserId>> {
        // Each statement leaves it whole.
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn elsewhere(&self) -> MutexGuard<'_, BTreeMap<UserId, Status>> {
        // Each statement leaves it whole.
        self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, news: PeerNews) {
        match news {
            PeerNews::Presence(user_id, status) => self.note_elsewhere(user_id, status),
            PeerNews::Members => {
                self.has_new_members.store(true, Ordering::Release);
                self.wake.notify_one();
            }
        }
    }

    fn note_elsewhere(&self, user_id: UserId, status: Status) {
        let mut elsewhere = self.elsewhere();
        if status == Status::Offline {
            elsewhere.remove(&user_id);
        } else if elsewhere.len() < ELSEWHERE_MAX || elsewhere.contains_key(&user_id) {
            elsewhere.insert(user_id, status);
        }
    }

    /// The node ends.
    pub(crate) fn end(&self) {
        self.wake.notify_one();
    }
}

/// Answers other nodes, and announces changes until the node ends.
pub(crate) fn follow(inner: &Arc<Inner>) {
    if let Some(membership) = &inner.membership {
        let of = Arc::downgrade(inner);
        membership.on_peers(move |news| of.upgrade().iter().for_each(|inner| inner.friend_presences.note(news)));
        let of = Arc::downgrade(inner);
        membership.on_question(move |PresencesOf(user_ids): PresencesOf| {
            let inner = of.upgrade();
            async move {
                let inner = inner?;
                Some(inner.presences_here(&user_ids.into()).await)
            }
        });
    }
    let (wake, of) = (inner.friend_presences.wake.clone(), Arc::downgrade(inner));
    tokio::spawn(async move {
        loop {
            wake.notified().await;
            loop {
                let Some(inner) = Weak::upgrade(&of) else { return };
                if inner.friend_presences.has_new_members.swap(false, Ordering::AcqRel) {
                    (Node { inner }).compare_elsewhere().await;
                    continue;
                }
                let Some(user_id) = inner.friend_presences.changed().pop_first() else { break };
                match (Node { inner }).announce_presence(user_id).await {
                    Ok(()) => {}
                    Err(StoreError::Closed) => return,
                    Err(error) => tracing::warn!(%user_id, %error, "friends were not sent a presence"),
                }
            }
        }
    });
}

/// Presences over the sessions of several nodes, without those that are offline.
struct Found {
    all: BTreeMap<UserId, Presence>,
    /// Every node has answered.
    is_complete: bool,
}

fn status_in(all: &BTreeMap<UserId, Presence>, user_id: UserId) -> Status {
    all.get(&user_id).map_or(Status::Offline, |presence| presence.status)
}

fn merge(all: &mut BTreeMap<UserId, Presence>, found: Vec<(UserId, Presence)>) {
    for (user_id, presence) in found {
        all.entry(user_id).or_default().merge(presence);
    }
}

impl Inner {
    /// Of accounts with a session of this node that shows one.
    async fn presences_here(&self, user_ids: &Arc<[UserId]>) -> Vec<(UserId, Presence)> {
        let mut all = BTreeMap::new();
        for answer in self.relays.presences(user_ids) {
            // A partition that has ended has no sessions.
            merge(&mut all, answer.await.unwrap_or_default());
        }
        all.into_iter().collect()
    }
}

impl Node {
    /// A session of a user account began, ended, or shows another presence: its friends are sent that soon.
    pub fn presence_changed(&self, user_id: UserId) {
        let mut changed = self.inner.friend_presences.changed();
        if changed.len() >= CHANGED_MAX {
            return;
        }
        changed.insert(user_id);
        drop(changed);
        self.inner.friend_presences.wake.notify_one();
    }

    /// Presences of accounts over their sessions on all nodes.
    async fn presences(&self, user_ids: &[UserId]) -> Found {
        let (mut all, mut is_complete) = (BTreeMap::new(), true);
        let (mut asked, mut elsewhere) = (JoinSet::new(), BTreeSet::new());
        for page in user_ids.chunks(PAGE) {
            if let Some(membership) = &self.inner.membership {
                for number in membership.numbers() {
                    let (membership, question) = (membership.clone(), PresencesOf(page.to_vec()));
                    asked.spawn(async move { membership.ask_within(number, &question, LOOK_MAX).await });
                }
            }
            merge(&mut all, self.inner.presences_here(&page.into()).await);
        }
        while let Some(answer) = asked.join_next().await {
            let Some(found) = answer.ok().flatten() else {
                is_complete = false;
                continue;
            };
            elsewhere.extend(found.iter().map(|(user_id, _)| *user_id));
            merge(&mut all, found);
        }
        for user_id in elsewhere {
            self.inner.friend_presences.note_elsewhere(user_id, status_in(&all, user_id));
        }
        Found { all, is_complete }
    }

    /// The presence of an account, if it is not offline. A node that does not answer gets some time, because it may
    /// have sessions of the account, or be lost.
    async fn presence_of(&self, user_id: UserId) -> Option<Presence> {
        for _ in 0..LOOKS_MAX {
            let mut found = self.presences(&[user_id]).await;
            if found.is_complete {
                return found.all.remove(&user_id);
            }
            sleep(LOOK_PAUSE).await;
        }
        self.presences(&[user_id]).await.all.remove(&user_id)
    }

    /// Announces accounts that were at other nodes if these have another presence of them now (F3).
    async fn compare_elsewhere(&self) {
        let presences = &self.inner.friend_presences;
        let known: Vec<(UserId, Status)> =
            presences.elsewhere().iter().map(|(user_id, status)| (*user_id, *status)).collect();
        for page in known.chunks(PAGE) {
            let ids: Vec<UserId> = page.iter().map(|(user_id, _)| *user_id).collect();
            let found = self.presences(&ids).await;
            if !found.is_complete {
                // A member that has just joined is not known to all others, and one that is lost is not
                // noticed at once.
                sleep(LOOK_PAUSE).await;
                return presences.note(PeerNews::Members);
            }
            for (user_id, before) in page {
                let now = status_in(&found.all, *user_id);
                if now != *before {
                    // Also if it is offline: the nodes may be out of reach for a while only.
                    presences.elsewhere().insert(*user_id, now);
                    self.presence_changed(*user_id);
                }
            }
        }
    }

    /// Presences of the friends among these, without those that are offline.
    pub async fn friend_presences(&self, relationships: &[Relationship]) -> Vec<(UserId, Presence)> {
        let friends = relationships.iter().filter(|of| of.relation.kind == RelationshipKind::Friend);
        let ids: Vec<UserId> = friends.map(|of| of.user.id).collect();
        self.presences(&ids).await.all.into_iter().collect()
    }

    async fn announce_presence(&self, user_id: UserId) -> Result<(), StoreError> {
        if self.friends(user_id).await?.is_empty() {
            return Ok(());
        }
        let mut presence = self.presence_of(user_id).await;
        for _ in 0..REPEATS_MAX {
            while !self.inner.relays.may_publish_to_users() {
                sleep(ROOM_PAUSE).await;
            }
            {
                let _no_change = self.inner.relationship_lock.lock().await;
                let friends = self.friends(user_id).await?;
                self.publish_presence(user_id, presence.clone(), friends.into());
            }
            if self.inner.membership.is_none() {
                // No other node sends events about it.
                break;
            }
            let now = self.presence_of(user_id).await;
            if now == presence {
                break;
            }
            presence = now;
        }
        Ok(())
    }

    /// Sends an account the present presences of those of these accounts that are its friends: its client may have
    /// earlier ones.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn show_friends(&self, user_id: UserId, friends: &[UserId]) -> Result<(), StoreError> {
        let mut presences = self.presences(friends).await.all;
        let _no_change = self.inner.relationship_lock.lock().await;
        for friend in friends {
            if self.are_friends(user_id, *friend).await? {
                self.publish_presence(*friend, presences.remove(friend), [user_id].into());
            }
        }
        Ok(())
    }

    /// Sends the presence of an account to a new friend, unless it is offline. The caller holds `relationship_lock`.
    pub(crate) async fn show_presence(&self, of: UserId, to: UserId) {
        let presence = self.presences(&[of]).await.all.remove(&of);
        if presence.is_some() {
            self.publish_presence(of, presence, [to].into());
        }
    }

    /// `friends` are ascending.
    fn publish_presence(&self, user_id: UserId, presence: Option<Presence>, friends: Arc<[UserId]>) {
        if friends.is_empty() {
            return;
        }
        let event = Event::of_friend(user_id, Arc::new(presence.unwrap_or_default()), friends);
        let published = Published { event, replica_update: ReplicaUpdate::None };
        self.inner.relays.publish_to_users(&Arc::new(published), None);
    }
}
