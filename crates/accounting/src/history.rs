//! History: the node's series over the last hour, in bounded memory.
//!
//! Owns        `History`: a sample of every series each second for ten minutes, and means of ten seconds for an hour.
//! Invariants  H1 a counter is kept as its rate per second, a gauge as it is, a histogram as the p50 and p99 of what
//!             came since the sample before. H2 a series that had no value then has a gap there, never a made-up 0.
//!             H3 `from_bytes` takes what `to_bytes` made, and refuses everything else. (tests `h1_*` to `h3_*`)
//! Limits      `SERIES_MAX` series, each 3,840 bytes; further ones are not kept, and `left_out` counts them.
//! Not here    the clock and the task that samples: `guildhall_telemetry::reports`.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Series of one node; a node has some 300.
pub const SERIES_MAX: usize = 4_096;
/// Seconds with a sample of their own.
pub const FINE_S: u64 = 600;
/// Seconds of one mean.
pub const STEP_S: u64 = 10;
/// Seconds of the whole history.
pub const WINDOW_S_MAX: u64 = 3_600;
const FINE: usize = FINE_S as usize;
/// Beginning of a stored history, with the number of its form.
const MAGIC: &[u8] = b"guildhall history 1\n";
const COARSE: usize = (WINDOW_S_MAX / STEP_S) as usize;

/// Value of a series at one moment.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// Grows until the process ends.
    Counter(f64),
    /// A value of now.
    Gauge(f64),
    /// Upper bounds, ascending, the last infinite; and the number in each bucket alone, since the start.
    Histogram(Vec<(f64, u64)>),
}

/// Values of all series at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Unix milliseconds.
    pub at_ms: u64,
    /// By name with labels, `sessions{state="live"}`; of histograms with `:p50` or `:p99` at the end.
    pub values: BTreeMap<Arc<str>, f32>,
}

/// A part of the history, as `GET /v1/node/history` sends it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeHistoryReport))]
pub struct HistoryReport {
    /// Seconds between two values.
    pub step_s: u64,
    /// Unix milliseconds of the values, ascending.
    pub at_ms: Vec<u64>,
    /// Values by series, each as long as `at_ms`; null where there is a gap.
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, Vec<Option<f32>>>))]
    pub series: BTreeMap<Arc<str>, Vec<Option<f32>>>,
}

/// Values of one series; a gap is NaN.
#[derive(Clone, Debug)]
struct Series {
    fine: Box<[f32]>,
    coarse: Box<[f32]>,
    /// Of the mean that is not complete yet.
    sum: f64,
    count: u32,
}

impl Series {
    fn new() -> Self {
        let gaps = |count: usize| vec![f32::NAN; count].into_boxed_slice();
        Self { fine: gaps(FINE), coarse: gaps(COARSE), sum: 0.0, count: 0 }
    }
}

/// Which places of a ring are filled, and when each was.
#[derive(Clone, Debug)]
struct Times {
    at_ms: Box<[u64]>,
    next: usize,
    filled: usize,
}

impl Times {
    fn new(places: usize) -> Self {
        Self { at_ms: vec![0; places].into_boxed_slice(), next: 0, filled: 0 }
    }

    /// The place of the next value.
    fn advance(&mut self, at_ms: u64) -> usize {
        let place = self.next;
        self.at_ms[place] = at_ms;
        self.next = (place + 1) % self.at_ms.len();
        self.filled = (self.filled + 1).min(self.at_ms.len());
        place
    }

    /// The newest `count` places, oldest first.
    fn newest(&self, count: usize) -> impl Iterator<Item = usize> + Clone {
        let (places, count) = (self.at_ms.len(), count.min(self.filled));
        let first = self.next + places - count;
        (0..count).map(move |index| (first + index) % places)
    }
}

/// The last hour of all series.
#[derive(Clone, Debug)]
pub struct History {
    series: BTreeMap<Arc<str>, Series>,
    last: BTreeMap<String, Reading>,
    last_at_ms: u64,
    fine: Times,
    coarse: Times,
    /// Samples in the mean that is not complete yet.
    pending: u64,
    left_out: u64,
}

impl Default for History {
    fn default() -> Self {
        Self {
            series: BTreeMap::new(),
            last: BTreeMap::new(),
            last_at_ms: 0,
            fine: Times::new(FINE),
            coarse: Times::new(COARSE),
            pending: 0,
            left_out: 0,
        }
    }
}

impl History {
    /// Adds a reading of all series, and returns their values. Call it once a second.
    pub fn push(&mut self, at_ms: u64, readings: BTreeMap<String, Reading>) -> Sample {
        let seconds = at_ms.saturating_sub(self.last_at_ms) as f64 / 1_000.0;
        let mut sample = Sample { at_ms, values: BTreeMap::new() };
        for (name, reading) in &readings {
            match (reading, self.last.get(name)) {
                (Reading::Gauge(value), _) => self.note(&mut sample, name, *value),
                (Reading::Counter(value), Some(Reading::Counter(before))) if seconds > 0.0 => {
                    self.note(&mut sample, name, (value - before).max(0.0) / seconds);
                }
                (Reading::Histogram(now), Some(Reading::Histogram(before))) => {
                    for (suffix, q) in [("p50", 0.5), ("p99", 0.99)] {
                        if let Some(value) = quantile(now, before, q) {
                            self.note(&mut sample, &format!("{name}:{suffix}"), value);
                        }
                    }
                }
                // The first reading: there is nothing to compare it with.
                (Reading::Counter(_) | Reading::Histogram(_), _) => {}
            }
        }
        self.last = readings;
        self.last_at_ms = at_ms;
        self.store(&sample);
        sample
    }

    /// Memory of all series in bytes, and their number.
    #[must_use]
    pub fn memory(&self) -> (u64, u64) {
        let series = self.series.len() as u64;
        (series * ((FINE + COARSE) * size_of::<f32>() + size_of::<Series>()) as u64, series)
    }

    /// Series that there was no room for, at the last sample.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The newest `window_s` seconds, at most an hour, of the series that are wanted.
    #[must_use]
    pub fn window(&self, window_s: u64, is_wanted: impl Fn(&str) -> bool) -> HistoryReport {
        let is_fine = window_s <= FINE_S;
        let (step_s, times) = if is_fine { (1, &self.fine) } else { (STEP_S, &self.coarse) };
        let places = times.newest((window_s / step_s) as usize);
        let value = |values: &[f32], place: usize| Some(values[place]).filter(|value| value.is_finite());
        let of_series = |series: &Series| {
            let values = if is_fine { &series.fine } else { &series.coarse };
            places.clone().map(|place| value(values, place)).collect()
        };
        HistoryReport {
            step_s,
            at_ms: places.clone().map(|place| times.at_ms[place]).collect(),
            series: self
                .series
                .iter()
                .filter(|(name, _)| is_wanted(name))
                .map(|(name, series)| (name.clone(), of_series(series)))
                .collect(),
        }
    }

    /// All values, for `from_bytes` of a later process. 3,840 bytes a series, and its name.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let [fine, coarse] = [&self.fine, &self.coarse].map(|times| times.newest(usize::MAX).collect::<Vec<_>>());
        let mut bytes = MAGIC.to_vec();
        for (times, places) in [(&self.fine, &fine), (&self.coarse, &coarse)] {
            bytes.extend((places.len() as u32).to_le_bytes());
            places.iter().for_each(|place| bytes.extend(times.at_ms[*place].to_le_bytes()));
        }
        bytes.extend((self.series.len() as u32).to_le_bytes());
        for (name, series) in &self.series {
            let name = &name.as_bytes()[..name.len().min(usize::from(u16::MAX))];
            bytes.extend((name.len() as u16).to_le_bytes());
            bytes.extend(name);
            fine.iter().for_each(|place| bytes.extend(series.fine[*place].to_le_bytes()));
            coarse.iter().for_each(|place| bytes.extend(series.coarse[*place].to_le_bytes()));
        }
        bytes
    }

    /// The history of an earlier process; none if the bytes are no history. Its counters are not compared with those
    /// of this process.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let mut history = Self::default();
        let mut counts = [0; 2];
        for (times, count) in [&mut history.fine, &mut history.coarse].into_iter().zip(&mut counts) {
            *count = u32::from_le_bytes(take(&mut rest)?) as usize;
            if *count > times.at_ms.len() {
                return None;
            }
            for _ in 0..*count {
                times.advance(u64::from_le_bytes(take(&mut rest)?));
            }
        }
        let series_count = u32::from_le_bytes(take(&mut rest)?) as usize;
        if series_count > SERIES_MAX {
            return None;
        }
        for _ in 0..series_count {
            let length = usize::from(u16::from_le_bytes(take(&mut rest)?));
            let (name, after) = rest.split_at_checked(length)?;
            rest = after;
            let mut series = Series::new();
            for (values, count) in [&mut series.fine, &mut series.coarse].into_iter().zip(counts) {
                for value in &mut values[..count] {
                    *value = f32::from_le_bytes(take(&mut rest)?);
                }
            }
            history.series.insert(std::str::from_utf8(name).ok()?.into(), series);
        }
        rest.is_empty().then_some(history)
    }

    fn note(&self, sample: &mut Sample, name: &str, value: f64) {
        let known = self.series.get_key_value(name).map(|(name, _)| name.clone());
        sample.values.insert(known.unwrap_or_else(|| name.into()), value as f32);
    }

    fn store(&mut self, sample: &Sample) {
        self.left_out = 0;
        for name in sample.values.keys() {
            if !self.series.contains_key(name) {
                if self.series.len() < SERIES_MAX {
                    self.series.insert(name.clone(), Series::new());
                } else {
                    self.left_out += 1;
                }
            }
        }
        let place = self.fine.advance(sample.at_ms);
        self.pending += 1;
        let mean_place = (self.pending == STEP_S).then(|| self.coarse.advance(sample.at_ms));
        for (name, series) in &mut self.series {
            let value = sample.values.get(name).copied();
            series.fine[place] = value.unwrap_or(f32::NAN);
            if let Some(value) = value {
                series.sum += f64::from(value);
                series.count += 1;
            }
            if let Some(mean_place) = mean_place {
                // Nothing divided by nothing is a gap, too.
                series.coarse[mean_place] = (series.sum / f64::from(series.count)) as f32;
                (series.sum, series.count) = (0.0, 0);
            }
        }
        if mean_place.is_some() {
            self.pending = 0;
        }
    }
}

/// The next bytes; none if there are fewer.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

/// Quantile `q` of the values between two readings, by linear interpolation in its bucket, as
/// Prometheus' `histogram_quantile` does; none without values. In the last bucket it is the lower bound.
fn quantile(now: &[(f64, u64)], before: &[(f64, u64)], q: f64) -> Option<f64> {
    let counts = now.iter().zip(before).map(|((bound, now), (_, before))| (*bound, now.saturating_sub(*before)));
    let total: u64 = counts.clone().map(|(_, count)| count).sum();
    if total == 0 {
        return None;
    }
    let rank = q * total as f64;
    let (mut below, mut lower) = (0, 0.0);
    for (bound, count) in counts {
        if (below + count) as f64 >= rank && count > 0 {
            let share = (rank - below as f64) / count as f64;
            return Some(if bound.is_finite() { lower + (bound - lower) * share } else { lower });
        }
        below += count;
        lower = bound;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(of: &[(&str, Reading)]) -> BTreeMap<String, Reading> {
        of.iter().map(|(name, reading)| ((*name).to_owned(), reading.clone())).collect()
    }

    fn values(sample: &Sample) -> Vec<(&str, f32)> {
        sample.values.iter().map(|(name, value)| (&**name, *value)).collect()
    }

    #[test]
    fn h1_each_kind_of_series_is_kept_in_its_way() {
        let mut history = History::default();
        let all = |sent: f64, buckets: [u64; 3]| {
            let bounds = [0.1, 0.2, f64::INFINITY];
            let latency = Reading::Histogram(bounds.into_iter().zip(buckets).collect());
            readings(&[("latency", latency), ("open", Reading::Gauge(7.0)), ("sent", Reading::Counter(sent))])
        };
        assert_eq!(values(&history.push(1_000, all(100.0, [0, 0, 0]))), [("open", 7.0)], "no rate of one reading");
        let second = history.push(3_000, all(150.0, [10, 10, 0]));
        assert_eq!(values(&second), [("latency:p50", 0.1), ("latency:p99", 0.198), ("open", 7.0), ("sent", 25.0)]);
        let third = history.push(4_000, all(150.0, [10, 10, 0]));
        assert_eq!(values(&third), [("open", 7.0), ("sent", 0.0)], "no quantile of nothing");
        let fourth = history.push(5_000, all(150.0, [10, 10, 4]));
        assert_eq!(values(&fourth)[0], ("latency:p50", 0.2), "of the last bucket the lower bound");
    }

    #[test]
    fn h2_a_missing_series_is_a_gap() {
        let mut history = History::default();
        for second in 1..=700u64 {
            let mut now = vec![("a", Reading::Gauge(second as f64))];
            if second > 650 {
                now.push(("b", Reading::Gauge(1.0)));
            }
            history.push(second * 1_000, readings(&now));
        }
        let fine = history.window(100, |_| true);
        assert_eq!((fine.step_s, fine.at_ms.len(), fine.at_ms[0], fine.at_ms[99]), (1, 100, 601_000, 700_000));
        let of = |report: &HistoryReport, name: &str| report.series[name].clone();
        assert_eq!((of(&fine, "a")[0], of(&fine, "a")[99]), (Some(601.0), Some(700.0)));
        assert_eq!((of(&fine, "b")[49], of(&fine, "b")[50]), (None, Some(1.0)));
        let hour = history.window(3_600, |name| name == "a");
        assert_eq!((hour.step_s, hour.at_ms.len(), hour.series.len()), (10, 70, 1));
        assert_eq!(of(&hour, "a")[0], Some(5.5), "the mean of 1 to 10");
        assert_eq!(history.window(600, |_| true).at_ms.len(), 600, "no more than it keeps");
    }

    #[test]
    fn h3_a_history_goes_on_in_the_next_process() {
        let mut history = History::default();
        for second in 1..=700u64 {
            let mut now = vec![("a", Reading::Gauge(second as f64)), ("sent", Reading::Counter(7.0 * second as f64))];
            if second > 650 {
                now.push(("b", Reading::Gauge(1.0)));
            }
            history.push(second * 1_000, readings(&now));
        }
        let bytes = history.to_bytes();
        let mut next = History::from_bytes(&bytes).unwrap();
        for window_s in [100, 600, 3_600] {
            assert_eq!(next.window(window_s, |_| true), history.window(window_s, |_| true));
        }
        // The new process counts from 0: its first reading has no rate, and the time between is not filled.
        let sample = next.push(900_000, readings(&[("a", Reading::Gauge(1.0)), ("sent", Reading::Counter(5.0))]));
        assert_eq!(values(&sample), [("a", 1.0)]);
        let report = next.window(3, |name| name == "a");
        assert_eq!(
            (report.at_ms, &report.series["a"]),
            (vec![699_000, 700_000, 900_000], &vec![Some(699.0), Some(700.0), Some(1.0)])
        );
        assert_eq!(next.to_bytes().len(), History::from_bytes(&next.to_bytes()).unwrap().to_bytes().len());
    }

    #[test]
    fn h3_other_bytes_are_refused() {
        let mut history = History::default();
        (1..30).for_each(|second| drop(history.push(second * 1_000, readings(&[("a", Reading::Gauge(1.0))]))));
        let bytes = history.to_bytes();
        for length in 0..bytes.len() {
            assert!(History::from_bytes(&bytes[..length]).is_none(), "{length} bytes of {}", bytes.len());
        }
        assert!(History::from_bytes(&[&bytes[..], &[0]].concat()).is_none());
        for (at, value) in [(0, 0), (MAGIC.len() + 3, 0xff), (bytes.len() - 1, 0x7f)] {
            let mut changed = bytes.clone();
            changed[at] = value;
            // Some values are as good as others; none panics.
            let _ = History::from_bytes(&changed);
        }
    }

    #[test]
    fn series_are_bounded() {
        let mut history = History::default();
        let many: BTreeMap<_, _> = (0..SERIES_MAX + 3).map(|n| (format!("s{n:05}"), Reading::Gauge(0.0))).collect();
        history.push(1_000, many);
        assert_eq!((history.series.len(), history.left_out()), (SERIES_MAX, 3));
    }
}
