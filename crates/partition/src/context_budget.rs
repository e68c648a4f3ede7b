//! Context budget: which streams leave their library context for shared-match in mid-stream, and when (`codec.streams =
//! "auto"`).
//!
//! Owns        the audience above which a stream moves; the CPU time that contexts took; contexts of streams that have
//!             moved, until they are released.
//! Invariants  V1 whether a stream moves depends on memory, on CPU time, and on how many recipients the events have
//!             that it is sent: never on content. V2 a stream moves between two messages, once, and never back: another
//!             context would need a new stream.
//! Limits      `MOVES_PER_SECOND_MAX` streams per second and partition for lack of CPU time or memory; an event with
//!             more than `CROWD` recipients moves all of them, because it must not wait for their contexts.
//!             `RELEASED_PER_FLUSH` contexts are released per flush; with `RELEASED_LATER_MAX` that wait, at once.
//!             `VISITED_PER_SECOND` connections are looked at per second while memory is short.
//! Not here    how much memory contexts may hold: `guildhall-memory-budget` and `ContextPool`. The streams:
//!             `stream_codec`.     Spec  docs/adr/0040.

use crate::stream_account::TIMED_ONE_IN;
use guildhall_codec::StreamCompressor;
use guildhall_stdx::Instant;

/// Recipients of one event, in a partition, above which all of them move at once: their contexts would take some 10 ms.
const CROWD: u32 = 256;
/// Recipients that the events of a stream have on average, above which it moves. From about sixteen on shared-match
/// takes less CPU time; up to here its frames are larger.
const AUDIENCE_MAX: u32 = 64;
/// The average follows in about this many events.
const AVERAGED_EVENTS: u32 = 16;
const MOVES_PER_SECOND_MAX: u32 = 1_000;
const RELEASED_PER_FLUSH: usize = 16;
const RELEASED_LATER_MAX: usize = 4_096;
pub(crate) const VISITED_PER_SECOND: u32 = 8_192;
const SECOND_MS: u64 = 1_000;

/// Why a stream is written by shared-match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its events have many recipients.
    Crowd,
    /// Contexts took more CPU time than they may.
    Cpu,
    /// Contexts held more memory than they may.
    Memory,
    /// An arm of an experiment has it so.
    Experiment,
}

impl Why {
    /// Value of `why` in metric `context_moves_total`, and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crowd => "crowd",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Experiment => "experiment",
        }
    }
}

/// Streams that moved, since the partition's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextMoves {
    /// Because their events have many recipients.
    pub crowd: u64,
    /// Because contexts took more CPU time than they may.
    pub cpu: u64,
    /// Because contexts held more memory than they may.
    pub memory: u64,
}

impl std::ops::AddAssign for ContextMoves {
    fn add_assign(&mut self, other: Self) {
        self.crowd += other.crowd;
        self.cpu += other.cpu;
        self.memory += other.memory;
    }
}

/// How many recipients the latest events of a stream had, on average.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeanAudience {
    /// Times `AVERAGED_EVENTS`.
    sum: u32,
}

impl MeanAudience {
    fn add(&mut self, audience: u32) {
        self.sum = self.sum - self.sum / AVERAGED_EVENTS + audience.min(CROWD);
    }

    fn get(self) -> u32 {
        self.sum / AVERAGED_EVENTS
    }
}

/// See the module.
#[derive(Debug)]
pub struct ContextBudget {
    /// Share of the partition's time that contexts may take, in percent.
    cpu_percent: u64,
    /// `AUDIENCE_MAX`, or less while contexts take too much.
    audience_max: u32,
    moves_left: u32,
    since: Option<Instant>,
    /// CPU time of the timed compressions since then.
    timed_ns: u64,
    released_later: Vec<StreamCompressor>,
    counts: ContextMoves,
    /// The slot from which connections are visited next.
    next_slot: u32,
}

impl Default for ContextBudget {
    fn default() -> Self {
        Self {
            cpu_percent: 25,
            audience_max: AUDIENCE_MAX,
            moves_left: MOVES_PER_SECOND_MAX,
            since: None,
            timed_ns: 0,
            released_later: Vec::new(),
            counts: ContextMoves::default(),
            next_slot: 0,
        }
    }
}

impl ContextBudget {
    /// Changes the share of the time that contexts may take.
    pub fn set_cpu_percent(&mut self, percent: u8) {
        self.cpu_percent = u64::from(percent);
        if percent == 0 {
            self.audience_max = 0;
        }
    }

    /// Streams that moved.
    pub fn counts(&self) -> ContextMoves {
        self.counts
    }

    /// Whether the CPU budget admits a context for a new stream.
    pub fn has_cpu(&self) -> bool {
        self.audience_max > 0
    }

    /// The partition is about to send the stream an event with `audience` recipients. Returns why the stream moves
    /// before that; none: it stays.
    pub fn on_event(&mut self, mean: &mut MeanAudience, audience: u32) -> Option<Why> {
        mean.add(audience);
        if audience > CROWD {
            return Some(self.count(Why::Crowd));
        }
        if mean.get() < self.audience_max.max(1) || self.moves_left == 0 {
            return None;
        }
        self.moves_left -= 1;
        Some(self.count(if self.audience_max == AUDIENCE_MAX { Why::Crowd } else { Why::Cpu }))
    }

    /// Counts a move.
    pub fn count(&mut self, why: Why) -> Why {
        match why {
            Why::Crowd => self.counts.crowd += 1,
            Why::Cpu => self.counts.cpu += 1,
            Why::Memory => self.counts.memory += 1,
            // It has no context yet: it leaves none.
            Why::Experiment => {}
        }
        why
    }

    /// A compression by a context was timed.
    pub fn took(&mut self, ns: u64) {
        self.timed_ns += ns;
    }

    /// Releases a context of a stream that has moved, now or with a later flush.
    pub fn release(&mut self, context: StreamCompressor) {
        if self.released_later.len() < RELEASED_LATER_MAX {
            self.released_later.push(context);
        }
    }

    /// Whether a further stream may move now.
    pub fn may_move(&self) -> bool {
        self.moves_left > 0
    }

    /// A stream has moved for lack of memory.
    pub fn moved(&mut self) {
        self.moves_left = self.moves_left.saturating_sub(1);
    }

    /// The slot that is visited next, of `places`.
    pub fn next_slot(&mut self, places: u32) -> u32 {
        let slot = self.next_slot % places;
        self.next_slot = slot + 1;
        slot
    }

    /// Called at the end of each flush.
    pub fn release_some(&mut self) {
        let kept = self.released_later.len().saturating_sub(RELEASED_PER_FLUSH);
        self.released_later.truncate(kept);
        if kept == 0 {
            self.released_later = Vec::new();
        }
    }

    /// Once a second has passed, the audience at which streams move falls while contexts take too much, and rises
    /// again. Returns whether it has.
    pub fn adjust(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let elapsed_ms = now.ms_since(since);
        if elapsed_ms < SECOND_MS {
            return false;
        }
        self.since = Some(now);
        self.moves_left = MOVES_PER_SECOND_MAX;
        let cpu_ns = std::mem::take(&mut self.timed_ns) * TIMED_ONE_IN;
        let budget_ns = elapsed_ms * 1_000_000 * self.cpu_percent / 100;
        if cpu_ns > budget_ns {
            self.audience_max /= 2;
        } else if 2 * cpu_ns < budget_ns {
            self.audience_max = (self.audience_max * 2).clamp(1, AUDIENCE_MAX);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::default().after_ms(ms)
    }

    #[test]
    fn a_stream_of_small_audiences_stays_and_one_of_large_ones_moves() {
        let (mut budget, mut small, mut large) =
            (ContextBudget::default(), MeanAudience::default(), MeanAudience::default());
        assert!((0..10_000).all(|_| budget.on_event(&mut small, AUDIENCE_MAX - 1).is_none()));
        let after = (0..1_000).position(|_| budget.on_event(&mut large, 2 * AUDIENCE_MAX).is_some());
        assert!(after.is_some_and(|after| (4..100).contains(&after)), "{after:?}");
    }

    #[test]
    fn a_crowd_moves_at_once_without_a_limit() {
        let mut budget = ContextBudget::default();
        for _ in 0..2 * MOVES_PER_SECOND_MAX {
            assert_eq!(budget.on_event(&mut MeanAudience::default(), CROWD + 1), Some(Why::Crowd));
        }
    }

    #[test]
    fn part_of_a_percent_too_much_counts() {
        let mut budget = ContextBudget::default();
        budget.adjust(at(0));
        budget.took(250_000_000 / TIMED_ONE_IN);
        budget.adjust(at(1_000));
        assert_eq!(budget.audience_max, AUDIENCE_MAX);
        budget.took(251_000_000 / TIMED_ONE_IN);
        budget.adjust(at(2_000));
        assert_eq!(budget.audience_max, AUDIENCE_MAX / 2);
    }

    #[test]
    fn too_much_cpu_time_moves_the_largest_audiences_first_and_all_at_last() {
        let mut budget = ContextBudget::default();
        let mut audiences = [1, 4, 16, 40].map(|audience| (audience, MeanAudience::default(), None));
        budget.adjust(at(0));
        for second in 1..=10 {
            budget.took(500_000_000 / TIMED_ONE_IN);
            budget.adjust(at(1_000 * second));
            for (audience, mean, moved_at) in &mut audiences {
                for _ in 0..200 {
                    if moved_at.is_none() && budget.on_event(mean, *audience).is_some() {
                        *moved_at = Some(second);
                    }
                }
            }
        }
        let order: Vec<_> = audiences.iter().map(|(_, _, moved_at)| moved_at.expect("all move")).collect();
        assert!(order.is_sorted_by(|smaller, larger| smaller > larger), "{order:?}");
        assert!(!budget.has_cpu());
        (11..=20).for_each(|second| _ = budget.adjust(at(1_000 * second)));
        assert!(budget.has_cpu() && budget.audience_max == AUDIENCE_MAX);
    }

    #[test]
    fn at_most_so_many_move_in_a_second() {
        let mut budget = ContextBudget { audience_max: 1, ..ContextBudget::default() };
        let moved = (0..3 * MOVES_PER_SECOND_MAX)
            .filter(|_| {
                let mut mean = MeanAudience::default();
                (0..50).any(|_| budget.on_event(&mut mean, 8).is_some())
            })
            .count();
        assert_eq!(moved as u32, MOVES_PER_SECOND_MAX);
    }
}
