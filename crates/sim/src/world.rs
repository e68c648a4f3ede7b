//! World: the machines, the wires between them, and the order in which things happen.
//!
//! Owns        one guild, its pipeline, two partitions with their links, the clients, and the checker beside them.
//! Invariants  what happens next is drawn from the seed alone. Everything that crosses between two machines waits in
//!             a queue here for as long as chance likes, but arrives in order; a full link to a relay cuts its stream.
//! Not here    which commands and what clients do: `act.rs`.

use crate::{
    Options, Summary, Violation,
    act::Actions,
    checker::{Carried, Checker, Fault, Identified, SessionLimits, fault},
    client::{Claim, Client, ConnInfo, Phase},
    naive::Event,
    pipeline::{Group, Pipeline, Store},
    sabotage::Saboteur,
};
use guildhall_codec::{ZlibParams, ZstdParams};
use guildhall_guild::{Actor, Command, Guild, GuildLimits, Outcome, Output as GuildOutput, Reply};
use guildhall_model::{ChannelId, GuildId, MessageId, User, UserId};
use guildhall_partition::{Account, AuthFailure, MovingConn, Output, Partition, PartitionConfig};
use guildhall_relay::{PartitionId, RelayMessage, ToGuild};
use guildhall_stdx::{Now, Rng, SlotKey};
use guildhall_test_kit::{FakeClock, FakeLink, FakeSocket, Received, ScriptedGate, ServerEnd, TestClient};
use std::{
    collections::{BTreeMap, VecDeque},
    rc::Rc,
    sync::Arc,
};

/// Partitions.
pub const SIDES: usize = 2;
/// A relay that is always there: the checker reads the guild's events from its stream.
const OBSERVER: PartitionId = PartitionId(99);
/// Turns in which everything under way must come to rest.
const SETTLE_TURNS_MAX: usize = 400;

/// What reaches a partition beside its guilds' messages and its sockets.
enum Note {
    Authenticated { conn: SlotKey, result: Result<Account, AuthFailure> },
    Joined(UserId),
    Moved { socket: FakeSocket, conn: Box<MovingConn>, serial: u64 },
}

/// A token that is being checked.
struct Question {
    conn: SlotKey,
    token: String,
    with_guilds: bool,
    /// The account as it was read; the answer is on its way.
    answer: Option<Result<Account, AuthFailure>>,
}

pub struct Side {
    pub partition: Partition,
    pub link: FakeLink,
    inbox: VecDeque<Carried>,
    is_lagging: bool,
    to_guild: VecDeque<ToGuild>,
    notes: VecDeque<Note>,
    questions: VecDeque<Question>,
    /// Serial numbers of the connections here.
    serials: BTreeMap<SlotKey, u64>,
}

/// See the module.
pub struct World {
    pub seed: u64,
    pub options: Options,
    pub rng: Rng,
    pub clock: FakeClock,
    pub guild: Guild,
    pub sides: Vec<Side>,
    pub clients: Vec<Client>,
    pub conns: Vec<ConnInfo>,
    pub checker: Checker,
    pub actions: Actions,
    pub accounts: Vec<Arc<User>>,
    /// Nothing goes wrong any more, nobody is slow: everything must arrive.
    pub is_calm: bool,
    link_capacity: usize,
    pipeline: Pipeline,
    store: Store,
    saboteur: Saboteur,
    step: u32,
    at_client: Option<usize>,
    resets: u64,
}

impl World {
    pub fn new(seed: u64, options: Options) -> Self {
        let mut rng = Rng::new(seed);
        let setup = crate::act::setup(&mut rng);
        let limits = SessionLimits {
            resume_window_ms: 180_000,
            gather_deadline_ms: 5_000,
            replay_events_max: *rng.pick(&[4_096, 4_096, 60, 25]).expect("there are some"),
            backlog_events_max: *rng.pick(&[8_192, 8_192, 80, 40]).expect("there are some"),
        };
        let link_capacity = *rng.pick(&[65_536, 65_536, 48, 12]).expect("there are some");
        let gate = Arc::new(ScriptedGate::default());
        let secret = [rng.below(256) as u8; 32];
        let side = |n: usize| {
            let mut config = PartitionConfig::new(PartitionId(n as u16), "wss://sim.example.net".into(), secret);
            config.partitions_count = SIDES as u16;
            config.replay_events_max = limits.replay_events_max as usize;
            config.backlog_events_max = limits.backlog_events_max as usize;
            // Small contexts: making them is most of what a short connection costs.
            config.zlib = ZlibParams { level: 1, window_bits: 12, mem_level: 5 };
            config.zstd = ZstdParams { level: 1, window_log: 14, chain_log: 8, hash_log: 10, block_bytes_max: 4 << 10 };
            Side {
                partition: Partition::new(config, gate.clone()),
                // One partition sends each frame by itself, the other in batches.
                link: if n == 0 { FakeLink::default() } else { FakeLink::batching() },
                inbox: VecDeque::new(),
                is_lagging: false,
                to_guild: VecDeque::new(),
                notes: VecDeque::new(),
                questions: VecDeque::new(),
                serials: BTreeMap::new(),
            }
        };
        let guild_limits = GuildLimits {
            cached_messages_max: *rng.pick(&[2_048, 16]).expect("there are two"),
            voice_endpoint: Some("voice.example.net".to_owned()),
            seed,
            ..GuildLimits::default()
        };
        let checker = Checker::new(&setup.record, SIDES, limits, &setup.accounts);
        let store = Store::with_members(setup.record.members.iter().map(|member| member.user.id));
        let mut guild = Guild::load(setup.record, guild_limits, 1);
        let clock = FakeClock::default();
        guild.handle_relay(clock.now(), ToGuild::Subscribe { partition: OBSERVER, epoch: 1 });
        while guild.poll_output().is_some() {}
        Self {
            seed,
            options,
            rng,
            clock,
            guild,
            sides: (0..SIDES).map(side).collect(),
            clients: setup.clients,
            conns: Vec::new(),
            checker,
            actions: Actions::default(),
            accounts: setup.accounts,
            is_calm: false,
            link_capacity,
            pipeline: Pipeline::default(),
            store,
            saboteur: Saboteur::new(options.sabotage),
            step: 0,
            at_client: None,
            resets: 0,
        }
    }

    pub fn run(mut self) -> Result<Summary, Violation> {
        match self.run_steps() {
            Ok(()) => Ok(self.summary()),
            Err(Fault(what)) => Err(Violation { seed: self.seed, step: self.step, client: self.at_client, what }),
        }
    }

    fn summary(&self) -> Summary {
        let mut summary = Summary { compared: self.checker.compared_count, resets: self.resets, ..Summary::default() };
        for side in &self.sides {
            let counters = side.partition.counters();
            summary.sessions += counters.identified_total;
            summary.resumed += counters.resumed_total;
            summary.refused += counters.resumes_refused_total;
            summary.withheld += counters.withheld_total;
        }
        summary.moved = self.actions.moved;
        summary
    }

    fn run_steps(&mut self) -> Result<(), Fault> {
        while self.step < self.options.steps {
            self.step += 1;
            self.at_client = None;
            self.act()?;
            for side in 0..SIDES {
                if self.rng.chance(0.7) {
                    self.turn(side)?;
                }
            }
            self.wires();
            self.read_clients()?;
            if self.step.is_multiple_of(200) {
                self.rest(false)?;
            }
        }
        self.rest(true)
    }

    pub fn now(&self) -> Now {
        self.clock.now()
    }

    pub fn guild_id(&self) -> GuildId {
        self.guild.id()
    }

    pub fn trace(&self, text: impl FnOnce() -> String) {
        if self.options.trace {
            eprintln!("{:5} {}", self.step, text());
        }
    }

    /// True with probability `p`, and always once it is calm.
    pub fn luck(&mut self, p: f64) -> bool {
        let drawn = self.rng.chance(p);
        drawn || self.is_calm
    }

    // ── the guild ────────────────────────────────────────────────────────────────────────────────

    /// Runs a command; loads from what is durable what it needs.
    pub fn command(&mut self, actor: Actor, command: &Command) -> Option<Reply> {
        let now = self.now();
        for _ in 0..4 {
            let outcome = self.guild.handle_command(now, actor, command);
            let joined = match (command, &outcome) {
                (Command::AddMember(user), Outcome::Reply(Ok(_))) => Some(user.id),
                _ => None,
            };
            self.after_guild(joined);
            match outcome {
                Outcome::Reply(reply) => {
                    self.trace(|| format!("{actor:?} {command:?} {}", if reply.is_ok() { "ok" } else { "refused" }));
                    return reply.ok();
                }
                Outcome::NeedsMessage(channel, message) => self.load_message(channel, message),
            }
        }
        None
    }

    fn load_message(&mut self, channel: ChannelId, message: MessageId) {
        let record = self.store.message(channel, message);
        self.guild.handle_message_loaded(channel, message, record);
        self.after_guild(None);
    }

    /// Takes what came out of the guild's input, and shows it to the checker in the order it was made.
    fn after_guild(&mut self, joined: Option<UserId>) {
        let outputs: Vec<GuildOutput> = std::iter::from_fn(|| self.guild.poll_output()).collect();
        let events: Vec<_> = outputs
            .iter()
            .filter_map(|output| match output {
                GuildOutput::Relay(OBSERVER, message) => match &message.message {
                    RelayMessage::Published(published) => Some(published.clone()),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        let mut seen_count = 0;
        let mut current: Option<Rc<Event>> = None;
        let mut group = Group::new(self.guild.version(), joined);
        let made_at_unix_ms = self.now().unix.0;
        for output in outputs {
            let (partition, message) = match output {
                GuildOutput::Write(write) => {
                    group.writes.push(write);
                    continue;
                }
                GuildOutput::Relay(partition, message) => (partition, message),
            };
            let event = match &message.message {
                RelayMessage::Published(published) => {
                    // The same event comes once per relay, in a row.
                    let is_new = seen_count == 0 || !Arc::ptr_eq(published, &events[seen_count - 1]);
                    if is_new {
                        let next = events.get(seen_count + 1).map(|next| &next.event);
                        seen_count += 1;
                        current = Some(self.checker.published(&published.event, next));
                    }
                    current.clone()
                }
                RelayMessage::Direct { event, .. } => Some(self.checker.direct(event)),
                _ => None,
            };
            if partition != OBSERVER {
                let carried = Carried { message, state: self.checker.state.clone(), event, made_at_unix_ms };
                group.relay.push((usize::from(partition.0), carried));
            }
        }
        self.pipeline.push(group);
        self.release();
    }

    /// Lets out what is durable, into links that may be full.
    fn release(&mut self) {
        while let Some(group) = self.pipeline.pop_ready() {
            let mut cut_off = [false; SIDES];
            for (side, carried) in group.relay {
                if cut_off[side] {
                    continue;
                }
                if self.is_calm || self.sides[side].inbox.len() < self.link_capacity {
                    self.sides[side].inbox.push_back(carried);
                    continue;
                }
                cut_off[side] = true;
                self.trace(|| format!("the link to {side} is full"));
                self.pipeline.cut_off(side);
                self.sides[side].is_lagging = true;
                self.guild.handle_relay_lost(PartitionId(side as u16));
                // Only pushed: this loop lets it out.
                self.collect_silently();
            }
            if let Some(user_id) = group.joined {
                self.sides.iter_mut().for_each(|side| side.notes.push_back(Note::Joined(user_id)));
            }
        }
    }

    /// What a guild says after it lost a relay concerns nobody else.
    fn collect_silently(&mut self) {
        let outputs: Vec<GuildOutput> = std::iter::from_fn(|| self.guild.poll_output()).collect();
        assert!(outputs.is_empty(), "a lost relay led to {outputs:?}");
    }

    /// Commits, the guild's mailbox, and links that have room again.
    fn wires(&mut self) {
        if self.luck(0.35) {
            self.pipeline.begin_commit();
        }
        if self.luck(0.35)
            && let Some(version) = self.pipeline.end_commit(&mut self.store)
        {
            self.release();
            self.guild.handle_committed(version);
            self.after_guild(None);
        }
        for side in 0..SIDES {
            let has_room = self.sides[side].inbox.len() * 2 <= self.link_capacity;
            if self.sides[side].is_lagging && has_room && self.luck(0.3) {
                self.trace(|| format!("the link to {side} has room again"));
                self.sides[side].is_lagging = false;
                self.guild.handle_relay_room(PartitionId(side as u16));
                self.after_guild(None);
            }
            let count = if self.is_calm { usize::MAX } else { self.rng.below(6) as usize };
            for _ in 0..count {
                let Some(message) = self.sides[side].to_guild.pop_front() else { break };
                let now = self.now();
                self.guild.handle_relay(now, message);
                self.after_guild(None);
            }
        }
        self.answer_questions();
    }

    fn answer_questions(&mut self) {
        let is_down = !self.is_calm && self.rng.chance(0.01);
        for side in 0..SIDES {
            let mut questions = std::mem::take(&mut self.sides[side].questions);
            for question in &mut questions {
                if question.answer.is_none() && self.luck(0.6) {
                    question.answer =
                        Some(if is_down { Err(AuthFailure::Unavailable) } else { self.read_account(question) });
                }
            }
            // Answers may overtake each other.
            let mut left = VecDeque::new();
            for question in questions {
                match question.answer {
                    Some(result) if self.luck(0.6) => {
                        self.sides[side].notes.push_back(Note::Authenticated { conn: question.conn, result });
                    }
                    _ => left.push_back(question),
                }
            }
            self.sides[side].questions = left;
        }
    }

    fn read_account(&self, question: &Question) -> Result<Account, AuthFailure> {
        let user = self.accounts.iter().find(|user| user.username == question.token).cloned();
        let user = user.ok_or(AuthFailure::Invalid)?;
        let is_member = question.with_guilds && self.store.members.contains(&user.id);
        let guilds = if is_member { vec![self.guild_id()] } else { Vec::new() };
        Ok(Account { user, guilds })
    }

    // ── partitions ───────────────────────────────────────────────────────────────────────────────

    /// One turn of a partition's loop, as in `guildhall-net`.
    fn turn(&mut self, side: usize) -> Result<(), Fault> {
        let count = if self.is_calm { usize::MAX } else { self.rng.below(24) as usize };
        let mut more = false;
        for n in 0..count {
            let Some(carried) = self.sides[side].inbox.pop_front() else { break };
            more |= n + 1 < count && !self.sides[side].inbox.is_empty();
            self.deliver(side, &carried, more)?;
        }
        let count = if self.is_calm { usize::MAX } else { self.rng.below(8) as usize };
        for _ in 0..count {
            let Some(note) = self.sides[side].notes.pop_front() else { break };
            self.handle_note(side, note)?;
        }
        self.sockets(side)?;
        let now = self.now();
        let Side { partition, link, .. } = &mut self.sides[side];
        partition.flush(now, link);
        self.outputs(side)?;
        self.look(side, false)
    }

    fn deliver(&mut self, side: usize, carried: &Carried, more: bool) -> Result<(), Fault> {
        let is_reset = matches!(carried.message.message, RelayMessage::Snapshot { reset: true, .. });
        self.resets += u64::from(is_reset);
        self.trace(|| format!("to {side}: {}", crate::act::brief(&carried.message)));
        self.checker.deliver(side, carried)?;
        let now = self.now();
        let messages = self.saboteur.pass(side, carried.message.clone());
        let Side { partition, link, .. } = &mut self.sides[side];
        for message in messages {
            partition.handle_guild(now, message, more, link);
        }
        self.outputs(side)
    }

    fn handle_note(&mut self, side: usize, note: Note) -> Result<(), Fault> {
        let now = self.now();
        match note {
            Note::Joined(user_id) => {
                let guild_id = self.guild_id();
                self.sides[side].partition.handle_joined(now, user_id, guild_id);
                self.outputs(side)
            }
            Note::Authenticated { conn, result } => self.authenticated(side, conn, result),
            Note::Moved { socket, conn, serial } => {
                let key = self.sides[side].partition.next_conn_key();
                let user = conn.user_id;
                self.sides[side].link.insert(key, socket);
                self.sides[side].serials.insert(key, serial);
                self.judge_resume(side, key, serial, user, |world| {
                    let Side { partition, link, .. } = &mut world.sides[side];
                    partition.handle_transferred(now, *conn, link);
                })
            }
        }
    }

    fn authenticated(&mut self, side: usize, conn: SlotKey, result: Result<Account, AuthFailure>) -> Result<(), Fault> {
        let now = self.now();
        let Some(serial) = self.sides[side].serials.get(&conn).copied() else { return Ok(()) };
        let account = result.clone().ok();
        let handle = |world: &mut Self| {
            let Side { partition, link, .. } = &mut world.sides[side];
            partition.handle_authenticated(now, conn, result, link);
        };
        let info = self.conns[serial as usize].clone();
        let Some(account) = account else {
            handle(self);
            return self.outputs(side);
        };
        match info.claim {
            Claim::None => fault("a token was checked that nobody sent"),
            Claim::Identify => {
                let before = self.sides[side].partition.counters().identified_total;
                handle(self);
                if self.sides[side].partition.counters().identified_total > before {
                    self.identified(side, conn, serial, &account, info.client)?;
                }
                self.outputs(side)
            }
            Claim::Resume { .. } => self.judge_resume(side, conn, serial, account.user.id, handle),
        }
    }

    fn identified(
        &mut self,
        side: usize,
        conn: SlotKey,
        serial: u64,
        account: &Account,
        client: usize,
    ) -> Result<(), Fault> {
        let found = self.sides[side].partition.sessions().find(|session| session.conn == Some(conn));
        let Some(session) = found else { return fault("IDENTIFY succeeded without a session") };
        let client = &self.clients[client];
        let in_shard = client.is_in_shard(self.guild_id().get());
        // A guild that was joined while the token was checked is known from the notice.
        let guilds = session.guilds.keys().map(|id| id.get()).collect();
        let new = Identified {
            key: session.key,
            id: session.id.clone(),
            user: account.user.clone(),
            intents: client.effective_intents(),
            large_threshold: client.large_threshold,
            in_shard,
            encoding: client.params.conn.encoding,
            guilds,
            conn,
            conn_serial: serial,
        };
        let now = self.now();
        let (user, guilds) = (new.user.id, new.guilds.clone());
        self.trace(|| format!("{:?} of {user} starts with {guilds:?}", new.key));
        self.checker.identified(now, side, new);
        Ok(())
    }

    /// Handles a RESUME, and holds its outcome against what it had to be.
    fn judge_resume(
        &mut self,
        side: usize,
        conn: SlotKey,
        serial: u64,
        user: UserId,
        handle: impl FnOnce(&mut Self),
    ) -> Result<(), Fault> {
        let ConnInfo { client, claim } = self.conns[serial as usize].clone();
        let Claim::Resume { session_id, seq } = claim else { return fault("a RESUME that nobody sent") };
        let encoding = self.clients[client].params.conn.encoding;
        // It may have ended a moment ago.
        self.look(side, false)?;
        let known = self.checker.session_by_id(&session_id);
        let must = self.checker.resume_must(known, user.get(), encoding, seq);
        let before = self.sides[side].partition.counters();
        handle(self);
        let after = self.sides[side].partition.counters();
        let has_resumed = after.resumed_total > before.resumed_total;
        let was_refused = after.resumes_refused_total > before.resumes_refused_total;
        self.at_client = Some(client);
        self.trace(|| format!("client {client} resumes from {seq}: {has_resumed}, refused {was_refused}"));
        if was_refused && must == Some(true) {
            let kept = self.sides[side].partition.sessions().find(|session| *session.id == *session_id);
            let kept = kept.map(|session| (session.replay.first_seq(), session.replay.last_seq()));
            return fault(format!("RESUME of {session_id} from {seq} was refused, but had to succeed; kept: {kept:?}"));
        }
        if has_resumed && must == Some(false) {
            return fault(format!("RESUME of {session_id} from {seq} succeeded, but had to be refused"));
        }
        if has_resumed && let Some(at) = known {
            self.checker.resumed(at, conn, serial, seq);
        }
        self.outputs(side)
    }

    /// What the poll would say: room, bytes, ends.
    fn sockets(&mut self, side: usize) -> Result<(), Fault> {
        let now = self.now();
        for key in self.sides[side].link.keys() {
            let Some(socket) = self.sides[side].link.socket(key).cloned() else { continue };
            if self.luck(0.8) && socket.take_writable() {
                let Side { partition, link, .. } = &mut self.sides[side];
                partition.handle_writable(now, key, link);
            }
            if socket.to_server_bytes() > 0 && self.luck(0.8) {
                let max = if self.luck(0.8) { usize::MAX } else { 1 + self.rng.below(200) as usize };
                if let Some(mut bytes) = socket.take_readable(max) {
                    let Side { partition, link, .. } = &mut self.sides[side];
                    partition.handle_bytes(now, key, &mut bytes, link);
                }
            } else if self.luck(0.3) && socket.take_hangup() {
                let Side { partition, link, .. } = &mut self.sides[side];
                partition.handle_hangup(now, key, link);
            }
        }
        Ok(())
    }

    fn outputs(&mut self, side: usize) -> Result<(), Fault> {
        while let Some(output) = self.sides[side].partition.poll_output() {
            match output {
                Output::Authenticate { conn, token, with_guilds } => {
                    self.sides[side].questions.push_back(Question { conn, token, with_guilds, answer: None });
                }
                Output::ToGuild(_, message) => {
                    self.trace(|| format!("from {side}: {message:?}").chars().take(120).collect());
                    self.checker.told_guild(side, &message)?;
                    self.sides[side].to_guild.push_back(message);
                }
                Output::Transfer { to, socket, conn } => {
                    let from = &mut self.sides[side];
                    let Some(moving) = from.link.take(socket) else { return fault("a socket that is not there moves") };
                    let Some(serial) = from.serials.remove(&socket) else { return fault("an unknown socket moves") };
                    self.actions.moved += 1;
                    let note = Note::Moved { socket: moving, conn, serial };
                    self.sides[usize::from(to.0)].notes.push_back(note);
                }
            }
        }
        Ok(())
    }

    fn look(&mut self, side: usize, timers_ran: bool) -> Result<(), Fault> {
        let now = self.now();
        self.checker.look(now, side, &self.sides[side].partition, timers_ran)
    }

    /// Time passes.
    pub fn advance(&mut self, ms: u64) -> Result<(), Fault> {
        self.trace(|| format!("{ms} ms pass"));
        self.clock.advance_ms(ms);
        let now = self.now();
        for side in 0..SIDES {
            let Side { partition, link, .. } = &mut self.sides[side];
            partition.handle_timers(now, link);
            self.outputs(side)?;
            // A connection that was due as well may have ended before READY was said.
            self.look(side, true)?;
            self.checker.timers(now, side);
        }
        if self.guild.next_deadline().is_some_and(|at| at <= now.instant) {
            self.guild.handle_timer(now);
            self.after_guild(None);
        }
        self.beat();
        Ok(())
    }

    // ── clients ──────────────────────────────────────────────────────────────────────────────────

    /// A client's upgrade is answered by one of the partitions.
    pub fn connect(&mut self, client: usize, side: usize) {
        let socket = FakeSocket::default();
        self.actions.shape(&mut self.rng, self.is_calm, &socket);
        let now = self.now();
        let serial = self.conns.len() as u64;
        self.conns.push(ConnInfo { client, claim: Claim::None });
        let params = self.clients[client].params;
        let Side { partition, link, serials, .. } = &mut self.sides[side];
        let key = partition.next_conn_key();
        link.insert(key, socket.clone());
        serials.insert(key, serial);
        partition.accept(now, params.conn, link);
        let client = &mut self.clients[client];
        client.wire = Some(TestClient::new(params, socket));
        client.serial = serial;
        client.phase = Phase::Connected;
        client.beats.clear();
        client.is_bad = false;
        client.was_told = false;
    }

    fn read_clients(&mut self) -> Result<(), Fault> {
        for at in 0..self.clients.len() {
            let client = &self.clients[at];
            let Some(wire) = &client.wire else { continue };
            let has_news = wire.socket().unread_bytes() > 0 || wire.socket().server_end() != ServerEnd::Open;
            if !has_news {
                continue;
            }
            let is_slow = client.is_slow && !self.is_calm;
            if !self.luck(if is_slow { 0.1 } else { 0.7 }) {
                continue;
            }
            let max = if is_slow { 1 + self.rng.below(2_000) as usize } else { usize::MAX };
            self.read_client(at, max)?;
        }
        Ok(())
    }

    fn read_client(&mut self, at: usize, max: usize) -> Result<(), Fault> {
        self.at_client = Some(at);
        let Some(wire) = &mut self.clients[at].wire else { return Ok(()) };
        if self.options.trace {
            eprintln!(
                "      client {at} reads {} of {}",
                max.min(wire.socket().unread_bytes()),
                wire.socket().unread_bytes()
            );
        }
        let received = wire.read(max).map_err(|error| Fault(error.0))?;
        for received in received {
            self.receive(at, received)?;
        }
        self.at_client = None;
        Ok(())
    }

    fn receive(&mut self, at: usize, received: Received) -> Result<(), Fault> {
        if self.options.trace {
            eprintln!("      client {at} {:?} got {received:?}", self.clients[at].phase);
        }
        let client = &mut self.clients[at];
        match received {
            Received::Hello { .. } if client.phase == Phase::Connected => client.phase = Phase::Greeted,
            Received::Hello { .. } => return fault("a second HELLO"),
            Received::Dispatch(dispatch) => {
                if client.phase == Phase::Greeted || client.phase == Phase::Connected {
                    return fault(format!("{} without a session", dispatch.name));
                }
                let session = self.checker.received(client.session, client.seq, &dispatch)?;
                client.session = Some(session);
                client.seq = dispatch.seq;
                if client.phase != Phase::Closing {
                    client.phase = match (client.phase, dispatch.name.as_str()) {
                        (Phase::Resuming, "RESUMED") | (Phase::Identifying, "READY") => Phase::Live,
                        (phase, _) => phase,
                    };
                }
            }
            Received::HeartbeatAck => {
                let Some((session, seq)) = client.beats.pop_front() else { return fault("an answer to no heartbeat") };
                if let Some(session) = session {
                    self.checker.sessions[session].acknowledged(seq);
                }
            }
            Received::InvalidSession(false) => self.invalid_session(at)?,
            Received::InvalidSession(true) => return fault("op 9 true"),
            Received::Reconnect => {}
            Received::Pong(_) => return fault("an answer to no ping"),
            Received::Close(code, reason) => {
                client.was_told = true;
                let client = &self.clients[at];
                let is_expected = match client.phase {
                    Phase::Closing => true,
                    _ => {
                        code == Some(4000)
                            || client.is_bad && code == Some(4001)
                            || self.is_late(at) && code == Some(4003)
                    }
                };
                if !is_expected {
                    return fault(format!("closed with {code:?}, {reason}"));
                }
            }
            Received::End => {
                if let Some(wire) = client.wire.take() {
                    if wire.socket().server_end() == ServerEnd::Finished && !client.was_told {
                        return fault("the connection was finished without a close frame");
                    }
                    wire.socket().client_close();
                }
                client.phase = Phase::Offline;
            }
        }
        Ok(())
    }

    /// Whether this client may be told that it is nobody: it did not identify in time, or its session was invalidated
    /// and it does not know yet.
    fn is_late(&self, at: usize) -> bool {
        let client = &self.clients[at];
        let is_gone = client.session.is_some_and(|session| self.checker.sessions[session].gone.is_some());
        !matches!(client.phase, Phase::Live) || is_gone
    }

    fn invalid_session(&mut self, at: usize) -> Result<(), Fault> {
        let client = &mut self.clients[at];
        match client.phase {
            // Judged when the partition decided.
            Phase::Resuming => client.forget_session(),
            Phase::Identifying => {}
            Phase::Live => {
                let gone = client.session.and_then(|session| self.checker.sessions[session].gone);
                if gone.is_none() {
                    return fault("op 9 for a session that is there");
                }
                client.forget_session();
            }
            Phase::Closing => return Ok(()),
            phase => return fault(format!("op 9 while {phase:?}")),
        }
        client.phase = Phase::Greeted;
        Ok(())
    }

    // ── rest ─────────────────────────────────────────────────────────────────────────────────────

    /// Lets everything arrive and checks that all of it did. At the `end` every client must be back, too.
    fn rest(&mut self, end: bool) -> Result<(), Fault> {
        self.is_calm = true;
        self.at_client = None;
        for client in &self.clients {
            if let Some(wire) = &client.wire {
                wire.socket().set_room(usize::MAX);
                wire.socket().set_write_max(usize::MAX);
            }
        }
        for turn in 0.. {
            if turn > SETTLE_TURNS_MAX {
                return fault(format!("it does not come to rest: {}", self.unrest()));
            }
            let before = self.activity();
            for side in 0..SIDES {
                self.turn(side)?;
            }
            self.wires();
            self.read_clients()?;
            if end {
                self.bring_back();
            }
            if self.activity() == before && self.is_quiet() {
                break;
            }
        }
        for at in 0..self.clients.len() {
            self.at_client = Some(at);
            let client = &self.clients[at];
            if end && client.phase != Phase::Live {
                return fault(format!("it is {:?} at the end; {}", client.phase, self.unrest()));
            }
            if let (Phase::Live, Some(session)) = (client.phase, client.session) {
                self.checker.check_complete(session, client.seq)?;
            }
        }
        self.at_client = None;
        let partitions: Vec<&Partition> = self.sides.iter().map(|side| &side.partition).collect();
        self.checker.check_at_rest(&partitions)?;
        self.is_calm = false;
        Ok(())
    }

    /// Changes whenever anything happens.
    fn activity(&self) -> (u64, u64, usize, u64) {
        let dispatches = self.sides.iter().map(|side| side.partition.counters().dispatches_total).sum();
        let writes: usize = self
            .clients
            .iter()
            .filter_map(|client| client.wire.as_ref())
            .map(|wire| wire.socket().writes_count() + wire.socket().to_server_bytes())
            .sum();
        (self.guild.version(), dispatches, writes, self.checker.compared_count)
    }

    /// What is not quiet, for a fault.
    fn unrest(&self) -> String {
        let mut text = format!("activity {:?}", self.activity());
        for (n, side) in self.sides.iter().enumerate() {
            text.push_str(&format!(
                "; side {n}: inbox {}, to guild {}, notes {}, questions {}, lagging {}, flush {}",
                side.inbox.len(),
                side.to_guild.len(),
                side.notes.len(),
                side.questions.len(),
                side.is_lagging,
                side.partition.wants_flush()
            ));
        }
        for (at, client) in self.clients.iter().enumerate() {
            let Some(wire) = &client.wire else { continue };
            let socket = wire.socket();
            if socket.unread_bytes() > 0 || socket.server_end() != ServerEnd::Open || client.phase != Phase::Live {
                text.push_str(&format!("; client {at} {} {:?} {socket:?}", client.user.id, client.phase));
            }
        }
        text
    }

    fn is_quiet(&self) -> bool {
        self.pipeline.is_empty()
            && self.sides.iter().all(|side| {
                side.inbox.is_empty()
                    && side.to_guild.is_empty()
                    && side.notes.is_empty()
                    && side.questions.is_empty()
                    && !side.is_lagging
                    && !side.partition.wants_flush()
            })
            && self.clients.iter().all(|client| {
                client.wire.as_ref().is_none_or(|wire| {
                    wire.socket().unread_bytes() == 0 && wire.socket().server_end() == ServerEnd::Open
                })
            })
    }
}
