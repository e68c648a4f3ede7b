//! Experiments: which account gets which arm, and whether an arm does harm.
//!
//! Owns        the assignment of accounts (`Experiments`), and the test of a metric that stays valid while people look
//!             (`Guardrail`).
//! Invariants  E1 an account gets the same arm on every node and after every restart, as long as the experiment has its
//!             salt and weights; a ramp changes who takes part, never the arm of an account that already does. E2 an
//!             account takes part in at most one experiment of a layer. E3 over any number of looks, the chance that a
//!             guardrail without a difference ever reports one is at most `alpha`, for means of many samples. (tests
//!             `e*_*`)
//! Limits      `EXPERIMENTS_MAX`, `ARMS_MAX`; no alarm before `SAMPLES_MIN` samples of both arms.
//! Not here    where experiments are stored, and what applies them: nothing does yet.
//!
//! The test is a mixture sequential probability ratio test: Robbins 1970; Johari, Koomen, Pekelis and Walsh, "Peeking
//! at A/B tests" (2017). With `D` the difference of means, `V` its variance, and a mixture `N(0, tau²)` of differences,
//! it rejects once `sqrt(V / (V + tau²)) * exp(D² tau² / (2 V (V + tau²)))` reaches `1 / alpha`. The interval is what
//! is not rejected.

use sha2::{Digest as _, Sha256};
use std::{collections::BTreeSet, ops::Range};

/// Experiments at once.
pub const EXPERIMENTS_MAX: usize = 64;
/// Arms of one experiment.
pub const EXPERIMENT_ARMS_MAX: usize = 8;
/// Parts of a layer: a thousandth of the accounts each.
pub const SLOTS: u16 = 1_000;
/// Samples of each arm below which there is no verdict.
pub const SAMPLES_MIN: u64 = 200;
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

    /// Names of the experiments that a session takes part in, each with the name of its arm.
    pub fn assign<'a>(&'a self, subject: &Subject<'a>) -> impl Iterator<Item = (&'a str, &'a str)> {
        let subject = *subject;
        self.0.iter().filter_map(move |experiment| Some((&*experiment.name, experiment.arm(&subject)?)))
    }
}

impl Experiment {
    fn arm(&self, subject: &Subject<'_>) -> Option<&str> {
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
        for (name, weight) in &self.arms {
            match drawn.checked_sub(u64::from(*weight)) {
                Some(left) => drawn = left,
                None => return Some(name),
            }
        }
        None
    }
}

/// Sums of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Moments {
    count: u64,
    mean: f64,
    /// Sum of squared differences from the mean.
    squares: f64,
}

impl Moments {
    fn push(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    fn variance_of_mean(&self) -> f64 {
        let count = self.count as f64;
        self.squares / (count - 1.0).max(1.0) / count.max(1.0)
    }
}

/// Watches a metric of which more is worse: bytes, CPU time, resumes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guardrail {
    alpha: f64,
    effect: f64,
    control: Moments,
    treatment: Moments,
}

/// Result of a guardrail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// There are too few samples.
    TooFew,
    /// The difference of means, and the interval of differences that are not excluded.
    Open(Interval),
    /// The treatment is worse.
    Worse(Interval),
}

/// A difference, treatment minus control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Difference of the means.
    pub difference: f64,
    /// It may be as low as this …
    pub low: f64,
    /// … or as high.
    pub high: f64,
}

impl Guardrail {
    /// With this false-alarm rate over all looks, most sensitive to differences of `effect`, a share of the control's
    /// mean. Several guardrails of an experiment divide its rate among them.
    #[must_use]
    pub fn new(alpha: f64, effect: f64) -> Self {
        Self {
            alpha: alpha.clamp(1e-9, 0.5),
            effect: effect.clamp(1e-6, 10.0),
            control: Moments::default(),
            treatment: Moments::default(),
        }
    }

    /// Takes a sample of an arm. One that is not finite is left out.
    pub fn push(&mut self, is_treatment: bool, value: f64) {
        if value.is_finite() {
            if is_treatment { self.treatment.push(value) } else { self.control.push(value) }
        }
    }

    /// The result of the samples so far. Any number of looks keeps the false-alarm rate.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let Self { alpha, effect, control, treatment } = self;
        if control.count.min(treatment.count) < SAMPLES_MIN {
            return Verdict::TooFew;
        }
        let difference = treatment.mean - control.mean;
        let variance = (control.variance_of_mean() + treatment.variance_of_mean()).max(f64::MIN_POSITIVE);
        let mixture = (effect * control.mean.abs()).powi(2).max(f64::MIN_POSITIVE);
        let both = variance + mixture;
        let half = (variance * both / mixture * (2.0 * (1.0 / alpha).ln() + (both / variance).ln())).sqrt();
        let interval = Interval { difference, low: difference - half, high: difference + half };
        if interval.low > 0.0 { Verdict::Worse(interval) } else { Verdict::Open(interval) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::Rng;

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
            experiments.assign(&subject(account)).map(|(_, arm)| arm.to_owned()).next()
        };
        let (mut small, mut large, mut third) = (0, 0, 0);
        for account in 0..4_000 {
            let (before, after) = (arms(0..100, account), arms(0..400, account));
            assert!(before.is_none() || before == after, "{account}");
            small += u32::from(before.is_some());
            large += u32::from(after.is_some());
            third += u32::from(after.as_deref() == Some("zstd:level=3"));
        }
        assert!((300..500).contains(&small) && (1_450..1_750).contains(&large), "{small} {large}");
        assert!((1_080..1_320).contains(&third), "three quarters of {large}: {third}");
        // The same on every machine, for ever: a change of this number would give running experiments other arms.
        assert_eq!(hash(["arm", "salt"], 42), hash(["arm", "salt"], 42));
        assert_ne!(hash(["arm", "salt"], 42), hash(["ar", "msalt"], 42));
    }

    #[test]
    fn e2_experiments_of_a_layer_have_no_account_in_common() {
        let all = vec![experiment("a", "l", 0..500), experiment("b", "l", 500..1_000), experiment("c", "m", 0..1_000)];
        let experiments = Experiments::new(all).unwrap();
        let mut both = BTreeSet::new();
        for account in 0..2_000 {
            let names: Vec<&str> = experiments.assign(&subject(account)).map(|(name, _)| name).collect();
            assert!(names == ["a", "c"] || names == ["b", "c"], "{names:?}");
            both.insert(names[0].to_owned());
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

    /// Four guardrails over 2,000 samples of each arm, looked at after every ten: the first alarm, if there is one.
    /// `worse` is what the treatment adds to the first metric from sample `from` on.
    fn simulate(seed: u64, worse: f64, from: u64) -> Option<u64> {
        const METRICS: usize = 4;
        let mut rng = Rng::new(seed);
        let mut guardrails = [Guardrail::new(0.05 / METRICS as f64, 0.05); METRICS];
        for sample in 1..=2_000 {
            for (metric, guardrail) in guardrails.iter_mut().enumerate() {
                for is_treatment in [false, true] {
                    // Skewed, as sizes and times are: a mean of 100 and a deviation of 50.
                    let value = 50.0 - 50.0 * (1.0 - rng.fraction()).ln();
                    let is_worse = is_treatment && metric == 0 && sample >= from;
                    guardrail.push(is_treatment, value + if is_worse { 100.0 * worse } else { 0.0 });
                }
            }
            if sample % 10 == 0 && guardrails.iter().any(|of| matches!(of.verdict(), Verdict::Worse(_))) {
                return Some(sample);
            }
        }
        None
    }

    #[test]
    fn e3_two_hundred_experiments_alarm_as_often_as_stated() {
        let alarms =
            |worse: f64, from: u64| (0..200).filter_map(|seed| simulate(seed, worse, from)).collect::<Vec<_>>();
        let none = alarms(0.0, 0).len();
        let (large, small, late) = (alarms(0.3, 0), alarms(0.1, 0), alarms(0.3, 1_000));
        println!(
            "alarms of 200: none planted {none}, +30 % {}, +10 % {}, +30 % late {}",
            large.len(),
            small.len(),
            late.len()
        );
        // 5 % of 200 are 10; one-sided, so that half of these are differences for the better.
        assert!(none <= 10, "{none} false alarms of 200");
        assert_eq!(large.len(), 200, "each large regression is found");
        assert!(large.iter().all(|sample| *sample <= 800), "{large:?}");
        assert!(small.len() >= 180, "{} small regressions of 200 are found", small.len());
        assert!(late.len() >= 190 && late.iter().filter(|sample| **sample < 1_000).count() <= 10, "{}", late.len());
    }

    #[test]
    fn a_guardrail_waits_for_samples_and_has_an_interval() {
        let mut guardrail = Guardrail::new(0.05, 0.05);
        for n in 0..SAMPLES_MIN {
            assert_eq!(guardrail.verdict(), Verdict::TooFew);
            guardrail.push(false, 100.0 + (n % 7) as f64);
            guardrail.push(true, 100.0 + (n % 5) as f64);
            guardrail.push(true, f64::NAN);
        }
        let Verdict::Open(Interval { difference, low, high }) = guardrail.verdict() else { panic!("{guardrail:?}") };
        assert!(low < difference && difference < high && difference < 0.0);
        (0..SAMPLES_MIN).for_each(|_| guardrail.push(true, 400.0));
        assert!(matches!(guardrail.verdict(), Verdict::Worse(interval) if interval.low > 0.0));
    }
}
