//! Seeded moves of a session between nodes, against a model of what its client has to receive.
//!
//! Invariants  X1 of each guild the client receives each message once and in order; it has received GUILD_CREATE
//!             between two that do not follow each other. Direct messages arrive once. Seqs rise. One node has
//!             the session. X3 without a fault the client sees no outage, and resumes everywhere, also without
//!             the intent GUILDS.

use crate::fixture::*;
use guildhall_guild::{Actor, Command, NewDirect, NewMessage};
use guildhall_guild_protocol::{PartitionId, RelayId};
use guildhall_model::{ChannelType, Intents};
use guildhall_stdx::Rng;
use guildhall_test_kit::{
    ClientId, ClientParams, GuildBuilder, Hold, MoveFault, Received, TestCluster, TestClusterConfig, id,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

const NODES: usize = 3;
const DIRECT: u64 = 90;
/// Guilds with a channel of each.
const GUILDS: [(u64, u64); 2] = [(GUILD, GENERAL), (2, 20)];
const STEPS: usize = 150;
/// Seeds of a run; the environment variable SEEDS replaces it.
const SEEDS: u64 = 300;
/// Least number of moves in these runs.
const MOVES_MIN: u64 = 300;
const SILENT: u32 = Intents::GUILD_MESSAGES.0 | Intents::MESSAGE_CONTENT.0;

/// One of the two guilds, as the client sees it.
#[derive(Default)]
struct Seen {
    said: u64,
    last: u64,
    is_new: bool,
}

struct World {
    cluster: TestCluster,
    rng: Rng,
    client: ClientId,
    token: String,
    is_user: bool,
    is_silent: bool,
    is_resumed: bool,
    /// An older connection of the client has taken the session.
    is_closed: bool,
    last_seq: u64,
    guilds: [Seen; 2],
    directs: u64,
    received_directs: Vec<u64>,
    /// Something has happened after which guilds may be unavailable, or the session may end.
    is_disturbed: bool,
    /// Faults happen in this run.
    has_faults: bool,
    trace: Vec<String>,
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.trace.join("\n"));
        }
    }
}

/// The client identifies again.
struct Identifies;

impl World {
    fn new(seed: u64) -> Self {
        let config =
            TestClusterConfig { partitions_count: NODES as u16, are_nodes: true, ..TestClusterConfig::default() };
        let mut cluster = world_of(config);
        let other = GuildBuilder::new(2, &ana()).channel(20, ChannelType::Text).member(&pro(), &[]).member(&bob(), &[]);
        cluster.add_guild(other.load());
        cluster.add_direct(NewDirect { id: id(DIRECT), recipients: vec![ana(), bob()], is_group: false });
        let mut rng = Rng::new(seed);
        let (kind, has_faults) = (rng.below(3), rng.chance(0.5));
        let (account, client) = match kind {
            0 => (pro(), live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON)),
            1 => (pro(), live(&mut cluster, &pro(), Some(SILENT), ClientParams::ETF)),
            _ => (bob(), live_user(&mut cluster, &bob(), 0)),
        };
        cluster.take(client);
        cluster.hold(Hold::Mail);
        cluster.hold(Hold::ToGuilds);
        cluster.hold(Hold::Rests);
        let last_seq = cluster.client(client).seq;
        Self {
            cluster,
            rng,
            client,
            token: account.username.clone(),
            is_user: kind == 2,
            is_silent: kind == 1,
            is_resumed: true,
            is_closed: false,
            last_seq,
            guilds: Default::default(),
            directs: 0,
            received_directs: Vec::new(),
            is_disturbed: false,
            has_faults,
            trace: vec![format!("kind {kind}")],
        }
    }

    /// Checks what the client has received.
    fn read(&mut self) -> Result<(), Identifies> {
        for received in self.cluster.take(self.client) {
            let dispatch = match received {
                Received::Dispatch(dispatch) => dispatch,
                Received::InvalidSession(_) => {
                    assert!(self.is_disturbed, "op 9 without a fault");
                    return Err(Identifies);
                }
                Received::Hello { .. } | Received::HeartbeatAck => continue,
                Received::Close(..) | Received::End => {
                    self.trace.push("  closed".to_owned());
                    (self.is_resumed, self.is_closed) = (false, true);
                    continue;
                }
                other => panic!("{other:?}"),
            };
            assert!(dispatch.seq > self.last_seq, "{} after {}", dispatch.seq, self.last_seq);
            self.last_seq = dispatch.seq;
            self.trace.push(format!("  received {} {}", dispatch.seq, dispatch.name));
            match &*dispatch.name {
                "RESUMED" => self.is_resumed = true,
                "GUILD_DELETE" | "GUILD_CREATE" => {
                    assert!(self.is_disturbed, "{} without a fault", dispatch.name);
                    let guild_id = text(&dispatch.d()["id"]);
                    let at = GUILDS.iter().position(|(guild, _)| id::<()>(*guild).to_string() == guild_id);
                    self.guilds[at.expect("one of them")].is_new |= dispatch.name == "GUILD_CREATE";
                }
                "MESSAGE_CREATE" => self.receive(&text(&dispatch.d()["content"])),
                _ => {}
            }
        }
        Ok(())
    }

    fn receive(&mut self, content: &str) {
        self.trace.push(format!("  {content}"));
        let (kind, number) = content.split_once(' ').expect("a kind and a number");
        let number: u64 = number.parse().expect("a number");
        if kind == "direct" {
            assert!(!self.received_directs.contains(&number), "direct message {number} arrives twice");
            return self.received_directs.push(number);
        }
        let guild = &mut self.guilds[kind.parse::<usize>().expect("the place of a guild")];
        assert!(number > guild.last, "message {number} after {}", guild.last);
        assert!(number == guild.last + 1 || guild.is_new, "message {number} after {}", guild.last);
        (guild.last, guild.is_new) = (number, false);
    }

    fn say(&mut self, (guild, channel): (u64, u64), content: String) {
        self.trace.push(format!("say {content}"));
        let new = NewMessage { content, ..NewMessage::default() };
        let create = Command::CreateMessage(id(channel), Box::new(new));
        self.cluster.command_in(id(guild), Actor::User(ana().id), create).expect("she is in it");
        self.cluster.run_until_idle();
    }

    fn step(&mut self) -> Result<(), Identifies> {
        match self.rng.below(20) {
            0..=5 => {
                let at = self.rng.below(2) as usize;
                self.guilds[at].said += 1;
                self.say(GUILDS[at], format!("{at} {}", self.guilds[at].said));
            }
            6 if self.is_user => {
                self.directs += 1;
                self.say((DIRECT, DIRECT), format!("direct {}", self.directs));
            }
            7..=11 => {
                let (node, count) = (self.rng.below(NODES as u64) as usize, 1 + self.rng.below(6) as usize);
                self.trace.push(format!("mail {node} {count}"));
                self.cluster.deliver_mail(node, count);
            }
            12 | 13 => {
                let count = 1 + self.rng.below(4) as usize;
                self.trace.push(format!("to guilds {count}"));
                self.cluster.deliver_to_guilds(count);
                self.cluster.run_until_idle();
            }
            14 | 15 => {
                self.trace.push("rests".to_owned());
                self.cluster.answer_rests();
                self.cluster.run_until_idle();
            }
            16 if self.is_resumed => {
                self.cluster.client(self.client).heartbeat();
                self.cluster.run_until_idle();
            }
            17 => self.cluster.advance(20),
            18 if self.is_resumed || self.is_closed || self.rng.chance(0.2) => self.resume()?,
            19 if self.has_faults && self.rng.chance(0.3) => self.disturb(),
            _ => {}
        }
        self.read()?;
        let sessions: usize = (0..NODES).map(|node| self.complete_at(node)).sum();
        assert!(sessions <= 1, "{sessions} nodes have the session");
        Ok(())
    }

    /// Sessions of a node that are not on their way.
    fn complete_at(&self, node: usize) -> usize {
        let partition = self.cluster.partition_at(node);
        partition.sessions().filter(|session| !partition.is_moving_session(&session.id)).count()
    }

    fn disturb(&mut self) {
        self.is_disturbed = true;
        let (guild, _) = GUILDS[self.rng.below(2) as usize];
        let relay = RelayId::first(PartitionId::of_node(self.rng.below(NODES as u64) as u8, 0));
        // A session without the intent GUILDS does not see what a relay has lost, at one node either.
        let fault = if self.is_silent { 3 + self.rng.below(2) } else { self.rng.below(5) };
        self.trace.push(format!("fault {fault}: {relay:?} of {guild}"));
        match fault {
            // A queue overflows; it has room again at some time.
            0 | 1 => {
                self.cluster.overflow(relay, id(guild));
                self.cluster.room(relay, id(guild));
            }
            // A message is lost.
            2 => drop(self.cluster.lose_mail_to(relay)),
            // Nothing comes in time.
            3 => self.cluster.advance(2_500),
            _ => {
                self.cluster.lose_rests();
            }
        }
        self.cluster.run_until_idle();
    }

    /// The client resumes at a node, with the connection before or without.
    fn resume(&mut self) -> Result<(), Identifies> {
        self.read()?;
        if self.rng.chance(0.5) {
            self.cluster.cut(self.client);
            self.read()?;
        }
        let node = self.rng.below(NODES as u64) as usize;
        // A client that comes back in the middle ends the move.
        self.is_disturbed |= self.cluster.partition_at(node).departing_count() > 0;
        self.trace.push(format!("resume at {node} after {}", self.last_seq));
        let params = self.cluster.client(self.client).params();
        self.client = self.cluster.reconnect_to(node, self.client, params);
        (self.is_resumed, self.is_closed) = (false, false);
        self.cluster.client(self.client).resume(&self.token);
        self.cluster.run_until_idle();
        Ok(())
    }

    /// Everything arrives.
    fn finish(&mut self) -> Result<(), Identifies> {
        [Hold::Mail, Hold::ToGuilds, Hold::Rests].into_iter().for_each(|hold| self.cluster.release(hold));
        for _ in 0..8 {
            self.cluster.deliver_to_guilds(usize::MAX);
            self.cluster.run_until_idle();
            self.read()?;
            if self.is_closed {
                self.resume()?;
            } else if !self.is_resumed {
                assert!(self.is_disturbed, "a RESUME without an answer");
                self.cluster.advance(3_000);
            }
        }
        assert!(self.is_resumed, "a RESUME without an answer");
        // A relay that has lost its last message learns of it by the next one, and shows the outage.
        for _ in 0..3 {
            for (at, guild) in GUILDS.into_iter().enumerate() {
                self.guilds[at].said += 1;
                self.say(guild, format!("{at} {}", self.guilds[at].said));
            }
            self.read()?;
            let has_all = self.guilds.iter().all(|guild| guild.last == guild.said);
            assert!(has_all || self.is_disturbed, "messages are missing");
        }
        assert!(self.guilds.iter().all(|guild| guild.last == guild.said), "messages are missing");
        self.received_directs.sort_unstable();
        assert_eq!(self.received_directs, (1..=self.directs).collect::<Vec<_>>(), "direct messages that arrived");
        Ok(())
    }
}

/// Moves of the run, and whether the client has identified again.
fn run(seed: u64, fault: MoveFault) -> (u64, Result<(), Identifies>) {
    let mut world = World::new(seed);
    world.cluster.plant(fault);
    let ended = (0..STEPS).try_for_each(|_| world.step()).and_then(|()| world.finish());
    assert!(ended.is_ok() || world.is_disturbed);
    let moves = (0..NODES).map(|node| world.cluster.partition_at(node).counters().moved_here_total).sum();
    (moves, ended)
}

#[test]
fn x1_x3_moves_lose_nothing_double_nothing_and_show_no_outage_without_a_fault() {
    #[expect(clippy::disallowed_methods, reason = "the number of seeds is chosen where the test is started")]
    let seeds = std::env::var("SEEDS").ok().map_or(SEEDS, |text| text.parse().expect("a number"));
    let (mut moves, mut identified) = (0, 0);
    for seed in 0..seeds {
        println!("seed {seed}");
        let (count, ended) = run(seed, MoveFault::None);
        moves += count;
        identified += u64::from(ended.is_err());
    }
    println!("{moves} moves in {seeds} runs, {identified} of which ended by op 9");
    assert!(moves >= MOVES_MIN * seeds / SEEDS, "{moves} moves");
}

/// The model notices a fault within `SEEDS` seeds.
#[test]
fn planted_faults_of_transfers_are_noticed() {
    for fault in [MoveFault::LosesLast, MoveFault::DoublesLast, MoveFault::HurriesTransfer] {
        let is_noticed = |seed: &u64| catch_unwind(AssertUnwindSafe(|| run(*seed, fault))).is_err();
        let seed = (0..SEEDS).find(is_noticed).unwrap_or_else(|| panic!("{fault:?} goes unnoticed in {SEEDS} seeds"));
        println!("{fault:?}: seed {seed}");
    }
}
