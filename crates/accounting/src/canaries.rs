//! Canaries: how long an event of the node itself takes to a relay, by the size of the guild.
//!
//! Limits      one histogram per size class; the classes are fixed.

use crate::durations::{Durations, DurationsSnapshot};

/// Smallest number of members of each size class; a guild belongs to the last that it reaches.
pub const CANARY_CLASSES: [u64; 5] = [0, 1_000, 10_000, 100_000, 1_000_000];

/// Latency of canaries; partitions write it. Share it by `Arc`.
#[derive(Debug, Default)]
pub struct CanaryAccount {
    classes: [Durations; CANARY_CLASSES.len()],
}

impl CanaryAccount {
    /// A relay received a canary after `ns`; its guild has `members_count` members.
    pub fn received(&self, members_count: u64, ns: u64) {
        let class = CANARY_CLASSES.iter().rposition(|from| *from <= members_count).unwrap_or(0);
        self.classes[class].record_shared(ns);
    }

    /// Latency by class, without classes that have none.
    #[must_use]
    pub fn report(&self) -> Vec<(u64, DurationsSnapshot)> {
        let classes = CANARY_CLASSES.into_iter().zip(self.classes.iter().map(Durations::snapshot));
        classes.filter(|(_, times)| times.count() > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guild_has_one_class() {
        let account = CanaryAccount::default();
        for members in [3, 999, 1_000, 9_999, 2_000_000] {
            account.received(members, 1_000);
        }
        let counts: Vec<(u64, u64)> = account.report().iter().map(|(from, times)| (*from, times.count())).collect();
        assert_eq!(counts, [(0, 2), (1_000, 2), (1_000_000, 1)]);
    }
}
