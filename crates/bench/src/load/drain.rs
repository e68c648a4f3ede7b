//! `guildhall-bench drain`: stops a node with many clients, starts another one on its folder, and waits until all
//! clients are back.
//!
//! Invariants  asserted: every session is resumed; each client received all stored messages, once and in order; no
//!             client identified again.

use super::{
    backend::Http,
    clients::STEP_MS,
    curve::Curve,
    fixture::{self, say},
    node::Node,
    test_bed::{TestBed, wait},
};
use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const SETTINGS: &[&str] = &["limits.rest_rate_percent=0", "limits.backend_requests_per_s=0", "log.level=info"];
/// Talk before the signal, and after all are back.
const TALK: Duration = Duration::from_secs(4);

/// `guildhall-bench drain`.
#[derive(Clone, Copy, Debug, Args)]
pub struct DrainArgs {
    /// Clients, every second one a bot.
    #[arg(long, default_value_t = 5000)]
    connections: usize,
    /// Messages a second, each to every client.
    #[arg(long, default_value_t = 4)]
    rate: u32,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct DrainResult {
    connections: usize,
    messages_kept: usize,
    deliveries: usize,
    /// From SIGTERM to the end of the first process.
    drain_ms: u64,
    /// From there until the second is ready.
    restart_ms: u64,
    /// From there until all clients are back.
    back_ms: u64,
    resumed: u64,
    refused: u64,
    identified_again: u64,
    asked_per_s_max: u32,
    resumed_per_s_max: u32,
    rss_before_bytes: u64,
    rss_after_bytes: u64,
    /// Since SIGTERM.
    curves: Vec<Curve>,
}

/// Posts messages continuously.
pub(super) struct Talk {
    stop: Arc<AtomicBool>,
    /// The newest number that was acknowledged.
    pub newest: Arc<AtomicU32>,
    thread: JoinHandle<()>,
}

impl Talk {
    pub fn start(addr: SocketAddr, token: &str, every: Duration, started: Instant) -> Self {
        let (stop, newest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (is_over, acknowledged) = (stop.clone(), newest.clone());
        let mut speaker = Http::bot(addr, token);
        let thread = thread::spawn(move || {
            let (mut number, mut next) = (0, Instant::now());
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                // A message without acknowledgement may be stored all the same: the history shows it.
                if say(&mut speaker, 0, number, started.elapsed().as_micros() as u64).unwrap_or(false) {
                    acknowledged.store(number, Ordering::Relaxed);
                }
                next += every;
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        });
        Self { stop, newest, thread }
    }

    pub fn end(self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        self.newest.load(Ordering::Relaxed)
    }
}

/// Runs the bench.
///
/// # Errors
/// When a process cannot be started, or what is asserted does not hold.
pub fn run(args: DrainArgs) -> Result<()> {
    let DrainArgs { connections, rate, json } = args;
    ensure!(connections > 0 && rate > 0, "all numbers start at 1");
    let settings: Vec<String> = SETTINGS.iter().map(|setting| (*setting).to_owned()).collect();
    let mut bed = TestBed::start(&settings, connections, |_, _| true)?;
    let (addr, started) = (bed.node.addr, bed.started);
    // Until its guild has let it in a session hears nothing.
    thread::sleep(TALK);
    let talk = Talk::start(addr, &bed.speaker, Duration::from_secs(1) / rate, started);
    thread::sleep(TALK);
    let rss_before_bytes = bed.node.rss_bytes()?;

    let signal = Instant::now();
    bed.node.ask_to_end()?;
    let mut code = None;
    wait("the end of the first process", &bed.clients, || {
        code = bed.node.has_ended()?;
        Ok(code.is_some())
    })?;
    ensure!(code == Some(Some(0)), "the first process ended with {code:?}");
    let ended = Instant::now();
    bed.node = Node::start(bed.dir.path(), addr, &settings)?;
    let ready = Instant::now();
    bed.wait("the return of all", |clients| clients.ready_count() == connections)?;
    let back = Instant::now();
    let newest_before = talk.newest.load(Ordering::Relaxed);
    thread::sleep(TALK);
    let newest = talk.end();
    ensure!(newest > newest_before, "no message could be posted after the restart");
    bed.wait("the newest message", |clients| clients.heard_by_all() >= newest)?;
    let rss_after_bytes = bed.node.rss_bytes()?;
    let kept = fixture::history(&mut Http::bot(addr, &bed.speaker))?;
    let report = bed.clients.end()?;
    report.check_heard(&kept)?;

    let since = |curve: &Curve| curve.since(signal.duration_since(started));
    let (asked, resumed, refused) = (since(&report.asked), since(&report.resumed), since(&report.refused));
    let identified = since(&report.ready);
    let ms = |from: Instant, to: Instant| to.duration_since(from).as_millis() as u64;
    let result = DrainResult {
        connections,
        messages_kept: kept.len(),
        deliveries: report.heard.iter().map(Vec::len).sum(),
        drain_ms: ms(signal, ended),
        restart_ms: ms(ended, ready),
        back_ms: ms(ready, back),
        resumed: resumed.sum(),
        refused: refused.sum(),
        identified_again: identified.sum(),
        asked_per_s_max: asked.per_s_max(),
        resumed_per_s_max: resumed.per_s_max(),
        rss_before_bytes,
        rss_after_bytes,
        curves: vec![asked, resumed, refused, identified],
    };
    crate::report(json, &result, print)?;
    ensure!(result.identified_again == 0 && result.refused == 0, "{} sessions were not resumed", result.refused);
    Ok(())
}

fn print(result: &DrainResult) {
    let DrainResult { connections, messages_kept, deliveries, .. } = result;
    println!("{connections} clients heard {messages_kept} messages each, {deliveries} in all: none lost, none twice");
    println!("SIGTERM to exit           {} ms", result.drain_ms);
    println!("restart                   {} ms", result.restart_ms);
    println!("ready to everybody back   {} ms", result.back_ms);
    println!("resumed                   {} ({} at most in a second)", result.resumed, result.resumed_per_s_max);
    println!("asked to reconnect        {} at most in a second", result.asked_per_s_max);
    println!("refused, identified again {}, {}", result.refused, result.identified_again);
    println!("RSS before and after      {} MiB, {} MiB", result.rss_before_bytes >> 20, result.rss_after_bytes >> 20);
    println!("since SIGTERM, per {STEP_MS} ms:");
    for curve in result.curves.iter().filter(|curve| curve.sum() > 0) {
        print!("{}", curve.chart());
    }
}
