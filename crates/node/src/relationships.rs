//! Relationships of user accounts: friends, requests and blocks.
//!
//! Owns        the rules by which a relationship changes; its records, one for each of the two accounts; the events
//!             about it.
//! Doors       `Node::change_relationship`, `relationships`, `is_blocked`, `remove_relationships`.
//! Invariants  P1 both sides of a pair change in one transaction: each request has its counterpart, each friend too,
//!             after a crash as well. P2 of two changes neither undoes the other: a change is applied to what is stored
//!             now. P3 events follow the commit, and both accounts receive theirs even if the node that committed
//!             crashes before: the transaction also writes an entry, which that node removes after the events, and any
//!             node serves if it stays. (tests `p1_*` to `p3_*` in `tests/it/relationships.rs`)
//! Limits      `RELATIONSHIPS_MAX` friends, blocks and own requests of an account, and as many incoming requests.
//!             `ATTEMPTS_MAX` if other nodes change the same pair. A node changes one pair at a time.
//! Not here    permissions of direct messages: `directs` reads `is_blocked`.     Spec  ADR 54.

use crate::{Inner, Node, tokens::random_bytes};
use guildhall_model::{
    Relation, Relationship, RelationshipKind, User, UserId,
    from_gateway::{RelationshipBody, RelationshipChangeBody},
};
use guildhall_stdx::Timestamp;
use guildhall_store::{RecordSwap, StoreError, USERS_CHANGED_MAX};
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::sleep;

/// Kind of the records; the id is that of the account whose side it is, then the other's.
const RELATION: &str = "relationship";
/// How many of each an account has.
pub(crate) const COUNTS: &str = "relationship-counts";
/// Pairs whose events may not have been sent; the id has the smaller account first.
pub(crate) const NEWS: &str = "relationship-news";
/// Friends, blocks and own requests of an account, as upstream; and its incoming requests.
pub const RELATIONSHIPS_MAX: u32 = 1_000;
/// Read at once.
const PAGE: u32 = 256;
const ATTEMPTS_MAX: u32 = 10;
/// Repetitions of events, if the pair changes at another node while they are sent.
const REPEATS_MAX: u32 = 3;
/// Between two looks for entries that another node left.
const EVERY: Duration = Duration::from_secs(30);
/// Age of an entry whose node has crashed, or failed to remove it.
const NEWS_AGE_MS: i64 = 10_000;

/// A change that an account makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelationshipAct {
    /// Sends a friend request, or accepts the other's.
    Befriend,
    Block,
    /// Ends the friendship, withdraws or declines the request, or removes the block.
    Remove,
    /// Declines the other's request; changes nothing else.
    Decline,
    /// Gives a friend a name; none takes it away.
    Rename(Option<String>),
}

/// Why a relationship does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationshipRefusal {
    /// The account has blocked the other one.
    OwnBlock,
    /// The other account accepts no request: it has blocked this one, or has too many. Clients get one answer for both.
    NotAccepted,
    NotFriends,
    /// The account has `RELATIONSHIPS_MAX`.
    TooMany,
}

type Sides = [Option<Relation>; 2];

/// Whether the sides belong together (P1).
fn fit([own, other]: &Sides) -> bool {
    use RelationshipKind::{Blocked, Friend, Incoming, Outgoing};
    let kind = |of: &Option<Relation>| of.as_ref().map(|relation| relation.kind);
    match kind(own) {
        Some(Friend) => kind(other) == Some(Friend),
        Some(Incoming) => kind(other) == Some(Outgoing),
        Some(Outgoing) => kind(other) == Some(Incoming),
        None | Some(Blocked) => matches!(kind(other), None | Some(Blocked)),
    }
}

/// Both sides after the change: that of the account, then the other's. The sides before it fit.
fn changed([own, other]: &Sides, act: &RelationshipAct, now: Timestamp) -> Result<Sides, RelationshipRefusal> {
    use RelationshipKind::{Blocked, Friend, Incoming, Outgoing};
    let relation = |kind| Some(Relation { kind, nickname: None, since: now });
    let kind = |of: &Option<Relation>| of.as_ref().map(|relation| relation.kind);
    let unchanged = || [own.clone(), other.clone()];
    Ok(match (act, kind(own), kind(other)) {
        (RelationshipAct::Befriend, Some(Friend | Outgoing), _) => unchanged(),
        (RelationshipAct::Befriend, Some(Incoming), _) => [relation(Friend), relation(Friend)],
        (RelationshipAct::Befriend, Some(Blocked), _) => return Err(RelationshipRefusal::OwnBlock),
        (RelationshipAct::Befriend, None, Some(_)) => return Err(RelationshipRefusal::NotAccepted),
        (RelationshipAct::Befriend, None, None) => [relation(Outgoing), relation(Incoming)],
        (RelationshipAct::Block, Some(Blocked), _) => unchanged(),
        // The other account keeps its own block, and nothing else.
        (RelationshipAct::Block, _, Some(Blocked)) => [relation(Blocked), other.clone()],
        (RelationshipAct::Block, ..) => [relation(Blocked), None],
        (RelationshipAct::Remove, None, _) => unchanged(),
        (RelationshipAct::Remove, Some(Blocked), _) => [None, other.clone()],
        (RelationshipAct::Remove, ..) | (RelationshipAct::Decline, Some(Incoming), _) => [None, None],
        (RelationshipAct::Decline, ..) => unchanged(),
        (RelationshipAct::Rename(nickname), Some(Friend), _) => {
            let named = own.clone().map(|relation| Relation { nickname: nickname.clone(), ..relation });
            [named, other.clone()]
        }
        (RelationshipAct::Rename(_), ..) => return Err(RelationshipRefusal::NotFriends),
    })
}

/// How many relationships an account has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    own: u32,
    incoming: u32,
}

impl Counts {
    fn of_kind(&mut self, kind: RelationshipKind) -> &mut u32 {
        if kind == RelationshipKind::Incoming { &mut self.incoming } else { &mut self.own }
    }

    fn after(mut self, before: Option<&Relation>, after: Option<&Relation>) -> Self {
        if let Some(before) = before {
            let count = self.of_kind(before.kind);
            *count = count.saturating_sub(1);
        }
        if let Some(after) = after {
            *self.of_kind(after.kind) += 1;
        }
        self
    }

    fn decode(data: &[u8]) -> Self {
        let number = |at| bytes_at(data, at).map_or(0, u32::from_be_bytes);
        if data.len() == 8 { Self { own: number(0), incoming: number(4) } } else { Self::default() }
    }

    /// None: there are none.
    fn encode(self) -> Option<Vec<u8>> {
        let Self { own, incoming } = self;
        (self != Self::default()).then(|| [own.to_be_bytes(), incoming.to_be_bytes()].concat())
    }
}

fn pair_id(first: UserId, second: UserId) -> Vec<u8> {
    [first.get().to_be_bytes(), second.get().to_be_bytes()].concat()
}

/// Bytes of a number in an id or an entry.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// The accounts of `pair_id`.
fn pair_in(id: &[u8]) -> Option<[UserId; 2]> {
    let user_at = |at| bytes_at(id, at).map(u64::from_be_bytes).map(UserId::new);
    Some([user_at(0)?, user_at(8)?])
}

fn other_in(id: &[u8]) -> Option<UserId> {
    pair_in(id).map(|[_, other_id]| other_id)
}

fn decode(data: &[u8]) -> Result<Relation, StoreError> {
    serde_json::from_slice(data).map_err(|source| StoreError::Corrupt { what: "relationship", source })
}

fn encode(relation: &Relation) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(relation).map_err(|source| StoreError::Encode { what: "relationship", source })
}

/// Sends what crashed nodes have left, until the node ends.
pub(crate) fn follow(inner: &Arc<Inner>) {
    let inner = Arc::downgrade(inner);
    tokio::spawn(async move {
        loop {
            sleep(EVERY).await;
            let Some(inner) = Weak::upgrade(&inner) else { return };
            match (Node { inner }).send_relationship_news(NEWS_AGE_MS).await {
                Ok(()) => {}
                Err(StoreError::Closed) => return,
                Err(error) => tracing::warn!(%error, "events of relationships were not sent yet"),
            }
        }
    });
}

impl Node {
    async fn relation(&self, user_id: UserId, other_id: UserId) -> Result<Option<Relation>, StoreError> {
        let data = self.inner.store.record(RELATION, &pair_id(user_id, other_id)).await?;
        data.as_deref().map(decode).transpose()
    }

    async fn sides(&self, [user_id, other_id]: [UserId; 2]) -> Result<Sides, StoreError> {
        Ok([self.relation(user_id, other_id).await?, self.relation(other_id, user_id).await?])
    }

    /// Whether one of the two has blocked the other.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn is_blocked(&self, pair: [UserId; 2]) -> Result<bool, StoreError> {
        let sides = self.sides(pair).await?;
        Ok(sides.iter().flatten().any(|relation| relation.kind == RelationshipKind::Blocked))
    }

    pub(crate) async fn are_friends(&self, user_id: UserId, other_id: UserId) -> Result<bool, StoreError> {
        let relation = self.relation(user_id, other_id).await?;
        Ok(relation.is_some_and(|relation| relation.kind == RelationshipKind::Friend))
    }

    /// Friends of an account, ascending.
    pub(crate) async fn friends(&self, user_id: UserId) -> Result<Vec<UserId>, StoreError> {
        let counts = self.inner.store.record(COUNTS, &user_id.get().to_be_bytes()).await?;
        if counts.as_deref().map(Counts::decode).unwrap_or_default().own == 0 {
            return Ok(Vec::new());
        }
        let relations = self.relations(user_id).await?;
        let is_friend = |(_, relation): &(UserId, Relation)| relation.kind == RelationshipKind::Friend;
        Ok(relations.into_iter().filter(is_friend).map(|(other_id, _)| other_id).collect())
    }

    /// Sides of an account, by the other's id.
    async fn relations(&self, user_id: UserId) -> Result<Vec<(UserId, Relation)>, StoreError> {
        let prefix = user_id.get().to_be_bytes();
        let mut after = prefix.to_vec();
        let mut relations = Vec::new();
        loop {
            let page = self.inner.store.records(RELATION, &after, PAGE).await?;
            let is_last = page.len() < PAGE as usize;
            let own = page.into_iter().take_while(|(id, _)| id.starts_with(&prefix));
            let before = relations.len();
            for (id, data) in own {
                if let Some(other_id) = other_in(&id) {
                    relations.push((other_id, decode(&data)?));
                }
                after = id;
            }
            if is_last || relations.len() < before + PAGE as usize || relations.len() >= 2 * RELATIONSHIPS_MAX as usize
            {
                return Ok(relations);
            }
        }
    }

    /// Relationships of an account, by the other's id; those with accounts that do not exist any more are left out.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn relationships(&self, user_id: UserId) -> Result<Vec<Relationship>, StoreError> {
        let relations = self.relations(user_id).await?;
        let mut users: HashMap<UserId, Arc<User>> = HashMap::with_capacity(relations.len());
        for some in relations.chunks(USERS_CHANGED_MAX) {
            let ids: Vec<UserId> = some.iter().map(|(other_id, _)| *other_id).collect();
            let found = self.inner.store.user_versions(&ids).await?;
            users.extend(found.into_iter().map(|(user, _)| (user.id, user)));
        }
        let with_user = |(other_id, relation)| Some(Relationship { user: users.get(&other_id)?.clone(), relation });
        Ok(relations.into_iter().filter_map(with_user).collect())
    }

    /// Accounts with exactly this name, at most `limit`; bots and deleted accounts too.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn users_named(&self, username: &str, limit: u32) -> Result<Vec<Arc<User>>, StoreError> {
        self.inner.store.users_named(username, limit).await
    }

    /// Changes the relationship of an account with another, durably, and sends it to the sessions of both. Goes on if
    /// the future is dropped.
    ///
    /// # Errors
    /// The store cannot be read or written; `Contended`.
    pub async fn change_relationship(
        &self,
        user_id: UserId,
        other_id: UserId,
        act: RelationshipAct,
    ) -> Result<Result<(), RelationshipRefusal>, StoreError> {
        let node = self.clone();
        let done = tokio::spawn(async move { node.change_pair([user_id, other_id], &act).await });
        done.await.unwrap_or(Err(StoreError::Closed))
    }

    async fn change_pair(
        &self,
        pair: [UserId; 2],
        act: &RelationshipAct,
    ) -> Result<Result<(), RelationshipRefusal>, StoreError> {
        let _one_at_a_time = self.inner.relationship_lock.lock().await;
        let store = &self.inner.store;
        let [user_id, other_id] = pair;
        let ids = [pair_id(user_id, other_id), pair_id(other_id, user_id)];
        let news_id = pair_id(user_id.min(other_id), user_id.max(other_id));
        for _ in 0..ATTEMPTS_MAX {
            let stored = [store.record(RELATION, &ids[0]).await?, store.record(RELATION, &ids[1]).await?];
            let side = |data: &Option<Vec<u8>>| data.as_deref().map(decode).transpose();
            let before = [side(&stored[0])?, side(&stored[1])?];
            if !fit(&before) {
                // The sides are read one after the other: another node changed the pair in between.
                continue;
            }
            let now = self.inner.clock.now().unix;
            let after = match changed(&before, act, now) {
                Ok(after) if after == before => return Ok(Ok(())),
                Ok(after) => after,
                Err(refusal) => return Ok(Err(refusal)),
            };
            let news = [now.0.to_be_bytes(), random_bytes()].concat();
            let mut swaps = vec![RecordSwap {
                kind: NEWS,
                id: news_id.clone(),
                before: store.record(NEWS, &news_id).await?,
                after: Some(news.clone()),
            }];
            for (at, stored) in stored.into_iter().enumerate().filter(|(at, _)| before[*at] != after[*at]) {
                let id = pair[at].get().to_be_bytes().to_vec();
                let stored_counts = store.record(COUNTS, &id).await?;
                let counts = stored_counts.as_deref().map(Counts::decode).unwrap_or_default();
                let counts_after = counts.after(before[at].as_ref(), after[at].as_ref());
                if counts_after.own > counts.own.max(RELATIONSHIPS_MAX) {
                    return Ok(Err(RelationshipRefusal::TooMany));
                }
                if counts_after.incoming > counts.incoming.max(RELATIONSHIPS_MAX) {
                    return Ok(Err(RelationshipRefusal::NotAccepted));
                }
                // Other pairs of the account may change now: the swap fails then.
                if counts_after != counts {
                    swaps.push(RecordSwap { kind: COUNTS, id, before: stored_counts, after: counts_after.encode() });
                }
                let relation = after[at].as_ref().map(encode).transpose()?;
                swaps.push(RecordSwap { kind: RELATION, id: ids[at].clone(), before: stored, after: relation });
            }
            if store.swap_records(&swaps).await? {
                self.send_changes(pair, &before, &after).await?;
                store.swap_record(NEWS, &news_id, Some(&news), None).await?;
                return Ok(Ok(()));
            }
        }
        Err(StoreError::Contended { what: "relationship" })
    }

    /// Sends a change to both. If another node changes the pair meanwhile, the state after that follows, whichever
    /// node's events come last.
    async fn send_changes(&self, pair: [UserId; 2], before: &Sides, after: &Sides) -> Result<(), StoreError> {
        let (mut before, mut after) = (before.clone(), after.clone());
        for _ in 0..REPEATS_MAX {
            for (at, is_actor) in [(0, true), (1, false)] {
                self.send_side((pair[at], pair[1 - at]), (before[at].as_ref(), after[at].as_ref()), is_actor).await?;
            }
            let now = self.sides(pair).await?;
            if now == after {
                break;
            }
            before = std::mem::replace(&mut after, now);
        }
        Ok(())
    }

    async fn send_side(
        &self,
        (user_id, other_id): (UserId, UserId),
        sides: (Option<&Relation>, Option<&Relation>),
        is_actor: bool,
    ) -> Result<(), StoreError> {
        match sides {
            (before, after) if before == after => {}
            (before, None) => {
                self.publish_to_account(user_id, "RELATIONSHIP_REMOVE", &RelationshipChangeBody::new(other_id, before));
            }
            (Some(before), Some(after)) if before.kind == after.kind => {
                let body = RelationshipChangeBody::new(other_id, Some(after));
                self.publish_to_account(user_id, "RELATIONSHIP_UPDATE", &body);
            }
            (_, Some(after)) => {
                let Some(user) = self.user(other_id).await? else { return Ok(()) };
                let of = Relationship { user, relation: after.clone() };
                let is_news = !is_actor && matches!(after.kind, RelationshipKind::Incoming | RelationshipKind::Friend);
                self.publish_to_account(user_id, "RELATIONSHIP_ADD", &RelationshipBody::new(&of).notifying(is_news));
                if after.kind == RelationshipKind::Friend {
                    self.show_presence(other_id, user_id).await;
                }
            }
        }
        Ok(())
    }

    /// Sends the state of pairs whose entry is at least this old: a node crashed between a commit and its events.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn send_relationship_news(&self, age_ms: i64) -> Result<(), StoreError> {
        let now = self.inner.clock.now().unix;
        for (id, data) in self.inner.store.records(NEWS, &[], PAGE).await? {
            let at = bytes_at(&data, 0).map_or(0, i64::from_be_bytes);
            if now.0.saturating_sub(at) < age_ms {
                continue;
            }
            if let Some(pair) = pair_in(&id) {
                let _one_at_a_time = self.inner.relationship_lock.lock().await;
                let sides = self.sides(pair).await?;
                for at in [0, 1] {
                    match &sides[at] {
                        None => self.publish_to_account(
                            pair[at],
                            "RELATIONSHIP_REMOVE",
                            &RelationshipChangeBody::new(pair[1 - at], None),
                        ),
                        after => self.send_side((pair[at], pair[1 - at]), (None, after.as_ref()), true).await?,
                    }
                }
            }
            self.inner.store.swap_record(NEWS, &id, Some(&data), None).await?;
        }
        Ok(())
    }

    /// Removes all relationships of an account that is deleted, and those of others with it but their blocks.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn remove_relationships(&self, user_id: UserId) -> Result<(), StoreError> {
        let prefix = user_id.get().to_be_bytes();
        loop {
            let page = self.inner.store.records(RELATION, &prefix, PAGE).await?;
            let own: Vec<UserId> =
                page.iter().filter(|(id, _)| id.starts_with(&prefix)).filter_map(|(id, _)| other_in(id)).collect();
            if own.is_empty() {
                return Ok(());
            }
            for other_id in own {
                // A removal is never refused.
                let _ = self.change_relationship(user_id, other_id, RelationshipAct::Remove).await?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RelationshipKind::{Blocked, Friend, Incoming, Outgoing};

    const NOW: Timestamp = Timestamp(5);
    const KINDS: [Option<RelationshipKind>; 5] = [None, Some(Friend), Some(Blocked), Some(Incoming), Some(Outgoing)];

    fn side(kind: Option<RelationshipKind>) -> Option<Relation> {
        kind.map(|kind| Relation { kind, nickname: None, since: Timestamp(1) })
    }

    fn kinds(sides: &Sides) -> [Option<RelationshipKind>; 2] {
        [0, 1].map(|at| sides[at].as_ref().map(|relation| relation.kind))
    }

    /// P1, from every state by every act.
    #[test]
    fn p1_sides_fit_each_other() {
        let acts = [
            RelationshipAct::Befriend,
            RelationshipAct::Block,
            RelationshipAct::Remove,
            RelationshipAct::Decline,
            RelationshipAct::Rename(Some("Bo".to_owned())),
        ];
        let mut changes_count = 0;
        for own in KINDS {
            for other in KINDS.into_iter().filter(|other| fit(&[side(own), side(*other)])) {
                let before = [side(own), side(other)];
                for act in &acts {
                    let Ok(after) = changed(&before, act, NOW) else { continue };
                    assert!(fit(&after), "{act:?} of {own:?} {other:?}: {after:?}");
                    assert_eq!(changed(&after, act, NOW).as_ref(), Ok(&after), "{act:?} is idempotent");
                    // A block of the other account is theirs alone.
                    assert!(other != Some(Blocked) || after[1] == before[1], "{act:?}: {after:?}");
                    changes_count += usize::from(after != before);
                }
            }
        }
        assert!(changes_count >= 10, "{changes_count}");
    }

    #[test]
    fn requests_become_friendships() {
        let check = |before: [Option<RelationshipKind>; 2], act: RelationshipAct, expected| {
            let after = changed(&before.map(side), &act, NOW);
            assert_eq!(after.map(|after| kinds(&after)), expected, "{act:?} of {before:?}");
        };
        check([None, None], RelationshipAct::Befriend, Ok([Some(Outgoing), Some(Incoming)]));
        check([Some(Outgoing), Some(Incoming)], RelationshipAct::Befriend, Ok([Some(Outgoing), Some(Incoming)]));
        check([Some(Incoming), Some(Outgoing)], RelationshipAct::Befriend, Ok([Some(Friend), Some(Friend)]));
        check([None, Some(Blocked)], RelationshipAct::Befriend, Err(RelationshipRefusal::NotAccepted));
        check([Some(Blocked), None], RelationshipAct::Befriend, Err(RelationshipRefusal::OwnBlock));
        check([Some(Friend), Some(Friend)], RelationshipAct::Block, Ok([Some(Blocked), None]));
        check([None, Some(Blocked)], RelationshipAct::Block, Ok([Some(Blocked), Some(Blocked)]));
        check([Some(Blocked), Some(Blocked)], RelationshipAct::Remove, Ok([None, Some(Blocked)]));
        check([Some(Incoming), Some(Outgoing)], RelationshipAct::Remove, Ok([None, None]));
        check([Some(Incoming), Some(Outgoing)], RelationshipAct::Decline, Ok([None, None]));
        check([Some(Friend), Some(Friend)], RelationshipAct::Decline, Ok([Some(Friend), Some(Friend)]));
        check([Some(Incoming), Some(Outgoing)], RelationshipAct::Rename(None), Err(RelationshipRefusal::NotFriends));
    }

    #[test]
    fn counts_follow() {
        let empty = Counts::default();
        assert_eq!((empty.encode(), Counts::decode(b"short")), (None, empty));
        let incoming = empty.after(None, side(Some(Incoming)).as_ref());
        assert_eq!(incoming, Counts { own: 0, incoming: 1 });
        assert_eq!(Counts::decode(&incoming.encode().unwrap()), incoming);
        let accepted = incoming.after(side(Some(Incoming)).as_ref(), side(Some(Friend)).as_ref());
        assert_eq!(accepted, Counts { own: 1, incoming: 0 });
        assert_eq!(accepted.after(side(Some(Friend)).as_ref(), None), empty);
    }
}
