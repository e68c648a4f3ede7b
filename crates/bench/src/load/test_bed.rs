//! Test bed: a server with the guild of these benches, and connected clients that behave.
//!
//! Limits      `PATIENCE` for a state that all clients have to reach.

use super::{
    backend::Http,
    clients::{Clients, Report, Way},
    fixture::{self, Account},
    node::{Node, free_addr},
};
use anyhow::{Context as _, Result, ensure};
use guildhall::open_files;
use std::{
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(180);

/// See the module.
pub struct TestBed {
    pub dir: TempDir,
    pub node: Node,
    pub backend: Http,
    pub clients: Clients,
    /// Accounts that have no client.
    pub others: Vec<Account>,
    /// The token of the account that posts.
    pub speaker: String,
    /// The clients' time begins here.
    pub started: Instant,
}

impl TestBed {
    /// Starts a server, makes `accounts` members, connects those that `is_client` names by their number, and waits
    /// until each has a session.
    pub fn start(settings: &[String], accounts: usize, is_client: impl Fn(usize, &Account) -> bool) -> Result<Self> {
        Self::start_in(settings, accounts, &[Way::PLAIN], is_client)
    }

    /// The same, with clients that connect in these ways, in turn.
    pub fn start_in(
        settings: &[String],
        accounts: usize,
        ways: &[Way],
        is_client: impl Fn(usize, &Account) -> bool,
    ) -> Result<Self> {
        open_files::raise_limit_for(accounts as u32);
        let dir = tempfile::tempdir().context("making a folder for the bench")?;
        let node = Node::start(dir.path(), free_addr()?, settings)?;
        let mut backend = Http::backend(node.addr, node.key());
        let (accounts, speaker) = fixture::make(&mut backend, accounts)?;
        let (clients, others): (Vec<_>, Vec<_>) =
            accounts.into_iter().enumerate().partition(|(index, account)| is_client(*index, account));
        let [accounts, others] = [clients, others].map(|of| of.into_iter().map(|(_, account)| account).collect());
        let started = Instant::now();
        let clients = Clients::start_in(&[node.addr], accounts, ways, started);
        let bed = Self { dir, node, backend, clients, others, speaker, started };
        bed.wait("READY for all", |clients| clients.ready_count() == clients.count())?;
        Ok(bed)
    }

    /// Waits for a state of the clients.
    pub fn wait(&self, what: &str, is_so: impl Fn(&Clients) -> bool) -> Result<()> {
        wait(what, &self.clients, || Ok(is_so(&self.clients)))
    }

    /// Since the beginning, in microseconds.
    pub fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }
}

/// Waits for a state while clients are connected.
pub fn wait(what: &str, clients: &Clients, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so()? {
        ensure!(
            Instant::now() < deadline,
            "{what} did not happen in time; {} clients are connected",
            clients.ready_count()
        );
        ensure!(!clients.has_failed(), "the clients' thread ended");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

impl Report {
    /// Nothing was lost, repeated or out of order.
    pub fn check_order(&self) -> Result<()> {
        ensure!(self.faults == 0, "{} faults, like: {}", self.faults, self.example.as_deref().unwrap_or_default());
        Ok(())
    }

    /// Each client heard these messages, and no other from the first of them on.
    pub fn check_heard(&self, expected: &[u32]) -> Result<()> {
        self.check_order()?;
        let first = expected.first().copied().unwrap_or(0);
        for (index, heard) in self.heard.iter().enumerate() {
            let heard = &heard[heard.partition_point(|number| *number < first)..];
            let missing: Vec<_> = expected.iter().filter(|number| !heard.contains(number)).take(10).collect();
            ensure!(
                heard == expected,
                "client {index} heard {} of {} messages; {missing:?} are missing",
                heard.len(),
                expected.len()
            );
        }
        Ok(())
    }
}
