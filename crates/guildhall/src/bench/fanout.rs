//! Fan-out bench: one guild, as many sessions as memory holds, and no sockets: what everything above the kernel costs.
//!
//! Owns        `guildhall bench fanout`: brings the sessions up, lets events happen, and tells what that took.
//! Invariants  the guild, relays, partitions, sessions, compression and replay buffers are the node's own. The sessions
//!             are those of user accounts that name no intents, one per member, in JSON.
//! Limits      `STALL` for every step. `classic-zstd` is refused where the contexts would not fit.
//! Not here    sockets: `bench sockets`. The store: commits are done when they begin.

mod mix;
mod threads;

use super::{crowd, spread::Spread, usage};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use guildhall_codec::Encoding;
use guildhall_guild::{Guild, GuildLimits};
use guildhall_net::{IdentifyGate, IdentifyLimits, SystemClock};
use guildhall_partition::{Compression, ConnParams, Partition, PartitionConfig};
use guildhall_relay::PartitionId;
use mix::Mix;
use serde::Serialize;
use std::{
    fs,
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};
use threads::{GuildThread, PartitionEnds, PartitionReport, PartitionThread, Report, ToGuildThread, ToPartitionThread};

/// No single step takes longer than this on any machine we know; past it the bench fails instead of hanging.
const STALL: Duration = Duration::from_secs(300);
/// What a tuned zstd context takes: `ZstdParams::default`.
const ZSTD_CONTEXT_BYTES: u64 = 640 << 10;
/// Events before counting begins: buffers grow, and there is something to react to.
const WARM_UP_EVENTS: usize = 16;
/// The allocator gives back what the sessions' start took within about ten seconds.
const SETTLE_STEP: Duration = Duration::from_millis(500);
const SETTLE_STEPS_MAX: usize = 40;
/// So many steps with less than `SETTLED_BYTES` between them, and memory has settled.
const QUIET_STEPS: usize = 4;
const SETTLED_BYTES: u64 = 1 << 20;

/// How sessions are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FanoutMode {
    /// Uncompressed.
    Plain,
    /// zstd-stream, one context per connection: about 640 KB each.
    ClassicZstd,
}

/// `guildhall bench fanout`.
#[derive(Clone, Copy, Debug, Args)]
pub struct FanoutArgs {
    /// Sessions, each of another member.
    #[arg(long, default_value_t = 10_000)]
    sessions: usize,
    /// Members of the guild, online or not [default: as many as sessions].
    #[arg(long)]
    members: Option<usize>,
    /// Events that are counted.
    #[arg(long, default_value_t = 200)]
    events: usize,
    /// Events per second. 0: the next as soon as the last has been delivered everywhere.
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
    /// How sessions are written to.
    #[arg(long, value_enum, default_value_t = FanoutMode::Plain)]
    mode: FanoutMode,
    /// How often each client heartbeats, in milliseconds. It says with it what need not be kept for it any more.
    #[arg(long, default_value_t = 41_250)]
    heartbeat_ms: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// What `bench fanout` found.
#[derive(Debug, Serialize)]
struct FanoutResult {
    sessions: usize,
    members: usize,
    mode: FanoutMode,
    partitions: usize,
    events: usize,
    rate: f64,
    /// From the first event accepted to the last delivered.
    wall_s: f64,
    deliveries: u64,
    /// Of the partitions' threads, heartbeats included.
    cpu_us_per_delivery: f64,
    /// As they would go to the sockets.
    wire_bytes_per_delivery: f64,
    heartbeats: u64,
    guild_busy_ratio: f64,
    guild_op_p50_us: f64,
    guild_op_p99_us: f64,
    event_to_last_delivery_p50_ms: f64,
    event_to_last_delivery_p99_ms: f64,
    /// What the process grew by while the sessions came: theirs, and what the guild keeps of them.
    bytes_per_session: u64,
    /// What it grew by during the events: replay buffers.
    replay_bytes_per_session: u64,
    /// From the first connection to the last READY.
    setup_s: f64,
    /// Of the partitions' threads.
    setup_cpu_us_per_session: f64,
    rss_bytes: u64,
}

/// What became of the events so far.
#[derive(Debug, Default)]
struct Events {
    accepted: Vec<Instant>,
    /// By how many partitions each was delivered, and when by the last.
    delivered: Vec<(usize, Option<Instant>)>,
}

impl Events {
    fn accept(&mut self, at: Instant) -> usize {
        self.accepted.push(at);
        self.delivered.push((0, None));
        self.accepted.len() - 1
    }

    fn deliver(&mut self, event: usize, at: Instant) {
        let (count, last) = &mut self.delivered[event];
        *count += 1;
        *last = (*last).max(Some(at));
    }

    fn is_everywhere(&self, event: usize, partitions: usize) -> bool {
        self.delivered[event].0 == partitions
    }

    /// Milliseconds from accepted to delivered everywhere, of each event from `first` on.
    fn latencies_ms(&self, first: usize) -> Vec<f64> {
        let pairs = self.accepted.iter().zip(&self.delivered).skip(first);
        pairs.filter_map(|(from, (_, to))| Some(to.as_ref()?.duration_since(*from).as_secs_f64() * 1e3)).collect()
    }

    fn last_delivery(&self) -> Option<Instant> {
        self.delivered.iter().filter_map(|(_, at)| *at).max()
    }
}

/// The bench's end of all threads.
struct Stage {
    guild: Sender<ToGuildThread>,
    partitions: Vec<Sender<ToPartitionThread>>,
    reports: Receiver<Report>,
    mix: Mix,
    events: Events,
    is_loaded: bool,
    entered: usize,
    guild_report: Option<(Duration, Vec<f64>)>,
    partition_reports: Vec<PartitionReport>,
}

impl Stage {
    /// Starts the threads; the guild has `members` members and nobody is there yet.
    fn set(args: FanoutArgs, members: usize, partitions_count: usize) -> Result<Self> {
        let clock = SystemClock::default();
        let (reports_sender, reports) = mpsc::channel();
        let (guild_sender, guild_inbox) = mpsc::channel();
        let gate = Arc::new(IdentifyGate::new(IdentifyLimits::default()));
        let compression = match args.mode {
            FanoutMode::Plain => Compression::None,
            FanoutMode::ClassicZstd => Compression::Zstd,
        };
        let params = ConnParams { encoding: Encoding::Json, compression };
        let mut partitions = Vec::new();
        for n in 0..partitions_count {
            let (sender, inbox) = mpsc::channel();
            partitions.push(sender);
            let ends = PartitionEnds { inbox, guild: guild_sender.clone(), reports: reports_sender.clone() };
            let mut config = PartitionConfig::new(PartitionId(n as u16), "ws://127.0.0.1".into(), [7; 32]);
            config.partitions_count = partitions_count as u16;
            let gate = gate.clone();
            let interval = Duration::from_millis(args.heartbeat_ms);
            let make = move || Partition::new(config, gate);
            thread::Builder::new()
                .name(format!("partition-{n}"))
                .spawn(move || PartitionThread::run(make, params, clock, interval, ends))?;
        }
        let to_partitions = partitions.clone();
        thread::Builder::new().name("guild".to_owned()).spawn(move || {
            let guild = Guild::load(crowd::record(members, 0, 0), GuildLimits::default(), 1);
            GuildThread { guild, clock, inbox: guild_inbox, partitions: to_partitions, reports: reports_sender }.run();
        })?;
        Ok(Self {
            guild: guild_sender,
            partitions,
            reports,
            mix: Mix::new(0x6A11, args.sessions),
            events: Events::default(),
            is_loaded: false,
            entered: 0,
            guild_report: None,
            partition_reports: Vec::new(),
        })
    }

    /// Takes what the threads report until `done`, or until `until`.
    fn take_reports(&mut self, until: Option<Instant>, done: impl Fn(&Self) -> bool) -> Result<()> {
        while !done(self) {
            let patience = until.map_or(STALL, |until| until.saturating_duration_since(Instant::now()));
            match self.reports.recv_timeout(patience) {
                Ok(Report::Loaded) => self.is_loaded = true,
                Ok(Report::Entered(count)) => self.entered += count,
                Ok(Report::Said(said)) => self.mix.said(said),
                Ok(Report::Delivered { event, at }) => self.events.deliver(event, at),
                Ok(Report::Guild { cpu, operations_us }) => self.guild_report = Some((cpu, operations_us)),
                Ok(Report::Partition(report)) => self.partition_reports.push(report),
                Ok(Report::Failed(error)) => return Err(error.context("a thread of the bench failed")),
                Err(RecvTimeoutError::Timeout) if until.is_some() => return Ok(()),
                Err(_) => bail!("nothing happened for {STALL:?}: {} sessions entered", self.entered),
            }
        }
        Ok(())
    }

    fn tell_guild(&self, message: ToGuildThread) -> Result<()> {
        self.guild.send(message).ok().context("the guild's thread ended")
    }

    fn tell_partitions(&self, message: impl Fn(usize) -> ToPartitionThread) -> Result<()> {
        for (n, partition) in self.partitions.iter().enumerate() {
            partition.send(message(n)).ok().context("a partition's thread ended")?;
        }
        Ok(())
    }

    /// The first `sessions` members come, each to a partition of their own turn.
    fn bring_up(&mut self, sessions: usize) -> Result<()> {
        let count = self.partitions.len();
        let share = |n: usize| n * sessions / count..(n + 1) * sessions / count;
        self.tell_partitions(|n| ToPartitionThread::Enter(share(n)))?;
        self.take_reports(None, |stage| stage.entered == sessions)
    }

    fn post(&mut self, accepted: Instant) -> Result<usize> {
        let event = self.events.accept(accepted);
        let (_, actor, command, author) = self.mix.next();
        self.tell_guild(ToGuildThread::Command { event, actor, command: Box::new(command), author })?;
        Ok(event)
    }

    /// Each event after the one before it was delivered everywhere.
    fn post_in_turn(&mut self, count: usize) -> Result<()> {
        let partitions = self.partitions.len();
        for _ in 0..count {
            let event = self.post(Instant::now())?;
            self.take_reports(None, |stage| stage.events.is_everywhere(event, partitions))?;
        }
        Ok(())
    }

    /// Each event when its time has come, whatever became of the others. It counts from then on, also if the bench is late.
    fn post_at_rate(&mut self, count: usize, rate: f64) -> Result<()> {
        let partitions = self.partitions.len();
        let started = Instant::now();
        for n in 0..count {
            let due = started + Duration::from_secs_f64(n as f64 / rate);
            self.take_reports(Some(due), |_| Instant::now() >= due)?;
            self.post(due)?;
        }
        let first = self.events.accepted.len() - count;
        self.take_reports(None, |stage| {
            (first..first + count).all(|event| stage.events.is_everywhere(event, partitions))
        })
    }
}

/// Waits until the allocator has given back what it will, and tells what is left.
fn settled_rss() -> Result<u64> {
    let mut before = usage::rss_bytes()?;
    let mut quiet = 0;
    // There is no state to wait for: memory goes back some time after it was freed.
    for _ in 0..SETTLE_STEPS_MAX {
        thread::sleep(SETTLE_STEP);
        let now = usage::rss_bytes()?;
        quiet = if before.abs_diff(now) < SETTLED_BYTES { quiet + 1 } else { 0 };
        before = now;
        if quiet == QUIET_STEPS {
            break;
        }
    }
    Ok(before)
}

/// Memory that can be had without swapping.
fn available_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    parse_available(&text).context("no MemAvailable in /proc/meminfo")
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Runs `guildhall bench fanout`.
///
/// # Errors
/// For arguments that make no sense, for too little memory, and when a thread fails.
pub fn run(args: FanoutArgs) -> Result<()> {
    let FanoutArgs { sessions, events, rate, mode, .. } = args;
    let members = args.members.unwrap_or(sessions);
    ensure!(sessions > 0 && events > 0, "--sessions and --events must be at least 1");
    ensure!(members >= sessions, "--members must be at least --sessions: each session is another member's");
    ensure!(rate.is_finite() && rate >= 0.0, "--rate must be a number of events per second, or 0");
    ensure!(args.heartbeat_ms > 0, "--heartbeat-ms must be at least 1");
    if mode == FanoutMode::ClassicZstd {
        let (needed, available) = (sessions as u64 * ZSTD_CONTEXT_BYTES, available_bytes()?);
        ensure!(
            needed <= available,
            "classic-zstd needs about {} MiB for {sessions} sessions (640 KiB each), and {} MiB are available",
            needed >> 20,
            available >> 20
        );
    }
    let partitions = thread::available_parallelism().map_or(1, |n| n.get()).min(sessions);
    let mut stage = Stage::set(args, members, partitions)?;
    stage.take_reports(None, |stage| stage.is_loaded)?;

    let rss_before = settled_rss()?;
    let started = Instant::now();
    stage.bring_up(sessions)?;
    let setup_s = started.elapsed().as_secs_f64();
    stage.post_in_turn(WARM_UP_EVENTS)?;
    let rss_idle = settled_rss()?;

    stage.tell_guild(ToGuildThread::Begin)?;
    stage.tell_partitions(|_| ToPartitionThread::Begin)?;
    let started = Instant::now();
    if rate > 0.0 { stage.post_at_rate(events, rate) } else { stage.post_in_turn(events) }?;
    let wall = stage.events.last_delivery().map_or(Duration::ZERO, |at| at.duration_since(started));
    let rss_bytes = usage::rss_bytes()?;
    stage.tell_guild(ToGuildThread::End)?;
    stage.tell_partitions(|_| ToPartitionThread::End)?;
    stage.take_reports(None, |stage| stage.guild_report.is_some() && stage.partition_reports.len() == partitions)?;

    let (guild_cpu, operations_us) = stage.guild_report.take().context("the guild's report")?;
    let reports = &stage.partition_reports;
    let sum = |of: fn(&PartitionReport) -> u64| reports.iter().map(of).sum::<u64>();
    let still_there: usize = reports.iter().map(|report| report.sessions).sum();
    ensure!(still_there == sessions, "only {still_there} of {sessions} sessions outlived the bench");
    let cpu_us = |of: fn(&PartitionReport) -> Duration| reports.iter().map(of).sum::<Duration>().as_secs_f64() * 1e6;
    let deliveries = sum(|report| report.deliveries);
    let operations = Spread::of(operations_us);
    let latencies = Spread::of(stage.events.latencies_ms(WARM_UP_EVENTS));
    let per_session = |bytes: u64| bytes / sessions as u64;
    let result = FanoutResult {
        sessions,
        members,
        mode,
        partitions,
        events,
        rate,
        wall_s: wall.as_secs_f64(),
        deliveries,
        cpu_us_per_delivery: cpu_us(|report| report.cpu) / deliveries.max(1) as f64,
        wire_bytes_per_delivery: sum(|report| report.bytes) as f64 / deliveries.max(1) as f64,
        heartbeats: sum(|report| report.heartbeats),
        guild_busy_ratio: guild_cpu.as_secs_f64() / wall.as_secs_f64().max(f64::MIN_POSITIVE),
        guild_op_p50_us: operations.p50,
        guild_op_p99_us: operations.p99,
        event_to_last_delivery_p50_ms: latencies.p50,
        event_to_last_delivery_p99_ms: latencies.p99,
        bytes_per_session: per_session(rss_idle.saturating_sub(rss_before)),
        replay_bytes_per_session: per_session(rss_bytes.saturating_sub(rss_idle)),
        setup_s,
        setup_cpu_us_per_session: cpu_us(|report| report.cpu_before) / sessions as f64,
        rss_bytes,
    };
    if args.json {
        println!("{}", serde_json::to_string(&result)?);
    } else {
        print_table(&result);
    }
    Ok(())
}

fn print_table(result: &FanoutResult) {
    println!("sessions                   {} of {} members", result.sessions, result.members);
    println!("events                     {} in {:.2} s", result.events, result.wall_s);
    println!("deliveries                 {}", result.deliveries);
    println!("CPU per delivery           {:.3} µs", result.cpu_us_per_delivery);
    println!("bytes per delivery         {:.1}", result.wire_bytes_per_delivery);
    println!("guild busy                 {:.2} %", result.guild_busy_ratio * 100.0);
    println!("guild operation p99        {:.1} µs", result.guild_op_p99_us);
    println!("event to last delivery     {:.2} ms median", result.event_to_last_delivery_p50_ms);
    println!("                           {:.2} ms p99", result.event_to_last_delivery_p99_ms);
    println!(
        "memory per session         {} bytes, and {} of replay",
        result.bytes_per_session, result.replay_bytes_per_session
    );
    println!("CPU to start a session     {:.1} µs", result.setup_cpu_us_per_session);
    println!("RSS                        {:.1} MiB", result.rss_bytes as f64 / f64::from(1 << 20));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_delivered_when_the_last_partition_says_so() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut events = Events::default();
        let (a, b) = (events.accept(at(0)), events.accept(at(10)));
        events.deliver(b, at(30));
        events.deliver(a, at(7));
        events.deliver(a, at(5));
        assert!(events.is_everywhere(a, 2) && !events.is_everywhere(b, 2));
        assert_eq!(events.latencies_ms(0), [7.0, 20.0]);
        assert_eq!(events.latencies_ms(1), [20.0]);
        assert_eq!(events.last_delivery(), Some(at(30)));
    }

    #[test]
    fn available_memory() {
        assert_eq!(parse_available("MemTotal: 9 kB\nMemAvailable:   12345 kB\n"), Some(12_345 * 1024));
        assert_eq!(parse_available("MemTotal: 9 kB\n"), None);
        assert_eq!(parse_available("MemAvailable: lots\n"), None);
    }

    /// The whole bench, small: everybody is told, and nobody is lost on the way.
    #[test]
    fn a_small_crowd() {
        for mode in [FanoutMode::Plain, FanoutMode::ClassicZstd] {
            let args =
                FanoutArgs { sessions: 20, members: None, events: 40, rate: 0.0, mode, heartbeat_ms: 50, json: true };
            let mut stage = Stage::set(args, 30, 2).unwrap();
            stage.bring_up(20).unwrap();
            stage.tell_guild(ToGuildThread::Begin).unwrap();
            stage.tell_partitions(|_| ToPartitionThread::Begin).unwrap();
            stage.post_in_turn(30).unwrap();
            stage.post_at_rate(10, 1000.0).unwrap();
            stage.tell_guild(ToGuildThread::End).unwrap();
            stage.tell_partitions(|_| ToPartitionThread::End).unwrap();
            stage
                .take_reports(None, |stage| stage.guild_report.is_some() && stage.partition_reports.len() == 2)
                .unwrap();
            assert_eq!(stage.partition_reports.iter().map(|report| report.sessions).sum::<usize>(), 20);
            let deliveries: u64 = stage.partition_reports.iter().map(|report| report.deliveries).sum();
            // Most of 40 events go to all of 20 sessions.
            assert!((400..=800).contains(&deliveries), "{deliveries}");
            assert_eq!(stage.events.latencies_ms(0).len(), 40);
            assert_eq!(stage.guild_report.as_ref().map(|(_, operations)| operations.len()), Some(40));
        }
    }
}
