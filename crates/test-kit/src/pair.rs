//! Pair: partitions, guilds and clients on one thread, with nothing between them but what a test puts there.
//!
//! Owns        the turn: bytes, guilds' messages, outputs and answers go around until nothing moves (`settle`).
//! Doors       `login` and `connect` for clients; `command` and `publish` for what happens; `advance` for time.
//! Invariants  each turn is what `guildhall-net` and `guildhall-node` do, with every commit done at once.
//! Limits      `TURNS_MAX` turns to settle: machines that never come to rest are a bug, and reported as one.

use crate::{
    client::{ClientParams, TestClient, identify_payload},
    clock::FakeClock,
    gate::ScriptedGate,
    received::{Dispatch, Received},
    socket::{FakeLink, FakeSocket, ServerEnd},
};
use guildhall_codec::Dictionary;
use guildhall_guild::{
    Actor, Command, DirectCommand, Guild, GuildLimits, JobId, NewDirect, Outcome, Output as GuildOutput, Refusal,
    Reply, Write,
};
use guildhall_model::{ChannelId, CloseCode, GuildId, Message, MessageId, User, UserId};
use guildhall_partition::{
    Account, AuthFailure, Compression, ConnParams, HandOver, Leaving, MovingConn, Output, Partition, PartitionConfig,
    Whose,
};
use guildhall_relay::{PartitionId, Published, RelayId, ToGuild, ToRelay};
use guildhall_stdx::{SlotKey, Timestamp};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

const TURNS_MAX: usize = 10_000;
/// Turns of a command that is done in slices.
const LATE_TURNS_MAX: usize = 10_000;

/// Who was asked to leave has so long.
pub const GRACE_MS: u64 = 1_500;

/// One of a pair's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId(usize);

/// How a pair is set up.
#[derive(Clone, Debug)]
pub struct PairConfig {
    /// How many partitions.
    pub partitions_count: u16,
    /// Of every partition; its number and secret are filled in.
    pub partition: PartitionConfig,
    /// Sockets take frames for later, as with io_uring.
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

/// A token that waits for its answer.
#[derive(Debug)]
struct Question {
    side: usize,
    conn: SlotKey,
    token: String,
    with_guilds: bool,
}

/// See the module.
pub struct Pair {
    /// Time.
    pub clock: FakeClock,
    /// Who may identify.
    pub gate: Arc<ScriptedGate>,
    /// What the partitions told guilds, in order; a test empties it when it likes.
    pub to_guilds: Vec<(GuildId, ToGuild)>,
    /// Tokens are not answered until `answer_tokens`.
    pub holds_tokens: bool,
    /// Tokens cannot be checked.
    pub is_auth_down: bool,
    /// What guilds tell partitions waits until `false`, or `deliver_mail`.
    pub holds_mail: bool,
    /// What partitions tell guilds waits until `false`, or `deliver_to_guilds`.
    pub holds_to_guilds: bool,
    /// Direct messages cannot be read.
    pub are_directs_down: bool,
    /// Direct messages are read by `answer_directs`.
    pub holds_directs: bool,
    /// Connections on their way to another partition stay there until `false`.
    pub holds_moves: bool,
    /// The number of whatever token is checked.
    pub token: u64,
    /// When it expires.
    pub token_expires_at: Option<Timestamp>,
    /// Bytes a partition is given at a time.
    pub read_bytes_max: usize,
    sides: Vec<Side>,
    config: PairConfig,
    guilds: BTreeMap<GuildId, Guild>,
    accounts: BTreeMap<String, Arc<User>>,
    named_guilds: BTreeMap<UserId, Vec<GuildId>>,
    held_to_guilds: VecDeque<(GuildId, ToGuild)>,
    /// Answers to commands that took a while.
    late_answers: BTreeMap<(GuildId, JobId), Result<Reply, Refusal>>,
    /// As the store would have them.
    messages: BTreeMap<(ChannelId, MessageId), Arc<Message>>,
    questions: VecDeque<Question>,
    /// Questions whose account was read, and whose answer is held.
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
            accounts: BTreeMap::new(),
            named_guilds: BTreeMap::new(),
            questions: VecDeque::new(),
            answers: VecDeque::new(),
            held_directs: VecDeque::new(),
            are_directs_down: false,
            holds_directs: false,
            moves: VecDeque::new(),
            clients: Vec::new(),
        }
    }

    /// One partition with limits changed.
    #[must_use]
    pub fn with(change: impl FnOnce(&mut PartitionConfig)) -> Self {
        let mut config = PairConfig::default();
        change(&mut config.partition);
        Self::new(config)
    }

    /// Makes an account known; its token is its user name.
    pub fn add_account(&mut self, user: &Arc<User>) {
        self.accounts.insert(user.username.clone(), user.clone());
    }

    /// Makes an account be in a guild that nobody runs: what it is told stays in `to_guilds`.
    pub fn name_guild(&mut self, user: &Arc<User>, guild_id: GuildId) {
        self.named_guilds.entry(user.id).or_default().push(guild_id);
    }

    /// Runs a guild.
    pub fn add_guild(&mut self, guild: Guild) {
        self.guilds.insert(guild.id(), guild);
    }

    /// A guild that was asked for before it ran: it gets what it was told so far.
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
            guild.handle_relay(self.clock.now(), message);
            self.drain_guild(guild_id);
        }
    }

    /// The first partition, for counters and inspection.
    #[must_use]
    pub fn partition(&self) -> &Partition {
        &self.sides[0].partition
    }

    /// The first partition, to do something to it.
    pub fn partition_mut(&mut self) -> &mut Partition {
        &mut self.sides[0].partition
    }

    /// A partition, to do something to it.
    pub fn partition_at_mut(&mut self, side: usize) -> &mut Partition {
        &mut self.sides[side].partition
    }

    /// A partition, for counters and inspection.
    #[must_use]
    pub fn partition_at(&self, side: usize) -> &Partition {
        &self.sides[side].partition
    }

    // ── clients ──────────────────────────────────────────────────────────────────────────────────

    /// A client whose upgrade was answered; HELLO is in its inbox.
    pub fn connect(&mut self, params: ClientParams) -> ClientId {
        self.connect_to(0, params)
    }

    /// The same, at a certain partition.
    pub fn connect_to(&mut self, side: usize, params: ClientParams) -> ClientId {
        let socket = self.accept(side, params.conn);
        let client = TestClient::new(params, socket).with_dictionary(self.dictionary(params));
        self.insert_client(client)
    }

    /// What the stream of a client begins with: every client has all dictionaries.
    fn dictionary(&self, params: ClientParams) -> Option<&Dictionary> {
        let Compression::ZstdDict(id) = params.conn.compression else { return None };
        self.config.partition.dictionaries.find(id).map(|known| &*known.dictionary)
    }

    /// A client that asked for something that is not served.
    pub fn connect_refused(&mut self, code: CloseCode) -> ClientId {
        let socket = FakeSocket::default();
        let side = &mut self.sides[0];
        side.link.insert(side.partition.next_conn_key(), socket.clone());
        side.partition.accept_refused(self.clock.now(), code, &mut side.link);
        self.insert_client(TestClient::new(ClientParams::JSON, socket))
    }

    /// The same client on a new connection; the old one stays as it is, under its old id.
    pub fn reconnect(&mut self, client: ClientId) -> ClientId {
        let params = self.client(client).params();
        self.reconnect_to(0, client, params)
    }

    /// The same, at a certain partition or connected in another way.
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

    /// A client that has identified with an account's token; everything it got is in its inbox.
    pub fn login(&mut self, account: &Arc<User>, intents: Option<u32>, params: ClientParams) -> ClientId {
        let client = self.connect(params);
        self.client(client).identify(identify_payload(&account.username, intents));
        self.settle();
        client
    }

    /// A client, to send something. `settle` brings it to the partition.
    pub fn client(&mut self, client: ClientId) -> &mut TestClient {
        &mut self.clients[client.0].client
    }

    /// Everything a client got since it was last asked.
    ///
    /// # Panics
    /// When the server broke the protocol.
    pub fn take(&mut self, client: ClientId) -> Vec<Received> {
        self.settle();
        std::mem::take(&mut self.clients[client.0].inbox)
    }

    /// The dispatches among it.
    pub fn dispatches(&mut self, client: ClientId) -> Vec<Dispatch> {
        let dispatch = |received| if let Received::Dispatch(dispatch) = received { Some(dispatch) } else { None };
        self.take(client).into_iter().filter_map(dispatch).collect()
    }

    /// Sequence numbers and names of the dispatches among it.
    pub fn names(&mut self, client: ClientId) -> Vec<(u64, String)> {
        self.dispatches(client).into_iter().map(|dispatch| (dispatch.seq, dispatch.name)).collect()
    }

    /// The code of the close frame among it.
    pub fn close_code(&mut self, client: ClientId) -> Option<u16> {
        self.take(client).into_iter().find_map(|received| match received {
            Received::Close(code, _) => code,
            _ => None,
        })
    }

    /// A client stops reading: what it is sent stays in its socket.
    pub fn stop_reading(&mut self, client: ClientId) {
        self.clients[client.0].is_reading = false;
    }

    /// A client reads again.
    pub fn start_reading(&mut self, client: ClientId) {
        self.clients[client.0].is_reading = true;
        self.settle();
    }

    /// A client that does not read by itself takes at most `max` bytes; what they complete goes to its inbox.
    ///
    /// # Panics
    /// When the server broke the protocol.
    pub fn read_some(&mut self, client: ClientId, max: usize) {
        let slot = &mut self.clients[client.0];
        let received = slot.client.read(max).unwrap_or_else(|fault| panic!("{}", fault.0));
        slot.inbox.extend(received);
    }

    /// A client vanishes, with everything on its way to it, and the partition notices.
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

    /// Runs a command. What follows from it waits for `settle`.
    ///
    /// # Errors
    /// The guild's refusal.
    ///
    /// # Panics
    /// When there is no such guild, or it asks for messages without end.
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
                        // What is done in slices goes on with time.
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

    /// Makes a direct message or a group.
    pub fn add_direct(&mut self, new: NewDirect) {
        let guild_id = new.id.cast();
        self.guilds.insert(guild_id, Guild::create_direct(self.clock.now(), new, GuildLimits::default(), 5));
        self.drain_guild(guild_id);
    }

    /// Answers who waits for their direct messages.
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

    /// A guild's message to a partition, as if it had come from the guild.
    pub fn publish(&mut self, side: usize, message: ToRelay) {
        self.sides[side].mail.push_back(message);
    }

    /// An account joined a guild, as the rest of the node tells every partition.
    pub fn announce_joined(&mut self, user: &Arc<User>, guild_id: GuildId) {
        self.sides.iter_mut().for_each(|side| side.notes.push_back(Note::Joined(user.id, guild_id)));
    }

    /// Hands a partition all that waits for it from its guilds, and nothing else happens.
    pub fn hand_over_mail(&mut self, side: usize) {
        while let Some(message) = self.sides[side].mail.pop_front() {
            self.hand_over(side, message);
        }
    }

    /// Hands a partition the oldest `count` of what waits for it from its guilds.
    pub fn deliver_mail(&mut self, side: usize, count: usize) {
        for _ in 0..count {
            let Some(message) = self.sides[side].mail.pop_front() else { break };
            self.hand_over(side, message);
        }
        self.settle();
    }

    /// Hands one relay the oldest `count` of what waits for it, past what waits for others there.
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

    /// The oldest message that waits for a relay vanishes, and nobody notices. Returns whether there was one.
    pub fn lose_mail_to(&mut self, relay: RelayId) -> bool {
        let mail = &mut self.sides[usize::from(relay.partition.0)].mail;
        let at = mail.iter().position(|message| message.relay == relay);
        at.and_then(|at| mail.remove(at)).is_some()
    }

    fn hand_over(&mut self, side: usize, message: ToRelay) {
        let Side { partition, link, .. } = &mut self.sides[side];
        partition.handle_guild(self.clock.now(), message, false, link);
    }

    /// Hands guilds the oldest `count` of what waits for them.
    pub fn deliver_to_guilds(&mut self, count: usize) {
        for _ in 0..count {
            let Some((guild_id, message)) = self.held_to_guilds.pop_front() else { break };
            self.tell_guild(guild_id, message);
        }
    }

    /// The link between a guild and one of its relays overflowed: what waits for it is lost.
    pub fn overflow(&mut self, relay: RelayId, guild_id: GuildId) {
        let mail = &mut self.sides[usize::from(relay.partition.0)].mail;
        mail.retain(|message| message.relay != relay || message.guild_id != guild_id);
        let guild = self.guilds.get_mut(&guild_id).expect("the guild is run here");
        guild.handle_relay_lost(relay);
        self.drain_guild(guild_id);
    }

    /// The link has room again.
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
                GuildOutput::Relay(relay, message) => {
                    self.sides[usize::from(relay.partition.0)].mail.push_back(message);
                }
                GuildOutput::Write(Write::PutMessage(message)) => {
                    self.messages.insert((message.channel_id, message.id), message);
                }
                GuildOutput::Write(_) => {}
                GuildOutput::Users(published) => {
                    let user_ids = published.event.audience.gate.users().to_vec();
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

    /// Reads the accounts behind the tokens that are held, but goes on holding the answers.
    pub fn read_accounts(&mut self) {
        for Question { side, conn, token, with_guilds } in std::mem::take(&mut self.questions) {
            let answer = self.authenticate(&token, with_guilds);
            self.answers.push_back((side, conn, answer));
        }
    }

    /// Answers the tokens that were held.
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

    /// Asks so many clients of a partition to go away and resume, within `GRACE_MS`.
    pub fn ask_to_leave(&mut self, side: usize, count: usize) -> Leaving {
        let side = &mut self.sides[side];
        let leaving = side.partition.ask_to_leave(self.clock.now(), count, GRACE_MS, &mut side.link);
        self.settle();
        leaving
    }

    /// Asks so many clients with larger compression contexts to reconnect; how many were asked.
    pub fn take_back_upgrades(&mut self, side: usize, count: usize) -> usize {
        let now = self.clock.now();
        let side = &mut self.sides[side];
        side.partition.take_back_upgrades(now, count, &mut side.link)
    }

    /// The process ends, and another one begins with the sessions of the first, and with these guilds as the store has
    /// them. Every connection is cut. What went over, as it did.
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

    /// Sessions that still wait for a guild after a restart are told of an outage.
    pub fn give_up_returning(&mut self) {
        for side in &mut self.sides {
            side.partition.give_up_returning(self.clock.now(), &mut side.link);
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

    /// Time passes, and what is due happens. Nothing happens in between: for deadlines in a row call it often.
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

    /// Time passes while every client that reads keeps its heartbeat.
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

    /// Lets everything go around until nothing moves.
    ///
    /// # Panics
    /// When it never comes to rest, or the server broke the protocol.
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
        has_moved
    }

    fn handle_output(&mut self, side: usize, output: Output) {
        match output {
            Output::Authenticate { conn, token, with_guilds } => {
                self.questions.push_back(Question { side, conn, token, with_guilds });
                if !self.holds_tokens {
                    let question = self.questions.pop_back().expect("pushed above");
                    let answer = self.authenticate(&question.token, question.with_guilds);
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
            Output::SessionNews(_) => {}
            Output::Transfer { to, socket, conn } => {
                let socket = self.sides[side].link.take(socket).expect("a socket moves once");
                self.moves.push_back((usize::from(to.0), socket, conn));
            }
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
