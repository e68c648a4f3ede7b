//! Crowd role: the clients of a site, and the callers of REST there, in a process of its own.
//!
//! Invariants  a message that is posted alone is heard by all before the next is posted.

use super::super::{
    backend::Http,
    clients::{Clients, Heard, Outages},
    fixture::{Account, say},
};
use crate::{
    role::{say as tell, serve},
    stats::Spread,
};
use anyhow::{Context as _, Result, bail, ensure};
use guildhall::open_files;
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    fs,
    net::SocketAddr,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// A step of all clients together.
const PATIENCE: Duration = Duration::from_secs(150);
/// READY comes before the guild has attached the session.
const SETTLE: Duration = Duration::from_millis(1500);

/// Writes what the role needs: the token of the one who posts, then an account per line.
pub fn write_accounts(path: &Path, accounts: &[Account], speaker: &str) -> Result<()> {
    let mut text = format!("{speaker}\n");
    for account in accounts {
        let _ = writeln!(text, "{} {}", if account.is_bot { "bot" } else { "user" }, account.token);
    }
    fs::write(path, text).context("writing the accounts")
}

fn read_accounts(path: &Path) -> Result<(Vec<Account>, String)> {
    let text = fs::read_to_string(path).context("reading the accounts")?;
    let mut lines = text.lines();
    let speaker = lines.next().context("no token")?.to_owned();
    let account = |line: &str| {
        let (kind, token) = line.split_once(' ').context("no account")?;
        Ok(Account { is_bot: kind == "bot", token: token.to_owned() })
    };
    Ok((lines.map(account).collect::<Result<_>>()?, speaker))
}

struct Crowd {
    clients: Clients,
    count: usize,
    speaker: String,
    started: Instant,
    /// Of the newest message.
    number: u32,
}

/// Connects all clients, in turn to each of the nodes, and runs the bench's commands.
pub fn run(accounts: &Path, nodes: &[SocketAddr]) -> Result<()> {
    let (accounts, speaker) = read_accounts(accounts)?;
    let (count, started) = (accounts.len(), Instant::now());
    open_files::raise_limit_for(count as u32);
    let clients = Clients::start(nodes, accounts, started);
    while clients.ready_count() < count {
        ensure!(started.elapsed() < PATIENCE && !clients.has_failed(), "{} are ready", clients.ready_count());
        thread::sleep(Duration::from_millis(20));
    }
    let mut crowd = Crowd { clients, count, speaker, started, number: 0 };
    crowd.wait_attached()?;
    tell(&json!({"connected": count}));
    serve(|command, args| match (command, args) {
        // At this node: one message after the other.
        ("alone", [node, count]) => crowd.alone(node.parse()?, count.parse()?),
        // At this node: a message at this interval, in microseconds, for this time, in milliseconds. It waits for no
        // client.
        ("stream", [node, every_us, ms]) => {
            crowd.stream(node.parse()?, Duration::from_micros(every_us.parse()?), Duration::from_millis(ms.parse()?))
        }
        // Deliveries of these messages so far.
        ("heard", [from, to]) => crowd.heard(from.parse()?, to.parse()?),
        ("size", []) => Ok(json!({"clients": crowd.count})),
        ("check", []) => Ok(json!({"faults": crowd.clients.faults()})),
        ("outages", []) => Ok(crowd.outages()),
        // At this node: this number of callers for this time, in milliseconds.
        ("call", [node, callers, ms, path, body]) => {
            call(&crowd.speaker, node.parse()?, callers.parse()?, Duration::from_millis(ms.parse()?), path, body)
        }
        _ => bail!("unknown command {command} {args:?}"),
    });
    Ok(())
}

impl Crowd {
    fn wait_attached(&mut self) -> Result<()> {
        thread::sleep(SETTLE);
        ensure!(self.clients.ready_count() == self.count, "a client was disconnected");
        Ok(())
    }

    fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    fn alone(&mut self, node: SocketAddr, messages: usize) -> Result<Value> {
        let mut speaker = Http::bot(node, &self.speaker);
        let (mut last_ms, mut answer_ms) = (Vec::new(), Vec::new());
        for _ in 0..messages {
            self.number += 1;
            let said_us = self.now_us();
            ensure!(say(&mut speaker, 0, self.number, said_us)?, "a message was refused");
            answer_ms.push(self.now_us().saturating_sub(said_us) as f64 / 1e3);
            let heard = self.clients.wait_heard(self.number, PATIENCE);
            let count: usize = heard.iter().map(|node| node.count).sum();
            ensure!(count == self.count, "{count} of {} clients heard message {}", self.count, self.number);
            let last_us = heard.iter().map(|node| node.last_us).max().unwrap_or(0);
            last_ms.push(last_us.saturating_sub(said_us) as f64 / 1e3);
        }
        Ok(json!({"last_ms": last_ms, "answer_ms": answer_ms}))
    }

    fn stream(&mut self, node: SocketAddr, every: Duration, time: Duration) -> Result<Value> {
        let mut speaker = Http::bot(node, &self.speaker);
        let (from, began) = (self.number + 1, Instant::now());
        let mut next = began;
        while began.elapsed() < time {
            self.number += 1;
            ensure!(say(&mut speaker, 0, self.number, self.now_us())?, "a message was refused");
            next += every;
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        Ok(json!({"from": from, "to": self.number}))
    }

    /// Clients that heard each of the messages, by node.
    fn heard(&self, from: u32, to: u32) -> Result<Value> {
        let mut counts: Vec<usize> = Vec::new();
        for number in from..=to {
            let heard: Vec<Heard> = self.clients.wait_heard(number, Duration::ZERO);
            counts.resize(counts.len().max(heard.len()), 0);
            counts.iter_mut().zip(heard).for_each(|(count, heard)| *count += heard.count);
        }
        Ok(json!({"counts": counts}))
    }

    fn outages(&self) -> Value {
        let all = self.clients.outages();
        let of = |of: fn(&Outages) -> u64| all.iter().map(of).collect::<Vec<_>>();
        json!({"gone": of(|outages| outages.gone), "back": of(|outages| outages.back)})
    }
}

/// Requests of callers that each wait for an answer before the next request.
fn call(token: &str, node: SocketAddr, callers: usize, time: Duration, path: &str, body: &str) -> Result<Value> {
    let began = Instant::now();
    let call = || {
        let mut http = Http::bot(node, token);
        let mut took_ms = Vec::new();
        while began.elapsed() < time {
            let sent = Instant::now();
            let (status, answer) = http.request("POST", path, body)?;
            ensure!((200..300).contains(&status), "{path}: {status} {answer}");
            took_ms.push(sent.elapsed().as_secs_f64() * 1e3);
        }
        Ok(took_ms)
    };
    let took: Vec<Result<Vec<f64>>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..callers).map(|_| scope.spawn(call)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| bail!("a caller panicked"))).collect()
    });
    let seconds = began.elapsed().as_secs_f64();
    let took_ms: Vec<f64> = took.into_iter().collect::<Result<Vec<_>>>()?.concat();
    let per_s = took_ms.len() as f64 / seconds;
    Ok(json!({"per_s": per_s, "ms": Spread::of(took_ms)}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_go_through_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("accounts");
        let account = |is_bot, token: &str| Account { is_bot, token: token.to_owned() };
        write_accounts(&path, &[account(true, "a"), account(false, "b")], "speaker").unwrap();
        let (accounts, speaker) = read_accounts(&path).unwrap();
        assert_eq!(speaker, "speaker");
        assert_eq!(accounts.iter().map(|of| (of.is_bot, &*of.token)).collect::<Vec<_>>(), [(true, "a"), (false, "b")]);
    }
}
