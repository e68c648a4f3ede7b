//! Balance: measures this node's load, and moves guilds to less loaded nodes.
//!
//! Owns        the load in this node's record, the measuring of its guilds, and the driver of
//!             `guildhall_cluster::Balancer`.
//! Invariants  V1 guilds are measured only when their node is loaded: it visits each guild in memory twice.
//! Limits      `BalanceOptions`; an answer has `GUILDS_MEASURED_MAX` guilds. Notes of guilds that arrived are for
//!             `rest_ms`, `ARRIVED_MAX` at most: the earliest may move again sooner.
//! Not here    which guild moves (`guildhall_cluster::Balancer`), the hand-off (`handoff`).
//! Spec        docs/cluster.md "Balance", ADR 45.

use super::{Membership, MoveReason, PeerQuestion};
use guildhall_cluster::{
    BalanceLimits, BalanceMove, Balancer, GUILDS_MEASURED_MAX, GuildLoad, GuildLoads, NodeLoad, NodeNumber,
};
use guildhall_model::GuildId;
use serde::{Deserialize, Serialize};
use std::{
    cmp::Reverse,
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

/// Number of intervals that a report averages.
const AVERAGED: usize = 4;
/// Guilds of which the time of arrival is remembered.
const ARRIVED_MAX: usize = 1_024;
/// How long a move for load may take: the state of ten million members crosses the bus meanwhile.
const MOVE_MAX: Duration = Duration::from_secs(600);

/// How guilds move for load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceOptions {
    /// Whether this node's guilds may move for load, and others may come.
    pub is_on: bool,
    pub limits: BalanceLimits,
    /// Interval of reports and decisions. A report is the average of four.
    pub look_every: Duration,
    /// Time over which guilds are measured.
    pub measure_for: Duration,
}

impl Default for BalanceOptions {
    fn default() -> Self {
        let (look_every, measure_for) = (Duration::from_secs(15), Duration::from_secs(10));
        Self { is_on: true, limits: BalanceLimits::default(), look_every, measure_for }
    }
}

/// Memory in use, and its limit, in bytes. None: not known.
type ReadMemory = Box<dyn Fn() -> Option<(u64, u64)> + Send + Sync>;

/// State of the balance on this node.
pub(super) struct Balance {
    options: BalanceOptions,
    memory: OnceLock<Arc<ReadMemory>>,
    /// Guilds that others handed over, in order of arrival.
    arrived: Mutex<VecDeque<(GuildId, Instant)>>,
}

/// Measures the guilds of a node.
#[derive(Debug, Serialize, Deserialize)]
struct MeasureQuestion;

impl PeerQuestion for MeasureQuestion {
    const KIND: &'static str = "measure_guilds";
    type Answer = GuildLoads;
}

/// Has a node move one of its guilds for load.
#[derive(Debug, Serialize, Deserialize)]
struct BalanceQuestion {
    guild_id: GuildId,
    to: NodeNumber,
    reason: String,
}

impl PeerQuestion for BalanceQuestion {
    const KIND: &'static str = "balance";
    type Answer = Result<(), String>;
}

/// Busy time of a worker and its guilds until a moment.
pub(crate) struct BusyTimes {
    pub(crate) at: Instant,
    pub(crate) worker_ns: u64,
    pub(crate) guilds_ns: HashMap<GuildId, u64>,
}

/// Loads of a worker and its guilds since a moment.
pub(crate) struct WorkerLoads {
    pub(crate) busy: u16,
    pub(crate) guilds: Vec<GuildLoad>,
}

/// A share of a time, in thousandths.
pub(crate) fn share(busy_ns: u64, elapsed: Duration) -> u16 {
    (u128::from(busy_ns) * 1_000 / elapsed.as_nanos().max(1)).min(1_000) as u16
}

impl Balance {
    pub(super) fn new(options: BalanceOptions) -> Self {
        Self { options, memory: OnceLock::new(), arrived: Mutex::default() }
    }

    fn arrived(&self) -> MutexGuard<'_, VecDeque<(GuildId, Instant)>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another node has handed over a guild.
    pub(super) fn note_arrival(&self, guild_id: GuildId) {
        let mut arrived = self.arrived();
        arrived.retain(|(known, _)| *known != guild_id);
        arrived.push_back((guild_id, Instant::now()));
        if arrived.len() > ARRIVED_MAX {
            arrived.pop_front();
        }
    }

    fn arrived_ms(&self, guild_id: GuildId) -> Option<u64> {
        let arrived = self.arrived();
        let (_, at) = arrived.iter().find(|(known, _)| *known == guild_id)?;
        Some(at.elapsed().as_millis() as u64)
    }

    async fn memory(&self) -> (u64, u64) {
        let Some(read) = self.memory.get().cloned() else { return (0, 0) };
        tokio::task::spawn_blocking(move || read()).await.ok().flatten().unwrap_or((0, 0))
    }
}

impl Membership {
    /// Sets what reads the memory in use and its limit. Once.
    pub fn on_memory(&self, read: impl Fn() -> Option<(u64, u64)> + Send + Sync + 'static) {
        let is_first = self.balance.memory.set(Arc::new(Box::new(read))).is_ok();
        assert!(is_first, "a membership belongs to one node");
    }

    fn busy_ns(&self) -> Vec<u64> {
        self.parts
            .get()
            .map(|parts| parts.accounts.iter().map(|account| account.busy_ns()).collect())
            .unwrap_or_default()
    }

    /// Busy times of the guilds' workers and guilds now, and again after `measure_for`: the loads between.
    async fn measure_guilds(&self) -> GuildLoads {
        let Some(parts) = self.parts.get() else { return GuildLoads::default() };
        let looks: Vec<_> = parts.mailboxes.iter().map(|mailbox| mailbox.look(|guilds| guilds.busy_times())).collect();
        let mut before = Vec::new();
        for look in looks {
            before.push(look.await.ok());
        }
        tokio::time::sleep(self.balance.options.measure_for).await;
        let looks = parts.mailboxes.iter().zip(before).map(|(mailbox, before)| {
            Some(before?).map(|before| mailbox.look(move |guilds| guilds.loads_since(&before, GUILDS_MEASURED_MAX / 2)))
        });
        let (mut workers, mut guilds) = (Vec::new(), Vec::new());
        for look in looks.collect::<Vec<_>>() {
            let loads = match look {
                Some(look) => look.await.ok(),
                None => None,
            };
            // A worker that does not answer counts as idle: its guilds stay.
            workers.push(loads.as_ref().map_or(0, |loads| loads.busy));
            guilds.extend(loads.into_iter().flat_map(|loads| loads.guilds));
        }
        guilds.retain(|guild: &GuildLoad| self.lock().is_here(guild.guild_id));
        for guild in &mut guilds {
            guild.arrived_ms = self.balance.arrived_ms(guild.guild_id);
        }
        GuildLoads { workers, guilds: largest(guilds, GUILDS_MEASURED_MAX / 2) }
    }

    /// Moves a guild of this node for load.
    async fn move_for_load(self: &Arc<Self>, guild_id: GuildId, to: NodeNumber, reason: String) -> Result<(), String> {
        if !self.balance.options.is_on {
            return Err("cluster.balance is off there".to_owned());
        }
        // The order may be older than a hand-off that brought the guild here.
        if self.balance.arrived_ms(guild_id).is_some_and(|ms| ms < self.balance.options.limits.rest_ms) {
            return Err("it came by a hand-off a short time ago".to_owned());
        }
        tracing::info!(%guild_id, to = to.0, reason, "a guild moves for load");
        let moved = self.move_guild(guild_id, to, MoveReason::Load(reason)).await;
        moved.map(drop).map_err(|fault| fault.to_string())
    }

    /// Answers the node that decides.
    pub(super) fn answer_balance(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.on_question(move |MeasureQuestion| {
            let membership = weak.upgrade();
            async move { Some(membership?.measure_guilds().await) }
        });
        let weak = Arc::downgrade(self);
        self.on_question(move |BalanceQuestion { guild_id, to, reason }| {
            let membership = weak.upgrade();
            async move { Some(membership?.move_for_load(guild_id, to, reason).await) }
        });
    }

    async fn measured(&self, number: NodeNumber) -> Option<GuildLoads> {
        if number == self.number {
            return Some(self.measure_guilds().await);
        }
        let patience = self.balance.options.measure_for + super::ask::ANSWER_MAX;
        self.ask_within(number, &MeasureQuestion, patience).await
    }

    /// Has the owner of the guild move it. False: it stays.
    async fn carry_out_move(self: &Arc<Self>, chosen: BalanceMove) -> bool {
        let BalanceMove { guild_id, from, to, .. } = chosen;
        let reason = chosen.to_string();
        let moved = match from == self.number {
            true => Some(self.move_for_load(guild_id, to, reason).await),
            false => self.ask_within(from, &BalanceQuestion { guild_id, to, reason }, MOVE_MAX).await,
        };
        match moved {
            Some(Ok(())) => true,
            Some(Err(error)) => {
                tracing::warn!(%guild_id, from = from.0, to = to.0, error, "a guild was not moved for load");
                false
            }
            None => {
                tracing::warn!(%guild_id, from = from.0, "the owner of a guild does not answer: it may move for load");
                false
            }
        }
    }
}

/// The guilds that take most time, and of the others those that take most memory: `max` each.
pub(crate) fn largest(mut guilds: Vec<GuildLoad>, max: usize) -> Vec<GuildLoad> {
    guilds.sort_unstable_by_key(|guild| (Reverse(guild.busy), guild.guild_id));
    let mut others = guilds.split_off(guilds.len().min(max));
    others.sort_unstable_by_key(|guild| (Reverse(guild.bytes), guild.guild_id));
    others.truncate(max);
    guilds.extend(others);
    guilds
}

/// Puts this node's load into its record, until the node leaves.
pub(super) async fn report(membership: Arc<Membership>) {
    let options = membership.balance.options;
    let mut marks = VecDeque::from([(Instant::now(), membership.busy_ns())]);
    loop {
        tokio::time::sleep(options.look_every).await;
        if membership.has_left() {
            return;
        }
        let (now, busy_ns) = (Instant::now(), membership.busy_ns());
        let Some((since, before)) = marks.front() else { return };
        let elapsed = now.duration_since(*since);
        let workers = busy_ns.iter().zip(before).map(|(now, before)| share(now.wrapping_sub(*before), elapsed));
        let workers: Vec<u16> = workers.collect();
        let (memory_bytes, memory_bytes_max) = membership.balance.memory().await;
        // Without accounts busy times are 0.
        let takes_part = options.is_on && guildhall_accounting::is_on();
        membership.lease.set_load(NodeLoad { workers, memory_bytes, memory_bytes_max, takes_part });
        marks.push_back((now, busy_ns));
        if marks.len() > AVERAGED {
            marks.pop_front();
        }
    }
}

/// Decides for all nodes while this one has to, until it leaves.
pub(super) async fn decide(membership: Arc<Membership>) {
    let options = membership.balance.options;
    let now = || membership.clock.now().instant;
    let mut balancer = Balancer::new(now(), options.limits);
    while options.is_on && !membership.has_left() {
        tokio::time::sleep(options.look_every).await;
        let Some(from) = balancer.look(now(), membership.number, &membership.members()) else { continue };
        let Some(measured) = membership.measured(from).await else { continue };
        let Some(chosen) = balancer.choose(now(), &membership.members(), from, &measured) else {
            let busiest = measured.workers.iter().max().copied().unwrap_or(0);
            tracing::info!(
                node = from.0,
                busiest_worker_percent = busiest / 10,
                "a node is loaded, and the balance would not improve if one of its guilds moved"
            );
            continue;
        };
        let has_moved = membership.carry_out_move(chosen).await;
        balancer.ended(now(), chosen.guild_id, has_moved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(id: u64, busy: u16, bytes: u64) -> GuildLoad {
        GuildLoad { guild_id: GuildId::new(id), busy, bytes, arrived_ms: None }
    }

    #[test]
    fn shares_are_thousandths() {
        assert_eq!(share(710_000_000, Duration::from_secs(1)), 710);
        assert_eq!((share(5, Duration::ZERO), share(2_000, Duration::from_nanos(1_000))), (1_000, 1_000));
    }

    #[test]
    fn a_report_has_those_with_most_time_and_most_memory() {
        let guilds = (1..=20).map(|n| load(n, n as u16, 100 - n)).collect();
        let ids: Vec<u64> = largest(guilds, 3).iter().map(|guild| guild.guild_id.get()).collect();
        assert_eq!(ids, [20, 19, 18, 1, 2, 3]);
    }

    #[test]
    fn arrivals_are_remembered_and_bounded() {
        let balance = Balance::new(BalanceOptions::default());
        assert_eq!(balance.arrived_ms(GuildId::new(1)), None);
        for n in 0..=ARRIVED_MAX as u64 {
            balance.note_arrival(GuildId::new(n));
            balance.note_arrival(GuildId::new(1));
        }
        assert!(balance.arrived_ms(GuildId::new(1)).is_some());
        assert_eq!(balance.arrived().len(), ARRIVED_MAX);
        assert_eq!(balance.arrived_ms(GuildId::new(0)), None);
    }
}
