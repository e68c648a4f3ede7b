//! A day of streams that begin with a context (`codec.streams = "auto"`): connections, audiences, other memory and
//! traffic rise and fall, and contexts stay within their budgets.
//!
//! Owns        the simulated clients and their events. Which streams move, and what contexts may hold, are the node's
//!             own decisions (`ContextBudget`, `movable_bytes_max`); no memory is allocated.
//! Invariants  B1 contexts and all other memory never pass the memory budget, at no second. B2 contexts never take more
//!             than their share of the partition's time, in no minute. The bench fails if one is broken.

use super::{CONN_BYTES, DAY_S, HOUR_S, NODE_BYTES, Sizes, wave};
use anyhow::{Result, ensure};
use guildhall_memory_budget::{Reading, UpgradeConfig, movable_bytes_max};
use guildhall_partition::{ContextBudget, ContextMoves, MeanAudience, TIMED_ONE_IN};
use guildhall_stdx::{Instant, Rng};
use serde::Serialize;

/// Share of the partition's time that contexts may take: the default of `codec.contexts_cpu_percent`.
const CPU_PERCENT: u64 = 25;
/// CPU time of a message by a context.
const CONTEXT_NS: u64 = 14_000;
/// What contexts would take of the partition's time at the peak of a usual day, if all streams had one.
const LOAD: f64 = 0.15;
/// When and for how long every guild is busy at once, and by how much.
const RUSHES: [(u64, u64); 3] = [(13 * HOUR_S, 1_200), (19 * HOUR_S, 2_400), (22 * HOUR_S, 600)];
const RUSH_FACTOR: f64 = 4.0;
/// A neighbour on the machine takes this part of the budget, and gives it back, six times a day.
const NEIGHBOUR: f64 = 0.3;
const NEIGHBOUR_S: u64 = 4 * HOUR_S;
/// Recipients of the events of a connection at the peak, as powers of two: from bots alone to members of a crowd.
const AUDIENCE_LOG_MAX: f64 = 8.0;
/// Streams that are moved for lack of memory, at most, per second.
const MOVES_PER_S: usize = 1_000;

/// Figures of a simulated day.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct StreamsDay {
    /// Most memory at any second, of the budget.
    used_max: f64,
    /// Most CPU time of contexts in any minute, of the partition's time.
    cpu_max: f64,
    /// Streams that have a context, on average, at least and at most.
    contexts_mean: f64,
    contexts_min: f64,
    contexts_max: f64,
    came: u64,
    moved_for_crowds: u64,
    moved_for_cpu: u64,
    moved_for_memory: u64,
}

#[derive(Debug, Default)]
struct Stream {
    has_context: bool,
    audience_log: f64,
    mean: MeanAudience,
}

struct Streams {
    sizes: Sizes,
    budget_bytes: u64,
    rng: Rng,
    budget: ContextBudget,
    living: Vec<Stream>,
    contexts_count: u64,
    next_slot: usize,
    came: u64,
}

impl StreamsDay {
    /// Simulates a day with `peak` connections.
    ///
    /// # Errors
    /// A budget was passed.
    pub fn new(sizes: Sizes, budget_bytes: u64, peak: u64, seed: u64) -> Result<Self> {
        let mut node = Streams {
            sizes,
            budget_bytes,
            rng: Rng::new(seed),
            budget: ContextBudget::default(),
            living: Vec::new(),
            contexts_count: 0,
            next_slot: 0,
            came: 0,
        };
        let mut day = Self { contexts_min: 1.0, ..Self::default() };
        let (mut minute_ns, mut shares) = (0, 0.0);
        for second in 0..DAY_S {
            minute_ns += node.second(second, peak);
            if second % 60 == 59 {
                day.cpu_max = day.cpu_max.max(minute_ns as f64 / 60e9);
                ensure!(
                    minute_ns * 100 <= 60_000_000_000 * CPU_PERCENT,
                    "contexts took {} ms in the minute before second {second}: more than {CPU_PERCENT} %",
                    minute_ns / 1_000_000
                );
                minute_ns = 0;
            }
            let used_bytes = node.used_bytes(second);
            day.used_max = day.used_max.max(used_bytes as f64 / budget_bytes as f64);
            ensure!(used_bytes <= budget_bytes, "{used_bytes} of {budget_bytes} bytes at second {second}");
            let share = node.contexts_count as f64 / node.living.len().max(1) as f64;
            shares += share;
            // The first hour begins with an empty node.
            if second >= HOUR_S {
                (day.contexts_min, day.contexts_max) = (day.contexts_min.min(share), day.contexts_max.max(share));
            }
        }
        let ContextMoves { crowd, cpu, memory } = node.budget.counts();
        Ok(Self {
            contexts_mean: shares / DAY_S as f64,
            came: node.came,
            moved_for_crowds: crowd,
            moved_for_cpu: cpu,
            moved_for_memory: memory,
            ..day
        })
    }

    /// Prints the figures as a table.
    pub fn print(&self) {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        println!("\nstreams of codec.streams = \"auto\", over a day of {} connections", self.came);
        for (name, value) in [
            ("most memory at any second, of the budget", percent(self.used_max)),
            ("most CPU time of contexts in any minute", percent(self.cpu_max)),
            ("streams with a context: mean", percent(self.contexts_mean)),
            ("at least, at most", format!("{}, {}", percent(self.contexts_min), percent(self.contexts_max))),
            (
                "moved for crowds, CPU time, memory",
                format!("{}, {}, {}", self.moved_for_crowds, self.moved_for_cpu, self.moved_for_memory),
            ),
        ] {
            println!("{name:44}{value:>24}");
        }
    }
}

impl Streams {
    fn contexts_bytes(&self) -> u64 {
        self.contexts_count * self.sizes.context_bytes
    }

    fn used_bytes(&self, second: u64) -> u64 {
        let neighbour = if second / (NEIGHBOUR_S / 2) % 2 == 1 { NEIGHBOUR } else { 0.0 };
        // It takes its memory within five minutes.
        let risen = (second % (NEIGHBOUR_S / 2)) as f64 / 300.0;
        let neighbour = (self.budget_bytes as f64 * neighbour * risen.min(1.0)) as u64;
        NODE_BYTES + neighbour + self.living.len() as u64 * CONN_BYTES + self.contexts_bytes()
    }

    fn movable_bytes_max(&self, second: u64) -> u64 {
        let config = UpgradeConfig::default();
        let limit_bytes = self.budget_bytes * 100 / u64::from(config.memory_percent);
        let reading = Reading { limit_bytes, used_bytes: self.used_bytes(second), ..Reading::default() };
        movable_bytes_max(config, &reading, self.contexts_bytes())
    }

    /// Returns the CPU time that contexts took.
    fn second(&mut self, second: u64, peak: u64) -> u64 {
        let movable_bytes_max = self.movable_bytes_max(second);
        let wave = wave(second);
        let wanted = (peak as f64 * wave) as usize;
        // A few come and go besides.
        for _ in 0..self.living.len() / 2_000 {
            let nth = self.rng.below(self.living.len() as u64) as usize;
            self.leave(nth);
        }
        while self.living.len() > wanted {
            let nth = self.rng.below(self.living.len() as u64) as usize;
            self.leave(nth);
        }
        while self.living.len() < wanted {
            self.come(movable_bytes_max);
        }
        let is_rush = RUSHES.iter().any(|(begin, length)| (*begin..begin + length).contains(&second));
        let at_peak = LOAD * 1e9 / (CONTEXT_NS * peak) as f64;
        let events = at_peak * wave * if is_rush { RUSH_FACTOR } else { 1.0 };
        let mut cpu_ns = 0;
        for stream in &mut self.living {
            if !stream.has_context {
                continue;
            }
            let count = (events + self.rng.fraction()) as u64;
            let audience = (stream.audience_log * wave).exp2() as u32;
            if (0..count.min(16)).any(|_| self.budget.on_event(&mut stream.mean, audience).is_some()) {
                stream.has_context = false;
                self.contexts_count -= 1;
            } else {
                cpu_ns += count * CONTEXT_NS;
            }
        }
        self.budget.took(cpu_ns / TIMED_ONE_IN);
        self.budget.adjust(Instant(second * 1_000));
        self.relieve_memory(self.contexts_bytes().saturating_sub(movable_bytes_max));
        cpu_ns
    }

    /// As the partition does: in the order of slots.
    fn relieve_memory(&mut self, excess_bytes: u64) {
        let (mut freed, mut moved) = (0, 0);
        for _ in 0..self.living.len() {
            if freed >= excess_bytes || moved == MOVES_PER_S {
                return;
            }
            self.next_slot = (self.next_slot + 1) % self.living.len();
            let stream = &mut self.living[self.next_slot];
            if std::mem::take(&mut stream.has_context) {
                self.budget.count(guildhall_partition::Why::Memory);
                self.contexts_count -= 1;
                freed += self.sizes.context_bytes;
                moved += 1;
            }
        }
    }

    fn come(&mut self, movable_bytes_max: u64) {
        let has_room = self.contexts_bytes() + self.sizes.context_bytes <= movable_bytes_max;
        let has_context = self.budget.has_cpu() && has_room;
        let audience_log = self.rng.fraction() * AUDIENCE_LOG_MAX;
        self.living.push(Stream { has_context, audience_log, mean: MeanAudience::default() });
        self.contexts_count += u64::from(has_context);
        self.came += 1;
    }

    fn leave(&mut self, nth: usize) {
        let stream = self.living.swap_remove(nth);
        self.contexts_count -= u64::from(stream.has_context);
    }
}
