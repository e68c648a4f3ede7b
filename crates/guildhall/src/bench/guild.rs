//! Guild bench: how long each operation of one guild holds up everything else in it.
//!
//! Owns        `guildhall bench guild`: a guild of any size, alone on this thread; `Lab`, which times one input at a time.
//! Invariants  an operation is one input of the machine with everything that comes out of it; making the input,
//!             dropping what came out, and what the kernel ran in between is not in its time. What relays hold is held
//!             here too, so that what they share is copied as it would be. A command that is refused ends the bench.
//! Not here    commits, channels, threads: `bench fanout`, `bench sockets`.

mod operations;

use super::{crowd, sched::SchedFile, spread::Spread, usage};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use guildhall_guild::{Actor, Command, Guild, GuildLimits, Outcome, Output, Reply};
use guildhall_model::{AccountKind, GuildId, Platform, Status};
use guildhall_relay::{
    Effect, GuildMeta, MembersWanted, PartitionId, RelayId, RelayMessage, SessionKey, SessionPresence, ToGuild, ToRelay,
};
use guildhall_stdx::{Now, Rng};
use serde::Serialize;
use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

/// Relays, as on a node with two cores.
const PARTITIONS: usize = 2;
/// A guild may have 250 roles and 500 channels; a few are left for the operations that make some.
const ROLES: usize = 240;
const CHANNELS: usize = 480;
/// Members who are there, unless the guild is smaller.
const SESSIONS: usize = 100_000;

/// `guildhall bench guild`.
#[derive(Clone, Copy, Debug, Args)]
pub struct GuildArgs {
    /// Members of the guild. One in two of them is there, but not more than 100,000. Where an operation's name says of
    /// how many people it is, it is of all members if there are fewer.
    #[arg(long, default_value_t = 100_000)]
    members: usize,
    /// How often each quick operation is timed; slow ones are timed less often.
    #[arg(long, default_value_t = 2_000)]
    repeats: usize,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// How often an operation is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Often {
    /// `--repeats`.
    Always,
    /// A tenth of it: what has a long preparation.
    Sometimes,
    /// A few times: what takes long itself.
    Seldom,
    /// It cannot be undone.
    Once,
}

impl Often {
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
    count: usize,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

/// What `bench guild` found.
#[derive(Debug, Serialize)]
struct GuildResult {
    members: usize,
    sessions: usize,
    roles: usize,
    channels: usize,
    load_ms: f64,
    /// What the process grew by with the record and the guild made of it.
    bytes_per_member: u64,
    /// What it grew by with each session that entered.
    bytes_per_session: u64,
    rss_bytes: u64,
    operations: Vec<Operation>,
}

/// A guild, and a clock that moves on by a millisecond with each input.
pub struct Lab {
    guild: Guild,
    now: Now,
    pub rng: Rng,
    pub members: usize,
    pub sessions: usize,
    /// Whose session shows that they are busy.
    pub busy: HashSet<usize>,
    repeats: usize,
    /// Of the relays.
    epoch: u32,
    /// What came out of the last input.
    outputs: Vec<Output>,
    /// Base fields, roles and channels as every relay has them.
    held: Option<Arc<GuildMeta>>,
    sched: SchedFile,
    operations: Vec<Operation>,
}

impl Lab {
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
            held: None,
            sched: SchedFile::open()?,
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
        self.held = self.outputs.iter().rev().find_map(meta_in).or(self.held.take());
        Ok((took.saturating_sub(waited), result))
    }

    /// Time passes.
    pub fn advance_ms(&mut self, ms: u64) {
        self.now = Now::new(self.now.instant.0 + ms, self.now.unix.0 + ms as i64);
    }

    /// The guild is called because it asked to be.
    pub fn timer(&mut self) -> Result<Duration> {
        Ok(self.time(|guild, now| guild.handle_timer(now))?.0)
    }

    /// What was written so far is durable.
    pub fn commit(&mut self) -> Result<Duration> {
        Ok(self.time(|guild, _| guild.handle_committed(guild.version()))?.0)
    }

    /// A command that must be accepted. What it wrote is not durable yet.
    pub fn uncommitted(&mut self, actor: Actor, command: &Command) -> Result<(Duration, Reply)> {
        match self.time(|guild, now| guild.handle_command(now, actor, command))? {
            (took, Outcome::Reply(Ok(reply))) => Ok((took, reply)),
            (_, Outcome::Reply(Err(refusal))) => bail!("{command:?} was refused: {refusal}"),
            (_, Outcome::Later(_)) => bail!("{command:?} is answered later"),
            (_, Outcome::NeedsMessage(..)) => bail!("{command:?} needs a message that is not in memory"),
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

    /// As `relay`, for one that the relays must hear of.
    pub fn relay_heard(&mut self, message: ToGuild) -> Result<Duration> {
        let took = self.relay(message)?;
        ensure!(!self.outputs.is_empty(), "a relay's message came to nothing");
        Ok(took)
    }

    /// Times `operation`, which is told how often it was called before.
    pub fn measure(
        &mut self,
        name: &'static str,
        often: Often,
        mut operation: impl FnMut(&mut Self, usize) -> Result<Duration>,
    ) -> Result<()> {
        let count = often.count(self.repeats);
        let mut times_us = Vec::with_capacity(count);
        for n in 0..count {
            let took = operation(self, n).with_context(|| format!("timing \"{name}\""))?;
            times_us.push(took.as_secs_f64() * 1e6);
        }
        let Spread { p50, p99, max } = Spread::of(times_us);
        self.operations.push(Operation { name, count, p50_us: p50, p99_us: p99, max_us: max });
        Ok(())
    }

    /// One of the members, at random.
    pub fn anybody(&mut self) -> usize {
        self.rng.below(self.members as u64) as usize
    }

    /// Every relay subscribes anew; no session is there after it.
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
            session: session(n),
            session_id: format!("{n:032x}").into(),
            user_id: crowd::user_id(n),
            kind: AccountKind::Bot,
            presence: presence(Status::Online),
            members,
        })
    }
}

fn meta_in(output: &Output) -> Option<Arc<GuildMeta>> {
    let Output::Relay(_, ToRelay { message, .. }) = output else { return None };
    match message {
        RelayMessage::Snapshot { picture, .. } => Some(picture.meta.clone()),
        RelayMessage::Published(published) => match &published.effect {
            Effect::Meta(meta) => Some(meta.clone()),
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

/// What a session shows.
pub fn presence(status: Status) -> SessionPresence {
    let activity = serde_json::json!({"name": "chess", "type": 0, "created_at": 1_700_000_000_000u64});
    let activities: Vec<_> = activity.as_object().cloned().into_iter().collect();
    SessionPresence { status, activities: activities.into(), platform: Platform::Desktop }
}

/// Runs `guildhall bench guild`.
///
/// # Errors
/// When the guild refuses what it should do.
pub fn run(args: GuildArgs) -> Result<()> {
    let result = measure(args)?;
    if args.json {
        println!("{}", serde_json::to_string(&result)?);
    } else {
        print_table(&result);
    }
    Ok(())
}

fn measure(args: GuildArgs) -> Result<GuildResult> {
    let members = args.members;
    // Those who join and leave in the course of it must not be all there are.
    ensure!(members >= 2_000, "--members must be at least 2000");
    let rss_empty = usage::rss_bytes()?;
    let record = crowd::record(members, ROLES, CHANNELS);
    let started = Instant::now();
    let guild = Guild::load(record, GuildLimits::default(), 1);
    let load_ms = started.elapsed().as_secs_f64() * 1e3;
    let rss_loaded = usage::rss_bytes()?;

    let mut lab = Lab::new(guild, members, args.repeats)?;
    lab.subscribe()?;
    lab.sessions = SESSIONS.min(members / 2);
    for n in 0..lab.sessions {
        lab.attach(n, MembersWanted::OwnAndVoice)?;
    }
    let rss_peopled = usage::rss_bytes()?;
    operations::all(&mut lab)?;
    Ok(GuildResult {
        members,
        sessions: lab.sessions,
        roles: ROLES + 1,
        channels: CHANNELS,
        load_ms,
        bytes_per_member: rss_loaded.saturating_sub(rss_empty) / members as u64,
        bytes_per_session: rss_peopled.saturating_sub(rss_loaded) / lab.sessions as u64,
        rss_bytes: rss_peopled,
        operations: lab.operations,
    })
}

fn print_table(result: &GuildResult) {
    println!(
        "{} members, {} of them there, {} roles, {} channels; loaded in {:.0} ms; {} bytes per member",
        result.members, result.sessions, result.roles, result.channels, result.load_ms, result.bytes_per_member
    );
    println!("{:<52} {:>7} {:>11} {:>11} {:>11}", "µs", "times", "p50", "p99", "max");
    for Operation { name, count, p50_us, p99_us, max_us } in &result.operations {
        println!("{name:<52} {count:>7} {p50_us:>11.2} {p99_us:>11.2} {max_us:>11.2}");
    }
}

/// The guild all operations are about.
pub const GUILD: GuildId = crowd::GUILD;
/// Who may do everything.
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

    /// Every operation is accepted and timed as often as asked.
    #[test]
    fn every_operation_runs() {
        let result = measure(GuildArgs { members: 2_000, repeats: 10, json: true }).unwrap();
        let counts: Vec<usize> = result.operations.iter().map(|operation| operation.count).collect();
        assert!(result.operations.len() > 40, "{}", result.operations.len());
        assert!(counts.iter().all(|count| [1, 5, 10].contains(count)), "{counts:?}");
        let in_order =
            |operation: &Operation| operation.p50_us <= operation.p99_us && operation.p99_us <= operation.max_us;
        assert!(result.operations.iter().all(in_order));
        let mut names: Vec<&str> = result.operations.iter().map(|operation| operation.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), result.operations.len(), "a name stands for two operations");
    }
}
