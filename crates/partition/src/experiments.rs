//! Experiments: which account gets which arm.
//!
//! Owns        the assignment of accounts to arms (`Experiments`).
//! Invariants  E1 an account gets the same arm on every node and after every restart, as long as the experiment has its
//!             salt and weights; a ramp changes who takes part, never the arm of an account that already does. E2 an
//!             account takes part in at most one experiment of a layer. (tests `e*_*`)
//! Limits      `EXPERIMENTS_MAX`, `EXPERIMENT_ARMS_MAX`.
//! Not here    the streams of the arms, and the samples: `trial`. The test that stops an arm: `guildhall-lab`. Where
//!             experiments are stored: `guildhall`.     Spec  docs/lab.md "Experiments".

use sha2::{Digest as _, Sha256};
use std::{collections::BTreeSet, ops::Range};

/// Experiments at once.
pub const EXPERIMENTS_MAX: usize = 64;
/// Arms of one experiment.
pub const EXPERIMENT_ARMS_MAX: usize = 8;
/// Parts of a layer: a thousandth of the accounts each.
pub const SLOTS: u16 = 1_000;
const NAME_BYTES_MAX: usize = 64;

/// Accounts that may take part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audience {
    /// Only these platforms; none: all.
    pub platforms: BTreeSet<String>,
    /// Only bots, or only accounts that are none.
    pub bots: Option<bool>,
    /// Only members of this guild.
    pub guild_id: Option<u64>,
}

/// A session whose arms are looked up.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Id of the account.
    pub account_id: u64,
    /// Platform of the session.
    pub platform: &'a str,
    /// The account is a bot.
    pub is_bot: bool,
    /// Guilds of the session.
    pub guild_ids: &'a [u64],
}

/// An experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// Name, unique in the node.
    pub name: String,
    /// Decides the arm of each account, together with its id.
    pub salt: String,
    /// Experiments of one layer have no account in common.
    pub layer: String,
    /// Part of the layer, of `SLOTS`.
    pub slots: Range<u16>,
    /// Names of the arms with their weights; the first is the control.
    pub arms: Vec<(String, u32)>,
    /// Accounts that may take part.
    pub audience: Audience,
}

/// An experiment that cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExperimentError {
    /// `EXPERIMENTS_MAX` run.
    #[error("there are {EXPERIMENTS_MAX} experiments: stop one first")]
    TooMany,
    /// A name or salt of the wrong length.
    #[error("names, salts and layers have 1 to {NAME_BYTES_MAX} bytes: {0:?} has not")]
    Name(String),
    /// Two have the same name.
    #[error("there is an experiment {0:?}: choose another name")]
    Twice(String),
    /// Too few or too many arms, two of a name, or a weight outside of its range.
    #[error("{0}: give 2 to {EXPERIMENT_ARMS_MAX} arms with different names and weights from 1 to 10000")]
    Arms(String),
    /// Slots outside of the layer.
    #[error("{0}: its part of the layer must be within 0..{SLOTS}")]
    Slots(String),
    /// Slots of another experiment.
    #[error("{0} and {1} have accounts in common: give them different parts of the layer, or different layers")]
    Overlap(String, String),
}

/// The experiments of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Experiments(Vec<Experiment>);

fn hash(words: [&str; 2], account_id: u64) -> u64 {
    let mut hasher = Sha256::new();
    for word in words {
        hasher.update((word.len() as u64).to_le_bytes());
        hasher.update(word);
    }
    let hash = hasher.chain_update(account_id.to_le_bytes()).finalize();
    u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|at| hash[at]))
}

impl Experiments {
    /// Checks them against each other.
    ///
    /// # Errors
    /// One of them cannot run.
    pub fn new(all: Vec<Experiment>) -> Result<Self, ExperimentError> {
        if all.len() > EXPERIMENTS_MAX {
            return Err(ExperimentError::TooMany);
        }
        for (at, experiment) in all.iter().enumerate() {
            let Experiment { name, salt, layer, slots, arms, .. } = experiment;
            let arm_names = arms.iter().map(|(name, _)| name);
            for text in [name, salt, layer].into_iter().chain(arm_names) {
                if !(1..=NAME_BYTES_MAX).contains(&text.len()) {
                    return Err(ExperimentError::Name(text.chars().take(NAME_BYTES_MAX).collect()));
                }
            }
            let names: BTreeSet<&String> = arms.iter().map(|(name, _)| name).collect();
            let are_arms_valid = (2..=EXPERIMENT_ARMS_MAX).contains(&arms.len())
                && names.len() == arms.len()
                && arms.iter().all(|(_, weight)| (1..=10_000).contains(weight));
            if !are_arms_valid {
                return Err(ExperimentError::Arms(name.clone()));
            }
            if slots.start > slots.end || slots.end > SLOTS {
                return Err(ExperimentError::Slots(name.clone()));
            }
            for other in &all[..at] {
                if other.name == *name {
                    return Err(ExperimentError::Twice(name.clone()));
                }
                let is_apart =
                    other.layer != *layer || other.slots.end <= slots.start || slots.end <= other.slots.start;
                if !is_apart && !slots.is_empty() && !other.slots.is_empty() {
                    return Err(ExperimentError::Overlap(other.name.clone(), name.clone()));
                }
            }
        }
        Ok(Self(all))
    }

    /// The experiments that a session takes part in, each with its arm, both by their positions.
    pub fn assign<'a>(&'a self, subject: &Subject<'a>) -> impl Iterator<Item = (usize, usize)> + 'a {
        let subject = *subject;
        let arms = self.0.iter().map(move |experiment| experiment.arm(&subject));
        arms.enumerate().filter_map(|(at, arm)| Some((at, arm?)))
    }
}

impl Experiment {
    /// Position of the session's arm. None: it does not take part.
    fn arm(&self, subject: &Subject<'_>) -> Option<usize> {
        let Audience { platforms, bots, guild_id } = &self.audience;
        let is_admitted = (platforms.is_empty() || platforms.contains(subject.platform))
            && bots.is_none_or(|bots| bots == subject.is_bot)
            && guild_id.is_none_or(|guild_id| subject.guild_ids.contains(&guild_id));
        let slot = (hash(["layer", &self.layer], subject.account_id) % u64::from(SLOTS)) as u16;
        if !is_admitted || !self.slots.contains(&slot) {
            return None;
        }
        let sum: u64 = self.arms.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut drawn = hash(["arm", &self.salt], subject.account_id) % sum.max(1);
        self.arms.iter().position(|(_, weight)| match drawn.checked_sub(u64::from(*weight)) {
            Some(left) => {
                drawn = left;
                false
            }
            None => true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(name: &str, layer: &str, slots: Range<u16>) -> Experiment {
        Experiment {
            name: name.to_owned(),
            salt: format!("{name} 1"),
            layer: layer.to_owned(),
            slots,
            arms: vec![("zstd".to_owned(), 1), ("zstd:level=3".to_owned(), 3)],
            audience: Audience::default(),
        }
    }

    fn subject(account_id: u64) -> Subject<'static> {
        Subject { account_id, platform: "web", is_bot: false, guild_ids: &[7] }
    }

    #[test]
    fn e1_a_ramp_changes_no_arm_of_an_account_that_takes_part() {
        let arms = |slots: Range<u16>, account: u64| {
            let experiments = Experiments::new(vec![experiment("a", "l", slots)]).unwrap();
            experiments.assign(&subject(account)).map(|(_, arm)| arm).next()
        };
        let (mut small, mut large, mut third) = (0, 0, 0);
        for account in 0..4_000 {
            let (before, after) = (arms(0..100, account), arms(0..400, account));
            assert!(before.is_none() || before == after, "{account}");
            small += u32::from(before.is_some());
            large += u32::from(after.is_some());
            third += u32::from(after == Some(1));
        }
        assert!((300..500).contains(&small) && (1_450..1_750).contains(&large), "{small} {large}");
        assert!((1_080..1_320).contains(&third), "three quarters of {large}: {third}");
        // The same on every machine, for ever: a change of this number would give running experiments other arms.
        assert_eq!(hash(["arm", "salt"], 42), 13_234_299_546_346_718_054);
        assert_ne!(hash(["arm", "salt"], 42), hash(["ar", "msalt"], 42));
    }

    #[test]
    fn e2_experiments_of_a_layer_have_no_account_in_common() {
        let all = vec![experiment("a", "l", 0..500), experiment("b", "l", 500..1_000), experiment("c", "m", 0..1_000)];
        let experiments = Experiments::new(all).unwrap();
        let mut both = BTreeSet::new();
        for account in 0..2_000 {
            let of_account: Vec<usize> = experiments.assign(&subject(account)).map(|(at, _)| at).collect();
            assert!(of_account == [0, 2] || of_account == [1, 2], "{of_account:?}");
            both.insert(of_account[0]);
        }
        assert_eq!(both.len(), 2);
        let overlap = vec![experiment("a", "l", 0..501), experiment("b", "l", 500..1_000)];
        assert_eq!(Experiments::new(overlap), Err(ExperimentError::Overlap("a".to_owned(), "b".to_owned())));
    }

    #[test]
    fn an_audience_is_obeyed_and_mistakes_are_refused() {
        let of = |change: fn(&mut Experiment)| {
            let mut one = experiment("a", "l", 0..1_000);
            change(&mut one);
            Experiments::new(vec![one])
        };
        for (change, takes_part) in [
            ((|one| one.audience.bots = Some(true)) as fn(&mut Experiment), false),
            (|one| one.audience.bots = Some(false), true),
            (|one| one.audience.guild_id = Some(8), false),
            (|one| one.audience.guild_id = Some(7), true),
            (|one| one.audience.platforms = ["vr".to_owned()].into(), false),
            (|one| one.audience.platforms = ["web".to_owned()].into(), true),
        ] {
            assert_eq!(of(change).unwrap().assign(&subject(5)).count() == 1, takes_part);
        }
        for change in [
            (|one| one.name.clear()) as fn(&mut Experiment),
            |one| one.arms.truncate(1),
            |one| one.arms[0].1 = 0,
            |one| one.arms[0].0 = "zstd:level=3".to_owned(),
            |one| one.slots = 0..1_001,
        ] {
            assert!(of(change).is_err());
        }
        let twice = vec![experiment("a", "l", 0..1), experiment("a", "m", 0..1)];
        assert_eq!(Experiments::new(twice), Err(ExperimentError::Twice("a".to_owned())));
    }
}
