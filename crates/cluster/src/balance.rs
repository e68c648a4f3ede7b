//! Balance: which guild moves to another node, by measured load.
//!
//! Owns        the thresholds, the budget of moves, and when the next move may be chosen.
//! Doors       `Balancer::look` names the node whose guilds have to be measured, `choose` the guild and its next owner.
//!             The driver moves the guild, and calls `ended`.
//! Invariants  B1 one node decides for all: the one with the smallest number that takes part. It chooses one move at a
//!             time, and `moves_per_hour_max`. B2 a move leaves the worker that gets the guild less busy, by `margin`,
//!             than the worker was that had it: with constant loads moves end, and noise below the margin moves no
//!             guild back. B3 a guild that was handed over stays for `rest_ms`. B4 a move for time does not fill the
//!             memory of the other node, and a move for memory does not fill its worker. (tests
//!             `cluster/tests/it/balance.rs`)
//! Limits      `BalanceLimits`. A report has `GUILDS_MEASURED_MAX` guilds.
//! Not here    measuring, and the hand-off (`guildhall-node`).

use crate::{
    node::{NodeLoad, NodeNumber, NodeRecord, NodeState},
    placement::worker_of,
};
use guildhall_model::GuildId;
use guildhall_stdx::Instant;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
};

/// Guilds of a report of one node.
pub const GUILDS_MEASURED_MAX: usize = 32;
const HOUR_MS: u64 = 3_600_000;
/// A worker that gets a guild may become this busy, in thousandths, even if the other one was less busy: a larger
/// `cluster.weight` may want that.
const FULL: f64 = 700.0;

/// Thresholds and times. Loads are in thousandths: of a worker's time, or of a node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceLimits {
    /// Guilds of a worker move if it is busy for at least this share of its time.
    pub busy_min: u16,
    /// Guilds of a node move if it uses at least this share of its memory.
    pub memory_min: u16,
    /// Least difference between two workers, or two nodes, at which a guild moves.
    pub gap_min: u16,
    /// A worker or node that gets a guild stays at least this far below the one that had it.
    pub margin: u16,
    /// Least share of a guild that moves.
    pub guild_min: u16,
    /// Times in a row that a node has to be seen so loaded.
    pub looks_min: u32,
    pub moves_per_hour_max: usize,
    /// Pause after a move, so that reports show its effect.
    pub settle_ms: u64,
    /// A guild that was handed over stays for this time.
    pub rest_ms: u64,
    /// A node without a guild that may move, and a guild that could not be moved, are left alone for this time.
    pub retry_ms: u64,
}

impl Default for BalanceLimits {
    fn default() -> Self {
        Self {
            // Below it inputs hardly wait, so a move gains nothing.
            busy_min: 500,
            // A fifth is left for what arrives meanwhile.
            memory_min: 800,
            // Twice the margin: loads vary by a tenth from one minute to the next.
            gap_min: 200,
            margin: 100,
            // Smaller ones cost more than they free.
            guild_min: 10,
            looks_min: 3,
            // One in five minutes.
            moves_per_hour_max: 12,
            // Twice the time over which reports are averaged.
            settle_ms: 120_000,
            rest_ms: HOUR_MS,
            retry_ms: 600_000,
        }
    }
}

/// Load of one guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuildLoad {
    pub guild_id: GuildId,
    /// Share of its worker's time, in thousandths.
    pub busy: u16,
    /// Estimated bytes in memory.
    pub bytes: u64,
    /// Milliseconds since another node handed it over, if one did.
    pub arrived_ms: Option<u64>,
}

/// Loads of a node's guilds: those that take most time and most memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuildLoads {
    /// As in `NodeLoad`, over the time in which the guilds were measured.
    pub workers: Vec<u16>,
    /// At most `GUILDS_MEASURED_MAX`.
    pub guilds: Vec<GuildLoad>,
}

/// Why a guild moves: loads in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalanceReason {
    /// Shares of the workers' time, at the old owner and the next.
    Time { here: u16, there: u16, guild: u16 },
    /// Shares of the nodes' memory.
    Memory { here: u16, there: u16, bytes: u64 },
}

/// A move that improves the balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceMove {
    pub guild_id: GuildId,
    pub from: NodeNumber,
    pub to: NodeNumber,
    pub reason: BalanceReason,
}

impl fmt::Display for BalanceMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, .. } = self;
        let percent = |share: u16| (share + 5) / 10;
        match self.reason {
            BalanceReason::Time { here, there, guild } => write!(
                f,
                "its worker is busy {} % at node {from} and {} % at node {to}; the guild takes {} %",
                percent(here),
                percent(there),
                percent(guild)
            ),
            BalanceReason::Memory { here, there, bytes } => write!(
                f,
                "node {from} uses {} % of its memory and node {to} {} %; the guild has {} MB",
                percent(here),
                percent(there),
                bytes / 1_000_000
            ),
        }
    }
}

/// A node that takes part.
#[derive(Clone, Copy)]
struct Place<'a> {
    number: NodeNumber,
    weight: u32,
    load: &'a NodeLoad,
}

impl Place<'_> {
    /// Workers per weight: a worker's time counts for more at a node that has more of them for its share.
    fn scale(&self) -> f64 {
        self.load.workers.len() as f64 / f64::from(self.weight)
    }

    /// Factor by which the load of one of `other`'s workers compares with one of this node.
    fn measure(&self, other: &Self) -> f64 {
        other.scale() / self.scale()
    }

    fn busiest(&self) -> u16 {
        self.load.workers.iter().copied().max().unwrap_or(0)
    }

    fn idlest(&self) -> u16 {
        self.load.workers.iter().copied().min().unwrap_or(0)
    }

    fn worker_of(&self, guild_id: GuildId) -> usize {
        worker_of(guild_id, self.load.workers.len())
    }

    /// Share of the memory with `bytes` more, in thousandths. None: it is not known.
    fn memory_with(&self, bytes: u64) -> Option<f64> {
        let NodeLoad { memory_bytes, memory_bytes_max, .. } = *self.load;
        (memory_bytes_max > 0).then(|| (memory_bytes.saturating_add(bytes)) as f64 * 1_000.0 / memory_bytes_max as f64)
    }
}

fn places(nodes: &[(NodeNumber, NodeRecord)]) -> Vec<Place<'_>> {
    let place = |(number, record): &'_ (NodeNumber, NodeRecord)| (*number, record.weight);
    let with_load = nodes.iter().filter(|(_, record)| record.state == NodeState::Active && record.weight > 0);
    let with_load = with_load.filter_map(|node| Some((place(node), node.1.load.as_ref()?)));
    let taking_part = with_load.filter(|(_, load)| load.takes_part && !load.workers.is_empty());
    taking_part.map(|((number, weight), load)| Place { number, weight, load }).collect()
}

/// Decides for all nodes while this one has the smallest number.
#[derive(Debug)]
pub struct Balancer {
    limits: BalanceLimits,
    /// Nodes that are loaded, and how often in a row they were seen so.
    loaded: BTreeMap<NodeNumber, u32>,
    /// Nodes without a guild that may move, and until when.
    stuck: BTreeMap<NodeNumber, Instant>,
    /// Guilds that could not be moved, and until when they are left alone.
    failed: BTreeMap<GuildId, Instant>,
    /// Times of the last hour's moves.
    moves: VecDeque<Instant>,
    rest_until: Instant,
    is_moving: bool,
}

impl Balancer {
    /// A balancer of a node that starts now: it first waits until reports are there.
    #[must_use]
    pub fn new(now: Instant, limits: BalanceLimits) -> Self {
        Self {
            limits,
            loaded: BTreeMap::new(),
            stuck: BTreeMap::new(),
            failed: BTreeMap::new(),
            moves: VecDeque::new(),
            rest_until: now.after_ms(limits.settle_ms),
            is_moving: false,
        }
    }

    /// Looks at the loads of all nodes. Returns the one whose guilds have to be measured, for `choose`. Call it at a
    /// constant interval.
    pub fn look(&mut self, now: Instant, own: NodeNumber, nodes: &[(NodeNumber, NodeRecord)]) -> Option<NodeNumber> {
        let places = places(nodes);
        if places.iter().map(|place| place.number).min() != Some(own) {
            // B1. The other one's last move may not show yet when this node has to decide.
            self.rest_until = now.after_ms(self.limits.settle_ms);
            self.loaded.clear();
            return None;
        }
        let loaded = places.iter().filter(|place| self.is_loaded(place, &places));
        self.loaded =
            loaded.map(|place| (place.number, self.loaded.get(&place.number).map_or(1, |count| count + 1))).collect();
        self.stuck.retain(|_, until| *until > now);
        self.failed.retain(|_, until| *until > now);
        while self.moves.front().is_some_and(|at| now.ms_since(*at) >= HOUR_MS) {
            self.moves.pop_front();
        }
        if self.is_moving || now < self.rest_until || self.moves.len() >= self.limits.moves_per_hour_max {
            return None;
        }
        let is_due = |place: &&Place<'_>| {
            let seen_count = self.loaded.get(&place.number).copied().unwrap_or(0);
            seen_count >= self.limits.looks_min && !self.stuck.contains_key(&place.number)
        };
        let due = places.iter().filter(is_due);
        due.max_by(|a, b| self.pressure(a).total_cmp(&self.pressure(b)).then(b.number.cmp(&a.number)))
            .map(|place| place.number)
    }

    /// Chooses a guild of `from`, which was measured, and its next owner. The driver moves it, then calls `ended`.
    /// None: no guild of the node may move, or a move would not help.
    pub fn choose(
        &mut self,
        now: Instant,
        nodes: &[(NodeNumber, NodeRecord)],
        from: NodeNumber,
        measured: &GuildLoads,
    ) -> Option<BalanceMove> {
        let places = places(nodes);
        let here = places.iter().find(|place| place.number == from)?;
        let mut best: Option<((bool, f64), BalanceMove)> = None;
        let guilds = measured.guilds.iter().take(GUILDS_MEASURED_MAX).filter(|guild| self.may_move(guild));
        for guild in guilds {
            for there in places.iter().filter(|place| place.number != from) {
                let Some((gain, reason)) = self.gain(here, there, guild, measured) else { continue };
                // Memory first: a node without memory is killed.
                let rank = (matches!(reason, BalanceReason::Memory { .. }), gain);
                if best.is_none_or(|(before, _)| rank.0.cmp(&before.0).then(rank.1.total_cmp(&before.1)).is_gt()) {
                    best = Some((rank, BalanceMove { guild_id: guild.guild_id, from, to: there.number, reason }));
                }
            }
        }
        let Some((_, chosen)) = best else {
            self.stuck.insert(from, now.after_ms(self.limits.retry_ms));
            return None;
        };
        self.moves.push_back(now);
        self.is_moving = true;
        self.loaded.remove(&from);
        Some(chosen)
    }

    /// The chosen move has ended.
    pub fn ended(&mut self, now: Instant, guild_id: GuildId, has_moved: bool) {
        self.is_moving = false;
        self.rest_until = now.after_ms(self.limits.settle_ms);
        if !has_moved {
            self.failed.insert(guild_id, now.after_ms(self.limits.retry_ms));
        }
    }

    fn is_short_of_memory(&self, place: &Place<'_>) -> bool {
        place.memory_with(0).is_some_and(|share| share >= f64::from(self.limits.memory_min))
    }

    /// Whether the node is loaded, and another one could have less load with one of its guilds.
    fn is_loaded(&self, here: &Place<'_>, places: &[Place<'_>]) -> bool {
        let gap = f64::from(self.limits.gap_min);
        let mut others = places.iter().filter(|place| place.number != here.number);
        let busy = f64::from(here.busiest());
        let has_less_memory = |there: &Place<'_>| {
            here.memory_with(0).zip(there.memory_with(0)).is_some_and(|(here, there)| there <= here - gap)
        };
        let is_short = self.is_short_of_memory(here);
        let is_busy = here.busiest() >= self.limits.busy_min;
        others.any(|there| {
            let is_idler = f64::from(there.idlest()) * here.measure(there) <= busy - gap;
            (is_short && has_less_memory(there)) || (is_busy && is_idler)
        })
    }

    /// Order of the nodes that are loaded.
    fn pressure(&self, place: &Place<'_>) -> f64 {
        match place.memory_with(0) {
            Some(share) if self.is_short_of_memory(place) => 1_000_000.0 + share,
            _ => f64::from(place.busiest()) * place.scale(),
        }
    }

    fn may_move(&self, guild: &GuildLoad) -> bool {
        let has_rested = guild.arrived_ms.is_none_or(|ms| ms >= self.limits.rest_ms);
        has_rested && !self.failed.contains_key(&guild.guild_id)
    }

    /// How much lower the higher of the two loads is after the move.
    fn gain(
        &self,
        here: &Place<'_>,
        there: &Place<'_>,
        guild: &GuildLoad,
        measured: &GuildLoads,
    ) -> Option<(f64, BalanceReason)> {
        self.gain_of_memory(here, there, guild).or_else(|| self.gain_of_time(here, there, guild, measured))
    }

    fn gain_of_time(
        &self,
        here: &Place<'_>,
        there: &Place<'_>,
        guild: &GuildLoad,
        measured: &GuildLoads,
    ) -> Option<(f64, BalanceReason)> {
        let limits = &self.limits;
        let (gap, margin) = (f64::from(limits.gap_min), f64::from(limits.margin));
        // Both of the last minute and now, so that neither a peak nor a pause decides.
        let worker = here.worker_of(guild.guild_id);
        let busy = *here.load.workers.get(worker)?.min(measured.workers.get(worker)?);
        let other = *there.load.workers.get(there.worker_of(guild.guild_id))?;
        let (before, idle, takes) = (f64::from(busy), f64::from(other), f64::from(guild.busy));
        let measure = here.measure(there);
        let after = idle + takes;
        let is_better = idle * measure <= before - gap && after * measure <= before - margin;
        let has_room = after <= FULL.max(before - margin) && !self.fills_memory(there, guild.bytes);
        let is_worth_it = busy >= limits.busy_min && guild.busy >= limits.guild_min;
        let gain = before - (before - takes).max(after * measure);
        let reason = BalanceReason::Time { here: busy, there: other, guild: guild.busy };
        (is_better && has_room && is_worth_it).then_some((gain, reason))
    }

    fn gain_of_memory(&self, here: &Place<'_>, there: &Place<'_>, guild: &GuildLoad) -> Option<(f64, BalanceReason)> {
        let limits = &self.limits;
        let (gap, margin) = (f64::from(limits.gap_min), f64::from(limits.margin));
        let (before, free) = (here.memory_with(0)?, there.memory_with(0)?);
        let after = there.memory_with(guild.bytes)?;
        let takes = here.memory_with(guild.bytes)? - before;
        let is_better = free <= before - gap && after <= before - margin;
        let other = *there.load.workers.get(there.worker_of(guild.guild_id))?;
        let is_idle = other + guild.busy <= limits.busy_min - limits.margin || guild.busy < limits.guild_min;
        let is_worth_it = self.is_short_of_memory(here) && takes >= f64::from(limits.guild_min);
        let gain = before - (before - takes).max(after);
        let reason = BalanceReason::Memory { here: before as u16, there: free as u16, bytes: guild.bytes };
        (is_better && is_idle && is_worth_it && !self.fills_memory(there, guild.bytes)).then_some((gain, reason))
    }

    /// Whether the node would come near the share from which its own guilds move.
    fn fills_memory(&self, place: &Place<'_>, bytes: u64) -> bool {
        let full = f64::from(self.limits.memory_min) - f64::from(self.limits.margin);
        place.memory_with(bytes).is_some_and(|share| share > full)
    }
}
