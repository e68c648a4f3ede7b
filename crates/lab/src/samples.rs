//! Samples that dictionaries are trained from.
//!
//! Invariants  a sample is a whole message as it is sent, envelope included.
//! Limits      `SAMPLE_BYTES_MAX` per sample; longer messages are skipped: they are sent to one session each, and too
//!             large for a dictionary.

use crate::anonymous::Anonymizer;
use anyhow::{Context, Result};
use guildhall_codec::{Dictionary, DispatchFrame, Encoding, Framing, transcode_json};
use guildhall_model::EventName;
use guildhall_traffic::{Chat, Kind, Params, Traffic, Viewer};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Sessions whose messages are samples, and messages of each.
const SESSIONS: u32 = 6;
const MESSAGES: usize = 2000;
const SAMPLE_BYTES_MAX: usize = 16 << 10;
/// Fewer recorded dispatches make no good dictionary: what a few of them have in common is chance.
pub const SAMPLES_MIN: usize = 3000;

/// A dictionary for traffic like this.
///
/// # Errors
/// Errors of the codec.
pub fn train_dictionary(
    kind: Kind,
    seed: u64,
    chat: &Chat,
    encoding: Encoding,
    bytes_max: usize,
) -> Result<Dictionary> {
    let samples = samples_of_traffic(kind, seed, chat, encoding)?;
    Dictionary::train(&samples, bytes_max).context("training a dictionary")
}

/// Messages of some sessions in the traffic.
///
/// # Errors
/// Errors of the codec.
pub fn samples_of_traffic(kind: Kind, seed: u64, chat: &Chat, encoding: Encoding) -> Result<Vec<Vec<u8>>> {
    // A node's sessions differ too much for so few samples.
    let kind = if kind == Kind::Node { Kind::Session } else { kind };
    let viewers: Vec<Viewer> = (0..SESSIONS).map(|index| Viewer::new(seed, index)).collect();
    let mut seqs: Vec<u64> = (0..u64::from(SESSIONS)).map(|index| 1 + index * 3271).collect();
    let mut samples = Vec::new();
    for event in Traffic::new(Params { kind, seed, sessions: 0 }, chat.clone()) {
        if samples.len() >= MESSAGES * SESSIONS as usize {
            break;
        }
        let body = match encoding {
            Encoding::Json => &event.body_json,
            Encoding::Etf => &event.body_etf,
        };
        if body.len() > SAMPLE_BYTES_MAX {
            continue;
        }
        let mut frame = DispatchFrame::from_body(encoding, event.name, body)?;
        for (viewer, seq) in viewers.iter().zip(&mut seqs) {
            if viewer.sees(&event) {
                samples.push(frame.write_for(*seq, Framing::None).to_vec());
                *seq += 1;
            }
        }
    }
    Ok(samples)
}

#[derive(Deserialize)]
struct Recorded<'a> {
    t: String,
    s: u64,
    #[serde(borrow)]
    d: &'a RawValue,
}

/// Recorded dispatches, without what identifies anybody (`anonymous`).
#[derive(Debug)]
pub struct Recording {
    /// Name, sequence number and body of each.
    dispatches: Vec<(EventName, u64, Vec<u8>)>,
    /// Dispatches of a backend's own, which are left out: nobody knows what their fields mean.
    pub own_count: usize,
    /// Dispatches that are longer than a sample may be.
    pub long_count: usize,
}

impl Recording {
    /// Reads files with a dispatch a line.
    ///
    /// # Errors
    /// When a line is no dispatch, with its number in its file.
    pub fn read<'a>(texts: impl IntoIterator<Item = &'a str>, seed: u64) -> Result<Self> {
        let mut anonymizer = Anonymizer::new(seed);
        let mut recording = Self { dispatches: Vec::new(), own_count: 0, long_count: 0 };
        for text in texts {
            for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
                let context =
                    || format!("line {number} is no dispatch: expected {{\"t\":\"NAME\",\"s\":1,\"op\":0,\"d\":…}}");
                let recorded: Recorded = serde_json::from_str(line).with_context(context)?;
                let Some(name) = EventName::from_wire(&recorded.t) else {
                    recording.own_count += 1;
                    continue;
                };
                if recorded.d.get().len() > SAMPLE_BYTES_MAX {
                    recording.long_count += 1;
                    continue;
                }
                let body = anonymizer.copy(recorded.d.get()).with_context(context)?;
                recording.dispatches.push((name, recorded.s, body));
            }
        }
        Ok(recording)
    }

    /// Samples by the name of their event, most frequent first.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, usize)> {
        let mut counts = BTreeMap::<_, usize>::new();
        for (name, ..) in &self.dispatches {
            *counts.entry(name.as_str()).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    }

    /// The samples. Snowflakes stay text in ETF, so recordings make a worse dictionary for it.
    ///
    /// # Errors
    /// Errors of the codec.
    pub fn samples(&self, encoding: Encoding) -> Result<Vec<Vec<u8>>> {
        let mut samples = Vec::with_capacity(self.dispatches.len());
        for (name, seq, json) in &self.dispatches {
            let mut etf = Vec::new();
            let body = match encoding {
                Encoding::Json => json,
                Encoding::Etf => {
                    transcode_json(json, &mut etf)?;
                    &etf
                }
            };
            let mut frame = DispatchFrame::from_body(encoding, name.as_str(), body)?;
            samples.push(frame.write_for(*seq, Framing::None).to_vec());
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_whole_messages() {
        let samples = samples_of_traffic(Kind::Session, 1, &Chat::built_in(), Encoding::Json).unwrap();
        assert!(samples.len() >= MESSAGES * SESSIONS as usize);
        assert!(samples.iter().all(|sample| sample.starts_with(b"{\"t\":\"") && sample.ends_with(b"}")));
        let line = String::from_utf8(samples[0].clone()).unwrap();
        let own = r#"{"t":"ROUND_STARTED","s":2,"op":0,"d":{"winner":"alice"}}"#;
        let long = format!(r#"{{"t":"MESSAGE_CREATE","s":3,"op":0,"d":{{"content":"{}"}}}}"#, "x".repeat(20_000));
        let recording = Recording::read([&*format!("{line}\n\n{own}"), &long], 1).unwrap();
        assert_eq!((recording.own_count, recording.long_count), (1, 1));
        assert_eq!(recording.counts().iter().map(|(_, count)| count).sum::<usize>(), 1);
        let json = recording.samples(Encoding::Json).unwrap();
        assert!(json[0].starts_with(&line.as_bytes()[..line.find(",\"d\":").unwrap()]), "{line}");
        assert_ne!(json[0], line.as_bytes());
        let etf = recording.samples(Encoding::Etf).unwrap();
        assert_eq!(etf[0][..2], [131, 116]);
        let error = Recording::read(["{}\n{\"t\":1}"], 1).unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
    }
}
