//! Test cluster: partitions, guilds and clients on one thread; the test controls everything in between.
//!
//! Owns        the turn: passes bytes, guild messages, outputs and answers around until nothing moves
//!             (`run_until_idle`).
//! Doors       `login` and `connect` for clients; `command` and `publish` for events; `advance` for time.
//! Invariants  each turn does the work of `guildhall-net` and `guildhall-node`, with every commit done at once.
//! Limits      `TURNS_MAX` turns in `run_until_idle`: machines that never become idle are a bug and are reported as
//!             one.

mod driven;
mod mirrors;
mod transfers;

pub use mirrors::{MirrorMail, MoveFault};

use crate::{
    client::{ClientParams, TestClient, identify_payload},
    clock::FakeClock,
    gate::ScriptedGate,
    received::{Dispatch, Received},
    socket::{FakeLink, FakeSocket, ServerEnd, Transfer},
};
use guildhall_codec::Dictionary;
use guildhall_guild::{
    Actor, Command, DirectCommand, Guild, GuildLimits, JobId, NewDirect, Outcome, Output as GuildOutput, Refusal,
    Reply, Write,
};
use guildhall_guild_protocol::{
    Event, PartitionId, Published, RelayId, RelayStreams, ReplicaUpdate, ToGuild, ToRelay, Whose,
};
use guildhall_model::{ChannelId, CloseCode, Direct, GuildId, Message, MessageId, User, UserId};
use guildhall_partition::{
    Account, AuthFailure, AuthPurpose, Compression, ConnParams, ConnSnapshot, Delivery, Fetched, HandOver, Leaving,
    MovingConn, Output, OwnData, Partition, PartitionConfig, Pause, RecentLoss, ResumeFault, SessionClaim,
};
use guildhall_stdx::{SlotKey, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

const TURNS_MAX: usize = 10_000;
/// Maximum number of turns of a command that runs in steps.
const LATE_TURNS_MAX: usize = 10_000;

/// Milliseconds that a client has to leave after a RECONNECT.
pub const GRACE_MS: u64 = 1_500;

/// Traffic that a test can hold back: from `hold` until `release`, or until the test delivers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// Token checks; `answer_tokens` answers those that are held.
    TokenChecks,
    /// Messages from guilds to partitions; `deliver_mail` delivers some.
    Mail,
    /// Messages from partitions to guilds; `deliver_to_guilds` delivers some.
    ToGuilds,
    /// Reads of direct messages; `answer_directs` answers those that are held.
    Directs,
    /// Connections that move between partitions.
    Moves,
    /// Requests for sessions of other nodes; `answer_fetches` answers those that are held.
    Fetches,
    /// Requests for the rest of sessions that guilds have transferred; `answer_rests` answers those that are held.
    Rests,
}

/// A service of the node that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outage {
    /// Token checks fail as unavailable.
    Auth,
    /// Reads of direct messages fail.
    Directs,
}

/// A client of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId(usize);

/// Configuration of a `TestCluster`.
#[derive(Clone, Debug)]
pub struct TestClusterConfig {
    /// Number of partitions.
    pub partitions_count: u16,
    /// Each partition is a node of its own.
    pub are_nodes: bool,
    /// Guilds transfer sessions between nodes; otherwise the nodes are those of an earlier release.
    pub transfers: bool,
    /// Configuration of every partition; its number and secret are filled in.
    pub partition: PartitionConfig,
    /// Sockets queue sends, as with io_uring.
    pub batches: bool,
}

impl Default for TestClusterConfig {
    fn default() -> Self {
        Self {
            partitions_count: 1,
            are_nodes: false,
            transfers: true,
            partition: PartitionConfig::new(PartitionId(0), "wss://gw.example.net".into(), [7; 32]),
            batches: false,
        }
    }
}

enum PartitionCommand {
    Authenticated(SlotKey, Result<Account, AuthFailure>),
    Joined(UserId, GuildId),
    Moved(FakeSocket, Box<MovingConn>),
    PublishToUsers(Arc<Published>, Vec<UserId>),
    Fetched(Fetched),
}

struct TestPartition {
    partition: Partition,
    link: FakeLink,
    mail: VecDeque<ToRelay>,
    commands: VecDeque<PartitionCommand>,
    /// Events for accounts that are held back.
    news: VecDeque<PartitionCommand>,
}

impl TestPartition {
    fn new(index: u16, config: &TestClusterConfig, gate: &Arc<ScriptedGate>) -> Self {
        let (partition, partitions_count) = match config.are_nodes {
            true => (PartitionId::of_node(index as u8, 0), 1),
            false => (PartitionId(index), config.partitions_count),
        };
        let of_partition = PartitionConfig {
            partition,
            partitions_count,
            fetches_sessions: config.are_nodes,
            ..config.partition.clone()
        };
        Self {
            partition: Partition::new(of_partition, gate.clone()),
            link: if config.batches { FakeLink::batching() } else { FakeLink::default() },
            mail: VecDeque::new(),
            commands: VecDeque::new(),
            news: VecDeque::new(),
        }
    }
}

struct Slot {
    client: TestClient,
    inbox: Vec<Received>,
    is_reading: bool,
}

/// A token check that waits for its answer.
#[derive(Debug)]
struct TokenCheck {
    index: usize,
    conn: SlotKey,
    token: String,
    purpose: AuthPurpose,
}

/// Partitions, guilds and clients on one thread.
pub struct TestCluster {
    /// Clock of all machines and clients.
    pub clock: FakeClock,
    /// Decides which IDENTIFYs are admitted.
    pub gate: Arc<ScriptedGate>,
    /// Messages from partitions to guilds, in order; tests may clear it.
    pub to_guilds: Vec<(GuildId, ToGuild)>,
    /// Refused RESUMEs, oldest first.
    pub refused_resumes: Vec<ResumeFault>,
    /// Accounts whose sessions want the present presences of these friends, oldest first.
    pub wanted_friends: Vec<(UserId, Vec<UserId>)>,
    /// Number of the token of the next check.
    pub token: u64,
    /// Expiry of the token.
    pub token_expires_at: Option<Timestamp>,
    /// Maximum number of bytes per read of a partition.
    pub read_bytes_max: usize,
    /// Traffic that waits for the test.
    held: BTreeSet<Hold>,
    outages: BTreeSet<Outage>,
    partitions: Vec<TestPartition>,
    config: TestClusterConfig,
    guilds: BTreeMap<GuildId, Guild>,
    streams: BTreeMap<GuildId, RelayStreams>,
    accounts: BTreeMap<String, Arc<User>>,
    named_guilds: BTreeMap<UserId, Vec<GuildId>>,
    held_to_guilds: VecDeque<(GuildId, ToGuild)>,
    /// Answers of commands that ran in steps.
    late_answers: BTreeMap<(GuildId, JobId), Result<Reply, Refusal>>,
    /// Messages as the store would have them.
    messages: BTreeMap<(ChannelId, MessageId), Arc<Message>>,
    token_checks: VecDeque<TokenCheck>,
    /// Token checks with a held answer: their account was read.
    answers: VecDeque<(usize, SlotKey, Result<Account, AuthFailure>)>,
    held_directs: VecDeque<(usize, SlotKey, UserId)>,
    moves: VecDeque<(usize, FakeSocket, Box<MovingConn>)>,
    held_fetches: VecDeque<(usize, SessionClaim, Arc<User>)>,
    held_rests: VecDeque<transfers::Rest>,
    tickets_count: u64,
    clients: Vec<Slot>,
    are_news_held: bool,
    /// Nodes that were killed.
    killed: BTreeSet<usize>,
    /// Nodes that do nothing for now.
    paused: BTreeSet<usize>,
    move_fault: MoveFault,
}

impl Default for TestCluster {
    fn default() -> Self {
        Self::new(TestClusterConfig::default())
    }
}

impl TestCluster {
    /// Partitions without clients, guilds or accounts.
    #[must_use]
    pub fn new(config: TestClusterConfig) -> Self {
        let gate = Arc::new(ScriptedGate::default());
        Self {
            clock: FakeClock::default(),
            partitions: (0..config.partitions_count).map(|index| TestPartition::new(index, &config, &gate)).collect(),
            config,
            gate,
            to_guilds: Vec::new(),
            refused_resumes: Vec::new(),
            wanted_friends: Vec::new(),
            held: BTreeSet::new(),
            outages: BTreeSet::new(),
            held_to_guilds: VecDeque::new(),
            late_answers: BTreeMap::new(),
            messages: BTreeMap::new(),
            token: 0,
            token_expires_at: None,
            read_bytes_max: usize::MAX,
            guilds: BTreeMap::new(),
            streams: BTreeMap::new(),
            accounts: BTreeMap::new(),
            named_guilds: BTreeMap::new(),
            token_checks: VecDeque::new(),
            answers: VecDeque::new(),
            held_directs: VecDeque::new(),
            moves: VecDeque::new(),
            held_fetches: VecDeque::new(),
            held_rests: VecDeque::new(),
            tickets_count: 0,
            clients: Vec::new(),
            are_news_held: false,
            killed: BTreeSet::new(),
            paused: BTreeSet::new(),
            move_fault: MoveFault::None,
        }
    }

    /// One partition with changed limits.
    #[must_use]
    pub fn with(change: impl FnOnce(&mut PartitionConfig)) -> Self {
        let mut config = TestClusterConfig::default();
        change(&mut config.partition);
        Self::new(config)
    }

    /// Registers an account; its token is its user name.
    pub fn add_account(&mut self, user: &Arc<User>) {
        self.accounts.insert(user.username.clone(), user.clone());
    }

    /// Adds an account to a guild that does not run: messages to the guild stay in `to_guilds`.
    pub fn name_guild(&mut self, user: &Arc<User>, guild_id: GuildId) {
        self.named_guilds.entry(user.id).or_default().push(guild_id);
    }

    /// Runs a guild.
    pub fn add_guild(&mut self, guild: Guild) {
        self.streams.remove(&guild.id());
        self.guilds.insert(guild.id(), guild);
    }

    /// Runs a guild that partitions sent messages to before; it receives them now.
    pub fn wake_guild(&mut self, guild: Guild) {
        let guild_id = guild.id();
        self.add_guild(guild);
        let queued: Vec<ToGuild> =
            self.to_guilds.iter().filter(|(id, _)| *id == guild_id).map(|(_, message)| message.clone()).collect();
        for message in queued {
            self.send_to_guild(guild_id, message);
        }
        self.run_until_idle();
    }

    fn send_to_guild(&mut self, guild_id: GuildId, message: ToGuild) {
        if let Some(guild) = self.guilds.get_mut(&guild_id) {
            self.streams.entry(guild_id).or_default().handle(&message);
            guild.handle_relay(self.clock.now(), message);
            self.drain_guild(guild_id);
        }
    }

    /// Holds traffic back from now on.
    pub fn hold(&mut self, traffic: Hold) {
        self.held.insert(traffic);
    }

    /// Ends `hold`. `run_until_idle` delivers what was held, except answers.
    pub fn release(&mut self, traffic: Hold) {
        self.held.remove(&traffic);
    }

    /// Whether traffic is held back.
    #[must_use]
    pub fn is_held(&self, traffic: Hold) -> bool {
        self.held.contains(&traffic)
    }

    /// Plants a fault of session moves.
    pub fn plant(&mut self, fault: MoveFault) {
        self.move_fault = fault;
    }

    /// Begins an outage.
    pub fn break_service(&mut self, service: Outage) {
        self.outages.insert(service);
    }

    /// Ends an outage.
    pub fn repair(&mut self, service: Outage) {
        self.outages.remove(&service);
    }

    /// The first partition.
    #[must_use]
    pub fn partition(&self) -> &Partition {
        &self.partitions[0].partition
    }

    /// The first partition, mutable.
    pub fn partition_mut(&mut self) -> &mut Partition {
        &mut self.partitions[0].partition
    }

    /// Partition `index`, mutable.
    pub fn partition_at_mut(&mut self, index: usize) -> &mut Partition {
        &mut self.partitions[index].partition
    }

    /// Partition `index`.
    #[must_use]
    pub fn partition_at(&self, index: usize) -> &Partition {
        &self.partitions[index].partition
    }

    // ── clients ──────────────────────────────────────────────────────────────────────────────────

    /// Records every write of partition 0.
    pub fn record_writes(&mut self) {
        self.partitions[0].link.record_writes();
    }

    /// The writes of partition 0 so far, in order: the connection, and the bytes of the call.
    pub fn take_writes(&mut self) -> Vec<(SlotKey, Vec<u8>)> {
        self.partitions[0].link.take_writes()
    }

    /// A client whose upgrade was answered; HELLO is in its inbox.
    pub fn connect(&mut self, params: ClientParams) -> ClientId {
        self.connect_to(0, params)
    }

    /// As `connect`; the client records every byte from the first on.
    pub fn connect_recorded(&mut self, params: ClientParams) -> ClientId {
        let socket = self.accept(0, params.conn);
        let mut client = TestClient::new(params, socket).with_dictionary(self.dictionary(params).as_deref());
        client.record_wire();
        self.insert_client(client)
    }

    /// As `connect`, to partition `index`.
    pub fn connect_to(&mut self, index: usize, params: ClientParams) -> ClientId {
        let socket = self.accept(index, params.conn);
        let client = TestClient::new(params, socket).with_dictionary(self.dictionary(params).as_deref());
        self.insert_client(client)
    }

    /// Dictionary that the client's stream starts with: every client has all dictionaries.
    fn dictionary(&self, params: ClientParams) -> Option<Arc<Dictionary>> {
        let Compression::ZstdDict(id) = params.conn.compression else { return None };
        self.config.partition.dictionaries.current().find(id).map(|known| known.dictionary.clone())
    }

    /// A client that requested an unsupported option; the server closes with `code`.
    pub fn connect_refused(&mut self, code: CloseCode) -> ClientId {
        let socket = FakeSocket::default();
        let entry = &mut self.partitions[0];
        entry.link.insert(entry.partition.next_conn_key(), socket.clone());
        entry.partition.accept_refused(self.clock.now(), code, &mut entry.link);
        self.insert_client(TestClient::new(ClientParams::JSON, socket))
    }

    /// The client on a new connection; the old connection stays as it is, under its old id.
    pub fn reconnect(&mut self, client: ClientId) -> ClientId {
        let params = self.client(client).params();
        self.reconnect_to(0, client, params)
    }

    /// As `reconnect`, to partition `index` and with other parameters.
    pub fn reconnect_to(&mut self, index: usize, client: ClientId, params: ClientParams) -> ClientId {
        let socket = self.accept(index, params.conn);
        let client = self.client(client).reconnected(params, socket);
        let client = client.with_dictionary(self.dictionary(params).as_deref());
        self.insert_client(client)
    }

    fn accept(&mut self, index: usize, params: ConnParams) -> FakeSocket {
        let socket = FakeSocket::default();
        let entry = &mut self.partitions[index];
        entry.link.insert(entry.partition.next_conn_key(), socket.clone());
        entry.partition.accept(self.clock.now(), params, &mut entry.link);
        socket
    }

    fn insert_client(&mut self, client: TestClient) -> ClientId {
        self.clients.push(Slot { client, inbox: Vec::new(), is_reading: true });
        self.run_until_idle();
        ClientId(self.clients.len() - 1)
    }

    /// A client after IDENTIFY with the account's token; its inbox has everything received.
    pub fn login(&mut self, account: &Arc<User>, intents: Option<u32>, params: ClientParams) -> ClientId {
        let client = self.connect(params);
        self.client(client).identify(identify_payload(&account.username, intents));
        self.run_until_idle();
        client
    }

    /// A client, to send from. `run_until_idle` delivers to the partition.
    pub fn client(&mut self, client: ClientId) -> &mut TestClient {
        &mut self.clients[client.0].client
    }

    /// Takes everything that a client received since the last call.
    ///
    /// # Panics
    /// When the server violated the protocol.
    pub fn take(&mut self, client: ClientId) -> Vec<Received> {
        self.run_until_idle();
        std::mem::take(&mut self.clients[client.0].inbox)
    }

    /// As `take`, dispatches only.
    pub fn dispatches(&mut self, client: ClientId) -> Vec<Dispatch> {
        let dispatch = |received| if let Received::Dispatch(dispatch) = received { Some(dispatch) } else { None };
        self.take(client).into_iter().filter_map(dispatch).collect()
    }

    /// As `dispatches`, sequence numbers and names only.
    pub fn names(&mut self, client: ClientId) -> Vec<(u64, String)> {
        self.dispatches(client).into_iter().map(|dispatch| (dispatch.seq, dispatch.name)).collect()
    }

    /// As `take`, the code of the close frame only.
    pub fn close_code(&mut self, client: ClientId) -> Option<u16> {
        self.take(client).into_iter().find_map(|received| match received {
            Received::Close(code, _) => code,
            _ => None,
        })
    }

    /// Stops reading: data for the client stays in its socket.
    pub fn stop_reading(&mut self, client: ClientId) {
        self.clients[client.0].is_reading = false;
    }

    /// Resumes reading.
    pub fn start_reading(&mut self, client: ClientId) {
        self.clients[client.0].is_reading = true;
        self.run_until_idle();
    }

    /// Reads at most `max` bytes for a client that does not read by itself; completed messages go to its inbox.
    ///
    /// # Panics
    /// When the server violated the protocol.
    pub fn read_some(&mut self, client: ClientId, max: usize) {
        let slot = &mut self.clients[client.0];
        let received = slot.client.read(max).unwrap_or_else(|fault| panic!("{}", fault.0));
        slot.inbox.extend(received);
    }

    /// Aborts a connection with all data in flight; the partition notices.
    pub fn cut(&mut self, client: ClientId) {
        self.client(client).socket().cut();
        self.run_until_idle();
    }

    // ── what happens ─────────────────────────────────────────────────────────────────────────────

    /// Runs a command in the only guild.
    ///
    /// # Errors
    /// The guild's refusal.
    ///
    /// # Panics
    /// Unless there is exactly one guild.
    pub fn command(&mut self, actor: Actor, command: Command) -> Result<Reply, Refusal> {
        assert_eq!(self.guilds.len(), 1, "which guild?");
        let guild_id = *self.guilds.keys().next().expect("there is one");
        self.command_in(guild_id, actor, command)
    }

    /// Runs a command. `run_until_idle` delivers its effects.
    ///
    /// # Errors
    /// The guild's refusal.
    ///
    /// # Panics
    /// When there is no such guild, or the command requests messages endlessly.
    pub fn command_in(&mut self, guild_id: GuildId, actor: Actor, command: Command) -> Result<Reply, Refusal> {
        let now = self.clock.now();
        for _ in 0..4 {
            let guild = self.guilds.get_mut(&guild_id).expect("the guild is run here");
            match guild.handle_command(now, actor, &command) {
                Outcome::Reply(reply) => {
                    self.drain_guild(guild_id);
                    if let (Command::AddMember(user), Ok(_)) = (&command, &reply) {
                        let joined = |entry: &mut TestPartition| {
                            entry.commands.push_back(PartitionCommand::Joined(user.id, guild_id))
                        };
                        self.partitions.iter_mut().for_each(joined);
                    }
                    return reply;
                }
                Outcome::Later(id) => {
                    for _ in 0..LATE_TURNS_MAX {
                        self.drain_guild(guild_id);
                        if let Some(answer) = self.late_answers.remove(&(guild_id, id)) {
                            return answer;
                        }
                        // Commands that run in steps continue with time.
                        let now = self.clock.now();
                        self.guilds.get_mut(&guild_id).expect("the guild is run here").handle_timer(now);
                    }
                    panic!("{command:?} is never answered");
                }
                Outcome::NeedsMessage(channel, message) => guild.handle_message_loaded(channel, message, None),
            }
        }
        panic!("{command:?} requests messages without end");
    }

    /// Creates a direct message or a group.
    pub fn add_direct(&mut self, new: NewDirect) {
        let guild_id = new.id.cast();
        self.guilds.insert(guild_id, Guild::create_direct(self.clock.now(), new, GuildLimits::default(), 5));
        self.drain_guild(guild_id);
    }

    /// Answers the held reads of direct messages.
    pub fn answer_directs(&mut self) {
        for (index, session, user_id) in std::mem::take(&mut self.held_directs) {
            let own = OwnData { directs: self.directs_of(user_id), ..OwnData::default() };
            let own = (!self.outages.contains(&Outage::Directs)).then_some(own);
            let TestPartition { partition, link, .. } = &mut self.partitions[index];
            partition.handle_directs(self.clock.now(), session, own, link);
        }
    }

    /// The direct messages of an account, as the store has them.
    pub fn directs_of(&mut self, user_id: UserId) -> Vec<Direct> {
        let now = self.clock.now();
        let open = Command::Direct(DirectCommand::Open);
        let directs = self.guilds.values_mut().filter(|guild| guild.is_direct()).filter_map(|guild| {
            match guild.handle_command(now, Actor::System, &open) {
                Outcome::Reply(Ok(Reply::Direct(direct))) => Some(direct),
                _ => None,
            }
        });
        directs.filter(|direct| direct.is_open_for(user_id)).collect()
    }

    /// Holds events for accounts back, or delivers those that were held.
    pub fn hold_news(&mut self, is_held: bool) {
        self.are_news_held = is_held;
        if !is_held {
            (0..self.partitions.len()).for_each(|index| self.deliver_news(index, usize::MAX));
        }
    }

    /// Delivers the oldest `count` held events for accounts to a partition.
    pub fn deliver_news(&mut self, index: usize, count: usize) {
        let TestPartition { commands, news, .. } = &mut self.partitions[index];
        commands.extend(news.drain(..count.min(news.len())));
        self.run_until_idle();
    }

    /// Answers held requests for sessions by the nodes that have them, with at most `bytes_max` of bodies each.
    pub fn answer_fetches(&mut self, bytes_max: usize) {
        for (index, claim, user) in std::mem::take(&mut self.held_fetches) {
            // Another claim has it: this one waits, as in the driver.
            if self.partitions.iter().any(|entry| entry.partition.is_moving_session(&claim.session_id)) {
                self.held_fetches.push_back((index, claim, user));
                continue;
            }
            let result = self.release_elsewhere(index, &claim, bytes_max);
            self.answer_fetch(index, &claim, user, result);
        }
    }

    /// Answers claims that waited for another one.
    fn repeat_fetches(&mut self) -> bool {
        let waiting_count = self.held_fetches.len();
        if waiting_count > 0 && !self.is_held(Hold::Fetches) {
            self.answer_fetches(usize::MAX);
        }
        self.held_fetches.len() < waiting_count
    }

    /// Drops the answers to held requests: the nodes that have the sessions release them, and they are lost.
    pub fn lose_fetches(&mut self) {
        for (index, claim, user) in std::mem::take(&mut self.held_fetches) {
            drop(self.release_elsewhere(index, &claim, usize::MAX));
            self.answer_fetch(index, &claim, user, Err(ResumeFault::Move));
        }
    }

    /// Sends the sessions of a node that have no connection to another node, in parcels of at most `bytes_max` of
    /// bodies. Returns the number of sessions in each.
    pub fn send_away(&mut self, from: usize, to: usize, bytes_max: usize) -> Vec<usize> {
        let now = self.clock.now();
        let users = self.accounts.values().map(|user| (user.id, user.clone())).collect();
        let ids = self.partitions[from].partition.detached_sessions();
        let (mut rest, mut parcels) = (&ids[..], Vec::new());
        while !rest.is_empty() {
            let TestPartition { partition, link, .. } = &mut self.partitions[from];
            let (over, count) = partition.release_sessions(now, rest, bytes_max, link);
            rest = &rest[count..];
            let text = serde_json::to_string(&over).expect("it is plain data");
            let over = serde_json::from_str(&text).expect("as it was written");
            let TestPartition { partition, link, .. } = &mut self.partitions[to];
            parcels.push(partition.handle_arrivals(now, &over, &users, link));
            self.run_until_idle();
        }
        parcels
    }

    fn answer_fetch(
        &mut self,
        index: usize,
        claim: &SessionClaim,
        user: Arc<User>,
        result: Result<HandOver, ResumeFault>,
    ) {
        let fetched = Fetched { session_id: claim.session_id.as_str().into(), user, is_rest: false, result };
        self.partitions[index].commands.push_back(PartitionCommand::Fetched(fetched));
    }

    fn release_elsewhere(
        &mut self,
        index: usize,
        claim: &SessionClaim,
        bytes_max: usize,
    ) -> Result<HandOver, ResumeFault> {
        let (now, fault) = (self.clock.now(), self.move_fault);
        self.tickets_count += 1;
        let (ticket, transfers) = (self.tickets_count, self.config.transfers);
        let killed = &self.killed;
        let others = self.partitions.iter_mut().enumerate();
        let others = others.filter(|(other, _)| *other != index && !killed.contains(other));
        for (_, TestPartition { partition, link, .. }) in others {
            let released = match transfers {
                true => partition.begin_transfer(now, (claim, ticket), bytes_max, link),
                false => partition.release_session(now, claim, bytes_max, link),
            };
            match released {
                Err(ResumeFault::Unknown) => {}
                Err(fault) => return Err(fault),
                Ok(over) => {
                    let text = serde_json::to_string(&over).expect("it is plain data");
                    let mut over: HandOver = serde_json::from_str(&text).expect("as it was written");
                    if fault == MoveFault::LosesLast && !transfers {
                        mirrors::lose_last(&mut over);
                    }
                    return Ok(over);
                }
            }
        }
        self.release_mirrored(claim)
    }

    /// Delivers a message to a partition as if it came from a guild.
    pub fn publish(&mut self, index: usize, message: ToRelay) {
        self.partitions[index].mail.push_back(message);
    }

    /// Delivers an event to accounts at every partition, as the node does.
    pub fn publish_to_users(&mut self, event: Event) {
        let user_ids = event.audience.rule.users().to_vec();
        let published = Arc::new(Published { event, replica_update: ReplicaUpdate::None });
        for entry in &mut self.partitions {
            entry.commands.push_back(PartitionCommand::PublishToUsers(published.clone(), user_ids.clone()));
        }
    }

    /// Notifies every partition that an account joined a guild, as the node does.
    pub fn announce_joined(&mut self, user: &Arc<User>, guild_id: GuildId) {
        self.partitions
            .iter_mut()
            .for_each(|entry| entry.commands.push_back(PartitionCommand::Joined(user.id, guild_id)));
    }

    /// Delivers all held guild messages of a partition, and does nothing else.
    pub fn hand_over_mail(&mut self, index: usize) {
        while let Some(message) = self.partitions[index].mail.pop_front() {
            self.hand_over(index, message);
        }
    }

    /// Delivers the oldest `count` held guild messages of a partition.
    pub fn deliver_mail(&mut self, index: usize, count: usize) {
        for _ in 0..count {
            let Some(message) = self.partitions[index].mail.pop_front() else { break };
            self.hand_over(index, message);
        }
        self.run_until_idle();
    }

    /// Delivers the oldest `count` held messages of one relay, before those of other relays.
    pub fn deliver_mail_to(&mut self, relay: RelayId, count: usize) {
        let index = self.index_of(relay.partition);
        for _ in 0..count {
            let mail = &mut self.partitions[index].mail;
            let Some(at) = mail.iter().position(|message| message.relay == relay) else { break };
            let message = mail.remove(at).expect("it is there");
            self.hand_over(index, message);
        }
        self.run_until_idle();
    }

    /// Drops the oldest held message of a relay unnoticed. Returns whether there was one.
    pub fn lose_mail_to(&mut self, relay: RelayId) -> bool {
        let index = self.index_of(relay.partition);
        let mail = &mut self.partitions[index].mail;
        let at = mail.iter().position(|message| message.relay == relay);
        at.and_then(|at| mail.remove(at)).is_some()
    }

    fn hand_over(&mut self, index: usize, message: ToRelay) {
        let TestPartition { partition, link, .. } = &mut self.partitions[index];
        partition.handle_guild(self.clock.now(), message, Delivery::Now, link);
    }

    /// Delivers the oldest `count` held messages to guilds.
    pub fn deliver_to_guilds(&mut self, count: usize) {
        for _ in 0..count {
            let Some((guild_id, message)) = self.held_to_guilds.pop_front() else { break };
            self.send_to_guild(guild_id, message);
        }
    }

    /// The queue between a guild and one of its relays overflowed: held messages of that relay are lost.
    pub fn overflow(&mut self, relay: RelayId, guild_id: GuildId) {
        let index = self.index_of(relay.partition);
        let mail = &mut self.partitions[index].mail;
        mail.retain(|message| message.relay != relay || message.guild_id != guild_id);
        let guild = self.guilds.get_mut(&guild_id).expect("the guild is run here");
        guild.handle_relay_lost(relay);
        self.drain_guild(guild_id);
    }

    /// The queue has room again.
    pub fn room(&mut self, relay: RelayId, guild_id: GuildId) {
        let guild = self.guilds.get_mut(&guild_id).expect("the guild is run here");
        guild.handle_relay_room(relay);
        self.drain_guild(guild_id);
    }

    fn index_of(&self, partition: PartitionId) -> usize {
        if self.config.are_nodes { usize::from(partition.node()) } else { partition.index() }
    }

    fn drain_guild(&mut self, guild_id: GuildId) {
        let now = self.clock.now();
        let are_nodes = self.config.are_nodes;
        let index_of = |id: PartitionId| if are_nodes { usize::from(id.node()) } else { id.index() };
        let Some(guild) = self.guilds.get_mut(&guild_id) else { return };
        while let Some(output) = guild.poll_output() {
            match output {
                GuildOutput::Relay(output) => {
                    let message = self.streams.entry(guild_id).or_default().send(output);
                    let Some(message) = message else { continue };
                    self.partitions[index_of(message.relay.partition)].mail.push_back(message);
                }
                GuildOutput::Write(Write::PutMessage(mut message)) => {
                    Arc::make_mut(&mut message).nonce = None;
                    self.messages.insert((message.channel_id, message.id), message);
                }
                GuildOutput::Write(_) => {}
                GuildOutput::Users(published) => {
                    let user_ids = published.event.audience.rule.users().to_vec();
                    let is_held = self.are_news_held;
                    self.partitions.iter_mut().for_each(|entry| {
                        let queue = if is_held { &mut entry.news } else { &mut entry.commands };
                        queue.push_back(PartitionCommand::PublishToUsers(published.clone(), user_ids.clone()));
                    });
                }
                GuildOutput::Job(job) => guild.handle_job_done(now, job.run()),
                GuildOutput::Answer(id, answer) => drop(self.late_answers.insert((guild_id, id), answer)),
            }
        }
        let version = guild.version();
        guild.handle_committed(version);
    }

    /// Reads the accounts of the held tokens, but holds the answers.
    pub fn read_accounts(&mut self) {
        for TokenCheck { index, conn, token, purpose } in std::mem::take(&mut self.token_checks) {
            let answer = self.authenticate(&token, purpose);
            self.answers.push_back((index, conn, answer));
        }
    }

    /// Answers the held token checks.
    pub fn answer_tokens(&mut self) {
        self.read_accounts();
        for (index, conn, answer) in std::mem::take(&mut self.answers) {
            self.partitions[index].commands.push_back(PartitionCommand::Authenticated(conn, answer));
        }
        self.run_until_idle();
    }

    fn authenticate(&mut self, token: &str, purpose: AuthPurpose) -> Result<Account, AuthFailure> {
        if self.outages.contains(&Outage::Auth) {
            return Err(AuthFailure::Unavailable);
        }
        let user = self.accounts.get(token).cloned().ok_or(AuthFailure::Invalid)?;
        let mut guilds = Vec::new();
        if matches!(purpose, AuthPurpose::Identify { .. }) {
            guilds.extend(self.named_guilds.get(&user.id).into_iter().flatten().copied());
            let now = self.clock.now();
            let has_member = |guild: &mut Guild| {
                let outcome = guild.handle_command(now, Actor::System, &Command::ReadMember(user.id));
                matches!(outcome, Outcome::Reply(Ok(_)))
            };
            let joined = self.guilds.values_mut().filter_map(|guild| has_member(guild).then_some(guild.id()));
            guilds.extend(joined);
            guilds.sort_unstable();
        }
        Ok(Account { user, guilds, token: self.token, expires_at: self.token_expires_at, admission: None })
    }

    /// Sends RECONNECT to `count` clients of a partition, with `GRACE_MS` to leave.
    pub fn send_reconnects(&mut self, index: usize, count: usize) -> Leaving {
        let entry = &mut self.partitions[index];
        let leaving = entry.partition.send_reconnects(self.clock.now(), count, GRACE_MS, &mut entry.link);
        self.run_until_idle();
        leaving
    }

    /// Sends RECONNECT to `count` clients with larger compression contexts; returns the number of clients.
    pub fn take_back_upgrades(&mut self, index: usize, count: usize) -> usize {
        let now = self.clock.now();
        let entry = &mut self.partitions[index];
        entry.partition.take_back_upgrades(now, count, &mut entry.link)
    }

    /// Sends RECONNECT to `count` clients of an experiment's arms; returns the number of clients.
    pub fn reconnect_trials(&mut self, index: usize, experiment: u64, count: usize) -> usize {
        let now = self.clock.now();
        let entry = &mut self.partitions[index];
        entry.partition.reconnect_trials(now, experiment, count, &mut entry.link)
    }

    /// Ends the process and starts another one with its sessions, and with these guilds as the store has them. Aborts
    /// every connection. Returns the hand-over of each partition.
    pub fn restart(&mut self, guilds: Vec<Guild>, bytes_max: usize) -> Vec<HandOver> {
        for client in 0..self.clients.len() {
            self.clients[client].client.socket().cut();
        }
        self.run_until_idle();
        self.partitions.iter_mut().for_each(|entry| entry.partition.leave_voice());
        self.run_until_idle();
        let now = self.clock.now();
        let over: Vec<HandOver> = self
            .partitions
            .iter_mut()
            .map(|entry| entry.partition.hand_over(now, bytes_max, RecentLoss::None, &mut entry.link))
            .collect();
        let text = serde_json::to_string(&over).expect("it is plain data");
        let over: Vec<HandOver> = serde_json::from_str(&text).expect("as it was written");
        self.guilds = guilds.into_iter().map(|guild| (guild.id(), guild)).collect();
        self.to_guilds.clear();
        let users = self.accounts.values().map(|user| (user.id, user.clone())).collect();
        for (index, over) in over.iter().enumerate() {
            let entry = TestPartition::new(index as u16, &self.config, &self.gate);
            self.partitions[index] = entry;
            let TestPartition { partition, link, .. } = &mut self.partitions[index];
            partition.take_over(now, over, &users, Pause::Noticed, link);
        }
        self.run_until_idle();
        over
    }

    /// Ends the process and has another one take over its sessions and connections, with these guilds as the store has
    /// them. Returns the connections of each partition that go on; the others are closed.
    pub fn take_over(&mut self, guilds: Vec<Guild>, bytes_max: usize) -> Vec<Vec<ConnSnapshot>> {
        self.partitions.iter_mut().for_each(|entry| entry.partition.leave_voice());
        self.run_until_idle();
        let now = self.clock.now();
        let mut passed = Vec::new();
        for TestPartition { partition, link, .. } in &mut self.partitions {
            partition.flush(now, link);
            let over = partition.hand_over(now, bytes_max, RecentLoss::None, link);
            let conns = partition.hand_over_conns(now, &over, link);
            passed.push((over, conns, link.take_leaving()));
            partition.close_all(now, link);
        }
        self.guilds = guilds.into_iter().map(|guild| (guild.id(), guild)).collect();
        self.to_guilds.clear();
        let users = self.accounts.values().map(|user| (user.id, user.clone())).collect();
        for (index, (over, ..)) in passed.iter().enumerate() {
            self.partitions[index] = TestPartition::new(index as u16, &self.config, &self.gate);
            let TestPartition { partition, link, .. } = &mut self.partitions[index];
            partition.take_over(now, over, &users, Pause::Unnoticed, link);
        }
        self.run_until_idle();
        let mut all = Vec::new();
        for (index, (_, conns, sockets)) in passed.into_iter().enumerate() {
            let text = serde_json::to_string(&conns).expect("it is plain data");
            let conns: Vec<ConnSnapshot> = serde_json::from_str(&text).expect("as it was written");
            assert_eq!(conns.len(), sockets.len());
            let TestPartition { partition, link, .. } = &mut self.partitions[index];
            for (conn, socket) in conns.iter().zip(sockets) {
                link.insert(partition.next_conn_key(), socket);
                partition.adopt_conn(now, conn, link);
            }
            all.push(conns);
        }
        self.run_until_idle();
        all
    }

    /// Sessions that still wait for a guild after a restart receive an outage of it.
    pub fn fail_pending_restores(&mut self) {
        for entry in &mut self.partitions {
            entry.partition.fail_pending_restores(self.clock.now(), &mut entry.link);
        }
        self.run_until_idle();
    }

    /// Closes every connection of a partition.
    pub fn close_all(&mut self, index: usize) {
        let entry = &mut self.partitions[index];
        entry.partition.close_all(self.clock.now(), &mut entry.link);
        self.run_until_idle();
    }

    /// Ends sessions of a partition.
    pub fn close_sessions(&mut self, index: usize, whose: &Whose, code: CloseCode) -> usize {
        let entry = &mut self.partitions[index];
        entry.partition.close_sessions(self.clock.now(), whose, code, &mut entry.link)
    }

    /// Advances the clock and runs what is due, once. For consecutive deadlines call it often.
    pub fn advance(&mut self, ms: u64) {
        self.clock.advance_ms(ms);
        let now = self.clock.now();
        for (index, entry) in self.partitions.iter_mut().enumerate() {
            if !self.paused.contains(&index) {
                entry.partition.handle_timers(now, &mut entry.link);
            }
        }
        for guild_id in self.guilds.keys().copied().collect::<Vec<_>>() {
            self.guilds.get_mut(&guild_id).expect("it was there just now").handle_timer(now);
            self.drain_guild(guild_id);
        }
        self.run_until_idle();
    }

    /// Advances the clock while every reading client keeps its heartbeat.
    pub fn advance_with_heartbeats(&mut self, ms: u64) {
        const BEAT_MS: u64 = 40_000;
        let mut left = ms;
        while left > 0 {
            let step = left.min(BEAT_MS);
            left -= step;
            self.advance(step);
            let beating = self.clients.iter_mut().filter(|slot| slot.is_reading && !slot.client.has_ended());
            beating.for_each(|slot| slot.client.heartbeat());
            self.run_until_idle();
        }
    }

    // ── the turn ─────────────────────────────────────────────────────────────────────────────────

    /// Runs turns until nothing moves.
    ///
    /// # Panics
    /// When it never becomes idle, or the server violated the protocol.
    pub fn run_until_idle(&mut self) {
        for _ in 0..TURNS_MAX {
            let mut has_moved = false;
            for index in 0..self.partitions.len() {
                has_moved |= self.turn(index);
            }
            has_moved |= self.move_conns();
            has_moved |= !self.is_held(Hold::Rests) && self.answer_rests();
            has_moved |= self.repeat_fetches();
            has_moved |= self.read_clients();
            if !has_moved {
                return;
            }
        }
        panic!("the cluster does not become idle");
    }

    fn turn(&mut self, index: usize) -> bool {
        if self.drop_for_killed(index) || self.paused.contains(&index) {
            return false;
        }
        let now = self.clock.now();
        let is_mail_held = self.is_held(Hold::Mail);
        let TestPartition { partition, link, mail, commands, .. } = &mut self.partitions[index];
        let mut has_moved = false;
        for key in link.keys() {
            let Some(socket) = link.socket(key).cloned() else { continue };
            if socket.take_writable() {
                has_moved = true;
                partition.handle_writable(now, key, link);
            }
        }
        let mut delivery = Delivery::Now;
        while let Some(message) = mail.pop_front_if(|_| !is_mail_held) {
            has_moved = true;
            if !mail.is_empty() {
                delivery = Delivery::AtFlush;
            }
            partition.handle_guild(now, message, delivery, link);
        }
        while let Some(command) = commands.pop_front() {
            has_moved = true;
            match command {
                PartitionCommand::Authenticated(conn, answer) => {
                    partition.handle_authenticated(now, conn, answer, link)
                }
                PartitionCommand::Joined(user_id, guild_id) => partition.handle_joined(now, user_id, guild_id),
                PartitionCommand::PublishToUsers(published, user_ids) => {
                    partition.publish_to_users(now, &published, &user_ids, link)
                }
                PartitionCommand::Fetched(fetched) => partition.handle_fetched(now, fetched, link),
                PartitionCommand::Moved(socket, conn) => {
                    link.insert(partition.next_conn_key(), socket);
                    partition.handle_transferred(now, *conn, link);
                }
            }
        }
        for key in link.keys() {
            let Some(socket) = link.socket(key).cloned() else { continue };
            if let Some(mut bytes) = socket.take_readable(self.read_bytes_max) {
                has_moved = true;
                partition.handle_bytes(now, key, &mut bytes, link);
            } else if socket.take_hangup() {
                has_moved = true;
                partition.handle_hangup(now, key, link);
            }
        }
        has_moved |= partition.wants_flush();
        partition.flush(now, link);
        while let Some(output) = self.partitions[index].partition.poll_output() {
            has_moved = true;
            self.handle_output(index, output);
        }
        for Transfer { to, socket, conn, .. } in self.partitions[index].link.take_transfers() {
            has_moved = true;
            self.moves.push_back((self.index_of(to), socket, conn));
        }
        has_moved
    }

    fn handle_output(&mut self, index: usize, output: Output) {
        match output {
            Output::Authenticate { conn, token, purpose } => {
                self.token_checks.push_back(TokenCheck { index, conn, token, purpose });
                if !self.is_held(Hold::TokenChecks) {
                    let token_check = self.token_checks.pop_back().expect("pushed above");
                    let answer = self.authenticate(&token_check.token, token_check.purpose);
                    self.partitions[index].commands.push_back(PartitionCommand::Authenticated(conn, answer));
                }
            }
            Output::ToGuild(guild_id, message) => {
                self.to_guilds.push((guild_id, message.clone()));
                self.held_to_guilds.push_back((guild_id, message));
                if !self.is_held(Hold::ToGuilds) {
                    self.deliver_to_guilds(usize::MAX);
                }
            }
            Output::FetchMessages { session, guild_id, messages } => {
                let found: Vec<_> = messages.iter().filter_map(|id| self.messages.get(id).cloned()).collect();
                let TestPartition { partition, link, .. } = &mut self.partitions[index];
                partition.handle_messages(self.clock.now(), session, guild_id, &found, link);
            }
            Output::FetchDirects { session, user_id } => {
                self.held_directs.push_back((index, session, user_id));
                if !self.is_held(Hold::Directs) {
                    self.answer_directs();
                }
            }
            Output::FetchSession { claim, user } => {
                self.held_fetches.push_back((index, claim, user));
                if !self.is_held(Hold::Fetches) {
                    self.answer_fetches(usize::MAX);
                }
            }
            Output::FetchRest { end, user } => self.fetch_rest(index, end, user),
            Output::SessionNews(_) | Output::PresenceChanged(_) | Output::IdentifyRefused(_) | Output::Canary(_) => {}
            Output::ShowFriends { user_id, friends } => self.wanted_friends.push((user_id, friends)),
            Output::ResumeRefused(refused) => self.refused_resumes.push(refused.fault),
        }
    }

    fn move_conns(&mut self) -> bool {
        if self.is_held(Hold::Moves) || self.moves.is_empty() {
            return false;
        }
        for (to, socket, conn) in std::mem::take(&mut self.moves) {
            self.partitions[to].commands.push_back(PartitionCommand::Moved(socket, conn));
        }
        true
    }

    fn read_clients(&mut self) -> bool {
        let mut has_moved = false;
        for slot in &mut self.clients {
            if !slot.is_reading || slot.client.has_ended() {
                continue;
            }
            let received = slot.client.read(usize::MAX).unwrap_or_else(|fault| panic!("{}", fault.0));
            has_moved |= !received.is_empty();
            slot.inbox.extend(received);
            let socket = slot.client.socket();
            if slot.client.has_ended() && socket.server_end() == ServerEnd::Finished {
                socket.client_close();
            }
        }
        has_moved
    }
}
