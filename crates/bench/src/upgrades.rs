//! `guildhall-bench upgrades`: a day of a node's zstd-stream connections, and how many of them get larger contexts.
//!
//! Owns        the simulated clients: arrival and duration of stay. The controller, the gate and the sizes of contexts
//!             are the node's own; no memory is allocated.
//! Invariants  memory is counted as by slabs: a context uses its full size from start to end.

mod streams;

use anyhow::{Context, Result, ensure};
use clap::Args;
use guildhall_codec::{ContextPool, Upgrade, UpgradeGate};
use guildhall_memory_budget::{Reading, UpgradeConfig, UpgradeLoop};
use guildhall_stdx::{Instant, Rng};
use serde::Serialize;
use std::f64::consts::TAU;
use streams::StreamsDay;

/// As in the node.
pub const TICK_S: u64 = 5;
pub const HOUR_S: u64 = 3_600;
const DAY_S: u64 = 24 * HOUR_S;
/// Days before the reported one, so that it does not start with an empty node.
const DAYS_BEFORE: u64 = 2;
/// Memory of a node without connections, and per connection besides its context.
const NODE_BYTES: u64 = 300 << 20;
const CONN_BYTES: u64 = 6 << 10;
/// Of those who come, how many stay how long, hours on average: a glance at a phone, an evening, a computer that is on.
/// Of those who are there at a time most are the last.
pub const STAYS: [(f64, f64); 3] = [(0.5, 0.33), (0.35, 2.5), (0.15, 12.0)];
/// Connections at the quietest hour, as a share of the peak; from published curves of such services.
const NIGHT: f64 = 0.4;
const PEAK_HOUR: f64 = 20.0;
/// Share of the peak below which it is off-peak.
pub const OFF_PEAK: f64 = 0.7;
/// Goal and result of upstream.
const HOPED: f64 = 0.7;
const PUBLISHED: f64 = 0.3;

/// `guildhall-bench upgrades`.
#[derive(Clone, Copy, Debug, Args)]
pub struct UpgradesArgs {
    /// Connections at the peak of the day.
    #[arg(long, default_value_t = 20_000)]
    connections: u64,
    /// Of the memory budget, what they take at the peak without upgrades, percent: how well the node is filled.
    #[arg(long, default_value_t = 80)]
    fill: u64,
    /// Of the pretended people.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// An hour of the day.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Hour {
    hour: u64,
    connections: u64,
    /// Of those who came in this hour, how many got a larger context.
    new_upgraded: f64,
    /// Of those who were there at its end.
    upgraded: f64,
    /// The most memory in it, of the budget.
    used_max: f64,
}

/// Results of one day.
#[derive(Clone, Debug, Serialize)]
struct Day {
    /// Of those who came off-peak, how many got a larger context.
    off_peak_new_upgraded: f64,
    /// Of those who were there off-peak, on average over time.
    off_peak_upgraded: f64,
    /// The same over the whole day.
    day_upgraded: f64,
    /// The most memory, of the budget, over all days.
    used_max: f64,
    /// Connections that received RECONNECT that day.
    taken_back: u64,
    hours: Vec<Hour>,
}

#[derive(Debug, Serialize)]
struct UpgradesResult {
    connections: u64,
    seed: u64,
    budget_bytes: u64,
    context_bytes: u64,
    upgraded_context_bytes: u64,
    hoped: f64,
    published: f64,
    /// With contexts in slabs: released memory is free.
    slabs: Day,
    /// The same loop over an allocator that keeps what was freed.
    kept_by_allocator: Day,
    /// Streams that begin with a context.
    streams: StreamsDay,
}

/// Runs the bench.
///
/// # Errors
/// When the arguments leave nothing to simulate, or a budget was passed (B1 and B2 of `streams`).
pub fn run(args: UpgradesArgs) -> Result<()> {
    let UpgradesArgs { connections, fill, seed, json } = args;
    ensure!((10..=10_000_000).contains(&connections), "--connections must be from 10 to 10000000");
    ensure!(
        (1..=94).contains(&fill),
        "--fill must be from 1 to 94: above that there is no room for further connections"
    );
    let sizes = Sizes::new()?;
    let budget_bytes = (NODE_BYTES + connections * (CONN_BYTES + sizes.context_bytes)) * 100 / fill;
    let day = |keeps| Node::new(sizes, budget_bytes, keeps, seed).days(connections);
    let result = UpgradesResult {
        connections,
        seed,
        budget_bytes,
        context_bytes: sizes.context_bytes,
        upgraded_context_bytes: sizes.context_bytes + sizes.extra_bytes,
        hoped: HOPED,
        published: PUBLISHED,
        slabs: day(false),
        kept_by_allocator: day(true),
        streams: StreamsDay::new(sizes, budget_bytes, connections, seed)?,
    };
    crate::report(json, &result, print)
}

fn print(result: &UpgradesResult) {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    println!("hour  connections  new upgraded  upgraded  memory of budget");
    for hour in &result.slabs.hours {
        let bar = "#".repeat((hour.upgraded * 40.0) as usize);
        println!(
            "{:>4}  {:>11}  {:>12}  {:>8}  {:>16}  {bar}",
            hour.hour,
            hour.connections,
            percent(hour.new_upgraded),
            percent(hour.upgraded),
            percent(hour.used_max),
        );
    }
    println!();
    println!("{:44}{:>12}{:>28}", "", "slabs", "an allocator that keeps it");
    let of = |day: &Day| [day.off_peak_new_upgraded, day.off_peak_upgraded, day.day_upgraded, day.used_max];
    let names = [
        "off-peak: of those who came",
        "off-peak: of those who were there",
        "all day: of those who were there",
        "most memory, of the budget",
    ];
    for (name, (slabs, kept)) in names.into_iter().zip(of(&result.slabs).into_iter().zip(of(&result.kept_by_allocator)))
    {
        println!("{name:44}{:>12}{:>28}", percent(slabs), percent(kept));
    }
    println!("{:44}{:>12}{:>28}", "asked to reconnect", result.slabs.taken_back, result.kept_by_allocator.taken_back);
    println!("\nhoped for upstream: {}; reached: at most {}", percent(result.hoped), percent(result.published));
    result.streams.print();
}

/// Connections at this time of the day, of the peak: a slow wave with a long evening.
pub fn wave(second: u64) -> f64 {
    let angle = (second as f64 / HOUR_S as f64 - PEAK_HOUR) / 24.0 * TAU;
    let wave = (0.5 + 0.5 * angle.cos()).powf(0.9);
    NIGHT + (1.0 - NIGHT) * wave
}

/// What contexts take, of the default parameters.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    context_bytes: u64,
    extra_bytes: u64,
}

impl Sizes {
    fn new() -> Result<Self> {
        let contexts = ContextPool::default();
        let extra_bytes = contexts.extra_bytes().context("there are no larger contexts")?;
        Ok(Self { context_bytes: contexts.stats().zstd.slot_bytes, extra_bytes })
    }
}

/// A node and its people, of each kind of stay.
struct Node {
    sizes: Sizes,
    budget_bytes: u64,
    /// The system never gets back what was used once.
    keeps: bool,
    held_bytes: u64,
    rng: Rng,
    control: UpgradeLoop,
    gate: UpgradeGate,
    living: [Vec<Option<Upgrade>>; STAYS.len()],
    upgraded_count: u64,
    /// The curve of the day wanders about it.
    drift: f64,
}

impl Node {
    fn new(sizes: Sizes, budget_bytes: u64, keeps: bool, seed: u64) -> Self {
        Self {
            sizes,
            budget_bytes,
            keeps,
            held_bytes: 0,
            rng: Rng::new(seed),
            control: UpgradeLoop::new(UpgradeConfig::default()),
            gate: UpgradeGate::default(),
            living: Default::default(),
            upgraded_count: 0,
            drift: 0.0,
        }
    }

    fn count(&self) -> u64 {
        self.living.iter().map(|living| living.len() as u64).sum()
    }

    fn used_bytes(&self) -> u64 {
        let per_conn = CONN_BYTES + self.sizes.context_bytes;
        NODE_BYTES + self.count() * per_conn + self.upgraded_count * self.sizes.extra_bytes
    }

    /// Simulates the days before, and reports the last.
    fn days(mut self, peak: u64) -> Day {
        let mut hours = vec![Hour::default(); 24];
        let (mut used_max, mut came, mut got) = (0.0_f64, 0, 0);
        let (mut off_peak, mut whole) = (Mean::default(), Mean::default());
        let mut taken_back_before = 0;
        let (mut hour_came, mut hour_got) = (0, 0);
        for second in (0..DAY_S * (DAYS_BEFORE + 1)).step_by(TICK_S as usize) {
            let drawn_before = self.gate.stats();
            self.tick(second, peak);
            let drawn = self.gate.stats();
            let used = self.used_bytes() as f64 / self.budget_bytes as f64;
            used_max = used_max.max(used);
            if second < DAY_S * DAYS_BEFORE {
                taken_back_before = self.control.reclaimed_total();
                continue;
            }
            let (new, new_upgraded) =
                (drawn.drawn_total - drawn_before.drawn_total, drawn.granted_total - drawn_before.granted_total);
            let upgraded = self.upgraded_count as f64 / self.count().max(1) as f64;
            whole.add(upgraded);
            if (self.count() as f64) < OFF_PEAK * peak as f64 {
                off_peak.add(upgraded);
                came += new;
                got += new_upgraded;
            }
            (hour_came, hour_got) = (hour_came + new, hour_got + new_upgraded);
            let index = (second % DAY_S / HOUR_S) as usize;
            let hour = &mut hours[index];
            *hour = Hour {
                hour: index as u64,
                connections: self.count(),
                new_upgraded: hour_got as f64 / hour_came.max(1) as f64,
                upgraded,
                used_max: hour.used_max.max(used),
            };
            if (second + TICK_S).is_multiple_of(HOUR_S) {
                (hour_came, hour_got) = (0, 0);
            }
        }
        Day {
            off_peak_new_upgraded: got as f64 / came.max(1) as f64,
            off_peak_upgraded: off_peak.mean(),
            day_upgraded: whole.mean(),
            used_max,
            taken_back: self.control.reclaimed_total() - taken_back_before,
            hours,
        }
    }

    /// Some leave, some come, and the loop decides.
    fn tick(&mut self, second: u64, peak: u64) {
        for (stay, (_, hours)) in STAYS.into_iter().enumerate() {
            let leaving = self.living[stay].len() as f64 * TICK_S as f64 / (hours * HOUR_S as f64);
            for _ in 0..self.rounded(leaving) {
                self.leave(stay);
            }
        }
        let wanted = self.wanted(second, peak);
        while self.count() > wanted {
            let stay = self.random_stay();
            self.leave(stay);
        }
        while self.count() < wanted {
            let drawn = self.rng.fraction();
            let stay = if drawn < STAYS[0].0 { 0 } else { usize::from(drawn >= STAYS[0].0 + STAYS[1].0) + 1 };
            self.come(stay);
        }
        let used_bytes = self.used_bytes();
        self.held_bytes = self.held_bytes.max(used_bytes);
        let limit_bytes = self.budget_bytes * 100 / u64::from(UpgradeConfig::default().memory_percent);
        let decision = self.control.handle_reading(
            Instant(second * 1_000),
            Some(Reading {
                limit_bytes,
                used_bytes: if self.keeps { self.held_bytes } else { used_bytes },
                extra_bytes: self.gate.stats().extra_bytes,
                upgraded_count: self.upgraded_count,
            }),
        );
        self.gate.set(decision.share_permille, decision.extra_bytes_max);
        for _ in 0..decision.reclaim_count.min(self.upgraded_count) {
            self.reconnect_one();
        }
    }

    /// Connections at this time of the day, and what people do besides.
    fn wanted(&mut self, second: u64, peak: u64) -> u64 {
        self.drift = self.drift * 0.999 + (self.rng.fraction() - 0.5) * 0.002;
        (peak as f64 * (wave(second) * (1.0 + self.drift)).min(1.0)) as u64
    }

    fn rounded(&mut self, count: f64) -> u64 {
        (count + self.rng.fraction()) as u64
    }

    fn random_stay(&mut self) -> usize {
        let mut nth = self.rng.below(self.count()) as usize;
        self.living
            .iter()
            .position(|living| nth.checked_sub(living.len()).map(|left| nth = left).is_none())
            .unwrap_or(0)
    }

    fn come(&mut self, stay: usize) {
        let upgrade = self.gate.draw().then(|| self.gate.try_take(self.sizes.extra_bytes)).flatten();
        self.upgraded_count += u64::from(upgrade.is_some());
        self.living[stay].push(upgrade);
    }

    fn leave(&mut self, stay: usize) {
        let nth = self.rng.below(self.living[stay].len() as u64) as usize;
        let upgrade = self.living[stay].swap_remove(nth);
        self.upgraded_count -= u64::from(upgrade.is_some());
    }

    /// A client with a larger context receives RECONNECT, and reconnects.
    fn reconnect_one(&mut self) {
        let found = self.living.iter().enumerate().find_map(|(stay, living)| {
            let nth = living.iter().position(Option::is_some)?;
            Some((stay, nth))
        });
        let Some((stay, nth)) = found else { return };
        self.living[stay].swap_remove(nth);
        self.upgraded_count -= 1;
        self.come(stay);
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    pub fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    pub fn mean(self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_streams_passes_no_budget() {
        let sizes = Sizes::new().unwrap();
        for seed in [1, 2] {
            let connections = 400;
            let budget_bytes = NODE_BYTES + connections * (CONN_BYTES + sizes.context_bytes);
            StreamsDay::new(sizes, budget_bytes, connections, seed).unwrap();
        }
    }

    #[test]
    fn seven_in_ten_off_peak_and_never_past_the_budget() {
        let sizes = Sizes::new().unwrap();
        for (seed, fill) in [(1, 80), (2, 80), (3, 60), (4, 90)] {
            let connections = 600;
            let budget_bytes = (NODE_BYTES + connections * (CONN_BYTES + sizes.context_bytes)) * 100 / fill;
            let day = Node::new(sizes, budget_bytes, false, seed).days(connections);
            assert!(day.used_max <= 1.0, "{day:?}");
            assert!(fill > 80 || day.off_peak_new_upgraded >= HOPED && day.off_peak_upgraded >= HOPED, "{day:?}");
        }
    }
}
