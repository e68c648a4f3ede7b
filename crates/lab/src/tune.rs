//! Tuning: which arm is worth its CPU and memory on a recording.
//!
//! Owns        the arms that are tried, their measurement, and the Pareto front.
//! Invariants  U1 an arm is on the front if no other has fewer or equal bytes, CPU and memory, and less of one. U2
//!             equal seeds draw equal arms. (tests `u*_*`)
//! Not here    the file of measurements, and progress: `guildhall::cli::lab`.

use crate::{arms::ArmRun, corpus::Corpus};
use anyhow::Result;
use guildhall_codec::{Arm, Dictionaries, ZlibParams, ZstdParams};
use guildhall_stdx::Rng;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Arms of the article's tuning: level 6, window 18, tables 16, as upstream publishes it.
#[must_use]
pub fn published() -> Arm {
    Arm::Zstd(ZstdParams::default(), None)
}

/// A measurement of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The arm as it is printed.
    pub arm: String,
    /// Bytes per dispatch on the wire.
    pub bytes: f64,
    /// Bytes before compression per byte after it.
    pub ratio: f64,
    /// CPU time per dispatch, microseconds.
    pub cpu_us: f64,
    /// Memory per connection.
    pub memory_bytes: u64,
}

impl Trial {
    fn figures(&self) -> [f64; 3] {
        [self.bytes, self.cpu_us, self.memory_bytes as f64]
    }

    /// Each figure is at most the other's, and one is below it.
    fn beats(&self, other: &Self) -> bool {
        let pairs = || self.figures().into_iter().zip(other.figures());
        pairs().all(|(mine, theirs)| mine <= theirs) && pairs().any(|(mine, theirs)| mine < theirs)
    }
}

/// Every arm of the grid, the published one first.
#[must_use]
pub fn grid() -> Vec<Arm> {
    let mut arms = vec![published(), Arm::SharedMatch(None), Arm::Prepared];
    arms.extend([1, 3, 6].map(|level| Arm::ZstdOnce { level, dictionary: None }));
    for level in [1, 3, 6, 9] {
        for (window_bits, mem_level) in [(13, 7), (15, 8), (15, 9)] {
            arms.push(Arm::Zlib(ZlibParams { level, window_bits, mem_level }));
        }
    }
    for level in [1, 3, 6, 9, 12] {
        for window_log in [15, 17, 18, 19, 21] {
            for log in [14, 16, 18] {
                let params = ZstdParams { level, window_log, chain_log: log, hash_log: log, ..ZstdParams::default() };
                arms.push(Arm::Zstd(params, None));
            }
        }
    }
    let mut seen: Vec<Arm> = Vec::new();
    arms.retain(|arm| {
        !seen.contains(arm) && {
            seen.push(*arm);
            true
        }
    });
    arms
}

/// The published arm, and `count` drawn ones.
#[must_use]
pub fn random(count: usize, seed: u64) -> Vec<Arm> {
    let mut rng = Rng::new(seed);
    let mut arms = vec![published()];
    while arms.len() <= count {
        let mut from = |min: i64, max: i64| min + rng.below((max - min + 1) as u64) as i64;
        let arm = match from(0, 9) {
            0 => Arm::ZstdOnce { level: from(1, 12) as i32, dictionary: None },
            1 | 2 => Arm::Zlib(ZlibParams {
                level: from(1, 9) as u8,
                window_bits: from(10, 15) as u8,
                mem_level: from(5, 9) as u8,
            }),
            _ => Arm::Zstd(
                ZstdParams {
                    level: from(1, 15) as i32,
                    window_log: from(14, 22) as u32,
                    chain_log: from(12, 20) as u32,
                    hash_log: from(12, 20) as u32,
                    block_bytes_max: 1 << from(10, 15),
                },
                None,
            ),
        };
        if !arms.contains(&arm) {
            arms.push(arm);
        }
    }
    arms
}

/// Measures an arm on all sessions of a corpus.
///
/// # Errors
/// The arm's encoder cannot be made.
pub fn measure(corpus: &Corpus, arm: Arm, dictionaries: &Dictionaries) -> Result<Trial> {
    let mut run = ArmRun::new(arm, &corpus.encodings(), dictionaries)?;
    for recorded in &corpus.messages {
        run.add(&recorded.message())?;
    }
    let total = run.total();
    Ok(Trial {
        arm: arm.to_string(),
        bytes: total.wire_bytes as f64 / total.count.max(1) as f64,
        ratio: total.ratio(),
        cpu_us: total.cpu_us(),
        memory_bytes: run.connection_bytes() as u64,
    })
}

/// Trials that no other beats, fewest bytes first.
#[must_use]
pub fn front(trials: &[Trial]) -> Vec<&Trial> {
    let mut front: Vec<&Trial> = trials.iter().filter(|of| !trials.iter().any(|other| other.beats(of))).collect();
    front.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    front
}

/// The front as a table; the published arm is in it in any case, marked with an asterisk.
#[must_use]
pub fn table(trials: &[Trial]) -> String {
    let published = published().to_string();
    let mut rows = front(trials);
    if !rows.iter().any(|row| row.arm == published) {
        rows.extend(trials.iter().find(|trial| trial.arm == published));
    }
    let mut out = format!("  {:<56} {:>9} {:>7} {:>9} {:>9}\n", "arm", "bytes", "ratio", "CPU us", "KiB");
    for Trial { arm, bytes, ratio, cpu_us, memory_bytes } in rows {
        let mark = if *arm == published { '*' } else { ' ' };
        let kib = *memory_bytes as f64 / 1024.0;
        // Writing to a String does not fail.
        let _ = writeln!(out, "{mark} {arm:<56} {bytes:>9.1} {ratio:>7.2} {cpu_us:>9.2} {kib:>9.1}");
    }
    out.push_str("Bytes and CPU time per dispatch, memory per connection. * the published tuning.\n");
    out
}

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 520.0;
const MARGIN: f64 = 60.0;

/// All trials as a picture: CPU time to the right, bytes upwards, memory as the size of a dot; the front is joined.
#[must_use]
pub fn svg(trials: &[Trial]) -> String {
    let max = |of: fn(&Trial) -> f64| trials.iter().map(of).fold(1.0, f64::max) * 1.05;
    let (cpu_max, bytes_max) = (max(|trial| trial.cpu_us), max(|trial| trial.bytes));
    let x = |trial: &Trial| MARGIN + trial.cpu_us / cpu_max * (WIDTH - 2.0 * MARGIN);
    let y = |trial: &Trial| HEIGHT - MARGIN - trial.bytes / bytes_max * (HEIGHT - 2.0 * MARGIN);
    let radius = |trial: &Trial| 3.0 + (trial.memory_bytes as f64 / 65_536.0).sqrt().min(12.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let (left, bottom, right) = (MARGIN, HEIGHT - MARGIN, WIDTH - MARGIN);
    // Writing to a String does not fail.
    let _ = writeln!(out, "<path d=\"M{left} {MARGIN}V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>");
    for part in 0..=4 {
        let part = f64::from(part) / 4.0;
        let at = left + part * (right - left);
        let _ = writeln!(
            out,
            "<text x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{:.1}</text>",
            bottom + 18.0,
            part * cpu_max
        );
        let at = bottom - part * (bottom - MARGIN);
        let _ =
            writeln!(out, "<text x=\"{}\" y=\"{at}\" text-anchor=\"end\">{:.0}</text>", left - 6.0, part * bytes_max);
    }
    let _ = writeln!(out, "<text x=\"{right}\" y=\"{}\" text-anchor=\"end\">CPU µs per dispatch</text>", bottom + 40.0);
    let _ = writeln!(out, "<text x=\"{left}\" y=\"{}\">bytes per dispatch</text>", MARGIN - 14.0);
    let (front, published) = (front(trials), published().to_string());
    let mut joined = front.clone();
    joined.sort_by(|a, b| a.cpu_us.total_cmp(&b.cpu_us));
    let points: Vec<String> = joined.iter().map(|trial| format!("{:.1},{:.1}", x(trial), y(trial))).collect();
    let _ = writeln!(out, "<polyline points=\"{}\" fill=\"none\" stroke=\"#9ab\"/>", points.join(" "));
    for trial in trials {
        let color = match trial {
            trial if trial.arm == published => "#d33",
            trial if front.contains(&trial) => "#27a",
            _ => "#ccc",
        };
        let Trial { arm, bytes, cpu_us, memory_bytes, .. } = trial;
        let _ = writeln!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{:.1}\" fill=\"{color}\" fill-opacity=\"0.7\"><title>{arm}: {bytes:.1} \
             bytes, {cpu_us:.2} µs, {} KiB</title></circle>",
            x(trial),
            y(trial),
            radius(trial),
            memory_bytes >> 10
        );
    }
    if let Some(trial) = trials.iter().find(|trial| trial.arm == published) {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#d33\">published</text>",
            x(trial) + 14.0,
            y(trial) - 8.0
        );
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(arm: &str, bytes: f64, cpu_us: f64, memory_bytes: u64) -> Trial {
        Trial { arm: arm.to_owned(), bytes, ratio: 1.0, cpu_us, memory_bytes }
    }

    #[test]
    fn u1_the_front_has_all_undominated_points() {
        let trials = [
            trial("a", 10.0, 10.0, 10),
            trial("b", 20.0, 5.0, 10),
            trial("beaten by b", 20.0, 6.0, 10),
            trial("c", 30.0, 30.0, 1),
            trial("as a", 10.0, 10.0, 10),
        ];
        let names: Vec<&str> = front(&trials).iter().map(|trial| &*trial.arm).collect();
        assert_eq!(names, ["a", "as a", "b", "c"]);
        assert!(front(&[]).is_empty());
    }

    #[test]
    fn u2_arms_are_different_valid_and_begin_with_the_published_one() {
        for arms in [grid(), random(40, 7)] {
            assert_eq!(arms[0], published());
            let mut texts: Vec<String> = arms.iter().map(ToString::to_string).collect();
            assert!(texts.iter().all(|text| text.parse::<Arm>().is_ok()));
            texts.sort();
            texts.dedup();
            assert_eq!(texts.len(), arms.len());
        }
        assert_eq!(random(40, 7), random(40, 7));
        assert_ne!(random(40, 7), random(40, 8));
        assert_eq!(random(40, 7).len(), 41);
    }

    #[test]
    fn the_published_arm_is_marked_in_table_and_picture() {
        let trials = [trial(&published().to_string(), 20.0, 9.0, 1 << 20), trial("prepared", 10.0, 1.0, 0)];
        let text = table(&trials);
        assert!(text.contains("* zstd:level=6,window=18") && text.contains("  prepared"), "{text}");
        let picture = svg(&trials);
        assert!(picture.contains(">published</text>") && picture.matches("<circle").count() == 2, "{picture}");
    }
}
