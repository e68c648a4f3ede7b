//! Fan-out bench: one guild, as many sessions as memory holds, and no sockets: what everything above the kernel costs.
//!
//! Owns        `guildhall-bench fanout`: starts the sessions, generates events, and reports the cost.
//! Invariants  the guild, its jobs, relays, partitions, sessions, compression and replay buffers are the node's own.
//!             The sessions are those of user accounts with a current client, one per member, in JSON. A share is
//!             passive from its first day on; the others look at the guild.
//! Limits      a step without progress is given up (`driver`). `classic-zstd` is refused where the contexts would not
//!             fit.
//! Not here    sockets: `guildhall-bench sockets`. The store: commits are done when they begin.

mod clients;
mod driver;
mod guild;
mod overhead;
mod partition;
mod workload;

use super::{Extra, stats::Spread, usage};
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use driver::Driver;
use guild::GuildReport;
use guildhall_accounting::report::Owner;
use overhead::Overhead;
use partition::{LIST_UPDATES, Mark, MemoryReport, PASSIVE_UPDATES, PartitionReport};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};
use workload::{Kind, People, Posted};

/// Memory of a tuned zstd context: `ZstdParams::default`.
const ZSTD_CONTEXT_BYTES: u64 = 696 << 10;
/// Events before counting begins: buffers grow, and there is something to react to.
const WARM_UP_EVENTS: usize = 16;

/// How sessions are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FanoutMode {
    /// Uncompressed.
    Plain,
    /// zstd-stream, one context per connection: 713 KB each.
    ClassicZstd,
    /// permessage-deflate without context takeover: frames compressed once for all.
    Prepared,
    /// zstd-stream, written by shared-match.
    SharedZstd,
    /// zstd-stream, by contexts that may move to shared-match: of three quarters of the available memory.
    AutoZstd,
}

/// `guildhall-bench fanout`.
#[derive(Clone, Copy, Debug, Args)]
pub struct FanoutArgs {
    /// Sessions, each of another member.
    #[arg(long, default_value_t = 10_000)]
    sessions: usize,
    /// Share of the sessions that do not look at the guild.
    #[arg(long, default_value_t = 0.9)]
    passive: f64,
    /// Members of the guild, online or not [default: as many as sessions].
    #[arg(long)]
    members: Option<usize>,
    /// Events that are counted.
    #[arg(long, default_value_t = 200)]
    events: usize,
    /// Events per second. 0: the next as soon as the last has been delivered everywhere.
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
    /// Partitions, each with a relay and a thread [default: one per core].
    #[arg(long)]
    partitions: Option<usize>,
    /// How sessions are written to.
    #[arg(long, value_enum, default_value_t = FanoutMode::Plain)]
    mode: FanoutMode,
    /// How often each client heartbeats, in milliseconds. A heartbeat acknowledges dispatches.
    #[arg(long, default_value_t = 41_250)]
    heartbeat_ms: u64,
    /// Interval of passive updates, in milliseconds. A shorter run has no passive update.
    #[arg(long, default_value_t = 30_000)]
    passive_interval_ms: u64,
    /// Do not wait until memory has settled; bytes per session are not reported.
    #[arg(long)]
    no_memory: bool,
    /// Turn the accounts, or a dark launch, off in every second block of events, and report what it costs.
    #[arg(long, value_enum, num_args = 0..=1, default_missing_value = "accounts")]
    overhead: Option<Extra>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// To the bench, from its threads.
pub enum Report {
    /// The guild is there.
    Loaded,
    /// So many more sessions are in the guild.
    Entered(usize),
    /// All clients of a partition have heartbeat.
    Heartbeat,
    /// A message exists.
    Posted(Posted),
    /// A partition has delivered all of an event.
    Delivered { event: usize, at: Instant },
    /// A block of events has ended.
    Mark(Mark),
    /// Memory of a thread by owner.
    Memory(MemoryReport),
    /// Counters of the guild's thread.
    Guild(GuildReport),
    /// Counters of a partition's thread.
    Partition(PartitionReport),
    /// A thread cannot go on.
    Failed(anyhow::Error),
}

/// What `guildhall-bench fanout` found. CPU is of the threads named, by the kernel's clock for each.
#[derive(Debug, Serialize)]
struct FanoutResult {
    sessions: usize,
    passive: f64,
    active_sessions: usize,
    members: usize,
    mode: FanoutMode,
    partitions: usize,
    events: usize,
    events_of: BTreeMap<Kind, u64>,
    rate: f64,
    /// From the first event accepted to the last delivered.
    wall_s: f64,
    deliveries: u64,
    /// Of these, passive updates and updates of member lists.
    passive_updates: u64,
    list_updates: u64,
    deliveries_of: BTreeMap<&'static str, u64>,
    /// Of the partitions' threads, heartbeats included.
    cpu_us_per_delivery: f64,
    /// Of all threads, without heartbeats.
    cpu_us_per_event: f64,
    cpu_us_per_passive_update: f64,
    /// As they would go to the sockets.
    wire_bytes_per_delivery: f64,
    heartbeats: u64,
    cpu_us_per_heartbeat: f64,
    guild_busy_ratio: f64,
    /// Shares of the guild's busy time by kind of input, the largest first.
    guild_busy_by: Vec<(String, f64)>,
    /// Messages of the guild to relays.
    guild_sent: u64,
    /// Of every input of the guild: events, messages of relays, timers, ends of jobs.
    guild_op_p50_us: f64,
    guild_op_p99_us: f64,
    guild_op_max_us: f64,
    guild_jobs: u64,
    guild_jobs_cpu_s: f64,
    /// Until the last session has what it gets at once. Lists, presences held back and rounds follow later by design.
    event_to_last_delivery_p50_ms: f64,
    event_to_last_delivery_p99_ms: f64,
    /// Growth of the process while these sessions connected, after each had sent a heartbeat and memory had settled:
    /// their memory, and the guild's memory for them.
    bytes_per_passive_session: Option<u64>,
    bytes_per_active_session: Option<u64>,
    /// Growth during the events, per session: logs, messages, positions in logs.
    replay_bytes_per_session: Option<u64>,
    /// Of the guild with its members, before the first session.
    bytes_per_member: Option<u64>,
    /// From the first connection to the last READY.
    setup_s: f64,
    /// Of the whole process.
    setup_cpu_us_per_session: f64,
    rss_bytes: u64,
    /// Memory by owner, as a node reports it, after the events.
    owners: BTreeMap<String, u64>,
    /// Share of `rss_bytes` that the owners are.
    explained: f64,
    /// The longest time that a thread took for its part of the estimate.
    estimate_ms: f64,
    overhead: Option<Overhead>,
}

/// Memory by owner, and how long the estimate took.
struct Explained {
    owners: Vec<Owner>,
    took: Duration,
}

/// Memory after each step, if it was waited for.
struct Footprint {
    empty: u64,
    loaded: Option<u64>,
    with_passive: Option<u64>,
    with_active: Option<u64>,
    after: u64,
}

/// How much larger the process was after something, spread over many.
fn growth_each(before: Option<u64>, after: Option<u64>, count: usize) -> Option<u64> {
    Some(after?.saturating_sub(before?) / Some(count as u64).filter(|count| *count > 0)?)
}

/// Shares of the guild's time by kind of input, the largest first.
fn busy_by(busy_us: &[f64]) -> Vec<(String, f64)> {
    let total = busy_us.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let mut shares: Vec<(String, f64)> =
        guild::input_names().into_iter().zip(busy_us.iter().map(|us| us / total)).collect();
    shares.retain(|(_, share)| *share > 0.0);
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

/// What bringing the sessions up took.
struct Setup {
    wall: Duration,
    cpu: Duration,
}

fn check(args: &FanoutArgs, members: usize) -> Result<()> {
    let FanoutArgs { sessions, passive, events, rate, mode, .. } = *args;
    ensure!(sessions > 0 && events > 0, "--sessions and --events must be at least 1");
    ensure!((0.0..=1.0).contains(&passive), "--passive is a share, from 0 to 1");
    ensure!(members >= sessions, "--members must be at least --sessions: each session is another member's");
    ensure!(rate.is_finite() && rate >= 0.0, "--rate must be a number of events per second, or 0");
    ensure!(args.heartbeat_ms > 0, "--heartbeat-ms must be at least 1");
    ensure!(args.passive_interval_ms > 0, "--passive-interval-ms must be at least 1");
    match mode {
        FanoutMode::Plain | FanoutMode::Prepared | FanoutMode::SharedZstd | FanoutMode::AutoZstd => {}
        FanoutMode::ClassicZstd => {
            let (needed, available) = (sessions as u64 * ZSTD_CONTEXT_BYTES, usage::available_bytes()?);
            ensure!(
                needed <= available,
                "classic-zstd needs about {} MiB for {sessions} sessions (640 KiB each), and {} MiB are available",
                needed >> 20,
                available >> 20
            );
        }
    }
    Ok(())
}

/// Runs `guildhall-bench fanout`.
///
/// # Errors
/// For arguments that make no sense, for too little memory, and when a thread fails.
pub fn run(args: FanoutArgs) -> Result<()> {
    let FanoutArgs { sessions, events, rate, .. } = args;
    let members = args.members.unwrap_or(sessions);
    check(&args, members)?;
    let passive = (sessions as f64 * args.passive).round() as usize;
    let people = People { active: sessions - passive, online: sessions, members };
    let cores = thread::available_parallelism().map_or(1, |n| n.get());
    let partitions = args.partitions.unwrap_or(cores).clamp(1, sessions);

    let empty = usage::rss_bytes()?;
    let mut driver = Driver::set(args, people, partitions)?;
    let settled = |driver: &mut Driver| (!args.no_memory).then(|| driver.settled_bytes()).transpose();
    let loaded = settled(&mut driver)?;
    let mut setup = Setup { wall: Duration::ZERO, cpu: Duration::ZERO };
    setup.time(|| driver.bring_up(people.active..sessions, None))?;
    let with_passive = settled(&mut driver)?;
    setup.time(|| driver.bring_up(0..people.active, Some(people.active)))?;
    let with_active = settled(&mut driver)?;

    driver.post_in_turn(WARM_UP_EVENTS)?;
    driver.begin()?;
    let started = Instant::now();
    let overhead = match args.overhead {
        Some(extra) => Some(overhead::measure(&mut driver, events, extra)?),
        None => {
            if rate > 0.0 { driver.post_at_rate(events, rate) } else { driver.post_in_turn(events) }?;
            None
        }
    };
    let wall = driver.events.last_delivery().map_or(Duration::ZERO, |at| at.duration_since(started));
    let footprint = Footprint { empty, loaded, with_passive, with_active, after: usage::rss_bytes()? };
    let (owners, took) = driver.memory()?;
    let explained = Explained { owners, took };
    driver.end()?;

    let result = FanoutResult::new(&args, people, &driver, (wall, overhead), (&setup, &footprint, &explained))?;
    crate::report(args.json, &result, print_table)
}

impl Setup {
    fn time(&mut self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let (started, cpu) = (Instant::now(), usage::cpu_ns()?);
        work()?;
        self.wall += started.elapsed();
        self.cpu += Duration::from_nanos(usage::cpu_ns()?.saturating_sub(cpu));
        Ok(())
    }
}

impl FanoutResult {
    fn new(
        args: &FanoutArgs,
        people: People,
        driver: &Driver,
        (wall, overhead): (Duration, Option<Overhead>),
        (setup, footprint, explained): (&Setup, &Footprint, &Explained),
    ) -> Result<Self> {
        let FanoutArgs { sessions, events, .. } = *args;
        let guild = driver.guild_report.as_ref().context("the guild's report")?;
        let reports = &driver.partition_reports;
        let still_there: usize = reports.iter().map(|report| report.sessions).sum();
        ensure!(still_there == sessions, "only {still_there} of {sessions} sessions outlived the bench");

        let sum = |of: fn(&PartitionReport) -> u64| reports.iter().map(of).sum::<u64>();
        let cpu_us =
            |of: fn(&PartitionReport) -> Duration| reports.iter().map(of).sum::<Duration>().as_secs_f64() * 1e6;
        let mut deliveries_of: BTreeMap<&'static str, u64> = BTreeMap::new();
        for (name, count) in reports.iter().flat_map(|report| &report.deliveries_of) {
            *deliveries_of.entry(name).or_default() += count;
        }
        let named = |name| deliveries_of.get(name).copied().unwrap_or(0);
        let (deliveries, heartbeats) = (sum(|report| report.deliveries), sum(|report| report.heartbeats));
        let (partitions_us, heartbeats_us) = (cpu_us(|report| report.cpu), cpu_us(|report| report.heartbeats_cpu));
        let guild_us = (guild.cpu + guild.jobs_cpu).as_secs_f64() * 1e6;
        let operations = Spread::of(guild.operations_us.clone());
        let latencies = Spread::of(driver.events.latencies_ms(driver.events.len() - events));
        let each = |total: f64, count: u64| total / count.max(1) as f64;
        let passive = sessions - people.active;
        Ok(Self {
            sessions,
            passive: args.passive,
            active_sessions: people.active,
            members: people.members,
            mode: args.mode,
            partitions: reports.len(),
            events,
            events_of: driver.events_of.clone(),
            rate: args.rate,
            wall_s: wall.as_secs_f64(),
            deliveries,
            passive_updates: named(PASSIVE_UPDATES),
            list_updates: named(LIST_UPDATES),
            cpu_us_per_delivery: each(partitions_us, deliveries),
            cpu_us_per_event: each(partitions_us - heartbeats_us + guild_us, events as u64),
            cpu_us_per_passive_update: each(cpu_us(|report| report.passive_updates_cpu), named(PASSIVE_UPDATES)),
            wire_bytes_per_delivery: each(sum(|report| report.bytes) as f64, deliveries),
            heartbeats,
            cpu_us_per_heartbeat: each(heartbeats_us, heartbeats),
            guild_busy_by: busy_by(&guild.busy_us),
            guild_sent: guild.sent,
            guild_busy_ratio: guild.cpu.as_secs_f64() / wall.as_secs_f64().max(f64::MIN_POSITIVE),
            guild_op_p50_us: operations.p50,
            guild_op_p99_us: operations.p99,
            guild_op_max_us: operations.max,
            guild_jobs: guild.jobs,
            guild_jobs_cpu_s: guild.jobs_cpu.as_secs_f64(),
            event_to_last_delivery_p50_ms: latencies.p50,
            event_to_last_delivery_p99_ms: latencies.p99,
            bytes_per_passive_session: growth_each(footprint.loaded, footprint.with_passive, passive),
            bytes_per_active_session: growth_each(footprint.with_passive, footprint.with_active, people.active),
            replay_bytes_per_session: growth_each(footprint.with_active, Some(footprint.after), sessions),
            bytes_per_member: growth_each(Some(footprint.empty), footprint.loaded, people.members),
            setup_s: setup.wall.as_secs_f64(),
            setup_cpu_us_per_session: setup.cpu.as_secs_f64() * 1e6 / sessions as f64,
            rss_bytes: footprint.after,
            owners: explained.owners.iter().map(|owner| (owner.name.clone(), owner.bytes)).collect(),
            explained: explained.owners.iter().map(|owner| owner.bytes).sum::<u64>() as f64 / footprint.after as f64,
            estimate_ms: explained.took.as_secs_f64() * 1e3,
            overhead,
            deliveries_of,
        })
    }
}

fn print_table(result: &FanoutResult) {
    let bytes = |bytes: Option<u64>| bytes.map_or("not measured".to_owned(), |bytes| format!("{bytes} bytes"));
    println!("sessions                   {} of {} members", result.sessions, result.members);
    println!("that look at the guild     {}", result.active_sessions);
    println!("events                     {} in {:.2} s", result.events, result.wall_s);
    println!("deliveries                 {}", result.deliveries);
    for (name, count) in &result.deliveries_of {
        println!("  {name:<32} {count:>14}");
    }
    println!("CPU per delivery           {:.3} µs", result.cpu_us_per_delivery);
    println!("CPU per event              {:.1} µs", result.cpu_us_per_event);
    println!("CPU per passive update     {:.3} µs", result.cpu_us_per_passive_update);
    println!("CPU per heartbeat          {:.3} µs", result.cpu_us_per_heartbeat);
    println!("bytes per delivery         {:.1}", result.wire_bytes_per_delivery);
    println!("guild busy                 {:.2} %", result.guild_busy_ratio * 100.0);
    for (name, share) in result.guild_busy_by.iter().take(6) {
        println!("  of it {name:<20} {:.1} %", share * 100.0);
    }
    println!("guild operation p99        {:.1} µs", result.guild_op_p99_us);
    println!("event to last delivery     {:.2} ms median", result.event_to_last_delivery_p50_ms);
    println!("                           {:.2} ms p99", result.event_to_last_delivery_p99_ms);
    println!("memory per passive session {}", bytes(result.bytes_per_passive_session));
    println!("memory per active session  {}", bytes(result.bytes_per_active_session));
    println!("replay per session         {}", bytes(result.replay_bytes_per_session));
    println!("CPU to start a session     {:.1} µs", result.setup_cpu_us_per_session);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!("RSS                        {:.1} MiB", mib(result.rss_bytes));
    let mut owners: Vec<(&String, &u64)> = result.owners.iter().collect();
    owners.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
    for (name, bytes) in owners {
        println!("  {name:<24} {:>8.1} MiB", mib(*bytes));
    }
    println!("explained by owners        {:.1} %", result.explained * 100.0);
    println!("time of the estimate       {:.2} ms at most on a thread", result.estimate_ms);
    if let Some(overhead) = &result.overhead {
        overhead.print();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARGS: FanoutArgs = FanoutArgs {
        sessions: 40,
        passive: 0.5,
        members: None,
        events: 40,
        rate: 0.0,
        partitions: None,
        mode: FanoutMode::Plain,
        heartbeat_ms: 50,
        passive_interval_ms: 30_000,
        no_memory: true,
        overhead: None,
        json: true,
    };

    /// The whole bench, small: every session receives events, and none is lost.
    #[test]
    fn a_small_crowd() {
        for mode in FanoutMode::value_variants().iter().copied() {
            let args = FanoutArgs { mode, ..ARGS };
            // More than may identify with one token.
            let people = People { active: 20, online: 140, members: 160 };
            let mut driver = Driver::set(args, people, 2).unwrap();
            driver.bring_up(20..140, None).unwrap();
            driver.bring_up(0..20, Some(20)).unwrap();
            driver.begin().unwrap();
            driver.post_in_turn(100).unwrap();
            driver.post_at_rate(10, 1000.0).unwrap();
            let (owners, _) = driver.memory().unwrap();
            let bytes = |name: &str| owners.iter().find(|owner| owner.name == name).map_or(0, |owner| owner.bytes);
            for name in ["sessions", "connections", "shared_logs", "relays", "guild_members", "guild_sessions"] {
                assert!(bytes(name) > 0, "{name}: {owners:?}");
            }
            driver.end().unwrap();
            assert_eq!(driver.partition_reports.iter().map(|report| report.sessions).sum::<usize>(), 140);
            assert_eq!(driver.events.latencies_ms(0).len(), 110);
            assert!(driver.guild_report.as_ref().is_some_and(|report| report.operations_us.len() >= 110));
            let messages: u64 =
                driver.partition_reports.iter().filter_map(|report| report.deliveries_of.get("MESSAGE_CREATE")).sum();
            // Some 31 messages, most to all 20 that look, few to those that do not.
            assert!((300..1_000).contains(&messages), "{messages}");
        }
    }

    #[test]
    fn arguments_that_make_no_sense() {
        let refused = |args: FanoutArgs, members| check(&args, members).unwrap_err().to_string();
        assert!(check(&FanoutArgs { mode: FanoutMode::Prepared, ..ARGS }, 40).is_ok());
        assert!(refused(ARGS, 39).contains("--members"));
        assert!(refused(FanoutArgs { passive: 1.5, ..ARGS }, 40).contains("--passive"));
        assert!(check(&ARGS, 40).is_ok());
    }
}
