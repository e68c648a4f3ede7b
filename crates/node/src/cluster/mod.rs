//! Cluster: the driver of this node's part in a cluster (`guildhall_cluster::Cluster`).
//!
//! Owns        the machine behind a lock, the links to the other nodes, the tasks that renew the lease, watch the other
//!             nodes and receive their messages, and callers of requests that other nodes carry out.
//! Doors       `Membership::join`, then `Node::start_as`, then `Membership::activate`.
//! Invariants  D1 the machine's outputs are carried out in order, under its lock: nothing that they call waits, or
//!             calls back into the machine. D2 without a valid lease no guild is served here, also before the task that
//!             renews it has noticed: each input reads the clock. D3 a message that no node of this cluster has sealed
//!             has no effect but to be counted.
//! Limits      those of the machine and of the links.
//! Not here    what a cluster is (`guildhall-cluster`), the bus and the lease store (`guildhall-bus`).

mod ask;
mod balance;
mod handoff;
mod lease;
mod link;
mod moves;
mod receipts;
mod receive;
mod releasing;
mod seal;
mod sink;
mod skew;
mod sweep;

pub use ask::PeerQuestion;
pub(crate) use ask::Revocation;
pub use balance::BalanceOptions;
pub(crate) use balance::{BusyTimes, WorkerLoads, largest, share};
pub(crate) use handoff::Standbys;
pub use handoff::{HandoffFault, HandoffReport};
pub use moves::{HandoffFigures, Leave, MOVES_KEPT, MoveReason, MoveStep, Moved, Moves};
pub use receipts::OpenReceipt;
pub use seal::ClusterKey;
pub(crate) use sink::ClusterSink;

use crate::{
    Clock, RelaySink,
    directory::Directory,
    guild_host::HandoffStep,
    ids::worker_of,
    mailbox::{CommandRequest, CreateRequest, Input, Mailbox},
    request_trace::CommandTrace,
};
use guildhall_accounting::{LoopAccount, TraceHandle};
use guildhall_bus::{Bus, Key, KeyValue, KvError, Subject};
use guildhall_cluster::{
    Cluster, Creation, DirectoryChange, Executor, GuildInput, Incarnation, LeaseTimes, NodeNumber, NodeRecord,
    NodeState, Origin, Output, OwnerOp, OwnerRecord, OwnerResult, PeerMessage, Pushed, Reporter, RequestId,
    TraceContext, home_of,
};
use guildhall_guild::Refusal;
use guildhall_guild_protocol::{PartitionId, Payload, ToRelay};
use guildhall_model::{GuildId, Status, UserId};
use guildhall_stdx::{Instant, LogGate, Timestamp};
use guildhall_store::StoreError;
use link::Link;
use seal::Seal;
use std::{
    collections::{BTreeMap, HashMap},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot, watch},
};

/// This node's place in a cluster.
#[derive(Clone, Debug)]
pub struct MembershipOptions {
    /// Name for people.
    pub node_name: String,
    /// URL at which clients and other nodes reach it.
    pub url: String,
    /// Share of the guilds, at least 1.
    pub weight: u32,
    /// Time after which the other nodes take over the guilds of a node that is gone, at least 500 ms.
    pub lease_ms: u64,
    /// Version of the program.
    pub version: String,
    /// Seals the messages of the cluster's nodes.
    pub key: ClusterKey,
    pub balance: BalanceOptions,
}

/// Why a node cannot join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The lease store did not answer.
    #[error("the lease store cannot be used: {0}")]
    LeaseStore(KvError),
    /// All numbers are taken.
    #[error("the cluster has {} nodes already, its limit", NodeNumber::NODES_MAX)]
    Full,
}

/// State of a node in the cluster, for reports.
#[derive(Clone, Debug)]
pub struct NodeReport {
    pub number: u8,
    pub record: NodeRecord,
    /// Whether it is the node that made the report.
    pub is_own: bool,
    /// Messages that wait to be sent to it; none for the own node.
    pub waiting: Option<usize>,
    /// Frames and bytes sent to it since it is known.
    pub frames: u64,
    pub bytes: u64,
    /// Messages to it that were dropped.
    pub dropped: u64,
}

/// Sessions that moved between this node and others, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovedSessions {
    /// Came from other nodes.
    pub here: u64,
    /// Went to other nodes.
    pub away: u64,
    /// RESUMEs whose session another node has, or had, and did not send.
    pub failed: u64,
}

/// Mirrors of sessions on other nodes (docs/adr/0046).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorFigures {
    /// Sessions of this node with a mirror, at the end of the last round of reports.
    pub mirrored: u64,
    /// Time from the begin of the round before to that end.
    pub lag_ms: u64,
    /// Rounds of reports of all sessions, since the start.
    pub rounds: u64,
    /// Mirrors that this node holds, and their memory.
    pub held: u64,
    pub held_bytes: u64,
    /// Reports sent since the start: bytes, whole sessions, and sessions of which only the progress was sent.
    pub sent_bytes: u64,
    pub sent_whole: u64,
    pub sent_progress: u64,
    /// Sessions for which another node had no room.
    pub refused: u64,
    /// Reports without an answer.
    pub lost: u64,
    /// Sessions that came here from a mirror.
    pub resumed: u64,
}

/// State of the cluster as this node knows it.
#[derive(Clone, Debug)]
pub struct ClusterReport {
    /// In ascending order of their numbers.
    pub nodes: Vec<NodeReport>,
    /// Whether this node's lease is valid.
    pub is_serving: bool,
    /// Guilds that this node owns.
    pub guilds_here: usize,
    /// Requests of this node that other nodes carry out now.
    pub requests_elsewhere: usize,
    pub moved_sessions: MovedSessions,
    pub mirrors: MirrorFigures,
    /// Messages on the bus that no node of this cluster has sealed, since the start: they were dropped.
    pub strangers_total: u64,
    pub handoffs: HandoffFigures,
    /// Guilds that are leaving this node now, and the last that left it.
    pub moves: Moves,
}

/// Completes when this node knows what was revoked while it was away. False: it was away for too long.
pub(crate) type CatchUp = Pin<Box<dyn Future<Output = Result<bool, StoreError>> + Send>>;

/// Minimum interval between two log lines about messages of strangers.
const STRANGERS_LOG_EVERY_MS: u64 = 60_000;

/// Parts of the node that the membership calls.
struct Parts {
    mailboxes: Vec<Arc<Mailbox>>,
    /// Of the workers.
    accounts: Vec<Arc<LoopAccount>>,
    directory: Arc<Directory>,
    local: Arc<dyn RelaySink>,
}

/// News of other nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PeerNews {
    /// A node has sent friends of an account its presence.
    Presence(UserId, Status),
    /// A node has joined or left.
    Members,
}

/// A node that has joined a cluster. Its tasks end with `leave`, or with the runtime.
pub struct Membership {
    number: NodeNumber,
    /// Random, new with each process.
    process: u64,
    bus: Arc<dyn Bus>,
    kv: Arc<dyn KeyValue>,
    clock: Arc<dyn Clock>,
    runtime: Handle,
    machine: Mutex<Cluster>,
    /// Read by guild workers for each message to another node's relay.
    links: RwLock<BTreeMap<NodeNumber, Arc<Link>>>,
    callers: Mutex<HashMap<RequestId, oneshot::Sender<crate::mailbox::Answer>>>,
    next_request: AtomicU64,
    parts: OnceLock<Parts>,
    timer: Notify,
    releasing: releasing::Releasing,
    handoffs: handoff::Handoffs,
    balance: balance::Balance,
    standbys: OnceLock<Arc<Standbys>>,
    handlers: ask::Handlers,
    receipts: receipts::Receipts,
    /// Called when the lease has ended.
    on_lease_end: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Called with news of other nodes.
    on_peers: OnceLock<Box<dyn Fn(PeerNews) + Send + Sync>>,
    /// Called when the node has its number again, before it takes part.
    on_rejoin: OnceLock<Box<dyn Fn() -> CatchUp + Send + Sync>>,
    seal: Arc<Seal>,
    /// Questions of this process to other nodes.
    questions_count: AtomicU64,
    taken: ask::SeenQuestions,
    /// Messages that no node of this cluster has sealed.
    strangers: LogGate,
    strangers_count: AtomicU64,
    moved_sessions: Mutex<MovedSessions>,
    mirrors: Mutex<MirrorFigures>,
    /// How often the lease has ended.
    lapses: AtomicU64,
    /// A member has left: nothing has to be remembered of it.
    member_left: Notify,
    skew: skew::Skew,
    /// Continues traces of other nodes; not set while this node exports none.
    resume_trace: OnceLock<Box<dyn Fn(TraceContext) -> TraceHandle + Send + Sync>>,
    lease: lease::Keeper,
    /// True once the node's number belongs to another node: the process has to end.
    is_lost: watch::Sender<bool>,
    /// Turns true when the watch of the lease store has reported all nodes.
    knows_nodes: watch::Sender<bool>,
}

impl Membership {
    /// Takes the smallest free number. The node takes no guilds before `activate`.
    ///
    /// # Errors
    /// `LeaseStore`, `Full`.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn join(
        options: MembershipOptions,
        bus: Arc<dyn Bus>,
        kv: Arc<dyn KeyValue>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, JoinError> {
        let record = NodeRecord {
            name: options.node_name.clone(),
            incarnation: new_incarnation(),
            url: options.url.clone(),
            weight: options.weight,
            state: NodeState::Joining,
            version: options.version.clone(),
            clock_ms: clock.now().unix.0,
            has_handoff: true,
            load: None,
        };
        let times = LeaseTimes::of(options.lease_ms);
        let (number, lease) = lease::take_number(&*kv, &*clock, times, &record).await?;
        tracing::info!(number = number.0, name = options.node_name, "joined the cluster");
        let membership = Arc::new(Self {
            number,
            process: u64::from_le_bytes(crate::tokens::random_bytes()),
            bus,
            kv,
            clock,
            runtime: Handle::current(),
            machine: Mutex::new(Cluster::new(number, record)),
            links: RwLock::default(),
            callers: Mutex::default(),
            next_request: AtomicU64::new(u64::from_le_bytes(crate::tokens::random_bytes())),
            parts: OnceLock::new(),
            timer: Notify::new(),
            releasing: releasing::Releasing::default(),
            handoffs: handoff::Handoffs::default(),
            balance: balance::Balance::new(options.balance),
            standbys: OnceLock::new(),
            handlers: ask::Handlers::default(),
            receipts: receipts::Receipts::new(),
            on_lease_end: OnceLock::new(),
            on_peers: OnceLock::new(),
            on_rejoin: OnceLock::new(),
            seal: Arc::new(Seal::new(options.key)),
            questions_count: AtomicU64::new(0),
            taken: ask::SeenQuestions::default(),
            strangers: LogGate::new(STRANGERS_LOG_EVERY_MS),
            strangers_count: AtomicU64::new(0),
            moved_sessions: Mutex::default(),
            mirrors: Mutex::default(),
            lapses: AtomicU64::new(0),
            member_left: Notify::new(),
            skew: skew::Skew::default(),
            resume_trace: OnceLock::new(),
            lease,
            is_lost: watch::Sender::new(false),
            knows_nodes: watch::Sender::new(false),
        });
        Ok(membership)
    }

    /// This node's number.
    #[must_use]
    pub fn number(&self) -> NodeNumber {
        self.number
    }

    /// A number that no other node guesses or has.
    #[must_use]
    pub fn random_number(&self) -> u64 {
        u64::from_le_bytes(crate::tokens::random_bytes())
    }

    /// This process, as the homes of accounts know it.
    #[must_use]
    pub fn reporter(&self) -> Reporter {
        Reporter { node: self.number, process: self.process }
    }

    /// All nodes, this one too.
    #[must_use]
    pub fn members(&self) -> Vec<(NodeNumber, NodeRecord)> {
        let machine = self.lock();
        let own = (machine.number(), machine.record());
        machine.peers().chain([own]).map(|(number, record)| (number, record.clone())).collect()
    }

    /// Home of an account or key with this number: the node that decides for all. None: no node is active.
    #[must_use]
    pub fn home_of(&self, key: u64) -> Option<NodeNumber> {
        let machine = self.lock();
        home_of(key, machine.peers().chain([(machine.number(), machine.record())]))
    }

    /// The current membership of this node.
    #[must_use]
    pub fn executor(&self) -> Executor {
        Executor { node: self.number, incarnation: self.lock().record().incarnation }
    }

    /// Whether this node knows that membership as a current one.
    #[must_use]
    pub fn is_member(&self, executor: Executor) -> bool {
        let machine = self.lock();
        let own = (machine.number(), machine.record());
        let mut members = machine.peers().chain([own]);
        members.any(|(number, record)| number == executor.node && record.incarnation == executor.incarnation)
    }

    /// Whether the node has left: it takes no part any more.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.lease.has_left()
    }

    /// Turns true when another node has this one's number: nothing of this process may act any more.
    #[must_use]
    pub fn lost(&self) -> watch::Receiver<bool> {
        self.is_lost.subscribe()
    }

    /// Begins to serve: the node's parts exist.
    pub(crate) fn start(
        self: &Arc<Self>,
        (mailboxes, accounts): (Vec<Arc<Mailbox>>, Vec<Arc<LoopAccount>>),
        directory: Arc<Directory>,
        local: Arc<dyn RelaySink>,
    ) {
        let is_first = self.parts.set(Parts { mailboxes, accounts, directory, local }).is_ok();
        assert!(is_first, "a membership belongs to one node");
        self.take_reports();
        self.answer_balance();
        self.runtime.spawn(receive::run(self.clone()));
        self.runtime.spawn(ask::run(self.clone()));
        self.runtime.spawn(lease::watch(self.clone()));
        self.runtime.spawn(lease::keep(self.clone()));
        self.runtime.spawn(sweep::run(self.clone()));
        self.runtime.spawn(balance::report(self.clone()));
        self.runtime.spawn(balance::decide(self.clone()));
        self.runtime.spawn(run_timer(self.clone()));
        self.with(|machine, now| machine.set_serving(now, true));
    }

    /// Sets what is called with news of other nodes, under the machine's lock (D1). Once.
    pub(crate) fn on_peers(&self, call: impl Fn(PeerNews) + Send + Sync + 'static) {
        assert!(self.on_peers.set(Box::new(call)).is_ok(), "a membership belongs to one node");
    }

    fn note_peers(&self, news: PeerNews) {
        self.on_peers.get().iter().for_each(|call| call(news));
    }

    /// Sets what is called when the lease has ended. Once.
    pub(crate) fn on_lease_end(&self, call: impl Fn() + Send + Sync + 'static) {
        assert!(self.on_lease_end.set(Box::new(call)).is_ok(), "a membership belongs to one node");
    }

    /// Sets what is called when the node has its number again. It takes part once that has succeeded. Once.
    pub(crate) fn on_rejoin(&self, call: impl Fn() -> CatchUp + Send + Sync + 'static) {
        assert!(self.on_rejoin.set(Box::new(call)).is_ok(), "a membership belongs to one node");
    }

    /// Whether the lease is valid now, and the node knows what was revoked before it began.
    #[must_use]
    pub fn has_lease(&self) -> bool {
        self.lease.is_usable(self.clock.now().instant)
    }

    /// The latest time of all nodes' clocks; `now` is this node's.
    pub(crate) fn latest_clock(&self, now: Timestamp) -> Timestamp {
        self.lock().peers().map(|(_, record)| Timestamp(record.clock_ms)).fold(now, Timestamp::max)
    }

    /// Counts sessions that moved.
    pub fn count_moved_sessions(&self, count: impl FnOnce(&mut MovedSessions)) {
        count(&mut self.moved_sessions.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Counts mirrors of sessions.
    pub fn count_mirrors(&self, count: impl FnOnce(&mut MirrorFigures)) {
        count(&mut self.mirrors.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// How often this node's lease has ended since it joined. It increases before the node joins again.
    #[must_use]
    pub fn lapses(&self) -> u64 {
        self.lapses.load(Relaxed)
    }

    /// Time after which other nodes notice that this one is gone.
    #[must_use]
    pub fn lease_ms(&self) -> u64 {
        self.lease.lease_ms()
    }

    /// Messages on the bus that no node of this cluster has sent: they were dropped.
    #[must_use]
    pub fn strangers_total(&self) -> u64 {
        self.strangers_count.load(Relaxed)
    }

    /// Counts a message that no node of this cluster has sealed.
    fn note_stranger(&self) {
        self.strangers_count.fetch_add(1, Relaxed);
        if let Some(count) = self.strangers.note(self.clock.now().instant) {
            tracing::warn!(
                count,
                "messages on NATS come from no node of this cluster, and are dropped: another cluster may have the same \
                 cluster.name, or NATS takes clients that it should not"
            );
        }
    }

    /// Sets what continues the traces of requests that other nodes sample. Once.
    pub fn on_trace(&self, resume: impl Fn(TraceContext) -> TraceHandle + Send + Sync + 'static) {
        assert!(self.resume_trace.set(Box::new(resume)).is_ok(), "a node has one exporter of traces");
    }

    fn resume_trace(&self, trace: Option<TraceContext>) -> Option<TraceHandle> {
        Some(self.resume_trace.get()?(trace?))
    }

    /// Takes guilds from now on.
    pub fn activate(&self) {
        self.lease.set_state(NodeState::Active);
    }

    /// Stops accepting guilds, before the node leaves.
    pub fn drain(&self) {
        self.lease.set_state(NodeState::Draining);
    }

    /// Gives the number back: other nodes take over the guilds at once. Call it when the guilds have ended.
    pub async fn leave(&self) {
        self.lease.leave(&*self.kv, self.number).await;
        for link in self.links.read().unwrap_or_else(PoisonError::into_inner).values() {
            link.close();
        }
    }

    /// The cluster as this node knows it.
    #[must_use]
    pub fn report(&self) -> ClusterReport {
        let machine = self.lock();
        let links = self.links.read().unwrap_or_else(PoisonError::into_inner);
        let of_peer = |(number, record): (NodeNumber, &NodeRecord)| {
            let link = links.get(&number);
            NodeReport {
                number: number.0,
                record: record.clone(),
                is_own: false,
                waiting: link.map(|link| link.len()),
                frames: link.map_or(0, |link| link.counts.frames.load(Relaxed)),
                bytes: link.map_or(0, |link| link.counts.bytes.load(Relaxed)),
                dropped: link.map_or(0, |link| link.counts.dropped.load(Relaxed)),
            }
        };
        let mut nodes: Vec<NodeReport> = machine.peers().map(of_peer).collect();
        nodes.push(NodeReport {
            number: self.number.0,
            record: machine.record().clone(),
            is_own: true,
            waiting: None,
            frames: 0,
            bytes: 0,
            dropped: 0,
        });
        nodes.sort_by_key(|node| node.number);
        ClusterReport {
            nodes,
            is_serving: machine.is_serving(),
            guilds_here: machine.guilds_here(),
            requests_elsewhere: machine.asked_count(),
            moved_sessions: *self.moved_sessions.lock().unwrap_or_else(PoisonError::into_inner),
            mirrors: *self.mirrors.lock().unwrap_or_else(PoisonError::into_inner),
            strangers_total: self.strangers_total(),
            handoffs: self.handoff_figures(),
            moves: self.moves(),
        }
    }

    /// Whether this node's lease is valid.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.lock().is_serving()
    }

    /// The owner of a guild, if this node knows it.
    #[must_use]
    pub fn owner_of(&self, guild_id: GuildId) -> Option<NodeNumber> {
        self.lock().owner_of(guild_id)
    }

    /// The owner of a guild: from memory, else from the lease store. None if no live node owns it.
    pub async fn find_owner(&self, guild_id: GuildId) -> Option<NodeNumber> {
        if let Some(owner) = self.owner_of(guild_id) {
            return Some(owner);
        }
        let OwnerResult::Found(Some((record, _))) = access_owner(&*self.kv, guild_id, OwnerOp::Read).await else {
            return None;
        };
        let machine = self.lock();
        let own = (machine.number(), machine.record());
        let mut nodes = machine.peers().chain([own]);
        nodes
            .any(|(number, node)| number == record.node && node.incarnation == record.incarnation)
            .then_some(record.node)
    }

    fn lock(&self) -> MutexGuard<'_, Cluster> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `input` on the machine, and carries out what follows (D1).
    fn with<R>(self: &Arc<Self>, input: impl FnOnce(&mut Cluster, Instant) -> R) -> R {
        let now = self.clock.now().instant;
        let mut machine = self.lock();
        let deadline = machine.next_deadline();
        // D2.
        if machine.is_serving() && !self.lease.is_usable(now) {
            machine.set_serving(now, false);
        }
        let result = input(&mut machine, now);
        while let Some(output) = machine.poll_output() {
            self.carry_out(&mut machine, now, output);
        }
        if machine.next_deadline() != deadline {
            self.timer.notify_one();
        }
        result
    }

    fn carry_out(self: &Arc<Self>, machine: &mut Cluster, now: Instant, output: Output) {
        let Some(parts) = self.parts.get() else { return };
        match output {
            Output::Send { to, message } => {
                // A stream begins: changes that its node reported before may be lost.
                if let PeerMessage::Welcome { .. } = message {
                    parts.directory.clear();
                }
                if let Some(link) = self.link(to) {
                    link.push(message);
                }
            }
            Output::Begin { to, membership, stream } => {
                self.note_peers(PeerNews::Members);
                self.begin_link(machine.record().incarnation, (to, membership), stream);
            }
            Output::Open { to, stream } => {
                if let Some(link) = self.link(to) {
                    link.open(stream);
                }
            }
            Output::End { to } => {
                if let Some(link) = self.links.write().unwrap_or_else(PoisonError::into_inner).remove(&to) {
                    link.close();
                }
                self.member_left.notify_one();
                self.note_peers(PeerNews::Members);
            }
            Output::Owner { guild_id, op } => {
                let membership = self.clone();
                self.runtime.spawn(async move {
                    let result = access_owner(&*membership.kv, guild_id, op).await;
                    membership.with(|machine, now| machine.handle_owner(now, guild_id, result));
                });
            }
            Output::ToGuild { guild_id, origin, input } => self.to_guild(machine, now, guild_id, origin, input),
            Output::ToRelay(message, trace) => {
                let (guild_id, relay) = (message.guild_id, message.relay);
                let delivered = match self.resume_trace(trace) {
                    Some(trace) => parts.local.try_deliver_traced(relay.partition, message, &trace),
                    None => parts.local.try_deliver(relay.partition, message),
                };
                if delivered.is_err() {
                    machine.refused_message(now, guild_id, relay);
                }
            }
            Output::ForgetRelays { of } => {
                // Messages of that node are lost.
                parts.directory.clear();
                parts.mailboxes.iter().for_each(|mailbox| mailbox.forget_relays(of.0));
            }
            Output::Release { guild_id } => {
                self.releasing.begin(guild_id);
                mailbox_of(parts, guild_id).release_guild(guild_id);
            }
            Output::GiveUp { guild_id } => mailbox_of(parts, guild_id).hand_over(guild_id, HandoffStep::GiveUp),
            Output::Claim { guild_id } => self.claim(guild_id),
            Output::Serve { guild_id, forget } => self.serve(guild_id, &forget),
            Output::Drop { guild_id } => self.drop_standby(guild_id),
            Output::Answer { request, answer } => {
                if let Some(caller) = self.callers().remove(&request) {
                    // The caller may have stopped waiting.
                    let _ = caller.send(answer);
                }
            }
            Output::Users(published, trace) => {
                if let Payload::Presence { user_id, presence } = &published.event.payload {
                    self.note_peers(PeerNews::Presence(*user_id, presence.status));
                }
                self.publish_from_peer(&published, self.resume_trace(trace).as_ref(), &*parts.local);
            }
            Output::Joined { user_id, guild_id } => parts.local.announce_joined(user_id, guild_id),
            Output::UserChanged(user) => {
                parts.directory.apply(DirectoryChange::User(user.id));
                parts.local.announce_user(&user);
            }
            Output::Changed(changes) => changes.into_iter().for_each(|change| parts.directory.apply(change)),
        }
    }

    fn callers(&self) -> MutexGuard<'_, HashMap<RequestId, oneshot::Sender<crate::mailbox::Answer>>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self, to: NodeNumber) -> Option<Arc<Link>> {
        self.links.read().unwrap_or_else(PoisonError::into_inner).get(&to).cloned()
    }

    fn begin_link(&self, own: Incarnation, (to, membership): (NodeNumber, Incarnation), stream: u64) {
        let mut links = self.links.write().unwrap_or_else(PoisonError::into_inner);
        // A new membership of this node sends as another sender, in a task of its own.
        if let Some(link) = links.get(&to).filter(|link| link.own != own) {
            link.close();
            links.remove(&to);
        }
        let link = links.entry(to).or_insert_with(|| {
            let link = Arc::new(Link::new(own));
            let Some(subject) = subject_of(to) else { return link };
            let bus = (self.bus.clone(), self.seal.clone());
            self.runtime.spawn(link::run(link.clone(), bus, (to, subject)));
            link
        });
        link.begin(stream, membership);
    }

    /// Passes an input to a guild of this node.
    fn to_guild(
        self: &Arc<Self>,
        machine: &mut Cluster,
        now: Instant,
        guild_id: GuildId,
        origin: Origin,
        input: GuildInput,
    ) {
        let Some(parts) = self.parts.get() else { return };
        let mailbox = mailbox_of(parts, guild_id);
        let request = input.request();
        let answer = || match (origin, request) {
            (Origin::Own, Some(request)) => self.callers().remove(&request),
            (Origin::Peer(_), Some(request)) => {
                let (sender, receiver) = oneshot::channel();
                let membership = self.clone();
                self.runtime.spawn(async move {
                    let answer = receiver.await.unwrap_or(Err(Refusal::Unavailable));
                    membership.with(|machine, _| machine.answered(origin, request, answer));
                });
                Some(sender)
            }
            (_, None) => None,
        };
        let pushed = match &input {
            GuildInput::Command { actor, command, trace, .. } => match answer() {
                Some(answer) => {
                    let (actor, command) = (*actor, (**command).clone());
                    let trace = self.resume_trace(*trace).map(CommandTrace::resumed);
                    let request = CommandRequest { actor, command, answer, loads_count: 0, trace };
                    // The sender that is dropped with it answers `Unavailable`.
                    drop(mailbox.try_push(guild_id, Input::Command(request)));
                    Ok(())
                }
                None => Ok(()),
            },
            GuildInput::Create { creation, .. } => match answer() {
                Some(answer) => {
                    drop(mailbox.try_push(guild_id, Input::Create(creation.clone().into(), answer)));
                    Ok(())
                }
                None => Ok(()),
            },
            GuildInput::Relay(message) => mailbox.try_push(guild_id, Input::Relay(message.clone())),
            GuildInput::Reset { relay, epoch } => {
                mailbox.try_push(guild_id, Input::Reset { relay: *relay, epoch: *epoch })
            }
        };
        if pushed.is_err() {
            machine.refused_input(now, guild_id, origin, &input);
        }
    }

    // ── for the node ─────────────────────────────────────────────────────────────────────────────

    /// Passes an input of this node to its guild, wherever that is.
    ///
    /// # Errors
    /// Returns the input if there is no room.
    pub(crate) fn push(self: &Arc<Self>, mailbox: &Mailbox, guild_id: GuildId, input: Input) -> Result<(), Input> {
        match input {
            // Under the lock: a release of the guild must not come in between.
            Input::Relay(message) => {
                self.with(|machine, now| match machine.push(now, guild_id, GuildInput::Relay(message)) {
                    Pushed::Accepted => Ok(()),
                    Pushed::Local(GuildInput::Relay(message)) => mailbox.try_push(guild_id, Input::Relay(message)),
                    Pushed::Full(GuildInput::Relay(message)) => Err(Input::Relay(message)),
                    Pushed::Local(_) | Pushed::Full(_) => unreachable!("the machine returns the input that was pushed"),
                })
            }
            Input::Command(_) | Input::Create(..) => {
                let input = {
                    let mut machine = self.lock();
                    if machine.uses(guild_id) {
                        return mailbox.try_push(guild_id, input);
                    }
                    input
                };
                self.push_request(mailbox, guild_id, input);
                Ok(())
            }
            Input::Reset { .. } | Input::Release | Input::Handoff(_) => mailbox.try_push(guild_id, input),
        }
    }

    fn new_request(&self, answer: oneshot::Sender<crate::mailbox::Answer>) -> RequestId {
        let request = RequestId(self.next_request.fetch_add(1, Relaxed));
        self.callers().insert(request, answer);
        request
    }

    /// A command or a creation as a request of this node.
    fn request_of(&self, input: Input) -> Option<GuildInput> {
        match input {
            Input::Command(CommandRequest { actor, command, answer, trace, .. }) => {
                let (request, command) = (self.new_request(answer), Box::new(command));
                let trace = trace.and_then(|trace| trace.context());
                Some(GuildInput::Command { request, actor, command, trace })
            }
            Input::Create(create, answer) => {
                Some(GuildInput::Create { request: self.new_request(answer), creation: create.into() })
            }
            Input::Relay(_) | Input::Reset { .. } | Input::Release | Input::Handoff(_) => None,
        }
    }

    fn push_request(self: &Arc<Self>, mailbox: &Mailbox, guild_id: GuildId, input: Input) {
        let Some(input) = self.request_of(input) else { return };
        self.with(|machine, now| {
            let (input, is_here) = match machine.push(now, guild_id, input) {
                Pushed::Accepted => return,
                Pushed::Local(input) => (input, true),
                Pushed::Full(input) => (input, false),
            };
            let Some(answer) = input.request().and_then(|request| self.callers().remove(&request)) else { return };
            // An input that the machine cannot take is dropped with its answer channel: the caller gets `Unavailable`.
            match input {
                GuildInput::Command { actor, command, trace, .. } if is_here => {
                    let trace = self.resume_trace(trace).map(CommandTrace::resumed);
                    let request = CommandRequest { actor, command: *command, answer, loads_count: 0, trace };
                    drop(mailbox.try_push(guild_id, Input::Command(request)));
                }
                GuildInput::Create { creation, .. } if is_here => {
                    drop(mailbox.try_push(guild_id, Input::Create(creation.into(), answer)));
                }
                _ => {}
            }
        });
    }

    pub(crate) fn try_send_to_relay(
        &self,
        partition: PartitionId,
        message: ToRelay,
        trace: Option<TraceContext>,
    ) -> Result<(), ToRelay> {
        match self.links.read().unwrap_or_else(PoisonError::into_inner).get(&NodeNumber(partition.node())) {
            Some(link) => link.try_push_relay(message, trace),
            // The node has left: its relays are about to be forgotten.
            None => Err(message),
        }
    }

    /// A guild has handed over all messages of its last input.
    pub(crate) fn release_messages(&self, guild_id: GuildId) {
        for link in self.links.read().unwrap_or_else(PoisonError::into_inner).values() {
            link.release(guild_id);
        }
    }

    /// Sends a message to every other node, in the order of the calls. Returns the number of nodes.
    pub fn send_to_all(self: &Arc<Self>, message: &PeerMessage) -> usize {
        self.with(|machine, _| {
            machine.broadcast(message);
            machine.peers().count()
        })
    }

    /// A guild is about to be loaded.
    pub(crate) fn in_use(&self, guild_id: GuildId) {
        self.lock().uses(guild_id);
    }

    /// A guild was dropped from memory.
    pub(crate) fn unloaded(self: &Arc<Self>, guild_id: GuildId) {
        self.with(|machine, now| machine.unloaded(now, guild_id));
    }

    /// Sets after which time a guild that is not in memory has no owner any more.
    pub fn set_owner_idle(&self, ms: u64) {
        self.lock().set_owner_idle(ms);
    }

    /// Another node claimed a guild that this one served.
    pub(crate) fn release(self: &Arc<Self>, guild_id: GuildId) {
        self.with(|machine, now| machine.release(now, guild_id));
    }
}

fn mailbox_of(parts: &Parts, guild_id: GuildId) -> &Mailbox {
    &parts.mailboxes[worker_of(guild_id, parts.mailboxes.len())]
}

/// Subject of messages to a node.
fn subject_of(number: NodeNumber) -> Option<Subject> {
    Subject::new(&format!("node.{number}"))
}

fn new_incarnation() -> Incarnation {
    Incarnation(u64::from_le_bytes(crate::tokens::random_bytes()))
}

async fn run_timer(membership: Arc<Membership>) {
    loop {
        let deadline = membership.lock().next_deadline();
        let now = membership.clock.now().instant;
        match deadline {
            Some(at) if at <= now => membership.with(Cluster::handle_timer),
            Some(at) => {
                let pause = std::time::Duration::from_millis(at.ms_since(now).max(1));
                // Woken or not, the deadline is read again.
                let _ = tokio::time::timeout(pause, membership.timer.notified()).await;
            }
            None => membership.timer.notified().await,
        }
    }
}

async fn access_owner(kv: &dyn KeyValue, guild_id: GuildId, op: OwnerOp) -> OwnerResult {
    let Some(key) = Key::new(&format!("guilds.{guild_id}")) else { return OwnerResult::Away };
    let write = |record: OwnerRecord| serde_json::to_vec(&record).unwrap_or_default().into();
    let written = match op {
        OwnerOp::Read => match kv.get(&key).await {
            Ok(None) => return OwnerResult::Found(None),
            Ok(Some(entry)) => {
                // An unreadable record is replaced.
                let record = serde_json::from_slice(&entry.value)
                    .unwrap_or(OwnerRecord { node: NodeNumber(u8::MAX), incarnation: Incarnation(0) });
                return OwnerResult::Found(Some((record, entry.revision.0)));
            }
            Err(error) => Err(error),
        },
        OwnerOp::Check(record, revision) => match lease::membership_of(kv, record.node).await {
            Ok(current) => return OwnerResult::Checked(record, revision, current),
            Err(error) => Err(error),
        },
        OwnerOp::Create(record) => kv.create(&key, write(record), None).await.map(|_| record),
        OwnerOp::Replace(record, revision) => {
            kv.update(&key, write(record), guildhall_bus::Revision(revision), None).await.map(|_| record)
        }
        OwnerOp::Remove(revision) => match kv.delete(&key, guildhall_bus::Revision(revision)).await {
            Ok(()) => return OwnerResult::Removed,
            Err(error) => Err(error),
        },
    };
    match written {
        Ok(record) => OwnerResult::Written(record),
        Err(KvError::Exists { .. } | KvError::Conflict) => OwnerResult::Conflict,
        Err(error) => {
            tracing::debug!(%guild_id, %error, "the owner of a guild cannot be read or written");
            OwnerResult::Away
        }
    }
}

impl From<Creation> for CreateRequest {
    fn from(creation: Creation) -> Self {
        match creation {
            Creation::Guild(new) => Self::Guild(new),
            Creation::Direct(new) => Self::Direct(new),
        }
    }
}

impl From<CreateRequest> for Creation {
    fn from(create: CreateRequest) -> Self {
        match create {
            CreateRequest::Guild(new) => Self::Guild(new),
            CreateRequest::Direct(new) => Self::Direct(new),
        }
    }
}
