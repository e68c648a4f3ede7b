//! Limiter: fixed windows per key, in bounded memory.
//!
//! Owns        one window per recently used key: its count, and its end.
//! Invariants  L1 a key is admitted at most `limit` times per window, and a window lasts `period_ms` from its first
//!             request. L2 never more than `keys_max` windows. L3 every window is in `by_end` exactly once. L4 a
//!             verdict describes the state that the next request finds. (tests `l1_*` …)
//! Limits      `keys_max`; past it the window that would end first is dropped, so that no key is locked out by others.
//! Not here    clocks (the caller passes `now`), the key and rule of a request.
//! Spec        docs/protocol/reference.md §10.1. Windows are fixed, as upstream, so that `remaining` and `reset` are
//!             exact.

use guildhall_stdx::Instant;
use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

/// Ended windows dropped per request: more than one, so that they go faster than they come; few, so that no
/// request pays for a storm that is over.
const DROPS_PER_TAKE: usize = 4;

/// A number of requests per period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Requests per window.
    pub limit: u32,
    /// Length of a window, milliseconds; it begins with its first request.
    pub period_ms: u32,
}

/// Result of a limiter for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The request may go on.
    pub admitted: bool,
    /// Requests per window.
    pub limit: u32,
    /// Requests left in this window.
    pub remaining: u32,
    /// Milliseconds until the window ends.
    pub reset_after_ms: u64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    ends_at: Instant,
    used: u32,
}

/// Fixed windows by key.
#[derive(Debug)]
pub struct Limiter<K> {
    windows: HashMap<K, Window>,
    by_end: BTreeSet<(Instant, K)>,
    keys_max: usize,
}

impl<K: Copy + Eq + Hash + Ord> Limiter<K> {
    /// A limiter that remembers at most `keys_max` keys (at least one).
    pub fn new(keys_max: usize) -> Self {
        Self { windows: HashMap::new(), by_end: BTreeSet::new(), keys_max: keys_max.max(1) }
    }

    /// Counts one request of `key`, unless its window is used up.
    pub fn take(&mut self, now: Instant, key: K, rule: Rule) -> Verdict {
        self.drop_ended(now);
        let window = self.live(now, key, rule);
        let admitted = window.used < rule.limit;
        let used = window.used + u32::from(admitted);
        self.windows.insert(key, Window { used, ..window });
        Verdict {
            admitted,
            limit: rule.limit,
            remaining: rule.limit.saturating_sub(used),
            reset_after_ms: window.ends_at.ms_since(now),
        }
    }

    /// The refusal the next request of `key` would get; none when it would be admitted. Counts nothing.
    pub fn refusal(&self, now: Instant, key: K, rule: Rule) -> Option<Verdict> {
        let window = self.windows.get(&key).filter(|window| window.ends_at > now && window.used >= rule.limit)?;
        Some(Verdict { admitted: false, limit: rule.limit, remaining: 0, reset_after_ms: window.ends_at.ms_since(now) })
    }

    /// Counts `cost` more against the key's window, past its limit if necessary: the request was already admitted.
    pub fn charge(&mut self, now: Instant, key: K, rule: Rule, cost: u32) {
        let window = self.live(now, key, rule);
        self.windows.insert(key, Window { used: window.used.saturating_add(cost), ..window });
    }

    /// The key's window; a new one if it has none or the last one ended.
    fn live(&mut self, now: Instant, key: K, rule: Rule) -> Window {
        let live = self.windows.get(&key).copied().filter(|window| window.ends_at > now);
        live.unwrap_or_else(|| self.open(now, key, rule))
    }

    fn open(&mut self, now: Instant, key: K, rule: Rule) -> Window {
        if let Some(ended) = self.windows.remove(&key) {
            self.by_end.remove(&(ended.ends_at, key));
        }
        while self.windows.len() >= self.keys_max {
            let Some((_, first)) = self.by_end.pop_first() else { break };
            self.windows.remove(&first);
        }
        let window = Window { ends_at: now.after_ms(u64::from(rule.period_ms.max(1))), used: 0 };
        self.by_end.insert((window.ends_at, key));
        self.windows.insert(key, window);
        window
    }

    fn drop_ended(&mut self, now: Instant) {
        for _ in 0..DROPS_PER_TAKE {
            match self.by_end.first() {
                Some((ends_at, _)) if *ends_at <= now => {
                    if let Some((_, key)) = self.by_end.pop_first() {
                        self.windows.remove(&key);
                    }
                }
                _ => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const RULE: Rule = Rule { limit: 3, period_ms: 100 };

    fn invariants(limiter: &Limiter<u8>) {
        assert!(limiter.windows.len() <= limiter.keys_max, "L2");
        assert_eq!(limiter.by_end.len(), limiter.windows.len(), "L3");
        for (ends_at, key) in &limiter.by_end {
            assert_eq!(limiter.windows[key].ends_at, *ends_at, "L3");
        }
    }

    #[test]
    fn counts_down_and_starts_again() {
        let mut limiter = Limiter::new(8);
        let take = |limiter: &mut Limiter<u8>, at| {
            let v = limiter.take(Instant(at), 1, RULE);
            (v.admitted, v.remaining, v.reset_after_ms)
        };
        assert_eq!(take(&mut limiter, 1000), (true, 2, 100));
        assert_eq!(take(&mut limiter, 1040), (true, 1, 60));
        assert_eq!(take(&mut limiter, 1041), (true, 0, 59));
        assert_eq!(take(&mut limiter, 1099), (false, 0, 1));
        assert_eq!(take(&mut limiter, 1100), (true, 2, 100));
    }

    #[test]
    fn keys_do_not_share() {
        let mut limiter = Limiter::new(8);
        for _ in 0..3 {
            assert!(limiter.take(Instant(0), 1u8, RULE).admitted);
        }
        assert!(!limiter.take(Instant(0), 1, RULE).admitted);
        assert!(limiter.take(Instant(0), 2, RULE).admitted);
    }

    #[test]
    fn a_full_table_forgets_the_window_that_ends_first() {
        let mut limiter = Limiter::new(2);
        limiter.take(Instant(0), 1u8, Rule { limit: 1, period_ms: 100 });
        limiter.take(Instant(1), 2, Rule { limit: 1, period_ms: 10 });
        limiter.take(Instant(2), 3, Rule { limit: 1, period_ms: 100 });
        assert!(!limiter.take(Instant(3), 1, Rule { limit: 1, period_ms: 100 }).admitted);
        assert!(limiter.take(Instant(3), 2, Rule { limit: 1, period_ms: 10 }).admitted);
        invariants(&limiter);
    }

    #[test]
    fn idle_keys_are_dropped() {
        let mut limiter = Limiter::new(1000);
        for key in 0..=200u8 {
            limiter.take(Instant(0), key, RULE);
        }
        for _ in 0..201 / DROPS_PER_TAKE + 1 {
            limiter.take(Instant(1000), 255, RULE);
        }
        assert_eq!(limiter.windows.len(), 1);
    }

    #[test]
    fn a_rule_of_nothing_refuses() {
        let mut limiter = Limiter::new(8);
        assert!(!limiter.take(Instant(0), 1u8, Rule { limit: 0, period_ms: 0 }).admitted);
    }

    proptest! {
        #[test]
        fn l2_l3_l4_hold_with_any_evictions(
            requests in prop::collection::vec((0u8..12, 0u64..60, 0usize..3), 1..300),
            keys_max in 1usize..16,
        ) {
            let rules = [RULE, Rule { limit: 1, period_ms: 25 }, Rule { limit: 7, period_ms: 400 }];
            let mut limiter = Limiter::new(keys_max);
            let mut now = 0;
            for (key, wait, rule) in requests {
                // One rule per key, as in real life.
                let (key, rule) = (key * 3 + rule as u8, rules[rule]);
                now += wait;
                let announced = limiter.refusal(Instant(now), key, rule);
                let verdict = limiter.take(Instant(now), key, rule);
                prop_assert_eq!(announced.is_some(), !verdict.admitted, "L4");
                prop_assert!(verdict.remaining <= rule.limit);
                prop_assert!((1..=u64::from(rule.period_ms)).contains(&verdict.reset_after_ms));
                let next = limiter.refusal(Instant(now), key, rule);
                prop_assert_eq!(next.is_some(), verdict.remaining == 0, "L4");
                if !verdict.admitted {
                    let later = Instant(now + verdict.reset_after_ms);
                    prop_assert!(limiter.refusal(later, key, rule).is_none(), "L4: waiting for `reset_after_ms` is enough");
                }
                invariants(&limiter);
            }
        }

        #[test]
        fn l1_exact_while_nothing_is_evicted(requests in prop::collection::vec((0u8..6, 0u64..60), 1..300)) {
            let mut limiter = Limiter::new(6);
            let mut model: BTreeMap<u8, (u64, u32)> = BTreeMap::new();
            let mut now = 0;
            for (key, wait) in requests {
                now += wait;
                let window = model.entry(key).or_insert((0, 0));
                if window.0 <= now {
                    *window = (now + u64::from(RULE.period_ms), 0);
                }
                let verdict = limiter.take(Instant(now), key, RULE);
                prop_assert_eq!(verdict.admitted, window.1 < RULE.limit);
                window.1 += u32::from(verdict.admitted);
                prop_assert_eq!(verdict.remaining, RULE.limit - window.1);
                prop_assert_eq!(verdict.reset_after_ms, window.0 - now);
            }
        }
    }
}
