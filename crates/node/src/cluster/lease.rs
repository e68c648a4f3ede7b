//! Lease: the node's record in the lease store, and those of the other nodes.
//!
//! Invariants  E1 the machine serves only while the lease is valid. E2 a node that lost its lease joins again under the
//!             same number, as a new incarnation; if another node has taken the number, the process has to end
//!             (`Membership::lost`), because its partitions, sessions and ids contain the number. E3 a node that joins
//!             again takes part once it knows what was revoked meanwhile (`crate::revocations`).
//! Limits      the calls have the time-outs of the lease store's driver.

use super::{JoinError, Membership, new_incarnation};
use crate::Clock;
use guildhall_bus::{Entry, Key, KeyValue, KvError, KvEvent, Revision};
use guildhall_cluster::{Incarnation, Lease, LeaseTimes, NodeLoad, NodeNumber, NodeRecord, NodeState, Renewal};
use guildhall_stdx::Instant;
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Prefix of the nodes' records.
const NODES: &str = "nodes";
/// Pause before a watch that ended begins again, and between attempts to join again.
const AGAIN_PAUSE: Duration = Duration::from_millis(200);

struct LeaseState {
    lease: Lease,
    revision: Revision,
    state: NodeState,
    load: Option<NodeLoad>,
    /// The load was measured since the last attempt to write.
    has_new_load: bool,
    /// The node leaves: nothing is renewed any more.
    has_left: bool,
}

/// The node's own lease.
pub(super) struct Keeper {
    times: LeaseTimes,
    held: Mutex<LeaseState>,
    /// Until when tokens and keys are checked and guilds served, in milliseconds; 0: not before E3.
    usable_until: AtomicU64,
    /// Something is to be written before the next renewal.
    wake: Notify,
}

impl Keeper {
    fn lock(&self) -> MutexGuard<'_, LeaseState> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lease_ms(&self) -> u64 {
        self.times.lease_ms
    }

    /// Whether the lease is valid by the clock alone, and E3 holds.
    pub(super) fn is_usable(&self, now: Instant) -> bool {
        now.0 < self.usable_until.load(Ordering::Acquire)
    }

    fn use_until(&self, until: Instant) {
        self.usable_until.store(until.0, Ordering::Release);
    }

    pub(super) fn has_left(&self) -> bool {
        self.lock().has_left
    }

    pub(super) fn set_state(&self, state: NodeState) {
        self.lock().state = state;
        self.wake.notify_one();
    }

    /// For the next record, which is written now. If that fails, the next renewal writes it.
    pub(super) fn set_load(&self, load: NodeLoad) {
        {
            let mut held = self.lock();
            (held.load, held.has_new_load) = (Some(load), true);
        }
        self.wake.notify_one();
    }

    pub(super) async fn leave(&self, kv: &dyn KeyValue, number: NodeNumber) {
        let revision = {
            let mut held = self.lock();
            held.has_left = true;
            held.revision
        };
        self.wake.notify_one();
        let Some(key) = key_of(number) else { return };
        if let Err(error) = kv.delete(&key, revision).await {
            tracing::warn!(%error, "the node's record could not be removed; it expires");
        }
    }
}

fn key_of(number: NodeNumber) -> Option<Key> {
    Key::new(&format!("{NODES}.{number}"))
}

fn number_of(key: &Key) -> Option<NodeNumber> {
    let number = key.as_str().strip_prefix(NODES)?.strip_prefix('.')?.parse().ok()?;
    (number < NodeNumber::NODES_MAX).then_some(NodeNumber(number))
}

fn bytes_of(record: &NodeRecord) -> bytes::Bytes {
    serde_json::to_vec(record).unwrap_or_default().into()
}

/// The membership that is on record for a number.
pub(super) async fn membership_of(kv: &dyn KeyValue, number: NodeNumber) -> Result<Option<Incarnation>, KvError> {
    let Some(key) = key_of(number) else { return Ok(None) };
    let entry = kv.get(&key).await?;
    let record = entry.and_then(|entry| serde_json::from_slice::<NodeRecord>(&entry.value).ok());
    Ok(record.map(|record| record.incarnation))
}

/// Takes the smallest number that no node has.
pub(super) async fn take_number(
    kv: &dyn KeyValue,
    clock: &dyn Clock,
    times: LeaseTimes,
    record: &NodeRecord,
) -> Result<(NodeNumber, Keeper), JoinError> {
    for number in (0..NodeNumber::NODES_MAX).map(NodeNumber) {
        let Some(key) = key_of(number) else { continue };
        let written_at = clock.now().instant;
        match kv.create(&key, bytes_of(record), Some(Duration::from_millis(times.lease_ms))).await {
            Ok(revision) => {
                let lease = Lease::new(times, written_at);
                let usable_until = AtomicU64::new(lease.valid_until().0);
                let held = Mutex::new(LeaseState {
                    lease,
                    revision,
                    state: record.state,
                    load: None,
                    has_new_load: false,
                    has_left: false,
                });
                return Ok((number, Keeper { times, held, usable_until, wake: Notify::new() }));
            }
            Err(KvError::Exists(_)) => {}
            Err(error) => return Err(JoinError::LeaseStore(error)),
        }
    }
    Err(JoinError::Full)
}

/// Renews the lease until the node leaves.
pub(super) async fn keep(membership: Arc<Membership>) {
    let keeper = &membership.lease;
    loop {
        let now = membership.clock.now().instant;
        let (is_valid, is_due, deadline) = {
            let mut held = keeper.lock();
            if held.has_left {
                return;
            }
            let is_valid = held.lease.check(now);
            let has_news = std::mem::take(&mut held.has_new_load) || held.state != membership.lock().record().state;
            (is_valid, is_valid && (held.lease.begin_renewal(now) || has_news), held.lease.next_deadline())
        };
        membership.with(|machine, now| machine.set_serving(now, is_valid));
        if !is_valid {
            keeper.use_until(Instant(0));
            membership.lapses.fetch_add(1, Ordering::Relaxed);
            tracing::error!("the node's lease has ended: its guilds are released, and it takes no tokens and keys");
            membership.on_lease_end.get().iter().for_each(|call| call());
            if !join_again(&membership).await {
                return;
            }
        } else if is_due {
            renew(&membership).await;
        } else {
            let pause = Duration::from_millis(deadline.ms_since(now).max(1));
            // Woken or not, the lease is looked at again.
            let _ = tokio::time::timeout(pause, keeper.wake.notified()).await;
        }
    }
}

async fn renew(membership: &Arc<Membership>) {
    let keeper = &membership.lease;
    let (revision, state, load, valid_until) = {
        let held = keeper.lock();
        (held.revision, held.state, held.load.clone(), held.lease.valid_until())
    };
    let clock_ms = membership.clock.now().unix.0;
    let record = NodeRecord { state, load, clock_ms, ..membership.lock().record().clone() };
    let Some(key) = key_of(membership.number) else { return };
    let ttl = Some(Duration::from_millis(keeper.times.lease_ms));
    // The end of the lease (E1) does not wait for a slow answer.
    let left = || Duration::from_millis(valid_until.ms_since(membership.clock.now().instant));
    let no_answer = |_| Err(KvError::Away("no answer in time".to_owned()));
    let patience = left().min(Duration::from_millis(keeper.times.renew_ms));
    let update = membership.kv.update(&key, bytes_of(&record), revision, ttl);
    let written = tokio::time::timeout(patience, update).await.unwrap_or_else(no_answer);
    let (renewal, revision) = match written {
        Ok(revision) => (Renewal::Done, Some(revision)),
        // A write without an answer may have been this node's.
        Err(KvError::Conflict) => match tokio::time::timeout(left(), own_entry(membership, &key, &record))
            .await
            .unwrap_or_else(|_| Err(KvError::Away("no answer in time".to_owned())))
        {
            Ok(Some(entry)) => (Renewal::Unknown, Some(entry.revision)),
            Ok(None) => (Renewal::Lost, None),
            Err(_) => (Renewal::Unknown, None),
        },
        Err(error) => {
            tracing::warn!(%error, "the node's lease could not be renewed; trying again");
            (Renewal::Unknown, None)
        }
    };
    let now = membership.clock.now().instant;
    let is_held = {
        let mut held = keeper.lock();
        if let Some(revision) = revision {
            held.revision = revision;
        }
        let is_held = held.lease.renewed(now, renewal);
        // The lease was usable before, or `keep` would not renew it.
        keeper.use_until(if is_held { held.lease.valid_until() } else { Instant(0) });
        is_held
    };
    if is_held && renewal == Renewal::Done {
        let number = membership.number;
        membership.with(|machine, now| machine.handle_node(now, number, Some(record)));
    }
    membership.with(|machine, now| machine.set_serving(now, is_held));
}

/// The record in the lease store, if it is of this incarnation.
async fn own_entry(membership: &Membership, key: &Key, record: &NodeRecord) -> Result<Option<Entry>, KvError> {
    let entry = membership.kv.get(key).await?;
    Ok(entry.filter(|entry| {
        serde_json::from_slice::<NodeRecord>(&entry.value).is_ok_and(|found| found.incarnation == record.incarnation)
    }))
}

/// Joins again under the same number (E2). False: another node has it.
async fn join_again(membership: &Arc<Membership>) -> bool {
    let keeper = &membership.lease;
    let mut before = membership.lock().record().clone();
    let Some(key) = key_of(membership.number) else { return false };
    let ttl = Some(Duration::from_millis(keeper.times.lease_ms));
    loop {
        if keeper.lock().has_left {
            return false;
        }
        let state = keeper.lock().state;
        let now = membership.clock.now();
        let record = NodeRecord { incarnation: new_incarnation(), state, clock_ms: now.unix.0, ..before.clone() };
        let written_at = now.instant;
        let written = match membership.kv.get(&key).await {
            Ok(None) => membership.kv.create(&key, bytes_of(&record), ttl).await,
            Ok(Some(entry)) => match serde_json::from_slice::<NodeRecord>(&entry.value) {
                Ok(found) if found.incarnation == before.incarnation => {
                    membership.kv.update(&key, bytes_of(&record), entry.revision, ttl).await
                }
                _ => {
                    tracing::error!(number = membership.number.0, "another node has taken this node's number");
                    membership.is_lost.send_replace(true);
                    return false;
                }
            },
            Err(error) => Err(error),
        };
        match written {
            Ok(revision) => {
                let lease = Lease::new(keeper.times, written_at);
                match catch_up(membership, &lease).await {
                    Ok(true) => {}
                    Ok(false) => {
                        tracing::error!("this node was away for so long that it cannot know what was revoked: it ends");
                        membership.is_lost.send_replace(true);
                        return false;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "revocations during the absence cannot be read: the node joins later");
                        before = record;
                        tokio::time::sleep(AGAIN_PAUSE).await;
                        continue;
                    }
                }
                keeper.use_until(lease.valid_until());
                {
                    let mut held = keeper.lock();
                    held.lease = lease;
                    held.revision = revision;
                }
                tracing::info!(number = membership.number.0, "joined the cluster again");
                membership.with(|machine, now| machine.rejoin(now, record));
                return true;
            }
            // A create without an answer may have succeeded: its incarnation is not known any more, and expires.
            Err(KvError::Exists(_) | KvError::Conflict) => {}
            Err(error) => tracing::warn!(%error, "the node cannot join again; trying again"),
        }
        tokio::time::sleep(AGAIN_PAUSE).await;
    }
}

/// Learns what was revoked while this node was away (E3), within the time of the lease.
async fn catch_up(membership: &Membership, lease: &Lease) -> Result<bool, String> {
    let Some(call) = membership.on_rejoin.get() else { return Ok(true) };
    let left = lease.valid_until().ms_since(membership.clock.now().instant);
    match tokio::time::timeout(Duration::from_millis(left), call()).await {
        Ok(known) => known.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// Follows the records of all nodes.
pub(super) async fn watch(membership: Arc<Membership>) {
    let Some(prefix) = Key::new(NODES) else { return };
    loop {
        let ended = follow(&membership, &prefix).await;
        if membership.lease.lock().has_left {
            return;
        }
        if let Err(error) = ended {
            tracing::warn!(%error, "the records of the nodes cannot be watched; trying again");
        }
        tokio::time::sleep(AGAIN_PAUSE).await;
    }
}

async fn follow(membership: &Arc<Membership>, prefix: &Key) -> Result<(), KvError> {
    let mut watch = membership.kv.watch(prefix).await?;
    let mut reported = BTreeSet::new();
    loop {
        match watch.next().await? {
            KvEvent::Put(key, entry) => {
                let Some(number) = number_of(&key) else { continue };
                reported.insert(number);
                match serde_json::from_slice::<NodeRecord>(&entry.value) {
                    Ok(record) => {
                        let ahead = membership.skew.look(membership.clock.now(), number, &record);
                        if let Some(ahead_ms) = ahead.filter(|_| number != membership.number) {
                            tracing::warn!(
                                node = number.0,
                                name = record.name,
                                ahead_ms,
                                "the clock of another node differs from this one's: tokens that are dated more than a \
                                 minute ahead are refused; synchronise the clocks"
                            );
                        }
                        membership.with(|machine, now| machine.handle_node(now, number, Some(record)));
                    }
                    Err(error) => tracing::error!(%error, %key, "the record of a node cannot be read"),
                }
            }
            KvEvent::Gone(key) => {
                if let Some(number) = number_of(&key) {
                    membership.with(|machine, now| machine.handle_node(now, number, None));
                }
            }
            KvEvent::Current => {
                membership.knows_nodes.send_replace(true);
                let known: Vec<NodeNumber> = membership.lock().peers().map(|(number, _)| number).collect();
                for number in known.into_iter().filter(|number| !reported.contains(number)) {
                    membership.with(|machine, now| machine.handle_node(now, number, None));
                }
            }
        }
    }
}
