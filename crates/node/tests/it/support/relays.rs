//! Relays that take messages, or are full, and check their numbering as the real one does.

use super::{bounded, bounded_or};
use guildhall_accounting::TraceHandle;
use guildhall_guild_protocol::{PartitionId, Payload, Published, RelayId, RelayMessage, ToGuild, ToRelay, Whose};
use guildhall_model::{CloseCode, EventName, GuildId, MessageId, Presence, Status, UserId};
use guildhall_node::RelaySink;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::sync::{oneshot, watch};

/// Partitions of a node, for events to accounts.
pub const PARTITIONS: usize = 2;

#[derive(Default)]
struct State {
    taken: BTreeMap<PartitionId, Vec<ToRelay>>,
    full: BTreeSet<PartitionId>,
    refused_count: usize,
    joined: Vec<(UserId, GuildId)>,
    user_events: Vec<(EventName, Vec<UserId>)>,
    users_full: bool,
    users_refused_count: usize,
    closed: Vec<(Whose, CloseCode)>,
    /// Of accounts with a session.
    presences: BTreeMap<UserId, Presence>,
    /// Presences that accounts were sent: the account, its status, and the recipients.
    shown: Vec<(UserId, Status, Vec<UserId>)>,
}

/// Every partition's mailbox.
#[derive(Default)]
pub struct Relays(watch::Sender<State>);

impl RelaySink for Relays {
    fn try_deliver(&self, partition: PartitionId, message: ToRelay) -> Result<(), ToRelay> {
        let mut result = Ok(());
        self.0.send_modify(|state| {
            if state.full.contains(&partition) {
                state.refused_count += 1;
                result = Err(message);
            } else {
                state.taken.entry(partition).or_default().push(message);
            }
        });
        result
    }

    fn publish_to_users(&self, published: &Arc<Published>, _: Option<&TraceHandle>) -> usize {
        let event = &published.event;
        let to = event.audience.rule.users().to_vec();
        self.0.send_modify(|state| match &event.payload {
            Payload::Presence { user_id, presence } => state.shown.push((*user_id, presence.status, to)),
            _ => state.user_events.push((event.name, to)),
        });
        // Each reaches a session of each account.
        for _ in 0..PARTITIONS {
            if let Some(receipt) = event.payload.receipt() {
                receipt.reached(event.audience.rule.users().len() as u64);
            }
        }
        PARTITIONS
    }

    fn may_publish_to_users(&self) -> bool {
        let mut may = true;
        self.0.send_modify(|state| {
            may = !state.users_full;
            state.users_refused_count += usize::from(!may);
        });
        may
    }

    fn close_sessions(&self, whose: &Whose, code: CloseCode) -> Vec<oneshot::Receiver<usize>> {
        self.0.send_modify(|state| state.closed.push((whose.clone(), code)));
        let (sender, receiver) = oneshot::channel();
        let _ = sender.send(1);
        vec![receiver]
    }

    fn presences(&self, user_ids: &Arc<[UserId]>) -> Vec<oneshot::Receiver<Vec<(UserId, Presence)>>> {
        let state = self.0.borrow();
        let found = user_ids.iter().filter_map(|id| Some((*id, state.presences.get(id)?.clone())));
        let (sender, receiver) = oneshot::channel();
        let _ = sender.send(found.collect());
        vec![receiver]
    }

    fn announce_joined(&self, user_id: UserId, guild_id: GuildId) {
        self.0.send_modify(|state| state.joined.push((user_id, guild_id)));
    }
}

impl Relays {
    /// Sessions that the node closed, in order.
    pub fn closed(&self) -> Vec<(Whose, CloseCode)> {
        self.0.borrow().closed.clone()
    }

    /// The account's sessions show this from now on.
    pub fn set_presence(&self, user_id: UserId, status: Status) {
        self.0.send_modify(|state| match status {
            Status::Offline => drop(state.presences.remove(&user_id)),
            status => drop(state.presences.insert(user_id, Presence { status, ..Presence::default() })),
        });
    }

    /// Waits until accounts were sent `count` presences since the last call, and returns them.
    pub async fn take_shown(&self, count: usize) -> Vec<(UserId, Status, Vec<UserId>)> {
        self.wait(move |state| state.shown.len() >= count).await;
        let mut shown = Vec::new();
        self.0.send_modify(|state| shown = std::mem::take(&mut state.shown));
        shown
    }

    pub fn set_full(&self, partition: u16, full: bool) {
        self.0.send_modify(|state| {
            if full {
                state.full.insert(PartitionId(partition))
            } else {
                state.full.remove(&PartitionId(partition))
            };
        });
    }

    /// Makes announcements to accounts fail for lack of room.
    pub fn set_users_full(&self, full: bool) {
        self.0.send_modify(|state| state.users_full = full);
    }

    /// Waits until so often there was no room for it; time passes meanwhile.
    pub async fn wait_users_refused(&self, count: usize, world: &super::World) {
        bounded(async {
            while self.0.borrow().users_refused_count < count {
                world.pass(100);
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Announcements to accounts so far.
    pub fn user_events(&self) -> Vec<(EventName, Vec<UserId>)> {
        self.0.borrow().user_events.clone()
    }

    /// Announced joins so far.
    pub fn joined(&self) -> Vec<(UserId, GuildId)> {
        self.0.borrow().joined.clone()
    }

    /// Waits until `count` joins were announced.
    #[track_caller]
    pub fn wait_joined(&self, count: usize) -> impl Future<Output = ()> {
        self.wait(move |state| state.joined.len() >= count)
    }

    /// Waits until relays have refused `count` messages since the start.
    #[track_caller]
    pub fn wait_refused(&self, count: usize) -> impl Future<Output = ()> {
        self.wait(move |state| state.refused_count >= count)
    }

    #[track_caller]
    fn wait(&self, until: impl FnMut(&State) -> bool) -> impl Future<Output = ()> {
        let mut states = self.0.subscribe();
        let waiting = async move { drop(states.wait_for(until).await.expect("the relays live")) };
        let instead = || {
            let state = self.0.borrow();
            format!("{} joins, {} refused messages", state.joined.len(), state.refused_count)
        };
        bounded_or(waiting, instead)
    }
}

/// One relay's ear: its messages, in order.
pub struct Listener {
    relays: Arc<Relays>,
    pub guild_id: GuildId,
    pub relay: RelayId,
    pub epoch: u32,
    /// Messages of the partition that were looked at.
    at: usize,
    seq: u64,
}

impl Listener {
    pub fn new(relays: Arc<Relays>, guild_id: GuildId, relay: RelayId) -> Self {
        Self { relays, guild_id, relay, epoch: 1, at: 0, seq: 0 }
    }

    pub fn subscribe(&self) -> ToGuild {
        ToGuild::Subscribe { relay: self.relay, epoch: self.epoch }
    }

    pub fn unsubscribe(&self) -> ToGuild {
        ToGuild::Unsubscribe { relay: self.relay, epoch: self.epoch }
    }

    /// Ignores what the partition was sent so far.
    pub fn skip_everything(&mut self) {
        self.at = self.relays.0.borrow().taken.get(&self.relay.partition).map_or(0, Vec::len);
    }

    /// The stream begins again, at another owner.
    pub fn begins_again(&mut self) {
        self.seq = 0;
    }

    fn pop(&mut self, state: &State) -> Option<RelayMessage> {
        let taken = state.taken.get(&self.relay.partition)?;
        while let Some(message) = taken.get(self.at) {
            self.at += 1;
            if (message.guild_id, message.relay) == (self.guild_id, self.relay) {
                assert_eq!(message.epoch, self.epoch, "a message of another incarnation");
                // Stricter than the real one, which takes a snapshot whatever its number.
                assert_eq!(message.seq, self.seq + 1, "a gap before {:?}", message.message);
                self.seq = message.seq;
                return Some(message.message.clone());
            }
        }
        None
    }

    /// The next message.
    #[track_caller]
    pub fn next(&mut self) -> impl Future<Output = RelayMessage> {
        let (relays, partition) = (self.relays.clone(), self.relay.partition);
        let (guild_id, before) = (self.guild_id, self.seq);
        let mut states = relays.0.subscribe();
        let waiting = async move {
            loop {
                if let Some(message) = self.pop(&states.borrow_and_update()) {
                    return message;
                }
                states.changed().await.expect("the relays live");
            }
        };
        bounded_or(waiting, move || {
            let taken = relays.0.borrow().taken.get(&partition).map_or(0, Vec::len);
            format!("no message of guild {guild_id} after {before}; {taken} messages came to {partition:?}")
        })
    }

    /// The next message, if it is there already.
    pub fn try_next(&mut self) -> Option<RelayMessage> {
        let relays = self.relays.clone();
        self.pop(&relays.0.borrow())
    }

    /// The next message is a snapshot: whether it resets.
    pub async fn snapshot(&mut self) -> bool {
        match self.next().await {
            RelayMessage::Snapshot { reset, .. } => reset,
            other => panic!("{other:?} instead of a snapshot"),
        }
    }

    /// The next message is a MESSAGE_CREATE: its id and content.
    pub async fn next_message(&mut self) -> (MessageId, String) {
        match self.next().await {
            RelayMessage::Published(published) if published.event.name == EventName::MessageCreate => {
                match &published.event.payload {
                    Payload::Message(event) => (event.message.id, event.message.content.clone()),
                    other => panic!("{other:?}"),
                }
            }
            other => panic!("{other:?} instead of a message"),
        }
    }
}
