//! Samples of generated traffic, that dictionaries are trained from.
//!
//! Invariants  a sample is a whole message as it is sent, envelope included.
//! Limits      `SAMPLE_BYTES_MAX` per sample; longer messages are skipped: they are sent to one session each, and too
//!             large for a dictionary.
//! Not here    samples of recordings: `train`.

use anyhow::{Context, Result};
use guildhall_codec::{Dictionary, DispatchFrame, Encoding, Framing};
use guildhall_traffic::{Chat, Kind, Params, Traffic, Viewer};

/// Sessions whose messages are samples, and messages of each.
const SESSIONS: u32 = 6;
const MESSAGES: usize = 2000;
const SAMPLE_BYTES_MAX: usize = 16 << 10;
/// Fewer recorded dispatches make no good dictionary: the common parts of a few are chance.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_whole_messages() {
        let samples = samples_of_traffic(Kind::Session, 1, &Chat::built_in(), Encoding::Json).unwrap();
        assert!(samples.len() >= MESSAGES * SESSIONS as usize);
        assert!(samples.iter().all(|sample| sample.starts_with(b"{\"t\":\"") && sample.ends_with(b"}")));
    }
}
