//! Show: the contents of a recording, and its bytes under several arms.
//!
//! Owns        the table of `guildhall lab show`.
//! Limits      `ARMS_MAX` arms; a recording is read as a stream, whatever its size.

use crate::{
    arms::{ArmRun, Message, Sum},
    recording::{Line, RecordingReader},
};
use anyhow::{Context as _, Result, ensure};
use guildhall_codec::{Arm, Dictionaries, Encoding, transcode_json};
use guildhall_model::EventName;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::Read,
};

/// Arms of one table.
pub const ARMS_MAX: usize = 16;
/// Arms without `--arm`: those of the first comparison.
pub const DEFAULT_ARMS: [&str; 5] = ["zlib", "zstd-once", "zstd:level=3", "zstd", "shared-match"];

/// Contents of a recording, and sums of each arm.
#[derive(Debug)]
pub struct Summary {
    /// Sessions by encoding.
    pub sessions: BTreeMap<&'static str, BTreeSet<u64>>,
    /// Milliseconds of the last line.
    pub ended_at_ms: u64,
    /// How sessions ended.
    pub ends: BTreeMap<String, u64>,
    /// Dispatches by rule.
    pub rules: BTreeMap<String, u64>,
    /// Each arm with its sums.
    pub runs: Vec<ArmRun>,
    /// Dispatches of unknown events.
    pub unknown_count: u64,
}

/// Calls `each` for every dispatch of a recording, with the body in the session's encoding.
///
/// # Errors
/// The recording's, or those of `each`.
pub fn for_each<R: Read>(reader: &mut RecordingReader<R>, mut each: impl FnMut(Step<'_>) -> Result<()>) -> Result<()> {
    let mut etf = Vec::new();
    while let Some(line) = reader.next_line()? {
        match line {
            Line::End(end) => each(Step::End { session: end.session, at_ms: end.at_ms, why: &end.ended })?,
            Line::Dispatch(dispatch) => {
                let encoding = dispatch.encoding().with_context(|| {
                    format!("a line has encoding {:?}: this program reads json and etf", dispatch.encoding)
                })?;
                let Some(name) = EventName::from_wire(&dispatch.event) else {
                    each(Step::Unknown)?;
                    continue;
                };
                let body = match encoding {
                    Encoding::Json => dispatch.body.get().as_bytes(),
                    Encoding::Etf => {
                        etf.clear();
                        transcode_json(dispatch.body.get().as_bytes(), &mut etf)?;
                        &etf
                    }
                };
                let (session, seq, rule) = (dispatch.session, dispatch.seq, &*dispatch.rule);
                each(Step::Message(dispatch.at_ms, Message { session, encoding, name, seq, rule, body }))?;
            }
        }
    }
    Ok(())
}

/// A line of a recording, for encoders.
#[derive(Debug)]
pub enum Step<'a> {
    /// A dispatch, and its milliseconds since the start.
    Message(u64, Message<'a>),
    /// A session has no further lines.
    End {
        /// Ordinal of the session.
        session: u64,
        /// Milliseconds since the start.
        at_ms: u64,
        /// How it ended.
        why: &'a str,
    },
    /// A dispatch of an unknown event.
    Unknown,
}

/// Reads a recording with these arms.
///
/// # Errors
/// The recording is damaged, or an arm's encoder cannot be made.
pub fn summarize<R: Read>(
    reader: &mut RecordingReader<R>,
    arms: &[Arm],
    dictionaries: &Dictionaries,
) -> Result<Summary> {
    ensure!(arms.len() <= ARMS_MAX, "{} arms are too many: give at most {ARMS_MAX}", arms.len());
    let encodings: &[Encoding] = match arms.iter().find_map(Arm::dictionary) {
        None => &[Encoding::Json, Encoding::Etf],
        // A dictionary is for one encoding, and so is a recording of such arms.
        Some(id) => match dictionaries.find(id).map(|known| known.encoding) {
            Some(Encoding::Etf) => &[Encoding::Etf],
            _ => &[Encoding::Json],
        },
    };
    let runs: Result<Vec<_>> = arms.iter().map(|arm| ArmRun::new(*arm, encodings, dictionaries)).collect();
    let mut summary = Summary {
        sessions: BTreeMap::new(),
        ended_at_ms: 0,
        ends: BTreeMap::new(),
        rules: BTreeMap::new(),
        runs: runs?,
        unknown_count: 0,
    };
    for_each(reader, |step| {
        match step {
            Step::Unknown => summary.unknown_count += 1,
            Step::End { session, at_ms, why } => {
                summary.ended_at_ms = at_ms;
                *summary.ends.entry(why.to_owned()).or_default() += 1;
                summary.runs.iter_mut().for_each(|run| run.end(session));
            }
            Step::Message(at_ms, message) => {
                summary.ended_at_ms = at_ms;
                summary.sessions.entry(message.encoding.name()).or_default().insert(message.session);
                *summary.rules.entry(message.rule.to_owned()).or_default() += 1;
                for run in &mut summary.runs {
                    run.add(&message)?;
                }
            }
        }
        Ok(())
    })?;
    Ok(summary)
}

impl Summary {
    /// The tables, as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let sessions: Vec<String> =
            self.sessions.iter().map(|(encoding, sessions)| format!("{} {encoding}", sessions.len())).collect();
        let list = |of: &BTreeMap<String, u64>| {
            of.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
        };
        // Writing to a String does not fail.
        let _ = writeln!(out, "sessions: {}; {:.1} s", sessions.join(", "), self.ended_at_ms as f64 / 1_000.0);
        let _ = writeln!(out, "dispatches by rule: {}", list(&self.rules));
        if !self.ends.is_empty() {
            let _ = writeln!(out, "sessions that ended: {}", list(&self.ends));
        }
        if self.unknown_count > 0 {
            let _ =
                writeln!(out, "left out: {} dispatches of events that this program does not know", self.unknown_count);
        }
        let Some(first) = self.runs.first() else { return out };
        for (number, run) in (1..).zip(&self.runs) {
            let _ = writeln!(out, "arm {number}: {}", run.arm());
        }
        let mut row = |label: &str, of: &dyn Fn(usize, &ArmRun) -> String| {
            let cells: Vec<String> = self.runs.iter().enumerate().map(|(index, run)| of(index, run)).collect();
            let cells: String = cells.iter().map(|cell| format!(" {cell:>9}")).collect();
            let _ = writeln!(out, "{label:<55}{cells}");
        };
        let counted = |name: &str, sum: Sum| format!("{name:<32} {:>9} {:>12}", sum.count, sum.plain_bytes);
        row("", &|_, _| String::new());
        row(&format!("{:<32} {:>9} {:>12}", "event", "count", "bytes"), &|index, _| format!("ratio {}", index + 1));
        let mut events: Vec<(&str, Sum)> = first.by_event().iter().map(|(name, sum)| (*name, *sum)).collect();
        events.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.plain_bytes));
        for (name, sum) in events {
            let ratio = |run: &ArmRun| run.by_event().get(name).map_or(0.0, Sum::ratio);
            row(&counted(name, sum), &|_, run| format!("{:.2}", ratio(run)));
        }
        row(&counted("all", first.total()), &|_, run| format!("{:.2}", run.total().ratio()));
        row("CPU us per dispatch", &|_, run| format!("{:.2}", run.total().cpu_us()));
        row("KiB per connection", &|_, run| format!("{:.1}", run.connection_bytes() as f64 / 1024.0));
        out
    }
}
