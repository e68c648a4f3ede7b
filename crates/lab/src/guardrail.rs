//! Guardrail: the test of a metric that stays valid while people look.
//!
//! Invariants  E3 over any number of looks, the chance that a guardrail without a difference ever reports one is at
//!             most `alpha`, for means of many samples. (tests `e3_*`)
//! Limits      no alarm before `samples_min` samples of both arms.
//! Not here    which metrics are watched: `watch`. Assignment: `guildhall_partition::Experiments`.
//!
//! The test is a mixture sequential probability ratio test: Robbins 1970; Johari, Koomen, Pekelis and Walsh, "Peeking
//! at A/B tests" (2017). With `D` the difference of means, `V` its variance (`variance_of_difference`), and a mixture
//! `N(0, tau²)` of differences, it rejects once `sqrt(V / (V + tau²)) * exp(D² tau² / (2 V (V + tau²)))` reaches `1 /
//! alpha`. The interval has the differences that are not rejected.

use serde::{Deserialize, Serialize};

/// Samples of each arm below which there is no verdict, unless the experiment states another number.
pub const GUARDRAIL_SAMPLES_MIN: u64 = 200;

/// Sums of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Moments {
    pub count: u64,
    pub mean: f64,
    /// Sum of squared differences from the mean.
    squares: f64,
}

impl Moments {
    pub fn push(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    /// Adds the samples of another node.
    pub fn merge(&mut self, other: &Self) {
        let count = self.count + other.count;
        if other.count == 0 || count == 0 {
            return;
        }
        let (mine, theirs) = (self.count as f64, other.count as f64);
        let delta = other.mean - self.mean;
        self.mean += delta * theirs / count as f64;
        self.squares += other.squares + delta * delta * mine * theirs / count as f64;
        self.count = count;
    }

    fn variance(&self) -> f64 {
        self.squares / (self.count as f64 - 1.0).max(1.0)
    }
}

/// Watches a metric of which more is worse: bytes, CPU time, resumes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guardrail {
    alpha: f64,
    effect: f64,
    /// Differences of this size are looked for, however small the control's mean is.
    effect_min: f64,
    /// Share of the control's mean by which the treatment may be worse.
    tolerance: f64,
    samples_min: u64,
    /// Samples are 0 or 1.
    is_rate: bool,
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
            effect_min: 0.0,
            tolerance: 0.0,
            samples_min: GUARDRAIL_SAMPLES_MIN,
            is_rate: false,
            control: Moments::default(),
            treatment: Moments::default(),
        }
    }

    /// With no verdict below this number of samples of both arms.
    #[must_use]
    pub fn with_samples_min(self, samples_min: u64) -> Self {
        Self { samples_min: samples_min.max(2), ..self }
    }

    /// Alarms only if the treatment is worse by more than this share of the control's mean.
    #[must_use]
    pub fn with_tolerance(self, tolerance: f64) -> Self {
        Self { tolerance: tolerance.max(0.0), ..self }
    }

    /// Looks for differences of this size too, where the control's mean is near zero.
    #[must_use]
    pub fn with_effect_min(self, effect_min: f64) -> Self {
        Self { effect_min: effect_min.max(0.0), ..self }
    }

    /// Of samples that are 0 or 1. Their variance is estimated with one more sample, so that it is never zero.
    #[must_use]
    pub fn of_rate(self) -> Self {
        Self { is_rate: true, ..self }
    }

    /// Of sums that were made elsewhere.
    #[must_use]
    pub(crate) fn with_sums(self, control: Moments, treatment: Moments) -> Self {
        Self { control, treatment, ..self }
    }

    /// Variance of the samples of an arm.
    fn variance(&self, of: &Moments) -> f64 {
        if !self.is_rate {
            return of.variance();
        }
        let count = of.count as f64;
        let share = (of.mean * count + 0.5) / (count + 1.0);
        share * (1.0 - share)
    }

    /// Variance of the difference of means: the larger one of that by each arm's own variance, and that by the variance
    /// of both together. A small arm that has not met the rare and large values of its distribution has too small a
    /// variance of its own.
    fn variance_of_difference(&self) -> f64 {
        let Self { control, treatment, .. } = self;
        let [of_control, of_treatment] = [control, treatment].map(|arm| self.variance(arm));
        let [control, treatment] = [control, treatment].map(|arm| arm.count.max(1) as f64);
        let own = of_control / control + of_treatment / treatment;
        let both = (of_control * control + of_treatment * treatment) / (control + treatment);
        own.max(both * (control.recip() + treatment.recip())).max(f64::MIN_POSITIVE)
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
        let Self { alpha, effect, effect_min, tolerance, samples_min, control, treatment, .. } = self;
        if control.count.min(treatment.count) < *samples_min {
            return Verdict::TooFew;
        }
        let difference = treatment.mean - control.mean;
        let variance = self.variance_of_difference();
        let mixture = (effect * control.mean.abs()).max(*effect_min).powi(2).max(f64::MIN_POSITIVE);
        let both = variance + mixture;
        let half = (variance * both / mixture * (2.0 * (1.0 / alpha).ln() + (both / variance).ln())).sqrt();
        let interval = Interval { difference, low: difference - half, high: difference + half };
        let is_worse = interval.low > tolerance * control.mean.abs();
        if is_worse { Verdict::Worse(interval) } else { Verdict::Open(interval) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::Rng;

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
    fn a_rate_of_zero_in_the_control_is_no_obstacle_and_one_case_is_no_alarm() {
        let rate = || Guardrail::new(0.01, 0.2).with_samples_min(30).with_effect_min(0.1).of_rate();
        let (mut broken, mut once) = (rate(), rate());
        for n in 0..30 {
            [&mut broken, &mut once].into_iter().for_each(|of| of.push(false, 0.0));
            broken.push(true, 1.0);
            once.push(true, f64::from(u8::from(n == 7)));
        }
        assert!(matches!(broken.verdict(), Verdict::Worse(of) if of.low > 0.5), "{broken:?}");
        assert!(matches!(once.verdict(), Verdict::Open(_)), "{once:?}");
    }

    #[test]
    fn a_tolerance_admits_differences_up_to_it() {
        let of = |worse: f64| {
            let mut guardrail = Guardrail::new(0.05, 0.05).with_tolerance(0.1);
            for n in 0..2_000 {
                let value = 100.0 + f64::from(n % 11);
                guardrail.push(false, value);
                guardrail.push(true, value * (1.0 + worse));
            }
            guardrail.verdict()
        };
        assert!(matches!(of(0.08), Verdict::Open(interval) if interval.low > 0.0));
        assert!(matches!(of(0.15), Verdict::Worse(_)));
    }

    #[test]
    fn sums_of_two_nodes_are_those_of_one() {
        let values: Vec<f64> = (0..100).map(|n| f64::from(n * n % 37)).collect();
        let sums = |values: &[f64]| {
            let mut sums = Moments::default();
            values.iter().for_each(|value| sums.push(*value));
            sums
        };
        let (mut merged, all) = (sums(&values[..30]), sums(&values));
        merged.merge(&sums(&values[30..]));
        merged.merge(&Moments::default());
        assert_eq!(merged.count, all.count);
        assert!((merged.mean - all.mean).abs() < 1e-9 && (merged.squares - all.squares).abs() < 1e-6);
    }

    #[test]
    fn a_guardrail_waits_for_samples_and_has_an_interval() {
        let mut guardrail = Guardrail::new(0.05, 0.05);
        for n in 0..GUARDRAIL_SAMPLES_MIN {
            assert_eq!(guardrail.verdict(), Verdict::TooFew);
            guardrail.push(false, 100.0 + (n % 7) as f64);
            guardrail.push(true, 100.0 + (n % 5) as f64);
            guardrail.push(true, f64::NAN);
        }
        let Verdict::Open(Interval { difference, low, high }) = guardrail.verdict() else { panic!("{guardrail:?}") };
        assert!(low < difference && difference < high && difference < 0.0);
        (0..GUARDRAIL_SAMPLES_MIN).for_each(|_| guardrail.push(true, 400.0));
        assert!(matches!(guardrail.verdict(), Verdict::Worse(interval) if interval.low > 0.0));
    }
}
