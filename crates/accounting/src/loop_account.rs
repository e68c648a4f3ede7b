//! Loop account: how one thread's loop spends its time.
//!
//! Owns        per message type: count, total, maximum and histogram of wall time; the time that messages waited in the
//!             mailbox, its depth, and the time the loop was busy.
//! Invariants  A1 the loop's own thread writes, others read without a lock.
//! Limits      one KiB per message type; types are fixed when the account is made.
//! Not here    clocks: the driver passes nanoseconds.

use crate::durations::{Durations, DurationsSnapshot};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The account of one loop. Share it by `Arc`.
#[derive(Debug)]
pub struct LoopAccount {
    /// What kind of loop this is, such as "guild worker".
    name: &'static str,
    /// Which of them, counted from 0.
    index: usize,
    kinds: Box<[String]>,
    times: Vec<Durations>,
    waits: Durations,
    busy_ns: AtomicU64,
    mailbox: AtomicU64,
}

/// One message type of a report.
#[derive(Clone, Debug)]
pub struct KindReport {
    /// Name of the message type.
    pub name: String,
    /// Wall time of its handling.
    pub times: DurationsSnapshot,
}

/// Values of a loop's account at one moment.
#[derive(Clone, Debug)]
pub struct LoopReport {
    /// What kind of loop this is.
    pub name: &'static str,
    /// Which of them.
    pub index: usize,
    /// Message types that occurred.
    pub kinds: Vec<KindReport>,
    /// Time that messages waited in the mailbox.
    pub waits: DurationsSnapshot,
    /// Nanoseconds of work since the node started.
    pub busy_ns: u64,
    /// Messages in the mailbox when the loop last looked.
    pub mailbox: u64,
}

impl LoopAccount {
    /// An account with these message types.
    #[must_use]
    pub fn new(name: &'static str, index: usize, kinds: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let kinds: Box<[String]> = kinds.into_iter().map(Into::into).collect();
        let times = kinds.iter().map(|_| Durations::default()).collect();
        Self { name, index, kinds, times, waits: Durations::default(), busy_ns: 0.into(), mailbox: 0.into() }
    }

    /// Name of a message type; empty for a kind beyond the table.
    #[must_use]
    pub fn kind_name(&self, kind: usize) -> &str {
        self.kinds.get(kind).map_or("", |name| name)
    }

    /// One message of type `kind` took `ns`. Only the loop's thread calls this. A kind beyond the table is ignored.
    pub fn handled(&self, kind: usize, ns: u64) {
        if let Some(times) = self.times.get(kind) {
            times.record(ns);
        }
        self.busy(ns);
    }

    /// One call of type `kind` took `ns`. For accounts that many threads write (REST, the store);
    /// these use nothing else.
    pub fn handled_shared(&self, kind: usize, ns: u64) {
        if let Some(times) = self.times.get(kind) {
            times.record_shared(ns);
        }
        self.busy_ns.fetch_add(ns, Relaxed);
    }

    /// The loop worked for `ns` without a message, such as on a timer.
    pub fn busy(&self, ns: u64) {
        self.busy_ns.store(self.busy_ns.load(Relaxed).wrapping_add(ns), Relaxed);
    }

    /// Nanoseconds of work since the node started.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns.load(Relaxed)
    }

    /// A message had waited `ns` in the mailbox.
    pub fn waited(&self, ns: u64) {
        self.waits.record(ns);
    }

    /// So many messages are in the mailbox.
    pub fn set_mailbox(&self, len: usize) {
        self.mailbox.store(len as u64, Relaxed);
    }

    /// The current values.
    #[must_use]
    pub fn report(&self) -> LoopReport {
        let kinds = self.kinds.iter().zip(&self.times).filter_map(|(name, times)| {
            let times = times.snapshot();
            (times.count() > 0).then(|| KindReport { name: name.clone(), times })
        });
        LoopReport {
            name: self.name,
            index: self.index,
            kinds: kinds.collect(),
            waits: self.waits.snapshot(),
            busy_ns: self.busy_ns.load(Relaxed),
            mailbox: self.mailbox.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_only_types_that_occurred() {
        let account = LoopAccount::new("guild worker", 3, ["create message", "timer"]);
        account.handled(1, 2_000);
        account.handled(1, 4_000);
        account.handled(7, 1_000);
        account.waited(500);
        account.set_mailbox(12);
        let report = account.report();
        assert_eq!((report.name, report.index, report.mailbox, report.busy_ns), ("guild worker", 3, 12, 7_000));
        let [kind] = &report.kinds[..] else { panic!("{report:?}") };
        assert_eq!((&*kind.name, kind.times.count(), kind.times.total_ns), ("timer", 2, 6_000));
        assert_eq!((kind.times.max_ns, report.waits.count()), (4_000, 1));
    }

    #[test]
    fn threads_that_share_an_account_lose_nothing() {
        let account = LoopAccount::new("rest", 0, ["get"]);
        #[expect(clippy::disallowed_methods, reason = "the test is about threads")]
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|ns| account.handled_shared(0, ns)));
            }
        });
        let report = account.report();
        assert_eq!(report.kinds[0].times.count(), 40_000);
        assert_eq!(report.busy_ns, 4 * (9_999 * 10_000 / 2));
    }
}
