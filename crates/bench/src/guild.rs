//! Guild bench: how long each operation of one guild holds up everything else in it.
//!
//! Owns        `guildhall-bench guild`: a guild of any size, alone on this thread; `Harness`, which times one input at
//!             a time.
//! Invariants  an operation is one input of the machine with all its outputs; making the input, dropping the outputs,
//!             and interruptions by the kernel are excluded. The bench holds the same data as relays, so that
//!             copy-on-write behaves as in a node. A refused command ends the bench. Each operation is timed twice:
//!             alone, and while jobs work on all members (`background_load`).
//! Not here    commits, channels, threads: `guildhall-bench fanout`, `guildhall-bench sockets`.

mod background_load;
mod operations;
mod slow;

use super::{crowd, sched::SchedFile, stats::Spread, usage};
use anyhow::{Context, Result, bail, ensure};
use background_load::BackgroundLoad;
use clap::Args;
use guildhall_guild::{Actor, Command, Guild, GuildLimits, Job, JobDone, Outcome, Output, Reply};
use guildhall_guild_protocol::{
    GuildStructure, MembersWanted, PartitionId, RelayId, RelayMessage, ReplicaUpdate, SessionKey, SessionPresence,
    ToGuild,
};
use guildhall_model::{AccountKind, GuildId, Platform, Status};
use guildhall_stdx::{Now, Rng};
use serde::Serialize;
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

/// Relays, as on a node with two cores.
const PARTITIONS: usize = 2;
/// A guild may have 250 roles and 500 channels; a few are left for the operations that make some.
const ROLES: usize = 240;
const CHANNELS: usize = 480;
/// Members who are there, unless the guild is smaller.
const SESSIONS: usize = 1_000_000;
/// More than a member takes, with what the operations need on top.
const BYTES_PER_MEMBER_MAX: u64 = 1_200;
/// An operation that takes longer at its 99th percentile is named.
const LONG_US: f64 = 1_000.0;
/// Timers due within this time are awaited when an operation has to finish.
const SOON_MS: u64 = 250;

/// `guildhall-bench guild`.
#[derive(Clone, Copy, Debug, Args)]
pub struct GuildArgs {
    /// Members of the guild. One in two of them is online, but not more than 1,000,000. An operation on a number of
    /// members, which its name has, is on all members if there are fewer.
    #[arg(long, default_value_t = 100_000)]
    members: usize,
    /// How often each quick operation is timed; slow ones less often.
    #[arg(long, default_value_t = 2_000)]
    repeats: usize,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// How many times an operation is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Samples {
    /// `--repeats`.
    Always,
    /// A tenth of that, for operations with a long preparation.
    Sometimes,
    /// A few times: what takes long itself.
    Seldom,
    /// It cannot be undone.
    Once,
}

impl Samples {
    fn count(self, repeats: usize) -> usize {
        match self {
            Self::Always => repeats.max(1),
            Self::Sometimes => (repeats / 10).max(1),
            Self::Seldom => repeats.clamp(1, 5),
            Self::Once => 1,
        }
    }
}

/// One operation's times.
#[derive(Debug, Serialize)]
struct Operation {
    name: &'static str,
    /// While a snapshot was read, an audience counted, and members searched.
    under_load: bool,
    count: usize,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

/// What `guildhall-bench guild` found.
#[derive(Debug, Serialize)]
struct GuildResult {
    members: usize,
    sessions: usize,
    roles: usize,
    channels: usize,
    load_ms: f64,
    /// Growth of the process by the record and the guild loaded from it.
    bytes_per_member: u64,
    /// Growth by each attached session.
    bytes_per_session: u64,
    rss_bytes: u64,
    /// With all that the operations made.
    rss_bytes_after: u64,
    /// Number of restarts of the concurrent jobs.
    background_rounds: u64,
    /// Operations with a p99 above a millisecond.
    longer_than_1_ms: Vec<String>,
    /// What workers read from a snapshot, by kind of job: these would hold up the guild if it scanned by itself.
    worker: BTreeMap<&'static str, Worker>,
    operations: Vec<Operation>,
}

/// Times of a job in its worker.
#[derive(Debug, Serialize)]
struct Worker {
    count: usize,
    p50_ms: f64,
    max_ms: f64,
}

/// A guild, and a clock that moves on by a millisecond with each input.
pub struct Harness {
    guild: Guild,
    now: Now,
    pub rng: Rng,
    pub members: usize,
    pub sessions: usize,
    /// Members with a busy presence.
    pub busy: HashSet<usize>,
    repeats: usize,
    /// Of the relays.
    epoch: u32,
    /// Outputs of the last input.
    outputs: Vec<Output>,
    /// Put out and not run yet.
    jobs: Vec<Job>,
    background_load: Option<BackgroundLoad>,
    background_rounds: u64,
    /// The first members without a session that left and returned.
    pub pruned: usize,
    /// Times at which results of concurrent jobs were handled.
    job_ends_us: Vec<f64>,
    /// Base fields, roles and channels as every relay has them.
    held: Option<Arc<GuildStructure>>,
    sched: SchedFile,
    /// Milliseconds of jobs that ran alone, by kind.
    jobs_ms: BTreeMap<&'static str, Vec<f64>>,
    operations: Vec<Operation>,
}

impl Harness {
    fn new(guild: Guild, members: usize, repeats: usize) -> Result<Self> {
        Ok(Self {
            guild,
            now: Now::new(1, 1_800_000_000_000),
            rng: Rng::new(0x1AB),
            members,
            sessions: 0,
            busy: HashSet::new(),
            repeats,
            epoch: 0,
            outputs: Vec::new(),
            jobs: Vec::new(),
            background_load: None,
            background_rounds: 0,
            pruned: 0,
            job_ends_us: Vec::new(),
            held: None,
            sched: SchedFile::open()?,
            jobs_ms: BTreeMap::new(),
            operations: Vec::new(),
        })
    }

    /// Handles one input and takes all that comes out; the time of that.
    fn time<R>(&mut self, input: impl FnOnce(&mut Guild, Now) -> R) -> Result<(Duration, R)> {
        self.outputs.clear();
        self.advance_ms(1);
        let waited_before = self.sched.read()?.waited;
        let started = Instant::now();
        let result = input(&mut self.guild, self.now);
        while let Some(output) = self.guild.poll_output() {
            self.outputs.push(output);
        }
        let took = started.elapsed();
        let waited = self.sched.read()?.waited.saturating_sub(waited_before);
        for output in std::mem::take(&mut self.outputs) {
            match output {
                Output::Job(job) => self.jobs.push(job),
                output => self.outputs.push(output),
            }
        }
        self.held = self.outputs.iter().rev().find_map(structure_in).or(self.held.take());
        Ok((took.saturating_sub(waited), result))
    }

    /// Advances the clock.
    pub fn advance_ms(&mut self, ms: u64) {
        self.now = Now::new(self.now.instant.0 + ms, self.now.unix.0 + ms as i64);
    }

    /// Runs the timer that the guild has set.
    pub fn timer(&mut self) -> Result<Duration> {
        Ok(self.time(|guild, now| guild.handle_timer(now))?.0)
    }

    /// Makes all writes durable.
    pub fn commit(&mut self) -> Result<Duration> {
        Ok(self.time(|guild, _| guild.handle_committed(guild.version()))?.0)
    }

    /// A job that was put out has come to its end.
    pub fn job_done(&mut self, done: JobDone) -> Result<Duration> {
        Ok(self.time(|guild, now| guild.handle_job_done(now, done))?.0)
    }

    /// Runs the jobs that were put out, and the timer for what is due soon, until nothing is left. The times of
    /// each of these inputs.
    pub fn run_until_idle(&mut self) -> Result<Settled> {
        let mut settled = Settled::default();
        loop {
            if let Some(job) = self.jobs.pop() {
                let (kind, started) = (Job::KIND_NAMES[job.kind()], Instant::now());
                let done = job.run();
                self.jobs_ms.entry(kind).or_default().push(started.elapsed().as_secs_f64() * 1e3);
                settled.job_ends.push(self.job_done(done)?);
            } else if let Some(at) = self.guild.next_deadline()
                && at.ms_since(self.now.instant) <= SOON_MS
            {
                self.advance_ms(at.ms_since(self.now.instant));
                settled.timers.push(self.timer()?);
            } else {
                self.commit()?;
                return Ok(settled);
            }
        }
    }

    /// A command that must be accepted. Its writes are not durable yet.
    pub fn uncommitted(&mut self, actor: Actor, command: &Command) -> Result<(Duration, Reply)> {
        match self.time(|guild, now| guild.handle_command(now, actor, command))? {
            (took, Outcome::Reply(Ok(reply))) => Ok((took, reply)),
            (_, outcome) => bail!("{command:?} came to {outcome:?}"),
        }
    }

    /// A command that is answered later.
    pub fn later(&mut self, actor: Actor, command: &Command) -> Result<Duration> {
        match self.time(|guild, now| guild.handle_command(now, actor, command))? {
            (took, Outcome::Later(_)) => Ok(took),
            (_, outcome) => bail!("{command:?} came to {outcome:?}"),
        }
    }

    /// As `uncommitted`, and what it wrote is durable at once.
    pub fn command(&mut self, actor: Actor, command: &Command) -> Result<(Duration, Reply)> {
        let done = self.uncommitted(actor, command)?;
        self.commit()?;
        Ok(done)
    }

    /// A relay's message.
    pub fn relay(&mut self, message: ToGuild) -> Result<Duration> {
        Ok(self.time(|guild, now| guild.handle_relay(now, message))?.0)
    }

    /// As `relay`, for one that must change something.
    pub fn relay_heard(&mut self, message: ToGuild) -> Result<Duration> {
        let before = self.guild.version();
        let took = self.relay(message)?;
        ensure!(self.guild.version() > before, "a relay's message came to nothing");
        Ok(took)
    }

    /// Times `operation`, which gets the number of earlier calls.
    pub fn measure(
        &mut self,
        name: &'static str,
        samples: Samples,
        mut operation: impl FnMut(&mut Self, usize) -> Result<Duration>,
    ) -> Result<()> {
        self.measure_each(name, samples, |harness, n| Ok(vec![operation(harness, n)?]))
    }

    /// As `measure`, for what consists of any number of inputs.
    pub fn measure_each(
        &mut self,
        name: &'static str,
        samples: Samples,
        mut operation: impl FnMut(&mut Self, usize) -> Result<Vec<Duration>>,
    ) -> Result<()> {
        let mut times_us = Vec::new();
        for n in 0..samples.count(self.repeats) {
            self.continue_background_load()?;
            let took = operation(self, n).with_context(|| format!("timing \"{name}\""))?;
            times_us.extend(took.into_iter().map(|took| took.as_secs_f64() * 1e6));
        }
        ensure!(!times_us.is_empty(), "\"{name}\" came to nothing that could be timed");
        self.tell(name, times_us);
        Ok(())
    }

    fn tell(&mut self, name: &'static str, times_us: Vec<f64>) {
        let (count, under_load) = (times_us.len(), self.background_load.is_some());
        let Spread { p50, p99, max } = Spread::of(times_us);
        self.operations.push(Operation { name, under_load, count, p50_us: p50, p99_us: p99, max_us: max });
    }

    /// One of the members, at random.
    pub fn anybody(&mut self) -> usize {
        self.rng.below(self.members as u64) as usize
    }

    /// Every relay subscribes again; no session remains.
    fn subscribe(&mut self) -> Result<()> {
        self.epoch += 1;
        for partition in 0..PARTITIONS {
            self.subscribe_one(partition)?;
        }
        Ok(())
    }

    /// One relay subscribes, in the present incarnation of all.
    pub fn subscribe_one(&mut self, partition: usize) -> Result<Duration> {
        let relay = RelayId::first(PartitionId(partition as u16));
        self.relay_heard(ToGuild::Subscribe { relay, epoch: self.epoch })
    }

    /// One relay's last session has left.
    pub fn unsubscribe_one(&mut self, partition: usize) -> Result<Duration> {
        let relay = RelayId::first(PartitionId(partition as u16));
        self.relay(ToGuild::Unsubscribe { relay, epoch: self.epoch })
    }

    /// Member `n` opens a session.
    pub fn attach(&mut self, n: usize, members: MembersWanted) -> Result<Duration> {
        self.relay_heard(ToGuild::Attach {
            is_restored: false,
            previous: None,
            session: session(n),
            session_id: format!("{n:032x}").into(),
            user_id: crowd::user_id(n),
            kind: AccountKind::Bot,
            presence: presence(Status::Online),
            members,
        })
    }
}

/// Inputs that followed from another.
#[derive(Debug, Default)]
pub struct Settled {
    pub job_ends: Vec<Duration>,
    pub timers: Vec<Duration>,
}

fn structure_in(output: &Output) -> Option<Arc<GuildStructure>> {
    let Output::Relay(output) = output else { return None };
    match &output.message {
        RelayMessage::Snapshot { replica, .. } => Some(replica.structure.clone()),
        RelayMessage::Published(published) => match &published.replica_update {
            ReplicaUpdate::Structure(structure) => Some(structure.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The session of member `n`.
pub fn session(n: usize) -> SessionKey {
    SessionKey {
        relay: RelayId::first(PartitionId((n % PARTITIONS) as u16)),
        slot: (n / PARTITIONS) as u32,
        generation: 0,
    }
}

/// Presence of a session.
pub fn presence(status: Status) -> SessionPresence {
    let activity = serde_json::json!({"name": "chess", "type": 0, "created_at": 1_700_000_000_000u64});
    let activities: Vec<_> = activity.as_object().cloned().into_iter().collect();
    SessionPresence { status, activities: activities.into(), platform: Platform::Desktop }
}

/// Runs `guildhall-bench guild`.
///
/// # Errors
/// When the guild refuses what it should do.
pub fn run(args: GuildArgs) -> Result<()> {
    let result = measure(args)?;
    crate::report(args.json, &result, print_table)
}

fn measure(args: GuildArgs) -> Result<GuildResult> {
    let members = args.members;
    // Those who join and leave in the course of it must not be all there are.
    ensure!(members >= 2_000, "--members must be at least 2000");
    let (needed, available) = (members as u64 * BYTES_PER_MEMBER_MAX, usage::available_bytes()?);
    ensure!(
        needed <= available,
        "{members} members need up to {} MiB, and {} MiB are available: try fewer",
        needed >> 20,
        available >> 20
    );
    let rss_empty = usage::rss_bytes()?;
    let record = crowd::record(members, ROLES, CHANNELS);
    let started = Instant::now();
    let guild = Guild::load(record, GuildLimits::default(), 1);
    let load_ms = started.elapsed().as_secs_f64() * 1e3;
    let rss_loaded = usage::settled_rss_bytes()?;

    let mut harness = Harness::new(guild, members, args.repeats)?;
    harness.subscribe()?;
    harness.sessions = SESSIONS.min(members / 2);
    for n in 0..harness.sessions {
        harness.attach(n, MembersWanted::OwnAndVoice)?;
    }
    let rss_peopled = usage::settled_rss_bytes()?;
    operations::all(&mut harness)?;
    harness.begin_background_load()?;
    operations::all(&mut harness)?;
    let job_ends_us = std::mem::take(&mut harness.job_ends_us);
    harness.tell("end of the background load", job_ends_us);
    harness.end_background_load()?;
    let rss_bytes_after = usage::rss_bytes()?;
    operations::last(&mut harness)?;
    let longer = harness.operations.iter().filter(|operation| operation.p99_us > LONG_US);
    Ok(GuildResult {
        members,
        sessions: harness.sessions,
        roles: ROLES + 1,
        channels: CHANNELS,
        load_ms,
        bytes_per_member: rss_loaded.saturating_sub(rss_empty) / members as u64,
        bytes_per_session: rss_peopled.saturating_sub(rss_loaded) / harness.sessions as u64,
        rss_bytes: rss_peopled,
        rss_bytes_after,
        background_rounds: harness.background_rounds,
        longer_than_1_ms: longer.map(|of| format!("{}{}", of.name, marked(of.under_load))).collect(),
        worker: harness.jobs_ms.into_iter().map(|(kind, ms)| (kind, Worker::of(ms))).collect(),
        operations: harness.operations,
    })
}

impl Worker {
    fn of(ms: Vec<f64>) -> Self {
        Self { count: ms.len(), max_ms: ms.iter().copied().fold(0.0, f64::max), p50_ms: crate::median(ms) }
    }
}

fn marked(under_load: bool) -> &'static str {
    if under_load { " *" } else { "" }
}

fn print_table(result: &GuildResult) {
    println!(
        "{} members, {} of them there, {} roles, {} channels; loaded in {:.0} ms; {} bytes per member",
        result.members, result.sessions, result.roles, result.channels, result.load_ms, result.bytes_per_member
    );
    println!(
        "* while a snapshot was read, @everyone counted, and members searched: {} times",
        result.background_rounds
    );
    println!("{:<58} {:>7} {:>11} {:>11} {:>11}", "µs", "times", "p50", "p99", "max");
    for Operation { name, under_load, count, p50_us, p99_us, max_us } in &result.operations {
        let name = format!("{name}{}", marked(*under_load));
        println!("{name:<58} {count:>7} {p50_us:>11.2} {p99_us:>11.2} {max_us:>11.2}");
    }
    for (kind, Worker { count, p50_ms, max_ms }) in &result.worker {
        println!("in a worker: {kind:<45} {count:>7} {:>11.2} {:>11} {:>11.2}", p50_ms * 1e3, "", max_ms * 1e3);
    }
    println!("p99 above a millisecond: {}", if result.longer_than_1_ms.is_empty() { "none" } else { "" });
    result.longer_than_1_ms.iter().for_each(|name| println!("  {name}"));
}

/// The guild all operations are about.
pub const GUILD: GuildId = crowd::GUILD;
/// The actor with all permissions.
pub const SYSTEM: Actor = Actor::System;

/// Member `n`, acting.
pub fn by(n: usize) -> Actor {
    Actor::User(crowd::user_id(n))
}

/// Shared, as commands take it.
pub fn shared<T>(value: T) -> Arc<T> {
    Arc::new(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation is accepted and timed as often as requested.
    #[test]
    fn every_operation_runs() {
        let result = measure(GuildArgs { members: 2_000, repeats: 10, json: true }).unwrap();
        assert!(result.operations.len() > 100, "{}", result.operations.len());
        assert!(result.operations.iter().all(|operation| operation.count > 0), "{:?}", result.operations);
        assert!(result.background_rounds > 0);
        let in_order =
            |operation: &Operation| operation.p50_us <= operation.p99_us && operation.p99_us <= operation.max_us;
        assert!(result.operations.iter().all(in_order));
        let mut names: Vec<_> = result.operations.iter().map(|of| (of.name, of.under_load)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), result.operations.len(), "two operations have one name");
    }
}
