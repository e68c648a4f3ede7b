//! Drain: asks clients to leave at the rate at which other nodes can accept them.
//!
//! Owns        the plan (`DrainPlan`), its pace (`Pace`), and the loop that asks (`reconnect_all`).
//! Invariants  D1 every client receives op 7 within `asking_ms_max`, however slow the pace would be. D2 the pace is
//!             jittered: each tick asks between 0.5 and 1.5 times its share. (tests `d1_*`, `d2_*`)
//! Limits      `asking_ms_max` for asking, `grace_ms` for leaving; remaining connections are closed with 4000.
//! Not here    op 7 itself (`Partition::send_reconnects`), the rate of IDENTIFYs (`IdentifyGate`).     Spec
//!             docs/protocol/reference.md §1.12.

use crate::server::Partitions;
use guildhall_partition::Leaving;
use guildhall_stdx::Rng;
use std::{
    thread,
    time::{Duration, Instant},
};

/// Interval between batches of requests to leave.
const TICK: Duration = Duration::from_millis(50);
/// Assumed capacity of a node that has not been under load yet.
const STARTS_PER_S_MIN: u32 = 100;

/// Plan by which a node makes its clients leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainPlan {
    /// Maximum time in which all clients receive op 7; 0: all at once.
    pub asking_ms_max: u64,
    /// Time that a client has to leave; then its connection is closed with 4000.
    pub grace_ms: u64,
}

impl DrainPlan {
    /// Op 7 to all clients at once, and time for a close frame each: for tests, and for nodes without clients worth the
    /// wait.
    pub const AT_ONCE: Self = Self { asking_ms_max: 0, grace_ms: 1_500 };

    /// A plan that leaves a quarter of `total` for the steps after the clients have left.
    #[must_use]
    pub fn within(total: Duration) -> Self {
        let total_ms = total.as_millis() as u64;
        Self { asking_ms_max: total_ms / 2, grace_ms: (total_ms / 4).min(5_000) }
    }
}

/// Result of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainReport {
    /// Connections that received a request to leave.
    pub asked_count: usize,
    /// Time until every client had received op 7.
    pub asking_ms: u64,
    /// Connections that were closed when `grace_ms` was over.
    pub stayed_count: usize,
}

/// Number of clients that get op 7 at each tick.
#[derive(Debug)]
struct Pace {
    per_s: f64,
    credit: f64,
    rng: Rng,
}

impl Pace {
    /// `starts_per_s`: the most sessions that this node has started within a second.
    fn new(conns_count: usize, starts_per_s: u32, plan: DrainPlan, seed: u64) -> Self {
        let seen = f64::from(starts_per_s.max(STARTS_PER_S_MIN));
        // D1. Nine tenths of the time, because ticks are late and the last share may be small.
        let needed = conns_count as f64 * 1000.0 / (plan.asking_ms_max.max(1) as f64 * 0.9);
        Self { per_s: seen.max(needed), credit: 0.0, rng: Rng::new(seed) }
    }

    /// Number of clients to ask now, `elapsed` after the previous batch.
    fn next(&mut self, elapsed: Duration) -> usize {
        let jitter = 0.5 + self.rng.fraction();
        self.credit += self.per_s * elapsed.as_secs_f64() * jitter;
        let whole = self.credit.floor();
        self.credit -= whole;
        whole as usize
    }
}

/// Sends op 7 to all clients, and waits until they have left or `grace_ms` is over. Blocks.
pub(crate) fn reconnect_all(partitions: &Partitions, starts_per_s: u32, plan: DrainPlan, seed: u64) -> DrainReport {
    let started = Instant::now();
    let all = partitions.send_reconnects(0, plan.grace_ms);
    let conns_count: usize = all.iter().map(|leaving| leaving.conns_count).sum();
    let mut pace = Pace::new(conns_count, starts_per_s, plan, seed);
    tracing::info!(conns = conns_count, per_s = pace.per_s as u64, "asking clients to leave");
    let mut report = DrainReport::default();
    let mut last = started;
    loop {
        let is_late = started.elapsed().as_millis() as u64 >= plan.asking_ms_max;
        let count = if is_late { usize::MAX } else { pace.next(last.elapsed()) };
        last = Instant::now();
        let leaving = reconnect_some(partitions, count, plan.grace_ms);
        report.asked_count += leaving.asked_count;
        if leaving.unasked_count == 0 {
            break;
        }
        thread::sleep(TICK);
    }
    report.asking_ms = started.elapsed().as_millis() as u64;
    let deadline = Instant::now() + Duration::from_millis(plan.grace_ms);
    loop {
        // Includes clients that connected in the meantime.
        let leaving = reconnect_some(partitions, usize::MAX, plan.grace_ms);
        report.asked_count += leaving.asked_count;
        report.stayed_count = leaving.conns_count;
        if leaving.conns_count == 0 || Instant::now() >= deadline {
            return report;
        }
        thread::sleep(TICK.min(deadline.saturating_duration_since(Instant::now())));
    }
}

/// Sends op 7 to about `count` clients, distributed over the partitions by their remaining clients.
fn reconnect_some(partitions: &Partitions, count: usize, grace_ms: u64) -> Leaving {
    let mut sum = Leaving::default();
    let share = count.div_ceil(partitions.count().max(1));
    let answers =
        if count == 0 { partitions.send_reconnects(0, grace_ms) } else { partitions.send_reconnects(share, grace_ms) };
    for Leaving { asked_count, unasked_count, conns_count } in answers {
        sum.asked_count += asked_count;
        sum.unasked_count += unasked_count;
        sum.conns_count += conns_count;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of clients that get op 7 at each `TICK`, until all have got it.
    fn curve(conns_count: usize, starts_per_s: u32, plan: DrainPlan, seed: u64) -> Vec<usize> {
        let mut pace = Pace::new(conns_count, starts_per_s, plan, seed);
        let mut left = conns_count;
        let mut curve = Vec::new();
        while left > 0 {
            let asked = pace.next(TICK).min(left);
            left -= asked;
            curve.push(asked);
        }
        curve
    }

    #[test]
    fn d1_everybody_is_asked_in_time() {
        let plan = DrainPlan { asking_ms_max: 10_000, grace_ms: 5_000 };
        for (conns_count, starts_per_s) in [(1, 0), (300, 0), (20_000, 0), (20_000, 900), (1_000_000, 5_000)] {
            for seed in 0..20 {
                let ms = curve(conns_count, starts_per_s, plan, seed).len() * TICK.as_millis() as usize;
                assert!(ms <= 10_500, "{conns_count} at {starts_per_s} took {ms} ms");
            }
        }
    }

    #[test]
    fn d2_at_the_pace_that_was_seen_and_without_a_rhythm() {
        let plan = DrainPlan { asking_ms_max: 60_000, grace_ms: 5_000 };
        for seed in 0..20 {
            let curve = curve(10_000, 1_000, plan, seed);
            let seconds = curve.len() as f64 * TICK.as_secs_f64();
            assert!((8.5..11.5).contains(&seconds), "{seconds} s");
            let (least, most) = (curve[..100].iter().min().unwrap(), curve.iter().max().unwrap());
            assert!(*most <= 76 && *least >= 24 && most > least, "{least} to {most} of 50");
        }
    }

    #[test]
    fn the_plan_fits_its_time() {
        let plan = DrainPlan::within(Duration::from_secs(20));
        assert_eq!(plan, DrainPlan { asking_ms_max: 10_000, grace_ms: 5_000 });
        let short = DrainPlan::within(Duration::from_millis(400));
        assert_eq!(short, DrainPlan { asking_ms_max: 200, grace_ms: 100 });
    }
}
