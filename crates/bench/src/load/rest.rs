//! REST under hostile requests: JSON bodies that amplify in memory, and uploads that stall.
//!
//! Owns        the two parts of `guildhall-bench hostile` that use no gateway: `bodies` and `stalled`, each with a
//!             server of its own.
//! Invariants  asserted: the node accepts no hostile body and every message, and some of the stalled uploads are open
//!             to the end. Results that depend on the machine are printed.

use super::{
    backend::Http,
    fixture::{self, Account, CHANNEL, say},
    node::{Node, free_addr},
};
use crate::stats::Spread;
use anyhow::{Context as _, Result, ensure};
use rustix::{
    net::{AddressFamily, SocketType, bind, connect, socket},
    process::nice,
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const ADDRESSES: u8 = 4;
const BODIES: usize = 60;
const BODY_BYTES: usize = 1 << 20;
const STALLED: usize = 500;
/// Accounts that stall; another one speaks.
const STALLING_ACCOUNTS: usize = 2;
/// Bytes that are sent of a stalled body.
const PART_BYTES: usize = 4 << 10;
/// Between two messages.
const EVERY: Duration = Duration::from_millis(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const NICE: i32 = 10;

/// Sixty anonymous bodies of a mebibyte at once.
#[derive(Debug, Serialize)]
pub struct Bodies {
    sent: usize,
    bytes_each: usize,
    /// By status; `cut` for connections that ended without an answer.
    answers: BTreeMap<String, u64>,
    rss_raise_bytes: u64,
    /// Peak of the raise.
    peak_raise_bytes: u64,
}

/// Five hundred stalled uploads of two accounts from four addresses.
#[derive(Debug, Serialize)]
pub struct Stalled {
    /// Uploads at any time: a refused one is sent again at once.
    stalled: usize,
    /// Uploads that the node was still reading at the end.
    held: usize,
    /// Answers to the others, by status.
    answers: BTreeMap<String, u64>,
    /// `POST …/messages` of another account, before and after.
    quiet_ms: Spread,
    loaded_ms: Spread,
    p99_ratio: f64,
    rss_raise_bytes: u64,
}

/// See the module.
#[derive(Debug, Serialize)]
pub struct Rest {
    bodies: Bodies,
    stalled: Stalled,
}

/// Runs both parts.
///
/// # Errors
/// When a process cannot be started, or what is asserted does not hold.
pub fn run(settings: &[String], time: Duration) -> Result<Rest> {
    Ok(Rest { bodies: bodies(settings)?, stalled: stalled(settings, time)? })
}

/// Connects from one of four loopback addresses.
fn connect_from(n: usize, addr: SocketAddr) -> Result<TcpStream> {
    let from = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 2 + (n % ADDRESSES as usize) as u8), 0);
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).context("making a socket")?;
    bind(&fd, &from).with_context(|| format!("binding {from}"))?;
    connect(&fd, &addr).context("connecting")?;
    Ok(TcpStream::from(fd))
}

/// A text whose tree is a hundred times as large.
fn bomb() -> Vec<u8> {
    let objects = (BODY_BYTES - 8) / 7;
    format!("{{\"x\":[{}]}}", vec!["{\"\":0}"; objects].join(",")).into_bytes()
}

fn bodies(settings: &[String]) -> Result<Bodies> {
    let dir = tempfile::tempdir().context("making a folder for the bench")?;
    let node = Node::start(dir.path(), free_addr()?, settings)?;
    let body = Arc::new(bomb());
    node.forget_peak()?;
    let before = node.rss_bytes()?;
    let senders: Vec<_> = (0..BODIES)
        .map(|n| {
            let (body, addr) = (body.clone(), node.addr);
            thread::spawn(move || send_anonymous(n, addr, &body))
        })
        .collect();
    let mut answers = BTreeMap::<String, u64>::new();
    for sender in senders {
        let answer = sender.join().ok().context("a sender panicked")??;
        *answers.entry(answer).or_default() += 1;
    }
    ensure!(answers.keys().all(|answer| matches!(&**answer, "404" | "cut" | "503")), "hostile bodies got {answers:?}");
    Ok(Bodies {
        sent: BODIES,
        bytes_each: body.len(),
        answers,
        rss_raise_bytes: node.rss_bytes()?.saturating_sub(before),
        peak_raise_bytes: node.peak_bytes()?.saturating_sub(before),
    })
}

fn send_anonymous(n: usize, addr: SocketAddr, body: &[u8]) -> Result<String> {
    let mut stream = connect_from(n, addr)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let head = format!(
        "PATCH /api/v10/webhooks/1/x HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // An early refusal may close the connection before all is sent.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut answer = [0; 12];
    Ok(match stream.read_exact(&mut answer) {
        Ok(()) => String::from_utf8_lossy(&answer[9..]).into_owned(),
        Err(_) => "cut".to_owned(),
    })
}

fn stalled(settings: &[String], time: Duration) -> Result<Stalled> {
    let dir = tempfile::tempdir().context("making a folder for the bench")?;
    let node = Node::start(dir.path(), free_addr()?, settings)?;
    let mut backend = Http::backend(node.addr, node.key());
    let (accounts, speaker) = fixture::make(&mut backend, STALLING_ACCOUNTS)?;
    let mut speaker = Http::bot(node.addr, &speaker);
    speak(&mut speaker, Duration::from_secs(2))?;
    let mut quiet = speak(&mut speaker, time / 2)?;
    let before = node.rss_bytes()?;
    let crowd = Crowd::start(node.addr, accounts);
    crowd.wait_until_held()?;
    let loaded = speak(&mut speaker, time)?;
    let rss_raise_bytes = node.rss_bytes()?.saturating_sub(before);
    let (held, answers) = crowd.end()?;
    quiet.extend(speak(&mut speaker, time / 2)?);
    let (quiet_ms, loaded_ms) = (Spread::of(quiet), Spread::of(loaded));
    ensure!(held > 0, "no upload was held: {answers:?}");
    ensure!(answers.keys().all(|answer| matches!(&**answer, "503" | "408" | "end")), "stalled uploads got {answers:?}");
    let p99_ratio = loaded_ms.p99 / quiet_ms.p99;
    Ok(Stalled { stalled: STALLED, held, answers, quiet_ms, loaded_ms, p99_ratio, rss_raise_bytes })
}

/// Posts messages for `time`. Returns the latency of each in milliseconds.
fn speak(speaker: &mut Http, time: Duration) -> Result<Vec<f64>> {
    let (began, mut took) = (Instant::now(), Vec::new());
    while began.elapsed() < time {
        let sent_at = Instant::now();
        ensure!(say(speaker, 0, took.len() as u32, 0)?, "a message was refused");
        took.push(sent_at.elapsed().as_secs_f64() * 1_000.0);
        thread::sleep(EVERY.saturating_sub(sent_at.elapsed()));
    }
    Ok(took)
}

/// Stalling clients, in one thread.
struct Crowd {
    stop: Arc<AtomicBool>,
    open: Arc<AtomicUsize>,
    thread: thread::JoinHandle<Result<(usize, BTreeMap<String, u64>)>>,
}

impl Crowd {
    fn start(addr: SocketAddr, accounts: Vec<Account>) -> Self {
        let (stop, open) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (theirs, counter) = (stop.clone(), open.clone());
        let thread = thread::spawn(move || {
            // Lowers the priority of this thread only: on a small machine the bench measures the work of the server,
            // not of the attackers.
            let _ = nice(NICE);
            hold(addr, &accounts, &theirs, &counter)
        });
        Self { stop, open, thread }
    }

    fn wait_until_held(&self) -> Result<()> {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        while self.open.load(Ordering::Relaxed) < STALLED {
            ensure!(Instant::now() < deadline && !self.thread.is_finished(), "the uploads could not be begun");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn end(self) -> Result<(usize, BTreeMap<String, u64>)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok().context("the stalling clients' thread panicked")?
    }
}

fn hold(
    addr: SocketAddr,
    accounts: &[Account],
    stop: &AtomicBool,
    open: &AtomicUsize,
) -> Result<(usize, BTreeMap<String, u64>)> {
    let mut streams: Vec<Option<TcpStream>> = (0..STALLED).map(|_| None).collect();
    let mut answers = BTreeMap::<String, u64>::new();
    while !stop.load(Ordering::Relaxed) {
        for (n, stream) in streams.iter_mut().enumerate() {
            if let Some(ended) = stream.as_mut().and_then(answer) {
                *answers.entry(ended).or_default() += 1;
                *stream = None;
            }
            if stream.is_none() {
                *stream = begin(n, addr, &accounts[n % accounts.len()]).ok();
            }
        }
        open.store(streams.iter().flatten().count(), Ordering::Relaxed);
        thread::sleep(Duration::from_millis(50));
    }
    let held = streams.iter_mut().flatten().filter_map(|stream| answer(stream).is_none().then_some(())).count();
    Ok((held, answers))
}

/// The first part of an upload: form data with a file for one half, JSON for the other.
fn begin(n: usize, addr: SocketAddr, account: &Account) -> Result<TcpStream> {
    let mut stream = connect_from(n, addr)?;
    let scheme = if account.is_bot { "Bot " } else { "" };
    let has_file = (n / accounts_and_addresses()).is_multiple_of(2);
    let (kind, part) = if has_file {
        let head = "--XX\r\nContent-Disposition: form-data; name=\"files[0]\"; filename=\"a\"\r\n\r\n";
        ("multipart/form-data; boundary=XX", [head.as_bytes(), &[b'x'; PART_BYTES]].concat())
    } else {
        ("application/json", vec![b' '; PART_BYTES])
    };
    let head = format!(
        "POST /api/v10/channels/{CHANNEL}/messages HTTP/1.1\r\nHost: bench\r\nAuthorization: {scheme}{}\r\n\
         Content-Type: {kind}\r\nContent-Length: 200000\r\n\r\n",
        account.token
    );
    stream.write_all(&[head.as_bytes(), &part].concat())?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Uploads before the kind changes, so that every address and account sends both kinds.
fn accounts_and_addresses() -> usize {
    STALLING_ACCOUNTS.max(ADDRESSES as usize)
}

/// The end of an upload; none while the node reads it.
fn answer(stream: &mut TcpStream) -> Option<String> {
    let mut head = [0; 12];
    match stream.read(&mut head) {
        Ok(12) => Some(String::from_utf8_lossy(&head[9..]).into_owned()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Ok(_) | Err(_) => Some("end".to_owned()),
    }
}

/// Prints the result for people.
pub fn print(Rest { bodies, stalled }: &Rest) {
    println!(
        "{} anonymous bodies of {} KiB: {:?}, RSS {} MiB more, {} MiB at most",
        bodies.sent,
        bodies.bytes_each >> 10,
        bodies.answers,
        bodies.rss_raise_bytes >> 20,
        bodies.peak_raise_bytes >> 20
    );
    println!(
        "{} stalled uploads, {} of them taken in: {:?}, RSS {} MiB more",
        stalled.stalled,
        stalled.held,
        stalled.answers,
        stalled.rss_raise_bytes >> 20
    );
    let Stalled { quiet_ms, loaded_ms, p99_ratio, .. } = stalled;
    println!(
        "POST a message: p50 {:.2} ms, p99 {:.2} ms; with stalled uploads p50 {:.2} ms, p99 {:.2} ms; ratio {p99_ratio:.2}",
        quiet_ms.p50, quiet_ms.p99, loaded_ms.p50, loaded_ms.p99
    );
}
