//! `guildhall-bench takeover`: a new process takes over a node with many clients, in every compression.
//!
//! Invariants  asserted: no client was closed or received op 7; each received all stored messages, once and in
//!             order, and could decompress all of them.

use super::{
    backend::Http,
    clients::Way,
    drain::Talk,
    fixture,
    node::Node,
    test_bed::{TestBed, wait},
};
use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

const SETTINGS: &[&str] =
    &["limits.rest_rate_percent=0", "limits.backend_requests_per_s=0", "log.level=info", "deflate.mode=takeover"];
/// Talk before each takeover, and after the last.
const TALK: Duration = Duration::from_secs(4);

/// `guildhall-bench takeover`.
#[derive(Clone, Copy, Debug, Args)]
pub struct TakeoverArgs {
    /// Clients, every second one a bot, in every compression in turn.
    #[arg(long, default_value_t = 5000)]
    connections: usize,
    /// Messages a second, each to every client.
    #[arg(long, default_value_t = 10)]
    rate: u32,
    /// Takeovers, one after the other.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Value of `codec.streams`.
    #[arg(long, default_value = "auto")]
    streams: Streams,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Streams {
    Auto,
    SharedMatch,
    PerConnection,
}

#[derive(Debug, Serialize)]
struct Row {
    compression: &'static str,
    connections: usize,
    /// Longest time without a message, in milliseconds. Messages are `1000 / rate` apart.
    silence_p50_ms: u64,
    silence_p99_ms: u64,
    silence_max_ms: u64,
    received_bytes: u64,
}

#[derive(Debug, Serialize)]
struct TakeoverResult {
    connections: usize,
    streams: String,
    takeovers: u32,
    messages_kept: usize,
    deliveries: usize,
    /// From the start of each new process to the end of the one before.
    takeover_ms: Vec<u64>,
    rss_before_bytes: u64,
    rss_after_bytes: u64,
    rows: Vec<Row>,
}

/// Runs the bench.
///
/// # Errors
/// When a process cannot be started, or what is asserted does not hold.
pub fn run(args: TakeoverArgs) -> Result<()> {
    let TakeoverArgs { connections, rate, rounds, streams, json } = args;
    ensure!(connections > 0 && rate > 0 && rounds > 0, "all numbers start at 1");
    let streams = match streams {
        Streams::Auto => "auto",
        Streams::SharedMatch => "shared-match",
        Streams::PerConnection => "per-connection",
    };
    let mut settings: Vec<String> = SETTINGS.iter().map(|setting| (*setting).to_owned()).collect();
    settings.push(format!("codec.streams={streams}"));
    let mut bed = TestBed::start_in(&settings, connections, &Way::ALL, |_, _| true)?;
    let addr = bed.node.addr;
    // Until its guild has let it in a session hears nothing.
    thread::sleep(TALK);
    let talk = Talk::start(addr, &bed.speaker, Duration::from_secs(1) / rate, bed.started);
    thread::sleep(TALK);
    let rss_before_bytes = bed.node.rss_bytes()?;
    bed.clients.time_silences();
    let mut takeover_ms = Vec::new();
    for _ in 0..rounds {
        let started = Instant::now();
        let mut old = std::mem::replace(&mut bed.node, Node::take_over(bed.dir.path(), addr, &settings)?);
        let mut code = None;
        wait("the end of the process before", &bed.clients, || {
            code = old.has_ended()?;
            Ok(code.is_some())
        })?;
        ensure!(code == Some(Some(0)), "the process before ended with {code:?}");
        takeover_ms.push(started.elapsed().as_millis() as u64);
        let newest = talk.newest.load(Ordering::Relaxed);
        bed.wait("a message by the next process", |clients| clients.heard_by_all() > newest)?;
        thread::sleep(TALK);
    }
    let newest = talk.end();
    bed.wait("the newest message", |clients| clients.heard_by_all() >= newest)?;
    let rss_after_bytes = bed.node.rss_bytes()?;
    let kept = fixture::history(&mut Http::bot(addr, &bed.speaker))?;
    let report = bed.clients.end()?;
    report.check_heard(&kept)?;
    let rows = Way::ALL.iter().enumerate().map(|(place, way)| {
        let of_way = |index: &usize| index % Way::ALL.len() == place;
        let indexes: Vec<usize> = (0..connections).filter(of_way).collect();
        let mut silences: Vec<u64> = indexes.iter().map(|index| report.silences[*index].as_millis() as u64).collect();
        silences.sort_unstable();
        let at = |percent: usize| silences.get((silences.len() * percent / 100).min(silences.len().max(1) - 1));
        Row {
            compression: way.name,
            connections: indexes.len(),
            silence_p50_ms: at(50).copied().unwrap_or(0),
            silence_p99_ms: at(99).copied().unwrap_or(0),
            silence_max_ms: silences.last().copied().unwrap_or(0),
            received_bytes: indexes.iter().map(|index| report.received_bytes[*index]).sum(),
        }
    });
    let result = TakeoverResult {
        connections,
        streams: streams.to_owned(),
        takeovers: rounds,
        messages_kept: kept.len(),
        deliveries: report.heard.iter().map(Vec::len).sum(),
        takeover_ms,
        rss_before_bytes,
        rss_after_bytes,
        rows: rows.collect(),
    };
    crate::report(json, &result, print)?;
    let (op_7_count, closes) = (report.asked.sum(), &report.closes);
    ensure!(op_7_count == 0 && closes.is_empty(), "{op_7_count} clients received op 7, closed: {closes:?}");
    ensure!(report.identified.iter().all(|count| *count == 1), "a client identified again");
    Ok(())
}

fn print(result: &TakeoverResult) {
    let TakeoverResult { connections, streams, messages_kept, deliveries, .. } = result;
    println!("{connections} clients, {streams}, heard {messages_kept} messages each, {deliveries} in all: none lost");
    println!("takeovers                 {:?} ms", result.takeover_ms);
    println!("RSS before and after      {} MiB, {} MiB", result.rss_before_bytes >> 20, result.rss_after_bytes >> 20);
    println!("longest time without a message, ms:");
    println!("{:>32} {:>12} {:>6} {:>6} {:>6} {:>14}", "compression", "connections", "p50", "p99", "max", "bytes");
    for row in &result.rows {
        let Row { compression, connections, silence_p50_ms, silence_p99_ms, silence_max_ms, received_bytes } = row;
        println!(
            "{compression:>32} {connections:>12} {silence_p50_ms:>6} {silence_p99_ms:>6} {silence_max_ms:>6} {received_bytes:>14}"
        );
    }
}
