//! Gatekeeper: how often an account may IDENTIFY, and how many sessions a user account may have.
//!
//! Owns        the allowances of addresses, tokens and the node, and the counts per account.
//! Invariants  G1 an IDENTIFY uses the node's allowance only if the allowances of its address and its token are not
//!             exhausted. G2 an IDENTIFY that starts no session is refunded to the node's allowance, up to
//!             `per_second_max` refunds a second. So one token or one address cannot exhaust the node's allowance. G3
//!             every call is O(1). (tests `s8_*`)
//! Limits      `ACCOUNTS_MAX` accounts are remembered. Past it accounts without state are forgotten; if there is none,
//!             new accounts are refused. Addresses and tokens share tables of fixed size.
//! Spec        docs/protocol/reference.md §1.5, §3.

use guildhall_model::{AccountKind, User, UserId};
use guildhall_partition::{Gatekeeper, IdentifyFault};
use guildhall_stdx::{
    Allowance, Instant, Now,
    heap::{self, MemoryUse, Sample},
};
use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher as _, Hash, RandomState},
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

const ACCOUNTS_MAX: usize = 4_000_000;
const SECOND_MS: u64 = 1_000;
const DAY_MS: u64 = 86_400_000;
/// Entries for tokens: at 2,000 IDENTIFYs a second each entry is used once in half a minute.
const TOKEN_PLACES: usize = 65_536;
const ADDRESS_PLACES: usize = 16_384;
/// One address has an eighth of the node's allowance, as it has of the handshakes.
const ADDRESS_SHARE: u32 = 8;

/// Limits on IDENTIFY.
#[derive(Clone, Copy, Debug)]
pub struct IdentifyLimits {
    /// IDENTIFYs per `interval_ms` and rate key (`shard_id % max_concurrency`) of one bot.
    pub max_concurrency: u32,
    /// Time for which one IDENTIFY blocks its rate key.
    pub interval_ms: u64,
    /// IDENTIFYs of one bot a day.
    pub bot_identifies_per_day: u32,
    /// Live sessions of one user account; past it 4015.
    pub user_sessions_max: u32,
    /// IDENTIFYs of all accounts that the node processes per second, and in a burst after a quiet second; past it op 9.
    /// One address has an eighth of it. 0: any number.
    pub per_second_max: u32,
}

impl IdentifyLimits {
    /// IDENTIFYs with one token that the node processes per `interval_ms`: twice what a bot may start, or one for each
    /// session of a user account.
    fn per_token_max(&self) -> u32 {
        self.max_concurrency.saturating_mul(2).max(self.user_sessions_max)
    }

    fn per_address_max(&self) -> u32 {
        if self.per_second_max == 0 { 0 } else { (self.per_second_max / ADDRESS_SHARE).max(1) }
    }
}

impl Default for IdentifyLimits {
    /// The limits of docs/protocol/reference.md §1.5, except that a bot may start 16 sessions per 5 s: a local gateway
    /// is restarted often.
    fn default() -> Self {
        Self {
            max_concurrency: 16,
            interval_ms: 5_000,
            bot_identifies_per_day: 1_000,
            user_sessions_max: 50,
            per_second_max: 0,
        }
    }
}

#[derive(Debug, Default)]
struct AccountState {
    sessions_count: u32,
    /// None: a user account, or a bot that has not identified here. Behind a pointer, because most accounts are users'.
    bot: Option<Box<BotUsage>>,
}

const _: () = assert!(size_of::<(UserId, AccountState)>() <= 24, "there is one per account");

/// IDENTIFYs of a bot.
#[derive(Debug, Default)]
struct BotUsage {
    /// Rate keys in use, and the time at which each is free again. `prune` removes free ones.
    keys: Vec<(u32, Instant)>,
    day_ends: Instant,
    identifies_today: u32,
}

/// Counts of one account at this node, for the account's home in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountUsage {
    /// Sessions, connected or resumable, and those that are about to begin.
    pub sessions_count: u32,
    /// IDENTIFYs of the current day.
    pub identifies_today: u32,
    /// Time until they do not count any more.
    pub day_left_ms: u64,
    /// Rate keys in use, each with the time until it is free.
    pub keys: Vec<(u32, u64)>,
}

/// Usage at one moment: a later one has a larger stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StampedUsage {
    pub stamp: u64,
    pub usage: AccountUsage,
}

/// Accounts whose usage changed since the last report.
#[derive(Debug, Default)]
struct Changes {
    accounts: HashSet<UserId>,
    stamp: u64,
}

impl BotUsage {
    fn prune(&mut self, now: Instant) {
        self.keys.retain(|(_, until)| *until > now);
        if self.day_ends <= now {
            self.day_ends = now.after_ms(DAY_MS);
            self.identifies_today = 0;
        }
    }

    /// Counts an IDENTIFY that is within the limits.
    fn admit(&mut self, now: Instant, shard_id: u32, limits: &IdentifyLimits) -> Result<(), IdentifyFault> {
        self.prune(now);
        // Each shard's key admits one IDENTIFY per interval; an unsharded bot may use all keys.
        let in_key = self.keys.iter().filter(|(key, _)| *key == shard_id).count() as u32;
        let in_all = self.keys.len() as u32;
        if self.identifies_today >= limits.bot_identifies_per_day {
            return Err(IdentifyFault::BotDay);
        }
        if in_all >= limits.max_concurrency || (shard_id > 0 && in_key > 0) {
            return Err(IdentifyFault::BotRate);
        }
        if self.keys.capacity() == 0 {
            // Most bots have one shard, and the default capacity would be four.
            self.keys.reserve_exact(1);
        }
        self.keys.push((shard_id, now.after_ms(limits.interval_ms)));
        self.identifies_today += 1;
        Ok(())
    }
}

impl AccountState {
    fn prune(&mut self, now: Instant) {
        self.bot.iter_mut().for_each(|bot| bot.prune(now));
    }

    fn usage(&self, now: Instant) -> AccountUsage {
        let sessions_count = self.sessions_count;
        match &self.bot {
            None => AccountUsage { sessions_count, identifies_today: 0, day_left_ms: 0, keys: Vec::new() },
            Some(bot) => AccountUsage {
                sessions_count,
                identifies_today: bot.identifies_today,
                day_left_ms: bot.day_ends.ms_since(now),
                keys: bot.keys.iter().map(|(key, until)| (*key, until.ms_since(now))).collect(),
            },
        }
    }

    fn is_forgettable(&self) -> bool {
        let is_in_use = |bot: &BotUsage| !bot.keys.is_empty() || bot.identifies_today > 0;
        self.sessions_count == 0 && !self.bot.as_deref().is_some_and(is_in_use)
    }
}

/// Remaining IDENTIFYs of a bot, for `GET /gateway/bot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionStartLimit {
    /// IDENTIFYs per day.
    pub total: u32,
    /// IDENTIFYs left today.
    pub remaining: u32,
    /// Milliseconds until `remaining` is reset to `total`.
    pub reset_after_ms: u64,
    /// IDENTIFYs in parallel.
    pub max_concurrency: u32,
}

/// Counts IDENTIFYs and sessions over all partitions.
#[derive(Debug)]
pub struct IdentifyGate {
    state: Mutex<GateState>,
}

#[derive(Debug)]
struct GateState {
    limits: IdentifyLimits,
    accounts: HashMap<UserId, AccountState>,
    starts: StartRate,
    allowance: Allowance,
    /// Bounds the refunds to `allowance`.
    refunds: Allowance,
    addresses: Allowances,
    tokens: Allowances,
    /// None: the node is alone.
    changes: Option<Changes>,
}

impl GateState {
    /// `Gatekeeper::admit`.
    fn admit(&mut self, now: Now, user: &User, shard_id: u32) -> Result<(), IdentifyFault> {
        let Self { limits, accounts, starts, .. } = self;
        if accounts.len() >= ACCOUNTS_MAX && !accounts.contains_key(&user.id) {
            accounts.retain(|_, state| {
                state.prune(now.instant);
                !state.is_forgettable()
            });
            if accounts.len() >= ACCOUNTS_MAX {
                return Err(IdentifyFault::Accounts);
            }
        }
        let state = accounts.entry(user.id).or_default();
        match user.kind() {
            AccountKind::User if state.sessions_count >= limits.user_sessions_max => {
                return Err(IdentifyFault::Sessions);
            }
            AccountKind::User => {}
            AccountKind::Bot => state.bot.get_or_insert_default().admit(now.instant, shard_id, limits)?,
        }
        state.sessions_count += 1;
        starts.count(now.instant);
        Ok(())
    }

    fn changed(&mut self, user_id: UserId) {
        if let Some(changes) = &mut self.changes {
            changes.accounts.insert(user_id);
        }
    }

    /// Takes one session from an account, and forgets the account if nothing is left.
    fn end_session(&mut self, user_id: UserId) {
        let Some(state) = self.accounts.get_mut(&user_id) else { return };
        state.sessions_count = state.sessions_count.saturating_sub(1);
        if state.is_forgettable() {
            self.accounts.remove(&user_id);
        }
        self.changed(user_id);
    }

    fn stamp(&mut self) -> u64 {
        self.changes.as_mut().map_or(0, |changes| {
            changes.stamp += 1;
            changes.stamp
        })
    }

    fn usage(&mut self, now: Instant, user_id: UserId) -> AccountUsage {
        let none = AccountUsage { sessions_count: 0, identifies_today: 0, day_left_ms: 0, keys: Vec::new() };
        self.accounts.get_mut(&user_id).map_or(none, |state| {
            state.prune(now);
            state.usage(now)
        })
    }
}

/// Allowances of keys, in a table of fixed size; keys with the same hash share one. The hash depends on a secret of the
/// process, so an attacker cannot choose a key that shares the allowance of another.
#[derive(Debug)]
struct Allowances {
    places: Box<[Allowance]>,
    hasher: RandomState,
}

impl Allowances {
    fn new(places_count: usize) -> Self {
        Self { places: vec![Allowance::default(); places_count].into(), hasher: RandomState::new() }
    }

    fn of(&mut self, key: impl Hash) -> &mut Allowance {
        let place = self.hasher.hash_one(key) as usize % self.places.len();
        &mut self.places[place]
    }
}

/// Sessions started in the current second, and the maximum over all seconds.
#[derive(Debug, Default)]
struct StartRate {
    second: u64,
    count: u32,
    most: u32,
}

impl StartRate {
    fn count(&mut self, now: Instant) {
        let second = now.0 / 1000;
        if second != self.second {
            (self.second, self.count) = (second, 0);
        }
        self.count += 1;
        self.most = self.most.max(self.count);
    }
}

impl IdentifyGate {
    #[must_use]
    pub fn new(limits: IdentifyLimits) -> Self {
        Self {
            state: Mutex::new(GateState {
                limits,
                accounts: HashMap::new(),
                starts: StartRate::default(),
                allowance: Allowance::default(),
                refunds: Allowance::default(),
                addresses: Allowances::new(ADDRESS_PLACES),
                tokens: Allowances::new(TOKEN_PLACES),
                changes: None,
            }),
        }
    }

    /// Remembers from now on whose usage changes, for reports to the homes of the accounts.
    pub fn follow_changes(&self) {
        let state = &mut *self.state();
        // With accounts of sessions that were restored before.
        let accounts = state.accounts.keys().copied().collect();
        state.changes = Some(Changes { accounts, stamp: 0 });
    }

    /// Admits an IDENTIFY by the counts of this node, before the account's home decides. From now on it counts as a
    /// session, which `give_back` or `Gatekeeper::session_ended` ends.
    ///
    /// # Errors
    /// As `Gatekeeper::admit`.
    pub fn reserve(&self, now: Now, user: &User, shard_id: u32) -> Result<StampedUsage, IdentifyFault> {
        let state = &mut *self.state();
        state.admit(now, user, shard_id)?;
        Ok(StampedUsage { stamp: state.stamp(), usage: state.usage(now.instant, user.id) })
    }

    /// Undoes `reserve`: the IDENTIFY started no session.
    pub fn give_back(&self, user: &User, shard_id: u32) {
        let state = &mut *self.state();
        if let Some(bot) = state.accounts.get_mut(&user.id).and_then(|account| account.bot.as_mut()) {
            bot.identifies_today = bot.identifies_today.saturating_sub(1);
            if let Some(index) = bot.keys.iter().rposition(|(key, _)| *key == shard_id) {
                bot.keys.remove(index);
            }
        }
        state.end_session(user.id);
    }

    /// Ends this bot's day in `left_ms`, unless it ends earlier: all nodes count the same day.
    pub fn align_day(&self, now: Now, user_id: UserId, left_ms: u64) {
        let state = &mut *self.state();
        if let Some(bot) = state.accounts.get_mut(&user_id).and_then(|account| account.bot.as_mut()) {
            bot.day_ends = bot.day_ends.min(now.instant.after_ms(left_ms));
        }
    }

    /// The account's home did not receive the usage of this account: the next report contains it.
    pub fn note_changed(&self, user_id: UserId) {
        self.state().changed(user_id);
    }

    /// Removes up to `count` accounts from those whose usage changed, and returns them.
    #[must_use]
    pub fn take_changed(&self, count: usize) -> Vec<UserId> {
        let state = &mut *self.state();
        let Some(changes) = &mut state.changes else { return Vec::new() };
        let taken: Vec<UserId> = changes.accounts.iter().take(count).copied().collect();
        for user_id in &taken {
            changes.accounts.remove(user_id);
        }
        taken
    }

    /// All accounts with usage.
    #[must_use]
    pub fn accounts(&self) -> Vec<UserId> {
        self.state().accounts.keys().copied().collect()
    }

    /// Usage of these accounts at one moment, with its stamp.
    #[must_use]
    pub fn usages(&self, now: Now, user_ids: &[UserId]) -> (u64, Vec<(UserId, AccountUsage)>) {
        let state = &mut *self.state();
        let stamp = state.stamp();
        (stamp, user_ids.iter().map(|user_id| (*user_id, state.usage(now.instant, *user_id))).collect())
    }

    /// The limits that hold now.
    #[must_use]
    pub fn limits(&self) -> IdentifyLimits {
        self.state().limits
    }

    /// Estimated memory of the accounts that it knows.
    #[must_use]
    pub fn memory(&self) -> MemoryUse {
        let state = self.state();
        let of_bot = |bot: &BotUsage| heap::boxed::<BotUsage>() + heap::of_buffer(&bot.keys);
        let of_account = |account: &AccountState| account.bot.as_deref().map_or(0, of_bot);
        let bytes = Sample::LARGE.of_map(&state.accounts, |_, account| of_account(account));
        MemoryUse::new("identify_limits", bytes, state.accounts.len())
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the limits. Counts continue.
    pub fn set_limits(&self, limits: IdentifyLimits) {
        self.state().limits = limits;
    }

    /// Maximum number of sessions that were started within one second: a lower bound of what this node can handle.
    #[must_use]
    pub fn starts_per_s_seen(&self) -> u32 {
        self.state().starts.most
    }

    /// Remaining IDENTIFYs of a bot today.
    #[must_use]
    pub fn session_start_limit(&self, now: Now, user_id: UserId) -> SessionStartLimit {
        let GateState { limits, accounts, .. } = &mut *self.state();
        let bot = accounts.get_mut(&user_id).and_then(|account| account.bot.as_mut());
        let (used, reset_after_ms) = bot.map_or((0, 0), |bot| {
            bot.prune(now.instant);
            let left_ms = bot.day_ends.ms_since(now.instant);
            (bot.identifies_today, if bot.identifies_today == 0 { 0 } else { left_ms })
        });
        SessionStartLimit {
            total: limits.bot_identifies_per_day,
            remaining: limits.bot_identifies_per_day.saturating_sub(used),
            reset_after_ms,
            max_concurrency: limits.max_concurrency,
        }
    }
}

impl Gatekeeper for IdentifyGate {
    fn may_begin(&self, now: Now, address: Option<IpAddr>, token: &str) -> Result<(), IdentifyFault> {
        let GateState { limits, allowance, addresses, tokens, .. } = &mut *self.state();
        let now = now.instant;
        if address.is_some_and(|address| !addresses.of(address).take(now, limits.per_address_max(), SECOND_MS)) {
            return Err(IdentifyFault::AddressRate);
        }
        if !tokens.of(token).take(now, limits.per_token_max(), limits.interval_ms) {
            return Err(IdentifyFault::TokenRate);
        }
        if !allowance.take(now, limits.per_second_max, SECOND_MS) {
            return Err(IdentifyFault::NodeRate);
        }
        Ok(())
    }

    fn refund(&self, now: Now) {
        let GateState { limits, allowance, refunds, .. } = &mut *self.state();
        if refunds.take(now.instant, limits.per_second_max, SECOND_MS) {
            allowance.refund(now.instant, limits.per_second_max, SECOND_MS);
        }
    }

    fn admit(&self, now: Now, user: &User, shard_id: u32) -> Result<(), IdentifyFault> {
        self.state().admit(now, user, shard_id)
    }

    fn session_restored(&self, user: &User) {
        let state = &mut *self.state();
        state.accounts.entry(user.id).or_default().sessions_count += 1;
        state.changed(user.id);
    }

    fn session_ended(&self, user: &User) {
        self.state().end_session(user.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now::new(ms, 0)
    }

    #[test]
    fn bots_identify_so_often_per_interval_and_day() {
        let gate = IdentifyGate::new(IdentifyLimits {
            max_concurrency: 2,
            interval_ms: 5_000,
            bot_identifies_per_day: 3,
            user_sessions_max: 1,
            per_second_max: 0,
        });
        let bot = User { bot: true, ..User::new(UserId::new(1), "b") };
        let other = User { bot: true, ..User::new(UserId::new(2), "c") };
        assert_eq!(gate.admit(at(0), &bot, 0), Ok(()));
        assert_eq!(gate.admit(at(1), &bot, 0), Ok(()));
        assert_eq!(gate.admit(at(2), &bot, 0), Err(IdentifyFault::BotRate));
        assert_eq!(gate.admit(at(2), &other, 0), Ok(()));
        assert_eq!(gate.session_start_limit(at(2), bot.id).remaining, 1);
        assert_eq!(gate.admit(at(5_001), &bot, 0), Ok(()));
        assert_eq!(gate.admit(at(20_000), &bot, 0), Err(IdentifyFault::BotDay));
        assert_eq!(gate.admit(at(DAY_MS), &bot, 0), Ok(()));
    }

    #[test]
    fn so_many_are_looked_at_per_second() {
        let gate = IdentifyGate::new(IdentifyLimits { per_second_max: 10, ..Default::default() });
        let looked_at =
            |ms, tries| (0..tries).filter(|n| gate.may_begin(at(ms), None, &format!("{ms} {n}")).is_ok()).count();
        assert_eq!(looked_at(0, 100), 10);
        assert_eq!(looked_at(99, 100), 0);
        assert_eq!(looked_at(100, 100), 1);
        assert_eq!(looked_at(600, 100), 5);
        assert_eq!(looked_at(60_000, 100), 10, "no more than a second's worth is saved up");
        let gate = IdentifyGate::new(IdentifyLimits::default());
        assert!((0..10_000).all(|n| gate.may_begin(at(0), Some([192, 0, 2, 1].into()), &n.to_string()).is_ok()));
    }

    #[test]
    fn s8_one_token_does_not_use_up_the_node() {
        let limits =
            IdentifyLimits { max_concurrency: 4, user_sessions_max: 5, per_second_max: 100, ..Default::default() };
        let gate = IdentifyGate::new(limits);
        let started =
            |ms, tries, token: &str| (0..tries).filter(|_| gate.may_begin(at(ms), None, token).is_ok()).count();
        assert_eq!(started(0, 1_000, "storm"), 8, "twice what a bot may start per interval");
        assert_eq!(started(0, 100, "other"), 8);
        let others: usize = (0..200).map(|n| started(0, 1, &format!("account {n}"))).sum();
        assert_eq!(others, 100 - 16, "the refused ones of the storm did not count");
        assert_eq!(started(2_500, 1_000, "storm"), 4);
    }

    #[test]
    fn s8_one_address_has_an_eighth() {
        let gate = IdentifyGate::new(IdentifyLimits { per_second_max: 80, ..Default::default() });
        let started = |address: [u8; 4], tries: usize| {
            (0..tries)
                .filter(|n| gate.may_begin(at(0), Some(address.into()), &format!("{address:?} {n}")).is_ok())
                .count()
        };
        assert_eq!(started([192, 0, 2, 1], 500), 10, "invented tokens do not help");
        assert_eq!(started([192, 0, 2, 2], 500), 10);
        assert_eq!(
            (0..100).filter(|n| gate.may_begin(at(0), None, &n.to_string()).is_ok()).count(),
            60,
            "the rest is for others"
        );
    }

    #[test]
    fn s8_what_is_refused_is_refunded_within_a_limit() {
        let gate = IdentifyGate::new(IdentifyLimits { per_second_max: 50, ..Default::default() });
        let started = |n: u32| gate.may_begin(at(0), None, &format!("invented {n}")).is_ok();
        // Checked one after the other, and refused.
        let refused = (0..500)
            .filter(|n| {
                started(*n) && {
                    gate.refund(at(0));
                    true
                }
            })
            .count();
        assert_eq!(refused, 100, "as many as sessions that start");
        assert!(!started(1_000));
        assert!(gate.may_begin(at(20), None, "later").is_ok());
        gate.refund(at(60_000));
        assert_eq!(
            (0..200).filter(|n| gate.may_begin(at(60_000), None, &n.to_string()).is_ok()).count(),
            50,
            "never more than full"
        );
    }

    #[test]
    fn a_shard_identifies_once_per_interval() {
        let gate = IdentifyGate::new(IdentifyLimits { max_concurrency: 16, ..Default::default() });
        let bot = User { bot: true, ..User::new(UserId::new(1), "b") };
        assert_eq!(gate.admit(at(0), &bot, 1), Ok(()));
        assert_eq!(gate.admit(at(1), &bot, 1), Err(IdentifyFault::BotRate));
        assert_eq!(gate.admit(at(1), &bot, 2), Ok(()));
        assert_eq!(gate.admit(at(5_000), &bot, 1), Ok(()));
    }

    #[test]
    fn a_reservation_counts_until_it_is_given_back() {
        let gate = IdentifyGate::new(IdentifyLimits { max_concurrency: 2, ..Default::default() });
        gate.follow_changes();
        let bot = User { bot: true, ..User::new(UserId::new(1), "b") };
        let first = gate.reserve(at(0), &bot, 0).unwrap();
        assert_eq!((first.usage.sessions_count, first.usage.identifies_today), (1, 1));
        let second = gate.reserve(at(10), &bot, 0).unwrap();
        assert!(second.stamp > first.stamp);
        assert_eq!(second.usage.keys, [(0, 4_990), (0, 5_000)]);
        assert_eq!(gate.reserve(at(10), &bot, 0), Err(IdentifyFault::BotRate));
        assert!(gate.take_changed(9).is_empty(), "the request contains the usage");
        gate.align_day(at(10), bot.id, 60_000);
        gate.give_back(&bot, 0);
        assert_eq!(gate.take_changed(9), [bot.id]);
        let (stamp, usages) = gate.usages(at(11), &[bot.id, UserId::new(5)]);
        let left = AccountUsage { sessions_count: 1, identifies_today: 1, day_left_ms: 59_999, keys: vec![(0, 4_989)] };
        assert!(stamp > second.stamp);
        assert_eq!(usages[0].1, left);
        assert_eq!(usages[1].1.sessions_count, 0);
        gate.give_back(&bot, 0);
        assert!(gate.accounts().is_empty());
    }

    #[test]
    fn users_have_so_many_sessions_and_are_forgotten_without() {
        let gate = IdentifyGate::new(IdentifyLimits { user_sessions_max: 2, ..Default::default() });
        let user = User::new(UserId::new(1), "u");
        assert_eq!(gate.admit(at(0), &user, 0), Ok(()));
        assert_eq!(gate.admit(at(0), &user, 0), Ok(()));
        assert_eq!(gate.admit(at(0), &user, 0), Err(IdentifyFault::Sessions));
        gate.session_ended(&user);
        assert_eq!(gate.admit(at(0), &user, 0), Ok(()));
        gate.session_ended(&user);
        gate.session_ended(&user);
        assert!(gate.state().accounts.is_empty());
    }
}
