//! Upgrades: the permits for larger compression contexts (windows and tables) of new zstd-stream connections.
//!
//! Owns        the gate (`UpgradeGate`), which applies the last decision to the connections of all partitions: its
//!             share by counting, its bytes by subtracting each upgrade's.
//! Invariants  U1 larger contexts never hold more than the last decision allows, also between two readings of memory.
//! Not here    the decision (`guildhall-memory-budget`), contexts (`context_pool`).     Spec  docs/adr/0016.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

/// Shared by its clones. Initially closed.
#[derive(Clone, Debug, Default)]
pub struct UpgradeGate {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    share_permille: AtomicU32,
    extra_bytes_max: AtomicU64,
    extra_bytes: AtomicU64,
    living_count: AtomicU64,
    drawn_total: AtomicU64,
    drawn_upgrades_total: AtomicU64,
    granted_total: AtomicU64,
    denied_total: AtomicU64,
}

/// A gate's account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateStats {
    /// Of new connections, how many are to get larger contexts.
    pub share_permille: u32,
    /// What larger contexts may hold beyond what they would hold otherwise.
    pub extra_bytes_max: u64,
    /// Bytes held by larger contexts.
    pub extra_bytes: u64,
    /// Larger contexts now.
    pub living_count: u64,
    /// zstd-stream connections since the start.
    pub drawn_total: u64,
    /// Of these, those that were to get a larger context.
    pub drawn_upgrades_total: u64,
    /// Of these, those that got it.
    pub granted_total: u64,
    /// Those that did not, because by then the room was gone.
    pub denied_total: u64,
}

/// The right to a larger context; dropped with it.
#[derive(Debug)]
pub struct Upgrade {
    gate: UpgradeGate,
    extra_bytes: u64,
}

impl UpgradeGate {
    /// What holds from now on: for new connections, and for contexts not made yet.
    pub fn set(&self, share_permille: u32, extra_bytes_max: u64) {
        self.shared.share_permille.store(share_permille.min(1000), Ordering::Relaxed);
        self.shared.extra_bytes_max.store(extra_bytes_max, Ordering::Release);
    }

    /// Whether the next connection is to get a larger context: every so-many-th is, so that the share is exact.
    pub fn draw(&self) -> bool {
        let shared = &self.shared;
        let nth = shared.drawn_total.fetch_add(1, Ordering::Relaxed);
        let share = u64::from(shared.share_permille.load(Ordering::Relaxed));
        let is_due = (nth % 1000 + 1) * share / 1000 > (nth % 1000) * share / 1000;
        shared.drawn_upgrades_total.fetch_add(is_due.into(), Ordering::Relaxed);
        is_due
    }

    /// Takes `extra_bytes` of what larger contexts may hold; none if they hold it all.
    pub fn try_take(&self, extra_bytes: u64) -> Option<Upgrade> {
        let shared = &self.shared;
        let max = shared.extra_bytes_max.load(Ordering::Acquire);
        let more = |held: u64| held.checked_add(extra_bytes).filter(|total| *total <= max);
        if shared.extra_bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_err() {
            shared.denied_total.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        shared.granted_total.fetch_add(1, Ordering::Relaxed);
        shared.living_count.fetch_add(1, Ordering::Relaxed);
        Some(Upgrade { gate: self.clone(), extra_bytes })
    }

    /// The account now.
    #[must_use]
    pub fn stats(&self) -> GateStats {
        let shared = &self.shared;
        GateStats {
            share_permille: shared.share_permille.load(Ordering::Relaxed),
            extra_bytes_max: shared.extra_bytes_max.load(Ordering::Acquire),
            extra_bytes: shared.extra_bytes.load(Ordering::Acquire),
            living_count: shared.living_count.load(Ordering::Relaxed),
            drawn_total: shared.drawn_total.load(Ordering::Relaxed),
            drawn_upgrades_total: shared.drawn_upgrades_total.load(Ordering::Relaxed),
            granted_total: shared.granted_total.load(Ordering::Relaxed),
            denied_total: shared.denied_total.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Upgrade {
    fn drop(&mut self) {
        self.gate.shared.extra_bytes.fetch_sub(self.extra_bytes, Ordering::AcqRel);
        self.gate.shared.living_count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_exact_over_any_thousand() {
        let gate = UpgradeGate::default();
        assert!((0..100).all(|_| !gate.draw()));
        for share in [0, 1, 70, 333, 500, 999, 1000, 4000] {
            gate.set(share, 0);
            let drawn = (0..1000).filter(|_| gate.draw()).count();
            assert_eq!(drawn as u32, share.min(1000));
            // And close to it over fewer.
            let drawn = (0..100).filter(|_| gate.draw()).count() as i64;
            assert!((drawn - i64::from(share.min(1000)) / 10).abs() <= 1, "{drawn} of 100 at {share}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "several threads share a gate")]
    fn u1_larger_contexts_never_hold_more_than_they_may() {
        let gate = UpgradeGate::default();
        assert!(gate.try_take(1).is_none());
        gate.set(0, 1000);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let gate = gate.clone();
                std::thread::spawn(move || {
                    for _ in 0..2000 {
                        let held = [gate.try_take(300), gate.try_take(300)];
                        assert!(gate.stats().extra_bytes <= 1000);
                        drop(held);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let held: Vec<_> = std::iter::from_fn(|| gate.try_take(300)).collect();
        assert_eq!((held.len(), gate.stats().extra_bytes, gate.stats().living_count), (3, 900, 3));
        // A smaller allowance takes nothing back, and gives nothing.
        gate.set(1000, 100);
        assert!(gate.try_take(1).is_none());
        drop(held);
        assert_eq!((gate.stats().extra_bytes, gate.stats().living_count), (0, 0));
    }
}
