//! Pair: partitions, guilds and clients on one thread; the test controls everything in between.
//!
//! Owns        the turn: passes bytes, guild messages, outputs and answers around until nothing moves (`settle`).
//! Doors       `login` and `connect` for clients; `command` and `publish` for events; `advance` for time.
//! Invariants  each turn does the work of `guildhall-net` and `guildhall-node`, with every commit done at once.
//! Limits      `TURNS_MAX` turns in `settle`: machines that never become idle are a bug and are reported as one.

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
use guildhall_guild_protocol::{PartitionId, Published, RelayId, RelayStreams, ToGuild, ToRelay};
use guildhall_model::{ChannelId, CloseCode, GuildId, Message, MessageId, User, UserId};
use guildhall_partition::{
    Account, AuthFailure, Compression, ConnParams, HandOver, Leaving, MovingConn, Output, Partition, PartitionConfig,
    ResumeFault, Whose,
};
use guildhall_stdx::{SlotKey, Timestamp};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

const TURNS_MAX: usize = 10_000;
/// Maximum number of turns of a command that runs in steps.
const LATE_TURNS_MAX: usize = 10_000;

/// Milliseconds that a client has to leave after a RECONNECT.
pub const GRACE_MS: u64 = 1_500;

/// One of a pair's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId(usize);

/// Configuration of a `Pair`.
#[derive(Clone, Debug)]
pub struct PairConfig {
    /// Number of partitions.
    pub partitions_count: u16,
    /// Configuration of every partition; its number and secret are filled in.
    pub partition: PartitionConfig,
    /// Sockets queue sends, as with io_uring.
    pub batches: bool,
}

impl Default for PairConfig {
    fn default() -> Self {
        Self {
            partitions_count: 1,
            partition: PartitionConfig::new(PartitionId(0), "wss://gw.example.net".into(), [7; 32]),
            batches: false,
        }
    }
}

enum Note {
    Authenticated(SlotKey, Result<Account, AuthFailure>),
    Joined(UserId, GuildId),
    Moved(FakeSocket, Box<MovingConn>),
    TellUsers(Arc<Published>, Vec<UserId>),
}

struct Side {
    partition: Partition,
    link: FakeLink,
    mail: VecDeque<ToRelay>,
    notes: VecDeque<Note>,
}

impl Side {
    fn new(index: u16, config: &PairConfig, gate: &Arc<ScriptedGate>) -> Self {
        let of_partition = PartitionConfig {
            partition: PartitionId(index),
            partitions_count: config.partitions_count,
            ..config.partition.clone()
        };
        Self {
            partition: Partition::new(of_partition, gate.clone()),
            link: if config.batches { FakeLink::batching() } else { FakeLink::default() },
            mail: VecDeque::new(),
            notes: VecDeque::new(),
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
    side: usize,
    conn: SlotKey,
    token: String,
    with_guilds: bool,
}

/// Partitions, guilds and clients on one thread.
pub struct Pair {
    /// Clock of all machines and clients.
    pub clock: FakeClock,
    /// Decides which IDENTIFYs are admitted.
    pub gate: Arc<ScriptedGate>,
    /// Messages from partitions to guilds, in order; tests may clear it.
    pub to_guilds: Vec<(GuildId, ToGuild)>,
    /// Refused RESUMEs, oldest first.
    pub refused_resumes: Vec<ResumeFault>,
    /// Token checks are held until `answer_tokens`.
    pub holds_tokens: bool,
    /// Token checks fail as unavailable.
    pub is_auth_down: bool,
    /// Messages from guilds to partitions are held until this is `false`, or until `deliver_mail`.
    pub holds_mail: bool,
    /// Messages from partitions to guilds are held until this is `false`, or until `deliver_to_guilds`.
    pub holds_to_guilds: bool,
    /// Reading direct messages fails.
    pub are_directs_down: bool,
    /// Reads of direct messages are held until `answer_directs`.
    pub holds_directs: bool,
    /// Connections that move between partitions are held until this is `false`.
    pub holds_moves: bool,
    /// Number of the token of the next check.
    pub token: u64,
    /// Expiry of the token.
    pub token_expires_at: Option<Timestamp>,
    /// Maximum number of bytes per read of a partition.
    pub read_bytes_max: usize,
    sides: Vec<Side>,
    config: PairConfig,
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
    clients: Vec<Slot>,
}

impl Default for Pair {
    fn default() -> Self {
        Self::new(PairConfig::default())
    }
}

impl Pair {
    /// Partitions without clients, guilds or accounts.
    #[must_use]
    pub fn new(config: PairConfig) -> Self {
        let gate = Arc::new(ScriptedGate::default());
        Self {
            clock: FakeClock::default(),
            sides: (0..config.partitions_count).map(|index| Side::new(index, &config, &gate)).collect(),
            config,
            gate,
            to_guilds: Vec::new(),
            refused_resumes: Vec::new(),
            holds_tokens: false,
            is_auth_down: false,
            holds_mail: false,
            holds_to_guilds: false,
            held_to_guilds: VecDeque::new(),
            late_answers: BTreeMap::new(),
            messages: BTreeMap::new(),
            holds_moves: false,
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
            are_directs_down: false,
            holds_directs: false,
            moves: VecDeque::new(),
            clients: Vec::new(),
        }
    }

    /// One partition with changed limits.
    #[must_use]
    pub fn with(change: impl FnOnce(&mut PartitionConfig)) -> Self {
        let mut config = PairConfig::default();
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
        let told: Vec<ToGuild> =
            self.to_guilds.iter().filter(|(id, _)| *id == guild_id).map(|(_, message)| message.clone()).collect();
        for message in told {
            self.tell_guild(guild_id, message);
        }
        self.settle();
    }

    fn tell_guild(&mut self, guild_id: GuildId, message: ToGuild) {
        if let Some(guild) = self.guilds.get_mut(&guild_id) {
            self.streams.entry(guild_id).or_default().handle(&message);
            guild.handle_relay(self.clock.now(), message);
            self.drain_guild(guild_id);
        }
    }

    /// The first partition.
    #[must_use]
    pub fn partition(&self) -> &Partition {
        &self.sides[0].partition
    }

    /// The first partition, mutable.
    pub fn partition_mut(&mut self) -> &mut Partition {
        &mut self.sides[0].partition
    }

    /// Partition `side`, mutable.
    pub fn partition_at_mut(&mut self, side: usize) -> &mut Partition {
        &mut self.sides[side].partition
    }

    /// Partition `side`.
    #[must_use]
    pub fn partition_at(&self, side: usize) -> &Partition {
        &self.sides[side].partition
    }

    // ── clients ──────────────────────────────────────────────────────────────────────────────────

    /// A client whose upgrade was answered; HELLO is in its inbox.
    pub fn connect(&mut self, params: ClientParams) -> ClientId {
        self.connect_to(0, params)
    }

    /// As `connect`, to partition `side`.
    pub fn connect_to(&mut self, side: usize, params: ClientParams) -> ClientId {
        let socket = self.accept(side, params.conn);
        let client = TestClient::new(params, socket).with_dictionary(self.dictionary(params));
        self.insert_client(client)
    }

    /// Dictionary that the client's stream starts with: every client has all dictionaries.
    fn dictionary(&self, params: ClientParams) -> Option<&Dictionary> {
        let Compression::ZstdDict(id) = params.conn.compression else { return None };
        self.config.partition.dictionaries.find(id).map(|known| &*known.dictionary)
    }

    /// A client that requested an unsupported option; the server closes with `code`.
    pub fn connect_refused(&mut self, code: CloseCode) -> ClientId {
        let socket = FakeSocket::default();
        let side = &mut self.sides[0];
        side.link.insert(side.partition.next_conn_key(), socket.clone());
        side.partition.accept_refused(self.clock.now(), code, &mut side.link);
        self.insert_client(TestClient::new(ClientParams::JSON, socket))
    }

    /// The client on a new connection; the old connection stays as it is, under its old id.
    pub fn reconnect(&mut self, client: ClientId) -> ClientId {
        let params = self.client(client).params();
        self.reconnect_to(0, client, params)
    }

    /// As `reconnect`, to partition `side` and with other parameters.
    pub fn reconnect_to(&mut self, side: usize, client: ClientId, params: ClientParams) -> ClientId {
        let socket = self.accept(side, params.conn);
        let client = self.client(client).reconnected(params, socket);
        let client = client.with_dictionary(self.dictionary(params));
        self.insert_client(client)
    }

    fn accept(&mut self, side: usize, params: ConnParams) -> FakeSocket {
        let socket = FakeSocket::default();
        let side = &mut self.sides[side];
        side.link.insert(side.partition.next_conn_key(), socket.clone());
        side.partition.accept(self.clock.now(), params, &mut side.link);
        socket
    }

    fn insert_client(&mut self, client: TestClient) -> ClientId {
        self.clients.push(Slot { client, inbox: Vec::new(), is_reading: true });
        self.settle();
        ClientId(self.clients.len() - 1)
    }

    /// A client after IDENTIFY with the account's token; its inbox has everything received.
    pub fn login(&mut self, account: &Arc<User>, intents: Option<u32>, params: ClientParams) -> ClientId {
        let client = self.connect(params);
        self.client(client).identify(identify_payload(&account.username, intents));
        self.settle();
        client
    }

    /// A client, to send from. `settle` delivers to the partition.
    pub fn client(&mut self, client: ClientId) -> &mut TestClient {
        &mut self.clients[client.0].client
    }

    /// Takes everything that a client received since the last call.
    ///
    /// # Panics
    /// When the server violated the protocol.
    pub fn take(&mut self, client: ClientId) -> Vec<Received> {
        self.settle();
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
        self.settle();
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
        self.settle();
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

    /// Runs a command. `settle` delivers its effects.
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
                        let joined = |side: &mut Side| side.notes.push_back(Note::Joined(user.id, guild_id));
                        self.sides.iter_mut().for_each(joined);
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
        panic!("{command:?} asks for messages without end");
    }

    /// Creates a direct message or a group.
    pub fn add_direct(&mut self, new: NewDirect) {
        let guild_id = new.id.cast();
        self.guilds.insert(guild_id, Guild::create_direct(self.clock.now(), new, GuildLimits::default(), 5));
        self.drain_guild(guild_id);
    }

    /// Answers the held reads of direct messages.
    pub fn answer_directs(&mut self) {
        let now = self.clock.now();
        for (side, session, user_id) in std::mem::take(&mut self.held_directs) {
            let open = Command::Direct(DirectCommand::Open);
            let directs = self.guilds.values_mut().filter(|guild| guild.is_direct()).filter_map(|guild| {
                match guild.handle_command(now, Actor::System, &open) {
                    Outcome::Reply(Ok(Reply::Direct(direct))) => Some(direct),
                    _ => None,
                }
            });
            let directs: Vec<_> = directs.filter(|direct| direct.is_open_for(user_id)).collect();
            let Side { partition, link, .. } = &mut self.sides[side];
            partition.handle_directs(now, session, (!self.are_directs_down).then_some(directs), link);
        }
    }

    /// Delivers a message to a partition as if it came from a guild.
    pub fn publish(&mut self, side: usize, message: ToRelay) {
        self.sides[side].mail.push_back(message);
    }

    /// Notifies every partition that an account joined a guild, as the node does.
    pub fn announce_joined(&mut self, user: &Arc<User>, guild_id: GuildId) {
        self.sides.iter_mut().for_each(|side| side.notes.push_back(Note::Joined(user.id, guild_id)));
    }

    /// Delivers all held guild messages of a partition, and does nothing else.
    pub fn hand_over_mail(&mut self, side: usize) {
        while let Some(message) = self.sides[side].mail.pop_front() {
            self.hand_over(side, message);
        }
    }

    /// Delivers the oldest `count` held guild messages of a partition.
    pub fn deliver_mail(&mut self, side: usize, count: usize) {
        for _ in 0..count {
            let Some(message) = self.sides[side].mail.pop_front() else { break };
            self.hand_over(side, message);
        }
        self.settle();
    }

    /// Delivers the oldest `count` held messages of one relay, before those of other relays.
    pub fn deliver_mail_to(&mut self, relay: RelayId, count: usize) {
        let side = usize::from(relay.partition.0);
        for _ in 0..count {
            let mail = &mut self.sides[side].mail;
            let Some(at) = mail.iter().position(|message| message.relay == relay) else { break };
            let message = mail.remove(at).expect("it is there");
            self.hand_over(side, message);
        }
        self.settle();
    }

    /// Drops the oldest held message of a relay unnoticed. Returns whether there was one.
    pub fn lose_mail_to(&mut self, relay: RelayId) -> bool {
        let mail = &mut self.sides[usize::from(relay.partition.0)].mail;
        let at = mail.iter().position(|message| message.relay == relay);
        at.and_then(|at| mail.remove(at)).is_some()
    }

    fn hand_over(&mut self, side: usize, message: ToRelay) {
        let Side { partition, link, .. } = &mut self.sides[side];
        partition.handle_guild(self.clock.now(), message, false, link);
    }

    /// Delivers the oldest `count` held messages to guilds.
    pub fn deliver_to_guilds(&mut self, count: usize) {
        for _ in 0..count {
            let Some((guild_id, message)) = self.held_to_guilds.pop_front() else { break };
            self.tell_guild(guild_id, message);
        }
    }

    /// The queue between a guild and one of its relays overflowed: held messages of that relay are lost.
    pub fn overflow(&mut self, relay: RelayId, guild_id: GuildId) {
        let mail = &mut self.sides[usize::from(relay.partition.0)].mail;
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

    fn drain_guild(&mut self, guild_id: GuildId) {
        let now = self.clock.now();
        let Some(guild) = self.guilds.get_mut(&guild_id) else { return };
        while let Some(output) = guild.poll_output() {
            match output {
                GuildOutput::Relay(output) => {
                    let message = self.streams.entry(guild_id).or_default().send(output);
                    let Some(message) = message else { continue };
                    self.sides[usize::from(message.relay.partition.0)].mail.push_back(message);
                }
                GuildOutput::Write(Write::PutMessage(message)) => {
                    self.messages.insert((message.channel_id, message.id), message);
                }
                GuildOutput::Write(_) => {}
                GuildOutput::Users(published) => {
                    let user_ids = published.event.audience.rule.users().to_vec();
                    self.sides.iter_mut().for_each(|side| {
                        side.notes.push_back(Note::TellUsers(published.clone(), user_ids.clone()));
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
        for TokenCheck { side, conn, token, with_guilds } in std::mem::take(&mut self.token_checks) {
            let answer = self.authenticate(&token, with_guilds);
            self.answers.push_back((side, conn, answer));
        }
    }

    /// Answers the held token checks.
    pub fn answer_tokens(&mut self) {
        self.read_accounts();
        for (side, conn, answer) in std::mem::take(&mut self.answers) {
            self.sides[side].notes.push_back(Note::Authenticated(conn, answer));
        }
        self.settle();
    }

    fn authenticate(&mut self, token: &str, with_guilds: bool) -> Result<Account, AuthFailure> {
        if self.is_auth_down {
            return Err(AuthFailure::Unavailable);
        }
        let user = self.accounts.get(token).cloned().ok_or(AuthFailure::Invalid)?;
        let mut guilds = Vec::new();
        if with_guilds {
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
        Ok(Account { user, guilds, token: self.token, expires_at: self.token_expires_at })
    }

    /// Sends RECONNECT to `count` clients of a partition, with `GRACE_MS` to leave.
    pub fn ask_to_leave(&mut self, side: usize, count: usize) -> Leaving {
        let side = &mut self.sides[side];
        let leaving = side.partition.ask_to_leave(self.clock.now(), count, GRACE_MS, &mut side.link);
        self.settle();
        leaving
    }

    /// Sends RECONNECT to `count` clients with larger compression contexts; returns the number of clients.
    pub fn take_back_upgrades(&mut self, side: usize, count: usize) -> usize {
        let now = self.clock.now();
        let side = &mut self.sides[side];
        side.partition.take_back_upgrades(now, count, &mut side.link)
    }

    /// Ends the process and starts another one with its sessions, and with these guilds as the store has them. Aborts
    /// every connection. Returns the hand-over of each partition.
    pub fn restart(&mut self, guilds: Vec<Guild>, bytes_max: usize) -> Vec<HandOver> {
        for client in 0..self.clients.len() {
            self.clients[client].client.socket().cut();
        }
        self.settle();
        self.sides.iter_mut().for_each(|side| side.partition.leave_voice());
        self.settle();
        let now = self.clock.now();
        let over: Vec<HandOver> =
            self.sides.iter_mut().map(|side| side.partition.hand_over(now, bytes_max, false, &mut side.link)).collect();
        let text = serde_json::to_string(&over).expect("it is plain data");
        let over: Vec<HandOver> = serde_json::from_str(&text).expect("as it was written");
        self.guilds = guilds.into_iter().map(|guild| (guild.id(), guild)).collect();
        self.to_guilds.clear();
        let users = self.accounts.values().map(|user| (user.id, user.clone())).collect();
        for (index, over) in over.iter().enumerate() {
            let side = Side::new(index as u16, &self.config, &self.gate);
            self.sides[index] = side;
            self.sides[index].partition.take_over(now, over, &users);
        }
        self.settle();
        over
    }

    /// Sessions that still wait for a guild after a restart receive an outage of it.
    pub fn fail_pending_restores(&mut self) {
        for side in &mut self.sides {
            side.partition.fail_pending_restores(self.clock.now(), &mut side.link);
        }
        self.settle();
    }

    /// Closes every connection of a partition.
    pub fn close_all(&mut self, side: usize) {
        let side = &mut self.sides[side];
        side.partition.close_all(self.clock.now(), &mut side.link);
        self.settle();
    }

    /// Ends sessions of a partition.
    pub fn close_sessions(&mut self, side: usize, whose: &Whose, code: CloseCode) -> usize {
        let side = &mut self.sides[side];
        side.partition.close_sessions(self.clock.now(), whose, code, &mut side.link)
    }

    /// Advances the clock and runs what is due, once. For consecutive deadlines call it often.
    pub fn advance(&mut self, ms: u64) {
        self.clock.advance_ms(ms);
        let now = self.clock.now();
        for side in &mut self.sides {
            side.partition.handle_timers(now, &mut side.link);
        }
        for guild_id in self.guilds.keys().copied().collect::<Vec<_>>() {
            self.guilds.get_mut(&guild_id).expect("it was there just now").handle_timer(now);
            self.drain_guild(guild_id);
        }
        self.settle();
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
            self.settle();
        }
    }

    // ── the turn ─────────────────────────────────────────────────────────────────────────────────

    /// Runs turns until nothing moves.
    ///
    /// # Panics
    /// When it never becomes idle, or the server violated the protocol.
    pub fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            let mut has_moved = false;
            for side in 0..self.sides.len() {
                has_moved |= self.turn(side);
            }
            has_moved |= self.move_conns();
            has_moved |= self.read_clients();
            if !has_moved {
                return;
            }
        }
        panic!("the pair does not come to rest");
    }

    fn turn(&mut self, index: usize) -> bool {
        let now = self.clock.now();
        let holds_mail = self.holds_mail;
        let Side { partition, link, mail, notes } = &mut self.sides[index];
        let mut has_moved = false;
        for key in link.keys() {
            let Some(socket) = link.socket(key).cloned() else { continue };
            if socket.take_writable() {
                has_moved = true;
                partition.handle_writable(now, key, link);
            }
        }
        let mut more = false;
        while let Some(message) = mail.pop_front_if(|_| !holds_mail) {
            has_moved = true;
            more |= !mail.is_empty();
            partition.handle_guild(now, message, more, link);
        }
        while let Some(note) = notes.pop_front() {
            has_moved = true;
            match note {
                Note::Authenticated(conn, answer) => partition.handle_authenticated(now, conn, answer, link),
                Note::Joined(user_id, guild_id) => partition.handle_joined(now, user_id, guild_id),
                Note::TellUsers(published, user_ids) => partition.tell_users(now, &published, &user_ids, link),
                Note::Moved(socket, conn) => {
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
        while let Some(output) = self.sides[index].partition.poll_output() {
            has_moved = true;
            self.handle_output(index, output);
        }
        for Transfer { to, socket, conn, .. } in self.sides[index].link.take_transfers() {
            has_moved = true;
            self.moves.push_back((usize::from(to.0), socket, conn));
        }
        has_moved
    }

    fn handle_output(&mut self, side: usize, output: Output) {
        match output {
            Output::Authenticate { conn, token, with_guilds } => {
                self.token_checks.push_back(TokenCheck { side, conn, token, with_guilds });
                if !self.holds_tokens {
                    let token_check = self.token_checks.pop_back().expect("pushed above");
                    let answer = self.authenticate(&token_check.token, token_check.with_guilds);
                    self.sides[side].notes.push_back(Note::Authenticated(conn, answer));
                }
            }
            Output::ToGuild(guild_id, message) => {
                self.to_guilds.push((guild_id, message.clone()));
                self.held_to_guilds.push_back((guild_id, message));
                if !self.holds_to_guilds {
                    self.deliver_to_guilds(usize::MAX);
                }
            }
            Output::FetchMessages { session, guild_id, messages } => {
                let found: Vec<_> = messages.iter().filter_map(|id| self.messages.get(id).cloned()).collect();
                let Side { partition, link, .. } = &mut self.sides[side];
                partition.handle_messages(self.clock.now(), session, guild_id, &found, link);
            }
            Output::FetchDirects { session, user_id } => {
                self.held_directs.push_back((side, session, user_id));
                if !self.holds_directs {
                    self.answer_directs();
                }
            }
            Output::SessionNews(_) | Output::IdentifyRefused(_) => {}
            Output::ResumeRefused(refused) => self.refused_resumes.push(refused.fault),
        }
    }

    fn move_conns(&mut self) -> bool {
        if self.holds_moves || self.moves.is_empty() {
            return false;
        }
        for (to, socket, conn) in std::mem::take(&mut self.moves) {
            self.sides[to].notes.push_back(Note::Moved(socket, conn));
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
