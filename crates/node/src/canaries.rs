//! Canaries of one guild: rare events of the node itself to the canary session that each relay has.
//!
//! Owns        which relays have not returned a canary, and since when.
//! Doors       `begin` when a relay subscribes, `take_round` at a timer, `returned` for an answer.
//! Invariants  N1 a relay that is subscribed and returns nothing for `OVERDUE_ROUNDS` intervals is a ghost, until it
//!             returns one, restarts or unsubscribes. N2 the node's count of ghosts falls again when the guild is
//!             unloaded. (tests)
//! Limits      one canary per relay and interval, one entry per relay. Guilds below the size are looked at again after
//!             `SMALL_ROUNDS` intervals.
//! Not here    the stream to the relay (`guild_host`); its latency (`guildhall_accounting::CanaryAccount`).

use guildhall_guild_protocol::{Canary, RelayId};
use guildhall_model::GuildId;
use guildhall_stdx::Instant;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{SystemTime, UNIX_EPOCH},
};

/// Intervals without an answer after which a relay is a ghost.
const OVERDUE_ROUNDS: u64 = 3;
/// A node may have ten thousands of small guilds.
const SMALL_ROUNDS: u64 = 30;

/// Which guilds have canaries.
#[derive(Clone, Copy, Debug)]
pub struct CanaryLimits {
    /// Members from which on a guild has them.
    pub members_min: u64,
    /// Time between two canaries of a relay. 0: there are none.
    pub interval_ms: u64,
}

impl Default for CanaryLimits {
    fn default() -> Self {
        Self { members_min: 1_000, interval_ms: 10_000 }
    }
}

/// Canaries of the node.
#[derive(Debug, Default)]
pub(crate) struct CanaryCounters {
    sent: AtomicU64,
    returned: AtomicU64,
    ghosts: AtomicU64,
}

/// Values of the node's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CanaryCounts {
    pub sent: u64,
    pub returned: u64,
    /// Relays that do not deliver now.
    pub ghosts: u64,
}

impl CanaryCounters {
    pub(crate) fn counts(&self) -> CanaryCounts {
        let Self { sent, returned, ghosts } = self;
        CanaryCounts { sent: sent.load(Relaxed), returned: returned.load(Relaxed), ghosts: ghosts.load(Relaxed) }
    }
}

/// The oldest canary that a relay has not returned.
#[derive(Debug)]
struct Waiting {
    number: u32,
    since: Instant,
    is_ghost: bool,
}

#[derive(Debug)]
pub(crate) struct Canaries {
    guild_id: GuildId,
    counters: Arc<CanaryCounters>,
    number: u32,
    next_at: Option<Instant>,
    waiting: BTreeMap<RelayId, Waiting>,
}

impl Canaries {
    pub(crate) fn new(guild_id: GuildId, counters: Arc<CanaryCounters>) -> Self {
        Self { guild_id, counters, number: 0, next_at: None, waiting: BTreeMap::new() }
    }

    /// When `take_round` has something to do.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.next_at
    }

    /// A relay subscribed or unsubscribed: its earlier canaries are forgotten.
    pub(crate) fn begin(&mut self, limits: CanaryLimits, relay: RelayId, now: Instant) {
        self.forget(relay);
        if limits.interval_ms > 0 {
            self.next_at.get_or_insert(now.after_ms(limits.interval_ms));
        }
    }

    /// The canary for each relay of `subscribed`, if it is time for one.
    pub(crate) fn take_round(
        &mut self,
        limits: CanaryLimits,
        now: Instant,
        members_count: u64,
        subscribed: &[RelayId],
    ) -> Option<Canary> {
        self.next_at.filter(|at| *at <= now)?;
        let gone: Vec<RelayId> = self.waiting.keys().copied().filter(|relay| !subscribed.contains(relay)).collect();
        for relay in gone {
            self.forget(relay);
        }
        if subscribed.is_empty() {
            self.next_at = None;
            return None;
        }
        let is_small = members_count < limits.members_min;
        let rounds = if is_small && self.waiting.is_empty() { SMALL_ROUNDS } else { 1 };
        self.next_at = Some(now.after_ms(limits.interval_ms * rounds));
        self.find_ghosts(limits, now);
        if is_small {
            return None;
        }
        self.number = self.number.wrapping_add(1);
        for relay in subscribed {
            let waiting = Waiting { number: self.number, since: now, is_ghost: false };
            self.waiting.entry(*relay).or_insert(waiting);
        }
        self.counters.sent.fetch_add(subscribed.len() as u64, Relaxed);
        let created_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let created_at_us = u64::try_from(created_at.as_micros()).unwrap_or(u64::MAX);
        Some(Canary { number: self.number, created_at_us, members_count })
    }

    fn find_ghosts(&mut self, limits: CanaryLimits, now: Instant) {
        for (relay, waiting) in self.waiting.iter_mut().filter(|(_, waiting)| !waiting.is_ghost) {
            let overdue_ms = now.ms_since(waiting.since);
            if overdue_ms < limits.interval_ms * OVERDUE_ROUNDS {
                continue;
            }
            waiting.is_ghost = true;
            self.counters.ghosts.fetch_add(1, Relaxed);
            tracing::error!(
                guild_id = %self.guild_id,
                partition = relay.partition.0,
                relay = relay.index,
                overdue_ms,
                "a relay does not deliver: it has not returned its canaries"
            );
        }
    }

    /// A relay returned this canary.
    pub(crate) fn returned(&mut self, relay: RelayId, number: u32) {
        self.counters.returned.fetch_add(1, Relaxed);
        if self.waiting.get(&relay).is_some_and(|waiting| number >= waiting.number) && self.forget(relay) {
            let (partition, index) = (relay.partition.0, relay.index);
            tracing::info!(guild_id = %self.guild_id, partition, relay = index, "the relay delivers again");
        }
    }

    /// Whether the relay was a ghost.
    fn forget(&mut self, relay: RelayId) -> bool {
        let was_ghost = self.waiting.remove(&relay).is_some_and(|waiting| waiting.is_ghost);
        if was_ghost {
            self.counters.ghosts.fetch_sub(1, Relaxed);
        }
        was_ghost
    }
}

impl Drop for Canaries {
    fn drop(&mut self) {
        let ghosts = self.waiting.values().filter(|waiting| waiting.is_ghost).count();
        self.counters.ghosts.fetch_sub(ghosts as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_guild_protocol::PartitionId;

    const LIMITS: CanaryLimits = CanaryLimits { members_min: 100, interval_ms: 1_000 };

    fn relay(partition: u16) -> RelayId {
        RelayId::first(PartitionId(partition))
    }

    struct World {
        canaries: Canaries,
        counters: Arc<CanaryCounters>,
        now: Instant,
        subscribed: Vec<RelayId>,
    }

    impl World {
        fn new() -> Self {
            let counters = Arc::new(CanaryCounters::default());
            let canaries = Canaries::new(GuildId::new(1), counters.clone());
            let mut world = Self { canaries, counters, now: Instant::default(), subscribed: Vec::new() };
            (0..2).for_each(|partition| world.subscribe(relay(partition)));
            world
        }

        fn subscribe(&mut self, relay: RelayId) {
            self.canaries.begin(LIMITS, relay, self.now);
            if !self.subscribed.contains(&relay) {
                self.subscribed.push(relay);
            }
        }

        fn second(&mut self, members_count: u64) -> Option<u32> {
            self.now = self.now.after_ms(1_000);
            let canary = self.canaries.take_round(LIMITS, self.now, members_count, &self.subscribed);
            canary.map(|canary| canary.number)
        }

        fn ghosts(&self) -> u64 {
            self.counters.counts().ghosts
        }
    }

    #[test]
    fn n1_a_relay_that_returns_nothing_is_a_ghost_until_it_does() {
        let mut world = World::new();
        for second in 1..=6 {
            assert_eq!(world.second(100), Some(second));
            world.canaries.returned(relay(0), second);
            assert_eq!(world.ghosts(), u64::from(second >= 4), "{second}");
        }
        assert_eq!(world.counters.counts(), CanaryCounts { sent: 12, returned: 6, ghosts: 1 });
        world.canaries.returned(relay(1), 2);
        assert_eq!(world.ghosts(), 0);
        world.second(100);
        assert_eq!(world.ghosts(), 0, "late is not lost");
    }

    #[test]
    fn n1_a_relay_that_restarts_or_leaves_is_no_ghost() {
        let mut world = World::new();
        for _ in 0..6 {
            world.second(100);
        }
        assert_eq!(world.ghosts(), 2);
        world.subscribe(relay(0));
        assert_eq!(world.ghosts(), 1);
        world.subscribed.clear();
        assert_eq!(world.second(100), None);
        assert_eq!((world.ghosts(), world.canaries.next_at()), (0, None));
    }

    #[test]
    fn n2_an_unloaded_guild_has_no_ghosts() {
        let mut world = World::new();
        for _ in 0..6 {
            world.second(100);
        }
        let World { canaries, counters, .. } = world;
        drop(canaries);
        assert_eq!(counters.counts().ghosts, 0);
    }

    #[test]
    fn small_guilds_have_none_and_are_rarely_looked_at() {
        let mut world = World::new();
        assert_eq!(world.second(99), None);
        assert_eq!(world.canaries.next_at(), Some(world.now.after_ms(30_000)));
        world.now = world.now.after_ms(30_000);
        assert_eq!(world.second(100), Some(1));
        let mut off = Canaries::new(GuildId::new(1), Arc::default());
        off.begin(CanaryLimits { interval_ms: 0, ..LIMITS }, relay(0), Instant::default());
        assert_eq!(off.next_at(), None);
    }
}
