//! Cohorts: the accounts that take part in an experiment with a share of all accounts.
//!
//! Owns        the draw: an account's place from 0 to 9,999 in an experiment.
//! Invariants  H1 the place depends on the experiment and the account only, not on the connection, partition, node or
//!             start: it survives reconnects. H2 a larger share includes every account of a smaller one. H3 places in
//!             two experiments are independent. (tests `h*_*`)
//! Not here    experiments themselves, and what is decided before anybody has said who they are.

/// An account's place in an experiment. Written into no file, but the same on every node of a cluster: do
/// not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cohort(u16);

impl Cohort {
    /// How many places there are.
    pub const PLACES: u16 = 10_000;

    /// The place of an account, by its user id.
    #[must_use]
    pub fn of(experiment: &str, user_id: u64) -> Self {
        // FNV-1a over the name, then SplitMix64's mixing, so that neighbouring ids lie apart.
        let name = experiment
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let place = (u128::from(mixed(mixed(name) ^ user_id)) * u128::from(Self::PLACES)) >> 64;
        Self(place as u16)
    }

    /// Whether a share of `share` in ten thousand includes this account.
    #[must_use]
    pub fn is_within(self, share: u16) -> bool {
        self.0 < share
    }
}

fn mixed(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Snowflakes of accounts that were made one after the other.
    fn accounts() -> impl Iterator<Item = u64> {
        (0..20_000).map(|n| (1_100_000_000_000 + n * 977) << 22 | n & 3)
    }

    fn taken(experiment: &str, share: u16) -> Vec<u64> {
        accounts().filter(|id| Cohort::of(experiment, *id).is_within(share)).collect()
    }

    /// The trap: cohorts drawn per connection change with every reconnect, so finally every account was in both.
    #[test]
    fn h1_trap_7_who_reconnects_is_where_they_were() {
        // There is nothing in the question that a reconnect could change; and a restart, or another node, does not
        // either:
        for (experiment, id, place) in
            [("shared-match", 1_100_000_000_000_000_777, 8385), ("shared-match", 0, 3909), ("", 1, 3177)]
        {
            assert_eq!(Cohort::of(experiment, id), Cohort(place), "{experiment} {id}");
        }
    }

    #[test]
    fn h2_shares_grow_and_shrink_around_the_same_accounts() {
        let shares = [0, 1, 100, 2_500, 9_999, 10_000].map(|share| (share, taken("shared-match", share)));
        for pair in shares.windows(2) {
            assert!(pair[0].1.iter().all(|id| pair[1].1.binary_search(id).is_ok()));
        }
        for (share, taken) in &shares {
            let expected = usize::from(*share) * 2;
            assert!(taken.len().abs_diff(expected) <= 60 + expected / 20, "{} of {expected}", taken.len());
        }
        assert_eq!(shares[5].1.len(), 20_000);
    }

    #[test]
    fn h3_experiments_are_independent() {
        let (one, other) = (taken("one", 2_000), taken("other", 2_000));
        let both = one.iter().filter(|id| other.binary_search(id).is_ok()).count();
        // A fifth of a fifth of 20,000.
        assert!((650..950).contains(&both), "{both}");
    }
}
