//! `guildhall-bench feed`: the cost of a message with the feed of events, and with the hook before delivery.
//!
//! Owns        three nodes with the same guild: one by itself, one with `events.keep = "on"`, one with a hook that
//!             answers after `--hook-ms`. Each round posts to all three, so that other load affects all of them.
//! Invariants  asserted: every message is accepted, the hook decided on each of its node's, and the feed has an event
//!             for each of its node's, in order, for the long poll, the stream and the webhook.

use super::{
    backend::{Head, Http, read_chunks, read_request_head},
    fixture::{self, SentMessage, say},
    node::{Node, free_addr},
};
use crate::stats::Spread;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    io::{BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

const SETTINGS: &[&str] = &["limits.rest_rate_percent=0", "limits.backend_requests_per_s=0", "log.level=warn"];
const SECRET: &str = "bench-secret-of-a-hook-that-ends-with-the-bench";
const PATIENCE: Duration = Duration::from_secs(60);
/// Messages of each caller before the first round.
const WARM_UP: u32 = 50;
/// Events of one answer of the long poll.
const PAGE: usize = 500;

/// `guildhall-bench feed`.
#[derive(Clone, Copy, Debug, Args)]
pub struct FeedArgs {
    /// Messages per node and round.
    #[arg(long, default_value_t = 2_000)]
    messages: u32,
    /// Callers that post at the same time, one message each.
    #[arg(long, default_value_t = 16)]
    callers: u32,
    /// Rounds; the figures are medians of them.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Time after which the hook answers, milliseconds.
    #[arg(long, default_value_t = 1)]
    hook_ms: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Posting to one of the nodes.
#[derive(Debug, Serialize)]
struct Posting {
    node: &'static str,
    messages_per_s: f64,
    cpu_us_per_message: f64,
    answer_ms: Spread,
}

/// Reading what was posted to the node with the feed.
#[derive(Debug, Serialize)]
struct Reading {
    way: &'static str,
    events: u64,
    events_per_s: f64,
    cpu_us_per_event: f64,
}

#[derive(Debug, Serialize)]
struct FeedResult {
    hook_ms: u64,
    hook_requests: u64,
    postings: Vec<Posting>,
    readings: Vec<Reading>,
    /// From before the request of a message until its line of an open stream, milliseconds.
    delay_ms: Spread,
}

/// A node with the guild, and a bot that posts to it.
struct Subject {
    name: &'static str,
    node: Node,
    speaker: String,
    numbers: u32,
    rounds: Vec<Round>,
}

/// One round of posting.
struct Round {
    per_s: f64,
    cpu_us: f64,
    answers_ms: Vec<f64>,
}

impl Subject {
    fn start(name: &'static str, dir: &Path, more: &[String]) -> Result<Self> {
        let dir = dir.join(name);
        std::fs::create_dir(&dir).context("making a folder for a node")?;
        let settings: Vec<String> = SETTINGS.iter().map(|&setting| setting.to_owned()).chain(more.to_vec()).collect();
        let node = Node::start(&dir, free_addr()?, &settings)?;
        let (_, speaker) = fixture::make(&mut Http::backend(node.addr, node.key()), 0)?;
        Ok(Self { name, node, speaker, numbers: 0, rounds: Vec::new() })
    }

    fn backend(&self) -> Http {
        Http::backend(self.node.addr, self.node.key())
    }

    /// Posts this many messages, by callers at the same time.
    fn post(&mut self, messages: u32, callers: u32, epoch: Instant) -> Result<Round> {
        let (cpu, began) = (self.node.cpu()?, Instant::now());
        let first = self.numbers;
        self.numbers += messages;
        let threads: Vec<_> = (0..callers)
            .map(|caller| {
                let mut bot = Http::bot(self.node.addr, &self.speaker);
                let numbers = (first..first + messages).skip(caller as usize).step_by(callers as usize);
                thread::spawn(move || {
                    let mut answers_ms = Vec::new();
                    for number in numbers {
                        let sent = Instant::now();
                        ensure!(say(&mut bot, 0, number, micros(epoch))?, "message {number} was refused");
                        answers_ms.push(sent.elapsed().as_secs_f64() * 1_000.0);
                    }
                    Ok(answers_ms)
                })
            })
            .collect();
        let mut answers_ms = Vec::with_capacity(messages as usize);
        for thread in threads {
            answers_ms.extend(thread.join().ok().context("a caller panicked")??);
        }
        let took_s = began.elapsed().as_secs_f64();
        let cpu_us = (self.node.cpu()? - cpu).as_secs_f64() * 1e6;
        let count = f64::from(messages);
        Ok(Round { per_s: count / took_s, cpu_us: cpu_us / count, answers_ms })
    }

    fn posting(&mut self) -> Posting {
        let rounds = std::mem::take(&mut self.rounds);
        Posting {
            node: self.name,
            messages_per_s: crate::median(rounds.iter().map(|round| round.per_s).collect()),
            cpu_us_per_message: crate::median(rounds.iter().map(|round| round.cpu_us).collect()),
            answer_ms: Spread::of(rounds.into_iter().flat_map(|round| round.answers_ms).collect()),
        }
    }
}

fn micros(epoch: Instant) -> u64 {
    epoch.elapsed().as_micros() as u64
}

/// An HTTP server of one address: it answers each POST with 204 after a pause, and hands over the bodies.
struct Receiver {
    addr: SocketAddr,
    requests: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Receiver {
    fn start(pause: Duration, bodies: Option<mpsc::Sender<Vec<u8>>>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listening for the node's requests")?;
        let receiver = Self { addr: listener.local_addr()?, requests: Arc::default(), stop: Arc::default() };
        let (requests, stop) = (receiver.requests.clone(), receiver.stop.clone());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let (requests, bodies) = (requests.clone(), bodies.clone());
                // It ends with the node's connection.
                thread::spawn(move || answer(stream, pause, &requests, bodies.as_ref()));
            }
        });
        Ok(receiver)
    }

    fn url(&self) -> String {
        format!("http://{}/", self.addr)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.addr);
    }
}

fn answer(
    stream: TcpStream,
    pause: Duration,
    requests: &AtomicU64,
    bodies: Option<&mpsc::Sender<Vec<u8>>>,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let length = read_request_head(&mut reader)?;
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        requests.fetch_add(1, Ordering::Relaxed);
        if let Some(bodies) = bodies {
            bodies.send(body)?;
        }
        thread::sleep(pause);
        reader.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
    }
}

/// The numbers of the messages among these events. Positions must rise.
fn numbers(events: &[Value], position: &mut u64) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for event in events {
        let at =
            event["position"].as_str().and_then(|text| text.parse().ok()).context("an event without a position")?;
        ensure!(at > *position, "the event at {at} follows the one at {position}");
        *position = at;
        if event["type"] == "MESSAGE_CREATE" {
            found.push(SentMessage::find(&event.to_string()).context("an event of no message of the bench")?.number);
        }
    }
    Ok(found)
}

fn check_all(found: &[u32], count: u32) -> Result<()> {
    let distinct: BTreeSet<u32> = found.iter().copied().collect();
    let is_whole = found.len() == distinct.len() && distinct.iter().copied().eq(0..count);
    ensure!(is_whole, "{} events of {} messages, for {count} posted ones", found.len(), distinct.len());
    Ok(())
}

/// What reading costs, by the work that returns the numbers of the messages it read.
fn read(way: &'static str, subject: &Subject, work: impl FnOnce() -> Result<Vec<u32>>) -> Result<Reading> {
    let (cpu, began) = (subject.node.cpu()?, Instant::now());
    let found = work().with_context(|| format!("reading events by {way}"))?;
    let took_s = began.elapsed().as_secs_f64();
    let cpu_us = (subject.node.cpu()? - cpu).as_secs_f64() * 1e6;
    check_all(&found, subject.numbers)?;
    let events = found.len() as f64;
    Ok(Reading { way, events: found.len() as u64, events_per_s: events / took_s, cpu_us_per_event: cpu_us / events })
}

fn by_pages(subject: &Subject) -> Result<Vec<u32>> {
    let (mut backend, mut position, mut found) = (subject.backend(), 0, Vec::new());
    while (found.len() as u32) < subject.numbers {
        let path = format!("/v1/events?after={position}&types=MESSAGE_CREATE&limit={PAGE}");
        let page = backend.ask("GET", &path, &json!(null))?;
        found.extend(numbers(page["events"].as_array().context("a page of events")?, &mut position)?);
    }
    Ok(found)
}

/// Reads the stream of events from a position on, until `take` returns false.
fn by_stream(subject: &Subject, after: &str, mut take: impl FnMut(&Value) -> Result<bool>) -> Result<()> {
    let mut stream = TcpStream::connect(subject.node.addr)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET /v1/events/stream?types=MESSAGE_CREATE{after} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {}\r\n\r\n",
        subject.node.key()
    )?;
    let mut reader = BufReader::new(stream);
    let head = Head::read(&mut reader)?;
    ensure!(head.status == 200, "the stream of events was answered with {}", head.status);
    let mut rest = Vec::new();
    let mut is_over = false;
    let read = read_chunks(&mut reader, |piece| {
        rest.extend_from_slice(piece);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            if line.len() > 1 && !take(&serde_json::from_slice(&line)?)? {
                is_over = true;
                bail!("all is read");
            }
        }
        Ok(())
    });
    if is_over { Ok(()) } else { read }
}

/// Posts to the node with the feed while a stream of it is open. Returns the delay of each event.
fn delays(subject: &mut Subject, args: FeedArgs, epoch: Instant) -> Result<Vec<f64>> {
    let (first, last) = (subject.numbers, subject.numbers + args.messages);
    let mut position = 0;
    let mut backend = subject.backend();
    let newest = backend.ask("GET", "/v1/events?wait_s=0", &json!(null))?;
    let after = format!("&after={}", newest["next"].as_str().context("the newest position")?);
    let mut delays_ms = Vec::new();
    thread::scope(|scope| {
        let poster = {
            let mut bot = Http::bot(subject.node.addr, &subject.speaker);
            scope.spawn(move || -> Result<()> {
                for number in first..last {
                    ensure!(say(&mut bot, 0, number, micros(epoch))?, "message {number} was refused");
                }
                Ok(())
            })
        };
        by_stream(subject, &after, |event| {
            let arrived_us = micros(epoch);
            numbers(std::slice::from_ref(event), &mut position)?;
            let sent = SentMessage::find(&event.to_string()).context("an event of no message of the bench")?;
            delays_ms.push(arrived_us.saturating_sub(sent.said_us) as f64 / 1_000.0);
            Ok(sent.number + 1 < last)
        })?;
        poster.join().ok().context("the poster panicked")?
    })?;
    subject.numbers = last;
    Ok(delays_ms)
}

fn by_webhook(subject: &Subject) -> Result<Vec<u32>> {
    let (sender, bodies) = mpsc::channel();
    let receiver = Receiver::start(Duration::ZERO, Some(sender))?;
    let webhook = json!({"url": receiver.url(), "types": ["MESSAGE_CREATE"], "guild_ids": [], "after": 0});
    subject.backend().ask("POST", "/v1/webhooks", &webhook)?;
    let (mut position, mut found) = (0, Vec::new());
    while (found.len() as u32) < subject.numbers {
        let body = bodies.recv_timeout(PATIENCE).context("no request of the webhook in time")?;
        let body: Value = serde_json::from_slice(&body)?;
        found.extend(numbers(body["events"].as_array().context("a request without events")?, &mut position)?);
    }
    Ok(found)
}

/// Runs the bench.
///
/// # Errors
/// When a process cannot be started, or what is asserted does not hold.
pub fn run(args: FeedArgs) -> Result<()> {
    ensure!(args.messages > 0 && args.callers > 0 && args.rounds > 0, "all numbers start at 1");
    let dir = tempfile::tempdir().context("making a folder for the bench")?;
    let hook = Receiver::start(Duration::from_millis(args.hook_ms), None)?;
    let hooked =
        [format!("hook.url={}", hook.url()), format!("hook.secret={SECRET}"), "hook.timeout_ms=1900".to_owned()];
    let kept = ["events.keep=on".to_owned(), "events.private_webhooks=on".to_owned()];
    let mut subjects = [
        Subject::start("plain", dir.path(), &[])?,
        Subject::start("feed", dir.path(), &kept)?,
        Subject::start("hook", dir.path(), &hooked)?,
    ];
    let epoch = Instant::now();
    for subject in &mut subjects {
        subject.post(args.callers * WARM_UP, args.callers, epoch)?;
    }
    for round in 1..=args.rounds {
        for subject in &mut subjects {
            let measured = subject.post(args.messages, args.callers, epoch)?;
            subject.rounds.push(measured);
        }
        eprintln!("round {round} of {}", args.rounds);
    }
    let [_, feed, hooked] = &mut subjects;
    let hook_requests = hook.requests.load(Ordering::Relaxed);
    ensure!(
        hook_requests == u64::from(hooked.numbers),
        "the hook got {hook_requests} requests for {} messages",
        hooked.numbers
    );
    let readings = vec![
        read("pages of the long poll", feed, || by_pages(feed))?,
        read("the stream", feed, || {
            let (mut position, mut found) = (0, Vec::new());
            by_stream(feed, "&after=0", |event| {
                found.extend(numbers(std::slice::from_ref(event), &mut position)?);
                Ok((found.len() as u32) < feed.numbers)
            })?;
            Ok(found)
        })?,
        read("a webhook", feed, || by_webhook(feed))?,
    ];
    let delay_ms = Spread::of(delays(feed, args, epoch)?);
    let postings = subjects.iter_mut().map(Subject::posting).collect();
    crate::report(args.json, &FeedResult { hook_ms: args.hook_ms, hook_requests, postings, readings, delay_ms }, print)
}

fn print(result: &FeedResult) {
    println!("node    messages/s  CPU us each  answer p50/p99/max (ms)");
    for of in &result.postings {
        let Spread { p50, p99, max } = of.answer_ms;
        let (per_s, cpu_us) = (of.messages_per_s, of.cpu_us_per_message);
        println!("{:<7} {per_s:>10.0}  {cpu_us:>11.0}  {p50:.2} / {p99:.2} / {max:.2}", of.node);
    }
    println!("the hook answers after {} ms, and got {} requests\n", result.hook_ms, result.hook_requests);
    println!("read by                 events  events/s  CPU us each");
    for of in &result.readings {
        println!("{:<22} {:>7}  {:>8.0}  {:>11.1}", of.way, of.events, of.events_per_s, of.cpu_us_per_event);
    }
    let Spread { p50, p99, max } = result.delay_ms;
    println!("message to its line of an open stream: {p50:.2} / {p99:.2} / {max:.2} ms");
}
