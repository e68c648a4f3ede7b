//! Crash: a process that commits is killed with SIGKILL; acknowledged data must be in the store.
//!
//! The process is this test binary again, running `child` with a role in the environment. It is killed after a seeded
//! number of acknowledgements, while its other tasks are anywhere in a commit.

use crate::{sqlite::raw, support::*};
use guildhall_guild::Write;
use guildhall_stdx::Rng;
use guildhall_store::{Page, SqliteOptions, SqliteStore, Store, StoreError, Synchronous};
use sqlx::Connection as _;
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{BufRead, BufReader, Read, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
};

const ROLE: &str = "GUILDHALL_STORE_TEST_ROLE";
const DIR: &str = "GUILDHALL_STORE_TEST_DIR";
const FIRST_CHANNEL: &str = "GUILDHALL_STORE_TEST_FIRST_CHANNEL";
const GUILD: u64 = 1;
const TASKS: u64 = 8;

/// Step `n` of the task that has the channel to itself: several messages with a reaction, and now and then deletions.
fn step(channel_id: u64, n: u64) -> Vec<Write> {
    let count = if n.is_multiple_of(11) { 300 } else { 2 };
    let first = n * 1000 + 1;
    let mut writes: Vec<_> = (first..first + count).map(|n| put_message(GUILD, channel_id, n)).collect();
    writes.push(Write::AddReaction(id(channel_id), id(first), unicode("👍"), id(1)));
    if n % 5 == 4 {
        writes.extend((0..300).map(|i| Write::DeleteMessage(id(channel_id), id((n - 3) * 1000 + 1 + i))));
    }
    writes
}

/// Messages of a channel after `steps` steps.
fn expected(steps: u64) -> BTreeSet<u64> {
    let mut messages = BTreeSet::new();
    for write in (0..steps).flat_map(|n| step(1, n)) {
        match write {
            Write::PutMessage(message) => messages.insert(message.id.get()),
            Write::DeleteMessage(_, id) => messages.remove(&id.get()),
            _ => false,
        };
    }
    messages
}

/// Not a test: the program of the killed processes.
#[test]
fn child() {
    let (Ok(role), Ok(dir)) = (env::var(ROLE), env::var(DIR)) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        match role.as_str() {
            "hold" => {
                let _store = open(Path::new(&dir)).await;
                say("ready");
                std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            }
            "normal" => commit_for_ever(Path::new(&dir), Synchronous::Normal, TASKS).await,
            "full" => commit_for_ever(Path::new(&dir), Synchronous::Full, TASKS).await,
            "alone" => commit_for_ever(Path::new(&dir), Synchronous::Normal, 1).await,
            other => panic!("no role {other}"),
        }
    });
}

/// One write, so that a line is there whole or not at all; past the test harness, which would keep it.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

async fn commit_for_ever(dir: &Path, synchronous: Synchronous, tasks: u64) {
    let options = SqliteOptions { synchronous, ..SqliteOptions::default() };
    let store = Arc::new(SqliteStore::open(dir, options).await.unwrap());
    let first_channel: u64 = env::var(FIRST_CHANNEL).unwrap().parse().unwrap();
    let channels: Vec<u64> = (first_channel..first_channel + tasks).collect();
    store.commit(guild_with_channels(GUILD, &channels)).await.unwrap();
    let log = dir.join("guildhall.db-wal");
    let tasks = channels.into_iter().map(|channel_id| {
        let (store, log) = (Arc::clone(&store), log.clone());
        tokio::spawn(async move {
            for n in 0.. {
                store.commit(step(channel_id, n)).await.unwrap();
                say(&format!("ack {channel_id} {n} {}", fs::metadata(&log).unwrap().len()));
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

fn start(role: &str, dir: &Path, first_channel: u64) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
        .envs([(ROLE, role), (FIRST_CHANNEL, &first_channel.to_string())])
        .env(DIR, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// An acknowledgement: channel, step, and how long the log was afterwards.
type Ack = (u64, u64, u64);

/// Output of a child process, by lines.
struct OutputLines(Receiver<String>);

impl OutputLines {
    fn by(child: &mut Child) -> Self {
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut line = String::new();
            while out.read_line(&mut line).is_ok_and(|bytes| bytes > 0) && sender.send(line.clone()).is_ok() {
                line.clear();
            }
        });
        Self(lines)
    }

    /// The next line, with its end; none when the child has ended. A child that is silent is killed.
    fn next(&self, child: &mut Child, so_far: impl FnOnce() -> String) -> Option<String> {
        match self.0.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                child.kill().unwrap();
                panic!("the child prints nothing for {PATIENCE:?}, after {}", so_far());
            }
        }
    }
}

/// Lets the child acknowledge so often, kills it, and returns all it output to have acknowledged.
fn kill_after(mut child: Child, acks_count: usize) -> Vec<Ack> {
    let output = OutputLines::by(&mut child);
    let mut acks = Vec::new();
    while let Some(line) = output.next(&mut child, || format!("{} of {acks_count} commits", acks.len())) {
        // The last one may be cut off, and is none then.
        if let Some(ack) = line.strip_prefix("ack ").and_then(|rest| rest.strip_suffix('\n')) {
            let mut numbers = ack.split(' ').map(|number| number.parse().unwrap());
            acks.push((numbers.next().unwrap(), numbers.next().unwrap(), numbers.next().unwrap()));
            if acks.len() == acks_count {
                child.kill().unwrap(); // and go on reading what it output until then
            }
        }
    }
    let status = child.wait().unwrap();
    assert!(acks.len() >= acks_count, "the child ended by itself: {status}");
    acks
}

/// Which steps were taken in a channel: all up to the last acknowledged one, and perhaps the one after it, whole.
async fn check_channel(store: &SqliteStore, channel_id: u64, acked: u64) -> u64 {
    let records = store.messages(id(channel_id), Page::Newest, u32::MAX).await.unwrap();
    let found: BTreeSet<u64> = records.iter().map(|record| record.message.id.get()).collect();
    let steps = (acked..=acked + 1).find(|steps| found == expected(*steps));
    let steps = steps.unwrap_or_else(|| panic!("channel {channel_id}: {acked} steps acknowledged, found {found:?}"));
    for record in records {
        let is_first = record.message.id.get() % 1000 == 1;
        assert_eq!(record.reactions.len(), usize::from(is_first), "{:?}", record.message.id);
    }
    steps
}

async fn check_integrity(dir: &Path) {
    let mut raw = raw(dir).await;
    let verdict: String = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut raw).await.unwrap();
    assert_eq!(verdict, "ok");
    let dangling = sqlx::query("PRAGMA foreign_key_check").fetch_all(&mut raw).await.unwrap();
    assert_eq!(dangling.len(), 0);
    raw.close().await.unwrap();
}

async fn acknowledged_writes_survive(role: &str, seed: u64, rounds: u64) {
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let dir = TempDir::new();
    // Steps taken per channel, over all rounds: later crashes must not touch what earlier ones left.
    let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
    for round in 0..rounds {
        let first_channel = 100 + round * TASKS;
        let acks = kill_after(start(role, dir.path(), first_channel), 1 + rng.below(150) as usize);
        let store = open(dir.path()).await;
        for channel_id in first_channel..first_channel + TASKS {
            let acked = acks.iter().filter(|ack| ack.0 == channel_id).map(|ack| ack.1 + 1).max().unwrap_or(0);
            taken.insert(channel_id, check_channel(&store, channel_id, acked).await);
        }
        for (channel_id, steps) in &taken {
            let found = store.messages(id(*channel_id), Page::Newest, u32::MAX).await.unwrap();
            assert_eq!(found.len(), expected(*steps).len(), "channel {channel_id} of an earlier round");
        }
        store.close().await;
        check_integrity(dir.path()).await;
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_sigkill() {
    acknowledged_writes_survive("normal", 0x6b69_6c6c, 5).await;
}

#[tokio::test]
async fn acknowledged_writes_survive_sigkill_when_synced() {
    acknowledged_writes_survive("full", 0x2d39, 2).await;
}

#[tokio::test]
async fn a_damaged_log_costs_only_commits_after_the_damage() {
    let mut rng = Rng::new(0x7461_696c);
    let dir = TempDir::new();
    let channel_id = 100;
    let acks = kill_after(start("alone", dir.path(), channel_id), 60);
    let database = fs::read(dir.path().join("guildhall.db")).unwrap();
    let log = fs::read(dir.path().join("guildhall.db-wal")).unwrap();
    assert!(
        acks.is_sorted_by_key(|ack| ack.2) && acks[0].2 > 0,
        "the log only grew, so its length determines its content"
    );

    let (mut whole, mut cut) = (0, 0);
    for round in 0..30 {
        let mut damaged = log.clone();
        let at = match round {
            0 => log.len(), // none at all
            // The tail, mostly: there the last transactions are.
            n if n % 2 == 0 => log.len() - rng.below(100_000) as usize,
            _ => rng.below(log.len() as u64) as usize,
        };
        match round % 3 {
            0 => damaged.truncate(at),
            1 => damaged[at..].iter_mut().take(1 + rng.below(64) as usize).for_each(|byte| *byte ^= 0x55),
            _ => {
                damaged.truncate(at);
                damaged.extend((0..rng.below(20_000)).map(|_| rng.next_u64() as u8));
            }
        }
        let copy = TempDir::new();
        fs::write(copy.path().join("guildhall.db"), &database).unwrap();
        fs::write(copy.path().join("guildhall.db-wal"), damaged).unwrap();
        let store = open(copy.path()).await;
        let found = store.messages(id(channel_id), Page::Newest, u32::MAX).await.unwrap();
        let found: BTreeSet<u64> = found.iter().map(|record| record.message.id.get()).collect();
        let before = acks.iter().filter(|ack| ack.2 <= at as u64).count() as u64;
        let steps = (before..=acks.len() as u64 + 1).find(|steps| found == expected(*steps));
        let steps = steps.unwrap_or_else(|| panic!("round {round}, damaged at {at} of {}: {found:?}", log.len()));
        *if steps >= acks.len() as u64 { &mut whole } else { &mut cut } += 1;
        // And it goes on from there.
        store.commit(guild_with_channels(GUILD, &[channel_id, 200])).await.unwrap();
        store.commit(vec![put_message(GUILD, 200, 1)]).await.unwrap();
        store.close().await;
        check_integrity(copy.path()).await;
    }
    assert!(whole > 0 && cut > 10, "the damage did nothing: {whole} whole, {cut} cut");
}

#[tokio::test]
async fn another_process_is_kept_out_until_it_is_gone() {
    let dir = TempDir::new();
    let mut child = start("hold", dir.path(), 100);
    let output = OutputLines::by(&mut child);
    let mut line = String::new();
    while line != "ready\n" {
        line = output.next(&mut child, || line).expect("the child opens the store");
    }
    let error = SqliteStore::open(dir.path(), quick()).await.err().unwrap();
    assert!(matches!(&error, StoreError::InUse { process_id, .. } if *process_id == Some(child.id())), "{error:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    open(dir.path()).await.close().await;
}
