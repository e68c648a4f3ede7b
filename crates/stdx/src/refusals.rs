//! Refusals: how often a peer was refused and why, and when a log line about it is due.
//!
//! Owns        `LogGate`, which limits the log lines of one cause; `Refusals`, a counter and a gate for each of a
//!             closed set of reasons; `faults!`, which defines such a set.
//! Invariants  R1 every refusal is counted; a reason is logged at most once per interval of its gate, with the number
//!             of refusals since the line before. R2 of several threads one logs. (tests `r1_*`)
//! Limits      the sets are closed: a metric has as many series as there are reasons.
//! Not here    logging itself, and anything of a token or key: the caller writes the line.

use crate::Instant;
use std::sync::atomic::{AtomicU64, Ordering};

/// A closed set of reasons; `faults!` makes one.
pub trait Fault: Copy + Eq + std::fmt::Display + 'static {
    /// Every reason.
    const ALL: &'static [Self];
    /// Noun for log lines: "a token", "a key".
    const WHAT: &'static str;
    /// The reason as metrics and logs name it.
    fn name(self) -> &'static str;
}

/// Defines a closed set of reasons: for each its name in metrics, its variant, and a text that names the correction.
#[macro_export]
macro_rules! faults {
    ($(#[$doc:meta])* $set:ident of $what:literal { $($name:literal $variant:ident $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $set { $(#[doc = $text] $variant,)* }

        impl std::fmt::Display for $set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$variant => $text,)* })
            }
        }

        impl std::error::Error for $set {}

        impl $crate::Fault for $set {
            const ALL: &'static [Self] = &[$(Self::$variant),*];
            const WHAT: &'static str = $what;
            fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

const NEVER: u64 = u64::MAX;

/// Counts events, and decides when a log line about them is due.
#[derive(Debug)]
pub struct LogGate {
    every_ms: u64,
    count: AtomicU64,
    /// `NEVER` before the first line.
    logged_at_ms: AtomicU64,
    logged_count: AtomicU64,
}

impl LogGate {
    /// One line in `every_ms` at most.
    #[must_use]
    pub const fn new(every_ms: u64) -> Self {
        Self {
            every_ms,
            count: AtomicU64::new(0),
            logged_at_ms: AtomicU64::new(NEVER),
            logged_count: AtomicU64::new(0),
        }
    }

    /// Counts one. If a line is due: how many there were since the line before, this one included.
    pub fn note(&self, now: Instant) -> Option<u64> {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let logged_at_ms = self.logged_at_ms.load(Ordering::Relaxed);
        let is_due = logged_at_ms == NEVER || now.0.saturating_sub(logged_at_ms) >= self.every_ms;
        let logs = is_due
            && self.logged_at_ms.compare_exchange(logged_at_ms, now.0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        logs.then(|| count.saturating_sub(self.logged_count.swap(count, Ordering::Relaxed)))
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// A counter and a gate for each reason of a set.
#[derive(Debug)]
pub struct Refusals<F> {
    gates: Vec<LogGate>,
    of: std::marker::PhantomData<F>,
}

impl<F: Fault> Refusals<F> {
    /// One line per reason in `every_ms` at most.
    #[must_use]
    pub fn new(every_ms: u64) -> Self {
        Self { gates: F::ALL.iter().map(|_| LogGate::new(every_ms)).collect(), of: std::marker::PhantomData }
    }

    /// Counts a refusal. If a line about its reason is due: how many there were since the line before.
    pub fn note(&self, fault: F, now: Instant) -> Option<u64> {
        self.gates[F::ALL.iter().position(|known| *known == fault)?].note(now)
    }

    /// Each reason with its number of refusals.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        F::ALL.iter().map(|fault| fault.name()).zip(self.gates.iter().map(LogGate::count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    faults! {
        /// Reasons of these tests.
        TestFault of "a test" {
            "old" Old "it is old",
            "odd" Odd "it is odd",
        }
    }

    #[test]
    fn r1_all_are_counted_and_few_are_logged() {
        let refusals = Refusals::<TestFault>::new(5_000);
        let note = |fault, ms| refusals.note(fault, Instant(ms));
        assert_eq!(note(TestFault::Old, 1_000), Some(1));
        assert_eq!(note(TestFault::Old, 1_001), None);
        assert_eq!(note(TestFault::Odd, 1_001), Some(1), "another reason");
        assert_eq!(note(TestFault::Old, 5_999), None);
        assert_eq!(note(TestFault::Old, 6_000), Some(3));
        assert_eq!(refusals.counts(), [("old", 4), ("odd", 1)]);
        assert_eq!(TestFault::Old.to_string(), "it is old");
    }

    #[test]
    fn r1_a_gate_opens_once_per_interval() {
        let gate = LogGate::new(60_000);
        let is_open = |s: u64| gate.note(Instant(s * 1_000)).is_some();
        assert_eq!([0, 1, 59, 60, 61, 200].map(is_open), [true, false, false, true, false, true]);
        assert_eq!(gate.count(), 6);
    }
}
