//! Several nodes in one process, on the bus and the lease store of the process.

mod balance;
mod friends;
mod handoff;

use crate::support::{
    Listener, OWNER, PARTITIONS, Relays, SECRET, attach, bounded, bounded_or, message, new_guild, user,
};
use async_trait::async_trait;
use bytes::Bytes;
use guildhall_bus::{
    Bus, BusError, Entry, Key, KeyValue, KvError, KvEvent, KvWatch, LocalBus, LocalKv, LocalOptions, Outgoing,
    Revision, SenderId, StreamId, Subject, Subscription,
};
use guildhall_cluster::{NodeState, PeerMessage};
use guildhall_guild::{Actor, Command, NewChannel, NewMessage, PublicationId, PublishReply, Refusal, Reply, request};
use guildhall_guild_protocol::{
    AudienceRule, BackendEvent, Event, PartitionId, Published, Receipt, RelayId, RelayMessage, ReplicaUpdate,
    SessionKey, Whose,
};
use guildhall_model::{ChannelId, ChannelType, CloseCode, GuildId, MessageId, Nonce, User, UserId};
use guildhall_node::{
    AuthError, BalanceOptions, Clock, ClusterKey, Membership, MembershipOptions, MoveStep, Node, NodeConfig,
    NodeLimits, NodeReport, Scope,
};
use guildhall_stdx::Now;
use guildhall_store::{MemoryStore, Store, TokenHash};
use serde_json::value::RawValue;
use std::{
    fmt::Debug,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::{runtime::Runtime, sync::watch};

/// The machine's clock.
struct RealClock(Instant);

impl Clock for RealClock {
    fn now(&self) -> Now {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Now::new(self.0.elapsed().as_millis() as u64, unix.as_millis() as i64)
    }
}

/// The lease store, as a node that can be cut off from it sees it.
struct CutKv {
    kv: Arc<LocalKv>,
    is_cut: Arc<AtomicBool>,
    /// Its watches report nothing while this is true.
    is_lagging: watch::Sender<bool>,
}

/// A watch that can lag.
struct LaggingWatch {
    watch: Box<dyn KvWatch>,
    is_lagging: watch::Receiver<bool>,
}

#[async_trait]
impl KvWatch for LaggingWatch {
    async fn next(&mut self) -> Result<KvEvent, KvError> {
        let event = self.watch.next().await;
        self.is_lagging.wait_for(|is_lagging| !is_lagging).await.map_err(|_| KvError::Away("ended".to_owned()))?;
        event
    }
}

impl CutKv {
    fn open(&self) -> Result<&LocalKv, KvError> {
        if self.is_cut.load(Ordering::SeqCst) { Err(KvError::Away("cut off".to_owned())) } else { Ok(&self.kv) }
    }
}

#[async_trait]
impl KeyValue for CutKv {
    async fn create(&self, key: &Key, value: Bytes, ttl: Option<Duration>) -> Result<Revision, KvError> {
        self.open()?.create(key, value, ttl).await
    }

    async fn update(
        &self,
        key: &Key,
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> Result<Revision, KvError> {
        self.open()?.update(key, value, expected, ttl).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> Result<(), KvError> {
        self.open()?.delete(key, expected).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, KvError> {
        self.open()?.get(key).await
    }

    async fn watch(&self, prefix: &Key) -> Result<Box<dyn KvWatch>, KvError> {
        let watch = self.open()?.watch(prefix).await?;
        Ok(Box::new(LaggingWatch { watch, is_lagging: self.is_lagging.subscribe() }))
    }
}

/// The bus of a node whose questions can get lost.
struct LossyBus {
    bus: Arc<LocalBus>,
    /// Questions to other nodes get no answer.
    is_mute: Arc<dyn Fn() -> bool + Send + Sync>,
}

#[async_trait]
impl Bus for LossyBus {
    fn payload_bytes_max(&self) -> usize {
        self.bus.payload_bytes_max()
    }

    async fn publish(&self, subject: &Subject, payload: Bytes) -> Result<(), BusError> {
        self.bus.publish(subject, payload).await
    }

    async fn subscribe(&self, subject: &Subject) -> Result<Box<dyn Subscription>, BusError> {
        self.bus.subscribe(subject).await
    }

    async fn request(&self, subject: &Subject, payload: Bytes, timeout: Duration) -> Result<Bytes, BusError> {
        if (self.is_mute)() {
            tokio::time::sleep(timeout).await;
            return Err(BusError::Timeout { subject: subject.clone(), ms: timeout.as_millis() as u64 });
        }
        self.bus.request(subject, payload, timeout).await
    }
}

struct Site {
    bus: Arc<LocalBus>,
    kv: Arc<LocalKv>,
    store: Arc<dyn Store>,
    /// Of nodes that are added.
    balance: BalanceOptions,
    nodes: Vec<Option<Place>>,
}

/// One node, with a runtime of its own: dropping that is killing the node.
struct Place {
    node: Node,
    membership: Arc<Membership>,
    relays: Arc<Relays>,
    is_cut: Arc<AtomicBool>,
    /// Its questions to other nodes get lost while inputs of a guild that leaves it wait.
    is_mute_when_frozen: Arc<AtomicBool>,
    is_lagging: watch::Sender<bool>,
    runtime: Runtime,
}

/// Longer than a busy machine keeps a node waiting: a node that loses its lease begins again as another one.
const LEASE_MS: u64 = 20_000;
/// For tests in which a node loses it.
const SHORT_LEASE_MS: u64 = 3_000;

impl Drop for Site {
    fn drop(&mut self) {
        self.nodes.drain(..).flatten().for_each(|place| place.runtime.shutdown_background());
    }
}

impl Site {
    async fn new(nodes_count: usize) -> Self {
        Self::with(nodes_count, LEASE_MS, &NodeLimits::default()).await
    }

    async fn with(nodes_count: usize, lease_ms: u64, limits: &NodeLimits) -> Self {
        let balance = BalanceOptions { is_on: false, ..BalanceOptions::default() };
        Self::balanced(nodes_count, lease_ms, limits, balance).await
    }

    async fn balanced(nodes_count: usize, lease_ms: u64, limits: &NodeLimits, balance: BalanceOptions) -> Self {
        let (bus, kv) = (Arc::new(LocalBus::new(LocalOptions::default())), Arc::new(LocalKv::new()));
        let mut site = Self { bus, kv, store: Arc::new(MemoryStore::new()), balance, nodes: Vec::new() };
        for _ in 0..nodes_count {
            site.add(lease_ms, limits.clone()).await;
        }
        // Only active nodes take guilds.
        for place in site.nodes.iter().flatten() {
            let report = || place.membership.report().nodes;
            let is_active = |node: &NodeReport| node.record.state == NodeState::Active;
            until(|| report().iter().filter(|node| is_active(node)).count() == nodes_count, report).await;
        }
        site
    }

    async fn add(&mut self, lease_ms: u64, limits: NodeLimits) -> usize {
        self.add_lagging(lease_ms, limits, false).await
    }

    /// A node whose watch of the lease store reports nothing yet, or at once.
    async fn add_lagging(&mut self, lease_ms: u64, limits: NodeLimits, is_lagging: bool) -> usize {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(RealClock(Instant::now()));
        let (store, is_cut) = (self.store.clone(), Arc::new(AtomicBool::new(false)));
        let (is_mute_when_frozen, joined) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::new()));
        let (mute, of) = (is_mute_when_frozen.clone(), joined.clone());
        let is_frozen = move |membership: &Weak<Membership>| {
            let leaving = membership.upgrade().map(|membership| membership.moves().leaving);
            leaving.is_some_and(|leaving| leaving.iter().any(|leave| leave.step == MoveStep::Freeze))
        };
        let is_mute = move || mute.load(Ordering::SeqCst) && of.get().is_some_and(&is_frozen);
        let bus = Arc::new(LossyBus { bus: self.bus.clone(), is_mute: Arc::new(is_mute) });
        let is_lagging = watch::Sender::new(is_lagging);
        let kv = Arc::new(CutKv { kv: self.kv.clone(), is_cut: is_cut.clone(), is_lagging: is_lagging.clone() });
        let relays = Arc::new(Relays::default());
        let local = relays.clone();
        let options = MembershipOptions {
            node_name: format!("node {}", self.nodes.len()),
            url: String::new(),
            weight: 1,
            lease_ms,
            version: String::new(),
            key: ClusterKey([1; 32]),
            balance: self.balance,
        };
        let started = runtime.spawn(async move {
            let membership = Membership::join(options, bus, kv, clock.clone()).await.unwrap();
            assert!(joined.set(Arc::downgrade(&membership)).is_ok());
            let config = NodeConfig { guild_workers_count: 2, jwt_secret: SECRET.to_vec(), worker_mailbox_max: 10_000 };
            let node = Node::start_as(config, limits, store, clock, local, Some(membership.clone()));
            assert!(!node.has_lease(), "V4: it accepts no token before it has read the log");
            node.read_revocations().await.unwrap();
            membership.activate();
            (node, membership)
        });
        let (node, membership) = bounded(started).await.unwrap();
        self.nodes.push(Some(Place { node, membership, relays, is_cut, is_mute_when_frozen, is_lagging, runtime }));
        self.nodes.len() - 1
    }

    fn place(&self, index: usize) -> &Place {
        self.nodes[index].as_ref().expect("it was not killed")
    }

    /// Ends a node without notice to the others.
    fn kill(&mut self, index: usize) {
        self.nodes[index].take().expect("it was not killed").runtime.shutdown_background();
    }

    /// A guild that `owner` owns, and a channel in it: made through another node.
    async fn guild_of(&self, owner: usize, through: usize) -> (GuildId, ChannelId) {
        for n in 0..200_u64 {
            let guild_id = GuildId::new((1_700_000_000_000 << 22) + (n << 12));
            let node = &self.place(through).node;
            bounded(node.create_guild(new_guild(guild_id.get(), OWNER))).await.unwrap();
            if self.place(through).membership.owner_of(guild_id) == Some(self.place(owner).membership.number()) {
                return (guild_id, self.channel(guild_id, through).await);
            }
        }
        panic!("no guild of 200 came to node {owner}");
    }

    async fn channel(&self, guild_id: GuildId, through: usize) -> ChannelId {
        let new = NewChannel {
            name: "general".to_owned(),
            kind: ChannelType::Text,
            topic: None,
            parent_id: None,
            position: None,
            overwrites: Vec::new(),
            user_limit: 0,
        };
        let command = Command::CreateChannel(Box::new(new));
        match bounded(self.place(through).node.command(guild_id, Actor::System, command)).await.unwrap() {
            Reply::Channel(channel) => channel.id,
            other => panic!("{other:?}"),
        }
    }

    async fn say(
        &self,
        through: usize,
        guild_id: GuildId,
        channel_id: ChannelId,
        text: &str,
    ) -> Result<MessageId, Refusal> {
        let command = message(channel_id, text);
        match bounded(self.place(through).node.command(guild_id, Actor::User(OWNER), command)).await? {
            Reply::Message(reply) => Ok(reply.message.id),
            other => panic!("{other:?}"),
        }
    }

    /// A relay of a node that subscribes to a guild.
    fn listen(&self, at: usize, guild_id: GuildId) -> Listener {
        let place = self.place(at);
        let partition = PartitionId::of_node(place.membership.number().0, 0);
        let listener = Listener::new(place.relays.clone(), guild_id, RelayId::first(partition));
        place.node.try_send_to_guild(guild_id, listener.subscribe()).expect("there is room");
        listener
    }

    /// A relay of every node; each has its first snapshot.
    async fn listen_everywhere(&self, guild_id: GuildId) -> Vec<Listener> {
        let mut listeners: Vec<Listener> = (0..self.nodes.len()).map(|at| self.listen(at, guild_id)).collect();
        for listener in &mut listeners {
            assert!(!listener.snapshot().await);
        }
        listeners
    }

    /// Attaches a session of the guild's owner to a relay of node `at`.
    async fn attach_owner(&self, at: usize, guild_id: GuildId, listener: &mut Listener) {
        let session = SessionKey { relay: listener.relay, slot: 3, generation: 1 };
        self.place(at).node.try_send_to_guild(guild_id, attach(session, OWNER)).unwrap();
        let attached = listener.next().await;
        assert!(
            matches!(&attached, RelayMessage::Attached { session: of, view: Some(_) } if *of == session),
            "{attached:?}"
        );
    }

    /// Sends messages until the guild is served. Returns the time that took.
    async fn say_until_served(&self, through: usize, guild_id: GuildId, channel_id: ChannelId) -> Duration {
        let started = Instant::now();
        let refused = Mutex::new(None);
        let served = async {
            while let Err(refusal) = self.say(through, guild_id, channel_id, "is anybody there?").await {
                *refused.lock().unwrap() = Some(refusal);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        bounded_or(served, || format!("the last refusal is {:?}", refused.lock().unwrap())).await;
        started.elapsed()
    }
}

/// Waits for a state; the panic shows what there is `instead`.
#[track_caller]
fn until<T: Debug>(mut is_so: impl FnMut() -> bool, instead: impl FnOnce() -> T) -> impl Future<Output = ()> {
    let reached = async move {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    bounded_or(reached, move || format!("{:?}", instead()))
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_reach_the_owner_from_every_node() {
    let site = Site::new(3).await;
    let (guild_id, channel_id) = site.guild_of(2, 0).await;
    let mut ids = Vec::new();
    for n in 0..30 {
        ids.push(site.say(n % 3, guild_id, channel_id, &n.to_string()).await.unwrap());
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "one guild made them: {ids:?}");
    let numbers: Vec<_> = site.nodes.iter().flatten().map(|place| place.membership.owner_of(guild_id)).collect();
    assert_eq!(numbers, [Some(site.place(2).membership.number()); 3]);
    // A refusal of the guild comes back as one.
    let unknown = site.say(1, guild_id, ChannelId::new(7), "hm").await;
    assert_eq!(unknown, Err(Refusal::UnknownChannel));
}

#[tokio::test(flavor = "multi_thread")]
async fn relays_of_every_node_get_the_same_events_in_order() {
    let site = Site::new(3).await;
    let (guild_id, channel_id) = site.guild_of(1, 0).await;
    let mut listeners = site.listen_everywhere(guild_id).await;
    // A session of another node attaches.
    site.attach_owner(0, guild_id, &mut listeners[0]).await;
    let mut sent = Vec::new();
    for n in 0..50 {
        sent.push((site.say(n % 3, guild_id, channel_id, &n.to_string()).await.unwrap(), n.to_string()));
    }
    for listener in &mut listeners {
        for expected in &sent {
            assert_eq!(listener.next_message().await, *expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_is_replaced_and_relays_are_reset() {
    let mut site = Site::with(3, SHORT_LEASE_MS, &NodeLimits::default()).await;
    let (guild_id, channel_id) = site.guild_of(1, 0).await;
    let mut listener = site.listen(0, guild_id);
    listener.snapshot().await;
    let before = site.say(2, guild_id, channel_id, "before").await.unwrap();
    assert_eq!(listener.next_message().await.0, before);
    site.kill(1);
    let outage = site.say_until_served(2, guild_id, channel_id).await;
    println!("served again after {outage:?}");
    assert!(outage < Duration::from_secs(10), "{outage:?}");
    listener.begins_again();
    assert!(listener.snapshot().await, "the relay lost its stream, so its sessions begin again");
    let after = site.say(0, guild_id, channel_id, "after").await.unwrap();
    loop {
        let (id, text) = listener.next_message().await;
        if text == "after" {
            break assert_eq!(id, after);
        }
    }
    assert!(site.store.message(channel_id, before).await.unwrap().is_some(), "the acknowledged message is stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_lease_store_stops_to_serve_in_time_and_comes_back() {
    let site = Site::with(2, SHORT_LEASE_MS, &NodeLimits::default()).await;
    let (guild_id, channel_id) = site.guild_of(1, 0).await;
    let mut listener = site.listen(0, guild_id);
    listener.snapshot().await;
    site.kv.set_away(true);
    let place = site.place(1);
    let started = Instant::now();
    // While the lease lasts, the guild is served: it was renewed in the last third, and a fifth is its margin.
    let sent = site.say(1, guild_id, channel_id, "still here").await;
    assert!(sent.is_ok() || started.elapsed() > Duration::from_millis(SHORT_LEASE_MS / 3), "{sent:?}");
    // This task may run late: only a report during the lease counts as served.
    let mut seen_serving_at = Duration::ZERO;
    let is_over = || {
        let now = started.elapsed();
        let report = place.membership.report();
        if report.is_serving {
            seen_serving_at = now;
        }
        !report.is_serving
    };
    until(is_over, || place.membership.report()).await;
    assert!(
        seen_serving_at < Duration::from_millis(SHORT_LEASE_MS),
        "before others may take over: {seen_serving_at:?}"
    );
    site.kv.set_away(false);
    site.say_until_served(1, guild_id, channel_id).await;
    site.say_until_served(0, guild_id, channel_id).await;
    let entry = site.kv.get(&guildhall_bus::Key::new(&format!("guilds.{guild_id}")).unwrap()).await.unwrap();
    assert!(entry.is_some());
}

#[derive(Debug, Default)]
struct Counts(Mutex<Vec<u64>>);

impl Receipt for Counts {
    fn reached(&self, sessions: u64) {
        self.0.lock().unwrap().push(sessions);
    }
}

impl Counts {
    async fn are(&self, expected: &[u64]) {
        until(|| self.0.lock().unwrap().len() >= expected.len(), || self.0.lock().unwrap().clone()).await;
        let mut counts = self.0.lock().unwrap().clone();
        counts.sort_unstable();
        assert_eq!(counts, expected);
    }
}

fn backend_event(receipt: Arc<dyn Receipt>) -> Arc<BackendEvent> {
    let body = RawValue::from_string("{}".to_owned()).unwrap();
    Arc::new(BackendEvent::new("ROUND_STARTED", &body, Some(receipt)).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn relays_of_every_node_report_how_many_sessions_an_event_reached() {
    let site = Site::new(3).await;
    let (guild_id, _) = site.guild_of(1, 0).await;
    let mut listeners: Vec<Listener> = (0..3).map(|at| site.listen(at, guild_id)).collect();
    for listener in &mut listeners {
        listener.snapshot().await;
    }
    // Published at a node without the guild, at its owner, and at another one.
    for at in 0..3 {
        let (place, counts) = (site.place(at), Arc::new(Counts::default()));
        let open = place.membership.open_receipt(counts.clone());
        let publish = request::Publish(AudienceRule::Members, backend_event(open.receipt()), None);
        let reply = bounded(place.node.begin(guild_id, Actor::System, publish)).await.unwrap();
        assert_eq!(reply, PublishReply::Published { relays: 3 });
        for (n, listener) in listeners.iter_mut().enumerate() {
            let RelayMessage::Published(published) = listener.next().await else { panic!("it is an event") };
            published.event.payload.receipt().expect("every relay has one").reached(10 + n as u64);
        }
        counts.are(&[10, 11, 12]).await;
        drop(open);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_a_second_node_repeats_is_published_once() {
    let site = Site::new(3).await;
    let (guild_id, _) = site.guild_of(1, 0).await;
    let mut listener = site.listen(0, guild_id);
    listener.snapshot().await;
    let counts: Arc<Counts> = Arc::default();
    for (at, id, is_first) in [(0, 1, true), (2, 1, false), (1, 1, false), (2, 2, true)] {
        let (rule, id) = (AudienceRule::Members, Some(PublicationId([7, id])));
        let publish = request::Publish(rule, backend_event(counts.clone()), id);
        let reply = bounded(site.place(at).node.begin(guild_id, Actor::System, publish)).await.unwrap();
        assert_eq!(reply != PublishReply::PublishedBefore, is_first);
    }
    for _ in 0..2 {
        assert!(matches!(listener.next().await, RelayMessage::Published(_)));
    }
    assert!(listener.try_next().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_reports_once_how_many_sessions_of_accounts_an_event_reached() {
    let site = Site::new(3).await;
    let (place, counts) = (site.place(0), Arc::new(Counts::default()));
    let open = place.membership.open_receipt(counts.clone());
    let to = [OWNER, UserId::new(7), UserId::new(8)];
    let event = Event::of_backend_to_users(to.into(), backend_event(open.receipt()));
    let published = Arc::new(Published { event, replica_update: ReplicaUpdate::None });
    assert_eq!(place.membership.send_to_all(&PeerMessage::Users(published)), 2);
    counts.are(&[3 * PARTITIONS as u64; 2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_message_is_the_same_at_the_next_owner() {
    let mut site = Site::with(3, SHORT_LEASE_MS, &NodeLimits::default()).await;
    let (guild_id, channel_id) = site.guild_of(1, 0).await;
    let say = |nonce: &str| {
        let nonce = Some(Nonce::Text(nonce.to_owned()));
        let new = NewMessage { content: "once".to_owned(), nonce, enforce_nonce: true, ..NewMessage::default() };
        Command::CreateMessage(channel_id, Box::new(new))
    };
    let id_of = |reply: Result<Reply, Refusal>| match reply.unwrap() {
        Reply::Message(reply) => (reply.message.id, reply.message.nonce.clone()),
        other => panic!("{other:?}"),
    };
    let first = id_of(bounded(site.place(0).node.command(guild_id, Actor::User(OWNER), say("n"))).await);
    site.kill(1);
    site.say_until_served(2, guild_id, channel_id).await;
    let again = id_of(bounded(site.place(2).node.command(guild_id, Actor::User(OWNER), say("n"))).await);
    assert_eq!(again, first);
    let other = id_of(bounded(site.place(2).node.command(guild_id, Actor::User(OWNER), say("m"))).await);
    assert_ne!(other.0, first.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unused_guild_has_no_owner_until_its_next_use() {
    let limits = NodeLimits { guild_idle_ms: 100, ..NodeLimits::default() };
    let site = Site::with(2, LEASE_MS, &limits).await;
    let (guild_id, channel_id) = site.guild_of(1, 0).await;
    let mut listener = site.listen(0, guild_id);
    listener.snapshot().await;
    // Not earlier: a guild that is given up while a relay subscribes sends a second snapshot.
    site.nodes.iter().flatten().for_each(|place| place.membership.set_owner_idle(100));
    let key = guildhall_bus::Key::new(&format!("guilds.{guild_id}")).unwrap();
    let has_record = async || site.kv.get(&key).await.unwrap().is_some();
    for n in 0..3 {
        let sent = site.say(n % 2, guild_id, channel_id, "hello").await.unwrap();
        assert_eq!(listener.next_message().await.0, sent);
        // With a relay it is in use, however quiet it is.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(has_record().await && listener.try_next().is_none());
        site.place(0).node.try_send_to_guild(guild_id, listener.unsubscribe()).unwrap();
        bounded(async {
            while has_record().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let owners =
            || site.nodes.iter().flatten().map(|place| place.membership.owner_of(guild_id)).collect::<Vec<_>>();
        until(|| owners().iter().all(Option::is_none), owners).await;
        listener.skip_everything();
        listener.begins_again();
        listener.epoch += 1;
        site.place(0).node.try_send_to_guild(guild_id, listener.subscribe()).unwrap();
        listener.snapshot().await;
        assert!(has_record().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn v1_v2_a_node_without_a_lease_takes_nothing_and_ends_what_was_revoked() {
    let site = Site::with(2, SHORT_LEASE_MS, &NodeLimits::default()).await;
    let (here, away) = (&site.place(0).node, &site.place(1).node);
    let bob = UserId::new(OWNER.get() + 1);
    for user_id in [OWNER, bob] {
        bounded(here.put_user(user(user_id))).await.unwrap();
    }
    let mut tokens = Vec::new();
    for user_id in [OWNER, OWNER, bob] {
        tokens.push(bounded(here.mint_user_token(user_id, 3_600)).await.unwrap());
    }
    let (_, key) = bounded(here.create_key("one", &[Scope::Write])).await.unwrap();
    let (key_id, life) = {
        let (key, life) = bounded(away.check_key(&key)).await.unwrap().expect("it is good");
        (key.id.unwrap(), life)
    };
    let first = bounded(away.authenticate(&tokens[0])).await.unwrap();
    for token in &tokens[1..] {
        bounded(away.authenticate(token)).await.unwrap();
    }

    site.place(1).is_cut.store(true, Ordering::SeqCst);
    until(|| !away.has_lease(), || ()).await;
    assert!(matches!(bounded(away.authenticate(&tokens[1])).await, Err(AuthError::NoLease)));
    assert!(matches!(bounded(away.inspect_token(&tokens[1])).await, Err(AuthError::NoLease)));
    until(|| life.is_over(), || "a stream of a key goes on").await;
    until(|| site.place(0).membership.members().len() == 1, || "the node is still a member").await;
    assert!(bounded(here.revoke_token(&*tokens[0])).await.unwrap().is_some());
    bounded(here.revoke_user_tokens(bob)).await.unwrap();
    assert!(bounded(here.revoke_key(key_id)).await.unwrap());
    let newer = bounded(here.mint_user_token(bob, 3_600)).await.unwrap();
    assert_eq!(site.place(1).relays.closed(), []);

    site.place(1).is_cut.store(false, Ordering::SeqCst);
    until(|| away.has_lease(), || ()).await;
    let mut closed = site.place(1).relays.closed();
    closed.sort_by_key(|(whose, _)| matches!(whose, Whose::User(_)));
    let expected = [Whose::Token(OWNER, first.token), Whose::User(bob)];
    assert_eq!(closed, expected.map(|whose| (whose, CloseCode::AuthenticationFailed)), "before it takes part again");
    assert!(bounded(away.authenticate(&tokens[0])).await.is_err());
    assert!(bounded(away.authenticate(&tokens[1])).await.is_ok());
    assert!(bounded(away.authenticate(&tokens[2])).await.is_err());
    assert!(bounded(away.authenticate(&newer)).await.is_ok());
    assert!(bounded(away.check_key(&key)).await.unwrap().is_none());

    // The next time there is nothing new, and sessions of later tokens stay.
    site.place(1).is_cut.store(true, Ordering::SeqCst);
    until(|| !away.has_lease(), || ()).await;
    site.place(1).is_cut.store(false, Ordering::SeqCst);
    until(|| away.has_lease(), || ()).await;
    assert_eq!(site.place(1).relays.closed().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn v1_every_node_ends_the_sessions_before_a_revocation_returns() {
    let site = Site::new(2).await;
    let (here, there) = (&site.place(0).node, &site.place(1).node);
    bounded(here.put_user(user(OWNER))).await.unwrap();
    let bot = UserId::new(OWNER.get() + 1);
    bounded(here.put_user(Arc::new(User { bot: true, ..User::new(bot, "bot") }))).await.unwrap();
    let token = bounded(here.mint_bot_token(bot)).await.unwrap();
    let account = bounded(there.authenticate(&token)).await.unwrap();

    let closed = |index: usize| site.place(index).relays.closed();
    let revoked = bounded(here.revoke_token(&*token)).await.unwrap().unwrap();
    assert_eq!(revoked.closed, 2, "one at each node");
    let first = (Whose::Token(bot, account.token), CloseCode::AuthenticationFailed);
    assert_eq!([closed(0), closed(1)], [[first.clone()], [first.clone()]]);
    // Repeated, because its first answer may not have arrived: it is carried out again.
    assert_eq!(bounded(here.revoke_token(&*token)).await.unwrap(), None);
    assert_eq!([closed(0).len(), closed(1).len()], [2, 2]);

    let revoked = bounded(here.revoke_user_tokens(OWNER)).await.unwrap();
    assert_eq!((revoked.count, revoked.closed), (0, 2));
    let all = (Whose::User(OWNER), CloseCode::AuthenticationFailed);
    assert_eq!([closed(0), closed(1)], [[first.clone(), first.clone(), all.clone()], [first.clone(), first, all]]);
}

/// A revocation that failed halfway has left the store without the token, and other nodes with it.
#[tokio::test(flavor = "multi_thread")]
async fn v1_a_revocation_that_is_repeated_reaches_the_other_nodes() {
    let site = Site::new(2).await;
    let (here, there) = (&site.place(0).node, &site.place(1).node);
    let bot = UserId::new(OWNER.get() + 1);
    bounded(here.put_user(Arc::new(User { bot: true, ..User::new(bot, "bot") }))).await.unwrap();
    for by_hash in [false, true] {
        let token = bounded(here.mint_bot_token(bot)).await.unwrap();
        bounded(there.authenticate(&token)).await.unwrap();
        assert!(bounded(site.store.revoke_token(TokenHash::of(&token))).await.unwrap());
        assert!(bounded(there.authenticate(&token)).await.is_ok(), "it is in the cache");
        if by_hash {
            bounded(here.forget_token(TokenHash::of(&token), bot)).await.unwrap();
        } else {
            assert_eq!(bounded(here.revoke_token(&*token)).await.unwrap(), None);
        }
        assert!(bounded(there.authenticate(&token)).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn v3_a_node_reads_missed_revocations_after_its_start() {
    let mut site = Site::new(1).await;
    bounded(site.place(0).node.put_user(user(OWNER))).await.unwrap();
    let token = bounded(site.place(0).node.mint_user_token(OWNER, 3_600)).await.unwrap();
    // The first node does not see yet that there is another one.
    site.place(0).is_lagging.send_replace(true);
    let at = site.add(LEASE_MS, NodeLimits::default()).await;
    let started = &site.place(at).node;
    let account = bounded(started.authenticate(&token)).await.unwrap();
    bounded(site.place(0).node.revoke_token(&*token)).await.unwrap();
    assert_eq!(site.place(0).membership.members().len(), 1, "the first node sends the revocation to no other");
    let closed = || site.place(at).relays.closed();
    let token_of = (Whose::Token(OWNER, account.token), CloseCode::AuthenticationFailed);
    until(|| closed().contains(&token_of), closed).await;
    assert!(bounded(started.authenticate(&token)).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn v3_a_node_revokes_nothing_before_it_knows_the_others() {
    let mut site = Site::new(1).await;
    bounded(site.place(0).node.put_user(user(OWNER))).await.unwrap();
    let token = bounded(site.place(0).node.mint_user_token(OWNER, 3_600)).await.unwrap();
    bounded(site.place(0).node.authenticate(&token)).await.unwrap();
    let at = site.add_lagging(LEASE_MS, NodeLimits::default(), true).await;
    let (node, text) = (site.place(at).node.clone(), token.clone());
    let revoking = tokio::spawn(async move { node.revoke_token(&*text).await });
    let log = || async { site.store.records("revocation", &[], 10).await.unwrap().len() };
    bounded(async {
        while log().await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    site.place(at).is_lagging.send_replace(false);
    assert!(bounded(revoking).await.unwrap().unwrap().is_some());
    assert!(bounded(site.place(0).node.authenticate(&token)).await.is_err());
}

/// A client of the bus that is no node: it sends what a node received before, and what it made itself.
#[tokio::test(flavor = "multi_thread")]
async fn d3_what_no_node_has_sealed_has_no_effect() {
    let site = Site::new(2).await;
    let number = site.place(0).membership.number();
    let incarnation = site.place(1).membership.executor().incarnation;
    let of = |kind: &str| Subject::new(&format!("{kind}.{number}")).unwrap();
    let mut questions = site.bus.subscribe(&of("ask")).await.unwrap();
    let before = site.place(0).membership.strangers_total();
    // First halves, as those of a member.
    let mut outgoing = Outgoing::new(SenderId(incarnation.0), StreamId(9 << 8));
    for frame in outgoing.frames(1, &[0; 1_000], 600).unwrap() {
        site.bus.publish(&of("node"), frame).await.unwrap();
    }
    let answer = site.bus.request(&of("ask"), Bytes::from_static(b"nothing"), Duration::from_millis(200)).await;
    assert!(answer.is_err(), "{answer:?}");
    until(|| site.place(0).membership.strangers_total() >= before + 3, || "it counts them").await;
    // A question that was sealed is answered once.
    bounded(site.place(0).node.put_user(user(OWNER))).await.unwrap();
    let token = bounded(site.place(1).node.mint_user_token(OWNER, 60)).await.unwrap();
    bounded(site.place(1).node.revoke_token(&*token)).await.unwrap();
    let sealed = async {
        loop {
            let delivery = questions.next().await.unwrap();
            if delivery.payload != Bytes::from_static(b"nothing") {
                return delivery.payload;
            }
        }
    };
    let sealed = bounded(sealed).await;
    let revocations = site.place(0).node.revocations();
    let again = bounded(site.bus.request(&of("ask"), sealed.clone(), Duration::from_secs(5))).await.unwrap();
    assert!(again.len() < sealed.len(), "an empty answer");
    assert_eq!(site.place(0).node.revocations(), revocations, "it was not carried out again");
    // In the context of another subject it is nothing.
    let other = Subject::new(&format!("ask.{}", site.place(1).membership.number())).unwrap();
    assert!(site.bus.request(&other, sealed, Duration::from_millis(200)).await.is_err());
}
