//! Site: the surroundings of the drivers in the simulation.
//!
//! Owns        the events to come, the leases with what each node knows of the others, and questions on their way;
//!             `SimPort`, through which a driver uses them; the planted faults.
//! Invariants  a node that is paused runs nothing: its events wait until it goes on, in their order. A node that was
//!             killed has no further events. The seed chooses the delay of each event.

use super::super::{
    mirrors::GivenAway,
    port::{SessionPort, Sleep},
};
use guildhall_cluster::{Incarnation, NodeNumber, NodeRecord, wire};
use guildhall_guild_protocol::{PartitionId, Whose};
use guildhall_model::{ChannelId, CloseCode, Direct, GuildId, Id, MessageId, UserId};
use guildhall_net::{HandOver, ResumeFault, SessionClaim, TransferEnd};
use guildhall_node::{MirrorFigures, MovedSessions, PeerQuestion};
use guildhall_partition::{MirrorsTaken, Partition};
use guildhall_stdx::{Now, Rng};
use guildhall_store::StoreError;
use guildhall_test_kit::{FakeLink, TestCluster};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::{Future, pending},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::oneshot;

pub const LEASE_MS: u64 = 3_000;
/// A node stops a fifth earlier.
const OWN_LEASE_MS: u64 = LEASE_MS * 4 / 5;
const RENEW_MS: u64 = 1_000;
/// Longest delays: of a message, of a node's view of the leases, of a partition's work, of the store.
const MESSAGE_MS: u64 = 60;
const VIEW_MS: u64 = 200;
const WORK_MS: u64 = 4;
const STORE_MS: u64 = 20;
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A planted fault of a mechanism, which the checker has to notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedFault {
    None,
    /// Reports are acknowledged and dropped: mirrors lag in silence.
    StaleMirror,
    /// A node that is paused for less than its lease counts as gone.
    GivesOfLiving,
    /// A node does not notice that it was without a lease.
    NeverReturns,
    /// Nodes do not list the sessions that they gave away.
    ForgetsGiven,
    /// The holder of a mirror does not compare it with the stored direct messages.
    IgnoresStore,
}

impl PlantedFault {
    pub const ALL: [Self; 5] =
        [Self::StaleMirror, Self::GivesOfLiving, Self::NeverReturns, Self::ForgetsGiven, Self::IgnoresStore];
}

type Run = Box<dyn FnOnce(&mut TestCluster) + Send>;
type Answering = Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send>>;
type Handler = Arc<dyn Fn(Vec<u8>) -> Answering + Send + Sync>;

struct Event {
    node: usize,
    run: Run,
}

/// A node's process.
pub struct SimNode {
    pub is_killed: bool,
    pub paused_until: u64,
    incarnation: u64,
    /// By its own clock.
    lease_until: u64,
    pub lapses: u64,
    /// The others, as it knows them: number and membership.
    others: BTreeMap<usize, u64>,
    /// It learns of changes of the leases later by this much.
    pub view_late_ms: u64,
    handlers: BTreeMap<&'static str, Handler>,
    pub mirrors: MirrorFigures,
    pub moved: MovedSessions,
}

pub struct State {
    pub now: Now,
    pub rng: Rng,
    pub fault: PlantedFault,
    /// Chance that a message is lost.
    pub loss: f64,
    pub guild_ids: Vec<GuildId>,
    pub nodes: Vec<SimNode>,
    /// The lease store: membership and its end.
    leases: BTreeMap<usize, (u64, u64)>,
    incarnations_count: u64,
    events: BTreeMap<(u64, u64), Event>,
    events_count: u64,
    /// Nodes whose lease has ended or begun again, for the guilds.
    pub changes: Vec<LeaseChange>,
}

#[derive(Clone, Copy, Debug)]
pub enum LeaseChange {
    Gone(usize),
    Back(usize),
}

impl State {
    fn at(&mut self, at: u64, node: usize, run: Run) {
        self.events_count += 1;
        self.events.insert((at, self.events_count), Event { node, run });
    }

    fn soon(&mut self, ms_max: u64, node: usize, run: Run) {
        let at = self.now.instant.0 + self.rng.below(ms_max + 1);
        self.at(at, node, run);
    }

    pub fn is_awake(&self, node: usize) -> bool {
        !self.nodes[node].is_killed && self.nodes[node].paused_until <= self.now.instant.0
    }

    pub fn has_lease(&self, node: usize) -> bool {
        self.now.instant.0 < self.nodes[node].lease_until
    }
}

/// Shared by the world and the drivers.
#[derive(Clone)]
pub struct Site(Arc<Mutex<State>>);

impl Site {
    pub fn new(seed: u64, nodes_count: usize, (now, fault): (Now, PlantedFault), guild_ids: Vec<GuildId>) -> Self {
        let node = || SimNode {
            is_killed: false,
            paused_until: 0,
            incarnation: 0,
            lease_until: 0,
            lapses: 0,
            others: BTreeMap::new(),
            view_late_ms: 0,
            handlers: BTreeMap::new(),
            mirrors: MirrorFigures::default(),
            moved: MovedSessions::default(),
        };
        let site = Self(Arc::new(Mutex::new(State {
            now,
            rng: Rng::new(seed ^ 0x5117_e000),
            fault,
            loss: 0.0,
            guild_ids,
            nodes: (0..nodes_count).map(|_| node()).collect(),
            leases: BTreeMap::new(),
            incarnations_count: 0,
            events: BTreeMap::new(),
            events_count: 0,
            changes: Vec::new(),
        })));
        (0..nodes_count).for_each(|node| site.join(node));
        for node in 0..nodes_count {
            site.look_at_leases(node);
        }
        site
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn port(&self, node: usize) -> SimPort {
        SimPort { site: self.clone(), node }
    }

    /// Ends what refers to the site.
    pub fn clear(&self) {
        let events = std::mem::take(&mut self.lock().events);
        drop(events);
    }

    /// Runs this at the node within the delay.
    pub fn soon(&self, ms_max: u64, node: usize, run: impl FnOnce(&mut TestCluster) + Send + 'static) {
        self.lock().soon(ms_max, node, Box::new(run));
    }

    /// When the next event until `until` happens, and what it does. Events of paused nodes wait.
    pub fn next(&self, until: u64) -> Option<(u64, Run)> {
        let mut state = self.lock();
        loop {
            let first = state.events.first_entry()?;
            let (at, number) = *first.key();
            if at > until {
                return None;
            }
            let Event { node, run } = first.remove();
            let SimNode { is_killed, paused_until, .. } = state.nodes[node];
            if is_killed {
                continue;
            }
            if at < paused_until {
                state.events.insert((paused_until, number), Event { node, run });
                continue;
            }
            return Some((at, run));
        }
    }

    // ── leases ───────────────────────────────────────────────────────────────────────────────────

    fn join(&self, node: usize) {
        {
            let mut state = self.lock();
            state.incarnations_count += 1;
            state.nodes[node].incarnation = 1_000 + state.incarnations_count;
        }
        self.renew(node);
    }

    /// Renews the lease of a node that has it, and joins it again otherwise.
    fn renew(&self, node: usize) {
        let mut state = self.lock();
        let now = state.now.instant.0;
        let is_first = state.nodes[node].lease_until == 0;
        let site = self.clone();
        if !is_first && !state.has_lease(node) {
            state.nodes[node].lapses += 1;
            let again = Box::new(move |_: &mut TestCluster| {
                site.lock().nodes[node].lease_until = 0;
                site.join(node);
                site.lock().changes.push(LeaseChange::Back(node));
                site.announce();
            });
            return state.soon(VIEW_MS, node, again);
        }
        let ends_at = now + LEASE_MS;
        state.nodes[node].lease_until = now + OWN_LEASE_MS;
        let incarnation = state.nodes[node].incarnation;
        state.leases.insert(node, (incarnation, ends_at));
        state.at(now + RENEW_MS, node, Box::new(move |_| site.renew(node)));
    }

    /// Removes leases that have ended. The others notice it.
    pub fn expire(&self) {
        let is_over = {
            let mut state = self.lock();
            let now = state.now.instant.0;
            let over: Vec<usize> =
                state.leases.iter().filter(|(_, (_, end))| *end <= now).map(|(node, _)| *node).collect();
            for node in &over {
                state.leases.remove(node);
                state.changes.push(LeaseChange::Gone(*node));
            }
            !over.is_empty()
        };
        if is_over {
            self.announce();
        }
    }

    fn announce(&self) {
        let mut state = self.lock();
        for node in 0..state.nodes.len() {
            let site = self.clone();
            let at = state.now.instant.0 + state.rng.below(VIEW_MS + 1) + state.nodes[node].view_late_ms;
            state.at(at, node, Box::new(move |_| site.look_at_leases(node)));
        }
    }

    fn look_at_leases(&self, node: usize) {
        let mut state = self.lock();
        let others = state.leases.iter().filter(|(other, _)| **other != node);
        let others = others.map(|(other, (incarnation, _))| (*other, *incarnation)).collect();
        state.nodes[node].others = others;
    }

    // ── questions ────────────────────────────────────────────────────────────────────────────────

    /// None: the other node is no member.
    fn send(
        &self,
        from: usize,
        to: usize,
        (kind, body): (&'static str, Vec<u8>),
    ) -> Option<oneshot::Receiver<Option<Vec<u8>>>> {
        let mut state = self.lock();
        let member = *state.nodes[from].others.get(&to)?;
        let own = state.nodes[from].incarnation;
        let (reply, answer) = oneshot::channel();
        let forged = match (state.fault, kind) {
            (PlantedFault::StaleMirror, "mirror_sessions") if state.rng.chance(0.7) => {
                Some(wire::encode(&MirrorsTaken::default()))
            }
            (PlantedFault::ForgetsGiven, "returned") => Some(wire::encode(&GivenAway::default())),
            _ => None,
        };
        let loss = state.loss;
        if let Some(forged) = forged {
            let _ = reply.send(Some(forged));
        } else if !state.rng.chance(loss) {
            let site = self.clone();
            let run = move |_: &mut TestCluster| site.deliver((from, own), (to, member), (kind, body), reply);
            state.soon(MESSAGE_MS, to, Box::new(run));
        }
        Some(answer)
    }

    fn deliver(
        &self,
        (from, own): (usize, u64),
        (to, member): (usize, u64),
        (kind, body): (&'static str, Vec<u8>),
        reply: oneshot::Sender<Option<Vec<u8>>>,
    ) {
        let handler = {
            let state = self.lock();
            let node = &state.nodes[to];
            let is_current = node.incarnation == member && node.others.get(&from) == Some(&own);
            node.handlers.get(kind).filter(|_| is_current).cloned()
        };
        let site = self.clone();
        tokio::spawn(async move {
            let answer = match handler {
                Some(handler) => handler(body).await,
                None => None,
            };
            let mut state = site.lock();
            let loss = state.loss;
            if !state.rng.chance(loss) {
                // The one that sent the question may have stopped waiting.
                state.soon(MESSAGE_MS, from, Box::new(move |_| drop(reply.send(answer))));
            }
        });
    }
}

/// The port of one node's drivers.
#[derive(Clone)]
pub struct SimPort {
    site: Site,
    node: usize,
}

impl SimPort {
    fn on_partition<T: Send + 'static, W: FnOnce(Now, &mut Partition, &mut FakeLink) -> T + Send + 'static>(
        &self,
        work: W,
    ) -> impl Future<Output = Option<T>> + Send + use<T, W> {
        let (sender, receiver) = oneshot::channel();
        let node = self.node;
        self.site.soon(WORK_MS, node, move |cluster| drop(sender.send(cluster.drive(node, work))));
        async move { receiver.await.ok() }
    }

    /// The members without this node.
    fn others(&self) -> BTreeMap<usize, u64> {
        let state = self.site.lock();
        let mut others = state.nodes[self.node].others.clone();
        if state.fault == PlantedFault::GivesOfLiving {
            let paused: BTreeSet<usize> = others.keys().copied().filter(|other| !state.is_awake(*other)).collect();
            others.retain(|other, _| !paused.contains(other));
        }
        others
    }
}

impl SessionPort for SimPort {
    fn now(&self) -> Now {
        self.site.lock().now
    }

    fn sleep(&self, time: Duration) -> Sleep {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.site.lock();
        let at = state.now.instant.0 + time.as_millis() as u64;
        state.at(
            at,
            self.node,
            Box::new(move |_| {
                // Its driver may have stopped waiting.
                let _ = sender.send(());
            }),
        );
        Box::pin(async move {
            if receiver.await.is_err() {
                // The node was killed.
                pending::<()>().await;
            }
        })
    }

    fn number(&self) -> NodeNumber {
        NodeNumber(self.node as u8)
    }

    fn incarnation(&self) -> Incarnation {
        Incarnation(self.site.lock().nodes[self.node].incarnation)
    }

    fn members(&self) -> Vec<(NodeNumber, NodeRecord)> {
        let others = self.others().into_iter().chain([(self.node, self.incarnation().0)]);
        let record = |incarnation| NodeRecord::active(Incarnation(incarnation));
        others.map(|(number, incarnation)| (NodeNumber(number as u8), record(incarnation))).collect()
    }

    fn numbers(&self) -> Vec<NodeNumber> {
        self.others().into_keys().map(|number| NodeNumber(number as u8)).collect()
    }

    fn has_lease(&self) -> bool {
        self.site.lock().has_lease(self.node)
    }

    fn has_left(&self) -> bool {
        self.site.lock().nodes[self.node].is_killed
    }

    fn lapses(&self) -> u64 {
        let state = self.site.lock();
        if state.fault == PlantedFault::NeverReturns { 0 } else { state.nodes[self.node].lapses }
    }

    fn lease_ms(&self) -> u64 {
        LEASE_MS
    }

    fn random_number(&self) -> u64 {
        self.site.lock().rng.next_u64()
    }

    fn answer_bytes_max(&self) -> usize {
        ANSWER_BYTES_MAX
    }

    async fn ask_within<Q: PeerQuestion + Sync>(
        &self,
        to: NodeNumber,
        question: &Q,
        patience: Duration,
    ) -> Option<Q::Answer> {
        let mut limit = self.sleep(patience);
        let answer = self.site.send(self.node, usize::from(to.0), (Q::KIND, wire::encode(question)))?;
        let answer = tokio::select! {
            biased;
            answer = answer => match answer {
                Ok(answer) => answer,
                Err(_) => {
                    limit.await;
                    None
                }
            },
            () = &mut limit => None,
        };
        wire::decode(wire::VERSION, &answer?).ok()
    }

    fn on_question<Q: PeerQuestion, F: Future<Output = Option<Q::Answer>> + Send + 'static>(
        &self,
        handler: impl Fn(Q) -> F + Send + Sync + 'static,
    ) {
        let handler = move |body: Vec<u8>| -> Answering {
            let answering = handler(wire::decode::<Q>(wire::VERSION, &body).expect("one of ours"));
            Box::pin(async move { answering.await.as_ref().map(wire::encode) })
        };
        self.site.lock().nodes[self.node].handlers.insert(Q::KIND, Arc::new(handler));
    }

    fn count_mirrors(&self, count: impl FnOnce(&mut MirrorFigures)) {
        count(&mut self.site.lock().nodes[self.node].mirrors);
    }

    fn count_moved_sessions(&self, count: impl FnOnce(&mut MovedSessions)) {
        count(&mut self.site.lock().nodes[self.node].moved);
    }

    fn partitions_count(&self) -> usize {
        1
    }

    fn home_of(&self, _: &str) -> Option<PartitionId> {
        Some(PartitionId::of_node(self.node as u8, 0))
    }

    fn look<T: Send + 'static>(
        &self,
        _: PartitionId,
        look: impl FnOnce(Now, &Partition) -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send {
        self.on_partition(move |now, partition, _| look(now, partition))
    }

    fn on_mirrors<T: Send + 'static>(
        &self,
        _: usize,
        work: impl FnOnce(Now, &mut Partition) -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send {
        self.on_partition(move |now, partition, _| work(now, partition))
    }

    fn close_sessions(&self, whose: &Whose, code: CloseCode) -> impl Future<Output = usize> + Send {
        let whose = whose.clone();
        let closed = self.on_partition(move |now, partition, link| partition.close_sessions(now, &whose, code, link));
        async move { closed.await.unwrap_or(0) }
    }

    fn release_session(
        &self,
        claim: SessionClaim,
        bytes_max: usize,
    ) -> impl Future<Output = Option<Result<HandOver, ResumeFault>>> + Send {
        self.on_partition(move |now, partition, link| partition.release_session(now, &claim, bytes_max, link))
    }

    fn begin_transfer(
        &self,
        claim: SessionClaim,
        ticket: u64,
        bytes_max: usize,
    ) -> impl Future<Output = Option<Result<HandOver, ResumeFault>>> + Send {
        self.on_partition(move |now, partition, link| partition.begin_transfer(now, (&claim, ticket), bytes_max, link))
    }

    fn end_transfer(
        &self,
        end: TransferEnd,
        is_late: bool,
        bytes_max: usize,
    ) -> impl Future<Output = Option<Result<Option<HandOver>, ResumeFault>>> + Send {
        self.on_partition(move |now, partition, link| partition.end_transfer(now, (&end, is_late), bytes_max, link))
    }

    async fn directs_of_user(&self, user_id: UserId) -> Result<Vec<Direct>, StoreError> {
        let (sender, receiver) = oneshot::channel();
        let fault = self.site.lock().fault;
        self.site.soon(STORE_MS, self.node, move |cluster| {
            let directs = if fault == PlantedFault::IgnoresStore { Vec::new() } else { cluster.directs_of(user_id) };
            drop(sender.send(directs));
        });
        match receiver.await {
            Ok(directs) => Ok(directs),
            Err(_) => pending().await,
        }
    }

    async fn messages_after(&self, channel_id: ChannelId, after: MessageId) -> Result<Vec<MessageId>, StoreError> {
        let (sender, receiver) = oneshot::channel();
        self.site.soon(STORE_MS, self.node, move |cluster| {
            let above = Id::new(after.get() + 1)..Id::new(u64::MAX);
            drop(sender.send(cluster.messages_in(channel_id, &above)));
        });
        match receiver.await {
            Ok(messages) => Ok(messages),
            Err(_) => pending().await,
        }
    }

    async fn guilds_of_user(&self, _: UserId) -> Result<Vec<GuildId>, StoreError> {
        Ok(self.site.lock().guild_ids.clone())
    }
}
