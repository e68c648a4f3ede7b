//! Ledger: usage of accounts on all nodes, at the home of the accounts, and the decision on one IDENTIFY more.
//!
//! Owns        per account the usage that each process reported last. A process reports absolute numbers, which include
//!             its requests that are under way: a report that arrives late, twice or never cannot add up.
//! Doors       `admit` for an IDENTIFY at any node; `report` and `end_round` for changes; `used` for `GET
//!             /gateway/bot`.
//! Invariants  H1 while every node reaches the home and the home lasts, all nodes together admit no more than the
//!             limits. H2 an older report never replaces a newer one of the same process. H3 sessions of a node that
//!             left do not count; its IDENTIFYs of the day do. H4 after a round of reports, the ledger equals the
//!             counts of the process. (tests `h*_*`, and `it/ledger.rs`)
//! Limits      `ACCOUNTS_MAX`: past it `admit` decides nothing, and the requesting node uses its own counts.
//! Not here    the counts of one node (`IdentifyGate` of `guildhall-net`), messages and waiting (`guildhall`).

use crate::node::NodeNumber;
use guildhall_model::UserId;
use guildhall_stdx::Instant;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Accounts with usage, about 150 bytes each.
pub const ACCOUNTS_MAX: usize = 4_000_000;

/// Longest delay of a report on the bus: its sender waits at most two seconds for the answer.
const LATE_MS_MAX: u64 = 10_000;

/// A process of a node. The number alone may belong to another process after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reporter {
    pub node: NodeNumber,
    /// Random, new with each process. A node that joins again keeps it.
    pub process: u64,
}

/// Counts of one process for one account, with its requests that are under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Sessions, connected or resumable.
    pub sessions: u32,
    /// IDENTIFYs of the current day.
    #[serde(default)]
    pub identifies: u32,
    /// Time until they do not count any more.
    #[serde(default)]
    pub day_left_ms: u64,
    /// Shards that cannot identify yet, each with the time until it can.
    #[serde(default)]
    pub shards: Vec<(u32, u64)>,
}

/// Limits of one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountLimits {
    /// Sessions of a user account.
    pub user_sessions_max: u32,
    /// IDENTIFYs of a bot in a day.
    pub bot_identifies_per_day: u32,
    /// IDENTIFYs of a bot in an interval.
    pub max_concurrency: u32,
}

/// The limit that refuses an IDENTIFY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OverLimit {
    Sessions,
    BotRate,
    BotDay,
}

/// IDENTIFYs of a bot on all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    pub identifies: u32,
    /// Time until some of them do not count any more; 0 if there are none.
    pub day_left_ms: u64,
}

/// An IDENTIFY that requests admission.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IdentifyRequest {
    pub user_id: UserId,
    pub is_bot: bool,
    /// 0 without shards.
    pub shard_id: u32,
    /// Counts of the requesting process, with this IDENTIFY.
    pub usage: Usage,
}

/// Last report of one process on one account.
#[derive(Debug)]
struct Share {
    of: Reporter,
    stamp: u64,
    sessions: u32,
    identifies: u32,
    day_ends: Instant,
    /// With the time at which each is free.
    shards: Vec<(u32, Instant)>,
    /// Until then it stays, even without usage, so that an older report that is late does not bring usage back (H2).
    kept_until: Instant,
}

impl Share {
    fn new(now: Instant, of: Reporter, stamp: u64, usage: &Usage) -> Self {
        let shards = usage.shards.iter().map(|(shard, left_ms)| (*shard, now.after_ms(*left_ms))).collect();
        let day_ends = now.after_ms(usage.day_left_ms);
        let kept_until = now.after_ms(LATE_MS_MAX);
        Self { of, stamp, sessions: usage.sessions, identifies: usage.identifies, day_ends, shards, kept_until }
    }

    /// Drops what does not count any more. False: nothing is left.
    fn prune(&mut self, now: Instant) -> bool {
        self.shards.retain(|(_, until)| *until > now);
        if self.day_ends <= now {
            self.identifies = 0;
        }
        self.sessions > 0 || self.identifies > 0 || !self.shards.is_empty() || self.kept_until > now
    }
}

/// Nodes that are members now.
pub trait Living {
    fn is_living(&self, node: NodeNumber) -> bool;
}

impl<F: Fn(NodeNumber) -> bool> Living for F {
    fn is_living(&self, node: NodeNumber) -> bool {
        self(node)
    }
}

/// Usage of the accounts whose home this node is.
#[derive(Debug, Default)]
pub struct Ledger {
    accounts: HashMap<UserId, Vec<Share>>,
    /// The process that a node's number belongs to.
    processes: BTreeMap<NodeNumber, u64>,
}

impl Ledger {
    /// Accounts with usage.
    #[must_use]
    pub fn len(&self) -> usize {
        self.accounts.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Decides on an IDENTIFY; if it is admitted, its usage counts. None: there is no room to remember the account.
    ///
    /// # Errors
    /// The limit that it would exceed.
    pub fn admit(
        &mut self,
        (now, living): (Instant, &impl Living),
        (of, stamp): (Reporter, u64),
        request: &IdentifyRequest,
        limits: &AccountLimits,
    ) -> Option<Result<Used, OverLimit>> {
        self.processes.insert(of.node, of.process);
        if self.accounts.len() >= ACCOUNTS_MAX && !self.accounts.contains_key(&request.user_id) {
            return None;
        }
        let shares = self.accounts.entry(request.user_id).or_default();
        shares.retain_mut(|share| share.prune(now));
        let own = shares.iter().position(|share| share.of == of);
        // H2: a newer report includes this request, or the process has cancelled it.
        let is_news = own.is_none_or(|own| shares[own].stamp < stamp);
        let mut share = Share::new(now, of, stamp, &request.usage);
        // All nodes count the same day: the one that began first.
        share.day_ends = first_end(shares).map_or(share.day_ends, |ends| ends.min(share.day_ends));
        let others = shares.iter().filter(|known| !is_news || known.of != of);
        let all: Vec<&Share> = others.chain(is_news.then_some(&share)).collect();
        let refused = if request.is_bot {
            let identifies: u32 = all.iter().map(|share| share.identifies).sum();
            let in_all: usize = all.iter().map(|share| share.shards.len()).sum();
            let of_shard = |share: &&Share| share.shards.iter().filter(|(id, _)| *id == request.shard_id).count();
            let in_shard: usize = all.iter().map(of_shard).sum();
            if identifies > limits.bot_identifies_per_day {
                Some(OverLimit::BotDay)
            } else if in_all > limits.max_concurrency as usize || request.shard_id > 0 && in_shard > 1 {
                Some(OverLimit::BotRate)
            } else {
                None
            }
        } else {
            let processes = &self.processes;
            let sessions: u32 = all.iter().map(|share| live_sessions(share, processes, living)).sum();
            (sessions > limits.user_sessions_max).then_some(OverLimit::Sessions)
        };
        if let Some(limit) = refused {
            if shares.is_empty() {
                self.accounts.remove(&request.user_id);
            }
            return Some(Err(limit));
        }
        match own {
            Some(own) if is_news => shares[own] = share,
            Some(_) => {}
            None => shares.push(share),
        }
        Some(Ok(used_of(now, shares)))
    }

    /// A process reports its counts for an account.
    pub fn report(&mut self, now: Instant, (of, stamp): (Reporter, u64), user_id: UserId, usage: &Usage) {
        self.processes.insert(of.node, of.process);
        if self.accounts.len() >= ACCOUNTS_MAX && !self.accounts.contains_key(&user_id) {
            return;
        }
        let shares = self.accounts.entry(user_id).or_default();
        let share = Share::new(now, of, stamp, usage);
        match shares.iter_mut().find(|share| share.of == of) {
            // H2.
            Some(known) if known.stamp < stamp => *known = share,
            Some(_) => {}
            None => shares.push(share),
        }
    }

    /// A process has reported all its accounts of this home with stamps from `begun` on: it has nothing else (H4).
    pub fn end_round(&mut self, now: Instant, of: Reporter, round_start: u64) {
        self.processes.insert(of.node, of.process);
        self.accounts.retain(|_, shares| {
            shares.retain_mut(|share| {
                let is_stale = share.of == of && share.stamp < round_start;
                !is_stale && share.prune(now)
            });
            !shares.is_empty()
        });
    }

    /// Forgets accounts that have another home now, and sessions of nodes that left (H3).
    pub fn sweep(&mut self, now: Instant, living: &impl Living, is_home: impl Fn(UserId) -> bool) {
        let processes = &self.processes;
        self.accounts.retain(|user_id, shares| {
            if !is_home(*user_id) {
                return false;
            }
            shares.retain_mut(|share| {
                share.sessions = live_sessions(share, processes, living);
                share.prune(now)
            });
            !shares.is_empty()
        });
        self.processes.retain(|node, _| living.is_living(*node));
    }

    /// IDENTIFYs of a bot.
    pub fn used(&mut self, now: Instant, user_id: UserId) -> Used {
        let Some(shares) = self.accounts.get_mut(&user_id) else { return Used::default() };
        for share in shares.iter_mut() {
            let _ = share.prune(now);
        }
        used_of(now, shares)
    }

    /// Sessions of an account on nodes that live.
    #[must_use]
    pub fn sessions(&self, user_id: UserId, living: &impl Living) -> u32 {
        let shares = self.accounts.get(&user_id).map_or(&[][..], Vec::as_slice);
        shares.iter().map(|share| live_sessions(share, &self.processes, living)).sum()
    }
}

/// Sessions of a share; 0 if another process has its node's number, or the node has left (H3).
fn live_sessions(share: &Share, processes: &BTreeMap<NodeNumber, u64>, living: &impl Living) -> u32 {
    let is_current = processes.get(&share.of.node) == Some(&share.of.process);
    if is_current && living.is_living(share.of.node) { share.sessions } else { 0 }
}

/// The end of the day of those shares that have IDENTIFYs.
fn first_end(shares: &[Share]) -> Option<Instant> {
    shares.iter().filter(|share| share.identifies > 0).map(|share| share.day_ends).min()
}

fn used_of(now: Instant, shares: &[Share]) -> Used {
    let identifies = shares.iter().map(|share| share.identifies).sum();
    Used { identifies, day_left_ms: first_end(shares).map_or(0, |ends| ends.ms_since(now)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: AccountLimits = AccountLimits { user_sessions_max: 2, bot_identifies_per_day: 3, max_concurrency: 2 };
    const USER: UserId = UserId::new(7);
    const DAY_MS: u64 = 86_400_000;

    fn of(node: u8) -> Reporter {
        Reporter { node: NodeNumber(node), process: 100 + u64::from(node) }
    }

    fn sessions(sessions: u32) -> Usage {
        Usage { sessions, ..Usage::default() }
    }

    fn bot(identifies: u32, shards: &[u32]) -> Usage {
        let shards = shards.iter().map(|shard| (*shard, 5_000)).collect();
        Usage { sessions: 1, identifies, day_left_ms: DAY_MS, shards }
    }

    fn all(_: NodeNumber) -> bool {
        true
    }

    fn ask(ledger: &mut Ledger, ms: u64, from: (u8, u64), usage: Usage) -> Result<Used, OverLimit> {
        let is_bot = usage.identifies > 0;
        let shard_id = usage.shards.last().map_or(0, |shard| shard.0);
        let request = IdentifyRequest { user_id: USER, is_bot, shard_id, usage };
        ledger.admit((Instant(ms), &all), (of(from.0), from.1), &request, &LIMITS).expect("there is room")
    }

    #[test]
    fn h1_sessions_of_all_nodes_are_counted() {
        let mut ledger = Ledger::default();
        assert!(ask(&mut ledger, 0, (0, 1), sessions(1)).is_ok());
        assert!(ask(&mut ledger, 0, (1, 1), sessions(1)).is_ok());
        assert_eq!(ask(&mut ledger, 0, (2, 1), sessions(1)), Err(OverLimit::Sessions));
        assert_eq!(ask(&mut ledger, 0, (0, 2), sessions(2)), Err(OverLimit::Sessions));
        ledger.report(Instant(1), (of(1), 2), USER, &sessions(0));
        assert!(ask(&mut ledger, 2, (0, 3), sessions(2)).is_ok());
        assert_eq!(ledger.sessions(USER, &all), 2);
    }

    #[test]
    fn h1_a_bot_identifies_so_often_per_interval_and_day() {
        let mut ledger = Ledger::default();
        assert_eq!(ask(&mut ledger, 0, (0, 1), bot(1, &[0])).map(|used| used.identifies), Ok(1));
        assert_eq!(ask(&mut ledger, 1_000, (1, 1), bot(1, &[0])).map(|used| used.day_left_ms), Ok(DAY_MS - 1_000));
        assert_eq!(ask(&mut ledger, 1_000, (2, 1), bot(1, &[0])), Err(OverLimit::BotRate));
        assert!(ask(&mut ledger, 5_000, (2, 2), bot(1, &[0])).is_ok());
        assert_eq!(ask(&mut ledger, 20_000, (2, 3), bot(2, &[0])), Err(OverLimit::BotDay));
        assert_eq!(ledger.used(Instant(20_000), USER), Used { identifies: 3, day_left_ms: DAY_MS - 20_000 });
        // All nodes began the day of the first.
        assert_eq!(ledger.used(Instant(DAY_MS), USER), Used::default());
    }

    #[test]
    fn h1_a_shard_identifies_once_per_interval_at_all_nodes() {
        let mut ledger = Ledger::default();
        assert!(ask(&mut ledger, 0, (0, 1), bot(1, &[1])).is_ok());
        assert_eq!(ask(&mut ledger, 10, (1, 1), bot(1, &[1])), Err(OverLimit::BotRate));
        assert!(ask(&mut ledger, 10, (1, 2), bot(1, &[2])).is_ok());
    }

    #[test]
    fn h2_older_reports_change_nothing() {
        let mut ledger = Ledger::default();
        assert!(ask(&mut ledger, 0, (0, 5), sessions(2)).is_ok());
        ledger.report(Instant(0), (of(0), 6), USER, &sessions(0));
        ledger.report(Instant(9_000), (of(0), 4), USER, &sessions(2));
        assert!(ask(&mut ledger, 9_000, (0, 3), sessions(1)).is_ok(), "the process cancelled it before");
        assert_eq!(ledger.sessions(USER, &all), 0);
        ledger.sweep(Instant(20_000), &all, |_| true);
        assert!(ledger.is_empty());
    }

    #[test]
    fn h3_a_node_that_left_has_no_sessions_and_another_process_has_its_own() {
        let mut ledger = Ledger::default();
        assert!(ask(&mut ledger, 0, (0, 1), sessions(2)).is_ok());
        assert_eq!(ask(&mut ledger, 0, (1, 1), sessions(1)), Err(OverLimit::Sessions));
        let without = |node: NodeNumber| node != NodeNumber(0);
        assert_eq!(ledger.sessions(USER, &without), 0);
        let again = Reporter { process: 9, ..of(0) };
        ledger.report(Instant(1), (again, 1), USER, &sessions(1));
        assert_eq!(ledger.sessions(USER, &all), 1, "those of the process before have ended");
        let mut ledger = Ledger::default();
        assert!(ask(&mut ledger, 0, (0, 1), bot(3, &[])).is_ok());
        ledger.sweep(Instant(60_000), &without, |_| true);
        assert_eq!(ask(&mut ledger, 60_000, (1, 1), bot(1, &[])), Err(OverLimit::BotDay));
        ledger.sweep(Instant(60_000), &without, |_| false);
        assert!(ledger.is_empty(), "it has another home");
    }

    #[test]
    fn h4_a_round_leaves_what_the_process_has() {
        let mut ledger = Ledger::default();
        ledger.report(Instant(0), (of(0), 1), USER, &sessions(1));
        ledger.report(Instant(0), (of(0), 2), UserId::new(8), &sessions(1));
        ledger.report(Instant(0), (of(1), 1), UserId::new(8), &sessions(1));
        ledger.report(Instant(20_000), (of(0), 3), USER, &sessions(2));
        ledger.end_round(Instant(20_000), of(0), 3);
        assert_eq!((ledger.sessions(USER, &all), ledger.sessions(UserId::new(8), &all)), (2, 1));
    }
}
