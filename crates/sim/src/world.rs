//! World: the machines, the queues between them, and the order of steps.
//!
//! Owns        one guild, its pipeline, direct messages, two partitions with their links, the clients, and the checker.
//! Invariants  what happens next is drawn from the seed alone. Everything that crosses between two machines waits in
//!             a queue here for as long as chance likes, but arrives in order; a full link to a relay cuts its stream.
//!             At a restart all of it is created again from the store and the hand-over (`restart`).
//! Not here    which commands and what clients do: `act.rs`.

mod accounts;
mod clients;
mod directs;
mod friends;
mod guild;
mod partitions;
mod rest;
mod restart;
mod search;

use crate::{
    Options, Summary, Violation,
    act::Actions,
    checker::{Checker, Fault, InTransit, SessionLimits},
    client::{Client, ConnInfo},
    faults::FaultInjector,
    model::{DirectEvent, FriendEvent, Publication, State},
    pipeline::Pipeline,
    store::Store,
};
use accounts::Tokens;
use directs::{Directs, DirectsRead};
use friends::Friends;
use guildhall_codec::{ContextParams, ContextPool, ZlibParams, ZstdParams};
use guildhall_guild::{Guild, GuildLimits, GuildRecord, Job};
use guildhall_guild_protocol::{HiddenChannels, PartitionId, Published, RelayId, RelayStreams, ToGuild, Whose};
use guildhall_model::{CloseCode, GuildId, User, UserId};
use guildhall_partition::{
    Account, AuthFailure, AuthPurpose, Counters, MovingConn, Partition, PartitionConfig, StreamCodec,
};
use guildhall_relay::Relay;
use guildhall_stdx::{Now, Rng, SlotKey};
use guildhall_test_kit::{FakeClock, FakeLink, FakeSocket, ScriptedGate};
use rest::Stage;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    num::NonZeroU32,
    rc::Rc,
    sync::Arc,
};

/// Number of partitions.
pub const SIDES: usize = 2;
/// A relay that is always there: the checker reads the guild's events from its stream.
const OBSERVER: RelayId = RelayId::first(PartitionId(99));

/// Timers of the guild that are handled in a row.
const TIMERS_MAX: usize = 64;
/// Steps between changes of the room for contexts.
const CHANGE_ROOM_STEPS: u32 = 64;

/// Inputs of a partition other than its guilds' messages and its sockets.
enum PartitionCommand {
    Authenticated { conn: SlotKey, result: Result<Account, AuthFailure> },
    Joined(UserId),
    UserChanged(Arc<User>),
    Publish { published: Arc<Published>, publication: Publication },
    DirectEvent { published: Arc<Published>, event: Rc<DirectEvent> },
    Friend { published: Arc<Published>, event: Rc<FriendEvent> },
    DirectsRead { session: SlotKey, read: DirectsRead },
    Close(Whose, CloseCode),
    Moved { socket: FakeSocket, conn: Box<MovingConn>, serial: u64 },
}

/// A token that is being checked.
struct TokenCheck {
    conn: SlotKey,
    token: String,
    purpose: AuthPurpose,
    /// The account as it was read; the answer is on its way.
    answer: Option<Result<Account, AuthFailure>>,
}

pub struct Side {
    pub partition: Partition,
    pub link: FakeLink,
    inbox: VecDeque<InTransit>,
    to_guild: VecDeque<ToGuild>,
    commands: VecDeque<PartitionCommand>,
    token_checks: VecDeque<TokenCheck>,
    /// Serial numbers of the connections here.
    serials: BTreeMap<SlotKey, u64>,
    /// Tokens whose sessions were ended here.
    closed_tokens: BTreeSet<u64>,
}

/// See the module.
pub struct World {
    pub seed: u64,
    pub options: Options,
    pub rng: Rng,
    pub clock: FakeClock,
    pub guild: Guild,
    /// Numbers of the guild's messages to its relays.
    pub streams: RelayStreams,
    pub sides: Vec<Side>,
    pub clients: Vec<Client>,
    pub conns: Vec<ConnInfo>,
    pub checker: Checker,
    pub actions: Actions,
    pub accounts: Vec<Arc<User>>,
    pub tokens: Tokens,
    /// No faults and no slow clients any more: everything must arrive.
    pub is_calm: bool,
    /// Messages of one relay that may wait in a partition's inbox; past it its stream is cut.
    link_capacity: usize,
    /// Relays whose stream is cut.
    lagging: BTreeSet<RelayId>,
    /// Interval of passive updates.
    pub passive_interval_ms: u64,
    /// Running jobs, each with the guild's state at its start.
    jobs: VecDeque<(Job, Rc<State>)>,
    /// Configuration of a new process.
    process_setup: ProcessSetup,
    /// Of the partitions of processes that ended.
    past: Counters,
    pipeline: Pipeline,
    pub directs: Directs,
    pub friends: Friends,
    store: Store,
    fault_injector: FaultInjector,
    step: u32,
    at_client: Option<usize>,
    resets: u64,
}

/// What each process begins with.
struct ProcessSetup {
    config: PartitionConfig,
    gate: Arc<ScriptedGate>,
    guild_limits: GuildLimits,
    /// Whether a bot observes every presence.
    is_observed: bool,
}

impl ProcessSetup {
    fn side(&self, n: usize) -> Side {
        let config = PartitionConfig { partition: PartitionId(n as u16), ..self.config.clone() };
        Side {
            partition: Partition::new(config, self.gate.clone()),
            // One partition sends each frame by itself, the other in batches.
            link: if n == 0 { FakeLink::default() } else { FakeLink::batching() },
            inbox: VecDeque::new(),
            to_guild: VecDeque::new(),
            commands: VecDeque::new(),
            token_checks: VecDeque::new(),
            serials: BTreeMap::new(),
            closed_tokens: BTreeSet::new(),
        }
    }

    /// A guild as it was stored, with the observer listening.
    fn guild(&self, now: Now, record: GuildRecord) -> Guild {
        self.observed(now, Guild::load(record, self.guild_limits.clone(), 1))
    }

    fn observed(&self, now: Now, mut guild: Guild) -> Guild {
        guild.handle_relay(now, ToGuild::Subscribe { relay: OBSERVER, epoch: 1 });
        if self.is_observed {
            guild.handle_relay(now, ToGuild::WantPresences { relay: OBSERVER, all: true });
        }
        while guild.poll_output().is_some() {}
        guild
    }
}

/// Small ones: making them is most of what a short connection costs. In some worlds there is no room for all of them,
/// and in some connections have larger ones.
fn context_pool(seed: u64) -> ContextPool {
    let mut rng = Rng::new(seed ^ 0xC1A5_51C5);
    let zlib = ZlibParams { level: 1, window_bits: 12, mem_level: 5 };
    let zstd = ZstdParams { level: 1, window_log: 14, chain_log: 8, hash_log: 10, block_bytes_max: 4 << 10 };
    let bytes_max = *rng.pick(&[u64::MAX, u64::MAX, 300_000]).expect("there are some");
    let contexts = ContextPool::new(ContextParams { zlib, zstd, bytes_max }).expect("the libraries take these");
    contexts.gate().set(*rng.pick(&[0, 400, 1_000]).expect("there are some"), 200_000);
    contexts
}

/// Some clients of an account have a token in common.
fn tokens_of(clients: &mut [Client]) -> Tokens {
    let mut tokens = Tokens::default();
    let mut by_user: BTreeMap<UserId, String> = BTreeMap::new();
    for (n, client) in clients.iter_mut().enumerate() {
        let mut make = || tokens.make(&client.user);
        client.token = match by_user.get(&client.user.id).filter(|_| !n.is_multiple_of(3)) {
            Some(token) => token.clone(),
            None => make(),
        };
        by_user.entry(client.user.id).or_insert_with(|| client.token.clone());
    }
    tokens
}

/// Of one process only: two with the same would give sessions the same ids.
fn secret(rng: &mut Rng) -> [u8; 32] {
    let mut secret = [0; 32];
    secret[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
    secret
}

impl World {
    pub fn new(seed: u64, options: Options) -> Result<Self, Fault> {
        let mut rng = Rng::new(seed);
        let mut setup = crate::act::setup(&mut rng);
        let tokens = tokens_of(&mut setup.clients);
        let (presence_events_per_s_max, presence_burst_max) =
            *rng.pick(&[(100, 200), (10, 5), (20, 1)]).expect("there are some");
        let log_events_max = *rng.pick(&[8_192, 8_192, 30]).expect("there are some");
        let limits = SessionLimits {
            resume_window_ms: 180_000,
            gather_deadline_ms: 5_000,
            replay_events_max: *rng.pick(&[4_096, 4_096, 60, 25]).expect("there are some"),
            backlog_events_max: *rng.pick(&[8_192, 8_192, 80, 40]).expect("there are some"),
            passive_above_members: *rng.pick(&[None, Some(0), Some(0), Some(44), Some(1_000)]).expect("there are some"),
            presence_events_per_s_max,
            presence_burst_max,
            log_events_max,
            log_age_ms_max: 41_250 * 3 / 2 + 180_000,
            hidden_channels: match seed / 3 % 3 {
                0 => HiddenChannels::Listed,
                1 => HiddenChannels::Obfuscated,
                _ => HiddenChannels::Absent,
            },
        };
        let sessions_per_relay_max = *rng.pick(&[1_000, 1, 3, 8, 15]).expect("there are some");
        let rendered_bytes_max = *rng.pick(&[64 << 20, 64 << 20, 20_000, 1]).expect("there are some");
        let passive_interval_ms = *rng.pick(&[1_500, 6_000, 30_000]).expect("there are some");
        let link_capacity = *rng.pick(&[65_536, 65_536, 48, 12]).expect("there are some");
        let gate = Arc::new(ScriptedGate::default());
        let secret = secret(&mut rng);
        let streams = match seed % 4 {
            0 => StreamCodec::PerConnection,
            // The smaller history turns over while a world lasts.
            1 => StreamCodec::SharedMatch { history_bytes_max: 64 << 10, check_one_in: NonZeroU32::new(2) },
            2 => StreamCodec::SharedMatch { history_bytes_max: 1 << 20, check_one_in: None },
            _ => StreamCodec::Auto { history_bytes_max: 256 << 10, check_one_in: NonZeroU32::new(2), cpu_percent: 25 },
        };
        let mut config = PartitionConfig::new(PartitionId(0), "wss://sim.example.net".into(), secret);
        config.partitions_count = SIDES as u16;
        config.replay_events_max = limits.replay_events_max as usize;
        config.backlog_events_max = limits.backlog_events_max as usize;
        config.passive_above_members = limits.passive_above_members;
        config.log.events_max = limits.log_events_max as usize;
        config.log.age_ms_max = limits.log_age_ms_max;
        config.rendered_bytes_max = rendered_bytes_max;
        config.sessions_per_relay_max = sessions_per_relay_max;
        config.passive_interval_ms = passive_interval_ms;
        config.hidden_channels = limits.hidden_channels;
        config.contexts = context_pool(seed);
        config.stream_codec = streams;
        let is_observed = rng.chance(0.5);
        let guild_limits = GuildLimits {
            presence_events_per_s_max: limits.presence_events_per_s_max,
            presence_burst_max: limits.presence_burst_max,
            presence_waiting_max: *rng.pick(&[65_536, 3]).expect("there are two"),
            jobs_running_max: *rng.pick(&[4, 1]).expect("there are two"),
            list_intervals_max: 256,
            cached_messages_max: *rng.pick(&[2_048, 16]).expect("there are two"),
            voice_endpoint: Some("voice.example.net".to_owned()),
            seed,
            ..GuildLimits::default()
        };
        let checker = Checker::new(&setup.record, limits, &setup.accounts);
        let store = Store::with(&setup.record)?;
        let directs = Directs::new(guild_limits.clone());
        let clock = FakeClock::default();
        let process_setup = ProcessSetup { config, gate, guild_limits, is_observed };
        let guild = process_setup.guild(clock.now(), setup.record);
        Ok(Self {
            seed,
            options,
            rng,
            clock,
            guild,
            streams: RelayStreams::default(),
            sides: (0..SIDES).map(|side| process_setup.side(side)).collect(),
            process_setup,
            past: Counters::default(),
            clients: setup.clients,
            tokens,
            conns: Vec::new(),
            checker,
            actions: Actions::default(),
            accounts: setup.accounts,
            is_calm: false,
            link_capacity,
            lagging: BTreeSet::new(),
            passive_interval_ms,
            jobs: VecDeque::new(),
            pipeline: Pipeline::default(),
            directs,
            friends: Friends::default(),
            store,
            fault_injector: FaultInjector::new(options.injected_fault),
            step: 0,
            at_client: None,
            resets: 0,
        })
    }

    pub fn run(mut self) -> Result<Summary, Violation> {
        match self.run_steps() {
            Ok(()) => Ok(self.summary()),
            Err(Fault(what)) => Err(Violation { seed: self.seed, step: self.step, client: self.at_client, what }),
        }
    }

    fn summary(&self) -> Summary {
        let mut summary = Summary {
            compared: self.checker.compared_count,
            digest: self.checker.digest,
            resets: self.resets,
            ..Summary::default()
        };
        let here = self.sides.iter().map(|side| side.partition.counters());
        for counters in here.chain([self.past]) {
            summary.sessions += counters.identified_total;
            summary.resumed += counters.resumed_total;
            summary.refused += counters.resumes_refused_total;
            summary.withheld += counters.replay_suppressed_total;
            summary.restored += counters.restored_total;
        }
        summary.moved = self.actions.moved;
        summary
    }

    fn run_steps(&mut self) -> Result<(), Fault> {
        while self.step < self.options.steps {
            self.step += 1;
            self.at_client = None;
            self.change_room();
            self.act()?;
            for side in 0..SIDES {
                if self.rng.chance(0.7) {
                    self.turn(side)?;
                }
            }
            self.wires()?;
            self.read_clients()?;
            if self.step.is_multiple_of(200) {
                self.rest(Stage::Midway)?;
            }
        }
        self.rest(Stage::End)
    }

    /// Now and then contexts may hold nothing, and streams move to shared-match (`StreamCodec::Auto`).
    fn change_room(&mut self) {
        if self.step.is_multiple_of(CHANGE_ROOM_STEPS) {
            let has_room = Rng::new(self.seed ^ u64::from(self.step)).chance(0.5);
            self.process_setup.config.contexts.set_movable_bytes_max(if has_room { u64::MAX } else { 0 });
        }
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

    /// Advances the clock.
    pub fn advance(&mut self, ms: u64) -> Result<(), Fault> {
        self.trace(|| format!("{ms} ms pass"));
        self.clock.advance_ms(ms);
        let now = self.now();
        for side in 0..SIDES {
            let partition = &self.sides[side].partition;
            let is_due = |relay: &&Relay| relay.next_deadline().is_some_and(|at| at <= now.instant);
            let due: Vec<RelayId> = partition.relays().filter(is_due).map(Relay::id).collect();
            due.into_iter().for_each(|relay| self.checker.round(relay));
            let Side { partition, link, .. } = &mut self.sides[side];
            partition.handle_timers(now, link);
            self.outputs(side)?;
            // A connection that was due at the same time may have ended before READY was written.
            self.look_after_timers(side)?;
            self.checker.timers(now, side);
            self.reconcile(side)?;
        }
        for _ in 0..TIMERS_MAX {
            if self.guild.next_deadline().is_none_or(|at| at > now.instant) {
                break;
            }
            self.guild.handle_timer(now);
            self.after_guild(Vec::new())?;
        }
        self.beat();
        Ok(())
    }
}
