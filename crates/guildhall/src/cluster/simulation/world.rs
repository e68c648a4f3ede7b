//! World: one run of a seed, with one client, a guild and a direct message.
//!
//! Limits      `KILLS_MAX` nodes are killed before the end, at most one while another node is away. One node is away
//!             for longer than its lease at a time (docs/cluster.md names the promises that end otherwise). News reach
//!             each node within `NEWS_MS`, or when it goes on after a pause: less than five seconds late.

mod cases;

use super::{
    super::{claims::OnTheWay, mirrors::SessionMirrors, moves::SessionMoves},
    site::{LEASE_MS, LeaseChange, PlantedFault, SimPort, Site},
};
use guildhall_guild::{Actor, Command, NewDirect, NewMessage};
use guildhall_guild_protocol::{PartitionId, RelayId};
use guildhall_model::{ChannelType, User};
use guildhall_net::{SessionClaim, TransferEnd};
use guildhall_partition::Fetched;
use guildhall_stdx::Rng;
use guildhall_test_kit::{
    ClientId, ClientParams, GuildBuilder, Hold, Received, TestCluster, TestClusterConfig, id, identify_payload, user,
};
use std::{sync::Arc, time::Duration};
use tokio::runtime::Runtime;

const NODES: usize = 4;
const KILLS_MAX: usize = 1;
const GUILD: u64 = 1;
const GENERAL: u64 = 10;
const DIRECT: u64 = 90;
const STEPS: usize = 100;
const MIRROR_MS: u64 = 500;
const NEWS_MS: u64 = 800;
/// Polls of all tasks after each event: more than a task needs to get from one call of its port to the next.
const POLLS: usize = 12;

/// What happened in runs.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Runs in which the client has resumed to the end.
    pub resumed: u64,
    pub kills: u64,
    pub lapses: u64,
    /// Sessions that came to a node by a mirror, and otherwise.
    pub by_mirror: u64,
    pub moved: u64,
    pub dispatches: u64,
}

impl Summary {
    pub fn add(&mut self, other: &Self) {
        self.resumed += other.resumed;
        self.kills += other.kills;
        self.lapses += other.lapses;
        self.by_mirror += other.by_mirror;
        self.moved += other.moved;
        self.dispatches += other.dispatches;
    }
}

/// The client identifies again.
struct Identifies;

struct World<'a> {
    runtime: &'a Runtime,
    site: Site,
    cluster: TestCluster,
    mirrors: Vec<Arc<SessionMirrors<SimPort>>>,
    moves: Vec<Arc<SessionMoves<SimPort>>>,
    rng: Rng,
    client: ClientId,
    /// The node of its connection.
    node: usize,
    is_resumed: bool,
    is_closed: bool,
    last_seq: u64,
    said: u64,
    last_said: u64,
    has_new_guild: bool,
    directs: u64,
    received_directs: Vec<u64>,
    /// The last node that was away for longer than its lease, until it is settled.
    away: Option<usize>,
    kills_while_away: usize,
    summary: Summary,
    trace: Vec<String>,
    is_verbose: bool,
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        self.site.clear();
        if self.is_verbose {
            println!("{}", self.trace.join("\n"));
        }
    }
}

fn ana() -> Arc<User> {
    user(701)
}

fn bob() -> Arc<User> {
    user(702)
}

fn new_runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers")
}

/// Runs a seed with this fault; `is_verbose` prints its trace.
///
/// # Panics
/// When a promise is broken.
pub fn run(seed: u64, fault: PlantedFault, is_verbose: bool) -> Summary {
    let runtime = new_runtime();
    let _entered = runtime.enter();
    let mut world = World::new(&runtime, (seed, fault), is_verbose);
    let ended = (0..STEPS).try_for_each(|_| world.step()).and_then(|()| world.finish());
    world.summary.resumed = u64::from(ended.is_ok());
    for node in &world.site.lock().nodes {
        world.summary.by_mirror += node.mirrors.resumed;
        world.summary.moved += node.moved.here;
    }
    world.summary.clone()
}

impl<'a> World<'a> {
    fn new(runtime: &'a Runtime, (seed, fault): (u64, PlantedFault), is_verbose: bool) -> Self {
        let mut config =
            TestClusterConfig { partitions_count: NODES as u16, are_nodes: true, ..TestClusterConfig::default() };
        config.partition.mirrors_sessions = true;
        let mut cluster = TestCluster::new(config);
        [ana(), bob()].iter().for_each(|account| cluster.add_account(account));
        let guild = GuildBuilder::new(GUILD, &ana()).channel(GENERAL, ChannelType::Text).member(&bob(), &[]);
        cluster.add_guild(guild.load());
        cluster.add_direct(NewDirect { id: id(DIRECT), recipients: vec![ana(), bob()], is_group: false });
        let client = cluster.connect(ClientParams::JSON);
        cluster.client(client).identify(identify_payload(&bob().username, None));
        cluster.run_until_idle();
        cluster.take(client);
        cluster.hold_news(true);
        cluster.hold(Hold::Fetches);
        cluster.hold(Hold::Rests);
        let site = Site::new(seed, NODES, (cluster.clock.now(), fault), vec![id(GUILD)]);
        let mirrors: Vec<_> =
            (0..NODES).map(|node| SessionMirrors::start(site.port(node), Duration::from_millis(MIRROR_MS))).collect();
        let moves = mirrors.iter().enumerate();
        let moves = moves
            .map(|(node, mirrors)| SessionMoves::start(site.port(node), mirrors.clone(), OnTheWay::default()))
            .collect();
        let last_seq = cluster.client(client).seq;
        Self {
            runtime,
            site,
            cluster,
            mirrors,
            moves,
            rng: Rng::new(seed),
            client,
            node: 0,
            is_resumed: true,
            is_closed: false,
            last_seq,
            said: 0,
            last_said: 0,
            has_new_guild: false,
            directs: 0,
            received_directs: Vec::new(),
            away: None,
            kills_while_away: 0,
            summary: Summary::default(),
            trace: Vec::new(),
            is_verbose,
        }
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if self.is_verbose {
            let at = self.site.lock().now.instant.0;
            self.trace.push(format!("{at} {}", line()));
        }
    }

    // ── time ─────────────────────────────────────────────────────────────────────────────────────

    /// Time passes, and what happens in it.
    fn pass(&mut self, ms: u64) {
        let until = self.site.lock().now.instant.0 + ms;
        loop {
            self.runtime.block_on(async {
                for _ in 0..POLLS {
                    tokio::task::yield_now().await;
                }
            });
            let Some((at, run)) = self.site.next(until) else { break };
            self.advance_to(at);
            run(&mut self.cluster);
            self.cluster.run_until_idle();
            self.take_requests();
            self.check_one_owner();
        }
        self.advance_to(until);
        self.take_requests();
    }

    fn advance_to(&mut self, at: u64) {
        let ms = at.saturating_sub(self.cluster.clock.now().instant.0);
        for node in 0..NODES {
            let is_awake = self.cluster.clock.now().instant.0 + ms >= self.site.lock().nodes[node].paused_until;
            if is_awake {
                self.cluster.unpause(node);
            }
        }
        if ms > 0 {
            self.cluster.advance(ms);
            self.site.lock().now = self.cluster.clock.now();
        }
        self.site.expire();
        self.apply_changes();
    }

    /// Guilds notice which nodes are gone and back.
    fn apply_changes(&mut self) {
        let changes = std::mem::take(&mut self.site.lock().changes);
        for change in changes {
            self.note(|| format!("{change:?}"));
            let (LeaseChange::Gone(node) | LeaseChange::Back(node)) = change;
            if self.site.lock().nodes[node].is_killed {
                self.cluster.unsubscribe_killed();
                continue;
            }
            let relay = RelayId::first(PartitionId::of_node(node as u8, 0));
            self.cluster.overflow(relay, id(GUILD));
            if let LeaseChange::Back(_) = change {
                self.summary.lapses += 1;
                self.cluster.room(relay, id(GUILD));
            }
            self.cluster.run_until_idle();
        }
    }

    /// Gives the nodes' requests to their drivers.
    fn take_requests(&mut self) {
        for (node, claim, user) in self.cluster.take_fetches() {
            self.note(|| format!("node {node} fetches, after {}", claim.seq));
            self.fetch(node, claim, user);
        }
        for (node, end, user) in self.cluster.take_rests() {
            self.note(|| format!("node {node} fetches the rest"));
            self.fetch_rest(node, end, user);
        }
    }

    fn fetch(&self, node: usize, claim: SessionClaim, user: Arc<User>) {
        let (moves, site) = (self.moves[node].clone(), self.site.clone());
        tokio::spawn(async move {
            let session_id = claim.session_id.as_str().into();
            let result = moves.fetch(claim).await;
            let fetched = Fetched { session_id, user, is_rest: false, result };
            site.soon(0, node, move |cluster| cluster.deliver_fetched(node, fetched));
        });
    }

    fn fetch_rest(&self, node: usize, end: TransferEnd, user: Arc<User>) {
        let (moves, site) = (self.moves[node].clone(), self.site.clone());
        tokio::spawn(async move {
            let session_id = end.session_id.as_str().into();
            let result = moves.fetch_rest(end).await;
            let fetched = Fetched { session_id, user, is_rest: true, result };
            site.soon(0, node, move |cluster| cluster.deliver_fetched(node, fetched));
        });
    }

    // ── what is ──────────────────────────────────────────────────────────────────────────────────

    fn is_serving(&self, node: usize) -> bool {
        let state = self.site.lock();
        let (is_awake, has_lease) = (state.is_awake(node), state.has_lease(node));
        drop(state);
        is_awake && has_lease && self.mirrors[node].is_settled()
    }

    fn serving(&self) -> Vec<usize> {
        (0..NODES).filter(|node| self.is_serving(*node)).collect()
    }

    fn is_killed(&self, node: usize) -> bool {
        self.site.lock().nodes[node].is_killed
    }

    /// Whether the node has the session, and it is on no way.
    fn has_session(&self, node: usize) -> bool {
        let partition = self.cluster.partition_at(node);
        !self.is_killed(node) && partition.sessions().any(|session| !partition.is_moving_session(&session.id))
    }

    fn check_one_owner(&self) {
        let owners: Vec<usize> = (0..NODES).filter(|node| self.has_session(*node) && self.is_serving(*node)).collect();
        assert!(owners.len() <= 1, "nodes {owners:?} have the session");
    }

    // ── what happens ─────────────────────────────────────────────────────────────────────────────

    fn step(&mut self) -> Result<(), Identifies> {
        if let Some(away) = self.away
            && self.is_serving(away)
        {
            (self.away, self.kills_while_away) = (None, 0);
        }
        match self.rng.below(24) {
            0..=3 => self.say_direct(),
            4..=7 => self.say_in_guild(),
            8 if self.is_resumed => self.cluster.client(self.client).heartbeat(),
            9 if self.is_resumed => self.cluster.stop_reading(self.client),
            10 => self.cluster.start_reading(self.client),
            11..=13 if self.is_resumed || self.is_closed || self.rng.chance(0.2) => self.resume()?,
            14 | 15 => self.pause(),
            16 | 17 => self.kill(KILLS_MAX),
            18 => {
                let loss = *self.rng.pick(&[0.0, 0.0, 0.05, 0.2]).expect("there are some");
                self.site.lock().loss = loss;
            }
            _ => {}
        }
        self.cluster.run_until_idle();
        let ms = self.rng.below(500);
        self.pass(ms);
        self.read()
    }

    fn say(&mut self, (guild, channel): (u64, u64), content: String) {
        self.note(|| format!("say {content}"));
        let new = NewMessage { content, ..NewMessage::default() };
        let create = Command::CreateMessage(id(channel), Box::new(new));
        self.cluster.command_in(id(guild), Actor::User(ana().id), create).expect("she is in it");
        self.cluster.run_until_idle();
    }

    fn say_in_guild(&mut self) {
        self.said += 1;
        self.say((GUILD, GENERAL), format!("guild {}", self.said));
    }

    /// Each node gets the direct message in its own time.
    fn say_direct(&mut self) {
        self.directs += 1;
        self.say((DIRECT, DIRECT), format!("direct {}", self.directs));
        for node in 0..NODES {
            self.site.soon(NEWS_MS, node, move |cluster| cluster.deliver_news(node, 1));
        }
    }

    fn pause(&mut self) {
        let Some(node) = self.rng.pick(&self.serving()).copied() else { return };
        // Some node has to answer, and two are away at most for a moment.
        let is_long = self.away.is_none() && self.serving().len() > 2 && self.rng.chance(0.5);
        let ms = if is_long { LEASE_MS + self.rng.below(1_000) } else { 1 + self.rng.below(1_200) };
        self.note(|| format!("pause {node} for {ms}"));
        if is_long {
            self.away = Some(node);
        }
        self.pause_for(node, ms);
    }

    fn pause_for(&mut self, node: usize, ms: u64) {
        self.cluster.pause(node);
        let mut state = self.site.lock();
        state.nodes[node].paused_until = state.now.instant.0 + ms;
    }

    /// Kills a node, the one with the session most of the time.
    fn kill(&mut self, kills_max: usize) {
        let serving = self.serving();
        let is_too_much = self.away.is_some() && self.kills_while_away > 0;
        if self.summary.kills >= kills_max as u64 || is_too_much || serving.len() < 2 {
            return;
        }
        let owner = serving.iter().copied().find(|node| self.has_session(*node));
        let node = match owner.filter(|_| self.rng.chance(0.8)) {
            Some(owner) => owner,
            None => *self.rng.pick(&serving).expect("two at least"),
        };
        if self.away.is_some() {
            self.kills_while_away += 1;
        }
        self.summary.kills += 1;
        // A direct message of the killed node that it has sent to no other: the client has to identify again.
        if owner == Some(node) && self.rng.chance(0.3) {
            self.directs += 1;
            self.say((DIRECT, DIRECT), format!("direct {}", self.directs));
            (0..NODES).for_each(|other| self.cluster.drop_news(other));
        }
        self.end_process(node);
    }

    fn end_process(&mut self, node: usize) {
        self.note(|| format!("kill {node}"));
        self.cluster.kill(node);
        self.site.lock().nodes[node].is_killed = true;
        self.cluster.run_until_idle();
        if self.node == node {
            // The last bytes to its client are lost.
            (self.is_resumed, self.is_closed) = (false, true);
        }
    }

    /// The client resumes at a node, with its connection before or without.
    fn resume(&mut self) -> Result<(), Identifies> {
        self.read()?;
        let Some(node) = self.rng.pick(&self.serving()).copied() else { return Ok(()) };
        if self.rng.chance(0.7) {
            self.cluster.cut(self.client);
            self.read()?;
        }
        self.resume_at(node);
        Ok(())
    }

    fn resume_at(&mut self, node: usize) {
        let seq = self.last_seq;
        self.note(|| format!("resume at {node} after {seq}"));
        let params = self.cluster.client(self.client).params();
        (self.client, self.node) = (self.cluster.reconnect_to(node, self.client, params), node);
        (self.is_resumed, self.is_closed) = (false, false);
        self.cluster.client(self.client).resume(&bob().username);
        self.cluster.run_until_idle();
    }

    /// Checks what the client has received.
    fn read(&mut self) -> Result<(), Identifies> {
        for received in self.cluster.take(self.client) {
            let dispatch = match received {
                Received::Dispatch(dispatch) => dispatch,
                Received::InvalidSession(_) => {
                    self.note(|| "op 9".to_owned());
                    return Err(Identifies);
                }
                Received::Hello { .. } | Received::HeartbeatAck => continue,
                Received::Close(..) | Received::End => {
                    (self.is_resumed, self.is_closed) = (false, true);
                    continue;
                }
                other => panic!("{other:?}"),
            };
            assert!(dispatch.seq > self.last_seq, "{} after {}", dispatch.seq, self.last_seq);
            self.last_seq = dispatch.seq;
            self.summary.dispatches += 1;
            self.note(|| format!("  received {} {}", dispatch.seq, dispatch.name));
            match &*dispatch.name {
                "RESUMED" => self.is_resumed = true,
                "GUILD_CREATE" => self.has_new_guild = true,
                "MESSAGE_CREATE" => self.receive(dispatch.d()["content"].as_str().expect("a text")),
                _ => {}
            }
        }
        if self.is_killed(self.node) {
            (self.is_resumed, self.is_closed) = (false, true);
        }
        Ok(())
    }

    fn receive(&mut self, content: &str) {
        self.note(|| format!("  {content}"));
        let (kind, number) = content.split_once(' ').expect("a kind and a number");
        let number: u64 = number.parse().expect("a number");
        if kind == "direct" {
            assert!(!self.received_directs.contains(&number), "direct message {number} arrives twice");
            return self.received_directs.push(number);
        }
        assert!(number > self.last_said, "message {number} after {}", self.last_said);
        let is_next = number == self.last_said + 1;
        assert!(is_next || self.has_new_guild, "message {number} after {}", self.last_said);
        (self.last_said, self.has_new_guild) = (number, false);
    }

    // ── the end ──────────────────────────────────────────────────────────────────────────────────

    /// Everything arrives; then the node with the session is killed.
    fn finish(&mut self) -> Result<(), Identifies> {
        self.site.lock().loss = 0.0;
        self.cluster.start_reading(self.client);
        // Pauses end, nodes join again, and fetches come to their end.
        self.pass(20_000);
        self.read()?;
        self.resume_to_the_end()?;
        self.check_all("at rest")?;
        let owner = (0..NODES).find(|node| self.has_session(*node));
        if self.serving().len() < 2 {
            return Ok(());
        }
        self.cluster.client(self.client).heartbeat();
        self.pass(6 * MIRROR_MS);
        self.read()?;
        let owner = owner.expect("the client has resumed it");
        self.end_process(owner);
        let ms = self.rng.below(6_000);
        self.pass(ms);
        let is_resumed = self.resume_to_the_end().and_then(|()| self.check_all("after the last crash"));
        assert!(is_resumed.is_ok(), "op 9, although the mirror had time");
        Ok(())
    }

    fn resume_to_the_end(&mut self) -> Result<(), Identifies> {
        for _ in 0..8 {
            if self.is_resumed && !self.cluster.client(self.client).has_ended() {
                return Ok(());
            }
            self.resume()?;
            self.pass(16_000);
            self.read()?;
        }
        panic!("RESUMEs without an answer");
    }

    fn check_all(&mut self, when: &str) -> Result<(), Identifies> {
        for _ in 0..3 {
            self.say_in_guild();
            self.say_direct();
            self.pass(2 * NEWS_MS);
            self.read()?;
        }
        assert_eq!(self.last_said, self.said, "messages of the guild {when}");
        self.received_directs.sort_unstable();
        assert_eq!(self.received_directs, (1..=self.directs).collect::<Vec<_>>(), "direct messages {when}");
        Ok(())
    }
}
