//! Drain: makes clients leave, by op 7, at the rate at which other nodes accept them.
//!
//! Owns        the plan (`DrainPlan`), its pace (`Pace`), and the loop that sends op 7 (`reconnect_all`).
//! Invariants  D1 every client receives op 7 within `asking_ms_max`, however slow the pace would be. D2 the pace is
//!             jittered: each tick sends 0.5 to 1.5 times its share. D3 with a count of what other nodes have
//!             accepted, as many clients wait as these accept in `WAITING_S`, and a tenth that may not come back.
//!             (tests `d1_*` to `d3_*`)
//! Limits      `WAITING_MIN`, `WAITING_MAX` and `PER_S_MIN`; `asking_ms_max` until all have op 7, `grace_ms` to leave;
//!             remaining connections are closed with 4000.
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
/// Least pace, whatever other nodes accept.
const PER_S_MIN: f64 = 20.0;
/// Interval in which the rate of other nodes is measured.
const MEASURE: Duration = Duration::from_secs(1);
/// Clients that have got op 7 and may wait: as many as the other nodes accept in this time, within bounds.
const WAITING_S: f64 = 2.0;
const WAITING_MIN: f64 = 100.0;
const WAITING_MAX: f64 = 20_000.0;
/// Time in which op 7 goes out for the free places among them.
const FILL_S: f64 = 0.25;
/// Share of the clients that come back; more of them do not matter.
const RETURNING: f64 = 0.9;

/// Sessions that the other nodes have accepted so far, by IDENTIFY or RESUME. Only its growth counts. None: it is not
/// known.
pub type Accepted = dyn Fn() -> Option<u64> + Send + Sync;

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
    /// The pace followed what other nodes accept (D3).
    pub followed: bool,
}

/// Number of clients that get op 7 at each tick.
#[derive(Debug)]
struct Pace {
    per_s: f64,
    credit: f64,
    rng: Rng,
    plan: DrainPlan,
    followed: Option<Followed>,
}

/// Count of the sessions that other nodes have accepted (D3).
#[derive(Debug)]
struct Followed {
    /// At the begin.
    first: u64,
    /// Begin of the interval that is measured, and the count then.
    since: (Duration, u64),
    /// Of the last interval.
    per_s: f64,
}

impl Pace {
    /// `starts_per_s`: the most sessions that this node has started within a second.
    fn new(conns_count: usize, starts_per_s: u32, plan: DrainPlan, seed: u64) -> Self {
        let seen = f64::from(starts_per_s.max(STARTS_PER_S_MIN));
        let mut pace = Self { per_s: seen, credit: 0.0, rng: Rng::new(seed), plan, followed: None };
        pace.per_s = seen.max(pace.needed(conns_count, Duration::ZERO));
        pace
    }

    /// D1. Nine tenths of the time that is left, because ticks are late and the last share may be small.
    fn needed(&self, unasked_count: usize, since_start: Duration) -> f64 {
        let left_ms = (self.plan.asking_ms_max as f64 * 0.9 - since_start.as_millis() as f64).max(1.0);
        unasked_count as f64 * 1000.0 / left_ms
    }

    /// Sets the pace by what other nodes have `accepted` (D3). None: it is not known, and the pace stays.
    fn follow(&mut self, since_start: Duration, (asked_count, unasked_count): (usize, usize), accepted: Option<u64>) {
        let needed = self.needed(unasked_count, since_start);
        let Some(accepted) = accepted else {
            self.per_s = self.per_s.max(needed);
            return;
        };
        let begin = || Followed { first: accepted, since: (since_start, accepted), per_s: WAITING_MIN / WAITING_S };
        let followed = self.followed.get_or_insert_with(begin);
        let measured_ms = since_start.saturating_sub(followed.since.0).as_millis();
        if measured_ms >= MEASURE.as_millis() {
            let count = accepted.saturating_sub(followed.since.1);
            followed.per_s = count as f64 * 1000.0 / measured_ms as f64;
            followed.since = (since_start, accepted);
        }
        let waiting_max = (followed.per_s * WAITING_S).clamp(WAITING_MIN, WAITING_MAX);
        let accepted_count = accepted.saturating_sub(followed.first) as f64;
        let waiting = asked_count as f64 * RETURNING - accepted_count;
        let followed_per_s = (waiting_max - waiting) / FILL_S;
        self.per_s = followed_per_s.max(PER_S_MIN).max(needed);
    }

    /// Number of clients that get op 7 now, `elapsed` after the previous batch.
    fn next(&mut self, elapsed: Duration) -> usize {
        let jitter = 0.5 + self.rng.fraction();
        self.credit += self.per_s * elapsed.as_secs_f64() * jitter;
        let whole = self.credit.floor();
        self.credit -= whole;
        whole as usize
    }
}

/// Sends op 7 to all clients, and waits until they have left or `grace_ms` is over. Blocks.
pub(crate) fn reconnect_all(
    partitions: &Partitions,
    starts_per_s: u32,
    (plan, accepted): (DrainPlan, Option<&Accepted>),
    seed: u64,
) -> DrainReport {
    let started = Instant::now();
    let all = partitions.send_reconnects(0, plan.grace_ms);
    let conns_count: usize = all.iter().map(|leaving| leaving.conns_count).sum();
    let mut pace = Pace::new(conns_count, starts_per_s, plan, seed);
    tracing::info!(conns = conns_count, per_s = pace.per_s as u64, "asking clients to leave");
    let mut report = DrainReport::default();
    let mut last = started;
    let mut unasked_count = conns_count;
    loop {
        let accepted = accepted.and_then(|accepted| accepted());
        pace.follow(started.elapsed(), (report.asked_count, unasked_count), accepted);
        let is_late = started.elapsed().as_millis() as u64 >= plan.asking_ms_max;
        let count = if is_late { usize::MAX } else { pace.next(last.elapsed()) };
        last = Instant::now();
        let leaving = reconnect_some(partitions, count, plan.grace_ms);
        report.asked_count += leaving.asked_count;
        unasked_count = leaving.unasked_count;
        if leaving.unasked_count == 0 {
            break;
        }
        thread::sleep(TICK);
    }
    report.asking_ms = started.elapsed().as_millis() as u64;
    report.followed = pace.followed.is_some();
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
    fn d1_every_client_gets_op_7_in_time() {
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

    /// Seconds until all clients are accepted, and the most that waited, if other nodes accept `capacity` a second of
    /// those that come back.
    fn followed(capacity: f64, returning: f64, seed: u64) -> (f64, usize) {
        let plan = DrainPlan { asking_ms_max: 400_000, grace_ms: 5_000 };
        let (mut pace, mut rng) = (Pace::new(10_000, 0, plan, seed), Rng::new(seed));
        let (mut asked, mut came, mut accepted, mut waiting_max, mut room) = (0, 0, 0, 0, 0.0_f64);
        let mut elapsed = Duration::ZERO;
        while asked < 10_000 || accepted < came {
            pace.follow(elapsed, (asked, 10_000 - asked), Some(accepted as u64));
            let count = pace.next(TICK).min(10_000 - asked);
            asked += count;
            came += (0..count).filter(|_| rng.chance(returning)).count();
            elapsed += TICK;
            // Unused room of a tick is lost.
            let share = capacity * TICK.as_secs_f64();
            room = (room + share).min(share + 1.0);
            let now = (came - accepted).min(room as usize);
            accepted += now;
            room -= now as f64;
            waiting_max = waiting_max.max(came - accepted);
        }
        (elapsed.as_secs_f64(), waiting_max)
    }

    #[test]
    fn d3_the_pace_is_that_of_the_other_nodes() {
        for capacity in [60.0, 300.0, 1_000.0, 5_000.0] {
            for (returning, seed) in [(1.0, 1), (1.0, 2), (0.95, 3), (0.95, 4)] {
                let (seconds, waiting) = followed(capacity, returning, seed);
                let fastest = 10_000.0 * returning / capacity;
                assert!(seconds < fastest * 1.2 + 6.0, "{seconds} s at {capacity}");
                // A tenth may not come back: if it does, it waits as well.
                assert!(waiting as f64 <= capacity * 3.0 + 1_100.0, "{waiting} wait at {capacity}");
            }
        }
    }

    #[test]
    fn d3_fewer_clients_wait_at_slow_nodes_than_at_the_pace_that_was_seen() {
        // This node has started 1,000 sessions a second, and the others accept 100.
        let plan = DrainPlan { asking_ms_max: 400_000, grace_ms: 5_000 };
        for seed in 0..10 {
            let (_, waiting) = followed(100.0, 1.0, seed);
            let blind: usize = curve(10_000, 1_000, plan, seed).iter().sum::<usize>() - 100 * 10;
            assert!(waiting * 6 < blind, "{waiting} wait, and {blind} without the count");
        }
    }

    #[test]
    fn d1_op_7_goes_out_in_time_though_no_node_accepts_or_reports() {
        let plan = DrainPlan { asking_ms_max: 10_000, grace_ms: 5_000 };
        // Other nodes stop to report after this many ticks.
        for reports in [usize::MAX, 20, 0] {
            for seed in 0..20 {
                let mut pace = Pace::new(20_000, 0, plan, seed);
                let (mut left, mut ticks, mut most) = (20_000, 0, 0);
                while left > 0 {
                    let accepted = (ticks < reports).then_some(7);
                    pace.follow(TICK * ticks as u32, (20_000 - left, left), accepted);
                    let asked = pace.next(TICK).min(left);
                    left -= asked;
                    most = most.max(asked);
                    ticks += 1;
                }
                assert!(ticks as u128 * TICK.as_millis() <= 10_500, "{ticks} ticks");
                assert!(most < 1_000, "not all at the end: {most} in a tick");
            }
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
