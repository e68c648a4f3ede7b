//! Read states of accounts, written behind.
//!
//! Owns        acknowledgements that are not in the store yet, merged by account and channel; the task that writes them
//!             and then sends MESSAGE_ACK and CHANNEL_PINS_ACK to the account's sessions; what READY has of all this.
//! Doors       `Node::acknowledge`, `acknowledge_pins`, `forget_read_state`, `wrote_message`; `Node::reading`.
//! Invariants  A1 an event follows the commit of its acknowledgement. So a session that reads the store and receives
//!             every later event knows all of them, whichever node they came to. A2 `Node::reading` includes what this
//!             node accepted before. (tests `a1_*`, `a2_*` in `tests/it/read_states.rs`)
//! Limits      a write per `EVERY`, of `READ_CHANGES_MAX` changes: a crash loses the acknowledgements of about that
//!             time. `PENDING_MAX` changes wait; past it an acknowledgement is refused. `READ_STATES_MAX` states per
//!             account: READY keeps those with the newest messages. `DIRECT_COUNT_MAX` counted messages per direct
//!             message; mentions: `MENTIONS_MAX` of `guildhall-store`.
//! Not here    counting: mentions are counted when READY is sent (`guildhall-session`).
//! Spec        ADR 51.

use crate::{Inner, Node, Refusal};
use guildhall_guild_protocol::{BackendEvent, Event, Published, ReplicaUpdate};
use guildhall_model::{
    ChannelId, Direct, EPOCH_MS, MessageId, ReadState, UnreadMention, UserId,
    from_gateway::{ChannelPinsAckBody, MessageAckBody},
};
use guildhall_stdx::Timestamp;
use guildhall_store::{DirectSpan, READ_CHANGES_MAX, ReadChange, ReadStateChange, ReadUpTo, StoreError};
use serde::Serialize;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use tokio::{sync::Notify, time::sleep};

/// Between two writes. The first after a pause does not wait.
const EVERY: Duration = Duration::from_millis(500);
/// After a write that failed.
const RETRY: Duration = Duration::from_secs(5);
/// Changes that wait, of all accounts.
const PENDING_MAX: usize = 65_536;
/// Read states of an account.
pub const READ_STATES_MAX: u32 = 10_000;
/// Unread messages of one direct message that are counted.
pub const DIRECT_COUNT_MAX: u32 = 1_000;

/// An acknowledgement: everything up to a message is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    pub message_id: MessageId,
    /// The user marked what follows as unread: the state may go back.
    pub is_manual: bool,
    /// The client's own number, for the other sessions.
    pub mention_count: Option<u32>,
    pub flags: Option<u32>,
    /// Days since 2015-01-01.
    pub last_viewed: Option<u32>,
}

/// Read states of an account and its unread mentions, for READY.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub states: Vec<ReadState>,
    /// Mentions after the states, in guilds.
    pub mentions: Vec<UnreadMention>,
    /// Unread messages of direct messages; those without are left out.
    pub directs: Vec<(ChannelId, u32)>,
    /// Grows with each acknowledgement.
    pub version: u64,
}

/// A change that waits, and the events that follow it.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    change: ReadChange,
    ack: Option<Ack>,
    pins: Option<Timestamp>,
}

impl Waiting {
    fn then(self, later: Self) -> Self {
        let change = self.change.then(later.change);
        let ack = match (self.ack, later.ack) {
            (Some(earlier), Some(ack)) => Some(Ack {
                message_id: if ack.is_manual { ack.message_id } else { earlier.message_id.max(ack.message_id) },
                is_manual: earlier.is_manual || ack.is_manual,
                flags: ack.flags.or(earlier.flags),
                last_viewed: ack.last_viewed.or(earlier.last_viewed),
                mention_count: ack.mention_count,
            }),
            (earlier, ack) => ack.or(earlier),
        };
        Self { change, ack, pins: self.pins.max(later.pins) }
    }
}

type Key = (UserId, ChannelId);

#[derive(Debug, Default)]
struct Pending {
    waiting: BTreeMap<Key, Waiting>,
    /// Accounts whose changes are being written.
    in_flight: HashSet<UserId>,
}

impl Pending {
    fn add(&mut self, key: Key, later: Waiting) {
        let waiting = self.waiting.entry(key).or_default();
        *waiting = waiting.then(later);
    }

    /// Takes changes to write, of all accounts or of one.
    fn take(&mut self, only: Option<UserId>) -> Vec<(Key, Waiting)> {
        let of = |user_id| (user_id, ChannelId::new(0))..=(user_id, ChannelId::new(u64::MAX));
        let keys: Vec<Key> = match only {
            Some(user_id) => self.waiting.range(of(user_id)).take(READ_CHANGES_MAX).map(|(key, _)| *key).collect(),
            None => self.waiting.keys().take(READ_CHANGES_MAX).copied().collect(),
        };
        self.in_flight = keys.iter().map(|(user_id, _)| *user_id).collect();
        keys.into_iter().filter_map(|key| Some((key, self.waiting.remove(&key)?))).collect()
    }

    fn concerns(&self, user_id: UserId) -> bool {
        let first = self.waiting.range((user_id, ChannelId::new(0))..).next();
        self.in_flight.contains(&user_id) || first.is_some_and(|((of, _), _)| *of == user_id)
    }
}

/// Acknowledgements that are not in the store yet.
#[derive(Debug, Default)]
pub(crate) struct ReadStates {
    pending: Mutex<Pending>,
    wake: Arc<Notify>,
    /// Held while changes are written.
    writing: tokio::sync::Mutex<()>,
}

impl ReadStates {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        // Each statement leaves it whole.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, key: Key, waiting: Waiting) -> Result<(), Refusal> {
        {
            let mut pending = self.pending();
            if pending.waiting.len() >= PENDING_MAX && !pending.waiting.contains_key(&key) {
                return Err(Refusal::Unavailable);
            }
            pending.add(key, waiting);
        }
        self.wake.notify_one();
        Ok(())
    }

    /// The node ends.
    pub(crate) fn end(&self) {
        self.wake.notify_one();
    }
}

/// Writes changes until the node ends.
pub(crate) fn follow(inner: &Arc<Inner>) {
    let (wake, inner) = (inner.read_states.wake.clone(), Arc::downgrade(inner));
    tokio::spawn(async move {
        loop {
            wake.notified().await;
            let Some(inner) = Weak::upgrade(&inner) else { return };
            let is_written = Node { inner }.write_read_states().await;
            sleep(if is_written { EVERY } else { RETRY }).await;
        }
    });
}

impl Node {
    /// Marks a channel as read up to a message. Returns before that is durable.
    ///
    /// # Errors
    /// `Unavailable` if too many changes wait for the store.
    pub fn acknowledge(&self, user_id: UserId, channel_id: ChannelId, ack: Ack) -> Result<(), Refusal> {
        let up_to = if ack.is_manual { ReadUpTo::Exactly } else { ReadUpTo::AtLeast };
        let change = ReadChange {
            message: Some(up_to(ack.message_id)),
            flags: ack.flags,
            last_viewed: ack.last_viewed,
            ..ReadChange::default()
        };
        self.inner.read_states.push((user_id, channel_id), Waiting { change, ack: Some(ack), pins: None })
    }

    /// Marks the pins of a channel as seen up to a time. As `acknowledge`.
    ///
    /// # Errors
    /// As `acknowledge`.
    pub fn acknowledge_pins(&self, user_id: UserId, channel_id: ChannelId, at: Timestamp) -> Result<(), Refusal> {
        let change = ReadChange { pin: Some(at), ..ReadChange::default() };
        self.inner.read_states.push((user_id, channel_id), Waiting { change, ack: None, pins: Some(at) })
    }

    /// Forgets how far an account has read a channel. As `acknowledge`.
    ///
    /// # Errors
    /// As `acknowledge`.
    pub fn forget_read_state(&self, user_id: UserId, channel_id: ChannelId) -> Result<(), Refusal> {
        let change = ReadChange { is_reset: true, ..ReadChange::default() };
        self.inner.read_states.push((user_id, channel_id), Waiting { change, ..Waiting::default() })
    }

    /// An account has written a message, so it has read the channel up to there. Its clients know without an event. If
    /// too many changes wait, the channel stays unread.
    pub fn wrote_message(&self, user_id: UserId, channel_id: ChannelId, message_id: MessageId) {
        let change = ReadChange { message: Some(ReadUpTo::AtLeast(message_id)), ..ReadChange::default() };
        let waiting = Waiting { change, ..Waiting::default() };
        if self.inner.read_states.push((user_id, channel_id), waiting).is_err() {
            tracing::debug!(%user_id, %channel_id, "a message of the account did not mark the channel as read");
        }
    }

    /// Read states of an account, its unread mentions, and its unread messages in `directs` up to their newest message.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn reading(&self, user_id: UserId, directs: &[Direct]) -> Result<Reading, StoreError> {
        if self.inner.read_states.pending().concerns(user_id) {
            // If they cannot be written now, their events follow later.
            self.write_read_states_of(Some(user_id)).await;
        }
        let version = self.read_version();
        let store = &self.inner.store;
        let mut states = store.read_states(user_id, READ_STATES_MAX + 1).await?;
        if states.len() > READ_STATES_MAX as usize {
            if let Err(error) = store.trim_read_states(user_id, READ_STATES_MAX).await {
                tracing::warn!(%user_id, %error, "old read states were not removed: READY lacks some");
            }
            states = store.read_states(user_id, READ_STATES_MAX).await?;
        }
        let mentions = store.unread_mentions(user_id).await?;
        let read: HashMap<ChannelId, MessageId> =
            states.iter().map(|state| (state.channel_id, state.last_message_id)).collect();
        let span = |direct: &Direct| {
            let channel_id = direct.channel.id;
            let after = read.get(&channel_id).copied().unwrap_or(MessageId::new(0));
            let up_to = direct.channel.last_message_id.filter(|up_to| *up_to > after)?;
            Some(DirectSpan { channel_id, after, up_to })
        };
        let spans: Vec<DirectSpan> = directs.iter().filter_map(span).collect();
        let counts = match spans.is_empty() {
            true => Vec::new(),
            false => store.unread_directs(user_id, &spans, DIRECT_COUNT_MAX).await?,
        };
        let counts = spans.iter().map(|span| span.channel_id).zip(counts).filter(|(_, count)| *count > 0);
        Ok(Reading { states, mentions, directs: counts.collect(), version })
    }

    /// Forgets everything that an account has read.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn remove_read_states(&self, user_id: UserId) -> Result<(), StoreError> {
        self.write_read_states_of(Some(user_id)).await;
        self.inner.store.trim_read_states(user_id, 0).await
    }

    /// Writes everything that waits. False: the store accepted not everything, and the rest waits on.
    pub(crate) async fn write_read_states(&self) -> bool {
        self.write_read_states_of(None).await
    }

    async fn write_read_states_of(&self, only: Option<UserId>) -> bool {
        let states = &self.inner.read_states;
        let _one_at_a_time = states.writing.lock().await;
        loop {
            let taken = states.pending().take(only);
            if taken.is_empty() {
                return true;
            }
            let change = |((user_id, channel_id), waiting): &(Key, Waiting)| ReadStateChange {
                user_id: *user_id,
                channel_id: *channel_id,
                change: waiting.change,
            };
            let changes: Vec<ReadStateChange> = taken.iter().map(change).collect();
            let written = self.inner.store.change_read_states(&changes).await;
            if let Err(error) = written {
                tracing::warn!(error = &error as &dyn std::error::Error, "read states were not stored; they will be");
                let mut pending = states.pending();
                pending.in_flight.clear();
                for (key, earlier) in taken {
                    let later = pending.waiting.remove(&key).unwrap_or_default();
                    pending.waiting.insert(key, earlier.then(later));
                }
                drop(pending);
                states.wake.notify_one();
                return false;
            }
            for (key, waiting) in &taken {
                self.announce_reading(*key, waiting);
            }
            states.pending().in_flight.clear();
        }
    }

    /// Milliseconds since the epoch of ids.
    fn read_version(&self) -> u64 {
        u64::try_from(self.inner.clock.now().unix.0 - EPOCH_MS).unwrap_or(0)
    }

    fn announce_reading(&self, (user_id, channel_id): Key, waiting: &Waiting) {
        let version = self.read_version();
        if let Some(Ack { message_id, is_manual: manual, mention_count, flags, last_viewed }) = waiting.ack {
            let body = MessageAckBody { channel_id, message_id, version, manual, mention_count, flags, last_viewed };
            self.publish_to_account(user_id, "MESSAGE_ACK", &body);
        }
        if let Some(timestamp) = waiting.pins {
            self.publish_to_account(
                user_id,
                "CHANNEL_PINS_ACK",
                &ChannelPinsAckBody { channel_id, timestamp, version },
            );
        }
    }

    /// Sends an event to all sessions of an account, on every node.
    pub(crate) fn publish_to_account(&self, user_id: UserId, name: &str, body: &impl Serialize) {
        let body = serde_json::value::to_raw_value(body).map_err(|error| error.to_string());
        let event = body.and_then(|body| BackendEvent::new(name, &body, None).map_err(|error| error.to_string()));
        match event {
            Ok(event) => {
                let event = Event::of_backend_to_users([user_id].into(), Arc::new(event));
                let published = Published { event, replica_update: ReplicaUpdate::None };
                self.inner.relays.publish_to_users(&Arc::new(published), None);
            }
            Err(error) => tracing::error!(name, error, "an event for an account cannot be sent"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(message_id: u64, is_manual: bool) -> Waiting {
        let message_id = MessageId::new(message_id);
        let up_to = if is_manual { ReadUpTo::Exactly } else { ReadUpTo::AtLeast };
        let ack = Ack { message_id, is_manual, mention_count: None, flags: None, last_viewed: None };
        Waiting {
            change: ReadChange { message: Some(up_to(message_id)), ..ReadChange::default() },
            ack: Some(ack),
            pins: None,
        }
    }

    /// Other sessions receive the stored state, in whatever order the acknowledgements came.
    #[test]
    fn merged_acknowledgements_announce_what_they_store() {
        let check = |steps: &[(u64, bool)], expected: (ReadUpTo, bool)| {
            let merged = steps.iter().fold(Waiting::default(), |all, (id, manual)| all.then(ack(*id, *manual)));
            let sent = merged.ack.unwrap();
            assert_eq!((merged.change.message, sent.is_manual), (Some(expected.0), expected.1), "{steps:?}");
            let (ReadUpTo::AtLeast(id) | ReadUpTo::Exactly(id)) = expected.0;
            assert_eq!(sent.message_id, id, "{steps:?}");
        };
        let (at_least, exactly) =
            (|id| ReadUpTo::AtLeast(MessageId::new(id)), |id| ReadUpTo::Exactly(MessageId::new(id)));
        check(&[(5, false), (4, false)], (at_least(5), false));
        check(&[(5, false), (4, true)], (exactly(4), true));
        check(&[(4, true), (5, false)], (exactly(5), true));
        check(&[(4, true), (3, false)], (exactly(4), true));
        check(&[(4, true), (2, true), (3, false)], (exactly(3), true));
    }

    #[test]
    fn changes_are_taken_by_account() {
        let mut pending = Pending::default();
        let key = |user_id, channel_id| (UserId::new(user_id), ChannelId::new(channel_id));
        for (at, id) in [(key(2, 9), 1), (key(1, 8), 2), (key(2, 7), 3), (key(2, 9), 4)] {
            pending.add(at, ack(id, false));
        }
        assert!(pending.concerns(UserId::new(2)) && !pending.concerns(UserId::new(3)));
        let taken: Vec<Key> = pending.take(Some(UserId::new(2))).iter().map(|(key, _)| *key).collect();
        assert_eq!(taken, [key(2, 7), key(2, 9)]);
        assert!(pending.concerns(UserId::new(2)), "until it is written");
        assert_eq!(pending.take(None).len(), 1);
        assert!(!pending.concerns(UserId::new(2)) && pending.take(None).is_empty());
    }
}
