//! `guildhall-bench hostile`: well-behaved clients, first alone, then together with an equal number of hostile ones;
//! and REST under hostile requests (`super::rest`).
//!
//! Invariants  asserted: the good ones hear everything, in order and once; they keep their connections; every bad kind
//!             is closed, and only with the codes it is to be closed with.

use super::{
    attackers::{Attackers, Ends, Kind, MESSAGES_PER_MINUTE},
    backend::Http,
    clients::Report,
    fixture::say,
    rest,
    test_bed::TestBed,
};
use crate::stats::Spread;
use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

/// Settings of the server: shorter deadlines than usual, so that each kind is closed many times.
const SETTINGS: &[&str] = &[
    "limits.rest_rate_percent=0",
    "limits.backend_requests_per_s=0",
    "limits.rest_trusted_proxies=127.0.0.1",
    "limits.identify_deadline_ms=5000",
    "server.heartbeat_interval_ms=10000",
    "limits.write_stall_ms=3000",
    "limits.session_resume_ms=30000",
    "log.level=warn",
];
/// The clients' buffers and the store's cache come to their sizes.
const WARM_UP: Duration = Duration::from_secs(3);
/// Time for the server to close clients and return memory before memory is read again.
const SETTLE: Duration = Duration::from_secs(12);

/// `guildhall-bench hostile`.
#[derive(Clone, Copy, Debug, Args)]
pub struct HostileArgs {
    /// Clients that behave.
    #[arg(long, default_value_t = 1000)]
    good: usize,
    /// Clients that do not, of fifteen kinds.
    #[arg(long, default_value_t = 1000)]
    bad: usize,
    /// Messages a second, each to every good client.
    #[arg(long, default_value_t = 10)]
    rate: u32,
    /// Seconds of each phase. A slow body has thirty: fewer than forty do not cover its close.
    #[arg(long, default_value_t = 40)]
    seconds: u64,
    /// Milliseconds after which a bad client that was closed is back.
    #[arg(long, default_value_t = 1000)]
    away_ms: u64,
    /// Only the part that uses REST alone.
    #[arg(long)]
    rest_only: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// One phase, as the good clients and the server's books saw it.
#[derive(Debug, Serialize)]
struct Phase {
    name: &'static str,
    messages: u32,
    deliveries: usize,
    latency_ms: Spread,
    server_cpu_percent: f64,
    rss_bytes: u64,
    peak_bytes: u64,
}

#[derive(Debug, Serialize)]
struct HostileResult {
    good: usize,
    bad: usize,
    phases: Vec<Phase>,
    p99_ratio: f64,
    bad_kinds: BTreeMap<Kind, Ends>,
    rest: rest::Rest,
}

/// The test bed, and an account that posts.
struct Talk {
    bed: TestBed,
    speaker: Http,
    number: u32,
    every: Duration,
}

impl Talk {
    /// Posts for a time; returns the numbers of the messages.
    fn speak(&mut self, phase: usize, time: Duration) -> Result<std::ops::RangeInclusive<u32>> {
        let first = self.number + 1;
        let began = Instant::now();
        let mut next = began;
        while began.elapsed() < time {
            self.number += 1;
            ensure!(say(&mut self.speaker, phase, self.number, self.bed.now_us())?, "a message was refused");
            next += self.every;
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        ensure!(!self.bed.clients.has_failed(), "the good clients' thread ended");
        Ok(first..=self.number)
    }
}

/// Runs the bench.
///
/// # Errors
/// When a process cannot be started, or what is asserted does not hold.
pub fn run(args: HostileArgs) -> Result<()> {
    ensure!(args.good > 0 && args.bad > 0 && args.rate > 0 && args.seconds > 0, "all numbers start at 1");
    let mut settings: Vec<String> = SETTINGS.iter().map(|setting| (*setting).to_owned()).collect();
    settings.push(format!("limits.inbound_per_minute_max={MESSAGES_PER_MINUTE}"));
    let rest = rest::run(&settings, Duration::from_secs(args.seconds))?;
    if args.rest_only {
        return crate::report(args.json, &rest, rest::print);
    }
    let mut bed = TestBed::start(&settings, args.good + args.bad, |index, _| index < args.good)?;
    let bad_accounts = std::mem::take(&mut bed.others);
    let speaker = Http::bot(bed.node.addr, &bed.speaker);
    let every = Duration::from_secs(1) / args.rate;
    let mut talk = Talk { bed, speaker, number: 0, every };
    talk.speak(0, WARM_UP)?;

    let time = Duration::from_secs(args.seconds);
    let mut measured = vec![measure(&mut talk, 1, time)?];
    let bad = Attackers::start(talk.bed.node.addr, bad_accounts, Duration::from_millis(args.away_ms));
    measured.push(measure(&mut talk, 2, time)?);
    let bad_kinds = bad.end()?;
    talk.speak(0, SETTLE)?;
    measured.push(measure(&mut talk, 3, time)?);

    let Talk { bed, number: last, .. } = talk;
    bed.wait("the newest message", |clients| clients.heard_by_all() >= last)?;
    let report = bed.clients.end()?;
    check_good(&report, *measured[0].numbers.start(), last)?;
    let names = ["quiet", "hostile", "quiet again"];
    let phases: Vec<Phase> =
        names.into_iter().zip(measured).enumerate().map(|(n, (name, m))| m.phase(name, &report, n + 1)).collect();
    let p99_ratio = phases[1].latency_ms.p99 / phases[0].latency_ms.p99;
    let result = HostileResult { good: args.good, bad: args.bad, phases, p99_ratio, bad_kinds, rest };
    crate::report(args.json, &result, print)?;
    check_bad(&result.bad_kinds, args.seconds)
}

struct Measured {
    numbers: std::ops::RangeInclusive<u32>,
    cpu_percent: f64,
    rss_bytes: u64,
    peak_bytes: u64,
}

fn measure(talk: &mut Talk, phase: usize, time: Duration) -> Result<Measured> {
    talk.bed.node.forget_peak()?;
    let (cpu, began) = (talk.bed.node.cpu()?, Instant::now());
    let numbers = talk.speak(phase, time)?;
    let bed = &talk.bed;
    let cpu = bed.node.cpu()?.saturating_sub(cpu);
    Ok(Measured {
        numbers,
        cpu_percent: cpu.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0,
        rss_bytes: bed.node.rss_bytes()?,
        peak_bytes: bed.node.peak_bytes()?,
    })
}

impl Measured {
    fn phase(self, name: &'static str, report: &Report, phase: usize) -> Phase {
        let latencies = report.latencies.get(phase).map(Vec::as_slice).unwrap_or_default();
        Phase {
            name,
            messages: self.numbers.clone().count() as u32,
            deliveries: latencies.len(),
            latency_ms: Spread::of(latencies.iter().map(|ms| f64::from(*ms)).collect()),
            server_cpu_percent: self.cpu_percent,
            rss_bytes: self.rss_bytes,
            peak_bytes: self.peak_bytes,
        }
    }
}

/// All good clients received every message from `first` to `last`, without closes or reconnects.
fn check_good(report: &Report, first: u32, last: u32) -> Result<()> {
    ensure!(report.closes.is_empty(), "good clients were closed: {:?}", report.closes);
    let (asked, resumed) = (report.asked.sum(), report.resumed.sum());
    ensure!(asked == 0 && resumed == 0, "good clients received RECONNECT {asked} times, and resumed {resumed} times");
    ensure!(report.identified.iter().all(|count| *count == 1), "good clients had to identify again");
    report.check_heard(&(first..=last).collect::<Vec<_>>())
}

fn check_bad(kinds: &BTreeMap<Kind, Ends>, seconds: u64) -> Result<()> {
    for (kind, Ends { connections, ends }) in kinds {
        let closed: u64 = kind.ends().iter().filter_map(|end| ends.get(*end)).sum();
        let is_known = |end: &str| kind.ends().contains(&end) || matches!(end, "http 429" | "http 503");
        let others: Vec<_> = ends.iter().filter(|(end, _)| !is_known(end)).collect();
        let has_time = *kind != Kind::SlowBody || seconds >= 40;
        ensure!(*connections == 0 || !has_time || closed > 0, "{kind:?} was not closed once: {ends:?}");
        ensure!(others.is_empty(), "{kind:?} was closed with {others:?} instead of {:?}", kind.ends());
    }
    Ok(())
}

fn print(result: &HostileResult) {
    println!("{} good clients, {} bad ones", result.good, result.bad);
    println!("phase         deliveries  p50 ms  p99 ms  max ms  server CPU %  RSS MiB  peak MiB");
    for phase in &result.phases {
        let Spread { p50, p99, max } = phase.latency_ms;
        println!(
            "{:<12} {:>11} {p50:>7.2} {p99:>7.2} {max:>7.2} {:>13.1} {:>8} {:>9}",
            phase.name,
            phase.deliveries,
            phase.server_cpu_percent,
            phase.rss_bytes >> 20,
            phase.peak_bytes >> 20
        );
    }
    println!("p99 of hostile to quiet   {:.2}", result.p99_ratio);
    println!("kind            connections  ended with");
    for (kind, Ends { connections, ends }) in &result.bad_kinds {
        let ends: Vec<String> = ends.iter().map(|(end, count)| format!("{end}: {count}")).collect();
        println!("{:<15} {connections:>11}  {}", format!("{kind:?}"), ends.join(", "));
    }
    rest::print(&result.rest);
}
