//! Training: a dictionary from recordings, and its gain on other sessions than those of the training.
//!
//! Owns        the sizes and ways that are tried, and the choice among them.
//! Invariants  V1 no session is both trained on and measured with, nor are events of the same time. V2 a recording with
//!             contents of users is refused: the node serves dictionaries without a token.
//! Limits      `SAMPLES_BYTES_MAX` of samples, spread evenly over the recording; COVER needs some ten times that.
//! Not here    the folder of dictionaries: `guildhall::dictionaries`.

use crate::{
    arms::{ArmRun, Sum},
    corpus::{Corpus, Recorded},
    samples::SAMPLES_MIN,
};
use anyhow::{Context as _, Result, ensure};
use guildhall_codec::{
    Arm, Dictionaries, Dictionary, DispatchFrame, Encoding, Framing, KnownDictionary, Training, ZstdParams,
};
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    sync::Arc,
};

/// Sizes that are tried, bytes.
pub const SIZES: [usize; 4] = [16 << 10, 32 << 10, 64 << 10, 112 << 10];
const SAMPLES_BYTES_MAX: usize = 8 << 20;
/// Longer messages are sent to one session each, and too large for a dictionary.
const SAMPLE_BYTES_MAX: usize = 16 << 10;
/// Where the parts of a stream end; behind the last it is warm.
const PARTS: [(&str, u64); 3] = [("first 100", 100), ("first 1,000", 1_000), ("warm", u64::MAX)];

/// A dictionary, and bytes of the held-out sessions without it and with it.
#[derive(Debug)]
pub struct Trained {
    /// The dictionary with the fewest bytes of the held-out sessions.
    pub dictionary: Arc<Dictionary>,
    /// How it was made, for people.
    pub by: String,
    /// Each part of a stream: its name, and sums without and with the dictionary.
    pub by_part: Vec<(&'static str, [Sum; 2])>,
    /// The same of each event, over the first 1,000 dispatches of each session.
    pub by_event: BTreeMap<&'static str, [Sum; 2]>,
    /// Every trial: its name, and bytes of the first 1,000 dispatches.
    pub trials: Vec<(String, u64)>,
}

/// Trains dictionaries of several sizes by both ways, and returns the one with the fewest bytes in the first 1,000
/// dispatches of held-out sessions. `progress` receives the name of each trial.
///
/// # Errors
/// The recording has contents of users, or too few dispatches of this encoding.
pub fn train(
    corpus: &Corpus,
    encoding: Encoding,
    samples_min: Option<usize>,
    mut progress: impl FnMut(&str),
) -> Result<Trained> {
    ensure!(
        corpus.header.scrubbed,
        "the recording has contents of users, and a node serves a dictionary to everybody: record without \
         --with-contents-of-users"
    );
    let [trained_on, held_out] = corpus.split(encoding);
    let samples = samples(&trained_on, encoding)?;
    let samples_min = samples_min.unwrap_or(SAMPLES_MIN);
    ensure!(
        samples.len() >= samples_min,
        "{} dispatches in {} are too few for a dictionary, which needs {samples_min}: record for longer",
        samples.len(),
        encoding.name()
    );
    ensure!(
        !held_out.is_empty(),
        "{} dispatches in {} are too few to hold some out, by which the dictionary is measured: record for longer",
        samples.len(),
        encoding.name()
    );
    let base = measure(Arm::Zstd(ZstdParams::default(), None), encoding, None, &held_out)?;
    let mut best: Option<(Arc<Dictionary>, String, Measured)> = None;
    let mut trials = Vec::new();
    for by in [Training::FastCover, Training::Cover] {
        for bytes in SIZES {
            let name = format!("{} {} KiB", if by == Training::Cover { "COVER" } else { "fastCOVER" }, bytes >> 10);
            progress(&name);
            let Ok(dictionary) = Dictionary::train_by(by, &samples, bytes) else { continue };
            let dictionary = Arc::new(dictionary);
            let arm = Arm::Zstd(ZstdParams::default(), Some(dictionary.id()));
            let measured = measure(arm, encoding, Some(&dictionary), &held_out)?;
            trials.push((name.clone(), measured.young_bytes()));
            if best.as_ref().is_none_or(|(.., best)| measured.young_bytes() < best.young_bytes()) {
                best = Some((dictionary, name, measured));
            }
        }
    }
    let (dictionary, by, measured) = best.context("zstd finds nothing in common in the samples: record for longer")?;
    let by_part = PARTS.iter().enumerate().map(|(at, (name, _))| (*name, [base.by_part[at], measured.by_part[at]]));
    let by_event = base.by_event.iter().map(|(name, sum)| (*name, [*sum, measured.by_event[name]]));
    Ok(Trained { dictionary, by, by_part: by_part.collect(), by_event: by_event.collect(), trials })
}

/// Whole messages, evenly from all of the recording.
fn samples(recorded: &[&Recorded], encoding: Encoding) -> Result<Vec<Vec<u8>>> {
    let bytes: usize = recorded.iter().map(|of| of.message().body.len().min(SAMPLE_BYTES_MAX)).sum();
    let one_in = bytes.div_ceil(SAMPLES_BYTES_MAX).max(1);
    let mut samples = Vec::new();
    for recorded in recorded.iter().step_by(one_in) {
        let message = recorded.message();
        if message.body.len() <= SAMPLE_BYTES_MAX {
            let mut frame = DispatchFrame::from_body(encoding, message.name.as_str(), message.body)?;
            samples.push(frame.write_for(message.seq, Framing::None).to_vec());
        }
    }
    Ok(samples)
}

struct Measured {
    by_part: [Sum; PARTS.len()],
    by_event: BTreeMap<&'static str, Sum>,
}

impl Measured {
    /// Of the first 1,000 dispatches of each session.
    fn young_bytes(&self) -> u64 {
        self.by_part[0].wire_bytes + self.by_part[1].wire_bytes
    }
}

fn measure(
    arm: Arm,
    encoding: Encoding,
    dictionary: Option<&Arc<Dictionary>>,
    recorded: &[&Recorded],
) -> Result<Measured> {
    let known = dictionary.map(|dictionary| KnownDictionary::new(encoding, dictionary.clone()));
    let dictionaries = Dictionaries::new(known.into_iter().collect()).context("one is not too many")?;
    let mut run = ArmRun::new(arm, &[encoding], &dictionaries)?;
    let mut measured = Measured { by_part: Default::default(), by_event: BTreeMap::new() };
    let mut positions = HashMap::<u64, u64>::new();
    for recorded in recorded {
        let sum = run.add(&recorded.message())?;
        let position = positions.entry(recorded.message().session).or_default();
        let part = PARTS.iter().position(|(_, end)| *position < *end).unwrap_or(PARTS.len() - 1);
        *position += 1;
        measured.by_part[part] += sum;
        let of_event = measured.by_event.entry(recorded.message().name.as_str()).or_default();
        if part < PARTS.len() - 1 {
            *of_event += sum;
        }
    }
    Ok(measured)
}

impl Trained {
    /// The tables, as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        for (name, bytes) in &self.trials {
            let mark = if *name == self.by { '*' } else { ' ' };
            let _ =
                writeln!(out, "{mark} {name:<20} {bytes:>12} bytes of the first 1,000 dispatches of held-out sessions");
        }
        let _ = writeln!(
            out,
            "\n{:<34} {:>9} {:>10} {:>10} {:>7}",
            "held-out sessions", "count", "without", "with", "gain"
        );
        let mut row = |name: &str, [without, with]: &[Sum; 2]| {
            if without.count > 0 {
                let each = |sum: &Sum| sum.wire_bytes as f64 / sum.count as f64;
                let gain = 100.0 * (1.0 - with.wire_bytes as f64 / without.wire_bytes.max(1) as f64);
                let count = without.count;
                let _ =
                    writeln!(out, "{name:<34} {count:>9} {:>10.1} {:>10.1} {gain:>6.1}%", each(without), each(with));
            }
        };
        for (name, sums) in &self.by_part {
            row(name, sums);
        }
        let mut events: Vec<_> = self.by_event.iter().collect();
        events.sort_by_key(|(_, [without, _])| std::cmp::Reverse(without.wire_bytes));
        for (name, sums) in events {
            row(name, sums);
        }
        out.push_str(
            "Bytes per dispatch in the published zstd-stream; events: the first 1,000 dispatches of each session.\n",
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Dispatch, FORMAT, Header, RecordingReader, RecordingWriter, VERSION};
    use serde_json::value::RawValue;

    /// A corpus of this many messages of each session, one session after the other.
    fn corpus(messages_count: &[u64]) -> Corpus {
        let mut writer = RecordingWriter::new().unwrap();
        let format = FORMAT.to_owned();
        writer
            .push(&Header { format, version: VERSION, scrubbed: true, private: false, started_at: 1, node: None })
            .unwrap();
        for (session, count) in (0..).zip(messages_count) {
            for seq in 1..=*count {
                let body = RawValue::from_string(format!("{{\"content\":\"text {seq}\"}}")).unwrap();
                let (encoding, event, rule) = ("json".into(), "MESSAGE_CREATE".into(), "public".into());
                writer
                    .push(&Dispatch { at_ms: 1, session, encoding, event, seq, bytes: 1, rule, body: &body })
                    .unwrap();
            }
        }
        writer.flush().unwrap();
        let file = writer.take();
        Corpus::read(&mut RecordingReader::new(&file[..]).unwrap()).unwrap()
    }

    #[test]
    fn too_few_samples_are_an_error() {
        let error = |messages_count: &[u64], samples_min: usize| {
            train(&corpus(messages_count), Encoding::Json, Some(samples_min), |_| ()).unwrap_err().to_string()
        };
        assert!(error(&[20, 20], 100).contains("dispatches in json are too few"), "{}", error(&[20, 20], 100));
        assert!(error(&[3], 1).contains("too few to hold some out"), "{}", error(&[3], 1));
    }

    /// The newest sessions of a busy node end first.
    #[test]
    fn sessions_that_ended_early_are_no_reason_to_refuse_a_recording() {
        let trained = train(&corpus(&[20, 20, 20, 5, 60]), Encoding::Json, Some(10), |_| ()).unwrap();
        assert!(trained.by_event["MESSAGE_CREATE"][0].count > 20, "{trained:?}");
    }
}
