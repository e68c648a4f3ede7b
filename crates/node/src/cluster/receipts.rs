//! Receipts: counts of sessions that an event of a backend reached on other nodes.
//!
//! Owns        receipts of this node that wait for other nodes' reports, by their number, and reports to other nodes.
//! Doors       `Membership::open_receipt` before an event leaves; `attach` when one arrives.
//! Invariants  V1 a relay's count reaches the receipt once at most: a report that may be lost is not sent again.
//!             V2 a relay never waits: its count is queued.
//! Limits      `REPORTS_MAX` reports wait for one node; further ones are dropped, and the backend's count stays
//!             incomplete. One question per node is under way; it takes all that waits. A receipt ends with its
//!             `OpenReceipt`.

use super::{Membership, PeerQuestion};
use guildhall_accounting::TraceHandle;
use guildhall_cluster::{GuildInput, NodeNumber, PeerMessage};
use guildhall_guild::{BackendCommand, Command};
use guildhall_guild_protocol::{BackendEvent, Payload, Published, Receipt, ReceiptPlace, RelayMessage};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    future::ready,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Most reports that wait for one node: 16 bytes each.
const REPORTS_MAX: usize = 65_536;
/// Most reports in one question, far below the bus's payload.
const REPORTS_PER_QUESTION: usize = 4_096;

/// The count of one relay, or of a node's partitions, for the receipt `id` of the receiver.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Report {
    id: u64,
    sessions: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Reports(Vec<Report>);

impl PeerQuestion for Reports {
    const KIND: &'static str = "reached";
    type Answer = ();
}

#[derive(Debug, Default)]
struct Waiting {
    reports: Vec<Report>,
    is_sending: bool,
}

#[derive(Debug)]
pub(super) struct Receipts {
    open: Mutex<HashMap<u64, Arc<dyn Receipt>>>,
    next_id: AtomicU64,
    waiting: Mutex<BTreeMap<NodeNumber, Waiting>>,
}

impl Receipts {
    /// Numbers begin at random: reports for an earlier process with this node's number find nothing.
    pub fn new() -> Self {
        let next_id = AtomicU64::new(u64::from_le_bytes(crate::tokens::random_bytes()));
        Self { open: Mutex::default(), next_id, waiting: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<dyn Receipt>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<NodeNumber, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: u64) -> Option<Arc<dyn Receipt>> {
        self.open().get(&id).cloned()
    }

    /// The next reports for a node; empty: nothing waits, and the sender ends.
    fn take(&self, node: NodeNumber) -> Vec<Report> {
        let mut waiting = self.waiting();
        let Some(of_node) = waiting.get_mut(&node) else { return Vec::new() };
        let count = of_node.reports.len().min(REPORTS_PER_QUESTION);
        let reports: Vec<Report> = of_node.reports.drain(..count).collect();
        if reports.is_empty() {
            waiting.remove(&node);
        }
        reports
    }
}

/// A receipt that other nodes report to until this is dropped.
#[derive(Debug)]
pub struct OpenReceipt {
    membership: Weak<Membership>,
    receipt: Arc<LocalReceipt>,
}

impl OpenReceipt {
    /// For the event.
    #[must_use]
    pub fn receipt(&self) -> Arc<dyn Receipt> {
        self.receipt.clone()
    }
}

impl Drop for OpenReceipt {
    fn drop(&mut self) {
        if let Some(membership) = self.membership.upgrade() {
            membership.receipts.open().remove(&self.receipt.place.id);
        }
    }
}

/// A receipt of this node, with its place.
#[derive(Debug)]
struct LocalReceipt {
    place: ReceiptPlace,
    inner: Arc<dyn Receipt>,
}

impl Receipt for LocalReceipt {
    fn reached(&self, sessions: u64) {
        self.inner.reached(sessions);
    }

    fn place(&self) -> Option<ReceiptPlace> {
        Some(self.place)
    }
}

/// A receipt of another node: every relay's count is a report.
#[derive(Debug)]
struct RemoteReceipt {
    membership: Weak<Membership>,
    place: ReceiptPlace,
}

impl Receipt for RemoteReceipt {
    fn reached(&self, sessions: u64) {
        if let Some(membership) = self.membership.upgrade() {
            membership.report_reached(self.place, sessions);
        }
    }

    fn place(&self) -> Option<ReceiptPlace> {
        Some(self.place)
    }
}

/// A receipt of another node for an event to accounts: one report, when all partitions have counted. The other node
/// does not know how many there are.
#[derive(Debug)]
struct PartitionsReceipt {
    membership: Weak<Membership>,
    place: ReceiptPlace,
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    sessions: u64,
    partitions: usize,
    /// None: not known yet.
    of: Option<usize>,
}

impl PartitionsReceipt {
    fn count(&self, count: impl FnOnce(&mut Counted)) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        count(&mut counted);
        let Counted { sessions, partitions, of } = *counted;
        drop(counted);
        if of == Some(partitions)
            && let Some(membership) = self.membership.upgrade()
        {
            membership.report_reached(self.place, sessions);
        }
    }
}

impl Receipt for PartitionsReceipt {
    fn reached(&self, sessions: u64) {
        self.count(|counted| {
            counted.sessions += sessions;
            counted.partitions += 1;
        });
    }

    fn place(&self) -> Option<ReceiptPlace> {
        Some(self.place)
    }
}

fn backend_event(published: &Published) -> Option<&BackendEvent> {
    match &published.event.payload {
        Payload::Backend(event) => Some(event),
        _ => None,
    }
}

impl Membership {
    /// Makes a receipt that relays of other nodes report to. The caller keeps it while it waits for the counts.
    #[must_use]
    pub fn open_receipt(self: &Arc<Self>, receipt: Arc<dyn Receipt>) -> OpenReceipt {
        let id = self.receipts.next_id.fetch_add(1, Relaxed);
        let place = ReceiptPlace { node: self.number.0, id };
        self.receipts.open().insert(id, receipt.clone());
        OpenReceipt { membership: Arc::downgrade(self), receipt: Arc::new(LocalReceipt { place, inner: receipt }) }
    }

    /// Answers other nodes' reports from now on.
    pub(super) fn take_reports(self: &Arc<Self>) {
        let of = Arc::downgrade(self);
        self.on_question(move |Reports(reports)| {
            if let Some(membership) = of.upgrade() {
                reports.into_iter().for_each(|report| membership.reported(report));
            }
            ready(Some(()))
        });
    }

    fn reported(&self, Report { id, sessions }: Report) {
        // Otherwise the backend has stopped waiting.
        if let Some(receipt) = self.receipts.find(id) {
            receipt.reached(sessions);
        }
    }

    /// Gives a backend's event in a message of another node its receipt. Events to accounts get theirs in
    /// `publish_from_peer`.
    pub(super) fn attach(self: &Arc<Self>, message: &PeerMessage) {
        let event = match message {
            PeerMessage::ToGuild { input: GuildInput::Command { command, .. }, .. } => match &**command {
                Command::Backend(command) => match &**command {
                    BackendCommand::Publish { event, .. } => Some(&**event),
                    _ => None,
                },
                _ => None,
            },
            PeerMessage::ToRelays { message: RelayMessage::Published(published), .. } => backend_event(published),
            _ => None,
        };
        let Some((event, place)) = event.and_then(|event| Some((event, event.receipt_place()?))) else { return };
        if place.node != self.number.0 {
            event.attach(Arc::new(RemoteReceipt { membership: Arc::downgrade(self), place }));
        } else if let Some(inner) = self.receipts.find(place.id) {
            event.attach(Arc::new(LocalReceipt { place, inner }));
        }
    }

    /// Publishes another node's event to the sessions of accounts here.
    pub(super) fn publish_from_peer(
        self: &Arc<Self>,
        published: &Arc<Published>,
        trace: Option<&TraceHandle>,
        local: &dyn crate::RelaySink,
    ) {
        let place = backend_event(published).and_then(|event| Some((event, event.receipt_place()?)));
        let Some((event, place)) = place else {
            local.publish_to_users(published, trace);
            return;
        };
        let membership = Arc::downgrade(self);
        let gathering = Arc::new(PartitionsReceipt { membership, place, counted: Mutex::default() });
        event.attach(gathering.clone());
        let partitions = local.publish_to_users(published, trace);
        gathering.count(|counted| counted.of = Some(partitions));
    }

    /// Queues a report; the runtime sends it.
    fn report_reached(self: &Arc<Self>, place: ReceiptPlace, sessions: u64) {
        let node = NodeNumber(place.node);
        {
            let mut waiting = self.receipts.waiting();
            let of_node = waiting.entry(node).or_default();
            if of_node.reports.len() >= REPORTS_MAX {
                return;
            }
            of_node.reports.push(Report { id: place.id, sessions });
            if mem::replace(&mut of_node.is_sending, true) {
                return;
            }
        }
        let membership = self.clone();
        self.runtime.spawn(async move {
            loop {
                let reports = membership.receipts.take(node);
                if reports.is_empty() {
                    return;
                }
                // Without an answer the reports may have arrived: V1.
                let _ = membership.ask(node, &Reports(reports)).await;
            }
        });
    }
}
