//! `guildhall-bench import`: a guild gets a million members by `/v1`, then ten thousand events a second, and goes on
//! answering.
//!
//! Invariants  asserted: every line is taken, the guild has all members in the end, every event was published, and each
//!             client heard all of them, in order and once.

use super::{
    backend::{Head, Http, read_chunks},
    clients::PUBLISHED,
    fixture::{self, CHANNEL, GUILD, say},
    node::Node,
    test_bed::TestBed,
};
use crate::stats::Spread;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    io::{BufReader, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const SETTINGS: &[&str] = &["limits.rest_rate_percent=0", "limits.backend_requests_per_s=0", "log.level=warn"];
const FIRST_IMPORTED: u64 = 1_100_000_000_100_000_000;
const PIECE_BYTES: usize = 64 << 10;
/// Clients that hear what is published.
const CLIENTS: usize = 2;
const PATIENCE: Duration = Duration::from_secs(60);
/// A command of each kind so often.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// `guildhall-bench import`.
#[derive(Clone, Copy, Debug, Args)]
pub struct ImportArgs {
    /// Members to import.
    #[arg(long, default_value_t = 1_000_000)]
    members: u64,
    /// Events a second to publish afterwards.
    #[arg(long, default_value_t = 10_000)]
    rate: u32,
    /// Duration, seconds.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// How long the guild took to answer, in milliseconds, while something else went on.
#[derive(Debug, Serialize)]
struct Answers {
    /// TYPING_START: through the guild, nothing to store.
    command_ms: Spread,
    /// A member read, by the backend API.
    read_ms: Spread,
    /// A message, durable when it is answered.
    durable_ms: Spread,
    asked: usize,
}

#[derive(Debug, Serialize)]
struct ImportResult {
    members: u64,
    import_s: f64,
    members_per_s: f64,
    progress_lines: u64,
    rss_before_bytes: u64,
    rss_after_bytes: u64,
    peak_bytes: u64,
    published: u64,
    published_per_s: f64,
    publish_peak_bytes: u64,
    idle: Answers,
    importing: Answers,
    publishing: Answers,
}

/// A caller that sends requests to the guild all the time.
struct Asking {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<[Vec<f64>; 3]>>,
}

impl Asking {
    /// `numbers` counts messages over all of these.
    fn start(node: &Node, speaker: &str, numbers: &Arc<AtomicU32>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (is_over, numbers) = (stop.clone(), numbers.clone());
        let (mut bot, mut backend) = (Http::bot(node.addr, speaker), Http::backend(node.addr, node.key()));
        let thread = thread::spawn(move || {
            let mut took: [Vec<f64>; 3] = Default::default();
            while !is_over.load(Ordering::Relaxed) {
                let mut time = |index: usize, work: &mut dyn FnMut() -> Result<bool>| -> Result<()> {
                    let asked = Instant::now();
                    ensure!(work()?, "the guild refused");
                    took[index].push(asked.elapsed().as_secs_f64() * 1000.0);
                    Ok(())
                };
                let typing = format!("/api/v10/channels/{CHANNEL}/typing");
                time(0, &mut || Ok(bot.request("POST", &typing, "")?.0 == 204))?;
                let member = format!("/v1/guilds/{GUILD}/members/{}", fixture::SPEAKER);
                time(1, &mut || Ok(backend.request("GET", &member, "")?.0 == 200))?;
                let number = numbers.fetch_add(1, Ordering::Relaxed) + 1;
                time(2, &mut || say(&mut bot, 0, number, 0))?;
                thread::sleep(ASK_EVERY);
            }
            Ok(took)
        });
        Self { stop, thread }
    }

    fn end(self) -> Result<Answers> {
        self.stop.store(true, Ordering::Relaxed);
        let [command, read, durable] = self.thread.join().ok().context("the thread of requests panicked")??;
        let asked = command.len();
        Ok(Answers {
            command_ms: Spread::of(command),
            read_ms: Spread::of(read),
            durable_ms: Spread::of(durable),
            asked,
        })
    }
}

/// Streams lines to `path` as fast as they are taken, and hands over each line of the answer.
fn stream(
    addr: SocketAddr,
    key: &str,
    path: &str,
    mut lines: impl FnMut(&mut Vec<u8>) -> bool + Send + 'static,
    mut take: impl FnMut(&Value) -> Result<()>,
) -> Result<()> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\nContent-Type: application/x-ndjson\r\n\
         Transfer-Encoding: chunked\r\n\r\n"
    )?;
    let writer = thread::spawn(move || -> std::io::Result<()> {
        let mut piece = Vec::with_capacity(2 * PIECE_BYTES);
        while lines(&mut piece) {
            write!(stream, "{:x}\r\n", piece.len())?;
            stream.write_all(&piece)?;
            stream.write_all(b"\r\n")?;
            piece.clear();
        }
        stream.write_all(b"0\r\n\r\n")
    });
    let head = Head::read(&mut reader)?;
    ensure!(head.status == 200, "POST {path}: {}", head.status);
    let mut rest = Vec::new();
    read_chunks(&mut reader, |piece| {
        rest.extend_from_slice(piece);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            if line.len() > 1 {
                take(&serde_json::from_slice(&line)?)?;
            }
        }
        Ok(())
    })?;
    writer.join().ok().context("the writing thread panicked")??;
    Ok(())
}

fn import(node: &Node, members: u64, mut progress: impl FnMut(u64)) -> Result<u64> {
    let mut next = 0;
    let lines = move |piece: &mut Vec<u8>| {
        while piece.len() < PIECE_BYTES && next < members {
            let id = FIRST_IMPORTED + next;
            let _ = writeln!(piece, r#"{{"user":{{"id":"{id}","username":"member{next}"}},"nick":null}}"#);
            next += 1;
        }
        !piece.is_empty()
    };
    let mut count = 0;
    let mut last = Value::Null;
    stream(node.addr, node.key(), &format!("/v1/guilds/{GUILD}/members/import"), lines, |line| {
        count += 1;
        ensure!(line.get("code").is_none(), "a line was not taken: {line}");
        progress(line["line"].as_u64().unwrap_or(0));
        last = line.clone();
        Ok(())
    })?;
    ensure!(last["done"] == true && last["added"] == members && last["failed"] == 0, "the import ended with {last}");
    Ok(count)
}

/// At `rate` a second. How many were published, and in which time.
fn publish(node: &Node, rate: u32, time: Duration) -> Result<(u64, Duration)> {
    let began = Instant::now();
    let sent = Arc::new(AtomicU64::new(0));
    let ours = sent.clone();
    let lines = move |piece: &mut Vec<u8>| {
        while piece.is_empty() {
            if began.elapsed() >= time {
                return false;
            }
            let due = (began.elapsed().as_secs_f64() * f64::from(rate)) as u64;
            while ours.load(Ordering::Relaxed) < due && piece.len() < PIECE_BYTES {
                let number = ours.fetch_add(1, Ordering::Relaxed);
                let _ =
                    writeln!(piece, r#"{{"t":"{PUBLISHED}","d":{{"n":{number}}},"audience":{{"guild":"{GUILD}"}}}}"#);
            }
            if piece.is_empty() {
                thread::sleep(Duration::from_millis(2));
            }
        }
        true
    };
    let mut count: u64 = 0;
    stream(node.addr, node.key(), "/v1/publish", lines, |line| {
        count += 1;
        match line["reached"].as_u64() {
            Some(reached) if reached == CLIENTS as u64 => Ok(()),
            _ => bail!("an event reached others than the clients: {line}"),
        }
    })?;
    let sent = sent.load(Ordering::Relaxed);
    ensure!(count == sent, "{count} events were answered for, and {sent} were sent");
    Ok((count, began.elapsed()))
}

/// Runs the bench.
///
/// # Errors
/// When a process cannot be started, or what is asserted does not hold.
pub fn run(args: ImportArgs) -> Result<()> {
    let ImportArgs { members, rate, seconds, json } = args;
    ensure!(members > 0 && rate > 0 && seconds > 0, "all numbers start at 1");
    let settings: Vec<String> = SETTINGS.iter().map(|setting| (*setting).to_owned()).collect();
    // Bots: user accounts would be passive in a guild as large as this.
    let mut bed = TestBed::start(&settings, 2 * CLIENTS, |_, account| account.is_bot)?;
    let node = &bed.node;
    let numbers = Arc::new(AtomicU32::new(0));
    let asking = Asking::start(node, &bed.speaker, &numbers);
    thread::sleep(Duration::from_secs(5));
    let idle = asking.end()?;

    let rss_before_bytes = node.rss_bytes()?;
    node.forget_peak()?;
    let asking = Asking::start(node, &bed.speaker, &numbers);
    let began = Instant::now();
    let mut shown = Instant::now();
    let progress_lines = import(node, members, |line| {
        if shown.elapsed() > Duration::from_secs(5) {
            shown = Instant::now();
            eprintln!("{line} of {members} after {:.0} s", began.elapsed().as_secs_f64());
        }
    })?;
    let import_s = began.elapsed().as_secs_f64();
    let importing = asking.end()?;
    let (peak_bytes, rss_after_bytes) = (node.peak_bytes()?, node.rss_bytes()?);
    let guild = bed.backend.ask("GET", &format!("/v1/guilds/{GUILD}"), &json!(null))?;
    let expected = members + 2 * CLIENTS as u64 + 1;
    ensure!(guild["member_count"] == expected, "the guild has {} members, not {expected}", guild["member_count"]);

    node.forget_peak()?;
    let asking = Asking::start(node, &bed.speaker, &numbers);
    let (published, took) = publish(node, rate, Duration::from_secs(seconds))?;
    let publishing = asking.end()?;
    let publish_peak_bytes = node.peak_bytes()?;
    bed.wait("the last event", |clients| clients.published_heard() >= published * CLIENTS as u64)?;
    bed.clients.end()?.check_order()?;

    let result = ImportResult {
        members,
        import_s,
        members_per_s: members as f64 / import_s,
        progress_lines,
        rss_before_bytes,
        rss_after_bytes,
        peak_bytes,
        published,
        published_per_s: published as f64 / took.as_secs_f64(),
        publish_peak_bytes,
        idle,
        importing,
        publishing,
    };
    crate::report(json, &result, print)
}

fn print(result: &ImportResult) {
    println!("imported                  {} members in {:.1} s", result.members, result.import_s);
    println!("members per second        {:.0}", result.members_per_s);
    println!("lines of progress         {}", result.progress_lines);
    println!(
        "RSS before, peak, after   {} MiB, {} MiB, {} MiB",
        result.rss_before_bytes >> 20,
        result.peak_bytes >> 20,
        result.rss_after_bytes >> 20
    );
    println!("published                 {} events, {:.0} per second", result.published, result.published_per_s);
    println!("peak RSS while publishing {} MiB", result.publish_peak_bytes >> 20);
    println!("answers (ms)       asked  command p50/p99/max      read p50/p99/max         durable p50/p99/max");
    for (name, of) in [("idle", &result.idle), ("importing", &result.importing), ("publishing", &result.publishing)] {
        let text = |s: &Spread| format!("{:.2} / {:.2} / {:.2}", s.p50, s.p99, s.max);
        let (command, read, durable) = (text(&of.command_ms), text(&of.read_ms), text(&of.durable_ms));
        println!("{name:<17} {:>6}  {command:<24} {read:<24} {durable}", of.asked);
    }
}
